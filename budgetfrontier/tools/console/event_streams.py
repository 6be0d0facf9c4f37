"""Server-sent events: the live section of an open page, sent whenever it has changed."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.console import rendering
from budgetfrontier.tools.console.query import NotThere, ServiceUnavailable

MOST = 32
"""Open pages that are kept current."""
STALLED = 60.0
"""Seconds after which a stream is closed that is not read; its page connects again."""
ALIVE = 15.0
"""Seconds after which a quiet stream says that it is there."""
_LOOKED = 0.2  # seconds after which a stream looks whether its page was closed

Make = Callable[[], str]
_log = logging.getLogger("budgetfrontier.console")


class EventStreams:
    """The streams of a console. `render` makes a section outside the event loop, or raises ServiceUnavailable."""

    def __init__(self, render: Callable[[Make], Awaitable[str]], *, has_ended: Callable[[web.Request], bool]) -> None:
        self._render = render
        self._has_ended = has_ended
        self.open = 0
        """The number of open streams."""

    async def send(self, request: web.Request, make: Make, every: float) -> web.StreamResponse:
        """Send a section whenever it has changed, looking every so many seconds, until the page is closed.

        Ends, too, when the session has. Raises ServiceUnavailable if too many are open.
        """
        if self.open >= MOST:
            raise ServiceUnavailable
        self.open += 1
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        try:
            await self._send(request, response, make, every)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
        return response

    async def _send(self, request: web.Request, response: web.StreamResponse, make: Make, every: float) -> None:
        await response.prepare(request)
        await _write(response, b"retry: 5000\n\n")
        sent, quiet = "", time.monotonic()
        while await _still_there(request, every):
            try:
                section = await self._render(make)
            except ServiceUnavailable:
                continue
            except (FrontierError, OSError, NotThere) as error:
                section = rendering.problem(str(error))
            except Exception:
                _log.exception("%s, live", request.path)
                return
            if self._has_ended(request):
                return
            if section != sent:
                await _write(response, b"event: section\ndata: " + json.dumps(section).encode() + b"\n\n")
                sent, quiet = section, time.monotonic()
            elif time.monotonic() - quiet >= ALIVE:
                await _write(response, b"event: alive\ndata: \n\n")
                quiet = time.monotonic()


async def _write(response: web.StreamResponse, data: bytes) -> None:
    """Write to a stream. Raises TimeoutError if it is not read."""
    async with asyncio.timeout(STALLED):
        await response.write(data)


async def _still_there(request: web.Request, seconds: float) -> bool:
    """Wait; return False at once when the connection was closed, which aiohttp does not report to a handler."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if request.transport is None or request.transport.is_closing():
            return False
        await asyncio.sleep(min(left, _LOOKED))
    return True
