"""What many small tasks take: memory of a task, whatever their number."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from msmtfl._data.designs import stage_scale
from msmtfl._data.tasks import read_training
from msmtfl._solvers.lassos import weighted_lasso as lasso
from msmtfl._solvers.lassos.weighted_lasso import Lassos

ROWS, D = 10, 5


def small_tasks(m):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m * ROWS, D))
    return X, X[:, 0] + 0.1 * rng.standard_normal(m * ROWS), np.repeat(np.arange(m), ROWS)


def test_a_small_task_takes_little_memory_while_it_is_solved(monkeypatch):
    m = 400
    monkeypatch.setattr(lasso, "MANY", 100)
    monkeypatch.setattr(lasso, "AWAKE", 8)
    X, y, task = small_tasks(m)
    tracemalloc.start()
    designs = read_training(X, y, task=task).designs(centre=True)
    lassos = Lassos(designs)
    W, _ = lassos.solve(np.full((m, D), 0.1 / m) * stage_scale(designs))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (W != 0).any(axis=1).mean() > 0.9
    assert (
        peak / m < 5000
    )  # bytes; those of the tasks that are awake at a time, fewer than 1000 per task, are among them


@pytest.mark.parametrize("positive", [False, True])
def test_tasks_that_rest_between_solves_give_the_same(monkeypatch, positive):
    X, y, task = small_tasks(40)
    X[task % 3 == 0, 1] = X[task % 3 == 0, 0]  # minimisers that are not unique are found again as well
    designs = read_training(X, y, task=task).designs(centre=True)
    weights = [np.full((40, D), share) * stage_scale(designs) for share in (0.01, 0.001, 0.02)]
    weights[1][:, 2] = 0.0
    found = []
    for many in (1000, 10):
        monkeypatch.setattr(lasso, "MANY", many)
        monkeypatch.setattr(lasso, "AWAKE", 7)
        lassos, W = Lassos(designs, positive=positive), np.zeros((40, D))
        for A in weights:
            W, _ = lassos.solve(A, W)
            found.append(W)
        assert all(one.resting is not None for one in lassos.tasks) == (many == 10)
        lassos.warm(W)
        np.testing.assert_allclose(lassos.solve(weights[0])[0], found[-3], atol=1e-10)
    assert all((W != 0).any(axis=1).mean() > 0.9 for W in found)
    for kept, rested in zip(found[:3], found[3:], strict=True):
        np.testing.assert_allclose(rested, kept, rtol=1e-12, atol=1e-13)


FIT = """
import resource, sys, warnings
import numpy as np
import msmtfl
sys.path.insert(0, {tests!r})
from test_memory import small_tasks
warnings.simplefilter("ignore")
m = 4_000
X, y, task = small_tasks(m)
model = msmtfl.{model}(lam=0.1 / m)
model.fit(*(one[:1000] for one in (X, y)), task=task[:1000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model.fit(X, y, task=task)
assert model.converged_
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / m)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss")
@pytest.mark.parametrize("model", ["LassoMTL", "MSMTFL"])
def test_memory_of_a_whole_fit_of_many_tasks(model):
    code = FIT.format(tests=str(Path(__file__).parent), model=model)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 5000  # bytes per task; they were 43,000
