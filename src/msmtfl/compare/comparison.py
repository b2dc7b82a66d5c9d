"""Did sharing help, and for whom? What errors on the same held-out samples say, in words and in tables. (`run.py` runs the
models, `errors.py` has the numbers, `picture.py` draws them.)"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._data.designs import Floats
from .._data.tables import names_of
from .._estimators.words.odd_tasks import odd_sentence
from .._paths.validation.too_good import too_good
from .._runtime.text.cards import Card
from .errors import Dropped, HeldOutErrors
from .evidence import CLEAR, LEVEL, Evidence, decimals
from .picture import draw

__all__ = ["CLEAR", "LEVEL", "REFERENCE", "SEPARATE", "Comparison"]

REFERENCE = "lasso"  # separate models: what sharing is measured against
NEW_TASK = ("new_task_nmse", "new_task_nmse_centred", "new_task_nmse_common", "new_task_nmse_similar")
SEPARATE = (REFERENCE, "ridge per task")  # models by default that share nothing
NAMED = 3  # how many of the tasks that gain or lose the verdict names
NESTED, PLAIN = "nested cross-validation", "cross-validation"
HOW = {  # parameters are chosen
    NESTED: "parameters chosen anew within the training rows of every fold (nested cross-validation)",
    PLAIN: "every fold with the parameters that the other folds choose",
}
OF_NEW_DATA = "s.e.: of the difference, had other rows been drawn to train on and to predict (Nadeau and Bengio 2003)"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(HeldOutErrors, Card):
    """Held-out errors of several models on the same samples. Print it for the answer in words.

    Errors are nMSE: a task's mean squared error over the variance of its targets; over tasks they are
    averaged by size. Errors of classifiers are log-losses over that of predicting the task's class shares.
    Either way 1 is to know nothing. Differences are to the reference model, sample by sample. Their
    standard errors are for new data: other samples (groups) to predict and other samples to train on.
    Parameters are never those that the samples held out have chosen: a fold's are chosen by the other folds,
    or (`nested`) within its training samples.
    Whether a model is better is not decided by the total alone, which a single task may make: see
    `evidence`. Tasks with constant targets are left out; a task with a single sample (group) has no
    standard error.

    Attributes
    ----------
    models : list of str
        Names of the models.
    reference : str
        The model that the others are compared with.
    tasks : ndarray of shape (m,)
        Labels of the tasks.
    measure : Measure
        What the errors are: its `name` says it in words.
    way : str
        How parameters were chosen: "cross-validation" or "nested cross-validation".
    error : ndarray of shape (models,)
        Held-out error of every model.
    error_by_task : ndarray of shape (models, m)
        Held-out error by task; NaN where a task has none.
    nmse : ndarray of shape (models,)
        The errors, if they are nMSE.
    nmse_by_task : ndarray of shape (models, m)
        The errors by task, if they are nMSE.
    auc : ndarray of shape (models,) or None
        Area under the ROC curve for two classes, over pairs of samples that are held out together.
    auc_by_task : ndarray of shape (models, m) or None
        That area by task.
    difference : ndarray of shape (models,)
        Error less that of the reference.
    se : ndarray of shape (models,)
        Standard error of the difference: `se_of_rows` times the root of 1 + samples held out / samples of a
        fold's training, which is 1.5 with five folds (Nadeau and Bengio, Machine Learning 52, 2003).
    se_of_families : ndarray of shape (models,)
        Another name of `se`.
    se_of_rows : ndarray of shape (models,)
        Standard error for these very models on other samples. Over data sets differences vary up to 1.7
        times as much, so no conclusion should rest on it.
    difference_by_task : ndarray of shape (models, m)
        Error less that of the reference, by task.
    se_by_task : ndarray of shape (models, m)
        Standard error of the difference, by task.
    se_of_rows_by_task : ndarray of shape (models, m)
        Standard error for these very models on other samples, by task.
    gains : ndarray of bool of shape (models, m)
        Tasks whose difference is clearly below 0: a 95 % interval excludes 0, and so it does at a false
        discovery rate of 5 % over all tasks (Benjamini and Hochberg), as some of many tasks differ by chance.
    loses : ndarray of bool of shape (models, m)
        Tasks whose difference is clearly above 0, in the same sense.
    best : str
        The model with the smallest error.
    means : ndarray of shape (scores,) or None
        Losses of predicting what the training samples of a task are like, their mean or class shares;
        `over_means` compares models with it.
    rounding : ndarray of shape (m,) or None
        Differences of errors that rounding can explain: smaller ones count as 0.
    perfect : ndarray of bool of shape (m,)
        Tasks that some model predicts to a relative error below 1e-6, which no measurement allows: their
        target is computed from a feature, or samples are there twice.
    screened : dict {name: Dropped}
        The models that were screened out, with their error and that of the best model on the same samples.
    dropped : dict {name: float}
        The models that were screened out, with their error on the folds until then.
    steadied : Comparison
        This comparison with the variances of small tasks drawn towards the others', so that a task whose
        few targets happen to be alike does not decide.
    odd_tasks : dict {model: labels}
        Of models that look for tasks unlike the rest: those that a fit to all samples finds. (With nested
        cross-validation there is no such fit.)
    n_features : ndarray of shape (models,)
        Number of features used in any task, averaged over folds: of a search on all samples, at the points
        that folds choose for each other.
    seconds : ndarray of shape (models,)
        Time of a search on all samples, folds included; or of a fit, averaged over folds.
    n_splits : int
        Number of folds.
    n_clusters : int
        Number of samples (groups) held out that count.
    new_task_nmse : ndarray of shape (models, m) or None
        nMSE of tasks left out as a whole, predicted by the mean of the others with their mean intercept.
    new_task_nmse_centred : ndarray of shape (models, m) or None
        nMSE of tasks left out as a whole, predicted by the mean of the others with the task's own intercept.
    new_task_nmse_common : ndarray of shape (models, m) or None
        nMSE of tasks left out as a whole, predicted by what the others have in common
        (unknown_task="common"); NaN for models without such a part.
    new_task_nmse_similar : ndarray of shape (models, m) or None
        nMSE of tasks left out as a whole, predicted by the mean of the others weighted by how similar their
        features are (unknown_task="similar"); NaN for models that do not have this way.
    new_task : ndarray of shape (models, m, 4) or None
        All of these.
    errors : ndarray of shape (models, scores)
        Losses of the samples held out, one score per sample and task.
    cell_task : ndarray of shape (scores,)
        The place of the task of every score.
    cell_weight : ndarray of shape (scores,)
        The weight of every score.
    cell_cluster : ndarray of shape (scores,)
        The sample (group) of every score.
    unit : ndarray of shape (m,)
        The loss of knowing nothing, which the losses of a task are divided by.
    rows : ndarray of shape (m,) or None
        Number of samples of the tasks, which `unit` is taken from; by default as many as were held out.
    held_per_trained : float
        Samples held out in all, over those that a model is trained on.
    nested : bool
        Whether every model has chosen its parameters anew within the training samples of each fold.
    corrected : Corrected or None
        Errors corrected for having chosen among all points of all models; None of a nested comparison.
    chosen_errors : ndarray of shape (models, scores) or None
        Losses of the samples held out at the parameters that all folds choose together, by which
        :class:`MultiTaskAuto` chooses among models. They flatter: use `errors` to conclude anything.
    at_choice : Comparison
        This comparison with `chosen_errors` in place of `errors`, if there are any.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import compare_models
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((90, 8)), np.repeat(["north", "south", "west"], 30)
    >>> y = 2 * X[:, 0] - X[:, 3] + 0.5 * rng.standard_normal(90)
    >>> result = compare_models(X, y, task=task, models=["lasso", "pooled lasso"], cv=3, inner_cv=3)
    >>> result.best, result.difference.round(3), result.gains.shape
    ('pooled lasso', array([ 0.   , -0.003]), (2, 3))
    """

    # ------------------------------------------------------------------ tables

    def summary(self) -> Any:
        """Return a pandas table with one line per model, the smallest error first.

        Returns
        -------
        DataFrame
            `se` is for new data, `better` and `worse` count tasks with a smaller and a larger error,
            `tasks_gain` and `tasks_lose` those where that is clear; `standing` says what can be concluded in
            comparison with the reference.
        """
        found = [self.evidence(name) for name in self.models]
        columns = {
            "model": self.models,
            self.measure.column: self.error,
            "difference": self.difference,
            "se": self.se,
            "better": [one.n_better for one in found],
            "worse": [one.n_worse for one in found],
            "median_change": [one.median_change for one in found],
            "standing": [_standing(self, one, name) for name, one in zip(self.models, found, strict=True)],
            "tasks_gain": self.gains.sum(axis=1),
            "tasks_lose": self.loses.sum(axis=1),
            "n_features": self.n_features,
            "seconds": self.seconds,
        }
        if self.auc is not None:
            columns["auc"] = self.auc
        if self.new_task is not None:
            columns |= dict(zip(NEW_TASK, mean_over_tasks(self.new_task).T, strict=True))
        return _pandas().DataFrame(columns).sort_values(self.measure.column, ignore_index=True)

    def to_frame(self) -> Any:
        """Return a pandas table with one line per model and task.

        Returns
        -------
        DataFrame
            The columns are model, task, n (its weight), the error, difference and se (to the reference),
            gains, loses; auc and errors of new tasks where they are known.
        """
        shape = self.error_by_task.shape
        columns = {
            "model": np.repeat(self.models, shape[1]),
            "task": np.tile(self.tasks, shape[0]),
            "n": np.tile(self._of_task, shape[0]),
            self.measure.column: self.error_by_task.ravel(),
        }
        for name in ("difference_by_task", "se_by_task", "gains", "loses"):
            columns[name.removesuffix("_by_task")] = getattr(self, name).ravel()
        if self.auc_by_task is not None:
            columns["auc"] = self.auc_by_task.ravel()
        if self.new_task is not None:
            columns |= {name: self.new_task[:, :, place].ravel() for place, name in enumerate(NEW_TASK)}
        return _pandas().DataFrame(columns)

    # ------------------------------------------------------------------ words

    def verdict(self) -> str:
        """Say in words whether sharing helped.

        Returns
        -------
        str
            A few sentences.
        """
        said = (
            *(self._verdict(), self.corrected_in_words()),
            *(self.means_in_words(), self.perfect_in_words(), self.dropped_in_words(), self._odd_in_words()),
        )
        return " ".join(filter(None, said))

    def _odd_in_words(self) -> str:
        said = [f"By {name!r}: {odd_sentence(odd, len(self.tasks))}" for name, odd in self.odd_tasks.items()]
        return " ".join(said)

    def _verdict(self) -> str:
        b, base = int(np.argmin(self.error)), self.models.index(self.reference)
        smallest = f"{self.models[b]!r} has the smallest {self.measure.name}, {self.error[b]:.{self._decimals}f}"
        if b == base:
            rivals = [k for k in range(len(self.models)) if k != base]
            k = rivals[int(np.argmin(self.error[rivals]))]
            found = self.evidence(self.models[k])
            word = "clearly worse" if found.worse else "not clearly worse"
            return f"{smallest}. The next, {self.models[k]!r}, is {word}: {self._figures(found)}.{self._alone(base)}"
        found = self.evidence(self.best)
        word = "clearly less" if found.better else "not clearly less"
        change = self.difference_by_task[b]
        return (
            f"{smallest}: {word} than {self.reference!r}, {self._figures(found)}. {found.tasks_in_words(' by it')}; "
            f"{self._counted(self.gains[b], 'gain', change)} and {self._counted(self.loses[b], 'lose', -change)}."
            f"{self._beside(b)}{self._alone(b)}"
        )

    @property
    def way(self) -> str:
        """How parameters were chosen: by "cross-validation" or by "nested cross-validation"."""
        return NESTED if self.nested else PLAIN

    def corrected_in_words(self, selection: str | None = None, model: str | None = None) -> str:
        """Say what error is to be expected of the model that was chosen.

        That is the corrected error, or `error` of the model where this is larger: both are estimates, and of two
        the smaller one flatters.

        Parameters
        ----------
        selection : {"1se", "min"}, optional
            The rule of :class:`MultiTaskAuto` that has chosen it; by default it has the smallest error.
        model : str, optional
            The name of the model that was chosen; by default the one with the smallest error.

        Returns
        -------
        str
            A sentence; empty if the errors were not corrected.
        """
        if self.corrected is None:
            return ""
        value = self.corrected.best if selection is None else self.corrected.chosen[selection]
        if not np.isfinite(value):
            return ""
        k = self.models.index(self.best if model is None else model)
        fair = float(self.error[k])
        told = fair if selection is None else float(self.at_choice.error[k])  # beside the sentence
        found, beside = (f"{one:.{self._decimals}f}" for one in (max(value, fair), told))
        expected = f"the {self.measure.name} to expect on new data is {found}."
        if float(found) <= float(beside):
            return (
                f"Having chosen among all models and their parameters makes no difference that can be seen: {expected}"
            )
        return f"Corrected for having chosen among all models and their parameters, {expected}"

    def _beside(self, b: int) -> str:
        """A sentence about models, but for the reference, that may be as good as the best."""
        paired = replace(self, reference=self.models[b])
        near = [
            name for name in self.models if name not in (self.reference, self.best) and not paired.evidence(name).worse
        ]
        return f" Not clearly worse than {self.best!r}: {names_of(near)}." if near else ""

    @property
    def _decimals(self) -> int:
        return decimals(self.se)

    def _figures(self, found: Evidence) -> str:
        """A difference with its share and standard error; why there is no conclusion, if its size alone does not say so."""
        share = f" or {found.change:+.1%}" if np.isfinite(found.change) else ""
        doubt = f", but {found.doubt}" if found.beyond and not found.clear else ""
        return f"{found.difference:+.{self._decimals}f}{share} (s.e. {found.se:.{self._decimals}f}){doubt}"

    def _counted(self, which: np.ndarray, verb: str, order: Floats) -> str:
        """How many tasks do so, and which of them come first by `order`."""
        found = np.flatnonzero(which)
        found = found[np.argsort(order[found], kind="stable")]
        named = names_of(self.tasks[found[:NAMED]])
        rest = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        return f"{len(found)} clearly {verb}{'s' * (len(found) == 1)}" + (f" ({named}{rest})" if found.size else "")

    def _alone(self, k: int) -> str:
        """A sentence about a model that fits every task by itself."""
        name = self.models[k]
        return f" {name!r} shares nothing between tasks." if name in SEPARATE else ""

    def means_in_words(self) -> str:
        """Say that no model is known to predict better than one that knows nothing but the task.

        Returns
        -------
        str
            A sentence; empty if a model is known to predict better.
        """
        every = [found for name in self.models if (found := self.over_means(name)) is not None]
        if not every or any(found.beyond and found.difference < 0 for found in every):
            return ""
        found = every[int(np.argmin(self.error))]
        digits, error = decimals(found.se), found.base + found.difference
        return (
            f"No model predicts clearly better than {self.measure.nothing}: their {self.measure.name} is "
            f"{found.base:.{digits}f}, that of {self.best!r} {error:.{digits}f} ({found.difference:+.{digits}f}, s.e. "
            f"{found.se:.{digits}f})."
        )

    def perfect_in_words(self) -> str:
        """Say which tasks are predicted better than measurements allow.

        Returns
        -------
        str
            A sentence; empty if there is no such task.
        """
        errors = np.nanmin(self.error_by_task[:, self.perfect], axis=0)
        return too_good(self.tasks[self.perfect], errors, self.measure.name)

    def dropped_in_words(self) -> str:
        """Say which models were screened out, and by what.

        Returns
        -------
        str
            A sentence; empty if there is no such model.
        """
        if not self.screened:
            return ""
        listed = "; ".join(self._dropped(name, one) for name, one in sorted(self.screened.items(), key=_by_error))
        return f"Clearly worse on the first folds, and not tried on the others: {listed}."

    def _dropped(self, name: str, one: Dropped) -> str:
        digits = decimals(one.se)
        folds = "the first fold" if one.folds == 1 else f"{one.folds} folds"
        return (
            f"{name!r} ({one.error:.{digits}f} on {folds}, where {one.rival!r} had {one.rival_error:.{digits}f}: "
            f"{one.difference:+.{digits}f}, s.e. {one.se:.{digits}f})"
        )

    def __repr__(self) -> str:
        order, digits = np.argsort(self.error), self._decimals
        width, wide = max(len("model"), *(len(name) for name in self.models)), digits + 3
        less = max(wide + 2, len(f"- {self.reference}"))
        found = [self.evidence(name) for name in self.models]
        gain, lose = self.gains.sum(axis=1), self.loses.sum(axis=1)
        head = (
            f"{'model':<{width}}  {self.measure.short:>{wide}}  {'- ' + self.reference:>{less}}  "
            f"{'(s.e.)':>{wide + 1}}  {'better':>8}  {'worse':>8}  features"
        )
        auc = None if self.auc is None else [f"  {area:.3f}" for area in self.auc]
        head += "" if auc is None else "    AUC"
        new = None if self.new_task is None else np.nanmean(self.new_task[:, :, 0], axis=1)
        head += "" if new is None else "  new task"
        reference = self.models.index(self.reference)
        lines = [f"{len(self.tasks)} tasks, {self.n_splits} folds; held-out {self.measure.name}, {HOW[self.way]}", head]
        for k in order:
            se = "" if k == reference else f"({self.se[k]:.{digits}f})"
            counts = [f"{few} ({clear})" for few, clear in ((found[k].n_better, gain[k]), (found[k].n_worse, lose[k]))]
            fewer, more = ("", "") if k == reference else counts
            lines.append(
                f"{self.models[k]:<{width}}  {self.error[k]:{wide}.{digits}f}  {self.difference[k]:+{less}.{digits}f}  "
                f"{se:>{wide + 1}}  {fewer:>8}  {more:>8}  {self.n_features[k]:8.1f}"
                + ("" if auc is None else auc[k])
                + ("" if new is None else f"  {new[k]:8.{digits}f}")
            )
        notes = [f"{OF_NEW_DATA}; better, worse: tasks (clearly)."]
        if new is not None:
            notes.append(
                f"new task: {self.measure.name} of a task that had no part in the fit, predicted with the mean coefficients "
                "of the others (mean over tasks, each left out in turn)."
            )
        return "\n".join([*lines, *notes, self.verdict()])

    def plot(self, model: str | None = None, axes: Any = None) -> Any:
        """Draw the errors of all models, and what each task gains or loses by one of them.

        Parameters
        ----------
        model : str, optional
            The model whose tasks are shown; by default the best that is not the reference.
        axes : two matplotlib Axes, optional
            Where to draw, the models and the tasks; by default a new figure is made.

        Returns
        -------
        matplotlib Figure
            The figure.
        """
        return draw(self, model, axes)


def mean_over_tasks(new_task: Floats) -> Floats:
    """(models, ways): means of errors (models, m, ways) over the tasks that have one; NaN where none has."""
    known = np.isfinite(new_task)
    return np.divide(
        np.where(known, new_task, 0.0).sum(axis=1),
        known.sum(axis=1),
        out=np.full(new_task.shape[::2], np.nan),
        where=known.any(axis=1),
    )


def _standing(result: Comparison, found: Evidence, name: str) -> str:
    return "reference" if name == result.reference else found.standing


def _by_error(one: tuple[str, Dropped]) -> float:
    return one[1].error


def _pandas() -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("this table needs pandas (pip install pandas); the attributes hold the same.") from error
    return pd
