"""What `msmtfl fit` and `msmtfl predict` read: files of all kinds, several of them, and what is found out of them."""

import json

import numpy as np
import pandas as pd
import pytest

from msmtfl.model_files import load_model

testing = pytest.importorskip("typer.testing")
pytest.importorskip("pyarrow")
app = pytest.importorskip("msmtfl.cli").app

rng = np.random.default_rng(0)
TABLE = pd.DataFrame(rng.standard_normal((60, 3)).round(4), columns=["größe", "dose", "age"])
TABLE["town"] = np.repeat(["Köln", "Bonn", "Ulm"], 20)
TABLE["y"] = (TABLE["größe"] * 2 - TABLE["dose"]).round(4)
ROLES = ("-y", "y", "-t", "town", "--lam", "0.1")


def run(*arguments):
    return testing.CliRunner().invoke(app, [str(one) for one in arguments])


def fitted(tmp_path, *data):
    """The model of a table, and what was said."""
    found = run("fit", *data, *ROLES, "--out", tmp_path / "m.json")
    assert found.exit_code == 0, found.output
    return load_model(tmp_path / "m.json"), found.stderr


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    path = tmp_path_factory.mktemp("reading")
    TABLE.to_csv(path / "t.csv", index=False)
    model, said = fitted(path, path / "t.csv")
    assert said == ""
    return model.coef_


def assert_same(model, expected):
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-12)
    assert sorted(model.tasks_) == ["Bonn", "Köln", "Ulm"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sep": ";", "decimal": ",", "encoding": "cp1252"}, "delimiter ';', decimal comma, encoding cp1252"),
        ({"sep": "\t", "encoding": "utf-16"}, "delimiter 'tab', encoding utf-16"),
        ({"sep": "|"}, "delimiter '|'"),
    ],
    ids=str,
)
def test_delimiter_decimal_mark_and_encoding_are_found_and_said(options, said, tmp_path, expected):
    TABLE.to_csv(tmp_path / "t.csv", index=False, **options)
    model, told = fitted(tmp_path, tmp_path / "t.csv")
    assert_same(model, expected)
    assert f"is read with {said}, as it looks" in told
    assert "warning" not in told


def test_marks_of_thousands_are_not_taken_for_decimals(tmp_path):
    text = "a;town;y\n" + "".join(f"1,{100 + i};{'u' if i % 2 else 'v'};{i}\n" for i in range(20))
    (tmp_path / "t.csv").write_text(text)
    found = run("fit", tmp_path / "t.csv", *ROLES)
    assert found.exit_code == 2
    assert "hold numbers with a comma" in found.stderr


@pytest.mark.parametrize("kind", ["feather", "jsonl", "json", "parquet"])
def test_kinds_of_files(kind, tmp_path, expected):
    path = tmp_path / f"t.{kind}"
    if kind.startswith("json"):
        TABLE.to_json(path, orient="records", lines=kind == "jsonl", double_precision=15)
    else:
        (TABLE.to_feather if kind == "feather" else TABLE.to_parquet)(path)
    assert_same(fitted(tmp_path, path)[0], expected)


def test_a_workbook_is_read_or_the_way_out_said(tmp_path, expected):
    path = tmp_path / "t.xlsx"
    try:
        TABLE.to_excel(path, index=False)
    except ImportError:
        path.write_bytes(b"PK\x03\x04")
        found = run("fit", path, *ROLES)
        assert found.exit_code == 2
        assert "pip install openpyxl" in found.stderr
        return
    assert_same(fitted(tmp_path, path)[0], expected)


def test_several_files_a_folder_and_a_pattern_are_one_table(tmp_path, expected):
    folder = tmp_path / "parts"
    folder.mkdir()
    for k, part in enumerate(np.array_split(np.arange(60), 3)):
        TABLE.iloc[part].to_parquet(folder / f"part-{k}.parquet", index=False)
    (folder / "_SUCCESS").write_text("")
    for given in (sorted(folder.glob("*.parquet")), [folder], [folder / "part-*.parquet"]):
        model, said = fitted(tmp_path, *given)
        assert_same(model, expected)
        assert "60 rows are read from 3 files, part-0.parquet to part-2.parquet" in said
    TABLE.drop(columns="age").to_parquet(folder / "part-3.parquet", index=False)
    found = run("fit", folder, *ROLES)
    assert found.exit_code == 2
    assert "part-3.parquet: its columns are not those of" in found.stderr
    assert "lacks 'age'" in found.stderr
    assert "no file fits this pattern" in run("fit", folder / "x*.csv", *ROLES).stderr


def test_small_tasks_are_left_out_counted_and_named(tmp_path):
    table = TABLE.assign(town=["P1"] * 2 + ["P10"] + ["a"] * 27 + ["b"] * 30)
    table.to_csv(tmp_path / "t.csv", index=False)
    found = run("fit", tmp_path / "t.csv", *ROLES, "--min-rows", "3", "--out", tmp_path / "m.json")
    assert "2 of 4 tasks, 3 of 60 rows, are left out: fewer than 3 rows: 'P1' (2), 'P10' (1)." in found.stderr
    assert load_model(tmp_path / "m.json").tasks_.tolist() == ["a", "b"]
    assert "no task has 99 rows; 'b' has most, 30" in run("fit", tmp_path / "t.csv", *ROLES, "--min-rows", "99").stderr


def test_names_of_tasks_that_are_nearly_the_same_are_warned_about(tmp_path):
    TABLE.assign(town=np.repeat(["P01", "p01", "P 01"], 20)).to_csv(tmp_path / "t.csv", index=False)
    said = fitted(tmp_path, tmp_path / "t.csv")[1]
    assert "differ in capitals, blanks or marks only: 'P 01' and 'P01' and 'p01'" in said
    TABLE.assign(town=np.repeat(["7", "07", "70"], 20)).to_csv(tmp_path / "t.csv", index=False)
    assert "differ" not in fitted(tmp_path, tmp_path / "t.csv")[1]


def test_missing_text_is_a_category(tmp_path):
    colour = np.where(np.arange(60) % 3 == 0, None, np.where(np.arange(60) % 2 == 0, "red", "blue"))
    TABLE.assign(colour=colour).to_csv(tmp_path / "t.csv", index=False)
    one_hot = (*ROLES, "--one-hot")
    assert "missing values in 'colour'" in run("fit", tmp_path / "t.csv", *one_hot).stderr
    found = run("fit", tmp_path / "t.csv", *one_hot, "--missing-level", "--out", tmp_path / "m.json")
    assert found.exit_code == 0, found.output
    assert "colour=(missing)" in load_model(tmp_path / "m.json").features_.tolist()
    rows = json.loads(run("predict", tmp_path / "m.json", tmp_path / "t.csv", "--json").stdout)
    assert len(rows) == 60
    assert all(row["prediction"] is not None for row in rows)
