# C declarations for row_sweep.py; the algorithm itself is plain Python there and also runs uncompiled.
from libc.math cimport fabs, sqrt

cdef extern from "vector.h" nogil:
    void vec_axpy(Py_ssize_t n, double a, const double *x, double *y)
