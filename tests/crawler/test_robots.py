"""Robots rules: what is asked, when, what comes of each answer, and what hostile files can do."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.core.model import CrawlUri, Directive, Lease, Outcome
from budgetfrontier.core.uris import site_of
from budgetfrontier.crawler import robots as module
from budgetfrontier.crawler.cache import CrawlCache, StoredRobots
from budgetfrontier.crawler.fetch.response import BROKEN, CONNECT_FAILED, FetchResult
from budgetfrontier.crawler.prerequisites import is_robots, robots_uri
from budgetfrontier.crawler.robots import LIFETIME, STALE_LIFETIME, Permission, Robots
from budgetfrontier.crawler.robots_txt import MAX_BODY, group_for
from budgetfrontier.settings.robots_name import robots_name
from budgetfrontier.storage.backup import CACHE
from tests.crawler.hostile import HostileWeb, page, says
from tests.crawler.process import started
from tests.crawler.site import Page, Site, linking, redirect, reopened, run, text
from tests.support import PATIENCE, until

PAGE = "http://example.org/private/a"
ROBOTS = "http://example.org/robots.txt"
PRIVATE = b"User-agent: *\nDisallow: /private\n"

Make = Callable[..., Robots]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[CrawlCache]:
    with closing(CrawlCache(tmp_path / "crawl")) as made:
        yield made


class Now:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def make(cache: CrawlCache, now: Now) -> Make:
    """Makes Robots of a crawl, all with the same memory on disk and the same clock."""
    return lambda agent="ExampleBot", **options: Robots(agent, cache=cache, now=now, **options)


def lease(url: str = PAGE, *, hops: str = "L") -> Lease:
    return Lease(id=1, queue="example.org", uri=CrawlUri(url, hops=hops), cost=1, expires=0.0, delivery=1)


def verdict(made: Robots, url: str = PAGE, *, patience: float = 0.05) -> Permission:
    return asyncio.run(asyncio.wait_for(made.permission(url, patience=patience), PATIENCE))


def ask(made: Robots, body: bytes, *paths: str) -> list[bool]:
    """Which of these paths a robots.txt allows."""
    made.record(ROBOTS, FetchResult(status=200, body=body))
    return [verdict(made, f"http://example.org{path}") is Permission.ALLOWED for path in paths]


# -- What is asked, and when


def test_it_is_asked_once_for_each_authority_as_a_free_prerequisite(make: Make) -> None:
    made = make()
    assert made.is_needed("http://user@example.org:8080/a?b")
    asked = robots_uri(lease("http://user@example.org:8080/a?b"))
    assert (asked.url, asked.via, asked.hops) == (
        "http://example.org:8080/robots.txt",
        "http://user@example.org:8080/a?b",
        "LP",
    )
    assert (asked.directive, asked.cost, asked.force, asked.queue) == (Directive.HIGHEST, 0, True, "example.org")
    assert is_robots(asked)
    made.expect(asked.url)
    assert not made.is_needed("http://example.org:8080/other")
    assert made.is_needed("https://example.org:8080/a")


def test_a_page_named_robots_is_a_page() -> None:
    assert not is_robots(CrawlUri(ROBOTS, hops="L"))
    assert not is_robots(CrawlUri("http://example.org/a", hops="LP"))


def test_site_of() -> None:
    assert site_of("https://u:p@example.org:8443/a") == "https://example.org:8443"


def test_rules_count_for_a_day(make: Make, now: Now) -> None:
    made = make()
    made.record(ROBOTS, FetchResult(status=200))
    now.time += LIFETIME - 1
    assert not made.is_needed(PAGE) and made.has_rules(PAGE)
    now.time += 1
    assert made.is_needed(PAGE) and not made.has_rules(PAGE)


@pytest.mark.parametrize("status", [200, 404])
def test_they_outlive_the_process(make: Make, cache: CrawlCache, now: Now, tmp_path: Path, status: int) -> None:
    make().record(ROBOTS, FetchResult(status=status, body=PRIVATE))
    cache.commit()
    cache.close()
    now.time += LIFETIME - 1
    with closing(CrawlCache(tmp_path / "crawl")) as reopened:
        made = Robots("ExampleBot", cache=reopened, now=now)
        assert made.has_rules(ROBOTS) and not made.is_needed(PAGE)
        assert verdict(made) is (Permission.DISALLOWED if status == 200 else Permission.ALLOWED)
        now.time += 1
        assert made.is_needed(PAGE)


def test_another_user_agent_reads_what_was_fetched_anew(make: Make) -> None:
    make("ExampleBot").record(ROBOTS, FetchResult(status=200, body=b"User-agent: ExampleBot\nDisallow: /"))
    assert verdict(make("ExampleBot")) is Permission.DISALLOWED
    assert verdict(make("OtherBot")) is Permission.ALLOWED


def test_rules_from_a_clock_that_was_wrong_do_not_count(make: Make, now: Now) -> None:
    now.time += 10 * LIFETIME
    make().record(ROBOTS, FetchResult(status=200))
    now.time -= 10 * LIFETIME
    assert make().is_needed(PAGE)


def test_sites_that_are_not_met_take_no_memory_but_are_still_known(
    make: Make, now: Now, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    robots = CrawlCache.robots

    def counted(cache: CrawlCache, key: str) -> StoredRobots | None:
        read.append(key)
        return robots(cache, key)

    monkeypatch.setattr(CrawlCache, "robots", counted)
    made = make(limit=20_000)
    sites = [f"http://h{number}.test" for number in range(100)]
    for site in sites:
        made.record(f"{site}/robots.txt", FetchResult(status=200, body=PRIVATE))
    for order in sites, sites[::-1], sites:
        read.clear()
        assert not any(made.is_needed(f"{site}/") for site in order)
        assert 90 < len(read) <= 100  # few are in memory
        read.clear()
        assert not made.is_needed(f"{order[-1]}/") and read == []
    assert verdict(made, "http://h50.test/private") is Permission.DISALLOWED
    now.time += LIFETIME
    assert all(made.is_needed(f"{site}/") for site in sites)  # nobody waits for one


def test_sites_that_are_waited_for_are_bounded(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_WAITED_FOR", 3)
    made = make()
    for number in range(10):
        made.expect(f"http://h{number}.test/robots.txt")
    awaited = [number for number in range(10) if not made.is_needed(f"http://h{number}.test/")]
    assert awaited == [7, 8, 9]


# -- What an answer means


@pytest.mark.parametrize("status", [204, 301, 304, 401, 403, 404, 410, 451])
def test_no_robots_txt_allows_everything(make: Make, status: int) -> None:
    made = make()
    assert made.record(ROBOTS, FetchResult(status=status, body=b"" if status == 204 else PRIVATE)) is Outcome.SUCCESS
    assert verdict(made) is Permission.ALLOWED


FAILING = [
    FetchResult(status=CONNECT_FAILED),
    FetchResult(status=429),
    FetchResult(status=500),
    FetchResult(status=503),
    FetchResult(status=200, notes=["timeTrunc"]),
    FetchResult(status=200, notes=["connTrunc"]),
]


@pytest.mark.parametrize("answer", FAILING)
def test_one_that_does_not_answer_is_retried_and_pages_wait(make: Make, now: Now, answer: FetchResult) -> None:
    made = make()
    assert made.record(ROBOTS, answer) is Outcome.RETRY
    assert verdict(made, patience=60.0) is Permission.LATER
    assert not made.is_needed(PAGE)
    made.give_up(ROBOTS, "status 500")
    assert verdict(made) is Permission.UNREACHABLE and made.failure(PAGE) == "status 500"
    now.time += LIFETIME
    assert verdict(made) is Permission.LATER and made.failure(PAGE) == ""
    assert made.is_needed(PAGE)


@pytest.mark.parametrize("answer", [*FAILING, FetchResult(status=BROKEN)])
def test_what_it_said_goes_on_to_count_while_it_does_not_answer(make: Make, now: Now, answer: FetchResult) -> None:
    made = make()
    made.record(ROBOTS, FetchResult(status=200, body=PRIVATE))
    now.time += 2 * LIFETIME
    assert made.is_needed(PAGE)
    made.expect(ROBOTS)
    assert made.record(ROBOTS, answer) is Outcome.SUCCESS
    assert verdict(made) is Permission.DISALLOWED
    assert verdict(made, "http://example.org/") is Permission.ALLOWED
    now.time += STALE_LIFETIME
    assert made.is_needed(PAGE)


def test_that_there_was_none_does_not_count_for_longer(make: Make, now: Now) -> None:
    made = make()
    made.record(ROBOTS, FetchResult(status=404))
    now.time += LIFETIME
    assert made.record(ROBOTS, FetchResult(status=503)) is Outcome.RETRY
    assert verdict(made) is Permission.LATER


def test_a_broken_one_is_given_up_at_once(make: Make) -> None:
    made = make()
    assert made.record(ROBOTS, FetchResult(status=BROKEN)) is Outcome.DEAD  # a dead letter, so that it can be replayed
    assert verdict(made) is Permission.UNREACHABLE


def test_a_replayed_one_is_waited_for_again(make: Make) -> None:
    made = make()
    made.give_up(ROBOTS, "status 500")
    made.expect(ROBOTS)
    assert verdict(made) is Permission.LATER
    made.record(ROBOTS, FetchResult(status=200))
    assert verdict(made) is Permission.ALLOWED


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (lambda made: made.record(ROBOTS, FetchResult(status=200)), Permission.ALLOWED),
        (lambda made: made.record(ROBOTS, FetchResult(status=500)), Permission.LATER),
        (lambda made: made.give_up(ROBOTS, "status 500"), Permission.UNREACHABLE),
    ],
)
def test_pages_wait_for_one_that_is_on_its_way(
    make: Make, end: Callable[[Robots], object], expected: Permission
) -> None:
    async def run() -> list[Permission]:
        made = make()
        made.expect(ROBOTS)
        waiting = [asyncio.create_task(made.permission(PAGE, patience=60.0)) for _ in range(3)]
        await asyncio.sleep(0)
        end(made)
        return await asyncio.wait_for(asyncio.gather(*waiting), PATIENCE)

    assert asyncio.run(run()) == [expected] * 3


def test_one_that_never_comes_is_asked_for_again(make: Make) -> None:
    made = make()
    made.expect(ROBOTS)
    assert verdict(made, patience=0.01) is Permission.LATER
    assert made.is_needed(PAGE)


def test_a_page_that_is_cancelled_while_its_robots_txt_comes_stays_cancelled(make: Make) -> None:
    async def run(steps: int) -> bool:
        made = make()
        made.expect(ROBOTS)
        waiting = asyncio.create_task(made.permission(PAGE, patience=60.0))
        await asyncio.sleep(0)
        made.record(ROBOTS, FetchResult(status=200))
        for _ in range(steps):
            await asyncio.sleep(0)
        under_way = waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled() is under_way

    assert [asyncio.run(run(steps)) for steps in range(6)] == [True] * 6


# -- What a robots.txt says


def test_the_delay_of_the_group_counts(make: Make) -> None:
    def delay(text: str) -> float | None:
        return group_for("examplebot", text.encode()).delay

    assert delay("User-agent: *\nCrawl-delay: 4.5") == 4.5
    assert delay("User-agent: *\nCrawl-delay: 4\nUser-agent: examplebot\ncrawl delay: 0 # none") == 0.0
    assert delay("User-agent: *\nCrawl-delay: 4\nUser-agent: examplebot\nDisallow: /") is None
    for bad in "inf", "nan", "-1", "soon", "":
        assert delay(f"User-agent: *\nCrawl-delay: {bad}") is None
    made = make()
    assert made.delay(PAGE) is None
    made.record(ROBOTS, FetchResult(status=200, body=b"User-agent: *\nCrawl-delay: 2"))
    assert made.delay(PAGE) == 2.0


# -- Large and hostile


def filled(line: str, *, head: str = "User-agent: *\n", size: int = MAX_BODY) -> bytes:
    """A robots.txt as large as is read, of lines "Disallow: /{n}"."""
    lines, left, number = [head], size - len(head), 0
    while (left := left - len(text := line.format(n=number) + "\n")) >= 0:
        lines.append(text)
        number += 1
    return "".join(lines).encode()


def test_what_comes_after_the_limit_does_not_count(make: Make) -> None:
    last = b"Disallow: /last\n"
    body = filled("# nothing", size=MAX_BODY - len(last))
    body = body[:-1] + b"#" * (MAX_BODY - len(last) - len(body)) + b"\n" + last
    assert len(body) == MAX_BODY
    assert ask(make(), body, "/last") == [False]
    assert ask(make(), body + b"Disallow: /late", "/last", "/late") == [False, True]
    assert ask(make(), b"#" + body, "/last", "/la") == [True, True]  # cut in the middle of its last line
    cut = FetchResult(status=200, body=b"User-agent: *\nDisallow: /a\nDisallow: /", notes=["lenTrunc"])
    made = make()
    made.record(ROBOTS, cut)
    assert verdict(made, "http://example.org/b") is Permission.ALLOWED
    assert ask(make(), b"x" * (MAX_BODY + 1), "/") == [True]


LONG = "/" + "a" * 8000


@pytest.mark.parametrize(
    ("line", "paths", "allowed"),
    [
        ("Disallow: /*a*a*a*a*b", [LONG, LONG + "b"], [True, False]),
        ("Disallow: /*a*a*a*a*b{n}", [LONG, LONG + "b7"], [True, False]),
        ("Disallow: /*" + "a" * 50 + "b{n}$", [LONG, LONG + "b7"], [True, False]),
        ("Disallow: /dir/{n}/", ["/dir/7/a", "/dir/x"], [False, True]),
        ("Disallow: /%{n}%e9*$", ["/a"], [True]),
        ("User-agent: {n}", ["/a"], [True]),
        ("User-agent: {n}\nDisallow: /", ["/a"], [False]),
        ("Disallow: /" + "*a" * 200_000, ["/a", LONG], [True, True]),
    ],
)
def test_hostile_files_are_read_and_matched_in_bounded_time(
    make: Make, line: str, paths: list[str], allowed: list[bool]
) -> None:
    assert ask(make(), filled(line), *paths) == allowed  # a matcher that tries all ways would never end


def test_thousands_of_groups_with_thousands_of_rules_do_not_multiply() -> None:
    half = MAX_BODY // 2
    body = filled("User-agent: {n}\nUser-agent: *", head="", size=half) + filled("Disallow: /{n}", head="", size=half)
    group = group_for("examplebot", body)
    assert len(group.rules) < half
    assert group.rules.count("\n") > 10_000


def test_the_same_rule_counts_once() -> None:
    assert group_for("examplebot", filled("Disallow: /a")).rules == "Disallow:/a"


def test_large_files_are_read_beside_the_event_loop(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[object] = []

    async def beside(work: Callable[[], bool]) -> bool:
        threads.append(work)
        return work()

    monkeypatch.setattr(module, "in_thread", beside)
    made = make()
    assert ask(made, PRIVATE, "/") == [True] and not threads
    assert ask(made, filled("Disallow: /{n}"), "/") == [True] and len(threads) == 1


# -- Over a real socket


def hostile(web: HostileWeb, *seeds: str) -> Settings:
    """Settings of a crawl of hostile hosts."""
    frontier = {"politeness": {"min_delay": 0.0, "max_delay": 0.0}, "retry": {"max_retries": 1, "delay": 0.0}}
    fetch = {"resolve": {"*.test": web.address}, "timeout": PATIENCE}
    return Settings.from_dict({"crawl": "test", "seeds": list(seeds), "frontier": frontier, "fetch": fetch})


def test_one_of_100_mb_is_not_read_to_its_end(tmp_path: Path) -> None:
    sent: list[int] = []
    rules = b"Disallow: /no\n" * 5000

    async def host(path: str, writer: asyncio.StreamWriter) -> None:
        if path != "/robots.txt":
            writer.write(page())
            return
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nUser-agent: *\n")
        for _ in range(100_000_000 // len(rules)):
            writer.write(rules)
            await writer.drain()
            sent.append(len(rules))

    host.has_robots = True  # type: ignore[attr-defined]
    with HostileWeb({"a.test": host}) as web:
        run(hostile(web, "http://a.test/no", "http://a.test/yes"), tmp_path)
    assert web.hits == {"a.test/robots.txt": 1, "a.test/yes": 1}
    assert sum(sent) < 30_000_000  # the limit, and what lay in the buffers of two sockets


def test_a_host_that_never_gives_its_robots_txt_holds_up_nobody(tmp_path: Path) -> None:
    async def silent(path: str, writer: asyncio.StreamWriter) -> None:
        while not web.hits["a.test/"]:  # then it hangs up, which comes to the same as a time-out
            await asyncio.sleep(0.01)

    silent.has_robots = True  # type: ignore[attr-defined]
    with HostileWeb({"silent.test": silent, "a.test": says(page())}) as web:
        code, _ = run(hostile(web, "http://silent.test/1", "http://silent.test/2", "http://a.test/"), tmp_path)
    assert code == 0
    assert set(web.hits) == {"silent.test/robots.txt", "a.test/robots.txt", "a.test/"}
    with reopened(tmp_path) as frontier:
        assert frontier.summary().queued == 0
        assert sorted(letter.uri.url for letter in frontier.dead_letters()) == [
            "http://silent.test/1",
            "http://silent.test/2",
            "http://silent.test/robots.txt",
        ]


@pytest.mark.parametrize(("redirects", "obeyed"), [(5, True), (6, False)])
def test_five_redirects_are_followed_across_hosts_and_a_sixth_means_none(
    tmp_path: Path, redirects: int, obeyed: bool
) -> None:
    pages: dict[str, Page] = {"h0.test/robots.txt": redirect("http://h1.test/1")}
    pages |= {f"h{n}.test/{n}": redirect(f"http://h{n + 1}.test/{n + 1}") for n in range(1, redirects)}
    pages[f"h{redirects}.test/{redirects}"] = text("User-agent: *\nDisallow: /private")
    with Site(pages) as site:
        run(site.settings("http://h0.test/private"), tmp_path)
    assert site.hits["h0.test/private"] == (not obeyed)
    assert (sum(site.hits.values()) - (not obeyed)) == 6


def test_one_that_leads_to_itself_means_none(tmp_path: Path) -> None:
    with Site({"a.test/robots.txt": redirect("/robots.txt"), "a.test/": "home"}) as site:
        run(site.settings("http://a.test/"), tmp_path)
    assert site.hits == {"a.test/robots.txt": 1, "a.test/": 1}  # where it leads is known from then on


def test_it_is_asked_once_in_a_day_though_the_crawl_is_killed(tmp_path: Path) -> None:
    pages: dict[str, Page] = {"a.test/robots.txt": text("User-agent: *\nDisallow: /private")}
    pages["a.test/"] = linking("/private", *(f"/{number}" for number in range(200)))
    frontier = {"commit_interval": "50ms", "politeness": {"min_delay": "10ms", "delay_factor": 0, "max_delay": "1s"}}
    with Site(pages) as site:
        fetch = {"robots": True, "concurrency": 4, "resolve": {"*.test": site.address}}
        for kill in range(1, 3):
            site.bound = 50 * kill + 10
            with started(site, tmp_path, "http://a.test/", frontier=frontier, fetch=fetch) as process:
                until(lambda kill=kill: sum(site.hits.values()) > 50 * kill, process)  # type: ignore[misc]
                process.send_signal(signal.SIGKILL)
                process.wait()
    assert site.hits["a.test/robots.txt"] == 1
    assert site.hits["a.test/private"] == 0


def test_one_that_is_known_by_its_turn_is_not_fetched(tmp_path: Path) -> None:
    """A kill between the commit of the memory and that of the frontier leaves it in its queue."""
    with Site({"a.test/": linking("/private")}) as site:
        settings = site.settings("http://a.test/")
        with (
            Frontier.open(tmp_path / "frontier", settings) as frontier,
            closing(CrawlCache(tmp_path / "frontier" / CACHE)) as cache,
        ):
            frontier.schedule("http://a.test/")
            made = Robots(robots_name(settings.fetch), cache=cache)
            (leased,) = frontier.lease()
            asked = robots_uri(leased)
            frontier.schedule(asked)
            made.record(asked.url, FetchResult(status=200, body=PRIVATE))
            cache.commit()
        run(settings, tmp_path)
    assert site.hits == {"a.test/": 1}
    with reopened(tmp_path) as frontier:
        summary = frontier.summary()
        assert (summary.queued, summary.disregarded, summary.expenditure) == (0, 2, 1)
