"""The output of commands that look at a queue, a URL or the audit, whether of a job or of a crawl in partitions."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.effect_words import PACE, command_in_words, pace_in_words
from budgetfrontier.core.units import format_time
from budgetfrontier.core.vocabulary import ROW_FIELDS
from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.sentences import note, say

if TYPE_CHECKING:
    from budgetfrontier.core.model import QueueRecord
    from budgetfrontier.reports.adjustment_outcomes import AdjustmentOutcome
    from budgetfrontier.reports.explanation import Explanation
    from budgetfrontier.reports.operators import AuditRow, CrawlOperator
    from budgetfrontier.storage.group_listing import GroupRow
    from budgetfrontier.storage.quota_use import QuotaUse
    from budgetfrontier.storage.view import PendingUri

PENDING_COLUMNS = ("place", "cost", "precedence", "priority", "directive", "attempts", "deliveries", "leased", "url")
PATTERN_COLUMNS = ("uris", "share", "pattern", "example")
PENDING_DROP = ("deliveries", "precedence", "priority", "directive", "attempts", "leased")
AUDIT_COLUMNS = ("id", "when", "command", "who", "reason", "args", "effect", "error", "line", "inverse")
_AUDIT_TEXT = ("id", "when", "command", "who", "reason", "what", "line", "inverse")
"""The columns of the audit for people: a sentence instead of the arguments, the effect and the error."""
_TIMES = ("wake_time", "last_lease_time", "failed_at", "overloaded_until", "group.wake_time")


def missing_partitions(operator: CrawlOperator) -> dict[str, Any]:
    """Return the partitions that have not answered, for JSON; nothing for a job, which has none."""
    return {"missing_partitions": sorted(operator.missing)} if operator.path is None else {}


def write_queue(
    args: argparse.Namespace,
    record: QueueRecord,
    items: Iterable[tuple[int, PendingUri]],
    group: GroupRow | None = None,
    quotas: Sequence[QuotaUse] = (),
) -> None:
    """Print a queue with its group and quotas, and some of its URIs with their places."""
    from budgetfrontier.reports import listings
    from budgetfrontier.reports.format import clean, limit_in_words
    from budgetfrontier.reports.layout import layout_for, shortened
    from budgetfrontier.storage.report import row as report_row

    pending = [
        {
            "place": place,
            "cost": item.cost,
            "precedence": item.uri.precedence,
            "priority": item.uri.priority,
            "directive": item.uri.directive.name,
            "attempts": item.attempts,
            "deliveries": item.deliveries,
            "leased": item.leased,
            "url": item.uri.url,
        }
        for place, item in items
    ]
    row = report_row(record)
    names = ("future", "out", "penalties", "by_name", "failure", "failed_at", "interval", "max_completed", "completed")
    more = {name: getattr(record, name) for name in names}
    shared = {} if group is None else {name: getattr(group, name) for name in group.__struct_fields__}
    if args.format == "json":
        from msgspec import to_builtins

        rest = {"group": shared or None, "quotas": to_builtins(quotas), "pending": pending}
        json.dump(row | more | rest, sys.stdout, indent=1)
        sys.stdout.write("\n")
    elif args.format == "csv":
        listings.write([listings.queue_row(record)], ROW_FIELDS, sys.stdout, format="csv")
    else:
        layout = layout_for(sys.stdout, wide=args.wide)
        of_group = {name if name == "group" else f"group.{name}": value for name, value in shared.items()}
        of_quotas = {f"quotas.{use.kind}.{use.amount}": f"{use.used:,} of {use.limit:,} ({use.name})" for use in quotas}
        for name, value in (row | more | of_group | of_quotas).items():
            if name == "wake_time" and value <= time.time():
                value = 0.0  # it waits for nothing
            shown = _when(value) if name in _TIMES else f"{value:.1f}" if isinstance(value, float) else value
            if name.rpartition(".")[2] == "total_budget" and value is not None:
                shown = limit_in_words(value)
            if name in PACE:
                shown = pace_in_words(name, value)
            text = "-" if shown is None else clean(str(shown)) or "-"
            print(f"{name + ':':25} {text if layout.width is None else shortened(text, layout.width - 26)}")
        if pending:
            print()
            common.write_rows(args, map(itemgetter(*PENDING_COLUMNS), pending), PENDING_COLUMNS, drop=PENDING_DROP)
        if record.queued > len(pending):
            say(f"...and {record.queued - len(pending):,} more")


def write_patterns(args: argparse.Namespace, record: QueueRecord, sample: Sequence[PendingUri]) -> None:
    """Print the patterns of the paths of a queue, of a sample of its URIs, the most frequent first."""
    from budgetfrontier.reports.format import clean, percent
    from budgetfrontier.reports.path_patterns import path_patterns
    from budgetfrontier.reports.queue_sample import WALKED

    found = path_patterns((item.uri.url for item in sample), args.limit)
    rows = ((one.urls, percent(one.urls / len(sample)), one.pattern, one.example) for one in found)
    common.write_rows(args, rows, PATTERN_COLUMNS)
    if not sample:
        note(f"{clean(record.queue)} holds no URI, and so has no patterns")
    if len(sample) < record.queued:
        margin = percent(0.98 / len(sample) ** 0.5)  # the widest of 95 of 100 such samples, for a share of a half
        exact = f"a share of all URIs is within {margin} of the one here, 19 times of 20"
        after = f"those after the first {WALKED:,} are found by their keys, so that shares are only roughly true"
        note(
            f"from {len(sample):,} of {record.queued:,} URIs, at random places all over the queue: urls counts those, "
            f"and {exact if record.queued <= WALKED else after}"
        )


def write_explanation(args: argparse.Namespace, answer: Explanation) -> None:
    """Print an explanation."""
    from budgetfrontier.reports.layout import layout_for

    if args.format == "json":
        json.dump(answer.to_dict(), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        layout = layout_for(sys.stdout, wide=False)
        for line in answer.text().splitlines():
            print(*layout.wrapped(line, "     "), sep="\n")


def write_audit(
    args: argparse.Namespace,
    entries: Sequence[AuditRow],
    *,
    with_partitions: bool,
    outcomes: Mapping[int | str, AdjustmentOutcome] | None = None,
) -> None:
    """Print entries of the audit with their inverses, how each covers a queue, where it was applied, what followed."""
    from msgspec import structs

    from budgetfrontier.reports import adjustment_outcomes
    from budgetfrontier.reports.audit_sentences import sentence

    if not entries:
        note("no entry matches")
    covers = () if args.queue is None else ("covers",)
    where = ("partitions",) if with_partitions else ()
    followed = () if outcomes is None else ("outcome",)

    def outcome(one: AuditRow) -> object:
        found = (outcomes or {}).get(one.id)
        if found is None or args.format == common.JSON:
            return None if found is None else structs.asdict(found)
        return adjustment_outcomes.sentence(found, one.entry.effect)

    def row(one: AuditRow) -> tuple[object, ...]:
        entry = one.entry
        head: tuple[object, ...]
        if args.format == "text":
            command = command_in_words(entry.command)
            head = (one.id, _when(entry.when), command, entry.who, entry.reason, sentence(entry))
        else:
            head = (one.id, entry.when, entry.command, entry.who, entry.reason, entry.args, entry.effect, entry.error)
        tail: tuple[object, ...] = ((one.covers,) if covers else ()) + ((one.partitions,) if where else ())
        tail += (outcome(one),) if followed else ()
        return (*head, entry.line, one.inverse, *tail)

    columns = _AUDIT_TEXT if args.format == "text" else AUDIT_COLUMNS
    common.write_rows(args, map(row, entries), (*columns, *covers, *where, *followed), drop=("line", "inverse", *where))


def _when(epoch: float) -> str:
    """Format a stored time as UTC to the second, or "-" for never."""
    return format_time(epoch) if epoch else "-"
