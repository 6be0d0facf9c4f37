"""Spending of a slice by one partition: leases within it, and messages to and from the treasurer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from budgetfrontier.cluster.log import state
from budgetfrontier.cluster.log.entries import Message, SliceGranted, SliceRecalled, SliceWanted
from budgetfrontier.cluster.log.state import LogPlace, QuotaState
from budgetfrontier.cluster.quotas import quota_grants, quota_slices
from budgetfrontier.cluster.quotas.quota_grants import TREASURER, Grant, Recall
from budgetfrontier.cluster.quotas.quota_slices import Amounts, PartitionWork, Statement, Use
from budgetfrontier.core import protocol
from budgetfrontier.core.model import CrawlState, Lease, Summary
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import PolicyError
from budgetfrontier.storage import meta

MOST_LEASES: Final = 1 << 12
"""Leases of one call."""

Send = Callable[[int, Message], None]
"""`send(partition, message)` sends a message to a partition."""


class QuotaSpending:
    """Keeps the slice of a partition and, if it is the treasurer, the grants: its `state`, a row of its tables."""

    def __init__(self, frontier: Frontier, place: LogPlace, send: Send, *, is_new: bool) -> None:
        """Put the totals of the frontier's settings in force; `is_new`: the partition has just begun."""
        self._frontier, self._log = frontier, frontier.internals.changelog
        self._place, self._send = place, send
        row = self._log.read(meta.NOTE)
        self.state = QuotaState() if row is None else state.decode(row, QuotaState)
        self._set_totals(is_new)

    def __repr__(self) -> str:
        return f"<QuotaSpending of partition {self._place.partition}: {self.state.slice}>"

    @property
    def is_limited(self) -> bool:
        """Whether there is a total."""
        return any(self.state.slice.limited)

    @property
    def is_waiting(self) -> bool:
        """Whether nothing may be leased before the treasurer grants something, or a lease ends."""
        part = self.state.slice
        return part.want is not None and quota_slices.is_used_up(part, use_of(self._frontier, part.limited))

    @property
    def room(self) -> Amounts:
        """The amount that may still be leased."""
        return quota_slices.room(self.state.slice, use_of(self._frontier, self.state.slice.limited))

    def lease(self, wanted: protocol.Wanted) -> list[Lease]:
        """Lease URIs within the slice: no more of them than it has left, and none once its spend may be used up."""
        frontier, count, part = self._frontier, min(wanted.count, MOST_LEASES), self.state.slice
        if not self.is_limited:
            return frontier.lease(count, ttl=wanted.ttl)
        frontier.lease(0, ttl=wanted.ttl)  # expired leases are not out
        left = self.room
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

    def write(self) -> None:
        """Write the row."""
        self._log.write(meta.NOTE, state.encode(self.state))

    def _set_totals(self, is_new: bool) -> None:
        """Put the totals of the settings in force. After a raise, requests are granted at once."""
        settings, own = self._frontier.settings.cluster, self.state
        totals = Amounts(settings.max_uris, settings.max_spend)
        limits = bool(totals.uris), bool(totals.spend)
        own.slice, statement = quota_slices.limited(own.slice, limits, use_of(self._frontier, limits))
        if statement is not None and not is_new:  # a new partition has nothing to return
            self._send_statement(statement)
        if self._place.partition == TREASURER:
            if own.treasury is None:
                own.treasury = quota_grants.start(totals)
            self._carry_out(quota_grants.set_totals(own.treasury, totals, self._place.partitions))

    def heard(self, source: int, entry: SliceWanted | SliceGranted | SliceRecalled) -> None:
        """Apply a message from another partition."""
        own = self.state
        if isinstance(entry, SliceWanted):
            if own.treasury is not None:
                statement = Statement(entry.returned, entry.want)
                done = quota_grants.hear(own.treasury, source, statement, entry.limits, self._place.partitions)
                self._carry_out(done)
        elif isinstance(entry, SliceGranted):
            own.slice = quota_slices.granted(own.slice, entry.amounts)
        elif self.is_limited:
            own.slice = replace(own.slice, recalled=True)

    def applied(self, *, leased: bool = False, everything: bool = False) -> None:
        """Send the treasurer the statement that follows from a call or a message; `leased`: URIs were asked for."""
        part = self.state.slice
        if not (leased or part.recalled or part.want is not None) or not self.is_limited:
            return
        summary = self._frontier.summary()
        use = use_of(self._frontier, part.limited, summary)
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
