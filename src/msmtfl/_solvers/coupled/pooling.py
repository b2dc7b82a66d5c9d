"""Partial pooling, w_i = b + v_i with ridges only, in closed form: one factor per task serves every strength.

    min_{b, V}  sum_i |y_i - X_i (b + v_i)|^2  +  k sum_ji f_ji^2 v_ji^2  +  k_common sum_j g_j^2 b_j^2

With F = diag(f) of a task, F^-1 X'X F^-1 = U S U', directions T = F^-1 U and their duals L = U'F, the deviations that belong
to b are  v = T (S + k)^-1 (T'X'y - S L b).  What is left is a system in b,

    (sum_i L_i' S (1 + S/k)^-1 L_i + k_common g^2) b  =  sum_i L_i' (1 + S/k)^-1 T_i'X_i'y_i

generalised least squares with the variances 1 + S/k that random deviations give the targets. Nothing but diagonals depends
on k. Directions in which a task does not vary add nothing, so a task has at most as many as samples; where all tasks
together have fewer than features, the system is solved in these directions. Features that are not penalised (f = 0) are
taken out of every task first. One intercept of all tasks is a common column of ones without a ridge: directions explain some
of it, and the rest is one more, that no deviation follows. Rows are projected on what is orthogonal to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dgejsv, dpotrf, dpotrs
from scipy.optimize import brentq

from ..._data.designs import Design, Floats, Ints
from ..._data.forms.level_rows import LevelTask
from ..._objective.problem import Problem

FLAT = 1e-13  # eigenvalues below this share of the largest are rounding
# Sums of squares of columns that differ by more are decomposed by Jacobi's method, which keeps the digits of the small ones.
GRADED = 1e8
DEPENDENT = 1e-10  # those of all tasks' correlations, below which a combination of features counts as constant
AT_ONCE = 2**24  # entries of Gram matrices that are decomposed together
DECADES = 5.0  # about the mean square of the columns: strengths among which the likelihood is looked for
LOOKS = 21  # of them, before the best is made precise


@dataclass(frozen=True, eq=False)
class Directions:
    """The directions of a task in which it varies: S (r,), T (d, r), T'X'y (r,) for its penalised features, and what does
    not depend on them.

    rest : |y|^2 less what all directions explain
    free : places of the features that are not penalised; their coefficients are lift (free, d + 1) times (-w, 1)
    used : how many independent samples these use up
    one : (r,) of one intercept of all tasks, its column in the place of one of L; the last direction is the rest of it
    of_one : (free,) the least squares of that column on the free ones
    """

    s: Floats
    T: Floats
    e: Floats
    L: Floats
    rest: float
    free: Ints
    lift: Floats
    used: int
    one: Floats = field(default_factory=lambda: np.zeros(0))
    of_one: Floats = field(default_factory=lambda: np.zeros(0))


def directions(problem: Problem) -> list[Directions]:
    """Those of every task. What tasks with the same X have in common is found once."""
    penalised, free = _kinds(problem)
    factors = problem.plain_factors[penalised].T
    by_sums = [i for i, design in enumerate(problem.designs) if not _by_samples(design, penalised)]
    keys = {i: (id(problem.designs[i].same_x), factors[i].tobytes()) for i in by_sums}
    first = {keys[i]: i for i in reversed(by_sums)}
    found: dict[tuple[int, bytes], tuple[Floats, Floats]] = {}
    mine, height = list(first.values()), max(1, AT_ONCE // max(len(penalised), 1) ** 2)
    for low in range(0, len(mine), height):
        some = mine[low : low + height]
        grams = np.array([_without(problem.designs[i], penalised, free) for i in some])
        f = factors[some]
        grams /= f[:, :, None] * f[:, None, :]
        values, U = np.linalg.eigh(grams)
        for place, i in enumerate(some):
            kept = values[place] > FLAT * values[place].max(initial=0.0)
            graded = not free.size and _graded(np.diagonal(grams[place]))
            found[keys[i]] = _eigen_of_graded(grams[place]) if graded else (values[place, kept], U[place][:, kept])
    out = []
    for i in range(problem.m):
        design, f = problem.designs[i], factors[i]
        out.append(
            _of_sums(design, f, *found[keys[i]], penalised, free)
            if i in keys
            else _of_samples(design, f, penalised, free)
        )
    return out


def _kinds(problem: Problem) -> tuple[Ints, Ints]:
    """The places of features that are penalised, and of those that are not."""
    given = problem.given_factors[:, 0]
    return np.flatnonzero((given > 0.0) & np.isfinite(given)), np.flatnonzero(given == 0.0)


def _by_samples(design: Design, penalised: Ints) -> bool:
    """Whether a task's samples are fewer than its features, and at hand."""
    return design.target is not None and len(design.target) < len(penalised)


def _with_one(task: Directions, design: LevelTask, penalised: Ints) -> Directions:
    """The directions of a task that is held at a level, and that of a column of ones."""
    ones, free, root = np.sqrt(design.n) * design.row, task.free, float(np.sqrt(design.n))
    of_targets, squares, left = root * design.of_row, float(design.n), ones[penalised]
    of_one = np.zeros(len(free))
    if free.size:
        of_one = _pseudo_inverse(design.gram_block(free, free))[0] @ ones[free]
        left = left - design.gram_block(penalised, free) @ of_one
        of_targets -= float(design.c[free] @ of_one)
        squares -= float(ones[free] @ of_one)
    e = task.T.T @ left
    rest = squares - float(np.sum(e**2 / task.s))
    if rest <= FLAT * design.n:  # directions explain it
        return replace(task, one=e / task.s, of_one=of_one)
    of_rest = of_targets - float(np.sum(e * task.e / task.s))
    return replace(
        task,
        s=np.append(task.s, rest),
        T=np.column_stack([task.T, np.zeros(len(task.T))]),
        e=np.append(task.e, of_rest),
        L=np.vstack([task.L, np.zeros(task.L.shape[1])]),
        rest=max(task.rest - of_rest**2 / rest, 0.0),
        one=np.append(e / task.s, 1.0),
        of_one=of_one,
    )


def _lift(design: Design, penalised: Ints, free: Ints) -> tuple[Floats, int]:
    """(free, d + 1): the least squares of penalised columns and target on the free ones; and the rank of these."""
    if free.size == 0:
        return np.zeros((0, len(penalised) + 1)), 0
    inverse, rank = _pseudo_inverse(design.gram_block(free, free))
    return inverse @ np.column_stack([design.gram_block(free, penalised), design.c[free]]), rank


def _without(design: Design, penalised: Ints, free: Ints) -> Floats:
    """The Gram matrix of the penalised features, less what the free ones explain."""
    G = design.gram() if len(penalised) == design.d else design.gram_block(penalised, penalised)
    if free.size:
        G = G - design.gram_block(penalised, free) @ _lift(design, penalised, free)[0][:, :-1]
    return G


def _pseudo_inverse(G: Floats) -> tuple[Floats, int]:
    size = np.sqrt(np.where(np.diagonal(G) > 0.0, np.diagonal(G), 1.0))
    values, U = np.linalg.eigh(G / np.outer(size, size))
    kept = values > DEPENDENT * max(float(values[-1]), 0.0)
    U = U[:, kept] / size[:, None]
    return (U / values[kept]) @ U.T, int(kept.sum())


def _graded(squares: Floats) -> bool:
    live = squares[squares > 0.0]
    return bool(live.size) and float(live.max()) > GRADED * float(live.min())


def _eigen_of_graded(G: Floats) -> tuple[Floats, Floats]:
    """The eigenvalues of a Gram matrix that are not 0, each to its own digits, and their vectors."""
    size = np.sqrt(np.where(np.diagonal(G) > 0.0, np.diagonal(G), 1.0))
    values, Q = np.linalg.eigh(G / np.outer(size, size))
    kept = values > FLAT * max(float(values[-1]), 0.0)
    sigma, U, _ = _jacobi(size[:, None] * Q[:, kept] * np.sqrt(values[kept]))
    return sigma**2, U


def _jacobi(A: Floats) -> tuple[Floats, Floats, Floats]:
    """A = U diag(sigma) V', of full rank, with no fewer rows than columns, whatever the lengths of its rows."""
    if A.shape[1] == 0:
        return np.zeros(0), A, np.zeros((0, 0))
    sigma, U, V, scales, _, failed = dgejsv(A, joba=3, jobu=0, jobv=0, jobr=0, jobp=0)
    if failed:
        U, sigma, Vt = np.linalg.svd(A, full_matrices=False)
        return sigma, U, Vt.T
    return np.asarray(sigma * (scales[0] / scales[1])), np.asarray(U), np.asarray(V)


def _of_sums(design: Design, f: Floats, values: Floats, U: Floats, penalised: Ints, free: Ints) -> Directions:
    """By products of features, given their eigenvalues that are not 0, and the vectors of these."""
    s, U = values, _where_it_varies(design, penalised, U)
    lift, used = _lift(design, penalised, free)
    # what a parabola calls |y|^2 is the scale of its loss
    c, yy = design.c[penalised], design.yy if design.target is None else float(design.target @ design.target)
    if free.size:
        c = c - design.gram_block(penalised, free) @ lift[:, -1]
        yy -= float(design.c[free] @ lift[:, -1])
    T = U / f[:, None]
    e = T.T @ c
    return Directions(s, T, e, U.T * f, max(yy - float(np.sum(e**2 / s)), 0.0), free, lift, used)


def _where_it_varies(design: Design, penalised: Ints, U: Floats) -> Floats:
    """Eigenvectors with zeros, in place of rounding, at the features that are constant in a task."""
    return np.where(design.squares[penalised, None] > 0.0, U, 0.0)


def _of_samples(design: Design, f: Floats, penalised: Ints, free: Ints) -> Directions:
    """By products of samples, which are fewer than features."""
    columns, target = design.columns(penalised), design.target
    assert columns is not None
    assert target is not None
    Z, y = columns / f, np.array(target)
    lift, used = _lift(design, penalised, free)
    if free.size:
        Z0 = design.columns(free)
        assert Z0 is not None
        Z, y = Z - Z0 @ (lift[:, :-1] / f), y - Z0 @ lift[:, -1]
    squares = np.einsum("nj,nj->j", Z, Z)
    graded = not free.size and _graded(squares)
    alike = Z / np.sqrt(np.where(squares > 0.0, squares, 1.0)) if graded else Z
    values, R = np.linalg.eigh(alike @ alike.T)
    kept = values > FLAT * values.max(initial=0.0)
    s, R = values[kept], R[:, kept]
    if graded:
        sigma, U, V = _jacobi(Z.T @ R)
        s, R = sigma**2, R @ V
    else:
        U = Z.T @ (R / np.sqrt(s))
    U = _where_it_varies(design, penalised, U)
    e = np.sqrt(s) * (R.T @ y)
    rest = max(float(y @ y - np.sum(e**2 / s)), 0.0)
    return Directions(s, U / f[:, None], e, U.T * f, rest, free, lift, used)


@dataclass(frozen=True, eq=False)
class PooledFit:
    """Common parts b (points, d) and coefficients W (points, m, d) at some strengths."""

    common: Floats
    coefs: Floats


def sizes(problem: Problem) -> tuple[float, float]:
    """The mean over features and tasks of a column's sum of squares, in the units of its penalty, which k is compared with;
    and that of all tasks together, for k_common."""
    penalised, _ = _kinds(problem)
    squares = np.array([design.squares[penalised] for design in problem.designs])
    f, g, live = problem.plain_factors[penalised].T, problem.common_factors[penalised], squares > 0.0
    if not live.any():
        return 1.0, 1.0
    some = live.any(axis=0)
    of_all = squares.sum(axis=0)[some] / problem.classes
    return float((squares[live] / f[live] ** 2).mean()), float((of_all / g[some] ** 2).mean())


class Pooling:
    """The problem at any strengths k and k_common, each in (0, inf], k_common also 0."""

    steps, finished = 1, True  # it is a closed form

    def __init__(self, problem: Problem):
        self.problem = problem
        self.penalised, self.free = _kinds(problem)
        self.tasks = directions(problem)
        self.ones: Floats | None = None  # (R,) of one intercept of all tasks
        self.level = 0.0  # that they are held at, which the intercept is counted from
        if problem.has_one_level:
            plain = [len(task.s) for task in self.tasks]
            self.tasks = [
                _with_one(task, design, self.penalised)
                for task, design in zip(self.tasks, problem.designs, strict=True)
            ]
            self.ones, self.level = np.concatenate([task.one for task in self.tasks]), problem.designs[0].prior.level
            self.fixed = np.concatenate(
                [np.arange(len(task.s)) >= n for task, n in zip(self.tasks, plain, strict=True)]
            )
        self.g = problem.common_factors[self.penalised]
        self.s = np.concatenate([task.s for task in self.tasks])
        self.e = np.concatenate([task.e for task in self.tasks])
        self.L = np.concatenate([task.L for task in self.tasks])  # (R, d)
        self.scaled = self.L / self.g * np.sqrt(self.s)[:, None]
        self.ends = np.cumsum([len(task.s) for task in self.tasks])[:-1]
        self.in_directions = len(self.s) < len(self.g)

    @cached_property
    def _null(self) -> Floats | None:
        """(d, q): an orthonormal basis of the b / g that no data tell from 0 or an intercept; None if there is none."""
        if self.ones is not None:
            return self._null_beside_one()
        squares = np.einsum("rj,r,rj->j", self.L, self.s, self.L)
        size = np.sqrt(np.where(squares > 0.0, squares, 1.0))
        if self.in_directions:
            scaled = np.sqrt(self.s)[:, None] * self.L / size
            _, values, V = np.linalg.svd(scaled, full_matrices=True)
            values = np.concatenate([values**2, np.zeros(len(V) - len(values))])
            N = V[values <= DEPENDENT * max(float(values.max(initial=0.0)), 0.0)].T
        else:
            total = (self.L * self.s[:, None]).T @ self.L / np.outer(size, size)
            values, V = np.linalg.eigh(total)
            N = V[:, values <= DEPENDENT * max(float(values[-1]) if len(values) else 0.0, 0.0)]
        return np.linalg.qr(N * (self.g / size)[:, None])[0] if N.shape[1] else None

    def _null_beside_one(self) -> Floats | None:
        rows = np.sqrt(self.s)[:, None] * self.L
        size = np.sqrt(np.einsum("rj,rj->j", rows, rows))
        rows = rows / np.where(size > 0.0, size, 1.0)
        rows = self._apart(rows, np.inf)
        left = np.einsum("rj,rj->j", rows, rows)
        rows = np.where(left > DEPENDENT, rows / np.sqrt(np.where(left > DEPENDENT, left, 1.0)), 0.0)
        size = np.where(left > DEPENDENT, size * np.sqrt(left), 1.0)
        _, values, V = np.linalg.svd(rows, full_matrices=True)
        values = np.concatenate([values**2, np.zeros(len(V) - len(values))])
        N = V[values <= DEPENDENT * max(float(values.max(initial=0.0)), 0.0)].T
        return np.linalg.qr(N * (self.g / size)[:, None])[0] if N.shape[1] else None

    # ------------------------------------------------------------------ the intercept of all tasks

    def _unit(self, k: float) -> tuple[Floats, float]:
        """(R,): the rows of the intercept's column, of length 1; and its length."""
        assert self.ones is not None
        rows = self.ones * np.sqrt(self.s * self._weights(k))
        length = float(np.linalg.norm(rows))
        return (rows / length if length > 0.0 else rows), length

    def _apart(self, rows: Floats, k: float) -> Floats:
        """Rows (R, count) less what the intercept explains of them."""
        if self.ones is None:
            return rows
        unit, _ = self._unit(k)
        return np.asarray(rows - np.outer(unit, unit @ rows))

    def _intercepts(self, k: float, B: Floats) -> Floats:
        """(points,): beside common parts B (points, d), from the level that tasks were held at; 0 if each has its own."""
        if self.ones is None:
            return np.zeros(len(B))
        unit, length = self._unit(k)
        if length == 0.0:  # what no ridge holds explains it
            return np.zeros(len(B))
        left = np.sqrt(self._weights(k) / self.s) * (self.e - self.s * (B @ self.L.T))
        return np.asarray(left @ unit / length)

    # ------------------------------------------------------------------ the system in b

    def _weights(self, k: float) -> Floats:
        """(R,): 1 / (1 + S/k)"""
        weights = 1.0 / (1.0 + self.s / k)
        return weights if self.ones is None else np.where(self.fixed, 1.0, weights)

    def _system(self, k: float) -> Floats:
        """The matrix of the system in g b without k_common: (d, d), or (R, R) in directions. What is below the diagonal is
        not used."""
        if self.in_directions and self.ones is not None:
            return np.asarray(self._rows(k) @ self._rows(k).T)
        if self.in_directions:
            root = np.sqrt(self._weights(k))
            return np.asarray(self._products * np.outer(root, root))
        rows = self._rows(k)
        return np.asarray(dsyrk(1.0, rows.T)) if rows.size else np.zeros((rows.shape[1], rows.shape[1]))

    def _rows(self, k: float) -> Floats:
        """(R, d): the rows of the least squares in g b"""
        return self._apart(np.asarray(self.scaled * np.sqrt(self._weights(k))[:, None]), k)

    @cached_property
    def _products(self) -> Floats:
        return np.asarray(self.scaled @ self.scaled.T)

    def _solved(self, A: Floats, k: float, k_common: float, h: Floats) -> tuple[Floats, float]:
        """(d, count): b for right-hand sides h (d, count) of the system, and the logarithm of its determinant (without
        k_common: on what the data determine)."""
        if np.isinf(k_common) or h.shape[0] == 0:
            return np.zeros_like(h), 0.0
        h = h / self.g[:, None]
        if self.in_directions and k_common > 0.0:  # (Q'Q + c)^-1 = (1 - Q'(QQ' + c)^-1 Q) / c
            Q = self._rows(k)
            x, log = _spd_solve(A, k_common, Q @ h)
            log += (len(h) - len(A)) * float(np.log(k_common))
            return (h - Q.T @ x) / k_common / self.g[:, None], log
        if self.in_directions:
            A = dsyrk(1.0, self._rows(k).T)
        if k_common > 0.0 or self._null is None:
            x, log = _spd_solve(A, k_common, h)
        else:  # of all b that are as good the smallest
            N = self._null
            level = float(np.trace(A)) / max(len(A) - N.shape[1], 1)
            level = level if level > 0.0 else 1.0
            x, log = _spd_solve(A + level * (N @ N.T), 0.0, h - N @ (N.T @ h))
            x -= N @ (N.T @ x)
            log -= N.shape[1] * float(np.log(level))
        return x / self.g[:, None], log

    def common(self, k: float, k_commons: Sequence[float]) -> tuple[Floats, Floats]:
        """(count, d): b at k and each of k_commons; (count,): log-determinants."""
        h = (self.L.T @ (self._weights(k) * self.e))[:, None]
        if self.ones is not None:
            targets = np.sqrt(self._weights(k) / self.s) * self.e
            h = self.g[:, None] * (self._rows(k).T @ targets)[:, None]
        A = self._system(k)
        found = [self._solved(A, k, k_common, h) for k_common in k_commons]
        return np.array([b[:, 0] for b, _ in found]), np.array([log for _, log in found])

    # ------------------------------------------------------------------ coefficients

    def coefs(self, ks: Floats, B: Floats) -> Floats:
        """(points, m, d): the coefficients at strengths ks (points,) with common parts B (points, d), of penalised
        features."""
        problem, a = self.problem, np.zeros(len(ks))
        for k in np.unique(ks).tolist() if self.ones is not None else ():
            a[ks == k] = self._intercepts(k, B[ks == k])
        out = np.zeros((len(ks), problem.m, problem.d))
        every = len(self.penalised) == problem.d
        for i, task in enumerate(self.tasks):
            left = task.e - (B @ task.L.T) * task.s
            if self.ones is not None:
                left -= np.outer(a, task.one * task.s)
            V = _over(left, task.s + ks[:, None]) @ task.T.T
            W = B + V
            if every:
                out[:, i] = W
            else:
                out[:, i, self.penalised] = W
                out[:, i, self.free] = task.lift[:, -1] - W @ task.lift[:, :-1].T
                if self.ones is not None:
                    out[:, i, self.free] -= np.outer(a, task.of_one)
        return out

    def solve(self, points: Sequence[tuple[float, float]]) -> PooledFit:
        """At pairs (k, k_common). The system of a k is made once."""
        ks, of_k = np.unique([k for k, _ in points], return_inverse=True)
        B = np.zeros((len(points), len(self.penalised)))
        for place, k in enumerate(ks.tolist()):
            at = np.flatnonzero(of_k == place)
            B[at] = self.common(k, [points[p][1] for p in at.tolist()])[0]
        common = np.zeros((len(points), self.problem.d))
        common[:, self.penalised] = B
        return PooledFit(common, self.coefs(ks[of_k], B))

    def one(self, k: float, k_common: float, rounds: int = 2) -> tuple[Floats, Floats]:
        """b (d,) and V (m, d) at one point, corrected by what gradients of the data themselves leave. Tasks with one
        intercept are held there."""
        fit = self.solve([(k, k_common)])
        b, V = fit.common[0], fit.coefs[0] - fit.common[0]
        if np.isinf(k):
            V[:, self.penalised] = 0.0
        a = self.level + float(self._intercepts(k, b[None, self.penalised])[0])
        self._hold(a)
        for _ in range(rounds):
            db, dV, da = self._correction(b, V, k, k_common)
            b, V, a = b + db, V + dV, a + da
            self._hold(a)
        return b, V

    def _hold(self, level: float) -> None:
        for design in self.problem.designs if self.ones is not None else ():
            design.move(level)

    def _correction(self, b: Floats, V: Floats, k: float, k_common: float) -> tuple[Floats, Floats, float]:
        """What to add to b, V and the intercept of all tasks, from the gradients there."""
        problem, at = self.problem, self.penalised
        g = np.array([design.gradient(b + v) for design, v in zip(problem.designs, V, strict=True)])
        left = np.zeros((problem.m, len(at)))
        for i, task in enumerate(self.tasks):
            left[i] = g[i, at] - task.lift[:, :-1].T @ g[i, self.free]
        f2 = problem.plain_factors[at].T ** 2
        of_v = left - k * f2 * V[:, at] if np.isfinite(k) else np.zeros_like(left)
        h = left.sum(axis=0) - (k_common * self.g**2 * b[at] if np.isfinite(k_common) else 0.0)
        inner = [_over(task.T.T @ rho, task.s + k) for task, rho in zip(self.tasks, of_v, strict=True)]
        h = h - sum(task.L.T @ (task.s * z) for task, z in zip(self.tasks, inner, strict=True))
        of_one, along, length = 0.0, np.zeros(len(at)), 0.0
        if self.ones is not None and (length := self._unit(k)[1]) > 0.0:
            for i, (task, design, z) in enumerate(zip(self.tasks, problem.designs, inner, strict=True)):
                of_one -= design.level_slope(b + V[i]) + float(task.of_one @ g[i, self.free] + task.one @ (task.s * z))
            along = self.L.T @ (self.s * self._weights(k) * self.ones) / length**2
            h = h - along * of_one
        db = self._solved(self._system(k), k, k_common, h[:, None])[0][:, 0]
        da = of_one / length**2 - float(along @ db) if length > 0.0 else 0.0
        dV = np.zeros_like(V)
        for i, (task, z) in enumerate(zip(self.tasks, inner, strict=True)):
            if np.isfinite(k):
                beyond = of_v[i] / f2[i] - task.T @ (task.T.T @ of_v[i])  # where the task does not vary
                moved = task.L @ db if self.ones is None else task.L @ db + da * task.one
                dV[i, at] = task.T @ (z - _over(task.s * moved, task.s + k)) + beyond / k
            if self.free.size:
                inverse = _pseudo_inverse(problem.designs[i].gram_block(self.free, self.free))[0]
                dV[i, self.free] = inverse @ g[i, self.free] - task.lift[:, :-1] @ (db + dV[i, at])
                dV[i, self.free] -= da * task.of_one if self.ones is not None else 0.0
        out = np.zeros(problem.d)
        out[at] = db
        return out, dV, da

    # ------------------------------------------------------------------ degrees of freedom

    def degrees(self, k: float, k_common: float) -> Floats:
        """(m,): how much the fitted values of every task follow its own targets."""
        weight = self._weights(k)
        each = (1.0 - weight) + weight * self._leverage(k, k_common)
        return np.array(
            [part.sum() + task.used for part, task in zip(np.split(each, self.ends), self.tasks, strict=True)]
        )

    def _leverage(self, k: float, k_common: float) -> Floats:
        """(R,): how much the common part (and one intercept of all tasks) follows each direction's own target, at the
        weights that deviations leave."""
        if self.ones is not None:
            of_one, rows = self._unit(k)[0] ** 2, self.g * self._rows(k)
            X, _ = self._solved(self._system(k), k, k_common, rows.T)
            return np.asarray(of_one + np.einsum("rj,jr->r", rows, X))
        if np.isinf(k_common) or len(self.s) == 0:
            return np.zeros(len(self.s))
        X, _ = self._solved(self._system(k), k, k_common, self.L.T)
        return np.asarray(self.s * self._weights(k) * np.einsum("rj,jr->r", self.L, X))

    # ------------------------------------------------------------------ marginal likelihood

    def _left(self, samples: float, k_common: float) -> float:
        """Of so many independent samples, those that free features and common values without a prior do not use up."""
        null = self._null
        rank = len(self.g) - (0 if null is None else null.shape[1]) if k_common == 0.0 else 0
        return samples - sum(task.used for task in self.tasks) - rank - (self.ones is not None)

    def _quadratic(self, k: float, k_common: float, b: Floats) -> tuple[float, Floats]:
        """What deviance and slope have of the targets, at common values b; and the squares of what directions leave."""
        left = self.e / np.sqrt(self.s) - np.sqrt(self.s) * (self.L @ b)
        if self.ones is not None:
            left -= np.sqrt(self.s) * self.ones * self._intercepts(k, b[None])[0]
        apart = left**2
        rest = sum(task.rest for task in self.tasks)
        quadratic = rest + float(self._weights(k) @ apart)
        if 0.0 < k_common < np.inf:
            quadratic += k_common * float((self.g * b) @ (self.g * b))
        return max(quadratic, np.finfo(float).eps * (rest + float(np.sum(self.e**2 / self.s)))), apart

    def deviance(self, k: float, k_common: float, samples: float, noise: float = 0.0) -> float:
        """Minus twice the restricted log-likelihood of k, but for a constant, with the variance of the noise, if it is not
        known, at its best; the deviations are normal with variance sigma^2 / (k f^2), and so is b with k_common, which has
        no prior without."""
        B, logs = self.common(k, [k_common])
        quadratic, _ = self._quadratic(k, k_common, B[0])
        of_targets = quadratic / noise if noise else self._left(samples, k_common) * float(np.log(quadratic))
        of_one = 2.0 * float(np.log(self._unit(k)[1])) if self.ones is not None else 0.0
        return of_targets - float(np.log(self._weights(k)).sum()) + float(logs[0]) + of_one

    def slope(self, k: float, k_common: float, samples: float, noise: float = 0.0) -> float:
        """The derivative of the deviance with respect to log k; b is the best one, so that what it changes is nothing."""
        b, weight = self.common(k, [k_common])[0][0], self._weights(k)
        quadratic, apart = self._quadratic(k, k_common, b)
        of_targets = float((weight * (1.0 - weight)) @ apart)
        of_targets *= 1.0 / noise if noise else self._left(samples, k_common) / quadratic
        return of_targets - float((1.0 - weight) @ (1.0 - self._leverage(k, k_common)))

    def likely(self, k_common: float, samples: float) -> float:
        """The k of the largest marginal (restricted) likelihood; see `likely`."""
        return likely([self], k_common, samples)


def likely(parts: Sequence[Pooling], k_common: float, samples: float, noise: float = 0.0) -> float:
    """The k of the largest marginal (restricted) likelihood of some problems with a k in common; inf where tasks do not
    differ by more than noise, or nothing tells deviations from noise or from common values. `samples` are the independent
    ones of all tasks in each of them, `noise` the variance of a sample of weight 1, if it is known."""
    alone = parts[0].problem.m == 1 and k_common == 0.0
    if alone or any(part._left(samples, k_common) < 1 or not part.e.any() for part in parts):
        return np.inf
    size = float(np.mean([sizes(part.problem)[0] for part in parts]))

    def strength(log: float) -> float:
        return size * float(np.exp(log))

    def deviance(k: float) -> float:
        return sum(part.deviance(k, k_common, samples, noise) for part in parts)

    def slope(log: float) -> float:
        return sum(part.slope(strength(log), k_common, samples, noise) for part in parts)

    looks = (np.linspace(-DECADES, DECADES, LOOKS) * np.log(10.0)).tolist()
    values = [deviance(strength(log)) for log in looks]
    best = int(np.argmin(values))
    k, value = strength(looks[best]), values[best]
    # the side to which it falls; its end is where it rises again, unless there are several turns between two looks
    other = best + (1 if slope(looks[best]) < 0.0 else -1)
    if 0 <= other < LOOKS and slope(looks[other]) * (other - best) > 0.0:
        at = strength(brentq(slope, looks[min(best, other)], looks[max(best, other)], xtol=1e-13, rtol=1e-13))
        k, value = min((k, value), (at, deviance(at)), key=lambda pair: pair[1])
    return np.inf if value >= deviance(np.inf) else k


def _over(x: Floats, y: Floats) -> Floats:
    """x / y, 0 where y is inf."""
    return np.asarray(x / y)


def _spd_solve(A: Floats, level: float, h: Floats) -> tuple[Floats, float]:
    """(A + level)^-1 h and the logarithm of the determinant; where that is not positive to rounding, on what is."""
    if len(A) == 0:  # no feature varies within a task
        return np.zeros_like(h), 0.0
    M = np.array(A, order="F")
    np.fill_diagonal(M, np.diagonal(A) + level)
    factor, failed = dpotrf(M, lower=0, clean=0, overwrite_a=1)
    if failed == 0:
        return np.asarray(dpotrs(factor, h, lower=0)[0]), 2.0 * float(np.log(np.diagonal(factor)).sum())
    size = np.sqrt(np.maximum(np.diagonal(A) + level, np.finfo(float).tiny))
    values, U = np.linalg.eigh((A + level * np.eye(len(A))) / np.outer(size, size), UPLO="U")
    kept = values > FLAT * float(values[-1])
    U, values = U[:, kept], values[kept]
    x = U @ ((U.T @ (h / size[:, None])) / values[:, None]) / size[:, None]
    return x, 2.0 * float(np.log(size).sum()) + float(np.log(values).sum())
