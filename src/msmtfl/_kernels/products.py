# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, infer_types=True, freethreading_compatible=True
"""Products of a task's X in one pass over it: sums over its samples, its Gram matrix, rows of that.

Where X lies in memory as the compiled loops want it they are used, else NumPy. This file is plain Python:
`cython` types make it C.
"""

import cython
import numpy as np


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


def use_registers(width: cython.int) -> cython.int:
    """The width of registers that the loops of this module may use; returns what was allowed before"""
    before: cython.int = 8
    if cython.compiled:
        global msmtfl_widest
        before = msmtfl_widest
        msmtfl_widest = width
    return before
