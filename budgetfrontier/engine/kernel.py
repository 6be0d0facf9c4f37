"""The rules of `queue` applied to the tables: turns, charges, arrivals, retirement, and when a crawl is over.

One Kernel is one open frontier inside; `frontier` is its public interface. Nothing here looks at threads, hooks or
the mailbox.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from msgspec.structs import replace

from budgetfrontier import rules
from budgetfrontier.engine.future import FutureTable
from budgetfrontier.engine.leases import Leases
from budgetfrontier.engine.pending import PendingTable, Record
from budgetfrontier.engine.queue_cache import QueueCache
from budgetfrontier.engine.rollout import Rollout
from budgetfrontier.engine.rotation import Rotation
from budgetfrontier.engine.settings_in_force import SettingsInForce
from budgetfrontier.errors import PolicyError
from budgetfrontier.model import CrawlState, CrawlUri, Directive, Lease, Outcome, QueueRecord, QueueState
from budgetfrontier.rules import EXHAUSTED, IN_PROCESS, INACTIVE, READY, RETIRED, SNOOZED, Fate
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import Override, QueueSettings
from budgetfrontier.store import keys
from budgetfrontier.store.damage import Damage
from budgetfrontier.store.environment import Environment
from budgetfrontier.store.records import (
    LONGEST_SHOWN,
    PLAIN,
    Counters,
    DeadRow,
    decode_uri,
    encode,
    short_url,
    tries,
    with_tries,
)

# In one call, so that a million queues over budget, or due at once, hold nobody up:
MAX_TURNS = 1000  # without a lease
MAX_DUE = 500  # snoozed queues, and URIs that waited for their time

_SUCCESS = Outcome.SUCCESS
_DIRECTIVES = tuple(Directive)
_NOTHING = (b"", b"")


class Kernel:
    """The state of an open frontier: environment, counters, queues, rotation, leases, settings in force."""

    def __init__(self, env: Environment, counters: Counters) -> None:
        self.env = env
        self.counters = counters
        self.queues = QueueCache(env, counters)
        self.rotation = Rotation(env, counters, self.queues)
        self.leases = Leases(env)
        self.pending = PendingTable(env, self.leases)
        self.future = FutureTable(env, counters, self.queues)
        self.rollout = Rollout(env, counters, self.queues, refresh=self.refresh, unretire=self.unretire)
        self.cut_short = False
        """Whether the last call of `lease` had more to do than URIs to hand out, and left some of it for the next."""
        self.underway = False
        """Whether a command is in progress that takes more than one step: the crawl is not over before it is."""
        self.holds_future = False
        """Whether it looks through what is scheduled for later: nothing comes out of there until it has."""
        self.longest_delay = 0.0
        self._pending = env.db[keys.PENDING]
        self.on_dead: Callable[[int, DeadRow], None] | None = None

    # -- settings

    def put_in_force(self, settings: Settings, adjustments: list[Override]) -> None:
        """Put settings in force; what they change in queues follows lazily, by revision."""
        self.in_force = SettingsInForce(settings, adjustments)
        self.longest_delay = max(self.longest_delay, self.in_force.longest_delay)

    def asked(self, queue: QueueRecord, uri: CrawlUri) -> tuple[QueueSettings, int]:
        """The settings in force for a URI of a queue, and the precedence that it takes from it. Raises PolicyError."""
        settings = self.in_force.for_uri(uri.url, queue.queue)
        return settings, self.in_force.precedence(uri, settings)

    def take_budgets(self, queue: QueueRecord, settings: QueueSettings, precedence: int | None) -> None:
        """Take replenish amount, total budget and precedence (None: that of the settings)."""
        rules.take_budgets(queue, settings)
        self.rotation.set_precedence(queue, settings.precedence if precedence is None else precedence)
        queue.revision = self.counters.settings_revision

    def refresh(self, queue: QueueRecord) -> None:
        """After a change of settings: the values of the head URI, if there is one.

        If a policy cannot say its precedence, that stays, and so does the revision: the queue's turn asks again, and
        its `lease` raises.
        """
        if queue.revision != self.counters.settings_revision:
            settings, precedence = self._asked_by_head(queue)
            if settings is not None and precedence is not None:
                self.take_budgets(queue, settings, precedence)
            elif settings is not None:
                rules.take_budgets(queue, settings)
            self.queues.dirty.add(queue.id)

    def as_it_stands(self, queue: QueueRecord) -> QueueRecord:
        """A copy that has learned of the last change of settings: a look moves no queue."""
        shown = replace(queue)
        if queue.revision != self.counters.settings_revision:
            settings, precedence = self._asked_by_head(queue)
            if settings is not None:
                rules.take_budgets(shown, settings)
            if precedence is not None:
                shown.precedence = precedence
        return shown

    def _asked_by_head(self, queue: QueueRecord) -> tuple[QueueSettings | None, int | None]:
        """What the head URI asks for, as far as it can be said: without one, what any URI would."""
        head = self.head(queue)
        if head is None:
            return (self.in_force.base if self.in_force.trivial else None), None
        uri = decode_uri(head[1], queue.queue)
        settings = self.in_force.for_uri(uri.url, queue.queue)
        try:
            return settings, self.in_force.precedence(uri, settings)
        except PolicyError:
            return settings, None

    def change_settings(
        self, settings: Settings, adjustments: list[Override], now: float, *, precedence: bool = True
    ) -> None:
        """Put a change of settings in force: every RETIRED queue that is not retired by name is looked at again.

        So are the INACTIVE ones if the change may give them another `precedence`, or their head URIs may: what came
        last may have asked for another. The first hundreds at once, the others as time goes on. O(leases out).
        """
        self.put_in_force(settings, adjustments)
        self.counters.settings_revision += 1
        self.rollout.begin(precedence=precedence or self.in_force.mixes_precedences)
        self.rollout.step()
        for queue_id in sorted({lease.queue_id for lease in self.leases.out.values()}):
            queue = self.queues.get(queue_id)
            if queue.state is IN_PROCESS:  # a budget that was raised may let more of its URIs out
                self.refresh(queue)
                self._move_on(queue, now)
            self.queues.trim()

    def _settings_of(self, queue: QueueRecord) -> QueueSettings:
        """The settings in force for the head URI of a queue that has one."""
        head = self.head(queue)
        if head is None:
            raise Damage(f"queue {queue.queue} counts {queue.queued} URIs, and holds none")
        return self.in_force.for_uri(decode_uri(head[1], queue.queue).url, queue.queue)

    def _move_on(self, queue: QueueRecord, now: float) -> None:
        """Let an IN_PROCESS queue out of that state if one more of its URIs may go out."""
        after = rules.after_turn(queue, self._settings_of(queue), now)
        if after is not IN_PROCESS:
            self._go(queue, after, now)

    # -- the URIs of a queue

    def head(self, queue: QueueRecord) -> Record | None:
        """The first pending record of a queue that is not out, or its first, out or not, when all are."""
        return self.pending.first(queue.id)

    def remove(self, queue: QueueRecord, key: bytes) -> None:
        """Take one URI out of its queue."""
        self.env.txn.delete(key, b"", self._pending)
        queue.queued -= 1
        if queue.state is not RETIRED:
            self.counters.queued -= 1

    def bury(self, queue: QueueRecord, key: bytes, value: bytes, reason: str, now: float) -> None:
        """Move one URI to the dead letters."""
        self.remove(queue, key)
        ordinal = self.next_ordinal()
        reason = reason.encode("utf-8", "replace").decode()  # errors of fetchers quote bytes that are no text
        row = DeadRow(queue.id, queue.queue, key[4:], value, reason, now)
        self.env.wrote(len(value))
        self.env.txn.put(keys.u64.pack(ordinal), encode(row), db=self.env.db[keys.DEAD])
        if self.on_dead is not None:
            self.on_dead(ordinal, row)

    def next_ordinal(self) -> int:
        self.counters.ordinal += 1
        return self.counters.ordinal

    def asked_precedence(self, queue_id: int, value: bytes) -> int | None:
        """The precedence for `place`, if a policy is to be asked for it. Raises PolicyError."""
        if not self.in_force.asks_precedence:
            return None
        queue = self.queues.get(queue_id)
        return self.asked(queue, decode_uri(value, queue.queue))[1]

    def place(self, queue: QueueRecord, place: bytes, value: bytes, precedence: int | None, now: float) -> None:
        """Put one URI on its queue. An ordinal of 0 in `place` stands for an arrival now. Asks no policy."""
        directive, priority, cost, ordinal = keys.rank.unpack(place)
        settings = self.in_force.for_uri(decode_uri(value, queue.queue).url, queue.queue)
        self.take_budgets(queue, settings, precedence)
        if not ordinal:
            ordinal = self.next_ordinal()
            if settings.lifo:
                ordinal = keys.MAX_ORDINAL - ordinal
        key = keys.pending.pack(queue.id, directive, priority, cost, ordinal)
        self.pending.arrived(queue.id, key)
        self.env.txn.put(key, value, db=self.env.db[keys.PENDING])
        self.env.wrote(len(value))
        queue.last_enqueued = short_url(value)[:LONGEST_SHOWN]
        self.arrived(queue, 1, settings, now)

    def arrived(self, queue: QueueRecord, count: int, settings: QueueSettings, now: float) -> None:
        """URIs have been placed on a queue: count them, and bring in a queue that was EXHAUSTED."""
        queue.queued += count
        queue.enqueued += count
        self.queues.dirty.add(queue.id)
        state = queue.state
        if state is not RETIRED:
            self.counters.queued += count
        after = rules.after_arrival(queue, settings, now)
        if after is state:
            return
        self._go(queue, after, now)
        if state is EXHAUSTED and after is INACTIVE and not self.in_force.frontier.hold_queues:
            self._activate(queue, settings, queue.precedence, now)

    # -- turns

    def activate(self, queue: QueueRecord, now: float) -> None:
        """Give an INACTIVE queue a fresh balance and its place among the active, or retire it. Raises PolicyError."""
        head = self.head(queue)
        if head is None:
            raise Damage(f"queue {queue.queue} counts {queue.queued} URIs, and holds none")
        settings, precedence = self.asked(queue, decode_uri(head[1], queue.queue))
        self._activate(queue, settings, precedence, now)

    def _activate(self, queue: QueueRecord, settings: QueueSettings, precedence: int, now: float) -> None:
        rules.take_budgets(queue, settings)
        queue.revision = self.counters.settings_revision
        self._clip(queue, now)
        self.rotation.move(queue, rules.on_activation(queue, settings, now))
        queue.precedence = precedence

    def _clip(self, queue: QueueRecord, now: float) -> None:
        queue.wake_time = rules.clipped_wake_time(queue, now + self.longest_delay)

    def _go(self, queue: QueueRecord, after: QueueState, now: float, *, front: bool = False) -> None:
        """Move a queue; one that goes to its rest wakes no later than settings allow."""
        if after is SNOOZED and queue.state is not SNOOZED:
            self._clip(queue, now)
        self.rotation.move(queue, after, front=front)

    def lease(self, leased: list[Lease], count: int, ttl: float, now: float) -> None:
        """Hand out up to `count` URIs, each queue in its turn; they are in `leased`, before a PolicyError, too."""
        rotation, queues, counters, leases = self.rotation, self.queues, self.counters, self.leases
        ring, cache, dirty, cursor = rotation.ring, queues.cache, queues.dirty, self.env.pending
        ids, gone = ring.ids, ring.gone
        pack, unpack_place, out = keys.u32.pack, keys.rank.unpack_from, leases.out
        trivial, settings = self.in_force.trivial, self.in_force.base
        revision, concurrency = counters.settings_revision, settings.per_queue_concurrency
        turns = 0
        deadline = now + ttl
        if deadline < leases.next_expiry:
            leases.next_expiry = deadline
        while len(leased) < count:
            if turns == MAX_TURNS:
                self.cut_short |= bool(ring or counters.inactive)
                break
            if gone:
                ring.skip()
            if not ids:
                if not counters.inactive:
                    break
                turns += 1
                self.activate(rotation.front_inactive(), now)
                continue
            queue_id = ids[0]
            queue = cache.get(queue_id) or queues.get(queue_id)
            if queue.out:
                key, value = self.pending.first(queue_id) or _NOTHING
            else:
                cursor.set_range(pack(queue_id))
                key, value = cursor.item()
            uri = decode_uri(value, queue.queue)
            if not trivial:
                settings = self.in_force.effective.for_uri(uri.url, queue.queue)
                concurrency = settings.per_queue_concurrency
            if queue.revision != revision:
                self.take_budgets(queue, *self.asked(queue, uri))
            if queue.balance_replenish_amount <= 0 or (
                queue.total_budget >= 0 and rules.is_over_total(queue.expenditure, queue.total_budget, settings.reached)
            ):
                rotation.move(queue, RETIRED)
                turns += 1
                continue
            if queue.out:
                if not rules.may_lease(queue, concurrency, settings.reached):
                    rotation.move(queue, IN_PROCESS)
                    continue
                if key in leases.keys:
                    raise self._contradiction(queue)
            if gone:
                ring.popleft()
            else:
                ids.popleft()
            try:
                directive, inverted, cost, _ = unpack_place(key, 4)
                uri.cost = cost
                if directive != 3:
                    uri.directive = _DIRECTIVES[directive]
            except (struct.error, IndexError) as e:
                raise Damage(f"no key of a URI: {key.hex()}") from e
            if inverted != keys.PRIORITY_ZERO:
                uri.priority = keys.priority_of(inverted)
            lease_id = leases.next_id
            leases.next_id = lease_id + 1
            lease = Lease(lease_id, queue.queue, uri, cost, deadline, 1, 1, queue_id, key)
            if value[:1] not in PLAIN:
                attempts, deliveries = tries(value)
                lease.attempt += attempts
                lease.delivery += deliveries
            out[lease_id] = lease
            leases.keys.add(key)
            queue.out += 1
            queue.reserved += cost
            queue.last_leased = uri.url
            dirty.add(queue_id)
            if concurrency > 1 or queue.landed:
                self.pending.went_out(queue_id, key)
            if queue.out - queue.landed < concurrency and rules.may_lease(queue, concurrency, settings.reached):
                ids.append(queue_id)
                counters.ring_back = queue.position = counters.ring_back + 1
            else:
                queue.state = IN_PROCESS
                counters.in_process += 1
            leased.append(lease)

    def _contradiction(self, queue: QueueRecord) -> Damage:
        """No URI may go out twice, whatever the totals say."""
        return Damage(
            f"queue {queue.queue} holds {queue.queued} URIs of which {queue.out} are out, and no other was found"
        )

    def wake_due(self, now: float) -> None:
        """Snoozed queues that are due join the ring's back, by (wake time, queue id): some hundreds in one call."""
        if now < self.rotation.next_wake:
            return
        due = self.rotation.due(now, MAX_DUE)
        self.cut_short |= len(due) == MAX_DUE
        for queue_id in due:
            self._wake(self.queues.get(queue_id), now)
            self.queues.trim()
        self.rotation.next_wake = self.rotation.first_wake()

    def _wake(self, queue: QueueRecord, now: float) -> None:
        self.rotation.move(queue, rules.after_waking(queue, self._settings_of(queue)) if queue.out else READY)

    # -- the end of an attempt

    def landed(self, lease: Lease, settings: QueueSettings, now: float) -> None:
        """The download of a lease is over, and the wake time set: another URI of its queue may go out."""
        queue = self.queues.get(lease.queue_id)
        self.refresh(queue)
        self.leases.landed(lease)
        queue.landed += 1
        self.queues.dirty.add(queue.id)
        after = rules.after_landing(queue, settings, now)
        if after is not queue.state:
            self._go(queue, after, now)

    def finish(
        self,
        lease: Lease,
        outcome: Outcome,
        settings: QueueSettings,
        reason: str,
        retire_queue: bool,
        retry_delay: float,
        now: float,
    ) -> None:
        """Charge an attempt whose wake time is set, and put its URI and its queue where they belong."""
        counters, leases, queue_id, key, cost = self.counters, self.leases, lease.queue_id, lease.key, lease.cost
        queue = self.queues.cache.get(queue_id) or self.queues.get(queue_id)
        if queue.revision != counters.settings_revision:
            self.refresh(queue)
        del leases.out[lease.id]
        leases.keys.discard(key)
        queue.out -= 1
        queue.reserved -= cost
        if lease.landed:
            queue.landed -= 1
        penalty = rules.penalty(outcome, settings)
        if outcome is _SUCCESS:
            counters.succeeded += 1
            self.remove(queue, key)
        elif outcome is Outcome.RETRY:
            self._retry(queue, key, settings, reason, retry_delay, now)
        elif outcome is Outcome.DEFERRED:
            counters.deferred += 1
            self.pending.forget(queue_id)
        elif outcome is Outcome.DISREGARDED:
            counters.disregarded += 1
            self.remove(queue, key)
        elif outcome is Outcome.FAILURE:
            counters.failed += 1
            queue.errors += 1
            self.remove(queue, key)
        else:
            queue.errors += 1
            self.bury(queue, key, self._value(key), reason or "dead", now)
        if outcome is _SUCCESS or rules.is_charged(outcome):
            rules.charge(queue, cost, penalty)
            counters.expenditure += cost + penalty
        state = queue.state
        after = RETIRED if retire_queue else rules.after_finish(queue, settings, now, self.rotation.best_waiting)
        self.queues.dirty.add(queue_id)
        if state is IN_PROCESS and after is READY:  # the common case of `move`, without its questions
            counters.in_process -= 1
            counters.ring_back = queue.position = counters.ring_back + 1
            self.rotation.ring.ids.append(queue_id)
            queue.state = READY
        elif state is not after:
            self._go(queue, after, now)

    def _value(self, key: bytes) -> bytes:
        value = self.env.txn.get(key, db=self._pending)
        if value is None:
            raise Damage(f"the URI of a lease is not pending: {key.hex()}")
        return value

    def _retry(
        self, queue: QueueRecord, key: bytes, settings: QueueSettings, reason: str, delay: float, now: float
    ) -> None:
        value = self._value(key)
        attempts, deliveries = tries(value)
        value = with_tries(value, attempts + 1, deliveries)
        fate = rules.fate(Outcome.RETRY, attempts + 1, settings, delay)
        if fate is Fate.DEAD:
            queue.errors += 1
            self.bury(queue, key, value, reason or "retries exhausted", now)
            return
        self.counters.retried += 1
        if fate is Fate.DELAYED:
            self.remove(queue, key)
            self.future.add(queue, key[4:], value, now + delay, self.next_ordinal())
        else:
            self.pending.forget(queue.id)
            self.env.txn.put(key, value, db=self.env.db[keys.PENDING])

    def count_delivery(self, lease: Lease, now: float) -> None:
        """A lease ended and nobody finished it: count that, and give up on its URI when it is once too often."""
        value = self._value(lease.key)
        attempts, deliveries = tries(value)
        value = with_tries(value, attempts, deliveries + 1)
        if rules.is_delivered_too_often(deliveries + 1, self.in_force.frontier.max_deliveries):
            self.bury(self.queues.get(lease.queue_id), lease.key, value, "max deliveries", now)
        else:
            self.env.txn.put(lease.key, value, db=self._pending)

    def release(self, lease: Lease, now: float, *, front: bool = False) -> None:
        """End a lease that nobody finished; its queue joins the ring, at its front or its back."""
        queue = self.queues.get(lease.queue_id)
        self.pending.forget(queue.id)
        self.leases.remove(lease)
        queue.out -= 1
        queue.reserved -= lease.cost
        queue.landed -= lease.landed
        self.queues.dirty.add(queue.id)
        after = rules.after_lease_lost(queue, now)
        if after is not queue.state or (after is READY and front):
            self._go(queue, after, now, front=front)

    def expire(self, now: float) -> None:
        """End the leases whose deadline has come."""
        if now >= self.leases.next_expiry:
            for lease in self.leases.due(now):
                self.count_delivery(lease, now)
                self.release(lease, now)
                self.queues.trim()

    # -- later

    def place_due(self, now: float) -> None:
        """What was scheduled for later and is due now goes to its queues, by due time; some hundreds in one call."""
        if self.holds_future or now < self.future.next_due:
            return
        precedences = iter(self._asked_precedences(now))
        for _ in range(MAX_DUE):
            if now < self.future.next_due:
                break
            row = self.future.take_due(now)
            if row is not None:
                self.place(self.queues.get(row.queue), row.rank, row.value, next(precedences, None), now)
            self.queues.trim()
        else:
            self.cut_short = True

    def _asked_precedences(self, now: float) -> list[int | None]:
        """What a policy says of those that are due, before any of them is placed."""
        if not self.in_force.asks_precedence:
            return []
        return [self.asked_precedence(row.queue, row.value) for row in self.future.due(now, MAX_DUE)]

    # -- what operators do to queues

    def retire(self, queue: QueueRecord) -> None:
        """Retire by name."""
        if queue.state is RETIRED:
            self.counters.retired_by_name += not queue.by_name
            queue.by_name = True
            self.queues.dirty.add(queue.id)
        else:
            queue.by_name = True
            self.rotation.move(queue, RETIRED)

    def unretire(self, queue: QueueRecord) -> None:
        """Bring a RETIRED queue back: to the back of its FIFO, or EXHAUSTED if it is empty."""
        self.refresh(queue)
        self.rotation.move(queue, rules.after_unretirement(queue))
        queue.by_name = False

    def snooze(self, queue: QueueRecord, until: float, now: float) -> None:
        """Block a queue until a time; a URI that is out stays out."""
        until = max(until, queue.wake_time)
        self.rotation.set_wake(queue, until)
        queue.block = until
        if queue.state is READY and until > now:
            self.rotation.move(queue, SNOOZED)

    def wake(self, queue: QueueRecord, now: float) -> None:
        """End a snooze now."""
        queue.block = 0.0
        self.queues.dirty.add(queue.id)
        if queue.state is SNOOZED:
            self._wake(queue, now)
        if queue.wake_time > now:
            self.rotation.set_wake(queue, now)

    def deleted(self, queue: QueueRecord) -> None:
        """URIs of a queue were deleted: an emptied queue is EXHAUSTED."""
        after = rules.after_deletion(queue)
        if after is not queue.state:
            self.rotation.move(queue, after)

    # -- the crawl

    def is_empty(self) -> bool:
        """Whether the crawl is over, as things stand: nothing queued, out, for later, or to be rolled out."""
        counters = self.counters
        return not self.rollout.waiting and rules.is_empty(
            queued=counters.queued,
            leases=len(self.leases.out),
            future=counters.future,
            future_retired=counters.future_retired,
        )

    def settle(self) -> bool:
        """Let the crawl's state follow what happened. True if it has just paused at its finish."""
        counters, before = self.counters, self.counters.state
        if before is CrawlState.RUNNING and counters.queued:
            return False  # the common case: it is not empty
        counters.state = rules.next_crawl_state(
            before,
            scheduled=counters.scheduled,
            leases=len(self.leases.out),
            empty=self.is_empty(),
            busy=self.underway,
            pause_at_finish=self.in_force.frontier.pause_at_finish,
        )
        if counters.state is not CrawlState.PAUSED or before in (CrawlState.PAUSED, CrawlState.PAUSING):
            return False
        counters.pause_reason = rules.FINISH
        return True

    def flush(self) -> None:
        """Write all that lives in memory between commits."""
        self.queues.flush()
        self.leases.flush()
        counters = self.counters
        counters.ready = len(self.rotation.ring)
        counters.leases = len(self.leases.out)
        self.env.txn.put(b"counters", encode(counters), db=self.env.db[keys.META])
