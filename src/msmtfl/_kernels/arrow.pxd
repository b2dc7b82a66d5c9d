# cython: boundscheck=False, wraparound=False, initializedcheck=False
# C declarations for arrow.py; the algorithm itself is plain Python there and also runs uncompiled.
from msmtfl._kernels.arrow_factor cimport ArrowFactor
from msmtfl._kernels.nearest cimport nearest
from msmtfl._kernels.vectors cimport largest_ratio


cdef class Arrow(ArrowFactor):
    cdef int _run(self, double[:, ::1] aim, double[:, ::1] unit, Py_ssize_t max_rounds, bint project) noexcept nogil
    cdef void _answer(self) noexcept nogil
