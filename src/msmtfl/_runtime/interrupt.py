"""Ctrl-C while the command is still importing what it needs: a message and exit code 130, as later on."""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from types import TracebackType

STOPPED = 130
NAMES = ("msmtfl", "msmtfl.exe", "msmtfl-script.py")


def is_command(arguments: list[str], original: list[str]) -> bool:
    """Whether this process is the command, `msmtfl` or `python -m msmtfl`, and not a program that imports the package."""
    begun = arguments[0] if arguments else ""
    if begun == "-m":  # the package is being imported, before its __main__ is found
        return ("-m", "msmtfl") in pairwise(original)
    return os.path.basename(begun) in NAMES or begun.endswith(os.path.join("msmtfl", "__main__.py"))


def _stopped(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    sys.stderr.write("\nmsmtfl: stopped.\n")
    sys.stderr.flush()
    os._exit(STOPPED)  # Python would kill the process by the signal


if is_command(sys.argv if hasattr(sys, "argv") else [], sys.orig_argv):
    sys.excepthook = _stopped
