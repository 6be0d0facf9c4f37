"""The addresses of hosts that a crawl reports: those that it has fetched from."""

from __future__ import annotations

import socket
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Lease, Outcome
from budgetfrontier.crawler.fetch.fetcher import Fetcher
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.fetch.system_resolver import SystemResolver
from budgetfrontier.crawler.main_loop import _address
from budgetfrontier.crawler.visit import Visit
from budgetfrontier.settings.schema import FetchSettings
from tests.crawler.site import Site, linking, reopened, run


def test_queues_go_by_the_addresses_that_were_fetched_from(tmp_path: Path) -> None:
    web = {
        "a.test/": linking("http://a.test/1", "http://b.test/1"),
        "a.test/1": linking("http://b.test/2"),
        "b.test/1": "page",
        "b.test/2": "page",
    }
    by_ip = {"queue_assignment_policy": "ip", "hold_queues": False}
    with Site(web) as site:
        settings = site.settings("http://a.test/", frontier=by_ip, scope={"accept": ["all"]}, fetch={"concurrency": 1})
        assert run(settings, tmp_path)[0] == 0
        address = site.address.partition(":")[0]
    with reopened(tmp_path) as frontier:
        assert [frontier.internals.address_of(f"{host}.test") for host in "ab"] == [address, address]
        # The robots.txt of a.test has told its address before links were found, those of b.test did so later.
        charges = {row.queue: row.charges for row in frontier.report().queues}
    assert charges.keys() == {"a.test", "b.test", address}
    assert sum(charges.values()) == 6  # with two robots.txt


def test_the_address_is_that_of_the_host_of_the_lease() -> None:
    uri = CrawlUri("http://a.test:81/robots.txt")
    lease = Lease(1, "a.test:81", uri, 0, 1.0, 1, 1)

    def reported(fetched: CrawlUri) -> str | None:
        return _address(lease, Visit(fetched, FetchResult(status=200, address="192.0.2.1"), Outcome.SUCCESS))

    assert reported(uri) == reported(CrawlUri("https://a.test/rules")) == "192.0.2.1"
    assert reported(CrawlUri("http://b.test/rules")) is None


def test_a_robots_txt_is_on_the_queue_of_the_page_that_needs_it(tmp_path: Path) -> None:
    """Also where the policy would give it another: by itself, it is on the first of parallel queues."""
    parallel = {"queue_assignment_policy": {"hostname": {"parallel_queues": 8}}}
    with Site({"a.test/docs/1": "page"}) as site:
        assert run(site.settings("http://a.test/docs/1", frontier=parallel), tmp_path)[0] == 0
    assert site.hits == {"a.test/robots.txt": 1, "a.test/docs/1": 1}
    with reopened(tmp_path) as frontier:
        assert [(row.queue, row.charges) for row in frontier.report().queues] == [("a.test+5", 2)]


BY_IP: dict[str, dict[str, Any]] = {
    "queues": {"frontier": {"queue_assignment_policy": "ip", "defer_to_previous": False}},
    "groups": {"groups": [{"name": "machine", "by": "ip", "politeness": True}]},
}


@pytest.mark.parametrize("what", BY_IP)
@pytest.mark.parametrize("robots", [True, "ignore"])
def test_ten_new_names_of_one_address_get_one_request_per_delay(tmp_path: Path, what: str, robots: object) -> None:
    delay, hosts = 0.05, [f"h{number}.test" for number in range(10)]
    polite = {"politeness": {"min_delay": delay, "delay_factor": 0, "max_delay": delay}}
    sections = {**BY_IP[what], "fetch": {"robots": robots, "concurrency": 10}}
    sections["frontier"] = polite | sections.get("frontier", {})
    with Site({f"{host}/": "page" for host in hosts}) as site:
        assert run(site.settings(*(f"http://{host}/" for host in hosts), **sections), tmp_path)[0] == 0
        address = site.address.partition(":")[0]
    asked = sorted(time for times in site.times.values() for time in times)
    assert len(asked) == (20 if robots is True else 10)
    assert all(later - earlier >= delay for earlier, later in pairwise(asked))
    with reopened(tmp_path) as frontier:
        summary = frontier.summary()
        assert (summary.succeeded, summary.retried, summary.expenditure) == (len(asked), 0, 10)
        by_queue = {row.queue: row.charges for row in frontier.report().queues if row.charges}
        assert by_queue == {address: len(asked)} if what == "queues" else sum(by_queue.values()) == len(asked)


@pytest.mark.parametrize("robots", [True, "ignore"])
def test_a_name_without_an_address_fails_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, robots: object
) -> None:
    async def unknown(*_: object, **__: object) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(SystemResolver, "getaddrinfo", unknown)
    ends = []
    for policy in ("hostname", "ip"):
        with Site({}) as site:
            chosen = {"queue_assignment_policy": policy}
            settings = site.settings("http://nowhere.example/", frontier=chosen, fetch={"robots": robots})
            run(settings, tmp_path / policy)
        log = (tmp_path / policy / "logs" / "crawl.log").read_text()
        with reopened(tmp_path / policy) as frontier:
            summary, dead = frontier.summary(), [row.reason for row in frontier.dead_letters()]
            lines = [line.split()[1:4] for line in log.splitlines()]
            ends.append((lines, summary.retried, summary.expenditure, dead))
    assert ends[0] == ends[1] and ends[0][0]


def test_a_proxy_looks_up_addresses_itself() -> None:
    assert Fetcher(FetchSettings()).resolves
    assert not Fetcher(FetchSettings(proxy="http://127.0.0.1:3128")).resolves
