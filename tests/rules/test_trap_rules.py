"""Rules against traps reject just the URLs that the evidence counts, whatever else its host holds."""

from __future__ import annotations

import hashlib
import re
from random import Random

import pytest

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.rules.trap_urls import url_signs

NOW = 1_795_000_000.0  # in November 2026
NEWS = [f"/NEWS-archive-{n}" for n in range(60)]
ELECTION = [f"/US-election-2024/report-{n}" for n in range(60)]
BLOG = [f"/blog/2024-11-{n % 28 + 1:02d}-story-{n}" for n in range(60)]
CHAIRS = [f"/products/chair-model-120{n}" for n in range(60)]
ARTICLES = [f"/article?id={n}&lang=de&print=1" for n in range(60)]
SEARCHES = [f"/search?q=word{n}&in=title&lang=en" for n in range(60)]
FORECASTS = [f"/forecast?y={2030 + n}&m=1" for n in range(60)]
HELP = [f"/shop/help/page/q{n}" for n in range(60)]


def token(number: int, length: int) -> str:
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()[:length]


def facets(number: int) -> str:
    random = Random(number)
    several = random.sample(
        [("color", 6), ("size", 5), ("brand", 8), ("sort", 4), ("page", 9)], k=random.choice([3, 4])
    )
    return "/shop?" + "&".join(f"{name}={random.randrange(values)}" for name, values in several)


BEHIND_LETTER = [(f"/S-{token(n, 24)}/doc{n % 40}.html", f"/S-{token(n + 999, 24)}/doc1.html") for n in range(240)]
UNNAMED = [(f"/shop/{token(n, 32)}/item{n % 40}", f"/shop/{token(n + 999, 32)}/item1") for n in range(240)]
ARGUMENT = [(f"/shop/item{n % 40}?sid={token(n, 16)}", "/") for n in range(240)]
FACETS = [(facets(n), "/shop") for n in range(240)]
MONTHS = [(f"/calendar?m={n % 12 + 1}&y={2028 + n // 12}", f"/calendar?m=1&y={2099 - n // 12}") for n in range(240)]
COLORS = ("red", "xl", "wool", "new", "short", "linen", "sale", "men")
PERMUTED = [(f"/shop/{a}/{b}/{c}", "/shop") for a in COLORS for b in COLORS for c in COLORS if len({a, b, c}) == 3]


def sample(trap: list[tuple[str, str]], honest: list[str]) -> list[CrawlUri]:
    """Return the URIs of a host: those of a trap, with the pages that they were found on, and of an honest part."""
    found = [CrawlUri(f"http://a.test{path}", via=f"http://a.test{via}", hops="LLL") for path, via in trap]
    return [*found, *(CrawlUri(f"http://a.test{path}", via="http://a.test/", hops="L") for path in honest)]


@pytest.mark.parametrize(
    ("code", "trap", "honest"),
    [
        ("session-ids", BEHIND_LETTER, NEWS),
        ("session-ids", BEHIND_LETTER, ELECTION),
        ("session-ids", UNNAMED, BLOG),
        ("session-ids", UNNAMED, CHAIRS),
        ("session-ids", ARGUMENT, CHAIRS),
        ("combined-arguments", FACETS, ARTICLES),
        ("combined-arguments", FACETS, SEARCHES),
        ("future-dates", MONTHS, FORECASTS),
        ("permuted-segments", PERMUTED, HELP),
    ],
)
def test_a_rule_rejects_the_trap_and_leaves_the_honest_part_of_the_host_alone(
    code: str, trap: list[tuple[str, str]], honest: list[str]
) -> None:
    """The evidence counts the URLs that the rule rejects, all of the trap, and shows one of them."""
    found = sample(trap, honest)
    (sign,) = [one for one in url_signs(found, NOW) if one.code == code]
    rejected = [uri.url for uri in found if re.search(sign.pattern, uri.url)]
    assert rejected == [uri.url for uri in found[: len(trap)]]
    assert sign.pattern and sign.example in rejected
    assert sign.text.startswith(f"{len(rejected)} of {len(found)} URLs ")


def test_a_rule_that_would_reject_others_is_not_proposed() -> None:
    """Names of chairs have the length and the characters of the ids, and the same text behind them."""
    chairs = [f"/shop/chairmodelofoakwood{1000 + n}/items" for n in range(60)]
    trap = [
        (f"/shop/{token(n, 16 + n % 9)}xyz/item{n % 40}", f"/shop/{token(n + 999, 16)}xyz/item1") for n in range(240)
    ]
    found = sample(trap, chairs)
    (sign,) = url_signs(found, NOW)
    assert (sign.code, sign.pattern) == ("session-ids", "")
    assert sign.text.startswith("240 of 300 URLs ") and "chair" not in sign.example


TABS = ("overview", "specs", "reviews", "images", "faq", "similar", "support", "warranty")


def products(known: bool) -> list[CrawlUri]:
    """Return pages of forty products under ids, each found on the page of another product if that is `known`."""
    pages = [f"/product/{token(n, 32)}/{tab}" for n in range(40) for tab in TABS]
    others = [f"http://a.test/product/{token(n * 7 % 97 + 100, 32)}/overview" for n in range(len(pages))]
    return [
        CrawlUri(f"http://a.test{path}", via=via if known else None) for path, via in zip(pages, others, strict=True)
    ]


@pytest.mark.parametrize(("known", "repeated"), [(True, 0.0), (True, None), (False, 0.0)])
def test_ids_of_things_are_none_of_sessions(known: bool, repeated: float | None) -> None:
    """They come on several pages; or their contents differ, and nothing else is known."""
    found = [*products(known), *(CrawlUri(f"http://a.test/help/{topic}") for topic in range(10))]
    assert url_signs(found, NOW, repeated) == []


@pytest.mark.parametrize("repeated", [None, 0.0, 0.9])
def test_ids_that_are_made_for_a_page_are_those_of_sessions_though_its_content_has_them(repeated: float | None) -> None:
    trap = [(f"/s{token(n, 16)}/item/{(n + step) % 30}", f"/s{token(n + 999, 16)}/item/{n % 30}")
            for n in range(60) for step in range(4)]  # fmt: skip
    (sign,) = url_signs(sample(trap, []), NOW, repeated)
    assert sign.code == "session-ids" and sign.share == 1 and sign.pattern
