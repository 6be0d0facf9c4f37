"""The conditions of a crawl that alerts report: when each begins, and when it ends.

A condition that has begun ends with a margin, so that a value near its limit does not begin and end it at each look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from budgetfrontier.core.model import CrawlState
from budgetfrontier.core.units import counted, format_size, format_time, say_duration
from budgetfrontier.rules.crawl_states import FINISH
from budgetfrontier.rules.run_history import WORKER, may_crawl
from budgetfrontier.rules.verdict import Standing, Verdict, are_leases_held, is_untouched, unasked
from budgetfrontier.settings.schema import AlertSettings

HOUR = 3600.0
TRAP = "trap:"
"""The beginning of the names of conditions about one queue, each of which has an alert of its own."""
TOLD_BY_VERDICT = {"finished": 0, "paused": 0, "no_process": 0, "no_commit": 1, "starved": 1}
"""The conditions that end with the verdict on the crawl, each with the number of sentences before it."""
_RESTS = ("bandwidth", "closed")  # verdicts on a crawl that fetches nothing because it must not
_SAMPLES = 120  # that are kept
_SHORTEST = 600.0  # seconds of samples that tell how fast a disk fills
_LEAST_SPEND = 1000  # in an hour, of which a share is worth an alert
_QUIET = 30.0  # seconds in which a process at work shows it for sure: it does about every ten
_MORE_ROOM, _MORE_TIME, _LESS = 1.1, 1.25, 0.8  # margins


class CrawlSample(msgspec.Struct, array_like=True):
    """Totals of a crawl at a time. `working`: a process ran it, and nothing kept it from fetching as a whole."""

    time: float
    working: bool
    tried: int
    """The attempts that have ended."""
    dead: int
    """The URIs that are dead letters, robots.txt files and other prerequisites aside."""
    free: dict[str, int]
    """The free bytes of each disk that it writes to, by a folder on it."""


class TopSpender(NamedTuple):
    """The queue that has spent most of late, with its share of what the busiest queues spent."""

    queue: str
    share: float
    total: int


class TrapSuspect(NamedTuple):
    """A queue that looks like a crawler trap and still hands URIs out, with its score and the strongest evidence."""

    queue: str
    score: float
    evidence: str


class Observed(NamedTuple):
    """A crawl as one look sees it."""

    standing: Standing
    verdict: Verdict
    free: Mapping[str, int]
    top: TopSpender | None = None
    suspects: Sequence[TrapSuspect] = ()
    past: Sequence[CrawlSample] = ()
    """Samples of the hour before a first look, from the totals over time: their times and dead letters alone."""

    @property
    def now(self) -> float:
        """The time of the look."""
        return self.standing.now


class Unanswered(NamedTuple):
    """A crawl in partitions of which some do not answer: all that one look sees. `over`: it was over before."""

    now: float
    since: float
    text: str
    over: bool


class RaisedAlert(msgspec.Struct):
    """A condition that holds: since when, how bad it is (the level of a verdict), and in one sentence."""

    since: float
    level: str
    text: str
    said: float = 0.0
    """The time of the sentence, whose own times are relative to it; 0.0 if it is not known."""


class AlertChange(NamedTuple):
    """A condition that has begun (`raised`), or ended, at a time; `about` has since when it held."""

    condition: str
    raised: bool
    time: float
    about: RaisedAlert


class _FoundCondition(NamedTuple):
    level: str
    text: str


def look(
    settings: AlertSettings,
    before: Mapping[str, RaisedAlert],
    samples: Sequence[CrawlSample],
    seen: Observed | Unanswered,
) -> tuple[dict[str, RaisedAlert], list[AlertChange]]:
    """Return the conditions that hold now, and what has changed since those that held before.

    `samples` are those of earlier looks, the oldest first, and the one of this look.
    """
    now, after = seen.now, dict[str, RaisedAlert]()
    found = (
        _conditions(settings, before, samples, seen)
        if isinstance(seen, Observed)
        else _unanswered(settings, before, seen)
    )
    for name, level, text in found:
        old = before.get(name)
        is_seen = isinstance(seen, Observed) or name == "no_process"
        said = now if old is None or is_seen else old.said
        after[name] = RaisedAlert(now if old is None else old.since, level, text, said)
    changes = [
        AlertChange(name, False, now, RaisedAlert(old.since, "good", f"No longer{_at(old)}: {old.text}", now))
        for name, old in before.items()
        if name not in after
    ]
    changes += [AlertChange(name, True, now, after[name]) for name in after if name not in before]
    return after, changes


def _at(alert: RaisedAlert) -> str:
    return f"; at {format_time(alert.said)}" if alert.said else ""


def sample(seen: Observed) -> CrawlSample:
    """Return the sample of a look."""
    totals, process = seen.standing.totals, seen.standing.process
    tried = totals.succeeded + totals.failed + totals.retried + totals.given_up + totals.disregarded
    runs = process.alive and may_crawl(process.program) and totals.state is CrawlState.RUNNING
    working = runs and seen.verdict.slug not in _RESTS
    return CrawlSample(seen.standing.now, working, tried, totals.dead - totals.dead_prerequisites, dict(seen.free))


def lacks_past(samples: Sequence[CrawlSample], now: float) -> bool:
    """Return whether no sample is of the hour before a look: dead letters of that hour are then to be looked up."""
    return not any(now - HOUR <= one.time <= now for one in samples)


def sampled(settings: AlertSettings, samples: Sequence[CrawlSample], new: CrawlSample) -> list[CrawlSample]:
    """Return the samples to keep: those of the time that conditions look back, at most about 120 of them."""
    back = max(HOUR, settings.starved or 0.0)
    kept = [one for one in samples if new.time - back * 1.1 <= one.time <= new.time]
    if kept and new.time - kept[-1].time < back / _SAMPLES and kept[-1].working == new.working:
        return kept
    return [*kept, new]


def _conditions(
    settings: AlertSettings, before: Mapping[str, RaisedAlert], samples: Sequence[CrawlSample], seen: Observed
) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each condition that holds, with its level and its sentence."""
    found: dict[str, _FoundCondition | None] = {
        "finished": _finished(seen) if settings.finished else None,
        "paused": _paused(seen) if settings.paused else None,
        "no_process": _no_process(seen, settings.no_process),
        "no_commit": _no_commit(seen, settings.no_commit),
        "starved": _starved(seen, settings.starved, samples),
        "hung_leases": _hung_leases(seen, settings.hung_leases),
        "disk_below": _disk_below(seen, settings.disk_below, raised="disk_below" in before),
        "disk_full_within": _disk_full_within(
            seen, settings.disk_full_within, samples, raised="disk_full_within" in before
        ),
        "dead_letters": _dead_letters(settings.dead_letters, samples, raised="dead_letters" in before),
        "queue_share": _queue_share(seen, settings.queue_share, raised="queue_share" in before),
    }
    for name, one in found.items():
        if one is not None:
            yield name, one.level, one.text
    for suspect in seen.suspects if settings.trap is not None else ():
        name = f"{TRAP}{suspect.queue}"
        if suspect.score >= (settings.trap or 0.0) * (_LESS if name in before else 1):
            looks = f"looks like a crawler trap (score {suspect.score:.2f})"
            yield name, "warn", f"The queue {suspect.queue} {looks}: {suspect.evidence}."


def _unanswered(
    settings: AlertSettings, before: Mapping[str, RaisedAlert], seen: Unanswered
) -> Iterator[tuple[str, str, str]]:
    """Yield the conditions that held before, which cannot be seen now, and that there is no process for partitions."""
    for name, one in before.items():
        if name != "no_process":
            yield name, one.level, one.text
    limit = settings.no_process
    if limit is not None and not seen.over and seen.now - seen.since >= limit:
        yield "no_process", "bad", f"{seen.text[:1].upper()}{seen.text[1:]}."


def is_over(seen: Observed) -> bool:
    """Return whether a crawl is over for good, or paused at its finish."""
    totals = seen.standing.totals
    at_finish = totals.state is CrawlState.PAUSED and totals.pause_reason == FINISH and not totals.queued
    return totals.state in (CrawlState.FINISHED, CrawlState.TERMINATED) or at_finish


def _finished(seen: Observed) -> _FoundCondition | None:
    if is_over(seen):
        return _FoundCondition(seen.verdict.level, seen.verdict.text)
    return None


def _paused(seen: Observed) -> _FoundCondition | None:
    if seen.standing.totals.state is CrawlState.PAUSED and not is_over(seen):
        return _FoundCondition("warn", seen.verdict.text)
    return None


def _no_process(seen: Observed, limit: float | None) -> _FoundCondition | None:
    """Look for a crawl with work left that no process runs. A server opens it when somebody uses it."""
    process, state = seen.standing.process, seen.standing.totals.state
    if limit is None or is_over(seen) or state is CrawlState.NEW or process.alive or process.server is not None:
        return None
    stop = process.last_stop
    ended = stop.ended if stop is not None else process.last_commit
    died = stop is not None and seen.verdict.level == "bad"
    if died or ended is None or seen.standing.now - ended >= limit:
        never_begun = not died and is_untouched(seen.standing)  # nothing has come to a stop
        return _FoundCondition("warn" if never_begun else "bad", seen.verdict.text)
    return None


def _no_commit(seen: Observed, limit: float | None) -> _FoundCondition | None:
    """Look for a process that does nothing: it has not called the frontier, or asked for no URI of those there are."""
    process, now = seen.standing.process, seen.standing.now
    if limit is None or not process.alive or not may_crawl(process.program) or process.program == WORKER:
        return None
    last = now - unasked(seen.standing) if seen.verdict.slug == "not_asked" else process.last_call
    if last is None or now - last < max(limit, _QUIET):
        return None
    if seen.verdict.slug in ("not_asked", "hung"):
        return _FoundCondition("bad", seen.verdict.text)
    unused = f"The process of the crawl has not used the frontier for {say_duration(now - last)}."
    return _FoundCondition("bad", f"{unused} {seen.verdict.text}")


def _starved(seen: Observed, limit: float | None, samples: Sequence[CrawlSample]) -> _FoundCondition | None:
    """Look for a crawl that has tried nothing for long, while a process ran it without a pause."""
    if limit is None or not samples or not samples[-1].working or not seen.standing.totals.queued:
        return None
    since = samples[-1].time
    for one in reversed(samples):
        if not one.working or one.tried != samples[-1].tried:
            break
        since = one.time
    quiet = seen.standing.now - since
    if quiet < limit:
        return None
    return _FoundCondition("warn", f"Nothing was fetched for {say_duration(quiet)}. {seen.verdict.text}")


def _hung_leases(seen: Observed, limit: float | None) -> _FoundCondition | None:
    first, now = seen.standing.first_lease, seen.standing.now
    if limit is None or first is None or now - first < limit or not are_leases_held(seen.standing.process):
        return None
    return _FoundCondition("warn", f"A URI is leased for {say_duration(now - first)}: {seen.standing.first_url}.")


def _disk_below(seen: Observed, limit: int, *, raised: bool) -> _FoundCondition | None:
    for folder, free in seen.free.items():
        if limit and free < limit * (_MORE_ROOM if raised else 1):
            return _FoundCondition("bad", f"Only {format_size(free)} of the disk of {folder} are free.")
    return None


def _disk_full_within(
    seen: Observed, limit: float | None, samples: Sequence[CrawlSample], *, raised: bool
) -> _FoundCondition | None:
    """Look for a disk that is soon full, if it fills as it did in the last hour."""
    if limit is None:
        return None
    now = seen.standing.now
    for folder, free in seen.free.items():
        first = next((one for one in samples if folder in one.free and now - one.time <= HOUR * _MORE_ROOM), None)
        if first is None or now - first.time < _SHORTEST or first.free[folder] <= free:
            continue
        rate = (first.free[folder] - free) / (now - first.time)
        left = free / rate
        if left < limit * (_MORE_TIME if raised else 1):
            text = f"{format_size(free)} are free, and {format_size(int(rate * HOUR))} an hour are used"
            return _FoundCondition("warn", f"The disk of {folder} is full in {say_duration(left)}: {text}.")
    return None


def _dead_letters(limit: int | None, samples: Sequence[CrawlSample], *, raised: bool) -> _FoundCondition | None:
    if limit is None or not samples:
        return None
    since = [one for one in samples if samples[-1].time - one.time <= HOUR]
    least = min(since, key=lambda one: (one.dead, -one.time))  # those replayed or dropped meanwhile are none now
    new = samples[-1].dead - least.dead
    if new < limit * (_LESS if raised else 1):
        return None
    took = say_duration(max(samples[-1].time - least.time, 1.0))
    what = counted(new, "URI has become a dead letter", "URIs have become dead letters")
    return _FoundCondition("warn", f"{what} within {took}.")


def _queue_share(seen: Observed, limit: float | None, *, raised: bool) -> _FoundCondition | None:
    top = seen.top
    if limit is None or top is None or top.total < _LEAST_SPEND or top.share < limit * (_LESS if raised else 1):
        return None
    return _FoundCondition(
        "warn", f"One queue, {top.queue}, has spent {top.share:.0%} of what the busiest spent of late."
    )
