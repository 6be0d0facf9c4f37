"""Private addresses are not fetched from, whichever way one comes to them; unless someone says so."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri, Outcome
from budgetfrontier.crawler.fetch import resolver
from budgetfrontier.crawler.fetch.fetcher import Fetcher
from budgetfrontier.crawler.fetch.refusals import PrivateAddressError, endpoint_of, exempt_endpoints, is_public, refusal
from budgetfrontier.crawler.fetch.resolver import Resolver
from budgetfrontier.crawler.fetch.response import BLOCKED, DNS_FAILED, FetchResult
from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import FetchSettings
from tests.crawler.raw import RawServer
from tests.support import PATIENCE

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage"
PUBLIC = "93.184.215.14"


def dns(monkeypatch: pytest.MonkeyPatch, *answers: Iterable[str], port: int | None = None) -> list[str]:
    """Let DNS give these answers, one after the other, the last for ever; returns the list of names asked for.

    `port` replaces that of the URL, so that it leads to a test server.
    """
    asked: list[str] = []

    def getaddrinfo(host: str, number: int, **_: Any) -> list[Any]:
        found = answers[min(len(asked), len(answers) - 1)]
        asked.append(host)
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [
            (
                socket.AF_INET6 if ":" in address else socket.AF_INET,
                socket.SOCK_STREAM,
                socket.IPPROTO_TCP,
                "",
                (address, port or number, 0, 0) if ":" in address else (address, port or number),
            )
            for address in found
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


def fetch(*urls: str, seeds: Iterable[str] = (), **settings: Any) -> list[FetchResult]:
    async def run() -> list[FetchResult]:
        async with Fetcher(FetchSettings(**{"timeout": PATIENCE, **settings}), seeds=seeds) as fetcher:
            return [await fetcher.get(CrawlUri(uris.parse(url))) for url in urls]

    return asyncio.run(run())


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.255.254",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "192.0.2.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::5db8:d70e",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "2001:0:5ef5:79fd::80ff:fffe",
        "100::1",
        "192.0.0.8",
        "192.0.0.170",
        "192.0.0.255",
        "192.88.99.1",
        "198.19.255.255",
        "203.0.113.5",
        "2001:2::1",
        "2001:10::1",
        "2001:1::4",
        "3fff::1",
        "3fff:fff:ffff::1",
        "5f00::1",
        "::ffff:192.0.0.8",
        "2002:c000:8::1",
        "nonsense",
        "",
    ],
)
def test_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        PUBLIC,
        "8.8.8.8",
        "2606:2800:21f:cb07:6820:80da:af6b:8b2c",
        "2a00:1450:4001::1",
        f"::ffff:{PUBLIC}",
        "64:ff9b::5db8:d70e",
        "2002:5db8:d70e::1",
        "192.0.0.9",
        "192.0.1.0",
        "192.31.196.1",
        "198.20.0.0",
        "2001:1::1",
        "2001:3::1",
        "2001:200::1",
        "2620:4f:8000::1",
        "3ffe::1",
        "3fff:1000::1",
    ],
)
def test_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://2130706433:{port}/",
        "http://0x7f.1:{port}/",
        "http://017700000001:{port}/",
        "http://127.0.0.1.:{port}/",
        "http://user:word@127.0.0.1:{port}/",
        "http://①②⑦.0.0.1:{port}/",
        "http://[::1]:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://[::ffff:7f00:1]:{port}/",
        "http://0.0.0.0:{port}/",
        "http://0:{port}/",
    ],
)
def test_a_literal_address(url: str) -> None:
    with RawServer({"/": PAGE}) as server:
        (answer,) = fetch(url.format(port=server.port))
        assert server.requests == []
    assert (answer.status, answer.outcome) == (BLOCKED, Outcome.FAILURE)
    assert "private address" in answer.reason and "fetch.allow_private" in answer.reason


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST"])
def test_a_name_of_this_machine(host: str) -> None:
    with RawServer({"/": PAGE}) as server:
        (answer,) = fetch(f"http://{host}:{server.port}/")
        assert server.requests == []
    assert (answer.status, answer.outcome) == (BLOCKED, Outcome.FAILURE)


def test_a_name_that_leads_to_a_private_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer({"/": PAGE}) as server:

        async def run() -> FetchResult:
            dns(monkeypatch, ["127.0.0.1", "::1"], port=server.port)
            async with Fetcher(FetchSettings()) as fetcher:
                return await fetcher.get(CrawlUri("http://innocent.example/"))

        answer = asyncio.run(run())
        assert server.requests == []
    assert (answer.status, answer.outcome) == (BLOCKED, Outcome.FAILURE)
    assert "innocent.example is at 127.0.0.1" in answer.reason and "fetch.allow_private" in answer.reason


def test_only_the_public_ones_of_several_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[str]:
        dns(monkeypatch, ["10.0.0.1", PUBLIC, "::1", "fd00::1"])
        return [found["host"] for found in await Resolver({}, allowed=()).resolve("mixed.example", 80)]

    assert asyncio.run(run()) == [PUBLIC]


def test_a_name_with_a_thousand_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> int:
        dns(monkeypatch, [f"93.184.{third}.{fourth}" for third in range(10) for fourth in range(100)])
        return len(await Resolver({}, allowed=()).resolve("many.example", 80))

    assert asyncio.run(run()) == 16


def test_a_name_that_changes_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: each connection goes to the address that was checked for it."""
    monkeypatch.setattr(resolver, "is_public", "127.0.0.1".__eq__)
    with RawServer({"/": PAGE}) as server:

        async def run() -> list[int]:
            asked = dns(monkeypatch, ["127.0.0.1"], ["127.0.0.2"], port=server.port)
            async with Fetcher(FetchSettings(dns_ttl=0.0)) as fetcher:
                statuses = [(await fetcher.get(CrawlUri("http://rebinding.example/"))).status for _ in range(3)]
            assert len(asked) == 3, "one question a connection"
            return statuses

        assert asyncio.run(run()) == [200, BLOCKED, BLOCKED]


def test_answers_of_dns_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer({"/": PAGE}) as server:

        async def run(ttl: float) -> int:
            asked = dns(monkeypatch, ["127.0.0.1"], port=server.port)
            async with Fetcher(FetchSettings(dns_ttl=ttl, allow_private=True)) as fetcher:
                for _ in range(3):
                    assert (await fetcher.get(CrawlUri("http://a.example/"))).status == 200
            return len(asked)

        assert [asyncio.run(run(ttl)) for ttl in (600.0, 0.0)] == [1, 3]


def test_a_failure_of_dns_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer({"/": PAGE}) as server:

        async def run() -> list[int]:
            dns(monkeypatch, [], ["127.0.0.1"], port=server.port)
            async with Fetcher(FetchSettings(allow_private=True)) as fetcher:
                return [(await fetcher.get(CrawlUri("http://a.example/"))).status for _ in range(2)]

        assert asyncio.run(run()) == [DNS_FAILED, 200]


def test_who_may_be_private() -> None:
    with RawServer({"/": PAGE}) as server:
        here, name = f"http://127.0.0.1:{server.port}/", f"http://localhost:{server.port}/"
        allowed = fetch(here, name, allow_private=True)
        mapped = fetch("http://www.example.test/", resolve={"*.test": server.address})
        seeded = fetch(here, seeds=[here + "start"])
        named = fetch(name, seeds=[f"HTTP://LocalHost:{server.port}"])
    assert [answer.status for answer in (*allowed, *mapped, *seeded, *named)] == [200] * 5
    assert {answer.address for answer in (*mapped, *seeded)} == {"127.0.0.1"}


def test_a_seed_allows_its_own_place_only() -> None:
    with RawServer({"/": PAGE}) as server, RawServer({"/": PAGE}) as other:
        seed = f"http://localhost:{server.port}/"
        answers = fetch(
            f"http://localhost:{other.port}/", f"http://127.0.0.1:{server.port}/", "http://127.0.0.2/", seeds=[seed]
        )
    assert [answer.status for answer in answers] == [BLOCKED] * 3


def test_a_name_allows_nothing() -> None:
    seeds = ["http://intranet.example/", "https://[::1]/", "http://localhost/a", "http://10.0.0.1:8080/", "no url"]
    assert exempt_endpoints(seeds).local == {("::1", 443), ("localhost", 80), ("10.0.0.1", 8080)}


def test_places() -> None:
    assert endpoint_of("https://user@[2001:db8::1]/") == ("2001:db8::1", 443)
    assert endpoint_of("http://[::1]:8080/a:1") == ("::1", 8080)


def test_the_error_says_what_to_do() -> None:
    assert str(PrivateAddressError("::1", "::1")) == "::1 is a private address, and fetch.allow_private is false"


@pytest.mark.parametrize(
    "url", ["http://mail.test:25/", "https://u:p@mail.test:6667/x?y:80/", "http://[2606:2800::1]:22/"]
)
def test_ports_that_browsers_do_not_open(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = dns(monkeypatch, [PUBLIC])
    for private in (False, True):
        (answer,) = fetch(url, allow_private=private)
        assert (answer.status, answer.outcome, answer.seconds is None) == (BLOCKED, Outcome.FAILURE, False)
        assert "browsers refuse to open" in answer.reason
    assert not asked
    refused = Fetcher(FetchSettings()).refusal(uris.parse(url))
    assert refused is not None and refused.status == BLOCKED


@pytest.mark.parametrize(
    "url", ["http://a.test/25", "http://a.test:8080/", "http://a:25@b.test/", "http://[2606:2800::25]/"]
)
def test_other_ports_are_open(url: str) -> None:
    assert Fetcher(FetchSettings()).refusal(uris.parse(url)) is None


def test_a_seed_opens_its_own_port_only(monkeypatch: pytest.MonkeyPatch) -> None:
    fetcher = Fetcher(FetchSettings(), seeds=["http://a.test:6000/", "nonsense:"])
    assert fetcher.refusal("http://a.test:6000/x") is None
    assert fetcher.refusal("http://a.test:6566/") is not None and fetcher.refusal("http://b.test:6000/") is not None
    dns(monkeypatch, ["10.0.0.1"])
    (answer,) = fetch("http://a.test:6000/", seeds=["http://a.test:6000/"])
    assert answer.status == BLOCKED and "private address" in answer.reason  # a port is no address


@pytest.mark.parametrize(
    ("url", "fetch", "why"),
    [
        ("http://10.0.0.1/", {}, "10.0.0.1 is a private address, and fetch.allow_private is false"),
        ("http://10.0.0.1/", {"allow_private": True}, None),
        ("http://10.0.0.2:8080/b", {}, None),
        ("http://a.test:25/", {"allow_private": True}, "a.test:25 is a port that browsers refuse to open"),
        ("http://b.test:25/", {}, None),
        ("http://a.test/", {}, None),
    ],
)
def test_what_a_crawl_would_refuse_is_known_from_its_settings(
    tmp_path: Path, url: str, fetch: dict[str, object], why: str | None
) -> None:
    seeds = [{"file": str(tmp_path / "gone.txt")}, "http://10.0.0.2:8080/a", "http://b.test:25/"]
    told = refusal(Settings.from_dict({"seeds": seeds, "fetch": fetch}), url)
    assert told is None if why is None else told is not None and told.startswith(why)
