"""The work that points of a search get: little where the errors of all folds have long been rising, and no other choice."""

import numpy as np
import pytest
from sklearn.base import clone

import msmtfl._paths.early_stopping
from msmtfl import L12MTLCV, DirtyMTLCV
from msmtfl._paths.early_stopping import IN_A_ROW, LITTLE, ROUNDS, Effort, FoldEffort, SearchEffort, near_best


def noisy(m=3, n=25, d=60):
    """Tasks with more, and correlated, features than rows, little to find and much noise: errors turn early."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((m * n, d)) + 3 * rng.standard_normal((m * n, 1)), np.repeat(np.arange(m), n)
    return X, X[:, 0] - X[:, 1] + 2 * rng.standard_normal(m * n), task


def fold_effort(rounds=300, K=9):
    fold = FoldEffort(rounds, (K, 1))
    fold.begin(lambda solved: 0.0)
    return fold


def told(fold, errors, rounds=LITTLE):
    """Go down a column with these errors; which points got little effort."""
    out = []
    for k, error in enumerate(errors):
        fold.error = lambda solved, error=error: error
        out.append(fold.at(k, 0) == LITTLE)
        fold.told(k, 0, rounds, None)
    return out


def test_a_fold_gives_up_after_some_points_in_a_row_and_takes_heart_again():
    fold = fold_effort()
    assert told(fold, [3.0, 1.0, 1.1, 1.04, 1.1, 1.2, 1.3, 0.9, 1.0]) == [False] * 7 + [True, False]
    assert fold.given_up[:, 0].tolist() == [False] * 7 + [True, False]


def test_cheap_points_are_not_even_measured():
    fold = fold_effort()
    fold.begin(lambda solved: 1 / 0)
    assert not any(fold.at(k, 0) == LITTLE or fold.told(k, 0, LITTLE - 1, None) for k in range(9))


def test_all_data_get_little_effort_only_where_every_fold_does():
    first, second = fold_effort(), fold_effort()
    effort = SearchEffort(0, (9, 1), [first, second])
    told(first, [1.0] + 8 * [2.0])
    told(second, [1.0, 1.0, 1.0] + 6 * [2.0])
    assert [effort.at(k, 0) for k in range(9)] == (3 + IN_A_ROW) * [ROUNDS] + (6 - IN_A_ROW) * [LITTLE]
    effort.demand(np.arange(9)[:, None] == 8)
    assert effort.at(8, 0) == 0  # no limit
    assert fold_effort(rounds=5).little == 5
    assert Effort(0, (1, 1)).at(0, 0) == ROUNDS


def test_points_near_the_best_are_due_on_folds_that_gave_them_up():
    first = fold_effort()
    errors = np.array([[1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0], [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 4.0, 4.0]])
    told(first, errors[0])
    near = near_best(errors[:, :, None])
    assert near[6]  # the best mean, where the first fold had given up
    assert not near[0]
    assert first.given_up[6]
    assert first.demand(near)
    assert first.step == 0.0
    first.begin(None)
    told(first, errors[0])
    assert not first.given_up[first.due].any()
    assert not first.demand(near)


@pytest.mark.parametrize(
    ("search", "data"),
    [
        (L12MTLCV(15, cv=2), noisy()),
        pytest.param(L12MTLCV(15, cv=2, selection="1se"), noisy(), marks=pytest.mark.slow),
        (DirtyMTLCV(12, ratios=[0.5], cv=2), noisy(n=20, d=40)),
    ],
    ids=["L1,2", "L1,2 by one standard error", "Dirty"],
)
def test_the_choice_is_that_of_full_effort(monkeypatch, search, data):
    X, y, task = data
    little = clone(search).fit(X, y, task=task)
    monkeypatch.setattr(msmtfl._paths.early_stopping, "IN_A_ROW", 10**9)
    full = clone(search).fit(X, y, task=task)
    assert little.surface_.finished.sum() < full.surface_.finished.sum()  # there was something to save
    assert little.best_point_ == full.best_point_
    np.testing.assert_allclose(little.coef_, full.coef_, atol=1e-9)
    both = little.surface_.finished & full.surface_.finished
    k, l = np.argwhere(both)[both.sum() // 2]
    np.testing.assert_allclose(little.surface_.coef(k, l), full.surface_.coef(k, l), atol=1e-7)
    assert little.dual_gap_ <= little.tol
    scores, exact = little.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"]
    near = exact > 1.05 * np.nanmax(exact)
    np.testing.assert_allclose(scores[near], exact[near], rtol=1e-6)


@pytest.mark.slow
def test_without_folds_and_with_a_scorer_every_point_is_solved():
    X, y, task = noisy()
    assert L12MTLCV(15, selection="bic").fit(X, y, task=task).surface_.finished.all()
    assert L12MTLCV(15, cv=2, scoring="r2").fit(X, y, task=task).surface_.finished.all()


@pytest.mark.parametrize("seed", [11, pytest.param(27, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_early_solutions_near_the_best_do_not_decide(monkeypatch, seed):
    """Few rows: the errors of folds turn at different places, and those of solutions on the way can be smaller."""
    rng = np.random.default_rng(seed)
    m, n, d = 3, 14, 50
    X, task, W = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n), np.zeros((m, d))
    W[:, :6] = 2 * rng.standard_normal((m, 6))
    y = np.einsum("ij,ij->i", X, W[task]) + rng.standard_normal(m * n)
    little = L12MTLCV(cv=5).fit(X, y, task=task)
    monkeypatch.setattr(msmtfl._paths.early_stopping, "IN_A_ROW", 10**9)
    full = L12MTLCV(cv=5).fit(X, y, task=task)
    assert little.best_point_ == full.best_point_
    assert little.best_score_ == pytest.approx(full.best_score_, rel=1e-8)
    np.testing.assert_allclose(little.coef_, full.coef_, atol=1e-7)


def test_the_error_on_the_way_is_the_score_of_the_search():
    X, y, task = noisy()
    seen = {}  # by fold, of the last time that it was solved

    class Watching(L12MTLCV):
        def _search(self, problem, grid, grams, splits, solve, scorer, progress):
            def watched(part, split, effort):
                plain, errors = effort.error, seen.setdefault(id(split), [])
                errors.clear()
                effort.error = lambda solved: errors.append((plain(solved), solved.finished)) or errors[-1][0]
                return solve(part, split, effort=effort)

            return super()._search(problem, grid, grams, splits, watched, scorer, progress)

    model = Watching(15, cv=2).fit(X, y, task=task)
    scores = np.concatenate([model.cv_results_[f"split{f}_test_score"] for f in range(2)])
    assert len(seen) == 2
    told = [one for errors in seen.values() for one in errors]
    assert len({finished for _, finished in told}) == 2
    for error, finished in told:
        assert np.isclose(-error, scores, rtol=1e-9).any() == finished  # only what is finished has a score
