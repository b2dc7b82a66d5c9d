"""Tables of coefficients: a line per feature, a line per coefficient, or a summary over tasks; and what they say of
themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._estimators.families import family_of
from .._estimators.fitted import loss_of
from .._estimators.words.subject import Subject
from .._objective.losses import loss_named
from .._runtime.text.documents import Entry, Sheet, significant
from ..inference.debiased import DebiasedIntervals
from ..sharing import SharingMap
from .values import SEVERAL, Values

INTERCEPT = "(intercept)"
ZERO, CONSTANT = "–", "×"


def is_linear(model: Any) -> bool:
    return not hasattr(model, "classes_") and loss_named(loss_of(model)).linear


@dataclass(frozen=True)
class Layout:
    """A table in the making."""

    model: Any
    found: SharingMap
    values: Values
    features: np.ndarray
    digits: int
    target: str
    per: str
    ratios: bool
    intercepts: bool
    intervals: Any
    subject: Subject

    # ------------------------------------------------------------------ layouts

    def wide(self, caption: str) -> Sheet:
        v = self.values
        heads = [": ".join(label) for label in v.labels]
        lines, shown = [], []
        exact = ["feature"]
        for head in heads:
            exact += [head] if v.lower is None else [head, f"{head} lower", f"{head} upper"]
        if self.intercepts:
            blank: list[Entry] = [] if v.lower is None else [None, None]
            lines.append([INTERCEPT, *(one for b in v.intercept for one in (float(b), *blank))])
            shown.append([INTERCEPT, *(self._number(b) for b in v.intercept)])
        for j in self.features:
            name = str(self.found.features[j])
            lines.append([name, *(one for i in range(len(heads)) for one in self._numbers(i, j))])
            shown.append([name, *(self._words(i, j) for i in range(len(heads)))])
        return self._sheet(["feature", *heads], lines, shown, caption, exact=exact)

    def long(self, caption: str) -> Sheet:
        v = self.values
        names = [self.subject.task, *(["class"] if len(v.labels[0]) > 1 else []), "feature"]
        splits = v.centre.ndim == 3
        what = "ratio" if self.ratios else "coefficient" if v.lower is None else "estimate"
        header = [*names, *(["split"] if splits else []), what, *([] if v.lower is None else ["lower", "upper"])]
        lines: list[list[Entry]] = []
        for i, label in enumerate(v.labels):
            if self.intercepts:
                gap: list[Entry] = [None] * (len(header) - len(names) - 1 - splits)
                lines.append([*label, INTERCEPT, *([None] if splits else []), float(v.intercept[i]), *gap])
            for j in self.features:
                lines += [[*label, str(self.found.features[j]), *one] for one in self._entries(i, j)]
        shown = [[self._shown(one) for one in line] for line in lines]
        exact = ["task", *header[1:]]
        return self._sheet(header, lines, shown, caption, names=len(names), exact=exact, dashes=False)

    def summary(self, caption: str) -> Sheet:
        """A line per feature, and per class if there are more than two: effects on different classes have no median."""
        v = self.values
        what = ["median", "smallest", "largest"]
        clear = [] if v.clear is None else ["clear"]
        classes: list[Any] = list(dict.fromkeys(label[1] for label in v.labels if len(label) > 1))
        named = ["feature", *(["class"] if classes else [])]
        header, exact = ([*named, tasks, "sign", *what, *clear] for tasks in (self.subject.tasks, "tasks"))
        lines, shown = [], []
        for j, of_class in ((j, one) for j in self.features for one in classes or [None]):
            mine = np.array([of_class is None or label[1] == of_class for label in v.labels])
            inside = mine & np.isfinite(v.centre[:, j]) & (v.used[:, j] if v.lower is None else True)
            some, name = v.centre[inside, j], [str(self.found.features[j]), *([of_class] if of_class else [])]
            above, below = int((some > self.ratios).sum()), int((some < self.ratios).sum())
            sign = "mixed" if above and below else "+" if above else "-" if below else ""
            figures = [float(f(some)) if some.size else None for f in (np.median, np.min, np.max)]
            away = [] if v.clear is None else [float(v.clear[inside, j].sum())]
            lines.append([*name, float(inside.sum()), sign, *figures, *away])
            texts = [ZERO if one is None else self._number(one) for one in figures]
            counts = [f"{int(k)} of {int(inside.sum())}" for k in away]
            shown.append([*name, f"{int(inside.sum())} of {int(mine.sum())}", sign, *texts, *counts])
        sheet = self._sheet(
            header, lines, shown, caption, names=1 + bool(classes), exact=exact, dashes=False, summary=True
        )
        more = f"Median, smallest and largest are taken over the {self.subject.tasks} counted."
        if clear:
            share = 100.0 * (1.0 - self.intervals.level)
            more += (
                f" Clear: {self.subject.tasks} in which the coefficient differs from 0 with a false discovery rate of "
                f"{share:g} % (Benjamini and Hochberg over all {self.subject.tasks} and features)."
            )
        return replace(sheet, notes=(*sheet.notes, more))

    # ------------------------------------------------------------------ entries

    def _number(self, value: float) -> str:
        return significant(float(value), self.digits)

    def _shown(self, entry: Entry) -> str:
        return self._number(entry) if isinstance(entry, float) else "" if entry is None else entry

    def _numbers(self, i: int, j: int) -> list[Entry]:
        """A coefficient, with the ends of its interval if there are any."""
        v = self.values
        if v.lower is None or v.upper is None:
            return [None if v.constant[i, j] else float(v.centre[i, j])]
        three = (float(one[i, j]) for one in (v.centre, v.lower, v.upper))
        return [one if np.isfinite(one) else None for one in three]

    def _words(self, i: int, j: int) -> str:
        v = self.values
        if v.lower is None or v.upper is None:
            if v.used[i, j]:
                return self._number(v.centre[i, j])
            return CONSTANT if v.constant[i, j] else ZERO
        if not np.isfinite(v.centre[i, j]):
            return CONSTANT if v.constant[i, j] else ZERO
        centre, low, high = (self._number(one[i, j]) for one in (v.centre, v.lower, v.upper))
        return f"{centre} [{low}, {high}]" if np.isfinite(v.lower[i, j]) else centre

    def _entries(self, i: int, j: int) -> Iterator[list[Entry]]:
        """The entries of a long table: none where nothing is known, two where there are two splits."""
        v = self.values
        if v.lower is None or v.upper is None:
            if v.used[i, j]:
                yield [float(v.centre[i, j])]
            return
        three = np.stack([v.centre, v.lower, v.upper])[..., i, j]
        for split, one in enumerate(np.atleast_2d(three.T), 1):
            if np.isfinite(one[0]):
                numbers: list[Entry] = [float(value) if np.isfinite(value) else None for value in one]
                yield [str(split), *numbers] if v.centre.ndim == 3 else numbers

    # ------------------------------------------------------------------ words

    def _sheet(
        self,
        header: list[str],
        lines: list[list[Entry]],
        shown: list[list[str]],
        caption: str,
        *,
        names: int = 1,
        exact: list[str] | None = None,
        dashes: bool = True,
        summary: bool = False,
    ) -> Sheet:
        notes = [self._unit()]
        entries = {entry for line in shown for entry in line[1:]} if dashes else set()
        signs = {
            ZERO: f"exactly 0, the model does not use the feature in this {self.subject.task}"
            if self.intervals is None
            else "there is no interval",
            CONSTANT: f"the feature is constant in this {self.subject.task}, so that its effect cannot be learned",
        }
        said = [f"{sign}: {text}" for sign, text in signs.items() if sign in entries]
        notes += [f"{'; '.join(said)}."] if said else []
        notes += [self._certainty(summary)]
        if self.intercepts:
            what = "what the factors are factors of" if self.ratios else "what it predicts, on this scale,"
            notes.append(f"Intercepts are the model's own: {what} where all features are 0.")
        rows = tuple(tuple(line) for line in lines)
        words = tuple(tuple(line) for line in shown)
        return Sheet(tuple(header), rows, words, caption, tuple(notes), names, tuple(exact or ()))

    def caption(self, summary: bool = False) -> str:
        model, found = self.model, self.found
        name = type(model).__name__.removesuffix("CV")
        m, d, p = len(found.tasks), len(found.features), len(self.features)
        one, tasks = self.subject.task, self.subject.counted(m)
        rows = f" ({int(np.sum(model.n_samples_))} samples)" if hasattr(model, "n_samples_") else ""
        some = f"the {p} of {d} features that some {one} uses" if p < d else f"all {d} features"
        what = "Coefficients" if not self.ratios else "Odds ratios" if hasattr(model, "classes_") else "Ratios"
        if self.intervals is not None:
            level = f"with {100 * self.intervals.level:g} % intervals"
            what = f"{what} {'without shrinkage' if summary else level}"
            some = some.replace(f"some {one} uses", f"{name} uses in some {one}")
            return f"{what} for {self.target} in {tasks}{rows}: {some}."
        return f"{what} of {name} for {self.target} in {tasks}{rows}: {some}."

    def _unit(self) -> str:
        per = "unit" if self.per == "unit" else f"standard deviation (within {self.subject.tasks})"
        classes = [str(one) for one in getattr(self.model, "classes_", np.empty(0)).tolist()]
        if classes:
            of = f"class {classes[1]}" if len(classes) == 2 else "the class against all others"
            what = f"factor on the odds of {of}" if self.ratios else f"change in the log-odds of {of}"
        elif not is_linear(self.model):
            expected = f"the expected value of {self.target}"
            what = f"factor on {expected}" if self.ratios else f"change in the logarithm of {expected}"
        else:
            what = f"change in {self.target}"
        return f"Entries: {what} per {per} of the feature, all others held fixed."

    def _certainty(self, summary: bool) -> str:
        if self.intervals is None:
            if not family_of(self.model).selects(self.model):
                return "The ridge shrinks coefficients; they have no intervals here."
            return "The penalty shrinks coefficients; they have no intervals here."
        words = next(text for kind, text in SEVERAL if isinstance(self.intervals, kind))
        text = f"Estimates are {words}. They are not the model's own coefficients, which its penalty shrinks."
        if getattr(self.intervals, "same_rows", False):
            text += " The same samples selected the features: the intervals are too short."
        if isinstance(self.intervals, DebiasedIntervals) and len(self.features) < len(self.found.features):
            text += " The model chose which features are shown; the intervals do not account for that."
        if summary:
            return text
        return f"{text} No interval is corrected for how many there are."
