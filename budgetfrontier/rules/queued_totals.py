"""The totals of queued URIs: those of a RETIRED or INELIGIBLE queue, now or for later, keep no crawl open."""

from __future__ import annotations

from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.rules.queue_states import INELIGIBLE, RETIRED


def is_queued(state: QueueState) -> bool:
    """Return whether the URIs of a queue in this state count as queued: RETIRED and INELIGIBLE ones do not."""
    return state is not RETIRED and state is not INELIGIBLE


def share(queue: QueueRecord, state: QueueState) -> tuple[int, int]:
    """Return a queue's part, in this state, of the totals `queued` and `future_retired`."""
    return (queue.queued, 0) if is_queued(state) else (0, queue.future)


def change(queue: QueueRecord, before: QueueState, after: QueueState) -> tuple[int, int]:
    """Return the changes of the totals `queued` and `future_retired` by a change of state."""
    queued_before, retired_before = share(queue, before)
    queued, retired = share(queue, after)
    return queued - queued_before, retired - retired_before
