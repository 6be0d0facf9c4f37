"""Resources of the API on a job over time: its runs, rates, curves and forecasts, and the comparison of two."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import msgspec

from budgetfrontier.core.model import Run
from budgetfrontier.core.units import counted
from budgetfrontier.reports import over_time
from budgetfrontier.reports.crawl_comparison import Comparison, NoSuchRun, compared_runs
from budgetfrontier.rules.forecasts import QUEUES, Forecast
from budgetfrontier.rules.rates import FIGURES, ToldRate
from budgetfrontier.rules.verdict import standstill
from budgetfrontier.tools.console import forms
from budgetfrontier.tools.console.api import LimitParameters, Listing, NoParameters, ScanPending, described
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages.compare import compared_jobs
from budgetfrontier.tools.console.query import NotThere
from budgetfrontier.tools.console.rendering import as_sentence


class TimeParameters(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of a report over time."""

    since: Annotated[str, described("the length of the time until now, such as 30m, 1h, 7d")] = "1h"


class RateItem(msgspec.Struct):
    """A figure of a time: its count, and its rate an hour, beside that of the same time before, and yesterday.

    `low` and `high` are the rates of the slower and the faster quarter of the minutes; null is not known, or of a crawl
    that ran for less than a minute of that time.
    """

    figure: str
    count: int
    per_hour: float | None
    before: float | None
    yesterday: float | None
    low: float | None
    high: float | None


class BusyItem(msgspec.Struct):
    """A queue with what it spent and fetched in a time: between the two figures if they differ."""

    queue: str
    spent: int
    spent_most: int
    share: float
    fetched: int
    fetched_most: int


class BusyListing(Listing[BusyItem], kw_only=True):
    """The queues that spent most from `since` until `until` (epoch seconds): in the hours that the time overlaps.

    After 30 days, they are days.
    """

    since: float
    until: float


class CurvesParameters(msgspec.Struct, forbid_unknown_fields=True):
    """The parameters of the curves."""

    span: Annotated[
        Literal["", "10m", "1h", "1d", "7d", "30d"],
        described("the length of the time until now; none: the one that shows most of the crawl, a day at most"),
    ] = ""


class CurveItem(msgspec.Struct):
    """The rate an hour of a figure in each part of the time, null where nothing is known; `rate` is that of all."""

    figure: str
    rate: ToldRate | None
    points: list[float | None]


class CurvesItem(msgspec.Struct):
    """Curves from `since` until `until`, each with a point for each equal part of the time.

    `known` is for how many of its seconds totals are known, `queued` the URIs in queues at the end of each part.
    """

    since: float
    until: float
    known: float
    figures: list[CurveItem]
    queued: list[float | None]
    note: str = ""


class CompareParameters(LimitParameters, forbid_unknown_fields=True, kw_only=True):
    """The parameters of a comparison with another job."""

    by: Annotated[
        Literal["fetched", "spent", "bytes", "errors"], described("list the queues first of which this differs most")
    ] = "fetched"


class ComparisonItem(Comparison, kw_only=True):
    """Two jobs, or two runs: their totals, rates an hour, how many queues either has, and those that differ most.

    `as_of` is the time at which they were read.
    """

    as_of: float
    note: str = ""


_Run = Annotated[int, described("the number of a run, as `runs` has it", ge=1)]


class CompareRunsParameters(LimitParameters, forbid_unknown_fields=True, kw_only=True):
    """The parameters of a comparison of two runs."""

    run: _Run
    run2: _Run
    by: Annotated[Literal["fetched", "spent"], described("list the queues first of which this differs most")] = (
        "fetched"
    )


def left_out(count: int) -> str:
    """Return the sentence on rows that `limit` has left out; "" if there are none."""
    return f"{counted(count, 'row')} left out: limit" if count > 0 else ""


def runs(job: ConsoleJob, parameters: LimitParameters) -> Listing[Run]:
    """Return the last runs, the newest last."""
    found = job.look(lambda operator: operator.runs())
    return Listing(rows=found[-parameters.limit :], note=left_out(len(found) - parameters.limit))


def rates(job: ConsoleJob, parameters: TimeParameters) -> Listing[RateItem]:
    """Return the rate of each figure, as `report --kind rates` does."""
    now, length = time.time(), forms.duration("since", parameters.since)
    series = job.look(lambda operator: operator.series(now - over_time.earliest(length), now))
    happened = over_time.between(*series)
    rows = [RateItem(*row) for row in over_time.rate_rows(happened, now, length)]
    return Listing(rows=rows, note=as_sentence(over_time.rates_known(happened(now - length, now), length)))


def busiest(job: ConsoleJob, parameters: TimeParameters) -> BusyListing:
    """Return the queues that spent most in the hours that a time overlaps."""
    now, length = time.time(), forms.duration("since", parameters.since)
    found = job.look(lambda operator: operator.busiest(now - length, now))
    return BusyListing(
        rows=[BusyItem(*row) for row in over_time.busiest_rows(found)],
        note=as_sentence(over_time.busiest_known(found)),
        since=found.since,
        until=found.until,
    )


def forecast(job: ConsoleJob, parameters: NoParameters) -> Listing[Forecast]:
    """Return when each bound would end the crawl, at the rates now in force; `note` says it in one sentence.

    Raises ScanPending if there are too many queues to be read now, and no scan since the last change of settings.
    """
    if job.is_folder:
        scanned = job.scanned()
        with job.view() as view:
            found, as_of = job.forecasts(view, scanned)
        if any(one.bound == QUEUES for one in found):
            raise ScanPending(job.scans.error or f"{job.scans.progress or 0.0:.0%} of the queues are read")
    else:
        now, as_of = time.time(), None
        found = job.look(lambda operator: operator.forecasts(now, over_time.HOUR))
    still = standstill(job.look(lambda operator: operator.head().standing))
    return Listing(
        rows=over_time.compared(found),
        as_of=as_of,
        note=over_time.forecast_sentence(found, standstill=still, as_of=as_of),
    )


def curves(job: ConsoleJob, parameters: CurvesParameters) -> CurvesItem:
    """Return the curves that the page of rates draws."""
    found = job.over_time.curves(parameters.span, tuple(FIGURES))
    figures = [CurveItem(*one) for one in found.figures]
    return CurvesItem(found.since, found.until, found.known, figures, found.queued)


def compare(jobs: tuple[ConsoleJob, ConsoleJob], parameters: CompareParameters) -> ComparisonItem:
    """Return two jobs side by side, as the command `compare` does, which reads all their queues. Raises BeingMade."""
    one, other = jobs
    return _comparison(*compared_jobs(one, other, parameters.by, parameters.limit))


def _comparison(found: Comparison, when: float) -> ComparisonItem:
    return ComparisonItem(**{name: getattr(found, name) for name in found.__struct_fields__}, as_of=when)


def compare_runs(job: ConsoleJob, p: CompareRunsParameters) -> ComparisonItem:
    """Return two runs of a job side by side."""
    now = time.time()
    try:
        found = job.look(lambda operator: compared_runs(operator, p.run, p.run2, measure=p.by, limit=p.limit))
        return _comparison(found, now)
    except NoSuchRun as error:
        raise NotThere(str(error)) from None
