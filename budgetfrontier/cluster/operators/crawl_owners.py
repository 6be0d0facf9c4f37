"""Operators' reads from, and commands to, the owners of a crawl's partitions."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from operator import attrgetter
from typing import Any, Final, TypeVar

from budgetfrontier.bus.interface import BusError
from budgetfrontier.cluster.calls.partition_router import PAUSE
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.directory.copy_offers import CopyNotice
from budgetfrontier.cluster.directory.summaries import EVERY, PartitionSummary, Reported
from budgetfrontier.cluster.operators import merging
from budgetfrontier.cluster.operators.inspection import AppliedCommand
from budgetfrontier.cluster.operators.owner_calls import OwnerCalls
from budgetfrontier.cluster.partitions.partition_progress import PartitionProgress, to_standings
from budgetfrontier.cluster.partitions.routing import partition_of_queue
from budgetfrontier.core.converters import converter
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.core.units import describe_duration
from budgetfrontier.errors import ConnectionLost, FrontierError, NotOwner
from budgetfrontier.remote import RemoteFrontier
from budgetfrontier.reports.operators import OperatorCommand
from budgetfrontier.rules.undoing import telling
from budgetfrontier.settings import Settings
from budgetfrontier.storage.disks import FolderDisk
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.report import Report

GONE: Final = 30.0
"""Seconds after which a partition whose owner does not answer, and has published no summary of any, is lost."""
QUIET: Final = 3 * EVERY
"""Seconds without a summary after which a worker that does not answer soon is not waited for: it is not just busy."""
WAIT: Final = 10.0
"""Seconds for which a command waits until the owners of all partitions have applied it."""
_T = TypeVar("_T")
_Reports = TypeVar("_Reports", bound=Report | Reported)
Ends = Callable[[int], Mapping[int, int]]
"""Takes the number of partitions; returns the ends of their logs: the offset that comes next in each."""


class CrawlOwners:
    """The owners of a crawl's partitions, for one look. `job` stands for the crawl in suggested commands."""

    def __init__(
        self,
        frontier: ClusterFrontier,
        *,
        job: str,
        ends: Ends | None = None,
        summaries: Callable[[], Mapping[int, PartitionSummary]] | None = None,
        notices: Callable[[], Collection[CopyNotice]] = list,
        patience: float | None = None,
    ) -> None:
        """Ask the owners that a client finds.

        `summaries()` returns those that they have published, if they do; `notices()` what workers say of partitions
        that they cannot serve.
        """
        self.job, self.frontier, self.ends, self.summaries, self.notices = job, frontier, ends, summaries, notices
        self.calls = OwnerCalls(frontier, patience=patience, is_quiet=self._is_quiet)
        self.ages: dict[int, float] = {}
        """By partition whose owner has not answered: the seconds since the oldest of its published figures."""
        self.lost: set[int] = set()
        """The partitions of which nothing is known, or nothing that is not old: those in `missing` may be published."""
        self.progress: dict[int, dict[str, Any]] = {}
        """By partition: the effect so far of the command that was waited for, where it was begun and not ended."""
        self._settings: Settings | None = None
        self._ahead: float | None = None
        """Seconds by which the clock of the brokers is ahead of this machine's, as far as owners have told."""

    def again(self) -> CrawlOwners:
        """Return the owners for another look, see `OwnerCalls.again`."""
        other = copy(self)
        other.calls, other.ages, other.lost, other.progress = self.calls.again(), {}, set(), {}
        return other

    def __repr__(self) -> str:
        return f"<CrawlOwners of {self.frontier!r}>"

    @property
    def missing(self) -> set[int]:
        """The partitions whose owners have answered no look so far, and have published nothing instead, or nothing new.

        They are not asked again.
        """
        return self.calls.missing | self.lost

    @property
    def partitions(self) -> int:
        """The number of partitions. Raises ConnectionLost if none has an owner, with the reason if workers say one."""
        with self._explained():
            return self.frontier.partitions

    @property
    def settings(self) -> Settings:
        """The settings of the crawl, as its workers have them, without the adjustments."""
        if self._settings is None:
            with self._explained():
                found: Settings = self.calls.any(lambda remote: remote.settings)
            self._settings = found
        return self._settings

    def partition_of_uri(self, uri: str | CrawlUri) -> int:
        """Return the partition of a URI."""
        return self.frontier.router.partition(uri)

    def partition_of_queue(self, key: str) -> int:
        """Return the partition of the queue with a key."""
        return partition_of_queue(key, self.partitions)

    def ask(self, look: str, kind: type[_T], *, of: Iterable[int] | None = None, **named: Any) -> dict[int, _T]:
        """Return the answers of owners to a look of `inspection`, by partition: of all, or of some.

        Raises ConnectionLost if all are asked and none answers: nothing that is made of no answer is true.
        """
        found = self.calls.each(_inspected(look, kind, named), range(self.partitions) if of is None else of)
        if of is None:
            self.check_any()
        return found

    def check_any(self) -> None:
        """Raise ConnectionLost if no partition has answered so far."""
        if len(self.calls.missing) == self.partitions:
            raise ConnectionLost(self.without_owner(self.missing))

    def latest(
        self,
        call: Callable[[RemoteFrontier, int], _T],
        of_summary: Callable[[PartitionSummary], _T],
        *,
        lists: bool = False,
    ) -> dict[int, _T]:
        """Return the answers of owners by partition; of those that do not answer at once, the values in summaries.

        One whose owner has published nothing for `GONE` is lost nevertheless, and then all of these are. Ages are those
        of the owner's last summary of any partition, for it publishes those in which something has happened. With
        `lists`, they are those of the aggregates, if these are older. Takes a second at the most, if each partition
        without an answer has a summary.
        """
        numbers = range(self.partitions)
        found: dict[int, _T] = {} if self.summaries is None else self.calls.soon(call, numbers)
        known, now = {} if len(found) == len(numbers) else self._known(), self.now()
        seen = _seen(known)
        late = {number: known[number] for number in numbers if number not in found and number in known}
        for number, one in late.items():
            behind = one.gathered_before if lists else 0.0
            age = max(0.0, now - (one.at if behind else seen[one.standing.owner])) + behind
            self.ages[number] = max(age, self.ages.get(number, 0.0))
        found |= {number: of_summary(one) for number, one in late.items()}
        found |= self.calls.each(call, set(numbers) - found.keys())
        gone = {number for number, one in late.items() if now - seen[one.standing.owner] > GONE}
        if lost := gone | (late.keys() & self.closed().keys()) | (set(numbers) - found.keys()):
            self.lost |= lost | late.keys()
        return dict(sorted(found.items()))

    def now(self) -> float:
        """Return the time of the brokers (epoch seconds), as owners that have answered tell it, else this machine's."""
        return time.time() + (self._ahead or 0.0)

    def _hear(self, now: float) -> None:
        """Take note of the time of a broker in an answer: the one that was under way for the shortest time counts."""
        ahead = now - time.time()
        self._ahead = ahead if self._ahead is None else max(self._ahead, ahead)

    def _known(self) -> Mapping[int, PartitionSummary]:
        try:
            return {} if self.summaries is None else self.summaries()
        except BusError:  # of a topic that is not there, such as that of a crawl that begins
            return {}

    def disks(self) -> dict[str, FolderDisk]:
        """Return the disks of workers' folders by the names of the workers, as of their last summaries."""
        found = sorted(self._known().values(), key=attrgetter("at"))
        return {one.standing.owner: one.disk for one in found if one.disk is not None}

    def closed(self) -> dict[int, str]:
        """Return why the workers that partitions were given to do not serve them, by partition, of those that say so.

        Another worker may serve one nevertheless, that has a copy.
        """
        try:
            found, now = self.notices(), self.now()
        except BusError:
            return {}
        return {one.partition: f"{one.worker}: {one.why}" for one in found if one.why and now - one.at < QUIET}

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Let the error that no worker is there say why those that run serve nothing, if they do."""
        try:
            yield
        except ConnectionLost as e:
            closed = self.closed()
            if not closed or any(owner.address for owner in self.frontier.owners().values()):
                raise
            first, are = min(closed), "is" if len(closed) == 1 else "are"
            raise ConnectionLost(
                f"no partition has an owner: {merging.named_partitions(closed)} {are} closed, {first} by the worker at "
                f"{closed[first]}"
            ) from e

    def _is_quiet(self, numbers: Collection[int]) -> bool:
        """Return whether partitions have summaries, and none that is new."""
        known, now = self._known(), self.now()
        seen = _seen(known)
        return all(number in known and now - seen[known[number].standing.owner] > QUIET for number in numbers)

    def looked(
        self, look: str, kind: type[_Reports], of_summary: Callable[[PartitionSummary], _Reports], **named: Any
    ) -> dict[int, _Reports]:
        """Return the `latest` answers to a look of `inspection`, reports of partitions, by partition."""
        inspected = _inspected(look, kind, named)

        def call(remote: RemoteFrontier, number: int) -> _Reports:
            found = inspected(remote, number)
            self._hear((found.report if isinstance(found, Reported) else found).generated)
            return found

        return self.latest(call, of_summary, lists=look == "report")

    def ask_one(self, number: int, look: str, kind: type[_T], **named: Any) -> _T:
        """Return the answer of the owner of one partition. Raises ConnectionLost."""
        found = self.ask(look, kind, of=[number], **named)
        if number not in found:
            raise ConnectionLost(self.without_owner([number]))
        return found[number]

    def pages(self, look: str, kind: Any, *, after: int, **named: Any) -> Iterator[Any]:
        """Yield the rows of a look that answers in pages, of all partitions, one after the other.

        Raises ConnectionLost if none answers.
        """
        for number in range(self.partitions):
            rest: int | None = after
            while rest is not None and number not in self.missing:
                for page in self.ask(look, kind, of=[number], after=rest, **named).values():
                    yield from page.rows
                    rest = page.rest
        self.check_any()

    def without_owner(self, numbers: Collection[int]) -> str:
        """Return the sentence that partitions are closed, and why the first is, or that their owners do not answer."""
        closed = {number: why for number, why in self.closed().items() if number in numbers}
        told = []
        if closed:
            first = min(closed)
            named, by = f"{merging.named_partitions(closed)} of {self.partitions}", f"by the worker at {closed[first]}"
            told.append(
                f"{named} is closed {by}"
                if len(closed) == 1
                else f"{named} are closed (`budgetfrontier partitions {self.job} --wide` says why), {first} {by}"
            )
        if others := set(numbers) - closed.keys():
            told.append(self.calls.sentence(others, self.partitions))
        return "; ".join(told)

    def told_late(self) -> str:
        """Return the sentence on the age of figures that are from summaries; "" if there are none."""
        if not self.ages:
            return ""
        named, oldest = merging.named_partitions(self.ages), describe_duration(max(self.ages.values()))
        whose, since = ("its owner", "") if len(self.ages) == 1 else ("their owners", "up to ")
        return f"the figures of {named} are those that {whose} published {since}{oldest} ago"

    def standings(self) -> dict[int, PartitionProgress]:
        """Return the standings of partitions: each worker is asked once for all of its own."""
        standings_of: dict[RemoteFrontier, dict[int, PartitionProgress]] = {}

        def call(remote: RemoteFrontier, number: int) -> PartitionProgress:
            if remote not in standings_of:
                standings_of[remote] = {one.partition: one for one in to_standings(remote.standings())}
                for one in standings_of[remote].values():
                    self._hear(one.time)
            if number not in standings_of[remote]:
                raise NotOwner
            return standings_of[remote][number]

        return self.latest(call, attrgetter("standing"))

    # -- commands

    def give(
        self,
        command: OperatorCommand,
        more: Mapping[int, dict[str, Any]] | None = None,
        *,
        to: Iterable[int] | None = None,
    ) -> bytes:
        """Append a command to the logs of all partitions, or of some; return its id. Each applies it once.

        `more` are further arguments for some partitions. Any worker can do that: it is repeated with the next one, and
        with the same id, if one does not answer.
        """
        name = os.urandom(8)
        order = [name, list(command), dict(more or {}), None if to is None else sorted(to)]
        with self._explained():
            self.calls.any(lambda remote: remote.plain("give_command", *order), within=WAIT)
        return name

    def applied(
        self, name: bytes, *, of: Collection[int] | None = None, within: float | None = None
    ) -> dict[int, AuditEntry]:
        """Wait until the owners of partitions have applied a command; return its audit entries, by partition.

        They are waited for so many seconds, or as long as for a new command. `progress` then has the partitions that
        have begun it, and not ended it.
        """
        deadline = time.monotonic() + (WAIT if within is None else within)
        found: dict[int, AuditEntry] = {}
        left = set(range(self.partitions) if of is None else of)
        while left:
            answers = self.ask("applied", AppliedCommand, of=left, command=name)
            found |= {number: one.entry for number, one in answers.items() if one.entry is not None}
            self.progress = {number: one.progress for number, one in answers.items() if one.progress is not None}
            left -= found.keys() | self.missing
            if not left or time.monotonic() > deadline:
                break
            time.sleep(PAUSE)
        return dict(sorted(found.items()))

    def not_applied(self, numbers: Collection[int]) -> str:
        """Return the sentence that partitions have not applied a command yet."""
        named = merging.named_partitions(numbers)
        log = "its log" if len(numbers) == 1 else "the log of partition 0, which sends it to the others, or in theirs"
        begun = [self.progress[number] for number in numbers if number in self.progress]
        if begun:
            done = Counter[str]()
            for effect in begun:
                done.update({name: count for name, count in effect.items() if isinstance(count, int)})
            far = ", ".join(f"{name} {count:,}" for name, count in done.items())
            return (
                f"not done yet in {named} of {self.partitions} ({far}): it goes on by itself, and "
                f"`budgetfrontier audit {self.job}` lists it once it is done; do not give it again"
            )
        return (
            f"not applied yet by {named} of {self.partitions}: it is in {log}, and counts once an "
            "owner reads it; do not give it again"
        )


def _seen(known: Mapping[int, PartitionSummary]) -> dict[str, float]:
    """Return by worker when it has published its newest summary."""
    return {one.standing.owner: one.at for one in sorted(known.values(), key=attrgetter("at"))}


def _inspected(look: str, kind: type[_T], named: dict[str, Any]) -> Callable[[RemoteFrontier, int], _T]:
    """Return the call that asks the owner of a partition for a look of `inspection`."""
    convert = converter(kind)
    return lambda remote, number: convert(remote.plain("inspect", number, look, named))


def refused(entries: Mapping[int, AuditEntry]) -> None:
    """Raise FrontierError if a command was refused by all partitions that have applied it."""
    if entries and all(entry.error for entry in entries.values()):
        raise FrontierError(telling(entry.error or "" for entry in entries.values()))
