"""Records of families: there is one for every estimator, they say what is true of fits, and everything else reads them."""

import ast
import inspect
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import msmtfl
from msmtfl import (
    L12MTL,
    MSMTFL,
    DirtyMTL,
    LassoMTL,
    LassoMTLCV,
    MSMTFLClassifier,
    MultiTaskAuto,
    SharedMTL,
    compare_models,
    stability_selection,
)
from msmtfl._estimators import families
from msmtfl._estimators.base import MultiTaskModel
from msmtfl._estimators.baselines.logistic import PooledLogisticCV
from msmtfl._estimators.baselines.ridge import PooledRidgeCV
from msmtfl._estimators.cross_fitted import lasso_points
from msmtfl._estimators.families import (
    Strength,
    Variant,
    compared_variants,
    family_of,
    has_family,
    known_families,
    named_variants,
)
from msmtfl._estimators.words.formula_texts import of_rows, penalised
from msmtfl.cli import app
from msmtfl.cli.describing import describe, facts
from msmtfl.formulas import formula
from msmtfl.model_files import load_model, save_model
from msmtfl.plots.views import lam_path, search_grid, stage_norms
from msmtfl.report import report_html
from msmtfl.report.known.facts import ModelFacts
from msmtfl.report.model_tables import values_table
from msmtfl.sharing import sharing_map

SOURCE = Path(msmtfl.__file__).parent
FAMILIES = known_families()
RECORDS = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
STAGED = pytest.mark.parametrize("family", [one for one in FAMILIES if one.staged], ids=lambda family: family.name)
REGRESSIONS = pytest.mark.parametrize(
    "family", [one for one in FAMILIES if one.staged and not one.classifies], ids=lambda family: family.name
)


def data(seed=0, m=3, n=40, d=6):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)), np.repeat([f"t{i}" for i in range(m)], n)
    return X, 2 * X[:, 0] - X[:, 3] + np.where(task == "t2", X[:, 5], 0) + rng.standard_normal(m * n), task


def fitted(family, cls, seed=0, **options):
    """A model of one of the classes of a family; its data."""
    X, y, task = data(seed)
    y = np.where(y > 0, "ill", "well") if family.classifies else y
    known = cls._get_param_names()
    few = {name: value for name, value in {"lams": 5, "cv": 3}.items() if name in known}
    return cls(**few, **options).fit(X, y, task=task), (X, y, task)


# ------------------------------------------------------------------ every estimator has one


def subclasses(cls):
    for one in cls.__subclasses__():
        yield one
        yield from subclasses(one)


def estimators():
    """The classes of the package that can be made: those with parameters of their own."""
    known = {one for one in subclasses(MultiTaskModel) if one.__module__.startswith("msmtfl._estimators")}
    return sorted(
        (one for one in known if "__init__" in vars(one) and not one.__name__.startswith("_")), key=lambda c: c.__name__
    )


@pytest.mark.parametrize("cls", estimators(), ids=lambda cls: cls.__name__)
def test_every_estimator_is_in_one_record(cls):
    assert [cls in family.classes for family in FAMILIES].count(True) == 1
    assert family_of(cls) is family_of(cls()) is next(one for one in FAMILIES if cls in one.classes)


def test_every_public_estimator_is_among_them():
    public = [getattr(msmtfl, name) for name in msmtfl.__all__ if inspect.isclass(getattr(msmtfl, name))]
    models = {cls for cls in public if issubclass(cls, MultiTaskModel) and not hasattr(cls(), "models")}
    assert len(models) == 30
    assert models <= set(estimators())


def test_the_family_of_subclasses_and_of_the_model_chosen():
    class Mine(L12MTL):
        pass

    X, y, task = data()
    auto = MultiTaskAuto(["ridge per task", "pooled ridge"], cv=3, inner_cv=3).fit(X, y, task=task)
    assert family_of(Mine()) is family_of(L12MTL)
    assert family_of(auto) is family_of(type(auto.best_estimator_))
    assert family_of(MSMTFLClassifier).classifies
    assert not has_family(MultiTaskAuto())
    with pytest.raises(TypeError, match="MultiTaskAuto belongs to no family"):
        family_of(MultiTaskAuto())


def test_names_are_those_of_the_command_and_of_comparisons():
    baselines = ["ridge per task", "pooled lasso", "pooled ridge"]
    first, pooling = ["bi-level", "msmtfl", "lasso", "l12", "dirty", "shared"], "partial-pooling"
    levels = ["nested", "nested-ridge"]
    named = ["pretrained", "robust", "rmtfl", *levels]
    assert list(named_variants()) == [
        *first,
        pooling,
        *named,
        *baselines,
        "classifier",
    ]
    first = ["lasso", "l12", "dirty", "msmtfl", "bi-level", "shared"]
    assert list(compared_variants(False)) == [*first, *baselines, pooling]
    assert list(compared_variants(True)) == [*first, *baselines, pooling]
    assert set(named_variants(classify=True)) == {"classifier", *first, *baselines, pooling, *levels}
    assert list(compared_variants(True, named=True)) == [*first, *baselines, pooling, *levels]
    for classify in (False, True):
        assert list(compared_variants(classify, levels=True)) == [*first, *baselines, pooling, *levels]
    assert list(compared_variants(False, named=True)) == [*first, *baselines, pooling, *named]


# ------------------------------------------------------------------ what a record says is true


@RECORDS
def test_attributes_are_those_of_fits(family):
    for cls in family.classes:
        model, _ = fitted(family, cls)
        assert [name for name in family.attributes(cls) if not hasattr(model, name)] == []
        held = [one for one in vars(model) if one.startswith(("lam", "theta")) and one.endswith("_")]
        assert set(held) - {"lam_max_"} <= set(family.attributes(cls))  # none is forgotten
        parts = [one for one in vars(model) if one.startswith("coef_") and one.endswith("_") and one != "coef_"]
        assert set(parts) == {part.attribute for part in family.parts}
        for part in family.parts:
            assert getattr(model, part.attribute).ndim == (1 if part.common else 2)


@STAGED
def test_strengths_are_parameters(family):
    names = {one.name for one in family.strengths}
    assert names <= set(family.fit._get_param_names())
    assert {name for group in family.by_default for name in group} <= names
    assert family.main in names
    assert all(set(family.takes(variant)) <= names for variant in family.variants)


@RECORDS
def test_options_of_variants_are_parameters_of_the_search(family):
    for variant in family.variants:
        assert set(variant.options) <= set(family.search._get_param_names())


@REGRESSIONS
def test_defaults_are_taken_from_the_data(family):
    """Twice the target, twice lam (and theta): what is left out is not a fixed number. The strength of a ridge is doubled by
    features that are larger by the root of 2."""
    X, y, task = data()
    if family.selects(None):
        once, twice = (family.fit().fit(X, scale * y, task=task) for scale in (1, 2))
    else:
        y = y + np.where(task == "t0", X[:, 1], 0.0)  # tasks differ
        once, twice = (family.fit().fit(scale * X, y, task=task) for scale in (1, np.sqrt(2)))
    left_out = {name for group in family.by_default for name in group}
    for name in (one.name for one in family.strengths if not one.name.endswith("_entry")):
        doubled = getattr(twice, f"{name}_") == pytest.approx(2 * getattr(once, f"{name}_"), rel=1e-5)
        assert (doubled and getattr(once, f"{name}_") > 0) == (name in left_out) or np.isinf(getattr(once, f"{name}_"))


@RECORDS
def test_what_the_classes_take_is_read_from_them(family):
    X, y, task = data()
    model = (family.fit or family.search)()
    assert family.takes_losses == hasattr(family.search(), "loss")
    assert family.takes_batches == hasattr(model, "partial_fit")
    assert family.takes_moments == hasattr(model, "fit_moments")
    if family.takes_batches:
        first, rest = np.arange(len(y)) < 100, np.arange(len(y)) >= 100
        for some in (first, rest):
            model.partial_fit(X[some], y[some], task=task[some])
        np.testing.assert_allclose(model.coef_, clone(model).fit(X, y, task=task).coef_, atol=1e-8)


@RECORDS
def test_what_is_selected(family):
    """Every coefficient, a feature in all tasks or in none, or entries: some feature is used by some tasks only."""
    options = {"penalty": "l1"} if family.search is PooledLogisticCV else {}
    for cls in family.classes:
        model, _ = fitted(family, cls, **options)
        used = np.atleast_2d(model.coef_) != 0
        partly = used.any(axis=0) & ~used.all(axis=0)
        assert family.selects(model) in ("entries", "rows", "")
        if family.selects(model) == "":
            assert used.all()
        elif family.selects(model) == "rows":
            assert not partly.any()
            assert not used.all()


def test_entries_are_selected_one_by_one():
    X, y, task = data()
    lams = {MSMTFL: {"lam": 0.3}, LassoMTL: {"lam": 0.3}, DirtyMTL: {"lam_s": 0.3, "lam_b": 0.8}}
    for cls, given in (lams | {SharedMTL: {"lam_common": 0.5, "lam_deviation": 0.3}}).items():
        used = cls(**given).fit(X, y, task=task).coef_ != 0
        assert family_of(cls).selects(cls()) == "entries"
        assert (used.any(axis=0) & ~used.all(axis=0)).any()


def test_a_logistic_regression_selects_with_the_l1_penalty_only():
    assert family_of(PooledLogisticCV).selects(PooledLogisticCV("l1")) == "rows"
    assert family_of(PooledLogisticCV).selects(PooledLogisticCV("l2")) == ""
    X, y, task = data()
    with pytest.raises(TypeError, match="PooledRidgeCV sets no coefficient to zero"):
        sharing_map(PooledRidgeCV().fit(X, y, task=task))


@REGRESSIONS
def test_coefficients_on_all_rows_are_those_of_the_fit(family):
    for cls in family.classes:
        model, (X, y, task) = fitted(family, cls)
        ticks = []
        W = family.coef_on(model, model._make_problem(X, y, task, None), tick=ticks.append, budget=1e8)
        np.testing.assert_allclose(W, model.coef_, atol=1e-7)
        assert sum(ticks) == pytest.approx(1.0)


@STAGED
def test_the_words_of_a_grid_fit_it(family):
    model, _ = fitted(family, family.search)
    grid, P = search_grid(model), len(model.cv_results_["mean_test_score"])
    K, L = grid.lams.shape
    assert (K * L, len(grid.levels), family.grid.width(model)) == (P, L, L)
    assert np.array_equal(grid.lams[model.best_point_], grid.lams.ravel()[model.best_index_])
    assert (np.diff(grid.lams, axis=0) < 0).all()  # falls along a path
    path = lam_path(model.surface_, 0)
    solved = np.count_nonzero(model.surface_.reached[:, 0])  # a search may end before the grid does
    assert (path.strength, path.lams.shape) == (family.grid.symbol, (solved,))
    for norms in stage_norms(model).values():
        assert norms.shape == (6,)


@REGRESSIONS
def test_points_that_are_lassos_give_lassos(family):
    """And some of the others do not."""
    model, (X, y, task) = fitted(family, family.search)
    found, results, others = set(lasso_points(model).tolist()), model.cv_results_, []
    if not family.selects(model) or not {"lam", "lam_b"} & set(results):  # ridges, and norms of whole tasks
        assert not found
        return
    for p in range(len(results["lam_b" if "lam_b" in results else "lam"])):
        k, l = divmod(p, family.grid.width(model))
        at = {name: results[name][p] for name in results if results[name].dtype == float}
        lams = (at.get("lam_s"), at.get("lam_deviation"), at["lam"] + at.get("lam_entry", 0.0) if "lam" in at else None)
        lam = next(value for value in lams if value is not None)
        W = model.surface_.coef(k, l)
        if np.isfinite(lam) and W.any():
            same = np.allclose(W, LassoMTL(lam).fit(X, y, task=task).coef_, atol=1e-6)
            assert same or p not in found
            others += [] if p in found else [same]
    assert bool(found) == (family.selects(model) != "rows")
    assert (not all(others)) == family.shares


@STAGED
def test_values_in_use(family):
    model, _ = fitted(family, family.fit)
    values, used = family.values(model), family.values_in_use(model)
    assert {one.name: value for one, value in values.items()} == {
        one.name: getattr(model, one.attribute) for one in family.strengths
    }
    entries = {"lam_entry", "theta_entry", "k_common"}  # 0 by default
    without = {one.name for one, value in values.items() if one.name in entries or (one.optional and value == 0.0)}
    assert {one.name for one in values} - {one.name for one in used} == without


def test_a_cap_on_nothing_is_not_shown():
    X, y, task = data()
    model = MSMTFL(0.0, 1.5, lam_entry=0.2, theta_entry=0.7).fit(X, y, task=task)
    used = {one.name: value for one, value in family_of(model).values_in_use(model).items()}
    assert used == {"lam": 0.0, "lam_entry": 0.2, "theta_entry": 0.7}
    assert "lam = 0, lam_entry = 0.2, theta_entry = 0.7" in describe(model)
    assert facts(model)["theta"] == 1.5  # a program is told all
    shown = [cell.text for cell in values_table(ModelFacts(model)).columns[0].cells]
    assert shown[:4] == ["λ used", "λₑ used", "θₑ used", "λ from which on all is 0"]


@STAGED
def test_files_refuse_strengths_that_cannot_be_infinite(family, tmp_path):
    path = tmp_path / "model.json"
    model, _ = fitted(family, family.fit)
    save_model(model, path)
    document = json.loads(path.read_text(encoding="utf-8"))
    del document["checksum"]
    for one in family.strengths:
        document["fitted"][one.attribute] = {"float": "inf"}
        path.write_text(json.dumps(document), encoding="utf-8")
        with (
            pytest.warns(UserWarning, match="no checksum")
            if one.may_be_inf
            else pytest.raises(ValueError, match=f"{one.attribute} is not finite")
        ):
            load_model(path)
        document["fitted"][one.attribute] = 1.0


# ------------------------------------------------------------------ a family of the user's own


class ToyMTL(LassoMTL):
    """Lassos under another name."""


class ToyMTLCV(LassoMTLCV):
    """With search."""


@pytest.fixture
def toys(monkeypatch):
    """The families and one more, which no other file knows."""
    toy = replace(
        family_of(LassoMTL),
        title="toys for all tasks",
        fit=ToyMTL,
        search=ToyMTLCV,
        variants=(Variant("toy", "for the test", place=9),),
        formula=penalised(of_rows("toy(wʲ)")),
        strengths=(Strength("lam", "τ"),),
        chosen="τ",
    )
    name = f"record_of_toys_{id(toy)}"
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(FAMILIES=(toy,)))
    monkeypatch.setattr(families, "LISTED", (*families.LISTED, name))
    return toy


def test_without_its_record_a_toy_is_what_it_derives_from(tmp_path):
    X, y, task = data()
    model = ToyMTL(0.1).fit(X, y, task=task)
    assert family_of(model) is family_of(LassoMTL)
    assert "toy" not in formula(model)
    with pytest.raises(TypeError, match=r"save_model stores MSMTFL, .*got ToyMTL"):
        save_model(model, tmp_path / "toy.msmtfl")


@pytest.mark.parametrize("name", ["toy.msmtfl", "toy.json"])
def test_files_hold_toys(toys, tmp_path, name):
    for cls in toys.classes:
        model, (X, _, task) = fitted(toys, cls)
        save_model(model, tmp_path / name)
        again = load_model(tmp_path / name)
        assert type(again) is cls
        assert np.array_equal(again.predict(X, task=task), model.predict(X, task=task))


def test_toys_are_compared_and_chosen(toys):
    X, y, task = data()
    found = compare_models(X, y, task=task, models=["lasso", "toy"], cv=3, inner_cv=3)
    assert found.models == ["lasso", "toy"]
    assert found.error[1] == pytest.approx(found.error[0])
    auto = MultiTaskAuto(["toy", "pooled ridge"], cv=3, inner_cv=3).fit(X, y, task=task)
    assert auto.chosen_ == "toy"
    assert family_of(auto) is toys


@pytest.mark.slow
def test_toys_in_words_and_pictures(toys):
    model, _ = fitted(toys, ToyMTLCV)
    page = report_html(model)
    assert "toys for all tasks" in page
    assert "chose τ from 5 candidates" in page
    assert "τ = " in page
    assert "toy(wʲ)" in formula(model)
    assert "from msmtfl import ToyMTL\n" in page
    assert search_grid(model).levels == ("∞ (lasso)",)
    assert describe(model).startswith("ToyMTLCV: 3 tasks")
    assert facts(model)["lam"] == model.lam_


def test_toys_are_resampled(toys):
    X, y, task = data()
    toy, lasso = (stability_selection(cls(0.2), X, y, task=task, n_pairs=3) for cls in (ToyMTL, LassoMTL))
    assert np.array_equal(toy.frequency, lasso.frequency)
    assert stability_selection(ToyMTL(), X, y, task=task, n_pairs=1).of_these_rows.startswith("lam by default")


def test_the_command_fits_toys(toys, tmp_path):
    X, y, task = data()
    lines = [
        "a,b,c,d,e,f,town,y",
        *(f"{','.join(map(repr, x.tolist()))},{t},{v!r}" for x, t, v in zip(X, task, y.tolist(), strict=True)),
    ]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    common = [
        "fit",
        str(tmp_path / "table.csv"),
        "-y",
        "y",
        "-t",
        "town",
        "--model",
        "toy",
        "-o",
        str(tmp_path / "m.json"),
    ]
    for more, cls in (([], ToyMTLCV), (["--lam", "0.1"], ToyMTL)):
        result = CliRunner().invoke(app, [*common, *more])
        assert result.exit_code == 0, result.output
        assert type(load_model(tmp_path / "m.json")) is cls
    result = CliRunner().invoke(app, [*common, "--theta", "1"])
    assert "--theta: not a parameter of toy, which has lam" in " ".join(result.stderr.split())


# ------------------------------------------------------------------ nobody else knows classes

OWN = ("_estimators", "paper")  # the families themselves, and the paper, which speaks of its models by name
PUBLIC = ("__init__.py", "baselines.py")  # which say where names are found
# which use a class, but do not tell models apart
TAKES_ONE = ("demo.py", "dask/models.py", "dask/client.py", "dask/on_cluster.py")
ABOVE = (
    "cli",
    "report",
    "dask",
    "compare",
    "plots",
    "model_files",
)  # rooms that read the records, and files beside them


def class_names():
    return {cls.__name__ for family in FAMILIES for cls in family.classes}


def names_in(node):
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]


def lines_that_test(tree, names):
    """Lines that tell models apart by their classes, or keep a table of these."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            suspects = names_in(node.args[1])
        elif isinstance(node, ast.Compare):
            suspects = names_in(node)
        elif isinstance(node, (ast.Dict, ast.Tuple, ast.List, ast.Set)):
            parts = [
                *(node.keys if isinstance(node, ast.Dict) else []),
                *getattr(node, "elts", getattr(node, "values", [])),
            ]
            suspects = [name for part in parts if part is not None for name in names_in(part)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            suspects = [node.value]
        else:
            continue
        if set(suspects) & names:
            yield node.lineno


def imports_of_classes(tree, names):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and {alias.name for alias in node.names} & names:
            yield node.lineno


def offences(source):
    """{file: lines} that know families and should not."""
    names, out = class_names(), {}
    for path in sorted(source.rglob("*.py")):
        place = path.relative_to(source)
        if place.parts[0] in OWN or (place.as_posix() in PUBLIC):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        lines = list(lines_that_test(tree, names))
        if place.as_posix() not in TAKES_ONE:
            lines += imports_of_classes(tree, names)
        if lines:
            out[place.as_posix()] = sorted(set(lines))
    return out


@pytest.mark.slow
def test_no_other_file_knows_the_classes():
    assert offences(SOURCE) == {}


@pytest.mark.slow
def test_no_other_file_knows_attributes_of_one_family():
    """A model with `lam_b_` is a Dirty one: asking for that is asking for the class."""
    every = [  # the classifiers of families that couple tasks have what their regressions have
        [*(one.attribute for one in family.strengths), *(one.attribute for one in family.parts)]
        for family in FAMILIES
        if not family.classifies or family.fit is MSMTFLClassifier
    ]
    counts = {name: sum(name in of_family for of_family in every) for names in every for name in names}
    special = {name for name, count in counts.items() if count == 1}
    assert {"lam_b_", "lam_s_", "alpha_"} <= special
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if place.parts[0] in ABOVE or (len(place.parts) == 1):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            held = {
                n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
            } & special
            held |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)} & special
            if held:
                found[place.as_posix()] = held
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(model, (L12MTL, L12MTLCV))",
        "type(model) is LassoMTL",
        "SINGLE = {MSMTFLCV: 1}",
        "KNOWN_AS = {'MSMTFL': 1}",
        "kind != 'LassoMTL'",
        "both = (MSMTFL, None)",
    ],
)
def test_a_test_for_a_class_would_be_found(text):
    assert set(lines_that_test(ast.parse(text), class_names())) == {1}
