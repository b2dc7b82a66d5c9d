"""What is known of models with levels of tasks: their record and the words of their grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._objective.coupled.level_penalty import RIDGE, SPARSE
from ..._objective.losses import loss_named
from ..._objective.penalties import ConcaveRows
from ..._paths.families.nested_path import NestedGrid
from ..families import LAM, Family, Formula, Part, Strength, Variant, at_once
from ..fitted import name_of_loss
from ..words.formula_texts import letters, of_groups
from ..words.grid_words import GridWords, Levels, Results, number
from .classifiers import NestedMTLClassifier, NestedMTLClassifierCV
from .effects import nested_coef
from .fit import NestedMTL
from .search import NestedMTLCV


def _levels(grid: Results) -> Levels:
    """Ratios of the strengths to that of the last level; of ridges on what is common these themselves."""
    uppers = [name for name in grid if name.startswith("lam_upper")]
    common, lam = grid["lam_common"][0], grid["lam"][0]
    fixed = (grid["lam_common"] == common).all()
    texts = []
    for l in range(len(lam)):
        parts = [number(float(grid[name][0, l] / lam[l])) for name in uppers]
        texts.append(", ".join([*parts, number(float(common[l] if fixed else common[l] / lam[l]))]))
    names = [r"$\lambda_u / \lambda$"] * len(uppers)
    return tuple(texts), ", ".join([*names, r"$\lambda_c$" if fixed else r"$\lambda_c / \lambda$"])


def _lassos(results: Results, m: int) -> np.ndarray:
    """Where nothing but the last level has effects."""
    others = [results[name] for name in results if name == "lam_common" or name.startswith("lam_upper")]
    return np.asarray(np.isinf(np.stack(others)).all(axis=0))


def _column(surface: Any, l: int) -> str:
    texts, what = _levels(surface.parameters)
    return f"{what} = {texts[l]}"


NESTED = GridWords(
    kind=NestedGrid,
    strength="lam",
    symbol=r"$\lambda$",
    norm=ConcaveRows,
    width=lambda model: int(model.strengths_.shape[1]),
    levels=_levels,
    lassos=_lassos,
    column=_column,
)


def of_nested(model: Any) -> Formula:
    loss, ridge = loss_named(name_of_loss(model)), model.kind == RIDGE
    names = list(dict.fromkeys(model.effect_levels_.tolist()))
    strengths = [*model.lam_upper_.tolist(), model.lam_]
    symbols = ["λ" if k == len(names) - 1 else "λᵤ" if len(names) == 2 else f"λᵤ{k + 1}" for k in range(len(names))]
    norm = "‖{}‖²" if ridge else "‖{}‖₁"
    over = "/N" if ridge else ""
    theta = float(getattr(model, "theta", np.inf))
    terms, sums = [], []
    if np.isfinite(model.lam_common_):
        sums.append("b")
        if model.lam_common_ > 0.0:
            terms.append(f"λ_c{over} {norm.format('b')}")
    for name, strength, symbol in zip(names, strengths, symbols, strict=True):
        if np.isfinite(strength):
            sums.append(f"u({name})")
            text = norm.format("u") if np.isinf(theta) else "Σⱼ min(‖uʲ‖₁, θ)"
            terms.append(f"{symbol}{over} Σ over {name} {text}" if np.isinf(theta) else f"{symbol} {text} of {name}")
    several = len(getattr(model, "classes_", ())) > 2
    if ridge:
        first, _, rest = loss.text.replace("({m} nᵢ)", "N").partition(" ")
        text = f"{first} Σᵢ {rest}"
    else:
        text = ("Σᵢₖ " if several else "Σᵢ ") + loss.text.format(m="m K" if several else "m")
    notes = [f"wᵢ = {' + '.join(sums)}" + (", for each class against the rest" if several else "")]
    if ridge:
        notes[0] += ", N samples in all" + (", counted once per class" if several else "")
    if np.isfinite(theta):
        notes.append(f"θ = {number(theta)}")
    if loss.note:
        notes.append(letters(loss, model))
    notes += of_groups(model)
    if getattr(model, "penalty_factors", None) is not None:
        notes.append("with penalty_factors f: f w in the place of w in the penalty")
    return text, "  +  ".join(terms), notes


def levels_in_words(model: Any) -> str:
    """How much of what differs between tasks belongs to which level."""
    spread = model.level_spread()
    parts = {name: float(((sd * model.feature_sd_) ** 2).sum()) for name, sd in spread.items()}
    total = sum(parts.values())
    if len(parts) < 2:
        return ""
    lams = [f"{lam:.4g} for {name}" for name, lam in zip(parts, [*model.lam_upper_.tolist(), model.lam_], strict=True)]
    strengths = f"The strengths of the levels are {', '.join(lams)}."
    if not total > 0.0:
        return strengths
    shares = [f"{100 * part / total:.0f} % {name}" for name, part in parts.items()]
    said = f"What differs between the effects of tasks is, by level: {', '.join(shares)} (of its variance)."
    return f"{said} {strengths}"


REGRESSION = Family(
    title="nested: what all tasks have in common, and effects of every level, as of regions and schools",
    fit=NestedMTL,
    search=NestedMTLCV,
    variants=(
        Variant(
            "nested",
            "sums over levels of tasks (--task region,school), sparse",
            place=13,
            when_named=True,
            when_levels=True,
        ),
        Variant(
            "nested-ridge",
            "sums over levels of tasks with ridges only: random effects",
            options={"kind": "ridge"},
            place=14,
            when_named=True,
            when_levels=True,
        ),
    ),
    formula=of_nested,
    strengths=(
        LAM,
        Strength("lam_common", "λ_c", optional=True, may_be_inf=True),
    ),
    by_default=(("lam", "lam_common"),),
    chosen="λ and ratios",
    parts=(
        Part("coef_common_", "Common value", "what a task would have of which nothing is known", common=True),
        Part(
            "coef_effects_",
            "Largest effect",
            "the largest over the values of all levels, in size",
            lines="effect_levels_",
            places="task_effects_",
        ),
    ),
    more=("lam_upper_", "effect_values_"),
    about=levels_in_words,
    grid=NESTED,
    grid_attributes=("strengths_",),
    coef_on=at_once(nested_coef),
    selects=lambda model: "" if getattr(model, "kind", SPARSE) == RIDGE else "entries",
    has_largest=False,
)

FAMILIES = (
    REGRESSION,
    REGRESSION.for_classes(
        "nested, for classes: what all tasks have in common, and effects of every level",
        NestedMTLClassifier,
        NestedMTLClassifierCV,
    ),
)
