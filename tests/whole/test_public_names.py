"""Public names and their signatures stay as they are: names may be added, and parameters with a default, never changed.

python tests/whole/test_public_names.py      # writes down those that are new
"""

import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

STORED = Path(__file__).with_name("public_names.json")
API = Path(__file__).parents[2] / "docs" / "api.md"


def names():
    """Of the package, and of the API reference."""
    import msmtfl

    out, module = [f"msmtfl.{name}" for name in msmtfl.__all__], "msmtfl"
    for line in API.read_text(encoding="utf-8").splitlines() if API.exists() else ():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.match(r"   ([A-Za-z][\w.]*)$", line):
            out.append(f"{module}.{found[1]}")
    return sorted(set(out))


def lookup(path):
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


def parameters_of(thing):
    """{name: kind and default} of what is called, and of the public methods of a class."""
    if not callable(thing):
        return {}
    out = {}
    parts = {"": thing}
    if inspect.isclass(thing):
        parts |= {f".{k}": v for k, v in inspect.getmembers(thing, inspect.isroutine) if not k.startswith("_")}
    for part, one in parts.items():
        if part and not getattr(one, "__module__", "").startswith("msmtfl"):
            continue
        try:
            found = inspect.signature(one).parameters.values()
        except ValueError:
            continue
        out[part] = [
            f"{p.kind.name.lower()} {p.name}" + ("" if p.default is p.empty else f"={p.default!r}") for p in found
        ]
    return out


KNOWN = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}


@pytest.mark.parametrize("path", KNOWN)
def test_a_public_name_is_called_as_ever(path):
    now = parameters_of(lookup(path))
    for part, before in KNOWN[path].items():
        assert part in now, f"{path}{part} is gone"
        gone = [one for one in before if one not in now[part]]
        assert not gone, f"{path}{part}: {gone} changed"
        new = [one for one in now[part] if one not in before]
        assert all("=" in one or one.startswith("var_") for one in new), f"{path}{part}: {new} have no default"


def test_every_public_name_is_written_down():
    assert KNOWN
    assert not [name for name in names() if name not in KNOWN], "run python tests/whole/test_public_names.py"


if __name__ == "__main__":
    table = {name: parameters_of(lookup(name)) for name in names()}
    STORED.write_text(json.dumps(KNOWN | table, indent=1) + "\n", encoding="utf-8")
