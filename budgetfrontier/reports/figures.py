"""What the reports say beyond the bare rows: queues by state, who spent what, what is stranded, why it is idle."""

from __future__ import annotations

import heapq
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from budgetfrontier.model import CrawlState, QueueRecord, QueueState

if TYPE_CHECKING:
    from budgetfrontier.store.snapshot import Report

ORDER: dict[QueueState, Callable[[QueueRecord], tuple[float, ...]]] = {
    QueueState.IN_PROCESS: lambda q: (q.position,),
    QueueState.READY: lambda q: (q.position,),
    QueueState.SNOOZED: lambda q: (q.wake_time, q.id),
    QueueState.INACTIVE: lambda q: (q.precedence, q.position),
    QueueState.RETIRED: lambda q: (q.position,),
}
"""The states that a report lists, in Heritrix's order, and in which order their queues will have their turn."""


def clean(text: str) -> str:
    """`text` safe for a terminal and one line: control and other unprintable characters are written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def listed(queues: Iterable[QueueRecord], state: QueueState, limit: int) -> list[QueueRecord]:
    """The first `limit` queues of a state, in the order of their turns. Cost: one pass over `queues`."""
    return heapq.nsmallest(limit, (q for q in queues if q.state is state), key=ORDER[state])


def longest(queues: Iterable[QueueRecord], limit: int) -> list[QueueRecord]:
    """The `limit` queues that hold most URIs, empty ones left out."""
    return heapq.nlargest(limit, (q for q in queues if q.queued), key=lambda q: q.queued)


def inactive_by_precedence(queues: Iterable[QueueRecord]) -> list[tuple[int, int]]:
    """How many INACTIVE queues wait in the FIFO of each precedence, the best (lowest) first."""
    return sorted(Counter(q.precedence for q in queues if q.state is QueueState.INACTIVE).items())


def gini(amounts: Sequence[int]) -> float:
    """The Gini coefficient: 0.0 when all are equal, towards 1.0 when one has everything; 0.0 for nothing at all."""
    total, count = sum(amounts), len(amounts)
    if not total:
        return 0.0
    weighted = sum(rank * amount for rank, amount in enumerate(sorted(amounts), 1))
    return 2 * weighted / (count * total) - (count + 1) / count


@dataclass(frozen=True, slots=True)
class Spend:
    """How the expenditure is spread over the queues, and what budgets hold back."""

    total: int
    spenders: int
    """Queues that spent anything."""
    penalties: int
    """The part of `total` that was charged as error penalty."""
    gini: float
    top10_share: float
    """The part of `total` that the ten biggest spenders spent, 0.0 to 1.0."""
    top: list[QueueRecord]
    stranded: int
    """URIs that RETIRED queues hold."""
    stranding: list[QueueRecord]
    """The RETIRED queues that hold most of them."""
    stranding_count: int


def spend(queues: Sequence[QueueRecord], *, limit: int) -> Spend:
    """Add up the expenditure. Cost: a sort of all queues."""
    amounts = [q.expenditure for q in queues]
    total = sum(amounts)
    retired = [q for q in queues if q.state is QueueState.RETIRED and q.queued]
    return Spend(
        total=total,
        spenders=sum(1 for amount in amounts if amount),
        penalties=sum(q.penalties for q in queues),
        gini=gini(amounts),
        top10_share=sum(heapq.nlargest(10, amounts)) / total if total else 0.0,
        top=heapq.nlargest(limit, (q for q in queues if q.expenditure), key=lambda q: q.expenditure),
        stranded=sum(q.queued for q in retired),
        stranding=heapq.nlargest(limit, retired, key=lambda q: q.queued),
        stranding_count=len(retired),
    )


def idle(report: Report, *, now: float) -> str | None:
    """Why nothing is being handed out, in one sentence, or None when something is or may be."""
    totals, counts = report.totals, report.totals.queues
    if report.state is CrawlState.TERMINATED:
        return "the crawl was terminated, for good"
    if report.state in (CrawlState.PAUSED, CrawlState.PAUSING):
        if report.pause_reason == "finish":
            more = "raise a budget with `adjust`, or add seeds, then run the same `crawl` command"
            return f"the budgets allow no more: {more}"
        return f"the crawl is paused ({clean(report.pause_reason or 'no reason given')}); `resume` goes on"
    if report.state is CrawlState.NEW:
        return "nothing was ever scheduled"
    if counts.get(QueueState.READY, 0) or counts.get(QueueState.IN_PROCESS, 0):
        return None
    if counts.get(QueueState.SNOOZED, 0):
        wake = min((q.wake_time for q in report.queues if q.state is QueueState.SNOOZED), default=now)
        return f"all active queues are snoozed; the next one wakes in {duration(wake - now)}"
    if counts.get(QueueState.INACTIVE, 0):
        return "inactive queues are activated as soon as a worker asks for a URI, and none is asking"
    if totals.future:
        return f"all that is left is scheduled for later ({totals.future:,} URIs)"
    if counts.get(QueueState.RETIRED, 0):
        return "only retired queues are left; `adjust` a budget to revive them"
    return "nothing is queued"


def start_command(job: str) -> str:
    """The command that goes on with a crawl; the frontier does not know where its configuration is."""
    return shlex.join(("budgetfrontier", "crawl", "CONFIG", "--job", job))


def session(amount: int, replenish: int) -> int:
    """What a queue may spend at its activation: its own replenish `amount`, or the crawl's where it has none."""
    return amount if amount > 0 else max(replenish, 1)


def revival_command(queue: QueueRecord, job: str, *, replenish: int) -> str:
    """The command that brings a RETIRED queue back, for one session more; `replenish` is the amount of the crawl."""
    more = session(queue.balance_replenish_amount, replenish)
    options = []
    if 0 <= queue.total_budget <= queue.expenditure:
        options += ["--total-budget", str(queue.expenditure + more)]
    if queue.balance_replenish_amount <= 0:
        options += ["--replenish", str(more)]
    if queue.by_name or not options:
        return shlex.join(("budgetfrontier", "unretire", job, queue.queue))
    return shlex.join(("budgetfrontier", "adjust", job, "--match", f"queue:{queue.queue}", *options))


def counted(count: int, noun: str) -> str:
    """A number with its noun, in the plural where it is not one.

    >>> counted(1, "queue"), counted(1200, "queue")
    ('1 queue', '1,200 queues')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def duration(seconds: float) -> str:
    """A length of time in the two largest units that it has, as Heritrix writes it: 2s17ms, 3m20s, 1d4h."""
    left = round(max(seconds, 0.0) * 1000)
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        amount, left = divmod(left, size)
        if amount:
            parts.append(f"{amount}{unit}")
        if parts and (len(parts) == 2 or not amount):
            break
    return "".join(parts) or "0ms"
