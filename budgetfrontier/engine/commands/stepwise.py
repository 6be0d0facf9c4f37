"""The commands that may concern any number of URIs. Each is done a step at a time, and knows how far it has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.commands import deletion
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.model import CrawlUri, Directive, Tally
from budgetfrontier.store.records import Progress, with_tries


class Stepwise(NamedTuple):
    """A command that takes steps: where it starts, and its next step, which tells whether that was the last."""

    start: Callable[[dict[str, Any]], Progress]
    step: Callable[[Kernel, Admitter, dict[str, Any], Progress, int, int, float], bool]
    """Takes the progress, which it changes, the last ordinal that counts, how many URIs one step may take, the time."""


_decode_uri = msgspec.msgpack.Decoder(CrawlUri).decode


def uri_from(item: Any) -> str | CrawlUri:
    """Return the URI that a command carries as a string, a mapping of fields, or a CrawlUri in msgpack."""
    if isinstance(item, bytes):
        return _decode_uri(item)
    if not isinstance(item, dict):
        return str(item)
    fields = dict(item)
    if "directive" in fields:
        given = fields["directive"]
        fields["directive"] = Directive[given] if isinstance(given, str) else Directive(given)
    return CrawlUri(**fields)


# -- URIs: `at` is how many of them were taken


def _start_uris(args: dict[str, Any]) -> Progress:
    return Progress([0], _told(Tally()))


def _told(tally: Tally) -> dict[str, Any]:
    return {name: getattr(tally, name) for name in tally.__struct_fields__}


def _step_uris(take: Callable[[Admitter, list[str | CrawlUri], Tally, dict[str, Any], float], None]) -> Any:
    def step(
        kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
    ) -> bool:
        """Take in the next `limit` URIs of the command; True once all are."""
        done = progress.at[0]
        part = args["uris"][done : done + limit]
        tally = Tally()
        take(admitter, [uri_from(item) for item in part], tally, args, now)
        for name, count in _told(tally).items():
            if name != "reasons":
                progress.effect[name] += count
        reasons = progress.effect["reasons"]
        for reason, count in tally.reasons.items():
            reasons[reason] = reasons.get(reason, 0) + count
        progress.at[0] = done + len(part)
        return bool(progress.at[0] == len(args["uris"]))

    return step


# -- dead letters: `at` is the first that was not looked at


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


def _replay(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
) -> bool:
    """Put dead letters back on their queues, as fresh as when they were scheduled."""
    found, done = _letters(kernel, args, progress, upto, limit)
    ask = kernel.returns.asked_precedence
    precedences = [ask(row.queue, row.value) for _, row in found]  # before anything is changed
    for (number, row), precedence in zip(found, precedences, strict=True):
        rank = row.rank[:-8] + bytes(8)  # an arrival now
        kernel.returns.place(kernel.tables.queues.get(row.queue), rank, with_tries(row.value, 0, 0), precedence, now)
        kernel.tables.dead_letters.remove(number)
    progress.effect["replayed"] += len(found)
    return done


def _drop(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
) -> bool:
    """Drop dead letters for good."""
    found, done = _letters(kernel, args, progress, upto, limit)
    for number, _ in found:
        kernel.tables.dead_letters.remove(number)
    progress.effect["dropped"] += len(found)
    return done


def _start_letters(word: str) -> Callable[[dict[str, Any]], Progress]:
    return lambda args: Progress([0], {word: 0})


STEPWISE: dict[str, Stepwise] = {
    "schedule": Stepwise(
        _start_uris, _step_uris(lambda admitter, uris, tally, args, now: admitter.take(uris, tally, now))
    ),
    "mark_seen": Stepwise(
        _start_uris,
        _step_uris(
            lambda admitter, uris, tally, args, now: admitter.mark_seen(uris, tally, charge=bool(args.get("charge"))),
        ),
    ),
    "delete": Stepwise(
        deletion.start,
        lambda kernel, admitter, args, progress, upto, limit, now: deletion.step(kernel, args, progress, upto, limit),
    ),
    "replay": Stepwise(_start_letters("replayed"), _replay),
    "drop": Stepwise(_start_letters("dropped"), _drop),
}


def audited(args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as the audit keeps them: URIs are only counted."""
    return {**args, "uris": len(args["uris"])} if "uris" in args else args
