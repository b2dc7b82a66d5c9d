"""Checks a built site: links and anchors inside it exist, and no page loads anything from the network.

python docs/check_site.py docs/_build/html
python docs/check_site.py site               # with the versions beside each other (make docs-site)
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}
FETCH = re.compile(r"""url\(\s*["']?(https?:)?//|@import\s+["']?(https?:)?//""")
NOT_LOADED = {"canonical", "next", "prev", "search", "index", "author", "copyright"}  # kinds of <link> for readers


class Page(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        for name in ("src", "href", "srcset"):
            if name not in values:
                continue
            if name == "srcset":
                self.loads += [part.split()[0] for part in values[name].split(",") if part.strip()]
            elif (tag, name) in LOADS and values.get("rel") not in NOT_LOADED:
                self.loads.append(values[name])


def problems(site: Path) -> list[str]:
    pages = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
        if "_static" not in path.parts  # templates of the theme
    }
    out = []
    for path, page in pages.items():
        where = path.relative_to(site)
        for address in page.loads + page.links:
            parts = urlsplit(address)
            if address in page.loads and (parts.scheme in ("http", "https") or address.startswith("//")):
                out.append(f"{where}: loads {address}")
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                out.append(f"{where}: {address} does not exist")
            elif "_modules" in path.parts:  # links back from the source lead to the page, not always to the place
                continue
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                out.append(f"{where}: {address} has no such place")
    return out + [
        f"{path.relative_to(site)}: fetches from the network"
        for path in sorted(site.rglob("*.css"))
        if FETCH.search(path.read_text(encoding="utf-8"))
    ]


if __name__ == "__main__":
    found = problems(Path(sys.argv[1]).resolve())
    print("\n".join(found) or "links and anchors are fine; nothing is loaded from the network")
    sys.exit(bool(found))
