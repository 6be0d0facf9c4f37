"""Crawler traps: the evidence in the numbers of a queue and in some of its URIs, and how suspicious both make it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log2, prod
from typing import Final, NamedTuple

import msgspec

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.rules.queue_history import WINDOW
from budgetfrontier.rules.trap_samples import LEAST, UrlSign
from budgetfrontier.rules.trap_urls import CHAIN

SUSPICIOUS: Final = 0.5
"""The score from which on a queue is listed. Weak evidence alone cannot reach it."""

FINISHED: Final = 20
"""Attempts that a queue must have ended before its growth counts: at its first pages, every site grows."""
_GROWTH = 4.0  # URIs held for each one finished, from which on more of them say no more
_FAR = 40.0  # more than the growth of most queues comes to


class QueueNumbers(NamedTuple):
    """The numbers of a queue from which the evidence of a trap is computed."""

    queued: int
    finished: int
    """Attempts that ended, and were charged."""
    average_cost: float = 0.0
    pages: int = 0
    """Successes whose details are known, see `rules.queue_history`: the rest is unknown before the first."""
    links: float | None = None
    """URIs discovered on each of the last ones, and the share of them that was new."""
    new: float | None = None
    repeated: float | None = None
    """The share of its last contents that were the same as another one; None if too few are known."""
    is_far: bool = False
    """Whether it holds few URIs, many are finished, and the URL leased last has a year after the next one."""


class Evidence(msgspec.Struct, frozen=True):
    """One piece of evidence: what it is, and how suspicious it makes a queue by itself, from 0 to 1."""

    code: str
    score: float
    text: str
    example: str = ""
    pattern: str = ""
    """A regular expression of the URIs that it is about; "" if there is none."""


def by_numbers(numbers: QueueNumbers) -> list[Evidence]:
    """Return the evidence in the numbers of a queue. All but repeated contents is weak: a large archive shows it, too.

    >>> [one.code for one in by_numbers(QueueNumbers(120, 40, 2.5))]
    ['growth', 'cost']
    """
    found = []
    if numbers.repeated is not None and numbers.repeated >= 0.5:
        text = f"{numbers.repeated:.0%} of its last pages had the content of another one"
        found.append(Evidence("repeated-content", SUSPICIOUS + 0.45 * numbers.repeated, text))
    if numbers.finished >= FINISHED and numbers.queued >= 1.5 * numbers.finished:
        growth = numbers.queued / numbers.finished
        text = f"holds {growth:,.1f} URIs for each of the {numbers.finished:,} finished"
        found.append(Evidence("growth", 0.2 * min(growth / _GROWTH, 1.0), text))
    if numbers.pages >= WINDOW and (numbers.links or 0) >= 2 and (numbers.new or 0) >= 0.8:
        text = f"{numbers.new:.0%} of the {numbers.links:.1f} URIs on each of its last pages were new"
        found.append(Evidence("new-links", 0.15, text))
    if numbers.average_cost >= 2:
        text = f"URIs cost {numbers.average_cost:.1f} on average; a plain one costs 1 by most cost policies"
        found.append(Evidence("cost", 0.15, text))
    return found


def by_urls(signs: Iterable[UrlSign]) -> list[Evidence]:
    """Return the evidence in the signs of a queue's URIs: its score grows with the share of them that have the sign.

    Each sign makes a queue suspicious by itself, but for the length of paths, which is weak.
    """
    return [
        Evidence(
            one.code,
            0.1 if one.code == "depth" else SUSPICIOUS + 0.45 * one.share,
            one.text,
            one.example,
            one.pattern,
        )
        for one in signs
    ]


def by_redirects(found: Sequence[CrawlUri]) -> list[Evidence]:
    """Return the evidence that redirects lead to redirects: half of a queue's URIs are at the end of a long chain.

    >>> [one.text for one in by_redirects([CrawlUri("http://a.test/40", hops="L" + 40 * "R")])]
    ['a chain of 40 redirects leads to it']
    """
    chains = [(len(uri.hops) - len(uri.hops.rstrip("R")), uri.url) for uri in found]
    long = [one for one in chains if one[0] >= CHAIN]
    if not long or 2 * len(long) < len(chains):
        return []
    length, example = max(long)
    text = f"a chain of {length:,} redirects leads to it"
    return [Evidence("redirects", SUSPICIOUS + 0.45 * len(long) / len(chains), text, example)]


def score(evidence: Sequence[Evidence]) -> float:
    """Return how suspicious a queue is: the probability of a trap, if each piece were an independent one.

    >>> round(score([Evidence("growth", 0.2, ""), Evidence("future-dates", 0.9, "")]), 2)
    0.92
    """
    return 1.0 - prod(1.0 - one.score for one in evidence)


def interest(numbers: QueueNumbers) -> float:
    """Return the priority of a queue for a look at its URIs: those of the queues with the highest are read.

    It grows with repeated contents, new links, costs, and the URIs held for each one finished. Fewer URIs than LEAST
    count for little, unless `is_far`: a calendar that leads from each month to the next holds one at a time.

    >>> interest(QueueNumbers(120, 40)) > interest(QueueNumbers(300, 1)) > interest(QueueNumbers(9, 400))
    True
    """
    if not numbers.queued:
        return 0.0
    repeated = 10.0 * (numbers.repeated or 0.0)
    if numbers.queued < LEAST:
        return repeated + 0.01 * min(numbers.finished, 100) + _FAR * numbers.is_far
    growth = min(numbers.queued / max(numbers.finished, 1), _GROWTH)
    new = 0.5 if numbers.new is None else numbers.new
    growing = (0.2 + new) * growth * log2(2 + min(numbers.finished, numbers.queued))
    return repeated + growing + min(numbers.average_cost, 10.0)
