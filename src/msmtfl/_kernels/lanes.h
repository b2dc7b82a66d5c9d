/* Loops that keep eight numbers side by side ("lanes"), for registers of one width. Included by vector.h once for every width,
   with these defined:

   MSMTFL_WIDTH        numbers in a register: 8, 4 or 2
   MSMTFL_OF_WIDTH     the name of a function for this width
   MSMTFL_TARGET       what lets the compiler use such registers
   MSMTFL_TILE, MSMTFL_TILE_COLUMNS   vectors and columns that are multiplied with each other at a time: 8 sums for each pair
                       have to stay in registers
   MSMTFL_BESIDE       columns that are summed up side by side, three times 8 sums for each
   MSMTFL_HIGH, MSMTFL_SIDE   rows and eights of columns of a factor that are worked on at a time: they stay in registers, too

   A type of eight numbers for all would be simpler, but compilers keep those that are wider than a register in memory. Sums
   are made in the same order whatever the width (`products` are fused, if the machine can do it, so their rounding differs). */

#if defined(__GNUC__)
typedef double MSMTFL_OF_WIDTH(piece) __attribute__((vector_size(8 * MSMTFL_WIDTH), aligned(8), may_alias));
#define MSMTFL_INLINE static inline __attribute__((always_inline)) MSMTFL_TARGET
#define MSMTFL_ALIAS __attribute__((may_alias))
#else
typedef double MSMTFL_OF_WIDTH(piece);
#define MSMTFL_INLINE static inline
#define MSMTFL_ALIAS
#endif
#define PIECE MSMTFL_OF_WIDTH(piece)
#define PIECES (8 * sizeof(double) / sizeof(PIECE))

typedef struct MSMTFL_ALIAS { PIECE piece[PIECES]; } MSMTFL_OF_WIDTH(lanes);
#define LANES MSMTFL_OF_WIDTH(lanes)
#define EACH_PIECE(p) for (size_t p = 0; p < PIECES; p++)

/* *part += x * y */
MSMTFL_INLINE void MSMTFL_OF_WIDTH(add)(LANES *part, const double *x, const double *y)
{
    EACH_PIECE(p) part->piece[p] += ((const PIECE *)x)[p] * ((const PIECE *)y)[p];
}
#define LANES_ADD MSMTFL_OF_WIDTH(add)

/* *x -= a * y */
MSMTFL_INLINE void MSMTFL_OF_WIDTH(less)(LANES *x, double a, const LANES *y)
{
    EACH_PIECE(p) x->piece[p] -= a * y->piece[p];
}
#define LANES_LESS MSMTFL_OF_WIDTH(less)

/* *x /= a */
MSMTFL_INLINE void MSMTFL_OF_WIDTH(over)(LANES *x, double a)
{
    EACH_PIECE(p) x->piece[p] /= a;
}
#define LANES_OVER MSMTFL_OF_WIDTH(over)

MSMTFL_INLINE double MSMTFL_OF_WIDTH(total)(const LANES *x)
{
    double lane[8], total = 0.0;
    memcpy(lane, x, sizeof lane);
    for (int l = 0; l < 8; l++) total += lane[l];
    return total;
}
#define LANES_TOTAL MSMTFL_OF_WIDTH(total)

/* X <- U^-T X for X (n, 8) by rows, and S (8, 8) <- X'X of the result: every number of U is read once for eight columns */
MSMTFL_TARGET static void MSMTFL_OF_WIDTH(forward_lanes)(ptrdiff_t n, const double *restrict U, ptrdiff_t ld,
                                                         double *restrict X, double *restrict S)
{
    LANES *x = (LANES *)X, part[8];
    ptrdiff_t t = 0;
    for (; t + 4 <= n; t += 4) {
        const double *u = U + t * ld + t, *v = u + ld, *w = v + ld, *z = w + ld;
        LANES a = x[t], b = x[t + 1], c = x[t + 2], e = x[t + 3];
        LANES_OVER(&a, u[0]);
        LANES_LESS(&b, u[1], &a), LANES_OVER(&b, v[1]);
        LANES_LESS(&c, u[2], &a), LANES_LESS(&c, v[2], &b), LANES_OVER(&c, w[2]);
        LANES_LESS(&e, u[3], &a), LANES_LESS(&e, v[3], &b), LANES_LESS(&e, w[3], &c), LANES_OVER(&e, z[3]);
        x[t] = a, x[t + 1] = b, x[t + 2] = c, x[t + 3] = e;
        for (ptrdiff_t i = 4; i < n - t; i++) {
            LANES rest = x[t + i];
            LANES_LESS(&rest, u[i], &a), LANES_LESS(&rest, v[i], &b), LANES_LESS(&rest, w[i], &c), LANES_LESS(&rest, z[i], &e);
            x[t + i] = rest;
        }
    }
    for (; t < n; t++) {
        LANES_OVER(&x[t], U[t * ld + t]);
        for (ptrdiff_t i = t + 1; i < n; i++) LANES_LESS(&x[i], U[t * ld + i], &x[t]);
    }
    for (int half = 0; half < 8; half += 4) { /* four sums at a time stay in registers */
        memset(part, 0, sizeof part);
        for (t = 0; t < n; t++)
            for (int r = 0; r < 4; r++) LANES_LESS(&part[r], -X[8 * t + half + r], &x[t]);
        memcpy(S + 8 * half, part, 4 * sizeof(LANES));
    }
}

/* x <- U^-1 x, U upper triangular by rows (`ld` apart), four rows at a time; sums in 8 partial sums */
MSMTFL_TARGET static void MSMTFL_OF_WIDTH(backward)(ptrdiff_t n, const double *restrict U, ptrdiff_t ld, double *restrict x)
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
        LANES part[4];
        double total[4];
        ptrdiff_t i = 4;
        memset(part, 0, sizeof part);
        for (; i + 8 <= n - t; i += 8) {
            LANES_ADD(&part[0], u + i, rest + i);
            LANES_ADD(&part[1], v + i, rest + i);
            LANES_ADD(&part[2], w + i, rest + i);
            LANES_ADD(&part[3], z + i, rest + i);
        }
        for (int r = 0; r < 4; r++) total[r] = LANES_TOTAL(&part[r]);
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
MSMTFL_TARGET static void MSMTFL_OF_WIDTH(reflect)(ptrdiff_t n, ptrdiff_t count, double *restrict y, double *restrict X,
                                                   ptrdiff_t ld)
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
        LANES new, sum, x;
        EACH_PIECE(p) sum.piece[p] = ((PIECE *)(y + i))[p];
        EACH_PIECE(p) new.piece[p] = top * sum.piece[p];
        for (ptrdiff_t a = 0; a < count; a++) {
            EACH_PIECE(p) x.piece[p] = ((PIECE *)(X + a * ld + i))[p];
            LANES_LESS(&new, -share[a], &x);
        }
        EACH_PIECE(p) ((PIECE *)(y + i))[p] = new.piece[p];
        LANES_LESS(&sum, -1.0, &new);
        for (ptrdiff_t a = 0; a < count; a++)
            EACH_PIECE(p) ((PIECE *)(X + a * ld + i))[p] -= step[a] * sum.piece[p];
    }
    for (; i < n; i++) {
        double new = top * y[i], sum = y[i];
        for (ptrdiff_t a = 0; a < count; a++) new += share[a] * X[a * ld + i];
        sum += new;
        y[i] = new;
        for (ptrdiff_t a = 0; a < count; a++) X[a * ld + i] -= step[a] * sum;
    }
}

/* for columns x = X + j ld, j < d: x'u, x'y and x'x; `beside` of them side by side */
MSMTFL_INLINE void MSMTFL_OF_WIDTH(columns_beside)(const int beside, ptrdiff_t n, ptrdiff_t d, const double *restrict X,
                                                   ptrdiff_t ld, const double *restrict u, const double *restrict y,
                                                   double *restrict sums, double *restrict c, double *restrict squares)
{
    for (ptrdiff_t j = 0; j < d; j += beside) {
        const double *x[MSMTFL_BESIDE], *ahead[MSMTFL_BESIDE];
        LANES part[MSMTFL_BESIDE][3];
        ptrdiff_t i = 0;
        memset(part, 0, sizeof part);
        for (int q = 0; q < beside; q++) {
            x[q] = X + (j + q < d ? j + q : d - 1) * ld;
            ahead[q] = X + (j + q + 8 < d ? j + q + 8 : d - 1) * ld; /* far enough to be there in time */
        }
        for (; i + 8 <= n; i += 8)
            for (int q = 0; q < beside; q++) {
                if (beside > 1) MSMTFL_PREFETCH(ahead[q] + i);
                LANES_ADD(&part[q][0], x[q] + i, u + i);
                LANES_ADD(&part[q][1], x[q] + i, y + i);
                LANES_ADD(&part[q][2], x[q] + i, x[q] + i);
            }
        for (int q = 0; q < beside && j + q < d; q++) {
            double total[3];
            for (int r = 0; r < 3; r++) total[r] = LANES_TOTAL(&part[q][r]);
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
   they are read in order: of these some are read side by side */
MSMTFL_TARGET static void MSMTFL_OF_WIDTH(columns)(ptrdiff_t n, ptrdiff_t d, const double *X, ptrdiff_t ld, const double *u,
                                                   const double *y, double *sums, double *c, double *squares)
{
    if (ld == n)
        MSMTFL_OF_WIDTH(columns_beside)(1, n, d, X, ld, u, y, sums, c, squares);
    else
        MSMTFL_OF_WIDTH(columns_beside)(MSMTFL_BESIDE, n, d, X, ld, u, y, sums, c, squares);
}

/* out (count, d; rows `stride` apart) = V X for a few vectors V (count, n) and X (n, d) with columns `ld` apart, in tiles of
   vectors x columns, each product in 8 partial sums, the next columns being on their way from memory. A library's matrix
   product would copy all of X first. */
MSMTFL_TARGET MSMTFL_FUSED static void MSMTFL_OF_WIDTH(products)(ptrdiff_t n, ptrdiff_t count, const double *V, ptrdiff_t d,
                                                                 const double *X, ptrdiff_t ld, double *out,
                                                                 ptrdiff_t stride)
{
    enum { tall = MSMTFL_TILE, wide = MSMTFL_TILE_COLUMNS };
    const ptrdiff_t whole = n - n % 8, tiles = (count + tall - 1) / tall;
    const ptrdiff_t share = tiles > 0 ? (wide + tiles - 1) / tiles : 0; /* of the next columns, that a tile asks for */
    double rest_x[wide][8], rest_v[tall][8];            /* what is left after `whole`, filled up with 0 */
    memset(rest_x, 0, sizeof rest_x);
    memset(rest_v, 0, sizeof rest_v);
    for (ptrdiff_t j = 0; j < d; j += wide) {
        const double *x[wide];
        for (int q = 0; q < wide; q++) {
            x[q] = X + (j + q < d ? j + q : d - 1) * ld;
            for (ptrdiff_t t = whole; t < n; t++) rest_x[q][t - whole] = x[q][t];
        }
        for (ptrdiff_t i = 0; i < count; i += tall) {
            const double *v[tall], *ahead[wide];
            LANES part[tall][wide];
            memset(part, 0, sizeof part);
            for (int p = 0; p < tall; p++) {
                v[p] = V + (i + p < count ? i + p : count - 1) * n;
                for (ptrdiff_t t = whole; t < n; t++) rest_v[p][t - whole] = v[p][t];
            }
            for (int q = 0; q < wide; q++) {
                const ptrdiff_t next = j + wide + i / tall * share + q;
                ahead[q] = X + (next < d ? next : d - 1) * ld;
            }
            for (ptrdiff_t t = 0; t < whole; t += 8) {
                for (int q = 0; q < wide; q++)
                    if (q < share) MSMTFL_PREFETCH(ahead[q] + t);
                for (int p = 0; p < tall; p++)
                    for (int q = 0; q < wide; q++) LANES_ADD(&part[p][q], v[p] + t, x[q] + t);
            }
            for (int p = 0; p < tall; p++)
                for (int q = 0; q < wide; q++) LANES_ADD(&part[p][q], rest_v[p], rest_x[q]);
            for (int p = 0; p < tall && i + p < count; p++)
                for (int q = 0; q < wide && j + q < d; q++) out[(i + p) * stride + j + q] = LANES_TOTAL(&part[p][q]);
        }
    }
}

/* C (rows of `ldc`) -= A'B for MSMTFL_HIGH columns of A and `side` times 8 columns of B, n rows of both. If D is given, C is
   then solved with that block of a factor (rows of 8), whose inverse diagonal is `inverse` */
MSMTFL_INLINE void MSMTFL_OF_WIDTH(less_product)(const int side, ptrdiff_t n, const double *restrict A, ptrdiff_t lda,
                                                 const double *B, ptrdiff_t ldb, double *C, ptrdiff_t ldc, const double *D,
                                                 const double *inverse)
{
    LANES part[MSMTFL_HIGH][MSMTFL_SIDE];
    MSMTFL_UNROLL for (int r = 0; r < MSMTFL_HIGH; r++)
        MSMTFL_UNROLL for (int l = 0; l < side; l++) part[r][l] = *(LANES *)(C + r * ldc + 8 * l);
    for (ptrdiff_t s = 0; s < n; s++)
        MSMTFL_UNROLL for (int l = 0; l < side; l++) {
            const LANES b = *(const LANES *)(B + s * ldb + 8 * l);
            MSMTFL_UNROLL for (int r = 0; r < MSMTFL_HIGH; r++) LANES_LESS(&part[r][l], A[s * lda + r], &b);
        }
    if (D != NULL)
        MSMTFL_UNROLL for (int r = 0; r < MSMTFL_HIGH; r++)
            MSMTFL_UNROLL for (int l = 0; l < side; l++) {
                EACH_PIECE(p) part[r][l].piece[p] *= inverse[r];
                MSMTFL_UNROLL for (int q = r + 1; q < MSMTFL_HIGH; q++) LANES_LESS(&part[q][l], D[8 * r + q], &part[r][l]);
            }
    MSMTFL_UNROLL for (int r = 0; r < MSMTFL_HIGH; r++)
        MSMTFL_UNROLL for (int l = 0; l < side; l++) *(LANES *)(C + r * ldc + 8 * l) = part[r][l];
}

/* eight rows C of a factor in `side` times 8 columns: less what the n rows above explain (A: all rows, C's last, in the eight
   columns of the block on the diagonal, B: in those of C), and solved with that block, D, whose inverse diagonal is `inverse` */
MSMTFL_INLINE void MSMTFL_OF_WIDTH(factor_rows)(const int side, ptrdiff_t n, const double *A, ptrdiff_t lda, const double *B,
                                                ptrdiff_t ldb, double *C, const double *D, const double *inverse)
{
    for (int r = 0; r < 8; r += MSMTFL_HIGH)
        MSMTFL_OF_WIDTH(less_product)(side, n + r, A + r, lda, B, ldb, C + r * ldb, ldb, D + 9 * r, inverse + r);
}

/* U (n, n; upper triangle by rows, `ld` apart) <- the Cholesky factor of Q (rows `ldq` apart) on the rows and columns `at`,
   level * ridge added to its diagonal, if there is a ridge; false if less than `pivot` of a square is left. Eight rows at a
   time, from left to right; the columns after the last whole eight are worked on in X (n, 8). */
MSMTFL_TARGET static int MSMTFL_OF_WIDTH(factor)(ptrdiff_t n, const int *restrict at, const double *restrict Q, ptrdiff_t ldq,
                                                 const double *ridge, double level, double pivot, double *restrict U,
                                                 ptrdiff_t ld, double *restrict X)
{
    const ptrdiff_t whole = n - n % 8;
    double D[8][8], square[8], inverse[8];
    for (ptrdiff_t t = 0; t < n; t += 8) {
        const int rows = n - t < 8 ? (int)(n - t) : 8;
        const double *A = t < whole ? U + t : X;
        const ptrdiff_t lda = t < whole ? ld : 8;
        memset(D, 0, sizeof D);
        for (int r = 0; r < rows; r++) {
            const double *restrict row = Q + at[t + r] * ldq;
            double *restrict own = U + (t + r) * ld, *restrict rest = X + 8 * (t + r);
            square[r] = row[at[t + r]] + (level != 0.0 ? level * ridge[at[t + r]] : 0.0);
            for (int q = r; q < rows; q++) D[r][q] = row[at[t + q]];
            D[r][r] = square[r];
            for (ptrdiff_t u = t + 8; u < whole; u++) own[u] = row[at[u]];
            for (ptrdiff_t u = 0; u < 8; u++) rest[u] = t < whole && whole + u < n ? row[at[whole + u]] : 0.0;
        }
        for (int r = 0; r < 8; r += MSMTFL_HIGH)
            MSMTFL_OF_WIDTH(less_product)(1, t, A + r, lda, A, lda, D[r], 8, NULL, NULL);
        for (int r = 0; r < rows; r++) {
            double step[8];
            if (!(D[r][r] > pivot * square[r])) return 0;
            inverse[r] = 1.0 / D[r][r];
            for (int q = r + 1; q < rows; q++) step[q] = D[r][q] * inverse[r];
            for (int q = r + 1; q < rows; q++)
                for (int v = q; v < rows; v++) D[q][v] -= step[q] * D[r][v];
        }
        for (int r = 0; r < rows; r++) inverse[r] = sqrt(inverse[r]);
        for (int r = 0; r < rows; r++)
            for (int q = r; q < rows; q++) U[(t + r) * ld + t + q] = D[r][q] *= inverse[r];
        if (t < whole) {
            ptrdiff_t u = t + 8;
            for (; u + 8 * MSMTFL_SIDE <= whole; u += 8 * MSMTFL_SIDE)
                MSMTFL_OF_WIDTH(factor_rows)(MSMTFL_SIDE, t, A, lda, U + u, ld, U + t * ld + u, D[0], inverse);
            for (; u < whole; u += 8) MSMTFL_OF_WIDTH(factor_rows)(1, t, A, lda, U + u, ld, U + t * ld + u, D[0], inverse);
            if (whole < n) {
                MSMTFL_OF_WIDTH(factor_rows)(1, t, A, lda, X, 8, X + 8 * t, D[0], inverse);
                for (int r = 0; r < rows; r++)
                    for (u = whole; u < n; u++) U[(t + r) * ld + u] = X[8 * (t + r) + u - whole];
            }
        }
    }
    return 1;
}

#undef MSMTFL_INLINE
#undef MSMTFL_ALIAS
#undef PIECE
#undef PIECES
#undef LANES
#undef EACH_PIECE
#undef LANES_ADD
#undef LANES_LESS
#undef LANES_OVER
#undef LANES_TOTAL
#undef MSMTFL_WIDTH
#undef MSMTFL_OF_WIDTH
#undef MSMTFL_TARGET
#undef MSMTFL_TILE
#undef MSMTFL_TILE_COLUMNS
#undef MSMTFL_BESIDE
#undef MSMTFL_HIGH
#undef MSMTFL_SIDE
