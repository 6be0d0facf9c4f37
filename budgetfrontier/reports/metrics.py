"""The metrics of frontiers for Prometheus, read at each scrape (the extra "console").

All are as of the last commit: none has a label for each queue, or for each group of a `by`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from budgetfrontier.core.model import Admission, CrawlState, Summary
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.format import clean
from budgetfrontier.rules.verdict import Standing, Verdict, verdict
from budgetfrontier.storage import group_listing
from budgetfrontier.storage.disks import free_bytes
from budgetfrontier.storage.group_listing import GroupRow
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.report import Report
from budgetfrontier.storage.space import Space
from budgetfrontier.storage.standing import standing

PREFIX = "budgetfrontier_"
FRESH = 1.0
"""Seconds for which a reading is good."""
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
_LABELS = ("crawl", "folder")

COUNTERS = {
    "scheduled": ("urls_enqueued", "URIs ever admitted."),
    "found": ("urls_found", "The part of them that crawling has found, not seeds and imports."),
    "duplicates": ("urls_duplicate", "URIs refused because they were known."),
    "succeeded": ("urls_succeeded", "URIs finished with SUCCESS."),
    "failed": ("urls_failed", "URIs finished with FAILURE."),
    "retried": ("urls_retried", "Attempts that ended with RETRY."),
    "deferred": ("urls_deferred", "Attempts that ended with DEFERRED."),
    "disregarded": ("urls_disregarded", "URIs finished with DISREGARDED."),
    "expenditure": ("spend", "What all queues have spent, penalties included."),
    "succeeded_expenditure": ("spend_succeeded", "What attempts that ended with SUCCESS were charged."),
    "failed_expenditure": ("spend_failed", "What attempts that ended with FAILURE were charged, penalties included."),
    "retried_expenditure": ("spend_retried", "What attempts that ended with RETRY were charged."),
    "given_up_expenditure": ("spend_given_up", "What attempts that made dead letters were charged."),
    "other_expenditure": ("spend_other", "What was charged without an attempt, or before outcomes were told apart."),
    "penalties": ("spend_penalties", "The penalties for errors in what was spent."),
    "bytes": ("bytes", "Bytes of the responses, as far as they were told."),
    "full": ("urls_full", "URIs refused because a limit was reached."),
    "invalid": ("urls_invalid", "URIs refused because they were not valid."),
    "given_up": ("urls_given_up", "Attempts that made dead letters: outcome DEAD."),
    "buried": ("urls_buried", "Dead letters ever made, by attempts and by deliveries that were lost."),
    "expired": ("leases_expired", "Leases that expired, or whose process died."),
    "robots_denials": ("robots_denials", "URIs that robots.txt forbade."),
    "quota_denials": ("quota_denials", "URIs that ended because a quota was used up."),
    "prerequisites": ("prerequisites", "Prerequisites that were finished for good."),
    "prerequisites_succeeded": ("prerequisites_succeeded", "Prerequisites finished with SUCCESS."),
    "answers_2xx": ("answers_2xx", "Attempts answered with a status of 200 to 299."),
    "answers_3xx": ("answers_3xx", "Attempts answered with a status of 300 to 399."),
    "answers_4xx": ("answers_4xx", "Attempts answered with a status of 400 to 499."),
    "answers_5xx": ("answers_5xx", "Attempts answered with a status of 500 to 599."),
    "unanswered": ("unanswered", "Attempts that failed without an answer."),
    "prerequisites_disregarded": ("prerequisites_disregarded", "Prerequisites finished with DISREGARDED."),
}
"""The totals that only grow, by their name in Summary; the names of their metrics end with `_total`."""
GAUGES = {
    "queued": ("urls_queued", "URIs pending in queues that are neither RETIRED nor INELIGIBLE, leased ones included."),
    "in_process": ("leases", "Leases not finished."),
    "future": ("urls_future", "URIs scheduled for later."),
    "dead": ("dead_letters", "Dead letters there are now."),
    "dead_prerequisites": ("dead_prerequisites", "The dead letters that are prerequisites, such as robots.txt files."),
    "deleted": ("urls_deleted", "URIs that were deleted, and not put back."),
    "dropped": ("urls_dropped", "URIs whose dead letters were dropped, and not put back."),
    "seen": ("seen", "Canonical forms known to deduplication."),
}
"""The totals that grow and shrink, by their name in Summary."""


_GROUPS = (
    ("group_spend", "What the queues of a group with a `match` have spent.", "expenditure"),
    ("group_budget", "Its total budget, -1 without one.", "total_budget"),
    ("group_parked", "Its queues that wait for it.", "parked"),
    ("group_leases", "Its fetches in flight.", "in_flight"),
)


class MetricsReading(NamedTuple):
    """The figures that one scrape reads of a frontier. Of a crawl in partitions, those that are None are not known."""

    crawl: str
    standing: Standing
    verdict: Verdict
    removed: int
    space: Space | None = None
    settings_revision: int | None = None
    free: int | None = None
    groups: int | None = None
    matched: Sequence[GroupRow] = ()
    """The groups of definitions with a `match`; those of a `by` may be as many as queues."""
    partitions_missing: int | None = None
    """Partitions that do not answer, whose figures are those that were published; None: the crawl is not in partitions.
    """


def read(reader: Reader) -> MetricsReading:
    """Read a frontier as of its last commit. O(definitions of groups). Raises the errors of Reader, and OSError."""
    space = reader.space()  # before the snapshot, which would be a reader, too
    free = free_bytes(reader.path)
    with reader.view() as view:
        crawl, counters, now = view.settings()[0].crawl, view.counters(), time.time()
        found, matched = standing(view, reader.path, now=now), tuple(group_listing.matched(view, now))
    revision, groups = counters.settings_revision, counters.groups
    return MetricsReading(crawl, found, verdict(found), counters.removed, space, revision, free, groups, matched)


def of_partitions(report: Report, missing: int, before: Summary | None = None) -> MetricsReading:
    """Return the reading of a crawl in partitions from its report.

    Those that are `missing` may have been published before what was known of them in the totals `before`: counters that
    fall, and rise again, would count twice.
    """
    if before is not None:
        report.standing.totals = _not_below(before, report.standing.totals)
    return MetricsReading(report.crawl, report.standing, report.verdict, report.removed, partitions_missing=missing)


def _not_below(before: Summary, totals: Summary) -> Summary:
    """Return totals of which no counter is below what it was before."""
    parts: dict[str, Any] = {name: max(before[name], totals[name]) for name in COUNTERS}
    for name in ("error_answers", "full_reasons", "invalid_reasons"):
        parts[name] = dict(Counter(before[name]) | Counter(totals[name]))
    return replace(totals, **parts)


Sources = Mapping[str, Callable[[], MetricsReading]]
"""By the name of a job's folder, a function that reads its frontier, or raises a FrontierError or an OSError."""
Readings = Callable[[], Mapping[str, MetricsReading | None]]
"""Reads frontiers, by the names of their jobs' folders; None for an unreadable one."""


def of_sources(sources: Sources) -> Readings:
    """Return a reader of frontiers that this thread, or no other thread of this process, has open."""

    def read_all() -> dict[str, MetricsReading | None]:
        found: dict[str, MetricsReading | None] = dict.fromkeys(sources)
        for folder, read_one in sources.items():
            with suppress(FrontierError, OSError):
                found[folder] = read_one()
        return found

    return read_all


def of_job(folder: Path) -> Exposition:
    """Return the metrics of the job in a folder, and those of this process."""

    def read_job() -> MetricsReading:
        with Reader(folder / "frontier") as reader:
            return read(reader)

    return Exposition(of_sources({folder.resolve().name: read_job}), ProcessCollector(registry=None))


class Exposition:
    """The metrics of some frontiers, and more. They are read at most once a second for each format."""

    def __init__(self, readings: Readings, *more: Collector) -> None:
        self._registry = CollectorRegistry()
        for collector in (_Frontiers(readings), *more):
            self._registry.register(collector)
        self._bodies: dict[str, tuple[float, bytes]] = {}  # by format, with the time of the reading

    def answer(self, accepts: str = "") -> tuple[bytes, str]:
        """Return the metrics in the format of an Accept header, and their content type. O(jobs)."""
        format = OPENMETRICS if _accepts_openmetrics(accepts) else ""
        encode, kind = choose_encoder(format)
        read, body = self._bodies.get(format, (-FRESH, b""))
        if time.monotonic() - read >= FRESH:
            read, body = time.monotonic(), encode(self._registry)
            self._bodies[format] = read, body
        return body, kind


def _accepts_openmetrics(accepts: str) -> bool:
    """Return whether the version of OpenMetrics that there is is asked for. For others, prometheus_client may fail."""
    for one in accepts.split(","):
        kind, *options = (part.strip() for part in one.split(";"))
        versions = [option for option in options if option.startswith("version=")]
        if kind == "application/openmetrics-text" and versions in ([], ["version=1.0.0"]):
            return True
    return False


class _Frontiers(Collector):
    """A collector that reads frontiers. Unreadable ones have only the metric that says so."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def describe(self) -> Iterable[Metric]:
        """Return nothing: a registry that asks must not read the frontiers."""
        return ()

    def collect(self) -> Iterator[Metric]:
        readable = GaugeMetricFamily(
            f"{PREFIX}readable", "Whether the frontier could be read at this scrape.", labels=["folder"]
        )
        found: dict[str, MetricsReading] = {}
        for name, reading in self._readings().items():
            folder = clean(name)  # it need not be text
            if reading is not None:
                found[folder] = reading
            readable.add_metric([folder], float(reading is not None))
        yield readable
        yield from _families(found)


def _families(found: Mapping[str, MetricsReading]) -> Iterator[Metric]:
    """Yield all metrics of the frontiers that could be read."""

    def gauge(name: str, text: str, value: Callable[[MetricsReading], float | None]) -> Metric:
        family = GaugeMetricFamily(PREFIX + name, text, labels=_LABELS)
        for folder, one in found.items():
            if (number := value(one)) is not None:
                family.add_metric([one.crawl, folder], number)
        return family

    def labelled(
        name: str,
        text: str,
        labels: Iterable[str],
        rows: Callable[[MetricsReading], Mapping[tuple[str, ...], float]],
        kind: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily,
    ) -> Metric:
        family = kind(PREFIX + name, text, labels=[*_LABELS, *labels])
        for folder, one in found.items():
            for values, number in rows(one).items():
                family.add_metric([one.crawl, folder, *values], number)
        return family

    for field, (name, text) in COUNTERS.items():
        counter = CounterMetricFamily(PREFIX + name, text, labels=_LABELS)
        for folder, one in found.items():
            counter.add_metric([one.crawl, folder], _total(one, field))
        yield counter
    yield labelled(
        "urls_refused", "URIs refused, by result (FULL or INVALID) and reason.", ["result", "reason"], _refusals,
        CounterMetricFamily,
    )  # fmt: skip
    yield labelled(
        "urls_answered_error", "URIs finished with SUCCESS whose answer was an error, by its status.", ["status"],
        lambda one: {(clean(status),): float(n) for status, n in one.standing.totals.error_answers.items()},
        CounterMetricFamily,
    )  # fmt: skip
    for field, (name, text) in GAUGES.items():
        yield gauge(name, text, lambda one, field=field: _total(one, field))  # type: ignore[misc]
    yield labelled("queues", "Queues by state.", ["state"], _queues)
    yield labelled("crawl_state", "1 for the state of the crawl, 0 for all others.", ["state"], _states)
    yield labelled(
        "verdict_info", "Whether the crawl goes on, or why not; level is good, warn or bad.", ["slug", "level"],
        lambda one: {(one.verdict.slug, one.verdict.level): 1.0},
    )  # fmt: skip
    yield gauge("urls_retired", "URIs held in RETIRED and INELIGIBLE queues.", lambda one: one.standing.held)
    yield gauge(
        "process_alive", "Whether a process has the frontier open.", lambda one: float(one.standing.process.alive)
    )
    yield gauge(
        "last_commit_timestamp_seconds", "The time of the last commit, since the epoch.",
        lambda one: one.standing.process.last_commit,
    )  # fmt: skip
    yield gauge(
        "store_used_bytes", "Bytes of the data file up to its last page.", lambda one: one.space and one.space.used
    )
    yield gauge("store_removed_bytes", "Bytes that commands have kept for undo.", lambda one: one.removed)
    yield gauge("store_disk_free_bytes", "Bytes free on the disk of the frontier.", lambda one: one.free)
    yield gauge(
        "store_oldest_reader_txn_lag", "Commits since the oldest snapshot still read.",
        lambda one: one.space and one.space.reader_lag,
    )  # fmt: skip
    yield gauge("config_generation", "Revision of the settings in force.", lambda one: one.settings_revision)
    yield gauge("groups", "Groups of queues.", lambda one: one.groups)
    yield gauge("partitions_missing", "Partitions that do not answer.", lambda one: one.partitions_missing)
    for name, text, field in _GROUPS:
        yield labelled(name, text, ["group"], partial(_of_groups, field=field))


def _total(one: MetricsReading, field: str) -> float:
    totals: Summary = one.standing.totals
    return float(totals[field])


def _refusals(one: MetricsReading) -> dict[tuple[str, ...], float]:
    """Return how often URIs were refused. The reasons are a dozen at most: the limits, and slugs of this package."""
    totals: Summary = one.standing.totals
    both = (Admission.FULL, totals.full_reasons), (Admission.INVALID, totals.invalid_reasons)
    return {(result, clean(reason)): float(n) for result, reasons in both for reason, n in reasons.items()}


def _of_groups(one: MetricsReading, *, field: str) -> dict[tuple[str, ...], float]:
    return {(row.group,): float(getattr(row, field)) for row in one.matched}


def _queues(one: MetricsReading) -> dict[tuple[str, ...], float]:
    return {(state,): float(count) for state, count in one.standing.totals.queues.items()}


def _states(one: MetricsReading) -> dict[tuple[str, ...], float]:
    states = (state for state in CrawlState if state is not CrawlState.UNKNOWN)
    return {(str(state),): float(state is one.standing.totals.state) for state in states}
