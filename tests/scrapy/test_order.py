"""Order, duplicates and numbers, as Scrapy's users know them."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from scrapy import FormRequest, Request, version_info
from scrapy.core.scheduler import BaseScheduler
from scrapy.core.scheduler import Scheduler as TheirScheduler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import Response
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.squeues import LifoMemoryQueue
from scrapy.utils.test import get_crawler

from budgetfrontier import QueueState, SettingsError
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.scrapy import Scheduler
from budgetfrontier.scrapy.labels import Labels
from tests.scrapy.crawler import drain, make, page, paths, reach, scheduler, start, stats

FIFO: dict[str, Any] = {
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
}


@pytest.fixture(params=["memory", "disk"])
def jobdir(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "disk" else None


def test_scrapy_takes_it_for_a_scheduler() -> None:
    assert issubclass(Scheduler, BaseScheduler)


def test_newer_requests_go_first(jobdir: Path | None) -> None:
    with scheduler(jobdir) as s:
        assert all(s.enqueue_request(page(letter)) for letter in "abc")
        assert paths(s) == "cba"


def test_fifo_queues_make_older_requests_go_first(jobdir: Path | None) -> None:
    with scheduler(jobdir, **FIFO) as s:
        for letter in "abc":
            s.enqueue_request(page(letter))
        assert paths(s) == "abc"


def test_the_frontier_settings_have_the_last_word_on_the_order() -> None:
    with scheduler(BUDGETFRONTIER_SETTINGS={"frontier": {"order": "fifo"}}) as s:
        for letter in "abc":
            s.enqueue_request(page(letter))
        assert paths(s) == "abc"


def test_higher_priorities_go_first(jobdir: Path | None) -> None:
    with scheduler(jobdir) as s:
        for letter, priority in (("a", 0), ("b", 100), ("c", -10), ("d", 1)):
            s.enqueue_request(page(letter, priority=priority))
        requests = drain(s)
    assert [request.url[-1] for request in requests] == ["b", "d", "a", "c"]
    assert [request.priority for request in requests] == [100, 1, 0, -10]


@pytest.mark.parametrize("queues", [{}, FIFO])
def test_start_requests_wait_behind_others_of_their_priority_oldest_first(
    queues: dict[str, Any], jobdir: Path | None
) -> None:
    with scheduler(jobdir, **queues) as s:
        for letter in "abc":
            s.enqueue_request(start(letter))
        s.enqueue_request(page("x"))
        s.enqueue_request(start("d", priority=1))
        s.enqueue_request(page("y", priority=-1))
        assert paths(s) == "dxabcy"


@pytest.mark.parametrize(("queues", "expected"), [({}, "ecxba"), (FIFO, "eabxc")])
def test_without_queues_of_their_own_start_requests_are_like_others(
    queues: dict[str, Any], expected: str, jobdir: Path | None
) -> None:
    shared: dict[str, Any] = {"SCHEDULER_START_MEMORY_QUEUE": None, "SCHEDULER_START_DISK_QUEUE": None}
    with scheduler(jobdir, **queues, **shared) as s:
        s.enqueue_request(start("a"))
        s.enqueue_request(start("b"))
        s.enqueue_request(page("x"))
        s.enqueue_request(start("c"))
        s.enqueue_request(start("e", priority=1))
        assert paths(s) == expected


@pytest.mark.parametrize("queues", [{}, FIFO])
def test_start_requests_may_leave_newest_first(queues: dict[str, Any], jobdir: Path | None) -> None:
    newest_first: dict[str, Any] = {
        "SCHEDULER_START_MEMORY_QUEUE": "scrapy.squeues.LifoMemoryQueue",
        "SCHEDULER_START_DISK_QUEUE": "scrapy.squeues.PickleLifoDiskQueue",
    }
    with scheduler(jobdir, **queues, **newest_first) as s:
        for letter in "abc":
            s.enqueue_request(start(letter))
        s.enqueue_request(page("x"))
        s.enqueue_request(start("d", priority=1))
        s.enqueue_request(start("e", priority=1))
        s.enqueue_request(page("y", priority=-1))
        assert paths(s) == "edxcbay"


class Heap:
    """A queue of a project's own."""


def test_a_queue_class_whose_name_does_not_tell_its_order_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with scheduler(SCHEDULER_MEMORY_QUEUE=Heap, SCHEDULER_START_MEMORY_QUEUE=Heap) as s:
        for letter in "ab":
            s.enqueue_request(page(letter))
            s.enqueue_request(start(letter.upper()))
        assert paths(s) == "baAB"
    told = [record.getMessage() for record in caplog.records]
    assert any("SCHEDULER_MEMORY_QUEUE: " in line and line.endswith("it is taken for LIFO") for line in told)
    assert any("SCHEDULER_START_MEMORY_QUEUE: " in line and line.endswith("it is taken for FIFO") for line in told)


PRIORITY_QUEUES = {
    None: (None, None),
    "scrapy.pqueues.DownloaderAwarePriorityQueue": (None, "counts among all"),
    "scrapy.pqueues.ScrapyPriorityQueue": ("counts among the requests of a host", None),
    Heap: ("counts among the requests of a host", "counts among all"),
}


@pytest.mark.parametrize("scope", ["host", "crawl"])
@pytest.mark.parametrize("queue", PRIORITY_QUEUES)
def test_a_priority_queue_that_orders_otherwise_is_told(
    queue: Any, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    named: dict[str, Any] = {} if queue is None else {"SCHEDULER_PRIORITY_QUEUE": queue}
    with scheduler(BUDGETFRONTIER_PRIORITY_SCOPE=scope, **named):
        pass
    expected = PRIORITY_QUEUES[queue][scope == "crawl"]
    if expected is None:
        assert "SCHEDULER_PRIORITY_QUEUE" not in caplog.text
    else:
        assert "SCHEDULER_PRIORITY_QUEUE: " in caplog.text and expected in caplog.text


def test_priorities_may_count_across_hosts(jobdir: Path | None) -> None:
    with scheduler(jobdir, BUDGETFRONTIER_PRIORITY_SCOPE="crawl", CONCURRENT_REQUESTS=20) as s:
        for number in range(6):
            host, priority = "abc"[number % 3], number // 2
            s.enqueue_request(Request(f"https://{host}.example/{number}", priority=priority))
        s.enqueue_request(Request("file:///5.5", priority=3))
        s.enqueue_request(Request("https://d.example/9", priority=-1, meta={"download_slot": "shared"}))
        assert paths(s) == "55432109"
        assert s.frontier.settings.frontier.politeness.per_queue_concurrency == 20
        assert s.frontier.queue("all").enqueued == 8


def test_a_wrong_priority_scope_is_told() -> None:
    wrong = make(BUDGETFRONTIER_PRIORITY_SCOPE="hosts")
    with pytest.raises(SettingsError, match='BUDGETFRONTIER_PRIORITY_SCOPE is "host" or "crawl", not \'hosts\''):
        wrong.open(wrong.crawler.spider)


def test_thousands_of_start_requests_leave_in_order() -> None:
    with scheduler(BUDGETFRONTIER_SETTINGS={"frontier": {"politeness": {"per_queue_concurrency": 1}}}) as s:
        for number in range(3000):
            s.enqueue_request(start(str(number)))
        assert [request.url for request in drain(s)] == [page(str(number)).url for number in range(3000)]


def test_duplicates_are_dropped_counted_and_logged(jobdir: Path | None, caplog: pytest.LogCaptureFixture) -> None:
    with scheduler(jobdir) as s, caplog.at_level("DEBUG", logger="scrapy.dupefilters"):
        assert s.enqueue_request(page("a?x=1&y=2"))
        assert not s.enqueue_request(page("a?y=2&x=1"))
        assert not s.enqueue_request(page("a?x=1&y=2#part"))
        assert len(s) == 1
    assert stats(s)["dupefilter/filtered"] == 2
    assert caplog.text.count("Filtered duplicate request") == 1  # unless DUPEFILTER_DEBUG


def test_method_body_host_and_every_argument_tell_requests_apart() -> None:
    requests = [
        page("a"),
        page("a", method="POST"),
        page("a", method="POST", body=b"x=1"),
        page("a?utm_source=x"),
        page("a?sid=0123456789abcdef0123456789abcdef"),
        Request("https://www.example.org/a"),  # where example.org/a may lead: it has to be fetched
        Request("http://example.org/a"),
        Request("https://user@example.org/a"),
    ]
    with scheduler() as s:
        assert all(map(s.enqueue_request, requests))


def test_dont_filter_is_let_through_and_not_remembered() -> None:
    with scheduler() as s:
        assert s.enqueue_request(page("a", dont_filter=True))
        assert s.enqueue_request(page("a"))
        assert s.enqueue_request(page("a", dont_filter=True))
        assert not s.enqueue_request(page("a"))
        assert s.enqueue_request(start("a"))
        assert s.enqueue_request(start("a"))
        assert len(drain(s)) == 5


class OncePerPath(RFPDupeFilter):  # type: ignore[misc]
    def request_seen(self, request: Request) -> bool:
        if request.url.endswith("broken"):
            raise ZeroDivisionError
        return bool(super().request_seen(request.replace(url=request.url.partition("?")[0])))


class AlwaysTheSame:
    def fingerprint(self, request: Request) -> bytes:
        return b"same"


def test_a_dupefilter_of_the_project_decides_alone(caplog: pytest.LogCaptureFixture) -> None:
    with scheduler(DUPEFILTER_CLASS=OncePerPath) as s:
        assert s.enqueue_request(page("a?1"))
        assert not s.enqueue_request(page("a?2"))
        assert stats(s)["dupefilter/filtered"] == 1
        assert not s.enqueue_request(page("broken"))  # what it raises loses that request, and no other
        assert "ZeroDivisionError" in caplog.text
        assert s.enqueue_request(page("b"))


def test_a_base_dupefilter_lets_all_through() -> None:
    with scheduler(DUPEFILTER_CLASS="scrapy.dupefilters.BaseDupeFilter") as s:
        assert s.enqueue_request(page("a")) and s.enqueue_request(page("a"))


def test_a_fingerprinter_of_the_project_counts() -> None:
    with scheduler(REQUEST_FINGERPRINTER_CLASS=AlwaysTheSame) as s:
        assert s.enqueue_request(page("a"))
        assert not s.enqueue_request(page("b"))


def test_numbers_in_memory() -> None:
    with scheduler() as s:
        assert not s.has_pending_requests() and len(s) == 0 and s.next_request() is None
        for letter in "abc":
            s.enqueue_request(page(letter))
        assert s.has_pending_requests() and (len(s), len(s.mqs), s.dqs) == (3, 3, None)
        s.next_request()
        assert len(s) == 2
        drain(s)
        assert not s.has_pending_requests()  # what is out does not count
    assert {key: value for key, value in stats(s).items() if key.startswith("scheduler")} == {
        "scheduler/enqueued": 3,
        "scheduler/enqueued/memory": 3,
        "scheduler/dequeued": 3,
        "scheduler/dequeued/memory": 3,
    }


def test_numbers_on_disk(tmp_path: Path) -> None:
    with scheduler(tmp_path) as s:
        s.enqueue_request(page("a"))
        s.enqueue_request(page("b", callback=lambda response: None))
        assert (len(s), len(s.mqs), len(s.dqs)) == (2, 1, 1)
        drain(s)
    assert {key: value for key, value in stats(s).items() if key.startswith("scheduler")} == {
        "scheduler/enqueued": 2,
        "scheduler/enqueued/disk": 1,
        "scheduler/enqueued/memory": 1,
        "scheduler/unserializable": 1,
        "scheduler/dequeued": 2,
        "scheduler/dequeued/disk": 1,
        "scheduler/dequeued/memory": 1,
    }


def test_hosts_take_turns() -> None:
    with scheduler() as s:
        for number in range(6):
            s.enqueue_request(Request(f"https://big.example/{number}"))
        for number in range(2):
            s.enqueue_request(Request(f"https://small.example/{number}"))
        hosts = [request.url.split("/")[2][0] for request in drain(s)]
    assert "".join(hosts) == "bsbsbbbb"


def test_a_queue_over_its_budget_is_not_pending() -> None:
    with scheduler(BUDGETFRONTIER_SETTINGS={"frontier": {"queue_total_budget": 2, "retire_when": "reached"}}) as s:
        for number in range(5):
            s.enqueue_request(page(str(number)))
        s.enqueue_request(page("x", meta={"budgetfrontier_budget": 2}))
        seen = 0
        while request := s.next_request():  # as if each had been fetched
            reach(s, request)
            seen += 1
        assert seen == 2
        assert not s.has_pending_requests() and len(s) == 0
        assert s.frontier.queue("example.org").state is QueueState.RETIRED
    assert stats(s)["budgetfrontier/retired"] == 1


def test_what_is_out_of_a_retired_queue_is_not_taken_off_the_others() -> None:
    with scheduler() as s:
        for url in ("https://a.example/1", "https://a.example/2", "https://b.example/1"):
            s.enqueue_request(Request(url))
        assert s.next_request().url.startswith("https://a.example/")
        assert len(s) == 2
        s.frontier.retire("a.example")
        assert len(s) == 1


def test_a_queue_that_rests_is_pending() -> None:
    rest = {"politeness": {"min_delay": "1h", "max_delay": "1h", "per_queue_concurrency": 1}}
    with scheduler(BUDGETFRONTIER_SETTINGS={"frontier": rest}) as s:
        s.enqueue_request(page("a"))
        s.enqueue_request(page("b"))
        reach(s, s.next_request())
        assert s.next_request() is None
        assert s.has_pending_requests() and len(s) == 1


@pytest.mark.skipif(version_info < (2, 14), reason="start requests went before others in 2.13.0")
@pytest.mark.parametrize("hosts", ["a", "abc"])
@pytest.mark.parametrize("seed", range(10))
def test_one_queue_is_crawled_in_the_very_order_of_scrapy(seed: int, hosts: str) -> None:
    random = Random(seed)
    crawler = make().crawler
    theirs = TheirScheduler(
        RFPDupeFilter(),
        mqclass=LifoMemoryQueue,
        pqclass=ScrapyPriorityQueue,
        stats=crawler.stats,
        crawler=crawler,
    )
    theirs.open(crawler.spider)
    with scheduler(BUDGETFRONTIER_PRIORITY_SCOPE="host" if len(hosts) == 1 else "crawl") as ours:
        for number in range(300):
            if random.random() < 0.6:
                path = random.randrange(150)
                request = random.choice((page, start))(str(path), priority=random.randint(-2, 2))
                url = f"https://{hosts[path % len(hosts)]}.example/{path}"
                request = request.replace(url=url, dont_filter=random.random() < 0.5)
                both = [s.enqueue_request(request.copy()) for s in (ours, theirs)]
            else:
                both = [request and request.url for request in (ours.next_request(), theirs.next_request())]
            assert both[0] == both[1], number
        assert [request.url for request in drain(ours)] == [request.url for request in drain(theirs)]


def test_a_spider_may_set_a_label_which_links_inherit(caplog: pytest.LogCaptureFixture) -> None:
    first = page("a", meta={"budgetfrontier_label": "blogs"})
    response = Response(first.url, request=first)
    links = [page("b"), page("c", meta={"budgetfrontier_label": "own"}), {"item": 1}]
    found = [one for one in Labels(get_crawler()).process_spider_output(response, links) if isinstance(one, Request)]
    settings = {"frontier": {"quotas": {"label": {"urls": 1}}}}
    with scheduler(BUDGETFRONTIER_SETTINGS=settings) as s:
        for request in (first, *found):
            assert s.enqueue_request(request)
        for wrong in (5, ""):
            assert not s.enqueue_request(page("wrong", meta={"budgetfrontier_label": wrong}))
        assert sorted(str(lease.uri.source) for lease in s.frontier.lease(9)) == ["blogs", "blogs", "own"]
    assert "budgetfrontier_label is text, not 5" in caplog.text


def test_a_spider_may_set_cost_queue_and_budget(caplog: pytest.LogCaptureFixture) -> None:
    with scheduler() as s:
        s.enqueue_request(page("a", meta={"budgetfrontier_cost": 7, "budgetfrontier_queue": "mine"}))
        s.enqueue_request(page("b", meta={"budgetfrontier_budget": 50}))
        s.enqueue_request(page("c", meta={"budgetfrontier_budget": 50}))
        assert s.frontier.audit() == []
        for wrong in ({"budgetfrontier_cost": "7"}, {"budgetfrontier_budget": 1 << 60}, {"budgetfrontier_queue": 3}):
            assert not s.enqueue_request(page("wrong", meta=wrong))
        [first] = [request for request in drain(s) if request.url.endswith("a")]
        assert first.meta == {"budgetfrontier_cost": 7, "budgetfrontier_queue": "mine"}
        assert s.frontier.queue("example.org").total_budget == 50
        assert s.frontier.queue("mine").enqueued == 1
        s.frontier.adjust(match="queue:example.org", queue_total_budget=60)
        s.enqueue_request(page("d", meta={"budgetfrontier_budget": 70}))
        assert s.frontier.queue("example.org").total_budget == 60, "the operator's wins"
    assert "budgetfrontier_cost is a whole number, not '7'" in caplog.text
    assert stats(s)["budgetfrontier/refused"] == 3 and "Traceback" not in caplog.text


@pytest.mark.parametrize("url", ["data:,hello", "file:///etc/hostname", "s3://bucket/key", "ftp://example.org/file"])
def test_what_the_engine_knows_no_hosts_of_is_scheduled_too(url: str) -> None:
    with scheduler() as s:
        assert s.enqueue_request(Request(url))
        assert not s.enqueue_request(Request(url))
        assert [request.url for request in drain(s)] == [Request(url).url]


@pytest.mark.parametrize("url", ["https://a b.example/", "http://[::1", "https://example.org/" + "x" * 100_000])
def test_a_bad_url_is_refused_and_logged(url: str, caplog: pytest.LogCaptureFixture) -> None:
    request = page()
    request._url = url  # Request itself escapes or refuses some
    with scheduler() as s:
        assert not s.enqueue_request(request)
        assert s.enqueue_request(page("a"))
    assert "Not scheduled" in caplog.text and stats(s)["budgetfrontier/refused"] == 1


def test_a_full_frontier_refuses(caplog: pytest.LogCaptureFixture) -> None:
    with scheduler(BUDGETFRONTIER_SETTINGS={"frontier": {"max_queued": 1}}) as s:
        assert s.enqueue_request(page("a")) and not s.enqueue_request(page("b"))
    assert "the frontier is full" in caplog.text


def test_subclasses_come_back_as_they_were(jobdir: Path | None) -> None:
    sent = FormRequest("https://example.org/form", formdata={"a": "1"}, flags=["f"], encoding="latin-1")
    with scheduler(jobdir) as s:
        s.enqueue_request(sent)
        got = s.next_request()
    assert type(got) is FormRequest
    assert got.to_dict(spider=s.spider) == sent.to_dict(spider=s.spider)


def test_priorities_that_the_frontier_cannot_tell_apart_are_the_highest_and_the_lowest(jobdir: Path | None) -> None:
    with scheduler(jobdir) as s:
        for letter, priority in (("a", -sys.maxsize), ("b", 524_286), ("c", sys.maxsize), ("d", -524_286)):
            assert s.enqueue_request(page(letter, priority=priority))
        requests = drain(s)
    assert [request.url[-1] for request in requests] == ["c", "b", "d", "a"]
    assert requests[0].priority == sys.maxsize


def test_a_budget_counts_whether_its_request_is_known_or_not() -> None:
    with scheduler() as s:
        for _ in range(2):
            s.enqueue_request(page("a"))
        s.enqueue_request(page("a", meta={"budgetfrontier_budget": 50}))
        assert s.frontier.queue("example.org").total_budget == 50


def test_a_url_that_an_operator_had_forgotten_is_scheduled_as_it_is_found(tmp_path: Path) -> None:
    with scheduler(tmp_path) as s:
        s.enqueue_request(page("a"))
        assert paths(s) == "a" and not s.enqueue_request(page("a"))
        s.next_request()
        s.frontier.internals.apply(Command("forget", {"uris": ["https://example.org/a"]}, "me", ""))
        s._tick()
        assert s.enqueue_request(page("a", callback=s.spider.parse_more))
        [again] = drain(s)
        assert again.callback == s.spider.parse_more
