"""Fits on many threads at once give what they give alone, to the bit; also under a Python without the global lock.

nox -s threads    # under such a Python
"""

import importlib
import sys
import sysconfig
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from sklearn.base import clone

from msmtfl import (
    L12MTL,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    LassoMTL,
    LassoMTLCV,
    MSMTFLClassifier,
    PartialPooling,
    PretrainedMTL,
    RobustMTL,
    SharedMTL,
)
from msmtfl._runtime import progress

pytestmark = pytest.mark.timed

THREADS = 8
KERNELS = (
    "active_set",
    "arrow",
    "arrow_factor",
    "descent",
    "nearest",
    "newton",
    "products",
    "row_sweep",
    "stage_loop",
    "support",
)
MODELS = {
    "capped": MSMTFL(lam=0.05),
    "mcp": MSMTFL(lam=0.05, penalty="mcp"),
    "two threads": MSMTFL(lam=0.05, n_jobs=2),
    "poisson": MSMTFL(lam=0.05, loss="poisson"),
    "lasso": LassoMTL(lam=0.05),
    "rows": L12MTL(lam=0.05),
    "dirty": DirtyMTL(lam_s=0.05, lam_b=0.1),
    "shared": SharedMTL(lam_common=0.05, lam_deviation=0.05),
    "pooling": PartialPooling(k=5.0),
    "pretrained": PretrainedMTL(lam=0.05, lam_common=0.05),
    "robust": RobustMTL(lam_deviation=0.05, lam_common=0.05),
    "huber": MSMTFL(lam=0.05, loss="huber"),
    "classes": MSMTFLClassifier(lam=0.02),
}
SEARCHES = {
    "search": MSMTFLCV(lams=3, cv=2),
    "lasso search": LassoMTLCV(lams=3, cv=2),
}


def data(kind, seed):
    """Three small tasks; targets that suit the loss."""
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((60, 12)), np.repeat([0, 1, 2], 20)
    y = X[:, 0] - X[:, 1] + task * X[:, 2] + 0.3 * rng.standard_normal(60)
    if kind == "poisson":
        y = rng.poisson(np.exp(0.3 * y)).astype(float)
    return X, (y > 0 if kind == "classes" else y), task


def fitted(model, kind, seed):
    X, y, task = data(kind, seed)
    model.fit(X, y, task=task)
    return model.coef_, model.intercept_, model.predict(X, task=task)


def same(found, expected):
    return all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def on_threads(call, jobs):
    """[call(*job) for job in jobs] on THREADS threads, which begin together and take the jobs in an order of their own."""
    start = Barrier(THREADS)

    def work(place):
        start.wait()
        mine = range(place, len(jobs), THREADS)
        return [(at, call(*jobs[at])) for at in np.random.default_rng(place).permutation(mine)]

    with ThreadPoolExecutor(THREADS) as pool:
        out = dict(pair for part in pool.map(work, range(THREADS)) for pair in part)
    return [out[at] for at in range(len(jobs))]


@pytest.fixture
def often(monkeypatch):
    """Threads take turns as often as they can: what is not safe fails sooner. Nobody is warned meanwhile: before 3.14
    Python's list of filters is shared by all threads, and one may bring back filters that make a warning an error."""
    monkeypatch.setattr(warnings, "warn", lambda *args, **options: None)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def check(models, fits):
    kinds = list(models)
    seeds = -(-fits // len(kinds) // 2)  # every fit is made twice: by different threads, as a rule at different times
    alone = {(kind, seed): fitted(clone(models[kind]), kind, seed) for kind in kinds for seed in range(seeds)}
    jobs = (list(alone) * 2)[:fits]
    found = on_threads(lambda kind, seed: fitted(clone(models[kind]), kind, seed), jobs)
    assert [job for job, answer in zip(jobs, found, strict=True) if not same(answer, alone[job])] == []
    assert progress._limit.inside == 0


def test_a_few_fits_on_threads_are_as_alone(often):
    check(MODELS, 72)


@pytest.mark.slow
def test_a_thousand_fits_on_threads_are_as_alone(often):
    check(MODELS | SEARCHES, 1000)


def test_one_estimator_that_threads_fit_and_ask_is_as_alone(often):
    """All threads fit the same estimator with the same data, while it is asked."""
    model = MSMTFL(lam=0.05)
    expected = fitted(clone(model), "capped", 0)
    found = on_threads(lambda _: fitted(model, "capped", 0), [(at,) for at in range(64)])
    assert all(same(answer, expected) for answer in found)


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a global lock")
def test_kernels_do_not_bring_the_global_lock_back():
    for name in KERNELS:
        importlib.import_module(f"msmtfl._kernels.{name}")
    assert not sys._is_gil_enabled()
