# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# Small operations on flat arrays, compiled into every kernel that uses them; vectors.py has them for uncompiled kernels.
from libc.math cimport fabs
from libc.string cimport memmove

cdef extern from "vector.h" nogil:
    void vec_axpy(Py_ssize_t n, double a, const double *x, double *y)
    void vec_axpy4(Py_ssize_t n, double a0, double a1, double a2, double a3, const double *x0, const double *x1,
                   const double *x2, const double *x3, double *y)
    void vec_rotate(Py_ssize_t n, double c, double s, double *x, double *y)
    double vec_dot(Py_ssize_t n, const double *x, const double *y)
    bint vec_any_beyond(Py_ssize_t n, const double *g, double share, const double *a, double level, const double *root,
                        const int *place)

cdef enum:
    SHORT = 8  # below this length a plain loop beats a call


cdef inline void axpy(Py_ssize_t n, double alpha, double[::1] x, Py_ssize_t i, double[::1] y, Py_ssize_t j) noexcept nogil:
    cdef Py_ssize_t t
    if n < SHORT:
        for t in range(n):
            y[j + t] += alpha * x[i + t]
    else:
        vec_axpy(n, alpha, &x[i], &y[j])


cdef inline void move(double[::1] x, Py_ssize_t i, Py_ssize_t j, Py_ssize_t n) noexcept nogil:
    if n > 0:
        memmove(&x[j], &x[i], n * sizeof(double))


cdef inline void rotate(Py_ssize_t n, double c, double s, double[::1] x, Py_ssize_t i, double[::1] y,
                        Py_ssize_t j) noexcept nogil:
    if n > 0:
        vec_rotate(n, c, s, &x[i], &y[j])


cdef inline double dot(Py_ssize_t n, double[::1] x, Py_ssize_t i, double[::1] y, Py_ssize_t j) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t t
    if n >= SHORT:
        return vec_dot(n, &x[i], &y[j])
    for t in range(n):
        total += x[i + t] * y[j + t]
    return total


cdef inline void subtract_rows(Py_ssize_t n, Py_ssize_t count, double[::1] weight, int[::1] row, double[::1] Q,
                               Py_ssize_t width, Py_ssize_t low, double[::1] g) noexcept nogil:
    cdef Py_ssize_t t = 0
    while t + 4 <= count:
        vec_axpy4(n, -weight[t], -weight[t + 1], -weight[t + 2], -weight[t + 3], &Q[row[t] * width + low],
                  &Q[row[t + 1] * width + low], &Q[row[t + 2] * width + low], &Q[row[t + 3] * width + low], &g[low])
        t += 4
    while t < count:
        axpy(n, -weight[t], Q, row[t] * width + low, g, low)
        t += 1


cdef inline void subtract_block(Py_ssize_t n, Py_ssize_t count, double[::1] weight, double[::1] Q, Py_ssize_t low,
                                Py_ssize_t ld, double[::1] g, Py_ssize_t i) noexcept nogil:
    cdef Py_ssize_t t = 0
    if n <= 0:
        return
    while t + 4 <= count:
        vec_axpy4(n, -weight[t], -weight[t + 1], -weight[t + 2], -weight[t + 3], &Q[low + t * ld], &Q[low + (t + 1) * ld],
                  &Q[low + (t + 2) * ld], &Q[low + (t + 3) * ld], &g[i])
        t += 4
    while t < count:
        axpy(n, -weight[t], Q, low + t * ld, g, i)
        t += 1


cdef inline bint any_beyond(Py_ssize_t n, double[::1] g, double share, double[::1] a, double level, double[::1] root,
                            int[::1] place) noexcept nogil:
    return n > 0 and vec_any_beyond(n, &g[0], share, &a[0], level, &root[0], &place[0])


cdef inline double largest_ratio(double[::1] c, double[::1] root, Py_ssize_t n) noexcept nogil:
    cdef double most = 0.0
    cdef Py_ssize_t j
    for j in range(n):
        if root[j] > 0.0:
            most = max(most, fabs(c[j]) / root[j])
    return most


cdef inline bint is_free(bint positive, double a) noexcept nogil:
    return a == 0.0 and not positive


cdef inline double entry_sign(bint positive, double g, double a) noexcept nogil:
    if is_free(positive, a):
        return 0.0
    return 1.0 if positive or g > 0.0 else -1.0


cdef inline double excess(bint positive, double g, double a) noexcept nogil:
    return (g if positive else fabs(g)) - a
