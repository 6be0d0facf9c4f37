"""The addresses of hosts that a crawl reports: those that it has fetched from."""

from __future__ import annotations

from pathlib import Path

from budgetfrontier import CrawlUri, Lease, Outcome
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.main_loop import _address
from budgetfrontier.crawler.visit import Visit
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
