"""`python -m msmtfl` and the `msmtfl` command."""

from __future__ import annotations

import gc
import sys

from ._runtime import started

__all__ = ["main", "started"]  # `started` notes the time, before what takes long is imported


def main() -> None:
    try:
        from .cli import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "click"):
            raise
        _without_extra(sys.argv[1:])
        return
    try:
        app()
    finally:
        gc.freeze()  # what was imported need not be looked through before the process ends: 0.3 s of every command


def _without_extra(arguments: list[str]) -> None:
    """The demo needs nothing more; everything else says what to install."""
    hint = 'The msmtfl command needs the extra "cli": pip install "msmtfl[cli]"'
    if arguments not in ([], ["demo"]):
        print(hint, file=sys.stderr)
        sys.exit(2)
    from . import demo

    demo.main()
    print(hint, file=sys.stderr)


if __name__ == "__main__":
    main()
