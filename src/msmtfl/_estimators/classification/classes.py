"""Data of classes: labels as codes, weights of classes, one class against the rest, folds that keep every class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from ..._data.copies import groups_of
from ..._data.designs import Floats
from ..._data.folds import TaskKFold
from ..._data.tables import as_values, missing_values, names_of, refuse_twice, warn_user
from ..._data.task_data import Task, TaskData
from ..._data.tasks import read_training
from ..._paths.validation.folds import REDRAWS
from ..._solvers.problems.arguments import WAY_OUT, all_of

EXACT = 2**53  # whole numbers below this are different floats


@dataclass(frozen=True)
class ClassData:
    """Training data of a classifier: the classes (K,), y as codes of them (NaN = not measured), the data of the tasks with
    codes as targets, and the sample weights as given."""

    classes: np.ndarray
    codes: Floats
    tasks: TaskData
    weight: Floats | None

    def weights(self, class_weight: Any, keep: np.ndarray | None = None) -> Floats | None:
        """Sample weights times those of the classes, in a fit to all samples or to some of them, keep (N,) bool."""
        data = self.tasks if keep is None else self.tasks.kept(keep)
        return class_weights(class_weight, data, self.classes, self.codes.shape, self.weight)

    def binary(self, class_weight: Any) -> TaskData:
        """The data of problems with targets 0 and 1."""
        weights = None if class_weight is None else self.weights(class_weight)
        return one_against_rest(self.tasks if weights is None else self.tasks.weighted(weights), self.classes)


# ------------------------------------------------------------------ reading


def read_classes(
    X: Any,
    y: Any,
    *,
    task: Any,
    task_column: str | int | None,
    sample_weight: Any,
    offset: Any = None,
    alone: bool = True,
) -> tuple[np.ndarray, Floats, TaskData]:
    """The classes (K,), y as codes of them (NaN = not measured), and the data of the tasks, with codes as targets."""
    classes, codes = encode(y)
    refuse_many_classes(offset, classes)
    options = {"task_column": task_column, "sample_weight": sample_weight, "offset": offset}
    data = read_training(X, as_given(y, codes), task=task, **options)
    if alone or data.m == 1:
        refuse_lonely(data, classes)
    return classes, codes, data


def refuse_many_classes(offset: Any, classes: np.ndarray) -> None:
    """An error if there is an offset and more than two classes: log-odds of each against the rest would need one each."""
    if offset is not None and len(classes) > 2:
        raise ValueError(
            f"an offset is added to the log-odds of the second of two classes, but there are {len(classes)}. Leave it "
            "out, or fit one classifier per class (y == class)."
        )


def encode(y: Any) -> tuple[np.ndarray, Floats]:
    """The classes (K,), and y as codes of them (NaN = not measured)."""
    values = read_labels(y)
    seen = ~missing_values(values.ravel()).reshape(values.shape)
    if values.ndim == 1 and not seen.all():
        raise ValueError(
            f"Input y contains NaN: row {int(np.argmin(seen))} is the first of {int((~seen).sum())} such value(s). Drop "
            "these rows, or pass a 2-D y in which NaN means not measured."
        )
    of_seen = _plain_numbers(values[seen])
    check_classification_targets(of_seen)
    classes, found = np.unique(of_seen, return_inverse=True)
    if values.ndim == 2 and classes.dtype.kind == "f" and (classes == classes.round()).all():
        classes = classes.astype(np.int64)  # floats because of NaN
    if len(classes) < 2:
        raise ValueError(f"y holds one class only ({names_of(classes)}): a classifier needs at least two classes.")
    codes = np.full(values.shape, np.nan)
    codes[seen] = found.ravel()
    return classes, codes


def known_codes(y: Any, classes: np.ndarray) -> Floats:
    """(n,): the labels of one more task as codes of the classes that are known."""
    values = read_labels(y)
    if values.ndim != 1:
        raise ValueError(
            f"add_task takes one task at a time: y must be 1-D, one value per row; it has {values.shape[1]} columns."
        )
    places = {one: k for k, one in enumerate(classes.tolist())}
    found = [places.get(one, -1) for one in values.tolist()]
    if -1 in found:
        row = found.index(-1)
        raise ValueError(
            f"y holds {values.tolist()[row]!r} in row {row}, which is none of the classes of the fit: "
            f"{names_of(classes)}. Fit again with the new task."
        )
    return np.array(found, dtype=np.float64)


def _plain_numbers(values: np.ndarray) -> np.ndarray:
    """Python's numbers as an array of numpy's; as whole numbers where floats would take two for one."""
    kinds = (int, float, np.integer, np.floating)
    if values.dtype != object or not all(isinstance(one, kinds) for one in values.tolist()):
        return values
    numbers = values.tolist()
    large = [one for one in numbers if isinstance(one, (int, np.integer)) and abs(int(one)) >= EXACT]
    if not large or not all(np.isfinite(one) and one == int(one) for one in numbers if isinstance(one, float)):
        return values.astype(float)
    whole = [int(one) for one in numbers]
    low, high = min(whole), max(whole)
    if low < -(2**63) or high >= (2**63 if low < 0 else 2**64):
        raise ValueError(
            f"y holds classes of more than 64 bits, such as {low if low < -(2**63) else high}. Pass classes as text: "
            "[str(one) for one in y]."
        )
    return np.array(whole, dtype=np.int64 if high < 2**63 else np.uint64)


def read_labels(y: Any) -> np.ndarray:
    if y is None:
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None: pass the target as the second argument."
        )
    if hasattr(y, "columns"):
        refuse_twice(list(y.columns), "y")
    values = as_values(y, "y")
    if values.dtype.kind == "f" and isinstance(y, (list, tuple)) and (np.abs(values) >= EXACT).any():
        values = np.array(y, dtype=object)  # numpy makes floats of whole numbers that have no type in common
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported: y has complex values.")
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ValueError("Input y contains infinity: classes must be finite, or text.")
    if values.ndim not in (1, 2):
        raise ValueError(f"y must be 1-D, or 2-D with one column per task; it has shape {values.shape}.")
    return values


def as_given(y: Any, codes: Floats) -> Any:
    return _Columns(codes, list(y.columns)) if hasattr(y, "columns") else codes


class _Columns:
    """A 2-D array with names of columns: what `read_training` looks for in a table."""

    def __init__(self, values: Floats, columns: list[Any]):
        self.values, self.columns, self.shape = values, columns, values.shape

    def to_numpy(self) -> Floats:
        return self.values


def refuse_lonely(data: TaskData, classes: np.ndarray, fit_intercept: bool = True) -> None:
    """Every task needs rows of every class; the error names all that lack some."""
    lonely: dict[str, list[Any]] = {}
    for task in data.tasks:
        absent = np.setdiff1d(np.arange(len(classes)), task.y)
        if absent.size:
            lonely.setdefault(names_of(classes[absent]), []).append(task.label)
    if not lonely:
        return
    said = [f"{all_of(labels)} no row of class {absent}" for absent, labels in lonely.items()]
    one = next(iter(lonely))
    where = "; ".join(said) if data.form != "single" else f"y (rows of positive weight) has no row of class {one}"
    why = "with an intercept no finite model fits such a task"
    if not fit_intercept:  # a penalty on every feature makes it finite, but it is drawn to the class that there is
        why = "such a task cannot teach what tells that class from the others"
    way = f" {WAY_OUT}" if fit_intercept and data.form != "single" else ""
    raise ValueError(f"{where}: {why}. Leave it out until it has rows of every class.{way}")


def class_weights(
    given: Any, data: TaskData, classes: np.ndarray, shape: tuple[int, ...], weight: Floats | None
) -> Floats | None:
    """Sample weights times those of the classes; "balanced": every class of a task weighs the same, all together n_i."""
    if given is None:
        return weight
    out = np.ones(shape) if weight is None else np.broadcast_to(weight.T, shape[::-1]).T.copy()
    if isinstance(given, dict):
        known = classes.tolist()
        foreign = [key for key in given if key not in known]
        if foreign:
            raise ValueError(f"class_weight names {names_of(foreign)}, but the classes are {names_of(known)}.")
        factors = np.array([float(given.get(one, 1.0)) for one in known])
        if not (np.isfinite(factors) & (factors >= 0)).all():
            raise ValueError(f"class_weight must be finite and >= 0; got {given!r}.")
    elif given != "balanced":
        raise ValueError(f"class_weight must be None, 'balanced' or a dict {{class: weight}}, got {given!r}.")
    for i, task in enumerate(data.tasks):
        code = task.y.astype(np.intp)
        if not isinstance(given, dict):
            v = np.ones(len(code)) if task.weight is None else task.weight
            sizes = np.bincount(code, v, len(classes))
            factors = v.sum() / (np.count_nonzero(sizes) * np.where(sizes > 0.0, sizes, 1.0))
        out[(task.rows, i) if data.form == "wide" else task.rows] *= factors[code]
    return out


# ------------------------------------------------------------------ problems and folds


def one_against_rest(data: TaskData, classes: Any) -> TaskData:
    """A task per task and class, where there are more than two of these; targets are places in `classes`."""
    if len(classes) == 2:
        return data
    tasks = [
        Task(_label(task.label, one), task.X, (task.y == k).astype(np.float64), task.weight, task.rows)
        for task in data.tasks
        for k, one in enumerate(classes)
    ]
    labels = np.array([task.label for task in tasks], dtype=object)
    form = "long" if data.form == "single" else data.form
    return replace(data, tasks=tuple(tasks), labels=labels, form=form, classes=len(classes), of_classes=data.labels)


def labels_of(model: Any) -> list[Any]:
    """Of the problems that a fitted model's stages are about: its tasks; with K > 2 classes K for each."""
    tasks, classes = model.tasks_.tolist(), getattr(model, "classes_", ())
    return tasks if len(classes) <= 2 else [_label(task, one) for task in tasks for one in classes]


def _label(task: Any, one: Any) -> str:
    return f"{task}: {one}"


def class_folds(
    data: TaskData, classes: np.ndarray, n_splits: int, random_state: Any, groups: Any, alone: bool = True
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Folds stratified by task and class; an error if a training fold would lack a class of a task, or, where tasks do not
    stand `alone` but share a level, all samples of a task."""
    few, single = [], []
    for task in data.tasks:
        if not alone:
            if len(task.y) < 2:
                single.append(task)
            continue
        counts = np.bincount(task.y.astype(np.intp), minlength=len(classes))
        rare = int(np.argmin(counts))
        if counts[rare] < 2:
            named = names_of([classes[rare]])
            raise ValueError(
                f"task {task.label!r} has {counts[rare]} row of class {named}: held out, none is left to train. Leave the "
                "task out, or give pairs of (training, test) rows as cv that keep it in all training rows."
            )
        if counts[rare] < n_splits:
            few.append(task.label)
    if few:
        warn_user(
            f"task(s) {names_of(few)} have fewer rows of a class than cv={n_splits} folds: some hold out none of them. "
            "Use fewer folds."
        )
    if single:
        warn_user(
            f"task(s) {names_of([task.label for task in single])} have 1 sample, which is in the training samples of every "
            "fold: there is no held-out error of these tasks."
        )
    pattern = np.full((data.X.shape[0], data.m), -1)
    for i, task in enumerate(data.tasks):
        pattern[task.rows, i] = task.y
    known = np.asarray((pattern >= 0).any(axis=1))
    stay = np.zeros(len(known), dtype=bool)
    for task in single:
        stay[task.rows] = True
    used, kept = np.flatnonzero(known & ~stay), np.flatnonzero(known & stay)
    strata = np.unique(pattern[used], axis=0, return_inverse=True)[1].ravel()
    of_rows = None if groups is None else groups_of(groups, data.X)[used]
    dealer = TaskKFold(n_splits, random_state=check_random_state(random_state))
    needed = len(classes) if alone else 1
    for _ in range(REDRAWS):
        fold = list(dealer.deal_evenly(strata, of_rows))
        lost = [
            task.label
            for i, task in enumerate(data.tasks)
            if task not in single
            and any(len(np.unique(pattern[used[train], i][pattern[used[train], i] >= 0])) < needed for train, _ in fold)
        ]
        if not lost:
            return [(np.union1d(used[train], kept), used[test]) for train, test in fold]
    lacking = " of every class" * alone
    raise ValueError(
        f"some folds leave task(s) {names_of(lost)} without training rows{lacking}. Use fewer folds, or leave these "
        "tasks out."
    )
