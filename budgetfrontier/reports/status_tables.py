"""The answers of hosts: attempts by class of status, which hosts answer with errors, and the kinds of these."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest, nsmallest
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from budgetfrontier.core.model import QueueAnswers, QueueRecord
from budgetfrontier.core.units import counted
from budgetfrontier.core.vocabulary import ANSWERS
from budgetfrontier.reports.format import percent
from budgetfrontier.rules.queue_answers import OTHER, repeated
from budgetfrontier.storage import keys
from budgetfrontier.storage.records import decode_answers
from budgetfrontier.storage.view import View

CLASSES = ("2xx", "3xx", "4xx", "5xx", "none")
"""The classes of status, in the order of `QueueAnswers.classes`."""
CHOICES = ("", *CLASSES[2:])
"""The errors by which pages list queues, as of `StatusChoice`."""
COLORS = dict(zip(CLASSES, ("s-in-process", "s-ready", "s-inactive", "s-retired", "s-exhausted"), strict=True))
"""The color of each class on pages."""
MOST = 5000
"""Queues and kinds of error that are listed at the most."""
_KINDS = 10_000  # that are told apart over all queues
_SHOWN = 3  # kinds in the row of a queue
_KNOWN_FROM = 0.25
"""The least share of repeated contents that is told in figures: all that differ may look like one of about 20%."""


class StatusRow(msgspec.Struct):
    """The answers to the attempts of a queue."""

    queue: str
    classes: list[int]
    kinds: dict[str, int]
    repeated: float | None = None
    """The share of its contents that were the same as another one, as estimated from the last digests."""
    unreported: int = 0
    """The attempts that have succeeded with a status that was not reported."""

    @property
    def errors(self) -> int:
        """The attempts that were answered with 400 or more, or not at all."""
        return sum(self.classes[2:])


class KindRow(msgspec.Struct):
    """A kind of error: how often it was, in how many queues, and the queue in which it was most often."""

    kind: str
    attempts: int
    queues: int
    most: str
    most_attempts: int


class Statuses(msgspec.Struct):
    """The answers of the queues that were asked for: their sums, the first rows and kinds, and how many have any."""

    classes: list[int]
    queues: int
    rows: list[StatusRow]
    kinds: list[KindRow]
    unreported: int = 0
    """Attempts that have succeeded with a status that was not reported."""


def status_named(text: str) -> str:
    """Return a class, a status or a kind as StatusChoice has it. Raises ValueError for one that is not counted."""
    if re.fullmatch(r"[0-9]xx|[0-9]+", text.lower()) and not re.fullmatch(r"[2-5]xx|[4-9][0-9]{2}", text.lower()):
        raise ValueError(f"{text} is no class that is counted (2xx, 3xx, 4xx, 5xx, none), nor a status from 400 on")
    return text.lower() if re.fullmatch(r"[2-5]XX|NONE", text.upper()) else text


class StatusChoice(NamedTuple):
    """The errors by which queues are chosen: a class of status, one status, or a kind of error; "" for all errors."""

    status: str = ""

    def count(self, row: QueueAnswers | StatusRow) -> int:
        """Return how many attempts of a queue are meant."""
        if not self.status:
            return sum(row.classes[2:])
        if self.status in CLASSES:
            return row.classes[CLASSES.index(self.status)]
        return row.kinds.get(f"status {self.status}" if self.status.isdigit() else self.status, 0)


def statuses(
    view: View, test: Callable[[QueueRecord], bool] | None, *, status: str = "", limit: int | None = None
) -> Statuses:
    """Return the answers of the queues that pass a test, those with most of a status first. O(queues)."""
    return statuses_by(view, test, (status,), limit=limit)[status]


def statuses_by(
    view: View,
    test: Callable[[QueueRecord], bool] | None,
    choices: Sequence[str],
    *,
    limit: int | None,
) -> dict[str, Statuses]:
    """Return the answers for each of several statuses, from one pass: their rows differ. O(queues)."""
    ok = moved = refused = failed = silent = number = 0
    most = MOST if limit is None else min(limit, MOST)
    found: dict[str, list[tuple[int, int, QueueAnswers, int]]] = {status: [] for status in choices}
    counted_as = [(StatusChoice(status).count, status in CLASSES[:2], first) for status, first in found.items()]
    kinds: dict[str, list[int]] = {}
    charges, unreported = _charges(view, test), 0
    for key, value in view.items(keys.ANSWERS):
        queue_id, row = keys.u32.unpack(key)[0], decode_answers(value)
        if test is not None and not test(view.queue_by_id(queue_id)):
            continue
        number += 1
        one, two, three, four, five = row.classes
        rest = max(charges.pop(queue_id, 0) - (one + two + three + four + five), 0)
        unreported += rest
        ok, moved, refused, failed, silent = ok + one, moved + two, refused + three, failed + four, silent + five
        without_errors = not (three or four or five or row.kinds)
        for kind, attempts in row.kinds.items():
            _add(kinds, kind, attempts, queue_id)
        for count_of, is_no_error, first in counted_as:
            if without_errors and not is_no_error:
                continue
            if count := count_of(row):
                first.append((-count, queue_id, row, rest))
                if len(first) > 4 * most + 1000:
                    first[:] = nsmallest(most, first, key=lambda one: one[:2])
    frequent = nlargest(most, kinds.items(), key=lambda item: item[1][0])
    named = [
        KindRow(kind, attempts, of, view.queue_by_id(worst).queue, of_worst)
        for kind, (attempts, of, worst, of_worst) in frequent
    ]
    return {
        status: Statuses(
            *(
                [ok, moved, refused, failed, silent],
                number + len(charges),
                _rows(view, StatusChoice(status), first, most),
                named,
            ),
            unreported=unreported + sum(charges.values()),
        )
        for status, first in found.items()
    }


def _charges(view: View, test: Callable[[QueueRecord], bool] | None) -> dict[int, int]:
    """Return the charged attempts of queues, by their ids, if the status of any success was not reported; else none.

    Of prerequisites and of URLs marked as seen, which are charged too, no status is counted either.
    """
    counters = view.counters()
    ended = counters.succeeded - counters.prerequisites_succeeded
    ended += counters.failed + counters.retried + counters.given_up
    if ended <= sum(getattr(counters, name) for name in ANSWERS):
        return {}
    if test is None:
        return {queue.id: queue.charges for queue in view.amounts() if queue.charges}
    return {queue.id: queue.charges for queue in view.stored_queues() if queue.charges and test(queue)}


def _rows(
    view: View, wanted: StatusChoice, found: Iterable[tuple[int, int, QueueAnswers, int]], most: int
) -> list[StatusRow]:
    rows = [
        StatusRow(view.queue_by_id(queue_id).queue, row.classes, row.kinds, repeated(row), rest)
        for _, queue_id, row, rest in nsmallest(most, found, key=lambda one: one[:2])
    ]
    return sorted(rows, key=lambda row: (-wanted.count(row), row.queue))


def _add(kinds: dict[str, list[int]], kind: str, attempts: int, queue_id: int) -> None:
    """Add the errors of a queue to those of their kind: attempts, queues, the queue with most, and its attempts."""
    entry = kinds.get(kind)
    if entry is None:
        entry = kinds.setdefault(kind if len(kinds) < _KINDS else OTHER, [0, 0, queue_id, 0])
    entry[0] += attempts
    entry[1] += 1
    if attempts > entry[3]:
        entry[2:] = queue_id, attempts


def merged(parts: Iterable[Statuses], *, status: str, limit: int | None) -> Statuses:
    """Return the answers of several partitions as those of one crawl."""
    whole, kinds = Statuses([0] * len(CLASSES), 0, [], []), dict[str, KindRow]()
    for part in parts:
        whole.classes = [total + count for total, count in zip(whole.classes, part.classes, strict=True)]
        whole.queues += part.queues
        whole.unreported += part.unreported
        whole.rows += part.rows
        for one in part.kinds:
            known = kinds.setdefault(one.kind, KindRow(one.kind, 0, 0, one.most, one.most_attempts))
            known.attempts += one.attempts
            known.queues += one.queues
            if one.most_attempts > known.most_attempts:
                known.most, known.most_attempts = one.most, one.most_attempts
    wanted = StatusChoice(status)
    whole.rows = sorted(whole.rows, key=lambda row: (-wanted.count(row), row.queue))[:limit]
    whole.kinds = sorted(kinds.values(), key=lambda one: (-one.attempts, one.kind))[:limit]
    return whole


def sentence(found: Statuses) -> str:
    """Return the sums by class in one sentence."""
    total = sum(found.classes) + found.unreported
    if not total:
        return "No attempt has ended so far."
    names = (*CLASSES[:-1], "without an answer", "whose status was not reported")
    parts = (
        f"{count:,} {name} ({count / total:.1%})"
        for name, count in zip(names, (*found.classes, found.unreported), strict=True)
        if count
    )
    return f"{counted(total, 'attempt')} of {counted(found.queues, 'queue')}: {', '.join(parts)}."


def row_of(row: StatusRow, *, for_people: bool = False) -> tuple[Any, ...]:
    """Return a queue as a row of a table: see COLUMNS. Shares are rounded, and for people percentages."""
    total = sum(row.classes) + row.unreported
    errors = row.errors / total if total else 0.0
    kinds = ", ".join(f"{kind} ({count:,})" for kind, count in nlargest(_SHOWN, row.kinds.items(), itemgetter(1)))
    same = None if row.repeated is None else round(row.repeated, 4)
    if for_people:
        about = same if same is None else "under 25%" if same < _KNOWN_FROM else f"about {percent(same)}"
        return row.queue, *row.classes, row.unreported, percent(errors), about, kinds
    return row.queue, *row.classes, row.unreported, round(errors, 4), same, kinds


COLUMNS = ("queue", *CLASSES, "unreported", "error_share", "repeated", "kinds")
DROP = ("repeated", "3xx", "unreported", "error_share")
KIND_COLUMNS = KindRow.__struct_fields__
