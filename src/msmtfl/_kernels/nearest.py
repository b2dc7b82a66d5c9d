# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, infer_types=True, freethreading_compatible=True
"""The projection on the minimisers of a weighted lasso, where there are many: the one nearest to a point.

A feature outside the support that is exactly at its bound and depends on the support (a *tie*) gives a null
direction: along it Xw and the penalty stay as they are until an entry reaches zero. With null directions N of
the q ties the minimisers are w + N't, s_p (w + N't)_p >= 0 for the penalised entries p, and the nearest of them
is least squares in the few dimensions of t, by a primal active-set method.

It works in arrays of the support: z holds the entries, those of the ties after the support's, b their signs (0:
unconstrained), x their units, s_saved the move that is tried, mark the entries that are held at zero, act_saved
their places. H is the small system of a face, its rows q + held + 1 long.

This file is plain Python: `cython` types make it C.
"""

import cython

from . import constants

if not cython.compiled:
    from math import fabs, sqrt

    from .support import Support
    from .vectors import entry_sign, excess

HUGE = cython.declare(cython.double, constants.HUGE)
WIDE = cython.declare(cython.double, 1e4)  # where column lengths differ by more, the projection is left to Python


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def nearest(
    state: Support,
    aim: cython.double[:, ::1],
    unit: cython.double[:, ::1],
    i: cython.Py_ssize_t,
) -> cython.int:
    """z, `entries` long, <- the minimiser with the least |unit[i] * (w - aim[i])|, from the minimiser w of the support.

    Returns whether it is another one than w; -1 if this is left to Python, z being of no use then.
    """
    q: cython.Py_ssize_t = _ties(state)
    size: cython.double
    if q <= 0:
        return q
    size = _begin(state, q, aim, unit, i)
    if size < 0.0 or not _slide(state, q, size, aim, i):
        return -1
    state.entries = state.k + q
    return _clean(state, size)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _ties(state: Support) -> cython.Py_ssize_t:
    """Null directions of the features at their bound, one row of N each; -1 where this is not clear-cut"""
    q: cython.Py_ssize_t = 0
    independent: cython.bint = False
    width: cython.Py_ssize_t = state.ld + state.ties
    if state._weak(1e-3):
        return -1
    for j in range(state.K):
        if state.pos[j] >= 0 or state.root[j] == 0.0 or state.a[j] > HUGE:
            continue
        if excess(state.positive, state.g[j], state.a[j]) > -1e-10 * state.a[j] - 100.0 * state.atol * state.root[j]:
            if q == state.ties or independent:
                return -1
            if state._project(j) > 1e-10 * state.root[j] * state.root[j]:
                independent = True  # alone it is no tie, but with others it may be part of one
                continue
            state._backward(state.x)
            for t in range(state.k):
                state.N[q * width + t] = -state.x[t]
            for t in range(state.ties):
                state.N[q * width + state.k + t] = 1.0 if t == q else 0.0
            state.tie[q] = j
            q += 1
    return -1 if independent and q else q


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _slot(state: Support, p: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The slot of entry p"""
    return state.act[p] if p < state.k else state.tie[p - state.k]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _begin(
    state: Support,
    q: cython.Py_ssize_t,
    aim: cython.double[:, ::1],
    unit: cython.double[:, ::1],
    i: cython.Py_ssize_t,
) -> cython.double:
    """Start at w, with null directions of length 1 in the metric (so that the small systems are well scaled); returns
    the size of the entries, -1 if the lengths of columns differ too much"""
    width: cython.Py_ssize_t = state.ld + state.ties
    n: cython.Py_ssize_t = state.k + q
    size: cython.double = 0.0
    large: cython.double = 0.0
    small: cython.double = HUGE
    f: cython.double
    for p in range(n):
        j = _slot(state, p)
        state.mark[p] = 0
        state.z[p] = state.w[p] if p < state.k else 0.0
        state.b[p] = state.s[j] if p < state.k else entry_sign(state.positive, state.g[j], state.a[j])
        state.x[p] = unit[i, j]
        f = unit[i, j] / state.root[j]
        small = min(small, f)
        large = max(large, f)
        size = max(size, state.x[p] * max(fabs(state.z[p]), fabs(aim[i, j])))
    if small * WIDE < large:
        return -1.0
    for t in range(q):
        f = 0.0
        for p in range(n):
            f += (state.x[p] * state.N[t * width + p]) ** 2
        f = 1.0 / sqrt(f)
        for p in range(n):
            state.N[t * width + p] *= f
    return size if size > 0.0 else 1.0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _slide(
    state: Support, q: cython.Py_ssize_t, size: cython.double, aim: cython.double[:, ::1], i: cython.Py_ssize_t
) -> cython.bint:
    """Go from face to face, to the one whose minimum is that of all; False if that is not found"""
    n: cython.Py_ssize_t = state.k + q
    held: cython.Py_ssize_t = 0
    block: cython.Py_ssize_t
    found: cython.bint = False
    for turn in range(20 * (n + 1)):
        _face(state, q, held, aim, i)
        if not _eliminate(state, q + held):
            break
        if _move(state, q, held) <= 1e-12 * size:
            block = _released(state, q, held, size)
            if block < 0:
                found = True
                break
            state.mark[block] = 0
            held -= 1
            continue
        block = _step(state, n)
        if block >= 0:
            if held == q:
                break
            state.z[block] = 0.0
            state.mark[block] = 1
            held += 1
    for p in range(n):
        state.mark[p] = 0
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _face(
    state: Support,
    q: cython.Py_ssize_t,
    held: cython.Py_ssize_t,
    aim: cython.double[:, ::1],
    i: cython.Py_ssize_t,
) -> cython.void:
    """H <- the KKT system, of order q + held, of the least squares in t with the held entries kept where they are"""
    width: cython.Py_ssize_t = state.ld + state.ties
    row: cython.Py_ssize_t = q + held + 1
    n: cython.Py_ssize_t = state.k + q
    r: cython.Py_ssize_t
    f: cython.double
    for p in range((q + held) * row):
        state.H[p] = 0.0
    for t in range(q):
        for r in range(q):
            f = 0.0
            for p in range(n):
                f += state.x[p] * state.x[p] * state.N[t * width + p] * state.N[r * width + p]
            state.H[t * row + r] = f
        f = 0.0
        for p in range(n):
            f += state.x[p] * state.x[p] * state.N[t * width + p] * (aim[i, _slot(state, p)] - state.z[p])
        state.H[t * row + q + held] = f
    r = q
    for p in range(n):
        if state.mark[p]:
            state.act_saved[r - q] = p
            for t in range(q):
                state.H[t * row + r] = -state.x[p] * state.N[t * width + p] * state.b[p]
                state.H[r * row + t] = state.x[p] * state.N[t * width + p] * state.b[p]
            r += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _eliminate(state: Support, n: cython.Py_ssize_t) -> cython.bint:
    """Solve the n x n system in H (rows of n + 1, right-hand side last) in place; False if singular"""
    width: cython.Py_ssize_t = n + 1
    r: cython.Py_ssize_t
    f: cython.double
    for p in range(n):
        r = p
        for i in range(p + 1, n):
            if fabs(state.H[i * width + p]) > fabs(state.H[r * width + p]):
                r = i
        if fabs(state.H[r * width + p]) < 1e-9:
            return False
        if r != p:
            for j in range(width):
                f = state.H[p * width + j]
                state.H[p * width + j] = state.H[r * width + j]
                state.H[r * width + j] = f
        for i in range(n):
            if i != p:
                f = state.H[i * width + p] / state.H[p * width + p]
                if f != 0.0:
                    for j in range(p, width):
                        state.H[i * width + j] -= f * state.H[p * width + j]
    for p in range(n):
        state.H[p * width + n] /= state.H[p * width + p]
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _move(state: Support, q: cython.Py_ssize_t, held: cython.Py_ssize_t) -> cython.double:
    """s_saved <- how the entries get to the minimum of the face; returns the largest move, in its unit"""
    width: cython.Py_ssize_t = state.ld + state.ties
    row: cython.Py_ssize_t = q + held + 1
    reach: cython.double = 0.0
    f: cython.double
    for p in range(state.k + q):
        f = 0.0
        for t in range(q):
            f += state.H[t * row + q + held] * state.N[t * width + p]
        state.s_saved[p] = 0.0 if state.mark[p] else f
        reach = max(reach, state.x[p] * fabs(state.s_saved[p]))
    return reach


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _released(state: Support, q: cython.Py_ssize_t, held: cython.Py_ssize_t, size: cython.double) -> cython.Py_ssize_t:
    """The entry to let go of at the minimum of a face: that with the most negative multiplier; -1 if there is none"""
    row: cython.Py_ssize_t = q + held + 1
    block: cython.Py_ssize_t = -1
    least: cython.double = -1e-10 * size
    for r in range(held):
        if state.H[(q + r) * row + q + held] < least:
            least = state.H[(q + r) * row + q + held]
            block = state.act_saved[r]
    return block


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _step(state: Support, n: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Make the move as far as signs allow; returns the entry that has reached zero, or -1"""
    step: cython.double = 1.0
    f: cython.double
    block: cython.Py_ssize_t = -1
    for p in range(n):
        if state.b[p] * state.s_saved[p] < 0.0 and not state.mark[p]:
            f = -state.z[p] / state.s_saved[p]
            if f < step:
                step = max(f, 0.0)
                block = p
    for p in range(n):
        state.z[p] += step * state.s_saved[p]
    return block


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _clean(state: Support, size: cython.double) -> cython.bint:
    """Entries that rounding has left beside zero become zero; returns whether the answer is another one than w"""
    moved: cython.bint = False
    for p in range(state.entries):
        if state.b[p] != 0.0 and state.b[p] * state.x[p] * state.z[p] <= 1e-13 * size:
            state.z[p] = 0.0
        if state.z[p] != (state.w[p] if p < state.k else 0.0):
            moved = True
    return moved
