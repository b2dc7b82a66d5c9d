"""Stability selection against refits on explicit rows; bootstrap intervals against plain least squares."""

import numpy as np
import pandas as pd
import pytest
from oracles import random_tasks
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from msmtfl import (
    L12MTL,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    LassoMTL,
    LassoMTLCV,
    MSMTFLClassifier,
    SharedMTL,
    bootstrap_intervals,
    stability_selection,
    stack_tasks,
)
from msmtfl._data.tasks import read_training
from msmtfl._objective.losses import loss_named
from msmtfl.inference import draw_halves
from msmtfl.inference.stability_bounds import KINDS, false_selections, r_concave_tail

X, y, TASK = stack_tasks(*random_tasks(0, m=3, n=[24, 31, 40], d=10, active=3), labels=["a", "b", "c"])
WEIGHT = np.random.default_rng(1).uniform(0.5, 2.0, len(y))


def easy(seed=0, noise=0.3):
    """Two tasks of 60 rows; features 0 and 1 of 20 matter in both."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((120, 20))
    return X, X[:, 0] - X[:, 1] + noise * rng.standard_normal(120), np.repeat(["a", "b"], 60)


# ------------------------------------------------------------------ halves of the rows

SCATTERED = np.where(np.random.default_rng(0).random((40, 12)) < 0.3, np.nan, 1.0)
HALVED = {
    "labels": (read_training(X, y, task=TASK), None),
    "nested groups": (
        read_training(X, y, task=TASK),
        np.arange(len(y)) // 3 + 100 * np.unique(TASK, return_inverse=True)[1],
    ),
    "groups of all sizes": (read_training(X, y, task=TASK), np.repeat(np.arange(16), np.arange(16))[: len(y)]),
    "a 2-D y with scattered holes": (read_training(np.ones((40, 1)), SCATTERED), None),
}


@pytest.mark.parametrize("form", HALVED)
def test_halves_are_complementary_and_random(form):
    data, groups = HALVED[form]
    halves = np.array(draw_halves(data, groups, 200, np.random.RandomState(0)))
    assert np.array_equal(halves[::2], ~halves[1::2])
    unit = np.arange(len(data.X)) if groups is None else np.unique(groups, return_inverse=True)[1]
    of_unit = halves[:, np.unique(unit, return_index=True)[1]]
    assert np.array_equal(halves, of_unit[:, unit])  # groups stay together
    for task in data.tasks:
        share = halves[:, task.rows].mean(axis=1)
        assert share.min() > 0
        if form == "labels":
            assert np.abs(share * len(task.rows) - len(task.rows) / 2).max() <= 0.5
    assert len(np.unique(halves, axis=0)) > 200
    together = (of_unit[::2, :, None] == of_unit[::2, None, :]).mean(axis=0)[~np.eye(of_unit.shape[1], dtype=bool)]
    assert np.all(np.abs(np.quantile(together, [0.05, 0.95]) - 0.5) < 0.2)


# ------------------------------------------------------------------ stability selection

MODELS = {
    "msmtfl": (MSMTFL(theta="adaptive", standardize=True), WEIGHT),
    "lasso": (LassoMTL(lam=0.1, positive=True, fit_intercept=False), None),
    "msmtfl, cv": (MSMTFLCV(lams=8, cv=3, theta_ratios=[2, 8]), WEIGHT),
    "lasso, cv": (LassoMTLCV(lams=8, selection="1se"), None),
}


@pytest.mark.parametrize("name", MODELS)
def test_frequencies_are_those_of_refits_on_the_rows(name):
    model, weight = MODELS[name]
    stability = stability_selection(model, X, y, task=TASK, sample_weight=weight, n_pairs=3, random_state=5)
    refit = clone(model)
    if name.endswith("cv"):
        refit = LassoMTL() if name.startswith("lasso") else MSMTFL()
    refit.set_params(lam=stability.lam, **({"theta": stability.theta} if isinstance(refit, MSMTFL) else {}))
    cells = []
    for half in draw_halves(read_training(X, y, task=TASK), None, 3, np.random.RandomState(5)):
        of_half = None if weight is None else weight[half]
        cells.append(refit.fit(X[half], y[half], task=TASK[half], sample_weight=of_half).coef_ != 0)
    np.testing.assert_array_equal(stability.frequency, np.mean(cells, axis=0))
    np.testing.assert_array_equal(stability.row_frequency, np.any(cells, axis=1).mean(axis=0))
    assert stability.q == pytest.approx(np.sum(cells, axis=(1, 2)).mean())
    assert stability.n_cells == 30


def test_reproducible_whatever_the_threads():
    once, again, threads, other = (
        stability_selection(MSMTFL(), X, y, task=TASK, n_pairs=8, random_state=seed, n_jobs=n_jobs).frequency
        for seed, n_jobs in ((0, 1), (0, None), (0, 2), (1, None))
    )
    assert np.array_equal(once, again)
    assert np.array_equal(once, threads)
    assert not np.array_equal(once, other)


def test_all_forms_agree():
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)]).assign(school=TASK)
    labels = stability_selection(MSMTFL(), X, y, task=TASK, n_pairs=4)
    column = stability_selection(MSMTFL(task_column="school"), table, y, n_pairs=4)
    assert np.array_equal(labels.frequency, column.frequency)
    # a row of a 2-D y is a group of the stacked rows
    Y = np.column_stack([y[:40], y[40:80], y[10:50]])
    Y[[3, 17, 18], [0, 2, 2]] = np.nan
    i, row = np.nonzero(~np.isnan(Y.T))
    wide = stability_selection(MSMTFL(), X[:40], Y, n_pairs=4)
    stacked = stability_selection(MSMTFL(), X[row], Y[row, i], task=i, groups=row, n_pairs=4)
    assert np.array_equal(wide.frequency, stacked.frequency)
    single = stability_selection(MSMTFL(), X[:40], Y[:, 1], n_pairs=4)
    assert np.array_equal(single.frequency, stability_selection(MSMTFL(), X[:40], Y[:, [1]], n_pairs=4).frequency)


def test_strong_features_are_stable_and_noise_is_not():
    X, y, task = easy()
    stability = stability_selection(LassoMTL(lam=0.3), X, y, task=task, n_pairs=25)
    assert np.all(stability.frequency[:, :2] == 1.0)
    assert stability.frequency[:, 2:].mean() < 0.05
    assert np.array_equal(stability.selected(), np.arange(20) < 2 * np.ones((2, 1)))
    assert str(stability).splitlines()[:2] == [
        "4 of 40 cells (task, feature) selected in at least 75 % of 50 half-samples",
        "features: 'x0', 'x1'",
    ]
    table = stability.to_frame()
    assert list(table.columns) == ["task", "feature", "frequency", "selected", "feature_frequency"]
    np.testing.assert_array_equal(table["feature_frequency"], np.tile(stability.row_frequency, 2))
    assert table.query("selected")[["task", "feature"]].to_numpy().tolist() == [
        [t, f] for t in "ab" for f in ("x0", "x1")
    ]


def test_the_bound_counts_the_cells_subject_to_selection():
    X, y, task = easy()
    X = np.column_stack([X, np.ones(120)])
    factors = np.ones((21, 2))
    factors[5], factors[6, 0] = 0.0, np.inf
    stability = stability_selection(
        LassoMTL(lam=0.2, penalty_factors=factors), X, y, task=task, n_pairs=5, threshold=0.9
    )
    assert stability.n_cells == 42 - 2 - 2 - 1  # constant, free, excluded
    assert np.all(stability.frequency[:, 5] == 1.0)
    assert stability.q == pytest.approx(stability.frequency.sum() - 2)
    candidates = np.ones((2, 21), dtype=bool)
    candidates[:, [5, 20]], candidates[0, 6] = False, False
    q = (stability.frequency * candidates).sum(axis=1)
    assert stability.error_bound() == pytest.approx((q**2 / [18, 19]).sum() / 0.8)  # the sum of the tasks' bounds
    assert stability.error_bound(1.0) == pytest.approx((q**2 / [18, 19]).sum())
    features = np.delete(np.arange(21), [5, 20])
    bound = stability.row_frequency[features].sum() ** 2 / (0.8 * 19)
    assert stability.error_bound(of="features") == pytest.approx(bound)


@pytest.mark.slow
def test_on_pure_noise_the_bound_holds():
    selected, bounds = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y, task = rng.standard_normal((80, 30)), rng.standard_normal(80), np.repeat([0, 1], 40)
        stability = stability_selection(LassoMTL(lam=0.22), X, y, task=task, n_pairs=20, threshold=0.6)
        selected.append(stability.selected().sum())
        bounds.append(stability.error_bound())
    assert 0.5 < np.mean(bounds) < 15  # neither nothing nor everything is selected
    assert np.mean(selected) <= np.mean(bounds)


def in_half_of_the_tasks(seed, m=6, n=40, d=60):
    """Three features of 60 have an effect in half of the tasks; one task has four times the noise."""
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    W = np.zeros((m, d))
    W[: m // 2, :3] = 2.0
    noise = np.where(task == m - 1, 2.0, 0.5)
    return X, (X * W[task]).sum(axis=1) + noise * rng.standard_normal(m * n), task, W


FAMILIES = {
    "lasso": LassoMTL(0.12),
    "capped lassos": MSMTFL(0.0, lam_entry=0.12, theta_entry=0.5),
    "dirty, as the lasso": DirtyMTL(0.12, 0.72),
    "msmtfl": MSMTFL(0.12, 1.5),
    "bi-level": MSMTFL(0.1, 1.5, lam_entry=0.02, theta_entry=0.3),
    "l12": L12MTL(0.5),
    "dirty": DirtyMTL(0.12, 0.4),
    "shared": SharedMTL(0.4, 0.12, 1.5),
}


@pytest.mark.parametrize("signal", [True, False], ids=["signal", "noise"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.slow
@pytest.mark.sampled(4)
def test_false_selections_stay_below_the_bound_that_is_printed(family, signal):
    false, bounds = [], []
    for seed in range(2):
        X, y, task, W = in_half_of_the_tasks(seed)
        if not signal:
            y, W = y - (X * W[task]).sum(axis=1), 0 * W
        found = stability_selection(FAMILIES[family], X, y, task=task, n_pairs=8, threshold=0.7)
        cells = found.selected() & (W == 0)
        false.append(cells.sum() if found.separate else (found.selected_features() & ~W.any(axis=0)).sum())
        bounds.append(found.error_bound())
    assert found.separate == (family in list(FAMILIES)[:3])
    assert np.mean(false) <= np.mean(bounds)


@pytest.mark.parametrize("family", ["msmtfl", "l12", "shared"])
def test_models_that_select_features_have_no_bound_on_cells(family):
    X, y, task, W = in_half_of_the_tasks(0)
    found = stability_selection(FAMILIES[family], X, y, task=task, n_pairs=10, threshold=0.9)
    false = (found.selected() & (W == 0)).sum()
    assert false >= 9  # of the tasks that come along
    assert false > 1.5 * found.q**2 / (0.8 * found.n_cells)  # what would be a bound if cells were alike
    assert found.features[found.selected_features()].tolist() == ["x0", "x1", "x2"]
    with pytest.raises(ValueError, match="no bound on false cells where tasks are selected together"):
        found.error_bound(of="cells")
    text = str(found)
    assert text.startswith("3 of 60 features selected in at least 90 % of 20 half-samples: 'x0', 'x1', 'x2'\n")
    assert "false features, which no task should use: at most" in text
    assert "which of them need a feature is not tested" in text


def test_a_noisy_task_counts_by_itself():
    """All false cells are those of one task of ten: over all cells together they seem rare."""
    false, over_all, bounds = [], [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, task = rng.standard_normal((400, 20)), np.repeat(np.arange(10), 40)
        y = np.where(task == 0, 3.0, 0.3) * rng.standard_normal(400)
        found = stability_selection(LassoMTL(0.12), X, y, task=task, n_pairs=10, threshold=0.6)
        false.append(found.selected().sum())
        over_all.append(found.q**2 / (0.2 * 200))
        bounds.append(found.error_bound())
    assert np.mean(over_all) < np.mean(false) <= np.mean(bounds)


def test_the_output_says_what_the_bound_supposes():
    X, y, task = easy()
    given = str(stability_selection(LassoMTL(lam=0.3), X, y, task=task, n_pairs=5))
    assert "if all false cells are as likely to be selected" in given
    assert given.endswith("and lam was not chosen on these rows")
    # large shares of lam_max, so that there is a bound
    cases = {
        "LassoMTLCV chose the strengths of the penalty on all of them": LassoMTLCV(lams=[0.3, 0.31], cv=3),
        "theta by default, from all of them": MSMTFL(lam=0.3),
        "theta by default, from all of them ": MSMTFL(lam=0.3, theta="adaptive"),
    }
    for said, model in cases.items():
        assert f"HERE IT WAS, {said.strip()}" in str(stability_selection(model, X, y, task=task, n_pairs=5))
    taken = {
        "lam": LassoMTL(),
        "lam and theta": MSMTFL(),
        "lam_s and lam_b": DirtyMTL(),
        "lam_common and lam_deviation": SharedMTL(),
    }
    for names, model in taken.items():
        found = stability_selection(model, X, y, task=task, n_pairs=2)
        assert found.of_these_rows == f"{names} by default, from all of them"
    assert stability_selection(DirtyMTL(lam_s=0.3), X, y, task=task, n_pairs=2).of_these_rows == ""
    assert "no useful bound on false cells" in str(stability_selection(LassoMTL(0.001), X, y, task=task, n_pairs=5))


# ------------------------------------------------------------------ bounds, grids of lam, classes


@pytest.mark.parametrize(
    ("mean", "tau", "B", "r"), [(0.1, 0.6, 10, -0.5), (0.1, 0.7, 20, -0.25), (0.2, 0.6, 12, -0.25)]
)
def test_no_r_concave_distribution_has_a_heavier_tail(mean, tau, B, r):
    bound, T, i = r_concave_tail(mean, tau, B, r), int(np.ceil(tau * B - 1e-9)), np.arange(B + 1)
    rng, heaviest = np.random.default_rng(0), 0.0
    for _ in range(3000):
        convex = np.max(rng.exponential(10.0, (2, 1)) + rng.normal(size=(2, 1)) * rng.choice([0.1, 1, 5]) * i, axis=0)
        k = rng.integers(T, B + 1)
        if convex[: k + 1].min() <= 1e-3:
            continue
        f = np.where(i <= k, np.maximum(convex, 1e-3) ** (1 / r), 0.0)
        f[k] *= rng.random()
        f /= f.sum()
        if i @ f / B <= mean:
            heaviest = max(heaviest, f[T:].sum())
    assert 0.5 * bound < heaviest <= bound


def test_sharper_bounds_are_those_of_the_formulas():
    assert false_selections(5, 100, 0.6, 50) == pytest.approx(1.25)
    assert false_selections(5, 100, 0.6, 50, "unimodal") == pytest.approx(0.25 / (2 * (0.2 - 0.01)))
    assert false_selections(5, 100, 0.9, 50, "unimodal") == pytest.approx(0.25 * 4 * 0.11 / 1.02)
    assert np.isnan(false_selections(70, 100, 0.9, 50, "unimodal"))
    for tau in (0.6, 0.75, 0.9):
        crude, unimodal, concave = (false_selections(5, 100, tau, 50, kind) for kind in KINDS)
        assert concave < unimodal < crude
    assert false_selections(0, 10, 0.9, 50, "r-concave") == false_selections(0, 0, 0.9, 50) == 0.0


def test_the_sharper_bounds_are_printed_beside_the_crude_one():
    X, y, task = easy()
    found = stability_selection(LassoMTL(lam=0.3), X, y, task=task, n_pairs=10)
    shown = [f"{found.error_bound(kind=kind):.2g} ({kind})" for kind in KINDS]
    assert f"false cells: at most {', '.join(shown)} of these on average" in str(found)
    with pytest.raises(ValueError, match="kind must be one of 'crude', 'unimodal', 'r-concave'"):
        found.error_bound(kind="sharp")


@pytest.mark.parametrize("model", [LassoMTL(), L12MTL(), SharedMTL(0.3, 0.2), DirtyMTL(0.2, 0.3)])
def test_a_grid_of_lams_counts_the_most_frequent_and_pays_for_all(model):
    X, y, task = easy()
    main = {SharedMTL: "lam_deviation", DirtyMTL: "lam_b"}.get(type(model), "lam")
    lams = [0.15, 0.3]
    grid = stability_selection(model, X, y, task=task, n_pairs=4, lams=lams)
    alone = [
        stability_selection(clone(model).set_params(**{main: lam}), X, y, task=task, n_pairs=4, random_state=0)
        for lam in lams
    ]
    np.testing.assert_array_equal(grid.frequency, np.maximum(alone[0].frequency, alone[1].frequency))
    np.testing.assert_array_equal(grid.row_frequency, np.maximum(alone[0].row_frequency, alone[1].row_frequency))
    assert (grid.at_any_lam >= grid.frequency).all()
    assert grid.q >= max(one.q for one in alone)
    assert grid.error_bound() >= max(one.error_bound() for one in alone)
    assert grid.lams.tolist() == [0.3, 0.15]
    assert grid.of_these_rows == ""


@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers_are_taken_and_every_half_has_every_class(classes):
    X, y, task = easy(noise=0.1)
    y = np.digitize(y, [0.0] if classes == 2 else [-0.7, 0.7])
    rare = np.flatnonzero(y == 0)
    y[rare[2:]] = 1  # two samples of a class in one task
    y[np.flatnonzero(task == "b")[:2]] = 0
    model = MSMTFLClassifier(0.03, np.inf)
    found = stability_selection(model, X, y, task=task, n_pairs=3, random_state=2)
    assert found.frequency.shape == found.candidates.shape == (2, 20)
    assert found.tasks.tolist() == ["a", "b"]
    halves = draw_halves(
        model._make_problem(X, y, task, None).data, None, 3, np.random.RandomState(2), loss_named("logistic")
    )
    cells = []
    for half in halves:
        W = model.fit(X[half], y[half], task=task[half]).coef_ != 0
        cells.append(W if classes == 2 else W.any(axis=1))
    np.testing.assert_array_equal(found.frequency, np.mean(cells, axis=0))


# ------------------------------------------------------------------ bootstrap intervals


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"standardize": True}])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_estimate_and_intervals_are_those_of_least_squares(options, weight):
    model = LassoMTL(lam=0.2, **options).fit(X + 3.0, y, task=TASK, sample_weight=weight)
    intervals = bootstrap_intervals(model, X + 3.0, y, task=TASK, sample_weight=weight, n_boot=50, random_state=3)
    relaxed = clone(model).set_params(relax=True).fit(X + 3.0, y, task=TASK, sample_weight=weight)
    np.testing.assert_allclose(intervals.estimate, relaxed.coef_, rtol=0, atol=1e-10)
    seeds = np.random.RandomState(3).randint(np.iinfo(np.int32).max, size=3)
    for i, label in enumerate("abc"):
        rows, S = np.flatnonzero(np.equal(TASK, label)), np.flatnonzero(model.coef_[i])
        Z = np.column_stack([X[np.ix_(rows, S)] + 3.0, np.full(len(rows), float(model.fit_intercept))])
        root = np.ones(len(rows)) if weight is None else np.sqrt(weight[rows])
        drawn = np.random.default_rng(seeds[i]).integers(len(rows), size=(50, len(rows)))
        fits = [np.linalg.lstsq(root[r, None] * Z[r], root[r] * y[rows][r], rcond=None)[0][: len(S)] for r in drawn]
        ends = np.quantile(fits, [0.025, 0.975], axis=0)
        np.testing.assert_allclose([intervals.lower[i, S], intervals.upper[i, S]], ends, atol=1e-10)
    assert np.array_equal(np.isnan(intervals.lower), model.coef_ == 0)
    assert np.array_equal(intervals.n_used, [50, 50, 50])


@pytest.mark.slow
def test_intervals_cover_where_the_support_is_known():
    rng = np.random.default_rng(0)
    m, n, truth = 120, 60, np.array([1.0, -2.0, 0.0, 0.5])
    X = rng.standard_normal((m * n, 6))
    y, task = X[:, :4] @ truth + 1.0 + rng.standard_normal(m * n), np.repeat(np.arange(m), n)
    model = LassoMTL(1.0, penalty_factors=[0, 0, 0, 0, np.inf, np.inf]).fit(X, y, task=task)
    intervals = bootstrap_intervals(model, X, y, task=task, n_boot=400, level=0.95, n_jobs=2)
    covered = (intervals.lower[:, :4] <= truth) & (truth <= intervals.upper[:, :4])
    assert 0.9 < covered.mean() < 0.99
    alone = bootstrap_intervals(model, X, y, task=task, n_boot=400)
    assert np.array_equal(alone.lower, intervals.lower, equal_nan=True)
    assert np.array_equal(alone.upper, intervals.upper, equal_nan=True)


def test_the_fit_is_left_as_it_was_and_other_rows_are_welcome():
    model = MSMTFL(0.2, task_column=-1).fit(np.column_stack([X, TASK]).astype(object), y)
    before = dict(vars(model))
    other = np.arange(len(y)) % 2 == 0
    intervals = bootstrap_intervals(model, np.column_stack([X, TASK]).astype(object)[other], y[other], n_boot=40)
    assert vars(model) == before
    table = intervals.to_frame()
    assert list(table.columns) == ["task", "feature", "coef", "estimate", "lower", "upper", "selected_on"]
    assert len(table) == np.count_nonzero(model.coef_)
    assert (table["lower"] < table["upper"]).all()
    np.testing.assert_array_equal(table["coef"], model.coef_[model.coef_ != 0])
    assert "CONDITIONAL ON SELECTION" in str(intervals)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
def test_the_output_says_whether_these_rows_selected_the_features(weight):
    model = LassoMTL(lam=0.2).fit(X, y, task=TASK, sample_weight=weight)
    same = bootstrap_intervals(model, X, y, task=TASK, sample_weight=weight, n_boot=40)
    assert same.same_rows
    assert "NOT INTERVALS FOR EFFECTS: these rows have selected the features" in str(same)
    assert set(same.to_frame()["selected_on"]) == {"these rows"}
    assert "not the model's own" in str(same)
    assert np.abs(same.coef - same.estimate).max() > 0.05  # that is why both are shown
    half = np.arange(len(y)) % 2 == 0
    new = bootstrap_intervals(model, X[half], y[half], task=np.asarray(TASK)[half], n_boot=40)
    assert not new.same_rows
    assert "selected on other rows" in str(new)
    assert "NOT INTERVALS" not in str(new)
    assert set(new.to_frame()["selected_on"]) == {"other rows"}


def test_intervals_cover_on_other_rows_and_not_on_those_of_the_fit():
    """Features without effect that were selected: how many of their 95 % intervals hold 0?"""
    covered = {True: [], False: []}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, task = rng.standard_normal((800, 30)), np.tile(np.arange(4), 200)
        y = X[:, 0] + rng.standard_normal(800)
        first = np.arange(800) < 400
        model = LassoMTL(0.06).fit(X[first], y[first], task=task[first])
        for rows in (first, ~first):
            found = bootstrap_intervals(model, X[rows], y[rows], task=task[rows], n_boot=200)
            null = found.support & (np.arange(30) > 0)
            covered[found.same_rows] += ((found.lower <= 0) & (found.upper >= 0))[null].tolist()
    assert len(covered[True]) > 100
    assert np.mean(covered[True]) < 0.8
    assert np.mean(covered[False]) > 0.9


def test_large_problems_are_done_in_pieces(monkeypatch):
    model = LassoMTL(lam=0.2).fit(X, y, task=TASK)
    whole = bootstrap_intervals(model, X, y, task=TASK, n_boot=60)
    monkeypatch.setattr("msmtfl.inference.bootstrap.AT_ONCE", 300)
    pieces = bootstrap_intervals(model, X, y, task=TASK, n_boot=60)
    np.testing.assert_allclose(pieces.lower, whole.lower, rtol=1e-10)


def test_tasks_that_cannot_be_estimated_have_no_intervals():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((105, 8))
    X[:30, 3] = X[:30, 2]  # "copies"
    X[76, 0], X[77:91, 0] = 5.0, 0.0  # "rare": one row decides on feature 0
    task = np.repeat(["copies", "empty", "good", "rare", "small", "tight"], [30, 16, 30, 15, 5, 9])
    y = X[:, :4].sum(axis=1) + 0.1 * rng.standard_normal(105)
    factors = np.zeros((8, 6))
    factors[4:, [0, 2, 3, 5]] = np.inf
    factors[:, 1] = np.inf
    model = LassoMTL(1.0, penalty_factors=factors)
    with pytest.warns(UserWarning, match="un-penalised"):
        model.fit(X, y, task=task)
    with pytest.warns(UserWarning, match=r"no intervals for task\(s\) 'copies', 'small': .*Raise lam"):
        intervals = bootstrap_intervals(model, X, y, task=task, n_boot=200)
    copies, empty, good, rare, small, tight = intervals.n_used
    assert (copies, empty, good, small) == (0, 200, 200, 0)
    assert 100 < rare < 150  # the row is drawn in 64 % of the resamples
    assert 100 < tight < 200  # five columns, nine rows
    assert np.isfinite(intervals.lower).sum(axis=1).tolist() == [0, 0, 4, 4, 0, 4]
    assert np.isfinite(intervals.estimate).all()


# ------------------------------------------------------------------ bad input

FITTED = LassoMTL(lam=0.2).fit(X, y, task=TASK)
ERRORS = {
    "no pairs": (lambda: stability_selection(MSMTFL(), X, y, n_pairs=0), "n_pairs must be at least 1"),
    "threshold": (lambda: stability_selection(MSMTFL(), X, y, threshold=0.5), r"in \(0.5, 1\].*got 0.5"),
    "threshold of the bound": (lambda: stability_selection(MSMTFL(), X, y, n_pairs=1).error_bound(1.1), "got 1.1"),
    "groups": (lambda: stability_selection(MSMTFL(), X, y, groups=[1, 2]), "groups has 2 entries but X has 95 rows"),
    "one of a class": (
        lambda: stability_selection(MSMTFLClassifier(0.1), X, np.isin(np.arange(95), [0, 30, 31, 70, 71]), task=TASK),
        r"task 'a' has 1 row\(s\) of one class, too few to have some in both halves",
    ),
    "lams of a search": (
        lambda: stability_selection(MSMTFLCV(), X, y, lams=[1.0]),
        r"MSMTFLCV chooses them on these samples. Give MSMTFL\(\)",
    ),
    "lams": (lambda: stability_selection(MSMTFL(), X, y, lams=[-1.0]), "lams must be one or more numbers above 0"),
    "one group": (
        lambda: stability_selection(MSMTFL(), X, y, task=TASK, groups=TASK),
        r"task 'a' has 1 group\(s\), too few",
    ),
    "unfitted": (lambda: bootstrap_intervals(MSMTFL(), X, y), "not fitted yet"),
    "other tasks": (
        lambda: bootstrap_intervals(FITTED, X, y),
        "the tasks are not those .*fitted: 'a', 'b', 'c'; given: 0",
    ),
    "other features": (
        lambda: bootstrap_intervals(FITTED, X[:, :2], y, task=TASK),
        "the features are not those .*given: 'x0', 'x1'",
    ),
    "few resamples": (lambda: bootstrap_intervals(FITTED, X, y, n_boot=39), "n_boot=39 is too small .* at least 40"),
    "level": (lambda: bootstrap_intervals(FITTED, X, y, level=95), "level must lie between 0 and 1.*0.95"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_to_do(case):
    call, message = ERRORS[case]
    with pytest.raises((ValueError, NotFittedError), match=message):
        call()


def test_a_task_with_one_row_cannot_be_halved():
    task = np.append(TASK[:-1], "d")
    with (
        pytest.warns(UserWarning, match="single row"),
        pytest.raises(ValueError, match=r"task 'd' has 1 row\(s\).*Leave it"),
    ):
        stability_selection(MSMTFL(lam=0.5, theta=np.inf), X, y, task=task)


@pytest.mark.parametrize("call", [stability_selection, bootstrap_intervals])
def test_only_estimators_of_the_package(call):
    with pytest.raises(TypeError, match=r"such as MSMTFL.*Pipeline.*last step"):
        call(make_pipeline(MSMTFL()), X, y)
