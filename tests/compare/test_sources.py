"""Which tasks help a target task, and which harm it."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from msmtfl import LassoMTLCV, MSMTFLClassifier, SharedMTL, which_tasks_help
from msmtfl.baselines import PooledLassoCV


def sample(seed=0, sd=1.5, own=60):
    """A small target, two tasks like it, and one with slopes of the other sign."""
    rng = np.random.default_rng(seed)
    task = np.repeat(["target", "north", "south", "odd"], [own, 160, 160, 160])
    X = rng.standard_normal((480 + own, 12))
    slopes = np.where(task == "odd", -1.0, 1.0)[:, None] * np.linspace(1.0, 0.2, 12)
    return X, (X * slopes).sum(axis=1) + sd * rng.standard_normal(480 + own), task


@pytest.fixture(scope="module")
def found():
    X, y, task = sample()
    return which_tasks_help(SharedMTL(0.05, 10.0), X, y, task=task, target="target", cv=4)


def test_tasks_that_help_and_that_harm(found):
    assert found.tasks[found.harms].tolist() == ["odd"]
    assert {"north", "south"} <= set(found.sources)
    assert found.n_samples == 60
    X, y, task = sample(sd=2.0, own=40)  # noise makes others' samples welcome
    found = which_tasks_help(SharedMTL(0.05, 10.0), X, y, task=task, target="target", cv=4)
    assert sorted(found.tasks[found.helps]) == ["north", "south"]


def test_words_and_table(found):
    said = repr(found)
    assert "1 clearly harm (negative transfer): 'odd'" in said
    assert "'target'" in said
    assert "RobustMTL" in said
    frame = found.to_frame()
    assert frame["task"].iloc[-1] == "odd"
    np.testing.assert_allclose(frame["difference"], frame["error"] - found.alone)


def test_picture(found):
    figure = found.plot()
    assert next(label.get_text() for label in figure.axes[0].get_yticklabels()) == "odd"
    _, axes = plt.subplots()
    assert found.plot(axes) is axes.figure
    plt.close("all")


def test_errors_are_those_of_fits_by_hand():
    X, y, task = sample()
    folds = np.arange(60) % 4
    model = SharedMTL(0.05, 10.0)
    found = which_tasks_help(model, X, y, task=task, target="target", cv=4, random_state=3)
    from msmtfl._data.tasks import read_training
    from msmtfl._paths.validation.folds import read_splits

    total = []
    for split in read_splits(4, X, y, None, read_training(X, y, task=task), 3):
        target = task == "target"
        train, test = (split.train & target) | (task == "north"), split.test & target
        fitted = SharedMTL(0.05, 10.0).fit(X[train], y[train], task=task[train])
        total.append((fitted.predict(X[test], task=task[test]) - y[test]) ** 2)
    own = y[task == "target"]
    assert len(folds) == len(np.concatenate(total))
    error = found.error[found.tasks.tolist().index("north")]
    assert error == pytest.approx(np.concatenate(total).mean() / np.var(own), rel=1e-9)


def test_separate_lassos_are_neither_helped_nor_harmed_by_much():
    X, y, task = sample()
    found = which_tasks_help(LassoMTLCV(lams=5, cv=3), X, y, task=task, target="target", cv=3)
    assert not found.harms.any()
    assert np.abs(found.difference).max() < 0.2


def test_a_table_with_a_task_column_groups_and_weights():
    pd = pytest.importorskip("pandas")
    X, y, task = sample()
    table = pd.DataFrame(X, columns=[f"f{j}" for j in range(12)]).assign(site=task)
    options = {"groups": np.arange(540) // 2, "sample_weight": np.ones(540)}
    found = which_tasks_help(
        SharedMTL(0.05, 10.0, task_column="site"), table, y, target="target", task_column="site", cv=3, **options
    )
    assert found.tasks[found.harms].tolist() == ["odd"]


def test_classifiers_are_measured_by_log_losses():
    X, y, task = sample(sd=0.5)
    ill = np.where(y > 0, "ill", "well")
    found = which_tasks_help(MSMTFLClassifier(0.05, np.inf), X, ill, task=task, target="target", cv=3)
    assert found.measure == "relative log-loss"
    assert np.isfinite(found.error).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "targt"}, "'targt' is not among the tasks.*'target'"),
        ({"cv": 1}, "cv must be at least 2"),
        ({"cv": 70}, "too few samples|cv|folds"),
        ({"tolerance": -1.0}, "tolerance"),
    ],
)
def test_what_makes_no_sense(options, message):
    X, y, task = sample()
    with pytest.raises(ValueError, match=message):
        which_tasks_help(PooledLassoCV(), X, y, task=task, **({"target": "target"} | options))


def test_targets_in_columns_and_single_tasks_are_refused():
    X, y, _ = sample()
    with pytest.raises(ValueError, match="1-D targets"):
        which_tasks_help(PooledLassoCV(), X, np.column_stack([y, y]), target=0)
    with pytest.raises(ValueError, match="one task only"):
        which_tasks_help(PooledLassoCV(), X, y, task=np.zeros(540), target=0.0)
