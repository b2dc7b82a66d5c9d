"""What a model chooses from: held-out losses of all points of its grid, sample by sample.

A search that is fitted once to all data, on the folds of the comparison, has solved its grid on every training fold. Here
its losses on the samples held out are kept: (points, samples) for every fold, as float32. They tell which point each fold's
samples would be given by the other folds, and what another draw of the samples would have chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._data.designs import Floats, Ints
from ..._data.task_data import TaskData
from ..._estimators.classification.class_scores import LOG_LOSS as LOG_LOSS_SCORE
from ..._estimators.fitted import scoring_of
from ..._estimators.grid_search import GridSearch
from ..._paths.searched import fold_scores_of
from ..._paths.solutions import Solutions
from ..._paths.validation.choice import choose_simplest, in_order
from ..._paths.validation.cross_validation import error_scales, mean_errors
from ..._paths.validation.held_out import Split
from ..._paths.validation.scorers import ERRORS

BUDGET = 2**26  # losses that the folds of a search may keep while it runs: 256 MiB
KEPT = 2**23  # losses that are kept of a model afterwards; of more points the best are
FEWEST = 30  # points that are kept in any case


def searches(model: Any, n_classes: int = 0) -> bool:
    """Whether a model chooses by folds that can be given to it, and by errors that samples add up to. Others are fitted on
    every training fold, and have one point: what they choose themselves."""
    if hasattr(model, "_takes_folds"):
        return bool(model._takes_folds(n_classes))
    if not (isinstance(model, GridSearch) and model.selection in ("min", "1se")):
        return False
    if getattr(model, "class_weight", None) is not None:
        return False  # its errors are weighted in another way than those of the comparison
    scoring = model.scoring
    return isinstance(scoring, str) and scoring in (*ERRORS[:3], LOG_LOSS_SCORE)


class Record:
    """The losses of one fold: told of solutions on its training rows, it measures them row by row.

    They may come a few points of the grid at a time, and a point may come again; its last solution counts. Of more solutions
    than there is room for, those are kept that are best in this fold.
    """

    def __init__(self, kind: Any, most: int):
        self.kind, self.most, self.room = kind, most, FEWEST
        self.held: list[Floats] = []  # the targets that the fold holds out, of every task
        self.shape: tuple[int, ...] = ()  # of the grid
        self.data: Any = None
        self.row: Ints = np.empty(0, dtype=np.intp)  # of a point in `losses`; -1: not kept
        self.store, self.errors = np.empty((0, 0), dtype=np.float32), np.empty(0)
        self.count = 0  # of its rows that are in use

    @property
    def losses(self) -> np.ndarray:
        """(points, cells)"""
        return self.store[: self.count]

    def _add(self, kept: Ints, new: np.ndarray) -> None:
        """Some of the losses, and new ones. They come a few at a time: there is room for more than there are."""
        if len(kept) < self.count:
            self.store = self.losses[kept]
        count = len(kept) + len(new)
        if count > len(self.store):
            room = np.empty((min(2 * count, max(self.room, count)), new.shape[1]), dtype=np.float32)
            room[: len(kept)] = self.store[: len(kept)]
            self.store = room
        self.store[len(kept) : count], self.count = new, count

    def __call__(
        self, split: Split, data: TaskData, surface: Solutions, mse: Floats, weight: Floats, fitted: list[Floats]
    ) -> None:
        if surface.last.shape != self.shape:
            self._begin(split, data, surface.last.shape)
        reached = surface.reached
        places, back = np.unique(surface.last[reached], return_inverse=True)
        errors = np.full(len(places), np.inf)
        if self.row.size > self.room:  # some may have to go
            found = mean_errors(mse, weight, error_scales(data, "neg_nmse"))[reached]
            np.minimum.at(errors, back.ravel(), np.nan_to_num(found, nan=np.inf))
        self.row[reached.ravel()] = -1
        old = np.unique(self.row[self.row >= 0])
        every = np.concatenate([self.errors[old], errors])
        best = np.sort(np.argsort(every, kind="stable")[: self.room])  # of those known, and of the new ones
        kept, new = old[best[best < len(old)]], best[best >= len(old)] - len(old)
        moved = np.full(len(self.errors) + 1, -1)  # the last for points that have none
        moved[kept] = np.arange(len(kept))
        self.row = moved[self.row]
        of_new = np.full(len(places), -1)
        of_new[new] = len(kept) + np.arange(len(new))
        self.row[reached.ravel()] = of_new[back.ravel()]
        self._add(kept, _losses(self.kind, self.held, _classes(data), fitted, new))
        self.errors = every[best]

    def keep(self, losses: Floats) -> None:
        """Losses (P, cells) of all points, from who has measured them himself."""
        self.row, self.store = np.arange(len(losses)), np.ascontiguousarray(losses, dtype=np.float32)
        self.count = len(losses)

    def scale(self, scoring: str) -> Floats:
        """(m,): what a search that has such scores divides the losses of a task by."""
        classes = scoring == LOG_LOSS_SCORE
        return np.ones(self.data.m // _classes(self.data)) if classes else error_scales(self.data, scoring)

    def _begin(self, split: Split, data: TaskData, shape: tuple[int, ...]) -> None:
        self.held = _targets(split, data)
        cells = sum(len(y) for y in self.held)
        self.shape, self.room = shape, max(self.most // max(cells, 1), FEWEST)
        self.row = np.full(int(np.prod(shape)), -1)
        self.store, self.errors, self.count = np.empty((0, cells), dtype=np.float32), np.empty(0), 0
        self.data = data


def _classes(data: TaskData) -> int:
    """How many problems of the data are one task: of more than two classes each has one."""
    return int(getattr(data, "classes", 1))


def _targets(split: Split, data: TaskData) -> list[Floats]:
    """Of every task the targets that are held out; of K > 2 classes a task is K problems, one after the other."""
    K, out = _classes(data), []
    for i in range(0, data.m, K):
        rows = np.flatnonzero(split.test[data.tasks[i].rows])
        of_classes = [data.tasks[i + k].y[rows] for k in range(K)]
        out.append(of_classes[0] if K == 1 else np.argmax(of_classes, axis=0))
    return out


def _losses(kind: Any, held: list[Floats], K: int, fitted: list[Floats], points: Ints) -> np.ndarray:
    """(points, cells held out), in the order of the tasks; of K > 2 classes a task is K problems, one after the other.
    `fitted` are the predictions of every problem for its rows held out, as (rows, more points)."""
    if K == 1:
        return _by_point(kind.of_points(np.concatenate(held), np.concatenate(fitted)[None, :, points]))
    of_classes = (np.array(fitted[K * i : K * (i + 1)])[:, :, points] for i in range(len(held)))
    return np.concatenate(
        [_by_point(kind.of_points(y, of_task)) for y, of_task in zip(held, of_classes, strict=True)], axis=1
    )


def _side_by_side(records: Sequence[Record], order: Ints) -> np.ndarray:
    """(points, entries): the losses of some points, one fold after the other."""
    return np.ascontiguousarray(np.concatenate([one.losses[one.row[order]] for one in records], axis=1))


def _by_point(losses: Floats) -> np.ndarray:
    """(points, cells) of (cells, points). Those of a point lie side by side: draws take thousands of single points."""
    return np.ascontiguousarray(losses.T, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Points:
    """What a model chooses from: P points, the simplest first, and F folds.

    losses : (P, entries), of the cells that folds hold out, one fold after the other
    scores : (F, P), greater is better, by which the model has chosen
    scale : (m,), what these divide the losses of a task by
    selection : "min" or "1se"
    n_features : (P,), on all data
    chosen : the place of its choice
    """

    losses: np.ndarray
    scores: Floats
    scale: Floats
    selection: str
    n_features: Floats
    chosen: int = 0

    @classmethod
    def of_search(cls, model: Any, records: Sequence[Record]) -> Points:
        """Of a fitted search. Points without a score are left out."""
        order, scores = in_order(model), fold_scores_of(model)
        order = order[np.all([record.row[order] >= 0 for record in records], axis=0)]
        room = max(KEPT // max(sum(record.losses.shape[1] for record in records), 1), FEWEST)
        if len(order) > room:
            rest = [np.delete(scores[:, order], f, axis=0) for f in range(len(scores))]
            chosen = [(int(choose_simplest(part, model.selection)), int(part.mean(axis=0).argmax())) for part in rest]
            best = np.argsort(-scores[:, order].mean(axis=0), kind="stable")[:room]
            kept = np.union1d(best, chosen)  # what folds choose for each other stays, and what all of them choose
            order = order[np.union1d(kept, np.flatnonzero(order == model.best_index_))]
        return cls(
            _side_by_side(records, order),
            scores[:, order],
            records[0].scale(scoring_of(model)),
            model.selection,
            model.cv_results_["n_rows"][order].astype(np.float64),
            int(np.flatnonzero(order == model.best_index_)[0]) if model.best_index_ in order else 0,
        )

    @classmethod
    def of_baseline(cls, model: Any, records: Sequence[Record], m: int) -> Points:
        """Of a fitted baseline that has kept its losses."""
        tried, order = model._tried, np.arange(model._tried.scores.shape[1])
        known = np.isfinite(tried.scores).all(axis=0) & np.all([record.row >= 0 for record in records], axis=0)
        order = order[known]
        return cls(
            _side_by_side(records, order),
            tried.scores[:, order],
            np.ones(m),
            "min",
            tried.n_features[order],
            int(np.flatnonzero(order == tried.chosen)[0]) if tried.chosen in order else 0,
        )

    @classmethod
    def of_fits(cls, losses: list[Floats], m: int, n_features: float) -> Points:
        """Of a model that was fitted on every training fold."""
        alone, scores = np.concatenate(losses)[None], np.zeros((len(losses), 1))
        return cls(alone, scores, np.ones(m), "min", np.array([n_features]))

    def choose(self, scores: Floats) -> Ints:
        """The points that scores (folds, ..., P) choose."""
        return choose_simplest(scores, self.selection)

    def cross_fitted(self, scores: Floats) -> Ints:
        """(folds, ...): for each fold the point that the others choose."""
        return np.array([self.choose(np.delete(scores, f, axis=0)) for f in range(len(scores))])


def recording(splits: Sequence[Split], kind: Any) -> tuple[list[Split], list[Record]]:
    """Folds that keep losses, and where these will be."""
    records = [Record(kind, BUDGET // len(splits)) for _ in splits]
    return [replace(split, record=one) for split, one in zip(splits, records, strict=True)], records
