"""Arguments of the API: what is accepted, and what each refusal says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Finish, Frontier, FrontierError, Outcome
from budgetfrontier.engine import arguments
from budgetfrontier.remote import RemoteFrontier
from tests.support import memory, one, pages


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_seconds_are_finite_and_at_least_0(value: float) -> None:
    with pytest.raises(ValueError, match="ttl is a number of seconds"):
        arguments.seconds(value, "ttl")
    assert arguments.seconds(0, "ttl") == 0.0


def test_a_crawl_delay_may_be_any_number() -> None:
    assert arguments.waits(None, -5) == (None, -5.0, None)
    assert arguments.waits(1, float("inf"), 2) == (1.0, float("inf"), 2.0)
    with pytest.raises(ValueError, match="crawl_delay"):
        arguments.waits(None, float("nan"))


def test_dead_letters_become_ids() -> None:
    assert arguments.letter_ids(None) is None
    assert (arguments.letter_ids(7), arguments.letter_ids([7, 8])) == ([7], [7, 8])
    for wrong in ("78", ["78"], [True], [7.0]):
        with pytest.raises(TypeError, match="dead letters or their ids"):
            arguments.letter_ids(wrong)  # type: ignore[arg-type]


def test_a_queue_key_is_text() -> None:
    assert arguments.queue_key("a.test") == "a.test"
    with pytest.raises(TypeError, match="not int"):
        arguments.queue_key(5)


HUGE = 10**400
"""A whole number that no float can hold."""


@pytest.mark.parametrize("value", [HUGE, -HUGE])
def test_a_number_that_no_float_can_hold_is_refused_with_the_bound(value: int) -> None:
    calls: dict[str, Callable[[], object]] = {
        "ttl": lambda: arguments.seconds(value, "ttl"),
        "crawl_delay": lambda: arguments.waits(None, value),
        "until": lambda: arguments.number(value, "until"),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=rf"{name} is a number up to 1\.8e\+308, not a number of 1329 bits"):
            call()
    with pytest.raises(ValueError, match="size is a number of bytes below 1,099,511,627,776, not a number of 1329"):
        arguments.size(value)


@pytest.mark.parametrize("value", ["x", None, [], object(), "x" * 100])
def test_what_is_no_number_is_refused_with_the_name_of_the_argument(value: Any) -> None:
    given: Any = "x" if value is None else value  # None means that there is none
    calls: dict[str, Callable[[Frontier], object]] = {
        "ttl": lambda f: arguments.seconds(value, "ttl"),
        "wait": lambda f: arguments.asked(1, None, value),
        "fetch_seconds": lambda f: f.finish(one(f), fetch_seconds=given),
        "crawl_delay": lambda f: f.landed(one(f), crawl_delay=given),
        "until": lambda f: f.snooze("a.test", until=value),
        "interval": lambda f: f.internals.regulate("a.test", interval=given),
        "seconds": lambda f: f.internals.postpone_commit(value),
        "rate": lambda f: f.verdict(rate=given),
        "retry_for": lambda f: RemoteFrontier("127.0.0.1:1", retry_for=value),
        "timeout": lambda f: RemoteFrontier("127.0.0.1:1", timeout=given),
    }
    with memory(concurrency=9) as f:
        f.schedule_many(pages("A", 3))
        for name, call in calls.items():
            with pytest.raises(TypeError, match=f"^{name} is a number, not .{{1,60}}$"):
                call(f)
        with pytest.raises(TypeError, match=r"^count is a whole number, not "):
            arguments.asked(value, None, 0)
        f.check()


def test_zero_has_no_sign() -> None:
    assert str(arguments.seconds(-0.0, "ttl")) == "0.0"


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1.5, -float("inf")])
def test_counts_are_whole_numbers_and_limits_not_negative(value: float) -> None:
    with pytest.raises(ValueError, match="count is a whole number, not"):
        arguments.whole(value, "count")
    with pytest.raises(ValueError, match="limit is a whole number of at least 0, not"):
        arguments.limit(value)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="limit"):
        arguments.limit(-1)
    assert (arguments.whole(3.0, "count"), arguments.limit(None), arguments.limit(HUGE)) == (3, None, sys.maxsize)


NUMBERS: dict[str, Callable[[Frontier, Any], object]] = {
    "lease": lambda f, value: f.lease(value),
    "lease, ttl": lambda f, value: f.lease(1, ttl=value),
    "lease_queues": lambda f, value: f.internals.lease_queues(value),
    "lease_queues, of each": lambda f, value: f.internals.lease_queues(1, value),
    "lease_queues, limit": lambda f, value: f.internals.lease_queues(1, limit=value),
    "renew": lambda f, value: f.renew(one(f), value),
    "finish, fetch_seconds": lambda f, value: f.finish(one(f), fetch_seconds=value),
    "finish, crawl_delay": lambda f, value: f.finish(one(f), crawl_delay=value),
    "finish, delay": lambda f, value: f.finish(one(f), Outcome.RETRY, delay=value),
    "finish, size": lambda f, value: f.finish(one(f), size=value),
    "finish_many": lambda f, value: f.finish_many([Finish(one(f), delay=value)]),
    "landed": lambda f, value: f.landed(one(f), fetch_seconds=value),
    "snooze": lambda f, value: f.snooze("a.test", until=value),
    "set_queue": lambda f, value: f.set_queue("a.test", interval=value),
    "set_queue, max_completed": lambda f, value: f.set_queue("a.test", max_completed=value),
    "regulate, interval": lambda f, value: f.internals.regulate("a.test", interval=value),
    "regulate, max_completed": lambda f, value: f.internals.regulate("a.test", max_completed=value),
    "regulate, total_budget": lambda f, value: f.internals.regulate("a.test", total_budget=value),
    "regulate, blocked_until": lambda f, value: f.internals.regulate("a.test", blocked_until=value),
    "adjust": lambda f, value: f.adjust(queue_total_budget=value),
    "audit": lambda f, value: f.audit(limit=value),
    "dead_letters": lambda f, value: f.dead_letters(limit=value),
    "queue_keys": lambda f, value: f.internals.queue_keys(limit=value),
    "kept_urls": lambda f, value: f.internals.kept_urls(limit=value),
    "fetched": lambda f, value: f.internals.fetched([(CrawlUri("https://a.test/"), value)]),
    "undo": lambda f, value: f.undo(value),
    "withdraw": lambda f, value: f.withdraw(value),
    "replay": lambda f, value: f.replay(value),
    "not_before": lambda f, value: f.schedule(CrawlUri("https://a.test/z", not_before=value)),
}


@pytest.mark.parametrize("call", NUMBERS)
@pytest.mark.parametrize("value", [HUGE, -HUGE, float("inf"), -float("inf"), float("nan"), -0.0, 1e308, 2**70, "x"])
def test_no_number_closes_the_frontier_or_fails_without_words(call: str, value: Any) -> None:
    with memory(keep_urls=True, concurrency=9) as f:
        f.schedule_many(pages("A", 3))
        try:
            NUMBERS[call](f, value)
        except (ValueError, TypeError, FrontierError) as e:
            assert str(e) and len(str(e)) < 500
        f.check()
        f.commit()
        f.check()
