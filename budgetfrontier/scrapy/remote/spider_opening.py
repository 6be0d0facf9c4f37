"""The opening of a spider on a shared frontier: the connection, its start requests, and why it cannot be opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from budgetfrontier import connections
from budgetfrontier.errors import ConnectionLost, FrontierError, PolicyError
from budgetfrontier.scrapy.remote.event_loop import pause
from budgetfrontier.scrapy.remote.options import SharedOptions

if TYPE_CHECKING:
    from budgetfrontier.connections import Connection

CONNECT_WITHIN = 30.0
"""Seconds for which a spider that is opened tries to reach the server."""


def connect(options: SharedOptions) -> Connection:
    """Connect to the server, or the workers. Raises what `connections.connect` raises."""
    return connections.connect(
        options.address, crawl=options.crawl, token=options.token, tls=options.tls, retry_for=CONNECT_WITHIN
    )


def close_reason(error: FrontierError) -> str:
    """Return the reason with which an error closes a spider."""
    if isinstance(error, ConnectionLost):
        return "connection_lost"
    return "policy_error" if isinstance(error, PolicyError) else "frontier_error"


def replace_start(crawler: Any, replace: Callable[[Any], AsyncIterator[Any]]) -> None:
    """Put another generator into the place of the one that the spider's `start()` has made."""
    engine = crawler.engine
    if getattr(engine, "_start", None) is not None:
        engine._start = replace(engine._start)


async def no_start(start: Any) -> AsyncIterator[Any]:
    """Yield nothing, for a spider that cannot run."""
    nothing: tuple[Any, ...] = ()
    for each in nothing:
        yield each


async def held_back(start: Any, waits: Callable[[], bool]) -> AsyncIterator[Any]:
    """Yield what `start()` of the spider yields, while the server keeps up."""
    async for each in start:
        while waits():
            await pause(0.1)
        yield each
