"""Times until an event as one number per sample: the time, with a minus sign where the event was not observed (censored).

The sign tells censored times of 0 from others, too: -0.0 is not 0.0 here.
"""

from __future__ import annotations

import numpy as np

from .designs import Floats


def times_of(y: Floats) -> tuple[Floats, np.ndarray]:
    """(times, whether the event was observed) of targets."""
    return np.abs(y), ~np.signbit(y)
