"""The alerts of a crawl: which conditions hold, and which sinks were told. A job has them in a file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from budgetfrontier.core.units import counted, format_time
from budgetfrontier.reports.format import clean
from budgetfrontier.rules.alert_conditions import TOLD_BY_VERDICT, CrawlSample, RaisedAlert, TopSpender, TrapSuspect
from budgetfrontier.storage.whole_files import name_for_damaged

_FRESH = 3600.0  # seconds
_WATCHED = 120.0  # seconds since the last look, after which its time is said
_DAY = 86_400.0
_MINUTE = "%Y-%m-%d %H:%M UTC"


class AlertFiles(NamedTuple):
    """The files of the alerts of a crawl: their state, the lock that one watcher at a time holds, and the log.

    All that watch a crawl read and write its state, so that none repeats another.
    """

    state: Path
    lock: Path
    log: Path

    @classmethod
    def of_job(cls, job: Path) -> AlertFiles:
        """Return those in the folder of a job."""
        return cls(job / "alerts.json", job / "alerts.lock", job / "logs" / "alerts.log")

    @classmethod
    def beside(cls, state: Path) -> AlertFiles:
        """Return those whose state is in a given file: lock and log are beside it."""
        return cls(state, state.with_name(f"{state.name}.lock"), state.with_name(f"{state.name}.log"))


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
    """The state of a crawl's alerts."""

    version: int = 1
    looked: float = 0.0
    """When somebody last looked at the crawl."""
    over: bool = False
    """Whether the crawl was over when it was last seen."""
    unanswered: float = 0.0
    """Since when partitions of the crawl do not answer; 0.0 if all did at the last look."""
    raised: dict[str, RaisedAlert] = {}
    samples: list[CrawlSample] = []
    top: tuple[float, TopSpender | None] = 0.0, None
    """When a watcher last read the busiest queues, and the first of them."""
    suspects: tuple[float, tuple[TrapSuspect, ...]] = 0.0, ()
    """When a watcher last looked for traps, and what it found."""
    deliveries: list[AlertDelivery] = []
    """The deliveries under way, and the latest finished ones, the oldest first."""

    def sent(self, name: str) -> list[AlertDelivery]:
        """Return the deliveries of an alert that is raised."""
        since = self.raised[name].since
        return [one for one in self.deliveries if one.condition == name and one.raised and one.time >= since]


class StoredAlerts(NamedTuple):
    """The file of a crawl's alerts, as it was read."""

    state: AlertState | None = None
    """None if nobody has watched the crawl, or the file cannot be read."""
    problem: str = ""
    """Why the file cannot be read, in a sentence without its full stop."""
    damaged: bool = False


_decode = msgspec.json.Decoder(AlertState).decode


def read(files: AlertFiles) -> StoredAlerts:
    """Return the state of the alerts of a crawl."""
    try:
        return StoredAlerts(_decode(files.state.read_bytes()))
    except FileNotFoundError:
        return StoredAlerts()
    except OSError as error:
        return StoredAlerts(problem=f"{files.state} cannot be read: {error.strerror}")
    except msgspec.MsgspecError:
        how = "the next look keeps it under another name, and begins anew"
        return StoredAlerts(problem=f"{files.state} is damaged: {how}", damaged=True)


def set_aside(files: AlertFiles) -> str:
    """Rename the damaged file of a crawl's alerts; return the sentence on it."""
    aside = name_for_damaged(files.state)
    files.state.rename(aside)
    new = "alerts begin anew, and those that were on their way are lost"
    return f"{files.state} was damaged, and is now {aside.name}: {new}"


def problems(files: AlertFiles) -> Iterator[tuple[str, str, str]]:
    """Yield slug, level and sentence of each alert of a crawl that holds, and one of those that were not delivered.

    One of the level "good" is no problem. If nobody has looked at the crawl of late, they are out of date, and left
    out; so are those of a crawl that was over at the last look, as its watcher has ended with it.
    """
    state, problem, _ = read(files)
    if problem:
        yield "alerts", "warn", f"{problem}."
    if state is None or (age := time.time() - state.looked) > _FRESH:
        return
    as_of = f", as of {format_time(state.looked, _MINUTE)}" if age > _WATCHED else ""
    for name, about in state.raised.items() if not (as_of and state.over) else ():
        if about.level == "good":  # the crawl has ended well
            continue
        since = f"{format_time(about.since, _MINUTE)}{as_of}"
        own = about.text.split(". ")[: TOLD_BY_VERDICT.get(name)]
        told = ": ".join(filter(None, (f"Alert {clean(name)} since {since}", ". ".join(own).removesuffix("."))))
        yield f"alert_{name.partition(':')[0]}", about.level, f"{told}."
    failed = [one for one in state.deliveries if one.error and one.done and state.looked - one.time < _DAY]
    if failed:
        last, number = failed[-1], counted(len(failed), "alert was", "alerts were")
        yield "alerts", "warn", f"{number} not delivered, the last one to {last.sink}: {last.error}."
