"""Tasks that are predicted better than any measurement allows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ..._data.designs import Floats
from ..._data.tables import names_of

# Error relative to knowing nothing below which a task is not predicted but known: measurements have noise.
PERFECT = 1e-6


class TooGoodWarning(UserWarning):
    """Held-out targets of a task are predicted better than measurements allow."""


def too_good(tasks: np.ndarray | Sequence[Hashable], errors: Floats, measure: str) -> str:
    """What to say of tasks whose held-out errors no measurement allows; empty if there is none."""
    if len(tasks) == 0:
        return ""
    at_most = f"at most {np.max(errors):.0e}" if np.max(errors) > 0 else "0"
    return (
        f"Too good to be true: held-out targets of task(s) {names_of(tasks)} are predicted with an error ({measure}) of "
        f"{at_most}. The target is probably computed from a feature, or samples are there twice."
    )
