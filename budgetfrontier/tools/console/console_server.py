"""The HTTP server of the console: its address, and its orderly end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from budgetfrontier.core.endpoints.addresses import UNIX, HostPort, check_reach, parsed
from budgetfrontier.core.endpoints.open_files import limit_raised
from budgetfrontier.core.endpoints.sockets import listening
from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.reports.server_log import SERVER_LOG
from budgetfrontier.tools.console.access import Access
from budgetfrontier.tools.console.api.api_routes import is_of_api, problem
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.named_tokens import NamedTokens
from budgetfrontier.tools.console.pages import ConsolePage
from budgetfrontier.tools.console.pages.table import PAGES

DEFAULT = "127.0.0.1:8089"
_FILES = 4096  # connections take descriptors
_BACKLOG = 1024
LONGEST_LINE = 1 << 15
"""Bytes of the target of a request, and of a header: the longest URL, with three bytes for each of its own."""


def serve(
    jobs: Sequence[ConsoleJob],
    *,
    listen: str,
    token_file: Path | None,
    tokens: Path | None = None,
    anybody: bool = False,
    hosts: Sequence[str] = (),
    pages: Sequence[ConsolePage] = PAGES,
    started: Callable[[str], None],
) -> None:
    """Serve `pages` of jobs until SIGINT or SIGTERM; `started` is called with the address.

    Raises FrontierError for an address that cannot be used, and for one that others reach without a token, unless
    `anybody` may.
    """
    where = parsed(listen, any_port=True)
    access = Access(
        None if token_file is None else TokenFile(token_file),
        named=None if tokens is None else NamedTokens(tokens),
        hosts=[*([where.host] if isinstance(where, HostPort) else []), *hosts],
    )
    check_reach(
        where, option="--listen", protected=access.has_token, anybody=anybody, remedy="give --token-file, "
    )  # fmt: skip
    for job in jobs:
        job.sample()  # a job that cannot be read is an error here, and not on a page
    console = Console(jobs, access, pages=pages)
    with limit_raised(_FILES):
        asyncio.run(_serve(console, where, started))


class _ConsoleConnection(web.RequestHandler):
    """A connection. What is no request that can be read is answered as the API is: nobody knows what it was for."""

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Return the answer to a request that could not be read, or not be answered; the connection ends then."""
        answer = super().handle_error(request, status, exc, message)
        if message is None and not is_of_api(request.path):
            return answer
        answer = problem(status, _why(exc) if message is not None else "This is a fault of the console: see its log.")
        answer.force_close()
        return answer


def _why(error: BaseException | None) -> str:
    if isinstance(error, LineTooLong):
        return f"The target of the request, or a header, has more than {LONGEST_LINE:,} bytes."
    return "This is no request of HTTP/1.1 that can be read."


async def _serve(console: Console, where: HostPort | Path, started: Callable[[str], None]) -> None:
    runner = web.AppRunner(console.application(), handle_signals=False, shutdown_timeout=1)
    await runner.setup()
    assert runner.server is not None
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = {"access_log": None, "logger": SERVER_LOG, "keepalive_timeout": 15}
    options |= {"max_line_size": LONGEST_LINE, "max_field_size": LONGEST_LINE}
    connection = partial(_ConsoleConnection, runner.server, loop=loop, **options)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(connection, sock=listening(where, backlog=_BACKLOG), backlog=_BACKLOG)
    try:
        if isinstance(where, Path):
            started(f"{UNIX}{where}")
        else:
            host, port = server.sockets[0].getsockname()[:2]
            started(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
        await stop.wait()
    finally:
        server.close()
        await runner.cleanup()
        if isinstance(where, Path):
            where.unlink(missing_ok=True)
