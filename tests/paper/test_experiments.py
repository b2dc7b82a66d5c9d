"""The paper's experiments: rows against direct fits, verdicts on rows made up for them, and runs that are stopped, damaged,
repeated and done in parallel. Specs are tiny; everything that can run does run."""

import csv
import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from matplotlib.image import imread

from msmtfl import L12MTL, L12MTLCV, MSMTFL, MSMTFLCV, DirtyMTL, DirtyMTLCV, LassoMTL, LassoMTLCV
from msmtfl._data.tasks import read_training
from msmtfl._objective import theta as thresholds
from msmtfl._solvers.problems.make_problem import make_problem
from msmtfl.datasets import Dataset, load_adni, make_mri_standin, make_multitask, split_tasks
from msmtfl.paper import experiments
from msmtfl.paper.experiments import (
    EXPERIMENTS,
    Figure1,
    Figure2,
    Guarantees,
    Isolet,
    Mri,
    NotAvailableError,
    base,
    prediction,
    run,
    runner,
)
from msmtfl.paper.experiments.base import Claim, below, every, steadier, verdict
from msmtfl.paper.experiments.prediction import PROTOCOLS
from msmtfl.paper.experiments.runner import FILES
from msmtfl.paper.experiments.settings import Setting
from msmtfl.paper.experiments.synthetic import EXACT, NO_CAP, TRUNCATED
from msmtfl.paper.experiments.truncated import truncated_stages
from msmtfl.paper.theory import error_bound

SETTING = Setting(3, 20, 20, 0.01)
FIGURE1 = replace(
    Figure1(), settings=(SETTING,), readings=("literal",), runs=3, alphas=(1e-3, 1e-2), stages=4, steps=10
)
FIGURE2 = replace(
    Figure2(),
    settings=(SETTING,),
    readings=("scale-aware",),
    runs=2,
    alphas=(2.0, 0.1, 0.01, 0.001),
    ratios=(50.0, 2.0),
    dirty_ratios=(1.0, 0.2),
)
WIDER = replace(FIGURE2, ratios=(50.0, 10.0, 2.0), dirty_ratios=(1.0, 0.5, 0.2))  # has ratios inside its grid
STEPS = "the error decreases where every stage is 10 FISTA steps"
VERDICTS = {"holds", "partly", "does not hold", "not clear", "not testable"}
# word for word, symbols spelled out
QUOTES = {
    "the error decreases as l increases",
    "converges in a few stages",
    "the parameter estimation error of the MSMTFL algorithm is the smallest among the four algorithms",
    "When lambda is large enough, all four algorithms tend to have the same parameter estimation error",
    "The performance of the MSMTFL algorithm is similar for different theta's, when lambda exceeds a certain value",
    "Our proposed MSMTFL algorithm outperforms all the competing feature learning algorithms on both data sets, with the "
    "smallest regression errors (nMSE and aMSE)",
    "as well as the smallest standard deviations",
    "when the training ratio increases from 15% to 25%, the performance of the MSMTFL algorithm increases",
    "the superiority of the MSMTFL algorithm over the other three algorithms is more significant",
    "The performance for the 15% training ratio is comparable to that for the 25% training ratio",
}
CV_MODELS = {"Lasso": LassoMTLCV, "L1,2": L12MTLCV, "DirtyMTL": DirtyMTLCV}
CV_MODELS["MSMTFL"] = partial(MSMTFLCV, entry_shares=0)  # the paper's model, not the default search
needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="no such signals")


def read_rows(folder):
    return list(csv.DictReader(io.StringIO((folder / "rows.csv").read_text())))


def error_norm(true, coef):
    """sqrt(sum over features of (sum over tasks)^2)"""
    return np.sqrt((np.abs(true - coef).sum(axis=0) ** 2).sum())


def parts_of(folder):
    """What tells whether a part was written anew: files are put in place of old ones, never changed."""
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in sorted(folder.glob("parts/*/*.json"))}


def unfinished(folder):
    return [path.name for path in folder.rglob("*.unfinished")]


def about(claims, words, where=""):
    """The claims with these words, in this setting."""
    found = [claim for claim in claims if words in claim.claim and where in claim.setting]
    assert found, f"no claim has {words!r} in {[claim.claim for claim in claims]}"
    return found


def only(claims, words, where=""):
    (claim,) = about(claims, words, where)
    return claim


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Figure 1's folder after an undisturbed run, and its claims."""
    out = tmp_path_factory.mktemp("finished")
    claims = run(FIGURE1, out)
    return out / "figure1", claims


@pytest.fixture
def copy(finished, tmp_path):
    """A copy of it to spoil."""
    shutil.copytree(finished[0], tmp_path / "figure1")
    return tmp_path / "figure1"


@pytest.fixture
def undrawn(monkeypatch):
    """Runs leave empty figures: to draw them takes longer than all the rest, and other tests look at them."""

    def save(experiment, rows, folder):
        for kind in ("svg", "png"):
            (folder / f"figure.{kind}").touch()

    monkeypatch.setattr(runner, "save_figure", save)


# ------------------------------------------------------------------ descriptions


def test_the_full_experiments_are_those_of_the_paper():
    settings = [(s.m, s.n, s.d, s.sigma) for s in Figure1().settings]
    assert settings == [(15, 40, 250, 0.01), (20, 30, 200, 0.005), (10, 60, 300, 0.001)]
    assert Figure1().alphas == (5e-5, 1e-4, 2e-4, 5e-4)
    assert (Figure1().ratio, Figure1().runs, Figure1().readings) == (50, 10, ("literal", "scale-aware", "MATLAB"))
    assert (Figure2().settings, Figure2().readings, Figure2().runs) == (Figure1().settings, Figure1().readings, 10)
    assert (Figure2().ratios, Figure2().dirty_ratios) == ((50, 10, 2, 0.4), (1, 0.5, 0.2, 0.1))
    for spec in (Isolet(), Mri()):
        assert (spec.shares, spec.splits, spec.folds) == ((0.15, 0.2, 0.25), 10, 3)
        assert spec.models == ("Lasso", "L1,2", "DirtyMTL", "MSMTFL")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_cells_have_names_of_their_own_and_quick_has_fewer_of_them(name):
    spec = EXPERIMENTS[name]()
    cells = spec.cells()
    assert spec.name == name
    assert len({cell.key for cell in cells}) == len(cells)
    assert all("/" not in cell.key for cell in cells)
    assert len(spec.quick().cells()) < len(cells)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_sample_is_drawn_twice_but_models_see_the_same_splits(name):
    """A sample is a (run, setting) or (split, share); a seed is one sample's."""
    seeds = {}
    for cell in EXPERIMENTS[name]().cells():
        seeds.setdefault(cell.seed, set()).add(cell.where[:2])
    assert all(len(samples) == 1 for samples in seeds.values())
    assert len({sample for samples in seeds.values() for sample in samples}) == len(seeds)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ([True, True], "holds"),
        ([True, False], "partly"),
        ([True, None], "partly"),
        ([False, False], "does not hold"),
        ([False, None], "does not hold"),
        ([None, None], "not clear"),
    ],
)
def test_verdicts(held, expected):
    assert verdict(held) == expected


@pytest.mark.parametrize(
    ("held", "expected"),
    [([True, True], True), ([True, False], False), ([None, False], False), ([True, None], None)],
)
def test_every(held, expected):
    assert every(held) is expected


@pytest.mark.parametrize("runs", [2, 3, 10])
def test_runs_without_a_difference_are_called_clear_in_one_of_twenty(runs):
    """Two standard errors would do so in 30 % of pairs of runs, in 18 % of threes."""
    rng = np.random.default_rng(runs)
    found = [below(rng.standard_normal(runs)) for _ in range(4000)]
    share = np.mean([one is not None for one in found])
    assert abs(share - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 4000)
    assert {True, False, None} == set(found)


def test_a_difference_that_is_there_is_seen():
    rng = np.random.default_rng(0)
    assert below(rng.standard_normal(10) - 5.0) is True
    assert below(rng.standard_normal(10) + 5.0) is False
    assert below(np.array([-5.0, -4.0])) is None  # two runs: the mean is nine standard errors from 0
    assert below(np.array([-5.0, -5.0])) is True
    assert below(np.zeros(2)) is False  # nothing changed
    assert below(np.array([-5.0])) is None  # of one run nothing is known


@pytest.mark.parametrize("runs", [3, 10])
def test_spreads_that_are_equal_are_called_different_in_one_of_twenty(runs):
    rng = np.random.default_rng(runs)
    pairs = rng.multivariate_normal([0.0, 0.0], [[1.0, 0.6], [0.6, 1.0]], (4000, runs))
    share = np.mean([steadier(pair[:, 0], pair[:, 1]) is not None for pair in pairs])
    assert abs(share - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 4000)


def test_a_smaller_spread_is_seen():
    rng = np.random.default_rng(0)
    mine, other = rng.standard_normal((2, 10)) * [[1.0], [20.0]]
    assert (steadier(mine, other), steadier(other, mine)) == (True, False)
    assert steadier(np.ones(10), other) is True
    assert steadier(mine, mine) is False
    assert steadier(mine[:2], other[:2]) is None


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_less_than_the_full_experiment_is_seen(name):
    assert not EXPERIMENTS[name]().shortened
    assert EXPERIMENTS[name]().quick().shortened


def test_a_verdict_from_a_quick_run_says_so():
    found = Claim("it falls", "here", "holds", "4 -> 2")
    assert (found.shown, replace(found, quick=True).shown) == ("holds", "holds (quick run)")
    assert replace(found, verdict="not testable", quick=True).shown == "not testable"


# ------------------------------------------------------------------ what a run leaves


def test_a_run_leaves_rows_figures_table_and_claims(finished):
    folder, claims = finished
    assert {path.name for path in folder.iterdir()} == {*FILES, "parts"}
    assert ElementTree.parse(folder / "figure.svg").getroot().tag.endswith("svg")
    assert min(imread(folder / "figure.png").shape[:2]) > 300
    assert not unfinished(folder)
    table = (folder / "table.md").read_text()
    assert table.startswith(f"# {FIGURE1.title}\n")
    assert "from memory" in table  # settings and alphas
    stored = json.loads((folder / "claims.json").read_text())
    fields = {"claim", "setting", "verdict", "evidence", "source", "quick"}
    assert [fields] * len(stored) == [set(claim) for claim in stored]
    assert stored == [vars(claim) for claim in claims]
    assert all(
        claim["quick"] and f"| {claim['verdict']} (quick run) |" in table for claim in stored
    )  # three runs of 30
    assert {claim["source"] for claim in stored} == {"paper", "control"}
    assert all(f"| {claim['claim']} | {claim['source']} |" in table for claim in stored)
    assert {claim["verdict"] for claim in stored} <= VERDICTS
    assert all(claim["evidence"] and claim["evidence"] in table for claim in stored)


def test_rows_have_the_point_the_error_certificates_and_versions(finished):
    rows = read_rows(finished[0])
    wanted = {"setting", "run", "seed", "alpha", "lam", "reading", "theta", "solver", "stage", "error"}
    assert wanted | {"dual_gap", "kkt", "unique", "converged", "versions"} <= set(rows[0])
    curves = 4  # literal theta and inf, each solved and truncated
    assert len(rows) == FIGURE1.runs * len(FIGURE1.alphas) * curves * FIGURE1.stages
    for name in ("msmtfl", "numpy", "scipy", "scikit-learn", "python"):
        assert all(f"{name} " in row["versions"] for row in rows)
    exact = [row for row in rows if row["solver"] == EXACT]
    assert max(float(row["dual_gap"]) for row in exact) < 1e-10
    assert {row["converged"] for row in exact} <= {"True", "False"}
    assert all(row["dual_gap"] == "" for row in rows if row["solver"] == TRUNCATED)  # nothing is certified there


# ------------------------------------------------------------------ runs that stop and go on


@pytest.mark.slow
def test_a_finished_run_computes_nothing_again_and_gives_the_same_files(copy, capsys):
    before, contents = parts_of(copy), {name: (copy / name).read_bytes() for name in FILES}
    run(FIGURE1, copy.parent, progress=True)
    assert capsys.readouterr().err == ""
    assert parts_of(copy) == before
    assert {name: (copy / name).read_bytes() for name in FILES} == contents


def test_parts_that_are_lost_or_damaged_are_computed_again_and_no_others(copy, finished, undrawn, capsys, terminal):
    before = parts_of(copy)
    lost, cut, kept = before
    lost.unlink()
    cut.write_text(cut.read_text()[:1000])
    (copy / "rows.csv").unlink()
    run(FIGURE1, copy.parent, progress=True)
    shown = capsys.readouterr().err
    assert "2/2 figure1 cells" in shown
    assert "s to go" in shown
    after = parts_of(copy)
    assert [after[path] == before[path] for path in (lost, cut, kept)] == [False, False, True]
    assert (copy / "rows.csv").read_bytes() == (finished[0] / "rows.csv").read_bytes()


def test_what_a_killed_run_left_unfinished_is_removed(copy, undrawn):
    path = next(iter(parts_of(copy)))
    (path.parent / f".{path.name}.abc.unfinished").write_text("[{")
    run(FIGURE1, copy.parent)
    assert not unfinished(copy)


@pytest.mark.parametrize("content", [b"", b"{}", b"null", b"\xff\xfe\x00", b"[1, 2"])
def test_any_damage_to_a_part_is_seen(content, copy, monkeypatch):
    """The cells that are worked on are told by the exception of the first."""
    part = list(parts_of(copy))[1]
    part.write_bytes(content)
    monkeypatch.setattr(Figure1, "work", lambda self, cell: pytest.fail(cell.key))
    with pytest.raises(pytest.fail.Exception, match=f"^{part.stem}$"):
        run(FIGURE1, copy.parent)


def test_another_spec_uses_none_of_these_parts(copy, undrawn):
    before = parts_of(copy)
    other = replace(FIGURE1, runs=1, alphas=(1e-1,))
    run(other, copy.parent)
    added = parts_of(copy).items() - before.items()
    assert before.items() <= parts_of(copy).items()
    assert [path.parent.name for path, _ in added] == [other.fingerprint]
    assert {row["alpha"] for row in read_rows(copy)} == {"0.1"}


@pytest.mark.slow
def test_more_runs_go_on_from_those_that_are_there(copy, finished, monkeypatch):
    before, worked, work = parts_of(copy), [], Figure1.work
    monkeypatch.setattr(Figure1, "work", lambda self, cell: worked.append(cell.where[0]) or work(self, cell))
    run(FIGURE1.repeated(FIGURE1.runs + 1), copy.parent)
    assert worked == [FIGURE1.runs]
    assert before.items() <= parts_of(copy).items()
    run(FIGURE1, copy.parent)  # and fewer take a part of them
    assert worked == [FIGURE1.runs]
    for name in FILES:
        assert (copy / name).read_bytes() == (finished[0] / name).read_bytes(), name


@pytest.mark.parametrize(
    "change",
    [
        {"alphas": (1e-3,)},
        {"stages": 5},
        {"steps": 11},
        {"ratio": 10.0},
        {"readings": ("MATLAB",)},
        {"settings": (Setting(3, 20, 20, 0.02),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_change_of_a_spec_changes_its_fingerprint(change):
    assert replace(FIGURE1, **change).fingerprint != FIGURE1.fingerprint
    assert replace(FIGURE1).fingerprint == FIGURE1.fingerprint


@pytest.mark.parametrize("name", ["msmtfl", "numpy", "scipy", "scikit-learn"])
def test_fingerprints_change_with_the_version_of_what_the_numbers_depend_on(name, monkeypatch):
    before, version = FIGURE1.fingerprint, base.version
    monkeypatch.setattr(base, "version", lambda other: "0.0.1" if other == name else version(other))
    assert f"{name} 0.0.1" in base.versions()
    assert FIGURE1.fingerprint != before


def test_fingerprints_change_with_python(monkeypatch):
    before = FIGURE1.fingerprint
    monkeypatch.setattr(base.platform, "python_version", lambda: "3.99.0")
    assert base.versions().endswith("python 3.99.0")
    assert FIGURE1.fingerprint != before


KILLED = """
import os, pickle, signal, sys
from pathlib import Path
from msmtfl.paper.experiments import run

replace, done = os.replace, []

def dying(source, target):
    if len(done) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(target)
    replace(source, target)

os.replace = dying
run(pickle.loads(bytes.fromhex(sys.argv[1])), Path(sys.argv[2]))
"""


@pytest.mark.slow
@needs_signals
def test_a_run_that_was_killed_while_it_wrote_goes_on_and_gives_the_same_rows(tmp_path, finished):
    command = [sys.executable, "-c", KILLED, pickle.dumps(FIGURE1).hex(), str(tmp_path)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    folder = tmp_path / "figure1"
    (first,) = parts_of(folder).items()
    assert not (folder / "rows.csv").exists()
    run(FIGURE1, tmp_path)
    assert first in parts_of(folder).items()
    for name in FILES:
        assert (folder / name).read_bytes() == (finished[0] / name).read_bytes(), name


COMMAND = """
import pickle, sys
from msmtfl import experiments
from msmtfl.cli import app

experiments.EXPERIMENTS["figure1"] = lambda: pickle.loads(bytes.fromhex(sys.argv[1]))
app(sys.argv[2:])
"""


@pytest.mark.slow
@needs_signals
@pytest.mark.timed
def test_an_interrupted_command_says_that_it_can_go_on_and_leaves_whole_files(tmp_path):
    pytest.importorskip("typer")
    endless = pickle.dumps(replace(FIGURE1, runs=5000)).hex()
    arguments = ["reproduce", "figure1", "--out", str(tmp_path), "--jobs", "1"]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, endless, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    folder, until = tmp_path / "figure1", time.monotonic() + 120
    while len(parts_of(folder)) < 3 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "Stopped" in err
    assert "same command" in err
    assert "Traceback" not in err
    assert out == ""
    assert {path.name for path in folder.iterdir()} == {"parts"}
    assert not unfinished(folder)
    parts = list(folder.glob("parts/*/*"))
    assert len(parts) >= 3
    assert all(json.loads(path.read_text())[0]["versions"] for path in parts)


@pytest.mark.slow
def test_two_processes_give_the_bytes_of_one(tmp_path, finished):
    run(FIGURE1, tmp_path, jobs=2)
    for name in FILES:
        assert (tmp_path / "figure1" / name).read_bytes() == (finished[0] / name).read_bytes(), name
    assert not unfinished(tmp_path)


def test_without_matplotlib_it_is_said_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        run(FIGURE1, tmp_path)
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ figure 1: rows


def test_exact_rows_are_the_stages_of_a_direct_fit(finished):
    rows = [row for row in read_rows(finished[0]) if row["solver"] == EXACT]
    cells = {str(cell.where[0]): cell.seed for cell in FIGURE1.cells()}
    repeated = 0
    for row in rows:
        X, y, task, true = make_multitask(3, 20, 20, sigma=0.01, random_state=cells[row["run"]])
        lam = float(row["alpha"]) * np.sqrt(np.log(20 * 3) / 20)
        theta = 50 * 3 * lam if row["reading"] == "literal" else np.inf
        assert (float(row["lam"]), float(row["theta"])) == pytest.approx((lam, theta))
        model = MSMTFL(lam, theta, max_stages=4, fit_intercept=False).fit(X, y, task=task)
        stage = int(row["stage"])
        at = model.stages_[min(stage, model.n_stages_) - 1]
        assert float(row["error"]) == pytest.approx(error_norm(true, at.coef), rel=1e-9)
        assert int(row["free_rows"]) == len(at.free_rows)
        assert (row["repeats"] == "True") == (stage > model.n_stages_)
        assert int(row["n_stages"]) == model.n_stages_
        repeated += stage > model.n_stages_ > 1
    assert repeated > 0  # of a fit of several stages


def test_a_lasso_repeats_its_only_stage(finished):
    rows = [row for row in read_rows(finished[0]) if (row["solver"], row["reading"]) == (EXACT, NO_CAP)]
    for run_of in {(row["run"], row["alpha"]) for row in rows}:
        curve = [row for row in rows if (row["run"], row["alpha"]) == run_of]
        assert len({row["error"] for row in curve}) == 1
        assert [row["repeats"] for row in curve] == ["False", "True", "True", "True"]


def test_truncated_rows_are_those_of_the_truncated_solver(finished):
    rows = [row for row in read_rows(finished[0]) if row["solver"] == TRUNCATED and row["run"] == "1"]
    X, y, task, true = SETTING.sample(FIGURE1.cells()[1].seed)
    Xs, ys = [X[task == i] for i in range(3)], [y[task == i] for i in range(3)]
    for alpha in FIGURE1.alphas:
        for reading, theta in ((NO_CAP, np.inf), ("literal", 150 * SETTING.lam(alpha))):
            found = truncated_stages(Xs, ys, SETTING.lam(alpha), theta, stages=4, steps=10)
            curve = [row for row in rows if row["reading"] == reading and float(row["alpha"]) == alpha]
            assert [float(row["error"]) for row in curve] == pytest.approx([error_norm(true, W) for W in found])


def test_the_three_readings_of_theta():
    X, y, task, _ = SETTING.sample(0)
    data = read_training(X, y, task=task, task_column=None, sample_weight=None)
    rho_bar = make_problem(data, fit_intercept=False, standardize=False, positive=False).rho_bar
    lam = 0.003
    assert SETTING.theta("literal", 50, lam) == pytest.approx(50 * 3 * lam)
    assert SETTING.theta("scale-aware", 50, lam) == pytest.approx(50 * thresholds.unit(lam, 3, rho_bar))
    assert SETTING.theta("MATLAB", 50, lam) == pytest.approx(50 * 3 * (3 * 20 * lam))


# ------------------------------------------------------------------ the truncated solver


def truncated_data():
    X, y, task, _ = make_multitask(3, 40, 15, zero_rows=0.6, zero_entries=0.3, random_state=1)
    return (X, y, task), [X[task == i] for i in range(3)], [y[task == i] for i in range(3)]


def test_with_enough_steps_truncated_stages_are_the_exact_ones():
    (X, y, task), Xs, ys = truncated_data()
    lam = 0.1
    lasso = truncated_stages(Xs, ys, lam, np.inf, stages=1, steps=600)[0]
    np.testing.assert_allclose(lasso, LassoMTL(lam, fit_intercept=False).fit(X, y, task=task).coef_, atol=1e-7)
    theta = float(np.median(np.abs(lasso).sum(axis=0)[lasso.any(axis=0)]))
    model = MSMTFL(lam, theta, max_stages=3, fit_intercept=False).fit(X, y, task=task)
    assert model.n_stages_ >= 2
    found = truncated_stages(Xs, ys, lam, theta, stages=model.n_stages_, steps=600)
    for W, stage in zip(found, model.stages_, strict=True):
        np.testing.assert_allclose(W, stage.coef, atol=1e-7)


@pytest.mark.parametrize("steps", [1, 4])
def test_truncated_stages_by_hand(steps):
    """FISTA from W = 0, then a second stage from there with the rows of norm theta or more un-penalised."""
    _, Xs, ys = truncated_data()
    lam, scale = 0.05, 2 / (3 * 40)

    def fista(X, y, w, free):
        """x_k = prox(z_k), z_k+1 = x_k + (t_k - 1) / t_k+1 (x_k - x_k-1)"""
        size = scale * np.linalg.eigvalsh(X.T @ X)[-1]
        x, z, t = [w], w, [1.0]
        for k in range(steps):
            moved = z - scale * X.T @ (X @ z - y) / size
            shrink = np.where(free, 0.0, lam / size)
            x.append(np.where(moved > shrink, moved - shrink, np.where(moved < -shrink, moved + shrink, 0.0)))
            t.append((1 + np.sqrt(1 + 4 * t[k] ** 2)) / 2)
            z = x[-1] + (t[k] - 1) / t[k + 1] * (x[-1] - x[-2])
        return x[-1]

    first = np.array([fista(X, y, np.zeros(15), np.zeros(15, dtype=bool)) for X, y in zip(Xs, ys, strict=True)])
    norms = np.abs(first).sum(axis=0)
    theta = float(np.sort(norms)[-4:-2].mean())
    second = np.array([fista(X, y, w, norms >= theta) for X, y, w in zip(Xs, ys, first, strict=True)])
    found = truncated_stages(Xs, ys, lam, theta, stages=2, steps=steps)
    np.testing.assert_allclose(found, [first, second], atol=1e-12)
    assert (norms >= theta).sum() == 3


def test_stages_that_only_continue_each_other_make_the_error_of_a_lasso_fall():
    """Without any cap a curve falls nevertheless, and clearly so in six runs."""
    spec = replace(FIGURE1, runs=6, steps=5)
    rows = [row for cell in spec.cells() for row in spec.work(cell)]
    for alpha in spec.alphas:
        curve = base.select(rows, solver=TRUNCATED, reading=NO_CAP, alpha=alpha)
        errors = np.reshape([row["error"] for row in curve], (spec.runs, spec.stages))
        mean = errors.mean(axis=0)
        assert mean[-1] < 0.9 * mean[0]
        change = errors[:, -1] - errors[:, 0]
        assert change.mean() < -2.57 * change.std(ddof=1) / np.sqrt(6)  # Student's, five degrees of freedom
    found = only(spec.claims(rows), "the error decreases where every stage is 5 FISTA steps", NO_CAP)
    assert (found.verdict, found.source) == ("holds", "control")


@pytest.mark.slow
@pytest.mark.parametrize("setting", Figure1().settings, ids=str)
def test_in_the_papers_settings_a_stopped_solver_falls_without_a_cap_but_not_with_the_literal_one(setting):
    """A first stage that was not solved frees features that have no business being free, and they stay so."""
    X, y, task, true = setting.sample(0)
    Xs, ys = [X[task == i] for i in range(setting.m)], [y[task == i] for i in range(setting.m)]
    lam = setting.lam(1e-4)
    for theta, falls in ((np.inf, True), (setting.theta("literal", 50.0, lam), False)):
        found = [error_norm(true, W) for W in truncated_stages(Xs, ys, lam, theta, stages=3, steps=100)]
        assert (found[-1] < 0.9 * found[0]) == falls
        assert (found[-1] >= found[0]) != falls


# ------------------------------------------------------------------ figure 1: claims


def falling(rows, solver=EXACT, reading="literal"):
    """What is said of a curve."""
    words = "the error decreases as l increases" if solver == EXACT else STEPS
    return only(FIGURE1.claims(rows), words, f"{SETTING}; {reading}")


def figure1_rows(curve, n_stages=2, converged=True):
    """Rows as FIGURE1 has them; curve(reading, solver, alpha) are the errors of its stages in the first of three runs."""
    return [
        {
            "setting": str(SETTING),
            "run": run,
            "alpha": alpha,
            "reading": reading,
            "solver": solver,
            "stage": l + 1,
            "error": error * (1 + run / 10),
            "n_stages": n_stages,
            "converged": converged,
            "unique": True,
            "free_rows": 1,
        }
        for run in range(FIGURE1.runs)
        for reading, solver in (("literal", EXACT), (NO_CAP, EXACT), (NO_CAP, TRUNCATED), ("literal", TRUNCATED))
        for alpha in FIGURE1.alphas
        for l, error in enumerate(curve(reading, solver, alpha))
    ]


FALLING, FLAT, RISING = [4.0, 3.0, 2.0, 2.0], [4.0] * 4, [4.0, 5.0, 6.0, 6.0]


@pytest.mark.parametrize(("solver", "reading"), [(EXACT, "literal"), (TRUNCATED, "literal"), (TRUNCATED, NO_CAP)])
@pytest.mark.parametrize(
    ("curves", "expected"),
    [
        ((FALLING, FALLING), "holds"),
        ((FALLING, RISING), "partly"),
        ((FLAT, FALLING), "partly"),
        ((FLAT, FLAT), "does not hold"),
        ((RISING, FLAT), "does not hold"),
    ],
)
def test_whether_the_error_falls_with_the_stage(curves, expected, solver, reading):
    """Of each solver and reading by itself: the other curves are flat."""
    of_alpha = dict(zip(FIGURE1.alphas, curves, strict=True))
    rows = figure1_rows(lambda *where: of_alpha[where[2]] if where[:2] == (reading, solver) else FLAT)
    claim = falling(rows, solver, reading)
    assert (claim.verdict, claim.source) == (expected, "paper" if solver == EXACT else "control")
    for alpha, curve in of_alpha.items():
        runs = 3 if curve[-1] < curve[0] else 0
        first, last = f"{1.1 * curve[0]:.3g}", f"{1.1 * curve[-1]:.3g}"
        told = f"alpha {alpha:g}: mean {first} -> {last}, median {first} -> {last}, lower in {runs} of 3 runs"
        assert told in claim.evidence
    others = [claim for claim in FIGURE1.claims(rows) if "decreases" in claim.claim and claim.evidence != told]
    assert [other.verdict for other in others if other != claim] == ["does not hold"] * 2


def test_nothing_is_said_of_a_lasso_whose_stages_are_all_the_same():
    claims = FIGURE1.claims(figure1_rows(lambda *where: FALLING))
    assert [(claim.source, claim.setting) for claim in claims] == [
        ("paper", f"{SETTING}; literal"),
        ("paper", f"{SETTING}; literal"),
        ("control", f"{SETTING}; literal"),
        ("control", f"{SETTING}; {NO_CAP}"),
    ]


@pytest.mark.parametrize(
    ("last", "expected", "lower"),
    [
        ((-1.0, -1.0, -1.0), "holds", 3),
        ((-1.0, -1.0, -0.5), "holds", 3),  # mean -0.833, standard error 0.167: five of them, Student's quantile is 4.3
        ((-1.0, -1.0, -0.4), "not clear", 3),  # mean -0.8, standard error 0.2: four
        ((-4.0, -0.1, -0.1), "not clear", 3),  # lower in every run, mostly in one
        ((1.0, 1.0, -0.1), "not clear", 1),
        ((0.0, 0.0, 0.0), "does not hold", 0),
        ((1.0, 1.0, 1.0), "does not hold", 0),
    ],
)
def test_an_error_that_falls_is_lower_by_the_interval_of_the_paired_differences(last, expected, lower):
    """The runs themselves differ by far more than that."""
    rows = figure1_rows(lambda *where: FLAT)
    for row in rows:
        row["error"] = 10.0 * (1 + row["run"]) + (last[row["run"]] if row["stage"] > 1 else 0.0)
    for solver in (EXACT, TRUNCATED):
        claim = falling(rows, solver)
        assert claim.verdict == expected
        assert claim.evidence.count(f"lower in {lower} of 3 runs") == len(FIGURE1.alphas)


@pytest.mark.parametrize(
    ("curve", "rises"),
    [
        ([4.0, 4.03, 3.0, 2.0], False),
        ([4.0, 4.05, 3.0, 2.0], True),
        ([4.0, 2.0, 2.03, 1.0], False),  # 1 % of the start, not of where it is
        ([4.0, 2.0, 1.0, 1.05], True),
    ],
    ids=str,
)
def test_an_error_that_falls_rises_nowhere_by_more_than_a_percent_of_its_start(curve, rises):
    claim = falling(figure1_rows(lambda *where: curve))
    assert claim.verdict == ("partly" if rises else "holds")
    assert ("rises on the way" in claim.evidence) == rises


def test_a_rise_on_the_way_in_one_run_alone_is_not_clear():
    rows = figure1_rows(lambda *where: FALLING)
    for row in rows:
        row["error"] += 3.0 * (row["stage"] == 2 and row["run"] == 1)
    claim = falling(rows)
    assert claim.verdict == "holds"
    assert "rises on the way" not in claim.evidence


@pytest.mark.parametrize(
    ("n_stages", "converged", "expected"), [(5, True, "holds"), (6, True, "does not hold"), (4, False, "does not hold")]
)
def test_whether_it_settles_in_a_few_stages(n_stages, converged, expected):
    rows = figure1_rows(lambda *where: FALLING, n_stages, converged)
    claim = only(FIGURE1.claims(rows), "converges in a few stages")
    assert claim.verdict == expected
    assert f"longest {n_stages}" in claim.evidence
    first = [row | {"n_stages": 2, "converged": True} if row["run"] == 0 else row for row in rows]
    assert only(FIGURE1.claims(first), "converges in a few stages").verdict == (
        "holds" if expected == "holds" else "partly"
    )


def curves_of(axis):
    """The lines that stand in the legend."""
    return {line.get_label(): line.get_ydata() for line in axis.get_lines() if not line.get_label().startswith("_")}


def test_figure_1_shows_medians_on_one_log_axis():
    """One run of three fails: its error is a hundred times the others', and a mean would be of no run."""
    rows = figure1_rows(lambda *where: FALLING)
    for row in rows:
        row["error"] *= 100.0 if row["run"] == 2 else 1.0
    axes = FIGURE1.draw(rows).axes
    assert len(axes) == 4  # literal and no cap; exact and truncated
    assert {axis.get_yscale() for axis in axes} == {"log"}
    assert len({(axis.get_xlim(), axis.get_ylim()) for axis in axes}) == 1
    for axis in axes:
        assert list(curves_of(axis)) == [f"α = {alpha:g}" for alpha in FIGURE1.alphas]
        for errors in curves_of(axis).values():
            np.testing.assert_allclose(errors, 1.1 * np.array(FALLING))
        low, high = axis.get_ylim()
        assert low < 2.0 < 480.0 < high  # bars show the run that failed


# ------------------------------------------------------------------ figure 2

RIVALS = {"Lasso": [8.0, 5.0, 2.0, 5.0], "L1,2": [8.0, 5.0, 3.0, 5.0], "DirtyMTL": [8.0, 5.0, 4.0, 5.0]}


@pytest.fixture(scope="module")
def figure2(tmp_path_factory):
    out = tmp_path_factory.mktemp("figure2")
    return out / "figure2", run(FIGURE2, out)


@pytest.mark.slow
def test_figure_2_leaves_all_files_with_certificates(figure2):
    folder, claims = figure2
    assert {path.name for path in folder.iterdir()} == {*FILES, "parts"}
    rows = read_rows(folder)
    assert len(rows) == 2 * 4 * (1 + 1 + 2 + 2)
    for row in rows:
        assert float(row["dual_gap"]) < 1e-8
        assert row["converged"] == "True"
        assert row["unique"] in ({"True"} if row["model"] in ("Lasso", "MSMTFL") else {"True", "False"})
        assert "numpy" in row["versions"]
    assert {claim.verdict for claim in claims} <= VERDICTS
    table = (folder / "table.md").read_text()
    assert all(f"| {SETTING} | {name}" in table for name in ("Lasso", "L1,2", "DirtyMTL", "MSMTFL, scale-aware theta"))


@pytest.mark.slow
def test_figure_2_rows_are_direct_fits(figure2):
    rows = [row for row in read_rows(figure2[0]) if row["run"] == "1"]
    X, y, task, true = make_multitask(3, 20, 20, sigma=0.01, random_state=FIGURE2.cells()[1].seed)
    for row in rows:
        lam = float(row["alpha"]) * np.sqrt(np.log(20 * 3) / 20)
        ratio = float(row["ratio"] or "nan")
        model = {
            "Lasso": LassoMTL(lam, fit_intercept=False),
            "L1,2": L12MTL(lam, fit_intercept=False),
            "DirtyMTL": DirtyMTL(lam_s=ratio * lam, lam_b=lam, fit_intercept=False),
            "MSMTFL": MSMTFL(lam, ratio * 3 * lam * 20, fit_intercept=False),
        }[row["model"]]
        coef = model.fit(X, y, task=task).coef_
        assert float(row["error"]) == pytest.approx(error_norm(true, coef), rel=1e-6), row
        assert int(row["n_entries"]) == np.count_nonzero(coef)
        assert int(row["n_rows"]) == coef.any(axis=0).sum()
    assert {row["model"] for row in rows} == {"Lasso", "L1,2", "DirtyMTL", "MSMTFL"}


def figure2_rows(error):
    """Rows as WIDER has them; error(model, ratio) are those at its four alphas, in the first of two runs."""
    curves = [("Lasso", "", None), ("L1,2", "", None)]
    curves += [("DirtyMTL", "", ratio) for ratio in WIDER.dirty_ratios]
    curves += [("MSMTFL", "scale-aware", ratio) for ratio in WIDER.ratios]
    return [
        {
            "setting": str(SETTING),
            "run": run,
            "model": model,
            "reading": reading,
            "ratio": ratio,
            "alpha": alpha,
            "lam": SETTING.lam(alpha),
            "error": value * (1 + run / 100),
            "n_entries": 0 if k == 0 else 5,
            "unique": True,
            "dual_gap": (1 + run) * 10.0 ** (k - 12),
            "converged": (model, run) != ("DirtyMTL", 0),
        }
        for run in range(WIDER.runs)
        for model, reading, ratio in curves
        for k, (alpha, value) in enumerate(zip(WIDER.alphas, error(model, ratio), strict=True))
    ]


def best_inside(errors):
    """For figure2_rows: the errors of a model at the ratio in the middle of its grid, larger ones at the others."""
    return lambda model, ratio: [e + (ratio not in (None, 10.0, 0.5)) for e in errors[model]]


def test_the_best_point_of_a_model_over_its_whole_grid():
    errors = {"Lasso": [8.0, 6.0, 4.0, 5.0], "L1,2": [8.0, 7.0, 6.0, 5.0], "DirtyMTL": [8.0, 9.0, 9.0, 9.0]}
    mine = {50.0: [8.0, 3.0, 5.0, 6.0], 10.0: [8.0, 7.0, 3.0, 6.0], 2.0: [8.0, 7.0, 2.0, 6.0]}
    rows = figure2_rows(lambda model, ratio: errors.get(model) or mine[ratio])
    best = WIDER.best(rows, str(SETTING))
    lasso, group, dirty, multi = (
        best[key] for key in (("Lasso", ""), ("L1,2", ""), ("DirtyMTL", ""), ("MSMTFL", "scale-aware"))
    )
    assert [found["error"] for found in (lasso, group, dirty, multi)] == pytest.approx([4.02, 5.025, 8.04, 2.01])
    assert [found["alpha"] for found in (lasso, group, dirty, multi)] == [0.01, 0.001, 2.0, 0.01]
    assert (lasso["ratio"], multi["ratio"]) == (None, 2.0)
    assert [found["edge"] for found in (lasso, group, dirty, multi)] == ["", "lam", "lam, ratio", "ratio"]
    assert [found["zero"] for found in (lasso, group, dirty, multi)] == [False, False, True, False]
    assert [found["gap"] for found in (lasso, group, dirty, multi)] == pytest.approx([2e-10, 2e-9, 2e-12, 2e-10])
    assert [found["converged"] for found in (lasso, group, dirty, multi)] == [2, 2, 1, 2]
    assert multi["by_run"] == pytest.approx([2.0, 2.02])
    assert multi["sd"] == pytest.approx(0.02 * np.sqrt(0.5))
    assert multi["se"] == pytest.approx(0.01)
    assert multi["median"] == pytest.approx(2.01)
    lines = {line.split(" | ")[1]: line for line in WIDER.table(rows).splitlines() if str(SETTING) in line}
    flagged = {
        name: line.split("edge of the grid: ")[1].split(")")[0] for name, line in lines.items() if "edge" in line
    }
    assert flagged == {"L1,2": "lam", "DirtyMTL": "lam, ratio; W = 0", "MSMTFL, scale-aware theta": "ratio"}
    assert "| 2 of 2, 2e-10 |" in lines["Lasso"]
    assert "| 1 of 2, 2e-12 |" in lines["DirtyMTL"]


def test_a_best_ratio_inside_its_grid_is_no_edge():
    best = WIDER.best(figure2_rows(best_inside({name: [8.0, 6.0, 4.0, 5.0] for name in CV_MODELS})), str(SETTING))
    assert {key: (found["ratio"], found["edge"]) for key, found in best.items()} == {
        ("Lasso", ""): (None, ""),
        ("L1,2", ""): (None, ""),
        ("DirtyMTL", ""): (0.5, ""),
        ("MSMTFL", "scale-aware"): (10.0, ""),
    }


@pytest.mark.parametrize(
    ("mine", "expected", "edge"),
    [
        ([8.0, 5.0, 1.0, 5.0], "holds", ""),
        ([8.0, 5.0, 3.0, 1.0], "holds", "MSMTFL (lam)"),
        ([8.0, 5.0, 2.0, 5.0], "does not hold", ""),  # a tie is no win
        ([8.0, 5.0, 2.5, 5.0], "does not hold", ""),  # smaller than two of three
    ],
)
def test_whether_msmtfl_is_the_smallest_of_the_four(mine, expected, edge):
    claim = only(WIDER.claims(figure2_rows(best_inside(RIVALS | {"MSMTFL": mine}))), "smallest among the four")
    assert claim.verdict == expected
    wins = 2 if expected == "holds" else 0
    told = f"smaller than Lasso in {wins} of 2 runs"
    assert claim.evidence.endswith(f"{told}; minimum at the edge of the grid: {edge}" if edge else told)


def test_rivals_whose_minimum_is_at_the_edge_are_named():
    """Their best may lie outside of what was tried."""
    at_edge = {"Lasso": [8.0, 5.0, 2.0, 5.0], "L1,2": [8.0, 5.0, 3.0, 2.5], "DirtyMTL": [8.0, 5.0, 4.0, 5.0]}
    rows = figure2_rows(lambda model, ratio: at_edge.get(model) or [8.0, 5.0, 3.0, 1.0])
    claim = only(WIDER.claims(rows), "smallest among the four")
    assert claim.verdict == "holds"
    edges = "MSMTFL (lam, ratio), L1,2 (lam), DirtyMTL (ratio)"
    assert claim.evidence.endswith(f"; minimum at the edge of the grid: {edges}")


@pytest.mark.parametrize(
    ("mine", "expected", "wins"),
    [
        (
            (1.0, 1.12),
            "holds",
            2,
        ),  # less than Lasso's (2, 2.02) by 0.95, standard error 0.05: Student's quantile is 12.7
        ((1.0, 1.22), "not clear", 2),  # by 0.9, standard error 0.1
        ((1.0, 2.9), "not clear", 1),
        ((1.0, 3.1), "not clear", 1),  # larger on average
        ((3.0, 3.02), "does not hold", 0),
    ],
)
def test_a_smallest_error_is_smaller_by_the_interval_of_the_paired_differences(mine, expected, wins):
    rows = figure2_rows(best_inside(RIVALS | {"MSMTFL": [8.0, 9.0, 1.0, 9.0]}))
    for row in rows:
        if (row["model"], row["alpha"], row["ratio"]) == ("MSMTFL", 0.01, 10.0):
            row["error"] = mine[row["run"]]
        elif row["model"] == "MSMTFL":
            row["error"] = 20.0
    claim = only(WIDER.claims(rows), "smallest among the four")
    assert claim.verdict == expected
    assert f"smaller than Lasso in {wins} of 2 runs" in claim.evidence


def test_a_smallest_error_is_clearly_smaller_than_each_of_the_others():
    """Not only than the best of them: L1,2 is worse on average, but hardly so in one of two runs."""
    rows = figure2_rows(best_inside(RIVALS | {"MSMTFL": [8.0, 5.0, 1.0, 5.0]}))
    assert only(WIDER.claims(rows), "smallest among the four").verdict == "holds"
    for row in rows:
        if (row["model"], row["alpha"]) == ("L1,2", 0.01):
            row["error"] = (1.05, 6.0)[row["run"]]
    claim = only(WIDER.claims(rows), "smallest among the four")
    assert claim.verdict == "not clear"
    assert "smaller than Lasso in 2 of 2 runs" in claim.evidence


def test_whether_all_are_zero_at_large_lam():
    rows = figure2_rows(lambda model, ratio: [8.0, 5.0, 2.0, 5.0])
    claim = only(WIDER.claims(rows), "same parameter estimation error")
    assert claim.verdict == "holds"
    assert "16 of 16" in claim.evidence
    rows[0]["n_entries"] = 1
    claim = only(WIDER.claims(rows), "same parameter estimation error")
    assert claim.verdict == "does not hold"
    assert "15 of 16" in claim.evidence


@pytest.mark.parametrize(
    ("wide", "narrow", "expected", "words"),
    [
        ([8.0, 5.0, 2.0, 1.0], [8.0, 5.01, 2.01, 2.0], "holds", "alpha = 0.01 up; the error there is 25 % of"),
        ([8.0, 5.0, 2.1, 1.0], [8.0, 5.01, 2.11, 2.0], "partly", "alpha = 0.01 up; the error there is 26 % of"),
        ([8.0, 5.0, 2.0, 1.0], [8.0, 6.0, 2.0, 1.0], "partly", "alpha = 2 up; the error there is 100 % of"),
        ([8.0, 5.0, 2.0, 1.0], [8.1, 5.0, 2.0, 1.0], "does not hold", "even at the largest"),
    ],
)
def test_from_which_lam_on_theta_does_not_matter(wide, narrow, expected, words):
    """Which says something only if the error there is at most twice the best."""
    mine = {50.0: wide, 10.0: wide, 2.0: narrow}
    rows = figure2_rows(lambda model, ratio: mine[ratio] if model == "MSMTFL" else [8.0, 5.0, 2.0, 5.0])
    claim = only(WIDER.claims(rows), "similar for different theta's")
    assert claim.verdict == expected
    assert words in claim.evidence
    assert ("the best over lam 12.5 %" in claim.evidence) == (expected != "does not hold")


def test_figure_2_shows_medians_on_one_log_axis():
    spec = replace(WIDER, runs=3)
    rows = figure2_rows(best_inside(RIVALS | {"MSMTFL": RIVALS["Lasso"]}))
    rows += [row | {"run": 2, "error": 50.0 * row["error"]} for row in rows if row["run"] == 1]
    axes = spec.draw(rows).axes
    assert len(axes) == 2
    assert {(axis.get_xscale(), axis.get_yscale()) for axis in axes} == {("log", "log")}
    assert len({(axis.get_xlim(), axis.get_ylim()) for axis in axes}) == 1
    for axis in axes:
        np.testing.assert_allclose(axis.get_lines()[0].get_ydata(), 1.01 * np.array(RIVALS["Lasso"]))
    assert "Lasso 35" in axes[0].texts[0].get_text()  # the smallest mean, which the verdict rests on


# ------------------------------------------------------------------ prediction


@pytest.fixture(scope="module")
def adni(tmp_path_factory):
    """A table with ADNI's columns: 40 patients at six visits, one scan that failed and one score that is missing."""
    rng = np.random.default_rng(0)
    lines = ["RID,VISCODE,MMSE,OVERALLQC,ST1,ST2,ST3,ST4,ST5"]
    for visit in ("m06", "m12", "m18", "m24", "m36", "m48"):
        for patient in range(40):
            scan = rng.standard_normal(5)
            score = int(np.clip(np.rint(24 + 2 * scan[0] - scan[1] + rng.standard_normal()), 0, 30))
            quality = "Fail" if (visit, patient) == ("m06", 3) else "Pass"
            shown = -1 if (visit, patient) == ("m48", 5) else score
            lines.append(f"{patient},{visit},{shown},{quality}," + ",".join(f"{v:.6f}" for v in scan))
    path = tmp_path_factory.mktemp("adni") / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def small_mri(path, **options):
    return replace(Mri(table_path=str(path)), **{"shares": (0.4, 0.6), "splits": 1, **options})


def altered(path, **changes):
    """The same spec on other data."""
    data = replace(load_adni(path), **changes)

    class Altered(Mri):
        def data(self):
            return data

    return Altered(table_path=str(path), shares=(0.4, 0.6), splits=1)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "protocol"), [*((name, "ours") for name in CV_MODELS), ("MSMTFL", "paper")])
def test_prediction_rows_are_direct_fits(name, protocol, adni):
    spec = small_mri(adni)
    cell = next(cell for cell in spec.cells() if cell.where == (0, 0.6, protocol, name))
    (row,) = spec.work(cell)
    data = load_adni(adni)
    X, y, task = data
    groups = data.group if protocol == "ours" else None
    train, test = split_tasks(task, 0.6, cell.seed, groups=groups)
    grid = {"lams": 30, "lam_min_ratio": 1e-2}  # the same for all models
    model = CV_MODELS[name](**grid, cv=3, fit_intercept=protocol == "ours", standardize=True, random_state=cell.seed)
    model.fit(X[train], y[train], task=task[train], groups=None if groups is None else groups[train])
    error = (y[test] - model.predict(X[test], task=task[test])) ** 2
    tasks = [task[test] == visit for visit in np.unique(task)]
    sizes = [rows.sum() for rows in tasks]
    normal = [error[rows].mean() / y[test][rows].var() for rows in tasks]
    absolute = [error[rows].mean() / (y[test][rows] ** 2).mean() for rows in tasks]
    assert row["nMSE"] == pytest.approx(np.average(normal, weights=sizes), rel=1e-9)
    assert row["aMSE"] == pytest.approx(np.average(absolute, weights=sizes), rel=1e-9)
    for visit, n, a in zip(np.unique(task), normal, absolute, strict=True):
        assert (row[f"nMSE of {visit}"], row[f"aMSE of {visit}"]) == pytest.approx((n, a), rel=1e-9)
    assert row["cv_nMSE"] == pytest.approx(-model.best_score_)
    parameters = model.surface_.parameters
    assert {key: row[f"chosen_{key}"] for key in parameters} == {
        key: pytest.approx(grid[model.best_point_]) for key, grid in parameters.items()
    }
    lams = next(iter(parameters.values()))[:, model.best_point_[1]]
    assert len(lams) == 30
    assert lams.min() == pytest.approx(1e-2 * lams.max())
    assert (row["edge"] == "lam") == (lams[model.best_point_[0]] == lams.min())
    assert (row["n_entries"], row["n_rows"]) == (np.count_nonzero(model.coef_), model.coef_.any(axis=0).sum())
    assert (row["model"], row["share"], row["split"], row["data"]) == (name, 0.6, 0, "ADNI")
    assert (row["protocol"], bool(model.intercept_.any())) == (protocol, protocol == "ours")
    assert row["dual_gap"] < 1e-8
    assert row["unique"] is row["converged"] is True
    assert "chosen_lam_entry" not in row


@pytest.mark.slow
def test_msmtfl_is_the_papers_model_wherever_the_bi_level_one_would_be_chosen():
    """Features that a part of the tasks use: the default search takes a penalty on entries, the experiment may not."""
    X, y, task, _ = make_multitask(4, 40, 10, zero_rows=0.4, zero_entries=0.6, sigma=0.05, random_state=0)
    names = np.array([f"x{j}" for j in range(10)])
    data = Dataset("sparse", X, y, task, names, "few of the tasks use a feature", "test")

    class Sparse(Isolet):
        def data(self):
            return data

    spec = Sparse(shares=(0.7,), splits=1, models=("MSMTFL",), protocols=("ours",))
    (cell,) = spec.cells()
    train, _ = split_tasks(task, 0.7, cell.seed)
    default = MSMTFLCV(cv=3, random_state=cell.seed).fit(X[train], y[train], task=task[train])
    assert default.lam_entry_ > 0
    (row,) = spec.work(cell)
    paper = MSMTFLCV(45, lam_min_ratio=2e-3, cv=3, random_state=cell.seed, entry_shares=0)
    paper.fit(X[train], y[train], task=task[train])
    assert (row["chosen_lam"], row["chosen_theta"]) == pytest.approx((paper.lam_, paper.theta_))
    assert "chosen_lam_entry" not in row


def test_patients_are_on_one_side_in_our_protocol_and_on_both_in_the_papers(monkeypatch, adni):
    """In the split and in the folds alike."""
    data, seen = load_adni(adni), {}

    class Spied(LassoMTLCV):
        def fit(self, X, y, task=None, groups=None):
            seen["groups"], seen["rows"] = groups, len(y)
            return super().fit(X, y, task=task, groups=groups)

        def predict(self, X, task=None):
            seen["test"] = X
            return super().predict(X, task=task)

    monkeypatch.setitem(prediction.MODELS, "Lasso", Spied)
    spec = small_mri(adni, models=("Lasso",), shares=(0.6,))
    for cell in spec.cells():
        spec.work(cell)
        tested = (data.X[:, None] == seen["test"][None]).all(axis=2).any(axis=1)
        both = set(data.group[tested].tolist()) & set(data.group[~tested].tolist())
        if cell.where[2] == "ours":
            assert not both
            np.testing.assert_array_equal(np.sort(seen["groups"]), np.sort(data.group[~tested]))
        else:
            assert len(both) > 20
            assert seen["groups"] is None


def test_the_table_says_which_protocol_is_which(adni):
    spec = small_mri(adni)
    table = spec.table(prediction_rows(spec, lambda model, share: (1.0, 0.1)))
    assert "**paper**: no intercepts, as in the paper's loss" in table
    assert "so that a patient may be on both sides" in table
    assert (
        "**ours**: an intercept for every task; no patient is both in training and in the test, or in two folds."
        in table
    )
    assert "MSMTFL is the paper's model" in table
    assert [line.split(" | ")[0] for line in table.splitlines() if " | nMSE | " in line] == ["| paper"] * 2 + [
        "| ours"
    ] * 2
    letters = ISOLET.table(prediction_rows(ISOLET, lambda model, share: (1.0, 0.1)))
    assert letters.count("training rows and folds are drawn at random within every task.") == 2
    assert "patient" not in letters


def test_parameters_are_chosen_on_training_rows_alone(adni):
    cell = next(cell for cell in small_mri(adni).cells() if cell.where == (0, 0.4, "ours", "MSMTFL"))
    data = load_adni(adni)
    _, test = split_tasks(data.task, 0.4, cell.seed, groups=data.group)
    y = data.y.copy()
    y[test] = np.random.default_rng(1).integers(0, 31, len(test))
    (row,), (other,) = small_mri(adni).work(cell), altered(adni, y=y).work(cell)
    changed = {key for key in row if row[key] != other[key]}
    assert row["model"] == "MSMTFL"
    assert changed == {key for key in row if key.startswith(("nMSE", "aMSE"))}


def test_fingerprints_change_with_the_data(adni):
    same, data = altered(adni), load_adni(adni)
    X, y, task = data.X.copy(), data.y.copy(), data.task.copy()
    X[7, 2] += 1e-9
    y[5] += 1
    task[0] = "M12"
    found = {altered(adni, **change).fingerprint for change in ({}, {"X": X}, {"y": y}, {"task": task})}
    assert len(found) == 4
    assert same.fingerprint in found
    assert small_mri(adni).fingerprint != small_mri(adni, folds=4).fingerprint


def test_fingerprints_change_with_the_patients(adni):
    """They decide the folds."""
    group = load_adni(adni).group[::-1]
    assert altered(adni, group=group).fingerprint != altered(adni).fingerprint


def test_fingerprints_change_with_the_table(adni, tmp_path):
    path = tmp_path / "table.csv"
    shutil.copy(adni, path)
    before = small_mri(path).fingerprint
    path.write_text(path.read_text().replace("m06,2", "m06,1"))
    assert small_mri(path).fingerprint != before


def prediction_rows(spec, error, splits=(-1.0, 0.0, 1.0)):
    """error(model, share) is (mean, step): the errors of the splits are mean + step times the numbers in splits."""
    return [
        {
            "model": model,
            "protocol": protocol,
            "share": share,
            "split": split,
            "edge": "",
            "limit": "",
            **dict.fromkeys(("nMSE", "aMSE"), error(model, share)[0] + error(model, share)[1] * number),
        }
        for split, number in enumerate(splits)
        for share in spec.shares
        for protocol in spec.protocols
        for model in spec.models
    ]


def in_every_protocol(spec, rows, words):
    """What is said of both measures in both protocols, which have the same errors here."""
    claims = about(spec.claims(rows), words)
    measures = [
        f"{spec._shown()}, {measure}; {how.short}" for how in PROTOCOLS.values() for measure in ("nMSE", "aMSE")
    ]
    assert [claim.setting for claim in claims] == measures
    assert len({(claim.verdict, claim.evidence) for claim in claims}) == 1
    return claims[0]


class Letters(Isolet):
    """Isolet's claims without Isolet's rows."""

    def data(self):
        return Dataset("Isolet", np.ones((2, 1)), np.ones(2), np.array(["a", "b"]), np.array(["f"]), "letters", "test")


ISOLET, STAND_IN = Letters(splits=3), Mri(splits=3)
OTHERS = {"Lasso": 3.0, "L1,2": 2.0, "DirtyMTL": 4.0}


ERRORS = "with the smallest regression errors"


@pytest.mark.parametrize(
    ("mine", "expected"),
    [((1.0, 1.0, 1.0), "holds"), ((1.0, 1.0, 2.5), "partly"), ((2.5, 2.5, 2.5), "does not hold")],
)
def test_whether_the_error_is_the_smallest_at_every_share(mine, expected):
    of_share = dict(zip(ISOLET.shares, mine, strict=True))
    rows = prediction_rows(ISOLET, lambda model, share: (OTHERS.get(model) or of_share[share], 0.1))
    claim = in_every_protocol(ISOLET, rows, ERRORS)
    assert claim.verdict == expected
    assert "L1,2 2.0000" in claim.evidence
    assert claim.evidence.endswith("(3 splits)")


@pytest.mark.parametrize(
    ("mine", "expected"),
    [
        ((1.0, 1.2, 1.3), "holds"),
        ((1.0, 1.9, 2.8), "not clear"),
        ((1.5, 2.0, 3.1), "not clear"),
        ((2.9, 3.0, 3.2), "does not hold"),
    ],
)
def test_an_error_is_the_smallest_if_splits_differ_by_less(mine, expected):
    """From L1,2's, which is 2 in all three."""
    rows = prediction_rows(ISOLET, lambda model, share: (OTHERS.get(model, 0.0), 0.0))
    for row in rows:
        if row["model"] == "MSMTFL":
            row["nMSE"] = row["aMSE"] = mine[row["split"]]
    assert in_every_protocol(ISOLET, rows, ERRORS).verdict == expected


def test_of_one_split_nothing_is_concluded():
    spec = replace(ISOLET, splits=1)
    rows = prediction_rows(spec, lambda model, share: (OTHERS.get(model, 1.0), 0.0), splits=(0.0,))
    claims = spec.claims(rows)
    assert {claim.verdict for claim in claims} == {"not clear"}
    assert all(claim.evidence.endswith("(one split)") for claim in claims)
    assert not [claim for claim in claims if "deviation" in claim.claim]


@pytest.mark.parametrize(("mine", "expected"), [(0.1, "holds"), (0.3, "does not hold")])
def test_whether_the_standard_deviation_is_the_smallest(mine, expected):
    rows = prediction_rows(ISOLET, lambda model, share: (2.0, mine if model == "MSMTFL" else 0.2))
    claim = in_every_protocol(ISOLET, rows, "smallest standard deviations")
    assert claim.verdict == expected
    assert f"MSMTFL {mine:.4f}" in claim.evidence


@pytest.mark.parametrize(
    ("mine", "expected"),
    [
        ((1.9, 1.8, 1.7), "holds"),
        ((1.7, 1.8, 1.9), "partly"),  # ahead, less and less
        ((2.1, 1.8, 1.7), "partly"),  # not ahead from the start
        ((1.7, 2.1, 2.2), "does not hold"),
    ],
)
def test_whether_the_lead_grows_with_the_training_share(mine, expected):
    of_share = dict(zip(ISOLET.shares, mine, strict=True))
    rows = prediction_rows(ISOLET, lambda model, share: (OTHERS.get(model) or of_share[share], 0.0))
    claim = in_every_protocol(ISOLET, rows, "is more significant")
    assert claim.verdict == expected
    assert f"15 %: {100 * (1 - mine[0] / 2):+.1f} %" in claim.evidence
    improves = in_every_protocol(ISOLET, rows, "the performance of the MSMTFL algorithm increases")
    assert improves.verdict == ("holds" if mine[-1] < mine[0] else "does not hold")
    assert improves.evidence == f"15 %: {mine[0]:.4f}, 25 %: {mine[-1]:.4f} (3 splits)"


@pytest.mark.parametrize(("loss", "expected"), [(1.04, "holds"), (1.051, "does not hold")])
def test_whether_fifteen_percent_are_comparable_to_twentyfive(loss, expected, adni):
    spec = replace(STAND_IN, table_path=str(adni))
    rows = prediction_rows(
        spec, lambda model, share: ((loss if model == "MSMTFL" else 1.2) if share == 0.15 else 1.0, 0.0)
    )
    claim = in_every_protocol(spec, rows, "comparable to that for the 25%")
    assert claim.verdict == expected
    assert claim.setting.startswith("ADNI, MMSE from MRI")
    assert f"MSMTFL {100 * loss - 100:+.1f} %" in claim.evidence


@pytest.mark.parametrize("models", [("Lasso", "L1,2"), ("MSMTFL",)])
def test_without_msmtfl_and_another_there_is_nothing_to_claim(models):
    spec = replace(ISOLET, models=models)
    assert spec.claims(prediction_rows(spec, lambda model, share: (1.0, 0.1))) == []


def test_the_papers_claims_are_quoted_without_additions(adni):
    real = replace(STAND_IN, table_path=str(adni))
    specs = [(spec, prediction_rows(spec, lambda model, share: (1.0, 0.1))) for spec in (ISOLET, real, STAND_IN)]
    specs += [(FIGURE1, figure1_rows(lambda *where: FALLING))]
    specs += [(WIDER, figure2_rows(best_inside(RIVALS | {"MSMTFL": RIVALS["Lasso"]})))]
    claims = [claim for spec, rows in specs for claim in spec.claims(rows)]
    assert {claim.claim for claim in claims if claim.source == "paper"} == QUOTES
    assert {claim.claim for claim in claims if claim.source != "paper"} == {STEPS}


def test_without_adni_its_claims_are_not_testable_and_nothing_else_is_said_of_it():
    claims = STAND_IN.claims(prediction_rows(STAND_IN, lambda model, share: (1.0, 0.1)))
    for claim, words in zip(claims, (ERRORS, "smallest standard deviations", "comparable"), strict=True):
        assert words in claim.claim
    assert {claim.setting for claim in claims} == {"ADNI"}
    assert {claim.verdict for claim in claims} == {"not testable"}
    assert all("--adni" in claim.evidence and "simulated" in claim.evidence for claim in claims)


def test_a_run_on_the_stand_in_says_everywhere_that_it_is_simulated(tmp_path, undrawn):
    spec = Mri(shares=(0.05,), splits=1, models=("Lasso", "MSMTFL"), protocols=("ours",))
    claims = run(spec, tmp_path)
    folder = tmp_path / "mri"
    rows = read_rows(folder)
    assert all("SIMULATED" in row["data"] and "not ADNI" in row["data"] for row in rows)
    lasso = rows[0]
    assert (lasso["model"], lasso["n_entries"]) == ("Lasso", "0")  # too few rows: the largest lam
    assert (lasso["edge"], lasso["limit"]) == ("", "no features")
    table = (folder / "table.md").read_text()
    above, quoted = table.split("The paper's Table 1")
    assert "SIMULATED, not ADNI" in above
    for measure in ("nMSE", "aMSE"):  # no claims: these are all that is said of it
        shown = [f"{float(row[measure]):.4f}" for row in rows]
        assert all(number in above for number in shown)
    assert "cannot be compared" in quoted
    assert "0.5539 (0.0154)" in quoted
    numbers = [{key: 1.0 if "MSE" in key else value for key, value in row.items()} for row in rows]
    assert "SIMULATED" in spec.draw(numbers).get_suptitle()
    assert [(claim.setting, claim.verdict) for claim in claims] == [("ADNI", "not testable")] * 3
    assert "SIMULATED" in make_mri_standin().name


@pytest.mark.slow
def test_a_run_on_a_table_of_adni_is_a_real_one(tmp_path, adni):
    spec = small_mri(adni, models=("Lasso", "MSMTFL"))
    claims = run(spec, tmp_path)
    folder = tmp_path / "mri"
    assert {path.name for path in folder.iterdir()} == {*FILES, "parts"}
    rows = read_rows(folder)
    assert len(rows) == 2 * 2 * 2
    assert {row["data"] for row in rows} == {"ADNI"}
    assert all(claim.setting.startswith("ADNI") and claim.verdict != "not testable" for claim in claims)
    assert "comparable" in " ".join(claim.claim for claim in claims)
    table = (folder / "table.md").read_text()
    for text in (table, (folder / "claims.json").read_text(), (folder / "rows.csv").read_text()):
        assert "simulated" not in text.lower()
    assert "1 failed scan" in table
    assert "0.5539 (0.0154)" in table


def test_errors_of_one_share_are_drawn_for_every_task_and_of_several_against_the_share(adni):
    spec = small_mri(adni, shares=(0.4,), models=("Lasso", "MSMTFL"))
    rows = prediction_rows(spec, lambda model, share: ({"Lasso": 0.9, "MSMTFL": 0.8}[model], 0.0), splits=(0.0,))
    rows = [
        row
        | {f"{measure} of {visit}": row[measure] + k for measure in ("nMSE", "aMSE") for k, visit in enumerate("ab")}
        for row in rows
    ]
    axes = np.reshape(spec.draw(rows).axes, (2, 2))
    assert [axis.get_title(loc="left") for axis in axes[:, 0]] == [
        "Protocol “paper”: no intercepts, as in the paper",
        "Protocol “ours”: an intercept for every task, not of the paper",
    ]
    for axis in axes.flat:
        assert [label.get_text() for label in axis.get_yticklabels()] == ["all tasks", "a", "b"]
        points = {line.get_label(): line for line in axis.get_lines()}
        np.testing.assert_allclose(points["Lasso"].get_xdata(), [0.9, 0.9, 1.9])
        np.testing.assert_allclose(points["MSMTFL"].get_xdata(), [0.8, 0.8, 1.8])
        assert points["Lasso"].get_ydata()[0] < points["MSMTFL"].get_ydata()[0]  # side by side
    for column in axes.T:
        assert len({axis.get_xlim() for axis in column}) == 1
    several = replace(spec, shares=(0.4, 0.6), splits=3)
    rows = prediction_rows(several, lambda model, share: ({"Lasso": 0.9, "MSMTFL": 0.8}[model] - share, 0.1))
    axes = np.reshape(several.draw(rows).axes, (2, 2))
    for axis in axes.flat:
        assert axis.get_xlabel() in ("", "rows used for training, %")
        lasso = next(c for c in axis.containers if c.get_label() == "Lasso")
        np.testing.assert_allclose(lasso.lines[0].get_ydata().astype(float), [0.5, 0.3])
    for column in axes.T:
        assert len({axis.get_ylim() for axis in column}) == 1


def test_choices_at_the_ends_of_their_grids_are_counted(adni):
    spec = small_mri(adni, models=("Lasso", "MSMTFL"))
    rows = prediction_rows(spec, lambda model, share: (1.0, 0.1), splits=(0.0,))
    for row in rows:
        row["edge"] = "lam" if row["model"] == "Lasso" and row["share"] == 0.4 else ""
        row["limit"] = "the lasso" if row["model"] == "MSMTFL" else ""
    table = spec.table(rows)
    assert "30 lams of every model, in equal ratios from its lam_max down to 0.01 of it" in table
    for protocol in PROTOCOLS:
        assert f"| Lasso | {protocol} | 2 | lam 1 | none |" in table
        assert f"| MSMTFL | {protocol} | 2 | none | the lasso 2 |" in table


LAM = np.array([[4.0], [2.0], [1.0]])
STAGES = {"lam": np.repeat(LAM, 3, axis=1), "theta": np.array([[8.0, 40.0, np.inf]]) * LAM}
DIRTY = {"lam_b": np.repeat(LAM, 3, axis=1), "lam_s": np.array([[1.0, 0.5, 0.2]]) * LAM}


@pytest.mark.parametrize(
    ("parameters", "point", "expected"),
    [
        ({"lam": LAM}, (1, 0), ("", "")),
        ({"lam": LAM}, (2, 0), ("lam", "")),
        ({"lam": LAM}, (0, 0), ("", "no features")),
        ({"lam": LAM, "theta": np.full((3, 1), np.inf)}, (1, 0), ("", "")),  # the lasso itself
        (STAGES, (1, 0), ("theta", "")),
        (STAGES, (1, 1), ("", "")),
        (STAGES, (1, 2), ("", "the lasso")),
        (STAGES, (2, 2), ("lam", "the lasso")),
        (STAGES, (2, 0), ("lam, theta", "")),
        (DIRTY, (1, 0), ("", "l1,inf")),
        (DIRTY, (1, 1), ("", "")),
        (DIRTY, (1, 2), ("", "the lasso")),
        (DIRTY, (2, 1), ("lam", "")),
    ],
)
def test_a_choice_is_cut_off_or_becomes_another_model(parameters, point, expected):
    assert prediction.ends(parameters, point, 5) == expected


@pytest.mark.parametrize(("name", "noise"), [("L1,2", 1.0), ("DirtyMTL", 0.6)])
@pytest.mark.slow
def test_without_intercepts_no_choice_is_cut_off_by_the_smallest_lam(name, noise):
    """The response has a mean that is not 0, which makes lam_max large: the default grids end too early."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (240, 60))
    task = np.repeat(np.arange(4), 60)
    y = 13 + 4 * (X[:, :3].sum(axis=1) - 1.5) + noise * rng.standard_normal(240)
    data = Dataset("shifted", X, y, task, np.array([f"x{j}" for j in range(60)]), "a mean of 13", "test")

    class Shifted(Isolet):
        def data(self):
            return data

    spec = Shifted(shares=(0.5,), splits=1, models=(name,), protocols=("paper",))
    (cell,) = spec.cells()
    (row,) = spec.work(cell)
    assert (row["edge"], row["limit"] in ("", "l1,inf")) == ("", True)
    train, _ = split_tasks(task, 0.5, cell.seed)
    default = CV_MODELS[name](cv=3, fit_intercept=False, random_state=cell.seed)
    default.fit(X[train], y[train], task=task[train])
    assert default.best_point_[0] == 29


# ------------------------------------------------------------------ Isolet


def test_without_isolet_the_run_says_how_to_get_it_and_makes_no_folder(tmp_path):
    empty, out = tmp_path / "empty", tmp_path / "out"
    empty.mkdir()
    with pytest.raises(NotAvailableError, match=r"Download .*UCI .*isolet5\.data"):
        run(Isolet(folder=str(empty)), out)
    assert not out.exists()


def test_isolet_itself():
    folder = os.environ.get("MSMTFL_DATA")
    if folder is None or not (Path(folder) / "isolet.npz").exists():
        pytest.skip("no real data: set MSMTFL_DATA to the folder of isolet.npz")
    spec = Isolet(folder=folder, shares=(0.05,), splits=1, models=("Lasso",), protocols=("ours",))
    try:
        (cell,) = spec.cells()
        (row,) = spec.work(cell)
    finally:
        prediction._isolet.cache_clear()  # 40 MB
    assert row["data"] == "Isolet"
    assert 0.5 < row["nMSE"] < 0.8
    assert row["dual_gap"] < 1e-8


# ------------------------------------------------------------------ Theorem 8

FIRST, LAST = Guarantees().cases[0], Guarantees().cases[-1]
GUARANTEES = replace(Guarantees(), runs=2, cases=(FIRST, LAST))


@pytest.fixture(scope="module")
def guarantees(tmp_path_factory):
    out = tmp_path_factory.mktemp("theory")
    return out / "theory", run(GUARANTEES, out)


@pytest.mark.slow
def test_the_corrected_bound_holds_and_the_printed_one_does_not(guarantees):
    folder, claims = guarantees
    assert {path.name for path in folder.iterdir()} == {*FILES, "parts"}
    rows = read_rows(folder)
    assert len(rows) == 2 * 2 * GUARANTEES.stages
    proven = [row for row in rows if row["limits"] == "as proven"]
    printed = [row for row in rows if row["limits"] == "as printed"]
    assert {row["conditions as proven"] for row in proven} == {"holds"}
    assert all(float(row["error"]) <= float(row["bound sharpened"]) < float(row["bound as proven"]) for row in proven)
    assert {row["conditions as printed"] for row in printed} == {"holds"}
    assert max(float(row["error"]) / float(row["bound as printed"]) for row in printed) > 1.5
    assert all(float(row["dual_gap"]) < 1e-10 and row["unique"] == "True" for row in rows)
    theorem = about(claims, "Theorem 8's bound, ")
    assert len(theorem) == 3  # each where its conditions hold
    assert only(theorem, "bound, corrected: m lam for lam, 0.8^((l-1)/2)", "limits as proven").verdict == "holds"
    assert only(theorem, "bound, sharpened: m lam for lam, 0.306^(l-1)", "limits as proven").verdict == "holds"
    assert only(theorem, "bound, as printed", "limits as printed").verdict == "does not hold"
    conditions = only(claims, "Theorem 8 says nothing about the synthetic results: its conditions cannot hold there")
    assert len(claims) == 4
    assert (conditions.verdict, conditions.source) == ("holds", "package")
    assert "n = 40 where 4 rbar = 100" in conditions.evidence


@pytest.mark.slow
def test_bounds_are_those_of_the_theory(guarantees):
    """On orthogonal columns rho- is 1, rho+ / n is 1 / n."""
    for row in read_rows(guarantees[0]):
        case = FIRST if row["limits"] == "as proven" else LAST
        bound = error_bound(
            float(row["lam"]),
            m=case.m,
            rbar=case.r,
            nu=1 / case.n,
            rho_minus=1.0,
            sigma=case.sigma,
            stages=GUARANTEES.stages,
        )
        l = int(row["stage"]) - 1
        assert float(row["bound as proven"]) == pytest.approx(bound.corrected[l], rel=1e-6)
        assert float(row["bound sharpened"]) == pytest.approx(bound.sharpened[l], rel=1e-6)
        assert float(row["bound as printed"]) == pytest.approx(bound.literal[l], rel=1e-6)


# ------------------------------------------------------------------ the command


@pytest.fixture
def command(monkeypatch, undrawn, capsys):
    """Run `msmtfl reproduce ...` on tiny experiments: (exit status, stdout, stderr)."""
    pytest.importorskip("typer")
    from msmtfl.cli import app

    tiny = {"figure1": lambda: replace(FIGURE1, runs=1), "isolet": Isolet, "mri": Mri}
    monkeypatch.setattr(experiments, "EXPERIMENTS", tiny)

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            app(["reproduce", *map(str, arguments)])
        return ended.value.code or 0, *capsys.readouterr()

    return call


def plain(text):
    """Without the frames and line breaks of a terminal."""
    return " ".join("".join(" " if c in "│╭╮╰╯─┃" else c for c in text).split())


def test_help_shows_examples(command):
    status, out, _ = command("--help")
    assert status == 0
    assert "msmtfl reproduce all --quick" in plain(out)
    assert "msmtfl reproduce isolet --data FOLDER" in plain(out)


def test_an_unknown_experiment_is_answered_with_the_known_ones(command):
    status, out, err = command("figure3")
    assert (status, out) == (2, "")
    assert "'figure3'" in plain(err)
    assert "figure1, isolet, mri or all" in plain(err)


@pytest.mark.parametrize("option", ["--data", "--adni"])
def test_data_that_are_not_there_are_refused_before_any_work(option, command, tmp_path):
    status, out, err = command("figure1", option, tmp_path / "absent", "--out", tmp_path / "out", "--jobs", 1)
    assert (status, out) == (2, "")
    assert "does not exist" in plain(err)
    assert not (tmp_path / "out").exists()


def test_the_number_of_runs_can_be_given(command, tmp_path):
    status, _, err = command("figure1", "--runs", 2, "--out", tmp_path, "--jobs", 1, "--quiet")
    assert (status, err) == (0, "")
    rows = read_rows(tmp_path / "figure1")
    assert {row["run"] for row in rows} == {"0", "1"}
    assert Isolet().repeated(4).splits == 4
    assert Isolet().repeated(4).shortened
    assert not Isolet().repeated(10).shortened


def test_an_experiment_ends_with_its_claims(command, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    status, out, err = command("figure1", "--out", tmp_path / "out", "--jobs", 1)
    assert (status, err) == (0, "")
    for claim in json.loads((tmp_path / "out" / "figure1" / "claims.json").read_text()):
        told = (claim["claim"], claim["source"], claim["setting"], f"{claim['verdict']} (quick run)", claim["evidence"])
        assert plain(" ".join(told)) in plain(out)
    assert str(tmp_path / "out") in out
    assert {path.name for path in (tmp_path / "out" / "figure1").iterdir()} == {*FILES, "parts"}
    assert not (tmp_path / "out" / "claims.md").exists()


def test_isolet_without_its_data_ends_with_the_instruction(command, tmp_path):
    status, out, err = command("isolet", "--data", tmp_path, "--out", tmp_path / "out", "--jobs", 1)
    assert (status, out) == (1, "")
    assert err.startswith("Not run: isolet.")
    assert "Download" in err
    assert "isolet1+2+3+4.data" in err
    assert err.endswith(" Here: --data FOLDER.\n")
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_all_goes_on_without_isolet_and_lists_it(command, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    tiny = experiments.EXPERIMENTS
    monkeypatch.setattr(experiments, "EXPERIMENTS", {"isolet": tiny["isolet"], "figure1": tiny["figure1"]})
    status, out, err = command("all", "--data", tmp_path / "empty", "--out", tmp_path / "out", "--jobs", 1, "--quiet")
    assert (status, out) == (0, "")
    assert err.startswith("Not run: isolet.")
    assert "Download" in err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"figure1", "claims.md"}
    said = (tmp_path / "out" / "claims.md").read_text()
    assert "the error decreases as l increases" in said
    assert "Not run: isolet." in said
    assert said.endswith(" Here: --data FOLDER.\n")


def test_a_folder_that_cannot_be_written_is_named(command, tmp_path):
    (tmp_path / "file").write_text("")
    status, out, err = command("figure1", "--out", tmp_path / "file", "--jobs", 1)
    assert (status, out) == (1, "")
    assert str(tmp_path / "file") in err
    assert err.startswith("msmtfl reproduce:")
    assert "Traceback" not in err


@pytest.mark.parametrize("options", [(), ("--json",)], ids=" ".join)
def test_a_table_that_is_not_adnis_is_refused_with_its_columns(options, command, tmp_path):
    (tmp_path / "table.csv").write_text("RID,VISIT,MMSE,ST1\n1,m06,28,2.5\n")
    status, out, err = command("mri", "--adni", tmp_path / "table.csv", "--out", tmp_path / "out", *options)
    assert (status, out) == (2, "")
    assert err.startswith("msmtfl reproduce:")
    assert "no column 'VISCODE'" in err
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_a_table_that_cannot_be_read_is_named(command, tmp_path):
    (tmp_path / "table.csv").mkdir()
    status, out, err = command("mri", "--adni", tmp_path / "table.csv", "--out", tmp_path / "out")
    assert (status, out) == (1, "")
    assert err.startswith("msmtfl reproduce:")
    assert str(tmp_path / "table.csv") in err
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [(), ("--quiet",)], ids=" ".join)
def test_json_has_the_claims_that_were_written(options, command, tmp_path):
    status, out, err = command("figure1", "--out", tmp_path / "out", "--jobs", 1, "--json", *options)
    assert (status, err) == (0, "")
    stored = json.loads((tmp_path / "out" / "figure1" / "claims.json").read_text())
    assert stored
    assert json.loads(out) == {"folder": str(tmp_path / "out"), "claims": {"figure1": stored}, "not_run": {}}


def test_json_says_what_was_not_run(command, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    tiny = experiments.EXPERIMENTS
    monkeypatch.setattr(experiments, "EXPERIMENTS", {"isolet": tiny["isolet"], "figure1": tiny["figure1"]})
    options = ("--data", tmp_path / "empty", "--out", tmp_path / "out", "--jobs", 1, "--json")
    status, out, err = command("all", *options)
    told = json.loads(out)
    assert status == 0
    assert list(told["claims"]) == ["figure1"]
    assert list(told["not_run"]) == ["isolet"]
    assert told["not_run"]["isolet"].endswith(" Here: --data FOLDER.")
    assert err == f"Not run: isolet. {told['not_run']['isolet']}\n"
    status, out, _ = command("isolet", *options)
    assert status == 1
    assert json.loads(out) == told | {"claims": {}}
