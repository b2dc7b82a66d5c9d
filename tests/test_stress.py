"""A thousand random weighted lassos, each checked on X and y: the stress run in small."""

import importlib.util
from pathlib import Path

import pytest

STRESS = Path(__file__).parent.parent / "benchmarks" / "stress.py"


@pytest.mark.skipif(not STRESS.exists(), reason="no benchmarks beside the tests")
def test_a_thousand_random_solves():
    spec = importlib.util.spec_from_file_location("stress", STRESS)
    stress = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stress)
    count, _, failures = stress.run(seed=0, solves=1000)
    assert count["solves"] >= 1000
    assert not failures
