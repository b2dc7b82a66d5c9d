"""The order of names as people count: P2 before P10."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np


def natural_order(labels: Iterable[Any]) -> np.ndarray:
    """Places of the labels in their natural order: numbers by their size, also those within text, before other text."""
    found = list(labels)
    return np.array(sorted(range(len(found)), key=lambda i: _key(found[i])), dtype=np.intp)


def _key(label: Any) -> tuple[Any, ...]:
    if isinstance(label, int | float | np.number) and not isinstance(label, bool):
        return (0, float(label), ())
    parts = re.split(r"(\d+)", str(label).casefold())  # every second part is a number
    return (1, 0.0, tuple((int(part), part) if k % 2 else (-1, part) for k, part in enumerate(parts)))
