"""Which tasks use which features: the sharing map of a fitted model.

A feature counts as used by a task where its coefficient is not zero (of more than two classes: that of any class). Zeros are
exact here, so there is no threshold. A column that is constant within a task cannot be told from its intercept: a zero there
says nothing, and the map says where that is so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._data.categories import of_model
from .._data.designs import Floats, Ints
from .._data.tables import choices_of, close_to, names_of
from .._estimators.families import family_of, has_family, odd_tasks
from .._estimators.fitted import BETWEEN_TASKS, model_chosen
from .._estimators.words.odd_tasks import odd_sentence
from .._objective.coupled.groups import groups_named
from .._runtime.text.cards import Card, pandas
from .by_class import class_place, coef_by_class, size_over_classes

if TYPE_CHECKING:
    from ..inference.shared import SharedFeatures

CLASSES = ("all", "some", "one", "unused", "constant")
LISTED = 5  # features of a class that are named when a map is printed


@dataclass(frozen=True, eq=False, repr=False)
class SharingMap(Card):
    """Which tasks use which features. Print it for the answer in words.

    Attributes
    ----------
    features : ndarray of shape (d,)
        Names of the features.
    tasks : ndarray of shape (m,)
        Labels of the tasks.
    support : ndarray of bool of shape (m, d)
        The tasks that use a feature.
    classes : ndarray of shape (d,)
        Who uses a feature: "all", "some" (at least two, not all), "one" or "unused"; with a single task
        "one" or "unused". "constant": the feature is constant within every task, so that no coefficient
        could be learned.
    n_tasks : ndarray of shape (d,)
        Number of tasks that use a feature.
    n_constant : ndarray of shape (d,)
        Number of tasks in which a feature does not vary, as far as is known.
    learnable : ndarray of bool of shape (m, d) or None
        Where a feature varies within a task; None if the model does not know (old files).
    task_level : ndarray of bool of shape (d,) or None
        Features that are constant within every task, but not the same in all; None if that is not known.
    row_norms : ndarray of shape (d,)
        How much a feature counts over all tasks: the model's `row_norms_`, or sums of |coefficients|.
    freed : ndarray of bool of shape (d,) or None
        Features that the last stage did not penalise; None if the model has no cap (or theta is inf).
    shrunk : str
        What becomes of the coefficients of such features, in words.
    signs : ndarray of shape (d,) or (K, d)
        "+" or "-" where all tasks that use a feature agree, "mixed", or "" if no task uses it. For a
        classifier with more than two `outcomes` they are given class by class: what raises the odds of one
        lowers those of others.
    outcomes : ndarray of shape (K,) or None
        The classes that such a classifier predicts; None for all other models.
    odd : ndarray or None
        Labels of the tasks that the model finds unlike the rest; None if it does not look for such tasks.
    shared : SharedFeatures or None
        Which features are declared to matter in at least r tasks, with a false discovery rate; None if that
        was not asked.
    declared : ndarray of bool of shape (d,) or None
        Whether a feature is; None if that was not asked.
    counts : dict {class: int}
        Number of features by `classes`.
    order : ndarray of shape (d,)
        Places of the features, most shared first: freed ones, then by class, then by norm.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.sharing import sharing_map
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(90)
    >>> found = sharing_map(MSMTFL(0.1, 1.5).fit(X, y, task=task))
    >>> found.classes[[0, 1, 3]], found.signs[[0, 3]]
    (array(['all', 'unused', 'all'], dtype=object), array(['+', '-'], dtype=object))
    """

    features: np.ndarray
    tasks: np.ndarray
    support: np.ndarray
    row_norms: Floats
    freed: np.ndarray | None
    signs: np.ndarray
    shrunk: str = "not shrunk"  # what becomes of freed rows
    learnable: np.ndarray | None = None
    task_level: np.ndarray | None = None
    outcomes: np.ndarray | None = None
    shared: SharedFeatures | None = None
    odd: np.ndarray | None = None

    @property
    def declared(self) -> np.ndarray | None:
        """Whether a feature is declared to matter in at least r tasks, (d,); None if that was not asked."""
        return None if self.shared is None else self.shared.declared

    @cached_property
    def n_tasks(self) -> Ints:
        """Number of tasks that use a feature, (d,)."""
        return np.asarray(self.support.sum(axis=0))

    @cached_property
    def n_constant(self) -> Ints:
        """Number of tasks in which a feature does not vary, as far as is known, (d,)."""
        if self.learnable is None:
            return np.zeros(len(self.features), dtype=np.intp)
        return np.asarray((~self.learnable).sum(axis=0))

    @cached_property
    def classes(self) -> np.ndarray:
        """Who uses a feature, (d,): "all", "some", "one" or "unused"; or "constant"."""
        m, n = len(self.tasks), self.n_tasks
        found = [(n == 0) & (self.n_constant == m), n == 0, n == 1, n == m]
        return np.select(found, ["constant", "unused", "one", "all"], "some").astype(object)

    @property
    def counts(self) -> dict[str, int]:
        """Number of features by `classes`."""
        return {name: int((self.classes == name).sum()) for name in CLASSES}

    @cached_property
    def order(self) -> Ints:
        """Places of the features, most shared first, (d,)."""
        freed = np.zeros(len(self.features), dtype=bool) if self.freed is None else self.freed
        place = np.array([CLASSES.index(name) for name in self.classes], dtype=np.intp)
        return np.lexsort((-self.row_norms, place, ~freed))

    def tasks_of(self, feature: str) -> np.ndarray:
        """Return the labels of the tasks that use a feature.

        Parameters
        ----------
        feature : str
            The name of the feature.

        Returns
        -------
        ndarray
            The labels.
        """
        found = np.flatnonzero(self.features == feature)
        if found.size == 0:
            known = self.features.tolist()
            close = close_to(feature, known)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"no feature {feature!r} among {choices_of(feature, known)}.{hint}")
        return self.tasks[self.support[:, found[0]]]

    def to_frame(self) -> Any:
        """Return a pandas table with one line per feature, in the order of `features`.

        Returns
        -------
        DataFrame
            The columns are feature, class, n_tasks, n_learnable (tasks in which it varies), tasks (a tuple of
            labels), row_norm, freed and sign; with more than two classes a sign for each. With `shared` also
            declared: whether the feature matters in at least r tasks, at the false discovery rate asked for.
        """
        nothing = [None] * len(self.features)
        columns = {
            "feature": self.features,
            "class": self.classes,
            "n_tasks": self.n_tasks,
            "n_learnable": nothing if self.learnable is None else self.learnable.sum(axis=0),
            "tasks": [tuple(self.tasks[used].tolist()) for used in self.support.T],
            "row_norm": self.row_norms,
            "freed": nothing if self.freed is None else self.freed,
        }
        if self.outcomes is None:
            columns["sign"] = self.signs
        else:
            columns |= {f"sign[{one}]": of for one, of in zip(self.outcomes.tolist(), self.signs, strict=True)}
        if self.declared is not None:
            columns["declared"] = self.declared
        return pandas().DataFrame(columns)

    # ------------------------------------------------------------------ in words

    def __repr__(self) -> str:
        m, counts = len(self.tasks), self.counts
        said = {
            "all": f"used by all {m} tasks",
            "some": "used by some tasks",
            "one": "used by one task",
            "unused": "unused",
        }
        lines = [f"{len(self.features)} features, {m} task{'s' * (m > 1)}"]
        lines += [f"{counts[name]:5d} {text}{self._strongest(name)}" for name, text in said.items() if counts[name]]
        lines += self._constant()
        if self.freed is not None:
            lines.append(f"{int(self.freed.sum()):5d} freed by the cap ({self.shrunk}){self._named(self.freed)}")
        if (mixed := np.asarray(np.atleast_2d(self.signs == "mixed").any(axis=0))).any():
            where = "" if self.outcomes is None else " for the same class"
            lines.append(f"{int(mixed.sum()):5d} with signs that differ between tasks{where}{self._mixed(mixed)}")
        odd = [] if self.odd is None else [odd_sentence(self.odd, len(self.tasks))]
        return "\n".join([*lines, *self._with_error_rate(), *self._closest(), *odd, *self._advice()])

    def _with_error_rate(self) -> list[str]:
        """Which features are declared, and how many the model uses in as many tasks without that being shown."""
        if self.shared is None:
            return []
        m, r, declared = len(self.tasks), self.shared.r, self.shared.declared
        where = f"at least {r} of {m} tasks" if m > 1 else "the task"
        rate = f"at most {100 * self.shared.fdr:g} % of them false on average"
        lines = [f"{int(declared.sum()):5d} declared to matter in {where} ({rate}){self._named(declared)}"]
        if (unsure := (self.n_tasks >= r) & ~declared).any():
            lines.append(
                f"{int(unsure.sum()):5d} used by {where} but not declared, which may be chance{self._named(unsure)}"
            )
        return [*lines, *(f"      approximate: {why}" for why in self.shared.approximate)]

    def _strongest(self, name: str) -> str:
        """The features of a class, with what the class leaves open."""
        m = len(self.tasks)
        if name == "some":
            return self._named(self.classes == name, lambda j: f" ({self.n_tasks[j]} of {m}{self._elsewhere(j)})")
        if name == "one" and m > 1:
            user = np.argmax(self.support, axis=0)
            return self._named(
                self.classes == name, lambda j: f" ({names_of([self.tasks[user[j]]])}{self._elsewhere(j)})"
            )
        if name == "unused":
            partly = int(((self.classes == name) & (self.n_constant > 0)).sum())
            return f" ({partly} of them constant in some tasks, where nothing could be learned)" if partly else ""
        return self._named(self.classes == name, self._borrowed)

    def _elsewhere(self, j: int) -> str:
        """In how many of the other tasks a feature could not be learned."""
        n = 0 if self.learnable is None else int((~self.learnable[:, j] & ~self.support[:, j]).sum())
        return f"; constant in {n}" if n else ""

    def _borrowed(self, j: int) -> str:
        """In how many tasks a feature has a value that was learned in others."""
        n = 0 if self.learnable is None else int((~self.learnable[:, j] & self.support[:, j]).sum())
        return f" (in {n} of them constant: its value comes from the others)" if n else ""

    def _constant(self) -> list[str]:
        """Features of which nothing could be learned."""
        if self.task_level is None:
            return []
        level = (self.classes == "constant") & self.task_level
        same = (self.classes == "constant") & ~self.task_level
        both = (
            (level, "NOT LEARNED: constant within every task, different between tasks"),
            (same, "the same in all rows"),
        )
        return [f"{int(some.sum()):5d} {said}{self._named(some)}" for some, said in both if some.any()]

    def _advice(self) -> list[str]:
        if self.task_level is None or not self.task_level.any():
            return []
        return [
            "What differs only between tasks cannot be told from their intercepts; zeros say nothing about its effect.",
            BETWEEN_TASKS,
        ]

    def _mixed(self, mixed: np.ndarray) -> str:
        """Which features have signs that differ; of several classes for which of them."""
        if self.outcomes is None:
            return self._named(mixed)
        classes = self.outcomes
        return self._named(mixed, lambda j: f" ({names_of(classes[self.signs[:, j] == 'mixed'], 3)})")

    def _named(self, some: np.ndarray, note: Callable[[int], str] = lambda j: "") -> str:
        """Names of some of the features, strongest first, cut after a few."""
        places = np.flatnonzero(some)
        places = places[np.argsort(-self.row_norms[places], kind="stable")]
        names = [f"{str(self.features[j])!r}{note(j)}" for j in places[:LISTED]]
        return f": {', '.join(names)}{', ...' * (len(places) > LISTED)}" if names else ""

    def _closest(self) -> list[str]:
        """Which tasks share most."""
        busy = np.flatnonzero(self.support.any(axis=1))
        if len(busy) < 2:
            return []
        alike = jaccard(self.support[busy])
        if alike.min() == 1.0:
            return [f"{'all tasks' if len(busy) == len(self.tasks) else f'{len(busy)} tasks'} use the same features"]
        pairs = np.triu(alike, 1)
        if pairs.max() == 0.0:
            return ["no two tasks use the same feature"]
        a, b = busy[list(np.unravel_index(int(np.argmax(pairs)), pairs.shape))]
        both, either = (int(f(self.support[a], self.support[b]).sum()) for f in (np.logical_and, np.logical_or))
        pair = " and ".join(names_of([self.tasks[i]]) for i in (a, b))
        return [f"tasks that share most: {pair}, {both} of the {either} features that either uses"]


def sharing_map(
    model: Any, *, class_of_interest: Any = None, shared: SharedFeatures | None = None, level: str | None = None
) -> SharingMap:
    """Class every feature as used by all tasks, by some, by one or by none, or as constant: not to be learned.

    Of groups of features and categorical columns the map has one line per variable, which is used where any
    of its features is (with `shared` it has one per feature).

    What a model uses is no proof that a feature matters: with `shared` the map also says which features do, with
    an error rate.

    Parameters
    ----------
    model : estimator
        A fitted model of this package, also one from :func:`msmtfl.model_files.load_model`; not ridge
        regression, which uses every feature everywhere.
    class_of_interest : str or number, optional
        One of the `classes_` of a classifier with more than two: the map is that of the coefficients of
        this class alone. By default a feature is used where any class uses it.
    shared : SharedFeatures, optional
        What :func:`msmtfl.shared_features` has found on data with the same features and tasks. The
        map then shows which features are declared to matter in at least r tasks, and how many the model uses
        in as many tasks without being declared.
    level : str, optional
        A level of the tasks of a nested model: the map is that of the effects of its values, which stand in
        the place of tasks. A feature that no value uses has the same effect in all of them.

    Returns
    -------
    SharingMap
        The map. Print it; `to_frame()` has one line per feature.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.sharing import sharing_map
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 20)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + np.where(task == "west", X[:, 5], 0) + 0.1 * rng.standard_normal(90)
    >>> found = sharing_map(MSMTFL(lam=0.1, theta=2.0).fit(X, y, task=task))
    >>> found
    20 features, 3 tasks
        2 used by all 3 tasks: 'x0', 'x3'
        1 used by one task: 'x5' ('west')
       17 unused
        2 freed by the cap (not shrunk): 'x0', 'x3'
    tasks that share most: 'north' and 'south', 2 of the 2 features that either uses
    >>> found.counts
    {'all': 2, 'some': 0, 'one': 1, 'unused': 17, 'constant': 0}
    >>> found.tasks_of("x5").tolist()
    ['west']
    """
    model = model_chosen(model)
    coef_by_class(model)
    if level is not None:
        if not hasattr(model, "_at_level"):
            raise TypeError(f"{type(model).__name__} has no levels of tasks: leave out level={level!r}.")
        model = model._at_level(level)
    if has_family(model) and not family_of(model).selects(model):
        raise TypeError(
            f"{type(model).__name__} sets no coefficient to zero: every task uses every feature, so there is no sharing to "
            "map. Take a sparse model, such as MSMTFLCV, LassoMTLCV or PooledLassoCV."
        )
    found = map_of(model, class_of_interest)
    if shared is None:
        return by_variable(found, variables_of(model))
    return replace(found, shared=_about_the_same(found, shared))


def variables_of(model: Any) -> list[str] | None:
    """The variable of every feature of a fitted model: its group, or the categorical column that it is a level of;
    None where each is one by itself."""
    model = model_chosen(model)
    names = getattr(model, "feature_groups_", None)
    if names is not None:
        return [str(name) for name in names]
    encoding = of_model(model)
    return None if encoding is None else encoding.variables


def by_variable(found: SharingMap, names: list[str] | None) -> SharingMap:
    """A sharing map of features, with variables in their place: one is used where any of its features is."""
    if names is None:
        return found
    groups = groups_named(names)
    firsts = np.array([at[0] for at in groups.members], dtype=np.intp)
    grouped = bool((found.row_norms == found.row_norms[firsts][groups.of]).all())  # all features have the group's norm
    norms = found.row_norms[firsts] if grouped else groups.sums(found.row_norms)

    def any_of(flags: np.ndarray) -> np.ndarray:
        """By variable, of an array whose last axis are the features."""
        return np.asarray(groups.sums(np.asarray(flags, dtype=np.float64).T).T > 0.0)

    signs = [any_of(found.signs == sign) for sign in ("+", "-", "mixed")]
    mixed = signs[2] | (signs[0] & signs[1])
    return replace(
        found,
        features=np.array(groups.names, dtype=object),
        support=any_of(found.support),
        row_norms=norms,
        freed=None if found.freed is None else any_of(found.freed),
        signs=np.select([mixed, signs[0], signs[1]], ["mixed", "+", "-"], "").astype(object),
        learnable=None if found.learnable is None else any_of(found.learnable),
        task_level=None if found.task_level is None else ~any_of(~found.task_level),
    )


def _about_the_same(found: SharingMap, shared: Any) -> SharedFeatures:
    """Shared features, if they are about the features and tasks of a map."""
    from ..inference.shared import SharedFeatures  # here: reading a model does not wait for it

    if not isinstance(shared, SharedFeatures):
        raise TypeError(f"shared must be what shared_features returns, not {type(shared).__name__}.")
    for what, mine, theirs in (
        ("features", found.features, shared.candidates),
        ("tasks", found.tasks, shared.tasks),
    ):
        if [str(name) for name in mine.tolist()] != [str(name) for name in theirs.tolist()]:
            raise ValueError(
                f"shared is about other {what} ({names_of(theirs)}) than the model ({names_of(mine)}). Call shared_features "
                f"with data that have the same {what}, in the same order."
            )
    return shared


def map_of(model: Any, class_of_interest: Any = None) -> SharingMap:
    """The sharing map of any fitted model, dense ones too."""
    model = model_chosen(model)
    every = coef_by_class(model)
    W = every if class_of_interest is None else every[:, [class_place(model, class_of_interest)]]
    norms = np.asarray(getattr(model, "row_norms_", size_over_classes(every).sum(axis=0)))
    if W is not every:  # its share of the norm
        size, total = (size_over_classes(part).sum(axis=0) for part in (W, every))
        norms = norms * np.divide(size, total, out=np.zeros_like(total), where=total > 0)
    positive, negative = (W > 0).any(axis=0), (W < 0).any(axis=0)
    signs = np.select([positive & negative, positive, negative], ["mixed", "+", "-"], "").astype(object)
    several = W.shape[1] > 1
    learnable = getattr(model, "learnable_", None)
    return SharingMap(
        features=model.features_,
        tasks=model.tasks_,
        support=np.asarray(W.any(axis=1)),
        row_norms=norms,
        freed=freed_rows(model),
        signs=signs if several else signs[0],
        shrunk="entries below theta_entry are shrunk" if getattr(model, "lam_entry_", 0.0) else "not shrunk",
        learnable=learnable,
        task_level=None if learnable is None else np.isin(model.features_, model.task_level_features_),
        outcomes=model.classes_ if several else None,
        odd=odd_tasks(model),
    )


def freed_rows(model: Any) -> np.ndarray | None:
    """(d,) bool: features that the last stage left un-penalised; None where there is no cap."""
    if np.isinf(getattr(model, "theta_", np.inf)) or getattr(model, "lam_", 1.0) == 0:
        return None
    return np.asarray(model.row_slopes_ == 0.0)


def jaccard(support: np.ndarray) -> Floats:
    """(m, m): features that both tasks use over those that either uses; 1 where neither uses any."""
    both = support.astype(np.float64) @ support.T
    n = support.sum(axis=1)
    either = n[:, None] + n - both
    return np.divide(both, either, out=np.ones_like(both), where=either > 0)
