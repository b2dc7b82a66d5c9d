"""Nested and crossed tasks: sums over levels are solved exactly, and are what other models are with one level."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

from msmtfl import LassoMTL, Moments, NestedMTL, NestedMTLCV, PartialPooling, SharedMTL, TaskKFold
from msmtfl._data.task_levels import TaskLevels
from msmtfl._data.tasks import read_training
from msmtfl._objective.coupled.level_penalty import certify_levels
from msmtfl._paths.families.nested_path import penalty_at
from msmtfl._solvers.coupled.task_levels import LevelSolver, StackedLevels
from msmtfl._solvers.problems.make_problem import make_problem
from msmtfl.formulas import formula
from msmtfl.model_files import load_model, save_model
from msmtfl.report import write_report
from msmtfl.sharing import sharing_map

pd = pytest.importorskip("pandas")

KINDS = pytest.mark.parametrize("kind", ["sparse", "ridge"])
LEVELS = ["region", "school"]


@parametrize_with_checks([NestedMTL(), NestedMTL(kind="ridge"), NestedMTLCV(lams=3, lam_uppers=[1.0], cv=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def sample(seed=0, regions=3, schools=9, n=15, d=4, crossed=False, sd=0.5):
    """A table, targets: what is common, effects of regions and of schools; sizes of schools differ."""
    rng = np.random.default_rng(seed)
    school = np.repeat(np.arange(schools), n + 3 * np.arange(schools))
    region = rng.integers(0, regions, len(school)) if crossed else school % regions
    X = rng.standard_normal((len(school), d)) * rng.uniform(0.5, 2.0, d)
    w = (
        rng.standard_normal(d)
        + rng.standard_normal((regions, d))[region]
        + 0.4 * rng.standard_normal((schools, d))[school]
    )
    y = (X * w).sum(axis=1) + region + sd * rng.standard_normal(len(school))
    table = pd.DataFrame(X, columns=[f"f{j}" for j in range(d)])
    table["school"], table["region"] = school, np.array(["north", "south", "west"])[region]
    return table, y


def expanded(table, y, levels=LEVELS):
    """What the tasks are together: every part's columns beside each other, centred within tasks; the tasks' sizes."""
    X = table.drop(columns=LEVELS).to_numpy()
    cell = table[levels].astype(str).agg(" / ".join, axis=1).to_numpy()
    labels, codes = np.unique(cell, return_inverse=True)
    mean = np.array([X[codes == i].mean(axis=0) for i in range(len(labels))])
    y = y - np.array([y[codes == i].mean() for i in range(len(labels))])[codes]
    X = X - mean[codes]
    parts = [np.ones(len(X), dtype=bool)]
    parts += [(table[level] == value).to_numpy() for level in levels for value in np.unique(table[level].astype(str))]
    parts = [np.ones(len(X), dtype=bool)]
    for level in levels:
        text = table[level].astype(str).to_numpy()
        parts += [text == value for value in np.unique(text)]
    return np.hstack([X * part[:, None] for part in parts]), y, np.bincount(codes)[codes], len(labels)


@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_sparse_is_one_lasso_of_all_columns(seed, crossed):
    table, y = sample(seed, crossed=crossed)
    lams = {"lam": 0.03, "lam_upper": 0.05, "lam_common": 0.11}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of crossed levels
        model = NestedMTL(task_column=LEVELS, **lams).fit(table, y)
    X, target, sizes, m = expanded(table, y)
    root = np.sqrt(2.0 / (m * sizes))
    counts = [1, 3, 9]
    factors = np.repeat([0.11, 0.05, 0.03], np.array(counts) * 4)
    Z, t = X * root[:, None] / factors, target * root
    lasso = Lasso(alpha=1.0 / len(t), fit_intercept=False, tol=1e-14, max_iter=10**6).fit(Z, t)
    least = 0.5 * np.sum((t - Z @ lasso.coef_) ** 2) + np.abs(lasso.coef_).sum()
    assert model.objective_ == pytest.approx(least, rel=1e-9)
    assert model.objective_ <= least * (1.0 + 1e-12)
    assert model.dual_gap_ < 1e-10
    assert model.converged_
    found = np.vstack([model.coef_common_, model.coef_effects_]).ravel() * factors
    np.testing.assert_allclose(found, lasso.coef_, atol=1e-5)
    np.testing.assert_allclose(
        model.coef_, model.coef_common_ + model.coef_effects_[model.task_effects_].sum(axis=1), atol=1e-14
    )


@pytest.mark.parametrize("crossed", [False, True])
def test_ridge_is_one_ridge_regression_of_all_columns(crossed):
    table, y = sample(2, crossed=crossed)
    model = NestedMTL(20.0, 3.0, lam_upper=7.0, kind="ridge", nested=False, task_column=LEVELS).fit(table, y)
    X, target, _, _ = expanded(table, y)
    ridge = np.repeat([3.0, 7.0, 20.0], np.array([1, 3, 9]) * 4)
    P = np.linalg.solve(X.T @ X + np.diag(ridge), X.T @ target)
    np.testing.assert_allclose(np.vstack([model.coef_common_, model.coef_effects_]).ravel(), P, atol=1e-9)
    assert model.dual_gap_ < 1e-10
    assert model.certificate_.unique


def test_ridge_is_a_mixed_model_with_nested_random_effects():
    """The best linear unbiased predictions at the variances that statsmodels estimates."""
    mixed = pytest.importorskip("statsmodels.regression.mixed_linear_model")
    table, y = sample(3, n=25, d=2, sd=1.0)
    X = table[["f0", "f1"]].to_numpy()
    formulas = {"school0": "0 + C(school):f0", "school1": "0 + C(school):f1"}
    frame = table.assign(y=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = mixed.MixedLM.from_formula(
            "y ~ f0 + f1 + C(school)", frame, groups="region", re_formula="0 + f0 + f1", vc_formula=formulas
        ).fit(reml=False)
    region, variances = np.diag(fit.cov_re), fit.vcomp
    sigma, order = fit.scale, fit.model.exog_vc.names
    schools = np.array([variances[order.index(name)] for name in ("school0", "school1")])
    # one strength for both features of a level: the same predictions at variances that are given
    strength_r, strength_s = sigma / region.mean(), sigma / schools.mean()
    model = NestedMTL(strength_s, 0.0, lam_upper=strength_r, kind="ridge", task_column=LEVELS).fit(table, y)
    V = sigma * np.eye(len(y))
    for level, variance in (("region", region.mean()), ("school", schools.mean())):
        same = table[level].to_numpy()[:, None] == table[level].to_numpy()
        V += variance * same * (X @ X.T)
    dummies = (table["school"].to_numpy()[:, None] == np.unique(table["school"])).astype(float)
    fixed = np.hstack([X, dummies])
    beta = np.linalg.solve(fixed.T @ np.linalg.solve(V, fixed), fixed.T @ np.linalg.solve(V, y))
    np.testing.assert_allclose(model.coef_common_, beta[:2], atol=1e-7)
    left = np.linalg.solve(V, y - fixed @ beta)
    for name in ("north", "south", "west"):
        at = (table["region"] == name).to_numpy()
        np.testing.assert_allclose(model.effects("region")[name], region.mean() * X[at].T @ left[at], atol=1e-7)
    np.testing.assert_allclose(fit.fe_params[["f0", "f1"]], model.coef_common_, atol=0.1)  # at its own variances


def test_with_one_level_it_is_what_flat_models_are():
    table, y = sample(4)
    X, task = table.drop(columns=LEVELS).to_numpy(), table["school"]
    for standardize in (False, True):
        flat = SharedMTL(0.1, 0.03, standardize=standardize).fit(X, y, task=task)
        model = NestedMTL(0.03, 0.1, standardize=standardize).fit(X, y, task=task)
        np.testing.assert_allclose(model.coef_, flat.coef_, atol=1e-8)
        assert model.objective_ == pytest.approx(flat.objective_, rel=1e-10)
    flat = PartialPooling(13.0, 2.0).fit(X, y, task=task)
    model = NestedMTL(13.0, 2.0, kind="ridge").fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, flat.coef_, atol=1e-8)
    np.testing.assert_array_equal(model.tasks_, flat.tasks_)
    assert NestedMTL().fit(X, y, task=task).lam_common_ == pytest.approx(SharedMTL().fit(X, y, task=task).lam_common_)
    # without effects of regions schools are all there is
    nested = {"task_column": LEVELS, "nested": False}
    by_school = NestedMTL(0.03, 0.1, lam_upper=np.inf, **nested).fit(table, y)
    np.testing.assert_allclose(
        by_school.coef_[:3], SharedMTL(0.1, 0.03).fit(X, y, task=task).coef_[[0, 3, 6]], atol=1e-8
    )


@KINDS
@pytest.mark.parametrize("form", ["dense", "sparse", "moments", "float32"])
def test_forms_of_data_agree(kind, form):
    from scipy.sparse import csr_array

    table, y = sample(5)
    X = table.drop(columns=LEVELS).to_numpy()
    X = np.where(np.abs(X) < 0.5, 0.0, X).astype(np.float32).astype(float)
    labels = np.array([f"{r} / {s}" for r, s in zip(table["region"], table["school"], strict=True)])
    model = NestedMTL(kind=kind).fit(X, y, task=labels)
    if form == "moments":
        other = NestedMTL(kind=kind).partial_fit(X[:70], y[:70], task=labels[:70])
        other = other.partial_fit(X[70:], y[70:], task=labels[70:])
    else:
        other = NestedMTL(kind=kind).fit(
            {"dense": X, "sparse": csr_array(X), "float32": X.astype("f4")}[form], y, task=labels
        )
    np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-8)
    np.testing.assert_array_equal(other.coef_effects_.shape, (12, 4))


@KINDS
@pytest.mark.parametrize("loss", ["huber", "poisson"])
def test_other_losses_are_certified(kind, loss):
    table, y = sample(6)
    y = y if loss == "huber" else np.random.default_rng(0).poisson(np.exp(np.clip(0.3 * y, -2, 2))).astype(float)
    model = NestedMTL(kind=kind, loss=loss, task_column=LEVELS).fit(table, y)
    assert model.converged_
    assert model.dual_gap_ <= 1e-8
    nudged = np.vstack([model.coef_common_, model.coef_effects_])
    assert np.isfinite(nudged).all()


def problem_of(table, y):
    X = table.drop(columns=LEVELS).to_numpy()
    labels = np.array([f"{r} / {s}" for r, s in zip(table["region"], table["school"], strict=True)])
    problem = make_problem(read_training(X, y, task=labels), fit_intercept=True, standardize=False, positive=False)
    return problem, TaskLevels.of(problem.data.labels, nested=False)


@KINDS
def test_gaps_bound_how_far_a_point_is_from_the_least_value(kind):
    problem, levels = problem_of(*sample(7, crossed=True))
    penalty = penalty_at(problem, levels, kind, [0.5, 2.0, 4.0] if kind == "ridge" else [0.1, 0.05, 0.03])
    best, _ = LevelSolver(problem, penalty).solve(penalty)

    def value(P):
        parts = zip(penalty.kappa, problem.designs, penalty.coefs(P), strict=True)
        return sum(0.5 * k * design.loss(w) for k, design, w in parts) + penalty.value(P)

    unit = sum(0.5 * k * design.yy for k, design in zip(penalty.kappa, problem.designs, strict=True))
    rng = np.random.default_rng(0)
    for size in (1e-8, 1e-4, 1e-1):
        P = best + size * rng.standard_normal(best.shape)
        proof = certify_levels(problem.designs, P, penalty)
        assert proof.gap * unit >= (value(P) - value(best)) * (1.0 - 1e-6) - 1e-15 * unit
        assert not size >= 1e-4 or proof.gap > 1e-10
    wrong = best.copy()
    wrong[1] += 0.1  # the effects of one region
    assert certify_levels(problem.designs, wrong, penalty).gap > 1e-4


def test_tasks_put_together_are_their_columns():
    problem, levels = problem_of(*sample(8, n=12, crossed=True))
    stacked = StackedLevels(problem.designs, levels.blocks, np.linspace(0.5, 2.0, problem.m))
    every = np.arange(stacked.d)
    X, P = stacked.columns(every), np.random.default_rng(0).standard_normal(stacked.d)
    some = np.array([0, 3, 5, 17, stacked.d - 1])
    np.testing.assert_allclose(stacked.gram(), X.T @ X, atol=1e-10)
    np.testing.assert_allclose(stacked.gram_rows(some), (X.T @ X)[some], atol=1e-10)
    np.testing.assert_allclose(stacked.gram_block(some, every[::2]), (X.T @ X)[np.ix_(some, every[::2])], atol=1e-10)
    np.testing.assert_allclose(stacked.squares, (X**2).sum(axis=0), atol=1e-10)
    np.testing.assert_allclose(stacked.residual(P), stacked.target - X @ P, atol=1e-10)
    np.testing.assert_allclose(stacked.gradient(P), X.T @ (stacked.target - X @ P), atol=1e-9)
    np.testing.assert_allclose(stacked.correlate(stacked.target), X.T @ stacked.target, atol=1e-10)


def test_caps_free_the_effects_of_a_level():
    table, y = sample(9)
    model = NestedMTL(0.2, 0.4, lam_upper=0.3, theta=0.05, task_column=LEVELS).fit(table, y)
    plain = NestedMTL(0.2, 0.4, lam_upper=0.3, task_column=LEVELS).fit(table, y)
    assert model.n_stages_ > 1
    assert model.converged_
    assert not model.certificate_.convex
    objectives = [stage.objective for stage in model.stages_]
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(objectives))
    assert (model.row_slopes_ == 0.0).any()
    assert np.abs(model.coef_).sum() > np.abs(plain.coef_).sum()


@KINDS
def test_new_schools_of_known_regions_and_new_regions(kind):
    table, y = sample(10, n=40, sd=0.1)
    model = NestedMTL(kind=kind, task_column=LEVELS, unknown_task="common").fit(table, y)
    features = table.drop(columns=LEVELS).to_numpy()[:4]
    new = table.head(4).assign(region=["north", "north", "atlantis", "atlantis"], school=[100, 101, 100, 101])
    with pytest.warns(UserWarning, match="were not in the training data"):
        found = model.predict(new)
    slopes = model.coef_common_ + model.effects("region")["north"]
    levels = model.intercept_ + ((model.coef_ - slopes) * model.feature_means_).sum(axis=1)
    in_north = np.array([task.startswith("north") for task in model.tasks_])
    np.testing.assert_allclose(found[:2], features[:2] @ slopes + levels[in_north].mean(), atol=1e-10)
    levels = model.intercept_ + ((model.coef_ - model.coef_common_) * model.feature_means_).sum(axis=1)
    np.testing.assert_allclose(found[2:], features[2:] @ model.coef_common_ + levels.mean(), atol=1e-10)
    with pytest.raises(ValueError, match="unknown task label"):
        model.set_params(unknown_task="error").predict(new)
    labels = NestedMTL(kind=kind, unknown_task="common").fit(table.drop(columns=LEVELS), y, task=table[LEVELS])
    with pytest.raises(ValueError, match="has 1 level"):
        labels.predict(table.drop(columns=LEVELS), task=["north"] * len(table))


def test_folds_that_leave_out_schools_and_regions():
    table, y = sample(11, regions=3, schools=12, n=25, sd=0.3)
    errors = {}
    for level in LEVELS:
        model = NestedMTL(1.0, 0.0, lam_upper=0.1, kind="ridge", task_column=LEVELS, unknown_task="common")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = cross_val_predict(model, table, y, cv=GroupKFold(3), groups=table[level])
        errors[level] = np.mean((found - y) ** 2)
    assert errors["school"] < 0.7 * errors["region"]  # regions tell of their schools
    folds = list(TaskKFold(3, task_column=LEVELS, random_state=0).split(table))
    assert all(len(np.unique(table["school"].to_numpy()[train])) == 12 for train, _ in folds)


@KINDS
def test_search_chooses_levels_that_are_there(kind):
    table, y = sample(12, regions=3, schools=12, n=8, d=6, sd=1.0)
    flat_only = {"lam_uppers": [np.inf]}
    model = NestedMTLCV(8, kind=kind, cv=3, task_column=LEVELS).fit(table, y)
    flat = NestedMTLCV(8, kind=kind, cv=3, task_column=LEVELS, **flat_only).fit(table, y)
    assert model.best_score_ > flat.best_score_
    assert np.isfinite(model.lam_upper_[0])
    assert model.dual_gap_ < 1e-10
    assert (model.surface_.dual_gap[model.surface_.reached] < 1e-8).all()
    k, l = model.best_point_
    np.testing.assert_allclose(model.surface_.coef(k, l), model.coef_, atol=1e-8)
    assert model.strengths_[k, l, 0] == model.lam_common_
    assert model.strengths_[k, l, 2] == model.lam_
    again = NestedMTL(model.lam_, model.lam_common_, lam_upper=model.lam_upper_, kind=kind, task_column=LEVELS)
    np.testing.assert_allclose(again.fit(table, y).coef_, model.coef_, atol=1e-8)
    assert model.predict_interval(table.head(3), level=0.8).shape == (3, 2)


@KINDS
def test_one_more_task(kind):
    table, y = sample(13, n=30)
    X = table.drop(columns=LEVELS)
    model = NestedMTL(kind=kind, task_column=LEVELS).fit(table, y)
    before = model.coef_.copy()
    model.add_task(X[:25], y[:25], "south / 77")
    assert model.effect_values_[-1] == "77"
    assert model.tasks_[-1] == "south / 77"
    beside = model.coef_[-1] - model.coef_common_ - model.effects("region")["south"]
    np.testing.assert_allclose(beside, model.effects("school")["77"], atol=1e-12)
    np.testing.assert_array_equal(model.coef_[:-1], before)
    model.add_task(X[:25], y[:25], ("atlantis", 1))
    assert model.tasks_[-1] == "atlantis / 1"
    np.testing.assert_allclose(model.effects("region")["atlantis"], 0.0)
    sums = model.coef_common_ + model.coef_effects_[model.task_effects_].sum(axis=1)
    np.testing.assert_allclose(model.coef_, sums, atol=1e-12)


def test_what_differs_is_told_by_level():
    table, y = sample(18, n=40, sd=0.1)
    model = NestedMTL(0.01, 0.0, lam_upper=0.001, kind="ridge", task_column=LEVELS).fit(table, y)
    spread = model.level_spread()
    assert list(spread) == LEVELS
    coefs = np.array([model.effects("region")[task.split(" / ")[0]] for task in model.tasks_])
    np.testing.assert_allclose(spread["region"], coefs.std(axis=0), atol=1e-12)
    shares = {name: ((sd * model.feature_sd_) ** 2).sum() for name, sd in spread.items()}
    share = round(100 * shares["region"] / sum(shares.values()))
    assert share > 50
    assert f"by level: {share} % region, {100 - share} % school" in str(model.summary())
    assert "by level" not in str(NestedMTL().fit(table[["f0", "f1"]], y, task=table["school"]).summary())


@KINDS
@pytest.mark.parametrize("search", [False, True])
def test_files_keep_levels(tmp_path, kind, search):
    table, y = sample(14)
    options = {"kind": kind, "task_column": LEVELS, "unknown_task": "common"}
    model = NestedMTLCV(4, cv=2, **options) if search else NestedMTL(**options)
    model.fit(table, y)
    save_model(model, tmp_path / "model.msmtfl")
    loaded = load_model(tmp_path / "model.msmtfl")
    new = table.head(3).assign(school=["0", "77", "78"], region=["north", "west", "east"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    np.testing.assert_array_equal(loaded.effects("region")["west"], model.effects("region")["west"])
    assert loaded.task_column == LEVELS
    assert formula(loaded) == formula(model)
    assert "school" in str(formula(model))
    if search:
        write_report(loaded, tmp_path / "page.html")
        assert "Largest effect" in (tmp_path / "page.html").read_text(encoding="utf-8")
    if kind == "sparse":
        assert sharing_map(model).counts["unused"] >= 0


def test_columns_of_levels_are_read_in_all_forms():
    table, y = sample(15)
    model = NestedMTL(task_column=LEVELS).fit(table, y)
    assert model.tasks_[0] == "north / 0"
    assert list(model.features_) == ["f0", "f1", "f2", "f3"]
    assert model.n_features_in_ == 6
    assert model.feature_importances_.shape == (6,)
    values = table.to_numpy(dtype=object)
    by_place = NestedMTL(task_column=[5, 4]).fit(values, y)
    np.testing.assert_array_equal(by_place.coef_, model.coef_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # scikit-learn's, of names
        np.testing.assert_array_equal(model.predict(values), model.predict(table))
    beside = NestedMTL().fit(table.drop(columns=LEVELS), y, task=table[LEVELS])
    np.testing.assert_array_equal(beside.coef_, model.coef_)
    flat = LassoMTL(task_column=LEVELS).fit(table, y)
    np.testing.assert_array_equal(flat.tasks_, model.tasks_)
    other_order = NestedMTL(task_column=LEVELS).fit(table[["region", "f0", "school", "f1", "f2", "f3"]], y)
    np.testing.assert_allclose(other_order.coef_, model.coef_, atol=1e-12)
    moments = Moments().update(table, y, task_column=LEVELS)
    np.testing.assert_allclose(NestedMTL(task_column=LEVELS).fit_moments(moments).coef_, model.coef_, atol=1e-9)


def test_what_is_wrong_with_levels_is_named():
    table, y = sample(16)
    model = NestedMTL(task_column=LEVELS)
    with pytest.warns(UserWarning, match=r"'0' under 'north'.*crossed.*nested=True"):
        model.fit(table.assign(school=table.groupby("region")["school"].rank("dense").astype(int) - 1), y)
    assert len(model.effects("school")) == 3
    local = table.assign(school=table.groupby("region")["school"].rank("dense").astype(int) - 1)
    inside = NestedMTL(task_column=LEVELS, nested=True).fit(local, y)
    np.testing.assert_allclose(inside.coef_, NestedMTL(task_column=LEVELS).fit(table, y).coef_, atol=1e-9)
    assert "south / 1" in inside.effects("school")
    with pytest.warns(UserWarning, match=r"level 'region' has one value, 'north'"):
        NestedMTL(task_column=LEVELS).fit(table.assign(region="north"), y)
    with pytest.raises(ValueError, match=r"first in row 3.*level 'region'"):
        model.fit(table.assign(region=[*table["region"][:3], None, *table["region"][4:]]), y)
    with pytest.raises(ValueError, match=r"'a / b' \(first in row 0\)"):
        model.fit(table.assign(region=["a / b", *table["region"][1:]]), y)
    with pytest.raises(ValueError, match="'regoin' is not a column of X"):
        NestedMTL(task_column=["regoin", "school"]).fit(table, y)
    with pytest.raises(ValueError, match="several columns, each once"):
        NestedMTL(task_column=["school", "school"]).fit(table, y)
    with pytest.raises(ValueError, match="another number"):
        NestedMTL().fit(table.drop(columns=LEVELS), y, task=np.where(table["school"] < 2, "a / b", "c"))
    with pytest.raises(ValueError, match="lam_upper must be"):
        NestedMTL(lam_upper=[1.0, 2.0], task_column=LEVELS).fit(table, y)
    with pytest.raises(ValueError, match="theta caps the sparse penalty"):
        NestedMTL(kind="ridge", theta=1.0).fit(table, y)
    with pytest.raises(ValueError, match="'planet' is no level"):
        inside.effects("planet")


def test_ugly_data_are_certified_or_said_not_to_be():
    """More features than samples, equal columns, a constant one, tasks with one sample."""
    table, y = sample(17, n=3, d=6)
    table = table.assign(f1=table["f0"], f2=1.0)
    keep = np.r_[0, 3 : len(y)]
    table, y = table.iloc[keep], y[keep]
    for kind in ("sparse", "ridge"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("error", ConvergenceWarning)
            model = NestedMTL(kind=kind, task_column=LEVELS).fit(table, y)
        assert model.dual_gap_ <= 1e-8
        assert np.isfinite(model.coef_).all()
        assert (model.coef_[:, 2] == 0.0).all()
        assert not model.certificate_.unique


@pytest.mark.parametrize("size", [1e8, 1e9])
@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize("lam_common", [0.0, 0.1, np.inf])
def test_ridges_of_columns_that_hardly_feel_them(size, crossed, lam_common):
    """Effects of regions and of schools cannot be told apart but by a ridge that is lost in rounding."""
    table, y = sample(19, crossed=crossed)
    strengths = {"kind": "ridge", "lam": 1.0, "lam_upper": 0.5, "lam_common": lam_common, "nested": False}
    model = NestedMTL(**strengths, task_column=LEVELS).fit(table.assign(f0=size * table["f0"]), y)
    assert model.converged_
    free = NestedMTL(**strengths, task_column=LEVELS, penalty_factors=[1e-5, 1, 1, 1]).fit(table, y)
    assert model.objective_ == pytest.approx(free.objective_, rel=1e-9)


def test_levels_read_the_same_in_columns_of_floats():
    table, y = sample(20)
    model = NestedMTL(task_column=LEVELS).fit(table, y)
    floats = table.assign(school=table["school"].astype(float))
    np.testing.assert_array_equal(model.predict(floats), model.predict(table))
    assert NestedMTL(task_column=LEVELS).fit(floats, y).tasks_[0] == "north / 0"
    halves = NestedMTL(task_column=LEVELS).fit(floats.assign(school=floats["school"] + 0.5), y)
    assert halves.tasks_[0] == "north / 0.5"


def test_an_index_of_several_levels_names_them():
    table, y = sample(21)
    X, wanted = table.drop(columns=LEVELS), NestedMTL(task_column=LEVELS).fit(table, y)
    model = NestedMTL().fit(X, y, task=pd.MultiIndex.from_frame(table[LEVELS]))
    np.testing.assert_array_equal(model.coef_, wanted.coef_)
    np.testing.assert_array_equal(model.tasks_, wanted.tasks_)
    with pytest.raises(ValueError, match=r"give \['region', 'school'\], not an array"):
        NestedMTL(task_column=np.array(LEVELS)).fit(table, y)


def test_a_sharing_map_for_every_level():
    table, y = sample(3)
    model = NestedMTL(0.05, 0.2, lam_upper=0.15, task_column=LEVELS, nested=False).fit(table, y)
    for level, values in (("region", ["north", "south", "west"]), ("school", [str(k) for k in range(9)])):
        found = sharing_map(model, level=level)
        assert found.tasks.tolist() == values
        effects = model.effects(level)
        np.testing.assert_array_equal(found.support, np.array([effects[value] for value in values]) != 0.0)
        assert found.n_constant.max() == 0
    assert sharing_map(model).tasks.tolist() == model.tasks_.tolist()
    with pytest.raises(ValueError, match="'county' is no level of this model"):
        sharing_map(model, level="county")
    with pytest.raises(TypeError, match="LassoMTL has no levels of tasks"):
        sharing_map(LassoMTL().fit(table[["f0", "f1"]], y, task=table["school"]), level="school")
