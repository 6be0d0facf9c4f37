"""Changes that crawlers ask for in queues that they fetch from, for each response if need be: they are not audited."""

from __future__ import annotations

from math import isfinite

import msgspec

from budgetfrontier.engine import arguments
from budgetfrontier.engine.commands import operations, queue_commands
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules import wake_times

MOST_BUDGET = (1 << 53) - 1
"""The largest total budget."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The values asked for; None: as it is."""

    interval: float | None
    max_completed: int | None
    total_budget: int | None
    blocked_until: float | None

    def checked(self, kernel: Kernel) -> Asked:
        """Return the values as they are stored, whole numbers as plain ints. Raises FrontierError for others."""
        if self.interval is not None or self.max_completed is not None:
            queue_commands.check_paced(kernel)
        given = {"interval": self.interval, "max_completed": self.max_completed}
        args = {name: value for name, value in given.items() if value is not None}
        operations.check_command("set_queue", {"queue": "", **args})
        budget = None if self.total_budget is None else arguments.exactly(self.total_budget, -1, MOST_BUDGET + 1)
        if budget is None and self.total_budget is not None:
            raise arguments.error_of_count(self.total_budget, FrontierError)(
                f"a total budget is a whole number up to {MOST_BUDGET:,}, -1 for no limit, "
                f"not {self.total_budget!r:.60}"
            )
        if self.blocked_until is not None and not isfinite(self.blocked_until):
            raise FrontierError("a queue is blocked until a time in epoch seconds")
        most = None if self.max_completed is None else int(self.max_completed)
        return msgspec.structs.replace(self, total_budget=budget, max_completed=most)


def reset(kernel: Kernel, key: str, now: float) -> bool:
    """Reset the values of a queue set by `regulate`, `set_queue` and `snooze`; return False if there is none."""
    queue = kernel.tables.queues.find(kernel.tables.queues.named(key))
    if queue is None:
        return False
    turns = kernel.turns
    turns.set_interval(queue, None, now)
    turns.set_limit(queue, 0)
    turns.set_budget(queue, None)
    turns.wait(queue, wake_times.blocked_until(queue, 0, now), now)
    return True


def regulate(kernel: Kernel, key: str, asked: Asked, now: float) -> bool:
    """Set the values asked for a queue; return False if there is none. Equal values cost no more than the look-up."""
    queue = kernel.tables.queues.look_up(kernel.tables.queues.named(key))
    if queue is None:
        return False
    turns, queue = kernel.turns, kernel.tables.queues.get(queue.id)
    if asked.interval is not None and asked.interval != queue.interval:
        turns.set_interval(queue, asked.interval, now)
    if asked.max_completed is not None and asked.max_completed != queue.max_completed:
        turns.set_limit(queue, asked.max_completed)
    if asked.total_budget is not None and asked.total_budget != queue.own_budget:
        turns.set_budget(queue, asked.total_budget)
    if asked.blocked_until is not None:
        turns.wait(queue, wake_times.blocked_until(queue, asked.blocked_until, now), now)
    return True
