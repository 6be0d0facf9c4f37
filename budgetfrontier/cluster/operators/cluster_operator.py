"""The operators' interface of a crawl in partitions: the owners' answers, merged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs

from budgetfrontier.cluster.directory.summaries import PartitionSummary, Reported
from budgetfrontier.cluster.operators import explaining, merging, queue_finding, steering_plan
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners, refused
from budgetfrontier.cluster.operators.entry_names import read_name
from budgetfrontier.cluster.operators.inspection import MOST_BYTES, MOST_LISTED, MOST_ROWS, QueueRow, RowPage
from budgetfrontier.cluster.operators.merging import CrawlFacts
from budgetfrontier.cluster.operators.partition_rows import PartitionRow, partition_rows
from budgetfrontier.cluster.operators.steering_plan import SteeringPlan
from budgetfrontier.cluster.operators.worker_disks import limits_of_disks
from budgetfrontier.cluster.partitions.partition_progress import PartitionProgress, crawl_state, limit_reached
from budgetfrontier.core.model import CrawlState, CrawlUri, DeadLetter, QueueRecord, Run, StoredLease, Summary
from budgetfrontier.core.units import counted
from budgetfrontier.engine.commands.scheduling import uri_from
from budgetfrontier.errors import ConnectionLost, FrontierError
from budgetfrontier.reports import dry_runs, over_time, scope_check, trap_list
from budgetfrontier.reports.adjustment_outcomes import AdjustmentOutcome
from budgetfrontier.reports.crawl_comparison import FetchedQueue, FetchedQueues, KnownQueues
from budgetfrontier.reports.crawl_log import CrawlLogLine
from budgetfrontier.reports.explanation import Explanation
from budgetfrontier.reports.operators import (
    NO_GROUPS,
    AdjustmentRow,
    Applied,
    AuditRow,
    CrawlOverview,
    LetterId,
    Listed,
    OperatorCommand,
    Selection,
    Where,
)
from budgetfrontier.reports.overview import Overview
from budgetfrontier.reports.retired_list import RetiredList
from budgetfrontier.reports.scope_check import OutOfScope
from budgetfrontier.reports.simulation_results import NO_SIMULATION
from budgetfrontier.reports.status_tables import Statuses
from budgetfrontier.reports.status_tables import merged as merged_statuses
from budgetfrontier.reports.trap_list import Suspect
from budgetfrontier.rules.forecasts import Forecast, Held
from budgetfrontier.rules.simulation import Simulated, SimulationRequest
from budgetfrontier.rules.undoing import says_nothing
from budgetfrontier.rules.verdict import limit_sentence, process_line
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import Override
from budgetfrontier.storage import label_totals, quota_use
from budgetfrontier.storage.group_listing import GroupRow, GroupsListed
from budgetfrontier.storage.label_totals import LabelTotals
from budgetfrontier.storage.quota_use import QuotaUse
from budgetfrontier.storage.records import QueueAmounts
from budgetfrontier.storage.report import Report
from budgetfrontier.storage.seed_list import ListedSeed
from budgetfrontier.storage.series import Busiest, SeriesRow
from budgetfrontier.storage.view import PendingUri

NO_LOG = "unknown: a crawl in partitions has no crawl.log; its crawlers have logs of their own, if any"
_T = TypeVar("_T")


class ClusterOperator:
    """A crawl in partitions as a `CrawlOperator`."""

    path: Path | None = None

    def __init__(self, owners: CrawlOwners) -> None:
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
        """The partitions whose owners have not answered so far."""
        return self.owners.missing

    def unanswered(self) -> str:
        """Return the sentence on the partitions that have not answered, with the last owners known."""
        return self._unanswered(self.missing)

    def _unanswered(self, numbers: Collection[int]) -> str:
        if not numbers:
            return ""
        late = self.owners.told_late()
        return self.owners.without_owner(numbers) + (f"; {late}" if late else "")

    # -- the whole crawl

    def head(self) -> Report:
        """Return the report of the crawl without its queues."""
        return self._head(self.owners.standings())

    def current(self) -> tuple[Report, list[PartitionRow]]:
        """Return the report of the crawl without its queues, and a row for each partition."""
        standings = self.owners.standings()
        return self._head(standings), partition_rows(self.owners, standings)

    def _head(self, standings: Mapping[int, PartitionProgress]) -> Report:
        return self._merged(self.owners.looked("head", Report, attrgetter("report")), standings)

    def _merged(self, reports: Mapping[int, Report], standings: Mapping[int, PartitionProgress]) -> Report:
        if not reports:
            raise ConnectionLost(self.unanswered())
        found, unanswered = standings.values(), self._unanswered(self.owners.lost)
        workers = len({one.owner for one in found if one.partition not in self.missing})
        state, limit = (None, None) if unanswered else (crawl_state(found), limit_reached(found))
        now = self.owners.now() if self.owners.ages else 0.0  # reports in summaries are as of then
        told = {number: one.asked for number, one in standings.items()}
        asked = max(told.get(number) or one.standing.asked for number, one in reports.items())
        return merging.merged_report(
            [*reports.values()], CrawlFacts(self.job, workers, state, limit, unanswered, now, asked)
        )

    def process_line(self) -> str:
        """Return the line on the workers that run the crawl, without those that have not answered so far."""
        owners = self.owners.again()  # whose ages are not those of figures that are shown
        owners.calls.missing.update(self.missing)
        return process_line(ClusterOperator(owners).head().standing)

    def is_terminated(self) -> bool:
        """Return whether the crawl was terminated in any partition: then it is in all, once they have read that."""
        return any(summary.state is CrawlState.TERMINATED for summary in self._summaries())

    def queue_count(self) -> int:
        """Return the number of queues in the partitions that answer."""
        return sum(sum(summary.queues.values()) for summary in self._summaries())

    def _summaries(self) -> list[Summary]:
        """Return the summaries of the partitions that answer, for what is not shown: their ages are not told."""
        return [one.summary for one in self.owners.again().standings().values()]

    @contextmanager
    def scan(self) -> Iterator[tuple[Report, Iterator[QueueRecord]]]:
        """Return the report without its queues, and the queues by partition, in order of creation."""
        yield self.head(), (queue for queue, _ in self._each_queue(Selection()))

    def overview(self, limit: int, *, all_states: bool = False, forecast: bool = False) -> CrawlOverview:
        """Return aggregates, none over time: those of the owners, or of all queues if owners list too few."""
        overview = Overview(limit, all_states=all_states)
        if all_states or limit > MOST_LISTED:
            with self.scan() as (head, queues):
                return CrawlOverview(head, overview.gather(queues))
        found = self.owners.looked("report", Reported, _reported, limit=limit)
        for one in found.values():
            overview.add(one.gathered)
        reports = {number: one.report for number, one in found.items()}
        return CrawlOverview(self._merged(reports, self.owners.standings()), overview)

    def stopped(self) -> str:
        """Return "": the verdict says whether workers run."""
        return ""

    def used_up(self) -> str:
        """Return which total is used up, if one is and the crawl is not over: the partitions themselves are RUNNING."""
        found = self.owners.standings().values()
        setting = None if self.owners.lost else limit_reached(found)
        is_over = setting is None or crawl_state(found) in (CrawlState.TERMINATED, CrawlState.FINISHED)
        return "" if setting is None or is_over else limit_sentence(setting)

    def runs(self) -> list[Run]:
        """Return the times in which any partition had a worker, each as a run."""
        return merging.merged_runs(self.owners.ask("runs", list[Run]).values())

    def series(self, since: float, now: float) -> over_time.Series:
        """Return the totals of a time until now, of each partition."""
        found = self.owners.ask("series", list[list[SeriesRow]], since=since, now=now)
        return [rows for series in found.values() for rows in series]

    def busiest(self, since: float, until: float) -> Busiest:
        """Return the busiest queues of a time; what others spent is not known while partitions are missing."""
        found = merging.merged_busiest([*self.owners.ask("busiest", Busiest, since=since, until=until).values()])
        return structs.replace(found, others_spent=0, others_fetched=0) if self.missing else found

    def forecasts(self, now: float, length: float) -> list[Forecast]:
        """Return when each bound would end the crawl, by the rates and totals of all partitions, if all answer."""
        held = self.owners.ask("held", Held, of=range(self.owners.partitions))
        if self.missing:
            why = f"no worker answers for {merging.named_partitions(self.missing)}"
            return [Forecast("rate", None, None, None, "unknown", why)]
        between, adjustments = over_time.between(*self.series(now - length, now)), self.adjustments()
        totals, limits = self.head().totals, merging.limits_left(self.owners.standings().values())
        limits |= limits_of_disks(self.owners.disks(), totals.scheduled)
        limits |= over_time.of_windows(self.settings, [Override(one.match, one.set) for one in adjustments])
        return over_time.forecast_rows(
            between, totals, merging.merged_held(held.values()), limits, now=now, length=length
        )

    def seeds(self) -> Iterator[ListedSeed]:
        """Yield the lists of seeds of the partitions."""
        return self.owners.pages("seeds", RowPage[ListedSeed], after=0)

    def unlisted(self, urls: Sequence[str]) -> set[str]:
        """Return the URLs that are in no list of seeds, without those of partitions that do not answer."""
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

    # -- groups of queues

    def groups(self, limit: int) -> GroupsListed:
        """Return none: groups of queues are listed for a job only."""
        return GroupsListed()

    def group_of(self, queue: QueueRecord) -> GroupRow | None:
        """Return None: the owner of a partition alone knows the group of a queue."""
        return None

    def quotas_of(self, queue: QueueRecord) -> list[QuotaUse]:
        """Return the use of each limit of a quota that holds for a queue's next URI, as its owner has it."""
        return queue_finding.asked(self.owners, queue.queue).quotas

    def group_names(self) -> Callable[[QueueRecord], str | None] | None:
        """Return None: no groups of queues are listed here."""
        return None

    # -- listings

    def sorted_queues(self, selection: Selection, *, sort: str, reverse: bool, end: int | None) -> Iterator[QueueRow]:
        """Yield the selected queues, sorted; each owner sends its first `end`. Memory: these, or all selected ones."""
        if selection.group is not None:
            raise FrontierError(NO_GROUPS)
        if end is not None:
            yield from queue_finding.best(self.owners, selection, sort=sort, reverse=reverse, count=end)
            return
        key = attrgetter(sort)
        yield from sorted(self._each_queue(selection), key=lambda row: key(row[0]), reverse=reverse)

    def _each_queue(self, selection: Selection) -> Iterator[QueueRow]:
        """Yield the selected queues, by partition, in order of creation."""
        return self.owners.pages("queues", RowPage[QueueRow], after=-1, selection=selection)

    def audit(
        self, *, key: str | None = None, where: Where | None = None, count: int | None = None, before: int = 0
    ) -> Listed[AuditRow]:
        """Return the audit, newest first, one row for a command to all partitions, of the newest `count` of each.

        What others of them tell of these commands is asked for after that, so that each row is of the whole crawl.
        """
        count = MOST_ROWS if count is None else min(count, MOST_ROWS)
        found: dict[int, list[AuditRow]] = self._ask("audit", list[AuditRow], key, count=count, key=key)
        is_cut = any(len(entries) == MOST_ROWS for entries in found.values())
        left_out = f"older entries left out: owners send the newest {MOST_ROWS:,}" if is_cut else ""
        told = {number: {str(row.id) for row in rows} for number, rows in found.items()}
        cut = [number for number, rows in found.items() if len(rows) >= count]
        others = cut if key is None else [*{*range(self.owners.partitions)} - found.keys()]
        lacking = {name for number in others for name in set().union(*told.values()) - told.get(number, set())}
        if names := sorted(name for name in lacking if isinstance(read_name(name), bytes)):
            for number, rows in self.owners.ask("audit", list[AuditRow], of=others, count=count, names=names).items():
                more = (row for row in rows if row.id not in told.get(number, ()))
                found[number] = [*found.get(number, ()), *more]
        rows = merging.merged_audit(found)[::-1]
        return Listed([row for row in rows if where is None or where(row.entry)], left_out)

    def _ask(self, look: str, kind: type[_T], queue: str | None, **named: Any) -> dict[int, _T]:
        """Return the answers of all owners by partition, or of the owner of one queue. Raises ConnectionLost for it."""
        if queue is None:
            return self.owners.ask(look, kind, **named)
        number = self.owners.partition_of_queue(queue)
        return {number: self.owners.ask_one(number, look, kind, **named)}

    def outcomes(self, rows: Sequence[AuditRow]) -> Mapping[int | str, AdjustmentOutcome]:
        """Return the outcomes of those audit entries that changed adjustments, summed over all partitions."""
        names = [str(row.id) for row in rows if "then" in row.entry.effect]
        found = self.owners.ask("outcomes", dict[str, AdjustmentOutcome], names=names) if names else {}
        return merging.merged_outcomes(found.values())

    def undo_refusals(self, rows: Sequence[AuditRow]) -> Mapping[int | str, str]:
        """Return by id why the undo of audit entries would be refused: by any partition with force, by all without."""
        names = [str(row.id) for row in rows if row.inverse]
        found = self.owners.ask("undo_refusals", dict[str, str], names=names) if names else {}
        return merging.merged_refusals(names, found)

    def in_progress(self) -> str:
        """Return "": a command reports its progress in each partition itself."""
        return ""

    def adjustments(self) -> list[AdjustmentRow]:
        """Return the adjustments in force in any partition."""
        return merging.merged_adjustments(self.owners.ask("adjustments", list[AdjustmentRow]))

    def quotas(self) -> list[QuotaUse]:
        """Return the use of each limit of a quota in any partition, the fullest first."""
        found = self.owners.ask("quotas", list[QuotaUse])
        return quota_use.sorted_uses(use for uses in found.values() for use in uses)

    def out_of_scope(self) -> OutOfScope:
        """Return which waiting URIs the scope would disregard at their turns, in all partitions."""
        return scope_check.merged(self.owners.ask("out_of_scope", OutOfScope).values())

    def labels(self) -> list[LabelTotals]:
        """Return the fetches and the seeds of each label, summed over all partitions."""
        return label_totals.summed(self.owners.ask("labels", list[LabelTotals]).values())

    def retired(self, match: str | None, count: int) -> RetiredList:
        """Return retired queues that match, by partition, and some that retire again."""
        found = self.owners.ask("retired", RetiredList, match=match, count=count, job=self.job)
        parts = [found[number] for number in sorted(found)]
        return RetiredList([one for part in parts for one in part.rows][:count], [o for p in parts for o in p.again])

    def leases(self, key: str | None = None) -> Listed[StoredLease]:
        """Return the leases of all partitions, or of one queue."""
        found: dict[int, RowPage[StoredLease]] = self._ask("leases", RowPage[StoredLease], key)
        rows = [lease for number in sorted(found) for lease in found[number].rows if key in (None, lease.queue)]
        return Listed(rows, _left_out(sum(one.left for one in found.values()), "lease"))

    def dead_letters(self) -> Listed[tuple[int | LetterId, DeadLetter]]:
        """Return the dead letters of all partitions."""
        found = self.owners.ask("dead_letters", RowPage[DeadLetter])
        rows = [(LetterId(number, letter.id), letter) for number in sorted(found) for letter in found[number].rows]
        return Listed(rows, _left_out(sum(one.left for one in found.values()), "dead letter"))

    def statuses(self, selection: Selection, *, status: str = "", limit: int | None = None) -> Statuses:
        """Return the answers of the selected queues of all partitions, those with most of a status first."""
        found = self.owners.ask("statuses", Statuses, selection=selection, status=status, limit=limit)
        return merged_statuses(found.values(), status=status, limit=limit)

    def fetched_queues(self) -> nullcontext[FetchedQueues]:
        """Ask for the queues from which something was fetched, one partition after the other."""
        return nullcontext(KnownQueues(self.owners.pages("fetched", RowPage[FetchedQueue], after=-1)))

    def amounts(self) -> Iterator[QueueAmounts]:
        """Yield the queues, one partition after the other."""
        return (queue for queue, _ in self._each_queue(Selection()))

    def traps(self, selection: Selection, limit: int | None) -> list[Suspect]:
        """Return the selected queues that look like crawler traps in any partition, the most suspicious first."""
        most = trap_list.READ if limit is None else limit
        found = self.owners.ask("traps", list[Suspect], selection=selection, limit=most)
        return sorted((one for suspects in found.values() for one in suspects), key=trap_list.order)[:limit]

    # -- one queue or URL

    def queue(self, key: str, *, limit: int | None = 1, spread: bool = False) -> tuple[QueueRecord, list[PendingUri]]:
        """Return a queue from its owner, given its key, a URL, or another spelling of its host."""
        return queue_finding.queue(self.owners, key, limit=limit, spread=spread)

    def key_of(self, key: str) -> str:
        """Return the key of a queue that is given in any spelling of its host. Raises NoSuchQueue."""
        return queue_finding.key_of(self.owners, key)

    def unknown_keys(self, match: str) -> list[str]:
        """Return the keys that a pattern lists and no queue has; none while a partition does not answer."""
        found = self.owners.ask("unknown_keys", list[str], match=match)
        if self.missing:
            return []
        return [key for key in found[0] if all(key in others for others in found.values())]

    def explain(
        self, target: str, *, log: Path | None = None, progress: Callable[[int], None] | None = None
    ) -> Explanation:
        """Explain why a URL or a queue is not being crawled, as the owner of its partition does."""
        if log is not None:
            raise FrontierError("a crawl in partitions has the logs of its crawlers, if any")
        return explaining.explain(self.owners, target, self.head().standing)

    # -- commands

    def dry_run(self, op: str, args: dict[str, Any]) -> dict[str, Any]:
        """Return the effect that a command would have on all partitions."""
        effect = steering_plan.dry_run(self.owners, op, args)
        totals = None if self.missing else self.head().totals  # which tells the ages of figures: none are shown then
        return dry_runs.with_end(op, args, effect, None if self.missing else totals)

    def simulate(self, asked: SimulationRequest, **options: Any) -> list[Simulated]:
        """Refuse: the command line simulates the snapshots, which this does not know."""
        raise FrontierError(NO_SIMULATION)

    def apply(self, command: OperatorCommand) -> Applied:
        """Give a command to the partitions that it is for, and wait for them."""
        return self.outcome(*self._given(command, steering_plan.plan(self.owners, command.op, command.args)))

    def apply_all(self, commands: Sequence[OperatorCommand]) -> list[Applied]:
        """Apply changes of adjustments: all are given, and then waited for, so that they share a commit."""
        given: list[tuple[bytes, Collection[int]] | FrontierError] = []
        plans = steering_plan.of_changes(self.owners, "adjust", [command.args for command in commands])
        for command, plan in zip(commands, plans, strict=True):
            try:
                given.append(plan if isinstance(plan, FrontierError) else self._given(command, plan))
            except FrontierError as error:
                given.append(error)
        return [self._outcome_or_refusal(one) for one in given]

    def _given(self, command: OperatorCommand, plan: SteeringPlan) -> tuple[bytes, Collection[int]]:
        """Give a command as it is planned; return its name, and the partitions that it was given to."""
        asked = set(range(self.owners.partitions) if plan.to is None else plan.to)
        return self.owners.give(command._replace(args=plan.args), plan.more, to=plan.to), asked

    def _outcome_or_refusal(self, given: tuple[bytes, Collection[int]] | FrontierError) -> Applied:
        try:
            if not isinstance(given, FrontierError):
                return self.outcome(*given)
        except FrontierError as error:
            given = error
        return Applied(None, [], refused=str(given))

    def outcome(self, name: bytes, asked: Collection[int], *, within: float | None = None) -> Applied:
        """Return what came of a command that was given to some partitions.

        Those that have not applied it are waited for as long as for a new command, or for `within` seconds.
        """
        entries = self.owners.applied(name, of=asked, within=within)
        refused(entries)
        errors = {number: one.error for number, one in entries.items() if one.error and not says_nothing(one.error)}
        done = {number: one for number, one in entries.items() if not one.error}
        return Applied(
            structs.replace(merging.merged_entry(done), id=name.hex()) if done else None,
            [*map(merging.effect_of, done.values())],
            self.owners.not_applied(left) if (left := set(asked) - entries.keys()) else "",
            f"refused by {merging.named_partitions(errors)}: {next(iter(errors.values()))}" if errors else "",
            name,
            asked,
        )

    def schedule(self, args: dict[str, Any]) -> dict[str, Any]:
        """Schedule the URIs of a command, each in its partition; the audit has nothing of it. Returns the counts."""
        return structs.asdict(self.owners.frontier.schedule_many(map(uri_from, args["uris"]), brought=True))

    def check_letters(self, ids: Sequence[Any]) -> None:
        """Raise FrontierError if an id is that of no dead letter."""
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


def _reported(summary: PartitionSummary) -> Reported:
    return Reported(summary.report, summary.gathered)


def _left_out(count: int, what: str) -> str:
    return f"{counted(count, what)} left out: owners send {MOST_BYTES >> 20} MiB of them at most" if count > 0 else ""
