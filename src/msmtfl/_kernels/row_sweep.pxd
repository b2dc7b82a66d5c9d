# C declarations for row_sweep.py; the algorithm itself is plain Python there and also runs uncompiled.
from libc.math cimport fabs, sqrt

cdef extern from "vector.h" nogil:
    void vec_axpy(Py_ssize_t n, double a, const double *x, double *y)
    double vec_clipped(Py_ssize_t n, double a, double t, const double *size, const double *bend, double *slope)
