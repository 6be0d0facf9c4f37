"""The default delay of a server: which adjustments a crawl takes it with."""

from __future__ import annotations

import pytest

from budgetfrontier.server.default_delay import Adjusted, still_to_do
from budgetfrontier.server.node import Node

NODE = Node(delay=7.0, delay_set=100.0)
OURS = Adjusted("*", 7.0, ours=True)


@pytest.mark.parametrize(
    ("adjusted", "expected"),
    [
        ([], [("*", 7.0)]),
        ([OURS], []),  # taken before
        ([OURS._replace(delay=5.0)], [("*", 7.0)]),
        ([Adjusted("*", 3.0)], [("*", 7.0)]),
        ([Adjusted("*", 3.0, since=True)], []),  # an operator knows better
        ([Adjusted("queue:a.test", 3.0)], [("*", 7.0)]),
        ([Adjusted("queue:a.test", 3.0, since=True)], [("*", 7.0), ("queue:a.test", 3.0)]),
        ([OURS, Adjusted("queue:a.test", 3.0, since=True)], []),
        ([OURS, Adjusted("queue:a.test", 3.0, ours=True)], []),
        ([OURS, Adjusted("queue:a.test", 3.0)], [("*", 7.0)]),
    ],
)
def test_a_crawl_takes_the_default_once_and_keeps_what_is_adjusted_later(
    adjusted: list[Adjusted], expected: list[tuple[str, float]]
) -> None:
    assert still_to_do(NODE, 1.0, adjusted) == expected


def test_a_crawl_that_was_created_with_the_default_needs_nothing() -> None:
    assert still_to_do(NODE, 7.0, []) == still_to_do(NODE, 7.0, [Adjusted("queue:a.test", 3.0, since=True)]) == []
    assert still_to_do(Node(), 1.0, []) == []
