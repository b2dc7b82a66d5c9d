# C declarations for descent.py; the algorithm itself is plain Python there and also runs uncompiled.
from libc.math cimport fabs
from msmtfl._kernels.support cimport Support
from msmtfl._kernels.vectors cimport any_beyond, dot, entry_sign, excess, is_free, subtract_rows


cdef class Descent(Support):
    cdef bint aside
    cdef Py_ssize_t last  # the feature tried last
    cdef Py_ssize_t rounds
    cdef Py_ssize_t limit
    cdef bint restart
    cdef bint some_free  # some weights are 0

    cdef Py_ssize_t _adopt(self) noexcept nogil
    cdef Py_ssize_t _foresee(self) noexcept nogil
    cdef Py_ssize_t _minimise(self) noexcept nogil
    cdef void _block_step(self) noexcept nogil
    cdef void _line_step(self) noexcept nogil
    cdef void _gradient(self) noexcept nogil
    cdef void _refine(self) noexcept nogil
    cdef Py_ssize_t _violators(self) noexcept nogil
    cdef Py_ssize_t _pick(self, Py_ssize_t n) noexcept nogil
    cdef bint _enter(self, Py_ssize_t n, bint single) noexcept nogil
    cdef void _set_aside(self) noexcept nogil
    cdef void _recall(self) noexcept nogil
    cdef bint _exchange(self, Py_ssize_t j) noexcept nogil
    cdef bint _settle(self, bint single) noexcept nogil
    cdef bint _signs_broken(self) noexcept nogil
    cdef bint _descend(self, bint careful) noexcept nogil
    cdef int _verdict(self) noexcept nogil
    cdef int _solve(self) noexcept nogil
