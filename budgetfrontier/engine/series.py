"""The table `series`: a row of the totals each minute, thinned with age, and the busiest queues of each hour."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from budgetfrontier.core.model import Summary
from budgetfrontier.engine.busiest_queues import BusiestQueues
from budgetfrontier.rules import busiest, series_periods
from budgetfrontier.rules.series_periods import Resolution
from budgetfrontier.storage import keys
from budgetfrontier.storage import series as records
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.series_thinning import thinned

_AT_ONCE = 4
"""The most periods that are thinned with one row: after a long stop, the rows of weeks are due."""
_IDLE = series_periods.INTERVAL / 2
"""Seconds without a commit after which rows say that nothing has changed until the last commit interval."""


class Series:
    """The time series. It is written with a commit, at most once a minute: for each URI, only BusiestQueues counts.

    One row has 150 bytes, and the busiest queues of an hour 10.6 KB: of a year of crawling without a stop remain at the
    most 1,560 rows of a minute, 720 of an hour and 365 of a day (0.4 MB), and the busiest queues of 720 hours and of
    365 days (11.4 MB). Each stop or pause adds two rows: up to 23 stops an hour and, once they are 30 days old, a day.
    Each time of half a minute without a commit adds up to three rows of a minute, which are thinned like the others.
    """

    def __init__(
        self,
        env: Environment,
        totals: Callable[[], Summary],
        busiest_queues: BusiestQueues,
        run: int,
        now: float,
        *,
        unstored: records.SeriesRow | None,
        crawls: Callable[[], bool],
        halted: Callable[[], bool],
        commit_interval: Callable[[], float],
    ) -> None:
        self._env = env
        self._table = env.db[keys.SERIES]
        self._totals = totals
        self._run = run
        self._last = records.row_of(totals(), now, run=run, begins=True)
        """The last row of this run."""
        self._has_begun = False
        """Whether it has another row than that of its beginning."""
        self._hour = series_periods.hour_of(int(now))
        self._busiest = busiest_queues
        self._crawls, self._halted, self._commit_interval = crawls, halted, commit_interval
        self._was_halted = halted()
        """Whether the crawl was PAUSED or TERMINATED when a row was due last, or at the beginning of the run."""
        if unstored is not None:
            self._end_killed(unstored)
        self._put_row(self._last)
        self._restore()
        self.due = series_periods.next_row(now)
        """The time (epoch seconds) from which a commit writes a row, whatever has happened."""
        self.behind = False
        """Whether there was a commit since the last row."""
        self._committed = now
        """The time of the last commit of this run, or of its beginning."""

    def _restore(self) -> None:
        """Continue the counts of the current hour from an earlier run, in part, or all if the clock was set back."""
        value = self._env.txn.get(records.series_key(Resolution.BUSIEST_OF_HOUR, self._hour), db=self._table)
        if value is not None:
            self._busiest.start(records.decode_busy(value))

    def commit(self, now: float) -> None:
        """Write what a commit has to write now."""
        if self.is_due(now):
            self.record(now)
        else:
            self.behind = True
        self._committed = now

    def is_due(self, now: float) -> bool:
        """Return whether a commit writes a row now: once a minute, where a pause begins or ends, and after idling."""
        if now >= self.due or self._has_idled(now):
            return True
        if self._was_halted and not self._halted() and int(now) == int(self._last.time):
            self._was_halted = False  # a second has no room for another beginning; the pause was shorter
        return self._was_halted is not self._halted()

    def steered(self, now: float) -> None:
        """Write a row if a command has just begun or ended a pause: the commit that holds it may be later."""
        if self._was_halted is not self._halted() and self.is_due(now):
            self.record(now)

    def record(self, now: float, *, is_run: bool = False) -> None:
        """Write the row of the totals as they are now, and thin old rows. The commit is the caller's.

        A run that has changed nothing writes none, unless it is one of crawling that has waited for a minute or more,
        or is in the history of runs (`is_run`), or a pause begins or ends.
        """
        row, last = records.row_of(self._totals(), now, run=self._run), self._last
        self.due, self.behind = series_periods.next_row(now), False
        was_halted, self._was_halted = self._was_halted, self._halted()
        # The time of a pause, or of a command on a stopped crawl, is none of crawling.
        crawled = records.untold_since(last, row) != busiest.NOTHING or (self._crawls() and not was_halted)
        if not self._has_begun:
            waited = crawled and (now - last.time >= series_periods.INTERVAL or (is_run and now > last.time))
            if records.is_same(row, last) and not waited and was_halted is self._was_halted:
                return
            self._has_begun = True
        if crawled and self._has_idled(now) and not was_halted:
            self._put_idle(row)
        row.begins = not crawled and (last.begins or int(now) != int(last.time))  # else it would hide `last`
        self._put_row(row)
        self._last = row
        self._write_busiest(now)
        for resolution in series_periods.THINNED:
            self._thin(resolution, now)

    def _has_idled(self, now: float) -> bool:
        """Return whether nothing was committed for so long that nothing can have happened in most of that time."""
        return now - max(self._committed, self._last.time) >= max(_IDLE, 3 * self._commit_interval())

    def _put_idle(self, row: records.SeriesRow) -> None:
        """Write the totals before `row` at the begin and at the end of the time without a commit before it.

        Rates spread the change between two rows evenly. What came after the idle time came in the last commit interval.
        """
        last = self._last
        if self._committed > last.time:
            last = replace(records.as_of_commit(self._env.view()), time=self._committed, run=self._run)
            self._put_row(last)
        if not records.is_same(row, last):
            end = row.time - max(self._commit_interval(), 1.0)  # a second has room for one row
            self._put_row(replace(last, time=end, begins=False, stopped=0.0))

    def end(self, now: float, *, is_run: bool) -> None:
        """Write the last row of this run; one that has none but that of its beginning leaves none.

        `is_run` says whether it stays in the history of runs: then its time of crawling counts here, too.
        """
        self.record(now, is_run=is_run)
        if not self._has_begun:
            self._env.txn.delete(records.row_key(Resolution.MINUTE, self._last), db=self._table)

    def _end_killed(self, now: records.SeriesRow) -> None:
        """Store the last row of a killed run, and its charges since the one before with their hours.

        Which queues they are of is lost.
        """
        last = records.last_of(self._env.txn, self._env.db, now.run) or now
        missed = records.untold_since(last, now)
        self._put_row(now)
        if missed == busiest.NOTHING:
            return
        for hour in {series_periods.hour_of(int(time)) for time in (last.time, now.time)}:
            value = self._env.txn.get(records.series_key(Resolution.BUSIEST_OF_HOUR, hour), db=self._table)
            counts, low, others = records.decode_busy(value) if value is not None else busiest.Busy({})
            known = busiest.Busy(counts, busiest.plus(low, missed), busiest.plus(others, missed))
            self._put(Resolution.BUSIEST_OF_HOUR, hour, records.encode_busy(known))

    def _put_row(self, row: records.SeriesRow, resolution: Resolution = Resolution.MINUTE) -> None:
        self._env.txn.put(records.row_key(resolution, row), encode(row), db=self._table)

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
        """Replace the oldest rows of a resolution by those of a coarser one, if they are old enough."""
        for _ in range(_AT_ONCE):
            cursor = self._env.txn.cursor(self._table)
            if not cursor.set_range(records.series_key(resolution, 0)):
                return
            found, oldest, _ = keys.series.unpack(cursor.key())
            due = series_periods.coarser(resolution, oldest, now) if found == resolution else None
            if due is None:
                return
            to, start, end = due
            rows = list(records.rows_between(self._env.txn, self._env.db, resolution, start, end))
            values = [value for _, value in rows]
            if resolution is Resolution.BUSIEST_OF_HOUR:
                self._add_busiest(to, start, values)
            else:
                for row in thinned(map(records.decode_row, values)):
                    self._put_row(row, to)
            for key, _ in rows:
                self._env.txn.delete(key, db=self._table)

    def _add_busiest(self, resolution: Resolution, start: int, values: list[bytes]) -> None:
        """Write the sums of the busiest queues; a period to which the clock was set back has some already."""
        same = self._env.txn.get(records.series_key(resolution, start), db=self._table)
        parts = [*([] if same is None else [same]), *values]
        self._put(resolution, start, records.encode_busy(busiest.merged(map(records.decode_busy, parts))[0]))
