"""Errors corrected for having chosen: bootstrap bias-corrected cross-validation.

The smallest of many held-out errors is smaller than what its model will have on new data. Here samples (groups) are drawn
again, with replacement; on those drawn the whole choice is repeated, of every model's point and then of the model, and what
is chosen is measured on the samples that were not drawn. The mean over draws is the error of such a choice (Tsamardinos,
Greasidou and Borboudakis, Machine Learning 107, 2018). It needs no further fit: only losses on the samples held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._data.designs import Floats, Ints
from .choosing import RULES, Choice
from .comparison import Comparison, Corrected
from .points import Points

DRAWS, LEAST = 200, 20  # of the samples: as many, and at least
WORK = 2**28  # losses that are compared in all draws together: of many samples there are fewer draws
AT_ONCE = 2**23  # numbers in a table of draws


class Losses:
    """The losses of all models at all points, as cells of a comparison; `folds` says which cells each fold holds out."""

    def __init__(self, points: Sequence[Points], folds: Sequence[Ints], base: Comparison):
        self.points, self.folds, self.base = points, folds, base
        self.times = np.zeros(len(base.cell_task))
        for cells in folds:
            self.times[cells] += 1.0

    def at(self, k: int, chosen: Sequence[int] | Ints) -> Floats:
        """(cells,): losses of a model with each fold at a point of its own, averaged where a cell was held out more than
        once."""
        out = np.zeros(len(self.times))
        for cells, p, losses in zip(self.folds, chosen, self.points[k].losses, strict=True):
            out[cells] += losses[p]
        return out / self.times

    def in_bag(self, k: int, counts: np.ndarray) -> Floats:
        """(folds, draws, P): a model's own scores of its points on samples that count so often, (cells, draws)."""
        points, base, out = self.points[k], self.base, []
        scale = points.scale[base.cell_task]
        weight = np.where(scale > 0, base.cell_weight, 0.0)
        for cells, losses in zip(self.folds, points.losses, strict=True):
            of_draws = weight[cells, None] * counts[cells]
            total = of_draws.sum(axis=0)
            of_draws /= np.where(scale > 0, scale, 1.0)[cells, None]
            with np.errstate(over="ignore", invalid="ignore"):
                sums = of_draws.T.astype(losses.dtype) @ losses.T
            out.append(-np.nan_to_num(sums, nan=np.inf) / np.where(total > 0, total, np.inf)[:, None])
        return np.array(out, dtype=np.float64)


def corrected(points: Sequence[Points], folds: Sequence[Ints], base: Comparison, seed: int) -> Corrected:
    """The errors of the models of a comparison, and of the choice among them, corrected for having chosen. `base` has the
    cells that were held out; `folds` are places of these."""
    losses, rng = Losses(points, folds, base), np.random.default_rng(seed)
    models, cells = len(points), len(base.cell_task)
    draws = int(np.clip(WORK // (models * cells), LEAST, DRAWS))
    clusters, of_cell = np.unique(base.cell_cluster, return_inverse=True)
    order = np.argsort(of_cell, kind="stable")
    ends = np.searchsorted(of_cell[order], np.arange(len(clusters) + 1))
    weight = base._weights / np.where(base.unit > 0, base.unit, 1.0)[base.cell_task]
    every: dict[str, list[float]] = {name: [] for name in ("best", *RULES)}
    of_models: list[Floats] = []
    units = base.steadied.unit
    at_once = max(1, AT_ONCE // cells)
    for low in range(0, draws, at_once):
        drawn = [rng.integers(len(clusters), size=len(clusters)) for _ in range(low, min(low + at_once, draws))]
        counts = np.stack([np.bincount(one, minlength=len(clusters))[of_cell] for one in drawn], axis=1)
        whole, crossed = _choices(losses, counts.astype(np.float64))
        for b, one in enumerate(drawn):
            left = counts[:, b] == 0
            total = base._weights[left].sum()
            if not total > 0:
                continue  # everything that counts was drawn
            outside = [losses.at(k, [whole[k][b]] * len(folds))[left] @ weight[left] / total for k in range(models)]
            inside = _drawn(losses, base, [crossed[k][:, b] for k in range(models)], one, order, ends)
            features = np.array([of.n_features[whole[k][b]] for k, of in enumerate(points)])
            of_models.append(np.array(outside))
            steady = replace(inside, n_features=features, unit=units)
            for name, model in (("best", inside.best), ("min", steady.best), ("1se", Choice(steady, "1se").chosen)):
                every[name].append(outside[base.models.index(model)])
    if not of_models:
        return Corrected(np.full(models, np.nan), np.nan, dict.fromkeys(RULES, np.nan), 0)
    means = {name: float(np.mean(values)) for name, values in every.items()}
    best = means.pop("best")
    return Corrected(np.mean(of_models, axis=0), best, means, len(of_models))


def _choices(losses: Losses, counts: Floats) -> tuple[list[Ints], list[Ints]]:
    """Of every model the points that draws choose (draws,), and those of each fold by the others (folds, draws)."""
    whole, crossed = [], []
    for k, points in enumerate(losses.points):
        scores = losses.in_bag(k, counts)
        whole.append(points.choose(scores))
        crossed.append(points.cross_fitted(scores))
    return whole, crossed


def _drawn(
    losses: Losses, base: Comparison, chosen: Sequence[Ints], drawn: Ints, order: Ints, ends: Ints
) -> Comparison:
    """The comparison of a draw: a sample that was drawn twice is there as two."""
    sizes = ends[drawn + 1] - ends[drawn]
    start = np.repeat(ends[drawn] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
    at = order[start + np.arange(int(sizes.sum()))]
    errors = np.array([losses.at(k, of_folds)[at] for k, of_folds in enumerate(chosen)])
    return replace(
        base,
        errors=errors,
        cell_task=base.cell_task[at],
        cell_weight=base.cell_weight[at],
        cell_cluster=np.repeat(np.arange(len(drawn)), sizes),
        means=None,
        auc_by_task=None,
        new_task=None,
    )
