# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, infer_types=True, freethreading_compatible=True
"""Products of a task's X in one pass over it: sums over its samples, its Gram matrix, rows of that. And parts of the tasks'
Gram matrices between some rows, with the systems that these make.

Where X lies in memory as the compiled loops want it they are used, else NumPy. This file is plain Python:
`cython` types make it C.
"""

import cython
import numpy as np

if not cython.compiled:
    from math import sqrt


def column_moments(
    X: cython.const[cython.double][:, :],
    u: cython.double[::1],
    y: cython.double[::1],
    sums: cython.double[::1],
    c: cython.double[::1],
    squares: cython.double[::1],
):
    """sums = X'u, c = X'y and squares = the columns' sums of squares, in one pass over X (C- or Fortran-ordered)"""
    rows = X.shape[0]
    d = X.shape[1]
    i: cython.Py_ssize_t
    if cython.compiled and rows > 0 and d > 0:
        along: cython.Py_ssize_t = _apart(X.strides[1])
        if _apart(X.strides[0]) == 1 and (along or d == 1):
            with cython.nogil:
                vec_columns(
                    rows,
                    d,
                    cython.address(X[0, 0]),
                    along,
                    cython.address(u[0]),
                    cython.address(y[0]),
                    cython.address(sums[0]),
                    cython.address(c[0]),
                    cython.address(squares[0]),
                )
            return
        if X.strides[1] == cython.sizeof(cython.double):
            sums[:] = 0.0
            c[:] = 0.0
            squares[:] = 0.0
            with cython.nogil:
                for i in range(rows):
                    vec_moments(
                        d,
                        u[i],
                        y[i],
                        cython.address(X[i, 0]),
                        cython.address(sums[0]),
                        cython.address(c[0]),
                        cython.address(squares[0]),
                    )
            return
    array = np.asarray(X)
    np.asarray(sums)[:] = np.asarray(u) @ array
    np.asarray(c)[:] = np.asarray(y) @ array
    np.asarray(squares)[:] = np.einsum("ij,ij->j", array, array)


@cython.cfunc
def _apart(stride: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """A stride counted in numbers; 0 if it is not a whole number of them"""
    size: cython.Py_ssize_t = cython.sizeof(cython.double) if cython.compiled else 8
    return stride // size if stride % size == 0 else 0


def gram(
    X: cython.const[cython.double][:, :],
    out: cython.double[:, ::1],
    low: cython.Py_ssize_t = 0,
    high: cython.Py_ssize_t = -1,
):
    """out (d, d) = X'X for an X of any order: rows and columns from low to `high` (d if it is negative), as far as they
    have not been made with lower ones"""
    rows = X.shape[0]
    d = X.shape[1]
    if high < 0:
        high = d
    if not 0 <= low <= high <= d or out.shape[0] != d:
        raise ValueError(f"no part of a Gram matrix of order {d}: {low} to {high} of {out.shape[0]}.")
    if cython.compiled and rows > 0 and low < high:
        down: cython.Py_ssize_t = _apart(X.strides[0])
        along: cython.Py_ssize_t = _apart(X.strides[1])
        by_columns: cython.bint = down == 1 and along >= rows
        if by_columns or (along == 1 and down >= d):
            with cython.nogil:
                cross_products(
                    by_columns,
                    rows,
                    d,
                    cython.address(X[0, 0]),
                    along if by_columns else down,
                    low,
                    high,
                    cython.address(out[0, 0]),
                )
                vec_mirror(d, low, high, cython.address(out[0, 0]))
            return
    array, G = np.asarray(X), np.asarray(out)
    G[:low, low:high] = array[:, :low].T @ array[:, low:high]
    G[low:high, :low] = G[:low, low:high].T
    lower = np.tril(array[:, low:high].T @ array[:, low:high])  # mirrored: not every product with itself is symmetric
    G[low:high, low:high] = lower + np.tril(lower, -1).T


def few_products(
    V: cython.double[:, ::1], X: cython.const[cython.double][:, :], out: cython.double[:, :], most: cython.Py_ssize_t
):
    """out = VX for few vectors V (count, rows), at most `most`, in one pass over a Fortran-ordered X; else by BLAS"""
    count = V.shape[0]
    rows = V.shape[1]
    if cython.compiled and 0 < count <= most and rows > 0 and X.shape[1] > 0:
        along: cython.Py_ssize_t = _apart(X.strides[1])
        of_out: cython.Py_ssize_t = _apart(out.strides[0])
        if _apart(X.strides[0]) == 1 and along and _apart(out.strides[1]) == 1:
            with cython.nogil:
                vec_products(
                    rows,
                    count,
                    cython.address(V[0, 0]),
                    X.shape[1],
                    cython.address(X[0, 0]),
                    along,
                    cython.address(out[0, 0]),
                    of_out,
                )
            return
    np.matmul(V, X, out=np.asarray(out))


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


def use_registers(width: cython.int) -> cython.int:
    """The width of registers that the loops of this module may use; returns what was allowed before"""
    before: cython.int = 8
    if cython.compiled:
        global msmtfl_widest
        before = msmtfl_widest
        msmtfl_widest = width
    return before
