"""Errors corrected for having chosen: bootstrap bias-corrected cross-validation.

The smallest of many held-out errors is smaller than what its model will have on new data. Here samples (groups) are drawn
again, with replacement; on those drawn the whole choice is repeated, of every model's point and then of the model, and what
is chosen is measured on the samples that were not drawn. The mean over draws is the error of such a choice (Tsamardinos,
Greasidou and Borboudakis, Machine Learning 107, 2018). It needs no further fit: only losses on the samples held out.

What all samples choose is measured on the samples that were not drawn as well. Its error on all samples is known, so that
only the difference of the two has to be averaged over draws, which varies far less: with nothing to choose it is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..._data.designs import Floats, Ints
from ..comparison import Comparison
from ..errors import Corrected
from ..measures import EPS
from .choosing import RULES, Choice, pick
from .points import Points

DRAWS, LEAST = 200, 20  # of the samples: as many, and at least
WORK = 2**24  # losses that are compared in all draws together: of many samples there are fewer draws
AT_ONCE = 2**23  # numbers in a table of draws


def corrected(points: Sequence[Points], folds: Sequence[Ints], base: Comparison, seed: int) -> Corrected:
    """The errors of the models of a comparison, and of the choice among them, corrected for having chosen. `base` has the
    cells that were held out; `folds` are places of these, and say which of them the losses of the points are of."""
    losses, rng = Bootstrap(points, folds, base), np.random.default_rng(seed)
    draws = int(np.clip(WORK // (len(points) * len(losses.cell)), LEAST, DRAWS))
    at_once = max(1, AT_ONCE // len(losses.cell))
    found = [
        one
        for low in range(0, draws, at_once)
        for one in losses.repeat(rng.integers(losses.n, size=(min(at_once, draws - low), losses.n)))
    ]
    if not found:
        return Corrected(np.full(len(points), np.nan), np.nan, dict.fromkeys(RULES, np.nan), 0)
    outside, fixed = np.array([one.outside for one in found]), np.array([one.fixed for one in found])
    known = base.at_choice.error
    of_all = {"best": base.best} | {rule: Choice(base.steadied, rule).chosen for rule in RULES}
    value = {}
    for rule, name in of_all.items():
        k = base.models.index(name)
        lost = [one.outside[one.chosen[rule]] - one.fixed[k] for one in found]
        value[rule] = float(known[k] + np.mean(lost))
    best = value.pop("best")
    return Corrected(known + (outside - fixed).mean(axis=0), best, value, len(found))


def at_choice(points: Sequence[Points], folds: Sequence[Ints], base: Comparison) -> Floats:
    """(models, cells): losses at the points that models have chosen, averaged where a cell was held out more than once."""
    cells = np.concatenate(folds)
    losses = [np.bincount(cells, one.losses[one.chosen], len(base.cell_task)) for one in points]
    return np.array(losses) / np.bincount(cells, minlength=len(base.cell_task))


@dataclass(frozen=True, eq=False)
class Draw:
    """What a draw says: errors (models,) on the samples not drawn, of the points that it chooses and of those that all
    samples have chosen; and the models that it chooses, by every rule."""

    outside: Floats
    fixed: Floats
    chosen: dict[str, int]


class Bootstrap:
    """Draws of the samples (groups) of a comparison. Losses are by entries: pairs of a fold and a cell that it holds out,
    fold by fold. A cell that is held out more than once shares its weight among its entries."""

    def __init__(self, points: Sequence[Points], folds: Sequence[Ints], base: Comparison):
        self.points, self.base = points, base
        self.cell = np.concatenate(folds)
        self.ends = np.concatenate([[0], np.cumsum([len(cells) for cells in folds])]).tolist()
        self.task = base.cell_task[self.cell]
        times = np.bincount(self.cell, minlength=len(base.cell_task))[self.cell]
        self.of_score = base.cell_weight[self.cell]  # within a fold a cell counts as a whole
        self.weight = base._weights[self.cell] / times
        clusters, place = np.unique(base.cell_cluster, return_inverse=True)
        self.n, self.cluster = len(clusters), place.ravel()[self.cell]
        counted = np.unique(np.stack([self.task, self.cluster])[:, self.weight > 0], axis=1)
        self.pair_task, self.pair_cluster = counted
        self.by_task, self.tasks = self._sorted(self.task)
        self.by_cluster, self.clusters = self._sorted(self.cluster)
        self.units = {"plain": self._unit(base.unit), "steady": self._unit(base.steadied.unit)}
        self.rounding = np.full(len(base.tasks), EPS) if base.rounding is None else base.rounding

    def _sorted(self, labels: Ints) -> tuple[Ints, tuple[Ints, Ints]]:
        """An order of the entries by labels; the labels that there are, and where each begins."""
        order = np.argsort(labels, kind="stable")
        known, starts = np.unique(labels[order], return_index=True)
        return order, (known, starts)

    def _unit(self, unit: Floats) -> Floats:
        """(entries,): what losses are divided by."""
        return np.where(unit > 0, unit, 1.0)[self.task]

    # ------------------------------------------------------------------ one draw after the other

    def repeat(self, drawn: Ints) -> list[Draw]:
        """What draws (draws, n) of samples say. A draw that leaves nothing out is left out itself; so is, of a draw, a task
        of which it leaves nothing out."""
        times = np.stack([np.bincount(one, minlength=self.n) for one in drawn]).astype(np.float64)
        counts = times[:, self.cluster]
        whole, crossed = self._points(counts)
        out = []
        for b, count in enumerate(counts):
            left = np.where(count == 0, self.weight, 0.0)
            total = left.sum()
            if not total > 0:
                continue
            over = left / self.units["plain"]
            outside = np.array([one.losses[p[b]] @ over for one, p in zip(self.points, whole, strict=True)]) / total
            fixed = np.array([one.losses[one.chosen] @ over for one in self.points]) / total
            inside = np.array([one.losses[p[b]] for one, p in zip(self.points, whole, strict=True)], dtype=np.float64)
            features = np.array([one.n_features[p[:, b]].mean() for one, p in zip(self.points, crossed, strict=True)])
            chosen = self._chosen(inside, times[b], features)
            out.append(Draw(outside, fixed, chosen | {"best": self._best([p[:, b] for p in crossed], count)}))
        return out

    def _points(self, counts: Floats) -> tuple[list[Ints], list[Ints]]:
        """Of every model the points that draws choose (draws,), and those of each fold by the others (folds, draws)."""
        scores = [self._scores(one, counts) for one in self.points]
        return (
            [one.choose(of_one) for one, of_one in zip(self.points, scores, strict=True)],
            [one.cross_fitted(of_one) for one, of_one in zip(self.points, scores, strict=True)],
        )

    def _scores(self, points: Points, counts: Floats) -> Floats:
        """(folds, draws, P): a model's own scores of its points, entries counting so often (draws, entries)."""
        if points.losses.shape[0] == 1:
            return np.zeros((len(self.ends) - 1, len(counts), 1))
        scale, out = points.scale[self.task], []
        weight = np.where(scale > 0, self.of_score, 0.0)
        over = weight / np.where(scale > 0, scale, 1.0)
        for low, high in pairwise(self.ends):
            total = counts[:, low:high] @ weight[low:high]
            with np.errstate(over="ignore", invalid="ignore"):
                sums = (counts[:, low:high] * over[low:high]).astype(np.float32) @ points.losses[:, low:high].T
            out.append(-np.nan_to_num(sums, nan=np.inf) / np.where(total > 0, total, np.inf)[:, None])
        return np.array(out, dtype=np.float64)

    def _chosen(self, losses: Floats, times: Floats, features: Floats) -> dict[str, int]:
        """The places of the models that are chosen of losses (models, entries), samples counting so often (n,). It is as
        `Comparison` and `Choice` would have it if a sample that was drawn twice were there as two."""
        count = times[self.cluster] * self.weight
        scaled = losses / self.units["steady"]
        total, of_task = count.sum(), self._sum(count[None], self.by_task, self.tasks, len(self.rounding))[0]
        if not total > 0:
            return dict.fromkeys(RULES, 0)
        errors = scaled @ count / total
        best = int(np.argmin(errors))
        scaled = scaled - scaled[best]
        sums = self._sum(scaled * count, self.by_task, self.tasks, len(self.rounding))
        mean = np.divide(sums, of_task, out=np.zeros_like(sums), where=of_task > 0)
        mean[np.abs(mean) <= self.rounding] = 0.0
        difference = mean @ of_task / total
        n = np.bincount(self.pair_task, times[self.pair_cluster], len(self.rounding))
        alone = n < 2
        centre = np.where(alone, difference[:, None], mean)
        wider = np.where(alone, 1.0, np.sqrt(np.maximum(n, 2) / (np.maximum(n, 2) - 1.0)))
        influence = (scaled - centre[:, self.task]) * (self.weight * wider[self.task])
        if self.n == len(self.cluster):  # every sample is an entry by itself
            squares = influence**2 @ times[self.cluster]
        else:
            squares = self._sum(influence, self.by_cluster, self.clusters, self.n) ** 2 @ times
        se = self.base._wider * np.sqrt(squares) / total
        return {rule: pick(errors, difference, se, features, rule) for rule in RULES}

    def _best(self, crossed: Sequence[Ints], count: Floats) -> int:
        """The place of the model with the smallest error on the entries, which count so often, each fold at the point that
        the others choose."""
        over = count * self.weight / self.units["plain"]
        errors = [
            sum(
                float(one.losses[p, low:high] @ over[low:high])
                for p, (low, high) in zip(of_folds, pairwise(self.ends), strict=True)
            )
            for one, of_folds in zip(self.points, crossed, strict=True)
        ]
        return int(np.argmin(errors))

    @staticmethod
    def _sum(values: Floats, order: Ints, labels: tuple[Ints, Ints], count: int) -> Floats:
        """(rows, count): sums of the entries of each label."""
        out = np.zeros((len(values), count))
        out[:, labels[0]] = np.add.reduceat(values[:, order], labels[1], axis=1)
        return out
