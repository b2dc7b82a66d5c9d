"""Long benchmarks in small: a thousand random weighted lassos, each checked on X and y, and one per cent of the stream."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "studies"
pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="no benchmarks beside the tests")


@pytest.mark.slow
def test_hundreds_of_random_solves(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import stress

    count, _, failures = stress.run(seed=0, solves=300)
    assert count["solves"] >= 300
    assert not failures


@pytest.mark.slow
def test_a_stream_from_parquet_takes_little_memory_and_gives_the_fit_in_memory():
    pytest.importorskip("pyarrow")
    command = [sys.executable, str(BENCHMARKS / "streaming.py"), "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    found = {line.split("|")[1].strip(): line for line in done.stdout.splitlines() if line.startswith("|")}
    assert "OK" in found["peak memory"], done.stdout + done.stderr
    assert "OK" in found["streamed less in memory, 50,000 rows"], done.stdout
