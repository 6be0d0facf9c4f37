"""`import`: schedule the URIs of sources in a job, running or stopped, and report the results."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.engine.admission.storable import MAX_RECORD
from budgetfrontier.engine.commands.mailbox import Command, checked
from budgetfrontier.engine.remote import refuse_a_copy
from budgetfrontier.errors import FrontierError, InvalidUrl
from budgetfrontier.reports.format import clean, counted, without_password
from budgetfrontier.reports.operators import refuse_if_terminated
from budgetfrontier.reports.totals import refused_in
from budgetfrontier.rules.requests import are_hops, request_objection
from budgetfrontier.tools import importers as formats
from budgetfrontier.tools.cli import common, exits, submission
from budgetfrontier.tools.cli.sentences import note, say
from budgetfrontier.tools.cli.submission import Counts, as_argument
from budgetfrontier.tools.importers import lists
from budgetfrontier.tools.importers.allowance import Allowance, RecordTooLarge
from budgetfrontier.tools.importers.import_items import BadRecord, Item, Record, SourceNote

if TYPE_CHECKING:
    from budgetfrontier.cluster.operators.cluster_operator import ClusterOperator
    from budgetfrontier.tools.cli.seed_import import SeedAdjustments

MAX_DETAIL = 300
"""Characters shown of the details of a bad record."""
PROGRESS_INTERVAL = 10.0
"""Seconds between two messages that say how far an import has come."""
_UNCHECKED = (
    "not looked for in a dry run: URIs that are known already, and limits that leave no room for some (max_queued, "
    "max_queue_size, bloom.expected)"
)
_FULL = (
    "there was no room for some of the seeds: they are not in the crawl. The adjustments are in force for their queues "
    "all the same; raise the limit and import them again, or take an adjustment back with `undo`"
)
MAX_REPORTED = 20
"""Bad records with the same reason that are reported one by one."""


@dataclass
class SourceResult:
    """The result of importing one source."""

    name: str
    counts: Counts = field(default_factory=Counts)
    omitted: Counter[str] = field(default_factory=Counter)
    """Fields that a frontier cannot hold, and how many records have them."""
    reported: Counter[str] = field(default_factory=Counter)
    usable: int = 0
    """Records that were submitted to the frontier."""
    broken: bool = False
    """Whether the source could not be read to its end."""
    adjusted: bool = True
    """Whether the budgets and sheets of its seeds are in force everywhere."""
    reported_at: float = field(default_factory=time.monotonic)

    def progress(self) -> None:
        """Report how many URIs were read, once in PROGRESS_INTERVAL."""
        now = time.monotonic()
        if now - self.reported_at >= PROGRESS_INTERVAL:
            self.reported_at = now
            note(clean(f"{self.name}: {self.usable:,} so far"))

    def refuse(self, bad: BadRecord) -> None:
        """Count a bad record, and report it unless many with the same reason were reported."""
        self.counts.tally.refuse(bad.reason)
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


class ImportTotals:
    """The totals of all sources."""

    def __init__(self) -> None:
        self.counts, self.usable, self.complete = Counts(), 0, True

    def show(self, form: str, *, dry_run: bool) -> None:
        """Print the counts; of a dry run, the number of records that could be imported."""
        total, seen, dead = self.counts.tally, self.counts.seen, self.counts.dead
        if form == "json" and dry_run:
            note(_UNCHECKED)
            counts = {"readable": self.usable, "seen": seen, "invalid": total.invalid, "reasons": total.reasons}
            print(json.dumps(counts))
            return
        if form == "json":
            counts = {name: getattr(total, name) for name in ("added", "duplicate", "invalid", "full", "reasons")}
            print(json.dumps(counts | {"seen": seen, "dead": dead, "audit": self.counts.audit}))
            return
        if dry_run:
            note(_UNCHECKED)
            told = [f"{self.usable:,} can be imported", *([f"{seen:,} of them as seen"] if seen else [])]
            print(f"dry run, nothing was changed: {', '.join([*told, refused_in(total)['invalid']])}")
            return
        told = [f"added {total.added:,}", f"duplicate {total.duplicate:,}", *refused_in(total).values()]
        told += [f"marked as seen {seen:,}"] if seen else []
        say(", ".join([*told, f"dead letters {dead:,}"] if dead else told))


def run(args: argparse.Namespace, cluster: ClusterOperator | None = None) -> int:
    """Import all sources and print the counts. A bad record stops nothing: it is counted and reported.

    `cluster` is the crawl in partitions into which they are imported, if it is one.
    Return ERROR if a file or folder could not be read to its end or has no URI, or if there was no URI at all. When an
    error is raised, or Ctrl-C has been pressed, the counts so far are printed first.
    """
    if args.key is not None and not all(map(formats.is_redis, args.sources)):
        args.parser.error("--key is the name of a queue in Redis; give redis://HOST as the source")
    if (unknown := next(filter(_is_elsewhere, args.sources), None)) is not None:
        args.parser.error(
            f"{without_password(unknown)}: give http or https URLs, files and folders with URLs, or redis://HOST"
        )
    if cluster is None:
        with common.job_operator(args) as job:
            refuse_a_copy(job.reader)
            refuse_if_terminated(job, "schedule")
    else:
        refuse_if_terminated(cluster, "schedule")
    totals = ImportTotals()
    for number, source in enumerate(args.sources):
        result = SourceResult(without_password(source), Counts(entries=totals.counts.entries))
        try:
            _import_source(args, source, result, cluster)
        except (Exception, KeyboardInterrupt):
            if number or result.usable:
                _add(totals, result)
                totals.show(args.format, dry_run=args.dry_run)
                _note_uncounted(result.counts.unknown, again=not args.force)
            raise
        _add(totals, result)
    totals.show(args.format, dry_run=args.dry_run)
    if args.seeds and totals.counts.tally.duplicate and not args.force:
        note("duplicates were seen before: they are listed as seeds, and not fetched again unless you add --force")
    if totals.counts.tally.added and cluster is None:
        common.note_if_stopped(args)
    return exits.OK if totals.complete and totals.usable else exits.ERROR


def _add(totals: ImportTotals, result: SourceResult) -> None:
    totals.counts.merge(result.counts)
    totals.usable += result.usable
    whole = _is_url(result.name) or (bool(result.usable) and not result.broken)
    totals.complete = totals.complete and whole and result.adjusted


def _note_uncounted(count: int, *, again: bool) -> None:
    """Say how many URIs are not counted because the last command with some has not ended."""
    if count:
        twice = "; importing the same again adds nothing twice" if again else ""
        note(f"not counted: {counted(count, 'URI')} sent last, which may have been added, or may still be{twice}")


def _is_url(source: str) -> bool:
    """Return whether a source is itself a URL, not a file."""
    return source.lower().startswith(("http://", "https://"))


def _is_elsewhere(source: str) -> bool:
    """Return whether a source is a URL of a scheme that cannot be imported."""
    return "://" in source and not (_is_url(source) or formats.is_redis(source) or Path(source).exists())


def _import_source(
    args: argparse.Namespace, source: str, result: SourceResult, cluster: ClusterOperator | None
) -> None:
    """Schedule the URIs of one source, or mark them as seen, and report the results."""
    is_url = _is_url(source)
    if is_url:
        items: Iterable[Item] = [_url(source, of_seeds=args.seeds)]
    else:
        items = formats.read(source, args.kind, key=args.key, of_seeds=args.seeds)
    with _seed_adjustments(args, cluster) as seeds:
        records = _records(items, result, args, seeds)
        if args.dry_run:
            result.counts.seen = sum(record.seen for record in records)
            result.end(dry_run=True)
            if seeds is not None:
                seeds.apply(args)
            return
        if seeds is None:
            _submit(args, records, result, cluster)
        else:
            first: list[Record] = []
            _submit(args, _until_adjusted(records, first), result, cluster)
            if first:  # their adjustments come before them
                rest = [*first, *records]
                result.adjusted = seeds.apply(args)
                result.counts.entries.clear()  # the audit has what follows behind them
                _submit(args, iter(rest), result, cluster)
            if first and result.counts.tally.full:
                note(_FULL)
    counts, tally = result.counts, result.counts.tally
    if not is_url:
        result.end(dry_run=False)
    elif not tally.invalid:  # otherwise it was reported already
        became = "added" if tally.added else "seen" if counts.seen else "full" if tally.full else "duplicate"
        note(f"{source}: {became}")


@contextmanager
def _seed_adjustments(args: argparse.Namespace, cluster: ClusterOperator | None) -> Iterator[SeedAdjustments | None]:
    """Return the adjustments of the seeds that are imported; None if they are no seeds."""
    if not args.seeds:
        yield None
        return
    from budgetfrontier.tools.cli.seed_import import SeedAdjustments

    if cluster is not None:
        yield SeedAdjustments(cluster, None)
        return
    from budgetfrontier.tools.job_operator import JobOperator

    with JobOperator(args.job, common.frontier_path(args.job), timeout=None) as operator:
        with operator.reader.view() as view:
            suffix_list = view.suffix_list()
        seeds = SeedAdjustments(operator, suffix_list)
        operator.close()
        yield seeds


def _until_adjusted(records: Iterator[Record], first: list[Record]) -> Iterator[Record]:
    """Yield records until one has a budget or a sheet; append that to `first`."""
    for record in records:
        if record.given and not record.given.keys().isdisjoint(("budget", "sheet")):
            first.append(record)
            return
        yield record


def _submit(
    args: argparse.Namespace, found: Iterable[Record], result: SourceResult, cluster: ClusterOperator | None
) -> None:
    """Schedule records, mark them as seen, or make them dead letters."""
    for (op, charged), records in groupby(found, lambda r: (_operation(r), r.charged)):
        if cluster is None:
            path = common.frontier_path(args.job)
            submission.submit(args, path, op, records, result.counts, charge=charged)
        elif op == "bury":
            raise FrontierError(f"{result.name} has dead letters, which cannot be imported into a crawl in partitions")
        else:
            submission.submit_to_cluster(cluster.owners.frontier, op, records, result.counts, charge=charged)


def _operation(record: Record) -> str:
    """Return the command that takes a record."""
    return "mark_seen" if record.seen else "schedule" if record.dead is None else "bury"


def _url(source: str, *, of_seeds: bool) -> Item:
    return lists.item(f"{source}:1", os.fsencode(source), Allowance(), of_seeds=of_seeds)


def _records(
    items: Iterable[Item], result: SourceResult, args: argparse.Namespace, seeds: SeedAdjustments | None = None
) -> Iterator[Record]:
    """Yield the records that can be imported; report the others. `seeds` takes the budgets and sheets of seeds."""
    for item in items:
        if isinstance(item, SourceNote):
            note(clean(item.text))
        elif isinstance(item, BadRecord):
            result.refuse(item)
        else:
            try:
                href = uris.parse(item.uri.url)
                uri = lists.as_seed(item.uri, href) if args.seeds else item.uri
                _check(uri)
            except InvalidUrl as error:
                result.refuse(BadRecord(item.location, error.reason, f"not an http or https URL ({error})"))
            except RecordTooLarge as error:
                result.refuse(BadRecord(item.location, "too-large", str(error)))
            except (ValueError, OverflowError, FrontierError) as error:
                result.refuse(BadRecord(item.location, _category(item.uri), str(error)))
            else:
                if seeds is not None and (refused := seeds.add(item)) is not None:
                    result.refuse(BadRecord(f"{item.location}:{refused[0]}", "setting", refused[1]))
                    continue
                result.usable += 1
                result.progress()
                result.omitted.update(item.omitted)
                uri = msgspec.structs.replace(uri, force=uri.force or args.force)
                yield item._replace(uri=uri, seen=item.seen or args.seen)


def _check(uri: CrawlUri) -> None:
    """Raise the errors that `_records` reports for a URI that the mailbox, the frontier or the crawler would refuse."""
    if objection := request_objection(uri):
        raise ValueError(objection)
    if not are_hops(uri.hops):
        raise ValueError(f"hops: expected letters A-Z, got {uri.hops[:40]!r}")
    if uri.meta is not None:
        checked(Command("schedule", {"uris": [as_argument(uri)]}, "", ""))
    size = len(msgspec.msgpack.encode(uri))  # raises for text that is not UTF-8 and for numbers over 64 bits
    if size > MAX_RECORD:
        raise RecordTooLarge(f"{size:,} bytes with all its fields; a frontier accepts at most {MAX_RECORD:,}")


def _category(uri: CrawlUri) -> str:
    """Return the category of a URI that cannot be imported, by what is wrong with it."""
    if not are_hops(uri.hops):
        return "hops"
    return "request" if request_objection(uri) else "json"
