"""Solutions on some of the tasks as those of all tasks: what predicts the tasks that a fold leaves out as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..._data.designs import Floats, Ints
from ..._objective.problem import Problem
from ..._solvers.problems.priors import common_levels
from ..solutions import Solutions, Solved


def shares_by_level(known: Ints, new: Ints) -> Floats:
    """(new tasks, known tasks): how much every known task counts in a new one, by their values (tasks, levels): the mean of
    all, and, where a value is known, what the tasks that have it differ by from what levels above say."""
    m = len(known)
    out = np.empty((len(new), m))
    for row, values in zip(out, new, strict=True):
        rest, total = np.eye(m) - 1.0 / m, np.full(m, 1.0 / m)
        for k, value in enumerate(values.tolist()):
            same = known[:, k] == value
            if same.any():
                total = total + rest[same].mean(axis=0)
            alike = known[:, k][:, None] == known[:, k][None, :]
            rest = rest - (alike / alike.sum(axis=1, keepdims=True)) @ rest
        row[:] = total
    return out


@dataclass(frozen=True)
class LeftOut:
    """Tasks that a fold leaves out, and what stands for them.

    Attributes
    ----------
    tasks, known : places of the tasks that are left out, and of the others
    shares : (left out, known), how much each known task counts
    means : (known, d) the means of the features, where intercepts are those that known tasks would have with the
        coefficients of the new one; None: their own
    effects : (left out, levels) where in `Solutions._in_common` the effects of a task's values are (-1: it is not known);
        None: the coefficients are the mean of those of known tasks
    """

    tasks: Ints
    known: Ints
    shares: Floats
    means: Floats | None
    effects: Ints | None

    def coefs(self, W: Floats, common: Floats | None) -> Floats:
        """(left out, d): coefficients in a solution, from those of known tasks (known, d) and what they have in common."""
        if common is None or self.effects is None:
            return self.shares @ W
        return np.array([common[0] + common[of_task[of_task >= 0]].sum(axis=0) for of_task in self.effects])

    def intercepts(self, new: Floats, W: Floats, levels: Floats, part: Problem) -> Floats:
        """(left out,): intercepts beside coefficients `new`, from coefficients W and intercepts of the known tasks."""
        prior = common_levels(part)
        if prior is not None and (self.effects is None or self.effects.shape[1] == 0):
            level, at, ridge = prior
            return np.full(len(new), levels.mean()) if np.isinf(ridge) else np.asarray(level - new @ at)
        out = self.shares @ levels
        if self.means is not None:
            out = (
                out
                + self.shares @ np.einsum("jd,jd->j", W, self.means)
                - np.einsum("id,id->i", new, self.shares @ self.means)
            )
        return np.asarray(out)


@dataclass(frozen=True, eq=False)
class ForAllTasks(Solutions):
    """Solutions of a fold's tasks with lines for those that it leaves out."""

    places: Ints = field(repr=False)  # (K, L)
    known: np.ndarray = field(repr=False)  # (K, L) bool
    levels: Floats = field(repr=False)  # (solutions, m)

    @classmethod
    def of(cls, problem: Problem, left_out: LeftOut, solutions: Solutions) -> ForAllTasks:
        """`problem` is that of all tasks."""
        (places, last), part = solutions.places_in_use(), solutions._data()
        of_lam = np.zeros(len(places), dtype=np.intp)
        of_lam[last[last >= 0]] = np.nonzero(last >= 0)[0]
        coefs = solutions.coefs(places)
        known = [solutions.intercepts_at(i, places, coefs[:, i]) for i in range(coefs.shape[1])]
        b, solved, nobody = np.empty((len(places), problem.m)), [], np.empty(0, dtype=np.intp)
        b[:, left_out.known] = np.stack(known, axis=1)
        for row, (place, W) in enumerate(zip(places.tolist(), coefs, strict=True)):
            new = left_out.coefs(W, solutions._in_common(place))
            b[row, left_out.tasks] = left_out.intercepts(new, W, b[row, left_out.known], part)
            every = np.empty((problem.m, problem.d))
            every[left_out.known], every[left_out.tasks] = W, new
            at = np.flatnonzero(every)
            solved.append(Solved(int(of_lam[row]), at, every.ravel()[at], True, nobody))
        names = problem.data.labels
        return cls(names, solutions.features, tuple(solved), problem, last, solutions.complete, b)

    @property
    def last(self) -> Ints:
        return self.places

    @property
    def settled(self) -> np.ndarray:
        return self.known

    @property
    def complete(self) -> np.ndarray:
        return self.known

    def intercepts_of(self, i: int) -> Floats:
        return np.asarray(self.levels[:, i])

    def intercepts_at(self, i: int, places: Ints, coefs: Floats) -> Floats:
        return np.asarray(self.levels[places, i])
