"""The paper's main message, (24) against (25): with the number of features d the error of the lasso grows like
sqrt(ln(d m)), that of the last stage does not.

The features that matter, their samples and the noise of a run are the same for all d; only features that do not matter are
added. Columns have mean square 1. In two settings lam is a multiple of what keeps noise out of the lasso,

    m lam = 2 sigma sqrt(2 ln(d m) / n),    theta = ratio m lam

with the multiple 1, and with the multiple that is best on average, for either estimate and every d by itself. In one
setting the row norms of the features that matter are well above 2 theta, as condition (19) has it, in the other they are
not. In a third setting lam, theta and truth are at the limits of Theorem 8 as proven (:mod:`msmtfl.paper.theory`), so that
its bounds apply.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._data.designs import Floats
from ..._estimators.msmtfl.fit import MSMTFL
from ..._runtime.drawing import BLUE, DARK, GREY, ORANGE, new_figure, quiet
from ...metrics import parameter_error
from ..spectra import sparse_eigenvalues
from ..theory.bounds import error_rates
from ..theory.conditions import check_conditions
from .base import (
    FAILS,
    HOLDS,
    PACKAGE,
    PARTLY,
    UNCLEAR,
    Cell,
    Claim,
    Experiment,
    Row,
    below,
    markdown,
    select,
    values,
    verdict,
)

ETA = 0.05
SLACK = 1.001  # of lam and theta above the smallest values allowed
RULE, BEST = "lam by the rule", "best lam for either"
ESTIMATES = {"lasso": "the lasso", "last": "the last stage"}
SMALL, HALF = 0.1, 0.5  # a growth below the first share of the lasso's, or of the error itself, is none
EQUAL = 1e-6  # errors that differ by less are of one and the same set of free features


@dataclass(frozen=True)
class Size:
    """m tasks of n samples, r features that matter, with entries of `size` times +-0.5 to 1.5 (0: as small as the theorem
    allows). `ratio` is theta / (m lam) (0: as small as the theorem allows)."""

    name: str
    m: int
    n: int
    r: int
    sigma: float
    size: float
    ratio: float
    multiples: tuple[float, ...]

    @property
    def at_limits(self) -> bool:
        return self.ratio == 0.0

    def __str__(self) -> str:
        return f"{self.name}: m={self.m}, n={self.n}, rbar={self.r}, sigma={self.sigma:g}"


MULTIPLES = (0.09, 0.13, 0.18, 0.25, 0.35, 0.5, 0.71, 1.0, 1.41, 2.0)
SIZES = (
    Size("strong features, above 2 theta", 5, 100, 5, 0.1, 1.0, 5.0, MULTIPLES),
    Size("weak features, below 2 theta by the rule", 5, 100, 5, 0.1, 0.1, 5.0, MULTIPLES),
    Size("all conditions of Theorem 8", 3, 4000, 1, 0.1, 0.0, 0.0, (1.0,)),
)


@dataclass(frozen=True)
class Growth(Experiment):
    name = "growth"
    title = "(24) against (25): error against the number of features"
    sizes: tuple[Size, ...] = SIZES
    dims: tuple[int, ...] = (20, 63, 200, 632, 2000)
    runs: int = 10

    def quick(self) -> Growth:
        return replace(self, runs=3, dims=(20, 100, 500))

    def cells(self) -> list[Cell]:
        return [
            Cell(f"run{run:02}-size{k + 1}", 1000 * k + run, (run, k))
            for run in range(self.runs)
            for k in range(len(self.sizes))
        ]

    def work(self, cell: Cell) -> list[Row]:
        run, k = cell.where
        size, rng = self.sizes[k], np.random.default_rng(cell.seed)
        X = rng.standard_normal((1 if size.at_limits else size.m, size.n, max(self.dims)))
        X /= np.sqrt((X**2).mean(axis=1, keepdims=True))
        noise = size.sigma * rng.standard_normal((size.m, size.n))
        signs = rng.choice([-1.0, 1.0], (size.m, size.r))
        names: Row = {"setting": str(size), "run": run, "seed": cell.seed}
        work = self._at_limits if size.at_limits else self._by_rule
        return [names | row for row in work(size, X, noise, signs, rng)]

    def _by_rule(self, size: Size, X: Floats, noise: Floats, signs: Floats, rng: np.random.Generator) -> list[Row]:
        truth = size.size * signs * rng.uniform(0.5, 1.5, signs.shape)
        task, out = np.repeat(np.arange(size.m), size.n), []
        for d in self.dims:
            coef = np.zeros((size.m, d))
            coef[:, : size.r] = truth
            y = np.concatenate([Z @ w + e for Z, w, e in zip(X[:, :, :d], coef, noise, strict=True)])
            rule = 2 * size.sigma * np.sqrt(2 * np.log(d * size.m) / size.n) / size.m
            Z = X[:, :, :d].reshape(-1, d)
            for multiple in size.multiples:
                lam = float(multiple * rule)
                model = MSMTFL(lam, size.ratio * size.m * lam, fit_intercept=False).fit(Z, y, task=task)
                above = np.abs(coef).sum(axis=0)[: size.r].min() >= 2 * model.theta_
                row = {"d": d, "multiple": multiple, "above 2 theta": bool(above)}
                out.append(row | _errors(model, coef))
        return out

    def _at_limits(self, size: Size, X: Floats, noise: Floats, signs: Floats, rng: np.random.Generator) -> list[Row]:
        """The truth is the same for all d: what the largest needs."""
        s, m = size.r, size.m
        lams, thetas = [], []
        for d in self.dims:
            rho = sparse_eigenvalues(X[0, :, :d], 2 * size.r + s).rho_min.low
            lams.append(SLACK * 12 * size.sigma * np.sqrt(2 * np.log(2 * d * m / ETA) / size.n) / m)
            thetas.append(SLACK * 11 * m**2 * lams[-1] / rho)
        out = []
        for d, lam, theta in zip(self.dims, lams, thetas, strict=True):
            coef = np.zeros((m, d))
            coef[:, : size.r] = 2.05 * max(thetas) / m * signs
            Z = X[0, :, :d]
            Y = Z @ coef.T + noise.T
            model = MSMTFL(float(lam), float(theta), fit_intercept=False).fit(Z, Y)
            found = check_conditions(model, Z, Y, coef_true=coef, sigma=size.sigma, eta=ETA, s=s)
            row = {"d": d, "multiple": 1.0, "conditions": found.verdict, "above 2 theta": True}
            bounds = {"bound lasso": float(found.bound.sharpened[0]), "bound last": float(found.bound.limit)}
            out.append(row | _errors(model, coef) | bounds)
        return out

    # ---------------------------------------------------------------- what they say

    def errors(self, rows: list[Row], setting: str, choice: str, estimate: str) -> Floats:
        """(runs, dims) with lam by the rule, or with the multiple that is best on average for this estimate and d."""
        found, picked = select(rows, setting=setting), self.multiples(rows, setting, choice, estimate)
        at = [[row[estimate] for row in select(found, d=d, multiple=multiple)] for d, multiple in picked.items()]
        return np.array(at).T

    def multiples(self, rows: list[Row], setting: str, choice: str, estimate: str) -> dict[int, float]:
        """The multiple of the rule for every d; of multiples that are equally good, the one nearest to the rule."""
        out = {}
        for d in values(select(rows, setting=setting), "d"):
            at = select(rows, setting=setting, d=d)
            mean = {
                k: float(np.mean([row[estimate] for row in select(at, multiple=k)])) for k in values(at, "multiple")
            }
            best = [k for k, error in mean.items() if error <= (1.0 + EQUAL) * min(mean.values())]
            out[d] = 1.0 if choice == RULE else min(best, key=lambda k: abs(np.log(k)))
        return out

    def _choices(self, rows: list[Row]) -> list[tuple[str, str]]:
        """(setting, choice of lam)"""
        out = []
        for setting in values(rows, "setting"):
            several = len(values(select(rows, setting=setting), "multiple")) > 1
            out += [(setting, RULE), (setting, BEST)] if several else [(setting, RULE)]
        return out

    def draw(self, rows: list[Row]) -> Any:
        settings = values(rows, "setting")
        figure, axes = new_figure(1, len(settings), 3.6 * len(settings), 3.6, sharex=True)
        linear: list[Any] = []
        lines: dict[str, Any] = {}
        for axis, setting in zip(axes[0], settings, strict=True):
            quiet(axis)
            found = select(rows, setting=setting)
            dims = np.array(values(found, "d"))
            for estimate, colour in (("lasso", ORANGE), ("last", BLUE)):
                for choice in [one for where, one in self._choices(rows) if where == setting]:
                    errors = self.errors(rows, setting, choice, estimate)
                    mean, se = errors.mean(axis=0), _se(errors)
                    label = f"{ESTIMATES[estimate]}, {choice}"
                    lines[label] = axis.plot(
                        dims, mean, color=colour, ls="-" if choice == RULE else "--", marker="o", ms=3
                    )[0]
                    axis.fill_between(dims, mean - se, mean + se, color=colour, alpha=0.2, lw=0)
                    if estimate == "lasso" and choice == RULE:
                        rate = self._rates(setting, dims)
                        lines["proportional to (24)"] = axis.plot(dims, mean[0] * rate, color=GREY, lw=1, ls=":")[0]
                if f"bound {estimate}" in found[0]:
                    bound = [np.mean([row[f"bound {estimate}"] for row in select(found, d=d)]) for d in dims.tolist()]
                    label = f"bound of {ESTIMATES[estimate]}"
                    lines[label] = axis.plot(dims, bound, color=colour, lw=1, ls="-.")[0]
                    axis.set_yscale("log")
            axis.set_xscale("log")
            axis.set_xticks(dims, [str(d) for d in dims], minor=False)
            axis.set_xticks([], minor=True)
            axis.set_xlabel("number of features d")
            axis.set_title(setting.replace(": ", "\n"), color=DARK)
            if axis.get_yscale() == "linear":
                linear.append(axis)
        top = max((axis.get_ylim()[1] for axis in linear), default=1.0)
        for axis in linear:
            axis.set_ylim(0.0, top)
        axes[0, 0].set_ylabel("error (2,1-norm)")
        figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3, frameon=False)
        figure.suptitle(
            f"Error against the number of features: mean of {self.runs} runs, band: ± standard error", x=0.01, ha="left"
        )
        return figure

    def _rates(self, setting: str, dims: np.ndarray) -> Floats:
        """(24), over its value at the smallest d."""
        size = next(one for one in self.sizes if str(one) == setting)
        rates = [error_rates(m=size.m, n=size.n, d=int(d), rbar=size.r, eta=ETA).lasso for d in dims]
        return np.array(rates) / rates[0]

    def table(self, rows: list[Row]) -> str:
        body = []
        for setting, choice in self._choices(rows):
            found = select(rows, setting=setting)
            both = {name: self.errors(rows, setting, choice, name) for name in ESTIMATES}
            for k, d in enumerate(values(found, "d")):
                at = select(found, d=d, multiple=1.0)
                shown = [f"{both[name][:, k].mean():.3g} ± {_se(both[name])[k]:.1g}" for name in ESTIMATES]
                ratio = both["lasso"][:, k].mean() / both["last"][:, k].mean()
                bounds = [_mean(at, f"bound {name}") for name in ESTIMATES]
                body.append(
                    (
                        setting,
                        choice,
                        d,
                        *shown,
                        f"{ratio:.2f}",
                        *bounds,
                        "/".join(values(at, "conditions")) if "conditions" in at[0] else "not looked at",
                    )
                )
        head = (
            "setting",
            "lam",
            "d",
            "lasso ± s.e.",
            "last stage ± s.e.",
            "lasso / last",
            "bound of the lasso",
            "bound of the last",
            "conditions",
        )
        text = (
            f"Mean error ||W - W_true||_2,1 of {self.runs} runs. Features that matter, their samples and the noise of a run "
            "are the same for all d. (24) is a bound: an error below it may grow faster than it does. The bounds in the "
            "table are those of Theorem 8, corrected and sharpened; they depend on d also through sparse eigenvalues, which "
            "(24) and (25) leave out.\n\n"
        )
        return text + markdown(head, body) + "\n"

    def claims(self, rows: list[Row]) -> list[Claim]:
        out = []
        for setting, choice in self._choices(rows):
            lasso, last = (self.errors(rows, setting, choice, name) for name in ESTIMATES)
            dims = values(select(rows, setting=setting), "d")
            where = f"{setting}; d = {dims[0]} to {dims[-1]}; {choice}"
            grown = lasso[:, -1] - lasso[:, 0]
            rate = self._rates(setting, np.array([dims[0], dims[-1]]))[-1]
            told = f"{_ends(lasso)}; the right-hand side of (24) grows {rate:.2f}-fold"
            lasso_grows = "as the bound (24) does, the error of the lasso grows with d"
            out.append(Claim(lasso_grows, where, verdict([below(-grown)]), told, PACKAGE))
            told = f"{_ends(last)}; the lasso {_ends(lasso)}"
            told += self._how(rows, setting, choice)
            last_does_not = "as the bound (25), the error of the last stage does not grow with d"
            out.append(Claim(last_does_not, where, _stays(last, grown), told, PACKAGE))
        for setting in values(rows, "setting"):
            found = select(rows, setting=setting)
            if "bound lasso" in found[0]:
                out.append(self._bounded(found, setting))
        return out

    def _how(self, rows: list[Row], setting: str, choice: str) -> str:
        """Where condition (19) holds, and what lams were best."""
        picked = {name: self.multiples(rows, setting, choice, name) for name in ESTIMATES}
        at = [row for d, k in picked["last"].items() for row in select(rows, setting=setting, d=d, multiple=k)]
        said = f"; (19) holds in {sum(row['above 2 theta'] for row in at)} of {len(at)} fits"
        if choice == RULE:
            return said
        ends = [f"{ESTIMATES[name]} {min(one.values()):g} to {max(one.values()):g}" for name, one in picked.items()]
        tried = values(select(rows, setting=setting), "multiple")
        edge = any(k in (tried[0], tried[-1]) for one in picked.values() for k in one.values())
        return f"{said}; best multiples of the rule: {', '.join(ends)}" + (", an edge of those tried" if edge else "")

    def _bounded(self, found: list[Row], setting: str) -> Claim:
        held = [row["conditions"] == "holds" for row in found]
        kept = [row["lasso"] <= row["bound lasso"] and row["last"] <= row["bound last"] for row in found]
        bounds = [
            [np.mean([row[f"bound {name}"] for row in select(found, d=d)]) for d in values(found, "d")]
            for name in ESTIMATES
        ]
        told = ", ".join(
            f"bound of {ESTIMATES[name]} {one[0]:.3g} -> {one[-1]:.3g}"
            for name, one in zip(ESTIMATES, bounds, strict=True)
        )
        told += f"; conditions hold in {sum(held)} of {len(held)} fits, the bounds in {sum(kept)}"
        return Claim(
            "Theorem 8, corrected: both bounds hold at every d", setting, verdict([all(held), all(kept)]), told, PACKAGE
        )


def _errors(model: MSMTFL, coef: Floats) -> Row:
    return {
        "lam": float(model.lam_),
        "theta": float(model.theta_),
        "lasso": parameter_error(coef, model.stages_[0].coef),
        "last": parameter_error(coef, model.coef_),
        "free_rows": len(model.stages_[-1].free_rows),
        "n_stages": model.n_stages_,
        "dual_gap": model.dual_gap_,
        "unique": bool(model.certificate_.unique),
        "converged": bool(model.converged_),
    }


def _ends(errors: Floats) -> str:
    mean = errors.mean(axis=0)
    return f"{mean[0]:.3g} -> {mean[-1]:.3g} ({mean[-1] / mean[0]:.2f}-fold)"


def _mean(rows: list[Row], name: str) -> str:
    return f"{np.mean([row[name] for row in rows]):.3g}" if name in rows[0] else ""


def _se(errors: Floats) -> Floats:
    """Standard errors of the means over runs; 0 if there is but one."""
    if len(errors) < 2:
        return np.zeros(errors.shape[1])
    return np.asarray(errors.std(axis=0, ddof=1) / np.sqrt(len(errors)))


def _stays(errors: Floats, grown: Floats) -> str:
    """Whether errors (runs, dims) hardly grow: by a small share of their size, or of what the lasso's have grown by."""
    more = errors[:, -1] - errors[:, 0]
    held = below(more - SMALL * max(grown.mean(), errors[:, 0].mean()))
    if held is False:
        return PARTLY if more.mean() <= HALF * grown.mean() else FAILS
    return UNCLEAR if held is None else HOLDS
