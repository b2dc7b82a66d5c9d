"""A method that fails leaves its estimator as it was."""

import warnings
from copy import deepcopy

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from msmtfl import (
    L12MTL,
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    DirtyMTLCV,
    LassoMTL,
    LassoMTLCV,
    Moments,
    MSMTFLClassifier,
    MSMTFLClassifierCV,
    MultiTaskAuto,
    PartialPooling,
    PartialPoolingCV,
    PretrainedMTL,
    PretrainedMTLCV,
    SharedMTL,
    SharedMTLCV,
)
from msmtfl._estimators.base import MultiTaskModel
from msmtfl._estimators.baselines.lasso import PooledLassoCV
from msmtfl._estimators.baselines.logistic import PooledLogisticCV
from msmtfl._estimators.baselines.ridge import PooledRidgeCV, RidgePerTaskCV
from msmtfl.model_files import load_model, save_model

MODELS = [
    MSMTFL(lam=0.1),
    LassoMTL(lam=0.1),
    L12MTL(lam=0.1),
    DirtyMTL(0.1, 0.2),
    SharedMTL(0.1, 0.2),
    PartialPooling(),
    PretrainedMTL(),
    MSMTFLCV(lams=3, cv=2),
    LassoMTLCV(lams=3, cv=2),
    L12MTLCV(lams=3, cv=2),
    DirtyMTLCV(cv=2),
    SharedMTLCV(cv=2),
    PartialPoolingCV(cv=2),
    PretrainedMTLCV(lams=3, cv=2),
    MSMTFLClassifier(lam=0.1),
    MSMTFLClassifierCV(lams=3, cv=2),
    RidgePerTaskCV(cv=2),
    PooledRidgeCV(cv=2),
    PooledLassoCV(cv=2),
    PooledLogisticCV(cv=2),
    MultiTaskAuto(models=["ridge per task", "pooled ridge"], cv=2, inner_cv=2),
]


def problem(rows=80, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d))
    task = np.repeat(["a", "b"], rows // 2)
    return X, 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(rows), task


def target(model, y):
    return np.where(y > 0, "yes", "no") if hasattr(model, "predict_proba") else y


def state(model):
    """All attributes, and what they hold."""
    return dict(vars(model)), deepcopy(vars(model))


def assert_untouched(model, before):
    objects, values = before
    assert vars(model).keys() == objects.keys()
    for name, value in vars(model).items():
        assert value is objects[name], name
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, values[name], err_msg=name)


@pytest.fixture
def interrupted(monkeypatch):
    """Makes a fit end as by Ctrl-C when it has stored all but a little."""

    def stop(cls, name, after=False):
        original = getattr(cls, name)

        def stopped(self, *args, **options):
            if after:
                original(self, *args, **options)
            raise KeyboardInterrupt

        monkeypatch.setattr(cls, name, stopped)

    return stop


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_fit_that_fails_leaves_the_fit_before(model):
    X, y, task = problem()
    y = target(model, y)
    model.fit(X, y, task=task)
    before, predicted = state(model), model.predict(X, task=task)
    wide = np.hstack([X, X])
    bad = wide.copy()
    bad[3, 7] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(bad, y, task=np.repeat(["c", "d"], len(y) // 2))
    assert_untouched(model, before)
    with pytest.raises(ValueError, match=r"y has 79|inconsistent"):
        model.fit(wide, y[1:], task=task)
    assert_untouched(model, before)
    np.testing.assert_array_equal(model.predict(X, task=task), predicted)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_first_fit_that_fails_leaves_no_fit(model):
    X, y, task = problem()
    model = type(model)(**model.get_params())
    X[2, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.fit(X, target(model, y), task=task)
    assert vars(model).keys() == set(model.get_params(deep=False))
    with pytest.raises(NotFittedError):
        model.predict(X, task=task)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "model",
    [MSMTFL(lam=0.1), MSMTFLCV(lams=3, cv=2), MSMTFLClassifier(lam=0.1), DirtyMTL(0.1, 0.2)],
    ids=lambda model: type(model).__name__,
)
def test_ctrl_c_leaves_the_fit_before(model, after, interrupted):
    X, y, task = problem()
    y = target(model, y)
    model.fit(X, y, task=task)
    before = state(model)
    interrupted(MultiTaskModel, "_store", after)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :4], y, task=task[::-1])
    assert_untouched(model, before)


def test_parameters_that_are_wrong_leave_the_fit():
    X, y, task = problem()
    model = MSMTFL(lam=0.1).fit(X, y, task=task)
    predicted = model.predict(X, task=task)
    with pytest.raises(ValueError, match="lam must be"):
        model.set_params(lam=-1.0).fit(X, y, task=task)
    np.testing.assert_array_equal(model.predict(X, task=task), predicted)
    assert model.lam_ == 0.1


# ------------------------------------------------------------------ batches


def crowding():
    """Rows with which more features are free than a task has samples: a fit to them warns."""
    X, y, _ = problem(rows=4, d=6, seed=1)
    return X, y, np.repeat("c", 4)


def test_a_warning_raised_as_an_error_forgets_no_batch():
    X, y, task = problem()
    more, model = crowding(), MSMTFL(lam=1e-4, theta=1e-6)
    model.partial_fit(X, y, task=task)
    before = state(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="interpolate"):
            model.partial_fit(more[0], more[1], task=more[2])
    assert_untouched(model, before)
    model.partial_fit(X, y, task=task)
    assert model.moments_.rows.tolist() == [80, 80]


def test_ctrl_c_forgets_no_batch(interrupted):
    X, y, task = problem()
    model = MSMTFL(lam=0.1).partial_fit(X, y, task=task)
    before = state(model)
    interrupted(MSMTFL, "_warn")
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, y, task=task)
    assert_untouched(model, before)
    assert model.moments_.rows.sum() == 80


@pytest.mark.parametrize("step", range(4))
def test_ctrl_c_adds_no_part_of_a_batch_to_statistics(step, monkeypatch):
    X, y, task = problem()
    moments = Moments().update(X[:40], y[:40], task=task[:40])
    other = Moments().update(X[40:], y[40:], task=task[40:])
    before = state(moments)
    calls = iter(range(10))

    class Stopping(Moments):
        def __setattr__(self, name, value):
            if next(calls) == step:
                raise KeyboardInterrupt
            super().__setattr__(name, value)

    moments.__class__ = Stopping
    with pytest.raises(KeyboardInterrupt):
        moments.update(X[40:], y[40:], task=task[40:])
    assert_untouched(moments, before)
    assert moments.tasks.tolist() == ["a"]
    calls = iter(range(10))
    with pytest.raises(KeyboardInterrupt):
        moments += other
    assert_untouched(moments, before)
    assert list(moments.seen) == ["a"]


# ------------------------------------------------------------------ tasks that come later


def test_a_task_with_several_columns_of_y_is_refused(tmp_path):
    X, y, task = problem()
    model = MSMTFL(lam=0.1).fit(X, y, task=task)
    before = state(model)
    with pytest.raises(ValueError, match=r"one task at a time: y must be 1-D.*3 columns"):
        model.add_task(X[:20], np.column_stack([y[:20]] * 3), "c")
    with pytest.raises(ValueError, match="one task at a time"):
        model.add_task(X[:20], y[:20, None], "c")
    assert_untouched(model, before)
    model.add_task(X[:20], y[:20], "c")
    save_model(model, tmp_path / "model.msmtfl")
    np.testing.assert_array_equal(load_model(tmp_path / "model.msmtfl").coef_, model.coef_)


@pytest.mark.parametrize("label", [None, np.nan, float("nan"), np.datetime64("NaT", "ns")])
def test_a_task_without_a_label_is_refused(label):
    X, y, task = problem()
    model = MSMTFL(lam=0.1).fit(X, y, task=task)
    before = state(model)
    with pytest.raises(ValueError, match="label of the new task is missing"):
        model.add_task(X, y, label)
    with pytest.raises(TypeError, match="a text or a number, got list"):
        model.add_task(X, y, ["c"])
    assert_untouched(model, before)


def test_ctrl_c_adds_no_part_of_a_task(interrupted):
    X, y, task = problem()
    model = MSMTFL(lam=0.1).fit(X, y, task=task)
    before = state(model)
    interrupted(MSMTFL, "_append", after=True)
    with pytest.raises(KeyboardInterrupt):
        model.add_task(X, y, "c")
    assert_untouched(model, before)


@pytest.mark.parametrize("wide", [False, True])
def test_the_next_batch_keeps_a_task_that_was_added(wide):
    X, y, task = problem()
    given = {} if wide else {"task": task}
    Y = np.column_stack([y, -y]) if wide else y
    model = MSMTFL(lam=0.1).partial_fit(X, Y, **given)
    model.add_task(X[:30], y[:30], "c" if not wide else 2)
    model.partial_fit(X, Y, **given)
    assert len(model.tasks_) == 3
    assert model.moments_.rows.tolist() == ([160, 160, 30] if wide else [80, 80, 30])


# ------------------------------------------------------------------ parameters that are set after the fit


@pytest.mark.parametrize(
    "model",
    [MSMTFL(lam=0.1), MSMTFLClassifier(lam=0.1), RidgePerTaskCV(cv=2), MODELS[-1]],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::msmtfl._estimators.fitted.NewTaskWarning")
def test_unknown_task_is_looked_at_when_it_is_used(model):
    X, y, task = problem()
    model.fit(X, target(model, y), task=task)
    try:
        with pytest.raises(ValueError, match="unknown_task must be 'error', 'mean', 'common' or 'similar', got 'any'"):
            model.set_params(unknown_task="any").predict(X, task=task)
        with pytest.raises(ValueError, match="unknown task label"):
            model.set_params(unknown_task="error").predict(X[:1], task=["new"])
        assert len(model.set_params(unknown_task="mean").predict(X[:1], task=["new"])) == 1
    finally:
        model.set_params(unknown_task="error")


def test_a_loss_that_there_is_not_is_refused_by_predict():
    X, y, task = problem()
    model = MSMTFL(lam=0.1).fit(X, y, task=task)
    with pytest.raises(ValueError, match="loss must be one of"):
        model.set_params(loss="cubic").predict(X, task=task)
