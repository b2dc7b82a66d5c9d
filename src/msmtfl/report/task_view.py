"""What the script shows of one task at a time: coefficients, observed and predicted values, who resembles it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.designs import Floats, Ints
from ..sharing import size_over_classes
from .known import performance
from .known.facts import ModelFacts
from .known.lifetimes import curves
from .words import number, percent

MOST_TASKS = 2000  # of which one can be chosen
MOST_FEATURES = 15  # shown of a task
POINTS = 20_000  # of all tasks together
LEAST_POINTS = 30  # of a task
ALIKE = 3  # tasks that are named


def task_view(facts: ModelFacts) -> dict[str, Any]:
    """As JSON."""
    order = facts.task_order[:MOST_TASKS]
    shown = [_top(facts, int(i)) for i in order]
    named = np.unique(np.concatenate(shown))
    return {
        "tasks": [str(facts.model.tasks_[i]) for i in order],
        "word": facts.subject.task,
        "words": facts.subject.tasks,
        "target": facts.subject.target,
        "features": [str(name) for name in facts.sharing.features[named]],
        "step": "one s.d." if facts.spreads is not None else "one unit",
        "ratio": facts.ratio,
        "signed": facts.K == 1,
        "level": None if facts.sure is None or facts.sure.level is None else 100 * facts.sure.level,
        "coefs": [_coefs(facts, int(i), top, named) for i, top in zip(order, shown, strict=True)],
        "said": [_said(facts, int(i)) for i in order],
        "alike": [[[str(facts.model.tasks_[k]), s] for k, s in one] for one in _alike(facts, order)],
        "points": _points(facts, order),
        "held": facts.samples is not None and facts.samples.held_out,
        "survival": _survival(facts, order),
        "curves": performance.histograms(facts),
    }


def _top(facts: ModelFacts, i: int) -> Ints:
    """The features that count most in a task, the strongest first."""
    size = np.abs(facts.effects[i]).sum(axis=0)
    top = np.argsort(-size, kind="stable")[:MOST_FEATURES]
    return top[size[top] > 0]


def _coefs(facts: ModelFacts, i: int, top: Ints, named: Ints) -> list[list[Any]]:
    """[place of the name, effect, [[lower, upper], ..]]; of several classes the size of the effect."""
    value = facts.effects[i, 0] if facts.K == 1 else np.abs(facts.effects[i]).sum(axis=0)
    out = []
    for place, j in zip(np.searchsorted(named, top).tolist(), top.tolist(), strict=True):
        scale = 1.0 if facts.spreads is None else float(facts.spreads[j])
        lines = [] if facts.sure is None else facts.sure.lines.get((i, j), [])
        out.append([place, _round(value[j]), [[_round(scale * low), _round(scale * high)] for low, high in lines]])
    return out


def _round(value: Any) -> float:
    return float(f"{float(value):.4g}")


def _said(facts: ModelFacts, i: int) -> str:
    """The task in a sentence or two."""
    parts = []
    if np.isfinite(facts.n_samples[i]):
        parts.append(f"{int(facts.n_samples[i]):,} rows")
    parts.append(f"{int(facts.sharing.support[i].sum()):,} of {facts.d:,} features used")
    if facts.errors is not None and np.isfinite(facts.errors.relative[i]):
        loss, share = facts.errors.loss[i], 1.0 - facts.errors.relative[i]
        if facts.classes:
            way = "below" if share >= 0 else "above"
            parts.append(f"held-out log-loss {number(loss)}, {percent(abs(share), 0)} {way} that of its class shares")
        elif facts.by_own_loss:
            more = f"{percent(share, 0)} below" if share > 0 else "not below"
            parts.append(f"held-out {facts.words.loss} {number(loss)}, {more} that of its {facts.words.nothing}")
        else:
            more = f"{percent(share, 0)} of its variation explained" if share > 0 else "no better than its mean"
            parts.append(f"off by {number(np.sqrt(loss))} on rows held out, {more}")
    elif facts.errors is not None:
        parts.append("its error is not known")
    return "; ".join(parts)


def _alike(facts: ModelFacts, order: Any) -> list[list[tuple[int, float]]]:
    """For every task those whose effects point in the most similar direction: places and cosines."""
    W = (facts.effects[:, 0] if facts.K == 1 else size_over_classes(facts.effects))[order]
    norms = np.linalg.norm(W, axis=1)
    unit = np.divide(W, norms[:, None], out=np.zeros_like(W), where=norms[:, None] > 0)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    out = []
    for k in range(len(order)):
        nearest = np.argsort(-cosine[k], kind="stable")[:ALIKE]
        found = [(int(order[o]), round(float(cosine[k, o]), 2)) for o in nearest if cosine[k, o] > 0 and o != k]
        out.append(found)
    return out


def _points(facts: ModelFacts, order: Any) -> list[list[list[float]]] | None:
    """Observed and predicted values of the tasks; of many rows some, drawn at random."""
    if facts.samples is None or facts.classes:
        return None
    random, most = np.random.default_rng(0), max(POINTS // max(facts.m, 1), LEAST_POINTS)
    out = []
    for i in map(int, order):
        y, p = facts.samples.observed(i), facts.samples.predicted[i]
        some = np.arange(len(y)) if len(y) <= most else np.sort(random.choice(len(y), most, replace=False))
        out.append([_rounded(y[some]), _rounded(p[some])])
    return out


def _survival(facts: ModelFacts, order: Any) -> list[dict[str, Any] | None] | None:
    """Curves of the tasks, of times until an event."""
    if facts.lifetimes is None:
        return None
    return [curves(facts.model, facts.lifetimes, int(i)) for i in order]


def _rounded(values: Floats) -> list[float]:
    return [_round(value) for value in values]
