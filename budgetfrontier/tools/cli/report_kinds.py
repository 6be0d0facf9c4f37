"""The reports besides that of the frontier, Heritrix's and those over time: `report JOB --kind`, as text, JSON, CSV."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from math import ceil
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.vocabulary import LEASE_FIELDS
from budgetfrontier.reports.kinds import WITH_SINCE
from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.sentences import note, say

if TYPE_CHECKING:
    from budgetfrontier.core.model import StoredLease, Summary
    from budgetfrontier.reports.crawl_log import CrawlLogLine
    from budgetfrontier.reports.over_time import Between
    from budgetfrontier.rules.forecasts import Forecast
    from budgetfrontier.settings.schema import Seed
    from budgetfrontier.storage.reader import Reader
    from budgetfrontier.storage.seed_list import ListedSeed
    from budgetfrontier.storage.series import Busiest

_HOUR = 3600.0

UNKNOWN = "unknown: there is no {log}; `budgetfrontier crawl` writes one, with --frontier in the folder of its own job"
MOVED = "unknown: there is no {log}, it was moved or deleted, or is not part of a backup: a log that was moved tells"
LATE = "unknown: {log} {begins}, and attempts were made before that: a log that was moved tells"
PART = "rows are those of {log} alone, which {begins}; attempts were made before that: a log that was moved has them"
_TEXT_ROWS = 20
HOSTS_DROP = ("not_modified", "failures", "errors", "state", "expenditure")


class Rows:
    """A report: its columns, its rows, which of the columns a terminal may leave out, and what is unknown.

    `told` is a sentence that says the most important of it, for text. `unknown` is asked for once the rows are read.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        drop: Sequence[str] = (),
        unknown: str | Callable[[], str] = "",
        told: str = "",
    ) -> None:
        self.columns, self.drop, self._unknown, self.told = columns, drop, unknown, told
        self.rows = rows

    @property
    def unknown(self) -> str:
        """The sentence on what is unknown, as far as the rows were read."""
        return self._unknown if isinstance(self._unknown, str) else self._unknown()


def run(args: argparse.Namespace) -> None:
    """Print the report of `args.kind`, which is not that of the frontier."""
    from budgetfrontier.storage.reader import Reader

    check(args)
    with Reader(common.frontier_path(args.job)) as reader:
        write(args, _MAKERS[args.kind](args, reader), reader.settings.crawl)


def check(args: argparse.Namespace) -> None:
    """Exit for options that the kind of report does not have; --since alone is for rates."""
    if args.kind == "frontier":
        args.kind = "rates"
    if args.format == "html":
        args.parser.error(f"--kind {args.kind} is text, json or csv; html is for --kind frontier")
    if args.since is not None and args.kind not in WITH_SINCE:
        args.parser.error(f"--since is for --kind {', '.join(WITH_SINCE)}; this report is as of now")


def write(args: argparse.Namespace, made: Rows, crawl: str, more: Callable[[], dict[str, Any]] = dict) -> None:
    """Print a report; `more` is added to JSON, once the rows are read."""
    if args.format == "json":
        _write_json(args, made, crawl, more)
    else:
        _write_rows(args, made)
    if made.unknown:
        sys.stdout.flush()
        note(made.unknown)


def limit(args: argparse.Namespace) -> int | None:
    """Return the most rows to print: --limit, or 20 in text, unless --all."""
    if args.all:
        return None
    if args.limit is not None:
        return int(args.limit)
    return _TEXT_ROWS if args.format == "text" else None


def _write_json(args: argparse.Namespace, made: Rows, crawl: str, more: Callable[[], dict[str, Any]]) -> None:
    from budgetfrontier.reports import listings

    head = {
        "format": 1,
        "kind": args.kind,
        "crawl": crawl,
        "generated": time.time(),
        "since": args.since,
        "rows": [],
    }
    with listings.spooled(sys.stdout) as out:
        out.write(json.dumps(head, indent=1).removesuffix("[]\n}"))
        for part in listings.json_array(islice(made.rows, limit(args)), made.columns):
            out.write(part)
        tail = {"unknown": made.unknown or None, **more()}
        out.write("," + json.dumps(tail, indent=1).removeprefix("{") + "\n")


def _write_rows(args: argparse.Namespace, made: Rows) -> None:
    from budgetfrontier.reports.format import clean

    if args.format == "text" and args.kind == "crawl-summary":
        for name, value in zip(made.columns, next(iter(made.rows)), strict=True):
            say(f"{name + ':':21}{clean(_shown(name, value))}")
        return
    most, left = limit(args), 0
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
    if left and args.format == "text":
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


def _log(args: argparse.Namespace, reader: Reader) -> tuple[Iterator[CrawlLogLine] | None, str]:
    """Return the lines of the crawl's log that count, None if there is no log, and when it begins if that is late.

    The latter is the end of a sentence on the log, "" if it has all of the time.
    """
    from budgetfrontier.reports import crawl_log
    from budgetfrontier.reports.log_coverage import lacks_beginning

    path, now = log_path(args), time.time()
    if not path.is_file():
        return None, ""
    since = None if args.since is None else now - args.since
    first, runs = crawl_log.first_time(path), reader.runs()
    with reader.view() as view:
        late = lacks_beginning(view, runs, first, since, now)
    begins = f"begins at {first}" if first else "has no line yet"
    return crawl_log.entries(path, since=since or 0.0), begins if late else ""


def log_path(args: argparse.Namespace) -> Path:
    """Return the path of the crawl's log."""
    job: Path = args.job
    return job / "logs" / "crawl.log"


def _no_log(args: argparse.Namespace, reader: Reader) -> str:
    """Return that there is no log, and what would have it."""
    from budgetfrontier.rules.run_history import CRAWL

    told = MOVED if any(run.program == CRAWL and run.leased for run in reader.runs()) else UNKNOWN
    return told.format(log=log_path(args))


def _whole_log(args: argparse.Namespace, reader: Reader) -> tuple[Iterator[CrawlLogLine] | None, str]:
    """Return the lines of the crawl's log that count, or None and why figures from it are not known."""
    log, begins = _log(args, reader)
    if log is None:
        return None, _no_log(args, reader)
    return (None, LATE.format(log=log_path(args), begins=begins)) if begins else (log, "")


def _of_log(name: str) -> Callable[[argparse.Namespace, Reader], Rows]:
    def make(args: argparse.Namespace, reader: Reader) -> Rows:
        from budgetfrontier.reports import log_tables

        log, begins = _log(args, reader)
        unknown = PART.format(log=log_path(args), begins=begins) if begins else ""
        rows = getattr(log_tables, name)(log or (), limit=None)
        return Rows(getattr(log_tables, name.upper()), rows, unknown=_no_log(args, reader) if log is None else unknown)

    return make


def _hosts(args: argparse.Namespace, reader: Reader) -> Rows:
    from budgetfrontier.reports import log_tables

    log, unknown = _whole_log(args, reader)
    rows = log_tables.hosts(log, reader.queues(), limit=None)
    return Rows(log_tables.HOSTS, rows, drop=HOSTS_DROP, unknown=unknown)


def _crawl_summary(args: argparse.Namespace, reader: Reader) -> Rows:
    from budgetfrontier.reports.crawl_summary import crawl_summary

    now, (log, unknown) = time.time(), _whole_log(args, reader)
    since = None if args.since is None else now - args.since
    alive = reader.lock_pid() is not None
    totals = reader.summary()
    told = _told(reader, totals, since, now) if log is None else {}
    figures = crawl_summary(
        reader.settings.crawl, totals, reader.runs(), log, told=told, alive=alive, now=now, since=since
    )
    return Rows(tuple(figures), [tuple(figures.values())], unknown=unknown)


def _told(reader: Reader, totals: Summary, since: float | None, now: float) -> dict[str, int | None]:
    """Return the figures that were told with the ends of fetches; None for bytes if no sizes were."""
    from budgetfrontier.reports import over_time
    from budgetfrontier.reports.crawl_summary import TOLD
    from budgetfrontier.rules.rates import window

    if since is None:
        found: dict[str, int] = {name: totals[name] for name in TOLD}
    else:
        with reader.view() as view:
            series = over_time.read(view, since, now)
        rates = window(series, since, now, figures={name: (name,) for name in TOLD}).rates
        found = {name: round(rate.count) for name, rate in rates.items()}
    return found | {"bytes": found.get("bytes") if totals.bytes else None}


def _seeds(args: argparse.Namespace, reader: Reader) -> Rows:
    from budgetfrontier.reports.log_search import last_statuses
    from budgetfrontier.storage.seed_list import listed, unlisted

    def found() -> Iterator[Any]:
        with reader.view() as view:
            yield from listed(view)

    def missing(urls: Sequence[str]) -> set[str]:
        with reader.view() as view:
            return unlisted(view, urls)

    log = log_path(args)
    return seeds(found(), reader.settings.seeds, missing, lambda urls: last_statuses(log, urls) or {}, [])


def seeds(
    found: Iterable[ListedSeed],
    settings: Iterable[Seed],
    unlisted_of: Callable[[Sequence[str]], Collection[str]],
    statuses_of: Callable[[Collection[str]], Mapping[str, int]],
    unread: list[str],
) -> Rows:
    """Return the fates of the seeds of the list, then those of the settings that are not in it.

    All are read as they are printed; `unread` has what could not be, once they are.
    """
    from budgetfrontier.reports import seed_fates

    rows = chain(seed_fates.seed_rows(found, statuses_of), seed_fates.unlisted_rows(settings, unlisted_of, unread))
    columns = seed_fates.COLUMNS
    return Rows(columns, map(itemgetter(*columns), rows), drop=seed_fates.DROP, unknown=lambda: "; ".join(unread))


def _threads(args: argparse.Namespace, reader: Reader) -> Rows:
    return threads(args, reader.leases())


def threads(args: argparse.Namespace, leases: Iterable[StoredLease]) -> Rows:
    """Return the leases, the oldest first."""
    from budgetfrontier.reports import lease_rows

    now = time.time()
    rows: Iterable[dict[str, Any]] = sorted(
        lease_rows.lease_rows(leases, now), key=lambda row: row["age"], reverse=True
    )
    if args.format == "text":
        rows = (lease_rows.for_people(row, now, _shown("began", row["began"])) for row in rows)
    return Rows(LEASE_FIELDS, map(itemgetter(*LEASE_FIELDS), rows), drop=lease_rows.DROP)


def length_of(args: argparse.Namespace) -> float:
    """Return the seconds that a report over time is about."""
    return _HOUR if args.since is None else float(args.since)


def _rates(args: argparse.Namespace, reader: Reader) -> Rows:
    from budgetfrontier.reports import over_time

    now, length = time.time(), length_of(args)
    with reader.view() as view:
        series = over_time.read(view, now - over_time.earliest(length), now)
    return rates(args, over_time.between(series), now)


def rates(args: argparse.Namespace, happened: Between, now: float) -> Rows:
    """Return the rates of a time until now."""
    from budgetfrontier.reports import over_time
    from budgetfrontier.reports.format import called

    length = length_of(args)
    rows: Iterable[tuple[Any, ...]] = over_time.rate_rows(happened, now, length)
    if args.format == "text":
        rows = ((called(row[0]), *row[1:]) for row in rows)
    unknown = over_time.rates_known(happened, now, length)
    return Rows(over_time.RATES, rows, drop=over_time.RATES_DROP, unknown=unknown)


def _busiest(args: argparse.Namespace, reader: Reader) -> Rows:
    now = time.time()
    return busiest(args, reader.busiest(now - length_of(args), now))


def busiest(args: argparse.Namespace, found: Busiest) -> Rows:
    """Return the busiest queues."""
    from budgetfrontier.reports import over_time
    from budgetfrontier.reports.format import percent, span

    rows, unknown = over_time.busiest_rows(found), over_time.busiest_known(found)
    if args.format != "text":
        return Rows(over_time.BUSIEST, rows, unknown=unknown)
    told = (
        (
            queue,
            spent if spent == spent_most else span(spent, spent_most),
            percent(share),
            fetched if fetched == fetched_most else span(fetched, fetched_most),
        )
        for queue, spent, spent_most, share, fetched, fetched_most in rows
    )
    return Rows(over_time.BUSIEST_TEXT, told, unknown=unknown)


def _forecast(args: argparse.Namespace, reader: Reader) -> Rows:
    from budgetfrontier.reports import over_time

    now, length = time.time(), length_of(args)
    with reader.view() as view:
        found = over_time.forecast_rows(
            over_time.between(over_time.read(view, now - length, now)),
            view.summary(),
            over_time.held(view),
            over_time.limits_left(view, reader.path, now),
            now=now,
            length=length,
        )
    return forecast(args, found)


def forecast(args: argparse.Namespace, found: Sequence[Forecast]) -> Rows:
    """Return when each bound would end the crawl."""
    from budgetfrontier.core.units import describe_duration
    from budgetfrontier.reports import over_time

    rows = list(over_time.forecast_table(found))
    if args.format == "text":
        rows = [
            (
                row[0],
                *("-" if s is None else describe_duration(ceil(s)) for s in row[1:4]),
                row[4],
                row[5],
                "yes" * row[6],
            )
            for row in rows
        ]
    told = over_time.forecast_sentence(found, length_of(args))
    return Rows(over_time.FORECAST, rows, drop=over_time.FORECAST_DROP, told=told)


_MAKERS: dict[str, Callable[[argparse.Namespace, Reader], Rows]] = {
    "crawl-summary": _crawl_summary,
    "seeds": _seeds,
    "hosts": _hosts,
    "mimetypes": _of_log("mimetypes"),
    "responsecodes": _of_log("responsecodes"),
    "sourcetags": _of_log("sourcetags"),
    "threads": _threads,
    "rates": _rates,
    "busiest": _busiest,
    "forecast": _forecast,
}
