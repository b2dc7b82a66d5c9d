"""Is head slower than base? Both are built apart and run in turn on this machine, on work of msmtfl alone.

    python benchmarks/runner/compare.py main              # the working tree (tracked files) against a revision
    python benchmarks/runner/compare.py v0.1 --head main  # two revisions

Each revision is checked out and installed into a temporary environment that takes everything but msmtfl from this one; the
work, the data and the clock are those of this tree. Rounds alternate base, head and head, base; the best of each counts, in
seconds on a core (all work is on one thread), which a busy machine disturbs less than those on the clock. It fails if
head is slower by more than 15 % in the geometric mean of all cases, or by more than 30 % in one that takes base 3 ms or
more; cases beyond a limit are first measured again, with twice as many rounds, all of which count.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from problems import PROBLEMS, BenchProblem, binary, from_tasks, synthetic
from processes import HERE, Solver, SolverError
from units import RATIOS, Case, Entry, predict_case, rows_case

MEAN_LIMIT, CASE_LIMIT = 1.15, 1.30  # seconds of head over those of base
SHORT = 3e-3  # seconds of base below which a case counts for the mean only
ROUNDS = 15

Best = dict[tuple[int, int], list[float]]  # (case, entry) -> best seconds of base and head


def work() -> list[Case]:
    """Generated problems only, so that the work is the same everywhere."""
    path, surface = {"run": "path"}, {"run": "surface", "theta_ratios": RATIOS}
    cross_validation = {"run": "cross-validation", "theta_ratios": RATIOS}
    school = from_tasks("school-like", *binary(139, 22, 251, 28, 10, 3.0)(np.random.default_rng(0)), 30, 1e-2)

    def case(problem: BenchProblem, **commands) -> Case:
        return Case(problem, problem.lams, [Entry("msmtfl", name, command) for name, command in commands.items()])

    middle = PROBLEMS["m=5"]()
    return [
        case(PROBLEMS["paper"](), path=path, surface=surface),
        case(middle, path=path, surface=surface, CV=cross_validation),
        case(PROBLEMS["AR 0.9"](), path=path, surface=surface),
        case(school, path=path, surface=surface),
        case(synthetic("wide", 4, 200, 5_000, 12, 0.5, n_lams=20), path=path),
        case(synthetic("tall", 4, 5_000, 200, 50, 20.0, n_lams=20), path=path, surface=surface),
        *(_own(rows_case(middle, ratio, 1)) for ratio in (None, 0.5)),
        _own(predict_case(middle)),
    ]


def _own(case: Case) -> Case:
    return Case(case.problem, case.lams, [entry for entry in case.entries if entry.solver == "msmtfl"])


# ------------------------------------------------------------------ building


def git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(HERE), *words], check=True, capture_output=True, text=True).stdout.strip()


def working_tree() -> str:
    """A commit of the tracked files as they are."""
    return git("stash", "create") or "HEAD"


def build(revision: str, folder: Path, stack: ExitStack) -> str:
    """The interpreter of an environment with this revision installed."""
    source, environment = folder / "source", folder / "environment"
    git("worktree", "add", "--detach", str(source), revision)
    stack.callback(git, "worktree", "remove", "--force", str(source))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = str(environment / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.run([python, "-c", where], check=True, capture_output=True, text=True).stdout.strip())
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
    if importlib.util.find_spec("mesonpy"):
        install.append("--no-build-isolation")
    subprocess.run([*install, str(source)], check=True)
    # paths, not the .pth files in them: an editable msmtfl of this environment stays out of the way
    parents = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *filter(_is_site, sys.path)}
    (site / "parent.pth").write_text("\n".join(sorted(parents)) + "\n")
    return python


def _is_site(path: str) -> bool:
    return path.endswith("site-packages")


# ------------------------------------------------------------------ measuring


def measure(cases: list[Case], sides: list[Solver], rounds: int, folder: Path, best: Best) -> dict[str, str]:
    """Lowers `best`; why entries could not be run."""
    failed: dict[str, str] = {}
    for c, case in enumerate(cases):
        entries = [(e, entry) for e, entry in enumerate(case.entries) if (c, e) in best]
        if not entries:
            continue
        file = case.problem.write(folder / "problem.npz", case.lams)
        for solver in sides:
            solver.ask(load=file)
        for e, entry in entries:
            try:
                for round_ in range(rounds + 1):
                    for side in (0, 1) if round_ % 2 else (1, 0):
                        seconds = sides[side].ask(**entry.command)["cpu"]
                        if round_:  # the first is a warm-up
                            best[c, e][side] = min(best[c, e][side], seconds)
            except SolverError as error:
                failed[f"{case.problem.name}, {entry.work}"] = str(error)
                del best[c, e]
    return failed


def ratio(times: list[float]) -> float:
    return times[1] / times[0]


def mean_ratio(best: Best) -> float:
    return float(np.exp(np.mean([np.log(ratio(times)) for times in best.values()])))


def slower(best: Best) -> Best:
    """Cases beyond a limit; all of them, if the mean is."""
    if mean_ratio(best) > MEAN_LIMIT:
        return best
    return {key: times for key, times in best.items() if times[0] >= SHORT and ratio(times) > CASE_LIMIT}


def compare(pythons: list[str], rounds: int, folder: Path) -> int:
    cases = work()
    best: Best = {(c, e): [np.inf, np.inf] for c, case in enumerate(cases) for e in range(len(case.entries))}
    sides = [Solver("msmtfl", python) for python in pythons]
    try:
        failed = measure(cases, sides, rounds, folder, best)
        if again := slower(best):
            measure(cases, sides, 2 * rounds, folder, again)  # the same lists as in best
    finally:
        for solver in sides:
            solver.close()
    print("| case | base | head | head / base | |\n" + "|---" * 5 + "|")
    bad = slower(best)
    for (c, e), times in best.items():
        name = f"{cases[c].problem.name}, {cases[c].entries[e].work}"
        verdict = "SLOWER" if (c, e) in bad and ratio(times) > CASE_LIMIT else ""
        print(f"| {name} | {1e3 * times[0]:.2f} ms | {1e3 * times[1]:.2f} ms | {ratio(times):.2f} | {verdict} |")
    for name, why in failed.items():
        print(f"{name}: not in both ({why})")
    print(
        f"geometric mean: {mean_ratio(best):.3f} (limit {MEAN_LIMIT}; a case of {1e3 * SHORT:g} ms or more: {CASE_LIMIT})"
    )
    print("slower than allowed" if bad else "no slower than allowed")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="a revision")
    parser.add_argument("--head", help="a revision; without it, the working tree")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--times", type=int, default=1, help="compare so often, having built once: how reliable is it?")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        revisions = {"base": options.base, "head": options.head or working_tree()}
        pythons = [build(revision, folder / side, stack) for side, revision in revisions.items()]
        return max([compare(pythons, options.rounds, folder) for _ in range(options.times)])


if __name__ == "__main__":
    sys.exit(main())
