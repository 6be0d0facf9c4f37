"""A spider on a frontier that other processes share: one scheduler or two on one served frontier."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import date
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from scrapy import FormRequest, Request, signals
from scrapy.http import HtmlResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule, SitemapSpider

from budgetfrontier import CrawlUri, Lease, Settings, SettingsError
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import PolicyError, StorageFull
from budgetfrontier.remote import RemoteFrontier
from budgetfrontier.scrapy.in_flight import RequestState
from budgetfrontier.scrapy.remote import unstorable_requests
from budgetfrontier.scrapy.remote.pace import Pace
from budgetfrontier.scrapy.remote.staying import Stay, stay
from tests.remote.served import Served
from tests.scrapy.crawler import Pages, make, page, scheduler, start, stats
from tests.support import START, make_settings, until

KEY = "a secret of sixteen characters and more"
Shared = Callable[..., AbstractContextManager[Any]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> Iterator[Served]:
    with Served(tmp_path, make_settings(concurrency=100), monkeypatch, clock) as served:
        yield served


@pytest.fixture
def shared(served: Served) -> Shared:
    """A function that opens a scheduler on the served frontier, as one process of several."""
    return lambda **options: scheduler(BUDGETFRONTIER_URL=served.address, **options)


@pytest.fixture
def frontier(served: Served) -> Iterator[RemoteFrontier]:
    with RemoteFrontier(served.address, crawl="pages") as frontier:
        yield frontier


def told(scheduler: Any) -> None:
    """Wait until the server has stored all that a process has told it."""
    until(lambda: not scheduler._courier.waiting)
    scheduler._courier.answer()


def enqueue(scheduler: Any, *requests: Request) -> None:
    for request in requests:
        assert scheduler.enqueue_request(request)
    told(scheduler)


def take(scheduler: Any, count: int = 1) -> list[Request]:
    """The next requests, waited for."""
    found: list[Request] = []

    def enough() -> bool:
        while len(found) < count and (request := scheduler.next_request()):
            found.append(request)
        return len(found) == count

    until(enough)
    return found


def test_a_request_that_one_process_made_is_run_by_another(shared: Shared) -> None:
    with shared() as one:
        enqueue(one, page("a", callback=one.spider.parse_more, meta={"n": [1]}, headers={"X": "1"}, priority=2))
    with shared() as other:
        [request] = take(other)
        assert request.callback == other.spider.parse_more
        assert (request.url, request.meta["n"], request.headers["X"]) == ("https://example.org/a", [1], b"1")


def test_duplicates_are_found_by_the_server_and_counted_when_it_answers(shared: Shared) -> None:
    dropped: list[Request] = []

    def drop(request: Request) -> None:
        dropped.append(request)

    with shared() as one, shared() as other:
        other.crawler.signals.connect(drop, signals.request_dropped)
        enqueue(one, page("a"))
        enqueue(other, again := page("a"), page("b"))
        assert dropped == [again]
        assert stats(other)["dupefilter/filtered"] == 1 and stats(other)["scheduler/enqueued/shared"] == 1
        assert not other.enqueue_request(page("a")), "it is known now, and not sent again"
        enqueue(other, page("a", dont_filter=True))
    with shared() as third:
        assert sorted(request.url[-1] for request in take(third, 3)) == ["a", "a", "b"]


def test_start_requests_are_made_once_by_all_processes(shared: Shared, frontier: RemoteFrontier) -> None:
    with shared() as one, shared() as other:
        enqueue(one, start("a"), start("b"))
        enqueue(other, start("a"), start("b"))
        assert frontier.summary().scheduled == 2 and stats(other)["dupefilter/filtered"] == 2


def test_start_requests_that_differ_or_are_repeated_are_all_made_and_once_by_all(
    shared: Shared, frontier: RemoteFrontier, caplog: pytest.LogCaptureFixture
) -> None:
    def made(one: Any) -> list[Request]:
        return [
            *(start("a", cb_kwargs={"number": number}) for number in range(3)),
            *(start("a", meta={"points": {0, 8}, "when": date(2026, 1, day)}) for day in (1, 2)),
            *(start("a") for _ in range(3)),
            start("a", callback=one.spider.parse_more),
            start("a", errback=one.spider.parse_more),
            start("a", flags=["x"]),
            start("a", method="POST", body=b"1"),
            start("a#fragment"),
        ]

    with shared(BUDGETFRONTIER_KEY=KEY) as one, shared(BUDGETFRONTIER_KEY=KEY) as other:
        enqueue(one, *made(one))
        assert frontier.summary().scheduled == 13 and "dupefilter/filtered" not in stats(one)
        with caplog.at_level(logging.INFO):
            enqueue(other, *reversed(made(other)))
        assert frontier.summary().scheduled == 13 and stats(other)["budgetfrontier/made_before"] == 13
        [line] = [each.getMessage() for each in caplog.records if "Start request not made" in each.getMessage()]
        assert "https://example.org/a" in line
        enqueue(other, start("a", cb_kwargs={"number": 3}), start("a"))
        assert frontier.summary().scheduled == 15, "those that the first process has not made"
    with shared(BUDGETFRONTIER_KEY=KEY) as again:
        enqueue(again, *made(again))
        assert frontier.summary().scheduled == 15
        requests = take(again, 15)
        assert sorted(request.cb_kwargs.get("number", -1) for request in requests)[-4:] == [0, 1, 2, 3]
        assert sorted(request.method for request in requests)[-2:] == ["GET", "POST"]


def test_start_requests_that_cannot_be_stored_are_all_made_and_once_by_all(shared: Shared) -> None:
    def made() -> list[Request]:
        return [start("a", callback=lambda response: None, meta={"lock": Lock(), "number": n}) for n in (1, 2, 2)]

    with shared() as one, shared() as other:
        enqueue(one, *made())
        enqueue(other, *made())
        assert len(take(one, 3)) == 3 and stats(other)["budgetfrontier/made_before"] == 3


def test_a_finished_request_ends_its_lease(shared: Shared, frontier: RemoteFrontier) -> None:
    with shared() as one:
        enqueue(one, page("a"), page("b"))
        assert one.has_pending_requests()
        take(one, 2)
        until(lambda: not one.has_pending_requests())
        total = frontier.summary()
        assert (total.disregarded, total.in_process, total.queued) == (2, 0, 0)
        one._courier.answer()
        assert stats(one)["budgetfrontier/finished/disregarded"] == 2


def test_leases_that_wait_are_given_back_at_the_close(shared: Shared, frontier: RemoteFrontier) -> None:
    with shared() as one:
        enqueue(one, *(page(str(number)) for number in range(8)))
        until(lambda: one._courier.ready == 8)
        assert frontier.summary().in_process == 8
    total = frontier.summary()
    assert total.in_process == 0 and total.queued == 8


def test_a_budget_in_meta_is_that_of_the_shared_queue(shared: Shared, frontier: RemoteFrontier) -> None:
    with shared() as one:
        enqueue(one, page("a", meta={"budgetfrontier_budget": 7}))
        record = frontier.queue("example.org")
        assert record is not None and record.own_budget == record.total_budget == 7
        assert not one.enqueue_request(page("b", meta={"budgetfrontier_budget": "7"}))
        frontier.adjust(match="queue:example.org", queue_total_budget=9)
        enqueue(one, page("c", meta={"budgetfrontier_budget": 8}))
        record = frontier.queue("example.org")
        assert record is not None and (record.own_budget, record.total_budget) == (8, 9), "the operator's wins"
        frontier.retire("example.org")
    assert stats(one)["budgetfrontier/crawl/retired"] == 1


def test_downloads_land_in_one_message(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[int] = []
    landed_many = RemoteFrontier.landed_many

    def count(self: RemoteFrontier, downloads: Any) -> Any:
        messages.append(len(downloads))
        return landed_many(self, downloads)

    monkeypatch.setattr(RemoteFrontier, "landed_many", count)
    with shared() as one:
        enqueue(one, *(page(str(number)) for number in range(5)))
        until(lambda: one._courier.ready == 5)
        leases = [one._courier.next_lease() for _ in range(5)]
        with one._courier._changed:  # as in one turn of the event loop
            for lease in leases:
                one._courier.landed(lease, 0.1)
        until(lambda: all(lease.landed for lease in leases))
    assert messages == [5]


def test_pickled_requests_are_shared_with_a_key_and_never_read_without_it(
    shared: Shared, frontier: RemoteFrontier
) -> None:
    with shared(BUDGETFRONTIER_KEY=KEY) as one:
        enqueue(one, page("a", meta={"point": (1, 2)}))
    with shared() as other:
        reasons: list[str] = []
        other._engine.close_spider = reasons.append
        until(lambda: other.next_request() or reasons)
        assert reasons == ["other_key"] and not other.next_request()
    assert frontier.summary().in_process == 0 and frontier.summary().dead == 0, "it was given back"
    with shared(BUDGETFRONTIER_KEY=KEY) as third:
        assert take(third)[0].meta["point"] == (1, 2)


def test_nothing_that_somebody_else_wrote_is_unpickled_or_named(
    shared: Shared, frontier: RemoteFrontier, caplog: pytest.LogCaptureFixture
) -> None:
    with shared(BUDGETFRONTIER_KEY=KEY) as one:
        enqueue(one, page("a", meta={"point": (1, 2)}))
    [lease] = frontier.lease(1)
    payload = lease.uri.payload
    assert payload is not None
    frontier.schedule(msgspec.structs.replace(lease.uri, payload=payload[:-1] + bytes([payload[-1] ^ 1]), force=True))
    with shared(BUDGETFRONTIER_KEY=KEY) as other:
        until(lambda: other.next_request() or frontier.summary().dead)
    assert frontier.summary().dead == 1 and "signature" in caplog.text


def test_without_a_key_only_plain_data_and_public_callbacks_are_shared(shared: Shared) -> None:
    with shared() as one:
        kept = [
            page("a", meta={"point": (1, 2)}),
            page("b", callback=one.spider._set_crawler),
            page("c", callback=lambda response: None),
        ]
        enqueue(one, *kept)
        assert set(take(one, 3)) == set(kept) and stats(one)["scheduler/unserializable"] == 3
        enqueue(one, FormRequest("https://example.org/form", formdata={"a": "1"}))
        [request] = take(one)
        assert type(request) is FormRequest and request.body == b"a=1"


def test_requests_that_cannot_be_stored_stay_with_their_process(
    shared: Shared, frontier: RemoteFrontier, caplog: pytest.LogCaptureFixture
) -> None:
    def made(**options: Any) -> Request:
        return page("a", callback=lambda response: None, **options)

    with shared(BUDGETFRONTIER_KEY=KEY) as one, shared(BUDGETFRONTIER_KEY=KEY) as other:
        enqueue(one, made())
        enqueue(other, made(), page("a"))
        assert stats(other)["dupefilter/filtered"] == 2, "the server knows it"
        enqueue(other, made(dont_filter=True))
        assert one.has_pending_requests() and len(take(one)) == 1
        until(lambda: not one.has_pending_requests())
        assert stats(one)["budgetfrontier/finished/disregarded"] == 1
        assert frontier.summary().expenditure == 1 and frontier.summary().queued == 0
    assert "stays with this process" in caplog.text and "are lost: 1" in caplog.text


class Rules(CrawlSpider):  # type: ignore[misc]
    name = "pages"
    rules = (Rule(LinkExtractor()),)


def test_requests_of_crawl_spiders_are_shared_without_a_key(shared: Shared) -> None:
    with shared(spider=Rules) as one:
        enqueue(one, page("a", callback=one.spider._callback, errback=one.spider._errback))
        assert take(one)[0].callback == one.spider._callback


class Maps(SitemapSpider):  # type: ignore[misc]
    name = "pages"
    sitemap_urls = ("https://example.org/robots.txt",)


def test_sitemaps_are_shared_without_a_key(shared: Shared) -> None:
    with shared(spider=Maps) as one:
        enqueue(one, page("robots.txt", callback=one.spider._parse_sitemap))
        assert take(one)[0].callback == one.spider._parse_sitemap
        assert not one.stats.get_value("scheduler/unserializable")


def test_what_crawl_spiders_find_is_shared_without_a_key(shared: Shared) -> None:
    with shared(spider=Rules) as one:
        html = b"<a href='/b'>the <b>text</b> of a link</a>"
        found = list(one.spider._requests_to_follow(HtmlResponse("https://a.test/", body=html)))
        assert [request.meta["link_text"] for request in found] == ["the text of a link"]
        for request in found:
            enqueue(one, request)
        assert take(one)[0].meta["link_text"] == "the text of a link"
        assert not one.stats.get_value("scheduler/unserializable")


def test_what_is_not_plain_is_named(shared: Shared, caplog: pytest.LogCaptureFixture) -> None:
    with shared(spider=Rules) as one:
        enqueue(one, page("a", callback=one.spider._callback, meta={"when": date(2026, 1, 1)}))
        assert "meta['when']: date" in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"BUDGETFRONTIER_URL": "http://127.0.0.1:7071"},
        {"BUDGETFRONTIER_URL": "localhost"},
        {"BUDGETFRONTIER_URL": ""},
        {"BUDGETFRONTIER_URL": " "},
        {"BUDGETFRONTIER_KEY": ""},
        {"BUDGETFRONTIER_TOKEN": ""},
        {"BUDGETFRONTIER_SETTINGS": {"frontier": {}} | {"crawl": "x"}},
        {"BUDGETFRONTIER_KEY": "short"},
        {"BUDGETFRONTIER_LEASE_TTL": "soon"},
        {"BUDGETFRONTIER_PREFETCH": 0},
        {"BUDGETFRONTIER_IDLE_BEFORE_CLOSE": -1},
        {"BUDGETFRONTIER_TLS": "no such file"},
        {"BUDGETFRONTIER_PRIORITY_SCOPE": "crawl"},
    ],
    ids=str,
)
def test_wrong_settings_are_refused_with_words(served: Served, wrong: dict[str, Any]) -> None:
    settings = {"BUDGETFRONTIER_URL": served.address, **wrong}
    with pytest.raises(SettingsError, match="BUDGETFRONTIER_"), scheduler(**settings):
        pass


def test_how_long_a_spider_stays() -> None:
    def after(seconds: float, **changed: Any) -> Stay:
        return stay(**{"at_hand": False, "left": 3, "since": seconds, "limit": 10.0, "away": False} | changed)

    assert after(0.0, left=0) is Stay.DONE and after(0.0, left=0, at_hand=True) is Stay.WAIT
    assert after(9.0) is Stay.WAIT and after(10.0) is Stay.IDLE and after(10.0, left=None) is Stay.WAIT
    assert after(9.0, away=True) is Stay.WAIT and after(10.0, away=True, at_hand=True) is Stay.AWAY
    assert after(0.0, limit=0.0) is Stay.IDLE and after(99.0, at_hand=True) is Stay.WAIT


def test_the_log_says_which_crawl_is_shared(shared: Shared, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), shared(BUDGETFRONTIER_CRAWL="news", spider=Pages):
        pass
    assert "crawl news" in caplog.text


def test_a_spider_whose_requests_were_all_made_before_says_so(shared: Shared, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        with shared() as one:
            enqueue(one, start("a"), page("b"))
            assert "Nothing was crawled" not in caplog.text
            while one.has_pending_requests():
                one.next_request()
    [line] = [record.getMessage() for record in caplog.records if "Nothing was crawled" in record.getMessage()]
    assert "(2)" in line and "2 URLs as seen" in line and "BUDGETFRONTIER_CRAWL = 'pages-2'" in line


def renewed(scheduler: Any) -> None:
    """Wait until a process has renewed its one lease twice: the second time after this was called."""
    held = scheduler._courier._leases._held
    [number] = held
    for _ in range(2):
        until(partial(_changed, held, number, held[number][1]))


def _changed(held: dict[int, Any], number: int, deadline: float) -> bool:
    return bool(held[number][1] > deadline)


def test_leases_are_renewed_while_they_are_out(
    shared: Shared, frontier: RemoteFrontier, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with shared(BUDGETFRONTIER_LEASE_TTL=1) as one:
        enqueue(one, page("a"))
        take(one)
        for _ in range(4):
            renewed(one)
            clock.advance(0.6)
        until(lambda: not one.has_pending_requests())
        assert frontier.summary().disregarded == 1 and "expired" not in caplog.text


def test_a_lease_that_has_expired_is_logged_and_counted(
    shared: Shared, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    with shared() as one:
        enqueue(one, page("a"), page("b"))
        take(one, 2)
        clock.advance(3600.0)
        until(lambda: one._courier.ready == 2)  # they are leased again, as by another process
        one._finish_ended()
        until(lambda: one._courier.answer() or stats(one).get("budgetfrontier/late") == 2)
        assert caplog.text.count("has expired") == 1 and "ERROR" not in caplog.text
        assert "budgetfrontier/finished/disregarded" not in stats(one)


def test_a_request_that_has_waited_here_delays_the_next_of_its_queue() -> None:
    lease = Lease(1, "a.test", CrawlUri("https://a.test/"), 1, 0.0, 1)
    state = RequestState(lease, own_slot=False)
    state.reached, state.status, state.landed_at = True, 200, monotonic()
    fetched = page(meta={"download_latency": 2.0})
    pace = Pace(Settings.from_dict({"crawl": "x", "frontier": {"politeness": {"min_interval": 3600}}}))
    assert 3500 < pace.rest(state, fetched) <= 3598
    assert pace.rest(state, page()) == 0.0, "nothing was fetched"
    assert Pace(Settings()).rest(state, fetched) == 0.0


def test_a_policy_that_fails_on_the_server_closes_the_spider(
    shared: Shared, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: RemoteFrontier, uris: Any) -> Any:
        raise PolicyError("the cost policy has failed")

    monkeypatch.setattr(RemoteFrontier, "schedule_each", fail)
    with shared() as one:
        reasons: list[str] = []
        one._engine.close_spider = reasons.append
        one.enqueue_request(page("a"))
        until(lambda: one._courier.answer() or reasons)
        assert reasons[0] == "policy_error" and not one.enqueue_request(page("b"))
    assert "the cost policy has failed" in caplog.text


def test_a_server_without_room_is_told_again(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0
    schedule = RemoteFrontier.schedule_each

    def full_once(self: RemoteFrontier, uris: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StorageFull
        return schedule(self, uris)

    monkeypatch.setattr(RemoteFrontier, "schedule_each", full_once)
    with shared() as one:
        enqueue(one, page("a"))
        assert tries == 2 and take(one)[0].url == "https://example.org/a"


def test_no_page_is_fetched_while_the_server_does_not_keep_up(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    with shared() as one:
        enqueue(one, page("a"))
        until(lambda: one._courier.ready)
        monkeypatch.setattr("budgetfrontier.scrapy.remote.courier.MOST_WAITING", -1)
        assert one.next_request() is None and one.has_pending_requests()
        monkeypatch.undo()
        assert len(take(one)) == 1


def test_a_spider_that_is_closed_before_the_server_answers_leases_nothing(
    served: Served, frontier: RemoteFrontier
) -> None:
    frontier.schedule("https://example.org/a")
    one = make(BUDGETFRONTIER_URL=served.address)
    one.close("shutdown")
    one.open(one.crawler.spider)
    assert not hasattr(one, "_courier") and frontier.summary().in_process == 0


def test_a_request_with_a_body_that_no_server_stores_stays_with_its_process(shared: Shared) -> None:
    body = b"x" * (9 << 20)
    with shared() as one:
        enqueue(one, page("a", method="POST", body=body), page("b", priority=sys.maxsize))
        assert sorted(len(request.body) for request in take(one, 2)) == [0, len(body)]
        assert stats(one)["scheduler/unserializable"] == 1


def test_what_cannot_be_kept_here_either_is_refused_and_the_others_go_on(
    shared: Shared, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lacks(*args: Any, **options: Any) -> None:
        raise PolicyError("this machine does not have it")

    with shared() as one:
        monkeypatch.setattr(unstorable_requests, "Frontier", SimpleNamespace(open=lacks))
        enqueue(one, page("a", callback=lambda response: None), page("b"))
        assert take(one)[0].url.endswith("b")
        assert stats(one)["budgetfrontier/refused"] == 1
    assert "this machine does not have it" in caplog.text and "stays with this process" not in caplog.text
