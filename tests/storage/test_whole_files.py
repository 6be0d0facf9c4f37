"""Files that appear whole or not at all: several writers at once, those that were killed, a disk that is full."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from budgetfrontier.storage.whole_files import atomic_file, naming_file


def leftover(path: Path) -> Path:
    """What a process that was killed has left."""
    file = path.with_name(path.name + ".01234567.partial")
    file.write_bytes(b"half")
    return file


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new"
    with atomic_file(path) as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole" and os.listdir(tmp_path) == ["new"]


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), atomic_file(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["old"]


def test_several_at_once_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "new"
    with atomic_file(path) as first:
        first.write(b"fir")
        with atomic_file(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
        first.write(b"st")
    assert path.read_bytes() == b"first" and os.listdir(tmp_path) == ["new"]


def test_what_was_left_by_a_kill_is_removed_and_nothing_else(tmp_path: Path) -> None:
    path, others = tmp_path / "new", [tmp_path / "newer.01234567.partial", tmp_path / "new.partial"]
    leftover(path)
    for other in others:
        other.touch()
    with atomic_file(path):
        pass
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])


def test_a_file_that_is_taken_for_a_leftover_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process writes the same one, and finds it before it is locked."""
    path, lock = tmp_path / "new", fcntl.flock
    writers = iter([atomic_file])

    def late(fd: int, operation: int) -> None:
        for writer in writers:
            with writer(path) as file:
                file.write(b"another's")
        lock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with atomic_file(path) as file:
        file.write(b"whole")
    assert list(writers) == []
    assert path.read_bytes() == b"whole" and os.listdir(tmp_path) == ["new"]


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new"
    with pytest.raises(OSError) as caught, atomic_file(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.filename == str(path) and os.listdir(tmp_path) == []
    with pytest.raises(OSError) as caught, naming_file(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "elsewhere")
    assert caught.value.filename == "elsewhere"


def test_where_nothing_can_be_made_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, atomic_file(tmp_path / "no" / "new"):
        pass
    assert "no" in str(caught.value)
