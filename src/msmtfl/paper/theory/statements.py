"""One statement of the paper about data at hand: what is needed and what there is, or the two sides of an inequality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..spectra import Interval

SPARE = 1e-12  # a condition missed by this share holds: the theorem's constants have more than that to spare

WORDS = {
    "13a": "(26): the largest noise correlation |x_j'noise / n| is at most sigma sqrt(2 nu(1) ln(2 d m / eta))",
    "13b": "(27), (30): the noise correlations of the true rows have at most this sum of squares, u",
    "14": "what is found outside the rows in play is at most a multiple of the error inside them",
    "15 rows": "(36): the rows in play, true or un-penalised, are at most 2 rbar",
    "15a": "(28): the error is at most what noise and penalty of the rows in play allow",
    "15a sharp": "(28) with the constants that the proof leaves room for: 7/5 for 3, 0.3 for 0.25",
    "15b": "(29): the error is at most 9.1 m (m lam) sqrt(rbar) / rho-",
    "16": "true rows that the stage penalises are counted by the error of the stage before",
    "18": "share of noise draws in which |a'noise| exceeds z sigma |a|, against 2 exp(-z^2 / 2)",
    "19": "pi(2 rbar + s, s) is at most sqrt(s) / 2 sqrt(rho+(s) / rho-(2 rbar + 2 s) - 1)",
    "20": "the curvature along the error is at least what rho- and pi leave of it (sides exchanged: left <= right)",
    "21": "a task's noise correlations of the true rows have at most this sum of squares",
    "31": "the noise correlations of the rows in play have at most this sum of squares",
    "33": "optimality of the stage: the largest violation, against 1e-6 m lam for rounding",
    "34": "Lemma 14 in every task by itself; the worst task is shown",
    "37": "the error is at most a multiple of its part on the rows in play and the s largest others",
    "38": "the curvature along that part is at least 0.25 rho- of its square (sides exchanged); the worst task is shown",
    "39": "the curvature along that part is at most what noise and penalty allow; the worst task is shown",
    "40": "that part is at most what noise and penalty of the rows in play allow",
}


@dataclass(frozen=True)
class Condition:
    """A condition of a theorem: a number that must be at least another.

    Attributes
    ----------
    name : str
        The name of the condition.
    words : str
        What it says.
    needed : Interval
        What is needed.
    have : Interval
        What there is; it must be at least `needed`.
    ratio : Interval
        The second over the first.
    verdict : str
        "holds", "fails" or "undecided".

    Examples
    --------
    >>> from msmtfl.theory import Condition, Interval
    >>> condition = Condition("theta", "theta >= 11 m^2 lam / rho-", Interval(3.0, 5.0, exact=False), Interval(4.0, 4.0))
    >>> condition.verdict, str(condition.ratio)
    ('undecided', '0.8 .. 1.333')
    """

    name: str
    words: str
    needed: Interval
    have: Interval

    @property
    def ratio(self) -> Interval:
        """What there is over what is needed."""
        return self.have.over(self.needed)

    @property
    def verdict(self) -> str:
        """The verdict on the condition: "holds", "fails" or "undecided"."""
        low, high = self.ratio.low, self.ratio.high
        return "holds" if low >= 1 - SPARE else "fails" if high < 1 - SPARE else "undecided"

    def as_row(self) -> dict[str, Any]:
        """Return the condition as a line of a table.

        Returns
        -------
        dict {name: value}
            The columns of the line.
        """
        numbers = {"needed": self.needed, "have": self.have, "ratio": self.ratio}
        ends = {f"{name}_{end}": getattr(one, end) for name, one in numbers.items() for end in ("low", "high")}
        return {"condition": self.name, "words": self.words} | ends | {"verdict": self.verdict}


@dataclass(frozen=True)
class LemmaCheck:
    """Both sides of an inequality of the paper at a stage.

    Inequalities on noise alone ("13a", "13b", "21") hold with the probability that the lemma states, not with
    certainty.

    Attributes
    ----------
    lemma : str
        The number of the lemma.
    stage : int
        The stage; 0 if the inequality is about none.
    left : float
        The left side.
    right : float
        The right side.
    premises : bool
        Whether the inequality must hold.
    holds : bool
        Whether it does.
    words : str
        What it says.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.theory import check_conditions
    >>> rng = np.random.default_rng(0)
    >>> X, coef = rng.standard_normal((4000, 8)), np.zeros((2, 8))
    >>> coef[:, 3] = 9.0
    >>> Y = X @ coef.T + 0.1 * rng.standard_normal((4000, 2))
    >>> model = MSMTFL(lam=0.05, theta=4.0, fit_intercept=False).fit(X, Y)
    >>> first = check_conditions(model, X, Y, coef_true=coef, sigma=0.1).lemmas[0]
    >>> first.lemma, first.premises, first.left <= first.right
    ('13a', True, True)
    """

    lemma: str
    stage: int
    left: float
    right: float
    premises: bool

    @property
    def holds(self) -> bool:
        """Whether the inequality holds."""
        return bool(self.left <= self.right * (1 + 1e-9))

    @property
    def words(self) -> str:
        """What the inequality says, in words."""
        return WORDS[self.lemma]


def verdict_of(conditions: Sequence[Condition]) -> str:
    """That of all of them together."""
    found = {one.verdict for one in conditions}
    return next((word for word in ("fails", "undecided") if word in found), "holds")
