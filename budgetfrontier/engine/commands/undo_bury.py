"""The undoing of `bury`: the dead letters that it has added are removed, in steps.

They are kept first, as in a deletion, so that this undo can be undone. One pass over the
dead letters checks that all are still there, and one removes them, with their fingerprints and, in a frontier that
keeps its URLs, with their rows: the URLs are unknown again. `Progress.at` is the pass, the next letter's number, and
how many there were.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from budgetfrontier.core.units import counted
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.commands.deletion import look_after
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.undoing import NOTHING
from budgetfrontier.storage import keys
from budgetfrontier.storage.records import AuditEntry, DeadRow, Progress, UrlRow, decode_dead
from budgetfrontier.storage.removed import Look
from budgetfrontier.storage.uri_values import decode_uri
from budgetfrontier.storage.view import View

CHECKING, TAKING = range(2)

Numbers = list[list[int]]
"""The numbers of buried dead letters: the first and the last of each consecutive range."""

Records = dict[bytes, Look | None]

_CHECKED = 20  # letters that are looked for in the time in which one is taken out, or less


def note_numbers(effect: dict[str, Any], first: int, last: int) -> None:
    """Note in the effect of `bury` which numbers a step has given out."""
    if first > last:
        return
    numbers = effect.setdefault("letters", [])
    if numbers and numbers[-1][1] + 1 == first:
        numbers[-1][1] = last
    else:
        numbers.append([first, last])


def start() -> Progress:
    """Return the progress of an undo that begins."""
    return Progress([CHECKING, 0, 0], {"command": "bury", "dropped": 0})


def step(kernel: Kernel, admitter: Admitter, entry: AuditEntry, progress: Progress, limit: int, *, force: bool) -> bool:
    """Look for the next dead letters that an entry has added, or take them out; return whether these were the last.

    Raises FrontierError and PolicyError; this step has changed nothing then. O(limit).
    """
    checking = progress.at[0] == CHECKING
    most = limit * _CHECKED if checking else limit
    found = list(islice(_letters(kernel.tables.env.view(), numbers_of(entry), progress.at[1]), most))
    if found:
        progress.at[1] = keys.u64.unpack(found[-1][0])[0] + 1
    done = len(found) < most
    if not checking:
        _take(kernel, admitter, [(key, decode_dead(value)) for key, value in found], progress)
        return done
    progress.at[2] += len(found)
    if done:
        check(entry, progress.at[2], force=force)
        progress.at[:2] = TAKING, 0
    return False


def numbers_of(entry: AuditEntry) -> Numbers:
    """Return the numbers of the dead letters that an entry has added. Raises FrontierError if it has added none."""
    numbers = entry.effect.get("letters")
    if not numbers:
        raise FrontierError(f"{entry.id}, bury, {NOTHING}: no dead letter was added")
    return numbers  # type: ignore[no-any-return]


def check(entry: AuditEntry, there: int, *, force: bool) -> None:
    """Raise FrontierError if some of the dead letters that an entry has added are not there any more."""
    added = entry.effect["added"]
    if not there:
        raise FrontierError(
            f"there is nothing left of {entry.id} to undo: what it has added was replayed or dropped since"
        )
    if there < added and not force:
        gone = f"{added - there:,} of the {counted(added, 'dead letter')} that it has added"
        verb = "was" if added - there == 1 else "were"
        raise FrontierError(
            f"{entry.id} is not undone, because {gone} {verb} replayed or dropped since; `undo --force` does it "
            "nevertheless"
        )


def preview(view: View, entry: AuditEntry, *, force: bool) -> dict[str, Any]:
    """Return how many dead letters an undo would take out, and how many are gone, as of the view. O(letters).

    Raises FrontierError as the undo would.
    """
    there = sum(1 for _ in _letters(view, numbers_of(entry), 0))
    check(entry, there, force=force)
    gone = entry.effect["added"] - there
    return {"command": "bury", "dropped": there} | ({"gone": gone} if gone else {})


def _letters(view: View, numbers: Numbers, start: int) -> Iterator[tuple[bytes, bytes]]:
    for first, last in numbers:
        if last < start:
            continue
        for key, value in view.items(keys.DEAD, keys.u64.pack(max(first, start))):
            if keys.u64.unpack(key)[0] > last:
                break
            yield key, value


def _take(kernel: Kernel, admitter: Admitter, found: list[tuple[bytes, DeadRow]], progress: Progress) -> None:
    """Remove dead letters, and forget their URLs, except for a URL that waits: it was scheduled with `force` since."""
    tables, look = kernel.tables, kernel.tables.queues.look
    tables.pending.settle()  # finished URIs wait no more
    letters: Records = {key: None for key, _ in found}
    seen: Records = {}
    rows: dict[bytes, UrlRow] = {}
    for _, letter in found:  # before anything is changed: a policy may fail
        fingerprint = admitter.fingerprint(decode_uri(letter.value, letter.name))
        row = None if tables.urls is None else tables.urls.find(fingerprint)
        if row is not None and row.waits:
            continue
        seen[fingerprint] = None
        if row is not None and row.created >= int(letter.time):  # not completed before, with `force`
            rows[fingerprint] = row
    urls: Records = {fingerprint: look_after(look(row.queue), None) for fingerprint, row in rows.items()}
    for table, records in (keys.DEAD, letters), (keys.SEEN, seen), (keys.URLS, urls):
        tables.removed.keep(progress.effect, table, records)
    for key, letter in found:
        tables.dead_letters.remove(keys.u64.unpack(key)[0], letter)
    for fingerprint in seen:
        admitter.forget(fingerprint)
    if tables.urls is not None:
        for fingerprint, row in rows.items():
            before = look(row.queue).completed
            tables.urls.forget(fingerprint)
            kernel.turns.below_limit(row.queue, before)
    progress.effect["dropped"] += len(found)
