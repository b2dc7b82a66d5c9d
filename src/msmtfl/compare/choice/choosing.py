"""The choice of a family from a comparison, and why, in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..._data.designs import Floats
from ..._data.tables import names_of
from ..comparison import Comparison
from ..evidence import decimals

RULES = ("1se", "min")
ABOUT = 1.25  # times the fewest features count as as few: one of ten less is no reason to leave the best


def choose_family(comparison: Comparison, selection: str = "1se") -> tuple[str, str]:
    """The model with the smallest held-out error, or ("1se") of those within one standard error of it the best one that uses
    about the fewest features; and why. Errors are those that searches have chosen by, where they are known: these vary less
    than errors at the points that folds choose for each other. Those of numbers are over variances that are steadied: a task
    of few rows whose targets happen to be alike would else count for many."""
    plain, steady = Choice(comparison, selection), Choice(comparison.steadied, selection)
    if (steady.chosen, steady.best) == (plain.chosen, plain.best):
        return plain.chosen, plain.reason(comparison.measure.name)
    return steady.chosen, steady.reason("nMSE (with the variances of small tasks drawn towards the others')")


def near_best(error: Floats, difference: Floats, se: Floats, selection: str) -> np.ndarray:
    """(models,) bool: those that may be chosen, given errors and their differences to the smallest."""
    near = difference <= se if selection == "1se" else np.zeros(len(error), dtype=bool)
    near[int(np.argmin(error))] = True
    return near


def pick(error: Floats, difference: Floats, se: Floats, n_features: Floats, selection: str) -> int:
    """The place of the model to choose: of those near the best that use about the fewest features the best."""
    near = near_best(error, difference, se, selection)
    size = np.where(near, np.nan_to_num(n_features, nan=np.inf), np.inf)
    simple = near & (size <= ABOUT * size.min())
    return int(np.lexsort((size, error, ~simple))[0])


class Choice:
    """The best model of a comparison, those as good as can be told, and the simplest of them."""

    def __init__(self, comparison: Comparison, selection: str):
        self.fair, comparison = comparison, comparison.at_choice
        self.comparison, self.best = comparison, comparison.best
        self.paired = replace(comparison, reference=self.best)
        figures = comparison.error, self.paired.difference, self.paired.se
        self.near = near_best(*figures, selection)
        self.chosen = comparison.models[pick(*figures, comparison.n_features, selection)]

    @property
    def beside(self) -> str:
        """What else should be known."""
        said = [self.fair.means_in_words(), self.fair.dropped_in_words()]
        return "".join(f" {one}" for one in said if one)

    def reason(self, what: str) -> str:
        """Figures that are compared are of the same rows: of all folds, or of those until a model was screened out."""
        comparison, best, chosen = self.comparison, self.best, self.chosen
        names, digits = comparison.models, decimals(self.paired.se)
        error = {name: f"{value:.{digits}f}" for name, value in zip(names, comparison.error.tolist(), strict=True)}
        more = {
            name: f"{difference:+.{digits}f}, s.e. {se:.{digits}f}"
            for name, difference, se in zip(
                names, self.paired.difference.tolist(), self.paired.se.tolist(), strict=True
            )
        }
        every = f" tried on all folds, of {len(names) + len(comparison.dropped)}" if comparison.dropped else ""
        own = ", each with the parameters that suit it best" if self.fair is not comparison else ""
        smallest = f"{best!r} has the smallest held-out {what} of {len(names)} models{every}{own}: {error[best]}"
        if chosen == best:
            second = names[int(np.argsort(np.where(np.array(names) == best, np.inf, comparison.error))[0])]
            word = "clearly worse" if self.fair.evidence(second, than=best).worse else "not clearly worse"
            return f"{smallest}. The next, {second!r} with {error[second]} ({more[second]}), is {word}.{self.beside}"
        few, many = (comparison.n_features[names.index(name)] for name in (chosen, best))
        digits = int(few.round() == many.round())
        uses = f"uses {few:.{digits}f} features" + (f" where that uses {many:.{digits}f}" if np.isfinite(many) else "")
        rest = [name for name, one in zip(names, self.near, strict=True) if one and name not in (best, chosen)]
        also = f" ({names_of(rest)} would have done too.)" if rest else ""
        return (
            f"{smallest}. {chosen!r} with {error[chosen]} ({more[chosen]}) is within one standard error of it and {uses}."
            f"{also}{self.beside}"
        )
