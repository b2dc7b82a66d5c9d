"""The first screen: what predicts the target, how well, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._data.designs import Floats, Ints
from .._runtime.text.printable import short
from .known.facts import Explained, ModelFacts
from .words import listed, number, percent, task

TOLD = 3  # features of the first sentence
WEAK = 0.1  # of the strongest: features below are not told of there
UNFOUNDED = "Nothing is found that holds on new rows: the model predicts them no better than nothing would. "
MOST = 0.8  # share of the tasks from which on an effect is that of the tasks, not of some


@dataclass(frozen=True)
class Phrase:
    """A part of a sentence; names are set off from the words."""

    text: str
    name: bool = False


def answer(facts: ModelFacts) -> list[list[Phrase]]:
    """Two or three sentences."""
    if not facts.importance.any():
        return [features(facts)]
    found = [features(facts), _plain(error(facts)), _plain(sure(facts))]
    return [one for one in found if one]


def _plain(text: str) -> list[Phrase]:
    return [Phrase(text)] if text else []


# ------------------------------------------------------------------ which features


def features(facts: ModelFacts) -> list[Phrase]:
    """The strongest features, and in which direction."""
    top, doubtful = told(facts)
    what = outcome(facts)
    if not top:
        return _plain(f"No feature predicts {what}: all coefficients are 0.")
    if facts.K > 1:
        begin = (
            "What tells the classes of {} apart most: "
            if not unfounded(facts)
            else UNFOUNDED + "It uses most, for {}: "
        )
        names = [part for name in _names(facts, top) for part in (Phrase(", "), name)][1:]
        return [Phrase(begin.format(facts.subject.target)), *names, Phrase(".")]
    out = _begin(facts, what)
    tasks, many = facts.subject.tasks, bool(facts.classes)
    verbs = {1: "rise with " if many else "rises with ", -1: "fall with " if many else "falls with "}
    verbs[0] = (
        f"rise in some {tasks} and fall in others with " if many else f"rises in some {tasks} and falls in others with "
    )
    if facts.sure is None:
        verbs[0] = f"{'have' if many else 'has'} no common direction with "
    groups: dict[int, list[int]] = {}  # the strongest first
    for j in top:
        groups.setdefault(direction(facts, j), []).append(j)
    for k, (sign, places) in enumerate(groups.items()):
        out.append(Phrase((" " if k == 0 else " and " if k == len(groups) - 1 else ", ") + verbs[sign]))
        for n, (name, j) in enumerate(zip(_names(facts, places), places, strict=True)):
            out.append(Phrase("" if n == 0 else " and " if n == len(places) - 1 else ", "))
            out += [name, Phrase(f" ({effect(facts, j)})")]
    return [*out, Phrase("."), *_leans_on(facts, doubtful)]


def told(facts: ModelFacts) -> tuple[list[int], list[int]]:
    """Features that the first sentence tells of, the strongest first. Where it is known which are clearly non-zero anywhere
    and some are, those; and the others that the model counts as much."""
    strong = [int(j) for j in facts.by_importance if facts.importance[j] > 0]
    strong = [j for j in strong if facts.importance[j] >= WEAK * facts.importance[strong[0]]]
    clear = [] if facts.sure is None else [j for j in strong if facts.sure.clear_in[j]]
    if not clear:
        return strong[:TOLD], []
    return clear[:TOLD], [j for j in strong[:TOLD] if j not in clear]


def _leans_on(facts: ModelFacts, places: list[int]) -> list[Phrase]:
    """Features that count much in the model though their intervals do not exclude 0."""
    if not places:
        return []
    out = [Phrase(" The model leans on ")]
    for n, name in enumerate(_names(facts, places)):
        out += [Phrase("" if n == 0 else " and " if n == len(places) - 1 else ", "), name]
    many = len(places) > 1
    where = f" in any {facts.subject.task}" if facts.m > 1 else ""
    return [*out, Phrase(f", too, which {'are' if many else 'is'} not clearly non-zero{where}.")]


def unfounded(facts: ModelFacts) -> bool:
    """Whether rows held out say that the model predicts no better than nothing would."""
    return facts.explained_elsewhere is not None and facts.explained_elsewhere.share <= 0


def _begin(facts: ModelFacts, what: str) -> list[Phrase]:
    """The outcome, as a sentence begins with it; before it, that nothing is found, if nothing is."""
    article = what.startswith("the ")
    if unfounded(facts):
        return [Phrase(f"{UNFOUNDED}In it "), Phrase(what, not article)]
    return [Phrase(what[:1].upper() + what[1:] if article else what, not article)]


def _names(facts: ModelFacts, places: list[int]) -> list[Phrase]:
    return [Phrase(short(facts.sharing.features[j]), True) for j in places]


def outcome(facts: ModelFacts) -> str:
    """What rises or falls: the target, the odds of a class, or a rate."""
    target = facts.subject.target
    if len(facts.classes) == 2:
        return f"the odds of {target} = {short(facts.classes[1])}"
    if facts.classes:
        return f"the classes of {target}"
    return f"the {facts.multiplied} of {target}" if facts.ratio else target


def direction(facts: ModelFacts, j: int) -> int:
    """1 or -1 if nine in ten of the tasks that use a feature have this sign; 0 if they differ. Where it is known in which
    tasks a feature is clearly non-zero, these alone count: a freed feature has a coefficient in every task, needed or
    not."""
    w = _told(facts, j)
    up, down = int((w > 0).sum()), int((w < 0).sum())
    return 1 if up >= 9 * down else -1 if down >= 9 * up else 0


def _told(facts: ModelFacts, j: int) -> Floats:
    """Coefficients (m,) of a feature, 0 where it is not clearly non-zero, if that is known of any task."""
    w = facts.coef[:, 0, j]
    clear = None if facts.sure is None else facts.sure.clear[:, j] & (w != 0)
    return w if clear is None or not clear.any() else np.where(clear, w, 0.0)


def effect(facts: ModelFacts, j: int) -> str:
    """How large, and in how many tasks: of those in which the feature is clearly non-zero, if there are such."""
    told = _told(facts, j)
    used = facts.effects[:, 0, j][told != 0]
    per = "per s.d." if facts.spreads is not None else "per unit"
    some = np.count_nonzero(told) < np.count_nonzero(facts.coef[:, 0, j])
    per += " there" if some and np.count_nonzero(told) < MOST * facts.m else ""
    if direction(facts, j) == 0:
        known = evidence(facts, j) or "whether by chance is not known"
        return f"{int((told > 0).sum()):,} up, {int((told < 0).sum()):,} down, {known}"
    said = [evidence(facts, j), f"{sized(facts, float(np.median(used)))} {per}"]
    return ", ".join(filter(None, said if per.endswith("there") else said[::-1]))


def sized(facts: ModelFacts, value: float, digits: int = 2) -> str:
    """A change of the linear predictor in words: in the target's units, or as a factor of odds or rates."""
    if facts.ratio:
        return f"×{number(np.exp(np.clip(value, -50, 50)), digits)}"
    return f"{'+' if value > 0 else ''}{number(value, digits)}"


def evidence(facts: ModelFacts, j: int) -> str:
    """In how many tasks a feature is clearly non-zero, or else has the same sign."""
    m, w = facts.m, facts.coef[:, 0, j]
    if m == 1:
        return "" if facts.sure is None else "clearly non-zero" if facts.sure.clear[0, j] else "not clearly non-zero"
    if facts.sure is not None:
        return f"clearly non-zero in {facts.subject.some_of(int(facts.sure.clear_in[j]), m)}"
    if np.ptp(w) == 0:
        return f"one value for {facts.subject.some_of(m, m)}"
    if direction(facts, j) == 0:
        return ""
    return f"this direction in {facts.subject.some_of(max(int((w > 0).sum()), int((w < 0).sum())), m)}"


# ------------------------------------------------------------------ how well


def error(facts: ModelFacts) -> str:
    """The error in the target's units, and the share of the variation that is explained; where predictions of a few tasks
    fail, that of the others."""
    found, words = facts.explained_elsewhere, facts.subject
    if found is None:
        return ""
    where = f" (but for {tasks_listed(facts, facts.failed)}: see below)" if facts.failed.size else ""
    chance = ", so it may be chance" if found.share <= found.reach else ""
    ends = f"{percent(found.share - found.reach, 0)} to {_upto(found)}"
    spread = f" ({percent(0.95, 0)} interval for new rows: {ends}{chance})"
    spread = spread if np.isfinite(found.reach) and found.share > 0 else ""
    of_each = f"each {words.task}'s own" if facts.m > 1 else "the"
    if facts.classes:
        if found.share <= 0:
            return f"On rows held out{where} it predicts no better than {of_each} class shares."
        lower = f"{percent(found.share, 0)} below that of {of_each} class shares"
        return f"On rows held out{where} its log-loss is {lower}{spread}."
    if facts.by_own_loss:
        loss, nothing = facts.words.loss, facts.words.nothing
        of_nothing = f"that of {of_each} {nothing} {number(found.nothing)}"
        begin = f"On rows held out{where} {order(facts)}the mean {loss} is {number(found.loss)}, {of_nothing}"
        if found.share <= 0:
            return f"{begin}: the features explain nothing of it."
        return f"{begin}: {percent(found.share, 0)} of it is {facts.words.saved}{spread}."
    off = f"On rows held out{where} predictions are off by {number(np.sqrt(found.loss))}"
    mean = f"{of_each} mean by {number(np.sqrt(found.nothing))}"
    if found.share <= 0:
        return f"{off} (root mean square), {mean}: the features explain nothing of what varies."
    within = f" within {words.tasks}" if facts.m > 1 else ""
    return f"{off} (root mean square), {mean}: {percent(found.share, 0)} of the variation{within} is explained{spread}."


def tasks_listed(facts: ModelFacts, places: Ints) -> str:
    """Names of tasks in a sentence."""
    return listed([task(label, facts.subject.task) for label in facts.model.tasks_[places]])


def order(facts: ModelFacts) -> str:
    """Of times until an event: in how many pairs of rows their order is predicted."""
    found = np.asarray(getattr(facts.model, "concordance_", []), dtype=np.float64)
    if not np.isfinite(found).any():
        return ""
    low, high = int(np.nanargmin(found)), int(np.nanargmax(found))
    pairs = f"{percent(found[low], 0)} of the pairs"
    if facts.m > 1 and low != high:
        ends = [short(facts.model.tasks_[i]) for i in (low, high)]
        pairs += f" ({ends[0]}) to {percent(found[high], 0)} ({ends[1]})"
    return f"it tells which event came first in {pairs}, where chance gives 50 %. There "


def _upto(found: Explained) -> str:
    return percent(min(found.share + found.reach, 1.0), 0)


def sure(facts: ModelFacts) -> str:
    """In how many tasks it is better than knowing nothing but the task."""
    if facts.errors is None or facts.m == 1:
        return ""
    known = np.isfinite(facts.errors.relative)
    n, better = int(known.sum()), int((facts.errors.relative[known] < 1).sum())
    if not n:
        return ""
    which = facts.subject.some_of(better, n)
    return f"It beats the {facts.subject.task}'s own {facts.words.nothing} in {which}."
