"""Locks on bytes of a file: another descriptor that is closed does not end them, and a fork does not inherit them."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from budgetfrontier.storage import file_locks
from budgetfrontier.storage.file_locks import LockFile, holder_of
from tests.crash.processes import Child, in_child


def can_lock(path: Path, byte: int = 0, *, shared: bool = False) -> bool:
    """Whether another process gets a lock, by the kind of lock that it would take anyway, and by the old kind."""

    def attempt(*, for_process: bool) -> bool:
        file = LockFile(path)
        try:
            (file.lock_for_process if for_process else file.lock)(byte, shared=shared)
        except BlockingIOError:
            return False
        finally:
            file.close()
        return True

    found: bool = in_child(lambda: attempt(for_process=False)).answer
    assert in_child(lambda: attempt(for_process=True)).answer == found, "both kinds of locks exclude each other"
    return found


@pytest.fixture
def file(tmp_path: Path) -> LockFile:
    return LockFile(tmp_path / "lock", create=True)


def test_a_lock_excludes_others_from_its_byte_until_the_file_is_closed(tmp_path: Path, file: LockFile) -> None:
    path = tmp_path / "lock"
    assert can_lock(path)
    file.lock(0)
    assert not can_lock(path) and not can_lock(path, shared=True) and can_lock(path, 1)
    file.close()
    file.close()
    assert can_lock(path)
    with pytest.raises(OSError, match="closed"):
        file.fileno()


def test_shared_locks_exclude_only_those_who_want_the_byte_alone(tmp_path: Path, file: LockFile) -> None:
    file.lock(7, shared=True)
    assert can_lock(tmp_path / "lock", 7, shared=True) and not can_lock(tmp_path / "lock", 7)
    file.close()


@pytest.mark.skipif(file_locks._OFD_SETLK is None, reason="this system has only POSIX locks")
def test_a_lock_outlasts_other_descriptors_of_its_file(tmp_path: Path, file: LockFile) -> None:
    assert file.lock(0), "it belongs to the open file"
    (tmp_path / "lock").read_bytes()
    assert not can_lock(tmp_path / "lock")
    file.close()


def test_a_forked_child_inherits_no_lock(tmp_path: Path, file: LockFile) -> None:
    file.lock(0)

    def look() -> bool:
        with pytest.raises(OSError, match="closed"):
            file.fileno()
        return can_lock(tmp_path / "lock")

    child = Child(look)
    assert not can_lock(tmp_path / "lock"), "the child has closed only what was its own"
    file.close()
    assert can_lock(tmp_path / "lock"), "while the child lives"
    child.go()
    assert child.ended().answer is True


def test_a_lost_file_is_closed(tmp_path: Path) -> None:
    file = LockFile(tmp_path / "lock", create=True)
    file.lock(0)
    with pytest.warns(ResourceWarning, match="unclosed"):
        del file
    assert can_lock(tmp_path / "lock")


@pytest.mark.parametrize("code", [None, errno.EINVAL])
def test_systems_without_locks_of_open_files_have_those_of_processes(
    tmp_path: Path, file: LockFile, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    kernel = fcntl.fcntl

    def refuse(fd: int, command: int, argument: bytes) -> bytes:
        if command == -1:
            raise OSError(code, "no such locks")
        return kernel(fd, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    monkeypatch.setattr(file_locks, "_OFD_SETLK", None if code is None else -1)
    assert not file.lock(0)
    assert not can_lock(tmp_path / "lock")
    file.close()
    assert can_lock(tmp_path / "lock")


@pytest.mark.parametrize(("code", "error"), [(errno.EACCES, BlockingIOError), (errno.ENOLCK, OSError)])
def test_a_lock_that_others_have_is_told_from_one_that_fails(
    file: LockFile, monkeypatch: pytest.MonkeyPatch, code: int, error: type[OSError]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, "refused")

    monkeypatch.setattr(fcntl, "fcntl", fail)
    for take in (file.lock, file.lock_for_process):
        with pytest.raises(OSError, match="refused") as raised:
            take(0)
        assert raised.type in (error, PermissionError) and isinstance(raised.value, BlockingIOError) == (
            code == errno.EACCES
        )
    monkeypatch.undo()
    file.close()


def test_the_process_with_a_lock_of_its_own_is_named(tmp_path: Path, file: LockFile) -> None:
    def named(byte: int) -> int | None:
        def ask() -> int | None:
            asked = LockFile(tmp_path / "lock")
            try:
                return holder_of(asked.fileno(), byte)
            finally:
                asked.close()

        answer: int | None = in_child(ask).answer
        return answer

    assert named(0) is named(1) is None
    belongs_to_file = file.lock(0)
    file.lock_for_process(1)
    assert named(1) == os.getpid()
    found = named(0)
    assert found is not None and (found <= 0) == belongs_to_file
    file.unlock_for_process(1)
    assert named(1) is None
    file.close()
