"""A comparison of models: all are given the same folds and predict the same rows; those that clearly lose may drop out.

What comes of it is a `Comparison`.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._data.copies import RepeatedSamplesWarning, groups_of
from .._data.designs import Floats, Ints
from .._data.tables import check_finite, choices_of, names_of, warn_user
from .._data.tasks import read_training
from .._estimators.classification.classes import class_folds, read_classes
from .._estimators.families import odd_tasks
from .._estimators.fitted import NewTaskWarning, TaskLevelWarning, is_model, loss_of, of_survival, warn_of_task_level
from .._objective.losses import is_loss, loss_named
from .._paths.validation.folds import read_splits
from .._paths.validation.remarks import GridEndWarning
from .._paths.validation.too_good import TooGoodWarning
from .._runtime.checks import check_count, check_flag, check_n_jobs, check_verbose
from .._runtime.processes import Ask, Processes
from .._runtime.progress import Progress, one_blas_thread
from .._runtime.threads import count, each
from .._solvers.problems.arguments import check_intercepts
from .._solvers.problems.make_problem import SharedLevelWarning, make_problem
from .choice.correction import at_choice, corrected
from .choice.points import Points, searches
from .comparison import REFERENCE, Comparison
from .entrants import (
    check_inner,
    check_signature,
    classifies,
    default_models,
    for_levels,
    read_models,
    shares,
    tasks_left_out,
    with_enough,
)
from .errors import Dropped
from .measures import Classes, Numbers
from .of_losses import numbers_under
from .scoring import Cells, OfFold
from .work import Job, Said, Work, elsewhere, fit, fit_without, pays, search, slowest_first

__all__ = ["compare_models", "default_models", "read_models", "run_comparison"]

HOPELESS, MARGIN = 2.5, 0.05  # standard errors, and share of the error, by which a model that is screened out loses
SAID_ELSEWHERE = (
    RepeatedSamplesWarning,
    TaskLevelWarning,
    NewTaskWarning,
    SharedLevelWarning,
)  # of all rows, here or by the result
OF_A_FIT = (
    ConvergenceWarning,
    TooGoodWarning,
    GridEndWarning,
)  # for who uses the model; otherwise it shows in the error
FEWEST = 5  # rows (groups) held out so far without which standard errors mean little


def compare_models(
    X: Any,
    y: Any,
    *,
    task: Any = None,
    task_column: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    models: Any = None,
    reference: str | None = None,
    classify: bool | None = None,
    cv: Any = 5,
    inner_cv: int = 5,
    standardize: bool = False,
    leave_one_task_out: bool | str = False,
    screen: bool = False,
    random_state: Any = 0,
    n_jobs: int | None = None,
    verbose: bool = False,
    nested: bool = False,
    offset: Any = None,
    intercepts: str = "task",
    loss: str = "squared",
) -> Comparison:
    """Compare models that share and models that do not, on the same held-out samples.

    Every search is fitted once, on the same folds: each fold is predicted with the parameters that the other
    folds choose, so that no sample has a part in choosing what predicts it. A model that cannot be given
    folds is fitted on the training samples of each, and so is every model with `nested`. What error is to be
    expected of the best model is corrected for having chosen it (`corrected` of the result).

    Parameters
    ----------
    X : DataFrame, ndarray or sparse matrix of shape (N, d)
        Samples of all tasks. A table or an array may have a column that identifies the task
        (see `task_column`).
    y : array-like of shape (N,) or (N, m)
        Targets. A 2-D y has one column per task, all of them for the same samples X; NaN
        means not measured. With loss="cox" it has two, times and events.
    task : array-like of shape (N,), optional
        The label of the task of every sample, if the tasks are not a column of X.
    task_column : str, int or list, optional
        The column of X that identifies the task, or the columns of its levels, from the widest on.
    sample_weight : array-like of shape (N,) or (N, m), optional
        Weights of the samples, at least 0; (N, m) beside a 2-D y. By default all are 1.
        A sample of weight 2 is two samples.
    groups : array-like of shape (N,) or "identical", optional
        Labels of groups: samples of one group (a patient, a speaker) stay together, in outer and inner
        folds; standard errors are of groups. "identical": samples with the same features are a group.
    models : list of str or dict {name: estimator}, optional
        The models. By default "lasso" (one per task), "l12", "dirty", "msmtfl" (the paper's), "bi-level",
        "shared" (common values and deviations), "ridge per task", "pooled lasso" and "pooled ridge" (one
        model for all tasks, each with its own intercept); where tasks have several levels also "nested" and
        "nested-ridge". Any estimator with ``fit(X, y, task=...)`` and
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
        The folds, which take the place of the searches' own. A number means that many folds stratified by
        task (:class:`TaskKFold`); with a 2-D y a sample is held out in all tasks at once. Repeated folds are
        welcome. A single pair of training and test samples is compared as with `nested`.
    inner_cv : int, default=5
        Number of folds within the training samples of a fold, by which models given by name choose their
        parameters there: all of them with `nested`, otherwise those that have a choice for every task (ridge
        regressions) or class.
    standardize : bool, default=False
        Whether the models given by name penalise every task's columns as if they were scaled to unit
        standard deviation. Partial pooling has ``standardize="numeric"`` where they are not.
    leave_one_task_out : bool or str, default=False
        Whether to fit also without each task in turn and predict it from the others, in every way that the
        model has for new tasks. The name of a level of the tasks ("region"; "level 1" and so on where the
        levels have no names) leaves out all tasks with one of its values together.
    screen : bool, default=False
        Whether to drop after each fold the models that are clearly worse than the best on the folds so far
        (by more than two and a half standard errors, by more than 5 %, and in more tasks than not), but
        for the reference: `dropped` of the result names them. Only models that are fitted fold by fold are
        dropped. This saves most of the time of a `nested` comparison where slow models lose.
    random_state : int, RandomState instance or None, default=0
        The source of randomness that deals out the samples to folds.
    n_jobs : int, optional
        Number of processes, which work on models side by side: this one, and others that are started beside
        it. The result is the same to the bit. Where all fits together (models times folds, with `nested`
        times `inner_cv`) have fewer than 50,000 coefficients they take less time than that, and stay in this
        process, on one thread.
    verbose : bool, default=False
        Whether to show a progress bar.
    nested : bool, default=False
        Whether every model chooses its parameters anew within the training samples of each fold, by
        cross-validation of its own (`inner_cv`): about as many times slower as there are folds.
    offset : array-like of shape (N,) or (N, m), optional
        A known part of the linear predictor, which is offset + b_i + x'w_i; (N, m) beside a
        2-D y. With loss="poisson" the logarithm of an exposure makes a model of rates.
        `predict` then needs the offsets of its samples, too.
    intercepts : {"task", "shrunk", "common"}, default="task"
        How the intercepts of models given by name share; see :class:`MSMTFL`. Baselines keep an intercept
        per task, but for the pooled logistic ridge regression, which can have "shrunk" ones. Where a task
        has too few samples of a class for an intercept of its own, models that need one are left out.
    loss : {"squared", "poisson", "gamma", "tweedie", "huber", "cox"}, default="squared"
        The loss of models given by name, which are those that have it: ridge and pooled models do not. Errors
        are then deviances relative to that of predicting a task's mean; with "huber" absolute errors relative
        to that of its median, and with "cox" what held-out samples add to the partial likelihood, relative
        to equal hazards. Models given as a dict are measured in this way, too, and keep their own loss.

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
    return run_comparison(
        X,
        y,
        task=task,
        task_column=task_column,
        sample_weight=sample_weight,
        groups=groups,
        models=models,
        reference=reference,
        classify=classify,
        cv=cv,
        inner_cv=inner_cv,
        standardize=standardize,
        leave_one_task_out=leave_one_task_out,
        screen=screen,
        random_state=random_state,
        n_jobs=n_jobs,
        verbose=verbose,
        nested=nested,
        offset=offset,
        intercepts=intercepts,
        loss=loss,
    ).comparison


@dataclass(frozen=True, eq=False)
class ComparisonRun:
    """A comparison, the searches that were fitted to all data for it, and what these have warned of."""

    comparison: Comparison
    fitted: dict[str, Any]
    warned: dict[str, list[tuple[str, type[Warning]]]]


def run_comparison(
    X: Any,
    y: Any,
    *,
    task: Any,
    task_column: str | int | None,
    sample_weight: Any,
    groups: Any,
    models: Any,
    classify: bool | None,
    cv: Any,
    inner_cv: int,
    screen: bool,
    random_state: Any,
    n_jobs: int | None,
    verbose: bool,
    nested: bool,
    reference: str | None = None,
    standardize: bool = False,
    leave_one_task_out: bool | str = False,
    offset: Any = None,
    intercepts: str = "task",
    loss: str = "squared",
) -> ComparisonRun:
    """See `compare_models`."""
    flags = {"standardize": standardize, "screen": screen, "nested": nested}
    if not isinstance(leave_one_task_out, str):
        flags["leave_one_task_out"] = leave_one_task_out
    for name, flag in flags.items():
        check_flag(name, flag)
    check_count("inner_cv", inner_cv)
    check_n_jobs(n_jobs)
    check_verbose(verbose)
    classify = classifies(models, classify)
    check_intercepts(intercepts, True)
    options = {"cv": inner_cv, "standardize": standardize, "random_state": random_state, "intercepts": intercepts}
    numbers = numbers_under(loss)
    if classify and loss != "squared":
        raise ValueError(
            f"loss={loss!r} is for numbers: classifiers have the logistic loss. Leave loss= or classify= out."
        )
    known = default_models(**options, classify=classify, named=models is not None)
    chosen = read_models(models, known, loss)
    if loss == "squared" and isinstance(models, Mapping) and all(map(of_survival, chosen.values())):
        numbers = numbers_under(loss_of(next(iter(chosen.values()))))  # nothing else can be made of such targets
    if numbers.survival and not all(map(of_survival, chosen.values())):
        raise ValueError("models of times until an event (loss='cox') are compared with their like only.")
    names = list(chosen)
    if reference is None:
        reference = REFERENCE if REFERENCE in chosen else names[0]
    if reference not in chosen:
        raise ValueError(f"reference={reference!r} is not among the models: {choices_of(reference, names)}.")
    given = {"task": task, "task_column": task_column, "sample_weight": sample_weight, "offset": offset}
    kind: Numbers | Classes = numbers
    folds = cv
    if classify:
        alone = not any(shares(model) for model in chosen.values())
        classes, _, data = read_classes(X, y, **given, alone=alone)
        chosen |= for_levels(models, data, {**options, "classify": True})
        kind = Classes(classes)
        number = isinstance(cv, (int, np.integer)) and cv >= 2
        if not alone:
            chosen = with_enough(chosen, data, len(classes), int(cv) if number else 2, reference)
        if number:
            folds = class_folds(data, classes, int(cv), random_state, groups, alone)
    else:
        data = read_training(X, y, **given, survival=numbers.survival)
        chosen |= for_levels(models, data, options, loss)
        if offset is not None:
            losses = {loss_of(model) for model in chosen.values()}
            linear = all(not is_loss(loss) or loss_named(loss).linear for loss in losses)
            data = replace(data, offset_of_targets=linear)
    check_finite(data.X, data.features, "X")
    splits = read_splits(folds, X, y, groups, data, random_state)
    rows = Cells(data, kind, sample_weight, None if groups is None else groups_of(groups, data.X))
    if leave_one_task_out and numbers.survival:
        raise ValueError(
            "leave_one_task_out does not go with loss='cox': a task that was not in the fit has no baseline hazard to be "
            "judged by. Leave it out."
        )
    if leave_one_task_out and classify:
        raise ValueError("leave_one_task_out is for numbers only: leave it out, or compare regressions of 0 and 1.")
    if leave_one_task_out and data.m < 2:
        raise ValueError("leave_one_task_out needs at least two tasks.")
    for name, model in chosen.items():
        check_signature(name, model, data.form == "long", sample_weight is not None, offset is not None)
    nested = nested or len(splits) < 2  # one fold has no others that could choose for it
    at_once = [] if nested else [name for name, model in chosen.items() if searches(model, kind.n_classes)]
    if not isinstance(models, Mapping) and len(at_once) < len(chosen):
        check_inner(data, splits, rows.groups, inner_cv)
    fit_options = {name: value for name, value in given.items() if name != "task_column" and value is not None}
    work = Work(rows, splits, chosen, X, y, fit_options, task_column)
    new_tasks = tasks_left_out(leave_one_task_out, data, task_column)
    fits = len(chosen) * (len(splits) + len(new_tasks)) * (inner_cv if nested else 1)
    run = _Run(work, reference, nested, n_jobs if pays(data.m, data.d, fits) else None)
    with (
        one_blas_thread(),
        Progress(len(chosen), "models", verbose) as run.progress,
        warnings.catch_warnings(),
        run.processes,
    ):
        warnings.filterwarnings("ignore", "the targets of task")  # said once, below
        warnings.filterwarnings("ignore", "task.* have fewer rows of a class")  # as outside
        for said in SAID_ELSEWHERE:
            warnings.simplefilter("ignore", said)
        run.listen()
        run.unit = 1.0 / (len(splits) + len(new_tasks))
        run.search(at_once, cv, screen)
        if screen:
            run.fold_by_fold()
        new = run.of_new_tasks(new_tasks)
    if any(is_model(model) and getattr(model, "fit_intercept", True) for model in chosen.values()):
        whole = make_problem(data, fit_intercept=True, standardize=False, positive=False)
        warn_of_task_level(data.features[whole.of_task_level])
    if (rows.unit == 0).any():
        flat = data.labels[rows.unit == 0].tolist()
        warn_user(f"the targets of task(s) {names_of(flat)} are constant: they are left out of the comparison.")
    result = run.compared(len(splits), new)
    if not nested:
        seed = int(random_state) if isinstance(random_state, (int, np.integer)) else 0
        result = run.corrected(result, seed)
    return ComparisonRun(result, run.fitted, run.warned)


_whose: ContextVar[str | None] = ContextVar("whose", default=None)  # search is under way


@contextmanager
def _named(job: Job) -> Iterator[None]:
    """What is warned of here is the job's."""
    token = _whose.set(job.name if job.is_search else None)
    try:
        yield
    finally:
        _whose.reset(token)


class _Run:
    """The work of a comparison, and what is known so far: `parts` has what each fold says of a model, `points` what searches
    choose from; `kept` are the models that have not been screened out."""

    progress: Progress
    unit: float  # of a model's work, one fit

    def __init__(self, work: Work, reference: str, nested: bool, n_jobs: int | None):
        self.work, self.rows, self.splits, self.models = work, work.rows, work.splits, work.models
        self.reference, self.nested, self.kept = reference, nested, list(work.models)
        self.n_jobs, self.processes = n_jobs, Processes(work, count(n_jobs))
        self.parts: dict[tuple[str, int], OfFold] = {}
        self.points: dict[str, Points] = {}
        self.fitted: dict[str, Any] = {}
        self.dropped: dict[str, Dropped] = {}
        self.warned: dict[str, list[tuple[str, type[Warning]]]] = {name: [] for name in work.models}

    def listen(self) -> None:
        """Note what searches warn of."""
        aloud = warnings.showwarning
        for category in OF_A_FIT:
            warnings.simplefilter("always", category)

        def hear(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, OF_A_FIT):
                aloud(message, category, *where, **more)
            elif (name := _whose.get()) is not None:
                self.warned[name].append((str(message), category))

        warnings.showwarning = hear  # until the filters are those of before

    # ------------------------------------------------------------------ fits

    def _all(self, jobs: Sequence[Job]) -> list[Any]:
        """What all jobs return: here, and in other processes if there are any."""
        if len(jobs) < 2 or not self.processes.start():
            return each(self._here, jobs, self.n_jobs, self.progress.stop, share=True)
        filters, said = list(warnings.filters), deque[tuple[Job, Said]]()

        def apart(job: Job, ask: Ask) -> Any:
            found, warned = ask(elsewhere(job.call, filters))
            said.append((job, warned))
            self.progress.step(job.size)
            return found

        order = slowest_first(self.models, jobs)
        found = self.processes.each(self._here, apart, order, self.progress.stop)
        for job, warned in said:
            for message, category in warned:
                with _named(job):
                    warn_user(message, category)
        of_job = {id(job): result for job, result in zip(order, found, strict=True)}
        return [of_job[id(job)] for job in jobs]

    def _here(self, job: Job) -> Any:
        with _named(job), self.progress.part(job.size):
            return job.call(self.work)

    def search(self, names: Sequence[str], cv: Any, screen: bool) -> None:
        """Fit searches to all data, on the folds; the other models on every fold, unless these are screened. `cv` is set in
        what was fitted."""
        size = len(self.splits) * self.unit
        searches = [Job(name, size, partial(search, name), is_search=True) for name in names]
        pairs = [
            (name, f) for f in range(0 if screen else len(self.splits)) for name in self.models if name not in names
        ]
        found = self._all(searches + self._fits(pairs))
        for name, one in zip(names, found, strict=False):
            own = {key: value for key, value in self.models[name].get_params(deep=False).items() if key == "n_jobs"}
            self.fitted[name] = one.model.set_params(cv=cv, **own)
            if one.points is not None:
                self.points[name] = one.points
                self.parts |= {(name, f): part for f, part in enumerate(one.parts)}
        self.parts |= dict(zip(pairs, found[len(names) :], strict=True))
        self._fit([(name, f) for f in range(len(self.splits)) for name in names if name not in self.points])

    def _fits(self, pairs: Sequence[tuple[str, int]]) -> list[Job]:
        return [Job(name, self.unit, partial(fit, name, f)) for name, f in pairs]

    def _fit(self, pairs: Sequence[tuple[str, int]]) -> None:
        """Fit models to the training samples of folds."""
        self.parts |= dict(zip(pairs, self._all(self._fits(pairs)), strict=True))

    def fold_by_fold(self) -> None:
        """Fit what is no search on one fold after the other, without what has clearly lost by then."""
        for f in range(len(self.splits)):
            left = [name for name in self.kept if name not in self.points]
            if len(self.kept) <= 2 or f == len(self.splits) - 1:
                self._fit([(name, g) for g in range(f, len(self.splits)) for name in left])
                return
            self._fit([(name, f) for name in left])
            lost = {name: why for name, why in _clearly_worse(self.compared(f + 1), f + 1).items() if name in left}
            self.kept = [name for name in self.kept if name not in lost]
            self.dropped |= lost
            self.progress.step((len(self.splits) - f - 1) * self.unit * len(lost))

    def of_new_tasks(self, parts: Sequence[Ints]) -> Floats | None:
        """(models, m, ways): errors in tasks that are left out, some of them together."""
        if not parts:
            return None
        jobs = [Job(name, self.unit, partial(fit_without, name, part.tolist())) for part in parts for name in self.kept]
        found = iter(self._all(jobs))
        errors = [
            np.concatenate([np.array(next(found))[None] for _ in self.kept]) for _ in parts
        ]  # (models, some, ways)
        return np.concatenate(errors, axis=1)[:, np.argsort(np.concatenate(parts))]

    # ------------------------------------------------------------------ what they say

    def compared(self, count: int, new: Floats | None = None) -> Comparison:
        """The comparison on the first folds."""
        rows, data, tried = self.rows, self.rows.data, self.splits[:count]
        used = data.membership.any(axis=1)
        ever = used & np.any([split.test for split in tried], axis=0)
        trained = np.mean([(split.train & used).sum() for split in tried])
        found = rows.gather([[self.parts[name, f] for name in self.kept] for f in range(count)], tried, self.kept)
        seen: np.ndarray = np.asarray(np.isfinite(found.errors).all(axis=0))
        if not seen.any():
            raise ValueError("no row was held out by cv.")
        self.seen = seen
        return Comparison(
            models=list(self.kept),
            reference=self.reference,
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
            n_splits=len(self.splits),
            rows=np.array([len(task.rows) for task in data.tasks]),
            held_per_trained=float(ever.sum() / trained),
            measure=rows.kind.measure,
            auc_by_task=found.auc,
            new_task=new,
            screened=self.dropped,
            nested=self.nested,
            odd_tasks=self._odd_tasks(),
        )

    def _odd_tasks(self) -> dict[str, np.ndarray]:
        """By model that looks for tasks unlike the rest: those that its fit to all samples finds."""
        found = {name: odd_tasks(self.fitted[name]) for name in self.kept if name in self.fitted}
        return {name: odd for name, odd in found.items() if odd is not None}

    def corrected(self, result: Comparison, seed: int) -> Comparison:
        """A comparison on all folds with errors corrected for having chosen, and those by which was chosen."""
        place: Ints = np.cumsum(self.seen) - 1
        cells = [np.flatnonzero(split.test[self.rows.cell_row]) for split in self.splits]
        points = []
        for k, name in enumerate(self.kept):
            if name in self.points:
                points.append(self.points[name])
            else:
                losses = [self.parts[name, f].losses for f in range(len(self.splits))]
                points.append(Points.of_fits(losses, len(result.tasks), float(result.n_features[k])))
        if not self.seen.all():
            known = [self.seen[of_fold] for of_fold in cells]
            points = [replace(one, losses=one.losses[:, np.concatenate(known)]) for one in points]
            cells = [of_fold[here] for of_fold, here in zip(cells, known, strict=True)]
        folds = [place[of_fold] for of_fold in cells]
        if self.points:
            result = replace(result, chosen_errors=at_choice(points, folds, result))
        with one_blas_thread():  # of thousands of small products
            return replace(result, corrected=corrected(points, folds, result, seed))


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
