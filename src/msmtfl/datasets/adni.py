"""The paper's MRI experiment from a table that the user obtained: ADNI's data are given to registered researchers only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._data.tables import is_table, missing_values, names_of
from .dataset import Dataset
from .files import numeric_columns, read_table, require_columns, text_columns

PAPER_SIZES = {"M06": 648, "M12": 642, "M18": 293, "M24": 569, "M36": 389, "M48": 87}
PAPER_FEATURES = 306
VISITS = list(PAPER_SIZES)
QUALITY = "OVERALLQC"
RECORDS = (
    "IMAGEUID",
    "LONISID",
    "LONIUID",
    "PTID",
    "SITE",
    "SITEID",
    "USERID",
    "VISCODE2",
    "M",
    "MONTH",
)  # no features


def load_adni(
    table: Any,
    *,
    patient: str = "RID",
    visit: str = "VISCODE",
    target: str = "MMSE",
    quality: str | None = QUALITY,
    exclude: Sequence[str] = (),
) -> Dataset:
    """Read the paper's MRI data from your own copy: predict MMSE at six visits, a task each, from brain scans.

    The features are FreeSurfer measurements. Nothing is downloaded: access is granted by ADNI
    (adni.loni.usc.edu). Make one table with a line per patient and visit:

    ========= ================================================= ===================================================
    column    meaning                                           found in
    ========= ================================================= ===================================================
    RID       patient                                           all tables of ADNI
    VISCODE   visit: m06, m12, m18, m24, m36, m48 (any case)    all tables of ADNI
    MMSE      score, 0 to 30                                    ADNIMERGE
    OVERALLQC quality of the scan (optional); "Fail" lines go   UCSF FreeSurfer cross-sectional (UCSFFSX)
    others    features, numbers (ST29SV, ST24TA, ...)           UCSF FreeSurfer cross-sectional (UCSFFSX)
    ========= ================================================= ===================================================

    Left out, and counted in `dropped`, are samples of other visits, of failed scans, with a score outside 0
    to 30 (ADNI writes -1 and -4 for missing) or with any missing entry, and columns with no value at all.

    Parameters
    ----------
    table : path, str or DataFrame
        A .csv, .csv.gz or .parquet file, or a pandas or polars table.
    patient : str, default="RID"
        The column of the patients.
    visit : str, default="VISCODE"
        The column of the visits.
    target : str, default="MMSE"
        The column of the scores.
    quality : str or None, default="OVERALLQC"
        The column of the quality of the scans. None: no sample is removed for its quality.
    exclude : sequence of str, default=()
        Names of further columns that are no features.

    Returns
    -------
    Dataset
        Tasks "M06" .. "M48" in this order; `group` holds the patients. `note` compares sizes with the
        paper's.

    Examples
    --------
    >>> import pandas as pd
    >>> from msmtfl.datasets import load_adni
    >>> table = pd.DataFrame({"RID": [2, 3, 2, 3], "VISCODE": ["m06", "m06", "m12", "bl"], "MMSE": [28, 25, 27, 26],
    ...                       "OVERALLQC": ["Pass", "Pass", "Fail", "Pass"], "ST29SV": [3100.0, 2500.0, 3000.0, 2600.0]})
    >>> data = load_adni(table)
    >>> data.sizes, data.group
    ({'M06': 2}, array([2, 3]))
    >>> data.dropped
    {'other visit': {'BL': 1}, 'failed scan': {'M12': 1}}
    """
    frame = read_table(table)
    roles: list[tuple[str, Any]] = [("patient", patient), ("visit", visit), ("target", target)]
    checked = quality is not None and (quality != QUALITY or QUALITY in frame.columns)
    if checked:
        roles.append(("quality", quality))
    require_columns(frame, roles)
    features = _feature_columns(frame, [column for _, column in roles], exclude)
    values = numeric_columns(frame, [*features, target], "The target must be the score.")
    X, y = values[:, :-1], values[:, -1]
    group, visits = frame[patient].to_numpy(), _visit_codes(frame[visit])
    names = np.array([str(name) for name in features])

    known = np.isin(visits, VISITS)
    if not known.any():
        raise ValueError(
            f"no row of column {visit!r} is one of the visits {names_of(VISITS)}; it holds {names_of(np.unique(visits))}."
        )
    failed = _failed(frame[quality]) if checked else np.zeros(len(y), dtype=bool)
    usable = known & ~failed
    empty = np.isnan(X[usable]).all(axis=0) & usable.any()
    X, names, without = X[:, ~empty], names[~empty], names[empty]
    lacking = np.isnan(X).any(axis=1) | np.isnan(y) | missing_values(group)
    reasons = {
        "other visit": ~known,
        "failed scan": failed,
        "score outside 0 to 30": (y < 0) | (y > 30),
        "missing entry": lacking,
    }
    keep, dropped = _sift(visits, reasons)
    if without.size:
        dropped["column without a value"] = dict.fromkeys(without.tolist(), len(y))
    if not keep.any():
        raise ValueError(f"no complete row is left. {_most_missing(X[usable], names)}Left out: {_summary(dropped)}.")
    _refuse_second_scans(group[keep], visits[keep])

    rows = np.flatnonzero(keep)
    rows = rows[np.argsort([VISITS.index(code) for code in visits[rows]], kind="stable")]
    sizes = Counter(visits[rows].tolist())
    note = "rows (the paper's): " + ", ".join(f"{code} {sizes[code]} ({n})" for code, n in PAPER_SIZES.items())
    note += f"; features: {X.shape[1]} ({PAPER_FEATURES})" + (f"; left out: {_summary(dropped)}" if dropped else "")
    return Dataset(
        name="ADNI",
        X=X[rows],
        y=y[rows],
        task=visits[rows],
        feature_names=names,
        description=(
            "MMSE at six visits from FreeSurfer measurements of MRI scans, a visit a task. "
            f"{'' if checked else 'No column of scan quality was used. '}{note}."
        ),
        source="the table" if is_table(table) else str(table),
        group=group[rows],
        dropped=dropped,
        note=note,
    )


def _feature_columns(frame: Any, roles: list[Any], exclude: Sequence[str]) -> list[Any]:
    if isinstance(exclude, str):
        raise TypeError(f"exclude must be a list of column names; got the text {exclude!r}.")
    require_columns(frame, [("exclude", name) for name in exclude])
    names = [name for name in frame.columns if name not in roles and name not in exclude]
    text = text_columns(frame, names)
    wrong = [name for name in names if name in text or str(name).upper() in RECORDS]
    if wrong:
        raise ValueError(f"columns that are no measurements, but text or numbers of records: pass exclude={wrong!r}.")
    if not names:
        raise ValueError(f"the table has no feature besides {names_of(roles)}. Columns: {names_of(frame.columns)}.")
    return names


def _visit_codes(column: Any) -> np.ndarray:
    """(N,) text: upper case, months with two digits; "missing" where there is none."""
    text = column.astype(object).where(column.notna(), "missing").astype(str).str.strip().str.upper()
    return np.array(text.str.replace(r"^M(\d)$", r"M0\1", regex=True).tolist(), dtype=str)


def _failed(column: Any) -> np.ndarray:
    return np.array(column.astype(str).str.strip().str.lower() == "fail", dtype=bool)


def _sift(visits: np.ndarray, reasons: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, dict[str, int]]]:
    """The rows to keep, and how many of each visit go, each counted under the first reason that applies."""
    keep, dropped = np.ones(len(visits), dtype=bool), {}
    for reason, rows in reasons.items():
        if (keep & rows).any():
            dropped[reason] = _count(visits[keep & rows])
        keep &= ~rows
    return keep, dropped


def _count(values: Iterable[Any]) -> dict[str, int]:
    return dict(sorted(Counter(str(value) for value in values).items()))


def _summary(dropped: dict[str, dict[str, int]]) -> str:
    return ", ".join(
        f"{len(counts)} {reason}" if reason.startswith("column") else f"{sum(counts.values())} {reason}"
        for reason, counts in dropped.items()
    )


def _most_missing(X: Floats, names: np.ndarray) -> str:
    if not np.isnan(X).any():
        return ""
    share = np.isnan(X).mean(axis=0)
    worst = int(np.argmax(share))
    return f"Column {str(names[worst])!r} is missing in {share[worst]:.0%} of the rows: exclude=[...] leaves it out. "


def _refuse_second_scans(group: np.ndarray, visits: np.ndarray) -> None:
    twice = [pair for pair, n in Counter(zip(group.tolist(), visits.tolist(), strict=True)).items() if n > 1]
    if twice:
        raise ValueError(
            f"patient {twice[0][0]!r} has more than one row at visit {twice[0][1]} ({len(twice)} such pair(s)): keep one "
            "scan of each, e.g. by table.drop_duplicates."
        )
