"""Formulas as MathML, made when the site is built: browsers draw it themselves, without a script to fetch."""

import re
from html import escape

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

log = logging.getLogger(__name__)
SIZES = re.compile(r"\\[bB]igg?(?![a-zA-Z])")  # brackets stretch by themselves
# bars of norms and absolute values: both of the same height
BARS = re.compile(r'<mo(?: stretchy="false"| class="math\w+")*>([|‖∥∣])</mo>')


def mathml(node, as_block: bool) -> str:
    try:
        found = str(tex2mathml(SIZES.sub("", node.astext()), as_block=as_block))
        return BARS.sub(r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', found)
    except MathError as error:
        log.warning("formula: %s", error, location=node)
        return f"<code>{escape(node.astext())}</code>"


def inline(writer, node):
    writer.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def block(writer, node):
    writer.body.append(f'<div class="formula">{mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
