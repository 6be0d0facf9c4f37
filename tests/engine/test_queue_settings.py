"""Which URI a queue takes its settings from, and when."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Directive, Finish, Frontier, LeaseExpired, Outcome, QueueState
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Lease
from budgetfrontier.testing import crash
from tests.support import START, kernel, memory, on_disk, one, pages, record, state

OVERRIDES = [
    {"match": "regex:.*/rich", "set": {"queue_total_budget": 50, "precedence": 1}},
    {"match": "regex:.*/poor", "set": {"queue_total_budget": 5, "precedence": 7}},
]


def test_a_queue_takes_the_settings_of_the_uri_placed_last() -> None:
    frontier = memory(overrides=OVERRIDES)
    for path, expected in (("rich", (50, 1)), ("poor", (5, 7)), ("other", (-1, 3))):
        frontier.schedule(f"https://a.test/{path}")
        assert (record(frontier, "A").total_budget, record(frontier, "A").precedence) == expected


def test_at_an_activation_it_takes_those_of_its_head() -> None:
    frontier = memory(overrides=OVERRIDES)
    frontier.schedule_many(["https://a.test/rich", "https://a.test/poor"])
    assert record(frontier, "A").total_budget == 5
    one(frontier)
    assert (record(frontier, "A").total_budget, record(frontier, "A").precedence) == (50, 1)


def test_after_a_change_it_takes_those_of_its_head_and_a_look_shows_them_before() -> None:
    frontier = memory(hold_queues=False)
    frontier.schedule_many(pages("A", 3))
    frontier.schedule(CrawlUri("https://a.test/poor", directive=Directive.HIGHEST))
    frontier.adjust(match="regex:.*/poor", queue_total_budget=2)
    assert record(frontier, "A").total_budget == 2
    stored = kernel(frontier).tables.queues.look_up("a.test")
    assert stored is not None and stored.total_budget == -1  # the look has changed nothing
    frontier.finish(one(frontier), Outcome.DISREGARDED)
    assert record(frontier, "A").total_budget == 2  # until the next turn
    frontier.adjust(match="*", error_penalty_amount=3)
    assert record(frontier, "A").total_budget == -1


def _late(call: Callable[[Frontier, Lease], object]) -> Callable[[Frontier, Lease, ManualClock], None]:
    """A call with a lease that has expired."""

    def end(frontier: Frontier, lease: Lease, clock: ManualClock) -> None:
        clock.advance(301)
        with suppress(LeaseExpired):
            call(frontier, lease)

    return end


def _paused(frontier: Frontier, _: Lease) -> None:
    """A lease that gives no queue a turn."""
    frontier.pause()
    assert frontier.lease(1) == []


HEAD_RETURNS: dict[str, Callable[[Frontier, Lease, ManualClock], object]] = {
    "renew": _late(lambda f, lease: f.renew(lease)),
    "landed": _late(lambda f, lease: f.landed(lease)),
    "finish": _late(lambda f, lease: f.finish(lease)),
    "finish_many": _late(lambda f, lease: f.finish_many([lease])),
    "lease": _late(_paused),
    "retry": lambda f, lease, _: f.finish(lease, Outcome.RETRY),
    "deferred": lambda f, lease, _: f.finish(lease, Outcome.DEFERRED),
    "close": lambda f, *_: f.close(),
    "crash": lambda f, *_: crash(f),
}


@pytest.mark.parametrize("retired", [False, True])
@pytest.mark.parametrize("end", HEAD_RETURNS)
def test_after_a_change_a_head_that_returns_is_not_asked(end: str, retired: bool, tmp_path: Path) -> None:
    clock = ManualClock(START)
    options: dict[str, Any] = {"concurrency": 3, "retry": {"delay": 0.0}, "overrides": OVERRIDES}
    f = on_disk(tmp_path, clock, **options)
    f.schedule_each(["https://a.test/other", CrawlUri("https://a.test/rich", directive=Directive.HIGHEST)])
    lease = one(f)
    assert lease.uri.url == "https://a.test/rich"
    if retired:
        f.retire("a.test")
    f.adjust(error_penalty_amount=3)
    f.commit()
    assert (record(f, "A").total_budget, record(f, "A").precedence) == (-1, 3)
    HEAD_RETURNS[end](f, lease, clock)
    if end in ("close", "crash"):
        f = on_disk(tmp_path, clock)
    assert (record(f, "A").queued, record(f, "A").out) == (2, 0)
    assert (record(f, "A").total_budget, record(f, "A").precedence) == (-1, 3)
    f.check()


def test_nor_is_the_next_when_one_that_was_delivered_too_often_is_buried() -> None:
    clock = ManualClock(START)
    f = memory(clock, concurrency=2, max_deliveries=1, overrides=OVERRIDES)
    f.schedule_each(["https://a.test/rich", CrawlUri("https://a.test/other", directive=Directive.HIGHEST)])
    other, rich = (*f.lease(1, ttl=10.0), one(f))
    f.retire("a.test")  # else it would be asked at once, because nothing more may go out
    f.adjust(error_penalty_amount=3)
    clock.advance(11)
    f.renew(rich)
    assert [letter.uri.url for letter in f.dead_letters()] == [other.uri.url]
    assert (record(f, "A").total_budget, record(f, "A").precedence) == (-1, 3)


@pytest.mark.parametrize("retired", [False, True])
@pytest.mark.parametrize("held", [False, True])
def test_nor_is_the_next_when_the_head_is_deleted(held: bool, retired: bool) -> None:
    f = memory(hold_queues=held, overrides=OVERRIDES)
    f.schedule_each([CrawlUri("https://a.test/other", directive=Directive.HIGHEST), "https://a.test/rich"])
    if retired:
        f.retire("a.test")
    f.adjust(error_penalty_amount=3)
    assert (record(f, "A").total_budget, record(f, "A").precedence) == (-1, 3)
    f.delete(pattern="other")
    assert (record(f, "A").queued, record(f, "A").total_budget, record(f, "A").precedence) == (1, -1, 3)
    f.check()


def test_without_a_uri_it_keeps_what_it_took_until_it_gets_one() -> None:
    frontier = memory()
    frontier.schedule("https://a.test/")
    frontier.finish(one(frontier))
    frontier.adjust(queue_total_budget=9)
    assert (state(frontier, "A"), record(frontier, "A").total_budget) == ("EXHAUSTED", -1)
    frontier.schedule("https://a.test/more")
    assert record(frontier, "A").total_budget == 9


@pytest.mark.parametrize("name", ["a.test", "none.test"])
def test_a_look_up_gives_a_copy_or_nothing(name: str) -> None:
    frontier = memory()
    frontier.schedule("https://a.test/")
    found = frontier.queue(name)
    if found is None:
        assert name == "none.test"
    else:
        found.queued += 7
        assert record(frontier, "A").queued == 1


@pytest.mark.parametrize("batched", [False, True])
def test_uris_found_in_a_fetch_have_its_label_and_the_settings_of_that(batched: bool) -> None:
    label = {"match": "label:blogs", "set": {"queue_total_budget": 7, "precedence": 1}}
    with Frontier.open(":memory:", {"frontier": {}, "overrides": [label]}) as f:
        f.schedule(CrawlUri("https://a.test/", source="blogs"))
        assert (f.queue("a.test").total_budget, f.queue("a.test").precedence) == (7, 1)  # type: ignore[union-attr]
        lease = one(f)
        found: list[str | CrawlUri] = ["https://b.test/", CrawlUri("https://c.test/")]
        found += [CrawlUri("https://d.test/", source="other")]
        found += [f"https://many.test/{number}" for number in range(20)]
        if batched:
            f.finish_many([Finish(lease, discovered=found)])
        else:
            f.finish(lease, discovered=found)
        assert {name: f.queue(f"{name}.test").total_budget for name in ("b", "c", "d", "many")} == {  # type: ignore[union-attr]
            "b": 7,
            "c": 7,
            "d": -1,
            "many": 7,
        }
        assert {lease.uri.source for lease in f.lease(30)} == {"blogs", "other"}


def test_an_adjustment_of_a_label_holds_for_the_uris_that_have_it() -> None:
    with memory() as f:
        f.schedule_many(CrawlUri(f"https://{name}.test/", source=name) for name in ("blogs", "news"))
        plan = f.adjust(match="label:blogs", queue_total_budget=0, retire_when="reached", dry_run=True)
        assert (plan.matched, plan.retired, plan.by_next_uri) == (1, ["blogs.test"], True)
        f.adjust(match="label:blogs", queue_total_budget=0, retire_when="reached")
        assert [lease.queue for lease in f.lease(9)] == ["news.test"]
        assert f.queue("blogs.test").state is QueueState.RETIRED  # type: ignore[union-attr]
