"""Effects of the levels of tasks: what fits and searches of nested models have in common."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..._data.designs import Floats
from ..._data.tables import label_array, names_of, warn_user
from ..._data.task_levels import SEPARATOR, TaskLevels
from ..._objective.coupled.level_penalty import KINDS, RIDGE
from ..._objective.penalties import ConcaveEntries, ConcaveRows
from ..._objective.problem import Problem
from ..._paths.families.nested_path import penalty_at
from ..._solvers.solvers import solver_for
from ..._solvers.stages import Solution, run_stages
from ..added_tasks import AddTaskMixin, entries_given


def named(task_column: Any) -> bool:
    """Whether several columns are named."""
    return isinstance(task_column, (list, tuple)) and all(isinstance(name, str) for name in task_column)


class Nested(AddTaskMixin):
    """What fits and searches have in common: they solve for what is common and for the effects of all values of all levels,
    and are about the sums to the outside."""

    coef_common_: Floats
    coef_effects_: Floats
    relax = False
    _of_several = "one of them is returned"
    _bounded = False

    def _check_common(self) -> None:
        super()._check_common()
        if self.kind not in KINDS:
            raise ValueError(f"kind must be 'sparse' or 'ridge', got {self.kind!r}.")
        if self.nested is not None and not isinstance(self.nested, bool | np.bool_):
            raise ValueError(f"nested must be True, False or None, got {self.nested!r}.")
        if not self._can_share(self.intercepts):
            raise ValueError(
                f"intercepts='common' is not possible with {type(self).__name__}: take 'shrunk' or 'task'."
            )

    def _can_share(self, intercepts: str) -> bool:
        return intercepts != "common"

    def _make_problem(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any = None) -> Problem:
        if np.ndim(self.penalty_factors) == 2:
            raise ValueError(
                "penalty_factors must have one entry per feature here: what is common belongs to all tasks."
            )
        return super()._make_problem(X, y, task, sample_weight, offset)

    def _levels(self, problem: Problem) -> TaskLevels:
        """Those of the tasks, with a warning of what cannot be told apart."""
        found = self._read_levels(problem, self.nested)
        single = [k for k, count in enumerate(found.counts.tolist()) if count == 1]
        if single and len(found.counts) > 1:
            name, value = found.names[single[0]], str(found.values[single[0]][0])
            warn_user(
                f"level {name!r} has one value, {value!r}: its effects cannot be told from what is common to all tasks. "
                "Leave the level out."
            )
        return found

    def _store(
        self, problem: Problem, solution: Solution, penalty: Any, grams: Any = None, coef: Floats | None = None
    ) -> None:
        points = [stage.coef.reshape(penalty.height, -1) for stage in solution.stages]
        pairs = zip(solution.stages, points, strict=True)
        stages = tuple(replace(stage, coef=penalty.coefs(P)) for stage, P in pairs)
        super()._store(problem, replace(solution, stages=stages), penalty, coef=penalty.coefs(points[-1]))
        levels, K = self._found_levels(problem), problem.classes
        lines = points[-1].reshape(-1, K, problem.d)
        lines = lines[:, 0] if K == 1 else lines
        self.coef_common_, self.coef_effects_ = lines[0].copy(), lines[1:].copy()
        self.effect_levels_ = np.repeat(np.array(levels.names, dtype=object), levels.counts)
        self.effect_values_ = label_array([value for values in levels.values for value in values.tolist()])
        self.task_effects_ = replace(levels, classes=1).blocks[:, 1:] - 1
        self.lam_, self.lam_common_ = float(penalty.lams[-1]), float(penalty.lams[0])
        self.lam_upper_ = penalty.lams[1:-1].copy()

    def _found_levels(self, problem: Problem) -> TaskLevels:
        """The same as `_levels`, which has warned already."""
        return self._read_levels(problem, bool(self.nested))

    def _read_levels(self, problem: Problem, nested: bool | None) -> TaskLevels:
        """Those of the tasks, of which each may stand for several classes."""
        labels = getattr(problem.data, "of_classes", None)
        found = TaskLevels.of(problem.data.labels if labels is None else labels, self._level_names(), nested)
        return replace(found, classes=problem.classes)

    def _level_names(self) -> Any:
        """What the task columns are called, which the command names in one text."""
        given = self.task_column
        return (
            [name.strip() for name in given.split(",")] if isinstance(given, str) else given if named(given) else None
        )

    def _warn(self, solution: Solution, problem: Problem) -> None:
        super()._warn(solution, problem)
        last = solution.stages[-1]
        undetermined = any(map(len, last.ambiguous)) and not last.endless
        if undetermined and self.lam_common_ == 0.0 and problem.m > problem.classes:
            warn_user(
                "the samples of all tasks together do not determine the common values: features are dependent, or there are "
                "more of them than samples. One of several solutions is returned. Give lam_common > 0, or let NestedMTLCV "
                "choose it."
            )

    def _common(self) -> Floats:
        return np.asarray(self.coef_common_)

    def _separates(self) -> bool:
        return False

    def _selects(self) -> bool:
        return bool(self.kind != RIDGE)

    # ------------------------------------------------------------------ what is known of a label

    def _values_of(self, label: Any) -> tuple[list[str], list[Any]]:
        """The levels, and the values that a label names at them."""
        names = list(dict.fromkeys(self.effect_levels_.tolist()))
        if len(names) == 1:
            return names, [label]
        parts = str(label).split(SEPARATOR)
        if len(parts) != len(names):
            raise ValueError(
                f"task {label!r} has {len(parts)} level(s), but the model has {len(names)} ({', '.join(names)}): write "
                f"{SEPARATOR!r} between them, as in {self.tasks_.tolist()[0]!r}."
            )
        if self.nested:
            parts = [parts[0], *(SEPARATOR.join(parts[: k + 1]) for k in range(1, len(parts)))]
        return names, list(parts)

    def _effects_of(self, label: Any) -> list[int]:
        """Places of the known values of a task's levels in `coef_effects_`, -1 where a value is not known."""
        levels, values = self.effect_levels_.tolist(), self.effect_values_.tolist()
        places = {pair: k for k, pair in enumerate(zip(levels, values, strict=True))}
        return [places.get(pair, -1) for pair in zip(*self._values_of(label), strict=True)]

    def effects(self, level: Any = None) -> dict[Any, Floats]:
        """Return the effects of the values of a level: what tasks with such a value have beside what is common.

        Parameters
        ----------
        level : str, optional
            The level: the name of its column, or "level 1", "level 2" and so on where tasks were given
            by labels. By default the last level.

        Returns
        -------
        dict of ndarray of shape (d,)
            The effects by value, in the order of `features_`; (K, d) with K > 2 classes.
        """
        check_is_fitted(self, "coef_effects_")
        names = list(dict.fromkeys(self.effect_levels_.tolist()))
        wanted = names[-1] if level is None else level
        if wanted not in names:
            raise ValueError(f"{level!r} is no level of this model; its levels are {names_of(names)}.")
        at = np.flatnonzero(self.effect_levels_ == wanted)
        return dict(zip(self.effect_values_[at].tolist(), self.coef_effects_[at], strict=True))

    def level_spread(self) -> dict[str, Floats]:
        """Return how much the effects of every level differ between the tasks.

        It is a map of sharing by level: where a feature's spread is 0 at a level, all tasks share its
        effect there. The squares of the levels add up to about the variance of the coefficients.

        Returns
        -------
        dict of ndarray of shape (d,)
            By level, from the widest on: the standard deviations, over the tasks, of the effects of their
            values, in the order of `features_`; (K, d) with K > 2 classes.
        """
        check_is_fitted(self, "coef_effects_")
        names = list(dict.fromkeys(self.effect_levels_.tolist()))
        effects = self.coef_effects_[self.task_effects_]  # (m, L, d), of K > 2 classes (m, L, K, d)
        return {name: effects[:, k].std(axis=0) for k, name in enumerate(names)}

    def _at_level(self, level: Any) -> Any:
        """A copy of the fitted model whose tasks are the values of a level, with their effects for coefficients: for what
        looks at coefficients only."""
        effects = self.effects(level)
        out = copy(self)
        out.tasks_, out.coef_ = label_array(list(effects)), np.array(list(effects.values()))
        of_tasks = self.task_effects_[:, list(dict.fromkeys(self.effect_levels_.tolist())).index(level)]
        first = int(np.flatnonzero(self.effect_levels_ == level)[0])
        out.learnable_ = np.array([self.learnable_[of_tasks == first + k].any(axis=0) for k in range(len(effects))])
        out.row_norms_ = np.abs(out.coef_).reshape(-1, len(self.features_)).sum(axis=0)
        return out

    def _line_of(self, label: Any, coef: Floats, intercept: Floats, means: Floats) -> tuple[Floats, Floats]:
        """The coefficients (K, d) and the intercepts (K,) of a new task, by what is known of its levels: what is common, the
        effects of the values that are known, and intercepts by level in the same way."""
        effects = self._effects_of(label)
        w = self.coef_common_ + sum(
            (self.coef_effects_[at] for at in effects if at >= 0), np.zeros_like(self.coef_common_)
        )
        w = w.reshape(coef.shape[1:])
        if not self.fit_intercept:
            return w, np.zeros(len(w))
        levels = intercept + np.einsum("mkd,md->mk", coef - w, means)  # of tasks with these coefficients
        base = np.tile(levels.mean(axis=0), (len(levels), 1))
        own = base[0].copy()
        for k, at in enumerate(effects):
            codes = self.task_effects_[:, k]
            sums = np.zeros((len(self.coef_effects_), len(w)))
            np.add.at(sums, codes, levels - base)
            mean = sums / np.maximum(np.bincount(codes, minlength=len(sums)), 1)[:, None]
            base = base + mean[codes]
            own += mean[at] if at >= 0 else 0.0
        return w, own

    # ------------------------------------------------------------------ one more task

    def _held_fixed(self, label: Any) -> Floats:
        known = [self.coef_effects_[at] for at in self._effects_of(label) if at >= 0]
        return np.asarray(self.coef_common_ + np.sum(known, axis=0) if known else self.coef_common_)

    def _new_l1_ratio(self) -> float:
        return 0.0 if self.kind == RIDGE else 1.0

    def _ridge_lam(self, problem: Problem) -> float:
        return float(2.0 * self.lam_ / (problem.classes * problem.designs[0].n)) if self.kind == RIDGE else 0.0

    def _penalty_given(self, problem: Problem) -> ConcaveEntries | ConcaveRows:
        if self.kind == RIDGE:
            return ConcaveRows(self._ridge_lam(problem), np.inf, problem.factors, l1_ratio=0.0)
        return entries_given(self, problem, self.lam_)

    def _append_parts(self, own: Floats, problem: Problem) -> None:
        label = self.tasks_.tolist()[-1]
        effects, (names, parts) = self._effects_of(label), self._values_of(label)
        own = own if self.coef_effects_.ndim == 2 else own[None]
        for k, at in enumerate(effects):
            last = k == len(names) - 1
            if at >= 0 and not last:
                continue
            # values that were not known have no effects but the last, which has the deviations of the task; where that was
            # known, too, these come to its effects in this task alone
            line = own if last else np.zeros_like(own)
            line, value = (line, parts[k]) if at < 0 else (line + self.coef_effects_[at], label)
            effects[k] = len(self.effect_levels_)
            self.coef_effects_ = np.concatenate([self.coef_effects_, line])
            self.effect_levels_ = np.append(self.effect_levels_, names[k])
            self.effect_values_ = label_array([*self.effect_values_.tolist(), value])
        self.task_effects_ = np.vstack([self.task_effects_, effects])


def nested_coef(model: Any, part: Problem) -> Floats:
    """(m, d): the coefficients at a fitted model's parameters on a part of the rows."""
    levels = model._found_levels(part)
    lams = [model.lam_common_, *model.lam_upper_, model.lam_]
    penalty = penalty_at(part, levels, model.kind, lams, getattr(model, "theta", np.inf))
    solution = run_stages(penalty, solver_for(part, penalty), max_stages=getattr(model, "max_stages", 1), tol=np.inf)
    return penalty.coefs(solution.stages[-1].coef.reshape(penalty.height, -1))
