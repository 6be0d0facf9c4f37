"""Spiders in processes of their own that share a frontier: kills, interrupts, and a server that goes away."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier.core.model import Lease
from budgetfrontier.errors import WrongCredentials
from budgetfrontier.remote import RemoteFrontier
from budgetfrontier.scrapy.remote.announcements import Announcements
from budgetfrontier.scrapy.remote.courier import Courier
from tests.remote.test_processes import serving
from tests.scrapy.crawler import scheduler
from tests.scrapy.process import crawl, started
from tests.scrapy.sharing import CONFIG, HOSTS, SPIDER, Web, check, run
from tests.support import PATIENCE, memory, pages, token_file, until


def test_four_processes_of_which_two_are_killed_fetch_every_page(tmp_path: Path) -> None:
    check(run(tmp_path, pages=12, seed=1))


def test_processes_and_the_server_are_killed_and_started_again(tmp_path: Path) -> None:
    check(run(tmp_path, pages=12, seed=2, again=True, server_too=True, processes=3))


def test_a_spider_that_is_interrupted_gives_its_leases_back_at_once(tmp_path: Path) -> None:
    with Web(1000) as site, serving(tmp_path, config=CONFIG) as server:
        with started(site, tmp_path, SPIDER % HOSTS, BUDGETFRONTIER_URL=server.address) as process:
            until(lambda: len(site.fetches) > 20, process)
            process.send_signal(signal.SIGINT)
            _, log = process.communicate(timeout=PATIENCE)
        with RemoteFrontier(server.address, crawl="links") as frontier:
            total = frontier.summary()
    assert "Closing spider (shutdown)" in log and "ERROR" not in log
    assert total.in_process == 0 and total.queued > 0
    assert total.succeeded == len(site.fetches), log


def test_a_spider_is_interrupted_while_the_server_is_away(tmp_path: Path) -> None:
    with Web(1000) as site, serving(tmp_path, config=CONFIG) as server:
        with started(site, tmp_path, SPIDER % HOSTS, BUDGETFRONTIER_URL=server.address) as process:
            until(lambda: len(site.fetches) > 20, process)
            server.kill()
            process.send_signal(signal.SIGINT)
            _, log = process.communicate(timeout=PATIENCE)
        (tmp_path / "s").unlink(missing_ok=True)
        server.start()
    assert "Closing spider (shutdown)" in log and "ERROR" not in log and "did not take everything" in log


def test_start_waits_while_the_server_does_not_keep_up(tmp_path: Path) -> None:
    spider = """
import time

from budgetfrontier.remote import RemoteFrontier
from budgetfrontier.scrapy.remote import courier

courier.MOST_WAITING = 10
schedule = RemoteFrontier.schedule_each

def slow(self, uris):
    time.sleep(0.2)
    return schedule(self, uris)

RemoteFrontier.schedule_each = slow

class Mine(Links):
    async def start(self):
        self.told = 0
        for number in range(100):
            yield Request(url(f"{'abcdef'[number % 6]}/{number}"))
            self.told = max(self.told, self.crawler.engine._slot.scheduler._courier.waiting)

    def parse(self, response): ...
"""
    with Web(0, seconds=0.0) as site, serving(tmp_path, config=CONFIG) as server:
        result = crawl(site, tmp_path, spider, BUDGETFRONTIER_URL=server.address)
    assert result.reason == "finished" and len(site.fetches) == 100, result.log
    assert result.told < 40, "ends of leases count, too"


def test_a_spider_that_finds_no_server_says_so_and_closes(tmp_path: Path) -> None:
    spider = """
from budgetfrontier.scrapy.remote import scheduler

scheduler.CONNECT_WITHIN = 0.2

class Mine(Links):
    async def start(self):
        self.told = "began"
        yield Request(url("a/0"))
"""
    with Web(0) as site:
        result = crawl(site, tmp_path, spider, BUDGETFRONTIER_URL=f"unix:{tmp_path / 'nobody'}")
    assert (result.reason, result.told) == ("connection_lost", None), result.log
    for line in "Connecting to the server at unix:", "Waiting for the server at unix:", "start `budgetfrontier serve`":
        assert line in result.log
    assert "Traceback" not in result.log and result.log.count("] ERROR: ") == 1


def test_a_spider_without_the_extra_names_it_and_closes(tmp_path: Path) -> None:
    spider = """
from budgetfrontier import connections
from budgetfrontier.errors import MissingExtra

def needed(address):
    raise MissingExtra("grpc")

connections.needed = needed

class Mine(Links):
    async def start(self):
        yield Request(url("a/0"))
"""
    with Web(0) as site:
        result = crawl(site, tmp_path, spider, BUDGETFRONTIER_URL="127.0.0.1:1")
    assert result.reason == "frontier_error", result.log
    assert 'Cannot open the shared frontier: this needs the extra "grpc": pip install' in result.log
    assert "Traceback" not in result.log and result.log.count("] ERROR: ") == 1


def test_the_token_of_the_server_is_a_setting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    token = token_file(tmp_path, "secret of 16 letters")
    with serving(tmp_path, "--token-file", str(token), config=CONFIG) as server:
        with scheduler(BUDGETFRONTIER_URL=server.address, BUDGETFRONTIER_TOKEN="secret of 16 letters") as one:
            assert one.frontier.summary().queued == 0
        with pytest.raises(WrongCredentials, match="wants a token; set `token=`") as wrong:
            RemoteFrontier(server.address)
        with pytest.raises(WrongCredentials), scheduler(BUDGETFRONTIER_URL=server.address):
            pass
    Announcements(None).not_opened(wrong.value)
    assert "wants a token; set BUDGETFRONTIER_TOKEN to the one in the file" in caplog.text


class SlowLeases:
    """A frontier whose leases come late: once the client wants no more, if no answer comes before its end."""

    retry_for = 60.0

    def __init__(self) -> None:
        self.frontier = memory()
        self.frontier.schedule_many(pages("ab", 5))
        self.asked, self.interrupted = threading.Event(), threading.Event()

    def lease(self, count: int, **options: Any) -> list[Lease]:
        self.asked.set()
        assert self.interrupted.wait(PATIENCE)
        return self.frontier.lease(count)

    def interrupt(self) -> None:
        self.interrupted.set()

    def close(self) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return getattr(self.frontier, name)


def test_what_is_being_leased_at_the_end_is_given_back() -> None:
    slow = SlowLeases()
    sender = Courier(
        slow,  # type: ignore[arg-type]
        prefetch=4,
        ttl=60.0,
        wake=lambda: None,
        on_late=lambda lease: None,
        on_failure=lambda error: None,
    )
    assert slow.asked.wait(PATIENCE)
    assert sender.close(PATIENCE)
    assert slow.frontier.summary().in_process == 0
