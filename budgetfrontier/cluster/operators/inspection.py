"""Reads of a partition for operators, as of its last commit, answered by its owner and bounded in size.

Methods of `FrontierReads`, and functions of it and of plain arguments. They run in a process of their own, see
`inspector`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Final, Generic, TypeVar

import msgspec

from budgetfrontier.cluster.directory.summaries import Reported
from budgetfrontier.cluster.log import state
from budgetfrontier.cluster.log.state import KnownCommands
from budgetfrontier.cluster.operators.entry_names import EntryNames, read_name
from budgetfrontier.core import protocol
from budgetfrontier.core.converters import converter
from budgetfrontier.core.model import DeadLetter, QueueRecord, QueueState, StoredLease
from budgetfrontier.engine.commands import undo_checks
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports import crawl_comparison, dry_runs, near_queues
from budgetfrontier.reports.adjustment_outcomes import AdjustmentOutcome, outcomes_of, standing_of
from budgetfrontier.reports.audit_inverses import inverses
from budgetfrontier.reports.explain import explain as explain_
from budgetfrontier.reports.explanation import Explanation
from budgetfrontier.reports.frontier_reads import FrontierReads
from budgetfrontier.reports.operators import AdjustmentRow, AuditRow, Selection, Where
from budgetfrontier.reports.overview import Overview
from budgetfrontier.reports.queue_sample import spread as spread_
from budgetfrontier.reports.retired_list import RetiredList
from budgetfrontier.reports.work_list import Raised, WorkList
from budgetfrontier.rules.verdict import Standing
from budgetfrontier.storage import meta, quota_use, seed_list, url_search
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.label_totals import LabelTotals
from budgetfrontier.storage.quota_use import QuotaUse
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.seed_list import ListedSeed
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
    then: dict[str, int] = {}
    """The sums over the queues of a change of adjustments, if they are to be kept with its undo."""


def report(reads: FrontierReads, *, limit: int) -> Reported:
    """Return the report with aggregates of at most `limit` queues in each list. O(queues)."""
    overview = Overview(min(limit, MOST_LISTED))
    return Reported(overview.read(reads.reader), overview.gathered())


def queues(reads: FrontierReads, selection: Selection, *, after: int = -1) -> RowPage[QueueRow]:
    """Return selected queues in order of creation, after the one with an id; to be called again with `rest`."""
    test, passed, last, size = selection.test(), 0, after, 0
    chosen: list[QueueRecord] = []
    with reads.reader.view() as view:
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
    reads: FrontierReads, selection: Selection, *, sort: str, reverse: bool, offset: int, count: int
) -> RowPage[QueueRow]:
    """Return `count` selected queues from the `offset`-th on, sorted by a column. O(queues)."""
    end = offset + min(count, MOST_ROWS)
    found = reads.sorted_queues(selection, sort=sort, reverse=reverse, end=end + 1)
    rows = list(islice(found, offset, None))
    chosen = list(_up_to(rows[: end - offset], lambda row: _size(row[0])))
    return RowPage(chosen, offset + len(chosen) if len(chosen) < len(rows) else None)


def queue(reads: FrontierReads, *, key: str, limit: int | None, spread: bool) -> FoundQueue:
    """Return a queue with its first URIs, or with URIs spread over it."""
    record = reads.reader.queue(key)
    with reads.reader.view() as view:
        if record is None:
            sure = near_queues.meant(view, key)
            return FoundQueue(
                None, meant=sure or next(iter(near_queues.nearest(view, key, most=1)), ""), is_sure=bool(sure)
            )
        if spread:
            uris = spread_(view, record, min(limit or record.queued, MOST_ROWS))
        else:
            uris = reads.reader.pending(record.queue, min(limit or MOST_ROWS, MOST_ROWS))
        quotas = quota_use.of_queue(view, record)
    return FoundQueue(record, list(_up_to(uris, lambda each: len(each.uri.url) + 200)), quotas=quotas)


def retired(reads: FrontierReads, *, match: str | None, count: int) -> RetiredList:
    """Return retired queues that match, in the order of their retirement, and some that retire again."""
    found = reads.retired(match, min(count, MOST_ROWS))
    return RetiredList(list(_up_to(found.rows, lambda row: _size(row.queue))), found.again)


def is_known(reads: FrontierReads, *, url: str) -> bool:
    """Return whether a URL was seen here, on any queue. O(log n)."""
    with reads.reader.view() as view:
        return url_search.is_known(view, url)


def explain(reads: FrontierReads, *, target: str, crawl: Standing, anywhere: bool = False) -> Explanation:
    """Explain why a URL or a queue of a crawl with some standing is not being crawled.

    A URL is looked for on the queue of its host, or `anywhere`.
    """
    name = _names(reads.reader).name
    found = explain_(reads.reader, target, job=reads.job, anywhere=anywhere, entry_name=name, crawl=crawl)
    for source in chain.from_iterable(setting["sources"] for setting in found.settings):
        if source.get("id"):
            source["id"] = name(source["id"])
    found.reasons = [
        replace(one, text=one.text.replace("The crawl is", "Its partition is", 1)) if one.code == "finished" else one
        for one in found.reasons
    ]
    return found


def audit(
    reads: FrontierReads, *, count: int, key: str | None = None, names: list[str] | None = None
) -> list[AuditRow]:
    """Return the newest entries of the audit, or those about a queue, or the commands of some names, newest first."""
    known = _names(reads.reader)
    where: Where | None = None
    if names is not None:
        chosen = {number for name in names if (number := _commands(reads.reader).entry_of(bytes.fromhex(name)))}
        where, count = (lambda entry: entry.id in chosen), len(chosen)
    rows = islice(reads.audit_rows(key, where=where, name=known.name), min(count, MOST_ROWS))
    named = (msgspec.structs.replace(row, entry=known.entry(row.entry)) for row in rows)
    return list(_up_to(named, lambda one: len(protocol.encode(one))))


def adjustments(reads: FrontierReads) -> list[AdjustmentRow]:
    """Return the adjustments in force by their names, in the order in which they apply."""
    name = _names(reads.reader).name
    return [one._replace(id=name(int(one.id or 0))) for one in reads.adjustments()]


def applied(reads: FrontierReads, *, command: bytes) -> AppliedCommand:
    """Return the progress of an operator's command as of the last commit."""
    found = _commands(reads.reader)
    number = found.entry_of(command)
    if number is not None:
        entry = reads.reader.audit_entry(number)
        return AppliedCommand(None if entry is None else _names(reads.reader).entry(entry))
    begun = reads.reader.in_progress() if found.job == command else None
    return AppliedCommand(None, None if begun is None else begun[1].effect)


class ChangeFigures(msgspec.Struct):
    """The queues that a change of adjustments would match, and its promised fetches and spend, or why it is refused."""

    survey: dict[str, Any] = {}
    promised: dict[str, Any] = {}
    refusal: str = ""


def figures(reads: FrontierReads, *, op: str, changes: list[dict[str, Any]]) -> list[ChangeFigures]:
    """Return the figures of changes of adjustments that concern different URIs, given together. O(queues) for each."""
    found: list[ChangeFigures] = []
    with reads.reader.view() as view:
        for args in changes:
            preceding = sum(not one.refusal for one in found)
            try:
                told = dry_runs.figures(view, op, _here(reads.reader, op, args), preceding=preceding)
            except FrontierError as e:
                found.append(ChangeFigures(refusal=str(e)))
            else:
                found.append(ChangeFigures(told["survey"], told["promised"]))
    return found


def outcomes(reads: FrontierReads, *, names: list[str]) -> dict[str, AdjustmentOutcome]:
    """Return what followed changes of the adjustments, by their names. O(changes * queues)."""
    entries, known = dict[str, AuditEntry](), _commands(reads.reader)
    with reads.reader.view() as view:
        for name in names:
            command = read_name(name)
            number = known.entry_of(command) if isinstance(command, bytes) else None
            entry = view.audit_entry(number) if number else None
            if entry is not None:
                entries[name] = entry
        return outcomes_of(view, entries, view.now())


def dry_run(reads: FrontierReads, *, op: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return the effect that a command would have. O(queues), a deletion O(URIs)."""
    with reads.reader.view() as view:
        return dry_runs.dry_run(view, op, _here(reads.reader, op, args))


def undo(
    reads: FrontierReads, *, op: str, entry: bytes | int, force: bool, whole: bool, is_given: bool = False
) -> Undoing:
    """Return the effect that `undo` or `discard` of an operator's command, or of another audit entry, would have.

    `whole`: of the whole list of an adjustment. `is_given`: it is not a dry run, so that `then` is kept. O(effect), for
    adjustments O(queues).
    """
    found = _commands(reads.reader)
    number = found.entry_of(entry) if isinstance(entry, bytes) else entry
    if not number:
        return Undoing(None, is_known=False, waits=isinstance(entry, bytes) and found.is_waiting(entry))
    names = _names(reads.reader)
    with reads.reader.view() as view:
        try:
            effect = dry_runs.dry_run(view, op, {"id": number, "force": force, "list": whole})
        except FrontierError as e:
            is_known = view.audit_entry(number) is not None
            return Undoing(None, names.text(str(e)), str(e).endswith(undo_checks.FORCE), is_known)
        if op != "undo":
            return Undoing(effect)
        undone = view.audit_entry(number) if is_given and not whole else None
        then = None if undone is None else standing_of(view, undone)
    return Undoing(names.effect(effect) | {"undoes": names.text(effect["undoes"])}, then=then or {})


def undo_refusals(reads: FrontierReads, *, names: list[str]) -> dict[str, str]:
    """Return why the undo of audit entries that are here would be refused, by their names; "" where it would not be."""
    known, wanted, found = _names(reads.reader), {*names}, dict[str, str]()
    with reads.reader.view() as view:
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


def leases(reads: FrontierReads) -> RowPage[StoredLease]:
    """Return the leases that are out, at most the first MOST_BYTES."""
    found = reads.reader.leases()
    rows = list(_up_to(found, lambda lease: len(lease.uri.url) + len(lease.uri.via or "") + 200))
    return RowPage(rows, left=len(found) - len(rows))


def dead_letters(reads: FrontierReads) -> RowPage[DeadLetter]:
    """Return the dead letters, oldest first, at most the first MOST_BYTES."""
    found = reads.reader.dead_letters(10 * MOST_ROWS)
    rows = list(_up_to(found, lambda letter: len(letter.uri.url) + len(letter.uri.via or "") + 300))
    return RowPage(rows, left=reads.reader.summary().dead - len(rows))


def seeds(reads: FrontierReads, *, after: int) -> RowPage[ListedSeed]:
    """Return the next seeds of the partition's list behind a position. O(result)."""
    with reads.reader.view() as view:
        found = list(islice(seed_list.listed(view, after), MOST_ROWS))
    return RowPage(found, found[-1].position if len(found) == MOST_ROWS else None)


def fetched(reads: FrontierReads, *, after: int) -> RowPage[crawl_comparison.FetchedQueue]:
    """Return queues with their fetches, in order of creation, from the one after the id `after`. O(result)."""
    with reads.reader.view() as view:
        found = list(islice(crawl_comparison.fetched_queues(view, after), MOST_ROWS))
    return RowPage([one for _, one in found], found[-1][0] if len(found) == MOST_ROWS else None)


def labels(reads: FrontierReads) -> list[LabelTotals]:
    """Return the fetches and the seeds of each label. O(seeds + tallies)."""
    return list(_up_to(reads.labels(), lambda one: 80 + len(one.label)))


LOOKS: Final[dict[str, Callable[..., Any]]] = {
    each.__name__: each
    for each in (
        FrontierReads.head, FrontierReads.series, FrontierReads.busiest, FrontierReads.held, FrontierReads.runs,
        FrontierReads.unlisted, FrontierReads.quotas, FrontierReads.statuses, FrontierReads.traps,
        FrontierReads.unknown_keys, FrontierReads.unknown_letters,
        report, queues, best, queue, explain, audit, adjustments, applied, figures, outcomes, dry_run, leases,
        dead_letters, undo, undo_refusals, is_known, seeds, fetched, retired, labels, FrontierReads.out_of_scope,
    )
}  # fmt: skip
"""The looks by name: those whose answers are small anyway, and others."""
_ARGUMENTS: Final[dict[str, Callable[[Any], Any]]] = {
    "selection": converter(Selection),
    "crawl": converter(Standing),
}


def look(reader: Reader, name: str, named: dict[str, Any]) -> Any:
    """Return the answer to a look by its name. Raises FrontierError, and ValueError for arguments of other types.

    The argument `job` of any look stands for the crawl in commands.
    """
    found = LOOKS.get(name)
    if found is None:
        raise FrontierError(f"this worker has no look {name[:50]!r}: use the same release of budgetfrontier for both")
    reads = FrontierReads(named.pop("job", ""), reader.path, reader=reader)
    return found(reads, **{n: _ARGUMENTS[n](v) if n in _ARGUMENTS else v for n, v in named.items()})


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
    return EntryNames(state.place_of(reader.row(meta.PLACE), reader.path).partition, _commands(reader))


def _here(reader: Reader, op: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command with its entry's number in this partition."""
    return args | {"id": _commands(reader).entry_of(args["id"]) or 0} if op == "withdraw" else args
