"""How well classes are told apart: ROC curves, calibration, confusion; from rows held out where they are known."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from ..._data.designs import Floats, Ints
from ..._runtime.text.printable import short
from ..tabular import Cell, Column, Table, counts, figures, texts
from .facts import ModelFacts
from .samples import Samples

BINS = 200  # of probabilities: thresholds of whole per cents are among their ends
GROUPS = 10  # of the table of calibration
MOST = 4000  # curves of tasks and classes that a page can hold


def auc(p: Floats, positive: np.ndarray) -> float:
    """The probability that a positive row has the larger p, ties counting half; NaN if there is one class only.

    >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    n, k = len(p), int(positive.sum())
    if k in (0, n):
        return float("nan")
    return float((rankdata(p)[positive].sum() - k * (k + 1) / 2) / (k * (n - k)))


def of_interest(facts: ModelFacts) -> list[int]:
    """Places of the classes that have curves: of two the second, of more all."""
    return [1] if len(facts.classes) == 2 else list(range(len(facts.classes)))


def auc_by_task(facts: ModelFacts) -> Floats | None:
    """(m,): of more than two classes the mean over them, each against the rest; None where there are no rows to tell."""
    if facts.samples is None or not facts.classes:
        return None
    samples, out = facts.samples, np.full(facts.m, np.nan)
    for i in range(facts.m):
        found = [auc(samples.predicted[i][:, k], samples.observed(i) == k) for k in of_interest(facts)]
        known = [one for one in found if np.isfinite(one)]
        out[i] = np.mean(known) if known else np.nan
    return out


def together(samples: Samples, m: int) -> tuple[Floats, Ints]:
    """Probabilities and codes of the rows of all tasks."""
    p = np.concatenate([samples.predicted[i] for i in range(m)])
    return p, np.concatenate([samples.observed(i) for i in range(m)]).astype(np.intp)


def overall_auc(facts: ModelFacts) -> float:
    """Of all rows together; of more than two classes the mean over them."""
    assert facts.samples is not None
    p, y = together(facts.samples, facts.m)
    return float(np.nanmean([auc(p[:, k], y == k) for k in of_interest(facts)]))


def confusion_table(facts: ModelFacts) -> Table | None:
    """Rows by their class, and by the class that is predicted (of two: from a probability of one half on)."""
    if facts.samples is None or not facts.classes:
        return None
    p, y = together(facts.samples, facts.m)
    K = len(facts.classes)
    table = np.zeros((K, K), dtype=np.intp)
    np.add.at(table, (y, p.argmax(axis=1)), 1)
    right = np.divide(np.diag(table), table.sum(axis=1), out=np.full(K, np.nan), where=table.sum(axis=1) > 0)
    columns = [texts(f"{facts.subject.target} is", facts.classes)]
    columns += [counts(f"predicted {short(name, 24)}", table[:, k]) for k, name in enumerate(facts.classes)]
    columns.append(
        Column("Found", [Cell(f"{100 * x:.1f} %", float(x)) for x in right], True, "share predicted as this")
    )
    return Table("confusion", "Confusion of classes", columns, K)


def calibration_table(facts: ModelFacts) -> Table | None:
    """Whether what is said to happen in ten per cent of the rows does; of two classes."""
    if facts.samples is None or len(facts.classes) != 2:
        return None
    p, y = together(facts.samples, facts.m)
    place = np.minimum((p[:, 1] * GROUPS).astype(np.intp), GROUPS - 1)
    n = np.bincount(place, minlength=GROUPS)
    there = n > 0
    mean, share = (np.bincount(place, v, GROUPS)[there] / n[there] for v in (p[:, 1], y.astype(float)))
    ends = [f"{k / GROUPS:.1f} to {(k + 1) / GROUPS:.1f}" for k in np.flatnonzero(there)]
    columns = [
        texts("Predicted between", ends),
        counts("Rows", n[there]),
        figures("Mean prediction", mean),
        figures("Share observed", share, f"of {short(facts.classes[1])}; near the mean prediction if calibrated"),
    ]
    return Table("calibration", "Calibration", columns, len(ends))


def histograms(facts: ModelFacts) -> dict[str, Any] | None:
    """For the script: by task (the first: all of them) and class, [bin, rows of other classes, rows of the class] where
    there are any."""
    if facts.samples is None or not facts.classes:
        return None
    samples, places = facts.samples, of_interest(facts)
    order = facts.task_order if (facts.m + 1) * len(places) <= MOST else np.empty(0, dtype=np.intp)
    parts = [together(samples, facts.m), *((samples.predicted[i], samples.observed(i)) for i in order)]
    return {
        "bins": BINS,
        "classes": [facts.classes[k] for k in places],
        "counts": [[_counted(p[:, k], y == k) for k in places] for p, y in parts],
    }


def _counted(p: Floats, positive: np.ndarray) -> list[list[int]]:
    place = np.minimum((p * BINS).astype(np.intp), BINS - 1)
    both = np.bincount(place * 2 + positive, minlength=2 * BINS).reshape(BINS, 2)
    return [[int(k), *map(int, both[k])] for k in np.flatnonzero(both.any(axis=1))]
