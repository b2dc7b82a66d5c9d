"""Model files: everything comes back to the bit, nothing in a file is run, bad files are refused in words."""

from __future__ import annotations

import copy
import datetime
import io
import json
import os
import warnings
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Lasso
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from msmtfl import (
    L12MTL,
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    DirtyMTLCV,
    LassoMTL,
    LassoMTLCV,
    NestedMTL,
    NestedMTLCV,
    PartialPooling,
    PartialPoolingCV,
    PretrainedMTL,
    PretrainedMTLCV,
    RobustMTL,
    RobustMTLCV,
    SharedMTL,
    SharedMTLCV,
    TaskKFold,
)
from msmtfl._estimators.baselines.lasso import PooledLassoCV
from msmtfl._estimators.baselines.ridge import PooledRidgeCV, RidgePerTaskCV
from msmtfl._estimators.classification.classifier import MultiTaskClassifier
from msmtfl._objective.shapes import MCP, SCAD, LogSum, Power
from msmtfl._paths.conformal import HeldOutScores
from msmtfl._solvers.stages import Stage
from msmtfl.model_files import MODELS, load_model, save_model
from msmtfl.paper.optimum import global_minimum
from msmtfl.sharing import sharing_map

FAST = {"lams": 4, "cv": 3}
MAKE = {
    MSMTFL: {"theta": "adaptive", "lam": 0.05},
    MSMTFLCV: {**FAST, "theta_ratios": [1.0, 8.0, np.inf]},
    LassoMTL: {},
    LassoMTLCV: FAST,
    L12MTL: {"theta": 2.0},
    L12MTLCV: {**FAST, "selection": "bic"},
    DirtyMTL: {},
    DirtyMTLCV: {**FAST, "ratios": (1.0, 0.5)},
    SharedMTL: {"lam_common": 0.2, "lam_deviation": np.inf},
    SharedMTLCV: {**FAST, "ratios": (0.0, 1.0)},
    PartialPooling: {"k": np.inf},
    PartialPoolingCV: {"ks": 4, "cv": 3},
    PretrainedMTL: {},
    PretrainedMTLCV: {"lams": 4, "cv": 3},
    NestedMTL: {},
    NestedMTLCV: {"lams": 4, "cv": 3},
    RobustMTL: {},
    RobustMTLCV: {"lams": 4, "cv": 3},
    RidgePerTaskCV: {},
    PooledRidgeCV: {"cv": 3},
    PooledLassoCV: FAST,
}
FORMS = ("single", "labels", "pandas", "polars", "wide", "named wide")


def data(n=36, d=6, m=3):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((n, d)), np.repeat(np.arange(m), n // m)
    return X, 2 * X[:, 0] - (1 + task) * X[:, 3] + 0.3 * rng.standard_normal(n), task


def given(form):
    """(X, y, arguments of fit and predict, parameters) in one of the accepted forms."""
    X, y, task = data()
    columns = {f"f{j}": X[:, j] for j in range(3)} | {"school": [f"s{i}" for i in task]}
    columns |= {f"f{j}": X[:, j] for j in range(3, X.shape[1])}
    Y = np.stack([y, -y, X[:, 1] + 0.1 * y], axis=1)
    Y[::5, 1] = np.nan
    return {
        "single": lambda: (X, y, {}, {}),
        "labels": lambda: (X, y, {"task": task}, {}),
        "pandas": lambda: (pd.DataFrame(columns), y, {}, {"task_column": "school"}),
        "polars": lambda: (pl.DataFrame(columns), y, {}, {"task_column": 3}),
        "wide": lambda: (X, Y, {}, {}),
        "named wide": lambda: (pd.DataFrame(X, columns=list("abcdef")), pd.DataFrame(Y, columns=["u", "v", 7]), {}, {}),
    }[form]()


@cache
def fitted(cls, form="labels"):
    X, y, arguments, parameters = given(form)
    return cls(**MAKE[cls], **parameters).fit(X, y, **arguments)


def equal(one, other):
    """The same to the bit, types of arrays included."""
    if isinstance(one, np.ndarray):
        if one.dtype == object:
            return other.dtype == object and equal(list(one), list(other))
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, Stage):
        return equal(vars(one), vars(other))
    if isinstance(one, HeldOutScores):
        return equal(one.to_dict(), other.to_dict())
    if isinstance(one, dict):
        return list(one) == list(other) and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(equal, one, other))
    return repr(one) == repr(other) and one == other


def round_trip(model, folder, name="model.msmtfl", **options):
    save_model(model, folder / name, **options)
    return load_model(folder / name)


def assert_same(same, model):
    assert type(same) is type(model)
    attributes = {key: value for key, value in vars(model).items() if key != "surface_"}
    stored = {key: value for key, value in vars(same).items() if key not in ("provenance_", "_from_file")}
    assert set(stored) == set(attributes)
    for key, value in attributes.items():
        assert equal(value, stored[key]), key


# ------------------------------------------------------------------ round trips


@pytest.mark.parametrize(("form", "ending"), [*((form, "msmtfl") for form in FORMS), ("pandas", "json")])
@pytest.mark.parametrize("cls", MAKE)
@pytest.mark.sampled(2)
def test_every_model_comes_back_as_it_was(cls, form, ending, tmp_path):
    model = fitted(cls, form)
    same = round_trip(model, tmp_path, f"model.{ending}")
    assert_same(same, model)
    check_is_fitted(same)
    X, y, arguments, _ = given(form)
    assert same.predict(X, **arguments).tobytes() == model.predict(X, **arguments).tobytes()
    assert same.score(X, y, **arguments) == model.score(X, y, **arguments)
    assert repr(same) == repr(model)
    if hasattr(model, "certificate_"):
        assert str(same.certificate_) == str(model.certificate_)
    assert not hasattr(clone(same), "coef_")


@pytest.mark.parametrize("cls", MAKE)
def test_a_loaded_model_can_be_fitted_again(cls, tmp_path):
    X, y, arguments, _ = given("labels")
    same = round_trip(fitted(cls), tmp_path)
    assert np.array_equal(clone(same).fit(X, y, **arguments).coef_, fitted(cls).coef_)
    assert np.array_equal(same.fit(X, y, **arguments).coef_, fitted(cls).coef_)


def test_all_models_are_tested():
    classifiers = {name for name, (cls, _) in MODELS.items() if issubclass(cls, MultiTaskClassifier)}
    families = ("MSMTFL", "L12MTL", "DirtyMTL", "SharedMTL", "PartialPooling", "NestedMTL")
    named = {f"{name}Classifier{cv}" for name in families for cv in ("", "CV")}
    assert classifiers == named | {"LogisticPerTaskCV", "PooledLogisticCV"}
    assert {cls.__name__ for cls in MAKE} | classifiers == set(MODELS)  # those are in test_class*.py


def test_loading_then_saving_makes_the_same_file(tmp_path):
    for ending in ("msmtfl", "json"):
        for cls in (MSMTFL, DirtyMTL, PooledRidgeCV):
            save_model(fitted(cls), tmp_path / f"1.{ending}", provenance={"data": "survey"})
            save_model(load_model(tmp_path / f"1.{ending}"), tmp_path / f"2.{ending}")
            assert (tmp_path / f"1.{ending}").read_bytes() == (tmp_path / f"2.{ending}").read_bytes()


def test_what_a_file_is_is_seen_from_its_content(tmp_path):
    save_model(fitted(LassoMTL), tmp_path / "a.json")
    (tmp_path / "a.json").rename(tmp_path / "a.model")
    assert_same(load_model(str(tmp_path / "a.model")), fitted(LassoMTL))
    (tmp_path / "b.json").write_bytes(b"\n  " + (tmp_path / "a.model").read_bytes())  # JSON may begin with spaces
    assert_same(load_model(tmp_path / "b.json"), fitted(LassoMTL))


def with_coefficients(*coefs):
    """A lasso with stages of these coefficients (m, d)."""
    model, (m, d) = copy.deepcopy(fitted(LassoMTL)), coefs[-1].shape
    model.coef_, model.intercept_, model.tasks_ = coefs[-1], np.arange(m) / 3, np.arange(m)
    model.features_ = np.array([f"x{j}" for j in range(d)], dtype=object)
    model.row_slopes_ = np.ones(len(coefs[-1][0]))
    model.row_norms_ = model.feature_importances_ = np.abs(coefs[-1][0])
    model.n_features_in_, model.n_stages_, model.n_fitted_tasks_ = d, len(coefs), m
    model.n_samples_, model.target_mean_, model.target_sd_ = np.full(m, 12), np.zeros(m), np.ones(m)
    model.learnable_, model.feature_sd_ = np.arange(m * d).reshape(m, d) % 1000 != 7, np.ones(d)
    nothing = (np.empty(0, dtype=np.intp),) * m
    model.stages_ = [Stage(**{**vars(model.stages_[0]), "coef": coef, "ambiguous": nothing}) for coef in coefs]
    return model


@pytest.mark.parametrize("share", [0.05, 0.9], ids=["stored sparse", "stored dense"])
@pytest.mark.parametrize("name", ["a.json", "a.msmtfl"])
def test_coefficients_keep_every_bit(share, name, tmp_path):
    rng = np.random.default_rng(0)
    special = [-0.0, 5e-324, -9.999999999999999e149, 1 / 3, 2.2250738585072014e-308, 0.1 + 0.2]
    coef = np.where(rng.random((3, 50)) < share, rng.choice(special, (3, 50)), 0.0)
    model = with_coefficients(coef / 3, coef)
    assert_same(round_trip(model, tmp_path, name), model)
    assert ("sparse" in json.dumps(document_of(tmp_path / name)["fitted"]["coef_"])) == (share < 0.5)


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b", "c"],
        ["", "<b>&amp;</b>", "naïve 東京 \U0001f600 \" ' \\ \n"],
        np.array([3, -1, 2**62 + 1]),
        np.array([1, 2, 2**64 - 1], dtype=np.uint64),
        np.array([1, 2, 3], dtype=np.int8),
        np.array([0.5, -np.inf, 1e300]),
        np.array([0.5, 1.5, 2.5], dtype=np.float32),
        np.array([1, "1", 2.0], dtype=object),
        np.array([10**30, -(10**30), 0], dtype=object),
        np.array([np.int64(3), np.str_("z"), True], dtype=object),
    ],
    ids=str,
)
def test_labels_keep_their_type(labels, tmp_path):
    X, y, task = data()
    given_labels = np.asarray(labels)[task]
    model = LassoMTL().fit(X, y, task=given_labels)
    for name in ("a.json", "a.msmtfl"):
        same = round_trip(model, tmp_path, name)
        assert same.tasks_.dtype == model.tasks_.dtype
        assert same.tasks_.tolist() == model.tasks_.tolist()
        assert np.array_equal(same.predict(X, task=given_labels), model.predict(X, task=given_labels))


def test_two_boolean_labels(tmp_path):
    X, y, task = data()
    model = LassoMTL().fit(X, y, task=task > 0)
    assert_same(round_trip(model, tmp_path), model)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["2020-01-01", "2020-01-02", "2020-01-03"], dtype="datetime64[D]"),
        np.array([datetime.date(2020, 1, k) for k in (1, 2, 3)], dtype=object),
        np.array([b"a", b"b", b"c"]),
    ],
    ids=["datetime64", "date", "bytes"],
)
def test_labels_of_other_types_are_refused(labels, tmp_path):
    X, y, task = data()
    model = LassoMTL().fit(X, y, task=labels[task])
    with pytest.raises(TypeError, match=r"task labels .* cannot be stored: they must be text, numbers or booleans"):
        save_model(model, tmp_path / "a.msmtfl")
    assert list(tmp_path.iterdir()) == []


def test_names_of_any_kind(tmp_path):
    X, y, task = data()
    names = ["", "</script>", 'a"b', "ünï\n東京", "$x^2$", "x" * 1000]
    model = LassoMTL(task_column="t").fit(pd.DataFrame(dict(zip(names, X.T, strict=True))).assign(t=task), y)
    halved = LassoMTL().fit(X, y, task=np.array(["a", "\ud800", "c"], dtype=object)[task])  # half a character
    for name in ("a.json", "a.msmtfl"):
        assert_same(round_trip(model, tmp_path, name), model)
        assert_same(round_trip(halved, tmp_path, name), halved)
    save_model(model, tmp_path / "a.json")
    assert "東京" in (tmp_path / "a.json").read_text(encoding="utf-8")


def test_ambiguous_fits_keep_what_is_ambiguous(tmp_path):
    X, y, task = data()
    X[:, 5] = X[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MSMTFL(lam=0.01).fit(X, y, task=np.array(["a", "b", "c"])[task])
    assert model.certificate_.ambiguous
    assert_same(round_trip(model, tmp_path), model)


@pytest.mark.parametrize("name", ["a.json", "a.msmtfl"])
def test_parameters_come_back(name, tmp_path):
    X, y, task = data()
    rows = np.arange(len(y))
    parameters = {
        "lams": np.geomspace(1, 0.01, 5),
        "thetas": [[1.0, np.inf]] * 5,
        "cv": [(rows[::2], rows[1::2]), (rows[1::2], rows[::2])],
        "penalty_factors": np.array([1, 1, np.inf, 1, 0, 1.0]),
        "tol": np.float32(1e-7),
        "max_stages": np.int64(4),
        "fit_intercept": np.True_,
        "n_jobs": 1,
    }
    model = MSMTFLCV(**parameters).fit(X, y, task=task)
    same = round_trip(model, tmp_path, name)
    for key, value in model.get_params().items():
        assert equal(value, same.get_params()[key]) or value == same.get_params()[key], key
    assert np.array_equal(clone(same).fit(X, y, task=task).coef_, model.coef_)
    model = MSMTFL(coef_init=np.random.default_rng(0).standard_normal((3, 6)), max_stages=3).fit(X, y, task=task)
    assert_same(round_trip(model, tmp_path, name), model)


def test_a_parameter_that_no_file_can_hold_gets_its_default_and_a_warning(tmp_path):
    X, y, task = data()
    model = LassoMTLCV(lams=4, cv=TaskKFold(3, random_state=1)).fit(X, y, task=task)
    save_model(model, tmp_path / "a.msmtfl")
    with pytest.warns(UserWarning, match=r"a.msmtfl: the file could not hold cv=TaskKFold\(.*the default stands there"):
        same = load_model(tmp_path / "a.msmtfl")
    assert same.cv == 5
    assert same.get_params() | {"cv": None} == model.get_params() | {"cv": None}
    assert np.array_equal(same.predict(X, task=task), model.predict(X, task=task))
    model.cv = [(np.arange(100), np.arange(100)), object()]  # of which a part could be stored
    save_model(model, tmp_path / "a.msmtfl")
    with pytest.warns(UserWarning, match="could not hold cv="):
        assert load_model(tmp_path / "a.msmtfl").cv == 5
    model.task_column = object()
    with pytest.raises(TypeError, match=r"task_column=.* cannot be stored: predictions need it"):
        save_model(model, tmp_path / "b.msmtfl")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # smooth shapes take many stages
@pytest.mark.parametrize("shape", [MCP(), SCAD(3.0), LogSum(), Power(0.3)], ids=repr)
@pytest.mark.parametrize("ending", ["msmtfl", "json"])
def test_a_built_in_penalty_with_its_parameters_is_in_the_file(shape, ending, tmp_path):
    X, y, task = data()
    make = {"penalty": shape, "lam_entry": 0.02, "theta_entry": 0.5}
    model = MSMTFL(0.02, 0.5, **make).fit(X, y, task=task)
    same = round_trip(model, tmp_path, f"a.{ending}")
    assert same.penalty == shape
    here = task == task[0]
    for one in (model, same):
        one.add_task(X[here][:20], y[here][:20], "new")
    assert np.array_equal(same.coef_, model.coef_)
    with pytest.raises(ValueError, match="penalty='capped'"):
        global_minimum(same, X, y, task=task)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # smooth shapes take many stages
@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"name": "eval", "a": 1.0}, "no shape 'eval'"),
        ({"name": "scad"}, "not the parameters of the shape 'scad'"),
        ({"name": "scad", "a": "x"}, "a of .* is not of type float"),
        ({"name": "scad", "a": 0.5}, "a of SCAD must be > 1"),
        ([], "is not of type dict"),
    ],
)
def test_a_shape_that_is_none_is_refused(node, message, tmp_path):
    X, y, task = data()
    path = tmp_path / "a.json"
    save_model(MSMTFL(penalty=SCAD()).fit(X, y, task=task), path)
    document = json.loads(path.read_text())
    document["parameters"]["penalty"] = {"shape": node}
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=message):
        load_model(path)


class Exponential:
    def value(self, t, theta):
        return theta * (1.0 - np.exp(-t / theta))

    def slope(self, t, theta):
        return np.exp(-t / theta)

    def __repr__(self):
        return "Exponential()"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # smooth shapes take many stages
def test_a_penalty_of_the_users_own_is_missed_where_it_is_needed_and_only_there(tmp_path):
    X, y, task = data()
    model = MSMTFL(0.1, 1.0, penalty=Exponential()).fit(X, y, task=task)
    path = tmp_path / "a.msmtfl"
    save_model(model, path)
    for _ in range(2):  # written again it is still missing
        with pytest.warns(UserWarning, match=r"could not hold penalty=Exponential\(\)"):
            same = load_model(path)
        assert np.array_equal(same.predict(X, task=task), model.predict(X, task=task))
        with pytest.raises(ValueError, match=r"Exponential\(\), is not in the file.*set_params\(penalty"):
            same.add_task(X[:20], y[:20], "new")
        with pytest.raises(ValueError, match="is not in the file"):
            clone(same).fit(X, y, task=task)
        with pytest.raises(ValueError, match="is not in the file"):
            global_minimum(same, X, y, task=task)
        save_model(same, path)
    same.set_params(penalty=Exponential()).add_task(X[:20], y[:20], "new")
    assert np.array_equal(same.coef_, model.add_task(X[:20], y[:20], "new").coef_)


def test_the_surface_of_scores_can_be_drawn_from_the_file(tmp_path):
    model = fitted(MSMTFLCV)
    same = round_trip(model, tmp_path)
    assert not hasattr(same, "surface_")
    scores = same.cv_results_["mean_test_score"].reshape(same.thetas_.shape)
    assert scores[same.best_point_] == same.best_score_
    assert np.array_equal(same.cv_results_["lam"].reshape(same.thetas_.shape), model.surface_.parameters["lam"])
    assert same.cv_results_["test_mse"][0].shape == (3, 3)
    assert "Surface(" in document_of(tmp_path / "model.msmtfl")["not_stored"]["surface_"]


@pytest.mark.parametrize("name", ["a.json", "a.msmtfl"])
def test_ten_thousand_features_and_two_hundred_tasks(name, tmp_path):
    rng = np.random.default_rng(0)
    coef = np.where(rng.random((200, 10_000)) < 0.01, rng.standard_normal((200, 10_000)), 0.0)
    model = with_coefficients(coef / 3, coef / 2, coef)
    assert_same(round_trip(model, tmp_path, name), model)
    each = 12 if name == "a.msmtfl" else 30  # bytes; all of it would be 48 MB of floats
    assert (tmp_path / name).stat().st_size < 3 * each * np.count_nonzero(coef) + 500_000


def test_files_that_do_not_say_what_could_be_learned_are_loaded(tmp_path):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 4)), np.repeat(["a", "b"], 30)
    X[:, 2], X[:30, 3] = np.repeat([1.0, 2.0], 30), 0.0
    with pytest.warns(UserWarning, match="'x2' are constant"):
        model = MSMTFL(0.1).fit(X, X[:, 0] + X[:, 3], task=task)
    save_model(model, tmp_path / "new.json")
    document = document_of(tmp_path / "new.json")
    assert document["fitted"]["constant_at_"]["array"]["values"] == [2, 3, 6]
    for key in ("constant_at_", "task_level_features_"):
        del document["fitted"][key]
    del document["checksum"]
    (tmp_path / "old.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.warns(UserWarning, match="checksum"):
        old = load_model(tmp_path / "old.json")
    assert np.array_equal(old.predict(X, task=task), model.predict(X, task=task))
    assert sharing_map(old).counts["unused"] == 2
    assert sharing_map(load_model(tmp_path / "new.json")).counts["unused"] == 1
    old.add_task(X[:30, :], X[:30, 0], "c")
    assert not hasattr(old, "learnable_")


@pytest.mark.parametrize(
    ("key", "values", "dtype", "said"),
    [
        ("constant_at_", [0, 8], "int32", "constant_at_ are not places of cells"),
        ("constant_at_", [-1], "int32", "constant_at_ are not places of cells"),
        ("task_level_features_", ["age"], "object", "task_level_features_ are not among features_"),
        ("learnable_", [True], "bool", "'learnable_' is no attribute"),
    ],
)
def test_what_could_be_learned_must_fit(key, values, dtype, said, tmp_path):
    X, task = np.random.default_rng(0).standard_normal((20, 4)), np.repeat(["a", "b"], 10)
    save_model(LassoMTL(0.1).fit(X, X[:, 0], task=task), tmp_path / "a.json")
    document = document_of(tmp_path / "a.json")
    document["fitted"][key] = {"array": {"dtype": dtype, "shape": [len(values)], "values": values}}
    (tmp_path / "a.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        load_model(tmp_path / "a.json")


# ------------------------------------------------------------------ format


def document_of(path):
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("model.json"))


def read_array(node, archive):
    """As another program would, by the description of the format."""
    if "sparse" in node:
        node = node["sparse"]
        out = np.zeros(int(np.prod(node["shape"])))
        out[read_array(node["at"], archive)] = read_array(node["values"], archive)
        return out.reshape(node["shape"])
    node = node["array"]
    if "member" in node:
        out = np.load(io.BytesIO(archive.read(node["member"])), allow_pickle=False)
        assert out.shape == tuple(node["shape"])
        return out
    return np.array(node["values"]).reshape(node["shape"])


def test_another_program_can_read_the_file(tmp_path):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 100)), np.repeat(["a", "b"], 30)
    model = MSMTFL().fit(X, X[:, 0] + 0.1 * rng.standard_normal(60), task=task)
    save_model(model, tmp_path / "a.msmtfl")
    document = document_of(tmp_path / "a.msmtfl")
    with zipfile.ZipFile(tmp_path / "a.msmtfl") as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        parts = {key: read_array(document["fitted"][key], archive) for key in ("coef_", "intercept_", "tasks_")}
        last = document["stages"][-1]
    i = np.searchsorted(parts["tasks_"], task)
    prediction = np.sum(parts["coef_"][i] * X, axis=1) + parts["intercept_"][i]
    assert np.allclose(prediction, model.predict(X, task=task), rtol=0, atol=1e-12)
    assert (document["format"], document["format_version"], document["model"]) == ("msmtfl-model", 1, "MSMTFL")
    assert last["coef"] is None  # that of the model
    assert last["objective"] == model.objective_


def test_the_json_file_is_strict_json_and_readable(tmp_path):
    save_model(fitted(LassoMTLCV, "pandas"), tmp_path / "a.json")  # thetas are infinite

    def refuse(constant):
        raise AssertionError(constant)

    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    document = json.loads(text, parse_constant=refuse)
    assert document["fitted"]["thetas_"]["array"]["values"] == ["inf"] * 4
    assert '\n  "model": "LassoMTLCV",\n' in text
    assert '"tasks_": {"array": {"dtype": "object", "shape": [3], "values": ["s0", "s1", "s2"]}}' in text


def test_provenance(tmp_path):
    X, y, task = data()
    user = {"data": "survey 7", "rows": [12, 12, 12], "notes": {"seed": 3, "clean": True, "none": None}}
    same = round_trip(fitted(L12MTL), tmp_path, provenance=user)
    assert same.provenance_["user"] == user
    assert set(same.provenance_["versions"]) == {"python", "msmtfl", "numpy", "scipy", "scikit-learn"}
    assert same.provenance_["versions"]["numpy"] == np.__version__
    saved = datetime.datetime.fromisoformat(same.provenance_["saved"])
    assert saved.utcoffset() == datetime.timedelta(0)
    assert round_trip(same, tmp_path).provenance_ == same.provenance_
    assert round_trip(same, tmp_path, provenance={"new": 1}).provenance_["user"] == {"new": 1}
    same.fit(X, y, task=task)
    assert round_trip(same, tmp_path).provenance_["user"] is None  # a new fit is not what the file told of


@pytest.mark.parametrize("provenance", [{1: "a"}, {"a": np.ones(2)}, {"a": float("nan")}, {"a": (1,)}, ["a"]], ids=str)
def test_provenance_must_be_json(provenance, tmp_path):
    with pytest.raises(TypeError, match="provenance must be a dict of what JSON can hold"):
        save_model(fitted(LassoMTL), tmp_path / "a.msmtfl", provenance=provenance)


def test_only_fitted_models_of_this_package_are_saved(tmp_path):
    class Mine(LassoMTL):
        pass

    X, y, task = data()
    with pytest.raises(NotFittedError):
        save_model(MSMTFL(), tmp_path / "a.msmtfl")
    for other in (Lasso(), make_pipeline(LassoMTL()), Mine().fit(X, y, task=task), None):
        with pytest.raises(TypeError, match=r"save_model stores MSMTFL, .*; got .*Of a Pipeline save the last step"):
            save_model(other, tmp_path / "a.msmtfl")
    broken = copy.copy(fitted(LassoMTL))
    broken.intercept_ = np.array([0.0, np.nan, 0.0])
    with pytest.raises(ValueError, match="intercept_ is not finite: task 1 has nan"):
        save_model(broken, tmp_path / "a.msmtfl")
    broken.intercept_ = np.array([0.0, 0.0, 1e200])  # what load_model refuses is not written
    with pytest.raises(ValueError, match=r"intercept_ is beyond 1e\+150: task 2 has 1e\+200 .* in other units"):
        save_model(broken, tmp_path / "a.msmtfl")


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    (tmp_path / "taken.msmtfl").mkdir()
    with pytest.raises(OSError, match="taken"):
        save_model(fitted(LassoMTL), tmp_path / "taken.msmtfl")
    assert [path.name for path in tmp_path.iterdir()] == ["taken.msmtfl"]
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        save_model(fitted(LassoMTL), tmp_path / "nowhere" / "a.msmtfl")
    save_model(fitted(LassoMTL), tmp_path / "a.msmtfl")
    save_model(fitted(MSMTFL), tmp_path / "a.msmtfl")
    assert isinstance(load_model(tmp_path / "a.msmtfl"), MSMTFL)


# ------------------------------------------------------------------ bad files


@cache
def archive_of(cls=MSMTFLCV):
    """A good archive as {member: bytes}."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        save_model(fitted(cls), Path(folder) / "a.msmtfl")
        with zipfile.ZipFile(Path(folder) / "a.msmtfl") as archive:
            return {name: archive.read(name) for name in archive.namelist()}


def pack(members, path, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that occur twice
        for name, content in members if isinstance(members, list) else members.items():
            archive.writestr(name, content)


def points():
    """How many the grid of the archive has."""
    results = json.loads(archive_of()["model.json"])["fitted"]["cv_results_"]["dict"]
    return results["lam"]["array"]["shape"][0]


def changed(changes):
    """The archive with other values at places of its document, which are written a/b/c."""
    members = dict(archive_of())
    document = json.loads(members["model.json"])
    for place, value in changes.items():
        *way, last = place.split("/")
        node = document
        for key in way:
            node = node[int(key)] if isinstance(node, list) else node[key]
        if value is ...:
            del node[last]
        else:
            node[last] = value
    return {**members, "model.json": json.dumps(document).encode()}


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def array_node(values, dtype="float64"):
    values = np.asarray(values)
    return {"array": {"dtype": dtype, "shape": list(values.shape), "values": values.ravel().tolist()}}


MEMBER = "fitted/cv_results_/test_mse.npy"  # a member of the archive
BAD_ARCHIVES = {
    "no document": (lambda: {"a.npy": npy(np.ones(3))}, "holds no model.json: it is not a model of msmtfl"),
    "member twice": (lambda: [*archive_of().items(), (MEMBER, b"")], "occurs twice"),
    "path traversal": (lambda: {**archive_of(), "../evil.npy": b""}, r"'../evil.npy' .*name that is not allowed"),
    "inner traversal": (lambda: {**archive_of(), "a/../evil.npy": b""}, "name that is not allowed"),
    "absolute path": (lambda: {**archive_of(), "/etc/passwd": b""}, "name that is not allowed"),
    "stray member": (lambda: {**archive_of(), "stray.npy": b""}, r"does not name member\(s\) 'stray.npy'"),
    "member missing": (
        lambda: {name: content for name, content in archive_of().items() if name != MEMBER},
        "cv_results_.test_mse: member .* is missing",
    ),
    "not an array": (lambda: {**archive_of(), MEMBER: b"hello"}, "is not an array"),
    "pickled array": (
        lambda: {**archive_of(), MEMBER: npy(np.array([{}], dtype=object))},
        "is an array of object that cannot be read",
    ),
    "wrong shape": (lambda: {**archive_of(), MEMBER: npy(np.ones(7))}, "is not the array of float64"),
    "cut array": (lambda: {**archive_of(), MEMBER: archive_of()[MEMBER][:-8]}, "bytes of numbers, its shape .* needs"),
    "long array": (lambda: {**archive_of(), MEMBER: archive_of()[MEMBER] + b"01234567"}, "bytes of numbers"),
    "huge array": (
        lambda: {
            **changed({"fitted/lams_": {"array": {"dtype": "float64", "shape": [10**15], "member": "big.npy"}}}),
            "big.npy": npy(np.ones(1)).replace(b"(1,), }" + 15 * b" ", b"(1000000000000000,), }"),
        },
        "lams_: member 'big.npy' has 8 bytes of numbers, its shape .* needs 8000000000000000",
    ),
    "newer format": (
        lambda: changed({"format_version": 7}),
        r"format version 7 \(written by msmtfl .*reads versions up to 1\. Upgrade",
    ),
    "no version": (lambda: changed({"format_version": "1"}), "format_version '1' is not a whole number"),
    "other format": (lambda: changed({"format": "pmml"}), "is not a model of msmtfl"),
    "unknown class": (lambda: changed({"model": "os.system"}), "unknown model 'os.system'; known: MSMTFL, "),
    "unknown parameter": (lambda: changed({"parameters/evil": 1}), "MSMTFLCV has no parameter 'evil'"),
    "unknown form": (lambda: changed({"form": "tall"}), "form 'tall' is unknown"),
    "single with tasks": (lambda: changed({"form": "single"}), "form is 'single', but there are 3 tasks"),
    "method as attribute": (lambda: changed({"fitted/predict": 1}), "'predict' is no attribute of a fitted MSMTFLCV"),
    "dunder as attribute": (lambda: changed({"fitted/__class__": 1}), "'__class__' is no attribute"),
    "private attribute": (lambda: changed({"fitted/_form": "x"}), "'_form' is no attribute"),
    "coef missing": (lambda: changed({"fitted/coef_": ...}), "fitted lacks 'coef_'"),
    "coef transposed": (
        lambda: changed({"fitted/coef_": array_node(np.ones((6, 3)))}),
        r"coef_ has shape \[6, 3\], but \[3, 6\] is expected",
    ),
    "coef not finite": (lambda: changed({"fitted/coef_": array_node([["nan"] * 6] * 3)}), "coef_ is not finite"),
    "coef not finite in a task": (
        lambda: changed({"fitted/coef_": array_node(np.array([[0.0] * 6, [0.0] * 6, ["inf"] * 6], dtype=object))}),
        r"coef_ is not finite: task 2 has inf there",
    ),
    "coef beyond range": (
        lambda: changed({"fitted/coef_": array_node([[0.0] * 6, [0.0] * 5 + [-1e308], [1.0] * 6])}),
        r"coef_ is beyond 1e\+150: task 1 has -1e\+308 there, from which nothing can be predicted",
    ),
    "intercept beyond range": (
        lambda: changed({"fitted/intercept_": array_node([1e151, 0.0, 0.0])}),
        r"intercept_ is beyond 1e\+150: task 0 has 1e\+151 there",
    ),
    "coef of text": (lambda: changed({"fitted/coef_": array_node([["1"] * 6] * 3)}), "coef_: a text is no number"),
    "coef of integers": (
        lambda: changed({"fitted/coef_": array_node(np.ones((3, 6), int), "int64")}),
        "not a float64 array",
    ),
    "overflow": (lambda: changed({"fitted/coef_/array/values": [10**400] * 18}), "too large"),
    "few values": (lambda: changed({"fitted/coef_/array/values": [1.0]}), "1 values do not make the shape"),
    "negative shape": (lambda: changed({"fitted/coef_/array/shape": [-3, -6]}), "the shape is not a list of sizes"),
    "sparse outside": (
        lambda: changed(
            {
                "fitted/coef_": {
                    "sparse": {"shape": [3, 6], "at": array_node([18], "int32"), "values": array_node([1.0])}
                }
            }
        ),
        "coef_: the places of a sparse array do not fit",
    ),
    "sparse bomb": (
        lambda: changed(
            {
                "fitted/coef_": {
                    "sparse": {"shape": [10**9] * 2, "at": array_node([0], "int32"), "values": array_node([1.0])}
                }
            }
        ),
        r"coef_ has shape \[1000000000, 1000000000\], but",
    ),
    "sparse elsewhere": (
        lambda: changed({"fitted/lams_": {"sparse": {"shape": [10**15]}}}),
        "lams_: 'sparse' is no kind of value that may stand here",
    ),
    "intercepts short": (lambda: changed({"fitted/intercept_": array_node([1.0, 2.0])}), r"intercept_ has shape \[2\]"),
    "lam infinite": (lambda: changed({"fitted/lam_": {"float": "inf"}}), "lam_ is not finite"),
    "labels twice": (
        lambda: changed({"fitted/tasks_": array_node([1, 1, 2], "int64")}),
        "a label occurs twice in tasks_",
    ),
    "no labels": (lambda: changed({"fitted/tasks_": array_node([], "int64")}), "tasks_ is not a list of labels"),
    "names not text": (
        lambda: changed({"fitted/features_": array_node(range(6), "int64")}),
        "features_ is not a list of names",
    ),
    "text bomb": (
        lambda: changed(
            {
                "fitted/tasks_/array": {
                    "dtype": "str",
                    "shape": [20_001],
                    "values": [*map(str, range(20_000)), "c" * 20_000],
                }
            }
        ),
        "tasks_: a text is too long",
    ),
    "columns": (
        lambda: changed({"fitted/n_features_in_": 9, "fitted/feature_importances_": array_node(np.ones(9))}),
        "is 9",
    ),
    "dtype": (lambda: changed({"fitted/coef_/array/dtype": "O"}), "coef_: unknown dtype 'O'"),
    "table": (lambda: changed({"fitted/cv_results_/dict/lam": array_node([1.0])}), "cv_results_ is not a table"),
    "best index": (lambda: changed({"fitted/best_index_": 999}), "best_index_ is outside of cv_results_"),
    "stages missing": (lambda: changed({"stages": []}), "n_stages_ is .*, but there are 0 stages"),
    "free rows": (
        lambda: changed({"stages/0/free_rows": array_node([6], "int64")}),
        "free_rows of stage 1 are not rows",
    ),
    "certificate": (lambda: changed({"certificate": None}), "the certificate is not of type dict"),
    "ambiguous": (
        lambda: changed({"certificate/ambiguous": [["z", []]]}),
        "ambiguous of the certificate names what is not",
    ),
    "rows of text": (lambda: changed({"fitted/n_samples_": "many"}), "n_samples_ are no numbers of rows"),
    "negative rows": (
        lambda: changed({"fitted/n_samples_": array_node([3, -1, 3], "int64")}),
        "n_samples_ are no numbers of rows",
    ),
    "means of two": (lambda: changed({"fitted/target_mean_": array_node([1.0, 2.0])}), r"target_mean_ has shape \[2\]"),
    "versions of text": (lambda: changed({"provenance/versions": "1.2"}), "versions is not of type dict"),
    "scores of text": (
        lambda: changed({"fitted/cv_results_/dict/mean_test_score": array_node(["a"] * points(), "object")}),
        "mean_test_score of cv_results_ are no numbers",
    ),
    "no scores": (lambda: changed({"fitted/cv_results_/dict/mean_test_score": ...}), "mean_test_score of cv_results_"),
    "missing label": (
        lambda: changed({"fitted/tasks_": {"array": {"dtype": "float64", "shape": [3], "values": [1.0, "nan", 2.0]}}}),
        "a label is missing in tasks_",
    ),
    "unknown task": (lambda: changed({"parameters/unknown_task": "any"}), "unknown_task must be 'error', 'mean'"),
    "unknown loss": (lambda: changed({"parameters/loss": "cubic"}), "loss must be one of"),
    "unhashable loss": (lambda: changed({"parameters/loss": [1]}), ""),
    "not JSON": (lambda: {**archive_of(), "model.json": b"{'a': 1}"}, "model.json in it is not JSON"),
    "NaN": (lambda: {**archive_of(), "model.json": b'{"a": NaN}'}, "NaN is not JSON"),
    "key twice": (lambda: {**archive_of(), "model.json": b'{"a": 1, "a": 2}'}, "a key occurs twice"),
    "nested": (lambda: {**archive_of(), "model.json": b"[" * 10**6}, "nested too deeply"),
    "not UTF-8": (lambda: {**archive_of(), "model.json": b"\xff\xfe{"}, "model.json in it is not JSON"),
}


@pytest.mark.parametrize("case", BAD_ARCHIVES)
def test_bad_archives_are_refused_in_words(case, tmp_path):
    make, message = BAD_ARCHIVES[case]
    pack(make(), tmp_path / "bad.msmtfl")
    with pytest.raises(ValueError, match=r"bad\.msmtfl: .*" + message):
        load_model(tmp_path / "bad.msmtfl")


def test_the_archive_that_the_bad_ones_are_made_of_is_good(tmp_path):
    pack(changed({}), tmp_path / "good.msmtfl")
    assert_same(load_model(tmp_path / "good.msmtfl"), fitted(MSMTFLCV))


def test_a_small_archive_cannot_fill_the_memory(tmp_path):
    bomb = {"model.json": archive_of()["model.json"], "bomb.npy": bytes(50_000_000)}
    pack(bomb, tmp_path / "bomb.msmtfl", zipfile.ZIP_DEFLATED)
    assert (tmp_path / "bomb.msmtfl").stat().st_size < 100_000
    with pytest.raises(ValueError, match="is compressed, as such files never are"):
        load_model(tmp_path / "bomb.msmtfl")


# ------------------------------------------------------------------ checksums


def reworded(path, change):
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def test_a_digit_that_changed_in_a_document_is_found(tmp_path):
    """In JSON every other digit is as good as the one that was written."""
    path = tmp_path / "a.json"
    save_model(fitted(MSMTFL), path)
    text = path.read_text(encoding="utf-8")
    begin = text.index('"coef_"')
    digits = [k for k in range(begin, text.index("]", text.index("values", begin))) if text[k].isdigit()]
    for k in digits[5::37]:
        path.write_text(text[:k] + str((int(text[k]) + 1) % 10) + text[k + 1 :], encoding="utf-8")
        with pytest.raises(ValueError, match=r"a\.json: .*"):
            load_model(path)
    path.write_text(text, encoding="utf-8")
    assert_same(load_model(path), fitted(MSMTFL))


def test_the_checksum_is_of_values_not_of_their_layout(tmp_path):
    path = tmp_path / "a.json"
    save_model(fitted(MSMTFLCV, "pandas"), path, provenance={"name": "Köln", "half": "\udc80"})
    reworded(path, lambda document: None)  # other blanks and line ends, ASCII
    assert_same(load_model(path), fitted(MSMTFLCV, "pandas"))
    reworded(path, lambda document: document["provenance"]["user"].update(name="Bonn"))
    with pytest.raises(ValueError, match=r'does not have the checksum.*delete the entry "checksum"'):
        load_model(path)


def test_a_document_without_a_checksum_is_read_with_a_note(tmp_path):
    path = tmp_path / "a.json"
    save_model(fitted(MSMTFL), path)
    reworded(path, lambda document: document.pop("checksum"))
    with pytest.warns(UserWarning, match="has no checksum.*Save the model again"):
        assert_same(load_model(path), fitted(MSMTFL))


def test_archives_have_checksums_of_their_own(tmp_path):
    save_model(fitted(MSMTFL), tmp_path / "a.msmtfl")
    assert "checksum" not in document_of(tmp_path / "a.msmtfl")
    load_model(tmp_path / "a.msmtfl")  # without a note
    data = bytearray((tmp_path / "a.msmtfl").read_bytes())
    at = data.index(b'"coef_"') + 80
    data[at] = data[at] ^ 1
    (tmp_path / "a.msmtfl").write_bytes(bytes(data))
    with pytest.raises(ValueError, match="damaged"):
        load_model(tmp_path / "a.msmtfl")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_pipes_and_devices_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="it is a pipe, not a file"):
        load_model(tmp_path / "pipe")
    with pytest.raises(ValueError, match="it is a device, not a file"):
        load_model("/dev/zero")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "absent")


def test_members_that_share_their_bytes_are_refused(tmp_path):
    pack({"b.npy": bytes(10_000)}, tmp_path / "inner.zip")
    with zipfile.ZipFile(tmp_path / "inner.zip") as archive:
        (inner,) = archive.infolist()
    with zipfile.ZipFile(tmp_path / "a.msmtfl", "w") as archive:
        archive.writestr("a.npy", (tmp_path / "inner.zip").read_bytes())
        inner.header_offset = 30 + len("a.npy")  # b.npy lies inside of a.npy
        archive.filelist.append(inner)
    with pytest.raises(ValueError, match="members of the zip archive overlap"):
        load_model(tmp_path / "a.msmtfl")


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"PK", b"PK\x03\x04rubbish", b"\x80\x04pickle.", b"[1, 2]", b"{}"], ids=str
)
def test_other_files_are_refused(content, tmp_path):
    (tmp_path / "a.msmtfl").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.msmtfl: "):
        load_model(tmp_path / "a.msmtfl")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "a.msmtfl")


@pytest.mark.parametrize("ending", ["msmtfl", "json"])
def test_a_file_cut_off_anywhere_is_refused(ending, tmp_path):
    path = tmp_path / f"a.{ending}"
    save_model(fitted(MSMTFL), path)
    content = path.read_bytes()
    for end in np.linspace(0, len(content) - 2, 60).astype(int):
        path.write_bytes(content[:end])
        with pytest.raises(ValueError, match=r"a\.(msmtfl|json): "):
            load_model(path)


def test_a_bit_that_flips_is_noticed_or_does_no_harm(tmp_path):
    path = tmp_path / "a.msmtfl"
    model = fitted(MSMTFL)
    save_model(model, path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.integers(0, len(content), 150):
        bad = bytearray(content)
        bad[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad)
        try:
            assert_same(load_model(path), model)
        except ValueError:
            refused += 1
    assert refused > 120


def places(node, way=()):
    """All places of a document."""
    for key, one in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*way, key)
        yield from places(one, (*way, key))


@pytest.mark.parametrize("cls", [MSMTFL, DirtyMTLCV])
def test_a_document_changed_anywhere_is_loaded_or_refused_as_a_value_error(cls, tmp_path):
    path = tmp_path / "a.json"
    save_model(fitted(cls, "pandas"), path)
    document = json.loads(path.read_text(encoding="utf-8"))
    rng = np.random.default_rng(0)
    every = [way for way in places(document) if way[0] != "provenance"]
    some = [way for way in every if len(way) < 4] + [every[k] for k in rng.integers(0, len(every), 60)]
    strange = [None, True, -1, 1.5, "x", [], {}, [[]], {"float": "x"}, {"array": {}}, {"dict": {}}, 10**400, [{"a": 1}]]
    refused = 0
    for way in some:
        bad = copy.deepcopy(document)
        node = bad
        for key in way[:-1]:
            node = node[key]
        node[way[-1]] = strange[int(rng.integers(len(strange)))]
        path.write_text(json.dumps(bad), encoding="utf-8")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                load_model(path)
        except ValueError:
            refused += 1
    assert refused > len(some) / 2


# ------------------------------------------------------------------ skops


@pytest.mark.parametrize("cls", [MSMTFL, MSMTFLCV, L12MTL, DirtyMTL, DirtyMTLCV])
def test_skops_stores_models_with_our_own_types_only(cls):
    skops = pytest.importorskip("skops.io")
    model = fitted(cls)
    stored = skops.dumps(model)
    trusted = skops.get_untrusted_types(data=stored)
    assert all(name.startswith("msmtfl.") for name in trusted)
    same = skops.loads(stored, trusted=trusted)
    X, _, task = data()
    assert same.predict(X, task=task).tobytes() == model.predict(X, task=task).tobytes()
    assert same.certificate_ == model.certificate_
    assert equal(same.stages_, model.stages_)


@pytest.mark.parametrize("ending", ["msmtfl", "json"])
def test_intervals_are_in_the_file(tmp_path, ending):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 5)), np.repeat(["a", "b"], 30)
    y = X[:, 0] + rng.standard_normal(60)
    model = LassoMTLCV(lams=5, unknown_task="mean").fit(X, y, task=task, groups=np.arange(60) // 2)
    model.add_task(X[:30], y[:30], "c")
    path = tmp_path / f"model.{ending}"
    save_model(model, path)
    same = load_model(path)
    for labels, level in ((task, 0.8), (np.full(60, "new"), 0.6)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, expected = (one.predict_interval(X, task=labels, level=level) for one in (same, model))
        np.testing.assert_array_equal(found, expected)
    assert same.held_out_.grouped


def test_a_file_without_held_out_errors_says_so(tmp_path):
    X = np.random.default_rng(0).standard_normal((40, 5))
    model = LassoMTLCV(lams=5).fit(X[:, 1:], X[:, 0])
    del model.held_out_  # as earlier versions wrote it
    save_model(model, tmp_path / "old.msmtfl")
    same = load_model(tmp_path / "old.msmtfl")
    with pytest.raises(ValueError, match="the file of this model carries no errors of samples held out"):
        same.predict_interval(X[:, 1:])


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("own_score", lambda one: one["array"]["values"].__setitem__(0, -1.0)),
        ("own_score", lambda one: one["array"]["values"].__setitem__(0, "nan")),
        ("own_score", lambda one: one["array"]["values"].reverse()),
        ("own_fold", lambda one: one["array"]["values"].__setitem__(-1, 99)),
        ("own_weight", lambda one: one["array"]["values"].__setitem__(0, 0.0)),
        ("own_task", lambda one: one["array"]["values"].__setitem__(-1, 7)),
        ("at", lambda one: one["array"]["values"].__setitem__(-1, 10**6)),
        ("intercept", lambda one: one["array"].update(shape=[5, 1, 1])),
    ],
)
def test_damaged_held_out_errors_are_refused(tmp_path, key, change):
    X = np.random.default_rng(0).standard_normal((40, 5))
    save_model(LassoMTLCV(lams=5).fit(X[:, 2:], X[:, :2] + X[:, [3]]), tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    del document["checksum"]
    change(document["fitted"]["held_out_"]["dict"][key])
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"held out|of folds|entries|shape"):
        load_model(tmp_path / "model.json")
