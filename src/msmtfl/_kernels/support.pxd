# C declarations for support.py; the algorithm itself is plain Python there and also runs uncompiled.
cimport cython
from libc.math cimport fabs, sqrt
from libc.string cimport memmove
from msmtfl._kernels.vectors cimport SHORT, axpy, dot, entry_sign, largest_ratio

cdef extern from "vector.h" nogil:
    int msmtfl_widest
    void vec_forward(Py_ssize_t n, const double *U, Py_ssize_t ld, double *x)
    void vec_forward_lanes(Py_ssize_t n, const double *U, Py_ssize_t ld, double *X, double *S)
    void vec_backward(Py_ssize_t n, const double *U, Py_ssize_t ld, double *x)
    void vec_reflect(Py_ssize_t n, Py_ssize_t count, double *y, double *X, Py_ssize_t ld)


cdef class Support:
    cdef Py_ssize_t K  # slots known
    cdef Py_ssize_t k  # support size
    cdef Py_ssize_t ldq
    cdef Py_ssize_t ld
    cdef Py_ssize_t order
    cdef Py_ssize_t ties  # as many features at their bound as there is room for
    cdef bint positive
    cdef double scale
    cdef double atol
    cdef Py_ssize_t entries  # of the answer, in z
    cdef Py_ssize_t fresh  # positions from here on were added in this round
    cdef Py_ssize_t k_saved
    cdef double[::1] N  # null directions, by tie and position
    cdef double[::1] H
    cdef int[::1] tie
    cdef double[::1] Q
    cdef double[::1] c
    cdef double[::1] root
    cdef double[::1] a
    cdef double[::1] g
    cdef double[::1] s
    cdef double[::1] U
    cdef double[::1] w
    cdef double[::1] z
    cdef double[::1] b
    cdef double[::1] x
    cdef double[::1] w_saved
    cdef double[::1] s_saved
    cdef double[::1] value
    cdef double[::1] X  # LANES columns on their way into the factor, by position
    cdef double[::1] S  # and their products
    cdef int[::1] batch  # their slots; positions, where rows leave it
    cdef int[::1] runs  # of positions that stay
    cdef int[::1] act
    cdef int[::1] pos
    cdef int[::1] act_saved
    cdef int[::1] mark
    cdef int[::1] wait
    cdef int[::1] flag

    # final: what is in the same file calls them directly
    @cython.final
    cdef void _forward(self, double[::1] x) noexcept nogil
    @cython.final
    cdef void _backward(self, double[::1] x) noexcept nogil
    @cython.final
    cdef void _solve_on_support(self, double[::1] x) noexcept nogil
    @cython.final
    cdef double _project(self, Py_ssize_t j) noexcept nogil
    @cython.final
    cdef bint _add(self, Py_ssize_t j, double sign) noexcept nogil
    @cython.final
    cdef Py_ssize_t _add_batch(self, Py_ssize_t n) noexcept nogil
    @cython.final
    cdef void _forward_lanes(self) noexcept nogil
    @cython.final
    cdef void _drop_marked(self) noexcept nogil
    @cython.final
    cdef Py_ssize_t _find_runs(self) noexcept nogil
    @cython.final
    cdef void _absorb(self, Py_ssize_t low, Py_ssize_t n) noexcept nogil
    @cython.final
    cdef void _save(self) noexcept nogil
    @cython.final
    cdef bint _restore(self) noexcept nogil
