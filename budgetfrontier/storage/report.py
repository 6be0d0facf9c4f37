"""The report on a frontier at one point in time, as plain data."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier.core.model import ROW_FIELDS, CrawlState, Process, QueueRecord, Summary
from budgetfrontier.rules import duplicates
from budgetfrontier.rules.verdict import Standing, Verdict, is_hung, verdict
from budgetfrontier.settings import Settings
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.group_listing import GroupsListed, listed
from budgetfrontier.storage.last_commit import LastCommit
from budgetfrontier.storage.queue_listing import queues
from budgetfrontier.storage.standing import standing
from budgetfrontier.storage.view import View


class BloomUse(msgspec.Struct):
    """The use of a Bloom filter: URIs recorded as seen, the most, and the error of a look-up now."""

    recorded: int
    expected: int
    error: float
    """The share of new URIs that are taken for seen; that of the settings once as many as expected are recorded."""
    bytes: int
    """The size of the filter in memory, and of its file."""


class Report(msgspec.Struct, kw_only=True):
    """A frontier at one point in time: its totals and a row per queue. `generated` is in epoch seconds."""

    format: int = 1
    crawl: str
    generated: float
    state: CrawlState
    pause_reason: str | None
    totals: Summary
    queues: list[QueueRecord]
    standing: Standing
    """The process that runs it, and the facts that the verdict is made from."""
    removed: int = 0
    """Bytes on disk of deleted records, kept for `undo`."""
    bloom: BloomUse | None = None
    """The use of the Bloom filter; None without `duplicates: bloom`."""
    groups: GroupsListed = msgspec.field(default_factory=GroupsListed)
    """The groups of queues, the fullest first."""

    @property
    def verdict(self) -> Verdict:
        """Whether the crawl goes on, or why not, in one sentence."""
        return verdict(self.standing)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Report:
        """Return the report of the frontier at `path` as of its last commit, running or not."""
        with closing(LastCommit(path)) as source, source.view() as view:
            return report(view, source.path, generated=time.time())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as `report --format json` prints it."""
        return {
            "format": self.format,
            "crawl": self.crawl,
            "generated": self.generated,
            "state": self.state.value,
            "pause_reason": self.pause_reason,
            "process": process_fields(self.standing),
            "verdict": self.verdict.to_dict(),
            "removed_bytes": self.removed,
            "bloom": msgspec.to_builtins(self.bloom),
            "totals": msgspec.to_builtins(self.totals),
            "groups": msgspec.to_builtins(self.groups),
            "queues": [row(queue) for queue in self.queues],
        }


def process_fields(standing: Standing) -> dict[str, Any]:
    """Return the process of a crawl as plain data."""
    process, stop = standing.process, standing.process.last_stop
    fields = {name: getattr(process, name) for name in process.__struct_fields__}
    fields["hung"] = process.alive and is_hung(standing)
    fields["last_stop"] = None if stop is None else {"time": stop.ended, **msgspec.to_builtins(stop)}
    return fields


def row(queue: QueueRecord) -> dict[str, Any]:
    """Return a queue as a row of plain data, in the order of ROW_FIELDS."""
    values = {name: getattr(queue, name) for name in ROW_FIELDS}
    values["state"] = queue.state.value
    return values


def status_line(totals: Summary) -> str:
    """Return Heritrix's one-line summary, which scripts parse: the state of the crawl, and the queues by state."""
    q = totals.queues
    active = q["READY"] + q["IN_PROCESS"] + q["SNOOZED"]
    return (
        f"{totals.state} - {sum(q.values())} URI queues: {active} active ({q['IN_PROCESS']} in-process; "
        f"{q['READY']} ready; {q['SNOOZED']} snoozed); {q['INACTIVE']} inactive; "
        f"{q['INELIGIBLE']} ineligible; {q['RETIRED']} retired; {q['EXHAUSTED']} exhausted"
    )


def report(view: View, path: Path, *, generated: float, running: Process | None = None) -> Report:
    """Return the report on the whole frontier at `path`. O(queues). An engine names itself as `running`."""
    whole = report_head(view, path, generated=generated, running=running)
    whole.queues.extend(queues(view))
    whole.groups = listed(view, generated)
    return whole


def report_head(view: View, path: Path, *, generated: float, running: Process | None = None) -> Report:
    """Return the report without rows. O(1)."""
    settings, _ = meta.read_settings(view.txn, view.db[keys.META])
    counters = view.counters()
    totals = view.summary(counters)
    return Report(
        crawl=settings.crawl if settings else "",
        generated=generated,
        state=totals.state,
        pause_reason=totals.pause_reason,
        totals=totals,
        queues=[],
        standing=standing(view, path, now=generated, totals=totals, running=running),
        removed=counters.removed,
        bloom=bloom_use(view, settings, totals.seen),
    )


def bloom_use(view: View, settings: Settings | None, recorded: int) -> BloomUse | None:
    """Return the use of the Bloom filter, if there is one; the newest fingerprints are not in it yet."""
    if settings is None or settings.frontier.duplicates != duplicates.BLOOM:
        return None
    row, bloom = meta.read_filter(view.txn, view.db[keys.META]), settings.frontier.bloom
    bits, hashes = duplicates.bloom_size(bloom.expected, bloom.error)
    error = duplicates.bloom_error(0 if row is None else row.number, bits, hashes)
    return BloomUse(recorded, bloom.expected, error, bits // 8)
