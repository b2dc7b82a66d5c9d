"""What statistics give away: attacks that get a row out of a file of sums, and whether they are foretold."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from msmtfl import Moments
from msmtfl._data.statistics.levels import MOST, Levels

N, D = 200, 6
VICTIM = 37


def rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) * [1, 10, 0.1, 1, 5, 1] + [0, 50, 0, 3, 0, 0]
    return X, X @ rng.standard_normal(D) + rng.standard_normal(n)


def moments(X, y, batches=4, **options):
    out = Moments()
    for some in np.array_split(np.arange(len(y)), batches):
        out.update(X[some], y[some], task=np.repeat("a", len(some)), **options)
    return out


def sums(found):
    """Of products of all columns, the target and ones among them, as an attacker computes them from a file."""
    task = found["a"]
    mean = np.append(task.mean, task.y_mean)
    inner = np.block([[task.xx, task.xy[:, None]], [task.xy, np.array([[task.yy]])]]) + task.n * np.outer(mean, mean)
    return np.block([[inner, task.n * mean[:, None]], [task.n * mean, np.array([[task.n]])]])


def shared(found, tmp_path):
    """As it comes out of a file."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.save(tmp_path / "sums.npz")
    return Moments.load(tmp_path / "sums.npz")


# ------------------------------------------------------------------ attacks


def attack_value(S, j):
    """The row in which column j has not the value that it has in all others: mean and spread say which two these are."""
    n, mean = S[-1, -1], S[j, -1] / S[-1, -1]
    variance = S[j, j] / n - mean**2
    for sign in (1.0, -1.0):
        apart = sign * np.sqrt(variance / (1 / n * (1 - 1 / n)))
        common = mean - apart / n
        yield (S[j] - common * S[-1]) / apart


def attack_pair(S, a, b):
    """The row in which columns a and b differ."""
    return (S[a] - S[b]) / (S[a, -1] - S[b, -1])


def attack_difference(S, T):
    """The one row that is in the first but not in the second."""
    return (S - T)[-1]


def close(found, X, y):
    return np.allclose(found[:-1], [*X[VICTIM], y[VICTIM]], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "values", [(0.0, 1.0), (1.0, 2.0), (-1.0, 1.0), (0.0, 100.0), (7.0, 3.0), (-0.07, 14.1), (1e3, 1e3 + 0.5)]
)
def test_a_rare_value_is_told_however_it_is_coded(values, tmp_path):
    X, y = rows()
    X[:, 2] = values[0]
    X[VICTIM, 2] = values[1]
    found = moments(X, y)
    assert any(close(row, X, y) for row in attack_value(sums(shared(found, tmp_path)), 2))
    (words,) = found.disclosure()
    assert "task 'a': column(s) 'x2' have one value in all but 5 or fewer rows" in words
    with pytest.warns(UserWarning, match="'x2' have one value"):
        found.save(tmp_path / "again.npz")
    if all(value == round(value) for value in values):  # found without the rows, too
        assert shared(found, tmp_path).disclosure() == [words]


def test_a_rare_class_of_the_target_is_told():
    X, _ = rows()
    y = np.zeros(N)
    y[[VICTIM, 90, 120]] = 1.0
    (words,) = moments(X, y).disclosure()
    assert "'the target'" in words


@pytest.mark.parametrize("few", [1, 5, 6])
def test_rare_amounts_are_told(few):
    """A dose that few had, each another one."""
    X, y = rows()
    X[:, 4] = 0.0
    X[:few, 4] = 1.0 + np.arange(few)
    words = moments(X, y, batches=11).disclosure()
    assert bool(words) == (few <= 5)


@pytest.mark.parametrize("size", [1.0, 0.01, 1e4])
def test_two_columns_that_differ_in_one_row_are_told(size, tmp_path):
    X, y = rows()
    X[:, 5] = X[:, 1]
    X[VICTIM, 5] += size
    found = moments(X, y)
    assert close(attack_pair(sums(shared(found, tmp_path)), 5, 1), X, y)
    (words,) = found.disclosure()
    assert "columns 'x1' and 'x5' differ in a few rows only" in words
    assert shared(found, tmp_path).disclosure() == [words]


def test_whole_numbers_and_codes_that_differ_in_few_rows_are_told(tmp_path):
    rng = np.random.default_rng(1)
    X, y = rows()
    X[:, 0] = rng.integers(20, 80, N)  # an age, and the age a year later but for one
    X[:, 1] = X[:, 0]
    X[VICTIM, 1] += 1
    X[:, 2] = rng.integers(0, 2, N)
    X[:, 3] = X[:, 2]
    X[[3, VICTIM, 50, 80], 3] = 1 - X[[3, VICTIM, 50, 80], 2]
    found = moments(X, y)
    assert close(attack_pair(sums(shared(found, tmp_path)), 1, 0), X, y)
    (words,) = found.disclosure()
    assert "'x0' and 'x1'; 'x2' and 'x3' differ" in words


def test_the_files_of_two_days_are_told(tmp_path):
    X, y = rows()
    order = np.append(np.delete(np.arange(N), VICTIM), VICTIM)
    monday, tuesday = moments(X[order[:-1]], y[order[:-1]]), moments(X[order], y[order])
    assert monday.disclosure() == tuesday.disclosure() == []
    row = attack_difference(sums(tuesday), sums(monday))
    assert close(row, X, y)
    (words,) = tuesday.disclosure(monday)
    assert "task 'a' has 1 row(s) more than in the statistics that were shared before" in words
    (words,) = monday.disclosure([tuesday])
    assert "1 row(s) fewer" in words
    monday.save(tmp_path / "a.npz")
    with pytest.warns(UserWarning, match=r"1 row\(s\) more than"):
        tuesday.save(tmp_path / "a.npz")
    tuesday.save(tmp_path / "a.npz")  # the same again
    with pytest.warns(UserWarning, match=r"1 row\(s\) more than"):
        tuesday.save(tmp_path / "b.npz", before=monday)


def test_a_row_that_was_mended_is_told():
    X, y = rows()
    other = y.copy()
    other[VICTIM] += 1.0
    (words,) = moments(X, other).disclosure(moments(X, y))
    assert "as many rows as, but other ones" in words


def test_a_rare_value_among_the_rows_that_came_is_told():
    X, y = rows()
    X[:, 3] = 0.0
    X[:50, 3] = 1.0
    X[VICTIM + 100, 3] = 1.0  # one of the hundred that come later
    first, both = moments(X[:100], y[:100]), moments(X, y)
    assert first.disclosure() == both.disclosure() == []
    (words,) = both.disclosure(first)
    assert "without the statistics that were shared before: column(s) 'x3'" in words


def test_files_of_other_features_are_no_earlier_ones(tmp_path):
    X, y = rows()
    Moments().update(X[:, :3], y, task=np.repeat("a", N)).save(tmp_path / "a.npz")
    moments(X, y).save(tmp_path / "a.npz")
    (tmp_path / "text.npz").write_text("something else")
    moments(X, y).save(tmp_path / "text.npz")


# ------------------------------------------------------------------ no false alarms


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.slow
@pytest.mark.sampled(4)
def test_nothing_is_told_of_ordinary_data(seed, tmp_path):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 400))
    X, y = rows(seed, n)
    columns = [
        X,
        (X - X.mean(axis=0)) / X.std(axis=0),
        rng.integers(0, 2, (n, 4)),
        rng.integers(0, 10, (n, 4)),
        rng.poisson(2.0, (n, 3)),
        rng.integers(18, 90, (n, 2)),
        np.ones((n, 1)),
        np.round(X, 1),
        1e6 + X[:, :2],
    ]
    for part in (*columns, np.hstack(columns)):
        found = moments(np.asarray(part, dtype=float), np.round(y) if seed % 2 else y, batches=int(rng.integers(1, 9)))
        if n > part.shape[1] + 1:
            assert found.disclosure() == []
            assert shared(found, tmp_path).disclosure() == []


# ------------------------------------------------------------------ counting


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("seed", range(8))
def test_levels_are_counted_whatever_the_batches(seed, kind):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 80)), int(rng.integers(1, 300))
    X = np.where(rng.random((n, d)) < 0.2, rng.integers(0, 5, (n, d)), 0.0)
    X[:, rng.random(d) < 0.3] = rng.standard_normal((n, 1)).astype(np.float32)
    y = rng.integers(0, 2, n).astype(float)
    cuts = np.sort(rng.integers(0, n + 1, int(rng.integers(0, 6))))
    parts = [part for part in np.split(np.arange(n), cuts) if len(part)]
    found = Levels.of(kind(X[parts[0]]), y[parts[0]])
    for part in parts[1:]:
        found = found.merged(Levels.of(kind(X[part]), y[part]))
    every = np.column_stack([X, y])
    expected = {j: np.unique(every[:, j], return_counts=True) for j in range(d + 1)}
    few = [j for j, (values, _) in expected.items() if len(values) <= MOST]
    assert found.columns.tolist() == few
    for j, values, counts in zip(found.columns, found.values, found.counts, strict=True):
        known = ~np.isnan(values)
        np.testing.assert_array_equal(values[known], expected[j][0])
        np.testing.assert_array_equal(counts[known], expected[j][1])
        assert not counts[~known].any()
    if len(parts) > 1:
        less = found.merged(Levels.of(kind(X[parts[-1]]), y[parts[-1]]), -1)
        rest = Levels.of(X[np.concatenate(parts[:-1])], y[np.concatenate(parts[:-1])])
        kept = np.isin(rest.columns, less.columns)
        np.testing.assert_array_equal(less.values, rest.values[kept])
        np.testing.assert_array_equal(less.counts, rest.counts[kept])


def test_levels_follow_columns_that_come_in_another_order():
    X, y = rows()
    X[:, 2] = 0.5
    X[VICTIM, 2] = 1.25
    table = pd.DataFrame(X, columns=list("qwerty"))
    one = Moments().update(table[:100], y[:100], task=["a"] * 100)
    one += Moments().update(table[100:][list("ytrewq")], y[100:], task=["a"] * 100)
    (words,) = one.disclosure()
    assert "column(s) 'e' have one value" in words
