"""Timers that fire when a test says so: no reactor runs beside a scheduler outside a crawl."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from budgetfrontier.scrapy import scrapy_engine


class Timer:
    """A call that was put off."""

    def __init__(self, delay: float, function: Callable[[], object]) -> None:
        self.delay = delay
        self.fire = function
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


@pytest.fixture(autouse=True)
def timers(monkeypatch: pytest.MonkeyPatch) -> list[Timer]:
    """All timers that the schedulers of this process have set, in order."""
    made: list[Timer] = []

    def call_later(delay: float, function: Callable[[], object]) -> Timer:
        made.append(Timer(delay, function))
        return made[-1]

    monkeypatch.setattr(scrapy_engine, "call_later", call_later)
    return made
