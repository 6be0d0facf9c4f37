"""The reasons why an EXHAUSTED queue holds no URI, and when it holds one again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from budgetfrontier.core.model import DeadLetter, QueueRecord
from budgetfrontier.core.units import counted, say_duration
from budgetfrontier.reports.audit_sentences import chosen
from budgetfrontier.reports.explanation import Explanation, Outlook
from budgetfrontier.reports.log_tables import REFUSED
from budgetfrontier.reports.queue_past import Deletion, QueuePast, told_by
from budgetfrontier.reports.url_past import UNLESS_ALLOWED
from budgetfrontier.settings.matching import queue_match
from budgetfrontier.storage import keys
from budgetfrontier.storage.records import dead_letter, decode_dead, decode_future
from budgetfrontier.storage.view import View

MOST_LETTERS = 100_000
"""The newest dead letters of the crawl that are looked at."""
MOST_LATER = 100_000
"""The soonest of the URIs scheduled for later in the crawl that are looked at."""


class _Letters(NamedTuple):
    """The dead letters of a queue: their number, the last of them, and whether all were refused for their address."""

    number: int
    last: DeadLetter
    are_refused: bool
    are_all: bool
    """Whether all dead letters were looked at."""


def explain_exhausted(
    explanation: Explanation,
    view: View,
    queue: QueueRecord,
    now: float,
    command: Callable[..., str | None],
    entry_name: Callable[[int], object],
) -> None:
    """Add why a queue holds no URI, and when it will. O(`MOST_LATER` + `MOST_LETTERS`) and `QueuePast.deletion`.

    `command` returns a command on the job, and `entry_name` the name of an audit entry.
    """
    later, due = _told_later(view, queue, now)
    place = len(explanation.reasons)
    outlook = Outlook.LATER if queue.future else Outlook.NEVER
    text = f"Queue {queue.queue} is EXHAUSTED: it holds no URI{later}. It comes back when one arrives."
    if explanation.kind == "queue":  # of a URL that waits it does not matter what became of others
        _explain_letters(explanation, view, queue, now, command)
        _explain_deletion(explanation, view, queue, command, entry_name)
        if any(one.command for one in explanation.reasons[place:]):
            outlook = Outlook.LATER if queue.future else Outlook.NOW
    explanation.add("exhausted", text, verdict=outlook, when=due)
    explanation.reasons.insert(place, explanation.reasons.pop())


def _told_later(view: View, queue: QueueRecord, now: float) -> tuple[str, float | None]:
    """Return how many URIs of a queue are scheduled for later, and when the first comes, or before when none does."""
    if not queue.future:
        return "", None
    text, due = f"; {counted(queue.future, 'is', 'are')} scheduled for later", None
    for key, value in islice(view.items(keys.FUTURE), MOST_LATER):
        due = keys.due.unpack(key)[0]
        if decode_future(value).queue == queue.id:
            url, left = view.future_uri(key, value).uri.url, due - now
            comes = f"in {say_duration(left)}" if left > 0 else "with the next lease: it is due"
            which = f"{url}, comes {comes}" if queue.future == 1 else f"the first of them, {url}, {comes}"
            return f"{text}, {which}", due
    none = "but not" if queue.future == 1 else "none of them"
    return f"{text}, {none} within {say_duration(max((due or now) - now, 0.0))}", due


def _letters(view: View, queue: QueueRecord) -> _Letters | None:
    """Return the dead letters of a queue among the newest of the crawl; None if there are none."""
    name, count, are_refused, last = queue.queue.encode(), 0, True, None
    for key, value in islice(view.newest_items(keys.DEAD), MOST_LETTERS):
        if name not in value or (row := decode_dead(value)).name != queue.queue:
            continue
        count += 1
        are_refused = are_refused and f"({REFUSED})" in row.reason
        last = last or dead_letter(keys.u64.unpack(key)[0], row)
    return None if last is None else _Letters(count, last, are_refused, view.size(keys.DEAD) <= MOST_LETTERS)


def _explain_letters(
    explanation: Explanation, view: View, queue: QueueRecord, now: float, command: Callable[..., str | None]
) -> None:
    letters = _letters(view, queue)
    if letters is None:
        return
    can_replay = not letters.are_refused or view.settings()[0].fetch.allow_private
    replay = command("dead-letters", "--replay", "--match", queue_match(queue.queue)) if can_replay else None
    number, last = letters.number, letters.last
    least = "" if letters.are_all else "At least "
    are = f"{least}{number:,} of its URIs {'is a dead letter' if number == 1 else 'are dead letters'}"
    if number == queue.enqueued and not queue.future:
        are = "Its only URI is a dead letter" if number == 1 else f"All its {number:,} URIs are dead letters"
    which, ago = "" if number == 1 else "the last, ", say_duration(max(now - last.time, 0.0))
    end = ". The command replays them" if replay and number > 1 else ". The command replays it" if replay else ""
    if not can_replay:
        end = f". A replay would end in the same way, {UNLESS_ALLOWED}: the host has a private address"
    explanation.add(
        "dead-letters",
        f"{are}; {which}{last.uri.url}, was given up {ago} ago: {last.reason}{end}.",
        verdict=Outlook.BLOCKED if replay and not queue.future else Outlook.NOW,
        command=replay,
    )


def _explain_deletion(
    explanation: Explanation,
    view: View,
    queue: QueueRecord,
    command: Callable[..., str | None],
    entry_name: Callable[[int], object],
) -> None:
    found = QueuePast(view, queue).deletion()
    if found is None:
        return
    what = "Its URIs were" if found.is_all else "Some of its URIs were"
    what = what if found.is_sure else f"Perhaps {what[0].lower()}{what[1:]}"
    add_deletion(explanation, found, what, command, entry_name, otherwise=Outlook.NOW, waits=queue.future > 0)


def add_deletion(
    explanation: Explanation,
    found: Deletion,
    what: str,
    command: Callable[..., str | None],
    entry_name: Callable[[int], object],
    *,
    otherwise: Outlook,
    waits: bool = False,
) -> None:
    """Add a deletion, with its undo if that is possible; `otherwise` is the outlook without it, or if more `waits`."""
    entry = found.entry
    force = ("--force",) if found.has_changed else ()
    undo = command("undo", str(entry_name(entry.id)), *force) if found.is_kept and entry.id else None
    by = f"entry {entry_name(entry.id)} of the audit" if entry.id else "a deletion"
    good = " for good" if entry.args.get("for_good") else ""
    end = ", which the command undoes" if undo else ""
    if found.discarded is not None:
        last = found.discarded
        end = f"; entry {entry_name(last.id)} of the audit{told_by(last)} discarded what it had kept for undo"
    explanation.add(
        "deleted",
        f"{what} deleted{good} by {by}{told_by(entry)}: {chosen(entry.args) or 'all'}{end}.",
        verdict=Outlook.BLOCKED if undo and not waits else otherwise,
        command=undo,
    )
