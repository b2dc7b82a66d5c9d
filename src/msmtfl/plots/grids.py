"""Pictures of grids and comparisons: paths, held-out errors, gains over the lasso.

A Display holds the data of one picture, as in scikit-learn. `from_estimator` (or `from_surface`, `from_stability`,
`from_comparison`) collects and draws them, in `ax` if given; `plot` draws them once more elsewhere. What was drawn is in
`figure_`, `ax_` (`axes_` where there are several), `image_` and the like. matplotlib is imported when something is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._data.tables import choices_of
from .._estimators.fitted import model_chosen
from .._runtime.drawing import (
    BLUE,
    DARK,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    YELLOW,
    apart,
    axes_for,
    beside,
    differences,
    log_edges,
    name_ticks,
    quiet,
    runs,
    shown,
)
from ..compare.comparison import Comparison
from ..compare.measures import NMSE
from ..sharing import coef_by_class
from .display import Display
from .views import (
    LamPath,
    SearchGrid,
    lam_path,
    measure_of,
    over_lasso,
    search_grid,
)

PATH_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW)  # of the lines of a path that are named
WEAKER = "(weaker penalty to the right)"


@dataclass(repr=False)
class PathDisplay(Display):
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


@dataclass(repr=False)
class SurfaceDisplay(Display):
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


@dataclass(repr=False)
class GainDisplay(Display):
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
    clear : ndarray of int of shape (m,), optional
        -1 for tasks that clearly gain, 1 for those that clearly lose, else 0; by default those whose interval
        excludes 0. `from_estimator` and `from_comparison` correct for the number of tasks.

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
    clear: np.ndarray | None = None

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
        clear = comparison.loses[k].astype(int) - comparison.gains[k]
        return cls(comparison.tasks, comparison.difference_by_task[k], reach, *names, clear).plot(ax)

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
        found, name = over_lasso(model), type(model).__name__.removesuffix("CV")
        measure = measure_of(model).name
        return cls(model.tasks_, *found.by_task(), name, measure=measure, clear=found.clear()).plot(ax)

    @property
    def _signs(self) -> Any:
        """(m,): -1, 0 or 1, as for `clear`"""
        beyond = np.abs(self.difference) > self.reach
        return np.where(beyond, np.sign(self.difference), 0) if self.clear is None else self.clear

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
        self.points_ = differences(ax, self.tasks, self.difference, self.reach, self.clear)
        gain, lose = (int((self._signs == sign).sum()) for sign in (-1, 1))
        title = f"By {shown(self.model)}: {gain} of {seen} tasks clearly better, {lose} worse"
        if not np.nan_to_num(self.difference).any():
            title = f"{shown(self.model)} is the {shown(self.reference)} here: no difference"
        ax.set_title(title, loc="left")
        ax.set_xlabel(
            f"held-out {self.measure} of {shown(self.model)} less that of {shown(self.reference)} (bars: 95 %)"
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self
