"""Resources of the API on queues and URIs: listings, one queue, explanations, leases, seeds, dead letters."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from budgetfrontier.core.converters import converter
from budgetfrontier.core.model import DeadLetter, QueueRecord, QueueState
from budgetfrontier.core.units import counted
from budgetfrontier.reports.explanation import Outlook
from budgetfrontier.reports.lease_rows import lease_rows
from budgetfrontier.reports.operators import NoSuchQueue
from budgetfrontier.reports.seed_fates import SeedStatus
from budgetfrontier.reports.status_tables import CHOICES, Statuses, status_named
from budgetfrontier.reports.trap_list import Suspect
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.storage.group_listing import GroupRow
from budgetfrontier.storage.quota_use import QuotaUse
from budgetfrontier.storage.view import PendingUri
from budgetfrontier.tools.console.api import LimitParameters, Listing, ListingParameters, ScanPending, described
from budgetfrontier.tools.console.api.crawl_resources import (
    AuditItem,
    audit_item,
    next_of,
    query_of,
)
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages import dead_letters as dead_letters_page
from budgetfrontier.tools.console.pages import partitioned
from budgetfrontier.tools.console.pages import queue as queue_page
from budgetfrontier.tools.console.pages import queues as queues_page
from budgetfrontier.tools.console.pages import retired as retired_page
from budgetfrontier.tools.console.pages import seeds as seeds_page
from budgetfrontier.tools.console.pages import traps as traps_page
from budgetfrontier.tools.console.query import BadRequest, NotThere, Query, selected
from budgetfrontier.tools.console.rendering import as_sentence
from budgetfrontier.tools.console.scan_process import ANSWERING


class QueueItem(msgspec.Struct, kw_only=True):
    """A queue. Times are epoch seconds, 0 for never; a `total_budget` of -1 is none.

    `interval` (seconds; null: that of the settings) and `max_completed` (0: no limit) are those of `set-queue`.
    """

    queue: str
    state: QueueState
    precedence: int
    queued: int
    enqueued: int
    balance: int
    balance_replenish_amount: int
    total_budget: int
    expenditure: int
    last_cost: int
    average_cost: float
    wake_time: float
    errors: int
    last_enqueued: str
    last_leased: str
    bytes: int
    last_lease_time: int
    backoff: float
    overloaded_until: float
    future: int
    out: int
    penalties: int
    by_name: bool
    failure: str
    failed_at: float
    interval: float | None
    max_completed: int
    completed: int


_Choice = Literal[
    "unfinished", "READY", "IN_PROCESS", "SNOOZED", "INACTIVE", "INELIGIBLE", "RETIRED", "EXHAUSTED"
]  # fmt: skip
_Sort = Literal[
    "", "turn", "queue", "queued", "enqueued", "expenditure", "average_cost", "errors", "balance", "last_lease_time"
]  # fmt: skip


class QueuesParameters(ListingParameters, forbid_unknown_fields=True, kw_only=True):
    """The parameters of the listing of queues."""

    state: Annotated[
        _Choice | None,
        described("only queues in this state; unfinished: READY, IN_PROCESS, SNOOZED and INACTIVE, which keep it open"),
    ] = None
    q: Annotated[
        str,
        described(
            "only queues with this text in their keys (sort=queue: at their beginning); of a crawl in partitions, "
            "those that match this pattern"
        ),
    ] = ""
    sort: Annotated[
        _Sort,
        described(
            "the order: turn (of one state), queue (the key), or an amount, the largest first, as of the latest scan"
        ),
    ] = ""
    reverse: Annotated[bool, described("the smallest first")] = False


class QueueParameters(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of one queue."""

    key: Annotated[str, described("the key of the queue, such as example.org", min_length=1)]


class UrisParameters(LimitParameters, forbid_unknown_fields=True, kw_only=True):
    """The parameters of the URIs of a queue."""

    queue: Annotated[str, described("the key of the queue, such as example.org", min_length=1)]
    spread: Annotated[bool, described("URIs spread over the whole queue, instead of the first ones")] = False


class TargetParameters(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of an explanation."""

    target: Annotated[str, described("a URL, or the key of a queue", min_length=1)]


class PendingItem(msgspec.Struct, kw_only=True):
    """A URI of a queue, in the order in which they are leased. `when` is set if it is scheduled for later."""

    url: str
    cost: int
    precedence: int | None
    priority: int
    attempts: int
    deliveries: int
    leased: bool
    when: float | None


class PatternItem(msgspec.Struct):
    """A pattern of the paths of a queue, how many URIs of the sample fit it, and one of them."""

    pattern: str
    uris: int
    example: str


class SettingItem(msgspec.Struct):
    """A setting in force for the first URI of a queue; `source` is the override or adjustment that sets it, or ""."""

    name: str
    value: str
    source: str


class QueueDetail(msgspec.Struct, kw_only=True):
    """A queue with its group, the quotas of its next URI, its settings, its first URIs, and the commands about it."""

    queue: QueueItem
    group: GroupRow | None
    quotas: list[QuotaUse]
    settings: list[SettingItem]
    head: list[PendingItem]
    patterns: list[PatternItem]
    sampled: int
    """The URIs, spread over the queue, of which the patterns are."""
    history: list[AuditItem]
    note: str = ""


class ReasonItem(msgspec.Struct):
    """One step of the chain of reasons. `code` is stable, for programs; `command` would remove the reason."""

    code: str
    text: str
    command: str | None


class ExplanationItem(msgspec.Struct, kw_only=True):
    """Why a URL or a queue is not being crawled, and when it would be. `when` is the earliest time, if it is known."""

    target: str
    kind: str
    queue: str | None
    verdict: Outlook
    when: float | None
    scope: dict[str, Any] | None
    past: dict[str, Any] | None
    reasons: list[ReasonItem]
    settings: list[dict[str, Any]]
    note: str = ""


class RetiredItem(msgspec.Struct):
    """A retired queue: why, the total budget that gives it one more session if that holds it, and the commands.

    `again`: it is over budget, was revived by an adjustment, and will retire again on its turn.
    """

    queue: QueueItem
    why: str
    budget: int | None
    commands: list[str]
    again: bool


class StatusesParameters(LimitParameters, forbid_unknown_fields=True, kw_only=True):
    """The parameters of the answers of hosts; `limit` is also that of the kinds of errors."""

    match: Annotated[str, described("only queues that this pattern of overrides matches")] = ""
    status: Annotated[
        str,
        described(
            "the class (5xx, none), the status (404) or the kind of error of which `rows` has those with most; `kinds` "
            "are of all errors"
        ),
    ] = ""


class StatusesItem(Statuses, kw_only=True):
    """The answers of the queues that were asked for: their sums, the first rows and kinds, and how many have any.

    `as_of` is the time of the scan of all queues that they are from, null if they are as of the last commit.
    """

    as_of: float | None = None
    note: str = ""


class LeasesParameters(LimitParameters, forbid_unknown_fields=True, kw_only=True):
    """The parameters of the leases."""

    queue: Annotated[str, described("only leases of the queue with this key")] = ""


class LeaseItem(msgspec.Struct):
    """A lease: `age` is in seconds, `deadline` and `began` are times."""

    id: int
    queue: str
    url: str
    age: float
    deliveries: int
    attempt: int
    landed: bool
    deadline: float
    began: float
    cost: int
    via: str


class SeedsParameters(ListingParameters, forbid_unknown_fields=True, kw_only=True):
    """The parameters of the seeds."""

    fate: Annotated[SeedFate | None, described("only seeds with this fate")] = None


class SeedItem(msgspec.Struct):
    """A seed: `code` is the status of its last fetch, if it is known, `status` its fate in Heritrix's terms."""

    code: int | None
    status: SeedStatus
    seed: str
    redirect: str
    queue: str
    label: str
    origin: str
    detail: str


class DeadLettersParameters(ListingParameters, forbid_unknown_fields=True, kw_only=True):
    """The parameters of the dead letters."""

    reason: Annotated[str, described("only those with this reason, without the name of the host")] = ""
    queue: Annotated[str, described("only those of the queue with this key")] = ""


class DeadLetterItem(msgspec.Struct, kw_only=True):
    """A URI that has failed for good. `id` is what `replay` and `drop` take: in partitions PARTITION/ID."""

    id: int | str
    queue: str
    url: str
    via: str | None
    cost: int
    reason: str
    time: float
    deliveries: int
    attempts: int


_as_queue_item = converter(QueueItem)
_as_explanation_item = converter(ExplanationItem)
_as_seed_item = converter(SeedItem)


def _queue_item(record: Any) -> QueueItem:
    item: QueueItem = _as_queue_item(record, from_attributes=True)
    return item


def queues(job: ConsoleJob, parameters: QueuesParameters) -> Listing[QueueItem]:
    """Return queues, sorted and filtered. Raises ScanPending if an order by an amount is not there yet."""
    p = parameters
    query = query_of(p, state=p.state, q=p.q, sort=p.sort, reverse="1" if p.reverse else "")
    found = (queues_page.build if job.is_folder else partitioned.queues)(job, query)
    query.check_names()
    if found["waits"]:
        raise ScanPending(found["scan_error"] or f"{found['scan_progress'] or 0.0:.0%} of the queues are read")
    cut = "The search was given up after 5,000 queues; `next` goes on there." if found["cut"] else ""
    return Listing(
        rows=[_queue_item(record) for record in found["rows"]],
        next=next_of(found),
        as_of=found["as_of"],
        note=cut,
    )


def queue(job: ConsoleJob, parameters: QueueParameters) -> QueueDetail:
    """Return one queue, given in any spelling of its host."""
    found = queue_page.build(job, Query({}, target=parameters.key))
    return QueueDetail(
        queue=_queue_item(found["queue"]),
        group=found["group"],
        quotas=found["quotas"],
        settings=[SettingItem(row["name"], row["value"], row["source"]) for row in found["settings"]],
        head=[_pending(row["item"]) for row in found["head"]],
        patterns=[PatternItem(*one) for one in found["patterns"]],
        sampled=found["sampled"],
        history=[audit_item(entry) for entry, _ in found["history"]],
    )


def _pending(item: PendingUri) -> PendingItem:
    uri = item.uri
    return PendingItem(
        url=uri.url, cost=item.cost, precedence=uri.precedence, priority=uri.priority, attempts=item.attempts,
        deliveries=item.deliveries, leased=item.leased, when=item.when,
    )  # fmt: skip


def _found(job: ConsoleJob, key: str, **options: Any) -> tuple[QueueRecord, list[PendingUri]]:
    """Return a queue, given in any spelling of its host, with some of its URIs. Raises NotThere."""
    try:
        return job.look(lambda operator: operator.queue(operator.key_of(key), **options))
    except NoSuchQueue as error:
        raise NotThere(str(error)) from None


def pending(job: ConsoleJob, parameters: UrisParameters) -> Listing[PendingItem]:
    """Return the first URIs of a queue, or some that are spread over it."""
    p = parameters
    record, found = _found(job, p.queue, limit=p.limit, spread=p.spread)
    rest = record.queued - len(found)
    return Listing(rows=[*map(_pending, found)], note=f"{rest:,} more" if rest > 0 else "")


def explain(job: ConsoleJob, parameters: TargetParameters) -> ExplanationItem:
    """Return why a URL or a queue is not being crawled."""
    found = job.look(lambda operator: operator.explain(parameters.target))
    item: ExplanationItem = _as_explanation_item(found.to_dict())
    return item


def retired(job: ConsoleJob, parameters: ListingParameters) -> Listing[RetiredItem]:
    """Return the retired queues in the order of their retirement, then those that will retire again."""
    query = query_of(parameters)
    found = retired_page.build(job, query)
    query.check_names()
    rows = [
        RetiredItem(_queue_item(row.queue), row.why, row.budget, row.commands, again)
        for again, part in ((False, found["rows"]), (True, found["again"]))
        for row in part
    ]
    note = _cut("queues that will retire again", found["again_cut"])
    return Listing(rows=rows, next=next_of(found), note=note)


def traps(job: ConsoleJob, parameters: ListingParameters) -> Listing[Suspect]:
    """Return the queues that look like crawler traps. Raises ScanPending if none were looked for yet."""
    query = query_of(parameters)
    found = traps_page.build(job, query)
    query.check_names()
    if found["waits_for_scan"]:
        raise ScanPending(found["scan_error"] or f"{found['scan_progress'] or 0.0:.0%} of the queues are read")
    return Listing(rows=found["rows"], next=next_of(found), as_of=found["as_of"])


def statuses(job: ConsoleJob, p: StatusesParameters) -> StatusesItem:
    """Return the answers of hosts, and the kinds of errors, from the latest scan if that is fresh, else O(queues)."""
    try:
        status = status_named(p.status)
    except ValueError as error:
        raise BadRequest(f"status: {error}") from None
    scanned = job.scanned() if job.is_folder and not p.match and status in CHOICES and p.limit <= ANSWERING else None
    if scanned is not None and scanned.is_fresh:
        found = scanned.scan.answers[status]
        return StatusesItem(
            found.classes, found.queues, found.rows[: p.limit], found.kinds[: p.limit], found.unreported,
            as_of=scanned.when,
        )  # fmt: skip
    selection = selected("match", p.match)
    found = job.look(lambda operator: operator.statuses(selection, status=status, limit=p.limit))
    return StatusesItem(found.classes, found.queues, found.rows, found.kinds, found.unreported)


def leases(job: ConsoleJob, parameters: LeasesParameters) -> Listing[LeaseItem]:
    """Return the leases that were out at the last commit, the oldest first."""
    key = _found(job, parameters.queue)[0].queue if parameters.queue else None
    found = job.look(lambda operator: operator.leases(key))
    rows = sorted(lease_rows(found.rows, time.time()), key=lambda row: row["began"])
    limit = parameters.limit
    cut = (
        f"{counted(len(rows) - limit, 'lease more than `limit` was', 'leases more than `limit` were')} left out."
        if len(rows) > limit
        else ""
    )
    return Listing(
        rows=[LeaseItem(**row) for row in rows[:limit]], note=" ".join(filter(None, (as_sentence(found.left_out), cut)))
    )


def seeds(job: ConsoleJob, parameters: SeedsParameters) -> Listing[SeedItem]:
    """Return the list of seeds with the fate of each."""
    query = query_of(parameters, fate=parameters.fate)
    found = seeds_page.build(job, query)
    query.check_names()
    rows: Sequence[dict[str, Any]] = [*found["rows"], *found["unlisted"]]
    cut = _cut("seeds that were never scheduled", found["unlisted_cut"])
    note = " ".join(filter(None, (found["cut"], cut)))
    return Listing(rows=[_as_seed_item(row) for row in rows], next=next_of(found), note=note)


def _cut(what: str, cut: bool) -> str:
    """Return the sentence on what a larger limit would show, for no cursor leads to it; "" if there is nothing more."""
    return f"There are more {what} than `limit`: `next` does not lead to them, a larger `limit` does." if cut else ""


def dead_letters(job: ConsoleJob, parameters: DeadLettersParameters) -> Listing[DeadLetterItem]:
    """Return the dead letters, the oldest first."""
    key = _found(job, parameters.queue)[0].queue if parameters.queue else ""
    query = query_of(parameters, reason=parameters.reason, queue=key)
    found = dead_letters_page.build(job, query)
    query.check_names()
    return Listing(rows=[_letter(one) for one in found["rows"]], next=next_of(found), note=found["left_out"])


def _letter(one: DeadLetter) -> DeadLetterItem:
    return DeadLetterItem(
        id=one.id, queue=one.queue, url=one.uri.url, via=one.uri.via,
        cost=one.cost, reason=one.reason, time=one.time, deliveries=one.deliveries, attempts=one.attempts,
    )  # fmt: skip
