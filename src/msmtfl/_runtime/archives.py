"""Zip archives of plain arrays: written without compression, and read without believing anything. No member can be larger
than the file, and the size of an array is checked before it is made."""

from __future__ import annotations

import io
import math
import os
import re
import stat
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from .files import special

MEMBER = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)*", re.ASCII)
KINDS = "biufU"  # of arrays: numbers, booleans and text; no objects


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """A file, open to be read; an error if it is a device or a pipe, which may have no end, or never begin."""
    kind = special(os.stat(path).st_mode)
    if kind is not None:
        raise ValueError(f"it is {kind}.")
    file = open(path, "rb")  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ValueError("it is not a file.")
    return file


def pack(members: Mapping[str, bytes]) -> bytes:
    """Members, by their names, as an archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)  # without a time: the same members make the same file
    return file.getvalue()


def unpack(file: BinaryIO, size: int) -> dict[str, bytes]:
    """The members of an archive of so many bytes."""
    try:
        return _unpack(file, size)
    except RefusedError:
        raise
    except Exception as error:  # zipfile has many, and adds to them
        raise ValueError(f"the zip archive is damaged or cut off ({str(error) or type(error).__name__}).") from error


class RefusedError(ValueError):
    """An archive that is none of ours."""


def _unpack(file: BinaryIO, size: int) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        seen: set[str] = set()
        for info in infos:
            member = f"member {info.filename!r} of the zip archive"
            _need(bool(MEMBER.fullmatch(info.filename)), f"{member} has a name that is not allowed")
            stored = info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size
            _need(stored, f"{member} is compressed, as such files never are. To pack one again use zip -0")
            _need(info.filename not in seen, f"{member} occurs twice")
            seen.add(info.filename)
        _need(sum(info.file_size for info in infos) <= size, "members of the zip archive overlap")
        return {info.filename: archive.read(info) for info in infos}


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise RefusedError(f"{message}.")


def array_bytes(values: np.ndarray) -> bytes:
    """An array as a .npy file of version 1.0, little-endian and in C order."""
    file = io.BytesIO()
    little = np.asarray(values, dtype=values.dtype.newbyteorder("<"), order="C")
    np.lib.format.write_array(file, little, version=(1, 0), allow_pickle=False)
    return file.getvalue()


def read_array(data: bytes) -> np.ndarray:
    """The array of a .npy file of version 1.0."""
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"the version of .npy must be 1.0, not {'.'.join(map(str, version))}")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    except Exception as error:  # the header is parsed as Python
        raise ValueError(f"is not an array: {str(error) or type(error).__name__}") from error
    if fortran or dtype.kind not in KINDS or dtype.byteorder == ">" or not _is_shape(shape):
        raise ValueError(f"is an array of {dtype} that cannot be read: plain numbers or text in C order are expected")
    size, wanted = len(data) - file.tell(), math.prod(shape) * dtype.itemsize
    if size != wanted:
        raise ValueError(f"has {size} bytes of numbers, its shape {list(shape)} needs {wanted}")
    return np.frombuffer(data, dtype=dtype, offset=file.tell()).reshape(shape).astype(dtype.newbyteorder("="))


def _is_shape(shape: Any) -> bool:
    return len(shape) <= 8 and all(size >= 0 for size in shape)
