"""How numbers and lists are written on the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._runtime.text.printable import short

ABSENT = "–"
LISTED = 5  # names of a list in a sentence


def number(value: Any, digits: int = 3) -> str:
    """Some significant digits, a true minus sign, powers of ten only where nothing else is readable.

    >>> number(0.012345), number(-12345.6), number(9.8e-15), number(float("inf")), number(float("nan"))
    ('0.0123', '−12,346', '9.8e-15', '∞', '–')
    """
    value = float(value)
    size = abs(value)
    if np.isnan(value):
        return ABSENT
    if np.isinf(value):
        text = "∞"
    elif size == 0.0:
        return "0"
    elif size < 1e-4 or size >= 1e7:
        text = f"{size:.{max(digits - 1, 2)}g}"
    elif size >= 10 ** (digits - 1):
        text = f"{size:,.0f}"
    else:
        decimals = digits - 1 - int(np.floor(np.log10(size)))
        text = f"{size:.{decimals}f}"
    return f"−{text}" if value < 0 else text


def percent(share: float, digits: int = 1) -> str:
    """
    >>> percent(0.0312).split(), percent(-0.5, 0).split()
    (['3.1', '%'], ['−50', '%'])
    """
    if not np.isfinite(share):
        return ABSENT
    text = f"{abs(share) * 100:,.{digits}f}"
    return f"{'−' if share < 0 and float(text.replace(',', '')) else ''}{text}\N{NO-BREAK SPACE}%"


def typeset(text: str) -> str:
    """A text for a terminal with true minus signs, and blanks before per cent.

    >>> typeset("re-run: -0.040 or -9.0% (-3)").split()
    ['re-run:', '−0.040', 'or', '−9.0', '%', '(−3)']
    """
    return re.sub(r"(?<=\d)%", "\N{NO-BREAK SPACE}%", re.sub(r"(?<![\w.])-(?=\d)", "−", text))


def counted(n: int, noun: str) -> str:
    """
    >>> counted(1, "task"), counted(1234, "row")
    ('1 task', '1,234 rows')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def every(m: int) -> str:
    """
    >>> every(2), every(8)
    ('both', 'all 8')
    """
    return "both" if m == 2 else f"all {m}"


def task(label: Any, word: str = "task") -> str:
    """
    >>> task("north"), task(3), task(24, "field")
    ('north', 'task 3', 'field 24')
    """
    text = short(label)
    return f"{word} {text}" if text.replace(".", "").isdigit() else text


def listed(names: Sequence[Any], most: int = LISTED) -> str:
    """
    >>> listed(["a", "b", "c"]), listed(range(9), 2)
    ('a, b and c', '0, 1 and 7 more')
    """
    texts = [short(name) for name in names]
    if len(texts) > most + 1:
        return f"{', '.join(texts[:most])} and {len(texts) - most:,} more"
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def symbol(mathematics: str) -> str:
    """A symbol of the pictures as plain text.

    >>> symbol(r"$\\lambda_s / \\lambda_b$")
    'λ_s / λ_b'
    """
    return mathematics.replace("$", "").replace("\\lambda", "λ")
