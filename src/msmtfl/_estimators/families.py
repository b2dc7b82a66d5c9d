"""The families of models: one record each, from which everything else knows what there is.

A family is a folder of `_estimators/` (or a file) with its classes, and a module with their records, `FAMILIES`, which is
named in `LISTED`. The command, comparisons, model files, inference, pictures and reports read the records through the
functions below; none of them tests for a class. The modules of the records are imported when somebody asks for the first
time, so that nothing here depends on a family.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from .._data.designs import Floats
from .._objective.problem import Problem
from .fitted import loss_of, model_chosen
from .words.grid_words import GridWords

LISTED = tuple(  # modules with records, in the order in which families are shown
    f"msmtfl._estimators.{name}.record"
    for name in ("msmtfl", "lasso", "l12", "dirty", "shared", "pooling", "pretrained", "robust", "nested", "baselines")
)
Formula = tuple[str, str, list[str]]  # loss, penalty, notes
CoefOn = Callable[..., Floats]  # fitted model, part of its problem, budget=, tick= -> (m, d)


# ------------------------------------------------------------------ coefficients at a setting


def at_once(solve: Callable[[Any, Problem], Floats]) -> CoefOn:
    """The coefficients at a setting, by a function that neither keeps a budget nor tells how far it is."""

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
    One that is common to all tasks is (d,), the others are as `coef_`; or they have a line for everything that is in the
    attribute `lines`, of which every task has those that `places` (m, L) names."""

    attribute: str
    title: str
    note: str = "the largest over tasks, in size"
    common: bool = False
    lines: str = ""
    places: str = ""


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
    when_levels : whether they have it where tasks have several levels, too
    command : whether `msmtfl fit` knows it
    scaling : `standardize` in comparisons that do not standardise
    """

    name: str
    note: str = ""
    takes: tuple[str, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    place: int | None = None
    command: bool = True
    when_named: bool = False
    when_levels: bool = False
    scaling: bool | str = False


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
    more : attributes that belong to strengths or parts
    about : what a fitted model's parts say of the tasks, in a sentence; "" where there is nothing to say
    odd : the attribute with the labels of tasks that are unlike the rest, where a model names them
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
    more: tuple[str, ...] = ()
    about: Callable[[Any], str] = lambda model: ""
    odd: str = ""
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
        parts = [name for one in self.parts for name in (one.attribute, one.lines, one.places) if name]
        return (
            *strengths,
            *parts,
            *self.more,
            *((self.odd,) if self.odd else ()),
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

    def for_classes(self, title: str, fit: type[Any], search: type[Any]) -> Family:
        """The record of the classifiers that have the penalty of these regressions."""
        variants = tuple(replace(one, note="", command=False) for one in self.variants)
        return replace(self, title=title, fit=fit, search=search, variants=variants)


LAM = Strength("lam", "λ")  # of several families
THETA = Strength("theta", "θ", caps="lam", may_be_inf=True)


# ------------------------------------------------------------------ looking up


def known_families() -> tuple[Family, ...]:
    """All there are: regressions in the order in which they are listed, then classifiers."""
    return _records_in(LISTED)


@cache
def _records_in(modules: tuple[str, ...]) -> tuple[Family, ...]:
    """Importing a module twice at a time does no harm, nor does making the same tuple twice: no lock is needed."""
    found = [family for name in modules for family in import_module(name).FAMILIES]
    return tuple(sorted(found, key=lambda family: family.classifies))


def family_of(model: Any) -> Family:
    """The family of a model or of its class, of the nearest class that has a record; of a fitted MultiTaskAuto that of the
    model that it chose."""
    found = _record(model)
    if found is None:
        kind = model if isinstance(model, type) else type(model_chosen(model))
        raise TypeError(f"{kind.__name__} belongs to no family of models that msmtfl knows.")
    return found


def is_regression_of(model: Any, variant: str) -> bool:
    """Whether a model is a regression of the family that has a variant of this name."""
    named = [one for one in known_families() if not one.classifies and variant in {each.name for each in one.variants}]
    return any(isinstance(model, one.classes) for one in named)


def has_family(model: Any) -> bool:
    return _record(model) is not None


def odd_tasks(model: Any) -> np.ndarray | None:
    """Labels of the tasks that a fitted model finds unlike the rest; None if it is of no family that names such tasks."""
    record, model = _record(model), model_chosen(model)
    return None if record is None or not record.odd else np.asarray(getattr(model, record.odd))


def about_tasks(model: Any) -> str:
    """What a fitted model's parts say of the tasks, in a sentence; empty if that is nothing."""
    record = _record(model)
    return "" if record is None else record.about(model_chosen(model))


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


def compared_variants(classify: bool, named: bool = False, levels: bool = False) -> dict[str, tuple[Family, Variant]]:
    """What takes part in comparisons, of numbers or of classes, by name: the plainest first. With `named` also what does
    only where it is asked for, with `levels` what does where tasks have several levels."""
    pairs = [(family, one) for family in known_families() if family.classifies == classify for one in family.variants]
    listed = [(family, one) for family, one in pairs if named or not one.when_named or (levels and one.when_levels)]
    taking_part = [(one.place, one.name, family, one) for family, one in listed if one.place is not None]
    return {name: (family, one) for _, name, family, one in sorted(taking_part, key=lambda part: part[0])}


def lassos_like(model: Any, **options: Any) -> Any:
    """A search of separate lassos, one per task with a common lam, for the loss or the classes of a model."""
    options |= {"thetas": [np.inf], "entry_shares": 0}
    classify = family_of(model).classifies
    family, _ = compared_variants(classify)["msmtfl"]
    if classify:
        return family.search(class_weight=getattr(model, "class_weight", None), **options)
    return family.search(loss=loss_of(model), epsilon=getattr(model, "epsilon", 1.35), **options)


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
