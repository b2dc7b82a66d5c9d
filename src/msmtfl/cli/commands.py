"""The `msmtfl` command: all its commands. They import what they need when they run."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from . import comparing, fitting, papers, reproducing, using
from .inputs.data import InputError
from .options import emit, guard
from .parser import SHELLS, completion_script

app = typer.Typer(
    name="msmtfl",
    help="Sparse linear models for many related tasks: multi-stage multi-task feature learning.",
    epilog="""\b
Examples:
  msmtfl demo
  msmtfl fit scores.csv --target score --task school --out model.msmtfl --report page.html
  msmtfl predict model.msmtfl new.csv
  msmtfl COMMAND --help""",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"msmtfl {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Print the version."),
) -> None:
    """Sparse linear models for many related tasks: which features matter, in which tasks, and how sure that is."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(
    epilog="\b\nExample:\n  msmtfl demo", short_help="Show a first result: 442 diabetes patients in six groups."
)
def demo() -> None:
    """Fit 442 diabetes patients in six groups: shared features, what sharing gained, the certificate (ten seconds)."""
    with guard("demo"):
        from .. import demo as demonstration

        demonstration.main()


for command, examples, short in (  # short: one line of the list of commands, at 80 columns
    (fitting.fit, fitting.EXAMPLES, "Fit a model to a table; parameters by cross-validation."),
    (using.predict, using.PREDICT, "Predict: one line per row of DATA, in its order."),
    (using.inspect, using.INSPECT, "Say what a model file holds, and what is shared."),
    (using.report, using.REPORT, "Make the HTML report of a model file: it works offline."),
    (papers.table, papers.TABLE, "Make a table of the coefficients for a paper."),
    (papers.plot, papers.PLOT, "Draw a model file for a paper, as PDF, SVG or PNG."),
    (comparing.compare, comparing.COMPARE, "Did sharing help, and for whom? All models on the same rows."),
    (comparing.surface, comparing.SURFACE, "Solve MSMTFL on the whole grid of lam and theta."),
    (reproducing.reproduce, reproducing.EXAMPLES, "Run the paper's experiments and check its claims."),
):
    app.command(epilog=examples, short_help=short)(command)


@app.command(
    epilog="\b\nExample:\n  msmtfl completion bash >> ~/.bashrc",
    short_help="Print what makes a shell complete commands and options.",
)
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print what makes a shell complete commands and options: add it to the file that the shell reads at its start."""
    with guard("completion"):
        if shell not in SHELLS:
            raise InputError(f"no shell {shell!r}. Known: {', '.join(SHELLS)}.")
        emit(completion_script(app, shell), data=True)
