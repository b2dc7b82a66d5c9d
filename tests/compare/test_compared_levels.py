"""Tasks with levels in comparisons: who takes part, what is chosen, and which tasks are left out together."""

import numpy as np
import pytest

from msmtfl import MultiTaskAuto, MultiTaskAutoClassifier, NestedMTL, compare_models
from msmtfl._data.task_levels import has_levels

pd = pytest.importorskip("pandas")

LEVELS = ["region", "school"]


def sample(seed=0, n=14, schools=20):
    """A table and targets: the effects of four regions differ much, those of their schools little."""
    rng = np.random.default_rng(seed)
    school = np.repeat(np.arange(schools), n)
    region = np.array(["north", "south", "west", "east"])[school % 4]
    X = rng.standard_normal((len(school), 5))
    w = 1.0 + rng.standard_normal((4, 5))[school % 4] + 0.2 * rng.standard_normal((schools, 5))[school]
    y = (X * w).sum(axis=1) + rng.standard_normal(schools)[school] + 0.7 * rng.standard_normal(len(school))
    return pd.DataFrame(X, columns=list("abcde")).assign(region=region, school=school), y


def test_labels_that_name_levels():
    assert has_levels(np.array(["a / 1", "a / 2", "b / 1"]))
    assert not has_levels(np.array(["a / 1", "b / 2", "c / 3"]))  # every task has its own
    assert not has_levels(np.array(["a / 1", "a / 2"]))  # all have the same
    assert not has_levels(np.array(["a / 1", "b", "a / 2"]))
    assert not has_levels(np.array(["a", "b"]))
    assert not has_levels(np.array([1, 2, 3]))


def test_the_automatic_choice_takes_levels_into_account():
    table, y = sample()
    model = MultiTaskAuto(task_column=LEVELS, cv=3, inner_cv=3).fit(table, y)
    assert {"nested", "nested-ridge"} <= set(model.comparison_.models) | set(model.comparison_.dropped)
    assert model.chosen_.startswith("nested")
    error = dict(zip(model.comparison_.models, model.comparison_.error, strict=True))
    assert error[model.chosen_] < 0.9 * min(value for name, value in error.items() if not name.startswith("nested"))
    flat = MultiTaskAuto(cv=3, inner_cv=3).fit(table[list("abcde")], y, task=table["school"])
    assert not any(name.startswith("nested") for name in flat.comparison_.models)


def test_so_does_that_of_classifiers():
    table, y = sample(n=20, schools=12)
    found = MultiTaskAutoClassifier(["lasso", "nested-ridge"], task_column=LEVELS, cv=2, inner_cv=2)
    found.fit(table, np.where(y > np.median(y), "high", "low"))
    assert found.chosen_ == "nested-ridge"
    assert set(found.best_estimator_.effects("region")) == {"north", "south", "west", "east"}


def test_tasks_of_one_value_are_left_out_together():
    table, y = sample(schools=12)
    models = {
        name: NestedMTL(8.0, lam_upper=8.0 * k, kind="ridge", task_column=LEVELS) for name, k in (("a", 1), ("b", 2))
    }
    X = table[list("abcde")].to_numpy()
    by = {
        level: compare_models(table, y, task_column=LEVELS, models=models, cv=2, leave_one_task_out=level)
        for level in ("region", "school", True)
    }
    np.testing.assert_array_equal(by["school"].new_task, by[True].new_task)  # nested: a school is a task
    common = by["region"].new_task_nmse_common
    assert common.shape == (2, 12)
    assert by["school"].new_task_nmse_common.mean() < 0.6 * common.mean()
    south = (table["region"] == "south").to_numpy()
    fitted = models["a"].set_params(unknown_task="common").fit(table[~south], y[~south])
    for i, label in enumerate(by["region"].tasks):
        if not label.startswith("south"):
            continue
        mine = (table["school"] == int(label.split(" / ")[1])).to_numpy()
        with pytest.warns(UserWarning, match="not in the training data"):
            f = fitted.predict(table[mine])
        assert common[0, i] == pytest.approx(np.mean((y[mine] - f) ** 2) / y[mine].var())
    with pytest.raises(ValueError, match=r"'county' is no level of the tasks \(levels are 'region', 'school'\)"):
        compare_models(table, y, task_column=LEVELS, models=models, cv=2, leave_one_task_out="county")
    with pytest.raises(ValueError, match="'region' is no level of the tasks"):
        compare_models(X, y, task=table["school"], models=["lasso", "shared"], cv=2, leave_one_task_out="region")
