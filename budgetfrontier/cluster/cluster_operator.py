"""A crawl in partitions as operators look at it: the answers of the owners, merged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec import structs

from budgetfrontier.cluster import merging, steering_plan
from budgetfrontier.cluster.entry_names import name_of
from budgetfrontier.cluster.inspection import (
    MOST_BYTES,
    MOST_LISTED,
    MOST_ROWS,
    Audited,
    DeadLetterPage,
    FoundQueue,
    InForce,
    LeasePage,
)
from budgetfrontier.cluster.operator_client import Operator, refused
from budgetfrontier.core.model import CrawlUri, DeadLetter, QueueRecord, Run, StoredLease
from budgetfrontier.core.units import counted
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports import over_time
from budgetfrontier.reports.crawl_log import CrawlLogLine
from budgetfrontier.reports.explanation import Explanation, ReasonStep
from budgetfrontier.reports.format import clean
from budgetfrontier.reports.operators import (
    AdjustmentRow,
    Applied,
    AuditRow,
    CrawlOverview,
    LetterId,
    Listed,
    NoSuchQueue,
    OperatorCommand,
    Selection,
    Where,
)
from budgetfrontier.reports.overview import Overview
from budgetfrontier.reports.work_list import Raised
from budgetfrontier.rules.forecasts import Forecast, Held
from budgetfrontier.rules.verdict import limit_sentence
from budgetfrontier.settings import Settings
from budgetfrontier.storage.report import Report
from budgetfrontier.storage.seed_list import ListedSeed
from budgetfrontier.storage.series import Busiest, SeriesRow
from budgetfrontier.storage.view import PendingUri

NO_LOG = "unknown: a crawl in partitions has no crawl.log; its crawlers have logs of their own, if any"
SEEDS = 5000
"""Seeds that an owner is asked for at a time."""


class ClusterOperator:
    """A crawl in partitions as a `CrawlOperator`."""

    path: Path | None = None

    def __init__(self, owners: Operator) -> None:
        self.owners = owners
        self.job = owners.job

    def __repr__(self) -> str:
        return f"<ClusterOperator of {self.job}>"

    @property
    def settings(self) -> Settings:
        """The settings of the crawl, as its workers have them, without the adjustments."""
        return self.owners.settings

    @property
    def missing(self) -> Collection[int]:
        """The partitions of which no owner has answered so far."""
        return self.owners.missing

    def unanswered(self) -> str:
        """Return the sentence on the partitions that have not answered, with the last owners known."""
        return self.owners.without_owner(self.missing) if self.missing else ""

    # -- the whole crawl

    def head(self) -> Report:
        """Return the report of the crawl without its queues."""
        return self.owners.head()

    @contextmanager
    def scan(self) -> Iterator[tuple[Report, Iterator[QueueRecord]]]:
        """Return the report without its queues, and the queues by partition, in order of creation."""
        yield self.head(), (queue for queue, _ in self.owners.each_queue(Selection()))

    def overview(self, limit: int, *, all_states: bool = False, forecast: bool = False) -> CrawlOverview:
        """Return aggregates: those of the owners, or of all queues if that are more than owners list.

        Nothing of them is over time.
        """
        if not all_states and limit <= MOST_LISTED:
            return CrawlOverview(*self.owners.report(limit))
        with self.scan() as (head, queues):
            return CrawlOverview(head, Overview(limit, all_states=all_states).gather(queues))

    def stopped(self) -> str:
        """Return "": the verdict tells whether workers run."""
        return ""

    def used_up(self) -> str:
        """Return which total is used up, if one is: the partitions themselves are RUNNING."""
        setting = self.owners.limit(self.owners.standings())
        return "" if setting is None else limit_sentence(setting)

    def runs(self) -> list[Run]:
        """Return the times in which any partition had a worker, each as a run."""
        return merging.merged_runs(self.owners.ask("runs", list[Run]).values())

    def between(self, since: float, now: float, **figures: Any) -> over_time.Between:
        """Return the function of what happened between two times, in all partitions together."""
        found = self.owners.ask("series", list[SeriesRow], since=since, now=now)
        return over_time.between(*found.values(), **figures)

    def busiest(self, since: float, until: float) -> Busiest:
        """Return the busiest queues of a time, of all partitions."""
        return merging.merged_busiest([*self.owners.ask("busiest", Busiest, since=since, until=until).values()])

    def forecasts(self, now: float, length: float) -> list[Forecast]:
        """Return when each bound would end the crawl, by the rates and totals of all partitions."""
        return over_time.forecast_rows(
            self.between(now - length, now),
            self.head().totals,
            merging.merged_held(self.owners.ask("held", Held).values()),
            merging.limits_left(self.owners.standings().values()),
            now=now,
            length=length,
        )

    def seeds(self) -> Iterator[ListedSeed]:
        """Yield the lists of seeds of the partitions."""
        for number in range(self.owners.partitions):
            after = 0
            while part := self._seeds_of(number, after):
                yield from part
                after = part[-1].position

    def _seeds_of(self, number: int, after: int) -> list[ListedSeed]:
        found: dict[int, list[ListedSeed]]
        found = self.owners.ask("seeds", list[ListedSeed], of=[number], after=after, count=SEEDS)
        return found.get(number, [])

    def unlisted(self, urls: Sequence[str]) -> set[str]:
        """Return which of some URLs are in no list of seeds, of those whose partitions answer."""
        parts: dict[int, list[str]] = {}
        for url in urls:
            parts.setdefault(self.owners.partition_of_uri(CrawlUri(url)), []).append(url)
        asked = (self.owners.ask("unlisted", list[str], of=[number], urls=part) for number, part in parts.items())
        return {url for answer in asked for found in answer.values() for url in found}

    def log_lines(self, since: float | None, *, whole: bool) -> tuple[Iterator[CrawlLogLine] | None, str]:
        """Return that there is no crawl.log."""
        return None, NO_LOG

    def last_statuses(self, urls: Collection[str]) -> Mapping[str, int]:
        """Return none, as there is no crawl.log."""
        return {}

    # -- listings

    def sorted_queues(
        self, selection: Selection, *, sort: str, reverse: bool, end: int | None
    ) -> Iterator[tuple[QueueRecord, Raised | None]]:
        """Yield the selected queues, sorted; each owner sends its first `end`. Memory: these, or all selected ones."""
        if end is not None:
            yield from self.owners.best_queues(selection, sort=sort, reverse=reverse, count=end)
            return
        key = attrgetter(sort)
        yield from sorted(self.owners.each_queue(selection), key=lambda row: key(row[0]), reverse=reverse)

    def audit(
        self, *, key: str | None = None, where: Where | None = None, count: int | None = None, before: int = 0
    ) -> Listed[AuditRow]:
        """Return the audit, newest first, one row for a command to all partitions, of the newest `count` of each."""
        count = MOST_ROWS if count is None else min(count, MOST_ROWS)
        found: dict[int, list[Audited]]
        if key is None:
            found = self.owners.ask("audit", list[Audited], count=count)
        else:
            number = self.owners.partition_of_queue(key)
            found = {number: self.owners.ask_one(number, "audit", list[Audited], count=count, key=key)}
        is_cut = any(len(entries) == MOST_ROWS for entries in found.values())
        left_out = f"older entries left out: owners send the newest {MOST_ROWS:,}" if is_cut else ""
        rows = merging.merged_audit(found)[::-1]
        return Listed([row for row in rows if where is None or where(row.entry)], left_out)

    def in_progress(self) -> str:
        """Return "": whoever gives a command is told how far it is in each partition."""
        return ""

    def adjustments(self) -> list[AdjustmentRow]:
        """Return the adjustments in force in any partition."""
        found = merging.merged_adjustments(self.owners.ask("adjustments", list[InForce]))
        return [AdjustmentRow(name, one.match, one.set, one.entry) for name, one in found]

    def leases(self, key: str | None = None) -> Listed[StoredLease]:
        """Return the leases of all partitions, or of one queue."""
        found: dict[int, LeasePage]
        if key is None:
            found = self.owners.ask("leases", LeasePage)
        else:
            number = self.owners.partition_of_queue(key)
            found = {number: self.owners.ask_one(number, "leases", LeasePage)}
        rows = [lease for number in sorted(found) for lease in found[number].rows if key in (None, lease.queue)]
        return Listed(rows, _left_out(sum(one.left for one in found.values()), "lease"))

    def dead_letters(self) -> Listed[tuple[int | LetterId, DeadLetter]]:
        """Return the dead letters of all partitions."""
        found: dict[int, DeadLetterPage] = self.owners.ask("dead_letters", DeadLetterPage)
        rows = [(LetterId(number, letter.id), letter) for number in sorted(found) for letter in found[number].rows]
        return Listed(rows, _left_out(sum(one.left for one in found.values()), "dead letter"))

    # -- one queue or URL

    def queue(self, key: str, *, limit: int | None = 1, spread: bool = False) -> tuple[QueueRecord, list[PendingUri]]:
        """Return a queue from its owner: that of its key, or of what a URL or a host written differently means."""
        found = self._found(key, limit=limit, spread=spread)
        if found.queue is None:
            others = self._asked_for(key)
            meant = next((one.meant for one in others.values() if one.is_sure), None)
            if meant is not None:
                found = self._found(meant, limit=limit, spread=spread)
            if found.queue is None:
                raise self._no_queue(key, others)
        return found.queue, found.pending

    def key_of(self, key: str) -> str:
        """Return the key of a queue that is given in any spelling of its host. Raises NoSuchQueue."""
        found = self._found(key)
        if found.queue is None:
            raise self._no_queue(key, self._asked_for(key))
        return found.queue.queue

    def _found(self, key: str, *, limit: int | None = 1, spread: bool = False) -> FoundQueue:
        found: FoundQueue = self.owners.ask_one(
            self.owners.partition_of_queue(key), "queue", FoundQueue, key=key, limit=limit, spread=spread
        )
        return found

    def _asked_for(self, key: str) -> dict[int, FoundQueue]:
        return self.owners.ask("queue", FoundQueue, key=key, limit=1, spread=False)

    def _no_queue(self, key: str, others: Mapping[int, FoundQueue]) -> NoSuchQueue:
        near = next((f"; did you mean {clean(one.meant)}?" for one in others.values() if one.meant), "")
        return NoSuchQueue(key, near, self.job)

    def explain(
        self, target: str, *, log: Path | None = None, progress: Callable[[int], None] | None = None
    ) -> Explanation:
        """Explain why a URL or a queue is not being crawled, as the owner of its partition does."""
        if log is not None:
            raise FrontierError("a crawl in partitions has the logs of its crawlers, if any")
        number = self.owners.partition_of_queue(target)
        if "://" in target and self._found(target).queue is None:  # else it is the key of a queue
            number = self.owners.partition_of_uri(target)
        answer = self._explained(number, target)
        if answer.verdict == "never" and "://" not in target and answer.kind == "url":
            others = self.owners.ask("explain", Explanation, target=target, job=self.job)
            answer = next((one for one in others.values() if one.kind == "queue"), answer)
        if any(one.code == "never-scheduled" for one in answer.reasons):
            answer = self._explained_elsewhere(number, target) or answer
            if self.missing:
                answer.reasons[-1] = _with_doubt(answer.reasons[-1])
        return answer

    def _explained(self, number: int, target: str, **options: Any) -> Explanation:
        """Return what the owner of a partition explains, with the id that a dead letter has in the whole crawl."""
        answer: Explanation
        answer = self.owners.ask_one(number, "explain", Explanation, target=target, job=self.job, **options)
        for place, one in enumerate(answer.reasons):
            if one.code == "dead-letter" and one.command is not None:
                command, _, letter = one.command.rpartition(" ")
                answer.reasons[place] = replace(one, command=f"{command} {LetterId(number, int(letter))}")
        return answer

    def _explained_elsewhere(self, number: int, url: str) -> Explanation | None:
        """Return what the owner of another partition than that of a URL's host explains; None if none knows it."""
        others = [other for other in range(self.owners.partitions) if other != number]
        known: dict[int, bool] = self.owners.ask("is_known", bool, of=others, url=url)
        found = {other: self._explained(other, url, anywhere=True) for other in sorted(known) if known[other]}
        if not found:
            return None
        other = min(found, key=lambda each: found[each].verdict == "never")
        found[other].reasons.insert(
            0,
            ReasonStep(
                "elsewhere",
                f"It is in partition {other}, and not in partition {number}, where its host is: it was scheduled with "
                "a `queue` of its own.",
            ),
        )
        return found[other]

    # -- commands

    def dry_run(self, op: str, args: dict[str, Any]) -> dict[str, Any]:
        """Return the effect that a command would have on all partitions."""
        return steering_plan.dry_run(self.owners, op, args)

    def apply(self, command: OperatorCommand) -> Applied:
        """Give a command to the partitions that it is for, and wait for them."""
        plan = steering_plan.plan(self.owners, command.op, command.args)
        name, entries, left = steering_plan.give(self.owners, command._replace(args=plan.args), plan)
        refused(entries)
        errors = {number: one.error for number, one in entries.items() if one.error}
        done = [one for one in entries.values() if not one.error]
        return Applied(
            structs.replace(merging.merged_entry(done), id=name_of(name)) if done else None,
            [one.effect for one in done],
            self.owners.not_applied(left) if left else "",
            f"refused by {merging.named_partitions(errors)}: {next(iter(errors.values()))}" if errors else "",
        )

    def check_letters(self, ids: Sequence[Any]) -> None:
        """Raise FrontierError if any of these is the id of no dead letter."""
        wanted: dict[int, list[int]] = {}
        for one in ids:
            if not isinstance(one, LetterId) or one.partition >= self.owners.partitions:
                raise self._no_letter(one)
            wanted.setdefault(one.partition, []).append(one.number)
        for partition, numbers in wanted.items():
            unknown = self.owners.ask_one(partition, "unknown_letters", list[int], ids=numbers)
            if unknown:
                raise self._no_letter(LetterId(partition, unknown[0]))

    def _no_letter(self, name: Any) -> FrontierError:
        return FrontierError(
            f"there is no dead letter {name}; `budgetfrontier dead-letters {self.job}` lists them as PARTITION/ID, and "
            "nothing was changed"
        )


def _with_doubt(reason: ReasonStep) -> ReasonStep:
    """Return a reason with the hint that partitions which do not answer may have the URL on a queue of its own."""
    return replace(reason, text=reason.text.replace("never scheduled", "never scheduled where partitions answer", 1))


def _left_out(count: int, what: str) -> str:
    """Return the sentence on rows that were too many to be sent."""
    return f"{counted(count, what)} left out: owners send {MOST_BYTES >> 20} MiB of them at most" if count > 0 else ""
