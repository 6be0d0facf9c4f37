"""The history of runs: how a run ended, which runs are kept, and which of them was the last to stop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec.structs import replace

from budgetfrontier.core.model import Run, RunEnd, RunRow
from budgetfrontier.errors import MORE_FILES, NO_FILES, NO_ROOM, ScopeChanged, StorageFull

MOST_RUNS = 1000
"""The runs that are kept, the latest."""
LONGEST_REASON = 500  # characters
_LONGEST_WORD = 50  # characters of a last word that is left out whole


_Ended = TypeVar("_Ended", Run, RunRow)

CRAWL = "budgetfrontier crawl"
"""The program of a crawl."""
SERVE = "budgetfrontier serve"
"""The program of a server; other programs of this name with a space are commands, which hand nothing out."""
WORKER = "budgetfrontier worker"
"""The program of a worker, which has partitions of a crawl."""
BUS_WORKER = "budgetfrontier bus-worker"
"""The program of a database worker, which hands URIs out to spiders over a message bus."""
SHARED_ANEW = "the workers shared the partitions anew"
"""The reason of the end of a run of a partition that goes on with its next owner."""
_LIMITS = "closespider_"  # with which the reasons of Scrapy's extension CloseSpider begin


def may_crawl(program: str) -> bool:
    """Return whether a program hands out URIs, by its name: commands do not, nor does a program without a name.

    >>> may_crawl(CRAWL), may_crawl(BUS_WORKER), may_crawl("spider.py"), may_crawl("budgetfrontier import")
    (True, True, True, False)
    """
    ours = CRAWL.split(maxsplit=1)[0]
    return bool(program) and (program in (CRAWL, SERVE, WORKER, BUS_WORKER) or not program.startswith(f"{ours} "))


def keeps_leases(program: str) -> bool:
    """Return whether leases outlive a process of a program, by its name: others work for it, and finish them later.

    The next start of any other program takes them back.

    >>> keeps_leases(SERVE), keeps_leases(CRAWL), keeps_leases("spider.py")
    (True, False, False)
    """
    return program in (SERVE, WORKER, BUS_WORKER)


def was_refused(program: str, end: RunEnd | None) -> bool:
    """Return whether a run was a refused command, which has changed nothing in the crawl.

    >>> was_refused("budgetfrontier undo", RunEnd.ERROR), was_refused("budgetfrontier crawl", RunEnd.ERROR)
    (True, False)
    """
    return end is RunEnd.ERROR and not may_crawl(program)


def end_of_spider(reason: str) -> RunEnd:
    """Return the end of a run for Scrapy's reason for closing the spider.

    >>> print(end_of_spider("finished"), end_of_spider("shutdown"), end_of_spider("closespider_timeout"))
    EXIT SIGNAL LIMIT
    """
    ends = {"shutdown": RunEnd.SIGNAL, "policy_error": RunEnd.ERROR, "frontier_error": RunEnd.ERROR}
    return RunEnd.LIMIT if reason.startswith(_LIMITS) else ends.get(reason, RunEnd.EXIT)


def end_of(error: BaseException | None) -> tuple[RunEnd | None, str]:
    """Return how a run closed because of an error ends, and the reason; None without a reason to record."""
    if error is None:
        return None, ""
    if isinstance(error, StorageFull) or (isinstance(error, OSError) and error.errno in NO_ROOM):
        return RunEnd.DISK_FULL, shortened(str(error))
    if isinstance(error, ScopeChanged):
        return RunEnd.EXIT, "the scope had changed"
    if isinstance(error, KeyboardInterrupt):
        return RunEnd.SIGNAL, "Ctrl-C"
    if isinstance(error, SystemExit | GeneratorExit):
        return None, ""
    from asyncio import CancelledError  # takes 35 ms, and the engine imports this module

    if isinstance(error, CancelledError):
        return RunEnd.EXIT, "cancelled"
    remedy = f"; {MORE_FILES}" if isinstance(error, OSError) and error.errno in NO_FILES else ""
    return RunEnd.ERROR, shortened(f"{type(error).__name__}: {error}{remedy}")


def steered_by(what: str, who: str, reason: str) -> str:
    """Return the effect of a command on the crawl, with its author and reason.

    >>> steered_by("terminated", "alice", "done"), steered_by("paused", "bob", "")
    ('terminated by alice (done)', 'paused by bob')
    """
    return f"{what} by {who}" + (f" ({reason})" if reason else "")


def shortened(reason: str) -> str:
    """Return a reason in the length that is stored, cut between two words."""
    if len(reason) <= LONGEST_REASON:
        return reason
    cut = reason[: LONGEST_REASON - 1]
    words, blank, last = cut.rpartition(" ")
    return (words if blank and len(last) < _LONGEST_WORD else cut) + "…"


def ended(
    row: RunRow,
    end: RunEnd | None,
    reason: str,
    *,
    leased: int,
    now: float,
    asked: bool = False,
    terminated: str = "",
) -> RunRow | None:
    """Return the row of a run that is closed; None if none is kept.

    A run leaves no row if nobody has `asked` it for URIs and its program does not say how it ended: most are commands
    on a stopped crawl, which the audit lists. A server or a worker, for which others ask, must have handed some out.
    `terminated` is who terminated the crawl, if anybody: the reason of the end.
    """
    if end is None and not leased and (not asked or keeps_leases(row.program)):
        return None
    if terminated and end in (None, RunEnd.EXIT):
        end, reason = RunEnd.OPERATOR, terminated
    return replace(row, ended=now, end=end or RunEnd.EXIT, reason=shortened(reason), leased=leased)


def taken_over(row: RunRow, note: RunRow | None, *, last_commit: float, copied: str = "") -> RunRow:
    """Return the row of a run after its process is gone, with its end if `row` has none.

    `note` is the row that it wrote when it could not commit. Without one it was killed, after its last commit; or the
    frontier was copied while it was open, as a backup does: `copied` says how.
    """
    if row.end is not None:
        return row
    if note is not None and (note.began, note.pid) == (row.began, row.pid):
        return note
    end = RunEnd.EXIT if copied else RunEnd.KILLED
    return replace(row, ended=max(row.began, last_commit), end=end, reason=copied, leased=None)


def is_outdated(number: int, *, latest: int) -> bool:
    """Return whether a run is too old to be kept, once there is a run of the number `latest`."""
    return number <= latest - MOST_RUNS


def last_stop(newest_first: Iterable[_Ended]) -> _Ended | None:
    """Return the run that ended last, of those that may have crawled if there are any; None if none has ended.

    The end of a killed or interrupted command says nothing about why a crawl stopped.
    """
    command = None
    for run in newest_first:
        if run.end is not None:
            if may_crawl(run.program):
                return run
            command = command or run
    return command
