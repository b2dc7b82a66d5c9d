"""What the documentation shows runs: examples in docstrings, code in the README and on the pages. What it names exists."""

import ast
import doctest
import importlib
import importlib.util
import pkgutil
import re
import sys
import tomllib
from pathlib import Path

import pytest

import msmtfl

MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(msmtfl.__path__, "msmtfl.")
    if name.split(".")[1] not in ("__main__", "_kernels", "cli")
]
LONG_EXAMPLES = ("msmtfl.compare.auto", "msmtfl.compare.run", "msmtfl.report", "msmtfl.dask.models")
EXTRAS = ("distributed", "onnxruntime")  # whose examples are run where they are installed
FETCHED = ("msmtfl.datasets.fetch_isolet",)
ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))

beside = pytest.mark.skipif(not DOCS.exists(), reason="the documentation is not beside the tests")


def extension(name):
    """A module of docs/_ext."""
    sys.path.insert(0, str(DOCS / "_ext"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(DOCS / "_ext"))


def listed():
    """Names of the API reference: msmtfl.MSMTFL, msmtfl.sharing.sharing_map, ..."""
    out, module = [], "msmtfl"
    for line in (DOCS / "api.md").read_text(encoding="utf-8").splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.match(r"   ([A-Za-z][\w.]*)$", line):
            out.append(f"{module}.{found[1]}")
    return out


def lookup(path):
    """What a dotted name stands for."""
    module, name = path.rsplit(".", 1)
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        return getattr(lookup(module), name)


def lacking(examples):
    """Packages that the examples of a docstring import and that need not be installed."""
    code = "".join(example.source for example in examples)
    named = [name for name in EXTRAS if re.search(rf"^(import|from) {name}\b", code, flags=re.MULTILINE)]
    return [name for name in named if importlib.util.find_spec(name) is None]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG_EXAMPLES)) for name in MODULES],
)
def test_docstring_examples(name):
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for found in doctest.DocTestFinder().find(importlib.import_module(name)):
        if not lacking(found.examples):
            runner.run(found)
    assert runner.failures == 0


def test_examples_that_need_what_is_not_installed_are_found(monkeypatch):
    parse = doctest.DocTestParser().get_examples
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())  # installed
    assert lacking(parse(">>> import numpy\n>>> from distributed import Client\n")) == []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert lacking(parse(">>> import numpy\n>>> from distributed import Client\n")) == ["distributed"]
    assert lacking(parse(">>> import numpy\n")) == []


def runs(name, thing):
    """Whether the docstring of a public name has an example that is run; one of data that must be fetched is not."""
    examples = doctest.DocTestParser().get_examples(thing.__doc__ or "")
    return name in FETCHED or any(not example.options.get(doctest.SKIP) for example in examples)


def test_public_names_have_an_example_that_runs():
    for name in msmtfl.__all__:
        assert runs(name, getattr(msmtfl, name)), name


@beside
def test_the_api_reference_lists_every_public_name_and_all_of_it_has_examples_that_run():
    names = listed()
    assert {f"msmtfl.{name}" for name in msmtfl.__all__} <= set(names)
    for name in names:
        assert runs(name, lookup(name)), name


@beside
def test_messages_of_errors_on_pages_stand_in_blocks_that_are_run():
    """So that the test below produces each of them."""
    blocks = extension("blocks")
    for page in [*PAGES, README]:
        rest = blocks.FENCE.sub("", page.read_text(encoding="utf-8"))
        assert not re.search(r"^\s*(\w+(Error|Warning)|msmtfl \w+): ", rest, flags=re.MULTILINE), page


LONG = (
    "README",
    "start",
    "which_model",
    "pipeline",
    "parameters",
    "paper",
    "how_sure",
)  # they compare many models


@beside
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (page.stem in LONG), id=page.stem) for page in [*PAGES, README]],
)
def test_code_of_pages_runs_and_prints_what_they_say(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = extension("blocks").run_page(page.read_text(encoding="utf-8"), page.name)
    assert not wrong, "\n".join(wrong)


@beside
@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_no_code_of_pages_is_left_out(page):
    """Blocks in Python, by whatever name, are among those that the test above runs."""
    text = page.read_text(encoding="utf-8")
    fenced = re.findall(r"^\s*(?:```|~~~)\s*\{?(py\w*|doctest)\b", text, flags=re.MULTILINE | re.IGNORECASE)
    run = [kind for _, kind, _ in extension("blocks").blocks(text) if kind in ("python", "pycon")]
    assert fenced == run


@beside
def test_the_first_example_of_the_readme_chooses_lam_and_says_what_it_prints():
    first, second, *_ = extension("blocks").blocks(README.read_text(encoding="utf-8"))
    assert first[1] == "python"
    assert "MSMTFLCV(" in first[2]
    assert second[1] == "output"


@beside
@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("```pycon\n>>> 1 + 1\n2\n```\n", False),
        ("```pycon\n>>> 1 + 1\n3\n```\n", True),
        ("```python\nx = 5\n```\n\n```pycon\n>>> x\n5\n```\n", False),
        ("```pycon\n>>> 3.4e-16\n1.2e-15\n```\n", False),
        ("```pycon\n>>> 3.4e-6\n1.2e-6\n```\n", True),
        pytest.param("```console\n$ msmtfl nonsense\n```\n", True, marks=pytest.mark.slow),
        ("```python\nprint(5)\n```\n\nprints\n\n```output\n5\n```\n", False),
        ("```python\nprint(5)\n```\n\nprints\n\n```output\n6\n```\n", True),
    ],
)
def test_a_page_that_says_something_else_is_found_out(text, wrong):
    assert bool(extension("blocks").run_page(text, "page")) == wrong


@beside
@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_functions_modules_and_tests_that_are_named_exist(page):
    text = page.read_text(encoding="utf-8")
    for file, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text):
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"
    for file in re.findall(r"`((?:tests|benchmarks|examples|docs)/[\w./]+\.\w+)`", text):
        assert (ROOT / file).exists(), file
    for name in re.findall(r"`(msmtfl(?:\.\w+)+)", text):
        if not hasattr(msmtfl, name.removeprefix("msmtfl.")) and name not in sys.modules:
            try:
                importlib.import_module(name)
            except ImportError:
                lookup(name)


@beside
def test_the_picture_of_the_layers_shows_the_way_of_a_fit():
    pytest.importorskip("sphinx")
    made = extension("made_pages")
    svg = made.layers_svg((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert svg.count('class="module way"') == len(made.WAY)


@pytest.mark.slow
@beside
def test_names_on_pages_lead_to_their_source():
    pytest.importorskip("sphinx")
    sources = extension("source_pages")
    assert sources.source_of("tests/whole/test_docs.py::test_versions_agree") == (
        "tests/whole/test_docs.py",
        "test_versions_agree",
    )
    assert sources.source_of("msmtfl.MSMTFL") == ("src/msmtfl/_estimators/msmtfl/fit.py", "MSMTFL")
    assert sources.source_of("msmtfl._kernels.active_set.solve_all") == (
        "src/msmtfl/_kernels/active_set.py",
        "solve_all",
    )
    assert sources.source_of("msmtfl.nothing") is None
    assert sources.source_of("numpy.linalg.norm") is None
    code = "import os\n\n\n@one\n@two\ndef f(): ...\n\n\nclass A:\n    def g(self): ...\n"
    assert sources.places(code) == {"f": 4, "A": 9}
    paper = (DOCS / "paper.md").read_text(encoding="utf-8")
    table = paper[: paper.index("## Fit the paper")]
    for name in re.findall(r"`(msmtfl\.[\w.]+|tests/[\w./:]+)`", table):
        file, place = sources.source_of(name)
        assert place in sources.places((ROOT / file).read_text(encoding="utf-8")), name


@beside
def test_links_and_loads_of_a_site_are_checked(tmp_path):
    sys.path.insert(0, str(DOCS))
    try:
        from check_site import problems
    finally:
        sys.path.remove(str(DOCS))
    (tmp_path / "a.html").write_text('<a id="x" href="b.html#y">b</a><a href="https://example.org">out</a>')
    (tmp_path / "b.html").write_text('<p id="y"></p><a href="a.html#z">a</a><img src="none.png">')
    (tmp_path / "c.html").write_text('<script src="https://example.org/x.js"></script><a href="nowhere.html">n</a>')
    assert problems(tmp_path) == [
        "b.html: none.png does not exist",
        "b.html: a.html#z has no such place",
        "c.html: loads https://example.org/x.js",
        "c.html: nowhere.html does not exist",
    ]


@beside
def test_a_site_of_several_versions_lists_them_newest_first(tmp_path):
    sys.path.insert(0, str(DOCS))
    try:
        from versions import publish
    finally:
        sys.path.remove(str(DOCS))
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "index.html").write_text("a page")
    for version in ("0.9.0", "0.10.0", "0.2.1"):
        publish(tmp_path / "built", tmp_path / "site", version)
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'href="([^/]+)/index.html"', page) == ["0.10.0", "0.9.0", "0.2.1"]
    assert (tmp_path / "site" / "0.9.0" / "index.html").read_text() == "a page"


@beside
def test_the_version_stands_in_one_place():
    assert (ROOT / "src" / "msmtfl" / "VERSION").read_text(encoding="utf-8").strip() == msmtfl.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" not in project
    assert project["dynamic"] == ["version"]
    assert "version: files('src/msmtfl/VERSION')" in (ROOT / "meson.build").read_text(encoding="utf-8")
    assert "\nversion:" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@beside
def test_examples_import_what_there_is():
    """Without running them, which the documentation does."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "msmtfl":
                module = importlib.import_module(node.module)
                lacking = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                assert not lacking, f"{path.name}: {node.module} has no {lacking}"


@beside
def test_modules_whose_text_is_shown_exist():
    for page in PAGES:
        for name in re.findall(r"\{module-text\} (\S+)", page.read_text(encoding="utf-8")):
            assert importlib.import_module(name).__doc__, name


READ = [*(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py"), ROOT / "README.md"]


@beside
@pytest.mark.parametrize("path", READ, ids=lambda path: path.name)
def test_rows_are_rows_of_the_data_and_colours_those_of_the_pictures(path):
    """The coefficients of a feature are no row where people read; blue and orange are signs, as in reports and plots."""
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(?i)\brow norms?\b|\brows alone\b|\b(free|freed|shared|capped|sparse) rows?\b", text)
    assert not re.search(r"RdBu|coolwarm|bwr|seismic", text)


@beside
def test_names_that_other_projects_document_exist_and_are_not_ours():
    elsewhere = extension("elsewhere")
    names = [name for _, _, names in elsewhere.ELSEWHERE.values() for name in names]
    assert all(callable(lookup(name)) for name in names)
    short = [name.rpartition(".")[2] for name in names]
    assert len(set(short)) == len(short)
    assert not set(short) & set(msmtfl.__all__)
    assert elsewhere.page_of("LassoCV") == elsewhere.page_of("sklearn.linear_model.LassoCV")
    assert elsewhere.page_of("MSMTFL") is None


@beside
def test_inventories_of_other_projects_are_read_by_sphinx(tmp_path):
    pytest.importorskip("sphinx")
    from sphinx.util.inventory import InventoryFile

    for address, file in extension("elsewhere").inventories(tmp_path).values():
        found = InventoryFile.loads(Path(file).read_bytes(), uri=address)
        for name, item in found.data["py:class"].items():
            assert item.uri.startswith("https://")
            assert item.uri.endswith(f"{name}.html#{name}")
