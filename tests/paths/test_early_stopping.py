"""Searches end where held-out errors have turned: the rule, what it leaves out, and that nothing else is chosen."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from msmtfl import L12MTLCV, MSMTFLCV, DirtyMTLCV, LassoMTLCV, MSMTFLClassifierCV, SharedMTLCV, regularization_surface
from msmtfl._paths.early_stopping import IN_A_ROW, RISES, Front, as_if_ended, near_best, turned
from msmtfl._paths.families.coupled_path import DirtyGrid, RowPaths
from msmtfl._paths.solutions import NotSolvedError
from msmtfl._paths.validation.errors import HeldOut
from msmtfl._solvers.coupled.rows.coupled_rows import CoupledRows


def noisy(m=3, n=25, d=60, seed=0):
    """Tasks with more, and correlated, features than rows, little to find and much noise: errors turn early."""
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)) + 3 * rng.standard_normal((m * n, 1)), np.repeat(np.arange(m), n)
    return X, X[:, 0] - X[:, 1] + 2 * rng.standard_normal(m * n), task


SEARCHES = [
    LassoMTLCV(20, cv=3),
    MSMTFLCV(20, cv=3),
    MSMTFLCV(20, theta_ratios=[4.0], cv=3),
    L12MTLCV(15, cv=3),
    DirtyMTLCV(10, ratios=[0.5, 0.2], cv=3),
    SharedMTLCV(12, ratios=[0.5, 1.0], cv=3),
]
NAMES = ["lasso", "msmtfl", "without a lasso", "l12", "dirty", "shared"]


# ------------------------------------------------------------------ the rule

LAMS = 0.7 ** np.arange(12)  # three points are a factor of 2.9


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([1.0, 0.9, 0.8], False),  # they fall
        ([1.0, 0.8, 0.81, 0.82], False),  # not for long enough
        ([1.0, 0.8, 0.81, 0.81, 0.81], True),
        ([1.0, 0.8, 0.803, 0.803, 0.803, 0.803], False),  # flat: within half a per cent
        ([1.0, 0.8, 0.81, 0.82, 0.803, 0.81], False),  # and back
        ([1.0, 0.8, np.nan, np.nan, np.nan], True),
        ([np.nan, np.nan, np.nan, np.nan], False),  # nothing is known
        ([1.0, 0.98, 1.03, 1.03, 1.03, 1.03], False),  # nothing has been found yet
        ([1.0, 0.98, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2], True),
        ([0.0, 0.0, 0.0, 0.0, 0.0], False),
    ],
)
def test_when_a_column_has_turned(errors, expected):
    assert turned(np.array(errors), LAMS[: len(errors)]) is expected


def test_points_that_lie_close_together_do_not_end_a_column_unless_errors_rise_steeply():
    errors, lams = np.array([1.0, 0.8, 0.81, 0.81, 0.812, 0.81]), 0.95 ** np.arange(6)
    assert not turned(errors, lams)
    assert turned(errors, lams**5)
    assert turned(np.array([1.0, 0.8, 0.803, 0.81, 0.82]), lams[:5])  # from point to point, to more than one per cent
    two = np.array([1.0, 0.8, 0.803, 0.81])
    assert turned(two, lams[:4], convex=True)  # where errors go smoothly, two such points will do
    assert not turned(two, lams[:4])
    assert not turned(np.array([1.0, 0.8, 0.803, 0.807]), lams[:4], convex=True)


def front(columns=3, leader=None, block=1, K=12, early=True, convex=False):
    leader = np.arange(columns) if leader is None else leader
    return Front(np.repeat(LAMS[:K, None], columns, axis=1), leader, block, early, np.full(columns, convex))


def run(one, errors):
    """Go down a grid of errors (K, L); the ends of its columns."""
    while one.ahead():
        one.told(errors[None])
    return one.ends.tolist()


def errors_with_best_at(*best, K=12):
    k = np.arange(K)[:, None]
    return 1.0 + 0.1 * np.abs(k - np.array(best)) + 0.3 * (k == 0)


def test_every_column_ends_by_itself():
    assert run(front(), errors_with_best_at(4, 6, 11)) == [4 + IN_A_ROW + 1, 6 + IN_A_ROW + 1, 12]
    assert run(front(convex=True), errors_with_best_at(4, 6, 11)) == [4 + RISES + 1, 6 + RISES + 1, 12]
    assert run(front(early=False), errors_with_best_at(4, 6, 11)) == [12, 12, 12]


def test_columns_go_no_further_than_those_that_lead_them():
    leads = np.array([1, 1, 2])
    assert run(front(leader=leads), errors_with_best_at(11, 5, 2)) == [9, 9, 6]
    assert run(front(leader=leads), errors_with_best_at(4, 6, 2)) == [8, 10, 6]  # and may end before


def test_a_best_point_near_the_end_opens_its_columns_again():
    errors, one = errors_with_best_at(11, 5, K=12), front(2, np.array([1, 1]))
    assert run(one, errors) == [9, 9]
    errors[:, 1] += 1.0
    seen = np.where(one.asked, errors, np.nan)[None]
    assert one.go_on(seen)
    assert run(one, errors) == [12, 10]  # the one that leads has turned, and ends at once
    assert not front(early=False).go_on(errors_with_best_at(0, 0, 0)[None])


def test_lams_in_any_order():
    order = np.random.default_rng(0).permutation(12)
    one = Front(LAMS[order, None], np.array([0]), 1)
    errors = errors_with_best_at(3)[order]
    assert run(one, errors) == [3 + RISES + 1]
    np.testing.assert_array_equal(np.sort(LAMS[order][one.asked[:, 0]])[::-1], LAMS[:6])


def test_errors_known_in_advance_are_cut_as_a_search_would_have():
    errors = np.stack([errors_with_best_at(4, 6, 11)] * 2)[:, None]  # (folds, m, K, L)
    problem = type("P", (), {"data": type("D", (), {"targets": [type("T", (), {"variance": 1.0, "square": 1.0})]})})
    held = as_if_ended(HeldOut(errors, np.ones((2, 1)), None, np.ones((2, 12, 3), bool)), front(), problem, "neg_mse")
    np.testing.assert_array_equal(held.reached.sum(axis=1), [[8, 10, 12]] * 2)
    assert not held.complete[~held.reached].any()


def test_points_near_the_best():
    errors = np.array([[1.0, 2.0, 1.04, np.nan], [1.0, 2.0, 1.04, np.nan]])[:, :, None]
    assert near_best(errors)[:, 0].tolist() == [True, False, True, False]
    assert not near_best(np.full((2, 3, 1), np.nan)).any()


# ------------------------------------------------------------------ searches


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES, ids=NAMES)
@pytest.mark.sampled(2)
def test_the_choice_is_that_of_the_whole_grid(search):
    X, y, task = noisy()
    early, whole = clone(search), clone(search)
    whole._ends_early = False
    early.fit(X, y, task=task)
    whole.fit(X, y, task=task)
    reached = early.surface_.reached
    assert not reached.all()  # there was something to save
    assert whole.surface_.reached.all()
    assert early.best_point_ == whole.best_point_
    np.testing.assert_allclose(early.coef_, whole.coef_, atol=1e-9)
    assert early.best_score_ == pytest.approx(whole.best_score_, rel=1e-9)
    results, of_all = early.cv_results_, whole.cv_results_
    np.testing.assert_array_equal(results["solved"], reached.ravel())
    assert of_all["solved"].all()
    np.testing.assert_array_equal(np.isnan(results["mean_test_score"]) | of_all["eligible"], True)
    both = results["eligible"] & of_all["eligible"]
    np.testing.assert_allclose(results["mean_test_score"][both], of_all["mean_test_score"][both], rtol=1e-7)
    k, l = np.argwhere(reached)[-1]
    np.testing.assert_allclose(early.surface_.coef(k, l), whole.surface_.coef(k, l), atol=1e-7)
    assert (results["n_rows"][~results["solved"]] == -1).all()


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES, ids=NAMES)
@pytest.mark.sampled(2)
def test_points_left_out_are_said_to_be_and_can_be_had(search):
    X, y, task = noisy()
    model = clone(search).fit(X, y, task=task)
    k, l = np.argwhere(~model.surface_.reached)[0]
    with pytest.raises(NotSolvedError, match=r"was not solved.*complete_surface\(X, y"):
        model.surface_.coef(k, l)
    with pytest.raises(NotSolvedError, match="was not solved"):
        model.surface_.intercept(k, l)
    table = model.surface_.to_dict()
    left_out = ~model.surface_.reached.ravel()
    assert np.isnan(table["dual_gap"][left_out]).all()
    assert np.isnan(table["objective"][left_out]).all()
    assert not table["unique"][left_out].any()
    again = pickle.loads(pickle.dumps(model)).surface_
    np.testing.assert_array_equal(again.reached, model.surface_.reached)
    with pytest.raises(NotSolvedError):
        again.coef(k, l)
    with pytest.raises(ValueError, match="not the samples that the model was fitted to"):
        model.complete_surface(X + 1.0 * X[::-1], y, task=task)
    choice = model.best_point_
    assert model.complete_surface(X, y, task=task) is model
    assert model.surface_.reached.all()
    assert model.best_point_ == choice
    np.testing.assert_allclose(model.surface_.coef(*choice), np.atleast_2d(model.coef_), atol=1e-7)


def test_a_surface_of_the_user_has_all_points():
    X, y, task = noisy()
    assert regularization_surface(X, y, task=task, lams=8, theta_ratios=[4.0, np.inf]).reached.all()


@pytest.mark.parametrize("options", [{"selection": "1se"}, {"selection": "ebic"}, {"scoring": "r2"}], ids=str)
def test_where_all_points_count_all_are_solved(options):
    X, y, task = noisy(d=30)
    assert MSMTFLCV(8, cv=2, **options).fit(X, y, task=task).surface_.reached.all()
    assert L12MTLCV(8, cv=2, **options).fit(X, y, task=task).surface_.reached.all()


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_too(classes):
    X, y, task = noisy(n=40, d=10)
    y = np.searchsorted(np.quantile(y, np.arange(1, classes) / classes), y)
    search = MSMTFLClassifierCV(8, theta_ratios=[8.0, np.inf], cv=2, lam_min_ratio=1e-3)
    whole = clone(search)
    whole._ends_early = False
    search.fit(X, y, task=task)
    whole.fit(X, y, task=task)
    assert not search.surface_.reached.all()
    assert search.best_point_ == whole.best_point_
    assert search.complete_surface(X, y, task=task).surface_.reached.all()


def test_threads_and_progress(capsys, terminal):
    X, y, task = noisy()
    one = MSMTFLCV(20, cv=3, verbose=True).fit(X, y, task=task)
    assert "80/80 lams" in capsys.readouterr().err  # whatever was left out counts as done
    two = MSMTFLCV(20, cv=3, n_jobs=2).fit(X, y, task=task)
    assert one.best_point_ == two.best_point_
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "search", [MSMTFLCV(12), L12MTLCV(8), DirtyMTLCV(6), SharedMTLCV(6)], ids=lambda one: one._step
)
def test_folds_on_threads_change_no_bit(monkeypatch, search):
    """All data and the folds go side by side; none of them has threads of its own."""
    monkeypatch.setattr("msmtfl._estimators.grid_search.WIDE", 0)
    X, y, task = noisy()
    one, two = (clone(search).set_params(cv=3, n_jobs=n_jobs).fit(X, y, task=task) for n_jobs in (None, 2))
    assert one.best_point_ == two.best_point_
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])


@pytest.mark.parametrize(("wide", "expected"), [(256, {None}), (40, {2})])
def test_searches_of_few_features_stay_on_one_thread(monkeypatch, wide, expected):
    """Most of their time is spent in Python, which one thread at a time can run."""
    asked = set()

    def noted(call, items, n_jobs=None, stop=None):
        asked.add(n_jobs)
        return [call(item) for item in items]

    monkeypatch.setattr("msmtfl._paths.early_stopping.each", noted)
    monkeypatch.setattr("msmtfl._estimators.grid_search.WIDE", wide)
    X, y, task = noisy(n=20, d=40)
    MSMTFLCV(6, cv=2, n_jobs=2).fit(X, y, task=task)
    assert asked == expected


def test_points_that_run_out_of_rounds_are_gone_on_with_if_they_matter(monkeypatch):
    """A point near the best is solved for as long as a fit by itself would be."""
    X, y, task = noisy(n=20, d=40)
    search = L12MTLCV(12, cv=2)
    expected = clone(search).fit(X, y, task=task)
    finished, finish = [], RowPaths.finish
    monkeypatch.setattr("msmtfl._paths.families.coupled_path.ROUNDS", 3)
    monkeypatch.setattr(RowPaths, "finish", lambda self, points: finished.append(finish(self, points)) or finished[-1])
    model = clone(search).fit(X, y, task=task)
    assert any(finished)
    assert model.best_point_ == expected.best_point_
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-8)
    assert model.cv_results_["finished"][model.best_index_]


@pytest.mark.slow
def test_dirty_columns_that_have_the_same_minimisers_share_them(monkeypatch):
    rng = np.random.default_rng(5)
    m, n, d = 20, 30, 12
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    W = np.zeros((m, d))
    W[:, :4] = rng.standard_normal(4) + 0.1 * rng.standard_normal((m, 4))
    y = (X * W[task]).sum(axis=1) + rng.standard_normal(m * n)
    solved, solve = [], CoupledRows.solve
    monkeypatch.setattr(
        CoupledRows, "solve", lambda self, *args, **options: solved.append(1) or solve(self, *args, **options)
    )
    shared = DirtyMTLCV(cv=3).fit(X, y, task=task)
    count = len(solved)
    monkeypatch.setattr(DirtyGrid, "twin", lambda self, k, l: None)
    apart = DirtyMTLCV(cv=3).fit(X, y, task=task)
    assert 2 * count < len(solved)
    assert shared.best_point_ == apart.best_point_
    reached = shared.surface_.reached
    np.testing.assert_array_equal(reached, apart.surface_.reached)
    for k, l in np.argwhere(reached).tolist():
        np.testing.assert_allclose(shared.surface_.coef(k, l), apart.surface_.coef(k, l), rtol=0, atol=1e-8)
