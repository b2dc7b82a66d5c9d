"""The contest of models: all are fitted on the same folds and predict the same rows; those that clearly lose may drop out.

What comes of it is a `Comparison`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._data.copies import RepeatedSamplesWarning, groups_of
from .._data.tables import check_finite, choices_of, names_of, warn_user
from .._data.tasks import TaskData, read_training
from .._estimators.base import MultiTaskModel, NewTaskWarning, TaskLevelWarning, warn_of_task_level
from .._estimators.classes import class_folds, read_classes
from .._estimators.families import compared_variants
from .._paths.choice import GridEndWarning, TooGoodWarning
from .._paths.cross_validation import Split, read_splits
from .._runtime.checks import check_count, check_flag, check_n_jobs, check_verbose
from .._runtime.progress import Progress, one_blas_thread
from .._runtime.threads import each
from .._solvers.make_problem import make_problem
from .comparison import REFERENCE, Comparison, Dropped
from .scoring import Cells, Classes, Numbers

HOPELESS, MARGIN = 2.5, 0.05  # standard errors, and share of the error, by which a model that is screened out loses
SAID_ELSEWHERE = (  # of all rows, here or by the result; or of a search inside, which shows in the error
    *(RepeatedSamplesWarning, TaskLevelWarning, TooGoodWarning, NewTaskWarning, GridEndWarning),
)
FEWEST = 5  # rows (groups) held out so far without which standard errors mean little


def default_models(
    *, cv: int = 5, standardize: bool = False, random_state: Any = 0, classify: bool = False
) -> dict[str, Any]:
    """The paper's four models, the one with common values, and what an analyst would try first; all choose their parameters
    by cross-validation. Of classifiers those that there are, with the logistic loss."""
    common = {"standardize": standardize, "unknown_task": "mean", "cv": cv, "random_state": random_state}
    found = compared_variants(classify)
    return {name: family.search(**variant.options, **common) for name, (family, variant) in found.items()}


def compare_models(
    X: Any,
    y: Any,
    *,
    task: Any = None,
    task_column: str | int | None = None,
    sample_weight: Any = None,
    groups: Any = None,
    models: Any = None,
    reference: str | None = None,
    classify: bool | None = None,
    cv: Any = 5,
    inner_cv: int = 5,
    standardize: bool = False,
    leave_one_task_out: bool = False,
    screen: bool = False,
    random_state: Any = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> Comparison:
    """Compare models that share and models that do not, on the same held-out samples.

    Every model is fitted on the training samples of each outer fold, where it chooses its parameters by its
    own inner cross-validation, and predicts the samples held out.

    Parameters
    ----------
    X : DataFrame, ndarray or sparse matrix of shape (N, d)
        Samples of all tasks. A table or an array may have a column that identifies the task
        (see `task_column`).
    y : array-like of shape (N,) or (N, m)
        Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
        means not measured.
    task : array-like of shape (N,), optional
        The label of the task of every sample, if the tasks are not a column of X.
    task_column : str or int, optional
        The column of X that identifies the task.
    sample_weight : array-like of shape (N,) or (N, m), optional
        Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
    groups : array-like of shape (N,) or "identical", optional
        Labels of groups: samples of one group (a patient, a speaker) stay together, in outer and inner
        folds; standard errors are of groups. "identical": samples with the same features are a group.
    models : list of str or dict {name: estimator}, optional
        The models. By default "lasso" (one per task), "l12", "dirty", "msmtfl" (the paper's), "bi-level",
        "shared" (common values and deviations), "ridge per task", "pooled lasso" and "pooled ridge" (one
        model for all tasks, each with its own intercept). Any estimator with ``fit(X, y, task=...)`` and
        ``predict(X, task=...)`` may take part.
    reference : str, optional
        The model that others are compared with; by default "lasso", if it takes part, else the first.
    classify : bool, optional
        Whether y holds classes. By default it does if the models given are classifiers (have
        `predict_proba`). Then models by name are logistic regressions: "lasso" (l1 penalty, one per task),
        "msmtfl", "bi-level", "ridge per task" (l2), "pooled lasso" and "pooled ridge"; folds are
        stratified by task and class; errors are log-losses relative to that of predicting a task's class
        shares (1 = knows nothing), and two classes have an AUC per task.
    cv : int, splitter or iterable of (train, test), default=5
        The outer folds. A number means that many folds stratified by task (:class:`TaskKFold`); with a 2-D
        y a sample is held out in all tasks at once. Repeated folds are welcome.
    inner_cv : int, default=5
        Number of inner folds, for the models given by name.
    standardize : bool, default=False
        Whether the models given by name penalise every task's columns as if they were scaled to unit
        standard deviation.
    leave_one_task_out : bool, default=False
        Whether to fit also without each task in turn and predict it with the mean coefficients of the
        others.
    screen : bool, default=False
        Whether to drop after each fold the models that are clearly worse than the best on the folds so far
        (by more than two and a half standard errors, by more than 5 %, and in more tasks than not), but
        for the reference: `dropped` of the result names them. This saves most of the time where slow
        models lose.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that deals out the samples to folds.
    n_jobs : int, optional
        Number of threads, which work on outer folds side by side; on models while they are screened.
    verbose : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    Comparison
        The errors and what they allow to conclude. Print it; `summary()`, `to_frame()` and `plot()` say
        more.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import compare_models
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((120, 20)), np.repeat(["north", "south", "west"], 40)
    >>> y = 2 * X[:, 0] - X[:, 3] + rng.standard_normal(120)
    >>> result = compare_models(X, y, task=task, models=["lasso", "pooled lasso"])
    >>> result.best
    'pooled lasso'
    >>> bool(result.difference[1] < 0)
    True

    Classes, by classifiers:

    >>> ill = np.where(y + rng.logistic(size=120) > 1, "ill", "well")
    >>> result = compare_models(X, ill, task=task, models=["lasso", "pooled lasso"], classify=True)
    >>> result.best, result.auc_by_task.shape
    ('pooled lasso', (2, 3))
    """
    for name, flag in {"leave_one_task_out": leave_one_task_out, "standardize": standardize, "screen": screen}.items():
        check_flag(name, flag)
    check_count("inner_cv", inner_cv)
    check_n_jobs(n_jobs)
    check_verbose(verbose)
    classify = _classifies(models, classify)
    options = {"cv": inner_cv, "standardize": standardize, "random_state": random_state}
    chosen = read_models(models, default_models(**options, classify=classify))
    names = list(chosen)
    if reference is None:
        reference = REFERENCE if REFERENCE in chosen else names[0]
    if reference not in chosen:
        raise ValueError(f"reference={reference!r} is not among the models: {choices_of(reference, names)}.")
    given = {"task": task, "task_column": task_column, "sample_weight": sample_weight}
    kind: Numbers | Classes = Numbers()
    if classify:
        classes, _, data = read_classes(X, y, **given)
        kind = Classes(classes)
        if isinstance(cv, (int, np.integer)) and cv >= 2:
            cv = class_folds(data, classes, int(cv), random_state, groups)
    else:
        data = read_training(X, y, **given)
    check_finite(data.X, data.features, "X")
    splits = read_splits(cv, X, y, groups, data, random_state)
    rows = Cells(data, kind, sample_weight, None if groups is None else groups_of(groups, data.X))
    if leave_one_task_out and classify:
        raise ValueError("leave_one_task_out is for numbers only: leave it out, or compare regressions of 0 and 1.")
    if leave_one_task_out and data.m < 2:
        raise ValueError("leave_one_task_out needs at least two tasks.")
    for name, model in chosen.items():
        _check_signature(name, model, data.form == "long", sample_weight is not None)
    if not isinstance(models, Mapping):
        _check_inner(data, splits, rows.groups, inner_cv)
    used = data.membership.any(axis=1)
    kept = dict(chosen)
    dropped: dict[str, Dropped] = {}
    new_tasks = range(data.m) if leave_one_task_out else range(0)

    def compared(folds: list[list[Any]], new: list[list[Any]]) -> Comparison:
        tried = splits[: len(folds)]
        ever = used & np.any([split.test for split in tried], axis=0)
        trained = np.mean([(split.train & used).sum() for split in tried])
        found = rows.gather(folds, list(kept))
        seen = np.isfinite(found.errors).all(axis=0)
        if not seen.any():
            raise ValueError("no row was held out by cv.")
        return Comparison(
            models=list(kept),
            reference=reference,
            tasks=data.labels,
            errors=found.errors[:, seen],
            cell_task=rows.cell_task[seen],
            cell_weight=rows.cell_weight[seen],
            cell_cluster=rows.cell_cluster[seen],
            unit=rows.unit,
            rounding=rows.rounding,
            means=rows.of_means(tried)[seen],
            n_features=found.n_features,
            seconds=found.seconds,
            n_splits=len(splits),
            rows=np.array([len(task.rows) for task in data.tasks]),
            held_per_trained=float(ever.sum() / trained),
            measure=kind.measure,
            auc_by_task=found.auc,
            new_task=np.array(new).transpose(1, 0, 2) if new else None,
            screened=dropped,
        )

    steps = (len(splits) + len(new_tasks)) * len(chosen)
    with one_blas_thread(), Progress(steps, "fits", verbose) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of inner models; a model that fails shows in its error
        warnings.filterwarnings("ignore", "the targets of task")  # said once, below
        warnings.filterwarnings("ignore", "task.* have fewer rows of a class")  # as outside
        for said in SAID_ELSEWHERE:
            warnings.simplefilter("ignore", said)

        def fitted(work: Callable[[Any, Any], Any], model: Any, what: Any) -> Any:
            out = work(model, what)
            progress.step()
            return out

        def all_models(work: Callable[[Any, Any], Any], whats: Sequence[Any]) -> list[list[Any]]:
            return each(lambda what: [fitted(work, one, what) for one in kept.values()], whats, n_jobs, progress.stop)

        def on_fold(split: Any) -> list[Any]:
            return each(lambda one: fitted(rows.held_out, one, split), list(kept.values()), n_jobs, progress.stop)

        folds: list[list[Any]] = []
        while screen and len(folds) < len(splits) - 1 and len(kept) > 2:
            folds.append(on_fold(splits[len(folds)]))
            lost = _clearly_worse(compared(folds, []), len(folds))
            folds = [[part for name, part in zip(kept, fold, strict=True) if name not in lost] for fold in folds]
            kept = {name: model for name, model in kept.items() if name not in lost}
            dropped |= lost
            progress.step((steps // len(chosen) - len(folds)) * len(lost))
        folds += all_models(rows.held_out, splits[len(folds) :])
        new = all_models(rows.new_task, new_tasks)
    if any(isinstance(model, MultiTaskModel) and getattr(model, "fit_intercept", True) for model in chosen.values()):
        whole = make_problem(data, fit_intercept=True, standardize=False, positive=False)
        warn_of_task_level(data.features[whole.of_task_level])
    if (rows.unit == 0).any():
        flat = data.labels[rows.unit == 0].tolist()
        warn_user(f"the targets of task(s) {names_of(flat)} are constant: they are left out of the comparison.")
    return compared(folds, new)


def _clearly_worse(so_far: Comparison, folds: int) -> dict[str, Dropped]:
    """The models that lose on the folds so far by so much that others would not change it. Both by the variances of tasks as
    they are and with those of small tasks steadied: the best need not be the same."""
    names, lost = so_far.models, np.ones(len(so_far.models), dtype=bool)
    if so_far.n_clusters < FEWEST:
        return {}
    for one in (so_far, so_far.steadied):
        paired = replace(one, reference=one.best)
        lost &= (paired.difference > HOPELESS * paired.se) & (one.error > (1.0 + MARGIN) * one.error.min())
        lost &= [paired.evidence(name).worse for name in names]
    lost[names.index(so_far.reference)] = False
    lost[np.argsort(so_far.error)[:2]] = False  # one model is no comparison
    paired = replace(so_far, reference=so_far.best)
    return {
        name: Dropped(
            error=float(so_far.error[k]),
            rival=so_far.best,
            rival_error=float(so_far.error.min()),
            difference=float(paired.difference[k]),
            se=float(paired.se[k]),
            folds=folds,
        )
        for k, name in enumerate(names)
        if lost[k]
    }


def _classifies(models: Any, asked: bool | None) -> bool:
    """Whether classifiers are compared: as asked, or as the models given say."""
    if asked is not None:
        check_flag("classify", asked)
    if not isinstance(models, Mapping):
        return bool(asked)
    able = [name for name, model in models.items() if hasattr(model, "predict_proba")]
    unable = [name for name in models if name not in able]
    if able and unable:
        raise TypeError(
            f"model(s) {names_of(able)} are classifiers, {names_of(unable)} are not (no predict_proba): compare one or the "
            "other."
        )
    if asked is not None and asked != bool(able):
        raise TypeError(f"classify={asked}, but the models are {'' if able else 'no '}classifiers.")
    return bool(able)


def read_models(models: Any, known: dict[str, Any]) -> dict[str, Any]:
    if models is None:
        return known
    if isinstance(models, Mapping):
        chosen = dict(models)
        for name, model in chosen.items():
            if not isinstance(name, str):
                raise TypeError(f"the names of models must be text; got {name!r}.")
            if isinstance(model, type) or not (hasattr(model, "fit") and hasattr(model, "predict")):
                raise TypeError(f"model {name!r} must be an estimator with fit and predict; got {model!r}.")
    else:
        listed = [models] if isinstance(models, str) else list(models)
        absent = [name for name in listed if name not in known]
        if absent:
            raise ValueError(f"unknown model(s) {names_of(absent)}. Known: {choices_of(absent[0], known)}.")
        if len(set(listed)) < len(listed):
            twice = next(name for k, name in enumerate(listed) if name in listed[:k])
            raise ValueError(f"model {twice!r} is listed twice.")
        chosen = {name: known[name] for name in listed}
    if len(chosen) < 2:
        raise ValueError("give at least two models to compare.")
    return chosen


def _check_signature(name: str, model: Any, labelled: bool, weighted: bool) -> None:
    """Whether a model can be given task labels and weights."""
    needed = [("fit", "task"), ("predict", "task")] if labelled else []
    for method, option in [*needed, *([("fit", "sample_weight")] if weighted else [])]:
        known = inspect.signature(getattr(model, method)).parameters
        if option not in known and not (method == "fit" and any(p.kind == p.VAR_KEYWORD for p in known.values())):
            raise TypeError(
                f"model {name!r} ({type(model).__name__}) has no {method}(..., {option}=...). Models are given task labels "
                "beside X, so a Pipeline or a plain scikit-learn model cannot take part: transform X beforehand."
            )
    if labelled and any(p.kind == p.VAR_KEYWORD for p in inspect.signature(model.fit).parameters.values()):
        raise TypeError(f"model {name!r} ({type(model).__name__}) does not say that its fit takes task=...")


def _check_inner(data: TaskData, splits: Sequence[Split], groups: np.ndarray | None, inner_cv: int) -> None:
    """Whether every task has enough training rows for the folds inside."""
    if inner_cv < 2:
        raise ValueError(f"inner_cv must be at least 2, got {inner_cv}.")
    for f, split in enumerate(splits):
        if groups is not None:
            left = len(np.unique(groups[split.train]))
            if left < inner_cv:
                raise ValueError(f"{left} group(s) to train on in fold {f}, fewer than inner_cv={inner_cv}: lower it.")
            continue
        for task in data.tasks:
            left = int(split.train[task.rows].sum())
            if left < inner_cv:
                raise ValueError(
                    f"task {task.label!r} has {left} row(s) to train on in fold {f}, fewer than inner_cv={inner_cv}. Use "
                    "fewer inner folds, or leave that task out."
                )
