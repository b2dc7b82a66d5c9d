"""A report of a fitted model or a comparison: one HTML file that needs nothing else.

`facts.py`, `contest.py` and `sentences.py` say what is in it, `charts.py` and `pictures.py` draw, `page.py` fills in the
template; `style.css` and `script.js` go into the file as they are. Bokeh, which draws what moves, goes into it, too.
"""

from __future__ import annotations

import os
from typing import Any

from .._estimators.base import model_chosen
from .._runtime.files import write_whole
from ..compare.auto import choice_of
from ..compare.comparison import Comparison
from . import page
from .facts import ModelFacts

__all__ = ["report_html", "write_report"]


def report_html(
    result: Any, *, title: str | None = None, command: str | None = None, comparison: Comparison | None = None
) -> str:
    """Return the text of the file that :func:`write_report` writes.

    Parameters
    ----------
    result : estimator or Comparison
        A fitted model of this package, also from :func:`msmtfl.model_files.load_model`, or what
        :func:`compare_models` returned. For a :class:`MultiTaskAuto` the model that it chose, why, and its
        comparison are shown.
    title : str, optional
        The heading; by default made of the numbers of tasks and features.
    command : str, optional
        The command line that made the result, to be shown under "How to reproduce".
    comparison : Comparison, optional
        What :func:`compare_models` returned for the same data, to be shown beside a model.

    Returns
    -------
    str
        The HTML page.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.report import report_html
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat(["north", "south", "west"], 30)
    >>> text = report_html(MSMTFL(0.1, 1.5).fit(X, 2 * X[:, 0], task=task), title="Three sites")
    >>> "<title>Three sites</title>" in text
    True
    """
    reason, model = choice_of(result).get("choice", {}).get("reason"), model_chosen(result)
    if isinstance(result, Comparison):
        if comparison is not None:
            raise ValueError("result is a comparison already: leave comparison= out.")
        return page.render(None, result, title, command)
    if comparison is not None and not isinstance(comparison, Comparison):
        raise TypeError(f"comparison must be what compare_models returns, not {type(comparison).__name__}.")
    if model is not result:
        comparison = comparison or getattr(result, "comparison_", None)
    alone = comparison is not None and reason is not None and not hasattr(model, "stages_")  # a baseline was chosen
    return page.render(None if alone else ModelFacts(model), comparison, title, command, reason)


def write_report(
    result: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    command: str | None = None,
    comparison: Comparison | None = None,
) -> None:
    """Write a report: one HTML file that opens offline, in any browser, and can be printed or sent.

    It says in words what was found, and shows the coefficients stage by stage, the features, errors by
    task, the choice of the parameters, what is proven, and how to do it again. It is made from the result
    alone, without data. Long tables and large maps show the strongest features and say so. It needs bokeh,
    jinja2 and matplotlib (extra "report").

    Parameters
    ----------
    result : estimator or Comparison
        A fitted model of this package, also from :func:`msmtfl.model_files.load_model`, or what
        :func:`compare_models` returned. For a :class:`MultiTaskAuto` the model that it chose, why, and its
        comparison are shown.
    path : path or str
        The file to write; it appears when it is complete.
    title : str, optional
        The heading; by default made of the numbers of tasks and features.
    command : str, optional
        The command line that made the result, to be shown under "How to reproduce".
    comparison : Comparison, optional
        What :func:`compare_models` returned for the same data, to be shown beside a model.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.report import write_report
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 20)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.1 * rng.standard_normal(90)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "report.html")
    ...     write_report(MSMTFL().fit(X, y, task=task), path, title="Three hospitals")
    ...     os.path.getsize(path) < 3e6
    True
    """
    write_whole(path, report_html(result, title=title, command=command, comparison=comparison))
