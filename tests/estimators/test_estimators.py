"""The estimators: their contract, and how they live with scikit-learn."""

import pickle
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from msmtfl import MSMTFL, LassoMTL, TaskKFold
from msmtfl._estimators.fitted import NewTaskWarning
from msmtfl._objective.theta import default_ratio


@parametrize_with_checks([MSMTFL(), LassoMTL()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


TASKS = ["east", "north", "south", "west"]
MANY_STAGES = {"lam": 0.037, "theta": 0.148}  # Algorithm 1 takes four stages on make_data()


def make_data(m=4, n=25, d=30, seed=1):
    """X, y, labels, sorted by task; six features matter, ever less."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m * n, d))
    W = np.zeros((m, d))
    W[:, :6] = rng.standard_normal((m, 6)) * [3.0, 2.0, 1.2, 0.8, 0.5, 0.3]
    y = (X * np.repeat(W, n, axis=0)).sum(axis=1) + 0.5 * rng.standard_normal(m * n)
    return X, y + 1.0, np.repeat(TASKS[:m], n)


def make_table():
    X, y, task = make_data(d=6)
    return pd.DataFrame(X, columns=list("abcdef")).assign(school=task), y


def centred(X, y, task):
    """(X_i, y_i) of each task, centred: the problem that is solved."""
    for label in np.unique(task):
        X_i, y_i = X[task == label], y[task == label]
        yield X_i - X_i.mean(axis=0), y_i - y_i.mean()


# ------------------------------------------------------------------ attributes


def test_attributes_have_the_stated_shapes_and_meanings():
    X, y, task = make_data()
    names = [f"f{j}" for j in range(30)]
    table = pd.DataFrame(X, columns=names)
    table.insert(3, "school", task)
    model = MSMTFL(**MANY_STAGES, task_column="school").fit(table, y)

    assert model.coef_.shape == (4, 30)
    assert model.coef_.dtype == np.float64
    assert model.intercept_.shape == (4,)
    assert model.tasks_.tolist() == TASKS
    assert model.features_.tolist() == names
    assert model.feature_names_in_.tolist() == table.columns.tolist()
    assert model.n_features_in_ == 31
    norms = np.abs(model.coef_).sum(axis=0)
    np.testing.assert_allclose(model.feature_importances_, np.insert(norms, 3, norms.max()))
    assert (model.lam_, model.theta_) == (0.037, 0.148)

    assert model.n_stages_ == len(model.stages_) == 4
    assert model.n_iter_ >= 1
    assert model.converged_ is True
    assert "critical point" in model.stopping_reason_
    assert model.dual_gap_ == model.stages_[-1].dual_gap <= 1e-10
    residuals = [y_i - X_i @ w for (X_i, y_i), w in zip(centred(X, y, task), model.coef_, strict=True)]
    loss = sum(r @ r / (4 * len(r)) for r in residuals)
    assert model.objective_ == pytest.approx(loss + 0.037 * np.minimum(norms, 0.148).sum(), rel=1e-12)


def test_stages_record_how_the_fit_went():
    X, y, task = make_data()
    model = MSMTFL(**MANY_STAGES).fit(X, y, task=task)
    assert [stage.stage for stage in model.stages_] == [1, 2, 3, 4]
    free = np.empty(0)
    for stage in model.stages_:
        assert stage.coef.shape == (4, 30)
        np.testing.assert_array_equal(stage.free_rows, free)
        free = np.flatnonzero(np.abs(stage.coef).sum(axis=0) >= 0.148)
        assert 0 <= stage.dual_gap <= 1e-10
        assert 0 <= stage.kkt <= 1e-10
        assert stage.unique is True
        assert stage.n_iter >= 1
        assert stage.seconds > 0
    objectives = [stage.objective for stage in model.stages_]
    assert objectives == sorted(objectives, reverse=True)
    np.testing.assert_array_equal(model.stages_[-1].coef, model.coef_)


@pytest.mark.parametrize("estimator", [MSMTFL, LassoMTL])
def test_one_task_without_labels_looks_like_scikit_learn(estimator):
    X, y, _ = make_data(m=1)
    model = estimator().fit(X, y)
    assert model.coef_.shape == (30,)
    assert isinstance(model.intercept_, float)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)
    labelled = estimator().fit(X, y, task=np.zeros(25))
    assert labelled.coef_.shape == (1, 30)
    assert labelled.intercept_.shape == (1,)
    for name in ("row_norms_", "feature_importances_", "objective_", "lam_", "lam_max_"):
        np.testing.assert_allclose(getattr(model, name), getattr(labelled, name), rtol=1e-12)
    assert str(model.certificate_) == str(labelled.certificate_)
    np.testing.assert_allclose(model.feature_importances_, np.abs(model.coef_))
    as_column = estimator().fit(X, y[:, None])
    assert as_column.coef_.shape == (1, 30)
    assert as_column.predict(X).shape == (25, 1)


def test_lasso_is_the_first_stage():
    X, y, task = make_data()
    lasso = LassoMTL(lam=0.037).fit(X, y, task=task)
    assert lasso.n_stages_ == len(lasso.stages_) == 1
    for same in (MSMTFL(0.037, np.inf), MSMTFL(0.037, max_stages=1)):
        np.testing.assert_array_equal(same.fit(X, y, task=task).coef_, lasso.coef_)


# ------------------------------------------------------------------ lam, theta, penalty factors


def test_default_lam_and_lam_max():
    X, y, task = make_data()
    model = LassoMTL().fit(X, y, task=task)
    expected = max(2 / (4 * len(y_i)) * np.abs(X_i.T @ y_i).max() for X_i, y_i in centred(X, y, task))
    assert model.lam_max_ == pytest.approx(expected, rel=1e-12)
    assert model.lam_ == pytest.approx(0.1 * model.lam_max_, rel=1e-12)
    assert not LassoMTL(lam=expected * (1 + 1e-9)).fit(X, y, task=task).coef_.any()
    assert LassoMTL(lam=expected * (1 - 1e-6)).fit(X, y, task=task).coef_.any()


def test_lam_max_beside_features_that_are_never_penalised():
    X, y, task = make_data()
    factors = np.linspace(0.5, 2.0, 30)[:, None] * np.ones(4)
    factors[[0, 7]] = 0.0
    factors[1, 2] = 0.0
    factors[4, 1] = np.inf
    model = LassoMTL(penalty_factors=factors).fit(X, y, task=task)
    expected = 0.0
    for (X_i, y_i), f in zip(centred(X, y, task), factors.T, strict=True):
        free = X_i[:, f == 0]
        r = y_i - free @ np.linalg.lstsq(free, y_i, rcond=None)[0]
        counted = (f > 0) & np.isfinite(f)
        expected = max(expected, (2 / (4 * len(y_i)) * np.abs(X_i.T @ r)[counted] / f[counted]).max())
    assert model.lam_max_ == pytest.approx(expected, rel=1e-10)
    above = LassoMTL(lam=expected * (1 + 1e-9), penalty_factors=factors).fit(X, y, task=task)
    np.testing.assert_array_equal(above.coef_ != 0, factors.T == 0)


def test_penalty_factors_zero_and_infinity():
    X, y, task = make_data()
    factors = np.ones(30)
    factors[[0, 9]], factors[1] = 0.0, np.inf
    model = MSMTFL(penalty_factors=factors).fit(X, y, task=task)
    assert (model.coef_[:, 1] == 0.0).all()
    for (X_i, y_i), w in zip(centred(X, y, task), model.coef_, strict=True):
        np.testing.assert_allclose(X_i[:, [0, 9]].T @ (y_i - X_i @ w), 0.0, atol=1e-10)
    norms = np.where(np.isin(np.arange(30), [0, 1, 9]), 0.0, np.abs(model.coef_).sum(axis=0))
    np.testing.assert_allclose(model.row_norms_, norms)
    per_task = MSMTFL(penalty_factors=np.repeat(factors[:, None], 4, axis=1)).fit(X, y, task=task)
    np.testing.assert_array_equal(per_task.coef_, model.coef_)


@pytest.mark.parametrize("standardize", [False, True])
def test_default_theta_is_counted_in_shrinkage(standardize):
    X, y, task = make_data()
    X = X * np.linspace(0.2, 3.0, 30)
    X[task == "north", 5] = 4.0
    model = MSMTFL(standardize=standardize).fit(X, y, task=task)
    squares = np.array([(X_i**2).mean(axis=0) for X_i, _ in centred(X, y, task)])
    rho_bar = 1.0 if standardize else squares[squares > 0].mean()
    assert model.theta_ == pytest.approx(default_ratio(4) * 4 * model.lam_ / rho_bar, rel=1e-12)


def noisy_tasks(coef, n, rng):
    """n rows of standard normal features for each task, and noise of the same size."""
    m, d = coef.shape
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    return X, np.einsum("nd,nd->n", X, coef[task]) + rng.standard_normal(m * n), task


@pytest.mark.parametrize("m", [5, 15, 40])
@pytest.mark.parametrize("seed", range(3))
def test_by_default_noise_alone_does_not_cost_more_than_with_the_lasso(m, seed):
    X, y, task = noisy_tasks(np.zeros((m, 30)), 80, np.random.default_rng([seed, m]))
    model, lasso = (kind().fit(X, y, task=task) for kind in (MSMTFL, LassoMTL))
    errors = [1.0 + (fit.coef_**2).sum() / m for fit in (model, lasso)]  # on new rows, but for the intercepts
    assert errors[0] <= 1.05 * errors[1]
    assert model.theta_ == pytest.approx(
        max(3 * np.median(lasso.row_norms_), default_ratio(m) * m * model.lam_), rel=0.05
    )


@pytest.mark.parametrize("m", [15, 40])
def test_by_default_features_that_all_tasks_share_are_freed(m):
    rng = np.random.default_rng(m)
    coef = np.zeros((m, 30))
    coef[:, :5] = rng.choice([-1, 1], (m, 5)) * rng.uniform(1.0, 3.0, (m, 5))
    X, y, task = noisy_tasks(coef, 40, rng)
    model, lasso = (kind().fit(X, y, task=task) for kind in (MSMTFL, LassoMTL))
    assert model.stages_[-1].free_rows.tolist() == [0, 1, 2, 3, 4]
    assert ((model.coef_ - coef) ** 2).sum() < 0.8 * ((lasso.coef_ - coef) ** 2).sum()


def test_adaptive_theta_is_in_the_first_significant_jump():
    X, y, task = make_data()
    model = MSMTFL(lam=0.1, theta="adaptive").fit(X, y, task=task)
    norms = np.sort(np.abs(LassoMTL(lam=0.1).fit(X, y, task=task).coef_).sum(axis=0))
    norms = norms[norms > 0]
    jump = np.flatnonzero(np.diff(norms) > norms[-1] / 25)[0]
    assert model.theta_ == pytest.approx((norms[jump] + norms[jump + 1]) / 2, rel=1e-10)
    assert len(model.stages_[1].free_rows) == len(norms) - jump - 1


def test_adaptive_theta_without_a_jump_is_the_lasso():
    X, y, task = make_data()
    model = MSMTFL(lam=LassoMTL().fit(X, y, task=task).lam_max_, theta="adaptive").fit(X, y, task=task)
    assert model.theta_ == np.inf


# ------------------------------------------------------------------ other parameters


def test_standardize_is_fitting_standardised_columns():
    X, y, task = make_data()
    X = X * np.linspace(0.1, 10.0, 30) + 3.0
    scale = np.array([X[task == label].std(axis=0) for label in TASKS])
    Z = X / np.repeat(scale, 25, axis=0)
    one, two = MSMTFL(standardize=True).fit(X, y, task=task), MSMTFL().fit(Z, y, task=task)
    np.testing.assert_allclose(one.coef_ * scale, two.coef_, atol=1e-11)
    np.testing.assert_allclose(one.predict(X, task=task), two.predict(Z, task=task), atol=1e-10)
    for name in ("lam_", "lam_max_", "theta_", "objective_"):
        assert getattr(one, name) == pytest.approx(getattr(two, name), rel=1e-11)
    np.testing.assert_allclose(one.feature_importances_, two.feature_importances_, atol=1e-11)


def test_without_intercept_nothing_is_centred():
    X, y, task = make_data()
    X = X + 0.5
    model = LassoMTL(lam=0.05, fit_intercept=False).fit(X, y, task=task)
    assert (model.intercept_ == 0.0).all()
    X_1, y_1, w = X[task == "east"], y[task == "east"], model.coef_[0]
    slope = 2 / (4 * 25) * X_1.T @ (y_1 - X_1 @ w)  # of the loss: lam sign(w) where w is not 0
    np.testing.assert_allclose(slope[w != 0], 0.05 * np.sign(w[w != 0]), atol=1e-12)


def test_positive_coefficients():
    X, y, task = make_data()
    free, positive = (LassoMTL(lam=0.05, positive=p).fit(X, y, task=task) for p in (False, True))
    assert (free.coef_ < 0).any()
    assert (positive.coef_ >= 0).all()
    assert (positive.coef_ > 0).any()
    assert positive.objective_ > free.objective_
    assert positive.dual_gap_ <= 1e-10


def test_threads_change_no_bit():
    X, y, task = make_data()
    one, two = (MSMTFL(**MANY_STAGES, n_jobs=jobs).fit(X, y, task=task) for jobs in (None, 2))
    assert one.coef_.tobytes() == two.coef_.tobytes()
    assert one.objective_ == two.objective_


def test_warm_start_goes_on_with_the_stages():
    X, y, task = make_data()
    reference = MSMTFL(**MANY_STAGES).fit(X, y, task=task)
    model = MSMTFL(**MANY_STAGES, max_stages=1, warm_start=True)
    free = [model.fit(X, y, task=task).stages_[0].free_rows.tolist() for _ in range(4)]
    assert free == [stage.free_rows.tolist() for stage in reference.stages_]
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-12)
    assert model.converged_


def test_one_stage_that_goes_on_is_not_called_a_lasso():
    X, y, task = make_data()
    model = MSMTFL(**MANY_STAGES, max_stages=1, warm_start=True).fit(X, y, task=task)
    assert "lasso" not in model.fit(X, y, task=task).stopping_reason_


def test_warm_start_on_other_tasks_starts_afresh():
    X, y, task = make_data()
    model = MSMTFL(warm_start=True).fit(X, y, task=task)
    other = task != "west"
    fresh = MSMTFL().fit(X[other], y[other], task=task[other])
    np.testing.assert_array_equal(model.fit(X[other], y[other], task=task[other]).coef_, fresh.coef_)


def test_coef_init_chooses_the_rows_that_start_free():
    X, y, task = make_data()
    start = np.zeros((4, 30))
    start[:, [2, 20]] = 1.0
    model = MSMTFL(**MANY_STAGES, coef_init=start).fit(X, y, task=task)
    assert model.stages_[0].free_rows.tolist() == [2, 20]
    again = MSMTFL(**MANY_STAGES, coef_init=model.coef_).fit(X, y, task=task)
    assert again.n_stages_ == 1
    assert again.converged_
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-12)


def test_too_few_stages_are_announced():
    X, y, task = make_data()
    with pytest.warns(ConvergenceWarning, match="max_stages=2 reached.*Raise max_stages"):
        model = MSMTFL(**MANY_STAGES, max_stages=2).fit(X, y, task=task)
    assert model.n_stages_ == 2
    assert model.converged_ is False


def test_too_few_rounds_are_announced():
    X, y, task = make_data()
    with pytest.warns(ConvergenceWarning, match="stage 1 is not solved.*Raise max_iter"):
        model = LassoMTL(lam=1e-4, max_iter=1).fit(X, y, task=task)
    assert model.dual_gap_ > model.tol
    assert str(model.certificate_).startswith("NOT solved")


# ------------------------------------------------------------------ predict and score


def test_predict_before_fit():
    with pytest.raises(NotFittedError):
        MSMTFL().predict(np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("fit_labels", "predict_labels", "message"),
    [
        (TASKS, None, "pass task=.*'east', 'north'"),
        (TASKS, ["Mars"], "'Mars'.*known: 'east', 'north', 'south', 'west'.*TaskKFold.*unknown_task='mean'"),
        ([0, 1, 2, 3], ["1"], "'1'; known: 0, 1, 2, 3 .known labels are of type int"),
        (None, ["east"], "without task"),
    ],
    ids=["no labels", "unknown label", "label of another type", "fitted without labels"],
)
def test_predict_says_what_it_needs(fit_labels, predict_labels, message):
    X, y, _ = make_data()
    model = MSMTFL().fit(X, y, task=None if fit_labels is None else np.repeat(fit_labels, 25))
    with pytest.raises(ValueError, match=message):
        model.predict(X[:1], task=predict_labels)


def test_unknown_tasks_get_the_mean_model():
    X, y, task = make_data()
    model = MSMTFL(unknown_task="mean").fit(X, y, task=task)
    every = np.array([model.predict(X[1:2], task=[label])[0] for label in model.tasks_])
    words = (
        r"^task\(s\) 'Mars' were not in the training data: their 1 prediction\(s\) use the mean coefficients of the 4 known "
        rf"task\(s\)\. .* differ by {every.std(ddof=1):.2g} \(standard deviation\).*not known.*leave_one_task_out=True"
    )
    with pytest.warns(NewTaskWarning, match=words):
        prediction = model.predict(X[:3], task=["north", "Mars", "west"])
    coef = np.array([model.coef_[1], model.coef_.mean(axis=0), model.coef_[3]])
    intercept = [model.intercept_[1], model.intercept_.mean(), model.intercept_[3]]
    np.testing.assert_allclose(prediction, (X[:3] * coef).sum(axis=1) + intercept)
    for form in (sparse.csr_array(X[:3]), X[:3]):
        with pytest.warns(NewTaskWarning, match="'Mars', 'Venus' were not.*their 2 prediction"):
            model.predict(form, task=["Mars", "Venus", "west"])


def test_score_of_rows_is_r2_over_all_rows():
    X, y, task = make_data()
    weight = np.linspace(0.0, 2.0, 100)
    model = MSMTFL().fit(X, y, task=task)
    expected = r2_score(y, model.predict(X, task=task), sample_weight=weight)
    assert model.score(X, y, task=task, sample_weight=weight) == pytest.approx(expected)


def test_score_of_a_2d_target_is_the_mean_over_tasks():
    X, y, _ = make_data()
    Y = np.column_stack([y, X[:, 1] - y, X[:, 2]])
    Y[:30, 0] = Y[90:, 2] = np.nan
    model = MSMTFL().fit(X, Y)
    truth = model.predict(X)
    expected = [r2_score(Y[30:, 0], truth[30:, 0]), r2_score(Y[:, 1], truth[:, 1]), r2_score(Y[:90, 2], truth[:90, 2])]
    assert model.score(X, Y) == pytest.approx(np.mean(expected))
    weight = np.linspace(0.1, 2.0, 300).reshape(100, 3)
    expected[1] = r2_score(Y[:, 1], truth[:, 1], sample_weight=weight[:, 1])
    ones = np.ones((100, 3))
    ones[:, 1] = weight[:, 1]
    assert model.score(X, Y, sample_weight=ones) == pytest.approx(np.mean(expected))


# ------------------------------------------------------------------ with scikit-learn


def test_pipeline_search_and_cross_val_predict_on_a_table():
    table, y = make_table()
    scale = ColumnTransformer([("scale", StandardScaler(), list("abcdef"))], remainder="passthrough")
    pipeline = make_pipeline(scale.set_output(transform="pandas"), MSMTFL(task_column="remainder__school"))
    folds = TaskKFold(3, task_column="school", random_state=0)
    search = GridSearchCV(pipeline, {"msmtfl__lam": [0.02, 10.0]}, cv=folds).fit(table, y)
    assert search.best_params_ == {"msmtfl__lam": 0.02}
    prediction = cross_val_predict(search.best_estimator_, table, y, cv=folds)
    assert r2_score(y, prediction) > 0.9
    train, test = next(folds.split(table))
    first = clone(search.best_estimator_).fit(table.iloc[train], y[train])
    np.testing.assert_allclose(prediction[test], first.predict(table.iloc[test]), atol=1e-12)


def test_plain_folds_on_a_sorted_table_are_told_of_task_k_fold():
    table, y = make_table()
    with pytest.raises(ValueError, match=r"unknown task label.*TaskKFold"):
        cross_val_predict(MSMTFL(task_column="school"), table, y, cv=KFold(4))


def test_a_renamed_task_column_is_suggested():
    table, y = make_table()
    keep = ColumnTransformer([("scale", StandardScaler(), list("abc"))], remainder="passthrough")
    pipeline = make_pipeline(keep.set_output(transform="pandas"), MSMTFL(0.01, task_column="school"))
    with pytest.raises(ValueError, match=r"Columns: 'remainder__school', 'scale__a'.*task_column='remainder__school'"):
        pipeline.fit(table, y)


def test_select_from_model_keeps_the_task_column():
    table, y = make_table()
    table = table[["school", *"fedcba"]]
    select = SelectFromModel(MSMTFL(task_column="school"), importance_getter="feature_importances_")
    chosen = select.set_output(transform="pandas").fit(table, y).transform(table)
    assert chosen.columns[0] == "school"
    assert set(chosen.columns[1:]) < set("abcdef")
    both = make_pipeline(select, MSMTFL(0.01, task_column="school")).fit(table, y)
    assert both[-1].features_.tolist() == chosen.columns[1:].tolist()
    assert both.score(table, y) > 0.9


@pytest.mark.parametrize("estimator", [MSMTFL, LassoMTL])
def test_metadata_routing_carries_labels_to_fit_predict_and_score(estimator):
    X, y, task = make_data()
    folds = TaskKFold(3, task=task, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = estimator(lam=0.05).set_fit_request(task=True, sample_weight=True)
        model.set_predict_request(task=True).set_score_request(task=True, sample_weight=False)
        params = {"task": task, "sample_weight": np.linspace(0.5, 1.5, 100)}
        result = cross_validate(model, X, y, cv=folds, params=params, error_score="raise")
        scaled = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model).fit(X, y, **params)
        prediction = scaled.predict(X, task=task)
    train, test = next(folds.split(X))
    weight = params["sample_weight"]
    first = estimator(lam=0.05).fit(X[train], y[train], task=task[train], sample_weight=weight[train])
    assert result["test_score"][0] == pytest.approx(first.score(X[test], y[test], task=task[test]))
    Z = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(prediction, clone(model).fit(Z, y, **params).predict(Z, task=task))


def test_cross_validation_of_shared_features():
    X, _, _ = make_data(d=6)
    Y = X[:, [0, 1]] - X[:, [2, 0]]
    assert cross_val_score(LassoMTL(), X, Y, cv=3, error_score="raise").min() > 0.9


@pytest.mark.parametrize("model", [MSMTFL(0.1, "adaptive", penalty_factors=np.ones(6)), LassoMTL(positive=True)])
def test_clone_and_repr(model):
    assert clone(model).get_params().keys() == model.get_params().keys()
    assert repr(clone(model)) == repr(model)
    assert repr(MSMTFL(0.5)) == "MSMTFL(lam=0.5)"


@pytest.mark.parametrize("estimator", [MSMTFL, LassoMTL])
def test_pickled_models_predict_the_same(estimator):
    table, y = make_table()
    model = estimator(task_column="school").fit(table, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    assert again.stages_[0].objective == model.stages_[0].objective
    assert str(again.certificate_) == str(model.certificate_)


# ------------------------------------------------------------------ callbacks


class Recorder:
    """A callback that notes what ended, and may ask to stop after a stage."""

    def __init__(self, stop_after=None):
        self.stop_after, self.begun, self.ended, self.calls = stop_after, Counter(), Counter(), []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.begun[context.task_name] += 1

    def on_fit_task_end(self, estimator, context):
        self.ended[context.task_name] += 1
        return context.task_name == "stage" and self.ended["stage"] == self.stop_after


class TestCallbacks:
    @pytest.fixture(autouse=True)
    def need_callbacks(self):
        pytest.importorskip("sklearn.callback")

    def test_stages_and_tasks_are_reported(self):
        X, y, task = make_data()
        recorder = Recorder()
        model = MSMTFL(**MANY_STAGES).set_callbacks(recorder).fit(X, y, task=task)
        assert recorder.ended == recorder.begun == {"fit": 1, "stage": 4, "task": 16}
        assert recorder.calls == ["setup", "teardown"]
        np.testing.assert_array_equal(model.coef_, MSMTFL(**MANY_STAGES).fit(X, y, task=task).coef_)

    def test_the_stage_that_looks_for_adaptive_theta_is_not_reported_twice(self):
        X, y, task = make_data()
        recorder = Recorder()
        model = MSMTFL(theta="adaptive").set_callbacks(recorder).fit(X, y, task=task)
        assert recorder.ended["stage"] == model.n_stages_

    def test_the_lasso_is_one_stage(self):
        X, y, task = make_data()
        recorder = Recorder()
        LassoMTL().set_callbacks(recorder).fit(X, y, task=task)
        assert recorder.ended == {"fit": 1, "stage": 1, "task": 4}

    def test_a_callback_may_stop_the_stages(self):
        X, y, task = make_data()
        model = MSMTFL(**MANY_STAGES).set_callbacks(Recorder(stop_after=2)).fit(X, y, task=task)
        assert model.n_stages_ == 2
        assert "callback" in model.stopping_reason_

    def test_progress_bar(self, capsys):
        pytest.importorskip("rich")
        from sklearn.callback import ProgressBar

        table, y = make_table()
        model = MSMTFL(task_column="school").set_callbacks(ProgressBar()).fit(table, y)
        assert model.converged_
        assert "stage" in capsys.readouterr().out

    def test_a_callback_of_a_search_reaches_the_stages(self):
        table, y = make_table()
        recorder = Recorder()
        recorder.max_propagation_depth = None
        folds = TaskKFold(2, task_column="school", random_state=0)
        search = GridSearchCV(MSMTFL(task_column="school"), {"lam": [0.05, 0.1]}, cv=folds)
        search.set_callbacks(recorder).fit(table, y)
        assert recorder.ended["stage"] >= 5  # two folds of two candidates, and the refit
        assert recorder.calls == ["setup", "teardown"]
