"""Leases, retries, what is scheduled for later, dead letters, and admission."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Admission, CrawlState, CrawlUri, Directive, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import LeaseExpired
from budgetfrontier.testing import crash
from tests.support import START, crawl, crawl_state, memory, on_disk, one, pages, paths, record, state


def test_a_lease_expires_and_its_uri_is_delivered_again() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("AB", 1))
        (first,) = f.lease(1, ttl=10.0)
        assert (first.delivery, first.expires) == (1, START + 10)
        assert f.summary().in_process == 1
        clock.advance(11)
        leases = f.lease(5)
        assert [(lease.queue[0], lease.delivery) for lease in leases] == [("a", 2), ("b", 1)]
        assert leases[0].id > first.id
        assert record(f, "A").expenditure == 0


def test_the_usual_ttl() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        assert one(f).expires == START + 300.0


def test_an_expired_lease_can_be_neither_finished_nor_renewed() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("A", 1))
        lease = one(f)
        clock.advance(301)
        with pytest.raises(LeaseExpired):
            f.finish(lease, Outcome.SUCCESS, discovered=["https://b.test/"])
        with pytest.raises(LeaseExpired):
            f.renew(lease, 300.0)
        assert (record(f, "A").queued, f.summary().succeeded, f.summary().expenditure) == (1, 0, 0)
        assert f.queue("b.test") is None
        assert one(f).delivery == 2


def test_a_lease_is_finished_once() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        lease = one(f)
        f.finish(lease, Outcome.SUCCESS)
        with pytest.raises(LeaseExpired):
            f.finish(lease, Outcome.SUCCESS)
        assert f.summary().succeeded == 1


def test_a_renewed_lease_lives_on() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("A", 1))
        lease = one(f)
        clock.advance(200)
        f.renew(lease, 300.0)
        clock.advance(200)
        assert f.lease(1) == []
        f.finish(lease, Outcome.SUCCESS)
        assert f.summary().succeeded == 1


def test_an_expired_lease_leaves_a_retired_queue_retired() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("A", 1))
        one(f)
        f.retire("a.test")
        clock.advance(301)
        assert f.lease(1) == []
        assert (state(f, "A"), f.summary().in_process, f.state) == ("RETIRED", 0, CrawlState.FINISHED)


def test_an_expired_lease_does_not_cut_a_snooze_short() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("A", 1))
        f.lease(1, ttl=10.0)
        f.snooze("a.test", until=START + 100)
        clock.advance(50)
        assert f.lease(1) == []
        assert (state(f, "A"), f.summary().in_process) == ("SNOOZED", 0)
        clock.advance(50)
        assert one(f).delivery == 2


@pytest.mark.parametrize("end", ["expiry", "close", "crash"])
def test_a_depleted_queue_whose_last_lease_is_lost_hands_out_no_more(end: str, tmp_path: Path) -> None:
    clock = ManualClock(START)
    options: dict[str, Any] = {"concurrency": 3, "balance_replenish_amount": 3, "error_penalty_amount": 3}
    f = on_disk(tmp_path, clock, **options)
    f.schedule_many(pages("A", 5) + pages("B", 1))
    a = f.lease(3)
    assert paths(a) == ["0", "1", "2"]
    f.finish(a[0], Outcome.FAILURE)
    assert (record(f, "A").balance, state(f, "A")) == (-1, "IN_PROCESS")
    if end == "expiry":
        f.renew(a[2], 400.0)
        clock.advance(350)
        with pytest.raises(LeaseExpired):
            f.renew(a[1])
        assert state(f, "A") == "IN_PROCESS"
        clock.advance(350)
        with pytest.raises(LeaseExpired):
            f.finish(a[2])
    elif end == "close":
        f.close()
        f = on_disk(tmp_path, clock)
    else:
        f.commit()
        crash(f)
        f = on_disk(tmp_path, clock)
    assert (state(f, "A"), f.next_ready_in()) == ("INACTIVE", 0.0)
    assert [lease.queue for lease in f.lease(2)] == ["b.test", "a.test"]
    assert record(f, "A").balance == 3
    f.check()
    f.close()


def test_too_many_deliveries_end_in_a_dead_letter() -> None:
    clock = ManualClock(START)
    with memory(clock, max_deliveries=3) as f:
        f.schedule_many(pages("A", 1))
        deliveries = []
        while leases := f.lease(1):
            deliveries.append(leases[0].delivery)
            clock.advance(301)
        assert deliveries == [1, 2, 3]
        (letter,) = f.dead_letters()
        assert letter.uri.url == "https://a.test/0"
        assert letter.deliveries == 3
        assert (state(f, "A"), record(f, "A").expenditure, f.state) == ("EXHAUSTED", 0, CrawlState.FINISHED)
        f.check()


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


def test_a_retry_can_set_only_its_uri_aside() -> None:
    clock = ManualClock(START)
    with memory(clock, retry={"delay": 900.0, "scope": "uri"}) as f:
        f.schedule_many(pages("A", 2))
        f.finish(one(f), Outcome.RETRY)
        assert (f.summary().future, f.summary().queued, record(f, "A").queued) == (1, 1, 1)
        lease = one(f)
        assert lease.uri.url == "https://a.test/1"
        f.finish(lease, Outcome.SUCCESS)
        assert (f.lease(1), f.state) == ([], CrawlState.RUNNING)
        assert f.next_ready_in() == pytest.approx(900)
        clock.advance(900)
        lease = one(f)
        assert (lease.uri.url, lease.attempt) == ("https://a.test/0", 2)


def test_a_revisit_is_a_forced_uri_for_later() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule("https://a.test/0")
        revisit = CrawlUri("https://a.test/0", force=True, not_before=START + 86400)
        f.finish(one(f), Outcome.SUCCESS, discovered=[revisit])
        assert (f.summary().future, f.summary().seen) == (1, 1)
        clock.advance(86400)
        assert one(f).uri.url == "https://a.test/0"


def test_what_is_due_arrives_in_order() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        for host, wait in ("a", 30), ("b", 10), ("c", 30), ("d", 0):
            f.schedule(CrawlUri(f"https://{host}.test/", not_before=START + wait))
        clock.advance(40)
        assert crawl(f) == "DBAC"


def test_dead_letters_are_kept_whole_and_can_be_replayed_or_dropped() -> None:
    with memory() as f:
        f.schedule_many(CrawlUri(url, meta={"k": [1]}, payload=b"\0", cost=4) for url in pages("AB", 1))
        for lease in f.lease(2):
            f.finish(lease, Outcome.DEAD, reason="gone")
        assert crawl_state(f) == "FINISHED"
        letters = f.dead_letters()
        assert [(letter.queue, letter.reason, letter.time, letter.cost) for letter in letters] == [
            ("a.test", "gone", START, 4),
            ("b.test", "gone", START, 4),
        ]
        assert (letters[0].uri.meta, letters[0].uri.payload) == ({"k": [1]}, b"\0")
        assert len(f.dead_letters(limit=1)) == 1
        assert f.replay([letters[0].id]) == 1
        assert (f.summary().dead, f.state, record(f, "A").queued) == (1, CrawlState.RUNNING, 1)
        assert f.drop_dead_letters() == 1
        assert f.dead_letters() == []
        assert one(f).uri.payload == b"\0"
        f.check()


@pytest.mark.parametrize("text", ["12", b"\1\2"])
def test_text_is_not_taken_for_the_ids_of_dead_letters(text: Any) -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        while leases := f.lease(1):
            f.finish(leases[0], Outcome.DEAD)
        for of_letters in f.replay, f.drop_dead_letters:
            with pytest.raises(TypeError, match="whole numbers, not"):
                of_letters(text)
        assert f.summary().dead == 2


def test_replay_by_queue() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 2))
        while leases := f.lease(1):
            f.finish(leases[0], Outcome.DEAD, reason="gone")
        assert f.replay(queue="b.test") == 2
        assert crawl(f) == "BB"
        assert f.replay() == 2
        assert crawl(f) == "AA"


# ---- admission


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("https://a.test/", "https://A.test:443"),
        ("https://a.test/x", "https://a.test/x#part"),
        ("https://a.test/?a=1&b=2", "https://a.test/?b=2&a=1"),
        ("https://a.test/x", "https://a.test/x?"),
        ("https://a.test/x", "https://www.a.test/x"),
        ("https://a.test/x", "https://me@a.test/x"),
        ("https://a.test/x", "https://a.test/x?utm_source=y"),
    ],
)
def test_a_uri_is_admitted_once(first: str, second: str) -> None:
    with memory() as f:
        assert f.schedule(first) is Admission.ADDED
        assert f.schedule(second) is Admission.DUPLICATE
        assert (f.summary().seen, f.summary().scheduled, f.summary().duplicates) == (1, 1, 1)


def test_another_method_or_body_is_another_uri() -> None:
    with memory() as f:
        url = "https://a.test/form"
        forms = [CrawlUri(url, method="POST", body=body) for body in (b"", b"x", b"y")]
        assert [f.schedule(uri) for uri in (CrawlUri(url), *forms)] == [Admission.ADDED] * 4
        assert f.schedule(forms[1]) is Admission.DUPLICATE


def test_force_skips_the_check_and_records_nothing() -> None:
    with memory() as f:
        forced = CrawlUri("https://a.test/", force=True)
        assert [f.schedule(forced), f.schedule(forced)] == [Admission.ADDED] * 2
        assert (record(f, "A").queued, f.summary().seen) == (2, 0)
        assert f.schedule("https://a.test/") is Admission.ADDED
        assert f.schedule("https://a.test/") is Admission.DUPLICATE


@pytest.mark.parametrize(
    "url",
    ["", "no url", "ftp://a.test/", "mailto:a@b.test", "https://", "https://a.test:99999/", "\ud800", "https://a\0/"],
)
def test_a_bad_uri_is_invalid_and_poisons_no_batch(url: str) -> None:
    with memory() as f:
        assert f.schedule(url) is Admission.INVALID
        tally = f.schedule_many(["https://a.test/1", url, "https://a.test/2", url, "https://a.test/1"])
        assert (tally.added, tally.invalid, tally.duplicate, tally.full) == (2, 2, 1, 0)
        assert sum(tally.reasons.values()) == 2
        assert f.summary().queued == 2
        f.check()


def test_a_full_frontier_keeps_no_trace() -> None:
    with memory(max_queued=3) as f:
        tally = f.schedule_many(pages("A", 2) + pages("BC", 1))
        assert (tally.added, tally.full) == (3, 1)
        assert f.queue("c.test") is None
        assert f.summary().seen == 3
        assert crawl(f, 1) == "A"
        assert f.schedule("https://c.test/0") is Admission.ADDED


def test_a_full_queue_keeps_no_trace() -> None:
    overrides = [{"match": "queue:b.test", "set": {"max_queue_size": 0}}]
    with memory(max_queue_size=2, overrides=overrides) as f:
        tally = f.schedule_many(pages("AB", 5))
        assert (tally.added, tally.full) == (7, 3)
        assert f.schedule("https://a.test/4") is Admission.FULL
        assert crawl(f, 1) == "A"
        assert f.schedule("https://a.test/4") is Admission.ADDED


@pytest.mark.parametrize("limit", ["max_queue_size", "max_queued"])
def test_what_is_full_has_room_for_a_prerequisite(limit: str) -> None:
    frontier: dict[str, Any] = {limit: 2}
    with memory(**frontier) as f:
        f.schedule_many(pages("A", 2))
        url = "https://a.test/robots.txt"
        assert f.schedule(CrawlUri(url, directive=Directive.HIGHEST)) is Admission.FULL
        assert f.schedule(CrawlUri(url, force=True)) is Admission.FULL
        assert f.schedule(CrawlUri(url, directive=Directive.HIGHEST, force=True)) is Admission.ADDED
        assert one(f).uri.url == url
        f.check()


def test_a_forced_queue_key_wins() -> None:
    with memory() as f:
        f.schedule(CrawlUri("https://a.test/", queue="my queue"))
        assert f.queue("a.test") is None
        assert one(f).queue == "my queue"


def test_a_queue_key_has_255_bytes_at_most() -> None:
    with memory() as f:
        assert f.schedule(CrawlUri("https://a.test/", queue="k" * 255)) is Admission.ADDED
        f.schedule(CrawlUri("https://b.test/", queue="k" * 256))
        f.schedule(CrawlUri("https://c.test/", queue="\u00e9" * 200))
        assert all(len(lease.queue.encode()) <= 255 for lease in f.lease(5))
        f.check()
