"""Formulas as MathML, made when the site is built: browsers draw it themselves, without a script or a font to fetch."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def inline(writer, node):
    writer.body.append(str(tex2mathml(node.astext())))
    raise nodes.SkipNode


def block(writer, node):
    """Lines are those of the source, without LaTeX's `&` and `\\\\` around them."""
    writer.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
