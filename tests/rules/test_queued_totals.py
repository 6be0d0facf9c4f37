"""The totals of what is queued: what RETIRED and INELIGIBLE queues hold does not count."""

from __future__ import annotations

import pytest

from budgetfrontier import QueueState
from budgetfrontier.rules import queued_totals
from tests.rules.queues import RETIRED, queue

UNCOUNTED = (RETIRED, QueueState.INELIGIBLE)


@pytest.mark.parametrize("state", QueueState)
def test_what_a_queue_out_of_rotation_holds_is_not_queued_nor_waited_for(state: QueueState) -> None:
    assert queued_totals.is_queued(state) is (state not in UNCOUNTED)
    assert queued_totals.share(queue(queued=3, future=2), state) == ((0, 2) if state in UNCOUNTED else (3, 0))


@pytest.mark.parametrize("before", QueueState)
@pytest.mark.parametrize("after", QueueState)
def test_a_change_of_state_adds_the_difference_of_the_shares(before: QueueState, after: QueueState) -> None:
    moved = queue(queued=3, future=2)
    was, is_now = before in UNCOUNTED, after in UNCOUNTED
    expected = (0, 0) if was is is_now else (-3, 2) if is_now else (3, -2)
    assert queued_totals.change(moved, before, after) == expected
