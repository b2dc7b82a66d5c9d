"""Samples with the same features: found in any form of data, remarked on where they may be the same units, kept together."""

import types
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from msmtfl import (
    MSMTFLCV,
    LassoMTLCV,
    MSMTFLClassifierCV,
    MultiTaskAuto,
    SharedMTLCV,
    TaskKFold,
    compare_models,
    stability_selection,
)
from msmtfl._data import copies
from msmtfl._data.copies import RepeatedSamplesWarning, identical_samples, repeats, same_rows
from msmtfl._data.tasks import read_training
from msmtfl._estimators.baselines.ridge import PooledRidgeCV, RidgePerTaskCV
from msmtfl._paths.validation.folds import read_splits

MODELS = {"ridge": RidgePerTaskCV(cv=2), "pooled": PooledRidgeCV(cv=2)}


def units(seed=0, n=40, d=5, m=3, missing=0.2):
    """A unit has a value of its own that features do not tell, and is measured in several tasks."""
    rng = np.random.default_rng(seed)
    X, own = rng.standard_normal((n, d)), rng.standard_normal(n)
    unit, task = (part.ravel() for part in np.meshgrid(np.arange(n), np.arange(m)))
    kept = rng.random(n * m) > missing
    unit, task = unit[kept], task[kept]
    return X[unit], X[unit, 0] + own[unit] + 0.1 * rng.standard_normal(len(unit)), task, unit


def splits_of(X, y, task, cv=4):
    data = read_training(X, y, task=task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedSamplesWarning)
        return data, read_splits(cv, X, y, None, data, 0)


# ------------------------------------------------------------------ which are the same


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_same_rows_get_the_same_number_in_any_form(dtype):
    rng = np.random.default_rng(0)
    rows = rng.integers(-1, 2, (50, 4)).astype(dtype) * rng.choice([1.0, 0.1, 1e-30], 4).astype(dtype)
    X = rows[rng.integers(0, 50, 300)]
    X[X == 0] *= rng.choice([-1.0, 1.0], (X == 0).sum())  # 0 and -0 are the same
    seen: dict = {}
    by_hand = [seen.setdefault(tuple(row), len(seen)) for row in X.tolist()]
    for form in (X, np.asfortranarray(X), sparse.csr_array(X)):
        np.testing.assert_array_equal(same_rows(form), by_hand)
    stored = sparse.csr_array((np.array([0.0, 1.0, 1.0]), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 2))
    np.testing.assert_array_equal(same_rows(stored), [0, 0])  # a zero that is stored


def test_rows_that_share_a_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr(copies, "_mixed", lambda values: np.zeros(values.shape, dtype=np.uint64))
    X = np.array([[1.0, 2.0], [0.0, 3.0], [1.0, 2.0]])
    np.testing.assert_array_equal(same_rows(X), [0, 1, 0])
    np.testing.assert_array_equal(same_rows(sparse.csr_array(X)), [0, 1, 0])


def test_binary_features_do_not_collide():
    X = np.random.default_rng(0).integers(0, 2, (20_000, 60)).astype(float)
    assert same_rows(X).max() + 1 == len(np.unique(X, axis=0))


def test_groups_of_a_table_leave_out_the_task_column():
    table = pd.DataFrame({"a": [1.0, 1.0, 2.0], "town": ["x", "y", "x"]})
    np.testing.assert_array_equal(identical_samples(table, task_column="town"), [0, 0, 1])
    np.testing.assert_array_equal(identical_samples(pl.from_pandas(table), task_column="town"), [0, 0, 1])


# ------------------------------------------------------------------ what is said


def test_units_in_several_tasks_are_noticed_unless_folds_keep_them_together():
    X, y, task, unit = units()
    data, splits = splits_of(X, y, task)
    found = repeats(data, splits)
    shared = np.bincount(unit)[unit] > 1
    assert 0.9 * shared.mean() < found.across <= shared.mean()  # but for those that one fold happens to hold
    assert found.within == 0
    with pytest.warns(
        RepeatedSamplesWarning, match=r"^\d\d% of the samples have the same features as a sample of another"
    ):
        MSMTFLCV(lams=5, cv=4).fit(X, y, task=task)
    together = list(TaskKFold(4, task=task, random_state=0).split(X, groups=unit))
    for options in ({"groups": "identical"}, {"groups": unit}, {}):
        cv = 4 if options else together
        SharedMTLCV(lams=5, cv=cv).fit(X, y, task=task, **options)  # a warning would be an error


def test_copies_within_a_task_are_noticed():
    rng = np.random.default_rng(0)
    X, y, task = rng.standard_normal((60, 4)), rng.integers(3, 9, 60).astype(float), np.repeat([0, 1], 30)
    again = np.r_[np.arange(60), np.arange(0, 60, 4)]
    data, splits = splits_of(X[again], y[again], task[again])
    found = repeats(data, splits)
    assert found.across == 0
    assert 0.2 < found.within <= 0.4
    with pytest.warns(
        RepeatedSamplesWarning, match="have the same features and target as another sample of their task"
    ):
        LassoMTLCV(lams=5, cv=4).fit(X[again], y[again], task=task[again])
    other = y[again] + np.r_[np.zeros(60), np.ones(15)]  # the same features, another target: no copies
    assert repeats(*splits_of(X[again], other, task[again])).within == 0


def test_coarse_features_are_no_alarm():
    """By chance samples agree as often within tasks as across them; targets agree no more often than any."""
    said = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        m, n, d = int(rng.integers(2, 8)), int(rng.integers(6, 60)), int(rng.integers(1, 7))
        X = rng.integers(0, 2, (m * n, d)).astype(float)
        y = np.rint(X[:, 0] + rng.standard_normal(m * n)) if seed % 2 else rng.standard_normal(m * n)
        found = repeats(*splits_of(X, y, np.repeat(np.arange(m), n)))
        said += found.across >= copies.WORTH_SAYING or found.within >= copies.WORTH_SAYING
    assert said <= 4


def test_one_design_for_all_tasks_is_said_in_words_that_are_true_of_it():
    """Conjoint data: everybody rates the same profiles."""
    rng = np.random.default_rng(0)
    profiles = rng.choice([-1.0, 1.0], (20, 6))
    X, task = np.tile(profiles, (15, 1)), np.repeat(np.arange(15), 20)
    y = np.rint(X @ rng.standard_normal(6) + rng.standard_normal(300))
    with pytest.warns(RepeatedSamplesWarning, match=r"^100% of.*If features were set by design"):
        LassoMTLCV(lams=5, cv=4).fit(X, y, task=task)
    LassoMTLCV(lams=5, cv=4).fit(profiles, y.reshape(15, 20).T)  # one X for all: a profile is held out of all tasks


def test_classes_of_a_task_are_not_taken_for_tasks():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((120, 3)), np.repeat([0, 1], 60)
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + rng.standard_normal(120), [-0.5, 0.5])]
    MSMTFLClassifierCV(lams=4, cv=2, entry_shares=0).fit(X, y, task=task)


# ------------------------------------------------------------------ what is done


def test_units_that_folds_part_make_errors_too_small_and_groups_make_them_right():
    """The unit's own value, which no feature tells, is learnt from another task if the unit is there."""
    rng = np.random.default_rng(0)
    n, d, m = 60, 40, 3
    X = np.tile(np.sign(rng.standard_normal((n, d))), (m, 1))
    y, task = np.tile(rng.standard_normal(n), m) + 0.1 * rng.standard_normal(n * m), np.repeat(np.arange(m), n)
    with pytest.warns(RepeatedSamplesWarning):
        parted = compare_models(X, y, task=task, models=MODELS, cv=4)
    together = compare_models(X, y, task=task, models=MODELS, cv=4, groups="identical")
    assert parted.nmse[1] < 0.85
    assert together.nmse[1] > 0.95  # noise
    assert together.n_clusters == n
    by_label = compare_models(X, y, task=task, models=MODELS, cv=4, groups=np.tile(np.arange(n), m))
    np.testing.assert_array_equal(together.errors, by_label.errors)


def test_it_is_said_once_and_inner_folds_are_silent():
    X, y, task, _ = units()
    models = {"a": LassoMTLCV(lams=4, cv=2), "b": PooledRidgeCV(cv=2)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MultiTaskAuto(models, cv=3).fit(X, y, task=task)
    assert [one.category for one in caught] == [RepeatedSamplesWarning]
    assert caught[0].filename == __file__
    MultiTaskAuto(models, cv=3).fit(X, y, task=task, groups="identical")


@pytest.mark.parametrize(
    "fit",
    [
        lambda X, y, task: RidgePerTaskCV(cv=3).fit(X, y, task=task, groups="identical"),
        lambda X, y, task: MSMTFLClassifierCV(lams=3, cv=3, entry_shares=0).fit(
            X, y > 0, task=task, groups="identical"
        ),
        lambda X, y, task: stability_selection(
            LassoMTLCV(lams=4, cv=3), X, y, task=task, groups="identical", n_pairs=2
        ),
    ],
    ids=["baseline", "classifier", "stability selection"],
)
def test_all_that_take_groups_take_these(fit):
    X, y, task, _ = units()
    fit(X, y, task)


def test_another_word_is_refused():
    X, y, task, _ = units()
    with pytest.raises(ValueError, match=r"groups must be a label per row, or 'identical'.*Got 'patient'"):
        LassoMTLCV().fit(X, y, task=task, groups="patient")


def test_splits_without_separation_need_no_remark():
    X, y, task, unit = units()
    data = read_training(X, y, task=task)
    train = unit % 2 == 0
    assert repeats(data, [types.SimpleNamespace(train=train, test=~train)]).across == 0
