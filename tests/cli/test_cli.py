"""The command: with the extra, without it, and the demo from end to end."""

import shutil
import subprocess
import sys
from pathlib import Path

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


def test_without_a_command_there_is_help(told):
    pytest.importorskip("typer")
    status, shown, _ = told()
    assert status == 0
    assert "Usage" in shown
    assert "table" in shown


def test_completion_knows_all_commands_and_options(told):
    pytest.importorskip("typer")
    from msmtfl.cli import app
    from msmtfl.cli.parser import commands

    found = {one.name: one for one in commands(app)}
    assert {"fit", "predict", "table", "plot", "compare", "completion"} <= set(found)
    for shell in ("bash", "zsh", "fish"):
        status, script, _ = told("completion", shell)
        assert status == 0
        assert all(name in script for name in found)
        assert all(option.names[0].lstrip("-") in script for one in found.values() for option in one.options)
    assert told("completion", "tcsh")[0] == 2


def test_bash_completes(tmp_path, told):
    pytest.importorskip("typer")
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    (tmp_path / "script").write_text(told("completion", "bash")[1])
    ask = 'source ./script; COMP_WORDS=(msmtfl fit --tar); COMP_CWORD=2; _msmtfl; echo "${COMPREPLY[@]}"'
    found = subprocess.run([bash, "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["--target"]


def test_the_reference_of_commands_is_that_of_the_code():
    pytest.importorskip("typer")
    from msmtfl.cli import app
    from msmtfl.cli.parser import reference

    page = Path(__file__).parents[2] / "docs" / "commands.md"
    if not page.exists():
        pytest.skip("there are no docs here")
    assert page.read_text(encoding="utf-8") == reference(app), "make it anew: python docs/commands.py"


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


def test_lines_are_broken_between_words_on_a_terminal_only(monkeypatch):
    pytest.importorskip("typer")
    from msmtfl.cli.options import fitted

    class Stream:
        def __init__(self, terminal):
            self.isatty = lambda: terminal

    monkeypatch.setenv("COLUMNS", "50")
    text = f"msmtfl fit: {'a rather long message ' * 6}{'x' * 60}\n  {'indented words ' * 5}\nshort\n"
    shown = fitted(text, Stream(True))
    assert fitted(text, Stream(False)) == text
    assert shown.split() == text.split()
    assert all(len(line) <= 50 or " " not in line for line in shown.split("\n"))
    assert "\n    indented words indented words\nshort" in shown  # further in than where the line began
