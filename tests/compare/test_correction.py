"""One search for every family: each fold at the point that the others choose, and errors corrected for having chosen."""

import json
import threading
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import RepeatedKFold

from msmtfl import L12MTLCV, MSMTFL, MSMTFLCV, LassoMTL, LassoMTLCV, MSMTFLClassifierCV, MultiTaskAuto, compare_models
from msmtfl._estimators.baselines.lasso import PooledLassoCV
from msmtfl._estimators.baselines.logistic import PooledLogisticCV
from msmtfl._estimators.baselines.ridge import PooledRidgeCV, RidgePerTaskCV
from msmtfl._estimators.grid_search import GridSearch
from msmtfl._paths.searched import fold_scores_of
from msmtfl._paths.validation.choice import in_order
from msmtfl._paths.validation.held_out import Split
from msmtfl._paths.validation.other_folds import points_without
from msmtfl.compare import run
from msmtfl.compare.choice import correction, points
from msmtfl.compare.choice.choosing import Choice
from msmtfl.compare.choice.correction import Bootstrap, corrected
from msmtfl.compare.choice.points import Points, Record
from msmtfl.compare.comparison import Comparison
from msmtfl.compare.measures import Numbers
from msmtfl.compare.run import run_comparison
from msmtfl.metrics import nmse
from msmtfl.model_files import load_model, save_model
from msmtfl.warnings import GridEndWarning


def make_data(seed=0, sizes=(30, 40, 20), d=8, noise=1.0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.standard_normal((len(task), d))
    return X, X[:, 0] - 0.5 * X[:, 1] * (task + 1) + noise * rng.standard_normal(len(task)), task


def searches():
    return {
        "lasso": LassoMTLCV(lams=8),
        "msmtfl": MSMTFLCV(lams=6),
        "l12": L12MTLCV(lams=6),
        "simple": MSMTFLCV(lams=6, selection="1se"),
    }


# ------------------------------------------------------------------ one search each


def test_every_fold_is_predicted_at_the_point_that_the_others_choose():
    X, y, task = make_data()
    models = {"search": MSMTFLCV(lams=6), "other": LassoMTL(0.1)}
    result = compare_models(X, y, task=task, models=models, cv=4)
    model = MSMTFLCV(lams=6, cv=4).fit(X, y, task=task)
    splits = run.read_splits(4, X, y, None, run.read_training(X, y, task=task, task_column=None, sample_weight=None), 0)
    prediction = np.full(len(y), np.nan)
    for split, p in zip(splits, points_without(model), strict=True):
        at = {name: float(model.cv_results_[name][p]) for name in ("lam", "theta", "lam_entry", "theta_entry")}
        fitted = MSMTFL(**at).fit(X[split.train], y[split.train], task=task[split.train])
        prediction[split.test] = fitted.predict(X[split.test], task=task[split.test])
    np.testing.assert_allclose(result.nmse_by_task[0], nmse(y, prediction, task=task, average=False), rtol=1e-5)
    assert result.n_features[0] == model.cv_results_["n_rows"][points_without(model)].mean()
    at = model.best_index_
    scores = [model.cv_results_[f"split{f}_test_score"][at] for f in range(4)]
    np.testing.assert_allclose(result.at_choice.error[0], -np.mean(scores), rtol=0.02)  # folds are not quite equal
    assert not result.nested
    assert "folds; held-out nMSE, every fold with the parameters that the other folds choose" in repr(result)


def test_a_search_is_fitted_once_and_is_the_model_that_is_returned(monkeypatch):
    X, y, task = make_data()
    fits, before = [], GridSearch._fit_grid

    def counted(self, problem, *rest, **options):
        fits.append(sum(len(one.y) for one in problem.data.tasks))
        return before(self, problem, *rest, **options)

    monkeypatch.setattr(GridSearch, "_fit_grid", counted)
    model = MultiTaskAuto({"lasso": LassoMTLCV(lams=8), "msmtfl": MSMTFLCV(lams=6)}, cv=4).fit(X, y, task=task)
    assert fits == [90, 90]
    fits.clear()
    alone = clone(model.best_estimator_).fit(X, y, task=task)
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    assert model.best_estimator_.get_params() == alone.get_params()
    fits.clear()
    MultiTaskAuto({"lasso": LassoMTLCV(lams=8), "msmtfl": MSMTFLCV(lams=6)}, cv=4, nested=True).fit(X, y, task=task)
    assert len(fits) == 2 * 4 + 1


def test_nested_fits_are_the_models_own_and_everything_says_so(tmp_path):
    X, y, task = make_data()
    models = {"a": LassoMTLCV(lams=8, cv=3), "b": PooledLassoCV(lams=8, cv=3)}
    result = compare_models(X, y, task=task, models=models, cv=4, nested=True)
    splits = run.read_splits(4, X, y, None, run.read_training(X, y, task=task, task_column=None, sample_weight=None), 0)
    for k, model in enumerate(models.values()):
        prediction = np.full(len(y), np.nan)
        for split in splits:
            fitted = clone(model).fit(X[split.train], y[split.train], task=task[split.train])
            prediction[split.test] = fitted.predict(X[split.test], task=task[split.test])
        np.testing.assert_allclose(result.nmse[k], nmse(y, prediction, task=task))
    assert (result.nested, result.way, result.corrected) == (True, "nested cross-validation", None)
    assert "(nested cross-validation)" in repr(result)
    assert "Corrected" not in repr(result)
    chosen = MultiTaskAuto(models, cv=4, nested=True).fit(X, y, task=task)
    assert chosen.reason_.endswith(" Parameters were chosen by nested cross-validation.")
    save_model(chosen, tmp_path / "a.msmtfl")
    assert load_model(tmp_path / "a.msmtfl").provenance_["choice"]["way"] == "nested cross-validation"
    with pytest.raises(TypeError, match="nested must be True or False"):
        compare_models(X, y, task=task, models=models, nested="yes")


def test_one_fold_has_no_others_to_choose_for_it():
    X, y, task = make_data()
    half = [(np.arange(0, 90, 2), np.arange(1, 90, 2))]
    assert compare_models(X, y, task=task, models=searches(), cv=half).nested


def test_other_scores_than_sums_of_losses_are_left_to_the_model_itself():
    known = {
        "r2": MSMTFLCV(scoring="r2"),
        "ebic": MSMTFLCV(selection="ebic"),
        "deviance": MSMTFLCV(loss="huber", scoring="neg_deviance"),
        "weighted": MSMTFLClassifierCV(class_weight="balanced"),
        "no search": LassoMTL(),
        "a choice per task": RidgePerTaskCV(),
    }
    assert not any(points.searches(model) for model in known.values())
    assert not points.searches(PooledLogisticCV(), 3)  # a choice per class
    assert points.searches(PooledLogisticCV(), 2)
    assert points.searches(PooledRidgeCV())
    able = [*searches().values(), MSMTFLCV(loss="poisson"), MSMTFLCV(scoring="neg_mse"), MSMTFLClassifierCV()]
    assert all(points.searches(model) for model in able)
    X, y, task = make_data()
    both = {"a": MSMTFLCV(lams=4, scoring="r2", cv=2), "b": LassoMTLCV(lams=4)}
    assert np.isfinite(compare_models(X, y, task=task, models=both, cv=3).corrected.best)


@pytest.mark.parametrize("form", ["wide", "weights", "groups", "repeated", "table"])
def test_errors_are_the_cross_fitted_ones_whatever_the_data(form):
    """Means over samples are those over folds where these are equally large."""
    X, y, task = make_data(sizes=(24, 24, 24))
    given, options, cv = {"task": task}, {}, 4
    if form == "wide":
        y, given = np.stack([X[:, 0] + 0.1 * y, X[:, 1]], axis=1) + np.random.default_rng(1).normal(size=(72, 2)), {}
        y[::9, 1] = np.nan
    if form == "weights":
        options["sample_weight"] = np.random.default_rng(0).integers(0, 3, 72).astype(float)
    if form == "groups":
        options["groups"] = np.arange(72) // 2
    if form == "repeated":
        cv = RepeatedKFold(n_splits=4, n_repeats=2, random_state=0)
    models = {"lasso": LassoMTLCV(lams=8), "msmtfl": MSMTFLCV(lams=5)}
    table, column = X, {}
    if form == "table":
        pd = pytest.importorskip("pandas")
        table = pd.DataFrame(X, columns=list("abcdefgh")).assign(town=task)
        given, column = {}, {"task_column": "town"}
    result = compare_models(table, y, models=models, cv=cv, **given, **options, **column)
    for k, model in enumerate(models.values()):
        alone = clone(model).set_params(cv=cv, **column).fit(table, y, **given, **options)
        scores = fold_scores_of(alone)[np.arange(alone.n_splits_), points_without(alone)]
        np.testing.assert_allclose(result.error[k], -scores.mean(), rtol=0.05 if form in ("wide", "weights") else 1e-5)
    assert np.isfinite(result.corrected.best)


def test_classes_are_scored_as_the_search_scores_them():
    X, y, task = make_data(sizes=(40, 40))
    for codes in (y > 0, np.digitize(y, [-0.5, 0.5])):
        models = {
            "lasso": MSMTFLClassifierCV(lams=5, thetas=[np.inf], entry_shares=0),
            "msmtfl": MSMTFLClassifierCV(lams=5),
        }
        found = comparison_of(X, codes, task, models, classify=True)
        for name in models:
            kept = found.points[name]
            entries = np.split(kept.losses, np.cumsum([split.test.sum() for split in found.splits])[:-1], axis=1)
            scores = -np.array([part.mean(axis=1) for part in entries])
            usual = kept.scores > -1.5  # beyond, some losses are bounded
            assert usual.sum() > 8
            np.testing.assert_allclose(scores[usual], kept.scores[usual], rtol=1e-5)
        if found.result.auc is not None:
            assert (found.result.auc > 0.5).all()


class _Found:
    pass


def comparison_of(X, y, task, models, cv=4, **options):
    """A comparison with what it has come from."""
    found, before = _Found(), run._Run.corrected

    def noted(self, result, seed):
        found.points, found.splits = self.points, self.splits
        return before(self, result, seed)

    given = {"task_column": None, "sample_weight": None, "groups": None, "inner_cv": 3, "screen": False} | {
        "classify": None
    }
    given |= {"random_state": 0, "n_jobs": None, "verbose": False, "nested": False}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run._Run, "corrected", noted)
        of_all = run_comparison(X, y, task=task, models=models, cv=cv, **given | options)
    found.result, found.fitted = of_all.comparison, of_all.fitted
    return found


@pytest.mark.parametrize("model", [PooledRidgeCV(), PooledLassoCV(lams=12)], ids=["ridge", "lasso"])
def test_pooled_models_have_the_folds_of_the_comparison_too(model):
    X, y, task = make_data()
    models = {"pooled": model, "lasso": LassoMTLCV(lams=6)}
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    found = comparison_of(X, y, task, models, sample_weight=weight)
    kept, ends = found.points["pooled"], np.cumsum([split.test.sum() for split in found.splits])[:-1]
    weights = [np.concatenate([weight[split.test & (task == i)] for i in range(3)]) for split in found.splits]
    parts = np.split(kept.losses, ends, axis=1)
    scores = -np.array([np.average(part, axis=1, weights=w) for part, w in zip(parts, weights, strict=True)])
    np.testing.assert_allclose(scores, kept.scores, rtol=1e-5)
    totals = [-(part * w).sum(axis=1) for part, w in zip(parts, weights, strict=True)]
    assert kept.chosen == np.argmax(np.sum(totals, axis=0))
    alone = clone(model).set_params(cv=4).fit(X, y, task=task, sample_weight=weight)
    fitted = found.fitted["pooled"]
    np.testing.assert_allclose(fitted.coef_, alone.coef_)  # a number of folds means the same folds
    assert (fitted.cv, fitted._tried) == (4, None)
    assert kept.n_features[kept.chosen] == np.count_nonzero(fitted.coef_[0])


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_pooled_classifiers_of_two_classes_have_them_too(penalty):
    X, y, task = make_data(sizes=(40, 40))
    models = {"pooled": PooledLogisticCV(penalty, lams=6), "lasso": MSMTFLClassifierCV(lams=5, thetas=[np.inf])}
    found = comparison_of(X, y > 0, task, models, classify=True)
    kept = found.points["pooled"]
    parts = np.split(kept.losses, np.cumsum([split.test.sum() for split in found.splits])[:-1], axis=1)
    usual = kept.scores > -1.5
    np.testing.assert_allclose(np.array([-part.mean(axis=1) for part in parts])[usual], kept.scores[usual], rtol=1e-5)
    assert kept.n_features.max() <= 8
    fitted = found.fitted["pooled"]
    alone = clone(models["pooled"]).set_params(cv=4).fit(X, y > 0, task=task)
    np.testing.assert_allclose(fitted.coef_, alone.coef_, rtol=1e-6)
    assert np.isfinite(found.result.auc).all()


def test_points_without_a_score_take_no_part():
    X, y, task = make_data()
    model = MSMTFLCV(lams=6, cv=4).fit(X, y, task=task)
    order = in_order(model)
    assert set(order) == set(np.flatnonzero(model.cv_results_["eligible"]))
    lost = int(order[3])
    for f in range(4):
        model.cv_results_[f"split{f}_test_score"][lost] = np.nan if f == 1 else 0.0
    assert set(in_order(model)) == set(order) - {lost}


def test_models_drop_out_that_are_fitted_fold_by_fold_and_no_search():
    X, y, task = make_data(sizes=(120, 120), noise=0.5)
    models = {
        "lasso": LassoMTLCV(lams=8),
        "weak": LassoMTLCV(lams=[5.0, 4.0]),
        "bad": LassoMTL(5.0),
        "good": LassoMTL(0.01),
    }
    result = compare_models(X, y, task=task, models=models, cv=4, screen=True)
    assert list(result.dropped) == ["bad"]
    assert result.models == ["lasso", "weak", "good"]
    assert len(result.corrected.by_model) == 3


def test_threads_do_not_change_the_result_of_searches():
    X, y, task = make_data()
    models = searches() | {"pooled": PooledRidgeCV()}
    one, two = (compare_models(X, y, task=task, models=models, cv=4, n_jobs=n_jobs) for n_jobs in (None, 2))
    np.testing.assert_array_equal(one.errors, two.errors)
    np.testing.assert_array_equal(one.corrected.by_model, two.corrected.by_model)
    assert (one.corrected.best, one.corrected.chosen) == (two.corrected.best, two.corrected.chosen)


def test_what_the_chosen_search_warns_of_is_said_and_nothing_else():
    X, y, task = make_data(noise=0.1)
    y = y + 100.0
    rough = {"lam_min_ratio": 0.1, "lams": 8}
    models = {"a": LassoMTLCV(**rough), "b": LassoMTLCV(**rough, positive=True)}
    with pytest.warns(GridEndWarning):
        LassoMTLCV(**rough).fit(X, y, task=task)
    compare_models(X, y, task=task, models=models, cv=3)  # a warning would be an error
    with pytest.warns(GridEndWarning) as said:
        MultiTaskAuto(models, cv=3).fit(X, y, task=task)
    assert len(said) == 1


# ------------------------------------------------------------------ what is kept


class Recorded:
    """A search of lassos whose fold is told to a record, at once or lam by lam."""

    def __init__(self, most=2**20):
        X, y, task = make_data()
        self.record = Record(Numbers(), most)
        test = np.arange(90) % 3 == 0
        self.model = LassoMTLCV(lams=40).set_params(cv=[Split(~test, test, self.record), Split(test, ~test)])
        self.model.fit(X, y, task=task)
        weight = np.ones(int(test.sum()))
        self.by_hand = -self.model.cv_results_["split0_test_score"], weight
        self.unit = np.array([y[task == i].var() for i in range(3)])[task][test]


def test_losses_of_a_fold_add_up_to_its_errors():
    found = Recorded()
    losses = found.record.losses[found.record.row] / found.unit
    solved = np.isfinite(found.by_hand[0])
    assert ((found.record.row >= 0) == solved).all()
    np.testing.assert_allclose(losses.mean(axis=1)[solved], found.by_hand[0][solved], rtol=1e-5)


def test_of_more_points_than_there_is_room_for_the_best_are_kept(monkeypatch):
    monkeypatch.setattr(points, "FEWEST", 2)
    few, every = Recorded(most=30 * 12), Recorded()
    kept = few.record.row >= 0
    assert len(few.record.losses) <= 12
    assert few.by_hand[0][kept].max() <= np.sort(few.by_hand[0])[13]
    np.testing.assert_array_equal(few.record.losses[few.record.row[kept]], every.record.losses[every.record.row[kept]])


def test_after_a_search_few_points_are_kept_and_those_that_folds_choose_for_each_other(monkeypatch):
    X, y, task = make_data()
    models = {"lasso": LassoMTLCV(lams=40), "simple": MSMTFLCV(lams=10, selection="1se")}
    every = comparison_of(X, y, task, models)
    monkeypatch.setattr(points, "FEWEST", 2)
    monkeypatch.setattr(points, "KEPT", 90 * 6)
    thin = comparison_of(X, y, task, models)
    assert all(len(thin.points[name].losses) <= 6 + 9 < len(every.points[name].losses) for name in models)
    np.testing.assert_array_equal(thin.result.errors, every.result.errors)
    np.testing.assert_array_equal(thin.result.n_features, every.result.n_features)


def test_where_folds_keep_no_point_in_common_a_model_is_fitted_on_each(monkeypatch):
    none = Points(np.empty((0, 9)), np.empty((3, 0)), np.ones(3), "min", np.empty(0))
    monkeypatch.setattr(Points, "of_search", classmethod(lambda cls, *_: none))
    X, y, task = make_data()
    models = {"a": LassoMTLCV(lams=8, cv=3), "b": LassoMTLCV(lams=4, cv=3)}
    result = compare_models(X, y, task=task, models=models, cv=3)
    np.testing.assert_array_equal(
        result.errors, compare_models(X, y, task=task, models=models, cv=3, nested=True).errors
    )


# ------------------------------------------------------------------ the correction


@pytest.mark.slow
@pytest.mark.parametrize("form", ["rows", "groups", "repeated"])
def test_a_draw_chooses_as_a_comparison_of_its_samples_would(form, monkeypatch):
    """A sample that is drawn twice is there as two."""
    args = {}
    monkeypatch.setattr(run, "corrected", lambda *given: args.update(given=given))
    X, y, task = make_data(sizes=(30, 55, 5))
    rng = np.random.default_rng(0)
    options = {"groups": rng.integers(0, 25, 90)} if form == "groups" else {}
    cv = RepeatedKFold(n_splits=4, n_repeats=2, random_state=1) if form == "repeated" else 4
    models = searches() | {"pooled": PooledRidgeCV()}
    compare_models(X, y, task=task, models=models, cv=cv, sample_weight=rng.integers(1, 3, 90).astype(float), **options)
    of_models, folds, base, _ = args["given"]
    boot = Bootstrap(of_models, folds, base)
    held = np.bincount(boot.cell, minlength=len(base.cell_task))
    place, seen = np.unique(base.cell_cluster, return_inverse=True)[1].ravel(), set()
    for drawn in rng.integers(boot.n, size=(30, boot.n)):
        (draw,) = boot.repeat(drawn[None])
        outside, chosen = draw.outside, draw.chosen
        times = np.bincount(drawn, minlength=boot.n)
        whole, crossed = boot._points(times[None, boot.cluster].astype(float))
        errors, alone = np.zeros((2, len(of_models), len(base.cell_task)))
        for k, one in enumerate(of_models):
            for f, (low, cells) in enumerate(zip(boot.ends, folds, strict=False)):
                entries = slice(low, low + len(cells))
                errors[k, cells] += one.losses[crossed[k][f, 0], entries] / held[cells]
                alone[k, cells] += one.losses[whole[k][0], entries] / held[cells]
        cells = [np.flatnonzero(place == cluster) for cluster in drawn]
        at, twice = np.concatenate(cells), np.repeat(np.arange(len(drawn)), [len(part) for part in cells])
        inside = replace(
            base,
            errors=errors[:, at],
            chosen_errors=alone[:, at],
            **{name: getattr(base, name)[at] for name in ("cell_task", "cell_weight")},
            cell_cluster=twice,
            means=None,
            n_features=np.array([one.n_features[p[:, 0]].mean() for one, p in zip(of_models, crossed, strict=True)]),
        )
        names = inside.models
        steady = inside.steadied
        assert chosen == {
            "best": names.index(inside.best),
            "min": names.index(Choice(steady, "min").chosen),
            "1se": names.index(Choice(steady, "1se").chosen),
        }
        left = times[place] == 0
        weight = base.cell_weight[left]
        np.testing.assert_allclose(outside, alone[:, left] / base.unit[base.cell_task[left]] @ weight / weight.sum())
        seen.add(chosen["1se"])
    assert len(seen) > 1


def of_chance(seed, models=3, P=40, n=60, folds=5):
    """Models and points that are all equally good: an error of 1 but for chance."""
    rng = np.random.default_rng(seed)
    cells = np.array_split(np.arange(n), folds)
    errors = rng.chisquare(2, (models, P, n)) / 2
    made = [
        Points(one, -np.array([one[:, at].mean(axis=1) for at in cells]), np.ones(2), "min", np.full(P, 5.0))
        for one in errors
    ]
    best = [one.choose(one.scores) for one in made]
    made = [replace(one, chosen=int(p)) for one, p in zip(made, best, strict=True)]
    base = Comparison(
        models=list("abc")[:models],
        reference="a",
        tasks=np.arange(2),
        errors=np.array([one.losses[p] for one, p in zip(made, best, strict=True)]),
        cell_task=np.arange(n) % 2,
        cell_weight=np.ones(n),
        cell_cluster=np.arange(n),
        unit=np.ones(2),
        n_features=np.full(models, 5.0),
        seconds=np.ones(models),
        n_splits=folds,
        held_per_trained=1.25,
    )
    return base, corrected(made, cells, base, seed)


@pytest.mark.slow
def test_the_error_of_the_luckiest_of_many_is_that_of_new_data():
    found = [of_chance(seed) for seed in range(30)]
    assert np.mean([base.error.min() for base, _ in found]) < 0.75
    for name in ("best", "1se", "min"):
        values = [one.best if name == "best" else one.chosen[name] for _, one in found]
        assert np.mean(values) == pytest.approx(1.0, abs=0.06)
    np.testing.assert_allclose(np.mean([one.by_model for _, one in found], axis=0), 1.0, atol=0.06)


def test_where_there_is_nothing_to_choose_nothing_is_corrected():
    X, y, task = make_data()
    result = compare_models(X, y, task=task, models={"a": LassoMTL(0.05), "b": LassoMTL(5.0)}, cv=3)
    np.testing.assert_allclose(result.corrected.by_model, result.error)
    assert result.corrected.best == pytest.approx(result.error.min())


def test_what_is_to_be_expected_is_never_below_the_error_beside_it():
    X, y, task = make_data()
    result = compare_models(X, y, task=task, models={"a": LassoMTL(0.05), "b": LassoMTL(5.0)}, cv=3)
    error = float(result.error.min())
    for value, expected, begin in ((error + 0.1, error + 0.1, "Corrected for having"), (error - 0.1, error, "Having")):
        chosen = replace(result.corrected, best=value, chosen=dict.fromkeys(("1se", "min"), value))
        said = replace(result, corrected=chosen).corrected_in_words()
        assert said.startswith(f"{begin} chosen among all models and their parameters")
        assert said.endswith(f"the nMSE to expect on new data is {expected:.{result._decimals}f}.")
        larger = max(value, result.error[1])
        assert f"is {larger:.{result._decimals}f}." in replace(result, corrected=chosen).corrected_in_words("1se", "b")


def test_many_samples_have_fewer_draws_and_the_seed_decides(monkeypatch):
    base, first = of_chance(0)
    assert first.draws == 200
    monkeypatch.setattr(correction, "WORK", 3 * 60 * 50)
    assert of_chance(0)[1].draws == 50
    monkeypatch.setattr(correction, "AT_ONCE", 60)  # a draw at a time
    few = of_chance(0)[1]
    assert few.draws == 50
    monkeypatch.setattr(correction, "AT_ONCE", 2**23)
    assert of_chance(0)[1].best == pytest.approx(few.best)
    assert base.corrected is None


def test_tasks_of_which_nothing_is_left_out_do_not_spoil_a_draw():
    X, y, task = make_data(sizes=(40, 40, 4))
    result = compare_models(X, y, task=task, models=searches(), cv=2)
    assert np.isfinite(result.corrected.by_model).all()
    assert np.isfinite(result.corrected.best)
    assert json.loads(json.dumps(result.corrected.chosen)).keys() == {"1se", "min"}


# ------------------------------------------------------------------ threads


@pytest.mark.timed
def test_threads_that_have_nothing_left_help_with_the_folds_of_others():
    from msmtfl._runtime.threads import each

    gate, names = threading.Barrier(2, timeout=10), set()

    def fold(_):
        gate.wait()  # both threads are here, or it fails
        names.add(threading.current_thread().name)

    def family(k):
        if k == 0:
            each(fold, range(4), 2)

    each(family, range(2), 2, share=True)
    assert len(names) == 2
    names.clear()
    gate = threading.Barrier(1)
    each(family, range(2), 2)
    assert len(names) == 1  # unless it is shared


@pytest.mark.timed
def test_work_inside_ends_when_that_around_it_has_failed():
    from msmtfl._runtime.progress import Progress
    from msmtfl._runtime.threads import each

    both, ended = threading.Barrier(2, timeout=10), []

    def family(k):
        both.wait()
        if k == 0:
            raise ZeroDivisionError
        with Progress(10**9, "lams", False) as progress:
            try:
                while True:
                    progress.step()
            except RuntimeError as error:
                ended.append(str(error))
                raise

    with pytest.raises(ZeroDivisionError):
        each(family, range(2), 2, share=True)
    assert ended == ["stopped: another thread has failed or was interrupted"]


def test_progress_of_parts_is_that_of_the_whole(capsys, monkeypatch):
    from msmtfl._runtime import progress
    from msmtfl._runtime.progress import Progress

    monkeypatch.setattr(progress, "_redraws", lambda stream: True)  # as on a terminal
    with Progress(2, "models", True) as whole:
        with whole.part(), Progress(4, "lams", False) as lams:
            lams.step()
            assert whole.done == pytest.approx(0.25)
            lams.step(5.0)
            assert whole.done == pytest.approx(1.0)
        with whole.part():
            pass
        assert whole.done == pytest.approx(2.0)
    assert "2/2 models [" in capsys.readouterr().err
