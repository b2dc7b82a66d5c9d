"""The document of a model as bytes: JSON, its checksum, and what is found in a file."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from .._runtime.archives import open_file, unpack
from .layout import DOCUMENT, Node
from .values import need


def as_json(document: dict[str, Node]) -> bytes:
    try:
        return _lines(document, 0, False).encode() + b"\n"
    except UnicodeEncodeError:  # half a character in a name
        return _lines(document, 0, True).encode() + b"\n"


def _lines(node: Node, indent: int, ascii_only: bool) -> str:
    """JSON with a line per entry, but for what fits in a line and for lists of scalars."""
    if isinstance(node, dict) and node:
        keys = [json.dumps(key, ensure_ascii=ascii_only) for key in node]
        parts = [f"{key}: {_lines(one, indent + 2, ascii_only)}" for key, one in zip(keys, node.values(), strict=True)]
        begin, end = "{}"
    elif isinstance(node, list) and any(isinstance(one, (dict, list)) for one in node):
        parts = [_lines(one, indent + 2, ascii_only) for one in node]
        begin, end = "[]"
    else:
        return json.dumps(node, ensure_ascii=ascii_only, allow_nan=False)
    if sum(map(len, parts)) < 100 - indent and not any("\n" in part for part in parts):
        return f"{begin}{', '.join(parts)}{end}"
    line = "\n" + " " * indent
    return f"{begin}{line}  " + f",{line}  ".join(parts) + f"{line}{end}"


def open_model(path: Path) -> tuple[Node, dict[str, bytes], bool]:
    """The document of a file, the members of its archive, and whether it is one, which has checksums of its own."""
    with open_file(path) as file:
        start = file.read(2)
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if start != b"PK":
            return parse(file.read(), "this is neither a zip archive nor JSON"), {}, False
        members = unpack(file, size)
    if DOCUMENT not in members:
        raise ValueError(f"the zip archive holds no {DOCUMENT}: it is not a model of msmtfl.")
    return parse(members.pop(DOCUMENT), f"{DOCUMENT} in it is not JSON"), members, True


def checksum(document: dict[str, Node]) -> str:
    rest = {key: node for key, node in document.items() if key != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def check_sum(document: dict[str, Node]) -> bool:
    """Whether the document has a checksum; an error if it has the wrong one."""
    need(
        "checksum" not in document or document["checksum"] == checksum(document),
        "its content does not have the checksum that it should: the file is damaged, or somebody changed it. Get it anew, "
        'or, if the change was meant, delete the entry "checksum"',
    )
    return "checksum" in document


def parse(data: bytes, otherwise: str) -> Node:
    def refuse(text: str) -> None:
        raise ValueError(f"{text} is not JSON")

    def unique(pairs: list[tuple[str, Node]]) -> dict[str, Node]:
        out = dict(pairs)
        need(len(out) == len(pairs), "a key occurs twice in an object")
        return out

    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=refuse, object_pairs_hook=unique)
    except RecursionError as error:
        raise ValueError(f"{otherwise}: nested too deeply.") from error
    except ValueError as error:
        raise ValueError(f"{otherwise}, or damaged or cut off ({error}).") from error
