"""What is stored, what of it comes back, and what a JOBDIR may hold."""

from __future__ import annotations

import datetime
import gc
import json
import pickle
import stat
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.dupefilters import BaseDupeFilter
from twisted.internet.defer import Deferred

from budgetfrontier import CrawlState, CrawlUri, Frontier, FrontierError, FrontierLocked, Reader, SettingsError
from budgetfrontier.core.model import RunEnd
from budgetfrontier.scrapy import Scheduler, serialization
from budgetfrontier.testing import crash, fail_commit
from tests.scrapy.conftest import Timer
from tests.scrapy.crawler import Pages, drain, make, page, paths, scheduler, start, stats


@dataclass
class Item:
    name: str
    tags: set[str]


class Others(Spider):  # type: ignore[misc]
    name = "others"


class Fewer(Spider):  # type: ignore[misc]
    """The spider of an earlier day, without `parse_more`."""

    name = "pages"

    def parse(self, response: Any) -> None: ...


def test_requests_come_back_whole(tmp_path: Path) -> None:
    plain = {"depth": 3, "text": "\u20ac", "raw": b"\xff", "list": [1, [2.5, None]], "big": 2**63}
    with scheduler(tmp_path) as s:
        options = {
            "method": "POST",
            "body": b"\x00",
            "headers": {"X-One": ["a", "b"]},
            "cookies": {"c": "1"},
            "meta": plain,
            "cb_kwargs": {"n": 1},
            "flags": ["f"],
            "encoding": "latin-1",
            "dont_filter": True,
            "priority": 5,
            "errback": s.spider.parse,
            "callback": s.spider.parse_more,
        }
        sent = page("a#fragment", **options)
        s.enqueue_request(sent)
        before = sent.to_dict(spider=s.spider)
    with scheduler(tmp_path) as s:
        [got] = drain(s)
        assert got.to_dict(spider=s.spider) == before
        assert got.callback == s.spider.parse_more


def test_python_objects_survive_a_crash(tmp_path: Path) -> None:
    item = Item("x", {"a"})
    s = make(tmp_path)
    s.open(s.crawler.spider)
    meta = {"tuple": (1, 2), "when": datetime.date(2026, 1, 1), "huge": 1 << 70, "half": "\ud800"}
    s.enqueue_request(page("a", cb_kwargs={"item": item, "same": item}, meta=meta))
    s.frontier.commit()
    crash(s.frontier)
    with scheduler(tmp_path) as s:
        [got] = drain(s)
    assert got.cb_kwargs["item"] == item and got.cb_kwargs["same"] is got.cb_kwargs["item"]
    assert got.meta == meta


def test_what_cannot_be_stored_stays_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with scheduler(tmp_path) as s, (tmp_path / "open").open("w") as file:
        odd = [
            page("a", callback=lambda response: None),
            page("b", meta={"file": file}),
            page("c", meta={"large": "x" * serialization.MAX_STORED}),
        ]
        for request in odd:
            assert s.enqueue_request(request)
        assert not s.enqueue_request(page("a", callback=lambda response: None))
        assert len(s.mqs) == 3
        assert set(drain(s)) == set(odd)  # the very same
    assert stats(s)["scheduler/unserializable"] == 3
    assert caplog.text.count("Unable to serialize request") == 1


def test_what_was_in_memory_is_a_dead_letter_afterwards(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with scheduler(tmp_path) as s:
        s.enqueue_request(page("a", callback=lambda response: None))
        s.enqueue_request(page("b"))
    with scheduler(tmp_path) as s:
        assert paths(s) == "b"
        [letter] = s.frontier.dead_letters()
    assert letter.uri.url.endswith("a") and "in the memory of a process that has ended" in letter.reason
    assert stats(s)["budgetfrontier/dead_letters"] == 1


def test_without_a_jobdir_objects_are_shared_and_nothing_is_unserializable() -> None:
    shared: list[int] = []
    with scheduler() as s:
        s.enqueue_request(page("a", meta={"shared": shared}, callback=lambda response: None))
        s.enqueue_request(plain := page("b", meta={"depth": 1}))
        given = weakref.ref(plain)
        del plain
        gc.collect()
        assert given() is None  # a copy of it is kept
        both = drain(s)
    assert any(request.meta.get("shared") is shared for request in both)
    assert "scheduler/unserializable" not in stats(s)


def test_a_callback_that_is_no_more_is_a_dead_letter(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with scheduler(tmp_path) as s:
        for number in range(150):
            s.enqueue_request(page(f"more{number}", callback=s.spider.parse_more))
        s.enqueue_request(page("a", priority=-1))
    with scheduler(tmp_path, spider=Fewer) as s:
        assert s.next_request() is None  # some hundred at a time
        assert s.has_pending_requests()
        assert paths(s) == "a"
        assert len(s.frontier.dead_letters()) == 150
        assert not s.has_pending_requests()
    assert "the spider 'pages' has no method 'parse_more': its code has changed, or another spider" in caplog.text


class Bomb:
    went_off = False

    def __reduce__(self) -> tuple[Any, ...]:
        return setattr, (Bomb, "went_off", True)


def test_nothing_is_unpickled_that_this_job_has_not_written(tmp_path: Path) -> None:
    with scheduler(tmp_path) as s:
        s.enqueue_request(page("good", cb_kwargs={"item": Item("x", set())}))
    bomb = b"p" + pickle.dumps(Bomb())
    with Frontier.open(tmp_path / "frontier") as frontier:
        [lease] = frontier.lease(1)
        payload = lease.uri.payload
        assert payload is not None
        frontier.schedule(CrawlUri("https://example.org/1", payload=bytes(16) + bomb))
        frontier.schedule(CrawlUri("https://example.org/2", payload=payload[:16] + bomb))
        frontier.schedule(CrawlUri("https://example.org/3", payload=b""))
        frontier.schedule(CrawlUri("https://example.org/4", payload=payload))
    with scheduler(tmp_path) as s:
        assert {request.url[-1] for request in drain(s)} == {"4", "d"}
        assert {letter.reason for letter in s.frontier.dead_letters()} == {"its payload was not written by this job"}
    assert not Bomb.went_off
    assert stat.S_IMODE((tmp_path / "budgetfrontier.json").stat().st_mode) == 0o600


def test_urls_from_outside_are_plain_requests(tmp_path: Path) -> None:
    with scheduler(tmp_path) as s:
        s.frontier.schedule(CrawlUri("https://example.org/a", method="PUT", body=b"x", headers={"A": "b"}))
        s.frontier.schedule("https://example.org/b")
        first, second = sorted(drain(s), key=lambda request: request.url)
    assert (first.method, first.body, first.headers["A"]) == ("PUT", b"x", b"b")
    assert (second.url, second.callback, second.meta) == ("https://example.org/b", None, {})


def test_imported_requests_say_in_plain_data_what_they_are(tmp_path: Path) -> None:
    own = {"callback": "parse_more", "cb_kwargs": {"n": 1}, "flags": ["f"], "_class": "os.system"}
    with scheduler(tmp_path) as s:
        s.frontier.schedule(CrawlUri("https://example.org/a", meta={"depth": 2, "scrapy": own}, priority=3, force=True))
        for callback in ("gone", "set_crawler", "_set_crawler", 7):
            s.frontier.schedule(CrawlUri(f"https://example.org/{callback}", meta={"scrapy": {"callback": callback}}))
        [got] = drain(s)
        assert type(got) is Request and got.callback == s.spider.parse_more
        assert (got.meta, got.cb_kwargs, got.flags) == ({"depth": 2}, {"n": 1}, ["f"])
        assert (got.priority, got.dont_filter) == (3, True)
        assert len(s.frontier.dead_letters()) == 4


def test_a_crawl_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with scheduler(tmp_path) as s:
        for letter in "abc":
            s.enqueue_request(page(letter))
        s.next_request()
    assert "Resuming" not in caplog.text
    with scheduler(tmp_path) as s:  # the one that was out when it was closed is there again
        assert len(s) == 3
        assert not s.enqueue_request(page("b"))
        assert paths(s) == "cba"
    assert "Resuming crawl (3 requests scheduled)" in caplog.text


def test_a_crawl_that_goes_on_does_not_start_over(tmp_path: Path) -> None:
    with scheduler(tmp_path) as s:
        s.enqueue_request(start("a"))
        s.enqueue_request(start("a"))  # twice, as Scrapy would
        first, second = s.next_request(), s.next_request()
        s.enqueue_request(page("b"))
        assert first.url == second.url and first.meta["budgetfrontier_started"]
    with scheduler(tmp_path) as s:
        assert not s.enqueue_request(start("a"))
        assert s.enqueue_request(start("c"))
        assert s.enqueue_request(start("a", meta={"budgetfrontier_started": True, "retry_times": 1}))
        drain(s)
    with scheduler(tmp_path) as s:
        assert s.frontier.state is CrawlState.FINISHED
        assert s.enqueue_request(start("a"))  # a new round
        assert not s.enqueue_request(page("b"))


def test_a_crawl_that_paused_at_its_finish_goes_on(tmp_path: Path) -> None:
    settings = {"frontier": {"pause_at_finish": True}}
    for letter in "ab":
        with scheduler(tmp_path, BUDGETFRONTIER_SETTINGS=settings) as s:
            assert s.enqueue_request(page(letter))
            assert paths(s) == letter
            assert not s.has_pending_requests()
        with Frontier.open(tmp_path / "frontier") as frontier:
            assert frontier.summary().pause_reason == "finish"


def test_a_paused_crawl_is_pending(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with scheduler(tmp_path) as s:
        s.enqueue_request(page("a"))
        s.frontier.pause()
    with scheduler(tmp_path) as s:
        assert s.next_request() is None
        assert s.has_pending_requests()
        s.frontier.resume()
        assert paths(s) == "a"
    assert f"`budgetfrontier resume {tmp_path}` goes on" in caplog.text


def test_a_terminated_crawl_is_over(tmp_path: Path) -> None:
    with scheduler(tmp_path) as s:
        s.enqueue_request(page("a"))
        s.frontier.terminate()
        assert s.next_request() is None and not s.has_pending_requests() and len(s) == 0


def test_a_jobdir_is_one_spiders(tmp_path: Path) -> None:
    with scheduler(tmp_path), pytest.raises(FrontierLocked):
        again = make(tmp_path)
        again.open(again.crawler.spider)
    again.close("failed")  # as Scrapy may
    other = make(tmp_path, spider=Others)
    with pytest.raises(SettingsError, match="holds the frontier of the spider 'pages', not of 'others'"):
        other.open(other.crawler.spider)
    (tmp_path / "budgetfrontier.json").write_text("{")
    with pytest.raises(SettingsError, match="is damaged"):
        again.open(again.crawler.spider)


def test_settings_may_change_but_not_what_a_duplicate_is(tmp_path: Path) -> None:
    with scheduler(tmp_path) as s:
        s.enqueue_request(page("a"))
    with scheduler(tmp_path, BUDGETFRONTIER_SETTINGS={"frontier": {"queue_total_budget": 5}}) as s:
        s.next_request()
        assert s.frontier.queue("example.org").total_budget == 5
    changed = make(tmp_path, BUDGETFRONTIER_SETTINGS={"frontier": {"canonicalization": {"strip_www": True}}})
    with pytest.raises(SettingsError, match=r"set it as it was \(frontier\.canonicalization\.strip_www: false\)"):
        changed.open(changed.crawler.spider)


@pytest.mark.parametrize("name", ["active.json", "0", "0/q00000", "example.org/-1", None])
def test_requests_of_scrapys_own_scheduler_are_pointed_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str | None
) -> None:
    """After a kill, too, which leaves no active.json; an empty folder has no requests."""
    file = tmp_path / "requests.queue" / (name or "")
    (file.parent if name else file).mkdir(parents=True)
    if name:
        file.write_text("{}")
    with scheduler(tmp_path):
        pass
    assert ("of Scrapy's own scheduler, and is not read" in caplog.text) is bool(name)


def test_settings_are_a_dict_json_or_yaml(tmp_path: Path) -> None:
    given = {"crawl": "named", "frontier": {"queue_total_budget": 9}}
    (tmp_path / "frontier.yaml").write_text(json.dumps(given))
    for settings in (given, json.dumps(given), str(tmp_path / "frontier.yaml"), tmp_path / "frontier.yaml"):
        with scheduler(BUDGETFRONTIER_SETTINGS=settings) as s:
            assert s.frontier.settings.crawl == "named"
            assert s.frontier.settings.frontier.queue_total_budget == 9
            assert not s.frontier.settings.frontier.hold_queues


def test_defaults_are_scrapys_habits() -> None:
    with scheduler(CONCURRENT_REQUESTS_PER_DOMAIN=3) as s:
        settings = s.frontier.settings
    assert settings.crawl == "pages"
    assert settings.frontier.politeness.per_queue_concurrency == 8
    assert settings.frontier.politeness.max_delay == settings.frontier.politeness.min_delay == 0
    with scheduler(CONCURRENT_REQUESTS_PER_DOMAIN=30) as s:
        assert s.frontier.settings.frontier.politeness.per_queue_concurrency == 30


def test_a_profile_leaves_scrapys_habits_alone() -> None:
    with scheduler(BUDGETFRONTIER_SETTINGS={"profile": "budgeted-rotation"}) as s:
        frontier = s.frontier.settings.frontier
    assert frontier.hold_queues and frontier.order == "lifo"
    assert frontier.politeness.min_delay == 0 and not frontier.canonicalization.strip_www


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"frontier": {"queue_total_budgets": 9}}, "did you mean"),
        ("{nonsense", "this is not valid JSON"),
        ("missing.yaml", "cannot be read"),
        (7, "is a dict or the path"),
    ],
)
def test_wrong_settings_are_told(settings: object, message: str) -> None:
    wrong = make(BUDGETFRONTIER_SETTINGS=settings)
    with pytest.raises(SettingsError, match=message):
        wrong.open(wrong.crawler.spider)


def test_settings_that_mean_nothing_here_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with scheduler(BUDGETFRONTIER_SETTINGS={"seeds": ["https://example.org/"], "fetch": {"concurrency": 3}}):
        pass
    assert "seeds, fetch mean nothing here" in caplog.text


class Engine:
    """As far as the scheduler looks at one."""

    def __init__(self, slot: object = None) -> None:
        self._slot = slot
        self.closed: list[str] = []

    def close_spider(self, spider: Spider, reason: str) -> None:
        self.closed.append(reason)


def with_engine(engine: Engine, jobdir: Path) -> Any:
    made = make(jobdir)
    made.crawler.engine = engine
    made.open(made.crawler.spider)
    return made


def test_a_full_disk_closes_the_spider_with_that_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, timers: list[Timer]
) -> None:
    engine = Engine(SimpleNamespace(inprogress=set(), nextcall=None))
    s = with_engine(engine, tmp_path)
    s.enqueue_request(page("a"))
    s.frontier.commit()
    fail_commit(s.frontier)
    s.enqueue_request(page("b"))
    timers.pop().fire()  # it is time to commit
    timers.pop().fire()  # and then to close
    assert engine.closed == ["disk_full"]
    assert not s.enqueue_request(page("c")) and s.next_request() is None  # and no exception
    assert not s.has_pending_requests() and len(s) == 0
    s.close("disk_full")
    assert engine.closed == ["disk_full"] and "The disk is full" in caplog.text
    with scheduler(tmp_path) as s:
        assert paths(s) == "a"


@pytest.mark.parametrize("call", ["enqueue_request", "next_request", "has_pending_requests"])
def test_a_frontier_that_broke_closes_the_spider(call: str, tmp_path: Path) -> None:
    engine = Engine()
    s = with_engine(engine, tmp_path)
    crash(s.frontier)
    assert not getattr(s, call)(*([page()] if call == "enqueue_request" else []))
    assert engine.closed == ["frontier_error"]
    s.close("frontier_error")


def test_a_call_from_another_thread_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    with scheduler() as s, ThreadPoolExecutor(1) as elsewhere:
        assert not elsewhere.submit(s.enqueue_request, page("a")).result()
        assert s.enqueue_request(page("b"))
    assert "belongs to the thread" in caplog.text


def test_another_scrapy_is_refused_loudly(tmp_path: Path) -> None:
    s = make(tmp_path)
    s.crawler.engine = Engine(slot=object())
    with pytest.raises(FrontierError, match="does not keep its requests in progress"):
        s.open(s.crawler.spider)


class Waiting(BaseDupeFilter):  # type: ignore[misc]
    """A dupefilter that is opened and closed later."""

    def __init__(self) -> None:
        self.opened: Deferred[None] = Deferred()
        self.closed: Deferred[None] = Deferred()

    def open(self) -> Deferred[None]:
        return self.opened

    def close(self, reason: str) -> Deferred[None]:
        return self.closed


def test_opening_and_closing_wait_for_the_dupefilter(tmp_path: Path) -> None:
    plain = make(tmp_path / "plain")
    assert plain.open(plain.crawler.spider) is None
    assert plain.close("finished") is None
    waiting = make(tmp_path / "waiting", DUPEFILTER_CLASS=Waiting)
    assert waiting.open(waiting.crawler.spider) is waiting.df.opened
    assert waiting.enqueue_request(page("a"))
    assert waiting.close("finished") is waiting.df.closed
    for name in ("plain", "waiting"):
        with Frontier.open(tmp_path / name / "frontier") as frontier:
            assert frontier.summary().queued == (name == "waiting")


def test_what_scrapys_scheduler_is_given_comes_from_the_crawler(tmp_path: Path) -> None:
    made = make(tmp_path, DUPEFILTER_CLASS=Waiting)
    assert made.stats is made.crawler.stats and type(made.df) is Waiting
    default = make()
    assert default.df.fingerprinter is default.crawler.request_fingerprinter
    for name in ("dupefilter", "jobdir", "dqclass", "mqclass", "logunser", "stats", "pqclass"):
        with pytest.raises(TypeError, match=name):
            Scheduler(made.crawler, **{name: None})


def test_it_is_made_by_from_crawler() -> None:
    assert isinstance(make(), Scheduler)
    assert not make().has_pending_requests() and not make().enqueue_request(Request("https://example.org/"))
    assert Pages.name == "pages"


def test_the_history_of_runs_has_scrapys_reasons(tmp_path: Path) -> None:
    for reason in ("finished", "shutdown", "closespider_timeout"):
        made = make(tmp_path)
        made.open(made.crawler.spider)
        made.close(reason)
    with Reader(tmp_path / "frontier") as reader:
        runs = reader.runs()
    assert {run.program for run in runs} == {"scrapy spider pages"}
    assert [(run.end, run.reason) for run in runs] == [
        (RunEnd.EXIT, "finished"),
        (RunEnd.SIGNAL, "shutdown"),
        (RunEnd.LIMIT, "closespider_timeout"),
    ]


def test_a_spider_on_a_full_disk_says_so_in_the_history(tmp_path: Path) -> None:
    made = make(tmp_path)
    made.open(made.crawler.spider)
    made.enqueue_request(page("a"))
    fail_commit(made.frontier)
    with pytest.raises(FrontierError):
        made.frontier.commit()
    with Reader(tmp_path / "frontier") as reader:
        assert [run.end for run in reader.runs()] == [RunEnd.DISK_FULL]


def test_what_has_a_body_that_cannot_be_stored_stays_in_memory(tmp_path: Path) -> None:
    large = b"x" * (1 << 20)
    with scheduler(tmp_path) as s:
        assert s.enqueue_request(page("a", method="POST", body=large))
        assert not s.enqueue_request(page("a", method="POST", body=large)), "it is a duplicate"
        assert s.enqueue_request(page("a", method="POST", body=large + b"y"))
        assert sorted(len(request.body) for request in drain(s)) == [len(large), len(large) + 1]
        assert stats(s)["scheduler/unserializable"] == 2


def test_a_process_that_finds_the_jobdir_in_use_makes_no_key(tmp_path: Path) -> None:
    """Of two that begin at once, the other would sign its requests with a key that is in no file."""
    with scheduler(tmp_path):
        (tmp_path / "budgetfrontier.json").unlink()
        again = make(tmp_path)
        with pytest.raises(FrontierLocked):
            again.open(again.crawler.spider)
        assert not (tmp_path / "budgetfrontier.json").exists()
