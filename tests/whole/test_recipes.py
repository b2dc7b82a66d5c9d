"""The recipes of CONTRIBUTING: a loss, a shape, a kind of data, a family, each added by one class and used at once."""

from typing import ClassVar

import numpy as np
import pytest
from scipy.optimize import minimize

from msmtfl import (
    L12MTL,
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    LassoMTL,
    PartialPooling,
    SharedMTL,
    SharedMTLCV,
    regularization_surface,
)
from msmtfl._data.designs import Data
from msmtfl._data.forms.dense import DenseRows, RowTask
from msmtfl._data.task_data import Target
from msmtfl._objective import losses
from msmtfl._objective.problem import Problem
from msmtfl.formulas import formula
from msmtfl.model_files import load_model, save_model


def make(seed=0, n=30, m=3, d=6):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    return X, 1.5 * X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(m * n), task


# ------------------------------------------------------------------ a loss


class LogCosh(losses.Separable):
    """A smooth cousin of Huber's loss, log cosh(y - f): one class, as `Loss` asks for."""

    squared: ClassVar[bool] = False
    linear: ClassVar[bool] = True
    least: ClassVar[float] = -np.inf
    text: ClassVar[str] = "2/({m} nᵢ) Σᵣ log cosh(fᵣ − yᵣ)"
    note: ClassVar[str] = ""

    def value(self, y, f):
        r = np.abs(f - y)
        return r + np.log1p(np.exp(-2.0 * r)) - np.log(2.0)

    def slope(self, y, f):
        return np.tanh(f - y)

    def curvature(self, y, f):
        return 1.0 - np.tanh(f - y) ** 2

    def majorant(self, y, f):
        return np.ones_like(f)

    def excess(self, y, f, s):
        t, inside = np.tanh(f - y), np.abs(s) < 1.0
        u = np.arctanh(np.where(inside, s, 0.0))
        # the divergence of the conjugate, 1/2 (1 + s) log(1 + s) + 1/2 (1 - s) log(1 - s), written without cancellation
        parts = self.value(y, f) - (-0.5 * np.log1p(-(np.where(inside, s, 0.0) ** 2))) + s * (u - (f - y))
        return np.where(inside, np.maximum(parts, 0.0), np.where(np.abs(s - t) == 0.0, 0.0, np.inf))

    def levels(self, y, g):
        return float((y - g).min()), float((y - g).max())

    def response(self, f):
        return f


@pytest.fixture
def log_cosh(monkeypatch):
    monkeypatch.setitem(losses.LOSSES, "logcosh", lambda epsilon: LogCosh())


@pytest.mark.slow
def test_a_loss_is_one_class(log_cosh, tmp_path):
    """Fit, certificate, path, cross-validation, formula and model file know it; a general optimiser finds nothing better."""
    X, y, task = make()
    model = MSMTFL(0.05, np.inf, loss="logcosh").fit(X, y, task=task)
    assert model.converged_
    assert 0.0 <= model.dual_gap_ <= 1e-8
    m, n, d = 3, 30, 6
    loss = LogCosh()

    def objective(z):
        W, b = z[: m * d].reshape(m, d), z[m * d :]
        rest = sum(loss.value(y[task == i], X[task == i] @ W[i] + b[i]).sum() for i in range(m))
        return 2.0 / (m * n) * rest + 0.05 * np.sqrt(W**2 + 1e-16).sum()

    found = np.concatenate([model.coef_.ravel(), model.intercept_])
    best = minimize(objective, found, method="L-BFGS-B", options={"maxiter": 2000})
    assert objective(found) <= best.fun + 1e-8
    assert "log cosh" in formula(model)
    surface = regularization_surface(X, y, task=task, loss="logcosh", lams=5, theta_ratios=[2.0])
    assert surface.dual_gap.max() <= 1e-8
    search = MSMTFLCV(lams=5, cv=3, loss="logcosh").fit(X, y, task=task)
    assert search.best_score_ > -0.5
    path = tmp_path / "model.msmtfl"
    save_model(search, path)
    np.testing.assert_array_equal(load_model(path).predict(X, task=task), search.predict(X, task=task))


@pytest.mark.parametrize(
    "model",
    [
        L12MTL(0.05, loss="logcosh"),
        DirtyMTL(0.02, 0.05, loss="logcosh"),
        SharedMTL(0.05, 0.05, loss="logcosh"),
        PartialPooling(1.0, loss="logcosh"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_loss_serves_families_that_couple_the_tasks(log_cosh, model):
    X, y, task = make()
    model.fit(X, y, task=task)
    assert model.dual_gap_ <= model.tol
    assert model.score(X, y, task=task) > 0.5


# ------------------------------------------------------------------ a shape


class Exponential:
    def value(self, t, theta):
        return theta * (1.0 - np.exp(-t / theta))

    def slope(self, t, theta):
        return np.exp(-t / theta)


@pytest.mark.parametrize("make_model", [MSMTFL, L12MTL])
def test_a_shape_is_one_class(make_model):
    X, y, task = make()
    model = make_model(0.1, 1.0, penalty=Exponential(), max_stages=50).fit(X, y, task=task)
    assert model.converged_
    assert model.certificate_.critical <= 1e-6
    objectives = [stage.objective for stage in model.stages_]
    assert np.diff(objectives).max() <= 1e-15 * objectives[0]  # what rounding makes of equal ones


@pytest.mark.slow
def test_a_shape_serves_searches_and_bi_level_models():
    X, y, task = make()
    search = MSMTFLCV(lams=5, cv=3, penalty=Exponential(), entry_shares=[0.0, 0.5]).fit(X, y, task=task)
    assert np.isfinite(search.best_score_)


# ------------------------------------------------------------------ a kind of data


class Pairs:
    """Data that are a list of (X, y), one for each task, rows never put together: what `Data` asks for, and two folds."""

    form, task_position, named = "long", None, False

    def __init__(self, pairs):
        self.pairs, self.m, self.d = pairs, len(pairs), pairs[0][0].shape[1]
        self.labels, self.features = np.arange(self.m), np.array([f"x{j}" for j in range(self.d)], dtype=object)

    @property
    def targets(self):
        return [Target(len(y), y.mean(), y.var(), (y**2).mean()) for _, y in self.pairs]

    def designs(self, centre, n_jobs=None):
        return [RowTask(DenseRows(X, None, centre), y) for X, y in self.pairs]

    def splits(self):
        return [Half(f) for f in range(2)]

    def training(self, designs, keep):
        return Pairs([(X[keep::2], y[keep::2]) for X, y in self.pairs]).designs(True)

    def gather(self, designs, keeps, n_jobs=None):
        pass

    def release(self, designs):
        pass


class Half:
    """Every second row, beginning with `train`, trains; the others are held out."""

    def __init__(self, train):
        self.train = train

    def measure(self, data, surface, scorer):
        errors = np.full((data.m, *surface.last.shape), np.nan)
        for k, l in np.argwhere(surface.reached):  # a few points at a time
            W, b = surface.coef(k, l), surface.intercept(k, l)
            for i, (X, y) in enumerate(data.pairs):
                X, y = X[1 - self.train :: 2], y[1 - self.train :: 2]
                errors[i, k, l] = ((y - X @ W[i] - b[i]) ** 2).mean()
        return errors, np.array([len(y) / 2 for _, y in data.pairs]), None


@pytest.mark.parametrize("make_model", [MSMTFL, LassoMTL, L12MTL, DirtyMTL, SharedMTL])
def test_a_kind_of_data_is_one_class_for_every_family(make_model):
    X, y, task = make()
    pairs = Pairs([(X[task == i], y[task == i]) for i in range(3)])
    assert isinstance(pairs, Data)
    model = make_model(0.1).fit(pairs, None)
    np.testing.assert_allclose(model.coef_, make_model(0.1).fit(X, y, task=task).coef_, atol=1e-12)


@pytest.mark.parametrize("make_model", [MSMTFLCV, L12MTLCV, SharedMTLCV])
def test_its_folds_serve_searches(make_model):
    X, y, task = make()
    model = make_model(lams=6).fit(Pairs([(X[task == i], y[task == i]) for i in range(3)]), None)
    halves = [(np.flatnonzero(np.arange(90) % 2 == f), np.flatnonzero(np.arange(90) % 2 != f)) for f in range(2)]
    same = make_model(lams=6, cv=halves).fit(X, y, task=task)
    assert model.best_point_ == same.best_point_
    assert model.best_score_ == pytest.approx(same.best_score_, rel=1e-10)


# ------------------------------------------------------------------ what a problem is


def test_a_problem_makes_no_solvers():
    """It says what is minimised: neither its module nor anything that it imports is of the rooms above."""
    import ast
    import inspect

    from msmtfl._objective import problem

    tree = ast.parse(inspect.getsource(problem))
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
    assert not [name for name in imported if "_solvers" in name or "_paths" in name]
    assert not hasattr(Problem, "lassos")
