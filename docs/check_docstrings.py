"""Checks the docstrings of everything public: `make lint`. With `--write` it fills in the texts that are shared.

Public are the names of the API reference (docs/api.md), their public methods and properties. The rules are those of
numpydoc in CODES, and a few more: defaults are the signature's, attributes have a type and a description, a text is
complete in itself. What several docstrings say about the same parameter stands in docs/shared_parameters.txt; `--write`
copies it to where it belongs, so that help(), notebooks and editors, which read the source, all show it in full.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import re
import sys
import textwrap
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

HERE = Path(__file__).parent
SHARED = HERE / "shared_parameters.txt"

# GL08 a docstring; GL06, GL07 sections known and in order; SS the first line; PR parameters; RT, YD what is given back
CODES = """GL06 GL07 GL08 GL09 SS02 SS03 SS04 SS06 PR01 PR02 PR03 PR04 PR05 PR07 PR08 PR09 PR10 RT01 RT02 RT03 RT04 RT05
YD01""".split()

# what sends a reader elsewhere, or is said otherwise here
PHRASES = {
    r"\A(The same|Of )": "begins in the middle of a sentence",
    r"\b[Aa]s (for|in|of) (:|`)": "sends the reader elsewhere for a description",
    r"says? the task": 'is "identifies the task" elsewhere',
    r"\bmend": 'is "fix" elsewhere',
    r'(?<!")\bcells?\b(?!")': 'is "entry", "point" or "score"',
}


class Public(NamedTuple):
    """Something that has a docstring to be checked: the names it is public by, and the place of its source."""

    names: list[str]
    thing: Any
    place: str

    @property
    def name(self) -> str:
        return self.names[0]


def api_names() -> list[str]:
    """Names of the API reference: msmtfl.MSMTFL, msmtfl.sharing.sharing_map, ..."""
    out, module = [], "msmtfl"
    for line in (HERE / "api.md").read_text(encoding="utf-8").splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.match(r"   ([A-Za-z][\w.]*)$", line):
            out.append(f"{module}.{found[1]}")
    return out


def lookup(path: str) -> Any:
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


def function_of(member: Any) -> Any:
    """The function behind a method or a property; None of other members of a class."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, functools.cached_property):
        return member.func
    return member if inspect.isroutine(member) else None


def public() -> list[Public]:
    """Everything whose docstring users read, inherited methods once."""
    found: dict[str, Public] = {}
    for name in api_names():
        things = {name: lookup(name)}
        if inspect.isclass(things[name]):
            members = inspect.getmembers_static(things[name])
            things |= {f"{name}.{key}": getattr(things[name], key) for key, _ in members if not key.startswith("_")}
        for path, thing in things.items():
            function = thing if path == name else function_of(thing)
            source = inspect.unwrap(function) if function is not None else None
            if source is None or not source.__module__.startswith("msmtfl"):
                continue
            place = f"{source.__module__}:{source.__qualname__}"
            found.setdefault(place, Public([], source, place)).names.append(path)
    return list(found.values())


# ------------------------------------------------------------------ the rules


def numpydoc_findings(one: Public) -> list[str]:
    """What numpydoc says, but that the fields of a dataclass may be its attributes: users do not call it."""
    errors = validate(one.name)["errors"]
    if dataclasses.is_dataclass(one.thing):
        described = names_in(one.thing, "Attributes") | names_in(one.thing, "Parameters")
        lacking = [field for field in inspect.signature(one.thing).parameters if field not in described]
        errors = [error for error in errors if error[0] not in ("PR01", "PR02", "PR03")]
        errors += [("PR01", f"Fields {lacking} not documented")] if lacking else []
    return [f"{code} {text}" for code, text in errors if code in CODES]


def sections(thing: Any) -> NumpyDocString:
    return NumpyDocString(inspect.cleandoc(thing.__doc__ or ""))


def names_in(thing: Any, section: str) -> set[str]:
    return {name.strip("*") for entry in sections(thing)[section] for name in entry.name.split(", ")}


def default_findings(one: Public) -> list[str]:
    """Parameters whose default is not the one that their text gives."""
    signature = inspect.signature(one.thing).parameters
    out = []
    for entry in sections(one.thing)["Parameters"]:
        for name in entry.name.split(", "):
            parameter = signature.get(name)
            if parameter is None or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            told = re.search(r"default=(.+)$", entry.type)
            default = parameter.default
            if default is None:
                wrong = not entry.type.endswith(("optional", "default=None"))
            elif default is parameter.empty:
                wrong = told is not None or entry.type.endswith("optional")
            else:
                wrong = told is None or told[1].replace('"', "'") != shown(default).replace('"', "'")
            if wrong:
                out.append(f"default of {name}: the text says {entry.type!r}, the signature {shown(default)}")
    return out


def shown(default: Any) -> str:
    """A default as texts give it."""
    if default is inspect.Parameter.empty:
        return "none"
    text = repr(default)
    return {"inf": "inf", "1e-08": "1e-8", "1e-07": "1e-7"}.get(text, text.removesuffix(".0"))


def attribute_findings(one: Public) -> list[str]:
    return [
        f"attribute {entry.name}: {'no description' if entry.type else 'no type'}"
        for entry in (sections(one.thing)["Attributes"] if inspect.isclass(one.thing) else ())
        if not entry.type or not entry.desc
    ]


def phrase_findings(one: Public) -> list[str]:
    text = inspect.cleandoc(one.thing.__doc__ or "").split("\nExamples\n")[0]
    return [f"{found[0]!r} {why}" for phrase, why in PHRASES.items() if (found := re.search(phrase, text))]


# ------------------------------------------------------------------ texts that are shared


class Section(NamedTuple):
    patterns: list[str]
    texts: dict[str, str]


def shared_texts() -> list[Section]:
    """The sections of docs/shared_parameters.txt: patterns of public names, and {parameter: its text}."""
    out: list[Section] = []
    for block in re.split(r"^\[", SHARED.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        patterns, body = block.split("]\n", 1)
        texts = {entry.split(" : ")[0]: entry.rstrip() for entry in re.split(r"^(?=\S)", body, flags=re.MULTILINE)[1:]}
        out.append(Section(patterns.split(), texts))
    return out


def shared_of(one: Public, table: list[Section]) -> dict[str, str]:
    """The shared texts for a docstring; the first section that fits decides."""
    out: dict[str, str] = {}
    for section in table:
        if any(fnmatchcase(name, pattern) for name in one.names for pattern in section.patterns):
            out = section.texts | out
    return out


ENTRY = r"^(?=\S)"  # an entry of a section begins at its margin


def with_shared(doc: str, texts: dict[str, str], parameters: list[str]) -> str:
    """A docstring (without its indent) with the shared texts of its parameters and attributes."""
    for heading, wanted in (("Parameters", parameters), ("Attributes", None)):
        found = re.search(rf"^{heading}\n-+\n(.*?)(?=^\S[^\n]*\n-{{3,}}$|\Z)", doc, flags=re.MULTILINE | re.DOTALL)
        if found is None:
            continue
        entries = {e.split(" : ")[0].rstrip(): e.rstrip() for e in re.split(ENTRY, found[1], flags=re.MULTILINE)[1:]}
        covered = {name for key in entries for name in key.split(", ")}
        entries |= {name: text for name, text in texts.items() if name in entries}
        if wanted is not None:
            entries |= {name: texts[name] for name in wanted if name in texts and name not in covered}
            place = {name: k for k, name in enumerate(wanted)}
            entries = dict(sorted(entries.items(), key=lambda item: place.get(item[0].split(", ")[0].strip("*"), -1)))
        end = "\n\n" if found.end() < len(doc) else "\n"
        doc = doc[: found.start(1)] + "\n".join(entries.values()) + end + doc[found.end() :]
    return doc


def docstring_node(place: str) -> tuple[Path, ast.Constant | None]:
    """Where the docstring of a function or class stands in its source."""
    module, path = place.split(":")
    file = Path(str(importlib.import_module(module).__file__))
    node: Any = ast.parse(file.read_text(encoding="utf-8"))
    for name in path.split("."):
        node = [one for one in node.body if getattr(one, "name", None) == name][-1]  # after overloads of it
    first = node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return file, first.value if is_text else None


def rewritten(one: Public, table: list[Section]) -> tuple[Path, int, int, str] | None:
    """The file, the lines and the new text of a docstring whose shared texts are not those of the table."""
    file, node = docstring_node(one.place)
    if node is None:
        return None
    lines = file.read_text(encoding="utf-8").splitlines()[node.lineno - 1 : node.end_lineno]
    indent = " " * node.col_offset
    source = "\n".join(lines)
    quotes = re.match(r'\s*(r?""")', source)
    if quotes is None:
        return None
    body = textwrap.dedent(indent + source[quotes.end() : source.rindex('"""')])
    parameters = list(inspect.signature(one.thing).parameters) if callable(one.thing) else []
    new = with_shared(body.rstrip() + "\n", shared_of(one, table), parameters)
    if new == body.rstrip() + "\n":
        return None
    text = textwrap.indent(new, indent).lstrip().rstrip("\n")
    return file, node.lineno, int(node.end_lineno or 0), f'{indent}{quotes[1]}{text}\n{indent}"""'


def write(things: list[Public], table: list[Section]) -> int:
    """Fill in the shared texts; how many docstrings have changed."""
    changes = sorted(filter(None, (rewritten(one, table) for one in things)), key=lambda c: (str(c[0]), -c[1]))
    for file, first, last, text in changes:  # from the end of a file, so that line numbers stay right
        lines = file.read_text(encoding="utf-8").split("\n")
        file.write_text("\n".join([*lines[: first - 1], *text.split("\n"), *lines[last:]]), encoding="utf-8")
    return len(changes)


def findings(things: list[Public], table: list[Section]) -> list[str]:
    out = []
    for one in things:
        of_this = numpydoc_findings(one) + default_findings(one) + attribute_findings(one) + phrase_findings(one)
        if rewritten(one, table) is not None:
            of_this.append("differs from docs/shared_parameters.txt: python docs/check_docstrings.py --write")
        out += [f"{one.name}: {text}" for text in of_this]
    return out


def main() -> int:
    things, table = public(), shared_texts()
    if "--write" in sys.argv:
        print(f"{write(things, table)} docstrings rewritten")
        return 0
    wrong = findings(things, table)
    print("\n".join(wrong + [f"docstrings: {len(things)} public, {len(wrong)} findings"]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
