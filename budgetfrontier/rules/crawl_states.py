"""The states of the crawl: which it has next, and when nothing is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from budgetfrontier.core.model import CrawlState, Summary
from budgetfrontier.core.units import counted, format_time

FINISH = "finish"
"""The reason of a pause caused by `pause_at_finish`."""
LIMIT = "limit"
"""The reason for which a crawl in partitions is PAUSED while one of its totals is used up."""
SCOPE = "scope"
"""The reason of the pause of a crawl after its scope changed so that many waiting URIs would be disregarded."""
MORE_TO_CRAWL = "there is more to crawl"
"""The reason with which a program resumes a crawl that has paused at its finish: see `goes_on_after_finish`."""
POLICY = "policy: "
"""The beginning of the reason of a crawl's pause after one of its policies failed."""
DISK = "disk: "
"""The beginning of the reason of a crawl's pause by `guards.min_free`."""

HALTED = frozenset((CrawlState.PAUSED, CrawlState.TERMINATED))
"""The states whose time is none of crawling."""

NOTHING_MORE = "the crawl was terminated, for good: nothing more is fetched, whatever this changes"


def is_empty(*, queued: int, leases: int, future: int, future_retired: int) -> bool:
    """Return whether nothing is queued, out, or scheduled for later, except for RETIRED and INELIGIBLE queues."""
    return not queued and not leases and future <= future_retired


def is_over(state: CrawlState, reason: str | None) -> bool:
    """Return whether a crawl has come to its end: FINISHED, or paused there."""
    return state is CrawlState.FINISHED or (state is CrawlState.PAUSED and reason == FINISH)


def next_crawl_state(
    state: CrawlState, *, scheduled: int, leases: int, empty: bool, busy: bool, pause_at_finish: bool
) -> CrawlState:
    """Return the next state of the crawl. RUNNING becomes PAUSED for `FINISH` alone.

    `scheduled`: URIs ever admitted. `busy`: a command is in progress, and the crawl is not over before it is.
    """
    if state is CrawlState.NEW and (scheduled or not empty):
        state = CrawlState.RUNNING
    if state is CrawlState.RUNNING and empty and not busy:
        return CrawlState.PAUSED if pause_at_finish else CrawlState.FINISHED
    if state is CrawlState.PAUSING and not leases:
        return CrawlState.PAUSED
    if state is CrawlState.FINISHED and not empty:
        return CrawlState.RUNNING
    return state


def settled(shown: dict[str, Any], state: CrawlState) -> dict[str, Any]:
    """Return the state and the pause reason of a RUNNING crawl, as commands show them, once its state is another one.

    A crawl that is resumed with nothing left is over at once.
    """
    if state is shown["state"]:
        return shown
    return {"state": state, "pause_reason": FINISH if state is CrawlState.PAUSED else None}


def end_sentence(totals: Summary, held_back: int, later: int, *, until: float | None = None) -> str:
    """Return in words that a command which holds back so many URIs leaves nothing to crawl; "" if it does not.

    `held_back` are pending, and in no RETIRED or INELIGIBLE queue; `later` are scheduled for later. They are held back
    `until` a time, None: for good. A crawl that was terminated crawls nothing whatever a command does.
    """
    if totals.state is CrawlState.TERMINATED:
        return NOTHING_MORE
    over = totals.state is CrawlState.FINISHED or totals.pause_reason == FINISH
    if over or not held_back + later or held_back < totals.queued or later < totals.future:
        return ""
    if until is not None:
        return f"nothing is left to lease until {format_time(until)}, unless new URIs come"
    out = f" once {counted(totals.in_process, 'URI')} being fetched {{}} finished" if totals.in_process else ""
    out = out.format("is" if totals.in_process == 1 else "are")
    return f"no other queue has a URI to hand out: the crawl ends{out or ' then'}, unless new URIs come"


def after_pause(state: CrawlState, leases: int) -> CrawlState:
    """Return the state of a crawl that is paused with so many leases out."""
    if state in (CrawlState.PAUSED, CrawlState.PAUSING, CrawlState.TERMINATED):
        return state
    return CrawlState.PAUSING if leases else CrawlState.PAUSED


def reason_after_pause(state: CrawlState, reason: str | None, given: str) -> str | None:
    """Return why a crawl is paused after `pause` with a given reason; `state` and `reason` are those before it.

    The first reason stays, unless it is one with which the next run of the crawl may go on by itself.
    """
    if state is CrawlState.TERMINATED:
        return reason
    if not reason or reason in (FINISH, SCOPE) or reason.startswith((POLICY, DISK)):
        return given
    return reason


def is_paused_for_disk(state: CrawlState, reason: str | None) -> bool:
    """Return whether a crawl is paused because a disk is nearly full: then it resumes by itself."""
    return state in (CrawlState.PAUSED, CrawlState.PAUSING) and (reason or "").startswith(DISK)


def disk_sentence(effect: Mapping[str, Any]) -> str:
    """Return that the guard pauses a crawl again which a command with this effect has let go on; "" if it was not it.

    >>> paused = {"state": CrawlState.PAUSED, "pause_reason": "disk: 1 B free in /a"}
    >>> disk_sentence({"before": paused, "after": {"state": CrawlState.RUNNING, "pause_reason": None}})[:48]
    'it was paused because of its disk: while less th'
    >>> disk_sentence({"before": paused, "after": paused})
    ''
    """
    before, after = (effect.get(when) or {} for when in ("before", "after"))
    paused = [is_paused_for_disk(one["state"], one["pause_reason"]) for one in (before, after) if "pause_reason" in one]
    if paused != [True, False]:
        return ""
    return (
        "it was paused because of its disk: while less than guards.min_free is free, the guard pauses it again at its "
        "next look, in ten seconds at most"
    )


def step_for_disk(state: CrawlState, reason: str | None, free: int, *, min_free: int, resume_at: int) -> str:
    """Return the command that so many free bytes call for, "pause" or "resume"; "" if none. Other pauses stay."""
    if is_paused_for_disk(state, reason):
        return "resume" if free >= resume_at else ""
    return "pause" if state is CrawlState.RUNNING and free < min_free else ""


def goes_on_after_finish(total: Summary) -> bool:
    """Return whether a program that works on a crawl resumes it: it has paused at its finish, and has more to crawl.

    A pause by an operator takes the place of `FINISH` (`reason_after_pause`), and is kept.
    """
    return total.state is CrawlState.PAUSED and total.pause_reason == FINISH and total.queued + total.future > 0


def after_resume(state: CrawlState, scheduled: int) -> CrawlState:
    """Return the state of a crawl after `resume`; a terminated crawl stays so."""
    if state not in (CrawlState.PAUSED, CrawlState.PAUSING):
        return state
    return CrawlState.RUNNING if scheduled else CrawlState.NEW


def after_terminate(state: CrawlState) -> CrawlState:
    """Return the state of a crawl after `terminate`, whatever its state was."""
    return CrawlState.TERMINATED
