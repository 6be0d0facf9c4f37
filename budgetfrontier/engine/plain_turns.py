"""Turns of queues and ends of leases where only budgets and waits have a say: the compiled kernel takes them.

It stops before whatever else a turn or an end may need, which `Turns.lease` and `Finisher.finish` do then: they are
the definition, and do everything where the kernel is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import force_setattr

from budgetfrontier.core.model import CrawlUri, Finish, Lease, Outcome, QueueRecord, QueueState
from budgetfrontier.engine import history, queue_cache
from budgetfrontier.engine.group_table import LiveGroup
from budgetfrontier.engine.native import kernel
from budgetfrontier.engine.settings_in_force import SettingsInForce
from budgetfrontier.engine.tables import Tables
from budgetfrontier.storage import keys
from budgetfrontier.storage.uri_values import LOW_COSTS, PLAIN_KIND, restore_pending

DUE: Final = 2
"""The result of a call that the kernel has answered if more is due at its end: 1 if not, 0 if it has not answered."""
CUT_SHORT: Final = 3
"""The same if a lease has more to do than URIs to hand out, and has left some of it for the next."""
MOST_ANSWERED: Final = 1000
"""URIs that a call may be about which the kernel answers."""


class AdmissionParts(NamedTuple):
    """The parts of the engine by which the kernel admits plain URIs."""

    reader: Any
    """The kernel's reader of batches."""
    authority: Callable[[str], object]
    """Returns the authority of a URL: `Candidates.authority`."""
    kind: Callable[[], tuple[bytes, int, int, bool]]
    """Returns what plain URIs have in common: their rank, without their arrival, what turns an ordinal into an arrival,
    how many URIs of a queue may be out, and whether their URLs are kept."""
    admits_links: Callable[[], bool]
    """Returns whether the kernel may admit plain links of pages by itself."""
    ids: dict[str, int]
    find_or_create: Callable[[str], QueueRecord]
    insert: Callable[..., None]


class PlainTurns:
    """The kernel with the tables that it changes. `settle` brings the totals up to date after that.

    `move(queue, state, now)` makes the moves that are no plain ones, `arrived` those of arrivals: `Turns`.
    `go_on(group, now)` lets the queues go on that wait for a group: `GroupTurns`. `awake(queue)` returns the state of a
    SNOOZED queue after its wait.
    """

    def __init__(
        self,
        tables: Tables,
        move: Callable[[QueueRecord, QueueState, float], None],
        arrived: Callable[..., None],
        go_on: Callable[[LiveGroup, float], None],
        awake: Callable[[QueueRecord], QueueState],
    ) -> None:
        assert kernel is not None
        self._tables = tables
        self.set_wake = tables.rotation.set_wake
        self.move, self.go_on = move, go_on
        self._arrived, self._awake = arrived, awake
        self._woken = 0
        """Queues that the kernel has woken in a call of `lease` that Python is to end."""
        self.admission: AdmissionParts | None = None
        """None where Python admits all URIs."""
        queues, pending = tables.queues, tables.pending
        parts = {
            "cache": queues.cache,
            "dirty": queues.dirty,
            "get": queues.get,
            "env": tables.env,
            "queues": tables.env.db[keys.QUEUES],
            "queue_ids": tables.env.db[keys.QUEUE_IDS],
            "ahead": pending.ahead,
            "reading": pending.reading,
            "restore": restore_pending,
            "taken": pending.taken,
            "out": tables.leases.out,
            "ring": tables.rotation.ring,
            "snoozed": tables.rotation.snoozed,
            "charged": tables.busiest.charged,
            "counters": tables.counters,
            "attempts": tables.history.attempts,
            "links": tables.history.links,
            "lease": Lease,
            "uri": CrawlUri,
            "set": force_setattr,
            "finish": Finish,
            "success": Outcome.SUCCESS,
            "groups": tables.groups.live,
            "limited": tables.groups.limited,
            "quota_reached": tables.tallies.reached,
            "count_success": tables.tallies.succeeded,
            "random": tables.random.random,
        }
        self._in_force: SettingsInForce | None = None
        self._effective: Any = None
        """The kernel's settings of URIs, made of `_in_force`."""
        self._new_effective: Any = kernel.Effective
        most = history.MOST_ENDED, queue_cache.CACHE
        self.kernel: Any = kernel.Turns(parts, normal=PLAIN_KIND, costs=len(LOW_COSTS), most=most)

    def arrived(self, queue: QueueRecord, count: int, short: str, now: float) -> None:
        """Count URIs that were placed on a queue, and move it if they change its state."""
        self._arrived(queue, count, short, self._tables.in_force.base, None, now)

    @property
    def best_waiting(self) -> int:
        """The best precedence of INACTIVE queues."""
        return self._tables.rotation.best_waiting

    @property
    def next_wake(self) -> float:
        """A lower bound of the wake times of the snoozed."""
        return self._tables.rotation.next_wake

    @property
    def next_wake_of_groups(self) -> float:
        """The earliest wake time of groups; `inf` if none waits."""
        return self._tables.groups.first_wake()

    @property
    def snoozed(self) -> Any:
        """A cursor of the table `snoozed`."""
        return self._tables.env.snoozed

    def begin(self, of_calls: tuple[Any, ...] | None = None) -> None:
        """Let the kernel take turns and end leases until `settle`; with `of_calls`, whole calls of a frontier.

        These are the fields of its `Calls` and `Terms`, in order: `Guard.answer`.
        """
        tables, in_force = self._tables, self._tables.in_force
        if in_force is not self._in_force:
            effective = in_force.effective
            self._effective = self._new_effective(in_force.base if in_force.trivial else None, effective.for_all_like)
            self._in_force = in_force
        of_groups = tables.guarded, tables.groups.reached
        of_uris = bool(tables.tallies.kinds), in_force.needs_addresses
        of_queues = tables.counters.settings_revision, tables.rotation.best_waiting
        limits = self._effective, tables.paces, *of_groups, *of_uris, *of_queues
        self.kernel.begin(limits, tables.counters.ring_back, tables.rotation.next_wake, tables.leases.next_id, of_calls)

    def settle(self) -> tuple[float, int] | None:
        """Bring the totals up to date, and end the calls; return the time of the last one, and their operations.

        None: the kernel has answered none. O(calls that have leased something).
        """
        settled = self.kernel.settle()
        if settled is None:
            return None
        of_calls: tuple[float, int] | None
        changes, answers, next_wake, first_expiry, ring_back, next_id, calls, of_calls, self._woken = settled
        in_process, snoozed, succeeded, queued, spent, size, scheduled, found, duplicates = changes
        counters, leases, rotation = self._tables.counters, self._tables.leases, self._tables.rotation
        counters.in_process += in_process
        counters.snoozed += snoozed
        counters.succeeded += succeeded
        counters.queued += queued
        counters.expenditure += spent
        counters.bytes += size
        counters.scheduled += scheduled
        counters.found += found
        counters.duplicates += duplicates
        self._tables.history.noted(answers)
        counters.ring_back = ring_back
        leases.next_id = next_id
        rotation.next_wake = next_wake
        if first_expiry < leases.next_expiry:
            leases.next_expiry = first_expiry
        leases.calls += calls[1:] if calls and leases.calls and leases.calls[-1][1] == calls[0][1] else calls
        return of_calls

    def place(self, batch: Any, page: tuple[str, str] | None, now: float) -> int:
        """Put the URIs of a batch of the kernel that are new on their queues; return their number.

        `page` has the URL of the page on which they were found, and the hops of its links. O(1) for each.
        """
        self.begin()
        placed: int = self.kernel.place(batch, page, now, self)
        self.settle()
        return placed

    def wake_due(self, now: float, limit: int) -> bool:
        """Move the first snoozed queues that are due to the ring's back; return whether there may be more.

        `limit` at the most, with those that the kernel has woken in the same call. O(1) for each.
        """
        most = limit - self._woken
        self.begin()
        moved: int = self.kernel.wake_due(now, most, self)
        self.settle()
        self._tables.rotation.next_wake = min(self.next_wake, self.next_wake_of_groups)
        return moved == most

    def wake_first(self, now: float) -> None:
        """Move the first snoozed queue, which is due, to where it belongs."""
        rotation = self._tables.rotation
        rotation.next_wake = now  # at the most: the kernel has the lower bound
        rotation.wake_due(now, 1, self._awake)

    def lease(self, leased: list[Lease], count: int, deadline: float, now: float) -> bool:
        """Hand out URIs until there are `count` in the list; return whether the ring is used up before.

        It stops before a turn that needs more. O(1) for each.
        """
        self.begin()
        used_up: bool = self.kernel.hand_out(leased, count - len(leased), deadline, now)
        self.settle()
        return used_up

    def end(self, items: Sequence[Lease | Finish], start: int, late: list[Lease], now: float) -> int:
        """End leases, or as each Finish says, from one on; return the place of the first that needs more.

        Leases that have ended before are added to `late`. O(1) for each.
        """
        self.begin()
        place: int = self.kernel.end(items, start, late, now, now + self._tables.longest_delay, self)
        self.settle()
        return place
