"""The paper's experiments on real data: test error of the four models at three shares of training rows.

Every parameter of every model is chosen by 3-fold cross-validation on the training rows, folds stratified by task. All
models get an intercept per task, which the authors' code has not; nMSE and aMSE are those of `msmtfl.metrics`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..coupled import L12MTLCV, DirtyMTLCV
from ..datasets import Dataset, fetch_isolet, load_adni, make_mri_standin, split_tasks
from ..designs import Floats
from ..drawing import BLUE, DARK, DASHES, GREEN, MARKERS, YELLOW, new_figure, quiet
from ..metrics import amse, nmse
from ..model_selection import MSMTFLCV, LassoMTLCV
from .base import (
    FAILS,
    HOLDS,
    PARTLY,
    UNTESTED,
    Cell,
    Claim,
    Experiment,
    NotAvailableError,
    Row,
    markdown,
    select,
    verdict,
)

MODELS = {"Lasso": LassoMTLCV, "L1,2": L12MTLCV, "DirtyMTL": DirtyMTLCV, "MSMTFL": MSMTFLCV}
MEASURES = ("nMSE", "aMSE")
COLOURS = {"Lasso": DARK, "L1,2": YELLOW, "DirtyMTL": GREEN, "MSMTFL": BLUE}


@dataclass(frozen=True)
class Prediction(Experiment):
    """The four models at some training shares, over random splits."""

    shares: tuple[float, ...] = (0.15, 0.20, 0.25)
    splits: int = 10
    folds: int = 3
    models: tuple[str, ...] = tuple(MODELS)
    standardize: bool = False
    seed: int = 0

    def data(self) -> Dataset:
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        data = self.data()
        digest = self._digest()
        group = np.empty(0) if data.group is None else data.group.astype(str)
        for part in (data.X, data.y, data.task.astype(str), group):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()[:16]

    def quick(self) -> Prediction:
        return replace(self, shares=(0.15, 0.25), splits=1)

    def cells(self) -> list[Cell]:
        """Splits of one number are nested neither in each other nor over shares: each is drawn by itself."""
        return [
            Cell(f"split{split:02}-share{share:g}-{k}", 1000 * self.seed + 100 * s + split, (split, share, model))
            for split in range(self.splits)
            for s, share in enumerate(self.shares)
            for k, model in enumerate(self.models)
        ]

    def work(self, cell: Cell) -> list[Row]:
        split, share, name = cell.where
        data = self.data()
        X, y, task = data
        train, test = split_tasks(task, share, cell.seed)
        model = MODELS[name](cv=self.folds, standardize=self.standardize, random_state=cell.seed)
        groups = None if data.group is None else data.group[train]
        model.fit(X[train], y[train], task=task[train], groups=groups)
        prediction = model.predict(X[test], task=task[test])
        chosen = {name: float(grid[model.best_point_]) for name, grid in model.surface_.parameters.items()}
        strength = np.asarray(next(iter(model.surface_.parameters.values())))[:, model.best_point_[1]]
        return [
            {
                "data": data.name,
                "share": share,
                "split": split,
                "seed": cell.seed,
                "model": name,
                "nMSE": nmse(y[test], prediction, task=task[test]),
                "aMSE": amse(y[test], prediction, task=task[test]),
                "cv_nMSE": -model.best_score_,
                **{f"chosen_{key}": value for key, value in chosen.items()},
                "edge": bool(model.best_point_[0] in (int(strength.argmin()), int(strength.argmax()))),
                "n_rows": int(model.coef_.any(axis=0).sum()),
                "n_entries": int(np.count_nonzero(model.coef_)),
                "dual_gap": model.dual_gap_,
                "unique": bool(model.certificate_.unique),
                "converged": bool(model.converged_),
            }
        ]

    # ---------------------------------------------------------------- what they say

    def _errors(self, rows: list[Row], measure: str, model: str, share: float) -> Floats:
        return np.array([row[measure] for row in select(rows, model=model, share=share)])

    def draw(self, rows: list[Row]) -> Any:
        figure, axes = new_figure(1, len(MEASURES), 8.4, 3.7)
        width = 0.002 * np.arange(len(self.models)) - 0.001 * (len(self.models) - 1)
        for axis, measure in zip(axes[0], MEASURES, strict=True):
            quiet(axis)
            for k, model in enumerate(self.models):
                found = [self._errors(rows, measure, model, share) for share in self.shares]
                x = 100 * (np.array(self.shares) + width[k])
                axis.errorbar(
                    x,
                    [e.mean() for e in found],
                    [_sd(e) for e in found],
                    color=COLOURS[model],
                    ls=DASHES[k],
                    marker=MARKERS[k],
                    ms=4,
                    lw=1.4,
                    capsize=2,
                    label=model,
                )
            axis.set_xticks([100 * share for share in self.shares])
            axis.set_xlabel("rows used for training, %")
            axis.set_ylabel(f"test {measure}")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        figure.suptitle(f"{self._shown()}. {self._over()}", x=0.01, ha="left")
        return figure

    def _shown(self) -> str:
        return self.data().name

    def _over(self) -> str:
        return "One random split" if self.splits == 1 else f"Mean (standard deviation) over {self.splits} random splits"

    def table(self, rows: list[Row]) -> str:
        body = []
        for measure in MEASURES:
            for share in self.shares:
                found = {model: self._errors(rows, measure, model, share) for model in self.models}
                best = min(found, key=lambda model: float(found[model].mean()))
                cells = {
                    model: f"{e.mean():.4f}" + (f" ({_sd(e):.4f})" if len(e) > 1 else "") for model, e in found.items()
                }
                body.append((measure, f"{share:.2f}", *(f"**{c}**" if k == best else c for k, c in cells.items())))
        at_edge = [f"{model}: {sum(row['edge'] for row in select(rows, model=model))}" for model in self.models]
        text = (
            f"{self.data()!r}\n\n{self.data().description}\n\n{self._over()}; every parameter by "
            f"{self.folds}-fold cross-validation on the training rows.\n\n"
        )
        fits = len(rows) // len(self.models)
        edge = f"\nFits whose chosen lam lies at the edge of its grid, of {fits}: {', '.join(at_edge)}.\n"
        return text + markdown(("measure", "training share", *self.models), body) + edge + self._beside()

    def _beside(self) -> str:
        return ""

    def claims(self, rows: list[Row]) -> list[Claim]:
        where = self._shown()
        out = []
        for measure in MEASURES:
            means = {(m, s): float(self._errors(rows, measure, m, s).mean()) for m in self.models for s in self.shares}
            spread = {(m, s): _sd(self._errors(rows, measure, m, s)) for m in self.models for s in self.shares}
            for what, table, digits in (("error", means, ".4f"), ("standard deviation", spread, ".4f")):
                if what == "standard deviation" and self.splits < 3:
                    continue
                held = [min(self.models, key=lambda m: table[m, s]) == "MSMTFL" for s in self.shares]
                told = "; ".join(
                    f"{100 * s:g} %: " + ", ".join(f"{m} {format(table[m, s], digits)}" for m in self.models)
                    for s in self.shares
                )
                out.append(Claim(f"MSMTFL has the smallest {what} of the four ({measure})", where, verdict(held), told))
            out += self._more(measure, means)
        return out

    def _more(self, measure: str, means: dict[tuple[str, float], float]) -> list[Claim]:
        return []

    def _lead(self, means: dict[tuple[str, float], float], share: float) -> float:
        """By how much MSMTFL is better than the best of the others, as a share of that."""
        best = min(means[m, share] for m in self.models if m != "MSMTFL")
        return 1.0 - means["MSMTFL", share] / best


@lru_cache(maxsize=1)
def _isolet(folder: str | None, of_environment: str | None) -> Dataset:
    try:
        return fetch_isolet(folder)
    except OSError as error:
        raise NotAvailableError(str(error)) from error


@dataclass(frozen=True)
class Isolet(Prediction):
    """Spoken letters, five groups of speakers."""

    name = "isolet"
    title = "Isolet: test error of four models"
    folder: str | None = None

    def data(self) -> Dataset:
        return _isolet(self.folder, os.environ.get("MSMTFL_DATA"))

    def _more(self, measure: str, means: dict[tuple[str, float], float]) -> list[Claim]:
        first, last = self.shares[0], self.shares[-1]
        if first == last or not {"MSMTFL", "Lasso"} <= set(self.models):
            return []
        where = self._shown()
        better = means["MSMTFL", last] < means["MSMTFL", first]
        lead = [self._lead(means, s) for s in self.shares]
        told = ", ".join(f"{100 * s:g} %: {100 * v:+.1f} %" for s, v in zip(self.shares, lead, strict=True))
        ahead = lead[0] > 0 and lead[-1] > 0
        return [
            Claim(
                f"MSMTFL improves from {100 * first:g} to {100 * last:g} % training rows ({measure})",
                where,
                HOLDS if better else FAILS,
                f"{means['MSMTFL', first]:.4f} -> {means['MSMTFL', last]:.4f}",
            ),
            Claim(
                f"its lead over the other three grows with the training share ({measure})",
                where,
                HOLDS if ahead and lead[-1] > lead[0] else PARTLY if lead[-1] > 0 else FAILS,
                f"lead over the best of the others: {told}",
            ),
        ]


# the paper's Table 1: (measure, training share, Lasso, L1,2, DirtyMTL, MSMTFL), mean and standard deviation
PAPER_TABLE = (
    ("nMSE", 0.15, "0.6651 (0.0280)", "0.6633 (0.0470)", "0.6224 (0.0265)", "0.5539 (0.0154)"),
    ("nMSE", 0.20, "0.6254 (0.0212)", "0.6489 (0.0275)", "0.6140 (0.0185)", "0.5542 (0.0139)"),
    ("nMSE", 0.25, "0.6105 (0.0186)", "0.6577 (0.0194)", "0.6136 (0.0180)", "0.5507 (0.0142)"),
    ("aMSE", 0.15, "0.0189 (0.0008)", "0.0187 (0.0010)", "0.0172 (0.0006)", "0.0159 (0.0004)"),
    ("aMSE", 0.20, "0.0179 (0.0006)", "0.0184 (0.0005)", "0.0171 (0.0005)", "0.0161 (0.0004)"),
    ("aMSE", 0.25, "0.0172 (0.0009)", "0.0183 (0.0006)", "0.0167 (0.0008)", "0.0157 (0.0006)"),
)


@lru_cache(maxsize=1)
def _mri(table: str | None, version: tuple[int, int] | None) -> Dataset:
    """`version` tells one state of the file from another."""
    return make_mri_standin() if table is None else load_adni(table)


@dataclass(frozen=True)
class Mri(Prediction):
    """MMSE scores at six visits from MRI; on simulated data if the user has no table of ADNI's."""

    name = "mri"
    title = "MRI: test error of four models"
    standardize: bool = True
    table_path: str | None = field(default=None)

    def data(self) -> Dataset:
        if self.table_path is None:
            return _mri(None, None)
        state = os.stat(self.table_path)
        return _mri(self.table_path, (state.st_mtime_ns, state.st_size))

    @property
    def real(self) -> bool:
        return self.table_path is not None

    def _shown(self) -> str:
        return "ADNI, MMSE from MRI" if self.real else "SIMULATED stand-in (not ADNI)"

    def _beside(self) -> str:
        cited = markdown(
            ("measure", "training share", *MODELS), [(m, f"{s:.2f}", *cells) for m, s, *cells in PAPER_TABLE]
        )
        words = "" if self.real else " The table above is of simulated data and cannot be compared with it."
        return (
            "\n## The paper's Table 1, for reference\n\nQuoted from Gong, Ye and Zhang, *Multi-Stage Multi-Task Feature "
            f"Learning*: ADNI's data, which are not part of this package.{words}\n\n{cited}\n"
        )

    def claims(self, rows: list[Row]) -> list[Claim]:
        if self.real:
            return super().claims(rows)
        why = "ADNI's data are access-restricted: give them with --adni; what was run is a simulated stand-in"
        return [
            Claim(
                "MSMTFL has the smallest error of the four, and the smallest standard deviations", "ADNI", UNTESTED, why
            ),
            Claim("MSMTFL at 15 % is comparable to 25 %", "ADNI", UNTESTED, why),
        ]

    def quick(self) -> Mri:
        return replace(self, shares=(0.15,), splits=1)

    def _more(self, measure: str, means: dict[tuple[str, float], float]) -> list[Claim]:
        first, last = self.shares[0], self.shares[-1]
        if first == last or "MSMTFL" not in self.models:
            return []
        loss = {m: means[m, first] / means[m, last] - 1.0 for m in self.models}
        told = ", ".join(f"{m} {100 * v:+.1f} %" for m, v in loss.items())
        return [
            Claim(
                f"MSMTFL at {100 * first:g} % is comparable to {100 * last:g} % ({measure})",
                self._shown(),
                HOLDS if loss["MSMTFL"] < 0.05 else PARTLY if loss["MSMTFL"] <= min(loss.values()) else FAILS,
                f"error at {100 * first:g} % over that at {100 * last:g} %: {told}; 5 % counts as comparable",
            )
        ]


def _sd(values: Floats) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0
