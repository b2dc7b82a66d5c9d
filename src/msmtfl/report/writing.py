"""A report of a fitted model or a comparison: one HTML file that needs nothing else.

`subject.py` knows what target and tasks are called, `facts.py`, `samples.py` and `sureness.py` what is known of a model,
`answer.py`, `sentences.py` and the modules of tables say it, `task_view.py`, `charts.py` and `pictures.py` draw, `page.py`
fills in the template; `style.css` and `script.js` go into the file as they are. Bokeh, which draws what moves, goes into it,
too.
"""

from __future__ import annotations

import os
from typing import Any

from .._estimators.fitted import choice_of, model_chosen, of_survival
from .._estimators.words.subject import subject_named, subject_of
from .._runtime.files import write_whole
from ..compare.comparison import Comparison
from ..inference.shared import SharedFeatures
from ..sharing import coef_by_class
from .known.facts import ModelFacts
from .known.lifetimes import read_lifetimes
from .known.samples import read_samples
from .known.sureness import cheap_intervals, sureness_of
from .page import render


def report_html(
    result: Any,
    *,
    title: str | None = None,
    command: str | None = None,
    comparison: Comparison | None = None,
    X: Any = None,
    y: Any = None,
    task: Any = None,
    sample_weight: Any = None,
    offset: Any = None,
    target: str | None = None,
    task_name: str | None = None,
    intervals: Any = None,
    shared: SharedFeatures | None = None,
    left_out: str | None = None,
) -> str:
    """Return the text of the file that :func:`write_report` writes.

    Parameters
    ----------
    result : estimator or Comparison
        A fitted model of this package, also from :func:`msmtfl.model_files.load_model`, or what
        :func:`compare_models` returned. For a :class:`MultiTaskAuto` the model that it chose, why, and its
        comparison are shown.
    title : str, optional
        The heading; by default it names the target and the tasks.
    command : str, optional
        The command line that made the result, to be shown under "How to reproduce".
    comparison : Comparison, optional
        What :func:`compare_models` returned for the same data, to be shown beside a model.
    X : DataFrame, ndarray or sparse matrix of shape (N, d), optional
        The samples of the fit, or others, in the form that was given to `fit`. With them the page shows
        observed against predicted values, residuals and, of classifiers, ROC curves, calibration and
        confusion. A model that was cross-validated, and not read from a file, predicts the samples of its fit without
        their folds; the page says which predictions it shows.
    y : array-like of shape (N,) or (N, m), optional
        Their targets.
    task : array-like of shape (N,), optional
        The label of the task of every sample, if `fit` was given labels.
    sample_weight : array-like of shape (N,) or (N, m), optional
        Their weights, as they were given to `fit`.
    offset : array-like of shape (N,) or (N, m), optional
        Their offsets, if the model was fitted with offsets.
    target : str, optional
        What the target is called on the page; by default the name of `y`, or of the target's column if the
        model comes from a file that the command wrote.
    task_name : str, optional
        What a task is called, such as "school"; by default the name of the task column.
    intervals : SplitIntervals, DebiasedIntervals, Intervals or DataFrame, optional
        Intervals of the coefficients, from :func:`split_intervals`, :func:`debiased_intervals` or
        :func:`bootstrap_intervals`. By default those of least squares on all features, where `X` and `y` are
        given and every task has at least twice as many samples as features.
    shared : SharedFeatures, optional
        What :func:`msmtfl.shared_features` returned for the same data.
    left_out : str, optional
        What was left out of the data before the fit, in a sentence, to be shown on the page.

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
        return render(None, result, title, command, subject=subject_named(target, task_name))
    if comparison is not None and not isinstance(comparison, Comparison):
        raise TypeError(f"comparison must be what compare_models returns, not {type(comparison).__name__}.")
    if shared is not None and not isinstance(shared, SharedFeatures):
        raise TypeError(f"shared must be what shared_features returns, not {type(shared).__name__}.")
    if (X is None) != (y is None):
        raise ValueError("give X and y together, the samples and their targets, or neither.")
    if model is not result:
        comparison = comparison or getattr(result, "comparison_", None)
    coef_by_class(model)  # an error where it is no fitted model
    rows = X is not None and not of_survival(model)  # whose targets are no predictions' equals
    samples = read_samples(model, X, y, task, sample_weight, offset) if rows else None
    times = X is not None and of_survival(model)
    lifetimes = read_lifetimes(model, X, y, task, sample_weight, offset) if times else None
    sure = None if intervals is None else sureness_of(model, intervals)
    if sure is None and samples is not None:
        sure = cheap_intervals(model, samples, X, y, task, sample_weight)
    facts = ModelFacts(model, subject_of(model, target, task_name, y), samples, sure, lifetimes)
    return render(facts, comparison, title, command, reason, shared, left_out)


def write_report(
    result: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    command: str | None = None,
    comparison: Comparison | None = None,
    X: Any = None,
    y: Any = None,
    task: Any = None,
    sample_weight: Any = None,
    offset: Any = None,
    target: str | None = None,
    task_name: str | None = None,
    intervals: Any = None,
    shared: SharedFeatures | None = None,
    left_out: str | None = None,
) -> None:
    """Write a report: one HTML file that opens offline, in any browser, and can be printed or sent.

    It begins with what predicts the target, how well, and how sure that is, in the words of the data; then
    come the features, one task at a time, what sharing gained and, last, the method, its parameters and what
    is proven. It is made from the result alone; with `X` and `y` it shows more. Long tables and large maps
    show the strongest features and say so. It needs bokeh, jinja2 and matplotlib (extra "report").

    Parameters
    ----------
    result : estimator or Comparison
        A fitted model of this package, also from :func:`msmtfl.model_files.load_model`, or what
        :func:`compare_models` returned. For a :class:`MultiTaskAuto` the model that it chose, why, and its
        comparison are shown.
    path : path or str
        The file to write; it appears when it is complete.
    title : str, optional
        The heading; by default it names the target and the tasks.
    command : str, optional
        The command line that made the result, to be shown under "How to reproduce".
    comparison : Comparison, optional
        What :func:`compare_models` returned for the same data, to be shown beside a model.
    X : DataFrame, ndarray or sparse matrix of shape (N, d), optional
        The samples of the fit, or others, in the form that was given to `fit`. With them the page shows
        observed against predicted values, residuals and, of classifiers, ROC curves, calibration and
        confusion. A model that was cross-validated, and not read from a file, predicts the samples of its fit without
        their folds; the page says which predictions it shows.
    y : array-like of shape (N,) or (N, m), optional
        Their targets.
    task : array-like of shape (N,), optional
        The label of the task of every sample, if `fit` was given labels.
    sample_weight : array-like of shape (N,) or (N, m), optional
        Their weights, as they were given to `fit`.
    offset : array-like of shape (N,) or (N, m), optional
        Their offsets, if the model was fitted with offsets.
    target : str, optional
        What the target is called on the page; by default the name of `y`, or of the target's column if the
        model comes from a file that the command wrote.
    task_name : str, optional
        What a task is called, such as "school"; by default the name of the task column.
    intervals : SplitIntervals, DebiasedIntervals, Intervals or DataFrame, optional
        Intervals of the coefficients, from :func:`split_intervals`, :func:`debiased_intervals` or
        :func:`bootstrap_intervals`. By default those of least squares on all features, where `X` and `y` are
        given and every task has at least twice as many samples as features.
    shared : SharedFeatures, optional
        What :func:`msmtfl.shared_features` returned for the same data.
    left_out : str, optional
        What was left out of the data before the fit, in a sentence, to be shown on the page.

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
    text = report_html(
        result,
        title=title,
        command=command,
        comparison=comparison,
        X=X,
        y=y,
        task=task,
        sample_weight=sample_weight,
        offset=offset,
        target=target,
        task_name=task_name,
        intervals=intervals,
        shared=shared,
        left_out=left_out,
    )
    write_whole(path, text)
