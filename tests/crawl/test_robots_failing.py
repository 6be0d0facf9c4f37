"""A robots.txt that fails for a while: the pages that wait for it were not asked, and cost nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from budgetfrontier import CrawlState
from tests.crawl.site import Site, reopened, run

PAGES = 8


@pytest.mark.parametrize("scope", ["queue", "uri"])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_pages_that_wait_for_a_robots_txt_that_fails_are_not_charged(
    tmp_path: Path, scope: str, concurrency: int
) -> None:
    failures = 3

    def robots() -> web.Response:
        nonlocal failures
        failures -= 1
        return web.Response(status=503, headers={"Retry-After": "0"}) if failures >= 0 else web.Response(text="")

    pages = {f"a.test/{number}": "" for number in range(PAGES)}
    frontier = {
        "politeness": {"min_delay": 0.0, "delay_factor": 0.0, "per_queue_concurrency": concurrency},
        "retry": {"max_retries": 3, "delay": 0.0, "scope": scope},
        "queue_total_budget": PAGES,
    }
    with Site(pages | {"a.test/robots.txt": robots}) as site:
        settings = site.settings(*(f"http://{place}" for place in pages), frontier=frontier)
        assert run(settings, tmp_path)[0] == 0
    assert site.hits == dict.fromkeys(pages, 1) | {"a.test/robots.txt": 4}
    with reopened(tmp_path) as opened:
        queue = opened.queue("a.test")
        assert queue is not None
        assert (queue.expenditure, queue.charges - 4, queue.errors) == (PAGES, PAGES, 3)
        assert (opened.state, opened.summary().retried, opened.dead_letters()) == (CrawlState.FINISHED, 3, [])
