"""Solutions put right in numpy where the compiled kernel leaves off: one of several minimisers (`nearest`), and a support so
ill-conditioned that the Gram form loses the answer (`polish`, on X itself). Both are rare.

The problem is that of `weighted_lasso.py`:  min_w  1/2 |y - Xw|^2 + sum_j a_j |w_j|,   a_j in [0, inf]
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr, solve_triangular

from ..._data.designs import Design, Floats, Ints

WIDE = 1e4  # ratio of column lengths beyond which rounding would decide what is nearest
FEW_DIRECTIONS = 40  # with more null directions the nearest minimiser is found through the dual
DOUBT = 1e-11  # suspicion beyond which a solution is worked out on X
POLISHES = 20  # attempts to improve a solution on X
SAME = 1e-12  # of |y|^2: objectives of minimisers may differ by so much
TIE = 1e-9  # |gradient| this close to its bound, relatively, counts as at the bound


def suspicions(design: Design, W: Floats, A: Floats) -> Floats:
    """How far X itself contradicts each row of W: sum_j |w_j| |g_j - a_j sign(w_j)| as a share of |y|^2, plus the largest
    violation by a feature that is not used, as a correlation.

    In Gram form columns at a distance of less than about 1e-6 cannot be told from dependent ones.
    """
    if design.target is None or design.yy == 0.0:
        return np.zeros(len(W))
    R = design.residuals(W)
    assert R is not None
    G, used, length = design.correlate(R.T).T, W != 0.0, np.sqrt(design.squares * design.yy)
    error = np.abs(G - np.where(used, A, 0.0) * np.sign(W))
    beyond = np.where(used | (length == 0.0), 0.0, np.abs(G) - A) / np.where(length > 0.0, length, 1.0)
    out: Floats = np.einsum("sj,sj->s", np.abs(W), error) / design.yy + np.maximum(beyond.max(axis=1, initial=0.0), 0.0)
    return out


# ------------------------------------------------------------------ minimisers that are not unique


def nearest(design: Design, w: Floats, a: Floats, aim: Floats, unit: Floats, positive: bool) -> Floats:
    """The minimiser nearest to `aim` (in the norm |unit * (w - aim)|), given one minimiser w.

    All minimisers have the same fit and the same signs: they are the v with X_E v = X_E w and s_j v_j >= 0 for the
    penalised j, where E holds the features whose gradient is at its bound. The nearest one is the projection of
    `aim` on that polyhedron: unique, hence independent of how w was found. (Columns whose lengths differ by more
    than WIDE are weighted as if they differed by that much: beyond it rounding would decide.)
    """
    if np.array_equal(w, aim):
        return w
    g = design.gradient(w)
    finite = np.where(np.isfinite(a), a, 0.0)
    root = np.sqrt(design.squares)
    slack = TIE * finite + root * (1e-12 * np.sqrt(design.yy) + 1e-13 * float(root @ np.abs(w)))
    at_bound = ((g if positive else np.abs(g)) >= finite - slack) & (design.squares > 0) & np.isfinite(a)
    E = np.flatnonzero(at_bound | (w != 0.0))
    if E.size == 0:
        return w
    length = np.sqrt(design.squares[E])
    rows, null = _row_and_null_space(design, E, length)
    if null.shape[1] == 0:
        return w
    norm = unit[E] / length
    norm = np.maximum(norm / norm.max(), 1.0 / WIDE)  # relative to the columns' lengths
    scale = norm * length
    sign = np.where((a[E] > 0) | positive, 1.0 if positive else np.sign(g[E]), 0.0)
    if null.shape[1] <= FEW_DIRECTIONS:
        v = _slide(scale * w[E], np.linalg.qr(norm[:, None] * null)[0], scale * aim[E], sign)
    else:
        v = _project(scale * w[E], np.linalg.qr((rows / norm).T)[0].T, scale * aim[E], sign)
    out = np.zeros_like(w)
    out[E] = v / scale
    # columns whose lengths differ too much: rounding has moved the fit, and w is the better minimiser
    return out if _objective(design, out, a) <= _objective(design, w, a) + SAME * design.yy else w


def _row_and_null_space(design: Design, E: Ints, length: Floats) -> tuple[Floats, Floats]:
    """Bases (rank, |E|) and (|E|, |E| - rank) of the row and the null space of X_E with columns of unit length."""
    X = design.columns(E)
    assert X is not None
    X = X / length
    if len(X) > 2 * len(E):  # without pivots it is faster
        X = np.asarray(np.linalg.qr(X, mode="r"))
    R, order = qr(X, mode="r", pivoting=True, overwrite_a=True, check_finite=False)
    pivots = np.abs(np.diag(R))
    rank = int((pivots > 1e-10 * pivots[0]).sum())
    rows, null = np.empty((rank, len(E))), np.zeros((len(E), len(E) - rank))
    rows[:, order] = R[:rank]
    if null.size:
        null[order[:rank]] = -solve_triangular(R[:rank, :rank], R[:rank, rank:], check_finite=False)
        null[order[rank:], np.arange(null.shape[1])] = 1.0
    return rows, null


def _slide(v: Floats, N: Floats, goal: Floats, sign: Floats) -> Floats:
    """The point of {v + N t : sign_p (v + N t)_p >= 0} nearest to goal, from a feasible v; N has orthonormal columns.

    A primal active-set method: go towards the nearest point of the present face, stop where an entry reaches zero and
    hold it there, let go of held entries whose multiplier is negative.
    """
    size = max(float(np.abs(v).max()), float(np.abs(goal).max()), np.finfo(float).tiny)
    v = v.copy()
    held: list[int] = []
    for _ in range(20 * (len(v) + 1)):
        B = N
        if held:
            _, values, right = np.linalg.svd(N[held], full_matrices=True)
            B = N @ right[int((values > 1e-12).sum()) :].T
        move = B @ (B.T @ (goal - v))
        if np.abs(move).max(initial=0.0) <= 1e-12 * size:
            if not held:
                break
            normals = N[held].T * sign[held]
            multipliers = np.linalg.lstsq(normals, N.T @ (v - goal), rcond=1e-12)[0]
            if multipliers.min() >= -1e-10 * size:
                break
            held.pop(int(np.argmin(multipliers)))
            continue
        towards = sign * move < 0
        towards[held] = False
        steps = np.where(towards, -v / np.where(towards, move, 1.0), np.inf)
        first = int(np.argmin(steps))
        v += min(max(steps[first], 0.0), 1.0) * move
        if steps[first] < 1.0:
            held.append(first)
        v[held] = 0.0
    v[(sign != 0.0) & (sign * v <= 1e-13 * size)] = 0.0
    return v


def _project(v: Floats, A: Floats, goal: Floats, sign: Floats) -> Floats:
    """The same for many null directions: the point nearest to goal with the same A v and sign_p v_p >= 0.

    By Newton's method on the dual, whose size is the number of rows of A (orthonormal): the point is the positive part
    (where sign != 0) of goal + A'u for the u that makes A times it what it should be, a piecewise linear equation.
    Where that fails (huge coefficients on nearly dependent columns), v itself.
    """
    size = max(float(np.abs(v).max()), float(np.abs(goal).max()), np.finfo(float).tiny)
    goal, target, limit = goal / size, A @ v / size, 1e-15 * np.sqrt(len(v))
    u = target - A @ goal

    def at(u: Floats) -> tuple[Floats, Floats, float]:
        point = goal + A.T @ u
        point[(sign != 0.0) & (sign * point <= 0.0)] = 0.0
        return point, A @ point - target, 0.5 * float(point @ point) - float(target @ u)

    point, error, value = at(u)
    for _ in range(200):
        if np.abs(error).max() <= limit:
            break
        live = A[:, (sign == 0.0) | (point != 0.0)]
        values, vectors = np.linalg.eigh(live @ live.T)
        inner = vectors.T @ error
        # a full step, or one less bold where the equations on this piece are (nearly) dependent
        trials = ((floor, 0.5**k) for floor in (1e-12, 1e-6, 1e-2) for k in range(12))
        for floor, step in trials:
            move = -vectors @ (inner / np.maximum(values, floor))
            point, new, lower = at(u + step * move)
            if lower <= value + 1e-4 * step * float(error @ move) or np.abs(new).max() <= 0.5 * np.abs(error).max():
                break
        else:
            break
        u, error, value = u + step * move, new, lower
    point, error, _ = at(u)
    if np.abs(error).max() > 1e-11:
        return v
    return np.asarray(size * np.where((sign != 0.0) & (sign * point <= 1e-13), 0.0, point))


# ------------------------------------------------------------------ ill-conditioned supports


def polish(design: Design, w: Floats, a: Floats, positive: bool) -> Floats:
    """Improve a minimiser on X itself where the Gram form (which squares the condition) has lost digits.

    Returns w unchanged when X is not at hand or nothing can be gained.
    """
    value = _objective(design, w, a)
    for _ in range(POLISHES):
        better = _polish_once(design, w, a, positive)
        reached = _objective(design, better, a)
        if not reached < value - 1e-14 * design.yy:
            return better if reached <= value else w
        w, value = better, reached
    return w


def _polish_once(design: Design, w: Floats, a: Floats, positive: bool) -> Floats:
    """One attempt: a feature that has left does not come back in it, so it ends.

    A plain primal active-set method with a QR factor of X on the support, for the few steps that are left:
    solve on the support, line search to the first sign change, add the worst violator. Returns w unchanged
    when X is not at hand or nothing can be gained.
    """
    y = design.target
    if y is None:
        return w
    length = np.sqrt(design.squares)
    fixed = (a == 0.0) & (not positive)
    support: list[int] = np.flatnonzero(((w != 0.0) | fixed) & (length > 0)).tolist()
    sign = np.where(fixed, 0.0, np.sign(w))
    best, best_value = w, _objective(design, w, a)
    w = w.copy()
    barred = _surplus(design, [j for j in support if fixed[j]])
    support = [j for j in support if j not in barred]
    w[list(barred)] = 0.0
    for _ in range(50 + 2 * len(support)):
        X = design.columns(np.array(support, dtype=np.intp))
        assert X is not None
        Q, R, order = qr(X / length[support], mode="economic", pivoting=True)
        pivots = np.abs(np.diag(R))
        rank = int((pivots > 1e-13 * pivots[0]).sum()) if pivots.size else 0
        now = w[support]
        if rank < len(support):  # move along a null direction, downhill, until an entry can leave
            v = np.linalg.svd(R, full_matrices=True)[2][-1][np.argsort(order)] / length[support]
            v = v if a[support] @ (sign[support] * v) <= 0 else -v
            blocking = np.flatnonzero(sign[support] * v < 0)
            if blocking.size:
                first = int(blocking[np.argmin(-now[blocking] / v[blocking])])
            else:  # free columns alone: one of them is enough less
                first = int(np.argmax(np.abs(v) * length[support]))
                barred.add(support[first])
            w[support] = now - now[first] / v[first] * v
            w[support.pop(first)] = 0.0
            continue
        b = (a[support] * sign[support] / length[support])[order]
        z = np.empty(len(support))
        z[order] = solve_triangular(R, Q.T @ y - solve_triangular(R, b, trans="T")) if support else 0.0
        z /= length[support]
        wrong = np.flatnonzero((sign[support] != 0) & (z * sign[support] <= 0))
        if wrong.size:
            apart = now[wrong] - z[wrong]
            steps = np.divide(now[wrong], apart, out=np.zeros_like(apart), where=apart != 0.0)
            first = int(np.argmin(steps))
            w[support] = now + steps[first] * (z - now)
            gone = support.pop(int(wrong[first]))
            w[gone] = 0.0
            barred.add(gone)
            continue
        w[support] = z
        value = _objective(design, w, a)
        if value <= best_value + 1e-14 * design.yy:
            best, best_value = w.copy(), value
        g = design.gradient(w)
        over = (g if positive else np.abs(g)) - a
        over = np.where((length > 0) & (over > 1e-11 * a), over / np.where(length > 0, length, 1.0), 0.0)
        over[support] = 0.0
        over[list(barred)] = 0.0
        j = int(np.argmax(over))
        if over[j] <= 1e-14 * np.sqrt(design.yy):
            break
        support.append(j)
        sign[j] = 0.0 if fixed[j] else np.sign(g[j])
    return best


def _surplus(design: Design, features: list[int]) -> set[int]:
    """Those of the features that depend on the rest of them."""
    X = design.columns(np.array(features, dtype=np.intp))
    if not features or X is None:
        return set()
    R, order = qr(X / np.sqrt(design.squares[features]), mode="r", pivoting=True)
    pivots = np.abs(np.diag(R))
    rank = int((pivots > 1e-13 * pivots[0]).sum())
    return {features[t] for t in order[rank:]}


def _objective(design: Design, w: Floats, a: Floats) -> float:
    used = w != 0.0
    return 0.5 * design.loss(w) + float(a[used] @ np.abs(w[used]))
