"""Comparisons whose fits run in processes of their own."""

import os
import time
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from msmtfl import L12MTLCV, MSMTFLCV, DirtyMTLCV, LassoMTL, LassoMTLCV, MultiTaskAuto, compare_models
from msmtfl._estimators.baselines.ridge import PooledRidgeCV, RidgePerTaskCV
from msmtfl._paths.validation.remarks import GridEndWarning
from msmtfl._runtime import processes
from msmtfl._runtime.processes import Processes
from msmtfl.compare import run, work

pytestmark = pytest.mark.timed


def make_data(noise=1.0, m=4, n=30, d=8):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    return X, 2 * X[:, 0] - X[:, 3] + (task == 1) * X[:, 1] + noise * rng.standard_normal(m * n), task


def models():
    return {
        "lasso": LassoMTLCV(lams=8),
        "dirty": DirtyMTLCV(lams=4, ratios=[1.0, 0.5]),
        "l12": L12MTLCV(lams=6),
        "msmtfl": MSMTFLCV(lams=6),
        "fixed": LassoMTL(0.01),
        "ridge": RidgePerTaskCV(),
        "pooled": PooledRidgeCV(),
    }


@pytest.fixture
def apart(monkeypatch):
    """All comparisons are worth processes, and wait for these to start; the names of the jobs that these have done."""
    names = []
    monkeypatch.setattr(work, "WORTHWHILE", 0)
    start, elsewhere = Processes.start, run.elsewhere

    def started(self):
        there = start(self)
        for worker in self.workers:
            assert worker.known.wait(120)
            assert worker.ready
        return there

    def noted(job, filters):
        names.append(job.args[0])
        return elsewhere(job, filters)

    monkeypatch.setattr(Processes, "start", started)
    monkeypatch.setattr(run, "elsewhere", noted)
    return names


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"nested": True, "inner_cv": 2}, {"screen": True, "leave_one_task_out": True}])
@pytest.mark.sampled(3)
def test_processes_do_not_change_the_result(apart, options):
    X, y, task = make_data()
    some = {name: model for name, model in models().items() if not options or name in ("lasso", "fixed", "ridge")}
    one = compare_models(X, y, task=task, models=some, cv=3, **options)
    assert not apart
    two = compare_models(X, y, task=task, models=some, cv=3, n_jobs=2, **options)
    assert apart
    np.testing.assert_array_equal(one.errors, two.errors)
    np.testing.assert_array_equal(one.n_features, two.n_features)
    if one.corrected is not None:
        np.testing.assert_array_equal(one.corrected.by_model, two.corrected.by_model)
    if one.new_task is not None:
        np.testing.assert_array_equal(one.new_task, two.new_task)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dirty", "msmtfl", "pooled"])
@pytest.mark.sampled(3)
def test_a_model_from_another_process_is_the_one_that_would_be_fitted_here(apart, monkeypatch, name):
    X, y, task = make_data()
    some = {name: models()[name], "worse": LassoMTL(100.0)}
    one = MultiTaskAuto(some, cv=3, screen=False).fit(X, y, task=task)
    here = run._Run._here

    def wait(self, job):
        while name not in apart:
            time.sleep(0.01)
        return here(self, job)

    monkeypatch.setattr(run, "slowest_first", lambda models, jobs: sorted(jobs, key=lambda job: job.name != "worse"))
    monkeypatch.setattr(run._Run, "_here", wait)
    two = MultiTaskAuto(some, cv=3, screen=False, n_jobs=2).fit(X, y, task=task)
    assert one.chosen_ == two.chosen_ == name
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert two.best_estimator_.cv == 3
    if name != "pooled":
        assert two.best_estimator_.n_jobs == 2
        np.testing.assert_array_equal(one.surface_.objective, two.surface_.objective)
        np.testing.assert_array_equal(one.surface_.dual_gap, two.surface_.dual_gap)


def test_small_comparisons_stay_in_one_process(monkeypatch):
    def refuse(*given):
        raise AssertionError("this takes less time than starting a process")

    monkeypatch.setattr(processes, "_Worker", refuse)
    X, y, task = make_data()
    two = {"a": LassoMTL(0.1), "b": LassoMTL(0.2)}
    compare_models(X, y, task=task, models=two, cv=3, n_jobs=2)
    monkeypatch.setattr(work, "WORTHWHILE", 0)
    with pytest.raises(AssertionError, match="starting a process"):
        compare_models(X, y, task=task, models=two, cv=3, n_jobs=2)


@pytest.mark.slow
def test_what_the_chosen_search_warns_of_in_another_process_is_said_once(apart):
    X, y, task = make_data(noise=0.1)
    rough = {"lam_min_ratio": 0.1, "lams": 8}
    some = {name: LassoMTLCV(**rough, positive=name == "d") for name in "abcd"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare_models(X, y, task=task, models=some, cv=3, n_jobs=2)
    with pytest.warns(GridEndWarning) as said:
        MultiTaskAuto(some, cv=3, n_jobs=2).fit(X, y, task=task)
    assert len(said) == 1
    assert apart


class Troubled(RegressorMixin, BaseEstimator):
    """Warns, or raises, in another process than that of the test."""

    def __init__(self, home=None, raises=False):
        self.home, self.raises = home, raises

    def fit(self, X, y, *, task=None):
        self.coef_ = np.zeros((4, X.shape[1]))
        if os.getpid() == self.home:
            time.sleep(0.1)  # so that the other one takes a part
        else:
            if self.raises:
                raise ValueError("no fit of this kind")
            warnings.warn("troubled", RuntimeWarning, stacklevel=2)
        return self

    def predict(self, X, *, task=None):
        return np.zeros(X.shape[0])


@pytest.mark.slow
def test_warnings_and_errors_of_other_processes_come_here(apart):
    X, y, task = make_data()
    some = {name: Troubled(os.getpid()) for name in "abcdef"}
    with pytest.warns(RuntimeWarning, match="troubled"):
        compare_models(X, y, task=task, models=some, cv=3, n_jobs=2)
    with pytest.raises(ValueError, match="no fit of this kind"):
        compare_models(X, y, task=task, models={n: m.set_params(raises=True) for n, m in some.items()}, cv=3, n_jobs=2)
