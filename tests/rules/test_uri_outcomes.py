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


@pytest.mark.parametrize(
    ("status", "attempt", "expected"),
    [
        (200, 1, Outcome.SUCCESS),
        (404, 1, Outcome.SUCCESS),
        (500, 1, Outcome.RETRY),
        (502, 2, Outcome.RETRY),
        (502, 3, Outcome.FAILURE),
        (503, 9, Outcome.RETRY),  # whether a retry is left, the frontier decides
        (429, 1, Outcome.FAILURE),  # not in `retry.statuses`
        (501, 1, Outcome.FAILURE),
    ],
)
def test_a_server_error_that_may_pass_is_tried_again_and_is_no_success(
    status: int, attempt: int, expected: Outcome
) -> None:
    chosen = settings(max_retries=30, status_retries=2, retry_statuses=frozenset({500, 502, 503}))
    assert uri_outcomes.outcome_of_answer(status, attempt, chosen) is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (-1, True),
        (-2, True),
        (-4, True),
        (-61, True),
        (-5, False),
        (-5001, False),
        (429, True),
        (503, True),
        (500, False),
    ],
)
def test_what_had_no_answer_may_pass_and_so_may_an_overload(status: int, expected: bool) -> None:
    assert uri_outcomes.may_pass(status) is expected
    assert uri_outcomes.may_pass(status, {500}) is ((expected and status < 0) or status == 500)
    assert uri_outcomes.is_failure(status)


@pytest.mark.parametrize(("delivery", "too_often"), [(1, False), (2, False), (3, True), (4, True)])
def test_a_uri_that_was_lost_in_its_last_delivery_becomes_a_dead_letter(delivery: int, too_often: bool) -> None:
    assert uri_outcomes.is_delivered_too_often(delivery, max_deliveries=3) is too_often


def test_max_retries_also_bounds_the_tries_after_a_status() -> None:
    chosen = settings(max_retries=1, status_retries=2, retry_statuses=frozenset({500}))
    assert uri_outcomes.outcome_of_answer(500, 2, chosen) is Outcome.FAILURE


@pytest.mark.parametrize(
    ("reason", "key", "cause"),
    [
        ("no address: a.test", "a.test", "no address: (host)"),
        ("refused by a.test:8080", "a.test:8080", "refused by (host)"),
        ("no address: a.test, not b.test", "a.test:8080", "no address: (host), not b.test"),
        ("timeout", "a.test", "timeout"),
        ("an odd answer", "a", "an odd answer"),  # a key of one letter is no host
        ("at ab", "ab", "at (host)"),
    ],
)
def test_the_cause_of_a_dead_letter_names_no_host(reason: str, key: str, cause: str) -> None:
    assert uri_outcomes.cause(reason, key) == cause


@pytest.mark.parametrize(
    ("status", "failure", "about_page"),
    [
        (-1, True, False),
        (0, True, False),
        (1, False, True),
        (429, True, False),
        (499, False, True),
        (500, True, True),
        (503, True, False),
    ],
)
def test_what_a_status_says_of_page_and_host(status: int, failure: bool, about_page: bool) -> None:
    assert (uri_outcomes.is_failure(status), uri_outcomes.is_about_page(status)) == (failure, about_page)
