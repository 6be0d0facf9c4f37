"""The history of the totals of a job, with its curves and forecasts, for all pages and `top`."""

from __future__ import annotations

import threading
import time

from budgetfrontier.core.model import Summary
from budgetfrontier.reports import over_time
from budgetfrontier.reports.over_time import Curves, curves_of
from budgetfrontier.rules.forecasts import Forecast, Held, Limit
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.series import SeriesRow

_FRESH = 10.0  # seconds for which a reading is good


class OverTimeOfJob:
    """The totals of a job over time, and the rest to its limits; read again after ten seconds."""

    def __init__(self) -> None:
        self._rows: list[SeriesRow] = []
        self._curves: dict[str, Curves] = {}
        self._limits: dict[str, Limit] = {}
        self._read = 0.0
        self._reading = threading.Lock()

    def rows(self, reader: Reader) -> tuple[list[SeriesRow], float]:
        """Return the rows of the longest time and the one before it, and when they were read. O(2,200 rows)."""
        with self._reading:
            now = time.time()
            if not 0 <= now - self._read < _FRESH:
                with reader.view() as view:
                    rows = over_time.read(view, now - over_time.earliest(over_time.LONGEST), now)
                    self._limits = over_time.limits_left(view, reader.path, now)
                self._rows, self._curves, self._read = rows, {}, now
            return self._rows, self._read

    def curves(self, reader: Reader, span: str = "") -> Curves:
        """Return the curves of a span, or of the one that fits."""
        rows, now = self.rows(reader)
        with self._reading:
            if span not in self._curves:
                self._curves[span] = curves_of(rows, now, span)
            return self._curves[span]

    def forecasts(self, reader: Reader, totals: Summary, holds: Held | None) -> list[Forecast]:
        """Return when each bound would end the crawl; `holds` are the holdings of the queues, as of the last scan."""
        rows, now = self.rows(reader)
        return over_time.forecast_rows(over_time.between(rows), totals, holds, self._limits, now=now)
