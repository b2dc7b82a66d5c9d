"""How our pictures look: colours that colour-blind readers can tell apart, quiet axes, matplotlib only when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

DARK, GREY, PALE = "#1b1b1b", "#8a8a8a", "#e6e6e6"
BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
LINES = (BLUE, ORANGE, GREEN, PURPLE)  # Okabe and Ito's, told apart by dashes and markers too
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D")
DIVERGING = ("#6b2400", ORANGE, "#ffffff", BLUE, "#00304d")  # below 0, 0, above 0
SEQUENTIAL = ("#ffffff", "#b5a8d6", "#3b2a66")  # sizes without a sign, as in reports: blue and orange are signs
NAMED = 40  # rows, columns or lines up to which each has its name beside it, whatever the room
SMALLEST = 4.5  # points of a letter that can still be read, in print or when magnified
TEXT = {
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "svg.fonttype": "path",
    "svg.hashsalt": "msmtfl",
}


def pyplot() -> Any:
    """matplotlib.pyplot, or what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install matplotlib, or msmtfl[plots].") from error
    return plt


def new_figure(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Any, Any]:
    """A figure that belongs to no window, and its axes (rows, columns)."""
    pyplot()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def axes_for(ax: Any, width: float, height: float) -> Any:
    """The Axes given, or those of a new figure."""
    return pyplot().subplots(figsize=(width, height), layout="constrained")[1] if ax is None else ax


def panels(ax: Any, count: int, width: float, height: float) -> Any:
    """(count,) Axes side by side: those given, parts of the one given, or those of a new figure."""
    if ax is None:
        return pyplot().subplots(1, count, figsize=(width, height), layout="constrained")[1]
    axes = np.ravel(np.asarray(ax, dtype=object))
    if len(axes) == count:
        return axes
    cell = axes[0].get_subplotspec() if len(axes) == 1 else None
    if cell is None:
        raise ValueError(
            f"ax must be one of matplotlib's subplots, which is divided, or {count} Axes; got {len(axes)} Axes."
        )
    axes[0].set_axis_off()
    return np.array([axes[0].figure.add_subplot(part) for part in cell.subgridspec(1, count)])


def colours(anchors: Sequence[str]) -> Any:
    """A colour map through some colours; what is absent is pale grey."""
    pyplot()
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("msmtfl", list(anchors)).with_extremes(bad=PALE)


def heat_map(ax: Any, values: Any, rows: Any, columns: Any, anchors: Sequence[str], low: float, high: float) -> Any:
    """Fields (rows, columns) in colours, the first row on top; NaN is pale grey. Returns the mesh."""
    fine = max(np.shape(values)) > NAMED
    mesh = ax.pcolormesh(
        np.ma.masked_invalid(values),
        cmap=colours(anchors),
        vmin=low,
        vmax=high,
        edgecolors="none" if fine else "white",
        linewidth=0.0 if fine else 0.6,
    )
    ax.set_ylim(len(rows), 0)
    name_ticks(ax.yaxis, rows)
    name_ticks(ax.xaxis, columns)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return mesh


def name_ticks(axis: Any, names: Any, centre: float = 0.5) -> None:
    """A name at every row or column, upright where there is no room; none where there are too many to read."""
    extent = axis.axes.get_window_extent()
    room = (extent.width if axis.axis_name == "x" else extent.height) / axis.axes.figure.dpi / max(len(names), 1)
    size = 8.0 if len(names) <= 25 else 7.0 if len(names) <= NAMED else min(7.0, 65.0 * room)
    if size < SMALLEST:
        axis.set_ticks([])
        return
    texts = [shown(name) for name in names]
    axis.set_ticks(np.arange(len(texts)) + centre, texts, fontsize=size)
    if axis.axis_name == "x":
        axis.set_tick_params(rotation=90 if 0.09 * max(map(len, texts), default=0) > room else 0)


def apart(places: Any, gap: float, high: float) -> Any:
    """The places, in their order but at least `gap` apart and at most `high`: one pass up, one down."""
    order = np.argsort(places, kind="stable")
    out = np.array(places, dtype=np.float64)[order]
    for i in range(1, len(out)):
        out[i] = max(out[i], out[i - 1] + gap)
    for i in range(len(out)):
        out[i] = min(out[i], high - gap * (len(out) - 1 - i))
    return out[np.argsort(order)]


def beside(ax: Any, y: float, text: str, **style: Any) -> None:
    """A text to the right of the axes, at y."""
    place = {"xy": (1, y), "xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    ax.annotate(text, xytext=(4, 0), va="center", **place, **style)


def log_edges(values: Any) -> Any:
    """(K + 1,): where the fields of K rising values end, half way on a log axis."""
    logs = np.log(values)
    middle = (logs[1:] + logs[:-1]) / 2 if len(logs) > 1 else logs[:0]
    first, last = (
        (2 * logs[0] - middle[0], 2 * logs[-1] - middle[-1]) if len(middle) else (logs[0] - 0.1, logs[0] + 0.1)
    )
    return np.exp(np.concatenate([[first], middle, [last]]))


def runs(inside: Any) -> list[tuple[int, int]]:
    """(begin, end) of the stretches that are True."""
    change = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(inside, dtype=np.intp), [0]])))
    return list(zip(change[::2].tolist(), change[1::2].tolist(), strict=True))


def differences(ax: Any, names: Any, change: Any, reach: Any, clear: Any = None) -> Any:
    """What each name loses (right) or gains (left), largest gain on top, with bars that reach so far to either side; those
    that are `clear` (-1, 0 or 1; by default those that exclude 0) are coloured. A change of NaN is left out. Returns the
    points."""
    change, reach = np.asarray(change), np.asarray(reach)
    sign = np.where(change < -reach, -1, np.where(change > reach, 1, 0)) if clear is None else np.asarray(clear)
    place = np.argsort(-change, kind="stable")
    place = place[np.isfinite(change[place])]
    change, reach, many = change[place], reach[place], len(place) > NAMED
    colour = np.where(sign[place] < 0, BLUE, np.where(sign[place] > 0, ORANGE, GREY)).tolist()
    at = np.arange(len(place))
    ax.hlines(at, change - reach, change + reach, colors=colour, lw=0.8 if many else 1.5)
    points = ax.scatter(change, at, c=colour, s=10 if many else 28, zorder=3)
    ax.axvline(0.0, color=DARK, lw=1)
    name_ticks(ax.yaxis, [names[i] for i in place], 0.0)
    if many:
        ax.set_ylabel(f"{len(place)} tasks, sorted")
    low, high = bulk(change, np.where(np.isfinite(reach), reach, 0.0))
    ax.set_xlim(min(low, 0.0), max(high, 0.0))
    mark_beyond(ax, change, at.tolist(), colour)
    quiet(ax, "x")
    return points


def bulk(values: Any, reach: Any = 0.0) -> tuple[float, float]:
    """The ends of an axis that shows most of the values, with what they reach to either side: a few that lie far beyond
    the others would press these together."""
    values, reach = np.broadcast_arrays(np.asarray(values, dtype=np.float64), np.asarray(reach, dtype=np.float64))
    known = np.isfinite(values)
    if not known.any():
        return 0.0, 1.0
    far = np.abs(values - np.median(values[known]))
    bars = np.where(np.isfinite(reach), reach, 0.0)
    room = max(5.0 * float(np.median(far[known])), 3.0 * float(np.median(bars[known])))
    inside = known & (far <= room) if room > 0.0 else known
    bars = np.minimum(bars, room or np.inf)
    ends = float((values - bars)[inside].min()), float((values + bars)[inside].max())
    margin = 0.04 * (ends[1] - ends[0]) or 0.5
    return ends[0] - margin, ends[1] + margin


def mark_beyond(ax: Any, values: Any, places: Any, colours: Sequence[str]) -> None:
    """Arrows at the edge of the axes, with their numbers, for values that lie beyond it."""
    low, high = ax.get_xlim()
    for value, at, colour in zip(values, places, colours, strict=True):
        if not np.isfinite(value) or low <= value <= high:
            continue
        right = value > high
        ax.scatter(
            [high if right else low], [at], c=colour, marker=">" if right else "<", s=28, zorder=4, clip_on=False
        )
        place = {"textcoords": "offset points", "va": "center", "fontsize": 7.5, "color": colour}
        ax.annotate(
            f"{value:.3g}",
            (high if right else low, at),
            (-7 if right else 7, 0),
            ha="right" if right else "left",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},  # over the bar that leads to it
            zorder=4,
            **place,
        )


def quiet(axis: Any, grid: str = "both") -> Any:
    """No frame above and to the right, a pale grid behind the data."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis=grid, color=PALE, lw=0.6)
    axis.set_axisbelow(True)
    return axis


def shown(name: Any, longest: int = 32) -> str:
    """A name as matplotlib shows it: on one line, no mathematics in it, not too long."""
    text = "".join(c if c.isprintable() else " " for c in str(name))
    return (text if len(text) <= longest else text[: longest - 1] + "…").replace("$", r"\$")
