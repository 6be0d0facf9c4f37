"""Real spiders on a loopback site: every way a request can end, kills, the command line, waking in time."""

from __future__ import annotations

import io
import itertools
import json
import math
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from scrapy import version_info

from budgetfrontier import Frontier, Outcome, Reader
from budgetfrontier.core.model import QueueAnswers, QueueHistory
from budgetfrontier.scrapy.options import claim, command_again
from budgetfrontier.storage.start_command import start_command
from budgetfrontier.tools.cli import common, main
from tests.crawler.site import Site, linking, redirect, text
from tests.scrapy.process import crawl, started
from tests.support import PATIENCE, kernel, until

ENDINGS = """
class Mine(Links):
    custom_settings = {
        "ROBOTSTXT_OBEY": True,
        "DOWNLOADER_MIDDLEWARES": {"__main__.Odd": 1},
        "EXTENSIONS": {"__main__.Outcomes": 1},
    }

    async def start(self):
        for name in ("ok", "404", "raises", "503", "away", "cached", "replaced"):
            yield Request(url(f"a/{name}"), errback=self.failed)
        yield Request(url("e/forbidden"), errback=self.failed)
        yield Request("http://b.test:1/refused", errback=self.failed)

    def parse(self, response):
        if response.url.endswith("raises"):
            raise ZeroDivisionError

    def failed(self, failure): ...

class Odd:
    def process_request(self, request, spider=None):
        if request.url.endswith("cached"):
            return scrapy.http.HtmlResponse(request.url, body=b"", request=request)
        if request.url.endswith("replaced"):
            return request.replace(url=url("c/new"))

class Outcomes:
    @classmethod
    def from_crawler(cls, crawler):
        made = cls()
        made.crawler = crawler
        crawler.signals.connect(made.opened, signal=signals.spider_opened)
        return made

    def opened(self, spider):
        spider.told = []
        frontier = self.crawler.engine._slot.scheduler.frontier
        finish, finish_many = frontier.finish, frontier.finish_many
        def note(lease, outcome):
            place = lease.uri.url.partition("//")[2]
            spider.told.append([place[0] + place[place.index("/"):], outcome])
        def noted(lease, outcome, **options):
            note(lease, outcome)
            finish(lease, outcome, **options)
        def noted_many(endings):
            for ending in endings:
                note(getattr(ending, "lease", ending), getattr(ending, "outcome", "SUCCESS"))
            return finish_many(endings)
        frontier.finish, frontier.finish_many = noted, noted_many
"""


def counted(frontier: Frontier, key: str) -> tuple[QueueHistory, QueueAnswers]:
    """What is known of the attempts of a queue."""
    queue, tables = frontier.queue(key), kernel(frontier).tables.flushed()
    assert queue is not None
    history, answers = tables.history(queue.id), tables.answers(queue.id)
    assert history is not None and answers is not None
    return history, answers


def test_every_way_that_a_request_can_end(tmp_path: Path) -> None:
    def away() -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": f"http://d.test:{site.address.rpartition(':')[2]}/there"})

    pages = {f"a.test/{name}": "" for name in ("ok", "raises", "cached", "replaced")}
    pages |= {"c.test/new": "", "d.test/there": ""}
    with Site({**pages, "e.test/robots.txt": text("User-agent: *\nDisallow: /forbidden")}) as site:
        site.pages |= {"a.test/503": text("", status=503), "a.test/away": away}
        result = crawl(site, tmp_path, ENDINGS, JOBDIR=str(tmp_path / "job"))
    assert result.reason == "finished", result.log
    assert sorted((place, Outcome(outcome)) for place, outcome in result.told) == [
        ("a/404", Outcome.SUCCESS),
        ("a/503", Outcome.FAILURE),
        ("a/503", Outcome.FAILURE),  # its retry is a request of its own
        ("a/away", Outcome.SUCCESS),
        ("a/cached", Outcome.SUCCESS),
        ("a/ok", Outcome.SUCCESS),
        ("a/raises", Outcome.SUCCESS),
        ("a/replaced", Outcome.DISREGARDED),
        ("b/refused", Outcome.FAILURE),
        ("b/refused", Outcome.FAILURE),
        ("c/new", Outcome.SUCCESS),
        ("d/there", Outcome.SUCCESS),  # on the queue of the host that was redirected to
        ("e/forbidden", Outcome.DISREGARDED),
    ]
    assert result.stats["budgetfrontier/finished/failure"] == 4
    with Frontier.open(tmp_path / "job" / "frontier") as frontier:
        frontier.check()
        spent = {queue.queue[0]: queue.expenditure for queue in frontier.report().queues}
        assert spent == {"a": 7, "b": 2, "c": 1, "d": 1, "e": 0}
        total = frontier.summary()
        assert total.queued == 0 and total.robots_denials == 1
        queues = sorted(row.queue for row in frontier.report().queues)
        (_, a), (_, b) = (counted(frontier, key) for key in queues[:2])
        assert a.classes[2:] == [1, 2, 0] and a.kinds == {"status 404": 1, "status 503": 2}
        assert b.classes[-1] == 2 and "refused" in "".join(b.kinds)


LINKED = """
class Mine(Links):
    seeds = ["a/"]

    def parse(self, response):
        yield from super().parse(response)
        if response.url.endswith("/"):
            yield Request(url("a/not-linked"), headers={"Referer": ""})
"""


def test_the_links_of_a_page_are_counted_with_its_end(tmp_path: Path) -> None:
    pages = {"a.test/1": linking("/2"), "a.test/2": "", "a.test/there": "", "a.test/not-linked": "", "b.test/": ""}
    with Site(pages) as site:
        port = site.address.rpartition(":")[2]
        site.pages["a.test/"] = linking("/1", "/1#again", "/away", f"http://b.test:{port}/")
        site.pages["a.test/away"] = redirect("/there")
        result = crawl(site, tmp_path, LINKED, JOBDIR=str(tmp_path / "job"))
    assert result.reason == "finished", result.log
    with Frontier.open(tmp_path / "job" / "frontier") as frontier:
        frontier.check()
        history, answers = counted(frontier, f"a.test:{port}")
        assert history.success == 6, "the redirect and its target, too"
        assert history.links is not None and history.new is not None
        assert (round(6 * history.links), round(6 * history.links * history.new)) == (5, 4)
        assert answers.added == 3 and answers.classes[:2] == [5, 1]


SAME = """
class Mine(Links):
    # One at a time: else the depth at which a page is found depends on which answer is quicker.
    custom_settings = {"DEPTH_LIMIT": 3, "DEPTH_STATS_VERBOSE": True, "CONCURRENT_REQUESTS": 1}
    seeds = ("a/0", "b/0", "a/missing", "a/away", "a/ill")
"""
SAME_STATS = (
    "scheduler/",
    "dupefilter/",
    "retry/",
    "request_depth",
    "response_received_count",
    "downloader/response_s",
)


def test_a_spider_fetches_what_it_does_with_scrapys_own_scheduler(tmp_path: Path) -> None:
    def away() -> web.StreamResponse:
        return web.Response(status=301, headers={"Location": f"http://d.test:{site.address.rpartition(':')[2]}/0"})

    seen = []
    for own in ({}, {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}):
        (folder := tmp_path / str(len(own))).mkdir()
        with Site({**mesh("abd", 12), "a.test/ill": text("", status=503)}) as site:
            site.pages["a.test/away"] = away
            result = crawl(site, folder, SAME, JOBDIR=str(folder / "job"), **own)
            stats = {key: value for key, value in result.stats.items() if key.startswith(SAME_STATS)}
            seen.append((result.reason, site.hits, stats))
    assert seen[0] == seen[1]
    with Reader(tmp_path / "0" / "job" / "frontier") as reader:
        assert reader.summary().bytes == sum(queue.bytes for queue in reader.queues()) > 100
    assert seen[0][1]["a.test/ill"] == 2 and seen[0][2]["request_depth_max"] == 3


ORDER = """
class Mine(Links):
    custom_settings = {"CONCURRENT_REQUESTS": 1}

    async def start(self):
        self.told = []
        self.crawler.signals.connect(self.went, signal=signals.request_reached_downloader)
        for path, priority in ("0", 0), ("5", 0), ("7", 2), ("9", -1):
            yield Request(url(f"a/{path}"), priority=priority)

    def went(self, request):
        self.told.append(request.url.rpartition("/")[2])

    def parse(self, response):
        for number, link in enumerate(response.css("a::attr(href)").getall()):
            yield response.follow(link, priority=number % 2)
"""


@pytest.mark.skipif(version_info < (2, 14), reason="start requests went before others in 2.13.0")
def test_one_request_at_a_time_goes_out_in_scrapys_order(tmp_path: Path) -> None:
    told = []
    for own in ({}, {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}):
        (folder := tmp_path / str(len(own))).mkdir()
        with Site(mesh("a", 30)) as site:
            result = crawl(site, folder, ORDER, JOBDIR=str(folder / "job"), **own)
        assert result.reason == "finished", result.log
        told.append(result.told)
    assert told[0] == told[1] and len(told[0]) == 30


MESH = """
class Mine(Links):
    custom_settings = {"CONCURRENT_REQUESTS": 4, "DOWNLOAD_DELAY": 0}
    seeds = ("a/0", "b/0", "c/0", "c/1")
"""
JOB = {"BUDGETFRONTIER_SETTINGS": {"frontier": {"commit_interval": "20ms"}}}


def mesh(hosts: str = "abc", pages: int = 40) -> dict[str, str]:
    """Pages of some hosts, each of which links to the next two and to another host."""
    return {
        f"{host}.test/{n}": linking(f"/{(n + 1) % pages}", f"/{(n + 2) % pages}")
        for host in hosts
        for n in range(pages)
    }


def done(job: Path, site: Site) -> set[str]:
    """What a job has fetched and committed: "host/path"."""
    port = site.address.rpartition(":")[2]
    if not (job / "frontier" / "data.mdb").exists():
        return set()
    with Reader(job / "frontier") as reader:
        found = {place: reader.find(f"http://{place.replace('/', f':{port}/')}") for place in list(site.hits)}
    return {place for place, known in found.items() if known["seen"] and not known["pending"] and not known["dead"]}


def has_done(job: Path, site: Site, most: int, before: set[str]) -> bool:
    return len(site.hits) >= most and done(job, site) > before


def test_a_kill_loses_nothing_and_repeats_only_what_was_not_committed(tmp_path: Path) -> None:
    job = tmp_path / "job"
    with Site(mesh()) as site:
        committed: set[str] = set()
        for most in (15, 45):
            before = site.hits.copy()
            site.bound = before.total() + 40
            with started(site, tmp_path, MESH, JOBDIR=str(job), **JOB) as process:
                until(partial(has_done, job, site, most, committed), process)
            assert not committed & set(site.hits - before)
            committed = done(job, site)
        before, site.bound = site.hits.copy(), math.inf
        result = crawl(site, tmp_path, MESH, JOBDIR=str(job), **JOB)
        assert not committed & set(site.hits - before)
    assert result.reason == "finished", result.log
    assert set(site.hits) == set(site.pages)
    assert "Resuming crawl" in result.log
    with Frontier.open(job / "frontier") as frontier:
        frontier.check()
        assert frontier.summary().queued == 0 and frontier.summary().dead == 0


def budgetfrontier(command: str, job: Path, *arguments: str) -> str:
    """Run a command on a job, in this process; what it said."""
    with redirect_stdout(io.StringIO()) as said:
        assert main([command, str(job), *arguments]) == 0
    return said.getvalue()


def test_the_command_line_looks_at_and_steers_a_running_spider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "ANSWER_TIMEOUT", PATIENCE)
    job = tmp_path / "job"
    slow = {"CONCURRENT_REQUESTS": 1, "DOWNLOAD_DELAY": 0.05, **JOB}
    with Site(mesh("a", 2000)) as site, started(site, tmp_path, MESH, JOBDIR=str(job), **slow) as process:
        until(lambda: site.hits["a.test/3"] > 0, process)
        budgetfrontier("pause", job, "--reason", "to look")
        until(lambda: report(job)["state"] == "PAUSED", process)
        key = "a.test:" + (port := site.address.rpartition(":")[2])
        assert key in budgetfrontier("explain", job, f"http://a.test:{port}/1")
        spent = queue(job, key)["expenditure"] + 10
        budgetfrontier(
            "adjust", job, "--match", f"queue:{key}", "--total-budget", str(spent), "--set", "retire_when=reached"
        )
        budgetfrontier("import", job, f"http://d.test:{port}/asked-for")
        budgetfrontier("resume", job)
        process.communicate(timeout=PATIENCE)
        assert site.hits["d.test/asked-for"] == 1
    after = queue(job, key)
    assert (after["state"], after["expenditure"]) == ("RETIRED", spent)


def report(job: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(budgetfrontier("report", job, "--format", "json"))
    return answer


def queue(job: Path, key: str) -> dict[str, Any]:
    [row] = [row for row in report(job)["queues"] if row["queue"] == key]
    return dict(row)


POLITE = """
from scrapy.core.engine import ExecutionEngine
ExecutionEngine._SLOT_HEARTBEAT_INTERVAL = 3600.0  # only the scheduler can wake it

class Mine(Links):
    seeds = ("a/0",)
"""


def test_a_queue_that_rests_wakes_the_engine(tmp_path: Path) -> None:
    polite = {"politeness": {"min_delay": "200ms", "max_delay": "1s", "per_queue_concurrency": 1}}
    with Site(mesh("a", 3)) as site:
        result = crawl(site, tmp_path, POLITE, BUDGETFRONTIER_SETTINGS={"frontier": polite})
        times = site.times[next(iter(site.times))]
    assert result.reason == "finished", result.log
    assert len(times) == 4  # page 0 as a start request, and as a link
    assert all(after - before >= 0.2 for before, after in itertools.pairwise(times))


FULL = """
from budgetfrontier.testing import fail_commit

class Mine(Links):
    seeds = ("a/0",)

    def parse(self, response):
        if response.url.endswith("/20"):
            fail_commit(self.crawler.engine._slot.scheduler.frontier)
        yield from super().parse(response)
"""


def test_a_full_disk_ends_a_crawl(tmp_path: Path) -> None:
    job = {"JOBDIR": str(tmp_path / "job"), **JOB}
    with Site(mesh("a", 400)) as site:
        result = crawl(site, tmp_path, FULL, **job)
        assert result.reason == "disk_full", result.log
        assert result.log.count("The disk is full") == 1
        assert "Traceback" not in result.log
    with Frontier.open(tmp_path / "job" / "frontier") as frontier:
        frontier.check()
        assert frontier.summary().queued > 0


TERMINATED = (
    FULL.replace("fail_commit(self.crawler.engine._slot.scheduler.frontier)", "self.end()")
    + """
    def end(self):
        self.crawler.engine._slot.scheduler.frontier.terminate()
"""
)


def test_a_crawl_that_is_terminated_says_so(tmp_path: Path) -> None:
    with Site(mesh("a", 400)) as site:
        result = crawl(site, tmp_path, TERMINATED)
    assert result.reason == "terminated", result.log
    assert "Traceback" not in result.log
    assert result.stats["budgetfrontier/finished/success"] == result.stats["scheduler/dequeued"] < 400


OTHER = """
class Mine(Links):
    name = "other"
    seeds = ("a/0",)
"""


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["/venv/bin/scrapy", "crawl", "news", "-s", "JOBDIR=job"], ["crawl", "news"]),
        (["/lib/scrapy/__main__.py", "crawl", "--set", "JOBDIR=job", "news"], ["crawl", "news"]),
        (["scrapy", "runspider", "/a/news.py"], ["runspider", "/a/news.py"]),
        (["scrapy", "crawl", "news", "-a", "section=world"], None),
        (["scrapy", "crawl", "news", "-s", "LOG_LEVEL=INFO"], None),
        (["mine.py", "crawl", "news"], None),
        ([], None),
    ],
)
def test_the_command_that_ran_a_spider(argv: list[str], words: list[str] | None) -> None:
    """Options are not kept, for they may be secret: then the command is not known."""
    assert command_again(argv) == words


def test_a_jobdir_has_the_command_that_ran_it_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = claim(tmp_path, "links").key
    monkeypatch.setattr("sys.argv", ["scrapy", "runspider", "/a/links.py", "-s", f"JOBDIR={tmp_path}"])
    assert claim(tmp_path, "links").key == key
    assert start_command(str(tmp_path)) == f"scrapy runspider /a/links.py -s JOBDIR={tmp_path}"
    monkeypatch.setattr("sys.argv", ["mine.py"])
    claim(tmp_path, "links")
    assert start_command(str(tmp_path)) is None


def test_another_spiders_jobdir_is_a_clear_error(tmp_path: Path) -> None:
    claim(tmp_path, "links")
    with Site(mesh("a", 3)) as site:
        result = crawl(site, tmp_path, OTHER, False, JOBDIR=str(tmp_path))
        assert not site.hits
    assert "holds the frontier of the spider 'links', not of 'other'" in result.log


def test_a_policy_that_fails_closes_the_spider_and_loses_nothing(tmp_path: Path) -> None:
    settings = {"JOBDIR": str(tmp_path / "job"), "BUDGETFRONTIER_SETTINGS": {"frontier": {"cost_policy": "mine:cost"}}}
    pages = {"a.test/": linking("/1", "/bad", "/2"), "a.test/1": linking("/3")}
    pages |= {"a.test/bad": "x", "a.test/2": "x", "a.test/3": "x"}
    spider = 'class Mine(Links):\n    seeds = ("a/",)\n'
    with Site(pages) as site:
        (tmp_path / "mine.py").write_text("def cost(uri):\n    return 0.9 if uri.url.endswith('/bad') else 1\n")
        result = crawl(site, tmp_path, spider, **settings)
        assert result.reason == "policy_error", result.log
        assert "the cost policy mine:cost returned 0.9 for http://a.test" in result.log
        (tmp_path / "mine.py").write_text("def cost(uri):\n    return 1\n")
        result = crawl(site, tmp_path, spider, **settings)
        assert result.reason == "finished", result.log
        assert set(site.hits) == set(pages)
