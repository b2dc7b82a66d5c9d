"""Damaged files and ugly tables in small: what `make fuzz` tries for an hour."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="no benchmarks beside the tests")


def test_damaged_files_are_refused_or_read_as_written(monkeypatch):
    pytest.importorskip("typer")
    pytest.importorskip("pyarrow")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import fuzz_files

    outcomes, failures = fuzz_files.run(seed=0, count=60)
    assert sum(outcomes.values()) == 60
    assert not failures
    assert {name.split(":")[0] for name in outcomes} == set(fuzz_files.TRIES)
