"""`import`: what was read is put into the frontier, running or stopped, and what became of it is told."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier import formats, uris
from budgetfrontier.cli import common, exits
from budgetfrontier.cli.common import note
from budgetfrontier.engine.admission.candidates import MAX_RECORD
from budgetfrontier.engine.commands.mailbox import Command, checked
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.engine.remote import whoami
from budgetfrontier.errors import FrontierError, FrontierLocked, InvalidUrl
from budgetfrontier.formats import lists
from budgetfrontier.formats.allowance import Allowance, TooMuch
from budgetfrontier.formats.records import Bad, Item, Note, Record
from budgetfrontier.model import CrawlUri, Directive, Tally
from budgetfrontier.reports.format import clean
from budgetfrontier.store.records import AuditEntry

CHUNK = 1000
"""URIs that are handed to a running engine at a time."""
CHUNK_SIZE = 4 << 20
"""Bytes of them, about, after which there are no more in a chunk: a command has a limit."""
LONGEST_TOLD = 300
"""Characters of what is told of a bad record."""
TOLD = 20
"""Bad records of a kind that are told of one by one."""


@dataclass
class Imported:
    """What became of all that was read."""

    name: str
    tally: Tally
    seen: int = 0
    left: Counter[str] = field(default_factory=Counter)
    """What the records of a source know that has no home here, and how many of them do."""
    told: Counter[str] = field(default_factory=Counter)
    usable: int = 0
    """Records that were handed to the frontier."""
    broken: bool = False
    """It could not be read to its end."""

    def refuse(self, bad: Bad) -> None:
        """Count a bad record, and tell of it unless there were many like it."""
        self.tally.refuse(bad.reason)
        self.broken |= bad.ends
        self.told[bad.reason] += 1
        if self.told[bad.reason] <= TOLD:
            why = bad.why if len(bad.why) <= LONGEST_TOLD else f"{bad.why[:LONGEST_TOLD]}..."
            note(clean(f"{bad.place}: {why}"))

    def end(self) -> None:
        """Tell once what was not told of each, and whether there was nothing, or not all, to be had."""
        for reason, count in self.told.items():
            if count > TOLD:
                note(f"{self.name}: {reason}: {count - TOLD:,} more of these")
        if self.left:
            what = ", ".join(f"{name} ({count:,})" for name, count in sorted(self.left.items()))
            note(clean(f"{self.name}: left out, as a frontier has no place for it: {what}"))
        if self.broken:
            note(clean(f"{self.name}: only a part of it could be read; that part was imported"))
        elif not self.usable:
            note(clean(f"{self.name}: there is no URI in it that could be imported"))


class Sums:
    """What all that was given came to."""

    def __init__(self) -> None:
        self.total, self.seen, self.usable, self.whole = Tally(), 0, 0, True

    def show(self, form: str) -> None:
        """Print the counts."""
        total, seen = self.total, self.seen
        if form == "json":
            counts = {name: getattr(total, name) for name in ("added", "duplicate", "invalid", "full", "reasons")}
            print(json.dumps(counts | {"seen": seen}))
            return
        why = ", ".join(f"{reason} {count:,}" for reason, count in sorted(total.reasons.items()))
        print(
            f"added {total.added:,}, duplicate {total.duplicate:,}, full {total.full:,}, invalid {total.invalid:,}"
            + (f" ({why})" if why else "")
            + (f", marked as seen {seen:,}" if seen else "")
        )


def run(args: argparse.Namespace) -> int:
    """Schedule what is given. A bad record spoils nothing: it is counted, and told with its place.

    ERROR if a file or folder could not be read to its end, or there was no URI in it, or in all that was given. What an
    error ends is counted as far as it came.
    """
    common.refuse_if_terminated(args)
    sums = Sums()
    for number, source in enumerate(args.sources):
        done = Imported(source, Tally())
        try:
            _take_in(args, source, done)
        except Exception:
            if number or done.usable:
                _add(sums, done)
                sums.show(args.format)
            raise
        _add(sums, done)
    sums.show(args.format)
    if args.seeds and sums.total.duplicate and not args.force:
        note("duplicates were seen before and do not become seeds; --force schedules them again, as seeds")
    if sums.total.added:
        common.note_if_stopped(args)
    return exits.OK if sums.whole and sums.usable else exits.ERROR


def _add(sums: Sums, done: Imported) -> None:
    sums.total.add(done.tally)
    sums.seen += done.seen
    sums.usable += done.usable
    sums.whole = sums.whole and (_is_url(done.name) or (bool(done.usable) and not done.broken))


def _is_url(source: str) -> bool:
    """Tell whether a source is a URL itself, and no file of them. Raises FrontierError for a URL of another scheme."""
    if source.lower().startswith(("http://", "https://")):
        return True
    if "://" in source and not Path(source).exists():
        raise FrontierError(f"{source}: give http or https URLs, or files and folders that hold some")
    return False


def _take_in(args: argparse.Namespace, source: str, done: Imported) -> None:
    """Schedule, or mark as seen, what is in one source, and tell what became of it."""
    path, alone = common.frontier_path(args.job), _is_url(source)
    items = iter([_url(source)]) if alone else formats.read(source, args.kind)
    for (marks, charged), records in groupby(_records(items, done, args), lambda r: (r.seen, r.charged)):
        given = (record.uri for record in records)
        if marks:
            done.seen += _hand_over(args, path, "mark_seen", given, done, charge=charged)
        else:
            _hand_over(args, path, "schedule", given, done)
    tally = done.tally
    if not alone:
        done.end()
    elif not tally.invalid:  # that one was told of
        became = "added" if tally.added else "seen" if done.seen else "full" if tally.full else "duplicate"
        note(f"{source}: {became}")


def _url(source: str) -> Item:
    return lists.item(f"{source}:1", os.fsencode(source), Allowance())


def _records(items: Iterable[Item], done: Imported, args: argparse.Namespace) -> Iterator[Record]:
    """What can be handed over; of the rest is told."""
    for item in items:
        if isinstance(item, Note):
            note(clean(item.text))
        elif isinstance(item, Bad):
            done.refuse(item)
        else:
            try:
                href = uris.parse(item.uri.url)
                if args.seeds:
                    _make_seed(item.uri, href)
                _check(item.uri)
            except InvalidUrl as error:
                done.refuse(Bad(item.place, error.reason, f"no http or https URL ({error})"))
            except TooMuch as error:
                done.refuse(Bad(item.place, "too-large", str(error)))
            except (ValueError, OverflowError, FrontierError) as error:
                done.refuse(Bad(item.place, "json", str(error)))
            else:
                done.usable += 1
                item.uri.force = item.uri.force or args.force
                done.left.update(item.left)
                yield item._replace(seen=item.seen or args.seen)


def _check(uri: CrawlUri) -> None:
    """Raise TooMuch, ValueError, OverflowError or FrontierError for what no mailbox or frontier would take."""
    if uri.meta is not None:
        checked(Command("schedule", {"uris": [_posted(uri)]}, "", ""))
    size = len(msgspec.msgpack.encode(uri))  # text is text, and numbers have 64 bits
    if size > MAX_RECORD:
        raise TooMuch(f"{size:,} bytes with all it carries; a frontier takes {MAX_RECORD:,} at the most")


def _count(tally: Tally, entry: AuditEntry) -> None:
    """Add what a command did. Raises FrontierError for one that was refused."""
    if entry.error:
        raise FrontierError(entry.error)
    for name in ("added", "duplicate", "invalid", "full"):
        setattr(tally, name, getattr(tally, name) + entry.effect[name])
    for reason, count in entry.effect["reasons"].items():
        tally.reasons[reason] = tally.reasons.get(reason, 0) + count


def _posted(uri: CrawlUri) -> str | dict[str, Any] | bytes:
    """A URI as it goes into a mailbox: bare, its fields, or if `meta` has what is not plain there, its record."""
    if lists.is_bare(uri):
        return uri.url
    fields = lists.fields(uri)
    return fields if lists.is_json(fields.get("meta")) else msgspec.msgpack.encode(uri)


def _hand_over(
    args: argparse.Namespace, path: Path, op: str, given: Iterator[CrawlUri], done: Imported, *, charge: bool = False
) -> int:
    """Into the frontier itself when nobody runs it, else through the running engine's mailbox, chunk by chunk.

    Each chunk is a command of its own, with an audit entry that says who gave it and why.
    How many were new; of those that are to be marked only the invalid are counted.
    """
    tally = Tally()
    extra = {"charge": charge} if op == "mark_seen" else {}
    commands = ({"uris": list(map(_posted, chunk))} | extra for chunk in _chunks(given))
    with contextlib.suppress(FrontierLocked), Frontier.open(path, keep_leases=True) as frontier:
        who = args.who or whoami()
        for details in commands:
            _count(tally, frontier.apply(Command(op, details, who, args.reason)))
    for details in commands:
        _count(tally, common.steer(args, op, details, patiently=True))
    new = tally.added
    if op == "mark_seen":
        tally.added = tally.duplicate = 0
    done.tally.add(tally)
    return new


def _chunks(uris: Iterator[CrawlUri]) -> Iterator[list[CrawlUri]]:
    """By the thousand, and fewer where they are large."""
    chunk: list[CrawlUri] = []
    size = 0
    for uri in uris:
        chunk.append(uri)
        size += len(uri.url) if lists.is_bare(uri) else len(msgspec.msgpack.encode(uri))
        if len(chunk) == CHUNK or size > CHUNK_SIZE:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _make_seed(uri: CrawlUri, href: str) -> None:
    """Let a URI count as a seed: the scope looks for the one it descends from in `meta`."""
    if not isinstance(uri.meta, dict | None):
        raise ValueError("the meta of a seed is an object")
    uri.meta = {**(uri.meta or {}), "seed": href}
    uri.directive = min(uri.directive, Directive.MEDIUM)
    uri.hops = ""
