"""What was deleted is kept in the transaction that deletes it: in memory and on disk, in bounded blocks and steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome
from budgetfrontier.engine import removed_table
from budgetfrontier.engine.commands import deletion, runner
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.errors import PolicyError, StorageFull
from budgetfrontier.storage import keys, removed
from budgetfrontier.testing import crash, fail_commit
from tests.support import in_progress, memory, on_disk, pages, post


def numbers(f: Frontier) -> set[int]:
    """The commands of which something is kept."""
    return {keys.removed.unpack(key)[0] for key, _ in f._guard.tables.env.view().items(keys.REMOVED)}


def kept(f: Frontier, number: int) -> list[removed.Block]:
    """The blocks under a number."""
    return [*removed.blocks(f._guard.tables.env.view(), number)]


def test_what_was_not_committed_is_kept_nowhere(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    f.schedule_many(pages("a", 3))
    f.commit()
    f.delete(queue="a.test")
    assert numbers(f) == {1}
    crash(f)
    with on_disk(tmp_path) as f:
        assert (numbers(f), f.summary().queued) == (set(), 3)
        f.pause()
        f.delete(queue="a.test")
        assert numbers(f) == {2}
        f.undo(2)
        assert (numbers(f), f.summary().queued) == (set(), 3)


def test_a_crash_before_the_commit_of_an_undo_loses_nothing(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    f.schedule_many(pages("a", 3))
    f.delete(queue="a.test")
    f.commit()
    f.undo(1)
    crash(f)
    with on_disk(tmp_path) as f:
        assert (f.summary().queued, numbers(f)) == (0, {1})
        f.check()
        f.undo(1)
        f.commit()
        assert (f.summary().queued, numbers(f)) == (3, set())


def test_a_commit_that_fails_leaves_the_uris_where_they_were(tmp_path: Path) -> None:
    f = on_disk(tmp_path)
    f.schedule_many(pages("a", 3))
    f.commit()
    f.delete(queue="a.test")
    fail_commit(f)
    with pytest.raises(StorageFull):
        f.commit()
    with on_disk(tmp_path) as f:
        assert (f.summary().queued, numbers(f)) == (3, set())


def test_a_frontier_in_memory_keeps_what_is_deleted_too() -> None:
    with memory() as f:
        f.schedule_many(pages("ab", 3))
        assert f.delete(queue="a.test") == 3
        f.internals.apply(Command("retire", {"match": "*"}, "", ""))
        f.check()
        f.undo(2)
        f.undo(1)
        assert (f.summary().queued, f.summary().queues["RETIRED"], numbers(f)) == (6, 0, set())
        f.check()


def test_blocks_are_bounded_whatever_the_size_of_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removed_table, "LARGEST", 1000)
    with on_disk(tmp_path) as f:
        f.schedule(CrawlUri("https://a.test/large", payload=b"x" * 5000, priority=1))
        f.schedule_many(CrawlUri(url, payload=b"x" * 300) for url in pages("a", 9))
        f.delete(queue="a.test")
        sizes = sorted(len(value) for _, value in removed.values(f._guard.tables.env.view(), 1))
        assert len(sizes) == 6 and sizes[-2] <= 1000 + 40 and sum(sizes) == f.audit()[0].effect["kept"]["bytes"]
        assert all(block.records and block.queues[0].name == "a.test" for block in kept(f, 1))
        f.undo(1)
        assert f.summary().queued == 10
        f.check()


def test_a_block_has_each_queue_once_in_a_row() -> None:
    with memory() as f:
        f.schedule_many(pages("abc", 3))
        f.delete(queue="*")
        (block,) = kept(f, 1)
        assert [look.name for look in block.queues] == ["a.test", "b.test", "c.test"]


def steps(f: Frontier, op: str, **args: Any) -> int:
    """The number of steps that a command takes."""
    post(f._guard.tables.env.path, op, **args)
    f.commit()
    taken = 1
    while in_progress(f):
        f.check()
        f.commit()
        taken += 1
    return taken


@pytest.mark.parametrize("op", ["delete", "drop", "drop these", "replay", "replay these"])
def test_a_step_takes_only_so_many_bytes(tmp_path: Path, op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one transaction keeps in memory must not depend on the sizes of URIs."""
    op, _, these = op.partition(" ")
    monkeypatch.setattr(deletion, "_LARGE", 100)
    monkeypatch.setattr("budgetfrontier.engine.dead_letters.AT_ONCE", 30_000)
    with on_disk(tmp_path, hold_queues=True) as f:
        f.schedule_many(CrawlUri(url, payload=b"x" * 5000) for url in pages("a", 30))
        if op != "delete":
            for lease in (lease for _ in range(30) for lease in f.lease(1)):
                f.finish(lease, Outcome.DEAD)
        assert 3 <= steps(f, op, **({"ids": [*range(100)]} if these else {"queue": "a.test"})) <= 6
        assert 30 in f.audit()[0].effect.values()
        f.check()


def test_what_is_discarded_goes_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STEP", 2)
    monkeypatch.setattr(removed_table, "LARGEST", 1)
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("a", 9))
        f.delete(queue="a.test")
        size = f.audit()[0].effect["kept"]["bytes"]
        assert (len(kept(f, 1)), steps(f, "discard", id=1)) == (9, 5)
        assert (f.audit(limit=1)[0].effect, numbers(f)) == ({"command": "delete", "bytes": size}, set())


def test_an_undo_that_fails_halfway_keeps_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STEP", 2)
    monkeypatch.setattr(removed_table, "LARGEST", 1)
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("a", 9))
        f.delete(queue="a.test")
        asked, calls = f._guard.kernel.returns.asked_precedence, 0

        def moody(*args: Any) -> int | None:
            nonlocal calls
            calls += 1
            if calls > 5:
                raise PolicyError("none today", policy="cost", url="", value=None)
            return asked(*args)

        monkeypatch.setattr(f._guard.kernel.returns, "asked_precedence", moody)
        with pytest.raises(PolicyError):
            f.undo(1)
        f.check()
        assert (f.summary().queued, len(kept(f, 1))) == (4, 5)
        calls = -1000
        f.undo(1, force=True)
        assert (f.summary().queued, numbers(f)) == (9, set())
        f.check()
