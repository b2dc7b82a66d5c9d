"""A common part and deviations solved on the tasks' own Gram matrices: against the Gram matrix of all put together."""

import numpy as np
import pytest

from msmtfl import SharedMTL, SharedMTLCV
from msmtfl._data.tasks import read_training
from msmtfl._kernels import arrow as _kernel
from msmtfl._objective.coupled.common_penalty import SharedNorm, common_weights
from msmtfl._objective.proofs.row_certificates import certify_rows
from msmtfl._solvers import gram
from msmtfl._solvers.coupled import common_part
from msmtfl._solvers.coupled.common_part import StackedGrams, StackedLassos
from msmtfl._solvers.lassos.lasso_solver import OVERRUN
from msmtfl._solvers.problems.make_problem import make_problem


def a_problem(seed):
    """Some tasks with copies, columns that add up, constant ones, indicators, more features than samples, weights."""
    random = np.random.default_rng(seed)
    m, d = int(random.integers(1, 9)), int(random.integers(2, 25))
    task = np.repeat(np.arange(m), random.integers(3, [8, 20, 50][seed % 3], size=m))
    X = random.standard_normal((len(task), d))
    kind = seed % 6
    if kind == 1:
        X[:, -1] = X[:, 0]
    elif kind == 2:
        X[:, -1] = X[:, 0] - X[:, d // 2]
    elif kind == 3:
        X = (random.random(X.shape) < 0.3).astype(float)
        X[:, -1] = 1.0 - X[:, 0]
    elif kind == 4:
        X[task == 0, 0], X[:, -1] = 1.0, 0.0
    W = np.where(random.random(d) < 0.4, 1.0, 0.0) + np.where(
        random.random((m, d)) < 0.2, random.standard_normal((m, d)), 0
    )
    y = np.einsum("nd,nd->n", X, W[task]) + 0.5 * random.standard_normal(len(task))
    factors = np.ones(d)
    if seed % 4 == 1:
        factors[random.integers(d)], factors[random.integers(d)] = np.inf, 0.0
    weight = random.integers(1, 4, size=len(task)).astype(float) if seed % 5 == 1 else None
    data = read_training(X, y, task=task, sample_weight=weight)
    return make_problem(data, fit_intercept=True, standardize=bool(seed % 2), positive=False, penalty_factors=factors)


def norms(problem, seed):
    """Stages from strong to weak penalties, rows being free in every second."""
    random = np.random.default_rng(seed)
    m, d, given = problem.m, problem.d, problem.given_factors[:, 0]
    gradient = np.array([2.0 / (m * x.n) * x.c for x in problem.designs])
    finite = np.where(np.isfinite(problem.factors) & (problem.factors > 0), problem.factors, np.inf).T
    largest = (np.abs(gradient) / finite).max()
    for k, share in enumerate(np.geomspace(0.7, 0.003, 8)):
        rows = np.full(d, share * largest)
        if k % 2:
            rows[random.random(d) < 0.2] = 0.0
        common = share * largest * random.choice([0.3, 0.9, 1.0, 1.7]) * np.sqrt(m)
        yield SharedNorm(rows, common_weights(common, given), problem.factors)


def objective(stacked, P, a):
    used = P != 0.0
    return 0.5 * stacked.loss(P) + float(a[used] @ np.abs(P[used]))


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.sampled(3)
def test_minimum_is_that_of_the_gram_matrix_of_all(seed):
    problem = a_problem(seed)
    ours, theirs = (StackedLassos(StackedGrams(problem.designs), units=problem.units) for _ in range(2))
    theirs.grams.weighed = None
    stacked = ours.stacked
    for norm in norms(problem, seed):
        a = 0.5 * problem.m * norm.weights()
        P, other = ours.solve(a)[0], theirs.solve(a)[0]
        least = objective(stacked, other, a)
        assert abs(objective(stacked, P, a) - least) <= 1e-12 * max(least, 1e-6 * stacked.yy)
        assert ours.finished
        assert certify_rows(stacked.parts, stacked.sums(P), norm).gap < 1e-11
    assert "together" not in vars(ours.grams)  # nor was it ever made
    assert "weighed" in vars(ours.grams)


def test_deviations_nearest_to_a_point_are_those_of_the_gram_matrix_of_all():
    """Of as many as there are tasks, and more than the solver of all puts right by itself."""
    random = np.random.default_rng(0)
    m, n, d = 40, 12, 6
    X = random.standard_normal((m * n, d))
    X[:, 5] = X[:, 4]
    task = np.repeat(np.arange(m), n)
    y = X[:, 0] + random.standard_normal(m)[task] * X[:, 4] + 0.1 * random.standard_normal(m * n)
    problem = make_problem(read_training(X, y, task=task), fit_intercept=True, standardize=False, positive=False)
    norm = SharedNorm(np.full(d, 1e-3), np.full(d, 0.02), problem.factors)
    a, aim = 0.5 * m * norm.weights(), random.standard_normal((m + 1) * d)
    aim[:d] = 0.0
    ours, theirs = (StackedLassos(StackedGrams(problem.designs), units=problem.units) for _ in range(2))
    theirs.grams.weighed = None
    P, other = ours.solve(a, aim)[0], theirs.solve(a, aim)[0]
    assert ours.slid
    assert theirs.slid
    np.testing.assert_allclose(ours.stacked.sums(P), ours.stacked.sums(other), atol=1e-9)
    split = P[d:].reshape(m, d)[:, 4:]
    assert (np.abs(split) > 1e-6).all(axis=1).sum() > m // 4  # both copies are used, as the aim asks for


def test_a_solve_that_does_not_end_is_left_to_the_gram_matrix_of_all(monkeypatch):
    problem = a_problem(6)
    a = 0.5 * problem.m * next(norms(problem, 6)).weights()
    ours = StackedLassos(StackedGrams(problem.designs), units=problem.units)
    expected = ours.solve(a)[0]

    def never(self, A, aim, W, status, rounds, max_iter=0):
        W[:], status[:], rounds[:] = 1.0, OVERRUN, 1000
        self.status = status

    monkeypatch.setattr(common_part._ByArrow, "solve_into", never)
    lassos = StackedLassos(StackedGrams(problem.designs), units=problem.units)
    P = lassos.solve(a)[0]
    assert lassos.finished
    np.testing.assert_allclose(P, expected, atol=1e-10)
    asked = StackedLassos(StackedGrams(problem.designs), units=problem.units)
    asked.solve(a, max_iter=1)
    assert not asked.finished  # so many rounds were asked for


def test_factor_of_an_arrow_is_that_of_the_whole_matrix(request):
    """Columns come and go at random; those that depend on others are refused."""
    if not request.config.getoption("--uncompiled"):
        pytest.skip("the factor is out of sight once it is compiled")
    random = np.random.default_rng(1)
    m, n, d = 4, 9, 6
    Xs = [random.standard_normal((n, d)) for _ in range(m)]
    Xs[1][:, 3] = Xs[1][:, 2]
    Q = np.array([X.T @ X for X in Xs])
    whole = np.zeros(((m + 1) * d, (m + 1) * d))
    whole[:d, :d] = Q.sum(axis=0)
    for i in range(m):
        at = slice((i + 1) * d, (i + 2) * d)
        whole[at, at] = whole[:d, at] = whole[at, :d] = Q[i]
    root = np.sqrt(np.diag(whole))
    state = _kernel.Arrow(Q, Q.sum(axis=0), root.copy(), root, np.full(m, d, dtype=np.intc))
    refused = 0
    for _ in range(300):
        inside = np.array(state.act[: state.k], dtype=np.intp)
        if random.random() < 0.8:
            j = int(random.choice(np.setdiff1d(np.arange(len(whole)), inside)))
            both = np.append(inside, j)
            dependent = np.linalg.matrix_rank(whole[np.ix_(both, both)], tol=1e-9) <= len(inside)
            assert state._add(j, 1.0) != dependent
            refused += dependent
        elif len(inside):
            state.mark[: state.k] = random.random(state.k) < 0.1
            state._drop_marked()
        inside = np.array(state.act[: state.k], dtype=np.intp)
        x = random.standard_normal(state.k)
        solved = x.copy()
        state._solve_on_support(solved)
        G = whole[np.ix_(inside, inside)]
        np.testing.assert_allclose(G @ solved, x, atol=1e-7)
        assert state._curvature(x) == pytest.approx(x @ G @ x, rel=1e-9)
    assert refused > 10


def test_a_search_finds_what_single_fits_on_rows_do(monkeypatch):
    """Copies in all tasks, fewer samples than features: single fits fetch Gram rows, a search forms Gram matrices."""
    for module in (gram, common_part):
        monkeypatch.setattr(module, "WHOLE_BELOW", 4)
    monkeypatch.setattr(gram, "STRONG_SHARE", 2.0)
    monkeypatch.setattr(gram, "SWITCH_SHARE", 2.0)
    random = np.random.default_rng(0)
    m, n, d = 3, 25, 30
    X, task = random.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    X[:, 15:] = X[:, :15]
    y = X[:, 0] + X[:, 1] + np.where(task == 0, X[:, 2], 0.0) + 0.3 * random.standard_normal(m * n)
    search = SharedMTLCV(lams=5, ratios=[0.5, 1.0], theta_ratios=[np.inf], cv=2).fit(X, y, task=task)
    surface, compared = search.surface_, 0
    for k, l in np.ndindex(surface.grid.shape):
        at = [surface.parameters[name][k, l] for name in ("lam_common", "lam_deviation")]
        alone = SharedMTL(*at).fit(X, y, task=task)
        np.testing.assert_allclose(surface.coef(k, l), alone.coef_, atol=1e-9)
        compared += not surface.unique[k, l]
    assert compared >= 4


def test_a_column_that_reaches_its_bound_by_itself_leaves_the_answer_as_it_is():
    """It looks like a tie, of which the answer was to be the nearest: there is none, and the answer was 0."""
    d, m = 2, 2
    Q, of_tasks = np.array([np.eye(d)] * m), np.array([[3.0, 1.0], [3.0, 0.5]])
    c = np.concatenate([of_tasks.sum(axis=0), of_tasks.ravel()])
    root = np.sqrt(np.concatenate([np.full(d, float(m)), np.ones(m * d)]))
    state, P = _kernel.Arrow(Q, Q.sum(axis=0), c, root, np.full(m, d, dtype=np.intc)), np.zeros((m + 1) * d)
    state.solve(np.array([1.0, 2.0, 1.0, 1.0, 1.0, 1.0]), np.zeros((1, len(P))), np.ones((1, len(P))), P)
    np.testing.assert_allclose(P, [2.5, 0, 0, 0, 0, 0], atol=1e-12)
