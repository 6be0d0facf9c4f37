"""The overview: the verdict with present problems, four figures, the queues by state, curves, and the forecast."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from budgetfrontier.core.model import QueueRecord, Summary
from budgetfrontier.core.units import describe_duration, format_size
from budgetfrontier.reports.format import counted, percent
from budgetfrontier.reports.over_time import SPAN_WORDS, SPANS, Curves, compared, forecast_sentence, rates_told
from budgetfrontier.reports.totals import tiles
from budgetfrontier.reports.wrong_now import PresentProblem, worst, wrong_now
from budgetfrontier.rules.forecasts import Forecast, binding, full_now, not_before
from budgetfrontier.rules.verdict import WITH_QUEUED, Verdict, standstill, verdict
from budgetfrontier.storage.disks import free_bytes
from budgetfrontier.storage.process import process
from budgetfrontier.storage.report import BloomUse, bloom_use
from budgetfrontier.storage.standing import standing
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import key_path
from budgetfrontier.tools.console.sampling import RatePerSecond, read, with_fetched

TOP = 8
"""Queues in each ranking."""
LAST_MINUTE = "in the last minute"
"""The time of a rate that is as of now."""
_MANY_ERRORS, _MOST_ERRORS = 0.05, 0.25  # shares of attempts from which errors are shown as a warning, and as bad


class Remedy(NamedTuple):
    """The page with what mends a problem, what that is, and what it shows where nothing can be changed; "" for none."""

    path: str
    does: str
    shows: str


def _of_page(path: str, shows: str, *, does: str = "") -> Remedy:
    return Remedy(path, does or shows, shows)


REMEDIES = {
    "retired": _of_page("/retired", "Which queues", does="Raise budgets or unretire"),
    "over_budget": _of_page("/retired", "Which queues", does="Raise their budgets"),
    "dead_letters": _of_page("/dead-letters", "Which URIs", does="Replay or drop them"),
    "penalties": _of_page("/errors", "Which queues fail"),
    "one_queue": _of_page("", "Look at it"),
    "leased": _of_page("/leases", "Which URIs"),
    "snoozed": _of_page("/queues?state=SNOOZED", "Which queues"),
    "paused": _of_page("/steer", "", does="Resume it"),
    "disregarded": _of_page("/errors", "By which rules"),
    "refused": _of_page("/errors", "For which reasons"),
    "later": _of_page("/queues", "Which queues"),
    "alerts": _of_page("/alerts", "Who was told"),
}
"""The remedies for the slugs of verdicts and of problems."""


class BigFigure(NamedTuple):
    """One of the figures at the top: its amount, a note below it, the page that has more, and its curve."""

    name: str
    amount: str
    unit: str
    note: str
    path: str
    curve: list[float | None]
    level: str = "good"


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the values of the overview. O(1): those that need all queues are from the latest scan."""
    span, now = query.choice("span", SPANS), time.time()
    with job.view() as view:  # one commit, for the verdict and for the figures below it
        sample = read(view, now=now)
        running = process(view, job.path)
        bloom = bloom_use(view, view.settings()[0], sample.totals.seen)
        scanned = job.scanned()
        found = job.forecasts(view, scanned)
        stands = standing(view, job.path, now=now, totals=sample.totals, running=running)
    drawn = job.over_time.curves(span)
    context: dict[str, Any] = (
        judgement(verdict(stands), wrong_now(job.path, stands, scanned.scan.spend if scanned else None), job.base)
        | foreseen(found.rows, standstill(stands), found.as_of)
        | {
            "sample": sample,
            "totals": sample.totals,
            "process": running,
            "big": big_figures(
                sample.totals,
                drawn,
                rate_of(with_fetched(job.samples.rates(), stands.rate)) if running.alive else 0.0,
                LAST_MINUTE if running.alive else "now, without a process",
            ),
            "tiles": [*tiles(sample.totals), *_storage(job, bloom)],
            "curves": drawn,
            "spans": list(SPANS),
            "scan": scanned.scan if scanned else None,
            "scan_progress": job.scans.progress,
            "scan_error": job.scans.error,
        }
    )
    if scanned:
        spend = scanned.scan.spend
        context |= {
            "spend": spend,
            "rankings": rankings(job, spend.top, scanned.scan.longest, spend.stranding),
            "waiting_rows": [(f"precedence {grade}", "", count) for grade, count in scanned.scan.waiting[:TOP]],
        }
    return context


def _storage(job: ConsoleJob, bloom: BloomUse | None) -> Iterator[tuple[str, str]]:
    """Yield the sizes of the frontier's file, of the rest of the disk, and of the Bloom filter if it has one."""
    yield "file", format_size((job.path / "data.mdb").stat().st_size)
    yield "free on disk", format_size(free_bytes(job.path))
    if bloom:
        share = percent(bloom.recorded / bloom.expected)
        yield "Bloom filter", f"{share} of {bloom.expected:,} URIs; its error is {bloom.error:.1e}"


def judgement(judged: Verdict, problems: Sequence[PresentProblem], base: str) -> dict[str, Any]:
    """Return the values of the bar with the verdict: its level is the worst of all that it says.

    A problem has no link if the verdict has the same.

    Nothing that is changed has a terminated crawl go on: the remedies of its problems show what was left.
    """

    def mends(slug: str, key: str = "") -> Remedy | None:
        found = REMEDIES.get("alerts" if slug.startswith("alert_") else slug)
        if found is None:
            return None
        does = found.shows if judged.slug == "terminated" else found.does
        return Remedy(base + (key_path(key) if key else found.path), does, found.shows)

    remedy = mends(judged.slug) if judged.level != "good" else None
    links = (mends(problem.slug, problem.queue) for problem in problems)
    return {
        "verdict": judged,
        "level": worst([judged.level, *(problem.level for problem in problems)]),
        "remedy": remedy,
        "problems": [
            (problem, None if link == remedy else link) for problem, link in zip(problems, links, strict=True)
        ],
    }


def rate_of(rates: Sequence[RatePerSecond]) -> float | None:
    """Return the rate of fetches; None if it is not known."""
    return next((one.now for one in rates if one.name == "fetched"), None)


def big_figures(totals: Summary, drawn: Curves, rate: float | None, when: str) -> list[BigFigure]:
    """Return the four figures that matter: what is queued, the rate and `when` it was so, the spend, and the errors."""
    by_name = {curve.name: curve for curve in drawn.figures}
    queues = sum(totals.queues.get(state, 0) for state in WITH_QUEUED)
    fetched, spent = by_name["fetched"], by_name["spent"]
    missed = [
        None if one is None or other is None else one + other
        for one, other in zip(by_name["failed"].points, by_name["buried"].points, strict=True)
    ]
    tried = totals.succeeded + totals.failed + totals.retried + totals.given_up
    share = (totals.failed + totals.given_up) / tried if tried else 0.0
    shown = "-" if rate is None else f"{rate:,.1f}"
    pace = "; ".join(filter(None, (when, _pace(drawn, "fetched"))))
    out = f", {totals.in_process:,} out" if totals.in_process else ""
    level = "bad" if share >= _MOST_ERRORS else "warn" if share >= _MANY_ERRORS else "good"
    failed = f"{totals.failed:,} failed, {counted(totals.dead, 'dead letter')}"
    return [
        BigFigure(
            "queued",
            f"{totals.queued:,}",
            "",
            f"in {counted(queues, 'queue')}{out}" if queues else "nothing waits",
            "/queues?state=unfinished",
            drawn.queued,
        ),
        BigFigure("rate", shown, "" if rate is None else "/s", pace, "/rates", fetched.points),
        BigFigure(
            "spent", f"{totals.expenditure:,}", "", _pace(drawn, "spent"), "/queues?sort=expenditure", spent.points
        ),
        BigFigure("errors", percent(share, 1) if tried else "-", "", failed, "/errors", missed, level),
    ]


def _pace(drawn: Curves, name: str) -> str:
    """Return the rate of a figure in the time shown; if the crawl ran for a moment only, the amount of that moment.

    "" if nothing is known.
    """
    curve = next(curve for curve in drawn.figures if curve.name == name)
    amount, unit = curve.amount(drawn.known)
    if curve.rate is None or curve.rate.per_hour is None:
        return amount + unit if curve.rate else ""
    ran = f"the {describe_duration(round(drawn.known))} that it ran in " if drawn.of_part else ""
    return f"{amount} an hour, in {ran}the last {SPAN_WORDS[drawn.span]}"


def foreseen(found: Sequence[Forecast], still: str, as_of: float | None) -> dict[str, Any]:
    """Return the values of the forecast: its sentence, the bound that ends the crawl first, and each bound.

    `as_of` is the time at which the queues were read; None: as of the last commit.

    A crawl of which nothing ends at present, for the reason `still` or a full disk, has no time of its end.
    """
    first, unknown = binding(found), still or full_now(found) or not_before(found)
    ends = first if first is not None and first.seconds and not unknown else None  # else it is not in the future
    return {
        "forecast": forecast_sentence(found, standstill=still, as_of=as_of),
        "binding": ends,
        "forecasts": compared(found),
        "foreseen_as_of": as_of,
        "foreseen_by": rates_told(found),
    }


def rankings(
    job: ConsoleJob, top: list[QueueRecord], longest: list[QueueRecord], stranding: list[QueueRecord]
) -> dict[str, list[tuple[str, str, int]]]:
    """Return the first queues of three orders with the paths of their pages, and an amount of each."""
    orders = {"expenditure": top, "queued": longest, "stranded": stranding}
    return {
        name: [
            (
                queue.queue,
                job.base + key_path(queue.queue),
                queue.expenditure if name == "expenditure" else queue.queued,
            )
            for queue in queues[:TOP]
        ]
        for name, queues in orders.items()
    }
