"""Examination scores in 139 London schools, a task each: data that the user has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .._data.tables import is_table, names_of, place_name
from .._data.tasks import stack_tasks
from .._runtime.checks import check_flag
from .dataset import Dataset
from .files import data_folder, existing_file, numeric_columns, read_archive, read_table, require_columns

SCHOOLS, ROWS = 139, 15362
NAMES = ("school.npz", "school.mat")
HOW = (
    "The examination data of the Inner London Education Authority (1985-87) come with MALSAR as school.mat. Pass "
    "the path of that file, of an .npz file (arrays X, y, task) or of a table (.csv, .parquet), or put school.npz or "
    "school.mat into the folder that MSMTFL_DATA names."
)
DESCRIPTION = (
    "Examination records of the Inner London Education Authority, 1985-87: a task is a school, a row a student, the target "
    "the examination score. Features are indicators of year, gender, verbal-reasoning band, ethnic group and kind of "
    "school, and two percentages of the school. H. Goldstein, The Statistician 40, 1991, in the form of A. Argyriou, "
    "T. Evgeniou, M. Pontil, Machine Learning 73, 2008."
)


def load_school(path: Any = None, *, task: str = "school", target: str = "score", drop_bias: bool = True) -> Dataset:
    """Read the School data from a file that you have: 139 tasks, 15362 samples, 27 features.

    Other numbers of schools and samples are accepted; the repr says so.

    Parameters
    ----------
    path : path, str or DataFrame, optional
        The data, in one of three forms:

        - `.npz` with arrays X (N, d), y (N,), task (N,), and perhaps feature_names, task_names;
        - `.mat` as MALSAR distributes it: X and Y hold one matrix per school;
        - `.csv`, `.parquet`, a pandas or polars table: one line per student, all columns but two are
          features.

        By default school.npz or school.mat in the folder that the environment variable MSMTFL_DATA names.
    task : str, default="school"
        The column of a table that identifies the school.
    target : str, default="score"
        The column of a table that holds the scores.
    drop_bias : bool, default=True
        Whether to leave out columns that are 1 in every sample: models here have an intercept of their own.
        `dropped` names them.

    Returns
    -------
    Dataset
        One task per school.

    Examples
    --------
    >>> import pandas as pd
    >>> from msmtfl.datasets import load_school
    >>> table = pd.DataFrame({"school": ["a", "a", "b"], "score": [17, 5, 16], "year": [0, 1, 0], "bias": [1, 1, 1]})
    >>> load_school(table)
    Dataset(School: 2 tasks of 1 to 2 rows, 3 in all, 1 features; left out: 'bias' (1 in every row);
    the known data have 139 tasks, 15362 rows)
    """
    check_flag("drop_bias", drop_bias)
    if path is None:
        path = _find()
    if is_table(path):
        source, parts = "the table", _read_table(path, task, target)
    else:
        file = existing_file(path)
        readers = {".npz": _read_npz, ".mat": _read_mat}
        reader = readers.get(file.suffix.lower())
        source, parts = str(file), _read_table(file, task, target) if reader is None else reader(file)
    X, y, labels, names = parts
    ones = (X == 1.0).all(axis=0) if drop_bias else np.zeros(X.shape[1], dtype=bool)
    notes = []
    if ones.any():
        notes.append(f"left out: {names_of(names[ones])} (1 in every row)")
    if (len(set(labels.tolist())), len(y)) != (SCHOOLS, ROWS):
        notes.append(f"the known data have {SCHOOLS} tasks, {ROWS} rows")
    return Dataset(
        name="School",
        X=X[:, ~ones],
        y=y,
        task=labels,
        feature_names=names[~ones],
        description=DESCRIPTION,
        source=source,
        dropped={"1 in every row": dict.fromkeys(names[ones].tolist(), len(y))} if ones.any() else {},
        note="; ".join(notes),
    )


def _find() -> Path:
    folder = data_folder()
    found = [folder / name for name in NAMES if (folder / name).is_file()] if folder is not None else []
    if not found:
        raise FileNotFoundError(f"no school data: {HOW}")
    return found[0]


def _read_table(table: Any, task: str, target: str) -> tuple[Any, Any, np.ndarray, np.ndarray]:
    frame = read_table(table)
    require_columns(frame, [("task", task), ("target", target)])
    names = [name for name in frame.columns if name not in (task, target)]
    values = numeric_columns(frame, [*names, target], "Encode them (e.g. one-hot) or leave them out first.")
    return values[:, :-1], values[:, -1], frame[task].to_numpy(), np.array([str(name) for name in names])


def _read_npz(path: Path) -> tuple[Any, Any, np.ndarray, np.ndarray]:
    arrays = read_archive(path)
    X, task = arrays["X"], arrays["task"]
    labels = arrays.get("task_names")
    if labels is not None:
        if task.dtype.kind not in "iu" or not 0 <= task.min() <= task.max() < len(labels):
            raise ValueError(f"{path}: with task_names, task must hold their places 0 to {len(labels) - 1}.")
        task = labels[task]
    return X, arrays["y"], task, arrays.get("feature_names", _places(X.shape[1]))


def _read_mat(path: Path) -> tuple[Any, Any, np.ndarray, np.ndarray]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        stored = loadmat(path)
    except (MatReadError, ValueError, TypeError, NotImplementedError, OSError) as error:
        raise ValueError(f"{path} is not a MATLAB file that scipy reads (version 7 or older): {error}") from error
    if not all(name in stored and stored[name].dtype == object for name in ("X", "Y")):
        held = [name for name in stored if not name.startswith("__")]
        raise ValueError(f"{path} must hold cell arrays X and Y, one matrix per school; it holds {names_of(held)}.")
    Xs, ys = list(stored["X"].ravel()), [np.ravel(y) for y in stored["Y"].ravel()]
    try:
        X, y, task = stack_tasks(Xs, ys, [f"school{i}" for i in range(1, len(Xs) + 1)])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return X, y, task, _places(X.shape[1])


def _places(d: int) -> np.ndarray:
    return np.array([place_name(j, None) for j in range(d)])
