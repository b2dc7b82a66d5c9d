"""What other projects document, for links to it: intersphinx with inventories that are written here, as the build fetches
nothing from the network. A name on a page that is listed here, with its module or without, becomes a link."""

from __future__ import annotations

import zlib
from pathlib import Path

ELSEWHERE = {  # project: where its documentation is, the page of a name there, the names
    "scikit-learn": (
        "https://scikit-learn.org/stable/",
        "modules/generated/{name}.html#{name}",
        [
            "sklearn.inspection.PartialDependenceDisplay",
            "sklearn.linear_model.ElasticNet",
            "sklearn.linear_model.Lasso",
            "sklearn.linear_model.LassoCV",
            "sklearn.linear_model.LogisticRegression",
            "sklearn.linear_model.MultiTaskLassoCV",
            "sklearn.linear_model.PoissonRegressor",
            "sklearn.linear_model.Ridge",
            "sklearn.linear_model.RidgeCV",
            "sklearn.model_selection.GridSearchCV",
            "sklearn.model_selection.KFold",
            "sklearn.model_selection.LearningCurveDisplay",
            "sklearn.pipeline.Pipeline",
            "sklearn.preprocessing.StandardScaler",
        ],
    ),
    "pandas": ("https://pandas.pydata.org/docs/", "reference/api/{name}.html#{name}", ["pandas.DataFrame"]),
}
PAGES = {
    name: (project, where + page.format(name=name))
    for project, (where, page, names) in ELSEWHERE.items()
    for name in names
}
FULL_NAMES = {name.rpartition(".")[2]: name for name in PAGES} | {name: name for name in PAGES}


def page_of(text: str) -> tuple[str, str] | None:
    """(project, address) of what a name on a page stands for, or None."""
    return PAGES.get(FULL_NAMES.get(text, ""))


def inventories(folder: Path) -> dict[str, tuple[str, str]]:
    """Intersphinx's mapping, with an inventory of every project in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    out = {}
    for project, (where, page, names) in ELSEWHERE.items():
        lines = "".join(f"{name} py:class 1 {page.format(name=name)} -\n" for name in names)
        head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
        head += "# The remainder of this file is compressed using zlib.\n"
        file = folder / f"{project}.inv"
        file.write_bytes(head.encode() + zlib.compress(lines.encode()))
        out[project] = (where, str(file))
    return out
