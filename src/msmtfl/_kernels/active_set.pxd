# cython: boundscheck=False, wraparound=False, initializedcheck=False
# C declarations for active_set.py; the algorithm itself is plain Python there and also runs uncompiled.
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY
from msmtfl._kernels.descent cimport Descent
from msmtfl._kernels.nearest cimport nearest
from msmtfl._kernels.vectors cimport any_beyond, excess, is_free, largest_ratio, subtract_rows


@cython.final
cdef class ActiveSet(Descent):
    cdef Py_ssize_t d
    cdef bint lazy  # Gram rows on demand: the arrays by feature below are in use
    cdef double[::1] rows
    cdef double[::1] all_c
    cdef double[::1] all_root
    cdef double[::1] all_g
    cdef double[::1] all_a
    cdef int[::1] slot
    cdef int[::1] feature

    cdef bint _load(self, double[:, ::1] A, Py_ssize_t i, double lam) noexcept nogil
    cdef int _outside(self) noexcept nogil
    cdef int _run(self, double[:, ::1] A, Py_ssize_t i, double lam, double[:, ::1] aim, double[:, ::1] unit,
                  Py_ssize_t max_rounds) noexcept nogil
    cdef Py_ssize_t _work(self) noexcept nogil
    cdef void _answer(self) noexcept nogil
    cdef void _write(self, double[:, ::1] W, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t _feature(self, Py_ssize_t p) noexcept nogil


cdef inline Py_ssize_t solve_at(Py_ssize_t where, double[:, ::1] A, Py_ssize_t i, double[:, ::1] aim, double[:, ::1] unit,
                                double[:, ::1] W, int[::1] status, int[::1] rounds, Py_ssize_t max_rounds) noexcept nogil:
    """Solve task i by the state at an address; coefficients go to W, status and rounds beside them; returns the work it was"""
    status[i] = (<ActiveSet><void *>where)._run(A, i, 1.0, aim, unit, max_rounds)
    rounds[i] = (<ActiveSet><void *>where).rounds
    (<ActiveSet><void *>where)._write(W, i)
    return (<ActiveSet><void *>where)._work()


cpdef object solve_all(list states, double[:, ::1] A, double[:, ::1] aim, double[:, ::1] unit, double[:, ::1] W,
                       int[::1] status, int[::1] rounds, Py_ssize_t max_rounds=*)
