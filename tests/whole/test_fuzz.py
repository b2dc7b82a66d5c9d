"""Damaged files and ugly tables in small: what `make fuzz` tries for an hour."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "studies"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 100])
def test_commands_on_ugly_tables_work_or_say_what_is_wrong(seed):
    """`python tests/fuzz_commands.py` in small."""
    pytest.importorskip("typer")
    import fuzz_commands

    lines = []
    outcomes, bad = fuzz_commands.fuzz(8, 0.0, seed, lines.append)
    assert not bad, "\n".join(lines)
    assert sum(outcomes.values()) == 8


@pytest.mark.slow
def test_commands_that_fail_are_found(monkeypatch):
    """The fuzzer does not pass whatever it is shown."""
    pytest.importorskip("typer")
    import fuzz_commands

    real = fuzz_commands.invoke

    def broken(arguments):
        result, seconds = real(arguments)
        if result.exit_code == 2:
            result.exception = KeyError("broken")
        return result, seconds

    monkeypatch.setattr(fuzz_commands, "invoke", broken)
    _, bad = fuzz_commands.fuzz(4, 0.0, 0, lambda line: None)
    assert any("an error" in line for found in bad for line in found.failures)


@pytest.mark.slow
@pytest.mark.skipif(not BENCHMARKS.exists(), reason="no benchmarks beside the tests")
def test_damaged_files_are_refused_or_read_as_written(monkeypatch):
    pytest.importorskip("typer")
    pytest.importorskip("pyarrow")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import fuzz_files

    outcomes, failures = fuzz_files.run(seed=0, count=60)
    assert sum(outcomes.values()) == 60
    assert not failures
    assert {name.split(":")[0] for name in outcomes} == set(fuzz_files.TRIES)
