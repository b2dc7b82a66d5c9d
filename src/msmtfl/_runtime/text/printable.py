"""Text made of data, fit to be shown: names and labels come from files that others wrote."""

from __future__ import annotations

import unicodedata
from typing import Any

UNSAFE = ("Cc", "Cs", "Zl", "Zp")  # control characters, halves of characters, ends of lines and paragraphs
TURNING = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)  # the direction of writing


def printable(value: Any, keep: str = "") -> str:
    """A value as text in which no character does anything but show itself: a terminal could be told to move the cursor,
    to hide what stands there, or to type. Such characters are written as Python writes them (\\x1b), but those to `keep`."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(one if one in keep or _shows(one) else one.encode("unicode_escape").decode() for one in text)


def printable_lines(text: str) -> str:
    """The same for a whole text: its lines and tabs stay."""
    return printable(text, keep="\n\t")


def short(name: Any, longest: int = 48) -> str:
    """A name in a sentence: on one line, not too long."""
    text = " ".join(str(name).split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _shows(character: str) -> bool:
    return unicodedata.category(character) not in UNSAFE and character not in TURNING
