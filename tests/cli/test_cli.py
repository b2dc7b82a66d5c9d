"""The command: with the extra, without it, and the demo from end to end."""

import subprocess
import sys

import pytest

from msmtfl import __version__
from msmtfl.__main__ import main

WITHOUT_TYPER = "import sys; sys.modules['typer'] = None; sys.argv[1:] = {!r}; from msmtfl.__main__ import main; main()"


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def told(monkeypatch, capsys):
    """What the command does with its arguments, in this process: status, stdout, stderr."""

    def call(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["msmtfl", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capsys.readouterr()

    return call


def test_version_and_help_with_examples(told):
    pytest.importorskip("typer")
    assert told("--version") == (0, f"msmtfl {__version__}\n", "")
    status, shown, _ = told("--help")
    assert status == 0
    assert "demo" in shown
    assert "Example" in shown


@pytest.mark.slow
def test_unknown_command_fails_on_stderr():
    pytest.importorskip("typer")
    failed = run("-m", "msmtfl", "nonsense")
    assert failed.returncode == 2
    assert "nonsense" in failed.stderr
    assert failed.stdout == ""


def test_without_the_extra_it_says_what_to_install(told, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("msmtfl.cli")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "typer", None)
    status, shown, said = told("--help")
    assert (status, shown) == (2, "")
    assert 'pip install "msmtfl[cli]"' in said


@pytest.mark.slow
def test_demo_needs_no_extra_and_says_what_was_found():
    shown = run("-W", "error::RuntimeWarning", "-c", WITHOUT_TYPER.format([]))
    assert shown.returncode == 0, shown.stderr
    for expected in (
        "442 diabetes patients",
        "shared:",
        "bmi",
        "With sharing the squared error is",
        "solved: relative",
    ):
        assert expected in shown.stdout
