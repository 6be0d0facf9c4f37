"""LMDB's lock file: what a process that copies the folder of its own environment does not lose."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from budgetfrontier import Frontier
from budgetfrontier.errors import FrontierError
from budgetfrontier.storage import file_locks, lock_table
from budgetfrontier.storage.environment import opened_here
from budgetfrontier.storage.file_locks import holder_of
from budgetfrontier.storage.lmdb_env import open_lmdb
from budgetfrontier.storage.reader import Reader
from tests.crash.processes import in_child

_PIDS = """
import sys
from pathlib import Path
from budgetfrontier.storage.lmdb_env import open_lmdb
env = open_lmdb(Path(sys.argv[1]), readonly=sys.argv[2] == "r")
env.reader_check()
print(*(line.split()[0] for line in env.readers().splitlines()[1:]))
"""

pytestmark = pytest.mark.skipif(file_locks._OFD_SETLK is None, reason="this system has only POSIX locks")


def readers_seen(path: Path, mode: str = "r") -> set[int]:
    """The processes that another one knows as readers, once it has removed those that are dead."""
    command = [sys.executable, "-c", _PIDS, str(path), mode]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return {int(pid) for pid in told.split() if pid.isdigit()}


def test_a_process_with_the_same_id_in_another_container_is_said_to_be_one(tmp_path: Path) -> None:
    """LMDB locks the byte of the pid for each process."""
    Frontier.open(tmp_path / "frontier").close()
    read, write = os.pipe()
    same = os.getpid()
    child = os.fork()
    if child == 0:
        with (tmp_path / "frontier" / "lock.mdb").open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX, 1, same)
            os.write(write, b"locked")
            signal.pause()
    try:
        assert os.read(read, 6) == b"locked"
        for use in Reader, Frontier.open:
            with pytest.raises(FrontierError, match=rf"another container.* same id .*\({same}\).*docker exec"):
                use(tmp_path / "frontier")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)
    Reader(tmp_path / "frontier").close()


@pytest.mark.parametrize("mode", ["r", "w"])
def test_a_reader_that_copies_what_it_reads_stays_known(tmp_path: Path, mode: str) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule("http://a.test/")
    with Reader(tmp_path / "frontier") as reader, reader.view() as view:
        shutil.copytree(tmp_path / "frontier", tmp_path / "copy")
        assert os.getpid() in readers_seen(tmp_path / "frontier", mode), "its snapshot would be overwritten"
        assert view.summary().queued == 1
    assert os.getpid() not in readers_seen(tmp_path / "frontier", mode)


def test_a_writer_that_copies_its_frontier_keeps_the_table(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule("http://a.test/")
        frontier.commit()
        env = opened_here(tmp_path / "frontier")
        assert env is not None
        with env.env.begin():
            shutil.copytree(tmp_path / "frontier", tmp_path / "copy")
            assert os.getpid() in readers_seen(tmp_path / "frontier"), "another process has begun the table anew"
        frontier.schedule("http://a.test/2")
        frontier.commit()
        assert frontier.summary().queued == 2


def test_locks_end_with_the_environment(tmp_path: Path) -> None:
    def table_has_users() -> bool:
        with open(tmp_path / "lock.mdb", "rb") as file:
            return holder_of(file.fileno(), 0) is not None

    for end in lock_table.close, lmdb.Environment.close:
        env = open_lmdb(tmp_path)
        assert in_child(table_has_users).answer
        end(env)
        end(env)
        del env
        assert not in_child(table_has_users).answer


def test_a_lock_file_that_cannot_be_opened_is_left_to_lmdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    for code in (errno.EROFS, errno.EIO):
        monkeypatch.setattr(lock_table, "LockFile", fail)
        if code == errno.EROFS:
            lock_table.close(open_lmdb(tmp_path))
        else:
            with pytest.raises(FrontierError):
                open_lmdb(tmp_path)
    monkeypatch.undo()
    lock_table.close(open_lmdb(tmp_path))
