/* The few long loops of the kernel, in a form that compilers turn into SIMD code. On x86-64 each is compiled for several
   instruction sets, and the machine that runs it picks one (the plain ones here: the loader does, on Linux), so that a wheel
   assumes nothing about the machine it was built on. */
#ifndef MSMTFL_VECTOR_H
#define MSMTFL_VECTOR_H

#include <math.h>
#include <stddef.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && ((defined(__GNUC__) && !defined(__clang__)) || __clang_major__ >= 16)
#define MSMTFL_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MSMTFL_CLONES
#endif

/* where rounding need not be the same on every machine (whole Gram matrices come from BLAS, of which that is true as well) */
#if defined(__GNUC__) && !defined(__clang__)
#define MSMTFL_FUSED __attribute__((optimize("fp-contract=fast")))
#else
#define MSMTFL_FUSED
#endif

/* have the machine get what will be read soon, as far as the second cache: the first is full of what is being worked with */
#if defined(__GNUC__)
#define MSMTFL_PREFETCH(place) __builtin_prefetch(place, 0, 2)
#else
#define MSMTFL_PREFETCH(place) (void)(place)
#endif

/* a short loop of fixed length over what is to stay in registers */
#if defined(__clang__)
#define MSMTFL_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define MSMTFL_UNROLL _Pragma("GCC unroll 8")
#else
#define MSMTFL_UNROLL
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

/* turn the rows x and y into each other: x <- c x + s y, y <- c y - s x */
MSMTFL_CLONES static void vec_rotate(ptrdiff_t n, double c, double s, double *restrict x, double *restrict y)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double old = x[i];
        x[i] = c * old + s * y[i];
        y[i] = c * y[i] - s * old;
    }
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

/* x <- U^-T x, U upper triangular by rows (`ld` apart): four rows at a time */
MSMTFL_CLONES static void vec_forward(ptrdiff_t n, const double *restrict U, ptrdiff_t ld, double *restrict x)
{
    ptrdiff_t t = 0;
    for (; t + 4 <= n; t += 4) {
        const double *u = U + t * ld + t, *v = u + ld, *w = v + ld, *z = w + ld;
        double a = x[t] / u[0];
        double b = (x[t + 1] - a * u[1]) / v[1];
        double c = (x[t + 2] - a * u[2] - b * v[2]) / w[2];
        double e = (x[t + 3] - a * u[3] - b * v[3] - c * w[3]) / z[3];
        double *rest = x + t;
        x[t] = a, x[t + 1] = b, x[t + 2] = c, x[t + 3] = e;
        for (ptrdiff_t i = 4; i < n - t; i++) rest[i] -= (a * u[i] + b * v[i]) + (c * w[i] + e * z[i]);
    }
    for (; t < n; t++) {
        x[t] /= U[t * ld + t];
        for (ptrdiff_t i = t + 1; i < n; i++) x[i] -= x[t] * U[t * ld + i];
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

/* sums += u x, c += y x and squares += x^2, entry by entry */
MSMTFL_CLONES static void vec_moments(ptrdiff_t n, double u, double y, const double *restrict x, double *restrict sums,
                                      double *restrict c, double *restrict squares)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        sums[i] += u * x[i];
        c[i] += y * x[i];
        squares[i] += x[i] * x[i];
    }
}

/* sum_i min(a, (size_i - bend_i t)_+), in 8 partial sums; *slope gets the sum of bend where that is neither 0 nor a */
MSMTFL_CLONES static double vec_clipped(ptrdiff_t n, double a, double t, const double *restrict size,
                                        const double *restrict bend, double *restrict slope)
{
    double part[8] = {0}, fall[8] = {0}, total = 0.0, falls = 0.0;
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) {
            double rest = size[i + l] - bend[i + l] * t;
            double kept = rest < 0.0 ? 0.0 : rest;
            part[l] += kept > a ? a : kept;
            fall[l] += (rest > 0.0) & (rest < a) ? bend[i + l] : 0.0;
        }
    for (; i < n; i++) {
        double rest = size[i] - bend[i] * t;
        double kept = rest < 0.0 ? 0.0 : rest;
        total += kept > a ? a : kept;
        falls += (rest > 0.0) & (rest < a) ? bend[i] : 0.0;
    }
    for (int l = 0; l < 8; l++) total += part[l], falls += fall[l];
    *slope = falls;
    return total;
}

/* copy the columns from low to high of the upper triangle of G (n, n) to the lower one, in blocks that stay in the first
   cache */
MSMTFL_CLONES static void vec_mirror(ptrdiff_t n, ptrdiff_t low, ptrdiff_t high, double *G)
{
    const ptrdiff_t size = 32;
    for (ptrdiff_t p = 0; p < high; p += size)
        for (ptrdiff_t q = p > low ? p : low; q < high; q += size)
            for (ptrdiff_t j = q; j < high && j < q + size; j++)
                for (ptrdiff_t i = p; i < j && i < p + size; i++) G[j * n + i] = G[i * n + j];
}

/* the places of what is not 0, rising; returns how many there are */
MSMTFL_CLONES static ptrdiff_t vec_nonzeros(ptrdiff_t n, const double *restrict x, ptrdiff_t *restrict at)
{
    ptrdiff_t count = 0, i = 0;
    for (; i + 16 <= n; i += 16) {
        int some = 0;
        for (int l = 0; l < 16; l++) some |= x[i + l] != 0.0;
        for (int l = 0; some && l < 16; l++)
            if (x[i + l] != 0.0) at[count++] = i + l;
    }
    for (; i < n; i++)
        if (x[i] != 0.0) at[count++] = i;
    return count;
}

/* ---------------------------------------------------------------- eight numbers side by side: see lanes.h */

static int msmtfl_widest = 8; /* numbers in the widest registers that may be used, if the machine has them */

#if defined(__x86_64__) && defined(__GNUC__)
#define MSMTFL_WIDTH 8
#define MSMTFL_OF_WIDTH(name) msmtfl_##name##_8
#define MSMTFL_TARGET __attribute__((target("avx512f")))
#define MSMTFL_TILE 4
#define MSMTFL_TILE_COLUMNS 6
#define MSMTFL_BESIDE 4
#define MSMTFL_HIGH 8
#define MSMTFL_SIDE 2
#include "lanes.h"

#define MSMTFL_WIDTH 4
#define MSMTFL_OF_WIDTH(name) msmtfl_##name##_4
#define MSMTFL_TARGET __attribute__((target("avx2,fma")))
#define MSMTFL_TILE 2
#define MSMTFL_TILE_COLUMNS 3
#define MSMTFL_BESIDE 2
#define MSMTFL_HIGH 4
#define MSMTFL_SIDE 1
#include "lanes.h"

#define MSMTFL_PICK(name) \
    (msmtfl_widest >= 8 && __builtin_cpu_supports("avx512f") ? msmtfl_##name##_8 \
     : msmtfl_widest >= 4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? msmtfl_##name##_4 : msmtfl_##name##_2)
#else
#define MSMTFL_PICK(name) msmtfl_##name##_2
#endif

#define MSMTFL_WIDTH 2
#define MSMTFL_OF_WIDTH(name) msmtfl_##name##_2
#define MSMTFL_TARGET
#define MSMTFL_TILE 1
#define MSMTFL_TILE_COLUMNS 2
#define MSMTFL_BESIDE 1
#define MSMTFL_HIGH 2
#define MSMTFL_SIDE 1
#include "lanes.h"

static void vec_forward_lanes(ptrdiff_t n, const double *U, ptrdiff_t ld, double *X, double *S)
{
    MSMTFL_PICK(forward_lanes)(n, U, ld, X, S);
}

static void vec_backward(ptrdiff_t n, const double *U, ptrdiff_t ld, double *x)
{
    MSMTFL_PICK(backward)(n, U, ld, x);
}

static int vec_factor(ptrdiff_t n, const int *at, const double *Q, ptrdiff_t ldq, const double *ridge, double level,
                      double pivot, double *U, ptrdiff_t ld, double *X)
{
    return MSMTFL_PICK(factor)(n, at, Q, ldq, ridge, level, pivot, U, ld, X);
}

static void vec_reflect(ptrdiff_t n, ptrdiff_t count, double *y, double *X, ptrdiff_t ld)
{
    MSMTFL_PICK(reflect)(n, count, y, X, ld);
}

static void vec_columns(ptrdiff_t n, ptrdiff_t d, const double *X, ptrdiff_t ld, const double *u, const double *y,
                        double *sums, double *c, double *squares)
{
    MSMTFL_PICK(columns)(n, d, X, ld, u, y, sums, c, squares);
}

static void vec_products(ptrdiff_t n, ptrdiff_t count, const double *V, ptrdiff_t d, const double *X, ptrdiff_t ld,
                         double *out, ptrdiff_t stride)
{
    MSMTFL_PICK(products)(n, count, V, d, X, ld, out, stride);
}

#endif
