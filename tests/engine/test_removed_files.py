"""The files of what was deleted: written and synced before the commit, cut off after a crash, removed when undone."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier
from budgetfrontier.engine import removed_files
from budgetfrontier.errors import FrontierError, StorageFull
from budgetfrontier.storage import removed
from budgetfrontier.testing import crash, fail_commit
from tests.support import memory, on_disk, pages


def files(folder: Path) -> set[int]:
    return set(removed.files(folder / "frontier"))


def test_it_is_synced_before_the_commit_and_its_folder_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_disk(tmp_path, commit_interval=3600) as f:
        f.schedule_many(pages("ab", 3))
        f.commit()
        done: list[str] = []
        env, fsync = f._guard.tables.env, os.fsync

        def synced(fd: int) -> None:
            done.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
            fsync(fd)

        def committed(commit: Any = env.commit) -> None:
            done.append("commit")
            commit()

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(env, "commit", committed)
        f.delete(queue="a.test")
        f.delete(queue="b.test")
        assert "commit" not in done
        f.commit()
        assert done == ["frontier", "1.deleted", "removed", "2.deleted", "removed", "commit"]


def test_what_was_not_committed_is_gone_with_its_file(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    f.schedule_many(pages("a", 3))
    f.commit()
    f.delete(queue="a.test")
    assert files(tmp_path) == {1}
    crash(f)
    with on_disk(tmp_path) as f:
        assert files(tmp_path) == set()
        assert f.summary().queued == 3
        f.pause()
        f.delete(queue="a.test")
        assert files(tmp_path) == {2}
        f.undo(2)
        assert f.summary().queued == 3


def test_a_crash_before_the_commit_of_an_undo_loses_nothing(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    f.schedule_many(pages("a", 3))
    f.delete(queue="a.test")
    f.commit()
    f.undo(1)
    assert files(tmp_path) == {1}
    crash(f)
    with on_disk(tmp_path) as f:
        assert (f.summary().queued, files(tmp_path)) == (0, {1})
        f.undo(1)
        f.commit()
        assert (f.summary().queued, files(tmp_path)) == (3, set())


def test_a_crash_after_the_commit_of_an_undo_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f = on_disk(tmp_path)
    f.schedule_many(pages("a", 3))
    f.delete(queue="a.test")
    f.undo(1)
    with monkeypatch.context() as patch:
        patch.setattr(removed_files.RemovedFiles, "_remove", lambda *_: None)
        f.commit()
        crash(f)
    assert files(tmp_path) == {1}
    with on_disk(tmp_path) as f:
        assert (f.summary().queued, files(tmp_path)) == (3, set())


class Full:
    """A file on a full disk."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def write(self, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = data[: self.room]
        self.room -= len(part)
        return int(self.file.write(part))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def opened_on_disk_of(room: int) -> Callable[..., Full]:
    """An `open` for files on a disk with so many bytes of room."""
    return lambda *args, **options: Full(open(*args, **options), room)


@pytest.mark.parametrize("room", [0, 100])
def test_a_full_disk_refuses_the_deletion_and_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("a", 30))
        f.schedule_many(CrawlUri(url, not_before=2e6) for url in pages("a", 3, first=90))
        with monkeypatch.context() as patch:
            patch.setattr(removed_files, "open", opened_on_disk_of(room), raising=False)
            with pytest.raises(StorageFull, match=r"the disk is full; nothing more was changed.*--for-good"):
                f.delete(queue="a.test")
        assert (f.summary().queued, f.summary().future, files(tmp_path)) == (30, 3, set())
        assert f.audit()[0].effect == {}
        with pytest.raises(FrontierError, match="refused"):
            f.undo(1)
        f.check()
        assert f.delete(queue="a.test", for_good=True) == 33
        assert files(tmp_path) == set()
        with pytest.raises(FrontierError, match="not kept"):
            f.undo(3)
        f.check()


def test_a_disk_that_is_full_halfway_leaves_what_can_be_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("budgetfrontier.engine.commands.runner.STEP", 4)
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("a", 30))
        with monkeypatch.context() as patch:
            patch.setattr(removed_files, "open", opened_on_disk_of(300), raising=False)
            with pytest.raises(StorageFull, match="`budgetfrontier undo` takes back what was done until then"):
                f.delete(queue="a.test")
        left = f.summary().queued
        assert 0 < left < 30 and f.audit()[0].effect["deleted"] == 30 - left
        f.check()
        f.commit()
        f.undo(1)
        assert f.summary().queued == 30
        f.check()


@pytest.mark.parametrize("second", [False, True])
def test_a_file_that_cannot_be_synced_ends_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: bool
) -> None:
    f = on_disk(tmp_path)
    f.schedule_many(pages("ab", 3))
    f.commit()
    f.delete(queue="a.test")
    with monkeypatch.context() as patch:

        def fsync(_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(os, "fsync", fsync)
        if second:  # its file is closed before the commit then
            f.delete(queue="b.test")
            patch.undo()
        with pytest.raises(StorageFull, match="--for-good"):
            f.commit()
    with on_disk(tmp_path) as f:
        assert f.summary().queued == 6


def test_a_commit_that_fails_leaves_the_uris_where_they_were(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    f.schedule_many(pages("a", 3))
    f.commit()
    f.delete(queue="a.test")
    fail_commit(f)
    with pytest.raises(StorageFull):
        f.commit()
    with on_disk(tmp_path) as f:
        assert (f.summary().queued, files(tmp_path)) == (3, set())


def test_blocks_are_bounded_whatever_the_size_of_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removed_files, "LARGEST", 1000)
    with on_disk(tmp_path) as f:
        f.schedule_many(CrawlUri(url, payload=b"x" * 300) for url in pages("a", 9))
        f.schedule(CrawlUri("https://a.test/large", payload=b"x" * 5000))
        f.delete(queue="a.test")
        found = removed.kept(f.audit()[0].effect)
        assert found is not None
        sizes, at = [], 0
        while at < found.bytes:
            block, at = f._guard.tables.removed.read(found, at)
            sizes.append(sum(len(value) for _, value in block.records))
        assert len(sizes) == 4 and sorted(sizes)[-2] <= 1000
        f.undo(1)
        assert f.summary().queued == 10
        f.check()


def test_a_frontier_in_memory_keeps_nothing() -> None:
    with memory() as f:
        f.schedule_many(pages("a", 3))
        f.delete(queue="a.test")
        assert "kept" not in f.audit()[0].effect
        with pytest.raises(FrontierError, match="in memory"):
            f.undo(1)


def test_a_file_that_was_lost_while_its_command_was_in_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from budgetfrontier.engine.commands.mailbox import Command, Mailbox

    monkeypatch.setattr("budgetfrontier.engine.commands.runner.STEP", 2)
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("a", 9))
        box = Mailbox(tmp_path / "frontier")
        box.post(Command("delete", {"queue": "a.test"}, "", ""))
        box.close()
        f.commit()
    for file in removed.files(tmp_path / "frontier").values():
        file.unlink()
    with Frontier.open(tmp_path / "frontier") as f:
        for _ in range(9):
            f.commit()
        assert "lost" in (f.audit()[0].error or "")
        f.check()
