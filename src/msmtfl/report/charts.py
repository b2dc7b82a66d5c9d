"""The pictures that move, by Bokeh: plots as JSON for the page, with what its script needs to know of them.

Rows and columns are whole numbers here; the script writes names beside them where there is room. Colours come from the
style sheet, by the names of the parts, so that they follow the page from light to dark.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._data.designs import Floats, Ints
from .._runtime.drawing import NAMED, bulk, log_edges
from ..compare.comparison import CLEAR, Comparison
from ..plots.grids import GainDisplay, SurfaceDisplay
from ..plots.views import SearchGrid
from .known.facts import ModelFacts, largest
from .words import every, number, symbol

MAP_CELLS = 600_000  # of the coefficient map over all stages: 3 MB of the page
MAP_FEATURES = 300
LONGEST = 18  # letters of a task's name above the map
WIDTH = 600  # pixels of a map on a large screen, about
LETTER = 6  # pixels of one, where names stand upright
MAP_TASKS = 400
MAP_CROSSES = 5000  # cells in which nothing could be learned up to which they have a cross
MANY = 60  # rows from which on marks are small
STRENGTH = "{}, the strength of the penalty (weaker to the right)"

Chart = dict[str, Any]


def bokeh(part: str) -> Any:
    """A module of Bokeh, or what to install."""
    try:
        return importlib.import_module(f"bokeh.{part}")
    except ImportError as error:
        raise ImportError('a report needs bokeh, jinja2 and matplotlib: pip install "msmtfl[report]".') from error


def library() -> str:
    """Bokeh's script, for the page."""
    return str(bokeh("resources").Resources(mode="inline", components=["bokeh"], minified=True).js_raw[0])


# ------------------------------------------------------------------ coefficients


def coefficient_map(facts: ModelFacts) -> Chart:
    """Features x tasks at every stage, for every class if there are more than two; the features with the largest row
    norms, as in the still picture. Cells are scaled to [-1, 1], `scale` undoes it; the script gives each row its own
    scale where the page asks for it, and adds up the sizes over classes."""
    models, frames, used = bokeh("models"), facts.frames, facts.ever_used
    tasks, K = largest(facts.task_order, facts.n_samples, MAP_TASKS), facts.K
    most = max(min(MAP_FEATURES, MAP_CELLS // (len(tasks) * len(frames) * K)), 1)
    rows = largest(used, facts.sharing.row_norms, most)
    p, m = len(rows), len(tasks)
    scale = max(float(np.abs(frame.coef[..., rows]).max()) for frame in frames)
    constant = np.zeros((p, m), dtype=bool)
    if facts.sharing.learnable is not None:
        constant = ~facts.sharing.learnable[np.ix_(tasks, rows)].T & ~facts.sharing.support[np.ix_(tasks, rows)].T
    longest = min(max(len(str(label)) for label in facts.model.tasks_[tasks]), LONGEST)
    upright = LETTER * longest if 7 * longest * m > WIDTH else 0  # names of tasks stand there
    plot = _figure("map", m, p, min(max(14 * p, 120), 1300) + 110 + upright)
    plot.xaxis.visible = False
    plot.xgrid.ticker = _at(range(1, m) if m <= NAMED else [])
    plot.add_layout(models.LinearAxis(name="columns", ticker=_at([])), "above")
    colours = models.LinearColorMapper(
        name="diverging", palette=["black", "white"], low=-scale, high=scale, nan_color=(0, 0, 0, 0)
    )
    blank = np.full((p, m), np.nan, dtype=np.float32)
    source = models.ColumnDataSource({"image": [blank], "x": [0], "y": [0], "dw": [m], "dh": [p]}, name="cells")
    image = plot.image("image", x="x", y="y", dw="dw", dh="dh", source=source, color_mapper=colours)
    _hover(plot, image)
    row, column = np.nonzero(constant) if constant.sum() <= MAP_CROSSES else np.empty((2, 0))
    plot.scatter(column + 0.5, p - 0.5 - row, marker="x", size=6, name="constant")
    _mark_groups(plot, facts, rows)
    plot.add_layout(_colour_bar(colours, name="bar"), "below")
    return {
        "item": _item(plot),
        "rows": [str(name) for name in facts.sharing.features[rows]],
        "columns": [str(label) for label in facts.model.tasks_[tasks]],
        "scale": scale,
        "classes": facts.classes if K > 1 else [],
        "constant": np.flatnonzero(constant).tolist(),
        "frames": [
            {
                "title": frame.title,
                "free": len(frame.free_rows),
                "freed": np.flatnonzero(np.isin(rows, frame.free_rows)).tolist(),
                "features": int(frame.coef.any(axis=(0, 1)).sum()),
                "entries": int(np.count_nonzero(frame.coef)),
                "cells": [_packed(frame.coef[:, k][np.ix_(tasks, rows)].T / scale) for k in range(K)],
            }
            for frame in frames
        ],
    }


def _mark_groups(plot: Any, facts: ModelFacts, rows: Ints) -> None:
    """Lines between features that are shared by all, some and one, and these words beside them."""
    models, p, groups = bokeh("models"), len(rows), facts.groups(rows)
    starts = [k for k in range(p) if k == 0 or groups[k] != groups[k - 1]]
    middles = [p - (start + end) / 2 for start, end in zip(starts, [*starts[1:], p], strict=True)]
    tasks = facts.subject.tasks
    said = {"freed": "freed", "all": f"{every(facts.m)} {tasks}", "some": f"some {tasks}", "unused": "unused"}
    said["constant"] = "constant"
    said["one"] = f"one {facts.subject.task}" if facts.m > 1 else "used"
    words = models.LinearAxis(name="groups", ticker=_at(middles))
    words.major_label_overrides = {place: said[groups[k]] for place, k in zip(middles, starts, strict=True)}
    plot.add_layout(words, "right")
    for start in starts[1:]:
        plot.add_layout(models.Span(location=p - start, dimension="width", name="rule"))


def _packed(cells: Floats) -> str:
    """float32 in base64, the last row first; zeros are NaN, which is drawn as nothing."""
    values = np.where(cells == 0.0, np.nan, cells)[::-1]
    return base64.b64encode(values.astype("<f4").tobytes()).decode()


# ------------------------------------------------------------------ what a search found


def surface_chart(display: SurfaceDisplay) -> Chart:
    """Held-out error over the grid, as cells; of a single column as a curve."""
    return _surface(display.grid, display.images_[0].norm) if display.images_ else _curve(display.grid)


def _surface(grid: SearchGrid, norm: Any) -> Chart:
    models, L = bokeh("models"), grid.lams.shape[1]
    low, high = float(norm.vmin), float(norm.vmax)
    viridis = bokeh("palettes").Viridis256[:: 1 if grid.greater_is_better else -1]
    steps = np.rint(255 * np.asarray(norm(np.linspace(low, high, 256)))).astype(int)
    colours = models.LinearColorMapper(palette=[viridis[k] for k in steps], low=low, high=high, nan_color="#888888")
    cells = [_cells(grid, l) for l in range(L)]
    data = {name: np.concatenate([part[name] for part in cells]) for name in cells[0]}
    data["tip"] = np.concatenate([_tips(grid, l) for l in range(L)]).tolist()
    ends = (float(data["right"].max()), float(data["left"].min()))
    plot = _figure("surface", ends, L, 28 * L + 170, x_axis_type="log")
    source, paint = models.ColumnDataSource(data), {"field": "value", "transform": colours}
    _hover(plot, plot.quad("left", "right", "top", "bottom", source=source, color=paint))
    if grid.within is not None:
        k, l = np.nonzero(grid.within)
        plot.scatter(grid.lams[k, l], l + 0.5, size=4, color="white", alpha=0.9)
    at = tuple(grid.chosen)
    plot.scatter([grid.lams[at]], [at[1] + 0.5], size=20, marker="star", name="chosen")
    plot.xaxis.axis_label = STRENGTH.format(symbol(grid.strength))
    plot.yaxis.axis_label = symbol(grid.level_name)
    plot.add_layout(_colour_bar(colours, title=grid.measure), "below")
    return {"item": _item(plot), "rows": list(grid.levels)[::-1]}


def _cells(grid: SearchGrid, l: int) -> dict[str, Any]:
    """The rectangles of a column of the grid, lam rising: each reaches half way to the next on a log axis."""
    order = np.argsort(grid.lams[:, l])
    edges, K = log_edges(grid.lams[order, l]), len(order)
    return {
        "left": edges[:-1],
        "right": edges[1:],
        "bottom": np.full(K, l + 0.04),
        "top": np.full(K, l + 0.96),
        "value": grid.values[order, l],
    }


def _curve(grid: SearchGrid) -> Chart:
    models, order = bokeh("models"), np.argsort(grid.lams[:, 0])
    x, y = grid.lams[order, 0], grid.values[order, 0]
    se = np.zeros(len(x)) if grid.se is None else grid.se[order, 0]
    seen = np.isfinite(y)
    low, high = float((y - se)[seen].min()), float((y + se)[seen].max())
    pad = 0.06 * (high - low or 1.0)
    plot = _figure("surface", (1.1 * x[-1], x[0] / 1.1), (low - pad, high + pad), 340, x_axis_type="log")
    plot.segment(x, y - se, x, y + se, name="whisker")
    plot.line(x, y, name="line")
    source = models.ColumnDataSource({"x": x, "y": y, "tip": _tips(grid, 0)})
    _hover(plot, plot.scatter("x", "y", source=source, size=6, name="line"))
    at = tuple(grid.chosen)
    plot.scatter([grid.lams[at]], [grid.values[at]], size=20, marker="star", name="chosen")
    plot.xaxis.axis_label = STRENGTH.format(symbol(grid.strength))
    plot.yaxis.axis_label = grid.measure
    return {"item": _item(plot)}


def _tips(grid: SearchGrid, l: int) -> list[str]:
    """What the points of a column are, lam rising."""
    column = f", {symbol(grid.level_name)} = {grid.levels[l]}" if len(grid.levels) > 1 else ""
    out = []
    for k in np.argsort(grid.lams[:, l]):
        value = f"{grid.measure} {number(grid.values[k, l])}"
        if grid.se is not None:
            value += f" ± {number(grid.se[k, l], 2)}"
        mark = " (chosen)" if (k, l) == tuple(grid.chosen) else ""
        out.append(f"{symbol(grid.strength)} = {number(grid.lams[k, l])}{column}: {value}{mark}")
    return out


# ------------------------------------------------------------------ who gains and who loses


def gain_chart(display: GainDisplay) -> Chart:
    """What each task gains or loses by sharing, the largest gain on top."""
    clear = None if display.clear is None else display.clear != 0
    return _differences(display.tasks.tolist(), display.difference, display.reach, display.measure, clear)


def models_chart(result: Comparison) -> Chart:
    """The models' errors less that of the reference, the best on top."""
    clear = np.array([result.evidence(name).clear for name in result.models])
    return _differences(result.models, result.difference, CLEAR * result.se, result.measure.name, clear)


def _differences(
    names: Sequence[Any], change: Floats, reach: Floats, measure: str, clear: np.ndarray | None = None
) -> Chart:
    """`clear`: which differences count as such, by default those beyond their reach."""
    models, order = bokeh("models"), np.argsort(change, kind="stable")
    order = order[np.isfinite(change[order])]
    change, reach, n = change[order], reach[order], len(order)
    clear = np.abs(change) > reach if clear is None else clear[order]  # not where the reach is not known
    better, worse = clear & (change < 0), clear & (change > 0)
    kinds = {"unclear": ~better & ~worse, "better": better, "worse": worse}
    first, last = bulk(change, reach)
    ends = np.array([min(first, 0.0), max(last, 0.0)])
    low, high = (np.clip(change + sign * np.nan_to_num(reach), *ends) for sign in (-1, 1))
    beyond = (change < ends[0]) | (change > ends[1])
    plot = _figure("differences", tuple(ends), n, min(max(20 * n, 60), 640) + 60)
    plot.add_layout(models.Span(location=0, dimension="height", name="zero"))
    dots, size = [], 8 if n <= MANY else 5
    for kind, which in kinds.items():
        at = np.flatnonzero(which)
        plot.segment(low[at], n - 0.5 - at, high[at], n - 0.5 - at, line_width=1.5 if n <= MANY else 0.8, name=kind)
        for far in (False, True):
            at = np.flatnonzero(which & (beyond == far))
            data = {"x": np.clip(change[at], *ends), "y": n - 0.5 - at, "angle": -np.sign(change[at]) * np.pi / 2}
            data["tip"] = [f"{names[order[i]]}: {number(change[i], 2)} ± {number(reach[i], 2)}" for i in at]
            marker = {"marker": "triangle", "angle": "angle", "size": size + 4} if far else {"size": size}
            dots.append(plot.scatter("x", "y", source=models.ColumnDataSource(data), name=kind, **marker))
    _hover(plot, *dots)
    plot.xaxis.axis_label = f"difference in {measure} (left: better)"
    return {"item": _item(plot), "rows": [str(names[i]) for i in order], "beyond": bool(beyond.any())}


# ------------------------------------------------------------------ what all share


def _figure(name: str, columns: Any, rows: Any, height: int, **options: Any) -> Any:
    """A plot; `columns` and `rows` are how many there are, or the ends of an axis of numbers."""
    ranges = [(0.0, float(end)) if np.ndim(end) == 0 else (float(end[0]), float(end[1])) for end in (columns, rows)]
    plot = bokeh("plotting").figure(
        name=name,
        x_range=ranges[0],
        y_range=ranges[1],
        height=height,
        sizing_mode="stretch_width",
        tools="box_zoom,pan,reset,save",
        active_drag=None,  # a finger that moves over it scrolls the page
        **options,
    )
    plot.toolbar.logo = None
    plot.toolbar.autohide = True
    if np.ndim(rows) == 0:
        plot.yaxis.name = "rows"
        plot.yaxis.ticker = _at([])
        plot.ygrid.visible = False
    return plot


def _hover(plot: Any, *parts: Any) -> None:
    """Have these tell the script when the mouse is over them."""
    plot.add_tools(bokeh("models").HoverTool(tooltips=None, renderers=list(parts), visible=False))


def _at(places: Any) -> Any:
    return bokeh("models").FixedTicker(ticks=list(places))


def _colour_bar(colours: Any, **options: Any) -> Any:
    layout = {"orientation": "horizontal", "location": "bottom_left", "width": 260, "height": 8, "padding": 4}
    return bokeh("models").ColorBar(color_mapper=colours, **layout, **options)


def _item(plot: Any) -> Any:
    return bokeh("embed").json_item(plot)
