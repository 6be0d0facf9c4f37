"""What is sent: headers, cookies and passwords by match, the proxy; and that no secret is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from budgetfrontier.core.model import CrawlUri, Outcome
from budgetfrontier.crawler.fetch.fetcher import Fetcher
from budgetfrontier.crawler.fetch.response import BLOCKED, BROKEN, CONNECT_FAILED, FetchResult
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.schema import FetchSettings, RequestSettings
from tests.crawler.raw import RawServer

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"
SECRET = "Tr0ub4dor&3"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_SECRET", SECRET)
    monkeypatch.delenv("TEST_MISSING", raising=False)


def ask(
    url: str, *requests: RequestSettings, headers: dict[str, str] | None = None, **settings: Any
) -> tuple[str, FetchResult]:
    """Fetch a URL; returns the request as it was sent, and the answer."""
    with RawServer({"/": PAGE, "http://www.example.test/": PAGE}) as server:

        async def run() -> FetchResult:
            chosen = FetchSettings(requests=requests, resolve={"*.test": server.address}, **settings)
            async with Fetcher(chosen) as fetcher:
                return await fetcher.get(CrawlUri(url, headers=headers))

        answer = asyncio.run(run())
        return b"".join(server.requests).decode(), answer


def test_the_usual_header_as_it_was_sent() -> None:
    sent, answer = ask("http://www.example.test:81/", user_agent="ExampleBot/1.0")
    lines = [f"{name}: {value}" for name, value in answer.request_headers]
    assert sent.split("\r\n")[1:-2] == lines
    assert lines[0] == "Host: www.example.test:81"
    assert "Accept-Encoding: gzip, deflate, br, zstd" in lines and "User-Agent: ExampleBot/1.0" in lines


def test_what_a_uri_brings_is_sent_too() -> None:
    sent, answer = ask("http://www.example.test/", headers={"If-None-Match": '"abc"'})
    assert 'If-None-Match: "abc"\r\n' in sent
    assert ("If-None-Match", '"abc"') in answer.request_headers
    sent, answer = ask("http://www.example.test/", headers={"authorization": f"Bearer {SECRET}"})
    assert SECRET in sent and ("authorization", "-") in answer.request_headers


def test_all_that_match_are_sent_and_later_ones_win() -> None:
    everywhere = RequestSettings(headers={"X-One": "1", "X-Two": "2"}, cookies={"a": "1", "b": "2"})
    here = RequestSettings(match="domain:example.test", headers={"x-two": "two"}, cookies={"b": "two"})
    elsewhere = RequestSettings(match="domain:other.test", headers={"X-One": "other"}, auth="me:pass")
    sent, _ = ask("http://www.example.test/", everywhere, here, elsewhere)
    assert "X-One: 1\r\n" in sent and "x-two: two\r\n" in sent and "X-Two" not in sent
    assert "Cookie: a=1; b=two\r\n" in sent and "Authorization" not in sent


def test_secrets_are_sent_and_not_told() -> None:
    one = RequestSettings(
        headers={"X-Key": "key=${TEST_SECRET}", "X-Plain": "plain"},
        cookies={"session": "${TEST_SECRET}", "theme": "dark"},
        auth="me:${TEST_SECRET}",
    )
    sent, answer = ask("http://www.example.test/", one)
    assert f"X-Key: key={SECRET}\r\n" in sent and f"Cookie: session={SECRET}; theme=dark\r\n" in sent
    assert "Authorization: Basic bWU6VHIwdWI0ZG9yJjM=\r\n" in sent
    told = dict(answer.request_headers)
    assert (told["X-Key"], told["X-Plain"], told["Authorization"]) == ("-", "plain", "-")
    assert told["Cookie"] == "session=-; theme=dark"
    assert SECRET not in repr(answer) and "bWU6" not in repr(answer)


def test_a_password_in_a_url_is_not_told() -> None:
    sent, answer = ask(f"http://me:{SECRET}@www.example.test/")
    assert "Authorization: Basic" in sent
    assert dict(answer.request_headers)["Authorization"] == "-"


def test_a_setting_wins_over_a_password_in_a_url() -> None:
    sent, answer = ask("http://else:where@www.example.test/", RequestSettings(auth="me:${TEST_SECRET}"))
    assert answer.status == 200
    assert "Authorization: Basic bWU6VHIwdWI0ZG9yJjM=\r\n" in sent


@pytest.mark.parametrize(
    "one",
    [
        RequestSettings(headers={"X-Key": "${TEST_MISSING}"}),
        RequestSettings(cookies={"a": "${TEST_SECRET}${TEST_MISSING}"}),
        RequestSettings(auth="me:${TEST_MISSING}"),
    ],
)
def test_a_variable_that_is_missing(one: RequestSettings) -> None:
    with pytest.raises(SettingsError, match=r"fetch\.requests\[1\]\..*TEST_MISSING is not set") as caught:
        Fetcher(FetchSettings(requests=(RequestSettings(), one)))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "one",
    [
        RequestSettings(headers={"X-Key": "${TEST_SECRET}\r\nX-Other: 1"}),
        RequestSettings(headers={"X Key": "${TEST_SECRET}"}),
        RequestSettings(headers={"": "${TEST_SECRET}"}),
        RequestSettings(cookies={"a": "${TEST_SECRET}; b=2"}),
        RequestSettings(cookies={"a=b": "${TEST_SECRET}"}),
        RequestSettings(auth="${TEST_SECRET}"),
    ],
)
def test_what_cannot_stand_in_a_header(one: RequestSettings) -> None:
    with pytest.raises(SettingsError, match=r"fetch\.requests\[0\]") as caught:
        Fetcher(FetchSettings(requests=(one,)))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("headers", [{"X": "a\r\nInjected: 1"}, {"X\r\nInjected": "1"}, {"X": "a\x00b"}])
def test_a_uri_cannot_inject_headers(headers: dict[str, str]) -> None:
    sent, answer = ask("http://www.example.test/", headers=headers)
    assert (sent, answer.status) == ("", BROKEN)


# The proxy


def through(url: str, answer: bytes = PAGE, **settings: Any) -> tuple[list[bytes], FetchResult]:
    """Fetch a URL through a proxy that answers everything with `answer`; returns what it was asked."""
    asked = url.replace("localhost:x@", "")  # a proxy is not told who is meant to log in
    with RawServer({asked: answer, "www.example.test:443": answer}) as server:

        async def run() -> FetchResult:
            chosen = FetchSettings(proxy=f"http://me:${{TEST_SECRET}}@127.0.0.1:{server.port}", **settings)
            async with Fetcher(chosen) as fetcher:
                return await fetcher.get(CrawlUri(url))

        return server.requests, asyncio.run(run())


def test_a_proxy_is_asked_instead_of_dns() -> None:
    (sent,), answer = through("http://www.example.test/", requests=(RequestSettings(headers={"X-Key": "1"}),))
    assert answer.status == 200, answer.reason
    assert sent.startswith(b"GET http://www.example.test/ HTTP/1.1\r\nHost: www.example.test\r\n")
    assert b"Proxy-Authorization: Basic bWU6VHIwdWI0ZG9yJjM=\r\n" in sent and b"X-Key: 1\r\n" in sent
    assert answer.address is None
    assert SECRET not in repr(answer) and "bWU6" not in repr(answer)


def test_a_tunnel_that_the_proxy_refuses() -> None:
    no = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    (sent,), answer = through("https://www.example.test/", no)
    assert sent.startswith(b"CONNECT www.example.test:443 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic bWU6VHIwdWI0ZG9yJjM=\r\n" in sent
    assert answer.status < 0 and "Proxy Authentication Required" in answer.reason
    assert SECRET not in repr(answer) and "bWU6" not in repr(answer)


@pytest.mark.parametrize(
    ("url", "said", "status", "outcome"),
    [
        ("https://www.example.test/", b"407 Proxy Authentication Required", CONNECT_FAILED, Outcome.RETRY),
        ("https://www.example.test/", b"429 Too Many Requests", CONNECT_FAILED, Outcome.RETRY),
        ("https://www.example.test/", b"502 Bad Gateway", CONNECT_FAILED, Outcome.RETRY),
        ("https://www.example.test/", b"504 Gateway Timeout", CONNECT_FAILED, Outcome.RETRY),
        ("https://www.example.test/", b"403 Forbidden", BROKEN, Outcome.FAILURE),
        ("http://www.example.test/", b"407 Proxy Authentication Required", CONNECT_FAILED, Outcome.RETRY),
        ("http://www.example.test/", b"502 Bad Gateway", 502, Outcome.SUCCESS),
    ],
)
def test_what_a_proxy_says_of_itself_is_no_answer_of_the_host(
    url: str, said: bytes, status: int, outcome: Outcome
) -> None:
    _, answer = through(url, b"HTTP/1.1 " + said + b"\r\nContent-Length: 0\r\n\r\n")
    assert (answer.status, answer.outcome) == (status, outcome)
    assert answer.reason == ("" if status > 0 else f"the proxy said {said.decode()}")


@pytest.mark.parametrize("host", ["169.254.169.254", "localhost", "localhost.", "me@a.localhost:6379"])
def test_private_addresses_are_refused_behind_a_proxy_too(host: str) -> None:
    sent, answer = through(f"http://{host}/latest/meta-data/")
    assert (sent, answer.status) == ([], BLOCKED)


@pytest.mark.parametrize("host", ["localhost.example", "notlocalhost", "localhost:x@www.example.test"])
def test_names_that_look_like_localhost_are_none(host: str) -> None:
    sent, answer = through(f"http://{host}/")
    assert len(sent) == 1 and answer.status == 200


@pytest.mark.parametrize("proxy", ["socks5://proxy:1080", "proxy:3128", "http://", "https://proxy", "${TEST_SECRET}"])
def test_what_is_no_proxy(proxy: str) -> None:
    with pytest.raises(SettingsError, match=r"fetch\.proxy") as caught:
        Fetcher(FetchSettings(proxy=proxy))
    assert SECRET not in str(caught.value)


def test_a_proxy_with_a_variable_that_is_missing() -> None:
    with pytest.raises(SettingsError, match=r"fetch\.proxy: .*TEST_MISSING"):
        Fetcher(FetchSettings(proxy="http://${TEST_MISSING}:3128"))
