"""Dates, masked arrays, sparse targets, labels of all kinds: refused, or honoured, but never taken for something else."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from msmtfl import (
    L12MTL,
    MSMTFL,
    MSMTFLCV,
    LassoMTL,
    Moments,
    MSMTFLClassifier,
    MultiTaskAuto,
    TaskKFold,
    compare_models,
    regularization_surface,
    stack_tasks,
)
from msmtfl._estimators.baselines.ridge import RidgePerTaskCV
from msmtfl.inference import bootstrap_intervals

pl = pytest.importorskip("polars")
N = 40
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
Y = X[:, 0] + 0.1 * RNG.standard_normal(N)
TASK = np.repeat(["a", "b"], N // 2)
DATES = np.datetime64("2020-01-01", "ns") + np.arange(N) * np.timedelta64(1, "D")
WITH_NAT = np.where(np.arange(N) == 3, np.datetime64("NaT", "ns"), DATES)
HIDDEN = np.arange(N) == 5


def fit(x=X, y=Y, **options):
    return MSMTFL(lam=0.1).fit(x, y, **({"task": TASK} | options))


# ------------------------------------------------------------------ dates


@pytest.mark.parametrize("dates", [DATES, WITH_NAT, WITH_NAT - DATES[0], np.array(list(DATES), dtype=object)])
@pytest.mark.parametrize("form", [np.asarray, pd.Series, list])
def test_dates_are_no_target(dates, form):
    with pytest.raises(ValueError, match=r"y (holds dates or times|must be numeric)"):
        fit(y=form(dates))
    with pytest.raises(ValueError, match=r"sample_weight (holds dates or times|must be)"):
        fit(sample_weight=form(dates))


def test_dates_are_no_target_of_polars_nor_of_several_tasks_nor_of_batches():
    with pytest.raises(ValueError, match="y holds dates"):
        fit(y=pl.Series(WITH_NAT))
    with pytest.raises(ValueError, match="y holds dates"):
        fit(y=np.column_stack([DATES, WITH_NAT]), task=None)
    with pytest.raises(ValueError, match="y holds dates"):
        Moments().update(X, WITH_NAT, task=TASK)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("others", [{"v": Y}, {"v": DATES}, {}])
def test_dates_are_no_features(frame, others):
    with pytest.raises(ValueError, match="column 'day' of X holds dates or times"):
        fit(frame({"day": WITH_NAT} | others))
    with pytest.raises(ValueError, match="column 'day' of X holds dates or times"):
        fit(frame({"day": DATES - DATES[0]} | others))


def test_an_array_of_dates_is_no_x():
    with pytest.raises(ValueError, match="X holds dates or times"):
        fit(np.column_stack([WITH_NAT, DATES]))
    model = fit()
    with pytest.raises(ValueError, match="X holds dates or times"):
        model.predict(np.column_stack([WITH_NAT] * 3), task=TASK)


def test_dates_can_be_task_labels_but_not_missing_ones():
    days = np.repeat(np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"), N // 2)
    assert fit(task=days).tasks_.dtype == days.dtype
    days[7] = np.datetime64("NaT", "ns")
    for form in (np.asarray, pd.Series, list):
        with pytest.raises(ValueError, match=r"task label missing in 1 row\(s\), first in row 7"):
            fit(task=form(days))


# ------------------------------------------------------------------ masked arrays


def masked(values, mask=HIDDEN):
    return np.ma.masked_array(values, mask)


def test_what_is_masked_is_missing():
    with pytest.raises(ValueError, match="y contains NaN: row 5"):
        fit(y=masked(Y))
    with pytest.raises(ValueError, match="y contains NaN: row 5"):
        fit(y=masked(np.arange(N)))
    with pytest.raises(ValueError, match="column 'x1', row 5"):
        fit(masked(X, np.column_stack([HIDDEN & False, HIDDEN, HIDDEN & False])))
    with pytest.raises(ValueError, match="sample_weight must be finite and >= 0; row 5"):
        fit(sample_weight=masked(np.ones(N)))
    for labels in (TASK, np.repeat([1, 2], N // 2), np.repeat([1.5, 2.5], N // 2)):
        with pytest.raises(ValueError, match="first in row 5"):
            fit(task=masked(labels))
    with pytest.raises(ValueError, match="group of row 5"):
        MSMTFLCV(lams=3, cv=2).fit(X, Y, task=TASK, groups=masked(np.arange(N)))
    with pytest.raises(ValueError, match="y contains NaN: row 5"):
        MSMTFLClassifier(lam=0.1).fit(X, masked(Y > 0), task=TASK)
    with pytest.raises(ValueError, match="y contains NaN: row 5"):
        Moments().update(X, masked(Y), task=TASK)


def test_masked_cells_of_several_tasks_are_not_measured():
    several = np.column_stack([Y, -Y])
    mask = np.column_stack([HIDDEN, np.zeros(N, dtype=bool)])
    blank = np.where(mask, np.nan, several)
    np.testing.assert_array_equal(fit(y=masked(several, mask), task=None).coef_, fit(y=blank, task=None).coef_)
    model = fit(y=blank, task=None)
    assert model.score(X, masked(several, mask)) == model.score(X, blank)
    found = MSMTFLClassifier(lam=0.1).fit(X, masked(several > 0, mask))
    assert found.n_samples_.tolist() == [N - 1, N]


def test_masks_that_hide_nothing_change_nothing():
    nothing = np.zeros(N, dtype=bool)
    found = fit(
        masked(X, False), masked(Y, nothing), task=masked(TASK, nothing), sample_weight=masked(np.ones(N), nothing)
    )
    np.testing.assert_array_equal(found.coef_, fit().coef_)


def test_masks_of_new_rows_and_of_narrow_ones():
    hidden = masked(X, np.column_stack([HIDDEN, HIDDEN & False, HIDDEN & False]))
    with pytest.raises(ValueError, match="column 'x0', row 5"):
        fit().predict(hidden, task=TASK)
    with pytest.raises(ValueError, match="column 'x0', row 5"):
        RidgePerTaskCV(cv=2).fit(hidden.astype(np.float32), Y, task=TASK)
    stacked = stack_tasks([hidden[:20], hidden[20:]], [masked(Y)[:20], Y[20:]])
    assert np.isnan(stacked[0][5, 0])
    assert np.isnan(stacked[1][5])
    by_column = np.ma.column_stack([hidden, np.ma.masked_array(np.repeat([1.0, 2.0], 20), HIDDEN)])
    with pytest.raises(ValueError, match="task label missing"):
        MSMTFL(lam=0.1, task_column=3).fit(by_column, Y)


def test_masked_weights_of_a_score():
    model = fit()
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        model.score(X, Y, task=TASK, sample_weight=masked(np.ones(N)))
    several = fit(y=np.column_stack([Y, -Y]), task=None)
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        several.score(X, np.column_stack([Y, -Y]), sample_weight=masked(np.ones(N)))


# ------------------------------------------------------------------ labels and groups


@pytest.mark.parametrize(
    "labels",
    [
        [2**63, 2**63 + 1, -1],  # numpy makes floats of these, and one of the first two
        [2**53, 2**53 + 1, 0.5],
        [10**30, 10**30 + 1, 5],
        [np.int64(2**53 + 1), 2**53, 0.5],  # numpy compares the first to a float as one
        [np.uint64(2**63 + 1), np.int64(-1), 2**63],
        ["a", "a\0", "b"],  # numpy cuts zeros off
        [1, "1", 2],
        [True, "True", 2],
    ],
)
def test_labels_in_lists_stay_apart(labels):
    rows = [labels[i] for i in np.repeat([0, 1, 2], [15, 15, 10])]
    model = fit(task=rows)
    assert sorted(model.tasks_.tolist(), key=repr) == sorted(labels, key=repr)
    alone = LassoMTL(lam=0.3).fit(X[:15], Y[:15]).coef_
    place = model.tasks_.tolist().index(labels[0])
    np.testing.assert_allclose(LassoMTL(lam=0.1).fit(X, Y, task=rows).coef_[place], alone, atol=1e-10)
    np.testing.assert_allclose(model.predict(X, task=rows)[:15], X[:15] @ model.coef_[place] + model.intercept_[place])
    moments = Moments().update(X, Y, task=rows)
    assert sorted(moments.tasks.tolist(), key=repr) == sorted(labels, key=repr)
    stacked = stack_tasks([X[:15], X[15:30], X[30:]], [Y[:15], Y[15:30], Y[30:]], labels)[2]
    assert len({(type(one), one) for one in stacked.tolist()}) == 3


@pytest.mark.parametrize(
    "classes", [[2**63, 2**63 + 1], [2**53, 2**53 + 1], [2**53 + 1, 2.0**53], [-(2**62), -(2**62) - 1, 5]]
)
@pytest.mark.parametrize("form", ["list", "object", "wide"])
def test_large_numbers_that_are_classes_stay_apart(classes, form):
    y = [classes[i] for i in np.arange(N) % len(classes)]
    if form == "wide":
        model = MSMTFLClassifier(lam=0.1).fit(X, [[one, None if k == 7 else one] for k, one in enumerate(y)])
    else:
        model = MSMTFLClassifier(lam=0.1).fit(X, np.array(y, dtype=object) if form == "object" else y, task=TASK)
    assert model.classes_.tolist() == sorted(int(one) for one in classes)


def test_classes_of_more_than_64_bits_are_to_be_text():
    for pair in ([2**64, 2**64 + 1], [2**63, -1]):
        with pytest.raises(ValueError, match=r"y holds classes of more than 64 bits.*as text"):
            MSMTFLClassifier(lam=0.1).fit(X, pair * (N // 2), task=TASK)


def test_plain_labels_in_lists_are_plain_arrays():
    assert fit(task=[1] * 20 + [2] * 20).tasks_.dtype.kind == "i"
    assert fit(task=[1] * 20 + [2.5] * 20).tasks_.dtype.kind == "f"
    assert fit(task=["a"] * 20 + ["b"] * 20).tasks_.tolist() == ["a", "b"]


@pytest.mark.parametrize("groups", [[None] * N, [None, *range(1, N)], [float("nan")] * N])
def test_groups_that_are_missing(groups):
    with pytest.raises(ValueError, match="group of row 0 is missing"):
        list(TaskKFold(2, task=TASK).split(X, groups=groups))
    with pytest.raises(ValueError, match="group of row 0 is missing"):
        MSMTFLCV(lams=3, cv=2).fit(X, Y, task=TASK, groups=groups)


def test_groups_of_several_types_stay_together():
    groups = [1, "1", 2, "b"] * (N // 4)
    for train, test in TaskKFold(2, task=TASK).split(X, groups=groups):
        kept = [{(type(groups[i]), groups[i]) for i in rows} for rows in (train, test)]
        assert not kept[0] & kept[1]


# ------------------------------------------------------------------ sparse


def test_sparse_targets_and_weights():
    with pytest.raises(TypeError, match=r"y is sparse. Pass an array: y.toarray\(\)"):
        fit(y=sparse.csr_array(Y[:, None]))
    with pytest.raises(TypeError, match="y is sparse"):
        fit(y=sparse.csr_matrix(np.column_stack([Y, Y])), task=None)
    with pytest.raises(TypeError, match="y is sparse"):
        MSMTFLClassifier(lam=0.1).fit(X, sparse.csr_array((Y > 0)[:, None]), task=TASK)
    with pytest.raises(TypeError, match="sample_weight is sparse"):
        fit(sample_weight=sparse.csr_array(np.ones((N, 1))))


@pytest.mark.parametrize("scoring", ["neg_log_loss", "roc_auc", "neg_brier_score"])
def test_scorers_of_classifiers_are_refused_by_regressions(scoring):
    with pytest.raises(ValueError, match=f"scoring='{scoring}' is for classifiers"):
        MSMTFLCV(lams=3, cv=2, scoring=scoring).fit(X, Y, task=TASK)
    assert MSMTFLCV(lams=3, cv=2, scoring="r2").fit(X, Y, task=TASK).best_score_ > 0.5


def damaged(kind, where, value):
    out = sparse.random_array((N, 3), density=0.5, rng=np.random.default_rng(1)).asformat(kind).copy()
    getattr(out, where)[2] = value
    return out


@pytest.mark.parametrize(
    ("kind", "where", "value"),
    [
        ("csr", "indices", 10**8),
        ("csr", "indices", -1),
        ("csr", "indptr", 10**8),
        ("csr", "indptr", -5),
        ("csc", "indices", 10**8),
        ("csc", "indptr", 10**8),
        ("coo", "col", 10**8),
        ("coo", "row", -3),
    ],
)
def test_sparse_indices_that_lead_outside_are_refused(kind, where, value):
    bad = damaged(kind, where, value)
    model = LassoMTL(lam=0.1).fit(
        sparse.random_array((N, 3), density=0.5, rng=np.random.default_rng(1)).tocsr(), Y, task=TASK
    )
    for use in (
        lambda: fit(bad),
        lambda: model.predict(bad, task=TASK),
        lambda: Moments().update(bad, Y, task=TASK),
        lambda: stack_tasks([bad, bad], [Y, Y]),
    ):
        with pytest.raises(ValueError, match="X is a damaged sparse array"):
            use()


# ------------------------------------------------------------------ tasks without weight, levels


def command(name, tmp_path, weight):
    testing, cli = pytest.importorskip("typer.testing"), pytest.importorskip("msmtfl.cli")
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(t=TASK, y=Y, w=weight).to_csv(tmp_path / "t.csv", index=False)
    options = [name, str(tmp_path / "t.csv"), "-y", "y", "-t", "t", "--weight", "w"]
    result = testing.CliRunner().invoke(cli.app, options)
    assert result.exit_code == 2
    raise ValueError(result.stderr)


@pytest.mark.parametrize(
    "use",
    [
        lambda *data, **more: LassoMTL().fit(*data, **more),
        lambda *data, **more: L12MTL().fit(*data, **more),
        lambda *data, **more: MSMTFL(loss="huber").fit(*data, **more),
        lambda *data, **more: MSMTFLCV(lams=3, cv=2).fit(*data, **more),
        lambda X, y, **more: MSMTFLClassifier().fit(X, y > 0, **more),
        lambda *data, **more: regularization_surface(*data, lams=3, **more),
        lambda *data, **more: compare_models(*data, cv=2, **more),
        lambda *data, **more: MultiTaskAuto().fit(*data, **more),
        "fit",
        "compare",
        "surface",
    ],
)
def test_a_task_without_weight_is_refused_by_every_fit(use, tmp_path):
    weight = np.where(TASK == "a", 0.0, 1.0)
    call = partial(command, use, tmp_path, weight)
    if not isinstance(use, str):
        call = partial(use, X, Y, task=TASK, sample_weight=weight)
    with pytest.raises(ValueError, match=r"all sample weights of task 'a' are zero. Leave the task out"):
        call()


def test_a_task_without_weight_in_a_batch_is_left_out_until_it_has_some():
    weight = np.where(TASK == "a", 0.0, 1.0)
    with pytest.warns(UserWarning, match="have no row that counts"):
        model = LassoMTL(lam=0.1).partial_fit(X, Y, task=TASK, sample_weight=weight)
    assert TASK[0] not in model.tasks_
    model.partial_fit(X, Y, task=TASK, sample_weight=1.0 - weight)
    np.testing.assert_allclose(model.coef_, LassoMTL(lam=0.1).fit(X, Y, task=TASK).coef_, atol=1e-10)


def test_a_level_that_no_bootstrap_shows():
    model = fit()
    with pytest.raises(ValueError, match=r"at least 20000001 are needed. Take a lower level"):
        bootstrap_intervals(model, X, Y, task=TASK, level=0.9999999)
    with pytest.raises(ValueError, match=r"at least 200 are needed. Better take 2000"):
        bootstrap_intervals(model, X, Y, task=TASK, level=0.99, n_boot=50)
