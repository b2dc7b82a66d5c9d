"""Gaps where nothing penalises a part: never below what is to be gained, however penalised coefficients move with it."""

import numpy as np
import pytest
from oracles.composite import LD, Block, Composite, Separable, solved

from msmtfl._data.forms.dense import DenseRows, RowTask
from msmtfl._objective.coupled.pooling import PoolingRidge, certify_pooling
from msmtfl._objective.coupled.task_norms import CentreNorms, RowNorms, certify_task_norms


def problem(seed):
    """Tasks without intercepts, whose first columns are nearly the same."""
    rng = np.random.default_rng(seed)
    m, d = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    Xs = [rng.standard_normal((int(rng.integers(4, 12)), d)) for _ in range(m)]
    for X in Xs:
        X[:, 1] = X[:, 0] + 10.0 ** rng.uniform(-9, 0) * X[:, 1]
    ys = [X @ rng.standard_normal(d) + rng.standard_normal(len(X)) for X in Xs]
    designs = [RowTask(DenseRows(X, None, False), y) for X, y in zip(Xs, ys, strict=True)]
    f = np.where(rng.random(d) < 0.25, 0.0, 1.0)
    return Xs, ys, designs, f, rng


def excess_of_ridges(Xs, ys, P, of_common, of_deviations):
    """Of sum |r|^2 + ridges, over |y|^2: from the slopes and the second derivatives, which are all there is."""
    m, d = len(Xs), Xs[0].shape[1]
    P = P.reshape(m + 1, d).astype(LD)
    H, g = np.zeros(((m + 1) * d,) * 2, dtype=LD), np.zeros(((m + 1) * d), dtype=LD)
    for i, (X, y) in enumerate(zip(Xs, ys, strict=True)):
        X, y = X.astype(LD), y.astype(LD)
        at = np.concatenate([np.arange(d), (i + 1) * d + np.arange(d)])
        A = np.hstack([X, X])
        H[np.ix_(at, at)] += A.T @ A
        g[at] += A.T @ (y - X @ (P[0] + P[i + 1]))
    strength = np.concatenate([of_common, of_deviations.ravel()]).astype(LD)
    free = np.isfinite(strength)
    H, g = H[np.ix_(free, free)] + np.diag(strength[free]), g[free] - strength[free] * P.ravel()[free]
    return float(g @ solved(H, g)) / float(sum(y @ y for y in ys))


@pytest.mark.parametrize("seed", range(30))
def test_gaps_of_pooling_hold_whatever_deviations_do(seed):
    """Deviations with a small ridge can undo a move of the common values: the gain of both is far more than that of each."""
    Xs, ys, designs, f, rng = problem(seed)
    m, d = len(Xs), len(f)
    penalty = PoolingRidge(
        float(10.0 ** rng.uniform(-8, 2)), 0.0, np.tile(f[:, None], (1, m)), f, float(sum(map(len, Xs)))
    )
    start = np.zeros((m + 1) * d)
    best = least_of_ridges(Xs, ys, penalty, start)
    for size in (0.0, 1e-9, 1e-6, 1e-3, 1.0):
        P = best + size * rng.standard_normal(best.size) * (best != 0.0)
        found = certify_pooling(designs, P, penalty).gap
        assert found >= excess_of_ridges(Xs, ys, P, penalty.of_common, penalty.of_deviations) * (1 - 1e-6)
    zeros = certify_pooling(designs, start, penalty).gap
    assert zeros >= excess_of_ridges(Xs, ys, start, penalty.of_common, penalty.of_deviations) * (1 - 1e-6)


def least_of_ridges(Xs, ys, penalty, start):
    m, d = len(Xs), Xs[0].shape[1]
    strength = np.concatenate([penalty.of_common, penalty.of_deviations.ravel()])
    free = np.isfinite(strength)
    blocks = np.zeros((sum(map(len, Xs)), (m + 1) * d))
    row = 0
    for i, X in enumerate(Xs):
        blocks[row : row + len(X), :d] = blocks[row : row + len(X), (i + 1) * d : (i + 2) * d] = X
        row += len(X)
    A = np.vstack([blocks[:, free], np.diag(np.sqrt(strength[free]))])
    out = start.copy()
    out[free] = np.linalg.lstsq(A, np.concatenate([*ys, np.zeros(free.sum())]), rcond=None)[0]
    return out


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 24))])
@pytest.mark.parametrize("kind", ["centre", "rows"])
def test_gaps_of_robust_models_hold_whatever_deviations_do(seed, kind):
    Xs, ys, designs, f, rng = problem(seed)
    m, d, n = len(Xs), len(f), np.array([float(len(X)) for X in Xs])
    strength, F = float(10.0 ** rng.uniform(-3, 0.5)), np.tile(f[:, None], (1, m))
    if kind == "centre":
        penalty = CentreNorms(strength, 0.0, F, f, n)
    else:
        penalty = RowNorms(strength, strength * float(rng.choice([0.5, 1.0, 2.0])), F, f, n)
    height = penalty.height - m
    names = [(h, j) for h in range(height) for j in range(d) if f[j] > 0] + [
        (height + i, j) for i in range(m) for j in range(d)
    ]
    where = {name: c for c, name in enumerate(names)}
    A, row, parts, blocks = np.zeros((sum(map(len, Xs)), len(names)), dtype=LD), 0, [], []
    for i, (X, y) in enumerate(zip(Xs, ys, strict=True)):
        at = row + np.arange(len(X))
        for j in range(d):
            A[at, where[height + i, j]] = X[:, j]
            if f[j] > 0:
                A[at, where[0 if kind == "centre" else i, j]] = X[:, j]
        parts.append(Separable("squared", at, np.full(len(X), LD(penalty.kappa[i])), y.astype(LD), y.astype(LD)))
        own = [where[height + i, j] for j in range(d) if f[j] > 0]
        blocks.append(Block(np.array(own, dtype=int), LD(penalty.bounds[i]), np.ones(len(own), dtype=LD)))
        row += len(X)
    if kind == "rows":
        blocks += [
            Block(np.array([where[i, j] for i in range(m)]), LD(penalty.lam_common), np.ones(m, dtype=LD))
            for j in range(d)
            if f[j] > 0
        ]
    whole = Composite(A, np.zeros(len(A), dtype=LD), parts, blocks)
    whole.unit = whole.value(np.zeros(len(names)))
    best, _ = whole.least(np.zeros(len(names)))
    best = best.astype(float)
    for size in (0.0, 1e-9, 1e-6, 1e-3, 1.0):
        z = best + size * rng.standard_normal(best.size)
        P = np.zeros((penalty.height, d))
        for name, c in where.items():
            P[name] = z[c]
        excess = float((whole.value(z) - whole.value(best)) / whole.unit)
        assert certify_task_norms(designs, P, penalty).gap >= excess * (1 - 1e-6) - 1e-17
