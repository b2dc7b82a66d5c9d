"""The sharing map says of every feature who uses it, and task_similarity how alike the tasks are."""

import builtins

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from msmtfl import L12MTL, MSMTFL, MSMTFLCV, DirtyMTL, LassoMTL
from msmtfl.baselines import PooledLassoCV, PooledRidgeCV, RidgePerTaskCV
from msmtfl.model_files import load_model, save_model
from msmtfl.sharing import CLASSES, sharing_map, task_similarity

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
    assert frame.columns.tolist() == ["class", "n_tasks", "tasks", "row_norm", "freed", "sign"]
    assert frame["class"].tolist() == ["all", "all", "all", "some", "one", "unused", "unused"]
    assert frame["n_tasks"].tolist() == [3, 3, 3, 2, 1, 0, 0]
    assert frame.loc["two", "tasks"] == ("north", "south")
    assert frame.loc["none", "tasks"] == ()
    np.testing.assert_array_equal(frame["row_norm"], model.row_norms_)
    assert frame["freed"].tolist() == [True, True, True, False, False, False, False]
    assert frame["sign"].tolist() == ["+", "-", "mixed", "+", "+", "", ""]


def test_counts_cover_all_features_and_tasks_of_looks_one_up(model):
    found = sharing_map(model)
    assert found.counts == {"all": 3, "some": 1, "one": 1, "unused": 2}
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
