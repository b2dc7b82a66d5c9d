"""Pictures of the stages of one fit.

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
from .._runtime.drawing import (
    BLUE,
    GREY,
    NAMED,
    ORANGE,
    axes_for,
    panels,
    quiet,
)
from .display import Display
from .views import (
    part_of,
    stage_norms,
    stages_of,
)


@dataclass(repr=False)
class StageHistoryDisplay(Display):
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


@dataclass(repr=False)
class RowNormDisplay(Display):
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
        ax.set_xlabel(f"feature, largest norm first ({part_of(some, d)})")
        ax.set_ylabel("norm of the feature")
        ax.legend(frameon=False)
        ax.set_title("Which features stand out", loc="left")
        quiet(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
