"""Would the tests notice? Small faults are put into the source, one at a time, and the tests of that room are run.

    nox -s mutants                                                # 300 of them, hours
    nox -s mutants -- --count 40 --room stages --room penalties   # what is wanted

Mutants are cosmic-ray's (another operator, another number, `not`, `break` for `continue`, no decorator); shifts, which fail
at once on floats, and what changes nothing but annotations are left out. They are made in a copy of the source with the
kernels of the installed package (installed as usual, not as editable), one of every room in turn. A fault that no test
notices survives: its line is printed, to be looked at. Tests that take longer than `--seconds` (or twice what they take
without a fault, if that is more) are counted apart, as slow: a loop without an end is one way to notice.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
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

ROOT = Path(__file__).parents[2]
SOURCE = Path("src/msmtfl")
ROOMS = {  # sources, and the tests that are about them
    "certificates": (
        ["_objective/certificates.py"],
        [
            "tests/objective/test_certificates.py",
            "tests/objective/test_ridge_certificates.py",
            "tests/objective/test_not_certified.py",
        ],
    ),
    "stages": (["_solvers/stages.py"], ["tests/solvers/test_stages.py", "tests/objective/test_penalties.py"]),
    "cross_validation": (
        [f"_paths/validation/{name}.py" for name in ("choice", "cross_validation", "folds", "held_out")],
        ["tests/paths/test_cross_validation.py", "tests/paths/test_fold_choice.py"],
    ),
    "penalties": (
        ["_objective/penalties.py", "_objective/shapes.py"],
        ["tests/objective/test_penalties.py", "tests/objective/test_norms.py"],
    ),
    "model_files": (
        ["model_files/files.py", "model_files/layout.py", "model_files/reading.py", "model_files/values.py"],
        ["tests/models/test_model_files.py"],
    ),
}


@dataclass(frozen=True)
class Mutant:
    """A file with a fault in it."""

    room: str
    path: str
    code: str
    change: str  # the lines that differ


class Plain(ast.NodeTransformer):
    """A tree without annotations and docstrings, which no test can tell apart."""

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
            if get_operator(name).arguments() or name.endswith(("_LShift", "_RShift")):  # a shift of floats is an error
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
    return Mutant(room, path, other, changed_lines(code, other))


def with_source_of(folder: Path) -> dict[str, str]:
    """The environment in which Python imports the package from a folder."""
    return os.environ | {"PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


def copy_source(folder: Path) -> None:
    """The source beside the compiled kernels of the installed package, and whether Python takes it from there."""
    import msmtfl

    installed, copy = Path(msmtfl.__file__).resolve().parent, folder / SOURCE
    no_cache = shutil.ignore_patterns("__pycache__")
    shutil.copytree(installed, copy, ignore=no_cache)
    shutil.copytree(ROOT / SOURCE, copy, ignore=no_cache, dirs_exist_ok=True)
    show = "import msmtfl._kernels.active_set as kernel, msmtfl; print(msmtfl.__file__); print(kernel.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", show], env=with_source_of(folder), capture_output=True, text=True, check=True, cwd=folder
    )
    package, kernel = done.stdout.split()
    if Path(package).resolve().parent != copy.resolve() or kernel.endswith(".py"):
        raise SystemExit(
            "mutants need msmtfl installed with its compiled kernels and not as editable (pip install .): "
            f"with a copy of the source first on the path, Python takes {package} and {kernel}."
        )


def run_tests(folder: Path, room: str, seconds: float) -> tuple[str, float]:
    """ "killed", "survived" or "slow", and how long it took; with the source of the folder."""
    environment = with_source_of(folder)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *ROOMS[room][1]]
    begin = time.perf_counter()
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "slow", time.perf_counter() - begin
    return ("survived" if done.returncode == 0 else "killed"), time.perf_counter() - begin


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


def main(arguments: list[str] | None = None) -> Counter[str]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--room", action="append", choices=sorted(ROOMS))
    parser.add_argument("--seconds", type=float, default=20.0, help="for the tests of a mutant")
    parser.add_argument("--minutes", type=float, default=600.0, help="for all")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    rooms = chosen.room or list(ROOMS)
    end = time.monotonic() + 60 * chosen.minutes
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_source(folder)
        limit = {}
        for room in rooms:
            state, took = run_tests(folder, room, 600.0)
            if state != "survived":
                raise SystemExit(f"the tests of {room} fail without a fault.")
            limit[room] = max(chosen.seconds, 2.0 * took)
        for mutant in sample(rooms, chosen.count, chosen.seed):
            if time.monotonic() > end:
                break
            file = folder / SOURCE / mutant.path
            before = file.read_text(encoding="utf-8")
            file.write_text(mutant.code, encoding="utf-8")
            state, _ = run_tests(folder, mutant.room, limit[mutant.room])
            file.write_text(before, encoding="utf-8")
            found[state] += 1
            if state != "killed":
                print(f"{state}: {mutant.path}\n{mutant.change}", flush=True)
    print(", ".join(f"{n} {state}" for state, n in sorted(found.items())) + f" of {found.total()}")
    return found


if __name__ == "__main__":
    main()
