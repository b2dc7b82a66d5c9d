"""Docstrings say what there is: the attributes that a fit leaves, and the texts that docstrings share."""

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

import msmtfl

DOCS = Path(__file__).parents[2] / "docs"
MODELS = [name for name in msmtfl.__all__ if hasattr(getattr(msmtfl, name), "fit")]

pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="the documentation is not beside the tests")


@pytest.fixture(scope="module")
def check():
    """docs/check_docstrings.py as a module."""
    spec = importlib.util.spec_from_file_location("check_docstrings", DOCS / "check_docstrings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def data():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((90, 3)), columns=["a", "b", "c"])
    y = 2 * X["a"].to_numpy() + 0.5 * rng.standard_normal(90)
    return X.assign(place=np.repeat(["north", "south", "west"], 30)), y


def fitted(name):
    """Models that, taken together, have all attributes that a class can have."""
    X, y = data()
    y = y > 0 if "Classifier" in name else y
    options = {"task_column": "place"}
    if name.endswith("CV"):
        options |= {"lams": 4, "cv": 3}
    elif name.startswith("MultiTaskAuto"):
        options |= {"models": ["lasso", "pooled ridge"], "cv": 3, "inner_cv": 3}
    kind = getattr(msmtfl, name)
    yield kind(**options).fit(X, y)
    if hasattr(kind, "partial_fit"):
        yield kind(**options).partial_fit(X, y)
    if "loss" in inspect.signature(kind).parameters:
        of_losses = options | ({"models": ["lasso", "l12"]} if "models" in options else {})
        yield kind(**of_losses, loss="huber").fit(X, y)
        yield kind(**of_losses, loss="cox").fit(
            X, np.column_stack([np.exp(0.3 * y) * np.random.default_rng(1).exponential(size=len(y)), y > -2])
        )
    if "feature_groups" in inspect.signature(kind).parameters:
        yield kind(**options, feature_groups={"both": [0, 1]}).fit(X, y)
    if getattr(kind, "_can_scale_numbers", False):
        yield kind(**options, standardize="numeric").fit(X, y)
    if "unknown_category" in inspect.signature(kind).parameters:
        yield kind(**options).fit(X.assign(kind=list("abc") * 30).astype({"kind": "category"}), y)
    if "intercepts" in inspect.signature(kind).parameters:
        yield kind(**options, intercepts="shrunk").fit(X, y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.sampled(2)
def test_every_attribute_of_a_fitted_model_is_documented_and_there(name, check):
    found, elsewhere = set(), set()
    for model in fitted(name):
        found |= {key for key in dir(model) if key.endswith("_") and not key.startswith("_")}
        elsewhere |= set(dir(getattr(model, "best_estimator_", None)))  # where those of the model chosen are described
    documented = set(check.described(inspect.cleandoc(getattr(msmtfl, name).__doc__), "Attributes"))
    assert documented <= found
    assert found - documented <= elsewhere


@pytest.mark.slow
def test_docstrings_have_the_texts_that_they_share(check):
    table = check.shared_texts(check.SHARED.read_text(encoding="utf-8"))
    others = [one.name for one in check.public(check.api_names()) if check.change_of(one, table) is not None]
    assert not others, "run python docs/check_docstrings.py --write"


def test_every_shared_text_is_used(check):
    things = check.public(check.api_names())
    for one in check.shared_texts(check.SHARED.read_text(encoding="utf-8")):
        used = set()
        for thing in things:
            if check.shared_of(thing.names, [one]):
                used |= {*check.described(thing.text, "Parameters"), *check.described(thing.text, "Attributes")}
        assert set(one.texts) <= used, one.patterns


TABLE = """What it is for.

[pkg.Special]
b : int, default=2
    Special.

[pkg.*]
a : int
    First.
b : int, default=2
    Second.
"""
DOC = "Do it.\n\nParameters\n----------\nb : int\n    Old.\nown : str\n    Kept.\n\nReturns\n-------\nint\n    It.\n"


def test_shared_texts_are_filled_in_by_the_order_of_the_signature(check):
    table = check.shared_texts(TABLE)
    new = check.with_shared(DOC, check.shared_of(["pkg.plain"], table), ["a", "b", "own"])
    assert list(check.described(new, "Parameters")) == ["a", "b", "own"]
    assert "    First.\nb : int, default=2\n    Second.\nown : str\n    Kept.\n\nReturns\n" in new
    assert check.with_shared(new, check.shared_of(["pkg.plain"], table), ["a", "b", "own"]) == new
    assert "Special." in check.with_shared(DOC, check.shared_of(["pkg.Special"], table), ["b", "own"])
    assert "First." not in check.with_shared(DOC, check.shared_of(["pkg.Special"], table), ["b", "own"])


TOY = '''
def good(a, b=2):
    """Add two numbers.

    Parameters
    ----------
    a : int
        One of them.
    b : int, default=2
        The other one.

    Returns
    -------
    int
        Their sum.
    """
    return a + b


def bad(a, b=2, c=None):
    """Of two numbers the sum, as for :func:`good`.

    Parameters
    ----------
    a : int, optional
        One of the cells.
    b : int, default=3
        The column that says the task.
    """
    return a + b


class Thing:
    """A thing.

    Attributes
    ----------
    size
    weight : float
        How heavy it is.
    """

    def undocumented(self, x):
        return x
'''


@pytest.fixture
def toy(tmp_path, monkeypatch, check):
    (tmp_path / "toy_docs.py").write_text(TOY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(check, "SOURCE", tmp_path)
    yield lambda name: check.public([f"toy_docs.{name}"], "toy_docs")
    sys.modules.pop("toy_docs", None)


def test_wrong_defaults_words_and_attributes_are_found(check, toy):
    (good,), (bad,), (thing, _) = toy("good"), toy("bad"), toy("Thing")
    assert check.default_findings(good) == check.phrase_findings(good) == check.attribute_findings(good) == []
    assert [text.split(":")[0] for text in check.default_findings(bad)] == ["default of a", "default of b"]
    assert [text.split("'")[1] for text in check.phrase_findings(bad)] == ["Of ", "as for :", "says the task", "cells"]
    assert check.attribute_findings(thing) == ["attribute size: a type and a description are needed"]


def test_what_is_not_documented_is_found(check, toy):
    pytest.importorskip("numpydoc")
    assert check.findings(toy("good"), []) == []
    found = check.findings(toy("bad") + toy("Thing"), [])
    assert any(text.startswith("toy_docs.bad: PR01") and "'c'" in text for text in found)
    assert any(text.startswith("toy_docs.bad: RT01") for text in found)
    assert any(text.startswith("toy_docs.Thing.undocumented: GL08") for text in found)


def test_writing_changes_nothing_but_the_docstring(check, toy, tmp_path):
    table = check.shared_texts("[toy_docs.*]\na : float\n    The first one.\nc : int, optional\n    The last one.\n")
    assert check.write(toy("good") + toy("bad"), table) == 2
    new = (tmp_path / "toy_docs.py").read_text()
    assert new.count("    a : float\n        The first one.\n") == 2
    assert '        The column that says the task.\n    c : int, optional\n        The last one.\n    """\n' in new
    assert [line for line in new.splitlines() if "return" in line] == [
        line for line in TOY.splitlines() if "return" in line
    ]
