"""Comparison of two crawls, or of two runs: what each fetched and spent, and on which hosts they differ most."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import nlargest
from operator import attrgetter
from typing import Protocol

import msgspec

from budgetfrontier.core.model import Run
from budgetfrontier.core.units import say_duration
from budgetfrontier.errors import ConnectionLost, FrontierError
from budgetfrontier.reports.format import called, figure
from budgetfrontier.reports.over_time import Series, between, estimated
from budgetfrontier.rules.rates import ToldRate, Window, lasts, told_rates, window
from budgetfrontier.storage import keys
from budgetfrontier.storage.records import decode_answers
from budgetfrontier.storage.series import Busiest
from budgetfrontier.storage.view import View

MEASURES = ("fetched", "spent", "errors", "bytes")
SIDES = {"only_in_first": "only in the first", "only_in_second": "only in the second", "in_both": "in both"}
"""The names of the numbers of queues in a comparison, each in words."""


class NoSuchRun(FrontierError):
    """A crawl has no run with this number."""


class OverRuns(Protocol):
    """A crawl as operators look at it: its runs, and what happened in a time."""

    def runs(self) -> list[Run]:
        """Return the runs, newest last."""

    def unanswered(self) -> str:
        """Return the sentence on partitions that have not answered; "" if all have."""

    def series(self, since: float, now: float) -> Series:
        """Return the totals of a time until now."""

    def busiest(self, since: float, until: float) -> Busiest:
        """Return the busiest queues of a time."""


class FetchedQueue(msgspec.Struct, gc=False):
    """The amounts of a queue: attempts that were charged, their cost, bytes, and answers with an error, or none."""

    queue: str
    fetched: int
    spent: int
    bytes: int | None = None
    errors: int | None = None


class ComparedQueue(msgspec.Struct):
    """A queue in two crawls; one that has none of it is None."""

    queue: str
    first: FetchedQueue | None
    second: FetchedQueue | None

    def amount(self, side: int, measure: str) -> int | None:
        """Return an amount of one side: 0 if it has no such queue, None if it is not known."""
        found = (self.first, self.second)[side]
        known: int | None = 0 if found is None else getattr(found, measure)
        return known

    def difference(self, measure: str) -> int:
        """Return how much more the second has."""
        return (self.amount(1, measure) or 0) - (self.amount(0, measure) or 0)


class Comparison(msgspec.Struct):
    """Two crawls: their totals, with rates an hour, how many queues either has, and those that differ most."""

    totals: tuple[dict[str, ToldRate], dict[str, ToldRate]]
    queues: dict[str, int]
    rows: list[ComparedQueue]
    untold: str = ""
    """Why the hosts of two runs are not compared."""
    unsure: list[str] = []
    """The sentences on what is not known exactly of two runs."""
    ran: tuple[float, float] = (0.0, 0.0)
    """For how many seconds each ran, as far as that is known; rates an hour are of a minute at the least."""


_NO_MORE = b"\xff" * (keys.u32.size + 1), b""


def fetched_queues(view: View, after: int = -1) -> Iterator[tuple[int, FetchedQueue]]:
    """Yield the queues from which something was fetched, with their ids, from the one after an id on. O(queues)."""
    known = view.items(keys.ANSWERS, keys.u32.pack(after + 1))
    key, value = next(known, _NO_MORE)
    for queue in view.amounts(after + 1):
        if queue.charges:
            own, errors = keys.u32.pack(queue.id), 0
            while key < own:
                key, value = next(known, _NO_MORE)
            if key == own:
                errors = sum(decode_answers(value).classes[2:])
            yield queue.id, FetchedQueue(queue.queue, queue.charges, queue.expenditure, queue.bytes, errors)


class FetchedQueues(Protocol):
    """The queues of a crawl, or of a time, from which something was fetched."""

    def amounts(self, measure: str) -> Iterable[tuple[str, int]]:
        """Return an amount of each, with its key. O(queues)."""

    def named(self, keys: Collection[str]) -> Mapping[str, FetchedQueue]:
        """Return those of some keys, and perhaps others. O(keys)."""

    def every(self) -> Iterable[FetchedQueue]:
        """Return all of them. O(queues)."""


class KnownQueues:
    """Queues that are all in memory."""

    def __init__(self, queues: Iterable[FetchedQueue]) -> None:
        self._queues = {one.queue: one for one in queues}

    def amounts(self, measure: str) -> Iterable[tuple[str, int]]:
        """Return an amount of each, with its key."""
        amount = attrgetter(measure)
        return ((key, amount(one) or 0) for key, one in self._queues.items())

    def named(self, keys: Collection[str]) -> Mapping[str, FetchedQueue]:
        """Return all of them."""
        return self._queues

    def every(self) -> Iterable[FetchedQueue]:
        """Return all of them."""
        return self._queues.values()


class StoredQueues:
    """The queues of a frontier, from one snapshot: of most of them, no more than their amounts is read."""

    def __init__(self, view: View) -> None:
        self._view = view

    def amounts(self, measure: str) -> Iterable[tuple[str, int]]:
        """Return an amount of each, with its key."""
        if measure == "fetched":
            return self._view.charges()
        return ((one.queue, getattr(one, measure)) for _, one in fetched_queues(self._view))

    def named(self, keys: Collection[str]) -> Mapping[str, FetchedQueue]:
        """Return those of some keys."""
        found = filter(None, map(self._view.find_queue, keys))
        each = (next(fetched_queues(self._view, queue.id - 1)) for queue in found if queue.charges)
        return {one.queue: one for _, one in each}

    def every(self) -> Iterable[FetchedQueue]:
        """Return all of them."""
        return (one for _, one in fetched_queues(self._view))


def busy_queues(busiest: Busiest) -> KnownQueues:
    """Return the busiest queues of a time, as far as they are known apart."""
    return KnownQueues(FetchedQueue(one.queue, one.fetched, one.spent) for one in busiest.queues)


def compared(
    first: FetchedQueues,
    second: FetchedQueues,
    happened: tuple[Window, Window],
    *,
    measure: str,
    limit: int | None,
) -> Comparison:
    """Return the comparison, the queues with the greatest difference of a measure first. Memory: the first's keys.

    `happened` are the figures of each. Without a limit, all queues of both are in memory.
    """
    if limit is None:
        first, second = KnownQueues(first.every()), KnownQueues(second.every())
    left = dict(first.amounts(measure))
    number, both, only = len(left), 0, 0

    def differences() -> Iterator[tuple[int, str]]:
        nonlocal both, only
        for key, amount in second.amounts(measure):
            had = left.pop(key, -1)
            if had < 0:
                only, had = only + 1, 0
            else:
                both += 1
            yield abs(amount - had), key
        for key, had in left.items():  # those that the second has are gone from it by now
            yield had, key

    found = sorted(differences(), reverse=True) if limit is None else nlargest(limit, differences())
    chosen = [key for _, key in found]
    one, other = first.named(chosen), second.named(chosen)
    rows = [ComparedQueue(key, one.get(key), other.get(key)) for key in chosen]
    return _side_by_side(happened, dict(zip(SIDES, (number - both, only, both), strict=True)), rows)


def _side_by_side(
    happened: tuple[Window, Window], queues: dict[str, int], rows: list[ComparedQueue], untold: str = ""
) -> Comparison:
    first, second = happened
    ran = first.seconds, second.seconds
    return Comparison((told_rates(first), told_rates(second)), queues, rows, untold, ran=ran)


def _known_runs(numbers: Collection[int]) -> str:
    """Return which runs there are, as the end of an error."""
    return f"they are {min(numbers)} to {max(numbers)}" if numbers else "there is none yet"


def compared_runs(crawl: OverRuns, first: int, second: int, *, measure: str, limit: int | None) -> Comparison:
    """Return the comparison of two runs of a crawl by their numbers. Raises NoSuchRun.

    Raises ConnectionLost while a partition does not answer: runs are numbered by those of all.
    """
    now = time.time()
    known = {run.number: (run.began, run.ended or now) for run in crawl.runs()}
    if sentence := crawl.unanswered():
        raise ConnectionLost(f"which run has which number is not known: {sentence}")
    for number in (first, second):
        if number not in known:
            raise NoSuchRun(f"there is no run {number}: {_known_runs(known)}")
    # Of runs that are not told apart, the totals after the end of one are needed, too. It may be later than now, if the
    # clock was set back since.
    latest = max(now, *(ended for _, ended in known.values()))
    one, other = (of_run(crawl.series(known[number][0], latest), *known[number]) for number in (first, second))
    left, right = (crawl.busiest(*known[number]) for number in (first, second))
    happened = one, other
    if left.since < right.until and right.since < left.until:
        found = _side_by_side(happened, {}, [], _SAME_RUN if first == second else _SAME_HOUR)
    else:
        found = compared(busy_queues(left), busy_queues(right), happened, measure=measure, limit=limit)
    of_both = zip((first, second), happened, strict=True)
    found.unsure = [f"run {number}: {estimated(one.cut)}" for number, one in of_both if one.cut]
    return found


def of_run(series: Series, began: float, ended: float) -> Window:
    """Return the figures of a run: of a job, by its own rows, for those of other runs may be of the same time."""
    if len(series) != 1:
        return between(*series)(began, ended)
    runs = {row.run for row in series[0] if row.begins and row.time == began}
    own = [row for row in series[0] if row.run in runs] if runs else series[0]
    return window(own, began, ended, throughout=True)


def sentences(found: Comparison, names: tuple[str, str]) -> Iterator[str]:
    """Yield what each has done in a sentence, and how many queues they share."""
    for name, totals, ran in zip(names, found.totals, found.ran, strict=True):
        yield f"{name}: {_told(totals, ran)}"
    yield found.untold or "queues fetched from: " + ", ".join(
        f"{number:,} {SIDES[side]}" for side, number in found.queues.items()
    )


def _told(totals: Mapping[str, ToldRate], ran: float) -> str:
    if not totals:
        return "nothing is known of its time"
    names = ("fetched", "spent", "failed", "bytes", *_ANSWERS)
    told = ", ".join(f"{called(name)} {figure(name, totals[name].count)}" for name in names)
    return f"{told}; {too_short(ran) or figure('fetched', totals['fetched'].per_hour) + ' fetched an hour'}"


def too_short(ran: float) -> str:
    """Return that too few seconds of a crawl are known for rates, as a clause; "" if they are enough, or none are."""
    return f"its totals tell of {say_duration(ran)}, too short for a rate an hour" if ran and not lasts(ran) else ""


_SAME_HOUR = (
    "Hosts are not compared: what was fetched of them is known by the hour, after 30 days by the day, and both runs "
    "were in the same one."
)
_SAME_RUN = "Hosts are not compared: this is one run, and not two."
_ANSWERS = ("answers_4xx", "answers_5xx", "unanswered")
