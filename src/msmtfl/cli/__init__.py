"""The `msmtfl` command (extra `cli`: typer, rich, pandas and pyarrow)."""

from .commands import app

__all__ = ["app"]
