"""msmtfl.dask on a real cluster of two worker processes: the answer is that of the local fit, whatever happens to it."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import time
from collections import defaultdict
from itertools import pairwise

import joblib
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.model_selection import GridSearchCV

from msmtfl import MSMTFL, MSMTFLCV, Moments, TaskKFold
from msmtfl.model_files import load_model, save_model

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")
pd = pytest.importorskip("pandas")

from distributed.diagnostics.plugin import SchedulerPlugin  # noqa: E402
from distributed.protocol import serialize  # noqa: E402

from msmtfl.dask import DaskMSMTFL, DaskMSMTFLCV, cluster, on_cluster, reading, worker  # noqa: E402
from msmtfl.dask import client as client_side  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timed]  # a cluster of processes
MODES = ("moments", "data")
FEATURES = [f"f{j}" for j in range(8)]


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@contextlib.contextmanager
def small_cluster(**options):
    """A cluster within this process, to be closed or to be short of memory."""
    quiet = dict.fromkeys((f"distributed.worker.memory.{name}" for name in ("target", "spill", "pause")), False)
    options = {"n_workers": 1, "processes": False, "dashboard_address": ":0", **options}
    with (
        dask.config.set(quiet),
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def table():
    """A task column in the middle, tasks of unequal size, a column far off zero, a constant one in one task."""
    rng = np.random.default_rng(0)
    school = rng.permutation(np.repeat(["north", "south", "west"], [90, 60, 30]))
    X = rng.standard_normal((180, 8)) @ (np.eye(8) + 0.2)
    X[:, 5] += 1e3
    X[school == "west", 6] = 4.0
    y = 2 * X[:, 0] - X[:, 3] + 0.5 * (school == "south") * X[:, 1] + 7 + 0.3 * rng.standard_normal(180)
    out = pd.DataFrame(X, columns=FEATURES)
    out.insert(3, "school", school)
    return out.assign(score=y, weight=rng.choice([0.0, 0.5, 1.0, 2.0], 180))


def arrays(table):
    return table[FEATURES].to_numpy(), table["score"].to_numpy(), table["school"].to_numpy(dtype=object)


def local_fit(table, weighted=False, **parameters):
    X = table[[*FEATURES[:3], "school", *FEATURES[3:]]]
    return MSMTFL(task_column="school", **parameters).fit(
        X, table["score"], sample_weight=table["weight"] if weighted else None
    )


def assert_same(model, local, columns=True):
    """Model on a cluster, model here: the same fit, to 1e-10."""
    for name in ("coef_", "intercept_", "lam_", "theta_", "lam_max_", "objective_", "row_norms_", "target_mean_"):
        np.testing.assert_allclose(getattr(model, name), getattr(local, name), rtol=1e-10, atol=1e-10, err_msg=name)
    for name in ("tasks_", "features_", "n_samples_", "n_stages_", "stopping_reason_", "converged_", "n_features_in_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(local, name), err_msg=name)
    mine, other = model.certificate_, local.certificate_
    assert max(mine.dual_gap, mine.kkt) <= 1e-10
    np.testing.assert_allclose(mine.critical, other.critical, atol=1e-10)
    assert (mine.unique, mine.monotone, mine.convex) == (other.unique, other.monotone, other.convex)
    for here, there in zip(model.stages_, local.stages_, strict=True):
        np.testing.assert_array_equal(here.free_rows, there.free_rows)
    if columns:
        np.testing.assert_allclose(model.feature_importances_, local.feature_importances_, rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(model.feature_names_in_, local.feature_names_in_)


# ------------------------------------------------------------------ the same answer


SETTINGS = {
    "defaults": {},
    "standardised": {"standardize": True, "lam": 0.05, "theta": 0.4},
    "no intercept": {"fit_intercept": False, "lam": 0.3, "theta": 1.0},
    "adaptive": {"theta": "adaptive"},
    "factors": {"penalty_factors": [1.0, 0.5, np.inf, 1.0, 2.0, 1.0, 1.0, 3.0], "standardize": True, "theta": 0.5},
    "positive": {"positive": True, "lam": 0.02, "theta": 0.3},
    "one stage": {"max_stages": 1},
    "entries too": {"lam": 0.05, "theta": 0.4, "lam_entry": 0.03, "theta_entry": 0.2},
    "another shape": {"lam": 0.05, "theta": 0.4, "penalty": "mcp", "standardize": True},
    "all free": {"penalty_factors": [1.0] * 7 + [np.inf], "lam": 1e-4, "theta": 1e-9},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.sampled(3)
def test_a_frame_gives_the_local_fit(client, table, mode, setting):
    frame = dd.from_pandas(table.drop(columns="weight"), npartitions=3)
    model = DaskMSMTFL(client=client, mode=mode, task_column="school", **SETTINGS[setting]).fit(frame, "score")
    assert model.mode_ == mode
    assert_same(model, local_fit(table, **SETTINGS[setting]))


@pytest.mark.parametrize("mode", MODES)
def test_target_and_weights_may_be_series_or_names(client, table, mode):
    local = local_fit(table, weighted=True)
    frame = dd.from_pandas(table, npartitions=3)
    named = DaskMSMTFL(client=client, mode=mode, task_column="school").fit(frame, "score", sample_weight="weight")
    assert_same(named, local)
    X = frame.drop(columns=["score", "weight"])
    apart = DaskMSMTFL(client=client, mode=mode, task_column="school")
    assert_same(apart.fit(X, frame["score"], sample_weight=frame["weight"]), local)


@pytest.mark.parametrize("mode", MODES)
def test_arrays_in_any_chunks_give_the_local_fit(client, table, mode):
    X, y, task = arrays(table)
    weight = table["weight"].to_numpy()
    local = MSMTFL().fit(X, y, task=task, sample_weight=weight)
    chunked = da.from_array(X, chunks=((10, 100, 70), (3, 5)))
    model = DaskMSMTFL(client=client, mode=mode)
    assert_same(model.fit(chunked, y, task=task, sample_weight=weight), local, columns=False)
    others = {"task": da.from_array(task, chunks=37), "sample_weight": da.from_array(weight, chunks=90)}
    assert_same(model.fit(chunked, da.from_array(y, chunks=50), **others), local, columns=False)


@pytest.mark.parametrize("mode", MODES)
def test_futures_give_the_local_fit_and_their_columns_are_found_by_name(client, table, mode):
    parts = np.array_split(np.arange(180), 3)
    X = table[[*FEATURES, "school"]]
    given = [X.iloc[parts[0]], X.iloc[parts[1], ::-1], X.iloc[parts[2], [8, 1, 0, *range(2, 8)]]]
    pieces = [(part, table["score"].iloc[rows]) for part, rows in zip(given, parts, strict=True)]
    futures = [client.submit(lambda piece: piece, piece) for piece in pieces]
    model = DaskMSMTFL(client=client, mode=mode, task_column="school").fit(futures)
    assert_same(model, MSMTFL(task_column="school").fit(X, table["score"]))


@pytest.mark.parametrize("mode", MODES)
def test_sparse_partitions_stay_sparse_and_give_the_local_fit(client, mode):
    rng = np.random.default_rng(1)
    X = csr_array(rng.standard_normal((120, 30)) * (rng.random((120, 30)) < 0.2))
    y, task = X @ rng.standard_normal(30), np.tile([0, 1], 60)
    rows = np.array_split(np.arange(120), 3)
    futures = [client.submit(lambda *piece: piece, X[some], y[some], task[some]) for some in rows]
    model = DaskMSMTFL(client=client, mode=mode).fit(futures)
    assert_same(model, MSMTFL().fit(X, y, task=task), columns=False)


@pytest.mark.parametrize("mode", MODES)
def test_without_labels_there_is_one_task(client, table, mode):
    X, y, _ = arrays(table)
    model = DaskMSMTFL(client=client, mode=mode).fit(da.from_array(X, chunks=(60, 8)), y)
    assert model.coef_.shape == (8,)
    assert_same(model, MSMTFL().fit(X, y), columns=False)


def test_one_column_of_y_per_task_is_fitted_from_statistics(client, table):
    X, y, _ = arrays(table)
    Y = np.stack([y, y**2 / 10, X[:, 4]], axis=1)
    Y[::5, 1] = np.nan
    Y[:70, 2] = np.nan  # a chunk in which a task was not measured
    chunked = da.from_array(X, chunks=(60, 4))
    model = DaskMSMTFL(client=client).fit(chunked, da.from_array(Y, chunks=(60, 1)))
    local = MSMTFL().fit(X, Y)
    assert model.mode_ == "moments"
    assert_same(model, local, columns=False)
    np.testing.assert_allclose(model.predict(chunked).compute(), local.predict(X))
    with pytest.raises(ValueError, match=r"one column of y per task.*mode='moments'"):
        DaskMSMTFL(client=client, mode="data").fit(chunked, Y)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("labels", [np.array([3, 11, 5]), np.array(["b", "a", "c"], dtype=object)])
def test_labels_of_any_type_are_in_the_order_of_a_local_fit(client, table, mode, labels):
    X, y, task = arrays(table)
    task = labels[np.unique(task, return_inverse=True)[1]]
    model = DaskMSMTFL(client=client, mode=mode).fit(da.from_array(X, chunks=(90, 8)), y, task=task)
    assert model.tasks_.tolist() == sorted(labels.tolist())
    np.testing.assert_allclose(model.coef_, MSMTFL().fit(X, y, task=task).coef_, atol=1e-10)


@pytest.mark.parametrize("mode", MODES)
def test_categories_keep_their_order(client, table, mode):
    order = pd.CategoricalDtype(["west", "north", "east", "south"])
    table = table.astype({"school": order})
    factors = np.ones((8, 3))
    factors[0, 0] = np.inf  # of the first task in that order
    parameters = {"penalty_factors": factors} if mode == "moments" else {}
    frame = dd.from_pandas(table.drop(columns="weight"), npartitions=2)
    model = DaskMSMTFL(client=client, mode=mode, task_column="school", **parameters).fit(frame, "score")
    assert model.tasks_.tolist() == ["west", "north", "south"]
    assert_same(model, local_fit(table, **parameters))


@pytest.mark.parametrize("mode", MODES)
def test_the_task_column_of_an_array_is_found_by_its_place(client, table, mode):
    X, y, task = arrays(table)
    X = np.insert(X, 2, np.unique(task, return_inverse=True)[1], axis=1)
    chunked, local = da.from_array(X, chunks=(60, 4)), MSMTFL(task_column=2).fit(X, y)
    model = DaskMSMTFL(client=client, mode=mode, task_column=2).fit(chunked, y)
    assert_same(model, local, columns=False)
    np.testing.assert_allclose(model.feature_importances_, local.feature_importances_, atol=1e-10)
    np.testing.assert_allclose(model.predict(chunked).compute(), local.predict(X), rtol=1e-10)


def test_the_default_client_is_used(client, table):
    with client.as_current():
        model = DaskMSMTFL(task_column="school").fit(
            dd.from_pandas(table, npartitions=2).drop(columns="weight"), "score"
        )
    assert_same(model, local_fit(table))


# ------------------------------------------------------------------ modes, messages, places


def wide_problem(d=4001, rows=30):
    rng = np.random.default_rng(2)
    X, task = rng.standard_normal((2 * rows, d)), np.repeat(["a", "b"], rows)
    return X, X[:, 0] - X[:, 7] + 0.1 * rng.standard_normal(2 * rows), task


def test_auto_keeps_wide_data_where_they_are_and_messages_are_small(client):
    X, y, task = wide_problem()
    parameters = {"lam": 0.2, "theta": 0.5}
    model = DaskMSMTFL(client=client, **parameters).fit(da.from_array(X, chunks=(20, 2000)), y, task=task)
    local = MSMTFL(**parameters).fit(X, y, task=task)
    assert model.mode_ == "data"
    assert local.n_stages_ > 1
    assert_same(model, local, columns=False)
    numbers = 8 * local.coef_.size * local.n_stages_
    assert numbers <= model.messages_["received"] <= 2 * numbers
    assert model.messages_["sent"] <= model.messages_["received"] / 16


def test_what_is_serialised_of_a_stage_is_d_numbers_per_task():
    X, y, _ = wide_problem(d=5000)
    layout = reading.Layout(np.array([f"x{j}" for j in range(5000)], dtype=object), None, "long", None)
    task = worker.TaskOnWorker([(X, y, None)], "a", layout, worker.Rules(True, False, False, None, 2, 1e9))
    weights = worker.Weights(0.5 / 60, np.array([7], dtype=np.int32), np.zeros(1))
    answer = worker.solve_stage(task, weights, None, 0)
    header, frames = serialize(answer)
    up = len(pickle.dumps(header)) + sum(memoryview(frame).nbytes for frame in frames)
    down = len(pickle.dumps((worker.solve_stage, weights, None, 0)))
    assert answer.w[7] != 0.0
    assert 8 * 5000 <= up <= 1.1 * 8 * 5000
    assert down <= 5000 / 8 + 200


class Places(SchedulerPlugin):
    """Which workers did what, and what they could not finish."""

    def __init__(self):
        self.workers, self.interrupted = defaultdict(list), []

    def transition(self, key, start, finish, *args, worker=None, **others):
        if (start, finish) == ("processing", "released"):
            self.interrupted.append(key)
        if finish == "memory" and worker is not None:
            self.workers[str(key).split("-")[0]].append(worker)


@pytest.fixture
def places(client):
    plugin = Places()
    scheduler = client.cluster.scheduler
    scheduler.add_plugin(plugin, name="places")
    yield plugin
    scheduler.remove_plugin("places")


def test_a_task_stays_on_one_worker_through_all_stages(client, table, places):
    frame = dd.from_pandas(table.drop(columns="weight"), npartitions=4)
    model = DaskMSMTFL(client=client, mode="data", task_column="school", lam=0.05, theta=0.4).fit(frame, "score")
    assert model.n_stages_ > 1
    assert len(places.workers["TaskOnWorker"]) == 3
    assert len(places.workers["solve_stage"]) == 3 * model.n_stages_
    assert sorted(places.workers["solve_stage"]) == sorted(places.workers["TaskOnWorker"] * model.n_stages_)


def test_a_task_can_be_moved_to_another_worker(client):
    X, y, _ = wide_problem(d=50)
    layout = reading.Layout(np.array([f"x{j}" for j in range(50)], dtype=object), None, "long", None)
    rules = worker.Rules(True, True, False, None, 2, 1e9)
    here, there = client.scheduler_info()["workers"]
    task = client.submit(worker.TaskOnWorker, [(X, y, None)], "a", layout, rules, workers=[here])
    weights = worker.Weights(0.5 / 60, np.empty(0, dtype=np.int32), np.empty(0))
    moved = client.submit(worker.solve_stage, task, weights, None, 0, workers=[there]).result(timeout=60)
    stayed = worker.solve_stage(worker.TaskOnWorker([(X, y, None)], "a", layout, rules), weights, None, 0)
    np.testing.assert_allclose(moved.w, stayed.w, atol=1e-12)
    assert dask.sizeof.sizeof(worker.TaskOnWorker([(X, y, None)], "a", layout, rules)) >= X.nbytes


# ------------------------------------------------------------------ where a worker is too small


def test_a_task_larger_than_half_a_worker_uses_statistics_or_says_so(monkeypatch):
    monkeypatch.setattr(
        on_cluster, "BUDGET", 1000
    )  # statistics of 20 features count as large: auto would keep the data
    X, y, task = wide_problem(d=20, rows=500)  # 80 kB a task; statistics take 3.2 kB a task
    chunked = da.from_array(X, chunks=(250, 20))
    with small_cluster(memory_limit=200_000) as client:
        assert DaskMSMTFL(client=client).fit(chunked, y, task=task).mode_ == "data"
    with small_cluster(memory_limit=100_000) as client:
        model = DaskMSMTFL(client=client).fit(chunked, y, task=task)
        with pytest.raises(ValueError, match=r"500 rows of task 'a' take .* half of a worker's memory.*mode='moments'"):
            DaskMSMTFL(client=client, mode="data").fit(chunked, y, task=task)
        with pytest.raises(
            ValueError, match=r"15 of them have to fit into a worker's memory.*fewer folds or mode='data'"
        ):
            DaskMSMTFLCV(client=client, cv=3, mode="moments").fit(da.concatenate([chunked] * 2, axis=1), y, task=task)
    assert model.mode_ == "moments"
    assert_same(model, MSMTFL().fit(X, y, task=task), columns=False)


# ------------------------------------------------------------------ the model, away from the cluster


def test_the_local_model_predicts_and_can_be_stored(client, table, tmp_path):
    frame = dd.from_pandas(table.drop(columns="weight"), npartitions=3)
    X = table.drop(columns=["score", "weight"])
    local = local_fit(table)
    for mode in MODES:
        model = DaskMSMTFL(client=client, mode=mode, task_column="school").fit(frame, "score").to_local()
        assert type(model) is MSMTFL
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_allclose(again.predict(X), local.predict(X), rtol=1e-10)
        save_model(model, tmp_path / f"{mode}.json")
        np.testing.assert_allclose(load_model(tmp_path / f"{mode}.json").predict(X), local.predict(X), rtol=1e-10)


def test_predictions_are_lazy_and_those_of_the_local_model(client, table):
    frame = dd.from_pandas(table.drop(columns="weight"), npartitions=3)
    X = frame.drop(columns="score")
    local = local_fit(table)
    expected = local.predict(table.drop(columns=["score", "weight"]))
    model = DaskMSMTFL(client=client, task_column="school").fit(frame, "score")
    lazy = model.predict(X)
    assert dask.is_dask_collection(lazy)
    with client.as_current():
        np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-10)
    some = X[X["f0"] > 1.5]  # hardly any row, perhaps none in a partition
    np.testing.assert_allclose(model.predict(some).compute(), expected[table["f0"] > 1.5], rtol=1e-10)
    np.testing.assert_allclose(model.predict(X.compute()), expected, rtol=1e-10)


def test_predictions_with_labels_beside_the_features(client, table):
    X, y, task = arrays(table)
    chunked, expected = (
        da.from_array(X, chunks=((0, 50, 130), (4, 4))),
        MSMTFL().fit(X, y, task=task).predict(X, task=task),
    )
    model = DaskMSMTFL(client=client).fit(chunked, y, task=task)
    for labels in (task, da.from_array(task, chunks=33)):
        np.testing.assert_allclose(model.predict(chunked, task=labels).compute(), expected, rtol=1e-10)
    frame = dd.from_pandas(table[[*FEATURES, "school"]], npartitions=3)
    beside = DaskMSMTFL(client=client).fit(
        frame[FEATURES], dd.from_pandas(table["score"], npartitions=3), task=frame["school"]
    )
    np.testing.assert_allclose(beside.predict(frame[FEATURES], task=frame["school"]).compute(), expected, rtol=1e-10)
    np.testing.assert_allclose(beside.predict(frame, task="school").compute(), expected, rtol=1e-10)


def test_a_second_fit_leaves_the_first_local_model_alone(client, table):
    frame = dd.from_pandas(table.drop(columns="weight"), npartitions=2)
    for mode in MODES:
        model = DaskMSMTFL(client=client, mode=mode, task_column="school").fit(frame, "score")
        first = model.to_local()
        coef = first.coef_.copy()
        model.fit(frame.partitions[0], "score")
        assert model.to_local() is not first
        np.testing.assert_array_equal(first.coef_, coef)


@pytest.mark.parametrize("mode", MODES)
def test_where_the_stages_start_is_told_to_the_workers(client, mode):
    """Two equal columns: which solution is found depends on the start, as it does locally."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((80, 4))
    X[:, 3] = X[:, 2]
    y, task = X[:, 2] + 0.1 * rng.standard_normal(80), np.tile([0, 1], 40)
    parameters = {"lam": 0.05, "theta": 0.2, "coef_init": [[0.0, 0.0, 0.9, 0.1]] * 2}
    model = DaskMSMTFL(client=client, mode=mode, **parameters).fit(da.from_array(X, chunks=(40, 4)), y, task=task)
    local = MSMTFL(**parameters).fit(X, y, task=task)
    assert not local.certificate_.unique
    assert_same(model, local, columns=False)
    warm = DaskMSMTFL(client=client, mode=mode, warm_start=True, lam=0.05, theta=0.2)
    warm.fit(da.from_array(X, chunks=(40, 4)), y, task=task)
    assert warm.n_stages_ == 2
    assert warm.fit(da.from_array(X, chunks=(40, 4)), y, task=task).n_stages_ == 1


# ------------------------------------------------------------------ cross-validation


def local_search(table, weighted=False, **parameters):
    X = table.drop(columns=["score", "weight"])
    weight = table["weight"] if weighted else None
    return MSMTFLCV(task_column="school", **parameters).fit(X, table["score"], sample_weight=weight)


def assert_same_search(model, local):
    """The same folds, the same errors (1e-8), the same choice (1e-10)."""
    assert set(model.cv_results_) == set(local.cv_results_)
    for name, column in local.cv_results_.items():
        if name == "rank_test_score":  # of equal scores rounding decides
            continue
        mine, other = (np.stack(list(values)).astype(float) for values in (model.cv_results_[name], column))
        np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-8, err_msg=name)
    assert (model.best_point_, model.best_index_, model.n_splits_) == (
        local.best_point_,
        local.best_index_,
        local.n_splits_,
    )
    for name in ("coef_", "intercept_", "lam_", "theta_", "lams_", "thetas_", "lam_max_", "best_score_", "objective_"):
        np.testing.assert_allclose(getattr(model, name), getattr(local, name), rtol=1e-10, atol=1e-10, err_msg=name)
    np.testing.assert_array_equal(model.tasks_, local.tasks_)
    assert_same_surface(model.surface_, local.surface_)


def assert_same_surface(surface, local):
    assert type(surface) is type(local)
    both = local.reached  # a local search leaves out what has no part in the choice
    assert surface.reached[both].all()
    for name in ("lams", "thetas", "lam_max"):
        np.testing.assert_allclose(getattr(surface, name), getattr(local, name), rtol=1e-10, atol=1e-10, err_msg=name)
    for name in ("objective", "dual_gap"):
        found, expected = getattr(surface, name)[both], getattr(local, name)[both]
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10, err_msg=name)
    for name in ("n_stages", "n_rows", "n_entries", "stopping_reason", "converged", "unique"):
        np.testing.assert_array_equal(getattr(surface, name)[both], getattr(local, name)[both], err_msg=name)
    for name in ("tasks", "features"):
        np.testing.assert_array_equal(getattr(surface, name), getattr(local, name), err_msg=name)
    for k, l in np.argwhere(both):
        np.testing.assert_allclose(surface.coef(k, l), local.coef(k, l), atol=1e-10)
        np.testing.assert_allclose(surface.intercept(k, l), local.intercept(k, l), atol=1e-8)
        np.testing.assert_array_equal(surface.free_rows(k, l), local.free_rows(k, l))


SEARCHES = {
    "defaults": {},
    "standardised, another seed": {"standardize": True, "random_state": 5, "selection": "1se"},
    "no intercept": {"fit_intercept": False, "scoring": "neg_mse"},
    "folds in turn": {"cv": TaskKFold(4, shuffle=False)},
    "factors": {"penalty_factors": [1.0, 0.5, np.inf, 1.0, 2.0, 1.0, 1.0, 3.0]},
    "positive": {"positive": True, "thetas": [0.1, 0.5, 2.0]},
    "one theta": {"theta_ratios": [4.0], "max_stages": 2},
    "entries too": {"entry_shares": [0.0, 0.5, 1.0], "entry_ratios": [1.0, 4.0], "theta_ratios": [1.0, 8.0]},
    "another shape": {"penalty": "mcp", "theta_ratios": [2.0, 8.0]},
    "a criterion": {"selection": "bic"},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("setting", SEARCHES)
@pytest.mark.sampled(3)
def test_cross_validation_equals_the_local_one(client, table, mode, setting):
    parameters = {"lams": 8, "cv": 3, **SEARCHES[setting]}
    frame = dd.from_pandas(table, npartitions=3)
    model = DaskMSMTFLCV(client=client, mode=mode, task_column="school", **parameters)
    model.fit(frame, "score", sample_weight="weight")
    assert model.mode_ == mode
    assert_same_search(model, local_search(table, weighted=True, **parameters))
    assert type(model.to_local()) is MSMTFLCV


@pytest.mark.parametrize("mode", MODES)
def test_folds_do_not_depend_on_the_partitions_and_categories_keep_their_order(client, table, mode):
    table = table.astype({"school": pd.CategoricalDtype(["west", "nobody", "south", "north"])})
    local = local_search(table, lams=6, cv=3)
    whole = table.drop(columns="weight")
    for ends in ([0, 0, 7, 180], [0, 60, 61, 100, 100, 180]):
        parts = [dask.delayed(whole.iloc[low:high]) for low, high in pairwise(ends)]
        frame = dd.from_delayed(parts, meta=whole.iloc[:0])
        model = DaskMSMTFLCV(client=client, mode=mode, lams=6, cv=3, task_column="school").fit(frame, "score")
        assert model.tasks_.tolist() == ["west", "south", "north"]
        assert_same_search(model, local)
    X = dd.from_pandas(whole.drop(columns="score"), npartitions=2)
    np.testing.assert_allclose(model.predict(X).compute(), local.predict(whole.drop(columns="score")), rtol=1e-10)


def test_wide_data_are_cross_validated_where_they_are(client, places):
    """Few rows of many: points that would interpolate stop, minimisers may not be unique; messages stay small."""
    X, y, task = wide_problem(rows=40)
    parameters = {"lams": 10, "cv": 3, "theta_ratios": [1.0, 2.0, 8.0, np.inf]}
    chunked = da.from_array(X, chunks=(30, 2000))
    model = DaskMSMTFLCV(client=client, **parameters).fit(chunked, y, task=task)
    local = MSMTFLCV(**parameters).fit(X, y, task=task)
    assert model.mode_ == "data"
    assert_same_search(model, local)
    rounds = len(places.workers["solve_stages"]) / 2
    assert 1 < rounds <= 12  # of two tasks: one message each, whatever the number of points and folds
    refit = 8 * local.coef_.size * local.n_stages_
    assert model.messages_["received"] - refit <= 0.1 * 8 * local.coef_.size * 4 * len(local.surface_.solved)
    assert model.messages_["sent"] <= model.messages_["received"]


def test_sparse_data_are_cross_validated_where_they_are(client):
    rng = np.random.default_rng(1)
    X = csr_array(rng.standard_normal((120, 30)) * (rng.random((120, 30)) < 0.3))
    y, task = X @ np.r_[2.0, -1.0, 1.0, np.zeros(27)] + 0.1 * rng.standard_normal(120), np.tile([0, 1], 60)
    futures = [
        client.submit(lambda *piece: piece, X[some], y[some], task[some]) for some in np.split(np.arange(120), 3)
    ]
    model = DaskMSMTFLCV(client=client, mode="data", lams=8, cv=3).fit(futures)
    assert_same_search(model, MSMTFLCV(lams=8, cv=3).fit(X, y, task=task))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("setting", ["defaults", "standardised, another seed", "no intercept", "factors", "positive"])
@pytest.mark.sampled(2)
def test_a_surface_equals_the_local_one_and_outlives_the_data(client, table, mode, setting):
    names = ("standardize", "fit_intercept", "penalty_factors", "positive")
    parameters = {name: value for name, value in SEARCHES[setting].items() if name in names}
    frame = dd.from_pandas(table, npartitions=3)
    model = DaskMSMTFL(client=client, mode=mode, task_column="school", **parameters)
    surface = model.surface(frame, "score", sample_weight="weight", lams=10, theta_ratios=[1, 4, 16, np.inf])
    X = table.drop(columns=["score", "weight"])
    local = MSMTFL(task_column="school", **parameters).surface(
        X, table["score"], sample_weight=table["weight"], lams=10, theta_ratios=[1, 4, 16, np.inf]
    )
    assert model.mode_ == mode
    assert local.n_stages.max() > 1
    assert_same_surface(surface, local)
    assert_same_surface(pickle.loads(pickle.dumps(surface)), local)
    assert list(surface.to_frame().columns) == list(local.to_frame().columns)


def test_stages_that_are_not_unique_follow_the_stage_before_them(client):
    """Equal columns: of the same set of capped rows there are as many solutions as ways that lead to it."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 6))
    X = np.hstack([X, X[:, :3]])
    y, task = X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(60), np.tile([0, 1], 30)
    parameters = {"lams": 8, "thetas": np.geomspace(0.01, 3.0, 8)}
    surface = DaskMSMTFL(client=client, mode="data").surface(
        da.from_array(X, chunks=(20, 9)), y, task=task, **parameters
    )
    local = MSMTFL().surface(X, y, task=task, **parameters)
    assert not local.unique.all()
    assert_same_surface(surface, local)


def test_one_column_of_y_per_task_is_cross_validated_from_statistics(client, table):
    X, y, _ = arrays(table)
    Y = np.stack([y, X[:, 4] + 0.1 * y], axis=1)
    model = DaskMSMTFLCV(client=client, lams=6, cv=3).fit(
        da.from_array(X, chunks=(60, 8)), da.from_array(Y, chunks=(60, 2))
    )
    assert model.mode_ == "moments"
    local = MSMTFLCV(lams=6, cv=3).fit(X, Y)
    np.testing.assert_allclose(model.surface_.coef(3, 2), local.surface_.coef(3, 2), atol=1e-10)
    assert model.n_splits_ == 3


def test_folds_of_statistics_are_solved_on_workers_and_a_criterion_needs_none(client, table, places):
    frame = dd.from_pandas(table.drop(columns="weight"), npartitions=3)
    for selection, count in (("bic", 0), ("min", 3)):
        DaskMSMTFLCV(client=client, lams=6, cv=3, selection=selection, task_column="school").fit(frame, "score")
        assert len(places.workers["fold_errors"]) == count


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"cv": 1}, "at least 2"),
        ({"cv": [([0], [1])]}, "number of folds, or a TaskKFold"),
        ({"cv": 40}, "task 'west' has 30 sample.*fewer than n_splits=40"),
        ({"scoring": "r2"}, "on a cluster scoring must be one of 'neg_nmse'.*got 'r2'"),
    ],
)
def test_cross_validation_says_what_it_cannot_do(client, table, mode, parameters, words):
    frame = dd.from_pandas(table.drop(columns="weight"), npartitions=2)
    with pytest.raises(ValueError, match=words):
        DaskMSMTFLCV(client=client, mode=mode, task_column="school", **parameters).fit(frame, "score")


def test_what_is_serialised_of_many_stages_is_sparse():
    X, y, _ = wide_problem(d=5000)
    layout = reading.Layout(np.array([f"x{j}" for j in range(5000)], dtype=object), None, "long", None)
    rules = worker.Rules(True, False, False, None, 2, 1e9)
    task = worker.TaskOnWorker([(X, y, None)], "a", layout, rules, np.arange(60) % 2)
    empty = np.empty(0, dtype=np.int32)
    lams = np.tile(np.geomspace(1.0, 0.2, 10), 3)
    request = worker.StageRequest(
        np.repeat([0, 1, 2], 10).astype(np.int16), lams, np.full(30, -1), empty, np.empty(0), np.zeros(30, int)
    )
    found = worker.solve_stages(task, request, [], 0)
    header, frames = serialize(found)
    up = len(pickle.dumps(header)) + sum(memoryview(frame).nbytes for frame in frames)
    assert found.value.size > 100
    assert found.nbytes <= up <= 1.5 * found.nbytes + 1000
    assert up <= 12 * found.value.size + 30 * len(request) + 2000
    assert len(pickle.dumps(request)) <= 30 * len(request) + 1000


# ------------------------------------------------------------------ workers and clients that go away


def kill(client, address):
    """By its process id, as if its machine had failed."""
    (pid,) = client.run(os.getpid, workers=[address]).values()
    os.kill(pid, signal.SIGKILL)


def busy_worker(client, seconds=10.0):
    """One that is at work."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        busy = [address for address, keys in client.processing().items() if keys]
        if busy:
            return busy[0]
    raise AssertionError("nobody works")


def after_a_while(part):
    time.sleep(0.3)
    return part


def slow_frame(table):
    """Parts that take their time, so that a worker can be killed at work."""
    whole = table.drop(columns="weight")
    parts = [dask.delayed(after_a_while)(whole.iloc[low : low + 45]) for low in range(0, 180, 45)]
    return dd.from_delayed(parts, meta=whole.iloc[:0])


def test_a_worker_killed_after_a_stage_changes_nothing(client, table, monkeypatch, places):
    original = client_side.RemoteStages.solve

    def then_kill(self, *arguments):
        out = original(self, *arguments)
        if self.workers.rounds == 1:
            (address,) = client.who_has(self.workers.tasks[:1])[self.workers.tasks[0].key]
            kill(client, address)
        return out

    monkeypatch.setattr(client_side.RemoteStages, "solve", then_kill)
    parameters = {"lam": 0.05, "theta": 0.4, "standardize": True}
    model = DaskMSMTFL(client=client, mode="data", task_column="school", **parameters).fit(slow_frame(table), "score")
    assert len(places.workers["TaskOnWorker"]) > 3  # one at least was put together again
    assert model.n_stages_ > 1
    assert_same(model, local_fit(table, **parameters))
    client.wait_for_workers(2, timeout=180)


def test_a_worker_killed_while_statistics_are_added_up_changes_nothing(client, table, monkeypatch, places):
    original = on_cluster.OnCluster._moments

    def then_kill(self, *arguments):
        out = original(self, *arguments)
        kill(client, busy_worker(client))
        return out

    monkeypatch.setattr(on_cluster.OnCluster, "_moments", then_kill)
    model = DaskMSMTFL(client=client, mode="moments", task_column="school").fit(slow_frame(table), "score")
    assert places.interrupted
    assert_same(model, local_fit(table))
    client.wait_for_workers(2, timeout=180)


def test_a_worker_killed_while_folds_are_solved_changes_nothing(client, table, monkeypatch, places):
    original = client_side.FoldsElsewhere.begin
    frame = dd.from_pandas(table.drop(columns="weight"), npartitions=3)

    def then_kill(self, grid, count):
        out = original(self, grid, count)
        kill(client, busy_worker(client))
        return out

    monkeypatch.setattr(client_side.FoldsElsewhere, "begin", then_kill)
    model = DaskMSMTFLCV(client=client, lams=40, cv=3, task_column="school").fit(frame, "score")
    assert_same_search(model, local_search(table, lams=40, cv=3))
    client.wait_for_workers(2, timeout=180)


def test_a_worker_killed_between_levels_of_cross_validation_changes_nothing(client, table, monkeypatch, places):
    original = client_side.RemoteSurface._solve

    def then_kill(self, waiting):
        original(self, waiting)
        if self.workers.rounds == 2:  # what the first two levels have found on that worker is lost as well
            (address,) = client.who_has(self.workers.tasks[:1])[self.workers.tasks[0].key]
            kill(client, address)

    monkeypatch.setattr(client_side.RemoteSurface, "_solve", then_kill)
    model = DaskMSMTFLCV(client=client, mode="data", lams=10, cv=3, task_column="school").fit(
        slow_frame(table), "score"
    )
    assert model.messages_["rounds"] > 4
    assert len(places.workers["TaskOnWorker"]) > 3  # one at least was put together again
    assert_same_search(model, local_search(table, lams=10, cv=3))
    client.wait_for_workers(2, timeout=180)


def within(seconds, function):
    """What a function raises on a thread of its own; a hang is a failure."""
    raised = []

    def run():
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    return raised[0]


def slow_part(seconds):
    time.sleep(seconds)
    X = np.eye(6)
    return X, X[:, 0], [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("what", ["client", "cluster"])
def test_a_client_that_goes_away_gives_a_clear_error(what):
    with small_cluster() as client:
        futures = [client.submit(slow_part, 1.5)]
        goes = client.close if what == "client" else client.cluster.close
        timer = threading.Timer(0.2, goes)
        timer.start()
        error = within(20, lambda: DaskMSMTFL(client=client).fit(futures))
        timer.join()
    assert isinstance(error, ConnectionError)
    assert "went away during the fit" in str(error)


def test_a_client_closed_between_stages_or_before_gives_a_clear_error(client, table, monkeypatch):
    frame = dd.from_pandas(table.drop(columns="weight"), npartitions=2)
    other = distributed.Client(client.cluster, set_as_default=False)
    original = client_side.RemoteStages.solve

    def then_close(self, *arguments):
        out = original(self, *arguments)
        other.close()
        return out

    monkeypatch.setattr(client_side.RemoteStages, "solve", then_close)
    model = DaskMSMTFL(client=other, mode="data", task_column="school", lam=0.05, theta=0.4)
    for _ in range(2):  # the second time it is closed from the beginning
        error = within(20, lambda: model.fit(frame, "score"))
        assert isinstance(error, ConnectionError)
        assert "start a client and fit again" in str(error)


def test_without_a_client_the_error_says_how_to_start_one(table):
    with pytest.raises(ConnectionError, match=r"no Dask client.*distributed.Client\(\).*client="):
        DaskMSMTFL(task_column="school").fit(dd.from_pandas(table, npartitions=2), "score")


# ------------------------------------------------------------------ odd partitions


def uneven(table):
    """Delayed parts: empty ones (the first, too), one of a single row, tasks that live in one part only."""
    table = table.drop(columns="weight").sort_values("school", kind="stable", ignore_index=True)
    ends = [0, 0, 1, 90, 90, 150, 180]
    return table, [dask.delayed(table.iloc[low:high]) for low, high in pairwise(ends)]


@pytest.mark.parametrize("mode", MODES)
def test_empty_and_uneven_partitions_of_unknown_divisions(client, table, mode):
    whole, parts = uneven(table)
    frame = dd.from_delayed(parts, meta=whole.iloc[:0])
    assert not frame.known_divisions
    model = DaskMSMTFL(client=client, mode=mode, task_column="school").fit(frame, "score")
    assert_same(model, local_fit(whole.assign(weight=1.0)))


@pytest.mark.parametrize("mode", MODES)
def test_a_shuffled_frame_gives_the_local_fit(client, table, mode):
    with client.as_current():
        frame = dd.from_pandas(table.drop(columns="weight"), npartitions=3).shuffle(on="school")
        model = DaskMSMTFL(mode=mode, task_column="school").fit(frame, "score")
    np.testing.assert_allclose(model.coef_, local_fit(table).coef_, atol=1e-10)


@pytest.mark.parametrize("mode", MODES)
def test_partitions_without_rows_are_nothing_to_fit(client, table, mode):
    frame = dd.from_delayed([dask.delayed(table.iloc[:0])] * 2, meta=table.iloc[:0])
    with pytest.raises(ValueError, match="all partitions are empty"):
        DaskMSMTFL(client=client, mode=mode, task_column="school").fit(frame, "score")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda part: part.drop(columns="f2"), "partition 2: .*'f2'"),
        (lambda part: part.assign(other=1.0), "partition 2: .*'other'"),
        (lambda part: part.assign(f4=np.where(part["f4"] > 1, np.nan, part["f4"])), "partition 2: .*NaN.*'f4'"),
        (lambda part: part.assign(score=np.nan), "partition 2: .*y contains NaN"),
        (lambda part: part.assign(f1="high"), "partition 2: .*'f1'.*'high'"),
        (lambda part: part.assign(school=None), "partition 2: task label missing"),
        (lambda part: part.drop(columns="school"), "partition 2: .*task_column='school' is not a column"),
    ],
)
def test_a_bad_partition_is_named(client, table, mode, change, words):
    table = table.drop(columns="weight")
    parts = [table.iloc[:60], table.iloc[60:90], change(table.iloc[90:])]
    pieces = [(part.drop(columns="score"), part["score"]) for part in parts]
    futures = [client.submit(lambda piece: piece, piece) for piece in pieces]
    with pytest.raises((ValueError, TypeError), match=words):
        DaskMSMTFL(client=client, mode=mode, task_column="school").fit(futures)


def bad_inputs(table):
    frame, X = dd.from_pandas(table, npartitions=3), da.from_array(table[FEATURES].to_numpy(), chunks=(60, 8))
    y = table["score"].to_numpy()
    unknown = dd.from_pandas(table[FEATURES], npartitions=3).to_dask_array()
    other_rows = dd.from_delayed([dask.delayed(table["score"].iloc[:n]) for n in (60, 59, 60)], meta=table["score"])
    turned = dd.from_delayed(
        [dask.delayed(table["score"].iloc[low : low + 60][::-1]) for low in (0, 60, 120)], meta=table["score"]
    )
    return {
        "partitions": (frame, dd.from_pandas(table["score"], npartitions=2), "y has 2 partitions, X has 3"),
        "rows": (frame, other_rows, "partition 1: 60 rows of X, but 59 of y"),
        "order": (frame, turned, "partition 0: the rows of y stand in another order"),
        "name": (frame, "scoer", "y='scoer' is not a column of X. Columns: 'score', 'f0'"),
        "in memory": (frame, table["score"], "pass a Dask Series, or a column's name"),
        "no y": (frame, None, "y is missing"),
        "unknown chunks": (unknown, y, r"chunks of X have unknown sizes: call X.compute_chunk_sizes\(\)"),
        "unknown chunks of y": (X, frame["score"].to_dask_array(), "chunks of y have unknown sizes"),
        "short": (X, y[:-1], "y has 179 rows, X has 180"),
        "text": (X, "score", "has no names of columns"),
        "flat": (X[:, 0], y, r"1 dimension\(s\)"),
        "pandas": (table, y, "For data in memory: MSMTFL"),
        "no futures": ([], None, "empty list of futures"),
        "futures and y": ([1], y, "leave y, task and sample_weight out"),
    }


@pytest.mark.parametrize("what", bad_inputs(pd.DataFrame(np.zeros((180, 9)), columns=[*FEATURES, "score"])))
def test_input_that_cannot_be_read_is_refused_with_a_way_out(client, table, what):
    X, y, words = bad_inputs(table.drop(columns=["school", "weight"]))[what]
    with pytest.raises((ValueError, TypeError), match=words):
        DaskMSMTFL(client=client).fit(X, y)


def test_futures_must_hold_features_and_target(client):
    with pytest.raises(ValueError, match=r"partition 0: a future must hold \(X, y\)"):
        DaskMSMTFL(client=client).fit([client.submit(np.eye, 4)])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"relax": True}, "relax=True needs the data.*mode='moments'"),
        ({"penalty_factors": [0.0] + [1.0] * 7}, "none of them 0.*mode='moments'"),
    ],
)
def test_what_data_mode_cannot_do_is_refused_and_auto_avoids_it(client, table, parameters, words):
    frame = dd.from_pandas(table.drop(columns="weight"), npartitions=2)
    with pytest.raises(ValueError, match=words):
        DaskMSMTFL(client=client, mode="data", task_column="school", **parameters).fit(frame, "score")
    model = DaskMSMTFL(client=client, task_column="school", **parameters).fit(frame, "score")
    assert_same(model, local_fit(table, **parameters))


@pytest.mark.parametrize("mode", ["data", "moments"])
def test_a_task_without_weight_is_refused_as_by_a_local_fit(client, table, mode):
    table = table.assign(weight=np.where(table["school"] == "west", 0.0, 1.0))
    frame = dd.from_pandas(table, npartitions=2)
    with pytest.raises(ValueError, match="all sample weights of task 'west' are zero"):
        DaskMSMTFL(client=client, mode=mode, task_column="school").fit(frame, "score", sample_weight="weight")


def test_parameters_are_checked_before_the_cluster_is_asked(table):
    with pytest.raises(ValueError, match="mode must be one of 'auto', 'moments', 'data'"):
        DaskMSMTFL(mode="fast")
    with pytest.raises(ValueError, match="lam must be > 0"):
        DaskMSMTFL(lam=-1.0).fit(dd.from_pandas(table, npartitions=2), "score")


# ------------------------------------------------------------------ joblib's Dask backend


def test_plain_estimators_run_under_the_dask_backend_of_joblib(client, table):
    X, y = table.drop(columns=["score", "weight"]), table["score"]
    search = GridSearchCV(MSMTFL(task_column="school"), {"lam": [0.05, 0.2]}, cv=2)
    plain = MSMTFLCV(lams=6, cv=3, task_column="school")
    with client.as_current(), joblib.parallel_config(backend="dask"):
        found = search.fit(X, y).best_params_
        coef = MSMTFLCV(lams=6, cv=3, task_column="school", n_jobs=2).fit(X, y).coef_
    assert found == search.fit(X, y).best_params_
    np.testing.assert_allclose(coef, plain.fit(X, y).coef_, atol=1e-10)


def test_moments_of_partitions_are_those_of_all_rows(client, table):
    X, y, task = arrays(table)
    parts = cluster.partitions(da.from_array(X, chunks=(50, 3)), y, task, None)
    model = DaskMSMTFL(client=client)
    future, layout = model._layout(client, parts)
    (added,) = model._moments(client, parts, future, layout.d, [None] * len(parts)).result()
    whole = Moments().update(X, y, task=task)
    for label in whole.tasks.tolist():
        np.testing.assert_allclose(added[label].xx, whole[label].xx, rtol=1e-10, atol=1e-10)
