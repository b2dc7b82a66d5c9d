"""The work that points of a search get: little where the errors of all folds have long been rising, and no other choice."""

import numpy as np
import pytest

import msmtfl.effort
from msmtfl import L12MTLCV, DirtyMTLCV
from msmtfl.effort import IN_A_ROW, LITTLE, Effort
from msmtfl.surface import Solved


def noisy(m=4, n=25, d=60):
    """Tasks with more, and correlated, features than rows, little to find and much noise: errors turn early."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((m * n, d)) + 3 * rng.standard_normal((m * n, 1)), np.repeat(np.arange(m), n)
    return X, X[:, 0] - X[:, 1] + 2 * rng.standard_normal(m * n), task


def told(effort, errors, rounds=LITTLE):
    """Go down a column with these errors; which points got little effort."""
    out = []
    for k, error in enumerate(errors):
        effort.error = lambda solved, error=error: error
        out.append(effort.at(k, 0) == LITTLE)
        effort.told(k, 0, rounds, None)
    return out


def test_a_fold_gives_up_after_some_points_in_a_row_and_takes_heart_again():
    fold = Effort((9, 1), 300).on_fold(lambda solved: 0.0)
    assert told(fold, [3.0, 1.0, 1.1, 1.04, 1.1, 1.2, 1.3, 0.9, 1.0]) == [False] * 7 + [True, False]
    assert fold.given_up[:, 0].tolist() == [False] * 7 + [True, False]


def test_cheap_points_are_not_even_measured():
    fold = Effort((9, 1), 300).on_fold(lambda solved: 1 / 0)
    assert not any(fold.at(k, 0) == LITTLE or fold.told(k, 0, LITTLE - 1, None) for k in range(9))


def test_all_data_get_little_effort_only_where_every_fold_does():
    effort = Effort((9, 1), 300)
    first, second = effort.on_fold(None), effort.on_fold(None)
    told(first, [1.0] + 8 * [2.0])
    told(second, [1.0, 1.0, 1.0] + 6 * [2.0])
    assert [effort.at(k, 0) for k in range(9)] == (3 + IN_A_ROW) * [300] + (6 - IN_A_ROW) * [LITTLE]
    assert [Effort((9, 1), 300).at(k, 0) for k in range(9)] == 9 * [300]
    assert Effort((1, 1), 5).on_fold(None)._little == 5
    assert Effort((1, 1)).at(0, 0) == 0


@pytest.mark.parametrize(("model", "selection"), [(L12MTLCV, "min"), (L12MTLCV, "1se"), (DirtyMTLCV, "min")])
def test_the_choice_is_that_of_full_effort(monkeypatch, model, selection):
    X, y, task = noisy()
    little = model(cv=3, selection=selection).fit(X, y, task=task)
    monkeypatch.setattr(msmtfl.effort, "IN_A_ROW", 10**9)
    full = model(cv=3, selection=selection).fit(X, y, task=task)
    assert little.surface_.finished.sum() < full.surface_.finished.sum()  # there was something to save
    assert little.best_point_ == full.best_point_
    np.testing.assert_allclose(little.coef_, full.coef_, atol=1e-9)
    both = little.surface_.finished & full.surface_.finished
    k, l = np.argwhere(both)[both.sum() // 2]
    np.testing.assert_allclose(little.surface_.coef(k, l), full.surface_.coef(k, l), atol=1e-7)
    assert little.dual_gap_ <= little.tol
    scores, exact = little.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"]
    near = exact > 1.05 * exact.max()
    np.testing.assert_allclose(scores[near], exact[near], rtol=2e-3)


def test_without_folds_and_with_a_scorer_every_point_is_solved():
    X, y, task = noisy()
    assert L12MTLCV(selection="bic").fit(X, y, task=task).surface_.finished.all()
    assert L12MTLCV(cv=3, scoring="r2").fit(X, y, task=task).surface_.finished.all()


def test_the_error_on_the_way_is_the_score_of_the_search():
    X, y, task = noisy()
    seen = []

    class Watching(L12MTLCV):
        def _search(self, problem, grid, grams, splits, solve, scorer, progress):
            def watched(part, split, effort):
                plain = effort.error
                effort.error = lambda solved: seen.append((len(effort.folds), plain(solved), solved)) or seen[-1][1]
                return solve(part, split, effort=effort)

            return super()._search(problem, grid, grams, splits, watched, scorer, progress)

    model = Watching(cv=3).fit(X, y, task=task)
    scores = np.concatenate([model.cv_results_[f"split{f}_test_score"] for f in range(3)])
    weights = {round(w.sum(), 6) for w in model.cv_results_["test_weight"][0]}
    assert seen
    assert isinstance(seen[0][2], Solved)
    for _, error, _ in seen:  # a sum over the rows held out, not yet divided by how many they are
        assert any(np.isclose(-error / weight, scores, rtol=1e-12).any() for weight in weights)
