/* The few long loops of the kernel, in a form that compilers turn into SIMD code. On x86-64 Linux each is compiled for
   several instruction sets and the loader picks one, so that a wheel assumes nothing about the machine it was built on. */
#ifndef MSMTFL_VECTOR_H
#define MSMTFL_VECTOR_H

#include <stddef.h>

#if defined(__x86_64__) && defined(__GLIBC__) && ((defined(__GNUC__) && !defined(__clang__)) || __clang_major__ >= 16)
#define MSMTFL_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MSMTFL_CLONES
#endif

#if defined(_MSC_VER)
#define restrict __restrict
#endif

/* y += a x */
MSMTFL_CLONES static void vec_axpy(ptrdiff_t n, double a, const double *restrict x, double *restrict y)
{
    for (ptrdiff_t i = 0; i < n; i++) y[i] += a * x[i];
}

/* y += a0 x0 + a1 x1 + a2 x2 + a3 x3: y is read and written once for four rows */
MSMTFL_CLONES static void vec_axpy4(ptrdiff_t n, double a0, double a1, double a2, double a3, const double *restrict x0,
                                    const double *restrict x1, const double *restrict x2, const double *restrict x3,
                                    double *restrict y)
{
    for (ptrdiff_t i = 0; i < n; i++) y[i] += (a0 * x0[i] + a1 * x1[i]) + (a2 * x2[i] + a3 * x3[i]);
}

/* x'y, in 16 partial sums (the order of the additions does not depend on the instruction set) */
MSMTFL_CLONES static double vec_dot(ptrdiff_t n, const double *restrict x, const double *restrict y)
{
    double part[16] = {0};
    double total = 0.0;
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++) part[l] += x[i + l] * y[i + l];
    for (; i < n; i++) total += x[i] * y[i];
    for (int l = 0; l < 16; l++) total += part[l];
    return total;
}

/* (x, y) <- (c x + s y, c y - s x) */
MSMTFL_CLONES static void vec_rotate(ptrdiff_t n, double *restrict x, double *restrict y, double c, double s)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double old = x[i];
        x[i] = c * old + s * y[i];
        y[i] = c * y[i] - s * old;
    }
}

/* whether |g| > share a + level root in an entry with place < 0 */
MSMTFL_CLONES static int vec_any_beyond(ptrdiff_t n, const double *restrict g, double share, const double *restrict a,
                                        double level, const double *restrict root, const int *restrict place)
{
    int found = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        double size = g[i] < 0.0 ? -g[i] : g[i];
        found |= (size > share * a[i] + level * root[i]) & (place[i] < 0);
    }
    return found;
}

/* sums += u x and squares += x^2, entry by entry */
MSMTFL_CLONES static void vec_moments(ptrdiff_t n, double u, const double *restrict x, double *restrict sums,
                                      double *restrict squares)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        sums[i] += u * x[i];
        squares[i] += x[i] * x[i];
    }
}

#endif
