# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, infer_types=True, freethreading_compatible=True
"""The second compiled kernel: block descent over rows that couple the tasks, in Gram form.

    min_W  sum_i kappa_i (1/2 w_i'Q_i w_i - c_i'w_i)  +  sum_j N_j(w^j),     w^j = (w_ji)_i: feature j in all tasks

A row is minimised exactly, the others fixed: with h_i = kappa_i Q_i,jj and b_i = h_i w_ji + g_ji (g the gradient) that is

    min_v  sum_i 1/2 h_i v_i^2 - b_i v_i + N(v)

for one of two norms, f_i >= 0 being the penalty factors of the row's entries (0: not penalised):

- GROUP  N(v) = a |f v|_2: v_i = b_i nu / (h_i nu + a f_i^2), where nu = |f v|_2 solves a secular equation;
- DIRTY  N(v) = min_{s+b=v} a |f s|_1 + b |f b|_inf: given t = |f b|_inf every entry has a closed form, and t is where a
  falling, piecewise linear function passes b.

Entries with h_i = 0 (a constant column, an excluded entry) stay 0. This file is plain Python: `cython` types make it C.
"""

import cython
import numpy as np

if not cython.compiled:
    from math import fabs, sqrt

GROUP = 0
DIRTY = 1

# What an entry of a row is to the Dirty norm, for whoever solves on a pattern.
ZERO = cython.declare(cython.int, 0)  # stays 0
TIED = cython.declare(cython.int, 1)  # |f v| = t
BELOW = cython.declare(cython.int, 2)  # |f v| < t, or not penalised: its gradient is 0
ABOVE = cython.declare(cython.int, 3)  # |f v| > t: its gradient is a f
RIDGE = cython.declare(cython.double, 1e-14)  # of the squares of changes: keeps weights from following rounding
FAR = cython.declare(cython.double, 1e3)  # weights of goes that are larger cost too many digits
SOME = cython.declare(cython.double, 10.0)  # those that are larger cost some: G is made anew in the end
PATTERN = {"ZERO": ZERO, "TIED": TIED, "BELOW": BELOW, "ABOVE": ABOVE}


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _group(
    m: cython.Py_ssize_t,
    a: cython.double,
    h: cython.double[::1],
    f: cython.double[::1],
    b: cython.double[::1],
    v: cython.double[::1],
    nu: cython.double,
) -> cython.double:
    """v <- the minimising row for the norm a |f v|_2, started from a guess of nu; returns nu."""
    total: cython.double = 0.0
    for i in range(m):
        if h[i] > 0.0 and f[i] > 0.0:
            ratio: cython.double = b[i] / f[i]
            total += ratio * ratio
    if total <= a * a or a == 0.0:
        total = 0.0
        for i in range(m):
            v[i] = b[i] / h[i] if h[i] > 0.0 and (f[i] == 0.0 or a == 0.0) else 0.0
            total += f[i] * v[i] * f[i] * v[i]
        return sqrt(total)
    for i in range(m):  # no smaller than what any entry alone would have; and safe from overflow
        if h[i] > 0.0 and f[i] > 0.0:
            least: cython.double = (fabs(b[i]) - a * f[i]) * f[i] / h[i]
            if least > nu:
                nu = least
    # 1/s(nu) = 1, s(nu) = |f b / (h nu + a f^2)|: concave and rising, so that Newton's steps end below the root and climb
    for _ in range(100):
        square: cython.double = 0.0
        slope: cython.double = 0.0
        for i in range(m):
            if h[i] > 0.0 and f[i] > 0.0:
                inverse: cython.double = 1.0 / (h[i] * nu + a * f[i] * f[i])
                part: cython.double = f[i] * b[i] * inverse
                square += part * part
                slope += part * part * h[i] * inverse
        s: cython.double = sqrt(square)
        step: cython.double = (s - 1.0) * square / slope
        if step < -nu:
            step = -0.9 * nu
        nu += step
        if fabs(step) <= 4e-16 * nu:
            break
    for i in range(m):
        v[i] = 0.0
        if h[i] > 0.0:
            v[i] = b[i] / h[i] if f[i] == 0.0 else b[i] * nu / (h[i] * nu + a * f[i] * f[i])
    return nu


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _clipped(
    m: cython.Py_ssize_t,
    a: cython.double,
    t: cython.double,
    size: cython.double[::1],
    bend: cython.double[::1],
    slope: cython.double[::1],
) -> cython.double:
    """sum_i min(a, (size_i - bend_i t)_+); slope[0] gets how fast it falls at t."""
    total: cython.double = 0.0
    i: cython.Py_ssize_t
    if cython.compiled:
        total = vec_clipped(m, a, t, cython.address(size[0]), cython.address(bend[0]), cython.address(slope[0]))
    else:
        slope[0] = 0.0
        for i in range(m):
            rest: cython.double = size[i] - bend[i] * t
            if rest >= a:
                total += a
            elif rest > 0.0:
                total += rest
                slope[0] += bend[i]
    return total


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _dirty(
    m: cython.Py_ssize_t,
    a: cython.double,
    most: cython.double,
    h: cython.double[::1],
    f: cython.double[::1],
    b: cython.double[::1],
    v: cython.double[::1],
    kind: cython.uchar[::1],
    guess: cython.double,
    sizes: cython.double[::1],
    bend: cython.double[::1],
    slope: cython.double[::1],
) -> cython.double:
    """v <- the minimising row for the Dirty norm with a on s and `most` on b, started from a guess of t; returns t.
    Room for |b| / f, h / f^2 and a slope comes with it."""
    top: cython.double = 0.0
    for i in range(m):
        sizes[i] = 0.0
        bend[i] = 0.0
        v[i] = 0.0
        if h[i] > 0.0 and f[i] > 0.0:
            v[i] = 1.0 / f[i]
            sizes[i] = fabs(b[i]) * v[i]
            bend[i] = h[i] * v[i] * v[i]
    t: cython.double = 0.0
    total: cython.double = _clipped(m, a, 0.0, sizes, bend, slope)
    if total > most:
        # sum_i min(a, (|b_i| / f_i - h_i t / f_i^2)_+) falls to `most` in (0, top): Newton's steps within a bracket
        for i in range(m):
            if sizes[i] > bend[i] * top:
                top = sizes[i] / bend[i]
        low: cython.double = 0.0
        high: cython.double = top
        t = guess if guess < top else 0.0
        for _ in range(200):
            total = _clipped(m, a, t, sizes, bend, slope)
            if total > most:
                low = t
            else:
                high = t
            if fabs(total - most) <= 4e-16 * most or high - low <= 2e-16 * high:
                break
            new: cython.double = t + (total - most) / slope[0] if slope[0] > 0.0 else low - 1.0
            if new == t:
                break
            if new <= low or new >= high:
                new = 0.5 * (low + high)
            t = new
    for i in range(m):
        kind[i] = ZERO
        if h[i] <= 0.0:
            continue
        if f[i] == 0.0:
            v[i] = b[i] / h[i]
            kind[i] = BELOW
            continue
        size: cython.double = 0.0
        if sizes[i] - a > bend[i] * t:
            kind[i] = ABOVE
            size = (sizes[i] - a) / bend[i]
        elif t > 0.0 and sizes[i] < bend[i] * t:
            kind[i] = BELOW
            size = sizes[i] / bend[i]
        elif t > 0.0:
            kind[i] = TIED
            size = t
        v[i] *= size if b[i] > 0.0 else -size
    return t


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _copy(x: cython.double[:, ::1], out: cython.double[::1]) -> cython.void:
    """out <- the entries of x, row by row."""
    n: cython.Py_ssize_t = x.shape[1]
    for j in range(x.shape[0]):
        for i in range(n):
            out[j * n + i] = x[j, i]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _distance(
    x: cython.double[::1], y: cython.double[::1], u: cython.double[::1], v: cython.double[::1], H: cython.double[:, ::1]
) -> cython.double:
    """sum_ji h_ji (x - y)_ji (u - v)_ji"""
    n: cython.Py_ssize_t = H.shape[1]
    total: cython.double = 0.0
    for j in range(H.shape[0]):
        for i in range(n):
            t: cython.Py_ssize_t = j * n + i
            total += H[j, i] * (x[t] - y[t]) * (u[t] - v[t])
    return total


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _weigh(
    M: cython.Py_ssize_t,
    past: cython.double[:, :, ::1],
    H: cython.double[:, ::1],
    A: cython.double[:, ::1],
    c: cython.double[::1],
) -> cython.int:
    """c (M,) <- weights of sum 1 for which the same mean of the last M changes is smallest; 0 if they say nothing.
    A (M, M) is scratch."""
    for s in range(M):
        for r in range(s, M):
            A[r, s] = _distance(past[0, s + 1], past[0, s], past[0, r + 1], past[0, r], H)
    total: cython.double = 0.0
    for s in range(M):
        total += A[s, s]
    for s in range(M):  # A = L L', c = A^-1 1
        A[s, s] += RIDGE * total
        for r in range(s, M):
            for l in range(s):
                A[r, s] -= A[r, l] * A[s, l]
            if r == s:
                if not A[s, s] > 0.0:
                    return 0
                A[s, s] = sqrt(A[s, s])
            else:
                A[r, s] /= A[s, s]
    for s in range(M):
        c[s] = 1.0
        for l in range(s):
            c[s] -= A[s, l] * c[l]
        c[s] /= A[s, s]
    total = 0.0
    for l in range(M):
        s = M - 1 - l
        for r in range(s + 1, M):
            c[s] -= A[r, s] * c[r]
        c[s] /= A[s, s]
        total += c[s]
    if not fabs(total) > 0.0:
        return 0
    for s in range(M):
        c[s] /= total
        if not fabs(c[s]) < FAR:
            return 0
    return 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _mean(
    M: cython.Py_ssize_t, past: cython.double[:, ::1], c: cython.double[::1], out: cython.double[:, ::1]
) -> cython.void:
    """out <- the weighted mean of what the last M goes ended with."""
    n: cython.Py_ssize_t = out.shape[1]
    for j in range(out.shape[0]):
        for i in range(n):
            total: cython.double = 0.0
            for s in range(M):
                total += c[s] * past[s + 1, j * n + i]
            out[j, i] = total


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _go(
    norm: cython.int,
    a: cython.double[::1],
    b: cython.double[::1],
    kappa: cython.double[::1],
    Q: cython.double[:, :, :],
    which: cython.int[::1],
    H: cython.double[:, ::1],
    F: cython.double[:, ::1],
    G: cython.double[:, ::1],
    W: cython.double[:, ::1],
    T: cython.double[::1],
    kinds: cython.uchar[:, ::1],
    scratch: cython.double[:, ::1],
) -> cython.double:
    """Go over all rows once; returns the largest change."""
    K: cython.Py_ssize_t = W.shape[0]
    m: cython.Py_ssize_t = W.shape[1]
    new: cython.double[::1] = scratch[0]
    target: cython.double[::1] = scratch[1]
    worst: cython.double = 0.0
    for j in range(K):
        for i in range(m):
            target[i] = G[i, j] + H[j, i] * W[j, i]
        if norm == 0:
            T[j] = _group(m, a[j], H[j], F[j], target, new, T[j])
        else:
            T[j] = _dirty(m, a[j], b[j], H[j], F[j], target, new, kinds[j], T[j], scratch[2], scratch[3], scratch[4])
        for i in range(m):
            step: cython.double = new[i] - W[j, i]
            if step != 0.0:
                W[j, i] = new[i]
                change: cython.double = step * step * H[j, i]
                if change > worst:
                    worst = change
                step *= -kappa[i]
                if cython.compiled:
                    vec_axpy(K, step, cython.address(Q[which[i], j, 0]), cython.address(G[i, 0]))
                else:
                    for l in range(K):
                        G[i, l] += step * Q[which[i], j, l]
    return sqrt(worst)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _gradient(
    kappa: cython.double[::1],
    Q: cython.double[:, :, :],
    which: cython.int[::1],
    C: cython.double[:, ::1],
    W: cython.double[:, ::1],
    G: cython.double[:, ::1],
) -> cython.void:
    """G <- C - kappa_i Q_i w_i"""
    K: cython.Py_ssize_t = W.shape[0]
    for i in range(W.shape[1]):
        for l in range(K):
            G[i, l] = C[i, l]
        for j in range(K):
            step: cython.double = -kappa[i] * W[j, i]
            if step == 0.0:
                continue
            if cython.compiled:
                vec_axpy(K, step, cython.address(Q[which[i], j, 0]), cython.address(G[i, 0]))
            else:
                for l in range(K):
                    G[i, l] += step * Q[which[i], j, l]


def sweep(
    norm: cython.int,
    a: cython.double[::1],
    b: cython.double[::1],
    kappa: cython.double[::1],
    Q: cython.double[:, :, :],
    which: cython.int[::1],
    H: cython.double[:, ::1],
    F: cython.double[:, ::1],
    G: cython.double[:, ::1],
    W: cython.double[:, ::1],
    T: cython.double[::1],
    kinds: cython.uchar[:, ::1],
    scratch: cython.double[:, ::1],
    past: cython.double[:, :, ::1],
    C: cython.double[:, ::1],
    epochs: cython.Py_ssize_t,
    stop: cython.double,
):
    """Go over all K rows, up to `epochs` times; returns (epochs, largest change of the last one).

    a, b (K,) are the norm's parameters of each row. Task i's Gram matrix is Q[which[i]] (K, K), with contiguous
    rows, its gradient G[i] (K,) is
    kept up to date. H, F, W (K, m): curvatures h, factors f, coefficients. T (K,) gets nu or t of each row, kinds (K, m) the
    Dirty pattern. A change is measured as |dv_i| sqrt(h_i); with none above `stop` the rows have settled.

    Near a solution changes shrink from go to go by the same linear map, so that the mean of the last M goes in
    which changes cancel out best is nearer to it than the last one (Anderson's acceleration). The next go tells: if
    it changes more than the one before, rows go back. In past (2, M + 2, K m) there is room for M + 2 points (W, G);
    M = 0: none of this. C (m, K) is the gradient at 0.
    """
    M: cython.Py_ssize_t = past.shape[1] - 2
    known: cython.Py_ssize_t = 0
    done: cython.Py_ssize_t = 0
    worst: cython.double = 0.0
    before: cython.double = 0.0
    trial: cython.int = 0
    lossy: cython.int = 0
    A: cython.double[:, ::1] = scratch[:0] if M <= 0 else np.empty((M, M))
    c: cython.double[::1] = scratch[0] if M <= 0 else np.empty(M)
    with cython.nogil:
        while done < epochs:
            if M > 0 and known == 0:
                _copy(W, past[0, 0])
                _copy(G, past[1, 0])
            done += 1
            worst = _go(norm, a, b, kappa, Q, which, H, F, G, W, T, kinds, scratch)
            if worst <= stop:
                break
            if M <= 0:
                continue
            known += 1
            _copy(W, past[0, known])
            _copy(G, past[1, known])
            if trial:
                trial = 0
                if _distance(past[0, 1], past[0, 0], past[0, 1], past[0, 0], H) > before:
                    c[0] = 1.0
                    _mean(1, past[0, M:], c, W)
                    _mean(1, past[1, M:], c, G)
                    M = 0
                    continue
            if known == M and epochs - done > 2:
                before = _distance(past[0, M], past[0, M - 1], past[0, M], past[0, M - 1], H)
                if _weigh(M, past, H, A, c):
                    _copy(W, past[0, M + 1])
                    _copy(G, past[1, M + 1])
                    _mean(M, past[0], c, W)
                    _mean(M, past[1], c, G)
                    trial = 1
                    for s in range(M):
                        lossy |= fabs(c[s]) > SOME
                known = 0
            elif known == M:
                M = 0
        if lossy:
            _gradient(kappa, Q, which, C, W, G)
    return done, worst


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sort_entries(
    i: cython.Py_ssize_t,
    S: cython.double[:, ::1],
    free: cython.uchar[:, ::1],
    index: cython.Py_ssize_t[:, ::1],
    counts: cython.Py_ssize_t[::1],
) -> cython.void:
    """index, counts <- which of the entries of task i are free, and which follow their row's level."""
    counts[0] = 0
    counts[1] = 0
    for j in range(free.shape[1]):
        if free[i, j]:
            index[0, counts[0]] = j
            counts[0] += 1
        elif S[j, i] != 0.0:
            index[1, counts[1]] = j
            counts[1] += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _factor(
    weight: cython.double,
    Q: cython.double[:, :],
    rows: cython.Py_ssize_t[::1],
    free: cython.Py_ssize_t[::1],
    f: cython.Py_ssize_t,
    height: cython.double,
    L: cython.double[::1],
) -> cython.int:
    """L (f, f) <- the Cholesky factor of weight Q + height on the free entries; 0 if that is not positive definite."""
    for r in range(f):
        for s in range(r + 1):
            total: cython.double = weight * Q[rows[free[r]], rows[free[s]]]
            if r == s:
                total += height
            for l in range(s):
                total -= L[r * f + l] * L[s * f + l]
            if s < r:
                L[r * f + s] = total / L[s * f + s]
            elif total > 0.0:
                L[r * f + r] = sqrt(total)
            else:
                return 0
    return 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _solve_lower(f: cython.Py_ssize_t, L: cython.double[::1], x: cython.double[::1]) -> cython.void:
    """x <- L^-1 x"""
    for r in range(f):
        total: cython.double = x[r]
        for l in range(r):
            total -= L[r * f + l] * x[l]
        x[r] = total / L[r * f + r]


def eliminate(
    kappa: cython.double[::1],
    Q: cython.double[:, :, :],
    which: cython.int[::1],
    rows: cython.Py_ssize_t[::1],
    S: cython.double[:, ::1],
    free: cython.uchar[:, ::1],
    rest: cython.double[:, ::1],
    heights: cython.double[::1],
    slot: cython.Py_ssize_t[::1],
    M: cython.double[:, ::1],
    right: cython.double[::1],
    room: cython.double[::1],
    index: cython.Py_ssize_t[:, ::1],
):
    """Take every task's free entries out of the system M, right for the levels t of the Dirty norm; False if that fails.

    Of the k `rows` of Q, S (k, m) says how entries follow their row's level, free (m, k) which move by themselves, rest (m,
    k) their gradients, heights (m,) what is added to a task's diagonal, slot (k,) the place of a row's level in the system.
    room keeps, one task after the other, the Cholesky factor L of its f free entries, L^-1 rest, and L^-1 times how these
    gradients follow a level, for each of its levels. index (3, k) is scratch.
    """
    at: cython.Py_ssize_t = 0
    good: cython.int = 1
    with cython.nogil:
        for i in range(free.shape[0]):
            _sort_entries(i, S, free, index, index[2])
            f: cython.Py_ssize_t = index[2, 0]
            t: cython.Py_ssize_t = index[2, 1]
            L: cython.double[::1] = room[at:]
            z: cython.double[::1] = room[at + f * f :]
            good = _factor(kappa[i], Q[which[i]], rows, index[0], f, heights[i], L)
            if not good:
                break
            for l in range(f):
                z[l] = rest[i, index[0, l]]
            _solve_lower(f, L, z)
            at += f * (f + 1)
            for s in range(t):
                j: cython.Py_ssize_t = index[1, s]
                y: cython.double[::1] = room[at + s * f :]
                for l in range(f):
                    y[l] = kappa[i] * S[j, i] * Q[which[i], rows[j], rows[index[0, l]]]
                _solve_lower(f, L, y)
                for l in range(f):
                    right[slot[j]] -= y[l] * z[l]
                for r in range(s + 1):
                    total: cython.double = S[j, i] * S[index[1, r], i] * kappa[i]
                    total *= Q[which[i], rows[j], rows[index[1, r]]]
                    for l in range(f):
                        total -= y[l] * room[at + r * f + l]
                    M[slot[j], slot[index[1, r]]] += total
                    if r < s:
                        M[slot[index[1, r]], slot[j]] += total
            at += t * f
    return bool(good)


def substitute(
    S: cython.double[:, ::1],
    free: cython.uchar[:, ::1],
    slot: cython.Py_ssize_t[::1],
    levels: cython.double[::1],
    room: cython.double[::1],
    index: cython.Py_ssize_t[:, ::1],
    out: cython.double[:, ::1],
):
    """out (k, m), 0 to begin with, <- the step of all entries, given that of the levels and what `eliminate` has left."""
    at: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(free.shape[0]):
            _sort_entries(i, S, free, index, index[2])
            f: cython.Py_ssize_t = index[2, 0]
            L: cython.double[::1] = room[at:]
            z: cython.double[::1] = room[at + f * f :]
            at += f * (f + 1)
            for s in range(index[2, 1]):
                step: cython.double = levels[slot[index[1, s]]]
                out[index[1, s], i] = S[index[1, s], i] * step
                for l in range(f):
                    z[l] -= room[at + l] * step
                at += f
            for l in range(f):
                r: cython.Py_ssize_t = f - 1 - l
                z[r] /= L[r * f + r]
                out[index[0, r], i] = z[r]
                for s in range(r):
                    z[s] -= L[r * f + s] * z[r]


def compact(Q: cython.double[:, :, ::1], kept: cython.Py_ssize_t[::1]):
    """The rows and columns `kept` (rising) of every matrix of Q become its first ones."""
    k: cython.Py_ssize_t = kept.shape[0]
    first: cython.Py_ssize_t = 0
    with cython.nogil:
        while first < k and kept[first] == first:
            first += 1
        for g in range(Q.shape[0]):
            for a in range(k):
                for b in range(first if a < first else 0, k):
                    Q[g, a, b] = Q[g, kept[a], kept[b]]


def extend(
    Q: cython.const[cython.double][:, :, :],
    rows: cython.Py_ssize_t[::1],
    first: cython.Py_ssize_t,
    out: cython.double[:, :, ::1],
):
    """out[g] at (a, b) <- Q[g] at (rows[a], rows[b]), which are symmetric; what is before `first` is there already. The
    indices are trusted."""
    k: cython.Py_ssize_t = rows.shape[0]
    with cython.nogil:
        for g in range(Q.shape[0]):
            for a in range(first, k):
                for b in range(a + 1):
                    out[g, a, b] = Q[g, rows[a], rows[b]]
            for b in range(k):
                for a in range(first if b < first else b + 1, k):
                    out[g, b, a] = out[g, a, b]


def add_between(block: cython.const[cython.double][:, :], rows: cython.Py_ssize_t[::1], out: cython.double[:, ::1]):
    """out at (rows[a], rows[b]) += block at (a, b); the indices are trusted."""
    k: cython.Py_ssize_t = rows.shape[0]
    with cython.nogil:
        for a in range(k):
            for b in range(k):
                out[rows[a], rows[b]] += block[a, b]


def subtract(
    Q: cython.const[cython.double][:, ::1],
    rows: cython.Py_ssize_t[::1],
    weights: cython.double[::1],
    out: cython.double[::1],
):
    """out -= sum_a weights[a] Q[rows[a]]; the indices are trusted."""
    d: cython.Py_ssize_t = out.shape[0]
    with cython.nogil:
        for a in range(rows.shape[0]):
            if weights[a] != 0.0:
                if cython.compiled:
                    vec_axpy(d, -weights[a], cython.address(Q[rows[a], 0]), cython.address(out[0]))
                else:
                    for l in range(d):
                        out[l] -= weights[a] * Q[rows[a], l]


def excess(
    norm: cython.int,
    a: cython.double[::1],
    b: cython.double[::1],
    F: cython.double[:, ::1],
    G: cython.double[:, ::1],
    out: cython.double[::1],
):
    """out (d,) <- how many times too large each row of the gradient G (m, d) is for the row to stay 0 (1: at the bound).

    Entries with f = 0 do not count; those with no curvature must have a gradient of 0.
    """
    d: cython.Py_ssize_t = F.shape[0]
    m: cython.Py_ssize_t = F.shape[1]
    with cython.nogil:
        for j in range(d):
            total: cython.double = 0.0
            top: cython.double = 0.0
            for i in range(m):
                if F[j, i] > 0.0:
                    size: cython.double = fabs(G[i, j]) / F[j, i]
                    if norm == 0:
                        total += size * size
                    else:
                        total += size
                        if size > top:
                            top = size
            if norm == 0:
                out[j] = sqrt(total) / a[j] if a[j] > 0.0 else 0.0
            else:
                out[j] = total / b[j]
                if top / a[j] > out[j]:
                    out[j] = top / a[j]
