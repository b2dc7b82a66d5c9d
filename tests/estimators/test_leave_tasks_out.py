"""Folds that hold out whole tasks: searches score what predicts new tasks."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

import msmtfl
from msmtfl import MSMTFLCV, LassoMTL, LeaveTasksOut, NestedMTLCV, SharedMTLClassifierCV, SharedMTLCV, compare_models
from msmtfl.warnings import NewTaskWarning


def sample(seed=0, m=6, n=20, d=4, levels=1.0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), n)
    X = rng.standard_normal((m * n, d)) + rng.standard_normal((m, d))[task]
    W = rng.standard_normal(d) + 0.3 * rng.standard_normal((m, d))
    y = np.einsum("nj,nj->n", X, W[task]) + levels * rng.standard_normal(m)[task] + rng.standard_normal(m * n)
    return X, y, task


def nested(seed=0, regions=4, schools=4, n=10):
    rng = np.random.default_rng(seed)
    X, school = rng.standard_normal((regions * schools * n, 3)), np.repeat(np.arange(regions * schools), n)
    region = school // schools
    W = (
        np.array([1.0, -1.0, 0.0])
        + rng.standard_normal((regions, 3))[region]
        + 0.1 * rng.standard_normal((16, 3))[school]
    )
    y = np.einsum("nj,nj->n", X, W) + 0.5 * rng.standard_normal(len(X))
    return pd.DataFrame(X, columns=list("abc")).assign(region=region.astype(str), school=school.astype(str)), y


SEARCHES = ["LassoMTL", "MSMTFL", "L12MTL", "DirtyMTL", "SharedMTL", "PartialPooling", "RobustMTL", "PretrainedMTL"]
COMMON = ["SharedMTL", "PartialPooling", "RobustMTL", "PretrainedMTL"]
CASES = [(name, way, {}) for name in SEARCHES for way in ("mean", "similar")]
CASES += [(name, "common", {}) for name in COMMON]
CASES += [(name, "common", {"intercepts": "shrunk"}) for name in ("SharedMTL", "PartialPooling")]
CASES += [("SharedMTL", "common", {"intercepts": "common"}), ("PartialPooling", "common", {"fit_intercept": False})]
CASES += [("MSMTFL", "mean", {"loss": "huber"}), ("LassoMTL", "mean", {"standardize": True, "l1_ratio": 0.5})]


def error_of(fit, X, y, task, on):
    """nMSE of tasks that a fit to the others predicts, on the scale of all samples."""
    with pytest.warns(NewTaskWarning):
        missed = (y[on] - fit.predict(X[on], task=task[on])) ** 2
    labels = np.unique(task[on])
    return np.mean([missed[task[on] == label].mean() / y[task == label].var() for label in labels])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.sampled(5)
@pytest.mark.parametrize(("name", "way", "options"), CASES)
def test_scores_are_those_of_fits_without_the_tasks(name, way, options):
    """Points that a search scores, at both ends, in the middle and the best, against fits to the other tasks."""
    X, y, task = sample()
    search = getattr(msmtfl, f"{name}CV")(cv=LeaveTasksOut(), unknown_task=way, **options).fit(X, y, task=task)
    results, plain = search.cv_results_, getattr(msmtfl, name)
    strengths = [key for key in search.surface_.parameters if key in plain().get_params()]
    reached = np.flatnonzero(np.isfinite(results["mean_test_score"]))
    places = [*reached[[0, len(reached) // 2, -1]].tolist(), search.best_index_]
    for place in places:
        at = {key: float(results[key][place]) for key in strengths}
        if name == "PretrainedMTL":
            at["lam_common"] = None  # every training set chooses its own
        for f in (0, 4):
            on = task == f
            fit = plain(unknown_task=way, **at, **options).fit(X[~on], y[~on], task=task[~on])
            score = -error_of(fit, X, y, task, on)
            if "loss" in options:  # whose scale is that of each training set, in the path as in a fit
                assert results[f"split{f}_test_score"][place] == pytest.approx(score, rel=1e-4)
            else:
                assert results[f"split{f}_test_score"][place] == pytest.approx(score, rel=1e-6)


@pytest.mark.parametrize("kind", ["ridge", "sparse"])
@pytest.mark.parametrize("level", ["region", "school", None])
def test_levels_are_left_out(kind, level):
    """A school of a known region is predicted by what is common and the effects of its region, another without."""
    table, y = nested()
    columns = ["region", "school"]
    options = {"kind": kind, "task_column": columns, "unknown_task": "common"}
    search = NestedMTLCV(cv=LeaveTasksOut(level), lams=6, **options).fit(table, y)
    splits = list(LeaveTasksOut(level, task_column=columns).split(table))
    assert search.n_splits_ == len(splits) == (4 if level == "region" else 16)
    label = (table.region + table.school).to_numpy()
    for f, (train, test) in enumerate(splits[:4]):
        at = {"lam": search.lam_, "lam_common": search.lam_common_, "lam_upper": search.lam_upper_}
        fit = msmtfl.NestedMTL(**options, **at).fit(table.iloc[train], y[train])
        with pytest.warns(NewTaskWarning):
            missed = (y[test] - fit.predict(table.iloc[test])) ** 2
        errors = [missed[label[test] == one].mean() / y[label == one].var() for one in np.unique(label[test])]
        assert search.cv_results_[f"split{f}_test_score"][search.best_index_] == pytest.approx(
            -np.mean(errors), rel=1e-6
        )


def test_regions_left_out_want_stronger_effects_of_regions_than_schools():
    """Regions differ much here: what predicts a school of a known region best is not what predicts a new region best."""
    table, y = nested()
    options = {"kind": "ridge", "task_column": ["region", "school"], "unknown_task": "common"}
    schools = NestedMTLCV(cv=LeaveTasksOut(1), **options).fit(table, y)
    regions = NestedMTLCV(cv=LeaveTasksOut(0), **options).fit(table, y)
    assert schools.best_score_ > 0.5 * regions.best_score_  # both below 0
    assert regions.n_splits_ == 4


@pytest.mark.filterwarnings("ignore::msmtfl.warnings.NewTaskWarning")
def test_classifiers_and_other_searches_of_scikit_learn():
    X, y, task = sample()
    model = SharedMTLClassifierCV(cv=LeaveTasksOut(n_splits=3, random_state=0), unknown_task="common")
    assert model.fit(X, (y > 0).astype(int), task=task).n_splits_ == 3
    table = np.column_stack([X, task])
    folds = LeaveTasksOut(task_column=4)
    assert folds.get_n_splits(table) == 6
    scores = cross_val_score(LassoMTL(task_column=4, unknown_task="mean"), table, y, cv=folds)
    assert np.isfinite(scores).all()
    found = GridSearchCV(LassoMTL(task_column=4, unknown_task="mean"), {"lam": [0.1, 0.01]}, cv=folds).fit(table, y)
    assert found.n_splits_ == 6


def test_sparse_weighted_and_small():
    from scipy.sparse import csr_array

    X, y, task = sample(n=5)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    fits = [SharedMTLCV(cv=LeaveTasksOut(), unknown_task="common", lams=5) for _ in range(2)]
    dense = fits[0].fit(X, y, task=task, sample_weight=weight)
    sparse = fits[1].fit(csr_array(X), y, task=task, sample_weight=weight)
    assert dense.best_score_ == pytest.approx(sparse.best_score_, rel=1e-7)


def test_what_cannot_be_left_out():
    X, y, task = sample()
    with pytest.raises(ValueError, match="no part that is common"):
        MSMTFLCV(cv=LeaveTasksOut(), unknown_task="common").fit(X, y, task=task)
    with pytest.raises(ValueError, match="there is one task only"):
        MSMTFLCV(cv=LeaveTasksOut()).fit(X, y, task=np.zeros(len(y)))
    with pytest.raises(ValueError, match="is no level of the tasks"):
        MSMTFLCV(cv=LeaveTasksOut("region")).fit(X, y, task=task)
    with pytest.raises(ValueError, match="which have 1"):
        MSMTFLCV(cv=LeaveTasksOut(1)).fit(X, y, task=task)
    with pytest.raises(ValueError, match="Use fewer folds"):
        MSMTFLCV(cv=LeaveTasksOut(n_splits=7)).fit(X, y, task=task)
    with pytest.raises(ValueError, match="a label per sample"):
        MSMTFLCV(cv=LeaveTasksOut()).fit(X, np.column_stack([y, -y]))
    with pytest.raises(ValueError, match=r"leave out groups"):
        MSMTFLCV(cv=LeaveTasksOut()).fit(X, y, task=task, groups=np.arange(len(y)) // 2)
    with pytest.raises(ValueError, match="leave_one_task_out"):
        compare_models(X, y, task=task, cv=LeaveTasksOut(), models=["lasso", "shared"])
    with pytest.raises(ValueError, match="give task_column="):
        next(LeaveTasksOut().split(X))
    with pytest.raises(ValueError, match="n_splits must be"):
        LeaveTasksOut(n_splits=1)
    table, target = nested()
    one, model = table.assign(region="north"), NestedMTLCV(task_column=["region", "school"], cv=LeaveTasksOut("region"))
    with (
        pytest.warns(UserWarning, match="level 'region' has one value"),
        pytest.raises(ValueError, match="there is one value of level 'region' only"),
    ):
        model.fit(one, target)


def test_intervals_of_known_tasks_are_not_made_of_new_ones():
    X, y, task = sample()
    model = SharedMTLCV(cv=LeaveTasksOut(), unknown_task="common").fit(X, y, task=task)
    with pytest.raises(ValueError, match="no errors of samples held out"):
        model.predict_interval(X[:5], task=task[:5])
