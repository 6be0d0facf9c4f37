"""Pages that are fetched again: when, and only if they have changed."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from aiohttp import web
from warcio.archiveiterator import ArchiveIterator

from budgetfrontier import CrawlUri, Frontier, Outcome, Settings
from budgetfrontier.crawler.crawl_limits import CrawlLimits
from budgetfrontier.crawler.fetch.response import (
    BROKEN,
    OUT_OF_SCOPE,
    ROBOTS_PRECLUDED,
    ROBOTS_UNREACHABLE,
    FetchResult,
)
from budgetfrontier.crawler.visit import Visit, revisit, should_revisit
from tests.crawler.raw import RawServer
from tests.crawler.site import Site, linking, reopened, run

HOME, PAGE = "http://a.test/", "http://a.test/page"


class Changing(Site):
    """A front page that changes each time, and a page with an ETag that never does."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked: list[tuple[str, str | None]] = []

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/robots.txt":
            return web.Response(status=404)
        tag = request.headers.get("If-None-Match")
        self.asked.append((request.path, tag))
        if request.path == "/page":
            if tag == '"v1"':
                return web.Response(status=304, headers={"ETag": '"v1"'})
            return web.Response(text="the page", content_type="text/html", headers={"ETag": '"v1"'})
        return web.Response(text=linking("/page") + str(len(self.asked)), content_type="text/html")


def test_pages_are_asked_for_again_and_only_for_what_has_changed(tmp_path: Path) -> None:
    frontier = {"revisit": {"after": 0.2}}
    scope = {"accept": ["host:a.test"]}
    with Changing() as site:
        settings = site.settings(HOME, frontier=frontier, scope=scope, limits={"max_uris": 7}, output={"warc": True})
        code, _ = run(settings, tmp_path)
    assert code == 0
    counts = Counter(path for path, _ in site.asked)
    assert counts["/"] >= 2 and counts["/page"] >= 2
    tags = [tag for path, tag in site.asked if path == "/page"]
    assert tags == [None] + ['"v1"'] * (len(tags) - 1)
    pages = [json.loads(line) for line in (tmp_path / "logs/pages.jsonl").read_text().splitlines()]
    assert {(page["hops"], page["via"]) for page in pages if page["url"] == HOME} == {("", None)}
    assert {page["status"] for page in pages if page["url"] == PAGE} == {200, 304}
    profiles: Counter[str | None] = Counter()
    for path in (tmp_path / "warcs").iterdir():
        with path.open("rb") as file:
            profiles.update(record.rec_headers.get_header("WARC-Profile") for record in ArchiveIterator(file))
    assert profiles["http://netpreserve.org/warc/1.1/revisit/server-not-modified"] == len(tags) - 1


def test_a_clock_that_is_set_back_makes_no_revisit_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, looks, tick = time.time, 0, CrawlLimits.tick

    def look_around(limits: CrawlLimits, *, paused: bool) -> None:
        nonlocal looks
        tick(limits, paused=paused)
        looks += len(site.asked) >= 2
        if looks == 5:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(CrawlLimits, "tick", look_around)
    monkeypatch.setattr(time, "time", lambda: now() - 86400)  # the frontier's own clock goes on, as it would
    with Changing() as site:
        settings = site.settings(HOME, frontier={"revisit": {"after": 3600}}, limits={"max_uris": 9})
        run(settings, tmp_path)
    assert [path for path, _ in site.asked] == ["/", "/page"]


def test_what_is_only_a_seed_stays_in_scope_when_it_comes_again(tmp_path: Path) -> None:
    frontier, scope = {"revisit": {"after": 0.1}}, {"accept": ["domain:other.test"]}
    with Changing() as site:
        run(site.settings(HOME, frontier=frontier, scope=scope, limits={"max_uris": 4}), tmp_path)
    assert [path for path, _ in site.asked] == ["/"] * len(site.asked) and len(site.asked) > 1


def test_what_is_revisited_may_be_said_by_match_and_in_mid_crawl(tmp_path: Path) -> None:
    overrides = [{"match": "regex:/page$", "set": {"revisit": {"after": "1h"}}}]
    with Changing() as site:
        run(site.settings(HOME, overrides=overrides, limits={"max_uris": 3}), tmp_path)
    with reopened(tmp_path) as frontier:
        assert frontier.summary().future == 1
        frontier.adjust(match="host:a.test", revisit={"after": 60})
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule(CrawlUri(HOME, force=True))
        (lease,) = frontier.lease(1)
        assert frontier.internals.settings_for(lease).revisit_after == 60


def test_a_revisit_asks_by_what_the_answer_said() -> None:
    uri = CrawlUri(HOME, headers={"X": "y"}, meta={"seed": HOME})
    answer = FetchResult(status=200, headers={"ETag": '"1"', "Last-Modified": "Sat"}, body=b"x", raw=b"x")
    again = revisit(uri, answer, due=5.0)
    assert again.headers == {"X": "y", "If-None-Match": '"1"', "If-Modified-Since": "Sat"}
    assert again.force and again.not_before == 5.0 and again.hops == "" and again.via is None
    assert again.meta["seed"] == HOME and again.meta["digest"].startswith("sha1:")
    same = revisit(again, FetchResult(status=304), due=6.0)
    assert (same.headers, same.meta, same.not_before) == (again.headers, again.meta, 6.0)
    gone = revisit(again, FetchResult(status=404), due=7.0)
    assert gone.headers == {"X": "y"} and gone.meta == {"seed": HOME, "revisit": True}


@pytest.mark.parametrize(
    ("note", "kept"), [("connTrunc", False), ("timeTrunc", False), ("midFetchAbort", False), ("lenTrunc", True)]
)
def test_a_page_that_came_only_in_part_is_asked_for_as_a_whole(note: str, kept: bool) -> None:
    answer = FetchResult(status=200, headers={"ETag": '"1"'}, body=b"x", raw=b"x", notes=[note])
    again = revisit(CrawlUri(HOME, headers={"If-None-Match": '"0"'}), answer, due=5.0)
    assert again.headers == ({"If-None-Match": '"1"'} if kept else None)


@pytest.mark.parametrize("name", ["ETag", "Last-Modified"])
def test_a_validator_that_cannot_be_sent_back_is_left_out(name: str) -> None:
    uri = CrawlUri(HOME, headers={"X": "y"})
    again = revisit(uri, FetchResult(status=200, headers={name: '"\x01"'}, body=b"x", raw=b"x"), due=5.0)
    assert again.headers == {"X": "y"}
    stored = CrawlUri(HOME, headers={"If-None-Match": '"\x7f"', "If-Modified-Since": "Sat"}, meta={"revisit": True})
    assert revisit(stored, FetchResult(status=BROKEN), due=5.0).headers == {"If-Modified-Since": "Sat"}


def test_a_page_with_a_strange_validator_is_fetched_again(tmp_path: Path) -> None:
    page = b'HTTP/1.1 200 OK\r\nETag: "\x01"\r\nContent-Length: 4\r\n\r\npage'
    with RawServer({"/": page}) as server:
        fetch = {"resolve": {"*.test": server.address}, "robots": "ignore"}
        frontier = {"politeness": {"min_delay": 0.0}, "revisit": {"after": 0.05}}
        sections = {"seeds": [HOME], "fetch": fetch, "frontier": frontier, "limits": {"max_uris": 3}}
        run(Settings.from_dict(sections), tmp_path)
    assert len(server.requests) == 3


def test_a_last_line_of_statistics_is_written_however_short_the_run(tmp_path: Path) -> None:
    with Changing() as site:
        run(site.settings(HOME), tmp_path)
    lines = (tmp_path / "logs/progress-statistics.log").read_text().splitlines()
    assert lines[-1][:2] == "20" and " 3 " in lines[-1]


@pytest.mark.parametrize(
    ("status", "outcome", "first", "later"),
    [
        (200, Outcome.SUCCESS, True, True),
        (404, Outcome.SUCCESS, True, True),
        (BROKEN, Outcome.FAILURE, False, True),
        (ROBOTS_PRECLUDED, Outcome.DISREGARDED, False, True),
        (OUT_OF_SCOPE, Outcome.DISREGARDED, False, False),
        (ROBOTS_UNREACHABLE, Outcome.DEAD, False, False),  # a dead letter, to be replayed
    ],
)
def test_a_bad_day_takes_no_page_out_of_the_revisits(status: int, outcome: Outcome, first: bool, later: bool) -> None:
    answer = FetchResult(status=status)
    new = CrawlUri(PAGE)
    known = revisit(new, FetchResult(status=200, headers={"ETag": '"1"'}, body=b"x", raw=b"x"), due=1.0)
    assert should_revisit(new, Visit(new, answer, outcome)) is first
    assert should_revisit(known, Visit(known, answer, outcome)) is later
    if status < 0:
        assert revisit(known, answer, due=2.0).headers == known.headers
