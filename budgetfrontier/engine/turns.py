"""The turns of queues: arrivals, activation, the handing out of leases, and the changes of queues by operators."""

from __future__ import annotations

from budgetfrontier.core.model import CrawlUri, Directive, Lease, QueueRecord, QueueState
from budgetfrontier.core.vocabulary import QUOTA
from budgetfrontier.engine.group_turns import GroupTurns
from budgetfrontier.engine.native import kernel
from budgetfrontier.engine.plain_turns import PlainTurns
from budgetfrontier.engine.queue_settings import SettingsOfQueues
from budgetfrontier.engine.reassignment import Reassignment
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.taken_keys import Record
from budgetfrontier.errors import PolicyError
from budgetfrontier.rules import backoff, budgets, queue_states, wake_times
from budgetfrontier.rules.budgets import has_completed, must_retire
from budgetfrontier.rules.crawl_windows import Hours
from budgetfrontier.rules.queue_states import EXHAUSTED, IN_PROCESS, INACTIVE, READY, RETIRED, SNOOZED, may_lease
from budgetfrontier.rules.queued_totals import is_queued
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.head_urls import NO_URL
from budgetfrontier.storage.keys import DIRECTIVE
from budgetfrontier.storage.uri_values import LONGEST_SHOWN, expand, restore_pending, tries

# In one call, so that a million queues over budget, or due at once, hold nobody up:
MAX_TURNS = 1000  # without a lease
MAX_DUE = 500  # snoozed queues
MAX_GROUPS = 100  # groups whose parked queues go on
_MOST = 1 << 32
"""URIs of a call, of which the kernel counts no more than 64 bits hold: no frontier has as many out."""

_NOTHING = (b"", b"")


class Turns:
    """Gives queues their turns. `rules` decides where a queue goes, `rotation` moves it there."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rotation = tables.rotation
        self.settings = SettingsOfQueues(tables)
        self._hours = Hours()
        self.groups = GroupTurns(tables, self._clip, self._awake)
        self.reassignment = Reassignment(tables, self.wait, self.arrived, self.deleted)
        calls = self.move, self.arrived, self.groups.go_on, self._awake
        self.plain = None if kernel is None else PlainTurns(tables, *calls)
        self.cut_short = False
        """Whether the last call of `lease` had more to do than URIs to hand out, and left some of it for the next."""

    # -- moves

    def move(self, queue: QueueRecord, state: QueueState, now: float, *, front: bool = False) -> None:
        """Move a queue; one that begins a rest wakes no later than settings allow."""
        if state is SNOOZED and queue.state is not SNOOZED:
            self._clip(queue, now)
        elif state is EXHAUSTED:
            self._tables.pending.forget(queue.id)  # its run is empty
        self._rotation.move(queue, state, front=front)

    def _clip(self, queue: QueueRecord, now: float) -> None:
        if queue.overloaded_until:
            backoff.forget_later(queue, now + self._tables.longest_backoff)
        queue.wake_time = wake_times.clipped_wake_time(queue, now + self._tables.longest_delay)

    def go_on(self, queue: QueueRecord, now: float) -> None:
        """Let an IN_PROCESS queue out of that state if one more of its URIs may go out, now that budgets changed."""
        if queue.state is IN_PROCESS:
            self.settings.refresh(queue)
            after = queue_states.after_turn(queue, self.settings.settings_of(queue), now)
            if after is not IN_PROCESS:
                self.move(queue, after, now)

    # -- arrivals

    def arrived(
        self,
        queue: QueueRecord,
        count: int,
        short: str,
        settings: QueueSettings,
        precedence: int | None,
        now: float,
        *,
        hold: bool = False,
        lowest: int | None = None,
    ) -> None:
        """Count URIs that were placed on a queue, and move it if they change its state. `short`: the last one's URL.

        The queue takes the budgets in force for the last one; `precedence` is a policy's result, None without one, and
        `lowest` the lowest precedence of URIs that are not in the table yet.
        With `hold`, an EXHAUSTED queue waits for its turn even if `hold_queues` is false.
        """
        tables = self._tables
        queue.last_enqueued = short[:LONGEST_SHOWN]
        if queue.revision != tables.counters.settings_revision or not tables.in_force.fixed_precedence:
            self.settings.take_budgets(queue, settings, precedence, lowest)
        queue.queued += count
        queue.enqueued += count
        if is_queued(queue.state):
            tables.counters.queued += count
        hold = hold or tables.in_force.frontier.hold_queues
        after, at_once = queue_states.after_arrival(queue, settings, now, hold)
        if at_once and not queue.max_completed:  # how many are completed then is known in its turn
            self.activate(queue, settings, settings.precedence if precedence is None else precedence, now, lowest)
        elif after is not queue.state:
            self.move(queue, after, now)

    # -- activation and leases

    def activate(
        self, queue: QueueRecord, settings: QueueSettings, precedence: int, now: float, lowest: int | None = None
    ) -> None:
        """Give an INACTIVE queue, or an EXHAUSTED one with a first URI, a fresh balance and a place among the active.

        `precedence` is that of its head. The queue is RETIRED instead if its budget is spent, and INELIGIBLE if its
        precedence has come to be beyond the floor.
        """
        of_queue = self.settings.of_queue(queue, precedence, lowest)
        if of_queue >= self._rotation.floor:
            self.settings.take_budgets(queue, settings, precedence, lowest)
            self._rotation.move(queue, INACTIVE)
            return
        budgets.take_budgets(queue, settings, self._tables.counters.settings_revision)
        if queue.closed_until > now:  # its windows may have changed since; its turn decides
            self._rotation.set_waits(queue, wake_times.reopened(queue))
        self._clip(queue, now)
        if queue.max_completed:
            self._complete(queue)
        self._rotation.move(queue, queue_states.on_activation(queue, settings, now))
        queue.precedence = of_queue

    def activate_next(self, now: float) -> QueueRecord:
        """Activate the front INACTIVE queue of the best precedence, and return it. Raises PolicyError.

        One whose precedence has become worse goes to the back of its FIFO instead.
        """
        queue, in_force = self._rotation.front_inactive(), self._tables.in_force
        if in_force.fixed_precedence:  # then the head need not be looked at
            self.activate(queue, in_force.base, in_force.base.precedence, now)
            return queue
        settings, precedence = self.settings.asked(queue, self.settings.head_uri(queue))
        if not self.settings.steps_back(queue, precedence):
            self.activate(queue, settings, precedence, now)
        return queue

    def keep_active(self, least: int, now: float) -> None:
        """Activate INACTIVE queues until so many are active, or none is INACTIVE, or 1,000 were activated or retired.

        Raises PolicyError.
        """
        counters, ring = self._tables.counters, self._rotation.ring
        for _ in range(MAX_TURNS):
            if not counters.inactive or len(ring) + counters.in_process + counters.snoozed >= least:
                return
            self.activate_next(now)
        self.cut_short = True

    def lease(self, leased: list[Lease], count: int, ttl: float, now: float) -> None:
        """Hand out URIs, each queue in its turn, until there are `count` in the list; the kernel may have begun it.

        Raises PolicyError if a policy fails before the first URI; after it, the next call meets that queue first, and
        raises.
        """
        if self._tables.guarded and self.crawl_waits_until(now) > now:
            return
        try:
            if self.plain is None or not self._tables.leases_plainly:
                self._lease(leased, count, now + ttl, now, MAX_TURNS)
            else:
                self._lease_plainly(self.plain, leased, count, now + ttl, now)
        except PolicyError:
            if not leased:
                raise

    def _lease_plainly(self, plain: PlainTurns, leased: list[Lease], count: int, deadline: float, now: float) -> None:
        """Let the kernel give each turn that is a plain one. Raises PolicyError."""
        turns, count = MAX_TURNS, min(max(count, 0), _MOST)
        while True:
            used_up = plain.lease(leased, count, deadline, now)
            made = len(leased)
            if made == count:
                return
            if not used_up:
                turns = self._lease(leased, made + 1, deadline, now, turns)
                if len(leased) == made:
                    return
            elif self._tables.counters.parked and self.groups.wake_due(now, MAX_GROUPS):
                continue
            elif not self._tables.counters.inactive:
                return
            elif turns <= 0:
                self.cut_short = True
                return
            else:
                turns -= 1
                self.activate_next(now)

    def _lease(self, leased: list[Lease], count: int, deadline: float, now: float, turns: int) -> int:
        """Hand out URIs until there are `count` in the list, in `turns` without a lease at the most; return those left.

        Raises PolicyError.
        """
        counters, queues, ring = self._tables.counters, self._tables.queues, self._rotation.ring
        while len(leased) < count:
            if ring:
                queue = queues.get(ring.front())
                lease = self._take_turn(queue, deadline, now)
                if lease is not None:
                    leased.append(lease)
                elif queue.state is not IN_PROCESS:
                    turns -= 1
                    if turns <= 0:
                        self.cut_short |= bool(ring or counters.inactive)
                        break
            elif not counters.parked or not self.groups.wake_due(now, MAX_GROUPS):
                if not counters.inactive:
                    break
                if turns <= 0:
                    self.cut_short = True
                    break
                turns -= 1
                self.activate_next(now)
        return turns

    def _take_turn(self, queue: QueueRecord, deadline: float, now: float) -> Lease | None:
        """Give the queue at the front of the ring its turn; return its lease, None if there is none for it.

        The queue has been moved then: out of the ring, or to its back after a lease. Raises PolicyError.
        """
        tables = self._tables
        record = tables.pending.next(queue.id)
        key, value = record or tables.pending.head(queue.id) or _NOTHING
        uri = restore_pending(key, value, queue.queue)
        settings = tables.in_force.for_uri(uri.url, queue.queue, uri.source)
        if queue.revision != tables.counters.settings_revision:
            self.settings.take_budgets(queue, *self.settings.asked(queue, uri))
        if self.is_spent(queue, settings.reached):
            self._rotation.move(queue, RETIRED)
            return None
        if queue.out and not may_lease(queue, settings.per_queue_concurrency, settings.reached):
            self._rotation.move(queue, IN_PROCESS)
            return None
        if tables.guarded and (self.moves(queue, uri, now) or self.stopped_before_lease(queue, uri, settings, now)):
            return None
        if record is None:
            raise _contradiction(queue)
        lease = self.hand_out(queue, record, uri, deadline, now)
        self.end_turn(queue, settings, now)
        return lease

    def hand_out(self, queue: QueueRecord, record: Record, uri: CrawlUri, deadline: float, now: float) -> Lease:
        """Lease the URI of a record that `PendingTable.next` has returned."""
        tables, (key, value) = self._tables, record
        attempts, deliveries = tries(value)
        cost: int = uri.cost  # type: ignore[assignment]  # it comes from the key
        number = tables.leases.next_id
        lease = Lease(number, queue.queue, uri, cost, deadline, 1 + deliveries, 1 + attempts, queue.id, key)
        tables.leases.add(lease, now)
        tables.pending.hand_out(queue.id, key)
        queue.out += 1
        queue.reserved += cost
        queue.last_leased, queue.last_lease_time = uri.url, int(now)
        if uri.source:  # its label has a tally
            tables.note_label()
        return lease

    def end_turn(self, queue: QueueRecord, settings: QueueSettings, now: float, *, leased: bool = True) -> None:
        """Move a READY queue after its turn: to its rest if it has leased a URI, to the ring's back, or out of it."""
        if leased and self._tables.paces and self.rest_after_lease(queue, settings, now):
            self.move(queue, SNOOZED, now)
        elif may_lease(queue, settings.per_queue_concurrency, settings.reached):
            self._rotation.move(queue, READY)
        else:
            self._rotation.move(queue, IN_PROCESS)

    def crawl_waits_until(self, now: float) -> float:
        """Return until when nothing is leased, for the crawl has used its bandwidth, or all windows are closed.

        0.0: it may be.
        """
        in_force = self._tables.in_force
        busy_until = self._tables.counters.busy_until if in_force.frontier.max_bandwidth else 0.0
        if not in_force.closes:
            return busy_until
        return max(busy_until, min(self._hours.opens_at(windows, now) for windows in in_force.closes))

    def stopped_before_lease(self, queue: QueueRecord, uri: CrawlUri, settings: QueueSettings, now: float) -> bool:
        """Return whether the turn of a queue ends without a lease: crawl windows, a quota or its group stop it.

        It is asked last, after `moves`, and only if `Tables.guarded`: if the answer is no, the URI, which is the head,
        is leased. If it is yes, the queue has been moved to where it belongs. Raises PolicyError.
        """
        tables = self._tables
        if settings.windows and (opens := self._hours.opens_at(settings.windows, now)) > now:
            self._rotation.set_waits(queue, wake_times.closed(queue, opens))
            self._rotation.move(queue, SNOOZED)
            return True
        if queue.group_revision != tables.counters.settings_revision:
            self.groups.choose(queue, uri)
        if tables.tallies.kinds and tables.tallies.reached(queue, uri, settings):
            if settings.force_retire:
                self._rotation.move(queue, RETIRED)
            else:
                self._disregard_head(queue, now)
            return True
        if not queue.group or not self.groups.stops(queue, uri, now):
            return False
        self.groups.stop(queue, now)
        return True

    def _disregard_head(self, queue: QueueRecord, now: float) -> None:
        """End the head URI of a queue, uncharged, because a quota is used up."""
        tables, counters = self._tables, self._tables.counters
        key, value = tables.pending.head(queue.id) or _NOTHING
        counters.disregarded += 1
        if key[DIRECTIVE] == int(Directive.HIGHEST):
            counters.prerequisites += 1
            counters.prerequisites_disregarded += 1
        else:
            counters.quota_denials += 1
        tables.seeds.moved(key[DIRECTIVE], value, queue.queue, SeedFate.DISREGARDED, now, QUOTA)
        tables.pending.delete(queue, key)
        self.deleted(queue)

    def moves(self, queue: QueueRecord, uri: CrawlUri, now: float) -> bool:
        """Return whether the head of a READY queue, `uri`, moves, or waits for another queue. Raises PolicyError."""
        if not self._tables.reassigns:
            return False
        move = self.reassignment.asked(queue, uri, now)
        if move is None:
            return False
        self.reassignment.carry_out(queue, uri, move, now)
        return True

    def rest_after_lease(self, queue: QueueRecord, settings: QueueSettings, now: float) -> bool:
        """Let a READY queue that has leased a URI wait for its interval; return whether it has to."""
        queue.served = now
        interval = settings.min_interval if queue.interval is None else queue.interval
        if interval <= 0:
            return False
        queue.rest = 0  # its wait is over
        queue.wake_time = queue.paced_until = now + interval
        return True

    def set_interval(self, queue: QueueRecord, interval: float | None, now: float) -> None:
        """Give a queue the least time between two of its leases, None for that of the settings; it holds at once."""
        queue.interval = interval
        if interval is None:
            interval = self.settings.settings_of(queue).min_interval if queue.queued else 0.0
        self.wait(queue, wake_times.paced(queue, interval, now), now)

    def set_limit(self, queue: QueueRecord, limit: int) -> None:
        """Limit the completed URLs of a queue; one RETIRED, but not by name, is looked at again in its turn."""
        queue.max_completed = limit
        if queue.state is RETIRED and not queue.by_name:
            self.unretire(queue)

    def set_budget(self, queue: QueueRecord, budget: int | None) -> None:
        """Give a queue the total budget that crawlers ask for, None for that of the settings.

        It holds at once, unless an adjustment has set one.
        """
        queue.own_budget = budget
        if queue.queued:
            settings = self.settings.settings_of(queue)
        else:
            url = expand(queue.last_enqueued, queue.queue)
            settings = self._tables.in_force.for_uri(url or NO_URL, queue.queue, None)
        queue.total_budget = budgets.total_of(queue, settings)
        if queue.state is RETIRED and not queue.by_name:
            self.unretire(queue)

    def below_limit(self, queue_id: int, before: int) -> None:
        """Bring a queue back that its limit has RETIRED, if fewer of its URLs are completed than `before`."""
        queue = self._tables.queues.get(queue_id)
        was_reached = 0 < queue.max_completed <= before
        if was_reached and queue.state is RETIRED and not queue.by_name and not has_completed(queue):
            self.unretire(queue)

    def is_spent(self, queue: QueueRecord, reached: bool) -> bool:
        """Return whether a queue is RETIRED instead of having its turn; completions count as of now."""
        if queue.max_completed:
            self._complete(queue)
        return must_retire(queue, reached)

    def _complete(self, queue: QueueRecord) -> None:
        """Count completions as of now, if the queue may have reached its limit by that."""
        if queue.completed + self._tables.pending.taken.removed >= queue.max_completed:
            self._tables.pending.delete_removed()

    def wake_due(self, now: float) -> None:
        """Move queues that waited for a group, then snoozed ones that are due, to the ring's back: some hundreds."""
        if self._tables.counters.groups and now >= self._rotation.next_wake:
            self.cut_short |= self.groups.wake_due(now, MAX_GROUPS) == MAX_GROUPS
        if now < self._rotation.next_wake:
            return
        if self.plain is None:
            self.cut_short |= self._rotation.wake_due(now, MAX_DUE, self._awake)
        else:
            self.cut_short |= self.plain.wake_due(now, MAX_DUE)

    def _awake(self, queue: QueueRecord) -> QueueState:
        """Return the state of a SNOOZED queue after its wait; URIs that are out count by the budgets in force now."""
        if not queue.out:
            return READY
        self.settings.refresh(queue)
        return queue_states.after_waking(queue, self.settings.settings_of(queue))

    # -- changes by operators

    def retire(self, queue: QueueRecord) -> None:
        """Retire a queue by name."""
        if queue.state is RETIRED:
            self._tables.counters.retired_by_name += not queue.by_name
            queue.by_name = True
        else:
            queue.by_name = True
            self._rotation.move(queue, RETIRED)

    def unretire(self, queue: QueueRecord) -> None:
        """Bring a RETIRED queue back: to the back of its FIFO, or EXHAUSTED if it is empty."""
        if queue.state is RETIRED:
            self.settings.refresh(queue)
            self._rotation.move(queue, queue_states.after_unretirement(queue))
        queue.by_name = False

    def retires_again(self, queue: QueueRecord, *, moves: bool = True) -> bool:
        """Return whether a RETIRED queue that holds URIs would be RETIRED again in its turn, with no URI tried.

        Without `moves`, the budget of a group that its turn is to choose for it first does not count. It stays as it
        is.
        """
        if not queue.queued:
            return False
        tables, uri = self._tables, self.settings.head_uri(queue)
        settings = tables.in_force.for_uri(uri.url, queue.queue, uri.source)
        if queue.max_completed:
            self._complete(queue)
        shown = self.settings.as_it_stands(queue)
        if shown.precedence >= self._rotation.floor:
            return False
        if must_retire(shown, settings.reached):
            return True
        group = tables.in_force.grouping.name_of(uri, queue.queue)
        if settings.force_retire and tables.tallies.used_up(queue, uri, settings, group):
            return True
        return self.groups.is_over_budget(queue, group, moves=moves)

    def snooze(self, queue: QueueRecord, until: float, now: float) -> None:
        """Block a queue until a time, unless that is past; a URI that is out stays out."""
        self.wait(queue, wake_times.blocked(queue, until, now), now)

    def wait(self, queue: QueueRecord, waits: wake_times.Waits, now: float) -> None:
        """Let a queue wait until a time."""
        self._rotation.set_waits(queue, waits)
        if queue.state is READY and queue.wake_time > now:
            self._rotation.move(queue, SNOOZED)

    def wake(self, queue: QueueRecord, now: float) -> None:
        """End the wait of a queue now; one that waits for its group ends the group's clock."""
        queue.busy_until = 0
        if queue.parked:
            self.groups.end_wait(queue)
        if queue.state is SNOOZED:
            self._rotation.move(queue, self._awake(queue))
        self._rotation.set_waits(queue, wake_times.woken(queue, now))

    def deleted(self, queue: QueueRecord) -> None:
        """Move a queue after a deletion of some of its URIs, if it has to."""
        after = queue_states.after_deletion(queue)
        if after is not queue.state:
            self._rotation.move(queue, after)


def _contradiction(queue: QueueRecord) -> Damage:
    """Return the error for a queue that has only URIs that are out: none may go out twice, whatever the totals say."""
    return Damage(f"queue {queue.queue} holds {queue.queued} URIs of which {queue.out} are out, and no other was found")
