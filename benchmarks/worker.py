"""One solver in a process of its own: reads commands (a JSON object per line), answers with one line each.

{"load": file}   Xs, ys, lams of a problem           -> {}
{"run": true}    solve the path once                 -> {"seconds": ...}
{"save": file}   write the last coefficients         -> {}
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np


def own(Xs, ys, lams):
    """msmtfl: front door, designs, then one warm solve per lambda. Tasks stacked beforehand, as in a long table."""
    from msmtfl.lasso import Lassos
    from msmtfl.tasks import read_training

    X, y, task = Xs
    data = read_training(X, y, task=task)
    designs = data.designs(centre=False)
    lassos = Lassos(designs)
    n = np.array([[design.n] for design in designs])
    return [lassos.solve(np.repeat(0.5 * len(designs) * n * lam, lassos.d, axis=1))[0] for lam in lams]


def main() -> None:
    name = sys.argv[1]
    if name == "msmtfl":
        path = own
        version = __import__("msmtfl").__version__
    else:
        import peers

        path = peers.PEERS[name]
        version = __import__({"scikit-learn": "sklearn"}.get(name, name)).__version__
    print(json.dumps({"version": version}), flush=True)
    Xs, ys, lams, coefs = [], [], np.empty(0), None
    for line in sys.stdin:
        command = json.loads(line)
        answer = {}
        if "load" in command:
            stored = np.load(command["load"])
            m = int(stored["m"])
            Xs, ys, lams = [stored[f"X{i}"] for i in range(m)], [stored[f"y{i}"] for i in range(m)], stored["lams"]
            if name == "msmtfl":
                from msmtfl import stack_tasks

                Xs, scale = stack_tasks(Xs, ys), 1.0
            else:
                scale = m / 2
        elif "run" in command:
            began = time.perf_counter()
            coefs = path(Xs, ys, scale * lams)
            answer = {"seconds": time.perf_counter() - began}
        elif "save" in command:
            stacked = np.array(coefs)  # own: (lams, m, d); peers: (m, lams, d)
            np.save(command["save"], stacked if name == "msmtfl" else np.swapaxes(stacked, 0, 1))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
