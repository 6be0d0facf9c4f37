"""The summary at the end of a run: why it ended, the state of the crawl, its outputs, and how to continue."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path

from budgetfrontier.core.model import CrawlState, QueueState, Summary
from budgetfrontier.core.units import format_size
from budgetfrontier.crawler.crawl_limits import CrawlLimit
from budgetfrontier.crawler.progress import amount, backlog, ends, queues
from budgetfrontier.reports.format import counted
from budgetfrontier.reports.overview import Overview, SpendDistribution
from budgetfrontier.reports.suggested_commands import lifting_precedence, revival_commands
from budgetfrontier.reports.totals import denials, refused_line
from budgetfrontier.rules import crawl_states
from budgetfrontier.rules.budgets import has_completed
from budgetfrontier.settings import Settings
from budgetfrontier.settings.matching import queue_match
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.head_urls import NO_URL, HeadUrls
from budgetfrontier.storage.holds import holds
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.report import Report
from budgetfrontier.storage.turn_order import in_turn

LISTED = 10
"""The most retired queues that are listed with the command that revives them."""

OUTPUTS = ("warcs", "logs", "reports")


class StopReason(StrEnum):
    """Why a run ended."""

    NONE = "none"  # nothing was left to do
    LIMIT = "limit"
    INTERRUPTED = "interrupted"
    FORCED = "forced"
    POLICY = "policy"  # a policy failed


def closing_summary(
    report: Report,
    overview: Overview,
    *,
    folder: Path,
    settings: Settings,
    stop: StopReason = StopReason.NONE,
    limit: CrawlLimit | None = None,
    command: str = "",
    tags: Iterable[str] = (),
) -> Iterator[str]:
    """Yield the lines of the summary of the crawl in the job `folder`, from `report` and its `overview`.

    `limit` is the limit that was reached, if any; `command` is the command that was run, quoted for a shell; without
    one, the caller says how the crawl continues. `tags` are lines on exclusions by robots tags in this run. Reads its
    frontier and the sizes of the output files. O(retired queues listed + output files).
    """
    summary, job = report.totals, str(folder)
    spend = overview.spend()
    retired = spend.stranding_count  # a queue over budget with its last URI is RETIRED too, and holds nothing back
    again = "run the same command" + (f": {command}" if command else "")
    if limit:
        again = f"raise limits.{limit.name} (now {amount(limit.name, limit.most)}) and {again}"
    paused = summary.state in (CrawlState.PAUSED, CrawlState.PAUSING)
    done = summary.state in (CrawlState.FINISHED, CrawlState.TERMINATED) or summary.pause_reason == crawl_states.FINISH
    if done:
        yield _final_state(report, spend)
    elif stop is StopReason.LIMIT and limit:
        yield f"stopped: limits.{limit.name} is reached; {again}"
    elif stop is StopReason.FORCED:
        yield f"stopped at once; all that was finished is kept, what was in flight is fetched again; to go on, {again}"
    elif stop is StopReason.POLICY:
        yield f"stopped: {summary.pause_reason}"
        yield f"  URIs in flight are fetched again; once the policy is fixed, {again}"
    else:
        yield f"stopped: interrupted; to go on, {again}"
    if paused and not done and stop is not StopReason.POLICY:
        why = summary.pause_reason or "no reason given"
        disk = crawl_states.is_paused_for_disk(summary.state, summary.pause_reason)
        yield f"  it stays paused ({why})" + ("" if disk else f" until: {_shell('resume', job)}")
    yield f"  done: {ends(summary)}, {_disregarded(summary)}; {_spend(summary)}"
    if refused := refused_line(summary):
        yield f"  {refused}"
    for line in tags:
        yield f"  this run: {line}"
    yield f"  left: {backlog(summary)}; queues: {queues(summary)}"
    if summary.dead:
        yield f"  dead letters: {_shell('dead-letters', job)}"
    for name in OUTPUTS:
        if written := files_in(folder / name):
            yield f"  {written}"
    ineligible = summary.queues.get(QueueState.INELIGIBLE, 0)
    if (retired or ineligible) and summary.state is not CrawlState.TERMINATED:
        if retired:
            yield from _revivals(spend, settings, folder)
        if ineligible:
            yield from _lifts(ineligible, settings, folder)
        if done and command:
            yield f"then {again}"
    elif done and summary.state is not CrawlState.TERMINATED and not summary.full:  # else more seeds are refused, too
        seed = _shell("import", job, "--seeds", "FILE")
        yield f"to crawl more: add seeds ({seed}), and {again}"


def _disregarded(summary: Summary) -> str:
    causes = f" ({why})" if (why := denials(summary)) else ""
    return f"{summary.disregarded - summary.prerequisites_disregarded:,} disregarded{causes}"


def _spend(summary: Summary) -> str:
    penalties = f" ({summary.penalties:,} in penalties)" if summary.penalties else ""
    return f"spend {summary.expenditure:,}{penalties}"


def _final_state(report: Report, spend: SpendDistribution) -> str:
    retired = spend.stranding_count
    how = "paused at finish" if report.state is CrawlState.PAUSED else f"crawl {report.state.lower()}"
    if report.state is CrawlState.TERMINATED and not retired:
        return how
    if not retired or report.verdict.slug == "ineligible":  # it counts the retired beside these
        return f"{how}: {report.verdict.text.partition(': ')[2].removesuffix('.')}"
    verb = "is" if retired == 1 else "are"
    return f"{how}: {counted(retired, 'queue')} {verb} retired, with {counted(spend.stranded, 'URI')}"


def _revivals(spend: SpendDistribution, settings: Settings, folder: Path) -> Iterator[str]:
    """Yield lines on the retired queues with the most URIs, each with the commands that revive it."""
    replenish, job = settings.frontier.balance_replenish_amount, str(folder)
    shown = spend.stranding[:LISTED]
    with Reader(folder / "frontier") as reader, reader.view() as view:
        in_force = BudgetsInForce(view)
        reached = [in_force.reached(row) for row in shown]
        held = list(holds(view, shown))
    yield "retired queues, and what revives them:"
    for row, retires_when_reached, others in zip(shown, reached, held, strict=True):
        budget = "" if row.total_budget < 0 else f" of {row.total_budget:,}"
        how = "retired by an operator" if row.by_name else f"spent {row.expenditure:,}{budget}"
        if has_completed(row):
            how += f", {row.completed:,} URLs completed with a limit of {row.max_completed:,}"
        how = ", ".join((how, *others.texts()))
        yield f"  {row.queue}: {counted(row.queued, 'URI')}, {how}"
        for command in revival_commands(row, job, replenish=replenish, reached=retires_when_reached, held=others):
            yield f"    {command}"
    if more := spend.stranding_count - len(shown):
        yield f"  ...and {more:,} more: {_shell('queues', job, '--state', 'RETIRED')}"


def _lifts(number: int, settings: Settings, folder: Path) -> Iterator[str]:
    """Yield lines on the queues that have been INELIGIBLE the longest, each with the command that changes it."""
    frontier, job, lines = settings.frontier, str(folder), list[str]()
    with Reader(folder / "frontier") as reader, reader.view() as view:
        heads, in_force = HeadUrls(view), view.in_force()
        for _, id_ in islice(in_turn(view, QueueState.INELIGIBLE), LISTED):
            queue = view.queue_by_id(id_)
            url, label = heads.subject(queue)
            own = in_force.for_uri(url or NO_URL, queue.queue, label).precedence
            lines.append(f"  {queue.queue}: {counted(queue.queued, 'URI')}, precedence {queue.precedence}")
            if (wanted := lifting_precedence(queue, url or NO_URL, own, frontier)) is not None:
                change = _shell("adjust", job, "--match", queue_match(queue.queue), "--set", f"precedence={wanted}")
                lines.append(f"    {change}")
    yield f"ineligible queues, with a precedence_floor of {frontier.precedence_floor}, and what makes them eligible:"
    yield from lines
    if number > LISTED:
        yield f"  ...and {number - LISTED:,} more: {_shell('queues', job, '--state', 'INELIGIBLE')}"


def files_in(folder: Path) -> str | None:
    """Return a line on the number and size of the files in a folder of outputs; None if there are none."""
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return f"{folder}: {counted(len(files), 'file')}, {format_size(sum(files))}" if files else None


def _shell(*words: str) -> str:
    return shlex.join(("budgetfrontier", *words))
