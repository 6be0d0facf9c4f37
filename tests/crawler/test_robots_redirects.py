"""The redirects of robots.txt files: paced as the host that each goes to wants, shared, and ended by one Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from aiohttp import web

from budgetfrontier import CrawlUri, Frontier, ManualClock, Outcome, Settings
from budgetfrontier.core.model import DeadLetter, Lease
from budgetfrontier.crawler.cache import CrawlCache
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.host_delays import HostDelays
from budgetfrontier.crawler.prerequisites import Prerequisites, is_robots
from budgetfrontier.crawler.robots import Permission, Robots
from tests.crawler.site import Page, Site, linking, redirect, reopened, run, text

REST = 3.0
RULES = b"User-agent: *\nDisallow: /private"


class Simulation:
    """A crawl without a network: `serve` answers a URL, `asked` has the time and URL of each request by host.

    One request at a time takes `seconds`; the clock moves to the next moment at which anything may be leased.
    """

    def __init__(
        self, folder: Path, serve: Callable[[str], FetchResult], *, seconds: float = 0.1, concurrency: int = 1
    ) -> None:
        self.clock = ManualClock(1_000_000.0)
        politeness = {"min_delay": REST, "max_delay": 30, "delay_factor": 1, "per_queue_concurrency": concurrency}
        frontier = {"politeness": politeness, "hold_queues": False, "retry": {"max_retries": 2, "delay": 100}}
        self.settings = Settings.from_dict({"frontier": frontier})
        self.frontier = Frontier.open(":memory:", self.settings, clock=self.clock, hooks=[self])
        self.cache = CrawlCache(folder / "memory")
        now = self.clock.time
        self.robots = Robots("tester", cache=self.cache, now=now)
        delays = HostDelays(now=now)
        self.prerequisites = Prerequisites(self.frontier, self.robots, self.cache, delays, now=now)
        self._serve, self._seconds, self._at_once = serve, seconds, concurrency
        self.asked: dict[str, list[tuple[float, str]]] = {}
        self.leased = self.waited = 0
        self.ended: Counter[Outcome] = Counter()

    def run(self, until: float = 100_000.0) -> None:
        end = self.clock.time() + until
        while (wait := self.frontier.next_ready_in()) is not None and self.clock.time() < end:
            self.clock.advance(wait)
            for lease in self.frontier.lease(self._at_once):
                self.leased += 1
                self._visit(lease)
        self.frontier.check()

    def _visit(self, lease: Lease) -> None:
        asked = self.prerequisites.request_for(lease)
        if asked is None:
            return
        if not is_robots(lease.uri) and not self.robots.has_rules(lease.uri.url):
            verdict = asyncio.run(self.robots.permission(lease.uri.url, patience=0.0))
            gone = verdict is Permission.UNREACHABLE
            self.waited += not gone  # as a visit would, in a slot
            self.frontier.finish(lease, Outcome.DEAD if gone else Outcome.RETRY)
            return
        if isinstance(asked, FetchResult):
            answer = asked
        else:
            self.asked.setdefault(asked.url.split("/")[2], []).append((self.clock.time(), asked.url))
            self.clock.advance(self._seconds)
            answer = self._serve(asked.url)
            answer.seconds = self._seconds
        outcome, delay, status = answer.outcome, None, answer.status
        if is_robots(lease.uri):
            outcome, delay, status = self.prerequisites.record(lease, answer)
        self.ended[outcome] += 1
        self.frontier.finish(lease, outcome, fetch_seconds=answer.seconds, delay=delay, status=status)

    def on_dead_letter(self, frontier: Frontier, letter: DeadLetter) -> None:
        if is_robots(letter.uri):
            self.robots.give_up(letter.uri.url, letter.reason)

    def close(self) -> None:
        self.frontier.close()
        self.cache.close()


Simulate = Callable[..., Simulation]


@pytest.fixture
def simulate(tmp_path: Path) -> Iterator[Simulate]:
    made: list[Simulation] = []

    def make(serve: Callable[[str], FetchResult], *, seconds: float = 0.1, concurrency: int = 1) -> Simulation:
        made.append(Simulation(tmp_path, serve, seconds=seconds, concurrency=concurrency))
        return made[-1]

    yield make
    for simulation in made:
        simulation.close()


def to(url: str) -> FetchResult:
    return FetchResult(status=302, headers={"Location": url})


def assert_polite(simulation: Simulation) -> None:
    for host, asked in simulation.asked.items():
        for (earlier, first), (later, second) in pairwise(asked):
            assert later - earlier >= REST, (host, first, second)


def chains(url: str) -> FetchResult:
    """Each robots.txt leads through five URLs of its own at the victim."""
    host, _, path = url.removeprefix("http://").partition("/")
    if host != "victim.test":
        return to(f"http://victim.test/{host}/1") if path == "robots.txt" else FetchResult(status=200)
    name, _, number = path.partition("/")
    if not number or number == "5":
        return FetchResult(status=200, body=RULES)
    return to(f"http://victim.test/{name}/{int(number) + 1}")


def test_each_hop_waits_for_the_host_that_it_goes_to(simulate: Simulate) -> None:
    simulation = simulate(chains)
    simulation.frontier.schedule_many(f"http://h{number}.test/page" for number in range(20))
    simulation.run()
    assert_polite(simulation)
    assert len(simulation.asked["victim.test"]) == 20 * 5
    assert all(len(simulation.asked[f"h{number}.test"]) == 2 for number in range(20))
    assert all(simulation.robots.has_rules(f"http://h{number}.test/") for number in range(20))
    assert simulation.leased < 20 * 5 * 12  # who waits does not ask again and again


def test_nobody_waits_in_a_slot_for_a_hop_that_waits(simulate: Simulate) -> None:
    simulation = simulate(chains, concurrency=4)
    simulation.frontier.schedule_many(f"http://h{host}.test/{page}" for host in range(10) for page in range(4))
    simulation.run()
    assert len(simulation.asked["victim.test"]) == 10 * 5 and simulation.waited == 0
    assert simulation.ended[Outcome.SUCCESS] == 10 * 4 + 10 and simulation.frontier.summary().retried == 0


def test_hops_and_the_pages_of_their_host_take_turns(simulate: Simulate) -> None:
    simulation = simulate(chains)
    simulation.frontier.schedule_many(f"http://victim.test/page{number}" for number in range(20))
    simulation.frontier.schedule_many(f"http://h{number}.test/page" for number in range(4))
    simulation.run()
    assert_polite(simulation)
    kinds = ["page" in url for _, url in simulation.asked["victim.test"]]
    assert sum(kinds) == 20 and len(kinds) == 20 + 4 * 5 + 1  # and its own robots.txt
    assert sum(kinds[:20]) > 5 and sum(not page for page in kinds[:20]) > 5


def test_hosts_that_are_sent_to_the_same_place_ask_there_once(simulate: Simulate) -> None:
    def serve(url: str) -> FetchResult:
        if url == "http://victim.test/rules":
            return FetchResult(status=200, body=RULES)
        return to("http://victim.test/rules") if url.endswith("/robots.txt") else FetchResult(status=200)

    simulation = simulate(serve)
    simulation.frontier.schedule_many(f"http://h{number}.test/page" for number in range(50))
    simulation.run()
    assert len(simulation.asked["victim.test"]) == 1
    rules = [simulation.robots.has_rules(f"http://h{number}.test/") for number in range(50)]
    assert all(rules) and simulation.leased < 50 * 6


def test_another_hosts_robots_txt_counts_for_that_host_too(simulate: Simulate) -> None:
    def serve(url: str) -> FetchResult:
        return (
            to("http://www.a.test/robots.txt")
            if url == "http://a.test/robots.txt"
            else FetchResult(status=200, body=RULES)
        )

    simulation = simulate(serve)
    simulation.frontier.schedule_many(["http://a.test/1", "http://www.a.test/2"])
    simulation.run()
    assert [url for _, url in simulation.asked["www.a.test"]].count("http://www.a.test/robots.txt") == 1
    assert_polite(simulation)


def test_a_failure_is_shared_and_tried_again_as_often_as_one(simulate: Simulate) -> None:
    def serve(url: str) -> FetchResult:
        return FetchResult(status=503) if "victim" in url else to("http://victim.test/rules")

    simulation = simulate(serve)
    simulation.frontier.schedule_many(f"http://h{number}.test/page" for number in range(30))
    simulation.run()
    assert 3 <= len(simulation.asked["victim.test"]) <= 6  # three tries, and some who came late
    assert all(later - earlier >= 100 for (earlier, _), (later, _) in pairwise(simulation.asked["victim.test"]))
    assert simulation.frontier.summary().queued == 0  # all were given up


def test_an_operators_block_counts_for_hops(simulate: Simulate) -> None:
    simulation = simulate(chains)
    simulation.frontier.schedule("http://victim.test/page")
    until = simulation.clock.time() + 5000
    simulation.frontier.snooze("victim.test", until=until)
    simulation.frontier.schedule("http://h.test/page")
    simulation.run()
    assert min(time for time, _ in simulation.asked["victim.test"]) >= until
    assert len(simulation.asked["victim.test"]) == 5 + 2


# -- whole crawls


def test_a_hop_is_a_line_of_its_own_and_counts_no_uri(tmp_path: Path) -> None:
    pages: dict[str, Page] = {
        "a.test/robots.txt": redirect("http://b.test/rules"),
        "b.test/rules": text(RULES.decode()),
        "a.test/": linking("/private", "/1"),
    }
    with Site(pages) as site:
        run(site.settings("http://a.test/"), tmp_path)
    assert site.hits == {"a.test/robots.txt": 1, "b.test/rules": 1, "a.test/": 1, "a.test/1": 1}
    rows = [line.split() for line in (tmp_path / "logs/crawl.log").read_text().splitlines()]
    assert [tuple(row[column] for column in (1, 3, 4, 5)) for row in rows[:2]] == [
        ("301", "http://a.test/robots.txt", "P", "http://a.test/"),
        ("200", "http://b.test/rules", "PR", "http://a.test/robots.txt"),
    ]
    with reopened(tmp_path) as frontier:
        assert frontier.summary().succeeded == 3  # robots.txt and two pages


def test_one_interrupt_ends_a_chain(tmp_path: Path) -> None:
    def interrupted() -> web.StreamResponse:
        os.kill(os.getpid(), signal.SIGINT)
        return web.Response(status=301, headers={"Location": "http://b.test/1"})

    pages: dict[str, Page] = {f"b.test/{number}": redirect(f"/{number + 1}") for number in range(1, 5)}
    with Site(pages | {"a.test/robots.txt": interrupted}) as site:
        code, said = run(site.settings("http://a.test/"), tmp_path)
    assert code == 0 and "stopped: interrupted" in said
    assert site.hits.total() <= 2  # at the most what was in flight when the signal came
    with reopened(tmp_path) as frontier:
        assert frontier.summary().queued == 2
    with Site(pages) as site:
        run(site.settings("http://a.test/"), tmp_path)  # and goes on where it was
    assert site.hits["a.test/robots.txt"] == 0 and site.hits["b.test/5"] == 1


def test_the_key_of_a_queue_that_is_not_there_yet() -> None:
    settings = Settings.from_dict({"frontier": {"queue_assignment_policy": "registered-domain"}})
    with Frontier.open(":memory:", settings) as frontier:
        assert frontier.internals.queue_key(CrawlUri("http://www.example.co.uk/a")) == "example.co.uk"
        assert frontier.queue("example.co.uk") is None


def test_a_crawl_delay_counts_for_hops(simulate: Simulate) -> None:
    def serve(url: str) -> FetchResult:
        if url == "http://victim.test/robots.txt":
            return FetchResult(status=200, body=b"User-agent: *\nCrawl-delay: 20")
        return chains(url)

    simulation = simulate(serve)
    simulation.frontier.schedule_many(["http://victim.test/1", "http://h1.test/1", "http://h2.test/1"])
    simulation.run()
    times = [time for time, url in simulation.asked["victim.test"] if "robots.txt" not in url]
    assert len(times) == 11 and all(later - earlier >= 20 for earlier, later in pairwise(times[1:]))
