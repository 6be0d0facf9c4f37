"""The table `series`: a row of the totals each minute, thinned with age, and the busiest queues of each hour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

import msgspec

from budgetfrontier.core.model import Summary
from budgetfrontier.engine.busiest_queues import BusiestQueues
from budgetfrontier.rules import busiest, rates, series_periods
from budgetfrontier.rules.series_periods import Resolution
from budgetfrontier.storage import keys
from budgetfrontier.storage import series as records
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment

_AT_ONCE = 4
"""The most periods that are thinned with one row: after a long stop, the rows of weeks are due."""


class Series:
    """The time series. It is written with a commit, at most once a minute: for each URI, only BusiestQueues counts.

    One row has 150 bytes, and the busiest queues of an hour 10.6 KB: of a year of crawling remain at the most 1,440
    rows of a minute, 720 of an hour and 365 of a day (0.4 MB), and the busiest queues of 720 hours and of 365 days
    (11.4 MB).
    """

    def __init__(
        self,
        env: Environment,
        totals: Callable[[], Summary],
        busiest_queues: BusiestQueues,
        run: int,
        now: float,
        *,
        unstored: Sequence[records.SeriesRow],
        crawls: Callable[[], bool],
    ) -> None:
        self._env = env
        self._table = env.db[keys.SERIES]
        self._totals = totals
        self._run = run
        self._first: records.SeriesRow | None = records.row_of(totals(), now, run=run, begins=True)
        """The row of the beginning of this run, which is written before the first other one."""
        self._hour = series_periods.hour_of(int(now))
        self._busiest = busiest_queues
        self._crawls = crawls
        self._preceding = self._latest = now
        """The times of the last two rows of this run; one of the same second replaces the last."""
        if unstored:
            self._end_killed(unstored)
        self._restore()
        self.due = series_periods.next_row(now)
        """The time (epoch seconds) from which a commit writes a row."""
        self.behind = False
        """Whether there was a commit since the last row."""

    def _restore(self) -> None:
        """Continue the counts of the current hour from an earlier run, in part, or all if the clock was set back."""
        value = self._env.txn.get(records.series_key(Resolution.BUSIEST_OF_HOUR, self._hour), db=self._table)
        if value is not None:
            self._busiest.start(records.decode_busy(value))

    def record(self, now: float) -> None:
        """Write the row of the totals as they are now, and thin old rows. The commit is the caller's.

        A run that has changed nothing writes none.
        """
        row, first = records.row_of(self._totals(), now, run=self._run), self._first
        self.due, self.behind = series_periods.next_row(now), False
        if first is not None:
            if msgspec.structs.replace(row, time=first.time, begins=True) == first:
                return
            self._put_row(first)
            self._first = None
        if int(now) > int(self._latest):
            self._preceding, self._latest = self._latest, now
        if not self._crawls():  # the time of a command on a stopped crawl is none of crawling
            row.stopped = ceil(now - self._preceding)
        self._put_row(row)
        self._write_busiest(now)
        for resolution in series_periods.THINNED:
            self._thin(resolution, now)

    def _end_killed(self, unstored: Sequence[records.SeriesRow]) -> None:
        """Store the last rows of a killed run, and its charges since the one before with their hours.

        Which queues they are of is lost.
        """
        now = unstored[-1]
        last = records.newest(self._env.txn, self._env.db, now.time)
        missed = records.untold_since(last, now)
        for row in unstored:
            self._put_row(row)
        if missed == busiest.NOTHING:
            return
        for hour in {series_periods.hour_of(int(time)) for time in (last.time or now.time, now.time)}:
            value = self._env.txn.get(records.series_key(Resolution.BUSIEST_OF_HOUR, hour), db=self._table)
            counts, low, others = records.decode_busy(value) if value is not None else busiest.Busy({})
            known = busiest.Busy(counts, busiest.plus(low, missed), busiest.plus(others, missed))
            self._put(Resolution.BUSIEST_OF_HOUR, hour, records.encode_busy(known))

    def _put_row(self, row: records.SeriesRow) -> None:
        """Write a row under its second; changes within the second of a beginning are written under the next one.

        A run that begins in a second that has a row goes on from there. So runs write two rows a second at the most,
        however often a frontier is opened.
        """
        key, following = (records.series_key(Resolution.MINUTE, row.time + later) for later in (0, 1))
        value = self._env.txn.get(key, db=self._table)
        if value is not None and row.begins:
            return
        if value is not None and records.decode_row(value).begins:
            key = following
            value = self._env.txn.get(key, db=self._table)
        if value is not None:
            replaced = records.decode_row(value)
            if replaced.run != row.run:  # the time since the row before is its: a command leaves a crawl its seconds
                row.stopped = replaced.stopped
        self._env.txn.put(key, encode(row), db=self._table)

    def _put(self, resolution: Resolution, time: float, value: bytes) -> None:
        self._env.txn.put(records.series_key(resolution, time), value, db=self._table)

    def _write_busiest(self, now: float) -> None:
        """Write the busiest queues of the current hour so far; if it is over, the next one begins."""
        counted = self._busiest
        top = counted.top()
        if top.counts or top.others != busiest.NOTHING:
            self._put(Resolution.BUSIEST_OF_HOUR, self._hour, records.encode_busy(top))
        hour = series_periods.hour_of(int(now))
        if hour != self._hour:
            self._hour = hour
            counted.start()
            self._restore()

    def _thin(self, resolution: Resolution, now: float) -> None:
        """Replace the oldest rows of a resolution by one of a coarser one, if they are old enough."""
        for _ in range(_AT_ONCE):
            cursor = self._env.txn.cursor(self._table)
            if not cursor.set_range(records.series_key(resolution, 0)):
                return
            found, oldest = keys.series.unpack(cursor.key())
            due = series_periods.coarser(resolution, oldest, now) if found == resolution else None
            if due is None:
                return
            to, start, end = due
            rows = list(records.rows_between(self._env.txn, self._env.db, resolution, start, end))
            # If the clock was set back so far, the period has a row already, which goes into the new one.
            same = self._env.txn.get(records.series_key(to, start), db=self._table)
            values = [*([] if same is None else [same]), *(value for _, value in rows)]
            self._put(to, start, self._thinned(resolution, start, values))
            for key, _ in rows:
                self._env.txn.delete(key, db=self._table)

    def _thinned(self, resolution: Resolution, start: int, values: list[bytes]) -> bytes:
        """Return the row that stands for several: the last totals, or the sums of the busiest queues."""
        if resolution is not Resolution.BUSIEST_OF_HOUR:
            rows = list(map(records.decode_row, values))
            last = max(reversed(rows), key=rates.progress)  # not by time: clocks are set back
            stopped = rates.stopped(rows, self._before(resolution, start))
            return encode(msgspec.structs.replace(last, begins=False, stopped=stopped))
        return records.encode_busy(busiest.merged(map(records.decode_busy, values))[0])

    def _before(self, resolution: Resolution, start: int) -> records.SeriesRow | None:
        """Return the last row of totals before the oldest of a resolution, which is one of a coarser resolution."""
        coarser = (Resolution.HOUR, Resolution.DAY)[resolution is Resolution.HOUR :]
        found = (records.totals_before(self._env.txn, self._env.db, each, start) for each in coarser)
        return max((row for row in found if row), key=lambda row: row.time, default=None)
