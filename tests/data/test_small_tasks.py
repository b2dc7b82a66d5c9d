"""Tasks with few samples are left out before a fit, counted and named."""

import numpy as np
import pandas as pd
import pytest

from msmtfl import enough_samples


@pytest.mark.parametrize("form", [list, np.array, pd.Series, lambda t: pd.Series(t, dtype="category")])
def test_samples_of_small_tasks_are_told(form):
    task = ["P10"] * 3 + ["P2"] + ["P1"] * 4 + ["P9"] * 2
    with pytest.warns(UserWarning, match=r"2 of 4 tasks, 3 of 10 samples, are left out: .*: 'P2' \(1\), 'P9' \(2\)\."):
        keep = enough_samples(form(task), min_samples=3)
    assert keep.tolist() == [True] * 3 + [False] + [True] * 4 + [False] * 2
    assert enough_samples(form(task), min_samples=1).all()


def test_numbers_are_labels_too():
    with pytest.warns(UserWarning, match=r"'7' \(1\)"):
        assert enough_samples(np.array([3, 3, 7]), min_samples=2).tolist() == [True, True, False]


def test_bad_labels_are_named():
    with pytest.raises(ValueError, match="no task has 5 samples; 'a' has most, 2"):
        enough_samples(["a", "a", "b"], min_samples=5)
    with pytest.raises(ValueError, match="no label in row 1"):
        enough_samples(["a", None], min_samples=1)
    with pytest.raises(ValueError, match="one label per sample"):
        enough_samples(np.ones((2, 2)))
    with pytest.raises(ValueError, match="min_samples"):
        enough_samples(["a"], min_samples=0)
