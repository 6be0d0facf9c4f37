"""What goes out next, when URIs are out already."""

from __future__ import annotations

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Directive
from budgetfrontier.engine import pending, read_ahead
from budgetfrontier.errors import CorruptFrontier, FrontierClosed
from tests.support import START, kernel, memory, one, pages, paths, record


def test_a_uri_that_is_out_stays_out_when_another_overtakes_it() -> None:
    frontier = memory(hold_queues=False, concurrency=4)
    frontier.schedule_many(pages("A", 4))
    one(frontier)
    frontier.schedule(CrawlUri("https://a.test/first", directive=Directive.HIGHEST))
    assert paths(frontier.lease(1)) == ["first"]
    assert paths(frontier.lease(2)) == ["1", "2"]


def test_the_head_is_looked_for_at_the_front_once_nothing_is_out() -> None:
    frontier = memory(hold_queues=False, concurrency=2)
    frontier.schedule_many(pages("A", 3))
    frontier.finish(one(frontier))
    frontier.schedule(CrawlUri("https://b.test/first", queue="a.test", directive=Directive.HIGHEST))
    frontier.adjust(match="host:b.test", queue_total_budget=7)
    assert record(frontier, "A").total_budget == 7
    assert one(frontier).uri.url == "https://b.test/first"


def test_a_thousand_may_be_out() -> None:
    frontier = memory(hold_queues=False, concurrency=5000)
    frontier.schedule_many(pages("A", 3000))
    leases = frontier.lease(2000)
    frontier.finish(leases[7], Outcome.RETRY, delay=0)
    frontier.finish(leases[8])
    assert paths(frontier.lease(2)) == ["7", "2000"]
    frontier.check()


def test_a_retry_that_comes_back_to_its_old_place_goes_out_again() -> None:
    clock = ManualClock(START)
    frontier = memory(clock, hold_queues=False, concurrency=2, retry={"delay": 5.0, "scope": "uri"})
    frontier.schedule_many(pages("A", 3))
    slow, ill = frontier.lease(2)
    frontier.finish(ill, Outcome.RETRY)
    clock.advance(5)
    again = one(frontier)
    assert (paths([again]), again.attempt) == (["1"], 2)
    assert frontier.lease(1) == []
    frontier.finish(slow)
    frontier.finish(again)
    assert paths(frontier.lease(2)) == ["2"]
    frontier.check()


def test_the_only_one_that_is_not_out_is_found_where_it_was() -> None:
    clock = ManualClock(START)
    frontier = memory(clock, hold_queues=False, concurrency=2, retry={"delay": 5.0, "scope": "uri"})
    frontier.schedule_many(pages("A", 2))
    slow, ill = frontier.lease(2)
    frontier.finish(ill, Outcome.RETRY)
    clock.advance(5)
    again = one(frontier)
    assert (paths([slow]), paths([again])) == (["0"], ["1"])
    frontier.finish(slow)
    frontier.finish(again)
    assert (frontier.summary().succeeded, frontier.summary().expenditure) == (2, 3)
    frontier.check()


def test_a_queue_whose_totals_are_wrong_hands_nothing_out_twice() -> None:
    frontier = memory(hold_queues=False, concurrency=2)
    frontier.schedule_many(pages("A", 1))
    lease = one(frontier)
    kernel(frontier).tables.queues.find("a.test").queued += 1  # type: ignore[union-attr]  # as a fault of ours might leave it
    frontier.adjust(balance_replenish_amount=100)
    with pytest.raises(CorruptFrontier, match=r"a\.test holds 2 URIs of which 1 are out"):
        frontier.lease(1)
    with pytest.raises(FrontierClosed):
        frontier.finish(lease)


def test_a_run_ends_where_a_record_is_put_into_it() -> None:
    frontier = memory(hold_queues=False, concurrency=2)
    frontier.schedule_many(pages("A", 40))
    order = []
    for number in range(40):
        lease = one(frontier)
        order += paths([lease])
        frontier.finish(lease)
        if number == 5:
            frontier.schedule(CrawlUri("https://a.test/first", priority=1))
        if number == 9:
            frontier.schedule(CrawlUri("https://a.test/last"))
    assert order[:12] == ["0", "1", "2", "3", "4", "5", "first", "6", "7", "8", "9", "10"]
    assert paths([one(frontier)]) == ["39"]
    assert paths([one(frontier)]) == ["last"]
    frontier.check()


def test_what_is_deleted_from_a_run_does_not_go_out() -> None:
    frontier = memory(hold_queues=False, concurrency=40)
    frontier.schedule_many(pages("A", 30))
    assert paths(frontier.lease(3)) == ["0", "1", "2"]
    assert frontier.delete(pattern=r".*/[3-8]$") == 6
    assert frontier.delete(pattern=r".*/[3-8]$", dry_run=True) == 0
    assert paths(frontier.lease(3)) == ["9", "10", "11"]
    frontier.check()


def test_a_deferred_uri_is_the_next_again() -> None:
    frontier = memory(hold_queues=False)
    frontier.schedule_many(pages("A", 5))
    for _ in range(3):
        lease = one(frontier)
        assert paths([lease]) == ["0"]
        frontier.finish(lease, Outcome.DEFERRED)
    first = one(frontier)
    frontier.finish(first)
    assert paths([one(frontier)]) == ["1"]
    frontier.check()


@pytest.mark.parametrize("given_back", [(0, 1), (1, 0), (2, 0, 1), (0, 2, 1)])
def test_uris_that_come_back_in_any_order_go_out_in_theirs(given_back: tuple[int, ...]) -> None:
    frontier = memory(hold_queues=False, concurrency=3)
    frontier.schedule_many(pages("A", 6))
    leases = frontier.lease(3)
    for number in given_back:
        frontier.finish(leases[number], Outcome.RETRY, delay=0)
    assert paths(frontier.lease(len(given_back))) == [str(number) for number in sorted(given_back)]
    frontier.check()


def test_thousands_that_wait_for_their_deletion_are_not_walked_over_again_and_again() -> None:
    frontier = memory(hold_queues=False, concurrency=2)
    frontier.schedule_many(pages("A", 3000))
    for number in range(1000):
        first, second = frontier.lease(2)
        frontier.finish(first)
        frontier.finish(second, Outcome.RETRY, delay=0)
        if number % 3 == 0:
            frontier.schedule(CrawlUri(f"https://a.test/first{number}", priority=1))
    assert kernel(frontier).tables.pending.taken.removed < 1200  # nothing public tells how many there are
    frontier.check()


def in_memory(frontier: Frontier) -> list[tuple[bytes, bytes]]:
    """All records that were read ahead: nothing public tells what is in memory."""
    return [record for run in kernel(frontier).tables.pending.ahead.held().values() for record in run]


def test_large_records_are_not_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    frontier = memory(hold_queues=False)
    frontier.schedule_many(CrawlUri(f"https://a.test/{n}", payload=bytes(200_000)) for n in range(40))
    frontier.finish_many(frontier.lease(1))
    for _ in range(10):
        frontier.finish(one(frontier))
        held = sum(len(key) + len(value) for key, value in in_memory(frontier))
        assert held <= 400_000
    frontier.check()


def test_large_records_that_were_not_kept_take_no_room_from_other_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "MOST_READ", 500_000)
    frontier = memory(hold_queues=False)
    frontier.schedule_many(CrawlUri(url, payload=bytes(5000)) for url in pages("ABCDEFGH", 40))
    frontier.schedule_many(pages("I", 40))
    for _ in range(13):  # runs of 4 and 8 are used up
        leases = frontier.lease(9)
        frontier.finish_many(leases)
    assert leases[-1].queue == "i.test"
    held = kernel(frontier).tables.pending.ahead.held()  # nothing public tells what is in memory
    assert [len(held[lease.queue_id]) for lease in leases] == [0] * 8 + [15]


@pytest.mark.parametrize("room", [0, 5000])
def test_without_room_for_runs_uris_are_read_one_by_one(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "MOST_READ", room)
    frontier = memory(hold_queues=False)
    frontier.schedule_many(pages("ABCDEFGH", 30))
    for turn in range(30):
        leases = frontier.lease(9)
        assert paths(leases) == [str(turn)] * 8
        frontier.finish_many(leases)
        if turn % 4 == 0:
            frontier.commit()
        held = sum(len(value) + read_ahead.OVERHEAD for _, value in in_memory(frontier))
        assert held <= room + 16 * 200 * 8
    frontier.check()


@pytest.mark.parametrize("per_queue", [1, 30])
def test_what_comes_back_takes_no_more_room_than_runs_may_take(per_queue: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "MOST_READ", 50_000)
    frontier = memory(hold_queues=False, concurrency=30)
    hosts = 150 // per_queue
    frontier.schedule_many(pages("Z", 60))
    frontier.finish_many(frontier.lease(20))  # so that records seem to be small
    frontier.commit()
    frontier.schedule_many(
        CrawlUri(f"https://{host}.test/{page}", payload=bytes(2000))
        for page in range(per_queue)
        for host in range(hosts)
    )
    leases = frontier.lease(180)
    for lease in reversed(leases):
        frontier.finish(lease, Outcome.DEFERRED)
        assert sum(len(key) + len(value) for key, value in in_memory(frontier)) < 60_000
    frontier.lease(0)
    assert sorted(lease.uri.url for lease in frontier.lease(180)) == sorted(lease.uri.url for lease in leases)
    frontier.check()


def test_a_uri_that_ended_stays_taken_only_until_its_record_is_deleted() -> None:
    frontier = memory(hold_queues=False, concurrency=4)
    frontier.schedule_many(pages("A", 6))
    leases = frontier.lease(4)
    frontier.finish(leases[0])
    frontier.finish(leases[1], Outcome.RETRY, delay=0)
    frontier.finish_many(leases[2:3])
    taken = kernel(frontier).tables.pending.taken  # nothing public tells what is in memory
    assert [lease.key in taken for lease in leases] == [True, False, True, True]
    frontier.commit()
    assert leases[3].key in taken and len(taken) == 1
    frontier.close()
    assert not taken


def test_nothing_of_a_queue_stays_in_memory_once_it_is_empty() -> None:
    frontier = memory(hold_queues=False)
    frontier.schedule_many(pages("A", 2) + pages("B", 1) + pages("C", 1))
    frontier.finish_many(frontier.lease(3)[:2])
    frontier.finish(one(frontier))
    ahead = kernel(frontier).tables.pending.ahead
    assert {record.queue for record in map(kernel(frontier).tables.queues.look, ahead.held())} == {"c.test"}
    ahead.forget_used_up()
    ahead.forget(kernel(frontier).tables.queues.find("c.test").id)  # type: ignore[union-attr]
    assert (len(ahead), ahead.size) == (0, 0)
    frontier.check()


def test_active_queues_share_the_room_for_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "MOST_READ", 20 * 250 * 2)
    frontier = memory(hold_queues=False, concurrency=2)
    frontier.schedule_many(CrawlUri(f"https://h{n % 20}.test/{n}", payload=bytes(100)) for n in range(20 * 40))
    for turn in range(20):
        leases = frontier.lease(20)
        assert paths(leases) == [str(20 * turn + n) for n in range(20)]
        frontier.finish_many(leases)
        frontier.commit()
        runs = kernel(frontier).tables.pending.ahead.held().values()  # nothing public tells what is in memory
        assert max(map(len, runs)) <= (4 if turn == 0 else 2)
    frontier.check()


@pytest.mark.parametrize("many", [False, True])
def test_deletions_are_made_when_too_many_wait_for_them(many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "MOST_REMOVED", 50)
    frontier = memory(hold_queues=False)
    frontier.schedule_many(pages("ABC", 100))
    for turn in range(100):
        leases = frontier.lease(9)
        assert paths(leases) == [str(turn)] * 3
        if many:
            frontier.finish_many(leases)
        else:
            for lease in leases:
                frontier.finish(lease)
        taken = kernel(frontier).tables.pending.taken  # nothing public tells what is in memory
        assert len(taken) <= 50 + 3 * pending.LONGEST_RUN
    frontier.check()
