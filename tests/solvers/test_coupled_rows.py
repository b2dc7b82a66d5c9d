"""Rows that couple the tasks: the solver against oracles and duality gaps found on X and y, norms and certificates."""

import itertools

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from msmtfl._data.forms.dense import DenseRows, RowTask
from msmtfl._kernels import row_sweep as _row_kernel
from msmtfl._objective.coupled.row_norms import DirtyNorm, GroupNorm
from msmtfl._objective.proofs.row_certificates import certify_rows, row_violation
from msmtfl._solvers import gram
from msmtfl._solvers.coupled.rows.coupled_rows import CoupledRows
from msmtfl._solvers.gram import gram_caches

# ------------------------------------------------------------------ oracles: W is (d, m) here, one column per task
#
# A penalty is ("group", lam) or ("dirty", lam_s, lam_b); a problem is a list of (X, y, n), the rows already weighted and
# centred, n being the sum of the weights; f (d, m) are penalty factors.


def norms_of(penalty, V):
    """(d,): the penalty of every row of V, factors included in V."""
    if penalty[0] == "group":
        return penalty[1] * np.sqrt((V**2).sum(axis=1))
    _, lam_s, lam_b = penalty
    sizes = np.abs(V)
    levels = np.c_[np.zeros(len(V)), sizes]  # max |b| is one of these: the penalty is piecewise linear in it
    above = np.maximum(sizes[:, :, None] - levels[:, None, :], 0.0).sum(axis=1)
    return (lam_s * above + lam_b * levels).min(axis=1)


def duals_of(penalty, G):
    """(d,): the dual norm of every row."""
    if penalty[0] == "group":
        return np.sqrt((G**2).sum(axis=1)) / penalty[1]
    return np.maximum(np.abs(G).sum(axis=1) / penalty[2], np.abs(G).max(axis=1) / penalty[1])


def correlations(problem, residuals):
    """(d, m): 2 / (m n_i) X_i'r_i"""
    return np.array([2 / (len(problem) * n) * X.T @ r for (X, _, n), r in zip(problem, residuals, strict=True)]).T


def objective(problem, penalty, W, f=1.0):
    loss = sum(((y - X @ w) ** 2).sum() / (len(problem) * n) for (X, y, n), w in zip(problem, W.T, strict=True))
    return loss + norms_of(penalty, np.where(np.isinf(f), 0.0, f) * W).sum()


def relative_gap(problem, penalty, W, f=None):
    """(primal - dual) / (loss at W = 0); the dual point is the residual, projected off free columns and scaled down."""
    f = np.ones_like(W) if f is None else f
    assert not W[np.isinf(f)].any()
    residuals, m = [], len(problem)
    for (X, y, _), w, of_task in zip(problem, W.T, f.T, strict=True):
        r, free = y - X @ w, X[:, (of_task == 0) & X.any(axis=0)]
        if free.shape[1]:
            U, values, _ = np.linalg.svd(free / np.linalg.norm(free, axis=0), full_matrices=False)
            U = U[:, values > 1e-11 * values[0]]
            for _ in range(2):
                r = r - U @ (U.T @ r)
        residuals.append(r)
    counted = (f > 0) & np.isfinite(f)
    sizes = duals_of(penalty, np.where(counted, correlations(problem, residuals), 0.0) / np.where(counted, f, 1.0))
    shrink = min(1.0, 1.0 / max(sizes.max(initial=0.0), 1e-300))
    dual = sum(
        (2 * shrink * (y @ r) - shrink**2 * (r @ r)) / (m * n) for (_, y, n), r in zip(problem, residuals, strict=True)
    )
    return (objective(problem, penalty, W, f) - dual) / sum(y @ y / (m * n) for _, y, n in problem)


def on_l1_ball(V, radius):
    """Rows of V projected on l1 balls of radius (d,)."""
    sizes = -np.sort(-np.abs(V), axis=1)
    sums = np.cumsum(sizes, axis=1) - radius[:, None]
    counts = np.arange(1, V.shape[1] + 1)
    last = (sizes * counts > sums).sum(axis=1) - 1
    level = np.maximum(sums[np.arange(len(V)), last] / counts[last], 0.0)
    return np.sign(V) * np.maximum(np.abs(V) - level[:, None], 0.0)


def proximal(penalty, parts, step):
    """The minimiser over every row of |v - part|^2 / (2 step) + penalty; parts are (V,) or (S, B), step is (d,)."""
    if penalty[0] == "group":
        lengths = np.sqrt((parts[0] ** 2).sum(axis=1))
        keep = 1 - penalty[1] * step / np.maximum(lengths, penalty[1] * step)
        return parts * keep[:, None]
    S, B = parts
    cut = penalty[1] * step[:, None]
    return np.array([np.sign(S) * np.maximum(np.abs(S) - cut, 0.0), B - on_l1_ball(B, penalty[2] * step)])


def fista(problem, penalty, most=40_000, enough=1e-11):
    """W by accelerated proximal steps on V or on (S, B), columns scaled to the same curvature, momentum restarted."""
    m = len(problem)
    Q = np.array([2 / (m * n) * X.T @ X for X, _, n in problem])
    C = np.array([2 / (m * n) * X.T @ y for X, y, n in problem])
    unit = np.sqrt(np.einsum("ijj->ji", Q).max(axis=1))
    unit[unit == 0] = 1.0
    Q, C = Q / unit[:, None] / unit, C / unit
    parts = 1 if penalty[0] == "group" else 2
    step = 1 / (parts * np.linalg.eigvalsh(Q).max())
    steps = step / unit
    V = Z = np.zeros((parts, len(unit), m))
    t = 1.0
    for k in range(1, most + 1):
        gradient = (C - (Q @ Z.sum(axis=0).T[:, :, None])[:, :, 0]).T
        new = proximal(penalty, Z + step * gradient, steps)
        if np.vdot(Z - new, new - V) > 0:
            t = 1.0
        t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
        Z, V, t = new + (t - 1) / t_next * (new - V), new, t_next
        if k % 200 == 0 and relative_gap(problem, penalty, V.sum(axis=0) / unit[:, None]) <= enough:
            break
    return V.sum(axis=0) / unit[:, None]


# ------------------------------------------------------------------ problems


def prepared(Xs, ys, weights=None, centre=False):
    """The designs of the package, and the problem as oracles see it."""
    designs, problem = [], []
    for i, (X, y) in enumerate(zip(Xs, ys, strict=True)):
        weight = None if weights is None else weights[i]
        designs.append(RowTask(DenseRows(X, weight, centre), y))
        u = np.ones(len(y)) if weight is None else weight
        if centre:
            means = u @ X / u.sum()
            X, y = np.where(np.ptp(X, axis=0) == 0, 0.0, X - means), y - u @ y / u.sum()
        problem.append((X * np.sqrt(u)[:, None], y * np.sqrt(u), u.sum()))
    return designs, problem


def penalties_of(problem, share):
    """The penalties under test, `share` of the smallest at which W is 0; lam_b / lam_s from l1,inf to the lasso."""
    m = len(problem)
    G = correlations(problem, [y for _, y, _ in problem])
    out = [("group", share * duals_of(("group", 1.0), G).max())]
    for ratio in sorted({1.0, 1.6} | {one for one in (2.0, 0.5 * m + 0.3, float(m)) if 1 < one <= m}):
        lam_b = share * duals_of(("dirty", 1 / ratio, 1.0), G).max()
        out.append(("dirty", lam_b / ratio, lam_b))
    return out


def norm_of(penalty, factors):
    if penalty[0] == "group":
        return GroupNorm(np.full(len(factors), penalty[1]), factors)
    return DirtyNorm(*penalty[1:], factors)


def solve(designs, penalty, factors=None, **options):
    """(d, m) from nothing, and the certificate."""
    factors = np.ones((designs[0].d, len(designs))) if factors is None else factors
    norm = norm_of(penalty, factors)
    W, rounds = CoupledRows(designs, factors, **options).solve(norm)
    assert rounds >= 1
    return W.T, certify_rows(designs, W, norm)


def make(kind, seed=0):
    """Designs and problem of some kind."""
    rng = np.random.default_rng(seed)
    m, n, d = {"one task": (1, 25, 12), "thirty tasks": (30, 12, 8), "few samples": (4, 8, 20)}.get(kind, (4, 25, 12))
    n = {"unequal": [7, 15, 40, 90], "one sample": [1, 20, 20, 20]}.get(kind, n)
    Xs, ys = oracles.random_tasks(seed, m=m, n=n, d=d, active=5)
    weights = [rng.uniform(0.1, 3.0, len(y)) for y in ys] if kind in ("weights", "constant columns") else None
    if kind == "correlated":
        mix = np.linalg.cholesky(0.95 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d))))
        Xs = [X @ mix.T for X in Xs]
    elif kind == "copies":
        Xs = [np.c_[X[:, :8], X[:, :4] * [1, -1, 1, 1]] for X in Xs]
    elif kind == "constant columns":
        Xs[0][:, [0, 3]] = 2.5
        Xs[2][:, 1] = -1e3
        for X in Xs:
            X[:, 5] = 1.0
    elif kind == "zero columns":
        Xs[1][:, [0, 4, 7]] = 0.0
        Xs[3][:, 4] = 0.0
    elif kind == "wild scales":
        scales = 10.0 ** rng.integers(-4, 5, d)
        Xs = [X * scales for X in Xs]
    return prepared(Xs, ys, weights, centre=kind in ("constant columns", "weights"))


KINDS = [
    "plain",
    "correlated",
    "copies",
    "constant columns",
    "zero columns",
    "few samples",
    "one sample",
    "one task",
    "thirty tasks",
    "wild scales",
    "weights",
    "unequal",
]


# ------------------------------------------------------------------ against oracles


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(3)
def test_equals_fista(kind, share):
    designs, problem = make(kind)
    for penalty in penalties_of(problem, share)[:3]:
        W, proof = solve(designs, penalty)
        peer = fista(problem, penalty)
        assert relative_gap(problem, penalty, peer) <= 1e-9
        assert objective(problem, penalty, W) == pytest.approx(objective(problem, penalty, peer), rel=1e-8)
        assert relative_gap(problem, penalty, W) <= 1e-10
        assert proof.gap <= 1e-10
        assert proof.kkt <= 1e-9
        if proof.unique:
            fits = [X @ (w - v) for (X, _, _), w, v in zip(problem, W.T, peer.T, strict=True)]
            assert max(np.abs(fit).max() for fit in fits) <= 1e-4 * max(np.abs(y).max() for _, y, _ in problem)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.9, 0.3, 0.03, 0.003])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(3)
def test_the_gap_on_data_is_small(kind, share):
    designs, problem = make(kind, seed=1)
    for penalty in penalties_of(problem, share):
        W, proof = solve(designs, penalty)
        assert relative_gap(problem, penalty, W) <= 1e-9
        assert proof.gap <= 1e-9
        assert proof.gap >= relative_gap(problem, penalty, W) - 1e-14


def test_wild_scales_that_differ_between_tasks():
    rng = np.random.default_rng(2)
    Xs, ys = oracles.random_tasks(2, m=3, n=30, d=10)
    designs, problem = prepared([X * 10.0 ** rng.integers(-4, 5, 10) for X in Xs], ys)
    for penalty in penalties_of(problem, 0.01):
        W, _ = solve(designs, penalty)
        assert relative_gap(problem, penalty, W) <= 1e-9


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_penalty_factors_are_scaled_columns(share):
    rng = np.random.default_rng(3)
    f = 10.0 ** rng.uniform(-1, 1, (12, 4))
    f[rng.random((12, 4)) < 0.1] = np.inf
    Xs, ys = oracles.random_tasks(3, m=4, n=25, d=12)
    designs, problem = prepared(Xs, ys)
    scaled, of_scaled = prepared([X / of_task for X, of_task in zip(Xs, f.T, strict=True)], ys)
    for penalty in penalties_of(of_scaled, share):
        W, proof = solve(designs, penalty, f)
        assert not W[np.isinf(f)].any()
        assert relative_gap(problem, penalty, W, f) <= 1e-10
        assert proof.gap <= 1e-10
        V, _ = solve(scaled, penalty)
        np.testing.assert_allclose(W, V / f, rtol=0, atol=1e-8 * np.abs(V / f).max())


def test_entries_with_factor_zero_are_fitted_freely():
    rng = np.random.default_rng(4)
    f = np.ones((12, 4))
    f[3], f[5, 2], f[[0, 6], 1] = 0.0, 0.0, 0.0
    f[rng.random((12, 4)) < 0.1] = np.inf
    designs, problem = make("plain", 4)
    for penalty in penalties_of(problem, 0.2):
        W, proof = solve(designs, penalty, f)
        assert relative_gap(problem, penalty, W, f) <= 1e-10
        assert proof.gap <= 1e-10
        residuals = [y - X @ w for (X, y, _), w in zip(problem, W.T, strict=True)]
        assert np.abs(correlations(problem, residuals)[f == 0]).max() <= 1e-9


def test_rows_without_weight_are_least_squares():
    designs, problem = make("plain", 5)
    weights = np.where(np.isin(np.arange(12), [1, 4]), 0.0, 1e3)
    norm = GroupNorm(weights, np.ones((12, 4)))
    W, _ = CoupledRows(designs, norm.factors).solve(norm)
    for (X, y, _), w in zip(problem, W, strict=True):
        np.testing.assert_allclose(w[[1, 4]], np.linalg.lstsq(X[:, [1, 4]], y, rcond=None)[0], rtol=1e-10)
    assert not W[:, weights > 0].any()
    assert certify_rows(designs, W, norm).gap <= 1e-10


def test_nothing_to_explain_is_explained_by_nothing():
    designs, _ = prepared(oracles.random_tasks(6, m=3)[0], [np.zeros(30)] * 3)
    for penalty in (("group", 0.1), ("dirty", 0.1, 0.15)):
        W, proof = solve(designs, penalty)
        assert not W.any()
        assert proof.gap == 0.0


@st.composite
def hard_problems(draw):
    """Xs, ys, factors, a share of lam_max, a ratio: wild scales, copies, near copies, constant columns."""
    m, d = draw(st.integers(1, 5)), draw(st.integers(1, 10))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    Xs = [rng.standard_normal((rng.integers(1, 14), d)) for _ in range(m)]
    kinds = st.sampled_from(["new", "new", "new", "copy", "near", "constant", "zero somewhere"])
    for j, kind in enumerate(draw(st.lists(kinds, min_size=d, max_size=d))):
        other = rng.integers(j + 1)
        for X in Xs:
            if kind == "constant":
                X[:, j] = 1.0
            elif kind == "near":
                X[:, j] = X[:, other] + 10.0 ** rng.uniform(-3, -1) * X[:, j]
            elif kind == "copy":
                X[:, j] = X[:, other]
            elif kind == "zero somewhere" and rng.random() < 0.5:
                X[:, j] = 0.0
    wild = draw(st.sampled_from([0, 1, 4]))
    scales = 10.0 ** rng.integers(-wild, wild + 1, d)
    noise, size = draw(st.sampled_from([0.0, 0.1, 1.0])), 10.0 ** draw(st.integers(-5, 5))
    active = rng.random(d) < 0.5
    ys = [size * (X @ (active * rng.standard_normal(d)) + noise * rng.standard_normal(len(X))) for X in Xs]
    Xs = [X * scales for X in Xs]
    f = np.array(
        draw(st.lists(st.sampled_from([0.0, np.inf, 0.1, 1.0, 1.0, 1.0, 10.0]), min_size=d * m, max_size=d * m))
    )
    f = f.reshape(d, m) if draw(st.booleans()) else np.ones((d, m))
    return Xs, ys, f, draw(st.sampled_from([0.9, 0.3, 0.03, 1e-3])), draw(st.sampled_from([0, 0.5, 1, 1.5, 2, 2.7, 3]))


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(hard_problems())
def test_exact_or_honest(data):
    """The gap found on X and y is at most 1e-9, or no worse than what the certificate admits."""
    Xs, ys, f, share, ratio = data
    designs, problem = prepared(Xs, ys)
    counted = (f > 0) & np.isfinite(f)
    G = np.where(counted, correlations(problem, ys), 0.0) / np.where(counted, f, 1.0)
    penalty = ("group", 1.0) if ratio == 0 else ("dirty", 1 / ratio, 1.0)
    top = duals_of(penalty, G).max()
    if top == 0:
        return
    penalty = (penalty[0], *(share * top * lam for lam in penalty[1:]))
    W, proof = solve(designs, penalty, f)
    assert relative_gap(problem, penalty, W, f) <= max(1e-9, 2 * proof.gap)
    assert not (W[np.isinf(f)]).any()


# ------------------------------------------------------------------ orthogonal designs: closed forms


def project_on_both(g, lam_s, lam_b):
    """g (m,) projected on |p|_inf <= lam_s, |p|_1 <= lam_b, by bisection."""
    low, high = 0.0, np.abs(g).max()
    if np.minimum(np.abs(g), lam_s).sum() <= lam_b:
        high = 0.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.clip(np.abs(g) - middle, 0.0, lam_s).sum() > lam_b:
            low = middle
        else:
            high = middle
    return np.sign(g) * np.clip(np.abs(g) - high, 0.0, lam_s)


def orthogonal(seed=0, m=4, n=20, d=8):
    """Designs, problem and 2 / (m n) X'y (d, m) of X'X = n I."""
    rng = np.random.default_rng(seed)
    Xs = [np.sqrt(n) * np.linalg.qr(rng.standard_normal((n, d)))[0] for _ in range(m)]
    designs, problem = prepared(Xs, [2 * rng.standard_normal(n) for _ in range(m)])
    return designs, problem, correlations(problem, [y for _, y, _ in problem])


def closed_form(penalty, G):
    m = G.shape[1]
    if penalty[0] == "group":
        return 0.5 * m * G * np.maximum(1 - penalty[1] / np.sqrt((G**2).sum(axis=1)), 0.0)[:, None]
    return 0.5 * m * (G - np.array([project_on_both(g, *penalty[1:]) for g in G]))


@pytest.mark.parametrize("share", [0.8, 0.3, 0.05])
def test_orthogonal_designs_have_a_closed_form(share):
    designs, problem, G = orthogonal()
    for penalty in penalties_of(problem, share):
        expected = closed_form(penalty, G)
        W, _ = solve(designs, penalty)
        np.testing.assert_allclose(W, expected, rtol=0, atol=1e-12)
        proof = certify_rows(designs, np.ascontiguousarray(expected.T), norm_of(penalty, np.ones_like(W)))
        assert proof.gap <= 1e-13
        assert proof.kkt <= 1e-13
        assert proof.unique


# ------------------------------------------------------------------ is it the only minimiser?


def from_somewhere(designs, norm, seed):
    """The minimiser that the solver finds from a random start, and whether it is known to be the only one."""
    rows = CoupledRows(designs, norm.factors)
    if seed:
        rows.warm(np.random.default_rng(seed).standard_normal((rows.m, rows.d)))
    W, _ = rows.solve(norm)
    assert rows.finished
    return W, rows.determined(norm)


@pytest.mark.parametrize("kind", ["plain", "few samples", "unequal", "correlated"])
@pytest.mark.parametrize("share", [0.5, 0.1])
def test_what_is_known_to_be_the_only_minimiser_is_found_from_anywhere(kind, share):
    designs, problem = make(kind, 2)
    known = 0
    for penalty in penalties_of(problem, share):
        norm = norm_of(penalty, np.ones((designs[0].d, len(designs))))
        W, only = from_somewhere(designs, norm, 0)
        known += only
        for seed in (1, 2) if only else ():
            np.testing.assert_allclose(from_somewhere(designs, norm, seed)[0], W, rtol=0, atol=1e-8 * np.abs(W).max())
    assert known >= 1


def test_few_samples_do_not_make_several_minimisers_but_equal_columns_do():
    rng = np.random.default_rng(3)
    Xs = [rng.standard_normal((8, 30)) for _ in range(4)]
    W = np.zeros((30, 4))
    W[:6] = rng.standard_normal((6, 4))
    ys = [X @ w for X, w in zip(Xs, W.T, strict=True)]
    for twice in (False, True):
        columns = [np.column_stack([X, X]) for X in Xs] if twice else Xs
        designs, problem = prepared(columns, ys)
        used = []
        for penalty in penalties_of(problem, 0.05):
            rows = CoupledRows(designs, np.ones((designs[0].d, 4)))
            norm = norm_of(penalty, rows.factors)
            if isinstance(norm, DirtyNorm) and norm.separates:
                continue  # lassos have a rule of their own
            found, _ = rows.solve(norm)
            used.append(np.count_nonzero(found.any(axis=0)))
            assert rows.determined(norm) == (not twice)
        assert max(used) > 8  # no task has as many samples


# ------------------------------------------------------------------ the kernel: one row is minimised exactly


def minimise_row(penalty, h, b, f, start, guess=0.0):
    """What the kernel makes of a single row, and t or nu."""
    m = len(h)
    norm, a, most = (0, penalty[1], 0.0) if penalty[0] == "group" else (1, *penalty[1:])
    W, T = start[None].copy(), np.array([guess])
    G = (b - h * start)[:, None].copy()
    Q, which, kinds = h[:, None, None].copy(), np.arange(m, dtype=np.intc), np.zeros((1, m), dtype=np.uint8)
    H, F, scratch, past = h[None].copy(), f[None].copy(), np.empty((5, m)), np.empty((2, 2, m))
    done, _ = _row_kernel.sweep(
        norm,
        np.array([a]),
        np.array([most]),
        np.ones(m),
        Q,
        which,
        H,
        F,
        G,
        W,
        T,
        kinds,
        scratch,
        past,
        G.copy(),
        1,
        0.0,
    )
    assert done == 1
    np.testing.assert_allclose(G[:, 0], b - h * W[0], rtol=0, atol=1e-14 * (np.abs(b) + h * np.abs(start)).max())
    return W[0], T[0], kinds[0]


def gone_over(kind, seed, means, epochs=4000):
    """Goes, W and how far G is from the gradient there, of rows with columns that are much alike."""
    rng = np.random.default_rng(seed)
    m, K = 4, 12
    X = rng.standard_normal((m, 30, K)) + 3.0 * rng.standard_normal((m, 30, 1))
    Q, C = np.einsum("isj,isk->ijk", X, X) / 30, 2.0 * rng.standard_normal((m, K))
    kappa, which, kinds = rng.uniform(0.5, 2.0, m), np.arange(m, dtype=np.intc), np.zeros((K, m), dtype=np.uint8)
    H = np.ascontiguousarray((kappa[:, None] * Q.diagonal(axis1=1, axis2=2)).T)
    a, b, F = np.full(K, 0.3), np.full(K, 0.6), rng.uniform(0.5, 2.0, (K, m))
    G, W, past = C.copy(), np.zeros((K, m)), np.empty((2, means + 2, K * m))
    done, _ = _row_kernel.sweep(
        kind, a, b, kappa, Q, which, H, F, G, W, np.zeros(K), kinds, np.empty((5, m)), past, C, epochs, 1e-13
    )
    return done, W, np.abs(G - C + np.einsum("i,ijk,ki->ij", kappa, Q, W)).max()


@pytest.mark.parametrize(("kind", "most"), [(_row_kernel.GROUP, 0.8), (_row_kernel.DIRTY, 1.0)])
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_means_of_goes_lead_to_the_same_solution_sooner(kind, most, seed):
    (plain, W, _), (sooner, same, off) = gone_over(kind, seed, 0), gone_over(kind, seed, 5)
    assert W.any()
    assert sooner < most * plain
    assert off < 1e-12
    np.testing.assert_allclose(same, W, rtol=0, atol=1e-9 * np.abs(W).max())


@pytest.mark.parametrize("epochs", [1, 5, 6, 7, 8, 9, 13, 14, 20])
def test_means_of_goes_end_with_a_go(epochs):
    """Wherever they end, G is the gradient at W."""
    for kind, seed in itertools.product((_row_kernel.GROUP, _row_kernel.DIRTY), range(4)):
        done, _, off = gone_over(kind, seed, 5, epochs)
        assert done == epochs
        assert off < 1e-12


def random_row(rng, wild=0):
    """h, b, f, some of them 0."""
    m = rng.integers(1, 9)
    h, b, f = (10.0 ** rng.uniform(-wild, wild, m) * rng.uniform(0.2, 2, m) for _ in range(3))
    b *= rng.choice([-1, 1], m)
    h[rng.random(m) < 0.15] = 0.0
    f[rng.random(m) < 0.15] = 0.0
    if rng.random() < 0.3:  # ties
        b[:], f[:], h[:] = np.round(b) + 1, 1.0, 1.0
    b[h == 0] = 0.0
    return h, b, f


def random_penalty(rng, b, f):
    counted = f > 0
    G = (np.where(counted, b, 0.0) / np.where(counted, f, 1.0))[None]
    share = rng.choice([1.1, 1.0, 0.9, 0.5, 0.1, 1e-3])
    ratio = rng.choice([0.5, 1.0, 1.5, 2.0, 3.0, 3.7, 20.0])
    group, dirty = (max(duals_of(one, G)[0], 1e-3) for one in (("group", 1.0), ("dirty", 1 / ratio, 1.0)))
    return [("group", share * group), ("group", 0.0), ("dirty", share * dirty / ratio, share * dirty)]


@pytest.mark.slow
@pytest.mark.parametrize("wild", [0, 3])
def test_a_row_is_minimised_exactly(wild):
    """p = b - h v is in the subdifferential at v: its dual norm is at most 1, and p'v is the norm of v."""
    rng = np.random.default_rng(7)
    for _ in range(400):
        h, b, f = random_row(rng, wild)
        live, counted = h > 0, (h > 0) & (f > 0)
        for penalty in random_penalty(rng, b, f):
            start, guess = rng.standard_normal(len(h)) * live * rng.integers(0, 2), rng.choice([0.0, 1e-6, 1.0, 1e6])
            v, level, _ = minimise_row(penalty, h, b, f, start, guess)
            p = b - h * v
            assert not v[~live].any()
            if penalty == ("group", 0.0):
                assert (np.abs(v[live] - b[live] / h[live]) <= 1e-15 * (np.abs(v) + np.abs(start))[live]).all()
                continue
            blur = 4e-15 * (np.abs(b) + h * np.abs(start))  # what rounding leaves of p
            assert (np.abs(p) <= blur)[live & ~counted].all()
            over = np.where(counted, p, 0.0) / np.where(counted, f, 1.0)
            value = norms_of(penalty, (f * v * live)[None])[0]
            blur = np.where(counted, blur / np.where(counted, f, 1.0), 0.0).sum()
            allowed = blur / (penalty[1] if penalty[0] == "group" else min(penalty[1:]))
            assert duals_of(penalty, over[None])[0] <= 1 + 1e-12 + allowed
            assert p[counted] @ v[counted] == pytest.approx(value, rel=1e-11, abs=blur * np.abs(f * v).max())
            if penalty[0] == "group":
                assert level == pytest.approx(np.linalg.norm(f * v), rel=1e-11)


@pytest.mark.slow
def test_a_group_row_equals_bisection():
    rng = np.random.default_rng(8)
    for _ in range(200):
        h, b, f = random_row(rng)
        h, f, a = np.maximum(h, 0.1), np.maximum(f, 0.1), 10.0 ** rng.uniform(-3, 1)
        low, high = 0.0, np.linalg.norm(f * b / h)
        for _ in range(200):  # nu = |f v|, v = b nu / (h nu + a f^2)
            nu = 0.5 * (low + high)
            low, high = (nu, high) if np.linalg.norm(f * b / (h * nu + a * f**2)) > 1 else (low, nu)
        v, level, _ = minimise_row(("group", a), h, b, f, np.zeros(len(h)))
        np.testing.assert_allclose(v, b * high / (h * high + a * f**2), rtol=1e-9, atol=1e-15)
        assert level == pytest.approx(high, rel=1e-9, abs=1e-15)


@pytest.mark.slow
def test_a_dirty_row_equals_a_general_minimiser():
    """Over v, t and s >= 0 with |f v| <= t + s: quadratic, with linear constraints."""
    rng = np.random.default_rng(8)
    for _ in range(40):
        h, b, f = random_row(rng)
        h, m = np.maximum(h, 0.1), len(h)
        penalty = random_penalty(rng, b, f)[2]
        v, _, _ = minimise_row(penalty, h, b, f, np.zeros(m))
        value = 0.5 * h @ v**2 - b @ v + norms_of(penalty, (f * v)[None])[0]
        linear, curved = np.r_[-b, penalty[2], np.full(m, penalty[1])], np.r_[h, np.zeros(m + 1)]
        rows = np.vstack([np.hstack([sign * np.diag(f), -np.ones((m, 1)), -np.eye(m)]) for sign in (1, -1)])
        found = minimize(
            lambda x, c=linear, q=curved: c @ x + 0.5 * q @ x**2,
            np.r_[np.zeros(m), 1.0, np.zeros(m)],
            jac=lambda x, c=linear, q=curved: c + q * x,
            bounds=[(None, None)] * m + [(0, None)] * (m + 1),
            constraints=[{"type": "ineq", "fun": lambda x, A=rows: -A @ x, "jac": lambda x, A=rows: -A}],
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 500},
        )
        assert value <= found.fun + 1e-7 * max(1.0, abs(value))
        assert not found.success or value >= found.fun - 1e-5 * max(1.0, abs(value))


def test_the_kinds_of_a_dirty_row_say_what_it_looks_like():
    rng = np.random.default_rng(9)
    names = {number: name for name, number in _row_kernel.PATTERN.items()}
    seen = set()
    for _ in range(200):
        h, b, f = random_row(rng)
        penalty = random_penalty(rng, b, f)[2]
        v, t, kinds = minimise_row(penalty, h, b, f, np.zeros(len(h)))
        for kind, size, weight, curvature in zip(kinds, np.abs(f * v), f, h, strict=True):
            name = names[int(kind)]
            seen.add(name)
            assert name == "ZERO" if curvature == 0 else name == "BELOW" if weight == 0 else True
            if weight > 0 and curvature > 0:
                known = {"ZERO": size == 0, "TIED": size == pytest.approx(t), "BELOW": size < t, "ABOVE": size > t}
                assert known[name]
    assert seen == {"ZERO", "TIED", "BELOW", "ABOVE"}


# ------------------------------------------------------------------ norms


def by_linear_programme(w, f, lam_s, lam_b):
    """min lam_s sum f |s| + lam_b max f |b| over s + b = w: variables s+, s-, t."""
    m = len(w)
    cost = np.r_[lam_s * f, lam_s * f, lam_b]
    b_of = np.hstack([-np.eye(m), np.eye(m)]) * f[:, None]  # f (b - w)
    A = np.vstack([np.c_[b_of, -np.ones(m)], np.c_[-b_of, -np.ones(m)]])
    return linprog(cost, A_ub=A, b_ub=np.r_[-f * w, f * w], bounds=(0, None)).fun


RATIOS = [0.5, 1.0, 1.3, 2.0, 2.5, 3.0, 4.0, 7.0]


@pytest.mark.parametrize("ratio", RATIOS)
def test_dirty_norm_is_the_least_over_all_splits(ratio):
    rng = np.random.default_rng(10)
    W, f = rng.standard_normal((12, 4)), rng.uniform(0.2, 3.0, (12, 4))
    W[rng.random(W.shape) < 0.2] = 0.0
    W[0], f[1, 2], f[2] = [1.0, -1.0, 1.0, 1.0], 0.0, 1.0
    norm = DirtyNorm(0.7, 0.7 * ratio, f)
    expected = [by_linear_programme(w, of_row, 0.7, 0.7 * ratio) for w, of_row in zip(W, f, strict=True)]
    np.testing.assert_allclose(norm.values(W), expected, rtol=0, atol=1e-9)
    assert norm.value(W) == pytest.approx(sum(expected))
    S, B = norm.split(W)
    np.testing.assert_allclose(S + B, W, rtol=0, atol=1e-15)
    attained = 0.7 * np.abs(f * S).sum(axis=1) + 0.7 * ratio * np.abs(f * B).max(axis=1)
    np.testing.assert_allclose(attained, norm.values(W), rtol=0, atol=1e-12)
    assert not B[f == 0].any()


def test_group_norm_is_the_euclidean_one():
    rng = np.random.default_rng(11)
    W, f, a = rng.standard_normal((6, 3)), rng.uniform(0.1, 2.0, (6, 3)), rng.uniform(0, 1, 6)
    f[0, 1] = np.inf
    W[0, 1] = 0.0
    f[1, 2], a[3] = 0.0, 0.0
    norm = GroupNorm(a, f)
    counted = np.where(np.isinf(f), 0.0, f)
    np.testing.assert_allclose(norm.values(W), [x * np.linalg.norm(v) for x, v in zip(a, counted * W, strict=True)])
    free = np.zeros((6, 3), bool)
    free[1, 2] = free[3] = True
    np.testing.assert_array_equal(norm.free(), free)
    some = norm.of_rows(np.array([4, 1]))
    np.testing.assert_array_equal(some.values(W[[4, 1]]), norm.values(W)[[4, 1]])


@pytest.mark.parametrize("penalty", [("group", 0.7), *(("dirty", 0.7, 0.7 * ratio) for ratio in RATIOS)], ids=str)
def test_dual_norms_are_attained_and_never_exceeded(penalty):
    """|g'w| <= dual(g) N(w), with equality for some w: e_i, or signs of all entries; for l2, g / f^2."""
    rng = np.random.default_rng(12)
    G, f = rng.standard_normal((200, 4)), rng.uniform(0.2, 3.0, (200, 4))
    norm = norm_of(penalty, f)
    dual = norm.dual(G)
    for _ in range(50):
        W = rng.standard_normal((200, 4)) * 10.0 ** rng.uniform(-3, 3, (200, 4))
        assert (np.abs((G * W).sum(axis=1)) <= dual * norm.values(W) * (1 + 1e-12)).all()
    tries = [np.sign(G) / f] if penalty[0] == "dirty" else [G / f**2]
    tries += [np.eye(4)[i] + np.zeros_like(G) for i in range(4)]
    best = np.max([np.abs((G * W).sum(axis=1)) / norm.values(W) for W in tries], axis=0)
    if penalty[0] == "group" or penalty[2] / penalty[1] in (1.0, 4.0, 7.0, 0.5):
        np.testing.assert_allclose(best, dual, rtol=1e-12)
    else:  # between the two the unit ball has more corners: q equal entries
        q = penalty[2] / penalty[1]
        corners = [np.where(np.isin(np.arange(4), part), 1.0, 0.0) for part in ([0, 1], [0, 1, 2], [1, 2, 3], [0, 3])]
        values = [norm.values(np.sign(G) / f * corner) for corner in corners]
        np.testing.assert_allclose(values, [np.full(200, 0.7 * min(q, corner.sum())) for corner in corners], rtol=1e-12)
        np.testing.assert_allclose(best, dual, rtol=1e-12)


def test_separates_from_the_ratio_that_is_the_lasso():
    f = np.ones((5, 3))
    W = np.random.default_rng(13).standard_normal((5, 3))
    for lam_s, lam_b, lasso in [
        (1.0, 3.0, True),
        (0.1, 0.3, True),
        (1.0, 2.99, False),
        (1.0, 50.0, True),
        (1, 1, False),
    ]:
        norm = DirtyNorm(lam_s, lam_b, f)
        assert norm.separates == lasso
        if lasso:
            np.testing.assert_allclose(norm.values(W), lam_s * np.abs(W).sum(axis=1))
            assert not norm.split(W)[1].any()


# ------------------------------------------------------------------ certificates


def test_certificates_see_what_is_wrong():
    designs, problem = make("plain", 14)
    for penalty in penalties_of(problem, 0.2):
        W, proof = solve(designs, penalty)
        norm = norm_of(penalty, np.ones_like(W))
        for size in (1e-1, 1e-2, 1e-3):
            V = W * (1 + size)
            wrong = certify_rows(designs, np.ascontiguousarray(V.T), norm)
            assert wrong.gap == pytest.approx(relative_gap(problem, penalty, V), rel=1e-6)
            assert wrong.gap >= 0.01 * size**2
            assert wrong.kkt >= 1e-3 * size
            assert row_violation(designs, np.ascontiguousarray(V.T), norm) == pytest.approx(wrong.kkt)
        nothing = certify_rows(designs, np.zeros((4, 12)), norm)
        assert nothing.gap > 0.1
        assert nothing.kkt > 0.1
        assert proof.kkt <= 1e-10


def test_an_excluded_entry_in_use_is_no_solution():
    designs, _ = make("plain", 15)
    f = np.ones((12, 4))
    f[2, 1] = np.inf
    W = np.zeros((4, 12))
    W[1, 2] = 1e-9
    for norm in (GroupNorm(np.ones(12), f), DirtyNorm(1.0, 2.0, f)):
        assert certify_rows(designs, W, norm).gap == np.inf


@pytest.mark.slow
def test_generic_minimisers_are_unique():
    """But for tasks that a Dirty model interpolates: there entries below their row's level move freely."""
    for seed in range(2):
        for kind in ("plain", "few samples", "unequal", "correlated"):
            designs, problem = make(kind, seed)
            for share in (0.5, 0.1, 0.02):
                for penalty in penalties_of(problem, share):
                    W, proof = solve(designs, penalty)
                    for (X, y, _), w, part in zip(problem, W.T, proof.dependent, strict=True):
                        interpolated = np.abs(y - X @ w).max() <= 1e-9 * np.abs(y).max()
                        assert not part.size or (penalty[0] == "dirty" and interpolated and len(part) > len(y))
                    assert proof.unique == (not any(part.size for part in proof.dependent))


def test_an_interpolated_task_of_dirty_rows_is_ambiguous():
    designs, problem = make("few samples", 1)
    penalty = penalties_of(problem, 0.1)[1]
    assert penalty[1] == penalty[2]
    W, proof = solve(designs, penalty)
    assert [len(part) for part in proof.dependent] == [0, 11, 0, 0]
    X, y, _ = problem[1]
    part, level = proof.dependent[1], np.abs(W).max(axis=1)
    np.testing.assert_allclose(X @ W[:, 1], y, rtol=0, atol=1e-9)
    tied = part[np.abs(W[part, 1]) > level[part] * (1 - 1e-9)]
    # as far inwards from their levels as entries can go while the fit stays, and the others stay below theirs
    inwards = np.where(np.isin(part, tied), np.sign(W[part, 1]), 0.0)
    bounds = np.column_stack([-level[part] - W[part, 1], level[part] - W[part, 1]])
    step = np.zeros(20)
    step[part] = linprog(inwards, A_eq=X[:, part], b_eq=np.zeros(len(X)), bounds=bounds).x
    V = W.copy()
    V[:, 1] += step
    assert np.abs(step).max() >= 1e-4
    assert relative_gap(problem, penalty, V) <= relative_gap(problem, penalty, W) + 1e-13  # as good as W
    assert relative_gap(problem, penalty, W) <= 1e-11


@pytest.mark.parametrize("ratio", [1.5, 2.0, 3.0])
def test_whole_ratios_are_as_unique_as_others(ratio):
    designs, problem, _ = orthogonal(1)
    lam_b = penalties_of(problem, 0.3)[0][1]
    assert solve(designs, ("dirty", lam_b / ratio, lam_b))[1].unique


def test_copies_in_all_tasks_are_named():
    Xs, ys = oracles.random_tasks(16, m=3, n=30, d=8, active=3)
    main = int(np.abs(sum(X.T @ y for X, y in zip(Xs, ys, strict=True))).argmax())
    copy = (main + 1) % 8
    for X in Xs:
        X[:, copy] = X[:, main]
    designs, problem = prepared(Xs, ys)
    for penalty in penalties_of(problem, 0.2):
        W, proof = solve(designs, penalty)
        assert W[[main, copy]].any()
        assert not proof.unique
        named = set(np.concatenate(proof.dependent).tolist())
        assert {main, copy} <= named


def test_copies_in_one_task_are_named_there():
    """A Dirty row whose entry is above the level moves on its own; a group's row cannot."""
    Xs, _ = oracles.random_tasks(17, m=3, n=30, d=6)
    Xs[1][:, 4] = Xs[1][:, 2]
    rng = np.random.default_rng(17)
    ys = [X[:, 0] + 0.1 * rng.standard_normal(30) for X in Xs]
    ys[1] += 5 * Xs[1][:, 2]
    designs, problem = prepared(Xs, ys)
    penalty = ("dirty", 0.1, 0.2)
    W, proof = solve(designs, penalty)
    assert W[[2, 4], 1].any()
    assert relative_gap(problem, penalty, W) <= 1e-10
    assert not proof.unique
    assert {2, 4} <= set(proof.dependent[1].tolist())
    assert not proof.dependent[0].size
    assert not proof.dependent[2].size
    moved = W.copy()  # indeed: the other copy alone serves as well
    moved[2, 1], moved[4, 1] = W[[2, 4], 1].sum() - W[4, 1] / 2, W[4, 1] / 2
    assert relative_gap(problem, penalty, moved) <= 1e-9 or W[4, 1] == 0.0
    assert solve(designs, ("group", 0.1))[1].unique


def test_a_copy_of_nothing_is_no_ambiguity():
    Xs, ys = oracles.random_tasks(18, m=3, n=30, d=6)
    for X in Xs:
        X[:, 4] = 0.0
        X[:, 5] = 0.0
    designs, problem = prepared(Xs, ys)
    for penalty in penalties_of(problem, 0.1):
        assert solve(designs, penalty)[1].unique


def test_more_free_rows_than_samples_are_not_unique():
    designs, _ = prepared(*oracles.random_tasks(19, m=3, n=[6, 30, 30], d=12))
    norm = GroupNorm(np.where(np.arange(12) < 8, 0.0, 10.0), np.ones((12, 3)))
    W, _ = CoupledRows(designs, norm.factors).solve(norm)
    proof = certify_rows(designs, W, norm)
    assert proof.gap <= 1e-9
    assert not proof.unique
    assert proof.dependent[0].tolist() == list(range(8))
    assert not proof.dependent[1].size
    assert not proof.dependent[2].size


def test_many_free_entries_beside_dirty_rows_are_not_unique():
    designs, _ = prepared(*oracles.random_tasks(20, m=3, n=[6, 30, 30], d=12))
    f = np.ones((12, 3))
    f[:8, 0] = 0.0
    W, proof = solve(designs, ("dirty", 0.5, 0.8), f)
    assert proof.gap <= 1e-9
    assert not proof.unique
    assert set(range(8)) <= set(proof.dependent[0].tolist())
    assert W.any()


# ------------------------------------------------------------------ routes


@pytest.mark.slow
def test_gram_rows_on_demand_equal_whole_matrices():
    designs, problem = prepared(*oracles.random_tasks(21, m=3, n=40, d=150, active=6))
    fetched = []
    for share in (0.5, 0.1, 0.02):
        for penalty in penalties_of(problem, share):
            grams = gram_caches(designs, budget=1.0)
            assert grams[0].most_rows == gram.FEWEST_ROWS
            W, _ = solve(designs, penalty)
            some, _ = solve(designs, penalty, grams=grams)
            fetched.append(grams[0].size)
            assert grams[0].whole is None
            np.testing.assert_allclose(some, W, rtol=0, atol=1e-9)
    assert max(fetched) > gram.FEWEST_ROWS
    assert min(fetched) < 20


@pytest.mark.slow
def test_gram_rows_that_had_to_go_come_back():
    designs, problem = prepared(*oracles.random_tasks(22, m=3, n=60, d=200, active=10))
    grams = gram_caches(designs, budget=1.0)
    factors = np.ones((200, 3))
    lasting = CoupledRows(designs, factors, grams=grams)
    for share in (0.3, 0.05, 0.01, 0.2, 0.02):
        for penalty in penalties_of(problem, share)[:3]:
            W, _ = lasting.solve(norm_of(penalty, factors))
            np.testing.assert_allclose(W.T, solve(designs, penalty)[0], rtol=0, atol=1e-8)
    assert grams[0].version > 0


def test_the_whole_matrix_follows_once_much_of_it_is_known(monkeypatch):
    monkeypatch.setattr(gram, "WHOLE_BELOW", 0)
    monkeypatch.setattr(gram, "STRONG_SHARE", 1.0)
    designs, problem = prepared(*oracles.random_tasks(23, m=3, n=40, d=100, active=6))
    for share in (0.9, 0.05):
        for penalty in penalties_of(problem, share):
            grams = gram_caches(designs)
            assert grams[0].whole is None
            W, _ = solve(designs, penalty, grams=grams)
            assert relative_gap(problem, penalty, W) <= 1e-10
            assert (grams[0].whole is not None) == (share == 0.05)


def test_one_matrix_serves_tasks_on_the_same_rows():
    rng = np.random.default_rng(24)
    (X,), _ = oracles.random_tasks(24, m=1, n=40, d=15)
    ys = [X[:, :4] @ rng.standard_normal(4) + rng.standard_normal(40) for _ in range(5)]
    rows = DenseRows(X, None, False)
    shared = [RowTask(rows, y) for y in ys]
    designs, problem = prepared([X] * 5, ys)
    two = [*shared[:3], *designs[3:]]
    assert len(CoupledRows(shared, np.ones((15, 5))).grams) == 1
    assert len(CoupledRows(two, np.ones((15, 5))).grams) == 3
    for penalty in penalties_of(problem, 0.1):
        W, _ = solve(designs, penalty)
        for same in (shared, two):
            np.testing.assert_allclose(solve(same, penalty)[0], W, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "few samples", "unequal", "zero columns"])
def test_warm_equals_cold(kind):
    designs, problem = make(kind, 25)
    rng = np.random.default_rng(25)
    d, m = designs[0].d, len(designs)
    warm, factors = CoupledRows(designs, np.ones((d, m))), np.ones((d, m))
    for turn in range(6):
        for penalty in penalties_of(problem, rng.choice([0.5, 0.1, 0.03])):
            if turn % 3 == 2:  # from a point that has nothing to do with the solution
                warm.warm(10.0 ** rng.uniform(-2, 4) * rng.standard_normal((m, d)))
            W, _ = warm.solve(norm_of(penalty, factors))
            assert warm.finished
            cold, proof = solve(designs, penalty)
            assert proof.unique
            np.testing.assert_allclose(W.T, cold, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_many_rows_in_use_at_once():
    """More rows than are inverted together, and more than may join together."""
    designs, problem = prepared(*oracles.random_tasks(26, m=3, n=150, d=120, active=100, noise=0.1))
    for penalty in penalties_of(problem, 0.003):
        W, proof = solve(designs, penalty)
        assert np.count_nonzero(W.any(axis=1)) > 60
        assert proof.gap <= 1e-10
        assert relative_gap(problem, penalty, W) <= 1e-10


def test_stopped_early_is_honest():
    designs, problem = make("correlated", 27)
    for penalty in penalties_of(problem, 0.01):
        norm = norm_of(penalty, np.ones((12, 4)))
        rows = CoupledRows(designs, norm.factors)
        W, _ = rows.solve(norm, max_iter=1)
        if penalty[-1] > 3.99 * penalty[1]:
            continue  # the lassos count otherwise
        assert not rows.finished
        assert certify_rows(designs, W, norm).gap == pytest.approx(relative_gap(problem, penalty, W.T), rel=1e-6)
        assert relative_gap(problem, penalty, W.T) > 1e-8


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_threads_change_nothing(n_jobs):
    designs, problem = prepared(*oracles.random_tasks(28, m=3, n=40, d=150, active=6))
    for penalty in penalties_of(problem, 0.1):
        one, _ = solve(designs, penalty)
        np.testing.assert_allclose(solve(designs, penalty, n_jobs=n_jobs)[0], one, rtol=0, atol=1e-10)


# ------------------------------------------------------------------ the kernel: steps on a pattern


@pytest.mark.parametrize("seed", range(4))
def test_steps_on_a_pattern_are_those_of_lapack(seed):
    """Entries of every kind at random: the step is that of one linear system in all of them."""
    rng = np.random.default_rng(seed)
    designs, _ = make("unequal", seed)
    rows = CoupledRows(designs, rng.uniform(0.5, 2.0, (designs[0].d, 4)))
    work = rows._working(np.arange(8))
    work.W[:] = rng.standard_normal(work.W.shape)
    work.kinds[:] = rng.integers(0, 4, work.kinds.shape)
    work.kinds[3] = 0
    a, b = np.full(8, 0.3), np.full(8, 0.5)
    step = rows._on_pattern(work, a, b, 1e-10)
    rows._by_kernel = rows._by_task
    np.testing.assert_allclose(step, rows._on_pattern(work, a, b, 1e-10), atol=1e-11 * np.abs(step).max())
    assert np.abs(step[np.arange(8) != 3]).max() > 0.0
    assert not step[3].any()
    assert not step[work.kinds == 0].any()


def test_a_pattern_without_a_step_is_told():
    designs, _ = make("plain")
    rows = CoupledRows(designs, np.ones((designs[0].d, 4)))
    work = rows._working(np.arange(3))
    work.kinds[:], work.W[:] = 2, 1.0
    work.Q[:] = 1.0  # of rank one
    assert rows._on_pattern(work, np.ones(3), np.ones(3), -1e-3) is None
