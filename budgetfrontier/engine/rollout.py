"""The roll-out of a change of settings, a few hundred queues at a time, so that no call has to wait long.

If crawl windows have changed, the SNOOZED queues that wait for theirs have their turn again. Then, if precedences may
have changed, the INACTIVE queues move to their new FIFOs, because they have waited longer;
then the INELIGIBLE ones that are before the precedence floor now go to the back of theirs. At last every RETIRED queue
that its operator did not retire by name goes to the back of its FIFO, in the order of retirement. In a crawl that is
over, one that would be retired again in its turn stays, so that a change which revives nothing leaves the crawl over.
The progress is part of the totals, so that it survives a crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.rules import crawl_states, queue_states, wake_times
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import Override
from budgetfrontier.storage import keys

STEP = 500  # queues, some 10 ms
MOST_THAT_STAY = 20_000  # queues looked at in a crawl that is over, so that it is RUNNING again only if one revives


class Rollout:
    """Applies a change of settings to the INACTIVE, INELIGIBLE and RETIRED queues that have not been processed yet."""

    def __init__(self, tables: Tables, turns: Turns) -> None:
        self._tables = tables
        self._turns = turns
        self._counters = tables.counters

    @property
    def waiting(self) -> bool:
        """Whether something is left to be done."""
        return self._counters.rolls_out

    def change_settings(
        self, settings: Settings, adjustments: list[Override], now: float, *, precedence: bool = True
    ) -> None:
        """Put a change of settings in force: every RETIRED queue that is not retired by name is reconsidered.

        So are the queues that wait, if the change may give them another `precedence`, or if their head URIs may have
        another one than the URIs placed last. The first hundreds are processed at once, others with later calls.
        Groups wait for their clocks by their new limits. O(leases out + groups that wait).
        """
        tables, windows = self._tables, self._tables.in_force.windows
        tables.put_in_force(settings, adjustments)
        self._counters.settings_revision += 1
        if tables.in_force.windows != windows:
            self._counters.reopened_upto = keys.timed.pack(now, 0)
            tables.attend()
        self._turns.groups.reconsider(now)
        self._begin(precedence=precedence or tables.in_force.mixes_precedences)
        self.step(now)
        for queue in tables.queues.each(sorted({lease.queue_id for lease in tables.leases.out.values()})):
            self._turns.go_on(queue, now)

    def _begin(self, *, precedence: bool) -> None:
        """Start a roll-out for all queues RETIRED now and, if precedences may have changed, all that wait."""
        counters = self._counters
        if precedence:
            counters.regrade_precedence = counters.regrade_position = 0
            counters.lifted_upto, counters.lift_upto = 0, counters.ineligible_back
            counters.regrade_upto = max(counters.fifo_back, min(counters.lift_upto, 1))
        counters.revived_upto = 0
        counters.revive_upto = counters.retired_back

    def step(self, now: float, limit: int = STEP) -> None:
        """Apply the change to the next queues. O(limit)."""
        if not self.waiting:
            return
        if self._counters.reopened_upto:
            limit -= self._reopen(limit, now)
        regraded = self._regraded(limit)
        for queue in self._tables.queues.each(regraded):
            self._turns.settings.refresh(queue)
            self._tables.rotation.apply_floor(queue)
        limit -= len(regraded)
        if not self._counters.regrade_upto:
            self._revive(limit)

    def _revive(self, limit: int) -> None:
        """Bring the next RETIRED queues back; while the crawl is over, those that would only retire again stay."""
        counters = self._counters
        over = crawl_states.is_over(counters.state, counters.pause_reason)
        left = MOST_THAT_STAY if over else limit
        while limit > 0 and left > 0 and counters.revive_upto:
            found = self._next_of(keys.RETIRED, "revived_upto", "revive_upto", min(limit, left))
            left -= len(found)
            for queue in self._tables.queues.each(found):
                if queue_states.is_revived_by_change(queue) and not (
                    over and self._turns.retires_again(queue, moves=False)
                ):
                    self._turns.unretire(queue)
                    limit -= 1

    def _reopen(self, limit: int, now: float) -> int:
        """Let the next SNOOZED queues wait no longer for crawl windows, which their turn asks about; count them."""
        counters, found = self._counters, list[bytes]()
        self._tables.rotation.write_snoozed()
        cursor = self._tables.env.txn.cursor(self._tables.env.db[keys.SNOOZED])
        if cursor.set_range(counters.reopened_upto):
            found = [key for key, _ in islice(cursor.iternext(), limit + 1)]
        found = [key for key in found if key != counters.reopened_upto]
        counters.reopened_upto = found[limit - 1] if len(found) >= limit else b""
        self._tables.attend()
        for queue in self._tables.queues.each(keys.timed.unpack(key)[1] for key in found[:limit]):
            if queue.closed_until > now:
                self._tables.rotation.set_waits(queue, wake_times.reopened(queue))
        return min(len(found), limit)

    def _regraded(self, limit: int) -> list[int]:
        """Return the next queues that wait, before any of them moves: the INACTIVE ones, then the INELIGIBLE ones."""
        counters = self._counters
        if not counters.regrade_upto:
            return []
        found = list(self._in_fifos(limit))
        if len(found) < limit:
            found += self._next_of(keys.INELIGIBLE, "lifted_upto", "lift_upto", limit - len(found))
            if not counters.lift_upto:
                counters.regrade_upto = 0
        return found

    def _in_fifos(self, limit: int) -> Iterator[int]:
        """Yield the INACTIVE queues by precedence and position, except those that joined their FIFO since."""
        counters = self._counters
        cursor = self._tables.env.txn.cursor(self._tables.env.db[keys.INACTIVE])
        while limit and cursor.set_range(keys.fifo.pack(counters.regrade_precedence, counters.regrade_position + 1)):
            precedence, position = keys.fifo.unpack(cursor.key())
            if position <= counters.regrade_upto:
                counters.regrade_precedence, counters.regrade_position = precedence, position
                limit -= 1
                yield keys.u32.unpack(cursor.value())[0]
            elif precedence < queue_states.WORST_PRECEDENCE:
                counters.regrade_precedence, counters.regrade_position = precedence + 1, 0
            else:
                return

    def _next_of(self, table: str, done: str, upto: str, limit: int) -> list[int]:
        """Return the next queues of a list in its order, except those that came since; `done` and `upto` are totals."""
        counters, found = self._counters, list[int]()
        cursor = self._tables.env.txn.cursor(self._tables.env.db[table])
        while len(found) < limit:
            more = cursor.set_range(keys.u64.pack(getattr(counters, done) + 1))
            position = keys.u64.unpack(cursor.key())[0] if more else 0
            if not more or position > getattr(counters, upto):
                setattr(counters, done, 0)
                setattr(counters, upto, 0)
                break
            setattr(counters, done, position)
            found.append(keys.u32.unpack(cursor.value())[0])
        return found
