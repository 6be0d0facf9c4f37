"""Duplicates: what makes two URIs the same, and which URIs are not compared."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from budgetfrontier import CrawlUri
from budgetfrontier.rules import duplicates

URL = "https://a.test/"


def known_by(url: str = URL, **fields: Any) -> bytes | None:
    return duplicates.fingerprint(CrawlUri("not normalized", **fields), url, lambda url: url.partition("#")[0])


def test_the_canonical_form_decides() -> None:
    assert known_by() == known_by(URL + "#part") != known_by(URL + "b")
    assert known_by() == known_by(via="https://b.test/", priority=5, cost=9, queue="b.test", meta={"a": 1})


def test_method_and_body_count_unless_they_are_get_and_empty() -> None:
    assert known_by() == known_by(method="GET", body=b"")
    forms = [known_by(), known_by(method="POST"), known_by(method="POST", body=b"x"), known_by(body=b"x")]
    assert len(set(forms)) == 4


def test_force_skips_the_check_and_asks_for_no_canonical_form() -> None:
    def not_asked(url: str) -> NoReturn:
        raise AssertionError(url)

    assert duplicates.fingerprint(CrawlUri(URL, force=True, method="POST"), URL, not_asked) is None


@pytest.mark.parametrize(
    ("given", "url"),
    [
        (URL, URL),
        (CrawlUri(URL, priority=5, queue="b.test"), URL),
        (CrawlUri(URL, force=True), None),
        (CrawlUri(URL, method="POST"), None),
        (CrawlUri(URL, body=b"x"), None),
        (CrawlUri(5), None),  # type: ignore[arg-type]
        (b"https://a.test/", None),
        (None, None),
    ],
)
def test_the_url_alone_identifies_a_plain_request(given: object, url: str | None) -> None:
    assert duplicates.identifying_url(given) == url
