"""The paper's two synthetic experiments: error against stage (its Figure 1) and against lam (its Figure 2).

The text does not say in which units "theta = 50 m lam" is meant, so three readings are run side by side:

    literal      theta = r m lam              as printed
    scale-aware  theta = r m lam / rho_bar    = r m n lam on columns of length 1: the unit that lam shrinks by
    MATLAB       theta = r m (m n lam)        as in the authors' example, whose lambda is m n lam

with r = 50, 10, 2, 0.4. The text gives neither the three settings (m, n, d, sigma) nor the alphas (lam = alpha
sqrt(ln(d m) / n)): they stood in the figures. Those here are from memory: the authors' MATLAB example and what is
remembered of the published figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._data.tasks import read_training
from ..._estimators.coupled import SEARCH_SETTLED
from ..._estimators.msmtfl.fit import MSMTFL
from ..._objective.problem import Problem
from ..._paths.families.coupled_path import DirtyGrid, GroupGrid, RowGrid, solve_rows
from ..._runtime.drawing import DARK, YELLOW, new_figure, quiet
from ..._solvers.problems.make_problem import make_problem
from ...datasets import Sample
from ...metrics import parameter_error
from .base import CONTROL, Cell, Claim, Experiment, Row, below, every, markdown, select, values, verdict
from .curves import band, bar, blocks, curve, note, spread, style
from .settings import SETTINGS, Setting
from .truncated import truncated_stages

NOTE = (
    "Error is ||W - W_true||_2,1 = sqrt(sum over features of (sum over tasks of the absolute difference)^2). The paper's "
    "text gives neither the settings (m, n, d, sigma) nor the alphas: they stood in its figures. Those here are from "
    "memory, of the figures and of the authors' MATLAB example.\n"
)
ROUNDS = 300  # goes over the rows that a point of L1,2 or Dirty gets
READINGS = ("literal", "scale-aware", "MATLAB")
RATIOS = (50.0, 10.0, 2.0, 0.4)


@dataclass(frozen=True)
class Synthetic(Experiment):
    settings: tuple[Setting, ...] = SETTINGS
    readings: tuple[str, ...] = READINGS
    alphas: tuple[float, ...] = ()
    runs: int = 10

    def cells(self) -> list[Cell]:
        """One sample each; settings change fastest, so that the time left can be told early."""
        return [
            Cell(f"run{run:02}-setting{s + 1}", 1000 * s + run, (run, s))
            for run in range(self.runs)
            for s in range(len(self.settings))
        ]

    def _names(self, cell: Cell) -> tuple[Setting, Row]:
        run, s = cell.where
        return self.settings[s], {"setting": str(self.settings[s]), "run": run, "seed": cell.seed}


# ------------------------------------------------------------------ figure 1

EXACT, TRUNCATED = "exact", "truncated"
DECREASES = "the error decreases as l increases"
CONVERGES = "converges in a few stages"
NO_CAP = "no cap (theta = inf)"


@dataclass(frozen=True)
class Figure1(Synthetic):
    """Error against stage for MSMTFL, its stages solved exactly, and by a solver that is stopped early."""

    name = "figure1"
    title = "Figure 1: parameter estimation error against stage"
    alphas: tuple[float, ...] = (5e-5, 1e-4, 2e-4, 5e-4)
    ratio: float = 50.0
    stages: int = 10
    steps: int = 100  # FISTA steps a stage of the truncated runs

    def quick(self) -> Figure1:
        return replace(self, runs=2, alphas=(1e-4, 5e-4))

    def work(self, cell: Cell) -> list[Row]:
        setting, names = self._names(cell)
        sample = setting.sample(cell.seed)
        Xs, ys = _by_task(sample)
        out: list[Row] = []
        for alpha in self.alphas:
            lam = setting.lam(alpha)
            for reading in (*self.readings, NO_CAP):
                theta = np.inf if reading == NO_CAP else setting.theta(reading, self.ratio, lam)
                point = names | {"alpha": alpha, "lam": lam, "reading": reading, "theta": theta}
                out += [point | row for row in self._exact(sample, lam, theta)]
                found = truncated_stages(Xs, ys, lam, theta, stages=self.stages, steps=self.steps)
                out += [
                    point | {"solver": TRUNCATED, "stage": l + 1, "error": parameter_error(sample.coef, W)}
                    for l, W in enumerate(found)
                ]
        return out

    def _exact(self, sample: Sample, lam: float, theta: float) -> Iterator[Row]:
        """A stage after the last one would repeat it."""
        X, y, task, true = sample
        model = MSMTFL(lam, theta, max_stages=self.stages, fit_intercept=False).fit(X, y, task=task)
        for l in range(self.stages):
            stage = model.stages_[min(l, model.n_stages_ - 1)]
            yield {
                "solver": EXACT,
                "stage": l + 1,
                "error": parameter_error(true, stage.coef),
                "repeats": l >= model.n_stages_,
                "free_rows": len(stage.free_rows),
                "dual_gap": stage.dual_gap,
                "kkt": stage.kkt,
                "unique": bool(stage.unique),
                "n_stages": model.n_stages_,
                "converged": bool(model.converged_),
            }

    # ---------------------------------------------------------------- what they say

    def draw(self, rows: list[Row]) -> Any:
        """Settings from above, readings of theta from left to right; bars at both ends tell where the runs are."""
        theta = {"literal": "mλ", "scale-aware": "mnλ", "MATLAB": "m²nλ"}
        titles = {r: f"{r}: θ = {self.ratio:g} {theta[r]}" for r in self.readings} | {NO_CAP: "no cap (a lasso)"}
        ways = {
            EXACT: "Every stage solved exactly",
            TRUNCATED: f"Every stage {self.steps} FISTA steps from where the last one ended",
        }
        size = 10.2, 3.2 * len(self.settings) + 1.6
        figure, axes = blocks(list(ways.values()), len(self.settings), len(titles), *size)
        stages = np.arange(1, self.stages + 1)
        for b, s, c in np.ndindex(axes.shape):
            solver, setting, reading = tuple(ways)[b], self.settings[s], tuple(titles)[c]
            axis = quiet(axes[b, s, c])
            for a, alpha in enumerate(self.alphas):
                found = select(rows, setting=str(setting), reading=reading, solver=solver, alpha=alpha)
                errors, look = _matrix(found, "run", "stage"), style(a)
                curve(axis, stages, errors, label=f"α = {alpha:g}", **look)
                for end, stage in ((1, -1), (-1, 0)):
                    bar(axis, stages[stage] + end * (0.45 + 0.25 * a), errors[:, stage], look["color"])
            if s == 0:
                axis.set_title(titles[reading], color=DARK)
            if c == 0:
                axis.set_ylabel(f"m={setting.m}, n={setting.n}, d={setting.d}\nσ={setting.sigma:g};  error")
        for axis in axes[:, -1].flat:
            axis.set_xlabel("stage")
            axis.set_xticks(stages)
        axes[0, 0, 0].set_yscale("log")
        handles, labels = axes[0, 0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        figure.suptitle(
            f"Error (2,1-norm of W − W̄) against stage, λ = α (ln(dm)/n)$^{{1/2}}$\n{spread(self.runs, 'bars at the ends')}",
            x=0.01,
            ha="left",
        )
        return figure

    def table(self, rows: list[Row]) -> str:
        body = []
        for setting, reading, solver in self._curves(rows):
            for alpha in self.alphas:
                found = select(rows, setting=setting, reading=reading, solver=solver, alpha=alpha)
                errors = _matrix(found, "run", "stage")
                last = select(found, stage=self.stages)
                exact = solver == EXACT
                body.append(
                    (
                        setting,
                        reading,
                        "exact" if exact else f"{self.steps} FISTA steps",
                        f"{alpha:g}",
                        *(f"{errors[:, l].mean():.3g} ± {_se(errors)[l]:.2g}" for l in (0, -1)),
                        *(f"{np.median(errors[:, l]):.3g}" for l in (0, -1)),
                        f"{int((errors[:, -1] < errors[:, 0]).sum())} of {len(errors)}",
                        max(row["n_stages"] for row in last) if exact else "",
                        f"{np.mean([row['free_rows'] for row in last]):.1f}" if exact else "",
                        f"{sum(row['unique'] for row in last)} of {len(last)}" if exact else "",
                    )
                )
        head = (
            "setting", "theta", "a stage is", "alpha", "mean error at stage 1", f"at stage {self.stages}",
            "median error at stage 1", f"at stage {self.stages}", "runs that fall", "most stages", "free features",
            "last stage unique",
        )  # fmt: skip
        return f"{NOTE}Means ± standard errors and medians over {self.runs} runs.\n\n{markdown(head, body)}\n"

    def _curves(self, rows: list[Row]) -> Iterator[tuple[str, str, str]]:
        for setting in values(rows, "setting"):
            for solver in (EXACT, TRUNCATED):
                for reading in (*self.readings, NO_CAP):
                    yield setting, reading, solver

    def claims(self, rows: list[Row]) -> list[Claim]:
        out = []
        for setting, reading, solver in self._curves(rows):
            if (reading, solver) == (NO_CAP, EXACT):
                continue  # every stage is the same
            held, told = self._falls(select(rows, setting=setting, reading=reading, solver=solver))
            where = f"{setting}; {reading}"
            if solver == TRUNCATED:
                statement = f"the error decreases where every stage is {self.steps} FISTA steps"
                out.append(Claim(statement, where, verdict(held), told, CONTROL))
                continue
            out.append(Claim(DECREASES, where, verdict(held), told))
            found = select(rows, setting=setting, reading=reading, solver=EXACT, stage=self.stages)
            soon = [row["converged"] and row["n_stages"] <= 5 for row in found]
            lone = sum(row["unique"] for row in found)
            evidence = (
                f"the set of free features repeats within 5 stages in {sum(soon)} of {len(soon)} fits (longest "
                f"{max(row['n_stages'] for row in found)}); the last stage's solution is unique in {lone}"
            )
            out.append(Claim(CONVERGES, where, verdict(soon), evidence))
        return out

    def _falls(self, rows: list[Row]) -> tuple[list[bool | None], str]:
        """Whether the error falls from the first stage to the last, and nowhere rises by 1 % of its start: at every
        alpha, and in words."""
        held: list[bool | None] = []
        told = []
        for alpha in self.alphas:
            errors = _matrix(select(rows, alpha=alpha), "run", "stage")
            first, last = errors[:, 0], errors[:, -1]
            steps = np.diff(errors, axis=1)
            rises = any(below(-step) and step.mean() > 0.01 * first.mean() for step in steps.T)
            falls = below(last - first)
            held += [falls, False] if falls and rises else [falls]
            told.append(
                f"alpha {alpha:g}: mean {first.mean():.3g} -> {last.mean():.3g}, median {np.median(first):.3g} -> "
                f"{np.median(last):.3g}, lower in {int((last < first).sum())} of {self.runs} runs"
                + (" (rises on the way)" if falls and rises else "")
            )
        return held, "; ".join(told)


# ------------------------------------------------------------------ figure 2

MODELS = ("Lasso", "L1,2", "DirtyMTL", "MSMTFL")
SMALLEST = "the parameter estimation error of the MSMTFL algorithm is the smallest among the four algorithms"
EQUAL = "When lambda is large enough, all four algorithms tend to have the same parameter estimation error"
SIMILAR = (
    "The performance of the MSMTFL algorithm is similar for different theta's, when lambda exceeds a certain value"
)


@dataclass(frozen=True)
class Figure2(Synthetic):
    """Error against lam for the four models."""

    name = "figure2"
    title = "Figure 2: parameter estimation error against lam, four models"
    alphas: tuple[float, ...] = tuple(float(f"{alpha:.3g}") for alpha in np.geomspace(2.0, 1e-6, 26))
    ratios: tuple[float, ...] = RATIOS
    dirty_ratios: tuple[float, ...] = (1.0, 0.5, 0.2, 0.1)
    stages: int = 10

    def quick(self) -> Figure2:
        """Without the two ratios at which DirtyMTL takes longest, and is worst."""
        return replace(self, runs=2, alphas=self.alphas[0:21:2], dirty_ratios=self.dirty_ratios[2:])

    def work(self, cell: Cell) -> list[Row]:
        setting, names = self._names(cell)
        sample = setting.sample(cell.seed)
        lams = np.array([setting.lam(alpha) for alpha in self.alphas])
        data = read_training(sample.X, sample.y, task=sample.task, task_column=None, sample_weight=None)
        problem = make_problem(data, fit_intercept=False, standardize=False, positive=False)
        out: list[Row] = []

        def add(model: str, reading: str, ratio: float | None, found: Iterator[Row]) -> None:
            point = names | {"model": model, "reading": reading, "ratio": ratio}
            for alpha, lam, row in zip(self.alphas, lams, found, strict=True):
                out.append(point | {"alpha": alpha, "lam": float(lam)} | row)

        add("Lasso", "", None, _msmtfl(sample, lams, np.full(len(lams), np.inf), 1))
        add("L1,2", "", None, _coupled(sample, problem, GroupGrid(lams[:, None])))
        for ratio in self.dirty_ratios:
            add("DirtyMTL", "", ratio, _coupled(sample, problem, DirtyGrid(lams[:, None], ratio * lams[:, None])))
        for reading in self.readings:
            for ratio in self.ratios:
                thetas = np.array([setting.theta(reading, ratio, lam) for lam in lams])
                add("MSMTFL", reading, ratio, _msmtfl(sample, lams, thetas, self.stages))
        return out

    # ---------------------------------------------------------------- what they say

    def draw(self, rows: list[Row]) -> Any:
        """The lasso is in every panel: what is below its line is better."""
        titles = ["Lasso, L1,2, DirtyMTL", *(f"MSMTFL, {reading} θ" for reading in self.readings)]
        figure, axes = new_figure(
            len(self.settings), len(titles), 10.2, 2.4 * len(self.settings) + 1.2, sharex=True, sharey=True
        )
        keys: dict[str, Any] = {}
        for line, setting in zip(axes, self.settings, strict=True):
            here = select(rows, setting=str(setting))
            best = {key: f"{found['error']:.2g}" for key, found in self.best(rows, str(setting)).items()}
            notes = ["\n".join(f"{model} {best[model, '']}" for model in MODELS[:3])]
            notes += [best["MSMTFL", reading] for reading in self.readings]
            for axis, curves, smallest in zip(line, self._panels(here), notes, strict=True):
                quiet(axis)
                note(axis, f"smallest mean:\n{smallest}")
                for label, (found, look) in curves.items():
                    lams, errors = values(found, "lam"), _matrix(found, "run", "lam")
                    keys[label] = curve(axis, lams, errors, **look)
                    band(axis, lams, errors, look["color"])
            line[0].set_ylabel(f"m={setting.m}, n={setting.n}, d={setting.d}, σ={setting.sigma:g}\nerror")
        for axis, title in zip(axes[0], titles, strict=True):
            axis.set_title(title, color=DARK)
        for axis in axes[-1]:
            axis.set_xlabel("λ" if axis is not axes[-1, 0] else "λ (λb for DirtyMTL)")
        axes[0, 0].set_xscale("log")
        axes[0, 0].set_yscale("log")
        figure.legend(keys.values(), keys.keys(), loc="outside lower center", ncols=5, frameon=False)
        figure.suptitle(
            f"Error (2,1-norm of W − W̄) against λ. {spread(self.runs)}.\n"
            "θ = r mλ (literal), r mnλ (scale-aware), r m²nλ (MATLAB)",
            x=0.01,
            ha="left",
        )
        return figure

    def _panels(self, rows: list[Row]) -> Iterator[dict[str, tuple[list[Row], dict[str, Any]]]]:
        """For every panel of a setting: label -> (rows of the curve, its look)."""
        lasso = {"Lasso": (select(rows, model="Lasso"), {"color": DARK, "lw": 1.6})}
        group = {"L1,2": (select(rows, model="L1,2"), {"color": YELLOW, "lw": 1.6, "ls": (0, (4, 1))})}
        yield (
            lasso
            | group
            | {
                f"DirtyMTL, λs/λb = {r:g}": (select(rows, model="DirtyMTL", ratio=r), style(k, marker=""))
                for k, r in enumerate(self.dirty_ratios)
            }
        )
        for reading in self.readings:
            of_reading = select(rows, model="MSMTFL", reading=reading)
            yield (
                lasso
                | {f"MSMTFL, r = {r:g}": (select(of_reading, ratio=r), style(k)) for k, r in enumerate(self.ratios)}
            )

    def best(self, rows: list[Row], setting: str) -> dict[tuple[str, str], dict[str, Any]]:
        """The smallest mean error of every model (and reading) over its whole grid, and where it is."""
        out: dict[tuple[str, str], dict[str, Any]] = {}
        here = select(rows, setting=setting)
        for model, reading in dict.fromkeys((row["model"], row["reading"]) for row in here):
            of_model = select(here, model=model, reading=reading)
            for ratio in values(of_model, "ratio"):
                found = select(of_model, ratio=ratio)
                errors = _matrix(found, "run", "lam")
                k = int(errors.mean(axis=0).argmin())
                at = select(found, lam=values(found, "lam")[k])
                if (model, reading) not in out or errors[:, k].mean() < out[model, reading]["error"]:
                    out[model, reading] = {
                        "error": errors[:, k].mean(),
                        "se": _se(errors)[k],
                        "sd": errors[:, k].std(ddof=1) if len(errors) > 1 else 0.0,
                        "median": float(np.median(errors[:, k])),
                        "by_run": errors[:, k],
                        "alpha": at[0]["alpha"],
                        "ratio": ratio,
                        "edge": _edges(k, errors.shape[1], ratio, values(of_model, "ratio")),
                        "gap": max(row["dual_gap"] for row in at),
                        "converged": sum(row["converged"] for row in at),
                        "zero": all(row["n_entries"] == 0 for row in at),
                        "unique": sum(row["unique"] for row in at),
                    }
        return out

    def table(self, rows: list[Row]) -> str:
        body = []
        for setting in values(rows, "setting"):
            best = self.best(rows, setting)
            for (model, reading), found in best.items():
                edge = (
                    f" (edge of the grid: {found['edge']}" + ("; W = 0)" if found["zero"] else ")")
                    if found["edge"]
                    else ""
                )
                at = f"alpha {found['alpha']:g}" + ("" if found["ratio"] is None else f", ratio {found['ratio']:g}")
                body.append(
                    (
                        setting,
                        model + (f", {reading} theta" if reading else ""),
                        f"{found['error']:.3g} ± {found['se']:.2g}",
                        f"{found['sd']:.2g}",
                        f"{found['median']:.3g}",
                        at + edge,
                        f"{found['converged']} of {self.runs}, {found['gap']:.0e}",
                        f"{found['unique']} of {self.runs}",
                    )
                )
        head = (
            "setting",
            "model",
            "smallest mean error ± s.e.",
            "s.d. over runs",
            "median",
            "at",
            "converged, largest gap",
            "certified unique",
        )
        text = f"The smallest mean error of each model over its whole grid: {self.runs} runs at one point of it."
        return f"{NOTE}{text}\n\n" + markdown(head, body) + "\n"

    def claims(self, rows: list[Row]) -> list[Claim]:
        out = []
        for setting in values(rows, "setting"):
            best = self.best(rows, setting)
            others = {model: best[model, ""] for model in MODELS[:3]}
            rival = min(others, key=lambda model: float(others[model]["error"]))
            told = ", ".join(f"{model} {found['error']:.3g}" for model, found in others.items())
            for reading in self.readings:
                mine = best["MSMTFL", reading]
                wins = int((mine["by_run"] < others[rival]["by_run"]).sum())
                evidence = f"MSMTFL {mine['error']:.3g}, {told}; smaller than {rival} in {wins} of {self.runs} runs"
                at_edge = [
                    f"{name} ({found['edge']})" for name, found in (("MSMTFL", mine), *others.items()) if found["edge"]
                ]
                if at_edge:
                    evidence += f"; minimum at the edge of the grid: {', '.join(at_edge)}"
                smallest = every([below(mine["by_run"] - found["by_run"]) for found in others.values()])
                out.append(Claim(SMALLEST, f"{setting}; {reading}", verdict([smallest]), evidence))
            out.append(self._at_large_lam(rows, setting))
            out += [self._insensitive(rows, setting, reading) for reading in self.readings]
        return out

    def _at_large_lam(self, rows: list[Row], setting: str) -> Claim:
        at = select(rows, setting=setting, alpha=max(self.alphas))
        zero = [row["n_entries"] == 0 for row in at]
        evidence = f"at alpha = {max(self.alphas):g} {sum(zero)} of {len(zero)} fits are exactly 0"
        return Claim(EQUAL, setting, verdict([all(zero)]), evidence)

    def _insensitive(self, rows: list[Row], setting: str, reading: str) -> Claim:
        """From which lam on the four thetas differ by 1 % at most, and whether anything is found there."""
        found = select(rows, setting=setting, model="MSMTFL", reading=reading)
        curves = np.array([_matrix(select(found, ratio=r), "run", "lam").mean(axis=0) for r in self.ratios])
        spread = curves.max(axis=0) / np.maximum(curves.min(axis=0), np.finfo(float).tiny) - 1.0  # lams fall
        k = int(np.argmax(spread > 0.01)) if (spread > 0.01).any() else len(spread)
        zero = max(float(curves[:, 0].max()), np.finfo(float).tiny)  # at the largest lam, where W is 0
        where = f"{setting}; {reading}"
        if k == 0:
            told = "the four thetas differ by more than 1 % even at the largest lam"
            return Claim(SIMILAR, where, verdict([False]), told)
        left = curves[:, k - 1].min() / zero
        evidence = (
            f"within 1 % from alpha = {self.alphas[k - 1]:.2g} up; the error there is {100 * left:.0f} % of that at W = 0, "
            f"the best over lam {100 * curves.min() / zero:.1f} %"
        )
        near = curves[:, :k].min() <= 2.0 * curves.min()  # where it matters, not only where little is found
        return Claim(SIMILAR, where, verdict([True, near]), evidence)


def _msmtfl(sample: Sample, lams: Floats, thetas: Floats, stages: int) -> Iterator[Row]:
    X, y, task, true = sample
    for lam, theta in zip(lams.tolist(), thetas.tolist(), strict=True):
        model = MSMTFL(lam, theta, max_stages=stages, fit_intercept=False).fit(X, y, task=task)
        yield {
            "theta": theta,
            "error": parameter_error(true, model.coef_),
            "n_entries": int(np.count_nonzero(model.coef_)),
            "n_rows": int(model.coef_.any(axis=0).sum()),
            "free_rows": len(model.stages_[-1].free_rows),
            "n_stages": model.n_stages_,
            "dual_gap": model.dual_gap_,
            "unique": bool(model.certificate_.unique),
            "converged": bool(model.converged_),
        }


def _coupled(sample: Sample, problem: Problem, grid: RowGrid) -> Iterator[Row]:
    """Where tasks are interpolated Dirty has many minimisers and takes long: the rounds are limited, the gap is told."""
    found = solve_rows(problem, grid, max_iter=ROUNDS, settled=SEARCH_SETTLED)
    for k in range(grid.shape[0]):
        yield {
            "error": parameter_error(sample.coef, found.coef(k, 0)),
            "n_entries": int(found.n_entries[k, 0]),
            "n_rows": int(found.n_rows[k, 0]),
            "dual_gap": float(found.dual_gap[k, 0]),
            "unique": bool(found.unique[k, 0]),
            "converged": bool(found.finished[k, 0]),
        }


def _edges(k: int, count: int, ratio: float | None, ratios: list[Any]) -> str:
    """Which parameters of a best point are the first or last that were tried."""
    out = ["lam"] if k in (0, count - 1) else []
    return ", ".join(out + (["ratio"] if ratio is not None and ratio in (ratios[0], ratios[-1]) else []))


def _by_task(sample: Sample) -> tuple[list[Floats], list[Floats]]:
    tasks = [sample.task == i for i in range(len(sample.coef))]
    return [sample.X[rows] for rows in tasks], [sample.y[rows] for rows in tasks]


def _matrix(rows: list[Row], first: str, second: str) -> Floats:
    """The errors by run and stage (or lam)."""
    return np.array([[row["error"] for row in select(rows, **{first: v})] for v in values(rows, first)])


def _se(errors: Floats) -> Floats:
    """Standard errors of the means over runs; 0 if there is but one."""
    if len(errors) < 2:
        return np.zeros(errors.shape[1])
    return np.asarray(errors.std(axis=0, ddof=1) / np.sqrt(len(errors)))
