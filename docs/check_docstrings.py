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

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
SHARED = HERE / "shared_parameters.txt"

CODES = {
    *("GL06", "GL07", "GL08", "GL09"),  # there is a docstring; its sections are known and in order
    *("SS02", "SS03", "SS04", "SS06"),  # it begins with a sentence in one line
    *("PR01", "PR02", "PR03"),  # all parameters are described, in the order of the signature
    *("PR04", "PR05", "PR07", "PR08", "PR09", "PR10"),  # each by its type and a sentence
    *("RT01", "RT02", "RT03", "RT04", "RT05", "YD01"),  # what is returned or yielded
}

PHRASES = {  # what sends a reader elsewhere, or is said otherwise in this package
    r"\A(The same|Of )": "begins in the middle of a sentence",
    r"\b[Aa]s (for|in|of) (:|`)": "sends the reader elsewhere for a description",
    r"says? the task": 'should be "identifies the task"',
    r"\bmend": 'should be "fix"',
    r'(?<!")\bcells?\b(?!")': 'should be "entry", "point" or "score"',
}


class Public(NamedTuple):
    """Something with a docstring that users read: the names that it is public by, and the place of its source."""

    names: list[str]
    thing: Any
    place: str

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def text(self) -> str:
        return inspect.cleandoc(self.thing.__doc__ or "")


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
    """The function behind a method or a property; None for other members of a class."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, functools.cached_property):
        return member.func
    return inspect.unwrap(member) if inspect.isroutine(member) else None


def public(names: list[str], package: str = "msmtfl") -> list[Public]:
    """The things of these names and their public members, inherited ones once."""
    found: dict[str, Public] = {}
    for name in names:
        thing = lookup(name)
        things = {name: thing}
        if inspect.isclass(thing):
            members = {key: getattr(thing, key) for key in dir(thing) if not key.startswith("_")}
            things |= {f"{name}.{key}": function_of(member) for key, member in members.items()}
        for path, one in things.items():
            if getattr(one, "__module__", "").startswith(package):
                place = f"{one.__module__}:{one.__qualname__}"
                found.setdefault(place, Public([], one, place)).names.append(path)
    return list(found.values())


# ------------------------------------------------------------------ the rules


def section(doc: str, heading: str) -> re.Match[str] | None:
    """A section of a docstring; its group 1 is what stands below the heading."""
    return re.search(rf"^{heading}\n-+\n(.*?)(?=^\S[^\n]*\n-{{3,}}$|\Z)", doc, flags=re.MULTILINE | re.DOTALL)


def entries(body: str) -> dict[str, str]:
    """{"name" or "name, name": text} of what stands in a section: an entry begins at the margin."""
    parts = re.split(r"^(?=\S)", body, flags=re.MULTILINE)
    return {part.split(" : ")[0].rstrip(): part.rstrip() for part in parts if part.strip()}


def described(doc: str, heading: str) -> dict[str, str]:
    """{name: text} of the parameters or attributes of a docstring."""
    found = section(doc, heading)
    return {name: text for key, text in entries(found[1] if found else "").items() for name in key.split(", ")}


def numpydoc_findings(one: Public) -> list[str]:
    """What numpydoc says, but that the fields of a dataclass may be its attributes: users do not call it."""
    from numpydoc.validate import validate

    errors = validate(one.name)["errors"]
    if dataclasses.is_dataclass(one.thing):
        known = described(one.text, "Attributes") | described(one.text, "Parameters")
        lacking = [field for field in inspect.signature(one.thing).parameters if field not in known]
        errors = [error for error in errors if error[0] not in ("PR01", "PR02", "PR03")]
        errors += [("PR01", f"Fields {lacking} not documented")] if lacking else []
    return [f"{code} {text}" for code, text in errors if code in CODES]


def default_findings(one: Public) -> list[str]:
    """Parameters whose default is not the one that their text gives."""
    texts, out = described(one.text, "Parameters"), []
    for name, parameter in inspect.signature(one.thing).parameters.items():
        if name not in texts:
            continue
        kind = texts[name].split("\n")[0].partition(" : ")[2]
        told, default = re.search(r"default=(.+)$", kind), parameter.default
        if default is parameter.empty:
            right = told is None and not kind.endswith("optional")
        elif default is None:
            right = kind.endswith(("optional", "default=None"))
        else:
            right = told is not None and told[1].replace('"', "'") == shown(default).replace('"', "'")
        if not right:
            out.append(f"default of {name}: the text says {kind!r}, the signature {parameter}")
    return out


def shown(default: Any) -> str:
    """A default as texts give it: 1e-8, not 1e-08; 0, not 0.0."""
    return re.sub(r"e-0", "e-", repr(default)).removesuffix(".0")


def attribute_findings(one: Public) -> list[str]:
    """Attributes of a class without a type or a description."""
    texts = described(one.text, "Attributes") if inspect.isclass(one.thing) else {}
    return [
        f"attribute {name}: a type and a description are needed"
        for name, text in texts.items()
        if " : " not in text.split("\n")[0] or "\n" not in text
    ]


def phrase_findings(one: Public) -> list[str]:
    text = one.text.split("\nExamples\n")[0]
    return [f"{found[0]!r} {why}" for phrase, why in PHRASES.items() if (found := re.search(phrase, text))]


# ------------------------------------------------------------------ texts that are shared


class Section(NamedTuple):
    """Texts for the docstrings of names that fit one of the patterns."""

    patterns: list[str]
    texts: dict[str, str]


def shared_texts(table: str) -> list[Section]:
    """The sections of docs/shared_parameters.txt."""
    blocks = [block.split("]\n", 1) for block in re.split(r"^\[", table, flags=re.MULTILINE)[1:]]
    return [Section(patterns.split(), entries(body)) for patterns, body in blocks]


def shared_of(names: list[str], table: list[Section]) -> dict[str, str]:
    """The shared texts for a docstring; the first section that fits decides."""
    out: dict[str, str] = {}
    for one in table:
        if any(fnmatchcase(name, pattern) for name in names for pattern in one.patterns):
            out = one.texts | out
    return out


def with_shared(doc: str, texts: dict[str, str], parameters: list[str]) -> str:
    """A docstring (without its indent) with the shared texts; those of missing parameters come in the signature's order."""
    for heading, wanted in (("Parameters", parameters), ("Attributes", [])):
        found = section(doc, heading)
        if found is None:
            continue
        kept = entries(found[1])
        covered = {name for key in kept for name in key.split(", ")}
        kept |= {name: text for name, text in texts.items() if name in kept}
        kept |= {name: texts[name] for name in wanted if name in texts and name not in covered}
        if wanted:
            place = {name: k for k, name in enumerate(wanted)}
            kept = dict(sorted(kept.items(), key=lambda item: place.get(item[0].split(", ")[0].strip("*"), -1)))
        end = "\n\n" if found.end() < len(doc) else "\n"
        doc = doc[: found.start(1)] + "\n".join(kept.values()) + end + doc[found.end() :]
    return doc


class Change(NamedTuple):
    """New lines for a docstring in its file."""

    file: Path
    first: int
    last: int
    text: str


@functools.cache
def parsed(file: Path) -> tuple[str, Any]:
    code = file.read_text(encoding="utf-8")
    return code, ast.parse(code)


def change_of(one: Public, table: list[Section]) -> Change | None:
    """What makes the shared texts of a docstring those of the table; None if they are."""
    module, path = one.place.split(":")
    file = SOURCE / f"{module.replace('.', '/')}.py"
    file = file if file.exists() else file.with_suffix("") / "__init__.py"
    code, node = parsed(file)
    for name in path.split("."):
        node = [part for part in node.body if getattr(part, "name", None) == name][-1]  # after overloads of it
    if ast.get_docstring(node) is None:
        return None
    at = node.body[0]
    raw, indent = "\n".join(code.split("\n")[at.lineno - 1 : at.end_lineno]), " " * at.col_offset
    opening, body = re.match(r'\s*(r?""")(.*)"""', raw, flags=re.DOTALL).groups()  # type: ignore[union-attr]
    doc = textwrap.dedent(indent + body).rstrip() + "\n"
    new = with_shared(doc, shared_of(one.names, table), list(inspect.signature(one.thing).parameters))
    if new == doc:
        return None
    text = textwrap.indent(new, indent).strip()
    return Change(file, at.lineno, at.end_lineno, f'{indent}{opening}{text}\n{indent}"""')


def write(things: list[Public], table: list[Section]) -> int:
    """Fill in the shared texts; how many docstrings have changed."""
    changes = [change for one in things if (change := change_of(one, table)) is not None]
    for change in sorted(changes, key=lambda change: -change.first):  # from the end, so that line numbers stay right
        lines = change.file.read_text(encoding="utf-8").split("\n")
        lines[change.first - 1 : change.last] = change.text.split("\n")
        change.file.write_text("\n".join(lines), encoding="utf-8")
    return len(changes)


def findings(things: list[Public], table: list[Section]) -> list[str]:
    out = []
    for one in things:
        found = numpydoc_findings(one) + default_findings(one) + attribute_findings(one) + phrase_findings(one)
        if change_of(one, table) is not None:
            found.append("differs from docs/shared_parameters.txt: run python docs/check_docstrings.py --write")
        out += [f"{one.name}: {text}" for text in found]
    return out


def main() -> int:
    things, table = public(api_names()), shared_texts(SHARED.read_text(encoding="utf-8"))
    if "--write" in sys.argv:
        print(f"{write(things, table)} docstrings rewritten")
        return 0
    wrong = findings(things, table)
    print("\n".join([*wrong, f"{len(things)} public docstrings, {len(wrong)} findings"]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
