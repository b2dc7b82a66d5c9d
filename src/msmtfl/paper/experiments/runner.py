"""Runs experiments: cells in parallel, each one's rows kept on disk as soon as they are there, so that a run that was
stopped goes on where it was, and gives the same rows."""

from __future__ import annotations

import csv
import io
import json
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import joblib

from ..._runtime.drawing import TEXT, pyplot
from ..._runtime.files import remove_unfinished, write_whole
from ..._runtime.progress import Progress, one_blas_thread
from .base import Cell, Claim, Experiment, Row, markdown, versions

FILES = ("rows.csv", "figure.svg", "figure.png", "table.md", "claims.json")


def run(experiment: Experiment, out: Path, *, jobs: int = 1, progress: bool = False) -> list[Claim]:
    """Compute what is missing, then write rows, figure, table and claims to out/<name>; returns the claims."""
    pyplot()  # fail before the work, not after it
    folder = out / experiment.name
    parts = folder / "parts" / experiment.fingerprint
    parts.mkdir(parents=True, exist_ok=True)
    remove_unfinished(parts)
    remove_unfinished(folder)
    cells = experiment.cells()
    missing = [cell for cell in cells if _load(_part(parts, cell)) is None]
    with Progress(len(missing), f"{experiment.name} cells", progress and bool(missing)) as bar:
        tasks = (joblib.delayed(_work)(experiment, cell, _part(parts, cell)) for cell in missing)
        try:
            for _ in joblib.Parallel(n_jobs=min(jobs, max(len(missing), 1)), return_as="generator_unordered")(tasks):
                bar.step()
        finally:
            remove_unfinished(parts)
    rows: list[Row] = []
    for cell in cells:
        found = _load(_part(parts, cell))
        if found is None:
            raise OSError(f"the rows of {cell.key} in {parts} cannot be read back: run again.")
        rows += found
    claims = [replace(claim, quick=experiment.shortened) for claim in experiment.claims(rows)]
    write_whole(folder / "rows.csv", _as_csv(rows))
    write_whole(
        folder / "table.md", f"# {experiment.title}\n\n{experiment.table(rows)}\n## Claims\n\n{as_table(claims)}"
    )
    write_whole(
        folder / "claims.json", json.dumps([asdict(claim) for claim in claims], indent=1, ensure_ascii=False) + "\n"
    )
    save_figure(experiment, rows, folder)
    return claims


def save_figure(experiment: Experiment, rows: list[Row], folder: Path) -> None:
    """figure.svg and figure.png; the same rows give the same bytes."""
    with pyplot().rc_context(TEXT):
        figure = experiment.draw(rows)
        for kind, options in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 200})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, **options)
            write_whole(folder / f"figure.{kind}", buffer.getvalue())


def as_table(claims: list[Claim]) -> str:
    body = [(claim.claim, claim.source, claim.setting, claim.shown, claim.evidence) for claim in claims]
    return markdown(("claim", "whose", "where", "verdict", "evidence"), body)


def _part(parts: Path, cell: Cell) -> Path:
    return parts / f"{cell.key}.json"


def _load(path: Path) -> list[Row] | None:
    """A cell's rows, or None if they are not there (or were damaged)."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, list) and found and all(isinstance(row, dict) for row in found) else None


def _work(experiment: Experiment, cell: Cell, path: Path) -> None:
    """In a process of its own: what fits warn of is in the rows."""
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rows = experiment.work(cell)
    write_whole(path, json.dumps([{**row, "versions": versions()} for row in rows]))


def _as_csv(rows: list[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    table: Any = csv.DictWriter(text, names, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()
