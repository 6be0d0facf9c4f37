"""Visits that rest between two requests, and occupy no place of a fetcher meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Rests:
    """The rests of visits: up to `most_visits` visits work at a time, and up to `most_resting` more may rest.

    `visited` returns the number of visits, resting ones too; `wake` is called when there may be a place for another.
    """

    def __init__(
        self, *, most_visits: int, most_resting: int, visited: Callable[[], int], wake: Callable[[], None]
    ) -> None:
        self._most_visits, self._most_resting = most_visits, most_resting
        self._visited, self._wake = visited, wake
        self._resting = 0
        self._line: deque[asyncio.Event] = deque()  # of those that have rested, and wait for a place
        self._stopped = asyncio.Event()

    @property
    def places(self) -> int:
        """The number of visits that may begin now."""
        return max(self._most_visits - self._working - len(self._line), 0)

    @property
    def _working(self) -> int:
        return self._visited() - self._resting

    async def rest(self, seconds: float) -> bool:
        """Wait so many seconds, and then for a place; return False if visits are to end instead."""
        if self._resting >= self._most_resting:
            return await self._passed(seconds)
        self._resting += 1
        self.place_freed()
        self._wake()
        try:
            return await self._passed(seconds) and await self._place()
        finally:
            self._resting -= 1

    def place_freed(self) -> None:
        """Let the first that waits for a place go on."""
        if self._line:
            self._line[0].set()

    def stop(self) -> None:
        """End all rests, because the crawl is stopping."""
        self._stopped.set()
        for waiting in self._line:
            waiting.set()

    async def _passed(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            return True
        return False

    async def _place(self) -> bool:
        turn = asyncio.Event()
        self._line.append(turn)
        try:
            while not self._stopped.is_set() and (self._line[0] is not turn or self._working >= self._most_visits):
                turn.clear()
                await turn.wait()
        finally:
            self._line.remove(turn)
            self.place_freed()
        return not self._stopped.is_set()
