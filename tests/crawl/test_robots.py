"""Robots rules: what is asked, when, and what comes of each answer."""

from __future__ import annotations

import asyncio

import pytest

from budgetfrontier.crawl.fetch.answer import BROKEN, CONNECT_FAILED, Answer
from budgetfrontier.crawl.robots import Robots, Verdict, is_robots, site_of
from budgetfrontier.model import CrawlUri, Directive, Lease, Outcome

PAGE = "http://example.org/private/a"
ROBOTS = "http://example.org/robots.txt"


def lease(url: str = PAGE, *, hops: str = "L") -> Lease:
    return Lease(id=1, queue="example.org", uri=CrawlUri(url, hops=hops), cost=1, expires=0.0, delivery=1)


def robots(*, status: int = 200, body: bytes = b"", agent: str = "ExampleBot/1.0 (+https://example.org/bot)") -> Robots:
    made = Robots(agent)
    made.record(ROBOTS, Answer(status=status, body=body))
    return made


def verdict(made: Robots, url: str = PAGE, *, patience: float = 0.05) -> Verdict:
    return asyncio.run(made.verdict(url, patience=patience))


def test_it_is_asked_once_for_each_authority_as_a_free_prerequisite() -> None:
    made = Robots("ExampleBot/1.0")
    asked = made.prerequisite(lease("http://user@example.org:8080/a?b"))
    assert asked is not None
    assert (asked.url, asked.via, asked.hops) == (
        "http://example.org:8080/robots.txt",
        "http://user@example.org:8080/a?b",
        "LP",
    )
    assert (asked.directive, asked.cost, asked.force, asked.queue) == (Directive.HIGHEST, 0, True, "example.org")
    assert is_robots(asked)
    made.expect(asked.url)
    assert made.prerequisite(lease("http://example.org:8080/other")) is None
    assert made.prerequisite(lease("https://example.org:8080/a")) is not None


def test_a_page_named_robots_is_a_page() -> None:
    assert not is_robots(CrawlUri(ROBOTS, hops="L"))
    assert not is_robots(CrawlUri("http://example.org/a", hops="LP"))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"User-agent: *\nDisallow: /private", Verdict.DISALLOWED),
        (b"User-agent: examplebot\nDisallow:\n\nUser-agent: *\nDisallow: /", Verdict.ALLOWED),
        (b"User-agent: ExampleBot\nDisallow: /*/a$\n", Verdict.DISALLOWED),
        (b"User-agent: bot\nDisallow: /", Verdict.ALLOWED),  # "bot" stands in the comment only
        (b"\xff\xfe\x00 nonsense", Verdict.ALLOWED),
        (b"", Verdict.ALLOWED),
    ],
)
def test_rules(body: bytes, expected: Verdict) -> None:
    assert verdict(robots(body=body)) is expected


def test_crawl_delay() -> None:
    assert robots(body=b"User-agent: *\nCrawl-delay: 4.5").delay(PAGE) == 4.5
    assert robots(body=b"User-agent: *\nCrawl-delay: inf").delay(PAGE) is None
    assert robots(body=b"").delay(PAGE) is None
    assert Robots("a").delay(PAGE) is None


@pytest.mark.parametrize("status", [401, 404, 410])
def test_no_robots_txt_allows_everything(status: int) -> None:
    made = Robots("ExampleBot")
    assert made.record(ROBOTS, Answer(status=status, body=b"User-agent: *\nDisallow: /")) is Outcome.SUCCESS
    assert verdict(made) is Verdict.ALLOWED


@pytest.mark.parametrize("status", [CONNECT_FAILED, 429, 500, 503])
def test_one_that_does_not_answer_is_retried_and_pages_wait(status: int) -> None:
    made = Robots("ExampleBot")
    assert made.record(ROBOTS, Answer(status=status)) is Outcome.RETRY
    assert verdict(made) is Verdict.LATER
    assert made.prerequisite(lease()) is None
    made.give_up(ROBOTS)
    assert verdict(made) is Verdict.UNREACHABLE


def test_a_broken_one_is_given_up_at_once() -> None:
    made = Robots("ExampleBot")
    assert made.record(ROBOTS, Answer(status=BROKEN)) is Outcome.DEAD  # a dead letter, so that it can be replayed
    assert verdict(made) is Verdict.UNREACHABLE


def test_a_replayed_one_is_waited_for_again() -> None:
    made = Robots("ExampleBot")
    made.give_up(ROBOTS)
    made.expect(ROBOTS)
    assert verdict(made) is Verdict.LATER
    made.record(ROBOTS, Answer(status=200))
    assert verdict(made) is Verdict.ALLOWED


def test_pages_wait_for_one_that_is_on_its_way() -> None:
    async def run() -> Verdict:
        made = Robots("ExampleBot")
        made.expect(ROBOTS)
        waiting = asyncio.create_task(made.verdict(PAGE, patience=5.0))
        await asyncio.sleep(0)
        made.record(ROBOTS, Answer(status=200))
        return await waiting

    assert asyncio.run(run()) is Verdict.ALLOWED


def test_one_that_never_comes_is_asked_for_again() -> None:
    made = Robots("ExampleBot")
    made.expect(ROBOTS)
    assert verdict(made, patience=0.01) is Verdict.LATER
    assert made.prerequisite(lease()) is not None


def test_rules_age_and_memory_is_bounded() -> None:
    now = [0.0]
    made = Robots("ExampleBot", lifetime=10.0, limit=3, now=lambda: now[0])
    made.record(ROBOTS, Answer(status=200))
    now[0] = 9.0
    assert made.prerequisite(lease()) is None
    now[0] = 10.0
    assert made.prerequisite(lease()) is not None
    for number in range(10):
        made.record(f"http://h{number}.test/robots.txt", Answer(status=200))
    known = [n for n in range(10) if made.prerequisite(lease(f"http://h{n}.test/")) is None]
    assert known == [7, 8, 9]


def test_site_of() -> None:
    assert site_of("https://u:p@example.org:8443/a") == "https://example.org:8443"
