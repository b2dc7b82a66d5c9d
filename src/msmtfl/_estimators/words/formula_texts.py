"""What families minimise, in words: a loss, a penalty at the strengths of a fitted model, and what the letters are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._objective.losses import Loss, loss_named
from ..._objective.shapes import MCP, SCAD, SHAPES, Capped, LogSum, Power
from ..families import Formula
from ..fitted import classes_together, groups_of, name_of_loss

Penalty = tuple[str, list[str]]  # its text, and notes on the letters


def squares_of_entries(model: Any) -> str:
    """The ridge of models that have one strength, or one beside it for entries."""
    return f"{'(λ + λₑ)' if getattr(model, 'lam_entry_', 0.0) else 'λ'}/2 Σ wⱼᵢ²"


def _with_ridge(model: Any, text: str, squares: Callable[[Any], str]) -> str:
    """The penalty of a model, of which the share l1_ratio is a norm."""
    ratio = getattr(model, "l1_ratio_", getattr(model, "l1_ratio", 1.0))
    return text if ratio == 1.0 else mixed(ratio, text, squares(model))


def mixed(ratio: float, text: str, squares: str) -> str:
    """A penalty, of which the share `ratio` is a norm and the rest a ridge."""
    if ratio == 1.0:
        return text
    if ratio == 0.0:
        return squares
    return f"{ratio:.4g} [{text}]  +  {1.0 - ratio:.4g} [{squares}]"


def penalised(
    penalty: Callable[[Any], Penalty], squares: Callable[[Any], str] = squares_of_entries
) -> Callable[[Any], Formula]:
    """The formula of a family with a loss per task, this penalty, and a ridge on these squares."""

    def formula(model: Any) -> Formula:
        K = len(getattr(model, "classes_", ()))
        kind, together = loss_named(name_of_loss(model)), classes_together(model)
        loss = ("Σᵢₖ " if K > 2 and not together else "Σᵢ ") + kind.text.format(m="m K" if K > 2 else "m")
        text, notes = penalty(model)
        note = letters(kind, model)
        notes = [*([note] if note else []), *notes, *of_classes(model)]
        notes += of_groups(model)
        if getattr(model, "penalty_factors", None) is not None:
            notes.append("with penalty_factors f: f w in the place of w in the penalty")
        return loss, _with_ridge(model, text, squares), notes

    return formula


def letters(loss: Loss, model: Any) -> str:
    """What the letters of a loss's text are."""
    return loss.note.format(epsilon=getattr(model, "epsilon", 0.0), power=getattr(loss, "power", 0.0))


def of_groups(model: Any) -> list[str]:
    """What is said where a penalty knows groups of features."""
    said = "j: groups of p features, whose coefficients count together as p^½ ‖w‖₂"
    return [] if groups_of(model) is None else [said]


def fixed(loss: str, penalty: str, note: str) -> Callable[[Any], Formula]:
    """The formula of a baseline, which says the same of every fit."""
    return lambda model: (loss, penalty, [note, *of_classes(model)])


def of_classes(model: Any) -> list[str]:
    several = len(getattr(model, "classes_", ())) > 2 and not classes_together(model)
    return ["y = 1 in one class, 0 in the others"] if several else []


# ------------------------------------------------------------------ penalties


def of_rows(norm: str) -> Callable[[Any], Penalty]:
    """A penalty of row norms, and one of entries beside it where the model has that."""

    def penalty(model: Any) -> Penalty:
        given, theta = getattr(model, "penalty", "capped"), getattr(model, "theta_", np.inf)
        shape = SHAPES[given] if isinstance(given, str) else given
        parts: list[str] = []
        notes: list[str] = []
        if model.lam_:
            text, note = bent(shape, norm, "θ", theta)
            parts, notes = [f"λ Σⱼ {text}"], note
        if getattr(model, "lam_entry_", 0.0):
            text, note = bent(shape, "|wⱼᵢ|", "θₑ", model.theta_entry_)
            parts.append(f"λₑ Σ {text}")
            notes = notes or note
        return "  +  ".join(parts), notes

    return penalty


BENT: dict[type, Callable[[Any], str]] = {
    MCP: lambda shape: "t − t²/(2θ) up to t = θ, θ/2 beyond",
    SCAD: lambda shape: f"t up to θ/{shape.a:g}, then its slope falls to 0 at θ",
    LogSum: lambda shape: "θ log(1 + t/θ)",
    Power: lambda shape: f"θ/{shape.q:g} [(1 + t/θ)^{shape.q:g} − 1]",
}


def bent(shape: Any, norm: str, name: str, theta: float) -> Penalty:
    """What a norm costs per unit of lam, and what that means if it is no cap."""
    if np.isinf(theta):
        return norm, []
    if isinstance(shape, Capped):
        return f"min({norm}, {name})", []
    said = BENT.get(type(shape), lambda one: f"value of {one!r}")(shape)
    return f"φ({norm}; {name})", [f"φ(t; θ) = {said}"]
