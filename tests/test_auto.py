"""The family that suits the data."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.estimator_checks import parametrize_with_checks

from msmtfl import MSMTFL, LassoMTL, LassoMTLCV, MultiTaskAuto, SharedMTL, compare_models
from msmtfl.auto import choose_family, steady_variances
from msmtfl.baselines import PooledLassoCV
from msmtfl.comparison import Comparison
from msmtfl.model_files import load_model, save_model

SMALL = {
    "lasso": LassoMTLCV(lams=10, cv=2, unknown_task="mean"),
    "pooled lasso": PooledLassoCV(lams=10, cv=2, unknown_task="mean"),
}


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
    alone = SMALL[model.chosen_].fit(X, y, task=task)
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    np.testing.assert_array_equal(model.predict(X, task=task), alone.predict(X, task=task))
    assert model.score(X, y, task=task) == alone.score(X, y, task=task)


def test_the_comparison_is_that_of_compare_models():
    X, y, task = data(True)
    model = MultiTaskAuto(SMALL, cv=3, inner_cv=2).fit(X, y, task=task)
    same = compare_models(X, y, task=task, models=SMALL, cv=3, inner_cv=2)
    np.testing.assert_array_equal(model.comparison_.errors, same.errors)


def test_within_one_standard_error_the_simpler_wins():
    X, y, task = data(True)
    found = compare_models(X, y, task=task, models=SMALL, cv=3, inner_cv=2)
    noise = 0.1 * (-1.0) ** np.arange(found.errors.shape[1])  # as good as can be told
    errors = np.array([found.errors[0], found.errors[0] + noise + 1e-3])
    near = replace(found, errors=errors, n_features=np.array([9.0, 4.0]))
    assert choose_family(near, "min")[0] == "lasso"
    name, reason = choose_family(near)
    assert name == "pooled lasso"
    assert "but 'pooled lasso' is as good as can be told" in reason
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
