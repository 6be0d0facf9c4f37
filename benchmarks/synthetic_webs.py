"""Webs that exist in memory only, and a crawl of one by the engine in virtual time: what simulations are compared with.

A page is the number of a page of a host. Its links, its outcome and the time that it takes follow from that alone, so
that a crawl meets the same web however it goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import Any, NamedTuple

from budgetfrontier import Frontier, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import CrawlState, Finish, Lease

START = 1_700_000_000.0
FETCHERS = 50
_HOUR = 3600.0


class Host(NamedTuple):
    """A host: each page but the first has a parent, drawn from the pages before it, and is linked from that.

    So early pages have many children, and late ones few or none: a random recursive tree. Besides, each page links to
    some other ones at random, and to those of a menu.
    """

    pages: float
    """How many; inf: a trap, in which each page has links to two further ones, or to those that are `ahead`."""
    ahead: tuple[int, ...] = ()
    """Each page links to those so many numbers ahead, and to none besides: to the next one in a chain of redirects, to
    the next month and the same one of the next year, which is 12 ahead, in a calendar."""
    others: int = 4
    menu: int = 4
    outward: float = 0.0
    """How many links of a page lead to other hosts, on average."""
    seconds: float = 0.5
    errors: float = 0.02
    """The share of pages that are answered with 404."""
    failing: float = 0.0
    """The share of pages that always fail, so that they are tried again until they are given up."""
    forbidden: float = 0.0
    """The share of pages that robots.txt forbids."""
    crawl_delay: float | None = None


class Web(NamedTuple):
    """A web, the settings of a crawl of it, and the seeds."""

    name: str
    hosts: Sequence[Host]
    frontier: dict[str, Any]
    seeds: float = inf
    """How many of its hosts have a seed, the first ones; links lead to the others."""
    seed: int = 1
    """That of what is drawn for its pages."""


def webs(scale: float = 1.0, *, seed: int = 1) -> list[Web]:
    """Return fifteen webs of different shapes; `scale` is of the number of their hosts, and `seed` draws others."""
    random = Random(seed)

    def many(number: float) -> range:
        return range(max(round(number * scale), 4))

    def power(least: float, most: float) -> float:
        return min(least * random.paretovariate(1.2), most)

    def mixed() -> Host:
        failing, errors = (random.choice((0.0, 0.01, 0.05)), random.choice((0.0, 0.1, 0.3)))
        crawl_delay = 10.0 if random.random() < 0.05 else None
        return Host(
            power(30, 3000),
            others=random.randrange(8),
            menu=random.randrange(8),
            seconds=random.choice((0.1, 0.5, 2.0)),
            errors=errors,
            failing=failing,
            crawl_delay=crawl_delay,
        )

    rotation = {"balance_replenish_amount": 100}

    def with_trap(*ahead: int) -> list[Host]:
        return [Host(inf, ahead=ahead, errors=0.0) if n % 20 == 0 else Host(400) for n in many(60)]

    linked = [Host(power(100, 1500), outward=0.1) for _ in many(100)]
    found = [
        Web("equal hosts", [Host(400) for _ in many(60)], rotation),
        Web("power law", [Host(power(50, 4000)) for _ in many(150)], rotation),
        Web("one giant", [Host(4000), *(Host(150) for _ in many(120))], rotation),
        Web(
            "traps",
            [Host(inf) if n % 20 == 0 else Host(400) for n in many(60)],
            rotation | {"queue_total_budget": 1500},
        ),
        Web(
            "many failures",
            [Host(300, errors=0.2, failing=1.0 if n % 5 == 0 else 0.02) for n in many(80)],
            rotation | {"error_penalty_amount": 2, "retry": {"max_retries": 3, "delay": "5m"}},
        ),
        Web("slow hosts", [Host(300, seconds=0.1 * 2 ** (n % 8)) for n in many(80)], rotation),
        Web(
            "small budgets",
            [Host(power(50, 4000)) for _ in many(150)],
            {"balance_replenish_amount": 20, "queue_total_budget": 150},
        ),
        Web(
            "mostly retired",
            [Host(power(300, 5000), errors=0.1) for _ in many(80)],
            {"balance_replenish_amount": 40, "queue_total_budget": 300},
        ),
        Web("hosts found on the way", linked, rotation, max(len(linked) // 10, 2)),
        Web(
            "forbidden pages and crawl-delays",
            [Host(400, forbidden=0.4, crawl_delay=20.0 if n % 10 == 0 else None) for n in many(60)],
            rotation,
        ),
        Web("archives without menus", [Host(power(100, 2000), others=0, menu=0) for _ in many(80)], rotation),
        Web("a bit of all", [mixed() for _ in many(120)], rotation | {"queue_total_budget": 1000}),
        Web("calendars without end", with_trap(1, 2), rotation | {"queue_total_budget": 1500}),
        Web("calendars with years", with_trap(1, 12), rotation | {"queue_total_budget": 1500}),
        Web("redirects without end", with_trap(1), rotation | {"queue_total_budget": 1500}),
    ]
    return [web._replace(seed=seed) for web in found]


class Crawl:
    """A crawl of a web, by the engine in virtual time."""

    def __init__(self, web: Web, frontier: Frontier, clock: ManualClock) -> None:
        self._web, self._frontier, self._clock = web, frontier, clock
        self.fetches = 0
        self._flying: list[tuple[float, int, Lease, float]] = []
        self._numbers = count()
        self._trees: dict[int, dict[int, list[int]]] = {}

    def run(self, until: float = inf) -> None:
        """Crawl until nothing is left, or until a time."""
        frontier, clock, flying = self._frontier, self._clock, self._flying
        while True:
            ready = frontier.next_ready_in() if len(flying) < FETCHERS else None
            while ready == 0.0 and len(flying) < FETCHERS:
                for lease in frontier.lease(FETCHERS - len(flying), ttl=_HOUR):
                    seconds = self._seconds(lease)
                    heappush(flying, (clock.time() + seconds, next(self._numbers), lease, seconds))
                ready = frontier.next_ready_in()
            if not flying and (ready is None or frontier.state is not CrawlState.RUNNING):
                return
            then = min(flying[0][0] if flying else inf, inf if ready is None else clock.time() + ready)
            if then > until:
                return
            clock.set(then)
            while flying and flying[0][0] <= then:
                _, _, lease, seconds = heappop(flying)
                self.fetches += 1
                frontier.finish_many([self._ending(lease, seconds)])

    def _place(self, lease: Lease) -> tuple[int, int, Host]:
        name, page = lease.uri.url.removeprefix("http://h").split("/p")
        number = int(name.partition(".")[0])
        return number, int(page), self._web.hosts[number]

    def _seconds(self, lease: Lease) -> float:
        *_, host = self._place(lease)
        return max(host.seconds * Random(f"{lease.uri.url} {lease.attempt}").gammavariate(4, 0.25), 0.01)

    def _ending(self, lease: Lease, seconds: float) -> Finish:
        """Return how an attempt ends: as its page does."""
        number, page, host = self._place(lease)
        drawn = Random(f"{lease.uri.url} {self._web.seed}")
        kind = drawn.random()
        if kind < host.forbidden:
            return Finish(lease, Outcome.DISREGARDED, reason="robots")
        if kind < host.forbidden + host.failing:
            return Finish(lease, Outcome.RETRY, fetch_seconds=seconds, reason="no answer")
        if kind < host.forbidden + host.failing + host.errors and page:
            return Finish(lease, fetch_seconds=seconds, status=404, size=500, crawl_delay=host.crawl_delay)
        return Finish(
            lease,
            fetch_seconds=seconds,
            status=200,
            size=drawn.randrange(5_000, 50_000),
            crawl_delay=host.crawl_delay,
            discovered=list(dict.fromkeys(self._links(drawn, number, page, host))),
        )

    def _children(self, number: int, pages: int) -> dict[int, list[int]]:
        """Return the children of each page of a host that has any."""
        found = self._trees.get(number)
        if found is None:
            drawn, found = Random(f"{number} {self._web.seed}"), self._trees.setdefault(number, {})
            for page in range(1, pages):
                found.setdefault(drawn.randrange(page), []).append(page)
        return found

    def _links(self, drawn: Random, number: int, page: int, host: Host) -> Iterator[str]:
        pages = host.pages
        if host.ahead:
            yield from (url(number, page + far) for far in host.ahead)
            return
        if pages == inf:
            yield from (url(number, 2 * page + 1 + child) for child in range(2))
        else:
            yield from (url(number, child) for child in self._children(number, int(pages)).get(page, ()))
        known = int(page + 1 if pages == inf else pages)
        yield from (url(number, drawn.randrange(known)) for _ in range(host.others))
        yield from (url(number, top) for top in range(min(host.menu, known)))
        for _ in range(int(host.outward * 10)):
            if drawn.random() < 0.1:
                yield url(drawn.randrange(len(self._web.hosts)), 0)


def url(host: int, page: int) -> str:
    """Return the URL of a page."""
    return f"http://h{host}.test/p{page}"


def begin(web: Web, frontier: Frontier) -> None:
    """Schedule the seeds of a web."""
    frontier.schedule_many(url(host, 0) for host in range(int(min(web.seeds, len(web.hosts)))))
