"""Algorithm 1 at one lam, compiled: stage for stage what the plain way does."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from msmtfl import regularization_surface
from msmtfl._data.tasks import read_training
from msmtfl._kernels.stage_loop import StageLoop
from msmtfl._paths.grids import read_grid
from msmtfl._paths.solve import solve_surface
from msmtfl._paths.stage_paths import LocalStages
from msmtfl._solvers.problems.make_problem import make_problem
from msmtfl._solvers.stages import CROWDED, LIMIT, REPEATS, UNFINISHED


def problem(seed: int, m: int = 4, n: int = 25, d: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlated columns, one of them a copy, one constant, one of another scale."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m * n, d)) + rng.standard_normal((m * n, 1))
    X[:, 1], X[:, 2], X[:, 3] = X[:, 0], 1.0, 3.0 * X[:, 3]
    y = X[:, [0, 4, 5]].sum(axis=1) + 2.0 * rng.standard_normal(m * n)
    return X, y, np.repeat(np.arange(m), n)


def factors(seed: int, m: int = 4, d: int = 20) -> np.ndarray:
    return np.random.default_rng(seed).choice([0.0, 0.5, 1.0, np.inf], p=[0.1, 0.3, 0.4, 0.2], size=(d, m))


CASES = {
    "rows": {},
    "one stage": {"max_stages": 1},
    "two stages": {"max_stages": 2},
    "entries": {"entry_shares": (0.0, 0.4, 1.0), "entry_ratios": (0.1, 1.0)},
    "factors": {"penalty_factors": factors(0), "entry_shares": (0.0, 0.5)},
    "standardised": {"standardize": True},
    "positive": {"positive": True, "entry_shares": (0.0, 0.5, 1.0)},
    "two threads": {"n_jobs": 2},
    "small lams": {"lams": np.geomspace(1.0, 1e-4, 8)},
}


def both(monkeypatch, X, y, task, **options):
    """The surface by the compiled loop, and by the plain way."""
    options = {"lams": 8, "theta_ratios": [0.02, 0.1, 0.5, 2.0, 10.0, np.inf], **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = regularization_surface(X, y, task=task, **options)
        monkeypatch.setattr(LocalStages, "_follow", LocalStages._ask)
        plain = regularization_surface(X, y, task=task, **options)
    return compiled, plain


def assert_same(one, other) -> None:
    assert one.ended.tolist() == other.ended.tolist()
    for point in np.ndindex(one.thetas.shape):
        assert len(one.chains[point]) == len(other.chains[point])
        for mine, its in zip(one.chains[point], other.chains[point], strict=True):
            a, b = one.solved[mine], other.solved[its]
            assert a.finished == b.finished
            for name in ("at", "values", "unclear", "eased", "left"):
                np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert len(one.solved) == len(other.solved)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(2)
def test_as_the_plain_walk(monkeypatch, case, seed):
    compiled, plain = both(monkeypatch, *problem(seed), **CASES[case])
    assert_same(compiled, plain)


def test_as_the_plain_walk_with_rows_fetched_on_demand(monkeypatch):
    X, y, task = problem(0, n=40, d=600)
    compiled, plain = both(monkeypatch, X, y, task, theta_ratios=[0.5, 2.0, 10.0])
    assert_same(compiled, plain)


def test_as_the_plain_walk_of_another_loss(monkeypatch):
    compiled, plain = both(monkeypatch, *problem(0), loss="huber", lams=4, theta_ratios=[0.5, 2.0])
    assert_same(compiled, plain)


def test_all_reasons_to_end_occur(monkeypatch):
    """What the tests compare is not one case over and over. (Sets cannot run in a cycle: the objective falls.)"""
    seen: set[str] = set()
    for seed in range(20):
        X, y, task = problem(seed, n=12)
        compiled, plain = both(monkeypatch, X, y, task, theta_ratios=np.geomspace(0.05, 20, 8), max_stages=4)
        assert_same(compiled, plain)
        seen |= set(compiled.ended.ravel().tolist())
    assert seen == {REPEATS, CROWDED, LIMIT.format(4)}


def test_a_stage_that_is_not_finished_ends_its_points(monkeypatch):
    X, y, task = problem(1, n=40)
    found = []
    for plain in (False, True):
        if plain:
            monkeypatch.setattr(LocalStages, "_follow", LocalStages._ask)
        data = read_training(X, y, task=task)
        posed = make_problem(data, fit_intercept=True, standardize=False, positive=False)
        grid = read_grid(posed, 8, [0.1, 1.0])
        found.append(solve_surface(posed, grid, max_iter=1))
    assert_same(*found)
    assert UNFINISHED in found[0].ended.ravel().tolist()


def test_room_grows_with_stages_not_with_max_stages():
    X, y, task = problem(0)
    few, most = (
        regularization_surface(X, y, task=task, lams=4, theta_ratios=np.geomspace(0.01, 20, 60), max_stages=stages)
        for stages in (50, 10**30)
    )
    assert_same(few, most)


def test_arrays_that_do_not_fit_are_refused():
    """The compiled code does not look at bounds."""
    A, per_task, counts = np.zeros((2, 3)), np.zeros(2, np.intc), np.zeros(2, np.intp)
    flat, usable = np.ones(6), np.ones(6, np.uint8)
    StageLoop(A, A, A, A, per_task, per_task, flat, usable, counts, counts, 0, False, 10)
    with pytest.raises(ValueError, match="do not fit weights of shape"):
        StageLoop(A, A, A[:1], A, per_task, per_task, flat, usable, counts, counts, 0, False, 10)
