"""A fitted model in words and as facts for programs."""

from __future__ import annotations

from typing import Any

import numpy as np


def facts(model: Any) -> dict[str, Any]:
    """What JSON can hold of a fit."""
    from .._estimators.families import family_of
    from .._estimators.fitted import choice_of, model_chosen, name_of_loss
    from .._objective.proofs.certificates import CRITICAL
    from ..sharing import map_of

    choice, model = choice_of(model).get("choice", {}), model_chosen(model)
    out: dict[str, Any] = {"model": type(model).__name__, **choice}
    out["loss"] = name_of_loss(model)
    out |= {strength.name: _plain(value) for strength, value in family_of(model).values(model).items()}
    if hasattr(model, "lam_max_"):
        out["lam_max"] = _plain(model.lam_max_)
    if getattr(model, "penalty", "capped") != "capped":
        out["penalty"] = str(model.penalty)
    if hasattr(model, "best_score_"):
        out["best_score"] = _plain(model.best_score_)
        out["scoring"] = _scoring(model)
    out |= _measured(model)
    out |= {"tasks": len(model.tasks_), "features": len(model.features_)}
    if getattr(model, "uses_offset_", False):
        out["offset"] = True
    if hasattr(model, "n_samples_"):
        out["rows"] = int(model.n_samples_.sum())
    found = map_of(model)
    out["features_by_class"] = found.counts
    if found.task_level is not None:
        out["task_level_features"] = [str(name) for name in found.features[found.task_level]]
    if found.odd is not None:
        out["odd_tasks"] = [str(label) for label in found.odd]
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
    from .._estimators.families import family_of
    from .._estimators.fitted import choice_of, model_chosen
    from ..sharing import map_of

    choice, model = choice_of(model).get("choice"), model_chosen(model)
    used = family_of(model).values_in_use(model)
    settings = [f"{strength.name} = {value:.4g}" for strength, value in used.items()]
    if getattr(model, "penalty", "capped") != "capped":
        settings.append(f"penalty = {model.penalty}")
    rows = f", {model.n_samples_.sum()} rows" if hasattr(model, "n_samples_") else ""
    tasks = f"{len(model.tasks_)} task{'s' * (len(model.tasks_) > 1)}"
    what = f"{type(model).__name__}: {tasks}{rows}, {len(model.features_)} features"
    what += ", an offset" * bool(getattr(model, "uses_offset_", False))
    lines = ["; ".join([what, ", ".join(settings)] if settings else [what])]
    if hasattr(model, "best_score_") and getattr(model, "n_splits_", None):
        lines.append(_score(model))
    why = [f"chosen automatically: {choice['reason']}", ""] if choice else []
    parts = [*why, *lines, "", str(map_of(model))]
    if hasattr(model, "certificate_"):
        parts += ["", str(model.certificate_)]
    return "\n".join(parts)


def _score(model: Any) -> str:
    """The error of rows that had no part in the choice of the parameters, and what is known of that of separate lassos."""
    from .._estimators.cross_fitted import lasso_points
    from .._estimators.fitted import of_survival, scoring_of
    from .._paths.searched import cross_fits
    from .._paths.validation.too_good import too_good
    from ..plots.views import measure_of

    found = _measured(model)
    if not found:
        score = scoring_of(model) if isinstance(model.scoring, str) else "score"
        if not cross_fits(model):
            return (
                f"{score} of the only fold: {model.best_score_:.4g}. It chose the parameters: new data will be worse."
            )
        way = "each fold predicted with parameters that the others chose"
        if of_survival(model):
            return f"held-out partial deviance: {-model.cross_fitted_score_:.4g}, {way}{_in_order(model)}"
        return f"{score}: {model.cross_fitted_score_:.4g}, {way}"
    name = measure_of(model).name
    text = f"held-out {name}: {found['held_out_error']:.4g}, each fold predicted with parameters that the others chose"
    if "lasso_error" in found:
        text += (
            f"\nseparate lassos: {found['lasso_error']:.4g}; difference {found['difference']:+.2g} (s.e. "
            f"{found['se']:.2g}); tasks: {found['tasks_better']} better, {found['tasks_worse']} worse; {found['standing']}"
        )
    if model.best_index_ in lasso_points(model) and len(model.tasks_) > 1:
        text += "\nthe point chosen is that of separate lassos"
    perfect = list(found.get("too_good", {}))
    return "\n".join(filter(None, [text, too_good(perfect, np.array(list(found["too_good"].values())), name)]))


def _in_order(model: Any) -> str:
    """In how many pairs of rows held out it is predicted which event comes first."""
    known = np.asarray(getattr(model, "concordance_", []), dtype=np.float64)
    known = known[np.isfinite(known)]
    if not known.size:
        return ""
    ends = f"{known.min():.3f}" + (f" to {known.max():.3f}, by task" if len(known) > 1 else "")
    return f"\nheld-out C-index: {ends} (0.5 is chance, 1 is perfect)"


def _measured(model: Any) -> dict[str, Any]:
    """Errors of rows that had no part in the choice of the parameters; empty if the fit has none."""
    from .._paths.validation.other_folds import points_without
    from .._paths.validation.too_good import PERFECT
    from ..plots.views import evidence_over_lasso, held_out_errors, is_lasso, measure_of, measures

    if not measures(model):
        return {}
    of_task, error = held_out_errors(model, points_without(model))
    known = of_task < PERFECT
    labels = [str(label) for label in model.tasks_[known].tolist()]
    out: dict[str, Any] = {
        "measure": measure_of(model).column,
        "held_out_error": error,
        "too_good": dict(zip(labels, of_task[known].tolist(), strict=True)),
    }
    if is_lasso(model):
        return out
    try:
        found = evidence_over_lasso(model)
    except ValueError:  # a grid without the lasso
        return out
    return out | {
        "lasso_error": found.base,
        "difference": found.difference,
        "se": found.se,
        "tasks_better": found.n_better,
        "tasks_worse": found.n_worse,
        "median_change": found.median_change,
        "standing": found.standing,
    }


def _scoring(model: Any) -> str:
    """What the score of a search is, greater being better."""
    from .._estimators.fitted import scoring_of

    if not getattr(model, "n_splits_", 0):
        return f"neg_{model.selection}"
    return str(scoring_of(model)) if isinstance(model.scoring, str) else "score of the user's own"


def _plain(value: Any) -> float | str:
    """A number that JSON knows; inf and nan as text."""
    number = float(value)
    return number if np.isfinite(number) else str(number)
