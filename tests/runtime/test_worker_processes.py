"""Work in processes of their own."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial

import numpy as np
import pytest

from msmtfl._runtime.processes import BEGIN, LARGE, Processes

pytestmark = pytest.mark.timed


def double(value, given):
    return 2 * value, os.getpid(), given["name"]


def run(jobs, given=None, count=2, wait=True):
    """What jobs return, those of the calling thread after the others if it is to wait for them."""
    given = {"name": "data"} if given is None else given
    with Processes(given, count) as processes:
        assert processes.start()

        def here(job):
            if wait:
                time.sleep(0.2)
                assert processes.workers[0].known.wait(60)
            return job(given)

        out = processes.each(here, lambda job, ask: ask(job), jobs, lambda: None)
        pids = [worker.process.pid for worker in processes.workers]
    return out, pids


def gone(pid, seconds=5.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def test_jobs_are_shared_out_and_answers_come_in_their_order():
    out, pids = run([partial(double, value) for value in range(8)])
    assert [value for value, _, _ in out] == list(range(0, 16, 2))
    assert {pid for _, pid, _ in out} == {os.getpid(), *pids}
    assert {name for _, _, name in out} == {"data"}
    assert all(gone(pid) for pid in pids)


def test_what_is_done_before_a_worker_has_started_waits_for_none():
    began = time.monotonic()
    out, pids = run([partial(double, value) for value in range(3)], wait=False)
    assert {pid for _, pid, _ in out} == {os.getpid()}
    assert time.monotonic() - began < 1.0
    assert all(gone(pid) for pid in pids)


def test_large_arrays_are_mapped():
    X = np.arange(LARGE // 8 + 1.0)

    def look(given):
        return os.getpid(), given["X"].flags.writeable, float(given["X"].sum()), type(given["X"]).__name__

    out, (pid,) = run([look] * 4, {"X": X, "again": X})
    assert (pid, False, float(X.sum()), "ndarray") in out


def test_classes_that_only_this_program_has_go_there_and_back():
    class Own:
        def __init__(self, value):
            self.value = value

    out, _ = run([lambda given: given["own"]] * 4, {"own": Own(3)})
    assert [type(one) for one in out] == [Own] * 4


def fail(text, given):
    if os.getpid() != given["home"]:
        raise KeyError(text)


def test_an_error_of_a_worker_says_where_it_was_raised():
    with pytest.raises(KeyError, match="what is wrong") as caught:
        run([partial(fail, "what is wrong")] * 4, {"home": os.getpid()})
    assert "in fail" in str(caught.value.__cause__)


def end_of_it(given):
    if os.getpid() != given["home"]:
        os._exit(3)


def test_a_worker_that_dies_is_an_error():
    with pytest.raises(RuntimeError, match="has ended before its time"):
        run([end_of_it] * 4, {"home": os.getpid()})


def chatter(given):
    sys.stdout.write("this must not come among the answers")
    sys.stdout.flush()
    return 1


def test_what_jobs_print_is_no_answer():
    assert run([chatter] * 4)[0] == [1] * 4


def test_what_cannot_be_sent_is_not_sent():
    with Processes({"lock": threading.Lock()}, 2) as processes:
        assert not processes.start()


INTERRUPTED = """
    import os, signal, threading, time
    from msmtfl._runtime.processes import Processes

    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored

    def long(given):
        for _ in range(6000):
            time.sleep(0.01)

    with Processes({}, 2) as processes:
        processes.start()
        processes.workers[0].known.wait(60)
        print(processes.workers[0].process.pid, flush=True)
        began = []

        def interrupt():
            time.sleep(0.5)
            began.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        try:
            processes.each(lambda job: job({}), lambda job, ask: ask(job), [long, long], lambda: None)
        except KeyboardInterrupt:
            print(time.monotonic() - began[0], flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_is_answered_at_once_and_leaves_no_worker():
    command = [sys.executable, "-c", textwrap.dedent(INTERRUPTED)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    pid, seconds = done.stdout.split()
    assert float(seconds) < 2.0  # machines may be busy
    assert gone(int(pid))


KILLED = """
    import os, time
    from msmtfl._runtime.processes import Processes

    def long(given):
        time.sleep(60)

    processes = Processes({}, 2)
    processes.start()
    processes.workers[0].known.wait(60)
    print(processes.workers[0].process.pid, flush=True)
    processes.each(lambda job: job({}), lambda job, ask: ask(job), [long, long], lambda: None)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_workers_end_with_who_has_started_them():
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(KILLED)], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    time.sleep(0.3)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert gone(pid)


@pytest.mark.slow
def test_a_worker_removes_its_files_when_nobody_asks_any_more(tmp_path):
    """As it is where whoever started it was killed, and could not."""
    folder = tmp_path / "msmtfl_work"
    folder.mkdir()
    with (folder / "work").open("wb") as file:
        pickle.dump({"x": 1}, file)
    worker = subprocess.Popen([sys.executable, "-c", BEGIN, *sys.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    worker.communicate(pickle.dumps(folder / "work"), timeout=60)
    assert worker.returncode == 0
    assert not folder.exists()
