"""What pictures and reports show of fitted models: row norms by stage, held-out errors over a grid, the gain over the lasso,
paths. Searches are read from `cv_results_` alone, so that a model from a file will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import entr
from sklearn.base import clone

from .._data.designs import Floats, Ints
from .._data.tables import names_of
from .._estimators.cross_fitted import lasso_points
from .._estimators.families import grid_words, known_families, surface_words
from .._estimators.fitted import classes_together, groups_of, model_chosen, of_survival, scoring_of
from .._paths.searched import cross_fits
from .._paths.solutions import Solutions
from .._paths.validation.information import CRITERIA
from .._paths.validation.other_folds import points_without
from .._solvers.stages import Stage
from ..compare.evidence import Evidence, clear_from, clear_tasks
from ..compare.measures import LOG_LOSS, NMSE, Measure
from ..sharing import coef_by_class

MEASURES = {"neg_nmse": "nMSE", "neg_amse": "aMSE", "neg_mse": "MSE"}


# ------------------------------------------------------------------ stages


def stages_of(model: Any) -> list[Stage]:
    """The stages of a fitted model."""
    model = model_chosen(model)
    coef_by_class(model)
    if not hasattr(model, "stages_"):
        staged = [family.name for family in known_families() if family.staged]
        raise TypeError(f"{type(model).__name__} is not fitted in stages. Take {_one_of(staged)}.")
    return list(model.stages_)


def _one_of(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def stage_norms(
    model: Any, X: Any = None, y: Any = None, *, task: Any = None, sample_weight: Any = None
) -> dict[int, Floats]:
    """{stage: (d,)}: row norms after the first and the last stage, on the scale of theta. Where the model standardises, the
    first needs the data of the fit; without them it is left out."""
    model = model_chosen(model)
    stages = stages_of(model)
    factors = _factors(model, X, y, task, sample_weight)
    if factors is not None:
        words, groups = grid_words(model), groups_of(model)
        return {stage.stage: words.row_norms(stage.coef.T, factors, groups) for stage in (stages[0], stages[-1])}
    if model.relax:
        raise ValueError(
            "the norms of a fit with standardize=True and relax=True are not kept: pass the data that it was fitted on, "
            "from_estimator(model, X, y, ...)."
        )
    return {stages[-1].stage: model.row_norms_}


def _factors(model: Any, X: Any, y: Any, task: Any, sample_weight: Any) -> Floats | None:
    """(d, m): what coefficients are multiplied by in the row norms; None where only the data can tell."""
    m, d = model.stages_[-1].coef.shape
    if X is not None:
        factors = np.asarray(clone(model)._make_problem(X, y, task, sample_weight).factors)
        return np.repeat(factors, m // factors.shape[1], axis=1)  # of a task's classes
    if model.standardize:
        return None
    given = np.ones(d) if model.penalty_factors is None else np.asarray(model.penalty_factors, dtype=np.float64)
    groups = groups_of(model)
    given = given if groups is None else (given.T * groups.scale).T
    return np.broadcast_to(given if given.ndim == 2 else given[:, None], (d, m))


# ------------------------------------------------------------------ what a search found


@dataclass(frozen=True, eq=False)
class SearchGrid:
    """What a CV model found on its grid of K strengths of the penalty x L columns.

    Attributes
    ----------
    lams : (K, L) lam (that of rows and entries together), or lam_b of Dirty; `strength` is its symbol
    values : (K, L) mean held-out error or score, or information criterion; `measure` says which
    greater_is_better : whether values are scores
    se : (K, L) standard errors over folds; None without folds
    within : (K, L) bool: at most one standard error from the best; None without folds
    chosen : (k, l)
    levels : (L,) texts: what the columns are; `level_name`: what they are values of
    """

    lams: Floats
    values: Floats
    se: Floats | None
    within: np.ndarray | None
    chosen: tuple[int, int]
    levels: tuple[str, ...]
    level_name: str
    strength: str
    measure: str
    greater_is_better: bool


def search_grid(model: Any) -> SearchGrid:
    """The grid of a fitted CV model."""
    model = model_chosen(model)
    results = search_results(model)
    words = grid_words(model)
    grid = {name: column.reshape(-1, words.width(model)) for name, column in results.items() if column.dtype != object}
    criterion = next((name for name in CRITERIA if name in grid), None)
    se = within = None
    if criterion is not None:
        values, measure, greater = grid[criterion], criterion.upper(), False
    else:
        scores, se = grid["mean_test_score"], grid["se_test_score"]
        best = np.unravel_index(int(np.nanargmax(scores)), scores.shape)
        within = scores >= scores[best] - se[best]
        name, greater = _measure(scoring_of(model))
        measure = f"held-out {name}"
        values = scores if greater else -scores
    strength, symbol = words.strengths(grid)
    levels, level_name = words.levels(grid)
    point = model.best_point_
    return SearchGrid(strength, values, se, within, point, levels, level_name, symbol, measure, greater)


def search_results(model: Any) -> dict[str, np.ndarray]:
    """cv_results_ of a fitted CV model."""
    coef_by_class(model)
    if not hasattr(model, "cv_results_"):
        with_grid = [family.search.__name__ for family in known_families() if family.grid is not None]
        raise TypeError(f"{type(model).__name__} searches no grid. Take {_one_of(with_grid)}.")
    return dict(model.cv_results_)


def _measure(scoring: Any) -> tuple[str, bool]:
    """What a score is called once its sign says error, and whether greater is better."""
    if not isinstance(scoring, str):
        return "score", True
    if not scoring.startswith("neg_"):
        return scoring, True
    return MEASURES.get(scoring, scoring[4:].replace("_", " ")), False


# ------------------------------------------------------------------ what sharing brings


@dataclass(frozen=True, eq=False)
class OverLasso:
    """Held-out errors of a CV model beside those of the best lasso of its grid, relative to knowing nothing, and weights:
    (folds, m) each. Every fold is predicted at the points that the other folds choose."""

    chosen: Floats
    lasso: Floats
    weight: Floats
    tasks: np.ndarray

    @property
    def change(self) -> Floats:
        return self.chosen - self.lasso

    def by_task(self) -> tuple[Floats, Floats]:
        """(m,) each: what the error changes, and how far a 95 % interval reaches to either side, by Student's t over folds
        and for new data. NaN where there is nothing to tell from, as for tasks that `add_task` added."""
        mean, se = over_folds(self.change, self.weight)
        folds = ((self.weight > 0) & np.isfinite(self.change)).sum(axis=0)
        return mean, np.where(folds > 1, clear_from(np.maximum(folds, 2)) * se, np.nan)

    def clear(self) -> Ints:
        """(m,): -1 for tasks that clearly gain, 1 for those that clearly lose, 0 for others: at a false discovery rate of
        5 % over all tasks."""
        change, reach = self.by_task()
        folds = max(len(self.weight), 2)
        return clear_tasks(change, reach / clear_from(folds), folds)

    def evidence(self) -> Evidence:
        """What the folds say of all tasks together."""
        known = np.where(np.isfinite(self.change), self.weight, 0.0)
        change, of_fold = np.nan_to_num(self.change) * known, known.sum(axis=1)
        means = np.divide(change.sum(axis=1), of_fold, out=np.zeros(len(known)), where=of_fold > 0)
        difference, se = (float(part[0]) for part in over_folds(means[:, None], of_fold[:, None]))
        lasso, sizes = np.nan_to_num(self.lasso) * known, known.sum(axis=0)
        return Evidence(
            difference=difference,
            se=se,
            base=float(lasso.sum() / known.sum()),
            reach=float(clear_from(int((of_fold > 0).sum())) * se),
            by_task=over_folds(self.change, self.weight)[0],
            base_by_task=np.divide(lasso.sum(axis=0), sizes, out=np.full(len(sizes), np.nan), where=sizes > 0),
            weight=sizes,
            tasks=self.tasks,
        )


def gain_over_lasso(model: Any) -> tuple[Floats, Floats]:
    """(m,) each: held-out error (`measure_of`) of a CV model less that of the best lasso of its grid, and how far a 95 %
    interval reaches to either side: see `OverLasso`."""
    return over_lasso(model).by_task()


def evidence_over_lasso(model: Any) -> Evidence:
    """What the folds of a CV model say of its errors in comparison with those of the best lasso of its grid."""
    return over_lasso(model).evidence()


def over_lasso(model: Any) -> OverLasso:
    """The errors of the rows held out, of a CV model and of the best lasso of its grid."""
    model = model_chosen(model)
    search_results(model)
    if not measures(model):
        why, way = "was chosen without folds (selection='aic', 'bic' or 'ebic')", "Fit it with selection='min' or '1se'"
        if getattr(model, "n_splits_", 0) == 1:
            why, way = "was chosen by its only fold", "Fit it with two folds at least"
        elif getattr(model, "n_splits_", 0):
            why, way = "was judged by its deviance (scoring='neg_deviance')", "Fit it with scoring='neg_nmse'"
            if of_survival(model):
                why = f"has loss={model.loss!r}, whose errors are those of whole tasks"
                way = f"See compare_models(..., loss={model.loss!r})"
        raise ValueError(
            f"this model {why}, so it has no errors of tasks on rows that had no part in the choice. {way}."
        )
    chosen, weight = _relative(model, points_without(model))
    return OverLasso(chosen, _relative(model, points_without(model, _lassos(model)))[0], weight, model.tasks_)


def _relative(model: Any, points: Ints) -> tuple[Floats, Floats]:
    """(folds, m) each: errors at a point for each fold, relative to knowing nothing, and weights."""
    loss, weight = held_out(model, points)
    unit = knowing_nothing(model)
    return loss / np.where(unit > 0, unit, np.nan), weight


def is_lasso(model: Any) -> bool:
    """Whether the point that a CV model chose is one at which it is the lasso."""
    try:
        return int(model.best_index_) in _lassos(model)
    except ValueError:
        return False


def measure_of(model: Any) -> Measure:
    """What the held-out errors of a model are."""
    return LOG_LOSS if hasattr(model, "classes_") else NMSE


def measures(model: Any) -> bool:
    """Whether a CV model has errors of tasks held out, at points that they had no part in choosing."""
    return cross_fits(model) and _test_loss(model) in model.cv_results_


def _test_loss(model: Any) -> str:
    return "test_log_loss" if hasattr(model, "classes_") else "test_mse"


def knowing_nothing(model: Any) -> Floats:
    """(m,): the loss of predicting a task's mean, or its class shares (of more than two classes: each against the rest, all
    together)."""
    if not hasattr(model, "classes_"):
        return np.asarray(model.target_sd_**2)
    share = np.reshape(model.target_mean_, (len(model.tasks_), -1))
    if classes_together(model):
        return np.asarray(entr(share).sum(axis=1))
    return np.asarray((entr(share) + entr(1.0 - share)).sum(axis=1))


def held_out(model: Any, points: Ints, column: str | None = None) -> tuple[Floats, Floats]:
    """(folds, m) each: mean loss of the rows held out at a point of a CV model's grid for each fold, and its weight; of more
    than two classes each against the rest, all together. Tasks that `add_task` added had none held out: NaN, of weight 0.
    `column`: of the losses in `cv_results_`, if not the squared errors or log-losses."""
    loss, weight = (
        np.array([model.cv_results_[name][p][f] for f, p in enumerate(points)])
        for name in (column or _test_loss(model), "test_weight")
    )
    classes = len(getattr(model, "classes_", ()))
    if classes > 2:
        loss, weight = loss.reshape(len(loss), -1, classes).sum(axis=2), weight[:, ::classes]
    beyond = ((0, 0), (0, len(model.tasks_) - loss.shape[1]))
    return np.pad(loss, beyond, constant_values=np.nan), np.pad(weight, beyond)


def held_out_errors(model: Any, points: Ints) -> tuple[Floats, float]:
    """Errors relative to knowing nothing, each fold at its point: (m,) of the tasks, and their mean by size."""
    error, weight = _relative(model, points)
    weight = np.where(np.isfinite(error), weight, 0.0)
    total, sums = weight.sum(axis=0), (np.nan_to_num(error) * weight).sum(axis=0)
    of_task = np.divide(sums, total, out=np.full(len(total), np.nan), where=total > 0)
    return of_task, float(sums.sum() / total.sum()) if total.any() else float("nan")


def _lassos(model: Any) -> Ints:
    """The points that are separate lassos; an error where there are none, or no others, so that nothing can be compared."""
    found = lasso_points(model)
    if found.size in (0, len(model.cv_results_["mean_test_score"])):
        what = "nothing but lassos" if found.size else "no lasso in it (theta = inf; of Dirty: a ratio of 1 / m)"
        raise ValueError(
            f"the grid of this {type(model).__name__} has {what}, so it cannot tell what sharing brings. Use "
            "GainDisplay.from_comparison(compare_models(...)), or an MSMTFLCV whose thetas include inf."
        )
    return found


def over_folds(change: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """(m,): means over folds (the first axis), weighted, and their standard errors for new data: other rows to predict and
    to train on (Nadeau and Bengio, Machine Learning 52, 2003)."""
    weight = np.where(np.isfinite(change), weight, 0.0)
    change = np.nan_to_num(change)
    total, folds = weight.sum(axis=0), (weight > 0).sum(axis=0)
    total = np.where(total > 0, total, np.nan)
    mean = (change * weight).sum(axis=0) / total
    spread = np.sqrt(((weight * (change - mean)) ** 2).sum(axis=0)) / total
    several = np.where(folds > 1, folds - 1.0, np.nan)
    return mean, np.asarray(np.sqrt(folds / several) * np.sqrt(1.0 + folds / several) * spread)


# ------------------------------------------------------------------ paths


@dataclass(frozen=True, eq=False)
class LamPath:
    """One column of a grid, lam rising.

    Attributes
    ----------
    lams : (K,); `strength` is its symbol
    values : (K, d) row norms, or coefficients of one task; `measure` says which
    features : (d,) names
    freed : (K, d) bool: the cap has freed the feature; None without a cap
    theta : (K,) what row norms are compared with; None where there is nothing to compare
    chosen : the lam that was chosen, if one was
    column : which column of the grid, in words
    """

    lams: Floats
    values: Floats
    features: np.ndarray
    freed: np.ndarray | None
    theta: Floats | None
    chosen: float | None
    column: str
    strength: str
    measure: str

    def strongest(self, most: int) -> Ints:
        """The features that are largest at the lam chosen; if there is none, those that leave 0 first."""
        used = self.values != 0.0
        if self.chosen is None:
            order = np.lexsort((-np.abs(self.values).max(axis=0, initial=0.0), -used.sum(axis=0)))
            return order[used[:, order].any(axis=0)][:most]
        k = int(np.argmin(np.abs(self.lams - self.chosen)))
        order = np.argsort(-np.abs(self.values[k]), kind="stable")
        return order[used[k, order]][:most]


def lam_path(surface: Any, l: int, task: Any = None, chosen: int | None = None) -> LamPath:
    """Column l of a surface: row norms, or the coefficients of one task. `chosen` is a place k among its lams.

    Row norms are those of the problem solved; a surface that was pickled has lost its data, and has norms of the
    coefficients in the data's units."""
    if not isinstance(surface, Solutions):
        raise TypeError(f"give what regularization_surface returns, not {type(surface).__name__}.")
    words = surface_words(surface)
    strengths, symbol = words.strengths(surface.parameters)
    L = strengths.shape[1]
    if not -L <= l < L:
        raise ValueError(f"column={l} is out of range: the surface has {L} columns.")
    solved = np.flatnonzero(surface.reached[:, l]).tolist()  # a search may have ended before the column does
    problem, lams = surface.problem, strengths[solved, l]
    theta = freed = None
    staged: Any = surface
    if surface.caps_rows and np.isfinite(staged.thetas[solved, l]).any():
        freed = np.zeros((len(solved), len(surface.features)), dtype=bool)
        for place, k in enumerate(solved):
            freed[place, staged.free_rows(k, l)] = True
    coefs = [surface.coef(k, l) for k in solved]
    if task is None:
        factors = np.ones((len(surface.features), len(surface.tasks))) if problem is None else problem.factors
        groups = None if problem is None else problem.groups
        values = np.array([words.row_norms(W.T, factors, groups) for W in coefs])
        measure = "norm of the feature" if problem is not None else "norm of the feature, in the data's units"
        if freed is not None and problem is not None:
            theta = staged.thetas[solved, l]
    else:
        i = _place(surface.tasks, task)
        values, measure = np.array([W[i] for W in coefs]), "coefficient, in the data's units"
    order = np.argsort(lams)
    return LamPath(
        lams[order],
        values[order],
        surface.features,
        None if freed is None else freed[order],
        None if theta is None else theta[order],
        None if chosen is None else float(strengths[chosen, l]),
        words.column(surface, l),
        symbol,
        measure,
    )


def _place(labels: np.ndarray, label: Any) -> int:
    found = [i for i, known in enumerate(labels.tolist()) if known == label]
    if not found:
        raise ValueError(f"no task {label!r}: {names_of(labels)}.")
    return found[0]


def part_of(some: int, every: int) -> str:
    """How many of all features are shown, in words."""
    return f"{every} feature{'s' * (every != 1)}" if some == every else f"{some} of {every} features"
