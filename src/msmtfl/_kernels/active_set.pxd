# C declarations for active_set.py; the algorithm itself is plain Python there and also runs uncompiled.
cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, fabs, sqrt
from libc.string cimport memmove
from scipy.linalg.cython_blas cimport dgemm, dsyrk

cdef extern from "vector.h" nogil:
    int msmtfl_widest
    void vec_axpy(Py_ssize_t n, double a, const double *x, double *y)
    void vec_axpy4(Py_ssize_t n, double a0, double a1, double a2, double a3, const double *x0, const double *x1,
                   const double *x2, const double *x3, double *y)
    double vec_dot(Py_ssize_t n, const double *x, const double *y)
    void vec_forward(Py_ssize_t n, const double *U, Py_ssize_t ld, double *x)
    void vec_forward_lanes(Py_ssize_t n, const double *U, Py_ssize_t ld, double *X, double *S)
    void vec_backward(Py_ssize_t n, const double *U, Py_ssize_t ld, double *x)
    void vec_reflect(Py_ssize_t n, Py_ssize_t count, double *y, double *X, Py_ssize_t ld)
    bint vec_any_beyond(Py_ssize_t n, const double *g, double share, const double *a, double level, const double *root,
                        const int *place)
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


@cython.final
cdef class ActiveSet:
    cdef Py_ssize_t K  # slots known
    cdef Py_ssize_t k  # support size
    cdef Py_ssize_t ldq
    cdef Py_ssize_t ld
    cdef Py_ssize_t order
    cdef Py_ssize_t ties  # as many features at their bound as there is room for
    cdef bint positive
    cdef double scale
    cdef double atol
    cdef bint aside
    cdef Py_ssize_t last  # the feature tried last
    cdef Py_ssize_t rounds
    cdef Py_ssize_t limit
    cdef bint restart
    cdef bint slid  # the last projection moved the minimiser
    cdef bint some_free  # some weights are 0
    cdef Py_ssize_t entries  # of the answer, in z
    cdef Py_ssize_t fresh  # positions from here on were added in this round
    cdef Py_ssize_t k_saved
    cdef bint lazy  # Gram rows on demand: the arrays by feature below are in use
    cdef Py_ssize_t d
    cdef double[::1] rows
    cdef double[::1] all_c
    cdef double[::1] all_root
    cdef double[::1] all_g
    cdef double[::1] all_a
    cdef int[::1] slot
    cdef int[::1] feature
    cdef double[::1] N  # null directions, by tie and position
    cdef double[::1] H
    cdef int[::1] tie
    cdef double[::1] Q
    cdef double[::1] c
    cdef double[::1] root
    cdef double[::1] a
    cdef double[::1] g
    cdef double[::1] s
    cdef double[::1] U
    cdef double[::1] w
    cdef double[::1] z
    cdef double[::1] b
    cdef double[::1] x
    cdef double[::1] w_saved
    cdef double[::1] s_saved
    cdef double[::1] value
    cdef double[::1] X  # LANES columns on their way into the factor, by position
    cdef double[::1] S  # and their products
    cdef int[::1] batch  # their slots; positions, where rows leave it
    cdef int[::1] runs  # of positions that stay
    cdef int[::1] act
    cdef int[::1] pos
    cdef int[::1] act_saved
    cdef int[::1] mark
    cdef int[::1] wait
    cdef int[::1] flag

    cdef void _forward(self, double[::1] x) noexcept nogil
    cdef void _backward(self, double[::1] x) noexcept nogil
    cdef double _project(self, Py_ssize_t j) noexcept nogil
    cdef bint _add(self, Py_ssize_t j, double sign) noexcept nogil
    cdef Py_ssize_t _add_batch(self, Py_ssize_t n) noexcept nogil
    cdef void _forward_lanes(self) noexcept nogil
    cdef void _drop_marked(self) noexcept nogil
    cdef Py_ssize_t _find_runs(self) noexcept nogil
    cdef void _absorb(self, Py_ssize_t low, Py_ssize_t n) noexcept nogil
    cdef void _save(self) noexcept nogil
    cdef bint _restore(self) noexcept nogil
    cdef bint _free(self, Py_ssize_t j) noexcept nogil
    cdef double _sign(self, Py_ssize_t j) noexcept nogil
    cdef double _excess(self, Py_ssize_t j) noexcept nogil
    cdef void _adopt(self) noexcept nogil
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
    cdef void _limit(self, Py_ssize_t max_rounds) noexcept nogil
    cdef bint _load(self, double[:, ::1] A, Py_ssize_t i, double lam) noexcept nogil
    cdef int _outside(self) noexcept nogil
    cdef Py_ssize_t _ties(self) noexcept nogil
    cdef bint _eliminate(self, Py_ssize_t n) noexcept nogil
    cdef bint _nearest(self, double[:, ::1] aim, double[:, ::1] unit, Py_ssize_t i) noexcept nogil
    cdef int _run(self, double[:, ::1] A, Py_ssize_t i, double lam, double[:, ::1] aim, double[:, ::1] unit,
                  Py_ssize_t max_rounds) noexcept nogil
    cdef Py_ssize_t _work(self) noexcept nogil
    cdef void _answer(self) noexcept nogil
    cdef void _write(self, double[:, ::1] W, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t _feature(self, Py_ssize_t p) noexcept nogil


cdef inline Py_ssize_t solve_at(Py_ssize_t where, double[:, ::1] A, Py_ssize_t i, double[:, ::1] aim, double[:, ::1] unit,
                                double[:, ::1] W, int[::1] status, int[::1] rounds, Py_ssize_t max_rounds) noexcept nogil:
    """Solve task i by the state at an address; coefficients go to W, status and rounds beside them; returns the work it was"""
    status[i] = (<ActiveSet><void *>where)._run(A, i, 1.0, aim, unit, max_rounds)
    rounds[i] = (<ActiveSet><void *>where).rounds
    (<ActiveSet><void *>where)._write(W, i)
    return (<ActiveSet><void *>where)._work()


cpdef object solve_all(list states, double[:, ::1] A, double[:, ::1] aim, double[:, ::1] unit, double[:, ::1] W,
                       int[::1] status, int[::1] rounds, Py_ssize_t max_rounds=*)
