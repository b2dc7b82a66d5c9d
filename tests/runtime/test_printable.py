"""Text that comes from data cannot drive a terminal."""

import io
import json
import sys

import numpy as np
import pytest

from msmtfl import MSMTFL
from msmtfl._runtime.text.printable import printable, printable_lines
from msmtfl.model_files import save_model
from msmtfl.sharing import sharing_map

CLEAR = "\x1b[2J\x1b]0;owned\x07"  # clears the screen, renames the window
UGLY = [f"a{CLEAR}", "b\rsolved: all well", "c\nd", "e\u202efdp.exe", "g\x9b31m", "h\udc9bz", "i\u2028j"]


def has_controls(text):
    return any(c in text for c in "\x00\x07\x08\x0b\x0c\r\x1b\x7f\x9b\u202e\u2028") or any(
        0xD800 <= ord(c) < 0xE000 for c in text
    )


def test_what_does_something_is_written_out():
    assert printable("a\x1b[2Jb") == "a\\x1b[2Jb"
    assert printable("a\nb\tc") == "a\\nb\\tc"
    assert printable_lines("a\nb\tc\r") == "a\nb\tc\\r"
    assert printable("\u202egnp") == "\\u202egnp"
    assert printable("\udc9b") == "\\udc9b"
    for one in UGLY:
        assert not has_controls(printable(one))


@pytest.mark.parametrize("text", ["Köln", "東京", "naïve\xa0café", "👩\u200d🔬", "می\u200cخواهم", "a\\x1b"])
def test_writing_of_all_kinds_stays(text):
    assert printable(text) == text


@pytest.fixture(scope="module")
def model():
    """Two equal columns: which of them is used is not certified, and the certificate names both."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x = rng.standard_normal(60)
    others = {name: rng.standard_normal(60) for name in UGLY[2:] if "\udc9b" not in name}
    table = pd.DataFrame({UGLY[0]: x, UGLY[1]: x} | others | {"town": np.repeat(UGLY[:2], 30)})
    return MSMTFL(lam=0.01, theta=0.1, task_column="town").fit(table, x + 0.1 * rng.standard_normal(60))


@pytest.fixture
def file(model, tmp_path):
    path = tmp_path / "model.msmtfl"
    save_model(model, path, provenance={"note": f"by me{CLEAR}", f"who{CLEAR}": "x\nsolved: proven", "made": 7})
    return path


def test_certificates_and_maps_write_names_out(model):
    assert model.certificate_.ambiguous
    for text in (str(model.certificate_), str(sharing_map(model))):
        assert not has_controls(text)
        assert "\\x1b[2J" in text
    assert sum(line.startswith("solved") for line in str(model.certificate_).splitlines()) == 1


def command(*arguments):
    testing, app = pytest.importorskip("typer.testing"), pytest.importorskip("msmtfl.cli").app
    return testing.CliRunner().invoke(app, [str(one) for one in arguments])


def test_what_inspect_shows_of_a_file_cannot_drive_a_terminal(file):
    shown = command("inspect", file)
    text = shown.stdout_bytes.decode("utf-8")  # no halves of characters
    assert shown.exit_code == 0, shown.stderr
    assert not has_controls(text)
    assert "note: by me\\x1b[2J" in text
    assert sum(line.startswith("solved") for line in text.splitlines()) == 1
    assert json.loads(command("inspect", file, "--json").stdout)["provenance"]["user"]["note"] == f"by me{CLEAR}"


def test_errors_and_comments_write_data_out(file, tmp_path):
    table = tmp_path / "new.csv"
    table.write_text(f'"{UGLY[0]}",town\n1.0,x{CLEAR}\n')
    failed = command("predict", file, table)
    assert failed.exit_code == 2
    assert not has_controls(failed.stderr)
    assert command("inspect", file, "--sql", tmp_path / "model.sql").exit_code == 0
    comments = [line for line in (tmp_path / "model.sql").read_text().splitlines() if line.startswith("-- task")]
    assert len(comments) == 2
    assert not any(map(has_controls, comments))


def test_data_for_programs_stay_as_they_are_but_not_on_a_terminal(monkeypatch):
    pytest.importorskip("typer")
    from msmtfl.cli import options

    for terminal, expected in ((False, b"a\x1b[2J,b\n"), (True, b"a\\x1b[2J,b\n")):
        stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        stream.isatty = lambda terminal=terminal: terminal
        monkeypatch.setattr(sys, "stdout", stream)
        options.emit("a\x1b[2J,b\n", data=True)
        assert stream.buffer.getvalue() == expected
