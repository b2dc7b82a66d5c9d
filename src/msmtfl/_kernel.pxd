# C declarations for _kernel.py; the algorithm itself is plain Python there and also runs uncompiled.
from libc.math cimport fabs, sqrt
from libc.string cimport memmove
from scipy.linalg.cython_blas cimport dtrsv

cdef extern from "_vector.h" nogil:
    void vec_axpy(Py_ssize_t n, double a, const double *x, double *y)
    void vec_axpy4(Py_ssize_t n, double a0, double a1, double a2, double a3, const double *x0, const double *x1,
                   const double *x2, const double *x3, double *y)
    double vec_dot(Py_ssize_t n, const double *x, const double *y)
    void vec_rotate(Py_ssize_t n, double *x, double *y, double c, double s)
    void vec_moments(Py_ssize_t n, double u, const double *x, double *sums, double *squares)
