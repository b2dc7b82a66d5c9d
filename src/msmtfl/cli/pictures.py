"""Pictures as files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from .inputs.data import InputError


def check_picture(path: Path | None) -> None:
    """Before the work: does the name say which kind of picture, and can one be drawn?"""
    if path is None:
        return
    from .._runtime.drawing import pyplot

    if _kind(path) not in pyplot().Figure().canvas.get_supported_filetypes():
        raise InputError(f"{path}: a picture ends in .png, .svg or .pdf.")


def _kind(path: Path) -> str:
    return path.suffix.lower().removeprefix(".")


def picture(figure: Any, path: Path) -> bytes:
    """In the format that the name says."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=_kind(path), dpi=200)
    return buffer.getvalue()
