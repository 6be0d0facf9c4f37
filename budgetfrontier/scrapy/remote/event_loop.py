"""Calls into the event loop of Scrapy from other threads, with any reactor and without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from budgetfrontier.scrapy.wakeups import call_later

Post = Callable[[Callable[[], object]], None]
"""A function that lets the event loop call another, from any thread. It does nothing once the loop has ended."""


def poster() -> Post:
    """Return such a function for the event loop that runs in this thread."""
    try:
        call: Callable[..., object] = asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        from twisted.internet import reactor

        call = reactor.callFromThread

    def post(function: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            call(function)

    return post


def in_thread(work: Callable[[], Any], post: Post, name: str) -> Any:
    """Do work in a thread of its own, which does not keep the process alive; return a Deferred of its result."""
    result: Any = Deferred()

    def run() -> None:
        try:
            found = work()
        except BaseException as e:
            error = e
            post(lambda: result.errback(error))
        else:
            post(lambda: result.callback(found))

    threading.Thread(target=run, name=name, daemon=True).start()
    return result


async def pause(seconds: float) -> None:
    """Wait in a coroutine of Scrapy."""
    over: Any = Deferred()
    call_later(seconds, lambda: over.callback(None))
    await maybe_deferred_to_future(over)
