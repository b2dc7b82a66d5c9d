"""The house stays simple to walk through: no module is long, no folder is full, and no module imports what imports it."""

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import msmtfl

SOURCE = Path(msmtfl.__file__).parent
MODULES = {  # by name: where it is
    ".".join(("msmtfl", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}
LONGEST = 600
FULLEST = 15  # modules of a folder


def imported(name):
    """The modules of the package that one imports, wherever in it; a package only where that is not for a module in it."""
    inside = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            parts = inside.split(".")[: len(inside.split(".")) - node.level + 1]
            base = ".".join([*parts, *([node.module] if node.module else [])])
            yield from (f"{base}.{one.name}" if f"{base}.{one.name}" in MODULES else base for one in node.names)


def test_no_module_is_long():
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()}
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}


def test_no_folder_is_full():
    of_folder = Counter(str(path.parent.relative_to(SOURCE)) for path in MODULES.values())
    assert {folder: count for folder, count in of_folder.items() if count > FULLEST} == {}


def test_no_module_imports_what_imports_it():
    graph = {name: set(imported(name)) - {"msmtfl"} for name in MODULES}
    assert len(graph["msmtfl._paths.solve"]) > 10  # they are found
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
