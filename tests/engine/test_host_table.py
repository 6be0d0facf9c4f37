"""The addresses of hosts: from where they come, how long they count, and the queues that go by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Finish, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.errors import WrongType
from tests.support import START, kernel, memory, on_disk, one


@pytest.mark.parametrize("outcome", [Outcome.SUCCESS, Outcome.FAILURE, Outcome.RETRY, Outcome.DEFERRED, Outcome.DEAD])
def test_a_finish_reports_the_address_of_its_host(outcome: Outcome) -> None:
    with memory(queue_assignment_policy="ip", retry={"delay": 0}) as f:
        f.schedule_many(["http://a.test:81/1", "http://a.test/1"])
        f.finish(f.lease(1)[0], outcome, address="192.0.2.1")
        assert f.internals.address_of("a.test") == "192.0.2.1"
        f.schedule_many(["http://a.test:81/2", "https://a.test/2", "http://b.test/2"])
        assert [row.queue for row in f.report().queues] == ["a.test:81", "a.test", "192.0.2.1", "b.test"]
        f.check()


def test_ends_in_a_batch_report_addresses_too() -> None:
    with memory(queue_assignment_policy="ip") as f:
        f.schedule_many([f"http://{host}.test/" for host in "abc"])
        a, b, c = f.lease(3)
        assert f.finish_many([Finish(a, address="192.0.2.1"), b, Finish(c, address="2001:DB8::1")]) == []
        assert [f.internals.address_of(f"{host}.test") for host in "abc"] == ["192.0.2.1", None, "2001:db8::1"]


def test_a_host_keeps_its_address_for_six_hours() -> None:
    clock = ManualClock(START)
    with memory(clock, queue_assignment_policy="ip") as f:
        f.internals.know_address("a.test", "192.0.2.1")
        clock.advance(6 * 3600 - 1)
        f.internals.know_address("A.test.", "192.0.2.2")
        assert f.internals.address_of("a.test") == "192.0.2.1"
        clock.advance(1)
        f.internals.know_address("a.test", "192.0.2.2")
        assert f.internals.address_of("a.test") == "192.0.2.2"


def test_addresses_survive_a_restart(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_assignment_policy="bucket") as f:
        assert f.internals.needs_addresses
        assert f.internals.queue_key(CrawlUri("http://a.test/")).startswith("NO-IP-")
        f.internals.know_address("a.test", "192.0.2.7")
    with on_disk(tmp_path) as f:
        assert f.internals.queue_key(CrawlUri("http://a.test/")) == "529"
        f.check()


def test_a_host_that_is_an_address_needs_no_row() -> None:
    with memory(queue_assignment_policy="ip") as f:
        for host in ("192.0.2.9", "[2001:db8::9]"):
            f.internals.know_address(host, "192.0.2.1")
            assert f.internals.address_of(host) == host.strip("[]")
            assert f.internals.queue_key(CrawlUri(f"http://{host}:81/")) == host.strip("[]")


def test_nothing_is_stored_for_settings_that_need_no_addresses() -> None:
    with memory() as f:
        f.schedule("http://a.test/")
        f.finish(one(f), address="192.0.2.1")
        assert not f.internals.needs_addresses
        assert f.internals.address_of("a.test") is None


def test_memory_is_bounded() -> None:
    with memory(queue_assignment_policy="ip") as f:
        hosts = kernel(f).tables.hosts
        hosts._rows = BoundedCache(4)
        for number in range(20):
            f.internals.know_address(f"{number}.test", f"192.0.2.{number}")
        assert [f.internals.address_of(f"{number}.test") for number in (0, 19)] == ["192.0.2.0", "192.0.2.19"]
        assert len(hosts._rows) <= 4


@pytest.mark.parametrize(
    ("host", "address", "error", "message"),
    [
        ("a.test/", "192.0.2.1", ValueError, "this is no host: "),
        ("", "192.0.2.1", ValueError, "this is no host: "),
        (None, "192.0.2.1", WrongType, "a host"),
        ("a.test", "", ValueError, "address is empty"),
        ("a.test", "a.test", ValueError, "address is an IP address"),
        ("a.test", 7, WrongType, "address is a str"),
    ],
)
def test_what_is_no_host_or_no_address_is_refused(
    host: str, address: str, error: type[Exception], message: str
) -> None:
    with memory() as f:
        with pytest.raises(error, match=message):
            f.internals.know_address(host, address)
        f.check()


def test_a_queue_without_a_url_has_no_host_and_no_address() -> None:
    with memory(queue_assignment_policy="ip") as f:
        assert kernel(f).tables.env.view().address_of("") is None
