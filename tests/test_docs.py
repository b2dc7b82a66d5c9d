"""What the documentation shows runs: every example in a docstring, every Python block of the README."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import msmtfl

MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(msmtfl.__path__, "msmtfl.")
    if name.split(".")[1] not in ("__main__", "_kernel", "cli")
]
README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    failures, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failures == 0


def test_public_names_have_an_example():
    for name in msmtfl.__all__:
        assert ">>>" in getattr(msmtfl, name).__doc__, name


@pytest.mark.filterwarnings("default")
def test_readme_blocks_run(capsys):
    if not README.exists():
        pytest.skip("the README is not beside the tests")
    namespace: dict = {}
    for block in re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(block, "README.md", "exec"), namespace)
    shown = capsys.readouterr().out
    assert "['bmi' 'pressure']" in shown
    assert "solved: relative duality gap" in shown
