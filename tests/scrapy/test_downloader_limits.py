"""How many requests of a queue may be with the downloader: never fewer than its download slot fetches at a time."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from scrapy import Request

from budgetfrontier import Lease
from tests.scrapy.crawler import Pages, scheduler


def limit(s: Any, url: str = "https://example.org/", slot: str | None = None) -> int:
    """The limit of the queue of a request."""
    assert s.enqueue_request(Request(url, meta={} if slot is None else {"download_slot": slot}))
    lease, leases = s.frontier.lease, list[Lease]()  # of which Scrapy sees none

    def noted(*given: Any, **options: Any) -> list[Lease]:
        leases.extend(lease(*given, **options))
        return leases

    with mock.patch.object(s.frontier, "lease", noted):
        assert s.next_request() is not None
    return int(s.frontier.internals.settings_for(leases[0]).per_queue_concurrency)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 8),
        ({"CONCURRENT_REQUESTS_PER_DOMAIN": 3}, 8),
        ({"CONCURRENT_REQUESTS_PER_DOMAIN": 30}, 30),
        ({"CONCURRENT_REQUESTS_PER_DOMAIN": 100_000}, 65535),
    ],
)
def test_a_queue_has_the_limit_of_a_slot(settings: dict[str, Any], expected: int) -> None:
    with scheduler(None, **settings) as s:
        assert limit(s) == expected


@pytest.mark.filterwarnings("ignore:The CONCURRENT_REQUESTS_PER_IP setting")
def test_the_limit_by_address_counts_too() -> None:
    with scheduler(CONCURRENT_REQUESTS_PER_IP=12) as s:
        assert limit(s) == 12


class Eager(Pages):
    max_concurrent_requests = 20


@pytest.mark.filterwarnings("ignore:The 'max_concurrent_requests' spider attribute")
def test_the_limit_of_a_spider_counts_too() -> None:
    with scheduler(spider=Eager) as s:
        assert limit(s) == 20


SLOTS = {
    "Many.example": {"concurrency": 40},
    "few.example": {"concurrency": 1, "delay": 5},
    "plain.example": {"delay": 1},
    "proxy 1": {"concurrency": 100_000},
}


def test_slots_of_more_have_a_limit_of_more() -> None:
    with scheduler(DOWNLOAD_SLOTS=SLOTS) as s:
        assert limit(s, "https://many.example:8080/") == 40
        assert limit(s, "https://few.example/") == limit(s, "https://plain.example/") == limit(s) == 8
        assert limit(s, "https://shared.example/", slot="proxy 1") == 65535


def test_who_sets_a_limit_for_the_frontier_gets_it() -> None:
    given = {"frontier": {"politeness": {"per_queue_concurrency": 2}}}
    with scheduler(DOWNLOAD_SLOTS=SLOTS, BUDGETFRONTIER_SETTINGS=given) as s:
        assert limit(s, "https://many.example/") == limit(s) == 2


def test_overrides_of_the_project_come_after_those_for_slots() -> None:
    given = {"overrides": [{"match": "domain:example", "set": {"politeness": {"per_queue_concurrency": 5}}}]}
    with scheduler(DOWNLOAD_SLOTS=SLOTS, BUDGETFRONTIER_SETTINGS=given) as s:
        assert limit(s, "https://many.example/") == 5 and limit(s) == 8


@pytest.mark.parametrize("policy", ["single", "registered-domain"])
def test_queues_of_several_hosts_are_limited_by_the_crawl_alone(policy: str) -> None:
    given = {"frontier": {"queue_assignment_policy": policy}}
    for requests, expected in ((16, 16), (100, 100), (4, 8), (0, 65535)):
        with scheduler(CONCURRENT_REQUESTS=requests, BUDGETFRONTIER_SETTINGS=given) as s:
            assert limit(s) == expected
