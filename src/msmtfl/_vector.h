/* The few long loops of the kernel, in a form that compilers turn into SIMD code. On x86-64 Linux each is compiled for
   several instruction sets and the loader picks one, so that a wheel assumes nothing about the machine it was built on. */
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

#if defined(__GNUC__)
#define MSMTFL_PREFETCH(place) __builtin_prefetch(place)
#else
#define MSMTFL_PREFETCH(place) (void)(place)
#endif

#if defined(_MSC_VER)
#define restrict __restrict
#endif

/* eight numbers that are added up side by side */
#if defined(__GNUC__)
typedef double msmtfl_lanes __attribute__((vector_size(64), aligned(8), may_alias));
#define MSMTFL_INLINE static inline __attribute__((always_inline))
#else
typedef struct { double lane[8]; } msmtfl_lanes;
#define MSMTFL_INLINE static inline
#endif

/* *part += x * y */
MSMTFL_INLINE void lanes_add(msmtfl_lanes *part, const double *x, const double *y)
{
#if defined(__GNUC__)
    *part += *(const msmtfl_lanes *)x * *(const msmtfl_lanes *)y;
#else
    for (int l = 0; l < 8; l++) part->lane[l] += x[l] * y[l];
#endif
}

MSMTFL_INLINE double lanes_total(const msmtfl_lanes *part)
{
    const double *lane = (const double *)part;
    double total = 0.0;
    for (int l = 0; l < 8; l++) total += lane[l];
    return total;
}

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

/* *x -= p * a, lane by lane */
MSMTFL_INLINE void lanes_less(msmtfl_lanes *x, double p, const msmtfl_lanes *a)
{
#if defined(__GNUC__)
    *x -= p * *a;
#else
    for (int l = 0; l < 8; l++) x->lane[l] -= p * a->lane[l];
#endif
}

MSMTFL_INLINE void lanes_over(msmtfl_lanes *x, double q)
{
#if defined(__GNUC__)
    *x /= q;
#else
    for (int l = 0; l < 8; l++) x->lane[l] /= q;
#endif
}

/* X <- U^-T X for X (n, 8) by rows, and S (8, 8) <- X'X of the result: every number of U is read once for eight columns */
MSMTFL_CLONES static void vec_forward_lanes(ptrdiff_t n, const double *restrict U, ptrdiff_t ld, double *restrict X,
                                            double *restrict S)
{
    msmtfl_lanes *x = (msmtfl_lanes *)X, part[8];
    ptrdiff_t t = 0;
    for (; t + 4 <= n; t += 4) {
        const double *u = U + t * ld + t, *v = u + ld, *w = v + ld, *z = w + ld;
        msmtfl_lanes a = x[t], b = x[t + 1], c = x[t + 2], e = x[t + 3];
        lanes_over(&a, u[0]);
        lanes_less(&b, u[1], &a), lanes_over(&b, v[1]);
        lanes_less(&c, u[2], &a), lanes_less(&c, v[2], &b), lanes_over(&c, w[2]);
        lanes_less(&e, u[3], &a), lanes_less(&e, v[3], &b), lanes_less(&e, w[3], &c), lanes_over(&e, z[3]);
        x[t] = a, x[t + 1] = b, x[t + 2] = c, x[t + 3] = e;
        for (ptrdiff_t i = 4; i < n - t; i++) {
            msmtfl_lanes rest = x[t + i];
            lanes_less(&rest, u[i], &a), lanes_less(&rest, v[i], &b), lanes_less(&rest, w[i], &c), lanes_less(&rest, z[i], &e);
            x[t + i] = rest;
        }
    }
    for (; t < n; t++) {
        lanes_over(&x[t], U[t * ld + t]);
        for (ptrdiff_t i = t + 1; i < n; i++) lanes_less(&x[i], U[t * ld + i], &x[t]);
    }
    memset(part, 0, sizeof part);
    for (t = 0; t < n; t++)
        for (int r = 0; r < 8; r++) lanes_less(&part[r], -X[8 * t + r], &x[t]);
    memcpy(S, part, sizeof part);
}

/* x <- U^-1 x, likewise; sums in 8 partial sums */
MSMTFL_CLONES static void vec_backward(ptrdiff_t n, const double *restrict U, ptrdiff_t ld, double *restrict x)
{
    ptrdiff_t t = n;
    for (; t % 4; t--) {
        double total = 0.0;
        for (ptrdiff_t i = t; i < n; i++) total += U[(t - 1) * ld + i] * x[i];
        x[t - 1] = (x[t - 1] - total) / U[(t - 1) * ld + t - 1];
    }
    for (t -= 4; t >= 0; t -= 4) {
        const double *u = U + t * ld + t, *v = u + ld, *w = v + ld, *z = w + ld;
        const double *rest = x + t;
        msmtfl_lanes part[4];
        double total[4];
        ptrdiff_t i = 4;
        memset(part, 0, sizeof part);
        for (; i + 8 <= n - t; i += 8) {
            lanes_add(&part[0], u + i, rest + i);
            lanes_add(&part[1], v + i, rest + i);
            lanes_add(&part[2], w + i, rest + i);
            lanes_add(&part[3], z + i, rest + i);
        }
        for (int r = 0; r < 4; r++) total[r] = lanes_total(&part[r]);
        for (; i < n - t; i++) {
            total[0] += u[i] * rest[i];
            total[1] += v[i] * rest[i];
            total[2] += w[i] * rest[i];
            total[3] += z[i] * rest[i];
        }
        x[t + 3] = (x[t + 3] - total[3]) / z[3];
        x[t + 2] = (x[t + 2] - total[2] - w[3] * x[t + 3]) / w[2];
        x[t + 1] = (x[t + 1] - total[1] - v[2] * x[t + 2] - v[3] * x[t + 3]) / v[1];
        x[t] = (x[t] - total[0] - u[1] * x[t + 1] - u[2] * x[t + 2] - u[3] * x[t + 3]) / u[0];
    }
}

/* the reflection of (y, X[0], .., X[count - 1]), n columns of them, X by rows `ld` apart, that leaves nothing of the X in the
   first column; count <= 8 */
MSMTFL_CLONES static void vec_reflect(ptrdiff_t n, ptrdiff_t count, double *restrict y, double *restrict X, ptrdiff_t ld)
{
    double top = y[0], square = top * top, length, share[8], step[8];
    ptrdiff_t i = 0;
    for (ptrdiff_t a = 0; a < count; a++) square += X[a * ld] * X[a * ld];
    length = sqrt(square);
    for (ptrdiff_t a = 0; a < count; a++) {
        share[a] = X[a * ld] / length;
        step[a] = X[a * ld] / (length + top);
    }
    top /= length;
    for (; i + 8 <= n; i += 8) {
        msmtfl_lanes new, sum;
        memset(&new, 0, sizeof new);
        memcpy(&sum, y + i, sizeof sum);
        lanes_less(&new, -top, &sum);
        for (ptrdiff_t a = 0; a < count; a++) {
            msmtfl_lanes x;
            memcpy(&x, X + a * ld + i, sizeof x);
            lanes_less(&new, -share[a], &x);
        }
        memcpy(y + i, &new, sizeof new);
        lanes_less(&sum, -1.0, &new);
        for (ptrdiff_t a = 0; a < count; a++) {
            msmtfl_lanes x;
            memcpy(&x, X + a * ld + i, sizeof x);
            lanes_less(&x, step[a], &sum);
            memcpy(X + a * ld + i, &x, sizeof x);
        }
    }
    for (; i < n; i++) {
        double new = top * y[i], sum = y[i];
        for (ptrdiff_t a = 0; a < count; a++) new += share[a] * X[a * ld + i];
        sum += new;
        y[i] = new;
        for (ptrdiff_t a = 0; a < count; a++) X[a * ld + i] -= step[a] * sum;
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

/* for columns x = X + j ld, j < d: x'u, x'y and x'x; `beside` of them (at most 4) side by side */
MSMTFL_INLINE void columns_beside(const int beside, ptrdiff_t n, ptrdiff_t d, const double *restrict X, ptrdiff_t ld,
                                  const double *restrict u, const double *restrict y, double *restrict sums,
                                  double *restrict c, double *restrict squares)
{
    for (ptrdiff_t j = 0; j < d; j += beside) {
        const double *x[4], *ahead[4];
        msmtfl_lanes part[4][3];
        ptrdiff_t i = 0;
        memset(part, 0, sizeof part);
        for (int q = 0; q < beside; q++) {
            x[q] = X + (j + q < d ? j + q : d - 1) * ld;
            ahead[q] = X + (j + q + 8 < d ? j + q + 8 : d - 1) * ld;
        }
        for (; i + 8 <= n; i += 8)
            for (int q = 0; q < beside; q++) {
                if (beside > 1) MSMTFL_PREFETCH(ahead[q] + i);
                lanes_add(&part[q][0], x[q] + i, u + i);
                lanes_add(&part[q][1], x[q] + i, y + i);
                lanes_add(&part[q][2], x[q] + i, x[q] + i);
            }
        for (int q = 0; q < beside && j + q < d; q++) {
            double total[3];
            for (int r = 0; r < 3; r++) total[r] = lanes_total(&part[q][r]);
            for (ptrdiff_t t = i; t < n; t++) {
                total[0] += x[q][t] * u[t];
                total[1] += x[q][t] * y[t];
                total[2] += x[q][t] * x[q][t];
            }
            sums[j + q] = total[0];
            c[j + q] = total[1];
            squares[j + q] = total[2];
        }
    }
}

/* the same: one after the other where they lie so in memory. Pieces of longer columns end before the machine has noticed that
   they are read in order: of these four are read side by side */
MSMTFL_CLONES static void vec_columns(ptrdiff_t n, ptrdiff_t d, const double *restrict X, ptrdiff_t ld,
                                      const double *restrict u, const double *restrict y, double *restrict sums,
                                      double *restrict c, double *restrict squares)
{
    if (ld == n)
        columns_beside(1, n, d, X, ld, u, y, sums, c, squares);
    else
        columns_beside(4, n, d, X, ld, u, y, sums, c, squares);
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

/* out (count, d; rows `stride` apart) = V X for a few vectors V (count, n) and X (n, d) with columns `ld` apart: tiles of
   4 vectors x 4 columns, each product in 8 partial sums, the next columns being on their way from memory. A library's
   matrix product would copy all of X first. */
MSMTFL_CLONES MSMTFL_FUSED static void vec_products(ptrdiff_t n, ptrdiff_t count, const double *V, ptrdiff_t d, const double *X,
                                       ptrdiff_t ld, double *out, ptrdiff_t stride)
{
    for (ptrdiff_t j = 0; j < d; j += 4) {
        const double *x[4];
        for (int q = 0; q < 4; q++) x[q] = X + (j + q < d ? j + q : d - 1) * ld;
        for (ptrdiff_t i = 0; i < count; i += 4) {
            const double *v[4], *ahead = X + (j + 4 + i / 4 < d ? j + 4 + i / 4 : j) * ld;
            msmtfl_lanes part[4][4];
            ptrdiff_t t = 0;
            for (int p = 0; p < 4; p++) v[p] = V + (i + p < count ? i + p : count - 1) * n;
            memset(part, 0, sizeof part);
            for (; t + 8 <= n; t += 8) {
                MSMTFL_PREFETCH(ahead + t);
                for (int p = 0; p < 4; p++)
                    for (int q = 0; q < 4; q++) lanes_add(&part[p][q], v[p] + t, x[q] + t);
            }
            for (int p = 0; p < 4 && i + p < count; p++)
                for (int q = 0; q < 4 && j + q < d; q++) {
                    double total = lanes_total(&part[p][q]);
                    for (ptrdiff_t r = t; r < n; r++) total += v[p][r] * x[q][r];
                    out[(i + p) * stride + j + q] = total;
                }
        }
    }
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

#endif
