"""The frontier report in Heritrix's format, with additions: expenditure, stranded URIs, and why it is idle.

Operators have scripts that parse it: the order of sections, the legend and the summary line are those of Heritrix 3.
Differences: exhausted queues do not include the ineligible ones, `TERMINATED` is shown as FINISH, as in Heritrix, and
in full under "Crawl state", and there is no MANAGER THREAD section.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from budgetfrontier.core.model import CrawlState, QueueRecord, QueueState, Summary
from budgetfrontier.core.units import format_duration
from budgetfrontier.reports import listings, queue_rows
from budgetfrontier.reports.format import clean, counted, limit_in_words, percent
from budgetfrontier.reports.layout import EXACT, ListingLayout
from budgetfrontier.reports.overview import ORDER, Overview
from budgetfrontier.reports.wrong_now import PresentProblem
from budgetfrontier.rules.group_limits import GroupState
from budgetfrontier.rules.verdict import is_hung, process_line
from budgetfrontier.storage.group_listing import GroupsListed
from budgetfrontier.storage.report import BloomUse, Report, status_line

LEGEND = (
    "queue precedence currentSize totalEnqueues sessionBalance lastCost (averageCost) lastDequeueTime wakeTime "
    "totalSpend/totalBudget errorCount lastPeekUri lastQueuedUri"
)

GROUP_LEGEND = "group state queues parked inFlight/max totalSpend/totalBudget bytes wakeTime"

_COLUMNS = tuple(name for name in queue_rows.TERMINAL if name != "state")

_HERITRIX_STATE = {
    CrawlState.NEW: "EMPTY",
    CrawlState.RUNNING: "RUN",
    CrawlState.PAUSING: "PAUSE",
    CrawlState.PAUSED: "PAUSE",
    CrawlState.FINISHED: "FINISH",
    CrawlState.TERMINATED: "FINISH",
    CrawlState.UNKNOWN: "UNKNOWN",
}


def summary_line(source: Report | Summary) -> str:
    """Return Heritrix's one-line summary of a report, or of `Frontier.summary()`."""
    totals = source if isinstance(source, Summary) else source.totals
    _, _, queues = status_line(totals).partition(" - ")
    return f"{_HERITRIX_STATE[totals.state]} - {queues}"


def state_line(report: Report) -> str:
    """Return the state of the crawl, the reason of a pause, and whether a process runs it."""
    text = f"{report.state}" + (f" ({clean(report.pause_reason)})" if report.pause_reason else "")
    if report.state not in (CrawlState.RUNNING, CrawlState.PAUSING):
        return text
    if report.standing.process.server is not None:
        return f"{text}, but nobody uses it"
    if not report.standing.process.alive:
        return f"{text}, but no process runs it"
    return f"{text}, but its process hangs" if is_hung(report.standing) else text


def queue_line(queue: QueueRecord, *, now: float) -> str:
    """Return the line of a queue: tokens in the order of `LEGEND`, separated by spaces. Both costs are one token."""
    tokens = (
        queue.queue,
        queue.precedence,
        queue.queued,
        queue.enqueued,
        queue.balance,
        f"{queue.last_cost}({queue.average_cost:.1f})",
        f"{datetime.fromtimestamp(queue.last_lease_time, UTC):%Y%m%d%H%M%S}000" if queue.last_lease_time else "-",
        format_duration(queue.wake_time - now) if queue.wake_time > now else "-",
        f"{queue.expenditure}/{queue.total_budget}",
        queue.errors,
        queue.last_leased or "-",
        queue.last_enqueued or "-",
    )
    # A space within a value would shift the columns for scripts that split the line.
    return " ".join(clean(str(token)).replace(" ", "\\x20") for token in tokens)


def render(
    report: Report,
    *,
    limit: int = 20,
    now: float | None = None,
    overview: Overview | None = None,
    layout: ListingLayout = EXACT,
    wrong: Sequence[PresentProblem] = (),
) -> str:
    """Return the report, with at most `limit` queues in each section and times relative to `now` (epoch seconds).

    `overview` has its own limit; it is given if the queues were gathered before and `report` does not have them. With
    the width of a terminal in `layout`, queues are tables that fit into it, instead of Heritrix's lines. `wrong` is the
    list of present problems: see `reports.wrong_now`.
    """
    now = time.time() if now is None else now
    overview = overview or Overview(limit).gather(report.queues)
    lines = list(_fitted((*_head(report, wrong), *_stats(report), *_queues(report, overview)), layout))
    lines += _section(f"{overview.limit} LONGEST QUEUES", overview.longest(overview.limit), now, layout)
    for state in ORDER:
        shown = overview.listed(state)
        if state is QueueState.INELIGIBLE and not shown:
            continue  # as Heritrix does
        title = f"{state.replace('_', '-')} QUEUES"
        lines += _section(title, shown, now, layout, more=report.totals.queues.get(state, 0) - len(shown))
    last = (
        *_spend(overview),
        *_groups(report, overview, now),
        "",
        f"process: {clean(process_line(report.standing))}",
        summary_line(report),
    )
    return "\n".join((*lines, *_fitted(last, layout), ""))


def _fitted(lines: Iterable[str], layout: ListingLayout) -> Iterator[str]:
    for line in lines:
        yield from layout.wrapped(line)


def _head(report: Report, wrong: Sequence[PresentProblem]) -> Iterator[str]:
    yield f"Frontier report - {time.strftime('%Y%m%d%H%M', time.gmtime(report.generated))}"
    yield f" Job being crawled: {clean(report.crawl)}"
    yield f" Crawl state: {state_line(report)}"
    yield f" Process: {clean(process_line(report.standing))}"
    found = report.verdict
    yield f" Verdict: {clean(found.text)}"
    if found.remedy:
        yield f"   $ {clean(found.remedy)}"
    for problem in wrong:
        yield f" Wrong now: {clean(problem.text)}"


def _stats(report: Report) -> Iterator[str]:
    totals = report.totals
    yield from _title("STATS")
    yield f" Discovered:    {totals.scheduled}"
    yield f" Queued:        {totals.queued}"
    yield f" Finished:      {totals.succeeded + totals.failed + totals.disregarded}"
    yield f"  Successfully: {totals.succeeded}"
    yield f"  Failed:       {totals.failed}"
    yield f"  Disregarded:  {totals.disregarded}"
    yield f" Retried:       {totals.retried}"
    yield f" Deferred:      {totals.deferred}"
    yield f" Duplicates:    {totals.duplicates}"
    yield f" Future:        {totals.future}"
    yield f" Dead letters:  {totals.dead}"
    yield f"  Ever made:    {totals.buried}"
    yield f"  Dropped:      {totals.dropped} (prerequisites aside)"
    yield f" Deleted:       {totals.deleted}"
    yield f" Expired:       {totals.expired}"
    yield f" Robots denied: {totals.robots_denials}"
    yield f" Prerequisites: {totals.prerequisites}"
    yield f" Full:          {totals.full}{_by_reason(totals.full_reasons)}"
    yield f" Invalid:       {totals.invalid}{_by_reason(totals.invalid_reasons)}"
    yield f" Bytes:         {totals.bytes}"
    yield f" Expenditure:   {totals.expenditure}"
    yield f"  Successes:    {totals.succeeded_expenditure}"
    yield f"  Failures:     {totals.failed_expenditure} (penalties: {totals.penalties})"
    yield f"  Retries:      {totals.retried_expenditure}"
    yield f"  Dead letters: {totals.given_up_expenditure} (attempts: {totals.given_up})"
    yield f"  Other:        {totals.other_expenditure}"
    if report.removed:
        yield f" Kept for undo: {report.removed} bytes"


def _by_reason(counts: dict[str, int]) -> str:
    reasons = ", ".join(f"{clean(reason)}: {n}" for reason, n in sorted(counts.items()))
    return f" ({reasons})" if reasons else ""


def _bloom(use: BloomUse | None) -> str:
    if use is None:
        return ""
    return f" ({use.recorded / use.expected:.1%} of the Bloom filter's {use.expected}; its error is {use.error:.1e})"


def _queues(report: Report, overview: Overview) -> Iterator[str]:
    count = {state: report.totals.queues.get(state, 0) for state in QueueState}
    active = count[QueueState.IN_PROCESS] + count[QueueState.READY] + count[QueueState.SNOOZED]
    waiting = "; ".join(f"p{precedence}: {n}" for precedence, n in overview.inactive_by_precedence())
    yield from _title("QUEUES")
    yield f" Already included size:     {report.totals.seen}{_bloom(report.bloom)}"
    yield "               pending:     0"
    yield ""
    yield f" All class queues map size: {sum(count.values())}"
    yield f"             Active queues: {active}"
    yield f"                    In-process: {count[QueueState.IN_PROCESS]}"
    yield f"                         Ready: {count[QueueState.READY]}"
    yield f"                       Snoozed: {count[QueueState.SNOOZED]}"
    yield f"           Inactive queues: {count[QueueState.INACTIVE]}" + (f" ({waiting})" if waiting else "")
    if count[QueueState.INELIGIBLE]:
        yield f"         Ineligible queues: {count[QueueState.INELIGIBLE]}"
    yield f"            Retired queues: {count[QueueState.RETIRED]}"
    yield f"          Exhausted queues: {count[QueueState.EXHAUSTED]}"
    yield ""
    yield f"             Last state: {_HERITRIX_STATE[report.state]}"


def _section(
    title: str, queues: Iterable[QueueRecord], now: float, layout: ListingLayout, *, more: int = 0
) -> Iterator[str]:
    yield from _title(title)
    if layout.width is not None and (queues := list(queues)):
        with io.StringIO() as table:
            rows = map(queue_rows.row_of(_COLUMNS, now), queues)
            listings.write(rows, _COLUMNS, table, layout=layout, drop=queue_rows.DROP)
            yield table.getvalue().rstrip("\n")
        queues = ()
    lines = [queue_line(queue, now=now) for queue in queues]
    if lines:
        yield LEGEND
    yield from lines
    if more > 0:
        yield f"...and {more:,} more"


def _spend(overview: Overview) -> Iterator[str]:
    spend = overview.spend()
    yield from _title("SPEND")
    yield f" Spent: {spend.total:,} by {counted(spend.spenders, 'queue')}, {spend.penalties:,} of it in error penalties"
    yield f" Spread: Gini {spend.gini:.2f}; the ten biggest spenders have {percent(spend.top10_share)}"
    yield " Top spenders: totalSpend/totalBudget share queue"
    for queue in spend.top:
        share = queue.expenditure / spend.total
        yield f"  {queue.expenditure:,}/{limit_in_words(queue.total_budget)} {percent(share, 1)} {clean(queue.queue)}"
    if spend.spenders > len(spend.top):
        yield f"...and {spend.spenders - len(spend.top):,} more"
    yield f" Stranded: {counted(spend.stranded, 'URI')} in {counted(spend.stranding_count, 'retired queue')}"
    for queue in spend.stranding:
        yield f"  {queue.queued} {clean(queue.queue)}"
    if spend.stranding_count > len(spend.stranding):
        yield f"...and {spend.stranding_count - len(spend.stranding):,} more"


def _groups(report: Report, overview: Overview, now: float) -> Iterator[str]:
    groups = report.groups
    if not groups.count:
        return
    yield from _title("GROUPS")
    yield f" {groups_line(groups)}"
    yield GROUP_LEGEND
    shown = overview.shown(groups)
    for row in shown:
        tokens = (
            row.group,
            row.state,
            row.queues,
            row.parked,
            f"{row.in_flight}/{'-' if row.max_in_flight is None else row.max_in_flight}",
            f"{row.expenditure}/{row.total_budget}",
            row.bytes,
            format_duration(row.wake_time - now) if row.wake_time > now else "-",
        )
        yield " ".join(clean(str(token)).replace(" ", "\\x20") for token in tokens)
    if groups.count > len(shown):
        yield f"...and {groups.count - len(shown):,} more"


def groups_line(groups: GroupsListed) -> str:
    """Return a sentence on how many groups are in each state."""
    states = ", ".join(f"{groups.states[state]:,} {state}" for state in GroupState if state in groups.states)
    return f"{counted(groups.count, 'group')}: {states}"


def _title(title: str) -> tuple[str, str]:
    return "", f" -----===== {title} =====-----"
