"""Whose turn it is: the ring of the READY, the FIFOs of the INACTIVE, the SNOOZED, the RETIRED."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Lease, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.rules import queued_totals
from budgetfrontier.storage.report import status_line
from tests.support import START, crawl, kernel, make_settings, memory, on_disk, pages, state

pytestmark = pytest.mark.usefixtures("same_ids")


def test_ready_queues_take_turns() -> None:
    with memory(hold_queues=False) as f:
        f.schedule_many(pages("ABC", 2))
        assert crawl(f) == "ABCABC"


def test_inactive_queues_wait_until_none_is_ready() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 3))
        assert crawl(f) == "AAABBB"


def test_the_best_precedence_is_activated_first() -> None:
    overrides = [
        {"match": "queue:b.test", "set": {"precedence": 1}},
        {"match": "queue:c.test", "set": {"precedence": 2}},
    ]
    with memory(overrides=overrides) as f:
        f.schedule_many(pages("ABC", 2))
        assert crawl(f) == "BBCCAA"


def states(f: Frontier) -> dict[str, str]:
    """The queues by the first letters of their hosts."""
    return {row.queue[0]: str(row.state) for row in f.report().queues}


FLOOR: dict[str, Any] = {
    "precedence_floor": 5,
    "overrides": [
        {"match": "queue:b.test", "set": {"precedence": 5}},
        {"match": "queue:c.test", "set": {"precedence": 4}},
    ],
}


@pytest.mark.parametrize("hold", [True, False])
def test_queues_at_the_floor_are_ineligible_and_do_not_keep_the_crawl_from_finishing(hold: bool) -> None:
    with memory(hold_queues=hold, **FLOOR) as f:
        f.schedule_many(pages("ABC", 2))
        assert sorted(crawl(f)) == ["A", "A", "C", "C"]
        assert (f.state, f.summary().queued, f.next_ready_in()) == ("FINISHED", 0, None)
        assert states(f) == {"a": "EXHAUSTED", "b": "INELIGIBLE", "c": "EXHAUSTED"}
        f.schedule("https://b.test/more")
        assert f.state == "FINISHED"
        queue = f.queue("b.test")
        assert queue is not None
        assert (queue.queued, f.summary().queues["INELIGIBLE"]) == (3, 1)
        assert "0 inactive; 1 ineligible; 0 retired; 2 exhausted" in status_line(f.summary())
        assert f.verdict().slug == "ineligible"


def test_a_pause_at_the_finish_does_not_wait_for_queues_at_the_floor() -> None:
    with memory(pause_at_finish=True, **FLOOR) as f:
        f.schedule_many(pages("AB", 1))
        assert crawl(f) == "A"
        assert f.state == "PAUSED"


def test_a_better_precedence_makes_an_ineligible_queue_inactive_and_a_worse_one_ineligible_again() -> None:
    with memory(**FLOOR) as f:
        f.schedule_many(pages("B", 2))
        assert crawl(f) == ""
        f.adjust(match="queue:b.test", precedence=1)
        assert (states(f), f.state, f.summary().queued) == ({"b": "INACTIVE"}, "RUNNING", 2)
        f.adjust(match="queue:b.test", precedence=9)
        assert (states(f), f.state) == ({"b": "INELIGIBLE"}, "FINISHED")
        f.check()


def test_an_active_queue_that_comes_to_the_floor_is_ineligible_after_its_next_finish() -> None:
    with memory(precedence_floor=5) as f:
        f.schedule_many(pages("A", 3))
        assert crawl(f, limit=1) == "A"
        f.adjust(precedence=5)
        assert states(f) == {"a": "READY"}
        assert crawl(f) == "A"
        assert states(f) == {"a": "INELIGIBLE"}


def test_an_ineligible_queue_can_be_retired_brought_back_emptied_and_filled_again(tmp_path: Path) -> None:
    with on_disk(tmp_path, **FLOOR) as f:
        f.schedule_many(pages("B", 2))
        f.retire("b.test")
        assert states(f) == {"b": "RETIRED"}
        f.unretire("b.test")
        assert states(f) == {"b": "INELIGIBLE"}
        assert (f.delete(queue="b.test"), states(f)) == (2, {"b": "EXHAUSTED"})
        f.undo(f.audit(limit=1)[0].id)
        assert (states(f), f.summary().queued) == ({"b": "INELIGIBLE"}, 0)


def test_a_changed_floor_lifts_queues_or_sets_them_aside(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    for floor, expected in ((None, "INACTIVE"), (3, "INELIGIBLE"), (4, "INACTIVE"), (0, "INELIGIBLE")):
        with Frontier.open(folder, make_settings(precedence_floor=floor)) as f:
            f.schedule_many(pages("A", 1))
            assert states(f) == {"a": expected}
            f.check()


def test_an_arrival_with_a_better_precedence_lifts_its_queue() -> None:
    overrides = [{"match": "regex:/low", "set": {"precedence": 7}}]
    with memory(precedence_floor=5, overrides=overrides) as f:
        f.schedule("https://a.test/low")
        assert states(f) == {"a": "INELIGIBLE"}
        f.schedule(CrawlUri("https://a.test/high", priority=1))
        assert (states(f), f.summary().queued) == ({"a": "INACTIVE"}, 2)
        f.schedule("https://a.test/low/2")
        assert (states(f), f.summary().queued) == ({"a": "INELIGIBLE"}, 0)
        f.check()


def precedence_of(f: Frontier, key: str) -> int:
    queue = f.queue(key)
    assert queue is not None
    return queue.precedence


def test_a_queue_steps_back_with_each_tier_of_successes_so_that_small_sites_come_first() -> None:
    policy = {"success-counts": {"tiers": [2, 3]}}
    with memory(precedence_policy=policy) as f:
        f.schedule_many(pages("ABC", 8))
        assert crawl(f, limit=6) == "AABBCC"
        assert [precedence_of(f, f"{host}.test") for host in "abc"] == [4, 4, 4]
        assert crawl(f) == "CCCAAABBBBBBCCCAAA"  # one keeps its turn until a better one waits
        f.check()


def test_only_successes_complete_a_tier_whatever_their_status() -> None:
    with memory(precedence_policy={"success-counts": {"tiers": "2,1", "base": 7}}, polite=False) as f:
        f.schedule_many(pages("A", 9))
        assert precedence_of(f, "a.test") == 7
        for outcome, status, expected in (
            (Outcome.SUCCESS, 404, 7),
            (Outcome.FAILURE, 0, 7),
            (Outcome.DISREGARDED, 0, 7),
            (Outcome.DEAD, 0, 7),
            (Outcome.SUCCESS, 200, 8),
            (Outcome.SUCCESS, 500, 9),
            (Outcome.SUCCESS, 0, 10),
        ):
            f.finish(f.lease(1)[0], outcome, status=status)
            assert precedence_of(f, "a.test") == expected
            f.check()


def test_a_finish_that_snoozes_its_queue_leaves_its_precedence_until_the_queue_takes_values_again() -> None:
    clock = ManualClock(START)
    with memory(clock, precedence_policy={"success-counts": {"tiers": [1]}}, polite=True) as f:
        f.schedule_many(pages("A", 3))
        f.finish(f.lease(1)[0])
        assert (states(f), precedence_of(f, "a.test")) == ({"a": "SNOOZED"}, 3)
        f.schedule("https://a.test/more")
        assert precedence_of(f, "a.test") == 4


def test_a_charge_for_uris_that_were_fetched_elsewhere_leaves_the_precedence_that_a_change_of_settings_gave() -> None:
    with memory(precedence_policy={"success-counts": {"tiers": [2]}}, hold_queues=False) as f:
        f.schedule_many(pages("A", 3))
        f.adjust(queue_total_budget=50)
        f.mark_seen(["https://a.test/elsewhere/1", "https://a.test/elsewhere/2"], charge=True)
        assert precedence_of(f, "a.test") == 3
        f.schedule("https://a.test/more")
        assert precedence_of(f, "a.test") == 4


def test_tiers_lead_to_the_floor() -> None:
    policy = {"success-counts": {"tiers": [2]}}
    with memory(precedence_policy=policy, precedence_floor=5) as f:
        f.schedule_many(pages("AB", 9))
        assert crawl(f) == "AABBBBAA"
        assert (states(f), f.state) == ({"a": "INELIGIBLE", "b": "INELIGIBLE"}, "FINISHED")
        f.check()


def placed(host: str, *precedences: int, **more: Any) -> list[CrawlUri]:
    return [CrawlUri(f"https://{host}.test/{n}", precedence=n, **more) for n in precedences]


def test_with_highest_uri_the_best_uri_anywhere_is_crawled_next() -> None:
    with memory(precedence_policy="highest-uri") as f:
        f.schedule_many([*placed("a", 4, 9), *placed("b", 2, 8), *placed("c", 7)])
        assert [precedence_of(f, f"{host}.test") for host in "abc"] == [7, 5, 10]
        leased = []
        while given := f.lease(1):
            leased.append(given[0].uri.url[8:].replace(".test/", ""))
            f.finish(given[0])
            f.check()
        assert leased == ["b2", "a4", "c7", "b8", "a9"]
        assert precedence_of(f, "a.test") == 12, "that of its last URI"


def test_an_arrival_brings_a_queue_forward_at_once_whatever_the_head() -> None:
    with memory(precedence_policy={"highest-uri": {"base": 1}}) as f:
        f.schedule_many([*placed("a", 5), *placed("b", 4)])
        f.schedule_many(placed("a", 3, 9))
        assert (precedence_of(f, "a.test"), precedence_of(f, "b.test")) == (4, 5)
        f.schedule_many(placed("b", 1, 6, priority=-1))  # behind the URI that is its head
        assert precedence_of(f, "b.test") == 2
        [lease] = f.lease(1)
        assert (lease.queue, lease.uri.precedence) == ("b.test", 4)
        f.schedule(CrawlUri("https://a.test/cost", cost=0))
        assert precedence_of(f, "a.test") == 1, "the precedence of a URI is its cost"
        f.check()


def test_highest_uri_is_evaluated_at_each_finish_with_the_uris_that_are_out() -> None:
    clock = ManualClock(START)
    with memory(clock, precedence_policy="highest-uri", polite=True, concurrency=2) as f:
        f.schedule_many(placed("a", 1, 2, 6))
        first, second = f.lease(2)
        f.finish(first, Outcome.RETRY, delay=0)
        assert precedence_of(f, "a.test") == 4, "it is there again"
        f.finish(second)
        assert (states(f), precedence_of(f, "a.test")) == ({"a": "SNOOZED"}, 4)
        clock.advance(1000)
        first, second = f.lease(2)
        f.finish(first)
        assert precedence_of(f, "a.test") == 9, "a delay makes no difference"
        f.check()


def test_a_queue_whose_best_uris_were_deleted_steps_back_on_its_turn(tmp_path: Path) -> None:
    with on_disk(tmp_path, precedence_policy="highest-uri", precedence_floor=60) as f:
        f.schedule_many([*placed("a", 1, 50), *placed("b", 2, 70), *placed("c", 3)])
        assert f.delete(queue="?.test", pattern="/[12]$") == 2
        assert [precedence_of(f, f"{host}.test") for host in "abc"] == [4, 5, 6]
        assert crawl(f) == "CA"
        assert (states(f), f.state) == ({"a": "EXHAUSTED", "b": "INELIGIBLE", "c": "EXHAUSTED"}, "FINISHED")
        f.check()
        f.undo(f.audit(limit=1)[0].id, force=True)
        assert precedence_of(f, "b.test") == 5
        assert crawl(f, limit=2) == "AB"


def test_snoozed_queues_come_back_by_wake_time_and_behind_the_ready() -> None:
    clock = ManualClock(START)
    with memory(clock, hold_queues=False) as f:
        f.schedule_many(pages("ABCD", 1))
        f.snooze("a.test", until=START + 20)
        f.snooze("b.test", until=START + 10)
        f.snooze("d.test", until=START + 20)
        clock.advance(30)
        assert crawl(f) == "CBAD"


def test_a_change_revives_in_the_order_of_retirement() -> None:
    with memory(queue_total_budget=0) as f:
        f.schedule_many(pages("ABC", 2))
        f.retire("b.test")
        assert crawl(f) == "AC"
        f.schedule_many(pages("D", 2))
        f.unretire("b.test")
        f.adjust(queue_total_budget=5)
        assert crawl(f) == "DDBBAC"


def test_a_change_exhausts_the_empty_retired() -> None:
    with memory(queue_total_budget=0) as f:
        f.schedule_many(pages("A", 1))
        assert crawl(f) == "A"
        assert state(f, "A") == "RETIRED"
        f.adjust(queue_total_budget=5)
        assert state(f, "A") == "EXHAUSTED"


def test_the_order_of_the_ring_survives_a_restart(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("ABCD", 3))
        assert crawl(f, 2) == "AB"
    with on_disk(tmp_path) as f:
        assert [state(f, host) for host in "ABCD"] == ["READY"] * 4
        assert crawl(f) == "CDABCDABCD"


def test_the_order_of_the_fifos_survives_a_restart(tmp_path: Path) -> None:
    with on_disk(tmp_path, balance_replenish_amount=2) as f:
        f.schedule_many(pages("ABCD", 3))
        assert crawl(f, 4) == "AABB"
    with on_disk(tmp_path) as f:
        assert crawl(f) == "CCDDABCD"


@pytest.mark.parametrize("seed", range(5))
def test_the_totals_are_always_the_shares_of_all_queues(seed: int) -> None:
    draw, clock = random.Random(seed), ManualClock(START)
    with memory(clock, concurrency=2, retry={"delay": 5.0, "scope": "uri"}, queue_total_budget=9) as f:
        out: list[Lease] = []
        for number in range(300):
            key = f"{draw.choice('abc')}.test"
            later = clock.time() + draw.choice((0, 0, 20))
            step = draw.randrange(8)
            if step < 3:
                f.schedule(CrawlUri(f"https://{key}/{number}", not_before=later))
            elif step == 3:
                out += f.lease(2, ttl=1e6)
            elif step == 4 and number % 2:
                assert f.finish_many(out) == []
                out.clear()
            elif step == 4:
                for lease in out:
                    f.finish(lease, draw.choice((Outcome.SUCCESS, Outcome.RETRY)), retire_queue=draw.random() < 0.1)
                out.clear()
            elif step == 5:
                draw.choice((f.retire, f.unretire))(key)
            elif step == 6:
                f.delete(pattern=f"/{draw.randrange(10)}")
            else:
                clock.advance(10)
            queues = [queue for letter in "abc" if (queue := f.queue(f"{letter}.test")) is not None]
            shares = [queued_totals.share(queue, queue.state) for queue in queues]
            counters = kernel(f).counters
            assert counters.queued == sum(queued for queued, _ in shares)
            assert counters.future_retired == sum(future_retired for _, future_retired in shares)
