"""The replay and the dropping of dead letters: `at` of the progress is the first one not yet processed."""

from __future__ import annotations

from typing import Any

from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.engine.url_table import Arrival
from budgetfrontier.storage import keys
from budgetfrontier.storage.records import NAMED_QUEUES, Progress
from budgetfrontier.storage.uri_values import with_tries


def check(args: dict[str, Any]) -> None:
    """Raise for ids that could not be those of dead letters."""
    if args.get("ids") is not None:
        set(args["ids"])


def start_replay(args: dict[str, Any]) -> Progress:
    """Return the progress of a replay that begins."""
    return Progress([0], {"replayed": 0, "of_queues": []})


def start_drop(args: dict[str, Any]) -> Progress:
    """Return the progress of a drop that begins."""
    return Progress([0], {"dropped": 0, "of_queues": []})


def _letters(kernel: Kernel, args: dict[str, Any], progress: Progress, upto: int, limit: int) -> tuple[list[Any], bool]:
    """Return the next dead letters of these ids, of a queue, or of all, and whether they are the last."""
    ids, at, dead_letters = args.get("ids"), progress.at[0], kernel.tables.dead_letters
    if ids is None:
        found = dead_letters.after(at, limit)
        done = len(found) < limit or found[-1][0] >= upto
        progress.at[0] = found[-1][0] + 1 if found else at
    else:  # here `at` counts those of the list
        part = ids[at : at + limit]
        found = dead_letters.numbered(part, upto)
        progress.at[0] = at + len(part)
        done = progress.at[0] == len(ids)
    queue = args.get("queue")
    return [(n, row) for n, row in found if n <= upto and (queue is None or row.name == queue)], done


def _count(progress: Progress, what: str, found: list[Any]) -> None:
    progress.effect[what] += len(found)
    named = dict.fromkeys([*progress.effect["of_queues"], *(row.name for _, row in found)])
    progress.effect["of_queues"] = [*named][:NAMED_QUEUES]


def replay(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
) -> bool:
    """Put the next dead letters back on their queues, as newly scheduled; return whether these were the last."""
    found, done = _letters(kernel, args, progress, upto, limit)
    ask = kernel.returns.asked_precedence
    precedences = [ask(row.queue, row.value) for _, row in found]  # before anything is changed
    for (number, row), precedence in zip(found, precedences, strict=True):
        rank = keys.arriving(row.rank)
        queue, value = kernel.tables.queues.get(row.queue), with_tries(row.value, 0, 0)
        kernel.returns.place(queue, rank, value, precedence, now, Arrival.NEW)
        kernel.tables.dead_letters.remove(number)
    _count(progress, "replayed", found)
    return done


def drop(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
) -> bool:
    """Drop the next dead letters; return whether these were the last. Unless for good, `undo` can put them back."""
    found, done = _letters(kernel, args, progress, upto, limit)
    if found and not args.get("for_good"):
        kernel.tables.removed.keep(progress.effect, [(keys.DEAD, dict.fromkeys(keys.u64.pack(n) for n, _ in found))])
    for number, _ in found:
        kernel.tables.dead_letters.remove(number)
    _count(progress, "dropped", found)
    return done
