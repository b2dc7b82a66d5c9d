"""Puts a built site beside those of other versions, and lists them: `make docs-site`.

    python docs/versions.py docs/_build/html site

The list is plain HTML, so that the folder works without a server.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>msmtfl: documentation</title>
<style>body {{ font: 1.1rem/1.6 sans-serif; max-width: 40rem; margin: 3rem auto; padding: 0 1rem }}</style>
<h1>msmtfl</h1>
<p>The documentation of every version:</p>
<ul>
{items}
</ul>
</html>
"""


def order(version: str) -> list[tuple[int, str]]:
    """0.10 is after 0.9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in version.split(".")]


def publish(built: Path, site: Path, version: str) -> None:
    site.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(site / version, ignore_errors=True)
    shutil.copytree(built, site / version, ignore=shutil.ignore_patterns(".doctrees", ".buildinfo"))
    versions = sorted((path.parent.name for path in site.glob("*/index.html")), key=order, reverse=True)
    items = "\n".join(f'<li><a href="{name}/index.html">{name}</a></li>' for name in versions)
    (site / "index.html").write_text(PAGE.format(items=items), encoding="utf-8")


if __name__ == "__main__":
    number = (Path(__file__).parents[1] / "src" / "msmtfl" / "VERSION").read_text(encoding="utf-8").strip()
    publish(Path(sys.argv[1]), Path(sys.argv[2]), number)
    print(f"{sys.argv[2]}/{number}; all versions: {sys.argv[2]}/index.html")
