"""The peers, each called as its own documentation recommends for speed; every adapter says how.

The lasso of every peer is 1/(2n) |y - Xw|^2 + alpha |w|_1 per task, so alpha = m lam / 2; a path is
(Xs, ys, alphas, tol) -> per task (n_lams, d). No intercept: data are centred. tol is in the peer's own terms (TOLERANCES).
"""

from __future__ import annotations

import subprocess
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TOLERANCES = {  # the peer's default, the usual one of the tables, then tighter
    "scikit-learn": (1e-4, 1e-6, 1e-8, 1e-10),
    "celer": (1e-4, 1e-6, 1e-8, 1e-10),
    "skglm": (1e-4, 1e-6, 1e-8, 1e-10),
    "adelie": (1e-7, 1e-10, 1e-14, 1e-18),
    "skein": (1e-6, 1e-6, 1e-8, 1e-10),
    "glmnet": (1e-7, 1e-10, 1e-14, 1e-18),
    "FISTA": (1e-4, 1e-4, 1e-7),
}


class Timed(NamedTuple):
    """A result whose time was taken elsewhere: in R, or without the preparation."""

    seconds: float
    result: Any
    cpu: float | None = None  # seconds on a core


def scikit_learn(Xs, ys, alphas, tol):
    """lasso_path warm-starts along the alphas; a precomputed Gram matrix where n > d, as its precompute='auto' does."""
    from sklearn.linear_model import lasso_path

    options = {"alphas": alphas, "tol": tol, "max_iter": 100_000, "precompute": "auto"}
    return [lasso_path(X, y, **options)[1].T for X, y in zip(Xs, ys)]


def celer(Xs, ys, alphas, tol):
    """celer_path with its defaults (working sets, dual extrapolation, pruning); X Fortran-ordered, as it asks for."""
    from celer import celer_path

    return [celer_path(X, y, "lasso", alphas=alphas, tol=tol, max_iter=200)[1].T for X, y in zip(Xs, ys)]


def skglm(Xs, ys, alphas, tol):
    """AndersonCD.path on Quadratic + L1: working sets, Anderson acceleration (the defaults). Compiled beforehand. Its GramCD
    forms the Gram matrix anew for every alpha: slower on all our problems."""
    from skglm.datafits import Quadratic
    from skglm.penalties import L1
    from skglm.solvers import AndersonCD
    from skglm.utils.jit_compilation import compiled_clone

    solver = AndersonCD(tol=tol, fit_intercept=False, max_iter=200)
    datafit, penalty = compiled_clone(Quadratic()), compiled_clone(L1(1.0))
    return [solver.path(X, y, datafit, penalty, alphas)[1].T for X, y in zip(Xs, ys)]


def skein(Xs, ys, alphas, tol):
    """solve_elastic_net_ls_path, the function under its path estimators, with the strong rule and Anderson acceleration (the
    defaults); screening="gap_safe" was no faster."""
    from skein_glm import solve_elastic_net_ls_path

    options = {"alpha": 1.0, "lambdas": alphas, "tol": tol, "max_iter": 100_000, "fit_intercept": False}
    return [solve_elastic_net_ls_path(X, y, **options)[0] for X, y in zip(Xs, ys)]


def adelie(Xs, ys, alphas, tol):
    """The covariance method on X'X where n > d, else grpnet; the whole path at once, early exit off, one thread."""
    import adelie as ad

    return [
        _covariance(X, y, alphas, tol) if len(y) > X.shape[1] else grpnet(X, ad.glm.gaussian(y=y), alphas, tol=tol)
        for X, y in zip(Xs, ys)
    ]


def _covariance(X, y, alphas, tol):
    import adelie as ad

    gram = np.asfortranarray(X.T @ X) / len(y)
    options = {"early_exit": False, "progress_bar": False, "tol": tol, "n_threads": 1, "min_ratio": 1e-6}
    return np.asarray(ad.gaussian_cov(A=gram, v=X.T @ y / len(y), lmda_path=alphas, **options).betas.todense())


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


class Glmnet:
    """glmnet in an R process of its own: the whole path in one call, lambdas given, type.gaussian as it chooses (covariance
    updates below 500 features). Timed inside R, so that nothing is counted but its calls."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["Rscript", str(Path(__file__).with_name("glmnet.R"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.version = self.process.stdout.readline().strip()
        if not self.version:
            raise ImportError("glmnet: no Rscript, or no package glmnet in it")
        self.folder = tempfile.TemporaryDirectory()
        self.loaded: Any = None

    def ask(self, *words: object) -> str:
        print(*words, sep="\t", file=self.process.stdin, flush=True)
        return self.process.stdout.readline()

    def path(self, Xs, ys, alphas, tol, family="gaussian") -> Timed:
        file = Path(self.folder.name) / "numbers"
        if self.loaded is not Xs:
            with file.open("wb") as out:
                for X, y in zip(Xs, ys):
                    out.write(X.tobytes(order="F") + y.tobytes())
            shapes = [number for X in Xs for number in X.shape]
            self.ask("load", file, *shapes)
            self.loaded = Xs
        np.asarray(alphas, dtype=float).tofile(file)
        seconds = float(self.ask("path", file, len(alphas), tol, family))
        d = Xs[0].shape[1]
        return Timed(seconds, list(np.fromfile(file).reshape(len(Xs), len(alphas), d)))


@cache
def r_process() -> Glmnet:
    return Glmnet()


def glmnet(Xs, ys, alphas, tol):
    return r_process().path(Xs, ys, alphas, tol)


def fista(Xs, ys, alphas, tol):
    """Plain FISTA, as in the paper; per task, so that each has a step of its own."""
    from fista import plain_lasso

    out = []
    for X, y in zip(Xs, ys):
        solve, w, coefs = plain_lasso(X, y), np.zeros(X.shape[1]), []
        for alpha in alphas:
            w = solve(alpha, 1.0, w, tol)
            coefs.append(w)
        out.append(np.array(coefs))
    return out


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


def skein_rows(Xs, ys, lams, tol):
    """solve_multitask_lasso_ls_path with its defaults; its loss is 1/(2 n m) |Y - XW|^2."""
    from skein_glm import solve_multitask_lasso_ls_path

    Y, options = np.stack(ys, axis=1), {"tol": tol, "max_iter": 100_000, "fit_intercept": False}
    found = solve_multitask_lasso_ls_path(Xs[0], Y, lambdas=0.5 * lams, **options)[0]
    return np.swapaxes(found.reshape(len(lams), -1, len(ys)), 1, 2)


def plain_fista_rows(Xs, ys, lams, tol, ratio=None):
    from fista import plain_rows

    return plain_rows(Xs, ys, lams, tol=tol, ratio=ratio)


def tuned_fista_rows(Xs, ys, lams, tol, ratio=None):
    from fista import tuned_rows

    return tuned_rows(Xs, ys, lams, tol=tol, ratio=ratio)


ROW_TOLERANCES = {  # two about where a gap of 1e-8 is reached; then tighter
    "scikit-learn": (1e-8, 1e-9, 1e-10),
    "celer": (1e-8, 1e-9, 1e-10),
    "skglm": (1e-6, 1e-7, 1e-8),
    "adelie": (1e-16, 1e-18, 1e-20),
    "skein": (1e-7, 1e-8, 1e-9),
    "FISTA": (1e-8,),
    "tuned FISTA": (1e-8,),
}


# ------------------------------------------------------------------ other


def abess(Xs, ys, lams):
    """Best subsets of rows, sizes up to its own limit by golden section (fewer fits than one per size), 3 folds. Not the
    lasso: it chooses among other models, so only time and support compare."""
    from abess import MultiTaskRegression

    model = MultiTaskRegression(path_type="gs", cv=3, fit_intercept=False, thread=1).fit(Xs[0], np.stack(ys, axis=1))
    return model.coef_.T[None]


def quiet(run: Callable) -> Callable:
    """Without convergence warnings: the gap says it all."""

    def call(*data, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run(*data, **options)

    return call


def version_of(name: str) -> str:
    """Imports the peer; ImportError where it is not installed."""
    if name == "glmnet":
        return r_process().version
    if name.endswith("FISTA"):
        return f"numpy {np.__version__}"
    return __import__({"scikit-learn": "sklearn", "skein": "skein_glm"}.get(name, name)).__version__


PATHS = {
    "scikit-learn": quiet(scikit_learn),
    "celer": quiet(celer),
    "skglm": quiet(skglm),
    "adelie": quiet(adelie),
    "skein": quiet(skein),
    "glmnet": glmnet,
    "FISTA": fista,
}
ROW_PATHS = {
    "scikit-learn": quiet(scikit_learn_rows),
    "celer": quiet(celer_rows),
    "skglm": quiet(skglm_rows),
    "adelie": quiet(adelie_rows),
    "skein": quiet(skein_rows),
    "FISTA": plain_fista_rows,
    "tuned FISTA": tuned_fista_rows,
}
