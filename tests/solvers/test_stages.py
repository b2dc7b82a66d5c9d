"""Algorithm 1: descent, stopping, and the identities that any implementation must satisfy."""

import warnings
from itertools import pairwise

import numpy as np
import oracles
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

from msmtfl import MSMTFL, LassoMTL, stack_tasks
from msmtfl._objective.proofs.certificates import block_value
from msmtfl._solvers.stages import ASKED, CROWDED, CYCLES, LIMIT, ONE_STAGE, REPEATS, algorithm_1, run, same


def fit(model, Xs, ys, labels=None):
    X, y, task = stack_tasks(Xs, ys, labels)
    return model.fit(X, y, task=task)


def several_stages(seed=0, **options):
    """Tasks and a fitted model that needs more than two stages."""
    Xs, ys = oracles.random_tasks(seed, m=4, n=[20, 25, 30, 35], d=40, active=12, noise=1.0)
    model = MSMTFL(0.1 * oracles.lam_max(Xs, ys), 1.5, fit_intercept=False, max_stages=20, **options)
    return Xs, ys, fit(model, Xs, ys)


# ------------------------------------------------------------------ descent and stopping


@pytest.mark.filterwarnings("ignore:.*features are un-penalised")
@pytest.mark.parametrize("seed", [0, 2, 3, 4, 5])
def test_objective_never_rises(seed):
    Xs, ys, model = several_stages(seed)
    values = [stage.objective for stage in model.stages_]
    expected = [oracles.objective(Xs, ys, stage.coef, model.lam_, model.theta_) for stage in model.stages_]
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    assert model.n_stages_ > 2
    assert all(after <= before * (1 + 1e-14) for before, after in pairwise(values))
    assert model.certificate_.monotone


def test_stops_exactly_when_the_set_repeats():
    Xs, ys, model = several_stages()
    capped = [np.flatnonzero(np.abs(stage.coef).sum(axis=0) >= model.theta_).tolist() for stage in model.stages_]
    used = [stage.free_rows.tolist() for stage in model.stages_]
    assert used[0] == []
    assert used[1:] == capped[:-1]
    assert capped[-1] == used[-1]
    assert all(before != after for before, after in pairwise(used))
    assert model.converged_
    assert "repeats" in model.stopping_reason_
    assert model.certificate_.critical < 1e-10  # of the last stage: the first is not a critical point
    with pytest.warns(ConvergenceWarning, match="max_stages"):
        fit(model.set_params(max_stages=model.n_stages_ - 1), Xs, ys)
    assert not model.converged_


UNSURE = "stopped: no proof"
AFTER = {  # states that stages lead to, with what each is told -> why Algorithm 1 stops, and the stages that it makes
    "repeats at once": ([(0, "")], REPEATS, [0]),
    "repeats later": ([(1, ""), (2, ""), (2, "")], REPEATS, [0, 1, 2]),
    "cycles": ([(1, ""), (2, ""), (1, "")], CYCLES, [0, 1, 2]),
    "back to the start": ([(1, ""), (0, "")], CYCLES, [0, 1]),
    "as many as allowed": ([(1, ""), (2, ""), (3, ""), (4, "")], LIMIT.format(4), [0, 1, 2, 3]),
    "repeats in the last one": ([(1, ""), (2, ""), (3, ""), (3, "")], REPEATS, [0, 1, 2, 3]),
    "asked to": ([(1, ""), (2, ASKED)], ASKED, [0, 1]),
    "asked to, and repeats": ([(1, ""), (1, ASKED)], REPEATS, [0, 1]),
    "asked to, in the last one": ([(1, ""), (2, ""), (3, ""), (4, ASKED)], LIMIT.format(4), [0, 1, 2, 3]),
    "not certified": ([(1, ""), (2, UNSURE)], UNSURE, [0, 1]),
    "not certified, and repeats": ([(1, ""), (1, UNSURE)], UNSURE, [0, 1]),
    "crowded": ([(1, ""), (9, "")], CROWDED, [0, 1]),
    "crowded from the start": ([(9, ""), (9, "")], CROWDED, [0]),
    "asked to, and crowded": ([(9, ASKED)], ASKED, [0]),
}


@pytest.mark.parametrize("case", AFTER)
def test_algorithm_1_stops_for_the_first_of_its_reasons(case):
    answers, reason, made = AFTER[case]
    asked_for = []

    def solve(pattern, state):
        assert state == (answers[len(asked_for) - 1][0] if asked_for else 0)  # each stage starts from the one before
        asked_for.append(pattern)
        return answers[len(asked_for) - 1]

    stages = algorithm_1(lambda state: state, 0, 4, alike=lambda a, b: a == b, crowded=lambda pattern: pattern == 9)
    assert run(stages, solve, 0) == reason
    assert asked_for == made


def test_a_single_stage_was_asked_for():
    stages = algorithm_1(lambda state: state, 0, 1, alike=lambda a, b: a == b)
    assert run(stages, lambda pattern, state: (1, ""), 0) == ONE_STAGE


def test_patterns_are_the_same_up_to_rounding_of_slopes():
    a = np.array([0.0, 1.0, 0.5])
    assert same(a, a.copy())
    for sign in (-1.0, 1.0):
        assert same(a, a + np.array([0.0, 0.0, sign * 1e-9]))
        assert not same(a, a + np.array([0.0, 0.0, sign * 1e-7]))
    assert not same(a, a[:2])
    assert not same(a, 1.0 - a)


def test_stages_are_counted_from_one():
    _, _, model = several_stages()
    assert [stage.stage for stage in model.stages_] == list(range(1, model.n_stages_ + 1))


def test_block_descent():
    """f(W, v) of Theorem 1 falls in W and in v by turns, and is objective (1) at the weights made of W."""
    Xs, ys, model = several_stages()
    lam, theta = model.lam_, model.theta_
    values, v = [], np.ones(40)
    for stage in model.stages_:
        norms, loss = np.abs(stage.coef).sum(axis=0), oracles.loss(Xs, ys, stage.coef)
        values.append(block_value(loss, norms, v, lam, theta))
        v = (norms < theta).astype(float)
        values.append(block_value(loss, norms, v, lam, theta))
        assert values[-1] == pytest.approx(oracles.objective(Xs, ys, stage.coef, lam, theta), rel=1e-12)
    assert all(after <= before * (1 + 1e-14) for before, after in pairwise(values))


# ------------------------------------------------------------------ special cases


@pytest.mark.parametrize("lasso", [{"theta": np.inf}, {"theta": 0.5, "max_stages": 1}], ids=["theta=inf", "one stage"])
def test_lasso_as_a_special_case(lasso):
    Xs, ys = oracles.random_tasks(1, n=[20, 30, 40, 50])
    one, other = fit(MSMTFL(0.05, **lasso), Xs, ys), fit(LassoMTL(0.05), Xs, ys)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    assert one.n_stages_ == 1


def test_lasso_equals_sklearn_per_task():
    Xs, ys = oracles.random_tasks(2, n=[20, 30, 40, 50])
    Xs = [X + 3 for X in Xs]
    lam = 0.02
    model = fit(LassoMTL(lam), Xs, ys)
    for i in range(4):
        peer = Lasso(alpha=4 * lam / 2, tol=1e-14, max_iter=100_000).fit(Xs[i], ys[i])
        np.testing.assert_allclose(model.coef_[i], peer.coef_, rtol=0, atol=1e-7)
        assert model.intercept_[i] == pytest.approx(peer.intercept_, abs=1e-6)


@pytest.mark.slow
def test_one_task_is_capped_l1():
    (X,), (y,) = oracles.random_tasks(3, m=1, n=40, d=15, active=6, noise=1.0)
    lam, theta = 0.1 * oracles.lam_max([X], [y]), 0.5
    w, free = np.zeros(15), None
    while free is None or not np.array_equal(free, np.abs(w) >= theta):
        free = np.abs(w) >= theta
        w = oracles.weighted_lasso(X, y, np.where(free, 0.0, 40 * lam / 2))
    model = MSMTFL(lam, theta, fit_intercept=False).fit(X, y)
    assert 0 < free.sum() < np.count_nonzero(w)
    np.testing.assert_allclose(model.coef_, w, rtol=0, atol=1e-10)


def test_lam_max_is_where_zero_ends():
    Xs, ys = oracles.random_tasks(4, n=[20, 30, 40, 50])
    lam = oracles.lam_max(Xs, ys)
    model = fit(MSMTFL(lam, 1e-3, fit_intercept=False), Xs, ys)
    assert model.lam_max_ == pytest.approx(lam, rel=1e-14)
    assert not fit(model.set_params(lam=lam * (1 + 1e-12)), Xs, ys).coef_.any()
    assert np.count_nonzero(fit(model.set_params(lam=lam * (1 - 1e-6), max_stages=20), Xs, ys).stages_[0].coef) == 1


# ------------------------------------------------------------------ identities


def test_permuting_tasks_permutes_rows():
    Xs, ys, model = several_stages()
    order = [2, 0, 3, 1]
    other = fit(MSMTFL(**model.get_params()), [Xs[i] for i in order], [ys[i] for i in order])
    np.testing.assert_allclose(other.coef_, model.coef_[order], rtol=1e-12, atol=1e-14)
    assert other.n_stages_ == model.n_stages_


def test_penalty_factors_are_rescaled_columns():
    Xs, ys, model = several_stages()
    factors = np.random.default_rng(5).uniform(0.5, 2, (40, 4))
    weighted = fit(MSMTFL(**{**model.get_params(), "penalty_factors": factors}), Xs, ys)
    rescaled = fit(MSMTFL(**model.get_params()), [X / f for X, f in zip(Xs, factors.T, strict=True)], ys)
    np.testing.assert_allclose(weighted.coef_ * factors.T, rescaled.coef_, rtol=0, atol=1e-10)
    assert weighted.objective_ == pytest.approx(rescaled.objective_, rel=1e-12)
    assert weighted.n_stages_ > 2


def test_standardize_is_standardised_data():
    rng = np.random.default_rng(6)
    Xs, ys, model = several_stages()
    Xs = [X * 10.0 ** rng.uniform(-2, 2, 40) + rng.standard_normal(40) for X in Xs]
    options = {"lam": model.lam_, "theta": model.theta_, "max_stages": 20}
    inside = fit(MSMTFL(**options, standardize=True), Xs, ys)
    outside = fit(MSMTFL(**options), [(X - X.mean(axis=0)) / X.std(axis=0) for X in Xs], ys)
    np.testing.assert_allclose(inside.coef_ * [X.std(axis=0) for X in Xs], outside.coef_, rtol=0, atol=1e-9)
    assert inside.objective_ == pytest.approx(outside.objective_, rel=1e-10)
    assert inside.n_stages_ > 1


def test_threads_do_not_change_a_bit():
    _, _, one = several_stages()
    _, _, two = several_stages(n_jobs=2)
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_threads_do_not_change_a_bit_of_large_gram_matrices():
    """Surfaces share out single matrices, which changes the rounding; fits do not."""
    Xs, ys = oracles.random_tasks(0, m=3, n=300, d=300, active=10)
    one, two = (fit(MSMTFL(n_jobs=n_jobs), Xs, ys) for n_jobs in (None, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize("max_iter", [None, 2, 3])
def test_threads_do_not_change_a_bit_with_gram_rows_on_demand(max_iter):
    Xs, ys = oracles.random_tasks(0, m=4, n=50, d=600, active=10)
    lam = 0.1 * oracles.lam_max(Xs, ys)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one, two = (fit(MSMTFL(lam, max_iter=max_iter, n_jobs=n_jobs), Xs, ys) for n_jobs in (None, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_coef_init_decides_what_the_first_stage_leaves_free():
    Xs, ys = oracles.random_tasks(7)
    start = np.zeros((4, 12))
    start[:, [3, 8]] = 0.25
    model = fit(MSMTFL(0.1, 1.0, coef_init=start), Xs, ys)
    np.testing.assert_array_equal(model.stages_[0].free_rows, [3, 8])
    assert fit(model.set_params(theta=1.01), Xs, ys).stages_[0].free_rows.size == 0


# ------------------------------------------------------------------ more free rows than samples


def test_stages_that_are_not_unique_move_least_and_repeat_exactly():
    Xs, ys = oracles.random_tasks(8, m=6, n=10, d=60, active=30, noise=1.0)
    lam = 0.01 * oracles.lam_max(Xs, ys)
    runs = []
    for _ in range(2):
        with pytest.warns(UserWarning, match="no more independent samples"):
            runs.append(fit(MSMTFL(lam, 1e-3, fit_intercept=False), Xs, ys))
    first, second = runs[0].stages_[:2]
    free = second.free_rows
    assert len(free) > 10
    assert first.unique
    assert not second.unique
    for X, y, before, after in zip(Xs, ys, first.coef, second.coef, strict=True):
        step = np.linalg.pinv(X[:, free]) @ (y - X[:, free] @ before[free])
        np.testing.assert_allclose(after[free], before[free] + step, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(runs[0].coef_, runs[1].coef_)


# ------------------------------------------------------------------ exactness over a range of lam


def check_gaps(Xs, ys, lams):
    """Every unique stage of every lam is solved to 1e-10, by its own account and by the oracle's."""
    m, stages = len(Xs), 0
    for lam in lams:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", (ConvergenceWarning, UserWarning))
            model = fit(MSMTFL(lam, fit_intercept=False), Xs, ys)
        for stage in model.stages_:
            if not stage.unique:
                continue
            stages += 1
            assert stage.dual_gap <= 1e-10
            weights = np.full(Xs[0].shape[1], lam)
            weights[stage.free_rows] = 0.0
            gap = sum(
                oracles.relative_gap(X, y, w, m * len(y) / 2 * weights) * (y @ y) / len(y)
                for X, y, w in zip(Xs, ys, stage.coef, strict=True)
            )
            assert gap <= 1e-10 * sum(y @ y / len(y) for y in ys)
    assert stages > len(lams)


def test_exact_on_the_paper_s_kind_of_data():
    Xs, ys = oracles.random_tasks(9, m=20, n=30, d=200, active=20, noise=0.01, unit_length=True)
    check_gaps(Xs, ys, oracles.lam_max(Xs, ys) * np.geomspace(1, 3e-3, 5))


@pytest.mark.slow
def test_exact_on_isolet(isolet):
    X, y, task = isolet
    Xs, ys = [X[task == i] for i in range(5)], [y[task == i] for i in range(5)]
    Xs = [(X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1) for X in Xs]
    ys = [y - y.mean() for y in ys]
    check_gaps(Xs, ys, oracles.lam_max(Xs, ys) * np.geomspace(0.5, 3e-3, 3))
