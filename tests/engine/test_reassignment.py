"""URIs that move to another queue at their turn, because their key is another one by then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Directive, Frontier, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import QueueState
from budgetfrontier.engine import turns
from budgetfrontier.errors import PolicyError
from budgetfrontier.storage import seed_list
from tests.support import START, kernel, memory, on_disk, one

MOVING: dict[str, Any] = {"queue_assignment_policy": "ip", "defer_to_previous": False}
KEY: dict[str, object] = {}
"""The keys that the policy of this module returns, by path."""


def by_path(uri: CrawlUri) -> object:
    found = KEY.get(uri.url.rpartition("/")[2], "start")
    if isinstance(found, Exception):
        raise found
    return found


@pytest.fixture(autouse=True)
def start() -> None:
    KEY.clear()


def standing(f: Frontier) -> dict[str, tuple[str, int, int]]:
    """State, URIs and expenditure of each queue."""
    return {row.queue: (str(row.state), row.queued, row.expenditure) for row in f.report().queues}


def test_a_uri_moves_when_its_turn_comes_and_pays_nothing() -> None:
    with memory(**MOVING) as f:
        f.schedule_many(["http://a.test/1", "http://b.test/1", "http://b.test/2"])
        f.internals.know_address("b.test", "192.0.2.1")
        assert standing(f) == {"a.test": ("INACTIVE", 1, 0), "b.test": ("INACTIVE", 2, 0)}
        leases = f.lease(9)
        assert [(lease.queue, lease.uri.url) for lease in leases] == [
            ("a.test", "http://a.test/1"), ("192.0.2.1", "http://b.test/1"),
        ]  # fmt: skip
        assert standing(f)["b.test"] == ("EXHAUSTED", 0, 0)
        assert standing(f)["192.0.2.1"] == ("IN_PROCESS", 2, 0)
        assert (f.summary().queued, f.summary().scheduled) == (3, 3)
        for lease in leases:
            f.finish(lease)
        f.finish(one(f))
        assert standing(f)["192.0.2.1"] == ("EXHAUSTED", 0, 2)
        f.check()


def test_without_the_setting_no_uri_moves() -> None:
    with memory(queue_assignment_policy="ip") as f:
        f.schedule("http://a.test/1")
        f.internals.know_address("a.test", "192.0.2.1")
        assert one(f).queue == "a.test"


def test_a_forced_key_is_kept() -> None:
    with memory(**MOVING) as f:
        f.schedule_many([CrawlUri("http://a.test/1", queue="mine"), CrawlUri("http://a.test/2", queue="a.test")])
        f.internals.know_address("a.test", "192.0.2.1")
        assert [lease.queue for lease in f.lease(9)] == ["mine", "a.test"]


def test_a_uri_keeps_its_rank_and_all_its_fields() -> None:
    given = CrawlUri(
        "http://b.test/x", via="http://b.test/", hops="LL", source="tag", headers={"A": "b"}, meta={"c": 1},
        payload=b"p", directive=Directive.HIGH, priority=4, cost=7,
    )  # fmt: skip
    with memory(**MOVING, balance_replenish_amount=100) as f:
        f.schedule_many(["http://b.test/1", given])
        f.schedule_many(["http://a.test/1", "http://a.test/2"])
        f.internals.know_address("b.test", "192.0.2.1")
        f.internals.know_address("a.test", "192.0.2.1")
        order = []
        while leases := f.lease(1):
            order.append(leases[0])
            f.finish(leases[0])
        assert [lease.uri.url for lease in order] == [
            "http://b.test/x", "http://b.test/1", "http://a.test/1", "http://a.test/2",
        ]  # fmt: skip
        moved = order[0].uri
        assert {lease.queue for lease in order} == {"192.0.2.1"}
        assert (moved.via, moved.hops, moved.source, moved.headers, moved.meta, moved.payload) == (
            given.via, given.hops, given.source, given.headers, given.meta, given.payload,
        )  # fmt: skip
        assert (moved.directive, moved.priority, order[0].cost) == (Directive.HIGH, 4, 7)
        f.check()


def test_attempts_move_with_their_uri(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, **MOVING, retry={"delay": 0}) as f:
        f.schedule("http://a.test/1")
        f.finish(one(f), Outcome.RETRY, address="192.0.2.1")
        f.commit()
    with on_disk(tmp_path, clock) as f:
        lease = one(f)
        assert (lease.queue, lease.attempt) == ("192.0.2.1", 2)
        f.give_back([lease])
        assert one(f).queue == "192.0.2.1"
        f.check()


def test_seeds_and_kept_urls_are_found_on_their_new_queue(tmp_path: Path) -> None:
    with on_disk(tmp_path, **MOVING, keep_urls=True) as f:
        f.schedule(CrawlUri("http://a.test/", directive=Directive.MEDIUM))
        f.internals.know_address("a.test", "192.0.2.1")
        lease = one(f)
        f.commit()
        assert [row.queue for _, row in seed_list.rows(kernel(f).tables.env.view())] == ["192.0.2.1"]
        known = f.find_url("http://a.test/")
        assert known is not None and known.queue == "192.0.2.1" and known.uri is not None
        totals = f.internals.kept_totals("192.0.2.1")
        assert totals is not None and f.internals.kept_totals("a.test") is None
        f.finish(lease)
        f.check()


def test_a_turn_moves_a_bounded_number_of_uris(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MAX_TURNS", 10)
    with memory(**MOVING) as f:
        f.schedule_many(f"http://a.test/{number}" for number in range(35))
        f.internals.know_address("a.test", "192.0.2.1")
        moved = []
        while not (leases := f.lease(1)):
            assert f.next_ready_in() == 0.0
            moved.append(standing(f)["192.0.2.1"][1])
            f.check()
        assert moved == [9, 19, 29]
        assert (leases[0].uri.url, standing(f)["192.0.2.1"][1]) == ("http://a.test/0", 35)


def test_leases_by_queue_move_uris_too() -> None:
    with memory(**MOVING, concurrency=8) as f:
        f.schedule_many(["http://a.test/1", "http://a.test/2", "http://b.test/1"])
        f.internals.know_address("a.test", "192.0.2.1")
        leases = f.internals.lease_queues(3, 2)
        assert sorted((lease.queue, lease.uri.url) for lease in leases) == [
            ("192.0.2.1", "http://a.test/1"), ("192.0.2.1", "http://a.test/2"), ("b.test", "http://b.test/1"),
        ]  # fmt: skip
        assert standing(f)["a.test"] == (str(QueueState.EXHAUSTED), 0, 0)
        f.check()


def test_a_policy_that_fails_at_a_turn_changes_nothing() -> None:
    with memory(queue_assignment_policy=f"{__name__}:by_path", defer_to_previous=False) as f:
        f.schedule_many(["http://a.test/1", "http://a.test/2"])
        KEY["1"] = ValueError("no idea")
        for _ in range(2):
            with pytest.raises(PolicyError, match="no idea"):
                f.lease(1)
            f.check()
        KEY["1"] = "x" * 300  # no key: it stays
        assert one(f).uri.url == "http://a.test/1"


def test_a_changed_policy_moves_no_uri_unasked_and_the_audit_says_so(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_assignment_policy="hostname") as f:
        f.schedule_many(["http://a.test/1", "http://b.test/1"])
    with on_disk(tmp_path, queue_assignment_policy="surt-authority") as f:
        assert "queued URIs stay on their queues" in f.audit(limit=1)[0].reason
        f.schedule("http://a.test/2")
        assert [lease.queue for lease in f.lease(9)] == ["a.test", "b.test", "test,a,"]
        f.check()
    with on_disk(tmp_path, queue_assignment_policy="surt-authority", defer_to_previous=False) as f:
        assert [lease.queue for lease in f.lease(9)] == ["test,a,", "test,b,"]
        f.check()
    with on_disk(tmp_path, queue_assignment_policy="single", defer_to_previous=False) as f:
        assert "each queued URI moves to its new queue when its turn comes" in f.audit(limit=1)[0].reason
        assert one(f).queue == "all"
        f.check()


# -- the waits of a host


POLITE: dict[str, Any] = {"queue_assignment_policy": "ip", "politeness": {"min_delay": 10, "delay_factor": 0}}


def given(f: Frontier) -> list[tuple[str, str]]:
    return [(lease.queue, lease.uri.url) for lease in f.lease(9)]


@pytest.mark.parametrize("defer_to_previous", [True, False])
def test_a_host_rests_under_its_new_key_too(defer_to_previous: bool) -> None:
    clock = ManualClock(START)
    with memory(clock, **POLITE, defer_to_previous=defer_to_previous) as f:
        f.schedule("http://a.test/1")
        f.finish(one(f), address="192.0.2.1", crawl_delay=40.0)
        f.schedule("http://a.test/2")
        assert (f.lease(9), f.next_ready_in()) == ([], 40.0)
        clock.advance(40.0)
        assert given(f) == [("192.0.2.1", "http://a.test/2")]
        f.check()


def test_names_of_one_address_take_turns_once_it_is_known() -> None:
    clock = ManualClock(START)
    with memory(clock, **POLITE) as f:
        hosts = [f"h{number}.test" for number in range(4)]
        f.schedule_many(f"http://{host}/{page}" for page in (1, 2) for host in hosts)
        for host in hosts:
            f.internals.know_address(host, "192.0.2.1")
        ends = []
        while (wait := f.next_ready_in()) is not None:
            clock.advance(wait)
            for lease in f.lease(1):
                ends.append(clock.time() - START)
                f.finish(lease)
        assert ends == [10.0 * number for number in range(8)]
        f.check()


def test_a_queue_waits_for_that_of_its_key() -> None:
    clock = ManualClock(START)
    with memory(clock, **POLITE) as f:
        f.schedule("http://a.test/1")
        f.internals.know_address("a.test", "192.0.2.1")
        f.schedule("http://192.0.2.1/2")
        old, new = f.lease(9)
        f.finish(old, Outcome.DEFERRED)
        f.finish(new)
        assert (f.lease(9), f.next_ready_in()) == ([], 10.0)
        waiting = f.queue("a.test")
        assert waiting is not None and waiting.state is QueueState.SNOOZED
        clock.advance(10.0)
        assert given(f) == [("a.test", "http://a.test/1")]
        f.check()


def test_leases_by_queue_wait_for_that_of_its_key() -> None:
    clock = ManualClock(START)
    with memory(clock, queue_assignment_policy="ip", politeness={**POLITE["politeness"], "min_interval": 4}) as f:
        f.schedule_many(["http://a.test/1", "http://a.test/2"])
        f.internals.know_address("a.test", "192.0.2.1")
        f.schedule("http://a.test/3")
        (first,) = f.internals.lease_queues(1, 1, queue="192.0.2.1")
        f.finish(first)
        assert f.internals.lease_queues(1, 1, queue="a.test") == []
        waiting = f.queue("a.test")
        assert waiting is not None and (waiting.state, waiting.wake_time) == (QueueState.SNOOZED, START + 10)
        f.check()


def test_a_back_off_goes_along_with_its_history() -> None:
    clock = ManualClock(START)
    with memory(clock, **POLITE) as f:
        f.schedule("http://a.test/1")
        f.finish(one(f), Outcome.FAILURE, status=503, address="192.0.2.1")
        f.schedule("http://a.test/2")
        assert (f.lease(9), f.next_ready_in()) == ([], 60.0)
        clock.advance(60.0)
        f.finish(one(f), Outcome.FAILURE, status=503)
        f.schedule("http://a.test/3")
        assert (f.lease(9), f.next_ready_in()) == ([], 120.0)
        f.check()


def test_a_block_goes_along_and_a_retirement_does_not() -> None:
    clock = ManualClock(START)
    with memory(clock, **POLITE) as f:
        f.schedule_many(["http://a.test/1", "http://b.test/1"])
        f.snooze("a.test", until=START + 100)
        f.retire("b.test")
        f.internals.know_address("a.test", "192.0.2.1")
        f.internals.know_address("b.test", "192.0.2.2")
        f.schedule_many(["http://a.test/2", "http://b.test/2"])
        assert given(f) == [("192.0.2.2", "http://b.test/2")]
        blocked = f.queue("192.0.2.1")
        assert blocked is not None and blocked.block == START + 100
        f.wake("192.0.2.1")
        assert given(f) == [("192.0.2.1", "http://a.test/2")]
        f.check()


def test_a_download_that_has_landed_lets_the_new_queue_rest() -> None:
    clock = ManualClock(START)
    with memory(clock, **POLITE) as f:
        f.schedule("http://a.test/1")
        lease = one(f)
        f.internals.know_address("a.test", "192.0.2.1")
        f.schedule("http://a.test/2")
        f.landed(lease)
        assert (f.lease(9), f.next_ready_in()) == ([], 10.0)
        f.finish(lease)
        f.check()


def test_a_changed_policy_takes_waits_along(tmp_path: Path) -> None:
    """Of queues with URIs, of empty ones, and of each host of a queue."""
    clock, politeness = ManualClock(START), POLITE["politeness"]
    one_label: dict[str, Any] = {"queue_assignment_policy": {"hostname": {"limit": 1}}, "politeness": politeness}
    with on_disk(tmp_path, clock, **one_label) as f:
        f.schedule_many(["http://a.test/1", "http://b.test/1"])
        f.finish(one(f))
    with on_disk(tmp_path, clock, queue_assignment_policy="surt-authority", politeness=politeness) as f:
        f.schedule_many(["http://a.test/2", "http://b.test/2", "http://c.example/1"])
        c = one(f)
        assert (c.queue, f.lease(9)) == ("example,c,", [])
        clock.advance(10.0)
        old, a, b = f.lease(9)
        assert [lease.uri.url[7:] for lease in (old, a, b)] == ["b.test/1", "a.test/2", "b.test/2"]
        f.finish(b)
        clock.advance(5.0)
        f.finish(old)  # of b.test as well
        f.schedule("http://b.test/3")
        assert (f.lease(9), f.next_ready_in()) == ([], 10.0)
        f.finish_many([a, c])
        f.check()
    with on_disk(tmp_path, clock, **one_label) as f:  # back again
        assert kernel(f).tables.former_assignments == ["surt-authority"]
        f.schedule("http://c.example/2")
        assert (f.lease(9), f.next_ready_in()) == ([], 10.0)
        clock.advance(10.0)
        assert given(f) == [("test,b,", "http://b.test/3"), ("example", "http://c.example/2")]
        f.check()


def test_a_former_policy_that_cannot_be_asked_any_more_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"{__name__}:by_path"
    with on_disk(tmp_path, queue_assignment_policy=own) as f:
        f.schedule("http://a.test/1")
    with on_disk(tmp_path, queue_assignment_policy="hostname") as f:
        KEY["2"] = ValueError("no idea")
        f.schedule_many(["http://a.test/2", "http://a.test/3"])
        f.commit()
    monkeypatch.delitem(globals(), "by_path")
    with on_disk(tmp_path) as f:
        assert kernel(f).tables.former_assignments == [own]
        f.schedule("http://a.test/4")
        assert [lease.queue for lease in f.lease(9)] == ["start", "a.test"]
        f.check()


def test_a_policy_that_fails_at_an_end_changes_nothing_else() -> None:
    with memory(
        queue_assignment_policy=f"{__name__}:by_path", defer_to_previous=False, politeness=POLITE["politeness"]
    ) as f:
        f.schedule("http://a.test/1")
        lease = one(f)
        KEY["1"] = ValueError("no idea")
        f.finish(lease)
        assert f.summary().succeeded == 1
        f.check()


def test_only_the_newest_former_policies_are_kept(tmp_path: Path) -> None:
    for limit in range(1, 12):
        with on_disk(tmp_path, queue_assignment_policy={"hostname": {"limit": limit}}) as f:
            f.schedule(f"http://a.test/{limit}")
            former = kernel(f).tables.former_assignments
    assert former == [{"hostname": {"limit": limit}} for limit in range(3, 11)]


def test_a_download_that_is_over_without_a_delay_lets_the_interval_of_its_host_go_along() -> None:
    paced = {"min_interval": 30, "min_delay": 0, "delay_factor": 0, "max_delay": 0}
    with memory(ManualClock(START), queue_assignment_policy="ip", politeness=paced) as f:
        f.schedule("https://a.test/1")
        f.internals.know_address("a.test", "192.0.2.1")
        f.landed(f.lease()[0])
        queue = f.queue("192.0.2.1")
        assert queue is not None and queue.wake_time == START + 30
        f.check()
