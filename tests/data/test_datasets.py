"""Data are what their description says, wherever they come from; what is not is refused in clear words."""

import doctest
import gzip
import hashlib
import importlib
import json
import os
import pickle
import pkgutil
import urllib.error
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.io import savemat
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import msmtfl.datasets
from msmtfl import MSMTFL, TaskKFold
from msmtfl.datasets import Dataset, fetch_isolet, load_adni, load_school, make_mri_standin, make_multitask, split_tasks

SIZES = [1560, 1560, 1560, 1558, 1559]
REAL = os.environ.get("MSMTFL_DATA")
needs_real = pytest.mark.skipif(not REAL, reason="no real data: set MSMTFL_DATA")


@pytest.fixture
def no_data(monkeypatch):
    monkeypatch.delenv("MSMTFL_DATA", raising=False)


@pytest.mark.parametrize("name", [name for _, name, _ in pkgutil.iter_modules(msmtfl.datasets.__path__)])
def test_docstring_examples(name):
    module = importlib.import_module(f"msmtfl.datasets.{name}")
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


# ------------------------------------------------------------------ the paper's synthetic data


def test_the_papers_first_setting_by_default():
    X, y, task, coef = sample = make_multitask()
    assert X.shape == (600, 250)
    assert coef.shape == (15, 250)
    np.testing.assert_array_equal(np.bincount(task), np.full(15, 40))
    for i in range(15):
        np.testing.assert_allclose(np.linalg.norm(X[task == i], axis=0), 1.0)
    assert np.count_nonzero(coef) == round(0.2 * 25 * 15)
    assert coef.any(axis=0).sum() <= 25
    assert np.abs(coef).max() <= 10
    noise = y - (X * coef[task]).sum(axis=1)
    assert noise.std() == pytest.approx(0.01, rel=0.1)
    assert repr(sample).startswith("Sample(15 tasks, 600 rows, 250 features")


def test_knobs_turn():
    X, y, task, coef = make_multitask(
        3,
        [5, 7, 400],
        6,
        sigma=0.0,
        zero_rows=0.5,
        zero_entries=0.0,
        coef_range=(1, 2),
        normalize=False,
        correlation=0.9,
    )
    np.testing.assert_array_equal(np.bincount(task), [5, 7, 400])
    assert coef.any(axis=0).sum() == 3
    assert np.count_nonzero(coef) == 9
    assert coef[coef != 0].min() >= 1
    assert coef.max() <= 2
    np.testing.assert_allclose(y, (X * coef[task]).sum(axis=1))
    correlations = np.corrcoef(X[task == 2].T)
    np.testing.assert_allclose(np.diag(correlations, 1), 0.9, atol=0.05)
    np.testing.assert_allclose(np.diag(correlations, 2), 0.81, atol=0.08)


def test_a_seed_gives_the_same_data_again():
    first, second, other = (make_multitask(2, 5, 4, random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.y, second.y)
    assert (first.y != other.y).any()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"m": 0}, "m must be at least 1"),
        ({"n": [3, 4]}, "n has 2 entries for 15 tasks"),
        ({"m": 2, "n": [3, 0]}, r"n\[1\] must be at least 1"),
        ({"zero_rows": 1.5}, "zero_rows must be between 0 and 1"),
        ({"sigma": -1.0}, "sigma must be a number of at least 0"),
        ({"correlation": 1.0}, "correlation must be between -1 and 1"),
        ({"coef_range": (2, 1)}, "coef_range must be two finite numbers"),
    ],
)
def test_bad_parameters_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        make_multitask(**options)


# ------------------------------------------------------------------ what loaders return


def make_dataset(**changes):
    parts = {
        "name": "Toy",
        "X": np.arange(6.0).reshape(3, 2),
        "y": np.zeros(3),
        "task": np.array(["b", "a", "b"]),
        "feature_names": np.array(["one", "two"]),
        "description": "",
        "source": "toy.npz",
    }
    return Dataset(**parts | changes)


def test_a_dataset_unpacks_and_knows_its_sizes():
    data = make_dataset()
    X, _, task = data
    assert X is data.X
    assert task is data.task
    assert data.sizes == {"b": 2, "a": 1}
    assert repr(data) == "Dataset(Toy: 2 tasks of 1 to 2 rows, 3 in all, 2 features)"


def test_a_dataset_has_floats_in_one_layout_and_is_frozen():
    X = np.asfortranarray(np.arange(6).reshape(3, 2))
    data = make_dataset(X=X, y=[1, 2, 3])
    for one in (data, replace(data, note="changed"), pickle.loads(pickle.dumps(data))):
        assert one.X.dtype == one.y.dtype == np.float64
        assert one.X.flags["C_CONTIGUOUS"]
        assert (one.X == X).all()
        assert one.dropped == {}
        with pytest.raises(FrozenInstanceError):
            one.X = X
        with pytest.raises(FrozenInstanceError):
            one.other = X
    assert make_dataset().dropped is not data.dropped


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y": np.zeros(4)}, r"toy.npz: X must be \(N, d\), y and task \(N,\); their shapes are X \(3, 2\), y \(4,\)"),
        ({"X": np.zeros(3)}, r"X must be \(N, d\)"),
        ({"feature_names": np.array(["one"])}, "1 feature names for 2 features"),
        ({"X": np.array([[0, 1], [0, np.nan], [0, 1.0]])}, "X of toy.npz contains NaN: column 'two', row 1"),
        ({"y": np.array([0, np.inf, 0])}, "y of toy.npz contains infinity: row 1"),
        ({"task": np.array(["a", None, "b"])}, "row 1 has no task label"),
        ({"X": np.zeros((3, 0)), "feature_names": np.array([])}, "no rows or no features"),
    ],
)
def test_a_dataset_refuses_arrays_that_do_not_fit(changes, words):
    with pytest.raises(ValueError, match=words):
        make_dataset(**changes)


# ------------------------------------------------------------------ Isolet


def letters_in_order():
    """(7797,): UCI's order, A A B B .. Z Z for each of 150 speakers, less the three rows that are missing."""
    letters = np.tile(np.repeat(np.arange(1, 27), 2), 150)
    lost = [3 * 1560 + 10, 3 * 1560 + 52 + 11, 4 * 1560 + 24]  # two F in group 4, one M in group 5
    assert letters[lost].tolist() == [6, 6, 13]
    return np.delete(letters, lost)


def write_texts(folder, values, letters):
    """UCI's two files, of values given as text."""
    lines = [", ".join([*row, f"{letter}."]) + "\n" for row, letter in zip(values, letters, strict=True)]
    (folder / "isolet1+2+3+4.data").write_text("".join(lines[:6238]))
    (folder / "isolet5.data").write_text("".join(lines[6238:]))


def write_constant_texts(folder, letters):
    write_texts(folder, [["0.5"] * 617] * len(letters), letters)


def write_archive(folder, **changes):
    parts = {
        "X": np.zeros((7797, 617), dtype=np.float32),
        "y": letters_in_order().astype(float),
        "task": np.repeat(np.arange(5), SIZES),
    }
    np.savez(folder / "isolet.npz", **parts | changes)


@pytest.mark.slow
def test_isolet_from_the_text_files_of_uci(tmp_path, no_data):
    letters = letters_in_order()
    write_constant_texts(tmp_path, letters)
    part = tmp_path / "isolet5.data"
    (tmp_path / "isolet5.data.gz").write_bytes(gzip.compress(part.read_bytes()))
    part.unlink()
    with pytest.warns(UserWarning, match="the values of Isolet1, .* are not those of the Isolet data known here"):
        data = fetch_isolet(tmp_path)
    assert data.X.shape == (7797, 617)
    assert (data.X == 0.5).all()
    assert data.sizes == dict(zip(["Isolet1", "Isolet2", "Isolet3", "Isolet4", "Isolet5"], SIZES, strict=True))
    np.testing.assert_array_equal(data.y, letters)
    assert data.source.endswith("isolet5.data.gz")
    assert data.dropped == {}


@pytest.mark.slow
def test_rows_of_isolet_in_another_order_are_refused(tmp_path):
    write_constant_texts(tmp_path, np.sort(letters_in_order()))
    with pytest.raises(ValueError, match="Isolet1 should have 1560 rows, 60 of them the letter A; found 1560 and 300"):
        fetch_isolet(tmp_path)


def test_a_line_of_the_wrong_length_or_with_text_is_named(tmp_path):
    good = ", ".join(["0.1"] * 617)
    (tmp_path / "isolet5.data").write_text(f"{good}, 1.\n")
    file = tmp_path / "isolet1+2+3+4.data"
    file.write_text(f"{good}, 1.\n\n{good[5:]}, 2.\n")
    with pytest.raises(ValueError, match="line 3 has 617 columns instead of 618"):
        fetch_isolet(tmp_path)
    file.write_text(f"{good}, 1.\n\nx{good}, 2.\n")
    with pytest.raises(ValueError, match=r"isolet1\+2\+3\+4.data, line 3: could not convert"):
        fetch_isolet(tmp_path)
    file.write_text(f"{good}, 1.\n")
    with pytest.raises(ValueError, match=r"Isolet has 7797 rows, 617 features .* found X \(2, 617\)"):
        fetch_isolet(tmp_path)
    file.write_bytes(b"\x1f\x9d\x90\xff")  # what a .Z file begins with
    with pytest.raises(ValueError, match=r"is not a text file.*gzip -d opens .Z files"):
        fetch_isolet(tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"X": np.zeros((7797, 600))}, r"617 features .* found X \(7797, 600\)"),
        ({"y": np.ones(7796)}, r"y \(7796,\)"),
        ({"y": np.full(7797, 0.5)}, "letter of row 0 is 0.5, not a whole number from 1 to 26"),
        ({"task": np.zeros(7796)}, r"task \(7796,\)"),
        ({"task": np.zeros(7797)}, "5 groups of speakers, but task has 1 different values"),
        (
            {"task": np.repeat(np.arange(5), np.roll(SIZES, 1))},
            "Isolet1 should have 1560 rows, 60 of them the letter Z",
        ),
        ({"X": np.full((7797, 617), "a")}, "X must hold numbers, but is of type <U1"),
        ({"X": np.full((7797, 617), np.nan)}, "contains NaN: column 'f1', row 0"),
    ],
)
@pytest.mark.slow
def test_a_wrong_archive_of_isolet_is_refused(tmp_path, changes, words):
    write_archive(tmp_path, **changes)
    with pytest.raises(ValueError, match=words):
        fetch_isolet(tmp_path)


def test_an_archive_without_the_arrays_or_with_pickles_is_refused(tmp_path):
    file = tmp_path / "isolet.npz"
    np.savez(file, X=np.zeros((2, 2)), target=np.zeros(2))
    with pytest.raises(ValueError, match=r"isolet.npz has no array 'y', 'task'; it holds 'X', 'target'"):
        fetch_isolet(tmp_path)
    np.savez(file, X=np.array([{}, None], dtype=object), y=np.zeros(2), task=np.zeros(2))
    with pytest.raises(ValueError, match="objects and pickles are not read"):
        fetch_isolet(tmp_path)
    for content in (b"", b"no archive", b"PK\x03\x04 cut off", b"\x93NUMPY"):
        file.write_bytes(content)
        with pytest.raises(ValueError, match="not an archive of plain arrays"):
            fetch_isolet(tmp_path)


def test_without_the_data_the_error_says_what_to_get_and_where_to_put_it(tmp_path, no_data):
    words = r'"ISOLET" from the UCI Machine Learning Repository \(archive.ics.uci.edu\).*folder=.*MSMTFL_DATA'
    with pytest.raises(FileNotFoundError, match=words):
        fetch_isolet(tmp_path)
    with pytest.raises(FileNotFoundError, match=words):
        fetch_isolet(download=False)
    with pytest.raises(TypeError, match="download must be True or False"):
        fetch_isolet(download="yes")


def test_without_a_network_the_error_says_so(tmp_path, no_data, monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens there
    with pytest.raises(OSError, match=r"could not be downloaded from OpenML .*archive.ics.uci.edu"):
        fetch_isolet(data_home=tmp_path)


def test_a_folder_of_data_in_the_environment_comes_before_a_download(tmp_path, monkeypatch):
    monkeypatch.setenv("MSMTFL_DATA", str(tmp_path))
    write_archive(tmp_path)
    with pytest.warns(UserWarning, match="not those of the Isolet data"):
        data = fetch_isolet()
    assert data.source == str(tmp_path / "isolet.npz")


def openml_cache(folder, X, letters):
    """What scikit-learn would have kept of a download of these rows."""
    names = [f"f{j}" for j in range(1, X.shape[1] + 1)]
    head = ["@relation isolet", *(f"@attribute {name} real" for name in names)]
    head += ["@attribute class {" + ",".join(f"'{k}'" for k in range(1, 27)) + "}", "@data"]
    rows = [",".join([*map(str, row), f"'{letter}'"]) for row, letter in zip(X.tolist(), letters, strict=True)]
    arff = "\n".join([*head, *rows, ""]).encode()
    common = {"is_ignore": "false", "is_row_identifier": "false", "number_of_missing_values": "0"}
    features = [
        common | {"index": str(j), "name": name, "data_type": "numeric", "is_target": "false"}
        for j, name in enumerate(names)
    ]
    features.append(common | {"index": str(len(names)), "name": "class", "data_type": "nominal", "is_target": "true"})
    description = {
        "id": "300",
        "name": "isolet",
        "version": "1",
        "description": "",
        "format": "ARFF",
        "status": "active",
        "file_id": "1",
        "url": "https://www.openml.org/data/v1/download/1",
        "md5_checksum": hashlib.md5(arff).hexdigest(),
    }
    found = {"did": 300, "name": "isolet", "version": 1, "status": "active", "format": "ARFF"}
    contents = {
        "api/v1/json/data/list/data_name/isolet/limit/2/data_version/1": {"data": {"dataset": [found]}},
        "api/v1/json/data/300": {"data_set_description": description},
        "api/v1/json/data/features/300": {"data_features": {"feature": features}},
        "api/v1/json/data/qualities/300": {
            "data_qualities": {"quality": [{"name": "NumberOfInstances", "value": str(len(X))}]}
        },
        "data/v1/download/1": arff,
    }
    for name, content in contents.items():
        file = folder / "openml" / "openml.org" / f"{name}.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(content if isinstance(content, bytes) else json.dumps(content).encode()))


def test_rows_from_openml_are_checked(tmp_path, no_data):
    openml_cache(tmp_path, np.zeros((52, 617)), np.repeat(np.arange(1, 27), 2))
    try:
        with pytest.raises(ValueError, match=r"OpenML, isolet version 1: Isolet has 7797 rows.* found X \(52, 617\)"):
            fetch_isolet(data_home=tmp_path)
    except OSError as error:
        if isinstance(error.__cause__, urllib.error.URLError):
            pytest.skip("this scikit-learn keeps its downloads elsewhere")
        raise


@pytest.mark.slow
@needs_real
def test_the_real_isolet_is_the_same_from_the_archive_and_from_text(tmp_path):
    data = fetch_isolet()
    X, y, task = data
    assert list(data.sizes.values()) == SIZES
    assert X.dtype == np.float64
    assert np.abs(X).max() == 1.0
    places = np.rint(X * 1e4).astype(int)
    np.testing.assert_array_equal(places / 1e4, X)  # four decimals, exactly
    text = np.array([f"{v / 1e4:.4f}" for v in range(-10000, 10001)])
    write_texts(tmp_path, text[places + 10000], y.astype(int))
    again = fetch_isolet(tmp_path)
    np.testing.assert_array_equal(again.X, X)
    np.testing.assert_array_equal(again.y, y)
    np.testing.assert_array_equal(again.task, task)


@needs_real
def test_speakers_of_isolet_in_other_groups_are_noticed(tmp_path):
    """The same letters in every group, but the rows of groups 1 and 2 exchanged."""
    with np.load(Path(REAL) / "isolet.npz") as stored:
        X, y, task = stored["X"], stored["y"], stored["task"]
    np.savez(tmp_path / "isolet.npz", X=X, y=y, task=np.array([1, 0, 2, 3, 4])[task])
    with pytest.warns(UserWarning, match="the values of Isolet1, Isolet2 are not those"):
        fetch_isolet(tmp_path)


# ------------------------------------------------------------------ schools


@pytest.fixture
def schools():
    """X (7, 3) with a column of ones, y and task of three schools."""
    X = np.column_stack([np.arange(7), np.arange(7) % 2, np.ones(7)])
    return X, np.arange(7) + 10.0, np.array([0, 0, 0, 1, 1, 2, 2])


def test_schools_are_the_same_from_every_kind_of_file(tmp_path, schools):
    X, y, task = schools
    labels = np.array(["school1", "school2", "school3"])
    np.savez(tmp_path / "s.npz", X=X.astype(np.float32), y=y, task=task, task_names=labels)
    cells = np.empty((2, 1, 3), dtype=object)
    for i in range(3):
        cells[0, 0, i], cells[1, 0, i] = X[task == i], y[task == i][:, None]
    savemat(tmp_path / "s.mat", {"X": cells[0], "Y": cells[1]})
    table = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(school=labels[task], score=y)
    table.to_csv(tmp_path / "s.csv", index=False)
    table.to_parquet(tmp_path / "s.parquet")
    sources = [tmp_path / f"s.{kind}" for kind in ("npz", "mat", "csv", "parquet")]
    for source in [*sources, table, pl.from_pandas(table)]:
        data = load_school(source)
        np.testing.assert_array_equal(data.X, X[:, :2])
        np.testing.assert_array_equal(data.y, y)
        assert data.task.tolist() == labels[task].tolist()
        assert data.feature_names.tolist() == ["x0", "x1"]
        assert data.dropped == {"1 in every row": {"x2": 7}}
        assert data.X.dtype == data.y.dtype == np.float64
        assert data.X.flags.c_contiguous
    assert "left out: 'x2' (1 in every row); the known data have 139 tasks, 15362 rows" in repr(data)


def test_the_column_of_ones_stays_if_asked(tmp_path, schools):
    X, y, task = schools
    np.savez(tmp_path / "s.npz", X=X, y=y, task=task)
    data = load_school(tmp_path / "s.npz", drop_bias=False)
    np.testing.assert_array_equal(data.X, X)
    assert data.dropped == {}
    assert data.sizes == {0: 3, 1: 2, 2: 2}


def test_school_files_that_do_not_fit_are_refused(tmp_path, schools, no_data):
    X, y, task = schools
    with pytest.raises(FileNotFoundError, match=r"Inner London Education Authority .* MALSAR as school.mat"):
        load_school()
    with pytest.raises(FileNotFoundError, match=r"absent.npz does not exist"):
        load_school(tmp_path / "absent.npz")
    with pytest.raises(FileNotFoundError, match="is a folder, not a file"):
        load_school(tmp_path)
    archive = tmp_path / "s.npz"
    np.savez(archive, X=X[0], y=y, task=task)
    with pytest.raises(ValueError, match=r"s.npz: X must be \(N, d\), y and task \(N,\); their shapes are X \(3,\)"):
        load_school(archive)
    np.savez(archive, X=X, y=y, task=task, task_names=["a", "b"])
    with pytest.raises(ValueError, match="task must hold their places 0 to 1"):
        load_school(archive)
    np.savez(archive, X=X, y=y[:5], task=task)
    with pytest.raises(ValueError, match=r"y \(5,\)"):
        load_school(archive)
    np.savez(archive, X=X, y=y, task=task, feature_names=["a", "b"])
    with pytest.raises(ValueError, match=r"s.npz: 2 feature names for 3 features"):
        load_school(archive)
    matlab = tmp_path / "s.mat"
    savemat(matlab, {"A": X, "Y": y})
    with pytest.raises(ValueError, match="must hold cell arrays X and Y, one matrix per school; it holds 'A', 'Y'"):
        load_school(matlab)
    cells = np.empty((1, 2), dtype=object)
    cells[0, 0], cells[0, 1] = X, X[:, :2]
    scores = np.empty((1, 2), dtype=object)
    scores[0, 0] = scores[0, 1] = y[:, None]
    savemat(matlab, {"X": cells, "Y": scores})
    with pytest.raises(ValueError, match=r"s.mat: task 'school2' has 2 features, task 'school1' has 3"):
        load_school(matlab)
    matlab.write_bytes(b"no MATLAB file")
    with pytest.raises(ValueError, match="is not a MATLAB file that scipy reads"):
        load_school(matlab)


def test_school_tables_that_do_not_fit_are_refused(tmp_path):
    table = pd.DataFrame({"school": ["a", "b"], "score": [1, 2], "band": ["low", "high"]})
    with pytest.raises(ValueError, match=r"column\(s\) 'band' hold no numbers. Encode them"):
        load_school(table)
    with pytest.raises(
        ValueError, match=r"no column 'mark'. Columns: 'school', 'score', 'band'. Pass target= with its name"
    ):
        load_school(table, target="mark")
    with pytest.raises(ValueError, match=r"no column 'schools'.*Pass task='school'"):
        load_school(table, task="schools")
    with pytest.raises(ValueError, match="contains NaN: column 'age', row 1"):
        load_school(table.drop(columns="band").assign(age=[1.0, np.nan]))
    other = tmp_path / "table.xlsx"
    other.write_text("")
    with pytest.raises(ValueError, match=r"must be a .csv, .csv.gz or .parquet file"):
        load_school(other)
    for name in ("broken.csv", "broken.parquet"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(ValueError, match=f"{name} cannot be read"):
            load_school(tmp_path / name)


@needs_real
def test_the_real_schools():
    data = load_school()
    assert (len(data.sizes), *data.X.shape) == (139, 15362, 27)
    assert data.note == "left out: 'bias' (1 in every row)"
    assert data.feature_names[0] == "year1985"
    assert data.task[0] == "school1"


# ------------------------------------------------------------------ ADNI


def visits_table(**changes):
    """Four patients at up to three visits."""
    table = pd.DataFrame(
        {
            "RID": [2, 2, 2, 3, 3, 4, 4, 5],
            "VISCODE": ["m12", "M06", "bl", " m06", "m48", "m6", "m12", "m06"],
            "MMSE": [28, 29, 30, 25, 20, 27, 26, 24],
            "OVERALLQC": ["Pass", "Partial", "Pass", "FAIL", "Pass", "Pass", None, "Pass"],
            "ST29SV": [3100.0, 3150.0, 3200.0, 2500.0, 2300.0, 3000.0, 2900.0, 2800.0],
            "ST24TA": [2.5, 2.5, 2.6, 2.1, 2.0, 2.4, 2.4, 2.3],
        }
    )
    return table.assign(**changes)


def test_adni_visits_become_tasks_in_order_and_patients_groups(tmp_path):
    table = visits_table()
    table.to_csv(tmp_path / "adni.csv", index=False)
    table.to_parquet(tmp_path / "adni.parquet")
    for source in (table, pl.from_pandas(table), tmp_path / "adni.csv", tmp_path / "adni.parquet"):
        data = load_adni(source)
        assert data.sizes == {"M06": 3, "M12": 2, "M48": 1}
        assert data.task.tolist() == ["M06", "M06", "M06", "M12", "M12", "M48"]
        assert data.group.tolist() == [2, 4, 5, 2, 4, 3]
        assert data.y.tolist() == [29, 27, 24, 28, 26, 20]
        assert data.X[:, 0].tolist() == [3150, 3000, 2800, 3100, 2900, 2300]
        assert data.feature_names.tolist() == ["ST29SV", "ST24TA"]
        assert data.dropped == {"other visit": {"BL": 1}, "failed scan": {"M06": 1}}
    assert "M06 3 (648), M12 2 (642), M18 0 (293)" in repr(data)
    assert "features: 2 (306); left out: 1 other visit, 1 failed scan" in repr(data)
    assert data.note in data.description


def test_adni_rows_with_missing_entries_are_counted():
    thickness = [np.nan, 2.5, 2.6, 2.1, 2.0, 2.4, np.nan, 2.3]
    table = visits_table(ST24TA=thickness, MMSE=[28, -4, 30, 25, np.nan, 27, 26, 24], ST8SV=np.nan)
    data = load_adni(table.convert_dtypes())
    assert data.sizes == {"M06": 2}
    assert data.dropped == {
        "other visit": {"BL": 1},
        "failed scan": {"M06": 1},
        "score outside 0 to 30": {"M06": 1},
        "missing entry": {"M12": 2, "M48": 1},
        "column without a value": {"ST8SV": 8},
    }
    assert "3 missing entry, 1 column without a value" in repr(data)


def test_adni_without_a_quality_column_and_with_other_names():
    table = visits_table().drop(columns="OVERALLQC").rename(columns={"RID": "id", "VISCODE": "when", "MMSE": "score"})
    data = load_adni(table.assign(site=1), patient="id", visit="when", target="score", exclude=["site"])
    assert data.sizes == {"M06": 4, "M12": 2, "M48": 1}
    assert "No column of scan quality was used" in data.description
    kept = load_adni(visits_table(), quality=None, exclude=["OVERALLQC"])
    assert kept.sizes == data.sizes


def test_adni_tables_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no column 'MMSE'. Columns: 'RID', 'VISCODE', .* Pass target= with its name"):
        load_adni(visits_table().drop(columns="MMSE"))
    with pytest.raises(ValueError, match="no column 'QC'"):
        load_adni(visits_table(), quality="QC")
    with pytest.raises(ValueError, match="no column 'SITES'"):
        load_adni(visits_table(), exclude=["SITES"])
    with pytest.raises(TypeError, match="exclude must be a list"):
        load_adni(visits_table(), exclude="ST24TA")
    table = visits_table(EXAMDATE="2006-01-02", IMAGEUID=range(8))
    with pytest.raises(ValueError, match=r"no measurements.*exclude=\['EXAMDATE', 'IMAGEUID'\]"):
        load_adni(table)
    with pytest.raises(ValueError, match=r"column\(s\) 'MMSE' hold no numbers"):
        load_adni(visits_table(MMSE="high"))
    with pytest.raises(
        ValueError, match=r"no row of column 'VISCODE' is one of the visits 'M06', .* it holds 'BL', 'SC'"
    ):
        load_adni(visits_table(VISCODE=["sc", "bl"] * 4))
    with pytest.raises(ValueError, match="no feature besides"):
        load_adni(visits_table().drop(columns=["ST29SV", "ST24TA"]))
    with pytest.raises(ValueError, match=r"patient 2 has more than one row at visit M12 \(1 such pair"):
        load_adni(visits_table(VISCODE=["m12", "m12", "bl", "m06", "m48", "m06", "m12", "m06"]))
    half = np.where(np.arange(8) % 2, np.nan, 1.0)
    with pytest.raises(ValueError, match=r"no complete row is left. Column 'ST29SV' is missing in \d+% of the rows"):
        load_adni(visits_table(ST29SV=half, ST24TA=half[::-1]))
    with pytest.raises(ValueError, match=r"no complete row is left. Left out: 1 other visit, 7 failed scan"):
        load_adni(visits_table(OVERALLQC="Fail"))
    with pytest.raises(ValueError, match="column 'ST24TA', row 3 of the table is infinite"):
        load_adni(visits_table(ST24TA=[2, 2, 2, np.inf, 2, 2, 2, np.inf]))
    with pytest.raises(FileNotFoundError, match=r"absent.csv does not exist"):
        load_adni(tmp_path / "absent.csv")


# ------------------------------------------------------------------ the stand-in


def test_the_stand_in_has_the_sizes_of_the_paper_and_says_what_it_is():
    data = make_mri_standin()
    assert list(data.sizes.items()) == [
        ("M06", 648),
        ("M12", 642),
        ("M18", 293),
        ("M24", 569),
        ("M36", 389),
        ("M48", 87),
    ]
    assert data.X.shape[1] == len(set(data.feature_names.tolist())) == 306
    assert "SIMULATED" in repr(data)
    assert data.description.startswith("SIMULATED, not ADNI")
    assert len(np.unique(data.group)) == 675
    assert np.array_equal(data.y, np.rint(data.y))
    assert data.y.min() >= 0
    assert data.y.max() == 30
    means = [data.y[data.task == visit].mean() for visit in data.sizes]
    assert means[0] - means[-1] > 1.5  # scores decline


def test_patients_of_the_stand_in_keep_their_scan():
    data = make_mri_standin(1)
    pairs = set(zip(data.group.tolist(), data.task.tolist(), strict=True))
    assert len(pairs) == len(data.y)  # at most once at a visit
    _, first, place = np.unique(data.group, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(data.X, data.X[first][place])
    visits = np.bincount(data.group)
    assert visits.min() == 1
    assert visits.max() == 6
    for seed in range(2, 12):
        assert len(np.unique(make_mri_standin(seed).group)) == 675  # everyone is seen


def test_columns_of_the_stand_in_are_positive_correlated_and_of_wild_scales():
    data = make_mri_standin(2)
    assert data.X.min() > 0
    kinds = np.array([name.split("_")[1] for name in data.feature_names.tolist()])
    assert data.X[:, kinds == "thickness"].mean() == pytest.approx(2.5, abs=0.2)
    assert data.X[:, kinds == "volume"].mean() > 1000
    spread = data.X.std(axis=0)
    assert spread.max() / spread.min() > 1e4
    correlation = np.corrcoef(data.X[data.task == "M06"].T)
    assert np.abs(correlation).mean() > 0.15
    assert np.abs(correlation - np.eye(306)).max() < 0.95


@pytest.mark.slow
def test_a_linear_model_explains_some_of_the_stand_in():
    """Neither nothing nor everything: ridge on one visit, and a sparse model of all of them."""
    data = make_mri_standin()
    rows = data.task == "M06"
    X, y = data.X[rows], data.y[rows]
    predicted = cross_val_predict(make_pipeline(StandardScaler(), RidgeCV(np.logspace(1, 4, 10))), X, y, cv=5)
    explained = 1 - np.mean((y - predicted) ** 2) / y.var()
    assert 0.25 < explained < 0.5
    model = MSMTFL(standardize=True, theta="adaptive")
    train, test = split_tasks(data.task, 0.7, random_state=0)
    model.fit(data.X[train], data.y[train], task=data.task[train])
    score = model.score(data.X[test], data.y[test], task=data.task[test])
    assert 0.3 < score < 0.55


def test_the_stand_in_is_seeded_and_splits_by_patients():
    first, second, other = make_mri_standin(0), make_mri_standin(0), make_mri_standin(1)
    np.testing.assert_array_equal(first.y, second.y)
    np.testing.assert_array_equal(first.X, second.X)
    assert not np.array_equal(first.X, other.X)
    for train, test in TaskKFold(3, task=first.task, random_state=0).split(first.X, groups=first.group):
        assert not set(first.group[train].tolist()) & set(first.group[test].tolist())


# ------------------------------------------------------------------ training and test rows


@pytest.mark.parametrize("share", [0.15, 0.2, 0.25, 0.01, 0.99])
def test_every_task_gives_its_share(share):
    sizes = [3, 10, 87, 648]
    task = np.random.default_rng(0).permutation(np.repeat(["a", "b", "c", "d"], sizes))
    train, test = split_tasks(task, share, random_state=0)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(task)))
    for label, n in zip("abcd", sizes, strict=True):
        assert (task[train] == label).sum() == min(max(round(share * n), 1), n - 1)


def test_splits_are_random_and_seeded():
    task = np.repeat([0, 1], 50)
    first, second, other = (split_tasks(task, 0.3, random_state=seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)
    counts = np.zeros(100)
    for seed in range(200):
        counts[split_tasks(task, 0.3, random_state=seed)[0]] += 1
    assert abs(counts - 60).max() < 32  # five standard deviations of 200 draws with 0.3


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, np.nan])
def test_a_share_must_leave_rows_on_both_sides(share):
    with pytest.raises(ValueError, match="share must be between 0 and 1"):
        split_tasks([0, 0, 1, 1], share)


def test_a_task_with_one_row_cannot_be_split():
    with pytest.raises(ValueError, match="task 'b' has a single row"):
        split_tasks(["a", "a", "b"], 0.5)


def test_groups_stay_together_and_tasks_get_about_their_share():
    data = make_mri_standin()
    counts = dict.fromkeys(data.sizes, 0.0)
    for seed in range(20):
        train, test = split_tasks(data.task, 0.2, seed, groups=data.group)
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(data.task)))
        chosen = set(data.group[train].tolist())
        assert not chosen & set(data.group[test].tolist())
        assert len(chosen) == round(0.2 * len(np.unique(data.group)))
        for label, n in data.sizes.items():
            counts[label] += (data.task[train] == label).sum() / n / 20
    assert all(abs(share - 0.2) < 0.03 for share in counts.values())
    again, _ = split_tasks(data.task, 0.2, 19, groups=data.group)
    np.testing.assert_array_equal(again, train)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([1, 2, 3], "groups must be one label per row, 4 of them"),
        ([1, 2, None, 3], "row 2 has no group"),
        ([1, 1, 1, 1], "all rows are of one group"),
        ([1, 2, 3, 3], "task 'b' has no row on one side"),
    ],
)
def test_groups_that_cannot_be_split_are_refused(groups, words):
    with pytest.raises(ValueError, match=words):
        split_tasks(["a", "a", "b", "b"], 0.5, random_state=0, groups=groups)
