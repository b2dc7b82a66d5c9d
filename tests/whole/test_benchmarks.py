"""The benchmarks: their gap function holds against 50-digit arithmetic, and every script starts."""

import csv
import itertools
import os
import runpy
import subprocess
import sys
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="no benchmarks beside the tests")

# ------------------------------------------------------------------ 50 digits


@pytest.fixture
def gap(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "runner"))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "studies"))
    import gap

    return gap


@pytest.fixture(autouse=True)
def fifty_digits():
    with localcontext() as context:
        context.prec = 50
        yield


def exact(array):
    """Nested lists of decimals, each equal to its float."""
    return [exact(part) for part in array] if np.ndim(array) else Decimal(float(array))


def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), Decimal(0))


def residual(X, y, w):
    return [value - dot(row, w) for row, value in zip(X, y, strict=True)]


def without(columns, r):
    """r less its projection on the columns, by Gram and Schmidt."""
    basis = []
    for column in columns:
        rest = column
        for q in basis:
            step = dot(q, rest) / dot(q, q)
            rest = [a - step * b for a, b in zip(rest, q, strict=True)]
        if dot(rest, rest) > Decimal("1e-60") * max(dot(column, column), Decimal("1e-300")):
            basis.append(rest)
    for q in basis:
        step = dot(q, r) / dot(q, q)
        r = [a - step * b for a, b in zip(r, q, strict=True)]
    return r


def best_dual(py, pp, limits):
    """max of t py - t^2 pp / 2 over 0 <= t <= all limits."""
    t = min([max(py, Decimal(0)) / pp if pp else Decimal(0), *limits])
    return t * py - t * t * pp / 2


def exact_lasso_gap(X, y, w, a):
    X, y, w = exact(X), exact(y), exact(w)
    columns = list(zip(*X, strict=True))
    r = residual(X, y, w)
    p = without([c for c, a_j in zip(columns, a, strict=True) if a_j == 0], r)
    bound = [(c, exact(a_j), w_j) for c, a_j, w_j in zip(columns, a, w, strict=True) if 0 < a_j < np.inf]
    primal = dot(r, r) / 2 + sum((a_j * abs(w_j) for _, a_j, w_j in bound), Decimal(0))
    limits = [a_j / abs(dot(c, p)) for c, a_j, _ in bound if dot(c, p)]
    return (primal - best_dual(dot(p, y), dot(p, p), limits)) / (dot(y, y) / 2)


def exact_rows_gap(Xs, ys, W, lam, ratio):
    m, lam = len(ys), exact(lam)
    Xs, ys, W = ([exact(part) for part in parts] for parts in (Xs, ys, W))
    s = [Decimal(2) / (m * len(y)) for y in ys]
    r = [residual(X, y, w) for X, y, w in zip(Xs, ys, W, strict=True)]
    G = [[s_i * dot(c, r_i) for c in zip(*X, strict=True)] for s_i, X, r_i in zip(s, Xs, r, strict=True)]
    rr, ry, yy = (
        sum(s_i * dot(a, b) for s_i, a, b in zip(s, u, v, strict=True)) for u, v in ((r, r), (r, ys), (ys, ys))
    )
    columns = [[abs(w) for w in row] for row in zip(*W, strict=True)]
    slopes = [[abs(g) for g in row] for row in zip(*G, strict=True)]
    if ratio is None:
        penalty = lam * sum(dot(row, row).sqrt() for row in columns)
        sizes = [dot(row, row).sqrt() for row in slopes]
    else:
        share = exact(ratio)
        penalty = lam * sum(  # the level of the shared part is 0 or one of the entries
            min(t + share * sum(max(v - t, Decimal(0)) for v in row) for t in [Decimal(0), *row]) for row in columns
        )
        sizes = [max(sum(row), max(row) / share) for row in slopes]
    return (rr / 2 + penalty - best_dual(ry, rr, [lam / size for size in sizes if size])) / (yy / 2)


def exact_optimum(X, y, a):
    """The least value of the lasso, found by trying all sign patterns; and its minimiser."""
    X, y, a = exact(X), exact(y), exact(a)
    columns = list(zip(*X, strict=True))
    for signs in itertools.product(*[(1, 0, -1) if a_j else (2,) for a_j in a]):  # 2: free
        used = [j for j, sign in enumerate(signs) if sign]
        right = [dot(columns[j], y) - (a[j] * signs[j]) for j in used]
        w = [Decimal(0)] * len(a)
        for j, value in zip(
            used, solved([[dot(columns[j], columns[k]) for k in used] for j in used], right), strict=True
        ):
            w[j] = value
        r = residual(X, y, w)
        fits = all(abs(dot(c, r)) <= a_j + Decimal("1e-40") for c, a_j in zip(columns, a, strict=True))
        if fits and all(sign == 2 or w_j * sign >= 0 for w_j, sign in zip(w, signs, strict=True)):
            return dot(r, r) / 2 + dot(a, [abs(w_j) for w_j in w]), w
    raise AssertionError("no sign pattern is optimal")


def solved(A, b):
    """Gaussian elimination."""
    rows = [[*row, value] for row, value in zip(A, b, strict=True)]
    for k in range(len(rows)):
        pivot = max(range(k, len(rows)), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(len(rows)):
            if i != k:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [u - factor * v for u, v in zip(rows[i], rows[k], strict=True)]
    return [row[-1] / row[k] for k, row in enumerate(rows)]


def draw(seed, n=6, d=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return rng, X, X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n)


WEIGHTS = {
    "all penalised": [0.5, 1.0, 2.0, 0.7],
    "two free": [0.0, 1.0, 0.0, 0.7],
    "all free": [0.0, 0.0, 0.0, 0.0],
    "one forbidden": [0.5, np.inf, 0.0, 0.7],
}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("seed", range(3))
def test_lasso_gap_agrees_with_50_digits(gap, weights, seed):
    rng, X, y = draw(seed)
    a = np.array(weights)
    W = rng.standard_normal((3, 4)) * [[0.0], [1e-3], [1.0]]
    W[:, np.isinf(a)] = 0.0
    found = gap.lasso_gaps(X, y, W, np.tile(a, (3, 1)))
    assert found == pytest.approx([float(exact_lasso_gap(X, y, w, a)) for w in W], rel=1e-12, abs=1e-14)


def test_lasso_gap_with_dependent_free_columns(gap):
    rng, X, y = draw(3)
    X[:, 2] = -2.0 * X[:, 0]
    w, a = rng.standard_normal(4), np.array([0.0, 0.4, 0.0, 0.4])
    assert gap.lasso_gaps(X, y, w[None], a[None])[0] == pytest.approx(float(exact_lasso_gap(X, y, w, a)), rel=1e-12)


def test_a_coefficient_with_infinite_weight_has_an_infinite_gap(gap):
    _, X, y = draw(4)
    assert gap.lasso_gaps(X, y, np.ones((1, 4)), np.array([[1.0, np.inf, 1.0, 1.0]])) == [np.inf]


@pytest.mark.parametrize("weights", [[0.5, 1.0, 2.0, 0.7], [0.0, 1.0, 0.0, 0.7]], ids=["all penalised", "two free"])
def test_lasso_gap_bounds_the_distance_to_the_optimum_and_vanishes_there(gap, weights):
    rng, X, y = draw(5)
    a = np.array(weights)
    least, optimum = exact_optimum(X, y, a)
    at_optimum = np.array([float(w) for w in optimum])
    W = at_optimum + rng.standard_normal((5, 4)) * 10.0 ** -np.arange(0, 10, 2)[:, None]
    bounds = gap.lasso_gaps(X, y, np.vstack([at_optimum, W]), np.tile(a, (6, 1)))
    assert abs(bounds[0]) < 1e-14
    for w, bound in zip(exact(W), bounds[1:], strict=True):
        r = residual(exact(X), exact(y), w)
        above = dot(r, r) / 2 + dot(exact(a), [abs(v) for v in w]) - least
        assert 0 < float(above / (dot(exact(y), exact(y)) / 2)) <= bound + 1e-15


@pytest.mark.parametrize("ratio", [None, 0.5, 0.4])
@pytest.mark.parametrize("seed", range(3))
def test_gap_of_coupled_rows_agrees_with_50_digits(gap, ratio, seed):
    rng, *_ = draw(seed)
    Xs, ys = [rng.standard_normal((n, 3)) for n in (4, 5, 6)], [rng.standard_normal(n) for n in (4, 5, 6)]
    W = rng.standard_normal((3, 3)) * (rng.random((3, 3)) < 0.7)
    expected = float(exact_rows_gap(Xs, ys, W, 0.1, ratio))
    assert gap.rows_gap(Xs, ys, W, 0.1, ratio) == pytest.approx(expected, rel=1e-12)


# ------------------------------------------------------------------ every script

SCRIPTS = sorted(file.name for file in BENCHMARKS.glob("*/*.py") if "__main__" in file.read_text(encoding="utf-8"))
SLOW = pytest.mark.slow
# Of every script: its smallest size, something that it then prints, and what it cannot do without. FOLDER is a new one.
SMALLEST = [
    pytest.param("groups.py", "--problems 0 --sets 1", "orthonormal", "", marks=SLOW),
    pytest.param("groups.py", "--problems 1 --sets 0 --only dirty", "| 1 of 1 |", "cvxpy", marks=SLOW),
    pytest.param("categories.py", "--rows 400 --levels 40 --columns 5 --tasks 2", "variables used", ""),
    pytest.param("chosen_points.py", "--data-sets 1 --searches LassoMTLCV --out FOLDER/rows", "| LassoMTLCV | 1 |", ""),
    pytest.param("cluster.py", "--features 60 --tasks 2", "scores differ by", "distributed", marks=SLOW),
    pytest.param("cv_defaults.py", "--splits 1 --only m=20", "| synthetic m=20", ""),
    pytest.param(
        "early_ends.py", "--data-sets 1 --searches LassoMTLCV --out FOLDER/rows", "| LassoMTLCV | 1 | 0 |", ""
    ),
    pytest.param("families.py", "synthetic --seeds 1 --models lasso --out FOLDER", "| lasso | 3 |", ""),
    pytest.param("families.py", "real --splits 1 --only school --models lasso --out FOLDER", "| lasso | **", ""),
    pytest.param("logistic_paths.py", "--problems small --lams 5 --packages msmtfl", "small: m=2 n=40 d=6", ""),
    pytest.param("costs.py", "--quick", "| fit, LassoMTL | split_intervals |", "", marks=SLOW),
    pytest.param("new_tasks.py", "--only levels --tasks 2", "levels         2 ", ""),
    pytest.param("robust.py", "--seeds 1", "`RobustMTL()`", "", marks=SLOW),
    pytest.param("nested.py", "--seeds 1 --only sparse", "`NestedMTLCV()`", "", marks=SLOW),
    pytest.param("pretrained.py", "--seeds 1", "pooled lasso ", "", marks=SLOW),
    pytest.param(
        "jobs.py",
        "--tables school --jobs LassoCV LassoMTLCV --threads 1 --rounds 1 --out FOLDER/jobs.json",
        "| LassoMTLCV | **",
        "",
        marks=SLOW,
    ),
    pytest.param(
        "class_families.py", "--splits 2 --tasks 2 --lams 3 --only landmine", "the best line: ", "", marks=SLOW
    ),
    pytest.param(
        "choosing_rules.py",
        "--data-sets 1 --lams 3 --cv 3 --out FOLDER/rows.jsonl",
        "| null | 1 | features |",
        "",
        marks=SLOW,
    ),
    pytest.param("landmine.py", "--seeds 2 --tasks 2 --only sparse", "MSMTFLClassifierCV", "", marks=SLOW),
    pytest.param("loss_searches.py", "--tasks 2 --rows 60 --lams 4 --only landmine", "| logistic |", ""),
    pytest.param(
        "parity.py",
        "--count 2 --only lasso shared partial-pooling peers",
        "partial-pooling  logistic",
        "cvxpy",
        marks=SLOW,
    ),
    pytest.param("bounds.py", "--problems 2 --only l12 pooling", "| pooling | 2 | 2 |", "cvxpy", marks=SLOW),
    pytest.param("column_units.py", "--only school --folds 2", "school   ", ""),
    pytest.param("costs.py", "--quick --repeats 1", "| fit, LassoMTLCV | split_intervals |", "", marks=SLOW),
    pytest.param("costs.py", "--paths --quick --repeats 1", "| LassoMTL | ridge, at equal support |", "", marks=SLOW),
    pytest.param("import_time.py", "--repeats 1", "| `from msmtfl import MSMTFLCV` |", "", marks=SLOW),
    pytest.param("null_lam.py", "--smallest", "| 3 x 100 x 40 |", ""),
    pytest.param(
        "prediction_intervals.py",
        "synthetic --model LassoMTLCV --lams 5 --reps 2 --new 20",
        "LassoMTLCV, 2 data sets",
        "",
    ),
    pytest.param(
        "prediction_intervals.py",
        "new-ways --reps 1 --levels 0.8",
        "regions: NestedMTLCV(kind='ridge'): level 0.80: mean ",
        "",
        marks=SLOW,
    ),
    pytest.param(
        "prediction_intervals.py",
        "real --data school --splits 1 --lams 5 --levels 0.9",
        "school: 3 tasks, 1 splits",
        "",
    ),
    pytest.param("interrupts.py", "--only threads --times 1", "| threads | 1 |", "", marks=[SLOW, pytest.mark.timed]),
    pytest.param("intercepts.py", "--smallest", "| 2 to 8 | 0 | inf |", ""),
    pytest.param("registers.py", "--repeats 1", "| surface of Isolet", "", marks=SLOW),
    pytest.param(
        "choosing_families.py",
        "--data-sets 1 --families lasso msmtfl --lams 6 --cv 3 --out FOLDER/rows.jsonl",
        "| null | 1 | nested |",
        "",
    ),
    pytest.param("same_answers.py", "FOLDER/answers.npz --quick", "10 answers written", ""),
    pytest.param("sharing.py", "--quick --only school", "seconds per fit:", "", marks=SLOW),
    pytest.param("small_tasks.py", "--rows 500 --tasks 1 3 --repeats 1", "    3            32768", "pyarrow"),
    pytest.param("stress.py", "--solves 100 --jobs 1", "  solves\n", ""),
    pytest.param("theta_study.py", "--smallest", "| school 20% |", ""),
    pytest.param("wide_sparse.py", "--features 300 --tasks 2 --rows 40", "largest difference of coefficients", ""),
]
IN_OTHER_TESTS = (
    *("compare.py", "degrees_of_freedom.py", "fuzz_files.py", "null_comparisons.py", "report.py", "run.py"),
    *("interval_coverage.py", "knockoffs.py", "mutants.py"),
    "search_scores.py",
    *("streaming.py", "worker.py"),
)


def path_of(script):
    (found,) = BENCHMARKS.glob(f"*/{script}")
    return found


@pytest.fixture(scope="module")
def small_school(tmp_path_factory):
    """A folder with a small file in the form of the real data."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    X, task = rng.standard_normal((90, 4)), np.repeat(np.arange(3), 30)
    np.savez(folder / "school.npz", X=X, y=X[:, 0] + rng.standard_normal(90), task=task)
    return folder


def test_every_script_has_a_smallest_size():
    assert sorted({case.values[0] for case in SMALLEST} | set(IN_OTHER_TESTS)) == SCRIPTS


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_starts(script, monkeypatch, capsys):
    needs = {case.values[0]: case.values[3] for case in SMALLEST}.get(script)
    if needs:
        pytest.importorskip(needs)
    monkeypatch.syspath_prepend(str(BENCHMARKS / "runner"))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "studies"))
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    monkeypatch.setattr(os, "environ", os.environ.copy())  # scripts set the number of threads
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(path_of(script)), run_name="__main__")
    assert not end.value.code
    assert f"usage: {script}" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("script", "words", "shown", "needs"), SMALLEST)
def test_every_script_runs_with_its_smallest_size(
    script, words, shown, needs, tmp_path, small_school, monkeypatch, capsys, request
):
    if needs:
        pytest.importorskip(needs)
    words = [word.replace("FOLDER", str(tmp_path)) for word in words.split()]
    monkeypatch.setenv("MSMTFL_DATA", str(small_school))
    if request.node.get_closest_marker("slow"):
        assert shown in run(path_of(script), *words, data=small_school).stdout
    else:
        run_here(script, *words, monkeypatch=monkeypatch)
        assert shown in capsys.readouterr().out


@pytest.mark.parametrize(("script", "package"), [("cluster.py", "distributed"), ("small_tasks.py", "pyarrow")])
def test_a_script_whose_package_is_not_installed_says_so(script, package, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "runner"))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "studies"))
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit, match="pip install"):
        runpy.run_path(str(path_of(script)), run_name="__main__")


# ------------------------------------------------------------------ the runner


def run(*words, data=None):
    """A script in a process of its own; `data` is the folder of real data."""
    environment = {key: value for key, value in os.environ.items() if key != "MSMTFL_DATA"}
    if data is not None:
        environment["MSMTFL_DATA"] = str(data)
    return subprocess.run(
        [sys.executable, *map(str, words)], env=environment, capture_output=True, text=True, check=True, timeout=300
    )


def run_here(script, *words, monkeypatch):
    """A script in this process, which need not import everything anew."""
    monkeypatch.syspath_prepend(str(BENCHMARKS / "runner"))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "studies"))
    monkeypatch.setattr(sys, "argv", [script, *map(str, words)])
    monkeypatch.setattr(os, "environ", os.environ.copy())  # scripts set the number of threads
    try:
        runpy.run_path(str(path_of(script)), run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise


@pytest.mark.slow
def test_the_runner_writes_rows_tables_and_plots(tmp_path):
    solvers = ("--solvers", "msmtfl", "scikit-learn", "FISTA")
    shown = run(BENCHMARKS / "runner" / "run.py", "--size", "tiny", *solvers, "--repeats", 1, "--out", tmp_path).stdout
    with (tmp_path / "rows.csv").open() as stored:
        rows = list(csv.DictReader(stored))
    works = {row["work"] for row in rows}
    assert {"lasso path", "surface", "3-fold CV of the surface", "L1,2", "Dirty 0.5", "predict", "first fit"} <= works
    assert not [row["note"] for row in rows if not row["seconds"]]
    own = [float(row["gap"]) for row in rows if row["solver"] == "msmtfl" and row["gap"]]
    assert len(own) >= 6
    assert max(own) < 1e-10
    peers = [float(row["gap"]) for row in rows if row["solver"] != "msmtfl" and row["gap"]]
    assert len(peers) >= 5
    assert max(peers) < 1e-3
    assert "| loop / surface |" in shown
    assert "| tiny: m=3 n=20 d=12 |" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "profile.svg").exists()
    (tmp_path / "table.md").unlink()
    assert "| loop / surface |" in run(BENCHMARKS / "runner" / "report.py", tmp_path).stdout  # from the rows alone
    assert "| tiny: m=3 n=20 d=12 |" in (tmp_path / "table.md").read_text()


def test_every_table_has_its_place_in_the_documentation(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "runner"))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "studies"))
    import report

    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for name in report.TITLES:
        assert page.count(f"<!-- begin: {name} -->") == page.count(f"<!-- end: {name} -->") == 1


@pytest.mark.slow
@pytest.mark.skipif("MSMTFL_BUILDS" not in os.environ, reason="compiles two revisions, minutes: set MSMTFL_BUILDS")
def test_a_revision_is_no_slower_than_itself(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    assert (
        "no slower than allowed"
        in run(BENCHMARKS / "runner" / "compare.py", "HEAD", "--head", "HEAD", "--rounds", "3").stdout
    )


@pytest.mark.slow
def test_degrees_of_freedom_are_those_of_the_covariances(monkeypatch, capsys):
    words = ("--tasks", 2, "--samples", 8, "--features", 6, "--draws", 3)
    run_here("degrees_of_freedom.py", *words, monkeypatch=monkeypatch)
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 16
    assert shown[0].split() == ["model", "coefficients", "charged", "true", "z"]
    assert sum("(not convex)" in line for line in shown) == 3
    monkeypatch.syspath_prepend(str(BENCHMARKS / "runner"))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "studies"))
    import degrees_of_freedom

    found = degrees_of_freedom.study(m=3, n=10, d=8, share=0.1, count=60)
    for row in found:
        if row["convex"]:
            assert abs(row["z"]) < 3.5, row
    counted = {row["model"]: row for row in found}
    assert counted["L1,2"]["entries"] > 1.3 * counted["L1,2"]["true"]
    assert counted["bi-level"]["z"] < -3.0  # a threshold costs more than the coefficients it leaves


def test_the_families_in_one_table(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "runner"))
    monkeypatch.syspath_prepend(str(BENCHMARKS / "studies"))
    import families

    lines = {"lasso": [0.5, 0.7, 0.9], "pooled lasso": [0.4, 0.5, 0.45], "auto": [0.4, 0.7]}
    for model, errors in lines.items():
        for split, error in enumerate(errors):
            row = {"data": "toy", "share": 0.2, "split": split, "model": model, "nmse": error, "chosen": "lasso"}
            families.add(tmp_path / "real.csv", row)
    families.add(tmp_path / "real.csv", {**row, "share": 0.1, "model": "lasso", "split": 0})
    families.real_table(tmp_path)
    shown = capsys.readouterr().out
    assert "after training on 10 % / 20 %" in shown
    assert "| lasso | **0.700** / 0.700 |" in shown
    assert "| pooled lasso | - / **0.450** |" in shown
    assert "| the automatic choice, less the best line | - / +0.1000 |" in shown  # over the two splits that it has
    assert "| standard error of that | - / 0.1000 |" in shown
    assert "| splits of the lines, of the automatic choice | 1, 0 / 3, 2 |" in shown
    assert "auto chose lasso 2x." in shown


@pytest.mark.slow
def test_how_sure_studies_start(monkeypatch, capsys):
    run_here("interval_coverage.py", "--draws", 1, "--features", 12, monkeypatch=monkeypatch)
    shown = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("split, n = 2d") for line in shown) == 15
    assert sum(line.startswith("split, cox") for line in shown) == 6
    assert sum(line.startswith("debiased") for line in shown) == 15
    run_here("knockoffs.py", "--draws", 1, "--only", "independent", monkeypatch=monkeypatch)
    assert len(capsys.readouterr().out.splitlines()) == 1 + 4 * 3


# ------------------------------------------------------------------ what new users type


@pytest.fixture
def journeys(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import journeys

    return journeys


@pytest.mark.slow
def test_the_first_journey_ends_with_a_model_and_a_page(journeys):
    pytest.importorskip("typer")
    row = journeys.run(journeys.JOURNEYS[0])
    assert "failed" not in row
    assert row["files"] == ["model.msmtfl", "page.html", "scores.csv"]


def test_journeys_are_short(journeys):
    assert len(journeys.JOURNEYS) == 10
    assert all(1 <= one.useful <= len(one.commands) <= 5 for one in journeys.JOURNEYS)


# ------------------------------------------------------------------ faults


@pytest.fixture
def mutants(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "studies"))
    import mutants

    return mutants


def test_mutants_that_change_annotations_and_docstrings_alone_are_the_same_code(mutants):
    code = 'def f(x: int | None) -> int:\n    """Add."""\n    y: float = x + 1\n    return y\n'
    same = 'def f(x: int & None) -> str:\n    """Subtract."""\n    y: int = x + 1\n    return y\n'
    assert mutants.meaning(code) == mutants.meaning(same)
    assert mutants.meaning(code) != mutants.meaning(code.replace("+", "-"))
    assert mutants.meaning(code) != mutants.meaning(code.replace("1", "2"))
    said = "class A(Protocol):\n    def f(self, x=1) -> int: ...\n"
    assert mutants.meaning(said) == mutants.meaning(said.replace("1", "2"))
    assert mutants.meaning(said.replace("Protocol", "B")) != mutants.meaning(
        said.replace("Protocol", "B").replace("1", "2")
    )


def test_rooms_of_mutants_have_sources_and_tests(mutants):
    for sources, tests in mutants.ROOMS.values():
        assert all((mutants.ROOT / mutants.SOURCE / path).exists() for path in sources)
        assert all((mutants.ROOT / path).exists() for path in tests)


@pytest.mark.slow
def test_a_fault_is_noticed_and_an_unnoticed_one_is_shown(mutants, monkeypatch, tmp_path, capsys):
    pytest.importorskip("cosmic_ray")
    (tmp_path / "src" / "msmtfl").mkdir(parents=True)
    (tmp_path / "src" / "msmtfl" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "src" / "msmtfl" / "toy.py").write_text("def f(x):\n    return x < 3\n", encoding="utf-8")
    check = "from msmtfl.toy import f\n\n\ndef test_f():\n    assert f(2) and not f(4)\n"
    (tmp_path / "test_toy.py").write_text(check, encoding="utf-8")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "ROOMS", {"toy": (["toy.py"], ["test_toy.py"])})
    found = mutants.main(["--count", "20"])
    assert found["killed"] > 0
    assert found["survived"] > 0  # x <= 3 among them
    assert "+    return x <= 3" in capsys.readouterr().out.splitlines()
    assert (tmp_path / "src" / "msmtfl" / "toy.py").read_text(encoding="utf-8") == "def f(x):\n    return x < 3\n"
