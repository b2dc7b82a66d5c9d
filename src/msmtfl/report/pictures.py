"""The pictures that stand still, by matplotlib: for print, and for browsers that run no script."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._runtime.drawing import TEXT, new_figure, pyplot

MANY = 2000  # cells of a map from which on it is painted as dots: as shapes they would fill megabytes


@dataclass(frozen=True)
class Picture:
    """An image as a data: address, and what it shows, for those who cannot see it."""

    source: str
    alt: str


def picture(draw: Callable[[Any], Any], alt: str, width: float, height: float, columns: int = 1) -> tuple[Picture, Any]:
    """What `draw` draws on the axes (1, columns) that it is given, and what it returns."""
    pyplot()
    import matplotlib

    style: Any = {**TEXT, "svg.fonttype": "none"}
    # text stays text, in the reader's fonts: matplotlib's may lack letters of names, which it warns of
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure, axes = new_figure(1, columns, width, height)
        result = draw(axes)
        for mesh in (part for axis in figure.axes for part in axis.collections if np.size(part.get_array()) > MANY):
            mesh.set_rasterized(True)
        file = io.BytesIO()
        figure.savefig(file, format="svg", dpi=150, metadata={"Date": None})
    return Picture(f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode()}", alt), result
