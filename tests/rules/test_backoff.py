"""The back-off of a host that is overloaded."""

from __future__ import annotations

import pytest

from budgetfrontier.rules import backoff
from tests.rules.queues import NOW, READY, queue, settings

CHOSEN = {
    "backoff_delay": 60.0,
    "backoff_factor": 2.0,
    "backoff_max_delay": 86400.0,
    "backoff_forgive_after": 1800.0,
}


def test_it_doubles_at_each_incident_up_to_a_day() -> None:
    host, now, lengths = queue(READY), NOW, []
    for _ in range(13):
        host.backoff, host.overloaded_until = backoff.after_overload(host, settings(**CHOSEN), None, now)
        lengths.append(host.backoff)
        assert host.overloaded_until == now + host.backoff
        now = host.overloaded_until + 1799.0
    assert lengths == [60.0 * 2**n for n in range(11)] + [86400.0, 86400.0]


def test_it_is_forgiven_once_the_last_rest_is_over_for_long_enough() -> None:
    host = queue(READY, backoff=240.0, overloaded_until=NOW)
    assert backoff.after_overload(host, settings(**CHOSEN), None, NOW + 1799.0).seconds == 480.0
    assert backoff.after_overload(host, settings(**CHOSEN), None, NOW + 1800.0).seconds == 60.0


def test_answers_that_come_before_the_rest_is_over_are_one_incident() -> None:
    host = queue(READY, backoff=60.0, overloaded_until=NOW + 60)
    assert backoff.after_overload(host, settings(**CHOSEN), None, NOW + 59.0) == (60.0, NOW + 60)
    assert backoff.after_overload(host, settings(**CHOSEN), None, NOW + 60.0) == (120.0, NOW + 180)


def test_a_retry_after_is_obeyed_up_to_the_longest_rest_and_is_no_incident() -> None:
    host, chosen = queue(READY), settings(**CHOSEN)
    assert backoff.after_overload(host, chosen, 5.0, NOW) == (0, NOW + 5)
    assert backoff.after_overload(host, chosen, 1e9, NOW) == (0, NOW + 86400)
    assert backoff.after_overload(host, chosen, 0.0, NOW) == (60.0, NOW + 60), "0 asks for nothing"
    host.overloaded_until = NOW + 60
    assert backoff.after_overload(host, chosen, 5.0, NOW).until == NOW + 60


def test_each_number_is_a_setting() -> None:
    host, chosen = queue(READY, backoff=10.0, overloaded_until=NOW - 5), {**CHOSEN, "backoff_delay": 10.0}
    assert backoff.after_overload(host, settings(**{**chosen, "backoff_factor": 3.0}), None, NOW).seconds == 30.0
    assert backoff.after_overload(host, settings(**{**chosen, "backoff_max_delay": 15.0}), None, NOW).seconds == 15.0
    assert backoff.after_overload(host, settings(**{**chosen, "backoff_forgive_after": 5.0}), None, NOW).seconds == 10.0
    off = settings(**{**chosen, "backoff_delay": 0.0})
    assert backoff.after_overload(host, off, None, NOW) == (10.0, NOW - 5)
    assert backoff.after_overload(host, off, 7.0, NOW).until == NOW + 7


@pytest.mark.parametrize(("value", "seconds"), [(" 3 ", 3.0), ("0", None), ("٣", None), ("1.5", None), ("", None)])
def test_a_retry_after_that_asks_for_nothing_is_none(value: str, seconds: float | None) -> None:
    assert backoff.retry_after(value, NOW) == seconds


def test_a_retry_after_may_be_a_date_or_a_number_of_years() -> None:
    at = 784111777.0
    for date in ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 -0000", "Sun, 06 Nov 1994 10:49:37 +0200"):
        assert backoff.retry_after(date, at - 60.5) == 60.5
        assert backoff.retry_after(date, at) is None, "it has passed"
        assert backoff.retry_after(f" {date} ", at - 0.5) == 0.5
    assert backoff.retry_after("9" * 5000, NOW) == 999999999.0
    assert backoff.retry_after("1234567890", NOW) == 123456789.0
    for nothing in ("never", "Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 99999 08:49:37 GMT", "00"):
        assert backoff.retry_after(nothing, 0.0) is None


@pytest.mark.parametrize(
    ("urls", "changed", "seconds"),
    [
        (3, {}, 0.0),
        (4, {}, 120.0),  # four of five attempts are answered: another rest, of twice the time
        (12, {}, 120.0 + 240.0 + 480.0),
        (40, {"backoff_max_delay": 3600.0}, 120.0 + 240.0 + 480.0 + 960.0 + 1920.0 + 5 * 3600.0),
        (4, {"backoff_factor": 1.0}, 60.0),
        (4, {"backoff_delay": 0.0}, 0.0),
    ],
)
def test_the_rests_of_a_host_that_goes_on_to_be_overloaded(
    urls: int, changed: dict[str, float], seconds: float
) -> None:
    chosen, host = settings(**CHOSEN | changed), queue(READY, backoff=60.0, overloaded_until=NOW, charges=5)
    assert backoff.rests_ahead(host, chosen, urls, now=NOW) == pytest.approx(seconds)
    assert backoff.rests_ahead(host, chosen, urls, now=NOW + 1800.0) == 0.0, "nothing was heard of it since"


def test_a_host_that_is_always_overloaded_rests_for_each_try_of_a_uri() -> None:
    chosen = settings(**CHOSEN, max_retries=1)
    host = queue(READY, backoff=240.0, overloaded_until=NOW, charges=3)
    assert backoff.rests_ahead(host, chosen, 2, now=NOW) == pytest.approx(480.0 + 960.0 + 1920.0 + 3840.0)


def test_a_rest_that_ends_too_late_is_forgotten_and_no_delay_given_by_name() -> None:
    ahead = queue(READY, backoff=60, overloaded_until=NOW + 1e8, delayed=NOW + 1e8)
    backoff.forget_later(ahead, NOW + 86_400)
    assert (ahead.backoff, ahead.overloaded_until, ahead.delayed) == (0, 0, 0)
    named = queue(READY, backoff=60, overloaded_until=NOW + 1e8, delayed=NOW + 1e9)
    backoff.forget_later(named, NOW + 86_400)
    assert (named.overloaded_until, named.delayed) == (0, NOW + 1e9)
    rests = queue(READY, backoff=60, overloaded_until=NOW + 60, delayed=NOW + 60)
    backoff.forget_later(rests, NOW + 86_400)
    assert (rests.backoff, rests.overloaded_until, rests.delayed) == (60, NOW + 60, NOW + 60)
