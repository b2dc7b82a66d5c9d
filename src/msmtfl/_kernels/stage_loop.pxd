# C declarations for stage_loop.py; the algorithm itself is plain Python there and also runs uncompiled.
cimport cython
from libc.math cimport fabs, isinf
from libc.string cimport memcmp
from msmtfl._kernels.active_set cimport solve_all

cdef extern from "vector.h" nogil:
    Py_ssize_t vec_nonzeros(Py_ssize_t n, const double *x, Py_ssize_t *at)


@cython.final
cdef class StageLoop:
    cdef Py_ssize_t m
    cdef Py_ssize_t d
    cdef bint positive
    cdef double[:, ::1] A
    cdef double[:, ::1] aim
    cdef double[:, ::1] unit
    cdef double[:, ::1] W
    cdef int[::1] status
    cdef int[::1] rounds
    cdef double[::1] factors
    cdef unsigned char[::1] usable
    cdef Py_ssize_t[::1] always
    cdef Py_ssize_t[::1] orders
    cdef Py_ssize_t roomy
    # the stages known, by place: where the entries (flat positions and values), the norms of rows, the marks of each end
    cdef Py_ssize_t places
    cdef Py_ssize_t[::1] ends
    cdef Py_ssize_t[::1] at
    cdef double[::1] value
    cdef Py_ssize_t[::1] row_ends
    cdef Py_ssize_t[::1] row
    cdef double[::1] norm
    cdef Py_ssize_t[::1] mark_ends
    cdef Py_ssize_t[::1] mark
    cdef double[::1] share_of
    cdef Py_ssize_t[::1] before  # the stage that it was solved after, if that matters
    cdef int[::1] bits  # status of every task
    cdef int[::1] any_bits  # of all tasks together
    # the point in work: n stages so far, the marks of the next one
    cdef double theta
    cdef double theta_entry
    cdef double share
    cdef Py_ssize_t n
    cdef Py_ssize_t most
    cdef Py_ssize_t[::1] stages
    cdef Py_ssize_t n_wished
    cdef Py_ssize_t[::1] wished
    cdef int reason
    cdef bint waiting  # for tasks to be completed
    # weights that have been changed, and what they were
    cdef Py_ssize_t kept
    cdef Py_ssize_t[::1] kept_at
    cdef double[::1] kept_value
    # room: (d,), 0 between uses; (m,)
    cdef double[::1] by_row
    cdef Py_ssize_t[::1] free

    cdef void _append(self, Py_ssize_t place)
    cdef void _find_marks(self, Py_ssize_t place)
    cdef bint _same(self, Py_ssize_t place) noexcept
    cdef bint _ended(self, Py_ssize_t place) noexcept
    cdef bint _met(self) noexcept
    cdef bint _crowded(self) noexcept
    cdef bint _eases(self, Py_ssize_t entry) noexcept
    cdef bint _row_is_marked(self, Py_ssize_t j) noexcept
    cdef Py_ssize_t _known(self, Py_ssize_t before) noexcept
    cdef void _ease(self, Py_ssize_t before)
    cdef void _set(self, Py_ssize_t entry, double left) noexcept
    cdef bint _solve(self, list states, int go_on, Py_ssize_t max_rounds) except -1
    cdef Py_ssize_t _take(self, Py_ssize_t before) except -1
    cdef void _room(self)
    cdef void _keep(self, Py_ssize_t before)
