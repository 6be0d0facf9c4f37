"""Reports over time: rates beside those before and of yesterday, the busiest queues of a time, and forecasts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from budgetfrontier.model import QueueRecord, Summary
from budgetfrontier.rules import forecasts
from budgetfrontier.rules.rates import Totals, Window, window
from budgetfrontier.units import describe_duration

if TYPE_CHECKING:
    from budgetfrontier.settings import Settings
    from budgetfrontier.settings.overrides import Effective
    from budgetfrontier.store.series import Busiest

HOUR, DAY = 3600.0, 86_400.0

RATES = ("figure", "count", "per_hour", "before", "yesterday", "low", "high")
RATES_DROP = ("low", "high")
BUSIEST = ("queue", "spent", "share", "fetched", "low_by")
BUSIEST_DROP = ("low_by",)
FORECAST = ("bound", "seconds", "earliest", "latest", "sure", "why")
FORECAST_DROP = ("earliest", "latest")

UNKNOWN = "nothing is known of that time: totals are kept from the first minute of crawling on"


def rate_rows(rows: Sequence[Totals], now: float, length: float) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each figure of the last `length` seconds, with the rates of the same time before and yesterday.

    `low` and `high` are the rates of the slower and the faster quarter of the minutes. None is not known.
    """
    this = window(rows, now - length, now)
    before = window(rows, now - 2 * length, now - length)
    yesterday = window(rows, now - DAY - length, now - DAY)
    for name, rate in this.rates.items():
        low, high = rate.low, rate.high
        yield (
            name,
            round(rate.count),
            round(rate.per_hour, 1),
            _per_hour(before, name),
            _per_hour(yesterday, name),
            None if low is None else round(low, 1),
            None if high is None else round(high, 1),
        )


def _per_hour(past: Window, name: str) -> float | None:
    return round(past.rates[name].per_hour, 1) if past.rates else None


def rates_known(rows: Sequence[Totals], now: float, length: float) -> str:
    """Return how much of a time is known, if not all of it."""
    known = window(rows, now - length, now).seconds
    if not known:
        return UNKNOWN
    if known >= 0.9 * length:
        return ""
    return f"the crawl ran for {describe_duration(known)} of that time, and rates are those of it"


def busiest_rows(busiest: Busiest) -> Iterator[tuple[Any, ...]]:
    """Yield the busiest queues, with their share of what all of these spent."""
    spent = sum(queue.spent for queue in busiest.queues)
    for queue in busiest.queues:
        share = round(queue.spent / spent, 4) if spent else 0.0
        yield queue.queue, queue.spent, share, queue.fetched, busiest.missed


def busiest_known(busiest: Busiest) -> str:
    """Return what is not exact about the busiest queues."""
    if not busiest.queues:
        return UNKNOWN
    notes = []
    if busiest.estimated:
        notes.append("counts are estimates: a part of the attempts was counted, for there were too many")
    if busiest.missed:
        notes.append(f"counts may be too low by {busiest.missed:,}: there were more queues than are counted at a time")
    return "; ".join(notes)


def forecast_rows(
    rows: Sequence[Totals],
    totals: Summary,
    queues: Iterable[QueueRecord],
    settings: Settings,
    in_force: Effective,
    *,
    now: float,
    length: float = HOUR,
) -> Iterator[forecasts.Forecast]:
    """Yield when each bound would end the crawl, at the rates of the last `length` seconds. O(queues)."""
    holds = forecasts.held((queue, _shortest_delay(queue, in_force)) for queue in queues)
    limits: dict[str, tuple[float, str]] = {}
    if settings.limits.max_uris:
        limits["max_uris"] = (settings.limits.max_uris - totals.succeeded - totals.failed, "finished")
    waiting = totals.queued + totals.future
    return forecasts.forecasts(window(rows, now - length, now), waiting=waiting, holds=holds, limits=limits)


def _shortest_delay(queue: QueueRecord, in_force: Effective) -> float:
    url = queue.last_enqueued or f"http://{queue.queue}/"
    settings = in_force.for_uri(url, queue.queue)
    return min(settings.min_delay, settings.max_delay) / max(settings.per_queue_concurrency, 1)
