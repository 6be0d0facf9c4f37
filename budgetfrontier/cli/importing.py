"""`import`: schedule the URIs of sources in a job, running or stopped, and report the results."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from budgetfrontier import formats, uris
from budgetfrontier.cli import common, exits
from budgetfrontier.cli.messages import note, say
from budgetfrontier.engine import audit
from budgetfrontier.engine.admission.storable import MAX_RECORD
from budgetfrontier.engine.commands.mailbox import Command, checked
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.engine.remote import whoami
from budgetfrontier.errors import FrontierError, FrontierLocked, InvalidUrl
from budgetfrontier.formats import lists
from budgetfrontier.formats.allowance import Allowance, RecordTooLarge
from budgetfrontier.formats.records import BadRecord, Item, Note, Record
from budgetfrontier.model import CrawlUri, Directive, Tally
from budgetfrontier.reports.format import clean, without_password
from budgetfrontier.reports.totals import refused_in
from budgetfrontier.store.records import AuditEntry

if TYPE_CHECKING:
    from budgetfrontier.cluster.client import ClusterFrontier

CHUNK = 1000
"""URIs in one command to the frontier."""
CHUNK_SIZE = 4 << 20
"""Bytes, roughly, at which a chunk ends early: the size of a command is limited."""
MAX_DETAIL = 300
"""Characters shown of the details of a bad record."""
PROGRESS_INTERVAL = 10.0
"""Seconds between two messages that say how far an import has come."""
MAX_REPORTED = 20
"""Bad records with the same reason that are reported one by one."""


@dataclass
class SourceResult:
    """The result of importing one source."""

    name: str
    tally: Tally
    seen: int = 0
    dead: int = 0
    omitted: Counter[str] = field(default_factory=Counter)
    """Fields that a frontier cannot hold, and how many records have them."""
    reported: Counter[str] = field(default_factory=Counter)
    usable: int = 0
    """Records that were submitted to the frontier."""
    broken: bool = False
    """Whether the source could not be read to its end."""
    reported_at: float = field(default_factory=time.monotonic)

    def progress(self) -> None:
        """Report how many URIs were read, once in PROGRESS_INTERVAL."""
        now = time.monotonic()
        if now - self.reported_at >= PROGRESS_INTERVAL:
            self.reported_at = now
            note(clean(f"{self.name}: {self.usable:,} so far"))

    def refuse(self, bad: BadRecord) -> None:
        """Count a bad record, and report it unless many with the same reason were reported."""
        self.tally.refuse(bad.reason)
        self.broken |= bad.ends
        self.reported[bad.reason] += 1
        if self.reported[bad.reason] <= MAX_REPORTED:
            detail = bad.detail if len(bad.detail) <= MAX_DETAIL else f"{bad.detail[:MAX_DETAIL]}..."
            note(clean(f"{bad.location}: {detail}"))

    def end(self, *, dry_run: bool) -> None:
        """Report bad records not shown, fields left out, and whether nothing or only a part could be read."""
        for reason, count in self.reported.items():
            if count > MAX_REPORTED:
                note(f"{self.name}: {reason}: {count - MAX_REPORTED:,} more of these")
        if self.omitted:
            what = ", ".join(f"{name} ({count:,})" for name, count in sorted(self.omitted.items()))
            note(clean(f"{self.name}: left out, because a frontier cannot store it: {what}"))
        if self.broken:
            note(clean(f"{self.name}: only a part of it could be read{'' if dry_run else '; that part was imported'}"))
        elif not self.usable:
            note(clean(f"{self.name}: no URI in it could be imported"))


class Totals:
    """The totals of all sources."""

    def __init__(self) -> None:
        self.total, self.seen, self.dead, self.usable, self.complete = Tally(), 0, 0, 0, True

    def show(self, form: str, *, dry_run: bool) -> None:
        """Print the counts; of a dry run, what could be imported."""
        total, seen = self.total, self.seen
        if form == "json" and dry_run:
            counts = {"readable": self.usable, "seen": seen, "invalid": total.invalid, "reasons": total.reasons}
            print(json.dumps(counts))
            return
        if form == "json":
            counts = {name: getattr(total, name) for name in ("added", "duplicate", "invalid", "full", "reasons")}
            print(json.dumps(counts | {"seen": seen, "dead": self.dead}))
            return
        if dry_run:
            told = [f"{self.usable:,} can be imported", *([f"{seen:,} of them as seen"] if seen else [])]
            print(f"dry run, nothing was changed: {', '.join([*told, refused_in(total)['invalid']])}")
            return
        told = [f"added {total.added:,}", f"duplicate {total.duplicate:,}", *refused_in(total).values()]
        told += [f"marked as seen {seen:,}"] if seen else []
        say(", ".join([*told, f"dead letters {self.dead:,}"] if self.dead else told))


def run(args: argparse.Namespace, cluster: ClusterFrontier | None = None) -> int:
    """Import all sources and print the counts. A bad record stops nothing: it is counted and reported.

    `cluster` is the crawl in partitions into which they are imported, if it is one.
    Return ERROR if a file or folder could not be read to its end or has no URI, or if there was no URI at all. When an
    error is raised, the counts so far are printed first.
    """
    if args.key is not None and not all(map(formats.is_redis, args.sources)):
        raise FrontierError("--key is the name of a queue in Redis; give redis://HOST as the source")
    if not args.dry_run and cluster is None:
        common.refuse_if_terminated(args)
    totals = Totals()
    for number, source in enumerate(args.sources):
        result = SourceResult(without_password(source), Tally())
        try:
            _import_source(args, source, result, cluster)
        except Exception:
            if number or result.usable:
                _add(totals, result)
                totals.show(args.format, dry_run=args.dry_run)
            raise
        _add(totals, result)
    totals.show(args.format, dry_run=args.dry_run)
    if args.seeds and totals.total.duplicate and not args.force:
        note("duplicates were seen before and do not become seeds; --force schedules them again, as seeds")
    if totals.total.added and cluster is None:
        common.note_if_stopped(args)
    return exits.OK if totals.complete and totals.usable else exits.ERROR


def _add(totals: Totals, result: SourceResult) -> None:
    totals.total.add(result.tally)
    totals.seen += result.seen
    totals.dead += result.dead
    totals.usable += result.usable
    totals.complete = totals.complete and (_is_url(result.name) or (bool(result.usable) and not result.broken))


def _is_url(source: str) -> bool:
    """Return whether a source is itself a URL, not a file. Raises FrontierError for a URL of another scheme."""
    if source.lower().startswith(("http://", "https://")):
        return True
    if "://" in source and not formats.is_redis(source) and not Path(source).exists():
        raise FrontierError(
            f"{without_password(source)}: give http or https URLs, files and folders with URLs, or redis://HOST"
        )
    return False


def _import_source(
    args: argparse.Namespace, source: str, result: SourceResult, cluster: ClusterFrontier | None
) -> None:
    """Schedule the URIs of one source, or mark them as seen, and report the results."""
    path, is_url = common.frontier_path(args.job) if cluster is None else None, _is_url(source)
    items = iter([_url(source)]) if is_url else formats.read(source, args.kind, key=args.key)
    if args.dry_run:
        result.seen = sum(record.seen for record in _records(items, result, args))
        result.end(dry_run=True)
        return
    for (op, charged), records in groupby(_records(items, result, args), lambda r: (_operation(r), r.charged)):
        if path is not None:
            new = _submit(args, path, op, records, result, charge=charged)
        else:
            assert cluster is not None
            new = _submit_to_cluster(cluster, op, records, result, charge=charged)
        if op == "mark_seen":
            result.seen += new
        elif op == "bury":
            result.dead += new
    tally = result.tally
    if not is_url:
        result.end(dry_run=False)
    elif not tally.invalid:  # otherwise it was reported already
        became = "added" if tally.added else "seen" if result.seen else "full" if tally.full else "duplicate"
        note(f"{source}: {became}")


def _operation(record: Record) -> str:
    """Return the command that takes a record."""
    return "mark_seen" if record.seen else "schedule" if record.dead is None else "bury"


def _url(source: str) -> Item:
    return lists.item(f"{source}:1", os.fsencode(source), Allowance())


def _records(items: Iterable[Item], result: SourceResult, args: argparse.Namespace) -> Iterator[Record]:
    """Yield the records that can be imported; report the others."""
    for item in items:
        if isinstance(item, Note):
            note(clean(item.text))
        elif isinstance(item, BadRecord):
            result.refuse(item)
        else:
            try:
                href = uris.parse(item.uri.url)
                if args.seeds:
                    _make_seed(item.uri, href)
                _check(item.uri)
            except InvalidUrl as error:
                result.refuse(BadRecord(item.location, error.reason, f"not an http or https URL ({error})"))
            except RecordTooLarge as error:
                result.refuse(BadRecord(item.location, "too-large", str(error)))
            except (ValueError, OverflowError, FrontierError) as error:
                result.refuse(BadRecord(item.location, "json", str(error)))
            else:
                result.usable += 1
                result.progress()
                item.uri.force = item.uri.force or args.force
                result.omitted.update(item.omitted)
                yield item._replace(seen=item.seen or args.seen)


def _check(uri: CrawlUri) -> None:
    """Raise the errors that `_records` reports for a URI that the mailbox or the frontier would refuse."""
    if uri.meta is not None:
        checked(Command("schedule", {"uris": [_as_argument(uri)]}, "", ""))
    size = len(msgspec.msgpack.encode(uri))  # raises for text that is not UTF-8 and for numbers over 64 bits
    if size > MAX_RECORD:
        raise RecordTooLarge(f"{size:,} bytes with all its fields; a frontier accepts at most {MAX_RECORD:,}")


def _count(tally: Tally, entry: AuditEntry) -> None:
    """Add the counts of a command. Raises FrontierError if it was refused."""
    audit.check(entry)
    tally.add(msgspec.convert(entry.effect, Tally))


def _as_argument(uri: CrawlUri) -> str | dict[str, Any] | bytes:
    """Return a URI as an argument of a command: its URL, its fields, or its record if `meta` is not JSON."""
    if lists.is_bare(uri):
        return uri.url
    fields = lists.fields(uri)
    return fields if lists.is_json(fields.get("meta")) else msgspec.msgpack.encode(uri)


def _submit(
    args: argparse.Namespace,
    path: Path,
    op: str,
    records: Iterator[Record],
    result: SourceResult,
    *,
    charge: bool = False,
) -> int:
    """Apply URIs to the frontier directly if no process runs it, else through the running engine's mailbox, in chunks.

    Each chunk is a command of its own, with an audit entry that says who gave it and why. Return how many were new.
    When URIs are marked as seen, or become dead letters, only the invalid ones are added to the tally.
    """
    tally = Tally()
    commands = (_arguments(op, chunk, charge=charge, in_place=args.force) for chunk in _chunks(records))
    opened = partial(Frontier.open, path, keep_leases=True, program="budgetfrontier import")
    with contextlib.suppress(FrontierLocked), opened() as frontier:
        who = args.who or whoami()
        for details in commands:
            _count(tally, frontier.apply(Command(op, details, who, args.reason)))
    for details in commands:
        _count(tally, common.steer(args, op, details, patiently=True))
    return _new_in(tally, op, result)


def _submit_to_cluster(
    cluster: ClusterFrontier, op: str, records: Iterator[Record], result: SourceResult, *, charge: bool
) -> int:
    """Send URIs to the partitions of a crawl, in chunks; return how many were new. The audit has nothing of it."""
    if op == "bury":
        raise FrontierError(f"{result.name} has dead letters, which cannot be imported into a crawl in partitions")
    tally = Tally()
    for chunk in _chunks(records):
        given = [record.uri for record in chunk]
        tally.add(cluster.schedule_many(given) if op == "schedule" else cluster.mark_seen(given, charge=charge))
    return _new_in(tally, op, result)


def _new_in(tally: Tally, op: str, result: SourceResult) -> int:
    """Add the counts of a source; return how many URIs were new."""
    new = tally.added
    if op != "schedule":
        tally.added = tally.duplicate = 0
    result.tally.add(tally)
    return new


def _arguments(op: str, chunk: list[Record], *, charge: bool, in_place: bool) -> dict[str, Any]:
    """Return the arguments of a command that takes records; `in_place` is of use where URLs are kept."""
    arguments: dict[str, Any] = {"uris": [_as_argument(record.uri) for record in chunk]}
    if op == "mark_seen":
        arguments["charge"] = charge
    elif op == "bury":
        arguments["reasons"] = [record.dead for record in chunk]
    elif in_place:
        arguments["in_place"] = True
    return arguments


def _chunks(records: Iterator[Record]) -> Iterator[list[Record]]:
    """Yield chunks of CHUNK URIs, or fewer if they are large."""
    chunk: list[Record] = []
    size = 0
    for record in records:
        uri = record.uri
        chunk.append(record)
        size += len(uri.url) if lists.is_bare(uri) else len(msgspec.msgpack.encode(uri))
        size += len(record.dead or "")
        if len(chunk) == CHUNK or size > CHUNK_SIZE:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _make_seed(uri: CrawlUri, href: str) -> None:
    """Make a URI a seed: the scope reads from `meta` which seed a URI descends from."""
    if not isinstance(uri.meta, dict | None):
        raise ValueError("the meta of a seed is an object")
    uri.meta = {**(uri.meta or {}), "seed": href}
    uri.directive = min(uri.directive, Directive.MEDIUM)
    uri.hops = ""
