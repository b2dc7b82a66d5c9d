"""What the build makes besides Sphinx's pages: the picture of the layers, and the report that the first page makes."""

from __future__ import annotations

import importlib
import os
import re
import tempfile
import textwrap
import tomllib
from html import escape
from pathlib import Path

import blocks
from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode

WAY = ["tables", "tasks", "designs", "problem", "lasso", "_kernel", "stages", "certificates", "linear", "estimators"]
BOX, GAP, HIGH = 116, 8, 26  # width of a box, space around it, height


def layers_svg(pyproject: str) -> str:
    """Modules by layer, as import-linter checks them; those that a fit goes through are numbered in their order."""
    contracts = tomllib.loads(pyproject)["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    rows = [[name.strip().removeprefix("msmtfl.") for name in layer.split("|")] for layer in layers]
    width = max(map(len, rows)) * (BOX + GAP) + GAP
    out = [
        f'<svg class="layers" viewBox="0 0 {width} {len(rows) * (HIGH + GAP) + GAP}" role="img" '
        'aria-label="Modules of msmtfl in layers; imports go downward only">'
    ]
    for k, names in enumerate(rows):
        left = (width - len(names) * (BOX + GAP) + GAP) / 2
        for place, name in enumerate(names):
            x, y = left + place * (BOX + GAP), GAP + k * (HIGH + GAP)
            kind = " way" if name in WAY else ""
            step = f"{WAY.index(name) + 1}. " if kind else ""
            out.append(
                f'<g class="module{kind}"><rect x="{x:g}" y="{y}" width="{BOX}" height="{HIGH}" rx="5"/>'
                f'<text x="{x + BOX / 2:g}" y="{y + HIGH / 2 + 4:g}">{escape(step + name)}</text></g>'
            )
    return "\n".join([*out, "</svg>"])


def make(app) -> None:
    source = Path(app.srcdir)
    made = source / "_build" / "made"
    made.mkdir(parents=True, exist_ok=True)
    pyproject = (source.parent / "pyproject.toml").read_text(encoding="utf-8")
    (made / "layers.svg").write_text(layers_svg(pyproject), encoding="utf-8")
    report = made / "report" / "report.html"
    if not report.exists():
        report.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            before = os.getcwd()
            os.chdir(folder)
            try:
                wrong = blocks.run_page((source / "start.md").read_text(encoding="utf-8"), "start.md")
                if wrong:
                    raise RuntimeError("\n".join(wrong))
                report.write_bytes(Path("report.html").read_bytes())
            finally:
                os.chdir(before)
    app.config.html_extra_path.append(str(report.parent))


# ------------------------------------------------------------------ docstrings, which are plain text first

QUOTED = re.compile(r"(`[^`]*`+_?)")
COLON = "\u2236"  # stands in for a colon while napoleon looks for types
KINDS = ("attribute", "property")


def before_napoleon(app, what, name, obj, options, lines) -> None:
    """ "(K, L): what it is" says the shape of a property, not its type."""
    if what in KINDS and lines:
        lines[0] = lines[0].replace(":", COLON)


def after_napoleon(app, what, name, obj, options, lines) -> None:
    """|x| is an absolute value, not a substitution, and lam_ a name, not a link."""
    for k, line in enumerate(lines):
        if "\\" not in line and not line.lstrip().startswith((">>>", "...", "..")):
            parts = QUOTED.split(line)
            parts[::2] = [re.sub(r"(?<=\w)_(?=[\s,;:.)*]|$)", r"\_", part.replace("|", r"\|")) for part in parts[::2]]
            line = "".join(parts)
        lines[k] = line.replace(COLON, ":") if what in KINDS else line


def without_routing(app, what, name, obj, skip, options):
    """What scikit-learn gives every estimator for metadata routing is documented there."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


class ModuleText(SphinxDirective):
    """The docstring of a module, as it stands there."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        text = textwrap.dedent(importlib.import_module(name).__doc__ or "").strip()
        heading = nodes.rubric(name, "", nodes.literal(name, name))
        return [
            *self.parse_text_to_nodes(f"```{{py:module}} {name}\n```"),
            heading,
            nodes.literal_block(text, text, language="text"),
        ]


def short_name(app, env, node, content):
    """A name without its module, as docstrings have it: of the documented names that end so, the shortest."""
    if node.get("refdomain") != "py":
        return None
    objects = env.get_domain("py").objects
    ends = sorted((name for name in objects if name.endswith("." + node["reftarget"])), key=len)
    if not ends:
        return None
    found = objects[ends[0]]
    return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, content, ends[0])


def setup(app):
    app.add_directive("module-text", ModuleText)
    app.connect("builder-inited", make)
    app.connect("autodoc-process-docstring", before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", after_napoleon, priority=600)
    app.connect("autodoc-skip-member", without_routing)
    app.connect("missing-reference", short_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
