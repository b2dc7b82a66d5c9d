"""The global minimum of (1) against all sets of free rows."""

import itertools

import numpy as np
import pytest

from msmtfl import MSMTFL, LassoMTL
from msmtfl.paper.optimum import global_minimum

pytestmark = pytest.mark.filterwarnings("ignore:.*features are un-penalised", "ignore:stopped")


def problem(seed, d=5, m=3, n=25):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]
    W = np.zeros((m, d))
    W[:, :3] = rng.standard_normal((m, 3))
    y = np.einsum("rj,rj->r", X, W[task]) + 0.5 * rng.standard_normal(m * n)
    return X, y, task


def smallest(parameters, X, y, task):
    """F at the solutions of all stages there are."""
    m, d = len(set(task)), X.shape[1]
    out = np.inf
    for chosen in itertools.product([0.0, 1e9], repeat=d):
        start = np.tile(chosen, (m, 1))
        out = min(out, MSMTFL(**parameters, coef_init=start, max_stages=1).fit(X, y, task=task).objective_)
    return out


@pytest.mark.parametrize("seed", [1, 3])
@pytest.mark.parametrize("options", [{}, {"standardize": True}, {"positive": True}], ids=str)
def test_it_is_the_best_of_all_sets_of_free_rows(seed, options):
    X, y, task = problem(seed)
    parameters = {"lam": 0.15, "theta": 0.9, **options}
    model = MSMTFL(**parameters).fit(X, y, task=task)
    found = global_minimum(model, X, y, task=task)
    assert found.proven
    assert found.objective == pytest.approx(smallest(parameters, X, y, task), rel=1e-7)
    assert found.fitted == pytest.approx(model.objective_, rel=1e-12)
    assert found.objective <= found.fitted
    assert found.lower_bound <= found.objective


def test_algorithm_1_can_miss_it():
    X, y, task = problem(7, d=8)
    model = MSMTFL(0.15, 0.9).fit(X, y, task=task)
    found = global_minimum(model, X, y, task=task)
    assert found.proven
    assert found.excess > 0.05
    there = MSMTFL(0.15, 0.9, coef_init=found.coef).fit(X, y, task=task)  # a critical point: Algorithm 1 stays
    assert there.n_stages_ == 1
    assert there.objective_ == pytest.approx(found.objective, rel=1e-10)
    assert "% above it" in str(found)


def test_fewer_samples_than_features():
    X, y, task = problem(3, d=5, n=4)
    parameters = {"lam": 0.2, "theta": 1.0, "fit_intercept": False}
    found = global_minimum(MSMTFL(**parameters).fit(X, y, task=task), X, y, task=task)
    assert found.proven
    assert found.objective == pytest.approx(smallest(parameters, X, y, task), rel=1e-6)


def test_cells_without_a_penalty_and_excluded_ones():
    X, y, task = problem(5)
    factors = np.ones((5, 3))
    factors[0], factors[3, 1], factors[4] = 0.0, np.inf, 2.0
    parameters = {"lam": 0.1, "theta": 0.7, "penalty_factors": factors}
    found = global_minimum(MSMTFL(**parameters).fit(X, y, task=task), X, y, task=task)
    assert found.proven
    assert found.coef[1, 3] == 0
    assert found.objective == pytest.approx(smallest(parameters, X, y, task), rel=1e-7)


def test_a_search_that_is_cut_short_says_so():
    X, y, task = problem(7, d=12, n=14)
    model = MSMTFL(0.05, 0.9).fit(X, y, task=task)
    found = global_minimum(model, X, y, task=task, max_nodes=5)
    assert not found.proven
    assert found.lower_bound < found.objective
    assert "Not proven: the minimum is at least" in str(found)


def test_models_it_is_not_about_are_refused():
    X, y, task = problem(0)
    for model in (LassoMTL(), MSMTFL(penalty="mcp"), MSMTFL(lam_entry=0.1)):
        with pytest.raises(ValueError, match="that of the paper's model"):
            global_minimum(model.fit(X, y, task=task), X, y, task=task)
    with pytest.raises(ValueError, match="X has 4 features"):
        global_minimum(MSMTFL().fit(X, y, task=task), X[:, :4], y, task=task)
