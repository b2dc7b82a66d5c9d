"""Checks of parameters that several models share."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np


def check_positive(name: str, value: Any, allow_inf: bool = False, allow_zero: bool = False) -> None:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    value = float(value)
    if not (value > 0 or (allow_zero and value == 0)) or (np.isinf(value) and not allow_inf):
        bound = ">= 0" if allow_zero else "> 0"
        raise ValueError(f"{name} must be {bound}{'' if allow_inf else ' and finite'}, got {value!r}.")


def check_share(name: str, value: Any) -> None:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number from 0 to 1, got {value!r}.")
    if not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"{name} must be from 0 to 1, got {value!r}.")


def check_count(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value!r}.")


def check_flag(name: str, value: Any) -> None:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}.")


def check_verbose(value: Any) -> None:
    if not isinstance(value, (bool, np.bool_, Integral)):
        raise TypeError(f"verbose must be True, False or a number, got {value!r}.")


def check_n_jobs(n_jobs: Any) -> None:
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs must be a non-zero integer or None, got {n_jobs!r}.")


def check_level(level: Any) -> None:
    """Whether a value is a probability that intervals can have."""
    if not isinstance(level, Real) or isinstance(level, bool):
        raise TypeError(f"level must be a number between 0 and 1, got {level!r}.")
    value = float(level)
    if not 0.0 < value < 1.0:
        hint = f" For {value:g} per cent it is {value / 100:g}." if 1.0 < value < 100.0 else ""
        raise ValueError(f"level must lie between 0 and 1, got {level!r}.{hint}")
