"""Lemmas 13 to 16 and 19 to 21 and the equations of their proofs, (26) to (40), at every stage of a fit of known truth.

They are stated with Lam = m lam in place of lam. At a stage, `true` are the rows of the true W that are not 0, G (d,) the
other rows that the stage penalises, and the rows in play those not in G: true or un-penalised. I (m, d) adds to the rows
in play every task's s largest coefficients in G. D = W^(l) - W.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._objective.problem import Problem
from ..._solvers.stages import Stage
from ..spectra import Interval, Spectrum, quotient
from .bounds import of_rows_in_play
from .interaction import interaction, lemma_19
from .statements import SPARE, Condition, LemmaCheck

PI_SUBSETS = 2_000  # choices of columns and signs: some milliseconds; beyond, pi is bounded


@dataclass(frozen=True)
class Fit:
    """What all statements about a fit refer to, on the scale of the problem solved."""

    problem: Problem
    spectra: Sequence[Spectrum]
    W: Floats  # (m, d) the truth
    conditions: Sequence[Condition]  # as proven
    Lam: float
    theta: float
    s: int
    rho: float  # rho-(2 rbar + s) at least
    largest: float  # the right-hand side of (26)
    squares: tuple[float, Floats]  # that of (27), and those of Lemma 21 for all tasks

    @cached_property
    def true(self) -> np.ndarray:
        return np.asarray(self.W.any(axis=0))

    @property
    def r(self) -> int:
        return int(self.true.sum())

    @cached_property
    def noise(self) -> Floats:
        """(m, d): minus the paper's epsilon"""
        return self.gradient(self.W)

    @cached_property
    def size(self) -> float:
        return float(np.abs(self.noise).max())

    @property
    def quiet(self) -> bool:
        """What (26) and the condition on lam come to."""
        return 12 * self.size <= self.Lam * (1 + SPARE)

    def met(self, *names: str) -> bool:
        return all(one.verdict == "holds" for one in self.conditions if not names or one.name in names)

    def gradient(self, V: Floats) -> Floats:
        """(m, d): X_i'(y_i - X_i v_i) / n_i"""
        pairs = zip(self.problem.designs, V / self.problem.units, strict=True)
        return np.array([design.gradient(v) / design.n for design, v in pairs]) / self.problem.units

    @cached_property
    def known(self) -> dict[tuple[int, int], Interval]:
        return {}

    def pi(self, spectrum: Spectrum, k: int) -> Interval:
        """pi(k, s) of a task"""
        if (id(spectrum), k) not in self.known:
            self.known[id(spectrum), k] = interaction(spectrum, k, self.s, min(PI_SUBSETS, spectrum.max_subsets))
        return self.known[id(spectrum), k]


def lemmas_of(fit: Fit, stages: Sequence[Stage]) -> tuple[LemmaCheck, ...]:
    """Both sides of all of them."""
    out, before = list(_of_no_stage(fit)), np.zeros_like(fit.W)
    for l, stage in enumerate(stages, start=1):
        V = stage.coef * fit.problem.units
        out += _at_stage(fit, l, V, ~np.isin(np.arange(fit.problem.d), stage.free_rows), before)
        before = V
    return tuple(out)


def _of_no_stage(fit: Fit) -> Iterator[LemmaCheck]:
    by_task = (fit.noise[:, fit.true] ** 2).sum(axis=1)
    k = 2 * fit.r + fit.s
    bounds = [lemma_19(one, k, fit.s).high for one in fit.spectra]
    yield LemmaCheck("13a", 0, fit.size, fit.largest, True)
    yield LemmaCheck("13b", 0, float(by_task.sum()), fit.squares[0], True)
    yield LemmaCheck("19", 0, *_worst([fit.pi(one, k).low for one in fit.spectra], bounds), True)
    yield LemmaCheck("21", 0, *_worst(by_task, fit.squares[1]), True)


def _at_stage(fit: Fit, l: int, V: Floats, penalised: np.ndarray, before: Floats) -> Iterator[LemmaCheck]:
    """Of stage l with coefficients V (m, d) and penalised rows (d,), after a stage with coefficients `before`."""
    m, r, s, Lam, rho = fit.problem.m, fit.r, fit.s, fit.Lam, fit.rho
    D, G = V - fit.W, penalised & ~fit.true
    k, error = int((~G).sum()), _norm(D)
    allowed, sparse = 2 * fit.size < Lam, fit.quiet and fit.met("columns") and k <= 2 * r

    slope = fit.gradient(V)
    bent = np.where(V == 0.0, np.maximum(np.abs(2 * slope) - Lam * penalised, 0.0), 0.0)
    bent = np.where(V == 0.0, bent, np.abs(2 * slope - Lam * penalised * np.sign(V)))
    yield LemmaCheck("33", l, float(bent.max()), 1e-6 * Lam, True)

    outside, inside = np.abs(V[:, G]).sum(axis=1), np.abs(D[:, ~G]).sum(axis=1)
    by_task = [_of_rest(Lam, size, one) for size, one in zip(np.abs(fit.noise).max(axis=1), inside, strict=True)]
    yield LemmaCheck("14", l, float(outside.sum()), _of_rest(Lam, fit.size, float(inside.sum())), allowed)
    yield LemmaCheck("34", l, *_worst(outside, by_task), allowed)
    yield LemmaCheck("15 rows", l, k, 2 * r, fit.quiet and fit.met())

    others = ~G & ~fit.true
    reach = Lam**2 / 144 * m * _norm(before[:, others]) ** 2 / fit.theta**2
    noises = fit.noise[:, ~G]
    of_noise = float((noises**2).sum())
    yield LemmaCheck("31", l, of_noise, fit.squares[0] + reach, fit.quiet and _few(fit))

    I = np.repeat(~G[None], m, axis=0)
    if G.any():
        order = np.argsort(-np.abs(V[:, G]), axis=1, kind="stable")[:, :s]
        np.put_along_axis(I, np.flatnonzero(G)[order], True, axis=1)
    DI = np.where(I, D, 0.0)
    lengths, part = np.sqrt((DI**2).sum(axis=1)), _norm(DI)
    curvature = (DI * (fit.noise - slope)).sum(axis=1)
    entries = np.count_nonzero(fit.W[:, penalised], axis=1)
    push = 2 * np.sqrt((noises**2).sum(axis=1)) + Lam * np.sqrt(entries)
    inner = 4 * of_noise + Lam**2 * int(entries.sum())
    outer = 1 + 1.5 * sqrt(2 * r / s)
    yield LemmaCheck("37", l, error, outer * part, fit.quiet and k <= 2 * r)
    yield LemmaCheck("20", l, *_lemma_20(fit, k, lengths, outside, curvature), True)
    yield LemmaCheck("38", l, *_worst(0.25 * rho * lengths**2, np.maximum(curvature, 0.0)), sparse)
    unsolved = (np.abs(DI) * bent).sum(axis=1)  # what an optimum would not have
    yield LemmaCheck("39", l, *_worst(2 * curvature, push * lengths + unsolved), allowed)
    yield LemmaCheck("40", l, part, quotient(sqrt(8 * m * inner), rho), sparse)
    yield LemmaCheck("15a", l, error, quotient(outer * sqrt(8 * m * inner), rho), sparse)
    sharp = of_rows_in_play(r, s) * sqrt(m) * (2 * sqrt(of_noise) + Lam * sqrt(entries.sum()))
    yield LemmaCheck("15a sharp", l, error, quotient(sharp, rho), sparse)
    yield LemmaCheck("15b", l, error, quotient(9.1 * m * Lam * sqrt(r), rho), sparse)
    off = _norm((fit.W - before)[:, fit.true]) / fit.theta
    yield LemmaCheck("16", l, m * int((penalised & fit.true).sum()), m * off**2, fit.met("rows"))


def _norm(D: Floats) -> float:
    """||D||_2,1 of D (m, d)"""
    return sqrt(float((np.abs(D).sum(axis=0) ** 2).sum()))


def _of_rest(Lam: float, size: float, inside: float) -> float:
    """The right-hand side of Lemma 14."""
    return quotient((2 * size + Lam) * inside, max(Lam - 2 * size, 0.0))


def _few(fit: Fit) -> bool:
    """Whether (27) happens."""
    return bool((fit.noise[:, fit.true] ** 2).sum() <= fit.squares[0])


def _lemma_20(fit: Fit, k: int, lengths: Floats, outside: Floats, curvature: Floats) -> tuple[float, float]:
    """With pi at most, rho- at least: what follows from the lemma whatever the intervals leave open."""
    left = []
    for spectrum, length, rest in zip(fit.spectra, lengths.tolist(), outside.tolist(), strict=True):
        taken = fit.pi(spectrum, k + fit.s).high * rest / fit.s if rest > 0 else 0.0
        bracket = length - taken
        left.append(spectrum.lower(k + fit.s).low * bracket * length if bracket > 0 else 0.0)
    return _worst(left, np.maximum(curvature, 0.0))


def _worst(left: Any, right: Any) -> tuple[float, float]:
    """The two sides in the task in which the left one is the largest part of the right one."""
    a, b = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    share = np.divide(a, b, out=np.where(a > 0, inf, 0.0), where=(b > 0) & np.isfinite(b))
    share[np.isinf(b)] = 0.0
    i = int(np.argmax(share))
    return float(a[i]), float(b[i])
