"""The (lam, theta) surface: every point is a fit of its own, and nothing is solved twice."""

import pickle
import re
import signal
import threading
import warnings
from dataclasses import FrozenInstanceError

import numpy as np
import oracles
import pytest

from msmtfl import MSMTFL, LassoMTL, regularization_surface, stack_tasks
from msmtfl._data.tasks import read_training
from msmtfl._paths.grids import SMALL_SHARE, SMALLER_SHARE, default_ratios, read_grid
from msmtfl._paths.solve import solve_surface
from msmtfl._runtime.progress import Progress
from msmtfl._solvers.gram import Gram
from msmtfl._solvers.largest_lam import largest_lam
from msmtfl._solvers.problems.make_problem import make_problem
from msmtfl._solvers.stages import CROWDED


def make_tasks(seed=0, **options):
    return stack_tasks(*oracles.random_tasks(seed, **{"m": 3, "n": [25, 30, 35], "d": 15, "noise": 0.5, **options}))


FACTORS = np.random.default_rng(1).uniform(0.5, 2.0, (15, 3))
FACTORS[0], FACTORS[1, 0], FACTORS[2, 1], FACTORS[5] = 0.0, 0.0, np.inf, np.inf
EXCLUDED = np.ones((12, 3))  # every feature is left out of some task
EXCLUDED[:6, 0], EXCLUDED[6:, 1] = np.inf, np.inf
# how the tasks are made, and what the models are told
PROBLEMS = {
    "one task": ({"m": 1, "n": 40}, {}),
    "many tasks": ({"m": 12, "n": 20}, {}),
    "fewer rows than features": ({"n": [15, 20, 25], "d": 40}, {}),
    "no intercept": ({}, {"fit_intercept": False}),
    "standardize": ({"n": [15, 20, 25], "d": 30}, {"standardize": True}),
    "positive": ({"n": [10, 12, 14], "d": 30}, {"positive": True}),
    "factors": ({}, {"penalty_factors": FACTORS}),
    "factors, standardize, positive": ({}, {"penalty_factors": FACTORS, "standardize": True, "positive": True}),
    "excluded cells": ({"n": [7, 7, 30], "d": 12, "active": 10}, {"penalty_factors": EXCLUDED}),
    "sample weights": ({}, {}),
    "correlated columns": ({"d": 20}, {}),
    "two stages at most": ({"n": 20, "d": 30, "active": 12, "noise": 1.0}, {"max_stages": 2}),
}


def cold(surface, k, l, X, y, options=None, **data):
    """The fit of one point from nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return MSMTFL(surface.lams[k], surface.thetas[k, l], **(options or {})).fit(X, y, **data)


def assert_point(surface, k, l, model):
    """The point is the cold fit, or the last of its stages that is not crowded."""
    stage = model.stages_[surface.n_stages[k, l] - 1]
    size = np.abs(stage.coef).max() or 1.0
    np.testing.assert_allclose(surface.coef(k, l) / size, stage.coef / size, rtol=0, atol=1e-8)
    assert surface.objective[k, l] == pytest.approx(stage.objective, rel=1e-10)
    np.testing.assert_array_equal(surface.free_rows(k, l), stage.free_rows)
    if surface.stopping_reason[k, l] == CROWDED:
        assert not model.stages_[surface.n_stages[k, l]].unique
    else:
        assert surface.n_stages[k, l] == model.n_stages_
        assert surface.converged[k, l] == model.converged_
        assert surface.stopping_reason[k, l] == model.stopping_reason_
        np.testing.assert_allclose(surface.intercept(k, l), model.intercept_, rtol=1e-8, atol=1e-8)


def assert_equal(one, two, tolerance=1e-10):
    """Two surfaces are the same to rounding."""
    np.testing.assert_allclose(two.thetas, one.thetas, rtol=1e-12)
    np.testing.assert_array_equal(two.n_stages, one.n_stages)
    size = np.abs(one.coefs(one.last.ravel())).max()
    np.testing.assert_allclose(two.coefs(two.last.ravel()), one.coefs(one.last.ravel()), rtol=0, atol=tolerance * size)


# ------------------------------------------------------------------ every point is a fit of its own


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.sampled(2)
def test_points_equal_cold_fits(name):
    tasks, options = PROBLEMS[name]
    (X, y, task), rng = make_tasks(**tasks), np.random.default_rng(2)
    if name == "correlated columns":
        X = 0.2 * X + rng.standard_normal((len(X), 3)) @ rng.standard_normal((3, X.shape[1])) + 2.0
    weight = rng.uniform(0.1, 2.0, len(y)) if name == "sample weights" else None
    surface = regularization_surface(X, y, task=task, sample_weight=weight, lams=6, lam_min_ratio=0.02, **options)
    for k, l in np.ndindex(surface.thetas.shape):
        model = cold(surface, k, l, X, y, options, task=task, sample_weight=weight)
        unique = all(stage.unique for stage in model.stages_[: surface.n_stages[k, l]])
        assert surface.unique[k, l] == unique
        if unique:
            assert_point(surface, k, l, model)
    assert surface.dual_gap.max() <= 1e-10
    assert surface.n_stages.max() > 1
    assert min(surface.unique.mean(), surface.converged.mean()) > (0.3 if name == "two stages at most" else 0.7)


def test_a_unit_of_theta_that_no_float_is_small_enough_for():
    rng = np.random.default_rng(0)
    X, task = 1e140 * rng.standard_normal((40, 3)), np.repeat([0, 1], 20)
    y = 1e-100 * rng.standard_normal(40)
    surface = regularization_surface(X, y, task=task, lams=[1e-210], theta_ratios=[np.inf, 8.0])
    assert np.isinf(surface.thetas[0, 0])
    assert not np.isnan(surface.thetas).any()


def test_points_stop_where_most_tasks_would_interpolate():
    X, y, task = make_tasks(n=[12, 14, 40], d=60, active=20, noise=1.0)
    surface = regularization_surface(X, y, task=task, lams=6)
    crowded = surface.stopping_reason == CROWDED
    assert crowded.any() > crowded.all()
    for k, l in np.ndindex(surface.thetas.shape):
        model = cold(surface, k, l, X, y, task=task)
        free = [len(stage.free_rows) for stage in model.stages_]
        assert max(free[: surface.n_stages[k, l]]) <= 13
        if crowded[k, l]:
            assert free[surface.n_stages[k, l]] > 13
            assert_point(surface, k, l, model)


def test_points_equal_cold_fits_on_isolet(isolet):
    X, y, task = isolet
    surface = regularization_surface(X, y, task=task, lams=3, lam_min_ratio=0.05, theta_ratios=[4, 16, np.inf])
    assert surface.dual_gap.max() <= 1e-10
    for k, l in np.ndindex(3, 3):
        if surface.unique[k, l]:
            assert_point(surface, k, l, cold(surface, k, l, X, y, task=task))
    assert surface.unique.all(axis=0).any()


def test_shared_features_with_missing_targets():
    X, y, task = make_tasks()
    Y = np.where(task[:, None] == [0, 1, 0], np.nan, np.column_stack([y, y**2, X[:, 0] - y]))
    surface = regularization_surface(X, Y, lams=4)
    for k, l in np.ndindex(surface.thetas.shape):
        assert_point(surface, k, l, cold(surface, k, l, X, Y))


@pytest.mark.parametrize("outlier", [99_999.0, 1e7])
def test_ill_conditioned_columns_are_solved_or_owned_up_to(outlier):
    rng = np.random.default_rng(3)
    X, factors = rng.standard_normal((30, 12)), np.repeat([0.0, 1.0], 6)
    y = X[:, :9].sum(axis=1) + 0.1 * rng.standard_normal(30)
    X[0, :6] = outlier  # free columns that are nearly multiples of each other
    surface = regularization_surface(X, y, lams=[1, 0.1, 0.01], standardize=True, penalty_factors=factors)
    assert surface.dual_gap[surface.converged].max(initial=0.0) <= 1e-8


def test_stages_that_are_not_unique_repeat_exactly():
    X, y, task = make_tasks(8, n=[10, 60, 60], d=40, active=20, noise=1.0)
    one, two = (regularization_surface(X, y, task=task, lams=6) for _ in range(2))
    assert 0 < one.unique.sum() < one.unique.size
    np.testing.assert_array_equal(one.coefs(one.last.ravel()), two.coefs(two.last.ravel()))
    for k, l in np.argwhere(one.unique):
        assert_point(one, k, l, cold(one, k, l, X, y, task=task))


def test_infinite_theta_is_the_lasso():
    X, y, task = make_tasks()
    surface = regularization_surface(X, y, task=task, lams=5)
    for k, lam in enumerate(surface.lams):
        np.testing.assert_allclose(surface.coef(k, -1), LassoMTL(lam).fit(X, y, task=task).coef_, rtol=0, atol=1e-10)


def test_a_constant_target():
    X, _, task = make_tasks()
    surface = regularization_surface(X, np.full(len(X), 0.1), task=task, lams=3)
    assert surface.lam_max == surface.n_entries.max() == surface.dual_gap.max() == surface.objective.max() == 0
    np.testing.assert_allclose(surface.intercept(2, 0), 0.1, rtol=1e-14)


# ------------------------------------------------------------------ the grid


def test_default_grid():
    X, y, task = make_tasks()
    surface = regularization_surface(X, y, task=task, lams=3)
    assert surface.lam_max == pytest.approx(MSMTFL().fit(X, y, task=task).lam_max_, rel=1e-12)
    np.testing.assert_allclose(surface.lams, surface.lam_max * SMALLER_SHARE ** np.array([0, 0.5, 1]), rtol=1e-12)
    rho_bar = np.mean([X[task == i].var(axis=0) for i in range(3)])
    np.testing.assert_allclose(surface.thetas, np.outer(3 * surface.lams / rho_bar, default_ratios(3)), rtol=1e-12)
    wide = regularization_surface(X.repeat(4, axis=1), y, task=task, lams=2)
    assert wide.lams[1] == pytest.approx(SMALL_SHARE * wide.lam_max)


def test_the_users_order_is_kept():
    X, y, task = make_tasks()
    lams, ratios = np.array([0.05, 0.4, 0.01, 0.2]), np.array([8.0, 2.0, np.inf, 4.0])
    given = regularization_surface(X, y, task=task, lams=lams, theta_ratios=ratios)
    down, rising = np.argsort(-lams), np.argsort(ratios)
    ordered = regularization_surface(X, y, task=task, lams=lams[down], theta_ratios=ratios[rising])
    np.testing.assert_array_equal(given.lams, lams)
    for k, l in np.ndindex(4, 4):
        np.testing.assert_allclose(given.coef(down[k], rising[l]), ordered.coef(k, l), rtol=0, atol=1e-10)


def test_ways_to_say_theta():
    X, y, task = make_tasks()
    ratios = regularization_surface(X, y, task=task, lams=3, theta_ratios=[2, 8])
    assert_equal(ratios, regularization_surface(X, y, task=task, lams=3, thetas=ratios.thetas), 1e-14)
    assert_equal(ratios, MSMTFL().surface(X, y, task=task, lams=3, theta_ratios=[2, 8]), 1e-14)
    same = regularization_surface(X, y, task=task, lams=3, thetas=[0.5, np.inf])
    np.testing.assert_array_equal(same.thetas, [[0.5, np.inf]] * 3)


# ------------------------------------------------------------------ how it is solved


@pytest.mark.parametrize("d", [15, 500], ids=["whole Gram matrices", "rows on demand"])
def test_threads_change_nothing(d):
    X, y, task = make_tasks(d=d)
    one, two = (regularization_surface(X, y, task=task, lams=6, n_jobs=jobs) for jobs in (None, 2))
    assert_equal(one, two)


def test_a_small_budget_changes_nothing():
    X, y, task = make_tasks(d=450, active=10)
    grid = {"lams": 6, "lam_min_ratio": 0.05, "theta_ratios": [8, np.inf]}
    surface = regularization_surface(X, y, task=task, **grid)
    assert_equal(surface, regularization_surface(X, y, task=task, memory_budget=1, **grid))
    problem = make_problem(read_training(X, y, task=task), fit_intercept=True, standardize=False, positive=False)
    grams = [Gram(design, whole=False, may_form=False, most_rows=25) for design in problem.designs]
    assert_equal(surface, solve_surface(problem, read_grid(problem, surface.lams, thetas=surface.thetas), grams=grams))
    assert all(gram.version > 0 for gram in grams)  # rows were given up and fetched again


def test_every_capped_set_is_solved_once():
    X, y, task = make_tasks()
    thetas = np.geomspace(0.05, 5.0, 8)
    surface = regularization_surface(X, y, task=task, lams=6, thetas=thetas)
    assert len(surface.solved) < surface.n_stages.sum()
    assert len({(solved.k, solved.eased.tobytes()) for solved in surface.solved}) == len(surface.solved)
    again = regularization_surface(X, y, task=task, lams=6, thetas=np.tile(thetas, 3))
    assert len(again.solved) == len(surface.solved)


@pytest.mark.parametrize("distance", [1e-5, 1e-7])
def test_near_copies_of_columns_are_solved_as_well_as_by_a_cold_fit(distance):
    """In Gram form such columns cannot be told from copies."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, task = rng.standard_normal((60, 12)), np.repeat([0, 1], 30)
        X[:, 6:9] = X[:, :3] + distance * rng.standard_normal((60, 3))
        y = X[:, :4].sum(axis=1) + 0.3 * rng.standard_normal(60)
        surface = regularization_surface(X, y, task=task, lams=5, theta_ratios=[1, 16])
        assert surface.dual_gap.max() <= 1e-8
        cold = MSMTFL(surface.lams[-1], surface.thetas[-1, 0]).fit(X, y, task=task)
        assert surface.objective[-1, 0] == pytest.approx(cold.objective_, rel=1e-8)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to threads here")
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_ctrl_c_ends_it(monkeypatch, n_jobs):
    """The signal reaches the main thread, which waits for the others."""
    steps = []
    step = Progress.step

    def interrupt(self, part):
        steps.append(1)
        if len(steps) == 200:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        step(self, part)

    monkeypatch.setattr(Progress, "step", interrupt)
    X, y, task = make_tasks(d=40)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            regularization_surface(X, y, task=task, lams=20_000, n_jobs=n_jobs)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(steps) < 10_000  # a quarter
    monkeypatch.undo()
    assert regularization_surface(X, y, task=task, lams=3, n_jobs=n_jobs).dual_gap.max() <= 1e-10


@pytest.mark.parametrize("penalty", ["capped", "mcp"])
def test_it_can_be_stopped_within_a_lam(penalty):
    """A lam may have hundreds of thetas."""
    X, y, task = make_tasks()
    problem = make_problem(read_training(X, y, task=task), fit_intercept=True, standardize=False, positive=False)
    grid = read_grid(problem, [0.1 * largest_lam(problem)], np.geomspace(0.01, 10, 50), penalty=penalty)
    ticks = []

    def tick(part):
        ticks.append(part)
        if len(ticks) == 20:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        solve_surface(problem, grid, tick=tick)
    assert sum(ticks) < 1.0  # of the one lam


def test_progress_is_shown_on_the_error_stream_if_asked_for(capsys, terminal):
    X, y, task = make_tasks()
    regularization_surface(X, y, task=task, lams=3)
    assert capsys.readouterr() == ("", "")
    regularization_surface(X, y, task=task, lams=3, verbose=True)
    out, err = capsys.readouterr()
    assert (out, "3/3 lams [####" in err) == ("", True)


# ------------------------------------------------------------------ the result


@pytest.fixture(scope="module")
def surface():
    X, y, task = make_tasks()
    return regularization_surface(X, y, task=np.array(["a", "b", "c"])[task], lams=4, theta_ratios=[2, 8])


def test_views_of_the_coefficients_agree(surface):
    assert (surface.tasks.tolist(), surface.features[14]) == (["a", "b", "c"], "x14")
    for k, l in np.ndindex(4, 2):
        coef = surface.coef(k, l)
        np.testing.assert_array_equal(surface.sparse_coef(k, l).toarray(), coef)
        np.testing.assert_array_equal(surface.support(k, l), coef != 0)
        np.testing.assert_array_equal([surface.of_task(i).dense(surface.last[k, [l]])[0] for i in range(3)], coef)
        assert surface.n_entries[k, l] == np.count_nonzero(coef)
        assert surface.n_rows[k, l] == np.count_nonzero(coef.any(axis=0))


def test_to_frame_has_lam_outer(surface):
    table = surface.to_frame()
    known = ["lam", "theta", "objective", "dual_gap", "n_stages", "converged", "unique"]
    assert table.columns[:7].tolist() == known
    np.testing.assert_array_equal(table["lam"], surface.lams.repeat(2))
    np.testing.assert_array_equal(table["theta"], surface.thetas.ravel())
    for name in known[2:]:
        np.testing.assert_array_equal(table[name], getattr(surface, name).ravel())
    assert "4 lams x 2 thetas, 3 tasks, 15 features" in repr(surface)


def test_pickling_keeps_everything_but_the_data(surface):
    X, y, task = make_tasks(n=2000)
    large = pickle.dumps(regularization_surface(X, y, task=task, lams=4, theta_ratios=[2, 8]))
    assert len(large) < 0.05 * X.nbytes
    again = pickle.loads(pickle.dumps(surface))
    assert again.problem is None
    assert again.to_frame().equals(surface.to_frame())
    for k, l in np.ndindex(4, 2):
        for name in ("coef", "intercept", "free_rows"):
            np.testing.assert_array_equal(getattr(again, name)(k, l), getattr(surface, name)(k, l))


def test_what_is_known_already_goes_into_a_copy(surface):
    losses, gaps = np.full((len(surface.solved), len(surface.tasks)), 7.0), np.full(len(surface.solved), 0.5)
    before, objective = surface.dual_gap, surface.objective
    told = surface.proven(losses, gaps, np.zeros(len(gaps), dtype=bool))
    assert told is not surface
    assert (told.dual_gap == 0.5).all()
    assert not told.unique.any()
    assert not told.converged.any()
    assert told.losses is losses
    assert (told.objective != objective).all()
    np.testing.assert_array_equal(surface.dual_gap, before)
    assert pickle.loads(pickle.dumps(told)).dual_gap.min() == 0.5


def test_it_is_frozen():
    X, y, task = make_tasks()
    lams, thetas = np.array([0.3, 0.1]), np.array([[1.0], [2.0]])
    surface = regularization_surface(X, y, task=task, lams=lams, thetas=thetas)
    with pytest.raises(FrozenInstanceError):
        surface.lams = lams
    lams[0], thetas[0] = 9.0, 9.0  # the user's arrays are the user's
    np.testing.assert_array_equal(surface.lams, [0.3, 0.1])
    np.testing.assert_array_equal(surface.thetas, [[1.0], [2.0]])


# ------------------------------------------------------------------ bad input

BAD = {
    "no lam": ({"lams": []}, "non-empty 1-D"),
    "lams=0": ({"lams": 0}, "at least 1.*got 0"),
    "a lam of 0": ({"lams": [0.1, 0.0]}, r"lams\[1\] is 0"),
    "a negative lam": ({"lams": [-0.1]}, r"lams\[0\] is -0.1"),
    "NaN among lams": ({"lams": [0.1, np.nan]}, r"lams\[1\] is nan"),
    "2-D lams": ({"lams": [[0.1, 0.2]]}, r"1-D.*\(1, 2\)"),
    "lams as text": ({"lams": "many"}, "lams must be numbers.*many"),
    "lams=True": ({"lams": True}, "lams must be a count"),
    "lam_min_ratio=0": ({"lam_min_ratio": 0}, "lam_min_ratio must be a number between 0 and 1"),
    "lam_min_ratio=1": ({"lam_min_ratio": 1.0}, "lam_min_ratio must be a number between 0 and 1"),
    "thetas beside ratios": ({"thetas": [1.0], "theta_ratios": [1.0]}, "not both"),
    "thetas of another length": ({"lams": 3, "thetas": np.ones((2, 4))}, r"\(2, 4\).*\(3, k\)"),
    "no theta": ({"thetas": []}, "thetas is empty"),
    "a theta of 0": ({"lams": 2, "thetas": [[1.0], [0.0]]}, r"thetas\[1, 0\] is 0"),
    "a negative ratio": ({"theta_ratios": [1.0, -2.0]}, r"theta_ratios\[1\] is -2"),
    "no ratio": ({"theta_ratios": []}, "theta_ratios is empty"),
    "2-D ratios": ({"theta_ratios": [[1.0]]}, r"1-D.*\(1, 1\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_refused_with_the_place(name):
    options, message = BAD[name]
    X, y, task = make_tasks()
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        regularization_surface(X, y, task=task, **options)
