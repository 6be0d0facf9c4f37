"""The totals of what is queued: what RETIRED queues hold does not count."""

from __future__ import annotations

import pytest

from budgetfrontier import QueueState
from budgetfrontier.rules import queued_totals
from tests.rules.queues import RETIRED, queue


@pytest.mark.parametrize("state", QueueState)
def test_what_a_retired_queue_holds_is_not_queued_nor_waited_for(state: QueueState) -> None:
    assert queued_totals.is_queued(state) is (state is not RETIRED)
    assert queued_totals.share(queue(queued=3, future=2), state) == ((0, 2) if state is RETIRED else (3, 0))


@pytest.mark.parametrize("before", QueueState)
@pytest.mark.parametrize("after", QueueState)
def test_a_change_of_state_adds_the_difference_of_the_shares(before: QueueState, after: QueueState) -> None:
    moved = queue(queued=3, future=2)
    expected = (0, 0) if (before is RETIRED) is (after is RETIRED) else (-3, 2) if after is RETIRED else (3, -2)
    assert queued_totals.change(moved, before, after) == expected
