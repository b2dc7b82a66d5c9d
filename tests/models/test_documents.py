"""What stands in the document of a model, node by node: what is read, what is refused, and where the borders are."""

import json
import math

import numpy as np
import pytest

from msmtfl._objective.proofs.certificates import Certificate
from msmtfl._objective.shapes import SCAD
from msmtfl._solvers.stages import Stage
from msmtfl.model_files import reading, values, writing
from msmtfl.model_files.files import as_json
from msmtfl.model_files.layout import INLINE, LARGEST, beyond_range, scalar_fields
from msmtfl.model_files.values import Reader, are_names, is_list, sizes_of, typed
from msmtfl.model_files.writing import UnstorableError, Writer, storable


def array(values, dtype="float64", shape=None):
    return {"array": {"dtype": dtype, "shape": [len(values)] if shape is None else shape, "values": list(values)}}


def sparse(at, entries, shape=(2, 3), kind="int32"):
    return {"sparse": {"shape": list(shape), "at": array(at, kind), "values": array(entries)}}


def refused(message):
    return pytest.raises(ValueError, match=message)


# ------------------------------------------------------------------ values


@pytest.mark.parametrize("node", [[], [0], [1, 2, 3], [1] * 8])
def test_sizes_are_whole_numbers_from_0(node):
    assert sizes_of(node, "x") == tuple(node)


@pytest.mark.parametrize("node", [None, "3", {}, [-1], [1, -2], [1.0], [True], ["1"], [None], [1] * 9, (1, 2)])
def test_what_is_no_list_of_sizes_is_refused(node):
    with refused("^x: the shape is not a list of sizes.$"):
        sizes_of(node, "x")


def test_types_are_exact_but_whole_numbers_are_floats():
    assert typed(3, float, "x") == 3.0
    assert type(typed(3, float, "x")) is float
    assert typed("a", str, "x") == "a"
    for value, kind in [(True, int), (True, float), (1, bool), (1.0, int), ("1", int), (None, str), ([1], dict)]:
        with refused(f"^x is not of type {kind.__name__}.$"):
            typed(value, kind, "x")


def test_lists_are_arrays_of_one_dimension_and_of_their_kinds():
    assert is_list(np.array([1, 2]), "iu")
    assert not is_list(np.array([1.0]), "iu")
    assert not is_list(np.array([[1]]), "iu")
    assert not is_list(np.array(1), "iu")
    assert not is_list([1], "iu")
    assert are_names(np.array(["a", "b"]))
    assert are_names(np.array(["a", "b"], dtype=object))
    assert not are_names(np.array(["a", 1], dtype=object))


def test_a_sparse_array_is_its_values_at_their_places():
    found = Reader({}).floats(sparse([1, 5], [2.0, -3.0]), (2, 3), "x")
    np.testing.assert_array_equal(found, [[0.0, 2.0, 0.0], [0.0, 0.0, -3.0]])
    np.testing.assert_array_equal(Reader({}).floats(sparse([], []), (2, 3), "x"), np.zeros((2, 3)))
    assert Reader({}).floats(sparse([0], [2.0]), (2, 3), "x")[0, 0] == 2.0
    assert np.isinf(Reader({}).floats(sparse([3], ["inf"]), (2, 3), "x", finite=False)).sum() == 1


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (sparse([0], [1.0], (3, 2)), r"^x has shape \[3, 2\], but \[2, 3\] is expected"),
        (sparse([0.0], [1.0], kind="float64"), "^x: a sparse array is two lists of numbers"),
        (
            {"sparse": {"shape": [2, 3], "at": array([0], "int32"), "values": array([1], "int64")}},
            "two lists of numbers",
        ),
        ({"sparse": {"shape": [2, 3], "at": 0, "values": array([1.0])}}, "two lists of numbers"),
        (sparse([-1], [1.0]), "^x: the places of a sparse array do not fit"),
        (sparse([6], [1.0]), "places of a sparse array"),
        (sparse([0, 6], [1.0, 2.0]), "places of a sparse array"),
        (sparse([2, 1], [1.0, 2.0]), "places of a sparse array"),
        (sparse([1, 1], [1.0, 2.0]), "places of a sparse array"),
        (sparse([0, 1], [1.0]), "places of a sparse array"),
        (sparse([], [1.0]), "places of a sparse array"),
        (sparse([0], ["nan"]), "^x is not finite"),
        ({"sparse": {"shape": [2, 3], "at": array([0], "int32")}}, "^x lacks 'values'"),
        (array([1.0] * 6), r"^x has shape \[6\], but \[2, 3\] is expected"),
        (array([1] * 6, "int64", [2, 3]), "^x is not a float64 array"),
        (array([1.0] * 5 + ["inf"], "float64", [2, 3]), "^x is not finite"),
        (1.0, "^x is not a float64 array"),
    ],
)
def test_an_array_of_another_shape_or_kind_is_refused(node, message):
    with refused(message):
        Reader({}).floats(node, (2, 3), "x")


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"float": "inf"}, math.inf),
        ({"tuple": [1, {"tuple": []}, "a"]}, (1, (), "a")),
        ({"dict": {"a": [1, None], "b": {"dict": {}}}}, {"a": [1, None], "b": {}}),
        ([True, 2.5, "text"], [True, 2.5, "text"]),
    ],
)
def test_nodes_are_values(node, expected):
    assert Reader({}).value(node, "x") == expected


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({}, "^x: an object that is a value has one key"),
        ({"tuple": [], "dict": {}}, "^x: an object that is a value has one key"),
        ({"float": "1"}, "^x: '1' is no float"),
        ({"float": 1.0}, "^x: 1.0 is no float"),
        ({"float": []}, "^x: .* is no float"),
        ({"tuple": {}}, "^x is not of type list"),
        ({"dict": []}, "^x is not of type dict"),
        ({"dict": {"a": {"float": "0"}}}, "^x.a: '0' is no float"),
        ({"cells": 1}, "^x: the cells are not an array"),
        ({"cells": array([1.0], shape=[])}, "^x: the cells are not an array"),
        ({"lambda": []}, "^x: 'lambda' is no kind of value that may stand here"),
        (array([1.0], "complex128"), "^x: unknown dtype 'complex128'"),
        (array([1.0], ["float64"]), "^x: unknown dtype"),
        (array([1.0, 2.0], shape=[3]), r"^x: 2 values do not make the shape \[3\]"),
        (array([1.0], "int64"), "^x: a value is not of dtype int64"),
        (array([True], "int64"), "^x: a value is not of dtype int64"),
        (array([None], "float64"), "^x: a value is not of dtype float64"),
        (array(["1.0"], "float64"), "^x: a text is no number"),
        (array([1], "str"), "^x: an entry is not text"),
        (array([None], "object"), "^x: entry 0 is neither text nor a number"),
        ({"array": {"dtype": "str", "shape": [1], "member": "a"}}, "^x: an array of str cannot be a member"),
        ({"array": {"dtype": "float64", "shape": [1], "member": "a"}}, "^x: member 'a' is missing, or named twice"),
        ({"shape": {"name": "cubic"}}, "^x: no shape 'cubic'"),
        ({"shape": {"name": ["mcp"]}}, "^x: no shape"),
        ({"shape": {"name": "scad", "a": 3.0, "b": 1.0}}, "^x: these are not the parameters of the shape 'scad'"),
    ],
)
def test_nodes_that_are_no_values_are_refused(node, message):
    with refused(message):
        Reader({}).value(node, "x")


def test_cells_are_arrays_of_one_dimension_less():
    cells = Reader({}).value({"cells": array([1.0, 2.0, 3.0, 4.0], shape=[2, 2])}, "x")
    assert cells.dtype == object
    assert [cell.tolist() for cell in cells] == [[1.0, 2.0], [3.0, 4.0]]


def test_text_may_take_so_many_characters(monkeypatch):
    monkeypatch.setattr(values, "WIDE", 6)
    assert Reader({}).value(array(["abc", "d"], "str"), "x").tolist() == ["abc", "d"]
    with refused("^x: a text is too long"):
        Reader({}).value(array(["abcd", "d"], "str"), "x")


def test_coefficients_may_be_as_large_as_this():
    tasks = np.array(["a", "b"])
    assert beyond_range("coef_", [[0.0, LARGEST], [-LARGEST, 0.0]], tasks) == ""
    assert beyond_range("coef_", [[0.0, 1.0], [0.0, -2 * LARGEST]], tasks).startswith(
        "coef_ is beyond 1e+150: task 'b' has -2e+150 there"
    )
    assert beyond_range("coef_", [[0.0, np.nan], [0.0, np.inf]], tasks).startswith(
        "coef_ is not finite: task 'a' has nan"
    )


# ------------------------------------------------------------------ stages and certificates


COEF = np.arange(6.0).reshape(2, 3)


def stage(**changes):
    scalars = {name: kind(1) for name, kind in scalar_fields(Stage).items()}
    return {**scalars, "free_rows": array([0, 2], "int64"), "coef": None, "ambiguous": [[1, [0, 2]]], **changes}


def test_a_stage_is_what_its_node_says():
    found = reading._read_stage(Reader({}), stage(), COEF, "stage 1")
    assert found.coef is COEF
    assert found.free_rows.tolist() == [0, 2]
    assert [columns.tolist() for columns in found.ambiguous] == [[], [0, 2]]
    own = reading._read_stage(Reader({}), stage(coef=array([1.0] * 6, shape=[2, 3])), COEF, "stage 1")
    assert own.coef.tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"free_rows": array([3], "int64")}, "^free_rows of stage 1 are not rows"),
        ({"free_rows": array([-1], "int64")}, "^free_rows of stage 1 are not rows"),
        ({"free_rows": array([0.0])}, "^free_rows of stage 1 are not rows"),
        ({"ambiguous": [[2, [0]]]}, "^ambiguous of stage 1 names what is not there"),
        ({"ambiguous": [[-1, [0]]]}, "names what is not there"),
        ({"ambiguous": [[True, [0]]]}, "names what is not there"),
        ({"ambiguous": [[0, [3]]]}, "names what is not there"),
        ({"ambiguous": [[0, [-1]]]}, "names what is not there"),
        ({"ambiguous": [[0, [0.0]]]}, "names what is not there"),
        ({"ambiguous": [[0, 1]]}, "names what is not there"),
        ({"ambiguous": [[0]]}, "^ambiguous of stage 1 is not a list of pairs"),
        ({"ambiguous": [[0, [0], 1]]}, "is not a list of pairs"),
        ({"ambiguous": [{"a": 1, "b": 2}]}, "is not a list of pairs"),
        ({"ambiguous": {}}, "is not a list of pairs"),
        ({"coef": array([1.0] * 6)}, r"^coef of stage 1 has shape \[6\]"),
        ({"coef": array([1.0] * 5 + ["nan"], shape=[2, 3])}, "^coef of stage 1 is not finite"),
    ],
)
def test_a_stage_that_does_not_fit_is_refused(changes, message):
    with refused(message):
        reading._read_stage(Reader({}), stage(**changes), COEF, "stage 1")


def test_the_stage_that_is_wrong_is_counted_from_1(monkeypatch):
    """As stages_ are in summaries: see also the one in test_model_files.py, whose first stage is wrong."""
    wheres = []
    monkeypatch.setattr(reading, "_read_stage", lambda read, node, coef, where: wheres.append(where))
    model = fitted()
    write = Writer(None)
    document = json.loads(as_json(writing.document_of(model, write, None)))
    reading.model_of(document, Reader({}))
    assert wheres == [f"stage {k}" for k in range(1, len(model.stages_) + 1)]
    assert len(wheres) > 1


def fitted():
    from msmtfl import MSMTFL

    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 10)), np.repeat([0, 1, 2], 20)
    y = X[:, :3].sum(axis=1) + 0.3 * X[:, 4] + rng.standard_normal(60)
    return MSMTFL(lam=0.1, theta=0.3, max_stages=6).fit(X, y, task=task)


def proof(**changes):
    scalars = {name: kind(1) for name, kind in scalar_fields(Certificate).items()}
    return {**scalars, "ambiguous": [["a", ["x1", "x2"]]], "doubt": "", **changes}


def test_a_certificate_is_what_its_node_says():
    found = reading._read_certificate(Reader({}), proof(doubt="rounding"), ["a", "b"])
    assert found.ambiguous == {"a": ["x1", "x2"]}
    assert found.doubt == "rounding"
    node = proof()
    del node["doubt"]
    assert reading._read_certificate(Reader({}), node, ["a", "b"]).doubt == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ambiguous": [["c", ["x1"]]]}, "^ambiguous of the certificate names what is not there"),
        ({"ambiguous": [["a", [1]]]}, "names what is not there"),
        ({"ambiguous": [["a", "x1"]]}, "names what is not there"),
        ({"ambiguous": [[{"tuple": []}, ["x1"]]]}, "names what is not there"),
        ({"doubt": 1}, "^doubt of the certificate is not a text"),
    ],
)
def test_a_certificate_that_does_not_fit_is_refused(changes, message):
    with refused(message):
        reading._read_certificate(Reader({}), proof(**changes), ["a", "b"])


# ------------------------------------------------------------------ searches and places


def search(**changes):
    table = {"mean_test_score": np.zeros(4), "lam": np.ones(4)}
    return {"cv_results_": table, "best_point_": (0, 1), "best_index_": 3, "n_splits_": 2, **changes}


def test_a_search_that_fits():
    reading._check_search(search())
    reading._check_search(search(best_index_=0, lams_=np.ones(4), thetas_=np.ones((2, 2))))
    reading._check_search(search(n_splits_=0, cv_results_={"lam": np.ones(4)}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cv_results_": []}, "cv_results_ is not a table"),
        ({"cv_results_": {}}, "cv_results_ is not a table"),
        ({"cv_results_": {"mean_test_score": np.zeros(4), "lam": np.ones(3)}}, "cv_results_ is not a table"),
        ({"cv_results_": {"mean_test_score": np.zeros((2, 2))}}, "cv_results_ is not a table"),
        ({"cv_results_": {"lam": np.ones(4)}}, "mean_test_score of cv_results_ are no numbers"),
        ({"cv_results_": {"mean_test_score": np.zeros(4, int)}}, "mean_test_score of cv_results_ are no numbers"),
        (
            {"cv_results_": {"mean_test_score": np.zeros(4), "lam": np.ones(4, int)}},
            "^lam of cv_results_ are no numbers",
        ),
        ({"best_index_": 4}, "best_index_ is outside"),
        ({"best_index_": -1}, "best_index_ is outside"),
        ({"best_point_": (0, 1, 2)}, "best_point_ is not a pair"),
        ({"best_point_": (0,)}, "best_point_ is not a pair"),
        ({"best_point_": [0, 1]}, "best_point_ is not a pair"),
        ({"best_point_": (0, 1.0)}, "best_point_ is not a pair"),
        ({"lams_": np.ones((2, 2))}, "lams_ is not a 1-D array"),
        ({"lams_": np.ones(4, int)}, "lams_ is not a 1-D array"),
        ({"lams_": [1.0]}, "lams_ is not a 1-D array"),
        ({"thetas_": np.ones(4)}, "thetas_ is not a 2-D array"),
    ],
)
def test_a_search_that_does_not_fit_is_refused(changes, message):
    with refused(message):
        reading._check_search(search(**changes))


def test_places_where_nothing_is_learned():
    found = reading._learnable(np.array([0, 5]), 2, 3)
    assert found.tolist() == [[False, True, True], [True, True, False]]
    for places in ([-1], [6], [0.0], [[0]]):
        with refused("are not places of cells"):
            reading._learnable(np.array(places), 2, 3)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([], "categories_ are no lists of levels"),
        ({"c": "ab"}, "categories_ are no lists of levels"),
        ({"c": []}, "categories_ are no lists of levels"),
        ({"c": ["a", "a"]}, "categories_ hold what are no levels"),
        ({"c": ["a", None]}, "categories_ hold what are no levels"),
        ({"c": ["a", "z"]}, "a level in categories_ has no feature"),
    ],
)
def test_levels_have_features_of_their_own(levels, message):
    features = np.array(["c=a", "c=b", "x"])
    reading._check_categories({"c": ["a", "b"]}, features)
    reading._check_categories({"c": ["a", "b"]}, features[:2])  # all features may be levels
    with refused(message):
        reading._check_categories(levels, features)


# ------------------------------------------------------------------ what is written


@pytest.mark.parametrize(
    ("size", "used", "stored"),
    [
        (INLINE - 1, 0, "array"),
        (INLINE, 0, "array"),  # small ones are readable as they are
        (INLINE + 1, 0, "sparse"),
        (66, 43, "sparse"),  # 12 bytes for each place and value, 8 for a value: two thirds are as large
        (66, 44, "array"),
    ],
)
def test_an_array_is_sparse_where_that_is_smaller(size, used, stored):
    values = np.zeros(size)
    values[:used] = 1.5
    values[-1] = values[-1] if used else -0.0  # a zero of its own
    node = Writer(None).value(values, "x", sparse=True)
    assert list(node) == [stored]
    back = Reader({}).floats(node, (size,), "x")
    assert back.tobytes() == values.tobytes()
    assert list(Writer(None).value(values, "x")) == ["array"]


def test_large_arrays_are_members_and_small_ones_are_not():
    members = {}
    small, large = (Writer(members).value(np.zeros(size), f"n{size}") for size in (INLINE, INLINE + 1))
    assert "values" in small["array"]
    assert large["array"]["member"] == f"n{INLINE + 1}.npy"
    assert list(members) == [f"n{INLINE + 1}.npy"]
    reader = Reader(members)
    np.testing.assert_array_equal(reader.value(large, "x"), np.zeros(INLINE + 1))
    assert members == {}


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, np.True_, 3, np.int8(3), 2.5, np.float32(0.5), "text", math.inf, -math.inf),
        *([1, (2, "a")], {"a": [1], "b": {"c": 2.0}}, (), SCAD(3.7)),
    ],
)
def test_values_come_back(value):
    node = json.loads(json.dumps(Writer(None).value(value, "x"), allow_nan=False))
    assert Reader({}).value(node, "x") == value


def boxed(value):
    """An array without dimensions, of an object."""
    out = np.empty((), dtype=object)
    out[()] = value
    return out


@pytest.mark.parametrize(
    "value",
    [
        boxed(np.ones(2)),
        {"a b": 1},
        {1: 2},
        object(),
        1j,
        np.ones(1, complex),
        np.array([None]),
        {"a": {1}},
    ],
)
def test_values_that_no_file_can_hold(value):
    with pytest.raises(UnstorableError, match=r"^x"):
        Writer(None).value(value, "x")
    nodes, others = storable(Writer(None), {"good": 1, "bad": value}, "x")
    assert nodes == {"good": 1}
    assert others == {"bad": repr(value)}


def test_arrays_of_arrays_are_of_one_kind_and_hold_no_objects():
    def of(*values):
        out = np.empty(len(values), dtype=object)
        for place, value in enumerate(values):
            out[place] = value
        return out

    assert list(Writer(None).value(of(np.ones(2), np.zeros(2)), "x")) == ["cells"]
    words = np.array(["a", "b"], dtype=object)
    for different in (of(words, words), of(np.ones(2), np.ones(3)), of(np.ones(2), np.ones(2, dtype=int))):
        with pytest.raises(UnstorableError, match=r"^x: arrays that differ$"):
            Writer(None).value(different, "x")


def test_what_could_be_stored_of_a_value_that_cannot_is_not_in_the_file():
    members = {"before.npy": b"1"}
    nodes, others = storable(Writer(members), {"pair": [np.zeros(INLINE + 1), object()]}, "x")
    assert nodes == {}
    assert list(others) == ["pair"]
    assert members == {"before.npy": b"1"}


@pytest.mark.parametrize(("length", "kept"), [(198, 200), (199, 200)])
def test_texts_of_values_that_are_left_out_are_cut(length, kept):
    class Named:
        def __repr__(self):
            return "<" + "a" * length + ">"

    _, others = storable(Writer(None), {"bad": Named()}, "x")
    assert len(others["bad"]) == kept
    assert others["bad"].endswith("…") == (length == 199)


@pytest.mark.parametrize(("length", "lines"), [(86, 1), (87, 3), (93, 3), (94, 6)])
def test_what_fits_in_a_line_stands_in_one(length, lines):
    """Parts of fewer characters than 100 less the indent; lists of scalars always do."""
    document = {"a": [[], "b" * length]}
    text = as_json(document).decode()
    assert len(text.splitlines()) == lines
    assert json.loads(text) == document
    assert as_json({"a": [1, 2, 3]}) == b'{"a": [1, 2, 3]}\n'
    assert as_json({"a": list(range(100))}).count(b"\n") == 3
    assert as_json({}) == b"{}\n"


def test_parts_stand_two_characters_further_in_than_what_holds_them():
    rows = [{"b": ["c" * 30, {"d": "e" * 100}]}] * 2
    text = as_json({"a": rows}).decode()
    assert json.loads(text) == {"a": rows}
    assert text == json.dumps({"a": rows}, indent=2) + "\n"


@pytest.mark.parametrize("place", [-1, None])
def test_effects_of_a_nested_model_are_among_its_lines(place):
    """The last that there is, and the one after it: None."""
    from msmtfl import NestedMTL

    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 5)), np.repeat([0, 1, 2], 20)
    model = NestedMTL().fit(X, X[:, 0] + rng.standard_normal(60), task=task)
    document = json.loads(as_json(writing.document_of(model, Writer(None), None)))
    places, lines = document["fitted"]["task_effects_"]["array"], len(model.effect_levels_)
    places["values"][-1] = lines - 1
    reading.model_of(document, Reader({}))
    places["values"][-1] = lines if place is None else place
    with refused("^task_effects_ does not name lines of .* for every task"):
        reading.model_of(document, Reader({}))
