"""Results in notebooks: a card with what they say in words."""

from __future__ import annotations

import html
from typing import Any

from .printable import printable, printable_lines

FRAME = "border:1px solid #8a8a8a;border-radius:4px;padding:6px 12px;margin:4px 0;max-width:70em;overflow-x:auto"
TEXT = "margin:4px 0 0 0;white-space:pre-wrap;font-size:90%"


class Card:
    """What is printed elsewhere is a card in a notebook: its first line is the title. Names from data are escaped."""

    def _repr_html_(self) -> str:
        title, *lines = str(self).split("\n")
        rest = html.escape(printable_lines("\n".join(lines)))
        body = f'<pre style="{TEXT}">{rest}</pre>' if lines else ""
        name = html.escape(type(self).__name__)
        return f'<div style="{FRAME}"><b>{html.escape(printable(title))}</b> <small>({name})</small>{body}</div>'


def pandas() -> Any:
    """The package, or an error that says what else there is."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_frame needs pandas (pip install pandas); the attributes hold the same.") from error
    return pd
