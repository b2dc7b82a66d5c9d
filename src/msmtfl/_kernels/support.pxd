# C declarations for support.py; the algorithm itself is plain Python there and also runs uncompiled.
from libc.math cimport fabs, sqrt
from msmtfl._kernels.vectors cimport SHORT, axpy, dot, entry_sign, largest_ratio, move

cdef extern from "vector.h" nogil:
    int msmtfl_widest
    void vec_forward(Py_ssize_t n, const double *U, Py_ssize_t ld, double *x)
    void vec_forward_lanes(Py_ssize_t n, const double *U, Py_ssize_t ld, double *X, double *S)
    void vec_backward(Py_ssize_t n, const double *U, Py_ssize_t ld, double *x)
    bint vec_factor(Py_ssize_t n, const int *at, const double *Q, Py_ssize_t ldq, const double *ridge, double level,
                    double pivot, double *U, Py_ssize_t ld, double *X)
    void vec_reflect(Py_ssize_t n, Py_ssize_t count, double *y, double *X, Py_ssize_t ld)


cdef class Support:
    # the problem; arrays by slot
    cdef bint positive
    cdef Py_ssize_t K  # slots known
    cdef Py_ssize_t order
    cdef Py_ssize_t ldq
    cdef double scale
    cdef double[::1] Q
    cdef double[::1] c
    cdef double[::1] root
    cdef double[::1] a
    cdef double[::1] ridge  # what is added to the diagonal of Q, over `level`; empty: nothing
    cdef double level
    cdef bint outdated  # the factor is that of another level
    # the support: signs by slot; slots, values and the factor by position
    cdef Py_ssize_t k  # its size
    cdef Py_ssize_t ld
    cdef double[::1] s
    cdef int[::1] pos
    cdef int[::1] act
    cdef double[::1] w
    cdef double[::1] U
    cdef int[::1] mark
    cdef Py_ssize_t fresh  # positions from here on were added in this round
    # the gradient by slot, and its rounding level
    cdef double[::1] g
    cdef double atol
    cdef double level_of_g
    cdef double[::1] g_before  # that of a higher level of the ridge
    cdef double level_before
    # the support to go back to
    cdef Py_ssize_t k_saved
    cdef double[::1] w_saved
    cdef double[::1] s_saved
    cdef int[::1] act_saved
    # the answer: entries in z, those of ties after the support's
    cdef Py_ssize_t entries
    cdef double[::1] z
    cdef Py_ssize_t ties  # as many features at their bound as there is room for
    cdef int[::1] tie
    cdef double[::1] N  # null directions, by tie and position
    cdef double[::1] H
    # room by position, by slot, and for columns that enter or leave together
    cdef double[::1] b
    cdef double[::1] x
    cdef double[::1] value
    cdef int[::1] wait
    cdef int[::1] flag
    cdef double[::1] X  # LANES columns on their way into the factor, by position
    cdef double[::1] S  # and their products
    cdef int[::1] batch  # their slots; positions, where rows leave it
    cdef int[::1] runs  # of positions that stay

    cdef void _forward(self, double[::1] x) noexcept nogil
    cdef void _backward(self, double[::1] x) noexcept nogil
    cdef void _solve_on_support(self, double[::1] x) noexcept nogil
    cdef double _square(self, Py_ssize_t j) noexcept nogil
    cdef double _project(self, Py_ssize_t j) noexcept nogil
    cdef bint _add(self, Py_ssize_t j, double sign) noexcept nogil
    cdef Py_ssize_t _add_batch(self, Py_ssize_t n) noexcept nogil
    cdef void _forward_lanes(self) noexcept nogil
    cdef void _drop_marked(self) noexcept nogil
    cdef Py_ssize_t _find_runs(self) noexcept nogil
    cdef void _absorb(self, Py_ssize_t low, Py_ssize_t n) noexcept nogil
    cdef void _add_ridge_to_gradient(self) noexcept nogil
    cdef bint _factor_anew(self) noexcept nogil
    cdef void _renew(self) noexcept nogil
    cdef void _set_level(self, double level) noexcept nogil
    cdef double _curvature(self, double[::1] x) noexcept nogil
    cdef bint _weak(self, double level) noexcept nogil
    cdef void _save(self) noexcept nogil
    cdef bint _restore(self) noexcept nogil
