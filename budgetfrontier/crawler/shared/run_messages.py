"""Messages at the beginning and the end of a run that shares its frontier."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from budgetfrontier.connections import is_cluster
from budgetfrontier.core.model import CrawlState, Summary
from budgetfrontier.core.units import format_size
from budgetfrontier.crawler.closing_summary import OUTPUTS, StopReason, files_in
from budgetfrontier.crawler.crawl_limits import CrawlLimit
from budgetfrontier.crawler.fetch.descriptors import shortage
from budgetfrontier.crawler.progress import amount, backlog, ends, state_text
from budgetfrontier.crawler.shared.served_crawl import ServedCrawl
from budgetfrontier.reports.format import counted
from budgetfrontier.rules import crawl_states
from budgetfrontier.rules.verdict import limit_sentence
from budgetfrontier.settings import Settings
from budgetfrontier.settings.advice import advice
from budgetfrontier.settings.differences import changes

_NAMED = 5  # settings that differ


def beginning(remote: ServedCrawl, summary: Summary, *, given: Settings, folder: Path, seeds: int) -> Iterator[str]:
    """Yield the lines on a crawl that begins: on its settings, a pause, and its work."""
    differ = [change for change in changes(given, remote.settings) if change.name.split(".")[0] in _SERVED]
    if differ:
        more = ", ..." if len(differ) > _NAMED else ""
        listed = ", ".join(str(change) for change in differ[:_NAMED])
        yield f"the settings of the frontier are those of {remote.name}, not of CONFIG: {listed}{more}"
    if summary.state in (CrawlState.PAUSED, CrawlState.PAUSING) and summary.pause_reason != crawl_states.FINISH:
        there = "" if is_cluster(remote.name) else " there"
        resume = _command("resume", remote.name, remote.folder)
        if summary.pause_reason == crawl_states.LIMIT:
            yield limit_sentence("a total of the crawl")
        else:
            disk = crawl_states.is_paused_for_disk(summary.state, summary.pause_reason)
            yield f"the crawl is paused ({summary.pause_reason})" + ("" if disk else f"; `{resume}`{there} goes on")
    found = backlog(summary) if summary.succeeded + summary.failed else f"seeds: {seeds} new"
    yield f"crawl {given.crawl} on {remote.name}, outputs in {folder}: {found}"


_SERVED = ("frontier", "overrides", "sheets", "associations")


def warnings(remote: ServedCrawl, given: Settings, *, most_visits: int) -> Iterator[str]:
    """Yield warnings about the settings, of this process and of the server."""
    yield from advice(given)
    if warning := shortage(given.fetch.concurrency, most_visits):
        yield warning
    if (at_once := remote.settings.frontier.politeness.per_queue_concurrency) > 1:
        yield (
            f"politeness.per_queue_concurrency is {at_once} on {remote.name}: crawlers may fetch from one host at the "
            "same time"
        )


def closing(
    summary: Summary,
    *,
    name: str,
    frontier: Path,
    folder: Path,
    stop: StopReason,
    limit: CrawlLimit | None,
    fetched: int,
    size: int,
    late: int,
    untold: int,
    command: str,
    tags: Iterable[str] = (),
) -> Iterator[str]:
    """Yield the lines on a crawl that ends: why, the work of this process, and the work of all.

    `late` and `untold` are the numbers of leases that expired before their end was sent, and of ends that were not;
    `tags` are lines on URIs that robots tags have kept out in this run.
    """
    again = "run the same command" + (f": {command}" if command else "")
    over = summary.state in (CrawlState.FINISHED, CrawlState.TERMINATED) or summary.pause_reason == crawl_states.FINISH
    if stop is StopReason.LIMIT and limit:
        yield (
            f"stopped: limits.{limit.name} of this process is reached; raise it "
            f"(now {amount(limit.name, limit.most)}), and {again}"
        )
    elif stop is StopReason.FORCED:
        yield f"stopped at once; what was in flight is fetched again; to go on, {again}"
    elif stop is StopReason.POLICY:
        yield f"stopped: a policy of {name} failed; once it is fixed there, {again}"
    elif stop is StopReason.INTERRUPTED:
        yield f"stopped: interrupted; to go on, {again}"
    elif over:
        yield f"crawl {state_text(summary)}: nothing is left to do on {name}, for any process"
    yield f"  this process: {counted(fetched, 'fetch', 'fetches')}, {format_size(size)}"
    for line in tags:
        yield f"  {line}"
    if late:
        yield f"  {counted(late, 'lease')} had expired before their end was told: these URIs are fetched again"
    if untold:
        yield (
            f"  {name} could not be told the end of {counted(untold, 'URI')}: their output is kept, and they are "
            "fetched again"
        )
    yield f"  all processes: {ends(summary)}; left: {backlog(summary)}"
    for output in OUTPUTS:
        if output != "reports" and (written := files_in(folder / output)):
            yield f"  {written}"
    where = "" if is_cluster(name) else ", where the frontier is served"
    yield f"  reports: {_command('report', name, frontier)}{where}"


def _command(command: str, name: str, frontier: Path) -> str:
    """Return the command of an operator for a crawl: of a server, in its folder there; in partitions, from anywhere."""
    target = ("--cluster", name) if is_cluster(name) else (str(frontier.parent),)
    return shlex.join(("budgetfrontier", command, *target))
