"""Cases that once went wrong, each the smallest form of its story."""

import numpy as np
import pytest

from msmtfl import MSMTFL, LassoMTL, stack_tasks
from msmtfl._data.forms.dense import DenseRows, RowTask
from msmtfl._solvers.lasso_stages import LassoStages
from msmtfl._solvers.lassos.weighted_lasso import Lassos
from msmtfl._solvers.stages import CYCLES, run_stages


@pytest.mark.parametrize("offset", [0.0, 10.0])
def test_positive_without_penalty_is_certified(offset):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 8)) @ rng.standard_normal((8, 120)) + 1e-3 * rng.standard_normal((150, 120)) + offset
    y = X[:, 0] + X[:, 5] + 0.1 * rng.standard_normal(150)
    model = MSMTFL(0.01, penalty_factors=np.zeros(120), positive=True).fit(X, y)
    assert model.converged_
    assert model.dual_gap_ < 1e-8


def test_lam_max_is_zero_when_free_features_interpolate():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 60)), rng.standard_normal(20)
    factors = np.r_[np.zeros(30), np.ones(30)]
    with pytest.warns(UserWarning, match="30 features are un-penalised"):
        model = MSMTFL(penalty_factors=factors).fit(X, y)
    assert model.lam_max_ == 0.0
    assert not model.coef_[30:].any()


def test_a_copied_column_in_a_tall_task_needs_no_square_of_the_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40_000, 4))
    model = LassoMTL(0.01).fit(np.column_stack([X, X[:, 0]]), X[:, 0])  # 40,000^2 numbers would be 12.8 GB
    np.testing.assert_allclose(model.coef_[0], model.coef_[4], rtol=1e-9)
    assert model.certificate_.ambiguous == {0: ["x0", "x4"]}


def test_many_copies_are_shared_out_quickly_and_alike():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((60, 40)), 20, axis=1)
    y = X[:, :400:20].sum(axis=1) + rng.standard_normal(60)
    model = LassoMTL(0.05).fit(X, y)
    backwards = LassoMTL(0.05).fit(X[:, ::-1], y)
    np.testing.assert_allclose(model.coef_, backwards.coef_[::-1], atol=1e-10)
    copies = model.coef_.reshape(40, 20)
    np.testing.assert_allclose(copies, copies[:, :1] * np.ones(20), atol=1e-10)


def test_labels_of_any_kind_survive_stacking():
    Xs, ys = [np.eye(3), np.eye(3)], [np.ones(3), np.ones(3)]
    assert stack_tasks(Xs, ys, labels=[1, "a"])[2].tolist() == [1, 1, 1, "a", "a", "a"]
    assert stack_tasks(Xs, ys, labels=[("a", 1), ("b", 2)])[2][3] == ("b", 2)
    with pytest.raises(ValueError, match="label is missing"):
        stack_tasks(Xs, ys, labels=["a", None])


def test_columns_that_underflow_are_refused():
    X = np.random.default_rng(0).standard_normal((20, 3)) * [1.0, 1e-200, 1.0]
    with pytest.raises(ValueError, match=r"'x1'.*underflows"):
        LassoMTL().fit(X, X[:, 0])


def test_read_only_start():
    rng = np.random.default_rng(0)
    X, start = rng.standard_normal((30, 4)), np.zeros((1, 4))
    start.flags.writeable = False
    assert MSMTFL(0.1, coef_init=start).fit(X, X[:, 0]).converged_


def test_a_cycle_is_recognised():
    class Alternating:
        """Weights that swap two rows for ever; no concave penalty does this."""

        turn, convex = 0, False

        def value(self, W):
            return 0.0

        def pattern(self, W):
            self.turn += 1
            return np.array([self.turn % 2])

        def weights(self, pattern):
            return np.array([[0.1, 1.0], [1.0, 0.1]])[pattern[0]][:, None]

        def free_rows(self, pattern):
            return np.empty(0, dtype=int)

        def row_slopes(self, pattern):
            return np.ones(2)

    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    design = RowTask(DenseRows(X, None, True), X.sum(axis=1))
    solution = run_stages(Alternating(), LassoStages(Lassos([design])), max_stages=10)
    assert solution.reason == CYCLES
    assert not solution.converged
    assert len(solution.stages) == 2


def test_lassos_refuse_matrices_of_another_shape():
    design = RowTask(DenseRows(np.eye(3), None, False), np.ones(3))
    with pytest.raises(ValueError, match=r"\(1, 2\).*\(1, 3\)"):
        Lassos([design]).solve(np.ones((1, 2)))


@pytest.mark.filterwarnings("ignore:.*features are un-penalised")
@pytest.mark.parametrize("positive", [False, True])
def test_the_order_of_columns_does_not_matter_where_stages_are_not_unique(positive):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 25))
        d = int(rng.integers(n, 3 * n))
        X, y = rng.standard_normal((n, d)), rng.standard_normal(n)
        X = [X, np.round(X), X[:, rng.integers(0, d, d)] * rng.choice([1, 1, -1, 3], d)][seed % 3]
        start = np.zeros((1, d))
        start[0, rng.permutation(d)[: int(rng.integers(n, d + 1))]] = 1.0
        order = rng.permutation(d)
        there = MSMTFL(0.01, 0.5, positive=positive, max_stages=1, coef_init=start).fit(X, y)
        back = MSMTFL(0.01, 0.5, positive=positive, max_stages=1, coef_init=start[:, order]).fit(X[:, order], y)
        np.testing.assert_allclose(there.coef_[order], back.coef_, atol=1e-6, err_msg=f"seed {seed}")
