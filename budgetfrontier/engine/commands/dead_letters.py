"""The replay and the dropping of dead letters: `at` of the progress is the first one not yet processed.

In a frontier that keeps its URLs, one whose URL waits already stays a dead letter when others are replayed: no URL
comes to wait twice by that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.commands.selection import check_match
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.engine.url_table import Arrival
from budgetfrontier.rules.uri_outcomes import cause
from budgetfrontier.settings.matching import glob, parse_match
from budgetfrontier.storage import keys
from budgetfrontier.storage.records import NAMED_QUEUES, DeadRow, Progress, decode_dead
from budgetfrontier.storage.uri_values import decode_uri, expand, label_of, short_url, with_tries
from budgetfrontier.storage.url_search import waits_in
from budgetfrontier.storage.view import View

FIRST = 10
"""Dead letters that a dry run names."""


class ChosenLetters:
    """The dead letters that a command chooses: of a queue, by a pattern on their URIs, by a glob on their reasons."""

    def __init__(self, args: dict[str, Any]) -> None:
        self._queue: str | None = args.get("queue")
        self._match = None if args.get("match") is None else parse_match(args["match"])
        self._why = None if args.get("why") is None else glob(args["why"])

    def test(self, row: DeadRow) -> bool:
        """Return whether a dead letter is chosen; a reason matches as it is, or with `(host)` in place of its key."""
        if self._queue is not None and row.name != self._queue:
            return False
        if self._why is not None and not (self._why(row.reason) or self._why(cause(row.reason, row.name))):
            return False
        if self._match is None:
            return True
        return self._match.matches(expand(short_url(row.value), row.name), row.name, label_of(row.value))


def check(args: dict[str, Any]) -> None:
    """Raise for invalid ids of dead letters, and for an invalid choice."""
    if args.get("ids") is not None:
        set(args["ids"])
    if args.get("match") is not None:
        check_match(args, of_uris=True)
    if args.get("why") is not None:
        glob(args["why"])


def preview(view: View, args: dict[str, Any], done: str) -> dict[str, Any]:
    """Return how many dead letters a command takes, of how many queues, the first of them, and the ids that are gone.

    Their number has the name that it has in the effect of the command: `done`. A replay leaves those that are
    `waiting`. O(dead letters), or O(ids).
    """
    check(args)
    chosen, ids, waits = ChosenLetters(args), args.get("ids"), _waits_in(view, done)
    if ids is None:
        rows: Iterable[bytes | None] = (value for _, value in view.items(keys.DEAD))
    else:
        rows = (view.txn.get(keys.u64.pack(number), db=view.db[keys.DEAD]) for number in dict.fromkeys(ids))
    count, gone, waiting, queues, first = 0, 0, 0, set[str](), list[str]()
    for value in rows:
        row = None if value is None else decode_dead(value)
        if row is None:
            gone += 1
        elif chosen.test(row) and waits(row):
            waiting += 1
        elif chosen.test(row):
            count += 1
            queues.add(row.name)
            if len(first) < FIRST:
                first.append(expand(short_url(row.value), row.name))
    found = {done: count, "queues": len(queues), "gone": gone, "first": first}
    return found | ({"waiting": waiting} if waiting else {})


def _waits_in(view: View, done: str) -> Callable[[DeadRow], bool]:
    """Return the test whether the URL of the next dead letter waits, also because of one that is replayed before."""
    if done != "replayed" or not view.settings()[0].frontier.keep_urls:
        return lambda row: False
    waits = waits_in(view)
    return lambda row: waits(decode_uri(row.value, row.name))


def start_replay(args: dict[str, Any]) -> Progress:
    """Return the progress of a replay that begins."""
    return Progress([0], {"replayed": 0, "of_queues": []})


def start_drop(args: dict[str, Any]) -> Progress:
    """Return the progress of a drop that begins."""
    return Progress([0], {"dropped": 0, "of_queues": []})


def _letters(kernel: Kernel, args: dict[str, Any], progress: Progress, upto: int, limit: int) -> tuple[list[Any], bool]:
    """Return the next dead letters of these ids, or of all, that are chosen, and whether they are the last."""
    ids, at, dead_letters = args.get("ids"), progress.at[0], kernel.tables.dead_letters
    if ids is None:
        found, more = dead_letters.after(at, limit)
        done = not more or found[-1][0] >= upto
        progress.at[0] = found[-1][0] + 1 if found else at
    else:  # here `at` counts those of the list
        found, count = dead_letters.numbered(ids[at : at + limit], upto)
        progress.at[0] = at + count
        done = progress.at[0] == len(ids)
    chosen = ChosenLetters(args)
    return [(n, row) for n, row in found if n <= upto and chosen.test(row)], done


def _count(progress: Progress, what: str, found: list[Any]) -> None:
    progress.effect[what] += len(found)
    named = dict.fromkeys([*progress.effect["of_queues"], *(row.name for _, row in found)])
    progress.effect["of_queues"] = [*named][:NAMED_QUEUES]


def replay(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
) -> bool:
    """Put the next dead letters back on their queues, as newly scheduled; return whether these were the last.

    Those whose URLs wait already stay, if the frontier keeps URLs.
    """
    found, done = _letters(kernel, args, progress, upto, limit)
    ask = kernel.returns.asked_precedence
    precedences = [ask(row.queue, row.value) for _, row in found]  # before anything is changed
    urls, replayed = kernel.tables.urls, list[Any]()
    prints = [b"" if urls is None else admitter.fingerprint(decode_uri(row.value, row.name)) for _, row in found]
    kernel.tables.pending.settle()
    for (number, row), precedence, fingerprint in zip(found, precedences, prints, strict=True):
        known = None if urls is None else urls.find(fingerprint)
        if known is not None and known.waits:
            progress.effect["waiting"] = progress.effect.get("waiting", 0) + 1
            continue
        rank = keys.arriving(row.rank)
        queue, value = kernel.tables.queues.get(row.queue), with_tries(row.value, 0, 0)
        kernel.returns.place(queue, rank, value, precedence, now, Arrival.NEW)
        kernel.tables.dead_letters.remove(number, row)
        replayed.append((number, row))
    _count(progress, "replayed", replayed)
    return done


def drop(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
) -> bool:
    """Drop the next dead letters; return whether these were the last. Unless for good, `undo` can put them back."""
    found, done = _letters(kernel, args, progress, upto, limit)
    if found and not args.get("for_good"):
        kernel.tables.removed.keep(progress.effect, keys.DEAD, dict.fromkeys(keys.u64.pack(n) for n, _ in found))
    for number, row in found:
        kernel.tables.dead_letters.remove(number, row)
        kernel.counters.dropped += not row.prerequisite
    _count(progress, "dropped", found)
    return done
