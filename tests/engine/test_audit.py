"""The audit: an entry for each command, numbered in order, in the transaction of what the command did."""

from __future__ import annotations

from pathlib import Path

from budgetfrontier import Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.testing import crash
from tests.support import START, memory, on_disk, pages


def test_an_entry_says_who_did_what_when_and_why() -> None:
    with memory(clock := ManualClock(START)) as f:
        f.schedule_many(pages("A", 2))
        clock.advance(5)
        f.retire("a.test", reason="spam", who="alice")
        (entry,) = f.audit()
        assert (entry.id, entry.command, entry.who, entry.reason, entry.when) == (
            1,
            "retire",
            "alice",
            "spam",
            START + 5,
        )
        assert entry.effect and entry.error is None


def test_entries_are_numbered_over_all_runs(tmp_path: Path) -> None:
    for number in range(1, 4):
        with on_disk(tmp_path, hold_queues=False) as f:
            f.adjust(queue_total_budget=number)
            assert [entry.id for entry in f.audit()] == list(range(1, number + 1))


def test_an_entry_is_lost_with_what_it_tells_of_or_neither_is(tmp_path: Path) -> None:
    f = on_disk(tmp_path, hold_queues=False)
    f.schedule_many(pages("A", 2))
    f.commit()
    f.retire("a.test")
    crash(f)
    with on_disk(tmp_path) as f:
        retired = [queue.state for queue in f.report().queues] == ["RETIRED"]
        assert retired is ([entry.command for entry in f.audit()] == ["retire"])


def test_a_reader_is_told_the_newest_entries(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        for budget in range(5):
            f.adjust(queue_total_budget=budget)
        f.commit()
        with Reader(tmp_path / "frontier") as reader:
            assert [entry.id for entry in reader.audit()] == [1, 2, 3, 4, 5]
            assert sorted(entry.id for entry in reader.audit(2)) == [4, 5]
