"""Spending of a slice by one partition: leases within it, and messages to and from the treasurer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from budgetfrontier.cluster.log.entries import Message, SliceGranted, SliceRecalled, SliceWanted
from budgetfrontier.cluster.log.state import LogPlace, QuotaState
from budgetfrontier.cluster.quotas import quota_grants, quota_slices
from budgetfrontier.cluster.quotas.quota_grants import TREASURER, Grant, Recall
from budgetfrontier.cluster.quotas.quota_slices import Amounts, PartitionWork, Statement, Use
from budgetfrontier.core import protocol
from budgetfrontier.core.model import CrawlState, Lease, Summary
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import PolicyError

MOST_LEASES: Final = 1 << 12
"""Leases of one call."""

Send = Callable[[int, Message], None]
"""`send(partition, message)` sends a message to a partition."""


class QuotaSpending:
    """Keeps the slice of a partition and, if it is the treasurer, the grants: its `state`."""

    def __init__(self, place: LogPlace, state: QuotaState, send: Send) -> None:
        self.state, self._place, self._send = state, place, send

    def __repr__(self) -> str:
        return f"<QuotaSpending of partition {self._place.partition}: {self.state.slice}>"

    @property
    def is_limited(self) -> bool:
        """Whether there is a total."""
        return any(self.state.slice.limited)

    def is_waiting(self, frontier: Frontier) -> bool:
        """Return whether nothing may be leased before the treasurer grants something, or a lease ends."""
        part = self.state.slice
        return part.want is not None and quota_slices.is_used_up(part, use_of(frontier, part.limited))

    def room(self, frontier: Frontier) -> Amounts:
        """Return the amount that may still be leased."""
        return quota_slices.room(self.state.slice, use_of(frontier, self.state.slice.limited))

    def lease(self, frontier: Frontier, wanted: protocol.Wanted) -> list[Lease]:
        """Lease URIs within the slice: no more of them than it has left, and none once its spend may be used up."""
        count, part = min(wanted.count, MOST_LEASES), self.state.slice
        if not self.is_limited:
            return frontier.lease(count, ttl=wanted.ttl)
        frontier.lease(0, ttl=wanted.ttl)  # expired leases are not out
        left = self.room(frontier)
        count = min(count, left.uris)
        if not part.limited[1]:
            return frontier.lease(count, ttl=wanted.ttl) if count > 0 else []
        leases: list[Lease] = []
        spend = left.spend
        while len(leases) < count and spend > 0:
            try:
                found = frontier.lease(1, ttl=wanted.ttl)
            except PolicyError:
                if not leases:
                    raise
                break  # the next call meets that queue first, and raises
            if not found:
                break
            leases += found
            spend -= found[0].cost + frontier.internals.settings_for(found[0]).error_penalty_amount
        return leases

    # -- after calls and messages

    def claimed(self, frontier: Frontier, *, is_new: bool) -> None:
        """Put the totals of the settings in force. After a raise, requests are granted at once."""
        settings, state = frontier.settings.cluster, self.state
        totals = Amounts(settings.max_uris, settings.max_spend)
        limits = bool(totals.uris), bool(totals.spend)
        part, statement = quota_slices.limited(state.slice, limits, use_of(frontier, limits))
        state.slice = part
        if statement is not None and not is_new:  # a new partition has nothing to return
            self._send_statement(statement)
        if self._place.partition == TREASURER:
            if state.treasury is None:
                state.treasury = quota_grants.start(totals)
            self._carry_out(quota_grants.set_totals(state.treasury, totals, self._place.partitions))

    def heard(self, source: int, entry: SliceWanted | SliceGranted | SliceRecalled) -> None:
        """Apply a message from another partition."""
        state = self.state
        if isinstance(entry, SliceWanted):
            if state.treasury is not None:
                statement = Statement(entry.returned, entry.want)
                done = quota_grants.hear(state.treasury, source, statement, entry.limits, self._place.partitions)
                self._carry_out(done)
        elif isinstance(entry, SliceGranted):
            state.slice = quota_slices.granted(state.slice, entry.amounts)
        elif self.is_limited:
            state.slice = replace(state.slice, recalled=True)

    def applied(self, frontier: Frontier, *, leased: bool = False, everything: bool = False) -> None:
        """Send the treasurer the statement that follows from a call or a message; `leased`: URIs were asked for."""
        part = self.state.slice
        if not (leased or part.recalled or part.want is not None) or not self.is_limited:
            return
        summary = frontier.summary()
        use = use_of(frontier, part.limited, summary)
        self.state.slice, statement = quota_slices.stated(
            part, use, work_of(summary), leased=leased, everything=everything
        )
        if statement is not None:
            self._send_statement(statement)

    def _send_statement(self, statement: Statement) -> None:
        self._send(TREASURER, SliceWanted(statement.returned, statement.want, self.state.slice.limited))

    def _carry_out(self, done: list[Grant | Recall]) -> None:
        for each in done:
            if isinstance(each, Grant):
                self._send(each.partition, SliceGranted(each.amounts))
            else:
                self._send(each.partition, SliceRecalled(each.everything))


def use_of(frontier: Frontier, limited: tuple[bool, bool], summary: Summary | None = None) -> Use:
    """Return a partition's use of the totals: URIs that were tried and are done with, and its expenditure."""
    summary = summary or frontier.summary()
    reserved = frontier.internals.reserved() if limited[1] else 0
    done = summary.succeeded + summary.failed + summary.given_up
    return Use(Amounts(done, summary.expenditure), Amounts(summary.in_process, reserved))


def work_of(summary: Summary) -> PartitionWork:
    """Return the work that a partition could lease."""
    attempts = summary.succeeded + summary.failed + summary.retried + summary.given_up
    cost = max(1, -(-summary.expenditure // max(1, attempts)))
    ready = summary.queues["READY"] + summary.queues["INACTIVE"] if summary.state is CrawlState.RUNNING else 0
    return PartitionWork(max(ready, summary.queued - summary.in_process), ready, cost)
