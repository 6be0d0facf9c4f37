"""The writer's lock: who has it is asked without taking it, and by asking nobody loses it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from budgetfrontier import Frontier
from budgetfrontier.errors import FrontierLocked
from budgetfrontier.storage import file_locks, lock
from budgetfrontier.storage.lock import LOCK, WriterLock, lock_holder, locked, own_pid, read_note
from tests.crash.processes import Child, in_child
from tests.support import PATIENCE


def elsewhere(path: Path) -> int | None:
    """What another process is told of the lock."""
    told: int | None = in_child(lambda: lock_holder(path)).answer
    return told


def test_the_holder_is_named_while_it_has_the_lock(tmp_path: Path) -> None:
    assert lock_holder(tmp_path) is elsewhere(tmp_path) is None
    with locked(tmp_path):
        assert lock_holder(tmp_path) == elsewhere(tmp_path) == os.getpid()
    assert (tmp_path / LOCK).exists()
    assert lock_holder(tmp_path) is elsewhere(tmp_path) is None


def test_who_may_only_read_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def only_read(path: Path, flags: int) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise PermissionError
        return opened(path, flags)

    def ask() -> int | None:
        monkeypatch.setattr(os, "open", only_read)
        return lock_holder(tmp_path)

    with locked(tmp_path):
        assert in_child(ask).answer == os.getpid()


def test_a_holder_that_has_not_written_its_number_yet_is_named(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("1\n")  # of one before
    with locked(tmp_path):
        os.truncate(tmp_path / LOCK, 0)
        assert elsewhere(tmp_path) == os.getpid()


def test_a_process_that_has_no_number_here_is_somebody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, layout = fcntl.fcntl, file_locks._FLOCK

    def anonymous(fd: int, command: int, question: bytes) -> bytes:
        told = layout.unpack(kernel(fd, command, question)[: layout.size])
        return layout.pack(*(0 if number == os.getppid() else number for number in told))

    def ask() -> int | None:
        monkeypatch.setattr(fcntl, "fcntl", anonymous)
        return lock_holder(tmp_path)

    with locked(tmp_path):
        assert in_child(ask).answer == 0, "the number that it calls itself is that of another process here"
        assert in_child(lambda: own_pid(tmp_path)).answer == own_pid(tmp_path) == os.getpid()
        os.truncate(tmp_path / LOCK, 0)
        assert in_child(ask).answer == 0


def test_asking_takes_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fcntl.fcntl

    def only_ask(fd: int, command: int, question: bytes) -> bytes:
        assert command == fcntl.F_GETLK
        return kernel(fd, command, question)

    with locked(tmp_path):
        pass
    monkeypatch.delattr(fcntl, "lockf")
    monkeypatch.delattr(fcntl, "flock")
    monkeypatch.setattr(fcntl, "fcntl", only_ask)
    assert lock_holder(tmp_path) is None


def test_an_opener_never_fails_because_somebody_asks(tmp_path: Path) -> None:
    read, write = os.pipe()
    with locked(tmp_path):
        pass

    def ask_on_and_on() -> int:
        os.close(write)
        os.set_blocking(read, False)
        count = 0
        while True:
            lock_holder(tmp_path)
            count += 1
            try:
                os.read(read, 1)
            except BlockingIOError:
                continue
            return count

    children = [Child(ask_on_and_on) for _ in range(2)]
    for child in children:
        child.go()
    failed = 0
    for _ in range(500):
        try:
            WriterLock(tmp_path / LOCK).release()
        except FrontierLocked:
            failed += 1
    os.close(write)
    assert all(child.ended().answer for child in children)
    os.close(read)
    assert failed == 0


def attempt(use: Callable[[], object]) -> str:
    """The error that something ends with."""
    try:
        use()
    except FrontierLocked as e:
        return str(e)
    return ""


def test_whoever_asks_in_the_process_that_has_the_lock_does_not_lose_it(tmp_path: Path) -> None:
    path = tmp_path / "frontier"
    with Frontier.open(path):
        pass
    with locked(path):
        assert lock_holder(path) == os.getpid()
        assert "already in this process" in attempt(lambda: Frontier.open(path))
        assert f"process {os.getpid()}" in in_child(lambda: attempt(lambda: WriterLock(path / LOCK))).answer
        command = [sys.executable, "-c", "import sys; from budgetfrontier import Frontier; Frontier.open(sys.argv[1])"]
        assert b"FrontierLocked" in subprocess.run([*command, str(path)], check=False, stderr=subprocess.PIPE).stderr
    Frontier.open(path).close()


def test_a_release_that_is_interrupted_anywhere_locks_out_no_thread_of_this_process(tmp_path: Path) -> None:
    class Interrupt(Exception):
        pass

    def release_interrupted(held: WriterLock, at: int) -> bool:
        """Release a lock, interrupted at one of its lines; whether there is such a line."""
        left = at

        def trace(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal left
            if frame.f_code.co_filename not in (lock.__file__, file_locks.__file__):
                return None
            left -= event == "line"
            if left < 0:
                raise Interrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            held.release()
        except Interrupt:
            return True
        finally:
            sys.settrace(before)
        return False

    def take() -> None:
        with locked(tmp_path):
            taken.append(at)

    at, came, taken = 0, True, list[int]()
    while came:
        held = WriterLock(tmp_path / LOCK)
        came = release_interrupted(held, at)
        held.release()
        thread = threading.Thread(target=take, daemon=True)  # one that waits for ever is left behind
        thread.start()
        thread.join(PATIENCE)
        assert taken[-1:] == [at]
        at += 1
    assert at > 4


@pytest.mark.skipif(file_locks._OFD_SETLK is None, reason="this system has only POSIX locks")
def test_a_process_that_copies_its_own_frontier_keeps_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "frontier"
    with Frontier.open(path) as frontier:
        shutil.copytree(path, tmp_path / "copy")
        assert f"process {os.getpid()}" in in_child(lambda: attempt(lambda: WriterLock(path / LOCK))).answer
        assert elsewhere(path) == os.getpid()
        frontier.schedule("http://a.test/")
    with Frontier.open(path) as frontier:
        assert frontier.summary().queued == 1


def test_a_system_without_locks_of_open_files_has_a_writer_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_locks, "_OFD_SETLK", None)
    with locked(tmp_path):
        assert elsewhere(tmp_path) == os.getpid()
        assert f"process {os.getpid()}" in in_child(lambda: attempt(lambda: WriterLock(tmp_path / LOCK))).answer
    assert elsewhere(tmp_path) is None


def test_a_forked_child_that_lives_on_has_no_lock(tmp_path: Path) -> None:
    held = WriterLock(tmp_path / LOCK)
    child = Child(held.release)
    held.release()
    with locked(tmp_path):
        child.go()
        assert not child.ended().error
        assert elsewhere(tmp_path) == os.getpid()


def test_a_note_stays_below_the_pid_until_it_is_replaced(tmp_path: Path) -> None:
    first = WriterLock(tmp_path / LOCK)
    assert first.note is None and read_note(tmp_path / "elsewhere") is None
    first.write_note(b"a long note\n")
    first.write_note(b"note\n")
    first.release()
    assert read_note(tmp_path) == b"note\n"
    second = WriterLock(tmp_path / LOCK)
    assert second.note == b"note\n"
    assert read_note(tmp_path) == b"", "in the process that has the lock, which would lose it"
    assert in_child(lambda: read_note(tmp_path)).answer == b"note\n"
    inode = (tmp_path / LOCK).stat().st_ino
    assert in_child((tmp_path / LOCK).read_text).answer == f"{os.getpid()} {inode}\nnote\n"
    assert elsewhere(tmp_path) == os.getpid()
    second.write_note(b"")
    second.release()
    assert (tmp_path / LOCK).read_text() == f"{os.getpid()} {inode}\n"


def test_a_sign_of_life_is_the_time_of_the_file(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path / LOCK)
    os.utime(tmp_path / LOCK, (5.0, 5.0))
    lock.touch()
    assert (tmp_path / LOCK).stat().st_mtime > 1e9
    lock.release()


@pytest.mark.parametrize("failing", ["pwrite", "ftruncate", "fstat"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "the disk is full"), KeyboardInterrupt()])
def test_a_lock_whose_taking_fails_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(type(error)):
        WriterLock(tmp_path / LOCK)
    monkeypatch.undo()
    assert elsewhere(tmp_path) is None
    WriterLock(tmp_path / LOCK).release()
