"""The answers to the attempts of a queue: classes of status, kinds of error, repeated content. Pure rules."""

from __future__ import annotations

from math import log

from budgetfrontier.core.model import Outcome, QueueAnswers
from budgetfrontier.rules.error_kinds import error_kind, status_kind, status_of
from budgetfrontier.rules.uri_outcomes import ERROR

NONE, UNKNOWN = 4, -1
"""The classes of attempts beside 2xx to 5xx: without an answer, and of unknown status."""
MOST_KINDS = 12
"""The most kinds of error that a queue's row names; further ones are counted as OTHER."""
OTHER = "other"
REDIRECTION = 300
"""The status from which on contents do not count: those of redirections and errors are often the same."""
WINDOW = 64
"""Digests after which those before count no more, and bits in which they are marked."""


def answer_class(outcome: Outcome, status: int, kind: str = "") -> int:
    """Return the class of an attempt that was charged: 0 to 3 for a status of 200 to 599, NONE or UNKNOWN.

    Without a status, a `kind` of error that is one counts, as that of a robots.txt.
    """
    status = status if status > 0 else status_of(kind)
    if 200 <= status < 600:
        return status // 100 - 2
    return UNKNOWN if outcome is Outcome.SUCCESS and status == 0 else NONE


def kind_of(outcome: Outcome, status: int, reason: str) -> str:
    """Return the kind of error of an attempt that was charged; "" if it was none."""
    if status >= ERROR:
        return status_kind(status)
    return "" if outcome is Outcome.SUCCESS else error_kind(reason)


def add(row: QueueAnswers, kind: str) -> None:
    """Count an error by its kind."""
    if kind not in row.kinds and len(row.kinds) >= MOST_KINDS:
        kind = OTHER
    row.kinds[kind] = row.kinds.get(kind, 0) + 1


def mark(row: QueueAnswers, digest: int) -> None:
    """Mark the hash of a digest. After WINDOW of them, the next begins a new window."""
    if row.digests >= WINDOW:
        row.repeated_before = round(100 * _share(row))
        row.bitmap = row.digests = 0
    row.bitmap |= 1 << digest % WINDOW
    row.digests += 1


def repeated(row: QueueAnswers) -> float | None:
    """Return which share of the contents was the same as another one, as linear counting estimates it.

    It is that of the last digests, 64 at the most: those of the current window, once they are half of them, or of the
    window before. None before the first.
    """
    if row.repeated_before is not None and row.digests < WINDOW // 2:
        return row.repeated_before / 100
    return _share(row) if row.digests else None


def _share(row: QueueAnswers) -> float:
    unmarked = WINDOW - row.bitmap.bit_count()
    distinct = WINDOW * log(WINDOW / unmarked) if unmarked else WINDOW
    return min(max(1 - distinct / row.digests, 0.0), 1.0)


def is_known(row: QueueAnswers) -> bool:
    """Return whether the share of repeated contents is of enough contents to mean anything."""
    return row.repeated_before is not None or row.digests >= WINDOW // 2


def objection(row: QueueAnswers) -> str | None:
    """Return why a row is invalid; None if it is valid."""
    if len(row.classes) != NONE + 1 or min(*row.classes, *row.kinds.values(), row.added, row.digests) < 0:
        return "it has other counts than those of five classes, or negative ones"
    if len(row.kinds) > MOST_KINDS + 1:
        return "it has more kinds of error than are told apart"
    if not row.bitmap.bit_count() <= row.digests <= WINDOW or row.bitmap >> WINDOW:
        return "its digests are more than were marked"
    return None
