"""The families of models: one record each, from which everything else knows what there is.

A new family is a file with its classes and a record here. The command, comparisons, model files, inference, pictures and
reports read the records; none of them tests for a class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from .._data.designs import Floats
from .._objective.problem import Problem
from .._paths.grids import point_of
from .._paths.solve import solve_surface
from .base import loss_of, model_chosen
from .baselines import LogisticPerTaskCV, PooledLassoCV, PooledLogisticCV, PooledRidgeCV, RidgePerTaskCV
from .classifier import MSMTFLClassifier, MSMTFLClassifierCV
from .coupled import coupled_coef
from .dirty import DirtyMTL, DirtyMTLCV
from .dirty_classifier import DirtyMTLClassifier, DirtyMTLClassifierCV
from .formula_texts import (
    LOGISTIC,
    Formula,
    fixed,
    of_dirty,
    of_pooled_logistic,
    of_pooling,
    of_pretrained,
    of_rows,
    of_shared,
    penalised,
    squares_of_dirty,
    squares_of_shared,
)
from .grid_words import COMMON, LAMS, POOLED, PRETRAINED, RATIOS, THETAS, GridWords
from .l12 import L12MTL, L12MTLCV
from .l12_classifier import L12MTLClassifier, L12MTLClassifierCV
from .msmtfl import MSMTFL, LassoMTL
from .pooling import PartialPooling, PartialPoolingCV, pooled_coef
from .pooling_classifier import PartialPoolingClassifier, PartialPoolingClassifierCV
from .pretrained import PretrainedMTL, PretrainedMTLCV, pretrained_coef
from .search import MSMTFLCV, LassoMTLCV
from .shared import SharedMTL, SharedMTLCV, shared_coef
from .shared_classifier import SharedMTLClassifier, SharedMTLClassifierCV

CoefOn = Callable[..., Floats]  # fitted model, part of its problem, budget=, tick= -> (m, d)


# ------------------------------------------------------------------ coefficients at a setting


def staged_coef(model: Any, part: Problem, **options: Any) -> Floats:
    """(m, d): at lam and theta, in stages."""
    return solve_surface(part, point_of(model), max_stages=getattr(model, "max_stages", 1), **options).coef(0, 0)


def at_once(solve: Callable[[Any, Problem], Floats]) -> CoefOn:
    """As `staged_coef`, by a function that neither keeps a budget nor tells how far it is."""

    def coef_on(model: Any, part: Problem, *, tick: Callable[[float], Any], **options: Any) -> Floats:
        W = solve(model, part)
        tick(1.0)
        return W

    return coef_on


def no_coef(model: Any, part: Problem, **options: Any) -> Floats:
    """For families of which nothing is asked on parts of the rows."""
    raise TypeError(f"{type(model).__name__} is not solved on parts of its rows.")


# ------------------------------------------------------------------ what a record holds


@dataclass(frozen=True)
class Strength:
    """A parameter of a penalty; its value in a fitted model is the attribute of its name and an underscore.

    Attributes
    ----------
    name, symbol : "lam", "λ"
    caps : the strength that this one limits; where that is 0, this has no meaning
    optional : whether 0 says that the penalty does not have this part
    may_be_inf : whether inf is a value
    searched : whether the CV class has it too
    """

    name: str
    symbol: str
    caps: str = ""
    optional: bool = False
    may_be_inf: bool = False
    searched: bool = True

    @property
    def attribute(self) -> str:
        return f"{self.name}_"


@dataclass(frozen=True)
class Part:
    """A part of the coefficients that is kept by itself: the attribute, and a column of the report's table of features.
    One that is common to all tasks is (d,), the others are as `coef_`."""

    attribute: str
    title: str
    note: str = "the largest over tasks, in size"
    common: bool = False


@dataclass(frozen=True)
class Variant:
    """A family under a name of the command and of comparisons.

    Attributes
    ----------
    name, note : "msmtfl", and what the command's help says of it
    takes : the strengths that the command takes; None: all of the family
    options : parameters of the CV class that make the variant
    place : where it stands in comparisons, from the plainest on; None: it takes no part
    when_named : whether comparisons have it only where it is asked for by name
    command : whether `msmtfl fit` knows it
    """

    name: str
    note: str = ""
    takes: tuple[str, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    place: int | None = None
    command: bool = True
    when_named: bool = False


@dataclass(frozen=True, eq=False)
class Family:
    """What is known of a family of models.

    Attributes
    ----------
    title : what it is, in words
    fit, search : the class that is given its strengths (None: there is none), and the one that chooses them
    variants : its names
    formula : loss, penalty and notes in words, of a fitted model
    strengths : of its penalty, in the order in which they are shown
    main : the strength that stands for all of them where there is room for one
    by_default : parameters that `fit` takes from the data where all of a group are left out
    chosen : what a search chooses, in symbols
    parts : of its coefficients
    grid, grid_attributes : the grid of its search in words, and the attributes of the CV class that hold it
    coef_on : coefficients at a fitted model's setting on a part of its rows
    selects : of a model "entries", "rows" (a feature is used by all tasks or by none) or "" (every coefficient counts)
    has_largest : whether there is a strength from which on all is 0, `lam_max_`
    shares : whether tasks can share
    staged : whether fits have stages and certificates, which reports are about
    """

    title: str
    fit: type[Any] | None
    search: type[Any]
    variants: tuple[Variant, ...]
    formula: Callable[[Any], Formula]
    strengths: tuple[Strength, ...] = ()
    main: str = "lam"
    by_default: tuple[tuple[str, ...], ...] = ()
    chosen: str = "λ"
    parts: tuple[Part, ...] = ()
    grid: GridWords | None = None
    grid_attributes: tuple[str, ...] = ()
    coef_on: CoefOn = no_coef
    selects: Callable[[Any], str] = lambda model: "entries"
    has_largest: bool = True
    shares: bool = True
    staged: bool = True

    # ------------------------------------------------------------------ what the classes say

    @property
    def name(self) -> str:
        """The name of the class without its search, as reports have it."""
        return (self.fit or self.search).__name__

    @property
    def classes(self) -> tuple[type[Any], ...]:
        return (self.search,) if self.fit is None else (self.fit, self.search)

    @property
    def classifies(self) -> bool:
        return issubclass(self.search, ClassifierMixin)

    @property
    def takes_losses(self) -> bool:
        return "loss" in self.search._get_param_names()

    @property
    def takes_moments(self) -> bool:
        return hasattr(self.search, "fit_moments")

    @property
    def takes_batches(self) -> bool:
        return hasattr(self.fit, "partial_fit")

    # ------------------------------------------------------------------ of a model

    def is_search(self, model: Any) -> bool:
        return isinstance(model, self.search)

    def attributes(self, cls: type) -> tuple[str, ...]:
        """What a fitted model of one of the classes has, beside what all have."""
        searching = issubclass(cls, self.search)
        strengths = [one.attribute for one in self.strengths if one.searched or not searching]
        parts = [one.attribute for one in self.parts]
        return (
            *strengths,
            *parts,
            *(self.grid_attributes if searching else ()),
            *(("classes_",) if self.classifies else ()),
        )

    def values(self, model: Any) -> dict[Strength, float]:
        """The strengths that a fitted model has."""
        known = {one: getattr(model, one.attribute, None) for one in self.strengths}
        return {one: float(value) for one, value in known.items() if value is not None}

    def values_in_use(self, model: Any) -> dict[Strength, float]:
        """Those that its penalty depends on."""
        values = self.values(model)
        zero = {one.name for one, value in values.items() if value == 0.0}
        return {
            one: value
            for one, value in values.items()
            if one.caps not in zero and not (one.optional and one.name in zero)
        }

    def takes(self, variant: Variant) -> tuple[str, ...]:
        """The strengths that the command takes for a variant."""
        return tuple(one.name for one in self.strengths) if variant.takes is None else variant.takes


# ------------------------------------------------------------------ the records

LAM = Strength("lam", "λ")
THETA = Strength("theta", "θ", caps="lam", may_be_inf=True)
LAM_ENTRY = Strength("lam_entry", "λₑ", optional=True)
THETA_ENTRY = Strength("theta_entry", "θₑ", caps="lam_entry", may_be_inf=True)
BILEVEL = (LAM, THETA, LAM_ENTRY, THETA_ENTRY)

_REGRESSIONS: tuple[Family, ...] = (
    Family(
        title="multi-stage multi-task feature learning",
        fit=MSMTFL,
        search=MSMTFLCV,
        variants=(
            Variant("bi-level", "sparse rows and entries, the paper's model among them", place=4),
            Variant("msmtfl", "the paper's: rows alone", ("lam", "theta"), {"entry_shares": 0}, place=3),
        ),
        formula=penalised(of_rows("‖wʲ‖₁")),
        strengths=BILEVEL,
        by_default=(("lam",), ("theta",)),
        chosen="λ and θ",
        grid=THETAS,
        grid_attributes=("lams_", "thetas_"),
        coef_on=staged_coef,
    ),
    Family(
        title="independent lassos, one per task",
        fit=LassoMTL,
        search=LassoMTLCV,
        variants=(Variant("lasso", "one per task", place=0),),
        formula=penalised(of_rows("‖wʲ‖₁")),
        strengths=(LAM,),
        by_default=(("lam",),),
        grid=THETAS,
        grid_attributes=("lams_", "thetas_"),
        coef_on=staged_coef,
        shares=False,
    ),
    Family(
        title="L1,2: the group lasso over tasks",
        fit=L12MTL,
        search=L12MTLCV,
        variants=(Variant("l12", place=1),),
        formula=penalised(of_rows("‖wʲ‖₂")),
        strengths=(LAM, Strength("theta", "θ", caps="lam", may_be_inf=True, searched=False)),
        by_default=(("lam",),),
        grid=LAMS,
        grid_attributes=("lams_",),
        coef_on=at_once(coupled_coef),
        selects=lambda model: "rows",
    ),
    Family(
        title="the dirty model: shared plus task-specific coefficients",
        fit=DirtyMTL,
        search=DirtyMTLCV,
        variants=(Variant("dirty", place=2),),
        formula=penalised(of_dirty, squares_of_dirty),
        strengths=(Strength("lam_s", "λ_s"), Strength("lam_b", "λ_b")),
        main="lam_b",
        by_default=(("lam_s", "lam_b"),),
        chosen="λ_s and λ_b",
        parts=(Part("coef_shared_", "Shared part"), Part("coef_specific_", "Specific part")),
        grid=RATIOS,
        coef_on=at_once(coupled_coef),
    ),
    Family(
        title="values common to all tasks, and sparse deviations from them",
        fit=SharedMTL,
        search=SharedMTLCV,
        variants=(Variant("shared", place=5),),
        formula=penalised(of_shared, squares_of_shared),
        strengths=(
            Strength("lam_common", "λ_c", may_be_inf=True),
            Strength("lam_deviation", "λ_d", may_be_inf=True),
            Strength("theta", "θ", caps="lam_deviation", may_be_inf=True),
        ),
        main="lam_deviation",
        by_default=(("lam_common", "lam_deviation"),),
        chosen="λ_c, λ_d and θ",
        parts=(
            Part("coef_common_", "Common value", "what tasks that do not deviate have", common=True),
            Part("coef_deviation_", "Largest deviation"),
        ),
        grid=COMMON,
        grid_attributes=("thetas_",),
        coef_on=at_once(shared_coef),
    ),
    Family(
        title="partial pooling: values common to all tasks, and dense deviations from them",
        fit=PartialPooling,
        search=PartialPoolingCV,
        variants=(Variant("partial-pooling", "common values and dense deviations: ridges only", place=9),),
        formula=of_pooling,
        strengths=(
            Strength("k", "k", may_be_inf=True),
            Strength("k_common", "k_c", optional=True, may_be_inf=True),
        ),
        main="k",
        by_default=(("k",),),
        chosen="k and k_c",
        parts=(
            Part("coef_common_", "Common value", "what a task without data would have", common=True),
            Part("coef_deviation_", "Largest deviation"),
        ),
        grid=POOLED,
        grid_attributes=("ks_", "k_commons_"),
        coef_on=at_once(pooled_coef),
        selects=lambda model: "",
        has_largest=False,
    ),
    Family(
        title="the pretrained lasso: one lasso for all tasks, then one per task that starts from it",
        fit=PretrainedMTL,
        search=PretrainedMTLCV,
        variants=(
            Variant(
                "pretrained",
                "one lasso for all tasks, then one per task that starts from it",
                place=10,
                when_named=True,
            ),
        ),
        formula=penalised(of_pretrained),
        strengths=(
            LAM,
            Strength("alpha", "α"),
            Strength("lam_common", "λ_c", may_be_inf=True),
        ),
        by_default=(("lam",), ("lam_common",)),
        chosen="λ and α",
        parts=(
            Part("coef_common_", "First step", "the lasso of all tasks", common=True),
            Part("coef_specific_", "Largest of the second step"),
        ),
        grid=PRETRAINED,
        grid_attributes=("lams_",),
        coef_on=at_once(pretrained_coef),
        has_largest=False,
    ),
    Family(
        title="one ridge regression per task",
        fit=None,
        search=RidgePerTaskCV,
        variants=(Variant("ridge per task", place=6),),
        formula=fixed("‖fᵢ − yᵢ‖²", "αᵢ ‖wᵢ‖²", "for every task i by itself"),
        selects=lambda model: "",
        shares=False,
        staged=False,
    ),
    Family(
        title="one lasso for all tasks, each with its own intercept",
        fit=None,
        search=PooledLassoCV,
        variants=(Variant("pooled lasso", place=7),),
        formula=fixed("1/N Σᵢ ‖fᵢ − yᵢ‖²", "λ ‖w‖₁", "wᵢ = w: one for all tasks, N rows in all"),
        selects=lambda model: "rows",
        staged=False,
    ),
    Family(
        title="one ridge regression for all tasks, each with its own intercept",
        fit=None,
        search=PooledRidgeCV,
        variants=(Variant("pooled ridge", place=8),),
        formula=fixed("Σᵢ ‖fᵢ − yᵢ‖²", "α ‖w‖²", "wᵢ = w: one for all tasks"),
        selects=lambda model: "",
        staged=False,
    ),
)


def _for_classes(of: type[Any], fit: type[Any], search: type[Any], title: str) -> Family:
    """The record of the classifiers that have the penalty of a regression."""
    record = next(one for one in _REGRESSIONS if one.fit is of)
    variants = tuple(replace(one, note="", command=False) for one in record.variants)
    return replace(record, title=title, fit=fit, search=search, variants=variants)


FAMILIES: tuple[Family, ...] = (
    *_REGRESSIONS,
    Family(
        title="multi-stage multi-task feature learning for classes",
        fit=MSMTFLClassifier,
        search=MSMTFLClassifierCV,
        variants=(
            Variant("classifier", "for classes"),
            Variant("lasso", "", (), {"thetas": [np.inf], "entry_shares": 0}, place=0, command=False),
            Variant("msmtfl", "", ("lam", "theta"), {"entry_shares": 0}, place=3, command=False),
            Variant("bi-level", place=4, command=False),
        ),
        formula=penalised(of_rows("‖wʲ‖₁")),
        strengths=BILEVEL,
        by_default=(("lam",), ("theta",)),
        chosen="λ and θ",
        grid=THETAS,
        grid_attributes=("lams_", "thetas_"),
        coef_on=staged_coef,
    ),
    _for_classes(L12MTL, L12MTLClassifier, L12MTLClassifierCV, "L1,2 for classes: the group lasso over tasks"),
    _for_classes(
        DirtyMTL,
        DirtyMTLClassifier,
        DirtyMTLClassifierCV,
        "the dirty model for classes: shared plus task-specific coefficients",
    ),
    _for_classes(
        SharedMTL,
        SharedMTLClassifier,
        SharedMTLClassifierCV,
        "values common to all tasks, and sparse deviations from them, for two classes",
    ),
    _for_classes(
        PartialPooling,
        PartialPoolingClassifier,
        PartialPoolingClassifierCV,
        "partial pooling for two classes: values common to all tasks, and dense deviations from them",
    ),
    Family(
        title="one logistic regression per task",
        fit=None,
        search=LogisticPerTaskCV,
        variants=(Variant("ridge per task", place=6, command=False),),
        formula=fixed(LOGISTIC, "αᵢ/2 ‖wᵢ‖²", "for every task i by itself"),
        selects=lambda model: "",
        shares=False,
        staged=False,
    ),
    Family(
        title="one logistic regression for all tasks, each with its own intercept",
        fit=None,
        search=PooledLogisticCV,
        variants=(
            Variant("pooled lasso", options={"penalty": "l1"}, place=7, command=False),
            Variant("pooled ridge", options={"penalty": "l2"}, place=8, command=False),
        ),
        formula=of_pooled_logistic,
        selects=lambda model: "rows" if model.penalty == "l1" else "",
        staged=False,
    ),
)


# ------------------------------------------------------------------ looking up


def known_families() -> tuple[Family, ...]:
    """All there are, in the order in which they are listed."""
    return FAMILIES


def family_of(model: Any) -> Family:
    """The family of a model or of its class, of the nearest class that has a record; of a fitted MultiTaskAuto that of the
    model that it chose."""
    found = _record(model)
    if found is None:
        kind = model if isinstance(model, type) else type(model_chosen(model))
        raise TypeError(f"{kind.__name__} belongs to no family of models that msmtfl knows.")
    return found


def has_family(model: Any) -> bool:
    return _record(model) is not None


def _record(model: Any) -> Family | None:
    kind = model if isinstance(model, type) else type(model_chosen(model))
    of_class = {cls: family for family in known_families() for cls in family.classes}
    return next((of_class[cls] for cls in kind.__mro__ if cls in of_class), None)


def named_variants(more: Iterable[Family] = (), classify: bool = False) -> dict[str, tuple[Family, Variant]]:
    """What the command knows, by name; `more` are families that are not among these, as of MultiTaskAuto. To `classify`
    there are the classifiers, by the names that regressions of their kind have."""
    families = (*known_families(), *more)
    if classify:
        able = [(family, one) for family in families if family.classifies for one in family.variants]
        return {one.name.removesuffix("-classifier"): (family, one) for family, one in able}
    return {one.name: (family, one) for family in families for one in family.variants if one.command}


def compared_variants(classify: bool, named: bool = False) -> dict[str, tuple[Family, Variant]]:
    """What takes part in comparisons, of numbers or of classes, by name: the plainest first. With `named` also what does
    only where it is asked for."""
    pairs = [(family, one) for family in known_families() if family.classifies == classify for one in family.variants]
    listed = [(family, one) for family, one in pairs if named or not one.when_named]
    taking_part = [(one.place, one.name, family, one) for family, one in listed if one.place is not None]
    return {name: (family, one) for _, name, family, one in sorted(taking_part, key=lambda part: part[0])}


def lassos_like(model: Any, **options: Any) -> Any:
    """A search of separate lassos, one per task with a common lam, for the loss or the classes of a model."""
    options |= {"thetas": [np.inf], "entry_shares": 0}
    if family_of(model).classifies:
        return MSMTFLClassifierCV(class_weight=getattr(model, "class_weight", None), **options)
    return MSMTFLCV(loss=loss_of(model), epsilon=getattr(model, "epsilon", 1.35), **options)


def known_strengths() -> tuple[Strength, ...]:
    """Those of all families; one of each name."""
    return tuple({one.name: one for family in known_families() for one in family.strengths}.values())


def grid_words(model: Any) -> GridWords:
    """The grid of a model's search in words."""
    found = family_of(model).grid
    if found is None:
        raise TypeError(f"{type(model).__name__} searches no grid.")
    return found


def surface_words(surface: Any) -> GridWords:
    """The grid of a surface in words."""
    kinds = [family.grid for family in known_families() if family.grid is not None]
    found = next((kind for kind in kinds if kind.describes(surface)), None)
    if found is None:
        raise TypeError(f"{type(surface).__name__} is the surface of no family of models that msmtfl knows.")
    return found
