"""A fitted model as a table for people: its features, how it was fitted, and what is proven of it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..._data.designs import Floats, Ints
from ..._paths.searched import cross_fits
from ..._runtime.checks import check_count
from ..._runtime.text.documents import in_latex, in_markdown
from ..._runtime.text.printable import printable
from ..families import family_of, has_family
from ..fitted import model_chosen, name_of_loss, scoring_of
from .formulas import formula
from .odd_tasks import odd_in_words

NUMBERS = ("tasks", "smallest", "median", "largest")  # as these columns are headed
WIDTH = 100  # of notes in a terminal
NOT_TESTED = (
    "The fit is penalised, so the table has no standard errors or p-values: those of least squares do not hold here. The "
    "functions of msmtfl.inference say how sure the coefficients are."
)


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """What a fitted model is, as text, LaTeX, Markdown or a data frame. Print it for the text.

    Attributes
    ----------
    title : str
        The class of the model and how many tasks, samples and features it was fitted to.
    features : ndarray of shape (k,)
        Names of the features, one entry per line of the table: those that most tasks use first.
    outcomes : ndarray of shape (k,) or None
        The class that a line is about, of a classifier with more than two; None for all other models.
    n_tasks : ndarray of shape (k,)
        Number of tasks whose coefficient is not 0.
    smallest, median, largest : ndarray of shape (k,)
        Of the coefficients of these tasks; NaN if there are none.
    notes : tuple of str
        How the model was fitted, and what is proven of it.
    minimised : str
        The formula of what was minimised.
    shown : int
        Number of lines that texts hold; the data frame has all.
    n_all : int
        Number of tasks of the model.
    """

    title: str
    features: np.ndarray
    outcomes: np.ndarray | None
    n_tasks: Ints
    smallest: Floats
    median: Floats
    largest: Floats
    notes: tuple[str, ...]
    minimised: str = ""
    shown: int = 30
    n_all: int = 1

    # ------------------------------------------------------------------ tables

    def to_frame(self) -> Any:
        """Return a pandas table with a line for every feature, also for those that no task uses.

        Returns
        -------
        DataFrame
            The columns are feature, n_tasks, smallest, median and largest; class after the feature for a classifier
            with more than two classes.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas (pip install pandas); the attributes hold the same.") from error
        of_class = {} if self.outcomes is None else {"class": self.outcomes}
        numbers = {"n_tasks": self.n_tasks, "smallest": self.smallest, "median": self.median, "largest": self.largest}
        return pd.DataFrame({"feature": self.features, **of_class, **numbers})

    @property
    def _numbers(self) -> tuple[str, ...]:
        """The headings of columns of numbers; a single task has one coefficient."""
        return NUMBERS if self.n_all > 1 else ("coefficient",)

    def _head(self) -> list[str]:
        return ["feature", *(["class"] if self.outcomes is not None else []), *self._numbers]

    def _lines(self) -> list[list[str]]:
        """The lines that are shown, as text."""
        out = []
        for j in range(min(self.shown, int((self.n_tasks > 0).sum()))):
            of_class = [] if self.outcomes is None else [printable(self.outcomes[j])]
            ends = [f"{value[j]:.4g}" for value in (self.smallest, self.median, self.largest)]
            numbers = [f"{self.n_tasks[j]} of {self.n_all}", *ends] if self.n_all > 1 else ends[:1]
            out.append([printable(self.features[j]), *of_class, *numbers])
        return out

    def _rest(self) -> list[str]:
        """What the table leaves out."""
        used = int((self.n_tasks > 0).sum())
        more, unused = max(used - self.shown, 0), len(self.n_tasks) - used
        said = [
            (more, f"{self._counted(more)} not shown here; to_frame() has all of them."),
            (unused, f"The coefficient of {self._counted(unused)} is 0{' in every task' * (self.n_all > 1)}."),
        ]
        return [text for n, text in said if n]

    def _counted(self, n: int) -> str:
        what = "feature" if self.outcomes is None else "pair"
        return f"{n} {what}{'s' * (n != 1)}" + ("" if self.outcomes is None else " of a feature and a class")

    # ------------------------------------------------------------------ texts

    def as_text(self) -> str:
        """Return the summary as text for a terminal.

        Returns
        -------
        str
            The text.
        """
        table = [self._head(), *self._lines()]
        left = len(table[0]) - len(self._numbers)  # names are set to the left, numbers to the right
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if k < left else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in table
        ]
        rule = "-" * max(map(len, lines))
        head = [self.title, *([self.minimised] if self.minimised else [])]
        below = [rule] if lines[1:] else []
        notes = [textwrap.fill(note, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for note in self.notes]
        return "\n".join([*head, "", lines[0], rule, *lines[1:], *below, *self._rest(), "", *notes])

    def as_markdown(self) -> str:
        """Return the summary as Markdown, with a table.

        Returns
        -------
        str
            The Markdown.
        """
        head, lines = self._head(), self._lines()
        marks = ["---" if k < len(head) - len(self._numbers) else "---:" for k in range(len(head))]
        table = [head, marks, *([in_markdown(cell) for cell in line] for line in lines)]
        said = [f"**{in_markdown(self.title)}**", *([in_markdown(self.minimised)] if self.minimised else [])]
        parts = [*said, "\n".join(f"| {' | '.join(line)} |" for line in table), " ".join(self._rest())]
        return "\n\n".join([*filter(None, parts), "\n".join(f"- {in_markdown(note)}" for note in self.notes)]) + "\n"

    def as_latex(self) -> str:
        r"""Return the summary as a LaTeX table (needs `\usepackage{booktabs}`), the notes below it.

        Returns
        -------
        str
            The LaTeX, from `\begin{table}` to `\end{table}`. The formula is left out.
        """
        head, lines = self._head(), self._lines()
        ends, n = r" \\", len(self._numbers)
        body = [" & ".join(map(in_latex, line)) + ends for line in lines]
        notes = [in_latex(note) for note in (*self._rest(), *self.notes)]
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{in_latex(self.title)}}}",
                rf"\begin{{tabular}}{{{'l' * (len(head) - n)}{'r' * n}}}",
                r"\toprule",
                " & ".join(head) + ends,
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                *([r"\par\medskip", r"\begin{minipage}{\linewidth}\footnotesize"] if notes else []),
                *(rf"{note}\par" for note in notes),
                *([r"\end{minipage}"] if notes else []),
                r"\end{table}",
            ]
        )

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_markdown_(self) -> str:
        """What notebooks show."""
        return self.as_markdown()


# ------------------------------------------------------------------ of a model


def summary_of(model: Any, max_features: int = 30) -> Summary:
    """The summary of a fitted model; of a MultiTaskAuto that of the model that it chose."""
    check_count("max_features", max_features)
    model = model_chosen(model)
    check_is_fitted(model, "coef_")
    W = np.reshape(model.coef_, (len(model.tasks_), -1, np.shape(model.coef_)[-1]))  # tasks, classes, features
    of_class = np.moveaxis(W, 0, -1).reshape(-1, len(W))  # lines are pairs of a class and a feature
    K, d = W.shape[1:]
    names, which = np.tile(np.arange(d), K), np.repeat(np.arange(K), d)
    n = (of_class != 0.0).sum(axis=1)
    norms = np.asarray(getattr(model, "row_norms_", np.abs(W).sum(axis=(0, 1))))
    order = np.lexsort((which, names, -norms[names], -n))
    smallest, median, largest = (_over_users(f, of_class)[order] for f in (np.min, np.median, np.max))
    return Summary(
        title=_title(model),
        features=model.features_[names[order]],
        outcomes=model.classes_[which[order]] if K > 1 else None,
        n_tasks=n[order],
        smallest=smallest,
        median=median,
        largest=largest,
        notes=tuple(_notes(model)),
        minimised=formula(model) if has_family(model) else "",
        shown=max_features,
        n_all=len(model.tasks_),
    )


def _over_users(function: Callable[..., Any], coef: Floats) -> Floats:
    """(lines,): a function of the coefficients that are not 0; NaN where there are none."""
    return np.array([function(line[line != 0.0]) if line.any() else np.nan for line in coef], dtype=np.float64)


def _title(model: Any) -> str:
    counts = [(len(model.tasks_), "task")]
    if hasattr(model, "n_samples_"):
        counts.append((int(np.sum(model.n_samples_)), "sample"))
    counts.append((len(model.features_), "feature"))
    return f"{type(model).__name__}: " + ", ".join(f"{n} {name}{'s' * (n != 1)}" for n, name in counts)


def _notes(model: Any) -> list[str]:
    """How it was fitted, how well it predicts, what is proven, what the table does not say."""
    notes = [_settings(model), _chosen(model), odd_in_words(model), _unlearned(model)]
    if hasattr(model, "certificate_"):
        notes += [line.strip() for line in str(model.certificate_).splitlines()]
    return [note[0].upper() + note[1:] for note in (*notes, NOT_TESTED) if note]


def _settings(model: Any) -> str:
    loss = name_of_loss(model)
    strengths = family_of(model).values_in_use(model) if has_family(model) else {}
    said = [f"loss = {loss}", *(f"{one.name} = {value:.4g}" for one, value in strengths.items())]
    return f"Fitted with {_and(said)}."


def _chosen(model: Any) -> str:
    """By what the strengths were chosen, and the score of samples that had no part in that."""
    if not hasattr(model, "best_score_"):
        return ""
    if not getattr(model, "n_splits_", 0):
        return f"The parameters were chosen by the criterion {model.selection}."
    score = scoring_of(model) if isinstance(model.scoring, str) else "score"
    if not cross_fits(model):
        return (
            f"The parameters were chosen by one fold, with {score} = {model.best_score_:.4g}: new data will be worse."
        )
    return (
        f"The parameters were chosen by {model.n_splits_} folds; {score} = {model.cross_fitted_score_:.4g} where each "
        "fold is predicted with parameters that the others chose."
    )


def _unlearned(model: Any) -> str:
    """Zeros that say nothing."""
    learnable = getattr(model, "learnable_", None)
    n = 0 if learnable is None else int((~np.asarray(learnable).any(axis=0)).sum())
    return f"Number of features that are constant within every task, so that their zeros say nothing: {n}." if n else ""


def _and(said: Sequence[str]) -> str:
    return " and ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said)
