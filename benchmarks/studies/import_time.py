"""What importing the package costs beyond scikit-learn, by `python -X importtime` in fresh processes.

    python benchmarks/studies/import_time.py
    python benchmarks/studies/import_time.py --repeats 1    # a quick look

Each statement is run in processes of its own; the shortest of the repeats counts, as other work only adds. The first process
writes the compiled files of Python and is not counted.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys

BEFORE = "import sklearn.linear_model, sklearn.model_selection"
STATEMENTS = (
    "import msmtfl",
    "from msmtfl import MSMTFL",
    "from msmtfl import MSMTFLCV",
    "from msmtfl import compare_models",
)
LINE = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \| ( *)(\S+)")


def own_times(statement: str) -> dict[str, float]:
    """{module: seconds of its own} of what a statement imports after scikit-learn."""
    code = f"{BEFORE}\nimport sys\nsys.stderr.write('AFTER\\n')\n{statement}\n"
    run = subprocess.run([sys.executable, "-X", "importtime", "-c", code], check=True, capture_output=True, text=True)
    after = run.stderr.partition("AFTER\n")[2]
    return {found[4]: int(found[1]) / 1e6 for found in LINE.finditer(after)}


def shortest(statement: str, repeats: int) -> dict[str, float]:
    own_times(statement)
    return min((own_times(statement) for _ in range(repeats)), key=lambda times: sum(times.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10, help="processes of each statement")
    parser.add_argument("--modules", type=int, default=5, help="how many of the slowest modules are listed")
    options = parser.parse_args()
    print("| statement, after scikit-learn | seconds | modules | the slowest, in ms |\n|---|---|---|---|")
    for statement in STATEMENTS:
        times = shortest(statement, options.repeats)
        slowest = sorted(times, key=times.get, reverse=True)[: options.modules]
        listed = ", ".join(f"{name} {1e3 * times[name]:.1f}" for name in slowest)
        print(f"| `{statement}` | {sum(times.values()):.3f} | {len(times)} | {listed} |", flush=True)


if __name__ == "__main__":
    main()
