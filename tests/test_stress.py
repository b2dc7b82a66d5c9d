"""A thousand random weighted lassos, each checked on X and y: the stress run in small."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.skipif(not BENCHMARKS.exists(), reason="no benchmarks beside the tests")
def test_a_thousand_random_solves(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import stress

    count, _, failures = stress.run(seed=0, solves=1000)
    assert count["solves"] >= 1000
    assert not failures
