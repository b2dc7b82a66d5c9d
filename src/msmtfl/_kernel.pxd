# C declarations for _kernel.py; the algorithm itself is plain Python there and also runs uncompiled.
from libc.math cimport fabs, sqrt
from libc.string cimport memmove
from scipy.linalg.cython_blas cimport daxpy, ddot, drot, dtrsv
