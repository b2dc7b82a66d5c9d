"""Intercepts that share: random ones ("shrunk"), and one for all tasks ("common")."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from msmtfl import (
    L12MTL,
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    LassoMTL,
    LassoMTLCV,
    Moments,
    MSMTFLClassifier,
    MSMTFLClassifierCV,
    MultiTaskAuto,
    MultiTaskAutoClassifier,
    PartialPooling,
    SharedMTL,
    SharedMTLCV,
    compare_models,
)
from msmtfl._data.tasks import read_training
from msmtfl._solvers.problems.level_priors import weight_of_a_row
from msmtfl._solvers.problems.make_problem import make_problem, training
from msmtfl.model_files import load_model, save_model

FITS = [LassoMTL(0.05), MSMTFL(0.05), L12MTL(0.05), DirtyMTL(), SharedMTL()]


def random_levels(seed=0, m=12, d=5, sd=1.5, noise=1.0, sizes=(2, 30), slopes=0.0):
    """Samples of tasks with levels 2 + u_i, and task means that differ in X."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), rng.integers(*sizes, m))
    u, W = sd * rng.normal(size=m), np.eye(d)[0] + slopes * rng.normal(size=(m, d))
    X = rng.normal(size=(len(task), d)) + 0.5 * rng.normal(size=(m, d))[task]
    y = 2 + u[task] + np.einsum("rj,rj->r", X, W[task]) + noise * rng.normal(size=len(task))
    return X, y, task, u


def classes(seed=0, m=12, d=4, sizes=(10, 30), level=-2.5):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), rng.integers(*sizes, m))
    X = rng.normal(size=(len(task), d))
    f = level + 0.7 * rng.normal(size=m)[task] + 1.5 * X[:, 0]
    return X, (rng.random(len(task)) < 1 / (1 + np.exp(-f))).astype(int), task


def objective(model, X, y, task, W, b):
    """(1) with a ridge on the levels, and the lasso's penalty."""
    m, out = len(model.tasks_), model.lam_ * np.abs(W).sum()
    for i in range(m):
        rows = task == i
        fit = ((y[rows] - X[rows] @ W[i] - b[i]) ** 2).sum()
        level = model.level_at_ @ W[i] + b[i] - model.common_level_
        out += (fit + model.level_ridge_ * level**2) / (m * rows.sum())
    return out


def test_without_features_levels_are_those_of_a_random_intercept_model():
    X, y, task, _ = random_levels()
    for kind in (LassoMTL(1e3, intercepts="shrunk"), LassoMTL(penalty_factors=np.full(5, np.inf), intercepts="shrunk")):
        model = kind.fit(X, y, task=task)
        n, mean, k, level = (
            np.bincount(task),
            np.bincount(task, y) / np.bincount(task),
            model.level_ridge_,
            model.common_level_,
        )
        assert not model.coef_.any()
        np.testing.assert_allclose(model.intercept_, (n * mean + k * level) / (n + k), rtol=1e-12)
    np.testing.assert_allclose(model.level_at_, X.mean(axis=0))


def test_the_fit_minimises_the_objective_with_the_ridge():
    X, y, task, _ = random_levels()
    model = LassoMTL(0.05, intercepts="shrunk").fit(X, y, task=task)
    best = objective(model, X, y, task, model.coef_, model.intercept_)
    assert model.objective_ == pytest.approx(best, rel=1e-12)
    rng = np.random.default_rng(1)
    for scale in (1e-1, 1e-3, 1e-5):
        W = model.coef_ + scale * rng.normal(size=model.coef_.shape) * (model.coef_ != 0)
        b = model.intercept_ + scale * rng.normal(size=len(model.intercept_))
        assert objective(model, X, y, task, W, b) > best


@pytest.mark.parametrize("model", FITS, ids=lambda model: type(model).__name__)
def test_every_family_is_certified(model):
    X, y, task, _ = random_levels(sizes=(5, 30))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*un-penalised")
        model.set_params(intercepts="shrunk").fit(X, y, task=task)
    assert model.converged_
    assert model.dual_gap_ < 1e-10


@pytest.mark.parametrize("model", FITS, ids=lambda model: type(model).__name__)
def test_the_form_of_the_data_makes_no_difference(model):
    X, y, task, _ = random_levels(sizes=(8, 30))
    X[np.abs(X) < 0.5] = 0.0
    model.set_params(intercepts="shrunk")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*un-penalised")
        dense = model.fit(X, y, task=task)
        coef, levels = dense.coef_.copy(), (dense.common_level_, dense.level_ridge_, *dense.intercept_)
        sparse = model.fit(csr_array(X), y, task=task)
        np.testing.assert_allclose(sparse.coef_, coef, atol=1e-9)
        np.testing.assert_allclose([sparse.common_level_, sparse.level_ridge_, *sparse.intercept_], levels, rtol=1e-8)
        summed = model.fit_moments(Moments().update(X, y, task=task))
        np.testing.assert_allclose(summed.coef_, coef, atol=1e-7)
        np.testing.assert_allclose([summed.common_level_, summed.level_ridge_, *summed.intercept_], levels, rtol=1e-6)


@pytest.mark.slow
def test_strengths_are_those_of_the_variances():
    """k = s^2 / s_u^2, also where slopes differ between the tasks, and at the limits."""

    def found(**options):
        fits = [
            LassoMTL(intercepts="shrunk").fit(*data[:2], task=data[2])
            for data in (random_levels(seed, m=40, sizes=(10, 30), **options) for seed in range(8))
        ]
        return np.exp(np.mean(np.log([fit.level_ridge_ for fit in fits])))

    assert 0.6 < found(sd=1.0) < 1.6
    assert 0.6 < found(sd=1.0, slopes=1.0) < 1.6
    assert 2.4 < found(sd=0.5) < 6.4
    assert found(sd=0.0) > 50
    assert found(sd=100.0) < 1e-3


def test_new_samples_of_small_tasks_are_predicted_better():
    gains = []
    for seed in range(6):
        X, y, task, u = random_levels(seed, m=30, sizes=(2, 8))
        rng = np.random.default_rng(100 + seed)
        new, of = rng.normal(size=(600, 5)), np.repeat(np.arange(30), 20)
        truth = 2 + u[of] + new[:, 0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            errors = [
                np.mean((SharedMTL(intercepts=kind).fit(X, y, task=task).predict(new, task=of) - truth) ** 2)
                for kind in ("task", "shrunk")
            ]
        gains.append(errors[1] / errors[0])
    assert np.mean(gains) < 0.95


def test_weights_that_count_samples_and_their_unit():
    X, y, task, _ = random_levels(sizes=(4, 12))
    twice = LassoMTL(0.05, intercepts="shrunk").fit(np.vstack([X, X]), np.append(y, y), task=np.append(task, task))
    counted = LassoMTL(0.05, intercepts="shrunk").fit(X, y, task=task, sample_weight=np.full(len(y), 2.0))
    assert counted.level_ridge_ == pytest.approx(twice.level_ridge_)
    np.testing.assert_allclose(counted.coef_, twice.coef_, atol=1e-10)
    once = LassoMTL(0.05, intercepts="shrunk").fit(X, y, task=task)
    scaled = LassoMTL(0.05, intercepts="shrunk").fit(X, y, task=task, sample_weight=np.full(len(y), 1e-3))
    assert scaled.level_ridge_ == pytest.approx(1e-3 * once.level_ridge_)
    np.testing.assert_allclose(scaled.intercept_, once.intercept_, atol=1e-9)


def test_tasks_of_one_sample_need_no_warning_and_new_ones_get_the_common_level():
    X, y, task, _ = random_levels(sizes=(1, 12))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LassoMTL(0.2, intercepts="shrunk", unknown_task="mean").fit(X, y, task=task)
    assert (np.bincount(task) == 1).any()
    with pytest.warns(UserWarning, match="not in the training data"):
        found = model.predict(model.level_at_[None], task=["new"])
    assert found[0] == pytest.approx(model.common_level_)


def test_a_single_task_has_nothing_to_share():
    X, y, _, _ = random_levels()
    model, alone = (LassoMTL(0.1, intercepts=kind).fit(X, y) for kind in ("shrunk", "task"))
    assert model.intercept_ == alone.intercept_
    assert not hasattr(model, "common_level_")


def test_one_more_task_is_drawn_to_the_same_level():
    X, y, task, _ = random_levels()
    model = LassoMTL(1e3, intercepts="shrunk").fit(X, y, task=task)
    model.add_task(X[:3], y[:3] + 10, "new")
    m = len(np.unique(task))  # of which the common level is the mean: were it found anew, it would follow the new one
    k, level = model.level_ridge_ * m / (m + 1), model.common_level_
    assert model.intercept_[-1] == pytest.approx((3 * (y[:3].mean() + 10) + k * level) / (3 + k))


@pytest.mark.parametrize("model", [LassoMTL(0.05), LassoMTLCV(lams=5, cv=3), MSMTFLClassifier(0.05)], ids=str)
def test_intercepts_left_out_do_not_share(model):
    X, y, task = classes()
    with pytest.raises(ValueError, match="fit_intercept=False leaves them out"):
        model.set_params(fit_intercept=False, intercepts="shrunk").fit(X, y, task=task)
    with pytest.raises(ValueError, match="intercepts must be one of 'task', 'shrunk', 'common'"):
        model.set_params(fit_intercept=True, intercepts="random").fit(X, y, task=task)


# ------------------------------------------------------------------ cross-validation


@pytest.mark.parametrize("kind", ["shrunk", "common"])
@pytest.mark.parametrize(
    "model", [LassoMTLCV(lams=6), MSMTFLCV(lams=6), L12MTLCV(lams=6), SharedMTLCV(lams=4)], ids=str
)
@pytest.mark.sampled(2)
def test_folds_score_what_is_fitted_to_them(model, kind):
    """The held-out errors of a point are those of fits to the training samples alone."""
    X, y, task, _ = random_levels(sizes=(12, 30), m=6)
    folds = [(np.flatnonzero(np.arange(len(y)) % 3 != f), np.flatnonzero(np.arange(len(y)) % 3 == f)) for f in range(3)]
    model.set_params(cv=folds, scoring="neg_mse", intercepts=kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, task=task)
        scores = [model.cv_results_[f"split{f}_test_score"][model.best_index_] for f in range(3)]
        names = {
            "SharedMTLCV": ("lam_common", "lam_deviation", "theta"),
            "MSMTFLCV": ("lam", "theta", "lam_entry", "theta_entry"),
        }
        single = {"LassoMTLCV": LassoMTL, "MSMTFLCV": MSMTFL, "L12MTLCV": L12MTL, "SharedMTLCV": SharedMTL}[
            type(model).__name__
        ]
        values = {name: getattr(model, f"{name}_") for name in names.get(type(model).__name__, ("lam",))}
        for (train, test), score in zip(folds, scores, strict=True):
            fit = single(**values, intercepts=kind).fit(X[train], y[train], task=task[train])
            error = (fit.predict(X[test], task=task[test]) - y[test]) ** 2
            counts = np.bincount(task[test])
            assert -score == pytest.approx((np.bincount(task[test], error) / counts) @ counts / counts.sum(), rel=1e-6)
    found = model.surface_
    assert np.nanmax(found.dual_gap) < 1e-9
    np.testing.assert_allclose(found.intercept(*model.best_point_), model.intercept_, rtol=1e-7)
    assert found.objective[model.best_point_] == pytest.approx(model.objective_)


def test_folds_by_subtraction_have_the_gram_matrix_of_their_samples():
    X, y, task, _ = random_levels(sizes=(12, 30), d=7)
    options = {"fit_intercept": True, "standardize": False, "positive": False, "intercepts": "shrunk"}
    whole = make_problem(read_training(X, y, task=task), **options)
    keep = np.arange(len(y)) % 4 != 0
    part, alone = training(whole, keep), make_problem(read_training(X[keep], y[keep], task=task[keep]), **options)
    some = np.array([0, 3, 6])
    for mine, other, total in zip(part.designs, alone.designs, whole.designs, strict=True):
        np.testing.assert_allclose(mine.gram(), other.gram(), atol=1e-10)
        np.testing.assert_allclose(mine.c, other.c, atol=1e-10)
        np.testing.assert_allclose(mine.gram_rows(some), other.gram()[some], atol=1e-10)
        out = np.empty((3, 7))
        mine.gram_rows_less(some, total.gram_rows(some), out)
        np.testing.assert_allclose(out, other.gram()[some], atol=1e-10)


# ------------------------------------------------------------------ classes and counts


@pytest.mark.slow
def test_tasks_of_one_class_are_refused_with_the_way_out_or_fitted_with_a_note():
    X, y, task = classes(seed=1)
    lonely = [i for i in range(12) if not y[task == i].any()]
    assert lonely
    with pytest.raises(ValueError, match=rf"{lonely[0]}.*no row of class 1.*intercepts='shrunk'"):
        MSMTFLClassifier(0.02).fit(X, y, task=task)
    with pytest.warns(UserWarning, match=rf"{lonely[0]}.*rows of one class only: the intercept comes from"):
        model = MSMTFLClassifier(0.02, intercepts="shrunk").fit(X, y, task=task)
    assert model.converged_
    assert model.dual_gap_ < 1e-8
    assert np.isfinite(model.intercept_).all()
    assert np.abs(model.intercept_).max() < 20
    for kind in ("shrunk", "common"):
        with pytest.warns(UserWarning, match="one class only"):
            search = MSMTFLClassifierCV(lams=5, cv=3, intercepts=kind, class_weight="balanced").fit(X, y, task=task)
        assert search.converged_


def test_pseudo_samples_are_those_of_the_objective():
    """The fit is that of data with samples of weight k at the mean, k p_0 of them of the second class."""
    X, y, task = classes(seed=2, level=-1.0)
    model = MSMTFLClassifier(1e3, intercepts="shrunk").fit(X, y, task=task)
    k, p = model.level_ridge_, 1 / (1 + np.exp(-model.common_level_))
    shares = (np.bincount(task, y) + k * p) / (np.bincount(task) + k)
    np.testing.assert_allclose(1 / (1 + np.exp(-model.intercept_)), shares, rtol=1e-9)


def test_more_than_two_classes():
    X, y, task = classes(seed=1)
    y = np.where(y == 1, "c", np.where(X[:, 1] > 0.5, "b", "a"))
    with pytest.warns(UserWarning, match="one class only"):
        model = MSMTFLClassifier(0.02, intercepts="shrunk", unknown_task="mean").fit(X, y, task=task)
    assert model.common_level_.shape == model.level_ridge_.shape == (3,)
    with pytest.warns(UserWarning, match="not in the training data"):
        assert model.predict_proba(X[:2], task=["new"] * 2).shape == (2, 3)


def test_counts_that_are_all_zero():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(8), 12)
    X = rng.normal(size=(96, 3))
    y = rng.poisson(np.exp(-1.5 + 0.8 * rng.normal(size=8)[task] + 0.5 * X[:, 0])).astype(float)
    y[task == 3] = 0
    with pytest.raises(ValueError, match=r"task.* 3.*all 0.*intercepts='shrunk'"):
        MSMTFL(0.02, loss="poisson").fit(X, y, task=task)
    with pytest.warns(UserWarning, match="3.*all 0"):
        model = MSMTFL(1e3, loss="poisson", intercepts="shrunk").fit(X, y, task=task)
    k, rate = model.level_ridge_, np.exp(model.common_level_)
    np.testing.assert_allclose(np.exp(model.intercept_), (np.bincount(task, y) + k * rate) / (12 + k), rtol=1e-9)
    with pytest.raises(ValueError, match="all 0"):
        MSMTFL(0.02, loss="poisson", intercepts="shrunk").fit(X, 0 * y, task=task)


def test_huber():
    X, y, task, _ = random_levels(sizes=(10, 30))
    y[::17] += 50
    model = MSMTFL(0.05, loss="huber", intercepts="shrunk").fit(X, y, task=task)
    assert model.converged_
    assert 0.1 < model.level_ridge_ < 3


def test_a_file_keeps_the_level(tmp_path):
    X, y, task, _ = random_levels()
    model = LassoMTL(0.05, intercepts="shrunk", unknown_task="mean").fit(X, y, task=task)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.intercepts == "shrunk"
    assert again.common_level_ == model.common_level_
    with pytest.warns(UserWarning, match="not in the training data"):
        np.testing.assert_array_equal(again.predict(X[:3], task=["new"] * 3), model.predict(X[:3], task=["new"] * 3))


# ------------------------------------------------------------------ one for all tasks


def at_the_common_level(model, X, y, task):
    """The same model without intercepts, of targets less the common level."""
    alone = clone(model).set_params(intercepts="task", fit_intercept=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*un-penalised")
        return alone.fit(X, y - model.common_level_, task=task)


@pytest.mark.parametrize("model", FITS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("form", ["dense", "sparse", "moments"])
def test_one_intercept_for_all_is_that_of_the_joint_minimiser(model, form):
    """W is what it is without intercepts at y - a, and a is where the derivative of the loss is 0."""
    X, y, task, _ = random_levels(sizes=(5, 30))
    model = clone(model).set_params(intercepts="common", standardize=form == "sparse")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*un-penalised")
        if form == "moments":
            model.fit_moments(Moments().update(X, y, task=task))
        else:
            model.fit(csr_array(X) if form == "sparse" else X, y, task=task)
    assert model.converged_
    assert model.dual_gap_ < 1e-9
    assert (model.intercept_ == model.common_level_).all()
    residual = y - model.predict(X, task=task)
    slopes = np.bincount(task, residual) / np.bincount(task)
    assert abs(slopes.mean()) < 1e-9
    if type(model).__name__ in ("LassoMTL", "L12MTL"):
        # standardised without intercepts means by root mean squares, as the solver sees the columns then
        assert model.set_params(lam=model.lam_) is model
        np.testing.assert_allclose(at_the_common_level(model, X, y, task).coef_, model.coef_, atol=1e-7)


def test_a_level_that_has_not_settled_is_not_certified(monkeypatch):
    X, y, task, _ = random_levels(sizes=(5, 30))
    monkeypatch.setattr("msmtfl._solvers.one_level.STEPS", 1)
    with pytest.warns(UserWarning, match="not certified"):
        model = LassoMTL(0.05, intercepts="common").fit(X, y, task=task)
    assert not model.converged_
    assert model.dual_gap_ > 1e-6


@pytest.mark.slow
def test_a_common_intercept_of_classes_and_counts():
    X, y, task = classes(seed=1)
    with pytest.warns(UserWarning, match="one class only"):
        model = MSMTFLClassifier(0.02, intercepts="common").fit(X, y, task=task)
    assert model.converged_
    off = y - model.predict_proba(X, task=task)[:, 1]
    assert abs((np.bincount(task, off) / np.bincount(task)).mean()) < 1e-9
    counts = np.random.default_rng(0).poisson(np.exp(0.3 * X[:, 0])).astype(float)
    for loss in ("poisson", "huber"):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*all 0")
            model = MSMTFL(0.05, loss=loss, intercepts="common").fit(X, counts, task=task)
        assert model.converged_
        assert (model.intercept_ == model.common_level_).all()
    with pytest.warns(UserWarning, match="one class only"):
        model = MSMTFLClassifier(0.05, intercepts="common").fit(X, np.digitize(X[:, 0] + task % 3, [0, 1.5]), task=task)
    assert model.common_level_.shape == (3,)
    assert model.converged_


def test_one_more_task_has_the_common_intercept():
    X, y, task, _ = random_levels(sizes=(5, 30))
    model = LassoMTL(0.05, intercepts="common", unknown_task="mean").fit(X, y, task=task)
    level = model.common_level_
    with pytest.warns(UserWarning, match="not in the training data"):
        assert model.predict(np.zeros((1, 5)), task=["new"])[0] == pytest.approx(level)
    model.add_task(X[:9], y[:9], "new")
    assert model.intercept_[-1] == level


def test_a_refit_has_a_common_intercept_too():
    X, y, task, _ = random_levels(sizes=(8, 30))
    for kind in (LassoMTL, SharedMTL):
        model = kind(intercepts="common", relax=True).fit(X, y, task=task)
        off = np.bincount(task, y - model.predict(X, task=task)) / np.bincount(task)
        assert abs(off.mean()) < 1e-9


def test_moments_choose_a_common_intercept_too():
    X, y, task, _ = random_levels(sizes=(12, 30), m=5)
    fold = np.arange(len(y)) % 3
    parts = [Moments().update(X[fold == f], y[fold == f], task=task[fold == f]) for f in range(3)]
    pairs = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    for kind in ("shrunk", "common"):
        summed = LassoMTLCV(lams=5, intercepts=kind).fit_moments(parts)
        rows = LassoMTLCV(lams=5, intercepts=kind, cv=pairs).fit(X, y, task=task)
        np.testing.assert_allclose(summed.intercept_, rows.intercept_, rtol=1e-6)
        assert summed.best_score_ == pytest.approx(rows.best_score_, rel=1e-6)


# ------------------------------------------------------------------ comparison and command


@pytest.mark.slow
def test_comparisons_leave_out_who_needs_an_intercept_per_task():
    X, y, task = classes(seed=1, sizes=(20, 40))
    options = {"task": task, "classify": True, "cv": 3, "inner_cv": 3}
    with pytest.raises(ValueError, match="no row of class 1"):
        compare_models(X, y, **options)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = compare_models(X, y, **options, models=["lasso", "pooled lasso", "pooled ridge"], intercepts="shrunk")
        model = MultiTaskAutoClassifier(["lasso", "pooled ridge"], intercepts="shrunk", cv=3, inner_cv=3)
        model.fit(X, y, task=task)
    assert result.models == ["lasso", "pooled ridge"]
    messages = [str(one.message) for one in said]
    assert any("'pooled lasso' are left out: they need an intercept per task" in one for one in messages)
    assert not any("says little" in one for one in messages)
    assert np.isfinite(model.intercept_).all()


def test_auto_shares_intercepts():
    X, y, task, _ = random_levels(sizes=(12, 30))
    model = MultiTaskAuto(["lasso", "shared"], intercepts="shrunk", cv=3).fit(X, y, task=task)
    assert model.level_ridge_ > 0


def test_the_command(tmp_path):
    pd = pytest.importorskip("pandas")
    runner = pytest.importorskip("typer.testing").CliRunner()
    from msmtfl.cli import app

    X, y, task, _ = random_levels(sizes=(12, 30))
    table, out = tmp_path / "table.csv", tmp_path / "model"
    pd.DataFrame(X, columns=list("abcde")).assign(place=task, y=y).to_csv(table, index=False)
    given = ["fit", str(table), "-y", "y", "-t", "place", "--model", "lasso", "--lam", "0.05", "--out", str(out)]
    for kind in ("shrunk", "common"):
        found = runner.invoke(app, [*given, "--intercepts", kind])
        assert found.exit_code == 0, found.output
        assert load_model(out).intercepts == kind
    wrong = runner.invoke(app, [*given, "--intercepts", "random"])
    assert wrong.exit_code != 0
    assert "intercepts must be one of" in wrong.output


@pytest.mark.slow
def test_columns_far_from_zero_are_solved_or_not_certified():
    """A common intercept belongs to x = 0, which may be far from the data: then rounding hides where it is best."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 3)), np.repeat([0, 1, 2], 20)
    y = X[:, 0] + np.array([0.0, 1.0, 3.0])[task] + 0.3 * rng.standard_normal(60)
    near = LassoMTL(0.1, intercepts="common").fit(X + 1e3, y, task=task)
    assert near.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        far = LassoMTL(0.1, intercepts="common").fit(X + 1e7, y, task=task)
    assert not far.converged_ or far.objective_ <= near.objective_ * 1.001


def test_a_constant_target_is_the_level_of_all():
    X, _, task, _ = random_levels(sizes=(5, 30))
    for model in (LassoMTL(0.1), MSMTFL(0.3, 1.0, loss="huber")):
        found = clone(model).set_params(intercepts="shrunk").fit(X, np.full(len(X), 3.0), task=task)
        np.testing.assert_allclose(found.predict(X, task=task), 3.0, rtol=1e-9)


def test_standardised_columns_have_the_units_of_their_tasks():
    """What levels are drawn to does not count for the standard deviation of a column, so that tasks with much between them
    are penalised as they are with intercepts of their own."""
    X, y, task, _ = random_levels(sizes=(20, 30))
    X = X + 5.0 * task[:, None]
    own, shrunk = (
        LassoMTL(0.05, standardize=True, intercepts=kind)._make_problem(X, y, task, None) for kind in ("task", "shrunk")
    )
    np.testing.assert_allclose(shrunk.units, own.units, rtol=1e-9)


@pytest.mark.parametrize("make", [L12MTL, DirtyMTL])
def test_gaps_are_relative_to_the_loss_of_a_level_alone(make):
    """Far from 0 the common level of a solution fits coefficients of 0 badly: a gap over that loss would be small."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((90, 6)) + 50.0, np.repeat([0, 1, 2], 30)
    y = X @ [1.0, -2.0, 0.5, 0.0, 0.0, 0.7] + 0.1 * rng.standard_normal(90) + 0.3 * X[:, 0] * (task == 1)
    parts = [y[task == i] for i in range(3)]
    level = np.mean([part.mean() for part in parts])
    alone = np.mean([np.mean((part - level) ** 2) for part in parts])
    strengths = (0.01, 0.015) if make is DirtyMTL else (0.01,)
    best = make(*strengths, intercepts="common").fit(X, y, task=task)
    with pytest.warns(ConvergenceWarning):
        ended = make(*strengths, intercepts="common", max_iter=3).fit(X, y, task=task)
    assert best.converged_
    assert ended.dual_gap_ >= (ended.objective_ - best.objective_) / alone > 0.5


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_column_that_is_the_same_everywhere_is_left_out(loss):
    """What rounding leaves of its distance from the mean of all samples is no unit to be penalised in."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((40, 3)), np.repeat([0, 1], [21, 19])
    X[:, 1] = -3e-7
    y = X[:, 0] + task + 0.3 * rng.standard_normal(40)
    model = PartialPooling(np.inf, 0.03, loss=loss, intercepts="shrunk", standardize=True).fit(X, y, task=task)
    assert (model.coef_[:, 1] == 0.0).all()
    assert not model.learnable_[:, 1].any()


def test_whether_weights_count_samples_is_the_same_in_a_fold_as_alone():
    """Sums of weights come by subtraction there, and are whole but for rounding."""
    rows = np.array([20, 20])
    assert (
        weight_of_a_row(np.array([23.000000000000004, 26.0]), rows)
        == weight_of_a_row(np.array([23.0, 26.0]), rows)
        == 1.0
    )
