"""Ctrl-C is answered at once, whatever a search is doing: measured as `benchmarks/studies/interrupts.py` does it."""

import runpy
import signal
import sys
from pathlib import Path

import pytest

STUDY = Path(__file__).parents[2] / "benchmarks" / "studies" / "interrupts.py"
pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
    pytest.mark.skipif(not STUDY.exists(), reason="no benchmarks beside the tests"),
    pytest.mark.slow,
    pytest.mark.timed,
]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The functions of the study, and a folder with its data."""
    study, folder = runpy.run_path(str(STUDY)), tmp_path_factory.mktemp("data")
    study["write"](folder)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # children would ignore what is ignored here
    yield study, folder
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("kind", ["one thread", "threads", "processes", "command"])
def test_ctrl_c_is_answered_within_a_fifth_of_a_second(study, kind):
    functions, folder = study
    waits = (2.5, 3.0, 3.5) if kind == "command" else (0.2, 0.6, 1.0)
    times = [functions["answered"](kind, folder, wait) for wait in waits]
    assert None not in times  # the search was under way
    assert sorted(times)[1] < 0.2  # a busy machine may hold one of them up
