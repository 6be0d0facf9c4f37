"""The roll-out of a change of settings, a few hundred queues at a time, so that no call has to wait long.

First, if precedences may have changed, the INACTIVE queues move to their new FIFOs, because they have waited longer.
Then every RETIRED queue that its operator did not retire by name goes to the back of its FIFO, in the order of
retirement. The progress is part of the totals, so that it survives a crash.
"""

from __future__ import annotations

from collections.abc import Iterator

from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.rules import queue_states
from budgetfrontier.settings import Settings
from budgetfrontier.settings.overrides import Override
from budgetfrontier.storage import keys

STEP = 500  # queues, some 10 ms


class Rollout:
    """Applies a change of settings to the INACTIVE and RETIRED queues that have not been processed yet."""

    def __init__(self, tables: Tables, turns: Turns) -> None:
        self._tables = tables
        self._turns = turns
        self._counters = tables.counters

    def __repr__(self) -> str:
        c = self._counters
        return f"<Rollout of revision {c.settings_revision}{'' if self.waiting else ', done'}>"

    @property
    def waiting(self) -> bool:
        """Whether something is left to be done."""
        return self._counters.revive_upto > 0 or self._counters.regrade_upto > 0

    def change_settings(
        self, settings: Settings, adjustments: list[Override], now: float, *, precedence: bool = True
    ) -> None:
        """Put a change of settings in force: every RETIRED queue that is not retired by name is reconsidered.

        So are the INACTIVE queues if the change may give them another `precedence`, or if their head URIs may have
        another one than the URIs placed last. The first hundreds are processed at once, others with later calls.
        O(leases out).
        """
        tables = self._tables
        tables.put_in_force(settings, adjustments)
        self._counters.settings_revision += 1
        self._begin(precedence=precedence or tables.in_force.mixes_precedences)
        self.step()
        for queue in tables.queues.each(sorted({lease.queue_id for lease in tables.leases.out.values()})):
            self._turns.go_on(queue, now)

    def _begin(self, *, precedence: bool) -> None:
        """Start a roll-out: process all queues RETIRED now and, if precedences may have changed, all INACTIVE ones."""
        counters = self._counters
        if precedence:
            counters.regrade_precedence = counters.regrade_position = 0
            counters.regrade_upto = counters.fifo_back
        counters.revived_upto = 0
        counters.revive_upto = counters.retired_back

    def step(self, limit: int = STEP) -> None:
        """Apply the change to the next queues. O(limit)."""
        if not self.waiting:
            return
        regraded = list(self._regraded(limit))  # before any of them moves
        for queue in self._tables.queues.each(regraded):
            self._turns.settings.refresh(queue)
        limit -= len(regraded)
        if not self._counters.regrade_upto and limit > 0:
            for queue in self._tables.queues.each(list(self._revived(limit))):
                if queue_states.is_revived_by_change(queue):
                    self._turns.unretire(queue)

    def _regraded(self, limit: int) -> Iterator[int]:
        """Yield the INACTIVE queues by precedence and position, except those that joined their FIFO since."""
        counters = self._counters
        cursor = self._tables.env.txn.cursor(self._tables.env.db[keys.INACTIVE])
        while counters.regrade_upto and limit:
            at = keys.fifo.pack(counters.regrade_precedence, counters.regrade_position + 1)
            if not cursor.set_range(at):
                counters.regrade_upto = 0
                return
            precedence, position = keys.fifo.unpack(cursor.key())
            if position <= counters.regrade_upto:
                counters.regrade_precedence, counters.regrade_position = precedence, position
                limit -= 1
                yield keys.u32.unpack(cursor.value())[0]
            elif precedence < queue_states.WORST_PRECEDENCE:
                counters.regrade_precedence, counters.regrade_position = precedence + 1, 0
            else:
                counters.regrade_upto = 0

    def _revived(self, limit: int) -> Iterator[int]:
        """Yield the RETIRED queues in the order of retirement, except those retired since."""
        counters = self._counters
        cursor = self._tables.env.txn.cursor(self._tables.env.db[keys.RETIRED])
        for _ in range(limit):
            found = cursor.set_range(keys.u64.pack(counters.revived_upto + 1))
            position = keys.u64.unpack(cursor.key())[0] if found else 0
            if not found or position > counters.revive_upto:
                counters.revive_upto = counters.revived_upto = 0
                return
            counters.revived_upto = position
            yield keys.u32.unpack(cursor.value())[0]
