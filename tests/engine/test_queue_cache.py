"""The records of queues in memory: few, whoever looks at how many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Frontier
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import queue_cache
from budgetfrontier.engine.live_queue import encode_live
from budgetfrontier.storage import keys
from budgetfrontier.testing import crash
from tests.support import START, kernel, memory, on_disk

HOSTS = 300
NAMES = [f"host{number}.test" for number in range(HOSTS)]
URLS = [f"https://{name}/" for name in NAMES]


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many records may be in memory."""
    monkeypatch.setattr(queue_cache, "CACHE", 40)
    return 40


def records_and_keys(frontier: Frontier) -> tuple[int, int]:
    """How many of each are in memory; the keys must go with the records, which no call shows."""
    found = kernel(frontier).tables.queues
    return len(found.cache), len(found.ids)


def kept(frontier: Frontier) -> int:
    return max(records_and_keys(frontier))


def each(call: Callable[[Frontier, str], object]) -> Callable[[Frontier], object]:
    """The same call for every queue, one after the other."""

    def calls(frontier: Frontier) -> None:
        for name in NAMES:
            call(frontier, name)
            assert kept(frontier) <= 40

    return calls


def finish_with_links(f: Frontier) -> None:
    """Finish two pages, the second one where the kernel answers calls."""
    first, second = f.lease(2)
    f.finish(first)
    f.finish(second, discovered=[url + "link" for url in URLS])


CALLS: dict[str, Callable[[Frontier], object]] = {
    "look": each(lambda f, name: f.queue(name)),
    "look at what is not there": each(lambda f, name: f.queue(f"no.{name}")),
    "wake": each(lambda f, name: f.wake(name)),
    "snooze": each(lambda f, name: f.snooze(name, until=START + 9)),
    "retire": each(lambda f, name: f.retire(name)),
    "delete": each(lambda f, name: f.delete(queue=name)),
    "delete nothing": lambda f: f.delete(pattern="nothing is like this"),
    "delete everything": lambda f: f.delete(queue="*"),
    "report": lambda f: f.report(),
    "check": lambda f: f.check(),
    "adjust": lambda f: f.adjust(queue_total_budget=7),
    "adjust, dry": lambda f: f.adjust(queue_total_budget=0, dry_run=True),
    "schedule": lambda f: f.schedule_many([url + "more" for url in URLS]),
    "schedule what is known": lambda f: f.schedule_each(URLS),
    "schedule for later": lambda f: f.schedule_many([CrawlUri(url + "x", not_before=START + 9) for url in URLS]),
    "mark as seen": lambda f: f.mark_seen([url + "seen" for url in URLS], charge=True),
    "finish with links": finish_with_links,
}


@pytest.mark.parametrize("name", CALLS)
def test_no_call_leaves_more_records_in_memory_than_there_is_room_for(name: str) -> None:
    with memory() as frontier:
        frontier.schedule_many(URLS)
        CALLS[name](frontier)
        assert kept(frontier) <= 40
        frontier.check()


def test_the_cache_is_within_its_bound_again_at_once(room: int) -> None:
    with memory() as frontier:
        frontier.schedule_many(URLS)
        found = kernel(frontier).tables.queues
        for name in NAMES:
            found.find(name)
        assert len(found.cache) > 250
        found.trim()
        assert records_and_keys(frontier) == (room * 3 // 4, room * 3 // 4)


def test_leases_of_many_queues_expire_and_change_within_the_bound() -> None:
    clock = ManualClock(START)
    with memory(clock, hold_queues=False) as frontier:
        frontier.schedule_many(URLS)
        assert len(frontier.lease(HOSTS)) == HOSTS
        frontier.adjust(queue_total_budget=7)
        assert kept(frontier) <= 40
        clock.advance(301)
        assert frontier.lease(0) == [] and kept(frontier) <= 40
        frontier.check()


def test_opening_stays_within_the_bound(tmp_path: Path) -> None:
    clock = ManualClock(START)
    frontier = on_disk(tmp_path, clock, hold_queues=False, polite=True)
    frontier.schedule_many([*URLS, *(url + "more" for url in URLS)])
    for lease in frontier.lease(HOSTS // 2):
        frontier.finish(lease, fetch_seconds=9.0)
    frontier.lease(HOSTS // 2)
    frontier.commit()
    crash(frontier)
    with on_disk(tmp_path, ManualClock(START - 100_000)) as frontier:
        assert kept(frontier) <= 40
        frontier.check()


def test_what_a_look_brings_up_to_date_is_kept(tmp_path: Path) -> None:
    frontier = on_disk(tmp_path, hold_queues=False)
    frontier.schedule_many(URLS)
    frontier.adjust(queue_total_budget=7)
    for name in NAMES:
        frontier.queue(name)
    frontier.commit()
    crash(frontier)
    with on_disk(tmp_path) as frontier:
        report = frontier.report()
        assert {queue.total_budget for queue in report.queues} == {7}
        frontier.check()


def test_commit_keeps_records_that_were_written_early_to_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_cache, "CACHE", 0)  # nothing is dirty any more once a call has made room
    clock = ManualClock(START)
    frontier = on_disk(tmp_path, clock, hold_queues=False)
    frontier.schedule_many([CrawlUri(url, not_before=START + 9) for url in URLS])
    frontier.commit()
    clock.advance(10)
    assert frontier.lease(0) == []  # all are due now
    frontier.check()
    frontier.commit()
    crash(frontier)
    with on_disk(tmp_path, clock) as frontier:
        assert (frontier.summary().future, frontier.summary().queued) == (0, HOSTS)
        frontier.check()


def test_that_a_block_was_ended_is_kept(tmp_path: Path) -> None:
    clock = ManualClock(START)
    frontier = on_disk(tmp_path, clock)
    frontier.schedule_many(URLS[:1])
    frontier.snooze(NAMES[0], until=START + 9)
    clock.advance(10)
    frontier.commit()
    frontier.wake(NAMES[0])
    frontier.commit()
    crash(frontier)
    with on_disk(tmp_path, clock) as frontier:
        queue = frontier.queue(NAMES[0])
        assert queue is not None and queue.block == 0.0


def test_a_record_that_was_read_is_stored_in_no_more_bytes_than_a_new_one(tmp_path: Path) -> None:
    def stored(frontier: Frontier) -> list[int]:
        frontier.commit()
        return [len(value) for _, value in kernel(frontier).tables.env.view().items(keys.QUEUES)]

    with on_disk(tmp_path, hold_queues=True) as frontier:
        frontier.schedule_many(URLS)
        before = stored(frontier)
    with on_disk(tmp_path) as frontier:
        frontier.schedule_many(f"{url}x" for url in URLS)
        assert stored(frontier) == [size + (size > 0) for size in before]


def test_a_record_that_was_read_is_stored_as_it_was(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many(URLS[:2])
        f.commit()
        queues, env = kernel(f).tables.queues, kernel(f).tables.env
        value = env.txn.get(keys.u32.pack(1), db=env.db[keys.QUEUES])
        assert value is not None and encode_live(queues._read(1)) == bytes(value)
