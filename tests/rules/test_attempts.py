"""Failed attempts: which one it was, when the URI is given up, and whether a queue waits because of one."""

from __future__ import annotations

import pytest

from budgetfrontier.model import QueueRecord
from budgetfrontier.rules.attempts import attempts_told, waits_for_retry
from tests.rules.queues import settings


@pytest.mark.parametrize(
    ("attempts", "next_in", "told"),
    [
        (1, 900.0, "attempt 1 of 4; if all fail, it is given up in 45m at the earliest"),
        (3, 60.0, "attempt 3 of 4; if all fail, it is given up in 1m at the earliest"),
        (4, 0.0, "attempt 4 of 4, the last"),
    ],
)
def test_which_attempt_it_was_and_when_the_uri_is_given_up(attempts: int, next_in: float, told: str) -> None:
    assert attempts_told(attempts, settings(max_retries=3, retry_delay=900.0), next_in) == told


@pytest.mark.parametrize(
    ("failed_at", "leased", "waits"), [(0, 0, False), (10.5, 10, True), (10.5, 12, False), (10.5, 0, True)]
)
def test_a_queue_waits_for_a_retry_if_its_last_attempt_failed(failed_at: float, leased: int, waits: bool) -> None:
    assert waits_for_retry(QueueRecord("a", 1, failed_at=failed_at, last_lease_time=leased)) is waits
