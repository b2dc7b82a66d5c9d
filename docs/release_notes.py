"""The notes of a release from CHANGELOG.md (`make release-notes`), and whether a tag may be released (`make check-tag`).

python docs/release_notes.py                  # the notes of the version in src/msmtfl/VERSION
python docs/release_notes.py --check v1.2.3   # is that this version, and does the changelog say that it is released?
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def section(changelog: str, version: str) -> tuple[str, str]:
    """Title and text of a version's section."""
    for part in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        if title.split() and title.split()[0] == version:
            return title.strip(), text.strip()
    raise SystemExit(f"CHANGELOG.md has no section for {version}: add one that begins '## {version}'.")


def check(tag: str, changelog: str, version: str) -> None:
    """End with a message unless the tag is this version's and its section has a date."""
    if tag != f"v{version}":
        raise SystemExit(f"the tag is {tag}, and src/msmtfl/VERSION says {version}: the tag has to be v{version}.")
    title, _ = section(changelog, version)
    if not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", title):
        raise SystemExit(f"the title of the section in CHANGELOG.md is '{title}', not '{version} (YYYY-MM-DD)'.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="TAG", help="the tag that is about to be released")
    tag = parser.parse_args().check
    version = (ROOT / "src" / "msmtfl" / "VERSION").read_text(encoding="utf-8").strip()
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if tag is None:
        print(section(changelog, version)[1])
    else:
        check(tag, changelog, version)


if __name__ == "__main__":
    main()
