"""Reads of a partition for the kinds of reports besides the frontier report, to be merged by the operator."""

from __future__ import annotations

from itertools import islice

from budgetfrontier.core.model import Run
from budgetfrontier.reports import over_time
from budgetfrontier.rules.forecasts import Held
from budgetfrontier.storage import seed_list
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.seed_list import ListedSeed, listed
from budgetfrontier.storage.series import Busiest, SeriesRow


def series(reader: Reader, *, since: float, now: float) -> list[SeriesRow]:
    """Return the totals over a time until now. O(minutes, at most 2,200)."""
    with reader.view() as view:
        return over_time.read(view, since, now)


def busiest(reader: Reader, *, since: float, until: float) -> Busiest:
    """Return the busiest queues of a time. O(hours)."""
    return reader.busiest(since, until)


def held(reader: Reader) -> Held:
    """Return what queues hold. O(queues)."""
    with reader.view() as view:
        return over_time.held(view)


def runs(reader: Reader) -> list[Run]:
    """Return when workers had the partition, as far as this copy of it knows."""
    return reader.runs()


def seeds(reader: Reader, *, after: int, count: int) -> list[ListedSeed]:
    """Return the next seeds of the partition's list behind a position. O(count)."""
    with reader.view() as view:
        return list(islice(listed(view, after), count))


def unlisted(reader: Reader, *, urls: list[str]) -> list[str]:
    """Return which of some URLs are not in the partition's list of seeds. O(urls)."""
    with reader.view() as view:
        return sorted(seed_list.unlisted(view, urls))
