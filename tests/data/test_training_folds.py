"""Training folds: the statistics of all rows less those held out are the statistics of the rows kept."""

import numpy as np
import pytest

from msmtfl._data.forms.dense import DenseRows, TrainingRows
from msmtfl._data.tasks import read_training

N, D = 60, 9
OUT = np.array([5, 11, 12, 20, 31, 40, 41, 53, 58])
KEEP = ~np.isin(np.arange(N), OUT)


def outlier(x, value):
    x[OUT[0]] = value
    return x


def indicator(rows, zero=0.0):
    x = np.full(N, zero)
    x[rows] = 1.0
    return x


def left_out(x, share):
    """A column that keeps this share of its spread."""
    return np.where(KEEP, share * x, x)


# what makes one column ugly; the others are Gaussian
COLUMNS = {
    "plain": lambda x: x,
    "offset": lambda x: x + 25.0,
    "large offset": lambda x: x + 1e6,
    "constant": lambda x: 0.0 * x + 3.7,
    "zero": lambda x: 0.0 * x,
    "becomes constant": lambda x: indicator(OUT[:2]),
    "becomes constant, not 0": lambda x: indicator(OUT[:2], zero=0.1),
    "becomes constant, far off": lambda x: indicator(OUT[:2], zero=1e6 + 0.1),
    "stays rare": lambda x: indicator([0, 1, 2, *OUT[:2]]),
    "outlier": lambda x: outlier(x, 1e7),
    "outlier beside an offset": lambda x: outlier(x + 3.0, 1e7),
    "far outlier": lambda x: outlier(x, 1e12),
    "a hundredth stays": lambda x: left_out(x, 0.11),
    "hardly anything stays": lambda x: left_out(x, 1e-6),
    "small": lambda x: 1e-8 * x,
    "large": lambda x: 1e8 * x,
}
COLUMNS["wild scales"] = lambda x: x  # and so the others, see make_data


def make_data(kind, weighted=False, seed=0):
    """X, y, sample_weight"""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D))
    X[:, 3] = COLUMNS[kind](X[:, 3])
    if kind == "wild scales":
        X *= 10.0 ** np.linspace(-8, 8, D)
    return X, rng.standard_normal(N) + 5.0, rng.uniform(0.1, 3.0, N) if weighted else None


def folded(X, y, weight=None, centre=True, keep=KEEP):
    """Designs of a fold, and designs of its rows alone."""
    data = read_training(X, y, sample_weight=weight)
    part = read_training(X[keep], y[keep], sample_weight=None if weight is None else weight[keep])
    return data.training(data.designs(centre), keep), part.designs(centre)


def close(value, expected, unit):
    np.testing.assert_allclose(value / unit, expected / unit, rtol=0, atol=1e-11)


def assert_same(fold, alone, kept):
    """Everything a solver may ask is the same, relative to column lengths; rows left out (not `kept`) are zero."""
    length = np.where(alone.squares > 0, np.sqrt(alone.squares), 1.0)
    size = np.sqrt(alone.yy) or 1.0
    some = np.arange(0, fold.d, 2)
    assert fold.n == pytest.approx(alone.n, rel=1e-14)
    assert fold.order == alone.order
    np.testing.assert_array_equal(fold.squares == 0, alone.squares == 0)
    close(fold.squares, alone.squares, length**2)
    close(fold.gram(), alone.gram(), np.outer(length, length))
    close(fold.gram_rows(some), alone.gram_rows(some), np.outer(length[some], length))
    if fold.gram_rows_less is not None:
        from_all = np.empty((len(some), fold.d))
        fold.gram_rows_less(some, fold.rows.total.gram_rows(some), from_all)
        close(from_all, alone.gram_rows(some), np.outer(length[some], length))
    close(fold.yy, alone.yy, size**2)
    close(fold.c, alone.c, size * length)
    close(fold.rows.mean, alone.rows.mean, np.abs(alone.rows.mean) + length)

    rng = np.random.default_rng(1)
    w = np.where((alone.squares > 0) & (rng.random(fold.d) < 0.5), size / length * rng.standard_normal(fold.d), 0.0)
    if len(fold.target) > len(alone.target):
        for values in (fold.target, fold.residual(w), fold.columns(some)):
            assert not values[~kept].any()
    else:
        kept = slice(None)
    close(fold.target[kept], alone.target, size)
    close(fold.residual(w)[kept], alone.residual(w), size)
    close(fold.columns(some)[kept], alone.columns(some), length[some])
    close(fold.gradient(w), alone.gradient(w), size * length)
    close(fold.loss(w), alone.loss(w), alone.loss(w) or 1.0)
    unit = abs(alone.y_mean) + np.abs(w) @ np.abs(alone.rows.mean) or 1.0
    close(fold.intercepts(w[None]), alone.intercepts(w[None]), unit)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("centre", [True, False], ids=["centred", "as it is"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_equals_the_rows_kept(kind, centre, weighted):
    (fold,), (alone,) = folded(*make_data(kind, weighted), centre)
    assert_same(fold, alone, KEEP)


@pytest.mark.parametrize("kind", ["constant", "becomes constant", "becomes constant, not 0"])
def test_what_is_constant_in_the_fold_is_exactly_zero(kind):
    X, y, _ = make_data(kind)
    (fold,), _ = folded(X, y)
    assert isinstance(fold.rows, TrainingRows)
    assert fold.squares[3] == fold.c[3] == 0.0
    assert not fold.gram()[3].any()
    assert not fold.gram()[:, 3].any()
    assert not fold.gram_rows(np.array([0, 3]))[:, 3].any()
    from_all = np.empty((2, D))
    fold.gram_rows_less(np.array([0, 3]), fold.rows.total.gram_rows(np.array([0, 3])), from_all)
    assert not from_all[:, 3].any()
    assert not from_all[1].any()
    assert not fold.columns(np.array([3])).any()


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("centre", [True, False], ids=["centred", "as it is"])
@pytest.mark.parametrize("value", [3.0, 30.0, 1e4, 1e9])
def test_a_target_that_is_far_off_in_the_rows_left_out(value, centre, weighted):
    X, y, weight = make_data("plain", weighted)
    y[OUT[:2]] = value
    (fold,), (alone,) = folded(X, y, weight, centre)
    assert isinstance(fold.rows, TrainingRows)
    assert (fold.rows.first is not None) == (value < 1e3)
    assert_same(fold, alone, KEEP)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("offset", [1e3, 1e6, 1e10])
def test_a_target_that_is_far_off_zero(offset, order, weighted):
    X, y, weight = make_data("plain", weighted)
    data = read_training(np.asarray(X, order=order), y + offset, sample_weight=weight)
    (fold,) = data.training(data.designs(True), KEEP)
    assert fold.rows.first is not None
    direct = fold.correlate(fold.target)  # the mean's own rounding, the same in both, is no matter here
    np.testing.assert_allclose(fold.c, direct, rtol=0, atol=1e-13 * np.sqrt(fold.yy * fold.squares.max()))


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_a_target_that_is_constant_in_the_fold(weighted):
    X, y, weight = make_data("plain", weighted)
    y[KEEP] = 0.1
    (fold,), (alone,) = folded(X, y, weight)
    assert fold.yy == 0.0
    assert not fold.c.any()
    assert_same(fold, alone, KEEP)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_tasks_on_the_same_rows_share_what_is_left_of_them(weighted):
    X, y, weight = make_data("becomes constant", weighted)
    Y = np.column_stack([y, y**2, y**3, X @ np.ones(D), y])
    Y[[0, 7, *OUT[:3]], 1:3] = np.nan
    Y[::2, 4] = np.nan
    fold, alone = folded(X, Y, weight)
    measured = ~np.isnan(Y)
    for i in range(5):
        assert_same(fold[i], alone[i], KEEP[measured[:, i]])
    assert fold[0].rows is fold[3].rows
    assert fold[1].rows is fold[2].rows
    assert len({id(design.rows) for design in fold}) == 3


def test_tasks_in_a_long_table_each_lose_their_own_rows():
    X, y, _ = make_data("outlier")
    task = np.arange(N) % 2
    data = read_training(X, y, task=task)
    fold = data.training(data.designs(True), KEEP)
    for i, design in enumerate(fold):
        mine = task == i
        (alone,) = read_training(X[mine & KEEP], y[mine & KEEP]).designs(True)
        assert_same(design, alone, KEEP[mine])


@pytest.mark.parametrize("kind", ["plain", "offset", "large offset", "becomes constant", "stays rare", "wild scales"])
def test_gram_matrices_gathered_from_the_folds(kind):
    X, y, _ = make_data(kind)
    Y = np.column_stack([y, np.where(np.arange(N) % 7 == 0, np.nan, y)])
    data = read_training(X, Y)
    designs = data.designs(True)
    keeps = [
        KEEP,
        ~(np.isin(np.arange(N), np.arange(0, N, 2)) & KEEP),
        ~(np.isin(np.arange(N), np.arange(1, N, 2)) & KEEP),
    ]
    data.gather(designs, keeps)
    for design, direct in zip(designs, data.designs(True), strict=True):
        assert_same(design, direct, slice(None))
    for keep in keeps:
        for fold, alone, task in zip(
            data.training(designs, keep), read_training(X[keep], Y[keep]).designs(True), data.tasks, strict=True
        ):
            assert_same(fold, alone, keep[task.rows])


# ------------------------------------------------------------------ by which way


@pytest.mark.parametrize(
    ("kind", "count", "way"),
    [
        ("plain", 9, TrainingRows),
        ("plain", 30, TrainingRows),
        ("plain", 31, DenseRows),
        ("large offset", 9, TrainingRows),
        ("becomes constant", 9, TrainingRows),
    ],
)
def test_rows_are_subtracted_where_fewer_leave_than_stay(kind, count, way):
    X, y, _ = make_data(kind)
    keep = np.ones(N, dtype=bool)
    keep[np.r_[OUT, np.setdiff1d(np.arange(N), OUT)][:count]] = False
    (fold,), (alone,) = folded(X, y, keep=keep)
    assert type(fold.rows) is way
    assert_same(fold, alone, keep)


def test_rows_are_taken_as_they_are_where_subtraction_is_not_safe():
    X, y, _ = make_data("plain")
    X[:, 3] = 1.0 + left_out(X[:, 3], 1e-6)  # far off zero compared with what is left of its spread
    (fold,), (alone,) = folded(X, y)
    assert type(fold.rows) is DenseRows
    X, y, _ = make_data("plain")
    X[:, :3] = left_out(X[:, :3].T, 1e-3).T  # too many columns to look at one by one
    (fold,), (alone,) = folded(X, y)
    assert type(fold.rows) is DenseRows
    assert_same(fold, alone, KEEP)


def test_x_is_not_copied():
    X, y, _ = make_data("becomes constant")
    (fold,), _ = folded(X, y)
    assert np.shares_memory(fold.rows.X, X)
    data = read_training(X, y)
    (whole,) = data.designs(True)
    (same,) = data.training([whole], np.ones(N, dtype=bool))
    assert same.rows is whole.rows
