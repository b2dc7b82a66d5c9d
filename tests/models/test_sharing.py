"""The sharing map says of every feature who uses it, and task_similarity how alike the tasks are."""

import builtins
import html

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from msmtfl import (
    L12MTL,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    LassoMTL,
    Moments,
    MSMTFLClassifier,
    SharedMTL,
    compare_models,
    debiased_intervals,
)
from msmtfl._estimators.baselines.lasso import PooledLassoCV
from msmtfl._estimators.baselines.ridge import PooledRidgeCV, RidgePerTaskCV
from msmtfl.inference import SharedFeatures, shared_features
from msmtfl.model_files import load_model, save_model
from msmtfl.sharing import sharing_map, task_similarity
from msmtfl.sharing.maps import CLASSES

NAMES = ["all+", "all-", "mixed", "two", "west", "none", "noise"]
TASKS = ["north", "south", "west"]


def with_coef(W, **more):
    """A fitted lasso whose coefficients are W (m, d)."""
    W = np.asarray(W, dtype=float)
    m, d = W.shape
    X, task = np.random.default_rng(0).standard_normal((5 * m, d)), np.repeat(np.arange(m), 5)
    model = LassoMTL(lam=1e6).fit(X, np.arange(5 * m) % 3, task=task)
    model.coef_, model.row_norms_ = W, np.abs(W).sum(axis=0)
    for name, value in more.items():
        setattr(model, name, value)
    return model


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((240, len(NAMES))), columns=NAMES)
    X["place"] = np.repeat(TASKS, 80)
    west = X["place"] == "west"
    y = 3 * X["all+"] - 3 * X["all-"] + np.where(west, -3, 3) * X["mixed"] + 0.8 * np.where(west, 0, X["two"])
    return X, y + 0.8 * np.where(west, X["west"], 0) + 0.1 * rng.standard_normal(240)


@pytest.fixture(scope="module")
def model(table):
    return MSMTFL(lam=0.15, theta=4.0, task_column="place").fit(*table)


def test_every_feature_gets_its_class_users_norm_cap_and_sign(model):
    frame = sharing_map(model).to_frame().set_index("feature")
    assert frame.columns.tolist() == ["class", "n_tasks", "n_learnable", "tasks", "row_norm", "freed", "sign"]
    assert frame["class"].tolist() == ["all", "all", "all", "some", "one", "unused", "unused"]
    assert frame["n_tasks"].tolist() == [3, 3, 3, 2, 1, 0, 0]
    assert frame["n_learnable"].tolist() == [3] * 7
    assert frame.loc["two", "tasks"] == ("north", "south")
    assert frame.loc["none", "tasks"] == ()
    np.testing.assert_array_equal(frame["row_norm"], model.row_norms_)
    assert frame["freed"].tolist() == [True, True, True, False, False, False, False]
    assert frame["sign"].tolist() == ["+", "-", "mixed", "+", "+", "", ""]


def test_counts_cover_all_features_and_tasks_of_looks_one_up(model):
    found = sharing_map(model)
    assert found.counts == {"all": 3, "some": 1, "one": 1, "unused": 2, "constant": 0}
    assert tuple(found.counts) == CLASSES
    assert found.tasks_of("west").tolist() == ["west"]
    assert found.tasks_of("none").tolist() == []
    with pytest.raises(ValueError, match=r"no feature 'tvo' among 'two', 'all\+', .* Did you mean 'two'"):
        found.tasks_of("tvo")


def test_the_order_is_freed_then_class_then_norm():
    W = [[1, 5, 0, 2, 0], [1, 0, 3, 2, 0], [1, 0, 3, 0, 0]]
    found = sharing_map(with_coef(W))
    assert found.order.tolist() == [0, 2, 3, 1, 4]
    capped = with_coef(W, theta_=2.0)
    capped.row_slopes_ = np.array([1.0, 0.0, 1.0, 1.0, 1.0])
    assert sharing_map(capped).order.tolist() == [1, 0, 2, 3, 4]


def test_a_map_reads_as_words(model):
    assert str(sharing_map(model)).splitlines() == [
        "7 features, 3 tasks",
        "    3 used by all 3 tasks: 'mixed', 'all+', 'all-'",
        "    1 used by some tasks: 'two' (2 of 3)",
        "    1 used by one task: 'west' ('west')",
        "    2 unused",
        "    3 freed by the cap (not shrunk): 'mixed', 'all+', 'all-'",
        "    1 with signs that differ between tasks: 'mixed'",
        "tasks that share most: 'north' and 'south', 4 of the 4 features that either uses",
    ]


def test_long_lists_are_cut_and_equal_supports_are_said_so():
    text = str(sharing_map(with_coef(np.ones((2, 9)))))
    assert "9 used by all 2 tasks: 'x0', 'x1', 'x2', 'x3', 'x4', ...\nall tasks use the same features" in text
    assert "no two tasks use the same feature" in str(sharing_map(with_coef(np.eye(3))))


def test_zeros_are_exact_so_that_tiny_coefficients_count():
    assert sharing_map(with_coef([[1e-300, 0.0], [1.0, -0.0]])).classes.tolist() == ["all", "unused"]


@pytest.mark.parametrize(
    "make", [lambda: LassoMTL(lam=0.1), lambda: L12MTL(lam=0.1), DirtyMTL, lambda: MSMTFL(theta=np.inf)]
)
def test_without_a_cap_freed_is_none(table, make):
    found = sharing_map(make().set_params(task_column="place").fit(*table))
    assert found.freed is None
    assert "cap" not in str(found)
    assert found.to_frame()["freed"].isna().all()


def test_a_capped_l12_frees_rows(table):
    found = sharing_map(L12MTL(lam=0.1, theta=3.0, task_column="place").fit(*table))
    assert found.features[found.freed].tolist() == ["all+", "all-", "mixed"]


def test_one_task_has_nothing_to_share():
    X = np.random.default_rng(0).standard_normal((40, 3))
    found = sharing_map(LassoMTL(lam=0.5).fit(X, X[:, 1]))
    assert found.classes.tolist() == ["unused", "one", "unused"]
    assert str(found) == "3 features, 1 task\n    1 used by one task: 'x1'\n    2 unused"
    assert task_similarity(LassoMTL(lam=0.5).fit(X, X[:, 1])).similarity.tolist() == [[1.0]]


def test_a_model_from_a_file_has_the_same_map(table, tmp_path):
    fitted = MSMTFLCV(lams=8, cv=3, task_column="place", selection="1se").fit(*table)
    save_model(fitted, tmp_path / "it.msmtfl")
    pd.testing.assert_frame_equal(
        sharing_map(load_model(tmp_path / "it.msmtfl")).to_frame(), sharing_map(fitted).to_frame()
    )


def test_pooled_lasso_uses_a_feature_everywhere_or_nowhere(table):
    X, y = table
    found = sharing_map(PooledLassoCV(task_column="place").fit(X, y))
    assert found.counts["some"] == found.counts["one"] == 0
    assert found.counts["all"] >= 2


@pytest.mark.parametrize("kind", [RidgePerTaskCV, PooledRidgeCV])
def test_ridge_is_refused(table, kind):
    ridge = kind(task_column="place").fit(*table)
    for function in (sharing_map, task_similarity):
        with pytest.raises(TypeError, match="sets no coefficient to zero"):
            function(ridge)


def test_what_is_no_fitted_model_is_refused():
    with pytest.raises(NotFittedError):
        sharing_map(MSMTFL())
    with pytest.raises(TypeError, match="of a Pipeline, its last step"):
        sharing_map(make_pipeline(StandardScaler(), MSMTFL()))


def test_similarity_is_jaccard_and_defined_for_empty_supports():
    found = task_similarity(with_coef([[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]))
    expected = [[1, 1 / 3, 0, 0], [1 / 3, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    np.testing.assert_allclose(found.similarity, expected, rtol=1e-15)
    frame = found.to_frame()
    assert frame.index.tolist() == frame.columns.tolist() == [0, 1, 2, 3]


def test_similar_tasks_stand_side_by_side():
    W = np.zeros((6, 8))
    W[::2, :4], W[1::2, 4:] = 1.0, 1.0
    order = task_similarity(with_coef(W)).order
    assert sorted(order.tolist()) == list(range(6))
    assert len({i % 2 for i in order[:3]}) == 1


def test_a_table_without_pandas_says_what_to_install(model, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("pandas"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install pandas"):
        sharing_map(model).to_frame()


# ------------------------------------------------------------------ what cannot be learned


def visits():
    """Six patients with ten visits each: age and sex are the patient's, "arm" is always 1, "walk" varies in four of them."""
    rng = np.random.default_rng(0)
    task = np.repeat([f"p{i}" for i in range(6)], 10)
    X = pd.DataFrame(rng.standard_normal((60, 3)), columns=["dose", "walk", "noise"])
    X["age"], X["sex"] = np.repeat([31.0, 48, 52, 63, 77, 80], 10), np.repeat([0.0, 1, 1, 0, 0, 1], 10)
    X["arm"] = 1.0
    X.loc[(task == "p1") | (task == "p4"), "walk"] = 0.3
    y = 2 * X["dose"] + X["walk"] + 0.1 * X["age"] + 0.1 * rng.standard_normal(60)
    return X, y, task


NEVER = ["age", "arm", "sex"]
LEVEL = pytest.mark.filterwarnings("ignore:feature.s. 'age', 'sex' are constant within every task")
KINDS = {
    "msmtfl": lambda: MSMTFL(0.05, 0.5),
    "standardised": lambda: MSMTFL(0.05, 0.5, standardize=True),
    "poisson": lambda: MSMTFL(0.05, loss="poisson"),
    "l12": lambda: L12MTL(0.05),
    "dirty": DirtyMTL,
    "shared": SharedMTL,
    "pooled lasso": PooledLassoCV,
    "classes": lambda: MSMTFLClassifier(0.01),
}


@LEVEL
@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_differ_only_between_tasks_are_not_called_unused(kind, tmp_path):
    X, y, task = visits()
    y = {"poisson": lambda: np.exp(y / 5), "classes": lambda: np.arange(60) % 3}.get(kind, lambda: y)()
    fitted = KINDS[kind]().fit(X, y, task=task)
    save_model(fitted, tmp_path / "m.msmtfl")
    for one in (fitted, load_model(tmp_path / "m.msmtfl")):
        found = sharing_map(one)
        assert sorted(found.features[found.classes == "constant"]) == NEVER
        assert one.task_level_features_.tolist() == ["age", "sex"]
        assert found.to_frame().set_index("feature")["n_learnable"].to_dict() == {
            **dict.fromkeys(NEVER, 0),
            "dose": 6,
            "noise": 6,
            "walk": 4,
        }
        text = str(found)
        assert "    2 NOT LEARNED: constant within every task, different between tasks: 'age', 'sex'\n" in text
        assert "    1 the same in all rows: 'arm'\n" in text
        assert "fit one model to all rows without task labels" in text


@LEVEL
def test_a_feature_that_some_tasks_cannot_learn_is_said_so():
    X, y, task = visits()
    assert "1 used by some tasks: 'walk' (4 of 6; constant in 2)" in str(
        sharing_map(LassoMTL(0.05).fit(X, y, task=task))
    )
    shared = str(sharing_map(SharedMTL().fit(X, y, task=task)))  # the common value serves the others, too
    assert "'walk' (in 2 of them constant: its value comes from the others)" in shared
    unused = LassoMTL(100.0).fit(X, y, task=task)
    assert "3 unused (1 of them constant in some tasks, where nothing could be learned)" in str(sharing_map(unused))


def test_fit_warns_of_columns_that_differ_only_between_tasks():
    X, y, task = visits()
    for fit in (LassoMTL(0.1).fit, PooledLassoCV().fit, MSMTFLCV(lams=3, cv=2, theta_ratios=[2]).fit):
        with pytest.warns(
            UserWarning, match=r"'age', 'sex' are constant within every task .* intercept_ on these columns"
        ):
            fit(X, y, task=task)
    LassoMTL(0.1).fit(
        X.drop(columns=["age", "sex"]), y, task=task
    )  # a column that is the same everywhere deceives nobody
    LassoMTL(0.1, fit_intercept=False).fit(X, y, task=task)  # they can be learned, if not what they seem to be
    LassoMTL(0.1).fit(X, y)


@LEVEL
def test_statistics_and_new_tasks_know_what_varies():
    X, y, task = visits()
    model = LassoMTL(0.05).fit(X, y, task=task)
    moments = Moments().update(X, y, task=task)
    streamed = LassoMTL(0.05).fit_moments(moments)
    np.testing.assert_array_equal(streamed.learnable_, model.learnable_)
    assert streamed.task_level_features_.tolist() == ["age", "sex"]
    new = X[:10].assign(age=np.arange(10.0))
    model.add_task(new, y[:10], "p9")
    assert model.learnable_[-1].tolist() == [True, True, True, True, False, False]
    assert model.task_level_features_.tolist() == ["sex"]


@LEVEL
def test_what_is_advised_instead_learns_the_effect():
    """Truth 1: one model without labels, or a regression of the intercepts, finds it; fit_intercept=False does not."""
    rng = np.random.default_rng(0)
    m, n = 60, 12
    age = rng.standard_normal(m)
    X, task = rng.standard_normal((m * n, 3)), np.repeat(np.arange(m), n)
    X = np.column_stack([X, age[task]])
    y = X[:, 0] + age[task] + 0.3 * rng.standard_normal(m)[task] + rng.standard_normal(m * n)
    with pytest.warns(UserWarning, match="'x3' are constant within every task"):
        model = MSMTFL(0.002).fit(X, y, task=task)
    assert not model.coef_[:, 3].any()
    assert np.polyfit(age, model.intercept_, 1)[0] == pytest.approx(1.0, abs=0.15)
    assert LassoMTL(0.01).fit(X, y).coef_[3] == pytest.approx(1.0, abs=0.15)
    without = MSMTFL(0.002, fit_intercept=False).fit(X, y, task=task).coef_[:, 3]
    assert np.std(without) > 0.5


# ------------------------------------------------------------------ more than two classes


@pytest.fixture(scope="module")
def of_classes():
    """Two tasks, classes a, b, c; by hand: x0 raises a in both tasks and lowers b in the second, x1 differs for c."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 4)), np.repeat(["one", "two"], 30)
    model = MSMTFLClassifier(0.5).fit(X, np.array(["a", "b", "c"])[np.arange(60) % 3], task=task)
    coef = np.zeros((2, 3, 4))
    coef[:, 0, 0], coef[1, 1, 0] = 1.0, -2.0
    coef[0, 2, 1], coef[1, 2, 1] = 0.5, -0.5
    coef[0, 0, 2] = 3.0
    model.coef_, model.row_norms_ = coef, np.abs(coef).sum(axis=(0, 1))
    return model


def test_signs_are_compared_class_by_class(of_classes):
    found = sharing_map(of_classes)
    assert found.signs.tolist() == [["+", "", "+", ""], ["-", "", "", ""], ["", "mixed", "", ""]]
    assert "    1 with signs that differ between tasks for the same class: 'x1' ('c')" in str(found)
    assert found.classes.tolist() == ["all", "all", "one", "unused"]
    frame = found.to_frame()
    assert frame.columns.tolist()[-3:] == ["sign[a]", "sign[b]", "sign[c]"]
    assert frame["sign[c]"].tolist() == ["", "mixed", "", ""]


def test_a_class_has_a_map_of_its_own(of_classes):
    found = sharing_map(of_classes, class_of_interest="b")
    assert found.classes.tolist() == ["one", "unused", "unused", "unused"]
    assert found.signs.tolist() == ["-", "", "", ""]
    np.testing.assert_allclose(found.row_norms, [2.0, 0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="no class 'd': 'a', 'b', 'c'"):
        sharing_map(of_classes, class_of_interest="d")
    with pytest.raises(ValueError, match="coefficients are of classes where there are more than two"):
        sharing_map(with_coef([[1.0]]), class_of_interest="b")


def found_among(features, tasks, declared, **more):
    """What `shared_features` would return."""
    names, score = np.array(features), np.where(declared, 1.0, -0.5)
    known = {"r": 2, "fdr": 0.1, "approximate": (), **more}
    return SharedFeatures(
        features=names[declared],
        declared=np.array(declared),
        statistics=np.tile(score, (len(tasks), 1)),
        score=score,
        tasks=np.array(tasks),
        candidates=names,
        **known,
    )


def test_a_map_says_what_is_declared_with_an_error_rate(model):
    plain = sharing_map(model)
    declared = np.isin(plain.features, ["all+", "mixed", "none"])
    found = sharing_map(model, shared=found_among(plain.features, plain.tasks, declared))
    np.testing.assert_array_equal(found.declared, declared)
    text = str(found).splitlines()
    assert "    3 declared to matter in at least 2 of 3 tasks (at most 10 % of them false on average)" in text[7]
    assert "    2 used by at least 2 of 3 tasks but not declared, which may be chance: " in text[8]
    assert "'all-'" in text[8]
    assert "'two'" in text[8]
    assert [line for line in text if line not in str(plain).splitlines()] == text[7:9]
    frame = found.to_frame().set_index("feature")
    assert frame.index[frame["declared"]].tolist() == plain.features[declared].tolist()
    assert plain.declared is None
    assert "declared" not in plain.to_frame()


def test_what_is_approximate_is_said_in_the_map(model):
    plain = sharing_map(model)
    shared = found_among(plain.features, plain.tasks, np.ones(7, dtype=bool), approximate=("knockoffs are rough.",))
    assert "      approximate: knockoffs are rough." in str(sharing_map(model, shared=shared)).splitlines()


def test_declared_features_must_be_about_the_same_data(model):
    plain = sharing_map(model)
    with pytest.raises(ValueError, match=r"other features \('x0', .*\) than the model .* in the same order"):
        sharing_map(model, shared=found_among([f"x{j}" for j in range(7)], plain.tasks, np.ones(7, dtype=bool)))
    with pytest.raises(ValueError, match=r"other tasks \('a', 'b', 'c'\) than the model"):
        sharing_map(model, shared=found_among(plain.features, ["a", "b", "c"], np.ones(7, dtype=bool)))
    with pytest.raises(TypeError, match="what shared_features returns, not ndarray"):
        sharing_map(model, shared=np.ones(7, dtype=bool))


def test_a_map_with_what_shared_features_finds():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((300, 15)), np.tile(["north", "south"], 150)
    y = X[:, :6].sum(axis=1) + rng.standard_normal(300)
    model = MSMTFL(0.1, 1.5).fit(X, y, task=task)
    found = sharing_map(model, shared=shared_features(model, X, y, task=task, r=2, fdr=0.2))
    assert found.declared[:6].all()
    assert "declared to matter in at least 2 of 2 tasks" in str(found)


def test_results_are_cards_in_a_notebook_with_names_escaped():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 2)), np.repeat(["a", "<script>x</script>"], 30)
    table = pd.DataFrame(X, columns=["<b>bold</b>", "plain"])
    model = LassoMTL(0.05).fit(table, X[:, 0], task=task)
    shown = debiased_intervals(model, table, X[:, 0] + 0.1 * rng.standard_normal(60), task=task)
    compared = compare_models(table, X @ [1.0, 0.5], task=task, models={"a": LassoMTL(0.1), "<i>": LassoMTL(0.2)}, cv=2)
    for result in (sharing_map(model), model.certificate_, shown, compared):
        card = result._repr_html_()
        assert "<b>bold" not in card
        assert "<script" not in card
        assert "<i>" not in card
        assert html.unescape(card).count(str(result).split("\n")[-1]) == 1


def test_groups_and_categories_are_one_line_per_variable():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((90, 6)), np.repeat(["north", "south", "west"], 30)
    y = X[:, 0] - X[:, 1] + X[:, 3] + 0.1 * rng.standard_normal(90)
    names = ["a", "a", "b", "c", "c", "d"]
    model = MSMTFL(0.15, np.inf, feature_groups=names).fit(X, y, task=task)
    found = sharing_map(model)
    assert found.features.tolist() == ["a", "b", "c", "d"]
    assert found.classes.tolist() == ["all", "unused", "all", "unused"]
    assert found.signs.tolist()[0] == "mixed"
    np.testing.assert_array_equal(found.row_norms, model.row_norms_[[0, 2, 3, 5]])
    assert found.tasks_of("c").tolist() == ["north", "south", "west"]
    assert len(found.to_frame()) == 4
    one = sharing_map(LassoMTL(0.3).fit(X, y, task=task))
    assert len(one.features) == 6
