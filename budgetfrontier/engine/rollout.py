"""What a change of settings leaves to be done, a few hundred queues at a time, so that it holds nobody up.

First, if precedences may have changed, the INACTIVE queues find their FIFOs: they have waited longer. Then every
RETIRED queue that its operator did not retire by name goes to the back of its FIFO, in the order of retirement. How far
this has come is part of the totals, so that it survives a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from budgetfrontier import rules
from budgetfrontier.engine.queue_cache import QueueCache
from budgetfrontier.model import QueueRecord
from budgetfrontier.store import keys
from budgetfrontier.store.environment import Environment
from budgetfrontier.store.records import Counters

STEP = 500  # queues, some 10 ms

Change = Callable[[QueueRecord], None]


class Rollout:
    """The INACTIVE and RETIRED queues that have yet to learn of a change of settings."""

    def __init__(
        self, env: Environment, counters: Counters, queues: QueueCache, *, refresh: Change, unretire: Change
    ) -> None:
        self._env = env
        self._counters = counters
        self._queues = queues
        self._refresh = refresh
        self._unretire = unretire

    @property
    def waiting(self) -> bool:
        """Whether something is left to be done."""
        return self._counters.revive_upto > 0 or self._counters.regrade_upto > 0

    def begin(self, *, precedence: bool) -> None:
        """Settings have changed: all that are RETIRED now are to learn, and if precedences may have, the INACTIVE."""
        counters = self._counters
        if precedence:
            counters.regrade_precedence = counters.regrade_position = 0
            counters.regrade_upto = counters.fifo_back
        counters.revived_upto = 0
        counters.revive_upto = counters.retired_back

    def step(self, limit: int = STEP) -> None:
        """Tell the next of them. O(limit)."""
        if self.waiting:
            limit -= self._each(self._regraded(limit), self._refresh)
            if not self._counters.regrade_upto and limit > 0:
                self._each(self._revived(limit), self._unretire)

    def _each(self, ids: Iterator[int], change: Change) -> int:
        found = list(ids)  # before any of them moves
        for queue_id in found:
            queue = self._queues.get(queue_id)
            if change is not self._unretire or not queue.by_name:
                change(queue)
            self._queues.trim()
        return len(found)

    def _regraded(self, limit: int) -> Iterator[int]:
        """INACTIVE queues by precedence and place, those that came to their FIFO since left out."""
        counters = self._counters
        cursor = self._env.txn.cursor(self._env.db[keys.INACTIVE])
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
            elif precedence < rules.WORST_PRECEDENCE:
                counters.regrade_precedence, counters.regrade_position = precedence + 1, 0
            else:
                counters.regrade_upto = 0

    def _revived(self, limit: int) -> Iterator[int]:
        """RETIRED queues in the order of retirement, those left out that retired since."""
        counters = self._counters
        cursor = self._env.txn.cursor(self._env.db[keys.RETIRED])
        for _ in range(limit):
            found = cursor.set_range(keys.u64.pack(counters.revived_upto + 1))
            position = keys.u64.unpack(cursor.key())[0] if found else 0
            if not found or position > counters.revive_upto:
                counters.revive_upto = counters.revived_upto = 0
                return
            counters.revived_upto = position
            yield keys.u32.unpack(cursor.value())[0]
