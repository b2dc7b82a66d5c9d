"""What a model says of its tasks, in words: which are unlike the rest, or at which level they differ."""

from __future__ import annotations

from typing import Any

from ..._data.tables import names_of
from ..families import about_tasks, odd_tasks

NAMED = 8  # of them are named


WORDS = ("task", "tasks")


def odd_in_words(model: Any, words: tuple[str, str] = WORDS) -> str:
    """A sentence; empty if the model is of a family that does not look for such tasks, and says nothing else of them."""
    found = odd_tasks(model)
    return about_tasks(model) if found is None else odd_sentence(found, len(model.tasks_), words)


def odd_sentence(odd: Any, m: int, words: tuple[str, str] = WORDS) -> str:
    """The same of labels, of m tasks; `words`: what one and several of them are called."""
    one, several = words
    if len(odd) == 0:
        return f"No {one} deviates from what the others have in common."
    if len(odd) == m:
        return f"All {several} deviate from what they have in common."
    verb = "deviates" if len(odd) == 1 else "deviate"
    return f"{len(odd)} of {m} {several} {verb} from what the others have in common: {names_of(odd, NAMED)}."
