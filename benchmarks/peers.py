"""The peers, each called as its own documentation recommends for speed. A path: (Xs, ys, alphas per task) -> list of coefs.

The lasso of every peer is 1/(2n) |y - Xw|^2 + alpha |w|_1 per task, so alpha = m lam / 2. No intercept: data are centred.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

Path = Callable[[list[np.ndarray], list[np.ndarray], np.ndarray], list[np.ndarray]]  # -> per task (n_lams, d)


def scikit_learn(Xs, ys, alphas):
    """lasso_path warm-starts along the alphas; a precomputed Gram where n > d, as its precompute='auto' does."""
    from sklearn.linear_model import lasso_path

    return [lasso_path(X, y, alphas=alphas, tol=1e-6, max_iter=100_000, precompute="auto")[1].T for X, y in zip(Xs, ys)]


def celer(Xs, ys, alphas):
    """celer_path with its defaults but for the tolerance (relative to |y|^2 / n, like scikit-learn's)."""
    from celer import celer_path

    return [celer_path(X, y, "lasso", alphas=alphas, tol=1e-6, max_iter=200)[1].T for X, y in zip(Xs, ys)]


def skglm(Xs, ys, alphas):
    """AndersonCD.path on Quadratic + L1, Anderson acceleration and working sets on (the defaults)."""
    from skglm.datafits import Quadratic
    from skglm.penalties import L1
    from skglm.solvers import AndersonCD
    from skglm.utils.jit_compilation import compiled_clone

    solver = AndersonCD(tol=1e-6, fit_intercept=False, max_iter=200)
    datafit, penalty = compiled_clone(Quadratic()), compiled_clone(L1(1.0))
    out = []
    for X, y in zip(Xs, ys):
        w, Xw, coefs = np.zeros(X.shape[1]), np.zeros(len(y)), []
        for alpha in alphas:
            penalty.alpha = alpha
            datafit.initialize(X, y)
            w = solver.solve(X, y, datafit, penalty, w.copy(), Xw.copy())[0]
            Xw = X @ w
            coefs.append(w)
        out.append(np.array(coefs))
    return out


def adelie(Xs, ys, alphas):
    """grpnet with the Gaussian family, whole lambda path at once, early exit off, one thread."""
    import adelie as ad

    return [grpnet(X, ad.glm.gaussian(y=y), alphas) for X, y in zip(Xs, ys)]


def grpnet(X, target, alphas, penalty=None):
    import adelie as ad

    state = ad.grpnet(
        X=X,
        glm=target,
        lmda_path=alphas,
        penalty=penalty,
        intercept=False,
        early_exit=False,
        progress_bar=False,
        tol=1e-10,
        n_threads=1,
        min_ratio=1e-6,
    )
    return np.asarray(state.betas.todense())


def quiet(path: Path) -> Path:
    """The path without its convergence warnings: the gap says it all."""

    def run(Xs, ys, alphas):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return path(Xs, ys, alphas)

    return run


PEERS: dict[str, Path] = {
    name: quiet(path)
    for name, path in {"scikit-learn": scikit_learn, "celer": celer, "skglm": skglm, "adelie": adelie}.items()
}
