"""Weighted lassos under a loss that is not squared: proximal Newton steps around the exact quadratic solver.

    task i:  min_w  min_b sum_r v_r h(y_r, x_r'w + b) + sum_j a_j |w_j| [ + lam / 2 sum_j ridge_j w_j^2 ],   a_j in [0, inf]

A step replaces h by its parabola at the present f, a weighted least squares lasso (with its intercept inside, by centring),
which the kernel solves exactly; then a line search. Only the features in work (those in use, free, at their bound or beyond)
take part; the gradient of all others is looked at when the steps have settled.

Where the columns of all tasks fit into memory once more, the compiled `_kernels/newton.py` makes these steps, for all
tasks in one call; what it leaves (minimisers that are not unique, nearly dependent columns) is done here, as
is all of a larger X.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..._data.designs import Floats, Ints
from ..._data.forms.dense import RowTask
from ..._kernels import active_set as _kernel
from ..._kernels import newton as _newton
from ..._objective.loss_task import LossTask
from ..._objective.losses import Gamma, Logistic, Poisson, Tweedie
from ..._objective.problem import Problem
from ..._runtime.threads import each, shares
from .lasso_solver import ESCAPES, OVERRUN, SLID, Solve, one_by_one
from .weighted_lasso import Lassos

GOAL = 1e-13  # violation of optimality, as a correlation, at which steps end
OVER = 1e-11  # violation, as a correlation, from which a feature is taken into work
TIE = 1e-9  # |gradient| this close to its bound, relatively, is taken into work: other minimisers may use it
AT_LEAST = 16  # features taken into work together
MANY = 12  # Newton steps of a solve from which it is asked whether there is a minimiser
STEPS = 500  # Newton steps of a solve; it takes less than ten, or thirty where classes are separable
FEW = 6  # steps after which longer ones are tried
FAR = 64.0  # times the step: the longest
ROUNDS = 10_000  # of taking features into work
PATIENCE = 3  # steps without progress that are made before rounding is blamed
ROUNDED = 1e-5  # violation, as a correlation, above which it is not: the solve is not finished
HALVED = (
    10  # times that a step is halved before it is cut to a tenth: from saturated rows it may be 1e26 times too long
)
FLAT = 1e-14  # curvature, as a share of the largest, below which it is not taken at its word
COMPILED = (Logistic, Poisson, Gamma, Tweedie)  # of Huber's the kernel leaves gaps of 1e-8 where lam is next to nothing
COPIED = 2**28  # bytes that the columns of all tasks may take once more
LOST = 1e-6  # share of a column's squares left by centring, below which the Gram form is not trusted


Weights = tuple[Floats, Floats, Floats]  # a, aim, unit of the features in work, (1, k) each


class LossLassos:
    """What `Lassos` is for squared loss: the weighted lassos of all tasks, each started from its last solution.

    Parameters
    ----------
    designs : one `LossTask` per task
    positive : require w >= 0
    units : (m, d) scale in which the distance between solutions is measured
    ridge : (m, d) that of every task at lam = 1, if there is any; `at` says which lam it is
    n_jobs : threads over tasks
    problem : knows which weights leave a task without a minimiser. If it is given these are not solved (the reference is
        returned): otherwise the loss is brought close to its lowest value

    Attributes
    ----------
    status : (m,) bits of the last solve: OVERRUN where it was not finished, SLID where the minimiser was not unique, ESCAPES
        (with OVERRUN) where there is none
    """

    grams = None

    def __init__(
        self,
        designs: Sequence[LossTask],
        *,
        positive: bool = False,
        units: Floats,
        ridge: Floats | None = None,
        n_jobs: int | None = None,
        problem: Problem | None = None,
    ):
        self.ridge, self.lam = ridge, 0.0
        self.designs, self.problem = list(designs), problem
        self.positive, self.units, self.n_jobs = positive, units, n_jobs
        self.m, self.d = len(self.designs), self.designs[0].d
        self.status = np.zeros(self.m, np.intc)
        self.last = np.zeros((self.m, self.d))
        self.known: list[_newton.Newton] | None = None  # states in the kernel

    def at(self, lam: float) -> None:
        """Have the ridge of this lam, if there is one, from the next solve on."""
        if self.ridge is not None and lam != self.lam:
            self.lam = lam
            for i, state in enumerate(self.known or []):
                state.set_ridge(lam * self.ridge[i], self._order(i))

    def limit(self, i: int) -> bool:
        """How task i's coefficients are bounded."""
        return self.positive

    def _order(self, i: int) -> int:
        """The largest support of task i."""
        design = self.designs[i]
        order = min(len(design.y) - design.base.centre, self.d)
        return order if self.ridge is None else min(order + int(np.count_nonzero(self.ridge[i])), self.d)

    @property
    def compiled(self) -> list[_newton.Newton]:
        """The tasks' states in the kernel, made when they are first needed; none if their columns are too many, or the loss
        is not one of those that it solves."""
        if self.known is None:
            fits = 8 * self.d * sum(len(design.y) for design in self.designs) <= COPIED
            fits = fits and isinstance(self.designs[0].of_loss, COMPILED)
            self.known = each(self._state, range(self.m), self.n_jobs) if fits else []
        return self.known

    def _state(self, i: int) -> _newton.Newton:
        design, nothing = self.designs[i], np.zeros(self.d)
        out = _newton.Newton(
            design.by_feature(),
            np.ascontiguousarray(design.y, dtype=np.float64),
            np.ascontiguousarray(design.v),
            np.ascontiguousarray(design.offset),
            np.sqrt(design.squares),
            float(np.sqrt(design.yy)),
            next(_newton.KINDS[one.__name__] for one in type(design.of_loss).__mro__ if one.__name__ in _newton.KINDS),
            getattr(design.of_loss, "epsilon", getattr(design.of_loss, "power", 0.0)),
            design.base.centre,
            design.level(nothing),
            self._order(i),
            self.positive,
        )
        if self.ridge is not None and self.lam > 0.0:
            out.set_ridge(self.lam * self.ridge[i], self._order(i))
        if self.last[i].any():
            out.begin(self.last[i], design.level(self.last[i]))
        return out

    def solve_into(
        self, A: Floats, aim: Floats, W: Floats, status: np.ndarray, rounds: np.ndarray, max_iter: int = 0
    ) -> None:
        """The same, W, status and steps (m,) being written to arrays at hand."""
        left = np.arange(self.m)
        if self._without_minimiser(A, aim, W, status, rounds):
            return
        if (max_iter == 0 or max_iter >= STEPS) and self.compiled:  # its own limit is lower
            self._solve_compiled(A, aim, W, status, rounds)
            left = np.flatnonzero(status)
            if self._found_without(A, W, status, rounds) and self._without_minimiser(A, aim, W, status, rounds):
                return

        def one(i: int) -> None:
            ridge = np.zeros(self.d) if self.ridge is None else self.lam * self.ridge[i]
            task = _Descent(self.designs[i], A[i], ridge, aim[i], self.units[i], self.positive, max_iter)
            W[i], status[i], rounds[i] = task.run(self.last[i])
            if self.compiled:
                self.compiled[i].begin(W[i], self.designs[i].level(W[i]))

        each(one, left.tolist(), self.n_jobs)
        self.status, self.last = np.array(status), np.array(W)

    def _without_minimiser(self, A: Floats, aim: Floats, W: Floats, status: np.ndarray, rounds: np.ndarray) -> bool:
        """Whether some task is known to have no minimiser: W is then the aim."""
        gone = np.zeros(self.m, dtype=bool) if self.problem is None else self.problem.without_minimiser(A)
        if not gone.any():
            return False
        W[:], rounds[:], status[:] = aim, 1, np.where(gone, OVERRUN | ESCAPES, 0)
        self.status = np.array(status)
        return True

    def _found_without(self, A: Floats, W: Floats, status: np.ndarray, rounds: np.ndarray) -> bool:
        """Whether some task that took many steps, or was left, turns out to have no minimiser."""
        if self.problem is None:
            return False
        hard = np.flatnonzero(((status != 0) | (rounds > MANY)) & (A == 0.0).any(axis=1))
        return any(self.problem.escapes(i, W[[i]], A[[i]])[0] for i in hard.tolist())

    def _solve_compiled(self, A: Floats, aim: Floats, W: Floats, status: np.ndarray, rounds: np.ndarray) -> None:
        """All tasks; where one is left to `_Descent`, status is not 0."""
        levels = np.zeros(self.m)

        def some(tasks: slice) -> None:
            weights, result = (A[tasks], aim[tasks], self.units[tasks]), (W[tasks], levels[tasks])
            _newton.solve_all(self.compiled[tasks], *weights, *result, status[tasks], rounds[tasks])

        each(some, shares(self.m, self.n_jobs), self.n_jobs)
        known = (rounds > 0) & (status == 0)  # what was left may be at a level far from the best
        for i in np.flatnonzero(known).tolist():
            self.designs[i].note(W[i], levels[i])
        np.maximum(rounds, 1, out=rounds)

    def states(self) -> list[_kernel.ActiveSet]:
        """Empty: the kernel cannot solve these by itself."""
        return []

    def warm(self, W: Floats) -> None:
        """Start the next solve from W (m, d) instead of from the last solution."""
        self.last = np.array(W)
        for i, state in enumerate(self.known or []):
            state.begin(self.last[i], self.designs[i].level(self.last[i]))

    def solve(self, A: Floats, reference: Floats | None = None, max_iter: int = 0) -> tuple[Floats, np.ndarray]:
        """W (m, d) for weights A (m, d), and Newton steps (m,). Where a task's minimiser is not unique, W is the one
        nearest `reference` (m, d), by default nearest 0."""
        W, (status, steps) = np.zeros((self.m, self.d)), np.zeros((2, self.m), np.intc)
        aim = np.zeros((self.m, self.d)) if reference is None else np.ascontiguousarray(reference, dtype=np.float64)
        self.solve_into(np.ascontiguousarray(A, dtype=np.float64), aim, W, status, steps, max_iter)
        return W, steps

    def path(
        self,
        lams: Floats,
        weights: Floats,
        *,
        max_iter: int = 0,
        likely: Ints | None = None,
        tick: Callable[[float], None] = lambda part: None,
        stop: Callable[[], None] | None = None,
    ) -> list[Solve]:
        """Solve for lam times the weights (m, d), for one of lams (L,) after the other. Gram rows are not kept, so that it
        is of no use to know which are `likely` to be needed."""
        return one_by_one(self, lams, weights, max_iter, tick)


class _Descent:
    """One task's solve. w is that of all features; B are those in work and Z their columns, with one of ones for the
    intercept (if there is one), which has no penalty; z are the coefficients of these columns."""

    def __init__(
        self, design: LossTask, a: Floats, ridge: Floats, aim: Floats, unit: Floats, positive: bool, max_iter: int
    ):
        self.ridge = ridge
        self.bends = ridge  # those of the columns Z
        self.design, self.a, self.aim, self.unit, self.positive = design, a, aim, unit, positive
        self.most = max_iter or STEPS
        self.loss, self.y, self.v, self.centre = design.of_loss, design.y, design.v, design.centred
        self.offset = design.beside
        self.live = (design.squares > 0) & np.isfinite(a)
        self.length = np.sqrt(design.squares * design.yy)
        self.caution, self.steps, self.status = 1.0, 0, 0

    def run(self, w: Floats) -> tuple[Floats, int, int]:
        w, f = self._start(w)
        work = self.live & ((w != 0.0) | (self.a == 0.0))
        new = self._wanted(self._gradient(w), work)
        if not new.any() and self._settled(w, f, np.flatnonzero(work)):
            return w, 0, 1
        work |= new
        for _ in range(ROUNDS):
            w, f = self._descend(w, f, np.flatnonzero(work))
            new = self._wanted(self._gradient(w), work)
            if not new.any() or self.status & OVERRUN:
                break
            work |= new
        else:
            self.status |= OVERRUN
        return w, self.status, max(self.steps, 1)

    def _gradient(self, w: Floats) -> Floats:
        return self.design.gradient(w) - self.ridge * w

    def _start(self, w: Floats) -> tuple[Floats, Floats]:
        """The best of w, the aim (in stages: the last one's solution) and 0, with its linear predictors."""
        best = self.design.null, np.zeros_like(w)
        self.bends = self.ridge[self.live]
        for one in (w, self.aim):
            w = np.where(self.live & np.isfinite(one) & ((one > 0) | (not self.positive)), one, 0.0)
            if w.any():
                value = self._value(self.design.predictor(w), w[self.live], self.a[self.live])
                best = (value, w) if value <= best[0] else best
        return best[1], self.design.predictor(best[1])

    def _settled(self, w: Floats, f: Floats, B: Ints) -> bool:
        """Whether w, where paths and stages go on from, is optimal already."""
        level = np.zeros(int(self.centre))
        z, g = np.append(w[B], level), np.append(self._gradient(w)[B], level)
        if self.centre:
            g[-1] = self.v @ self.loss.slope(self.y, f)
        return self._violation(z, g, np.append(self.a[B], level), self._lengths(B), len(B)) <= GOAL

    def _lengths(self, B: Ints) -> Floats:
        """What correlations of the columns Z are measured in"""
        return np.append(self.length[B], [np.sqrt(self.design.n * self.design.yy)] * self.centre)

    def _value(self, f: Floats, z: Floats, a: Floats) -> float:
        """The objective"""
        with np.errstate(over="ignore"):  # an infinite value is never a step down
            return float(self.v @ self.loss.value(self.y, f)) + float(a @ np.abs(z)) + 0.5 * float(self.bends @ z**2)

    def _wanted(self, g: Floats, work: np.ndarray) -> np.ndarray:
        """Features that violate most, and those at their bound."""
        size = g if self.positive else np.abs(g)
        bound = np.where(self.live, self.a, 0.0)
        over = size - bound
        out: np.ndarray = self.live & ~work & (size > 0) & (over > -TIE * bound)
        beyond = np.flatnonzero(out & (over > OVER * self.length)) if out.any() else ()
        count = max(AT_LEAST, int(work.sum()))
        if len(beyond) > count:
            length = self.length[beyond]  # squares of targets may be too small for floats
            steep = np.divide(over[beyond], length, out=np.full(len(beyond), np.inf), where=length > 0.0)
            out[beyond] = False
            out[beyond[np.argpartition(-steep, count - 1)[:count]]] = True
        return out

    # ------------------------------------------------------------------ the features in work

    def _descend(self, w: Floats, f: Floats, B: Ints) -> tuple[Floats, Floats]:
        """Newton steps on the features B until optimality holds there, or rounding leaves no more to gain."""
        design, k = self.design, len(B)
        Z = design.block(B, self.centre)
        extra = np.zeros(Z.shape[1] - k)
        z = np.concatenate([w[B], extra + design.level(w)])
        a, length = np.append(self.a[B], extra), self._lengths(B)
        self.bends = np.append(self.ridge[B], extra)
        lasso = self.a[None, B], self.aim[None, B], self.unit[None, B]
        best, idle, value = (np.inf, z, f), 0, self._value(f, z, a)
        for turn in range(self.most + 1):
            u = -self.v * self.loss.slope(self.y, f)
            g = Z.T @ u - self.bends * z
            off = self._violation(z, g, a, length, k)
            idle = 0 if off < 0.5 * best[0] else idle + 1
            if off < best[0]:
                best = (off, z, f)
            if off <= GOAL or idle > PATIENCE:
                break
            if turn == self.most:
                self.status |= OVERRUN
                break
            self.steps += 1
            to = self._step(Z, z, f, u, g, lasso)
            z, f, new = self._search(Z, z, f, u, a, to, value, turn >= FEW)
            idle = 0 if new < value - 1e-13 * (abs(value) + design.null) else idle
            value = new
        off, z, f = best
        if off > ROUNDED:
            self.status |= OVERRUN
        out = np.zeros_like(w)
        out[B] = z[:k]
        design.note(out, float(z[k:].sum()), f)
        return out, f

    def _violation(self, z: Floats, g: Floats, a: Floats, length: Floats, k: int) -> float:
        """Of the optimality conditions, as a correlation."""
        if self.design.yy <= 0:
            return 0.0
        size = np.abs(g)
        if self.positive:
            size[:k] = g[:k]
        error = np.where(z != 0.0, np.abs(g - a * np.sign(z)), np.maximum(size - a, 0.0))
        return float((error / length).max(initial=0.0))

    def _step(self, Z: Floats, z: Floats, f: Floats, u: Floats, g: Floats, lasso: Weights) -> Floats:
        """The minimiser of the parabola at z."""
        bend = np.maximum(self.loss.curvature(self.y, f), self.caution * self.loss.majorant(self.y, f))
        bend = np.minimum(bend, 1e150)
        bend = np.maximum(bend, FLAT * bend.max())
        k, to, status = lasso[0].shape[1], z.copy(), np.zeros(1, np.intc)
        weighed = self.loss.root(Z, self.v, f, bend)
        H = weighed.T @ weighed
        of_level = H[k:, :k] / H[k:, k:] if self.centre else H[k:, :k]  # by which the intercept gives way
        if k:
            G = np.ascontiguousarray(H[:k, :k] - H[:k, k:] @ of_level)
            squares = G.diagonal()
            if (squares > LOST * H.diagonal()[:k]).all():
                ridge = self.bends[:k]
                order = min(len(self.y) - self.centre + int(np.count_nonzero(ridge)), k)
                squares = squares.copy()
                G.flat[:: k + 1] += ridge
                c = G @ z[:k] + g[:k] - g[k:] @ of_level
                state = _kernel.ActiveSet(G, c, np.sqrt(squares), k, order, self.positive)
                used = np.flatnonzero(z[:k])
                state.begin(used.astype(np.intc), z[used])
                W = np.zeros((1, k))
                _kernel.solve_all([state], *lasso, W, status, np.ones(1, np.intc), 0)
            else:
                status[0] = SLID
            if status[0]:
                W, status = self._with_care(Z[:, :k], f, bend, *lasso)
            to[:k] = W[0]
        self.status = (self.status & ~SLID) | int(status[0])
        if self.centre:
            to[k] += (g[k] - H[k, :k] @ (to[:k] - z[:k])) / H[k, k]
        return to

    def _with_care(
        self, X: Floats, f: Floats, bend: Floats, a: Floats, aim: Floats, unit: Floats
    ) -> tuple[Floats, np.ndarray]:
        """The same on X itself, where the minimiser is not unique or the Gram form may lose it."""
        task = RowTask(*self.design.parabola(X, f, self.loss.slope(self.y, f), bend))
        lassos = Lassos([task], positive=self.positive, units=unit, careful=True, ridge=self._bends_of(X))
        lassos.at(1.0)
        to, _ = lassos.solve(a, reference=aim)
        return to, lassos.status & (SLID | OVERRUN)

    def _bends_of(self, X: Floats) -> Floats | None:
        """(1, k): the ridge of the features in work, if there is one."""
        return self.bends[None, : X.shape[1]] if self.bends.any() else None

    def _search(
        self, Z: Floats, z: Floats, f: Floats, u: Floats, a: Floats, to: Floats, value: float, beyond: bool
    ) -> tuple[Floats, Floats, float]:
        """As far towards `to` as the objective falls enough; or, if asked to, beyond it as long as it falls."""
        fitted = Z @ to + self.offset
        slope = float(u @ (f - fitted)) + float(a @ (np.abs(to) - np.abs(z))) + float(self.bends @ (z * (to - z)))
        noise = 1e-15 * (abs(value) + self.design.null)
        t, at = 1.0, to
        for turn in range(60):
            new = self._value(fitted, at, a)
            if new <= value + 1e-4 * t * min(slope, 0.0) + noise:
                self.caution = max(0.1 * self.caution, 1e-12) if t == 1.0 else min(10.0 * self.caution, 1.0)
                found = at, fitted, new
                return self._beyond(Z, z, to, a, found, noise) if beyond and t == 1.0 else found
            t *= 0.5 if turn < HALVED else 0.1
            at = z + t * (to - z)
            fitted = Z @ at + self.offset
        self.caution = 1.0
        return z, f, value

    def _beyond(
        self, Z: Floats, z: Floats, to: Floats, a: Floats, found: tuple[Floats, Floats, float], noise: float
    ) -> tuple[Floats, Floats, float]:
        """Twice as far, as long as the objective falls. Where classes are separable a step moves all rows by about 1 and the
        loss falls by a factor: so many steps would be made."""
        t = 2.0
        while t <= FAR:
            at = z + t * (to - z)
            if self.positive and (at[: at.size - self.centre] < 0.0).any():
                break
            fitted = Z @ at + self.offset
            new = self._value(fitted, at, a)
            if not new < found[2] - noise:
                break
            found = at, fitted, new
            t *= 2.0
        return found
