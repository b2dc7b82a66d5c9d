"""What the source must not do: keep state by reflection, or write into frozen objects."""

import ast
from pathlib import Path

import pytest

import msmtfl

SOURCE = Path(msmtfl.__file__).parent
# where an object's attributes are what the code is about, whatever they are called
ALLOWED = {
    "_runtime/whole.py": "gives an object whose method fails the attributes that it had before",
    "model_files/writing.py": "a file holds all attributes of a fitted model",
    "model_files/reading.py": "and gives them back",
}
STATE = ("__getstate__", "__setstate__")  # what pickle asks for are the attributes


def tricks(text):
    """Line numbers of a text's `vars(...)`, `__dict__`, `object.__setattr__` and `setattr(...)`."""

    def look(node, allowed):
        allowed = allowed or (isinstance(node, ast.FunctionDef) and node.name in STATE)
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("vars", "setattr")
        named = isinstance(node, ast.Attribute) and node.attr in ("__dict__", "__setattr__")
        if (called or named) and not allowed:
            yield node.lineno
        for part in ast.iter_child_nodes(node):
            yield from look(part, allowed)

    return list(look(ast.parse(text), False))


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_no_attributes_by_reflection(path):
    if path.relative_to(SOURCE).as_posix() not in ALLOWED:
        assert not tricks(path.read_text(encoding="utf-8"))


def test_the_exceptions_are_needed():
    assert all(tricks((SOURCE / path).read_text(encoding="utf-8")) for path in ALLOWED)


@pytest.mark.parametrize(
    "line", ["vars(a).update(b=1)", "a.__dict__.pop('b')", "object.__setattr__(a, 'b', 1)", "setattr(a, b, 1)"]
)
def test_tricks_are_seen(line):
    assert tricks(line) == [1]
    assert not tricks(f"class A:\n    def __getstate__(self):\n        return {line}")
