"""Opening the files of a frontier while others do the same."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from budgetfrontier import Frontier, Reader, Settings
from budgetfrontier.errors import FrontierClosed, FrontierLocked, FrontierRemoved, StorageFull
from budgetfrontier.storage import environment
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.lmdb_env import check_files
from budgetfrontier.storage.lock import LOCK, WriterLock, locked
from tests.support import PATIENCE, until

MAKE = "import sys; from budgetfrontier import Frontier\nwith Frontier.open(sys.argv[1]) as f: f.schedule('https://a.test/')"


def make_elsewhere(path: Path) -> None:
    """Make a frontier with one URI in a process of its own."""
    subprocess.run([sys.executable, "-c", MAKE, str(path)], check=True)


def test_a_frontier_that_is_made_while_its_folder_is_looked_into_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "frontier"
    path.mkdir()
    look = Path.iterdir

    def look_late(folder: Path) -> Iterator[Path]:
        make_elsewhere(folder)
        return look(folder)

    monkeypatch.setattr(Path, "iterdir", look_late)
    assert check_files(path)


def test_a_frontier_that_is_made_before_the_lock_is_ours_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "frontier"
    lock = WriterLock.__init__

    def lock_late(self: WriterLock, file: Path) -> None:
        make_elsewhere(path)
        lock(self, file)

    monkeypatch.setattr(WriterLock, "__init__", lock_late)
    with Frontier.open(path) as frontier:
        assert frontier.summary().queued == 1


def test_a_lock_that_somebody_else_has_names_them(tmp_path: Path) -> None:
    path = tmp_path / "frontier"
    with (
        Frontier.open(path),
        pytest.raises(FrontierLocked, match="already in this process"),
        locked(path),
    ):
        pass
    with locked(path):
        command = [sys.executable, "-c", MAKE, str(path)]
        assert b"FrontierLocked" in subprocess.run(command, check=False, stderr=subprocess.PIPE).stderr


def test_reprs_say_where_and_how_much(tmp_path: Path) -> None:
    path = tmp_path / "frontier"
    make_elsewhere(path)
    environment = Environment(path)
    assert repr(environment.view()).endswith(": 1 URIs pending, 1 queues>")
    assert repr(environment).startswith(f"<Environment {path}: <View of transaction ")
    environment.close()
    assert repr(environment).startswith(f"<Environment {path}: <View of a transaction that has ended>")
    reader = Reader(path)
    assert repr(reader) == f"<Reader {path}: open>"
    reader.close()
    assert repr(reader) == f"<Reader {path}: closed>"
    memory = Environment(None)
    assert repr(memory).startswith("<Environment in memory: ")
    memory.close()


NOW = Settings.from_dict({"frontier": {"commit_interval": 0}})


@pytest.mark.parametrize("use", [Frontier.commit, Frontier.report, Frontier.lease, Frontier.close])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_frontier_whose_files_are_gone_says_so_at_its_next_use(
    use: Callable[[Frontier], object], replaced: bool, tmp_path: Path
) -> None:
    with Frontier.open(tmp_path / "other") as other:
        other.schedule("https://a.test/")
    frontier = Frontier.open(tmp_path / "frontier", NOW)
    frontier.schedule("https://b.test/")
    frontier.commit()
    shutil.rmtree(tmp_path / "frontier")
    if replaced:
        (tmp_path / "other").rename(tmp_path / "frontier")
    with pytest.raises(FrontierRemoved, match=f"was {'replaced by another file' if replaced else 'removed'} while"):
        use(frontier)
    with pytest.raises(FrontierClosed, match="FrontierRemoved"):
        frontier.schedule("https://b.test/2")
    with Frontier.open(tmp_path / "frontier") as frontier:
        assert [lease.uri.url for lease in frontier.lease(9)] == ["https://a.test/"] * replaced
        frontier.check()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_frontier_whose_table_of_readers_was_removed_says_so_before_pages_of_readers_are_overwritten(
    tmp_path: Path, replaced: bool
) -> None:
    path = tmp_path / "frontier"
    frontier = Frontier.open(path, NOW)
    frontier.schedule("https://a.test/")
    frontier.commit()
    (path / "lock.mdb").unlink()
    if replaced:
        (path / "lock.mdb").write_bytes(b"")
    with pytest.raises(FrontierRemoved, match=r"lock.mdb was removed or replaced .* open the frontier again$"):
        frontier.schedule("https://b.test/")
        frontier.commit()
    with Frontier.open(path) as frontier:
        frontier.schedule("https://b.test/")
        frontier.commit()
        frontier.check()


@pytest.mark.parametrize("committed", [False, True])
def test_a_frontier_whose_lock_was_removed_commits_nothing_and_leaves_it_to_the_process_that_has_opened_it(
    committed: bool, tmp_path: Path
) -> None:
    frontier, path = Frontier.open(tmp_path / "frontier"), tmp_path / "frontier"
    frontier.schedule("https://b.test/")
    if committed:
        frontier.commit()
    frontier.schedule("https://b.test/lost")
    (path / LOCK).unlink()
    with subprocess.Popen([sys.executable, "-c", MAKE, str(path)]) as other:
        until((path / LOCK).exists)  # it has begun to open the frontier, and may wait for the end of the transaction
        with pytest.raises(FrontierRemoved, match="lock was removed or replaced while the frontier was open"):
            frontier.commit()
        assert other.wait(PATIENCE) == 0
    with Frontier.open(path, Settings.from_dict({"frontier": {"hold_queues": False}})) as frontier:
        assert [lease.uri.url for lease in frontier.lease(9)] == ["https://b.test/"] * committed + ["https://a.test/"]
        frontier.check()


def test_a_frontier_whose_lock_was_removed_stops_although_nothing_was_to_be_committed(tmp_path: Path) -> None:
    frontier = Frontier.open(tmp_path / "frontier", NOW)
    frontier.schedule("https://a.test/")
    frontier.commit()
    (tmp_path / "frontier" / LOCK).unlink()
    with pytest.raises(FrontierRemoved, match="lock was removed"):
        frontier.report()
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.check()


def test_a_frontier_is_in_its_place_whatever_becomes_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Frontier.open("frontier", NOW) as frontier:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        frontier.schedule("https://a.test/")
        frontier.commit()
        assert frontier.delete(queue="a.test") == 1
        frontier.commit()
        frontier.undo(1)
        monkeypatch.chdir(tmp_path)
        frontier.commit()
    with Reader(tmp_path / "frontier") as reader:
        assert reader.summary().queued == 1


@pytest.mark.parametrize(
    ("what", "now"),
    [("data.mdb", "Restore a backup there, or remove what"), ("", "where its folder is now")],
)
def test_the_error_for_removed_files_says_what_is_there_now(what: str, now: str, tmp_path: Path) -> None:
    path = tmp_path / "frontier"
    Frontier.open(path).close()
    frontier = Frontier.open(path)
    (path / what).rename(tmp_path / "moved")
    frontier.schedule("https://a.test/")
    with pytest.raises(FrontierRemoved, match=now):
        frontier.commit()


def test_a_frontier_in_memory_that_cannot_be_opened_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(environment, "open_lmdb", full)
    with pytest.raises(StorageFull):
        Environment(None)
    assert not list(tmp_path.iterdir())
