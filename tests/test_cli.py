"""The command: with the extra, without it, and the demo from end to end."""

import subprocess
import sys

import pytest

from msmtfl import __version__

WITHOUT_TYPER = "import sys; sys.modules['typer'] = None; sys.argv[1:] = {!r}; from msmtfl.__main__ import main; main()"


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def test_version_and_help_with_examples():
    pytest.importorskip("typer")
    assert run("-m", "msmtfl", "--version").stdout.strip() == f"msmtfl {__version__}"
    shown = run("-m", "msmtfl", "--help")
    assert shown.returncode == 0
    assert "demo" in shown.stdout
    assert "Example" in shown.stdout


def test_unknown_command_fails_on_stderr():
    pytest.importorskip("typer")
    failed = run("-m", "msmtfl", "nonsense")
    assert failed.returncode == 2
    assert "nonsense" in failed.stderr
    assert failed.stdout == ""


def test_without_the_extra_it_says_what_to_install():
    failed = run("-c", WITHOUT_TYPER.format(["--help"]))
    assert failed.returncode == 2
    assert 'pip install "msmtfl[cli]"' in failed.stderr


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
