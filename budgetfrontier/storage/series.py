"""The records of the table `series`: the totals over time, and the busiest queues of each hour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, isfinite
from operator import attrgetter

import msgspec

from budgetfrontier.core.model import Number, QueueRecord, RunRow, Summary
from budgetfrontier.core.vocabulary import QueueState
from budgetfrontier.rules import series_periods
from budgetfrontier.rules.busiest import NOTHING, Amounts, Busy, merged
from budgetfrontier.rules.crawl_states import HALTED
from budgetfrontier.rules.rates import FIGURES
from budgetfrontier.rules.run_history import may_crawl
from budgetfrontier.rules.series_periods import Resolution
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import decoder, encode
from budgetfrontier.storage.process import seen_alive
from budgetfrontier.storage.records import decode_run
from budgetfrontier.storage.view import View

_LAST = (1 << 32) - 1  # the last second of keys, in 2106


class SeriesRow(msgspec.Struct, array_like=True, gc=False):
    """The totals of a frontier at one time (epoch seconds). Most only grow; the others are those of that moment."""

    time: float
    begins: bool = False
    """Whether nothing was crawled between the row before and this one: a run began here, or only a command ran."""
    scheduled: Number = 0
    succeeded: Number = 0
    failed: Number = 0
    retried: Number = 0
    deferred: Number = 0
    disregarded: Number = 0
    duplicates: Number = 0
    expenditure: Number = 0
    queued: Number = 0
    in_process: Number = 0
    future: Number = 0
    dead: Number = 0
    seen: Number = 0
    ready: Number = 0
    in_process_queues: Number = 0
    snoozed: Number = 0
    inactive: Number = 0
    retired: Number = 0
    exhausted: Number = 0
    stopped: float = 0
    """Seconds since the row before of its run without crawling: short stops that were added up."""
    bytes: Number = 0
    full: Number = 0
    invalid: Number = 0
    given_up: Number = 0
    succeeded_expenditure: Number = 0
    failed_expenditure: Number = 0
    retried_expenditure: Number = 0
    given_up_expenditure: Number = 0
    other_expenditure: Number = 0
    penalties: Number = 0
    buried: Number = 0
    expired: Number = 0
    robots_denials: Number = 0
    prerequisites: Number = 0
    run: Number = 0
    """The epoch in which the run began that wrote it, as in the ids of its leases. No earlier run has a higher one."""
    prerequisites_succeeded: Number = 0
    prerequisites_disregarded: Number = 0
    ineligible: Number = 0
    quota_denials: Number = 0
    answers_2xx: Number = 0
    answers_3xx: Number = 0
    answers_4xx: Number = 0
    answers_5xx: Number = 0
    unanswered: Number = 0
    deleted: Number = 0
    dropped: Number = 0
    dead_prerequisites: Number = 0
    found: Number = 0


_STATES = {
    "ready": QueueState.READY,
    "in_process_queues": QueueState.IN_PROCESS,
    "snoozed": QueueState.SNOOZED,
    "inactive": QueueState.INACTIVE,
    "ineligible": QueueState.INELIGIBLE,
    "retired": QueueState.RETIRED,
    "exhausted": QueueState.EXHAUSTED,
}
TOTALS = tuple(f for f in SeriesRow.__struct_fields__[2:] if f not in (*_STATES, "stopped", "run"))
"""The totals of a row: its fields with the names of those of a summary."""


class BusyRow(msgspec.Struct, array_like=True, gc=False):
    """The busiest queues of an hour or a day, as numbers in threes: queue id, cost units spent, attempts charged."""

    fetched_low: Number = 0
    """The most that may be missing in their attempts."""
    counts: list[Number] = []
    spent_low: Number = 0
    """The most that may be missing in the amounts spent."""
    others: tuple[Number, Number] = NOTHING
    """The most that any other queue may have spent, and its attempts."""


class BusyQueue(msgspec.Struct, kw_only=True):
    """A queue with the cost units that it spent, and the attempts charged to it, in a part of a crawl.

    Both are exact, unless `spent_most` or `fetched_most` is more: then they are between the two.
    """

    queue: str
    spent: int
    spent_most: int
    fetched: int
    fetched_most: int


class Busiest(msgspec.Struct, kw_only=True):
    """The busiest queues from the begin of an hour or, if it is older, of a day on, to the end of one, or until now."""

    since: float
    until: float
    queues: list[BusyQueue]
    others_spent: int
    """The most that a queue which is not listed may have spent."""
    others_fetched: int
    """The most attempts that may have been charged to one."""
    as_of: float = 0.0
    """The time up to which the counts are those of queues, if more was charged since: they are stored once a minute."""
    untold_spent: int = 0
    """The amount that was spent since then, by any of the queues. It is part of the most that each count may be."""
    untold_fetched: int = 0
    known: bool = True
    """Whether any totals are known of that time, or of one before."""

    @property
    def exact(self) -> bool:
        """Whether all counts are exact."""
        return not (self.untold_spent or self.untold_fetched) and all(
            one.spent == one.spent_most and one.fetched == one.fetched_most for one in self.queues
        )


decode_row = decoder(SeriesRow)
_decode_busy = decoder(BusyRow)


def row_of(totals: Summary, now: float, *, run: int = 0, begins: bool = False) -> SeriesRow:
    """Return the row of these totals, by the run of an epoch."""
    values = {name: getattr(totals, name) for name in TOTALS}
    states = {name: totals.queues[state] for name, state in _STATES.items()}
    return SeriesRow(now, begins, run=run, **values, **states)


def encode_busy(busy: Busy) -> bytes:
    """Return the value of the busiest queues."""
    numbers = [number for queue, count in busy.counts.items() for number in (queue, *count)]
    return encode(BusyRow(busy.low[1], numbers, spent_low=busy.low[0], others=busy.others))


def decode_busy(value: bytes) -> Busy:
    """Return the busiest queues. Raises Damage."""
    row = _decode_busy(value)
    queues, spent, fetched = row.counts[::3], row.counts[1::3], row.counts[2::3]
    if len(row.counts) % 3 or any(not 0 <= queue < 1 << 32 for queue in queues):
        raise Damage("not a list of queues")
    counts = dict(zip(queues, zip(spent, fetched, strict=True), strict=True))
    return Busy(counts, (row.spent_low, row.fetched_low), row.others)


def series_key(resolution: Resolution, time: float, place: int = 0) -> bytes:
    """Return the key of a row; with place 0, that of the busiest queues."""
    return keys.series.pack(resolution, _second(time), place)


def row_key(resolution: Resolution, row: SeriesRow) -> bytes:
    """Return the key of a row of totals: a run has two a second at the most, of its beginning and of what it did."""
    return series_key(resolution, row.time, 2 * row.run + (not row.begins))


def _second(time: float) -> int:
    return int(min(max(time, 0), _LAST))


def _begin(resolution: Resolution, time: float) -> bytes:
    """Return the least key of a second, or that beyond the last one."""
    return keys.series_from.pack(resolution, int(max(time, 0))) if time <= _LAST else bytes([resolution + 1])


def rows_between(
    txn: keys.Txn, db: keys.Tables, resolution: Resolution, start: float, end: float
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a resolution from `start` up to, and without, `end` (epoch seconds)."""
    cursor = txn.cursor(db[keys.SERIES])
    beyond = _begin(resolution, end)
    if cursor.set_range(_begin(resolution, start)):
        for key, value in cursor.iternext():
            if key >= beyond:
                return
            yield key, value


def totals(txn: keys.Txn, db: keys.Tables, since: float, until: float) -> Iterator[SeriesRow]:
    """Yield the rows of totals in a time, those of each run oldest first, as they are kept."""
    for resolution in (Resolution.DAY, Resolution.HOUR, Resolution.MINUTE):
        for _, value in rows_between(txn, db, resolution, since, until):
            yield decode_row(value)


def preceded(txn: keys.Txn, db: keys.Tables, since: float, rows: Sequence[SeriesRow]) -> list[SeriesRow]:
    """Return rows from a time on after those before it with which all changes in them can be computed.

    These are the last row before the time, and of each run that is going on the last of its own. O(1), unless the clock
    was set back.
    """
    first: dict[int, bool] = {}
    for row in rows:
        first.setdefault(row.run, row.begins)
    missing, found = {run for run, begins in first.items() if not begins}, list[SeriesRow]()
    for before in _backwards(txn, db, since):
        if not found or before.run in missing:
            found.append(before)
            missing.discard(before.run)
        if not missing:
            break
    return [*reversed(found), *rows]


def _backwards(txn: keys.Txn, db: keys.Tables, time: float) -> Iterator[SeriesRow]:
    """Yield the rows of totals before the second of a time, the newest of each resolution first."""
    cursor = txn.cursor(db[keys.SERIES])
    for resolution in (Resolution.MINUTE, Resolution.HOUR, Resolution.DAY):
        found = cursor.set_range(_begin(resolution, time))
        there = cursor.prev() if found else cursor.last()
        while there and cursor.key()[0] == resolution:
            yield decode_row(cursor.value())
            there = cursor.prev()


def last_of(txn: keys.Txn, db: keys.Tables, run: int) -> SeriesRow | None:
    """Return the last row of a run that is going on. O(1), unless the clock was set back before it."""
    return next((row for row in _backwards(txn, db, inf) if row.run == run), None)


def as_of_commit(view: View) -> SeriesRow:
    """Return the row of the totals of the last commit."""
    counters = view.counters()
    return row_of(view.summary(counters), counters.time, run=counters.epoch)


def unstored(view: View, now: SeriesRow | None = None, *, until: float = 0.0) -> SeriesRow | None:
    """Return the row of `now` if a run without an end has not stored it yet.

    `now` are the totals of its engine, else those of its last commit. They still hold up to `until`, as far as its
    process was seen at work: a crawl that stands still commits nothing. There is no such row of a run that has ended,
    nor of a command that has changed nothing.
    """
    run = _without_end(view)
    last = None if run is None else last_of(view.txn, view.db, run.epoch)
    if run is None or last is None:
        return None
    now = msgspec.structs.replace(now or as_of_commit(view), run=run.epoch)
    crawls = may_crawl(run.program) and view.counters().state not in HALTED
    if crawls and view.folder is not None and now.time < until:
        now.time = max(now.time, min(until, seen_alive(run, view.folder)))
    if is_same(now, last) and (now.time <= last.time or (last.time <= run.began and not crawls)):
        return None
    now.begins = not crawls and untold_since(last, now) == NOTHING
    return now


def _without_end(view: View) -> RunRow | None:
    """Return the run that is going on, or was killed."""
    latest = next(view.newest_items(keys.RUNS), None)
    run = None if latest is None else decode_run(latest[1])
    return None if run is None or run.end is not None else run


def is_same(row: SeriesRow, other: SeriesRow) -> bool:
    """Return whether nothing has changed between two rows."""
    labels = {name: getattr(other, name) for name in ("time", "begins", "run", "stopped")}
    return msgspec.structs.replace(row, **labels) == other


def until_commit(view: View, since: float, until: float, now: SeriesRow | None = None) -> list[SeriesRow]:
    """Return the totals from the last row before a time to the last commit, or `now`, in order of time. O(result).

    The last row of a crawl that goes on is of `until`, whenever it last had something to commit: see `unstored`; the
    one before is of the last commit then, so that rates do not spread over an idle time what came before. The newest
    row may be of the second that is not over yet, or newer than `until`, if the view is.
    """
    end = until + series_periods.INTERVAL
    found, last = list(totals(view.txn, view.db, since, end)), unstored(view, now, until=until)
    if last is not None and last.time < end:
        committed = view.counters().time
        if last.time > committed > max((row.time for row in found if row.run == last.run), default=0.0):
            found.append(msgspec.structs.replace(last, time=committed))
        found.append(last)
    return sorted(preceded(view.txn, view.db, since, found), key=attrgetter("time"))


def untold_since(row: SeriesRow, now: SeriesRow | Summary) -> Amounts:
    """Return the amount spent, and the attempts charged, since a row of totals.

    Each row is stored with the counts of queues, which begin anew then.
    """
    spent, fetched = (
        max(sum(getattr(now, total) - getattr(row, total) for total in FIGURES[figure]), 0)
        for figure in ("spent", "fetched")
    )
    return spent, fetched


def busiest(view: View, since: float, until: float) -> Busiest:
    """Return the queues that spent and fetched most in the hours, and days, that a time overlaps.

    The amounts since the last row, up to the last commit, may be any queue's.
    """
    run, now = _without_end(view), as_of_commit(view)
    until = until if until < inf else now.time
    times = [series_periods.hour_of(int(since)), series_periods.hour_of(int(until)) + 3600]
    parts: list[Busy] = []
    for resolution in (Resolution.BUSIEST_OF_DAY, Resolution.BUSIEST_OF_HOUR):
        seconds = series_periods.PERIODS[resolution]
        for key, value in rows_between(view.txn, view.db, resolution, since - seconds + 1, until):
            start = keys.series.unpack(key)[1]
            times += [start, start + seconds]
            parts.append(decode_busy(value))
    last = (run and last_of(view.txn, view.db, run.epoch)) or now  # a run that has ended has stored all
    untold, last_second = untold_since(last, now), series_periods.hour_of(int(now.time)) + 3600 - 1
    if since > last_second or until <= series_periods.hour_of(int(last.time)):
        untold = NOTHING
    busy, most = merged([*parts, Busy({}, others=untold)])
    return Busiest(
        since=min(times),
        until=min(max(times), max(until, now.time)),
        queues=[_busy_queue(view.queue_by_id(id_), *amounts, *most[id_]) for id_, amounts in busy.counts.items()],
        others_spent=busy.others[0],
        others_fetched=busy.others[1],
        as_of=0.0 if untold == NOTHING else last.time,
        untold_spent=untold[0],
        untold_fetched=untold[1],
        known=bool(parts) or next(_backwards(view.txn, view.db, until + 1), None) is not None,
    )


def _busy_queue(queue: QueueRecord, spent: int, fetched: int, spent_most: int, fetched_most: int) -> BusyQueue:
    """Return a queue with its counts, limited to the amounts of its whole life."""
    return BusyQueue(
        queue=queue.queue,
        spent=spent,
        spent_most=max(spent, min(spent_most, queue.expenditure)),
        fetched=fetched,
        fetched_most=max(fetched, min(fetched_most, queue.charges)),
    )


def check_row(key: bytes, value: bytes) -> None:
    """Raise Damage for a key or a value that cannot be read."""
    resolution, *_ = keys.series.unpack(key)
    if resolution in (Resolution.BUSIEST_OF_HOUR, Resolution.BUSIEST_OF_DAY):
        decode_busy(value)
    elif resolution in (Resolution.MINUTE, Resolution.HOUR, Resolution.DAY):
        row = decode_row(value)
        if not isfinite(row.time) or not isfinite(row.stopped):
            raise Damage("its time is not valid")
    else:
        raise Damage(f"there is no resolution {resolution}")
