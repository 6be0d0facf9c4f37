"""The built-in precedence policies."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import CrawlUri, PolicyError
from budgetfrontier.core.model import QueueId, QueueRecord
from budgetfrontier.settings import plugins
from budgetfrontier.settings.policies.precedence import HighestUri, SuccessCounts

URI = CrawlUri("https://a.test/")


@pytest.mark.parametrize(
    ("succeeded", "completed"),
    [(0, 0), (99, 0), (100, 1), (1099, 1), (1100, 2), (2099, 2), (2100, 3), (1_001_100, 1002)],
)
def test_the_last_tier_of_successes_repeats(succeeded: int, completed: int) -> None:
    queue = QueueRecord("a.test", QueueId(1), charges=succeeded + 5, errors=8, error_answers=3)
    assert queue.succeeded == succeeded
    for policy in SuccessCounts(), SuccessCounts(tiers="100, 1000"), SuccessCounts(tiers=[100, 1000, 1000]):
        assert policy.of_queue(queue, 3) == 3 + completed


def test_the_base_is_the_setting_unless_it_is_given() -> None:
    assert SuccessCounts()(URI, precedence=6) == 6
    assert SuccessCounts(base=2)(URI, precedence=6) == 2
    assert (HighestUri()(URI, precedence=6), HighestUri(base=2)(URI, precedence=6)) == (6, 2)


@pytest.mark.parametrize("base", [-1, 65536, True, "3"])
def test_a_base_of_highest_uri_that_makes_no_sense_is_refused(base: object) -> None:
    with pytest.raises(PolicyError, match="highest-uri"):
        plugins.resolve("precedence", {"highest-uri": {"base": base}})


@pytest.mark.parametrize(
    "options",
    [
        *({"tiers": tiers} for tiers in ([], "100;5", [0], 5, [True], [1.5])),
        *({"base": base} for base in (-1, 65536, True, "3")),
        {"tier": [1]},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match="success-counts"):
        plugins.resolve("precedence", {"success-counts": options})
