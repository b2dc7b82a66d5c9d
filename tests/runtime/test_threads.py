"""Work on threads: nested, interrupted, forked, and what it leaves behind."""

import _thread
import os
import signal
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from msmtfl import MSMTFL, MSMTFLCV, LassoMTL
from msmtfl._runtime.progress import one_blas_thread
from msmtfl._runtime.threads import each

pytestmark = pytest.mark.timed

rng = np.random.default_rng(0)
X, task = rng.standard_normal((90, 8)), np.repeat([0, 1, 2], 30)
y = X[:, 0] + 0.3 * rng.standard_normal(90)


def test_work_within_work_needs_no_further_threads():
    names = each(lambda _: each(lambda _: threading.current_thread().name, range(3), 2), range(4), 2)
    assert all(len(set(inner)) == 1 for inner in names)

    def scorer(estimator, X, y):
        return LassoMTL(n_jobs=2).fit(X, y, task=np.arange(len(y)) % 2).score(X, y, task=np.arange(len(y)) % 2)

    assert MSMTFLCV(lams=3, scoring=scorer, n_jobs=2).fit(X, y, task=task).n_splits_ == 5


def test_the_first_error_is_raised_and_the_rest_dropped():
    begun, stopped = [], []

    def call(i):
        begun.append(i)
        if i == 1:
            raise ZeroDivisionError
        while not stopped:
            time.sleep(0.001)

    with pytest.raises(ZeroDivisionError):
        each(call, range(100), 2, lambda: stopped.append(True))
    assert len(begun) < 10
    assert stopped


@pytest.mark.parametrize("caller", [False, True])
def test_an_error_is_raised_whoever_makes_it(caller):
    """The calling thread works, too: neither waits for the other in vain."""
    here = threading.current_thread()
    both, stopped = threading.Barrier(2), threading.Event()

    def call(i):
        both.wait(5)
        if (threading.current_thread() is here) == caller:
            raise ZeroDivisionError
        assert stopped.wait(5)
        raise InterruptedError

    with pytest.raises(ZeroDivisionError):
        each(call, range(2), 2, stopped.set)


def test_calls_from_several_threads_at_once_all_end():
    """A pool that is busy with one of them does not keep the others waiting."""
    found = {}

    def some(name):
        found[name] = each(lambda i: (time.sleep(0.001), i)[1], range(20), 2)

    threads = [threading.Thread(target=some, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == {name: list(range(20)) for name in range(6)}


def test_ctrl_c_ends_what_other_threads_do():
    both, stopped = threading.Barrier(2), threading.Event()

    def call(i):
        both.wait(5)
        if threading.current_thread() is threading.main_thread():
            return  # done: it waits for the other
        time.sleep(0.05)
        _thread.interrupt_main()
        assert stopped.wait(5)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            each(call, range(2), 2, stopped.set)
    finally:
        signal.signal(signal.SIGINT, before)
    assert stopped.is_set()


def test_ctrl_c_comes_before_the_error_of_another_thread():
    both, stopped = threading.Barrier(2), threading.Event()

    def call(i):
        both.wait(5)
        if threading.current_thread() is not threading.main_thread():
            raise ZeroDivisionError
        assert stopped.wait(5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        each(call, range(2), 2, stopped.set)


class LateError(Exception):
    pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_what_a_signal_handler_raises_ends_the_others_too():
    both, stopped, ended = threading.Barrier(2), threading.Event(), []

    def call(i):
        both.wait(5)
        if threading.current_thread() is threading.main_thread():
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            return
        assert stopped.wait(5)
        ended.append(i)

    def late(*_):
        raise LateError

    before = signal.signal(signal.SIGALRM, late)
    try:
        with pytest.raises(LateError):
            each(call, range(2), 2, stopped.set)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ended


def test_helpers_work_in_the_context_of_the_caller():
    both = threading.Barrier(2)

    def call(i):
        both.wait(5)
        return np.geterr()["divide"]

    with np.errstate(divide="raise"):
        assert each(call, range(2), 2) == ["raise", "raise"]


def test_overlapping_fits_leave_blas_as_it_was():
    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    first, second = one_blas_thread(), one_blas_thread()
    with first:
        second.__enter__()
    assert set(threads()) <= {1}
    second.__exit__(None, None, None)
    assert threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    MSMTFL(n_jobs=2).fit(X, y, task=task)
    child = os.fork()
    if child == 0:
        try:
            MSMTFL(n_jobs=2).fit(X, y, task=task)
            os._exit(0)
        finally:
            os._exit(1)
    for _ in range(200):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0
            return
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the forked process hangs")


def test_an_interrupted_fit_leaves_the_model_as_it_was(monkeypatch):
    model = MSMTFL(0.1).fit(X, y, task=task)
    prediction = model.predict(X, task=task)
    monkeypatch.setattr(
        "msmtfl._estimators.msmtfl.fit.run_stages", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, np.column_stack([y, y]))
    np.testing.assert_array_equal(model.predict(X, task=task), prediction)
