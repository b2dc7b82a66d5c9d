"""What a solver may ask of one task's data, and the dense implementation of it.

For squared loss a task is its statistics: everything above this file (solver, stages, certificates)
sees a task only through `Design`, so that sparse, streamed or remote data are one class each.

All quantities are *sums* over the task's rows, centred when the model has an intercept and weighted by
the sample weights: with u_r the square root of row r's weight, X stands for u_r (x_r - mean) and y for
u_r (y_r - mean). Centring is implicit (a rank-one term), so X is not copied, except where a column's
mean exceeds its spread so much that the subtraction would lose digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

UNIT = 2.0**-53  # the unit roundoff

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

# A column whose variance is below this share of its squared mean is centred explicitly: the implicit
# form would lose more than 3 of 16 digits.
OFFSET_SHARE = 1e-3
# A spread below this share of the mean is rounding of a constant column.
CONSTANT_SHARE = 1e-13
SAME_MEAN = 1e-12  # relative difference of means that is rounding


NONE = np.empty(0, dtype=np.intp)  # no features; nobody writes to it


class StoredCoefs(Protocol):
    """One task's coefficients in many solutions, (count, d), of which the values that are not 0 are stored."""

    @property
    def shape(self) -> tuple[int, int]:
        """count and d"""

    def __matmul__(self, v: Floats, /) -> Floats:
        """(count,): products with a vector (d,)"""

    def dense(self, places: Ints, features: Ints | None = None) -> Floats:
        """Some of the rows, and of the columns, the rest of which must be 0."""


Coefs: TypeAlias = Floats | StoredCoefs


class FeatureRows(Protocol):
    """The feature side of a task whose rows are at hand: X, less the means `mean` (d,) if `centre`, times the roots `u`
    (rows,) of the sample weights. `DenseRows` is one, and what stands for it where X is sparse or float32."""

    d: int
    n: float
    order: int
    centre: bool
    u: Floats
    mean: Floats
    squares: Floats
    whole: Floats | None  # the Gram matrix, where it has been formed

    def columns(self, features: Ints) -> Floats:
        """X restricted to some columns, shape (rows, len(features))"""

    def apply(self, w: Floats) -> Floats:
        """Xw for a sparse w"""

    def apply_all(self, W: Floats) -> Floats:
        """The same for the rows of W, one row each"""

    def correlate(self, v: Floats) -> Floats:
        """X'v for vectors v over rows, (rows,) or (rows, count)"""

    def gram(self, room: Floats | None = None, n_jobs: int | None = None) -> Floats:
        """X'X, shape (d, d); see `Design`."""

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        """Rows of X'X, shape (len(features), d), written to `out` if given."""

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        """X'X between some features and others, shape (len(some), len(others))."""


class Weighed(Protocol):
    """What has a sum of sample weights."""

    n: float


class Smooth(Protocol):
    """One task's loss as a function of its coefficients, whatever loss it is. Where it is not squared, y stands for minus
    the slopes at w = 0 in `yy` and `c`, and |y - Xw|^2 for twice the loss; see `LossTask`."""

    d: int
    n: float  # sum of the sample weights (the number of rows without weights)
    order: int  # no more than this many columns can be linearly independent
    curvature: float  # the mean one of the loss, where coefficients are 0: 1 if it is squared

    @property
    def yy(self) -> float:
        """y'y"""

    @property
    def c(self) -> Floats:
        """X'y, shape (d,)"""

    @property
    def squares(self) -> Floats:
        """The diagonal of X'X, shape (d,); exactly 0 for a constant column."""

    def loss(self, w: Floats) -> float:
        """|y - Xw|^2"""

    def gradient(self, w: Floats) -> Floats:
        """X'(y - Xw), shape (d,)"""

    @property
    def target(self) -> Floats | None:
        """y, shape (rows,); None if only statistics are at hand, or the loss is not squared."""

    def intercepts(self, W: Coefs) -> Floats:
        """The intercepts (count,) that belong to the rows of W (count, d), dense or sparse, in the data's own units; 0
        for data that are not centred."""


class Design(Smooth, Protocol):
    """One task's data as seen by a solver: d features, a target, and sums over rows."""

    @property
    def same_x(self) -> object:
        """One and the same object for designs that have the same X: what is known of their Gram matrix serves all."""

    def gram(self, room: Floats | None = None, n_jobs: int | None = None) -> Floats:
        """X'X, shape (d, d), C-ordered; if it has to be formed, in `room` if given, by threads if that is possible."""

    def gram_rows(self, features: Ints, out: Floats | None = None, n_jobs: int | None = None) -> Floats:
        """Rows of X'X, shape (len(features), d), written to `out` if given."""

    def gram_block(self, some: Ints, others: Ints) -> Floats:
        """X'X between some features and others, shape (len(some), len(others))."""

    def residual(self, w: Floats) -> Floats | None:
        """y - Xw, shape (rows,); None if only statistics are at hand."""

    def residuals(self, W: Floats) -> Floats | None:
        """The same for the rows of W, shape (count, rows)."""

    def correlate(self, v: Floats) -> Floats:
        """X'v for vectors v over rows, (rows,) or (rows, count); only where rows are at hand."""

    def columns(self, features: Ints) -> Floats | None:
        """X restricted to some columns, shape (rows, len(features)); None if only statistics are at hand."""


class TargetSums(Protocol):
    """What a task's y is like: rows, and the weighted mean, variance and mean square (0 variance: it is constant)."""

    @property
    def rows(self) -> int: ...

    @property
    def mean(self) -> float: ...

    @property
    def variance(self) -> float: ...

    @property
    def square(self) -> float: ...


class AnyData(Protocol):
    """The data of all tasks, in whatever form and wherever they are: what a `Problem` asks of them. Of d features and m
    tasks `labels` (m,) and `features` (d,) are the names, `form` is "long", "wide" or "single", `task_position` is the
    place of the task column in a table, or those of the columns of its levels; `targets` tell of every task's y."""

    @property
    def labels(self) -> np.ndarray: ...

    @property
    def features(self) -> np.ndarray: ...

    @property
    def form(self) -> str: ...

    @property
    def task_position(self) -> int | tuple[int, ...] | None: ...

    @property
    def m(self) -> int: ...

    @property
    def d(self) -> int: ...

    @property
    def targets(self) -> Sequence[TargetSums]:
        """Of every task: rows, mean, variance and mean square of its target."""

    # The designs are those that this form of data makes, and no other; `keep` is the `train` of one of its splits.

    def gather(self, designs: Any, keeps: Any, n_jobs: int | None = None) -> None:
        """Prepare for `training` with each of `keeps`."""

    def release(self, designs: Any) -> None:
        """Forget what can be formed again."""


@runtime_checkable
class Data(AnyData, Protocol):
    """Data that were read before, with designs of their tasks; `named` says whether features have names of their own. Data
    without rows at hand are `Folded`, too."""

    @property
    def named(self) -> bool: ...

    def designs(self, centre: bool, n_jobs: int | None = None) -> Sequence[Design]:
        """One per task, less the means if `centre`."""

    def training(self, designs: Any, keep: Any) -> Sequence[Design]:
        """The designs of the training part `keep` of a split."""


@runtime_checkable
class Folded(Protocol):
    """Data without rows at hand: folds were made with them."""

    def splits(self) -> list[Any]:
        """The folds, each with what it trains on, `train`, and a way to `measure` solutions."""


def support(values: Floats) -> Ints:
    """The flat positions of what is not 0. (Of booleans numpy finds them ten times faster than of numbers.)"""
    out: Ints = (values.ravel() != 0.0).nonzero()[0]
    return out


def stage_scale(designs: Sequence[Smooth]) -> Floats:
    """(m, 1): m n_i / 2, from weights on the scale of (1) to a task's own sums. Of all tasks, not of some of them."""
    return 0.5 * len(designs) * np.array([[design.n] for design in designs])


def with_rows(design: Design) -> Design:
    """The same task with rows, if there are any or some can be made of its statistics; else as it is."""
    make = getattr(design, "as_rows", None) if design.target is None else None
    return design if make is None else make()


def rounding(design: Weighed) -> float:
    """What a product of two vectors may lose by rounding, per product of their lengths. (Errors of partial sums do not all
    add up.)"""
    return UNIT * (4.0 + 0.25 * float(np.sqrt(max(design.n, 1.0))))
