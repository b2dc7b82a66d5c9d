# cython: boundscheck=False, wraparound=False, initializedcheck=False
# C declarations for arrow_factor.py; the algorithm itself is plain Python there and also runs uncompiled.
from libc.math cimport fabs, sqrt
from msmtfl._kernels.descent cimport Descent
from msmtfl._kernels.support cimport msmtfl_widest, vec_backward, vec_forward
from msmtfl._kernels.vectors cimport SHORT, axpy, dot, move, rotate, subtract_block, subtract_rows


cdef class ArrowFactor(Descent):
    cdef Py_ssize_t m
    cdef Py_ssize_t width  # features of a task
    cdef double[::1] total  # sum of the tasks' Gram matrices
    # supports of the tasks: how many columns, which, where in it a slot is (that of the common part, too), how many may be
    cdef Py_ssize_t room  # columns that a task has room for
    cdef int[::1] orders
    cdef int[::1] sizes
    cdef int[::1] columns
    cdef int[::1] place
    cdef double[::1] Y  # U^-T Q_AB of every task: rows by place, `width` apart
    # the common part: how many columns, which, the factor of its Schur complement C
    cdef Py_ssize_t common
    cdef int[::1] shared
    cdef double[::1] R
    cdef bint stale  # R is not that factor any more
    cdef bint broken  # C has lost its digits
    cdef double worn  # changes since R was made, those that cost digits counted more
    # room
    cdef double[::1] v
    cdef double[::1] u
    cdef double[::1] y
    cdef double[::1] q
    cdef double[::1] h
    cdef double[::1] turn
    cdef double[::1] back
    cdef int[::1] rows

    cdef void _forward(self, double[::1] x) noexcept nogil
    cdef void _backward(self, double[::1] x) noexcept nogil
    cdef double _square(self, Py_ssize_t j) noexcept nogil
    cdef double _project(self, Py_ssize_t j) noexcept nogil
    cdef bint _add(self, Py_ssize_t j, double sign) noexcept nogil
    cdef Py_ssize_t _add_batch(self, Py_ssize_t n) noexcept nogil
    cdef void _drop_marked(self) noexcept nogil
    cdef double _curvature(self, double[::1] x) noexcept nogil
    cdef bint _weak(self, double level) noexcept nogil
    cdef void _gradient(self) noexcept nogil

    cdef double _own_column(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil
    cdef double _beyond_common(self, Py_ssize_t i, Py_ssize_t j, double rest) noexcept nogil
    cdef bint _add_own(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil
    cdef double _common_column(self, Py_ssize_t j) noexcept nogil
    cdef bint _add_common(self, Py_ssize_t j) noexcept nogil
    cdef void _drop_own(self, Py_ssize_t i, Py_ssize_t j) noexcept nogil
    cdef void _drop_common(self, Py_ssize_t j) noexcept nogil
    cdef void _shrink(self, double[::1] U, Py_ssize_t low, Py_ssize_t ld, Py_ssize_t k, Py_ssize_t p,
                      Py_ssize_t below) noexcept nogil
    cdef void _raise(self) noexcept nogil
    cdef void _lower(self, double left) noexcept nogil
    cdef void _factor(self) noexcept nogil
