"""Shapes of concave penalties: what a norm or an entry t >= 0 costs, per unit of lam.

A shape phi rises from phi(0) = 0 with slope 1 and bends down; theta says where. Its slope is all that Algorithm 1 takes
from it: the weights of the next stage are lam times the slope at the current W. With theta = inf every shape is t: the
lasso.

A shape of your own is any object with the two methods of `Shape`:

>>> import numpy as np
>>> class Exponential:
...     def value(self, t, theta):
...         return theta * (1.0 - np.exp(-t / theta))
...     def slope(self, t, theta):
...         return np.exp(-t / theta)
>>> from msmtfl import MSMTFL
>>> rng = np.random.default_rng(0)
>>> X, task = rng.standard_normal((60, 5)), np.repeat([0, 1], 30)
>>> y = X[:, 0] + 0.1 * rng.standard_normal(60)
>>> bool(MSMTFL(0.1, 1.0, penalty=Exponential()).fit(X, y, task=task).converged_)
True
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np

from .._data.designs import Floats


class Shape(Protocol):
    """phi(t; theta) for t >= 0 of any shape, 0 < theta < inf."""

    def value(self, t: Floats, theta: float) -> Floats:
        """phi(t)"""

    def slope(self, t: Floats, theta: float) -> Floats:
        """phi'(t) >= 0, never rising, 1 at t = 0. Where phi has a corner, the slope to its right."""


@dataclass(frozen=True)
class Capped:
    """min(t, theta): the paper's. Un-penalised from theta on."""

    def value(self, t: Floats, theta: float) -> Floats:
        return np.minimum(t, theta)

    def slope(self, t: Floats, theta: float) -> Floats:
        return np.where(t >= theta, 0.0, 1.0)  # with equality, as in Algorithm 1


@dataclass(frozen=True)
class MCP:
    """t - t^2 / (2 theta) up to theta, then constant (Zhang 2010, whose gamma is theta / lam)."""

    def value(self, t: Floats, theta: float) -> Floats:
        s = np.minimum(t, theta)
        return s - s * s / (2.0 * theta)

    def slope(self, t: Floats, theta: float) -> Floats:
        return np.maximum(1.0 - t / theta, 0.0)


@dataclass(frozen=True)
class SCAD:
    """Slope 1 up to theta / a, falling to 0 at theta (Fan and Li 2001, with their a and lam = theta / a)."""

    a: float = 3.7

    def value(self, t: Floats, theta: float) -> Floats:
        knee = theta / self.a
        s = np.clip(t, knee, theta) - knee
        return np.minimum(t, knee) + s - s * s / (2.0 * (theta - knee))

    def slope(self, t: Floats, theta: float) -> Floats:
        knee = theta / self.a
        return np.clip((theta - t) / (theta - knee), 0.0, 1.0)


@dataclass(frozen=True)
class LogSum:
    """theta log(1 + t / theta) (Candes, Wakin and Boyd 2008). Never un-penalised."""

    def value(self, t: Floats, theta: float) -> Floats:
        return theta * np.log1p(t / theta)

    def slope(self, t: Floats, theta: float) -> Floats:
        return 1.0 / (1.0 + t / theta)


@dataclass(frozen=True)
class Power:
    """theta / q ((1 + t / theta)^q - 1), 0 < q < 1: l_q, moved off 0, where its slope is infinite. Never un-penalised."""

    q: float = 0.5

    def value(self, t: Floats, theta: float) -> Floats:
        return theta / self.q * np.expm1(self.q * np.log1p(t / theta))

    def slope(self, t: Floats, theta: float) -> Floats:
        return (1.0 + t / theta) ** (self.q - 1.0)


SHAPES: dict[str, Shape] = {"capped": Capped(), "mcp": MCP(), "scad": SCAD(), "log": LogSum(), "lq": Power()}
CAPPED = SHAPES["capped"]


@dataclass(frozen=True, repr=False)
class Lost:
    """In the place of a shape of the user's own that a model file could not hold: nothing that needs it will work."""

    text: str

    def value(self, t: Floats, theta: float) -> Floats:
        raise ValueError(
            f"the penalty of this model, {self.text}, is not in the file that it comes from: set it again first, "
            "model.set_params(penalty=...)."
        )

    slope = value

    def __repr__(self) -> str:
        return self.text


def read_shape(penalty: str | Shape) -> Shape:
    """The shape asked for: a name, or an object with `value` and `slope`, which is tried out."""
    if isinstance(penalty, str):
        if penalty not in SHAPES:
            raise ValueError(f"penalty must be one of {', '.join(map(repr, SHAPES))} or a shape, got {penalty!r}.")
        return SHAPES[penalty]
    if isinstance(penalty, type) or not (
        callable(getattr(penalty, "value", None)) and callable(getattr(penalty, "slope", None))
    ):
        raise TypeError(
            f"penalty must be one of {', '.join(map(repr, SHAPES))}, or an object with value(t, theta) and slope(t, theta); "
            f"got {penalty!r}."
        )
    if type(penalty) not in _BUILT_IN:
        _try_out(penalty)
    elif isinstance(penalty, SCAD) and not penalty.a > 1:
        raise ValueError(f"a of SCAD must be > 1, got {penalty.a!r}.")
    elif isinstance(penalty, Power) and not 0 < penalty.q < 1:
        raise ValueError(f"q of Power must be between 0 and 1, got {penalty.q!r}.")
    return penalty


_BUILT_IN = {type(shape): name for name, shape in SHAPES.items()}


def describe_shape(shape: Any) -> dict[str, Any] | None:
    """Name and parameters of a built-in shape, for a file; None of any other object."""
    name = _BUILT_IN.get(type(shape))
    return None if name is None else {"name": name, **asdict(shape)}


def made_shape(name: str, **parameters: float) -> Shape:
    """The shape that `describe_shape` has described."""
    shape = replace(SHAPES[name], **parameters)  # type: ignore[type-var]
    return read_shape(shape)


def _try_out(shape: Shape) -> None:
    """Refuse what is not a shape: Algorithm 1 would not go downhill."""
    t = np.append(0.0, np.geomspace(1e-3, 1e3, 61))
    value, slope = (np.asarray(of(t, 1.0), dtype=np.float64) for of in (shape.value, shape.slope))
    name = type(shape).__name__
    if value.shape != t.shape or slope.shape != t.shape:
        raise ValueError(f"value and slope of {name} must give one number for each t.")
    if value[0] != 0.0 or slope[0] != 1.0:
        raise ValueError(f"{name} must have value 0 and slope 1 at t = 0; it has {value[0]:.3g} and {slope[0]:.3g}.")
    if not ((slope >= 0).all() and (np.diff(slope) <= 0).all()):
        raise ValueError(f"the slope of {name} must be >= 0 and never rise: the shape is to be concave.")
    above = value[:, None] + slope[:, None] * (t - t[:, None])  # tangents lie above a concave function
    if (above < value - 1e-9 * (1.0 + value)).any():
        raise ValueError(f"slope is not the derivative of value in {name}: a tangent does not majorise it.")
