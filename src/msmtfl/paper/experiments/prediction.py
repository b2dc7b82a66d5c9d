"""The paper's experiments on real data: test error of the four models at three shares of training rows.

Two protocols are run side by side, since the ranking depends on it:

    paper   no intercepts (the loss of the paper has none), training rows and folds drawn at random within every task
    ours    an intercept for every task; rows of one patient stay together, in the test split as in the folds

In both, MSMTFL is the paper's model (the cap on features alone), and every parameter of every model is chosen by 3-fold
cross-validation on the training rows. All models have as many lams, from their own lam_max (no feature is used) down to the
same share of it. It is small enough that no choice is cut off on Isolet: without intercepts lam_max is that of a response
whose mean is not 0, and the best L1,2 and Dirty are at half a percent of theirs. nMSE and aMSE are those of
`msmtfl.metrics`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from ..._data.designs import Floats
from ..._estimators.dirty.search import DirtyMTLCV
from ..._estimators.l12.search import L12MTLCV
from ..._estimators.lasso.search import LassoMTLCV
from ..._estimators.msmtfl.search import MSMTFLCV
from ..._runtime.drawing import DARK, new_figure
from ...datasets import Dataset, fetch_isolet, load_adni, make_mri_standin, split_tasks
from ...metrics import amse, nmse
from .base import (
    UNTESTED,
    Cell,
    Claim,
    Experiment,
    NotAvailableError,
    Row,
    below,
    every,
    markdown,
    select,
    steadier,
    values,
    verdict,
)
from .curves import deviation, draw_shares, draw_tasks

MODELS: dict[str, Any] = {
    "Lasso": LassoMTLCV,
    "L1,2": L12MTLCV,
    "DirtyMTL": DirtyMTLCV,
    "MSMTFL": partial(MSMTFLCV, entry_shares=(0.0,)),  # the paper's model, no penalty on single entries
}
MEASURES: dict[str, Any] = {"nMSE": nmse, "aMSE": amse}
ERRORS = (
    "Our proposed MSMTFL algorithm outperforms all the competing feature learning algorithms on both data sets, with the "
    "smallest regression errors (nMSE and aMSE)"
)
DEVIATIONS = "as well as the smallest standard deviations"
IMPROVES = "when the training ratio increases from 15% to 25%, the performance of the MSMTFL algorithm increases"
LEAD = "the superiority of the MSMTFL algorithm over the other three algorithms is more significant"
COMPARABLE = "The performance for the 15% training ratio is comparable to that for the 25% training ratio"

ByShare = dict[float, dict[str, Floats]]  # share -> model -> errors of the splits


@dataclass(frozen=True)
class Protocol:
    """What the paper leaves open, or what we would do otherwise."""

    name: str
    short: str
    intercepts: bool
    together: bool  # rows of one group (patient) are all in training or all in the test, and in one fold

    def told(self, group: str | None) -> str:
        """In a sentence; `group` is what rows belong to, if the data say so."""
        free = "an intercept for every task" if self.intercepts else "no intercepts, as in the paper's loss"
        if group is None:
            rows = "training rows and folds are drawn at random within every task"
        elif self.together:
            rows = f"no {group} is both in training and in the test, or in two folds"
        else:
            rows = (
                f"training rows and folds are drawn at random within every task, so that a {group} may be on both sides"
            )
        return f"**{self.name}**: {free}; {rows}."


AS_PAPER = Protocol("paper", "no intercepts, as in the paper", False, False)
OURS = Protocol("ours", "an intercept for every task, not of the paper", True, True)
PROTOCOLS = {protocol.name: protocol for protocol in (AS_PAPER, OURS)}


def ends(parameters: dict[str, Floats], point: tuple[int, int], m: int) -> tuple[str, str]:
    """Of a choice on a grid (K, L): the parameters by whose smallest values it may have been cut off, and the simpler model
    that it is if it lies where the family itself ends; "" for neither."""
    grids = {name: np.asarray(grid) for name, grid in parameters.items()}
    lam = next(iter(grids.values()))[:, point[1]]
    if lam[point[0]] == lam.max():
        return "", "no features"
    cut, limit = ["lam"] if lam[point[0]] == lam.min() else [], ""
    if "lam_s" in grids:
        ratio = grids["lam_s"][point] / grids["lam_b"][point]
        limit = "l1,inf" if np.isclose(ratio, 1.0) else "the lasso" if np.isclose(ratio, 1.0 / m) else ""
    elif "theta" in grids and grids["theta"].shape[1] > 1:
        thetas, theta = grids["theta"][point[0]], grids["theta"][point]
        limit = "the lasso" if np.isinf(theta) else ""
        cut += ["theta"] if theta == thetas.min() else []
    return ", ".join(cut), limit


@dataclass(frozen=True)
class Prediction(Experiment):
    """The four models at some training shares, over random splits, in both protocols."""

    repeats: ClassVar[str] = "splits"
    group_name: ClassVar[str | None] = None
    shares: tuple[float, ...] = (0.15, 0.20, 0.25)
    splits: int = 10
    folds: int = 3
    models: tuple[str, ...] = tuple(MODELS)
    protocols: tuple[str, ...] = tuple(PROTOCOLS)
    standardize: bool = False
    lams: int = 45
    lam_min_ratio: float = 2e-3
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
            Cell(
                f"split{split:02}-share{share:g}-{protocol}-{k}",
                1000 * self.seed + 100 * s + split,
                (split, share, protocol, model),
            )
            for split in range(self.splits)
            for s, share in enumerate(self.shares)
            for protocol in self.protocols
            for k, model in enumerate(self.models)
        ]

    def work(self, cell: Cell) -> list[Row]:
        split, share, protocol, name = cell.where
        how, data = PROTOCOLS[protocol], self.data()
        X, y, task = data
        groups = data.group if how.together else None
        train, test = split_tasks(task, share, cell.seed, groups=groups)
        model = MODELS[name](
            lams=self.lams,
            lam_min_ratio=self.lam_min_ratio,
            cv=self.folds,
            fit_intercept=how.intercepts,
            standardize=self.standardize,
            random_state=cell.seed,
        )
        model.fit(X[train], y[train], task=task[train], groups=None if groups is None else groups[train])
        seen, prediction = task[test], model.predict(X[test], task=task[test])
        errors: Row = {}
        for measure, error in MEASURES.items():
            by_task = error(y[test], prediction, task=seen, average=False)
            errors[measure] = error(y[test], prediction, task=seen)
            errors |= {
                f"{measure} of {label}": float(e) for label, e in zip(model.tasks_.tolist(), by_task, strict=True)
            }
        chosen = {name: float(grid[model.best_point_]) for name, grid in model.surface_.parameters.items()}
        edge, limit = ends(model.surface_.parameters, model.best_point_, len(model.tasks_))
        return [
            {
                "data": data.name,
                "protocol": protocol,
                "share": share,
                "split": split,
                "seed": cell.seed,
                "model": name,
                **errors,
                "cv_nMSE": -model.best_score_,
                **{f"chosen_{key}": value for key, value in chosen.items()},
                "edge": edge,
                "limit": limit,
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
        """Errors against the training share; if there is but one, errors of every task."""
        draw = draw_tasks if len(self.shares) == 1 else draw_shares
        height = 2.7 * len(self.protocols) + 0.9
        figure, axes = new_figure(len(self.protocols), len(MEASURES), 8.4, height, sharex="col", sharey="col")
        for line, protocol in zip(axes, self.protocols, strict=True):
            for axis, measure in zip(line, MEASURES, strict=True):
                draw(axis, select(rows, protocol=protocol), measure)
            line[0].set_title(f"Protocol “{protocol}”: {PROTOCOLS[protocol].short}", color=DARK, loc="left")
        for axis in axes[:-1].flat:
            axis.set_xlabel("")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        share = f", {100 * self.shares[0]:g} % of the rows for training" if len(self.shares) == 1 else ""
        figure.suptitle(f"{self._shown()}{share}. {self._over()}", x=0.01, ha="left")
        return figure

    def _shown(self) -> str:
        return self.data().name

    def _over(self) -> str:
        return "One random split" if self.splits == 1 else f"Mean (standard deviation) over {self.splits} random splits"

    def table(self, rows: list[Row]) -> str:
        body = []
        for protocol in self.protocols:
            here = select(rows, protocol=protocol)
            for measure in MEASURES:
                for share in self.shares:
                    found = {model: self._errors(here, measure, model, share) for model in self.models}
                    best = min(found, key=lambda model: float(found[model].mean()))
                    cells = {
                        model: f"{e.mean():.4f}"
                        + (f" ± {deviation(e) / len(e) ** 0.5:.4f} ({deviation(e):.4f})" if len(e) > 1 else "")
                        for model, e in found.items()
                    }
                    shown = (f"**{c}**" if k == best else c for k, c in cells.items())
                    body.append((protocol, measure, f"{share:.2f}", *shown))
        over = "One random split"
        if self.splits > 1:
            over = f"Mean ± standard error (standard deviation) over {self.splits} random splits"
        told = "\n".join(f"- {PROTOCOLS[name].told(self.group_name)}" for name in self.protocols)
        return (
            f"{self.data()!r}\n\n{self.data().description}\n\n{over}; every parameter by "
            f"{self.folds}-fold cross-validation on the training rows. MSMTFL is the paper's model: the cap on features "
            "alone, no penalty on single entries. The paper says neither which lams and thetas were tried nor whether "
            f"features were scaled: {'here they were' if self.standardize else 'here they were not'}. Protocols:\n\n"
            f"{told}\n\n{markdown(('protocol', 'measure', 'training share', *self.models), body)}\n"
            f"{self._chosen(rows)}\n{self._beside()}"
        )

    def _chosen(self, rows: list[Row]) -> str:
        """The grids, and how many of the choices lie at their ends."""
        body = []
        for model in self.models:
            for protocol in self.protocols:
                found = select(rows, model=model, protocol=protocol)
                limits = [row["limit"] for row in found if row["limit"]]
                counts = ", ".join(f"{limit} {limits.count(limit)}" for limit in dict.fromkeys(limits))
                cut = ", ".join(f"{e} {len(select(found, edge=e))}" for e in values(found, "edge") if e)
                body.append((model, protocol, len(found), cut or "none", counts or "none"))
        return (
            f"{self.lams} lams of every model, in equal ratios from its lam_max down to {self.lam_min_ratio:g} of it; seven "
            "thetas of MSMTFL, of which the last is inf, the lasso; five ratios lam_s / lam_b of DirtyMTL, from 1, which is "
            "l1,inf, to 1/m, which is the lasso (those below 1/m count as it). A choice is cut off where it is the "
            "smallest lam or theta; at the other ends the model becomes another one, and nothing lies beyond.\n\n"
            + markdown(("model", "protocol", "fits", "cut off", "became another model"), body)
        )

    def _beside(self) -> str:
        return ""

    def claims(self, rows: list[Row]) -> list[Claim]:
        """Every one in each protocol and measure; none without MSMTFL and something to compare it with."""
        if "MSMTFL" not in self.models or len(self.models) < 2:
            return []
        out = []
        for protocol in self.protocols:
            here = select(rows, protocol=protocol)
            for measure in MEASURES:
                where = f"{self._shown()}, {measure}; {PROTOCOLS[protocol].short}"
                by_share = {s: {m: self._errors(here, measure, m, s) for m in self.models} for s in self.shares}
                out.append(self._smallest(ERRORS, where, by_share, lambda mine, other: below(mine - other), np.mean))
                if self.splits > 2:
                    out.append(self._smallest(DEVIATIONS, where, by_share, steadier, deviation))
                if len(self.shares) > 1:
                    out += self._over_shares(where, by_share)
        return out

    def _smallest(self, claim: str, where: str, by_share: ByShare, less: Any, of: Any) -> Claim:
        """Whether MSMTFL's errors are less than each of the others', at every share."""
        held = [
            every([less(errors["MSMTFL"], errors[m]) for m in self.models if m != "MSMTFL"])
            for errors in by_share.values()
        ]
        told = "; ".join(
            f"{100 * s:g} %: " + ", ".join(f"{m} {of(e):.4f}" for m, e in errors.items())
            for s, errors in by_share.items()
        )
        return Claim(claim, where, verdict(held), f"{told} ({self._counted()})")

    def _counted(self) -> str:
        return "one split" if self.splits == 1 else f"{self.splits} splits"

    def _over_shares(self, where: str, by_share: ByShare) -> list[Claim]:
        raise NotImplementedError


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

    def _over_shares(self, where: str, by_share: ByShare) -> list[Claim]:
        first, *_, last = (errors["MSMTFL"] for errors in by_share.values())
        ends = ((self.shares[0], first), (self.shares[-1], last))
        improves = ", ".join(f"{100 * s:g} %: {e.mean():.4f}" for s, e in ends) + f" ({self._counted()})"
        leads = [self._lead(errors) for errors in by_share.values()]
        ahead = [below(-lead) for lead in leads]
        grows = below(leads[0] - leads[-1])
        told = ", ".join(f"{100 * s:g} %: {100 * v.mean():+.1f} %" for s, v in zip(self.shares, leads, strict=True))
        return [
            Claim(IMPROVES, where, verdict([below(last - first)]), improves),
            Claim(
                LEAD,
                where,
                verdict([False] if ahead[-1] is False else [*ahead, grows]),
                f"lead over the best of the others: {told} ({self._counted()})",
            ),
        ]

    def _lead(self, errors: dict[str, Floats]) -> Floats:
        """By how much MSMTFL is better than the best of the others, as a share of that, in every split."""
        best = min((e for m, e in errors.items() if m != "MSMTFL"), key=np.mean)
        return np.asarray(1.0 - errors["MSMTFL"] / best)


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
    group_name = "patient"
    standardize: bool = True
    lams: int = 30
    lam_min_ratio: float = 1e-2  # further down Dirty takes minutes a fit
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
            f"Learning*: ADNI's data, which are not part of this package, as far as the text tells in the protocol called "
            f"paper above.{words}\n\n"
            f"{cited}\n"
        )

    def claims(self, rows: list[Row]) -> list[Claim]:
        if self.real:
            return super().claims(rows)
        why = "ADNI's data are access-restricted: give them with --adni; what was run is a simulated stand-in"
        return [Claim(claim, "ADNI", UNTESTED, why) for claim in (ERRORS, DEVIATIONS, COMPARABLE)]

    def quick(self) -> Mri:
        return replace(self, shares=(0.15,), splits=1)

    def _over_shares(self, where: str, by_share: ByShare) -> list[Claim]:
        first, *_, last = by_share.values()
        told = ", ".join(f"{m} {100 * (first[m].mean() / last[m].mean() - 1.0):+.1f} %" for m in self.models)
        evidence = (
            f"error at {100 * self.shares[0]:g} % over that at {100 * self.shares[-1]:g} %: {told}; 5 % counts as "
            f"comparable ({self._counted()})"
        )
        return [Claim(COMPARABLE, where, verdict([below(first["MSMTFL"] - 1.05 * last["MSMTFL"])]), evidence)]
