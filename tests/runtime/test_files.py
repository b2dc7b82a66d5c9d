"""Files are written whole or not at all, with the permissions that they had."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from msmtfl._runtime import files
from msmtfl._runtime.files import remove_unfinished, write_whole

WINDOWS = os.name == "nt"
posix = pytest.mark.skipif(WINDOWS, reason="permissions and signals of POSIX")


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def leftovers(folder):
    return sorted(name for name in os.listdir(folder) if name.endswith(".unfinished"))


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400, 0o664])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "secret.csv"
    path.write_text("before")
    path.chmod(mode)
    write_whole(path, "after")
    assert path.read_text() == "after"
    assert mode_of(path) == mode


@posix
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "new", b"data")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "new") == 0o666 & ~mask


@posix
def test_the_umask_of_the_process_is_never_touched(tmp_path, monkeypatch):
    """Another thread that makes a file in this moment would make one that everybody can write."""

    def touched(mask):
        raise AssertionError(f"umask({mask})")

    monkeypatch.setattr(os, "umask", touched)
    write_whole(tmp_path / "new", b"data")
    write_whole(tmp_path / "new", b"other data")


def test_data_are_on_the_disk_before_the_new_name_is(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, original=original: (calls.append(name), original(*a))[1])
    write_whole(tmp_path / "new", b"data")
    assert calls[:2] == ["fsync", "replace"]


def test_names_as_long_as_the_system_allows(tmp_path):
    for name in ("n" * 255, "ü" * 127, "n" * 251 + ".csv"):
        try:
            (tmp_path / name).touch()
        except OSError:
            pytest.skip("this system does not allow such names")
        write_whole(tmp_path / name, name)
        assert (tmp_path / name).read_text() == name
    assert not leftovers(tmp_path)


def test_a_link_stays_one(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "target").write_text("before")
    try:
        (tmp_path / "link").symlink_to(tmp_path / "there" / "target")
    except OSError:
        pytest.skip("no links here")
    write_whole(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "target").read_text() == "after"


@posix
def test_a_device_or_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="a pipe, not a file"):
        write_whole(tmp_path / "pipe", b"data")
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    with pytest.raises(OSError, match="a folder, not a file"):
        write_whole(tmp_path, b"data")


def test_an_error_while_writing_leaves_what_was_there(tmp_path, monkeypatch):
    (tmp_path / "old").write_text("before")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "old", b"after")
    assert (tmp_path / "old").read_text() == "before"
    assert not leftovers(tmp_path)


KILLED = """
import os, sys
from msmtfl._runtime import files
os.fsync = lambda handle: os.kill(os.getpid(), 9)
files.write_whole(sys.argv[1], b"half")
"""


@posix
@pytest.mark.slow
def test_what_a_killed_process_left_goes_with_the_next_writing(tmp_path):
    path = tmp_path / ("long name " * 20 + ".json")
    path.write_text("before")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_text() == "before"
    assert len(leftovers(tmp_path)) == 1
    write_whole(path, "after")
    assert path.read_text() == "after"
    assert not leftovers(tmp_path)


@posix
def test_what_others_are_writing_is_not_removed(tmp_path):
    path = tmp_path / "name"
    handle, busy = files._begin(tmp_path, ".name.", 0o600)
    try:
        write_whole(path, b"data")
        remove_unfinished(tmp_path)
        assert busy.exists()
    finally:
        os.close(handle)
    remove_unfinished(tmp_path)
    assert not leftovers(tmp_path)


def test_many_threads_write_the_same_file(tmp_path):
    path, stop, seen = tmp_path / "name", time.monotonic() + 1.0, set()
    errors = []

    def write(letter):
        try:
            while time.monotonic() < stop:
                write_whole(path, letter * 50_000)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abc"]
    for thread in threads:
        thread.start()
    while time.monotonic() < stop:
        if path.exists():
            text = path.read_text()
            seen.add((len(text), len(set(text))))
    for thread in threads:
        thread.join()
    assert not errors
    assert seen == {(50_000, 1)}
    assert not leftovers(tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_to_stays(tmp_path):
    path = tmp_path / "model.json"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="may not be written to"):
        files.write_whole(path, "new")
    assert path.read_text() == "old"
    tmp_path.chmod(0o555)
    with pytest.raises(PermissionError, match="no file may be written in this folder"):
        files.write_whole(tmp_path / "other.json", "new")
    tmp_path.chmod(0o755)
