"""The submission of URIs that are imported: to a frontier, to the engine that runs it, or to partitions.

Their results are counted as soon as they are known, so that the counts are right however an import ends.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from budgetfrontier.core import protocol
from budgetfrontier.core.converters import converter
from budgetfrontier.core.model import CrawlUri, Tally
from budgetfrontier.engine import audit
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.engine.remote import whoami
from budgetfrontier.errors import FrontierError, FrontierLocked
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.on_crawl import noting_continued
from budgetfrontier.tools.importers import lists
from budgetfrontier.tools.importers.import_items import Record

if TYPE_CHECKING:
    from budgetfrontier.cluster.client import ClusterFrontier

CHUNK = 1000
"""URIs in one command to the frontier."""
CHUNK_SIZE = 4 << 20
"""Bytes, roughly, at which a chunk ends early: the size of a command is limited."""
_to_tally: Callable[[Any], Tally] = converter(Tally)
COMMIT_EVERY = 1.0
"""Seconds after which commands that were applied directly are committed, and counted."""
RETRY_FOR = 2 * protocol.RETRY_FOR
"""Seconds for which partitions without an owner are waited for, as other clients do: a take-over needs 30."""

_Sized = tuple[int, dict[str, Any]]
"""The number of URIs in a command, and its arguments."""


@dataclass
class Counts:
    """The numbers of URIs that were submitted, by their results."""

    tally: Tally = field(default_factory=Tally)
    seen: int = 0
    dead: int = 0
    unknown: int = 0
    """URIs of commands that have not ended, or were not committed."""
    audit: list[int] = field(default_factory=list)
    """The ids of the first and the last entry in the audit; a crawl in partitions has none of it there."""
    entries: dict[tuple[str, bool], AuditEntry] = field(default_factory=dict)
    """By command, and whether it charges: the entry of the last one that was counted, which the next one continues."""

    def count(self, entry: AuditEntry) -> None:
        """Add the results of a command by its entry in the audit. Raises FrontierError if it was refused."""
        audit.check(entry)
        kind = entry.command, bool(entry.args.get("charge"))
        before = self.entries.get(kind)
        is_new = before is None or before.id != entry.id
        self.add(entry.command, _added_since({} if before is None or is_new else before.effect, entry.effect))
        self.entries[kind] = entry
        if is_new:
            self._note([entry.id])

    def add(self, op: str, tally: Tally) -> None:
        """Add the results of a command. Of one that schedules nothing, the tally has refusals only."""
        if op != "schedule":
            self.seen += tally.added if op == "mark_seen" else 0
            self.dead += tally.added if op == "bury" else 0
            tally = Tally(invalid=tally.invalid, full=tally.full, reasons=tally.reasons)
        self.tally.add(tally)

    def merge(self, other: Counts) -> None:
        """Add other counts."""
        self.tally.add(other.tally)
        self.seen += other.seen
        self.dead += other.dead
        self.unknown += other.unknown
        self._note(other.audit)

    def _note(self, entries: list[int]) -> None:
        self.audit += entries
        del self.audit[1:-1]


def submit(
    args: argparse.Namespace,
    path: Path,
    op: str,
    records: Iterator[Record],
    counts: Counts,
    *,
    charge: bool = False,
) -> None:
    """Apply URIs to the frontier directly if no process runs it, else through the running engine's mailbox, in chunks.

    Each chunk is a command of its own, which continues the audit entry of the last one.
    """
    mine = Counts(entries=counts.entries)
    with common.job_operator(args) as operator, noting_continued(operator) as own:
        operator.close()  # a process cannot read and write one LMDB environment at once
        try:
            _submit(args, path, op, records, mine, charge=charge)
        finally:
            counts.merge(mine)
        own += mine.audit[:1]


def _submit(
    args: argparse.Namespace, path: Path, op: str, records: Iterator[Record], counts: Counts, *, charge: bool
) -> None:
    commands = ((len(chunk), _arguments(op, chunk, charge=charge, in_place=args.force)) for chunk in _chunks(records))
    opened = partial(Frontier.open, path, keep_leases=True, program="budgetfrontier import", disks=None)
    with contextlib.suppress(FrontierLocked), opened() as frontier:
        _apply(frontier, args, path, op, commands, counts, counts.entries.get((op, charge)))
    for size, details in commands:
        counts.unknown = size
        last = counts.entries.get((op, charge))
        entry = common.steer(args, op, details | continuing(last), patiently=True)
        counts.unknown = 0
        counts.count(entry)


def _apply(
    frontier: Frontier,
    args: argparse.Namespace,
    path: Path,
    op: str,
    commands: Iterable[_Sized],
    counts: Counts,
    last: AuditEntry | None,
) -> None:
    """Apply commands that continue an entry; count those that are committed, since an error takes the others back."""
    who, committed_at = args.who or whoami(), time.monotonic()
    done: list[tuple[int, AuditEntry]] = []
    try:
        for size, details in commands:
            counts.unknown += size
            entry = frontier.internals.apply(Command(op, details | continuing(last), who, args.reason))
            if entry.error is None:
                last = entry
                done.append((size, entry))
            else:
                counts.unknown -= size
                audit.check(entry)
            if time.monotonic() - committed_at >= COMMIT_EVERY:
                frontier.commit()
                _count_committed(done, counts)
                committed_at = time.monotonic()
        frontier.commit()
        _count_committed(done, counts)
    except BaseException:
        with contextlib.suppress(FrontierError, OSError):  # it is closed if the error was its own
            frontier.commit()
        with contextlib.suppress(FrontierError, OSError), Reader(path) as reader:
            _count_committed([one for one in done if _is_committed(reader, one[1])], counts)
        raise


def continuing(last: AuditEntry | None) -> dict[str, int]:
    """Return the argument by which a command continues the audit entry of the last one, if there was one."""
    return {} if last is None else {"continues": last.id}


def _added_since(before: dict[str, Any], effect: dict[str, Any]) -> Tally:
    """Return what a command has added to the effect of the entry that it continues."""
    was, found = _to_tally(before), _to_tally(effect)
    return Tally(
        added=found.added - was.added,
        duplicate=found.duplicate - was.duplicate,
        full=found.full - was.full,
        invalid=found.invalid - was.invalid,
        reasons=dict(Counter(found.reasons) - Counter(was.reasons)),
    )


def _is_committed(reader: Reader, entry: AuditEntry) -> bool:
    """Return whether an entry, or one that has continued it, is in the audit as of the last commit."""
    found = reader.audit_entry(entry.id)
    return found is not None and found.when == entry.when and found.args["uris"] >= entry.args["uris"]


def _count_committed(done: list[tuple[int, AuditEntry]], counts: Counts) -> None:
    """Count commands, and empty the list of them."""
    for size, entry in done:
        counts.unknown -= size
        counts.count(entry)
    done.clear()


def submit_to_cluster(
    cluster: ClusterFrontier, op: str, records: Iterator[Record], counts: Counts, *, charge: bool
) -> None:
    """Send URIs to the partitions of a crawl, in chunks, each part of which counts once it is answered.

    The audit has nothing of it.
    """
    for chunk in _chunks(records):
        given, tally = [record.uri for record in chunk], Tally()
        counts.unknown = len(given)
        try:
            if op == "schedule":
                cluster.schedule_many(given, tally=tally, brought=True)
            else:
                cluster.mark_seen(given, charge=charge, tally=tally)
        finally:
            counts.unknown -= tally.added + tally.duplicate + tally.full + tally.invalid
            counts.add(op, tally)


def as_argument(uri: CrawlUri) -> str | dict[str, Any] | bytes:
    """Return a URI as an argument of a command: its URL, its fields, or its record if `meta` is not JSON."""
    if lists.is_bare(uri):
        return uri.url
    fields = lists.fields(uri)
    return fields if lists.is_json(fields.get("meta")) else msgspec.msgpack.encode(uri)


def _arguments(op: str, chunk: list[Record], *, charge: bool, in_place: bool) -> dict[str, Any]:
    """Return the arguments of a command that takes records; `in_place` is of use where URLs are kept."""
    arguments: dict[str, Any] = {"uris": [as_argument(record.uri) for record in chunk]}
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
