"""Whether Theorem 8 applies to a fitted model, by how much, and what it promises then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from math import ceil, log, sqrt
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..._data.designs import Floats
from ..._estimators.families import is_regression_of
from ..._estimators.fitted import check_without_ridge
from ..._estimators.fitted import loss_of as name_of_loss
from ..._objective.penalties import ConcaveRows
from ..._objective.problem import Problem
from ..._objective.proofs.certificates import Certificate, loss_of
from ..._runtime.checks import check_count, check_positive
from ..._runtime.drawing import BLUE, DARK, GREEN, ORANGE, pyplot, quiet
from ..._runtime.progress import one_blas_thread
from ...metrics import parameter_error
from ..spectra import MAX_SUBSETS, Spectrum, as_table, as_text, exactly, extreme, spectra_of
from .bounds import ErrorBound, check_eta, error_bound, noise_square
from .columns import on_columns
from .lemmas import Fit, lemmas_of
from .statements import SPARE, Condition, LemmaCheck, verdict_of

TRIES = 8  # values of s that are looked at


@dataclass(frozen=True, eq=False)
class TheoryCheck:
    """Whether Theorem 8 applies to a fit, and what it says then. Print it for the answer in words.

    Attributes
    ----------
    conditions : tuple of Condition
        The four conditions as proven.
    literal_conditions : tuple of Condition
        The four conditions as printed.
    verdict : str
        "holds", "fails" or "undecided" (the sparse eigenvalues are not known well enough).
    literal_verdict : str
        The verdict on the conditions as printed.
    bound : ErrorBound
        The bound at the stages of the fit.
    lemmas : tuple of LemmaCheck
        Lemmas 13 to 16 and 19 to 21 and the equations of their proofs, with m lam for lam (16 over lam^2),
        if the true W is known. Each says in `words` what is compared.
    errors : ndarray of shape (stages,) or None
        ||W^(l) - W||_2,1 on the scale of the problem solved, if the true W is known.
    rows_in_play : ndarray of shape (stages,) or None
        Number of features in play at each stage, true or un-penalised, if the true W is known.
    setting : dict
        The values of m, n (smallest and largest), d, lam, theta, rbar, s, sigma and eta.
    plug_in : tuple of str
        Which of "rbar" (with the coefficients) and "sigma" were estimated for want of the truth.
    impossible : str
        Why no design with so few samples can satisfy the condition on columns; "" if one can.
    converged : bool
        Whether the fit has converged, so that later stages are the same.
    certificate : Certificate
        The certificate of the fit (Theorems 1 and 3).

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
    >>> check = check_conditions(model, X, Y, coef_true=coef, sigma=0.1)
    >>> [condition.name for condition in check.conditions if condition.verdict == "holds"]
    ['lam', 'theta', 'rows', 'columns']
    """

    conditions: tuple[Condition, ...]
    literal_conditions: tuple[Condition, ...]
    bound: ErrorBound
    lemmas: tuple[LemmaCheck, ...]
    setting: dict[str, Any]
    plug_in: tuple[str, ...]
    impossible: str
    converged: bool
    certificate: Certificate = field(repr=False)

    @property
    def verdict(self) -> str:
        """The verdict on the conditions as proven: "holds", "fails" or "undecided"."""
        return verdict_of(self.conditions)

    @property
    def literal_verdict(self) -> str:
        """The verdict on the conditions as printed: "holds", "fails" or "undecided"."""
        return verdict_of(self.literal_conditions)

    @property
    def errors(self) -> Floats | None:
        """The error ||W^(l) - W||_2,1 at every stage, (stages,); None if the true W is not known."""
        return np.array([one.left for one in self.lemmas if one.lemma == "15a"]) if self.lemmas else None

    @property
    def rows_in_play(self) -> np.ndarray | None:
        """Number of features in play, true or un-penalised, (stages,); None if the true W is not known."""
        return np.array([one.left for one in self.lemmas if one.lemma == "15 rows"]) if self.lemmas else None

    def __str__(self) -> str:
        both = zip(self.conditions, self.literal_conditions, strict=True)
        shown = [(a.words, a.needed, a.have, a.ratio, a.verdict, b.ratio, b.verdict) for a, b in both]
        said = {"holds": "hold", "fails": "fail", "undecided": "are undecided"}[self.literal_verdict]
        mark = dict.fromkeys(self.plug_in, " (plug-in)")
        setting = [f"{name} = {as_text(value)}{mark.get(name, '')}" for name, value in self.setting.items()]
        stages = self._stages()
        parts = [
            f"{self._headline()}\nas printed in the paper, with lam for m lam, the conditions {said}\n{', '.join(setting)}"
            "\nnu(k) = the largest rho+_i(k) / n_i stands for the paper's rho+(k) / n",
            as_table(("condition", "needed", "have", "have/needed", "verdict", "as printed", "verdict"), shown),
            as_table(tuple(stages), list(zip(*stages.values(), strict=True))),
        ]
        if self.converged and self.verdict == "holds":
            parts[-1] += (
                f"\nlater stages are the same, so that the sharpened bound of the last is {self.bound.limit:.4g}"
            )
        if self.lemmas:
            rows = [[*astuple(one), one.holds] for one in self.lemmas]
            parts.append(as_table(("statement", "stage", "left", "right", "premises", "left <= right"), rows))
            parts.append(
                "\n".join(f"{name}: {words}" for name, words in {x.lemma: x.words for x in self.lemmas}.items())
            )
        return "\n\n".join([*parts, str(self.certificate)])

    def _headline(self) -> str:
        guess = f" (plug-in: {' and '.join(self.plug_in)} estimated)" if self.plug_in else ""
        if self.impossible:
            return f"Theorem 8 does not apply{guess}: {self.impossible}: no design can satisfy the eigenvalue condition"
        if self.verdict == "holds":
            end = f"all conditions hold, and the bounds do with probability at least {self.bound.probability:.4g}"
            return f"Theorem 8 applies{guess}: {end}"
        missed = [one for one in self.conditions if one.verdict == self.verdict]
        words = ", ".join(f"{one.name} ({one.ratio} of what is needed)" for one in missed)
        if self.verdict == "fails":
            return f"Theorem 8 does not apply{guess}: {words}"
        return f"Theorem 8 is undecided{guess}: {words}; a larger max_subsets may decide"

    def _stages(self) -> dict[str, Any]:
        stage, known = np.arange(1, self.bound.stages + 1), {"error": self.errors, "rows_in_play": self.rows_in_play}
        bounds = {"stage": stage, "bound": self.bound.corrected, "sharpened": self.bound.sharpened}
        bounds["as_printed"] = self.bound.literal
        return bounds | known if self.lemmas else bounds

    def to_frame(self, table: str = "conditions") -> Any:
        """Return a pandas table of one part of the answer.

        Parameters
        ----------
        table : {"conditions", "stages", "lemmas"}, default="conditions"
            The part: one line per form and condition, per stage, or per lemma and stage.

        Returns
        -------
        DataFrame
            The table.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas (pip install pandas); the attributes hold the same.") from error
        if table == "stages":
            return pd.DataFrame(self._stages())
        if table == "lemmas":
            return pd.DataFrame([asdict(one) | {"holds": one.holds, "words": one.words} for one in self.lemmas])
        if table != "conditions":
            raise ValueError(f"table must be 'conditions', 'stages' or 'lemmas', got {table!r}.")
        forms = (("corrected", self.conditions), ("literal", self.literal_conditions))
        return pd.DataFrame([{"form": form} | one.as_row() for form, conditions in forms for one in conditions])

    def plot(self, ax: Any = None) -> Any:
        """Draw the bounds, as proven, sharpened and as printed, and the measured error over the stages.

        Ten stages at least are shown where the fit has converged: later stages are the same.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        matplotlib Axes
            The axes.
        """
        if ax is None:
            _, ax = pyplot().subplots(figsize=(6, 4), layout="constrained")
        more = max(10 - self.bound.stages, 0) if self.converged else 0
        bound = replace(self.bound, stages=self.bound.stages + more)
        lines = [("bound", bound.corrected, BLUE, "o-"), ("sharpened", bound.sharpened, GREEN, "D-")]
        lines.append(("as printed", bound.literal, ORANGE, "s--"))
        if self.errors is not None:
            lines.append(("error", np.pad(self.errors, (0, more), mode="edge"), DARK, "^-"))
        stage = np.arange(1, bound.stages + 1)
        for name, values, colour, style in lines:
            if np.isfinite(values).all():
                ax.plot(stage, values, style, color=colour, label=name)
        ax.set_yscale("log")
        ax.set_xticks(stage[:: 1 + len(stage) // 20])
        ax.set_xlabel("stage")
        ax.set_ylabel("parameter error (l2,1)")
        ax.set_title(self._headline().split(":")[0], loc="left")
        if ax.lines:
            ax.legend(frameon=False)
        return quiet(ax)


def check_conditions(
    model: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    coef_true: Any = None,
    sigma: float | None = None,
    eta: float = 0.05,
    s: int | None = None,
    max_subsets: int = MAX_SUBSETS,
) -> TheoryCheck:
    """Check whether the conditions of Theorem 8 hold for a fitted model, and what error it promises.

    Parameters
    ----------
    model : MSMTFL or MSMTFLCV
        A fitted model, without sample weights, penalty factors, positive=True or a starting point.
    X : DataFrame, ndarray or sparse matrix of shape (N, d)
        The samples of the fit.
    y : array-like of shape (N,) or (N, m)
        The targets of the fit.
    task : array-like of shape (N,), optional
        The task labels of the fit, if it was given any.
    coef_true : array-like of shape (m, d), optional
        True coefficients in the data's units. By default the model's own are plugged in: the answer is then
        about a truth that looks like the model.
    sigma : float, optional
        Parameter of the noise, E exp(t noise) <= exp(sigma^2 t^2 / 2). By default the standard deviation of
        the residuals.
    eta : float, default=0.05
        The probability, between 0 and 1, with which the statements may fail.
    s : int, optional
        The number s of the theorem, at least rbar. By default the first of a few that meets the condition
        on columns, or else comes nearest.
    max_subsets : int, default=200000
        How many subsets of columns may be looked at, for each number of columns. Where
        there are more, a number is not exact: one end of its interval is what a good subset
        attains, the other is a bound.

    Returns
    -------
    TheoryCheck
        The conditions, by how much they hold or fail, and the bound.

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
    >>> result = check_conditions(model, X, Y, coef_true=coef, sigma=0.1)
    >>> result.verdict, bool((result.errors <= result.bound.corrected).all())
    ('holds', True)
    """
    if not is_regression_of(model, "msmtfl"):
        raise TypeError(f"Theorem 8 is about MSMTFL and MSMTFLCV: give a fitted one, not {type(model).__name__}.")
    check_is_fitted(model, "stages_")
    check_count("max_subsets", max_subsets)
    check_eta(eta)
    with one_blas_thread():
        problem = _problem_of(model, X, y, task)
        plug_in = tuple(name for name, given in (("rbar", coef_true), ("sigma", sigma)) if given is None)
        W, sigma = _truth(problem, model.stages_[-1].coef, coef_true, sigma)
        norms, lam, theta = np.abs(W).sum(axis=0), float(model.lam_), float(model.theta_)
        r, m, d = int(np.count_nonzero(norms)), problem.m, problem.d
        if r == 0:
            raise ValueError(
                "all coefficients are zero: Theorem 8 is about rbar >= 1 rows. Lower lam or give coef_true."
            )
        spectra = spectra_of(problem.designs, max_subsets, problem.units)
        s, columns = _choose_s(spectra, r, s)
        minus = extreme(min, [one.lower(2 * r + s) for one in spectra])
        nu = {k: max(one.upper(k).high / one.n for one in spectra) for k in (1, r)}
        noise = sigma**2 * nu[1] * 2 * log(2 * d * m / eta), sigma**2 * nu[r] * noise_square(m, r, eta)
        smallest = exactly(float(norms[norms > 0].min()))

        def conditions(name: str, gap: str, Lam: float) -> tuple[Condition, ...]:
            limit, room = exactly(12 * sqrt(noise[0])), exactly(11 * m * Lam).over(minus)
            return (
                Condition("lam", f"{name} >= 12 sigma sqrt(2 nu(1) ln(2 d m / eta))", limit, exactly(Lam)),
                Condition("theta", f"theta >= 11 {gap} / rho-(2 rbar + s)", room, exactly(theta)),
                Condition("rows", "every row that matters >= 2 theta", exactly(2 * theta), smallest),
                columns,
            )

        proven, literal = conditions("m lam", "m^2 lam", m * lam), conditions("lam", "m lam", lam)
        known = {"nu": nu[r], "rho_minus": minus.low, "sigma": sigma}
        bound = error_bound(lam, m=m, rbar=r, eta=eta, stages=len(model.stages_), **known)
        lemmas: tuple[LemmaCheck, ...] = ()
        if coef_true is not None:
            of_tasks = noise_square(1, r, eta) * sigma**2 * np.array([one.upper(r).high / one.n for one in spectra])
            right = sqrt(noise[0]), (noise[1], of_tasks)
            fit = Fit(problem, spectra, W, proven, m * lam, theta, s, minus.low, *right)
            lemmas = lemmas_of(fit, model.stages_)
    n = sorted({int(design.n) for design in problem.designs})
    setting = {"m": m, "n": n[0] if len(n) == 1 else f"{n[0]} to {n[-1]}", "d": d, "lam": lam, "theta": theta}
    setting |= {"rbar": r, "s": s, "sigma": sigma, "eta": float(eta)}
    end = _impossible(problem, r), bool(model.converged_), model.certificate_
    return TheoryCheck(proven, literal, bound, lemmas, setting, plug_in, *end)


def _truth(problem: Problem, last: Floats, coef_true: Any, sigma: float | None) -> tuple[Floats, float]:
    """The true coefficients (m, d) on the scale of the problem solved, and sigma, or what is plugged in for them."""
    if coef_true is not None:
        parameter_error(coef_true, last)  # says what is wrong with it
    W = last if coef_true is None else np.atleast_2d(np.asarray(coef_true, dtype=np.float64))
    if sigma is not None:
        check_positive("sigma", sigma)
        return W * problem.units, float(sigma)
    rows = sum(len(task.y) for task in problem.data.tasks)
    fitted = sum(design.rows.centre for design in problem.designs)
    fitted += int(np.count_nonzero(last)) if coef_true is None else 0
    if rows <= fitted:
        raise ValueError(f"sigma cannot be estimated: {rows} rows, {fitted} coefficients and intercepts. Give sigma=.")
    residual = sum(design.loss(w) for design, w in zip(problem.designs, W, strict=True))
    return W * problem.units, sqrt(residual / (rows - fitted))


def _problem_of(model: Any, X: Any, y: Any, task: Any) -> Problem:
    """The problem that the model solved, if the theorem is about it."""
    if name_of_loss(model) != "squared":
        raise ValueError(f"Theorem 8 is about squared loss; the model has loss={model.loss!r}.")
    if getattr(model, "lam_entry_", 0.0) or getattr(model, "penalty", "capped") != "capped":
        raise ValueError(
            "Theorem 8 is about the paper's model: fit with lam_entry=0 (entry_shares=0) and penalty='capped'."
        )
    check_without_ridge(model, "the paper's theory")
    if getattr(model, "uses_offset_", False):
        raise ValueError(
            "Theorem 8 is about models without an offset: fit to y - offset, which gives the same coefficients."
        )
    problem = clone(model)._make_problem(X, y, task, None)
    if problem.limit is not False or problem.groups is not None or (problem.given_factors != 1.0).any():
        raise ValueError(
            "Theorem 8 is not about positive=True, bounds, groups of features or penalty_factors other than 1: fit without "
            "them."
        )
    if model.stages_[0].free_rows.size:
        raise ValueError("Theorem 8 is about stages that start at 0: fit without coef_init and warm_start.")
    same = np.array_equal(model.tasks_, problem.data.labels) and np.array_equal(model.features_, problem.data.features)
    if same:
        W, penalty = model.stages_[-1].coef, ConcaveRows(model.lam_, model.theta_, problem.factors)
        value, scale = loss_of(problem.designs, W) + penalty.value(W.T), loss_of(problem.designs, np.zeros_like(W))
        same = abs(value - model.objective_) <= 1e-6 * abs(model.objective_) + 1e-12 * scale
    if not same:
        raise ValueError(
            "X, y and task are not the data of the fit, or it had sample weights, which Theorem 8 is not about. Pass the "
            "data as to fit; fit without weights."
        )
    return problem


def _impossible(problem: Problem, r: int) -> str:
    k, design = min(4 * r, problem.d), min(problem.designs, key=lambda one: one.order)
    if k <= design.order:
        return ""
    rows = f"n - 1 = {design.n - 1:g} (centred)" if design.rows.centre else f"n = {design.n:g}"
    return f"{'4 rbar' if k == 4 * r else 'd'} = {k} > {rows}"


def _choose_s(spectra: Sequence[Spectrum], r: int, s: int | None) -> tuple[int, Condition]:
    """The s asked for, or the first of a few that meets the condition on columns, or the one nearest to it."""
    if s is not None:
        check_count("s", s)
        if s < r:
            raise ValueError(f"s={s} must be at least rbar = {r}, the number of rows that matter.")
        return s, on_columns(spectra, r, s)
    d, order = spectra[0].d, min(one.order for one in spectra)
    top = (order - 2 * r) // 2
    if order >= d:  # with independent columns all k >= d are alike, so that s = top meets the condition
        spread = max(one.upper(d).over(one.lower(d)).high for one in spectra)
        top = ceil(2 * r * (spread - 1)) if spread < 1 / SPARE else d // 2
    tried: dict[int, Condition] = {}
    least = 0.0  # what is needed grows with s
    for one in np.unique(np.rint(np.geomspace(r, max(r, top), TRIES))).astype(int).tolist():
        if least <= 1 + one / (2 * r) or not tried:
            tried[one] = on_columns(spectra, r, one)
            least = tried[one].needed.low
            if tried[one].verdict == "holds":
                return one, tried[one]
    return max(tried.items(), key=lambda item: (item[1].verdict == "undecided", item[1].ratio.high))
