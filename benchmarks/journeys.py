"""Ten journeys of new users, with the commands that they type: how long until the first useful result?

    make journeys                                  # all, in the project's environment
    python benchmarks/journeys.py clean classes    # some of them

Each journey makes its table first (that is not timed), then runs at most five commands in an empty folder, as a person
would, and stops at the first that fails. Without --show only the last lines that the commands print are shown.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

LONGEST = 600.0  # seconds that one command may take


@dataclass(frozen=True)
class Journey:
    """A table to start from, and what is typed."""

    name: str
    story: str
    prepare: Callable[[Path], None]
    commands: tuple[str, ...]
    useful: int = 1  # after so many commands there is a first useful result
    needs: str = ""  # a package that is not in the extra `cli`


def patients(rows: int = 840, towns: int = 12, seed: int = 0) -> pd.DataFrame:
    """Scores of patients in towns: four features matter everywhere, two in some towns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 10))
    town = np.arange(rows) % towns
    effects = np.zeros((towns, 10))
    effects[:, :4] = (1.0, -0.8, 0.6, 0.5) + 0.2 * rng.standard_normal((towns, 4))
    effects[: towns // 3, 4:6] = 0.7
    table = pd.DataFrame(X, columns=["age", "dose", "weight", "pressure", *(f"marker{j}" for j in range(6))])
    table["town"] = [f"town {t + 1}" for t in town]
    table["score"] = (X * effects[town]).sum(axis=1) + 5.0 + rng.standard_normal(rows)
    return table.round(4)


def clean(folder: Path) -> None:
    patients().to_csv(folder / "scores.csv", index=False)


def messy(folder: Path) -> None:
    """Semicolons, decimal commas, accents that are not UTF-8, missing values, two spellings of a town, a text column."""
    table = patients()
    table["sexe"] = np.where(np.random.default_rng(3).random(len(table)) < 0.5, "féminin", "masculin")
    table.loc[::37, "dose"] = np.nan
    table.loc[5, "town"] = "Town 6"
    table.to_csv(folder / "scores.csv", index=False, sep=";", decimal=",", encoding="latin-1")


def workbook(folder: Path) -> None:
    patients().to_excel(folder / "scores.xlsx", index=False)


def mines(folder: Path) -> None:
    """29 fields, some 6 % of the rows are mines, and fields without any."""
    rng = np.random.default_rng(1)
    X, field = rng.standard_normal((2900, 9)), np.repeat(np.arange(29), 100)
    level = -3.3 + 0.5 * rng.standard_normal(29)
    chance = 1.0 / (1.0 + np.exp(-(X[:, :3].sum(axis=1) + level[field])))
    table = pd.DataFrame(X.round(4), columns=[f"f{j}" for j in range(9)])
    table["field"], table["mine"] = field, np.where(rng.random(2900) < chance, "yes", "no")
    table.loc[field == 0, "mine"] = "no"
    table.to_csv(folder / "mines.csv", index=False)


def counts(folder: Path) -> None:
    rng = np.random.default_rng(2)
    X, town = rng.standard_normal((900, 6)), np.arange(900) % 15
    years = np.exp(0.5 * rng.standard_normal(900))
    table = pd.DataFrame(X.round(4), columns=["age", "smoking", "income", "noise", "green", "traffic"])
    table["town"], table["years"] = town, years.round(3)
    table["cases"] = rng.poisson(years * np.exp(0.3 + 0.5 * X[:, 0] + 0.4 * X[:, 1]))
    table.to_csv(folder / "cases.csv", index=False)


def large(folder: Path) -> None:
    """Ten Parquet files, 400 MB together."""
    (folder / "parts").mkdir()
    for part in range(10):
        rng = np.random.default_rng(part)
        X = rng.standard_normal((100_000, 50))
        table = pd.DataFrame(X, columns=[f"x{j}" for j in range(50)])
        table["machine"] = rng.integers(0, 20, len(table))
        table["wear"] = X[:, :5].sum(axis=1) + rng.standard_normal(len(table))
        table.to_parquet(folder / "parts" / f"{part}.parquet")


PIPELINE = """
import pandas as pd
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from msmtfl import MSMTFLCV, TaskKFold
table = pd.read_csv("scores.csv")
X, y = table.drop(columns=["score", "town"]), table["score"]
import sklearn
sklearn.set_config(enable_metadata_routing=True)
model = make_pipeline(StandardScaler(), MSMTFLCV().set_fit_request(task=True).set_score_request(task=True))
folds = TaskKFold(5, task=table["town"], random_state=0)
scores = cross_val_score(model, X, y, cv=folds, params={"task": table["town"]})
print("R2 in five folds:", scores.round(3))
"""

NOTEBOOK = """
import pandas as pd
from msmtfl import MultiTaskAuto
table = pd.read_csv("scores.csv")
model = MultiTaskAuto(task_column="town").fit(table.drop(columns="score"), table["score"])
print(model.summary())
with open("card.html", "w", encoding="utf-8") as file:
    file.write(model._repr_html_())
"""


def script(text: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        clean(folder)
        (folder / "work.py").write_text(text, encoding="utf-8")

    return prepare


def new_town(folder: Path) -> None:
    table = patients(towns=13)
    new = table["town"] == "town 13"
    table[~new].to_csv(folder / "scores.csv", index=False)
    table[new].to_csv(folder / "new.csv", index=False)


SCORES = "--target score --task town"
FIT = f"msmtfl fit scores.csv {SCORES} --out model.msmtfl"
JOURNEYS = (
    Journey("clean", "a clean CSV file", clean, (f"{FIT} --report page.html", "msmtfl inspect model.msmtfl")),
    Journey(
        "messy",
        "a CSV file with semicolons, decimal commas, accents, missing values and text",
        messy,
        (f"{FIT} --one-hot --impute mean --report page.html",),
    ),
    Journey("workbook", "an Excel workbook", workbook, (FIT.replace(".csv", ".xlsx"),), needs="openpyxl"),
    Journey(
        "classes",
        "rare classes, some tasks without any",
        mines,
        (
            "msmtfl fit mines.csv --target mine --task field --classify --balanced --intercepts shrunk --out model.msmtfl "
            "--report page.html",
            "msmtfl predict model.msmtfl mines.csv --out chances.csv",
        ),
    ),
    Journey(
        "counts",
        "counts with an exposure",
        counts,
        (
            "msmtfl fit cases.csv --target cases --task town --loss poisson --exposure years --model msmtfl "
            "--out model.msmtfl --report page.html",
        ),
    ),
    Journey(
        "large",
        "a folder of Parquet files, 400 MB",
        large,
        ("msmtfl fit parts --target wear --task machine --model lasso --out model.msmtfl",),
    ),
    Journey("pipeline", "a scikit-learn Pipeline", script(PIPELINE), ("python work.py",)),
    Journey("notebook", "the cells of a notebook", script(NOTEBOOK), ("python work.py",)),
    Journey(
        "new task",
        "predictions for a town that the model has not seen",
        new_town,
        (
            f"msmtfl compare scores.csv {SCORES} --models shared,lasso,pooled-lasso --leave-one-task-out",
            f"{FIT} --model shared",
            "msmtfl predict model.msmtfl new.csv --unknown-task common --out predictions.csv",
        ),
    ),
    Journey(
        "paper",
        "a table and a figure for a paper",
        clean,
        (
            FIT,
            "msmtfl table model.msmtfl --out table.tex",
            "msmtfl table model.msmtfl --out table.csv",
            "msmtfl plot model.msmtfl coefficients --out figure.pdf",
        ),
        useful=2,
    ),
)


def run(journey: Journey, show: bool = False) -> dict[str, object]:
    """Make the table and type the commands; seconds until there is something useful, and in all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        journey.prepare(folder)
        began, useful = time.perf_counter(), None
        for place, command in enumerate(journey.commands, 1):
            print(f"  $ {command}", flush=True)
            done = subprocess.run(
                as_typed(command), cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=LONGEST
            )
            lines = (done.stdout + done.stderr).strip().splitlines()
            print("".join(f"    {line}\n" for line in (lines if show or done.returncode else lines[-4:])), flush=True)
            if done.returncode:
                return {"journey": journey.name, "failed": command}
            if place == journey.useful:
                useful = time.perf_counter() - began
        files = sorted(path.name for path in folder.iterdir() if path.is_file())
        return {"journey": journey.name, "useful": useful, "all": time.perf_counter() - began, "files": files}


def as_typed(command: str) -> list[str]:
    """By this Python, whatever the search path is."""
    first, *words = command.split()
    return [sys.executable, *(["-m", "msmtfl"] if first == "msmtfl" else []), *words]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(f"'{one.name}'" for one in JOURNEYS) + "; default: all")
    parser.add_argument("--show", action="store_true", help="everything that the commands print")
    given = parser.parse_args()
    unknown = set(given.names) - {one.name for one in JOURNEYS}
    if unknown:
        parser.error(f"no journey {', '.join(sorted(unknown))}")
    os.environ.setdefault("COLUMNS", "100")
    rows = []
    for journey in JOURNEYS:
        if given.names and journey.name not in given.names:
            continue
        print(f"{journey.name}: {journey.story}", flush=True)
        try:
            if journey.needs:
                __import__(journey.needs)
        except ImportError:
            print(f"  left out: it needs {journey.needs}\n")
            continue
        rows.append(run(journey, given.show))
    print(f"{'journey':12}{'first result':>14}{'all':>9}")
    for row in rows:
        if "failed" in row:
            print(f"{row['journey']!s:12}{'FAILED':>14}  {row['failed']}")
        else:
            print(f"{row['journey']!s:12}{row['useful']:12.1f} s{row['all']:7.1f} s")
    sys.exit(any("failed" in row for row in rows))


if __name__ == "__main__":
    main()
