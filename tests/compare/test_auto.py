"""The family that suits the data."""

import pickle
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from msmtfl import MSMTFL, LassoMTL, LassoMTLCV, MultiTaskAuto, SharedMTL, compare_models
from msmtfl._estimators.baselines.lasso import PooledLassoCV
from msmtfl._estimators.baselines.ridge import PooledRidgeCV, RidgePerTaskCV
from msmtfl._estimators.fitted import NewTaskWarning
from msmtfl.compare.auto import choose_family
from msmtfl.compare.comparison import Comparison
from msmtfl.compare.measures import steady_variances
from msmtfl.model_files import load_model, save_model

SMALL = {
    "lasso": LassoMTLCV(lams=10, cv=2, unknown_task="mean"),
    "pooled lasso": PooledLassoCV(lams=10, cv=2, unknown_task="mean"),
}


@pytest.mark.slow
@parametrize_with_checks([MultiTaskAuto({"a": LassoMTL(), "b": MSMTFL()}, cv=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def data(shared, seed=0, m=4, n=30, d=12):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)), np.repeat([f"t{i}" for i in range(m)], n)
    W = np.zeros((m, d))
    for i in range(m):
        W[i, :3] = [2.0, -1.0, 1.0] if shared else rng.permutation([2.0, -3.0, 1.0])
        if not shared:
            W[i] = rng.permutation(W[i])
    y = np.einsum("rj,rj->r", X, np.repeat(W, n, axis=0)) + rng.standard_normal(m * n)
    return X, y, task


@pytest.mark.parametrize("shared", [True, False])
def test_it_pools_where_pooling_wins_and_only_there(shared):
    X, y, task = data(shared)
    model = MultiTaskAuto(SMALL, cv=3, inner_cv=2).fit(X, y, task=task)
    assert model.chosen_ == ("pooled lasso" if shared else "lasso")
    assert "has the smallest held-out nMSE of 2 models" in model.reason_
    alone = clone(SMALL[model.chosen_]).set_params(cv=3).fit(X, y, task=task)  # the folds of the comparison
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    np.testing.assert_array_equal(model.predict(X, task=task), alone.predict(X, task=task))
    assert model.score(X, y, task=task) == alone.score(X, y, task=task)


def test_the_comparison_is_that_of_compare_models():
    X, y, task = data(True)
    model = MultiTaskAuto(SMALL, cv=3, inner_cv=2).fit(X, y, task=task)
    same = compare_models(X, y, task=task, models=SMALL, cv=3, inner_cv=2)
    np.testing.assert_array_equal(model.comparison_.errors, same.errors)
    assert model.comparison_.corrected.chosen == same.corrected.chosen
    value = max(same.corrected.chosen["1se"], same.error[same.models.index(model.chosen_)])
    assert f"to expect on new data is {value:.3f}. Parameters were chosen by cross-validation." in model.reason_


def test_within_one_standard_error_the_simpler_wins():
    X, y, task = data(True)
    found = compare_models(X, y, task=task, models=SMALL, cv=3, inner_cv=2)
    noise = 0.1 * (-1.0) ** np.arange(found.errors.shape[1])  # as good as can be told
    errors = np.array([found.errors[0], found.errors[0] + noise + 1e-3])
    near = replace(found, errors=errors, chosen_errors=None, n_features=np.array([9.0, 4.0]))
    assert choose_family(near, "min")[0] == "lasso"
    name, reason = choose_family(near)
    assert name == "pooled lasso"
    assert "is within one standard error of it" in reason
    assert "uses 4 features where that uses 9" in reason
    assert choose_family(replace(near, n_features=np.array([4.0, 9.0])))[0] == "lasso"
    assert choose_family(replace(near, errors=errors + np.array([[0.0], [0.5]])))[0] == "lasso"


def test_a_table_with_a_task_column():
    pd = pytest.importorskip("pandas")
    X, y, task = data(True)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(12)]).assign(town=task)
    model = MultiTaskAuto(SMALL, cv=3, inner_cv=2, task_column="town").fit(table, y)
    assert model.tasks_.tolist() == ["t0", "t1", "t2", "t3"]
    assert model.predict(table).shape == (120,)
    unknown = table.assign(town="elsewhere")
    with pytest.raises(ValueError, match="elsewhere"):
        model.predict(unknown)
    with pytest.warns(NewTaskWarning, match="'elsewhere' were not in the training data"):
        assert model.set_params(unknown_task="mean").fit(table, y).predict(unknown).shape == (120,)


def test_sparse_data_leave_out_the_families_that_need_dense_ones():
    X, y, task = data(True)
    model = MultiTaskAuto(["lasso", "msmtfl"], cv=2, inner_cv=2).fit(sparse.csr_array(X), y, task=task)
    assert set(model.comparison_.models) == {"lasso", "msmtfl"}
    with pytest.raises(ValueError, match=r"unknown model.*'pooled ridge'"):
        MultiTaskAuto(["lasso", "pooled ridge"]).fit(sparse.csr_array(X), y, task=task)


def test_bad_parameters_are_named():
    X, y, task = data(True)
    with pytest.raises(ValueError, match="selection must be '1se' or 'min'"):
        MultiTaskAuto(selection="best").fit(X, y, task=task)
    with pytest.raises(ValueError, match=r"unknown model.*'elastic net'"):
        MultiTaskAuto(["lasso", "elastic net"]).fit(X, y, task=task)


def test_what_is_saved_is_the_model_chosen(tmp_path):
    X, y, task = data(True)
    model = MultiTaskAuto(SMALL, cv=3, inner_cv=2).fit(X, y, task=task)
    save_model(model, tmp_path / "a.msmtfl")
    again = load_model(tmp_path / "a.msmtfl")
    assert type(again) is type(model.best_estimator_)
    np.testing.assert_array_equal(again.predict(X, task=task), model.predict(X, task=task))


class Mean(RegressorMixin, BaseEstimator):
    """Takes labels, and has no coefficients."""

    def fit(self, X, y, task=None):
        self.mean_ = y.mean()
        return self

    def predict(self, X, task=None):
        return np.full(len(X), self.mean_)


def test_it_predicts_as_the_model_chosen_does():
    X, _, task = data(True)
    counts = np.random.default_rng(0).poisson(np.exp(0.3 * X[:, 0]))
    model = MultiTaskAuto({"a": MSMTFL(0.01, loss="poisson"), "b": MSMTFL(50.0, loss="poisson")}, cv=2)
    model.fit(X, counts, task=task)
    assert (model.predict(X, task=task) > 0).all()
    np.testing.assert_array_equal(model.predict(X, task=task), model.best_estimator_.predict(X, task=task))
    noise = np.random.default_rng(1).standard_normal(120)
    plain = MultiTaskAuto({"mean": Mean(), "lasso": LassoMTL(1e-4)}, cv=3).fit(X, noise, task=task)
    assert plain.chosen_ == "mean"
    np.testing.assert_array_equal(plain.predict(X, task=task), np.full(120, noise.mean()))


def test_groups_reach_only_models_that_take_them_and_a_refit_forgets_the_last_family():
    X, y, task = data(True)
    groups = np.arange(120) // 3
    model = MultiTaskAuto({"s": SharedMTL(0.05, 0.05), "l": LassoMTL(50.0)}, cv=3).fit(X, y, task=task, groups=groups)
    assert model.chosen_ == "s"
    assert hasattr(model, "coef_common_")
    model.set_params(models={"m": MSMTFL(0.05, 1.0), "l": LassoMTL(50.0)}).fit(X, y, task=task)
    assert not hasattr(model, "coef_common_")


def test_what_was_found_is_kept_once_and_asked_of_the_model_chosen():
    X, y, task = data(False)
    model = MultiTaskAuto(SMALL, cv=3, inner_cv=2)
    assert not hasattr(model, "coef_")
    assert not hasattr(copy(model), "_form")
    with pytest.raises(AttributeError, match="'MultiTaskAuto' object has no attribute 'coef_'"):
        _ = model.coef_
    model.fit(X, y, task=task)
    check_is_fitted(model)
    check_is_fitted(model, "coef_")
    for one in (model, copy(model), pickle.loads(pickle.dumps(model))):
        assert one.coef_ is one.best_estimator_.coef_
        assert "coef_" not in vars(one)
        assert {"coef_", "cross_fitted_score_", "chosen_", "predict"} <= set(dir(one))
        assert one.cross_fitted_score_ == model.best_estimator_.cross_fitted_score_
        assert (one._form, one._task_position) == ("long", None)
        assert not hasattr(one, "coef_common_")
    assert not hasattr(clone(model), "coef_")
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full_like(X, np.nan), y, task=task)
    assert model.coef_.shape == (4, 12)  # as before


# ------------------------------------------------------------------ variances of small tasks


def test_variances_of_small_tasks_are_drawn_together():
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((200, 5)).var(axis=1)
    steady = steady_variances(raw, np.full(200, 5))
    assert np.mean((steady - 1) ** 2) < 0.1 * np.mean((1.25 * raw - 1) ** 2)  # the unbiased ones


def test_variances_of_large_tasks_stay_whatever_their_scales():
    raw = np.array([1e-6, 1.0, 3.0, 1e8])
    np.testing.assert_allclose(steady_variances(raw, np.full(4, 500)), raw, rtol=0.03)


def test_a_constant_task_among_others_gets_a_variance_and_one_task_keeps_its_own():
    assert steady_variances(np.array([1.0, 2.0, 0.5, 0.0]), np.full(4, 6))[3] > 0
    np.testing.assert_array_equal(steady_variances(np.array([2.0]), np.array([9])), [2.0])


def test_a_task_whose_few_targets_happen_to_be_alike_does_not_decide():
    rng = np.random.default_rng(0)
    m, n = 60, 4
    task = np.repeat(np.arange(m), n)
    unit = rng.standard_normal((m, n)).var(axis=1)
    unit[0] = 1e-4
    errors = np.stack([np.full(m * n, 0.5), np.where(task == 0, 0.1, 0.8)])
    found = Comparison(
        models=["better", "other"],
        reference="other",
        tasks=np.arange(m),
        errors=errors,
        cell_task=task,
        cell_weight=np.ones(m * n),
        cell_cluster=np.arange(m * n),
        unit=unit,
        n_features=np.array([5.0, 4.0]),
        seconds=np.ones(2),
        n_splits=4,
    )
    assert found.best == "other"
    chosen, reason = choose_family(found)
    assert chosen == "better"
    assert "variances of small tasks" in reason


@pytest.mark.parametrize(("features", "chosen"), [((100.0, 81.0), "best"), ((100.0, 79.0), "sparse")])
def test_a_few_features_less_are_no_reason_to_leave_the_best(features, chosen):
    rng = np.random.default_rng(0)
    errors = rng.chisquare(1, (2, 60))
    errors[1] += errors[0].mean() - errors[1].mean() + 0.01  # nearly as good
    found = Comparison(
        models=["best", "sparse"],
        reference="best",
        tasks=np.arange(3),
        errors=errors,
        cell_task=np.repeat(np.arange(3), 20),
        cell_weight=np.ones(60),
        cell_cluster=np.arange(60),
        unit=np.ones(3),
        n_features=np.array(features),
        seconds=np.ones(2),
        n_splits=5,
    )
    assert found.best == "best"
    assert choose_family(found)[0] == chosen
    assert choose_family(found, "min")[0] == "best"
    alike = replace(found, errors=np.stack([errors[0], errors[0]]))
    assert choose_family(alike)[0] == "sparse"  # of equal errors the fewer features


def test_variances_are_steadied_on_the_first_fold_as_on_all():
    """By the rows that they are of, not by those held out so far: one of each task here, which says nothing."""
    rng = np.random.default_rng(0)
    m, n = 50, 3
    unit = rng.standard_normal((m, n)).var(axis=1)
    first = Comparison(
        models=["one", "other"],
        reference="one",
        tasks=np.arange(m),
        errors=rng.chisquare(1, (2, m)),
        cell_task=np.arange(m),
        cell_weight=np.ones(m),
        cell_cluster=np.arange(m),
        unit=unit,
        n_features=np.ones(2),
        seconds=np.ones(2),
        n_splits=3,
        rows=np.full(m, n),
    )
    np.testing.assert_array_equal(first.steadied.unit, steady_variances(unit, np.full(m, n)))
    assert first.steadied.unit.min() > 10.0 * unit.min()
    X, task = rng.standard_normal((m * n, 2)), np.repeat(np.arange(m), n)
    y = rng.standard_normal(m * n)
    models = {"ridge": RidgePerTaskCV(cv=2), "pooled": PooledRidgeCV(cv=2)}
    half = compare_models(X, y, task=task, models=models, cv=[(np.arange(m * n) % n > 0, np.arange(m * n) % n == 0)])
    np.testing.assert_array_equal(half.steadied.unit, steady_variances(half.unit, np.full(m, n)))


class LeastSquares(BaseEstimator, RegressorMixin):
    """On the first few features of all rows."""

    def __init__(self, features):
        self.features = features

    def fit(self, X, y, *, task):
        self.coef_ = np.linalg.lstsq(X[:, : self.features], y, rcond=None)[0]
        return self

    def predict(self, X, *, task):
        return X[:, : self.features] @ self.coef_


def of_sizes(seed, cv, n=40):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 12))
    y = X @ np.r_[1.0, np.full(11, 0.25)] + 2.0 * rng.standard_normal(n)
    models = {"one": LeastSquares(1), "all": LeastSquares(12)}
    return compare_models(X, y, task=np.zeros(n, int), models=models, cv=cv)


@pytest.mark.slow
def test_families_differ_by_more_than_their_standard_error_of_rows():
    """Over new data sets: the rows of a fold's training are as much of a sample as those held out."""
    found = [of_sizes(seed, cv=5) for seed in range(100)]
    spread = np.std([one.difference[1] for one in found])
    assert np.mean([one.se_of_rows[1] for one in found]) < 0.85 * spread
    assert 0.85 * spread < np.mean([one.se[1] for one in found]) < 1.3 * spread


def test_the_standard_error_of_families_knows_how_much_was_trained_on():
    rows = np.arange(40)
    for cv, wider in [
        (5, 1.5),
        (2, np.sqrt(3.0)),
        ([(rows[:30], rows[30:])], np.sqrt(1.0 + 10 / 30)),
        ([(rows[20:], rows[:20]), (rows[:20], rows[20:])] * 2, np.sqrt(3.0)),  # twice the same is no more
    ]:
        one = of_sizes(0, cv)
        np.testing.assert_allclose(one.se, wider * one.se_of_rows)
        np.testing.assert_array_equal(one.se_of_families, one.se)


def test_rows_that_count_nowhere_do_not_widen_it():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((60, 4)), rng.standard_normal((60, 2))
    Y[45:] += X[45:, :1]
    models = {"ridge": RidgePerTaskCV(cv=2), "pooled": PooledRidgeCV(cv=2)}
    few = compare_models(X, Y, models=models, cv=[(np.arange(45), np.arange(45, 60))])
    X, Y = np.vstack([X, np.ones((600, 4))]), np.vstack([Y, np.full((600, 2), np.nan)])
    with pytest.warns(UserWarning, match="600 row"):
        many = compare_models(X, Y, models=models, cv=[(np.arange(45), np.arange(45, 660))])
    np.testing.assert_allclose(few.se, np.sqrt(1.0 + 15 / 45) * few.se_of_rows)
    np.testing.assert_allclose(many.se, few.se)


@pytest.mark.slow
def test_the_choice_goes_by_the_standard_error_of_families():
    seen = set()
    for seed in range(40):
        one = of_sizes(seed, cv=5, n=100)
        best = one.models.index(one.best)
        lead = abs(one.difference[1])
        within = [lead <= error[1] for error in (one.se_of_rows, one.se)]
        chosen, reason = choose_family(one)
        assert chosen == ("one" if best == 0 or within[1] else "all")
        if best and within[1]:
            assert f"s.e. {one.se[1]:.3f}) is within one standard error" in reason
        seen.add((best, *within))
    assert (1, False, True) in seen


class Counting(BaseEstimator, RegressorMixin):
    """A model that notes where it was fitted."""

    def __init__(self, of, fits):
        self.of, self.fits = of, fits

    def __sklearn_clone__(self):
        return Counting(self.of, self.fits)

    def fit(self, X, y, *, task):
        self.fits.append(len(y))
        self.model_ = clone(self.of).fit(X, y, task=task)
        self.coef_ = self.model_.coef_
        return self

    def predict(self, X, *, task):
        return self.model_.predict(X, task=task)


def counted():
    fits = {name: [] for name in ("lasso", "ridge", "pooled lasso", "pooled ridge")}
    one, many = {"cv": 2, "random_state": 0}, {"lams": 8, "cv": 2}
    models = [LassoMTLCV(**many), RidgePerTaskCV(**one), PooledLassoCV(**one), PooledRidgeCV(**one)]
    return {name: Counting(model, fits[name]) for name, model in zip(fits, models, strict=True)}, fits


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.slow
def test_what_is_clearly_worse_on_the_first_fold_is_not_tried_on_the_others(n_jobs):
    X, y, task = data(False, n=100)
    models, fits = counted()
    plain = compare_models(X, y, task=task, models=models, cv=4)
    for of_one in fits.values():
        assert len(of_one) == 4
        of_one.clear()
    screened = compare_models(X, y, task=task, models=models, cv=4, screen=True, n_jobs=n_jobs)
    assert set(screened.dropped) == {"pooled lasso", "pooled ridge"}
    assert {name: len(of_one) for name, of_one in fits.items()} == {
        "lasso": 4,
        "ridge": 4,
        "pooled lasso": 1,
        "pooled ridge": 1,
    }
    assert screened.models == ["lasso", "ridge"]
    np.testing.assert_array_equal(screened.errors, plain.errors[:2])
    assert screened.n_splits == 4
    assert "Clearly worse on the first folds, and not tried on the others: 'pooled" in repr(screened)
    assert "on the first fold, where 'lasso' had 0." in repr(screened)
    chosen = MultiTaskAuto(models, cv=4).fit(X, y, task=task)
    assert chosen.chosen_ == "lasso"
    assert "of 2 models tried on all folds, of 4:" in chosen.reason_
    assert "not tried on the others: 'pooled" in chosen.reason_
    assert set(MultiTaskAuto(models, cv=4, screen=False).fit(X, y, task=task).comparison_.models) == set(models)


@pytest.mark.slow
def test_the_reference_and_the_second_best_stay_whatever_they_do():
    X, y, task = data(False, n=100)
    models, _ = counted()
    screened = compare_models(X, y, task=task, models=models, cv=4, screen=True, reference="pooled ridge")
    assert set(screened.dropped) == {"pooled lasso"}
    assert np.isfinite(screened.difference).all()
    two = {name: models[name] for name in ("lasso", "pooled lasso")}
    assert compare_models(X, y, task=task, models=two, cv=4, screen=True).dropped == {}


@pytest.mark.slow
def test_where_none_is_clearly_worse_all_are_tried_everywhere():
    X, y, task = data(True)
    y = y + 20.0 * np.random.default_rng(0).standard_normal(len(y))
    models, fits = counted()
    screened = compare_models(X, y, task=task, models=models, cv=3, screen=True)
    assert screened.dropped == {}
    assert all(len(of_one) == 3 for of_one in fits.values())
    np.testing.assert_array_equal(screened.errors, compare_models(X, y, task=task, models=models, cv=3).errors)
    assert "first fold" not in repr(screened)


class Guess(BaseEstimator):
    """Knows the targets (in the first column of X) but for noise of a given size (times the second column)."""

    def __init__(self, noise=0.0):
        self.noise = noise

    def fit(self, X, y, *, task):
        self.coef_ = np.ones((2, X.shape[1]))
        return self

    def predict(self, X, *, task):
        return X[:, 0] + self.noise * X[:, 1]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_models_drop_out_fold_by_fold_as_soon_as_it_is_clear(n_jobs):
    rng = np.random.default_rng(0)
    y, task = rng.standard_normal(400), np.tile(["a", "b"], 200)
    X = np.column_stack([y + 0.5 * rng.standard_normal(400), rng.standard_normal(400)])
    folds = [(np.setdiff1d(np.arange(400), test), test) for test in np.split(np.arange(400), 5)]
    fits = {"good": [], "as good": [], "worse": [], "bad": []}
    sizes = {"good": 0.0, "as good": 0.01, "worse": 0.28, "bad": 1.0}
    models = {name: Counting(Guess(size), fits[name]) for name, size in sizes.items()}
    result = compare_models(X, y, task=task, models=models, cv=folds, screen=True, n_jobs=n_jobs)
    counts = {name: len(of_one) for name, of_one in fits.items()}
    assert counts["good"] == counts["as good"] == 5
    assert counts["bad"] == 1
    assert 1 < counts["worse"] < 5
    assert result.models == ["good", "as good"]
    assert list(result.dropped) == ["bad", "worse"]
    seen = np.concatenate([test for _, test in folds[: counts["worse"]]])
    variance = {name: np.var(y[task == name]) for name in "ab"}  # of all rows, not only of those seen
    wrong = {name: (y[seen] - X[seen] @ [1.0, 0.28]) ** 2 / variance[name] for name in "ab"}
    error = np.mean(np.where(task[seen] == "a", wrong["a"], wrong["b"]))
    assert result.dropped["worse"] == pytest.approx(error, rel=1e-9)


@pytest.mark.slow
def test_too_few_groups_held_out_drop_no_model():
    """The spread of one group is unknown: nothing is clear after a fold that holds out one."""
    for seed in (13, 2):
        rng = np.random.default_rng(seed)
        X, task = rng.standard_normal((72, 8)), np.tile([0, 1], 36)
        y = X[:, 0] - 0.5 * X[:, 3] * (task + 0.5) + 1.5 * rng.standard_normal(72)
        given = {"task": task, "models": counted()[0], "groups": np.arange(72) // 9, "cv": 8}
        plain, screened = compare_models(X, y, **given), compare_models(X, y, screen=True, **given)
        assert plain.best not in screened.dropped


def test_one_fold_is_not_screened_and_screen_is_a_flag():
    X, y, task = data(False, n=100)
    models, _ = counted()
    fold = [(np.arange(0, 400, 2), np.arange(1, 400, 2))]
    assert len(compare_models(X, y, task=task, models=models, cv=fold, screen=True).models) == 4
    with pytest.raises(TypeError, match="screen must be True or False"):
        compare_models(X, y, task=task, models=models, screen="yes")


@pytest.mark.slow
def test_the_model_chosen_has_five_folds_if_rows_allow():
    """After a nested comparison; otherwise the folds of the comparison are those of the search."""
    X, y, task = data(True)
    names, nested = ["lasso", "pooled lasso"], {"cv": 2, "nested": True}
    model = MultiTaskAuto(names, inner_cv=2, **nested).fit(X, y, task=task)
    assert model.best_estimator_.cv == 5
    np.testing.assert_array_equal(model.coef_, PooledLassoCV(cv=5, random_state=0).fit(X, y, task=task).coef_)
    assert MultiTaskAuto(names, inner_cv=6, **nested).fit(X, y, task=task).best_estimator_.cv == 6
    few = np.r_[0:4, 30:120]  # four rows of the first task
    assert MultiTaskAuto(names, inner_cv=2, **nested).fit(X[few], y[few], task=task[few]).best_estimator_.cv == 4
    own = {"a": LassoMTLCV(cv=3), "b": PooledLassoCV(cv=3)}
    assert MultiTaskAuto(own, **nested).fit(X, y, task=task).best_estimator_.cv == 3
    grouped = MultiTaskAuto(names, inner_cv=2, **nested).fit(X, y, task=task, groups=np.tile(np.arange(10), 12))
    assert grouped.best_estimator_.cv == 2
    for some in (names, own):
        assert MultiTaskAuto(some, cv=3, inner_cv=2).fit(X, y, task=task).best_estimator_.cv == 3


# ------------------------------------------------------------------ nothing to be known


@pytest.mark.slow
def test_a_choice_among_models_that_know_nothing_says_so():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((120, 5)), np.repeat(["a", "b", "c"], 40)
    noise, names = rng.standard_normal(120), ["ridge per task", "pooled lasso"]
    told = " No model predicts clearly better than the tasks' means: "
    for selection in ("1se", "min"):
        assert told in MultiTaskAuto(names, cv=3, selection=selection).fit(X, noise, task=task).reason_
    assert told not in MultiTaskAuto(names, cv=3).fit(X, X[:, 0] + noise, task=task).reason_
