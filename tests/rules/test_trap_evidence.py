"""Evidence of crawler traps: what is weak names no queue, and rules reject just what a sign counts."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.rules import trap_evidence
from budgetfrontier.rules.trap_evidence import Evidence, QueueNumbers
from budgetfrontier.rules.trap_samples import UrlSign
from budgetfrontier.rules.trap_urls import url_signs
from budgetfrontier.settings.scope_rules import check_rule

NOW = 1_795_000_000.0  # in November 2026
FACETS = ("red", "xl", "wool", "new", "short")
counts = st.integers(0, 10**9)
parts = st.sampled_from(
    [
        "a",
        "b",
        "news",
        "2031",
        "04",
        "2024",
        "7",
        "x{0}",
        "NN",
        "sid-4f9a1c77be20",
        "s",
        "%E6",
        "red",
        "é",
        ".",
    ]
)
urls = st.builds(
    "http://a.test/{}?{}".format,
    st.lists(parts, max_size=8).map("/".join),
    st.lists(st.builds("{}={}".format, parts, parts), max_size=5).map("&".join),
)


def signs(paths: list[str]) -> list[str]:
    return [one.code for one in url_signs([CrawlUri(f"http://a.test{path}") for path in paths], NOW)]


@given(counts, counts, st.floats(0, 1e9), counts, st.none() | st.floats(0, 1e4), st.none() | st.floats(0, 1))
def test_weak_evidence_alone_names_no_queue(
    queued: int, finished: int, average_cost: float, pages: int, links: float | None, novel: float | None
) -> None:
    numbers = QueueNumbers(queued, finished, average_cost, pages, links, novel)
    evidence = trap_evidence.by_numbers(numbers) + trap_evidence.by_urls([UrlSign("depth", 1.0, "", "")])
    assert all(0 < one.score < trap_evidence.SUSPICIOUS for one in evidence)
    assert trap_evidence.score(evidence) < trap_evidence.SUSPICIOUS
    assert trap_evidence.interest(numbers) >= 0


@given(st.lists(st.floats(0, 1)))
def test_more_evidence_never_lowers_the_score(scores: list[float]) -> None:
    evidence = [Evidence("", score, "") for score in scores]
    found = [trap_evidence.score(evidence[:count]) for count in range(len(evidence) + 1)]
    assert all(before <= after + 1e-9 for before, after in pairwise(found))
    assert found[0] >= -1e-9 and found[-1] <= 1 + 1e-9


@given(st.lists(urls, max_size=60))
def test_rules_are_valid_and_reject_the_share_that_is_told(drawn: list[str]) -> None:
    hrefs = []
    for url in drawn:
        try:
            hrefs.append(uris.parse(url))
        except InvalidUrl:
            continue
    found_signs = url_signs([CrawlUri(href) for href in hrefs], NOW)
    for sign in found_signs:
        assert 0 < sign.share <= 1 and sign.example in hrefs
        if sign.pattern:
            check_rule(f"regex:{sign.pattern}")
            assert not re.search(sign.pattern, "http://b.test" + sign.example.removeprefix("http://a.test"))
            if sign.code != "permuted-segments":  # whose rule rejects others of the same facets, too
                assert sum(bool(re.search(sign.pattern, href)) for href in hrefs) / len(hrefs) == sign.share
    for one in trap_evidence.by_urls(found_signs):
        assert one.code == "depth" or one.score >= trap_evidence.SUSPICIOUS


@pytest.mark.parametrize(
    ("code", "paths"),
    [
        ("repeated-segments", [f"/a/b/a/b/{n}" for n in range(20)]),
        ("repeated-segments", [f"/img/{n}/img/x/img/" for n in range(20)]),
        ("permuted-segments", [f"/shop/{a}/{b}" for a in FACETS for b in FACETS]),
        (
            "combined-arguments",
            [f"/l?f[0]=a{n % 5}&f[1]=b{n // 5 % 4}&f[2]=c{n // 20 % 3}" + "&f[3]=d" * (n // 60) for n in range(240)],
        ),
        ("session-ids", [f"/p{n % 5}?sid={n * 7919}" for n in range(40)]),
        ("session-ids", [f"/sid-{n:04d}a1b2c3d4/p{n % 5}" for n in range(40)]),
        ("future-dates", [f"/calendar/{year}/04" for year in range(2020, 2040)]),
        ("future-dates", [f"/cal?date={year}-04-01" for year in range(2020, 2040)]),
        ("future-dates", [f"/cal/{year}0401" for year in range(2020, 2040)]),
        ("future-dates", [f"/venue/hall-{n}/month/{2030 + n}/4" for n in range(20)]),
        ("future-dates", [f"/{2030 + n}/{1 + n % 12:02d}/" for n in range(20)]),
        ("future-dates", [f"/tours/{2030 + n}-{1 + n % 12:02d}-{1 + n % 30}" for n in range(20)]),
    ],
)
def test_signs(code: str, paths: list[str]) -> None:
    assert code in signs(paths)


@pytest.mark.parametrize(
    "paths",
    [
        [f"/{1950 + n % 76}/{1 + n % 12:02d}/{1 + n % 28:02d}/" for n in range(300)],
        [f"/day?year={1950 + n % 76}&month={1 + n % 12}&day={1 + n % 28}" for n in range(300)],
        [f"/object/{number}" for number in range(1, 5000, 17)],
        [f"/object/{number}/images" for number in range(1, 5000, 17)],
        [f"/object/{number * 2654435761 % 2**48:012x}/{what}" for number in range(60) for what in ("images", "text")],
        [f"/index.php?title=A{n}&action=history&limit=50" for n in range(100)],
        [f"/thread/{n}?page={page}" for n in range(30) for page in range(5)],
        [f"/line/{number}/{stop:02d}" for number in range(2001, 2100) for stop in range(1, 13)],
        [f"/line/{number}-{stop}" for number in range(2001, 2100) for stop in range(1, 13)],
        [f"/item/{number}" for number in range(2031, 2100)],
        [f"/thread/{number}/" for number in range(2031, 2100)],
        [f"/thread/{number}/{page}" for number in range(2031, 2100) for page in range(1, 4)],
        [f"/catalogue/{number}.{part:02d}" for number in range(2031, 2100) for part in range(1, 6)],
        [f"/inventory?number={number}-{part}" for number in range(2031, 2100) for part in range(1, 6)],
        [f"/s/{n * 2654435761 % 2**48:012x}" for n in range(60)],
        [f"/event/{n}/the-2030-plan" for n in range(60)],
        [f"/en/topic-{n}/en/page" for n in range(60)],
        [f"/?s=word{n}" for n in range(60)],
    ],
)
def test_honest_paths_have_none(paths: list[str]) -> None:
    assert signs(paths) == []


def test_the_host_with_most_signs_is_told_of_in_a_queue_of_several() -> None:
    """Queues by domain or address hold URLs of several hosts; the rule is about one of them."""
    good = [CrawlUri(f"http://b.test/{n}") for n in range(50)]
    (sign,) = url_signs([*good, *(CrawlUri(f"http://a.test/calendar/{year}/04") for year in range(2028, 2048))], NOW)
    assert sign.share == 1 and sign.pattern.startswith(r"^https?://a\.test")


def found(path: str, via: str | None, hops: int = 3) -> CrawlUri:
    return CrawlUri(f"http://a.test{path}", via=via and f"http://a.test{via}", hops="L" * hops)


MONTHS = [(2028 + n // 12, 1 + n % 12) for n in range(30)]


@pytest.mark.parametrize(
    "uris_found",
    [
        [found(f"/cal/{y}/{m}/", "/") for y, m in MONTHS],
        [found(f"/cal/{y}/{m}/", f"/cal/{y}/") for y, m in MONTHS],
        [found(f"/cal/{y}-{m}-1", f"/cal?y={y}&m={m}") for y, m in MONTHS],
        [found(f"/cal?m={m}&y={y}&kind=a", f"/cal?m={m}&y={y}&kind=b") for y, m in MONTHS],
        [found(f"/cal/{y}/{m}/", f"/list?page={m}", 40) for y, m in MONTHS],
        [found("/cal/2031/04/", None, 0)],
        [found("/cal/2031/04/", "/cal/2031/03/", 11)],
        [found("/cal/2031/04/", "/list?page=30", 30)],
        [found("/cal/2027/04/", "/cal/2027/03/", 30)],
        [found("/item/2931", "/item/2930", 30)],
        [found(f"/book/{n // 10 * 2654435761:016x}a1/page/{n % 10}", "/list/1") for n in range(90)],
        [found(f"/book/{n:04d}a1b2c3d4/page/{n % 10}", f"/book/{n:04d}a1b2c3d4/page/1") for n in range(90)],
        [],
    ],
)
def test_what_an_index_leads_to_has_none(uris_found: list[CrawlUri]) -> None:
    assert url_signs(uris_found, NOW) == []


@pytest.mark.parametrize(
    ("code", "uris_found"),
    [
        ("future-dates", [found(f"/cal/{y}/{m}/", f"/cal/{y}/{m - 1}/") for y, m in MONTHS]),
        ("future-dates", [found(f"/cal?m={m}&y={y}", f"/cal?m={m - 1}&y={y}") for y, m in MONTHS]),
        ("future-dates", [found(f"/cal/{y}{m:02d}02", f"/cal/{y}{m:02d}01") for y, m in MONTHS]),
        ("future-dates", [found(f"/cal/{y}/{m}/1", f"/cal/{y}/{m}", 20) for y, m in MONTHS]),
        ("future-dates", [found(f"/cal/{y}/{m}/", None, 0) for y, m in MONTHS]),
        ("future-dates", [found("/cal/2031/04/", "/cal/2031/03/", 53)]),
        ("future-dates", [found("/cal?date=2031-04-01", "/cal?date=2031-03-31", 400), found("/about", "/", 1)]),
        ("repeated-segments", [found("/a/b/a/b/a/b/", "/a/b/a/b/", 12)]),
        ("session-ids", [found(f"/v{n:04d}a1b2c3d4/p{n % 6}", f"/v{n - 1:04d}a1b2c3d4/p1") for n in range(40)]),
        ("session-ids", [found(f"/v{n:04d}a1b2c3d4/p{n % 12}", None) for n in range(40)]),
    ],
)
def test_what_leads_on_without_end_has_a_sign(code: str, uris_found: list[CrawlUri]) -> None:
    (sign,) = url_signs(uris_found, NOW)
    assert sign.code == code and sign.share >= 0.5


def test_a_calendar_that_holds_one_uri_is_read_before_queues_that_grow() -> None:
    one = trap_evidence.interest(QueueNumbers(1, 300, is_far=True))
    assert one > trap_evidence.interest(QueueNumbers(1200, 300)) > trap_evidence.interest(QueueNumbers(1, 300))


@pytest.mark.parametrize("via", ["", "x", "http://", "http://a.test", "///", "2031/04", "\ud800/2031/04", "a" * 5000])
def test_any_text_may_be_the_page_that_a_uri_was_found_on(via: str) -> None:
    paths = [*(f"/cal/{y}/{m}/" for y, m in MONTHS), *(f"/v{n:04d}a1b2c3d4/p{n % 12}" for n in range(40))]
    for count in (1, len(paths)):
        assert isinstance(url_signs([CrawlUri(f"http://a.test{path}", via=via) for path in paths[:count]], NOW), list)


@pytest.mark.parametrize(
    "path", ["/a" * 500, "/" + "a" * 998, "/a/b" * 240 + "/c", "/" + "2031/04" * 140, "/s-1" * 240]
)
def test_hostile_urls_are_looked_at_in_bounded_time(path: str) -> None:
    """A search that backtracks would take years."""
    assert isinstance(signs([f"{path}{n}" for n in range(30)]), list)
