"""Groups of queues: how many of their fetches may go out, and what their queues add up to."""

from __future__ import annotations

import pytest

from budgetfrontier.core.model import GroupRecord, QueueRecord
from budgetfrontier.rules import group_limits
from budgetfrontier.settings.grouping import GroupLimits


def group(**fields: int) -> GroupRecord:
    return GroupRecord("g", 1, **fields)


@pytest.mark.parametrize(
    ("record", "limits", "expected"),
    [
        (group(), GroupLimits(), 10),
        (group(out=3), GroupLimits(max_in_flight=5), 2),
        (group(out=3, landed=2), GroupLimits(max_in_flight=5), 4),
        (group(out=9), GroupLimits(max_in_flight=5), 0),
        (group(out=1, reserved=3, expenditure=8), GroupLimits(total_budget=10), 0),
        (group(out=1, reserved=2, expenditure=8), GroupLimits(total_budget=10), 10),
        (group(out=1, reserved=2, expenditure=11), GroupLimits(total_budget=10), 10),
    ],
)
def test_room(record: GroupRecord, limits: GroupLimits, expected: int) -> None:
    assert group_limits.room(record, limits, reached=False, most=10) == expected


def test_a_clock_counts_only_with_politeness() -> None:
    record = GroupRecord("g", 1, wake_time=50.0)
    assert group_limits.clock(record, GroupLimits(politeness=True)) == 50.0
    assert group_limits.clock(record, GroupLimits()) == 0.0


def test_queues_are_added_and_taken_out() -> None:
    record, queue = group(expenditure=5), QueueRecord("q", 1, expenditure=7, out=2, landed=1, reserved=3, bytes=9)
    group_limits.add(record, queue)
    assert (record.queues, record.expenditure, record.out, record.bytes) == (1, 12, 2, 9)
    assert group_limits.without_queues(record) == group()
    group_limits.add(record, queue, -1)
    assert record == group(expenditure=5)
