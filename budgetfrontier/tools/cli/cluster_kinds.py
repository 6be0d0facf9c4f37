"""The reports besides that of the frontier on a crawl in partitions: `report --cluster URL --kind`, merged."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from budgetfrontier.cluster import merging
from budgetfrontier.cluster.inspection import LeasePage, Selection
from budgetfrontier.core.model import CrawlUri, Run
from budgetfrontier.rules.forecasts import Held
from budgetfrontier.storage.seed_list import ListedSeed
from budgetfrontier.storage.series import Busiest, SeriesRow
from budgetfrontier.tools.cli import report_kinds
from budgetfrontier.tools.cli.report_kinds import Rows

if TYPE_CHECKING:
    from budgetfrontier.cluster.operator_client import Operator
    from budgetfrontier.reports.over_time import Between

UNKNOWN = "unknown: a crawl in partitions has no crawl.log; its crawlers have logs of their own, if any"
AWAY = "seeds of partitions that do not answer are not listed"
_SEEDS = 5000
"""Seeds that an owner is asked for at a time."""


def run(args: argparse.Namespace, operator: Operator) -> None:
    """Print the report of `args.kind`, which is not that of the frontier."""
    report_kinds.check(args)
    crawl = operator.head().crawl
    made = _MAKERS[args.kind](args, operator)
    report_kinds.write(args, made, crawl, lambda: {"missing_partitions": sorted(operator.missing)})


def _of_log(name: str) -> Callable[[argparse.Namespace, Operator], Rows]:
    def make(args: argparse.Namespace, operator: Operator) -> Rows:
        from budgetfrontier.reports import log_tables

        return Rows(getattr(log_tables, name.upper()), (), unknown=UNKNOWN)

    return make


def _hosts(args: argparse.Namespace, operator: Operator) -> Rows:
    from budgetfrontier.reports import log_tables

    rows = log_tables.hosts(None, (queue for queue, _ in operator.each_queue(Selection())), limit=None)
    return Rows(log_tables.HOSTS, rows, drop=report_kinds.HOSTS_DROP, unknown=UNKNOWN)


def _crawl_summary(args: argparse.Namespace, operator: Operator) -> Rows:
    from budgetfrontier.reports.crawl_summary import TOLD, crawl_summary

    now, head = time.time(), operator.head()
    told: dict[str, int | None]
    if args.since is None:
        told = {name: head.totals[name] for name in TOLD}
    else:
        window = _between(operator, args.since, now, figures={name: (name,) for name in TOLD})(now - args.since, now)
        told = {name: round(rate.count) for name, rate in window.rates.items()}
    told["bytes"] = told.get("bytes") if head.totals.bytes else None
    figures = crawl_summary(
        head.crawl, head.totals, merging.merged_runs(operator.ask("runs", list[Run]).values()), None, told=told,
        alive=head.standing.process.alive, now=now, since=None if args.since is None else now - args.since,
    )  # fmt: skip
    return Rows(tuple(figures), [tuple(figures.values())], unknown=UNKNOWN)


def _seeds(args: argparse.Namespace, operator: Operator) -> Rows:
    def found() -> Iterator[ListedSeed]:
        for number in range(operator.partitions):
            after = 0
            while part := operator.ask("seeds", list[ListedSeed], of=[number], after=after, count=_SEEDS).get(number):
                yield from part
                after = part[-1].position

    def unlisted(urls: Sequence[str]) -> set[str]:
        parts: dict[int, list[str]] = {}
        for url in urls:
            parts.setdefault(operator.partition_of_uri(CrawlUri(url)), []).append(url)
        asked = {number: operator.ask("unlisted", list[str], of=[number], urls=part) for number, part in parts.items()}
        if AWAY not in unread and any(number not in answer for number, answer in asked.items()):
            unread.append(AWAY)
        return {url for number, answer in asked.items() for url in answer.get(number, ())}

    unread: list[str] = []
    return report_kinds.seeds(found(), operator.settings.seeds, unlisted, lambda urls: {}, unread)


def _threads(args: argparse.Namespace, operator: Operator) -> Rows:
    found: Iterable[LeasePage] = operator.ask("leases", LeasePage).values()
    return report_kinds.threads(args, [lease for one in found for lease in one.rows])


def _rates(args: argparse.Namespace, operator: Operator) -> Rows:
    from budgetfrontier.reports import over_time

    now = time.time()
    length = over_time.earliest(report_kinds.length_of(args))
    return report_kinds.rates(args, _between(operator, length, now), now)


def _between(operator: Operator, length: float, now: float, **figures: Any) -> Between:
    from budgetfrontier.reports import over_time

    found = operator.ask("series", list[SeriesRow], since=now - length, now=now)
    return over_time.between(*found.values(), **figures)


def _busiest(args: argparse.Namespace, operator: Operator) -> Rows:
    now = time.time()
    found = operator.ask("busiest", Busiest, since=now - report_kinds.length_of(args), until=now)
    return report_kinds.busiest(args, merging.merged_busiest([*found.values()]))


def _forecast(args: argparse.Namespace, operator: Operator) -> Rows:
    from budgetfrontier.reports import over_time

    now, length = time.time(), report_kinds.length_of(args)
    found = over_time.forecast_rows(
        _between(operator, length, now),
        operator.head().totals,
        merging.merged_held(operator.ask("held", Held).values()),
        merging.limits_left(operator.standings().values()),
        now=now,
        length=length,
    )
    return report_kinds.forecast(args, found)


_MAKERS: dict[str, Callable[[argparse.Namespace, Operator], Rows]] = {
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
