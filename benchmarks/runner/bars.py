"""The bars: which ratios are to be reached (targets set before the code was written), and which are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rows import SOLVED, Row
from units import CV, DIRTY, FIRST_FIT, IMPORT, PATH, ROWS, SHORT_PATH, SURFACE, TWO_THREADS

EXACT = 1e-10  # our gap, for a bar to count as reached
EQUAL = 1e-8  # "equal accuracy": peers get the loosest tolerance tried with a gap of at most this

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
    """The fastest that is accurate enough; if there is none, (row, True) for one that was given up."""
    rows = list(rows)
    done = [row for row in rows if row.solved(gap)]
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
        out += over_peer("path: peer / ours", rows.own(problem, PATH), usual, bar)
    for problem, bar in SURFACE_BARS.items():
        surface, path = rows.own(problem, SURFACE), rows.own(problem, SHORT_PATH)
        out += over_own("surface / path", surface, path, "<=", bar)
    for problem, bar in CV_BARS.items():
        out += over_own("CV of surface / path", rows.own(problem, CV), rows.own(problem, SHORT_PATH), "<=", bar)
    for problem in rows.problems(SURFACE):
        loops = rows.peers(problem, SURFACE)
        out += over_peer("loop / surface", rows.own(problem, SURFACE), loops, LOOP_BAR)
    for problem in rows.problems(TWO_THREADS):
        two = rows.own(problem, TWO_THREADS)
        out += over_own("threads: 1 / 2", two, rows.own(problem, SURFACE), ">=", THREADS_BAR)
    for work in (SHORT_PATH, SURFACE):
        out += memory("memory / X, " + ("surface" if work == SURFACE else "path"), rows.own("wide", work))
    for work, bar in ((IMPORT, IMPORT_BAR), (FIRST_FIT, FIRST_FIT_BAR)):
        own = rows.own("paper", work)
        if own is not None:
            what = "import" if work == IMPORT else "first fit"
            out.append(Judged(what, own.problem, own.seconds, "<=", bar, shown(own), "", unit=" s"))
    for work in (work for work in dict.fromkeys(row.work for row in rows) if work == ROWS or work.startswith(DIRTY)):
        for problem in rows.problems(work):
            own, peers = rows.own(problem, work), rows.peers(problem, work)
            if problem.startswith(("shared", "tiny shared")):
                out += over_peer(f"{work}, one X: peer / ours", own, peers, SHARED_BAR, EQUAL)
            else:
                out += over_peer(f"{work}: FISTA / ours", own, peers.where(solver="FISTA"), FISTA_BAR, EQUAL)
    return out


def memory(what: str, row: Row | None) -> list[Judged]:
    if row is None or row.peak is None:
        return []
    ours, x = f"{row.peak / 1e6:.0f} MB", f"X: {row.x_bytes / 1e6:.0f} MB"
    return [Judged(what, row.problem, row.peak / row.x_bytes, "<=", MEMORY_BAR, ours, x, unit="")]
