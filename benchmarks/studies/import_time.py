"""What importing the package costs beyond scikit-learn: seconds of processor time, in fresh processes.

    python benchmarks/studies/import_time.py
    python benchmarks/studies/import_time.py --repeats 1    # a quick look

Each statement is run in processes of its own; the shortest of the repeats counts, as other work only adds. The first process
writes the compiled files of Python and is not counted. Python's garbage collector goes through all that scikit-learn has
brought when so many more objects have come; what that takes has a column of its own. Which modules take longest is said by
`python -X importtime`, of one more process. An editable installation asks for every module whether it has to be built again,
which takes several times as long as importing it; the table says so.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys

BEFORE = "import sklearn.linear_model, sklearn.model_selection, gc, sys, time"
STATEMENTS = (
    "import msmtfl",
    "from msmtfl import MSMTFL",
    "from msmtfl import MSMTFLCV",
    "from msmtfl import compare_models",
)
MEASURE = """{before}
collected = []
gc.callbacks.append(lambda phase, _: collected.append((-1 if phase == "start" else 1) * time.process_time()))
known, begin = set(sys.modules), time.process_time()
{statement}
took = time.process_time() - begin
print(took, sum(collected), len(set(sys.modules) - known))
"""
EDITABLE = "import sys, msmtfl; print(any('editable' in type(one).__module__ for one in sys.meta_path))"
LINE = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \| ( *)(\S+)")


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)


def cost(statement: str, repeats: int) -> tuple[float, float, int]:
    """Seconds of processor time, how many of them went to the collector, and how many modules are imported."""
    code = MEASURE.format(before=BEFORE, statement=statement)
    python("-c", code)
    seconds, collector, modules = min(tuple(map(float, python("-c", code).stdout.split())) for _ in range(repeats))
    return seconds, collector, int(modules)


def own_times(statement: str) -> dict[str, float]:
    """{module: seconds of its own} of what a statement imports after scikit-learn, without the collector."""
    code = f"{BEFORE}\ngc.disable()\nsys.stderr.write('AFTER\\n')\n{statement}\n"
    after = python("-X", "importtime", "-c", code).stderr.partition("AFTER\n")[2]
    return {found[4]: int(found[1]) / 1e6 for found in LINE.finditer(after)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10, help="processes of each statement")
    parser.add_argument("--modules", type=int, default=5, help="how many of the slowest modules are listed")
    options = parser.parse_args()
    if python("-c", EDITABLE).stdout.strip() == "True":
        print("This installation is editable: with pip install . importing takes a fraction of this.\n")
    print(
        "| statement, after scikit-learn | CPU seconds | of them collecting | modules | the slowest by the clock, in ms |\n"
        "|---|---|---|---|---|"
    )
    for statement in STATEMENTS:
        seconds, collector, modules = cost(statement, options.repeats)
        times = own_times(statement)
        slowest = sorted(times, key=times.get, reverse=True)[: options.modules]
        listed = ", ".join(f"{name} {1e3 * times[name]:.1f}" for name in slowest)
        print(f"| `{statement}` | {seconds:.3f} | {collector:.3f} | {modules} | {listed} |", flush=True)


if __name__ == "__main__":
    main()
