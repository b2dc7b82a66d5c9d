"""Batches and tasks that come later: the answer is that of all rows at once."""

import numpy as np
import pandas as pd
import pytest

from msmtfl import L12MTL, MSMTFL, MSMTFLCV, DirtyMTL, LassoMTL, LassoMTLCV
from msmtfl.sharing import sharing_map


def problem(seed=0, rows=120):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 10)) * np.geomspace(0.2, 5.0, 10)
    task = np.repeat(["a", "b", "c", "d"], rows // 4)
    y = 2 * X[:, 0] - X[:, 3] + (task == "d") * X[:, 5] + 0.1 * rng.standard_normal(rows) + 3
    return X, y, task


@pytest.mark.parametrize("model", [MSMTFL(lam=0.05, theta=1.0), LassoMTL(lam=0.05), L12MTL(lam=0.1), DirtyMTL()])
def test_batches_give_the_fit_to_all_rows(model):
    X, y, task = problem()
    order = np.random.default_rng(1).permutation(len(y))
    for part in np.array_split(order, 5):
        model.partial_fit(X[part], y[part], task=task[part])
    whole = type(model)(**model.get_params()).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, whole.intercept_, rtol=1e-9)
    assert model.moments_.rows.sum() == len(y)


def test_fit_starts_anew_and_a_bad_batch_changes_nothing():
    X, y, task = problem()
    model = MSMTFL(lam=0.1).partial_fit(X, y, task=task)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.where(X[3, 3] == X, np.nan, X), y, task=task)
    np.testing.assert_array_equal(model.coef_, before)
    model.fit(X[:60], y[:60], task=task[:60]).partial_fit(X[60:], y[60:], task=task[60:])
    assert model.tasks_.tolist() == ["c", "d"]


def test_tables_are_found_by_their_names():
    X, y, task = problem()
    table = pd.DataFrame(X, columns=list("qwertyuiop"))
    table.insert(4, "school", task)
    model = MSMTFL(lam=0.1, task_column="school").partial_fit(table[:60], y[:60])
    model.partial_fit(table[60:][table.columns[::-1]], y[60:])
    whole = MSMTFL(lam=0.1, task_column="school").fit(table, y)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-10)
    np.testing.assert_allclose(model.predict(table), whole.predict(table), atol=1e-9)
    np.testing.assert_allclose(model.feature_importances_, whole.feature_importances_, atol=1e-9)
    with pytest.raises(TypeError, match="expected Moments"):
        MSMTFL().fit_moments(None)


@pytest.mark.parametrize("options", [{}, {"standardize": True}, {"fit_intercept": False}, {"positive": True}])
@pytest.mark.parametrize("kind", [MSMTFL, LassoMTL])
def test_a_task_added_later_is_the_weighted_lasso_with_the_learned_weights(kind, options):
    """From scratch: the same task alone, penalty factors 0 where the fit left rows free, and lam times the m of the fit."""
    X, y, task = problem()
    old, new = task != "d", task == "d"
    model = kind(lam=0.05, **({"theta": 1.0} if kind is MSMTFL else {}), **options).fit(X[old], y[old], task=task[old])
    before = {name: np.copy(getattr(model, name)) for name in ("coef_", "intercept_")}
    model.add_task(X[new], y[new], "d")
    factors = np.ones(10)
    factors[model.stages_[-1].free_rows] = 0.0
    alone = LassoMTL(lam=3 * 0.05, penalty_factors=factors, **options).fit(X[new], y[new])
    np.testing.assert_allclose(model.coef_[3], alone.coef_, atol=1e-10)
    np.testing.assert_allclose(model.predict(X[new], task=task[new]), alone.predict(X[new]), atol=1e-10)
    np.testing.assert_array_equal(model.coef_[:3], before["coef_"])
    np.testing.assert_array_equal(model.intercept_[:3], before["intercept_"])
    assert model.tasks_.tolist() == ["a", "b", "c", "d"]
    assert model.n_samples_.tolist() == [30] * 4
    assert model.n_fitted_tasks_ == 3
    assert model.certificate_.added == 1
    assert "added later" in str(model.certificate_)
    assert all(stage.coef.shape == (4, 10) for stage in model.stages_)


def test_norms_and_sharing_map_know_the_new_task():
    X, y, task = problem()
    old = task != "d"
    model = MSMTFLCV(lams=10).fit(X[old], y[old], task=task[old]).add_task(X[~old], y[~old], "d")
    np.testing.assert_allclose(model.row_norms_, np.abs(model.coef_).sum(axis=0))
    np.testing.assert_allclose(model.feature_importances_, model.row_norms_)
    assert "d" in list(sharing_map(model).tasks_of("x5"))
    again = LassoMTLCV(lams=5).fit(X[old], y[old], task=task[old]).add_task(X[~old], y[~old], "d")
    assert again.coef_.shape == (4, 10)


def test_what_add_task_refuses():
    X, y, task = problem()
    model = MSMTFL(lam=0.1).fit(X, y, task=task)
    with pytest.raises(ValueError, match="task 'a' already"):
        model.add_task(X, y, "a")
    with pytest.raises(ValueError, match="9 features, the model 10"):
        model.add_task(X[:, 1:], y, "e")
    with pytest.raises(ValueError, match="without task labels"):
        MSMTFL(lam=0.1).fit(X, y).add_task(X, y, "e")
    with pytest.raises(ValueError, match="relax"):
        MSMTFL(lam=0.1, relax=True).fit(X, y, task=task).add_task(X, y, "e")
    with pytest.raises(ValueError, match="differ between the tasks"):
        MSMTFL(lam=0.1, penalty_factors=np.ones((10, 4))).fit(X, y, task=task).add_task(X, y, "e")
    assert model.coef_.shape == (4, 10)
