"""A fitted model in words and as facts for programs."""

from __future__ import annotations

from typing import Any

import numpy as np

STRENGTHS = (
    "lam_",
    "lam_common_",
    "lam_deviation_",
    "theta_",
    "lam_entry_",
    "theta_entry_",
    "lam_s_",
    "lam_b_",
    "lam_max_",
)


def facts(model: Any) -> dict[str, Any]:
    """What JSON can hold of a fit."""
    from ..auto import choice_of
    from ..certificates import CRITICAL
    from ..linear import loss_of, model_chosen
    from ..sharing import map_of

    choice, model = choice_of(model).get("choice", {}), model_chosen(model)
    out: dict[str, Any] = {"model": type(model).__name__, **choice}
    out["loss"] = "logistic" if hasattr(model, "classes_") else loss_of(model)
    out |= {name.rstrip("_"): _plain(getattr(model, name)) for name in STRENGTHS if hasattr(model, name)}
    if getattr(model, "penalty", "capped") != "capped":
        out["penalty"] = str(model.penalty)
    if hasattr(model, "best_score_"):
        out["best_score"] = _plain(model.best_score_)
    out |= {"tasks": len(model.tasks_), "features": len(model.features_)}
    if hasattr(model, "n_samples_"):
        out["rows"] = int(model.n_samples_.sum())
    found = map_of(model)
    out["features_by_class"] = found.counts
    if found.task_level is not None:
        out["task_level_features"] = [str(name) for name in found.features[found.task_level]]
    if hasattr(model, "certificate_"):
        proof = model.certificate_
        out["converged"] = bool(model.converged_)
        out["stopping_reason"] = model.stopping_reason_
        out["stages"] = int(model.n_stages_)
        out["objective"] = _plain(model.objective_)
        out["dual_gap"] = _plain(model.dual_gap_)
        out["unique"] = bool(proof.unique)
        out["critical"] = bool(proof.critical <= CRITICAL)
        out["critical_residual"] = _plain(proof.critical)
    return out


def describe(model: Any) -> str:
    """A fit for people: what it is, how well it predicts, what is shared, what is proven."""
    from ..auto import choice_of
    from ..linear import model_chosen
    from ..sharing import map_of

    choice, model = choice_of(model).get("choice"), model_chosen(model)
    shown = [name for name in STRENGTHS[:-1] if hasattr(model, name)]
    if not getattr(model, "lam_entry_", 0.0):
        shown = [name for name in shown if not name.endswith("entry_")]
    strengths = ", ".join(f"{name.rstrip('_')} = {getattr(model, name):.4g}" for name in shown)
    if getattr(model, "penalty", "capped") != "capped":
        strengths += f", penalty = {model.penalty}"
    rows = f", {model.n_samples_.sum()} rows" if hasattr(model, "n_samples_") else ""
    tasks = f"{len(model.tasks_)} task{'s' * (len(model.tasks_) > 1)}"
    lines = [
        f"{type(model).__name__}: {tasks}{rows}, {len(model.features_)} features" + "; " * bool(strengths) + strengths
    ]
    if hasattr(model, "best_score_") and getattr(model, "n_splits_", None):
        lines.append(_score(model))
    why = [f"chosen automatically: {choice['reason']}", ""] if choice else []
    parts = [*why, *lines, "", str(map_of(model))]
    if hasattr(model, "certificate_"):
        parts += ["", str(model.certificate_)]
    return "\n".join(parts)


def _score(model: Any) -> str:
    """The cross-validated error, and that of the best lasso on the same folds where the grid contains it."""
    scoring = getattr(model, "scoring", "")
    names = {"neg_nmse": "nMSE", "neg_amse": "aMSE", "neg_mse": "MSE", "neg_log_loss": "log-loss"}
    name = names.get(scoring) if isinstance(scoring, str) else None
    if name is None:
        return f"cross-validated score ({scoring}): {model.best_score_:.4g}"
    from ..linear import loss_of
    from ..views import lasso_points

    text = f"cross-validated {name}: {abs(model.best_score_):.4g}"
    lassos = lasso_points(model)
    if model.best_index_ in lassos:
        return f"{text} (the point chosen is that of separate lassos)" if len(model.tasks_) > 1 else text
    if lassos.size:
        lasso = -np.nanmax(model.cv_results_["mean_test_score"][lassos])
        known = hasattr(model, "classes_") or loss_of(model) == "squared"
        fair = "`msmtfl compare`" if known else "compare_models, given models with this loss,"
        text += f" (separate lassos: {lasso:.4g}; the same folds chose, {fair} is fairer)"
    return text


def _plain(value: Any) -> float | str:
    """A number that JSON knows; inf and nan as text."""
    number = float(value)
    return number if np.isfinite(number) else str(number)
