"""Would the tests notice? Small faults are put into the source, one at a time, and the tests of that room are run.

    nox -s mutants                                                # 300 of them, hours
    nox -s mutants -- --count 40 --room stages --room penalties   # what is wanted
    nox -s mutants -- --near                                      # faster: no more than the tests that reach the fault
    nox -s mutants -- --again survived                            # those of earlier runs that no test noticed

Mutants are cosmic-ray's (another operator, another number, `not`, `break` for `continue`, no decorator); what fails at once
or cannot be told apart by any test is left out: shifts, which floats do not have, `is` for `==`, which depends on how Python
shares small objects, and changes of nothing but annotations. They are made in a copy of the source with the kernels of the
installed package (installed as usual, not as editable), one of every room in turn. Each is one process, forked from one
that has imported what does not change, in which tests of the room run until the first that fails: those that reach the line,
the fastest first, then all. A fault that none notices survives: its line is printed, to be looked at. Tests that take more
than `--seconds` of processor time are counted apart, as slow: a loop without an end is one way to notice.

What was found is in `benchmarks/results/mutants.jsonl`; a run that is interrupted goes on from there.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import difflib
import json
import multiprocessing
import os
import py_compile
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = Path("src/msmtfl")
OBJECTIVE = [
    f"tests/objective/test_{name}.py"
    for name in (
        *(
            "penalties_by_hand",
            "certificates_by_hand",
            "certificates",
            "ridge_certificates",
            "norms",
            "penalties",
            "not_certified",
        ),
        "partial_likelihood",
    )
]
ROOMS = {  # sources, and the tests that are about them: those first that are fast or notice most
    "certificates": (
        [f"_objective/proofs/{name}certificates.py" for name in ("", "lasso_", "row_", "loss_", "group_")],
        [
            *OBJECTIVE,
            "tests/objective/test_shared_moves.py",
            *(f"tests/solvers/test_{name}.py" for name in ("coupled_rows", "losses", "coupled_losses")),
            "tests/estimators/test_bounds.py",
            "tests/estimators/test_groups.py",
        ],
    ),
    "stages": (
        [f"_solvers/{name}stages.py" for name in ("", "lasso_", "coupled_", "class_")],
        [
            "tests/solvers/test_stages_by_hand.py",
            "tests/solvers/test_stages.py",
            "tests/objective/test_penalties.py",
            *(f"tests/solvers/test_{name}.py" for name in ("coupled_rows", "losses", "coupled_losses")),
            "tests/paths/test_stage_loop.py",
            "tests/solvers/test_multinomial.py",
        ],
    ),
    "cross_validation": (
        [
            f"_paths/validation/{name}.py"
            for name in (
                *("choice", "cross_validation", "errors", "folds", "held_out", "information", "other_folds"),
                *("remarks", "scorers", "too_good"),
            )
        ],
        [
            *(
                f"tests/paths/test_{name}.py"
                for name in ("scores_by_hand", "fold_choice", "cross_validation", "early_stopping")
            ),
            "tests/estimators/test_estimators.py",
            "tests/estimators/test_intervals.py",
            "tests/estimators/test_survival.py",
        ],
    ),
    "penalties": (
        [
            "_objective/penalties.py",
            "_objective/shapes.py",
            *(f"_objective/coupled/{name}.py" for name in ("row_norms", "groups", "common_penalty")),
        ],
        [
            *OBJECTIVE,
            "tests/solvers/test_coupled_rows.py",
            "tests/estimators/test_shared.py",
            "tests/solvers/test_coupled_losses.py",
            "tests/estimators/test_groups.py",
        ],
    ),
    "model_files": (
        [f"model_files/{name}.py" for name in ("__init__", "files", "layout", "reading", "values", "writing")],
        ["tests/models/test_documents.py", "tests/models/test_model_files.py"],
    ),
}
UNCHANGED = [  # what tests import and no fault is put into
    *(
        "numpy",
        "scipy.linalg",
        "scipy.optimize",
        "scipy.sparse",
        "scipy.stats",
        "joblib",
        "pandas",
        "polars",
        "pyarrow",
    ),
    *("sklearn.linear_model", "sklearn.model_selection", "sklearn.utils.estimator_checks", "pytest", "_pytest.main"),
    *("hypothesis", "hypothesis.strategies"),
]
POINTLESS = ("_LShift", "_RShift", "_Eq_Is", "_Eq_IsNot", "_NotEq_Is", "_NotEq_IsNot")
RESULTS = Path("benchmarks/results/mutants.jsonl")


@dataclass(frozen=True)
class Mutant:
    """A file with a fault in it."""

    room: str
    path: str
    code: str
    line: int  # where it is
    change: str  # the lines that differ


class Plain(ast.NodeTransformer):
    """A tree without annotations, docstrings and protocols, which no test can tell apart."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
            node.body, node.decorator_list = [], []
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        node.annotation = ast.Constant(None)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)


def meaning(code: str) -> str:
    """What Python makes of the code."""
    return ast.dump(Plain().visit(ast.parse(code)))


def changed_lines(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++")))


Place = tuple[str, str, int]  # path, operator, and which of the places where it applies


def all_places(room: str) -> list[Place]:
    """Where the operators apply in the sources of a room."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    out = []
    for path in ROOMS[room][0]:
        nodes = list(ast_nodes(get_ast((ROOT / SOURCE / path).read_text(encoding="utf-8"))))
        for name in operator_names():
            if get_operator(name).arguments() or name.endswith(POINTLESS):
                continue
            operator = get_operator(name)()
            count = sum(1 for node in nodes for _ in operator.mutation_positions(node))
            out += [(path, name, k) for k in range(count)]
    return out


def mutant_at(room: str, place: Place) -> Mutant | None:
    """The mutant, or None where no test could tell it from the source."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    path, name, occurrence = place
    code = (ROOT / SOURCE / path).read_text(encoding="utf-8")
    other = mutate_code(code, get_operator(name)(), occurrence)
    try:
        if other is None or meaning(other) == meaning(code):
            return None
    except SyntaxError:
        return None
    pairs = zip(code.splitlines(), other.splitlines(), strict=False)
    line = next((k for k, (one, two) in enumerate(pairs, start=1) if one != two), 1)
    return Mutant(room, path, other, line, changed_lines(code, other))


def with_source_of(folder: Path) -> dict[str, str]:
    """What Python has to be told to import the package from a folder."""
    return {"PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


def copy_source(folder: Path) -> None:
    """The source beside the compiled kernels of the installed package, and whether Python takes it from there."""
    import msmtfl

    installed, copy = Path(msmtfl.__file__).resolve().parent, folder / SOURCE
    no_cache = shutil.ignore_patterns("__pycache__")
    shutil.copytree(installed, copy, ignore=no_cache)
    shutil.copytree(ROOT / SOURCE, copy, ignore=no_cache, dirs_exist_ok=True)
    show = "import msmtfl._kernels.active_set as kernel, msmtfl; print(msmtfl.__file__); print(kernel.__file__)"
    environment = os.environ | with_source_of(folder)
    done = subprocess.run(
        [sys.executable, "-c", show], env=environment, capture_output=True, text=True, check=True, cwd=folder
    )
    package, kernel = done.stdout.split()
    if Path(package).resolve().parent != copy.resolve() or kernel.endswith(".py"):
        raise SystemExit(
            "mutants need msmtfl installed with its compiled kernels and not as editable (pip install .): "
            f"with a copy of the source first on the path, Python takes {package} and {kernel}."
        )
    # by the text of the source: a fault in it is never hidden by what was compiled before
    compileall.compile_dir(copy, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)


class Watcher:
    """A plugin of pytest that notes which test reaches which line of some files, and how long it takes."""

    def __init__(self, files: list[Path]) -> None:
        import coverage

        self.files = files
        self.coverage = coverage.Coverage(data_file=None, include=[str(file) for file in files])
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration

    def reached(self) -> dict[str, dict[int, list[str]]]:
        """{name of the file: {line: tests, the fastest first}}; of what is run when a file is imported there is nothing."""
        data, out = self.coverage.get_data(), {}
        for file in self.files:
            tests = {line: set(of) - {""} for line, of in data.contexts_by_lineno(str(file)).items()}
            out[str(file)] = {line: sorted(of, key=self.seconds.__getitem__) for line, of in tests.items() if of}
        return out


def in_a_fork(root: Path, folder: Path, tests: list[str], seconds: float, watched: list[Path], notes: Path) -> None:
    """Run the tests with the source of the folder, and end as pytest does; note which of them reach the lines of files."""
    import resource  # not there on Windows, where nothing forks either

    os.setpgid(0, 0)  # what the tests start ends with them
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    os.chdir(root)
    os.environ.update(with_source_of(folder))
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(folder / "src"), str(root)]
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
    import pytest

    command = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", *tests]
    if not watched:
        os._exit(int(pytest.main(command)))
    watcher = Watcher(watched)
    watcher.coverage.start()
    code = int(pytest.main(command, plugins=[watcher]))
    watcher.coverage.stop()
    notes.write_text(json.dumps(watcher.reached()), encoding="utf-8")
    os._exit(code)


class Tests:
    """The tests of a room: those that reach a line come first, the others if they notice nothing."""

    def __init__(self, room: str, folder: Path) -> None:
        self.sources, self.tests = ROOMS[room]
        self.folder = folder
        files = [(folder / SOURCE / path).resolve() for path in self.sources]
        notes = folder / f"{room}.json"
        if self.run(self.tests, 600.0, files, notes) != "survived":
            raise SystemExit(f"the tests of {room} fail without a fault.")
        self.reached = json.loads(notes.read_text(encoding="utf-8"))

    def run(self, tests: list[str], seconds: float, watched: list[Path] | None = None, notes: Path = Path()) -> str:
        """ "killed", "survived" or "slow"."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(UNCHANGED)
        process = context.Process(target=in_a_fork, args=(ROOT, self.folder, tests, seconds, watched or [], notes))
        process.start()
        process.join(20.0 * seconds)  # of the clock, where other work is on the machine, too
        if process.is_alive():
            os.killpg(process.pid, 9)
            process.join()
        if process.exitcode < 0:  # a signal: out of time
            return "slow"
        return "survived" if process.exitcode == 0 else "killed"

    def notice(self, mutant: Mutant, seconds: float, near_only: bool) -> str:
        """Whether they notice the mutant; "near" where those that reach it do not, and others are not asked."""
        file = (self.folder / SOURCE / mutant.path).resolve()
        before = file.read_text(encoding="utf-8")
        file.write_text(mutant.code, encoding="utf-8")
        try:
            near = self.reached[str(file)].get(str(mutant.line), [])
            state = self.run(near, seconds) if near else "survived"
            if state != "survived" or (near and near_only):
                return "near" if state == "survived" else state
            return self.run(self.tests, seconds)
        finally:
            file.write_text(before, encoding="utf-8")


def sample(rooms: list[str], count: int, seed: int) -> Iterator[Mutant]:
    """`count` mutants, one of every room in turn while there are any."""
    rng = random.Random(seed)
    left = {room: all_places(room) for room in rooms}
    for room, places in left.items():
        print(f"{room}: {len(places)} places", flush=True)
        rng.shuffle(places)
    while count > 0 and any(left.values()):
        for room, places in left.items():
            found = None
            while places and found is None:
                found = mutant_at(room, places.pop())
            if found is not None and count > 0:
                count -= 1
                yield found


def earlier(file: Path) -> dict[tuple[str, str], str]:
    """{(path, change): state} of earlier runs."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    records = [json.loads(line) for line in lines]
    return {(one["path"], one["change"]): one["state"] for one in records}


def main(arguments: list[str] | None = None) -> Counter[str]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--room", action="append", choices=sorted(ROOMS))
    parser.add_argument("--seconds", type=float, default=20.0, help="of processor time, for the tests of a mutant")
    parser.add_argument("--minutes", type=float, default=600.0, help="for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--again", action="append", choices=["survived", "slow"], help="try out what was found so before"
    )
    parser.add_argument("--near", action="store_true", help="ask the tests that reach a fault, not yet the others")
    chosen = parser.parse_args(arguments)
    if "forkserver" not in multiprocessing.get_all_start_methods():
        raise SystemExit("mutants are tried in forked processes, which this system (Windows?) has not.")
    rooms = chosen.room or list(ROOMS)
    end = time.monotonic() + 60 * chosen.minutes
    results = ROOT / RESULTS
    results.parent.mkdir(parents=True, exist_ok=True)
    known = earlier(results)
    os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    found: Counter[str] = Counter()
    tests: dict[str, Tests] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_source(folder)
        for mutant in sample(rooms, chosen.count, chosen.seed):
            state = known.get((mutant.path, mutant.change), "")
            if not state or (state == "near" and not chosen.near) or state in (chosen.again or ()):
                if time.monotonic() > end:
                    break
                if mutant.room not in tests:
                    tests[mutant.room] = Tests(mutant.room, folder)
                state = tests[mutant.room].notice(mutant, chosen.seconds, chosen.near)
                record = {"room": mutant.room, "path": mutant.path, "change": mutant.change, "state": state}
                with results.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(record) + "\n")
            found[state] += 1
            if state != "killed":
                print(f"{state}: {mutant.path}\n{mutant.change}", flush=True)
    print(", ".join(f"{n} {state}" for state, n in sorted(found.items())) + f" of {found.total()}")
    return found


if __name__ == "__main__":
    main()
