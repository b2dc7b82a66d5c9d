"""The result of solving Algorithm 1 on a grid of (lam, theta): solutions, and what is proven about them.

Objectives and certificates are computed on X, by code independent of the solver, when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from .._data.designs import Floats, Ints
from .._objective.class_tasks import certify_held
from .._objective.coupled.groups import Groups
from .._objective.penalties import ConcaveRows
from .._objective.problem import Problem
from .._objective.proofs.certificates import AT_ONCE, TaskCertificate, relative_gap
from .._objective.proofs.dual_points import Memo
from .._objective.proofs.lasso_certificates import certify_lassos
from .._objective.shapes import Shape
from .._runtime.progress import one_blas_thread
from .._solvers.degrees import FIXED, of_one_task
from .._solvers.largest_lam import largest_lam
from .._solvers.one_level import with_free_level
from .._solvers.stages import in_words
from .solutions import NO_FACTORS, StagedSolutions, TaskCoefs, _over


@dataclass(frozen=True, eq=False)
class Known:
    """What whoever solved a surface knows of every solution already, so that it is not computed again from the data: losses
    (solutions, m), relative gaps and uniqueness (solutions,)."""

    losses: Floats
    gaps: Floats
    unique: np.ndarray


@dataclass(frozen=True, eq=False)
class Surface(StagedSolutions):
    """Solutions of MSMTFL on a grid of K values of lam and L columns of theta.

    Objectives, gaps, `unique` and `converged` are computed from the data when they are first asked for, so
    do not change X and y in place before. Pickling computes them first and leaves the data behind.

    Attributes
    ----------
    lams : ndarray of shape (K,)
        The values of lam.
    thetas : ndarray of shape (K, L)
        The values of theta; ``coef(k, l)`` is the solution at lams[k] and thetas[k, l].
    shares : ndarray of shape (L,)
        The shares of lam that go to the penalty on single coefficients: column l has
        lam_entry = shares[l] lams and lam = (1 - shares[l]) lams. 0 is the paper's model.
    theta_entries : ndarray of shape (K, L)
        Sizes from which a coefficient is free of that penalty.
    tasks : ndarray of shape (m,)
        Labels of the tasks, in the order of the first axis of ``coef(k, l)``.
    features : ndarray of shape (d,)
        Names of the features, in the order of the second axis of ``coef(k, l)``.
    lam_max : float
        The smallest lam at which all coefficients are 0.
    parameters : dict {name: ndarray of shape (K, L)}
        The parameters of every point.
    n_stages : ndarray of shape (K, L)
        Number of stages.
    stopping_reason : ndarray of shape (K, L)
        Why the stages ended, in words.
    converged : ndarray of bool of shape (K, L)
        Whether the set of free features repeats, and every stage's duality gap is at most `tol`.
    complete : ndarray of bool of shape (K, L)
        Whether the solution is what the model itself gives at this point; elsewhere the search has stopped
        short of it.
    convex : ndarray of bool of shape (K, L)
        Whether the penalty is convex.
    n_rows : ndarray of shape (K, L)
        Number of features used in any task.
    n_entries : ndarray of shape (K, L)
        Number of coefficients that are not 0.
    objective : ndarray of shape (K, L)
        The value of what is minimised, loss plus penalty.
    dual_gap : ndarray of shape (K, L)
        Relative duality gap of the last stage.
    unique : ndarray of bool of shape (K, L)
        Whether every stage's solution is certainly the only one.
    tol : float
        The gap that the stages of a converged point stay below.
    concave : Shape
        The concave function of the penalty.
    solved : tuple of Solved
        The stages that were solved, those of several points once.
    known : Known or None
        What is known of every solution without the data.
    chains : ndarray of shape (K, L)
        For every point the places of its stages in `solved`.
    last : ndarray of shape (K, L)
        For every point the place of its solution in `solved`.
    ended : ndarray of shape (K, L)
        Why the stages ended, their gaps left aside.
    losses : ndarray of shape (solutions, m)
        The sum of squared residuals of every task in every solution.
    problem : Problem or None
        The data; None after pickling.
    l1_ratio : float
        The share of the penalty that is a norm; the rest is a ridge.
    groups : Groups or None
        The groups of features, if there are any.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import regularization_surface
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(90)
    >>> surface = regularization_surface(X, y, task=task, lams=10, theta_ratios=[4, np.inf])
    >>> surface.n_rows[:, 1]  # features that the lasso uses, from the largest lam down
    array([0, 2, 3, 8, 8, 8, 8, 8, 8, 8])
    >>> surface.coef(4, 0).shape, bool(surface.dual_gap.max() < 1e-10)
    ((3, 8), True)
    """

    lams: Floats
    thetas: Floats
    shares: Floats
    theta_entries: Floats
    concave: Shape
    known: Known | None = field(default=None, repr=False)
    l1_ratio: float = 1.0
    groups: Groups | None = field(default=None, repr=False)

    caps_rows: ClassVar[bool] = True

    def __repr__(self) -> str:
        shape = f"{len(self.lams)} lams x {self.thetas.shape[1]} thetas"
        return f"Surface({shape}, {len(self.tasks)} tasks, {len(self.features)} features, {len(self.solved)} solves)"

    def in_words(self, k: int, l: int) -> str:
        """Say why the stages of a point that repeat have converged.

        Parameters
        ----------
        k : int
            The place of the point's lam in the grid.
        l : int
            The column of the point in the grid.

        Returns
        -------
        str
            The reason.
        """
        return in_words(self.penalty(k, l, NO_FACTORS))

    @property
    def parameters(self) -> dict[str, Floats]:
        """The parameters of every point, arrays (K, L) by name, the one that penalises most first."""
        out = {"lam": np.outer(self.lams, 1.0 - self.shares), "theta": self.thetas}
        if self.shares.any():
            out |= {"lam_entry": np.outer(self.lams, self.shares), "theta_entry": self.theta_entries}
        return out

    @property
    def strength(self) -> Floats:
        """The values of lam, of features and entries together, at every point (K, L)."""
        return np.broadcast_to(self.lams[:, None], self.thetas.shape)

    @property
    def convex(self) -> np.ndarray:
        """Whether the penalty is convex, at every point (K, L)."""
        of_rows = np.isinf(self.thetas) | (self.shares == 1.0)
        return np.asarray(of_rows & (np.isinf(self.theta_entries) | (self.shares == 0.0)))

    def penalty(self, k: int, l: int, factors: Floats) -> ConcaveRows:
        """Return the penalty of a point of the grid.

        Parameters
        ----------
        k : int
            The place of the point's lam in the grid.
        l : int
            The column of the point in the grid.
        factors : ndarray of shape (d, m)
            Penalty factors of the coefficients.

        Returns
        -------
        ConcaveRows
            The penalty.
        """
        at = {name: float(values[k, l]) for name, values in self.parameters.items()}
        return ConcaveRows(factors=factors, shape=self.concave, l1_ratio=self.l1_ratio, groups=self.groups, **at)

    # ------------------------------------------------------------------ what needs the data

    @cached_property
    def lam_max(self) -> float:
        """The smallest lam at which all coefficients are 0."""
        return largest_lam(self._data())

    def _ridge(self, place: int) -> Floats:
        return self._data().ridge_bends(self.lams[self.solved[place].k])

    def _degrees_of_groups(self, places: Ints, problem: Problem, groups: Groups) -> Floats:
        out = np.zeros((len(places), problem.m))
        for i, design in enumerate(problem.designs):
            row = 0
            for W, A, lams in self.lassos_of(i, places):
                for w, a, lam in zip(W, A, lams.tolist(), strict=True):
                    ridge = None if problem.unit_ridge is None else lam * problem.unit_ridge[i]
                    held = problem.held(np.tile(w, (problem.m, 1)))[i]
                    if held.any():  # what is at a bound does not move with the targets
                        stiff = np.where(held, FIXED * design.squares, 0.0)
                        ridge = stiff if ridge is None else ridge + stiff
                    with self._at_level(int(places[row])):
                        out[row, i] = of_one_task(design, w, a, groups, ridge)
                    row += 1
        return out

    @cached_property
    def _lam_of(self) -> Floats:
        """(solutions,)"""
        return self.lams[[solved.k for solved in self.solved]]

    def lassos_of(self, i: int, places: Ints) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Yield coefficients and weights of a task's lassos in some of the solutions, piece by piece.

        Parameters
        ----------
        i : int
            The place of the task in `tasks`.
        places : ndarray of int
            Places in `solved`.

        Yields
        ------
        coefs : ndarray of shape (at most AT_ONCE, d)
            Coefficients of the task.
        weights : ndarray of shape (at most AT_ONCE, d)
            The penalties on them.
        lams : ndarray of shape (at most AT_ONCE,)
            The values of lam.
        """
        W, eased = self.of_task(i), self._eased_by_task[i]
        factors = self._data().stage_weights[i]
        for begin in range(0, len(places), AT_ONCE):
            some = places[begin : begin + AT_ONCE]
            A = np.multiply.outer(self._lam_of[some], factors)
            row, feature, left = eased.entries(some)
            A[row, feature] *= left
            yield W.dense(some), A, self._lam_of[some]

    @property
    def settled(self) -> np.ndarray:
        """Whether the work went to its end, at every point (K, L).

        A stage without a minimiser (classes that free features separate) is no more settled than one that was not solved.
        """
        escapes = self._escapes
        if not escapes.any():
            return super().settled
        out: np.ndarray = super().settled & _over(self.chains, lambda chain: not escapes[list(chain)].any(), np.bool_)
        return out

    @cached_property
    def _escapes(self) -> np.ndarray:
        """(solutions,) bool: whether some task has no minimiser."""
        problem, out = self._data(), np.zeros(len(self.solved), dtype=bool)
        if not problem.may_escape:
            return out
        always = bool((problem.factors == 0.0).any())  # features that are never penalised
        free = [s for s, one in enumerate(self.solved) if always or (one.left == 0.0).any()]
        places = np.array(free, dtype=np.intp)
        for i in range(problem.m if places.size else 0):
            parts = [problem.escapes(i, W, A) for W, A, _ in self.lassos_of(i, places)]
            out[places] |= np.concatenate(parts)
        return out

    @cached_property
    def _eased_by_task(self) -> list[TaskCoefs]:
        return self._apart([(solved.eased, solved.left) for solved in self.solved])

    @cached_property
    def losses(self) -> Floats:
        """The sum of squared residuals, or twice the loss, of every task in every stage (solutions, m)."""
        return super().losses if self.known is None else self.known.losses

    @cached_property
    def objective(self) -> Floats:
        """The value of what is minimised, loss plus penalty, at every point (K, L)."""
        problem = self._data()
        n = np.array([design.n for design in problem.designs])
        out = self._at_points((self.losses / (problem.m * n)).sum(axis=1), np.nan)
        for k, l in np.argwhere(self.reached).tolist():
            W = self.coef(k, l)
            out[k, l] += self.penalty(k, l, problem.factors).value(W.T) + problem.ridge_value(self.lams[k], W)
        return np.asarray(out)

    @cached_property
    @one_blas_thread()
    def _proofs(self) -> tuple[Floats, np.ndarray]:
        """Relative gap and uniqueness of every solution."""
        if self.known is not None:
            return self.known.gaps, self.known.unique
        problem = self._data()
        every = np.arange(len(self.solved))

        def certify(i: int, places: Ints) -> list[TaskCertificate]:
            memo: Memo = {}
            parts = [certify_lassos(problem, i, W, A, memo, lams) for W, A, lams in self.lassos_of(i, places)]
            return [proof for part in parts for proof in part]

        if problem.has_one_level:
            found = [self._proof_at(place, certify) for place in every.tolist()]
            return np.array([gap for gap, _ in found]), np.array([unique for _, unique in found], dtype=bool)
        proofs = [certify(i, every) for i in range(problem.m)]
        gaps = [relative_gap(problem.designs, of_one) for of_one in zip(*proofs, strict=True)]
        return np.array(gaps), np.array([all(p.unique for p in of_one) for of_one in zip(*proofs, strict=True)])

    def _proof_at(self, place: int, certify: Callable[[int, Ints], list[TaskCertificate]]) -> tuple[float, bool]:
        problem = self._data()
        with self._at_level(place):
            if problem.classes_together:
                parts = [next(iter(self.lassos_of(i, np.array([place])))) for i in range(problem.m)]
                W, A = (np.concatenate([part[which] for part in parts]) for which in (0, 1))
                proofs: list[Any] = certify_held(problem, W, A, float(parts[0][2][0]))
            else:
                proofs = [certify(i, np.array([place]))[0] for i in range(problem.m)]
            gap, _ = with_free_level(problem, relative_gap(problem.designs, proofs), self.coefs([place])[0])
            return gap, all(proof.unique for proof in proofs)

    def proven(self, losses: Floats, gaps: Floats, unique: np.ndarray) -> Surface:
        """Return a surface that takes over what is known already of every solution.

        Parameters
        ----------
        losses : ndarray of shape (solutions, m)
            The sum of squared residuals of every task.
        gaps : ndarray of shape (solutions,)
            Relative duality gaps.
        unique : ndarray of bool of shape (solutions,)
            Whether the solution is certainly the only one.

        Returns
        -------
        Surface
            The surface with these proofs.
        """
        return replace(self, known=Known(losses, gaps, unique))

    def __getstate__(self) -> dict[str, Any]:
        if self.problem is not None:
            _ = self.lam_max
        return super().__getstate__()
