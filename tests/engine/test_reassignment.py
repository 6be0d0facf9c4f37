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
