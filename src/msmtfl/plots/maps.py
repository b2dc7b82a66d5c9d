"""Pictures of features and tasks: maps of coefficients, of stability, of how alike tasks are.

A Display holds the data of one picture, as in scikit-learn. `from_estimator` (or `from_surface`, `from_stability`,
`from_comparison`) collects and draws them, in `ax` if given; `plot` draws them once more elsewhere. What was drawn is in
`figure_`, `ax_` (`axes_` where there are several), `image_` and the like. matplotlib is imported when something is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._data.designs import Floats, Ints
from .._estimators.fitted import model_chosen
from .._runtime.checks import check_count
from .._runtime.drawing import (
    DARK,
    DIVERGING,
    GREY,
    NAMED,
    SEQUENTIAL,
    YELLOW,
    axes_for,
    beside,
    heat_map,
    runs,
    shown,
)
from .._runtime.text.documents import significant
from .._runtime.text.naturally import natural_order
from ..inference.stability import Stability
from ..sharing import class_place, coef_by_class, map_of, size_over_classes, task_similarity
from .display import Display
from .views import (
    part_of,
)

MAX_FEATURES = 40
MOST, FAR = 0.95, 2.5  # colours end at this quantile of the sizes if the largest is so many times that
WIDEST = 150  # tasks up to which a map is made as wide as their names need
USERS = {
    "freed": "freed",
    "all": "all tasks",
    "some": "some tasks",
    "one": "one task",
    "unused": "unused",
    "constant": "constant",
}
OVER_CLASSES = "sum of |coefficients| over classes"


@dataclass(repr=False)
class CoefficientMapDisplay(Display):
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
        scale: str | None = "sd",
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
        scale : {"sd", "row"} or None, default="sd"
            "sd" shows effects of one standard deviation of a feature (`feature_sd_` of the model), so that
            features in different units can be compared; a model from an old file does not know these, and is
            shown in the data's units. "row" divides by the largest |coefficient| of each feature. None shows
            the coefficients as they are.
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
        if scale not in (None, "row", "sd"):
            raise ValueError(f"scale must be 'sd', 'row' or None, got {scale!r}.")
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
        if scale == "sd" and hasattr(model, "feature_sd_"):
            W = W * model.feature_sd_[order]
            unit = f"{'effect' if signed else OVER_CLASSES} per standard deviation of the feature"
        if scale == "row":
            top = np.abs(W).max(axis=0)
            W = W / np.where(top > 0, top, 1.0)
            unit = f"{'coefficient' if signed else OVER_CLASSES} / largest of its feature"
        names, counts = found.features[order], (int(used.sum()), len(used))
        constant = None if found.learnable is None else ~found.learnable[:, order] & (W == 0.0)
        never = found.counts["constant"]
        tasks = natural_order(found.tasks.tolist())
        W, constant = W[tasks], None if constant is None else constant[tasks]
        return cls(W, names, found.tasks[tasks], groups, *counts, unit, signed, constant, of_class, never).plot(ax)

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
        top, beyond = _colours_end(self.coef)
        cells = np.where(self.coef == 0.0, np.nan, self.coef).T
        free = self.groups == "freed"
        names = [f"● {name}" if freed else name for name, freed in zip(self.features, free, strict=True)]
        colours, low = (DIVERGING, -top) if self.signed else (SEQUENTIAL, 0.0)
        self.image_ = heat_map(ax, cells, names, self.tasks, colours, low, top)
        column, row = np.nonzero(np.zeros_like(self.coef) if self.constant is None else self.constant)
        grey = "grey: exactly 0; ×: constant in the task" if column.size else "grey: exactly 0"
        ends = f"; colours end at {significant(top, 2)}" if beyond else ""
        extend = "neither" if not beyond else "both" if self.signed else "max"
        self.colorbar_ = _colour_bar(ax, self.image_, f"{self.unit}\n({grey}{ends})", extend)
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
            why = "it is constant" if self.n_constant == 1 else "they are constant"
            constant = f", {self.n_constant} of them because {why}" if self.n_constant else ""
            rest = f"the others are unused{constant}"
        note = f"\n{rest}" if some < self.n_features else ""
        what = f"Coefficients of {part_of(some, self.n_features)} {shown(self.of_class)}".rstrip()
        ax.set_title(f"{what}{note}", loc="left", fontsize="medium")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(repr=False)
class StabilityMapDisplay(Display):
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
        ax.set_title(f"Selection of {part_of(len(self.features), self.n_features)}", loc="left")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(repr=False)
class TaskSimilarityDisplay(Display):
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


# ------------------------------------------------------------------ helpers


def _strongest(size: Floats, used: np.ndarray, most: int) -> Ints:
    """Places of the largest among those that are used; if none is, of the first."""
    check_count("max_features", most)
    return np.lexsort((-size, ~used))[: min(most, int(used.sum()) or most)]


def _map_size(rows: Any, columns: Any, height: float = 0.2, width: float = 0.4) -> tuple[float, float]:
    """Inches for cells of this height and width, and for the names beside and below them."""
    many = len(columns) > NAMED
    named = ((rows, NAMED), (columns, WIDEST))
    longest = [max(map(len, map(str, names)), default=0) if len(names) <= most else 0 for names, most in named]
    left, below = (0.065 * min(count, 32) for count in longest)
    wide, high = 2.6 + left + (0.12 if many else width) * len(columns), 1.3 + below + height * len(rows)
    return float(np.clip(wide, 4.6, 20.0 if many and len(columns) <= WIDEST else 11.0)), float(np.clip(high, 3.4, 10.5))


def _colours_end(values: Floats) -> tuple[float, bool]:
    """The size at which colours end, and whether some values lie beyond: a few that are much larger than all others would
    leave these white."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0.0)])
    if sizes.size == 0:
        return 1.0, False
    top, most = float(sizes.max()), float(np.quantile(sizes, MOST))
    return (most, True) if top > FAR * most else (top, False)


def _colour_bar(ax: Any, image: Any, label: str, extend: str = "neither") -> Any:
    bar = ax.figure.colorbar(image, ax=ax, aspect=30, pad=0.02, extend=extend)
    bar.set_label(label, fontsize="small")
    bar.outline.set_visible(False)
    columns = image.get_array().shape[1]
    ax.set_xlabel("task" if len(ax.get_xticks()) else f"{columns} tasks")
    return bar
