"""The operation of a crawl in partitions: looks at all of them and commands to them, through their owners."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import msgspec

from budgetfrontier.client import RemoteFrontier
from budgetfrontier.cluster import merging
from budgetfrontier.cluster.client import PAUSE, ClusterFrontier
from budgetfrontier.cluster.inspection import MOST_ROWS, Page, Reported, Selection
from budgetfrontier.cluster.routing import partition_of_queue
from budgetfrontier.cluster.standing import Standing, crawl_state
from budgetfrontier.engine import audit
from budgetfrontier.errors import ConnectionLost, FrontierClosed, FrontierError, NotOwner
from budgetfrontier.model import QueueRecord
from budgetfrontier.reports.overview import Overview
from budgetfrontier.reports.work_list import Raised
from budgetfrontier.store.records import AuditEntry
from budgetfrontier.store.report import Report

PATIENCE: Final = 3.0
"""Seconds for which the owner of a partition is looked for, before the partition counts as missing."""
WAIT: Final = 10.0
"""Seconds for which a command waits until the owners of all partitions have applied it."""
_THREADS: Final = 16

Ends = Callable[[int], Mapping[int, int]]
"""Takes the number of partitions; returns the ends of their logs: the offset that comes next in each."""


class Command(NamedTuple):
    """A command of an operator with what the audit keeps of it: who gives it, why, and the command line."""

    op: str
    args: dict[str, Any]
    who: str
    reason: str = ""
    line: str = ""


class PartitionRow(NamedTuple):
    """A partition in the list of them. All but its number, its owner and its epoch is None if that does not answer."""

    partition: int
    owner: str
    address: str
    epoch: int | None
    position: int | None
    lag: int | None
    """Entries of the log that its owner has not applied yet; None if the end of the log is not known."""
    state: str | None
    queues: int | None
    queued: int | None
    in_process: int | None
    succeeded: int | None
    failed: int | None
    spent: int | None


class Operator:
    """Looks at a crawl in partitions and steers it, for one thread. `job` stands for the crawl in suggested commands.

    `missing` has the partitions of which no owner has answered a look so far; they are not asked again.
    """

    def __init__(
        self, frontier: ClusterFrontier, *, job: str, ends: Ends | None = None, patience: float | None = None
    ) -> None:
        self.job = job
        self.missing: set[int] = set()
        self._frontier = frontier
        self.ends = ends
        self._patience = PATIENCE if patience is None else patience

    def __repr__(self) -> str:
        return f"<Operator of {self._frontier!r}>"

    # -- looks

    @property
    def frontier(self) -> ClusterFrontier:
        """The client of the crawl."""
        return self._frontier

    @property
    def partitions(self) -> int:
        """The number of partitions. Raises ConnectionLost if none has an owner."""
        return self._frontier.partitions

    def partition_of(self, target: str) -> int:
        """Return the partition of a URL, or else of the queue with a key."""
        if "://" in target:
            return self._frontier.router.partition(target)
        return partition_of_queue(target, self.partitions)

    def ask(self, look: str, kind: Any, *, of: Iterable[int] | None = None, **named: Any) -> dict[int, Any]:
        """Return the answers of owners to a look of `inspection`, by partition: of all, or of some."""

        def call(remote: RemoteFrontier, number: int) -> Any:
            return msgspec.convert(remote.plain("inspect", number, look, named), kind)

        return self._asked(call, of)

    def ask_one(self, number: int, look: str, kind: Any, **named: Any) -> Any:
        """Return the answer of the owner of one partition. Raises ConnectionLost."""
        found = self.ask(look, kind, of=[number], **named)
        if number not in found:
            raise ConnectionLost(self.without_owner([number]))
        return found[number]

    def without_owner(self, numbers: Collection[int]) -> str:
        """Return the sentence that the owners of partitions do not answer, with the last ones known."""
        owners = self._frontier.owners()
        last = sorted({owners[number].worker for number in numbers if number in owners})
        who = f" (last with {', '.join(last)})" if last else ""
        verb = "does" if len(numbers) == 1 else "do"
        named = merging.named_partitions(numbers)
        return f"{named} of {self.partitions} {verb} not answer{who}; look whether enough workers run"

    def report(self, limit: int) -> tuple[Report, Overview]:
        """Return the report of the crawl, without its queues, and their aggregates of `limit` queues in each list."""
        reports, overview = self._gathered(limit)
        return self._merged(reports, self._standings()), overview

    def overview(self, limit: int) -> Overview:
        """Return the aggregates of all queues, of `limit` queues in each list."""
        return self._gathered(limit)[1]

    def head(self) -> Report:
        """Return the report of the crawl without its queues."""
        return self.current()[0]

    def current(self) -> tuple[Report, list[PartitionRow]]:
        """Return the report of the crawl without its queues, and a row for each partition."""
        reports = [*self.ask("head", Report).values()]
        standings = self._standings()
        return self._merged(reports, standings), self._rows(standings)

    def each_queue(self, selection: Selection) -> Iterator[tuple[QueueRecord, Raised | None]]:
        """Yield the selected queues, by partition, in order of creation."""
        for number in range(self.partitions):
            after: int | None = -1
            while after is not None and number not in self.missing:
                found = self.ask("queues", Page, of=[number], selection=selection, after=after)
                if number in found:
                    page: Page = found[number]
                    yield from _rows(page)
                    after = page.rest

    def best_queues(
        self, selection: Selection, *, sort: str, reverse: bool, count: int
    ) -> list[tuple[QueueRecord, Raised | None]]:
        """Return the first `count` of the selected queues, sorted by a column. Each owner sends its best ones only."""
        rows: list[tuple[QueueRecord, Raised | None]] = []
        wanted = dict.fromkeys(range(self.partitions), 0)
        while wanted:
            offset = min(wanted.values())
            numbers = [number for number, at in wanted.items() if at == offset]
            found: dict[int, Page] = self.ask(
                "best", Page, of=numbers, selection=selection, sort=sort, reverse=reverse, offset=offset,
                count=min(count - offset, MOST_ROWS),
            )  # fmt: skip
            for number in numbers:
                page = found.get(number)
                rows += [] if page is None else _rows(page)
                if page is None or not _has_more(page, min(count - offset, MOST_ROWS)):
                    del wanted[number]
                else:
                    wanted[number] = offset + len(page.queues)
            wanted = {number: at for number, at in wanted.items() if at < count}
        rows.sort(key=lambda row: getattr(row[0], sort), reverse=reverse)
        return rows[:count]

    def list_partitions(self) -> list[PartitionRow]:
        """Return a row for each partition, whether its owner answers or not."""
        return self._rows(self._standings())

    # -- commands

    def apply(self, command: Command) -> AuditEntry:
        """Apply a command to one queue, `args["queue"]`; return its audit entry. Raises FrontierError if refused."""
        number = partition_of_queue(command.args["queue"], self.partitions)
        found = self._asked(lambda remote, _: remote.plain("apply", *command), [number])
        if number not in found:
            raise ConnectionLost(self.without_owner([number]))
        return audit.check(msgspec.convert(found[number], AuditEntry))

    def apply_everywhere(self, command: Command, more: Mapping[int, dict[str, Any]] | None = None) -> bytes:
        """Append a command to the logs of all partitions; return its id. Each applies it once.

        `more` are further arguments for some partitions. Any worker can do that: it is repeated with the next one, and
        with the same id, if one does not answer.
        """
        name = os.urandom(8)
        deadline = time.monotonic() + WAIT
        while True:
            for address in sorted({owner.address for owner in self._frontier.owners().values() if owner.address}):
                try:
                    self._frontier.remote(address).plain("apply_everywhere", name, list(command), dict(more or {}))
                except (NotOwner, ConnectionLost, FrontierClosed):
                    self._frontier.forget(address)
                else:
                    return name
            if time.monotonic() > deadline:
                raise ConnectionLost(f"no worker of {self.job} answers; look whether one runs")
            time.sleep(PAUSE)

    def applied(self, name: bytes) -> dict[int, AuditEntry]:
        """Wait until the owners of all partitions have applied a command; return its audit entries, by partition."""
        deadline = time.monotonic() + WAIT
        found: dict[int, AuditEntry] = {}
        left = set(range(self.partitions))
        while left:
            answers = self.ask("applied", AuditEntry | None, of=left, command=name)
            found |= {number: entry for number, entry in answers.items() if entry is not None}
            left -= found.keys() | self.missing
            if not left or time.monotonic() > deadline:
                break
            time.sleep(PAUSE)
        return found

    # -- their parts

    def _rows(self, standings: Mapping[int, Standing]) -> list[PartitionRow]:
        owners, count = self._frontier.owners(), self.partitions
        ends = {} if self.ends is None else self.ends(count)
        rows = []
        for number in range(count):
            owner, found = owners.get(number), standings.get(number)
            known = ("", "", None) if owner is None else (owner.worker, owner.address, owner.epoch)
            if found is None:
                rows.append(PartitionRow(number, *known, *[None] * 9))
                continue
            totals = found.summary
            rows.append(
                PartitionRow(
                    number, found.owner, known[1], found.epoch, found.position,
                    max(ends[number] - found.position, 0) if number in ends else None, str(totals.state),
                    sum(totals.queues.values()), totals.queued, totals.in_process, totals.succeeded, totals.failed,
                    totals.expenditure,
                )
            )  # fmt: skip
        return rows

    def _gathered(self, limit: int) -> tuple[list[Report], Overview]:
        overview = Overview(limit)
        found: dict[int, Reported] = self.ask("report", Reported, limit=limit)
        for one in found.values():
            overview.add(one.gathered)
        return [one.report for one in found.values()], overview

    def _merged(self, reports: Sequence[Report], standings: Mapping[int, Standing]) -> Report:
        if not reports:
            raise ConnectionLost(self.without_owner(self.missing))
        state = None if self.missing else crawl_state(standings.values())
        workers = len({one.owner for one in standings.values()})
        return merging.merged_report(reports, job=self.job, workers=workers, state=state)

    def _standings(self) -> dict[int, Standing]:
        found, missing = self._frontier.standings()
        self.missing |= missing
        return {one.partition: one for one in found}

    def _asked(
        self, call: Callable[[RemoteFrontier, int], Any], numbers: Iterable[int] | None = None
    ) -> dict[int, Any]:
        """Call the owners of partitions, those of different workers at a time; return their answers."""
        left = set(range(self.partitions) if numbers is None else numbers) - self.missing
        found: dict[int, Any] = {}
        deadline = time.monotonic() + self._patience
        while left:
            by_address: dict[str, list[int]] = {}
            for number, owner in self._frontier.owners().items():
                if owner.address and number in left:
                    by_address.setdefault(owner.address, []).append(number)
            with ThreadPoolExecutor(min(len(by_address), _THREADS) or 1) as pool:
                parts = [pool.submit(self._asked_at, call, *item) for item in by_address.items()]
            for part in parts:
                found |= part.result()
            left -= found.keys()
            if left and time.monotonic() > deadline:
                self.missing |= left
                break
            if left:
                time.sleep(PAUSE)
        return found

    def _asked_at(
        self, call: Callable[[RemoteFrontier, int], Any], address: str, numbers: Iterable[int]
    ) -> dict[int, Any]:
        """Return the answers of one worker, as far as it gives any."""
        found: dict[int, Any] = {}
        for number in numbers:
            try:
                found[number] = call(self._frontier.remote(address), number)
            except NotOwner:
                continue
            except (ConnectionLost, FrontierClosed):
                break
        return found


def _has_more(page: Page, asked: int) -> bool:
    """Tell whether a partition may have more than a page that it was asked for, of so many queues."""
    return bool(page.queues) and (page.rest is not None or len(page.queues) == asked)


def _rows(page: Page) -> Iterator[tuple[QueueRecord, Raised | None]]:
    if page.raised:
        return zip(page.queues, page.raised, strict=True)
    return ((queue, None) for queue in page.queues)


def refused(entries: Mapping[int, AuditEntry]) -> None:
    """Raise FrontierError if a command was refused by all partitions that have applied it."""
    if entries and all(entry.error for entry in entries.values()):
        raise FrontierError(next(iter(entries.values())).error or "")
