"""Rows that couple the tasks: L1,2, Dirty and what else puts a norm on a feature's coefficients in all tasks.

    min_W  sum_i 1/(m n_i) |X_i w_i - y_i|^2  +  sum_j N_j(w^j)

Working sets of rows: the compiled kernel goes over the rows at hand and minimises each exactly; then a Newton step on the
rows in use finishes the work, with m Cholesky factors of their size and one Schur complement; then rows whose gradient
is too large for 0 join, the worst first. All in Gram form, on the same `Gram` as the lassos.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from ...._data.designs import Design, Floats, Ints, stage_scale
from ...._kernels import row_sweep as _row_kernel
from ...._objective.coupled.row_norms import DirtyNorm, GroupNorm, RowNorm, lengths
from ...gram import Gram, gram_caches
from ...lassos.lasso_solver import OVERRUN
from ...lassos.weighted_lasso import Lassos
from ...stages import SETTLED
from .only_minimiser import AT_BOUND, Independence, face, only_minimiser
from .row_steps import BATCHED, between, block_inverses, lowest, solved
from .working_rows import ABOVE, BELOW, TIED, WorkingRows, kept_sides, not_beyond_zero, to_kernel

VIOLATES = 1e-10  # excess of a row's gradient over its bound, relatively, from which it joins
JOIN = 10  # rows that may join together
SHARE = 0.25  # of the rows in use, if that is more
SPARE = 1.25  # times as many rows as are called for may be at hand
ROOM = 1.4  # times as many rows as are at hand there is room for
LOOSE = 1e-3  # the same, while rows still join
EPOCHS = 8  # times at least that the rows are gone over before a Newton step
MEAN, MEANT = 5, 2**18  # goes of which a mean is taken, where there are no more entries than this
AS_ONE = 13  # goes before the next look, once all rows are at hand: with two means
ROUNDS = 20000  # times at most that they are gone over
STACKED = 2**22  # entries of whole Gram matrices up to which that is so
MOST = 0.4  # of the rows: picking them costs more than going over all
LARGEST = 2**25  # entries of all tasks' blocks beyond which no Newton step is made
RIDGE = 1e-10  # relative: what keeps a singular system solvable; a step that does not descend is not taken


class CoupledRows:
    """The row-coupled problem of all tasks, with its warm state.

    Parameters
    ----------
    designs : one Design per task
    factors : (d, m) f >= 0: a row's norm is that of f w; 0 leaves an entry out, inf excludes it
    units : (m, d) scale in which the distance between solutions is measured, where the problem turns out to be m lassos
    grams : what is known of the tasks' Gram matrices, by default nothing yet
    ridge : (m, d) that of every task at lam = 1, in sums over its samples, if there is any; `at` says which lam it is
    n_jobs : threads that fetch Gram rows, or over lassos
    """

    def __init__(
        self,
        designs: Sequence[Design],
        factors: Floats,
        *,
        units: Floats | None = None,
        grams: list[Gram] | None = None,
        ridge: Floats | None = None,
        n_jobs: int | None = None,
    ):
        self.ridge, self.lam = ridge, 0.0
        self.designs, self.factors, self.units, self.n_jobs = list(designs), factors, units, n_jobs
        self.all_grams = grams
        self.m, self.d = len(self.designs), self.designs[0].d
        self.kappa = np.array([2.0 / (self.m * design.n) for design in self.designs])
        excluded = np.isinf(factors)
        self.F = np.ascontiguousarray(np.where(excluded, 1.0, factors))
        squares = np.array([design.squares for design in self.designs])
        self.H = np.ascontiguousarray(np.where(excluded, 0.0, (self.kappa[:, None] * squares).T))
        self.C = np.where(self.H.T > 0.0, self.kappa[:, None] * np.array([design.c for design in self.designs]), 0.0)
        self.scale = float(np.sqrt(sum(k * design.yy for k, design in zip(self.kappa, self.designs, strict=True))))
        keys: list[object] = [id(design.same_x) for design in self.designs]
        if ridge is not None:  # tasks with the same X have the same Gram matrix if their ridges are equal, too
            keys = [(key, one.tobytes()) for key, one in zip(keys, ridge, strict=True)]
        firsts = [keys.index(key) for key in dict.fromkeys(keys)]
        of_key = {keys[i]: g for g, i in enumerate(firsts)}
        self.which, self.firsts = np.array([of_key[key] for key in keys], dtype=np.intc), firsts
        self.plain_H = self.H
        self.diagonals: Floats | None = None  # (groups, d), of whole Gram matrices
        if grams is None:
            self.grams = gram_caches([self.designs[i] for i in firsts], n_jobs=n_jobs)
        else:
            self.grams = [grams[i] for i in firsts]
        self.groups = [np.flatnonzero(self.which == g) for g in range(len(firsts))]
        self.stack: Floats | None = None  # (groups, d, d)
        small = self.d <= BATCHED and len(firsts) * self.d**2 <= STACKED
        if small and all(gram.whole is not None for gram in self.grams):
            self.stack = np.array([gram.whole for gram in self.grams])
        self.W = np.zeros((self.d, self.m))
        self.T = np.zeros(self.d)
        self.G = self.C  # the gradient at W
        self.work: WorkingRows | None = None
        self.room = np.empty((len(firsts), 0, 0))  # for its Q
        alive = np.array([self.H[:, i] > 0.0 for i in firsts])
        self.independence = Independence(self.grams, alive, [self.designs[i].n for i in firsts], self._fetch)
        self.lassos: Lassos | None = None
        self.before: tuple[Floats, Floats, Floats] | None = None  # W, T and G of the solution before the last
        self.finished, self.worst = True, np.inf  # the largest change of the last go

    # ------------------------------------------------------------------ the ridge

    def at(self, lam: float) -> None:
        """Have the ridge of this lam, if there is one, from the next solve on."""
        if self.ridge is None or lam == self.lam:
            return
        self.lam, before = lam, self.lam
        more = self.kappa[:, None] * (lam * self.ridge)
        self.H = np.ascontiguousarray(np.where(self.plain_H > 0.0, self.plain_H + more.T, 0.0))
        if self.W.any():
            self.G = self.G - self.kappa[:, None] * ((lam - before) * self.ridge) * self.W.T
        if self.lassos is not None:
            self.lassos.at(lam)
        if self.work is not None:
            self.work.H = self.H[self.work.rows]
            self._add_ridge(self.work.Q, self.work.rows)

    def _add_ridge(self, Q: Floats, rows: Ints) -> None:
        """Have it on the diagonals of the Gram matrices (groups, K, K) between some rows."""
        if self.ridge is None:
            return
        at, more = np.arange(len(rows)), self.lam * self.ridge[self.firsts][:, rows]
        if self.diagonals is None and all(gram.whole is not None for gram in self.grams):
            wholes: list[Any] = [gram.whole for gram in self.grams]
            self.diagonals = np.array([whole.diagonal() for whole in wholes])
        if self.diagonals is not None:
            Q[:, at, at] = self.diagonals[:, rows] + more
            return
        for g, gram in enumerate(self.grams):
            known, places = (gram.known, gram.slot[rows]) if gram.whole is None else (gram.whole, rows)
            Q[g, at, at] = known[places, places] + more[g]

    # ------------------------------------------------------------------ Gram matrices

    def _rows_of(self, g: int, rows: Ints) -> Floats:
        """(len(rows), d) of the Gram matrix of group g"""
        gram = self.grams[g]
        self._fetch(gram, rows)
        return gram.whole[rows] if gram.whole is not None else gram.rows[gram.slot[rows]]

    def _fetch(self, gram: Gram, rows: Ints) -> None:
        if gram.whole is None:
            new = rows[gram.slot[rows] < 0]
            if new.size:
                gram.fetch(new, rows, self.n_jobs)

    def _between(self, rows: Ints, first: int) -> Floats:
        """(groups, K, K): the Gram matrices between some rows, of which the first ones are in place."""
        out = self.room[:, : len(rows), : len(rows)]
        if self.stack is not None:
            _row_kernel.extend(self.stack, rows, first, self.room)
            self._add_ridge(out, rows)
            return out
        for g, gram in enumerate(self.grams):
            self._fetch(gram, rows)
            room = self.room[g : g + 1]
            if gram.whole is not None:
                _row_kernel.extend(gram.whole[None], rows, first, room)
            else:
                _row_kernel.extend(gram.known[None], gram.slot[rows].astype(np.intp), first, room)
        self._add_ridge(out, rows)
        return out

    def _weighted(self, Q: Floats, W: Floats) -> Floats:
        """(m, n): kappa_i w_i'Q_i for W (k, m) and Q (groups, k, n)"""
        V = (W * self.kappa).T
        if len(Q) == 1:
            return np.asarray(V @ Q[0])
        if len(Q) == self.m:
            return np.asarray(np.matmul(V[:, None, :], Q)[:, 0])
        return np.array([V[i] @ Q[g] for i, g in enumerate(self.which)])

    def gradient(self, W: Floats) -> Floats:
        """(m, d): kappa_i X_i'(y_i - X_i w_i) at W (d, m)"""
        used = np.flatnonzero(W.any(axis=1))
        if used.size == 0:
            return self.C.copy()
        if self.stack is not None:
            most = len(used) > MOST * self.d
            out = self.C - self._weighted(self.stack if most else self.stack[:, used], W if most else W[used])
        else:
            out = self.C.copy()
            for g, (gram, tasks) in enumerate(zip(self.grams, self.groups, strict=True)):
                if len(tasks) == 1:
                    self._fetch(gram, used)
                    whole, weights = gram.whole, self.kappa[tasks[0]] * W[used, tasks[0]]
                    if whole is not None:
                        _row_kernel.subtract(whole, used, weights, out[tasks[0]])
                    else:
                        _row_kernel.subtract(gram.rows, gram.slot[used].astype(np.intp), weights, out[tasks[0]])
                elif gram.whole is not None and len(used) > MOST * self.d:
                    out[tasks] -= (W[:, tasks] * self.kappa[tasks]).T @ gram.whole
                else:
                    out[tasks] -= (W[used[:, None], tasks] * self.kappa[tasks]).T @ self._rows_of(g, used)
        if self.ridge is not None:
            out -= self.kappa[:, None] * (self.lam * self.ridge) * W.T
        out[self.H.T == 0.0] = 0.0
        return out

    # ------------------------------------------------------------------ solving

    def warm(self, W: Floats) -> None:
        """Start the next solve from W (m, d) instead of from the last solution."""
        self.W, self.T, self.lassos = np.where(self.H > 0.0, W.T, 0.0), np.zeros(self.d), None
        self.before = None
        self.G = self.gradient(self.W)

    def solve(self, norm: RowNorm, max_iter: int = 0, settled: float = SETTLED) -> tuple[Floats, int]:
        """W (m, d) that minimises the loss plus the norm, and how often the rows were gone over.

        W counts as the minimiser when going over the rows changes no entry by more than `settled`, as a correlation.
        """
        if isinstance(norm, DirtyNorm) and norm.separates:
            return self._solve_apart(norm, max_iter)
        kind, a, b = to_kernel(norm, self.d)
        always = ((a == 0.0) & self.H.any(axis=1)) | ((self.F == 0.0) & (self.H > 0.0)).any(axis=1)
        over, left, total = np.empty(self.d), max_iter or ROUNDS, 0
        self.finished = self.scale == 0.0
        if self.finished:
            self.W, self.T, self.G = np.zeros((self.d, self.m)), np.zeros(self.d), self.C
        rows: Ints = np.empty(0, dtype=np.intp)
        accuracy = np.inf  # of W on the rows at hand
        while total < left and not self.finished:
            used = np.flatnonzero(self.W.any(axis=1) | always)
            if total == 0 or accuracy <= LOOSE:
                _row_kernel.excess(kind, a, b, self.F, self.G, over)
                ahead = over[used].max(initial=1.0) - 1.0 if total == 0 else 0.0  # how far the bounds have come down
                over[used if total == 0 else rows] = 0.0
                joining = np.flatnonzero(over > 1.0 + VIOLATES - min(ahead, 0.5))
                self.finished = joining.size == 0 and (accuracy <= settled or used.size == 0)
                if self.finished:
                    break
                most = max(JOIN, int(SHARE * len(used)))
                if len(joining) > most:
                    joining = joining[np.argpartition(-over[joining], most - 1)[:most]]
                accuracy = np.inf if joining.size else settled
                rows = np.union1d(used, joining)
            else:
                rows, accuracy = used, LOOSE
            work = self._working(rows)
            rows = work.rows
            total += self._settle(work, kind, a[rows], b[rows], norm, left - total, accuracy)
            self.W[rows], self.T[rows] = work.W, work.T
            if np.isinf(accuracy) and self.worst <= LOOSE * self.scale:
                accuracy = LOOSE
            if np.isinf(accuracy) and total < left:  # no other row is looked at before these have come further
                self.G = self.G.copy()
                self.G[:, rows] = work.G
            else:
                self.G = self.gradient(self.W)
        return self.W.T.copy(order="C"), max(total, 1)

    def go_ahead(self, part: float) -> None:
        """Start the next solve beyond the last solution, by a part of the way from the one before to it."""
        here = self.W.copy(), self.T.copy(), self.G  # which solving writes to
        if self.before is not None and self.lassos is None and part > 0.0:
            W, T, G = self.before
            self.W = self.W + part * (self.W - W)
            self.T = np.maximum(self.T + part * (self.T - T), 0.0)
            self.G = self.G + part * (self.G - G) if self.ridge is None else self.gradient(self.W)
        self.before = here

    def determined(self, norm: RowNorm) -> bool:
        """Whether W is known to be the only minimiser, wherever the solver started; where there may be several, the start
        decides which one is found (see `only_minimiser`)."""
        if self.lassos is not None:  # of several minimisers of a lasso its solver takes the nearest to 0
            return True
        if self.ridge is not None and ((self.ridge.T > 0.0) | (self.plain_H == 0.0)).all():
            return True
        kind, a, b = to_kernel(norm, self.d)
        over = np.empty(self.d)
        _row_kernel.excess(kind, a, b, self.F, self.G, over)
        used = self.W.any(axis=1)
        rows = np.flatnonzero(used | (over > 1.0 - AT_BOUND))
        if not used.any():
            return True
        weak = self.independence.lacking(rows, over)
        if weak.size == 0:
            return True
        differ = face(kind == _row_kernel.GROUP, a[rows], b[rows], self.F[rows], self.H[rows], self.G[:, rows].T)
        work = self._working(rows)
        where = np.empty(self.d, dtype=np.intp)
        where[work.rows] = np.arange(len(work.rows))
        tasks = np.flatnonzero(np.isin(self.which, weak))
        Q = [work.Q[g] for g in self.which[tasks].tolist()]
        return only_minimiser(differ, tasks, Q, where[rows], self.kappa[tasks], self.H[rows])

    def steepest(self) -> float:
        """The largest |g| / f of an entry."""
        counts = (self.F > 0.0) & (self.H > 0.0)
        return float((np.abs(self.G.T) / np.where(counts, self.F, np.inf)).max(initial=0.0))

    def forget(self) -> None:
        """Start the next solve from 0, as a fit does."""
        self.W, self.T, self.G = np.zeros((self.d, self.m)), np.zeros(self.d), self.C
        self.work, self.lassos, self.before = None, None, None

    def _solve_apart(self, norm: DirtyNorm, max_iter: int) -> tuple[Floats, int]:
        """The same where the norm is the lasso's: every task on its own."""
        if self.lassos is None:
            self.lassos = Lassos(
                self.designs, units=self.units, grams=self.all_grams, ridge=self.ridge, n_jobs=self.n_jobs
            )
            self.lassos.at(self.lam)
            self.lassos.warm(self.W.T)
        W, rounds = self.lassos.solve(stage_scale(self.designs) * (norm.lam_s * self.factors).T, max_iter=max_iter)
        self.W, self.T, self.finished = W.T.copy(), np.zeros(self.d), not (self.lassos.status & OVERRUN).any()
        self.G = self.gradient(self.W)
        return W, int(rounds.max())

    def _working(self, rows: Ints) -> WorkingRows:
        """Some rows, or those at hand if they are among them: going over a few more costs less than a new set."""
        old = self.work
        at_hand = np.zeros(self.d, dtype=bool)
        if old is not None:
            at_hand[old.rows] = True
        if old is not None and len(old.rows) <= SPARE * len(rows) and at_hand[rows].all():
            rows = old.rows
            old.W, old.G, old.T = self.W[rows], np.ascontiguousarray(self.G[:, rows]), self.T[rows]
            return old
        self.work = None  # its Q is about to be overwritten
        known = np.empty(0, dtype=np.intp) if old is None else old.rows
        new = rows[~at_hand[rows]]
        kept = np.arange(len(known))
        if len(known) + len(new) > SPARE * len(rows):
            wanted = np.zeros(self.d, dtype=bool)
            wanted[rows] = True
            kept = np.flatnonzero(wanted[known])
            _row_kernel.compact(self.room, kept)
        rows = np.concatenate([known[kept], new])
        if len(rows) > self.room.shape[1]:
            capacity = min(int(ROOM * len(rows)) + JOIN, self.d)
            room = np.empty((len(self.grams), capacity, capacity))
            room[:, : len(kept), : len(kept)] = self.room[:, : len(kept), : len(kept)]
            self.room = room
        self.work = WorkingRows(
            rows=rows,
            Q=self._between(rows, len(kept)),
            H=self.H[rows],
            F=self.F[rows],
            C=np.ascontiguousarray(self.C[:, rows]),
            W=self.W[rows],
            G=np.ascontiguousarray(self.G[:, rows]),
            T=self.T[rows],
            kinds=np.zeros((len(rows), self.m), dtype=np.uint8),
        )
        return self.work

    def _settle(
        self, work: WorkingRows, kind: int, a: Floats, b: Floats, norm: RowNorm, left: int, accuracy: float
    ) -> int:
        """Minimise over the rows at hand to some accuracy (inf: just go over them a few times); returns the goes."""
        scratch, total, stop = np.empty((5, self.m)), 0, accuracy * self.scale
        past = np.empty((2, (MEAN if work.W.size <= MEANT else 0) + 2, work.W.size))
        as_one = AS_ONE
        if np.isinf(accuracy):
            stop, left, as_one = 0.0, min(left, EPOCHS), EPOCHS
        step = self._newton if kind == _row_kernel.GROUP else self._on_pattern
        part_norm = norm.of_rows(work.rows)
        best, stuck, patience, ridge, before, worst = np.inf, 0, 1, RIDGE, 0.0, np.inf
        from_W, from_G = work.W.copy(), work.G.copy()  # what sweeps gain is measured where a Newton step is taken only
        while total < left:
            used = np.count_nonzero(work.W.any(axis=1))
            as_long = min(
                max(0.2 * used + 2e6 / (self.m * used**2 + 1), EPOCHS), 200
            )  # goes in the time of a Newton step
            done, worst = _row_kernel.sweep(
                kind, a, b, self.kappa, work.Q, self.which, work.H, work.F, work.G, work.W, work.T, work.kinds, scratch,
                past, work.C, min(patience * as_one, left - total), stop,
            )  # fmt: skip
            total += done
            stuck = 0 if worst < 0.5 * best else stuck + 1
            best = min(best, worst)
            if worst <= stop or (stuck > 20 and best <= 1e2 * stop):  # rounding leaves no more digits
                break
            if total >= left or self.m * used**2 > LARGEST:
                continue
            if before == 0.0 or np.log(worst / stop) * done < as_long * np.log(before / worst):
                before = worst  # soon there without
                continue
            swept = self._objective(work, part_norm, work.W, work.G)
            value = self._objective(work, part_norm, from_W, from_G)
            part, new = self._descend(work, part_norm, step(work, a, b, ridge), swept)
            if part > 0.1 or swept - new > value - swept:
                patience, ridge = 1, max(RIDGE, 0.1 * ridge)
            else:  # the quadratic model reaches no further than rows that change their form
                patience, ridge = min(2 * patience, 64), min(100.0 * ridge, 1e-2)
            before, from_W, from_G = 0.0, work.W.copy(), work.G.copy()
        self.worst = worst
        return total

    def _objective(self, work: WorkingRows, norm: RowNorm, W: Floats, G: Floats) -> float:
        """At W (K, m) with gradient G (m, K), less the loss at 0."""
        return float(norm.value(W) - 0.5 * np.einsum("ji,ij->", W, work.C + G))

    def _descend(self, work: WorkingRows, norm: RowNorm, direction: Floats | None, now: float) -> tuple[float, float]:
        """Go along the direction (K, m), the whole of it or as far as is best; returns which part, and the objective there.

        Rows on the way that would pass what bounds their form (0, or an entry its row's level) stay at the bound.
        """
        if direction is None or not np.isfinite(direction).all():
            return 0.0, now
        bend = not_beyond_zero if isinstance(norm, GroupNorm) else kept_sides

        def bent(part: float) -> tuple[float, Floats, Floats]:
            W = bend(work.W + part * direction, work)
            G = work.C - self._weighted(work.Q, W)
            return self._objective(work, norm, W, G), W, G

        part = 1.0
        value, W, G = bent(part)
        if value > now + 1e-16 * self.scale**2:
            change = -self._weighted(work.Q, direction)

            def straight(part: float) -> float:
                return self._objective(work, norm, work.W + part * direction, work.G + part * change)

            part = lowest(straight)
            value, W, G = straight(part), work.W + part * direction, work.G + part * change
            for longer in (part, 2.0 * part, 4.0 * part):
                other = bent(longer)
                if other[0] < value:
                    value, W, G = other
            if value >= now:
                return 0.0, now
        work.W, work.G = W, G
        return part, value

    # ------------------------------------------------------------------ Newton steps

    def _blocks(self, work: WorkingRows, rows: Ints, same: bool) -> Floats:
        """(m, k, k): kappa_i Q_i on some of the rows; one for all tasks if these are the `same`"""
        Q = between(work.Q, rows)
        return (
            self.kappa[:1, None, None] * Q
            if same
            else self.kappa[:, None, None] * (Q if len(Q) == self.m else Q[self.which])
        )

    def _newton(self, work: WorkingRows, a: Floats, b: Floats, ridge: float) -> Floats | None:
        """The Newton direction for group norms on the rows that are not 0.

        There a |f w|_2 has the Hessian  D - q q' a / nu,  D = a f^2 / nu, q = f^2 w / nu. With A_i = kappa_i Q_i + D_i, a
        block per task, Woodbury's identity leaves one system of the size of the support.
        """
        S = np.flatnonzero(work.W.any(axis=1))
        if S.size == 0:
            return None
        W, F, H, a = work.W[S], work.F[S], work.H[S], a[S]
        nu = lengths(F * W)
        penalised = (a > 0.0) & (nu > 0.0)
        nu = np.where(penalised, nu, 1.0)
        a = np.where(penalised, a, 0.0)
        D, q = (a / nu)[:, None] * F**2, F**2 * (W / nu[:, None])
        slope = np.where(H > 0.0, D * W - work.G[:, S].T, 0.0)
        D = D + ridge * H.max(axis=0)
        alike = np.ptp(self.kappa) == 0.0 and not np.ptp(D, axis=1).any() and (H > 0.0).all()
        same = len(self.grams) == 1 and bool(alike)
        A = self._blocks(work, S, same)
        diagonal = np.arange(len(S))
        A[:, diagonal, diagonal] += D.T[: len(A)]
        inverses = block_inverses(A, None if (H > 0.0).all() else (H > 0.0).T)
        if inverses is None:
            return None
        x = (inverses @ slope.T[:, :, None])[:, :, 0]  # (m, k)
        coupled = np.flatnonzero(penalised)
        y = np.zeros(len(S))
        if coupled.size:
            part = q[coupled]
            M = np.diag(nu[coupled] / a[coupled])
            if same:
                M -= (part @ part.T) * between(inverses, coupled)[0]
            elif len(coupled) <= BATCHED:
                M -= np.einsum("ji,ijl,li->jl", part, between(inverses, coupled), part)
            else:
                for of_task, inner in zip(part.T, between(inverses, coupled), strict=True):
                    M -= of_task[:, None] * inner * of_task
            solution = solved(M, np.einsum("ji,ij->j", part, x[:, coupled]))
            if solution is None:
                return None
            y[coupled] = solution
        out = np.zeros_like(work.W)
        out[S] = -(x + (inverses @ (q * y[:, None]).T[:, :, None])[:, :, 0]).T
        return out

    def _on_pattern(self, work: WorkingRows, a: Floats, b: Floats, ridge: float) -> Floats | None:
        """The way to the minimiser for the Dirty norm among the W with the present pattern: entries at their row's t move
        with it, those below and above move freely, zeros stay."""
        U = np.flatnonzero(work.kinds.any(axis=1))
        if U.size == 0:
            return None
        W, F, H, G, kinds, a = work.W[U], work.F[U], work.H[U], work.G[:, U], work.kinds[U], a[U]
        tied, above = kinds == TIED, kinds == ABOVE
        free = (above | (kinds == BELOW)).T  # (m, k)
        signs = np.where(W < 0.0, -1.0, 1.0)
        S = np.where(tied, signs / np.where(tied, F, 1.0), 0.0)  # how entries move with t
        rest = np.where(free, G - np.where(above, a[:, None] * F * signs, 0.0).T, 0.0)
        excess = np.einsum("ji,ij->j", S, G) - (b[U] - a * above.sum(axis=1))
        t_rows = np.flatnonzero(tied.any(axis=1))
        M, right = np.zeros((len(t_rows), len(t_rows))), excess[t_rows]
        M.flat[:: len(t_rows) + 1] += ridge * (S[t_rows] ** 2 * H[t_rows]).sum(axis=1).max(initial=0.0)
        if len(U) > BATCHED:
            step = self._by_task(work, U, free, rest, t_rows, S, ridge, M, right)
        else:
            step = self._by_kernel(work, U, free, rest, t_rows, S, ridge, M, right)
        if step is None:
            return None
        out = np.zeros_like(work.W)
        out[U] = step
        return out

    def _by_kernel(
        self,
        work: WorkingRows,
        U: Ints,
        free: np.ndarray,
        rest: Floats,
        t_rows: Ints,
        S: Floats,
        ridge: float,
        M: Floats,
        right: Floats,
    ) -> Floats | None:
        """The step (k, m) of the rows U: every task's free entries are taken out of the system for t, which gets their
        share; then they follow t."""
        among = np.ascontiguousarray(free).view(np.uint8)
        n_free, n_tied = free.sum(axis=1), np.count_nonzero(S, axis=0)
        room, index = (
            np.empty(int((n_free * (n_free + 1 + n_tied)).sum())),
            np.empty((3, max(len(U), 2)), dtype=np.intp),
        )
        slot, step = np.zeros(len(U), dtype=np.intp), np.zeros((len(U), self.m))
        slot[t_rows] = np.arange(len(t_rows))
        heights = ridge * work.H[U].max(axis=0)
        S, rest = np.ascontiguousarray(S), np.ascontiguousarray(rest)
        if not _row_kernel.eliminate(
            self.kappa, work.Q, self.which, U, S, among, rest, heights, slot, M, right, room, index
        ):
            return None
        dt = solved(M, right) if t_rows.size else np.empty(0)
        if dt is None:
            return None
        _row_kernel.substitute(S, among, slot, dt, room, index, step)
        return step

    def _by_task(
        self,
        work: WorkingRows,
        U: Ints,
        free: np.ndarray,
        rest: Floats,
        t_rows: Ints,
        S: Floats,
        ridge: float,
        M: Floats,
        right: Floats,
    ) -> Floats | None:
        """The same by LAPACK, for tasks with many rows."""
        heights = ridge * work.H[U].max(axis=0)
        eliminated = []
        for i, among in enumerate(free):
            at, tied = np.flatnonzero(among), np.flatnonzero(S[t_rows, i])
            level = t_rows[tied]
            Q = self.kappa[i] * between(work.Q[self.which[i]][None], U[np.concatenate([at, level])])[0]
            f, follow = len(at), S[level, i]
            share = follow[:, None] * Q[f:, f:] * follow  # of M
            factor, failed = Q[:f, :f].T, 0
            if f:
                factor.flat[:: f + 1] += heights[i]
                factor, failed = dpotrf(factor, lower=1)
            if failed:
                return None
            both = np.column_stack([rest[i, at], Q[:f, f:] * follow])
            if f:
                both = solve_triangular(factor, both, lower=True, check_finite=False, overwrite_b=True)
                share -= both[:, 1:].T @ both[:, 1:]
                right[tied] -= both[:, 1:].T @ both[:, 0]
            _row_kernel.add_between(share, tied, M)
            eliminated.append((at, tied, factor, both))
        dt = solved(M, right) if t_rows.size else np.empty(0)
        if dt is None:
            return None
        step = np.zeros((len(U), self.m))
        step[t_rows] = S[t_rows] * dt[:, None]
        for i, (at, tied, factor, both) in enumerate(eliminated):
            if at.size:
                left = both[:, 0] - both[:, 1:] @ dt[tied]
                step[at, i] = solve_triangular(factor, left, lower=True, trans="T", check_finite=False)
        return step
