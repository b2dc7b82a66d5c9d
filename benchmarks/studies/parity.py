"""Are fits with a ridge, an offset or intercepts that share those of other software? Every family beside general solvers.

    python benchmarks/studies/parity.py [--count 100] [--only NAME ...] [--losses squared poisson logistic]

Random small problems with unequal tasks: the objective at our fit less the one that cvxpy (Clarabel) finds for the same
problem written out with all its intercepts, over the loss at zero coefficients. A number above 0 is a worse fit than
cvxpy's; below, cvxpy stopped short. Then predictions beside other packages, where these are installed: scikit-learn's
ElasticNet and Ridge, statsmodels' MixedLM at its own variance components (fixed effects and independent random effects of
one variance, unequal tasks) and GLM with an offset, and glum's. cvxpy is needed; the others are left out if they are not
there.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.linear_model import ElasticNet, Ridge

from msmtfl import (
    L12MTL,
    MSMTFL,
    DirtyMTL,
    DirtyMTLClassifier,
    L12MTLClassifier,
    LassoMTL,
    MSMTFLClassifier,
    PartialPooling,
    PartialPoolingClassifier,
    SharedMTL,
    SharedMTLClassifier,
)

FAMILIES = ("lasso", "l12", "dirty", "shared", "partial-pooling")
LOSSES = ("squared", "poisson", "logistic")


def sample(rng, loss):
    """X, y, labels and an offset (or None) of a small problem with tasks of different sizes."""
    m, d = int(rng.integers(1, 5)), int(rng.integers(1, 7))
    task = np.repeat(np.arange(m), rng.integers(6, 25, m))
    X = rng.standard_normal((len(task), d)) * 10.0 ** rng.uniform(-0.5, 0.5, d) + rng.standard_normal(d)
    slopes = (rng.standard_normal(d) + 0.4 * rng.standard_normal((m, d))) / (1 + X.std(axis=0))
    offset = 0.5 * rng.standard_normal(len(task)) if rng.random() < 0.5 else None
    f = np.einsum("nj,nj->n", X, slopes[task]) + (0.0 if offset is None else offset)
    if loss == "squared":
        return X, f + rng.standard_normal(len(f)), task, offset
    if loss == "poisson":
        y = rng.poisson(np.exp(np.clip(f / 2, -2, 2))).astype(float)
    else:
        y = (f + rng.logistic(size=len(f)) > 0).astype(float)
    for label in range(m):  # every task has a finite fit
        first = np.flatnonzero(task == label)[:2]
        y[first] = [0.0, 1.0]
    return X, y, task, offset


def fit(family, loss, X, y, task, offset, ratio, strengths):
    """The model at given strengths."""
    a, b = strengths
    kinds = {
        "lasso": (LassoMTL if loss == "squared" else MSMTFL, MSMTFLClassifier, {"lam": a, "theta": np.inf}),
        "l12": (L12MTL, L12MTLClassifier, {"lam": a}),
        "dirty": (DirtyMTL, DirtyMTLClassifier, {"lam_s": a, "lam_b": b}),
        "shared": (SharedMTL, SharedMTLClassifier, {"lam_common": a, "lam_deviation": b, "theta": np.inf}),
        "partial-pooling": (PartialPooling, PartialPoolingClassifier, {"k": 100 * a, "k_common": 10 * b}),
    }
    regression, classifier, options = kinds[family]
    if regression is LassoMTL:
        del options["theta"]
    kind = classifier if loss == "logistic" else regression
    if loss == "poisson":
        options["loss"] = loss
    if family != "partial-pooling":
        options["l1_ratio"] = ratio
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(**options).fit(X, y, task=task, offset=offset), options


def written_out(family, loss, X, y, task, offset, ratio, options):
    """The minimum of the same problem by cvxpy, and the loss at zero coefficients with the best intercepts."""
    import cvxpy as cp

    m, d = int(task[-1]) + 1, X.shape[1]
    pooled = family == "partial-pooling"
    W, level = cp.Variable((m, d)), cp.Variable(m)
    common, dev = cp.Variable(d), cp.Variable((m, d))
    share, ridge = ratio, (1 - ratio) / 2
    limits = []
    if family == "lasso":
        penalty = options["lam"] * (share * cp.sum(cp.abs(W)) + ridge * cp.sum_squares(W))
    elif family == "l12":
        penalty = options["lam"] * (share * cp.sum(cp.norm(W, 2, axis=0)) + ridge * cp.sum_squares(W))
    elif family == "dirty":
        shared = cp.Variable((m, d))
        penalty = share * (
            options["lam_s"] * cp.sum(cp.abs(W - shared)) + options["lam_b"] * cp.sum(cp.max(cp.abs(shared), axis=0))
        )
        penalty += ridge * options["lam_s"] * cp.sum_squares(W)
    else:
        limits = [np.ones((m, 1)) @ cp.reshape(common, (1, d), order="C") + dev == W]
        if pooled:
            penalty = (options["k"] * cp.sum_squares(dev) + options["k_common"] * cp.sum_squares(common)) / len(y)
        else:
            penalty = options["lam_common"] * (share * cp.sum(cp.abs(common)) + ridge * cp.sum_squares(common))
            penalty += options["lam_deviation"] * (share * cp.sum(cp.abs(dev)) + ridge * cp.sum_squares(dev))
    total = 0
    for i in range(m):
        on = task == i
        f = X[on] @ W[i] + level[i] + (0.0 if offset is None else offset[on])
        scale = 1 / len(y) if pooled else 1 / (m * on.sum())
        if loss == "squared":
            part = cp.sum_squares(f - y[on])
        elif loss == "poisson":
            known = np.where(y[on] > 0, y[on] * np.log(np.maximum(y[on], 1)), 0) - y[on]
            part = 2 * (cp.sum(cp.exp(f) - cp.multiply(y[on], f)) + known.sum())
        else:
            part = 2 * cp.sum(cp.logistic(f) - cp.multiply(y[on], f))
        total = total + scale * part
    exact = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11, "max_iter": 500}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        null = cp.Problem(cp.Minimize(total), [W == 0]).solve(solver="CLARABEL", **exact)
        found = cp.Problem(cp.Minimize(total + penalty), limits).solve(solver="CLARABEL", **exact)
    return float(found), float(null)


def study_objectives(families, losses, count):
    titles = f"{'family':<16} {'loss':<9} {'problems':>8}"
    print(f"{titles}   largest excess over cvxpy   cvxpy short by, at most   largest gap   CPU s")
    for family in families:
        for loss in losses:
            excess, gaps, began = [], [], time.process_time()
            for seed in range(count):
                rng = np.random.default_rng([31, seed])
                X, y, task, offset = sample(rng, loss)
                ratio = float(rng.choice([0.0, 0.1, 0.5, 0.9, 1.0]))
                strengths = 10.0 ** rng.uniform(-2.5, -0.5, 2)
                model, options = fit(family, loss, X, y, task, offset, ratio, strengths)
                found, null = written_out(family, loss, X, y, task, offset, ratio, options)
                excess.append((model.objective_ - found) / null)
                gaps.append(model.dual_gap_)
            words = f"{family:<16} {loss:<9} {count:>8}   {max(excess):>25.1e}   {max(-min(excess), 0):>23.1e}"
            print(f"{words}   {max(gaps):>11.1e}   {time.process_time() - began:.0f}", flush=True)


def study_peers(count):
    """Predictions of other packages."""
    worst = {"ElasticNet per task": 0.0, "Ridge per task": 0.0}
    for seed in range(count):
        rng = np.random.default_rng([32, seed])
        X, y, task, _ = sample(rng, "squared")
        m, lam, ratio = int(task[-1]) + 1, 10.0 ** rng.uniform(-2, 0), float(rng.choice([0.1, 0.5, 0.9]))
        model = LassoMTL(lam, l1_ratio=ratio).fit(X, y, task=task)
        pooled = PartialPooling(lam, np.inf).fit(X, y, task=task)
        for i in range(m):
            on = task == i
            net = ElasticNet(m * lam / 2, l1_ratio=ratio, tol=1e-14, max_iter=10**6).fit(X[on], y[on])
            ridge = Ridge(lam).fit(X[on], y[on])
            for name, mine, other in (("ElasticNet", model, net), ("Ridge", pooled, ridge)):
                apart = float(np.abs(np.atleast_2d(mine.coef_)[i] - other.coef_).max())
                worst[f"{name} per task"] = max(worst[f"{name} per task"], apart)
    for name, apart in worst.items():
        print(f"{name}: {count} problems, coefficients differ by at most {apart:.1e}")
    for name, study in (("statsmodels", study_mixed), ("statsmodels", study_glm), ("glum", study_glum)):
        try:
            study(count)
        except ImportError:
            print(f"{name} is not installed")


def study_mixed(count):
    from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec

    worst, done = 0.0, 0
    for seed in range(count):
        rng = np.random.default_rng([33, seed])
        m, d = int(rng.integers(6, 12)), 2
        task = np.repeat(np.arange(m), rng.integers(6, 30, m))
        X = rng.standard_normal((len(task), d))
        slopes = rng.standard_normal(d) + 0.7 * rng.standard_normal((m, d))
        y = np.einsum("nj,nj->n", X, slopes[task]) + rng.standard_normal(m)[task] + rng.standard_normal(len(task))
        own = (task[:, None] == np.arange(m)).astype(float)
        # one variance of all random slopes: a variance component whose columns are those of every task and feature
        block = np.concatenate([X[:, [j]] * own for j in range(d)], axis=1)
        fixed = np.hstack([X, own])
        spec = VCSpec(["slopes"], [[[str(j) for j in range(block.shape[1])]]], [[block]])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = MixedLM(y, fixed, groups=np.ones(len(y)), exog_re=np.zeros((len(y), 0)), exog_vc=spec)
            found = model.fit(reml=True)
        if found.vcomp[0] < 1e-3:
            continue
        done += 1
        random = np.asarray(next(iter(found.random_effects.values())))[-block.shape[1] :]
        theirs = fixed @ found.fe_params + block @ random
        model = PartialPooling(found.scale / found.vcomp[0]).fit(X, y, task=task)
        worst = max(worst, float(np.abs(model.predict(X, task=task) - theirs).max()))
    print(f"statsmodels MixedLM: {done} problems, predictions differ by at most {worst:.1e}")


def study_glm(count):
    import statsmodels.api as sm

    worst = 0.0
    for seed in range(count):
        X, y, _, offset = poisson_with_offset(seed)
        theirs = sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson(), offset=offset).fit(tol=1e-14, maxiter=200)
        model = MSMTFL(1e-12, np.inf, loss="poisson").fit(X, y, offset=offset)
        worst = max(worst, float(np.abs(np.append(model.intercept_, model.coef_) - theirs.params).max()))
    print(f"statsmodels GLM, Poisson with offset: {count} problems, coefficients differ by at most {worst:.1e}")


def study_glum(count):
    from glum import GeneralizedLinearRegressor

    worst = 0.0
    for seed in range(count):
        X, y, rng, offset = poisson_with_offset(seed)
        lam, ratio = 10.0 ** rng.uniform(-2, -0.5), float(rng.choice([0.0, 0.5, 1.0]))
        options = {"l1_ratio": ratio, "family": "poisson", "gradient_tol": 1e-10, "max_iter": 1000}
        theirs = GeneralizedLinearRegressor(alpha=lam / 2, **options).fit(X, y, offset=offset)
        model = MSMTFL(lam, np.inf, loss="poisson", l1_ratio=ratio).fit(X, y, offset=offset)
        found = np.append(model.intercept_, model.coef_) - np.append(theirs.intercept_, theirs.coef_)
        worst = max(worst, float(np.abs(found).max()))
    print(f"glum, Poisson with offset and elastic net: {count} problems, coefficients differ by at most {worst:.1e}")


def poisson_with_offset(seed):
    rng = np.random.default_rng([34, seed])
    X, offset = rng.standard_normal((60, 3)), 0.5 * rng.standard_normal(60)
    return X, rng.poisson(np.exp(0.3 + 0.4 * X[:, 0] + offset)).astype(float), rng, offset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="problems of every kind")
    parser.add_argument("--only", nargs="+", choices=[*FAMILIES, "peers"], default=[*FAMILIES, "peers"])
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    options = parser.parse_args()
    try:
        import cvxpy  # noqa: F401
    except ImportError:
        raise SystemExit("cvxpy is needed: pip install cvxpy") from None
    study_objectives([name for name in options.only if name != "peers"], options.losses, options.count)
    if "peers" in options.only:
        study_peers(options.count)


if __name__ == "__main__":
    main()
