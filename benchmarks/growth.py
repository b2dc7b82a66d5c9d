"""How time grows with the number of tasks m, of rows per task n and of features d: a fit, and a (lam, theta) surface.

    python benchmarks/growth.py [--repeats 3] [--only m n d] [--figures FOLDER]

Gaussian designs with 10 relevant features. One of m, n and d runs over a decade while the others stay; a slope is that of a
straight line through log(seconds) against log(size). The fit is MSMTFL at a lam and a theta that leave the same features
free at all sizes (lam is proportional to 1/m, theta to m); the surface has 10 lams, down to a tenth of the first, and 3
thetas. One thread, data in memory, rows sorted by task, best of --repeats in interleaved rounds. m and n are to have a slope
of 1.0 +- 0.15. That of d is for information: with more rows than features whole Gram matrices are formed (up to 2), with
fewer only the rows that are needed (about 1). Figures need matplotlib.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msmtfl import MSMTFL, regularization_surface
from msmtfl.drawing import BLUE, GREY, ORANGE, TEXT, new_figure, pyplot, quiet

RELEVANT = 10
SLACK = 0.15
RATIOS = [50.0, 10.0, 4.0]


@dataclass(frozen=True)
class Axis:
    """What grows, from where to where, and what stays; which slope it should have."""

    name: str
    sizes: list[int]
    fixed: dict[str, int]
    slope: float | None = None


AXES = [
    Axis("m", [10, 18, 32, 56, 100], {"n": 5_000, "d": 100}, 1.0),
    Axis("n", [20_000, 36_000, 63_000, 112_000, 200_000], {"m": 2, "d": 100}, 1.0),
    Axis("d", [100, 180, 320, 560, 1_000], {"m": 4, "n": 10_000}),
    Axis("d", [2_000, 3_600, 6_300, 11_200, 20_000], {"m": 4, "n": 500}),
]


def made(m: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y, task: the same relevant features in all tasks, each with coefficients of its own, between 1 and 2."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    W = rng.uniform(1.0, 2.0, (m, RELEVANT)) * rng.choice([-1.0, 1.0], (m, RELEVANT))
    return X, (X[:, :RELEVANT] * W[task]).sum(axis=1) + rng.standard_normal(m * n), task


def jobs(X: np.ndarray, y: np.ndarray, task: np.ndarray) -> dict[str, Callable[[], object]]:
    m = int(task[-1]) + 1
    return {
        "fit": lambda: MSMTFL(lam=0.5 / m, theta=0.5 * m).fit(X, y, task=task),
        "surface": lambda: regularization_surface(X, y, task=task, lams=10, lam_min_ratio=0.1, theta_ratios=RATIOS),
    }


def seconds(axis: Axis, repeats: int) -> dict[str, np.ndarray]:
    """Least seconds of every job, (sizes,); a first round is not counted."""
    out = {name: np.full(len(axis.sizes), np.inf) for name in ("fit", "surface")}
    for round_ in range(repeats + 1):
        for k, size in enumerate(axis.sizes):
            for name, job in jobs(*made(**axis.fixed, **{axis.name: size})).items():
                began = time.perf_counter()
                job()
                if round_:
                    out[name][k] = min(out[name][k], time.perf_counter() - began)
    return out


def slope(sizes: list[int], times: np.ndarray) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def line(axis: Axis, what: str, times: np.ndarray) -> str:
    fixed = ", ".join(f"{name}={size:,}" for name, size in axis.fixed.items())
    found = slope(axis.sizes, times)
    bar = "" if axis.slope is None else f"{axis.slope} +- {SLACK}"
    verdict = "" if axis.slope is None else "OK" if abs(found - axis.slope) <= SLACK else "SHORT"
    shown = ", ".join(f"{1e3 * value:.0f}" for value in times)
    cells = [what, f"{axis.name} = {axis.sizes[0]:,} to {axis.sizes[-1]:,}", fixed, shown, f"{found:.2f}", bar, verdict]
    return "| " + " | ".join(cells) + " |"


def draw(measured: list[dict[str, np.ndarray]], axes: list[Axis], file: Path) -> None:
    with pyplot().rc_context(TEXT):
        figure, panels = new_figure(1, len(axes), 2.6 * len(axes), 2.8, sharey=True)
        for panel, axis, of_axis in zip(panels[0], axes, measured, strict=True):
            for (what, times), colour, mark in zip(of_axis.items(), (BLUE, ORANGE), "os", strict=True):
                label = f"{what}: slope {slope(axis.sizes, times):.2f}"
                panel.loglog(axis.sizes, times, mark + "-", color=colour, ms=4, label=label)
            ends = np.array([axis.sizes[0], axis.sizes[-1]])
            panel.loglog(ends, 0.7 * of_axis["fit"][0] * ends / ends[0], ":", color=GREY, label="slope 1")
            panel.set(xlabel=axis.name, title=", ".join(f"{name} = {size:,}" for name, size in axis.fixed.items()))
            panel.set_xticks(axis.sizes[::2], [f"{size:,}" for size in axis.sizes[::2]])
            panel.set_yticks([0.01, 0.1, 1.0, 10.0], ["0.01", "0.1", "1", "10"])
            panel.minorticks_off()
            panel.legend(frameon=False, loc="upper left")
            quiet(panel)
        panels[0][0].set(ylabel="seconds, one thread", ylim=(0.01, 10.0))
        figure.savefig(file, dpi=150)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=["m", "n", "d"])
    parser.add_argument("--figures", type=Path)
    options = parser.parse_args()
    axes = [axis for axis in AXES if options.only is None or axis.name in options.only]
    measured = []
    print("| what | grows | stays | ms | slope | to reach | |\n" + "|---" * 7 + "|")
    for axis in axes:
        measured.append(seconds(axis, options.repeats))
        for what, times in measured[-1].items():
            print(line(axis, what, times), flush=True)
    if options.figures is not None:
        options.figures.mkdir(parents=True, exist_ok=True)
        draw(measured, axes, options.figures / "growth.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
