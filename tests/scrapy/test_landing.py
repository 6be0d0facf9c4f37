"""A request whose download is over makes room for the next of its host, whatever its callbacks still do."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from scrapy import Request, signals

from budgetfrontier import Finish, Frontier, Lease, QueueState
from budgetfrontier.scrapy.scheduler import Scheduler
from budgetfrontier.testing import crash
from tests.crawler.site import Site
from tests.scrapy.conftest import Timer
from tests.scrapy.crawler import make, page, scheduler, stats
from tests.scrapy.process import crawl
from tests.support import until

MANY = 20  # more than may be with the downloader; the spider below has the same number

GATED = """
import asyncio
from collections import Counter
from scrapy.exceptions import IgnoreRequest

MANY = 20
waiting, most, gates = Counter(), Counter(), {}

async def gate(kind):
    opened = gates.setdefault(kind, asyncio.Event())
    waiting[kind] += 1
    most[kind] = max(most[kind], waiting[kind])
    if waiting[kind] == MANY:
        opened.set()
    try:
        await asyncio.wait_for(opened.wait(), 120)
    except asyncio.TimeoutError:
        opened.set()
    waiting[kind] -= 1

class Gates:
    async def process_item(self, item, spider=None):
        await gate("pipeline")
        return item

    async def process_request(self, request, spider=None):
        if "ignored" in request.url:
            raise IgnoreRequest
        if "cached" in request.url:
            return scrapy.http.HtmlResponse(request.url, body=b"", request=request)

    async def process_response(self, request, response, spider=None):
        if "middleware" in request.url:
            await gate("middleware")
        return response

class Mine(Links):
    custom_settings = {
        "CONCURRENT_REQUESTS": 128,
        "DOWNLOADER_MIDDLEWARES": {"__main__.Gates": 950},
        "ITEM_PIPELINES": {"__main__.Gates": 1},
        "RETRY_ENABLED": False,
    }

    async def start(self):
        self.told = most
        for number in range(MANY):
            for host, kind in zip("abcde", ("pipeline", "callback", "middleware", "cached", "ignored")):
                yield Request(url(f"{host}/{kind}{number}"), errback=self.failed)
            yield Request(f"http://f.test:1/refused{number}", errback=self.failed)

    async def parse(self, response):
        if "pipeline" in response.url:
            yield {"url": response.url}
        elif "callback" in response.url or "cached" in response.url:
            await gate("callback" if "callback" in response.url else "cached")

    async def failed(self, failure):
        await gate("ignored" if failure.check(IgnoreRequest) else "refused")
"""


def test_whatever_a_request_does_after_its_download_holds_up_no_other(tmp_path: Path) -> None:
    pages = {
        f"{host}.test/{kind}{number}": ""
        for host, kind in (("a", "pipeline"), ("b", "callback"), ("c", "middleware"))
        for number in range(MANY)
    }
    with Site(pages) as site:
        result = crawl(site, tmp_path, GATED, JOBDIR=str(tmp_path / "job"))
    assert result.reason == "finished", result.log
    kinds = ("pipeline", "callback", "middleware", "cached", "ignored", "refused")
    assert result.told == dict.fromkeys(kinds, MANY)
    with Frontier.open(tmp_path / "job" / "frontier") as frontier:
        frontier.check()
        spent = {queue.queue[0]: queue.expenditure for queue in frontier.report().queues}
        assert spent == dict.fromkeys("abcdf", MANY) | {"e": 0}
        assert frontier.summary().queued == 0


class Gated(Site):
    """Answers once a number of requests wait for it, or after a while."""

    def __init__(self, wanted: int) -> None:
        super().__init__({})
        self._wanted, self._opened = wanted, asyncio.Event()
        self._waiting: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        """Requests at a time, of each host and "all" of them."""

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        places = (request.host[0], "all")
        self._waiting.update(places)
        self.most |= self._waiting
        if self._waiting["all"] == self._wanted:
            self._opened.set()
        try:
            await asyncio.wait_for(self._opened.wait(), 120)
        except TimeoutError:
            self._opened.set()
        self._waiting.subtract(places)
        return web.Response(text="", content_type="text/html")


SLOTS = """
class Mine(Links):
    seeds = [f"a/{number}" for number in range(30)]
    custom_settings = {"CONCURRENT_REQUESTS": 64, "DOWNLOAD_SLOTS": {"a.test": {"concurrency": 25, "delay": 0}}}
"""


def test_a_slot_of_many_fetches_as_many_at_a_time(tmp_path: Path) -> None:
    with Gated(25) as site:
        result = crawl(site, tmp_path, SLOTS)
    assert result.reason == "finished", result.log
    assert site.most == {"a": 25, "all": 25}


USUAL = """
class Mine(Links):
    seeds = [f"{host}/{number}" for host in "ab" for number in range(20)]
"""


def test_sixteen_at_a_time_eight_of_a_host(tmp_path: Path) -> None:
    with Gated(16) as site:
        result = crawl(site, tmp_path, USUAL)
    assert result.reason == "finished", result.log
    assert site.most == {"a": 8, "b": 8, "all": 16}


class Busy:
    """An engine as far as the scheduler looks at it; the requests in it stand where a test puts them."""

    def __init__(self) -> None:
        self.woken = 0
        self.downloader = SimpleNamespace(active=set())
        self._slot = SimpleNamespace(inprogress=set(), nextcall=self)

    def schedule(self) -> None:
        self.woken += 1


class Flown:
    """Requests of a scheduler on their way through an engine."""

    def __init__(self, made: Scheduler) -> None:
        self.scheduler, self.engine = made, Busy()
        made.crawler.engine = self.engine

    def take(self) -> list[Request]:
        """All that go out now, into the downloader."""
        taken = []
        while (request := self.scheduler.next_request()) is not None:
            self.engine._slot.inprogress.add(request)
            self.engine.downloader.active.add(request)
            taken.append(request)
        return taken

    def download(self, request: Request, *, status: int = 200) -> None:
        """It comes to the downloader, and leaves it."""
        self._send(signals.request_reached_downloader, request=request)
        request.meta["download_latency"] = 0.5
        self._send(signals.response_downloaded, request=request, response=SimpleNamespace(status=status))
        self._send(signals.request_left_downloader, request=request)

    def end(self, request: Request) -> None:
        """Its callback and pipelines are done."""
        self.engine.downloader.active.discard(request)
        self.engine._slot.inprogress.discard(request)

    def _send(self, signal: object, **arguments: Any) -> None:
        self.scheduler.crawler.signals.send_catch_log(signal, **arguments)


def numbered(s: Any, count: int = 30) -> Flown:
    for number in range(count):
        s.enqueue_request(page(str(number)))
    return Flown(s)


def test_a_landing_wakes_an_engine_that_waits(tmp_path: Path) -> None:
    with scheduler(tmp_path) as s:
        flown = numbered(s)
        first = flown.take()
        assert len(first) == 8
        flown.download(first[0])
        assert flown.engine.woken == 1
        [second] = flown.take()
        flown.engine.downloader.active.discard(first[1])  # as what a cache answers: no signal tells of that
        response = SimpleNamespace(status=200, url=first[1].url)
        s.crawler.signals.send_catch_log(signals.response_received, response=response, request=first[1])
        assert len(flown.take()) == 1
        assert len(s) == 20 and s.frontier.summary().in_process == 10
        for request in (*first, second):
            flown.end(request)
        s.has_pending_requests()
        assert s.frontier.summary().succeeded == 2


def test_no_timer_outlives_a_scheduler(timers: list[Timer]) -> None:
    rest = {"politeness": {"min_delay": "1h", "max_delay": "1h", "per_queue_concurrency": 1}}
    s = make(BUDGETFRONTIER_SETTINGS={"frontier": rest})
    s.crawler.engine = Busy()
    s.open(s.crawler.spider)
    flown = numbered(s, 2)
    [request] = flown.take()
    flown.download(request)
    assert not flown.take()
    assert [timer.cancelled for timer in timers] == [False, False]  # of the next commit, and of the next request
    s.close("finished")
    assert all(timer.cancelled for timer in timers)


def test_what_has_landed_keeps_its_cost_reserved() -> None:
    with scheduler(BUDGETFRONTIER_SETTINGS={"frontier": {"queue_total_budget": 10, "retire_when": "reached"}}) as s:
        flown = numbered(s)
        out: list[Request] = []
        while taken := flown.take():
            for request in taken:
                flown.download(request)
            out += taken
        assert len(out) == 10
        assert s.frontier.queue("example.org").expenditure == 0
        for request in out:
            flown.end(request)
        assert not flown.take() and not s.has_pending_requests()
        record = s.frontier.queue("example.org")
        assert (record.expenditure, record.state) == (10, QueueState.RETIRED)


def test_what_has_landed_and_was_not_finished_comes_again(tmp_path: Path) -> None:
    s = make(tmp_path)
    s.open(s.crawler.spider)
    flown = numbered(s)
    first = flown.take()
    for request in first:
        flown.download(request)
    flown.end(first[0])
    flown.take()
    s.frontier.commit()
    crash(s.frontier)
    with scheduler(tmp_path) as s:
        again = {request.url for request in iter(s.next_request, None)}
    assert again == {page(str(number)).url for number in range(30)} - {first[0].url}


def test_a_close_gives_back_what_has_landed(tmp_path: Path) -> None:
    with scheduler(tmp_path) as s:
        flown = numbered(s)
        first = flown.take()
        flown.download(first[0])
        flown.download(first[1])
        flown.end(first[1])
    with scheduler(tmp_path) as s:
        assert len(s) == 29
        assert s.frontier.summary().succeeded == 1


@pytest.mark.parametrize("fetched", [True, False])
def test_a_host_rests_from_its_landing_on_unless_nothing_was_fetched(fetched: bool) -> None:
    rest = {"politeness": {"min_delay": "1h", "max_delay": "1h", "per_queue_concurrency": 1}}
    with scheduler(BUDGETFRONTIER_SETTINGS={"frontier": rest}) as s:
        flown = numbered(s)
        [request] = flown.take()
        if fetched:
            flown.download(request)
        flown.engine.downloader.active.discard(request)  # ignored by a middleware; its errback takes its time
        assert not flown.take()
        assert (s.frontier.queue("example.org").state is QueueState.SNOOZED) is fetched
        flown.end(request)
        assert len(flown.take()) == (not fetched)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("backs_off", [True, False])
@pytest.mark.parametrize("scope", ["host", "crawl"])
def test_a_host_that_is_overloaded_rests_unless_the_back_off_is_off(scope: str, backs_off: bool, status: int) -> None:
    off = {} if backs_off else {"backoff": {"delay": 0}}
    with scheduler(BUDGETFRONTIER_SETTINGS={"frontier": off}, BUDGETFRONTIER_PRIORITY_SCOPE=scope) as s:
        flown = numbered(s)
        first = flown.take()
        s.enqueue_request(Request("https://other.example/"))
        flown.download(first[0], status=status)
        flown.end(first[0])
        taken = {request.url.split("/")[2] for request in flown.take()}
        assert ("example.org" in taken) is (scope == "host" and not backs_off)  # of `all`, the newest comes first
        assert ("other.example" in taken) is (scope == "host" or not backs_off)
        queue = s.frontier.queue("all" if scope == "crawl" else "example.org")
        assert (queue.state is QueueState.SNOOZED) is backs_off


@pytest.mark.parametrize(("forgive_after", "lengths"), [("30m", [0.01, 0.02, 0.04]), (0, [0.01, 0.01, 0.01])])
def test_a_host_that_stays_overloaded_rests_longer_unless_it_is_forgiven(
    forgive_after: Any, lengths: list[float]
) -> None:
    backoff = {"delay": 0.01, "forgive_after": forgive_after}
    with scheduler(BUDGETFRONTIER_SETTINGS={"frontier": {"backoff": backoff}}) as s:
        flown, found, taken = numbered(s), list[float](), list[Request]()
        for status in (503, 429, 503):
            if not taken:
                until(lambda: s.frontier.next_ready_in() in (None, 0.0))
                taken = flown.take()
            flown.download(taken[0], status=status)
            for request in taken:
                flown.end(request)
            taken = flown.take()  # none, unless the rest is over already
            found.append(s.frontier.queue("example.org").backoff)
        assert found == lengths


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many leases each call of `finish_many` ends from now on."""
    sizes: list[int] = []
    finish_many = Frontier.finish_many

    def count(frontier: Frontier, finished: list[Lease | Finish]) -> list[Lease]:
        sizes.append(len(finished))
        return finish_many(frontier, finished)

    monkeypatch.setattr(Frontier, "finish_many", count)
    return sizes


def test_requests_that_end_together_are_finished_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = counted(monkeypatch)
    with scheduler(BUDGETFRONTIER_SETTINGS={"frontier": {"error_penalty_amount": 10}}) as s:
        flown = numbered(s)
        first = flown.take()
        for request, status in zip(first, (200, 301, 404, 500, 503), strict=False):
            flown.download(request, status=status)
        flown.take()
        for request in first[:7]:
            flown.end(request)
        flown.take()
        s.close("finished")
        assert sizes == [7]
        assert {key: value for key, value in stats(s).items() if "/finished/" in key} == {
            "budgetfrontier/finished/success": 2,
            "budgetfrontier/finished/failure": 3,
            "budgetfrontier/finished/disregarded": 2,
        }


@pytest.mark.parametrize("how", ["a lease", "a commit", "the close"])
def test_requests_that_have_ended_are_finished_before(
    how: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes = counted(monkeypatch)
    with scheduler(tmp_path) as s:
        flown = numbered(s)
        first = flown.take()
        for request in first[:3]:
            flown.download(request)
            flown.end(request)
        monkeypatch.setattr(s._engine, "tick_in", lambda seconds: None)
        if how == "a lease":
            s.next_request()
        elif how == "a commit":
            s._tick()
        else:
            s.close("finished")
        assert sizes == [3]
    with Frontier.open(tmp_path / "frontier") as frontier:
        assert frontier.summary().succeeded == 3


def rest(settings: Any, fetch_seconds: float | None, **_: Any) -> Any:
    return "long" if fetch_seconds == 0.5 else 0.0


def test_a_policy_that_fails_for_one_loses_no_other_of_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    with scheduler(BUDGETFRONTIER_SETTINGS={"frontier": {"politeness_policy": f"{__name__}:rest"}}) as s:
        monkeypatch.setattr(s._engine, "close_spider", closed.append)
        flown = numbered(s)
        first = flown.take()
        state = s._in_flight._states[first[1]]
        state.reached, state.received, state.status = True, True, 200
        first[1].meta["download_latency"] = 0.5
        for request in first:
            flown.end(request)
        assert flown.take() == []
        assert s.frontier.summary().disregarded == 7 and s.frontier.summary().in_process == 1
        assert stats(s)["budgetfrontier/finished/disregarded"] == 7
        assert "budgetfrontier/finished/success" not in stats(s) and closed == ["policy_error"]


def test_a_request_that_is_to_have_no_referer_is_scheduled() -> None:
    """None is Scrapy's value of a header that is not sent; `get` returns it in place of a default."""
    with scheduler() as s:
        flown = numbered(s, 1)
        [first] = flown.take()
        flown.download(first)
        response = SimpleNamespace(status=200, url=first.url)
        s.crawler.signals.send_catch_log(signals.response_received, response=response, request=first)
        assert s.enqueue_request(page("silent", headers={"Referer": None}))
        assert s.enqueue_request(page("copied", headers={"Referer": first.url}, meta={"retry_times": None}))
        assert (state := s._in_flight._states[first]).links == 1 and state.added == 1


def test_a_spider_that_closes_closes_its_frontier_whatever_fails_before(tmp_path: Path) -> None:
    settings = {"frontier": {"politeness_policy": f"{__name__}:rest"}}
    with scheduler(tmp_path, BUDGETFRONTIER_SETTINGS=settings) as s:
        flown = numbered(s)
        first = flown.take()[0]
        state = s._in_flight._states[first]
        state.reached, state.received, state.status = True, True, 200
        first.meta["download_latency"] = 0.5
        flown.engine.downloader.active.discard(first)  # its download is over, and no signal has told that
    Frontier.open(tmp_path / "frontier").close()
