"""What long work says of itself while it goes on."""

import io
import sys

import pytest

from msmtfl._runtime import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Time that goes by when the test says so."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def shown(monkeypatch, stream, clock, seconds, total=4):
    """What is written by work whose steps take so many seconds each."""
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.Progress(total, "folds", True) as bar:
        for _ in range(total):
            clock[0] += seconds
            bar.step()
    return stream.getvalue()


def test_a_terminal_has_a_bar_that_is_drawn_over(monkeypatch, clock):
    text = shown(monkeypatch, Terminal(), clock, 1.0)
    assert text.count("\r") == 4
    assert text.endswith("4/4 folds [##############################] 4.0 s, 0.0 s to go  \n")
    assert text.count("\n") == 1


def test_a_log_has_a_line_now_and_then(monkeypatch, clock):
    lines = shown(monkeypatch, io.StringIO(), clock, 6.0, total=20).splitlines()
    assert lines[0] == "2/20 folds after 12 s, 108 s to go"
    assert lines[-1] == "20/20 folds after 120 s, 0 s to go"
    assert len(lines) == 4
    assert not any("\r" in line for line in lines)


def test_short_work_leaves_a_log_as_it_is(monkeypatch, clock):
    assert shown(monkeypatch, io.StringIO(), clock, 1.0) == ""
