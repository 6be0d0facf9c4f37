"""The interface by which operators look at a crawl and steer it: a job answers it, and a crawl in partitions."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar

import msgspec

from budgetfrontier.core.model import DeadLetter, QueueRecord, QueueState, Run, StoredLease
from budgetfrontier.errors import FrontierError, SettingsError
from budgetfrontier.reports.format import clean
from budgetfrontier.rules.forecasts import Forecast
from budgetfrontier.settings import Settings
from budgetfrontier.settings.matching import parse_match, queue_test
from budgetfrontier.storage.records import AuditEntry, QueueAmounts
from budgetfrontier.storage.report import Report
from budgetfrontier.storage.view import PendingUri

if TYPE_CHECKING:
    from budgetfrontier.reports.adjustment_outcomes import AdjustmentOutcome
    from budgetfrontier.reports.crawl_comparison import FetchedQueues
    from budgetfrontier.reports.crawl_log import CrawlLogLine
    from budgetfrontier.reports.explanation import Explanation
    from budgetfrontier.reports.over_time import OverTime, Series
    from budgetfrontier.reports.overview import Overview
    from budgetfrontier.reports.retired_list import RetiredList
    from budgetfrontier.reports.scope_check import OutOfScope
    from budgetfrontier.reports.status_tables import Statuses
    from budgetfrontier.reports.trap_list import Suspect
    from budgetfrontier.reports.work_list import Raised
    from budgetfrontier.rules.simulation import Simulated, SimulationRequest, Step
    from budgetfrontier.storage.group_listing import GroupRow, GroupsListed
    from budgetfrontier.storage.label_totals import LabelTotals
    from budgetfrontier.storage.quota_use import QuotaUse
    from budgetfrontier.storage.seed_list import ListedSeed
    from budgetfrontier.storage.series import Busiest

_T = TypeVar("_T")
_MOST_NAMES = 10
_NEED_LIFE = frozenset(("pause", "resume", "schedule", "replay"))
"""The commands that do nothing in a crawl that was terminated: it keeps its state, and hands out nothing."""
NO_GROUPS = "groups of queues are listed for a job only: a crawl in partitions shows none"
Where = Callable[[AuditEntry], bool]
"""The test of an audit entry."""


class Selection(msgspec.Struct):
    """The queues that are asked for: those in some states, that match a pattern, are over budget, in a group."""

    states: list[QueueState] | None = None
    match: str | None = None
    over_budget: bool = False
    raised: bool = False
    """Whether the spend under a raised budget is wanted of each, as `WorkList` computes it."""
    group: str | None = None
    """Which groups, as `group:` names them: `domain`, `domain/*.org`."""

    @property
    def is_all(self) -> bool:
        """Whether all queues are asked for."""
        return self == Selection()

    def test(self) -> Callable[[QueueRecord], bool]:
        """Return the test of a queue for its state and the pattern. Raises SettingsError."""
        if self.match is not None and self.match.startswith(("label:", "sheet:")):
            raise SettingsError("labels and sheets are of URIs, and a queue may have several: it is not listed by them")
        matches = queue_test(self.match)
        states = frozenset(QueueState if self.states is None else self.states)
        return lambda queue: queue.state in states and matches(queue.last_enqueued, queue.queue, None)

    def test_or_all(self) -> Callable[[QueueRecord], bool] | None:
        """Return the test, None if all queues pass it. Raises SettingsError."""
        return None if self.match is None and self.states is None else self.test()


class Listed(NamedTuple, Generic[_T]):
    """The rows of a listing, and the sentence on those that were too many to be sent; "" if these are all."""

    rows: Iterable[_T]
    left_out: str = ""


class LetterId(NamedTuple):
    """The id of a dead letter in a crawl in partitions, PARTITION/ID."""

    partition: int
    number: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the id that a text is. Raises ValueError."""
        partition, _, number = text.partition("/")
        return cls(int(partition), int(number))

    def __str__(self) -> str:
        return f"{self.partition}/{self.number}"


class AuditRow(msgspec.Struct):
    """A command in the audit of a crawl: its entry, and the partitions in which it is."""

    id: int | str
    """Its number in a job; in a crawl in partitions its name, see `cluster.operators.entry_names`."""
    entry: AuditEntry
    partitions: str = ""
    """Their numbers, such as "0-3, 7"; "" in a job."""
    covers: str | None = None
    """The relation to the queue that was asked for."""
    inverse: str = ""
    """The command that takes it back, if there is one."""


class OperatorCommand(NamedTuple):
    """A command of an operator, with its author, its reason and the command line for the audit."""

    op: str
    args: dict[str, Any]
    who: str
    reason: str = ""
    line: str = ""


class Applied(NamedTuple):
    """The result of a command: its audit entry, None as long as no partition has applied it.

    The entry of a command to several partitions has its name as its id, and their effects merged.
    """

    entry: AuditEntry | None
    effects: Sequence[dict[str, Any]]
    """The effects on the partitions that have applied it; a job has one."""
    left: str = ""
    """The sentence on the partitions that have not applied it yet; "" if all have."""
    refused: str = ""
    """The sentence on those that have refused it."""
    name: bytes = b""
    """The name of a command to partitions, by which `outcome` finds it."""
    asked: Collection[int] = ()
    """The partitions that it is for."""


class AdjustmentRow(NamedTuple):
    """An adjustment in force, with its audit entry if it is known."""

    id: int | str | None
    match: str
    set: dict[str, Any]
    entry: AuditEntry | None


class CrawlOverview(NamedTuple):
    """The report of a crawl without its queues, their aggregates, and its curves and forecasts if they are known."""

    head: Report
    overview: Overview
    over_time: OverTime | None = None


class NoSuchQueue(FrontierError):
    """There is no queue of this key; `budgetfrontier queues` lists them."""

    def __init__(self, key: str, meant: str, job: str) -> None:
        listing = shlex.join(("budgetfrontier", "queues", job))
        super().__init__(f"there is no queue {key!r}{meant or ';'} `{listing}` lists them")
        self.meant = meant
        """The end of a sentence that asks whether another one was meant; "" if none is near."""


def terminated(operator: CrawlOperator) -> str:
    """Return the sentence that a crawl was terminated, and what to do instead of going on with it."""
    if operator.path is not None:
        begin, left = "with `budgetfrontier crawl CONFIG --job DIR`", "`export`"
    else:
        begin = "with another name of `crawl` in the configuration of its workers"
        left = "`export` of the folder of each partition"
    return (
        f"this crawl was terminated, for good: it hands out nothing ever again; begin a new one {begin}, and take over "
        f"what was left with {left} and `import`"
    )


def refuse_if_terminated(operator: CrawlOperator, op: str) -> None:
    """Raise FrontierError if a crawl was terminated, for a command that does nothing then."""
    if op in _NEED_LIFE and operator.is_terminated():
        raise FrontierError(f"{operator.job}: {terminated(operator)}")


def unknown_queues(operator: CrawlOperator, match: str | None) -> str:
    """Return the sentence on keys that a pattern lists and no queue has; "" if there are none."""
    listed = match is not None and parse_match(match).keys
    unknown = [*map(clean, operator.unknown_keys(match))] if match is not None and listed else []
    more = f", ...and {len(unknown) - _MOST_NAMES:,} more" if len(unknown) > _MOST_NAMES else ""
    return f"no queue: {', '.join(unknown[:_MOST_NAMES])}{more}; check the spelling" if unknown else ""


def no_match(match: str) -> str:
    """Return what to say of a pattern that matches no queue key, or for other patterns no queue by its next URI."""
    if match.startswith(("queue:", "queues:")):
        return "matches no queue yet; it will count for queues that come later"
    if match.startswith("sheet:"):
        return "concerns no URI that is next in its queue; `budgetfrontier sheet JOB add` associates it with URIs"
    return "matches no URI that is next in its queue; it applies to those that wait behind and to later ones"


def matches_nothing(match: str) -> str:
    """Return the sentence on a pattern that matches no queue."""
    return f"{clean(match)} {no_match(match)}; check its spelling"


class CrawlOperator(Protocol):
    """A crawl as operators look at it, as of its last commit, and steer it."""

    @property
    def job(self) -> str:
        """The words that stand for the crawl in commands: the folder of a job, or --cluster and a URL."""

    @property
    def path(self) -> Path | None:
        """The folder of its frontier; None for a crawl in partitions: its workers have the files."""

    @property
    def settings(self) -> Settings:
        """The settings of the crawl, without the adjustments."""

    @property
    def missing(self) -> Collection[int]:
        """The partitions whose owners have not answered so far."""

    def unanswered(self) -> str:
        """Return the sentence on the partitions that have not answered; "" if all have."""

    # -- the whole crawl

    def head(self) -> Report:
        """Return the report of the crawl without its queues."""

    def process_line(self) -> str:
        """Return the line on the process that runs the crawl, for reports that have no other figure of `head`."""

    def is_terminated(self) -> bool:
        """Return whether the crawl was terminated, in any partition that answers. O(1)."""

    def queue_count(self) -> int:
        """Return the number of queues, in the partitions that answer. O(1)."""

    def scan(self) -> AbstractContextManager[tuple[Report, Iterator[QueueRecord]]]:
        """Return the report without its queues, and all queues in order of creation, within a `with` block."""

    def overview(self, limit: int, *, all_states: bool = False, forecast: bool = False) -> CrawlOverview:
        """Return aggregates of `limit` queues in each list, `all_states` with all queues of each state.

        `forecast`: with the totals over time.
        """

    def stopped(self) -> str:
        """Return that no process runs the crawl, and the command that continues it; "" if one does."""

    def used_up(self) -> str:
        """Return the sentence on a used-up total of all partitions, which none of their states shows; "" otherwise."""

    def runs(self) -> list[Run]:
        """Return the runs, newest last."""

    def series(self, since: float, now: float) -> Series:
        """Return the totals of a time until now, of each partition: for `over_time.between`."""

    def busiest(self, since: float, until: float) -> Busiest:
        """Return the busiest queues of a time."""

    def forecasts(self, now: float, length: float) -> list[Forecast]:
        """Return when each bound would end the crawl, at the rates of the last `length` seconds. O(queues)."""

    def seeds(self) -> Iterator[ListedSeed]:
        """Yield the list of seeds."""

    def unlisted(self, urls: Sequence[str]) -> set[str]:
        """Return which of some URLs are not in the list of seeds."""

    def log_lines(self, since: float | None, *, whole: bool) -> tuple[Iterator[CrawlLogLine] | None, str]:
        """Return the lines of crawl.log from a time on, None if there is no log, and the sentence on unknown figures.

        `whole`: None also if the log lacks the beginning of that time.
        """

    def last_statuses(self, urls: Collection[str]) -> Mapping[str, int]:
        """Return the last status of URLs in crawl.log, as far as it is known."""

    # -- groups of queues; a crawl in partitions lists none

    def groups(self, limit: int) -> GroupsListed:
        """Return the states of all groups, and `limit` of them, the fullest first. O(groups)."""

    def group_of(self, queue: QueueRecord) -> GroupRow | None:
        """Return the group of a queue; None if it belongs to none."""

    def quotas_of(self, queue: QueueRecord) -> list[QuotaUse]:
        """Return the use of each limit of a quota that holds for a queue's next URI."""

    def group_names(self) -> Callable[[QueueRecord], str | None] | None:
        """Return the function that returns the name of a queue's group; None if there is no group."""

    # -- listings

    def sorted_queues(
        self, selection: Selection, *, sort: str, reverse: bool, end: int | None
    ) -> Iterator[tuple[QueueRecord, Raised | None]]:
        """Yield the selected queues, sorted by a column, only the first `end` if that is given."""

    def audit(
        self, *, key: str | None = None, where: Where | None = None, count: int | None = None, before: int = 0
    ) -> Listed[AuditRow]:
        """Return the audit, newest first, only those `where` is true for, and of a queue what concerns it.

        `count` are wanted, all by default; it may return more. `before`: of a job, only those with lower ids.
        """

    def outcomes(self, rows: Sequence[AuditRow]) -> Mapping[int | str, AdjustmentOutcome]:
        """Return by id the outcomes of those audit entries that changed adjustments.

        O(entries * queues), or O(queues named).
        """

    def undo_refusals(self, rows: Sequence[AuditRow]) -> Mapping[int | str, str]:
        """Return by id why the undo of audit entries would be refused, but for large deletions, which are not read."""

    def in_progress(self) -> str:
        """Return the command in progress, and its progress, in words; "" if there is none."""

    def adjustments(self) -> list[AdjustmentRow]:
        """Return the adjustments in force, in the order in which they apply."""

    def quotas(self) -> list[QuotaUse]:
        """Return the use of each limit of a quota, the fullest first, some thousands at the most."""

    def out_of_scope(self) -> OutOfScope:
        """Return which waiting URIs the scope of the settings would disregard at their turns. O(URIs)."""

    def labels(self) -> list[LabelTotals]:
        """Return the fetches and the seeds of each label, a few thousand labels at the most."""

    def retired(self, match: str | None, count: int) -> RetiredList:
        """Return `count` retired queues that match in the order of their retirement, and some that retire again.

        In a crawl in partitions that order is one within each.
        """

    def leases(self, key: str | None = None) -> Listed[StoredLease]:
        """Return the leases that are out, all or those of a queue."""

    def dead_letters(self) -> Listed[tuple[int | LetterId, DeadLetter]]:
        """Return the dead letters with their ids, oldest first."""

    def statuses(self, selection: Selection, *, status: str = "", limit: int | None = None) -> Statuses:
        """Return the answers of the selected queues, those with most of a status first, 5,000 at the most. O(queues).

        `status` is a class, a status or a kind of error, as for `reports.status_tables.StatusChoice`.
        """

    def fetched_queues(self) -> AbstractContextManager[FetchedQueues]:
        """Hold one snapshot of the queues from which something was fetched until the end of the `with` block."""

    def amounts(self) -> Iterator[QueueAmounts]:
        """Yield the amounts of every queue, in order of creation. O(queues), less than half of the time of `scan`."""

    def traps(self, selection: Selection, limit: int | None) -> list[Suspect]:
        """Return the selected queues that look like crawler traps, the most suspicious first. O(queues)."""

    # -- one queue or URL

    def queue(self, key: str, *, limit: int | None = 1, spread: bool = False) -> tuple[QueueRecord, list[PendingUri]]:
        """Return the queue that a key surely means, with its first URIs, or with some that are spread over it.

        Raises NoSuchQueue.
        """

    def unknown_keys(self, match: str) -> list[str]:
        """Return the keys that a pattern lists and no queue has; none while a partition does not answer."""

    def key_of(self, key: str) -> str:
        """Return the key of a queue that is given in any spelling of its host; none is guessed. Raises NoSuchQueue."""

    def explain(
        self, target: str, *, log: Path | None = None, progress: Callable[[int], None] | None = None
    ) -> Explanation:
        """Explain why a URL or a queue is not being crawled.

        `log` is searched instead of the job's; `progress` takes the size of one that is searched for the first time.
        """

    # -- commands

    def dry_run(self, op: str, args: dict[str, Any]) -> dict[str, Any]:
        """Return the effect that a command would have. Raises FrontierError if it would be refused."""

    def simulate(
        self,
        asked: SimulationRequest,
        *,
        say: Callable[[str], object] = lambda text: None,
        steps: Callable[[Sequence[Step]], object] = lambda done: None,
    ) -> list[Simulated]:
        """Simulate how the crawl goes on, on copies of its frontier, and if there are changes, with these as well.

        `say` takes sentences about the simulations, `steps` how far each is. Raises FrontierError.
        """

    def apply(self, command: OperatorCommand) -> Applied:
        """Apply a command, and wait until it is applied. Raises FrontierError if it is refused."""

    def apply_all(self, commands: Sequence[OperatorCommand]) -> list[Applied]:
        """Apply some dozens of `adjust` commands that concern different URIs, and wait until they are applied.

        One that is refused has no entry, only `refused`.
        """

    def check_letters(self, ids: Sequence[Any]) -> None:
        """Raise FrontierError if any of these is the id of no dead letter."""
