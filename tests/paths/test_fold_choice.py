"""Errors of folds at points that the other folds choose, and tasks whose errors are too small to be true."""

from types import SimpleNamespace

import numpy as np
import pytest

from msmtfl import L12MTLCV, MSMTFLCV, DirtyMTLCV, LassoMTLCV, Moments, MSMTFLClassifierCV, SharedMTLCV
from msmtfl._paths.searched import strengths_in
from msmtfl._paths.validation.other_folds import cross_fitted_score, points_without
from msmtfl._paths.validation.remarks import GridEndWarning
from msmtfl._paths.validation.too_good import TooGoodWarning
from msmtfl.model_files import load_model, save_model
from msmtfl.plots.views import evidence_over_lasso, gain_over_lasso


def make_data(seed=0, m=3, n=24, d=6, noise=1.0):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)), np.repeat([f"t{i}" for i in range(m)], n)
    return X, X[:, 0] - X[:, 1] + noise * rng.standard_normal(m * n), task


def scored(scores, selection="min"):
    """A search with these scores (folds, points), of which later points are larger models."""
    folds, points = scores.shape
    columns = {f"split{f}_test_score": scores[f] for f in range(folds)}
    sizes = np.arange(1, points + 1)
    results = columns | {"lam": 1.0 / sizes, "theta": np.full(points, np.inf), "n_rows": sizes, "n_entries": sizes}
    return SimpleNamespace(cv_results_=results, n_splits_=folds, selection=selection)


def test_a_fold_is_scored_where_the_others_choose():
    scores = np.array([[1.0, 5.0, 2.0], [4.0, 0.0, 3.0], [3.0, 2.0, 3.5]])
    model = scored(scores)
    assert points_without(model).tolist() == [0, 1, 0]  # of the last two folds' equals the smallest model
    assert cross_fitted_score(model) == np.mean([1.0, 0.0, 3.0])
    assert points_without(model, np.array([1, 2])).tolist() == [2, 1, 1]


def test_ties_and_one_standard_error_go_as_in_the_search():
    X, y, task = make_data()
    for selection in ("min", "1se"):
        model = MSMTFLCV(lams=8, cv=4, selection=selection).fit(X, y, task=task)
        scores = np.array([model.cv_results_[f"split{f}_test_score"] for f in range(4)])
        for f, point in enumerate(points_without(model)):
            rest = np.delete(scores, f, axis=0)
            mean, se = rest.mean(axis=0), rest.std(axis=0, ddof=1) / np.sqrt(3)
            mean = np.where(np.isnan(mean), -np.inf, mean)  # points that the search has left out
            slack = se[np.argmax(mean)] if selection == "1se" else 1e-12 * mean.max()
            eligible = np.flatnonzero(mean >= mean.max() - abs(slack))
            fewest = model.cv_results_["n_rows"][eligible].min()
            assert point in eligible
            assert model.cv_results_["n_rows"][point] == fewest


def test_ties_are_broken_by_strengths_of_any_name():
    """Scores and sizes are equal: the strongest penalty is taken, whatever it is called."""
    results = scored(np.ones((3, 4))).cv_results_
    folds = {name: values for name, values in results.items() if name.startswith("split")}
    sizes = {"n_rows": np.ones(4), "n_entries": np.ones(4)}
    mine = {
        "lam_mine": np.array([1.0, 3.0, 2.0, 3.0]),
        "ratio": np.arange(4.0),
        "lam_other": np.array([0.0, 1.0, 9.0, 2.0]),
    }
    model = SimpleNamespace(cv_results_=mine | sizes | folds, n_splits_=3, selection="min")
    assert points_without(model).tolist() == [3, 3, 3]


@pytest.mark.parametrize(
    "model",
    [
        MSMTFLCV(4, cv=3),
        MSMTFLCV(4, cv=3, entry_shares=[0, 1]),
        LassoMTLCV(4, cv=3),
        L12MTLCV(4, cv=3),
        DirtyMTLCV(4, cv=3),
        SharedMTLCV(4, cv=3),
    ],
)
def test_the_columns_of_results_name_the_parameters_of_the_surface(model, tmp_path):
    X, y, task = make_data()
    model.fit(X, y, task=task)
    save_model(model, tmp_path / "m.msmtfl")
    for results in (model.cv_results_, load_model(tmp_path / "m.msmtfl").cv_results_):
        found = strengths_in(results)
        assert list(found) == list(model.surface_.parameters)
        for name, values in model.surface_.parameters.items():
            np.testing.assert_array_equal(found[name], values.ravel())


def test_the_best_of_many_is_too_good_and_the_choice_of_others_is_not():
    """Two hundred points without any difference: the truth is 0."""
    rng = np.random.default_rng(0)
    best, fair = [], []
    for _ in range(200):
        scores = rng.standard_normal((5, 200))
        best.append(scores.mean(axis=0).max())
        fair.append(cross_fitted_score(scored(scores)))
    assert np.mean(best) > 1.0
    assert abs(np.mean(fair)) < 3 * np.std(fair) / np.sqrt(200)
    assert np.std(fair) / np.sqrt(200) < 0.05


def test_models_have_it_and_files_keep_it(tmp_path):
    X, y, task = make_data()
    for model in (MSMTFLCV(lams=6, cv=3), DirtyMTLCV(lams=4, cv=3), MSMTFLClassifierCV(lams=4, cv=3, entry_shares=0)):
        model.fit(X, y > 0 if "Classifier" in type(model).__name__ else y, task=task)
        assert model.cross_fitted_score_ <= model.best_score_
        save_model(model, tmp_path / "m.msmtfl")
        assert load_model(tmp_path / "m.msmtfl").cross_fitted_score_ == model.cross_fitted_score_
    for without in (
        MSMTFLCV(lams=4, selection="bic"),
        LassoMTLCV(lams=4, cv=[(np.arange(0, 72, 2), np.arange(1, 72, 2))]),
    ):
        without.fit(X, y, task=task)
        assert not hasattr(without, "cross_fitted_score_")


def test_evidence_over_the_lasso_is_that_of_tasks_and_folds():
    X, y, task = make_data(1)
    model = MSMTFLCV(lams=6, cv=4).fit(X, y, task=task)
    found, (by_task, reach) = evidence_over_lasso(model), gain_over_lasso(model)
    np.testing.assert_array_equal(found.by_task, by_task)
    np.testing.assert_allclose(found.difference, by_task.mean(), rtol=1e-9)  # tasks of equal size
    assert found.reach == pytest.approx(3.182446305284263 * found.se)  # Student's t of four folds
    assert (reach > 0).all()


# ------------------------------------------------------------------ too good to be true


def test_a_task_whose_target_is_computed_from_a_feature_is_named():
    X, y, task = make_data()
    y[task == "t1"] = 3 * X[task == "t1", 2] + 1
    words = (
        r"^Too good to be true: held-out targets of task\(s\) 't1' are predicted with an error \(nMSE\) of "
        r"at most \de-\d+\. "
    )
    lams = {"lams": [1e-5, 1e-6]}
    with pytest.warns(TooGoodWarning, match=words):
        LassoMTLCV(cv=3, **lams).fit(X, y, task=task)
    with pytest.warns(TooGoodWarning, match=words):
        LassoMTLCV(**lams).fit_moments([Moments().update(X[k::3], y[k::3], task=task[k::3]) for k in range(3)])
    y += 0.01 * np.random.default_rng(0).standard_normal(len(y))
    LassoMTLCV(cv=3, **lams).fit(X, y, task=task)  # a warning would be an error


def test_a_target_of_few_values_may_well_be_told_exactly():
    X, y, task = make_data()
    X[:, 2] = np.tile([0.0, 1.0, 2.0], 24)
    y[task == "t1"] = X[task == "t1", 2]
    LassoMTLCV(cv=3, lams=[1e-5, 1e-6]).fit(X, y, task=task)


# ------------------------------------------------------------------ grids that end too early


def far_from_zero(mean=100.0):
    """Targets with a large mean, which a constant column has to learn, as there is no intercept."""
    X, y, task = make_data(1, n=20, d=25)
    return np.column_stack([X, np.ones(len(y))]), y + mean, task


@pytest.mark.parametrize("kind", [L12MTLCV, DirtyMTLCV])
def test_a_grid_that_ends_where_errors_fall_says_so(kind):
    X, y, task = far_from_zero()
    options = {"fit_intercept": False, "cv": 4, "lams": 15}
    said = r"smallest lam(_b)? of the grid, .* still falling .* lam_min_ratio=1e-04 \(the grid ends at 1e-02"
    with pytest.warns(GridEndWarning, match=said):
        early = kind(**options).fit(X, y, task=task)
    further = kind(**options, lam_min_ratio=1e-4).fit(X, y, task=task)  # a warning would be an error
    assert further.best_score_ > early.best_score_ + 0.05
    kind(**options | {"lams": 3}).fit(X, y, task=task)  # of so coarse a grid the end tells nothing
    kind(**options | {"lams": [2.0, 1.0]}).fit(X, y, task=task)  # who gives lams knows where they end


@pytest.mark.slow
@pytest.mark.parametrize("kind", [MSMTFLCV, LassoMTLCV, L12MTLCV, DirtyMTLCV, SharedMTLCV])
@pytest.mark.parametrize("noise", [1.0, 0.02])
@pytest.mark.sampled(3)
def test_ordinary_grids_do_not_end_too_early(kind, noise):
    for seed in range(3):
        X, y, task = make_data(seed, d=10, noise=noise)
        kind(lams=15, cv=4).fit(X, y + 100.0, task=task)  # a warning would be an error
