"""The server: where it listens, and how long it runs."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from budgetfrontier.console.access import Access, is_loopback, read_token
from budgetfrontier.console.app import Console
from budgetfrontier.console.jobs import Job
from budgetfrontier.console.pages import Page
from budgetfrontier.console.pages.table import PAGES
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.server_log import SERVER_LOG

DEFAULT = "127.0.0.1:8089"
UNIX = "unix:"
_FILES = 4096  # connections take descriptors
_BACKLOG = 1024


def parse_listen(text: str) -> tuple[str, int] | Path:
    """Return the address and port, or the path of a Unix socket, that `--listen` names. Raises FrontierError."""
    if text.startswith(UNIX):
        return Path(text.removeprefix(UNIX))
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise FrontierError(f"--listen {text}: give ADDRESS:PORT, such as {DEFAULT}, or unix:PATH")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def serve(
    jobs: Sequence[Job],
    *,
    listen: str,
    token_file: Path | None,
    hosts: Sequence[str] = (),
    pages: Sequence[Page] = PAGES,
    started: Callable[[str], None],
) -> None:
    """Serve `pages` of jobs until SIGINT or SIGTERM; `started` is called with the address.

    Raises FrontierError for an address that others reach without a token, and OSError for one that cannot be used.
    """
    where = parse_listen(listen)
    token = None if token_file is None else read_token(token_file)
    if not isinstance(where, Path) and not is_loopback(where[0]) and token is None:
        raise FrontierError(
            f"--listen {listen}: others could read this without a token; give --token-file, or listen on 127.0.0.1 or "
            "unix:PATH"
        )
    named = [where[0]] if not isinstance(where, Path) else []
    for job in jobs:
        job.sample()  # what cannot be read is said here, and not on a page
    console = Console(jobs, Access(token, hosts=[*named, *hosts]), pages=pages)
    asyncio.run(_serve(console, where, started))


async def _serve(console: Console, where: tuple[str, int] | Path, started: Callable[[str], None]) -> None:
    _raise_limit()
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
        if isinstance(where, Path):
            site: web.BaseSite = web.SockSite(runner, _unix_socket(where), backlog=_BACKLOG)
            await site.start()
            started(f"unix:{where}")
        else:
            site = web.TCPSite(runner, *where, backlog=_BACKLOG)
            await site.start()
            host, port = runner.addresses[0][:2]
            started(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
        await stop.wait()
    finally:
        await runner.cleanup()
        if isinstance(where, Path):
            where.unlink(missing_ok=True)


def _unix_socket(path: Path) -> socket.socket:
    """Return a socket at a path, for its owner only. One that a dead console has left there is replaced."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
            else:
                raise FrontierError(f"{path}: a console listens there already")
    made = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        made.bind(str(path))
    except OSError as error:
        made.close()
        error.filename = str(path)
        raise
    finally:
        os.umask(mask)
    return made


def _raise_limit() -> None:
    """Allow as many open files as connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
