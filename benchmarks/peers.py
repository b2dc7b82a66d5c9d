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


def grpnet(X, target, alphas, penalty=None, groups=None, tol=1e-10):
    import adelie as ad

    state = ad.grpnet(
        X=X,
        glm=target,
        lmda_path=alphas,
        penalty=penalty,
        groups=groups,
        intercept=False,
        early_exit=False,
        progress_bar=False,
        tol=tol,
        n_threads=1,
        min_ratio=1e-6,
    )
    return np.asarray(state.betas.todense())


# ------------------------------------------------------------------ L1,2: (Xs, ys, lams, tol) -> coefs (n_lams, m, d)
# Tasks that share X come with the same X each; all but adelie need that.


def scikit_learn_rows(Xs, ys, lams, tol):
    """The path of MultiTaskLasso, its objective being 1/(2n) |Y - XW|^2 + alpha sum_j |w^j|_2."""
    from sklearn.linear_model import enet_path

    Y = np.stack(ys, axis=1)
    return np.moveaxis(
        enet_path(Xs[0], Y, l1_ratio=1.0, alphas=0.5 * len(ys) * lams, tol=tol, max_iter=100_000)[1], 2, 0
    )


def celer_rows(Xs, ys, lams, tol):
    from celer.homotopy import mtl_path

    Y = np.asfortranarray(np.stack(ys, axis=1))
    return np.moveaxis(mtl_path(Xs[0], Y, alphas=0.5 * len(ys) * lams, tol=tol, max_iter=200)[1], 2, 0)


def skglm_rows(Xs, ys, lams, tol):
    """tol is relative to the largest alpha."""
    from skglm.datafits import QuadraticMultiTask
    from skglm.penalties import L2_1
    from skglm.solvers import MultiTaskBCD
    from skglm.utils.jit_compilation import compiled_clone

    Y, alphas = np.asfortranarray(np.stack(ys, axis=1)), 0.5 * len(ys) * lams
    solver = MultiTaskBCD(tol=tol * alphas[0], fit_intercept=False, max_iter=200)
    datafit, penalty = compiled_clone(QuadraticMultiTask()), compiled_clone(L2_1(1.0))
    return np.moveaxis(solver.path(Xs[0], Y, datafit, penalty, alphas)[1], 2, 0)


def adelie_rows(Xs, ys, lams, tol):
    """A multi-response fit where X is shared, else a group lasso on all tasks' columns, feature by feature, as a sparse
    matrix (a dense one was slower; block_diag keeps the columns of a feature apart, and its subsets have no cov). With
    weights 1/(m n_i), which sum to 1, its loss is half of ours."""
    import adelie as ad
    from scipy.sparse import csc_matrix

    m, d, rows = len(Xs), Xs[0].shape[1], [len(y) for y in ys]
    if all(X is Xs[0] for X in Xs):
        target = ad.glm.multigaussian(y=np.stack(ys, axis=1))
        coefs = grpnet(Xs[0], target, 0.5 * lams, penalty=np.ones(d), tol=tol)
    else:
        N = sum(rows)
        ends = np.concatenate([[0], np.cumsum(np.tile(rows, d))]).astype(np.int32)
        at = np.tile(np.arange(N, dtype=np.int32), d)
        X = ad.matrix.sparse(csc_matrix((np.concatenate(Xs).ravel(order="F"), at, ends), shape=(N, d * m)))
        target = ad.glm.gaussian(y=np.concatenate(ys), weights=np.repeat([1.0 / (m * n) for n in rows], rows))
        coefs = grpnet(X, target, 0.5 * lams, penalty=np.ones(d), groups=np.arange(0, d * m, m), tol=tol)
    return np.swapaxes(coefs.reshape(len(coefs), d, m), 1, 2)


def quiet(path: Path) -> Path:
    """The path without its convergence warnings: the gap says it all."""

    def run(*data, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return path(*data, **options)

    return run


PEERS: dict[str, Path] = {
    name: quiet(path)
    for name, path in {"scikit-learn": scikit_learn, "celer": celer, "skglm": skglm, "adelie": adelie}.items()
}
ROW_PEERS = {
    name: quiet(path)
    for name, path in {
        "scikit-learn": scikit_learn_rows,
        "celer": celer_rows,
        "skglm": skglm_rows,
        "adelie": adelie_rows,
    }.items()
}
