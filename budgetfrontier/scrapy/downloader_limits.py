"""Limits on the requests of a queue that are in the downloader at a time.

The limit is the concurrency of the queue's download slot: more would wait in the downloader and keep other hosts out.
It is at least eight, because a slot idles when its next request comes a moment late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import Settings, plugins
from budgetfrontier.settings.overrides import Override, parse_match

MIN_LIMIT = 8
MAX_LIMIT = 65535

_SETTING = "politeness.per_queue_concurrency"


def per_slot(scrapy: Any, spider: Any) -> int:
    """Return the limit of a queue that has one download slot to itself."""
    of_spider = getattr(spider, "max_concurrent_requests", 0)  # deprecated; newer versions make it the setting
    names = ("CONCURRENT_REQUESTS_PER_DOMAIN", "CONCURRENT_REQUESTS_PER_IP")
    return _bounded(max(MIN_LIMIT, of_spider, *(int(scrapy[name] or 0) for name in names)))


def adapt(settings: Settings, scrapy: Any, limit: int) -> Settings:
    """Return the settings with `limit` raised for queues of several hosts and for slots in DOWNLOAD_SLOTS."""
    frontier = settings.frontier
    if not getattr(plugins.resolve("assignment", frontier.queue_assignment_policy), "one_host", False):
        limit = max(limit, _bounded(scrapy.getint("CONCURRENT_REQUESTS") or MAX_LIMIT))
        politeness = msgspec.structs.replace(frontier.politeness, per_queue_concurrency=limit)
        frontier = msgspec.structs.replace(frontier, politeness=politeness)
    overrides = (*_overrides(scrapy, limit), *settings.overrides)
    return msgspec.structs.replace(settings, frontier=frontier, overrides=overrides)


def _overrides(scrapy: Any, limit: int) -> Iterator[Override]:
    """Yield overrides for slots that allow more than `limit`.

    A slot is named after a host, or by spiders: then a queue.
    """
    for slot, options in scrapy.getdict("DOWNLOAD_SLOTS").items():
        concurrency = _bounded(int(options.get("concurrency") or 0))
        if concurrency <= limit:
            continue
        for match in (f"host:{slot}", f"queue:{slot}"):
            try:
                parse_match(match)
            except SettingsError:  # the slot's name is not that of a host
                continue
            yield Override(match, {_SETTING: concurrency})


def _bounded(limit: int) -> int:
    return min(limit, MAX_LIMIT)
