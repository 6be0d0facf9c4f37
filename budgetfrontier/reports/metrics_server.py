"""The server of `crawl --metrics` and `serve --metrics`: metrics for Prometheus, in an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from aiohttp import web

from budgetfrontier.core.endpoints.addresses import HostPort, check_reach, parsed
from budgetfrontier.core.endpoints.sockets import listening
from budgetfrontier.errors import FrontierError, WrongAddress
from budgetfrontier.reports.host_allowlist import REFUSED, SCRAPES, HostAllowlist
from budgetfrontier.reports.server_log import SERVER_LOG

Answer = Callable[[str], tuple[bytes, str]]
"""By the Accept header of a scrape, its answer and the content type: `Exposition.answer`."""
ANSWERED_WITHIN = 5.0
"""Seconds after which a connection is closed, whether or not a request has come."""
_PAUSE = 0.01  # seconds between two connections: a flood of them delays itself, not the crawl
_BACKLOG = 512  # that wait for their turn: about 5 s, half the time that Prometheus waits
_NO_FILES = 1.0  # seconds until the next one if the process has no descriptor for it
_WRONG_HOST = "This name is not known here: scrape an address, or start again with --allow-host NAME.\n"


class MetricsServer:
    """A socket that is bound at once, and is answered while `serving`. Raises FrontierError if it is not free."""

    def __init__(self, listen: str, *, names: Iterable[str] = (), anybody: bool = False) -> None:
        """Listen; `names` are those under which scrapes may ask for it, besides addresses and this machine's name.

        `anybody` lets other machines read them, for there is no token.
        """
        where = parsed(listen, any_port=True)
        if not isinstance(where, HostPort):
            raise WrongAddress(f"--metrics {listen}: give HOST:PORT, such as 127.0.0.1:9464")
        check_reach(where, option="--metrics", protected=False, anybody=anybody, remedy="")
        try:
            self.socket = listening(where, backlog=_BACKLOG)
        except FrontierError as error:
            raise FrontierError(f"--metrics: {error}; name another port") from None
        self._hosts = HostAllowlist([where.host, *names])

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    @asynccontextmanager
    async def serving(self, answer: Answer) -> AsyncIterator[None]:
        """Answer scrapes. Nothing is done between them.

        The cost of strangers is bounded: a connection is taken every 10 ms, at most SCRAPES are held, and the oldest is
        closed for one more. Others wait in the queue of the socket.
        """

        async def scrape(request: web.Request) -> web.Response:
            if request.headers.get("Host") not in self._hosts:
                return web.Response(status=REFUSED, text=_WRONG_HOST)
            body, kind = answer(request.headers.get("Accept", ""))
            return web.Response(body=body, headers={"Content-Type": kind})

        app = web.Application()
        app.on_response_prepare.append(_close_afterwards)
        app.router.add_get("/metrics", scrape)
        runner = web.AppRunner(app, handle_signals=False, access_log=None, logger=SERVER_LOG, shutdown_timeout=1)
        await runner.setup()
        assert runner.server is not None
        accepting = asyncio.create_task(self._accept(runner.server))
        try:
            yield
        finally:
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)
            await runner.cleanup()
            self.close()

    @contextmanager
    def serving_in_thread(self, answer: Answer) -> Iterator[None]:
        """Answer scrapes in a thread with an event loop of its own; `answer` is called there, and may wait."""
        loop, end = asyncio.new_event_loop(), asyncio.Event()

        async def serve() -> None:
            async with self.serving(answer):
                await end.wait()

        def main() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(serve())

        thread = threading.Thread(target=main, name="metrics", daemon=True)
        thread.start()
        try:
            yield
        finally:
            loop.call_soon_threadsafe(end.set)
            thread.join()

    async def _accept(self, server: web.Server) -> None:
        """Hand connections to the server, one after another."""
        loop = asyncio.get_running_loop()
        self.socket.setblocking(False)
        held: dict[asyncio.Transport, None] = {}  # in the order of arrival
        while True:
            try:
                accepted, _ = await loop.sock_accept(self.socket)
            except OSError:
                await asyncio.sleep(_NO_FILES)
                continue
            with suppress(OSError):  # it is gone already
                transport, _ = await loop.connect_accepted_socket(server, accepted)
                loop.call_later(ANSWERED_WITHIN, transport.abort)
                held = {one: None for one in held if not one.is_closing()} | {transport: None}
                if len(held) > SCRAPES:
                    next(iter(held)).abort()
            await asyncio.sleep(_PAUSE)


async def _close_afterwards(request: web.Request, response: web.StreamResponse) -> None:
    response.force_close()
