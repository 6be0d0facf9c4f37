"""Reads of a partition for operators, as of its last commit, answered by its owner and bounded in size.

Pure functions of a `Reader` and of plain arguments. They run in a process of their own, see `inspector`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from heapq import nlargest, nsmallest
from itertools import chain, islice
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec

from budgetfrontier.cluster.directory.summaries import Reported
from budgetfrontier.cluster.log import state
from budgetfrontier.cluster.log.state import KnownCommands, LogPlace
from budgetfrontier.cluster.operators.entry_names import EntryNames, read_name
from budgetfrontier.core import protocol
from budgetfrontier.core.converters import converter
from budgetfrontier.core.model import DeadLetter, QueueRecord, QueueState, Run, StoredLease
from budgetfrontier.engine.commands import undo_checks
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports import (
    audit_filter,
    crawl_comparison,
    dry_runs,
    near_queues,
    over_time,
    retired_list,
    trap_list,
)
from budgetfrontier.reports.adjustment_outcomes import AdjustmentOutcome, outcomes_of
from budgetfrontier.reports.audit_inverses import inverses
from budgetfrontier.reports.explain import explain as explain_
from budgetfrontier.reports.explanation import Explanation
from budgetfrontier.reports.operators import AdjustmentRow, AuditRow, Selection
from budgetfrontier.reports.overview import Overview
from budgetfrontier.reports.queue_sample import spread as spread_
from budgetfrontier.reports.retired_list import RetiredList
from budgetfrontier.reports.status_tables import Statuses
from budgetfrontier.reports.status_tables import statuses as statuses_
from budgetfrontier.reports.trap_list import Suspect
from budgetfrontier.reports.work_list import Raised, WorkList
from budgetfrontier.rules.forecasts import Held
from budgetfrontier.settings.matching import parse_match, unknown_keys
from budgetfrontier.storage import label_totals, meta, quota_use, seed_list, url_search
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.label_totals import LabelTotals
from budgetfrontier.storage.quota_use import QuotaUse
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.report import Report
from budgetfrontier.storage.seed_list import ListedSeed
from budgetfrontier.storage.series import Busiest, SeriesRow
from budgetfrontier.storage.view import PendingUri, View

MOST_ROWS: Final = protocol.MOST_ITEMS
"""Rows of one answer."""
MOST_BYTES: Final = protocol.MOST_BYTES
"""Bytes of the rows of one answer, after which the rest is to be asked for."""
MOST_LISTED: Final = 1000
"""Queues in each list of a report's aggregates."""
MOST_PASSED: Final = 200_000
"""Queues that are looked at for one page: less than a second."""


_T = TypeVar("_T")


QueueRow = tuple[QueueRecord, Raised | None]
"""A queue, and its spend under a raised budget if `WorkList` finds it raised, and that was asked for."""


class RowPage(msgspec.Struct, Generic[_T]):
    """Rows of a partition."""

    rows: list[_T]
    rest: int | None = None
    """Where the next page begins, if there is one that can be asked for."""
    left: int = 0
    """The number of rows that are left out."""


class FoundQueue(msgspec.Struct):
    """A queue with some of its URIs, or the key that was probably meant."""

    queue: QueueRecord | None
    pending: list[PendingUri] = []
    meant: str = ""
    """The key that was probably meant, if there is no queue."""
    is_sure: bool = False
    """Whether that is sure: another way to write it."""
    quotas: list[QuotaUse] = []


class AppliedCommand(msgspec.Struct):
    """A command of an operator in a partition: its audit entry once it was applied, its effect until then."""

    entry: AuditEntry | None
    progress: dict[str, Any] | None = None


class Undoing(msgspec.Struct):
    """The effect that the undo of a command would have in a partition, or why that is refused."""

    effect: dict[str, Any] | None
    refusal: str = ""
    can_be_forced: bool = False
    is_known: bool = True
    """Whether the partition has applied the command."""
    waits: bool = False
    """Whether it is to be applied after a long one."""


def report(reader: Reader, *, limit: int) -> Reported:
    """Return the report with aggregates of at most `limit` queues in each list. O(queues)."""
    overview = Overview(min(limit, MOST_LISTED))
    return Reported(overview.read(reader), overview.gathered())


def head(reader: Reader) -> Report:
    """Return the report without its queues. O(1)."""
    with reader.scan() as (found, _):
        return found


def queues(reader: Reader, selection: Selection, *, after: int = -1) -> RowPage[QueueRow]:
    """Return selected queues in order of creation, after the one with an id; to be called again with `rest`."""
    test, passed, last, size = selection.test(), 0, after, 0
    chosen: list[QueueRecord] = []
    with reader.view() as view:
        budgets = BudgetsInForce(view)
        for queue in map(budgets.show, view.queues_after(after)):
            passed, last = passed + 1, queue.id
            if test(queue) and (not selection.over_budget or _over_budget(budgets, queue)):
                chosen.append(queue)
                size += _size(queue)
            if len(chosen) >= MOST_ROWS or size >= MOST_BYTES or passed >= MOST_PASSED:
                return RowPage(_rows(view, selection, chosen), last)
        return RowPage(_rows(view, selection, chosen))


def best(
    reader: Reader, selection: Selection, *, sort: str, reverse: bool, offset: int, count: int
) -> RowPage[QueueRow]:
    """Return `count` selected queues from the `offset`-th on, sorted by a column. O(queues)."""
    end, key = offset + min(count, MOST_ROWS), attrgetter(sort)
    states = None if selection.states is None else frozenset(selection.states)
    with reader.view() as view:
        found = filter(selection.test(), reader.queues(states, over_budget=selection.over_budget))
        sorted_ = (nlargest if reverse else nsmallest)(end + 1, found, key=key)[offset:]
        chosen = list(_up_to(sorted_[: end - offset], _size))
        return RowPage(_rows(view, selection, chosen), offset + len(chosen) if len(chosen) < len(sorted_) else None)


def queue(reader: Reader, *, key: str, limit: int | None, spread: bool) -> FoundQueue:
    """Return a queue with its first URIs, or with URIs spread over it."""
    record = reader.queue(key)
    with reader.view() as view:
        if record is None:
            sure = near_queues.meant(view, key)
            return FoundQueue(
                None, meant=sure or next(iter(near_queues.nearest(view, key, most=1)), ""), is_sure=bool(sure)
            )
        if spread:
            uris = spread_(view, record, min(limit or record.queued, MOST_ROWS))
        else:
            uris = reader.pending(record.queue, min(limit or MOST_ROWS, MOST_ROWS))
        quotas = quota_use.of_queue(view, record)
    return FoundQueue(record, list(_up_to(uris, lambda each: len(each.uri.url) + 200)), quotas=quotas)


def unknown_queues(reader: Reader, *, match: str) -> list[str]:
    """Return the keys that a pattern lists and no queue has."""
    with reader.view() as view:
        return unknown_keys(parse_match(match), view.find_queue)


def retired(reader: Reader, *, match: str | None, count: int, job: str) -> RetiredList:
    """Return retired queues that match, in the order of their retirement, and some that retire again."""
    count = min(count, MOST_ROWS)
    with reader.view() as view:
        chosen = islice(filter(Selection(match=match).test(), retired_list.retired_queues(view)), count)
        return retired_list.retired_list(view, job, _up_to(chosen, _size), count)


def is_known(reader: Reader, *, url: str) -> bool:
    """Return whether a URL was seen here, on any queue. O(log n)."""
    with reader.view() as view:
        return url_search.is_known(view, url)


def explain(reader: Reader, *, target: str, job: str, anywhere: bool = False) -> Explanation:
    """Explain why a URL or a queue is not being crawled; `job` stands for the crawl in commands.

    A URL is looked for on the queue of its host, or `anywhere`.
    """
    name = _names(reader).name
    found = explain_(reader, target, job=job, anywhere=anywhere, entry_name=name)
    for source in chain.from_iterable(setting["sources"] for setting in found.settings):
        if source.get("id"):
            source["id"] = name(source["id"])
    found.reasons = [
        replace(one, text=one.text.replace("The crawl is", "Its partition is", 1)) if one.code == "finished" else one
        for one in found.reasons
    ]
    return found


def audit(reader: Reader, *, count: int, key: str | None = None) -> list[AuditRow]:
    """Return the newest entries of the audit, or those about a queue, by their names, newest first."""
    names = _names(reader)
    with reader.view() as view:
        covers = None if key is None else audit_filter.coverage(view, key)
        found = (
            AuditRow(
                names.name(entry.id),
                names.entry(entry),
                covers=None if covers is None else covers(entry),
                inverse=inverse,
            )
            for entry, inverse in inverses(view.newest_commands(), names.name)
        )
        chosen = (one for one in found if covers is None or one.covers)
        return list(_up_to(islice(chosen, min(count, MOST_ROWS)), lambda one: len(protocol.encode(one))))


def adjustments(reader: Reader) -> list[AdjustmentRow]:
    """Return the adjustments in force by their names, in the order in which they apply."""
    names = _names(reader)
    with reader.view() as view:
        return [
            AdjustmentRow(names.name(one.id), one.match, one.set, view.audit_entry(one.id))
            for one in view.adjustments()
        ]


def applied(reader: Reader, *, command: bytes) -> AppliedCommand:
    """Return the progress of an operator's command as of the last commit."""
    found = _commands(reader)
    number = found.entry_of(command)
    if number is not None:
        entry = reader.audit_entry(number)
        return AppliedCommand(None if entry is None else _names(reader).entry(entry))
    begun = reader.in_progress() if found.job == command else None
    return AppliedCommand(None, None if begun is None else begun[1].effect)


def figures(reader: Reader, *, op: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return the queues that a change of adjustments would match, and its promised fetches and spend. O(queues)."""
    with reader.view() as view:
        return dry_runs.figures(view, op, _here(reader, op, args))


def outcomes(reader: Reader, *, names: list[str]) -> dict[str, AdjustmentOutcome]:
    """Return what followed changes of the adjustments, by their names. O(changes * queues)."""
    entries, known = dict[str, AuditEntry](), _commands(reader)
    with reader.view() as view:
        for name in names:
            command = read_name(name)
            number = known.entry_of(command) if isinstance(command, bytes) else None
            entry = view.audit_entry(number) if number else None
            if entry is not None:
                entries[name] = entry
        return outcomes_of(view, entries, time.time())


def dry_run(reader: Reader, *, op: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return the effect that a command would have. O(queues), a deletion O(URIs)."""
    with reader.view() as view:
        return dry_runs.dry_run(view, op, _here(reader, op, args))


def undo(reader: Reader, *, op: str, entry: bytes | int, force: bool) -> Undoing:
    """Return the effect that `undo` or `discard` of an operator's command, or of another audit entry, would have.

    O(effect).
    """
    found = _commands(reader)
    number = found.entry_of(entry) if isinstance(entry, bytes) else entry
    if not number:
        return Undoing(None, is_known=False, waits=isinstance(entry, bytes) and found.is_waiting(entry))
    names = _names(reader)
    with reader.view() as view:
        try:
            effect = dry_runs.dry_run(view, op, {"id": number, "force": force})
        except FrontierError as e:
            is_known = view.audit_entry(number) is not None
            return Undoing(None, names.text(str(e)), str(e).endswith(undo_checks.FORCE), is_known)
    return Undoing(names.effect(effect) | {"undoes": names.text(effect["undoes"])} if op == "undo" else effect)


def undo_refusals(reader: Reader, *, names: list[str]) -> dict[str, str]:
    """Return why the undo of audit entries that are here would be refused, by their names; "" where it would not be."""
    known, wanted, found = _names(reader), {*names}, dict[str, str]()
    with reader.view() as view:
        in_force = view.adjustments()
        for entry, inverse in islice(inverses(view.newest_commands()), MOST_ROWS):
            if (name := known.name(entry.id)) in wanted:
                why = (
                    undo_checks.refusal(view, entry, in_force) if inverse else f"there is nothing of {entry.id} to undo"
                )
                found[name] = known.text(why)
                if len(found) == len(wanted):
                    break
    return found


def unknown_letters(reader: Reader, *, ids: list[int]) -> list[int]:
    """Return the ids that are of no dead letter."""
    with reader.view() as view:
        return [number for number in ids if not view.has_dead_letter(number)]


def leases(reader: Reader) -> RowPage[StoredLease]:
    """Return the leases that are out, at most the first MOST_BYTES."""
    found = reader.leases()
    rows = list(_up_to(found, lambda lease: len(lease.uri.url) + len(lease.uri.via or "") + 200))
    return RowPage(rows, left=len(found) - len(rows))


def dead_letters(reader: Reader) -> RowPage[DeadLetter]:
    """Return the dead letters, oldest first, at most the first MOST_BYTES."""
    found = reader.dead_letters(10 * MOST_ROWS)
    rows = list(_up_to(found, lambda letter: len(letter.uri.url) + len(letter.uri.via or "") + 300))
    return RowPage(rows, left=reader.summary().dead - len(rows))


def series(reader: Reader, *, since: float, now: float) -> list[SeriesRow]:
    """Return the totals over a time until now. O(minutes, at most 2,200)."""
    with reader.view() as view:
        return over_time.read(view, since, now)


def busiest(reader: Reader, *, since: float, until: float) -> Busiest:
    """Return the busiest queues of a time. O(hours)."""
    return reader.busiest(since, until)


def held(reader: Reader) -> Held:
    """Return the holdings of all queues, for forecasts. O(queues)."""
    with reader.view() as view:
        return over_time.held(view)


def runs(reader: Reader) -> list[Run]:
    """Return when workers had the partition, as far as this copy of it knows."""
    return reader.runs()


def seeds(reader: Reader, *, after: int) -> RowPage[ListedSeed]:
    """Return the next seeds of the partition's list behind a position. O(result)."""
    with reader.view() as view:
        found = list(islice(seed_list.listed(view, after), MOST_ROWS))
    return RowPage(found, found[-1].position if len(found) == MOST_ROWS else None)


def unlisted(reader: Reader, *, urls: list[str]) -> list[str]:
    """Return which of some URLs are not in the partition's list of seeds. O(urls)."""
    with reader.view() as view:
        return sorted(seed_list.unlisted(view, urls))


def quotas(reader: Reader) -> list[QuotaUse]:
    """Return the use of each limit of a quota, the fullest first. O(tallies)."""
    with reader.view() as view:
        return list(_up_to(quota_use.fullest(view), lambda use: 40 + len(use.name)))


def statuses(reader: Reader, *, selection: Selection, status: str, limit: int | None) -> Statuses:
    """Return the answers of the selected queues, those with most of a status first. O(queues)."""
    with reader.view() as view:
        return statuses_(view, selection.test_or_all(), status=status, limit=limit)


def fetched(reader: Reader, *, after: int) -> RowPage[crawl_comparison.FetchedQueue]:
    """Return queues with their fetches, in order of creation, from the one after the id `after`. O(result)."""
    with reader.view() as view:
        found = list(islice(crawl_comparison.fetched_queues(view, after), MOST_ROWS))
    return RowPage([one for _, one in found], found[-1][0] if len(found) == MOST_ROWS else None)


def traps(reader: Reader, *, selection: Selection, limit: int | None) -> list[Suspect]:
    """Return the selected queues that look like crawler traps, the most suspicious first. O(queues)."""
    most = trap_list.READ if limit is None else limit
    with reader.view() as view:
        test = None if selection.is_all else selection.test()
        return trap_list.suspects(view, test, limit=most, now=time.time())


def labels(reader: Reader) -> list[LabelTotals]:
    """Return the fetches and the seeds of each label. O(seeds + tallies)."""
    with reader.view() as view:
        return list(_up_to(label_totals.label_totals(view), lambda one: 80 + len(one.label)))


LOOKS: Final[dict[str, Callable[..., Any]]] = {
    each.__name__: each
    for each in (
        report, head, queues, best, queue, explain, audit, adjustments, applied, figures, outcomes, dry_run, leases,
        dead_letters, undo, undo_refusals, unknown_letters, unknown_queues, is_known,
        series, busiest, held, runs, seeds, unlisted, quotas, labels, traps, statuses,
        fetched, retired,
    )
}  # fmt: skip
"""The looks by name."""
_ARGUMENTS: Final = {"selection": converter(Selection)}


def look(reader: Reader, name: str, named: dict[str, Any]) -> Any:
    """Return the answer to a look by its name. Raises FrontierError, and ValueError for arguments of other types."""
    found = LOOKS.get(name)
    if found is None:
        raise FrontierError(f"this worker has no look {name[:50]!r}: use the same release of budgetfrontier for both")
    return found(reader, **{n: _ARGUMENTS[n](v) if n in _ARGUMENTS else v for n, v in named.items()})


# -- their parts


def _over_budget(budgets: BudgetsInForce, queue: QueueRecord) -> bool:
    return queue.state is not QueueState.EXHAUSTED and budgets.over_budget(queue)


def _rows(view: View, selection: Selection, chosen: Iterable[QueueRecord]) -> list[QueueRow]:
    raised = WorkList(view).raised if selection.raised else lambda queue: None
    return [(queue, raised(queue)) for queue in chosen]


def _size(queue: QueueRecord) -> int:
    return 200 + len(queue.queue) + len(queue.last_leased or "") + len(queue.last_enqueued or "")


def _up_to(rows: Iterable[Any], size: Callable[[Any], int]) -> Iterator[Any]:
    """Yield rows until they have MOST_BYTES, but at least one."""
    total = 0
    for row in rows:
        total += size(row)
        if total > MOST_BYTES and total > size(row):
            return
        yield row


def _commands(reader: Reader) -> KnownCommands:
    row = reader.row(meta.COMMANDS)
    return KnownCommands() if row is None else state.decode(row, KnownCommands)


def _names(reader: Reader) -> EntryNames:
    row = reader.row(meta.PLACE)
    if row is None:
        raise FrontierError(f"{reader.path} is no partition of a crawl")
    return EntryNames(state.decode(row, LogPlace).partition, _commands(reader))


def _here(reader: Reader, op: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command with its entry's number in this partition."""
    return args | {"id": _commands(reader).entry_of(args["id"]) or 0} if op == "withdraw" else args
