"""Isolet: letters of the alphabet spoken by five groups of thirty speakers, a task each."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._data.tables import warn_user
from .._runtime.checks import check_flag
from .dataset import Dataset
from .files import data_folder, read_archive

D = 617
TASKS = [f"Isolet{k}" for k in range(1, 6)]
LETTERS = np.full((5, 26), 60)  # rows of each group and letter: 30 speakers, twice
LETTERS[3, 5] -= 2  # two F of group 4 and one M of group 5 are missing in the source
LETTERS[4, 12] -= 1
SIZES = LETTERS.sum(axis=1)
SUMS = np.array([763685800, 469208588, 653862250, 646022234, 584395828])  # of a group's values x 10^4, whole numbers

ARCHIVE = "isolet.npz"
TEXTS = ("isolet1+2+3+4.data", "isolet5.data")
HOW = (
    'Download "ISOLET" from the UCI Machine Learning Repository (archive.ics.uci.edu), put '
    f"{TEXTS[0]} and {TEXTS[1]} (uncompressed or .gz; gzip -d opens .Z files) into a folder, and pass folder=, or set "
    "MSMTFL_DATA to that folder."
)
DESCRIPTION = (
    "Spoken letters of the alphabet: 150 speakers in five groups of 30, each group a task; every speaker says each letter "
    "twice. 617 features of the sound, all in [-1, 1]; the target is the letter, 1 to 26, taken as a number as the paper "
    "does. M. Fanty, R. Cole, Spoken letter recognition, NIPS 3, 1991; UCI Machine Learning Repository, CC BY 4.0."
)


def fetch_isolet(folder: Any = None, *, download: bool = True, data_home: Any = None) -> Dataset:
    """Fetch the Isolet data of the paper: five tasks of 1560, 1560, 1560, 1558 and 1559 samples, 617 features.

    The data are looked for in `folder`; without it in the folder that the environment variable MSMTFL_DATA
    names; if they are not there they are downloaded from OpenML by scikit-learn, which keeps a copy.
    Numbers of samples and letters in every group are checked; a warning says if the values are not those of
    the data that this was written for.

    Parameters
    ----------
    folder : path or str, optional
        A folder that holds `isolet.npz` (arrays X, y, task) or UCI's `isolet1+2+3+4.data` and
        `isolet5.data`, plain or .gz.
    download : bool, default=True
        Whether the data may be downloaded; otherwise they are only looked for in folders.
    data_home : path or str, optional
        Where scikit-learn keeps downloads; by default `~/scikit_learn_data`.

    Returns
    -------
    Dataset
        Tasks "Isolet1" .. "Isolet5"; y is the letter, 1 .. 26.

    Examples
    --------
    >>> from msmtfl.datasets import fetch_isolet
    >>> X, y, task = fetch_isolet()  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (7797, 617)
    """
    check_flag("download", download)
    place = data_folder() if folder is None else Path(folder).expanduser()
    files = _find(place) if place is not None else []
    if files:
        return _read_archive(files[0]) if files[0].name == ARCHIVE else _read_texts(files)
    if folder is not None:
        raise FileNotFoundError(f"{place} holds neither {ARCHIVE} nor both of {TEXTS[0]} and {TEXTS[1]}. {HOW}")
    if not download:
        raise FileNotFoundError(f"the Isolet data are not there, and download=False. {HOW}")
    return _download(data_home)


def _find(folder: Path) -> list[Path]:
    if (folder / ARCHIVE).is_file():
        return [folder / ARCHIVE]
    found = [path for name in TEXTS if (path := _plain_or_gz(folder / name)) is not None]
    return found if len(found) == len(TEXTS) else []


def _plain_or_gz(path: Path) -> Path | None:
    return next((p for p in (path, path.with_name(path.name + ".gz")) if p.is_file()), None)


def _read_archive(path: Path) -> Dataset:
    arrays = read_archive(path)
    labels, groups = np.unique(arrays["task"], return_inverse=True)
    if len(labels) != len(TASKS):
        raise ValueError(f"{path}: Isolet has 5 groups of speakers, but task has {len(labels)} different values.")
    X = np.asarray(arrays["X"], dtype=np.float64)
    if arrays["X"].dtype.kind == "f":
        X = np.round(X, 4)  # the source has four decimals, which float32 does not keep
    return _make(X, arrays["y"], groups, str(path))


def _read_texts(paths: list[Path]) -> Dataset:
    table = np.concatenate([_read_text(path) for path in paths])
    return _make(table[:, :D], table[:, D], None, " and ".join(str(path) for path in paths))


def _read_text(path: Path) -> Floats:
    """(rows, 618): the features and the letter."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="ascii") as file:
            lines = [(number, line) for number, line in enumerate(file, 1) if line.strip()]
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not a text file: {error}. {HOW}") from error
    for number, line in lines:
        if line.count(",") != D:
            raise ValueError(
                f"{path}, line {number} has {line.count(',') + 1} columns instead of {D + 1} ({D} features and the letter)."
            )
    try:
        return np.loadtxt([line for _, line in lines], delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path}, line {_no_number(lines)}: {error}") from error


def _no_number(lines: list[tuple[int, str]]) -> int:
    """The number of the first line with an entry that is no number."""
    for number, line in lines:
        try:
            [float(value) for value in line.split(",")]
        except ValueError:
            return number
    return lines[-1][0]


def _download(data_home: Any) -> Dataset:
    """From OpenML, which has the two files of UCI one after the other; scikit-learn caches and checks the download."""
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A network error occurred", UserWarning)  # the last one is raised
            bunch = fetch_openml(
                "isolet", version=1, as_frame=False, parser="liac-arff", data_home=data_home, n_retries=1
            )
        X, y = np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target, dtype=np.float64)
    except (OSError, ValueError) as error:
        raise OSError(f"Isolet could not be downloaded from OpenML ({error}). {HOW}") from error
    return _make(X, y, None, "OpenML, isolet version 1")


def _make(X: Floats, y: np.ndarray, groups: np.ndarray | None, source: str) -> Dataset:
    """groups: 0 .. 4 per row; None: UCI's order, one group after the other."""
    if X.ndim != 2 or X.shape[1] != D or y.shape != X.shape[:1] or len(y) != SIZES.sum():
        raise ValueError(
            f"{source}: Isolet has {SIZES.sum()} rows, {D} features and a letter for each row; found X {X.shape} and "
            f"y {y.shape}."
        )
    groups = np.repeat(np.arange(len(TASKS)), SIZES) if groups is None else groups
    _check_letters(y, groups, source)
    data = Dataset(
        name="Isolet",
        X=X,
        y=y,
        task=np.array(TASKS)[groups],
        feature_names=np.array([f"f{j}" for j in range(1, D + 1)]),
        description=DESCRIPTION,
        source=source,
    )
    sums = np.array([np.rint(X[groups == k] * 1e4).sum() for k in range(len(TASKS))])
    if (sums != SUMS).any():
        other = [TASKS[k] for k in np.flatnonzero(sums != SUMS)]
        warn_user(
            f"{source}: the values of {', '.join(other)} are not those of the Isolet data known here. Some are altered, or "
            "the groups of speakers are others."
        )
    return data


def _check_letters(y: Floats, groups: np.ndarray, source: str) -> None:
    """Rows per group and letter. That the speakers are those of the group, only the values tell: SUMS."""
    if not np.isin(y, np.arange(1, 27)).all():
        row = int(np.argmin(np.isin(y, np.arange(1, 27))))
        raise ValueError(f"{source}: the letter of row {row} is {y[row]:g}, not a whole number from 1 to 26.")
    found = np.zeros_like(LETTERS)
    np.add.at(found, (groups, y.astype(int) - 1), 1)
    for k, c in np.argwhere(found != LETTERS):
        raise ValueError(
            f"{source}: {TASKS[k]} should have {SIZES[k]} rows, {LETTERS[k, c]} of them the letter {chr(65 + c)}; found "
            f"{found[k].sum()} and {found[k, c]}. Rows are missing, or not in the order of the groups of speakers. {HOW}"
        )
