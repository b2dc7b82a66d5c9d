"""l1_ratio: the share of a penalty that is not a ridge."""

import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import ElasticNet, MultiTaskElasticNet, Ridge

from msmtfl import (
    L12MTL,
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    DirtyMTLCV,
    LassoMTL,
    LassoMTLCV,
    Moments,
    MSMTFLClassifier,
    MSMTFLClassifierCV,
    SharedMTL,
    SharedMTLCV,
    regularization_surface,
)
from msmtfl._paths.searched import fold_scores_of
from msmtfl._paths.validation.other_folds import points_without
from msmtfl.formulas import formula
from msmtfl.model_files import load_model, save_model

SINGLE = [LassoMTL(0.2), MSMTFL(0.1, 0.5), L12MTL(0.3), DirtyMTL(0.1, 0.2), SharedMTL(0.2, 0.1)]
SEARCHES = [LassoMTLCV, MSMTFLCV, L12MTLCV, DirtyMTLCV, SharedMTLCV]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def tasks(seed=0, m=3, n=25, d=8):
    """Tasks with unequal numbers of samples and columns of unequal scales."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), n + 3 * np.arange(m))
    X = rng.standard_normal((len(task), d)) * rng.uniform(0.5, 2.0, d) + rng.normal(0.0, 1.0, d)
    y = 2.0 * X[:, 0] - X[:, 3] + 0.5 * task * X[:, 1] + rng.standard_normal(len(task)) + task
    return X, y, task


def value(model, X, y, task, coef, *, lams=None):
    """Objective (1) with the ridge at coefficients, by its definition."""
    m, total = len(np.unique(task)), 0.0
    for i in range(m):
        r = (y - y[task == i].mean())[task == i] - (X[task == i] - X[task == i].mean(axis=0)) @ coef[i]
        total += r @ r / (m * (task == i).sum())
    return total


class TestOneFit:
    @pytest.mark.parametrize("ratio", [0.7, 0.1, 0.0])
    @pytest.mark.parametrize("lam", [0.03, 0.5])
    def test_a_lasso_is_elastic_net_per_task(self, ratio, lam):
        X, y, task = tasks()
        model = LassoMTL(lam, l1_ratio=ratio).fit(X, y, task=task)
        assert model.dual_gap_ <= 1e-10
        assert model.converged_
        assert model.certificate_.unique
        for i, coef in enumerate(model.coef_):
            rows = task == i
            alpha = 3 * lam / 2
            other = ElasticNet(alpha=alpha, l1_ratio=ratio, tol=1e-14, max_iter=10**6)
            if ratio == 0.0:
                other = Ridge(alpha=alpha * rows.sum())
            other.fit(X[rows], y[rows])
            np.testing.assert_allclose(coef, other.coef_, rtol=0, atol=1e-8)
            assert model.intercept_[i] == pytest.approx(other.intercept_, abs=1e-8)

    @pytest.mark.parametrize("model", SINGLE, ids=lambda model: type(model).__name__)
    @pytest.mark.parametrize("ratio", [0.6, 0.05, 0.0])
    def test_no_other_coefficients_are_better(self, model, ratio):
        """The objective is what the formula says, and rises in all directions around the solution."""
        X, y, task = tasks()
        model = type(model)(**model.get_params() | {"l1_ratio": ratio}).fit(X, y, task=task)
        assert model.dual_gap_ <= 1e-10
        assert model.certificate_.critical <= 1e-10
        rng, at = np.random.default_rng(1), _objective(model, X, y, task)
        assert at(*_point(model)) == pytest.approx(model.objective_, rel=1e-10)
        for size in (1e-2, 1e-4):
            for _ in range(40):
                moved = [part + size * rng.standard_normal(part.shape) for part in _point(model)]
                assert at(*moved) >= model.objective_ * (1.0 - 1e-13)

    @pytest.mark.parametrize("model", SINGLE, ids=lambda model: type(model).__name__)
    def test_forms_of_the_data_make_no_difference(self, model):
        X, y, task = tasks()
        model = type(model)(**model.get_params() | {"l1_ratio": 0.4, "standardize": True})
        dense = model.fit(X, y, task=task).coef_
        sparse = model.fit(sp.csr_array(X), y, task=task)
        np.testing.assert_allclose(sparse.coef_, dense, rtol=0, atol=1e-9)
        moments = Moments().update(X, y, task=task)
        other = type(model)(**model.get_params()).fit_moments(moments) if hasattr(model, "fit_moments") else None
        if other is not None:
            np.testing.assert_allclose(other.coef_, dense, rtol=0, atol=1e-9)
            assert other.dual_gap_ <= 1e-10

    def test_l12_is_an_elastic_net_of_many_tasks(self):
        rng = np.random.default_rng(4)
        X = rng.standard_normal((30, 6))
        Y = X[:, :2] @ rng.standard_normal((2, 3)) + 0.3 * rng.standard_normal((30, 3))
        model = L12MTL(0.2, l1_ratio=0.4).fit(X, Y)
        other = MultiTaskElasticNet(alpha=3 * 0.2 / 2, l1_ratio=0.4, tol=1e-14, max_iter=10**6).fit(X, Y)
        np.testing.assert_allclose(model.coef_, other.coef_, rtol=0, atol=1e-8)

    def test_many_more_features_than_samples(self):
        rng = np.random.default_rng(3)
        X, task = rng.standard_normal((40, 600)), np.repeat([0, 1], 20)
        y = X[:, :5].sum(axis=1) + 0.1 * rng.standard_normal(40)
        model = LassoMTL(0.05, l1_ratio=0.3).fit(X, y, task=task)
        assert model.dual_gap_ <= 1e-10
        assert (np.count_nonzero(model.coef_, axis=1) > 20).all()
        other = ElasticNet(alpha=0.05, l1_ratio=0.3, tol=1e-14, max_iter=10**6).fit(X[:20], y[:20])
        np.testing.assert_allclose(model.coef_[0], other.coef_, rtol=0, atol=1e-8)

    def test_factors_are_squared_and_standardising_is_in_them(self):
        X, y, task = tasks()
        factors = np.array([0.0, 0.5, 1.0, 2.0, np.inf, 1.0, 1.0, 1.0])
        model = LassoMTL(0.3, l1_ratio=0.5, penalty_factors=factors, standardize=True).fit(X, y, task=task)
        assert (model.coef_[:, 4] == 0.0).all()
        for i in range(3):
            Z, z, w = X[task == i], y[task == i], model.coef_[i]
            Z, f = Z - Z.mean(axis=0), np.where(np.isinf(factors), 0.0, factors) * Z.std(axis=0)
            slope = 2.0 / (3 * len(Z)) * Z.T @ (z - z.mean() - Z @ w) - 0.5 * 0.3 * f**2 * w
            used = w != 0.0
            np.testing.assert_allclose(slope[used], 0.5 * 0.3 * (f * np.sign(w))[used], atol=1e-10)
            others = ~used & np.isfinite(factors)
            assert (np.abs(slope[others]) <= 0.5 * 0.3 * f[others] + 1e-10).all()

    def test_the_unit_of_theta_has_the_ratio_in_it(self):
        X, y, task = tasks()
        surface = regularization_surface(X, y, task=task, lams=[0.1], theta_ratios=[2.0], l1_ratio=0.25)
        plain = regularization_surface(X, y, task=task, lams=[0.1], theta_ratios=[2.0])
        np.testing.assert_allclose(surface.thetas, 0.25 * plain.thetas)

    def test_above_lam_max_all_is_zero(self):
        X, y, task = tasks()
        for kind in (LassoMTL, L12MTL, SharedMTL):
            top = kind(l1_ratio=0.5).fit(X, y, task=task).lam_max_
            names = ("lam_common", "lam_deviation") if kind is SharedMTL else ("lam",)
            at = dict(zip(names, (top, top / np.sqrt(3)), strict=False))
            assert not kind(**{k: 1.0001 * v for k, v in at.items()}, l1_ratio=0.5).fit(X, y, task=task).coef_.any()
            assert kind(**{k: 0.99 * v for k, v in at.items()}, l1_ratio=0.5).fit(X, y, task=task).coef_.any()
        bare = LassoMTL().fit(X, y, task=task).lam_max_
        assert LassoMTL(l1_ratio=0.0).fit(X, y, task=task).lam_max_ == pytest.approx(1000 * bare)

    def test_copies_of_a_column_share_their_coefficient(self):
        """What a lasso leaves open a ridge decides, and it is certified to be unique."""
        X, y, task = tasks()
        X = np.column_stack([X, X[:, 0]])
        for model in (LassoMTL(0.1, l1_ratio=0.5), L12MTL(0.1, l1_ratio=0.5), MSMTFL(0.05, 0.3, l1_ratio=0.5)):
            model.fit(X, y, task=task)
            np.testing.assert_allclose(model.coef_[:, 0], model.coef_[:, -1], atol=1e-8)
            assert model.certificate_.unique
            assert (model.coef_[:, 0] > 0.1).all()

    def test_no_warning_of_features_that_only_a_ridge_holds(self):
        rng = np.random.default_rng(6)
        X, task = rng.standard_normal((30, 12)), np.repeat([0, 1, 2], 10)
        y = X.sum(axis=1)
        for model in (MSMTFL(0.01, 0.01, l1_ratio=0.5), LassoMTL(0.1, l1_ratio=0.0)):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert model.fit(X, y, task=task).converged_
        with pytest.warns(UserWarning, match="un-penalised"):
            MSMTFL(0.01, 0.01).fit(X, y, task=task)

    def test_a_task_added_later_has_the_ridge_of_the_others(self):
        X, y, task = tasks()
        model = LassoMTL(0.1, l1_ratio=0.5).fit(X, y, task=task)
        more = np.random.default_rng(5).standard_normal((30, 8))
        target = more[:, 0] + 0.1 * more[:, 1]
        model.add_task(more, target, "new")
        other = ElasticNet(alpha=3 * 0.1 / 2, l1_ratio=0.5, tol=1e-14, max_iter=10**6).fit(more, target)
        np.testing.assert_allclose(model.coef_[-1], other.coef_, atol=1e-8)

    @pytest.mark.parametrize("bad", [-0.1, 1.5, np.nan, "half", None, True, [0.5]])
    def test_a_ratio_that_is_none(self, bad):
        X, y, task = tasks()
        for model in SINGLE:
            with pytest.raises((TypeError, ValueError), match="l1_ratio must be"):
                type(model)(l1_ratio=bad).fit(X, y, task=task)


def _point(model):
    if isinstance(model, SharedMTL):
        return model.coef_common_, model.coef_deviation_
    if isinstance(model, DirtyMTL):
        return model.coef_specific_, model.coef_shared_
    return (model.coef_,)


def _objective(model, X, y, task):
    """What the documentation says is minimised, as a function of `_point`."""
    a = model.l1_ratio

    def at(*parts):
        if isinstance(model, SharedMTL):
            b, V = parts
            c, v = model.lam_common_, model.lam_deviation_
            norms = c * np.abs(b).sum() + v * np.abs(V).sum()
            return value(model, X, y, task, b + V) + a * norms + (1 - a) / 2 * (c * b @ b + v * np.sum(V**2))
        W = sum(parts)
        if isinstance(model, DirtyMTL):
            S, B = parts
            norms, lam = model.lam_s_ * np.abs(S).sum() + model.lam_b_ * np.abs(B).max(axis=0).sum(), model.lam_s_
        elif isinstance(model, L12MTL):
            norms, lam = model.lam_ * np.sqrt((W**2).sum(axis=0)).sum(), model.lam_
        else:
            theta = getattr(model, "theta_", np.inf)
            norms, lam = model.lam_ * np.minimum(np.abs(W).sum(axis=0), theta).sum(), model.lam_
        return value(model, X, y, task, W) + a * norms + (1 - a) * lam / 2 * np.sum(W**2)

    return at


class TestOtherLosses:
    @pytest.mark.parametrize("ratio", [0.5, 0.0])
    def test_logistic_regression_with_an_elastic_net(self, ratio):
        """Its conditions of optimality, by their definition."""
        X, y, task = tasks(n=40)
        y, lam = (y > np.median(y)).astype(int), 0.05
        model = MSMTFLClassifier(lam, np.inf, l1_ratio=ratio).fit(X, y, task=task)
        assert model.dual_gap_ <= 1e-10
        for i, w in enumerate(model.coef_):
            Z, z = X[task == i], y[task == i]
            left = z - 1.0 / (1.0 + np.exp(-Z @ w - model.intercept_[i]))
            slope = 2.0 / (3 * len(Z)) * Z.T @ left - (1.0 - ratio) * lam * w
            assert abs(left.sum()) <= 1e-8
            np.testing.assert_allclose(slope[w != 0.0], ratio * lam * np.sign(w[w != 0.0]), atol=1e-10)
            assert (np.abs(slope) <= ratio * lam + 1e-10).all()

    @pytest.mark.parametrize("loss", ["poisson", "huber"])
    @pytest.mark.parametrize("ratio", [0.5, 0.0])
    @pytest.mark.parametrize("theta", [np.inf, 0.3])
    def test_certified(self, loss, ratio, theta):
        X, y, task = tasks()
        y = np.random.default_rng(2).poisson(np.exp(np.clip(y / 4, -3, 3))) if loss == "poisson" else y
        model = MSMTFL(0.05, theta, loss=loss, l1_ratio=ratio).fit(X, y, task=task)
        assert model.dual_gap_ <= 1e-10
        assert model.certificate_.critical <= 1e-9
        assert model.converged_

    def test_classes_that_free_features_separate_have_a_fit(self):
        """Without a ridge no finite coefficients minimise the loss of the second stage."""
        rng = np.random.default_rng(0)
        X, task = rng.standard_normal((60, 3)), np.repeat([0, 1], 30)
        y = (X[:, 0] > 0).astype(int)
        model = MSMTFLClassifier(0.02, 0.1, l1_ratio=0.5).fit(X, y, task=task)
        assert model.converged_
        assert model.dual_gap_ <= 1e-10
        assert np.isfinite(model.coef_).all()


class TestSearches:
    @pytest.mark.parametrize("kind", SEARCHES, ids=lambda kind: kind.__name__)
    @pytest.mark.parametrize("ratio", [0.5, 0.0])
    def test_the_point_is_what_a_fit_gives(self, kind, ratio):
        X, y, task = tasks()
        model = kind(lams=8, cv=3, l1_ratio=ratio).fit(X, y, task=task)
        assert np.nanmax(model.surface_.dual_gap) <= 1e-10
        assert model.l1_ratio_ == ratio
        names = [
            name
            for name in ("lam", "theta", "lam_s", "lam_b", "lam_common", "lam_deviation")
            if hasattr(model, name + "_")
        ]
        fit = {LassoMTLCV: LassoMTL, MSMTFLCV: MSMTFL, L12MTLCV: L12MTL, DirtyMTLCV: DirtyMTL, SharedMTLCV: SharedMTL}[
            kind
        ]
        known = fit().get_params()
        given = {name: getattr(model, name + "_") for name in names if name in known}
        if kind is MSMTFLCV:
            given |= {"lam_entry": model.lam_entry_, "theta_entry": model.theta_entry_}
        alone = fit(**given, l1_ratio=ratio).fit(X, y, task=task)
        np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-8)
        assert model.surface_.objective[model.best_point_] == pytest.approx(alone.objective_, rel=1e-10)

    def test_held_out_errors_are_those_of_fits_to_the_training_part(self):
        X, y, task = tasks()
        lams, rows = np.array([0.3, 0.05]), np.arange(len(y))
        folds = [(rows[rows % 3 != f], rows[rows % 3 == f]) for f in range(3)]
        model = LassoMTLCV(lams=lams, cv=folds, l1_ratio=0.4, scoring="neg_mse").fit(X, y, task=task)
        for k, lam in enumerate(lams):
            for f, (train, test) in enumerate(folds):
                part = LassoMTL(lam, l1_ratio=0.4).fit(X[train], y[train], task=task[train])
                score = -np.mean((part.predict(X[test], task=task[test]) - y[test]) ** 2)
                assert model.cv_results_[f"split{f}_test_score"][k] == pytest.approx(score, rel=1e-9)

    @pytest.mark.parametrize("kind", SEARCHES, ids=lambda kind: kind.__name__)
    def test_a_list_chooses_the_best_of_its_ratios(self, kind):
        X, y, task = tasks()
        both = kind(lams=6, cv=3, l1_ratio=[0.2, 1.0]).fit(X, y, task=task)
        alone = [kind(lams=6, cv=3, l1_ratio=ratio).fit(X, y, task=task) for ratio in (0.2, 1.0)]
        best = max(alone, key=lambda one: one.best_score_)
        np.testing.assert_allclose(both.l1_ratio_scores_, [one.best_score_ for one in alone], rtol=1e-8)
        assert both.l1_ratio_ == best.l1_ratio
        assert both.best_score_ == pytest.approx(best.best_score_, rel=1e-8)
        np.testing.assert_allclose(both.coef_, best.coef_, atol=1e-8)
        assert set(both.cv_results_["l1_ratio"]) == {both.l1_ratio_}
        assert both.complete_surface(X, y, task=task).surface_.l1_ratio == both.l1_ratio_ if kind is MSMTFLCV else True

    @pytest.mark.parametrize("selection", ["min", "1se"])
    def test_folds_choose_the_ratio_for_each_other_as_well(self, selection, tmp_path):
        """Else the score of a model that chose among many ratios is that of one who knew the best."""
        X, y, task = tasks()
        y = y + 4.0 * np.random.default_rng(0).standard_normal(len(y))  # so that folds differ
        ratios = [0.05, 0.3, 0.6, 1.0]
        model = LassoMTLCV(lams=6, cv=4, l1_ratio=ratios, selection=selection).fit(X, y, task=task)
        alone = [LassoMTLCV(lams=6, cv=4, l1_ratio=r, selection=selection).fit(X, y, task=task) for r in ratios]
        scores = np.array([fold_scores_of(one) for one in alone])  # (ratios, folds, points)
        expected = []
        for f in range(4):
            points = [points_without(one)[f] for one in alone]
            others = [np.delete(of_ratio, f, axis=0).mean(axis=0).max() for of_ratio in scores]
            best = int(np.argmax(others))
            expected.append(scores[best, f, points[best]])
        assert model.cross_fitted_score_ == pytest.approx(np.mean(expected), rel=1e-8)
        assert model.cross_fitted_score_ != pytest.approx(alone[ratios.index(model.l1_ratio_)].cross_fitted_score_)
        save_model(model, tmp_path / "model.msmtfl")
        assert load_model(tmp_path / "model.msmtfl").cross_fitted_score_ == model.cross_fitted_score_

    def test_a_list_of_a_classifier(self):
        X, y, task = tasks(n=40)
        y = (y > np.median(y)).astype(int)
        model = MSMTFLClassifierCV(lams=5, cv=3, l1_ratio=[0.3, 1.0]).fit(X, y, task=task)
        assert model.l1_ratio_ == [0.3, 1.0][int(np.argmax(model.l1_ratio_scores_))]

    @pytest.mark.parametrize("bad", [[], [0.5, 2.0], ["a"], "a"])
    def test_lists_that_are_none(self, bad):
        X, y, task = tasks()
        with pytest.raises((TypeError, ValueError), match="l1_ratio"):
            LassoMTLCV(l1_ratio=bad).fit(X, y, task=task)

    def test_degrees_of_freedom_of_a_ridge(self):
        X, y, task = tasks()
        model = LassoMTLCV(lams=[0.5], l1_ratio=0.0, selection="aic").fit(X, y, task=task)
        found = model.surface_.degrees(np.array([0]))[0]
        for i in range(3):
            Z = X[task == i] - X[task == i].mean(axis=0)
            G = Z.T @ Z
            hat = np.linalg.solve(G + 0.5 * 3 * len(Z) * 0.5 * np.eye(8), G)
            assert found[i] == pytest.approx(np.trace(hat), rel=1e-8)


class TestAround:
    def test_files_keep_it(self, tmp_path):
        X, y, task = tasks()
        for model in (LassoMTL(0.1, l1_ratio=0.5), LassoMTLCV(lams=4, cv=3, l1_ratio=[0.5, 0.9])):
            save_model(model.fit(X, y, task=task), tmp_path / "model.msmtfl")
            read = load_model(tmp_path / "model.msmtfl")
            assert read.l1_ratio == model.l1_ratio
            assert formula(read) == formula(model)
        assert read.l1_ratio_ == model.l1_ratio_

    def test_formula(self):
        X, y, task = tasks()
        assert "0.25 [λ Σⱼ ‖wʲ‖₁]  +  0.75 [λ/2 Σ wⱼᵢ²]" in formula(LassoMTL(l1_ratio=0.25).fit(X, y, task=task))
        assert "‖²  +  λ/2 Σ wⱼᵢ²," in formula(LassoMTL(l1_ratio=0.0).fit(X, y, task=task))
        shared = formula(SharedMTL(l1_ratio=0.5).fit(X, y, task=task))
        assert "0.5 [λ_c/2 Σ bⱼ²  +  λ_d/2 Σ vⱼᵢ²]" in shared

    def test_command(self, tmp_path, capsys):
        from typer.testing import CliRunner

        from msmtfl.cli import app

        X, y, task = tasks()
        table = np.column_stack([X, y, task])
        names = ",".join([*(f"x{j}" for j in range(8)), "y", "task"])
        np.savetxt(tmp_path / "t.csv", table, delimiter=",", header=names, comments="")

        def run(*more):
            line = ["fit", str(tmp_path / "t.csv"), "-y", "y", "-t", "task", *more]
            return CliRunner().invoke(app, line)

        out = tmp_path / "m.msmtfl"
        done = run(
            "--model", "lasso", "--lam", "0.1", "--l1-ratio", "0.5", "--no-standardize", "--out", str(out), "--json"
        )
        assert done.exit_code == 0, done.output
        json.loads(done.stdout)
        alone = LassoMTL(0.1, l1_ratio=0.5).fit(X, y, task=task)
        np.testing.assert_allclose(load_model(out).coef_, alone.coef_, atol=1e-8)
        assert run("--model", "lasso", "--l1-ratio", "0.5,1", "--cv", "3", "--quiet", "--out", str(out)).exit_code == 0
        assert load_model(out).l1_ratio == [0.5, 1.0]
        for bad in ("2", "a"):
            failed = run("--model", "lasso", "--l1-ratio", bad)
            assert failed.exit_code == 2
            assert "--l1-ratio must" in failed.output
