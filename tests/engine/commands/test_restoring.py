"""What was deleted comes back: to its place, with its tries, past limits; a queue that has changed is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Directive, Frontier, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands import restoring, runner, undo_checks
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.remote import describe_progress
from budgetfrontier.errors import FrontierError, PolicyError
from budgetfrontier.reports.audit_sentences import undone
from budgetfrontier.storage import keys
from budgetfrontier.storage.reader import Reader
from tests.support import START, crawl, crawl_state, on_disk, pages, post, record, state


@pytest.fixture(params=[2, 500], autouse=True)
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(runner, "STEP", request.param)
    monkeypatch.setattr(restoring, "_CHECKED", 1)
    yield


def last(f: Frontier) -> int:
    """The id of the newest audit entry."""
    return f.audit(limit=1)[0].id


def tables(f: Frontier) -> dict[str, list[tuple[bytes, bytes]]]:
    """The records of all URIs."""
    view = f._guard.tables.flushed()
    names = (keys.PENDING, keys.FUTURE, keys.DEAD, keys.SEEN)
    return {name: [item for item in view.txn.cursor(view.db[name]) if item[0] != keys.SENTINEL] for name in names}


def filled(folder: Path, **options: Any) -> Frontier:
    """URIs of all ranks on three queues, some tried before, some for later, and a dead letter of each."""
    f = on_disk(folder, ManualClock(START), hold_queues=True, **options)
    f.schedule_many(pages("abc", 3))
    for _ in range(3):
        (lease,) = f.lease(1)
        f.finish(lease, Outcome.DEAD, reason="poison")
    f.schedule(CrawlUri("https://a.test/first", directive=Directive.HIGHEST))
    f.schedule(CrawlUri("https://a.test/dear", cost=7, priority=-2, payload=b"own"))
    f.schedule_many(CrawlUri(url, not_before=START + 50) for url in pages("ab", 2, first=50))
    for _ in range(2):
        (lease,) = f.lease(1)
        f.finish(lease, Outcome.RETRY)
    f.commit()
    return f


def test_the_uri_placed_last_is_as_before(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("a", 3))
        f.schedule(CrawlUri("https://a.test/first", directive=Directive.HIGHEST))
        f.delete(queue="a.test")
        f.undo(last(f))
        queue = f.queue("a.test")
        assert queue is not None and queue.last_enqueued == "https://a.test/first"


def test_all_is_as_before(tmp_path: Path) -> None:
    with filled(tmp_path) as f:
        before, totals = tables(f), f.summary()
        records = [(record(f, x).queued, record(f, x).enqueued, record(f, x).expenditure) for x in "abc"]
        deleted = f.delete(queue="*")
        assert deleted == f.audit()[0].effect["deleted"] == totals.queued + totals.future
        number = last(f)
        f.check()
        f.undo(number)
        f.check()
        assert tables(f) == before
        now = f.summary()
        for name in ("queued", "future", "seen", "scheduled", "expenditure", "dead", "duplicates", "retried"):
            assert getattr(now, name) == getattr(totals, name), name
        assert [(record(f, x).queued, record(f, x).enqueued, record(f, x).expenditure) for x in "abc"] == records
        assert f.audit(limit=1)[0].effect == {
            "command": "delete",
            "returned": deleted,
            "queues": 3,
            "later": totals.future,
        }


def test_dropped_dead_letters_return_under_their_numbers(tmp_path: Path) -> None:
    with filled(tmp_path) as f:
        letters = f.dead_letters()
        f.drop_dead_letters(letters[0])
        some = last(f)
        f.drop_dead_letters()
        rest = last(f)
        assert f.dead_letters() == []
        f.undo(rest)
        f.undo(some)
        assert f.dead_letters() == letters
        f.check()
        assert f.drop_dead_letters(for_good=True) == 3
        with pytest.raises(FrontierError, match="for good"):
            f.undo(last(f))


def test_they_return_past_seen_and_limits(tmp_path: Path) -> None:
    with filled(tmp_path, max_queued=11) as f:
        f.delete(queue="a.test", pattern="/dear")
        number = last(f)
        f.schedule_many(pages("c", 20, first=100))
        f.undo(number)
        assert f.summary().queued == 12
        f.check()


def test_a_queue_that_is_emptied_comes_back_and_the_crawl_goes_on(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=True) as f:
        f.schedule_many(pages("A", 3))
        f.delete(queue="a.test")
        assert (state(f, "A"), crawl_state(f)) == ("EXHAUSTED", "FINISHED")
        f.undo(1)
        assert (state(f, "A"), crawl_state(f)) == ("INACTIVE", "RUNNING")
        assert crawl(f) == "AAA"


def test_a_queue_that_comes_back_waits_for_its_turn_whatever_arrivals_do(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("a", 2))
        f.schedule(CrawlUri("https://b.test/later", not_before=f._guard.now() + 3600))
        assert state(f, "a") == "READY"
        for key in "a.test", "b.test":
            f.delete(queue=key)
            f.undo(last(f))
        assert state(f, "a") == "INACTIVE"
        f.schedule_many(pages("c", 1))
        assert state(f, "c") == "READY"
        assert crawl(f) == "CAA"
        f.check()


def test_a_queue_retired_by_name_stays_so(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=True) as f:
        f.schedule_many(pages("A", 3))
        f.retire("a.test")
        f.delete(queue="a.test")
        f.undo(last(f))
        assert (state(f, "A"), f.summary().queued, record(f, "A").queued) == ("RETIRED", 0, 3)
        f.check()


def test_what_is_out_is_neither_deleted_nor_doubled(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=True) as f:
        f.schedule_many(pages("A", 3))
        (lease,) = f.lease(1)
        f.delete(queue="a.test")
        f.undo(1)
        assert record(f, "A").queued == 3
        f.finish(lease)
        assert crawl(f) == "AA"
        f.check()


changes: list[tuple[str, Callable[[Frontier], Any]]] = [
    ("it was retired by its operator", lambda f: f.retire("a.test")),
    ("1 URI has come", lambda f: f.schedule("https://a.test/new")),
]


@pytest.mark.parametrize(("why", "change"), changes)
def test_a_queue_that_has_changed_is_refused(
    tmp_path: Path, why: str, change: Callable[[Frontier], Any], step: None
) -> None:
    with on_disk(tmp_path, hold_queues=True) as f:
        f.schedule_many(pages("ABC", 5))
        f.delete(queue="[ab].test")
        change(f)
        queued = f.summary().queued
        with pytest.raises(FrontierError, match=rf"queue a\.test has changed since: {why}.*--force"):
            f.undo(1)
        assert f.summary().queued == queued
        f.undo(1, force=True)
        assert record(f, "A").queued >= 5 and record(f, "B").queued == 5
        f.check()


def test_a_queue_that_is_over_budget_since_is_refused(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=True, queue_total_budget=1) as f:
        f.schedule_many(pages("A", 9))
        f.delete(pattern="[5-8]$")
        crawl(f)
        with pytest.raises(FrontierError, match="it is RETIRED, and was not"):
            f.undo(1)
        f.undo(1, force=True)
        assert (record(f, "A").queued, f.summary().queued) == (7, 0)


def test_other_work_on_a_queue_is_no_change(tmp_path: Path) -> None:
    """What is left of it is crawled meanwhile, and links come."""
    with on_disk(tmp_path, hold_queues=True) as f:
        f.schedule_many(pages("A", 9))
        f.delete(pattern="[5-8]$")
        crawl(f, 2, discovered=["https://a.test/new"])
        f.undo(1)
        assert len(crawl(f)) == 9 - 2 + 1


def test_each_is_undone_once_and_the_later_one_may_be_first(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=True) as f:
        f.schedule_many(pages("A", 9))
        f.delete(pattern="[5-8]$")
        f.delete(queue="a.test")
        f.undo(2)
        f.undo(1)
        assert len(f.lease(99)) == 1 and record(f, "A").queued == 9
        for number, why in (1, "undone already"), (2, "undone already"), (3, "put back what was deleted"):
            with pytest.raises(FrontierError, match=why):
                f.undo(number)
            with pytest.raises(FrontierError, match=why if number < 3 else "has kept nothing"):
                f.internals.discard(number)
        f.check()


def test_what_has_deleted_nothing_says_so(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.delete(queue="none")
        with pytest.raises(FrontierError, match="has changed nothing"):
            f.undo(1)


def test_through_the_mailbox_of_a_crawl(tmp_path: Path) -> None:
    with filled(tmp_path) as f:
        before = tables(f)
        number = post(tmp_path / "frontier", "delete", queue="?.test")
        other = post(tmp_path / "frontier", "undo", id=1)
        told = set()
        while not any(entry.number == other for entry in f.audit(limit=1)):
            f.commit()
            f.check()
            with Reader(tmp_path / "frontier") as reader:
                if (begun := reader.in_progress()) is not None:
                    told.add(re.sub(r"\d+", "0", describe_progress(*begun)))
        assert told <= {
            "delete by somebody is in progress (deleted 0, queues 0, cost 0)",
            "delete by somebody is in progress (deleted 0, queues 0, cost 0, later 0)",
            "undo by somebody is in progress (returned 0, queues 0)",
            "undo by somebody is in progress (returned 0, queues 0, later 0)",
        }
        assert len(told) > 1 or runner.STEP > 2
        assert [entry.number for entry in f.audit()] == [number, other] and not f.audit(limit=1)[0].error
        assert tables(f) == before


def test_a_policy_that_fails_halfway_is_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_disk(tmp_path, hold_queues=True) as f:
        f.schedule_many(pages("ab", 5))
        f.delete(queue="*")
        left = [5]

        def asked(queue_id: int, value: bytes) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise PolicyError("no", policy="p", url="u", value=1)

        with monkeypatch.context() as patch:
            patch.setattr(f._guard.kernel.returns, "asked_precedence", asked)
            with pytest.raises(PolicyError):
                f.undo(1)
        f.check()
        if runner.STEP == 2:
            assert 0 < f.summary().queued < 10
        else:
            assert f.summary().queued == 0
        f.undo(1, force=True)
        assert f.summary().queued == 10
        f.check()


def test_an_older_engine_that_has_kept_nothing(tmp_path: Path) -> None:
    with filled(tmp_path) as f:
        f.delete(queue="*", for_good=True)
        entry = f.internals.apply(Command("undo", {"id": last(f)}, "somebody", ""))
        assert "was for good" in (entry.error or "")
        with pytest.raises(FrontierError, match="nothing was kept of it"):
            f.internals.discard(1)


def test_readers_see_what_is_kept(tmp_path: Path) -> None:
    with filled(tmp_path) as f:
        f.delete(queue="*")
        f.commit()
        with Reader(tmp_path / "frontier") as reader:
            assert reader.audit()[0].effect["kept"]["bytes"] > 100


def test_what_is_deleted_counts_until_it_is_back_and_never_below_nothing(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=True) as f:
        f.schedule_many(pages("a", 3))
        f.schedule(CrawlUri("https://a.test/later", not_before=START + 9))
        f.schedule(CrawlUri("https://a.test/robots.txt", directive=Directive.HIGHEST, force=True))
        assert f.delete(queue="a.test") == 5
        assert f.summary().deleted == 4, "a robots.txt is no page"
        f.undo(last(f))
        assert f.summary().deleted == 0
        f.delete(queue="a.test")
        f._guard.kernel.counters.deleted = 1  # as a repair leaves it that has lost the totals
        f.undo(last(f))
        assert f.summary().deleted == 0
        f.check()


@pytest.mark.parametrize("force", [False, True])
def test_what_waits_again_stays_as_it_is_where_urls_are_kept(tmp_path: Path, force: bool) -> None:
    """Each URL waits once: `import --force` and links have brought some of them again."""
    with on_disk(tmp_path, hold_queues=True, keep_urls=True) as f:
        f.schedule_many(pages("a", 6))
        f.schedule(CrawlUri("https://a.test/later", not_before=START + 9))
        f.delete(queue="a.test", pattern="/([1-4]|later)$")
        again = [{"url": f"https://a.test/{path}", "force": True} for path in ("1", "later")]
        f.internals.apply(Command("schedule", {"uris": again, "in_place": True}, "me", ""))
        foreseen = undo_checks.preview(f._guard.tables.flushed(), {"id": 1, "force": force}, START)
        assert (foreseen["returned"], foreseen["waiting"]) == (3, 2)
        f.undo(1, force=force)
        effect = f.audit(limit=1)[0].effect
        assert (effect["returned"], effect["waiting"]) == (3, 2)
        assert undone(effect) == "returned 3 URIs to 1 queue; not 2, whose URLs wait already"
        assert f.summary().deleted == 2, "they stay deleted, and were scheduled once more"
        f.check()
        assert record(f, "a").queued + f.summary().future == 7


def put_again(f: Frontier, url: str) -> None:
    uris = [{"url": url, "force": True}]
    assert f.internals.apply(Command("schedule", {"uris": uris, "in_place": True}, "me", "")).effect["added"] == 1


@pytest.mark.parametrize("oldest_first", [True, False])
def test_a_url_that_was_deleted_twice_comes_back_once(tmp_path: Path, oldest_first: bool) -> None:
    with on_disk(tmp_path, keep_urls=True) as f:
        f.schedule_many(pages("a", 2))
        for _ in range(2):
            f.delete(queue="a.test", pattern="/0$")
            put_again(f, "https://a.test/0")
        f.delete(queue="a.test", pattern="/0$")
        numbers = sorted(entry.id for entry in f.audit() if entry.command == "delete")
        for number, returned in zip(numbers if oldest_first else reversed(numbers), (1, 0, 0), strict=True):
            foreseen = undo_checks.preview(f._guard.tables.flushed(), {"id": number}, START)
            assert (foreseen["returned"], foreseen.get("waiting", 0)) == (returned, 1 - returned)
            f.undo(number)
            assert f.audit(limit=1)[0].effect["returned"] == returned
            f.check()
        assert (record(f, "a").queued, f.summary().deleted) == (2, 2)


def test_of_two_uris_of_one_url_one_comes_back(tmp_path: Path) -> None:
    with on_disk(tmp_path, keep_urls=True) as f:
        f.schedule_many(pages("a", 3))
        f.schedule(CrawlUri("https://a.test/1", force=True, not_before=START + 9))
        f.schedule(CrawlUri("https://a.test/2", force=True))
        f.delete(queue="a.test")
        assert f.audit()[0].effect["deleted"] == 5
        foreseen = undo_checks.preview(f._guard.tables.flushed(), {"id": 1}, START)
        assert (foreseen["returned"], foreseen["waiting"]) == (3, 2)
        f.undo(1)
        assert f.audit(limit=1)[0].effect["returned"] == 3
        f.check()
        assert (record(f, "a").queued, f.summary().future) == (2, 1)


@pytest.mark.parametrize("keep_urls", [False, True])
def test_what_was_forgotten_since_is_known_once_it_waits_again(tmp_path: Path, keep_urls: bool) -> None:
    with on_disk(tmp_path, hold_queues=True, keep_urls=keep_urls) as f:
        f.schedule_many(pages("a", 3))
        f.schedule(CrawlUri("https://a.test/later", not_before=START + 9))
        f.schedule(CrawlUri("https://a.test/robots.txt", directive=Directive.HIGHEST, force=True))
        seen = f.summary().seen
        f.delete(queue="a.test")
        urls = [f"https://a.test/{path}" for path in ("0", "2", "later")]
        f.internals.apply(Command("forget", {"uris": urls}, "me", ""))
        assert f.summary().seen == seen - 3
        f.undo(1)
        assert f.summary().seen == seen, "a robots.txt is not recorded as seen"
        assert f.schedule_many(urls).duplicate == 3
        f.undo(2)
        assert f.summary().seen == seen
        f.check()
