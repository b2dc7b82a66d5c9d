"""The table that users make, print and save."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._estimators.fitted import model_chosen
from .._estimators.words.subject import subject_of
from .._runtime.checks import check_count
from .._runtime.files import write_whole
from .._runtime.text import documents
from .._runtime.text.documents import Sheet
from ..inference.splitting import SplitIntervals
from ..sharing import coef_by_class, map_of
from .layouts import Layout, is_linear
from .values import Values

LAYOUTS = ("wide", "long", "summary")
MANY_TASKS = 12  # tasks beyond which a column for each does not fit on a page
PER = ("unit", "sd")


@dataclass(frozen=True, eq=False, repr=False)
class CoefficientTable:
    """The coefficients of a model as a table with a caption. Print it, or save it for a paper.

    Attributes
    ----------
    sheet : Sheet
        The header, the numbers, how they are shown, caption and notes.
    caption : str
        What the table is.
    notes : tuple of str
        How its entries are to be read.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.tables import coefficient_table
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(90)
    >>> table = coefficient_table(MSMTFL(0.2, 1.5).fit(X, y, task=task))
    >>> table.to_frame()["feature"].tolist()
    ['(intercept)', 'x0', 'x3']
    """

    sheet: Sheet

    @property
    def caption(self) -> str:
        """What the table is."""
        return self.sheet.caption

    @property
    def notes(self) -> tuple[str, ...]:
        """How the entries are to be read."""
        return self.sheet.notes

    def to_frame(self) -> Any:
        """Return the numbers, with all their digits, as a pandas table.

        Returns
        -------
        DataFrame
            The table; an entry that there is not is missing.
        """
        import pandas as pd

        return pd.DataFrame(list(self.sheet.lines), columns=list(self.sheet.exact or self.sheet.header))

    def to_latex(self) -> str:
        r"""Return LaTeX for ``\\input``, with the rules of the package booktabs.

        Returns
        -------
        str
            A table; a longtable if it has more lines than a page.
        """
        return documents.as_latex(self.sheet)

    def to_html(self) -> str:
        """Return an HTML page that holds the table.

        Returns
        -------
        str
            The page.
        """
        return documents.as_html(self.sheet)

    def to_markdown(self) -> str:
        """Return Markdown.

        Returns
        -------
        str
            The table, below its caption.
        """
        return documents.as_markdown(self.sheet)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a file, whole or not at all.

        Parameters
        ----------
        path : str or path
            The name of the file. Its ending says what to write: .tex, .docx, .html, .md, .csv or .xlsx. CSV and
            Excel hold all digits, the others as many as are shown.
        """
        write_whole(path, self.content(path))

    def content(self, path: str | os.PathLike[str]) -> str | bytes:
        """Return what `save` would write to a file of this name.

        Parameters
        ----------
        path : str or path
            The name of the file.

        Returns
        -------
        str or bytes
            The content of the file.
        """
        return writer_for(path)(self.sheet)

    def __repr__(self) -> str:
        return documents.as_text(self.sheet)

    def _repr_html_(self) -> str:
        return documents.as_html(self.sheet, whole=False)


def writer_for(path: str | os.PathLike[str]) -> Callable[[Sheet], str | bytes]:
    """What writes a file of this name; an error if its ending says nothing."""
    ending = Path(path).suffix.lower()
    if ending not in documents.WRITERS:
        raise ValueError(
            f"{os.fspath(path)}: the ending says what to write: {', '.join(documents.WRITERS)}; got {ending or 'none'!r}."
        )
    return documents.WRITERS[ending]


def coefficient_table(
    model: Any,
    *,
    layout: str | None = None,
    per: str = "unit",
    ratios: bool = False,
    intervals: Any = None,
    intercepts: bool = True,
    unused: bool = False,
    digits: int = 3,
    target: str | None = None,
    caption: str | None = None,
) -> CoefficientTable:
    """Make a table of a fitted model's coefficients that can be published.

    Parameters
    ----------
    model : estimator
        A fitted model of this package, also one from a model file.
    layout : {"wide", "long", "summary"}, optional
        "wide" has a line per feature and a column per task, "long" a line per coefficient, "summary" a line
        per feature: how many tasks use it, its sign, and the median and range of its coefficients. By
        default "wide" up to 12 tasks and "summary" beyond.
    per : {"unit", "sd"}, default="unit"
        Effects of one unit of a feature, or of one standard deviation of it within tasks (`feature_sd_`).
    ratios : bool, default=False
        Whether to show exponentials of the coefficients: odds ratios of a classifier, rate ratios of counts,
        ratios of means of amounts.
    intervals : DebiasedIntervals, Intervals or SplitIntervals, optional
        What :func:`debiased_intervals`, :func:`bootstrap_intervals` or :func:`split_intervals` found: their
        estimates and intervals stand in the table, in place of the model's own coefficients, which its
        penalty shrinks. Two splits go into the layout "long" only.
    intercepts : bool, default=True
        Whether the table has the intercepts, which belong to the model's own coefficients: beside intervals and
        in a summary there are none.
    unused : bool, default=False
        Whether features that no task uses have a line.
    digits : int, default=3
        The number of significant digits shown. Files of CSV and Excel have all.
    target : str, optional
        The name of the target, for the caption; by default that which `msmtfl fit` wrote into the model file.
    caption : str, optional
        The caption; by default it says what the table is.

    Returns
    -------
    CoefficientTable
        The table; `save` writes it to a file.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.tables import coefficient_table
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(90)
    >>> model = MSMTFL(0.2, 1.5).fit(X, y, task=task)
    >>> coefficient_table(model, intercepts=False, target="score")
    Coefficients of MSMTFL for score in 3 tasks (90 samples): the 2 of 8 features that some task uses.
    <BLANKLINE>
    feature  north   south    west
    x0        1.99    1.94    2.12
    x3       -1.01  -0.936  -0.975
    <BLANKLINE>
    Entries: change in score per unit of the feature, all others held fixed.
    The penalty shrinks coefficients; they have no intervals here.
    """
    model = model_chosen(model)
    found, every = map_of(model), coef_by_class(model)
    m = len(found.tasks)
    if layout is None:
        layout = "wide" if m * every.shape[1] <= MANY_TASKS else "summary"
    for name, value, known in (("layout", layout, LAYOUTS), ("per", per, PER)):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}.")
    check_count("digits", digits)
    if ratios and every.shape[1] == 1 and is_linear(model):
        raise ValueError(
            f"ratios are of classifiers and of models of counts: what this {type(model).__name__} predicts is a sum, and "
            "exponentials of its coefficients mean nothing. Leave the option out."
        )
    if isinstance(intervals, SplitIntervals) and layout != "long":
        raise ValueError('split_intervals gives two answers per coefficient: they stand in layout="long" only.')
    subject = subject_of(model, target)
    table = Layout(
        model=model,
        found=found,
        values=Values.of(model, every, found, intervals, per, ratios),
        features=found.order if unused else found.order[found.n_tasks[found.order] > 0],
        digits=digits,
        target=subject.target,
        per=per,
        ratios=ratios,
        intercepts=intercepts and layout != "summary" and intervals is None,
        intervals=intervals,
        subject=subject,
    )
    make = {"wide": table.wide, "long": table.long, "summary": table.summary}[layout]
    return CoefficientTable(make(table.caption(layout == "summary") if caption is None else caption))
