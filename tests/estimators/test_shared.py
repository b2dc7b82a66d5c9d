"""SharedMTL and its search: the lasso it is, the models at its ends, ugly data, statistics, certificates of W."""

import pickle
import warnings

import numpy as np
import oracles
import pandas as pd
import pytest
from sklearn.linear_model import Lasso
from sklearn.utils.estimator_checks import parametrize_with_checks

from msmtfl import MSMTFL, LassoMTL, Moments, SharedMTL, SharedMTLCV, stability_selection, stack_tasks
from msmtfl._data.tasks import read_training
from msmtfl._objective.coupled.common_penalty import CappedDeviations, SharedNorm
from msmtfl._objective.proofs.row_certificates import certify_rows
from msmtfl._paths.families.common_path import DENSE, settled, shared_grid, solve_shared
from msmtfl._solvers.coupled.common_part import Remainder, Stacked, StackedGrams, StackedLassos
from msmtfl._solvers.problems.make_problem import make_problem
from msmtfl.inference import draw_halves


@pytest.mark.slow
@parametrize_with_checks([SharedMTL(), SharedMTL(theta=0.1), SharedMTLCV(lams=2, ratios=[0.5], cv=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


LABELS = ["east", "north", "south", "west"]
X, y, TASK = stack_tasks(*oracles.random_tasks(0, m=4, n=[20, 25, 30, 35], d=15, active=5), labels=LABELS)
y = y + 2.0 * X[:, 7] + X[:, 8] + 1.0
N, M, D = len(y), 4, 15
rng = np.random.default_rng(1)
WEIGHT = rng.uniform(0.2, 2.0, N)
Y = np.column_stack([X[:, 0] + 0.2 * rng.standard_normal(N), X[:, 0] - X[:, 1], X[:, 1] + rng.standard_normal(N)])
Y[:, 1:][rng.random((N, 2)) < 0.2] = np.nan


def centred(X=X, y=y, task=TASK):
    """Per task (X_i, y_i), centred."""
    for label in pd.unique(task):
        rows = np.asarray(task) == label
        yield X[rows] - X[rows].mean(axis=0), y[rows] - y[rows].mean()


def augmented(X=X, y=y, task=TASK):
    """The design with (m + 1) d columns and its target, rows scaled so that its sum of squares is the loss of (1)."""
    parts = list(centred(X, y, task))
    m, d = len(parts), X.shape[1]
    Z = np.zeros((sum(len(y_i) for _, y_i in parts), (m + 1) * d))
    target, at = np.zeros(len(Z)), 0
    for i, (X_i, y_i) in enumerate(parts):
        rows, root = slice(at, at + len(y_i)), np.sqrt(1.0 / (m * len(y_i)))
        Z[rows, :d] = Z[rows, (i + 1) * d : (i + 2) * d] = root * X_i
        target[rows], at = root * y_i, at + len(y_i)
    return Z, target


def objective(b, V, lam_common, lam_deviation, theta=np.inf):
    Z, target = augmented()
    loss = ((target - Z @ np.concatenate([b, V.ravel()])) ** 2).sum()
    capped = np.minimum(np.abs(V).sum(axis=0), theta).sum()
    return loss + lam_common * np.abs(b).sum() + lam_deviation * capped


def explicit_lasso(weights, X=X, y=y, task=TASK):
    """scikit-learn's lasso of the augmented design with one weight per column: b, V."""
    Z, target = augmented(X, y, task)
    rows = len(Z)
    model = Lasso(alpha=0.5 / rows, fit_intercept=False, tol=1e-13, max_iter=10**6)
    P = model.fit(Z / weights, target).coef_ / weights
    return P[: X.shape[1]], P[X.shape[1] :].reshape(-1, X.shape[1])


# ------------------------------------------------------------------ one stage


@pytest.mark.parametrize("ratio", [0.3, 1.3, 2.6, 3.7])
@pytest.mark.parametrize("lam", [0.02, 0.1])
def test_one_stage_is_the_lasso_of_the_augmented_design(ratio, lam):
    model = SharedMTL(ratio * lam, lam).fit(X, y, task=TASK)
    b, V = explicit_lasso(np.repeat([ratio * lam, lam], [D, M * D]))
    np.testing.assert_allclose(model.coef_common_, b, atol=1e-9)
    np.testing.assert_allclose(model.coef_deviation_, V, atol=1e-9)
    np.testing.assert_allclose(model.coef_, model.coef_common_ + model.coef_deviation_, atol=0)
    np.testing.assert_allclose(model.objective_, objective(b, V, ratio * lam, lam), rtol=1e-10)
    assert model.dual_gap_ < 1e-12
    assert model.certificate_.unique
    assert model.converged_
    means = pd.DataFrame(X).groupby(TASK).mean().to_numpy()
    np.testing.assert_allclose(
        model.intercept_, pd.Series(y).groupby(TASK).mean() - (means * model.coef_).sum(axis=1), atol=1e-12
    )


def test_standardized_weights_are_task_deviations_and_their_mean_square():
    S = X * np.geomspace(0.01, 100.0, D)
    model = SharedMTL(0.15, 0.1, standardize=True).fit(S, y, task=TASK)
    sd = np.array([part.std(axis=0) for part, _ in centred(S)])
    weights = np.concatenate([0.15 * np.sqrt((sd**2).mean(axis=0)), 0.1 * sd.ravel()])
    b, V = explicit_lasso(weights, S)
    np.testing.assert_allclose(model.coef_ * sd, (b + V) * sd, atol=1e-9)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("times", [1.0, 1.5])
def test_no_common_part_from_m_lam_deviation_on(standardize, times):
    lasso = LassoMTL(0.1, standardize=standardize).fit(X, y, task=TASK)
    model = SharedMTL(times * M * 0.1, 0.1, standardize=standardize).fit(X, y, task=TASK)
    assert not model.coef_common_.any()
    np.testing.assert_allclose(model.coef_, lasso.coef_, atol=1e-12)
    np.testing.assert_allclose(model.objective_, lasso.objective_, rtol=1e-12)
    assert SharedMTL(0.8 * M * 0.1, 0.1).fit(X, y, task=TASK).coef_common_.any()


@pytest.mark.parametrize("theta", [0.5, 2.0, np.inf])
def test_without_a_common_part_it_is_msmtfl(theta):
    model = SharedMTL(np.inf, 0.1, theta).fit(X, y, task=TASK)
    paper = MSMTFL(0.1, theta).fit(X, y, task=TASK)
    np.testing.assert_allclose(model.coef_, paper.coef_, atol=1e-12)
    assert [s.free_rows.tolist() for s in model.stages_] == [s.free_rows.tolist() for s in paper.stages_]
    np.testing.assert_allclose([s.objective for s in model.stages_], [s.objective for s in paper.stages_], rtol=1e-12)


@pytest.mark.parametrize("lam_deviation", [1e3, np.inf])
def test_without_deviations_it_is_the_pooled_lasso(lam_deviation):
    parts = list(centred())
    weight = np.concatenate([np.full(len(y_i), 1.0 / len(y_i)) for _, y_i in parts])
    pooled = LassoMTL(0.3, fit_intercept=False).fit(
        np.concatenate([part for part, _ in parts]), np.concatenate([y_i for _, y_i in parts]), sample_weight=weight
    )
    model = SharedMTL(0.3, lam_deviation).fit(X, y, task=TASK)
    assert not model.coef_deviation_.any()
    assert pooled.coef_.any()
    np.testing.assert_allclose(model.coef_, np.tile(pooled.coef_, (M, 1)), atol=1e-12)


def test_one_task_is_the_lasso_at_the_smaller_lam():
    lasso = LassoMTL(0.1).fit(X, y)
    for common, deviation in ((0.1, 0.3), (0.3, 0.1), (0.1, 0.1)):
        model = SharedMTL(common, deviation).fit(X, y)
        np.testing.assert_allclose(model.coef_, lasso.coef_, atol=1e-11)
        assert model.coef_deviation_.shape == model.coef_common_.shape == (D,)
        assert np.isscalar(model.intercept_)
        assert model.certificate_.unique


def test_defaults_and_lam_max():
    model = SharedMTL().fit(X, y, task=TASK)
    assert np.isclose(model.lam_common_, 2.0 * model.lam_deviation_)
    assert np.isclose(model.lam_common_, 0.1 * model.lam_max_)
    for given in ({"lam_common": 0.2}, {"lam_deviation": 0.1}):
        one = SharedMTL(**given).fit(X, y, task=TASK)
        assert (one.lam_common_, one.lam_deviation_) == (0.2, 0.1)
    for ratio in (0.5, 3.0, np.inf):
        for times, zero in ((1.0 + 1e-9, True), (0.99, False)):
            top = SharedMTL(*((ratio * 0.1, 0.1) if ratio < np.inf else (np.inf, 0.1))).fit(X, y, task=TASK).lam_max_
            lams = (times * top, times * top / ratio) if ratio < np.inf else (np.inf, times * top)
            assert (not SharedMTL(*lams).fit(X, y, task=TASK).coef_.any()) == zero


# ------------------------------------------------------------------ stages


@pytest.mark.parametrize("theta", [0.3, 1.0, 3.0])
def test_stages_descend_to_a_critical_point_of_capped_deviations(theta):
    model = SharedMTL(0.2, 0.12, theta).fit(X, y, task=TASK)
    assert model.converged_
    assert model.certificate_.monotone
    assert model.certificate_.critical < 1e-10
    assert model.n_stages_ > 1
    assert all(stage.dual_gap < 1e-12 for stage in model.stages_)
    capped = np.abs(model.coef_deviation_).sum(axis=0) >= theta
    assert model.stages_[-1].free_rows.tolist() == np.flatnonzero(capped).tolist()
    value = objective(model.coef_common_, model.coef_deviation_, 0.2, 0.12, theta)
    np.testing.assert_allclose(model.objective_, value, rtol=1e-10)
    again = SharedMTL(0.2, 0.12, theta, warm_start=True).fit(X, y, task=TASK).fit(X, y, task=TASK)
    assert again.n_stages_ == 1
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-12)


def test_one_row_of_the_penalty_has_the_weights_of_its_slopes():
    penalty = CappedDeviations(0.7, 0.4, 1.5, np.ones((3, 2)), np.ones(3))
    P = np.array([0.5, -1.0, 0.0, 0.1, 2.0, 0.0, -0.3, -1.0, 0.0])  # b; v_1; v_2
    weights = penalty.weights(penalty.pattern(P[:, None])).weights()
    for k in np.flatnonzero(P):
        up, down = P.copy(), P.copy()
        up[k] += 1e-6
        down[k] -= 1e-6
        slope = (penalty.value(up[:, None]) - penalty.value(down[:, None])) / 2e-6
        np.testing.assert_allclose(slope, weights[k] * np.sign(P[k]), atol=1e-8)


def test_relaxed_coefficients_are_least_squares_on_the_support():
    plain = SharedMTL(0.3, 0.2).fit(X, y, task=TASK)
    model = SharedMTL(0.3, 0.2, relax=True).fit(X, y, task=TASK)
    Z, target = augmented()
    P = np.concatenate([plain.coef_common_, plain.coef_deviation_.ravel()])
    used = np.flatnonzero(P)
    best = np.zeros_like(P)
    best[used] = np.linalg.lstsq(Z[:, used], target, rcond=None)[0]
    np.testing.assert_allclose(model.coef_, (best[:D] + best[D:].reshape(M, D)), atol=1e-9)
    np.testing.assert_allclose(model.coef_, model.coef_common_ + model.coef_deviation_, atol=0)


def test_factors_leave_features_free_or_out():
    f = np.ones(D)
    f[7], f[8], f[2] = 0.0, np.inf, 3.0
    model = SharedMTL(0.2, 0.1, penalty_factors=f).fit(X, y, task=TASK)
    assert not model.coef_[:, 8].any()
    assert model.coef_common_[7] == 0.0
    assert model.coef_[:, 7].all()
    weights = np.tile(f, M + 1) * np.repeat([0.2, 0.1], [D, M * D])
    weights = np.where(np.isinf(weights), 1e9, np.where(weights == 0, 1e-12, weights))
    b, V = explicit_lasso(weights)
    np.testing.assert_allclose(model.coef_, b + V, atol=1e-6)
    with pytest.raises(ValueError, match="one entry per feature"):
        SharedMTL(penalty_factors=np.ones((D, M))).fit(X, y, task=TASK)


# ------------------------------------------------------------------ what is not unique


@pytest.mark.parametrize("ratio", [2.0, 4.0])  # whole, and as even as m: b can move where all tasks deviate
def test_of_several_common_values_the_smallest_is_given(ratio):
    model = SharedMTL(ratio * 0.02, 0.02).fit(X, y, task=TASK)
    assert model.certificate_.unique
    assert model.dual_gap_ < 1e-12
    norm = SharedNorm(np.full(D, 0.02), np.full(D, ratio * 0.02), np.ones((D, M)))
    W, b = model.coef_.T, model.coef_common_
    here = norm.values(W)
    for smaller in (0.0, 0.5, 0.9):
        value = ratio * 0.02 * np.abs(smaller * b) + 0.02 * np.abs(W - smaller * b[:, None]).sum(axis=1)
        assert (value[b != 0] > here[b != 0] * (1 + 1e-9)).all()
        assert (value >= here - 1e-15).all()


def test_split_and_dual_of_a_row_against_brute_force():
    random = np.random.default_rng(3)
    for m in (1, 2, 5):
        for c, a in ((0.5, 1.0), (1.0, 1.0), (2.5, 0.7), (np.inf, 1.0), (1.0, np.inf)):
            f = random.uniform(0.5, 2.0, (20, m))
            W = random.standard_normal((20, m)).round(1)
            if np.isinf(a):
                W = np.repeat(W[:, :1], m, axis=1)
            norm = SharedNorm(np.full(20, a), np.full(20, c), f)
            tried = np.concatenate([np.zeros((20, 1)), W], axis=1)
            with np.errstate(invalid="ignore", over="ignore"):
                apart = np.nan_to_num(a * f[:, None] * np.abs(W[:, None] - tried[:, :, None])).sum(axis=2)
                values = np.nan_to_num(c * np.abs(tried)) + np.where(apart > 1e300, np.inf, apart)
            np.testing.assert_allclose(norm.values(W), values.min(axis=1), rtol=1e-12, atol=1e-15)
            G = random.standard_normal((20, m))
            G /= norm.dual(G)[:, None]
            assert ((G * W).sum(axis=1) <= norm.values(W) + 1e-12).all()


def test_a_copied_column_is_not_called_unique():
    twice = np.column_stack([X, X[:, 7]])
    model = SharedMTL(0.2, 0.12).fit(twice, y, task=TASK)
    assert not model.certificate_.unique
    assert model.dual_gap_ < 1e-12
    assert {"x7", "x15"} <= set(model.certificate_.ambiguous["east"])
    once = SharedMTL(0.2, 0.12).fit(X, y, task=TASK)
    np.testing.assert_allclose(model.coef_[:, 7] + model.coef_[:, 15], once.coef_[:, 7], atol=1e-10)
    np.testing.assert_allclose(model.objective_, once.objective_, rtol=1e-12)


def test_deviations_that_are_not_unique_are_the_same_wherever_the_solver_starts():
    twice = X.copy()
    twice[TASK == "north", 8] = twice[TASK == "north", 7]  # equal in one task: b is unique, v_1 is not
    problem = make_problem(read_training(twice, y, task=TASK), fit_intercept=True, standardize=False, positive=False)
    norm = SharedNorm(np.full(D, 0.02), np.full(D, 0.03), problem.factors)
    found, slid = [], False
    for start in (None, 1, 2):
        lassos = StackedLassos(StackedGrams(problem.designs), units=problem.units)
        if start is not None:
            lassos.warm(np.random.default_rng(start).standard_normal((M + 1) * D))
        found.append(lassos.solve(0.5 * M * norm.weights())[0])
        slid |= lassos.slid
    assert slid
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-9)


# ------------------------------------------------------------------ ugly data


def ugly(seed):
    random = np.random.default_rng(seed)
    m, d = random.integers(1, 6), random.integers(1, 30)
    Xs, ys = [], []
    for _ in range(m):
        n = random.integers(1, 25)
        Z = random.standard_normal((n, d))
        kind = random.integers(0, 6)
        if kind == 0:
            Z = (Z > 0.7).astype(float)
        elif kind == 1:
            Z[:, : d // 2] = Z[:, d - d // 2 :]
        elif kind == 2:
            Z[:, 0] = 3.0
        elif kind == 3:
            Z *= np.geomspace(1e-4, 1e4, d)
        elif kind == 4:
            Z = np.outer(Z[:, 0], np.ones(d)) + 0.1 * Z
        Xs.append(Z)
        ys.append(Z @ np.where(random.random(d) < 0.3, 1.0, 0.0) + random.standard_normal(n))
    return Xs, ys


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.sampled(3)
def test_ugly_data_are_solved_with_a_proof(seed):
    Z, target, task = stack_tasks(*ugly(seed))
    random = np.random.default_rng(seed)
    standardize = bool(seed % 2)
    for theta in (np.inf, 1.0):
        lam, ratio = 10.0 ** random.uniform(-2, 0), 10.0 ** random.uniform(-1.0, 0.7)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SharedMTL(theta=theta, standardize=standardize).fit(Z, target, task=task)
            lams = {"lam_common": lam * ratio * model.lam_max_, "lam_deviation": lam * model.lam_max_}
            lams = lams if model.lam_max_ > 0 else {}
            model = SharedMTL(**lams, theta=theta, standardize=standardize).fit(Z, target, task=task)
        assert np.isfinite(model.coef_).all()
        assert model.dual_gap_ < 1e-9
        assert model.certificate_.monotone
        assert model.certificate_.critical < 1e-7


def test_wild_scales_and_a_single_row():
    wild = X * np.geomspace(1e-6, 1e6, D)
    model = SharedMTL(0.2, 0.1, standardize=True).fit(wild, y, task=TASK)
    plain = SharedMTL(0.2, 0.1, standardize=True).fit(X, y, task=TASK)
    np.testing.assert_allclose(model.coef_ * np.geomspace(1e-6, 1e6, D), plain.coef_, atol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = SharedMTL().fit(X[:1], y[:1])
        few = SharedMTL(0.2, 0.1).fit(X[[0, 1, 30, 31, 60]], y[[0, 1, 30, 31, 60]], task=TASK[[0, 1, 30, 31, 60]])
    assert not alone.coef_.any()
    assert alone.intercept_ == y[0]
    assert few.dual_gap_ < 1e-10


def test_a_task_where_a_column_is_constant_gets_the_common_value():
    flat = X.copy()
    flat[TASK == "east", 7] = 5.0
    model = SharedMTL(0.2, 0.15).fit(flat, 2.0 * X[:, 7] + X[:, 3], task=TASK)
    assert model.coef_common_[7] != 0.0
    assert model.coef_[0, 7] == model.coef_common_[7]


# ------------------------------------------------------------------ the design


def test_stacked_design_is_the_augmented_matrix():
    problem = make_problem(read_training(X, y, task=TASK), fit_intercept=True, standardize=False, positive=False)
    stacked = Stacked(problem.designs)
    Z, target = augmented()
    Z, target = Z * np.sqrt(M), target * np.sqrt(M)  # its n is m
    P = np.random.default_rng(0).standard_normal(stacked.d)
    some, others = np.array([3, 0, 20, 74, 31]), np.array([1, 16, 70])
    for found, expected in (
        (stacked.gram(), Z.T @ Z),
        (stacked.gram_rows(some), (Z.T @ Z)[some]),
        (stacked.gram_block(some, others), (Z.T @ Z)[np.ix_(some, others)]),
        (stacked.c, Z.T @ target),
        (stacked.squares, (Z**2).sum(axis=0)),
        (stacked.columns(some), Z[:, some]),
        (stacked.target, target),
        (stacked.yy, target @ target),
        (stacked.residual(P), target - Z @ P),
        (stacked.residuals(P[None]), (target - Z @ P)[None]),
        (stacked.loss(P), ((target - Z @ P) ** 2).sum()),
        (stacked.gradient(P), Z.T @ (target - Z @ P)),
        (stacked.correlate(target), Z.T @ target),
        (stacked.correlate(np.column_stack([target, Z[:, 1]])), Z.T @ np.column_stack([target, Z[:, 1]])),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-11)
    rest, b, w = Remainder(problem.designs[0], P[:D]), P[:D], P[D : 2 * D]
    np.testing.assert_allclose(rest.gradient(w), problem.designs[0].gradient(b + w))
    np.testing.assert_allclose(rest.c, problem.designs[0].gradient(b))
    np.testing.assert_allclose(rest.residuals(w[None])[0], problem.designs[0].residual(b + w))


def test_gram_rows_on_demand_and_working_sets_give_the_same(monkeypatch):
    whole = SharedMTL(0.1, 0.05, 1.0).fit(X, y, task=TASK)
    monkeypatch.setattr("msmtfl._solvers.gram.WHOLE_BELOW", 5)
    monkeypatch.setattr("msmtfl._solvers.gram.WHOLE_AT_MOST", 20)
    rows = SharedMTL(0.1, 0.05, 1.0).fit(X, y, task=TASK)
    monkeypatch.setattr("msmtfl._solvers.gram.WHOLE_AT_MOST", 5)
    monkeypatch.setattr("msmtfl._solvers.gram.FEWEST_ROWS", 10**9)
    working = SharedMTL(0.1, 0.05, 1.0).fit(X, y, task=TASK)
    for other in (rows, working):
        np.testing.assert_allclose(other.coef_, whole.coef_, atol=1e-11)


def test_certificate_sees_what_is_wrong():
    model = SharedMTL(0.2, 0.1).fit(X, y, task=TASK)
    problem = make_problem(read_training(X, y, task=TASK), fit_intercept=True, standardize=False, positive=False)
    norm = SharedNorm(np.full(D, 0.1), np.full(D, 0.2), problem.factors)
    assert certify_rows(problem.designs, model.coef_, norm).gap < 1e-12
    for change in (1e-3, 1e-5):
        W = model.coef_.copy()
        W[1, 7] += change
        assert certify_rows(problem.designs, W, norm).gap > 0.1 * change**2
    assert np.array_equal(
        settled(norm, np.concatenate([model.coef_common_, model.coef_deviation_.ravel()]), M)[:D], model.coef_common_
    )


# ------------------------------------------------------------------ other forms of data


def test_statistics_give_the_same_fit():
    moments = Moments().update(X, y, task=TASK)
    for options in ({}, {"theta": 0.5}, {"standardize": True}, {"relax": True}):
        rows = SharedMTL(0.2, 0.1, **options).fit(X, y, task=TASK)
        statistics = SharedMTL(0.2, 0.1, **options).fit_moments(moments)
        np.testing.assert_allclose(statistics.coef_, rows.coef_, atol=1e-10)
        np.testing.assert_allclose(statistics.intercept_, rows.intercept_, atol=1e-10)
        assert statistics.certificate_.unique
        assert statistics.dual_gap_ < 1e-10
    batches = SharedMTL(0.2, 0.1)
    for part in (slice(0, 50), slice(50, None)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            batches.partial_fit(X[part], y[part], task=TASK[part])
    np.testing.assert_allclose(batches.coef_, SharedMTL(0.2, 0.1).fit(X, y, task=TASK).coef_, atol=1e-10)


def test_weights_count_rows_and_wide_targets_leave_out_missing_cells():
    counts = np.random.default_rng(0).integers(1, 4, N)
    weighted = SharedMTL(0.2, 0.1).fit(X, y, task=TASK, sample_weight=counts.astype(float))
    repeated = np.repeat(np.arange(N), counts)
    again = SharedMTL(0.2, 0.1).fit(X[repeated], y[repeated], task=TASK[repeated])
    np.testing.assert_allclose(weighted.coef_, again.coef_, atol=1e-10)
    wide = SharedMTL(0.2, 0.1).fit(X, Y)
    rows, columns = np.nonzero(np.isfinite(Y).T)[::-1]
    long = SharedMTL(0.2, 0.1).fit(X[rows], Y[rows, columns], task=columns)
    np.testing.assert_allclose(wide.coef_, long.coef_, atol=1e-10)


def test_stability_selection_refits_on_halves():
    model = SharedMTL(0.3, 0.2, 1.0)
    found = stability_selection(model, X, y, task=TASK, n_pairs=2)
    problem = make_problem(read_training(X, y, task=TASK), fit_intercept=True, standardize=False, positive=False)
    halves = draw_halves(problem.data, None, 2, np.random.RandomState(0))
    cells = []
    for half in halves:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cells.append(model.fit(X[half], y[half], task=TASK[half]).coef_ != 0.0)
    np.testing.assert_array_equal(found.frequency, np.mean(cells, axis=0))


def test_threads_do_not_change_the_result():
    for options in ({"n_jobs": 1}, {"n_jobs": 3}):
        model = SharedMTLCV(lams=6, **options).fit(X, y, task=TASK)
        scores = model.cv_results_["mean_test_score"]
        if options["n_jobs"] == 1:
            first = scores
    np.testing.assert_allclose(scores, first, rtol=1e-9)


# ------------------------------------------------------------------ search


def test_points_of_the_surface_are_the_models_on_their_own():
    model = SharedMTLCV(lams=5, cv=2).fit(X, y, task=TASK).complete_surface(X, y, task=TASK)
    surface, results = model.surface_, model.cv_results_
    assert surface.dual_gap[surface.reached].max() < 1e-11
    assert surface.converged[surface.reached].all()
    L, solved = surface.grid.shape[1], np.flatnonzero(results["solved"])
    assert len(solved) > 0.8 * len(results["ratio"])
    for place in solved[::7].tolist():
        lams = {name: float(results[name][place]) for name in ("lam_common", "lam_deviation", "theta")}
        one = SharedMTL(**lams).fit(X, y, task=TASK)
        k, l = divmod(place, L)
        np.testing.assert_allclose(surface.coef(k, l), one.coef_, atol=1e-9)
        np.testing.assert_allclose(surface.coef_common(k, l), one.coef_common_, atol=1e-9)
        np.testing.assert_allclose(surface.objective[k, l], one.objective_, rtol=1e-10)
        assert surface.n_stages[k, l] == one.n_stages_
        assert surface.unique[k, l] == one.certificate_.unique
        assert results["n_entries"][place] == np.count_nonzero(one.coef_common_) + np.count_nonzero(one.coef_deviation_)


@pytest.mark.slow
def test_search_contains_pooled_and_separate_models_and_picks_the_best():
    model = SharedMTLCV(lams=5, cv=3).fit(X, y, task=TASK)
    results = model.cv_results_
    assert {0.0, np.inf} < set(results["ratio"])
    assert np.isinf(results["theta_ratio"]).any()
    assert np.isinf(results["lam_deviation"][results["ratio"] == 0]).all()
    assert np.isinf(results["lam_common"][results["ratio"] == np.inf]).all()
    assert model.best_score_ == np.nanmax(results["mean_test_score"])
    np.testing.assert_allclose(model.coef_, model.surface_.coef(*model.best_point_), atol=1e-9)
    np.testing.assert_allclose(model.coef_, model.coef_common_ + model.coef_deviation_, atol=0)
    simple = SharedMTLCV(lams=5, cv=3, selection="1se").fit(X, y, task=TASK)
    assert (simple.coef_ != 0).any(axis=0).sum() <= (model.coef_ != 0).any(axis=0).sum()
    ebic = SharedMTLCV(lams=5, selection="ebic").fit(X, y, task=TASK)
    assert np.isfinite(ebic.cv_results_["ebic"]).all()
    folds = [Moments(), Moments(), Moments()]
    for f, fold in enumerate(folds):
        fold.update(X[f::3], y[f::3], task=TASK[f::3])
    cv = [(np.flatnonzero(np.arange(N) % 3 != f), np.arange(f, N, 3)) for f in range(3)]
    rows = SharedMTLCV(lams=3, cv=cv).fit(X, y, task=TASK)
    statistics = SharedMTLCV(lams=3).fit_moments(folds)
    np.testing.assert_allclose(
        statistics.cv_results_["mean_test_score"], rows.cv_results_["mean_test_score"], rtol=1e-8
    )
    np.testing.assert_allclose(statistics.coef_, rows.coef_, atol=1e-9)
    kept = pickle.loads(pickle.dumps(rows))
    assert kept.surface_.objective.shape == kept.surface_.grid.shape


def test_grid_keeps_one_of_equal_ratios():
    problem = make_problem(read_training(X, y, task=TASK), fit_intercept=True, standardize=False, positive=False)
    grid = shared_grid(problem, 3, [0.0, 2.0, 7.0, np.inf, 0.5, 0.5], [np.inf, 3.0])
    assert grid.columns == ((0.0, np.inf), (0.5, np.inf), (0.5, 3.0), (np.inf, np.inf), (np.inf, 3.0))
    one = make_problem(read_training(X, y), fit_intercept=True, standardize=False, positive=False)
    assert {ratio for ratio, _ in shared_grid(one, 3).columns} == {np.inf}
    lams = shared_grid(problem, [0.1, 0.2]).lams
    np.testing.assert_array_equal(lams, np.broadcast_to([[0.1], [0.2]], lams.shape))
    surface = solve_shared(problem, shared_grid(problem, [0.1, 0.2], [1.0], [np.inf]))
    one = SharedMTL(0.2, 0.1).fit(X, y, task=TASK)
    np.testing.assert_allclose(surface.coef(0, 0), one.coef_, atol=1e-12)


def test_a_search_ends_where_the_model_is_dense(monkeypatch):
    problem = make_problem(read_training(X, y, task=TASK), fit_intercept=True, standardize=False, positive=False)
    grid = shared_grid(problem, 12, [0.5, np.inf], [4.0, np.inf])
    whole = solve_shared(problem, grid)
    monkeypatch.setattr("msmtfl._paths.families.common_path.FEW", 5)
    cut = solve_shared(problem, grid)
    most = N / 6
    dense = np.argmax(whole.n_entries[:, 0] > 2 * most)
    assert 0 < dense < 11
    for k in range(12):
        np.testing.assert_array_equal(cut.coef(k, 0), whole.coef(min(k, dense), 0))
        np.testing.assert_allclose(cut.coef(k, 2), whole.coef(k, 2), atol=1e-12)  # without a common part it goes on
        if whole.n_entries[k, 0] > most:  # only stage 1
            np.testing.assert_array_equal(cut.coef(k, 1), cut.coef(k, 0))
    assert (cut.stopping_reason[dense + 1 :, 0] == DENSE).all()
    assert not cut.converged[dense + 1 :, 0].any()
    assert cut.converged[: dense + 1, 0].all()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SharedMTL(lam_common=-1.0), "lam_common must be > 0"),
        (SharedMTL(lam_deviation=0.0), "lam_deviation must be > 0"),
        (SharedMTL(np.inf, np.inf), "finite lam_deviation"),
        (SharedMTL(np.inf), "finite lam_deviation"),
        (SharedMTL(lam_deviation=np.inf), "finite lam_common"),
        (SharedMTL(theta=-1.0), "theta must be > 0"),
        (SharedMTL(max_stages=0), "max_stages must be"),
        (SharedMTLCV(ratios=[-1.0]), "ratios must be a 1-D array of values >= 0"),
        (SharedMTLCV(ratios=[np.nan]), "ratios must be"),
        (SharedMTLCV(ratios=[]), "ratios must be"),
        (SharedMTLCV(theta_ratios=[0.0]), "theta_ratios must be > 0"),
        (SharedMTLCV(lams=0), "lams must be"),
        (SharedMTLCV(max_stages=0), "max_stages must be"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, task=TASK)
