"""A robots.txt that fails for a while: the pages that wait for it were not asked, and cost nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from budgetfrontier import CrawlState, CrawlUri, Outcome
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.main_loop import finish_reason
from budgetfrontier.crawler.robots_txt import MAX_BODY
from budgetfrontier.engine.remote import steer
from tests.crawler.site import Site, reopened, run, text

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


def test_a_replay_asks_a_dead_host_for_its_robots_txt_no_more_often_than_a_crawl(tmp_path: Path) -> None:
    robots, page = "http://a.test/robots.txt", "http://a.test/"
    with Site({"a.test/robots.txt": text("", status=500)}) as site:
        settings = site.settings(page)

        def letters() -> dict[str, int]:
            before = site.hits["a.test/robots.txt"]
            run(settings, tmp_path)
            assert site.hits["a.test/robots.txt"] == before + 2  # `max_retries` is 1
            with reopened(tmp_path) as f:
                found = {letter.uri.url: letter.id for letter in f.dead_letters()}
                assert len(f.dead_letters()) == len(found) == 2, "each stands once"
            return found

        for _ in range(2):
            steer(tmp_path / "frontier", "replay", {"ids": [letters()[page]]})
        assert letters().keys() == {robots, page}
        steer(tmp_path / "frontier", "replay", {"ids": None})
        letters()


@pytest.mark.parametrize("received", [5, 17])
def test_a_robots_txt_that_is_cut_has_one_reason_whatever_was_received(received: int) -> None:
    told = f"ClientPayloadError: 400, not enough data (received {received} of 100 bytes)"
    response = FetchResult(status=200, reason=told, notes=["connTrunc"])
    uri = CrawlUri("http://a.test/robots.txt", hops="P")
    assert finish_reason(uri, Outcome.DEAD, response) == "status 200, cut by the end of the connection"
    whole = FetchResult(status=200, reason="the header breaks rules of HTTP/1.1", notes=["badHeader"])
    assert finish_reason(uri, Outcome.DEAD, whole) == whole.reason


def test_a_robots_txt_that_is_longer_than_what_is_read_is_logged_as_such(tmp_path: Path) -> None:
    with Site({"a.test/robots.txt": text("#" * (MAX_BODY + 1)), "a.test/": ""}) as site:
        assert run(site.settings("http://a.test/"), tmp_path)[0] == 0
    (line,) = (line for line in (tmp_path / "logs/crawl.log").read_text().splitlines() if "robots.txt P" in line)
    assert f"lenTrunc,longer_than_what_is_read_of_a_robots.txt_({MAX_BODY}_bytes)" in line
    assert "max_body" not in line
