"""The draws of a simulation for each fetch: from what was seen of its host, and of all hosts where that is little."""

from __future__ import annotations

from math import exp, expm1
from typing import Any

import msgspec

from budgetfrontier.core.model import QueueHistory

FINISHED, UNTIL, FETCHES, MAX_TIME = "finished", "until", "fetches", "max_time"
"""The ends of a simulation, beside the other limits of a crawl: its finish, or the time and the fetches it is for."""
MOST_FETCHES = 5_000_000
"""The fetches after which a simulation ends, unless it is asked for more."""
FEW = 10
"""The ends of fetches below which little is known of a host: then the mean of all hosts counts as much as they do."""
RECENT = 64
"""The pages of a host that its share of new links is the mean of, about: `QueueHistory.novel` forgets older ones."""
_LEAST_STRENGTH, _MOST_STRENGTH = 0.5, 100.0
_LONGEST = 50.0  # exponents from which on nothing new is left


class SimulationRequest(msgspec.Struct, kw_only=True):
    """The request of an operator: how a crawl goes on, and how it would with adjustments, if there are any."""

    changes: list[tuple[str, dict[str, Any]]] = []
    seconds: float | None = None
    """For how long; None: to its end."""
    fetchers: int | None = None
    """The most fetches at a time; None: as many as the settings say."""
    most: int = MOST_FETCHES
    seed: int = 0
    memory: int | None = None
    """The most bytes of memory for copies of the frontier; None: half of what is available."""


class Question(msgspec.Struct, kw_only=True):
    """The terms of a simulation: a crawl from `start` (epoch seconds) on, with adjustments, until something ends it."""

    start: float
    fetchers: int
    """The most fetches at a time."""
    changes: list[tuple[str, dict[str, Any]]] = []
    """Adjustments: a pattern and settings each."""
    seconds: float | None = None
    """The seconds that it lasts at the most."""
    most: int = MOST_FETCHES
    seed: int = 0
    uris: float | None = None
    """The rest of the limits of the crawl: URIs, bytes, and seconds."""
    bytes: float | None = None
    time: float | None = None


class Simulated(msgspec.Struct, kw_only=True):
    """The result of a simulation."""

    ended_by: str
    """Its end: finished, until, fetches (`Question.most`), or the name of a limit of the crawl."""
    seconds: float
    fetches: int
    """Attempts that have ended."""
    unsure: int
    """Those of them that were drawn from few ends of fetches of their hosts, less than FEW."""
    succeeded: int
    failed: int
    """Dead letters included."""
    disregarded: int
    spent: int
    discovered: int
    """URIs added to queues."""
    size: int
    queued: int
    """URIs that still wait at its end, RETIRED and INELIGIBLE queues aside."""
    retired: int = 0
    stranded: int = 0
    """URIs in RETIRED queues."""
    starved: int = 0
    """Queues, RETIRED ones aside, that hold URIs, and of which none was fetched."""

    def plain(self) -> dict[str, Any]:
        """Return the figures as plain data."""
        return msgspec.structs.asdict(self)


class Behaviour(msgspec.Struct, gc=False):
    """The draws for the fetches of a host. `new` and `fall` are as of the beginning of the simulation."""

    success: float
    """The probability of each outcome; the rest is that of DISREGARDED."""
    retry: float
    failure: float
    seconds: float
    size: float
    links: float
    """The mean number of URIs that a page leads to."""
    new: float
    """The share of them that is new; each link followed makes it smaller by `fall`, exponentially."""
    fall: float
    first: float
    """The share of new ones on the first page of the host."""
    ends: int = 0
    """The number of ends of fetches that all of this comes from."""


class Outcomes(msgspec.Struct):
    """The sums over hosts that give the mean of all hosts, and how much a host of few fetches differs from it."""

    hosts: int = 0
    ends: float = 0.0
    squares: float = 0.0
    """The sum of the squares of the ends of each host."""
    success: float = 0.0
    retry: float = 0.0
    failure: float = 0.0
    alike: float = 0.0
    """The sum of ends x share of successes squared."""
    pages: float = 0.0
    seconds: float = 0.0
    size: float = 0.0
    links: float = 0.0
    first: float = 0.0
    fallen: float = 0.0

    def add(self, seen: QueueHistory) -> None:
        """Add a host."""
        ends = seen.success + seen.retry + seen.failure + seen.disregarded
        if not ends:
            return
        self.hosts += 1
        self.ends += ends
        self.squares += ends * ends
        self.success += seen.success
        self.retry += seen.retry
        self.failure += seen.failure
        self.alike += seen.success * seen.success / ends
        self.seconds += ends * (seen.seconds or 0.0)
        self.size += ends * (seen.bytes or 0.0)
        if seen.success:
            _, first, fall = novelty(seen.success, seen.links or 0.0, seen.novel, seen.novel)
            self.pages += seen.success
            self.links += seen.success * (seen.links or 0.0)
            self.first += seen.success * first
            self.fallen += fall * seen.success * (seen.links or 0.0)

    def mean(self) -> Behaviour:
        """Return the behaviour of a host of which nothing was seen: the mean of all, weighted by their fetches."""
        ends, pages = self.ends or 1.0, self.pages or 1.0
        if not self.ends:
            return Behaviour(1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        first = self.first / pages
        return Behaviour(
            self.success / ends,
            self.retry / ends,
            self.failure / ends,
            self.seconds / ends,
            self.size / ends,
            self.links / pages,
            first,
            self.fallen / self.links if self.links else 0.0,
            first,
        )

    def strength(self) -> float:
        """Return how many ends of a host count as much as the mean of all hosts.

        This is the variance within hosts divided by the variance between them, as Bühlmann and Straub estimate both
        (Glaubwürdigkeit für Schadensätze, 1970), of the share of successes: few if hosts are either up or down, many
        if all of them are alike.
        """
        free, spread = self.ends - self.hosts, self.ends - self.squares / (self.ends or 1.0)
        if free <= 0 or spread <= 0:
            return FEW
        mean = self.success / self.ends
        within = (self.success - self.alike) / free
        between = (self.alike - self.ends * mean * mean - (self.hosts - 1) * within) / spread
        found = within / between if between > 0 else _MOST_STRENGTH
        return min(max(found, _LEAST_STRENGTH), _MOST_STRENGTH)


def behaviour(seen: QueueHistory | None, mean: Behaviour, strength: float) -> Behaviour:
    """Return what to draw for a host: its own means, and those of all hosts the more, the fewer of its fetches ended.

    The weight of a host's own mean of n ends is n / (n + k), the credibility of Bühlmann: k is `strength` for outcomes,
    and FEW for all else.
    """
    ends = 0 if seen is None else seen.success + seen.retry + seen.failure + seen.disregarded
    if seen is None or not ends:
        return mean
    own, rest = 1 / (ends + strength), strength / (ends + strength)
    many, few = ends / (ends + FEW), FEW / (ends + FEW)
    pages = seen.success
    page, less = pages / (pages + FEW), FEW / (pages + FEW)
    links = page * (seen.links or 0.0) + less * mean.links
    first = mean.first
    fall, followed = mean.fall, 0.0
    if pages:
        followed = pages * (seen.links or 0.0)
        _, began, own_fall = novelty(pages, seen.links or 0.0, seen.novel, seen.novel)
        first, fall = page * began + less * mean.first, page * own_fall + less * mean.fall
    return Behaviour(
        own * seen.success + rest * mean.success,
        own * seen.retry + rest * mean.retry,
        own * seen.failure + rest * mean.failure,
        mean.seconds if seen.seconds is None else many * seen.seconds + few * mean.seconds,
        mean.size if seen.bytes is None else many * seen.bytes + few * mean.size,
        links,
        first * exp(-min(fall * followed, _LONGEST)),
        fall,
        first,
        ends,
    )


def novelty(pages: float, links: float, overall: float | None, recent: float | None) -> tuple[float, float, float]:
    """Return the share of new links of a host now and on its first page, and by how much each link lowers it.

    If the pages of a host link to each other at random, the share of new ones falls exponentially with the links
    followed, as in the coupon collector's problem: first x exp(-fall x links). `overall` is its mean over all pages so
    far, `recent` that of the last ones. A share that has not fallen does not fall: such a host is endless.
    """
    followed = pages * links
    if not followed or not overall:
        return 0.0, 0.0, 0.0
    if recent is not None and pages >= 2 * RECENT:
        fallen = _solve(lambda y: y / expm1(y) if y else 1.0, min(recent / overall, 1.0))
        now = recent
    else:  # all links were new at first
        fallen = _solve(lambda y: -expm1(-y) / y if y else 1.0, min(overall, 1.0))
        now = exp(-fallen)
    return now, min(now * exp(fallen), 1.0), fallen / followed


def _solve(falling: object, value: float) -> float:
    """Return where a function that falls from 1 at 0 has a value, to a thousandth."""
    low, high = 0.0, _LONGEST
    for _ in range(40):
        middle = (low + high) / 2
        if falling(middle) > value:  # type: ignore[operator]
            low = middle
        else:
            high = middle
    return (low + high) / 2
