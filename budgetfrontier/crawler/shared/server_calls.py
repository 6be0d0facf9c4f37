"""Calls to a server, repeated while it is away; the log says when it goes, and when it is back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from budgetfrontier.errors import ConnectionLost, FrontierClosed, FrontierLocked, StorageFull

PAUSE = 1.0
"""Seconds before a call is tried again that the server could not carry out, with a full disk for example."""
SILENT = 5.0
"""Seconds without an answer after which the server is said to be away."""

_PASSING = (ConnectionLost, StorageFull, FrontierClosed, FrontierLocked)

log = logging.getLogger("budgetfrontier.crawl")

_T = TypeVar("_T")


class CrawlServer:
    """The server of one crawl, `name`, or the workers of its partitions. Its methods are for one event loop."""

    def __init__(self, name: str, *, in_partitions: bool = False, now: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._told = f"{name} or a part of it" if in_partitions else name
        self._now = now
        self._waiting: dict[int, float] = {}  # by call: since when its answer is due
        self._failed: set[int] = set()  # calls that are repeated
        self._number = 0
        self._away: float | None = None  # since when, once it was logged
        self.leaving = False
        """Whether a call that the server cannot carry out is given up."""

    def __repr__(self) -> str:
        return f"<CrawlServer {self.name}{' away' if self._away is not None else ''}>"

    async def answer(self, call: Callable[[], Awaitable[_T]], *, wait: float = 0.0) -> _T:
        """Return the answer to a call, which may take `wait` seconds. Raises errors that do not pass."""
        self._number += 1
        number, due = self._number, self._now() + wait
        self._waiting[number] = due
        try:
            while True:
                try:
                    answer = await call()
                    break
                except _PASSING as error:
                    if self.leaving:
                        raise
                    self._failed.add(number)
                    self._note_absence(due, str(error))
                await asyncio.sleep(PAUSE)
        finally:
            del self._waiting[number]
            self._failed.discard(number)
        if self._away is not None and not self._failed and not self._is_silent:
            log.warning("%s answers again, after %.0f s", self.name, self._now() - self._away)
            self._away = None
        return answer

    def watch(self) -> None:
        """Log that the server is away if a call has waited too long. To be called now and then."""
        if self._is_silent and not self.leaving:
            since = min(self._waiting.values())
            self._note_absence(since, f"no answer for {self._now() - since:.0f} s")

    @property
    def _is_silent(self) -> bool:
        """Whether a call has waited too long: others may be answered, such as that nothing is there to lease."""
        return bool(self._waiting) and self._now() - min(self._waiting.values()) >= SILENT

    def _note_absence(self, since: float, why: str) -> None:
        if self._away is None:
            self._away = since
            log.warning(
                "%s cannot be used now (%s): it is waited for; fetches in flight go on, and nothing is lost",
                self._told, why,
            )  # fmt: skip
