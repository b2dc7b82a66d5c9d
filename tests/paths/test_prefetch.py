"""Gram rows fetched on demand: what is fetched beforehand, and what between the rounds of several threads."""

from __future__ import annotations

import numpy as np
import oracles
import pytest

from msmtfl import MSMTFLCV, regularization_surface, stack_tasks
from msmtfl._data.tasks import read_training
from msmtfl._paths import prefetch as foresight
from msmtfl._paths import stage_paths
from msmtfl._paths.grid_stages import Entries
from msmtfl._paths.grids import read_grid
from msmtfl._paths.solve import solve_surface
from msmtfl._solvers.gram import Gram, LackingError, at_hand, closed
from msmtfl._solvers.largest_lam import first_gradient, largest_lam
from msmtfl._solvers.problems.make_problem import make_problem
from msmtfl._solvers.solvers import caches_for
from msmtfl._solvers.task_lassos import lassos_for

GRID = {"lams": 8, "theta_ratios": [1.0, 4.0, np.inf], "lam_min_ratio": 0.05}


def wide_tasks(seed=0, **options):
    """More features than fit into the matrices that are formed at once."""
    return stack_tasks(*oracles.random_tasks(seed, **{"m": 4, "n": 40, "d": 4500, "active": 10, **options}))


def posed(X, y, task, **options):
    return make_problem(
        read_training(X, y, task=task),
        **{"fit_intercept": True, "standardize": False, "positive": False, **options},
    )


def firsts_of(problem, grid, grams):
    path = lassos_for(problem, grams).path(grid.lams, problem.stage_weights)
    return dict(enumerate(path))


@pytest.fixture
def fetches(monkeypatch):
    """What has been fetched, in order: the features."""
    seen: list[np.ndarray] = []
    fetch = Gram.fetch

    def noted(self, wanted, *arguments, **options):
        seen.append(wanted)
        return fetch(self, wanted, *arguments, **options)

    monkeypatch.setattr(Gram, "fetch", noted)
    return seen


@pytest.mark.parametrize("roomy", [3, 10, 100])
@pytest.mark.parametrize("factors", [False, True])
def test_how_far_rows_reach(roomy, factors):
    """Against a loop over lams and thetas."""
    X, y, task = wide_tasks(d=60)
    some = np.random.default_rng(0).choice([0.0, 0.5, 2.0], size=(60, 4)) if factors else None
    problem = posed(X, y, task, penalty_factors=some)
    grid = read_grid(problem, 8, [0.5, 2.0, 8.0], entry_shares=(0.0, 0.5), entry_ratios=[0.1])
    firsts = firsts_of(problem, grid, caches_for(problem, "lassos"))
    found = foresight.reaches(problem, grid, firsts, roomy)
    expected = np.zeros(60)
    for k, first in firsts.items():
        W = np.zeros((4, 60))
        W.ravel()[first.at] = first.values
        norms = (np.abs(W) * problem.factors.T).sum(axis=0)
        thetas = grid.thetas[k, grid.shares == 0.0]
        fit = thetas[[np.count_nonzero(norms >= theta) <= roomy for theta in thetas]]
        if fit.size:
            expected = np.maximum(expected, norms / fit.min())
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.any()


def test_second_stages_find_their_rows(fetches):
    X, y, task = wide_tasks(n=150, noise=0.1)
    problem = posed(X, y, task)
    grid, grams = read_grid(problem, 10, [0.5, 2.0], lam_min_ratio=0.2), caches_for(problem, "lassos")
    assert not at_hand(grams)
    firsts = firsts_of(problem, grid, grams)
    roomy = Entries(problem).crowding.roomy
    freed = np.flatnonzero(foresight.reaches(problem, grid, firsts, roomy) >= 1.0)
    lacking = [freed[gram.slot[freed] < 0] for gram in grams]
    assert any(rows.size for rows in lacking)
    del fetches[:]
    assert foresight.foresee(problem, grid, firsts, grams, roomy, None)
    assert len(fetches) <= 4  # one for every task, at most
    assert all((gram.slot[freed] >= 0).all() for gram in grams)


def test_nothing_is_foreseen_beyond_the_budget():
    X, y, task = wide_tasks()
    problem = posed(X, y, task)
    grid, grams = read_grid(problem, 10, [0.2]), caches_for(problem, "lassos")
    for gram in grams:
        gram.most_rows = gram.size
    firsts = firsts_of(problem, grid, [Gram(design, whole=False) for design in problem.designs])
    assert foresight.foresee(problem, grid, firsts, grams, 39, None)
    assert all(gram.size == 0 for gram in grams)


def test_other_penalties_and_caches_are_left_alone():
    X, y, task = wide_tasks()
    problem = posed(X, y, task)
    grams = caches_for(problem, "lassos")
    for grid, caches in (
        (read_grid(problem, 4, [1.0], penalty="mcp"), grams),
        (read_grid(problem, 4, [1.0]), caches_for(problem, "lassos", budget=1.0)),
    ):
        assert not foresight.foresee(problem, grid, firsts_of(problem, grid, caches), caches, 39, None)


def test_features_that_all_tasks_use_are_fetched_with_the_first(monkeypatch, fetches):
    X, y, task = wide_tasks(n=250, noise=0.1)
    options = {"lams": 8, "theta_ratios": [2.0, 10.0], "lam_min_ratio": 0.1}
    surface = regularization_surface(X, y, task=task, **options)
    with_likely = len(fetches)
    del fetches[:]
    monkeypatch.setattr(stage_paths, "likely_shared", lambda *_: None)
    plain = regularization_surface(X, y, task=task, **options)
    assert with_likely < len(fetches)
    for point in np.ndindex(surface.thetas.shape):
        np.testing.assert_allclose(surface.coef(*point), plain.coef(*point), rtol=0, atol=1e-10)


def test_the_likely_features_are_those_with_the_largest_sums():
    X, y, task = wide_tasks()
    problem = posed(X, y, task)
    total = np.abs(first_gradient(problem)).sum(axis=0)
    likely = foresight.likely_shared(problem, caches_for(problem, "lassos"))
    np.testing.assert_array_equal(likely, np.argsort(-total)[: foresight.LIKELY])
    assert (
        foresight.likely_shared(posed(*wide_tasks(d=500)), [Gram(problem.designs[0], whole=False)]) is None
    )  # short rows
    assert foresight.likely_shared(problem, []) is None  # nothing to fetch


FACTORS = np.random.default_rng(0).choice([0.0, 0.5, 1.0, np.inf], p=[0.001, 0.4, 0.5, 0.099], size=4500)
OPTIONS = {
    "plain": {},
    "positive": {"positive": True},
    "factors": {"penalty_factors": FACTORS},
    "entries": {"entry_shares": (0.0, 0.4), "entry_ratios": [0.5]},
    "standardised": {"standardize": True},
    "few rows fit": {"memory_budget": 8.0 * 4500 * 4 * 90},
    "one lam": {"lams": [0.05]},
    "one stage": {"max_stages": 1},
}


@pytest.fixture
def completed(monkeypatch):
    """The solvers whose lacking rows were fetched between two rounds."""
    seen: list[stage_paths.LocalStages] = []
    complete = stage_paths.LocalStages.complete

    def noted(self, n_jobs=None):
        if n_jobs is not None:
            seen.append(self)
        complete(self, n_jobs)

    monkeypatch.setattr(stage_paths.LocalStages, "complete", noted)
    return seen


def assert_same(one, other):
    assert one.ended.tolist() == other.ended.tolist()
    for point in np.ndindex(one.thetas.shape):
        assert len(one.chains[point]) == len(other.chains[point])
        np.testing.assert_allclose(other.coef(*point), one.coef(*point), rtol=0, atol=1e-9)
    assert other.dual_gap.max() <= 1e-10


@pytest.mark.parametrize("n_jobs", [2, 3, 8])
@pytest.mark.parametrize("foreseen", [True, False])
@pytest.mark.sampled(2)
def test_what_is_lacking_still_is_fetched_in_rounds(monkeypatch, completed, n_jobs, foreseen):
    X, y, task = wide_tasks(noise=2.0)
    one = regularization_surface(X, y, task=task, **GRID)
    if not foreseen:
        monkeypatch.setattr(foresight, "_fetch", lambda *_: None)
    several = regularization_surface(X, y, task=task, n_jobs=n_jobs, **GRID)
    assert len(set(map(id, completed))) > 1  # several solvers fetched rows for others to find
    assert_same(one, several)


@pytest.mark.parametrize("seed", [3, 7])
def test_walks_take_note_of_what_others_fetch(seed):
    """A state that goes on without would take features for known that are not: gaps of 1e-2 on these two."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 3000))
    y = X[:, :8] @ rng.standard_normal(8) + 0.5 * rng.standard_normal(40)
    one, two = (regularization_surface(X, y, lams=12, lam_min_ratio=0.03, n_jobs=jobs) for jobs in (None, 2))
    assert_same(one, two)


@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.slow
def test_threads_change_nothing(case, completed):
    X, y, task = wide_tasks(noise=1.0)
    options = {**GRID, **OPTIONS[case]}
    if case == "one lam":
        del options["lam_min_ratio"]
    one, two = (regularization_surface(X, y, task=task, n_jobs=jobs, **options) for jobs in (None, 2))
    assert_same(one, two)
    assert bool(completed) == (case not in ("one lam", "one stage"))


def test_a_matrix_may_become_whole_between_rounds(completed):
    X, y, task = wide_tasks(n=60, d=500, noise=0.1)
    options = {"lams": 8, "theta_ratios": [0.5, 2.0, np.inf], "lam_min_ratio": 0.01}
    one, two = (regularization_surface(X, y, task=task, n_jobs=jobs, **options) for jobs in (None, 2))
    assert_same(one, two)


@pytest.mark.parametrize("m", [1, 2, 3, 5])
@pytest.mark.parametrize("n_jobs", [2, 4])
@pytest.mark.sampled(2)
def test_paths_with_more_or_fewer_tasks_than_threads(m, n_jobs):
    X, y, task = wide_tasks(m=m)
    problem = posed(X, y, task)
    lams = largest_lam(problem) * np.geomspace(1.0, 0.1, 6)
    one, several = (
        lassos_for(problem, [Gram(design, whole=False) for design in problem.designs], jobs).path(
            lams, problem.stage_weights
        )
        for jobs in (None, n_jobs)
    )
    for a, b in zip(one, several, strict=True):
        np.testing.assert_array_equal(a.at, b.at)
        np.testing.assert_array_equal(a.values, b.values)


def test_nothing_is_fetched_from_a_closed_matrix():
    X, y, task = wide_tasks()
    problem = posed(X, y, task)
    grams = caches_for(problem, "lassos")
    lassos, A = lassos_for(problem, grams), 0.3 * largest_lam(problem) * problem.stage_weights
    with closed(grams), pytest.raises(LackingError):
        lassos.solve(A)
    assert all(gram.size == 0 for gram in grams)
    W, _ = lassos.solve(A)
    assert W.any()
    with closed(grams):
        np.testing.assert_array_equal(lassos.solve(A)[0], W)


@pytest.mark.slow
def test_folds_on_threads_find_their_rows():
    """Within a thread there are no further ones: surfaces of folds go as they do alone."""
    X, y, task = wide_tasks(m=2)
    one, two = (MSMTFLCV(4, cv=3, n_jobs=jobs).fit(X, y, task=task) for jobs in (None, 2))
    np.testing.assert_allclose(two.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"], rtol=1e-8)


def test_threads_come_to_the_same_bits_every_time():
    """What is fetched does not depend on which thread is faster."""
    X, y, task = wide_tasks(noise=1.0)
    first, *others = (regularization_surface(X, y, task=task, n_jobs=2, **GRID) for _ in range(5))
    for other in others:
        for point in np.ndindex(first.thetas.shape):
            assert first.coef(*point).tobytes() == other.coef(*point).tobytes()


@pytest.mark.slow
def test_progress_counts_every_lam_once(monkeypatch):
    X, y, task = wide_tasks(noise=2.0)
    problem = posed(X, y, task)
    steps: list[float] = []
    monkeypatch.setattr(foresight, "_fetch", lambda *_: None)
    solve_surface(problem, read_grid(problem, 8, [1.0, 4.0]), n_jobs=2, tick=steps.append)
    assert sum(steps) == pytest.approx(8)
