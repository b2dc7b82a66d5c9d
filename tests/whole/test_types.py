"""What functions take is said by a type: hardly a parameter is `Any`, and mypy checks these rooms as strictly as it can."""

import ast
import tomllib
from pathlib import Path

import pytest

import msmtfl

PACKAGE = Path(msmtfl.__file__).parent
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
ROOMS = ("_data", "_objective", "_solvers", "_paths")
AT_MOST = 0.02  # of the parameters of a room


def parameters(room):
    """(file, line, annotation or None) of all parameters of functions in a room, but self and cls"""
    for file in sorted((PACKAGE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                spec = node.args
                every = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
                yield from (
                    (file.name, one.lineno, one.annotation)
                    for one in every
                    if one is not None and one.arg not in ("self", "cls")
                )


@pytest.mark.parametrize("room", ROOMS)
def test_hardly_a_parameter_is_of_any_type(room):
    found = list(parameters(room))
    assert len(found) > 100
    assert [(file, line) for file, line, kind in found if kind is None] == []
    anything = [(file, line) for file, line, kind in found if isinstance(kind, ast.Name) and kind.id == "Any"]
    assert len(anything) <= AT_MOST * len(found), anything


def test_mypy_is_strict_in_these_rooms():
    overrides = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["mypy"]["overrides"]
    strict = [one for one in overrides if set(one["module"]) >= {f"msmtfl.{room}.*" for room in ROOMS}]
    assert len(strict) == 1
    for option in ("disallow_untyped_defs", "disallow_any_generics", "disallow_untyped_calls", "warn_return_any"):
        assert strict[0][option] is True
