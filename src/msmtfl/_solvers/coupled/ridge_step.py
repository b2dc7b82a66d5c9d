"""Partial pooling at one pair of strengths, by m systems of the features' size: what a Newton step asks for.

    min_{b, V}  sum_i (b + v_i)'G_i (b + v_i) / 2 - c_i'(b + v_i) + v_i'K_i v_i / 2  +  b'K_0 b / 2,     K diagonal

`Pooling` takes a task's Gram matrix apart once for all strengths; a Newton step has other matrices every time, and one pair.
"""

from __future__ import annotations

import numpy as np

from ..._data.designs import Floats

ENOUGH = 1e-9  # what may be left of the gradients, as a share of |c|: more is left to `Pooling`
OPEN = 1e-8  # least eigenvalue, of unit diagonal, up to which a direction without a ridge is left to `Pooling`
LARGEST = 200  # features, up to which systems of all tasks at once are solved


def ridge_step(grams: Floats, c: Floats, of_v: Floats, of_b: Floats) -> tuple[Floats, Floats] | None:
    """b (d,) and V (m, d) for Gram matrices (m, d, d), X'y (m, d) and ridges of V (m, d) and of b (d,), above 0 and finite,
    or all of V or of b inf, or some of b 0; None where rounding leaves too much of the gradients."""
    no_v, no_b = np.isinf(of_v).all(), np.isinf(of_b).all()
    if grams.shape[-1] > LARGEST or not (no_v or _proper(of_v)) or not (no_b or _proper(of_b, 0.0)):
        return None
    of_v, of_b = np.where(np.isinf(of_v), 0.0, of_v), np.where(np.isinf(of_b), 0.0, of_b)
    try:
        inverse = np.zeros_like(grams) if no_v else _inverses(grams, of_v)
        of_system = np.zeros_like(grams[0])
        if not no_b:
            # K (G + K)^-1 G is what a task says of b: no difference of large numbers
            of_tasks = grams.sum(axis=0) if no_v else np.einsum("ij,ijk->jk", of_v, inverse @ grams)
            if of_b.min() == 0.0 and not _determined(of_tasks):
                return None
            of_system = _inverses(of_tasks[None], of_b[None])[0]
    except np.linalg.LinAlgError:
        return None
    b, V, left, common = np.zeros(len(of_b)), np.zeros_like(c), c, c.sum(axis=0)
    for _ in range(2):  # the second time for what rounding has left
        z = _times(inverse, left)
        db = of_system @ (common - _times(grams, z).sum(axis=0))
        b, V = b + db, V + z - _times(inverse, grams @ db)
        slopes = c - _times(grams, b + V)
        left, common = slopes - of_v * V, slopes.sum(axis=0) - of_b * b
    rests = ([] if no_v else [left]) + ([] if no_b else [common])
    most = ENOUGH * np.abs(c).max(initial=0.0)
    return (b, V) if all(np.abs(rest).max(initial=0.0) <= most for rest in rests) else None


def _proper(ridge: Floats, least: float = np.nextafter(0.0, 1.0)) -> bool:
    return bool(((ridge >= least) & np.isfinite(ridge)).all())


def _determined(G: Floats) -> bool:
    """Whether tasks leave no combination of features open."""
    squares = G.diagonal()
    if not squares.min() > 0.0:
        return False
    size = np.sqrt(squares)
    return bool(np.linalg.eigvalsh(G / np.outer(size, size))[0] > OPEN)


def _inverses(grams: Floats, ridge: Floats) -> Floats:
    """(m, d, d): those of matrices with ridges (m, d), taken in columns of the same length."""
    size = 1.0 / np.sqrt(np.einsum("ijj->ij", grams) + ridge)
    A = grams * size[:, :, None] * size[:, None, :]
    np.einsum("ijj->ij", A)[:] = 1.0
    return np.asarray(np.linalg.inv(A) * size[:, :, None] * size[:, None, :])


def _times(matrices: Floats, vectors: Floats) -> Floats:
    """(m, d): the product of every matrix (m, d, d) with its vector."""
    return np.asarray(np.matmul(matrices, vectors[:, :, None])[:, :, 0])
