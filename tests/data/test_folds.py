"""TaskKFold: every task in every training fold."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, check_cv, cross_val_score, cross_validate

from msmtfl import MSMTFLCV, LassoMTL, LassoMTLCV, PartialPoolingCV, SharedMTLCV, TaskKFold

TASK = np.repeat(["a", "b", "c"], [23, 5, 14])
X = np.random.default_rng(0).standard_normal((42, 2))
y = X @ [1.0, 2.0]


def folds_of(splitter, X=X, groups=None):
    return list(splitter.split(X, groups=groups))


@pytest.mark.parametrize("shuffle", [True, False])
def test_folds_are_even_and_hold_every_task(shuffle):
    folds = folds_of(TaskKFold(4, task=TASK, shuffle=shuffle, random_state=0))
    assert np.array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(42))
    for train, test in folds:
        assert np.array_equal(np.union1d(train, test), np.arange(42))
        assert not np.intersect1d(train, test).size
        assert set(TASK[train]) == {"a", "b", "c"}
        assert len(test) in (10, 11)
        for label, count in {"a": 23, "b": 5, "c": 14}.items():
            assert (TASK[test] == label).sum() in (count // 4, count // 4 + 1)


def test_small_tasks_are_held_out_where_they_can_be_and_single_samples_never():
    task = np.repeat(["a", "b", "c"], [20, 3, 1])
    with pytest.warns(UserWarning, match="task.*'c' have 1 sample.*no held-out error"):
        folds = folds_of(TaskKFold(5, task=task, random_state=0), np.zeros((24, 1)))
    assert np.array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(23))
    for train, test in folds:
        assert np.array_equal(np.union1d(train, test), np.arange(24))
        assert set(task[train]) == {"a", "b", "c"}
        assert 23 in train


def test_random_state_makes_folds_reproducible():
    once, again, other = (
        np.concatenate([test for _, test in folds_of(TaskKFold(3, task=TASK, random_state=seed))]) for seed in (0, 0, 1)
    )
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)


def test_without_shuffling_every_kth_row_is_taken():
    _, test = folds_of(TaskKFold(2, task=np.repeat([0, 1], 4), shuffle=False), np.zeros((8, 1)))[0]
    assert test.tolist() == [0, 2, 4, 6]


COLUMNS = {
    "pandas, name": (pd.DataFrame(X).rename(columns=str).assign(school=TASK), "school"),
    "polars, name": (pl.DataFrame(X).with_columns(pl.Series("school", TASK)), "school"),
    "pandas, position": (pd.DataFrame(X).rename(columns=str).assign(school=TASK), -1),
    "object array, position": (np.insert(X.astype(object), 0, TASK, axis=1), 0),
}


@pytest.mark.parametrize("form", COLUMNS)
def test_a_task_column_splits_like_labels(form):
    table, column = COLUMNS[form]
    expected = folds_of(TaskKFold(3, task=TASK, random_state=0))
    for (_, got), (_, test) in zip(
        folds_of(TaskKFold(3, task_column=column, random_state=0), table), expected, strict=True
    ):
        assert np.array_equal(got, test)


def test_without_tasks_it_is_a_shuffled_kfold():
    assert [len(test) for _, test in folds_of(TaskKFold(5, random_state=0))] == [9, 9, 8, 8, 8]


@pytest.mark.parametrize("shuffle", [True, False])
def test_groups_stay_together(shuffle):
    group = np.arange(42) % 14
    folds = folds_of(TaskKFold(2, task=TASK, shuffle=shuffle, random_state=0 if shuffle else None), groups=group)
    for train, test in folds:
        assert not set(group[train]) & set(group[test])
        assert set(TASK[train]) == {"a", "b", "c"}
    assert np.array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(42))


ERRORS = {
    "small tasks": (lambda: folds_of(TaskKFold(24, task=TASK)), "every task.*n_splits=24 folds; task 'a' has most, 23"),
    "one fold": (lambda: TaskKFold(1), "n_splits must be an integer of at least 2, got 1"),
    "folds as text": (lambda: TaskKFold("5"), "n_splits must be an integer"),
    "absent column": (
        lambda: folds_of(TaskKFold(task_column="class"), COLUMNS["pandas, name"][0]),
        "'class' is not a column.*'school'",
    ),
    "labels of another length": (lambda: folds_of(TaskKFold(task=TASK[:-1])), "41 labels.*42 rows"),
    "missing label": (lambda: folds_of(TaskKFold(task=[*TASK[:41], None])), "missing in 1 row.*row 41"),
    "groups of another length": (lambda: folds_of(TaskKFold(task=TASK), groups=np.zeros(41)), "41 entries.*42 rows"),
    "few groups": (lambda: folds_of(TaskKFold(5, task=TASK), groups=np.arange(42) % 3), "3 group.*n_splits=5"),
    "task in one group": (
        lambda: folds_of(TaskKFold(2, task=TASK), groups=np.where(TASK == "b", 99, np.arange(42) % 7)),
        "task.*'b'.*fewer folds|leave",
    ),
    "small tasks in groups": (
        lambda: folds_of(TaskKFold(3, task=np.repeat(["u", "v"], 2)), np.zeros((4, 1)), groups=np.arange(4)),
        "task.*'u'",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_task(name):
    call, message = ERRORS[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_a_small_task_among_groups_raises_no_stray_warning():
    task = np.repeat(["a", "b"], [30, 2])
    folds = folds_of(TaskKFold(3, task=task, random_state=0), np.zeros((32, 1)), groups=np.arange(32))
    assert all(set(task[train]) == {"a", "b"} for train, _ in folds)


def test_it_serves_as_cv_of_scikit_learn():
    splitter = TaskKFold(3, task_column="school", random_state=0)
    table = COLUMNS["pandas, name"][0]
    assert check_cv(splitter) is splitter
    assert splitter.get_n_splits() == 3
    assert "n_splits=3" in repr(splitter)
    model = LassoMTL(lam=1e-4, task_column="school")
    scores = cross_val_score(model, table, y, cv=splitter, error_score="raise")
    assert len(scores) == 3
    assert scores.min() > 0.9
    grouped = cross_val_score(model, table, y, cv=splitter, groups=np.arange(42) % 14, error_score="raise")
    assert len(grouped) == 3
    assert GridSearchCV(model, {"lam": [1e-4, 5.0]}, cv=splitter).fit(table, y).best_params_ == {"lam": 1e-4}


def test_metadata_routing_carries_groups():
    splitter = TaskKFold(2, task_column="school", random_state=0)
    model = LassoMTL(lam=1e-4, task_column="school")
    group = np.arange(42) % 14
    with sklearn.config_context(enable_metadata_routing=True):
        result = cross_validate(
            model, COLUMNS["pandas, name"][0], y, cv=splitter, params={"groups": group}, return_indices=True
        )
    for train, test in zip(result["indices"]["train"], result["indices"]["test"], strict=True):
        assert not set(group[train]) & set(group[test])


@pytest.mark.parametrize("labels", [["b", "a", "c"], [3, 11, 5]])
@pytest.mark.parametrize("shuffle", [True, False])
def test_folds_within_tasks_depend_only_on_their_numbers_of_rows(labels, shuffle):
    counts = np.array([7, 12, 5])
    task = np.random.default_rng(0).permutation(np.repeat(labels, counts))
    cv = TaskKFold(4, task=task, shuffle=shuffle, random_state=3 if shuffle else None)
    fold = np.empty(len(task), dtype=int)
    for f, (_, test) in enumerate(cv.split(task)):
        fold[test] = f
    for label, mine in zip(labels, cv.deal_tasks(np.array(labels), counts), strict=True):
        np.testing.assert_array_equal(fold[task == label], mine)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", [LassoMTLCV, SharedMTLCV, PartialPoolingCV, MSMTFLCV])
@pytest.mark.sampled(2)
def test_a_search_fits_a_task_of_one_sample_and_scores_the_others(kind):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((41, 3)), np.repeat(["a", "b", "c"], [20, 20, 1])
    y = X[:, 0] + 0.3 * rng.standard_normal(41)
    model = kind(cv=4).fit(X, y, task=task)
    assert model.tasks_.tolist() == ["a", "b", "c"]
    assert np.isfinite(model.best_score_)
    weight = np.array(model.cv_results_["test_weight"][0])
    np.testing.assert_array_equal(weight.sum(axis=0), [20, 20, 0])
    assert np.isfinite(model.predict(X, task=task)).all()
