"""Cox's partial likelihood: a loss of a task's whole vector of linear predictors, not of one row after the other.

Every event k at a time t_k is compared with those at risk then, R_k, whose time is t_k or later. With sample weights v,

    F(f) = sum_k v_k [log sum_(r in R_k) v_r e^f_r - f_k]          (Breslow: d events at one time are d such terms)

and, of d events at one time (Efron), the l-th of d terms, each with their mean weight, has S - l/d T in the place of the
sum S over R_k, T being that over these events. F less its lowest value, that of a saturated model, is half a deviance. It
does not change where all f rise by the same: there is no intercept.

Targets are times, with a minus sign (also that of -0.0) where the sample was censored: one number per row, as for other
losses. All is sums over later or earlier rows, kept as logarithms: sorting costs n log n once, everything else n.

Second derivatives. A term's is the variance of the columns over its risk set, with shares v_r e^f_r / S. In the order of
time a variance is a sum of squares, each row against the mean of those after it (Helmert's contrasts), which are the same
for all terms: H = L L' with as many contrasts as rows, so that a Newton step is least squares on the contrasts L'X.

Conjugate. A dual point g = F'(f') fixes f' but for a constant, in closed form: with b = g + v [event], the weight of the
events so far that is left to the rows at risk, M, falls by b_r with every row, and v_r e^f'_r / S' is b_r / M. (For tied
events under Efron's rule one equation in one unknown is solved per time.) So F(f) + F*(g) - g'f, a sum of divergences of
shares, is exact, whatever g is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._data.designs import Floats
from .._data.event_times import times_of

TIES = ("efron", "breslow")
SLACK = 1e-12  # of the weight of all events: what rounding may leave of a mass
STEPS = 60  # of Newton's method for the share of tied events; it takes about three
LEAST = 1e-300  # what divides is at least that
RANGE = 300.0  # of linear predictors up to which products of two exponentials are finite


class Cox:
    """Minus the logarithm of the partial likelihood, less its lowest value."""

    squared: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    link: ClassVar[str] = "identity"  # predictions are logarithms of hazards
    levelled: ClassVar[bool] = False
    dispersed: ClassVar[bool] = True
    mean: ClassVar[str] = "hazard"  # what e^f is, but for a factor
    least: ClassVar[float] = -np.inf
    text: ClassVar[str] = "2/({m} nᵢ) Σₖ [log Σᵣ exp fᵣ − fₖ]"
    note: ClassVar[str] = "the sums are over the events k of a task, and over its samples r at risk at the time of k"

    def __init__(self, ties: str = "efron"):
        if ties not in TIES:
            raise ValueError(f"loss='cox({ties})': write one of {', '.join(f'cox({one})' for one in TIES)}.")
        self.ties = ties

    def of_task(self, y: Floats, v: Floats) -> Any:
        """The loss of the task with these targets and sample weights."""
        return CoxTask(self.ties, y, v)

    def called(self, inside: str) -> Cox:
        """The loss with the name "cox(...)"."""
        return Cox(inside)

    def response(self, f: Floats) -> Floats:
        return f

    def levels(self, y: Floats, g: Floats) -> tuple[float, float]:
        return 0.0, 0.0

    def majorant(self, y: Floats, f: Floats) -> Floats:
        return np.zeros_like(f)

    def escapes(self, y: Floats) -> Floats:
        return np.full(len(y), float(times_of(y)[1].any()))

    # Only the loss of a task, which knows its targets, has these.

    def value(self, y: Floats, f: Floats) -> Floats:
        raise NotImplementedError

    def slope(self, y: Floats, f: Floats) -> Floats:
        raise NotImplementedError

    def curvature(self, y: Floats, f: Floats) -> Floats:
        raise NotImplementedError

    def excess(self, y: Floats, f: Floats, s: Floats) -> Floats:
        raise NotImplementedError

    def root(self, C: Floats, v: Floats, f: Floats, bend: Floats) -> Floats:
        raise NotImplementedError

    def target(self, v: Floats, f: Floats, slope: Floats, bend: Floats) -> Floats:
        raise NotImplementedError

    def bent(self, x: Floats, v: Floats, f: Floats, bend: Floats) -> Floats:
        raise NotImplementedError

    def ways(self, y: Floats, C: Floats) -> tuple[Floats, Floats]:
        raise NotImplementedError

    def yields(self, y: Floats, slope: Floats, bend: Floats) -> Floats:
        raise NotImplementedError


@dataclass(frozen=True)
class Sums:
    """Logarithms of sums of v e^f at linear predictors f, in the order of time."""

    rows: Floats  # (n, ...): v e^f itself
    terms: Floats  # (events, ...): what each term divides by
    before: Floats  # (G + 1, ...): of weight over divisor of all terms before each time, and of all
    hazard: Floats  # (n, ...): the same of the terms in which a row is at risk; of an event the shares of its own time


class CoxTask(Cox):
    """The partial likelihood of one task. The targets that methods are given are those it was made with.

    Attributes
    ----------
    order, back : (n,) rows in the order of time, events first among equal times; and the places of rows in it
    events, group : (events,) their places in that order, and the number of their time
    starts, ends : (G,) the first place of the events at each time that has some, and the first behind them
    share, of_term : (events,) l / d of each term, and its weight
    total : (G,) weight of the events at each time
    at : (n,) number of the last time with an event up to a row, -1 if there is none
    lasts : (G,) the place of the last event at each time
    among, last : tied events but for the last of each time, and of each of these the last of its time
    within : (events,) bool: whether an event is one of these
    """

    def __init__(self, ties: str, y: Floats, v: Floats):
        super().__init__(ties)
        self.time, happened = times_of(y)
        self.event = happened & (v > 0.0)
        self.v, self.n = v, len(y)
        self.order = np.lexsort((~self.event, self.time))
        self.back = np.argsort(self.order)
        when, weight = self.time[self.order], v[self.order]
        self.events = np.flatnonzero(self.event[self.order])
        new = np.ones(len(self.events), dtype=bool)
        new[1:] = when[self.events[1:]] > when[self.events[:-1]]
        self.first = np.flatnonzero(new)  # (G,): of the events at a time the first
        self.starts = self.events[new]
        counts = np.diff(np.append(self.first, len(self.events)))
        self.ends = self.starts + counts
        self.group = np.repeat(np.arange(len(counts)), counts)
        rank = np.arange(len(self.events)) - self.first[self.group]
        self.share = rank / counts[self.group] if ties == "efron" else np.zeros(len(self.events))
        self.total = self._by_time(weight[self.events])
        self.of_term = (self.total / counts)[self.group]
        self.at = np.searchsorted(self.starts, np.arange(self.n), side="right") - 1
        with np.errstate(divide="ignore"):
            self.log_v = np.log(weight)
        self.lowest = np.log(self.total)[self.group] + np.log1p(-self.share)  # of a term's logarithm
        self._seen: tuple[Floats, Sums] | None = None
        self._columns: tuple[Floats, Floats] | None = None
        self.lasts = self.ends - 1
        self.among = np.setdiff1d(self.events, self.lasts)
        self.last = self.lasts[self.at[self.among]]
        self.within = ~np.isin(self.events, self.lasts)

    @property
    def times(self) -> Floats:
        """(G,): those of events."""
        return np.asarray(self.time[self.order[self.starts]])

    # ------------------------------------------------------------------ sums

    def sums(self, f: Floats) -> Sums:
        """At f (n, ...); known for the f asked for last."""
        if self._seen is not None and self._seen[0] is f:
            return self._seen[1]
        rows = f[self.order] + _beside(self.log_v, f)
        out = (self._sums_at_once(rows) if f.ndim == 1 else None) or self._sums_of_logs(rows, f)
        self._seen = f, out
        return out

    def _sums_at_once(self, rows: Floats) -> Sums | None:
        """Those of one f whose exponentials can be summed as they are, which is most of the time; None of others."""
        top = float(rows.max(initial=-np.inf))
        if not float(rows.min(initial=np.inf)) >= top - RANGE:
            return None
        e = np.exp(rows - top)
        behind = np.cumsum(e[::-1])[::-1]
        tied = self._by_time(e[self.events])
        terms = behind[self.starts][self.group] - self.share * tied[self.group]
        parts = self.of_term / terms
        before = np.append(0.0, np.cumsum(self._by_time(parts)))
        hazard = before[self.at + 1]
        hazard[self.events] = (before[:-1] + self._by_time(parts * (1.0 - self.share)))[self.group]
        with np.errstate(divide="ignore"):
            logs = np.log(np.concatenate([terms, before, hazard]))
        k, G = len(terms), len(before)
        return Sums(rows, logs[:k] + top, logs[k : k + G] - top, logs[k + G :] - top)

    def _sums_of_logs(self, rows: Floats, f: Floats) -> Sums:
        """The same by logarithms."""
        later = _of_sums(rows[::-1])[::-1]
        tied = self._over_times(rows[self.events])
        with np.errstate(invalid="ignore"):
            apart = np.minimum(np.exp(tied - later[self.starts]), 1.0)[self.group]
        terms = later[self.starts][self.group] + np.log1p(-_beside(self.share, f) * apart)
        return Sums(rows, terms, *self._hazards(terms))

    def _by_time(self, parts: Floats) -> Floats:
        """(G,): sums over the events of a time."""
        return np.bincount(self.group, parts, len(self.first)).astype(np.float64)

    def _over_times(self, parts: Floats) -> Floats:
        """Logarithms of sums over the events of a time."""
        if len(self.first) in (0, len(parts)):  # no events are tied
            return parts
        return np.logaddexp.reduceat(parts, self.first, axis=0)

    def _hazards(self, terms: Floats) -> tuple[Floats, Floats]:
        """`before` and `hazard`."""
        logs = _beside(np.log(self.of_term), terms) - terms
        total = _of_sums(self._over_times(logs))
        before = np.concatenate([np.full((1, *terms.shape[1:]), -np.inf), total])
        hazard = before[self.at + 1]
        own = self._over_times(logs + _beside(np.log1p(-self.share), terms))
        hazard[self.events] = np.logaddexp(before[:-1], own)[self.group]
        return before, hazard

    # ------------------------------------------------------------------ a `Loss`

    @np.errstate(over="ignore", invalid="ignore")
    def value(self, y: Floats, f: Floats) -> Floats:
        """That of an event's term; 0 for rows without one."""
        out = np.zeros(f.shape)
        rows = self.order[self.events]
        terms = self.sums(f).terms - _beside(self.lowest, f)
        out[rows] = _beside(self.of_term / self.v[rows], f) * terms - f[rows]
        return out

    @np.errstate(over="ignore", invalid="ignore")
    def slope(self, y: Floats, f: Floats) -> Floats:
        return self.curvature(y, f) - _beside(self.event, f)

    @np.errstate(over="ignore", invalid="ignore")
    def curvature(self, y: Floats, f: Floats) -> Floats:
        """That of rows if each moved by itself, and a little more: H is no more than the diagonal of these."""
        return np.asarray(np.exp(f + self.sums(f).hazard[self.back]))

    @np.errstate(over="ignore", invalid="ignore")
    def excess(self, y: Floats, f: Floats, s: Floats) -> Floats:
        """All of it, in equal parts per weight: F(f) + F*(v s) - (v s)'f."""
        total = self.v.sum()
        return np.where(self.v > 0.0, self._apart(f, (self.v * (s + self.event))[self.order]) / total, 0.0)

    def _apart(self, f: Floats, b: Floats) -> float:
        """sum_r b_r (f'_r - f_r) less the weight of terms times what their logarithms differ by, f' being where the
        gradient is b less the weight of events; inf where there is no such f'."""
        total, slack = self.total, SLACK * max(float(self.total.sum()), LEAST)
        if (b < -slack).any() or abs(b.sum() - total.sum()) > slack * len(b) or (b[: self._begin()] > slack).any():
            return float("inf")
        b = np.maximum(b, 0.0)
        if not len(total):
            return 0.0
        ends = np.append(self.starts[1:], self.n)
        spent = np.append(0.0, np.cumsum(b))
        left = np.append(0.0, np.cumsum(total))[:-1] - spent[self.starts]  # of the events before a time
        of_tied = self._by_time(b[self.events])
        rest = left + total - of_tied  # for the other rows at risk
        if (left < -slack).any() or (rest < spent[ends] - spent[self.ends] - slack).any():
            return float("inf")
        x = self._share_of_tied(np.maximum(left, 0.0), of_tied)
        later = np.maximum(left[1:], 0.0) / np.maximum(
            rest[:-1], LEAST
        )  # of the sum behind tied events: up to the next
        with np.errstate(divide="ignore"):
            log_x, log_rest = np.log(x), np.log1p(-x)
            sums = np.append(0.0, np.cumsum(log_rest[:-1] + np.log(later)))  # S'
            terms = sums[self.group] + np.log1p(-self.share * x[self.group])
            logs = np.log(b) - self.log_v
            at = np.maximum(self.at, 0)
            g = logs - np.log(np.maximum(rest, LEAST))[at] + (sums + log_rest)[at]
            g[self.events] = (logs[self.events] - np.log(of_tied)[self.group]) + (sums + log_x)[self.group]
        known = self.sums(f)
        used = b > 0.0
        moved = g[used] - f[self.order][used]
        rise = terms - known.terms
        found = float(b[used] @ moved - self.of_term @ rise)
        size = float(b[used] @ np.abs(moved) + self.of_term @ np.abs(rise))
        if not (np.isfinite(size) and found >= -SLACK * size):  # masses that are lost in rounding: nothing is known
            return float("inf")
        return max(found, 0.0)

    def _begin(self) -> int:
        """The first place that is at risk at an event."""
        return int(self.starts[0]) if len(self.starts) else self.n

    def _share_of_tied(self, left: Floats, b: Floats) -> Floats:
        """(G,): x in [0, 1], the share of tied events in the sum over those at risk, at which their gradient is b:
        x (left + sum of mean (1 - share) / (1 - share x)) = b. The left side is convex and increasing."""
        x = np.minimum(b / np.maximum(left + self.total, LEAST), 1.0)
        if not self.share.any():
            return x
        for step in range(STEPS):
            inside = 1.0 - self.share * x[self.group]
            parts = self.of_term * (1.0 - self.share) / inside
            sums, bends = self._by_time(parts), self._by_time(parts * self.share / inside)
            move = (b - x * (left + sums)) / np.maximum(left + sums + x * bends, LEAST)
            x = np.clip(x + move, 0.0, 1.0)
            if step and np.abs(move).max(initial=0.0) <= 1e-16:
                break
        return x

    # ------------------------------------------------------------------ second derivatives

    @np.errstate(over="ignore", invalid="ignore")
    def root(self, C: Floats, v: Floats, f: Floats, bend: Floats) -> Floats:
        """L'C. Contrasts are in the order of time, the last first; of tied events each is against the mean of those behind
        it, the last is that of all of them against the mean of the later rows."""
        at = self._contrasts(_in_range(f))
        if self._columns is None or self._columns[0] is not C:
            self._columns = C, np.ascontiguousarray((C[self.order[::-1]] - C.mean(axis=0)).T)
        X = self._columns[1]  # (columns, n), so that sums over rows run through memory
        E = at.e[::-1] * X
        behind = np.cumsum(E, axis=1)
        behind -= E
        if len(self.among):
            behind[:, self.n - 1 - self.among] -= behind[:, self.n - 1 - self.last]
        behind *= 1.0 / at.behind[::-1]
        out = X - behind
        if len(self.among):
            ends = self.n - 1 - self.lasts
            whole = np.add.reduceat(E[:, self.n - 1 - self.events], self.first, axis=1) / at.tied
            out[:, ends] = whole - behind[:, ends]
        out *= at.factor[::-1]
        return out.T

    @np.errstate(over="ignore", invalid="ignore")
    def target(self, v: Floats, f: Floats, slope: Floats, bend: Floats) -> Floats:
        """L^-1 (v slope), the last contrast first"""
        at = self._contrasts(_in_range(f))
        g = (v * slope)[self.order]
        of_tied = self._by_time(g[self.events])
        before = np.cumsum(g) - g  # of all rows before
        y = g + at.e * before / at.from_on
        own = g[self.events] - (of_tied / at.tied)[self.group] * at.e[self.events]  # within a time
        inside = np.cumsum(own) - own
        inside -= inside[self.first][self.group]
        y[self.events] = own + at.e[self.events] * inside / at.tied_on
        y[self.ends - 1] = of_tied + at.tied * before[self.starts] / at.from_on[self.starts]
        return np.divide(y, at.factor, out=np.zeros(self.n), where=at.factor > 0.0)[::-1]

    @np.errstate(over="ignore", invalid="ignore")
    def bent(self, x: Floats, v: Floats, f: Floats, bend: Floats) -> Floats:
        """H x / v for x (n,)"""
        near = _in_range(f)
        if near is not f:
            f, bend = near, self.curvature(self.time, near)
        sums = self.sums(f)
        x = x - x.mean()
        top = float(sums.rows.max(initial=0.0))
        E = np.exp(sums.rows - top) * x[self.order]
        later = np.cumsum(E[::-1])[::-1][self.starts]
        tied = self._by_time(E[self.events])
        means = (later[self.group] - self.share * tied[self.group]) * np.exp(top - sums.terms)  # of x, in every term
        logs = self.of_term * np.exp(top - sums.terms) * means
        before = np.append(0.0, np.cumsum(self._by_time(logs)))
        out = before[self.at + 1]
        own = self._by_time(logs * (1.0 - self.share))
        out[self.events] = (before[:-1] + own)[self.group]
        return np.asarray(bend * x - np.exp(f - top) * out[self.back])

    def _contrasts(self, f: Floats) -> _Contrasts:
        sums = self.sums(f)
        top = float(sums.rows.max(initial=-np.inf))
        e = np.exp(sums.rows - top)
        S = np.cumsum(e[::-1])[::-1]
        T, ends = np.append(S[1:], 0.0), self.lasts
        D = self._by_time(e[self.events])
        rest = T[ends]
        hazard = np.exp(sums.hazard + top)
        behind = T.copy()
        behind[self.among] = np.maximum(T[self.among] - T[self.last], 0.0)
        square = hazard * e * behind / np.maximum(e + behind, LEAST)
        parts = self.of_term * (1.0 - self.share) * np.exp(2.0 * (top - sums.terms))
        own = self._by_time(parts)
        square[ends] = D * rest * (np.exp(sums.before[:-1] + top) / np.maximum(D + rest, LEAST) + own)
        tied_on = e[self.events] + np.where(self.within, behind[self.events], 0.0)
        return _Contrasts(
            e=e,
            from_on=np.maximum(S, LEAST),
            behind=np.maximum(behind, LEAST),
            tied=np.maximum(D, LEAST),
            tied_on=np.maximum(tied_on, LEAST),
            factor=np.sqrt(np.where(np.isfinite(square), square, 0.0)),
        )

    # ------------------------------------------------------------------ after the fit

    def cumulative_hazard(self, f: Floats) -> Floats:
        """(G,): the logarithm of the baseline cumulative hazard after each time with events, that of f = 0 (Breslow's
        estimate; under Efron's rule with the divisors that this has)."""
        return self.sums(f).before[1:]

    # ------------------------------------------------------------------ monotone likelihood

    def ways(self, y: Floats, C: Floats) -> tuple[Floats, Floats]:
        """Differences T of rows of C, and (rows,) 1 or 0: along z the loss falls for ever if Tz >= 0, where that is 1, and
        Tz = 0, where it is 0: no event is then below a row at risk at its time, and tied events are equal."""
        X = C[self.order]
        known = np.flatnonzero(self.at >= 0)
        of_time = X[self.starts]
        heads = np.zeros(self.n, dtype=bool)
        heads[self.starts] = True
        others = known[~heads[known]]
        T = np.concatenate([of_time[self.at[others]] - X[others], of_time[:-1] - of_time[1:]])
        tied = np.zeros(self.n, dtype=bool)
        tied[self.events] = True
        return T, np.append(np.where(tied[others], 0.0, 1.0), np.ones(max(len(of_time) - 1, 0)))

    def yields(self, y: Floats, slope: Floats, bend: Floats) -> Floats:
        """Shares of a term change by no more than what their f differ by: twice the largest from the mean."""
        return np.where(self.at >= 0, 2.0, 0.0)[self.back]


@dataclass(frozen=True)
class _Contrasts:
    """What Helmert's contrasts are made of, in the order of time; sums are those of e."""

    e: Floats  # (n,): v e^f over the largest
    from_on: Floats  # (n,): sums from each row on
    behind: Floats  # (n,): sums behind each row; of a tied event over those tied with it, but for the last
    tied: Floats  # (G,): sums over the events of a time
    tied_on: Floats  # (events,): sums from each event on, over those of its time
    factor: Floats  # (n,): what contrasts are multiplied with


@np.errstate(divide="ignore", invalid="ignore")
def _of_sums(logs: Floats) -> Floats:
    """Logarithms of sums from the first on, of what has these logarithms (rows, ...)."""
    if len(logs) == 0:
        return logs
    top = logs.max(axis=0)
    low = np.where(np.isneginf(logs), np.inf, logs).min(axis=0)
    if not (top - low <= 2.0 * RANGE).all():
        return np.logaddexp.accumulate(logs, axis=0)
    return np.asarray(np.log(np.cumsum(np.exp(logs - top), axis=0)) + top)


def _in_range(f: Floats) -> Floats:
    """Linear predictors whose exponentials, and squares of these, can be summed: second derivatives there say as well which
    way to go."""
    low = float(f.max(initial=-np.inf)) - RANGE
    return f if f.min(initial=np.inf) >= low else np.maximum(f, low)


def _beside(x: Floats | np.ndarray, f: Floats) -> Floats:
    """x (n,) in the shape in which it goes with f (n, ...)."""
    return x if f.ndim == 1 else np.reshape(x, (len(x), *(1,) * (f.ndim - 1)))


def held_out(ties: str, y: Floats, v: Floats, out: np.ndarray, f: Floats) -> Floats:
    """(rows held out, P): what rows that a fold holds out, out (n,) bool, add to minus the logarithm of a task's partial
    likelihood at linear predictors f (n, P).

    The sum over these rows, with their weights, is the difference between the partial likelihoods of all rows and of the
    training rows (Verweij and van Houwelingen, Statistics in Medicine 12, 1993): rows held out count as events, among all
    that are at risk, and as being at risk themselves at the events of training rows. The latter is shared out among
    them in proportion to their hazards.
    """
    whole, part = CoxTask(ties, y, v), CoxTask(ties, y[~out], v[~out])
    logs, G = whole.sums(f).terms * whole.of_term[:, None], len(whole.first)
    total = np.add.reduceat(logs, whole.first, axis=0) if G else logs
    places = np.searchsorted(whole.times, part.times)
    if len(part.first):
        less = np.add.reduceat(part.sums(f[~out]).terms * part.of_term[:, None], part.first, axis=0)
        np.subtract.at(total, places, less)
    order, when = whole.order, out[whole.order]
    result = np.zeros(f.shape)
    mine = when[whole.events]
    rows, group = order[whole.events[mine]], whole.group[mine]
    mean = np.add.reduceat(logs, whole.first, axis=0) / whole.total[:, None] if G else logs  # per weight of an event
    result[rows] = mean[group] - f[rows]
    np.subtract.at(total, group, v[rows][:, None] * mean[group])
    # what is left belongs to those at risk
    logs_of_rows = np.where(when[:, None], whole.sums(f).rows, -np.inf)
    risk = np.logaddexp.accumulate(logs_of_rows[::-1], axis=0)[::-1][whole.starts]
    size = np.log(np.abs(total), out=np.full_like(total, -np.inf), where=np.isfinite(risk) & (total != 0.0))
    for sign in (1.0, -1.0):
        parts = np.where(np.sign(total) == sign, size - np.where(np.isfinite(risk), risk, 0.0), -np.inf)
        known = np.concatenate([np.full((1, f.shape[1]), -np.inf), np.logaddexp.accumulate(parts, axis=0)])
        share = np.exp(f[order] + known[whole.at + 1])
        result[order] += sign * np.where(when[:, None], share, 0.0)
    return np.asarray(result[out])
