"""The reports besides that of the frontier, Heritrix's and others: `report JOB --kind`, as text, JSON, CSV."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.vocabulary import LEASE_FIELDS
from budgetfrontier.reports.kinds import WITH_SINCE
from budgetfrontier.tools.cli import common, output
from budgetfrontier.tools.cli.sentences import note, say

if TYPE_CHECKING:
    from budgetfrontier.core.model import Summary
    from budgetfrontier.reports.operators import CrawlOperator
    from budgetfrontier.storage.records import QueueAmounts

_HOUR = 3600.0

AWAY = "seeds of partitions that do not answer are not listed"
_TEXT_ROWS = 20
_LABELS_DROP = ("novel_bytes", "novel", "waiting")
SCOPE = ("why", "urls", "share", "example")
SETTINGS = ("setting", "value", "default")
QUOTAS = ("share", "used", "limit", "amount", "kind", "name")
_GROUPS_DROP = ("in_degree", "quota_share", "bytes", "queues", "max_in_flight", "wake_in")
HOSTS_DROP = ("not_modified", "failures", "errors", "state", "expenditure")


class Rows:
    """A report: its columns, its rows, the columns that a terminal may leave out, and a sentence on unknown values.

    `told` is a sentence that says the most important of it, for text. `unknown` is asked for once the rows are read.
    `period` is the time that it is of (epoch seconds), if that is not exactly the time asked for.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        drop: Sequence[str] = (),
        unknown: str | Callable[[], str] = "",
        told: str = "",
        period: tuple[float, float] | None = None,
    ) -> None:
        self.columns, self.drop, self._unknown, self.told = columns, drop, unknown, told
        self.period = period
        self.rows = rows
        self.total: int | None = None
        """The number of rows, once they are read, if these are but the first that are asked for."""

    @property
    def unknown(self) -> str:
        """The sentence on unknown figures, as far as the rows were read."""
        return self._unknown if isinstance(self._unknown, str) else self._unknown()


def run(args: argparse.Namespace, operator: CrawlOperator) -> None:
    """Print the report of `args.kind`, which is not that of the frontier."""
    _check(args)
    made = _MAKERS[args.kind](args, operator)
    if args.format == "json":
        _write_json(args, made, operator)
    else:
        _write_rows(args, made)
    if made.unknown:
        sys.stdout.flush()
        note(made.unknown)


def _check(args: argparse.Namespace) -> None:
    """Exit for options that the kind of report does not have; --since alone is for rates."""
    if args.kind == "frontier":
        args.kind = "rates"
    if args.format == "html":
        args.parser.error(f"--kind {args.kind} is text, json or csv; html is for --kind frontier")
    if args.since is not None and args.kind not in WITH_SINCE:
        args.parser.error(f"--since is for --kind {', '.join(WITH_SINCE)}; this report is as of now")


def _limit(args: argparse.Namespace) -> int | None:
    """Return the most rows to print: --limit, or 20 in text, unless --all."""
    if args.all:
        return None
    if args.limit is not None:
        return int(args.limit)
    return _TEXT_ROWS if args.format == "text" else None


def _write_json(args: argparse.Namespace, made: Rows, operator: CrawlOperator) -> None:
    from budgetfrontier.reports import listings

    head = {
        "format": 1,
        "kind": args.kind,
        "crawl": operator.settings.crawl,
        "generated": time.time(),
        "since": args.since,
        "rows": [],
    }
    with listings.spooled(sys.stdout) as out:
        out.write(json.dumps(head, indent=1).removesuffix("[]\n}"))
        for part in listings.json_array(islice(made.rows, _limit(args)), made.columns):
            out.write(part)
        period = {} if made.period is None else {"period": made.period}
        tail = {"unknown": made.unknown or None, **period, **output.missing_partitions(operator)}
        out.write("," + json.dumps(tail, indent=1).removeprefix("{") + "\n")


def _write_rows(args: argparse.Namespace, made: Rows) -> None:
    from budgetfrontier.reports.format import clean

    if args.format == "text" and args.kind == "crawl-summary":
        for name, value in zip(made.columns, next(iter(made.rows)), strict=True):
            say(f"{name + ':':21}{clean(_shown(name, value))}")
        return
    most, left = _limit(args), 0
    if made.told and args.format == "text":
        say(f"{clean(made.told)}\n")

    def first() -> Iterator[Sequence[Any]]:
        nonlocal left
        for number, row in enumerate(made.rows):
            if most is None or number < most:
                yield row
            else:
                left += 1

    common.write_rows(args, first(), made.columns, drop=made.drop)
    if made.total is not None and most is not None:
        left = made.total - most
    if left > 0 and args.format == "text":
        say(f"...and {left:,} more; --all prints them")


def _shown(name: str, value: Any) -> str:
    from budgetfrontier.core.units import format_duration, format_time

    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in ("began", "ended"):
        return format_time(value)
    return format_duration(value) if name == "duration" else str(value)


# -- the kinds


def _of_log(name: str) -> Callable[[argparse.Namespace, CrawlOperator], Rows]:
    def make(args: argparse.Namespace, operator: CrawlOperator) -> Rows:
        from budgetfrontier.reports import log_tables

        lines, unknown = operator.log_lines(_since(args), whole=False)
        rows = getattr(log_tables, name)(lines or (), limit=None)
        return Rows(getattr(log_tables, name.upper()), rows, unknown=unknown)

    return make


def _since(args: argparse.Namespace) -> float | None:
    return None if args.since is None else time.time() - args.since


def _hosts(args: argparse.Namespace, operator: CrawlOperator) -> Rows:
    from budgetfrontier.reports import log_tables

    lines, unknown = operator.log_lines(_since(args), whole=True)

    def queues() -> Iterator[QueueAmounts]:
        number = 0
        for number, queue in enumerate(operator.amounts(), 1):
            yield queue
            made.total = number if lines is None else None

    rows = log_tables.hosts(lines, queues(), limit=_limit(args) if lines is None else None)
    made = Rows(log_tables.HOSTS, rows, drop=HOSTS_DROP, unknown=unknown)
    return made


def _crawl_summary(args: argparse.Namespace, operator: CrawlOperator) -> Rows:
    from budgetfrontier.reports.crawl_summary import crawl_summary

    now, since = time.time(), _since(args)
    lines, unknown = operator.log_lines(since, whole=True)
    head = operator.head()
    told, estimates = _told(operator, head.totals, since, now) if lines is None else ({}, "")
    figures = crawl_summary(
        head.crawl, head.totals, operator.runs(), lines, told=told, alive=head.standing.process.alive, now=now,
        since=since,
    )  # fmt: skip
    return Rows(tuple(figures), [tuple(figures.values())], unknown="; ".join(filter(None, (unknown, estimates))))


def _told(
    operator: CrawlOperator, totals: Summary, since: float | None, now: float
) -> tuple[dict[str, int | None], str]:
    """Return the figures reported with the ends of fetches, and a sentence if they are estimates.

    None for bytes if no sizes were reported.
    """
    from budgetfrontier.reports.crawl_summary import TOLD
    from budgetfrontier.reports.over_time import between, counts_known

    estimates = ""
    if since is None:
        found: dict[str, int] = {name: totals[name] for name in TOLD}
    else:
        series, told = operator.series(since, now), {name: (name,) for name in TOLD}
        window = between(*series, figures=told)(since, now)
        found = {name: round(rate.count) for name, rate in window.rates.items()}
        estimates = counts_known(window, now - since)
    return found | {"bytes": found.get("bytes") if totals.bytes else None}, estimates


def _seeds(args: argparse.Namespace, operator: CrawlOperator) -> Rows:
    """Return the fates of the seeds of the list, then those of the settings that are not in it, as they are read."""
    from budgetfrontier.reports import seed_fates

    unread: list[str] = []
    rows = chain(
        seed_fates.seed_rows(operator.seeds(), operator.last_statuses),
        seed_fates.unlisted_rows(operator.settings.seeds, operator.unlisted, unread),
    )
    columns = seed_fates.COLUMNS
    return Rows(
        columns,
        map(itemgetter(*columns), rows),
        drop=seed_fates.DROP,
        unknown=lambda: "; ".join(unread + ([AWAY] if operator.missing else [])),
    )


def _threads(args: argparse.Namespace, operator: CrawlOperator) -> Rows:
    from budgetfrontier.reports import lease_rows

    now = time.time()
    rows: Iterable[dict[str, Any]] = sorted(
        lease_rows.lease_rows(operator.leases().rows, now), key=lambda row: row["age"], reverse=True
    )
    if args.format == "text":
        rows = (lease_rows.for_people(row, now, _shown("began", row["began"])) for row in rows)
    return Rows(LEASE_FIELDS, map(itemgetter(*LEASE_FIELDS), rows), drop=lease_rows.DROP)


def _labels(args: argparse.Namespace, operator: CrawlOperator) -> Rows:
    """Return the labels of seeds, those first with which most was fetched."""
    from budgetfrontier.storage.label_totals import LABEL_FIELDS

    found = operator.labels()
    told = "" if found else "No seed has a label: `label` of a seed gives it one."
    return Rows(LABEL_FIELDS, map(attrgetter(*LABEL_FIELDS), found), drop=_LABELS_DROP, told=told)


def _quotas(args: argparse.Namespace, operator: CrawlOperator) -> Rows:
    from budgetfrontier.reports.format import percent

    share: Callable[[float], object] = percent if args.format == "text" else float
    rows = ((share(use.share), use.used, use.limit, use.amount, use.kind, use.name) for use in operator.quotas())
    return Rows(QUOTAS, rows)


def _groups(args: argparse.Namespace, operator: CrawlOperator) -> Rows:
    """Return every group of queues, the fullest first."""
    from budgetfrontier.core.units import short_duration
    from budgetfrontier.reports.format import percent
    from budgetfrontier.reports.text import groups_line
    from budgetfrontier.storage.group_listing import GROUP_FIELDS

    found, now = operator.groups(sys.maxsize), time.time()
    rows: Iterable[Sequence[Any]] = map(attrgetter(*GROUP_FIELDS), found.fullest)
    if args.format != "text":
        return Rows(GROUP_FIELDS, rows)
    rows = (
        (*row, None if share is None else percent(share), short_duration(wakes - now) if wakes > now else None)
        for *row, share, wakes in rows
    )
    told = f"{groups_line(found)}." if found.count else "No queue is in a group: `groups` in the settings defines them."
    return Rows((*GROUP_FIELDS[:-1], "wake_in"), rows, drop=_GROUPS_DROP, told=told)


def _length(args: argparse.Namespace) -> float:
    """Return the seconds that a report over time is about."""
    return _HOUR if args.since is None else float(args.since)


def _rates(args: argparse.Namespace, operator: CrawlOperator) -> Rows:
    from budgetfrontier.reports import over_time
    from budgetfrontier.reports.format import called

    now, length = time.time(), _length(args)
    happened = over_time.between(*operator.series(now - over_time.earliest(length), now))
    rows: Iterable[tuple[Any, ...]] = over_time.rate_rows(happened, now, length)
    if args.format == "text":
        rows = ((called(row[0]), *row[1:]) for row in rows)
    unknown = over_time.rates_known(happened(now - length, now), length)
    return Rows(over_time.RATES, rows, drop=over_time.RATES_DROP, unknown=unknown)


def _busiest(args: argparse.Namespace, operator: CrawlOperator) -> Rows:
    from budgetfrontier.reports import over_time
    from budgetfrontier.reports.format import percent, span

    now = time.time()
    found = operator.busiest(now - _length(args), now)
    rows, unknown = over_time.busiest_rows(found), over_time.busiest_known(found)
    if args.format != "text":
        return Rows(over_time.BUSIEST, rows, unknown=unknown, period=(found.since, found.until))
    told = (
        (
            queue,
            spent if spent == spent_most else span(spent, spent_most),
            percent(share),
            fetched if fetched == fetched_most else span(fetched, fetched_most),
        )
        for queue, spent, spent_most, share, fetched, fetched_most in rows
    )
    return Rows(over_time.BUSIEST_TEXT, told, unknown=unknown, told=over_time.busiest_told(found))


def _forecast(args: argparse.Namespace, operator: CrawlOperator) -> Rows:
    """Return when each bound would end the crawl."""
    from msgspec import structs

    from budgetfrontier.core.units import describe_duration
    from budgetfrontier.reports import over_time
    from budgetfrontier.reports.format import time_left
    from budgetfrontier.rules.verdict import standstill

    length = _length(args)
    found = operator.forecasts(time.time(), length)
    rows: list[tuple[Any, ...]] = [structs.astuple(one) for one in over_time.compared(found)]
    if args.format == "text":
        rows = [
            (
                row[0],
                *map(time_left, row[1:4]),
                row[4],
                row[5],
                describe_duration(row[6]) if row[6] else "-",
                "yes" * row[7],
            )
            for row in rows
        ]
    told = over_time.forecast_sentence(found, standstill=standstill(operator.head().standing))
    return Rows(over_time.FORECAST, rows, drop=over_time.FORECAST_DROP, told=told)


def _scope(args: argparse.Namespace, operator: CrawlOperator) -> Rows:
    """Return the waiting URIs that the stored scope would disregard, by reason."""
    from budgetfrontier.reports.format import counted, percent

    found = operator.out_of_scope()
    share: Callable[[float], object] = percent if args.format == "text" else float
    rows = ((one.why, one.urls, share(one.urls / found.of), one.example) for one in found.reasons)
    if found.unknown:
        return Rows(SCOPE, rows, unknown=f"the scope is not known here: {found.unknown}")
    verb = "is" if found.urls == 1 else "are"
    waiting = counted(found.of, "URI that waits", "URIs that wait")
    told = f"{found.urls:,} of {waiting} {verb} out of the scope: disregarded at their turns, and not charged."
    return Rows(SCOPE, rows, told=told)


def _settings(args: argparse.Namespace, operator: CrawlOperator) -> Rows:
    """Return the settings without the adjustments, those first that differ from their defaults."""
    from budgetfrontier.reports.format import as_written
    from budgetfrontier.reports.settings_rows import hidden_note, settings_rows
    from budgetfrontier.settings.values import brief

    found = settings_rows(operator.settings, units=args.format == "text")

    def written(value: Any) -> Any:
        if args.format == "json":
            return value
        return as_written(value) if args.format == "csv" else brief(as_written(value))

    rows = ((row.setting, written(row.value), written(row.default)) for row in found)
    return Rows(SETTINGS, rows, unknown=hidden_note(found))


_MAKERS: dict[str, Callable[[argparse.Namespace, CrawlOperator], Rows]] = {
    "crawl-summary": _crawl_summary,
    "seeds": _seeds,
    "hosts": _hosts,
    "mimetypes": _of_log("mimetypes"),
    "responsecodes": _of_log("responsecodes"),
    "sourcetags": _of_log("sourcetags"),
    "threads": _threads,
    "labels": _labels,
    "quotas": _quotas,
    "groups": _groups,
    "rates": _rates,
    "busiest": _busiest,
    "forecast": _forecast,
    "scope": _scope,
    "settings": _settings,
}
