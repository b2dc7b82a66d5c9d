"""`msmtfl reproduce`: the paper's experiments, from data to verdicts on its claims."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from . import options as o

if TYPE_CHECKING:
    from ..paper.experiments import Claim, Experiment

EXAMPLES = """\b
Examples:
  msmtfl reproduce all --quick
  msmtfl reproduce figure1 --out results --jobs 2
  msmtfl reproduce isolet --data FOLDER --runs 5
  msmtfl reproduce mri --adni table.csv"""
ALL = "all"


def reproduce(
    experiment: str = typer.Argument(help="figure1, figure2, isolet, mri, theory, growth, starts or all."),
    quick: bool = typer.Option(
        False,
        "--quick",
        help="Fewer runs and smaller grids: all in a few minutes on two cores. Verdicts are marked.",
    ),
    runs: int | None = typer.Option(
        None,
        "--runs",
        min=1,
        help="Runs, or random splits of real data. Default: 10 (theory: 20). Verdicts from fewer are marked.",
    ),
    out: Path | None = typer.Option(
        None, "--out", help="Folder for the results. Default: reproduced, with --quick reproduced-quick."
    ),
    jobs: int | None = typer.Option(None, "--jobs", min=1, help="Processes. Default: as many as there are cores."),
    data: Path | None = typer.Option(
        None,
        "--data",
        help="Folder with Isolet (isolet.npz, or the files of UCI). Default: MSMTFL_DATA, then download.",
    ),
    adni: Path | None = typer.Option(
        None, "--adni", help="Table of ADNI's MRI and MMSE. Without it the MRI experiment runs on simulated data."
    ),
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Run the paper's experiments and check its claims.

    Claims of the paper are quoted; controls and statements of this package are told apart from them. Isolet and MRI are
    run in two protocols: the paper's, without intercepts, and ours.

    Every experiment writes rows.csv, figure.svg, figure.png, table.md and claims.json to OUT/EXPERIMENT. A run that was
    stopped goes on where it was when the same command is given again.
    """
    with o.guard("reproduce", quiet):
        import joblib

        from .._runtime.files import write_whole
        from ..paper.experiments import EXPERIMENTS, Isolet, Mri, NotAvailableError, as_table, run

    if experiment != ALL and experiment not in EXPERIMENTS:
        raise typer.BadParameter(f"no experiment {experiment!r}: {', '.join(EXPERIMENTS)} or {ALL}.")
    for path, option in ((data, "--data"), (adni, "--adni")):
        if path is not None and not path.exists():
            raise typer.BadParameter(f"{path} does not exist.", param_hint=option)
    folder = out or Path("reproduced-quick" if quick else "reproduced")
    names = list(EXPERIMENTS) if experiment == ALL else [experiment]
    specs: list[Experiment] = []
    for name in names:
        spec: Experiment = EXPERIMENTS[name]()
        if isinstance(spec, Isolet) and data is not None:
            spec = Isolet(folder=str(data))
        if isinstance(spec, Mri) and adni is not None:
            spec = Mri(table_path=str(adni))
        spec = spec.quick() if quick else spec
        specs.append(spec if runs is None else spec.repeated(runs))
    workers = jobs or joblib.cpu_count()
    claims: dict[str, list[Claim]] = {}
    absent: dict[str, str] = {}
    began = time.monotonic()
    with o.guard("reproduce", quiet):
        for spec in specs:  # data that cannot be read are found before the work
            try:
                _ = spec.fingerprint
            except NotAvailableError as error:
                absent[spec.name] = f"{error} Here: --data FOLDER."
        try:
            for spec in specs:
                if spec.name not in absent:
                    claims[spec.name] = run(spec, folder, jobs=workers, progress=o.talks(quiet, as_json))
        except KeyboardInterrupt:
            o.tell("\nStopped. What was computed is kept: the same command goes on from here.")
            raise typer.Exit(o.INTERRUPTED) from None
        if claims and experiment == ALL:
            every = "\n".join(f"## {name}\n\n{as_table(found)}" for name, found in claims.items())
            left = "".join(f"\nNot run: {name}. {why}\n" for name, why in absent.items())
            write_whole(folder / "claims.md", f"# The paper's claims, checked\n\n{every}{left}")
    if as_json:
        told = {name: [asdict(claim) for claim in found] for name, found in claims.items()}
        typer.echo(json.dumps({"folder": str(folder), "claims": told, "not_run": absent}, indent=1))
    elif not quiet:
        for name, found in claims.items():
            _show(name, found)
        if claims:
            typer.echo(f"{time.monotonic() - began:.0f} s. Figures, tables and rows: {folder}")
    for name, why in absent.items():
        o.tell(f"Not run: {name}. {why}")
    if absent and experiment != ALL:
        raise typer.Exit(1)


def _show(name: str, claims: list[Claim]) -> None:
    """The verdicts, as a table for people."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=name, title_justify="left", show_lines=False, expand=False)
    for head in ("claim", "whose", "where", "verdict", "evidence"):
        table.add_column(head, overflow="fold")
    colours = {"holds": "green", "does not hold": "red", "partly": "yellow"}
    for claim in claims:
        verdict = Text(claim.shown, style=colours.get(claim.verdict, "dim"))
        table.add_row(Text(claim.claim), Text(claim.source), Text(claim.setting), verdict, Text(claim.evidence))
    Console().print(table)
