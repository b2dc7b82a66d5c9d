# C declarations for nearest.py; the algorithm itself is plain Python there and also runs uncompiled.
from libc.math cimport fabs, sqrt
from msmtfl._kernels.support cimport Support
from msmtfl._kernels.vectors cimport entry_sign, excess

cdef int nearest(Support state, double[:, ::1] aim, double[:, ::1] unit, Py_ssize_t i) noexcept nogil
