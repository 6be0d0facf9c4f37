"""What a crawl may use in its life, over all its runs."""

from __future__ import annotations

from budgetfrontier.crawler.crawl_limits import CrawlLimit, CrawlLimits
from budgetfrontier.settings.schema import LimitSettings


def test_without_limits_there_is_room_for_everything() -> None:
    limits = CrawlLimits(LimitSettings())
    limits.count(10**12, finished=True)
    assert (limits.room(32, in_flight=5), limits.rows, limits.reached) == (32, [], None)


def test_uris_that_are_in_flight_take_room() -> None:
    limits = CrawlLimits(LimitSettings(max_uris=10), uris=6)
    assert limits.room(32, in_flight=1) == 3
    limits.count(100, finished=True)
    limits.count(100, finished=False)  # a retry: the same URI comes again
    assert limits.room(32, in_flight=1) == 2 and limits.room(32, in_flight=9) == 0
    reached = [limits.reached]
    for _ in range(3):
        limits.count(100, finished=True)
    assert [*reached, limits.reached] == [None, CrawlLimit("max_uris", 10, 10)]


def test_what_earlier_runs_used_counts() -> None:
    times = iter([50.0, 53.0, 63.0, 64.0])
    settings = LimitSettings(max_uris=9, max_time=120.0, max_bytes=1000)
    limits = CrawlLimits(settings, uris=1, seconds=116.0, size=900, now=lambda: next(times))
    limits.tick(paused=False)
    limits.tick(paused=True)  # a pause takes no time
    reached = [limits.reached]
    limits.tick(paused=False)
    assert [*reached, limits.reached] == [None, CrawlLimit("max_time", 120.0, 120.0)]
    limits.count(100, finished=False)
    assert limits.rows == [
        CrawlLimit("max_uris", 9, 1),
        CrawlLimit("max_time", 120.0, 120.0),
        CrawlLimit("max_bytes", 1000, 1000),
    ]
    assert limits.size == 1000
