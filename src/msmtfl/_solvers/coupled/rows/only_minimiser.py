"""Is a minimiser of rows that couple the tasks the only one?

All minimisers have the same gradient. It says how they may differ (`face`): if no such change leaves all predictions as they
are, there is one minimiser. In tasks in which the rows in use are linearly independent none does (`Independence`); of the
other tasks it takes a factor of each, and a Schur complement for what they have in common (`only_minimiser`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

from ...._data.designs import Floats, Ints
from ...gram import Gram

DEPENDENT = 1e-9  # of a row's square: what the other rows must leave of it, or it counts as dependent on them
AT_BOUND = 1e-7  # how near to its bound, relatively, a gradient is that may be at it in another minimiser
AHEAD = 0.7  # of its bound: rows whose gradient is larger may soon be in use
FEW = 48  # rows: so many are tried once, together, and then as they come


class Independence:
    """Which rows are linearly independent in the tasks, of which those with the same X make a group. What is known of a set
    of rows is known of its parts, or of the sets that it is a part of.

    Parameters
    ----------
    grams : of each group
    alive : (groups, d) bool: rows that count
    sizes : samples of each group
    fetch : gets the Gram rows of some features
    """

    def __init__(
        self,
        grams: Sequence[Gram],
        alive: np.ndarray,
        sizes: Sequence[float],
        fetch: Callable[[Gram, Ints], None],
    ):
        self.grams, self.alive, self.sizes, self.fetch = grams, alive, sizes, fetch
        self.known = ~alive  # (groups, d): rows that are independent, with those that do not count
        self.dependent = np.zeros_like(alive)  # (groups, d): some that are dependent; none: unknown
        self.tried_all = np.zeros(len(alive), dtype=bool)  # whether all rows were tried

    def lacking(self, rows: Ints, over: Floats) -> Ints:
        """The groups in which some rows are dependent; `over` (d,) tells how near every row is to being in use."""
        among = np.zeros(self.alive.shape[1], dtype=bool)
        among[rows] = True
        unknown = ~self.known[:, rows].all(axis=1)
        weak = np.asarray(unknown & self.dependent.any(axis=1) & ~(self.dependent & ~among).any(axis=1))
        for g in np.flatnonzero(unknown & ~weak).tolist():
            weak[g] = not self._try(g, among, over)
        return np.flatnonzero(weak)

    def _try(self, g: int, among: np.ndarray, over: Floats) -> bool:
        alive, gram = self.alive[g], self.grams[g]
        sets = [alive & among]
        if gram.whole is not None and len(alive) > FEW:  # with those that may soon be in use
            sets.insert(0, alive & (among | self.known[g] | (over > AHEAD)))
        if gram.whole is not None and not self.tried_all[g]:
            sets.insert(0, alive)
        self.tried_all[g] = True
        for some in map(np.flatnonzero, sets):
            if len(some) <= self.sizes[g]:
                self.fetch(gram, some)
                Q, at = (gram.known, gram.slot[some]) if gram.whole is None else (gram.whole, some)
                if regular(Q[at[:, None], at], np.sqrt(Q[at, at])) is not None:
                    self.known[g, some] = True
                    return True
        self.dependent[g] = alive & among
        return False


def face(group: bool, a: Floats, b: Floats, F: Floats, H: Floats, G: Floats) -> tuple[Floats, np.ndarray]:
    """How minimisers with the gradient G (k, m) can differ in these rows: by multiples of follow (k, m), one for each row,
    and in the entries `free` (k, m), each by itself. The norm is that of a `group`, a |f w|_2, or else Dirty's, with a on s
    and b on b; H are curvatures, F the factors f."""
    alive, counts = H > 0.0, (H > 0.0) & (F > 0.0)
    F = np.where(counts, F, 1.0)
    if group:  # a row that is not 0 is a multiple of g / f^2
        penalised = counts & (a > 0.0)[:, None]
        return np.where(penalised, G / F**2, 0.0), alive & ~penalised
    sizes = np.where(counts, np.abs(G) / F, 0.0)
    level = (sizes.sum(axis=1) > (1.0 - AT_BOUND) * b)[:, None]  # rows whose level may be more than 0
    above, below = sizes > (1.0 - AT_BOUND) * a[:, None], level & (sizes <= AT_BOUND * a[:, None])
    free = alive & (~counts | above | below)
    return np.where(counts & level & ~free, np.sign(G) / F, 0.0), free


def only_minimiser(
    differ: tuple[Floats, np.ndarray], tasks: Ints, Q: Sequence[Floats], at: Ints, kappa: Floats, H: Floats
) -> bool:
    """Whether no change that the face allows leaves the predictions of all tasks as they are, the rows being independent in
    all but some `tasks`. Q are these tasks' Gram matrices, in which the k rows are `at`, kappa their factors; H (k, m)."""
    follow, free = differ
    moves = follow != 0.0
    largest = np.abs(follow).max(axis=1, initial=0.0)[:, None]
    follow = np.divide(
        follow, largest, out=np.zeros_like(follow), where=largest > 0.0
    )  # directions: any length will do
    levels = np.flatnonzero(moves[:, tasks].any(axis=1) & ~np.delete(moves, tasks, axis=1).any(axis=1))
    M = np.zeros((len(levels), len(levels)))
    for i, of_task, weight in zip(tasks.tolist(), Q, kappa.tolist(), strict=True):
        own, S = np.flatnonzero(free[:, i]), follow[levels, i]
        M += weight * np.outer(S, S) * of_task[at[levels][:, None], at[levels]]
        roots = np.sqrt(H[own, i])
        factor = regular(weight * of_task[at[own][:, None], at[own]], roots)
        if factor is None:
            return False
        if own.size and levels.size:
            B = weight * of_task[at[own][:, None], at[levels]] * S / roots[:, None]
            B = solve_triangular(factor, B, lower=True, check_finite=False)
            M -= B.T @ B
    heights = np.sqrt((follow[levels][:, tasks] ** 2 * H[levels][:, tasks]).sum(axis=1))
    return regular(M, heights) is not None


def regular(A: Floats, roots: Floats) -> Floats | None:
    """The lower Cholesky factor of A with unit diagonal (of A divided by `roots` from both sides), if A is far from
    singular; roots that are 0 make it singular."""
    if not len(A):
        return A
    if not (roots > 0.0).all():
        return None
    factor, failed = dpotrf(A / np.multiply.outer(roots, roots), lower=1)
    singular = failed or float((factor.diagonal() ** 2).min()) < DEPENDENT
    return None if singular else np.asarray(factor)
