"""Failed attempts: which one it was, when the URI is given up, and whether a queue waits because of one."""

from __future__ import annotations

import pytest

from budgetfrontier.core.model import CrawlUri, Finish, Lease, Outcome, QueueRecord
from budgetfrontier.rules.attempts import attempts_told, first_retry_told, waits_for_retry
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
    ("status", "told"),
    [
        (500, "attempt 1 of 3; if all fail, it is given up in 45m at the earliest"),
        (503, "attempt 1 of 31"),
        (0, "attempt 1 of 31; if all fail, it is given up in 7h30m at the earliest"),
    ],
)
def test_the_attempts_are_those_that_a_uri_gets_for_its_status(status: int, told: str) -> None:
    assert attempts_told(1, settings(retry_delay=900.0), 900.0, status=status) == told


@pytest.mark.parametrize(
    ("status", "delay", "changes", "told"),
    [
        (0, None, {}, "tried again in 15m, attempt 1 of 31; if all fail, it is given up in 7h30m at the earliest"),
        (500, None, {}, "tried again in 30m, attempt 1 of 3; if all fail, it is given up in 1h at the earliest"),
        (503, None, {}, "tried again in 1m at the earliest, attempt 1 of 31"),
        (429, 0.0, {}, "tried again in 1m at the earliest, attempt 1 of 31"),
        (429, 20.0, {}, "tried again in 20s at the earliest, attempt 1 of 31"),
        (429, 1e9, {}, "tried again in 1d at the earliest, attempt 1 of 31"),
        (503, None, {"backoff_delay": 0.0}, "tried again in 15m at the earliest, attempt 1 of 31"),
        (503, None, {"max_retries": 0}, "attempt 1 of 1, the last"),
        (
            -3,
            0.0,
            {"min_delay": 3.0, "max_retries": 1, "retry_delay": 1.0},
            "tried again in 3s, attempt 1 of 2; if all fail, it is given up in 3s at the earliest",
        ),
        (
            -3,
            0.0,
            {"min_delay": 3.0, "max_retries": 2, "retry_delay": 1.0},
            "tried again in 3s, attempt 1 of 3; if all fail, it is given up in 6s at the earliest",
        ),
    ],
)
def test_when_a_uri_is_tried_again_whose_first_attempt_failed(
    status: int, delay: float | None, changes: dict[str, float], told: str
) -> None:
    """Not before the politeness of its host allows."""
    finish = Finish(Lease(1, "a", CrawlUri("http://a/"), 0, 0.0, 1), Outcome.RETRY, status=status, delay=delay)
    assert first_retry_told(finish, settings(**changes)) == told


@pytest.mark.parametrize(
    ("failed_at", "leased", "waits"), [(0, 0, False), (10.5, 10, True), (10.5, 12, False), (10.5, 0, True)]
)
def test_a_queue_waits_for_a_retry_if_its_last_attempt_failed(failed_at: float, leased: int, waits: bool) -> None:
    record = QueueRecord("a", 1, failed_at=failed_at, last_lease_time=leased)
    assert waits_for_retry(record, 1) is waits
    assert not waits_for_retry(record, 0), "the URI of that attempt is gone"
