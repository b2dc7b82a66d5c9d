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

# Rooms of the package: what they are for, and whether a fit goes through them.
ROOMS = {
    "cli": "the command",
    "report": "the HTML page",
    "dask": "clusters",
    "demo": "a first result",
    "paper": "experiments, theory",
    "compare": "which model suits",
    "inference": "how sure",
    "sharing": "who shares what",
    "export": "SQL, ONNX",
    "tables": "for a paper",
    "plots": "pictures",
    "model_files": "files of models",
    "_estimators": "scikit-learn classes",
    "_paths": "grids, cross-validation, choice of a point",
    "_solvers": "Algorithm 1 and what solves its stages",
    "_objective": "losses, penalties, certificates",
    "_data": "from tables to designs",
    "metrics": "errors",
    "datasets": "data to try",
    "_kernels": "compiled loops",
    "_runtime": "threads, files, checks",
}
WAY = ("_estimators", "_solvers", "_objective", "_data", "_kernels")
WIDTH, GAP, HIGH = 760, 8, 46  # of the picture, around a box, of a box


def layers_svg(pyproject: str) -> str:
    """Rooms by layer, as import-linter checks them; those that a fit goes through are coloured."""
    contracts = tomllib.loads(pyproject)["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    rows = [[name.strip().removeprefix("msmtfl.") for name in re.split("[|:]", layer)] for layer in layers]
    out = [
        f'<svg class="layers" viewBox="0 0 {WIDTH} {len(rows) * (HIGH + GAP) + GAP}" role="img" '
        'aria-label="Rooms of msmtfl in layers; imports go downward only">'
    ]
    for k, names in enumerate(rows):
        wide = (WIDTH - GAP) / len(names) - GAP
        for place, name in enumerate(names):
            x, y = GAP + place * (wide + GAP), GAP + k * (HIGH + GAP)
            middle = x + wide / 2
            kind = " way" if name in WAY else ""
            out.append(
                f'<g class="module{kind}"><rect x="{x:g}" y="{y}" width="{wide:g}" height="{HIGH}" rx="5"/>'
                f'<text x="{middle:g}" y="{y + 19}">{escape(name)}</text>'
                f'<text class="purpose" x="{middle:g}" y="{y + 36}">{escape(ROOMS[name])}</text></g>'
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
