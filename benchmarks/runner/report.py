"""The report, from the rows alone: ratios first, each with its bar; every case in which a peer wins; plots.

python benchmarks/runner/report.py benchmarks/results          # table.md and plots beside rows.csv
python benchmarks/runner/report.py benchmarks/results --docs   # and docs/benchmarks.md brought up to date
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from bars import EQUAL, Rows, at_least, default_rows, fastest, judge, seconds, shown
from rows import SOLVED, Row, read_rows
from units import (
    AXES,
    CHOICE,
    DIRTY,
    GRAMS,
    GROWTH_FIT,
    GROWTH_SURFACE,
    PASS,
    PATH,
    PREDICT,
    ROWS,
    SURFACE,
    TWO_THREADS,
    growth_name,
)

DOCS = Path(__file__).parents[2] / "docs"
GROWTH_SLACK = 0.15
QUIET = 0.5  # load average


def markdown(head: list[str], lines: Iterable[list[str]]) -> str:
    lines = list(lines)
    if not lines:
        return "Not measured in this run."
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *lines])


def times(value: float, sense: str = "") -> str:
    return f"{sense}{value:.3g}x"


def bar_table(rows: Rows) -> str:
    judged = judge(rows)
    head = ["what", "problem", "ratio", "to reach", "holds", "moonshot", "msmtfl (gap)", "against (gap)"]
    reached = sum(line.holds(line.bar[0]) == "yes" for line in judged)
    moon = sum(line.holds(line.bar[1]) == "yes" for line in judged)
    count = f"{reached} of {len(judged)} bars hold, {moon} of them at the moonshot's level.\n\n" if judged else ""
    return count + markdown(head, (line.cells() for line in judged))


def path_table(rows: Rows) -> str:
    solvers = list(dict.fromkeys(row.solver for row in rows.where(work=PATH) if row.solver != "msmtfl"))
    lines = []
    for problem in rows.problems(PATH):
        own, peers = rows.own(problem, PATH), rows.peers(problem, PATH)
        if own is None:
            continue
        usual = peers.where(setting="usual")
        have_default = any(row.setting == "default" for row in peers)
        ratios = [
            ratio_cell(own, usual, SOLVED),
            ratio_cell(own, default_rows(peers), SOLVED) if have_default else "not run",
            ratio_cell(own, peers, EQUAL),
        ]
        cells = [shown((usual.where(solver=name) or [None])[0]) for name in solvers]
        what = f"{problem}: {own.shape}" + ("" if own.data == "generated" else f", {own.data}")
        alone = rows.own(problem, PATH, "solver alone")
        lines.append([what, *ratios, shown(own), seconds(alone.seconds) if alone else "", *cells])
    head = [
        "problem",
        "usual tolerance",
        "default tolerance",
        f"gap <= {EQUAL:g}",
        "msmtfl (gap)",
        "solver alone",
        *solvers,
    ]
    return markdown(head, lines)


def bound_table(rows: Rows) -> str:
    """How far the path is from what it cannot do without."""
    lines = []
    for problem in rows.problems(PASS):
        own, alone = rows.own(problem, PATH), rows.own(problem, PATH, "solver alone")
        least, grams = (rows.where(problem=problem, work=work, setting="") for work in (PASS, GRAMS))
        if own is None or alone is None or not least or least[0].seconds is None:
            continue
        lines.append(
            [
                problem,
                shown(own),
                times(own.seconds / least[0].seconds),
                times(own.seconds / grams[0].seconds) if grams and grams[0].seconds else "",
                f"{100 * (1 - alone.seconds / own.seconds):.0f} %",
            ]
        )
    head = ["problem", "path (gap)", "over one pass X'y", "over all Gram matrices by BLAS", "around the solver"]
    return markdown(head, lines)


def thread_table(rows: Rows) -> str:
    """What a second thread gains: for the surface, and for what bounds it."""
    lines = []
    for problem in rows.problems(TWO_THREADS):
        gains = [(rows.own(problem, SURFACE), rows.own(problem, TWO_THREADS))]
        for work in (PASS, GRAMS):
            found = (
                rows.where(problem=problem, work=work, setting=setting) for setting in ("one thread", "two threads")
            )
            gains.append(tuple(next(iter(of), None) for of in found))
        known = [one is not None and two is not None and one.seconds and two.seconds for one, two in gains]
        lines.append(
            [problem, *(times(one.seconds / two.seconds) if both else "" for (one, two), both in zip(gains, known))]
        )
    return markdown(["problem", "surface", "one pass X'y by numpy", "all Gram matrices by BLAS"], lines)


def ratio_cell(own: Row, rows: Iterable[Row], gap: float) -> str:
    peer, ended = fastest(rows, gap)
    if peer is None:
        return "none so accurate"
    value = at_least(peer) if ended else peer.seconds
    return times(value / own.seconds, ">= " if ended else "") + ("" if ended else f" {peer.solver}")


def other_table(rows: Rows, works: Callable[[str], bool], gap: float) -> str:
    """A line per problem and work, a ratio per peer."""
    chosen = Rows(row for row in rows if works(row.work))
    names = list(dict.fromkeys((row.solver, row.setting) for row in chosen if row.solver != "msmtfl"))
    if any(setting == "usual" for _, setting in names):  # tolerances: the loosest that is accurate enough
        names = [(name, "") for name in dict.fromkeys(name for name, _ in names)]
    lines = []
    for work, problem in dict.fromkeys((row.work, row.problem) for row in chosen):
        own = rows.own(problem, work)
        if own is None:
            continue
        cells = []
        for name, setting in names:
            of_peer = rows.peers(problem, work).where(solver=name)
            peer, ended = fastest(of_peer.where(setting=setting) if setting else of_peer, gap)
            value = None if peer is None else at_least(peer) if ended else peer.seconds
            inaccurate = "gap > " + f"{gap:g}" if of_peer else ""
            cells.append(
                inaccurate if value is None else f"{times(value / own.seconds, '>= ' if ended else '')}, {shown(peer)}"
            )
        lines.append([work, problem, shown(own), "" if own.support is None else str(own.support), *cells])
    titles = [f"{name}{f', {setting}' if setting else ''}" for name, setting in names]
    return markdown(["work", "problem", "msmtfl (gap)", "rows", *titles], lines)


def growth_table(rows: Rows) -> str:
    lines = []
    for axis, sizes, fixed in AXES:
        for work in (GROWTH_FIT, GROWTH_SURFACE):
            found = [(size, rows.own(growth_name({**fixed, axis: size}), work)) for size in sizes]
            found = [(size, row.seconds) for size, row in found if row is not None]
            if len(found) < 2:
                continue
            slope = np.polyfit(*np.log(np.transpose(found)), 1)[0]
            bar, holds = "", ""
            if axis != "d":
                bar, holds = f"1 +- {GROWTH_SLACK}", "yes" if abs(slope - 1.0) <= GROWTH_SLACK else "**no**"
            stays = ", ".join(f"{name}={value:,}" for name, value in fixed.items())
            grows = f"{axis} = {found[0][0]:,} to {found[-1][0]:,}"
            lines.append([work, grows, stays, f"{slope:.2f}", bar, holds, ", ".join(seconds(t) for _, t in found)])
    return markdown(["work", "grows", "stays", "slope", "to reach", "holds", "times"], lines)


def wins(rows: Rows) -> str:
    """Every row of a peer that was faster than ours in the same case, however accurate."""
    lines = []
    for row in rows:
        own = rows.own(row.problem, row.work)
        if row.solver != "msmtfl" and own is not None and row.seconds is not None and row.seconds < own.seconds:
            ratio, setting = own.seconds / row.seconds, row.setting or "-"
            support = "" if row.support is None else f"{own.support} / {row.support}"
            lines.append([row.work, row.problem, f"{ratio:.2f}x", row.solver, setting, shown(row), shown(own), support])
    if not lines:
        return "None in this run."
    head = [
        "work",
        "problem",
        "faster by",
        "who",
        "tolerance",
        "its time (gap)",
        "ours (gap)",
        "rows in use, ours / its",
    ]
    return markdown(head, lines)


def given_up(rows: Rows) -> str:
    lines = [[row.work, row.problem, row.solver, row.setting or "-", row.note] for row in rows if row.seconds is None]
    return markdown(["work", "problem", "who", "tolerance", "why"], lines) if lines else "Nothing."


def about(folder: Path, rows: Rows) -> str:
    facts = json.loads((folder / "machine.json").read_text())
    versions = {row.solver: row.version for row in rows if row.version}
    facts["solvers"] = ", ".join(f"{name} {version}" for name, version in versions.items() if name != "numpy")
    return "\n".join(f"- {name}: {value}" for name, value in facts.items() if value)


def state(folder: Path) -> str:
    facts = json.loads((folder / "machine.json").read_text())
    load = float(facts.get("load before the run") or 0)
    if load <= QUIET:
        return "The machine was otherwise idle when the figures below were taken."
    return f"**Provisional**: in the minute before the figures below were taken the machine had a load of {load:g}."


def tables(folder: Path) -> dict[str, str]:
    rows = Rows(read_rows(folder / "rows.csv"))
    return {
        "bars": bar_table(rows),
        "paths": path_table(rows),
        "bounds": bound_table(rows),
        "threads": thread_table(rows),
        "loops": other_table(rows, lambda work: work == SURFACE, SOLVED),
        "rows": other_table(rows, lambda work: work == ROWS or work.startswith(DIRTY), EQUAL),
        "others": other_table(rows, lambda work: work in (PREDICT, CHOICE), SOLVED),
        "growth": growth_table(rows),
        "wins": wins(rows),
        "given up": given_up(rows),
        "machine": about(folder, rows),
        "state": state(folder),
    }


TITLES = {
    "bars": "Ratios and bars",
    "wins": "Where a peer is faster",
    "paths": "Lasso paths: fastest peer / msmtfl, and times at the usual tolerances",
    "bounds": "Lasso paths against their bounds",
    "threads": "What a second thread gains: time with one / time with two",
    "loops": "The surface against loops around peers: loop / msmtfl",
    "rows": f"L1,2 and Dirty, all at a gap of {EQUAL:g} or less: peer / msmtfl",
    "others": "Other work: peer / msmtfl",
    "growth": "Growth",
    "given up": "Not done",
    "machine": "Machine",
    "state": "State",
}


def write(folder: Path, docs: bool = False) -> None:
    made = tables(folder)
    text = "\n\n".join(f"## {title}\n\n{made[name]}" for name, title in TITLES.items())
    (folder / "table.md").write_text(text + "\n", encoding="utf-8")
    print(f"{made['bars']}\n\n{TITLES['wins']}:\n\n{made['wins']}\n\nrows, tables and plots: {folder}")
    try:
        import plots
    except ImportError as error:
        print(f"no plots: {error}", file=sys.stderr)
        drawn = []
    else:
        drawn = plots.draw(read_rows(folder / "rows.csv"), folder)
    if docs:
        fill(DOCS / "benchmarks.md", made)
        for file in drawn:
            shutil.copy(file, DOCS / f"benchmarks_{file.name}")


def fill(page: Path, made: dict[str, str]) -> None:
    """Puts each table between its two marks; the words around them stay."""
    text = page.read_text(encoding="utf-8")
    for name, table in made.items():
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        if begin in text:
            before, rest = text.split(begin)
            text = f"{before}{begin}\n{table}\n{end}{rest.split(end)[1]}"
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--docs", action="store_true")
    options = parser.parse_args()
    write(options.folder, options.docs)
