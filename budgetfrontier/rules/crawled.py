"""The finished URIs of a crawl: the number that was crawled, and the numbers that were not, by cause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from budgetfrontier.core.model import Summary
from budgetfrontier.core.units import counted


class Missed(NamedTuple):
    """The URIs that were not crawled for one cause: its slug, their number, and a clause such as "3 failed"."""

    slug: str
    number: int
    text: str


class Crawled(NamedTuple):
    """The numbers of URIs that a crawl is done with, without prerequisites such as robots.txt files."""

    crawled: int
    """URIs that were answered, without an error."""
    error_answers: dict[str, int]
    """URIs that were answered with an error status, by status."""
    failed: int
    dead: int
    robots_denials: int
    quota_denials: int
    disregarded: int
    """URIs that were disregarded for other reasons than robots.txt and quotas."""
    deleted: int
    """URIs that operators have deleted before they were crawled."""
    dropped: int
    """URIs that have become dead letters, which operators have dropped."""

    @property
    def missed(self) -> list[Missed]:
        """The causes for which URIs were not crawled, the most frequent first."""
        return sorted((cause for cause in self._causes() if cause.number), key=lambda cause: -cause.number)

    @property
    def total(self) -> int:
        """The number of all of them."""
        return self.crawled + sum(cause.number for cause in self.missed)

    def _causes(self) -> Iterator[Missed]:
        count = sum(self.error_answers.values())
        by_status = sorted(self.error_answers.items(), key=lambda item: (-item[1], item[0]))
        statuses = ", ".join(f"{status}: {number:,}" for status, number in by_status[:_STATUSES])
        more = ", ..." if len(by_status) > _STATUSES else ""
        yield Missed("error_answers", count, f"{count:,} answered with an error status ({statuses}{more})")
        yield Missed("failed", self.failed, f"{self.failed:,} failed")
        yield Missed("dead_letters", self.dead, counted(self.dead, "became a dead letter", "became dead letters"))
        for slug, number, why in (
            ("disregarded", self.robots_denials, "because of robots.txt"),
            ("over_quota", self.quota_denials, "because a quota was used up"),
            ("disregarded", self.disregarded, "for other reasons, such as the scope"),
        ):
            yield Missed(slug, number, f"{counted(number, 'was', 'were')} disregarded {why}")
        dropped = counted(self.dropped, "became a dead letter that was", "became dead letters that were")
        yield Missed("dropped", self.dropped, f"{dropped} dropped")
        yield Missed("deleted", self.deleted, f"{counted(self.deleted, 'was', 'were')} deleted")


_STATUSES = 3


def crawled(totals: Summary) -> Crawled:
    """Return the counts of a crawl's finished URIs, from its totals.

    Replayed dead letters count no more until they end again.
    """
    succeeded = totals.succeeded - totals.prerequisites_succeeded
    return Crawled(
        crawled=succeeded - sum(totals.error_answers.values()),
        error_answers=totals.error_answers,
        failed=totals.failed,
        dead=totals.dead - totals.dead_prerequisites,
        robots_denials=totals.robots_denials,
        quota_denials=totals.quota_denials,
        disregarded=totals.disregarded
        - totals.robots_denials
        - totals.quota_denials
        - totals.prerequisites_disregarded,
        deleted=totals.deleted,
        dropped=totals.dropped,
    )
