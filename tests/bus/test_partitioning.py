"""Partitioners: stable, and one partition for each host."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetfrontier.bus.partitioning import by_fingerprint, by_host, by_host_name


@given(st.text(max_size=30), st.integers(1, 1000))
@settings(max_examples=50)
def test_whatever_the_url_it_has_a_partition(url: str, partitions: int) -> None:
    assert 0 <= by_host(url, partitions) < partitions


@pytest.mark.parametrize("partitions", [1, 2, 7, 64])
def test_a_host_is_on_one_partition(partitions: int) -> None:
    urls = [
        "http://example.org/",
        "https://EXAMPLE.org/a?b#c",
        "https://user:word@example.org:8443/",
        "HTTP://Example.Org:80",
    ]
    assert {by_host(url, partitions) for url in urls} == {by_host_name("example.org", partitions)}
    assert by_host_name("Example.ORG.", partitions) == by_host_name("example.org", partitions)
    for www in ("www.example.org", "WWW2.Example.org:8080", "www12.example.org"):  # one URI to most frontiers
        assert by_host(f"http://{www}/", partitions) == by_host_name("example.org", partitions)
    assert by_host("http://www./", partitions) == by_host_name("www.", partitions)
    assert by_host("http://m\u00fcnchen.de/", partitions) == by_host_name("xn--mnchen-3ya.de", partitions)


def test_partitions_never_change() -> None:
    """What they are is stored in the brokers of crawls."""
    hosts = ["example.org", "news.example.com", "a.test", "b.test", "127.0.0.1"]
    assert [by_host_name(host, 12) for host in hosts] == FRONTERA
    assert [by_fingerprint(host.encode(), 12) for host in hosts] == STORED


FRONTERA = [11, 1, 9, 11, 4]
"""What Frontera 0.8.1's Crc32NamePartitioner gives for the hosts above and 12 partitions."""
STORED = [5, 5, 6, 2, 4]


def test_hosts_are_spread() -> None:
    counts = [0] * 8
    for number in range(8000):
        counts[by_host(f"https://site{number}.test/", 8)] += 1
    assert min(counts) > 700
