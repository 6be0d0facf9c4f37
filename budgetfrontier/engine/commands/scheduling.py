"""The admission of URIs by command: to their queues, as seen, or as dead letters.

`at` of the progress counts the URIs processed."""

from __future__ import annotations

from contextlib import suppress
from itertools import filterfalse
from typing import Any, TypeGuard

import msgspec

from budgetfrontier.core.model import CrawlUri, Directive, Tally
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.commands.undo_bury import note_numbers
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError, InvalidUrl
from budgetfrontier.rules.duplicates import NOOP
from budgetfrontier.storage.records import Progress
from budgetfrontier.storage.url_search import recognizer
from budgetfrontier.storage.view import View

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


def check(args: dict[str, Any]) -> None:
    """Raise for URIs of a command that could not be read."""
    list(map(uri_from, args["uris"]))


def start(args: dict[str, Any]) -> Progress:
    """Return the progress of a command that starts to admit its URIs."""
    return Progress([0], _counts(Tally()))


def schedule(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
) -> bool:
    """Admit the next URIs; return whether those were the last. O(limit).

    With `in_place`, those with `force` take the place of their URLs in a frontier that keeps them.
    """
    tally, batch = Tally(), _next(args, progress, limit)
    if args.get("in_place") and batch and kernel.put_again is not None:
        kernel.lease_expiry.expire(now)
        _ask_policies(admitter, batch)
        for uri in filter(_is_forced, batch):
            tally.add(kernel.put_again(uri, now))
        batch = list(filterfalse(_is_forced, batch))
    if batch:
        admitter.take(batch, tally, now)
    return _taken(args, progress, limit, tally)


def _ask_policies(admitter: Admitter, batch: list[str | CrawlUri]) -> None:
    """Raise PolicyError for a batch of URIs that are scheduled one by one, before the first one is."""
    admitter.read(batch, Tally())
    for given in batch:
        with suppress(InvalidUrl):
            if isinstance(given, CrawlUri):
                admitter.fingerprint(given)


def _is_forced(given: str | CrawlUri) -> TypeGuard[CrawlUri]:
    return isinstance(given, CrawlUri) and given.force is True


def preview(view: View, args: dict[str, Any]) -> dict[str, Any]:
    """Return how many URIs a command would add, and how many are known or INVALID; `full` is 0. O(URIs).

    Limits that would leave no room for some are not looked at.
    """
    check(args)
    tally, found, recognized = Tally(), set[bytes](), recognizer(view)
    remembers = view.settings()[0].frontier.duplicates != NOOP
    for given in map(uri_from, args["uris"]):
        uri = given if isinstance(given, CrawlUri) else CrawlUri(given)
        try:
            fingerprint, known = recognized(uri)
        except InvalidUrl as error:
            tally.refuse(error.reason)
            continue
        if remembers and not uri.force and (known or fingerprint in found):
            tally.duplicate += 1
            continue
        tally.added += 1
        found |= set() if uri.force else {fingerprint}
    return _counts(tally)


def mark_seen(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
) -> bool:
    """Mark the next URIs as seen; return whether those were the last. O(limit)."""
    tally = Tally()
    admitter.mark_seen(_next(args, progress, limit), tally, now, charge=bool(args.get("charge")))
    return _taken(args, progress, limit, tally)


def bury(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
) -> bool:
    """Add the next URIs as dead letters; return whether those were the last. O(limit)."""
    tally, counters = Tally(), kernel.counters
    done, before = progress.at[0], counters.ordinal
    admitter.bury(_next(args, progress, limit), args["reasons"][done : done + limit], tally, now)
    note_numbers(progress.effect, before + 1, counters.ordinal)
    return _taken(args, progress, limit, tally)


def check_letters(args: dict[str, Any]) -> None:
    """Raise for URIs of a command that could not be read, or that have no reason each."""
    check(args)
    reasons = args["reasons"]
    if len(reasons) != len(args["uris"]) or not all(isinstance(reason, str) for reason in reasons):
        raise FrontierError("bury takes a reason, a text, for each URI")


def _next(args: dict[str, Any], progress: Progress, limit: int) -> list[str | CrawlUri]:
    done = progress.at[0]
    return [uri_from(item) for item in args["uris"][done : done + limit]]


def _taken(args: dict[str, Any], progress: Progress, limit: int, tally: Tally) -> bool:
    """Add the tally of a part to the effect, and advance the position; return whether it was the last."""
    for name, count in _counts(tally).items():
        if name != "reasons":
            progress.effect[name] += count
    reasons = progress.effect["reasons"]
    for reason, count in tally.reasons.items():
        reasons[reason] = reasons.get(reason, 0) + count
    progress.at[0] = min(progress.at[0] + limit, len(args["uris"]))
    return bool(progress.at[0] == len(args["uris"]))


def _counts(tally: Tally) -> dict[str, Any]:
    return {name: getattr(tally, name) for name in tally.__struct_fields__}


def audited(args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as the audit keeps them: URIs are only counted."""
    counted = {name: len(args[name]) for name in ("uris",) if name in args}
    return {name: value for name, value in args.items() if name != "reasons"} | counted
