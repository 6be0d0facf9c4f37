"""The alerts of a job: which conditions hold, and which sinks were told. They are in a file of the job's folder."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from budgetfrontier.core.units import counted, format_time
from budgetfrontier.rules.alert_conditions import CrawlSample, RaisedAlert

FILE = "alerts.json"
"""The file in the folder of a job. Whoever watches the job reads and writes it, so that none repeats another."""


_FRESH = 3600.0  # seconds
_DAY = 86_400.0


class AlertDelivery(msgspec.Struct, kw_only=True):
    """An alert on its way to a sink. `id` is the same for all sinks, and at each attempt."""

    id: str
    sink: str
    condition: str
    raised: bool
    """Whether the condition has begun; otherwise it has ended."""
    time: float
    about: RaisedAlert
    attempts: int = 0
    due: float = 0.0
    """When the next attempt is made."""
    done: float | None = None
    """When it was delivered, or given up."""
    error: str = ""
    """Why the last attempt has failed; "" if it was delivered."""


class AlertState(msgspec.Struct, kw_only=True):
    """The state of a job's alerts."""

    version: int = 1
    looked: float = 0.0
    """When somebody last looked at the crawl."""
    raised: dict[str, RaisedAlert] = {}
    samples: list[CrawlSample] = []
    deliveries: list[AlertDelivery] = []
    """Those that are on their way, and the latest of those that are done, the oldest first."""

    def sent(self, name: str) -> list[AlertDelivery]:
        """Return the deliveries of an alert that is raised."""
        since = self.raised[name].since
        return [one for one in self.deliveries if one.condition == name and one.raised and one.time >= since]


_decode = msgspec.json.Decoder(AlertState).decode


def read(job: Path) -> AlertState | None:
    """Return the state of a job's alerts; None if nobody has watched it, or the file cannot be read."""
    try:
        return _decode((job / FILE).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


def damage(job: Path) -> str | None:
    """Return a sentence about the file of a job's alerts if it is there and cannot be read; otherwise None."""
    if not (job / FILE).exists() or read(job) is not None:
        return None
    return f"{job / FILE} cannot be read: the next look begins anew, and alerts that were on their way are lost"


def problems(frontier: Path) -> Iterator[tuple[str, str, str]]:
    """Yield slug, level and sentence of each alert of a job that holds, and one of those that were not delivered.

    If nobody has looked at the job of late, they are out of date, and left out.
    """
    if frontier.name == "frontier" and (sentence := damage(frontier.parent)) is not None:
        yield "alerts", "warn", f"{sentence}."
    state = read(frontier.parent) if frontier.name == "frontier" else None
    if state is None or time.time() - state.looked > _FRESH:
        return
    for name, about in state.raised.items():
        since = format_time(about.since, "%Y-%m-%d %H:%M")
        yield f"alert_{name.partition(':')[0]}", about.level, f"Alert {name} since {since} UTC: {about.text}"
    failed = [one for one in state.deliveries if one.error and one.done and state.looked - one.time < _DAY]
    if failed:
        last, number = failed[-1], counted(len(failed), "alert was", "alerts were")
        yield "alerts", "warn", f"{number} not delivered, the last one to {last.sink}: {last.error}."
