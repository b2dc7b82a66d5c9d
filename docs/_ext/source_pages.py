"""Links from names on the pages to what they stand for: a documented name to its place in the API reference; another one of
msmtfl, or a test, to its source, which the build shows on a page of its own; one of another project
to its documentation."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import elsewhere
from docutils import nodes
from sphinx.util.nodes import make_refnode

ROOT = Path(__file__).parents[2]
TEST = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")
NAME = re.compile(r"msmtfl(\.\w+)+")


def places(code: str) -> dict[str, int]:
    """The line, from 1, at which each function and class of a module begins, its decorators included."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = [node for node in ast.parse(code).body if isinstance(node, kinds)]
    return {node.name: min([node.lineno, *(one.lineno for one in node.decorator_list)]) for node in found}


@cache
def source_of(text: str) -> tuple[str, str] | None:
    """(file below the root, name in it or "") of a test or a name of the package; None if it is neither."""
    if found := TEST.fullmatch(text):
        return found[1], found[2] or ""
    if not NAME.fullmatch(text):
        return None
    module, _, name = text.rpartition(".")
    try:
        thing = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None
    if not hasattr(thing, "__module__"):
        return None
    file = f"src/{thing.__module__.replace('.', '/')}.py"
    return (file, thing.__name__) if (ROOT / file).exists() else None


def named(app) -> Iterator[tuple[str, str]]:
    """Sources that the pages name, or what they include."""
    for page in [*Path(app.srcdir).glob("*.md"), *ROOT.glob("*.md")]:
        for text in re.findall(r"`([\w./:]+)`", page.read_text(encoding="utf-8")):
            if found := source_of(text):
                yield found


def link(app, doctree, docname) -> None:
    """Names in the text of a page become links."""
    if app.builder.format != "html" or not (Path(app.srcdir) / f"{docname}.md").exists():
        return
    documented = app.env.get_domain("py").objects
    for node in list(doctree.findall(nodes.literal)):
        if isinstance(node.parent, nodes.reference):
            continue
        text = node.astext()
        if text in documented:
            found = documented[text]
            node.replace_self(make_refnode(app.builder, docname, found.docname, found.node_id, shown(text), text))
        elif found := source_of(text):
            file, name = found
            address = app.builder.get_relative_uri(docname, page_of(file)) + (f"#{name}" if name else "")
            node.replace_self(nodes.reference("", "", shown(text), internal=True, refuri=address, reftitle=text))
        elif outside := elsewhere.page_of(text):
            project, address = outside
            title = f"{text} of {project}"
            node.replace_self(nodes.reference("", "", shown(text), internal=False, refuri=address, reftitle=title))


def shown(text: str) -> nodes.literal:
    """A name that may be broken between its parts; of a test without its file."""
    out = nodes.literal("", "", classes=["name"])
    for part in re.split(r"(?<=[._/])", text.rpartition("::")[2]):
        out += [nodes.Text(part), nodes.raw("", "<wbr>", format="html")]
    return out


def page_of(file: str) -> str:
    return f"source/{file.removeprefix('src/').removesuffix('.py')}"


def pages(app) -> Iterator[tuple[str, dict[str, str], str]]:
    """One page per file, with a place to go to at every function and class."""
    for file in sorted({file for file, _ in named(app)}):
        code = (ROOT / file).read_text(encoding="utf-8")
        lines = app.builder.highlighter.highlight_block(code, "python").splitlines()
        for name, line in places(code).items():
            start = "<pre>" if line == 1 else ""
            lines[line - 1] = f'{start}<span id="{name}"></span>{lines[line - 1].removeprefix(start)}'
        yield page_of(file), {"title": file, "body": f"<h1>{file}</h1>\n" + "\n".join(lines)}, "page.html"


def setup(app):
    app.connect("doctree-resolved", link)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
