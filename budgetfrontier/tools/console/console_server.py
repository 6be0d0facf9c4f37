"""The HTTP server of the console: its address, and its orderly end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from aiohttp import web

from budgetfrontier.core.endpoints.addresses import UNIX, HostPort, check_reach, parsed
from budgetfrontier.core.endpoints.open_files import limit_raised
from budgetfrontier.core.endpoints.sockets import listening
from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.reports.server_log import SERVER_LOG
from budgetfrontier.tools.console.access import Access
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.named_tokens import NamedTokens
from budgetfrontier.tools.console.pages import ConsolePage
from budgetfrontier.tools.console.pages.table import PAGES

DEFAULT = "127.0.0.1:8089"
_FILES = 4096  # connections take descriptors
_BACKLOG = 1024


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


async def _serve(console: Console, where: HostPort | Path, started: Callable[[str], None]) -> None:
    runner = web.AppRunner(
        console.application(), handle_signals=False, access_log=None, logger=SERVER_LOG, keepalive_timeout=15,
        shutdown_timeout=1,
    )  # fmt: skip
    await runner.setup()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    try:
        await web.SockSite(runner, listening(where, backlog=_BACKLOG), backlog=_BACKLOG).start()
        if isinstance(where, Path):
            started(f"{UNIX}{where}")
        else:
            host, port = runner.addresses[0][:2]
            started(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
        await stop.wait()
    finally:
        await runner.cleanup()
        if isinstance(where, Path):
            where.unlink(missing_ok=True)
