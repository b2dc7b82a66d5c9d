"""The pictures that stand still, by matplotlib: for print, and for browsers that run no script."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..drawing import TEXT, new_figure, pyplot


@dataclass(frozen=True)
class Picture:
    """An image as a data: address, and what it shows, for those who cannot see it."""

    source: str
    alt: str


def picture(
    draw: Callable[[Any], Any], alt: str, width: float, height: float, columns: int = 1
) -> tuple[Picture, Any]:
    """What `draw` draws on the axes (1, columns) that it is given, and what it returns."""
    pyplot()
    import matplotlib

    # text stays text, in the reader's fonts: matplotlib's may lack letters of names, which it warns of
    with matplotlib.rc_context({**TEXT, "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure, axes = new_figure(1, columns, width, height)
        result = draw(axes)
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return Picture(f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode()}", alt), result
