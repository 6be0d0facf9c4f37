"""What may be admitted: URLs and numbers; what cannot be is INVALID, and poisons no batch."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import Admission, CrawlUri, Frontier, Outcome
from tests.support import crawl, memory, one, whole

URL = "https://c.test/"


NOT_URIS: list[Any] = [
    None,
    5,
    b"https://c.test/",
    ["https://c.test/"],
    object(),
    "",
    "no url",
    "ftp://c.test/",
    "javascript:alert(1)",
    "https://c.test:99999/",
    "https://c.test:0/",
    "https://[::1/",
    "https://" + "a" * 100_000,
    "https://c.test/" + "a" * 100_000,
    "https://c\0.test/",
    "https://c.test/\ud800",
    CrawlUri(None),  # type: ignore[arg-type]
    CrawlUri("\udfff"),
]


@pytest.mark.parametrize("given", NOT_URIS, ids=lambda given: repr(given).partition(" at 0x")[0][:30])
def test_what_is_no_uri_is_invalid_and_poisons_no_batch(f: Frontier, given: Any) -> None:
    if isinstance(given, str | CrawlUri):
        assert f.schedule(given) is Admission.INVALID
    else:
        with pytest.raises(TypeError, match=f"str or a CrawlUri, not {type(given).__name__}"):
            f.schedule(given)
    tally = f.schedule_many([given, URL, given])
    assert (tally.added, tally.invalid, sum(tally.reasons.values())) == (1, 2, 2)
    f.finish(one(f), Outcome.SUCCESS, discovered=[given, "https://d.test/"])
    assert f.queue("d.test") is not None
    whole(f)


@pytest.mark.parametrize("one_alone", [URL, URL.encode(), CrawlUri(URL)])
def test_one_uri_in_the_place_of_several_is_a_mistake(f: Frontier, one_alone: Any) -> None:
    for call in (f.schedule_many, f.schedule_each, f.mark_seen):
        with pytest.raises(TypeError, match="one alone goes into a list"):
            call(one_alone)
    assert f.queue("c.test") is None


CORRECT = {
    "HTTPS://EXAMPLE.ORG:443/a#fragment": "https://example.org/a",
    "http://user:word@example.org": "http://user:word@example.org/",
    "https://[2001:DB8::1]:8080/": "https://[2001:db8::1]:8080/",
    "https://bücher.example/ü": "https://xn--bcher-kva.example/%C3%BC",
    "https://example.org/a\0b": "https://example.org/a%00b",
    "  https://example.org/b\n": "https://example.org/b",
}


@pytest.mark.parametrize("given", CORRECT)
def test_what_is_odd_but_a_url_has_the_correct_form(given: str) -> None:
    with memory() as f:
        assert f.schedule(given) is Admission.ADDED
        assert one(f).uri.url == CORRECT[given]
        whole(f)


def test_numbers_out_of_range_are_clamped(f: Frontier) -> None:
    numbers: list[dict[str, int]] = [{"cost": 10**40}, {"cost": -3}, {"priority": 10**40}, {"priority": -(10**40)}]
    for number, fields in enumerate(numbers):
        assert f.schedule(CrawlUri(f"{URL}{number}", **fields)) is Admission.ADDED  # type: ignore[arg-type]
    crawl(f)
    whole(f)
