"""Turns and finishes as `rules` and `Rotation.move` have them, without what the engine writes out again for speed.

Each function stands for a method of the engine that has its common cases written out, or passes over questions whose
answers are known. `go_by_rules` puts them into a frontier; test_written_out.py compares it with one as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from budgetfrontier import Frontier
from budgetfrontier.core.model import Finish, Lease, Outcome, QueueRecord, QueueState, Tally
from budgetfrontier.engine.finish import Finisher
from budgetfrontier.engine.pending import PendingTable
from budgetfrontier.engine.rotation import Rotation
from budgetfrontier.engine.turns import MAX_GROUPS, MAX_TURNS, Turns
from budgetfrontier.rules import budgets, charges, queue_states, queued_totals, wake_times
from budgetfrontier.rules.queue_states import IN_PROCESS, READY, RETIRED, SNOOZED
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.storage import keys
from budgetfrontier.storage.uri_values import LONGEST_SHOWN, restore_uri, tries
from tests.support import kernel


def go_by_rules(frontier: Frontier) -> None:
    """Let a frontier do without what is written out for speed."""
    tables, turns = kernel(frontier).tables, kernel(frontier).turns
    turns.plain = None
    vars(turns).update(lease=partial(lease, turns), arrived=partial(arrived, turns))
    vars(frontier._finisher).update(finish=partial(finish, frontier._finisher))
    vars(tables.rotation).update(snooze=partial(snooze, tables.rotation), wake_due=partial(wake_due, tables.rotation))
    vars(tables.pending).update(remove=partial(remove, tables.pending))


def lease(turns: Turns, leased: list[Lease], count: int, ttl: float, now: float) -> None:
    """`Turns.lease`: each READY queue in its turn, and INACTIVE ones once there are none."""
    tables = turns._tables
    rotation, counters, leases = tables.rotation, tables.counters, tables.leases
    left = MAX_TURNS
    if turns.crawl_waits_until(now) > now:
        return
    while len(leased) < count:
        if not rotation.ring and counters.parked and turns.groups.wake_due(now, MAX_GROUPS):
            continue
        if not rotation.ring and not counters.inactive:
            break
        if left <= 0:
            turns.cut_short = True
            break
        if not rotation.ring:
            left -= 1
            turns.activate_next(now)
            continue
        queue = tables.queues.get(next(iter(rotation.ring)))
        found = tables.pending.head(queue.id)
        assert found is not None
        key, value = found
        uri = restore_uri(key[4:], value, queue.queue)
        if uri.source:
            tables.note_label()
        settings = tables.in_force.for_uri(uri.url, queue.queue, uri.source)
        if queue.revision != counters.settings_revision:
            turns.settings.take_budgets(queue, *turns.settings.asked(queue, uri))
        tables.pending.delete_removed()  # what is completed counts
        if budgets.must_retire(queue, settings.reached):
            rotation.move(queue, RETIRED)
            left -= 1
        elif not queue_states.may_lease(queue, settings.per_queue_concurrency, settings.reached):
            rotation.move(queue, IN_PROCESS)
        elif tables.guarded and (turns.moves(queue, uri, now) or turns.stopped_before_lease(queue, uri, settings, now)):
            left -= 1
        else:
            attempts, deliveries = tries(value)
            cost = keys.cost_of(key)
            given = Lease(
                leases.next_id, queue.queue, uri, cost, now + ttl, deliveries + 1, attempts + 1, queue.id, key
            )
            if not leased:
                leases.calls.append((given.id, now))
            leased.append(given)
            leases.out[given.id] = given
            leases.next_id += 1
            leases.next_expiry = min(leases.next_expiry, given.expires)
            tables.pending.forget(queue.id)
            tables.pending.taken.add(key)
            queue.out += 1
            queue.reserved += cost
            queue.last_leased, queue.last_lease_time = uri.url, int(now)
            _end_turn(turns, queue, settings, now)


def _end_turn(turns: Turns, queue: QueueRecord, settings: QueueSettings, now: float) -> None:
    """Let a queue wait for its interval, or for its lease, or have another turn."""
    tables = turns._tables
    has_intervals = tables.urls is not None or not tables.in_force.trivial or settings.min_interval > 0
    if has_intervals and turns.rest_after_lease(queue, settings, now):
        turns.move(queue, SNOOZED, now)
    elif queue_states.may_lease(queue, settings.per_queue_concurrency, settings.reached):
        tables.rotation.move(queue, READY)
    else:
        tables.rotation.move(queue, IN_PROCESS)


def arrived(
    turns: Turns,
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
    """`Turns.arrived`."""
    tables = turns._tables
    queue.last_enqueued = short[:LONGEST_SHOWN]
    turns.settings.take_budgets(queue, settings, precedence, lowest)
    queue.queued += count
    queue.enqueued += count
    if queued_totals.is_queued(queue.state):
        tables.counters.queued += count
    hold = hold or tables.in_force.frontier.hold_queues
    after, at_once = queue_states.after_arrival(queue, settings, now, hold)
    if after is not queue.state:
        turns.move(queue, after, now)
    if at_once and not queue.max_completed:
        turns.activate(queue, settings, settings.precedence if precedence is None else precedence, now, lowest)


def finish(finisher: Finisher, lease: Lease, ending: Finish | None, now: float) -> None:
    """`Finisher.finish`: the rest, the URIs found, the charge, then the state."""
    tables, turns = finisher._tables, finisher._turns
    says, ending = ending is not None, Finish(lease) if ending is None else ending
    settings = tables.in_force.for_uri(lease.uri.url, lease.queue, lease.uri.source)
    rest = 0.0
    if not lease.landed and wake_times.calls_for_rest(ending.outcome):
        rest = tables.in_force.rest(lease.uri, settings, ending.fetch_seconds, ending.crawl_delay)
    tally = Tally()
    read = finisher._admitter.read(list(ending.discovered), tally, lease.uri)
    queue = tables.queues.get(lease.queue_id)
    delay = finisher._heed(queue, lease, ending, settings, rest, now)
    before = queue.enqueued
    finisher._admitter.admit(read, tally, now, lease.uri)
    tables.counters.found += tally.added
    if says:
        tables.history.ended(lease, ending, tally.added, queue.enqueued - before)
    turns.settings.refresh(queue)
    del tables.leases.out[lease.id]
    queue.out -= 1
    queue.reserved -= lease.cost
    queue.landed -= lease.landed
    if ending.outcome is Outcome.SUCCESS:
        tables.counters.succeeded += 1
        finisher._note_early(lease, ending.reason, now)
        tables.pending.remove(queue, lease.key)
        charges.charge(queue, lease.cost, charges.penalty(ending.outcome, settings))
        tables.counters.expenditure += lease.cost
        tables.busiest.charged.add(lease.cost, queue.id)
    else:
        finisher._end(queue, lease, ending, settings, delay, now)
    finisher.observe(queue, lease, ending, settings, rest, now)
    best = tables.rotation.best_waiting
    after = queue_states.after_finish(queue, settings, now, best, ending.retire_queue)
    if after is not queue.state:
        turns.move(queue, after, now)


def snooze(rotation: Rotation, queue: QueueRecord, latest: float) -> None:
    """`Rotation.snooze`."""
    queue.wake_time = wake_times.clipped_wake_time(queue, latest)
    rotation.move(queue, SNOOZED)


def wake_due(rotation: Rotation, now: float, limit: int, state_of: Callable[[QueueRecord], QueueState]) -> bool:
    """`Rotation.wake_due`."""
    rotation.write_snoozed()
    rows = rotation._env.view().items(keys.SNOOZED)
    due = [keys.timed.unpack(key) for key, _ in rows if keys.timed.unpack(key)[0] <= now][:limit]
    for _, queue_id in due:
        queue = rotation._queues.get(queue_id)
        rotation.move(queue, state_of(queue))
    rotation.next_wake = rotation.first_wake()
    return len(due) == limit


def remove(pending: PendingTable, queue: QueueRecord, key: bytes) -> None:
    """`PendingTable.remove`."""
    pending.taken.remove(key)
    queue.queued -= 1
    pending._counters.queued -= queued_totals.is_queued(queue.state)
