"""The report, from the rows alone: ratios first, each with its bar; every case in which a peer wins; plots.

python benchmarks/report.py benchmarks/results          # table.md and plots beside rows.csv
python benchmarks/report.py benchmarks/results --docs   # and docs/benchmarks.md brought up to date
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rows import Row, read_rows
from units import (
    AXES,
    CHOICE,
    CV,
    DIRTY,
    FIRST_FIT,
    GROWTH_FIT,
    GROWTH_SURFACE,
    IMPORT,
    PATH,
    PREDICT,
    ROWS,
    SHORT_PATH,
    SURFACE,
    TWO_THREADS,
)

EXACT = 1e-10  # our gap, for a bar to count as reached
SOLVED = 1e-3  # a peer's gap beyond which its time does not count
EQUAL = 1e-8  # "equal accuracy": peers get the loosest tolerance tried with a gap of at most this
DOCS = Path(__file__).parent.parent / "docs"

# to reach, moonshot
PATH_BARS = {
    "paper": (10, 30),
    "m=5": (4, 10),
    "wide": (5, 10),
    "tall": (1.3, 1.6),
    "Isolet 3e-2": (15, 30),
    "Isolet 3e-3": (60, 150),
    "school": (15, 50),
}
SURFACE_BARS = {"m=5": (2, 1.2), "wide": (3.5, 2), "Isolet 3e-2": (6, 3), "school": (7, 3)}
CV_BARS = {"m=5": (8, 4), "Isolet 3e-2": (20, 8)}
LOOP_BAR, THREADS_BAR, MEMORY_BAR = (50, 200), (1.6, 1.9), (0.35, 0.1)
IMPORT_BAR, FIRST_FIT_BAR = (0.1, 0.03), (0.2, 0.05)
SHARED_BAR, FISTA_BAR = (1, 1), (10, 10)
GROWTH_SLACK = 0.15


# ------------------------------------------------------------------ choosing rows


class Rows(list):
    def where(self, **wanted) -> Rows:
        return Rows(row for row in self if all(getattr(row, key) == value for key, value in wanted.items()))

    def own(self, problem: str, work: str, setting: str = "") -> Row | None:
        found = self.where(problem=problem, work=work, solver="msmtfl", setting=setting)
        return found[0] if found and found[0].seconds is not None else None

    def peers(self, problem: str, work: str) -> Rows:
        return Rows(row for row in self.where(problem=problem, work=work) if row.solver != "msmtfl")

    def problems(self, work: str) -> list[str]:
        return list(dict.fromkeys(row.problem for row in self if row.work == work))


def fastest(rows: Iterable[Row], gap: float = SOLVED) -> tuple[Row | None, bool]:
    """The fastest that is accurate enough; (row, True) for the one that was given up last, if none was done."""
    rows = list(rows)
    done = [row for row in rows if row.seconds is not None and (row.gap is None or row.gap <= gap)]
    if done:
        return min(done, key=lambda row: row.seconds), False
    ended = [row for row in rows if at_least(row) is not None]
    return (min(ended, key=at_least), True) if ended else (None, False)


def at_least(row: Row) -> float | None:
    """Seconds after which it was given up."""
    found = re.fullmatch(r"> ([\d.]+) s", row.note)
    return float(found[1]) if found else None


def default_rows(rows: Rows) -> list[Row]:
    """Peers at their own default tolerance, which for some is the usual one."""
    with_default = {row.solver for row in rows if row.setting == "default"}
    return [row for row in rows if row.setting == ("default" if row.solver in with_default else "usual")]


# ------------------------------------------------------------------ words


def seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"


def shown(row: Row | None) -> str:
    if row is None:
        return ""
    if row.seconds is None:
        return row.note if at_least(row) else "failed"
    return seconds(row.seconds) + ("" if row.gap is None else f" ({max(row.gap, 1e-16):.0e})")


def named(row: Row | None) -> str:
    if row is None:
        return ""
    setting = "" if row.setting in ("", "usual") else f", {row.setting}"
    return f"{row.solver}{setting}: {shown(row)}"


def markdown(head: list[str], lines: Iterable[list[str]]) -> str:
    lines = list(lines)
    if not lines:
        return "Not measured in this run."
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *lines])


def times(value: float, sense: str = "") -> str:
    return f"{sense}{value:.3g}x"


# ------------------------------------------------------------------ bars


@dataclass(frozen=True)
class Judged:
    work: str
    problem: str
    ratio: float
    sense: str  # the ratio should be ">=" or "<=" the bar
    bar: tuple[float, float]
    ours: str
    other: str
    exact: bool = True
    unit: str = "x"
    bound: str = ""  # ">= " where the other was given up

    def holds(self, bar: float) -> str:
        if not self.exact:
            return "**no**, our gap"
        good = self.ratio >= bar if self.sense == ">=" else self.ratio <= bar
        return "yes" if good else "open" if self.bound else "**no**"

    def cells(self) -> list[str]:
        ratio = f"{self.bound}{self.ratio:.3g}{self.unit}"
        reach, moon = self.bar
        target = f"{self.sense} {reach:g}{self.unit}"
        return [
            self.work,
            self.problem,
            ratio,
            target,
            self.holds(reach),
            f"{moon:g}{self.unit}",
            self.ours,
            self.other,
        ]


def over_peer(work: str, own: Row | None, rows: Iterable[Row], bar, gap: float = SOLVED) -> list[Judged]:
    peer, ended = fastest(rows, gap)
    if own is None or peer is None:
        return []
    ratio = (at_least(peer) if ended else peer.seconds) / own.seconds
    bound, exact = (">= " if ended else ""), own.gap is None or own.gap <= EXACT
    return [Judged(work, own.problem, ratio, ">=", bar, shown(own), named(peer), exact, bound=bound)]


def over_own(work: str, own: Row | None, base: Row | None, sense: str, bar) -> list[Judged]:
    if own is None or base is None:
        return []
    ratio = own.seconds / base.seconds if sense == "<=" else base.seconds / own.seconds
    return [Judged(work, own.problem, ratio, sense, bar, shown(own), f"{base.work}: {shown(base)}")]


def judge(rows: Rows) -> list[Judged]:
    out: list[Judged] = []
    for problem, bar in PATH_BARS.items():
        usual = rows.peers(problem, PATH).where(setting="usual")
        out += over_peer("lasso path, fastest peer / msmtfl", rows.own(problem, PATH), usual, bar)
    for problem, bar in SURFACE_BARS.items():
        surface, path = rows.own(problem, SURFACE), rows.own(problem, SHORT_PATH)
        out += over_own("surface / its own path", surface, path, "<=", bar)
    for problem, bar in CV_BARS.items():
        out += over_own("CV of the surface / one path", rows.own(problem, CV), rows.own(problem, SHORT_PATH), "<=", bar)
    for problem in rows.problems(SURFACE):
        loops = rows.peers(problem, SURFACE)
        out += over_peer("best loop around a peer / surface", rows.own(problem, SURFACE), loops, LOOP_BAR)
    for problem in rows.problems(TWO_THREADS):
        two = rows.own(problem, TWO_THREADS)
        out += over_own("one thread / two, surface", two, rows.own(problem, SURFACE), ">=", THREADS_BAR)
    for work in (SHORT_PATH, SURFACE):
        out += memory("peak memory / X, " + ("surface" if work == SURFACE else "path"), rows.own("wide", work))
    for work, bar in ((IMPORT, IMPORT_BAR), (FIRST_FIT, FIRST_FIT_BAR)):
        own = rows.own("paper", work)
        if own is not None:
            what = "import beyond scikit-learn's" if work == IMPORT else "first fit beyond import"
            out.append(Judged(what, own.problem, own.seconds, "<=", bar, shown(own), "", unit=" s"))
    for work in (work for work in dict.fromkeys(row.work for row in rows) if work == ROWS or work.startswith(DIRTY)):
        for problem in rows.problems(work):
            own, peers = rows.own(problem, work), rows.peers(problem, work)
            if problem.startswith(("shared", "tiny shared")):
                out += over_peer(f"{work}, one X: fastest peer / msmtfl", own, peers, SHARED_BAR, EQUAL)
            else:
                out += over_peer(f"{work}: plain FISTA / msmtfl", own, peers.where(solver="FISTA"), FISTA_BAR, EQUAL)
    return out


def memory(what: str, row: Row | None) -> list[Judged]:
    if row is None or row.peak is None:
        return []
    ours, x = f"{row.peak / 1e6:.0f} MB", f"X: {row.x_bytes / 1e6:.0f} MB"
    return [Judged(what, row.problem, row.peak / row.x_bytes, "<=", MEMORY_BAR, ours, x, unit="")]


# ------------------------------------------------------------------ tables


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


def ratio_cell(own: Row, rows: Iterable[Row], gap: float) -> str:
    peer, ended = fastest(rows, gap)
    if peer is None:
        return "none"
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


def growth_name(size: dict[str, int]) -> str:
    return f"m={size['m']} n={size['n']} d={size['d']}"


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


def tables(folder: Path) -> dict[str, str]:
    rows = Rows(read_rows(folder / "rows.csv"))
    return {
        "bars": bar_table(rows),
        "paths": path_table(rows),
        "loops": other_table(rows, lambda work: work == SURFACE, SOLVED),
        "rows": other_table(rows, lambda work: work == ROWS or work.startswith(DIRTY), EQUAL),
        "others": other_table(rows, lambda work: work in (PREDICT, CHOICE), SOLVED),
        "growth": growth_table(rows),
        "wins": wins(rows),
        "given up": given_up(rows),
        "machine": about(folder, rows),
    }


TITLES = {
    "bars": "Ratios and bars",
    "wins": "Where a peer is faster",
    "paths": "Lasso paths: fastest peer / msmtfl, and times at the usual tolerances",
    "loops": "The surface against loops around peers: loop / msmtfl",
    "rows": f"L1,2 and Dirty, all at a gap of {EQUAL:g} or less: peer / msmtfl",
    "others": "Other work: peer / msmtfl",
    "growth": "Growth",
    "given up": "Not done",
    "machine": "Machine",
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
