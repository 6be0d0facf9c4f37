"""Requests and hops that another program has written."""

from __future__ import annotations

import pytest

from budgetfrontier import CrawlUri
from budgetfrontier.rules.requests import are_hops, request_objection


def asked(method: str = "POST", **headers: str) -> CrawlUri:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return CrawlUri("http://a.test/", method=method, headers=named or None)


@pytest.mark.parametrize(
    ("uri", "objection"),
    [
        (asked(""), 'method: "" is no HTTP method'),
        (asked("GET\r\nX: 1"), "method: "),
        (asked("GET /"), "method: "),
        (asked(Content_Length="40"), "headers: Content-Length is set by the crawler"),
        (asked(transfer_encoding="chunked"), "headers: transfer-encoding is set by the crawler"),
        (asked(Host="b.test"), "headers: Host is set"),
        (asked(Connection="close"), "headers: Connection is set"),
        (asked(X="a\r\nY: b"), "headers: the value of X contains a line break"),
        (CrawlUri("http://a.test/", headers={"A\nB": "x"}), "headers: "),
        (CrawlUri("http://a.test/", headers={"": "x"}), "headers: "),
    ],
)
def test_requests_that_cannot_be_sent(uri: CrawlUri, objection: str) -> None:
    assert (request_objection(uri) or "").startswith(objection)


def test_requests_that_can() -> None:
    for uri in CrawlUri("http://a.test/"), asked("PATCH", Content_Type="text/plain", Cookie="a=b; c=ü"), asked("get"):
        assert request_objection(uri) is None


def test_hops() -> None:
    assert all(map(are_hops, ("", "L", "LEXRIPM", "14+LL")))
    assert not any(map(are_hops, ("L\n", "L\nF+ http://b.test/", "l", "L L", "+L", "É")))
