"""Whether the crawl.log of a frontier has all of a time: a log that was moved, or left out of a backup, has not."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from budgetfrontier.rules.rates import FIGURES
from budgetfrontier.storage import series

if TYPE_CHECKING:
    from budgetfrontier.core.model import Run, Summary
    from budgetfrontier.storage.series import SeriesRow
    from budgetfrontier.storage.view import View

_DAY = 86_400.0


def lacks_beginning(view: View, runs: Iterable[Run], first_line: str, since: float | None, now: float) -> bool:
    """Return whether attempts were charged from `since` on, None for the whole crawl, and before the log begins.

    `first_line` is the time of its first line, "" if it has none.
    """
    if not first_line:
        return _attempts(view.summary()) > _attempts_before(view, since)
    begins = datetime.fromisoformat(first_line).timestamp()
    if since is not None and since >= begins:
        return False
    if _attempts_before(view, begins) > _attempts_before(view, since):
        return True
    # The totals of single minutes are kept for a day: older times are known from runs.
    return begins < now - _DAY and any(
        run.leased and run.ended is not None and (since or 0.0) <= run.began and run.ended < begins for run in runs
    )


def _attempts_before(view: View, time: float | None) -> int:
    if time is None:
        return 0
    rows = series.preceded(view.txn, view.db, time, list(series.totals(view.txn, view.db, time, time + 1)))
    return max((_attempts(row) for row in rows if row.time < time), default=0)


def _attempts(totals: Summary | SeriesRow) -> int:
    return sum(int(getattr(totals, name)) for name in FIGURES["fetched"])
