"""The outcome of a URI."""

from __future__ import annotations

import pytest

from budgetfrontier import Outcome
from budgetfrontier.rules import uri_outcomes
from budgetfrontier.rules.uri_outcomes import Fate
from tests.rules.queues import settings


@pytest.mark.parametrize(
    ("outcome", "attempt", "retry_uri", "expected"),
    [
        (Outcome.SUCCESS, 1, False, Fate.REMOVED),
        (Outcome.FAILURE, 1, False, Fate.REMOVED),
        (Outcome.DISREGARDED, 1, False, Fate.REMOVED),
        (Outcome.DEFERRED, 9, False, Fate.KEPT),
        (Outcome.DEAD, 1, False, Fate.DEAD),
        (Outcome.RETRY, 2, False, Fate.KEPT),
        (Outcome.RETRY, 2, True, Fate.DELAYED),
        (Outcome.RETRY, 3, True, Fate.DEAD),
    ],
)
def test_what_becomes_of_a_uri(outcome: Outcome, attempt: int, retry_uri: bool, expected: Fate) -> None:
    assert uri_outcomes.fate(outcome, attempt, settings(max_retries=2, retry_uri=retry_uri), delay=60.0) is expected
