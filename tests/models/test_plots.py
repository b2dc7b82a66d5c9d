"""Displays draw the data they should, where they should; what is drawn is read back from matplotlib's artists."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from msmtfl import (
    L12MTL,
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    DirtyMTLCV,
    LassoMTL,
    LassoMTLCV,
    MSMTFLClassifier,
    PartialPoolingCV,
    PretrainedMTLCV,
    RobustMTLCV,
    SharedMTLCV,
    compare_models,
    regularization_surface,
    stability_selection,
)
from msmtfl._estimators.baselines.lasso import PooledLassoCV
from msmtfl._estimators.baselines.ridge import RidgePerTaskCV
from msmtfl._runtime.drawing import (
    BLUE,
    GREY,
    ORANGE,
    apart,
    bulk,
    differences,
    log_edges,
    mark_beyond,
    panels,
    runs,
    shown,
)
from msmtfl.datasets import make_multitask
from msmtfl.model_files import load_model, save_model
from msmtfl.plots import (
    CoefficientMapDisplay,
    GainDisplay,
    PathDisplay,
    RowNormDisplay,
    StabilityMapDisplay,
    StageHistoryDisplay,
    SurfaceDisplay,
    TaskSimilarityDisplay,
)
from msmtfl.plots.views import gain_over_lasso, search_grid, stage_norms
from msmtfl.sharing import sharing_map, task_similarity

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

NASTY = ["cost in $", "$x^2$", "<script>alert(1)</script>", "two\nlines", "_hidden", "a" * 60]
SINGLE = [CoefficientMapDisplay, StageHistoryDisplay, RowNormDisplay, TaskSimilarityDisplay]


@pytest.fixture(autouse=True)
def _drawn_without_trouble():
    """A test's last figure is laid out, which is where matplotlib complains; then all are closed."""
    yield
    if plt.get_fignums():
        plt.figure(plt.get_fignums()[-1]).draw_without_rendering()
    plt.close("all")


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((120, 8)), np.repeat(["north", "south", "west"], 40)
    y = 3 * X[:, 0] - 2 * X[:, 3] + np.where(task == "west", X[:, 5], 0) + 0.3 * rng.standard_normal(120)
    return pd.DataFrame(X, columns=[*NASTY, "plain", "other"]), y, task


@pytest.fixture(scope="module")
def model(sample):
    X, y, task = sample
    return MSMTFL(lam=0.1, theta=2.0).fit(X, y, task=task)


@pytest.fixture(scope="module")
def searched(sample):
    X, y, task = sample
    return MSMTFLCV(lams=12, cv=4).fit(X, y, task=task)


@pytest.fixture(scope="module")
def many():
    """139 tasks, 60 features."""
    X, y, task, _ = make_multitask(m=139, n=12, d=60, zero_entries=0.3, sigma=0.1)
    return LassoMTL(lam=1e-4).fit(X, y, task=task)


def texts(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def cells(display):
    """The values of a heat map (rows, columns) as drawn, NaN where it is blank."""
    return np.ma.filled(np.ma.asarray(display.image_.get_array(), dtype=float), np.nan)


# ------------------------------------------------------------------ maps


def test_coefficient_map_draws_the_coefficients_shared_features_first(model):
    display = CoefficientMapDisplay.from_estimator(model, scale=None)
    found = sharing_map(model)
    order = found.order[found.n_tasks[found.order] > 0]
    expected = model.coef_[:, order].T
    np.testing.assert_array_equal(cells(display), np.where(expected == 0, np.nan, expected))
    assert texts(display.ax_.xaxis) == ["north", "south", "west"]
    assert texts(display.ax_.yaxis)[:2] == [r"● cost in \$", "● two lines"]
    assert np.isnan(cells(display)).any()
    low, high = display.image_.get_clim()
    assert low == -high == -np.abs(model.coef_).max()
    np.testing.assert_allclose(display.image_.cmap(0.5), 1.0, atol=0.01)  # white at 0
    beside = [note.get_text() for note in display.ax_.texts]
    assert beside[0] == "freed"
    assert "exactly 0" in display.colorbar_.ax.get_ylabel()


def test_coefficients_by_row_have_a_largest_of_one(model):
    display = CoefficientMapDisplay.from_estimator(model, scale="row")
    np.testing.assert_allclose(np.nanmax(np.abs(cells(display)), axis=1), 1.0)
    assert "largest of its feature" in display.colorbar_.ax.get_ylabel()
    with pytest.raises(ValueError, match="scale must be 'sd', 'row' or None"):
        CoefficientMapDisplay.from_estimator(model, scale="column")


def test_by_default_effects_of_a_standard_deviation_are_drawn_so_that_units_do_not_matter(sample):
    X, y, task = sample
    units = 10.0 ** np.arange(-4, 4)
    plain, wild = (
        CoefficientMapDisplay.from_estimator(MSMTFL(0.1, 2.0, standardize=True).fit(X * scale, y, task=task))
        for scale in (np.ones(8), units)
    )
    np.testing.assert_allclose(cells(wild), cells(plain), rtol=1e-6)
    own = np.array([np.asarray(X)[task == one].std(axis=0) for one in ("north", "south", "west")])
    fitted = MSMTFL(0.1, 2.0).fit(X, y, task=task)
    np.testing.assert_allclose(fitted.feature_sd_, np.sqrt((own**2).mean(axis=0)))
    assert "per standard deviation" in wild.colorbar_.ax.get_ylabel()


def test_a_few_huge_coefficients_do_not_leave_the_others_white():
    coef = np.full((10, 10), 0.5)
    coef[0, 0] = 100.0
    display = CoefficientMapDisplay(coef, np.arange(10), np.arange(10), np.full(10, "all"), 10, 10).plot()
    assert display.image_.get_clim() == (-0.5, 0.5)
    assert "colours end at 0.50" in display.colorbar_.ax.get_ylabel()
    assert display.colorbar_.extend == "both"
    even = CoefficientMapDisplay(coef.clip(max=1.0), np.arange(10), np.arange(10), np.full(10, "all"), 10, 10).plot()
    assert even.image_.get_clim() == (-1.0, 1.0)
    assert even.colorbar_.extend == "neither"


def test_tasks_are_drawn_in_their_natural_order(sample):
    X, y, task = sample
    labels = np.select([task == "north", task == "south"], ["P10", "P2"], "P1")
    display = CoefficientMapDisplay.from_estimator(LassoMTL(0.1).fit(X, y, task=labels), scale=None)
    assert texts(display.ax_.xaxis) == ["P1", "P2", "P10"]
    fitted = LassoMTL(0.1).fit(X, y, task=labels)
    best = int(np.argmax(np.abs(fitted.coef_).sum(axis=0)))
    drawn = display.coef[:, display.features.tolist().index(fitted.features_[best])]
    np.testing.assert_array_equal(
        drawn, fitted.coef_[[fitted.tasks_.tolist().index(f"P{k}") for k in (1, 2, 10)], best]
    )


def test_displays_are_one_line_when_printed(model, searched):
    for display in (CoefficientMapDisplay.from_estimator(model), SurfaceDisplay.from_estimator(searched)):
        text = repr(display)
        assert "\n" not in text
        assert len(text) < 120
        assert text.startswith(f"<{type(display).__name__}: ")


@pytest.fixture(scope="module")
def of_classes():
    """Two tasks, three classes; the largest coefficient of x0 is that of another class, with another sign, in each task."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 3)), np.repeat(["one", "two"], 30)
    X[:30, 1] = 1.0
    fitted = MSMTFLClassifier(0.5).fit(X, np.array(["a", "b", "c"])[np.arange(60) % 3], task=task)
    coef = np.zeros((2, 3, 3))
    coef[:, 0, 0], coef[1, 1, 0], coef[1, 2, 1] = 1.0, -2.0, 0.5
    fitted.coef_, fitted.row_norms_ = coef, np.abs(coef).sum(axis=(0, 1))
    return fitted


def test_classes_are_drawn_one_by_one_or_as_sizes_without_sign(of_classes):
    display = CoefficientMapDisplay.from_estimator(of_classes, scale=None)
    np.testing.assert_array_equal(cells(display), [[1.0, 3.0], [np.nan, 0.5]])
    assert display.image_.get_clim() == (0.0, 3.0)
    assert "sum of |coefficients| over classes" in display.colorbar_.ax.get_ylabel()
    assert display.ax_.get_title(loc="left").startswith("Coefficients of 2 of 3 features over 3 classes")
    one = CoefficientMapDisplay.from_estimator(of_classes, class_of_interest="b", scale=None)
    np.testing.assert_array_equal(cells(one), [[np.nan, -2.0]])
    assert one.image_.get_clim() == (-2.0, 2.0)
    assert one.ax_.get_title(loc="left").startswith("Coefficients of 1 of 3 features for class b")
    by_row = CoefficientMapDisplay.from_estimator(of_classes, scale="row")
    np.testing.assert_array_equal(np.nanmax(cells(by_row), axis=1), 1.0)
    with pytest.raises(ValueError, match="no class 'd'"):
        CoefficientMapDisplay.from_estimator(of_classes, class_of_interest="d")


def test_a_cross_marks_where_nothing_could_be_learned(of_classes, model):
    display = CoefficientMapDisplay.from_estimator(of_classes)
    np.testing.assert_array_equal(display.crosses_.get_offsets(), [[0.5, 1.5]])  # task one, second feature
    assert "×: constant in the task" in display.colorbar_.ax.get_ylabel()
    assert not hasattr(CoefficientMapDisplay.from_estimator(model), "crosses_")


def test_features_that_could_not_be_learned_are_not_just_unused(sample):
    X, y, task = sample
    level = np.unique(task, return_inverse=True)[1].astype(float)
    with pytest.warns(UserWarning, match="'level' are constant within every task"):
        fitted = LassoMTL(0.1).fit(X.assign(level=level), y, task=task)
    title = CoefficientMapDisplay.from_estimator(fitted).ax_.get_title(loc="left")
    assert title.endswith("the others are unused, 1 of them because it is constant")


def test_of_many_features_the_strongest_are_shown_and_counted(many):
    display = CoefficientMapDisplay.from_estimator(many, max_features=3)
    largest = many.features_[np.argsort(-many.row_norms_)[:3]]
    assert set(texts(display.ax_.yaxis)) == set(largest)
    used = int(many.coef_.any(axis=0).sum())
    assert (
        display.ax_.get_title(loc="left") == f"Coefficients of 3 of 60 features\nthe strongest of {used} that are used"
    )
    assert cells(display).shape == (3, 139)
    assert texts(display.ax_.xaxis) == [str(i) for i in range(139)]
    narrow = CoefficientMapDisplay.from_estimator(many, max_features=3, ax=Figure(figsize=(4, 3)).subplots())
    assert texts(narrow.ax_.xaxis) == []  # letters would be too small to read
    assert narrow.ax_.get_xlabel() == "139 tasks"
    with pytest.raises(ValueError, match="max_features"):
        CoefficientMapDisplay.from_estimator(many, max_features=0)


def test_names_are_shown_as_text(sample):
    X, y, task = sample
    places = np.array(["$\\alpha$", "<b>", "c" * 50])[np.unique(task, return_inverse=True)[1]]
    fitted = MSMTFL(lam=0.001).fit(X, y, task=places)
    display = CoefficientMapDisplay.from_estimator(fitted)
    names = {label.replace("● ", "") for label in texts(display.ax_.yaxis)}
    assert {r"cost in \$", r"\$x^2\$", "<script>alert(1)</script>", "two lines", "_hidden"} <= names
    assert any(name.startswith("a" * 29) and name.endswith("…") for name in names)
    columns = texts(display.ax_.xaxis)
    assert columns == [r"\$\alpha\$", "<b>", "c" * 31 + "…"]
    assert {label.get_rotation() for label in display.ax_.get_xticklabels()} == {90.0}
    TaskSimilarityDisplay.from_estimator(fitted)
    path = PathDisplay.from_surface(regularization_surface(X, y, task=places, lams=5), column=-1)
    assert r"cost in \$" in [note.get_text() for note in path.ax_.texts]


def test_task_similarity_is_drawn_in_clustered_order(many):
    display = TaskSimilarityDisplay.from_estimator(many)
    found = task_similarity(many)
    np.testing.assert_array_equal(cells(display), found.similarity[np.ix_(found.order, found.order)])
    np.testing.assert_array_equal(display.tasks, many.tasks_[found.order])
    assert display.image_.get_clim() == (0.0, 1.0)


def test_stability_map_marks_the_cells_above_the_threshold(sample):
    X, y, task = sample
    stability = stability_selection(LassoMTL(lam=0.2), X, y, task=task, n_pairs=6)
    display = StabilityMapDisplay.from_stability(stability, max_features=4)
    order = np.argsort(-stability.frequency.mean(axis=0), kind="stable")[:4]
    np.testing.assert_array_equal(cells(display), stability.frequency[:, order].T)
    marked = np.zeros((4, 3), dtype=bool)
    for column, row in np.asarray(display.points_.get_offsets()) - 0.5:
        marked[int(row), int(column)] = True
    np.testing.assert_array_equal(marked, stability.selected()[:, order].T)
    assert marked.any()
    assert not marked.all()
    assert "4 of 8 features" in display.ax_.get_title(loc="left")
    with pytest.raises(TypeError, match="stability_selection"):
        StabilityMapDisplay.from_stability(stability.frequency)


# ------------------------------------------------------------------ stages


def test_stage_history_draws_every_stage(model):
    display = StageHistoryDisplay.from_estimator(model)
    stages = model.stages_
    assert len(stages) > 1
    objective, gap, features = display.axes_
    np.testing.assert_array_equal(objective.lines[0].get_xdata(), np.arange(1, len(stages) + 1))
    np.testing.assert_array_equal(objective.lines[0].get_ydata(), [stage.objective for stage in stages])
    drawn = gap.lines[0].get_ydata()
    np.testing.assert_array_equal(drawn, np.maximum([stage.dual_gap for stage in stages], 1e-17))
    assert gap.get_yscale() == "log"
    used, freed = (line.get_ydata().tolist() for line in features.lines)
    assert used == [int(stage.coef.any(axis=0).sum()) for stage in stages]
    assert freed == [len(stage.free_rows) for stage in stages]


def test_stage_history_takes_one_subplot_or_three_axes(model):
    figure = Figure()
    left, right = figure.subplots(1, 2)
    display = StageHistoryDisplay.from_estimator(model, ax=right)
    assert display.figure_ is figure
    assert len(figure.axes) == 5
    assert not right.axison
    three = Figure().subplots(3)
    assert list(StageHistoryDisplay.from_estimator(model, ax=three).axes_) == list(three)
    with pytest.raises(ValueError, match="3 Axes; got 2"):
        StageHistoryDisplay.from_estimator(model, ax=[left, right])
    with pytest.raises(ValueError, match="one of matplotlib's subplots"):
        panels(figure.add_axes((0, 0, 1, 1)), 3, 1, 1)


def test_row_norms_are_sorted_and_compared_with_theta(model):
    display = RowNormDisplay.from_estimator(model)
    first, last = display.lines_[1].get_ydata(), display.lines_[model.n_stages_].get_ydata()
    for drawn, stage in ((first, model.stages_[0]), (last, model.stages_[-1])):
        np.testing.assert_allclose(drawn, np.sort(np.abs(stage.coef).sum(axis=0))[::-1][: len(drawn)], rtol=1e-15)
    line = next(line for line in display.ax_.lines if line.get_label().startswith("θ"))
    assert set(line.get_ydata()) == {model.theta_}
    assert ((last >= model.theta_).sum()) == len(model.stages_[-1].free_rows)


@pytest.mark.parametrize("make", [MSMTFL, L12MTL])
def test_norms_of_standardised_stages_are_those_of_the_problem(sample, make):
    X, y, task = sample
    X = X * np.array([1, 10, 0.1, 5, 1, 1, 1, 1])
    fitted = make(lam=0.05, theta=1.0, standardize=True).fit(X, y, task=task)
    norms = stage_norms(fitted, X, y, task=task)
    np.testing.assert_allclose(norms[fitted.n_stages_], fitted.row_norms_, rtol=1e-12)
    assert set(norms) == {1, fitted.n_stages_}
    assert set(RowNormDisplay.from_estimator(fitted).norms) == {fitted.n_stages_}
    relaxed = make(lam=0.05, theta=1.0, standardize=True, relax=True).fit(X, y, task=task)
    with pytest.raises(ValueError, match="pass the data"):
        RowNormDisplay.from_estimator(relaxed)
    np.testing.assert_allclose(stage_norms(relaxed, X, y, task=task)[1], norms[1], rtol=1e-12)


@pytest.mark.parametrize("factors", [np.linspace(0.5, 2, 8), np.linspace(0.5, 2, 24).reshape(8, 3)])
def test_norms_count_penalty_factors(sample, factors):
    X, y, task = sample
    fitted = L12MTL(lam=0.05, penalty_factors=factors).fit(X, y, task=task)
    np.testing.assert_allclose(stage_norms(fitted)[1], fitted.row_norms_, rtol=1e-12)


# ------------------------------------------------------------------ grids


def test_path_draws_row_norms_theta_and_where_the_cap_frees(sample):
    X, y, task = sample
    surface = regularization_surface(X, y, task=task, lams=15, theta_ratios=[4.0, np.inf], standardize=True)
    display = PathDisplay.from_surface(surface)
    factors = surface.problem.factors
    order = np.argsort(surface.lams)
    expected = np.array([(factors * np.abs(surface.coef(k, 0).T)).sum(axis=1) for k in order])
    np.testing.assert_allclose(np.array([line.get_ydata() for line in display.lines_]).T, expected, rtol=1e-12)
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), surface.lams[order])
    theta = next(line for line in display.ax_.lines if line.get_label().startswith("θ"))
    np.testing.assert_array_equal(theta.get_ydata(), surface.thetas[order, 0])
    thick = [line for line in display.ax_.lines if np.isnan(line.get_ydata()).any()]
    assert thick
    freed = np.array([np.isin(np.arange(8), surface.free_rows(k, 0)) for k in order])
    assert sum(int(np.isfinite(line.get_ydata()).sum()) for line in thick) <= freed.sum()
    assert display.ax_.get_xlim()[0] > display.ax_.get_xlim()[1]
    lost = pickle.loads(pickle.dumps(surface))
    again = PathDisplay.from_surface(lost)
    assert again.path.theta is None
    np.testing.assert_allclose(again.path.values[0], np.abs(surface.coef(order[0], 0)).sum(axis=0), rtol=1e-12)


def test_path_of_one_task_has_its_coefficients(searched, sample):
    display = PathDisplay.from_estimator(searched, task="west")
    l = searched.best_point_[1]
    surface = searched.surface_
    order = [k for k in np.argsort(surface.lams) if surface.reached[k, l]]
    assert len(order) > 5
    np.testing.assert_array_equal(display.path.values, [surface.coef(k, l)[2] for k in order])
    assert display.path.chosen == searched.lam_
    with pytest.raises(ValueError, match="no task 'east': 'north', 'south', 'west'"):
        PathDisplay.from_estimator(searched, task="east")
    with pytest.raises(ValueError, match="column=5 is out of range: the surface has 5"):
        PathDisplay.from_surface(surface, column=5)
    with pytest.raises(TypeError, match="regularization_surface"):
        PathDisplay.from_surface(searched)


def test_paths_of_coupled_models(sample):
    X, y, task = sample
    l12 = L12MTLCV(lams=6, cv=3).fit(X, y, task=task)
    display = PathDisplay.from_estimator(l12)
    np.testing.assert_allclose(display.path.values[0], np.linalg.norm(l12.surface_.coef(5, 0), axis=0), rtol=1e-12)
    dirty = DirtyMTLCV(lams=6, cv=3).fit(X, y, task=task)
    assert r"\lambda_b" in PathDisplay.from_estimator(dirty).ax_.get_xlabel()


def test_surface_draws_every_point_with_the_choice_and_its_region(searched):
    display = SurfaceDisplay.from_estimator(searched)
    results, l = searched.cv_results_, searched.best_point_[1]
    drawn = np.array([image.get_array().data.ravel() for image in display.images_]).T
    order = np.argsort(searched.lams_)
    np.testing.assert_array_equal(drawn, -results["mean_test_score"].reshape(12, 5)[order])
    star = next(line for line in display.ax_.lines if line.get_marker() == "*")
    assert star.get_xydata().tolist() == [[searched.lam_, l]]
    best = int(np.nanargmax(results["mean_test_score"]))
    near = results["mean_test_score"] >= results["mean_test_score"][best] - results["se_test_score"][best]
    inside = 0
    for box in (line for line in display.ax_.lines if len(line.get_xdata()) == 5):
        (left, right), row = np.sort(box.get_xdata())[[0, -1]], round(box.get_ydata().mean())
        inside += int(((searched.lams_ > left) & (searched.lams_ < right)).sum())
        assert near.reshape(12, 5)[(searched.lams_ > left) & (searched.lams_ < right), row].all()
    assert inside == near.sum() > 1
    assert texts(display.ax_.yaxis)[3] == "∞ (lasso)"
    assert "held-out nMSE" in display.ax_.get_title(loc="left")


@pytest.mark.slow
def test_surfaces_of_models_from_files_are_the_same(sample, tmp_path):
    X, y, task = sample
    models = [MSMTFLCV(lams=4, cv=3), LassoMTLCV(lams=4, cv=3), L12MTLCV(lams=4, cv=3), DirtyMTLCV(lams=4, cv=3)]
    models += [SharedMTLCV(lams=4, cv=3), PartialPoolingCV(ks=4, cv=3), PretrainedMTLCV(lams=4, cv=3)]
    for place, fitted in enumerate(one.fit(X, y, task=task) for one in models):
        path = tmp_path / f"{place}.msmtfl"
        save_model(fitted, path)
        again = load_model(path)
        assert not hasattr(again, "surface_")
        old, new = search_grid(fitted), SurfaceDisplay.from_estimator(again).grid
        assert vars(old).keys() == vars(new).keys()
        for name, value in vars(old).items():
            np.testing.assert_array_equal(getattr(new, name), value)
        with pytest.raises(ValueError, match="has no surface_"):
            PathDisplay.from_estimator(again)


def test_one_column_is_a_curve_with_error_bars(sample):
    X, y, task = sample
    fitted = LassoMTLCV(lams=9, cv=3, selection="1se").fit(X, y, task=task)
    display = SurfaceDisplay.from_estimator(fitted)
    order = np.argsort(fitted.lams_)
    curve, (bars,) = display.ax_.containers[0].lines[0], display.ax_.containers[0].lines[2]
    np.testing.assert_array_equal(curve.get_xydata()[:, 0], fitted.lams_[order])
    np.testing.assert_array_equal(curve.get_xydata()[:, 1], -fitted.cv_results_["mean_test_score"][order])
    heights = np.array([np.ptp(part[:, 1]) for part in bars.get_segments()])
    np.testing.assert_allclose(heights, 2 * fitted.cv_results_["se_test_score"][order], rtol=1e-9)
    assert display.grid.within[fitted.best_point_]
    assert display.images_ == []


def test_dirty_columns_are_ratios_with_lams_of_their_own(sample):
    X, y, task = sample
    fitted = DirtyMTLCV(lams=5, cv=3, ratios=[0.4, 0.9]).fit(X, y, task=task)
    grid = SurfaceDisplay.from_estimator(fitted).grid
    assert grid.lams.shape == (5, 2)
    assert grid.levels == ("0.9", "0.4")
    assert grid.lams[grid.chosen] == fitted.lam_b_
    only = DirtyMTLCV(lams=[0.1], cv=3).fit(X, y, task=task)
    assert search_grid(only).lams.shape[0] == 1


def test_thetas_and_lams_may_be_given_in_any_form(sample):
    X, y, task = sample
    lams = [0.1, 0.4, 0.02]  # in no order
    same = MSMTFLCV(lams=lams, thetas=[1.0, 3.0], cv=3).fit(X, y, task=task)
    assert search_grid(same).levels == ("1", "3")
    assert search_grid(same).level_name == "θ"
    own = MSMTFLCV(lams=lams, thetas=[[1.0, 3.0], [2.0, 9.0], [1.0, 1.5]], cv=3).fit(X, y, task=task)
    assert search_grid(own).levels == ("0", "1")
    for fitted in (same, own):
        SurfaceDisplay.from_estimator(fitted)
        PathDisplay.from_estimator(fitted)
    SurfaceDisplay.from_estimator(MSMTFLCV(lams=[0.1], thetas=[2.0], cv=3).fit(X, y, task=task))
    SurfaceDisplay.from_estimator(MSMTFLCV(lams=[0.1], cv=3).fit(X, y, task=task))


def test_scores_and_criteria_are_named_for_what_they_are(sample):
    X, y, task = sample
    by_score = MSMTFLCV(lams=5, cv=3, scoring="r2").fit(X, y, task=task)
    grid = SurfaceDisplay.from_estimator(by_score).grid
    assert (grid.measure, grid.greater_is_better) == ("held-out r2", True)
    assert grid.values[grid.chosen] == by_score.best_score_ == grid.values.max()
    by_error = LassoMTLCV(lams=5, cv=3, scoring="neg_mean_absolute_error").fit(X, y, task=task)
    assert search_grid(by_error).measure == "held-out mean absolute error"
    assert search_grid(by_error).values.min() == -by_error.best_score_
    without_folds = MSMTFLCV(lams=5, selection="bic").fit(X, y, task=task)
    grid = SurfaceDisplay.from_estimator(without_folds).grid
    assert (grid.measure, grid.se, grid.within) == ("BIC", None, None)
    SurfaceDisplay.from_estimator(LassoMTLCV(lams=5, selection="ebic").fit(X, y, task=task))
    with pytest.raises(ValueError, match="without folds"):
        GainDisplay.from_estimator(without_folds)


# ------------------------------------------------------------------ gain


def test_gain_is_the_point_less_the_lasso_that_the_other_folds_choose(searched, sample):
    _, y, task = sample
    results = searched.cv_results_
    lassos = np.flatnonzero(np.isinf(results["theta"]) & (results["lam_entry"] == 0))
    variance = np.array([y[task == label].var() for label in searched.tasks_])
    scores = np.array([results[f"split{f}_test_score"] for f in range(4)])
    by_fold = []
    for f in range(4):
        others = np.delete(scores, f, axis=0).mean(axis=0)
        point, lasso = np.nanargmax(others), lassos[np.nanargmax(others[lassos])]
        by_fold.append((results["test_mse"][point][f] - results["test_mse"][lasso][f]) / variance)
    by_fold = np.array(by_fold)
    difference, reach = gain_over_lasso(searched)
    np.testing.assert_allclose(difference, by_fold.mean(axis=0), rtol=1e-12)  # folds are of equal size here
    t = 3.182446305284263  # 97.5 % of Student's t with 3 degrees of freedom
    wider = np.sqrt(1 + 4 / 3)  # for other rows to train on: four folds
    np.testing.assert_allclose(reach, t * wider * by_fold.std(axis=0, ddof=1) / 2, rtol=1e-9)
    display = GainDisplay.from_estimator(searched)
    drawn = np.asarray(display.points_.get_offsets())[:, 0]
    np.testing.assert_array_equal(drawn, np.sort(difference)[::-1])
    assert texts(display.ax_.yaxis) == searched.tasks_[np.argsort(-difference, kind="stable")].tolist()


def test_gain_of_dirty_is_over_its_own_lasso_column(sample):
    X, y, task = sample
    fitted = DirtyMTLCV(lams=5, cv=3).fit(X, y, task=task)
    assert np.isfinite(GainDisplay.from_estimator(fitted).difference).all()


def test_gain_of_a_task_added_later_is_not_known(sample, searched):
    X, y, task = sample
    grown = MSMTFLCV(lams=12, cv=4).fit(X, y, task=task).add_task(X[:40], y[:40], "east")
    before, after = gain_over_lasso(searched), gain_over_lasso(grown)
    for known, found in zip(before, after, strict=True):
        np.testing.assert_array_equal(found, [*known, np.nan])
    assert len(GainDisplay.from_estimator(grown).points_.get_offsets()) == 3


def test_no_gain_is_said_so(sample):
    X, y, task = sample
    fitted = MSMTFLCV(lams=[0.05, 0.2], thetas=[1e9, np.inf], cv=3).fit(X, y, task=task)
    assert GainDisplay.from_estimator(fitted).ax_.get_title(loc="left") == "MSMTFL is the lasso here: no difference"


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: LassoMTLCV(lams=3, cv=3), "nothing but lassos"),
        (lambda: L12MTLCV(lams=3, cv=3), "no lasso in it"),
        (lambda: MSMTFLCV(lams=3, thetas=[1.0, 2.0], cv=3), "no lasso in it"),
    ],
)
def test_a_grid_that_cannot_tell_the_gain_says_why(sample, make, what):
    X, y, task = sample
    with pytest.raises(ValueError, match=rf"{what}.*compare_models"):
        GainDisplay.from_estimator(make().fit(X, y, task=task))


def test_gain_of_a_comparison(sample):
    X, y, task = sample
    models = {"lasso": LassoMTL(lam=0.3), "capped": MSMTFL(lam=0.1, theta=2.0), "bad": LassoMTL(lam=9.0)}
    comparison = compare_models(X, y, task=task, models=models, cv=3)
    display = GainDisplay.from_comparison(comparison)
    assert display.model == "capped"
    np.testing.assert_array_equal(display.difference, comparison.difference_by_task[1])
    colours = [to_hex(colour).upper() for colour in display.points_.get_facecolors()]
    order = np.argsort(-display.difference, kind="stable")
    wanted = np.where(comparison.gains[1], BLUE, np.where(comparison.loses[1], ORANGE, GREY))[order]
    assert colours == [colour.upper() for colour in wanted]
    assert GainDisplay.from_comparison(comparison, model="bad").ax_.get_title(loc="left").endswith("3 worse")
    with pytest.raises(ValueError, match="no model 'lasso' to compare with 'lasso': 'capped', 'bad'"):
        GainDisplay.from_comparison(comparison, model="lasso")
    with pytest.raises(TypeError, match="compare_models"):
        GainDisplay.from_comparison(models)


def test_tasks_without_a_difference_are_not_drawn():
    axis = Figure().subplots()
    points = differences(axis, ["a", "b", "c"], [0.1, np.nan, -0.2], [0.05, 0.1, np.nan])
    assert np.asarray(points.get_offsets()).tolist() == [[0.1, 0.0], [-0.2, 1.0]]
    assert texts(axis.yaxis) == ["a", "c"]


# ------------------------------------------------------------------ all of them


def draw_all(searched, stability, comparison, axis):
    """Every display, in axes that `axis()` gives."""
    yield CoefficientMapDisplay.from_estimator(searched, ax=axis())
    yield StabilityMapDisplay.from_stability(stability, ax=axis())
    yield TaskSimilarityDisplay.from_estimator(searched, ax=axis())
    yield RowNormDisplay.from_estimator(searched, ax=axis())
    yield PathDisplay.from_estimator(searched, ax=axis())
    yield PathDisplay.from_surface(searched.surface_, ax=axis())
    yield SurfaceDisplay.from_estimator(searched, ax=axis())
    yield GainDisplay.from_estimator(searched, ax=axis())
    yield GainDisplay.from_comparison(comparison, ax=axis())


def test_axes_given_are_drawn_in_and_displays_draw_again_elsewhere(searched, sample):
    X, y, task = sample
    stability = stability_selection(LassoMTL(lam=0.2), X, y, task=task, n_pairs=2)
    comparison = compare_models(X, y, task=task, models={"lasso": LassoMTL(), "l12": L12MTL()}, cv=3)
    given = []

    def axis():
        given.append(Figure().subplots())
        return given[-1]

    for display in draw_all(searched, stability, comparison, axis):
        assert display.ax_ is given[-1]
        assert display.figure_ is given[-1].figure
        assert not plt.get_fignums()
        assert display.plot() is display
        assert display.ax_ is not given[-1]
        assert plt.get_fignums()
        plt.close("all")


@pytest.mark.parametrize("make", [MSMTFL, DirtyMTL])
@pytest.mark.parametrize("display", SINGLE)
@pytest.mark.slow
def test_models_that_use_nothing_are_drawn_too(make, display):
    X, task = np.random.default_rng(0).standard_normal((30, 50)), np.repeat([0, 1, 2], 10)
    display.from_estimator(make().fit(X, np.full(30, 2.0), task=task))


@pytest.mark.slow
@pytest.mark.parametrize("display", [*SINGLE, PathDisplay, SurfaceDisplay])
@pytest.mark.filterwarnings("ignore:Too good to be true")
def test_one_task_and_one_feature_are_drawn_too(display):
    X = np.random.default_rng(0).standard_normal((30, 1))
    display.from_estimator(MSMTFLCV(lams=4, cv=3).fit(X, X[:, 0]))


def test_a_search_that_finds_nothing_is_drawn_too():
    X, task = np.random.default_rng(0).standard_normal((30, 5)), np.repeat([0, 1], 15)
    with pytest.warns(UserWarning, match="constant"):
        fitted = MSMTFLCV(lams=4, cv=3).fit(X, np.full(30, 2.0), task=task)
    for display in (SurfaceDisplay, PathDisplay, GainDisplay):
        display.from_estimator(fitted)
    assert len(GainDisplay.from_estimator(fitted).points_.get_offsets()) == 0


def test_a_grid_with_infinite_strengths_is_drawn_along_the_other_strength(sample):
    X, y, task = sample
    fitted = RobustMTLCV(kind="rmtfl", lams=4, cv=3).fit(X, y, task=task)
    assert np.isinf(fitted.lam_deviations_).any()
    display = SurfaceDisplay.from_estimator(fitted)
    np.testing.assert_array_equal(display.grid.lams, fitted.lam_commons_)
    assert display.grid.strength == r"$\lambda_c$"
    assert PathDisplay.from_estimator(fitted).path.strength == r"$\lambda_c$"


@pytest.mark.parametrize("display", [CoefficientMapDisplay, RowNormDisplay, StageHistoryDisplay])
def test_139_tasks_are_drawn(many, display):
    display.from_estimator(many)


def test_dense_and_pooled_baselines_have_a_coefficient_map_but_no_stages(sample):
    X, y, task = sample
    for kind in (RidgePerTaskCV, PooledLassoCV):
        fitted = kind().fit(X, y, task=task)
        display = CoefficientMapDisplay.from_estimator(fitted, scale=None)
        assert np.nanmax(np.abs(cells(display))) == np.abs(fitted.coef_).max()
        for other in (StageHistoryDisplay, RowNormDisplay):
            with pytest.raises(
                TypeError,
                match=r"not fitted in stages\. Take MSMTFL, .*, PretrainedMTL, .* or NestedMTLClassifier\.",
            ):
                other.from_estimator(fitted)
        with pytest.raises(
            TypeError,
            match=r"searches no grid\. Take MSMTFLCV, .*, PretrainedMTLCV, .* or NestedMTLClassifierCV\.",
        ):
            SurfaceDisplay.from_estimator(fitted)


def test_a_grid_without_thetas_does_not_speak_of_them(sample):
    X, y, task = sample
    fitted = L12MTLCV(lams=4, cv=3).fit(X, y, task=task)
    assert (search_grid(fitted).levels, search_grid(fitted).level_name) == (("L1,2",), "penalty")
    ax = SurfaceDisplay.from_estimator(fitted).ax_
    assert "theta" not in ax.get_title() + ax.get_ylabel() + ax.get_xlabel()


# ------------------------------------------------------------------ matplotlib, and the helpers


@pytest.mark.slow
def test_what_draws_is_imported_only_to_draw():
    code = (
        "import sys, msmtfl.plots, msmtfl.sharing, msmtfl.report\n"
        "sys.exit(bool({'bokeh', 'jinja2', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_absent_matplotlib_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for display in SINGLE:
        with pytest.raises(ImportError, match=r"pip install matplotlib, or msmtfl\[plots\]"):
            display.from_estimator(model)


def test_names_are_cut_and_on_one_line():
    assert shown("a\tb\nc") == "a b c"
    assert len(shown("x" * 100)) == 32
    assert shown("$5") == r"\$5"


def test_labels_are_moved_apart_in_order():
    assert apart([0.0, 5.0], 1.0, 5.0).tolist() == [0.0, 5.0]
    moved = apart([5.0, 4.9, 0.0], 1.0, 5.0)
    assert moved.tolist() == [5.0, 4.0, 0.0]
    assert apart([], 1.0, 5.0).size == 0


def test_cells_end_half_way_and_stretches_are_found():
    np.testing.assert_allclose(log_edges([1.0, 100.0]), [0.1, 10.0, 1000.0])
    assert len(log_edges([3.0])) == 2
    assert runs([True, False, True, True]) == [(0, 1), (2, 4)]
    assert runs([]) == []


def test_a_few_far_values_do_not_press_the_others_together():
    values, reach = np.array([0.022, 0.023, 0.026, 0.028, 1.05, 1.08]), np.full(6, 0.002)
    low, high = bulk(values, reach)
    assert 0.0 < low < 0.020
    assert 0.030 < high < 0.05
    assert bulk([1.0, 2.0, 3.0]) == pytest.approx((0.92, 3.08))  # nothing far: all of them
    assert bulk([2.0, 2.0]) == (1.5, 2.5)
    ax = Figure().subplots()
    ax.set_xlim(low, high)
    mark_beyond(ax, values, range(6), [BLUE] * 6)
    assert [note.get_text() for note in ax.texts] == ["1.05", "1.08"]
