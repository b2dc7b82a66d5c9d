"""Robust models, ARMUL and rMTFL: no point is lower, gaps prove it, and tasks unlike the rest are named."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from msmtfl import L12MTL, Moments, PartialPooling, RobustMTL, RobustMTLCV, compare_models
from msmtfl._data.tasks import read_training
from msmtfl._objective.coupled.task_norms import CentreNorms, RowNorms, certify_task_norms
from msmtfl._solvers.coupled.task_norms import TaskNormSolver
from msmtfl._solvers.problems.make_problem import make_problem
from msmtfl.formulas import formula
from msmtfl.model_files import load_model, save_model
from msmtfl.sharing import sharing_map

KINDS = pytest.mark.parametrize("kind", ["armul", "rmtfl"])


@parametrize_with_checks([RobustMTL(), RobustMTL(kind="rmtfl"), RobustMTLCV(lams=3, cv=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def sample(seed=0, m=6, n=30, d=4, odd=(4,), sd=0.5):
    """X, y, labels: one vector of slopes, its negative in odd tasks; levels of tasks differ, as do their sizes."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), n + 5 * np.arange(m))
    X = rng.standard_normal((len(task), d)) * rng.uniform(0.5, 2.0, d)
    slopes = np.tile(rng.standard_normal(d) + 1.0, (m, 1))
    slopes[list(odd)] *= -1.0
    return X, np.einsum("nj,nj->n", X, slopes[task]) + 3.0 * task + sd * rng.standard_normal(len(task)), task


def problem_of(X, y, task, weight=None, **options):
    options = {"fit_intercept": True, "standardize": False, "positive": False} | options
    return make_problem(read_training(X, y, task=task, sample_weight=weight), **options)


def penalty_of(problem, kind, lam_deviation, lam_common):
    n = np.array([design.n for design in problem.designs])
    which = CentreNorms if kind == "armul" else RowNorms
    return which(lam_deviation, lam_common, problem.factors, problem.common_factors, n)


def objective(problem, penalty, P):
    W = penalty.coefs(P)
    return sum(0.5 * k * x.loss(w) for k, x, w in zip(penalty.kappa, problem.designs, W, strict=True)) + penalty.value(
        P
    )


def by_general_solver(problem, penalty):
    """The least value, by a quasi-Newton method on norms that are rounded off, less and less."""
    m, height, d = problem.m, penalty.height, problem.d
    f = np.where(np.isfinite(penalty.factors.T), penalty.factors.T, 0.0)
    grams = [design.gram() for design in problem.designs]

    def smooth(x, eps):
        P = x.reshape(height, d)
        common, V, W = P[:-m], P[-m:], penalty.coefs(P)
        value, slope = 0.0, np.zeros_like(P)
        for i, (k, design, w) in enumerate(zip(penalty.kappa, problem.designs, W, strict=True)):
            value += 0.5 * k * (design.yy - 2.0 * design.c @ w + w @ grams[i] @ w)
            g = k * (grams[i] @ w - design.c)
            slope[height - m + i] += g
            slope[0 if height == m + 1 else i] += g
            norm = np.sqrt(np.sum((f[i] * V[i]) ** 2) + eps**2)
            value += penalty.bounds[i] * norm
            slope[height - m + i] += penalty.bounds[i] * f[i] ** 2 * V[i] / norm
        if isinstance(penalty, RowNorms):
            norms = np.sqrt(((f * common) ** 2).sum(axis=0) + eps**2)
            value += penalty.lam_common * norms.sum()
            slope[:-m] += penalty.lam_common * f**2 * common / norms
        else:
            value += 0.5 * penalty.ridge @ common[0] ** 2
            slope[0] += penalty.ridge * common[0]
        return value, slope.ravel()

    x = np.zeros(height * d)
    for eps in (1e-2, 1e-4, 1e-6, 1e-8):
        options = {"maxiter": 5000, "ftol": 1e-16, "gtol": 1e-12, "maxcor": 50}
        x = minimize(smooth, x, args=(eps,), jac=True, method="L-BFGS-B", options=options).x
    return objective(problem, penalty, x.reshape(height, d))


# ------------------------------------------------------------------ exact


@KINDS
@pytest.mark.parametrize(
    ("seed", "options"), [(0, {}), (1, {"standardize": True}), (2, {"weight": True}), (3, {"factors": True})]
)
def test_no_point_is_lower(kind, seed, options):
    rng = np.random.default_rng(seed)
    X, y, task = sample(seed, m=4, n=12, d=3, odd=(2,))
    weight = rng.uniform(0.3, 2.0, len(y)) if options.pop("weight", False) else None
    factors = [0.5, 2.0, 1.0] if options.pop("factors", False) else None
    problem = problem_of(X, y, task, weight, penalty_factors=factors, **options)
    scale = 3.0 if kind == "armul" else 0.3
    for share in (0.3, 1.0, 3.0):
        penalty = penalty_of(problem, kind, scale * share, 0.5 if kind == "armul" else 0.2)
        P, _ = TaskNormSolver(problem).solve(penalty)
        proof, found = certify_task_norms(problem.designs, P, penalty), objective(problem, penalty, P)
        assert proof.gap < 1e-10
        assert proof.unique
        least = by_general_solver(problem, penalty)
        assert found <= least * (1.0 + 1e-12)  # cvxpy's answers are met to 1e-8 by benchmarks/studies/robust.py
        assert least <= found * (1.0 + 1e-5)
        off = P + 1e-3 * rng.standard_normal(P.shape)
        excess = objective(problem, penalty, off) - found
        unit = sum(0.5 * k * design.yy for k, design in zip(penalty.kappa, problem.designs, strict=True))
        assert certify_task_norms(problem.designs, off, penalty).gap >= excess / unit


@KINDS
def test_one_feature_makes_losses_of_odd_tasks_straight_lines(kind):
    X, y, task = sample(5, m=5, n=8, d=1, odd=(0, 3))
    problem = problem_of(X, y, task)
    for lam in (0.05, 0.5, 2.0):
        penalty = penalty_of(problem, kind, lam, 0.01)
        P, _ = TaskNormSolver(problem).solve(penalty)
        assert certify_task_norms(problem.designs, P, penalty).gap < 1e-10


@KINDS
@pytest.mark.parametrize("size", [1e2, 1e3, 1e160])
def test_coefficients_beyond_the_range_of_floats_are_not_certified(kind, size):
    X, y, task = sample(m=3, odd=())
    problem = problem_of(X, np.floor(np.exp(0.2 * y)), task, loss="poisson")
    penalty = penalty_of(problem, kind, 1.0, 0.5)
    P = size * np.ones((penalty.height, problem.d))
    proof = certify_task_norms(problem.designs, P, penalty)
    assert proof.gap > 1.0
    assert not proof.unique


@KINDS
def test_more_features_than_samples(kind):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((24, 40)), np.repeat([0, 1, 2], 8)
    y = X[:, 0] + 0.1 * rng.standard_normal(24)
    model = RobustMTL(2.0 if kind == "armul" else 0.4, 1.0 if kind == "armul" else 0.2, kind=kind).fit(X, y, task=task)
    assert model.dual_gap_ < 1e-9
    assert model.certificate_.unique


# ------------------------------------------------------------------ identities


def test_no_task_deviates_from_pooled_least_squares():
    X, y, task = sample()
    levels = np.eye(6)[task]
    pooled = LinearRegression(fit_intercept=False).fit(np.hstack([X, levels]), y).coef_[:4]
    model = RobustMTL(np.inf).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, np.tile(pooled, (6, 1)), rtol=1e-9)
    assert model.outlier_tasks_.size == 0
    at_most = RobustMTL(model.lam_max_ * (1.0 + 1e-9)).fit(X, y, task=task)
    np.testing.assert_allclose(at_most.coef_, model.coef_, rtol=1e-9)
    assert RobustMTL(model.lam_max_ * (1.0 - 1e-6)).fit(X, y, task=task).outlier_tasks_.tolist() == [4]


def test_without_deviations_rmtfl_is_l12():
    X, y, task = sample()
    model = RobustMTL(np.inf, 0.3, kind="rmtfl").fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, L12MTL(0.3).fit(X, y, task=task).coef_, atol=1e-9)
    deviating = RobustMTL(model.lam_max_ * (1.0 - 1e-4), 0.3, kind="rmtfl").fit(X, y, task=task)
    assert len(deviating.outlier_tasks_) == 1
    np.testing.assert_allclose(
        RobustMTL(model.lam_max_ * 1.001, 0.3, kind="rmtfl").fit(X, y, task=task).coef_, model.coef_
    )


@KINDS
def test_forms_of_data_give_the_same(kind):
    X, y, task = sample()
    dense = RobustMTL(3.0 if kind == "armul" else 0.3, kind=kind).fit(X, y, task=task)
    sparse = RobustMTL(dense.lam_deviation_, dense.lam_common_, kind=kind).fit(csr_array(X), y, task=task)
    moments = Moments()
    for part in np.array_split(np.arange(len(y)), 3):
        moments.update(X[part], y[part], task=task[part])
    summed = RobustMTL(dense.lam_deviation_, dense.lam_common_, kind=kind).fit_moments(moments)
    for other in (sparse, summed):
        np.testing.assert_allclose(other.coef_, dense.coef_, atol=1e-9)
        assert other.dual_gap_ < 1e-9
        assert other.outlier_tasks_.tolist() == dense.outlier_tasks_.tolist()


@KINDS
def test_features_that_are_never_penalised_or_excluded(kind):
    X, y, task = sample()
    model = RobustMTL(2.0, 0.1, kind=kind, penalty_factors=[0.0, 1.0, np.inf, 1.0]).fit(X, y, task=task)
    assert model.dual_gap_ < 1e-9
    assert not model.coef_[:, 2].any()
    assert np.ptp(model.coef_[:, 0]) > 0.1
    assert not model.coef_common_[0]
    assert not model.coef_shared_[:, 0].any()


@pytest.mark.parametrize("loss", ["poisson", "huber", "tweedie"])
@KINDS
def test_other_losses(kind, loss):
    rng = np.random.default_rng(0)
    X, y, task = sample(1, m=5, n=40, d=3)
    if loss != "huber":
        slopes = np.where(task == 4, -0.5, 0.5)
        y = rng.poisson(np.exp(X[:, 0] * slopes)).astype(float)
    else:
        y[::17] += 30.0
    model = RobustMTL(1.5 if kind == "armul" else 0.2, kind=kind, loss=loss).fit(X, y, task=task)
    assert model.dual_gap_ < 1e-8
    assert "minimise" in formula(model)
    if kind == "armul":
        assert 4 in model.outlier_tasks_


# ------------------------------------------------------------------ tasks unlike the rest


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_tasks_unlike_the_rest_are_named_and_do_no_harm(share):
    """The whole study is benchmarks/studies/robust.py."""
    rng = np.random.default_rng(3)
    m, n, d = 20, 40, 6
    bad = rng.permutation(m)[: int(share * m)]
    task, X, slopes = np.repeat(np.arange(m), n), rng.standard_normal((m * n, d)), rng.standard_normal(d)
    W = np.tile(slopes, (m, 1))
    W[bad] *= -1.0
    y = (X * W[task]).sum(axis=1) + rng.standard_normal(m * n)
    good = ~np.isin(task, bad)
    oracle = RobustMTL(np.inf).fit(X[good], y[good], task=task[good])
    model = RobustMTL(relax=True).fit(X, y, task=task)
    assert sorted(model.outlier_tasks_) == sorted(bad)
    np.testing.assert_allclose(model.coef_common_, oracle.coef_common_, atol=1e-9)
    if share <= 0.1:  # without refit tasks that deviate pull at the centre, each no more than one a little off
        penalised = RobustMTL().fit(X, y, task=task)
        errors = [np.sum((one.coef_common_ - slopes) ** 2) for one in (penalised, oracle)]
        assert 1.0 + errors[0] <= 1.1 * (1.0 + errors[1])  # of new samples, whose noise has variance 1


def test_one_more_task_deviates_or_does_not():
    X, y, task = sample()
    new_X = np.random.default_rng(9).standard_normal((40, 4))
    model = RobustMTL().fit(X, y, task=task)
    like, unlike = model.coef_[0], model.coef_[4]
    model.add_task(new_X, new_X @ like, label="like").add_task(new_X, new_X @ unlike, label="unlike")
    assert [str(label) for label in model.outlier_tasks_] == ["4", "unlike"]
    np.testing.assert_allclose(model.coef_[-2], model.coef_common_)
    assert model.coef_shared_.shape == model.coef_deviation_.shape == model.coef_.shape
    assert model.dual_gap_ < 1e-9


def test_words_files_and_comparisons_name_them(tmp_path):
    X, y, task = sample()
    model = RobustMTLCV(lams=6, cv=3).fit(X, y, task=task)
    assert 4 in model.outlier_tasks_
    fit = RobustMTL().fit(X, y, task=task)
    said = "1 of 6 tasks deviates from what the others have in common: 4."
    assert said in str(fit.summary())
    assert said in repr(sharing_map(fit))
    save_model(fit, tmp_path / "model.zip")
    again = load_model(tmp_path / "model.zip")
    assert again.outlier_tasks_.tolist() == [4]
    assert said in repr(sharing_map(again))
    found = compare_models(X, y, task=task, models=["lasso", "robust"], cv=3)
    assert 4 in found.odd_tasks["robust"]
    assert "By 'robust':" in found.verdict()


# ------------------------------------------------------------------ searches and input


@KINDS
def test_a_search_is_a_fit_at_its_choice(kind):
    X, y, task = sample()
    found = RobustMTLCV(lams=5, cv=3, kind=kind).fit(X, y, task=task)
    alone = RobustMTL(found.lam_deviation_, found.lam_common_, kind=kind).fit(X, y, task=task)
    np.testing.assert_allclose(found.coef_, alone.coef_, atol=1e-9)
    assert found.lam_max_ == pytest.approx(alone.lam_max_)
    frame = pickle.loads(pickle.dumps(found)).surface_.to_dict()
    assert np.nanmax(frame["dual_gap"]) < 1e-9
    k, l = found.best_point_
    assert found.surface_.objective[k, l] == pytest.approx(found.objective_)
    assert found.surface_.n_outliers[k, l] == len(found.outlier_tasks_)


def test_a_search_with_refits_is_a_fit_with_refit():
    X, y, task = sample()
    found = RobustMTLCV(lams=8, cv=3, relax=True).fit(X, y, task=task)
    alone = RobustMTL(found.lam_deviation_, relax=True).fit(X, y, task=task)
    np.testing.assert_allclose(found.coef_, alone.coef_, atol=1e-9)
    assert found.outlier_tasks_.tolist() == [4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "huber"}, "kind must be 'armul' or 'rmtfl'"),
        ({"lam_deviation": -1.0}, "lam_deviation"),
        ({"lam_deviation": np.inf, "lam_common": np.inf}, "finite lam_common"),
        ({"kind": "rmtfl", "lam_common": 0.0}, "lam_common"),
        ({"intercepts": "common"}, "'shrunk' or 'task'"),
        ({"penalty_factors": np.ones((4, 6))}, "one entry per feature"),
    ],
)
def test_parameters_that_make_no_sense(options, message):
    X, y, task = sample()
    with pytest.raises(ValueError, match=message):
        RobustMTL(**options).fit(X, y, task=task)


def test_criteria_are_refused():
    X, y, task = sample()
    with pytest.raises(ValueError, match="degrees of freedom"):
        RobustMTLCV(selection="bic").fit(X, y, task=task)


def test_a_centre_that_samples_do_not_determine_is_warned_of():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((12, 20)), np.repeat([0, 1], 6)
    with pytest.warns(UserWarning, match="do not determine the centre"):
        RobustMTL(1.0).fit(X, X[:, 0], task=task)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        RobustMTLCV(lams=4, cv=2).fit(X, X[:, 0] + 0.1 * rng.standard_normal(12), task=task)


@pytest.mark.parametrize("apart", [1e-8, 1e-10, 1e-12])
@pytest.mark.parametrize("family", [PartialPooling, RobustMTL])
def test_what_sums_cannot_tell_of_common_values_is_not_certified(family, apart):
    rng = np.random.default_rng(1)
    X, hidden, task = rng.standard_normal((900, 3)), rng.standard_normal(900), np.repeat([0, 1, 2], 300)
    X[:, 2] = X[:, 0] + apart * hidden
    y = X @ [1.0, 2.0, 0.0] + 0.5 * hidden
    with pytest.warns(UserWarning, match="not solved to tol|not determine"):
        model = family().fit_moments(Moments.from_batches([(X, y, task)]))
    assert not model.converged_
    assert model.dual_gap_ > 1e-8
