"""Forecasts beside what came: crawls are driven to their real end, and each is asked for its forecast on its way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Lease
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.reports import over_time
from budgetfrontier.rules.forecasts import Forecast, binding
from budgetfrontier.storage.reader import Reader

START = 1_000_000.0
End = Callable[[Frontier, Lease], None]


class Crawl(NamedTuple):
    """A crawl to be driven to its end: its queues with their URIs, its settings, and how each lease ends."""

    queues: dict[str, int]
    frontier: dict[str, Any]
    end: End
    asked_at: float
    """Seconds after its begin at which it is asked for its forecast."""
    binds: str
    most: int = 1 << 30
    """The limit max_uris."""
    at_once: int = 100
    """The most leases in a second."""
    paced: str = ""
    """The queue to which `set-queue` gives an interval of 900 s."""


def succeed(frontier: Frontier, lease: Lease) -> None:
    frontier.finish(lease, fetch_seconds=0.0)


def with_crawl_delay(frontier: Frontier, lease: Lease) -> None:
    frontier.finish(lease, fetch_seconds=0.0, crawl_delay=30.0 if lease.queue == "slow.test" else None)


def fail(frontier: Frontier, lease: Lease) -> None:
    frontier.finish(lease, Outcome.RETRY if lease.queue == "down.test" else Outcome.SUCCESS, fetch_seconds=0.0)


def slow_by_chance(frontier: Frontier, lease: Lease) -> None:
    """Each tenth fetch of a queue is slow, so that the queue rests longer once."""
    queue = frontier.queue(lease.queue)
    assert queue is not None
    frontier.finish(lease, fetch_seconds=6.0 if queue.charges % 10 == 5 else 0.1)


def overload(frontier: Frontier, lease: Lease) -> None:
    """A small host answers every fifth attempt with 503; the other one is done with after a burst."""
    queue = frontier.queue(lease.queue)
    assert queue is not None
    ill = lease.queue == "ill.test" and queue.charges % 5 == 4
    frontier.finish(lease, Outcome.RETRY if ill else Outcome.SUCCESS, fetch_seconds=0.0, status=503 if ill else 200)


def polite(seconds: float) -> dict[str, Any]:
    return {"politeness": {"min_delay": seconds, "delay_factor": 0, "max_delay": max(seconds, 30.0)}}


CRAWLS = {
    "budgets": Crawl(
        {"a.test": 900, "b.test": 900}, polite(1) | {"queue_total_budget": 300}, succeed, 120, "budgets", at_once=1
    ),
    "politeness with a Crawl-delay": Crawl(
        {"a.test": 100, "slow.test": 40}, polite(3), with_crawl_delay, 30, "politeness"
    ),
    "a fetch that was slow by chance": Crawl(
        {"a.test": 300, "b.test": 5}, {"politeness": {"min_delay": 1}}, slow_by_chance, 170, "politeness"
    ),
    "the interval of the settings": Crawl(
        {"a.test": 40, "b.test": 5}, {"politeness": {"min_interval": 60, "min_delay": 0}}, succeed, 30, "politeness"
    ),
    "intervals of queues": Crawl(
        {"a.test": 100, "slow.test": 20},
        polite(3) | {"keep_urls": True},
        succeed,
        30,
        "politeness",
        paced="slow.test",
    ),
    "a rate that has fallen": Crawl(
        {f"{n}.test": 20 for n in range(50)} | {"last.test": 500}, polite(10), succeed, 1200, "rate"
    ),
    "limits": Crawl({"a.test": 2000}, polite(2), succeed, 300, "max_uris", most=500),
    "retries": Crawl(
        {"a.test": 5, "down.test": 1}, polite(3) | {"retry": {"delay": 900, "max_retries": 1}}, fail, 100, "politeness"
    ),
    "back-off after a burst": Crawl(
        {"a.test": 300, "ill.test": 100}, polite(1) | {"backoff": {"factor": 1.1}}, overload, 700, "back-off"
    ),
}


def drive(frontier: Frontier, clock: ManualClock, crawl: Crawl, until: float) -> None:
    """Crawl until a time, the limit, or the end. Seconds pass between two looks."""
    while clock.time() < until and frontier.state == "RUNNING" and frontier.summary().succeeded < crawl.most:
        for lease in frontier.lease(crawl.at_once):
            crawl.end(frontier, lease)
        clock.advance(1)
        if clock.time() % 30 == 5:  # after the fetches of the second in which a minute begins
            frontier.commit()


def forecasts(path: Path, now: float) -> list[Forecast]:
    with Reader(path) as reader, reader.view() as view:
        found = over_time.forecast_rows(
            over_time.between(over_time.read(view, now - 7200, now)),
            view.summary(),
            over_time.held(view, now),
            over_time.limits_left(view, path, now),
            now=now,
        )
    return found


@pytest.mark.parametrize("name", CRAWLS)
def test_what_was_forecast_comes(name: str, tmp_path: Path) -> None:
    crawl, clock = CRAWLS[name], ManualClock(START)
    settings = {"frontier": crawl.frontier, "limits": {"max_uris": crawl.most if crawl.most < 1 << 30 else 0}}
    with Frontier.open(tmp_path, Settings.from_dict(settings), clock=clock) as frontier:
        frontier.schedule_many(CrawlUri(f"http://{key}/{n}") for key, urls in crawl.queues.items() for n in range(urls))
        if crawl.paced:
            frontier.internals.apply(Command("set_queue", {"queue": crawl.paced, "interval": 900.0}, "somebody", ""))
        drive(frontier, clock, crawl, START + crawl.asked_at)
        frontier.commit()
        asked, found = clock.time(), forecasts(tmp_path, clock.time())
        first = binding(found)
        drive(frontier, clock, crawl, START + 100_000)
    assert first is not None and first.seconds is not None
    truth = clock.time() - asked
    assert first.bound == crawl.binds and 0.8 * truth < first.seconds < 1.2 * truth, (first, truth)
    for one in found:
        if one.sure == "at least" and first.bound != "max_uris":  # a limit ends a crawl before all is fetched
            assert one.seconds is not None and one.seconds <= truth
