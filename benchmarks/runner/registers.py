"""What narrower registers cost: loops of `lanes.h` as on machines without AVX-512, or without AVX2, on one that has them.

    python benchmarks/runner/registers.py

Widths take turns; the best time of each is shown, in ms, one thread. In place of a width that the machine lacks the next
narrower one runs. (The plainer loops of `vector.h` are left as the loader has chosen them.)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from problems import PROBLEMS

from msmtfl import regularization_surface
from msmtfl._kernels import products
from msmtfl._kernels.registers import use_registers

WIDTHS = {8: "AVX-512", 4: "AVX2", 2: "SSE2, NEON"}  # numbers in a register


def works() -> dict[str, Callable[[], object]]:
    wide, isolet = PROBLEMS["wide"](), PROBLEMS["Isolet 3e-2"]()
    whole = np.asfortranarray(np.concatenate(wide.Xs))
    X, y, d = whole[: len(wide.ys[0])], wide.ys[0], whole.shape[1]  # a task: pieces of the columns of all
    V, out, moments, u = np.ascontiguousarray(X[:, :16].T), np.empty((16, d)), np.empty((3, d)), np.ones(len(y))
    stacked, lams = np.asfortranarray(np.concatenate(isolet.Xs)), isolet.lams
    task, target = np.repeat(np.arange(len(isolet.ys)), [len(y) for y in isolet.ys]), np.concatenate(isolet.ys)
    return {
        "X'y of one task of wide": lambda: products.column_moments(X, u, y, *moments),
        "its 8 Gram rows": lambda: products.few_products(V[:8], X, out[:8], 16),
        "its 16 Gram rows": lambda: products.few_products(V, X, out, 16),
        "surface of Isolet 3e-2": lambda: regularization_surface(
            stacked, target, task=task, lams=lams, theta_ratios=[50.0, 10.0, 4.0, 2.0], fit_intercept=False
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    print("| work | " + " | ".join(WIDTHS.values()) + " |\n|---|" + "---|" * len(WIDTHS))
    for name, work in works().items():
        best = dict.fromkeys(WIDTHS, float("inf"))
        for _ in range(repeats):
            for width in WIDTHS:
                before = use_registers(width)
                began = time.perf_counter()
                work()
                best[width] = min(best[width], time.perf_counter() - began)
                use_registers(before)
        print(f"| {name} | " + " | ".join(f"{1e3 * best[width]:.1f}" for width in WIDTHS) + " |", flush=True)


if __name__ == "__main__":
    main()
