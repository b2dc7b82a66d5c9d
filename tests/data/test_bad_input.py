"""Bad input: every refusal names the place and the way out."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from msmtfl import MSMTFL, LassoMTL, stack_tasks

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 4))
Y = np.column_stack([2 * X[:, 0], X[:, 1], X[:, 2] - X[:, 3]]) + 0.1 * rng.standard_normal((40, 3))
y = Y[:, 0]
TASK = np.repeat(["left", "right"], 20)
TABLE = pd.DataFrame(X, columns=["age", "bmi", "sex", "size"]).assign(school=TASK)


def put(array, place, value, dtype=None):
    """A copy of an array with one value (or more) changed."""
    out = np.array(array, dtype=dtype)
    out[place] = value
    return out


def put_table(column, row, value, dtype=None):
    out = TABLE.copy()
    if dtype is not None:
        out[column] = out[column].astype(dtype)
    out.loc[row, column] = value
    return out


def fit(X=X, y=y, task=TASK, sample_weight=None, **parameters):
    return MSMTFL(**parameters).fit(X, y, task=task, sample_weight=sample_weight)


def fit_table(table, task_column="school", y=y):
    return MSMTFL(task_column=task_column).fit(table, y)


def refused(call, error, *says):
    """A test case: what is called, the error, and patterns that its message holds."""
    return call, error, says


X2 = r"column ('x2'|2\b)"  # the third column of an array

CASES = {
    # values of X
    "NaN in X": refused(lambda: fit(put(X, (5, 2), np.nan)), ValueError, "NaN", X2, "row 5", "impute|drop"),
    "infinity in X": refused(lambda: fit(put(X, (5, 2), np.inf)), ValueError, "infinity", X2, "row 5"),
    "infinity in X, not centred": refused(
        lambda: fit(put(X, (5, 2), -np.inf), fit_intercept=False), ValueError, "infinity", X2, "row 5"
    ),
    "infinity in float32 X": refused(
        lambda: fit(put(X, (5, 2), np.inf, np.float32)), ValueError, "infinity", X2, "row 5"
    ),
    "NaN in a table": refused(
        lambda: fit_table(put_table("bmi", 7, np.nan)), ValueError, "NaN", "column 'bmi'", "row 7", "impute|drop"
    ),
    "NA in a nullable column": refused(
        lambda: fit_table(put_table("bmi", 7, pd.NA, "Float64")), ValueError, "NaN", "column 'bmi'", "row 7"
    ),
    "null in a polars table": refused(
        lambda: fit_table(pl.from_pandas(put_table("bmi", 7, np.nan))), ValueError, "NaN", "column 'bmi'", "row 7"
    ),
    "NaN beside a task column of an array": refused(
        lambda: fit_table(put(np.insert(X, 0, TASK == "left", axis=1), (5, 2), np.nan), 0), ValueError, X2, "row 5"
    ),
    "NaN in X at predict": refused(
        lambda: fit().predict(put(X, (5, 2), np.nan), task=TASK), ValueError, "NaN", X2, "row 5"
    ),
    "string in X": refused(
        lambda: fit(put(X, (5, 2), "red", object)), ValueError, X2, "row 5", "'red'", "one-hot", "task_column="
    ),
    "string in a table": refused(
        lambda: fit_table(put_table("bmi", 7, "red", object)), ValueError, "column 'bmi'", "row 7", "'red'", "one-hot"
    ),
    "string in a polars table": refused(
        lambda: fit_table(pl.from_pandas(TABLE.assign(bmi="red"))), ValueError, "column 'bmi'", "row 0", "'red'"
    ),
    "task column left among the features": refused(
        lambda: MSMTFL().fit(TABLE, y), ValueError, "column 'school'", "row 0", "'left'", "task_column="
    ),
    "complex X": refused(
        lambda: fit(put(X, (5, 2), 1j, complex)), ValueError, "complex data not supported", X2, "row 5", "real"
    ),
    "complex value in an object array": refused(
        lambda: fit(put(X, (5, 2), 1j, object)), ValueError, "complex data not supported", X2, "row 5", "real"
    ),
    "integer beyond float": refused(
        lambda: fit(put(X, (5, 2), 10**400, object)), ValueError, X2, "row 5", "too large|overflow", "rescale"
    ),
    "long double beyond float": refused(
        lambda: fit(put(X, (5, 2), np.longdouble("1e4000"), np.longdouble)), ValueError, X2, "row 5"
    ),
    "squares of X overflow": refused(
        lambda: fit(put(X, (5, 2), 1e200)), ValueError, X2, "task 'left'", "overflow", "rescale"
    ),
    "squares of X overflow, weighted": refused(
        lambda: fit(put(X, (25, 2), -1e160), sample_weight=np.full(40, 2.0)), ValueError, X2, "task 'right'", "rescale"
    ),
    # form of X
    "no rows": refused(lambda: fit(X[:0], y[:0], TASK[:0]), ValueError, r"0 sample\(s\)", "minimum of 1"),
    "no columns": refused(lambda: fit(X[:, :0]), ValueError, r"0 feature\(s\)", "minimum of 1"),
    "only a task column": refused(lambda: fit_table(TABLE[["school"]]), ValueError, r"(0|no) feature"),
    "1-D X": refused(lambda: fit(X[:, 0]), ValueError, "2D array, got 1D", "reshape"),
    "list of arrays": refused(lambda: fit([X, X], [y, y]), TypeError, "list of 2 arrays", "stack_tasks"),
    "list of tables": refused(lambda: fit([TABLE, TABLE], [y, y]), TypeError, "list of 2", "stack_tasks"),
    "sparse X with a task column": refused(
        lambda: fit_table(scipy.sparse.csr_array(X), 0), ValueError, "sparse X has no task column", "task="
    ),
    "sparse X with NaN": refused(
        lambda: fit(scipy.sparse.csr_array(np.where(X[1, 2] == X, np.nan, X))),
        ValueError,
        "NaN",
        "column 'x2'",
        "row 1",
    ),
    "sparse X of complex numbers": refused(
        lambda: fit(scipy.sparse.csr_array(X + 1j)), ValueError, "Complex data not supported"
    ),
    "duplicate column names": refused(
        lambda: fit(pd.DataFrame(X, columns=["a", "b", "a", "c"])), ValueError, "'a' occurs more than once", "own name"
    ),
    "duplicate task columns": refused(
        lambda: fit_table(pd.concat([TABLE, TABLE[["school"]]], axis=1)), ValueError, "'school' occurs more than once"
    ),
    "other columns at predict": refused(
        lambda: fit().predict(X[:, :3], task=TASK), ValueError, "3 features", "expecting 4"
    ),
    # task column
    "task column absent": refused(
        lambda: fit_table(TABLE, "hospital"), ValueError, "'hospital' is not a column", "'age', 'bmi'.*'school'"
    ),
    "task column misspelt": refused(lambda: fit_table(TABLE, "schol"), ValueError, "did you mean 'school'"),
    "task column among many": refused(
        lambda: fit_table(pd.DataFrame(np.ones((40, 31)), columns=[*map("f{}".format, range(30)), "School"]), "school"),
        ValueError,
        r"Columns: 'School', 'f0', .*'f18', \.\.\. \(31 in all\)",
        "Did you mean 'School'",
    ),
    "task column renamed by a transformer": refused(
        lambda: fit_table(TABLE.rename(columns={"school": "remainder__school"})),
        ValueError,
        "did you mean task_column='remainder__school'",
    ),
    "task column out of range": refused(lambda: fit_table(TABLE, 5), ValueError, "task_column=5", "5 columns"),
    "name of a task column in an array": refused(
        lambda: fit_table(X), ValueError, "'school' is a name", "table|integer position|task="
    ),
    "task column and labels": refused(
        lambda: MSMTFL(task_column="school").fit(TABLE, y, task=TASK), ValueError, "either task_column=.* or task="
    ),
    # labels
    "label None": refused(
        lambda: fit(task=put(TASK, [3, 9], None, object)), ValueError, "missing in 2 row", "row 3", "drop|give"
    ),
    "label NaN in a list of strings": refused(
        lambda: fit(task=[*TASK[:39], np.nan]), ValueError, "missing in 1 row", "row 39", "drop|give"
    ),
    "label NaN among numbers": refused(
        lambda: fit(task=put((TASK == "left").astype(float), 4, np.nan)), ValueError, "missing in 1 row", "row 4"
    ),
    "label NA in pandas": refused(
        lambda: fit(task=pd.Series(TASK, dtype="string").mask(np.arange(40) == 4)), ValueError, "missing", "row 4"
    ),
    "label outside the categories": refused(
        lambda: fit(task=pd.Series(put(TASK, 4, None, object), dtype="category")), ValueError, "missing", "row 4"
    ),
    "label null in polars": refused(
        lambda: fit(task=pl.Series(put(TASK, 4, None, object).tolist())), ValueError, "missing", "row 4"
    ),
    "label NaN in the task column": refused(
        lambda: fit_table(put_table("school", 6, None)), ValueError, "missing in 1 row", "row 6"
    ),
    "label missing at predict": refused(
        lambda: fit().predict(X[:2], task=["left", None]), ValueError, "missing in 1 row", "row 1"
    ),
    "too few labels": refused(lambda: fit(task=TASK[:-1]), ValueError, "39 labels", "40 rows"),
    "2-D labels": refused(lambda: fit(task=TASK[:, None]), ValueError, "one label per row", r"\(40, 1\)"),
    "labels beside 2-D y": refused(lambda: fit(y=Y), ValueError, "every column is a task", "do not pass"),
    # y
    "no y": refused(lambda: fit(y=None), ValueError, "y is None", "second argument"),
    "y too short": refused(lambda: fit(y=y[:-1]), ValueError, "X has 40 rows", "y has 39"),
    "y too short at score": refused(lambda: fit().score(X, y[:-1], task=TASK), ValueError, "40", "39", "rows|samples"),
    "1-D y for the score of a 2-D fit": refused(
        lambda: fit(y=Y, task=None).score(X, y), ValueError, "one column per task|3 columns"
    ),
    "too few columns for the score of a 2-D fit": refused(
        lambda: fit(y=Y, task=None).score(X, Y[:, :2]), ValueError, "one column per task|3 columns"
    ),
    "infinity in 2-D y at score": refused(
        lambda: fit(y=Y, task=None).score(X, put(Y, (8, 1), np.inf)), ValueError, "infinity", "task 1,", "row 8"
    ),
    "3-D y": refused(lambda: fit(y=Y[:, :, None], task=None), ValueError, "1-D, or 2-D", r"\(40, 3, 1\)"),
    "NaN in 1-D y": refused(lambda: fit(y=put(y, 8, np.nan)), ValueError, "y contains NaN", "row 8", "drop"),
    "infinity in 1-D y": refused(lambda: fit(y=put(y, 8, np.inf)), ValueError, "y contains infinity", "row 8"),
    "infinity in 2-D y": refused(
        lambda: fit(y=put(Y, (8, 1), np.inf), task=None),
        ValueError,
        "y contains infinity",
        "task 1,",
        "row 8",
        "use NaN",
    ),
    "string in y": refused(lambda: fit(y=put(y, 8, "red", object)), ValueError, "y must be numeric", "'red'"),
    "complex y": refused(lambda: fit(y=y + 1j), ValueError, "complex data not supported", r"\by\b"),
    "integer in y beyond float": refused(
        lambda: fit(y=put(y, 8, 10**400, object)), ValueError, r"\by\b", "too large|overflow"
    ),
    "squares of y overflow": refused(
        lambda: fit(y=put(y, 8, 1e200)), ValueError, r"\by in task 'left'", "overflow", "rescale"
    ),
    "2-D y with a column wholly missing": refused(
        lambda: fit(y=put(Y, np.s_[:, 1], np.nan), task=None),
        ValueError,
        "task 1 has no",
        "wholly missing",
        "leave .* out",
    ),
    "table of y with a column wholly missing": refused(
        lambda: fit(y=pd.DataFrame(Y, columns=["u", "v", "w"]).assign(v=np.nan), task=None),
        ValueError,
        "task 'v' has no",
    ),
    "table of y with a name twice": refused(
        lambda: fit(y=pd.DataFrame(Y, columns=["u", "v", "u"]), task=None), ValueError, "'u' occurs more than once"
    ),
    "2-D y without columns": refused(
        lambda: fit(y=Y[:, :0], task=None), ValueError, "no columns", "one column per task"
    ),
    # weights
    "negative weight": refused(
        lambda: fit(sample_weight=put(np.ones(40), 6, -1.0)), ValueError, "finite and >= 0", "row 6 holds -1"
    ),
    "weight NaN": refused(lambda: fit(sample_weight=put(np.ones(40), 6, np.nan)), ValueError, "finite", "row 6"),
    "too few weights": refused(lambda: fit(sample_weight=np.ones(39)), ValueError, r"\(39,\)", r"expected \(40,\)"),
    "task without weight": refused(
        lambda: fit(sample_weight=(TASK == "left").astype(float)),
        ValueError,
        "task 'right'",
        "leave the task out|positive",
    ),
    "column of 2-D y without weight": refused(
        lambda: fit(y=Y, task=None, sample_weight=put(np.ones((40, 3)), np.s_[:, 2], 0.0)), ValueError, "task 2 "
    ),
    # lists of tasks
    "listed task without rows": refused(
        lambda: stack_tasks([X, X[:0]], [y, y[:0]], labels=["left", "right"]),
        ValueError,
        "task 'right' has no rows",
        "leave",
    ),
    "listed task of other lengths": refused(
        lambda: stack_tasks([X, X], [y, y[:-1]]), ValueError, "task 1", r"\(40, 4\)", r"\(39,\)"
    ),
    "listed task of other width": refused(
        lambda: stack_tasks([X, X[:, :3]], [y, y]), ValueError, "task 1 has 3 features", "task 0 has 4", "same features"
    ),
    "listed task of other names": refused(
        lambda: stack_tasks([TABLE, TABLE[TABLE.columns[::-1]]], [y, y]),
        ValueError,
        "task 1",
        "different columns|order",
    ),
    "more features than targets": refused(lambda: stack_tasks([X, X], [y]), ValueError, "as many targets", "2 and 1"),
    "listed labels twice": refused(
        lambda: stack_tasks([X, X], [y, y], labels=["left", "left"]), ValueError, "distinct", "'left'"
    ),
    # parameters
    **{
        f"{name}={value}": refused(
            lambda name=name, value=value: fit(**{name: value}), ValueError, f"{name} must be > 0"
        )
        for name, values in {"lam": [0, -1.0, np.nan, np.inf], "theta": [0, -1.0, np.nan], "tol": [0.0]}.items()
        for value in values
    },
    "lam of LassoMTL": refused(lambda: LassoMTL(lam=-1).fit(X, y), ValueError, "lam must be > 0"),
    "lam as text": refused(lambda: fit(lam="0.1"), TypeError, "lam must be a number", "'0.1'"),
    "theta as text": refused(lambda: fit(theta="auto"), ValueError, "theta must be", "'adaptive'", "'auto'"),
    "max_stages=0": refused(lambda: fit(max_stages=0), ValueError, "max_stages must be at least 1"),
    "max_stages=2.5": refused(lambda: fit(max_stages=2.5), TypeError, "max_stages must be an integer"),
    "max_iter=0": refused(lambda: fit(max_iter=0), ValueError, "max_iter must be at least 1"),
    "n_jobs=0": refused(lambda: fit(n_jobs=0), ValueError, "n_jobs", "non-zero"),
    "standardize='yes'": refused(lambda: fit(standardize="yes"), TypeError, "standardize must be True or False"),
    "unknown_task='zero'": refused(lambda: fit(unknown_task="zero"), ValueError, "unknown_task", "'error', 'mean'"),
    "penalty_factors of another shape": refused(
        lambda: fit(penalty_factors=np.ones(3)), ValueError, r"\(3,\)", r"\(4,\)", r"\(4, 2\)"
    ),
    "negative penalty factor": refused(
        lambda: fit(penalty_factors=[1, 1, -2, 1]), ValueError, "penalty_factors", "'x2' has -2"
    ),
    "coef_init of another shape": refused(lambda: fit(coef_init=np.ones((4, 2))), ValueError, r"expected \(2, 4\)"),
    "coef_init with NaN": refused(
        lambda: fit(coef_init=np.full((2, 4), np.nan)), ValueError, "coef_init must be finite"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_with_the_place_and_the_way_out(name):
    call, error, says = CASES[name]
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    for pattern in says:
        assert re.search(pattern, message, re.IGNORECASE | re.DOTALL), f"no {pattern!r} in: {message}"


# ------------------------------------------------------------------ what fits, and says so


def test_a_task_of_one_row_fits_and_warns():
    with pytest.warns(UserWarning, match=r"1 task\(s\) have a single row \('alone'\)"):
        model = fit(task=put(TASK, 0, "alone", object))
    assert (model.coef_[model.tasks_ == "alone"] == 0.0).all()
    assert model.intercept_[model.tasks_ == "alone"] == pytest.approx(y[0])


def test_a_target_measured_once_fits_and_warns():
    with pytest.warns(UserWarning, match=r"single row \(2\)"):
        model = fit(y=put(Y, np.s_[1:, 2], np.nan), task=None)
    assert (model.coef_[2] == 0.0).all()


def test_rows_wholly_missing_are_left_out_and_counted():
    missing = [3, 17, 30]
    with pytest.warns(UserWarning, match=r"3 row\(s\) of y are wholly missing"):
        model = fit(y=put(Y, missing, np.nan), task=None)
    np.testing.assert_array_equal(model.coef_, fit(np.delete(X, missing, 0), np.delete(Y, missing, 0), None).coef_)


def test_more_free_rows_than_samples_is_said_in_plain_words():
    with pytest.warns(UserWarning, match="4 features are un-penalised, but task.*'left'.*no more.*larger theta or lam"):
        fit(X[17:], y[17:], TASK[17:], lam=1e-3, theta=1e-9)


def test_warnings_point_at_the_line_that_called_fit():
    with pytest.warns(UserWarning, match="single row") as caught:
        fit(task=put(TASK, 0, "alone", object))
    assert {w.filename for w in caught} == {__file__}


def test_a_constant_target_fits():
    model = fit(y=np.where(TASK == "left", 3.0, y))
    assert (model.coef_[0] == 0.0).all()
    assert model.intercept_[0] == 3.0
    assert model.coef_[1].any()
    np.testing.assert_allclose(fit(y=np.full(40, 0.1)).predict(X, task=TASK), 0.1, rtol=1e-14)


def test_score_says_where_it_is_undefined():
    model = fit(y=Y, task=None)
    with pytest.warns(UserWarning, match=r"undefined for task\(s\) 1 .*all equal"):
        score = model.score(X, put(Y, np.s_[:, 1], 5.0))
    assert 0.9 < score <= 1.0


def test_the_largest_integers_fit():
    whole = np.round(X * 2.0**59).astype(np.int64)
    model = fit(whole)
    np.testing.assert_allclose(model.coef_ * 2.0**59, fit().coef_, rtol=1e-12)
    extremes = np.where(X > 0, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
    assert np.isfinite(fit(extremes).coef_).all()


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_the_unit_of_the_data_does_not_matter(scale):
    model, reference = fit(scale * X, scale * y), fit()
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-10)
    assert model.dual_gap_ <= 1e-10
    assert model.certificate_.unique
