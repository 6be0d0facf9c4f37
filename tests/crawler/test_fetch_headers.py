"""Headers that break the rules: what browsers read is read and kept as it was sent; what nobody can tell is refused."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.crawler.fetch.headers import end, fields, repaired
from budgetfrontier.crawler.fetch.response import BROKEN, TIMED_OUT, FetchResult
from budgetfrontier.crawler.outputs.warc_records import response_header
from tests.crawler.raw import RawServer

OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = b"Content-Length: 4\r\n\r\npage"
CHUNKS = b"\r\n4\r\npage\r\n0\r\n\r\n"
ZIPPED = gzip.compress(b"page", mtime=0)


def fetch(answer: bytes | tuple[bytes, ...], **settings: Any) -> FetchResult:
    with RawServer({"/": answer}) as server:
        (got,) = server.fetch("/", **settings)
    return got


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 4\r\n" + LENGTH,
        OK + b"Content-Length: 4, 4\r\n\r\npage",
        OK + b"Content-Length: +4\r\n\r\npage",
        OK + b"Content-Length: 4.0\r\n\r\npage",
        OK + b"Content-Length: 4 bytes\r\n\r\npage",
        OK + b"Content-Length: 99999999999999999999999\r\n\r\npage",
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n" + CHUNKS,
        OK + b"Transfer-Encoding: chunked\r\nContent-Length: 300\r\n" + CHUNKS,
        OK + b"Transfer-Encoding: identity\r\n" + LENGTH,
        OK + b"X-Thing : 1\r\n" + LENGTH,
        OK + b"X-Thing: 1\r\nContent-Length : 4\r\nTransfer-Encoding : chunked\r\n" + CHUNKS,
        OK + "X-Größe: 1\r\n".encode() + LENGTH,
        OK + b"X-Gr\xf6\xdfe: 1\r\n" + LENGTH,
        OK + b"X Thing: 1\r\n" + LENGTH,
        OK + b"X(Thing)@: 1\r\n" + LENGTH,
        OK + b": 1\r\n" + LENGTH,
        OK + b"Sec-WebSocket-Key1: 1\r\n" + LENGTH,
        OK + b"X-Thing : a\r\n b\r\n" + LENGTH,
        b"http/1.1 200 OK\r\n" + LENGTH,
        b"HTTP/1.1  200  OK\r\n" + LENGTH,
        b"HTTP/2 200\r\n" + LENGTH,
        b"HTTP/1.0 200 OK\r\nContent-Length: 4, 4\r\n\r\npage",
        b"http/1.1 200 OK\nX-Thing : 1\nContent-Length: 4\n\npage",
        b"HTTP/1.1 103 Early Hints\r\nLink : <x>\r\n\r\n" + OK + b"X-Thing : 1\r\n" + LENGTH,
    ],
)
@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
def test_what_browsers_read_is_read(answer: bytes, apart: bool) -> None:
    got = fetch((answer[:19], answer[19:30], answer[30:]) if apart else answer)
    assert (got.status, got.body, got.notes) == (200, b"page", ["badHeader"])
    assert "HTTP/1.1" in got.reason


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200\r\n" + LENGTH,
        b"HTTP/1.1 200 OK\nContent-Length: 4\n\npage",
        b"\r\nHTTP/1.1 200 OK\r\n" + LENGTH,
        b"HTTP/1.0 200 OK\r\n\r\npage",
        OK + b"X: a\r\n b\r\n" + LENGTH,
        OK + "X: Größe\r\n".encode() + LENGTH,
        OK + b"Content-Length: \t 4 \r\n\r\npage",
        OK + b"Transfer-Encoding: Chunked\r\n\r\n0004;a=b\r\npage\r\n000\r\nX: trailer\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(ZIPPED), ZIPPED),
        OK + b"Content-Encoding: gzip\r\n\r\n" + ZIPPED + b"junk",
        OK + b"Content-Encoding: identity\r\n" + LENGTH,
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + OK + LENGTH,
    ],
)
@pytest.mark.parametrize("apart", [False, True], ids=["together", "apart"])
def test_what_is_merely_odd_is_read_without_a_note(answer: bytes, apart: bool) -> None:
    got = fetch((answer[:19], answer[19:30], answer[30:]) if apart else answer)
    assert (got.status, got.body, got.notes, got.reason) == (200, b"page", [], "")


@pytest.mark.parametrize(
    "field",
    [
        b"Content-Length: 4, 5",
        b"Content-Length: 4\r\nContent-Length: 5",
        b"Content-Length: four",
        b"Content-Length: -4",
        b"X : a\x00b",
        b"X : a\rb",
        b"X : a\r\nno colon",
    ],
)
def test_what_nobody_can_tell_is_refused(field: bytes) -> None:
    got = fetch(OK + field + b"\r\n\r\npage")
    assert (got.status, got.body, got.notes) == (BROKEN, b"", [])


def test_the_header_is_kept_as_it_was_sent() -> None:
    got = fetch(OK + "Content-Type : text/html\r\nX-Größe: ä\r\nContent-Length: 4, 4\r\n\r\npage".encode())
    assert got.mime == "text/html"
    assert got.headers["Content-Length"] == "4"
    assert got.raw_headers == [
        (b"Content-Type ", b"text/html"),
        ("X-Größe".encode(), "ä".encode()),
        (b"Content-Length", b"4, 4"),
    ]
    assert response_header(got).decode().split("\r\n") == [
        "HTTP/1.1 200 OK",
        "Content-Type: text/html",
        "X-Größe: ä",
        "X-Crawl-Content-Length: 4, 4",
        "",
        "",
    ]


def test_a_connection_with_a_broken_header_is_not_used_again() -> None:
    second = OK + b"Content-Length: 7\r\n\r\nforeign"
    with RawServer({"/a": OK + b"X : 1\r\n" + LENGTH + second, "/b": OK + LENGTH}) as server:
        first, other = server.fetch("/a", "/b")
    assert (first.body, other.body, len(server.requests)) == (b"page", b"page", 2)


def test_a_broken_header_is_bounded_as_any() -> None:
    with RawServer({}) as server:
        server.endless("/", b"http/1.1 200 OK\r\n", b"X : 1\r\n" * 100)
        (got,) = server.fetch("/", max_header=8192)
    assert (got.status, got.notes) == (BROKEN, ["headerTrunc"])


def test_a_header_that_never_ends_is_waited_for_no_longer_than_any() -> None:
    with RawServer({}) as server:
        server.endless("/", b"http/1.1 200 OK\r\n", b"x", pace=0.5)
        got = server.fetch_by_its_clock("/", first_byte_timeout=20.0)
    assert got.status == TIMED_OUT


@pytest.mark.parametrize(
    ("head", "start", "expected"),
    [
        (b"a\r\n\r\nb", 0, 5),
        (b"a\n\nb", 0, 3),
        (b"a\n\r\nb", 0, 4),
        (b"a\r\n\r\n", 4, 5),
        (b"a\r\n", 0, 0),
        (b"a\n\nb\r\n\r\n", 0, 3),
        (b"", 0, 0),
    ],
)
def test_where_a_header_ends(head: bytes, start: int, expected: int) -> None:
    assert end(head, start) == expected


_WORDS = (
    b"HTTP/1.1 200 OK|http/2 99|:| |\t|Content-Length|4|,|Transfer-Encoding|chunked|identity|X|-1|9999999999999999999"
)
_PIECES = st.sampled_from([b"\r\n", b"\n", b"\r", b"\0", b"\xff", *_WORDS.split(b"|")])


@given(st.lists(_PIECES, max_size=30).map(b"".join))
def test_what_is_mended_needs_no_mending(head: bytes) -> None:
    better = repaired(head)
    assert better is None or (repaired(better) == better and fields(better) is not None)
