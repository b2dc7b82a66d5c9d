"""Pictures of fitted models and results, as scikit-learn's Displays.

A Display holds the data of one picture. `from_estimator` (or `from_surface`, `from_stability`, `from_comparison`) collects
and draws them, in `ax` if given; `plot` draws them once more elsewhere. What was drawn is in `figure_`, `ax_` (`axes_` where
there are several), `image_` and the like. matplotlib is imported when something is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._data.designs import Floats, Ints
from .._data.tables import choices_of
from .._estimators.base import model_chosen
from .._runtime.checks import check_count
from .._runtime.drawing import (
    BLUE,
    DARK,
    DIVERGING,
    GREEN,
    GREY,
    NAMED,
    ORANGE,
    PURPLE,
    SEQUENTIAL,
    SKY,
    YELLOW,
    apart,
    axes_for,
    beside,
    differences,
    heat_map,
    log_edges,
    name_ticks,
    panels,
    quiet,
    runs,
    shown,
)
from ..compare.comparison import Comparison
from ..compare.scoring import NMSE
from ..inference import Stability
from ..sharing import class_place, coef_by_class, map_of, size_over_classes, task_similarity
from .views import LamPath, SearchGrid, gain_over_lasso, lam_path, measure_of, search_grid, stage_norms, stages_of

MAX_FEATURES = 40
USERS = {
    "freed": "freed",
    "all": "all tasks",
    "some": "some tasks",
    "one": "one task",
    "unused": "unused",
    "constant": "constant",
}
OVER_CLASSES = "sum of |coefficients| over classes"
PATH_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW)  # of the lines of a path that are named
WEAKER = "(weaker penalty to the right)"


# ------------------------------------------------------------------ features and tasks


@dataclass
class CoefficientMapDisplay:
    """A map of the coefficients of features (down) in tasks (across), shared features first.

    What is exactly 0 is grey. A cross marks where a column is constant within the task, so that nothing
    could be learned there.

    Parameters
    ----------
    coef : ndarray of shape (m, p)
        Coefficients of the features shown; with more than two classes those of one, or sums of sizes over
        all.
    features : ndarray of shape (p,)
        Names of the features shown.
    tasks : ndarray of shape (m,)
        Labels of the tasks.
    groups : ndarray of shape (p,)
        Who uses the feature: "freed" (by the cap), or "all", "some", "one", "unused", "constant".
    n_used : int
        Number of features that the model uses.
    n_features : int
        Number of features that the model has.
    unit : str, default="coefficient, in the data's units"
        What the coefficients are measured in.
    signed : bool, default=True
        Whether they have signs.
    constant : ndarray of bool of shape (m, p), optional
        Where the column does not vary within the task; None if that is not known.
    of_class : str, default=""
        The class that the coefficients belong to, in words; "" if there is but one set of them.
    n_constant : int, default=0
        Number of features that are constant within every task, so that they could not be learned.

    Attributes
    ----------
    image_ : matplotlib image
        What was drawn.
    crosses_ : matplotlib artist
        The crosses, if there are any.
    colorbar_ : matplotlib Colorbar
        The colour bar.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure  # here, so that no window opens; without ax= there is a new figure
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.datasets import make_multitask
    >>> from msmtfl.plots import CoefficientMapDisplay
    >>> X, y, task, _ = make_multitask(m=4, n=30, d=50, random_state=1)
    >>> model = MSMTFL().fit(X, y, task=task)
    >>> display = CoefficientMapDisplay.from_estimator(model, max_features=2, ax=Figure().subplots())
    >>> print(display.ax_.get_title(loc="left"))
    Coefficients of 2 of 50 features
    the strongest of 3 that are used
    """

    coef: Floats
    features: np.ndarray
    tasks: np.ndarray
    groups: np.ndarray
    n_used: int
    n_features: int
    unit: str = "coefficient, in the data's units"
    signed: bool = True
    constant: np.ndarray | None = None
    of_class: str = ""
    n_constant: int = 0

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        max_features: int = MAX_FEATURES,
        scale: str | None = None,
        class_of_interest: Any = None,
        ax: Any = None,
    ) -> CoefficientMapDisplay:
        """Draw the coefficients of a fitted model.

        Parameters
        ----------
        model : estimator
            A fitted model of this package. Of more than `max_features` features that it uses those with the
            largest norms over all tasks are shown.
        max_features : int, default=40
            The largest number of features to show.
        scale : {"row"}, optional
            "row" divides by the largest |coefficient| of each feature, so that features in different units can
            be compared.
        class_of_interest : str or number, optional
            One of the classes of a classifier with more than two: its coefficients are shown. Without it the
            sums of |coefficients| over the classes are shown, which have no sign.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        CoefficientMapDisplay
            The display.
        """
        if scale not in (None, "row"):
            raise ValueError(f"scale must be None or 'row', got {scale!r}.")
        model = model_chosen(model)
        found, every, of_class = map_of(model, class_of_interest), coef_by_class(model), ""
        signed = every.shape[1] == 1 or class_of_interest is not None
        if every.shape[1] == 1:
            W = every[:, 0]
        elif signed:
            W, of_class = every[:, class_place(model, class_of_interest)], f"for class {class_of_interest}"
        else:
            W, of_class = size_over_classes(every), f"over {every.shape[1]} classes"
        used = found.n_tasks > 0
        chosen = _strongest(found.row_norms, used, max_features)
        order = found.order[np.isin(found.order, chosen)]
        W, groups = W[:, order], found.classes[order]
        if found.freed is not None:
            groups[found.freed[order]] = "freed"
        unit = cls.unit if signed else OVER_CLASSES
        if scale == "row":
            top = np.abs(W).max(axis=0)
            W = W / np.where(top > 0, top, 1.0)
            unit = f"{'coefficient' if signed else OVER_CLASSES} / largest of its feature"
        names, counts = found.features[order], (int(used.sum()), len(used))
        constant = None if found.learnable is None else ~found.learnable[:, order] & (W == 0.0)
        never = found.counts["constant"]
        return cls(W, names, found.tasks, groups, *counts, unit, signed, constant, of_class, never).plot(ax)

    def plot(self, ax: Any = None) -> CoefficientMapDisplay:
        """Draw the map.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        CoefficientMapDisplay
            The display itself.
        """
        ax = axes_for(ax, *_map_size(self.features, self.tasks))
        top = float(np.abs(self.coef).max(initial=0.0)) or 1.0
        cells = np.where(self.coef == 0.0, np.nan, self.coef).T
        free = self.groups == "freed"
        names = [f"● {name}" if freed else name for name, freed in zip(self.features, free, strict=True)]
        colours, low = (DIVERGING, -top) if self.signed else (SEQUENTIAL, 0.0)
        self.image_ = heat_map(ax, cells, names, self.tasks, colours, low, top)
        column, row = np.nonzero(np.zeros_like(self.coef) if self.constant is None else self.constant)
        grey = "grey: exactly 0; ×: constant in the task" if column.size else "grey: exactly 0"
        self.colorbar_ = _colour_bar(ax, self.image_, f"{self.unit}\n({grey})")
        if column.size:
            size = 14 if max(self.coef.shape) <= NAMED else 3
            self.crosses_ = ax.scatter(column + 0.5, row + 0.5, s=size, c=GREY, marker="x", linewidths=0.7)
        for group in USERS:  # of each there is one stretch
            for begin, end in runs(self.groups == group):
                beside(ax, (begin + end) / 2, USERS[group], fontsize=7.5, color=DARK)
                if begin:
                    ax.axhline(begin, color=DARK, lw=0.8)
        ax.set_ylabel("feature (● freed by the cap)" if free.any() else "feature")
        some = len(self.features)
        rest = f"the strongest of {self.n_used} that are used"
        if some >= self.n_used:
            constant = f", {self.n_constant} of them because they are constant" if self.n_constant else ""
            rest = f"the others are unused{constant}"
        note = f"\n{rest}" if some < self.n_features else ""
        what = f"Coefficients of {_part(some, self.n_features)} {shown(self.of_class)}".rstrip()
        ax.set_title(f"{what}{note}", loc="left", fontsize="medium")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class StabilityMapDisplay:
    """A map of how often each feature (down) was selected in each task (across).

    Entries from the threshold on have a dot.

    Parameters
    ----------
    frequency : ndarray of shape (m, p)
        Frequencies of the features shown.
    features : ndarray of shape (p,)
        Names of the features shown.
    tasks : ndarray of shape (m,)
        Labels of the tasks.
    threshold : float
        Frequency from which an entry counts as selected.
    n_features : int
        Number of all features.
    n_samples : int
        Number of half-samples.

    Attributes
    ----------
    image_ : matplotlib image
        What was drawn.
    points_ : matplotlib artist
        The dots.
    colorbar_ : matplotlib Colorbar
        The colour bar.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure  # here, so that no window opens; without ax= there is a new figure
    >>> from msmtfl import LassoMTL, stability_selection
    >>> from msmtfl.datasets import make_multitask
    >>> from msmtfl.plots import StabilityMapDisplay
    >>> X, y, task, _ = make_multitask(m=4, n=30, d=50, random_state=1)
    >>> stability = stability_selection(LassoMTL(), X, y, task=task, n_pairs=5)
    >>> StabilityMapDisplay.from_stability(stability, max_features=10, ax=Figure().subplots()).frequency.shape
    (4, 10)
    """

    frequency: Floats
    features: np.ndarray
    tasks: np.ndarray
    threshold: float
    n_features: int
    n_samples: int

    @classmethod
    def from_stability(
        cls, stability: Stability, *, max_features: int = MAX_FEATURES, ax: Any = None
    ) -> StabilityMapDisplay:
        """Draw what :func:`stability_selection` returns.

        Parameters
        ----------
        stability : Stability
            The frequencies. Of more than `max_features` features those selected most often over all tasks are
            shown.
        max_features : int, default=40
            The largest number of features to show.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        StabilityMapDisplay
            The display.
        """
        if not isinstance(stability, Stability):
            raise TypeError(f"give what stability_selection returns, not {type(stability).__name__}.")
        often = stability.frequency.mean(axis=0)
        order = _strongest(often, often > 0, max_features)
        cells, names = stability.frequency[:, order], stability.features[order]
        count = 2 * stability.n_pairs
        return cls(cells, names, stability.tasks, stability.threshold, len(often), count).plot(ax)

    def plot(self, ax: Any = None) -> StabilityMapDisplay:
        """Draw the map.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        StabilityMapDisplay
            The display itself.
        """
        ax = axes_for(ax, *_map_size(self.features, self.tasks))
        self.image_ = heat_map(ax, self.frequency.T, self.features, self.tasks, SEQUENTIAL, 0.0, 1.0)
        column, row = np.nonzero(self.frequency >= self.threshold)
        size = 18 if max(self.frequency.shape) <= NAMED else 3
        self.points_ = ax.scatter(column + 0.5, row + 0.5, s=size, c=YELLOW, edgecolors=DARK, linewidths=0.4)
        label = f"share of {self.n_samples} half-samples\n(dot: at least {self.threshold:g})"
        self.colorbar_ = _colour_bar(ax, self.image_, label)
        self.colorbar_.ax.axhline(self.threshold, color=YELLOW, lw=2)
        ax.set_ylabel("feature")
        ax.set_title(f"Selection of {_part(len(self.features), self.n_features)}", loc="left")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class TaskSimilarityDisplay:
    """Which tasks use the same features: Jaccard similarity of their supports, similar tasks side by side.

    Parameters
    ----------
    similarity : ndarray of shape (m, m)
        The similarities.
    tasks : ndarray of shape (m,)
        Labels of the tasks, in the order of `similarity`.

    Attributes
    ----------
    image_ : matplotlib image
        What was drawn.
    colorbar_ : matplotlib Colorbar
        The colour bar.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure  # here, so that no window opens; without ax= there is a new figure
    >>> from msmtfl import LassoMTL
    >>> from msmtfl.datasets import make_multitask
    >>> from msmtfl.plots import TaskSimilarityDisplay
    >>> X, y, task, _ = make_multitask(m=4, n=30, d=50, random_state=1)
    >>> model = LassoMTL().fit(X, y, task=task)
    >>> TaskSimilarityDisplay.from_estimator(model, ax=Figure().subplots()).similarity.diagonal()
    array([1., 1., 1., 1.])
    """

    similarity: Floats
    tasks: np.ndarray

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> TaskSimilarityDisplay:
        """Draw the tasks of a fitted model, ordered by hierarchical clustering.

        See :func:`msmtfl.sharing.task_similarity` for the numbers.

        Parameters
        ----------
        model : estimator
            A fitted model of this package.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        TaskSimilarityDisplay
            The display.
        """
        found = task_similarity(model)
        return cls(found.similarity[np.ix_(found.order, found.order)], found.tasks[found.order]).plot(ax)

    def plot(self, ax: Any = None) -> TaskSimilarityDisplay:
        """Draw the similarities.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        TaskSimilarityDisplay
            The display itself.
        """
        cell = min(0.34, 5.5 / len(self.tasks))
        ax = axes_for(ax, *_map_size(self.tasks, self.tasks, cell, cell))
        self.image_ = heat_map(ax, self.similarity, self.tasks, self.tasks, SEQUENTIAL, 0.0, 1.0)
        ax.set_aspect("equal")
        self.colorbar_ = _colour_bar(ax, self.image_, "features that both use / that either uses")
        ax.set_title("Do tasks use the same features?", loc="left", fontsize="medium")
        self.ax_, self.figure_ = ax, ax.figure
        return self


# ------------------------------------------------------------------ stages


@dataclass
class StageHistoryDisplay:
    """How a fit went, stage by stage: objective, duality gap (log axis; 0 is drawn at 1e-17), features used and freed.

    Parameters
    ----------
    objective : ndarray of shape (stages,)
        The objective after every stage.
    dual_gap : ndarray of shape (stages,)
        The relative duality gap of every stage.
    used : ndarray of shape (stages,)
        Number of features with a coefficient in any task.
    freed : ndarray of shape (stages,)
        Number of features that the stage left un-penalised.
    tol : float
        What the gap must reach.

    Attributes
    ----------
    axes_ : ndarray of shape (3,)
        The axes.
    figure_ : matplotlib Figure
        The figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure  # here, so that no window opens; without ax= there is a new figure
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.datasets import make_multitask
    >>> from msmtfl.plots import StageHistoryDisplay
    >>> X, y, task, _ = make_multitask(m=4, n=30, d=50, random_state=1)
    >>> model = MSMTFL(theta="adaptive").fit(X, y, task=task)
    >>> StageHistoryDisplay.from_estimator(model, ax=Figure().subplots(1, 3)).freed.tolist()[0]
    0
    """

    objective: Floats
    dual_gap: Floats
    used: Ints
    freed: Ints
    tol: float

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> StageHistoryDisplay:
        """Draw the stages of a fitted model.

        Parameters
        ----------
        model : estimator
            A fitted model of this package that has stages.
        ax : matplotlib Axes or three of them, optional
            Where to draw; one subplot is divided. By default a new figure is made.

        Returns
        -------
        StageHistoryDisplay
            The display.
        """
        model = model_chosen(model)
        stages = stages_of(model)
        used = [int(np.count_nonzero(stage.coef.any(axis=0))) for stage in stages]
        freed = [len(stage.free_rows) for stage in stages]
        objective, gap = np.array([(stage.objective, stage.dual_gap) for stage in stages]).T
        return cls(objective, gap, np.array(used), np.array(freed), model.certificate_.tol).plot(ax)

    def plot(self, ax: Any = None) -> StageHistoryDisplay:
        """Draw the stages.

        Parameters
        ----------
        ax : matplotlib Axes or three of them, optional
            Where to draw; one subplot is divided. By default a new figure is made.

        Returns
        -------
        StageHistoryDisplay
            The display itself.
        """
        axes = panels(ax, 3, 9.0, 2.9)
        stage = np.arange(1, len(self.objective) + 1)
        axes[0].plot(stage, self.objective, "o-", color=BLUE)
        axes[1].semilogy(stage, np.maximum(self.dual_gap, 1e-17), "o-", color=BLUE)
        axes[1].axhline(self.tol, color=GREY, lw=1, ls="--")
        axes[1].annotate("tol", (1, self.tol), xycoords=("axes fraction", "data"), ha="right", va="bottom", color=GREY)
        axes[2].plot(stage, self.used, "o-", color=BLUE, label="used by any task")
        axes[2].plot(stage, self.freed, "s--", color=ORANGE, label="freed by the cap")
        axes[2].set_ylim(0, 1.05 * max(self.used.max(), self.freed.max(), 1))
        axes[2].legend(frameon=False, fontsize="small", handlelength=1.5)
        for axis, title in zip(axes, ("objective", "relative duality gap", "features"), strict=True):
            axis.set_title(title, loc="left")
            axis.set_xticks(stage[:: 1 + len(stage) // 12])
            axis.set_xlim(0.7, len(stage) + 0.3)
            axis.set_xlabel("stage")
            quiet(axis)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


@dataclass
class RowNormDisplay:
    """Norms of the features, largest first, after the first and the last stage, to see a jump at theta.

    Parameters
    ----------
    norms : dict {stage: ndarray of shape (d,)}
        The norms of the features over all tasks.
    theta : float or None
        Norm from which a feature is free; None or inf: no line is drawn.

    Attributes
    ----------
    lines_ : dict {stage: matplotlib line}
        What was drawn.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure  # here, so that no window opens; without ax= there is a new figure
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.datasets import make_multitask
    >>> from msmtfl.plots import RowNormDisplay
    >>> X, y, task, _ = make_multitask(m=4, n=30, d=50, random_state=1)
    >>> model = MSMTFL(theta="adaptive").fit(X, y, task=task)
    >>> list(RowNormDisplay.from_estimator(model, ax=Figure().subplots()).norms)
    [1, 2]
    """

    norms: dict[int, Floats]
    theta: float | None

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any = None, y: Any = None, *, task: Any = None, sample_weight: Any = None, ax: Any = None
    ) -> RowNormDisplay:
        """Draw the norms of a fitted model's features.

        Norms are those of the problem solved: for stage 1 of a model with ``standardize=True`` the data of the
        fit are needed, too; without them the last stage is drawn alone.

        Parameters
        ----------
        model : estimator
            A fitted model of this package that has stages.
        X : DataFrame, ndarray or sparse matrix of shape (N, d), optional
            The samples of the fit.
        y : array-like of shape (N,) or (N, m), optional
            The targets of the fit.
        task : array-like of shape (N,), optional
            The task labels of the fit, if it was given any.
        sample_weight : array-like of shape (N,) or (N, m), optional
            The weights of the fit, if it was given any.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        RowNormDisplay
            The display.
        """
        model = model_chosen(model)
        norms = stage_norms(model, X, y, task=task, sample_weight=sample_weight)
        return cls(norms, getattr(model, "theta_", None)).plot(ax)

    def plot(self, ax: Any = None) -> RowNormDisplay:
        """Draw the norms.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        RowNormDisplay
            The display itself.
        """
        ax = axes_for(ax, 6.4, 3.8)
        d = len(next(iter(self.norms.values())))
        most = max(int(np.count_nonzero(norms)) for norms in self.norms.values())
        some = min(d, most + max(3, most // 10))
        last = max(self.norms)
        self.lines_ = {}
        for l, norms in self.norms.items():
            style = {"color": BLUE} if l == last else {"color": GREY, "mfc": "white"}
            line = ax.plot(np.arange(1, some + 1), np.sort(norms)[::-1][:some], "o-", lw=1, **style)[0]
            line.set(label=f"stage {l}", markersize=5 if some <= NAMED else 2.5)
            self.lines_[l] = line
        if self.theta is not None and np.isfinite(self.theta):
            ax.axhline(self.theta, color=ORANGE, lw=1.5, ls="--", label=f"θ = {self.theta:.3g}: free from here up")
        ax.set_ylim(bottom=0)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel(f"feature, largest norm first ({_part(some, d)})")
        ax.set_ylabel("row norm")
        ax.legend(frameon=False)
        ax.set_title("Which features stand out", loc="left")
        quiet(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


# ------------------------------------------------------------------ grids


@dataclass
class PathDisplay:
    """Norms of all features, or one task's coefficients, against lam; thick where the cap has freed a feature.

    Parameters
    ----------
    path : LamPath
        The values along lam; `from_estimator` and `from_surface` make it.

    Attributes
    ----------
    lines_ : ndarray of shape (d,)
        What was drawn.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure  # here, so that no window opens; without ax= there is a new figure
    >>> from msmtfl import regularization_surface
    >>> from msmtfl.datasets import make_multitask
    >>> from msmtfl.plots import PathDisplay
    >>> X, y, task, _ = make_multitask(m=4, n=30, d=50, random_state=1)
    >>> surface = regularization_surface(X, y, task=task, lams=20)
    >>> PathDisplay.from_surface(surface, column=-1, ax=Figure().subplots()).ax_.get_title(loc="left")
    'θ = ∞: the lasso'
    """

    path: LamPath

    @classmethod
    def from_estimator(cls, model: Any, *, task: Any = None, ax: Any = None) -> PathDisplay:
        """Draw the column of the grid that a CV model chose.

        Parameters
        ----------
        model : estimator
            A fitted CV model with its `surface_`, which one from a file does not have.
        task : str or number, optional
            The label of a task, to show its coefficients; by default the norms of the features are shown.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        PathDisplay
            The display.
        """
        model = model_chosen(model)
        coef_by_class(model)
        if not hasattr(model, "surface_"):
            raise ValueError(
                f"this {type(model).__name__} has no surface_: fit a CV model (a model file does not hold it), or use "
                "PathDisplay.from_surface(regularization_surface(...))."
            )
        k, l = model.best_point_
        return cls(lam_path(model.surface_, l, task, k)).plot(ax)

    @classmethod
    def from_surface(cls, surface: Any, *, column: int = 0, task: Any = None, ax: Any = None) -> PathDisplay:
        """Draw one column (theta) of a surface.

        Parameters
        ----------
        surface : Surface
            What :func:`regularization_surface` returns, or `surface_` of a CV model.
        column : int, default=0
            The place of the column.
        task : str or number, optional
            The label of a task, to show its coefficients; by default the norms of the features are shown.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        PathDisplay
            The display.
        """
        return cls(lam_path(surface, column, task)).plot(ax)

    def plot(self, ax: Any = None) -> PathDisplay:
        """Draw the path.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        PathDisplay
            The display itself.
        """
        ax = axes_for(ax, 7.0, 4.2)
        path = self.path
        lams, values, d = path.lams, path.values, len(path.features)
        named = path.strongest(len(PATH_COLOURS))
        palette = dict(zip(named.tolist(), PATH_COLOURS, strict=False))
        self.lines_ = np.empty(d, dtype=object)
        for j in [*np.setdiff1d(np.arange(d), named), *named[::-1]]:
            width, style = (1.2, {"color": palette[j]}) if j in palette else (0.6, {"color": GREY, "alpha": 0.4})
            self.lines_[j] = ax.plot(lams, values[:, j], lw=width, **style)[0]
            if path.freed is not None and path.freed[:, j].any():
                ax.plot(lams, np.where(path.freed[:, j], values[:, j], np.nan), lw=2.5 * width, **style)
        low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
        span = (high - low) or 1.0
        ax.set_ylim(low - 0.03 * span * (low < 0), high + 0.05 * span)
        ax.set_xscale("log")
        ax.set_xlim(*log_edges(lams)[[-1, 0]])
        for j, y in zip(named, apart(values[0, named], 0.055 * span, high), strict=True):
            beside(ax, y, shown(path.features[j], 20), color=palette[j])
        if path.theta is not None:
            ax.plot(lams, path.theta, color=DARK, lw=1, ls=":", label="θ: free from here up (thick lines)")
        if path.chosen is not None:
            ax.axvline(path.chosen, color=DARK, lw=1, ls="--", label="chosen")
        if path.theta is not None or path.chosen is not None:
            ax.legend(frameon=False)
        ax.set_xlabel(f"{path.strength} {WEAKER}")
        ax.set_ylabel(path.measure)
        ax.set_title(path.column, loc="left")
        quiet(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass
class SurfaceDisplay:
    """Held-out error over the grid that a CV model searched, with the point chosen.

    The points within one standard error of the best are marked. It is a map, or for a single column a curve
    with error bars. An information criterion is drawn likewise.

    Parameters
    ----------
    grid : SearchGrid
        The values on the grid; `from_estimator` makes it.

    Attributes
    ----------
    images_ : list of matplotlib images
        What was drawn, one per column of a map.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure  # here, so that no window opens; without ax= there is a new figure
    >>> from msmtfl import MSMTFLCV
    >>> from msmtfl.datasets import make_multitask
    >>> from msmtfl.plots import SurfaceDisplay
    >>> X, y, task, _ = make_multitask(m=4, n=30, d=50, random_state=1)
    >>> model = MSMTFLCV(lams=10, cv=3).fit(X, y, task=task)
    >>> display = SurfaceDisplay.from_estimator(model, ax=Figure().subplots())
    >>> display.grid.values.shape, display.grid.levels[3]
    ((10, 5), '∞ (lasso)')
    """

    grid: SearchGrid

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> SurfaceDisplay:
        """Draw the search of a fitted CV model.

        Parameters
        ----------
        model : estimator
            A fitted CV model, also one from a model file.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        SurfaceDisplay
            The display.
        """
        return cls(search_grid(model)).plot(ax)

    def plot(self, ax: Any = None) -> SurfaceDisplay:
        """Draw the errors.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        SurfaceDisplay
            The display itself.
        """
        grid, L = self.grid, self.grid.lams.shape[1]
        ax = axes_for(ax, 7.0, 3.6 if L == 1 else 1.7 + 0.38 * L)
        k, l = grid.chosen
        title = f"{grid.measure} {grid.values[k, l]:.4g} at {grid.strength} = {grid.lams[k, l]:.3g}"
        ax.set_xscale("log")
        if L == 1:
            self._draw_curve(ax)
        else:
            self._draw_map(ax)
            title += f", {grid.level_name} = {grid.levels[l]}"
            title += "\nboxes: within one standard error of the best" if grid.within is not None else ""
        ax.set_xlim(ax.get_xlim()[::-1])
        ax.set_xlabel(f"{grid.strength} {WEAKER}")
        ax.set_title(title, loc="left", fontsize="medium")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_curve(self, ax: Any) -> None:
        grid = self.grid
        self.images_: list[Any] = []
        order = np.argsort(grid.lams[:, 0])
        bars = None if grid.se is None else grid.se[order, 0]
        curve = (grid.lams[order, 0], grid.values[order, 0])
        ax.errorbar(*curve, yerr=bars, color=BLUE, ecolor=SKY, marker="o", ms=3, lw=1, elinewidth=1.2)
        if grid.within is not None:
            inside, edges = grid.within[order, 0], log_edges(curve[0])
            for r, (begin, end) in enumerate(runs(inside)):
                label = "within one s.e. of the best" if r == 0 else None
                ax.axvspan(edges[begin], edges[end], color=SKY, alpha=0.15, lw=0, label=label)
        k, l = grid.chosen
        ax.plot(grid.lams[k, l], grid.values[k, l], "*", ms=14, color=ORANGE, mec="white", zorder=4, label="chosen")
        ax.set_ylabel(grid.measure)
        ax.legend(frameon=False)
        quiet(ax)

    def _draw_map(self, ax: Any) -> None:
        from matplotlib.colors import PowerNorm

        grid = self.grid
        self.images_ = []
        sign = -1.0 if grid.greater_is_better else 1.0
        loss = sign * np.where(np.isfinite(grid.values), grid.values, np.nan)
        best, worst = np.nanmin(loss), np.nanmax(loss)
        nothing = loss.flat[int(np.argmax(grid.lams))]  # where hardly any feature is used: worse is all the same
        worst = nothing if best < nothing < worst else worst
        ends = sorted((sign * best, sign * worst)) if best < worst else (sign * best - 0.5, sign * best + 0.5)
        norm = PowerNorm(0.5 if sign > 0 else 2.0, *ends)  # more colours near the best
        for l in range(len(grid.levels)):
            order = np.argsort(grid.lams[:, l])
            edges = log_edges(grid.lams[order, l])
            row = np.ma.masked_invalid(grid.values[order, l])[None]
            cmap = "viridis_r" if sign > 0 else "viridis"
            self.images_.append(ax.pcolormesh(edges, [l - 0.5, l + 0.5], row, cmap=cmap, norm=norm))
            for begin, end in runs(grid.within[order, l]) if grid.within is not None else []:
                corners = edges[[begin, end, end, begin, begin]]
                ax.plot(corners, l + 0.42 * np.array([-1, -1, 1, 1, -1]), color=DARK, lw=1.3)
        k, l = grid.chosen
        ax.plot(grid.lams[k, l], l, "*", ms=15, color="white", mec=DARK, zorder=4)
        name_ticks(ax.yaxis, grid.levels, 0.0)
        ax.set_ylabel(grid.level_name)
        beyond = "neither" if worst == np.nanmax(loss) else "max" if sign > 0 else "min"
        ax.figure.colorbar(self.images_[0], ax=ax, label=grid.measure, extend=beyond)


@dataclass
class GainDisplay:
    """What each task gains (left, blue) or loses (right, orange) by sharing, with 95 % intervals.

    Parameters
    ----------
    tasks : ndarray of shape (m,)
        Labels of the tasks.
    difference : ndarray of shape (m,)
        Held-out error of the model less that of the reference; a task without (NaN) is not drawn.
    reach : ndarray of shape (m,)
        How far the interval reaches to either side.
    model : str
        The name of the model.
    reference : str, default="lasso"
        The name of the reference.
    measure : str, default="nMSE"
        What the error is.

    Attributes
    ----------
    points_ : matplotlib artist
        What was drawn.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        The figure.

    Examples
    --------
    >>> from matplotlib.figure import Figure  # here, so that no window opens; without ax= there is a new figure
    >>> from msmtfl import MSMTFLCV
    >>> from msmtfl.datasets import make_multitask
    >>> from msmtfl.plots import GainDisplay
    >>> X, y, task, _ = make_multitask(m=4, n=30, d=50, random_state=1)
    >>> model = MSMTFLCV(lams=10).fit(X, y, task=task)
    >>> GainDisplay.from_estimator(model, ax=Figure().subplots()).difference.shape
    (4,)
    """

    tasks: np.ndarray
    difference: Floats
    reach: Floats
    model: str
    reference: str = "lasso"
    measure: str = NMSE.name

    @classmethod
    def from_comparison(cls, comparison: Comparison, *, model: str | None = None, ax: Any = None) -> GainDisplay:
        """Draw one of the models that :func:`compare_models` compared.

        `Comparison.plot` shows all of them side by side.

        Parameters
        ----------
        comparison : Comparison
            The comparison.
        model : str, optional
            The name of the model; by default the best that is not the reference.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        GainDisplay
            The display.
        """
        if not isinstance(comparison, Comparison):
            raise TypeError(f"give what compare_models returns, not {type(comparison).__name__}.")
        others = {name: k for k, name in enumerate(comparison.models) if name != comparison.reference}
        name = min(others, key=lambda one: comparison.error[others[one]]) if model is None else model
        if name not in others:
            raise ValueError(f"no model {name!r} to compare with {comparison.reference!r}: {choices_of(name, others)}.")
        k = others[name]
        reach = comparison._clear * comparison.se_by_task[k]
        names = (name, comparison.reference, comparison.measure.name)
        return cls(comparison.tasks, comparison.difference_by_task[k], reach, *names).plot(ax)

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> GainDisplay:
        """Draw a CV model against the best lasso of its grid.

        Each fold is predicted at the points that the other folds choose, so there may be differences though the
        point chosen by all folds is a lasso.

        Parameters
        ----------
        model : estimator
            A fitted CV model.
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        GainDisplay
            The display.
        """
        model = model_chosen(model)
        difference, reach = gain_over_lasso(model)
        name = type(model).__name__.removesuffix("CV")
        return cls(model.tasks_, difference, reach, name, measure=measure_of(model).name).plot(ax)

    def plot(self, ax: Any = None) -> GainDisplay:
        """Draw the differences.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.

        Returns
        -------
        GainDisplay
            The display itself.
        """
        seen = int(np.isfinite(self.difference).sum())
        ax = axes_for(ax, 6.4, 1.6 + 0.3 * min(seen, 14))
        self.points_ = differences(ax, self.tasks, self.difference, self.reach)
        gain, lose = (int((sign * self.difference > self.reach).sum()) for sign in (-1, 1))
        title = f"By {shown(self.model)}: {gain} of {seen} tasks clearly better, {lose} worse"
        if not np.nan_to_num(self.difference).any():
            title = f"{shown(self.model)} is the {shown(self.reference)} here: no difference"
        ax.set_title(title, loc="left")
        ax.set_xlabel(
            f"held-out {self.measure} of {shown(self.model)} less that of {shown(self.reference)} (bars: 95 %)"
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self


# ------------------------------------------------------------------ helpers


def _strongest(size: Floats, used: np.ndarray, most: int) -> Ints:
    """Places of the largest among those that are used; if none is, of the first."""
    check_count("max_features", most)
    return np.lexsort((-size, ~used))[: min(most, int(used.sum()) or most)]


def _part(some: int, every: int) -> str:
    return f"{every} feature{'s' * (every != 1)}" if some == every else f"{some} of {every} features"


def _map_size(rows: Any, columns: Any, height: float = 0.2, width: float = 0.4) -> tuple[float, float]:
    """Inches for cells of this height and width, and for the names beside and below them."""
    longest = [max(map(len, map(str, names)), default=0) if len(names) <= NAMED else 0 for names in (rows, columns)]
    left, below = (0.065 * min(count, 32) for count in longest)
    wide, high = 2.6 + left + width * len(columns), 1.3 + below + height * len(rows)
    return float(np.clip(wide, 4.6, 11.0)), float(np.clip(high, 3.4, 10.5))


def _colour_bar(ax: Any, image: Any, label: str) -> Any:
    bar = ax.figure.colorbar(image, ax=ax, aspect=30, pad=0.02)
    bar.set_label(label, fontsize="small")
    bar.outline.set_visible(False)
    columns = image.get_array().shape[1]
    ax.set_xlabel(f"{columns} tasks" if columns > NAMED else "task")
    return bar
