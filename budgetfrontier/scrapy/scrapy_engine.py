"""Scrapy's engine, as a scheduler uses it: woken for requests, asked to close the spider, and not kept waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from budgetfrontier.scrapy.in_flight import slot_of

try:
    from scrapy.utils.asyncio import call_later
except ImportError:  # Scrapy 2.13

    def call_later(delay: float, function: Callable[[], object]) -> Any:
        from twisted.internet import reactor

        return reactor.callLater(delay, function)


MAX_DELAY = 3600.0  # seconds; a call too early does no harm
TICK = 0.5
"""Seconds between two looks at requests that have ended, of a spider that shares a frontier or reads a bus."""
CLOSE_WITHIN = 5.0
"""Seconds that a closing spider of these may take to send what is left; 1 if the other side does not answer."""
MAX_LOST = 100
"""Requests that cannot be restored, in one call of `next_request`."""
HELD_BACK = 0.1
"""Seconds between two looks whether start requests are still to be held back."""


class Wakeup:
    """A timer that calls a function once, at the earliest of the times it was set to, until it is stopped for good."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._call: Any = None
        self._due = 0.0
        self._stopped = False

    def set(self, delay: float) -> None:
        """Call the function in `delay` seconds, or earlier if it is due earlier."""
        due = time.monotonic() + min(delay, MAX_DELAY)
        if self._stopped or (self._call is not None and self._due <= due):
            return
        if self._call is not None:
            self._call.cancel()
        self._due = due
        self._call = call_later(max(due - time.monotonic(), 0.0), self._fire)

    def stop(self) -> None:
        """Cancel the call, and ignore all later calls of `set`."""
        self._stopped = True
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _fire(self) -> None:
        self._call = None
        self._function()


class ScrapyEngine:
    """The engine of a crawler. Outside a crawl none runs: then no timer is set, and nothing is woken or posted."""

    def __init__(self, crawler: Any, tick: Callable[[], None]) -> None:
        """Prepare timers; `tick` is called as `tick_in` says."""
        self._crawler = crawler
        self._waker, self._ticker = Wakeup(self.wake), Wakeup(tick)
        self._call_in_loop: Callable[[Callable[[], object]], object] | None = None
        self._reason: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether a crawl runs."""
        return slot_of(self._crawler) is not None

    # -- time

    def wake(self) -> None:
        """Let the engine ask for requests: it does so after its own events, and otherwise only every five seconds."""
        slot = slot_of(self._crawler)
        if slot is not None:
            slot.nextcall.schedule()

    def wake_in(self, seconds: float) -> None:
        """Wake the engine in so many seconds, or earlier if it was to be woken earlier."""
        if self.is_running:
            self._waker.set(seconds)

    def tick_in(self, seconds: float) -> None:
        """Call `tick` in so many seconds."""
        if self.is_running:
            self._ticker.set(seconds)

    def stop_timers(self) -> None:
        """Neither wake nor tick any more."""
        self._ticker.stop()
        self._waker.stop()

    def first_of(self, take: Callable[[], Any], restore: Callable[[Any], Any]) -> Any:
        """Take requests until one can be restored, and return it; None once there are no more.

        `take` and `restore` return None for none. After MAX_LOST requests that cannot be restored, the engine asks
        again.
        """
        for _ in range(MAX_LOST):
            if (taken := take()) is None:
                return None
            if (request := restore(taken)) is not None:
                return request
        self.wake_in(0.0)
        return None

    # -- threads

    def attach(self) -> None:
        """Take the event loop of this thread for `post`, if a crawl runs: with any reactor, or without one."""
        if not self.is_running:
            return
        try:
            self._call_in_loop = asyncio.get_running_loop().call_soon_threadsafe
        except RuntimeError:
            from twisted.internet import reactor

            self._call_in_loop = reactor.callFromThread

    def post(self, function: Callable[[], object]) -> None:
        """Let the event loop call a function, from any thread. Do nothing once the loop has ended."""
        if self._call_in_loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._call_in_loop(function)

    def in_thread(self, work: Callable[[], Any], name: str) -> Any:
        """Do work in a thread of its own, which does not keep the process alive; return a Deferred of its result."""
        result: Any = Deferred()

        def run() -> None:
            try:
                found = work()
            except BaseException as e:
                error = e
                self.post(lambda: result.errback(error))
            else:
                self.post(lambda: result.callback(found))

        threading.Thread(target=run, name=f"budgetfrontier {name}", daemon=True).start()
        return result

    def leave(self, work: Callable[[], Any], then: Callable[[Any], Any]) -> Any:
        """Call `then` with the result of work, which is done in a thread during a crawl; return its own, or a Deferred.

        So a spider that closes keeps no other one waiting.
        """
        if not self.is_running:
            return then(work())
        leaving = self.in_thread(work, "close")
        leaving.addCallback(then)
        return leaving

    # -- the spider

    def close_spider(self, reason: str) -> None:
        """Close the spider once, with the first reason given, and never during a step of the engine."""
        if self._reason is not None:
            return
        self._reason = reason
        if self.is_running:
            call_later(0.0, self._close)
        else:
            self._close()

    def _close(self) -> None:
        engine = self._crawler.engine
        if hasattr(engine, "close_spider_async"):
            deferred_from_coro(engine.close_spider_async(reason=self._reason))
        else:  # Scrapy 2.13
            engine.close_spider(self._crawler.spider, self._reason)

    def hold_back_start(self, waits: Callable[[], bool]) -> None:
        """Take a request of the spider's `start()` only when `waits` returns False."""
        self._replace_start(lambda start: _held_back(start, waits))

    def skip_start(self) -> None:
        """Take no request of the spider's `start()`."""
        self._replace_start(_nothing)

    def _replace_start(self, replace: Callable[[Any], AsyncIterator[Any]]) -> None:
        engine = self._crawler.engine
        if getattr(engine, "_start", None) is not None:
            engine._start = replace(engine._start)


async def _nothing(start: Any) -> AsyncIterator[Any]:
    nothing: tuple[Any, ...] = ()
    for each in nothing:
        yield each


async def _held_back(start: Any, waits: Callable[[], bool]) -> AsyncIterator[Any]:
    async for each in start:
        while waits():
            over: Any = Deferred()
            call_later(HELD_BACK, lambda over=over: over.callback(None))
            await maybe_deferred_to_future(over)
        yield each
