"""The copies of what a frontier has counted besides its totals: of runs, times, queues, hosts, labels and domains."""

from __future__ import annotations

from math import isfinite

from budgetfrontier.core.model import FetchStats, QueueAnswers
from budgetfrontier.core.vocabulary import ANSWERS
from budgetfrontier.rules import queue_answers, queue_history, star
from budgetfrontier.storage import keys
from budgetfrontier.storage.records import (
    LinksRow,
    decode_answers,
    decode_links,
    decode_run,
    decode_tally,
    tally_objection,
    tally_of,
)
from budgetfrontier.storage.repair.findings import Findings
from budgetfrontier.storage.repair.record_copies import RecordCopies
from budgetfrontier.storage.series import check_row


class CountsRebuild:
    """The rebuild of these tables, once the keys of all queues are known. The sums go into the findings."""

    def __init__(self, copies: RecordCopies, found: Findings) -> None:
        self._copies, self._findings = copies, found

    def run(self) -> None:
        """Copy the rows that can be read, and count in-degrees again."""
        self._copies.copy(keys.RUNS, _check_run)
        self._copies.copy(keys.SERIES, check_row)
        for number, charged in self._copies.copied(keys.HISTORY, self._history):
            self._findings.attempts[number] = charged
        self._note_loss(keys.HISTORY, "some is lost; that of its queues begins anew")
        for answers in self._copies.copied(keys.ANSWERS, self._answers):
            self._findings.answers.update(dict(zip(ANSWERS, answers.classes, strict=True)))
        self._note_loss(keys.ANSWERS, "some are lost; those of their queues are counted anew")
        for kind, name, stats in self._copies.copied(keys.TALLIES, self._tally):
            self._findings.successes[kind] += stats.successes
            self._findings.errors[kind] += stats.errors
            if kind == "queue":
                self._findings.fetched_bytes[name] = stats.bytes
        self._note_loss(keys.TALLIES, "some are lost; the quotas of their hosts, queues, groups or labels begin anew")
        for links in self._copies.copied(keys.LINKS, self._links):
            self._findings.degrees[links.degree] += 1
            self._findings.rankings = max(self._findings.rankings, links.changed_after)
        for degree, number in sorted(self._findings.degrees.items()):
            self._copies.tables.put(keys.DEGREES, keys.u32.pack(degree), keys.u32.pack(number))
        self._note_loss(keys.LINKS, "some are lost; the budgets of their domains by links begin anew")

    def _note_loss(self, table: str, what: str) -> None:
        if self._copies.source.lacks(table):
            self._copies.notes.note_change(f"{table}: {what}")

    def _number(self, key: bytes) -> int:
        """Return the id of a queue. Raises ValueError if there is none with it."""
        number: int = keys.u32.unpack(key)[0]
        if number not in self._findings.names:
            raise ValueError("there is no such queue")
        return number

    def _history(self, key: bytes, value: bytes) -> tuple[int, int]:
        row = keys.history.unpack(value)
        if why := queue_history.objection(row):
            raise ValueError(why)
        return self._number(key), queue_history.charged(row)

    def _answers(self, key: bytes, value: bytes) -> QueueAnswers:
        row = decode_answers(value)
        if why := queue_answers.objection(row):
            raise ValueError(why)
        self._number(key)
        return row

    def _tally(self, key: bytes, value: bytes) -> tuple[str, str, FetchStats]:
        (kind, name), stats = tally_of(key), decode_tally(value)
        if why := tally_objection(stats):
            raise ValueError(why)
        if kind == "queue" and name not in self._findings.ids:
            raise ValueError("there is no such queue")
        return kind, name, stats

    def _links(self, key: bytes, value: bytes) -> LinksRow:
        key.decode()
        row, stored = decode_links(value), self._findings.stored
        if why := star.objection(row):
            raise ValueError(why)
        if stored is not None and row.changed_after > stored.rankings:
            raise ValueError("it changed after a ranking that never was")
        return row


def _check_run(key: bytes, value: bytes) -> None:
    keys.u32.unpack(key)
    run = decode_run(value)
    if not isfinite(run.began) or not isfinite(run.ended):
        raise ValueError("its times are not valid")
