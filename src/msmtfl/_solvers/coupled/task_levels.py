"""Coefficients that are sums over levels under squared loss, as one problem: the tasks' designs put together.

    min_P  sum_i kappa_i/2 |y_i - X_i (p_0 + p_region(i) + p_school(i))|^2  +  penalty(P)

The rows of task i are those of X_i times kappa_i^1/2 under every part that the task has, 0 elsewhere. No such row is ever
made: Gram matrices are sums of those of the tasks. The sparse penalty makes that one weighted lasso. The ridge makes it one
linear system in blocks of (d, d), of which those of the level with most values are eliminated first: as the effects of two
schools meet in no task, each of them meets those of its region and the common part only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ..._data.designs import Coefs, Design, Floats, Ints, with_rows
from ..._objective.coupled.level_penalty import RIDGE, LevelPenalty
from ..._objective.problem import Problem
from ..gram import BUDGET, may_form
from ..lassos.grouped import GroupedLassos
from ..lassos.lasso_solver import OVERRUN
from ..lassos.task_solver import Caches, task_caches
from ..lassos.weighted_lasso import Lassos
from .common_part import POLISHED, Stacked
from .newton_around import NewtonAround

FLAT = 1e-13  # of its diagonal, at which a block of a linear system is taken for singular
ROOM = 2**27  # bytes that systems which are solved together may take


class StackedLevels(Stacked):
    """All tasks as one `Design` whose features are those of all parts, one part after the other."""

    def __init__(self, parts: Sequence[Design], blocks: Ints, kappa: Floats):
        self.parts, self.blocks, self.classes, self.tasks = list(parts), blocks, 1, len(parts)
        self.m, self.width, self.height = len(self.parts), self.parts[0].d, int(blocks.max()) + 1
        self.d, self.n, self.curvature = self.height * self.width, 1.0, 1.0
        self.scale = kappa
        self.members = [np.flatnonzero((blocks == block).any(axis=1)) for block in range(self.height)]
        self.order = min(sum(part.order for part in self.parts), self.m * self.width)
        self.same_x = self
        self.yy = float(sum(s * part.yy for s, part in zip(self.scale, self.parts, strict=True)))
        self.c = self._spread([part.c for part in self.parts])
        self.squares = self._spread([part.squares for part in self.parts])

    def _added(self, values: Floats) -> Floats:
        """Values (m, ...) of the tasks added up over the tasks of every part: (height, ...)."""
        out = np.zeros((self.height, *values.shape[1:]))
        for of_part in self.blocks.T:
            np.add.at(out, of_part, values)
        return out

    def _spread(self, values: Sequence[Floats]) -> Floats:
        return self._added(self.scale[:, None] * np.array(values)).ravel()

    def sums(self, P: Floats) -> Floats:
        """(m, d)"""
        return np.asarray(P.reshape(self.height, self.width)[self.blocks].sum(axis=1))

    def _at(self, block: int) -> slice:
        return slice(block * self.width, (block + 1) * self.width)

    def gram(self, room: Floats | None = None, n_jobs: int | None = None) -> Floats:
        out = np.empty((self.d, self.d)) if room is None else room
        out[:] = 0.0
        for s, part, blocks in zip(self.scale, self.parts, self.blocks.tolist(), strict=True):
            G = s * part.gram()
            for p in blocks:
                for q in blocks:
                    out[self._at(p), self._at(q)] += G
        return out

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        out = np.empty((len(features), self.d)) if out is None else out
        out[:] = 0.0
        owner, column = np.divmod(features, self.width)
        concerned = np.unique(np.concatenate([self.members[block] for block in np.unique(owner).tolist()]))
        for i in concerned.tolist():
            rows = np.flatnonzero(np.isin(owner, self.blocks[i]))
            G = self._rows_of(i, column[rows])
            for block in self.blocks[i].tolist():
                out[rows, self._at(block)] += G
        return out

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        owner, column = np.divmod(others, self.width)
        mine, of_mine = np.divmod(some, self.width)
        out = np.zeros((len(some), len(others)))
        for i in range(self.m):
            rows, at = np.flatnonzero(np.isin(mine, self.blocks[i])), np.flatnonzero(np.isin(owner, self.blocks[i]))
            if rows.size and at.size:
                out[np.ix_(rows, at)] += self.scale[i] * self.parts[i].gram_block(of_mine[rows], column[at])
        return out

    # ------------------------------------------------------------------ rows, if they are at hand

    def as_rows(self) -> StackedLevels:
        return StackedLevels([with_rows(part) for part in self.parts], self.blocks, self.scale)

    def correlate(self, v: Floats) -> Floats:
        ends = np.cumsum([0 if part.target is None else len(part.target) for part in self.parts])[:-1]
        pieces = zip(self.scale, self.parts, np.split(v, ends), strict=True)
        each = self._added(np.array([np.sqrt(s) * part.correlate(piece) for s, part, piece in pieces]))
        return each.reshape(self.d, *v.shape[1:])

    def columns(self, features: Ints) -> Floats | None:
        if self.target is None:
            return None
        owner, column = np.divmod(features, self.width)
        blocks = []
        for i, part in enumerate(self.parts):
            X = part.columns(column)
            assert X is not None
            blocks.append(np.sqrt(self.scale[i]) * X * np.isin(owner, self.blocks[i]))
        return np.concatenate(blocks)

    def intercepts(self, W: Coefs) -> Floats:
        raise NotImplementedError("every task has an intercept of its own")


class _OneLasso(Lassos):
    """The lasso in P. Of several minimisers any will do: they differ in how a task's coefficients are shared out."""

    def _polish(self, i: int, w: Floats, a: Floats) -> Floats:
        design: Any = with_rows(self.design(i))
        small = design.target is not None and len(design.target) * np.count_nonzero((w != 0.0) | (a == 0.0)) <= POLISHED
        return super()._polish(i, w, a) if small else w

    def _nearest(self, i: int, w: Floats, a: Floats, aim: Floats) -> Floats:
        return w


class LevelGrams:
    """What is known of the tasks put together, whatever the strengths."""

    def __init__(self, problem: Problem, penalty: LevelPenalty):
        self.stacked = StackedLevels(problem.designs, penalty.blocks, penalty.kappa)
        self.system = _System(self.stacked) if penalty.kind == RIDGE else None
        self.caches: Caches = [] if penalty.kind == RIDGE else task_caches([self.stacked])


class LevelSolver:
    """The problem at any strengths; each solve starts where the last one ended.

    Attributes
    ----------
    finished : whether the last solve came to its end
    steps : how many rounds it took
    """

    def __init__(self, problem: Problem, penalty: LevelPenalty, known: LevelGrams | None = None):
        self.known = LevelGrams(problem, penalty) if known is None else known
        self.finished, self.steps = True, 1
        self.last = np.zeros(self.known.stacked.d)
        if self.known.system is None:
            self.lasso: Any = self._lasso(penalty)

    def _lasso(self, penalty: LevelPenalty) -> Any:
        if penalty.groups is None:
            return _OneLasso([self.known.stacked], grams=self.known.caches)
        return GroupedLassos([self.known.stacked], penalty.groups.tiled(penalty.height), grams=self.known.caches)

    def warm(self, P: Floats) -> None:
        """Start the next solve from P (height, d) instead of from the last solution."""
        if self.known.system is None:
            self.lasso.warm(np.ascontiguousarray(P.reshape(1, -1)))

    def solve(self, penalty: LevelPenalty, max_iter: int = 0) -> tuple[Floats, int]:
        """The point (height, d), and rounds."""
        if self.known.system is not None:
            return self.known.system.solve(penalty.ridge[None])[0], 1
        found, rounds = self.lasso.solve(penalty.bounds.reshape(1, -1), self.last[None], max_iter)
        self.finished, self.steps = not self.lasso.status[0] & OVERRUN, int(rounds[0])
        self.last = found[0]
        return found[0].reshape(penalty.height, -1), self.steps


# ------------------------------------------------------------------ ridges


class _System:
    """The normal equations (sum of kappa X'X + ridge) p = sum of kappa X'y, in blocks of the parts."""

    def __init__(self, stacked: StackedLevels):
        self.stacked, d = stacked, stacked.width
        if not may_form(stacked.parts, BUDGET):
            raise ValueError(
                f"kind='ridge' needs the products of all pairs of {d} features in each of {stacked.m} tasks, which take "
                f"more than {BUDGET / 2**30:.0f} GiB: take kind='sparse'."
            )
        grams = np.array([s * part.gram() for s, part in zip(stacked.scale, stacked.parts, strict=True)])
        self.pairs: dict[tuple[int, int], Floats] = {}
        for G, blocks in zip(grams, stacked.blocks.tolist(), strict=True):
            for p in blocks:
                for q in blocks:
                    if p <= q:
                        self.pairs[p, q] = self.pairs[p, q] + G if (p, q) in self.pairs else G
        self.c = stacked.c.reshape(stacked.height, d)
        sizes = np.bincount(stacked.blocks.ravel(), minlength=stacked.height)
        of_all = np.isin(np.arange(stacked.height), stacked.blocks[:, 0])
        # those of which there are most first: a value that few tasks have meets few others
        self.order = np.lexsort((sizes, of_all)).tolist()

    def solve(self, ridges: Floats) -> Floats:
        """(points, height, d), for the second derivatives of the ridge (points, height, d), inf where an entry is 0."""
        d, L = self.stacked.width, self.stacked.blocks.shape[1]
        at_once = max(1, ROOM // (8 * L * d * d * self.stacked.height))
        pieces = [self._solve(ridges[low : low + at_once]) for low in range(0, len(ridges), at_once)]
        return np.concatenate(pieces)

    def _solve(self, ridges: Floats) -> Floats:
        """The same for as many as there is room for."""
        d, points = self.stacked.width, len(ridges)
        used = ~np.isinf(ridges) & (self.stacked.squares.reshape(ridges.shape[1:]) > 0.0)
        added, squares = np.where(used, ridges, 1.0), self.stacked.squares.reshape(ridges.shape[1:])
        left, right = dict(self.pairs), np.where(used, self.c, 0.0)
        neighbours: dict[int, set[int]] = {block: set() for block in self.order}
        for p, q in left:
            if p != q:
                neighbours[p].add(q)
                neighbours[q].add(p)
        done: list[tuple[int, list[int], Floats, Floats]] = []
        for block in self.order:
            inside, beside = used[:, block], sorted(neighbours.pop(block))
            own = np.where(inside[:, :, None] & inside[:, None, :], left[block, block], 0.0)
            own[:, np.arange(d), np.arange(d)] += added[:, block]
            B = np.zeros((points, d, len(beside) * d + 1))
            for s, q in enumerate(beside):
                A = left[block, q] if block < q else np.swapaxes(left[q, block], -1, -2)
                B[:, :, s * d : (s + 1) * d] = np.where(inside[:, :, None] & used[:, q, None, :], A, 0.0)
            B[:, :, -1] = right[:, block]
            solved = _solved(own, B, np.where(inside, squares[block] + added[:, block], 1.0))
            done.append((block, beside, solved[:, :, :-1], solved[:, :, -1]))
            if not beside:
                continue
            fill = np.swapaxes(B[:, :, :-1], 1, 2) @ solved
            for s, p in enumerate(beside):
                rows = slice(s * d, (s + 1) * d)
                right[:, p] -= fill[:, rows, -1]
                neighbours[p].discard(block)
                for t, q in enumerate(beside[s:], s):
                    change = fill[:, rows, t * d : (t + 1) * d]
                    left[p, q] = left[p, q] - change if (p, q) in left else -change
                    if p != q:
                        neighbours[p].add(q)
                        neighbours[q].add(p)
        out = np.zeros_like(ridges)
        for block, beside, back, alone in reversed(done):
            x = alone - (back @ out[:, beside].reshape(points, -1, 1))[:, :, 0] if beside else alone
            out[:, block] = np.where(used[:, block], x, 0.0)
        return out


def _solved(A: Floats, B: Floats, before: Floats) -> Floats:
    """Symmetric systems (points, d, d), right sides (points, d, k); where one is singular its solution of least size. Of the
    diagonals `before` (points, d), those before other blocks were eliminated, FLAT is what rounding may have left."""
    diagonal = np.diagonal(A, axis1=1, axis2=2)
    lost = (diagonal <= FLAT * before).any(axis=1, keepdims=True)
    size = np.sqrt(np.maximum(np.where(lost, before, diagonal), np.finfo(float).tiny))
    unit, right = A / (size[:, :, None] * size[:, None, :]), B / size[:, :, None]
    try:
        pivots = np.diagonal(np.linalg.cholesky(unit), axis1=1, axis2=2)
        if pivots.min(initial=1.0) ** 2 > FLAT:
            return np.asarray(np.linalg.solve(unit, right) / size[:, :, None])
    except np.linalg.LinAlgError:
        pass
    values, U = np.linalg.eigh(unit)
    kept = values > FLAT * np.where(lost, 1.0, values.max(axis=1, initial=0.0)[:, None])
    inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    return np.asarray(U @ (inverse[:, :, None] * (np.swapaxes(U, 1, 2) @ right)) / size[:, :, None])


# ------------------------------------------------------------------ other losses


class _OfLevels:
    """Sums over levels, as Newton steps see them."""

    def __init__(self, problem: Problem, penalty: LevelPenalty):
        self.height, self.kappa, self.penalty = penalty.height, penalty.kappa, penalty

    def coefs(self, P: Floats) -> Floats:
        return self.penalty.coefs(P)

    def value(self, penalty: LevelPenalty, P: Floats) -> float:
        return penalty.value(P)

    def on(self, penalty: LevelPenalty, features: Ints) -> LevelPenalty:
        return penalty.of_features(features)

    def always(self, penalty: LevelPenalty) -> np.ndarray:
        return np.asarray((penalty.bounds == 0.0).any(axis=0))

    def excess(self, penalty: LevelPenalty, G: Floats) -> Floats:
        of_parts, bounds, groups = np.abs(penalty.over_blocks(G)), penalty.bounds, penalty.groups
        sizes = np.divide(of_parts, bounds, out=np.zeros_like(of_parts), where=bounds > 0.0)
        return np.asarray((sizes if groups is None else groups.lengths(sizes.T)[groups.of].T).max(axis=0))

    def solved(
        self, problem: Problem, penalty: LevelPenalty, P: Floats, aim: Floats, accuracy: float
    ) -> tuple[Floats, LevelSolver]:
        solver = LevelSolver(problem, penalty)
        solver.warm(P)
        return solver.solve(penalty)[0], solver


class LossLevels:
    """What `LevelSolver` is for squared loss."""

    def __init__(self, problem: Problem, penalty: LevelPenalty):
        self.steps, self.finished = 0, True
        self.newton: NewtonAround[LevelPenalty] = NewtonAround(problem, _OfLevels(problem, penalty))

    def warm(self, P: Floats) -> None:
        """Start the next solve from P (height, d) instead of from the last solution."""
        self.newton.last = P.copy()

    def solve(self, penalty: LevelPenalty, max_iter: int = 0) -> tuple[Floats, int]:
        """The point (height, d), and Newton steps."""
        P, self.steps = self.newton.solve(penalty, max_iter=max_iter)
        if self.newton.finished and not max_iter and (penalty.bounds == 0.0).any():
            # what nothing penalises has to be more exact for the same proof: a step from the end doubles the digits
            P, more = self.newton.solve(penalty)
            self.steps += more
        self.finished = self.newton.finished
        return P, self.steps


AnyLevels: TypeAlias = LevelSolver | LossLevels
