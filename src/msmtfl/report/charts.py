"""The pictures that move, by Bokeh: plots as JSON for the page, with what its script needs to know of them.

Rows and columns are whole numbers here, the first row on top; the script writes names beside them where there is room.
Colours come from the style sheet, by the names of the renderers, so that they follow the page from light to dark.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..comparison import CLEAR, Comparison
from ..designs import Floats, Ints
from ..drawing import NAMED
from ..plots import GainDisplay, SurfaceDisplay
from ..views import SearchGrid
from .facts import ModelFacts, _chosen
from .words import number, symbol

MAP_CELLS = 600_000  # cells of the coefficient map over all stages: 3 MB of the page
MAP_FEATURES = 300
MAP_TASKS = 400
Chart = dict[str, Any]


def bokeh_script() -> str:
    """The library itself, for the page."""
    try:
        from bokeh.resources import Resources
    except ImportError as error:
        raise ImportError("a report needs bokeh, jinja2 and matplotlib: pip install msmtfl[report].") from error
    return str(Resources(mode="inline", components=["bokeh"], minified=True).js_raw[0])


def coefficient_map(facts: ModelFacts) -> Chart:
    """Features x tasks at every stage, scaled to [-1, 1]."""
    from bokeh.models import ColorBar, ColumnDataSource, FixedTicker, HoverTool, LinearAxis, LinearColorMapper, Span

    frames, every = facts.frames, facts.ever_used
    tasks = _chosen(np.arange(facts.m), np.asarray(facts.model.n_samples_, dtype=np.float64), MAP_TASKS)
    most = max(min(MAP_FEATURES, MAP_CELLS // (len(tasks) * len(frames))), 1)
    rows = _chosen(every, np.max([np.abs(frame.coef).sum(axis=0) for frame in frames], axis=0), most)
    shape = (len(rows), len(tasks))
    scale = max(float(np.abs(frame.coef[:, rows]).max(initial=0.0)) for frame in frames) or 1.0
    plot = _figure("map", shape[1], shape[0], min(max(14 * shape[0], 120), 1300) + 110)
    plot.xaxis.visible = False
    plot.xgrid.ticker = FixedTicker(ticks=list(range(1, shape[1])) if shape[1] <= NAMED else [])
    plot.add_layout(LinearAxis(name="columns", ticker=FixedTicker(ticks=[])), "above")
    colours = LinearColorMapper(
        name="diverging", palette=["#000", "#fff"], low=-scale, high=scale, nan_color=(0, 0, 0, 0)
    )
    image = np.full(shape, np.nan, dtype=np.float32)
    source = ColumnDataSource({"image": [image], "x": [0], "y": [0], "dw": [shape[1]], "dh": [shape[0]]}, name="cells")
    cells = plot.image("image", x="x", y="y", dw="dw", dh="dh", source=source, color_mapper=colours)
    plot.add_tools(HoverTool(tooltips=None, renderers=[cells], visible=False))
    starts, groups = _runs(facts.groups(rows))
    ends = [*starts[1:], shape[0]]
    middle = [shape[0] - (start + end) / 2 for start, end in zip(starts, ends, strict=True)]
    said = {"freed": "freed", "all": f"{every(facts.m)} tasks", "some": "some tasks", "unused": "unused"}
    said["one"] = "one task" if facts.m > 1 else "used"
    side = LinearAxis(name="groups", ticker=FixedTicker(ticks=middle), major_tick_line_color=None, axis_line_color=None)
    side.major_label_overrides = {place: said[group] for place, group in zip(middle, groups, strict=True)}
    plot.add_layout(side, "right")
    for start in starts[1:]:
        plot.add_layout(Span(location=shape[0] - start, dimension="width", line_width=1, name="rule"))
    bar = ColorBar(
        color_mapper=colours,
        orientation="horizontal",
        location="bottom_left",
        width=260,
        height=8,
        name="bar",
        padding=4,
    )
    bar.title = "coefficient, in the data's units (blank: exactly 0)"
    plot.add_layout(bar, "below")
    return {
        "item": _item(plot),
        "rows": [str(name) for name in facts.sharing.features[rows]],
        "columns": [str(label) for label in facts.model.tasks_[tasks]],
        "scale": scale,
        "frames": [
            {
                "title": frame.title,
                "free": len(frame.free_rows),
                "freed": np.flatnonzero(np.isin(rows, frame.free_rows)).tolist(),
                "features": int(frame.coef.any(axis=0).sum()),
                "entries": int(np.count_nonzero(frame.coef)),
                "cells": _packed(frame.coef[np.ix_(tasks, rows)].T / scale),
            }
            for frame in frames
        ],
        "left_out": {"features": len(every) - len(rows), "unused": facts.d - len(every), "tasks": facts.m - len(tasks)},
    }


def surface_chart(display: SurfaceDisplay) -> Chart:
    """Held-out error over the grid, as cells; of a single column as a curve."""
    return _surface(display.grid, display.images_[0].norm) if display.images_ else _curve(display.grid)


def _surface(grid: SearchGrid, norm: Any) -> Chart:
    from bokeh.models import ColorBar, ColumnDataSource, HoverTool, LinearColorMapper
    from bokeh.palettes import Viridis256

    K, L = grid.lams.shape
    ends = float(norm.vmin), float(norm.vmax)
    steps = np.rint(255 * np.asarray(norm(np.linspace(*ends, 256)))).astype(int)
    palette = [(Viridis256 if grid.greater_is_better else Viridis256[::-1])[k] for k in steps]
    colours = LinearColorMapper(palette=palette, low=ends[0], high=ends[1], nan_color="#888888")
    order = np.argsort(grid.lams, axis=0)
    lams = np.take_along_axis(grid.lams, order, axis=0)
    logs = np.log10(lams)
    half = np.diff(logs, axis=0) / 2 if K > 1 else np.full((1, L), 0.1)
    low = logs - np.concatenate([half[:1], half], axis=0)[:K]
    high = logs + np.concatenate([half, half[-1:]], axis=0)[:K]
    y = np.broadcast_to(0.5 + np.arange(L), (K, L))
    data = {
        "left": 10 ** low.ravel(),
        "right": 10 ** high.ravel(),
        "bottom": (y - 0.46).ravel(),
        "top": (y + 0.46).ravel(),
        "value": np.take_along_axis(grid.values, order, axis=0).ravel(),
        "tip": _points(grid, order).ravel().tolist(),
    }
    plot = _figure("surface", (10 ** high.max(), 10 ** low.min()), L, 28 * L + 170, x_axis_type="log")
    cells = plot.quad(
        "left", "right", "top", "bottom",
        source=ColumnDataSource(data), color={"field": "value", "transform": colours},
    )  # fmt: skip
    plot.add_tools(HoverTool(tooltips=None, renderers=[cells], visible=False))
    if grid.within is not None:
        k, l = np.nonzero(grid.within)
        plot.scatter(
            grid.lams[k, l], l + 0.5, size=4, name="within", line_color=None, fill_color="white", fill_alpha=0.9
        )
    k, l = grid.chosen
    plot.scatter(
        [grid.lams[k, l]], [l + 0.5], size=20, marker="star", fill_color="white", line_color="black", name="chosen"
    )
    plot.xaxis.axis_label = f"{symbol(grid.strength)}, the strength of the penalty (weaker to the right)"
    bar = ColorBar(
        color_mapper=colours,
        orientation="horizontal",
        location="bottom_left",
        width=260,
        height=8,
        padding=4,
        title=grid.measure,
    )
    plot.add_layout(bar, "below")
    return {"item": _item(plot), "rows": list(grid.levels)[::-1]}


def _curve(grid: SearchGrid) -> Chart:
    from bokeh.models import ColumnDataSource, HoverTool

    order = np.argsort(grid.lams, axis=0)
    x, y = (np.take_along_axis(values, order, axis=0).ravel() for values in (grid.lams, grid.values))
    se = np.zeros(len(x)) if grid.se is None else np.take_along_axis(grid.se, order, axis=0).ravel()
    finite = np.isfinite(y)
    low, high = float((y - se)[finite].min()), float((y + se)[finite].max())
    pad = 0.06 * (high - low or 1.0)
    plot = _figure("surface", (x[-1] * 1.1, x[0] / 1.1), (low - pad, high + pad), 340, x_axis_type="log")
    plot.segment(x, y - se, x, y + se, name="whisker", line_width=1)
    plot.line(x, y, name="line", line_width=1)
    tips = _points(grid, order).ravel().tolist()
    dots = plot.scatter("x", "y", source=ColumnDataSource({"x": x, "y": y, "tip": tips}), size=6, name="better")
    plot.add_tools(HoverTool(tooltips=None, renderers=[dots], visible=False))
    k, l = grid.chosen
    plot.scatter([grid.lams[k, l]], [grid.values[k, l]], size=20, marker="star", name="chosen")
    plot.xaxis.axis_label = f"{symbol(grid.strength)}, the strength of the penalty (weaker to the right)"
    plot.yaxis.axis_label = grid.measure
    return {"item": _item(plot)}


def _points(grid: SearchGrid, order: Ints) -> np.ndarray:
    """(K, L): what a point of the grid is, in words."""
    out = np.empty(grid.lams.shape, dtype=object)
    for k, l in np.ndindex(out.shape):
        at = order[k, l], l
        level = f", {symbol(grid.level_name)} = {grid.levels[l]}" if out.shape[1] > 1 else ""
        spread = "" if grid.se is None else f" ± {number(grid.se[at], 2)}"
        mark = " (chosen)" if at == tuple(grid.chosen) else ""
        out[k, l] = (
            f"{symbol(grid.strength)} = {number(grid.lams[at])}{level}: {grid.measure} {number(grid.values[at])}{spread}{mark}"
        )
    return out


def gain_chart(display: GainDisplay) -> Chart:
    """What each task gains or loses by sharing, the largest gain on top."""
    return _differences("gains", display.tasks, display.difference, display.reach)


def models_chart(result: Comparison) -> Chart:
    """The models' errors less that of the reference."""
    return _differences("models", result.models, result.difference, CLEAR * result.se)


def _differences(name: str, names: Sequence[Any], change: Floats, reach: Floats) -> Chart:
    from bokeh.models import ColumnDataSource, HoverTool, Span

    place = np.argsort(change, kind="stable")
    place = place[np.isfinite(change[place])]
    n = len(place)
    change, reach = change[place], np.nan_to_num(reach[place])
    kinds = np.where(change < -reach, "better", np.where(change > reach, "worse", "unclear"))
    ends = np.concatenate([change - reach, change + reach, [0.0]])
    pad = 0.04 * (np.ptp(ends) or 1.0)
    plot = _figure(name, (ends.min() - pad, ends.max() + pad), n, min(max(20 * n, 60), 640) + 60)
    plot.add_layout(Span(location=0, dimension="height", line_width=1, name="zero"))
    dots = []
    for kind in ("unclear", "better", "worse"):
        at = np.flatnonzero(kinds == kind)
        y = n - 0.5 - at
        plot.segment((change - reach)[at], y, (change + reach)[at], y, line_width=1.5 if n <= 60 else 0.8, name=kind)
        tips = [f"{names[place[i]]}: {number(change[i], 2)} ± {number(reach[i], 2)}" for i in at]
        source = ColumnDataSource({"x": change[at], "y": y, "tip": tips})
        dots.append(plot.scatter("x", "y", source=source, size=8 if n <= 60 else 5, name=kind))
    plot.add_tools(HoverTool(tooltips=None, renderers=dots, mode="hline" if n <= 60 else "mouse", visible=False))
    plot.xaxis.axis_label = "difference in nMSE (left: better)"
    return {"item": _item(plot), "rows": [str(names[i]) for i in place]}


# ------------------------------------------------------------------ what all share


def _figure(name: str, columns: Any, rows: Any, height: int, **options: Any) -> Any:
    """A plot; `columns` and `rows` are how many there are, or the ends of an axis of numbers."""
    from bokeh.models import FixedTicker, Range1d
    from bokeh.plotting import figure

    x, y = (Range1d(0, end) if np.ndim(end) == 0 else Range1d(*map(float, end)) for end in (columns, rows))
    plot = figure(
        name=name,
        x_range=x,
        y_range=y,
        height=int(height),
        sizing_mode="stretch_width",
        tools="box_zoom,pan,reset,save",
        active_drag=None,
        **options,
    )
    plot.toolbar.logo = None
    plot.toolbar.autohide = True
    if np.ndim(rows) == 0:
        plot.yaxis.name = "rows"
        plot.yaxis.ticker = FixedTicker(ticks=[])
        plot.ygrid.visible = False
    return plot


def _item(plot: Any) -> Any:
    from bokeh.embed import json_item

    return json_item(plot)


def _packed(cells: Floats) -> str:
    """float32 in base64, the last row first; zeros are NaN, which is drawn as nothing."""
    values = np.where(cells == 0.0, np.nan, cells)[::-1]
    return base64.b64encode(values.astype("<f4").tobytes()).decode()


def _runs(groups: Sequence[str]) -> tuple[list[int], list[str]]:
    """Where stretches of equals begin, and what they are."""
    starts = [k for k, group in enumerate(groups) if k == 0 or group != groups[k - 1]]
    return starts, [groups[k] for k in starts]
