"""Common values that nothing penalises, and that separate classes (hold counts at 0, put deaths in order), have no best
value: such a fit is not unique, nor certified where it cannot be, and says why."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import linprog

import msmtfl
from msmtfl._data.tasks import read_training
from msmtfl._objective.proofs.common_escapes import escaping_together
from msmtfl._objective.proofs.dual_points import over_unit
from msmtfl._solvers.problems.make_problem import make_problem

M, N = 3, 30
TASK = np.repeat(np.arange(M), N)
LEVELS = np.array(["a / p", "a / q", "b / r"])[TASK]


def data():
    """X, whose second column is one of two values and implies: the class 1, the third of three classes, no counts; and whose
    first column puts events in order."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((M * N, 4))
    X[:, 1] = rng.random(M * N) < 0.2
    implied = X[:, 1] == 1.0
    y = np.where(implied, 1, X[:, 2] + rng.logistic(size=M * N) > 0)
    counts = np.where(implied, 0.0, rng.poisson(np.exp(0.3 * X[:, 2])))
    times = np.empty(M * N)
    times[np.argsort(-X[:, 0])] = np.arange(1.0, M * N + 1)
    targets = {
        "classes": y,
        "three": np.where(implied, 2, y),
        "counts": counts,
        "times": np.column_stack([times, np.ones(M * N)]),
    }
    return X, targets


def fitted(model, target, task=TASK):
    X, targets = data()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, targets[target], task=task)
    return model, [str(one.message) for one in said]


FREE_SECOND = [1.0, 0.0, 1.0, 1.0]
ENDLESS = {
    "pooling": (msmtfl.PartialPoolingClassifier(1.0, 0.0), "classes", TASK, "k_common"),
    "pooled, common level": (
        msmtfl.PartialPoolingClassifier(1.0, 0.0, intercepts="common"),
        "classes",
        TASK,
        "k_common",
    ),
    "pooling, positive": (msmtfl.PartialPoolingClassifier(1.0, 0.0, bounds=(0, np.inf)), "classes", TASK, "k_common"),
    "pooling, three": (msmtfl.PartialPoolingClassifier(1.0, 0.0), "three", TASK, "k_common"),
    "pooling, own": (
        msmtfl.PartialPoolingClassifier(1.0, 1.0, penalty_factors=FREE_SECOND),
        "classes",
        TASK,
        "penalise these",
    ),
    "pooling, counts": (msmtfl.PartialPooling(1.0, 0.0, loss="poisson"), "counts", TASK, "k_common"),
    "pooling, times": (msmtfl.PartialPooling(1.0, 0.0, loss="cox"), "times", TASK, "k_common"),
    "nested": (msmtfl.NestedMTLClassifier(kind="ridge"), "classes", LEVELS, "lam_common"),
    "nested, sparse": (msmtfl.NestedMTLClassifier(lam_common=0), "classes", LEVELS, "lam_common"),
    "nested, counts": (msmtfl.NestedMTL(lam_common=0, loss="poisson"), "counts", LEVELS, "lam_common"),
    "armul": (msmtfl.RobustMTL(1.0, 0.0, kind="armul", loss="poisson"), "counts", TASK, "lam_common"),
    "rmtfl": (
        msmtfl.RobustMTL(1.0, 1.0, kind="rmtfl", loss="poisson", penalty_factors=FREE_SECOND),
        "counts",
        TASK,
        "penalise these",
    ),
    "shared, ridges": (
        msmtfl.SharedMTLClassifier(0.1, 0.1, l1_ratio=0.5, penalty_factors=FREE_SECOND),
        "classes",
        TASK,
        "penalise these",
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_fit_without_minimiser_is_neither_unique_nor_certified_and_says_why(name):
    model, target, task, way_out = ENDLESS[name]
    model, said = fitted(model, target, task)
    stage = model.stages_[-1]
    assert not stage.unique
    assert not model.certificate_.unique
    assert stage.endless
    assert not model.converged_
    assert stage.dual_gap > model.tol
    assert "no finite coefficients are best" in model.stopping_reason_
    about = [one for one in said if "no finite coefficients minimise the loss" in one]
    assert len(about) == 1
    assert way_out in about[0]
    assert not any("do not determine the common values" in one for one in said)
    expected = "'x0'" if target == "times" else "'x1'"
    assert expected in about[0]


@pytest.mark.parametrize(
    ("model", "target", "task"),
    [
        (msmtfl.PartialPoolingClassifier(1.0, 0.1), "classes", TASK),
        (msmtfl.PartialPoolingClassifier(1.0, 0.0, bounds=(-5, 5)), "classes", TASK),
        (msmtfl.PartialPoolingClassifier(1.0, 0.0, bounds=(-np.inf, 0)), "classes", TASK),
        (msmtfl.PartialPooling(1.0, 0.1, loss="poisson"), "counts", TASK),
        (msmtfl.NestedMTLClassifier(kind="ridge", lam_common=1.0), "classes", LEVELS),
        (msmtfl.RobustMTL(1.0, 0.1, kind="armul", loss="poisson"), "counts", TASK),
    ],
)
def test_what_is_penalised_or_bounded_has_a_minimiser(model, target, task):
    model, said = fitted(model, target, task)
    assert model.converged_
    assert model.stages_[-1].unique
    assert not model.stages_[-1].endless
    assert not any("no finite coefficients" in one for one in said)


def test_where_all_classes_are_separated_the_loss_is_gone_but_the_coefficients_are_not_unique():
    X, _ = data()
    model = msmtfl.PartialPoolingClassifier(1.0, 0.0)
    with pytest.warns(UserWarning, match="no finite coefficients minimise the loss.*k_common > 0"):
        model.fit(X, (X[:, 0] > 0).astype(int), task=TASK)
    assert not model.stages_[-1].unique
    assert model.stages_[-1].endless
    assert 0.0 <= model.dual_gap_ <= model.tol
    assert model.objective_ <= 1e-8


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_directions_are_those_of_a_linear_program(loss, seed):
    """Of blocks in common and of tasks' own, some of which are open, against the program written out; far along the
    direction that it finds, if there is one."""
    rng = np.random.default_rng(seed)
    m, d, n = int(rng.integers(1, 4)), int(rng.integers(1, 4)), 7
    X, task = np.round(rng.standard_normal((m * n, d)), 1), np.repeat(np.arange(m), n)
    y = (X[:, 0] + 0.7 * rng.standard_normal(m * n) > 0).astype(float) * (1 + 2 * (loss == "poisson"))
    y[::n], y[1::n] = y.max(initial=1.0), 0.0
    data = read_training(X, y, task=task)
    problem = make_problem(data, loss=loss, fit_intercept=bool(seed % 2), standardize=False, positive=False)
    belongs = np.column_stack([np.ones(m, dtype=bool), np.eye(m, dtype=bool)])
    open_ = rng.random((m + 1, d)) < 0.6
    entries = [(k, j) for k in range(m + 1) for j in range(d) if open_[k, j]]
    columns = np.zeros((m * n, len(entries) + m))
    for c, (k, j) in enumerate(entries):
        rows = belongs[task, k]
        columns[rows, c] = X[rows, j]
    if seed % 2:
        columns[np.arange(m * n), len(entries) + task] = 1.0
    away = np.where(y > 0.5, 1.0, -1.0) if loss == "logistic" else np.where(y > 0.0, 0.0, -1.0)
    low, high = np.minimum(away, 0.0), np.maximum(away, 0.0)
    A, b = np.vstack([columns, -columns]), np.concatenate([high, -low])
    found = linprog(-(away @ columns), A_ub=A, b_ub=b, bounds=[(None, None)] * columns.shape[1])
    z = np.zeros((m + 1, d))
    for (k, j), value in zip(entries, found.x, strict=False):
        z[k, j] = value
    endless = bool(found.fun < -1e-6)
    W = 1e3 * (z[0] + z[1:])
    own = escaping_together(problem.designs, W, open_, belongs)
    assert bool(own) == endless
    for i in own:
        assert own[i].size
        assert not (own[i] >= d).any()


def test_what_is_beyond_the_range_of_floats_is_no_relative_gap():
    assert over_unit(np.inf, np.inf) == np.inf
    assert over_unit(1.0, np.inf) == np.inf
    assert over_unit(1.0, 2.0) == 0.5


def test_rows_whose_curvature_has_underflowed_ask_for_nothing():
    """Without an own intercept, at a level far out: nothing is divided by 0."""
    X, y = np.array([[1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 0.0])
    problem = make_problem(
        read_training(X, y, task=np.zeros(3, dtype=int)),
        loss="logistic",
        fit_intercept=False,
        standardize=False,
        positive=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, target = problem.designs[0].parabola(
            X, np.array([-800.0, 1.0, -800.0]), np.zeros(3), np.array([0.0, 0.2, 0.0])
        )
    assert np.isfinite(target).all()


def test_a_doubt_about_common_values_with_a_ridge_names_features():
    """Nearly dependent columns that are free, with a ridge on all others: what is solved has columns for b and for all
    deviations, one after the other."""
    rng = np.random.default_rng(3580)
    n, d = 16, 4
    X = rng.standard_normal((4 * n, 1)) + 1e-9 * rng.standard_normal((4 * n, d))
    y, task = np.full(4 * n, 2.5), np.repeat(np.arange(4), n)
    y[task == 1] = rng.standard_normal(n)
    model = msmtfl.SharedMTL(
        2.4e-3, 2.4e-2, 0.05, intercepts="common", l1_ratio=0.5, penalty_factors=[1.0, 0.0, 0.0, 1.0]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, task=task)
    doubt = model.stages_[-1].doubt
    assert doubt is None or (doubt.features < d).all()
