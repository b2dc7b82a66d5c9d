"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows, where an open file can be neither replaced nor removed
    fcntl = None  # type: ignore[assignment]

ENDING = ".unfinished"
STEM = 64  # bytes of a file's name that its temporary one begins with: names may have 255, on some systems fewer


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write to a temporary file beside `path`, then put it in its place: see `whole_file`."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A temporary file beside `path`, to be written to, that takes its place at the end: nobody ever sees half of it, not
    even after a power cut. A file that is replaced leaves its permissions to the new one. What processes that were killed
    have left of earlier attempts goes."""
    path = Path(os.path.realpath(path))  # a link stays one: what it points to is replaced
    before = _replaced(path)
    prefix = _prefix(path.name)
    _remove(path.parent, prefix)
    handle, temporary = _begin(path.parent, prefix, 0o666 if before is None else 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if before is not None:
                _take_over(temporary, before)
            os.fsync(handle)
            if fcntl is None:
                file.close()
            os.replace(temporary, path)  # still locked: nobody takes it for left behind
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def remove_unfinished(folder: Path) -> None:
    """What processes that were killed while they wrote have left behind; files that are being written stay."""
    _remove(folder, ".")


def _replaced(path: Path) -> os.stat_result | None:
    """What stands where a file is to be written."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    kind = special(found.st_mode)
    if kind is not None:
        raise OSError(f"{path} is {kind}; give the name of a file.")
    if not os.access(path, os.W_OK):  # renaming would replace it all the same
        raise PermissionError(errno.EACCES, "this file may not be written to", str(path))
    return found


def special(mode: int) -> str | None:
    """What a path is that is no file, given the mode that `os.stat` says; None for a file."""
    kinds = {stat.S_ISDIR: "a folder", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device"}
    kinds |= {stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket"}
    return next((f"{kind}, not a file" for test, kind in kinds.items() if test(mode)), None)


def _prefix(name: str) -> str:
    return f".{os.fsencode(name)[:STEM].decode(errors='ignore')}."


def _begin(folder: Path, prefix: str, mode: int) -> tuple[int, Path]:
    """A new file, open and locked. The system takes off of its mode what the user's umask says."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    while True:
        path = folder / f"{prefix}{secrets.token_hex(4)}{ENDING}"
        try:
            handle = os.open(path, flags, mode)
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            raise PermissionError(error.errno, "no file may be written in this folder", str(folder)) from None
        if _lock(handle):
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    return handle, path
        os.close(handle)  # somebody took it for left behind before it was locked
        with suppress(FileNotFoundError):
            path.unlink()


def _lock(handle: int) -> bool:
    """Whether nobody else has the file locked; where files cannot be locked, nobody has."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _take_over(path: Path, before: os.stat_result) -> None:
    """Owner and permissions of the file that is replaced. Where the group cannot be had, members of ours may do no more than
    everybody might."""
    mode, chown = stat.S_IMODE(before.st_mode), getattr(os, "chown", None)
    if chown is not None:
        with suppress(OSError):
            chown(path, -1, before.st_gid)
        with suppress(OSError):
            chown(path, before.st_uid, -1)
        if os.stat(path).st_gid != before.st_gid:
            mode = mode & ~0o070 | (mode & 0o007) << 3
    os.chmod(path, mode)


def _remove(folder: Path, prefix: str) -> None:
    """Temporary files with names that begin so and that nobody writes."""
    with suppress(OSError), os.scandir(folder) as entries:
        old = [entry.path for entry in entries if entry.name.startswith(prefix) and entry.name.endswith(ENDING)]
        for path in old:
            _remove_if_left(Path(path))


def _remove_if_left(path: Path) -> None:
    with suppress(OSError):
        if fcntl is None:
            path.unlink()  # an error where it is open
            return
        handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Have the new name on the disk, where that can be asked for."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
