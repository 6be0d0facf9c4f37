"""The draws of a simulation for each fetch: from what was seen of its host, and of all hosts where that is little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from math import exp, expm1, inf, lgamma, log
from typing import NamedTuple, Self

import msgspec

from budgetfrontier.core.model import QueueHistory, QueueRecord
from budgetfrontier.rules.forecasts import least_delay
from budgetfrontier.settings.overrides import QueueSettings

FEW = 10
"""The ends of fetches below which little is known of a host: then the mean of all hosts counts as much as they do."""
RECENT = 64
"""The pages of a host that its share of new links is the mean of, about: `QueueHistory.new` forgets older ones."""
_UNUSUAL = 4.0  # times as long as usual is a rest that is not by chance
_FIRSTS_DIFFER = 0.04  # the variance of the logarithm of the shares of new links on the first pages of hosts
_DOWN = 0.5  # the strength of the mean of all hosts, for one that has never answered
_STRENGTHS = [float(FEW) * 2**n for n in range(-4, 11)]
_STEADY = 0.95  # new URIs a page, of a host that supplies its queue: running means are rounded, and reach 1 but nearly
_LEFT = 0.25  # of as many URIs as pages, of which no more wait: at the height of a finite site, more do
_MOST = 50.0  # exponents from which on nothing is left


class Behaviour(msgspec.Struct, gc=False):
    """The draws for the fetches of a host."""

    success: float
    """The probability of each end of the first attempt of a URI; the rest is that of DISREGARDED."""
    retry: float
    failure: float
    seconds: float
    size: float
    links: float
    """The mean number of URIs that a page leads to."""
    new: float
    """The share of them that is new at present."""
    fall: float
    """Each page makes that share smaller, by the factor exp(-fall)."""
    answers: bool = True
    """Whether it has ever answered, or nothing is known of it."""
    few: bool = True
    """Whether little is known: fewer than FEW fetches have ended, or so few that a site at its end may look so, too."""
    endless: bool = False
    """Whether no end is in sight: `least` is not 0, or a page would still lead on after as many fetches again."""
    least: float = 0.0
    """The share of new ones below which it does not fall: as many as leave its queue, if it is steady or a trap. Its
    pages have the same number of them each then, not only in the mean."""


class Retries(NamedTuple):
    """The retries of a crawl: URIs that fail for now at first mostly do so again."""

    most: int
    """The retries of a URI before it is given up."""
    lasting: float
    """The share of URIs that fail at first which fail until they are given up."""

    @classmethod
    def of(cls, most: int, retried: int, given_up: int, trying: int) -> Self:
        """Estimate them from the retries of a crawl and the URIs given up; one retry more counts as of one of these.

        `trying` URIs are tried again at present: half of their retries are over, if they are to be given up.
        """
        retried = max(retried - min(trying * most, retried) // 2, most * given_up)
        part = min((most * given_up + 1) / (retried + 1), 1.0) if most else 1.0
        lasting = part / most if most else 1.0
        return cls(most, min(lasting / (lasting + 1 - part), 1.0))

    @property
    def attempts_each(self) -> float:
        """The attempts that fail for now, of each URI that does, in the mean."""
        return 1 + self.lasting * self.most

    def failing(self, seen: QueueHistory) -> float:
        """Return how many URIs the attempts of a history that failed for now were of: these are not independent."""
        return seen.retry / self.attempts_each

    def later(self, drawn: Behaviour, attempt: int) -> float:
        """Return the chance that an attempt after the first fails, on a host that has answered or not."""
        if not drawn.answers:
            return drawn.retry
        return self.lasting if attempt == 2 else 1.0


class Overloads(NamedTuple):
    """The answers 429 and 503, which say something of hosts and nothing of the URIs that were asked for."""

    answers: int
    """Those of all hosts."""
    ends: int
    """The ends of fetches of all hosts."""
    strength: float
    """The number of ends of a host that count as much as the mean of all hosts."""

    @classmethod
    def of(cls, hosts: Counter[tuple[int, int]]) -> Self:
        """Estimate them from the numbers of hosts by how many of their ends were such answers, and how many not."""
        answers, others = (sum(pair[side] * number for pair, number in hosts.items()) for side in (0, 1))
        mean = answers / (answers + others) if answers else 0.0
        return cls(answers, answers + others, max(_STRENGTHS, key=lambda one: likelihood(hosts.items(), mean, one)))

    def shape(self, own: int, ends: int) -> tuple[float, float]:
        """Return the beta distribution of the chance that an attempt is answered so, by its two parameters.

        It is that of a host of which `own` of so many ends were, as far as they and those of all hosts tell.
        """
        before = self.strength * self.answers / (self.ends + 1)
        return own + before, ends - own + self.strength - before


class ServerErrors(NamedTuple):
    """The answers 5xx but for 503 of a host: after a few retries, such a URI ends as a failure, and no dead letter."""

    retried: int
    """Those after which a URI was tried again."""
    given_up: int
    """The URIs that ended so."""
    waiting: int
    """The URIs that wait for a retry at present."""
    passed: int
    """The retries, about, of URIs that were answered otherwise then."""

    @classmethod
    def of(cls, answers: int, seen: QueueHistory, most: int, waiting: int) -> Self:
        """Tell them apart, if a URI had `most` retries: a status that is never tried again is a plain failure."""
        given_up = min(answers // (most + 1), seen.failure, seen.retry // most if most else answers)
        retried = min(answers - given_up, seen.retry)
        waiting = min(waiting, retried)
        return cls(retried, given_up, waiting, max(retried - most * given_up - waiting * (most + 1) // 2, 0))

    @property
    def uris(self) -> int:
        """The URIs that they were of, about."""
        return self.given_up + self.waiting + self.passed


class Growth(NamedTuple):
    """The share of a host's links that is new: its mean so far, and how fast it falls from page to page."""

    overall: float
    fall: float
    variance: float
    """Of `fall`."""


class Means:
    """The means over all hosts, to which those of a host of few fetches are drawn. Hosts are added twice."""

    def __init__(self, retries: Retries) -> None:
        self.retries = retries
        self._outcomes: Counter[tuple[int, float]] = Counter()
        """The number of hosts by their successes and the rest of their ends."""
        self._strength: float | None = None
        self._ends = self._success = self._retry = self._failure = 0.0
        self._pages = self._seconds = self._size = self._links = self._firsts = self._first_weight = 0.0
        self._growths = _Pooled()

    def add(self, seen: QueueHistory, found: float) -> None:
        """Add a host that has answered; `found` is how many new URIs its pages had, unless `found_by` tells."""
        failing, pages = self.retries.failing(seen), seen.success
        if not pages:
            return
        ends = _tried(seen, failing)
        self._outcomes[pages, ends - pages] += 1
        self._strength = None
        self._ends += ends
        self._success += pages
        self._retry += failing
        self._failure += seen.failure
        self._seconds += ends * (seen.seconds or 0.0)
        self._size += pages * (seen.bytes or 0.0)
        self._pages += pages
        self._links += pages * (seen.links or 0.0)
        if pages > RECENT and seen.links and seen.new and found:
            overall = min(found / (pages * seen.links), 1.0)
            first = _first(_solve(_recent_to_all(pages), seen.new / overall) / pages, pages, overall)
            self._firsts += first * (pages - RECENT)
            self._first_weight += pages - RECENT

    @property
    def first(self) -> float:
        """The share of new links on the first pages of hosts of many fetches; 1 if there are none."""
        return self._firsts / self._first_weight if self._first_weight else 1.0

    def add_growth(self, seen: QueueHistory, found: float) -> None:
        """Add how the share of new links of a host falls, once `first` is known."""
        if (found_out := growth(seen, found, self.first)) is not None:
            self._growths.add(found_out.fall, found_out.variance)

    def mean(self) -> Behaviour:
        """Return the behaviour of a host without any finished fetch."""
        ends, pages = self._ends or 1.0, self._pages or 1.0
        return Behaviour(
            self._success / ends if self._ends else 1.0,
            self._retry / ends,
            self._failure / ends,
            self._seconds / ends if self._ends else 1.0,
            self._size / pages,
            self._links / pages,
            self.first,
            self._growths.mean,
        )

    @property
    def spread(self) -> float:
        """The variance of the falls of hosts."""
        return self._growths.between

    def strength(self) -> float:
        """Return how many ends of a host count as much as the mean of all hosts: many if all of them are alike.

        It is the most likely one if the shares of successes of hosts are spread like a beta distribution (Skellam, A
        probability distribution derived from the binomial, 1948). That holds although a host that fails is delayed, so
        that fewer of its fetches have ended than of others: likelihoods do not depend on when one has stopped.
        """
        if self._strength is None:
            mean = self._success / (self._ends or 1.0)
            self._strength = max(_STRENGTHS, key=lambda one: likelihood(self._outcomes.items(), mean, one))
        return self._strength


def likelihood(hosts: Iterable[tuple[tuple[float, float], int]], mean: float, strength: float) -> float:
    """Return the logarithm of the probability of the outcomes of hosts, without what does not depend on the strength.

    `hosts` are their numbers by how many of their ends were of a kind, whose `mean` share this is, and how many not.
    """
    if not 0.0 < mean < 1.0:
        return 0.0 if strength == FEW else -1.0  # nothing differs
    a, b = strength * mean, strength * (1.0 - mean)
    none = lgamma(a) + lgamma(b) - lgamma(strength)
    return sum(
        number * (lgamma(a + some) + lgamma(b + rest) - lgamma(strength + some + rest) - none)
        for (some, rest), number in hosts
    )


class _Pooled:
    """The mean of estimates with known variances, and the variance between what they estimate.

    DerSimonian and Laird, Meta-analysis in clinical trials, 1986.
    """

    def __init__(self) -> None:
        self._number = 0
        self._weights = self._squares = self._sum = self._sum_squares = 0.0

    def add(self, estimate: float, variance: float) -> None:
        weight = 1.0 / variance
        self._number += 1
        self._weights += weight
        self._squares += weight * weight
        self._sum += weight * estimate
        self._sum_squares += weight * estimate * estimate

    @property
    def mean(self) -> float:
        return self._sum / self._weights if self._weights else 0.0

    @property
    def between(self) -> float:
        if self._number < 2:
            return inf
        homogeneity = self._sum_squares - self._sum * self._sum / self._weights - (self._number - 1)
        return max(homogeneity / (self._weights - self._squares / self._weights), 1e-12)


def ends_of(seen: QueueHistory) -> int:
    """Return how many ends of fetches a history has."""
    return seen.success + seen.retry + seen.failure + seen.disregarded


def _tried(seen: QueueHistory, failing: float) -> float:
    """Return how many URIs were tried, `failing` of which failed for now at their first attempt."""
    return seen.success + failing + seen.failure + seen.disregarded


def leads_on(seen: QueueHistory, waiting: int) -> bool:
    """Return whether the last RECENT pages of a host, about, have led to a new URI each, and URIs wait."""
    return waiting > 0 and (seen.links or 0.0) * (seen.new or 0.0) >= _STEADY


def is_steady(seen: QueueHistory, waiting: int) -> bool:
    """Return whether a host supplies its queue evenly: a chain of redirects, or a calendar of links to the next pages.

    Its last pages have replaced what left the queue, and few URIs wait. A site that comes to its end is not so: its
    last pages lead to little, once it has twice as many as these, so that most were not found on its first ones.
    """
    return leads_on(seen, waiting) and seen.success >= 2 * RECENT and waiting <= seen.success * _LEFT


def behaviour(
    seen: QueueHistory | None, found: float, means: Means, waiting: int = 0, *, suspect: bool = False
) -> Behaviour:
    """Return what to draw for a host: its own means, and those of all hosts the more, the fewer of its fetches ended.

    The weight of a host's own mean of n ends is n / (n + k), the credibility of Bühlmann: k is `Means.strength` for
    outcomes, a half if it has never answered, FEW for links, and 1 for durations and sizes, in which hosts differ more
    than the fetches of one. A host that `is_steady`, with so many URIs `waiting`, is taken as it is, and to go on so.
    So is a `suspect`, which looks like a trap by its URIs, after fewer pages, as long as it `leads_on`; where more of
    its URIs wait, its pages may lead to more, and never to fewer than leave its queue.
    """
    mean = means.mean()
    if seen is None or not (ends := ends_of(seen)):
        return mean
    pages, failing = seen.success, means.retries.failing(seen)
    trap = suspect and ends >= FEW and leads_on(seen, waiting)
    level = is_steady(seen, waiting) or (trap and waiting <= pages * _LEFT)
    strength, few = (0.0, 0) if level or trap else (means.strength() if pages else _DOWN, FEW)
    tried = _tried(seen, failing)
    own, rest = 1 / (tried + strength), strength / (tried + strength)
    links = (pages * (seen.links or 0.0) + few * mean.links) / (pages + few)
    least = tried / pages / links if level or trap else 0.0
    found_out = growth(seen, found, means.first)
    if level:
        new, fall = least, 0.0
    elif found_out is None:
        new, fall = mean.new, mean.fall
    else:
        weight, of_all = 1 / found_out.variance, 1 / means.spread
        fall = (weight * found_out.fall + of_all * mean.fall) / (weight + of_all)
        new = _first(fall, pages, found_out.overall) * exp(-min(fall * pages, _MOST))
    return Behaviour(
        own * pages + rest * mean.success,
        own * failing + rest * mean.retry,
        own * seen.failure + rest * mean.failure,
        _toward(mean.seconds, seen.seconds, ends),
        _toward(mean.size, seen.bytes, pages),
        links,
        max(new, least),
        fall,
        pages > 0,
        ends < FEW or (not least and pages < 2 * RECENT and leads_on(seen, waiting) and waiting <= pages),
        least > 0 or links * new * exp(-min(fall * ends, _MOST)) >= 1.0,
        least,
    )


def _toward(mean: float, own: float | None, ends: int) -> float:
    return mean if own is None else (ends * own + mean) / (ends + 1)


def found_by(seen: QueueHistory) -> int | None:
    """Return how many new URIs there were on the pages of a host; None if its history is not of all its pages."""
    # the means are rounded, their sum is a whole number
    return None if seen.success > RECENT else round(seen.success * (seen.links or 0.0) * (seen.new or 0.0))


def growth(seen: QueueHistory, found: float, first: float) -> Growth | None:
    """Return how the share of new links of a host falls; None if it has no links yet.

    If the pages of a host link to each other at random, it falls exponentially with the links followed, as in the
    coupon collector's problem. How fast follows from its mean over all pages, if it was `first` on the first page; and,
    once there are more than the last RECENT pages, from how it is on these, compared with that mean. Both count, by
    their variances, those of counts (Poisson). A share that has not fallen does not fall: a host is endless.
    """
    pages, links, all_new = seen.success, seen.links, found_by(seen)
    found = found if all_new is None else all_new
    if not pages or not links or not found:
        return None
    overall = min(found / (pages * links), 1.0)
    fall = _solve(_mean_fall, overall / max(first, overall)) / pages
    variance = (1 / found + _FIRSTS_DIFFER) / _slope(_mean_fall, fall * pages) ** 2 / pages**2
    if seen.new is not None and pages > RECENT:
        of_recent = _recent_to_all(pages)
        own = _solve(of_recent, seen.new / overall) / pages
        noise = 1 / max(RECENT * links * seen.new, 1.0) + 1 / found
        weight = (_slope(of_recent, own * pages) * pages) ** 2 / noise
        fall = (fall / variance + own * weight) / (1 / variance + weight)
        variance = 1 / (1 / variance + weight)
    return Growth(overall, fall, variance)


def _first(fall: float, pages: int, overall: float) -> float:
    """Return the share of new links on the first page, if it falls so, and its mean over all pages is as it is."""
    return min(overall / _mean_fall(fall * pages), 1.0)


def _recent_to_all(pages: int) -> Callable[[float], float]:
    """Return the function of the share on the last pages, divided by that on all of them: of fall x pages."""
    return lambda x: _recent_fall(x / pages, pages) / _mean_fall(x)


def _slope(function: Callable[[float], float], x: float) -> float:
    """Return by which part a function changes where its argument changes by 1."""
    before, after = function(x), function(x + 0.01)
    return (log(after) - log(before)) / 0.01 if after > 0 else -1.0


def _mean_fall(x: float) -> float:
    """Return the mean of exp(-t) from 0 to x."""
    return -expm1(-x) / x if x else 1.0


def _recent_fall(fall: float, pages: int) -> float:
    """Return the running mean of exp(-fall t) after so many pages, in which each new one has the weight 1 / RECENT.

    It is the plain mean of the first RECENT pages.
    """
    begun, rate = _mean_fall(fall * RECENT) * exp(-(pages - RECENT) / RECENT), 1 - fall * RECENT
    if abs(rate) < 1e-6:
        return begun + exp(-fall * pages) * (pages - RECENT) / RECENT
    return begun + (exp(-fall * pages) - exp(-fall * RECENT - (pages - RECENT) / RECENT)) / rate


def _solve(falling: Callable[[float], float], value: float) -> float:
    """Return where a function that falls from 1 at 0 has a value."""
    low, high = 0.0, _MOST
    for _ in range(20):
        middle = (low + high) / 2
        if falling(middle) > value:
            low = middle
        else:
            high = middle
    return (low + high) / 2 if value < 1.0 else 0.0


def crawl_delay(queue: QueueRecord, seconds: float, settings: QueueSettings) -> float | None:
    """Return the crawl-delay that the last rest of a queue shows; None if it was as long as its fetches call for.

    A fetch that was slow by chance makes it longer, too, but seldom by that factor.
    """
    usual = min(max(settings.delay_factor * seconds, settings.min_delay), settings.max_delay) + seconds
    found = least_delay(queue, _UNUSUAL * usual)
    return found - seconds if found > _UNUSUAL * usual else None


def retry_after(queue: QueueRecord) -> float | None:
    """Return the Retry-After that the last rest of an overloaded host shows; None if it gave none, or was not so."""
    if queue.backoff or not queue.failed_at or queue.overloaded_until <= queue.failed_at:
        return None
    return queue.overloaded_until - queue.failed_at
