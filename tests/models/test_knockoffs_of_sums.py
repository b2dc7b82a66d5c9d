"""Knockoffs from sums alone: against knockoffs of samples, against another package, and by simulation."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from msmtfl import MSMTFL, LassoMTL, Moments, MSMTFLClassifier
from msmtfl.inference import shared_features
from msmtfl.inference.gaussian_knockoffs import Law, distances
from msmtfl.inference.knockoffs_of_sums import draw_folds, draw_sums, draw_wishart

STUDY = Path(__file__).parents[2] / "benchmarks" / "studies" / "knockoffs.py"


def study():
    spec = importlib.util.spec_from_file_location("knockoffs_study", STUDY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sums_of(M):
    mean = M.mean(axis=0)
    return (M - mean).T @ (M - mean), mean


def toeplitz(d, rho):
    return rho ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))


def some(seed=0, n=600, d=30):
    """12 features matter in all three tasks."""
    rng = np.random.default_rng(seed)
    X, task = 3 * rng.standard_normal((n, d)) + 5, np.tile(["a", "b", "c"], n // 3)
    return X, X[:, :12].sum(axis=1) + rng.standard_normal(n), task


@pytest.mark.parametrize("n", [40, 5], ids=["many samples", "fewer samples than features"])
def test_drawn_sums_have_the_law_of_sums_with_knockoffs_of_the_samples(n):
    d, draws = 6, 4000
    rng = np.random.default_rng(0)
    cov = toeplitz(d, 0.6)
    X = rng.standard_normal((n, d)) @ np.linalg.cholesky(cov).T
    y = X[:, 0] - X[:, 2] + rng.standard_normal(n)
    sums, mean = sums_of(np.column_stack([X, y]))
    law = Law.of(cov)
    drawn, of_samples = [], []
    for _ in range(draws):
        drawn.append(draw_sums(sums, mean, n, law, rng))
        of_samples.append(sums_of(np.column_stack([X, law.draw(X, rng), y])))
    known = np.r_[:d, 2 * d]
    np.testing.assert_allclose(drawn[0][0][np.ix_(known, known)], sums, atol=1e-9)  # what is known stays
    np.testing.assert_allclose(drawn[0][1][known], mean, atol=1e-12)
    assert np.linalg.eigvalsh(drawn[0][0]).min() > -1e-8  # sums that samples can have
    assert np.linalg.matrix_rank(drawn[0][0], tol=1e-7) == min(n - 1, 2 * d + 1)
    for k in (0, 1):  # sums, means
        a, b = np.array([one[k] for one in drawn]), np.array([one[k] for one in of_samples])
        error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / draws) + 1e-9
        assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) / error).max() < 4.5
        np.testing.assert_allclose(a.std(axis=0), b.std(axis=0), rtol=0.12, atol=1e-9)


@pytest.mark.parametrize("df", [0, 3, 20])
def test_sums_of_squares_of_normal_samples(df):
    rng, d = np.random.default_rng(0), 4
    draws = np.array([draw_wishart(df, d, rng) for _ in range(5000)])
    np.testing.assert_allclose(draws.mean(axis=0), df * np.eye(d), atol=0.5)
    np.testing.assert_allclose(draws.var(axis=0), df * (1 + np.eye(d)), rtol=0.15)
    assert np.linalg.matrix_rank(draws[0]) == min(df, d)


@pytest.mark.parametrize("n", [47, 9])
def test_drawn_folds_add_up(n):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 12)) + 3
    whole = Moments().update(X, X[:, 0] + rng.standard_normal(n), task=["a"] * n)["a"]
    folds = draw_folds(whole, 5, rng)
    total = folds[0]
    for fold in folds[1:]:
        total = total.merged(fold)
    assert total.rows == n
    assert len(folds) == 5
    for what in ("xx", "xy", "yy", "mean", "y_mean"):
        np.testing.assert_allclose(getattr(total, what), getattr(whole, what), rtol=1e-8, atol=1e-8)
    assert np.abs(folds[0].mean - whole.mean).max() > 0.05


@pytest.mark.parametrize("folds", [None, 5], ids=["one", "folds"])
def test_shared_features_from_statistics(folds):
    X, y, task = some()
    parts = [slice(None)] if folds is None else [slice(f, None, folds) for f in range(folds)]
    moments = [Moments().update(X[p], y[p], task=task[p]) for p in parts]
    found = shared_features(MSMTFL(), moments[0] if folds is None else moments, r=3, fdr=0.1)
    rows = shared_features(MSMTFL(), X, y, task=task, r=3, fdr=0.1)
    assert found.declared[:12].all()
    assert found.declared[12:].sum() <= 3
    assert found.tasks.tolist() == ["a", "b", "c"]
    assert set(found.features) <= set(rows.candidates)
    np.testing.assert_allclose(found.statistics[:, :12], rows.statistics[:, :12], atol=0.1)
    assert found.approximate == ()


@pytest.mark.slow
def test_false_discoveries_from_sums_are_as_rare_as_asked_for():
    found = study().measured(10, 150, 0.5, False, 0.45, stability=False, sums=True)
    for r, rate in {1: 0.1, 2: 0.1, 4: 0.2}.items():
        false, power = found[r, "shared_features"].T
        assert false.mean() <= rate + 2 * max(false.std(), 0.1) / np.sqrt(len(false))
        assert power.mean() > 0.5


def test_what_is_approximate_from_sums_is_said():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 40)), np.repeat(["a", "b"], 30)
    X[:, 3], X[:30, 5] = X[:, 3] > 0, 1.0
    text = str(shared_features(LassoMTL(), Moments().update(X, rng.standard_normal(60), task=task), fdr=0.2))
    assert "approximate: task(s) 'a', 'b' have fewer samples than features" in text
    assert "feature(s) 'x3' have two values only" in text


def test_statistics_that_do_not_suffice_are_refused():
    X, y, task = some(n=150)
    of = Moments().update(X, y, task=task)
    for call, message in (
        (lambda: shared_features(MSMTFL(), of, y), "Moments hold targets, tasks and all else that counts: y cannot"),
        (lambda: shared_features(MSMTFL(loss="huber"), of), "squared loss only, not loss='huber'"),
        (lambda: shared_features(MSMTFLClassifier(), of), "squared loss only, not"),
        (lambda: shared_features(MSMTFL(), Moments().update(X, np.c_[y, y]), r=1), "of a 2-D y"),
        (
            lambda: shared_features(MSMTFL(), Moments().update(X, y, task=task, sample_weight=1.0 + (task == "a"))),
            r"the samples of task\(s\) 'a' have weights",
        ),
        (lambda: shared_features(MSMTFL(), X, task=task), "y is missing: give the targets"),
        (lambda: shared_features(MSMTFL(), of, r=4), "r=4, but there are 3 tasks"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()
    twice = Moments().update(np.r_[X, X], np.r_[y, y[::-1]], task=np.repeat(["u", "v"], 150))
    with pytest.raises(ValueError, match=r"samples of tasks 'u', 'v' have the same sums in all features.*Take r=1"):
        shared_features(MSMTFL(), twice)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_law_of_knockoffs_equals_that_of_knockpy(rho, monkeypatch):
    """Conditional means and covariances; and distances, whose entropy is no less than that of the other package's."""
    others = pytest.importorskip("knockpy.knockoffs")
    mrc = pytest.importorskip("knockpy.mrc")
    d = 8
    cov, X = toeplitz(d, rho), np.random.default_rng(0).standard_normal((d, d))
    s, law = distances(cov), Law.of(cov)
    kept, root = law.kept, law.root
    known = (np.zeros(d), np.linalg.inv(cov), np.diag(s), 1e-5, 1)
    monkeypatch.setattr(np.random, "randn", lambda *shape: np.zeros(shape))
    np.testing.assert_allclose(others.produce_MX_gaussian_knockoffs(X, *known)[:, :, 0], X @ kept, atol=1e-8)
    monkeypatch.setattr(np.random, "randn", lambda n, p, copies: np.eye(p)[:, :, None])
    noise = others.produce_MX_gaussian_knockoffs(np.zeros((d, d)), *known)[:, :, 0]
    np.testing.assert_allclose(noise.T @ noise, root @ root.T, atol=1e-8)
    monkeypatch.undo()
    theirs = mrc.solve_maxent(cov, choldate_warning=False)
    assert mrc.maxent_loss(cov, np.diag(s)) <= mrc.maxent_loss(cov, theirs) + 1e-4
