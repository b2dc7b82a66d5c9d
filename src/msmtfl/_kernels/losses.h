/* Slopes and curvatures of losses over all rows of a task, in a form that compilers turn into SIMD code (see vector.h). */
#ifndef MSMTFL_LOSSES_H
#define MSMTFL_LOSSES_H

#include <stdint.h>
#include "vector.h"

#if defined(__GNUC__)
#define MSMTFL_EACH static inline __attribute__((always_inline))
#else
#define MSMTFL_EACH static inline
#endif

MSMTFL_EACH double msmtfl_as_double(int64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

MSMTFL_EACH int64_t msmtfl_as_bits(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* e^x to about one unit in the last place: x = k log 2 + r with |r| <= log(2) / 2, e^r by its series, 2^k in two halves so
   that neither leaves the range of floats before the result does */
MSMTFL_EACH double msmtfl_exp(double x)
{
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: what is added to it is rounded to a whole number */
    double k, r, p;
    int64_t whole, half;
    x = x < -746.0 ? -746.0 : x;
    x = x > 710.0 ? 710.0 : x;
    k = x * 1.4426950408889634 + shift;
    whole = msmtfl_as_bits(k) - msmtfl_as_bits(shift);
    k -= shift;
    r = (x - k * 0x1.62e42fefa38p-1) - k * 0x1.ef35793c7673p-45;
    p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r * r + r + 1.0;
    half = (int64_t)((uint64_t)(whole + 2048) >> 1) - 1024; /* without a sign, which few machines shift side by side */
    return p * msmtfl_as_double((int64_t)((uint64_t)(half + 1023) << 52)) *
           msmtfl_as_double((int64_t)((uint64_t)(whole - half + 1023) << 52));
}

/* u = -v h' and bend = v h'' of half the logistic deviance; y is 0 or 1 */
MSMTFL_CLONES static void vec_logistic(ptrdiff_t n, const double *restrict y, const double *restrict v,
                                       const double *restrict f, double *restrict u, double *restrict bend)
{
    for (ptrdiff_t i = 0; i < n; i++) { /* without branches, which would keep rows from going side by side */
        double sign = 1.0 - 2.0 * y[i], t = sign * f[i];
        double e = msmtfl_exp(-fabs(t)), share = 1.0 / (1.0 + e), other = e * share;
        double wrong = t > 0.0 ? share : other; /* the probability of the other class */
        u[i] = -sign * (v[i] * wrong);
        bend[i] = v[i] * (other * share);
    }
}

/* the same of Poisson's */
MSMTFL_CLONES static void vec_poisson(ptrdiff_t n, const double *restrict y, const double *restrict v,
                                      const double *restrict f, double *restrict u, double *restrict bend)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double e = msmtfl_exp(f[i]);
        u[i] = v[i] * (y[i] - e);
        bend[i] = v[i] * (e < 1e150 ? e : 1e150);
    }
}

/* the same of the gamma deviance's, y > 0 */
MSMTFL_CLONES static void vec_gamma(ptrdiff_t n, const double *restrict y, const double *restrict v,
                                    const double *restrict f, double *restrict u, double *restrict bend)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double e = y[i] * msmtfl_exp(-f[i]);
        u[i] = v[i] * (e - 1.0);
        bend[i] = v[i] * (e < 1e150 ? e : 1e150);
    }
}

/* the same of Tweedie's with this power of the variance */
MSMTFL_CLONES static void vec_tweedie(ptrdiff_t n, double power, const double *restrict y, const double *restrict v,
                                      const double *restrict f, double *restrict u, double *restrict bend)
{
    double a = power - 1.0, b = 2.0 - power;
    for (ptrdiff_t i = 0; i < n; i++) {
        double falls = y[i] * msmtfl_exp(-a * f[i]), rises = msmtfl_exp(b * f[i]);
        double curved = a * falls + b * rises;
        u[i] = v[i] * (falls - rises);
        bend[i] = v[i] * (curved < 1e150 ? curved : 1e150);
    }
}

/* the same of Huber's; beyond epsilon, where there is no curvature, bend is a share, `caution`, of that of the parabola that
   touches there and stays above */
MSMTFL_CLONES static void vec_huber(ptrdiff_t n, double epsilon, double caution, const double *restrict y,
                                    const double *restrict v, const double *restrict f, double *restrict u,
                                    double *restrict bend)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double r = y[i] - f[i], size = fabs(r), far = size > epsilon ? size : epsilon;
        double share = epsilon / far, little = caution * share, near = r * share;
        double curved = size < epsilon ? 1.0 : little;
        u[i] = v[i] * near;
        bend[i] = v[i] * curved;
    }
}

/* z = b x */
MSMTFL_CLONES static void vec_times(ptrdiff_t n, const double *restrict b, const double *restrict x, double *restrict z)
{
    for (ptrdiff_t i = 0; i < n; i++) z[i] = b[i] * x[i];
}

/* the sum of x, in 16 partial sums */
MSMTFL_CLONES static double vec_sum(ptrdiff_t n, const double *restrict x)
{
    double part[16] = {0};
    double total = 0.0;
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++) part[l] += x[i + l];
    for (; i < n; i++) total += x[i];
    for (int l = 0; l < 16; l++) total += part[l];
    return total;
}

/* the sum of (x - y)^2 / v */
MSMTFL_CLONES static double vec_apart(ptrdiff_t n, const double *restrict x, const double *restrict y,
                                      const double *restrict v)
{
    double part[16] = {0};
    double total = 0.0;
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++) part[l] += (x[i + l] - y[i + l]) * (x[i + l] - y[i + l]) / v[i + l];
    for (; i < n; i++) total += (x[i] - y[i]) * (x[i] - y[i]) / v[i];
    for (int l = 0; l < 16; l++) total += part[l];
    return total;
}

/* the largest |x - y| / y, y > 0 */
MSMTFL_CLONES static double vec_changed(ptrdiff_t n, const double *restrict x, const double *restrict y)
{
    double part[16] = {0};
    double most = 0.0;
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++) {
            double share = (x[i + l] > y[i + l] ? x[i + l] - y[i + l] : y[i + l] - x[i + l]) / y[i + l];
            part[l] = share > part[l] ? share : part[l];
        }
    for (; i < n; i++) {
        double share = fabs(x[i] - y[i]) / y[i];
        most = share > most ? share : most;
    }
    for (int l = 0; l < 16; l++) most = part[l] > most ? part[l] : most;
    return most;
}

/* y = max(x, share v times the largest x / v), and its roots; returns the sum of y */
MSMTFL_CLONES static double vec_lift(ptrdiff_t n, double share, const double *restrict x, const double *restrict v,
                                     double *restrict y, double *restrict root)
{
    double part[16] = {0};
    double most = 0.0;
    ptrdiff_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++) part[l] = x[i + l] / v[i + l] > part[l] ? x[i + l] / v[i + l] : part[l];
    for (; i < n; i++) most = x[i] / v[i] > most ? x[i] / v[i] : most;
    for (int l = 0; l < 16; l++) most = part[l] > most ? part[l] : most;
    most *= share;
    for (i = 0; i < n; i++) {
        y[i] = x[i] > most * v[i] ? x[i] : most * v[i];
        root[i] = sqrt(y[i]);
    }
    return vec_sum(n, y);
}

static double loss_logistic(ptrdiff_t n, const double *y, const double *v, const double *f)
{
    double total = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        double t = y[i] > 0.5 ? -f[i] : f[i];
        total += v[i] * (log1p(exp(t < 0.0 ? t : -t)) + (t > 0.0 ? t : 0.0));
    }
    return total;
}

static double loss_poisson(ptrdiff_t n, const double *y, const double *v, const double *f)
{
    double total = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) total += v[i] * (exp(f[i]) - y[i] * f[i]);
    return total;
}

static double loss_gamma(ptrdiff_t n, const double *y, const double *v, const double *f)
{
    double total = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) total += v[i] * (y[i] * exp(-f[i]) + f[i]);
    return total;
}

static double loss_tweedie(ptrdiff_t n, double power, const double *y, const double *v, const double *f)
{
    double total = 0.0, a = power - 1.0, b = 2.0 - power;
    for (ptrdiff_t i = 0; i < n; i++) total += v[i] * (y[i] * expm1(-a * f[i]) / a + expm1(b * f[i]) / b);
    return total;
}

static double loss_huber(ptrdiff_t n, double epsilon, const double *y, const double *v, const double *f)
{
    double total = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        double size = fabs(y[i] - f[i]), inner = size < epsilon ? size : epsilon;
        total += v[i] * (inner * (size - 0.5 * inner));
    }
    return total;
}

#endif
