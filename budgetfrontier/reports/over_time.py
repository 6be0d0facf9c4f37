"""Reports over time: rates beside those before and of yesterday, the busiest queues of a time, and forecasts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, islice, takewhile
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from budgetfrontier.core.model import CrawlState, QueueRecord, QueueState, Summary
from budgetfrontier.core.units import counted, describe_duration, format_time, say_duration, short_duration
from budgetfrontier.reports.format import figure
from budgetfrontier.rules import forecasts
from budgetfrontier.rules.backoff import rests_ahead
from budgetfrontier.rules.crawl_windows import Hours
from budgetfrontier.rules.rates import (
    FIGURES,
    SHOWN,
    ToldRate,
    Totals,
    Window,
    curves,
    lasts,
    together,
    told_rates,
    window,
)
from budgetfrontier.settings import sheets
from budgetfrontier.storage import group_listing, keys, quota_use, series
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.disks import NEW_FRONTIER, filled_disks
from budgetfrontier.storage.limits_used import read_used
from budgetfrontier.storage.lock import lock_holder
from budgetfrontier.storage.records import decode_future
from budgetfrontier.storage.series import SeriesRow

if TYPE_CHECKING:
    from budgetfrontier.settings import Settings
    from budgetfrontier.settings.overrides import Override
    from budgetfrontier.storage.series import Busiest
    from budgetfrontier.storage.view import View

HOUR, DAY = 3600.0, 86_400.0
SHORTEST = 120.0
"""The seconds of the shortest stretch of time whose rates count if the crawl has changed its pace."""
LONGEST = 30 * DAY
"""The longest time that can be looked at, beside the same time before it."""
_WHOLE = 0.9  # the part of a time from which on rates count as those of all of it
_LATE = 10.0  # seconds after a full minute in which the first commit has its row, mostly
_FAR = 10 * 365 * DAY  # when a disk is full after so long, no sentence says so
SPAN_WORDS = {"10m": "10 minutes", "1h": "hour", "1d": "day", "7d": "7 days", "30d": "30 days"}
SPANS = {"10m": 600.0, "1h": HOUR, "1d": DAY, "7d": 7 * DAY, "30d": LONGEST}
"""The times that can be looked at, in seconds."""
_LATEST = 1000  # URIs for later, those that are due last, of which each is looked up
_POINTS = {"10m": 20, "1h": 60, "1d": 96, "7d": 84, "30d": 90}  # of a curve

RATES = ("figure", "count", "per_hour", "before", "yesterday", "low", "high")
RATES_DROP = ("low", "high")
BUSIEST = ("queue", "spent", "spent_most", "share", "fetched", "fetched_most")
BUSIEST_TEXT = ("queue", "spent", "share", "fetched")
FORECAST = forecasts.Forecast.__struct_fields__
FORECAST_DROP = ("earliest", "latest")

BY_THE_HOUR = "what each queue spends is known by the hour, after 30 days by the day"
UNKNOWN = "nothing is known of that time: totals are kept from the first minute of crawling on"


Series = Sequence[Sequence[SeriesRow]]
"""The totals over time, in order of time: of a job one sequence, of a crawl in partitions one of each."""
Between = Callable[[float, float], Window]
"""Takes two times; returns the figures between them."""


class Curve(NamedTuple):
    """One figure over a time: its rate in all of it, and in equal parts of it, per hour."""

    name: str
    rate: ToldRate | None
    points: list[float | None]

    def amount(self, seconds: float) -> tuple[str, str]:
        """Return the rate an hour with its unit, or the count of a crawl that ran for so many seconds only."""
        if self.rate is None:
            return "-", ""
        if self.rate.per_hour is None:
            return figure(self.name, self.rate.count), f" in {short_duration(seconds)}"
        return figure(self.name, self.rate.per_hour), "/h"


class Curves(NamedTuple):
    """The curves of a time, one of SPANS, until a moment (epoch seconds)."""

    span: str
    until: float
    happened: Window
    """The figures of that time."""
    figures: list[Curve]
    queued: list[float | None]
    """The URIs that were queued in each part of the time."""

    @property
    def since(self) -> float:
        """The time at which they begin."""
        return self.until - SPANS[self.span]

    @property
    def known(self) -> float:
        """The seconds of that time in which the crawl ran, and totals were kept."""
        return self.happened.seconds

    @property
    def of_part(self) -> bool:
        """Whether the crawl ran, or totals were kept, for a part of that time only."""
        return self.known < _WHOLE * SPANS[self.span]

    @property
    def partly(self) -> str:
        """The sentence on how much of that time is known, if not all of it; "" if nothing is, as no rates are shown."""
        told = self.known and rates_known(self.happened, SPANS[self.span])
        return f"{_capital(told)}." if told else ""


def curves_of(series: Series, now: float, span: str = "", figures: Sequence[str] = SHOWN) -> Curves:
    """Return the curves of the time until now; without a span, of the one that fits. O(rows)."""
    length = SPANS[span := span or fitting(series, now)]
    found = between(*series)(now - length, now)
    drawn, told = [curves(rows, now - length, now, _POINTS[span]) for rows in series or ((),)], told_rates(found)
    return Curves(
        span,
        now,
        found,
        [Curve(name, told.get(name), _summed([each[name] for each in drawn])) for name in figures],
        levels(series, lambda row: row.queued, now, span),
    )


def fitting(series: Series, now: float) -> str:
    """Return the shortest span that a curve of all rows needs; a day at the most.

    Of a crawl that goes on, an hour shows more for its first hours than a day of which nothing is known.
    """
    first, last = (edge((rows[at].time for rows in series if rows), default=now) for edge, at in ((min, 0), (max, -1)))
    if last >= now - SPANS["10m"] and now - SPANS["1d"] / 4 <= first < now - SPANS["1h"]:
        return "1h"
    return next((span for span in ("10m", "1h") if first >= now - SPANS[span]), "1d")


def levels(series: Series, level: Callable[[SeriesRow], int], now: float, span: str) -> list[float | None]:
    """Return a level of the totals at the end of each part of a span until now; None before the first row."""
    return _summed([_levels(rows, level, now, span) for rows in series or ((),)])


def _summed(parts: Sequence[list[float | None]]) -> list[float | None]:
    """Return the sum of the curves of several frontiers; None where nothing is known of any."""
    known = ([value for value in at if value is not None] for at in zip(*parts, strict=True))
    return [sum(values) if values else None for values in known]


def _levels(rows: Sequence[SeriesRow], level: Callable[[SeriesRow], int], now: float, span: str) -> list[float | None]:
    found: list[float | None] = []
    at, last, length = 0, None, SPANS[span] / _POINTS[span]
    for before in reversed(range(_POINTS[span])):
        while at < len(rows) and rows[at].time <= now - before * length:
            last, at = level(rows[at]), at + 1
        found.append(last)
    return found


class OverTime(NamedTuple):
    """The curves and forecasts of a crawl, as overviews show them."""

    curves: Curves
    forecasts: list[forecasts.Forecast]


def overview(view: View, path: Path, holds: forecasts.Held, now: float) -> OverTime:
    """Return the curves and the forecasts of the frontier at `path`. O(2,200 rows)."""
    rows = read(view, now - LONGEST, now)
    found = forecast_rows(between(rows), view.summary(), holds, limits_left(view, path, now), now=now)
    return OverTime(curves_of([rows], now), found)


def read(view: View, since: float, now: float) -> list[SeriesRow]:
    """Return the totals of a time until now, from the last row before it to the last commit, oldest first. O(result).

    Every report and page over time reads them here, so that a figure of one time is the same on all of them.
    """
    return series.until_commit(view, since, now)


def between(*series: Sequence[Totals], figures: Mapping[str, Sequence[str]] = FIGURES) -> Between:
    """Return a function of the figures between two times, from totals: of one frontier, or of each partition.

    `figures` are those of `rules.rates.window`.
    """
    return lambda since, until: together([window(rows, since, until, figures=figures) for rows in series])


def rate_rows(happened: Between, now: float, length: float) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each figure of the last `length` seconds, with the rates of the same time before and yesterday.

    `low` and `high` are the rates of the slower and the faster quarter of the minutes. None is not known, or of a
    crawl that ran for less than a minute of that time.
    """
    begins = now - length, now - 2 * length, now - DAY - length
    this, before, yesterday = (told_rates(happened(begin, begin + length)) for begin in begins)
    for name, rate in this.items():
        past = (found[name].per_hour if found else None for found in (before, yesterday))
        hourly = (rate.per_hour, *past, rate.low, rate.high)
        yield name, rate.count, *(None if one is None else round(one, 1) for one in hourly)


def earliest(length: float) -> float:
    """Return how many seconds ago the totals begin that `rate_rows` needs."""
    return max(DAY + length, 2 * length)


def rates_known(found: Window, length: float) -> str:
    """Return how much of a time of `length` seconds is known, and how exactly, if not all of it."""
    if not found.seconds:
        return UNKNOWN
    told = []
    if found.seconds < _WHOLE * length:
        what = "and rates are those of it" if lasts(found.seconds) else "too short for rates an hour"
        told = [f"the crawl ran for {say_duration(found.seconds)} of that time, {what}"]
    return "; ".join(filter(None, (*told, counts_known(found, length))))


def counts_known(found: Window, length: float) -> str:
    """Return that the counts of a time of `length` seconds are estimates, if they are for more than a small part."""
    return estimated(found.cut) if found.cut > (1 - _WHOLE) * length + _LATE else ""


def estimated(cut: float) -> str:
    """Return that counts are estimates, as a time begins or ends between two totals that are `cut` seconds apart."""
    return f"its counts are estimates: where it begins or ends, totals are known {describe_duration(cut)} apart"


def busiest_rows(busiest: Busiest) -> Iterator[tuple[Any, ...]]:
    """Yield the busiest queues, with their shares of the sum of all of these."""
    spent = sum(queue.spent for queue in busiest.queues)
    for queue in busiest.queues:
        share = round(queue.spent / spent, 4) if spent else 0.0
        yield queue.queue, queue.spent, queue.spent_most, share, queue.fetched, queue.fetched_most


def busiest_told(busiest: Busiest) -> str:
    """Return the sentence on the time that the counts of the busiest queues are of."""
    if not busiest.known:
        return ""
    begin, end = format_time(busiest.since, "%Y-%m-%d %H:%M"), format_time(busiest.until, "%Y-%m-%d %H:%M:%S")
    spent = "Spent" if busiest.queues or busiest.untold_spent or busiest.untold_fetched else "Nothing was spent"
    return f"{spent} from {begin} to {end} UTC: {BY_THE_HOUR}."


def busiest_known(busiest: Busiest) -> str:
    """Return the sentence on inexact counts of the busiest queues."""
    untold = busiest.untold_spent or busiest.untold_fetched
    if not busiest.known:
        return UNKNOWN
    notes = []
    if untold:
        stored = f"as of {format_time(busiest.as_of, '%H:%M:%S')} UTC" if busiest.as_of else "nothing is stored yet"
        since = f"{busiest.untold_spent:,} spent and {busiest.untold_fetched:,} fetched since then"
        notes.append(f"{stored}; {since} are not told apart by queue")
    if any(one.spent != one.spent_most or one.fetched != one.fetched_most for one in busiest.queues):
        notes.append("some counts are estimates, given as the least and the most that they may be")
    if busiest.others_spent or busiest.others_fetched:
        others = f"spent {busiest.others_spent:,} and fetched {busiest.others_fetched:,} at the most"
        notes.append(f"a queue that is not listed {others}")
    return "; ".join(notes)


def forecast_rows(
    happened: Between,
    totals: Summary,
    holds: forecasts.Held | None,
    limits: dict[str, forecasts.Limit],
    *,
    now: float,
    length: float = HOUR,
) -> list[forecasts.Forecast]:
    """Return when each bound would end the crawl, at the rates of the last `length` seconds.

    If the crawl has changed its pace, they are those of a part of it.
    """
    if totals.state is CrawlState.TERMINATED:
        why = "it was terminated, and hands out nothing again"
        return [forecasts.Forecast("rate", None, None, None, "over", why)]
    waiting = totals.queued + totals.future
    parts = takewhile(length.__gt__, (SHORTEST * 2**n for n in count()))
    whole = length, happened(now - length, now)
    over, rates = forecasts.latest_of(whole, ((part, happened(now - part, now)) for part in parts))
    counts = ((totals.queues.get(state, 0), state.lower()) for state in (QueueState.RETIRED, QueueState.INELIGIBLE))
    aside = " and ".join(counted(count, f"{state} queue") for count, state in counts if count)
    found = forecasts.forecasts(rates, waiting=waiting, holds=holds, limits=limits, aside=aside)
    return [msgspec.structs.replace(one, over=over) if forecasts.is_of_rates(one) else one for one in found]


def compared(found: Sequence[forecasts.Forecast]) -> list[forecasts.Forecast]:
    """Return the same forecasts, with the one marked that would end the crawl first, or with the disk that is full."""
    first = forecasts.full_now(found) or forecasts.binding(found)
    return [msgspec.structs.replace(one, first=one is first) for one in found]


def forecast_sentence(found: Sequence[forecasts.Forecast], *, standstill: str = "", as_of: float | None = None) -> str:
    """Return what ends the crawl first, when, and how sure that is, in sentences.

    The last one says when a disk is full, if that is before the end, or no end is known; of one that is full already,
    the first says so. `standstill` is why nothing ends at present: then its end has no time yet. `as_of` is the moment
    that forecasts are made at, if it is another than that of the last commit.
    """
    when = "" if as_of is None else f" As of {format_time(as_of, '%H:%M:%S')} UTC."
    full = forecasts.full_now(found)
    if full is not None:
        standstill = f"the {full.bound} is full: {full.why}"
        if (first := forecasts.binding(found)) is None or not first.seconds:
            return f"{_capital(standstill)}. {_end_sentence(found, '')}{when}"
    return f"{_end_sentence(found, standstill)}{_full_sentence(found)}{when}"


def _full_sentence(found: Sequence[forecasts.Forecast]) -> str:
    full, first = forecasts.first_full(found), forecasts.binding(found)
    if full is None or not full.seconds or full.seconds > _FAR:
        return ""
    if first is not None and (first.seconds or 0.0) <= full.seconds:
        return ""
    when = describe_duration(ceil(full.seconds))
    return f" At that pace the {full.bound} is full after {when} ({full.sure}): {full.why}."


def _end_sentence(found: Sequence[forecasts.Forecast], standstill: str) -> str:
    first = forecasts.binding(found)
    unscanned = any(one.bound == forecasts.QUEUES for one in found)
    still = f"{_capital(standstill)}. " if standstill else ""
    if first is None:
        begins = {"unknown": "When the crawl ends is not known", "over": "The crawl has ended"}
        begin = begins.get(found[0].sure, "No end is in sight")
        if unscanned and found[0].sure not in begins:
            begin = "When the crawl ends is not known before its queues are scanned; by its rate, no end is in sight"
        return f"{still}{begin}: {found[0].why}."
    if not first.seconds:
        return (
            f"{_capital(first.why)}."
            if first.bound == "rate"
            else f"The crawl is at its end: {first.bound}, {first.why}."
        )
    when = describe_duration(ceil(first.seconds))
    how = f"({first.sure}), by {first.bound}: {first.why}"
    closed = any(forecast.bound == forecasts.WINDOWS for forecast in found)
    more = " Budgets and politeness are not known yet." if unscanned else ""
    more += " Not all hours in which crawl windows are closed are counted." if closed else ""
    if first is forecasts.not_before(found):
        why = next(one.why for one in found if one.bound == "rate")
        least = f"It takes {when} at least, by {first.bound}: {first.why}."
        return f"{still}When the crawl ends is not known: {why}. {least}{more}"
    if standstill:
        return f"{still}Once it goes on as it last ran, it ends after {when} {how}.{more}"
    seen = f", as seen in the last {_stretch(found)}" if first.over else ""
    return f"While it runs as it does now{seen}, the crawl ends in {when} {how}.{more}"


def rates_told(found: Sequence[forecasts.Forecast]) -> str:
    """Return the words on the stretch of time whose rates forecasts are made from."""
    stretch = _stretch(found)
    return f"at the rates of the last {stretch}" if stretch else "without rates"


def _stretch(found: Sequence[forecasts.Forecast]) -> str:
    over = max((one.over for one in found), default=0.0)
    return "hour" if over == HOUR else describe_duration(over) if over else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def held(view: View, now: float | None = None) -> forecasts.Held:
    """Return the holdings of queues, for `forecast_rows`. O(queues)."""
    holdings = forecasts.Holdings()
    deque(holdings.through(view.compact_queues(), terms_of(view, now), group_listing.terms_of(view, now)), maxlen=0)
    return holdings.held


def terms_of(view: View, now: float | None = None) -> Callable[[QueueRecord], forecasts.Terms]:
    """Return the `terms` for `Holdings.through`: of each queue that holds URIs, by the settings in force."""
    settings_of, at = BudgetsInForce(view, forecast=True).for_forecast, view.now() if now is None else now
    quota_used = quota_use.of_heads(view)
    rests_until, hours = view.rests_until(), Hours()
    soonest = next((keys.due.unpack(key)[0] for key, _ in view.items(keys.FUTURE)), 0.0)
    latest: dict[int, float] = {}
    for key, value in islice(view.newest_items(keys.FUTURE), _LATEST):
        latest.setdefault(decode_future(value).queue, keys.due.unpack(key)[0])

    def terms(queue: QueueRecord) -> forecasts.Terms:
        settings = settings_of(queue)
        delay, at_once = settings.min_delay, settings.per_queue_concurrency
        if settings.max_delay < delay:
            delay = settings.max_delay
        if at_once > 1:
            delay /= at_once
        elif (kept := forecasts.least_delay(queue, delay)) > delay:
            seen = view.history(queue.id)
            if seen is not None and seen.seconds is not None:
                delay = forecasts.lasting_delay(kept, seen.seconds, settings)
        delay = max(delay, settings.min_interval if queue.interval is None else queue.interval)
        begins = max(queue.wake_time, rests_until, 0.0 if queue.queued else soonest)
        if settings.windows:
            begins = max(begins, hours.opens_at(settings.windows, at))
        rests = partial(rests_ahead, queue, settings, now=at) if queue.backoff else None
        waits, due = max(begins - at, 0.0), max(latest.get(queue.id, at) - at, 0.0)
        return delay, settings.reached, waits, quota_used(queue), rests, due

    return terms


def of_windows(settings: Settings, adjustments: Sequence[Override]) -> dict[str, forecasts.Limit]:
    """Return a limit that stands for the crawl windows in force, if there are any."""
    return {forecasts.WINDOWS: forecasts.Limit(None, ())} if sheets.windows_in_force(settings, adjustments) else {}


def limits_left(view: View, path: Path, now: float, totals: Summary | None = None) -> dict[str, forecasts.Limit]:
    """Return the rest of each limit of the crawl of the frontier at `path`, and of its disks. O(files of the job).

    `totals` are those of another moment than that of the view. What is used of `max_time` and `max_bytes`, and of
    disks, is always that of now.
    The time since the last commit counts if a process runs, unless the crawl is paused. A disk fills by what the
    crawl's files on it have so far for each URI scheduled, beyond those of a new frontier, and for each fetch.
    """
    of_crawl, adjustments = view.settings()
    settings, totals, found = of_crawl.limits, totals or view.summary(), of_windows(of_crawl, adjustments)
    used = read_used(path) if settings.max_time or settings.max_bytes else None
    if settings.max_uris:
        uris = settings.max_uris - totals.succeeded - totals.failed
        found["max_uris"] = forecasts.Limit(uris, ("succeeded", "failed"), "URIs")
    if settings.max_time:
        left = None if used is None else settings.max_time - used.seconds
        if left is not None and totals.state is not CrawlState.PAUSED and lock_holder(path) is not None:
            left -= max(now - view.counters().time, 0.0)
        found["max_time"] = forecasts.Limit(left, ())
    if settings.max_bytes:
        size = totals.bytes if used is None else used.size
        found["max_bytes"] = forecasts.Limit(settings.max_bytes - size, ("bytes",), forecasts.BYTES)
    fetched = sum(totals[name] for name in FIGURES["fetched"])
    for disk in filled_disks(path):
        grown = max(disk.frontier - NEW_FRONTIER, 0)
        each = grown / max(totals.scheduled, 1), disk.outputs / max(fetched, 1)
        found[disk.name] = forecasts.Limit(disk.free, ("discovered", "fetched"), forecasts.BYTES, each)
    return found
