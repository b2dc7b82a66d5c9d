"""Losses, and one task's data under those that are not squared.

Most are half a unit deviance h(y, f) >= 0 of a row with linear predictor f = x'w + b, as 1/2 (y - f)^2 is for squared loss.
So a task's loss is  2/(m n_i) sum_r v_r h(y_r, f_r)  with sample weights v, and

    logistic  2 h = 2 log(1 + e^f) - 2 y f,  y 0 or 1      lam = 2 / (m n_i C)   in scikit-learn's LogisticRegression(C)
    poisson   2 h = 2 (e^f - y f + y log y - y),  y >= 0   lam = 2 alpha / m     in glum and other generalised linear models
    gamma     2 h = 2 (y e^-f - 1 - log y + f),  y > 0     with mean e^f, as Poisson's and Tweedie's
    tweedie   2 h = 2 (y e^(1-p)f / (p-1) + e^(2-p)f / (2-p) - y^(2-p) / ((p-1) (2-p))),  y >= 0,  1 < p < 2
    huber     2 h = r^2 up to |r| = e, beyond 2 e |r| - e^2,  r = y - f;  e = inf is squared loss
    cox       a task's partial likelihood, which its rows have together: see `survival.py`

A loss of a task's whole vector of linear predictors (`of_task`) has value, slope, curvature and excess by row, too, such
that their sums with the sample weights are those of the task. A loss that acts on every row by itself is `Separable`.

A new loss is a class here and a line in `LOSSES`: every model that takes `loss`, the command, paths, cross-validation,
certificates and model files know it then.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from scipy.special import expit, xlogy

from .._data.designs import Floats
from .survival import Cox

STEPS = 200  # of the search for an intercept; it takes less than ten
HIDDEN = float(np.finfo(float).eps)  # of the sizes of slopes: what rounding leaves of their sum
MAD_TO_SD = 1.4826  # of a normal distribution: standard deviation over median absolute deviation


class Loss(Protocol):
    """Half a unit deviance, convex in f; y and f are arrays of the same shape. `Separable` has the last part of this for
    losses that act on every row by itself."""

    squared: ClassVar[bool]  # whether it is the squared error: sums of squares and products then say all there is
    linear: ClassVar[bool]  # whether targets are on the scale of linear predictors
    link: ClassVar[str]  # what is predicted: the linear predictor ("identity"), its "exp" or its "expit"; or "other"
    levelled: ClassVar[bool]  # whether it tells levels of f apart, so that there are intercepts
    dispersed: ClassVar[bool]  # whether it is all of a log-likelihood: the distribution says how large the noise is
    least: ClassVar[float]  # the smallest target that it takes
    text: ClassVar[str]  # a task's loss in formulas: {m} is the number of tasks, f the linear predictor of samples r
    note: ClassVar[str]  # what the letters of `text` are; {epsilon} and {power} are the model's

    def value(self, y: Floats, f: Floats) -> Floats:
        """h"""

    def slope(self, y: Floats, f: Floats) -> Floats:
        """dh/df"""

    def curvature(self, y: Floats, f: Floats) -> Floats:
        """The second derivative (from one side, where there are two)."""

    def majorant(self, y: Floats, f: Floats) -> Floats:
        """The curvature of a parabola that touches h at f and is above it, or 0 where there is none."""

    def excess(self, y: Floats, f: Floats, s: Floats) -> Floats:
        """h(y, f) + h*(y, s) - s f, h* the conjugate: >= 0, 0 where s is the slope at f, inf where it is none of h. In a
        form that loses no digits where it is small."""

    def escapes(self, y: Floats) -> Floats:
        """The direction (1, -1, or 0 if there is none) in which h falls for ever."""

    def levels(self, y: Floats, g: Floats) -> tuple[float, float]:
        """The ends between which the best intercept beside linear predictors g lies, as far as they are known."""

    def response(self, f: Floats) -> Floats:
        """What is predicted."""

    def of_task(self, y: Floats, v: Floats) -> Loss:
        """The loss of a task with these targets and sample weights."""

    # H = L L' are the second derivatives of a task's loss at f; `bend` is the curvature there.

    def root(self, C: Floats, v: Floats, f: Floats, bend: Floats) -> Floats:
        """L'C for columns C"""

    def target(self, v: Floats, f: Floats, slope: Floats, bend: Floats) -> Floats:
        """L^-1 (v slope)"""

    def bent(self, x: Floats, v: Floats, f: Floats, bend: Floats) -> Floats:
        """H x / v"""

    def ways(self, y: Floats, C: Floats) -> tuple[Floats, Floats]:
        """What decides about columns C whether the loss falls for ever along z: T and `away`, such that away_t (Tz)_t >= 0
        and, where away is 0, (Tz)_t = 0."""

    def yields(self, y: Floats, slope: Floats, bend: Floats) -> Floats:
        """(rows,): by which share at most what holds a row back from escaping changes when its f moves by one; inf where
        nothing does."""


class Separable:
    """What losses have in common that act on every row by itself."""

    levelled: ClassVar[bool] = True
    dispersed: ClassVar[bool] = False
    link: ClassVar[str] = "identity"

    def of_task(self, y: Floats, v: Floats) -> Any:
        return self

    def root(self, C: Floats, v: Floats, f: Floats, bend: Floats) -> Floats:
        return np.asarray(np.sqrt(v * bend)[:, None] * C)

    def target(self, v: Floats, f: Floats, slope: Floats, bend: Floats) -> Floats:
        return np.asarray(np.sqrt(v / bend) * slope)

    def bent(self, x: Floats, v: Floats, f: Floats, bend: Floats) -> Floats:
        return bend * x

    def ways(self, y: Floats, C: Floats) -> tuple[Floats, Floats]:
        return C, self.escapes(y)

    def yields(self, y: Floats, slope: Floats, bend: Floats) -> Floats:
        away = self.escapes(y)
        with np.errstate(divide="ignore", invalid="ignore"):
            held = np.where(away * slope < 0.0, bend / np.abs(slope), np.inf)
        return np.where(away != 0.0, held, 0.0)

    def escapes(self, y: Floats) -> Floats:
        return np.zeros_like(y)


class Squared(Separable):
    """Half the squared error."""

    squared: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    least: ClassVar[float] = -np.inf
    text: ClassVar[str] = "1/({m} nᵢ) ‖fᵢ − yᵢ‖²"
    note: ClassVar[str] = ""

    def value(self, y: Floats, f: Floats) -> Floats:
        return np.asarray(0.5 * (y - f) ** 2)

    def slope(self, y: Floats, f: Floats) -> Floats:
        return f - y

    def curvature(self, y: Floats, f: Floats) -> Floats:
        return np.ones_like(f)

    def majorant(self, y: Floats, f: Floats) -> Floats:
        return np.ones_like(f)

    def excess(self, y: Floats, f: Floats, s: Floats) -> Floats:
        return np.asarray(0.5 * (f - y - s) ** 2)

    def escapes(self, y: Floats) -> Floats:
        return np.zeros_like(y)

    def levels(self, y: Floats, g: Floats) -> tuple[float, float]:
        r = y - g
        return float(r.min()), float(r.max())

    def response(self, f: Floats) -> Floats:
        return f


class Logistic(Separable):
    """y is 0 or 1."""

    link: ClassVar[str] = "expit"
    dispersed: ClassVar[bool] = True
    squared: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    least: ClassVar[float] = 0.0
    text: ClassVar[str] = "2/({m} nᵢ) Σᵣ [log(1 + exp fᵣ) − yᵣ fᵣ]"
    note: ClassVar[str] = ""

    def value(self, y: Floats, f: Floats) -> Floats:
        return np.asarray(np.logaddexp(0.0, np.where(y > 0.5, -f, f)))

    def slope(self, y: Floats, f: Floats) -> Floats:
        sign = np.where(y > 0.5, -1.0, 1.0)
        return np.asarray(sign * expit(sign * f))

    def curvature(self, y: Floats, f: Floats) -> Floats:
        return np.asarray(expit(f) * expit(-f))

    def majorant(self, y: Floats, f: Floats) -> Floats:
        return np.zeros_like(f)

    def excess(self, y: Floats, f: Floats, s: Floats) -> Floats:
        sign = np.where(y > 0.5, -1.0, 1.0)
        wrong, t = sign * s, sign * f  # the probability of the other class that s stands for, and that one's log-odds
        inside = np.clip(wrong, 0.0, 1.0)
        parts = divergence(inside, expit(t), -np.logaddexp(0.0, -t))
        parts = parts + divergence(1.0 - inside, expit(-t), -np.logaddexp(0.0, t))
        return np.where(np.abs(wrong - inside) <= 1e-12, parts, np.inf)

    def escapes(self, y: Floats) -> Floats:
        return np.where(y > 0.5, 1.0, -1.0)

    def levels(self, y: Floats, g: Floats) -> tuple[float, float]:
        return -np.inf, np.inf

    def response(self, f: Floats) -> Floats:
        return np.asarray(expit(f))


class Softmax(Logistic):
    """A class among several, beside what is known of the others; see `class_tasks.py`. Responses are proportional to the
    probabilities of classes."""

    link: ClassVar[str] = "other"
    text: ClassVar[str] = "2/({m} nᵢ) Σᵣ [log Σₖ exp fᵣₖ − fᵣ,y₍ᵣ₎]"

    def response(self, f: Floats) -> Floats:
        return np.asarray(np.exp(np.clip(f, -700.0, 700.0)))


class _LogLink(Separable):
    """What losses of a mean e^f have in common."""

    link: ClassVar[str] = "exp"
    squared: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    mean: ClassVar[str] = "mean"  # what e^f is called
    note: ClassVar[str] = "the prediction is exp f"

    def majorant(self, y: Floats, f: Floats) -> Floats:
        return np.zeros_like(f)

    def response(self, f: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(f))


class Poisson(_LogLink):
    """Counts, or other y >= 0, with mean e^f."""

    dispersed: ClassVar[bool] = True
    mean: ClassVar[str] = "rate"
    least: ClassVar[float] = 0.0
    text: ClassVar[str] = "2/({m} nᵢ) Σᵣ [exp fᵣ − yᵣ fᵣ + yᵣ log yᵣ − yᵣ]"

    def value(self, y: Floats, f: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.maximum(np.exp(f) - y * f + (xlogy(y, y) - y), 0.0)

    def slope(self, y: Floats, f: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(f) - y)

    def curvature(self, y: Floats, f: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(f))

    def excess(self, y: Floats, f: Floats, s: Floats) -> Floats:
        with np.errstate(over="ignore"):
            parts = divergence(np.maximum(y + s, 0.0), np.exp(f), f)
        return np.where(y + s >= -1e-12 * (1.0 + y), parts, np.inf)

    def escapes(self, y: Floats) -> Floats:
        return np.where(y > 0.0, 0.0, -1.0)

    def levels(self, y: Floats, g: Floats) -> tuple[float, float]:
        return -np.inf, np.inf


class Gamma(_LogLink):
    """Amounts y > 0 with mean e^f, whose standard deviation is proportional to the mean."""

    least: ClassVar[float] = float(np.nextafter(0.0, 1.0))
    text: ClassVar[str] = "2/({m} nᵢ) Σᵣ [yᵣ exp(−fᵣ) − 1 − log yᵣ + fᵣ]"

    def value(self, y: Floats, f: Floats) -> Floats:
        above = f - np.log(y)
        with np.errstate(over="ignore"):
            return np.maximum(np.expm1(-above) + above, 0.0)

    def slope(self, y: Floats, f: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(-np.expm1(np.log(y) - f))

    def curvature(self, y: Floats, f: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(np.log(y) - f))

    def excess(self, y: Floats, f: Floats, s: Floats) -> Floats:
        below = np.log(y) - f
        with np.errstate(over="ignore"):
            parts = divergence(np.maximum(1.0 - s, 0.0), np.exp(below), below)
        return np.where(s <= 1.0 + 1e-12, parts, np.inf)

    def escapes(self, y: Floats) -> Floats:
        return np.zeros_like(y)

    def levels(self, y: Floats, g: Floats) -> tuple[float, float]:
        best = np.log(y) - g
        return float(best.min()), float(best.max())


@dataclass(frozen=True)
class Tweedie(_LogLink):
    """Amounts y >= 0, often exactly 0, with mean e^f: their variance is proportional to the mean to the `power`."""

    least: ClassVar[float] = 0.0
    text: ClassVar[str] = (
        "2/({m} nᵢ) Σᵣ [yᵣ exp((1 − p) fᵣ)/(p − 1) + exp((2 − p) fᵣ)/(2 − p) − yᵣ²⁻ᵖ/((p − 1)(2 − p))]"
    )
    note: ClassVar[str] = "the prediction is exp f; p = {power:g}"

    power: float = 1.5

    def __post_init__(self) -> None:
        if not 1.0 < self.power < 2.0:
            raise ValueError(
                f"loss='tweedie({self.power:g})': the power must be between 1 and 2. Use 'poisson' for 1 and 'gamma' for 2."
            )

    def called(self, inside: str) -> Tweedie:
        """The loss with the name "tweedie(...)"."""
        try:
            power = float(inside)
        except ValueError as error:
            raise ValueError(f"loss='tweedie({inside})': the power must be a number between 1 and 2.") from error
        return Tweedie(power)

    def _terms(self, y: Floats, f: Floats) -> tuple[Floats, Floats]:
        """y e^((1-p) f) and e^((2-p) f)"""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            falls = np.exp(np.log(y) - (self.power - 1.0) * f)  # 0 where y is, however low f
            return np.where(y > 0.0, falls, 0.0), np.exp((2.0 - self.power) * f)

    def value(self, y: Floats, f: Floats) -> Floats:
        a, b, some = self.power - 1.0, 2.0 - self.power, y > 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            above = f - np.log(np.where(some, y, 1.0))
            close = y**b * (np.expm1(-a * above) / a + np.expm1(b * above) / b)
            return np.where(some, np.maximum(close, 0.0), np.exp(b * f) / b)

    def slope(self, y: Floats, f: Floats) -> Floats:
        falls, rises = self._terms(y, f)
        return rises - falls

    def curvature(self, y: Floats, f: Floats) -> Floats:
        falls, rises = self._terms(y, f)
        return (self.power - 1.0) * falls + (2.0 - self.power) * rises

    def excess(self, y: Floats, f: Floats, s: Floats) -> Floats:
        a, b = self.power - 1.0, 2.0 - self.power
        inside = np.where(y > 0.0, s, np.maximum(s, 0.0))
        with np.errstate(over="ignore", divide="ignore"):
            down, up = self._terms(y, self._where(y, inside))
            falls, rises = self._terms(y, f)
            parts = divergence(up, rises, b * f) / b + divergence(down, falls, np.log(y) - a * f) / a
        return np.where((y > 0.0) | (s >= -1e-12), parts, np.inf)

    def _where(self, y: Floats, s: Floats) -> Floats:
        """The f at which the slope is s: Newton's method between bounds no further apart than log 2 over 2 - p or p - 1."""
        a, b = self.power - 1.0, 2.0 - self.power
        size = np.abs(s)
        with np.errstate(divide="ignore", invalid="ignore"):
            at, most = np.log(y), np.log(size + y**b)
            low = np.where(s >= 0.0, np.maximum(at, np.log(size) / b), (at - most) / a)
            high = np.where(s >= 0.0, most / b, np.minimum(at, (at - np.log(size)) / a))
        f = np.where(y > 0.0, 0.5 * low + 0.5 * high, low)
        some = (y > 0.0) & (low < high)
        for _ in range(STEPS):
            with np.errstate(divide="ignore", invalid="ignore"):
                error, bend = self.slope(y, f) - s, self.curvature(y, f)
                low, high = np.where(error < 0.0, f, low), np.where(error < 0.0, high, f)
                new = f - error / bend
                new = np.where((new >= low) & (new <= high), new, 0.5 * low + 0.5 * high)
                moved = some & (np.abs(new - f) > 4e-16 * np.abs(f))
            f = np.where(some, new, f)
            if not moved.any():
                break
        return f

    def escapes(self, y: Floats) -> Floats:
        return np.where(y > 0.0, 0.0, -1.0)

    def levels(self, y: Floats, g: Floats) -> tuple[float, float]:
        some = y > 0.0
        best = np.log(y[some]) - g[some]
        return float(best.min()) if some.all() else -np.inf, float(best.max(initial=-np.inf)) if some.any() else np.inf


@dataclass(frozen=True)
class Huber(Separable):
    """Squared up to `epsilon`, in the units of y, linear beyond; `scale` is that of the residuals it was chosen for."""

    squared: ClassVar[bool] = False
    linear: ClassVar[bool] = True
    least: ClassVar[float] = -np.inf
    text: ClassVar[str] = "1/({m} nᵢ) Σᵣ h(fᵣ − yᵣ)"
    note: ClassVar[str] = (
        "h(t) = t² up to |t| = eᵢ, 2 eᵢ |t| − eᵢ² beyond, eᵢ = {epsilon:g} × scale of task i's residuals"
    )

    epsilon: float
    scale: float = 1.0

    def value(self, y: Floats, f: Floats) -> Floats:
        size = np.abs(y - f)
        inner = np.minimum(size, self.epsilon)
        return np.asarray(inner * (size - 0.5 * inner))

    def slope(self, y: Floats, f: Floats) -> Floats:
        return np.clip(f - y, -self.epsilon, self.epsilon)

    def curvature(self, y: Floats, f: Floats) -> Floats:
        return (np.abs(y - f) < self.epsilon).astype(np.float64)

    def majorant(self, y: Floats, f: Floats) -> Floats:
        return self.epsilon / np.maximum(np.abs(y - f), self.epsilon)

    def excess(self, y: Floats, f: Floats, s: Floats) -> Floats:
        t = np.where(y < f, s, -s)  # s is no slope of the same sign as r where t is negative
        size, t = np.abs(y - f), np.minimum(t, self.epsilon)
        inner = np.minimum(size, self.epsilon)  # what t is at the slope
        parts = 0.5 * (inner - t) ** 2 + (size - inner) * (inner - t)
        return np.where(np.abs(s) <= self.epsilon * (1.0 + 1e-12), parts, np.inf)

    def escapes(self, y: Floats) -> Floats:
        return np.zeros_like(y)

    def levels(self, y: Floats, g: Floats) -> tuple[float, float]:
        r = y - g
        return float(r.min()), float(r.max())

    def response(self, f: Floats) -> Floats:
        return f


def divergence(q: Floats, p: Floats, log_p: Floats) -> Floats:
    """q log(q / p) - q + p >= 0 for q, p >= 0"""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = (p - q) / q
        close = q * (t - np.log1p(t))
        apart = xlogy(q, q) - np.where(q > 0.0, q * log_p, 0.0) - q + p
    return np.maximum(np.where(np.abs(t) < 0.5, close, apart), 0.0)


LOGISTIC = "logistic"  # of classifiers, whose targets are classes
SOFTMAX = "softmax"  # of all classes of a task together
LOSSES: dict[str, Callable[[float], Loss]] = {  # by name, from the parameter epsilon
    "squared": lambda epsilon: Squared(),
    "poisson": lambda epsilon: Poisson(),
    "gamma": lambda epsilon: Gamma(),
    "tweedie": lambda epsilon: Tweedie(),
    "huber": lambda epsilon: Huber(epsilon),
    "cox": lambda epsilon: Cox(),
    LOGISTIC: lambda epsilon: Logistic(),
    SOFTMAX: lambda epsilon: Softmax(),
}


def loss_named(name: str, epsilon: float = 1.35) -> Loss:
    """The loss with a name, such as "gamma", "tweedie(1.7)" or "cox(breslow)"."""
    plain, inside = _parts_of(name)
    loss: Any = LOSSES[plain](epsilon) if plain in LOSSES else None
    if loss is None or not (inside is None or hasattr(loss, "called")):
        raise ValueError(f"loss must be one of {', '.join(map(repr, of_regressions()))}, got {name!r}.")
    return cast(Loss, loss if inside is None else loss.called(inside))


def is_loss(name: object) -> bool:
    """Whether a loss has this name; an error if what is in parentheses is not known to it."""
    plain, inside = _parts_of(name) if isinstance(name, str) else ("", None)
    known = plain in LOSSES and (inside is None or hasattr(LOSSES[plain](1.0), "called"))
    if known and inside is not None:
        loss_named(cast(str, name))
    return known


def _parts_of(name: str) -> tuple[str, str | None]:
    """The name of a loss, and what is in parentheses behind it."""
    found = re.fullmatch(r"(\w+) *\( *([\w.]+) *\)", name)
    return (name, None) if found is None else (found[1], found[2])


def of_regressions() -> list[str]:
    """The names of the losses that regressions take."""
    return [name for name in LOSSES if name not in (LOGISTIC, SOFTMAX)]


def robust_scale(y: Floats, weight: Floats | None, about: float | None = None) -> float:
    """How far targets spread: 1.4826 times their median absolute deviation from their median, or from a given value; where
    more than half of them are equal the standard deviation (from the mean, or from that value), and 1 where all are."""
    v = np.ones(len(y)) if weight is None else weight
    middle = weighted_median(y, v) if about is None else about
    mean = float(np.average(y, weights=v)) if about is None else about
    scale = MAD_TO_SD * weighted_median(np.abs(y - middle), v)
    return scale or float(np.sqrt(np.average((y - mean) ** 2, weights=v))) or 1.0


def weighted_median(values: Floats, weight: Floats) -> float:
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weight[order])
    half = 0.5 * total[-1]
    low, high = np.searchsorted(total, half * (1.0 - 1e-12)), np.searchsorted(total, half * (1.0 + 1e-12))
    return float(0.5 * (values[order[low]] + values[order[min(high, len(values) - 1)]]))


def pseudo_samples(loss: Loss, level: float) -> tuple[Floats, Floats]:
    """Targets, and their shares of the weight, of samples whose loss is least at a level."""
    response = float(loss.response(np.array([level]))[0])
    if isinstance(loss, Logistic):
        return np.array([1.0, 0.0]), np.array([response, 1.0 - response])
    return np.array([response]), np.ones(1)


def best_level(loss: Loss, y: Floats, g: Floats, v: Floats) -> float:
    """argmin over b of  sum_r v_r h(y_r, g_r + b): Newton's method, and bisection where it leaves the bracket."""
    low, high = loss.levels(y, g)
    b, reach = (0.5 * low + 0.5 * high, high - low) if np.isfinite(high - low) else (0.0, 1.0)
    best = (np.inf, b)
    for _ in range(STEPS):
        slopes = v * loss.slope(y, g + b)
        slope = float(slopes.sum())
        if not abs(slope) >= best[0]:  # NaN, too, goes on
            best = (abs(slope), b)
        low, high = (b, high) if slope < 0 else (low, b)
        narrow = np.isfinite(high - low) and high - low <= 4e-16 * max(abs(low), abs(high))
        if narrow or abs(slope) <= HIDDEN * float(np.abs(slopes).sum()):
            break
        bend = float(v @ loss.curvature(y, g + b))
        new = b - slope / bend if bend > 0 and np.isfinite(slope) else np.nan
        if not low < new < high or abs(new - b) > reach:
            new = 0.5 * (low + high) if np.isfinite(high - low) else b - np.copysign(reach, slope)
            reach *= 2.0
        if new == b:
            break
        b = new
    return best[1]
