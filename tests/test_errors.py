"""Errors: those that signal handlers raise are told from those of the code in which they come up."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from budgetfrontier.errors import pass_on_interruption


class Limit:
    """Handlers in the forms that Python takes."""

    def __call__(self, *given: Any) -> None:
        raise ValueError("time limit")

    def handle(self, *given: Any) -> None:
        self(*given)


def handle(*given: Any) -> None:
    raise ValueError("time limit")


@pytest.fixture(params=[handle, partial(handle), Limit(), Limit().handle, partial(partial(Limit().handle), 1)])
def strike(request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    """The call of a signal handler that raises an error."""
    before = signal.signal(signal.SIGUSR1, request.param)
    yield lambda: signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def test_the_error_of_a_signal_handler_is_passed_on(strike: Callable[[], None]) -> None:
    with pytest.raises(ValueError, match="time limit") as caught:
        strike()
    with pytest.raises(ValueError, match="time limit") as again:
        pass_on_interruption(caught.value)
    assert again.value is caught.value


def test_other_errors_are_not(strike: Callable[[], None]) -> None:
    pass_on_interruption(ValueError("never raised"))
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 / 0
    pass_on_interruption(caught.value)
