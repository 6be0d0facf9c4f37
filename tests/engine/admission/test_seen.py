"""Each URI once: what is the same, what is another, and what skips the check."""

from __future__ import annotations

import pytest

from budgetfrontier import Admission, CrawlUri
from tests.support import memory, record


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("https://a.test/", "https://A.test:443"),
        ("https://a.test/x", "https://a.test/x#part"),
        ("https://a.test/?a=1&b=2", "https://a.test/?b=2&a=1"),
        ("https://a.test/x", "https://a.test/x?"),
        ("https://a.test/x", "https://www.a.test/x"),
        ("https://a.test/x", "https://me@a.test/x"),
        ("https://a.test/x", "https://a.test/x?utm_source=y"),
    ],
)
def test_a_uri_is_admitted_once(first: str, second: str) -> None:
    with memory() as f:
        assert f.schedule(first) is Admission.ADDED
        assert f.schedule(second) is Admission.DUPLICATE
        assert (f.summary().seen, f.summary().scheduled, f.summary().duplicates) == (1, 1, 1)


def test_another_method_or_body_is_another_uri() -> None:
    with memory() as f:
        url = "https://a.test/form"
        forms = [CrawlUri(url, method="POST", body=body) for body in (b"", b"x", b"y")]
        assert [f.schedule(uri) for uri in (CrawlUri(url), *forms)] == [Admission.ADDED] * 4
        assert f.schedule(forms[1]) is Admission.DUPLICATE


def test_force_skips_the_check_and_records_nothing() -> None:
    with memory() as f:
        forced = CrawlUri("https://a.test/", force=True)
        assert [f.schedule(forced), f.schedule(forced)] == [Admission.ADDED] * 2
        assert (record(f, "A").queued, f.summary().seen) == (2, 0)
        assert f.schedule("https://a.test/") is Admission.ADDED
        assert f.schedule("https://a.test/") is Admission.DUPLICATE
