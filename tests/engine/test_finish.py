"""Finishes: what each outcome charges and does to a URI, retries, and what comes after the last one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlState, CrawlUri, Directive, Finish, Frontier, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.rules.uri_outcomes import outcome_of_answer
from tests.support import START, crawl, memory, on_disk, one, pages, record, state


def test_discovered_uris_are_scheduled_first() -> None:
    with memory() as f:
        f.schedule("https://a.test/0")
        lease = one(f)
        f.finish(lease, Outcome.SUCCESS, discovered=["https://a.test/1", "https://b.test/", "not a url"])
        assert (state(f, "A"), state(f, "B")) == ("READY", "INACTIVE")
        child = one(f)
        assert (child.uri.url, child.uri.via, child.uri.hops) == ("https://a.test/1", "https://a.test/0", "L")


@pytest.mark.parametrize(
    ("outcome", "charge", "queued", "counter", "errors"),
    [
        (Outcome.SUCCESS, 7, 1, "succeeded", 0),
        (Outcome.FAILURE, 107, 1, "failed", 1),
        (Outcome.RETRY, 7, 2, "retried", 1),
        (Outcome.DEFERRED, 0, 2, "deferred", 0),
        (Outcome.DISREGARDED, 0, 1, "disregarded", 0),
        (Outcome.DEAD, 7, 1, "dead", 1),
    ],
)
def test_charges(outcome: Outcome, charge: int, queued: int, counter: str, errors: int) -> None:
    with memory(error_penalty_amount=100, balance_replenish_amount=500, retry={"delay": 0.0}) as f:
        f.schedule_many(CrawlUri(url, cost=7) for url in pages("A", 2))
        f.finish(one(f), outcome, reason="because")
        queue = record(f, "A")
        assert (queue.expenditure, queue.balance, queue.queued) == (charge, 500 - charge, queued)
        assert queue.errors == errors
        assert queue.average_cost == (7.0 if charge else 0.0)
        assert (f.summary()[counter], f.summary().expenditure) == (1, charge)
        f.check()


def test_every_retry_is_charged_until_the_uri_is_dead() -> None:
    with memory(error_penalty_amount=100, retry={"max_retries": 2, "delay": 0.0}) as f:
        f.schedule_many(pages("A", 1))
        attempts = []
        while leases := f.lease(1):
            attempts.append(leases[0].attempt)
            f.finish(leases[0], Outcome.RETRY, reason="timeout")
        assert attempts == [1, 2, 3]
        assert record(f, "A").expenditure == 3
        (letter,) = f.dead_letters()
        assert (letter.uri.url, letter.reason, letter.queue) == ("https://a.test/0", "timeout", "a.test")


def test_a_retried_uri_keeps_its_place() -> None:
    with memory(retry={"delay": 0.0}) as f:
        f.schedule_many(pages("A", 2))
        f.finish(one(f), Outcome.RETRY)
        assert one(f).uri.url == "https://a.test/0"


def test_the_zero_policy_spends_only_penalties() -> None:
    with memory(cost_policy="zero", error_penalty_amount=5) as f:
        f.schedule_many(pages("A", 3))
        f.finish(one(f), Outcome.FAILURE)
        assert crawl(f) == "AA"
        assert record(f, "A").expenditure == 5


def test_a_retry_snoozes_its_queue() -> None:
    clock = ManualClock(START)
    with memory(clock, polite=True, retry={"delay": 900.0}) as f:
        f.schedule_many(pages("A", 2))
        f.finish(one(f), Outcome.RETRY, reason="connect")
        assert (state(f, "A"), record(f, "A").wake_time) == ("SNOOZED", START + 900)
        clock.advance(899)
        assert f.lease(1) == []
        clock.advance(1)
        lease = one(f)
        assert (lease.uri.url, lease.attempt, lease.delivery) == ("https://a.test/0", 2, 1)


def test_a_retry_waits_for_the_longer_of_its_delay_and_politeness() -> None:
    with memory(polite=True, retry={"delay": 900.0}) as f:
        f.schedule_many(pages("AB", 1))
        first, second = f.lease(2)
        f.finish(first, Outcome.RETRY, delay=10.0, fetch_seconds=5.0)
        assert record(f, "A").wake_time == START + 25
        f.finish(second, Outcome.RETRY, delay=10.0, fetch_seconds=0.1)
        assert record(f, "B").wake_time == START + 10


def test_all_that_happens_is_counted() -> None:
    clock = ManualClock()
    with memory(clock, error_penalty_amount=3, retry={"max_retries": 0}) as f:
        f.schedule_many([*pages("A", 7), "not a url", CrawlUri("https://a.test/first", directive=Directive.HIGHEST)])
        ends = [Outcome.SUCCESS, Outcome.FAILURE, Outcome.RETRY, Outcome.DEAD, Outcome.DISREGARDED]
        for number, outcome in enumerate(ends):
            f.finish(one(f), outcome, size=10, reason="robots" if number == 4 else "")
        assert f.finish_many([Finish(one(f), size=5)]) == []
        one(f)
        clock.advance(1000)
        f.lease(0)
        totals, queue = f.summary(), record(f, "A")
    assert (totals.bytes, queue.bytes) == (55, 55)
    assert (totals.invalid, sum(totals.invalid_reasons.values()), totals.full) == (1, 1, 0)
    assert (totals.given_up, totals.buried, totals.expired, totals.robots_denials, totals.prerequisites) == (
        2,
        2,
        1,
        1,
        1,
    )
    assert (totals.failed_expenditure, totals.penalties, totals.retried_expenditure) == (4, 3, 0)
    assert (totals.succeeded_expenditure, totals.given_up_expenditure, queue.errors) == (2, 2, 3)


@pytest.mark.parametrize("size", [-1, 1.5, "many", 1 << 40])
def test_a_size_is_a_number_of_bytes(size: Any) -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        lease = one(f)
        for finish in (lambda: f.finish(lease, size=size), lambda: f.finish_many([Finish(lease, size=size)])):
            with pytest.raises(TypeError if size == "many" else ValueError, match="number of bytes"):
                finish()
        f.finish(lease)


def test_discovered_uris_that_are_refused_are_counted_by_reason() -> None:
    found = ["not a url", "https://a.test/fine", "mailto:a@a.test", "https://b.test/too-many"]
    for many in (False, True):
        with memory(max_queued=3, polite=False) as f:
            f.schedule_many(pages("A", 2))
            if many:
                assert f.finish_many([Finish(one(f), discovered=found)]) == []
            else:
                f.finish(one(f), discovered=found)
            f.schedule_many(["https://c.test/", "https://d.test/"])
            totals = f.summary()
        assert (totals.invalid, totals.invalid_reasons, totals.full) == (2, {"scheme": 2}, 2)


@pytest.mark.parametrize("outcome", Outcome)
def test_sizes_are_added_up_alike_by_finish_and_finish_many(outcome: Outcome) -> None:
    told = []
    for many in (False, True):
        with memory(polite=False) as f:
            f.schedule_many(pages("AB", 3))
            for size in (10, 4000):
                if many:
                    assert f.finish_many([Finish(one(f), outcome, size=size)]) == []
                else:
                    f.finish(one(f), outcome, size=size)
            told.append((f.summary().bytes, record(f, "A").bytes, record(f, "B").bytes))
    assert told[0] == told[1] and told[0][0] == 4010


def test_answers_with_an_error_status_are_counted_by_status_prerequisites_apart() -> None:
    uris: list[str | CrawlUri] = [
        *pages("A", 4),
        CrawlUri("https://a.test/robots.txt", directive=Directive.HIGHEST, cost=0),
    ]
    with memory() as f:
        f.schedule_many(uris)
        f.finish(one(f), status=404)  # the robots.txt
        f.finish(one(f), status=404)
        for status in (999, 501, 200):
            assert f.finish_many([Finish(one(f), status=status)]) == []
        totals, queue = f.summary(), record(f, "A")
    assert totals.error_answers == {"404": 1, "other": 1, "501": 1}
    assert (totals.succeeded, totals.prerequisites, totals.prerequisites_succeeded) == (5, 1, 1)
    assert (queue.errors, queue.failure) == (3, "status 501")


@pytest.mark.parametrize("outcome", [Outcome.RETRY, Outcome.FAILURE, Outcome.DEAD])
def test_a_queue_keeps_the_reason_and_the_time_of_its_last_failed_attempt(outcome: Outcome) -> None:
    clock = ManualClock(START)
    with memory(clock, retry={"delay": 0.0}) as f:
        f.schedule_many(pages("A", 2))
        clock.advance(5)
        f.finish(one(f), outcome, reason="no connection \udcff" + "!" * 1000)
        f.finish(one(f), Outcome.DISREGARDED, reason="robots")
        queue = record(f, "A")
    assert (queue.errors, queue.failed_at) == (1, START + 5)
    assert queue.failure.startswith("no connection ?!!!") and len(queue.failure) == 500


def overload(f: Frontier, clock: ManualClock, outcome: Outcome = Outcome.RETRY, **options: Any) -> float:
    """The seconds for which a host rests that answers 503 when its next URI is fetched."""
    clock.set(max(record(f, "A").wake_time, clock.time()))
    f.finish(one(f), outcome, status=503, **options)
    return record(f, "A").wake_time - clock.time()


def test_a_host_that_is_overloaded_rests_longer_each_time_also_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, polite=True) as f:
        f.schedule_many(pages("AB", 9))
        assert [overload(f, clock), overload(f, clock, delay=0.0)] == [60.0, 120.0]
        assert state(f, "A") == "SNOOZED"
    with on_disk(tmp_path, clock) as f:
        assert record(f, "A").wake_time == clock.time() + 120
        assert overload(f, clock) == 240.0
        assert overload(f, clock, delay=30.0) == 30.0, "a Retry-After is obeyed"
        assert overload(f, clock, delay=1e6) == 86400.0
        assert overload(f, clock, Outcome.FAILURE) == 480.0
        assert overload(f, clock, Outcome.SUCCESS) == 960.0
        clock.set(record(f, "A").wake_time + 1800)
        assert overload(f, clock) == 60.0
        assert f.lease(1)[0].queue == "b.test"
        f.check()


def test_overloads_of_several_fetches_in_flight_are_one_incident() -> None:
    clock = ManualClock(START)
    with memory(clock, concurrency=4) as f:
        f.schedule_many(pages("A", 9))
        leases = f.lease(4)
        f.landed(leases[3])
        f.finish_many([Finish(lease, Outcome.RETRY, status=503 if lease.id % 2 else 429) for lease in leases])
        assert (record(f, "A").wake_time, record(f, "A").backoff) == (START + 60, 60.0)
        clock.advance(60)
        assert [lease.attempt for lease in f.lease(9)] == [2, 2, 2, 2]
        f.check()


def test_the_back_off_is_off_only_on_request() -> None:
    clock = ManualClock(START)
    with memory(clock, retry={"delay": 10.0}, backoff={"delay": 0}) as f:
        f.schedule_many(pages("A", 2))
        assert [overload(f, clock), overload(f, clock), overload(f, clock, delay=70.0)] == [10.0, 10.0, 70.0]


def test_without_a_back_off_the_retry_delay_applies_although_a_retry_after_is_running() -> None:
    clock = ManualClock(START)
    with memory(clock, concurrency=2, retry={"delay": 900.0}, backoff={"delay": 0}) as f:
        f.schedule_many(pages("A", 2))
        first, second = f.lease(2)
        f.finish(first, Outcome.RETRY, status=429, delay=2.0)
        f.finish(second, Outcome.RETRY, status=429)
        assert record(f, "A").wake_time == START + 900


@pytest.mark.parametrize(("status", "scope", "rests"), [(500, "queue", 0), (0, "queue", 900), (0, "uri", 0)])
def test_an_answer_that_is_not_about_the_host_delays_only_its_uri(status: int, scope: str, rests: float) -> None:
    clock = ManualClock(START)
    with memory(clock, retry={"delay": 900.0, "scope": scope}) as f:
        f.schedule_many(pages("A", 2))
        f.finish(one(f), Outcome.RETRY, status=status)
        assert record(f, "A").wake_time in (0, START + rests)
        clock.advance(rests)
        assert [lease.uri.url for lease in f.lease(1)] == [f"https://a.test/{0 if rests else 1}"]
        clock.advance(900)
        assert f.lease(1) != [] or rests
        f.check()


def test_a_page_that_stays_ill_is_tried_three_times_in_an_hour() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule("https://a.test/ill")
        tried = []
        while leases := f.lease(1):
            tried.append(clock.time() - START)
            outcome = outcome_of_answer(500, leases[0].attempt, f.internals.settings_for(leases[0]))
            f.finish(leases[0], outcome, status=500)
            clock.advance(f.next_ready_in() or 0.0)
        assert (tried, f.state) == ([0.0, 1800.0, 3600.0], CrawlState.FINISHED)


@pytest.mark.parametrize("status", [1.5, "503", 1 << 20, True])
def test_a_status_is_a_whole_number(status: Any) -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        lease = one(f)
        error = TypeError if status in ("503", True) else ValueError
        with pytest.raises(error, match="status is that of an HTTP response"):
            f.finish(lease, status=status)
        with pytest.raises(error, match="status is that of an HTTP response"):
            f.finish_many([Finish(lease, status=status)])
        f.finish(lease)


WRONG: dict[str, Any] = {
    "status": 1 << 20,
    "size": -1,
    "delay": "soon",
    "fetch_seconds": float("nan"),
    "outcome": "none",
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("many", [False, True])
def test_a_refused_finish_has_not_read_its_links(wrong: str, many: bool) -> None:
    with memory() as f:
        f.schedule_many(["https://a.test/", "https://b.test/"])
        first, second = f.lease(2)
        links, given = iter(["https://c.test/"]), {wrong: WRONG[wrong]}
        with pytest.raises((TypeError, ValueError)):
            if many:
                f.finish_many([Finish(first, discovered=links), Finish(second, **given)])
            else:
                f.finish(first, discovered=links, **given)
        f.finish(first, discovered=links)
        assert f.queue("c.test") is not None
