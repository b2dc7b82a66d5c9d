"""Solutions at the points of a grid: which there are, their coefficients and intercepts, what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from .._data.designs import Design, Floats, Ints
from .._objective.coupled.groups import Groups
from .._objective.escapes import all_escaped, may_have_escaped
from .._objective.problem import Problem
from .._objective.proofs.certificates import AT_ONCE
from .._solvers.degrees import curved, face, rank_of, stiffened, traces
from .._solvers.one_level import held_at, levels_of
from .._solvers.stages import INEXACT, LEFT_OUT, REPEATS, SHORT

NO_FACTORS = np.empty((0, 0))


@dataclass(eq=False)  # not frozen: a surface makes hundreds of them
class Solved:
    """One stage's solution, sparse: values at flat positions of the (m, d) coefficients, and the weights it is for."""

    k: int  # of lams
    at: Ints
    values: Floats
    finished: bool
    unclear: Ints  # tasks where the Gram form may have gone wrong: several minimisers, or an ill-conditioned one
    eased: Ints = field(default_factory=lambda: np.empty(0, dtype=np.intp))  # cells whose weight is not lam f, rising
    left: Floats = field(default_factory=lambda: np.empty(0))  # what is left of it there, relative to lam f

    def free_rows(self, d: int) -> Ints:
        """Rows that are un-penalised in at least one task."""
        return np.unique(self.eased[self.left == 0.0] % d)


class NotSolvedError(ValueError):
    """A point of a grid was asked for that a search has left out."""


@dataclass(frozen=True)
class TaskCoefs:
    """One task's coefficients in many solutions, as a sparse matrix of shape (solutions, d): values by solution and
    feature. (As small as it is, because a surface asks for it per task; general sparse matrices cost more to make.)"""

    shape: tuple[int, int]
    solution: Ints
    feature: Ints
    values: Floats

    def __matmul__(self, v: Floats) -> Floats:
        return np.bincount(self.solution, self.values * v[self.feature], self.shape[0]).astype(np.float64)

    def counts(self) -> Ints:
        """(solutions,): non-zero coefficients."""
        return np.bincount(self.solution, minlength=self.shape[0])

    def used(self) -> Ints:
        """The features that are not zero in all solutions."""
        return np.flatnonzero(np.bincount(self.feature, minlength=self.shape[1]))

    def entries(self, places: Ints) -> tuple[Ints, Ints, Floats]:
        """Row (counted in `places`), column and value of the entries of some of the rows."""
        row = np.full(self.shape[0], -1)
        row[places] = np.arange(len(places))
        row = row[self.solution]
        chosen = row >= 0
        return row[chosen], self.feature[chosen], self.values[chosen]

    def dense(self, places: Ints, features: Ints | None = None) -> Floats:
        """Some of the rows, and of the columns, the rest of which must be 0."""
        row, column, values = self.entries(places)
        if features is not None:
            column = np.searchsorted(features, column)
        out = np.zeros((len(places), self.shape[1] if features is None else len(features)))
        out[row, column] = values
        return out


@dataclass(frozen=True, eq=False)
class Solutions:
    """Sparse solutions at the points (k, l) of a grid of parameters, K x L. What the parameters are, a subclass says."""

    tasks: np.ndarray
    features: np.ndarray
    solved: tuple[Solved, ...] = field(repr=False)
    problem: Problem | None = field(repr=False)

    caps_rows: ClassVar[bool] = False  # whether thetas say from which size on rows are free

    @property
    def last(self) -> Ints:
        """(K, L): the place in `solved` of each point's solution; -1 where there is none (see `reached`)."""
        raise NotImplementedError

    @property
    def reached(self) -> np.ndarray:
        """Whether the point was solved, at every point (K, L). A search leaves out those beyond where errors have turned."""
        out: np.ndarray = self.last >= 0
        return out

    def _place(self, k: int, l: int) -> int:
        """Where in `solved` the solution of a point is."""
        place = int(self.last[k, l])
        if place < 0:
            raise NotSolvedError(
                f"point ({k}, {l}) of the grid was not solved: errors on held-out samples had turned before it. "
                "`complete_surface(X, y, task=...)` of the model solves all points; `reached` tells which were."
            )
        return place

    def _at_points(self, values: np.ndarray, missing: float) -> np.ndarray:
        """(K, L): what is known of every solution (solutions,), at the points; `missing` where there is none."""
        out = np.full(self.last.shape, missing, dtype=values.dtype)
        out[self.reached] = values[self.last[self.reached]]
        return out

    @property
    def parameters(self) -> dict[str, Floats]:
        """(K, L) each, the one that penalises most first."""
        raise NotImplementedError

    @property
    def strength(self) -> Floats:
        """What falls along the columns of the grid, at every point (K, L)."""
        return next(iter(self.parameters.values()))

    @property
    def settled(self) -> np.ndarray:
        """Whether the work went to its end, at every point (K, L).

        A search stops short of it elsewhere.
        """
        raise NotImplementedError

    @cached_property
    def complete(self) -> np.ndarray:
        """Whether the solution is what the model itself gives, at every point (K, L).

        Elsewhere it must neither be scored nor chosen: a search has stopped short of it, or the problem has no minimiser
        (free features separate classes), or the loss of a task has all but gone, so that rounding says how large its
        coefficients are. Such solutions are where a solver happened to stop.
        """
        if not self.count or not self._data().may_escape:
            return np.asarray(self.settled)
        out: np.ndarray = self.settled & self._at_points(~self._boundless, False)
        return out

    @property
    def _boundless(self) -> np.ndarray:
        """(solutions,) bool: whether some task has no minimiser, or all of its rows have all but escaped."""
        problem, out = self._data(), np.zeros(self.count, dtype=bool)
        never = problem.factors.T == 0.0  # penalised
        for i, design in enumerate(problem.designs):
            W = self._dense_of(i)
            suspect = may_have_escaped(design, W) | never[i].any()
            for place in np.flatnonzero(suspect & ~out).tolist():
                with self._at_level(place):
                    free = np.where(never[[i]], 0.0, 1.0)
                    out[place] = all_escaped(design, W[place]) or problem.escapes(i, W[[place]], free)[0]
        return out

    def _dense_of(self, i: int) -> Floats:
        """(solutions, d): the coefficients of a task."""
        W = self.of_task(i)
        return W if isinstance(W, np.ndarray) else W.dense(np.arange(self.count))

    def places_in_use(self) -> tuple[Ints, Ints]:
        """Return the places in `solved` that points have, and each point's place among them.

        Returns
        -------
        places : ndarray of int
            Places in `solved`, rising.
        of_point : ndarray of int of shape (K, L)
            Places in `places`; -1 where a point was not solved.
        """
        places, back = np.unique(self.last[self.reached], return_inverse=True)
        of_point = np.full(self.last.shape, -1, dtype=np.intp)
        of_point[self.reached] = back.ravel()
        return places, of_point

    def coefs(self, places: Sequence[int] | Ints) -> Floats:
        """Return the coefficients of some of the solutions.

        Parameters
        ----------
        places : sequence of int
            Places in `solved`.

        Returns
        -------
        ndarray of shape (len(places), m, d)
            The coefficients in the data's units.
        """
        out = np.zeros((len(places), len(self.tasks), len(self.features)))
        for row, s in zip(out.reshape(len(places), -1), places, strict=True):
            row[self.solved[s].at] = self.solved[s].values
        return out

    def _in_common(self, place: int) -> Floats | None:
        """(parts, d): what all tasks have in common, and effects of levels below it; None if there is no such part."""
        return None

    @cached_property
    def _by_task(self) -> list[TaskCoefs]:
        return self._apart([(solved.at, solved.values) for solved in self.solved])

    def _apart(self, cells: list[tuple[Ints, Floats]]) -> list[TaskCoefs]:
        """What every solution has at flat positions of (m, d), task by task."""
        m, d, count = len(self.tasks), len(self.features), len(cells)
        at = np.concatenate([places for places, _ in cells])
        solution = np.repeat(np.arange(count), [len(places) for places, _ in cells])
        order = np.argsort(at // d, kind="stable")
        ends = np.searchsorted(at[order] // d, np.arange(1, m))
        values = np.concatenate([values for _, values in cells])
        parts = (np.split(of_all[order], ends) for of_all in (solution, at % d, values))
        return [TaskCoefs((count, d), *of_task) for of_task in zip(*parts, strict=True)]

    def of_task(self, i: int) -> TaskCoefs:
        """Return the coefficients of one task in all solutions.

        Parameters
        ----------
        i : int
            The place of the task in `tasks`.

        Returns
        -------
        TaskCoefs
            The coefficients, stored sparsely.
        """
        return self._by_task[i]

    def coef(self, k: int, l: int) -> Floats:
        """Return the coefficients at a point of the grid, in the data's units.

        Parameters
        ----------
        k : int
            The place of the point's lam in the grid.
        l : int
            The column of the point in the grid.

        Returns
        -------
        ndarray of shape (m, d)
            The coefficients.
        """
        out: Floats = self.coefs([self._place(k, l)])[0]
        return out

    def sparse_coef(self, k: int, l: int) -> sparse.csr_array:
        """Return the coefficients at a point of the grid as a sparse array.

        Parameters
        ----------
        k : int
            The place of the point's lam in the grid.
        l : int
            The column of the point in the grid.

        Returns
        -------
        csr_array of shape (m, d)
            The coefficients in the data's units.
        """
        solved, shape = self.solved[self._place(k, l)], (len(self.tasks), len(self.features))
        return sparse.csr_array((solved.values, np.unravel_index(solved.at, shape)), shape=shape)

    def intercept(self, k: int, l: int) -> Floats:
        """Return the intercepts that belong to the coefficients at a point of the grid.

        Parameters
        ----------
        k : int
            The place of the point's lam in the grid.
        l : int
            The column of the point in the grid.

        Returns
        -------
        ndarray of shape (m,)
            The intercepts; zeros if the model has none.
        """
        return np.asarray(self._intercepts[self._place(k, l)])

    def support(self, k: int, l: int) -> np.ndarray:
        """Tell where the coefficients at a point of the grid are not 0.

        Parameters
        ----------
        k : int
            The place of the point's lam in the grid.
        l : int
            The column of the point in the grid.

        Returns
        -------
        ndarray of bool of shape (m, d)
            True where the coefficient is not 0.
        """
        out: np.ndarray = self.coef(k, l) != 0.0
        return out

    @cached_property
    def n_entries(self) -> Ints:
        """Number of coefficients that are not 0, at every point (K, L); -1 where it was not solved."""
        return self._at_points(np.array([len(solved.at) for solved in self.solved], dtype=np.intp), -1)

    @cached_property
    def n_rows(self) -> Ints:
        """Number of features used in any task, at every point (K, L); -1 where it was not solved."""
        d = len(self.features)
        return self._at_points(np.array([len(np.unique(solved.at % d)) for solved in self.solved], dtype=np.intp), -1)

    @property
    def convex(self) -> np.ndarray:
        """Whether the penalty is convex (fitted values depend on targets without jumps), at every point (K, L)."""
        return np.ones(self.last.shape, dtype=bool)

    def degrees(self, places: Ints) -> Floats:
        """Return the degrees of freedom of every task's part of some of the solutions.

        Those of a stage of Algorithm 1 are taken with its weights as they are, however they were found; see
        :mod:`msmtfl._solvers.degrees`.

        Parameters
        ----------
        places : ndarray of int
            Places in `solved`.

        Returns
        -------
        ndarray of shape (len(places), m)
            The degrees of freedom.
        """
        problem = self._data()
        if problem.groups is not None:
            return self._degrees_of_groups(places, problem, problem.groups)
        if problem.unit_ridge is not None or problem.bounds is not None:
            return self._degrees_by_form(places, problem)
        out = np.stack([of_task.counts()[places] for of_task in self._by_task], axis=1).astype(np.float64)
        d, designs = len(self.features), problem.designs
        for row, s in enumerate(places.tolist()):
            for i in self.solved[s].unclear.tolist():  # several minimisers: their columns are dependent
                at = self.solved[s].at
                out[row, i] = rank_of(designs[i], at[at // d == i] % d)
        return out

    def _ridge(self, place: int) -> Floats:
        """(m, d): second derivatives of the ridge of a solution, on the scale of the objective."""
        raise NotImplementedError

    def _degrees_of_groups(self, places: Ints, problem: Problem, groups: Groups) -> Floats:
        """The same where features are in groups: of a refit without a penalty they move each by itself."""
        return self._degrees_by_form(places, problem)

    def _degrees_by_form(self, places: Ints, problem: Problem) -> Floats:
        """Coefficients that are not 0, nor at a bound, move each by itself, against the ridge."""
        none, out = np.empty(0, dtype=np.intp), []
        for place in places.tolist():
            W = self.coefs([place])[0]
            moves = W != 0.0
            if problem.bounds is not None:
                moves &= (problem.bounds.low < W) & (problem.bounds.high > W)
            form = face([np.flatnonzero(of_task) for of_task in moves], none, np.zeros((problem.m, 0)))
            if problem.unit_ridge is not None:
                form = stiffened(form, self._ridge(place))
            with self._at_level(place):
                out.append(traces(curved(problem.designs, W), form))
        return np.reshape(out, (-1, problem.m))

    def _data(self) -> Problem:
        assert self.problem is not None
        return self.problem

    @cached_property
    def _levels(self) -> Floats:
        """(solutions, classes): the intercepts that tasks have in common."""
        return np.array([levels_of(self._data(), self.coefs([place])[0]) for place in range(self.count)])

    @property
    def count(self) -> int:
        """How many solutions there are."""
        return len(self.solved)

    def intercepts_of(self, i: int) -> Floats:
        """Return the intercepts of one task in all solutions.

        Parameters
        ----------
        i : int
            The place of the task in `tasks`.

        Returns
        -------
        ndarray of shape (solutions,)
            The intercepts; zeros if the model has none.
        """
        if self._data().has_one_level:
            return np.asarray(self._levels[:, i % self._levels.shape[1]])
        return np.asarray(self._data().designs[i].intercepts(self.of_task(i)))

    def intercepts_at(self, i: int, places: Ints, coefs: Floats) -> Floats:
        """Return the intercepts of one task in some solutions, of which the coefficients are known.

        Parameters
        ----------
        i : int
            The place of the task in `tasks`.
        places : ndarray of int of shape (some,)
            The places of the solutions.
        coefs : ndarray of shape (some, d)
            The coefficients of the task there.

        Returns
        -------
        ndarray of shape (some,)
            The intercepts; zeros if the model has none.
        """
        if self._data().has_one_level:
            return self.intercepts_of(i)[places]
        return np.asarray(self._data().designs[i].intercepts(coefs))

    def _at_level(self, place: int) -> AbstractContextManager[None]:
        """With tasks held at the intercept of a solution, if they have one in common."""
        problem = self._data()
        if not problem.has_one_level:
            return nullcontext()
        return held_at(problem, self._levels[place], self.coefs([place])[0])

    @cached_property
    def _intercepts(self) -> Floats:
        """(solutions, m)"""
        return np.stack([self.intercepts_of(i) for i in range(len(self.tasks))], axis=1)

    @cached_property
    def losses(self) -> Floats:
        """The sum of squared residuals of every task in every solution, (solutions, m)."""
        designs = self._data().designs
        if self._data().has_one_level:
            return np.array([self._losses_at(place) for place in range(self.count)])
        return np.array([losses_of(design, self.of_task(i)) for i, design in enumerate(designs)]).T

    def _losses_at(self, place: int) -> Floats:
        with self._at_level(place):
            return np.array([d.loss(w) for d, w in zip(self._data().designs, self.coefs([place])[0], strict=True)])

    # ------------------------------------------------------------------ tables

    def to_dict(self) -> dict[str, np.ndarray]:
        """One entry per point, lam outer, in columns."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """Return a pandas table with one line per point of the grid, lam outermost.

        Returns
        -------
        DataFrame
            The columns of `to_dict`.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas (pip install pandas); to_dict() does without.") from error
        return pd.DataFrame(self.to_dict())


@dataclass(frozen=True, eq=False)
class StagedSolutions(Solutions):
    """Solutions on a grid where every point is the end of a run of Algorithm 1."""

    tol: float
    ended: np.ndarray = field(repr=False)  # (K, L) why the stages ended, their gaps left aside
    chains: np.ndarray = field(repr=False)  # (K, L) of tuples: the places in `solved` of a point's stages

    def in_words(self, k: int, l: int) -> str:
        """Why the stages of a point that repeat have converged."""
        raise NotImplementedError

    @property
    def _proofs(self) -> tuple[Floats, np.ndarray]:
        """Relative gap and uniqueness of every solution."""
        raise NotImplementedError

    @cached_property
    def converged(self) -> np.ndarray:
        """Whether the set of free features repeats and every stage's gap is at most `tol`, at every point (K, L)."""
        solved = _over(self.chains, lambda chain: bool((self._proofs[0][list(chain)] <= self.tol).all()), np.bool_)
        out: np.ndarray = solved & (self.ended == REPEATS)
        return out

    @cached_property
    def stopping_reason(self) -> np.ndarray:
        """Why the stages ended, in words, at every point (K, L)."""
        out = np.where((self.ended == REPEATS) & ~self.converged, INEXACT.format(self.tol), self.ended)
        for k, l in np.argwhere(self.converged).tolist():
            out[k, l] = self.in_words(k, l)
        return out

    @property
    def settled(self) -> np.ndarray:
        return np.array([reason not in SHORT for reason in self.ended.flat], dtype=bool).reshape(self.ended.shape)

    @cached_property
    def n_stages(self) -> Ints:
        """Number of stages, at every point (K, L)."""
        return _over(self.chains, len, np.intp)

    @cached_property
    def last(self) -> Ints:
        """The place in `solved` of the solution, at every point (K, L); -1 where there is none."""
        return _over(self.chains, lambda chain: chain[-1] if chain else -1, np.intp)

    def free_rows(self, k: int, l: int) -> Ints:
        """Return the features that the last stage of a point left un-penalised, in one task at least.

        Parameters
        ----------
        k : int
            The place of the point's lam in the grid.
        l : int
            The column of the point in the grid.

        Returns
        -------
        ndarray of int
            The places of the features.
        """
        out: Ints = self.solved[self._place(k, l)].free_rows(len(self.features))
        return out

    @cached_property
    def dual_gap(self) -> Floats:
        """Relative duality gap of the last stage, at every point (K, L)."""
        return self._at_points(self._proofs[0], np.nan)

    @cached_property
    def unique(self) -> np.ndarray:
        """Whether every stage's solution is certainly the only one, at every point (K, L)."""
        out: np.ndarray = _over(self.chains, lambda chain: bool(self._proofs[1][list(chain)].all()), np.bool_)
        return np.asarray(out & self.reached)

    @property
    def objective(self) -> Floats:
        """(K, L)"""
        raise NotImplementedError

    def to_dict(self) -> dict[str, np.ndarray]:
        """Return columns with one entry per point of the grid, lam outermost.

        Returns
        -------
        dict {name: ndarray}
            The parameters, objective, dual_gap, n_stages, converged, unique, n_rows (features used in any
            task), n_entries (coefficients that are not 0), n_free_rows (features that are un-penalised) and
            stopping_reason.
        """
        columns: dict[str, np.ndarray] = {**self.parameters}
        for name in ("objective", "dual_gap", "n_stages", "converged", "unique", "n_rows", "n_entries"):
            columns[name] = getattr(self, name)
        free = [len(solved.free_rows(len(self.features))) for solved in self.solved]
        columns["n_free_rows"] = self._at_points(np.array(free, dtype=np.intp), -1)
        columns["stopping_reason"] = self.stopping_reason
        return {name: np.asarray(values).reshape(-1) for name, values in columns.items()}

    def __getstate__(self) -> dict[str, Any]:
        if self.problem is not None:
            _ = self._intercepts, self.objective, self.dual_gap, self.unique, self.stopping_reason, self.complete
        return {**self.__dict__, "problem": None}


def no_points(shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The chains and reasons of a grid of which nothing is solved yet."""
    chains, reasons = np.empty(shape, dtype=object), np.full(shape, LEFT_OUT, dtype=object)
    chains.fill(())
    return chains, reasons


def _over(chains: np.ndarray, value: Callable[[tuple[int, ...]], object], dtype: type[np.generic]) -> np.ndarray:
    return np.array([value(chain) for chain in chains.ravel()], dtype=dtype).reshape(chains.shape)


def losses_of(design: Design, W: TaskCoefs) -> Floats:
    def of_piece(part: Floats) -> Floats:
        R = None if design.target is None else design.residuals(part)
        return np.array([design.loss(w) for w in part]) if R is None else np.einsum("sr,sr->s", R, R)

    every = np.arange(W.shape[0])
    return np.concatenate([of_piece(W.dense(every[low : low + AT_ONCE])) for low in range(0, len(every), AT_ONCE)])
