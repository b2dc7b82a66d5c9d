"""Models of times until an event: every family, certificates, cross-validation, curves, files, bad input."""

import numpy as np
import pandas as pd
import pytest
from oracles.survival import partial_likelihood, signed
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from msmtfl import (
    L12MTL,
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    DirtyMTLCV,
    PartialPooling,
    PartialPoolingCV,
    PretrainedMTL,
    PretrainedMTLCV,
    SharedMTL,
    SharedMTLCV,
    regularization_surface,
)
from msmtfl._paths.validation.folds import read_splits
from msmtfl.metrics import concordance_index
from msmtfl.model_files import load_model, save_model

SLOW = pytest.param(PretrainedMTL, marks=pytest.mark.slow)
FITS = (MSMTFL, L12MTL, DirtyMTL, SharedMTL, PartialPooling, SLOW)
SEARCHES = (MSMTFLCV, L12MTLCV, DirtyMTLCV, SharedMTLCV, PartialPoolingCV, PretrainedMTLCV)


def make(m=3, n=40, d=5, ties=True, seed=0):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    time, censored = rng.exponential(np.exp(-X[:, 0] + 0.5 * X[:, 1])), rng.exponential(2.0, m * n)
    event = time <= censored
    time = np.minimum(time, censored)
    return X, np.column_stack([np.ceil(10 * time) if ties else time, event]), task


def loss_of(model, X, y, task):
    """Half of what the formula says of the loss, by the definition."""
    coef = np.atleast_2d(model.coef_)
    total = 0.0
    for i, label in enumerate(model.tasks_):
        at = task == label
        total += partial_likelihood(signed(*y[at].T), np.ones(at.sum()), X[at] @ coef[i]) / (len(coef) * at.sum())
    return float(total)


@pytest.mark.parametrize("cls", FITS)
def test_every_family_is_certified(cls):
    X, y, task = make()
    model = cls(loss="cox").fit(X, y, task=task)
    assert model.converged_
    assert 0.0 <= model.dual_gap_ <= 1e-8
    assert model.score(X, y, task=task) > 0.7
    np.testing.assert_array_equal(model.intercept_, 0.0)


@pytest.mark.parametrize("loss", ["cox", "cox(breslow)"])
@pytest.mark.parametrize(
    ("model", "penalty"),
    [
        (MSMTFL(0.05, np.inf), lambda W: 0.05 * np.abs(W).sum()),
        (L12MTL(0.05), lambda W: 0.05 * np.sqrt((W**2).sum(axis=0)).sum()),
        (MSMTFL(0.05, np.inf, l1_ratio=0.0), lambda W: 0.025 * (W**2).sum()),
    ],
    ids=["lasso", "l12", "ridge"],
)
def test_a_general_optimiser_finds_nothing_better(model, penalty, loss):
    X, y, task = make(m=2, n=25, d=3)
    model.set_params(loss=loss).fit(X, y, task=task)
    rule = "breslow" if "breslow" in loss else "efron"

    def objective(w):
        W = w.reshape(2, 3)
        parts = (partial_likelihood(signed(*y[task == i].T), np.ones(25), X[task == i] @ W[i], rule) for i in (0, 1))
        return float(sum(parts)) * 2.0 / (2 * 25) + penalty(W)

    best = minimize(objective, model.coef_.ravel(), method="Powell", options={"xtol": 1e-8, "ftol": 1e-12})
    assert objective(model.coef_.ravel()) == pytest.approx(model.objective_, rel=1e-10)
    assert model.objective_ <= best.fun + 1e-8


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_without_a_penalty_it_is_statsmodels(ties):
    phreg = pytest.importorskip("statsmodels.duration.hazard_regression").PHReg
    X, y, _ = make(m=1, n=120)
    model = MSMTFL(1.0, np.inf, loss=f"cox({ties})", penalty_factors=np.zeros(5)).fit(X, y)
    other = phreg(y[:, 0], X, status=y[:, 1], ties=ties).fit(disp=0, tol=1e-12)
    np.testing.assert_allclose(model.coef_, other.params, atol=1e-8)
    if ties == "breslow":
        (time, event), e = y.T, np.exp(X @ model.coef_)
        at = model.baseline_hazard_["time"]
        steps = [((time == t) & (event == 1)).sum() / e[time >= t].sum() for t in at]
        np.testing.assert_allclose(
            model.baseline_hazard_["log_cumulative_hazard"], np.log(np.cumsum(steps)), atol=1e-10
        )


@pytest.mark.parametrize(
    "cls", [pytest.param(cls, marks=[] if cls in (MSMTFLCV, L12MTLCV) else pytest.mark.slow) for cls in SEARCHES]
)
def test_searches_choose_by_held_out_deviances(cls):
    X, y, task = make(m=2, n=30, d=3)
    options = {"lams": 8} if cls in (MSMTFLCV, L12MTLCV) else {}
    model = cls(cv=2, loss="cox", **options).fit(X, y, task=task)
    assert "test_deviance" in model.cv_results_
    assert model.dual_gap_ <= model.tol
    assert ((model.concordance_ > 0.6) & (model.concordance_ <= 1.0)).all()
    with pytest.raises(ValueError, match="held-out deviances"):
        cls(loss="cox", scoring="r2").fit(X, y, task=task)


def test_held_out_deviances_are_differences_of_partial_likelihoods():
    X, y, task = make(m=2, n=20, d=3)
    search = MSMTFLCV(lams=4, thetas=[np.inf], cv=3, loss="cox").fit(X, y, task=task)
    data = search._read(X, y, task, None)
    splits = read_splits(3, X, y, None, data, 0)
    at = np.flatnonzero(task == 1)
    for f, split in enumerate(splits):
        fold = MSMTFL(search.lams_[2], np.inf, loss="cox").fit(X[split.train], y[split.train], task=task[split.train])
        y_i, train, eta = signed(*y[at].T), split.train[at], X[at] @ fold.coef_[1]

        def raw(rows, y_i=y_i, eta=eta):
            """Minus the logarithm of the partial likelihood itself."""
            flat = partial_likelihood(y_i[rows], np.ones(rows.sum()), eta[rows])
            _, count = np.unique(y_i[rows][~np.signbit(y_i[rows])], return_counts=True)
            return flat + sum(np.log(np.arange(1, k + 1)).sum() for k in count)

        lost = 2.0 * float(raw(np.ones(len(at), dtype=bool)) - raw(train)) / (~train).sum()
        assert search.cv_results_["test_deviance"][2][f, 1] == pytest.approx(lost, rel=1e-7)


def test_folds_deal_out_events_and_tasks():
    X, y, task = make(m=3, n=20)
    y[:, 1] = np.arange(60) % 20 < 4
    data = MSMTFL(loss="cox")._read(X, y, task, None)
    for split in read_splits(4, X, y, None, data, 0):
        np.testing.assert_array_equal(np.bincount(task[split.test]), 5)
        np.testing.assert_array_equal(np.bincount(task[split.test], y[split.test, 1]), 1)


def test_survival_curves_fall_by_task_and_survive_a_file(tmp_path):
    X, y, task = make()
    labels = np.array(["a", "b", "c"], dtype=object)[task]
    model = L12MTL(0.05, loss="cox").fit(X, y, task=labels)
    curves = model.predict_survival_function(X, task=labels)
    assert curves.shape == (120, len(np.unique(y[y[:, 1] == 1, 0])))
    assert (np.diff(curves, axis=1) <= 0).all()
    assert ((curves > 0) & (curves <= 1)).all()
    np.testing.assert_array_equal(model.predict_survival_function(X, task=labels, times=[0.0]), 1.0)
    model.add_task(X[:30], y[:30], "d")
    assert model.predict_survival_function(X[:2], task=["d", "d"], times=[1.0, 9.0]).shape == (2, 2)
    save_model(model, tmp_path / "model.msmtfl")
    again = load_model(tmp_path / "model.msmtfl")
    np.testing.assert_array_equal(
        again.predict_survival_function(X, task=labels), model.predict_survival_function(X, task=labels)
    )
    model.set_params(unknown_task="mean")
    with (
        pytest.raises(ValueError, match="baseline hazards are not known"),
        pytest.warns(UserWarning, match="not in the training"),
    ):
        model.predict_survival_function(X[:1], task=["e"])
    assert not hasattr(L12MTL(), "predict_survival_function")


def test_forms_of_y():
    X, y, task = make()
    model = MSMTFL(0.05, np.inf, loss="cox")
    coef = model.fit(X, y, task=task).coef_
    structured = np.array(list(zip(y[:, 1] > 0, y[:, 0], strict=True)), dtype=[("event", bool), ("time", float)])
    frame = pd.DataFrame({"died": y[:, 1] > 0, "days": y[:, 0]})
    for other in (structured, frame, frame[["days", "died"]], signed(*y.T), y.tolist()):
        np.testing.assert_array_equal(model.fit(X, other, task=task).coef_, coef)
    surface = regularization_surface(X, structured, task=task, loss="cox", lams=[0.05], thetas=[np.inf])
    np.testing.assert_allclose(surface.coef(0, 0), coef, atol=1e-9)


def test_identities():
    X, y, task = make()
    model = MSMTFL(0.05, np.inf, loss="cox").fit(X, y, task=task)
    twice = MSMTFL(0.05, np.inf, loss="cox(breslow)").fit(np.vstack([X, X]), np.vstack([y, y]), task=np.tile(task, 2))
    weighted = MSMTFL(0.05, np.inf, loss="cox(breslow)").fit(X, y, task=task, sample_weight=np.full(120, 2.0))
    np.testing.assert_allclose(weighted.coef_, twice.coef_, atol=1e-8)
    later = np.column_stack([np.exp(y[:, 0] / 50), y[:, 1]])  # only the order of times counts
    np.testing.assert_allclose(MSMTFL(0.05, np.inf, loss="cox").fit(X, later, task=task).coef_, model.coef_, atol=1e-10)
    moved = MSMTFL(0.05, np.inf, loss="cox").fit(X + 100.0, y, task=task, offset=np.where(task == 1, 5.0, 0.0))
    np.testing.assert_allclose(moved.coef_, model.coef_, atol=1e-8)  # levels make no difference
    np.testing.assert_allclose(
        MSMTFL(0.05, np.inf, loss="cox", fit_intercept=False).fit(X, y, task=task).coef_, model.coef_
    )
    known = 0.3 * X[:, 0]
    beside = MSMTFL(1.0, np.inf, loss="cox", penalty_factors=np.zeros(5)).fit(X, y, task=task, offset=known)
    plain = MSMTFL(1.0, np.inf, loss="cox", penalty_factors=np.zeros(5)).fit(X, y, task=task)
    np.testing.assert_allclose(beside.coef_ + np.array([0.3, 0, 0, 0, 0]), plain.coef_, atol=1e-7)


@pytest.mark.parametrize("cls", FITS)
def test_tasks_with_few_events_have_a_finite_fit(cls):
    X, y, task = make()
    y[task == 1, 1] = 0  # nobody
    y[task == 2, 0] = 7.0  # all at once
    model = cls(loss="cox").fit(X, y, task=task)
    assert np.isfinite(model.coef_).all()
    assert model.dual_gap_ <= model.tol


def test_a_free_feature_that_orders_the_events_is_named():
    X, y, task = make(m=2, n=12)
    y[:, 0], y[:, 1] = 10.0 - X[:, 2], 1
    model = MSMTFL(0.05, np.inf, loss="cox", penalty_factors=[1, 1, 0, 1, 1])
    with pytest.warns(ConvergenceWarning, match="x2"):
        model.fit(X, y, task=task)
    penalised = MSMTFL(0.05, np.inf, loss="cox").fit(X, y, task=task)
    assert penalised.dual_gap_ <= penalised.tol


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([[1.0, 2.0]] * 4, "row 0 of y holds 2"),
        ([[-1.0, 1.0]] * 4, "times must be at least 0"),
        ([[np.nan, 1.0]] * 4, "times must be finite; row 0"),
        ([[1.0, 1.0, 1.0]] * 4, "two columns"),
        (None, "needs y"),
        (np.zeros(4, dtype=[("a", float), ("b", float)]), "exactly one must hold booleans"),
    ],
)
def test_bad_targets_are_refused_in_words(y, words):
    with pytest.raises(ValueError, match=words):
        MSMTFL(loss="cox").fit(np.eye(4), y)


def test_what_has_no_meaning_is_refused():
    X, y, task = make()
    with pytest.raises(ValueError, match="baseline hazard of its own"):
        MSMTFL(loss="cox", intercepts="shrunk").fit(X, y, task=task)
    with pytest.raises(ValueError, match=r"cox\(efron\)"):
        MSMTFL(loss="cox(exact)").fit(X, y, task=task)
    with pytest.raises(ValueError, match="predict_survival_function"):
        MSMTFL(loss="cox").fit(X, y, task=task).predict_interval(X, task=task)


def test_concordance_is_that_of_all_pairs():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 30))
        time, event, f = rng.integers(0, 9, n).astype(float), rng.random(n) < 0.6, rng.integers(0, 7, n).astype(float)
        later = (time[None] > time[:, None]) | ((time[None] == time[:, None]) & ~event[None])
        pairs = event[:, None] & later
        right = (f[:, None] > f[None]) + 0.5 * (f[:, None] == f[None])
        expected = (pairs * right).sum() / pairs.sum() if pairs.any() else np.nan
        assert concordance_index(np.column_stack([time, event]), f) == pytest.approx(expected, nan_ok=True)
