"""The `msmtfl` command (extra `cli`: typer and rich)."""

from __future__ import annotations

import typer

from . import __version__

app = typer.Typer(
    name="msmtfl",
    help="Sparse linear models for many related tasks: multi-stage multi-task feature learning.",
    epilog="Examples:  msmtfl            (the demo)  |  msmtfl demo  |  msmtfl --version",
    add_completion=False,
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
    """Sparse linear models for many related tasks. Without a command: the demo."""
    if context.invoked_subcommand is None:
        demo()


@app.command(epilog="Example:  msmtfl demo")
def demo() -> None:
    """Fit 442 diabetes patients in six groups: shared features, what sharing gained, the certificate (ten seconds)."""
    from . import demo as demonstration

    demonstration.main()
