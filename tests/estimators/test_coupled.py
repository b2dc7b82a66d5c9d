"""L12MTL, DirtyMTL and their searches: against other models and refits, what they say of themselves, bad parameters."""

import pickle
import warnings
from itertools import pairwise

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import MultiTaskLasso
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from msmtfl import L12MTL, L12MTLCV, DirtyMTL, DirtyMTLCV, LassoMTL, LassoMTLCV, TaskKFold, stack_tasks


@pytest.mark.slow
@parametrize_with_checks([L12MTL(), DirtyMTL(), L12MTLCV(lams=2, cv=2), DirtyMTLCV(lams=2, ratios=[0.5], cv=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


LABELS = ["east", "north", "south", "west"]
X, y, TASK = stack_tasks(*oracles.random_tasks(0, m=4, n=[20, 25, 30, 35], d=15, active=5), labels=LABELS)
y = y + 1.0
N, M, D = len(y), 4, 15
rng = np.random.default_rng(1)
WEIGHT = rng.uniform(0.2, 2.0, N)
GROUPS = rng.integers(0, 12, N)
Y = np.column_stack([y, X[:, 0] - y, X[:, 1] + rng.standard_normal(N)])
Y[:, 1:][rng.random((N, 2)) < 0.3] = np.nan
Y[Y[:, 1] > 0, 0] = np.nan


def models(lam=0.1):
    """Models of every kind at about the same strength: L1,2, multi-stage, Dirty in between, l1,inf, whole ratio, lasso."""
    return {
        "l12": L12MTL(lam),
        "stages": L12MTL(lam, 1.0),
        "dirty": DirtyMTL(lam / 1.7, lam),
        "linf": DirtyMTL(lam, lam),
        "whole": DirtyMTL(lam / 2, lam),
        "lasso": DirtyMTL(lam / 4, lam),
    }


MODELS = list(models())


def fit(model, X=X, y=y, task=TASK, sample_weight=None, **options):
    return model.set_params(**options).fit(X, y, task=task if np.ndim(y) == 1 else None, sample_weight=sample_weight)


def centred():
    """(X_i, y_i) of each task, centred: the problem that is solved."""
    for label in LABELS:
        X_i, y_i = X[label == TASK], y[label == TASK]
        yield X_i - X_i.mean(axis=0), y_i - y_i.mean()


def loss(coef):
    parts = [((y_i - X_i @ w) ** 2).sum() / (M * len(y_i)) for (X_i, y_i), w in zip(centred(), coef, strict=True)]
    return sum(parts)


def gradient(coef):
    """(m, d): 2 / (m n_i) X_i'(y_i - X_i w_i)"""
    parts = zip(centred(), coef, strict=True)
    return np.array([2 / (M * len(y_i)) * X_i.T @ (y_i - X_i @ w) for (X_i, y_i), w in parts])


# ------------------------------------------------------------------ the same as other models


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("lam", [0.5, 0.1, 0.01])
def test_shared_features_equal_multi_task_lasso(lam, fit_intercept):
    rng = np.random.default_rng(2)
    targets = X[:, :4] @ rng.standard_normal((4, 5)) + rng.standard_normal((N, 5)) + 2
    model = L12MTL(lam, fit_intercept=fit_intercept).fit(X, targets)
    peer = MultiTaskLasso(5 * lam / 2, fit_intercept=fit_intercept, tol=1e-14, max_iter=100_000).fit(X, targets)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=0, atol=1e-7)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, rtol=0, atol=1e-7)
    np.testing.assert_allclose(model.predict(X), peer.predict(X), rtol=0, atol=1e-6)


@pytest.mark.parametrize("labelled", [False, True])
def test_one_task_is_the_lasso(labelled):
    task = np.zeros(N) if labelled else None
    lasso = LassoMTL(0.1).fit(X, y, task=task)
    for model in (L12MTL(0.1), DirtyMTL(0.1, 0.1), DirtyMTL(0.1, 3.0), DirtyMTL(0.3, 0.1), DirtyMTL(0.1, 0.11)):
        model.fit(X, y, task=task)
        np.testing.assert_allclose(model.coef_, lasso.coef_, rtol=0, atol=1e-9)
        assert model.coef_.shape == lasso.coef_.shape
        assert model.objective_ == pytest.approx(lasso.objective_, rel=1e-12)
        assert np.ndim(model.intercept_) == np.ndim(lasso.intercept_)
        assert type(model.intercept_) is type(lasso.intercept_)
    dirty = DirtyMTL(0.3, 0.1).fit(X, y, task=task)
    assert dirty.coef_shared_.shape == dirty.coef_specific_.shape == lasso.coef_.shape
    np.testing.assert_array_equal(dirty.coef_shared_ + dirty.coef_specific_, dirty.coef_)


@pytest.mark.parametrize("name", MODELS)
def test_the_order_of_tasks_does_not_matter(name):
    order = [2, 0, 3, 1]
    renamed = np.array([str(order.index(LABELS.index(label))) for label in TASK])
    one, other = fit(models()[name]), fit(models()[name], task=renamed)
    np.testing.assert_allclose(other.coef_, one.coef_[order], rtol=0, atol=1e-9)
    np.testing.assert_allclose(other.intercept_, one.intercept_[order], rtol=0, atol=1e-9)
    shuffled = rng.permutation(N)
    mixed = fit(models()[name], X[shuffled], y[shuffled], TASK[shuffled])
    np.testing.assert_allclose(mixed.coef_, one.coef_, rtol=0, atol=1e-9)


def test_lam_max_is_where_the_first_coefficient_appears():
    G = gradient(np.zeros((M, D)))
    for lasting in (DirtyMTL, L12MTL):
        for ratio in (0.25, 0.5, 0.61, 1.0, 2.0):
            if lasting is L12MTL:
                make, expected = L12MTL, np.sqrt((G**2).sum(axis=0)).max()
            else:

                def make(lam, ratio=ratio):
                    return DirtyMTL(ratio * lam, lam)

                expected = max(np.abs(G).sum(axis=0).max(), np.abs(G).max() / ratio)
            model = fit(make(0.1))
            assert model.lam_max_ == pytest.approx(expected, rel=1e-10)
            assert not fit(make(1.0001 * expected)).coef_.any()
            assert fit(make(0.999 * expected)).coef_.any()


def test_lam_max_beside_features_that_are_never_penalised():
    f = np.ones((D, M))
    f[3], f[7, 2] = 0.0, 0.0
    for model in (L12MTL(penalty_factors=f), DirtyMTL(penalty_factors=f)):
        top = fit(model).lam_max_
        names = ["lam"] if isinstance(model, L12MTL) else ["lam_b"]
        above, below = (fit(clone(model).set_params(**dict.fromkeys(names, share * top))) for share in (1.0001, 0.999))
        np.testing.assert_array_equal(above.coef_ != 0, f.T == 0)
        assert (below.coef_[f.T > 0] != 0).any()


# ------------------------------------------------------------------ what Dirty is made of


@pytest.mark.parametrize("lam_s", [0.3, 0.05])
def test_dirty_with_a_large_lam_b_is_the_lasso(lam_s):
    lasso = fit(LassoMTL(lam_s))
    for ratio in (4.0, 4.000001, 100.0):
        model = fit(DirtyMTL(lam_s, ratio * lam_s))
        assert not model.coef_shared_.any()
        np.testing.assert_allclose(model.coef_, lasso.coef_, rtol=0, atol=1e-10)
        assert model.objective_ == pytest.approx(lasso.objective_, rel=1e-12)
    assert fit(DirtyMTL(0.05, 0.05 * 3.5)).coef_shared_.any()


def test_dirty_with_a_small_lam_b_has_nothing_specific():
    first = fit(DirtyMTL(0.1, 0.1))
    for lam_s in (0.1000001, 0.2, 50.0):
        model = fit(DirtyMTL(lam_s, 0.1))
        assert not model.coef_specific_.any()
        np.testing.assert_allclose(model.coef_, first.coef_, rtol=0, atol=1e-9)
    value = loss(first.coef_) + 0.1 * np.abs(first.coef_).max(axis=0).sum()
    assert first.objective_ == pytest.approx(value, rel=1e-12)
    assert fit(DirtyMTL(0.09, 0.1)).coef_specific_.any()


def test_dirty_with_equal_strengths_has_nothing_specific():
    model = fit(DirtyMTL(0.1, 0.1))
    assert not model.coef_specific_.any()
    np.testing.assert_array_equal(model.coef_shared_, model.coef_)


@pytest.mark.parametrize("ratio", [1.0, 1.3, 2.0, 2.6, 3.0, 3.9, 4.0])
def test_dirty_parts_add_up_and_cost_what_is_stated(ratio):
    for lam_b in (0.5, 0.1, 0.01):
        model = fit(DirtyMTL(lam_b / ratio, lam_b))
        S, B = model.coef_specific_, model.coef_shared_
        np.testing.assert_allclose(S + B, model.coef_, rtol=0, atol=1e-15)
        penalty = lam_b / ratio * np.abs(S).sum() + lam_b * np.abs(B).max(axis=0).sum()
        assert model.objective_ - loss(model.coef_) == pytest.approx(penalty, rel=1e-10)
        G = np.abs(gradient(model.coef_))
        assert G.max() <= lam_b / ratio * (1 + 1e-9)
        assert G.sum(axis=0).max() <= lam_b * (1 + 1e-9)


@pytest.mark.parametrize("theta", [np.inf, 0.5])
def test_l12_costs_what_is_stated(theta):
    model = fit(L12MTL(0.05, theta))
    norms = np.sqrt((model.coef_**2).sum(axis=0))
    np.testing.assert_allclose(model.row_norms_, norms)
    np.testing.assert_allclose(model.feature_importances_, norms)
    assert model.objective_ == pytest.approx(loss(model.coef_) + 0.05 * np.minimum(norms, theta).sum(), rel=1e-12)


# ------------------------------------------------------------------ attributes and options


@pytest.mark.parametrize("name", MODELS)
def test_attributes_have_the_stated_shapes(name):
    model = fit(models()[name])
    assert model.coef_.shape == (M, D)
    assert model.coef_.flags.c_contiguous
    assert model.intercept_.shape == (M,)
    assert model.tasks_.tolist() == LABELS
    assert model.n_stages_ == len(model.stages_)
    assert model.n_iter_ >= 1
    assert model.converged_ is True
    assert model.dual_gap_ <= 1e-10
    assert model.certificate_.optimal
    assert model.certificate_.unique
    assert model.certificate_.critical <= 1e-8
    assert str(model.certificate_).startswith("solved")
    means = np.array([[y[label == TASK].mean(), *X[label == TASK].mean(axis=0)] for label in LABELS])
    np.testing.assert_allclose(model.intercept_, means[:, 0] - (means[:, 1:] * model.coef_).sum(axis=1))
    assert model.score(X, y, task=TASK) > 0.5
    if name != "stages":
        assert model.n_stages_ == 1
        assert "convex" in model.stopping_reason_


def test_defaults_are_a_share_of_lam_max():
    model = fit(L12MTL())
    assert model.lam_ == pytest.approx(0.1 * model.lam_max_)
    assert model.theta_ == np.inf
    model = fit(DirtyMTL())
    assert model.lam_b_ == pytest.approx(0.1 * model.lam_max_)
    assert model.lam_s_ == pytest.approx(model.lam_b_ / 2)
    assert model.coef_.any()
    for one, other in ((DirtyMTL(lam_s=0.1), DirtyMTL(0.1, 0.2)), (DirtyMTL(lam_b=0.2), DirtyMTL(0.1, 0.2))):
        np.testing.assert_allclose(fit(one).coef_, fit(other).coef_, rtol=0, atol=1e-12)
        assert (one.lam_s_, one.lam_b_) == pytest.approx((0.1, 0.2))


@pytest.mark.parametrize("model", [L12MTL(), DirtyMTL(), L12MTLCV(lams=3, cv=2), DirtyMTLCV(lams=3, cv=2)], ids=str)
def test_targets_without_spread_leave_nothing(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = fit(clone(model), y=np.full(N, 3.0))
    assert not fitted.coef_.any()
    np.testing.assert_allclose(fitted.intercept_, 3.0)


@pytest.mark.parametrize("name", MODELS)
def test_standardize_is_fitting_standardised_columns(name):
    wide = X * np.linspace(0.1, 10.0, D) + 3.0
    scale = np.array([wide[label == TASK].std(axis=0) for label in LABELS])
    narrow = wide / scale[[LABELS.index(label) for label in TASK]]
    one, other = fit(models()[name], wide, standardize=True), fit(models()[name], narrow)
    np.testing.assert_allclose(one.coef_ * scale, other.coef_, rtol=0, atol=1e-9)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-11)
    assert one.lam_max_ == pytest.approx(other.lam_max_, rel=1e-11)
    if name == "dirty":
        np.testing.assert_allclose(one.coef_shared_ * scale, other.coef_shared_, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_penalty_factors_zero_and_infinity(name):
    f = np.linspace(0.5, 2.0, D * M).reshape(D, M)
    f[2], f[6, 1], f[4], f[5, 3] = 0.0, 0.0, np.inf, np.inf
    model = fit(models()[name], penalty_factors=f)
    assert not model.coef_[np.isinf(f).T].any()
    assert np.abs(gradient(model.coef_)[f.T == 0]).max() <= 1e-9
    assert model.dual_gap_ <= 1e-10
    counted = np.where(np.isinf(f), 0.0, f).T
    norms = (counted * np.abs(model.coef_)).sum(axis=0)
    if isinstance(model, L12MTL):
        norms = np.sqrt(((counted * model.coef_) ** 2).sum(axis=0))
    else:
        assert not model.coef_shared_[f.T == 0].any()
        S, B = model.coef_specific_, model.coef_shared_
        penalty = model.lam_s * (counted * np.abs(S)).sum() + model.lam_b * (counted * np.abs(B)).max(axis=0).sum()
        assert model.objective_ - loss(model.coef_) == pytest.approx(penalty, rel=1e-9)
    np.testing.assert_allclose(model.row_norms_, norms)


@pytest.mark.parametrize("name", MODELS)
def test_penalty_factors_are_scaled_columns(name):
    f = np.random.default_rng(3).uniform(0.3, 3.0, D)
    one, other = fit(models()[name], penalty_factors=f), fit(models()[name], X / f)
    np.testing.assert_allclose(one.coef_ * f, other.coef_, rtol=0, atol=1e-9)
    whole = fit(models()[name], penalty_factors=np.repeat(f[:, None], M, axis=1))
    np.testing.assert_array_equal(whole.coef_, one.coef_)


@pytest.mark.parametrize("name", MODELS)
def test_sample_weights_are_repeated_rows(name):
    times = np.random.default_rng(4).integers(0, 4, N)
    rows = np.repeat(np.arange(N), times)
    weighted = fit(models()[name], sample_weight=times.astype(float))
    repeated = fit(models()[name], X[rows], y[rows], TASK[rows])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, rtol=0, atol=1e-9)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-11)


@pytest.mark.parametrize("name", MODELS)
def test_tables_with_a_task_column(name):
    names = [f"f{j}" for j in range(D)]
    table = pd.DataFrame(X, columns=names).assign(school=TASK)
    plain = fit(models()[name])
    for other in (table, pl.from_pandas(table), table[["school", *names]]):
        model = models()[name].set_params(task_column="school").fit(other, y)
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=0, atol=1e-12)
        assert model.features_.tolist() == names
        np.testing.assert_allclose(model.predict(other), plain.predict(X, task=TASK), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_missing_values_of_a_2d_target_are_left_out(name):
    model = fit(models()[name], y=Y)
    seen = ~np.isnan(Y)
    rows, tasks = np.nonzero(seen)
    long = fit(models()[name], X[rows], Y[seen], tasks)
    assert model.coef_.shape == (3, D)
    np.testing.assert_allclose(model.coef_, long.coef_, rtol=0, atol=1e-9)
    assert model.predict(X).shape == (N, 3)


@pytest.mark.parametrize("name", MODELS)
def test_without_intercept_nothing_is_centred(name):
    model = fit(models()[name], fit_intercept=False)
    assert not model.intercept_.any()
    parts = [(X[label == TASK], y[label == TASK]) for label in LABELS]
    value = oracles.loss([X_i for X_i, _ in parts], [y_i for _, y_i in parts], model.coef_)
    assert (
        value < model.objective_ < oracles.loss([X_i for X_i, _ in parts], [y_i for _, y_i in parts], 0 * model.coef_)
    )
    assert model.dual_gap_ <= 1e-10


@pytest.mark.parametrize("name", MODELS)
def test_relax_is_least_squares_on_the_support(name):
    model, plain = fit(models(0.3)[name], relax=True), fit(models(0.3)[name])
    np.testing.assert_array_equal(model.coef_ != 0, plain.coef_ != 0)
    np.testing.assert_allclose(model.stages_[-1].coef, plain.coef_, rtol=0, atol=1e-12)
    assert np.abs(gradient(model.coef_)[model.coef_ != 0]).max() <= 1e-9
    if name == "dirty":
        np.testing.assert_allclose(model.coef_shared_ + model.coef_specific_, plain.coef_, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_threads_and_warm_starts_change_nothing(name):
    one, two = fit(models()[name]), fit(models()[name], n_jobs=2)
    np.testing.assert_allclose(two.coef_, one.coef_, rtol=0, atol=1e-12)
    warm = fit(models(0.5)[name], warm_start=True)
    goal = models()[name].get_params()
    again = fit(warm, **{key: goal[key] for key in ("lam", "lam_s", "lam_b") if key in goal})
    if name != "stages":
        np.testing.assert_allclose(again.coef_, one.coef_, rtol=0, atol=1e-9)
        assert fit(again).n_iter_ <= max(one.n_iter_, 10)


@pytest.mark.parametrize("name", MODELS)
def test_pickle_and_clone(name):
    model = fit(models()[name])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X, task=TASK), model.predict(X, task=TASK))
    assert str(again.certificate_) == str(model.certificate_)
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "coef_")


def test_too_few_rounds_are_announced():
    for model in (L12MTL(1e-3, max_iter=1), DirtyMTL(1e-3, 2e-3, max_iter=1)):
        with pytest.warns(ConvergenceWarning, match="not solved to tol.*Raise max_iter"):
            fit(model)
        assert model.dual_gap_ > 1e-8
        assert model.converged_ is False
        assert not model.certificate_.optimal


def test_copies_are_said_to_be_exchangeable():
    twice = np.c_[X, X[:, :3]]
    for name, model in models(0.02).items():
        if name == "stages":
            continue
        fitted = fit(model, twice)
        assert fitted.dual_gap_ <= 1e-10
        assert not fitted.certificate_.unique
        named = set().union(*fitted.certificate_.ambiguous.values())
        assert named & {"x15", "x16", "x17", "15", "16", "17"}
        assert "can be exchanged" in str(fitted.certificate_)


# ------------------------------------------------------------------ stages of L1,2

MANY_STAGES = {"lam": 0.1, "theta": 0.05}


def test_stages_go_down_to_a_critical_point():
    counts = []
    for theta in (0.05, 0.2, 0.9, 1.5, 3.0):
        model = fit(L12MTL(0.1, theta))
        counts.append(model.n_stages_)
        assert model.converged_
        assert "critical point" in model.stopping_reason_
        objectives = [stage.objective for stage in model.stages_]
        assert all(after <= before * (1 + 1e-12) for before, after in pairwise(objectives))
        assert model.certificate_.monotone
        assert model.certificate_.critical <= 1e-8
        before = np.zeros((M, D))
        for stage in model.stages_:
            np.testing.assert_array_equal(stage.free_rows, np.flatnonzero(np.linalg.norm(before, axis=0) >= theta))
            assert stage.dual_gap <= 1e-10
            assert stage.unique
            before = stage.coef
        np.testing.assert_array_equal(np.linalg.norm(before, axis=0) >= theta, np.isin(range(D), stage.free_rows))
        G = gradient(model.coef_)
        assert np.abs(G[:, stage.free_rows]).max(initial=0.0) <= 1e-9
        assert np.linalg.norm(G, axis=0).max() <= 0.1 * (1 + 1e-9)
    assert max(counts) > 2


def test_first_stage_is_l12_and_an_infinite_theta_ends_there():
    convex = fit(L12MTL(0.1))
    assert (convex.n_stages_, convex.theta_) == (1, np.inf)
    assert not convex.stages_[0].free_rows.size
    stages = fit(L12MTL(**MANY_STAGES))
    np.testing.assert_allclose(stages.stages_[0].coef, convex.coef_, rtol=0, atol=1e-12)
    assert stages.n_stages_ > 1
    assert (stages.lam_, stages.theta_) == (0.1, 0.05)


def test_too_few_stages_are_announced():
    most = fit(L12MTL(**MANY_STAGES)).n_stages_ - 1
    if most > 1:
        with pytest.warns(ConvergenceWarning, match=f"max_stages={most} reached"):
            assert fit(L12MTL(**MANY_STAGES, max_stages=most)).n_stages_ == most
    one = fit(L12MTL(**MANY_STAGES, max_stages=1))
    np.testing.assert_allclose(one.coef_, fit(L12MTL(0.1)).coef_, rtol=0, atol=1e-12)


def test_warm_start_goes_on_with_the_stages():
    reference = fit(L12MTL(**MANY_STAGES))
    assert reference.n_stages_ > 1
    model = L12MTL(**MANY_STAGES, max_stages=1, warm_start=True)
    free = [fit(model).stages_[0].free_rows.tolist() for _ in range(reference.n_stages_)]
    assert free == [stage.free_rows.tolist() for stage in reference.stages_]
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=0, atol=1e-10)


def test_free_rows_of_a_task_without_samples_enough_are_announced():
    few = np.r_[:4, 20:N]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(L12MTL(1e-3, 1e-3), X[few], y[few], TASK[few])
    assert any("un-penalised" in str(one.message) and "'east'" in str(one.message) for one in caught)
    assert not model.certificate_.unique


# ------------------------------------------------------------------ answers of high accuracy


def test_reference_answers_of_l12(reference):
    for k, lam in enumerate(reference["l12_lam"]):
        model = L12MTL(float(lam), fit_intercept=False).fit(reference["X"], reference["y"], task=reference["task"])
        assert model.lam_max_ == pytest.approx(reference["lammax_l12"], rel=1e-12)
        assert model.objective_ == pytest.approx(reference["l12_obj"][k], rel=1e-8)
        assert model.dual_gap_ <= 1e-10
        np.testing.assert_allclose(model.coef_.T, reference["l12_W"][k], rtol=0, atol=1e-5)


def test_reference_answers_of_dirty(reference):
    for k, (lam_s, lam_b) in enumerate(zip(reference["dirty_lam_s"], reference["dirty_lam_b"], strict=True)):
        model = DirtyMTL(float(lam_s), float(lam_b), fit_intercept=False)
        model.fit(reference["X"], reference["y"], task=reference["task"])
        assert model.objective_ == pytest.approx(reference["dirty_obj"][k], rel=1e-8)
        assert model.dual_gap_ <= 1e-10
        if reference["dirty_unique"][k]:
            np.testing.assert_allclose(model.coef_.T, reference["dirty_W"][k], rtol=0, atol=1e-5)
        if model.certificate_.unique:
            np.testing.assert_allclose(model.coef_.T, reference["dirty_W"][k], rtol=0, atol=1e-5)


# ------------------------------------------------------------------ bad parameters

BAD_ONE = [-1.0, 0.0, np.nan, "a lot", [0.1], True, np.inf]


@pytest.mark.parametrize("value", BAD_ONE, ids=str)
@pytest.mark.parametrize(
    ("estimator", "name"),
    [(L12MTL, "lam"), (L12MTL, "theta"), (DirtyMTL, "lam_s"), (DirtyMTL, "lam_b"), (L12MTL, "tol")],
)
def test_bad_numbers_are_refused_by_name(estimator, name, value):
    if name == "theta" and value == np.inf:
        return
    with pytest.raises((ValueError, TypeError), match=rf"^{name} must be"):
        fit(estimator(**{name: value}))


BAD = {
    "theta=None": (L12MTL(theta=None), "theta must be a number"),
    "max_stages=0": (L12MTL(max_stages=0), "max_stages must be at least 1"),
    "max_stages=2.5": (L12MTL(max_stages=2.5), "max_stages must be an integer"),
    "max_iter=0": (DirtyMTL(max_iter=0), "max_iter must be at least 1"),
    "relax=1": (DirtyMTL(relax=1), "relax must be True or False"),
    "warm_start='no'": (L12MTL(warm_start="no"), "warm_start must be True or False"),
    "unknown_task": (L12MTL(unknown_task="zero"), "unknown_task must be"),
    "n_jobs=0": (DirtyMTL(n_jobs=0), "n_jobs must be"),
    "negative factors": (L12MTL(penalty_factors=np.full(D, -1.0)), "penalty_factors must be >= 0"),
    "NaN factors": (DirtyMTL(penalty_factors=np.full(D, np.nan)), "penalty_factors must be >= 0"),
    "few factors": (DirtyMTL(penalty_factors=np.ones(3)), r"penalty_factors has shape \(3,\)"),
    "lams=0": (L12MTLCV(lams=0), "lams must be a count"),
    "lams negative": (DirtyMTLCV(lams=[1.0, -1.0]), r"lams\[1\] is -1"),
    "lams NaN": (L12MTLCV(lams=[np.nan]), r"lams\[0\] is nan"),
    "lams words": (DirtyMTLCV(lams="many"), "lams"),
    "ratios 0": (DirtyMTLCV(ratios=[1.0, 0.0]), r"ratios\[1\] is 0"),
    "ratios inf": (DirtyMTLCV(ratios=[np.inf]), "ratios must be"),
    "ratios NaN": (DirtyMTLCV(ratios=[np.nan]), "ratios"),
    "ratios empty": (DirtyMTLCV(ratios=[]), "ratios is empty"),
    "ratios words": (DirtyMTLCV(ratios=["a"]), "ratios must be numbers"),
    "ratios 2-D": (DirtyMTLCV(ratios=np.ones((2, 2))), "ratios must be a 1-D array"),
    "lam_min_ratio": (L12MTLCV(lam_min_ratio=2.0), "lam_min_ratio must be"),
    "lam_min_ratio beside lams": (L12MTLCV([0.1], lam_min_ratio=0.1), "lam_min_ratio goes with a number"),
    "selection": (DirtyMTLCV(selection="best"), "selection must be"),
    "scoring": (L12MTLCV(scoring="nmse"), "nmse"),
    "verbose": (L12MTLCV(verbose="yes"), "verbose must be"),
    "memory_budget": (DirtyMTLCV(memory_budget=-1.0), "memory_budget must be > 0"),
    "cv=1": (DirtyMTLCV(cv=1), "at least 2 folds"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_refused_by_name(name):
    model, message = BAD[name]
    with pytest.raises((ValueError, TypeError), match=message):
        fit(clone(model))


# ------------------------------------------------------------------ searches

LAMS = [0.6, 0.05, 0.2]
RATIOS = [1.0, 0.6, 0.25]
PAIRS = [(train[3:], test) for train, test in KFold(3, shuffle=True, random_state=2).split(X)]
BY_TASK = list(TaskKFold(3, task=TASK, random_state=0).split(X))
# how the model is told, and the folds that it should use
CASES = {
    "a number": ({}, {}, BY_TASK),
    "TaskKFold": ({"cv": TaskKFold(3, random_state=0)}, {}, BY_TASK),
    "pairs": ({"cv": PAIRS}, {}, PAIRS),
    "sample weights": ({"cv": PAIRS}, {"sample_weight": WEIGHT}, PAIRS),
    "standardize": ({"standardize": True}, {}, BY_TASK),
    "no intercept": ({"fit_intercept": False}, {}, BY_TASK),
    "penalty factors": ({"penalty_factors": np.r_[0.3, np.ones(D - 2), np.inf]}, {}, BY_TASK),
    "free features": ({"penalty_factors": np.r_[0.0, np.ones(D - 1)]}, {}, BY_TASK),
    "groups": ({}, {"groups": GROUPS}, list(TaskKFold(3, task=TASK, random_state=0).split(X, groups=GROUPS))),
    "GroupKFold": ({"cv": GroupKFold(3)}, {"groups": GROUPS}, list(GroupKFold(3).split(X, y, GROUPS))),
    "missing targets": ({"cv": PAIRS}, {"y": Y}, PAIRS),
    "missing targets, weights": ({"cv": PAIRS, "standardize": True}, {"y": Y, "sample_weight": WEIGHT}, PAIRS),
}
SEARCHES = [L12MTLCV, DirtyMTLCV]


def search(estimator, y=y, sample_weight=None, groups=None, **options):
    """A fitted search on a small grid."""
    ratios = {"ratios": RATIOS} if estimator is DirtyMTLCV else {}
    model = estimator(**{"lams": LAMS, "cv": 3, **ratios, **options})
    return model.fit(X, y, task=TASK if np.ndim(y) == 1 else None, sample_weight=sample_weight, groups=groups)


def single(model, point, **options):
    """The model of a point of cv_results_."""
    results = model.cv_results_
    if isinstance(model, L12MTLCV):
        return L12MTL(float(results["lam"][point]), **options)
    return DirtyMTL(float(results["lam_s"][point]), float(results["lam_b"][point]), **options)


def errors(model, test, y, weight):
    """Mean squared error per task on some rows."""
    weight = np.ones(N) if weight is None else weight
    out = []
    for i, label in enumerate(model.tasks_):
        used = test[label == TASK[test]] if y.ndim == 1 else test[~np.isnan(y[test, i])]
        fitted = X[used] @ model.coef_[i] + model.intercept_[i]
        out.append(np.average(((y if y.ndim == 1 else y[:, i])[used] - fitted) ** 2, weights=weight[used]))
    return out


def scores_by_hand(model, folds, y, weight, **options):
    """Of refits: (points, folds, m) errors, (points, folds) scores, (points, folds) whether there is but one minimiser."""
    held = np.ones(N) if weight is None else weight
    scale, all_errors, all_scores, unique = [], [], [], []
    for i, label in enumerate(model.tasks_):
        used = label == TASK if y.ndim == 1 else ~np.isnan(y[:, i])
        values, w = (y if y.ndim == 1 else y[:, i])[used], held[used]
        scale.append(np.average((values - np.average(values, weights=w)) ** 2, weights=w))
    for point in range(len(model.cv_results_["mean_test_score"])):
        of_point, scores, certain = [], [], []
        for train, test in folds:
            task = TASK[train] if y.ndim == 1 else None
            w = None if weight is None else weight[train]
            one = single(model, point, **options).fit(X[train], y[train], task=task, sample_weight=w)
            of_point.append(errors(one, test, y, weight))
            certain.append(one.certificate_.unique)
            masks = [
                label == TASK[test] if y.ndim == 1 else ~np.isnan(y[test, i]) for i, label in enumerate(one.tasks_)
            ]
            total = [held[test][mask].sum() for mask in masks]
            scores.append(-np.average(np.array(of_point[-1]) / scale, weights=total))
        all_errors.append(of_point)
        all_scores.append(scores)
        unique.append(certain)
    return np.array(all_errors), np.array(all_scores), np.array(unique)


@pytest.mark.parametrize("estimator", SEARCHES)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
@pytest.mark.sampled(3)
def test_scores_equal_refits(name, estimator):
    options, data, folds = CASES[name]
    model = search(estimator, **data, **options)
    given = {name: value for name, value in options.items() if name != "cv"}
    target, weight = data.get("y", y), data.get("sample_weight")
    mse, scores, unique = scores_by_hand(model, folds, target, weight, **given)
    assert model.n_splits_ == len(folds)
    assert unique.mean() > 0.9
    np.testing.assert_allclose(np.stack(model.cv_results_["test_mse"])[unique], mse[unique], rtol=1e-6)
    for f, certain in enumerate(unique.T):
        found = model.cv_results_[f"split{f}_test_score"]
        np.testing.assert_allclose(found[certain], scores[certain, f], rtol=1e-6)
    certain = unique.all(axis=1)
    np.testing.assert_allclose(model.cv_results_["mean_test_score"][certain], scores[certain].mean(axis=1), rtol=1e-6)
    assert model.best_index_ == np.argmax(model.cv_results_["mean_test_score"])
    chosen = single(model, model.best_index_, **given)
    chosen.fit(X, target, task=TASK if target.ndim == 1 else None, sample_weight=weight)
    np.testing.assert_allclose(model.coef_, chosen.coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, chosen.intercept_, rtol=0, atol=1e-8)


@pytest.mark.parametrize("estimator", SEARCHES)
def test_attributes_are_those_of_the_model_chosen(estimator):
    model = search(estimator)
    k, l = model.best_point_
    chosen = fit(single(model, model.best_index_))
    for name in ("lam_", "lam_s_", "lam_b_", "lam_max_", "objective_"):
        if hasattr(chosen, name):
            assert getattr(model, name) == pytest.approx(getattr(chosen, name), rel=1e-10)
    if estimator is DirtyMTLCV:
        np.testing.assert_allclose(model.coef_shared_, chosen.coef_shared_, rtol=0, atol=1e-9)
        np.testing.assert_allclose(model.coef_specific_, chosen.coef_specific_, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(model.cv_results_["lam_b"], np.repeat(LAMS, 3))
        np.testing.assert_allclose(model.cv_results_["lam_s"], np.outer(LAMS, RATIOS).ravel())
    else:
        np.testing.assert_array_equal(model.lams_, LAMS)
    assert model.converged_
    assert "convex" in model.stopping_reason_
    assert model.dual_gap_ <= 1e-10
    assert len(pd.DataFrame(model.cv_results_)) == model.surface_.objective.size
    assert (model.surface_.dual_gap <= 1e-8).all()
    assert model.surface_.unique.all()
    assert model.surface_.finished.all()
    for i, j in np.ndindex(model.surface_.objective.shape):
        point = fit(single(model, i * model.surface_.objective.shape[1] + j))
        np.testing.assert_allclose(model.surface_.coef(i, j), point.coef_, rtol=0, atol=1e-5)
        assert model.surface_.objective[i, j] == pytest.approx(point.objective_, rel=1e-8)
    np.testing.assert_allclose(model.surface_.coef(k, l), model.coef_, rtol=0, atol=1e-5)
    assert "RowSurface" in repr(model.surface_)
    assert set(model.surface_.to_dict()) >= {"objective", "dual_gap", "unique", "finished", "n_rows", "n_entries"}


@pytest.mark.parametrize(("m", "expected"), [(2, [1, 0.5]), (4, [1, 0.5, 0.25]), (10, [1, 0.5, 0.2, 0.1])])
def test_default_ratios_end_with_the_lasso(m, expected):
    X, y, task = stack_tasks(*oracles.random_tasks(3, m=m, n=12, d=6))
    model = DirtyMTLCV(lams=4, cv=2).fit(X, y, task=task)
    lam_b, lam_s = (model.surface_.parameters[name] for name in ("lam_b", "lam_s"))
    np.testing.assert_allclose(lam_s / lam_b, np.repeat([expected], 4, axis=0), rtol=1e-12)
    for l in range(len(expected)):  # the grid starts where the first coefficient appears
        assert not model.surface_.coef(0, l).any()
        assert model.surface_.coef(1, l).any()


def test_ratios_below_the_lasso_are_replaced_by_it():
    """On a grid made for each ratio; values of lam_b that were given stay, and with them what lam_s is."""
    for lams, expected in [(3, [1.0, 0.25]), ([0.5, 0.1], [1.0, 0.25, 0.1, 0.01])]:
        model = search(DirtyMTLCV, ratios=[0.1, 1.0, 0.01, 0.25, 3.0], lams=lams)
        ratios = (model.surface_.parameters["lam_s"] / model.surface_.parameters["lam_b"])[0]
        np.testing.assert_allclose(ratios, expected, rtol=1e-12)


def test_the_last_default_ratio_scores_as_the_lasso_does():
    model = search(DirtyMTLCV, ratios=None, lams=6)
    lams = model.surface_.parameters["lam_s"][:, -1]
    np.testing.assert_allclose(lams[0], fit(LassoMTL()).lam_max_, rtol=1e-10)
    lasso = LassoMTLCV(lams=lams, cv=3).fit(X, y, task=TASK)
    scores = model.cv_results_["mean_test_score"].reshape(6, -1)[:, -1]
    np.testing.assert_allclose(scores, lasso.cv_results_["mean_test_score"], rtol=1e-8)


@pytest.mark.parametrize("estimator", SEARCHES)
def test_one_standard_error_is_no_larger(estimator):
    best, simple = (search(estimator, lams=8, selection=rule) for rule in ("min", "1se"))
    mean, n_rows = simple.cv_results_["mean_test_score"], simple.cv_results_["n_rows"]
    eligible = mean >= np.nanmax(mean) - simple.cv_results_["se_test_score"][np.nanargmax(mean)]
    assert eligible[simple.best_index_]
    assert n_rows[simple.best_index_] == n_rows[eligible].min() <= n_rows[best.best_index_]


@pytest.mark.parametrize("criterion", ["aic", "bic", "ebic"])
@pytest.mark.parametrize("estimator", SEARCHES)
def test_criteria_need_no_folds(estimator, criterion):
    model = search(estimator, lams=12, selection=criterion)
    values = model.cv_results_[criterion]
    assert np.isfinite(values).all()
    assert (model.n_splits_, model.best_score_) == (0, -values.min())
    assert values[model.best_index_] == values.min()
    assert "mean_test_score" not in model.cv_results_
    assert model.score(X, y, task=TASK) > 0.5


@pytest.mark.parametrize("estimator", SEARCHES)
def test_threads_budget_and_pickling_change_nothing(estimator):
    strong = {"lams": 5, "lam_min_ratio": 0.05, "sample_weight": WEIGHT}  # with less, l1,inf has several minimisers
    one = search(estimator, **strong)
    for options in ({"n_jobs": 2}, {"memory_budget": 1.0}):
        other = search(estimator, **strong, **options)
        assert other.best_point_ == one.best_point_
        np.testing.assert_allclose(other.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"], rtol=1e-6)
        np.testing.assert_allclose(other.coef_, one.coef_, rtol=0, atol=1e-9)
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(again.predict(X, task=TASK), one.predict(X, task=TASK))
    assert again.surface_.problem is None
    np.testing.assert_array_equal(again.surface_.dual_gap, one.surface_.dual_gap)
    assert clone(one).get_params() == one.get_params()
    assert repr(clone(one)) == repr(one)


@pytest.mark.parametrize("estimator", SEARCHES)
def test_scorers_and_task_columns(estimator):
    table = pd.DataFrame(X, columns=[f"f{j}" for j in range(D)]).assign(school=TASK)
    model = estimator(lams=4, cv=3, task_column="school", scoring="neg_mean_absolute_error").fit(table, y)
    folds = TaskKFold(3, task=TASK, random_state=0).split(X)
    for f, (train, test) in enumerate(folds):
        one = single(model, 5 if estimator is DirtyMTLCV else 2, task_column="school").fit(table.iloc[train], y[train])
        expected = -np.abs(y[test] - one.predict(table.iloc[test])).mean()
        place = 5 if estimator is DirtyMTLCV else 2
        assert model.cv_results_[f"split{f}_test_score"][place] == pytest.approx(expected, rel=1e-6)
    assert model.score(table, y) > 0.5
    polars = clone(model).fit(pl.from_pandas(table), y)
    np.testing.assert_allclose(polars.coef_, model.coef_, rtol=0, atol=1e-12)


@pytest.mark.parametrize("estimator", SEARCHES)
def test_the_progress_bar_counts_every_point(estimator, capsys, terminal):
    search(estimator)
    assert capsys.readouterr() == ("", "")
    model = search(estimator, verbose=True)
    points = model.surface_.objective.size * 4
    assert f"{points}/{points} points" in capsys.readouterr().err


@pytest.mark.parametrize("estimator", SEARCHES)
def test_relax_refits_the_model_chosen(estimator):
    model, plain = search(estimator, relax=True), search(estimator)
    assert model.best_point_[0] < plain.best_point_[0]  # what is not shrunk needs fewer features
    np.testing.assert_array_equal(model.coef_ != 0, model.surface_.coef(*model.best_point_) != 0)
    assert np.abs(gradient(model.coef_)[model.coef_ != 0]).max() <= 1e-9


@pytest.mark.parametrize("estimator", SEARCHES)
def test_one_task_without_labels(estimator):
    model = estimator(lams=5, cv=3).fit(X, y)
    lasso = LassoMTLCV(lams=model.surface_.parameters[next(iter(model.surface_.parameters))][:, 0], cv=3).fit(X, y)
    assert model.coef_.shape == (D,)
    scores, of_lasso = (one.cv_results_["mean_test_score"] for one in (model, lasso))
    known = np.isfinite(scores) & np.isfinite(of_lasso)  # they may look at errors at other points, and end elsewhere
    assert known.sum() >= 4
    np.testing.assert_allclose(scores[known], of_lasso[known], rtol=1e-8)
    np.testing.assert_allclose(model.coef_, lasso.coef_, rtol=0, atol=1e-9)
    if estimator is DirtyMTLCV:
        assert model.coef_shared_.shape == (D,)


# ------------------------------------------------------------------ what reviewers found


def test_columns_that_fetch_gram_rows_do_not_race():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((120, 300)), np.repeat([0, 1, 2], 40)
    y = X[:, :5].sum(axis=1) + rng.standard_normal(120)
    options = {"lams": 6, "lam_min_ratio": 0.1, "cv": 2, "memory_budget": 2e5}  # far less than a whole Gram matrix
    one, four = (DirtyMTLCV(n_jobs=n_jobs, **options).fit(X, y, task=task) for n_jobs in (1, 4))
    np.testing.assert_allclose(one.cv_results_["mean_test_score"], four.cv_results_["mean_test_score"], rtol=1e-6)


@pytest.mark.parametrize("model", [L12MTL(0.1), DirtyMTL(0.1, 0.2)], ids=["l12", "dirty"])
def test_a_warm_start_on_constant_targets_gives_zeros(model):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 5)), np.repeat([0, 1], 30)
    model = clone(model).set_params(warm_start=True)
    assert model.fit(X, X[:, 0], task=task).coef_.any()
    assert not model.fit(X, np.zeros(60), task=task).coef_.any()


def test_reasons_and_certificates_tell_convex_from_not():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 5)), np.repeat([0, 1], 30)
    y = X[:, 0] + 0.1 * rng.standard_normal(60)
    convex = L12MTL(0.1).fit(X, y, task=task)
    assert "convex, one stage" in convex.stopping_reason_
    assert "the objective is convex" in str(convex.certificate_)
    capped = L12MTL(0.1, 100.0).fit(X, y, task=task)
    assert "freed features repeats" in capped.stopping_reason_
    assert "non-convex" in str(capped.certificate_)
    assert L12MTL(0.1, 0.5, max_stages=1).fit(X, y, task=task).stopping_reason_ == "one stage, as asked: max_stages=1"


def test_features_that_can_be_exchanged_are_the_ones_named():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((90, 6)), np.repeat([0, 1, 2], 30)
    X = np.c_[X, X[:, 0]]
    y = X[:, :3] @ [1.0, 2.0, 3.0] + 0.1 * rng.standard_normal(90)
    for model in (L12MTL(0.1), DirtyMTL(0.1, 0.2), DirtyMTL(0.1, 0.1)):
        ambiguous = model.fit(X, y, task=task).certificate_.ambiguous
        assert ambiguous
        assert all(names == ["x0", "x6"] for names in ambiguous.values())


@pytest.mark.parametrize("lam", [1e-110, 1e-200, 1e-300])
def test_a_tiny_lam_gives_numbers_and_no_false_proof(lam):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((200, 15)), np.repeat(np.arange(10), 20)
    y = X[:, 0] + rng.standard_normal(200)
    for model in (L12MTL(lam), DirtyMTL(lam, 1.0), DirtyMTL(lam, lam)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y, task=task)
        assert np.isfinite(model.coef_).all()
        assert model.converged_ == (model.dual_gap_ <= model.tol)


@pytest.mark.parametrize("options", [{"max_iter": 1}, {"max_iter": 2}])
def test_a_rough_solution_is_not_called_unique(options):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 5)), np.repeat([0, 1], 30)
    X[:, 1] = X[:, 0]
    model = L12MTL(0.01, tol=0.9, **options).fit(X, X[:, 0] + 0.1 * rng.standard_normal(60), task=task)
    assert not model.certificate_.unique
