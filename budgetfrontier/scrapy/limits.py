"""How many requests of a queue may be with the downloader at a time.

As many as its download slot fetches at a time, or more would wait there, in the way of other hosts; and eight at the
least, for a request that comes to the slot a moment late leaves it idle.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from budgetfrontier import plugins
from budgetfrontier.errors import SettingsError
from budgetfrontier.policies.assignment import Hostname, SurtAuthority
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import Override, parse_match

LEAST = 8
MOST = 65535

_SETTING = "politeness.per_queue_concurrency"


def of_slots(scrapy: Any, spider: Any) -> int:
    """The limit of a queue that has one download slot to itself."""
    of_spider = getattr(spider, "max_concurrent_requests", 0)  # deprecated; newer versions make it the setting
    names = ("CONCURRENT_REQUESTS_PER_DOMAIN", "CONCURRENT_REQUESTS_PER_IP")
    return _bounded(max(LEAST, of_spider, *(int(scrapy[name] or 0) for name in names)))


def fitted(settings: Settings, scrapy: Any, limit: int) -> Settings:
    """Settings whose limit is the one of a slot, fitted to queues of several hosts, and to DOWNLOAD_SLOTS."""
    frontier = settings.frontier
    if not isinstance(plugins.resolve("assignment", frontier.queue_assignment_policy), Hostname | SurtAuthority):
        limit = max(limit, _bounded(scrapy.getint("CONCURRENT_REQUESTS") or MOST))
        politeness = msgspec.structs.replace(frontier.politeness, per_queue_concurrency=limit)
        frontier = msgspec.structs.replace(frontier, politeness=politeness)
    overrides = (*_overrides(scrapy, limit), *settings.overrides)
    return msgspec.structs.replace(settings, frontier=frontier, overrides=overrides)


def _overrides(scrapy: Any, limit: int) -> Iterator[Override]:
    """For the slots that fetch more than `limit` at a time: a slot is a host, or what spiders name it, and a queue."""
    for slot, given in scrapy.getdict("DOWNLOAD_SLOTS").items():
        wanted = _bounded(int(given.get("concurrency") or 0))
        if wanted <= limit:
            continue
        for match in (f"host:{slot}", f"queue:{slot}"):
            try:
                parse_match(match)
            except SettingsError:  # its name is no host's
                continue
            yield Override(match, {_SETTING: wanted})


def _bounded(limit: int) -> int:
    return min(limit, MOST)
