"""The audit: who changed what, when and why, the newest first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import replace

from budgetfrontier.core.effect_words import command_in_words
from budgetfrontier.engine.commands.undo_checks import FORCE, place_in_list
from budgetfrontier.reports import adjustment_outcomes
from budgetfrontier.reports.audit_inverses import keeps, kept_row
from budgetfrontier.reports.audit_sentences import sentence
from budgetfrontier.reports.format import clean
from budgetfrontier.reports.frontier_reads import BRIEF_ENTRIES
from budgetfrontier.reports.operators import AuditRow, CrawlOperator
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.tools.console.forms import duration
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import NotThere, Query
from budgetfrontier.tools.console.rendering import as_sentence

AT_ONCE = 20_000
"""Queues that are read, at the most, for what has followed the adjustments of a page; each reads all. Others link."""
MOST_ROWS = 100_000
"""Rows before a page of a crawl in partitions, at the most."""


class NoUndo(NamedTuple):
    """The refusal of an undo."""

    refusal: str

    @property
    def why(self) -> str:
        """The reason as a sentence."""
        return as_sentence(self.refusal.removesuffix(f"; {FORCE}"))

    @property
    def can_be_forced(self) -> bool:
        """Whether force overrules it."""
        return self.refusal.endswith(FORCE)


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of entries, or one entry in full. Pages of a job begin at an id, those of partitions at a row.

    `kept`: only those that have kept something for undo, which is there yet. `older_than`: only those of this age.
    """
    before = query.number("before", 0, most=1 << 62) if job.is_folder else 0
    start = 0 if job.is_folder else query.number("start", 0, most=MOST_ROWS)
    only = str(query.number("id", 0, most=1 << 62) or "") if job.is_folder else query.text("id")
    command, who, text = command_in_words(query.text("command")), query.text("who"), query.text("q")
    counts = job.sample_now().totals.queues
    kept, older = query.flag("kept"), query.text("older_than")
    until = time.time() - (duration("older_than", older) if older else 0.0)
    queues, asked_for = sum(counts.values()) or 1, query.flag("outcome")
    looked_at: list[int] = []

    def matches(entry: AuditEntry) -> bool:
        looked_at.append(entry.id)
        if entry.when > until or (kept and not keeps(entry, until)):
            return False
        is_asked_for = command in ("", command_in_words(entry.command))
        return is_asked_for and who in ("", entry.who) and text in _all_of(entry, text)

    def read(operator: CrawlOperator) -> dict[str, Any]:
        following: dict[str, Any] | None = None
        if only:
            rows = [_one(operator, only)]
        else:
            all_rows = operator.audit(where=matches, before=before).rows
            found = [*islice((row for row in all_rows if row.inverse or not kept), start, start + query.rows + 1)]
            rows = found[: query.rows]
            if len(found) > query.rows:
                following = {"before": rows[-1].id} if job.is_folder else {"start": start + query.rows}
            elif job.is_folder and len(looked_at) == BRIEF_ENTRIES:
                following = {"before": looked_at[-1]}
        changes = [row for row in rows if "then" in row.entry.effect]
        no_undo = {name: NoUndo(why) for name, why in operator.undo_refusals(rows).items()}
        looked_up = len(changes) if asked_for else AT_ONCE // queues
        found_of = operator.outcomes(changes[:looked_up])
        return {
            "outcomes": {
                row.id: (
                    found_of[row.id],
                    as_sentence(adjustment_outcomes.sentence(found_of[row.id], row.entry.effect)),
                )
                for row in changes
                if row.id in found_of
            },
            "unread": {row.id for row in changes[looked_up:]},
            "promise": adjustment_outcomes.promise_of(rows[0].entry.effect) if only else None,
            "rows": [named_entry(row) for row in rows],
            "kept_rows": {
                row.id: kept_row(row.id, row.entry) for row in rows if row.inverse and keeps(row.entry, until)
            },
            "kept_bytes": operator.head().removed if kept else None,
            "undoable": {row.id for row in rows if row.inverse},
            "of_lists": set(_newest_of_lists(rows).values()),
            "no_undo": {row.id: no_undo[row.id] for row in rows if row.id in no_undo},
            "places": None if job.is_folder else {row.id: row.partitions for row in rows},
            "next": following,
            "in_progress": operator.in_progress(),
        }

    first: dict[str, Any] | None = {} if before or start else None
    asked: dict[str, Any] = {"only": only, "command": command, "who": who, "q": text, "kept_only": kept}
    asked |= {"older_than": older, "first": first}
    return asked | job.look(read)


def _newest_of_lists(rows: Sequence[AuditRow]) -> dict[str, Any]:
    """Return the id of the newest adjustment of each list that can be undone, by the name of the list."""
    return {name: row.id for row in reversed(rows) if row.inverse for name in place_in_list(row.entry)[:1]}


def _one(operator: CrawlOperator, name: str) -> AuditRow:
    """Return the entry with an id. Raises NotThere."""
    before = int(name) + 1 if name.isascii() and name.isdecimal() and len(name) < 20 else 0
    row = next((row for row in operator.audit(before=before).rows if str(row.id) == name), None)
    if row is None:
        raise NotThere(f"There is no entry {clean(name[:40])} in the audit.")
    return row


def named_entry(row: AuditRow) -> AuditEntry:
    """Return an entry with its name in the whole crawl as its id."""
    return replace(row.entry, id=row.id)


def _all_of(entry: AuditEntry, text: str) -> str:
    return f"{entry.reason} {entry.args} {entry.effect} {sentence(entry)}" if text else ""
