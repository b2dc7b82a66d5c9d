"""What a point lacks of the least value of any sum of losses and norms, in extended precision.

    P(z) = sum over parts of rows of a loss at f = A z + o   +   sum over blocks of a |s z_block|_2, or a max |s z_block|

Every family is one of these once its parts (common values, deviations, intercepts) are coordinates; ridges and bounds are
rows, too: sqrt(k) z with squared loss, and z with the indicator of an interval. `least` looks for the least value by Newton
steps on a smoothed P, whose slopes are inside the bounds of dual points by themselves; so the gap that it reports is a
bound, whatever the search did. The search starts at the point that is to be judged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .gaps import INF, LD, bend_of, conjugate_of, half_deviance, slope_of, xlogx

ONE = LD(1)
LOOKED = LD(1e6)  # coordinates that nothing penalises are looked for within so many times the size of what was found
DEPENDENT = LD(
    1e-24
)  # pivots of curvature, of unit diagonal, below which a direction is left as it is: 1e-12 of a length
FIRST, LAST, FALL = 1e-3, 1e-14, 0.1  # smoothing, relative to the size of what was found
STEPS = 60  # of Newton's method at one smoothing


class Separable(NamedTuple):
    """Rows `at` with weights v and a loss of their own each; `kind` is a loss of `gaps.py`, "squared" or "box" (then y and
    scale are the ends of the interval)."""

    kind: str
    at: np.ndarray
    v: np.ndarray
    y: np.ndarray
    scale: np.ndarray

    def value(self, f):
        f = f[self.at]
        if self.kind == "box":
            hidden = LD(1e-17) * np.abs(f)  # f was scaled and back
            return LD(0) if ((f >= self.y - hidden) & (f <= self.scale + hidden)).all() else INF
        return (self.v * self._h(f)).sum()

    def _h(self, f):
        if self.kind == "squared":
            return (f - self.y) ** 2 / 2
        if self.kind == "logistic":  # targets between 0 and 1
            return np.logaddexp(LD(0), f) - self.y * f
        return half_deviance(self.kind, self.y, f, self.scale)

    def smoothed(self, f, mu):
        """Value, slopes and curvatures (n,), times the weights."""
        f = f[self.at]
        with np.errstate(all="ignore"):
            if self.kind == "box":
                below, above = f - self.y, self.scale - f
                if (below <= 0).any() or (above <= 0).any():
                    return INF, f, f
                low, high = np.isfinite(self.y), np.isfinite(self.scale)
                value = -mu * (np.log(below[low]).sum() + np.log(above[high]).sum())
                return value, mu * (1 / above - 1 / below), mu * (1 / above**2 + 1 / below**2)
            if self.kind == "squared":
                return (self.v * self._h(f)).sum(), self.v * (f - self.y), self.v
            if self.kind == "logistic":
                p = 1 / (1 + np.exp(-f))
                return (self.v * self._h(f)).sum(), self.v * (p - self.y), self.v * p * (1 - p)
            parts = self._h(f), slope_of(self.kind, self.y, f, self.scale), bend_of(self.kind, self.y, f, self.scale)
        return (self.v * parts[0]).sum(), self.v * parts[1], self.v * parts[2]

    def excess(self, f, u, t):
        """Of value plus conjugate over the product, at t times the slopes u."""
        f, u = f[self.at], t * u
        with np.errstate(all="ignore"):
            if self.kind == "box":
                up, down = np.maximum(u, 0), np.maximum(-u, 0)
                return (np.where(up > 0, up * (self.scale - f), 0) + np.where(down > 0, down * (f - self.y), 0)).sum()
            s = u / self.v
            if self.kind == "squared":
                return (self.v * (f - self.y - s) ** 2 / 2).sum()
            if self.kind == "logistic":
                q = s + self.y
                inside = (q >= 0) & (q <= 1)
                return (self.v * np.where(inside, self._h(f) - _entropy(np.clip(q, 0, 1)) - s * f, INF)).sum()
            return (self.v * (self._h(f) + conjugate_of(self.kind, self.y, s, self.scale) - s * f)).sum()


def _entropy(p):
    return -(xlogx(p) + xlogx(1 - p))


class Exponentials(NamedTuple):
    """sum_k v_k (log sum_r omega_kr exp f_r - c_k'f), c_k being a distribution where omega_k is not 0: the softmax loss, and
    Cox's partial likelihood."""

    at: np.ndarray
    v: np.ndarray
    omega: np.ndarray
    c: np.ndarray

    def value(self, f):
        f = f[self.at]
        top = np.where(self.omega > 0, f, -INF).max(axis=1)
        with np.errstate(under="ignore"):
            sums = (self.omega * np.exp(np.where(self.omega > 0, f - top[:, None], 0))).sum(axis=1)
        return (self.v * (np.log(sums) + top - self.c @ f)).sum()

    def shares(self, f):
        f = f[self.at]
        top = np.where(self.omega > 0, f, -INF).max(axis=1)
        e = self.omega * np.exp(np.where(self.omega > 0, f - top[:, None], 0))
        return e / e.sum(axis=1, keepdims=True)

    def excess(self, f, pi, t):
        q = t * pi + (1 - t) * self.c
        p = self.shares(f)
        with np.errstate(all="ignore"):
            terms = np.where(q > 0, q * np.log(q / np.where(p > 0, p, 1)), 0)
            if ((q > 0) & (p == 0)).any():
                return INF
        return (self.v[:, None] * terms).sum()


class Block(NamedTuple):
    at: np.ndarray
    a: LD
    s: np.ndarray
    largest: bool = False  # the largest size in place of the length

    def value(self, z):
        u = np.abs(self.s * z[self.at])
        return self.a * (u.max() if self.largest else np.sqrt((u**2).sum()))

    def dual(self, g):
        u = np.abs(g[self.at] / self.s)
        return (u.sum() if self.largest else np.sqrt((u**2).sum())) / self.a

    def smoothed(self, z, eps):
        """Value, gradient and Hessian; the gradient's dual norm is at most a."""
        u, s, a = self.s * z[self.at], self.s, self.a
        if not self.largest:
            r = np.sqrt((u**2).sum() + eps**2)
            g, H = u / r, (np.eye(len(u), dtype=LD) - np.outer(u, u) / r**2) / r
            return a * r, a * s * g, a * np.outer(s, s) * H
        both = np.concatenate([u, -u]) / eps
        top = both.max()
        e = np.exp(both - top)
        p = e / e.sum()
        k = len(u)
        g, q = p[:k] - p[k:], p[:k] + p[k:]
        H = (np.diag(q) - np.outer(g, g)) / eps
        return a * eps * (top + np.log(e.sum())), a * s * g, a * np.outer(s, s) * H


@dataclass
class Composite:
    """P of the module; `unit` is what values are relative to."""

    A: np.ndarray
    o: np.ndarray
    parts: list
    blocks: list
    unit: LD = ONE
    size: np.ndarray = field(init=False)

    def __post_init__(self):
        length = np.sqrt((self.A**2).sum(axis=0))
        self.size = np.where(length > 0, length, 1)  # coordinates are scaled to columns of unit length
        self.A = self.A / self.size
        self.blocks = [b._replace(s=b.s / self.size[b.at]) for b in self.blocks if b.a > 0 and len(b.at)]
        alone = [b for b in self.blocks if len(b.at) == 1]
        self.together = [b for b in self.blocks if len(b.at) > 1]
        self.alone = np.array([b.at[0] for b in alone], dtype=int)
        self.bounds = np.array([b.a * b.s[0] for b in alone], dtype=LD)
        self.scales = np.array([b.s[0] for b in alone], dtype=LD)
        self.open = np.ones(self.A.shape[1], dtype=bool)
        for b in self.blocks:
            self.open[b.at] = False
        self.width = np.full(len(self.size), INF)  # of the interval that a coordinate by itself is in
        for p in self._boxes():
            for r, low, high in zip(p.at, p.y, p.scale, strict=True):
                at = np.flatnonzero(self.A[r])
                if len(at) == 1:
                    self.width[at] = (high - low) / np.abs(self.A[r, at])

    def value(self, z):
        """At z in the units of A as it was given."""
        return self._value(np.asarray(z, dtype=LD) * self.size)

    def _value(self, z):
        f = self.A @ z + self.o
        return sum((p.value(f) for p in self.parts), LD(0)) + sum((b.value(z) for b in self.blocks), LD(0))

    def _smoothed(self, z, eps, mu, bends=True):
        f = self.A @ z + self.o
        value, u = LD(0), np.zeros(len(f), dtype=LD)
        H = np.zeros((len(z), len(z)), dtype=LD)
        D = np.zeros(len(f), dtype=LD)
        for p in self.parts:
            if isinstance(p, Exponentials):
                value += p.value(f)
                pi = p.shares(f)
                u[p.at] += p.v @ (pi - p.c)
                if bends:
                    D[p.at] += p.v @ pi
                    M = pi @ self.A[p.at]
                    H -= (M * p.v[:, None]).T @ M
            else:
                part, slope, bend = p.smoothed(f, mu)
                value += part
                if not np.isfinite(part):
                    return INF, u, H
                u[p.at] += slope
                D[p.at] += bend
        g = self.A.T @ u
        if bends:
            H += (self.A * D[:, None]).T @ self.A
        if self.alone.size:
            at, u = self.alone, z[self.alone]
            e = eps / self.scales
            r = np.sqrt(u**2 + e**2)
            value += (self.bounds * r).sum()
            g[at] += self.bounds * u / r
            if bends:
                H[at, at] += self.bounds * e**2 / r**3
        for b in self.together:
            part, slope, bend = b.smoothed(z, eps)
            value += part
            g[b.at] += slope
            if bends:
                H[np.ix_(b.at, b.at)] += bend
        return value, g, H

    def _bound(self, z, mu):
        """What the slopes at z prove: P(z) is no more above the least value than this."""
        f = self.A @ z + self.o
        u, duals = np.zeros(len(f), dtype=LD), []
        for p in self.parts:
            if isinstance(p, Exponentials):
                duals.append(p.shares(f))
                u[p.at] += p.v @ (duals[-1] - p.c)
            elif p.kind == "box" and not mu > 0:
                duals.append(np.zeros(len(p.at), dtype=LD))
            else:
                duals.append(p.smoothed(f, mu)[1])
                u[p.at] += duals[-1]
        g = -(self.A.T @ u)
        if not mu > 0:
            self._pressed(g, duals)
        most = 1 / max(LD(1), max((b.dual(g) for b in self.blocks), default=LD(0)))
        reach = LOOKED * max(np.abs(z).max(initial=LD(0)), self._step(z))
        best = INF
        for t in {most, most * (1 - LD(1e-15)), most * (1 - LD(1e-10))}:
            gap = sum((p.excess(f, d, t) for p, d in zip(self.parts, duals, strict=True)), LD(0))
            gap += sum((b.value(z) - t * (g[b.at] * z[b.at]).sum() for b in self.blocks), LD(0))
            gap += t * (np.abs(g) * np.minimum(reach, self.width))[self.open].sum()
            if np.isfinite(gap):
                best = min(best, gap)
        return best

    def _pressed(self, g, duals):
        """Have intervals of single coordinates take what their blocks leave of minus the gradient g, in place."""
        bound = np.zeros(len(g), dtype=LD)
        bound[self.alone] = self.bounds
        shared = np.zeros(len(g), dtype=bool)
        for b in self.together:
            shared[b.at] = True
        for p, dual in zip(self.parts, duals, strict=True):
            if isinstance(p, Separable) and p.kind == "box":
                for k, r in enumerate(p.at):
                    j = np.flatnonzero(self.A[r])
                    if len(j) == 1 and not shared[j[0]]:
                        left = g[j[0]] - np.clip(g[j[0]], -bound[j[0]], bound[j[0]])
                        end = p.scale[k] if left * self.A[r, j[0]] > 0 else p.y[k]
                        if np.isfinite(end):
                            dual[k] = left / self.A[r, j[0]]
                            g[j[0]] -= left

    def least(self, start, enough=1e-11):
        """(z, bound): the best point found from `start`, and at most how far it is from the least value."""
        start = np.asarray(start, dtype=LD) * self.size
        top = max(np.abs(start).max(initial=LD(0)), self._step(start), LD(1e-30))
        best, found = self._value(start), start
        proven = INF
        for first in (LD(1e-9), LD(FIRST), LD(0.3)):
            z, eps = self._inside(start, first), first
            while eps >= LD(LAST):
                z = self._newton(z, eps * top, eps * self.unit)
                value = self._value(z)
                if value < best:
                    best, found = value, z
                gap = self._bound(z, eps * self.unit)
                if np.isfinite(gap):
                    proven = max(min(proven, gap - (value - best)), LD(0))
                if proven <= LD(enough) * self.unit:
                    return found / self.size, proven
                near = np.abs(z) < 100 * eps * top
                eps *= LD(FALL)
                z = np.where(near & ~self.open, z * LD(FALL), z)
                z = z if np.isfinite(self._smoothed(z, eps * top, eps * self.unit, False)[0]) else self._inside(z, eps)
        return found / self.size, proven

    def near(self, start):
        """(z, bound) as of `least`, quickly: Newton steps from `start` on what is not 0 there, and what the slopes then
        prove. The bound is large, or infinite, where `start` is not close to the least value."""
        z = np.asarray(start, dtype=LD) * self.size
        value, at = self._value(z), self._in_use(z)
        for _ in range(8):
            if not at.any():
                break
            g, H = self._curved(z)
            if len(g) != len(z):  # made smooth by more coordinates than there are
                return start, LD(np.inf)
            step = np.zeros_like(z)
            step[at] = -solved(H[np.ix_(at, at)], g[at])
            new = self._value(z + step)
            if not new <= value + LD(1e-17) * (
                abs(value) + self.unit
            ):  # slopes go on falling where rounding hides values
                break
            z, value = z + step, new
        return z / self.size, self._bound(z, LD(0))

    def _in_use(self, z):
        """Coordinates that are open or not 0, without those that are at an end of their interval or in a largest size."""
        at = self.open | (z != 0)
        for b in self.together:
            if b.largest:
                at[b.at] = False
        for p in self._boxes():
            f = self.A[p.at] @ z
            ends = (np.abs(f - p.y) <= LD(1e-12) * np.abs(f)) | (np.abs(f - p.scale) <= LD(1e-12) * np.abs(f))
            at &= ~(self.A[p.at[ends]] != 0).any(axis=0)
        return at

    def _curved(self, z):
        """Slopes and curvature where P is smooth, boxes left out."""
        parts, boxes = self.parts, self._boxes()
        try:
            self.parts = [p for p in parts if not any(p is one for one in boxes)]
            tiny = np.abs(z).max(initial=LD(0)) * LD(1e-30) + LD(1e-300)
            return self._smoothed(z, tiny, LD(0))[1:]
        finally:
            self.parts = parts

    def _inside(self, z, eps):
        """z moved off the bounds of its intervals: those are of single coordinates, or of sums of two that begin alike."""
        z = z.copy()
        for p in self._boxes():
            for r, low, high in zip(p.at, p.y, p.scale, strict=True):
                row = self.A[r]
                j = int(np.flatnonzero(row)[-1])  # a task's own
                width = high - low if np.isfinite(high - low) else max(abs(row @ z), LD(1e-8) * (np.abs(z).max() + 1))
                f = row @ z
                f2 = np.clip(f, low + min(eps, LD(0.1)) * width, high - min(eps, LD(0.1)) * width)
                z[j] += (f2 - f) / row[j]
        return z

    def _boxes(self):
        return [p for p in self.parts if isinstance(p, Separable) and p.kind == "box"]

    def _nearer(self, z, eps):
        """z with what is close to an end of its interval closer to it."""
        z = z.copy()
        for p in self._boxes():
            for r, low, high in zip(p.at, p.y, p.scale, strict=True):
                row = self.A[r]
                f, j = row @ z, int(np.flatnonzero(row)[-1])
                for end in (low, high):
                    if np.isfinite(end) and abs(f - end) <= 100 * eps * max(abs(end), np.abs(z).max(), LD(1e-300)):
                        z[j] -= (1 - LD(FALL)) * (f - end) / row[j]
        return z

    def _step(self, z):
        """How far a coordinate alone would go from z, if there were no penalties."""
        f = self.A @ z + self.o
        g, bend = np.zeros(len(z), dtype=LD), np.zeros(len(z), dtype=LD)
        for p in self.parts:
            A = self.A[p.at]
            if isinstance(p, Exponentials):
                pi = p.shares(f)
                g += A.T @ (p.v @ (pi - p.c))
                bend += p.v @ (pi @ A**2 - (pi @ A) ** 2)
            elif p.kind != "box":
                _, slope, curvature = p.smoothed(f, LD(0))
                g += A.T @ slope
                bend += (A**2).T @ curvature
        live = bend > 0
        return np.max(np.abs(g[live]) / bend[live], initial=LD(0))

    def _newton(self, z, eps, mu):
        value, g, H = self._smoothed(z, eps, mu)
        if not np.isfinite(value):
            return z
        for _ in range(STEPS):
            step = -solved(H, g)
            fall = -(g @ step)
            if not fall > LD(1e-22) * self.unit:
                break
            t = LD(1)
            while t > LD(1e-9):
                new = self._smoothed(z + t * step, eps, mu, False)[0]
                if new <= value - LD(0.1) * t * fall + LD(1e-18) * abs(value):
                    break
                t /= 2
            else:
                break
            z = z + t * step
            value, g, H = self._smoothed(z, eps, mu)
        return z


def solved(H, g):
    """The z with H z = g, by elimination with diagonal pivoting; 0 in directions without curvature."""
    d = np.sqrt(np.maximum(np.diag(H), 0))
    live = np.flatnonzero(d > 0)
    if not live.size:
        return 0 * g
    M, b = H[np.ix_(live, live)] / np.outer(d[live], d[live]), (g[live] / d[live]).copy()
    k = len(live)
    order, done = np.arange(k), k
    for t in range(k):
        p = t + int(np.argmax(np.diag(M)[t:]))
        if M[p, p] <= DEPENDENT:
            done = t
            break
        if p != t:
            M[[t, p]] = M[[p, t]]
            M[:, [t, p]] = M[:, [p, t]]
            b[[t, p]], order[[t, p]] = b[[p, t]], order[[p, t]]
        share = M[t + 1 :, t] / M[t, t]
        M[t + 1 :, t:] -= np.outer(share, M[t, t:])
        b[t + 1 :] -= share * b[t]
    z = np.zeros(k, dtype=LD)
    for t in range(done - 1, -1, -1):
        z[t] = (b[t] - M[t, t + 1 : done] @ z[t + 1 : done]) / M[t, t]
    out = np.zeros(len(g), dtype=LD)
    out[live[order]] = z / d[live[order]]
    return out
