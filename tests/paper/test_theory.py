"""Theorem 8 and its lemmas: sparse eigenvalues against brute force, every formula by hand, and what is proven against
what is measured. The names of the quantities are those of msmtfl.paper.theory."""

import warnings
from itertools import combinations
from math import comb, exp, inf, log, sqrt

import numpy as np
import pytest

from msmtfl import MSMTFL, MSMTFLCV, LassoMTL, stack_tasks
from msmtfl.datasets import make_multitask
from msmtfl.paper.theory import Condition, Interval, check_conditions, error_bound, sparse_eigenvalues

# ------------------------------------------------------------------ oracles


def brute_force(X, k, center=False):
    """rho-(k), rho+(k) by looking at all subsets."""
    Z = X - X.mean(axis=0) if center else X
    A = Z.T @ Z / len(Z)
    values = [np.linalg.eigvalsh(A[np.ix_(S, S)]) for S in combinations(range(len(A)), min(k, len(A)))]
    return max(min(v[0] for v in values), 0.0), max(v[-1] for v in values)


def orthogonal(rng, n, d):
    """X'X / n = I"""
    return sqrt(n) * np.linalg.qr(rng.standard_normal((n, d)))[0]


def equal_columns(rng, n, d):
    """Normal X with columns of mean square 1"""
    X = rng.standard_normal((n, d))
    return X / np.sqrt((X**2).mean(axis=0))


def noise_limit(Xs, sigma, eta=0.05):
    """12 sigma sqrt(2 nu(1) ln(2 d m / eta))"""
    nu = max((X**2).sum(axis=0).max() / len(X) ** 2 for X in Xs)
    return 12 * sigma * sqrt(2 * nu * log(2 * Xs[0].shape[1] * len(Xs) / eta))


def row_truth(rng, m, d, rows, norm, dense):
    """Coefficients (m, d) with `rows` random rows of this l1 norm: in all tasks, or in some of them."""
    W = np.zeros((m, d))
    for j in rng.choice(d, rows, replace=False):
        on = np.arange(m) if dense else rng.choice(m, rng.integers(1, m + 1), replace=False)
        v = rng.uniform(0.2, 1.0, len(on)) * rng.choice([-1.0, 1.0], len(on))
        W[on, j] = norm * v / np.abs(v).sum()
    return W


def measure(rng, Xs, W, lam, theta, sigma, **options):
    """Draw noise, fit, check."""
    ys = [X @ w + sigma * rng.standard_normal(len(X)) for X, w in zip(Xs, W, strict=True)]
    X, y, task = stack_tasks(Xs, ys)
    model = MSMTFL(lam=lam, theta=theta, fit_intercept=False).fit(X, y, task=task)
    return check_conditions(model, X, y, task=task, coef_true=W, sigma=sigma, **options)


def numbers(result):
    """All that a result says in numbers."""
    rows = [(*vars(one.needed).values(), one.have.low, one.have.high) for one in result.conditions]
    conditions = np.array([[float(v) for v in (row[0], row[1], *row[4:])] for row in rows])
    lemmas = np.array([(one.left, one.right) for one in result.lemmas if one.lemma != "33"])  # whose left is rounding
    return conditions, lemmas, result.bound.corrected, result.bound.literal


# ------------------------------------------------------------------ sparse eigenvalues


def ugly_design(rng, kind):
    n, d = rng.integers(2, 14), rng.integers(2, 10)
    X = rng.standard_normal((n, d))
    if kind == "duplicate":
        X[:, 0] = X[:, -1]
    elif kind == "opposite":
        X[:, 0] = -2 * X[:, -1]
    elif kind == "constant":
        X[:, 0] = 3.0
    elif kind == "zero":
        X[:, 0] = 0.0
    elif kind == "scales":
        X *= 10.0 ** rng.uniform(-8, 8, d)
    elif kind == "offset":
        X += 1000 * rng.standard_normal(d)
    elif kind == "correlated":
        X += 5 * rng.standard_normal((n, 1))
    return X


@pytest.mark.slow
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize(
    "kind", ["plain", "duplicate", "opposite", "constant", "zero", "scales", "offset", "correlated"]
)
@pytest.mark.sampled(3)
def test_intervals_hold_the_value_that_all_subsets_give(kind, center):
    rng = np.random.default_rng(0)
    for _ in range(3):
        X = ugly_design(rng, kind)
        rounding = 1e-12 * (X**2).sum() / len(X)  # of the brute force
        for k in range(1, X.shape[1] + 2):
            low, high = brute_force(X, k, center)
            for budget in (1, comb(X.shape[1], 3), 10**6):  # discs; subsets of 3; all
                found = sparse_eigenvalues(X, k, center=center, max_subsets=budget)
                lower, upper = found.lower[0], found.upper[0]
                assert lower.low - rounding <= low <= lower.high + rounding
                assert upper.low - rounding <= high <= upper.high + rounding
                assert 0.0 <= lower.low <= lower.high <= upper.high
                if budget == 10**6:
                    assert lower.exact
                    assert upper.exact
                    assert max(lower.high - lower.low, upper.high - upper.low) <= 1e-8 * upper.high + rounding


def test_known_values():
    A = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])
    X = sqrt(3) * np.linalg.cholesky(A).T  # X'X / 3 = A
    one, two, three, more = (sparse_eigenvalues(X, k) for k in (1, 2, 3, 9))
    assert (one.rho_min.high, one.rho_max.low) == pytest.approx((1.0, 2.0))
    assert (two.rho_min.low, two.rho_max.high) == pytest.approx((1.5 - sqrt(0.5), 3.0))  # columns 1 and 2; 0 and 1
    values = np.linalg.eigvalsh(A)
    assert (three.rho_min.low, three.rho_max.low) == pytest.approx((values[0], values[-1]))
    assert more.lower == three.lower  # above d it means d


def test_more_columns_than_independent_rows_have_eigenvalue_zero_exactly():
    X = np.random.default_rng(0).standard_normal((5, 40))
    assert sparse_eigenvalues(X, 5).rho_min.high > 0
    assert sparse_eigenvalues(X, 5, center=True).lower[0] == Interval(
        0.0, 0.0, True, "5 columns, at most 4 of them independent"
    )
    assert sparse_eigenvalues(X, 6).rho_min.high == 0.0


@pytest.mark.slow
def test_a_zero_column_and_a_copy_make_the_smallest_eigenvalue_zero():
    X = np.random.default_rng(0).standard_normal((50, 30))
    X[:, 7] = 0.0
    assert all(sparse_eigenvalues(X, k).rho_min.high == 0.0 for k in (1, 2, 12))
    X[:, 7] = X[:, 3]
    assert sparse_eigenvalues(X, 1).rho_min.low > 0.1
    assert all(sparse_eigenvalues(X, k).rho_min.high < 1e-12 for k in (2, 12))


def test_bounds_from_smaller_subsets_are_valid_and_of_use():
    X = equal_columns(np.random.default_rng(0), 60, 24)
    low, high = brute_force(X, 4)
    discs, averaged = (sparse_eigenvalues(X, 4, max_subsets=count) for count in (100, 2024))  # all subsets of 3
    assert all("all subsets of 3" in one.how for one in (averaged.lower[0], averaged.upper[0]))
    for found in (discs, averaged):
        assert found.rho_min.low <= low <= found.rho_min.high
        assert found.rho_max.low <= high <= found.rho_max.high
    assert averaged.rho_min.low > discs.rho_min.low + 0.05
    assert averaged.rho_max.high < discs.rho_max.high - 0.05


def test_tasks_have_their_own_eigenvalues():
    rng = np.random.default_rng(0)
    Xs = [scale * rng.standard_normal((n, 5)) for n, scale in ((20, 1.0), (9, 3.0), (4, 2.0))]
    X, _, task = stack_tasks(Xs, [np.zeros(len(X)) for X in Xs], labels=["a", "b", "c"])
    found = sparse_eigenvalues(X, 3, task=task)
    each = [brute_force(X, 3) for X in Xs]
    assert [one.low for one in found.lower] == pytest.approx([one[0] for one in each])
    assert [one.low for one in found.upper] == pytest.approx([one[1] for one in each])
    assert found.rho_min.low == pytest.approx(min(one[0] for one in each))
    assert found.rho_max.high == pytest.approx(max(one[1] for one in each))
    assert str(found).splitlines()[0].split()[:3] == ["task", "rho-(3)", "rho+(3)"]
    assert "all 10 subsets" in str(found)


def test_sparse_eigenvalues_say_what_is_wrong_with_the_input():
    X = np.ones((4, 2))
    with pytest.raises(ValueError, match="k must be at least 1"):
        sparse_eigenvalues(X, 0)
    with pytest.raises(TypeError, match="center must be True or False"):
        sparse_eigenvalues(X, 1, center=2)
    with pytest.raises(ValueError, match="NaN"):
        sparse_eigenvalues(np.array([[1.0, np.nan], [2.0, 1.0]]), 1)


# ------------------------------------------------------------------ the bound


def test_error_bound_by_hand():
    lam, m, r, nu, rho, sigma, eta = 0.03, 4, 3, 1.2 / 80, 0.7, 0.2, 0.1
    bound = error_bound(lam, m=m, rbar=r, nu=nu, rho_minus=rho, sigma=sigma, eta=eta, stages=4)
    noise = 39.5 * m * sigma * sqrt(nu * (7.4 * r + 2.7 * log(2 / eta))) / rho
    for l in range(1, 5):
        proven = 0.8 ** ((l - 1) / 2) * 9.1 * m * (m * lam) * sqrt(r) / rho + noise
        printed = 0.8 ** (l / 2) * 9.1 * m * lam * sqrt(r) / rho + noise
        assert (bound.corrected[l - 1], bound.literal[l - 1]) == pytest.approx((proven, printed))
    assert bound.noise == pytest.approx(noise)


@pytest.mark.parametrize("lam", [1e-4, 0.003, 0.1, 5.0])
def test_stages_needed_is_the_first_with_a_smaller_shrinking_term(lam):
    bound = error_bound(lam, m=3, rbar=2, nu=0.01, rho_minus=0.5, sigma=0.01, stages=200)
    shrinking = bound.corrected - bound.noise
    assert bound.stages_needed == 1 + int(np.argmax(shrinking < bound.noise))


def test_without_noise_or_eigenvalue_there_is_no_stage_to_wait_for():
    assert error_bound(1.0, m=1, rbar=1, nu=1.0, rho_minus=1.0, sigma=0.0).stages_needed is None
    nothing = error_bound(1.0, m=1, rbar=1, nu=1.0, rho_minus=0.0, sigma=1.0)
    assert nothing.stages_needed is None
    assert np.isinf(nothing.corrected).all()


def test_probability_is_that_of_a_union_bound_and_never_below_one_minus_one_and_a_half_eta():
    for m, r in ((1, 1), (1, 50), (2, 1), (30, 5)):
        for eta in (0.5, 0.05, 1e-3, 1e-9, 1e-30):
            p = error_bound(1.0, m=m, rbar=r, nu=1.0, rho_minus=1.0, sigma=1.0, eta=eta).probability
            assert 1 - 1.5 * eta <= p <= 1 - eta
    t = -log(1 - 0.5 - error_bound(1.0, m=1, rbar=1, nu=1.0, rho_minus=1.0, sigma=1.0, eta=0.5).probability)
    assert 1 + 2 * sqrt(t) + 2 * t == pytest.approx(
        7.4 + 2.7 * log(2 / 0.5)
    )  # where the tail inequality meets Lemma 13
    assert exp(-t) <= 0.25


def test_error_bound_says_what_is_wrong():
    good = {"m": 2, "rbar": 1, "nu": 0.1, "rho_minus": 1.0, "sigma": 0.1}
    for bad, message in (({"eta": 1.0}, "eta must be in"), ({"sigma": -1.0}, "sigma must be"), ({"m": 0}, "m must be")):
        with pytest.raises(ValueError, match=message):
            error_bound(0.1, **good | bad)


# ------------------------------------------------------------------ conditions


@pytest.mark.parametrize(
    ("needed", "have", "verdict"),
    [
        ((1.0, 2.0), 2.0, "holds"),
        ((1.0, 2.0), 1.99, "undecided"),
        ((1.0, 2.0), 1.0, "undecided"),
        ((1.0, 2.0), 0.99, "fails"),
        ((1.0, inf), 5.0, "undecided"),
        ((inf, inf), 5.0, "fails"),
        ((inf, inf), inf, "fails"),
        ((0.0, 0.0), 5.0, "holds"),
        ((3.0, 3.0), 3.0 * (1 - 1e-14), "holds"),
        ((3.0, 3.0), 3.0 * (1 - 1e-11), "fails"),
    ],
)
def test_a_verdict_takes_the_worst_and_the_best_case(needed, have, verdict):
    assert Condition("", "", Interval(*needed), Interval(have, have)).verdict == verdict


@pytest.fixture(scope="module")
def unequal():
    """Three tasks of different sizes with fixed truth, small enough for brute force."""
    rng = np.random.default_rng(5)
    Xs = [rng.standard_normal((n, 7)) * scale for n, scale in ((60, 1.0), (90, 1.5), (45, 0.8))]
    W = np.zeros((3, 7))
    W[:, 2], W[0, 5] = (3.0, -2.0, 1.0), 4.0
    ys = [X @ w + 0.3 * rng.standard_normal(len(X)) for X, w in zip(Xs, W, strict=True)]
    return Xs, ys, W


@pytest.mark.parametrize(("lam", "theta", "in_play"), [(1.0, 1.7, 2), (0.2, 0.05, 2), (0.02, 0.01, 6)])
def test_every_number_by_hand_with_tasks_of_different_sizes(unequal, lam, theta, in_play):
    Xs, ys, W = unequal
    X, y, task = stack_tasks(Xs, ys)
    sigma, eta, r, s, m, d = 0.3, 0.1, 2, 3, 3, 7
    model = MSMTFL(lam=lam, theta=theta, fit_intercept=False).fit(X, y, task=task)
    result = check_conditions(model, X, y, task=task, coef_true=W, sigma=sigma, eta=eta, s=s)
    minus = min(brute_force(X, 2 * r + s)[0] for X in Xs)
    nu = {k: max(brute_force(X, k)[1] / len(X) for X in Xs) for k in (1, r)}
    ratio = max(brute_force(X, s)[1] / brute_force(X, 2 * r + 2 * s)[0] for X in Xs)
    limit = sigma * sqrt(2 * nu[1] * log(2 * d * m / eta))
    square = m * sigma**2 * nu[r] * (7.4 * r + 2.7 * log(2 / eta))
    for conditions, Lam in ((result.conditions, m * lam), (result.literal_conditions, lam)):
        needed = [12 * limit, 11 * m * Lam / minus, 2 * theta, ratio]
        assert [one.needed.high for one in conditions] == pytest.approx(needed)
        assert [one.have.low for one in conditions] == pytest.approx([Lam, theta, 4.0, 1 + s / (2 * r)])
        assert [one.ratio.low for one in conditions] == pytest.approx(
            [one.have.low / one.needed.high for one in conditions]
        )
    bound = error_bound(lam, m=m, rbar=r, nu=nu[r], rho_minus=minus, sigma=sigma, eta=eta, stages=model.n_stages_)
    assert result.bound.corrected == pytest.approx(bound.corrected)

    H = np.array([2, 5])
    noise = np.array([X.T @ (X @ w - y) / len(X) for X, y, w in zip(Xs, ys, W, strict=True)])
    by = {(one.lemma, one.stage): one for one in result.lemmas}
    assert (by["13a", 0].left, by["13a", 0].right) == pytest.approx((np.abs(noise).max(), limit))
    assert (by["13b", 0].left, by["13b", 0].right) == pytest.approx(((noise[:, H] ** 2).sum(), square))
    Lam, size, before = m * lam, np.abs(noise).max(), np.zeros_like(W)
    for l, stage in enumerate(model.stages_, start=1):
        free = np.abs(before).sum(axis=0) >= theta
        G = np.array([j for j in range(d) if j not in H and not free[j]])
        rest = np.setdiff1d(np.arange(d), G)
        delta = stage.coef - W
        error = sqrt(sum(np.abs(delta[:, j]).sum() ** 2 for j in range(d)))
        left, right = np.abs(stage.coef[:, G]).sum(), inf
        if Lam > 2 * size:
            right = (2 * size + Lam) / (Lam - 2 * size) * np.abs(delta[:, rest]).sum()
        assert (by["14", l].left, by["14", l].right) == pytest.approx((left, right))
        assert by["14", l].premises == (Lam > 2 * size)
        weights = sum(Lam**2 for j in H for i in range(m) if W[i, j] != 0 and not free[j])
        first = (1 + 1.5 * sqrt(2 * r / s)) * sqrt(8 * m * (4 * (noise[:, rest] ** 2).sum() + weights)) / minus
        assert (by["15a", l].left, by["15a", l].right) == pytest.approx((error, first))
        assert (by["15b", l].left, by["15b", l].right) == pytest.approx((error, 9.1 * m * Lam * sqrt(r) / minus))
        assert (by["15 rows", l].left, by["15 rows", l].right) == (len(rest), 2 * r)
        off = sum(np.abs(W[:, j] - before[:, j]).sum() ** 2 for j in H)
        left, right = m * np.count_nonzero(~free[H]) * lam**2, m * lam**2 * off / theta**2
        assert (lam**2 * by["16", l].left, lam**2 * by["16", l].right) == pytest.approx((left, right))
        assert result.errors[l - 1] == pytest.approx(error)
        quiet, met = 12 * size <= Lam, {one.name: one.verdict == "holds" for one in result.conditions}
        assert by["15a", l].premises == by["15b", l].premises == (quiet and met["columns"] and len(rest) <= 2 * r)
        assert (by["15 rows", l].premises, by["16", l].premises) == (quiet and all(met.values()), met["rows"])
        before = stage.coef
    assert result.rows_in_play.max() == in_play


def test_intercepts_mean_centred_columns(unequal):
    Xs, ys, W = unequal
    moved = stack_tasks([X + 7.0 * k for k, X in enumerate(Xs, start=1)], [y - 5.0 * k for k, y in enumerate(ys)])
    centred = stack_tasks([X - X.mean(axis=0) for X in Xs], [y - y.mean() for y in ys])
    found = []
    for (X, y, task), intercept in ((moved, True), (centred, False)):
        model = MSMTFL(lam=0.05, theta=1.7, fit_intercept=intercept).fit(X, y, task=task)
        found.append(check_conditions(model, X, y, task=task, coef_true=W, sigma=0.3))
    for one, other in zip(*map(numbers, found), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_standardising_means_columns_divided_by_their_units(unequal, intercept):
    Xs, ys, W = unequal
    scales = 10.0 ** np.random.default_rng(0).uniform(-2, 2, (3, 7))
    Xs, W = [X * scale for X, scale in zip(Xs, scales, strict=True)], W / scales
    units = np.array([X.std(axis=0) if intercept else np.sqrt((X**2).mean(axis=0)) for X in Xs])
    raw, (Z, y, task) = stack_tasks(Xs, ys), stack_tasks([X / u for X, u in zip(Xs, units, strict=True)], ys)
    common = {"lam": 0.05, "theta": 1.7, "fit_intercept": intercept}
    a = check_conditions(
        MSMTFL(standardize=True, **common).fit(raw[0], y, task=task), raw[0], y, task=task, coef_true=W, sigma=0.3
    )
    b = check_conditions(MSMTFL(**common).fit(Z, y, task=task), Z, y, task=task, coef_true=W * units, sigma=0.3)
    for one, other in zip(numbers(a), numbers(b), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)


def test_forms_of_input_and_a_cross_validated_model_agree():
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((50, 4)), np.array([[2.0, 0, 0, 0], [1.0, 0, 0, 0]])
    Y = X @ W.T + 0.1 * rng.standard_normal((50, 2))
    wide = MSMTFL(lam=0.1, theta=1.0).fit(X, Y)
    a = check_conditions(wide, X, Y, coef_true=W, sigma=0.1)
    long = stack_tasks([X, X], [Y[:, 0], Y[:, 1]])
    b = check_conditions(
        MSMTFL(lam=0.1, theta=1.0).fit(long[0], long[1], task=long[2]), *long[:2], task=long[2], coef_true=W, sigma=0.1
    )
    for one, other in zip(numbers(a), numbers(b), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    chosen = MSMTFLCV(lams=[0.1], thetas=[1.0], cv=2).fit(X, Y)
    c = check_conditions(chosen, X, Y, coef_true=W, sigma=0.1)
    np.testing.assert_allclose(numbers(a)[0], numbers(c)[0])
    single = MSMTFL(lam=0.1, theta=1.0).fit(X, Y[:, 0])
    assert check_conditions(single, X, Y[:, 0], coef_true=W[0], sigma=0.1).setting["m"] == 1


# ------------------------------------------------------------------ the choice of s


def test_the_first_s_that_meets_the_condition_is_taken():
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal(np.zeros(5), 0.4 * np.eye(5) + 0.6, 400)
    w = np.array([5.0, 0, 0, 0, 0])
    y = X @ w + 0.1 * rng.standard_normal(400)
    model = MSMTFL(lam=0.2, theta=1.0, fit_intercept=False).fit(X, y)
    s = check_conditions(model, X, y, coef_true=w, sigma=0.1).setting["s"]
    assert s > 5  # beyond the number of columns: rho(k) is then that of all
    met = [brute_force(X, q)[1] / brute_force(X, 2 + 2 * q)[0] <= 1 + q / 2 for q in range(1, s + 1)]
    assert met[-1]
    assert not any(met[: s // 2])  # not all s are tried
    assert check_conditions(model, X, y, coef_true=w, sigma=0.1, s=1).conditions[3].verdict == "fails"


def test_columns_known_too_little_leave_it_undecided():
    rng = np.random.default_rng(0)
    Xs = [equal_columns(rng, 400, 30) for _ in range(2)]
    lam = noise_limit(Xs, 0.1)
    theta = 44 * lam / 0.4
    W = row_truth(rng, 2, 30, 1, 3 * theta, True)
    little = measure(rng, Xs, W, lam, theta, 0.1, s=1, max_subsets=1)
    assert little.verdict == "undecided"
    assert str(little).startswith("Theorem 8 is undecided: columns (")
    enough = measure(rng, Xs, W, lam, theta, 0.1, s=1)
    assert enough.verdict == "holds"
    assert enough.conditions[3].needed.exact


# ------------------------------------------------------------------ what is proven holds


def assert_proven(result):
    assert result.verdict == "holds", str(result)
    assert (result.errors <= result.bound.sharpened).all()
    assert result.errors[-1] <= result.bound.limit  # all of these have converged
    assert (result.rows_in_play <= 2 * result.setting["rbar"]).all()
    for one in result.lemmas:
        assert one.holds or not one.premises, one
    assert str(result).startswith("Theorem 8 applies: all conditions hold")


SHAPES = [(1, 50, 20, 2), (2, 40, 40, 1), (5, 60, 20, 3), (10, 64, 30, 8), (30, 48, 12, 2)]  # m, n, d, rbar


@pytest.mark.slow
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize(("m", "n", "d", "r"), SHAPES)
@pytest.mark.sampled(3)
def test_the_bound_is_never_violated_on_orthogonal_designs(m, n, d, r, dense):
    rng = np.random.default_rng(m)
    for sigma in (0.01, 2.0):
        Xs = [orthogonal(rng, n, d) for _ in range(m)]
        lam = noise_limit(Xs, sigma) / m * (1 + 1e-9)
        theta = 11 * m**2 * lam * (1 + 1e-9)
        W = row_truth(rng, m, d, r, 2 * theta * (1 + 1e-9), dense)
        assert_proven(measure(rng, Xs, W, lam, theta, sigma))


@pytest.mark.parametrize(("sizes", "d", "r"), [((3000, 4000, 2500), 12, 2), ((900,), 6, 1), ((2000,) * 8, 10, 1)])
def test_the_bound_is_never_violated_on_random_designs(sizes, d, r):
    rng = np.random.default_rng(len(sizes))
    m, sigma = len(sizes), 0.5
    for dense in (True, False):
        Xs = [rng.standard_normal((n, d)) for n in sizes]
        lam = noise_limit(Xs, sigma) / m * (1 + 1e-9)
        theta = 11 * m**2 * lam / 0.6
        assert_proven(measure(rng, Xs, row_truth(rng, m, d, r, 2.001 * theta, dense), lam, theta, sigma))


def test_the_bound_is_never_violated_with_correlated_columns_and_an_s_beyond_d():
    rng = np.random.default_rng(0)
    for dense in (True, False) * 4:
        Xs = [rng.multivariate_normal(np.zeros(5), 0.3 * np.eye(5) + 0.7, 500) for _ in range(3)]
        lam = noise_limit(Xs, 0.5) / 3 * (1 + 1e-9)
        theta = 11 * 9 * lam / 0.2
        result = measure(rng, Xs, row_truth(rng, 3, 5, 1, 2.001 * theta, dense), lam, theta, 0.5)
        assert result.setting["s"] > 5
        assert_proven(result)


def test_the_bound_is_never_violated_with_more_features_than_rows():
    """[I, Hadamard]: any two columns have a correlation of 0 or 1/16, which certifies what no enumeration could."""
    H = np.ones((1, 1))
    while len(H) < 256:
        H = np.block([[H, H], [H, -H]])
    rng = np.random.default_rng(0)
    X = np.hstack([16 * np.eye(256), H])
    for dense in (True, False):
        lam = noise_limit([X, X], 0.1) / 2 * (1 + 1e-9)
        theta = 44 * lam / 0.8
        W = row_truth(rng, 2, 512, 1, 2.001 * theta, dense)
        Y = X @ W.T + 0.1 * rng.standard_normal((256, 2))
        model = MSMTFL(lam=lam, theta=theta, fit_intercept=False).fit(X, Y)
        result = check_conditions(model, X, Y, coef_true=W, sigma=0.1)
        assert not result.conditions[3].needed.exact
        assert_proven(result)


@pytest.mark.slow
def test_lemma_14_holds_on_any_design_from_its_premise_on():
    rng = np.random.default_rng(0)
    busy = 0
    for _ in range(25):
        m, n, d = rng.integers(1, 5), rng.integers(8, 25), rng.integers(4, 30)
        Xs = [rng.standard_normal((n, d)) + rng.standard_normal((n, 1)) for _ in range(m)]
        W = row_truth(rng, m, d, 2, 3.0, False)
        ys = [X @ w + 0.5 * rng.standard_normal(n) for X, w in zip(Xs, W, strict=True)]
        size = max(np.abs(X.T @ (X @ w - y)).max() / n for X, y, w in zip(Xs, ys, W, strict=True))
        X, y, task = stack_tasks(Xs, ys)
        model = MSMTFL(lam=2.05 * size / m, theta=1.0, fit_intercept=False, max_stages=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, y, task=task)
        lemmas = check_conditions(model, X, y, task=task, coef_true=W, sigma=0.5, max_subsets=1).lemmas
        assert all(one.premises and one.holds for one in lemmas if one.lemma == "14")
        assert all(one.holds for one in lemmas if one.premises and one.stage)
        busy += sum(one.left > 0 for one in lemmas if one.lemma == "14")
    assert busy > 12


def test_lemma_15_has_no_say_where_too_many_rows_are_in_play():
    rng = np.random.default_rng(0)
    Xs = [rng.standard_normal((100, 6)) for _ in range(3)]
    for X in Xs:
        X[:, 1:] += 2 * X[:, :1]  # larger than what they copy: the lasso prefers them
    W = np.zeros((3, 6))
    W[:, 0] = 5.0
    result = measure(rng, Xs, W, noise_limit(Xs, 0.1), 1e-3, 0.1)
    assert result.conditions[3].verdict == "holds"
    premises = [one.premises for one in result.lemmas if one.lemma == "15a"]
    assert premises == (result.rows_in_play <= 2).tolist()
    assert set(premises) == {True, False}


def test_literal_bound_is_violated_by_an_orthogonal_design_with_dense_rows():
    """m = 30: stage 1 takes m lam / 2 off each of the 30 entries of the row, 15 of every 22 lam. Its norm falls below
    theta, so it is never freed: the error stays at m^2 lam / 2 = 450 lam, above the printed bound at all stages."""
    rng = np.random.default_rng(0)
    m, n, d, sigma = 30, 64, 40, 0.01
    Xs = [orthogonal(rng, n, d) for _ in range(m)]
    lam = noise_limit(Xs, sigma) * (1 + 1e-9)  # the literal limits
    theta = 11 * m * lam * (1 + 1e-9)
    W = np.zeros((m, d))
    W[:, 3] = 2 * theta / m * (1 + 1e-9)
    result = measure(rng, Xs, W, lam, theta, sigma)
    assert result.literal_verdict == "holds"
    assert result.errors[-1] == pytest.approx(450 * lam, rel=0.02)
    assert result.errors[0] > 1.3 * result.bound.literal[0]
    assert result.converged
    assert result.errors[-1] > 5 * result.bound.noise  # what the printed bound comes to over further stages
    assert [one.name for one in result.conditions if one.verdict == "fails"] == ["theta"]
    assert result.conditions[1].ratio.high == pytest.approx(1 / m)
    assert (result.errors <= result.bound.corrected).all()
    assert str(result).startswith("Theorem 8 does not apply: theta (0.03333 of what is needed)")
    assert "the sharpened bound of the last" not in str(result)


@pytest.mark.parametrize("noise", ["gaussian", "rademacher"])
@pytest.mark.parametrize("eta", [0.5, 0.05])
def test_both_events_of_lemma_13_are_as_probable_as_stated(noise, eta):
    rng = np.random.default_rng(0)
    m, n, d, r, draws = 4, 30, 12, 3, 4000
    Xs = [rng.standard_normal((n, d)) for _ in range(m)]
    W = row_truth(rng, m, d, r, 5.0, True)
    result = measure(rng, Xs, W, 0.2, 1.0, 1.0, eta=eta)
    right = {one.lemma: one.right for one in result.lemmas}
    H = W.any(axis=0)
    shape = (draws, n)
    deltas = [rng.standard_normal(shape) if noise == "gaussian" else rng.choice([-1.0, 1.0], shape) for _ in Xs]
    E = np.stack([delta @ X / n for delta, X in zip(deltas, Xs, strict=True)], axis=1)  # (draws, m, d)
    largest, square = np.abs(E).max(axis=(1, 2)), (E[:, :, H] ** 2).sum(axis=(1, 2))
    slack = 3 * sqrt(eta * (1 - eta) / draws)
    assert (largest <= right["13a"]).mean() >= 1 - eta - slack
    assert (square <= right["13b"]).mean() >= 1 - eta / 2 - slack
    both = (largest <= right["13a"]) & (square <= right["13b"])
    assert both.mean() >= result.bound.probability - slack
    assert (largest > 0.5 * right["13a"]).mean() > eta  # the first is no empty statement


# ------------------------------------------------------------------ the paper's own settings


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n", "d", "sigma"), [(15, 40, 250, 0.01), (20, 30, 200, 0.005), (10, 60, 300, 0.001)])
def test_the_papers_settings_are_out_of_reach_of_its_theorem(m, n, d, sigma):
    X, y, task, W = make_multitask(m, n, d, sigma=sigma)
    model = MSMTFL(fit_intercept=False).fit(X, y, task=task)
    result = check_conditions(model, X, y, task=task, coef_true=W, sigma=sigma)
    four = 4 * int(W.any(axis=0).sum())
    assert four > n
    assert str(result).startswith(
        f"Theorem 8 does not apply: 4 rbar = {four} > n = {n}: no design can satisfy the eigenvalue condition"
    )
    assert (result.verdict, result.literal_verdict) == ("fails", "fails")
    assert np.isinf(result.bound.corrected).all()
    with_intercept = MSMTFL().fit(X, y, task=task)
    again = check_conditions(with_intercept, X, y, task=task, coef_true=W, sigma=sigma)
    assert again.impossible == f"4 rbar = {four} > n - 1 = {n - 1} (centred)"


# ------------------------------------------------------------------ without the truth


def test_what_is_not_known_is_plugged_in_and_labelled(unequal):
    X, y, task = stack_tasks(*unequal[:2])
    model = MSMTFL(lam=0.1, theta=1.7).fit(X, y, task=task)
    result = check_conditions(model, X, y, task=task)
    residual = y - model.predict(X, task=task)
    sigma = sqrt(residual @ residual / (len(y) - np.count_nonzero(model.coef_) - 3))
    assert result.setting["sigma"] == pytest.approx(sigma)
    assert result.setting["rbar"] == np.count_nonzero(model.coef_.any(axis=0))
    assert result.plug_in == ("rbar", "sigma")
    assert (result.errors, result.rows_in_play, result.lemmas) == (None, None, ())
    text = str(result)
    assert "plug-in: rbar and sigma estimated" in text.splitlines()[0]
    assert f"sigma = {sigma:.4g} (plug-in)" in text
    given = check_conditions(model, X, y, task=task, coef_true=unequal[2])
    assert given.plug_in == ("sigma",)
    centred = [np.var(y - X @ w) * len(y) for X, y, w in zip(*unequal, strict=True)]
    assert given.setting["sigma"] == pytest.approx(sqrt(sum(centred) / (len(y) - 3)))


def test_the_certificate_of_the_fit_ends_the_answer(unequal):
    X, y, task = stack_tasks(*unequal[:2])
    model = MSMTFL(lam=0.1, theta=1.7).fit(X, y, task=task)
    assert str(check_conditions(model, X, y, task=task, sigma=1.0)).endswith(str(model.certificate_))


def test_theta_infinite_is_the_lasso_and_no_row_is_large_enough(unequal):
    X, y, task = stack_tasks(*unequal[:2])
    model = MSMTFL(lam=0.1, theta=inf).fit(X, y, task=task)
    result = check_conditions(model, X, y, task=task, coef_true=unequal[2], sigma=0.3)
    assert [one.verdict for one in result.conditions[1:3]] == ["holds", "fails"]


def test_what_the_theorem_is_not_about_is_refused(unequal):
    given, target, task = stack_tasks(*unequal[:2])

    def check(model, X=given, weight=None, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(given, target, task=task, sample_weight=weight)
        return check_conditions(model, X, target, task=task, **options)

    for model, message in (
        (MSMTFL(lam=0.1, positive=True), "positive=True"),
        (MSMTFL(lam=0.1, penalty_factors=[1, 2, 1, 1, 1, 1, 1]), "penalty_factors"),
        (MSMTFL(lam=0.1, theta=1.0, coef_init=np.full((3, 7), 9.0)), "start at 0"),
        (MSMTFL(lam=1e3), "all coefficients are zero"),
    ):
        with pytest.raises(ValueError, match=message):
            check(model)
    with pytest.raises(ValueError, match="sample weights"):
        check(MSMTFL(lam=0.1), weight=np.linspace(0.5, 2.0, len(target)))
    with pytest.raises(ValueError, match="not the data of the fit"):
        check(MSMTFL(lam=0.1), X=given + np.arange(7) * given[:, :1])
    with pytest.raises(ValueError, match="s=1 must be at least rbar = 2"):
        check(MSMTFL(lam=0.1), coef_true=unequal[2], s=1)
    with pytest.raises(ValueError, match="eta must be in"):
        check(MSMTFL(lam=0.1), eta=2.0)
    with pytest.raises(ValueError, match=r"coef_true has shape \(3, 6\)"):
        check(MSMTFL(lam=0.1), coef_true=unequal[2][:, :6])
    with pytest.raises(TypeError, match="not LassoMTL"):
        check(LassoMTL(lam=0.1))


def test_sigma_needs_degrees_of_freedom():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4, 3)), rng.standard_normal(4)
    model = MSMTFL(lam=1e-8, theta=1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X, y)
    with pytest.raises(ValueError, match="sigma cannot be estimated: 4 rows, 4 coefficients and intercepts"):
        check_conditions(model, X, y)
    assert check_conditions(model, X, y, sigma=0.1).plug_in == ("rbar",)


# ------------------------------------------------------------------ tables and picture


def test_tables_hold_what_the_result_says(unequal):
    X, y, task = stack_tasks(*unequal[:2])
    model = MSMTFL(lam=0.05, theta=1.7).fit(X, y, task=task)
    result = check_conditions(model, X, y, task=task, coef_true=unequal[2], sigma=0.3)
    conditions = result.to_frame()
    assert conditions["condition"].tolist() == ["lam", "theta", "rows", "columns"] * 2
    assert conditions["form"].tolist() == ["corrected"] * 4 + ["literal"] * 4
    assert conditions["verdict"].tolist()[:4] == [one.verdict for one in result.conditions]
    np.testing.assert_array_equal(conditions["ratio_low"][4:], [one.ratio.low for one in result.literal_conditions])
    stages = result.to_frame("stages")
    assert list(stages) == ["stage", "bound", "sharpened", "as_printed", "error", "rows_in_play"]
    np.testing.assert_array_equal(stages["error"], result.errors)
    np.testing.assert_array_equal(stages["sharpened"], result.bound.sharpened)
    lemmas = result.to_frame("lemmas")
    assert len(lemmas) == len(result.lemmas) == 4 + 14 * model.n_stages_
    assert lemmas["words"].tolist() == [one.words for one in result.lemmas]
    assert all(words in str(result) for words in lemmas["words"])
    with pytest.raises(ValueError, match="table must be"):
        result.to_frame("rows")
    lines = str(result).splitlines()
    assert any(line.startswith("m lam >= 12 sigma") for line in lines)
    assert all(f"{value:.4g}" in str(result) for value in (*result.bound.corrected, *result.errors))


def test_plot_shows_bounds_and_errors(unequal):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, y, task = stack_tasks(*unequal[:2])
    model = MSMTFL(lam=0.05, theta=1.7).fit(X, y, task=task)
    _, ax = pyplot.subplots()
    result = check_conditions(model, X, y, task=task, coef_true=unequal[2], sigma=0.3)
    assert result.plot(ax) is ax
    assert [line.get_label() for line in ax.lines] == ["bound", "sharpened", "as printed", "error"]
    np.testing.assert_array_equal(ax.lines[0].get_ydata()[: model.n_stages_], result.bound.corrected)
    np.testing.assert_array_equal(ax.lines[1].get_ydata()[: model.n_stages_], result.bound.sharpened)
    shown = ax.lines[3].get_ydata()
    assert (len(shown), shown[-1]) == (10, result.errors[-1])  # converged: later stages are the same
    assert ax.get_yscale() == "log"
    without = check_conditions(model, X, y, task=task).plot()
    assert [line.get_label() for line in without.lines] == ["bound", "sharpened", "as printed"]
    pyplot.close("all")
