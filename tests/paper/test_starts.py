"""Algorithm 1 from other starting points: results against direct fits, and what is said of them."""

import numpy as np
import pytest

from msmtfl import MSMTFL, MSMTFLCV, LassoMTL
from msmtfl.datasets import make_multitask
from msmtfl.paper.optimum import global_minimum
from msmtfl.paper.theory import check_starts

pytestmark = pytest.mark.filterwarnings("ignore:.*rows are un-penalised", "ignore:stopped", "ignore:.*un-penalised")


def rugged(seed=7, d=8, m=3, n=25):
    """Correlated features: Algorithm 1 misses the global minimum from 0."""
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]
    W = np.zeros((m, d))
    W[:, :3] = rng.standard_normal((m, 3))
    y = np.einsum("rj,rj->r", X, W[task]) + 0.5 * rng.standard_normal(m * n)
    return X, y, task


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"standardize": True},
        {"positive": True},
        {"fit_intercept": False},
        {"penalty_factors": [0, 1, 2, 1, 1, 1, 1, np.inf]},
    ],
    ids=str,
)
def test_every_run_is_a_fit_with_that_start(options):
    X, y, task = rugged()
    model = MSMTFL(0.15, 0.9, **options).fit(X, y, task=task)
    best = global_minimum(model, X, y, task=task)
    found = check_starts(model, X, y, task=task, starts=8, others={"best": best.coef, "zero": np.zeros((3, 8))})
    by = {run.start: run for run in found.runs}
    for name, start in (("best", best.coef), ("zero", np.zeros((3, 8)))):
        direct = MSMTFL(0.15, 0.9, coef_init=start, max_stages=100, **options).fit(X, y, task=task)
        np.testing.assert_allclose(by[name].coef, direct.coef_, atol=1e-8)
        assert by[name].objective == pytest.approx(direct.objective_)
        assert by[name].n_stages == direct.n_stages_
        assert by[name].converged
    assert by["zero"].result == by["0, the lasso first"].result == 0
    assert by["zero"].moved < 1e-9
    assert found.objective == pytest.approx(model.objective_)
    assert found.excess == pytest.approx(best.excess, abs=1e-7)
    assert all(run.objective >= best.objective * (1 - 1e-9) for run in found.runs)
    assert len(found.runs) == 8 + 2 + 3  # random, given, and 0, each feature alone, least squares


def test_results_that_differ_are_told_apart_and_measured():
    X, y, task = rugged()
    model = MSMTFL(0.15, 0.9).fit(X, y, task=task)
    best = global_minimum(model, X, y, task=task)
    assert best.excess > 0.05
    found = check_starts(model, X, y, task=task, others={"the best": best.coef})
    run = found.runs[-1]
    assert (run.start, found.best.objective) == ("the best", pytest.approx(best.objective))
    scale = np.array([X[task == i].std(axis=0) for i in range(3)])
    moved = np.linalg.norm(scale * (best.coef - model.coef_)) / np.linalg.norm(scale * model.coef_)
    assert run.moved == pytest.approx(moved)
    assert run.changed == np.count_nonzero(best.coef.any(axis=0) != model.coef_.any(axis=0))
    np.testing.assert_array_equal(run.free_rows, best.free_rows)
    assert found.n_results > 1
    numbers = {run.result for run in found.runs} | {0}
    assert numbers == set(range(found.n_results))
    for one in found.runs:
        for other in found.runs:
            apart = np.linalg.norm(scale * (one.coef - other.coef)) / np.linalg.norm(scale * model.coef_)
            assert (one.result == other.result) == (apart < 1e-5)
    assert found.same_share == sum(run.result == 0 for run in found.runs) / len(found.runs)
    text = str(found)
    assert f"{round(len(found.runs) * found.same_share)} of {len(found.runs)} starts end at the model's result" in text
    assert f"{100 * found.excess:.0f} % below the model's" in text
    assert "held out" in text
    frame = found.to_frame()
    assert frame["objective"].tolist() == [run.objective for run in found.runs]
    assert frame["n_free"].tolist() == [len(run.free_rows) for run in found.runs]


def test_random_starts_leave_so_many_features_free_and_depend_on_the_seed():
    X, y, task, _ = make_multitask(4, 20, 30)
    model = MSMTFL(fit_intercept=False).fit(X, y, task=task)
    runs = check_starts(model, X, y, task=task, starts=30).runs
    random = [run.began for run in runs if run.start.startswith("random")]
    assert (min(random) >= 1, max(random) <= 10, len(set(random)) > 4) == (True, True, True)  # n / 2
    assert runs[0].began == 0
    assert not any(run.start == "least squares" for run in runs)  # more features than samples
    again, other = (check_starts(model, X, y, task=task, random_state=seed).to_frame() for seed in (0, 1))
    assert again.equals(check_starts(model, X, y, task=task).to_frame())
    assert not again.equals(other)


def test_a_convex_problem_has_one_result():
    X, y, task = rugged()
    found = check_starts(MSMTFL(0.15, np.inf).fit(X, y, task=task), X, y, task=task, others={"ones": np.ones((3, 8))})
    assert found.n_results == 1
    assert found.excess == 0.0
    assert str(found).startswith(f"All {len(found.runs)} starts end at the model's result.")


def test_other_models_losses_penalties_and_weights():
    X, y, task = rugged()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    counts = np.round(np.abs(y))
    for model, target, options in (
        (MSMTFL(0.15, 0.9, penalty="mcp"), y, {}),
        (MSMTFL(0.1, 0.9, lam_entry=0.1), y, {}),
        (MSMTFL(0.05, 0.5, loss="poisson"), counts, {}),
        (MSMTFL(0.15, 0.9), y, {"sample_weight": weight}),
        (MSMTFLCV(lams=8, cv=3), y, {}),
    ):
        model.fit(X, target, task=task, **options)
        found = check_starts(model, X, target, task=task, starts=4, **options)
        zero = found.runs[0]
        assert zero.result == 0, model
        assert zero.objective == pytest.approx(model.objective_)


def test_what_is_wrong_is_said():
    X, y, task = rugged()
    model = MSMTFL(0.15, 0.9).fit(X, y, task=task)
    with pytest.raises(TypeError, match="not LassoMTL"):
        check_starts(LassoMTL(0.1).fit(X, y, task=task), X, y, task=task)
    with pytest.raises(ValueError, match="not the data of the fit"):
        check_starts(model, X, y + 1.0 * (task == 1) * X[:, 0], task=task)
    with pytest.raises(ValueError, match=r"start 'mine' has shape \(2, 8\); expected finite numbers of shape \(3, 8\)"):
        check_starts(model, X, y, task=task, others={"mine": np.zeros((2, 8))})
    with pytest.raises(ValueError, match="starts must be at least 1"):
        check_starts(model, X, y, task=task, starts=0)
