"""Aggregates over all queues for reports: queues by state, the biggest spenders, URIs stranded in retired queues."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import msgspec

from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.storage import group_listing
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.report import Report, report_head

if TYPE_CHECKING:
    from budgetfrontier.storage.reader import Reader
    from budgetfrontier.storage.view import View

ORDER: dict[QueueState, Callable[[QueueRecord], Any]] = {
    QueueState.IN_PROCESS: attrgetter("position"),
    QueueState.READY: attrgetter("position"),
    QueueState.SNOOZED: attrgetter("wake_time", "id"),
    QueueState.INACTIVE: attrgetter("precedence", "position"),
    QueueState.INELIGIBLE: attrgetter("position"),
    QueueState.RETIRED: attrgetter("position"),
}
"""The states that a report lists, in Heritrix's order, each with the sort key for the turns of its queues."""

_queued = attrgetter("queued")
_expenditure = attrgetter("expenditure")


class TopN:
    """The `limit` queues with the smallest keys (with `largest`: the largest) of those added.

    Memory: twice the limit, for any number added. Queues with equal keys stay in the order of addition.
    """

    def __init__(self, limit: int, key: Callable[[QueueRecord], Any], *, largest: bool = False) -> None:
        self._limit = limit
        self._key = key
        self._largest = largest
        self._kept: list[QueueRecord] = []
        self._room = 2 * limit + 100
        self._worst: Any = None

    def add(self, queue: QueueRecord) -> None:
        """Keep `queue` if it is one of the best so far."""
        if self._worst is not None:
            key = self._key(queue)
            if key <= self._worst if self._largest else key >= self._worst:
                return
        self._kept.append(queue)
        if len(self._kept) >= self._room:
            self.best()

    def best(self) -> list[QueueRecord]:
        """Return the best so far, in order."""
        self._kept.sort(key=self._key, reverse=self._largest)
        del self._kept[self._limit :]
        if self._limit and len(self._kept) == self._limit:
            self._worst = self._key(self._kept[-1])
        return list(self._kept)


def gini(amounts: Mapping[int, int]) -> float:
    """Return the Gini coefficient of amounts, each with how often it occurs.

    0.0 if all are equal or there are none, towards 1.0 if one has everything.
    """
    total = weighted = rank = 0
    for amount, count in sorted(amounts.items()):
        total += amount * count
        weighted += amount * (count * rank + count * (count + 1) // 2)
        rank += count
    return 2 * weighted / (rank * total) - (rank + 1) / rank if total else 0.0


@dataclass(frozen=True, slots=True)
class SpendDistribution:
    """The distribution of the expenditure over the queues, and the URIs that budgets hold back."""

    total: int
    spenders: int
    """The number of queues with any expenditure."""
    penalties: int
    """The part of `total` that was charged as error penalty."""
    gini: float
    top10_share: float
    """The part of `total` that the ten biggest spenders spent, 0.0 to 1.0."""
    top: list[QueueRecord]
    stranded: int
    """URIs in RETIRED queues."""
    stranding: list[QueueRecord]
    """The RETIRED queues with the most URIs."""
    stranding_count: int


class Gathered(msgspec.Struct):
    """The aggregates of a part of a crawl, as plain data that is added to those of other parts."""

    longest: list[QueueRecord]
    top: list[QueueRecord]
    stranding: list[QueueRecord]
    listed: dict[QueueState, list[QueueRecord]]
    precedences: dict[int, int]
    amounts: dict[int, int]
    """The number of queues that have spent each amount."""
    penalties: int
    stranded: int
    stranding_count: int
    next_wake: float | None


class Overview:
    """The aggregates of a report, gathered in one pass over the queues, with at most `limit` queues in each section.

    Memory does not depend on the number of queues, except for one counter per distinct amount of expenditure.
    """

    def __init__(self, limit: int, *, all_states: bool = False) -> None:
        """Prepare for gathering; `all_states`: keep all queues of each state, which takes about 600 bytes for each."""
        self.limit, self.all_states = limit, all_states
        self._longest = TopN(max(limit, 10), _queued, largest=True)
        self._top = TopN(max(limit, 10), _expenditure, largest=True)
        self._stranding = TopN(limit, _queued, largest=True)
        self._states = {state: TopN(sys.maxsize if all_states else limit, key) for state, key in ORDER.items()}
        self._precedences: Counter[int] = Counter()
        self._amounts: Counter[int] = Counter()
        self._penalties = self._stranded = self._stranding_count = 0
        self.next_wake: float | None = None
        """The earliest wake time of a SNOOZED queue."""

    def through(self, queues: Iterable[QueueRecord]) -> Iterator[QueueRecord]:
        """Yield the same queues, and gather them as they pass."""
        retired, inactive, snoozed = QueueState.RETIRED, QueueState.INACTIVE, QueueState.SNOOZED
        states = {state: best.add for state, best in self._states.items()}
        longest, top, stranding = self._longest.add, self._top.add, self._stranding.add
        amounts, precedences = self._amounts, self._precedences
        for queue in queues:
            state, queued, spent = queue.state, queue.queued, queue.expenditure
            if queued:
                longest(queue)
            amounts[spent] += 1
            if spent:
                self._penalties += queue.penalties
                top(queue)
            if state in states:
                states[state](queue)
            if state is inactive:
                precedences[queue.precedence] += 1
            elif state is retired and queued:
                self._stranded += queued
                self._stranding_count += 1
                stranding(queue)
            elif state is snoozed and (self.next_wake is None or queue.wake_time < self.next_wake):
                self.next_wake = queue.wake_time
            yield queue

    def gather(self, queues: Iterable[QueueRecord]) -> Self:
        deque(self.through(queues), maxlen=0)
        return self

    def read(
        self, reader: Reader, through: Callable[[View, Iterator[QueueRecord]], Iterable[QueueRecord]] | None = None
    ) -> Report:
        """Gather all queues of a frontier, as of its last commit; return the report without rows.

        `through` may look at the queues in passing: as stored, with the budgets of their last turn. Listed ones get
        those in force.
        """
        with reader.view() as view:
            head = report_head(view, reader.path, generated=view.now())
            queues = view.compact_queues()
            self.gather(through(view, queues) if through else queues)
            self.complete(BudgetsInForce(view).complete)
            head.groups = group_listing.listed(view, head.generated, sys.maxsize if self.all_states else self.limit)
        return head

    def complete(self, complete: Callable[[QueueRecord], QueueRecord]) -> None:
        """Complete the records of the queues that are listed, if they were gathered as they are stored."""
        best = self._longest, self._top, self._stranding, *self._states.values()
        for queue in {queue.id: queue for listed in best for queue in listed.best()}.values():
            complete(queue)

    def gathered(self) -> Gathered:
        """Return the gathered part."""
        return Gathered(
            self._longest.best(),
            self._top.best(),
            self._stranding.best(),
            {state: best.best() for state, best in self._states.items()},
            dict(self._precedences),
            dict(self._amounts),
            self._penalties,
            self._stranded,
            self._stranding_count,
            self.next_wake,
        )

    def add(self, part: Gathered) -> None:
        """Add the gathered part of another partition, with at least the same limit."""
        lists = [(self._longest, part.longest), (self._top, part.top), (self._stranding, part.stranding)]
        lists += [(self._states[state], queues) for state, queues in part.listed.items()]
        for best, queues in lists:
            for queue in queues:
                best.add(queue)
        self._precedences.update(part.precedences)
        self._amounts.update(part.amounts)
        self._penalties += part.penalties
        self._stranded += part.stranded
        self._stranding_count += part.stranding_count
        if part.next_wake is not None and (self.next_wake is None or part.next_wake < self.next_wake):
            self.next_wake = part.next_wake

    def longest(self, count: int) -> list[QueueRecord]:
        """Return the `count` queues with the most URIs, without empty ones; at most `limit`, or ten if that is less."""
        return self._longest.best()[:count]

    def listed(self, state: QueueState) -> list[QueueRecord]:
        """Return the first queues of a state, in the order of their turns."""
        return self._states[state].best()

    def shown(self, groups: group_listing.GroupsListed) -> list[group_listing.GroupRow]:
        """Return the groups of queues to list, the fullest first."""
        return groups.fullest if self.all_states else groups.fullest[: self.limit]

    def inactive_by_precedence(self) -> list[tuple[int, int]]:
        """Return the number of INACTIVE queues of each precedence, the best (lowest) first."""
        return sorted(self._precedences.items())

    def spend(self) -> SpendDistribution:
        """Return the distribution of the expenditure."""
        total = sum(amount * count for amount, count in self._amounts.items())
        top = self._top.best()
        return SpendDistribution(
            total=total,
            spenders=self._amounts.total() - self._amounts[0],
            penalties=self._penalties,
            gini=gini(self._amounts),
            top10_share=sum(queue.expenditure for queue in top[:10]) / total if total else 0.0,
            top=top[: self.limit],
            stranded=self._stranded,
            stranding=self._stranding.best(),
            stranding_count=self._stranding_count,
        )
