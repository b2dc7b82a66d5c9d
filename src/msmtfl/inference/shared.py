"""Features declared shared, with the share of false ones among them on average."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._data.tables import names_of
from .._runtime.text.cards import Card
from .common import to_pandas


def least_declared(fdr: float) -> int:
    """No fewer features are declared at this rate, if any."""
    return ceil(round(1.0 / fdr, 6))


# ------------------------------------------------------------------ what a user asks


@dataclass(frozen=True, eq=False, repr=False)
class SharedFeatures(Card):
    """Features that matter in at least r tasks, declared with a false discovery rate.

    Attributes
    ----------
    features : ndarray of str
        Names of the features declared, the clearest first.
    declared : ndarray of bool of shape (d,)
        Whether a feature is declared.
    statistics : ndarray of shape (m, d)
        How much more of a lasso went to the feature than to its knockoff, per task (a single row for a 2-D y);
        0 if neither was selected.
    score : ndarray of shape (d,)
        The product of the r largest sizes of `statistics`, positive if all r of them are; features with the
        largest scores are declared. A score of 0 says that fewer than r tasks selected feature or knockoff.
    r : int
        The number of tasks asked about.
    fdr : float
        The false discovery rate asked for.
    approximate : tuple of str
        What makes the knockoffs approximate on these data, in words.
    tasks : ndarray of shape (m,)
        Labels of the tasks.
    candidates : ndarray of shape (d,)
        Names of all features.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.inference import shared_features
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((600, 30)), np.tile(["north", "south", "west"], 200)
    >>> y = X[:, :12].sum(axis=1) + rng.standard_normal(600)
    >>> found = shared_features(MSMTFL(), X, y, task=task, r=2, fdr=0.1)
    >>> bool(found.declared[:12].all())
    True
    """

    features: np.ndarray
    declared: np.ndarray
    statistics: Floats
    score: Floats
    r: int
    fdr: float
    approximate: tuple[str, ...]
    tasks: np.ndarray
    candidates: np.ndarray

    def to_frame(self) -> Any:
        """Return a pandas table with one line per feature, the largest scores first.

        Returns
        -------
        DataFrame
            The columns are feature, declared, tasks_for and tasks_against (numbers of tasks whose lasso prefers
            the feature to its knockoff, or the knockoff), and score.
        """
        order = np.argsort(-self.score, kind="stable")
        columns = {
            "feature": self.candidates,
            "declared": self.declared,
            "tasks_for": (self.statistics > 0.0).sum(axis=0),
            "tasks_against": (self.statistics < 0.0).sum(axis=0),
            "score": self.score,
        }
        return to_pandas({name: values[order] for name, values in columns.items()})

    def __repr__(self) -> str:
        rate, m, least = f"{100 * self.fdr:g} %", len(self.tasks), least_declared(self.fdr)
        what = f"at least {self.r} of {m} tasks" if m > 1 else "the task"
        lines = [
            f"{len(self.features)} of {len(self.candidates)} features declared to matter in {what}: "
            f"{names_of(self.features) or 'none'}",
            f"at most {rate} of the features declared are false on average over data sets like this one (false discovery",
            f"rate). Such a filter declares at least {least} features at {rate}, or none. To matter is to tell something",
            "of the target that the other features do not.",
        ]
        if not len(self.features):
            lines.append("None declared is not none that matters: the evidence does not suffice at this rate.")
        return "\n".join([*lines, *(f"approximate: {why}" for why in self.approximate)])
