"""The demo: real patients, six groups, which measurements matter for all of them, and what sharing gained."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_diabetes

from ._data.designs import Floats
from ._data.folds import TaskKFold
from ._estimators.lasso.search import LassoMTLCV
from ._estimators.msmtfl.search import MSMTFLCV
from ._runtime.progress import Progress
from .compare.evidence import Evidence, clear_from

MEASUREMENTS = {
    "age": "age", "bmi": "bmi", "bp": "pressure", "s1": "cholesterol", "s2": "ldl", "s3": "hdl", "s4": "chol/hdl",
    "s5": "triglycerides", "s6": "glucose",
}  # fmt: skip
FOLDS = 5


@dataclass(frozen=True)
class Patients:
    X: Floats
    y: Floats
    group: np.ndarray
    features: list[str]


def load_patients() -> Patients:
    """442 diabetes patients (Efron, Hastie, Johnstone, Tibshirani 2004), as scikit-learn carries them.

    Efron's 64 features are 10 measurements, their products, and squares. Here sex is part of the task, so it and its
    products are constant (or copies of other columns) inside every task: 54 features remain.
    """
    raw = load_diabetes(scaled=False)
    columns = dict(zip(raw.feature_names, raw.data.T, strict=True))
    band = np.digitize(columns["age"], np.quantile(columns["age"], [1 / 3, 2 / 3]))
    edges = [
        int(columns["age"].min()),
        *(int(columns["age"][band == b].min()) for b in (1, 2)),
        int(columns["age"].max()),
    ]
    spans = [f"{edges[b]}-{edges[b + 1] - (b < 2)}" for b in range(3)]
    sex = np.where(columns["sex"] == columns["sex"].min(), "sex 1", "sex 2")  # the source does not say which is which
    group = np.array([f"{s}, age {spans[b]}" for s, b in zip(sex, band, strict=True)])
    base = {name: (v - v.mean()) / v.std() for name, v in ((MEASUREMENTS[k], columns[k]) for k in MEASUREMENTS)}
    names, features = list(base), list(base)
    values = [base[name] for name in names]
    for i, first in enumerate(names):
        for second in names[i:]:
            values.append(base[first] * base[second])
            features.append(f"{first}^2" if first == second else f"{first} x {second}")
    return Patients(np.array(values).T, raw.target, group, features)


def held_out(patients: Patients, model: LassoMTLCV | MSMTFLCV, say) -> Floats:
    """Squared errors of every patient, predicted by a model (its lam and theta too) that never saw the patient."""
    errors = np.empty(len(patients.y))
    for train, test in TaskKFold(FOLDS, task=patients.group, random_state=0).split(patients.X):
        chosen = clone(model).fit(patients.X[train], patients.y[train], task=patients.group[train])
        errors[test] = (chosen.predict(patients.X[test], task=patients.group[test]) - patients.y[test]) ** 2
        say()
    return errors


def main() -> None:
    """Run the demo and print what it found."""
    began = time.perf_counter()
    patients = load_patients()
    with Progress(2 * FOLDS, "models", sys.stderr.isatty()) as progress:
        separate = held_out(patients, LassoMTLCV(standardize=True), progress.step)
        shared = held_out(patients, MSMTFLCV(standardize=True), progress.step)
    model = MSMTFLCV(standardize=True).fit(patients.X, patients.y, task=patients.group)
    print(_report(patients, model, separate, shared))
    print(f"\n{time.perf_counter() - began:.1f} s. Next: the README, or the commands: msmtfl --help")


def _report(patients: Patients, model: MSMTFLCV, separate: Floats, shared: Floats) -> str:
    groups = model.tasks_.tolist()
    spread = np.array([patients.X[patients.group == g].std(axis=0) for g in groups])
    effect = model.coef_ * spread  # change of y per standard deviation of the feature
    names = np.array(patients.features)
    order = np.argsort(-model.row_norms_)
    free = set(model.stages_[-1].free_rows.tolist())
    used = [j for j in order if model.row_norms_[j] > 0]
    sizes = [int((patients.group == g).sum()) for g in groups]
    lines = [
        f"Disease progression of {len(patients.y)} diabetes patients in {len(groups)} groups, {len(names)} features.",
        f"lam = {model.lam_:.3g}, theta = {model.theta_:.3g} (cross-validated): {model.n_stages_} stages.",
        "",
        f"{len(free)} of {len(names)} features are shared: strong enough over all groups to be freed of the penalty.",
        "Effect of one standard deviation on progression (a score from 25 to 346); . = not used.",
        "",
        f"{'':28}" + "".join(f"{g.split(',')[0]:>11}" for g in groups),
        f"{'':28}" + "".join(f"{g.split(', ')[1]:>11}" for g in groups),
        f"{'patients':28}" + "".join(f"{n:>11}" for n in sizes),
    ]
    for title, rows in (("shared", [j for j in used if j in free]), ("others", [j for j in used if j not in free])):
        lines.append(f"{title}:" if rows else f"{title}: none")
        for j in rows[:10]:
            cells = "".join(f"{v:>11.1f}" if v else f"{'.':>11}" for v in effect[:, j])
            lines.append(f"  {names[j]:<26}{cells}")
        if len(rows) > 10:
            lines.append(f"  and {len(rows) - 10} weaker ones")
    total = np.array(
        [((patients.y - patients.y[patients.group == g].mean())[patients.group == g] ** 2).sum() for g in groups]
    )
    by_group = np.array([[e[patients.group == g].sum() for g in groups] for e in (separate, shared)]) / total
    lines += [
        "",
        f"Held-out error ({FOLDS}-fold, lam and theta chosen inside; share of a group's variance left unexplained):",
        f"  {'separate lassos':<26}" + "".join(f"{v:>11.2f}" for v in by_group[0]),
        f"  {'msmtfl':<26}" + "".join(f"{v:>11.2f}" for v in by_group[1]),
        *_conclusion(patients, model.tasks_, separate, shared),
        "",
        "Certificate of the final fit:",
        *("  " + line for line in str(model.certificate_).splitlines()),
    ]
    return "\n".join(lines)


def _conclusion(patients: Patients, groups: np.ndarray, separate: Floats, shared: Floats) -> list[str]:
    """What sharing gained, as far as that is clear."""
    change, n = shared - separate, len(separate)
    wider = np.sqrt(1 + FOLDS / (FOLDS - 1))  # other patients would also train other models (Nadeau and Bengio 2003)
    se = float(wider * change.std(ddof=1) / np.sqrt(n))
    by_group = np.array([[e[patients.group == g].mean() for g in groups.tolist()] for e in (separate, change)])
    found = Evidence(
        difference=float(change.mean()),
        se=se,
        base=float(separate.mean()),
        reach=float(clear_from(n) * se),
        by_task=by_group[1],
        base_by_task=by_group[0],
        weight=np.array([float((patients.group == g).sum()) for g in groups.tolist()]),
        tasks=groups,
    )
    size = f"{abs(100 * found.change):.1f} %"
    error = f"standard error {100 * found.se_of_change:.1f} %, for other patients to train on and to predict"
    begin = {
        "better": f"Sharing lowers the squared error by {size}",
        "worse": f"Sharing raises the squared error by {size}",
    }
    way = "lower" if found.difference < 0 else "higher"
    said = begin.get(found.standing, f"With sharing the squared error is {size} {way}")
    doubt = "" if found.clear else f"That is not clear: {found.doubt}."
    return [line for line in (f"{said} ({error}).", f"{found.tasks_in_words()}.", doubt) if line]
