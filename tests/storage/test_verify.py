"""What `verify` says of damage, crashes and interrupts, in a process of its own."""

from __future__ import annotations

import errno
import faulthandler
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb.verify
import pytest

from budgetfrontier.errors import (
    CorruptFrontier,
    FrontierError,
)
from budgetfrontier.storage import verify
from tests.storage.repair.damaging import PAGE
from tests.support import ENDLESS_CRAWL, PATIENCE, child_process, on_disk

# -- verify in a process of its own


def dies_of(number: int) -> Callable[[Path], None]:
    def die(_: Path) -> None:
        faulthandler.disable()  # pytest's, which would tell of it
        os.kill(os.getpid(), number)

    return die


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT])
def test_a_crash_is_damage(path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    monkeypatch.setattr(verify, "check_pages", dies_of(number))
    with pytest.raises(CorruptFrontier, match=f"crashed .{number.name}. when it read the pages"):
        verify.verify(path)


def test_being_killed_is_no_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "check_pages", dies_of(signal.SIGKILL))
    with pytest.raises(FrontierError, match="ended early") as caught:
        verify.verify(path)
    assert not isinstance(caught.value, CorruptFrontier)


def test_a_disk_that_cannot_read_is_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(verify, "check_pages", fails)
    with pytest.raises(CorruptFrontier, match="the disk cannot read the pages"):
        verify.verify(path)


def test_a_file_that_may_not_be_read_is_no_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise PermissionError(errno.EACCES, "permission denied")

    monkeypatch.setattr(verify, "check_pages", fails)
    with pytest.raises(PermissionError):
        verify.verify(path)


def test_ctrl_c_ends_the_check_and_its_process(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent, fdopen, fork = os.getpid(), os.fdopen, os.fork
    gate, opened = os.pipe()
    children: list[int] = []
    pipes: list[Any] = []  # kept: the interrupt may come before `with` has its pipe

    def fork_noted() -> int:
        pid = fork()
        children.append(pid)
        return pid

    def open_pipe(*arguments: Any) -> Any:
        pipes.append(fdopen(*arguments))
        os.write(opened, b"!")
        return pipes[-1]

    def interrupt(_: Path) -> None:
        os.read(gate, 1)  # until the parent is at its end of the pipe
        os.kill(parent, signal.SIGINT)
        time.sleep(PATIENCE)

    monkeypatch.setattr(os, "fork", fork_noted)
    monkeypatch.setattr(os, "fdopen", open_pipe)
    monkeypatch.setattr(verify, "check_pages", interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            verify.verify(path)
    finally:
        signal.signal(signal.SIGINT, before)
        os.close(gate)
        os.close(opened)
        for pipe in pipes:
            pipe.close()
    (child,) = children  # other tests of this process may have left children of their own
    with pytest.raises(ChildProcessError):
        os.waitpid(child, os.WNOHANG)


def test_what_verify_says_of_pages(path: Path) -> None:
    data = bytearray((path / "data.mdb").read_bytes())
    for page in range(2, len(data) // PAGE):
        data[page * PAGE : page * PAGE + 8] = bytes(8)  # none knows its own number
    (path / "data.mdb").write_bytes(data)
    with pytest.raises(CorruptFrontier, match=r"page \d+ stores mp_pgno 0"):
        verify.verify(path)


def test_a_crawl_at_work_is_sound_whenever_it_is_looked_at(tmp_path: Path) -> None:
    on_disk(tmp_path, hold_queues=False).close()
    path = tmp_path / "frontier"
    with child_process([sys.executable, "-c", ENDLESS_CRAWL, str(path)], stdout=subprocess.PIPE, text=True) as crawler:
        try:
            assert crawler.stdout and crawler.stdout.readline() == "running\n"
            for _ in range(5):
                verify.verify(path)
        finally:
            crawler.kill()
    verify.verify(path)


class Audit:
    """The audit of py-lmdb, which finds a page missing as often as the file has grown since it took its size."""

    def __init__(self, data: Path, grows: int) -> None:
        self.data, self.left = data, grows
        self.audit = lmdb.verify.verify

    def __call__(self, path: str) -> list[str]:
        if not self.left:
            return list(self.audit(path))  # type: ignore[no-untyped-call]
        self.left -= 1
        with self.data.open("ab") as file:
            file.write(bytes(4096))
        return ["main/meta DB: reachable page 7 is beyond EOF or truncated"]


@pytest.mark.parametrize("grows", [1, 3])
def test_a_file_that_grows_during_the_audit_is_not_damaged(
    tmp_path: Path, grows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk(tmp_path).close()
    audit = Audit(tmp_path / "frontier" / "data.mdb", grows)
    monkeypatch.setattr(lmdb.verify, "verify", audit)
    verify.check_pages(tmp_path / "frontier")
    assert not audit.left


def test_what_is_missing_from_a_file_that_never_stops_growing_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk(tmp_path).close()
    monkeypatch.setattr(lmdb.verify, "verify", Audit(tmp_path / "frontier" / "data.mdb", verify.AUDITS))
    with pytest.raises(CorruptFrontier, match="beyond EOF"):
        verify.check_pages(tmp_path / "frontier")
