"""Whole crawls whose frontier is on a server, by one crawler and by several."""

from __future__ import annotations

import asyncio
import math
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlState, CrawlUri, Lease, QueueState, Settings
from budgetfrontier.crawler.demo.demo_crawl import serve
from budgetfrontier.crawler.demo.web import CALENDAR, SHOP
from budgetfrontier.crawler.fetch.response import PutBack
from budgetfrontier.crawler.shared.leasing_frontier import LeasingFrontier
from budgetfrontier.crawler.shared.shared_addresses import remote_crawl
from budgetfrontier.errors import FrontierError, PolicyError, SettingsError
from budgetfrontier.remote import RemoteFrontier
from tests.crawler.held_up import FEW_WORKERS, HELD_UP, held_up
from tests.crawler.shared.served import Crawler, logged, pages_of, run, served_settings
from tests.crawler.site import Page, Site, linking, redirect, text
from tests.crawler.site import run as run_alone
from tests.remote.served import Served
from tests.support import PATIENCE, until

HOME = "http://a.test/"
SMALL: dict[str, Page] = {
    "a.test/": linking("/1", "/2", "/none", "http://b.test/"),
    "a.test/1": linking("/2#x"),
    "a.test/2": linking("/"),
}
Serving = Callable[[Settings], AbstractContextManager[Served]]


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serving:
    """Start a server with the frontier settings of a crawl; `address` is that of its crawl "test"."""
    return lambda settings: Served(tmp_path / "server", served_settings(settings), monkeypatch)


def summary_of(served: Served) -> Any:
    with RemoteFrontier(served.address, crawl="test") as frontier:
        return frontier.summary()


def test_a_site_is_crawled_once_and_charged_once(tmp_path: Path, serving: Serving) -> None:
    with Site(SMALL) as site:
        settings = site.settings(HOME, output={"warc": True})
        with serving(settings) as served:
            code, said = run(settings, tmp_path / "a", served.address)
            summary = summary_of(served)
            again = run(settings, tmp_path / "a", served.address)
    assert code == 0 and again[0] == 0
    assert site.hits == {"a.test/robots.txt": 1, "a.test/": 1, "a.test/1": 1, "a.test/2": 1, "a.test/none": 1}
    assert (summary.succeeded, summary.expenditure, summary.in_process) == (4, 4, 0)
    assert summary.state is CrawlState.FINISHED
    assert sorted(logged(tmp_path / "a")) == [
        ("200", "http://a.test/"),
        ("200", "http://a.test/1"),
        ("200", "http://a.test/2"),
        ("404", "http://a.test/none"),
        ("404", "http://a.test/robots.txt"),
    ]
    assert "nothing is left to do" in said and "this process: 5 fetches" in said
    assert str(tmp_path / "server/jobs/test") in said  # where reports are to be had
    with pytest.raises(SettingsError, match="--frontier"):
        run_alone(settings, tmp_path / "a")
    (tmp_path / "own/frontier").mkdir(parents=True)
    with pytest.raises(SettingsError, match="--job"):
        run(settings, tmp_path / "own", served.address)


def test_what_robots_tags_have_kept_out_is_said(tmp_path: Path, serving: Serving) -> None:
    with Site({"a.test/": '<meta name=robots content=none><a href="/1">1</a>'}) as site:
        settings = site.settings(HOME, output={"noindex": "skip"})
        with serving(settings) as served:
            code, said = run(settings, tmp_path / "a", served.address)
    assert code == 0
    assert "1 page that says noindex: in crawl.log only" in said
    assert "1 page that says nofollow: links not followed" in said


def test_leases_are_checked_right_before_each_request(
    tmp_path: Path, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[tuple[str, int]] = []

    def check(frontier: LeasingFrontier, lease: Lease) -> None:
        checked.append((lease.uri.url, site.hits.total()))
        if len(checked) in (1, 3):
            raise PutBack(0.0, "its lease could not be renewed in time")

    monkeypatch.setattr(LeasingFrontier, "check_lease", check)
    with Site({"a.test/": "page"}) as site:
        settings = site.settings(HOME)
        with serving(settings) as served:
            code, _ = run(settings, tmp_path / "a", served.address)
            summary = summary_of(served)
    assert code == 0 and site.hits == {"a.test/robots.txt": 1, "a.test/": 1}
    assert checked == [(HOME, 0), (HOME, 0), (HOME, 1), (HOME, 1)]
    assert (summary.succeeded, summary.deferred, summary.expenditure) == (1, 2, 1)


def test_robots_txt_is_obeyed_by_each_process_and_delays_by_all_together(tmp_path: Path, serving: Serving) -> None:
    delay = 0.15
    rules = text(f"User-agent: *\nDisallow: /no\nCrawl-delay: {delay}\nSitemap: http://a.test/map")
    pages: dict[str, Page] = {"a.test/robots.txt": rules, "a.test/": linking("/no", *(f"/{n}" for n in range(5)))}
    pages |= {f"a.test/{n}": f"page {n}" for n in range(5)}
    with Site(pages) as site:
        settings = site.settings(HOME)
        with serving(settings) as served:
            crawlers = [Crawler(settings, tmp_path / name, served.address) for name in "ab"]
            assert [crawler.ended()[0] for crawler in crawlers] == [0, 0]
            summary = summary_of(served)
    assert site.hits["a.test/robots.txt"] <= 2 and site.hits["a.test/no"] == 0
    assert all(site.hits[page] == 1 for page in pages if page != "a.test/robots.txt") and site.hits["a.test/map"] == 1
    assert (summary.disregarded, summary.robots_denials, summary.succeeded) == (1, 1, 7)
    assert all(later - earlier >= delay for earlier, later in pairwise(site.times["a.test"]))


def test_two_crawlers_share_the_web_of_the_demo(tmp_path: Path, serving: Serving) -> None:
    budget = 10
    with serve() as addresses:
        settings = Settings.from_dict(
            {
                "crawl": "test",
                "seeds": ["http://portal.test/"],
                "scope": {"accept": ["domain:test"]},
                "fetch": {"resolve": addresses, "concurrency": 8},
                "frontier": {
                    "queue_total_budget": budget,
                    "retire_when": "reached",
                    "politeness": {"delay_factor": 0, "min_delay": 0, "respect_crawl_delay_up_to": 0},
                    "retry": {"max_retries": 1, "delay": 0, "status_delay": 0},
                    "backoff": {"delay": 0.01, "factor": 1},
                    "pause_at_finish": True,
                },
            }
        )
        with serving(settings) as served:
            crawlers = [Crawler(settings, tmp_path / name, served.address) for name in "ab"]
            ends = [crawler.ended() for crawler in crawlers]
            summary = summary_of(served)
    assert [code for code, _ in ends] == [0, 0] and all("paused (finish)" in said for _, said in ends)
    assert summary.state is CrawlState.PAUSED and summary.in_process == 0 and summary.queues[QueueState.RETIRED] > 2
    done = [page for page in pages_of(tmp_path / "a", tmp_path / "b") if "broken.test" not in page]
    assert len(done) == len(set(done)) > 100
    for trap in CALENDAR, SHOP:
        assert sum(trap in page for page in done) == budget
    assert all(len(logged(tmp_path / name)) > 20 for name in "ab")


def test_seeds_that_another_crawler_adds_later_are_brought_and_not_found(tmp_path: Path, serving: Serving) -> None:
    pages: dict[str, Page] = {"a.test/": linking("/2"), "a.test/2": "x", "b.test/": "x"}
    with Site(pages) as site, serving(site.settings(HOME)) as served:
        for name, seed in (("a", HOME), ("b", "http://b.test/")):
            assert run(site.settings(seed), tmp_path / name, served.address)[0] == 0
        summary = summary_of(served)
    assert summary.succeeded >= 3 and summary.scheduled - summary.found == 2


def test_redirected_and_failing_robots_txt(tmp_path: Path, serving: Serving) -> None:
    elsewhere = redirect("http://rules.test/all")
    pages: dict[str, Page] = {f"{host}.test/robots.txt": elsewhere for host in "ab"}
    pages |= {"rules.test/all": text("User-agent: *\nDisallow: /no"), "c.test/robots.txt": text("later", status=503)}
    pages |= {f"{host}.test/{page}": f"{host} {page}" for host in "abc" for page in ("yes", "no")}
    seeds = [f"http://{place}" for place in pages if place.endswith(("/yes", "/no"))]
    with Site(pages) as site:
        settings = site.settings(*seeds)
        with serving(settings) as served:
            assert run(settings, tmp_path / "a", served.address)[0] == 0
            summary = summary_of(served)
    fetched = {place for place in site.hits if not place.endswith("/robots.txt")}
    assert fetched == {"rules.test/all", "a.test/yes", "b.test/yes"} and site.hits["rules.test/all"] == 1
    assert site.hits["c.test/robots.txt"] == 2  # max_retries is 1
    assert (summary.succeeded, summary.disregarded, summary.dead) == (2, 2, 2)
    assert ("-61", "http://c.test/yes") in logged(tmp_path / "a")


def test_an_interrupt_finishes_what_is_in_flight_and_gives_the_rest_back(tmp_path: Path, serving: Serving) -> None:
    pages: dict[str, Page] = {f"{host}.test/{n}": linking(f"/{n}/x") for host in "abcdefgh" for n in range(3)}
    with Site(pages) as site:
        site.bound = 3  # four are in flight, and one of them stays so until the signal
        settings = site.settings(*(f"http://{page}" for page in pages), fetch={"concurrency": 4, "robots": "ignore"})

        def interrupt() -> None:
            until(lambda: site.hits.total() > site.bound)
            signal.raise_signal(signal.SIGINT)
            site.bound = math.inf

        with serving(settings) as served:
            interrupter = threading.Thread(target=interrupt)
            interrupter.start()
            code, said = run(settings, tmp_path / "a", served.address)
            interrupter.join()
            summary = summary_of(served)
    assert code == 0 and "stopped: interrupted" in said
    assert summary.succeeded == len(pages_of(tmp_path / "a")) == site.hits.total()
    assert summary.in_process == summary.expired == 0 and summary.queued == len(pages)


def test_the_operator_of_the_server_pauses_resumes_and_terminates(tmp_path: Path, serving: Serving) -> None:
    pages: dict[str, Page] = {"a.test/": linking(*(f"/{n}" for n in range(200)))}
    pages |= {f"a.test/{n}": "" for n in range(200)}
    with Site(pages) as site:
        site.bound = 5
        settings = site.settings(HOME, fetch={"concurrency": 2, "robots": "ignore"})
        with serving(settings) as served, RemoteFrontier(served.address, crawl="test") as frontier:
            crawler = Crawler(settings, tmp_path / "a", served.address)
            until(lambda: site.hits.total() > site.bound)
            assert frontier.pause() is CrawlState.PAUSING
            site.bound = 20
            until(lambda: frontier.state is CrawlState.PAUSED)
            assert crawler.is_alive() and frontier.summary().succeeded <= site.bound
            frontier.resume()
            until(lambda: site.hits.total() > site.bound)
            frontier.terminate()
            site.bound = math.inf
            code, said = crawler.ended()
            summary = frontier.summary()
    assert code == 0 and "crawl terminated" in said
    assert summary.in_process == 0 and summary.succeeded == len(pages_of(tmp_path / "a")) < len(pages)


def test_limits_count_what_this_process_does_over_all_its_runs(tmp_path: Path, serving: Serving) -> None:
    with Site(SMALL) as site:
        limited = site.settings(HOME, fetch={"robots": "ignore"}, limits={"max_uris": 2})
        with serving(limited) as served:
            for name, expected in ("a", 2), ("a", 2), ("b", 4):
                code, said = run(limited, tmp_path / name, served.address)
                assert code == 0 and "limits.max_uris of this process is reached" in said
                assert site.hits.total() == expected


def cost(uri: CrawlUri) -> int:
    return 1 if uri.url != "http://a.test/bad" else -1


def test_a_policy_that_fails_on_the_server_ends_the_run(tmp_path: Path, serving: Serving) -> None:
    pages: dict[str, Page] = {"a.test/": linking("/1"), "a.test/1": linking("/bad"), "b.test/": "b"}
    with Site(pages) as site:
        settings = site.settings(HOME, "http://b.test/", frontier={"cost_policy": f"{__name__}:cost"})
        with serving(settings) as served:
            with pytest.raises(PolicyError, match="bad"):
                run(settings, tmp_path / "a", served.address)
            summary = summary_of(served)
    assert summary.state is CrawlState.RUNNING and summary.succeeded == 2
    assert summary.in_process == 0 and summary.queued == 1
    assert pages_of(tmp_path / "a") == ["http://a.test/", "http://a.test/1", "http://b.test/"]


def test_settings_of_a_page_follow_the_adjustments_on_the_server(tmp_path: Path, serving: Serving) -> None:
    settings = Settings.from_dict({"overrides": [{"match": "host:a.test", "set": {"revisit.after": "1d"}}]})
    lease = Lease(1, "a.test", CrawlUri(HOME), 1, 0.0, 1)

    async def asked(address: str) -> list[float]:
        remote = remote_crawl(address, crawl="test")
        await remote.connect()
        found = [remote.settings_for(lease).revisit_after]
        with RemoteFrontier(address, crawl="test") as frontier:
            frontier.adjust(match="domain:test", revisit={"after": "2d"})
        await remote.refresh()
        found.append(remote.settings_for(lease).revisit_after)
        await remote.close(within=PATIENCE)
        return found

    with serving(settings) as served:
        assert asyncio.run(asked(served.address)) == [0.0, 2 * 86400.0]


@pytest.mark.parametrize("address", ["ftp://host/x", "nonsense", "127.0.0.1:7071/", "unix:", "127.0.0.1:0/x", "/a"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(FrontierError, match="HOST:PORT"):
        remote_crawl(address, crawl="test")


@pytest.mark.parametrize(
    ("options", "why", "exit_code"),
    [
        (["--frontier", "a.test:1", "--paused", "--metrics", "127.0.0.1:0"], "--paused and --metrics: not with", 2),
        (["--frontier", "ftp://host/x"], "no frontiers at ftp", 2),
        (["--token-file", "secret"], "--frontier, which is not given", 2),
    ],
)
def test_options_that_do_not_fit_together_are_refused(
    tmp_path: Path, asked: Callable[..., tuple[int, str]], options: list[str], why: str, exit_code: int
) -> None:
    (tmp_path / "crawl.yaml").write_text("seeds: [http://a.test/]")
    code, said = asked("crawl", tmp_path / "crawl.yaml", "--job", tmp_path / "job", *options)
    assert code == exit_code and why in said and not (tmp_path / "job").exists()


def test_workers_go_on_while_a_sync_is_held_up_and_nothing_is_told(
    tmp_path: Path, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    web: dict[str, Page] = {f"{'abc'[number % 3]}.test/{number}": "" for number in range(30)}
    with Site(web) as site:
        finished = held_up(monkeypatch, LeasingFrontier, until=lambda _: site.hits.total() == len(web))
        settings = site.settings(*(f"http://{page}" for page in web), frontier=HELD_UP, **FEW_WORKERS)
        with serving(settings) as served:
            assert run(settings, tmp_path / "a", served.address)[0] == 0
    assert finished[0] == finished[1] < len(web)
    assert pages_of(tmp_path / "a") == sorted(f"http://{page}" for page in web)
