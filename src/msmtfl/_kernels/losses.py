"""Slopes, curvatures and values of losses for kernels that run uncompiled; compiled ones take them from newton.pxd."""

from __future__ import annotations

import numpy as np

from .vectors import Floats

LOGISTIC, POISSON, HUBER, GAMMA, TWEEDIE = range(5)


def gram_of(k: int, n: int, X: Floats, ldx: int, G: Floats, ldg: int) -> None:
    """G (k, k; rows ldg apart) = XX' for X (k, n; rows ldx apart)"""
    rows = np.asarray(X[: k * ldx]).reshape(k, ldx)[:, :n]
    G[: k * ldg].reshape(k, ldg)[:, :k] = rows @ rows.T


def times(n: int, b: Floats, x: Floats, i: int, z: Floats, j: int) -> None:
    """z[j:j+n] = b x[i:i+n]"""
    z[j : j + n] = b * x[i : i + n]


def sum_of(n: int, x: Floats) -> float:
    """The sum of x"""
    return float(x.sum())


def apart(n: int, x: Floats, y: Floats, v: Floats) -> float:
    """The sum of (x - y)^2 / v"""
    return float(((x - y) ** 2 / v).sum())


def changed(n: int, x: Floats, y: Floats) -> float:
    """The largest |x - y| / y, y > 0"""
    return float((np.abs(x - y) / y).max())


def lift(n: int, share: float, x: Floats, v: Floats, y: Floats, root: Floats) -> float:
    """y = max(x, share v times the largest x / v), and its roots; returns the sum of y"""
    y[:] = np.maximum(x, share * (x / v).max() * v)
    root[:] = np.sqrt(y)
    return float(y.sum())


def slopes(
    kind: int, epsilon: float, caution: float, n: int, y: Floats, v: Floats, f: Floats, u: Floats, bend: Floats
) -> None:
    """u = -v h'(y, f), bend = v h''(y, f); what bend is beside the curvature is said in the .pxd file"""
    with np.errstate(over="ignore", invalid="ignore"):
        if kind == LOGISTIC:
            sign = np.where(y > 0.5, -1.0, 1.0)
            e = np.exp(-np.abs(f))
            u[:] = -v * sign * np.where(sign * f > 0.0, 1.0, e) / (1.0 + e)
            bend[:] = v * e / (1.0 + e) ** 2
        elif kind == POISSON:
            e = np.exp(f)
            u[:], bend[:] = -v * (e - y), v * np.minimum(e, 1e150)
        elif kind == GAMMA:
            e = y * np.exp(-f)
            u[:], bend[:] = v * (e - 1.0), v * np.minimum(e, 1e150)
        elif kind == TWEEDIE:
            a, b = epsilon - 1.0, 2.0 - epsilon
            falls, rises = y * np.exp(-a * f), np.exp(b * f)
            u[:], bend[:] = v * (falls - rises), v * np.minimum(a * falls + b * rises, 1e150)
        else:
            r = np.abs(f - y)
            u[:] = -v * np.clip(f - y, -epsilon, epsilon)
            bend[:] = v * np.maximum(r < epsilon, caution * epsilon / np.maximum(r, epsilon))


def value_of(kind: int, epsilon: float, n: int, y: Floats, v: Floats, f: Floats) -> float:
    """sum_r v_r h(y_r, f_r), but for what does not depend on f"""
    with np.errstate(over="ignore", invalid="ignore"):
        if kind == LOGISTIC:
            t = np.where(y > 0.5, -f, f)
            return float(v @ (np.maximum(t, 0.0) + np.log1p(np.exp(-np.abs(t)))))
        if kind == POISSON:
            return float(v @ (np.exp(f) - y * f))
        if kind == GAMMA:
            return float(v @ (y * np.exp(-f) + f))
        if kind == TWEEDIE:
            a, b = epsilon - 1.0, 2.0 - epsilon
            return float(v @ (y * np.expm1(-a * f) / a + np.expm1(b * f) / b))
        r = np.abs(y - f)
        inner = np.minimum(r, epsilon)
        return float(v @ (inner * (r - 0.5 * inner)))
