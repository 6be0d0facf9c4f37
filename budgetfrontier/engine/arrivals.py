"""URIs that reach their queues: counted, and queues that were EXHAUSTED brought in; those included that were due."""

from __future__ import annotations

from budgetfrontier import rules
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.model import QueueRecord
from budgetfrontier.rules import EXHAUSTED, IN_PROCESS, INACTIVE, RETIRED
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.store import keys
from budgetfrontier.store.records import LONGEST_SHOWN, decode_uri, short_url

MAX_DUE = 500  # URIs that waited for their time, in one call


class Arrivals:
    """Lets URIs arrive at their queues. It asks no policy, but for `asked_precedence`."""

    def __init__(self, tables: Tables, turns: Turns) -> None:
        self._tables = tables
        self._turns = turns

    def __repr__(self) -> str:
        return f"<Arrivals {self._tables.counters.scheduled} URIs ever, {self._tables.future!r}>"

    def arrived(
        self, queue: QueueRecord, count: int, short: str, settings: QueueSettings, precedence: int | None, now: float
    ) -> None:
        """Count URIs that were placed on a queue, and move it if they change its state. `short`: the last one's URL.

        The queue takes the budgets in force for the last one; `precedence` is what a policy says, None without one.
        """
        tables = self._tables
        queue.last_enqueued = short if len(short) <= LONGEST_SHOWN else short[:LONGEST_SHOWN]
        if queue.revision != tables.counters.settings_revision or not tables.in_force.fixed_precedence:
            self._turns.take_budgets(queue, settings, precedence)
        queue.queued += count
        queue.enqueued += count
        state = queue.state
        if state is not RETIRED:
            tables.counters.queued += count
        if state is not EXHAUSTED and state is not IN_PROCESS:  # the common case of the rule: it stays where it is
            return
        after = rules.after_arrival(queue, settings, now)
        if after is state:
            return
        self._turns.move(queue, after, now)
        if state is EXHAUSTED and after is INACTIVE and not tables.in_force.frontier.hold_queues:
            self._turns.activate(queue, settings, queue.precedence, now)

    def asked_precedence(self, queue_id: int, value: bytes) -> int | None:
        """Return the precedence for `place`, if a policy is to be asked for it. Raises PolicyError."""
        if not self._tables.in_force.asks_precedence:
            return None
        queue = self._tables.queues.look(queue_id)
        return self._turns.asked(queue, decode_uri(value, queue.queue))[1]

    def place(self, queue: QueueRecord, rank: bytes, value: bytes, precedence: int | None, now: float) -> None:
        """Put one URI on its queue. An ordinal of 0 in `rank` stands for an arrival now."""
        tables = self._tables
        directive, priority, cost, ordinal = keys.rank.unpack(rank)
        settings = tables.in_force.for_uri(decode_uri(value, queue.queue).url, queue.queue)
        if not ordinal:
            tables.counters.ordinal = ordinal = tables.counters.ordinal + 1
            if settings.lifo:
                ordinal = keys.MAX_ORDINAL - ordinal
        key = keys.pending.pack(queue.id, directive, priority, cost, ordinal)
        tables.pending.insert([(key, value)])
        self.arrived(queue, 1, short_url(value), settings, precedence, now)

    def place_due(self, now: float) -> None:
        """Put what was scheduled for later and is due on its queues, by due time; some hundreds in one call."""
        tables, future = self._tables, self._tables.future
        if future.held or now < future.next_due:
            return
        precedences = iter(self._asked_precedences(now))
        rows = future.take_due(now, MAX_DUE)
        for queue, row in zip(tables.queues.each(row.queue for row in rows), rows, strict=True):
            self.place(queue, row.rank, row.value, next(precedences, None), now)
        self._turns.cut_short |= len(rows) == MAX_DUE

    def _asked_precedences(self, now: float) -> list[int | None]:
        """Return what a policy says of those that are due, before any of them is placed."""
        if not self._tables.in_force.asks_precedence:
            return []
        return [self.asked_precedence(row.queue, row.value) for row in self._tables.future.due(now, MAX_DUE)]
