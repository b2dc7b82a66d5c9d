"""Other starting points for Algorithm 1, on the paper's synthetic settings.

The paper says that "different initializations usually lead to different solutions", and starts at 0, where stage 1 is the
lasso. Here it also starts from random sets of features that stage 1 leaves un-penalised, from the regressions on single
features, and, which no one could in practice, from the truth (:func:`msmtfl.theory.check_starts`). theta is 50 m lam in
units of shrinkage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._estimators.msmtfl.fit import MSMTFL
from ..._runtime.drawing import BLUE, DARK, GREEN, GREY, ORANGE, new_figure, quiet
from ...metrics import parameter_error
from ..theory.starts import check_starts
from .base import CONTROL, Cell, Claim, Experiment, Row, below, markdown, select, values, verdict
from .settings import SETTINGS, Setting

ZERO, ALONE, RANDOM, TRUTH = "0 (the paper's)", "each feature alone", "random sets", "the truth"
KINDS: dict[str, dict[str, Any]] = {  # where 0 and the truth end alike, a cross is in a ring
    ALONE: {"color": GREEN, "marker": "s", "s": 12, "alpha": 0.6, "lw": 0},
    RANDOM: {"color": GREY, "marker": "o", "s": 12, "alpha": 0.6, "lw": 0},
    ZERO: {"edgecolors": BLUE, "facecolors": "none", "marker": "o", "s": 40, "lw": 1.0},
    TRUTH: {"color": ORANGE, "marker": "x", "s": 14, "lw": 1.0},
}
DIFFERENT = "different initializations usually lead to different solutions"


@dataclass(frozen=True)
class Starts(Experiment):
    name = "starts"
    title = "Algorithm 1 from other starting points"
    settings: tuple[Setting, ...] = SETTINGS
    alpha: float = 2e-4
    ratio: float = 50.0
    starts: int = 10
    runs: int = 10

    def quick(self) -> Starts:
        return replace(self, runs=2, starts=5)

    def cells(self) -> list[Cell]:
        return [
            Cell(f"run{run:02}-setting{s + 1}", 1000 * s + run, (run, s))
            for run in range(self.runs)
            for s in range(len(self.settings))
        ]

    def work(self, cell: Cell) -> list[Row]:
        run, s = cell.where
        setting = self.settings[s]
        X, y, task, true = setting.sample(cell.seed)
        lam = setting.lam(self.alpha)
        theta = setting.theta("scale-aware", self.ratio, lam)
        model = MSMTFL(lam, theta, max_stages=100, fit_intercept=False).fit(X, y, task=task)
        found = check_starts(model, X, y, task=task, starts=self.starts, others={TRUTH: true}, random_state=cell.seed)
        names: Row = {"setting": str(setting), "run": run, "seed": cell.seed, "lam": lam, "theta": theta}
        kinds = {"0, the lasso first": ZERO, ALONE: ALONE, TRUTH: TRUTH}
        return [
            names
            | {
                "start": one.start,
                "kind": kinds.get(one.start, RANDOM),
                "free_first": one.began,
                "free_last": len(one.free_rows),
                "objective": one.objective,
                "error": parameter_error(true, one.coef),
                "moved": one.moved,
                "changed": one.changed,
                "result": one.result,
                "n_stages": one.n_stages,
                "converged": bool(one.converged),
            }
            for one in found.runs
        ]

    # ---------------------------------------------------------------- what they say

    def draw(self, rows: list[Row]) -> Any:
        from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

        settings = values(rows, "setting")
        figure, axes = new_figure(1, len(settings), 3.4 * len(settings), 3.4, sharex=True, sharey=True)
        handles: dict[str, Any] = {}
        for axis, setting in zip(axes[0], settings, strict=True):
            quiet(axis)
            for kind, look in KINDS.items():
                found = select(rows, setting=setting, kind=kind)
                x, y = [row["objective"] for row in found], [row["error"] for row in found]
                handles[kind] = axis.scatter(x, y, label=kind, **look)
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.set_xlabel("objective (1) at the end")
            axis.set_title(setting, color=DARK)
        axes[0, 0].set_ylabel("error (2,1-norm)")
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
        figure.suptitle(f"Where Algorithm 1 ends, by where it starts: {self.runs} runs", x=0.01, ha="left")
        return figure

    def table(self, rows: list[Row]) -> str:
        body = []
        for setting in values(rows, "setting"):
            for kind in KINDS:
                found = select(rows, setting=setting, kind=kind)
                middle = {name: np.median([row[name] for row in found]) for name in ("objective", "error", "moved")}
                same = sum(row["result"] == 0 for row in found)
                shown = (f"{middle['objective']:.3g}", f"{middle['error']:.3g}", f"{100 * middle['moved']:.0f} %")
                body.append((setting, kind, len(found), f"{same} of {len(found)}", *shown))
        head = ("setting", "start", "fits", "ends where 0 does", "objective", "error", "coefficients moved")
        text = (
            f"Medians over {self.runs} runs. Coefficients moved: how far they are from where the start 0 ends, over "
            "their size there.\n\n"
        )
        return text + markdown(head, body) + "\n"

    def claims(self, rows: list[Row]) -> list[Claim]:
        out = []
        for setting in values(rows, "setting"):
            found = select(rows, setting=setting)
            random = select(found, kind=RANDOM)
            away = [row["result"] != 0 for row in random]
            told = f"{sum(away)} of {len(away)} random starts end elsewhere than 0 does"
            moved = [row["moved"] for row, other in zip(random, away, strict=True) if other]
            told += (
                f"; coefficients then differ by {100 * np.median(moved):.0f} % of their size (median)" if moved else ""
            )
            by_run = [np.mean([row["result"] != 0 for row in select(random, run=run)]) for run in values(random, "run")]
            alone = [row["result"] != 0 for row in select(found, kind=ALONE)]
            told += f"; of the starts from each feature alone {sum(alone)} of {len(alone)}"
            held = verdict([below(0.5 - np.array(by_run))])  # usually: more than every second
            out.append(Claim(DIFFERENT, setting, held, told))
            for name, words in (("objective", "objective"), ("error", "estimation error")):
                out.append(self._best(found, setting, name, words))
        return out

    def _best(self, found: list[Row], setting: str, name: str, words: str) -> Claim:
        """Whether 0 is at least as good as all starts that one could make without the truth."""
        held, ratios = [], []
        for run in values(found, "run"):
            at = select(found, run=run)
            mine = select(at, kind=ZERO)[0][name]
            others = [row[name] for row in at if row["kind"] in (ALONE, RANDOM)]
            held.append(mine <= min(others) * (1 + 1e-6))
            ratios.append(np.median(others) / mine)
        told = (
            f"in {sum(held)} of {len(held)} runs; the median of the others is {np.median(ratios):.3g} times that of 0"
        )
        what = f"of all starts but the truth, 0 ends at the smallest {words}"
        return Claim(what, setting, verdict(held), told, CONTROL)
