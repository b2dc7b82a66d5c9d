"""Pictures of the lasso paths, time against gap and a performance profile, and of growth."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from rows import SOLVED, Row
from units import AXES, GROWTH_FIT, GROWTH_SURFACE, PATH, SETTINGS, growth_name

from msmtfl._runtime.drawing import (
    BLUE,
    DARK,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    TEXT,
    YELLOW,
    new_figure,
    pyplot,
    quiet,
)

LOOK = {  # colour, marker
    "msmtfl": (BLUE, "*"),
    "scikit-learn": (ORANGE, "o"),
    "celer": (GREEN, "s"),
    "skglm": (PURPLE, "^"),
    "adelie": (SKY, "D"),
    "skein": (YELLOW, "v"),
    "glmnet": (DARK, "P"),
    "FISTA": (GREY, "X"),
}
LEAST_GAP = 1e-16  # below that it is rounding


def draw(rows: Iterable[Row], folder: Path) -> list[Path]:
    """The files, SVG; the same as PNG beside them."""
    rows = [row for row in rows if row.seconds is not None]
    done = [row for row in rows if row.work == PATH and row.setting != "solver alone"]
    out = []
    with pyplot().rc_context(TEXT):
        for name, picture, some in (
            ("time_gap", time_against_gap, done),
            ("profile", profile, done),
            ("growth", growth, [row for row in rows if row.work in (GROWTH_FIT, GROWTH_SURFACE)]),
        ):
            figure = picture(some) if some else None
            if figure is not None:
                figure.savefig(folder / f"{name}.png", dpi=150)
                out.append(folder / f"{name}.svg")
                figure.savefig(out[-1], metadata={"Date": None})
    return out


def growth(rows: list[Row]):
    """A panel per axis: seconds against the size, on log axes, with the slope of a straight line through them."""
    times = {(row.problem, row.work): row.seconds for row in rows}
    figure, panels = new_figure(1, len(AXES), 2.8 * len(AXES), 2.8)
    for panel, (axis, sizes, fixed) in zip(panels.ravel(), AXES):
        for work, colour in ((GROWTH_FIT, BLUE), (GROWTH_SURFACE, ORANGE)):
            found = [(size, times.get((growth_name({**fixed, axis: size}), work))) for size in sizes]
            x, y = np.array([pair for pair in found if pair[1] is not None]).reshape(-1, 2).T
            if len(x) > 1:
                slope = np.polyfit(np.log(x), np.log(y), 1)[0]
                panel.loglog(x, y, "o-", color=colour, lw=1, ms=4, label=f"{work.split(', ')[1]}: {slope:.2f}")
        panel.set_xticks([sizes[0], sizes[-1]], [f"{size:,}" for size in (sizes[0], sizes[-1])])
        for one in (panel.xaxis, panel.yaxis):
            one.set_minor_formatter("")
        panel.set_xlabel(f"{axis}  ({', '.join(f'{name} = {value:,}' for name, value in fixed.items())})")
        if panel.lines:
            panel.legend(title="slope", frameon=False, fontsize=8)
    panels.ravel()[0].set_ylabel("seconds")
    figure.suptitle("Time grows linearly with tasks and rows", x=0.01, ha="left")
    return figure


def time_against_gap(rows: list[Row]):
    """A panel per problem with several tolerances; down and to the left is better."""
    problems = [
        problem
        for problem in dict.fromkeys(row.problem for row in rows)
        if any(row.setting not in ("", "usual") for row in rows if row.problem == problem)
    ]
    if not problems:
        return None
    columns = min(4, len(problems))
    figure, panels = new_figure(
        -(-len(problems) // columns), columns, 2.6 * columns, 2.5 * -(-len(problems) // columns)
    )
    for panel, problem in zip(panels.ravel(), problems):
        for solver, (colour, mark) in LOOK.items():
            of_solver = [row for row in rows if row.problem == problem and row.solver == solver and row.gap is not None]
            of_solver.sort(key=lambda row: ("", *SETTINGS).index(row.setting))
            gaps = [max(row.gap, LEAST_GAP) for row in of_solver]
            size = 12 if solver == "msmtfl" else 4
            style = {"ls": "-", "lw": 1, "ms": size, "zorder": 3 if solver == "msmtfl" else 2}
            panel.loglog(gaps, [row.seconds for row in of_solver], color=colour, marker=mark, label=solver, **style)
        panel.margins(y=0.15)
        panel.set(title=problem, xlim=(LEAST_GAP / 4, 1e-2), xticks=[1e-16, 1e-12, 1e-8, 1e-4])
        quiet(panel)
    for panel in panels.ravel()[len(problems) :]:
        panel.set_visible(False)
    for panel in panels[:, 0]:
        panel.set_ylabel("seconds")
    for panel in panels[-1]:
        panel.set_xlabel("relative duality gap")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def profile(rows: list[Row]):
    """On which share of the problems a solver, at its usual tolerance, is within a factor of the fastest."""
    usual = {
        (row.problem, row.solver): row.seconds for row in rows if row.setting in ("", "usual") and row.solved(SOLVED)
    }
    problems = list(dict.fromkeys(problem for problem, _ in usual))
    best = {problem: min(t for (other, _), t in usual.items() if other == problem) for problem in problems}
    figure, panels = new_figure(1, 1, 5.2, 3.0)
    panel = panels[0, 0]
    factors = {s: sorted(t / best[problem] for (problem, name), t in usual.items() if name == s) for s in LOOK}
    most = 1.3 * max(max(values, default=1.0) for values in factors.values())
    for solver, values in factors.items():
        if values:
            x = np.array([1.0, *values, most])
            y = np.array([0, *range(1, len(values) + 1), len(values)]) / len(problems)
            colour, _ = LOOK[solver]
            panel.step(x, y, where="post", color=colour, lw=2.2 if solver == "msmtfl" else 1.2, label=solver)
    panel.set(xscale="log", xlabel="times the fastest", ylabel="share of problems", xlim=(0.95, most), ylim=(0, 1.03))
    panel.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    quiet(panel)
    return figure
