"""The line of clients that wait for URIs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from time import monotonic
from typing import Any

import pytest

from budgetfrontier.server.long_poll import LongPoll
from budgetfrontier.server.tasks import CallbackStep
from budgetfrontier.server.timers import Timers
from tests.support import PATIENCE, until


@pytest.fixture
def line() -> Iterator[LongPoll]:
    with closing(Timers()) as timers:
        yield LongPoll(timers)


def began(step: CallbackStep[Any]) -> list[Any]:
    """Start a step; return a list that gets its result."""
    results: list[Any] = []
    step.start(lambda result, error: results.append(result))
    return results


def test_one_is_first_and_the_others_follow_in_order(line: LongPoll) -> None:
    end = monotonic() + PATIENCE
    one, two, three = (began(line.enter(end)) for _ in range(3))
    assert (one, two, three) == ([True], [], [])
    line.leave()
    until(lambda: two)
    assert (two, three) == ([True], [])
    line.leave()
    until(lambda: three)
    line.leave()
    four = began(line.enter(end))
    until(lambda: four == [True])


def test_who_has_given_up_is_passed_over(line: LongPoll) -> None:
    end = monotonic() + PATIENCE
    first, gone, last = began(line.enter(end)), began(line.enter(monotonic())), began(line.enter(end))
    until(lambda: gone)
    assert (first, gone, last) == ([True], [False], [])
    line.leave()
    until(lambda: last)
    assert last == [True] and gone == [False]


def test_the_first_sleeps_until_something_changes_or_its_time_is_over(line: LongPoll) -> None:
    asleep = began(line.sleep(PATIENCE, line.changes))
    assert asleep == []
    line.changed()
    line.changed()
    assert asleep == [None]
    assert began(line.sleep(PATIENCE, line.changes - 1)) == [None], "it has changed since"
    short = began(line.sleep(0.001, line.changes))
    until(lambda: short)
    assert short == [None]


def test_timers_call_in_the_order_of_their_times() -> None:
    called: list[int] = []
    with closing(Timers()) as timers:
        timers.after(0.05, lambda: called.append(2))
        timers.after(0.0, lambda: called.append(1))
        timers.after(0.1, lambda: called.append(3))
        until(lambda: len(called) == 3)
    assert called == [1, 2, 3]


def test_timers_that_are_closed_call_nothing_more() -> None:
    called: list[int] = []
    with closing(Timers()) as timers:
        timers.after(PATIENCE, lambda: called.append(1))
    timers.after(0.0, lambda: called.append(2))
    assert called == []
