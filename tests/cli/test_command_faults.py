"""The command on what goes wrong: ugly tables, extreme models, endless files, interrupts."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from msmtfl import MSMTFL, Moments, MSMTFLClassifier
from msmtfl.model_files import save_model

testing = pytest.importorskip("typer.testing")
pytest.importorskip("pyarrow")
app = pytest.importorskip("msmtfl.cli").app
guard = pytest.importorskip("msmtfl.cli.options").guard
typer = pytest.importorskip("typer")

N = 90
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.standard_normal((N, 3)), columns=["a", "b", "c"])
TOWN = np.tile(["north", "south", "7"], N // 3)
Y = 2 * X["a"].to_numpy() - X["b"].to_numpy() + 0.3 * RNG.standard_normal(N)
TABLE = X.assign(town=TOWN, y=Y)


def run(*arguments, **options):
    result = testing.CliRunner().invoke(app, [str(argument) for argument in arguments], **options)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(*arguments, **options):
    result = run(*arguments, **options)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refused(*arguments, code=2, **options):
    result = run(*arguments, **options)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    return result.stderr.splitlines()[-1]


def written(table, path, **options):
    (table.to_parquet if path.suffix == ".parquet" else table.to_csv)(path, index=False, **options)
    return path


def predictions(model, data, tmp_path, *options):
    save_model(model, tmp_path / "model.msmtfl")
    done("predict", tmp_path / "model.msmtfl", data, "--out", tmp_path / "out.parquet", *options)
    return pd.read_parquet(tmp_path / "out.parquet")


# ------------------------------------------------------------------ one implementation of predictions


def extreme(model):
    """The model with log-odds of some hundreds: the probabilities of several classes are 1 to the last digit."""
    model.coef_ = model.coef_ * 1000.0
    return model


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("form", ["column", "labels", "wide", "single"])
def test_classes_predicted_by_the_command_are_those_of_the_model(classes, form, tmp_path):
    y = np.argsort(np.argsort(Y)) * classes // N
    data = written(TABLE, tmp_path / "data.csv")
    options = []
    if form == "column":
        model = extreme(
            MSMTFLClassifier(lam=0.05, theta=np.inf, task_column="town").fit(TABLE[["a", "town", "b", "c"]], y)
        )
        wanted, p = (getattr(model, name)(TABLE[["a", "town", "b", "c"]]) for name in ("predict", "predict_proba"))
    elif form == "labels":
        model = extreme(MSMTFLClassifier(lam=0.05, theta=np.inf).fit(X.to_numpy(), y, task=TOWN))
        model.features_ = np.array(["a", "b", "c"], dtype=object)
        wanted, p = (getattr(model, name)(X.to_numpy(), task=TOWN) for name in ("predict", "predict_proba"))
        options = ["--task", "town"]
    elif form == "wide":
        model = extreme(MSMTFLClassifier(lam=0.05, theta=np.inf).fit(X, np.column_stack([y, np.roll(y, 1)])))
        wanted, p = model.predict(X).ravel(), model.predict_proba(X)
        p = np.stack([1.0 - p, p], axis=-1) if classes == 2 else p
    else:
        model = extreme(MSMTFLClassifier(lam=0.05, theta=np.inf).fit(X, y))
        wanted, p = model.predict(X), model.predict_proba(X)
    found = predictions(model, data, tmp_path, *options)
    np.testing.assert_array_equal(found["prediction"].astype(int), wanted)
    columns = [f"probability[{k}]" for k in range(classes)]
    np.testing.assert_array_equal(found[columns], p.reshape(-1, classes))


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_numbers_predicted_by_the_command_are_those_of_the_model(loss, tmp_path):
    y = np.exp(0.3 * Y).round() if loss == "poisson" else Y
    data = written(TABLE, tmp_path / "data.csv")
    model = MSMTFL(lam=0.05, loss=loss, task_column="town").fit(TABLE[["a", "b", "town", "c"]], y)
    np.testing.assert_array_equal(
        predictions(model, data, tmp_path)["prediction"], model.predict(TABLE[["a", "b", "town", "c"]])
    )
    places = np.insert(X.to_numpy().astype(object), 1, TOWN, axis=1)
    by_place = MSMTFL(lam=0.05, loss=loss, task_column=1).fit(places, y)
    named = TABLE.rename(columns={"a": "x0", "b": "x2", "c": "x3"})
    found = predictions(by_place, written(named, tmp_path / "places.csv"), tmp_path, "--task", "town")
    np.testing.assert_array_equal(found["prediction"], by_place.predict(places))


@pytest.mark.filterwarnings("ignore::msmtfl._estimators.fitted.NewTaskWarning")
def test_rows_without_predictions_and_new_tasks(tmp_path):
    model = MSMTFL(lam=0.05, task_column="town").fit(TABLE[["a", "town"]], Y)
    table = TABLE.copy()
    table.loc[4, "a"] = np.nan
    table.loc[7, "town"] = "new"
    found = predictions(
        model, written(table, tmp_path / "t.csv"), tmp_path, "--drop-missing", "--unknown-task", "mean"
    )["prediction"]
    assert np.flatnonzero(found.isna()).tolist() == [4]
    kept = table.drop(index=4)
    model.set_params(unknown_task="mean")
    of_new = kept["town"] == "new"
    expected = model.predict(kept[["a", "town"]])
    np.testing.assert_array_equal(found.drop(index=4)[~of_new], expected[~of_new])
    np.testing.assert_allclose(found[7], expected[of_new], rtol=0.1)  # in fewer digits


# ------------------------------------------------------------------ marks of thousands


EUROPEAN = ("--delimiter", ";", "--decimal", ",")
GIVEN = ("--target", "y", "--task", "town", "--lam", "0.1")


def european(column, values, tmp_path):
    """The table with decimal commas, and some entries of a column as they are given."""
    table = TABLE.map(lambda value: value if isinstance(value, str) else f"{value:.6f}".replace(".", ","))
    table.loc[: len(values) - 1, column] = values
    return written(table, tmp_path / "european.csv", sep=";")


@pytest.mark.parametrize(
    "values", [["999", "1.234", "12.345"], ["1.234", "2.567"], ["1.234,5"], ["1.5"], ["-1.234.567"]]
)
@pytest.mark.parametrize("column", ["a", "y"])
def test_points_beside_decimal_commas_are_asked_about(column, values, tmp_path):
    data = european(column, values, tmp_path)
    for more in ((), ("--one-hot",), ("--impute", "mean")):
        said = refused("fit", data, *GIVEN, *EUROPEAN, *more)
        pointed = next(k for k, value in enumerate(values) if "." in value)
        assert f"'{column}' hold numbers with points, {values[pointed]!r} in row {pointed + 1}" in said
        assert "thousands or decimals" in said
        assert "1234,5" in said


def test_points_in_new_rows_are_asked_about(tmp_path):
    model = MSMTFL(lam=0.1, task_column="town").fit(TABLE[["a", "b", "c", "town"]], Y)
    save_model(model, tmp_path / "model.msmtfl")
    said = refused("predict", tmp_path / "model.msmtfl", european("b", ["1.234"], tmp_path), *EUROPEAN)
    assert "'b' hold numbers with points, '1.234' in row 1" in said


def test_points_that_are_no_marks_are_left_alone(tmp_path):
    """Dates, versions and names, and columns that nobody uses."""
    data = european("a", [], tmp_path)
    table = pd.read_csv(data, sep=";", dtype=str)
    table["day"] = "01.02.2020"
    table["version"] = "1.2.3"
    table["place"] = "St. Gallen"
    table["price"] = "1.234"
    path = written(table, tmp_path / "more.csv", sep=";")
    done("fit", path, *GIVEN, *EUROPEAN, "--exclude", "day,version,place,price")
    assert "'day', 'version', 'place' hold text or dates" in refused(
        "fit", path, *GIVEN, *EUROPEAN, "--exclude", "price"
    )


def test_marks_of_both_kinds_are_asked_about_without_the_option(tmp_path):
    table = TABLE.astype({"a": object})
    table.loc[3, "a"] = "1.234,5"
    table.loc[:2, "a"] = "7"
    table.loc[4:, "a"] = "2,5"
    said = refused("fit", written(table, tmp_path / "t.csv"), *GIVEN)
    assert "'a' hold numbers with points, '1.234,5' in row 4" in said


# ------------------------------------------------------------------ columns of lists


@pytest.mark.parametrize("column", ["a", "town", "y"])
@pytest.mark.parametrize(("value", "kind"), [(["x", "y"], "lists"), ({"k": 1.0}, "records")])
def test_columns_of_lists_are_named(column, value, kind, tmp_path):
    table = TABLE.assign(**{column: [None, *[value] * (N - 1)]})
    data = written(table, tmp_path / "lists.parquet")
    assert f"column '{column}' holds {kind}, first in row 2" in refused("fit", data, *GIVEN)
    if column != "y":
        model = MSMTFL(lam=0.1, task_column="town").fit(TABLE[["a", "town"]], Y)
        save_model(model, tmp_path / "model.msmtfl")
        said = refused("predict", tmp_path / "model.msmtfl", data, "--drop-missing")
        assert f"column '{column}' holds {kind}, first in row 2" in said
    if column == "a":
        done("fit", data, *GIVEN, "--exclude", "a")


def test_a_task_column_of_lists_in_a_stream_is_named(tmp_path):
    data = written(TABLE.assign(town=[["x"]] * N), tmp_path / "lists.parquet")
    with pytest.raises(ValueError, match=r"column 'town' holds list<.*single values are needed"):
        Moments.from_parquet(data, "y", "town")


# ------------------------------------------------------------------ what is counted from 1, and many columns


def test_rows_are_counted_as_in_the_file_also_by_the_errors_of_a_model(tmp_path):
    table = TABLE.assign(y=np.arange(N) % 5)
    table.loc[2, "a"] = np.nan  # row 3 is left out
    table.loc[7, "y"] = -1
    data = written(table, tmp_path / "t.csv")
    said = refused("fit", data, *GIVEN, "--loss", "poisson", "--drop-missing")
    assert "holds -1 in row 8" in said


def test_ten_thousand_columns_are_found_at_once(tmp_path):
    from time import process_time

    from msmtfl.cli.inputs.data import require

    names = [f"a long name of a column {j}" for j in range(20_000)]
    table = pd.DataFrame(columns=names)
    began = process_time()
    require(table, names, "--features")
    assert process_time() - began < 1.0  # seconds with a list
    with pytest.raises(Exception, match="there is no column 'nothing'"):
        require(table, [*names, "nothing"], "--features")


# ------------------------------------------------------------------ formulas


UGLY = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "plain", "-5", "+3.2", "-1e-3", "-", "＝1", "a=b"]
INERT = ["'=1+1", "'+cmd|' /C calc'!A0", "'-2+3", "'@SUM(A1)", "plain", "-5", "+3.2", "-1e-3", "'-", "'＝1", "a=b"]


def test_text_from_the_table_is_no_formula_in_csv(tmp_path):
    table = pd.DataFrame({"=id": np.resize(UGLY, N), "@a": X["a"], "town": np.resize(UGLY[:3], N), "y": Y})
    data, model = written(table, tmp_path / "t.csv"), tmp_path / "model.msmtfl"
    done("fit", data, "--target", "y", "--task", "town", "--lam", "0.1", "--id", "=id", "--out", model)
    out = done("predict", model, data).splitlines()
    assert out[0] == "'=id,task,prediction"
    shown = pd.read_csv(io.StringIO("\n".join(out)), dtype=str)
    assert shown["'=id"].tolist() == np.resize(INERT, N).tolist()
    assert set(shown["task"]) == set(INERT[:3])
    raw = done("predict", model, data, "--formulas").splitlines()
    assert raw[0] == "=id,task,prediction"
    assert raw[1].startswith("=1+1,=1+1,")
    done("predict", model, data, "--out", tmp_path / "p.parquet")
    assert pd.read_parquet(tmp_path / "p.parquet")["task"].tolist()[:3] == UGLY[:3]
    done("inspect", model, "--coefficients", tmp_path / "c.csv")
    assert pd.read_csv(tmp_path / "c.csv")["feature"].tolist() == ["'@a"]
    done("inspect", model, "--coefficients", tmp_path / "c.csv", "--formulas")
    assert pd.read_csv(tmp_path / "c.csv")["feature"].tolist() == ["@a"]
    models = ("--models", "ridge per task,pooled ridge", "--cv", "2", "--out", tmp_path / "m.csv", "--exclude", "=id")
    for option, labels in (((), INERT[:3]), (("--formulas",), UGLY[:3])):
        done("compare", data, "--target", "y", "--task", "town", *models, *option)
        assert set(pd.read_csv(tmp_path / "m.csv")["task"]) == set(labels)


# ------------------------------------------------------------------ devices and pipes


posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")


@posix
def test_devices_are_not_read_for_ever(tmp_path):
    model = MSMTFL(lam=0.1, task_column="town").fit(TABLE[["a", "town"]], Y)
    save_model(model, tmp_path / "model.msmtfl")
    for device in ("/dev/zero", "/dev/urandom"):
        assert f"{device}: it is a device, not a file" in refused("fit", device, *GIVEN)
        assert f"{device}: it is a device, not a file" in refused("predict", tmp_path / "model.msmtfl", device)
        assert f"{device}: it is a device, not a file" in refused("inspect", device)
    os.mkfifo(tmp_path / "pipe.parquet")
    assert "it is a pipe, not a file" in refused("fit", tmp_path / "pipe.parquet", *GIVEN)
    assert "it is a pipe, not a file" in refused("inspect", tmp_path / "pipe.parquet")


@posix
def test_a_pipe_with_a_table_in_it_is_read(tmp_path):
    data = written(TABLE, tmp_path / "t.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    feeder = threading.Thread(target=lambda: (tmp_path / "pipe.csv").write_bytes(data.read_bytes()))
    feeder.start()
    through = json.loads(done("fit", tmp_path / "pipe.csv", *GIVEN, "--json"))
    feeder.join()
    assert through["objective"] == json.loads(done("fit", data, *GIVEN, "--json"))["objective"]


def test_a_stream_of_zeros_is_left_at_once(tmp_path):
    class Endless(io.RawIOBase):
        given = 0

        def readable(self):
            return True

        def readinto(self, buffer):
            self.given += len(buffer)
            assert self.given < 10**7, "reads for ever"
            buffer[:] = bytes(len(buffer))
            return len(buffer)

    from msmtfl.cli.inputs import table_files

    with pytest.raises(table_files.InputError, match="holds bytes that are 0"):
        table_files._read_all(io.BufferedReader(Endless()), Path("-"), "utf-8")
    (tmp_path / "zeros.csv").write_bytes(bytes(1000))
    assert "holds bytes that are 0" in refused("fit", tmp_path / "zeros.csv", *GIVEN)
    written(TABLE, tmp_path / "wide.csv", encoding="utf-16")
    done("fit", tmp_path / "wide.csv", *GIVEN, "--encoding", "utf-16")
    (tmp_path / "bare.csv").write_bytes((tmp_path / "wide.csv").read_bytes()[2:])
    assert "--encoding utf-16" in refused("fit", tmp_path / "bare.csv", *GIVEN)


@posix
def test_standard_input_that_is_a_device_is_refused():
    from msmtfl.cli.inputs import table_files

    with open("/dev/zero") as stream, pytest.raises(table_files.InputError, match="standard input is a device"):
        table_files._refuse_device(stream)


# ------------------------------------------------------------------ interrupts


IMPORTING = """
import sys
sys.argv = {argv!r}
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
import msmtfl
from msmtfl.__main__ import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["numpy", "msmtfl._paths.solve", "msmtfl.cli.using"])
def test_ctrl_c_during_imports(module):
    code = IMPORTING.format(argv=["/usr/bin/msmtfl", "--version"], module=module)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 130
    assert found.stderr.strip() == "msmtfl: stopped."


@pytest.mark.slow
def test_ctrl_c_while_others_import_the_package_is_theirs():
    code = IMPORTING.format(argv=["/home/me/study.py"], module="msmtfl._paths.solve")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode != 130
    assert "KeyboardInterrupt" in found.stderr


def test_what_is_the_command():
    from msmtfl._runtime.interrupt import is_command

    assert is_command(["-m"], ["python", "-W", "error", "-m", "msmtfl", "fit"])
    assert is_command(["/env/bin/msmtfl"], [])
    assert not is_command(["-m"], ["python", "-m", "pytest", "msmtfl"])
    assert not is_command(["-c"], [])
    assert not is_command([], [])


@posix
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_signal_while_a_file_is_written_leaves_the_old_one(number, code, step, tmp_path, monkeypatch):
    data, out, kept = written(TABLE, tmp_path / "t.csv"), tmp_path / "out.msmtfl", signal.getsignal(signal.SIGTERM)
    out.write_text("before")
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may ignore it
    monkeypatch.setattr(os, step, lambda *_: signal.raise_signal(number))
    assert "msmtfl fit: stopped." in refused("fit", data, *GIVEN, "--out", out, code=code)
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.msmtfl", "t.csv"]
    assert signal.getsignal(signal.SIGTERM) is kept
    signal.signal(signal.SIGINT, heard)


@posix
def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    """The model, predictions, tables, the report and statistics."""
    model = MSMTFL(lam=0.1, task_column="town").fit(TABLE[["a", "town"]], Y)
    data, path = written(TABLE, tmp_path / "t.csv"), tmp_path / "model.msmtfl"
    save_model(model, path)
    out = tmp_path / "out.csv"
    out.write_text("before")
    moments = Moments().update(TABLE[["a", "b"]], Y, task=TOWN)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for command in (
        ("fit", data, *GIVEN, "--out", out),
        ("predict", path, data, "--out", out),
        ("compare", data, *GIVEN[:4], "--models", "ridge per task,pooled ridge", "--cv", "2", "--out", out),
        ("report", path, "--out", out),
    ):
        assert "No space left on device" in refused(*command, code=1)
        assert out.read_text() == "before"
        assert sorted(one.name for one in tmp_path.iterdir()) == ["model.msmtfl", "out.csv", "t.csv"]
    with pytest.raises(OSError, match="No space left"):
        moments.save(out)
    assert out.read_text() == "before"


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.timed
def test_a_signal_that_python_ignores_while_it_clears_away_comes_again(number, capsys):
    class Clearing:
        def __del__(self):
            signal.raise_signal(number)

    def command():
        with guard("fit"):
            Clearing()
            time.sleep(5)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored
    try:
        with pytest.raises(typer.Exit) as ended:
            command()
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.exit_code == 128 + number
    said = capsys.readouterr().err
    assert "stopped" in said
    assert "Traceback" not in said


SIGNALLED = {
    "fit": ("fit", "{data}", *GIVEN, "--out", "{out}", "--report", "{page}"),
    "predict": ("predict", "{model}", "{data}", "--out", "{out}"),
    "compare": ("compare", "{data}", *GIVEN[:4], "--out", "{out}", "--report", "{page}"),
    "report": ("report", "{model}", "--out", "{page}"),
}


@posix
@pytest.mark.slow
@pytest.mark.parametrize("name", SIGNALLED)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.sampled(3)
@pytest.mark.timed
def test_signals_at_any_moment_leave_whole_files(name, number, tmp_path):
    """Until the command has done its work: whatever it has written by then is the old file, or the new one, whole."""
    model = MSMTFL(lam=0.1, task_column="town").fit(TABLE[["a", "b", "c", "town"]], Y)
    save_model(model, tmp_path / "model.msmtfl")
    data = written(TABLE, tmp_path / "t.csv")
    paths = {name: tmp_path / file for name, file in {"out": "out.csv", "page": "page.html"}.items()}
    arguments = [
        one.format(data=data, model=tmp_path / "model.msmtfl", **paths) if isinstance(one, str) else one
        for one in SIGNALLED[name]
    ]
    command = [sys.executable, "-m", "msmtfl", *arguments]
    began = time.monotonic()
    subprocess.run(command, capture_output=True, check=True)
    lasts = time.monotonic() - began
    sizes = {path: len(path.read_bytes()) for path in paths.values() if path.exists()}
    for wait in np.random.default_rng(number).uniform(0.1, 1.0, 2) * lasts:
        for path in paths.values():
            path.write_text("before")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            time.sleep(wait)
            running.send_signal(number)
            said = running.communicate(timeout=60)[1]
        codes = (0, 128 + number, -number)  # minus: before the command, or Python itself, has begun
        assert running.returncode in codes, said
        assert "Traceback" not in said
        for path in paths.values():
            text = path.read_bytes()
            assert text == b"before" or abs(len(text) - sizes[path]) < 0.05 * sizes[path]
        assert not list(tmp_path.glob(".*.unfinished"))


@pytest.mark.parametrize("command", ["fit", "compare"])
@pytest.mark.parametrize("name", ["possion", "poisson(1.5)"])
def test_a_loss_that_there_is_not_is_told_with_those_that_there_are(tmp_path, command, name):
    given = GIVEN if command == "fit" else GIVEN[:4]
    said = refused(command, written(TABLE, tmp_path / "t.csv"), *given, "--loss", name)
    assert "loss must be one of 'squared', 'poisson'" in said
    assert repr(name) in said
