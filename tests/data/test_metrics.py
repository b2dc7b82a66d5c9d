"""The measures of prediction and of coefficients: against plain loops, scikit-learn and each other."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import mean_squared_error, precision_recall_fscore_support, r2_score

from msmtfl.metrics import SupportScores, amse, mse, nmse, parameter_error, support_scores

METRICS = [mse, nmse, amse]


def long_data(seed=0):
    """Rows of three tasks of different size in random order: targets, predictions, labels, integer weights."""
    rng = np.random.default_rng(seed)
    task = rng.permutation(np.repeat(["b", "a", "c"], [7, 12, 4]))
    y = 5.0 + rng.standard_normal(23) * np.where(task == "a", 3.0, 1.0)
    return y, y + rng.standard_normal(23), task, rng.integers(0, 4, 23)


def wide_data(seed=1):
    """Targets (9, 3) with missing cells, predictions and weights of the same shape."""
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((9, 3)) + np.arange(3)
    Y[2:5, 0] = Y[8, 2] = np.nan
    return Y, rng.standard_normal((9, 3)), rng.integers(0, 3, (9, 3)).astype(float)


def by_loops(metric, y, p, task, weight):
    """(values per task, their average) from the definitions, one row at a time."""
    values, sizes = [], []
    for label in sorted(set(task)):
        rows = [(a, b, s) for a, b, t, s in zip(y, p, task, weight, strict=True) if t == label]
        size = sum(s for _, _, s in rows)
        centre = sum(s * a for a, _, s in rows) / size if metric is nmse else 0.0
        unit = 1.0 if metric is mse else sum(s * (a - centre) ** 2 for a, _, s in rows) / size
        values.append(sum(s * (a - b) ** 2 for a, b, s in rows) / size / unit)
        sizes.append(size)
    return np.array(values), sum(v * n for v, n in zip(values, sizes, strict=True)) / sum(sizes)


@pytest.mark.parametrize("metric", METRICS)
def test_definitions(metric):
    y, p, task, weight = long_data()
    values, average = by_loops(metric, y, p, task, weight)
    np.testing.assert_allclose(metric(y, p, task=task, sample_weight=weight, average=False), values, rtol=1e-13)
    assert metric(y, p, task=task, sample_weight=weight) == pytest.approx(average, rel=1e-13)
    assert isinstance(metric(y, p, task=task), float)
    assert metric(y, p) == metric(y, p, task=np.zeros(23)) == metric(y[:, None], p[:, None])  # no labels: one task


@pytest.mark.parametrize("metric", METRICS)
def test_weights_are_repeated_rows_and_order_is_free(metric):
    y, p, task, weight = long_data()
    expected = metric(y, p, task=task, sample_weight=weight, average=False)
    again = np.repeat(np.arange(23), weight)
    np.testing.assert_allclose(metric(y[again], p[again], task=task[again], average=False), expected, rtol=1e-13)
    order = np.random.default_rng(2).permutation(23)
    permuted = metric(y[order], p[order], task=task[order], sample_weight=weight[order], average=False)
    np.testing.assert_allclose(permuted, expected, rtol=1e-13)
    assert metric(y, p, task=task, sample_weight=0.5) == pytest.approx(metric(y, p, task=task), rel=1e-14)


@pytest.mark.parametrize("metric", METRICS)
def test_columns_are_tasks(metric):
    Y, P, weight = wide_data()
    row, task = np.nonzero(~np.isnan(Y))
    P_gaps = np.where(np.isnan(Y), np.inf, P)  # ignored
    for s, s_long in ((None, None), (weight, weight[row, task]), (weight[:, 1] + 1, (weight[:, 1] + 1)[row])):
        expected = metric(Y[row, task], P[row, task], task=task, sample_weight=s_long, average=False)
        np.testing.assert_array_equal(metric(Y, P_gaps, sample_weight=s, average=False), expected)
    complete = np.nan_to_num(Y)
    stacked = metric(complete.T.ravel(), P.T.ravel(), task=np.repeat([0, 1, 2], 9))
    assert metric(complete, P) == pytest.approx(stacked, rel=1e-14)
    names = ["x", "y", "z"]
    assert metric(pd.DataFrame(Y, columns=names), pl.DataFrame(P, schema=names)) == metric(Y, P)


def test_known_values():
    y, p, task, weight = long_data()
    mean = np.array([np.average(y[task == t], weights=weight[task == t]) for t in task])
    np.testing.assert_allclose(nmse(y, mean, task=task, sample_weight=weight, average=False), 1.0, rtol=1e-14)
    np.testing.assert_allclose(amse(y, 0 * y, task=task, sample_weight=weight, average=False), 1.0, rtol=1e-14)
    assert mse(y, p, task=task, sample_weight=weight) == pytest.approx(mean_squared_error(y, p, sample_weight=weight))
    r2 = [r2_score(y[task == t], p[task == t], sample_weight=weight[task == t]) for t in ("a", "b", "c")]
    np.testing.assert_allclose(1.0 - nmse(y, p, task=task, sample_weight=weight, average=False), r2, rtol=1e-12)
    by_category = nmse(y, p, task=pd.Categorical(task, categories=["c", "a", "b"]), average=False)
    np.testing.assert_array_equal(by_category, nmse(y, p, task=task, average=False)[[2, 0, 1]])


@pytest.mark.parametrize(("metric", "unit"), [(nmse, "variance"), (amse, "mean_square")])
def test_units_of_other_rows(metric, unit):
    y, p, task, _ = long_data()
    given = np.array([2.0, 4.0, 0.5])
    expected = mse(y, p, task=task, average=False) / given
    np.testing.assert_array_equal(metric(y, p, task=task, average=False, **{unit: given}), expected)
    assert metric([3.0], [1.0], **{unit: 2.0}) == 2.0  # one row has no variance of its own


def test_parameter_error():
    assert parameter_error([[3, 0, 0], [0, 1, 0]], [[0, 0, 0], [0, 3, -2]]) == pytest.approx(17**0.5)  # 3, 2, 2
    assert parameter_error([1.0, 2.0], [[1.0, 5.0]]) == 3.0  # one task
    A, B = np.random.default_rng(0).standard_normal((2, 4, 6))
    total = 0.0
    for j in range(6):
        row = sum(abs(A[i, j] - B[i, j]) for i in range(4))
        total += row**2
    assert parameter_error(A, B) == pytest.approx(total**0.5, rel=1e-14)
    assert parameter_error(A, A) == 0.0


def test_support_scores():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 3, 8)) * (rng.random((2, 3, 8)) < 0.3)
    zero = np.zeros((3, 8))
    for true, found in ((A, B), (B, A), (A, A), (A, zero), (zero, B), (zero, zero)):
        for rows in (False, True):
            cells = [(W != 0).any(axis=0) if rows else (W != 0).ravel() for W in (true, found)]
            expected = precision_recall_fscore_support(*cells, average="binary", zero_division=1.0)[:3]
            scores = support_scores(true, found, rows=rows)
            assert (scores.precision, scores.recall, scores.f1) == pytest.approx(expected)
    assert support_scores(zero, B) == SupportScores(0.0, 1.0, 0.0)
    assert support_scores(A, zero) == SupportScores(1.0, 0.0, 0.0)
    assert support_scores([1, 0], [[2, 0]]) == SupportScores(1.0, 1.0, 1.0)


NAN, AB = float("nan"), ["a", "a", "b", "b"]
REFUSED = {
    "rows": (lambda: mse([1, 2, 3], [1, 2]), r"y_true has shape \(3,\) but y_pred has \(2,\)"),
    "forms": (lambda: mse([[1, 2]], [1]), r"y_true has shape \(1, 2\) but y_pred has \(1,\)"),
    "no rows": (lambda: mse([], []), r"y_true must be .*n >= 1; it has shape \(0,\)"),
    "text": (lambda: mse([1, 2], ["a", "b"]), "y_pred: y must be numeric"),
    "labels": (lambda: mse([1, 2, 3], [1, 2, 3], task=["a"]), "task has 1 labels but y_true has 3 rows"),
    "labels of columns": (lambda: mse([[1], [2]], [[1], [2]], task=[0, 1]), "every column is a task"),
    "columns": (lambda: mse(pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})), "different columns"),
    "weights": (lambda: mse([1, 2], [1, 2], sample_weight=[1, 2, 3]), r"has shape \(3,\); expected \(2,\)"),
    "no weight": (lambda: mse([1] * 4, [0] * 4, task=AB, sample_weight=[1, 1, 0, 0]), "task 'b' has no measured"),
    "nothing measured": (lambda: mse([[1, NAN]], [[1, 2]]), "task 1 has no measured value.*Leave it out"),
    "NaN target": (lambda: mse([1, NAN], [1, 2]), "y_true contains NaN: row 1 .*2-D y_true may hold NaN"),
    "NaN prediction": (lambda: mse([[1, 2]], [[1, NAN]]), "y_pred contains NaN: column 1, row 0"),
    "infinite target": (lambda: mse([[1, np.inf]], [[1, 2]]), "y_true contains infinity: column 1, row 0"),
    "constant": (lambda: nmse([1, 2, 0.1, 0.1], [0] * 4, task=AB), "'b' has variance 0.0. Leave it out, use mse"),
    "mean is rounded": (lambda: nmse([0.1] * 3, [0] * 3), "pass a positive variance="),
    "zero": (lambda: amse([0, 0, 1, 1], [0] * 4, task=AB), "task 'a' has mean_square 0.0. .* positive mean_square="),
    "units": (lambda: nmse([1, 2], [1, 2], variance=[1, 2]), r"shape \(2,\); expected \(1,\), for tasks 0"),
    "negative unit": (lambda: nmse([1, 2], [1, 2], variance=[-1]), "task 0 has variance -1.0"),
    "average": (lambda: nmse([1, 2], [1, 2], average="macro"), "average must be True or False"),
    "shapes": (lambda: parameter_error(np.ones((2, 3)), np.ones((3, 2))), r"\(2, 3\) but coef has \(3, 2\)"),
    "NaN coefficient": (lambda: support_scores([[1, 2]], [[1, NAN]]), "coef contains NaN: column 1, row 0"),
    "infinite coefficient": (lambda: parameter_error([np.inf], [1]), "coef_true contains infinity"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_place(case):
    call, says = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=says):
        call()
