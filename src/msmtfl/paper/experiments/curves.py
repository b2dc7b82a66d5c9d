"""Errors of several runs or splits, as the figures of the experiments show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._runtime.drawing import BLUE, DARK, DASHES, GREEN, GREY, LINES, MARKERS, YELLOW, new_figure, quiet, shown
from .base import Row, select, values

COLOURS = {"Lasso": DARK, "L1,2": YELLOW, "DirtyMTL": GREEN, "MSMTFL": BLUE}
FEW = 4  # runs that have no quartiles worth the name


def middle(errors: Floats) -> Floats:
    """(2, points): the least and the most of the middle half of the runs, or of all if they are few."""
    return np.asarray(np.quantile(errors, (0.0, 1.0) if len(errors) <= FEW else (0.25, 0.75), axis=0))


def spread(runs: int, what: str = "bands") -> str:
    """What the lines and bands of a figure are."""
    if runs == 1:
        return "One run"
    return f"Lines: median of {runs} runs; {what}: {'all runs' if runs <= FEW else 'the middle half of the runs'}"


def style(k: int, **more: Any) -> dict[str, Any]:
    """Of the k-th curve of a panel: told apart by colour, dashes and markers."""
    return {"color": LINES[k], "ls": DASHES[k], "marker": MARKERS[k], "ms": 3.0, "lw": 1.3} | more


def curve(axis: Any, x: Any, errors: Floats, **look: Any) -> Any:
    """The median of errors (runs, points). Errors that are small in some runs and large in others have a mean that no run
    is near. Returns the line."""
    return axis.plot(x, np.median(errors, axis=0), zorder=3, **look)[0]


def band(axis: Any, x: Any, errors: Floats, colour: str) -> None:
    """Where the runs are, around a curve."""
    if len(errors) > 1:
        low, high = middle(errors)
        axis.fill_between(x, low, high, color=colour, alpha=0.13, lw=0, zorder=1)
        for edge in (low, high):
            axis.plot(x, edge, color=colour, lw=0.5, alpha=0.6, zorder=2)


def bar(axis: Any, x: float, errors: Floats, colour: str) -> None:
    """Where the runs are, beside a curve: bands of several curves that lie on each other cannot be told apart."""
    if len(errors) > 1:
        low, high = middle(errors[:, None])[:, 0]
        axis.plot([x, x], [low, high], color=colour, lw=2.0, alpha=0.75, solid_capstyle="butt", zorder=2)


def blocks(titles: Sequence[str], rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    """A figure of panels (blocks, rows, columns) with common axes, every block under a title of its own."""
    figure, _ = new_figure(1, 1, width, height)
    figure.clear()
    parts = figure.subfigures(len(titles), 1, squeeze=False)[:, 0]
    axes = np.array([part.subplots(rows, columns, squeeze=False, sharex=True, sharey=True) for part in parts])
    for part, title, block in zip(parts, titles, axes, strict=True):
        part.suptitle(title, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
        if block is not axes[0]:
            block[0, 0].sharex(axes[0, 0, 0])
            block[0, 0].sharey(axes[0, 0, 0])
    return figure, axes


def note(axis: Any, text: str) -> None:
    """Small print in the lower right corner."""
    axis.text(0.98, 0.03, text, transform=axis.transAxes, ha="right", va="bottom", fontsize=7, color=DARK)


# ------------------------------------------------------------------ test errors of the four models


def deviation(errors: Floats) -> float:
    """Standard deviation over splits; 0 if there is but one."""
    return float(errors.std(ddof=1)) if len(errors) > 1 else 0.0


def draw_shares(axis: Any, rows: list[Row], measure: str) -> None:
    """Mean error against the training share, with standard deviations over splits."""
    quiet(axis)
    shares, models = values(rows, "share"), values(rows, "model")
    beside = 0.25 * (np.arange(len(models)) - 0.5 * (len(models) - 1))  # percent, so that bars do not cover each other
    for k, model in enumerate(models):
        found = [[row[measure] for row in select(rows, model=model, share=share)] for share in shares]
        axis.errorbar(
            100 * np.array(shares) + beside[k],
            [np.mean(e) for e in found],
            [deviation(np.array(e)) for e in found] if len(found[0]) > 1 else None,
            color=COLOURS[model],
            ls=DASHES[k],
            marker=MARKERS[k],
            ms=4,
            lw=1.4,
            capsize=2,
            label=model,
        )
    axis.set_xticks([100 * share for share in shares])
    axis.set_xlabel("rows used for training, %")
    axis.set_ylabel(f"test {measure}")


def draw_tasks(axis: Any, rows: list[Row], measure: str) -> None:
    """Mean error of every task, and of all: points beside its name."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

    quiet(axis)
    models, prefix = values(rows, "model"), f"{measure} of "
    names = {name: shown(name.removeprefix(prefix)) for name in rows[0] if name.startswith(prefix)}
    names = {measure: "all tasks"} | names
    places = np.arange(len(names))
    for k, model in enumerate(models):
        found = np.array([[row[name] for name in names] for row in select(rows, model=model)])
        beside = 0.16 * (k - 0.5 * (len(models) - 1))  # equal errors do not cover each other
        axis.plot(
            found.mean(axis=0), places + beside, ls="", marker=MARKERS[k], ms=5, color=COLOURS[model], label=model
        )
    axis.axhline(0.5, color=GREY, lw=0.8)
    axis.set_yticks(places, names.values())
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_xlabel(f"test {measure}" + (" (dotted line: the mean of every task)" if measure == "nMSE" else ""))
    if measure == "nMSE":
        axis.axvline(1.0, color=DARK, lw=1.0, ls=":")
