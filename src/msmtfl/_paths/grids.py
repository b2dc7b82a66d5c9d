"""Grids of lam and theta: what the user gave, checked, or the defaults."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from .._data.designs import Floats
from .._objective import theta as thresholds
from .._objective.problem import Problem
from .._objective.shapes import Shape, read_shape
from .._solvers.largest_lam import largest_lam, of_lasso
from .._solvers.problems.read_groups import refuse_entries
from .grid import Grid

ENTRY_RATIOS = (0.5, 2.0)  # of theta_entry
MIXTURE = 0.5  # the share of the entries in the default grid, besides 0
N_RATIOS = 6  # of the default theta ratios, besides inf
SMALL_SHARE, SMALLER_SHARE = 1e-3, 1e-4  # of lam_max where the lams end: n < d, n >= d in every task


def read_grid(
    problem: Problem,
    lams: ArrayLike = 50,
    theta_ratios: ArrayLike | None = None,
    thetas: ArrayLike | None = None,
    lam_min_ratio: float | None = None,
    entry_shares: ArrayLike = (0.0,),
    entry_ratios: ArrayLike | None = None,
    penalty: str | Shape = "capped",
) -> Grid:
    """The grid asked for; see `read_lams` and `read_thetas`. Every share of the entries comes with every theta for rows (if
    it leaves them anything) and every ratio of theta_entry (if it is not 0)."""
    found = read_lams(problem, lams, lam_min_ratio)
    of_rows = read_thetas(problem, found, theta_ratios, thetas)
    shares = _shares(entry_shares)
    if any(shares):
        refuse_entries(problem)
    ratios = ENTRY_RATIOS if entry_ratios is None else entry_ratios
    of_entries = read_thetas(problem, found, ratios, name="entry_ratios")
    never = np.full(len(found), np.inf)
    columns: list[tuple[float, Floats, Floats]] = []
    for share in shares:
        if share == 0.0:
            columns += [(share, rows, never) for rows in of_rows.T]
        elif share == 1.0:  # what theta is given to the rows is of no effect
            columns += [(share, entries, entries) for entries in of_entries.T]
        else:
            columns += [(share, rows, entries) for rows in of_rows.T for entries in of_entries.T]
    of_columns, rows, entries = zip(*columns, strict=True)
    return Grid(found, np.stack(rows, axis=1), np.array(of_columns), np.stack(entries, axis=1), read_shape(penalty))


def default_grid(
    problem: Problem, lams: ArrayLike = 30, lam_min_ratio: float | None = None, penalty: str | Shape = "capped"
) -> Grid:
    """The grid of a search: the paper's model at every second of the default thetas; once, half of lam is on the entries.

    Few columns on purpose. On 160 data sets like those of benchmarks/studies/chosen_points.py, with other seeds, these five
    columns at 25 lams (the default is 30) chose points whose errors on fresh samples were 1.052 times (95 %: 1.21)
    those of the best of twelve columns at 50 lams; a search over all of these chose points at 1.054 times (95 %: 1.24).
    What more points could gain, the noise of held-out errors took back, at five times the price.
    """
    found = read_lams(problem, lams, lam_min_ratio)
    ratios = default_ratios(problem.m)
    parts = [
        read_grid(problem, found, ratios[::2], penalty=penalty),
    ]
    if problem.groups is None:  # whose columns stay together
        more = {"entry_shares": MIXTURE, "entry_ratios": ENTRY_RATIOS[0]}
        parts.append(read_grid(problem, found, ratios[[3]], penalty=penalty, **more))
    return replace(
        parts[0],
        thetas=np.hstack([part.thetas for part in parts]),
        shares=np.concatenate([part.shares for part in parts]),
        theta_entries=np.hstack([part.theta_entries for part in parts]),
    )


def _shares(entry_shares: ArrayLike) -> list[float]:
    """Shares of lam that go to the entries, each once."""
    values = np.atleast_1d(_numbers("entry_shares", entry_shares))
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"entry_shares must be one or more numbers from 0 to 1; got {entry_shares!r}.")
    bad = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if bad.size:
        raise ValueError(f"entry_shares must be between 0 and 1; entry_shares[{bad[0]}] is {values[bad[0]]}.")
    return list(dict.fromkeys(values.tolist()))


def read_lams(
    problem: Problem,
    lams: ArrayLike = 50,
    lam_min_ratio: float | None = None,
    lam_max: float | None = None,
    shares: tuple[float, float] = (SMALL_SHARE, SMALLER_SHARE),
) -> Floats:
    """An array of lams as it is, or that many in a geometric grid from lam_max (by default the lasso's) down to a share of
    it (by default the first of `shares`, or the second if every task has more samples than features)."""
    if isinstance(lams, Integral) and not isinstance(lams, bool):
        if lams < 1:
            raise ValueError(f"lams must be a count of at least 1, or an array of values > 0; got {lams}.")
        if lam_min_ratio is None:
            enough = all(design.order >= design.d for design in problem.designs)
            lam_min_ratio = shares[enough] * of_lasso(problem.l1_ratio)  # down to where a lasso's would end
        elif not isinstance(lam_min_ratio, Real) or not 0 < lam_min_ratio < 1:
            raise ValueError(f"lam_min_ratio must be a number between 0 and 1, got {lam_min_ratio!r}.")
        top = largest_lam(problem) if lam_max is None else lam_max
        return (top or 1.0) * np.geomspace(1.0, lam_min_ratio, int(lams))
    if lam_min_ratio is not None:
        raise ValueError("lam_min_ratio goes with a number of lams; with an array of lams leave it out.")
    values = _numbers("lams", lams)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"lams must be a count, or a non-empty 1-D array of values > 0; an array of shape {values.shape} was given."
        )
    bad = np.flatnonzero(~((values > 0) & np.isfinite(values)))
    if bad.size:
        raise ValueError(f"lams must be > 0 and finite; lams[{bad[0]}] is {values[bad[0]]}.")
    return values


def read_thetas(
    problem: Problem,
    lams: Floats,
    theta_ratios: ArrayLike | None = None,
    thetas: ArrayLike | None = None,
    name: str = "theta_ratios",
) -> Floats:
    """(n_lams, k) thetas: as given, (k,) or (n_lams, k), or as ratios (k,) of m lam / rho_bar, of which l1_ratio is left."""
    if thetas is not None:
        if theta_ratios is not None:
            raise ValueError("give thetas or theta_ratios, not both.")
        values = _positive("thetas", thetas)
        if values.ndim == 1:
            return np.repeat(values[None], len(lams), axis=0)
        if values.ndim == 2 and len(values) == len(lams):
            return values
        raise ValueError(
            f"thetas has shape {values.shape}; expected (k,) for the same thetas at every lam, or ({len(lams)}, k) for one "
            "row per lam."
        )
    ratios = default_ratios(problem.m) if theta_ratios is None else read_theta_ratios(theta_ratios, name)
    units = np.array([thresholds.unit(problem.l1_ratio * lam, problem.m, problem.rho_bar) for lam in lams])
    out = np.outer(units, np.where(np.isinf(ratios), 1.0, ratios))
    out[:, np.isinf(ratios)] = np.inf  # whatever the unit is: it may be too small for a float
    return out


def read_theta_ratios(theta_ratios: ArrayLike, name: str = "theta_ratios") -> Floats:
    """(L,) values > 0, inf allowed"""
    out = _positive(name, theta_ratios)
    if out.ndim != 1:
        raise ValueError(f"{name} must be 1-D; it has shape {out.shape}.")
    return out


def read_ratios(ratios: ArrayLike, name: str = "ratios", *, ends: bool = False) -> Floats:
    """(L,) finite values > 0; with `ends` 0 and inf too"""
    if ends:
        out = np.atleast_1d(_numbers(name, ratios))
        if out.ndim != 1 or out.size == 0 or not (out >= 0).all():
            raise ValueError(f"{name} must be a 1-D array of values >= 0 (inf allowed); got {ratios!r}.")
        return out
    out = _positive(name, ratios, "finite")
    if out.ndim != 1 or not np.isfinite(out).all():
        raise ValueError(f"{name} must be a 1-D array of finite values > 0; got {ratios!r}.")
    return out


def default_ratios(m: int) -> Floats:
    """Geometric from 1 to max(50, 11 m), the ratio that the corrected Theorem 8 asks for, and inf (the lasso)."""
    return np.append(np.geomspace(1.0, max(50.0, 11.0 * m), N_RATIOS), np.inf)


def _numbers(name: str, values: ArrayLike) -> Floats:
    try:
        return np.array(values, dtype=np.float64)  # a copy: a grid does not change when the user's array does
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers: {error}.") from error


def _positive(name: str, values: ArrayLike, note: str = "inf allowed") -> Floats:
    out = _numbers(name, values)
    if out.ndim == 0:
        out = out[None]
    if out.size == 0:
        raise ValueError(f"{name} is empty: give at least one value > 0 ({note}).")
    bad = np.argwhere(~(out > 0))
    if bad.size:
        at = ", ".join(str(index) for index in bad[0])
        raise ValueError(f"{name} must be > 0 ({note}); {name}[{at}] is {out[tuple(bad[0])]}.")
    return out
