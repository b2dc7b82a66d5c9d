"""What a report or a table is about, in the user's words: the target, and what a task is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._runtime.text.printable import short
from ..fitted import noted, of_survival

WORD = re.compile(r"[^\W\d_]{3,}([ _-][^\W\d_]+){0,2}")  # a name that can be counted: school, test site
NUMBERED = re.compile(r"[ _-]?(id|ids|no|nr|num|number|code|label|#)$|Id$|ID$")


@dataclass(frozen=True)
class Subject:
    """The words of a page.

    Attributes
    ----------
    target : what is predicted: the name of the target, or "the target"
    task, tasks : what a task is, one and several of them: "school", "schools"
    wide : whether the tasks are targets themselves, columns of one table
    """

    target: str = "the target"
    task: str = "task"
    tasks: str = "tasks"
    wide: bool = False

    def counted(self, n: int) -> str:
        """
        >>> Subject("score", "school", "schools").counted(139)
        '139 schools'
        """
        return f"{n:,} {self.task if n == 1 else self.tasks}"

    def some_of(self, n: int, m: int) -> str:
        """
        >>> Subject().some_of(3, 3), Subject().some_of(2, 3), Subject().some_of(0, 3), Subject().some_of(1, 1)
        ('all 3 tasks', '2 of 3 tasks', 'none of 3 tasks', 'the only task')
        """
        if m == 1:
            return f"the only {self.task}"
        if n == 0:
            return f"none of {m:,} {self.tasks}"
        every = f"both {self.tasks}" if m == 2 else f"all {m:,} {self.tasks}"
        return every if n == m else f"{n:,} of {m:,} {self.tasks}"

    def title(self, m: int) -> str:
        """
        >>> Subject("updrs", "patient", "patients").title(42)
        'What predicts updrs in 42 patients'
        """
        if self.wide:
            return f"What predicts {m:,} targets"
        return f"What predicts {self.target}" + (f" in {self.counted(m)}" if m > 1 else "")


def subject_of(model: Any, target: Any = None, task_name: Any = None, y: Any = None) -> Subject:
    """From the names that were given, the file of the model, or the table that it was fitted to."""
    columns = noted(model, "columns")
    columns = columns if isinstance(columns, dict) else {}
    if model._form == "wide":
        return Subject(task="target", tasks="targets", wide=True)
    events = _event_of(y) if of_survival(model) else None  # what has a hazard is the event, not the time
    target = target or columns.get("event") or columns.get("target") or events or getattr(y, "name", None)
    own = model.task_column if isinstance(model.task_column, str) else None
    one, several = task_words(task_name or _last_level(model) or columns.get("task") or own)
    named = isinstance(target, str) and target.strip()
    return Subject(short(target) if named else "the event" if of_survival(model) else "the target", one, several)


def subject_named(target: Any = None, task_name: Any = None) -> Subject:
    """From the names that were given, of a comparison, which knows none.

    >>> subject_named("score", "school_id")
    Subject(target='score', task='school', tasks='schools', wide=False)
    """
    named = isinstance(target, str) and target.strip()
    return Subject(short(target) if named else Subject.target, *task_words(task_name))


def _last_level(model: Any) -> Any:
    """Of tasks with levels: what the last one is called, if every task has a value of its own there, as schools in regions
    have."""
    levels = getattr(model, "effect_levels_", np.empty(0, dtype=object)).tolist()
    own = levels and len(set(levels)) > 1 and levels.count(levels[-1]) == len(model.tasks_)
    return levels[-1] if own else None


def _event_of(y: Any) -> Any:
    """What the column of events is called, of a table of times and events."""
    names = list(getattr(y, "columns", ()))
    return names[1] if len(names) == 2 else None


def task_words(name: Any) -> tuple[str, str]:
    """One and several of what a column of tasks is called; "task" where that is no word.

    >>> task_words("school"), task_words("patient_id"), task_words("Cities"), task_words("x7"), task_words("city")
    (('school', 'schools'), ('patient', 'patients'), ('Cities', 'Cities'), ('task', 'tasks'), ('city', 'cities'))
    """
    plain = NUMBERED.sub("", str(name or "").strip()).strip(" _-")
    if not WORD.fullmatch(plain) or len(plain) > 30:
        return "task", "tasks"
    text = re.sub(r"[_-]", " ", plain)
    return text, _plural(text)


def _plural(word: str) -> str:
    """
    >>> _plural("class"), _plural("campus"), _plural("schools"), _plural("branch"), _plural("day")
    ('classes', 'campuses', 'schools', 'branches', 'days')
    """
    lower = word.lower()
    if lower.endswith(("ss", "us", "is", "x", "z", "ch", "sh")):
        return f"{word}es"
    if lower.endswith("s"):  # it is one already
        return word
    if lower.endswith("y") and lower[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}s"
