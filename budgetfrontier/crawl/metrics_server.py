"""The server of `crawl --metrics`: the crawl's own metrics for Prometheus, in its event loop."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from budgetfrontier.errors import FrontierError
from budgetfrontier.reports import metrics
from budgetfrontier.reports.known_hosts import REFUSED, KnownHosts
from budgetfrontier.store.reader import Reader

_WRONG_HOST = "This name is not known here: scrape an address, or start the crawl with --allow-host NAME.\n"


class MetricsServer:
    """A socket that is bound at once, and is answered while the crawl runs. Raises FrontierError if it is not free."""

    def __init__(self, listen: str, *, names: Iterable[str] = ()) -> None:
        """Listen; `names` are those under which scrapes may ask for it, besides addresses and this machine's name."""
        host, _, port = listen.rpartition(":")
        if not (port.isascii() and port.isdigit() and int(port) <= 65535):
            raise FrontierError(f"--metrics {listen}: give ADDRESS:PORT, such as 127.0.0.1:9464")
        host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        try:
            self.socket = socket.create_server(
                (host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET
            )
        except OSError as error:
            raise FrontierError(
                f"--metrics {listen}: cannot listen there ({error.strerror or error}); name another port"
            ) from None

        self._hosts = KnownHosts([host, *names])

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    @asynccontextmanager
    async def serving(self, folder: Path) -> AsyncIterator[None]:
        """Answer scrapes with the metrics of the job in a folder. Nothing is done between them."""
        sources = {folder.resolve().name: lambda: Reader(folder / "frontier")}

        async def scrape(request: web.Request) -> web.Response:
            if request.headers.get("Host") not in self._hosts:
                return web.Response(status=REFUSED, text=_WRONG_HOST)
            body, kind = metrics.exposition(sources, request.headers.get("Accept", ""))
            return web.Response(body=body, headers={"Content-Type": kind})

        app = web.Application()
        app.router.add_get("/metrics", scrape)
        runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            await web.SockSite(runner, self.socket).start()
            yield
        finally:
            await runner.cleanup()
