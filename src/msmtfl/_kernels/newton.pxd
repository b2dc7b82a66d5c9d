# cython: boundscheck=False, wraparound=False, initializedcheck=False
# C declarations for newton.py; the algorithm itself is plain Python there and also runs uncompiled.
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport fabs, sqrt
from msmtfl._kernels.active_set cimport ActiveSet
from msmtfl._kernels.vectors cimport axpy, dot
from scipy.linalg.cython_blas cimport dsyrk

cdef extern from "losses.h" nogil:
    void vec_logistic(Py_ssize_t n, const double *y, const double *v, const double *f, double *u, double *bend)
    void vec_poisson(Py_ssize_t n, const double *y, const double *v, const double *f, double *u, double *bend)
    void vec_gamma(Py_ssize_t n, const double *y, const double *v, const double *f, double *u, double *bend)
    void vec_tweedie(Py_ssize_t n, double power, const double *y, const double *v, const double *f, double *u,
                     double *bend)
    void vec_huber(Py_ssize_t n, double epsilon, double caution, const double *y, const double *v, const double *f,
                   double *u, double *bend)
    void vec_times(Py_ssize_t n, const double *b, const double *x, double *z)
    double vec_sum(Py_ssize_t n, const double *x)
    double vec_apart(Py_ssize_t n, const double *x, const double *y, const double *v)
    double vec_changed(Py_ssize_t n, const double *x, const double *y)
    double vec_lift(Py_ssize_t n, double share, const double *x, const double *v, double *y, double *root)
    double loss_logistic(Py_ssize_t n, const double *y, const double *v, const double *f)
    double loss_poisson(Py_ssize_t n, const double *y, const double *v, const double *f)
    double loss_gamma(Py_ssize_t n, const double *y, const double *v, const double *f)
    double loss_tweedie(Py_ssize_t n, double power, const double *y, const double *v, const double *f)
    double loss_huber(Py_ssize_t n, double epsilon, const double *y, const double *v, const double *f)


cdef inline void gram_of(int k, int n, double[::1] X, int ldx, double[::1] G, int ldg) noexcept nogil:
    """G (k, k; rows ldg apart) = XX' for X (k, n; rows ldx apart)"""
    cdef double one = 1.0, zero = 0.0
    cdef Py_ssize_t s, t
    dsyrk(<char *>"L", <char *>"T", &k, &n, &one, &X[0], &ldx, &zero, &G[0], &ldg)
    for s in range(k):
        for t in range(s):
            G[s * ldg + t] = G[t * ldg + s]


cdef inline void times(Py_ssize_t n, double[::1] b, double[::1] x, Py_ssize_t i, double[::1] z, Py_ssize_t j) noexcept nogil:
    """z[j:j+n] = b x[i:i+n]"""
    vec_times(n, &b[0], &x[i], &z[j])


cdef inline double sum_of(Py_ssize_t n, double[::1] x) noexcept nogil:
    return vec_sum(n, &x[0])


cdef inline double apart(Py_ssize_t n, double[::1] x, double[::1] y, double[::1] v) noexcept nogil:
    """The sum of (x - y)^2 / v"""
    return vec_apart(n, &x[0], &y[0], &v[0])


cdef inline double changed(Py_ssize_t n, double[::1] x, double[::1] y) noexcept nogil:
    """The largest |x - y| / y, y > 0"""
    return vec_changed(n, &x[0], &y[0])


cdef inline double lift(Py_ssize_t n, double share, double[::1] x, double[::1] v, double[::1] y,
                        double[::1] root) noexcept nogil:
    """y = max(x, share v times the largest x / v), and its roots; returns the sum of y"""
    return vec_lift(n, share, &x[0], &v[0], &y[0], &root[0])


cdef inline void slopes(int kind, double epsilon, double caution, Py_ssize_t n, double[::1] y, double[::1] v, double[::1] f,
                        double[::1] u, double[::1] bend) noexcept nogil:
    """u = -v h'(y, f), bend = v h''(y, f); where Huber's loss has no curvature, a share of that of its majorant"""
    if kind == 0:
        vec_logistic(n, &y[0], &v[0], &f[0], &u[0], &bend[0])
    elif kind == 1:
        vec_poisson(n, &y[0], &v[0], &f[0], &u[0], &bend[0])
    elif kind == 3:
        vec_gamma(n, &y[0], &v[0], &f[0], &u[0], &bend[0])
    elif kind == 4:
        vec_tweedie(n, epsilon, &y[0], &v[0], &f[0], &u[0], &bend[0])
    else:
        vec_huber(n, epsilon, caution, &y[0], &v[0], &f[0], &u[0], &bend[0])


cdef inline double value_of(int kind, double epsilon, Py_ssize_t n, double[::1] y, double[::1] v,
                            double[::1] f) noexcept nogil:
    """sum_r v_r h(y_r, f_r), but for what does not depend on f"""
    if kind == 0:
        return loss_logistic(n, &y[0], &v[0], &f[0])
    if kind == 1:
        return loss_poisson(n, &y[0], &v[0], &f[0])
    if kind == 3:
        return loss_gamma(n, &y[0], &v[0], &f[0])
    if kind == 4:
        return loss_tweedie(n, epsilon, &y[0], &v[0], &f[0])
    return loss_huber(n, epsilon, &y[0], &v[0], &f[0])


@cython.final
cdef class Newton:
    # the problem; arrays by row and by feature
    cdef Py_ssize_t d
    cdef Py_ssize_t n  # rows
    cdef Py_ssize_t order
    cdef int kind
    cdef bint centre
    cdef bint positive
    cdef double epsilon  # Huber's; Tweedie's power
    cdef double unit
    cdef double of_level  # what the gradient of the intercept is measured in
    cdef double[::1] X  # columns, one after the other
    cdef double[::1] y
    cdef double[::1] v
    cdef double[::1] offset  # what is in every f beside features and intercept
    cdef double[::1] root
    cdef double[::1] a
    cdef double[::1] ridge
    cdef bint ridged  # there is one
    cdef bint refactor  # it has changed
    # the point: coefficients, intercept, linear predictors, -v h' and v h'' there
    cdef double[::1] w
    cdef double level
    cdef double[::1] f
    cdef double[::1] u
    cdef double[::1] bend
    cdef double caution  # see `slopes`
    # the gradient X'u: known at the present point where the stamp is its version, known in all features at seen_u
    cdef double[::1] g
    cdef int[::1] stamp
    cdef int version
    cdef bint has_seen
    cdef double[::1] seen_u
    cdef double[::1] seen_g
    cdef double top  # the largest violation, over root, of a feature out of work
    # the features in work: k of them, and where a feature is among them (-1: it is not)
    cdef Py_ssize_t room
    cdef Py_ssize_t k
    cdef int[::1] work
    cdef int[::1] place
    # the parabola: curvature, Gram matrix (centred) and its linear part, products of columns with the intercept's
    cdef bint gram_known
    cdef double[::1] of_gram
    cdef double[::1] root_of  # square roots of that
    cdef double total
    cdef double[::1] G
    cdef double[::1] c
    cdef double[::1] roots
    cdef double[::1] cross
    cdef double[::1] Z
    cdef double[:, ::1] A
    cdef double[:, ::1] aim
    cdef double[:, ::1] units
    cdef ActiveSet quadratic
    # the step: where it begins and leads to
    cdef Py_ssize_t steps
    cdef double[::1] old_w
    cdef double old_level
    cdef double[::1] old_f
    cdef double[::1] old_u
    cdef double[::1] to
    cdef double to_level

    cdef void _predict(self, double[::1] f, double[::1] w, double level) noexcept nogil
    cdef void _slopes(self) noexcept nogil
    cdef double _objective(self, double[::1] f, double[::1] w) noexcept nogil
    cdef bint _usable(self, Py_ssize_t j) noexcept nogil
    cdef double _gradient(self, Py_ssize_t j) noexcept nogil
    cdef double _size(self, Py_ssize_t j) noexcept nogil
    cdef void _look(self) noexcept nogil
    cdef double _violation(self) noexcept nogil
    cdef Py_ssize_t _wanted(self) noexcept nogil
    cdef Py_ssize_t _take(self, Py_ssize_t wanted, bint anew) noexcept nogil
    cdef void _clear(self) noexcept nogil
    cdef double _least(self, Py_ssize_t wanted) noexcept nogil
    cdef bint _enters(self, Py_ssize_t j, double least) noexcept nogil
    cdef bint _make_gram(self) noexcept nogil
    cdef bint _extend(self, Py_ssize_t first) noexcept nogil
    cdef bint _centre(self, Py_ssize_t first) noexcept nogil
    cdef double _changed(self) noexcept nogil
    cdef bint _serves(self, double off, double share) noexcept nogil
    cdef bint _aim(self, Py_ssize_t i, double[:, ::1] aim, double[:, ::1] unit, bint again) noexcept nogil
    cdef int _quadratic(self, bint again) noexcept nogil
    cdef void _save(self) noexcept nogil
    cdef void _move(self, double t) noexcept nogil
    cdef bint _inside(self, double t) noexcept nogil
    cdef bint _step(self, double off) noexcept nogil
    cdef bint _begin(self, double[:, ::1] A, Py_ssize_t i) noexcept nogil
    cdef int _prepare(self, Py_ssize_t wanted, double off) noexcept nogil
    cdef int _run(self, double[:, ::1] A, Py_ssize_t i, double[:, ::1] aim, double[:, ::1] unit) noexcept nogil


cpdef object solve_all(list states, double[:, ::1] A, double[:, ::1] aim, double[:, ::1] unit, double[:, ::1] W,
                       double[::1] levels, int[::1] status, int[::1] steps)
