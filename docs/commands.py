"""Writes docs/commands.md, the reference of the command, from the code: python docs/commands.py."""

from pathlib import Path

from msmtfl.cli import app
from msmtfl.cli.parser import reference

if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(reference(app), encoding="utf-8")
