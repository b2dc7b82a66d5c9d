"""Where Gram rows do not fit into the budget, and where X is large and narrow, the answer is the same."""

import numpy as np
import pytest
from scipy import sparse

from msmtfl import L12MTL, MSMTFL, MSMTFLCV, LassoMTL, regularization_surface
from msmtfl._data import tables
from msmtfl._data.forms.float32 import NarrowRows
from msmtfl._solvers import gram
from msmtfl._solvers.lassos import working_set as working
from msmtfl._solvers.lassos.weighted_lasso import Lassos
from msmtfl._solvers.lassos.working_set import WorkingState


def problem(n, d, m, copies=0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X = np.column_stack([X, X[:, :copies]]) if copies else X
    task = np.repeat(np.arange(m), n // m)
    y = 2 * X[:, 0] - X[:, 3] + (task == 1) * X[:, 5] + 0.3 * rng.standard_normal(n)
    return X, y, task


SHAPES = [(60, 30, 3, 0), (60, 30, 3, 3), (201, 300, 3, 0), (90, 600, 3, 3)]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("options", [{}, {"lam": 1e-3}, {"positive": True}, {"standardize": True}], ids=str)
def test_working_sets_give_the_answer_of_gram_matrices(monkeypatch, shape, options):
    X, y, task = problem(*shape)
    with_rows = MSMTFL(**options).fit(X, y, task=task)
    monkeypatch.setattr(gram, "BUDGET", 1.0)
    model = MSMTFL(**options).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, with_rows.coef_, atol=1e-9)
    assert model.dual_gap_ < 1e-12
    assert model.certificate_.unique == with_rows.certificate_.unique


def test_surfaces_and_cross_validation_too(monkeypatch):
    X, y, task = problem(90, 200, 3)
    one = regularization_surface(X, y, task=task, lams=8, theta_ratios=[2, 8])
    search = MSMTFLCV(lams=8, cv=3).fit(X, y, task=task)
    monkeypatch.setattr(gram, "BUDGET", 1.0)
    monkeypatch.setattr("msmtfl._estimators.grid_search.BUDGET", 1.0)
    other = regularization_surface(X, y, task=task, lams=8, theta_ratios=[2, 8])
    for k, l in np.ndindex(8, 2):
        np.testing.assert_allclose(one.coef(k, l), other.coef(k, l), atol=1e-10)
    again = MSMTFLCV(lams=8, cv=3).fit(X, y, task=task)
    assert again.lam_ == search.lam_
    np.testing.assert_allclose(again.coef_, search.coef_, atol=1e-9)


def test_features_that_are_not_used_make_room(monkeypatch):
    monkeypatch.setattr(gram, "BUDGET", 1.0)
    monkeypatch.setattr(working, "MOST", 40)
    X, y, task = problem(90, 200, 3)
    surface = regularization_surface(X, y, task=task, lams=30, theta_ratios=[np.inf])
    assert surface.dual_gap.max() < 1e-12


def test_wide_sparse_data_go_by_working_sets():
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 5000), density=0.01, rng=rng, format="csr")
    y, task = X @ np.r_[3 * np.ones(5), np.zeros(4995)] + 0.01 * rng.standard_normal(60), np.repeat([0, 1], 30)
    model = LassoMTL().fit(X, y, task=task)
    assert model.dual_gap_ < 1e-12
    from msmtfl._data.tasks import read_training
    from msmtfl._solvers.problems.make_problem import make_problem

    designs = make_problem(
        read_training(X, y, task=task), fit_intercept=True, standardize=False, positive=False
    ).designs
    assert all(isinstance(state, WorkingState) for state in Lassos(designs).tasks)


@pytest.mark.parametrize("shift", [0.0, 1e3])
@pytest.mark.parametrize("kind", [MSMTFL, L12MTL, MSMTFLCV])
@pytest.mark.parametrize("weighted", [False, True])
def test_float32_stays_narrow_and_exact(monkeypatch, shift, kind, weighted):
    monkeypatch.setattr(tables, "KEPT_ABOVE", 0)
    monkeypatch.setattr("msmtfl._data.forms.float32.BLOCK", 1000)
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((200, 20)) + shift).astype(np.float32)
    X[:, 7] = 3.0
    task = np.repeat([0, 1], 100)
    y = 2 * (X[:, 0].astype(float) - shift) + 0.1 * rng.standard_normal(200)
    weight = rng.uniform(0.5, 2.0, 200) if weighted else None
    narrow = kind().fit(X, y, task=task, sample_weight=weight)
    wide = kind().fit(X.astype(float), y, task=task, sample_weight=weight)
    np.testing.assert_allclose(narrow.coef_, wide.coef_, atol=1e-9)
    np.testing.assert_allclose(narrow.predict(X, task=task), wide.predict(X, task=task), atol=1e-6)
    assert narrow.coef_.dtype == np.float64


def test_narrow_rows_answer_like_a_dense_copy():
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((50, 8)) * 5 + 40).astype(np.float32)
    weight = rng.uniform(0.5, 2.0, 50)
    rows = NarrowRows(X, weight, True)
    mean = weight @ X.astype(float) / weight.sum()
    Z = (X.astype(float) - mean) * np.sqrt(weight)[:, None]
    np.testing.assert_allclose(rows.gram(), Z.T @ Z, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(rows.gram_rows(np.array([2, 5])), (Z.T @ Z)[[2, 5]], rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(rows.gram_block(np.array([2]), np.array([0, 3])), (Z.T @ Z)[[2]][:, [0, 3]], atol=1e-10)
    np.testing.assert_allclose(rows.correlate(np.ones(50)), Z.sum(axis=0), atol=1e-9)
    w = np.zeros(8)
    w[[1, 4]] = 2.0, -1.0
    np.testing.assert_allclose(rows.apply(w), Z @ w, atol=1e-10)
    np.testing.assert_allclose(rows.apply_all(np.array([w, -w])), np.array([Z @ w, -Z @ w]), atol=1e-10)
