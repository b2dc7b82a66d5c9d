"""The scale of a task's residuals, in which Huber's epsilon is given.

With the spread of the targets in its place the loss would be the squared one wherever the signal is strong. The scale comes
from a pilot fit in which no lam and no theta has a part, and then stays as it is: what is solved, certified and
followed along a path is convex, with known scales. A training fold finds its own, as a fit to its samples does.

The pilot fit is Huber's M-estimate on k of the d features, without a penalty, at 1.345 times the scale
s = 1.4826 median |r| (n / (n - k))^1/2 of its own residuals r. Candidates for the features are the supports along a lasso
path, its targets being pulled in to no further than 1.345 scales from the fit before (at first: from the median); of
these the one with the least

    n log t^2 + (k log n + 2 log (d choose k)) n / (n - k - 2),    t^2 = sum_r min(r^2, (2 s)^2) / (0.92 (n - k)),

an extended BIC in which outliers count as if they were near; then once more from there, as long as that falls. In the end a
task may take the features that several tasks have found, by the same rule. The scale is t: the standard deviation of the
noise if that is normal, with less variance than s. The more of the signal is not found, the larger t is, and the closer the
loss to the squared one. Where more than half of the targets are equal, their residuals say nothing about the others,
and s is the root of the mean square. t is never less than a thousandth of the targets' spread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from ..._data.designs import Floats
from ..._data.forms.dense import RowTask
from ..._objective.box import Box, Limit, of_task, outward
from ..._objective.loss_task import LossTask
from ..._objective.losses import MAD_TO_SD, Huber, robust_scale, weighted_median
from ..._runtime.threads import each
from ..lassos.bounded import BoundedLassos
from ..lassos.weighted_lasso import Lassos

BEND = 1.345  # of the pilot fit, in scales: 95 % as efficient as least squares under normal noise
FAR = 2.0  # scales from which residuals count as if they were no larger
NEAR = 0.9205369  # the mean of min(z^2, FAR^2) of a standard normal z
LAMS = 0.8 ** np.arange(1, 31)  # of the largest: where supports are looked at
MOST = 0.5  # coefficients per sample at most: with more, half of the residuals can be made 0
SEVERAL = (0.5, 0.25, 0.1)  # of the tasks: who find a feature, for others to take it
PASSES = 5  # over the path at most; it takes two or three
TURNS = 100  # of a fit, between coefficients and scale
SETTLED = 1e-9  # relative change of the scale that counts as none
ALIKE = 1e-10  # of the range of a projection of samples, up to which these count as the same sample
LEAST = 1e-3  # of the targets' spread: an exact fit has a scale, too


def with_scales(
    tasks: Sequence[LossTask], epsilon: float, factors: Floats, positive: Limit = False, n_jobs: int | None = None
) -> list[LossTask]:
    """The same tasks under Huber's loss with epsilon in units of the scales of their residuals.

    Features whose factor in (d, m) is 0 are never penalised, those with inf left out; other factors make no
    difference to the pilot fit, which measures all columns by their length.
    """
    pilots = [_Pilot(task, factors[:, i], of_task(positive, i)) for i, task in enumerate(tasks)]
    fits = each(_Pilot.best, pilots, n_jobs)
    votes = np.sum([fit.used for fit in fits], axis=0)
    shared = [votes >= max(2.0, share * len(tasks)) for share in SEVERAL]

    def end(both: tuple[_Pilot, _Fit]) -> LossTask:
        pilot, fit = both
        fit = min([fit, *(pilot.on(used) for used in shared if used.any())], key=_criterion)
        return pilot.posed(epsilon, fit)

    return each(end, list(zip(pilots, fits, strict=True)), n_jobs)


@dataclass(frozen=True)
class _Fit:
    """Features in use (d,), the scale, and the residuals."""

    criterion: float
    used: np.ndarray
    scale: float
    residuals: Floats


def _criterion(fit: _Fit) -> float:
    return fit.criterion


class _Pilot:
    """The pilot fits of a task."""

    def __init__(self, task: LossTask, factors: Floats, positive: Limit):
        self.rows, self.y, self.positive = task.base, task.y, positive
        v = task.v
        # Whole numbers count samples, as if these were repeated; of others only the ratios matter.
        whole = np.abs(v - np.rint(v)) <= 1e-12 * v
        self.v = np.rint(v) if whole.all() else v * (len(v) / v.sum())
        self.n, self.centred = float(self.v.sum()), int(self.rows.centre)
        self.spread = robust_scale(self.y, self.v, None if self.centred else 0.0)
        self.middle = weighted_median(self.y, self.v) if self.centred else 0.0
        sizes = np.abs(self.y - self.middle)
        self.varies, self.mostly_one = bool(sizes.any()), weighted_median(sizes, self.v) == 0.0
        self.live = (self.rows.squares > 0.0) & np.isfinite(factors)
        if isinstance(positive, Box):
            self.live &= positive.low < positive.high
        self.free = self.live & (factors == 0.0)
        self.weights = np.where(self.free, 0.0, np.where(self.live, np.sqrt(self.rows.squares), np.inf))
        self.known: dict[bytes, _Fit] = {}

    @cached_property
    def different(self) -> int:
        """How many samples are unlike all others: neither weights nor repeats add to what coefficients can be fitted to."""
        rows = self.rows
        unlike = np.cos(np.arange(1.0, rows.d + 1.0))
        w = np.divide(unlike, np.sqrt(rows.squares), out=np.zeros(rows.d), where=rows.squares > 0.0)
        both = [one / (np.ptp(one) or 1.0) for one in (rows.apply(w) / rows.u, self.y)]
        return 1 + int(np.count_nonzero(np.diff(np.sort(both[0] + np.pi * both[1])) > ALIKE))

    def posed(self, epsilon: float, fit: _Fit) -> LossTask:
        inside = float(self.v @ (np.abs(fit.residuals) < epsilon * fit.scale) / self.n)
        return LossTask(self.rows, self.y, Huber(epsilon * fit.scale, fit.scale), inside)

    def best(self) -> _Fit:
        best = self.on(self.free)
        for _ in range(PASSES if self.varies else 0):
            found = min(self._along(best), key=_criterion, default=best)
            if found.criterion >= best.criterion:
                break
            best = found
        return best

    def _along(self, start: _Fit) -> Iterator[_Fit]:
        """Fits to the supports of a path."""
        reach = BEND * start.scale
        near = RowTask(self.rows, self.y - start.residuals + np.clip(start.residuals, -reach, reach))
        lassos = self._lassos(near)
        W = np.zeros((1, self.rows.d))
        if self.free.any():
            W, _ = lassos.solve(np.where(self.free, 0.0, np.inf)[None])
        g, w = near.gradient(W[0]), self.weights
        top = np.divide(np.maximum(outward(self.positive, W[0], g), 0.0), w, out=np.zeros_like(g), where=w > 0.0).max(
            initial=0.0
        )
        for lam in top * LAMS:
            W, _ = lassos.solve(np.multiply(lam, w, out=np.full_like(w, np.inf), where=np.isfinite(w))[None])
            fit = self.on((W[0] != 0.0) | self.free)
            if np.isinf(fit.criterion):
                return
            yield fit

    def _lassos(self, near: RowTask) -> Lassos | BoundedLassos:
        if isinstance(self.positive, Box):
            return BoundedLassos([near], Box(self.positive.low[None], self.positive.high[None]))
        return Lassos([near], positive=self.positive, units=np.ones((1, self.rows.d)))

    def on(self, used: np.ndarray) -> _Fit:
        """Huber's M-estimate on some of the features; if these are too many, the spread of the targets."""
        used = used & self.live
        key = used.tobytes()
        if key not in self.known:
            k = int(used.sum())
            can = self.varies and k + self.centred <= MOST * min(self.n, self.different)
            out = self._estimate(used, k) if can else (np.inf, self.spread, self.y - self.middle)
            self.known[key] = _Fit(out[0], used, *out[1:])
        return self.known[key]

    def _estimate(self, used: np.ndarray, k: int) -> tuple[float, float, Floats]:
        Z = self.rows.columns(np.flatnonzero(used)) / np.outer(self.rows.u, np.sqrt(self.rows.squares[used]))
        Z = np.column_stack([Z, np.ones(len(Z))]) if self.centred else Z
        r, scale = self.y - self.middle, np.inf
        for _ in range(TURNS):
            before, scale = scale, self._scale(r, k)
            if abs(scale - before) <= SETTLED * scale:
                break
            reach = BEND * scale
            root = np.sqrt(self.v * np.divide(reach, np.abs(r), out=np.ones_like(r), where=np.abs(r) > reach))
            r = self.y - Z @ np.linalg.lstsq(root[:, None] * Z, root * self.y, rcond=1e-10)[0]
        square = self.v @ np.minimum(r**2, (FAR * scale) ** 2) / (NEAR * (self.n - k))
        d = int(self.live.sum())
        charge = k * np.log(self.n) + 2.0 * (gammaln(d + 1) - gammaln(k + 1) - gammaln(d - k + 1))
        value = self.n * np.log(max(square, np.finfo(float).tiny)) + charge * self.n / max(self.n - k - 2.0, 1.0)
        return float(value), max(float(np.sqrt(square)), LEAST * self.spread), r

    def _scale(self, r: Floats, k: int) -> float:
        if self.mostly_one:
            scale = np.sqrt(self.v @ r**2 / max(self.n - k - self.centred, 1.0))
        else:
            scale = MAD_TO_SD * weighted_median(np.abs(r), self.v) * np.sqrt(self.n / (self.n - k))
        return max(float(scale), LEAST * self.spread)
