"""The rule for how long a spider stays open on a shared frontier."""

from __future__ import annotations

from enum import Enum


class Stay(Enum):
    """The choices of a spider without work of its own."""

    WAIT = "wait"
    DONE = "done"
    """Nothing waits, is due later or is leased by any process: the crawl is complete."""
    IDLE = "idle"
    """Others have work, and this process has had none for as long as it may wait."""
    AWAY = "away"
    """The same, and the server does not answer."""


def stay(*, at_hand: bool, left: int | None, since: float, limit: float, away: bool) -> Stay:
    """Return what to do `since` seconds after the last request that this process got.

    `at_hand`: whether it has requests, or something to tell the server. `left` is the number of requests that wait in
    the shared frontier, are due later or leased, None if that is not known after all that this process has told it.
    `limit` is BUDGETFRONTIER_IDLE_BEFORE_CLOSE.
    """
    if left == 0 and not at_hand:
        return Stay.DONE
    if away:
        return Stay.AWAY if since >= limit else Stay.WAIT
    if at_hand or left is None or since < limit:
        return Stay.WAIT
    return Stay.IDLE
