"""Runs the code of a Markdown page, top to bottom in one namespace, and compares what it prints with what the page says.

    python    statements; what they print is compared if a block `output` follows, and not looked at otherwise
    output    what the statements before it print
    pycon     a session with >>>, compared
    console   lines with `$ msmtfl ...`; what follows is compared, if anything does

Blanks, times and numbers that are zero but for rounding are not compared, and `...` stands for anything. Other blocks (sh,
text) are not run.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^```(python|output|pycon|console)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)

UNSTEADY = [(re.compile(r"\b\d(\.\d+)?e-1\d\b"), "rounding"), (re.compile(r"\b\d+\.\d s\b"), "seconds")]


class Checker(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        for what, name in UNSTEADY:
            want, got = what.sub(name, want), what.sub(name, got)
        return super().check_output(want, got, optionflags)


def blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, kind, code)"""
    for found in FENCE.finditer(text):
        yield text[: found.start(2)].count("\n") + 1, found[1], found[2]


def run_page(text: str, name: str) -> list[str]:
    """What went otherwise than the page says; files are written to the current folder."""
    namespace: dict = {"__name__": "__main__"}
    wrong: list[str] = []
    said = ""
    for line, kind, code in blocks(text):
        where = f"{name}, line {line}"
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile("\n" * (line - 1) + code, name, "exec"), namespace)
            said = printed.getvalue()
        elif kind == "output":
            if not Checker().check_output(code, said, LIKE):
                wrong.append(f"{where}: what is printed is\n{said}\nnot\n{code}")
        elif kind == "pycon":
            test = doctest.DocTestParser().get_doctest(code, namespace, where, name, line)
            runner = doctest.DocTestRunner(Checker(), optionflags=LIKE, verbose=False)
            runner.run(test, out=wrong.append, clear_globs=False)
            namespace.update(test.globs)
        else:
            wrong += run_commands(code, where)
    return wrong


def run_commands(code: str, where: str) -> list[str]:
    wrong = []
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        while re.search(r"\\\n", part):
            part = re.sub(r"\\\n\s*", "", part, count=1)
        command, _, expected = part.partition("\n")
        program, *arguments = shlex.split(command)
        if program != "msmtfl":
            raise ValueError(f"{where}: only msmtfl is run in console blocks, not {program}")
        done = subprocess.run([sys.executable, "-m", "msmtfl", *arguments], capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        if done.returncode and not expected.strip():
            wrong.append(f"{where}: {command}\n{said}")
        if expected.strip() and not Checker().check_output(expected, said, LIKE):
            wrong.append(f"{where}: {command}\nsays\n{said}\nnot\n{expected}")
    return wrong
