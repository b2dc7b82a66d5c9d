"""Dealing rows out to folds as they come."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable

import numpy as np
from sklearn.utils import check_random_state

from ..tables import RandomState


class Dealer:
    """Deals the rows of a stream out to folds: of every `folds` rows of a task that follow each other each goes to another
    fold, in random order, whatever the batches they come in; or all rows of a group go to the fold that its name says."""

    def __init__(self, folds: int, random_state: RandomState):
        if folds < 2:
            raise ValueError(f"folds must be at least 2: one is held out at a time; got {folds}.")
        self.folds, self.seed = folds, int(check_random_state(random_state).randint(2**31 - 1))
        # of every task: what is left of a round
        self.hands: dict[Hashable, tuple[np.random.Generator, np.ndarray]] = {}

    def deal(self, label: Hashable, count: int) -> np.ndarray:
        """The folds of the next `count` rows of a task."""
        if label not in self.hands:
            random = np.random.default_rng([self.seed, zlib.crc32(str(label).encode())])
            self.hands[label] = random, np.empty(0, dtype=np.intp)
        random, left = self.hands[label]
        rounds = -(-max(count - len(left), 0) // self.folds)
        cards = np.concatenate([left, random.random((rounds, self.folds)).argsort(axis=1).ravel()])
        self.hands[label] = random, cards[count:]
        return cards[:count]

    def of_groups(self, groups: Iterable[object]) -> np.ndarray:
        return np.array([zlib.crc32(str(group).encode()) % self.folds for group in groups], dtype=np.intp)
