"""Timers that fire when a test says so: no reactor runs beside a scheduler outside a crawl."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
from scrapy import version_info

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


@pytest.fixture(autouse=True)
def handlers_of_the_root() -> Iterator[None]:
    """Remove the handlers of crawlers without a crawl: earlier versions of Scrapy remove theirs when a crawl ends."""
    before = logging.root.handlers[:]
    yield
    if version_info < (2, 15):
        logging.root.handlers[:] = before
