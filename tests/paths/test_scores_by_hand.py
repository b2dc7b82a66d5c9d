"""Held-out errors, their means, criteria and choices against loops that say what each of them is."""

from math import comb, log
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from msmtfl._paths.validation import held_out, remarks
from msmtfl._paths.validation.choice import choose_simplest, simplest_first
from msmtfl._paths.validation.cross_validation import error_scales, mean_errors
from msmtfl._paths.validation.information import information
from msmtfl._paths.validation.remarks import GridEndWarning, warn_if_at_the_end
from msmtfl._paths.validation.too_good import TooGoodWarning

N, D, POINTS = 17, 8, 5


class Coefs:
    """Coefficients (points, d) of one task as solutions keep them."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def used(self):
        return np.flatnonzero(self.values.any(axis=0))

    def dense(self, places, used=None):
        return self.values[places] if used is None else self.values[places][:, used]


def one_task(seed=0, used=2, weighted=True, offset=True, sparse=False):
    rng = np.random.default_rng(seed)
    X, W = rng.standard_normal((N, D)), np.zeros((POINTS, D))
    W[:, rng.permutation(D)[:used]] = rng.standard_normal((POINTS, used))
    task = SimpleNamespace(
        X=csr_array(X) if sparse else X,
        y=rng.standard_normal(N),
        weight=rng.uniform(0.5, 2.0, N) if weighted else None,
        offset=rng.standard_normal(N) if offset else None,
    )
    return task, X, Coefs(W), rng.standard_normal(POINTS)


@pytest.mark.parametrize("at_once", [2**20, 7, 1])
@pytest.mark.parametrize("options", [{}, {"used": 6}, {"sparse": True}, {"weighted": False}, {"offset": False}])
def test_errors_of_a_task_are_weighted_means_over_its_rows(monkeypatch, at_once, options):
    """However many rows are predicted at once, and however the columns in use are taken."""
    monkeypatch.setattr(held_out, "AT_ONCE", at_once)
    task, X, W, intercepts = one_task(**options)
    rows, places, told = np.array([1, 3, 4, 8, 16]), np.array([0, 2, 3]), {}

    def note(some, fitted):
        told.update(zip(some.tolist(), fitted, strict=True))

    weight, found = held_out.task_errors(task, rows, W, intercepts, places, note=note)
    w = np.ones(N) if task.weight is None else task.weight
    beside = np.zeros(N) if task.offset is None else task.offset
    linear = {r: [X[r] @ W.values[p] + intercepts[p] + beside[r] for p in places] for r in rows.tolist()}
    expected = [sum(w[r] * (task.y[r] - linear[r][k]) ** 2 for r in linear) / w[rows].sum() for k in range(3)]
    assert weight == pytest.approx(w[rows].sum(), rel=1e-14)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert list(told) == rows.tolist()
    np.testing.assert_allclose([told[r] for r in rows.tolist()], [linear[r] for r in rows.tolist()], rtol=1e-12)


@pytest.mark.parametrize("at_once", [2**20, 25, 1])
@pytest.mark.parametrize("options", [{}, {"weighted": False}, {"offset": False}])
def test_errors_of_a_loss_of_whole_tasks_are_given_training_rows_and_rows_held_out(monkeypatch, at_once, options):
    monkeypatch.setattr(held_out, "AT_ONCE", at_once)
    task, X, W, _ = one_task(**options)
    train, rows, places, told = np.array([0, 5, 6, 9]), np.array([2, 3, 11]), np.array([1, 3, 4]), []
    w = np.ones(N) if task.weight is None else task.weight
    beside = np.zeros(N) if task.offset is None else task.offset

    def measure(y, weights, out, linear):
        np.testing.assert_array_equal(y, task.y[[0, 2, 3, 5, 6, 9, 11]])
        np.testing.assert_array_equal(weights, w[[0, 2, 3, 5, 6, 9, 11]])
        assert out.tolist() == [False, True, True, False, False, False, True]
        return linear[out] ** 2 + linear[~out].sum(axis=0)

    weight, found = held_out.whole_task_errors(
        task, train, rows, W, places, measure, lambda some, errors: told.append((some, errors))
    )
    linear = np.array([[X[r] @ W.values[p] + beside[r] for p in places] for r in range(N)])
    errors = linear[rows] ** 2 + linear[train].sum(axis=0)
    assert weight == pytest.approx(w[rows].sum(), rel=1e-14)
    np.testing.assert_allclose(found, w[rows] @ errors / w[rows].sum(), rtol=1e-12)
    ((some, noted),) = told
    assert some.tolist() == rows.tolist()
    np.testing.assert_allclose(noted, errors, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_log_losses_of_classes_are_those_of_rows_of_the_class(weighted):
    """Two tasks of three classes, of which the second has no row held out of its own."""
    rng, K, points = np.random.default_rng(1), 3, 4
    of_task = [np.array([0, 2, 4, 6, 7]), np.array([1, 3, 5])]
    label = rng.integers(0, K, 8)
    test = np.array([True, False, True, False, True, False, False, False])
    weight = rng.uniform(0.5, 2.0, 8)
    tasks = [
        SimpleNamespace(rows=rows, y=(label[rows] == c) * 1.0, weight=weight[rows] if weighted else None)
        for rows in of_task
        for c in range(K)
    ]
    data = SimpleNamespace(m=2 * K, classes=K, tasks=tasks, width=(K,))
    P = rng.uniform(0.1, 1.0, (points, 8, K))
    P[0, 0, label[0]] = 0.0  # impossible, and there all the same: the loss is large, not infinite
    found = held_out._class_losses(data, test, P)
    assert np.isnan(found[K:]).all()
    held = [0, 2, 4]
    w = weight if weighted else np.ones(8)
    for c in range(K):
        for p in range(points):
            losses = [
                -log(max(P[p, r, c] / P[p, r].sum(), np.finfo(float).tiny)) if label[r] == c else 0.0 for r in held
            ]
            assert found[c, p] == pytest.approx(np.average(losses, weights=w[held]), rel=1e-12)


def test_mean_errors_are_over_tasks_that_have_a_scale_by_their_weights():
    rng = np.random.default_rng(2)
    mse, weight, scale = rng.uniform(1, 2, (2, 3, 2, 4)), np.array([[1.0, 2.0, 4.0], [3.0, 0.0, 5.0]]), [2.0, 0.5, 0.0]
    mse[1, 1] = np.nan  # a fold without a row of the task
    found = mean_errors(mse, weight, np.array(scale))
    np.testing.assert_allclose(found[0], (1.0 * mse[0, 0] / 2.0 + 2.0 * mse[0, 1] / 0.5) / 3.0, rtol=1e-14)
    np.testing.assert_allclose(found[1], mse[1, 0] / 2.0, rtol=1e-14)
    assert (mean_errors(mse, weight, np.zeros(3)) == 0.0).all()


def test_errors_are_relative_to_variances_and_to_nothing_where_no_task_varies():
    targets = [SimpleNamespace(variance=2.0, square=3.0), SimpleNamespace(variance=0.0, square=5.0)]
    data = SimpleNamespace(targets=targets)
    assert error_scales(data, "neg_nmse").tolist() == [2.0, 0.0]
    assert error_scales(data, "neg_amse").tolist() == [3.0, 5.0]
    assert error_scales(data, "neg_mse").tolist() == [1.0, 1.0]
    assert error_scales(SimpleNamespace(targets=targets[1:]), "neg_nmse").tolist() == [1.0]


def test_the_simplest_of_many_choices_at_once():
    scores = np.random.default_rng(3).normal(size=(4, 6, 5, 7))
    scores[:, 0] = np.round(scores[:, 0])  # ties
    for selection in ("min", "1se"):
        found = choose_simplest(scores, selection)
        assert found.shape == (6, 5)
        for at in np.ndindex(6, 5):
            mean, deviation = scores[(slice(None), *at)].mean(axis=0), scores[(slice(None), *at)].std(axis=0, ddof=1)
            best = int(np.argmax(mean))
            slack = deviation[best] / 2.0 if selection == "1se" else 1e-12 * abs(mean[best])
            assert found[at] == np.flatnonzero(mean >= mean[best] - slack)[0]


def test_simplest_are_few_rows_then_few_entries_then_large_strengths():
    rows, entries = np.array([2, 1, 1, 1, 1]), np.array([1, 5, 3, 3, 3])
    strengths = [np.array([9.0, 9.0, 1.0, 2.0, 2.0]), np.array([9.0, 9.0, 9.0, 1.0, 3.0])]
    assert simplest_first(rows, entries, strengths).tolist() == [4, 3, 2, 1, 0]


# ------------------------------------------------------------------ criteria


def surface_of(n, yy, losses, degrees, units=None, d=6):
    points = len(losses)
    problem = SimpleNamespace(designs=[SimpleNamespace(yy=value) for value in yy], deviance_units=units)
    surface = SimpleNamespace(
        last=np.arange(points).reshape(-1, 1),
        convex=np.ones((points, 1), dtype=bool),
        problem=problem,
        losses=np.array(losses, dtype=float),
        features=[f"x{j}" for j in range(d)],
    )
    surface.degrees = lambda places: np.array(degrees, dtype=float)[places]
    return surface, SimpleNamespace(targets=[SimpleNamespace(rows=rows) for rows in n])


@pytest.mark.parametrize("criterion", ["aic", "bic", "ebic"])
def test_criteria_are_their_formulas(criterion):
    """Of tasks of 20 and 12 rows, one of constant targets, and degrees of freedom up to where a task says nothing."""
    n, yy, d = [20, 12, 15], [30.0, 10.0, 0.0], 6
    losses = [[30.0, 10.0, 0.0], [12.0, 4.0, 0.0], [3.0, 1.0, 0.0], [0.0, 0.5, 0.0]]
    degrees = [[0, 0, 0], [2, 1, 0], [5, 6, 2], [10, 7, 2]]  # 7 of 12 rows are more than half: nothing is known
    surface, data = surface_of(n, yy, losses, degrees, d=d)
    for p, value in enumerate(information(surface, data, criterion)[:, 0]):
        expected = 0.0
        for i in (0, 1):  # the third has nothing to explain
            k = degrees[p][i]
            rss = yy[i] if k > n[i] / 2 else max(losses[p][i], 1e-15 * yy[i])
            small = n[i] / max(n[i] - k - 2, n[i] / 2 - 2)
            if criterion == "ebic":
                charge = log(n[i]) * k + 2 * log(comb(d, min(k, d // 2)))
            else:
                charge = k * (2.0 if criterion == "aic" else log(sum(n)))
            expected += n[i] * log(rss / n[i]) + small * charge
        assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("rows", "degrees", "known"), [(6, 2, True), (6, 3, False), (20, 10, True), (20, 11, False)])
def test_a_task_that_leaves_no_noise_is_as_if_nothing_were_explained(rows, degrees, known):
    surface, data = surface_of([rows], [8.0], [[2.0]], [[degrees]])
    small = rows / max(rows - degrees - 2, rows / 2 - 2, 1e-300)
    small = rows / max(rows - degrees - 2.0, max(rows / 2 - 2.0, 2.0))
    expected = rows * log((2.0 if known else 8.0) / rows) + small * 2.0 * degrees
    assert information(surface, data, "aic")[0, 0] == pytest.approx(expected, rel=1e-12)


def test_deviances_of_a_known_scale_need_no_correction():
    surface, data = surface_of([20, 10], [1.0, 1.0], [[6.0, 3.0]], [[2.0, 1.0]], units=np.array([2.0, 0.5]))
    assert information(surface, data, "bic")[0, 0] == pytest.approx(6.0 / 2.0 + 3.0 / 0.5 + log(30) * 3.0, rel=1e-12)
    data.classes = 2  # rows are there once for every class
    assert information(surface, data, "bic")[0, 0] == pytest.approx(9.0 + log(15) * 3.0, rel=1e-12)


def test_points_that_are_not_convex_have_a_value_of_ebic_only():
    surface, data = surface_of([20], [8.0], [[2.0], [1.0]], [[1.0], [2.0]])
    surface.convex = np.array([[True], [False]])
    assert np.isfinite(information(surface, data, "bic"))[:, 0].tolist() == [True, False]
    assert np.isfinite(information(surface, data, "ebic")).all()
    surface.convex[:] = False
    with pytest.raises(ValueError, match="selection='aic' needs degrees of freedom"):
        information(surface, data, "aic")


# ------------------------------------------------------------------ the end of a grid


def ends(monkeypatch, scores, lams, error=(0.5,), kind="mse", **more):
    """Whether a search with these scores (folds, points) is told that its grid ends too early."""
    scores, told = np.array(scores, dtype=float)[:, :, None], []
    monkeypatch.setattr(remarks, "_nmse", lambda *_: (np.array(error), np.ones(len(error))))
    monkeypatch.setattr(remarks, "warn_user", lambda text, category: told.append((text, category)))
    parameters = {"lam": np.array(lams, dtype=float)[:, None], **more}
    warn_if_at_the_end(None, SimpleNamespace(error=kind), scores, parameters)
    assert all(category is GridEndWarning for _, category in told)
    return [text for text, _ in told]


FALLING = [[-1.0, -0.8, -0.6], [-1.0, -0.8, -0.6]]


def test_a_grid_ends_too_early_where_errors_still_fall(monkeypatch):
    (text,) = ends(monkeypatch, FALLING, [8.0, 2.0, 1.0])
    assert "the smallest lam of the grid, 1," in text
    assert "the mean score is -0.6, and -0.8 at 2 times that lam" in text
    assert "lam_min_ratio=1e-03 (the grid ends at 1e-01 of its largest)" in text


@pytest.mark.parametrize(
    ("scores", "lams", "error"),
    [
        ([[-1.0, -0.6, -0.8]] * 2, [8.0, 2.0, 1.0], 0.5),  # the best is not at the end
        (FALLING, [8.0, 1.8, 1.0], 0.5),  # too near to compare with, and the other one too far
        (FALLING, [8.0, 4.1, 1.0], 0.5),
        (FALLING, [8.0, 2.0, 1.0], 0.0099),  # nothing to gain
        ([[-1.0, -0.604, -0.6]] * 2, [8.0, 2.0, 1.0], 0.5),  # flat: less than one per cent
        ([[-1.0, -0.9, -0.6], [-1.0, -0.7, -0.6]], [8.0, 2.0, 1.0], 0.5),  # gains of 0.3 and 0.1: chance is 0.2
        ([[-1.0, np.nan, -0.6]] * 2, [8.0, 2.0, 1.0], 0.5),
        ([[-1.0, -0.8, -0.6]], [8.0, 2.0, 1.0], 0.5),  # one fold says nothing of chance
        ([[-0.6], [-0.6]], [1.0], 0.5),
    ],
)
def test_no_word_of_a_grid_that_ends_well(monkeypatch, scores, lams, error):
    assert ends(monkeypatch, scores, lams, (error,)) == []


def test_what_a_grid_is_told_is_at_the_border_of_these(monkeypatch):
    assert ends(monkeypatch, FALLING, [8.0, 1.9, 1.0])
    assert ends(monkeypatch, FALLING, [8.0, 4.0, 1.0])
    assert ends(monkeypatch, FALLING, [8.0, 2.0, 1.0], (0.01,))
    assert ends(monkeypatch, [[-1.0, -0.608, -0.6]] * 2, [8.0, 2.0, 1.0])
    assert ends(monkeypatch, [[-1.0, -0.899, -0.6], [-1.0, -0.703, -0.6]], [8.0, 2.0, 1.0])
    assert ends(monkeypatch, [[-1.0, -0.8], [-1.0, -0.8]], [2.0, 1.0])  # two points suffice
    assert ends(monkeypatch, FALLING, [8.0, 2.0, 1.0], kind="deviance") == []
    entry = {"lam_entry": np.array([[0.0], [0.4], [0.4]])}  # 2.1 and 1.4 in all: 1.5 times
    assert ends(monkeypatch, FALLING, [8.0, 1.7, 1.0], **entry) == []


def test_of_several_points_the_nearest_that_is_far_enough_is_compared_with(monkeypatch):
    scores = [[-1.0, -0.9, -0.61, -0.605, -0.6]] * 3
    (text,) = ends(monkeypatch, scores, [8.0, 3.9, 3.0, 1.5, 1.0])
    assert "and -0.61 at 3 times that lam" in text
    assert not ends(monkeypatch, scores, [8.0, 3.9, 3.0, 2.0, 1.0])  # with -0.605


def test_errors_of_a_point_over_variances(monkeypatch):
    """Of folds by the weights held out; 1 where there is nothing to explain or no row was held out."""
    mse = np.array([[4.0, np.nan, 1.0, np.nan], [1.0, 2.0, 1.0, np.nan]])[:, :, None, None]
    held = SimpleNamespace(mse=mse, weight=np.array([[1.0, 5.0, 1.0, 1.0], [3.0, 2.0, 1.0, 1.0]]))
    variances = [2.0, 4.0, 0.0, 1.0]
    data = SimpleNamespace(targets=[SimpleNamespace(variance=one, rows=12) for one in variances], labels=np.arange(4))
    error, total = remarks._nmse(held, SimpleNamespace(data=data), 0, 0)
    np.testing.assert_allclose(error, [(4.0 + 3.0) / 4.0 / 2.0, 2.0 / 4.0, 1.0, 1.0], rtol=1e-14)
    assert total.tolist() == [4.0, 2.0, 2.0, 0.0]


@pytest.mark.parametrize(
    ("rows", "error", "kind", "named"),
    [(10, 9e-7, "mse", True), (9, 9e-7, "mse", False), (10, 2e-6, "mse", False), (10, 9e-7, "deviance", False)],
)
def test_a_task_that_is_known_rather_than_predicted_is_named(monkeypatch, rows, error, kind, named):
    told = []
    monkeypatch.setattr(remarks, "_nmse", lambda *_: (np.array([0.5, error]), np.ones(2)))
    monkeypatch.setattr(remarks, "warn_user", lambda text, category: told.append((text, category)))
    targets = [SimpleNamespace(variance=1.0, rows=rows)] * 2
    data = SimpleNamespace(targets=targets, labels=np.array(["a", "b"]))
    remarks.warn_if_too_good(None, SimpleNamespace(error=kind, data=data), 0, 0)
    assert [category for _, category in told] == [TooGoodWarning] * named
    assert all("task(s) 'b' are predicted with an error (nMSE) of at most 9e-07" in text for text, _ in told)
