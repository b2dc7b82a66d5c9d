# C declarations for products.py; the algorithm itself is plain Python there and also runs uncompiled.
from libc.math cimport sqrt
from scipy.linalg.cython_blas cimport dgemm, dsyrk

cdef extern from "vector.h" nogil:
    int msmtfl_widest
    void vec_axpy(Py_ssize_t n, double a, const double *x, double *y)
    void vec_moments(Py_ssize_t n, double u, double y, const double *x, double *sums, double *c, double *squares)
    void vec_columns(Py_ssize_t n, Py_ssize_t d, const double *X, Py_ssize_t ld, const double *u, const double *y,
                     double *sums, double *c, double *squares)
    void vec_mirror(Py_ssize_t n, Py_ssize_t low, Py_ssize_t high, double *G)
    void vec_products(Py_ssize_t n, Py_ssize_t count, const double *V, Py_ssize_t d, const double *X, Py_ssize_t ld,
                      double *out, Py_ssize_t stride)

cdef inline void cross_products(bint by_columns, int n, int d, const double *X, int ld, int low, int high,
                                double *G) noexcept nogil:
    """The columns from low to high of the upper triangle of G (d, d) = X'X, by rows; those of X, or its rows, are `ld` apart"""
    cdef double one = 1.0, zero = 0.0
    cdef int width = high - low
    cdef double *some = <double *>X + <Py_ssize_t>low * (ld if by_columns else 1)
    cdef char *turned = <char *>"T" if by_columns else <char *>"N"
    cdef char *straight = <char *>"N" if by_columns else <char *>"T"
    dsyrk(<char *>"L", turned, &width, &n, &one, some, &ld, &zero, G + <Py_ssize_t>low * d + low, &d)
    if low > 0:
        dgemm(turned, straight, &width, &low, &n, &one, some, &ld, <double *>X, &ld, &zero, G + low, &d)
