"""Heritrix's crawl report: how a crawl stands or ended, how long it ran, and its fetches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.model import Run, Summary
from budgetfrontier.core.vocabulary import NOFOLLOW, NOINDEX, NOT_STORED
from budgetfrontier.reports.log_tables import FORBIDDEN
from budgetfrontier.reports.spill import Sorter
from budgetfrontier.rules.run_history import may_crawl

if TYPE_CHECKING:
    from budgetfrontier.reports.crawl_log import CrawlLogLine

_NOT_MODIFIED = 304
_SAID = frozenset({NOINDEX, NOFOLLOW, NOT_STORED})
_DIGEST = slice(5, 21)  # 80 bits of "sha1:..."


def crawl_summary(
    crawl: str,
    totals: Summary,
    runs: list[Run],
    entries: Iterable[CrawlLogLine] | None,
    *,
    told: dict[str, int | None],
    alive: bool,
    now: float,
    since: float | None = None,
) -> dict[str, Any]:
    """Return the figures by name; `alive`: a process has the frontier open.

    With `since` (epoch seconds), those of the log count from then on. Without a log, they are None except those in
    `told`, which came with the ends of fetches.

    Commands that were killed ran for no time of crawling. If there were more runs than are kept, the time of all of
    them is not known, and rates only from a time on of which all runs are kept.

    A body counts as distinct at the first appearance of its digest, later as repeated. One pass over the log,
    in bounded memory.
    """
    last = runs[-1] if runs else None
    times = [
        (run.began, run.ended or (now if run.end is None else run.began))
        for run in runs
        if run.leased or may_crawl(run.program)
    ]
    has_first = not runs or runs[0].number == 1
    seconds = sum(end - began for began, end in times) if has_first else None
    status = str(totals.state) if totals.pause_reason is None else f"{totals.state} ({totals.pause_reason})"
    figures: dict[str, Any] = {
        "crawl": crawl,
        "status": status,
        "alive": alive,
        "last_stop": str(last.end) if last and last.end else None,
        "last_stop_reason": last.reason if last and last.end else None,
        "runs": last.number if last else 0,
        "began": runs[0].began if runs and has_first else None,
        "ended": last.ended if last else None,
        "duration": seconds,
        "discovered": totals.scheduled,
        "queued": totals.queued,
        "future": totals.future,
        "succeeded": totals.succeeded,
        "failed": totals.failed,
        "disregarded": totals.disregarded,
        "dead": totals.dead,
        "queues": sum(totals.queues.values()),
        "expenditure": totals.expenditure,
    }
    fetched = dict.fromkeys(FETCHED) | told if entries is None else _fetched(entries)
    is_known = has_first or (since is not None and since >= runs[0].began)
    elapsed = sum(max(end - max(began, since or 0.0), 0.0) for began, end in times) if is_known else 0.0
    for name, amount in (("fetches_per_second", fetched["fetches"]), ("bytes_per_second", fetched["bytes"])):
        fetched[name] = round(amount / elapsed, 3) if amount is not None and elapsed > 0 else None
    return figures | fetched


FETCHED = (
    "fetches", "failed_attempts", "robots_denials", "bytes", "distinct_bodies", "distinct_bytes", "repeated_bodies",
    "repeated_bytes", "not_modified", "noindex", "not_stored", "nofollow", "fetches_per_second", "bytes_per_second",
)  # fmt: skip
"""The figures that come from the log."""

TOLD = ("bytes", "robots_denials")
"""Figures of the log that the totals have, too, from the ends of fetches."""


def _fetched(entries: Iterable[CrawlLogLine]) -> dict[str, Any]:
    fetches = failures = denials = size = not_modified = 0
    said = Counter[str]()
    digests = Sorter()
    for place, entry in enumerate(entries):
        if entry.status <= 0:
            denials += entry.status == FORBIDDEN
            failures += entry.status != FORBIDDEN
            continue
        fetches += 1
        size += entry.size
        not_modified += entry.status == _NOT_MODIFIED
        if entry.notes != b"-":
            said.update(_SAID.intersection(entry.notes.decode("ascii", "replace").split(",")))
        if entry.digest != b"-":
            digests.add((entry.digest[_DIGEST], place, entry.size))
    distinct = [0, 0]
    repeated = [0, 0]
    before = b""
    for digest, _, length in digests:
        into = repeated if digest == before else distinct
        into[0] += 1
        into[1] += length
        before = digest
    return dict.fromkeys(FETCHED) | {
        "fetches": fetches,
        "failed_attempts": failures,
        "robots_denials": denials,
        "bytes": size,
        "distinct_bodies": distinct[0],
        "distinct_bytes": distinct[1],
        "repeated_bodies": repeated[0],
        "repeated_bytes": repeated[1],
        "not_modified": not_modified,
        "noindex": said[NOINDEX],
        "not_stored": said[NOT_STORED],
        "nofollow": said[NOFOLLOW],
    }
