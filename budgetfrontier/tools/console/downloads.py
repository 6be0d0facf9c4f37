"""Downloads: reports that a process of its own makes, and those that the crawl has written."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import BinaryIO

from aiohttp import web

from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.kinds import KINDS, formats
from budgetfrontier.settings.redaction import without_passwords
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.log_files import log_files
from budgetfrontier.tools.console.query import NotThere, ServiceUnavailable

AT_ONCE = 2
"""Reports that are made at a time."""
PATIENCE = 10.0
"""Seconds that a request waits for one of them to end; later it is answered that the console is busy."""
GIVES_WAY = 5.0
"""Seconds that a reader may leave a part of a report untaken while somebody waits for a place; less than PATIENCE."""
STALLED = 20.0
"""Seconds after which a download is ended whose reader takes nothing."""
_CHUNK = 1 << 16
_LONGEST_WORD = 1 << 22  # bytes that are held back for a space to come
_TYPES = {"txt": "text/plain", "json": "application/json", "csv": "text/csv", "html": "text/html"}


class Downloads:
    """The downloads of all jobs."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0
        self._sending: dict[asyncio.Timeout, float] = {}  # the parts of reports that are not taken yet, since when

    async def report(self, job: ConsoleJob, request: web.Request) -> web.StreamResponse:
        """Send a report as of now. Errors are known before the first byte is sent.

        Raises ServiceUnavailable if none of the places becomes free. Slow readers cannot hold them: see GIVES_WAY.
        """
        kind, ending = request.match_info["kind"], request.match_info["ending"]
        format = {ending: format for format, ending in formats(kind).items()}.get(ending)
        if format is None:
            meant = did_you_mean(kind, KINDS) if kind not in KINDS else did_you_mean(ending, formats(kind).values())
            raise NotThere(f"There is no report {kind[:40]!r} as {ending[:20]!r}{meant or '.'}")
        async with self._place():
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "budgetfrontier", "report", str(job.folder), "--kind", kind, "--format", format,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            assert process.stdout is not None and process.stderr is not None
            try:
                first = await process.stdout.read(_CHUNK)
                if not first:
                    raise FrontierError((await process.stderr.read(_CHUNK)).decode("utf-8", "replace").strip())
                response = _download(f"{kind}.{ending}", _TYPES[ending])
                await response.prepare(request)
                masked = _Masked()
                while first:
                    await self._send_of_report(request, response, masked.part(first))
                    first = await process.stdout.read(_CHUNK)
                await self._send_of_report(request, response, masked.rest())
                return response
            finally:
                if process.returncode is None and not process.stdout.at_eof():
                    with suppress(ProcessLookupError):
                        process.kill()
                await asyncio.shield(process.communicate())  # to its end, even if the request is cancelled

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Hold one of the places. Raises ServiceUnavailable if none becomes free."""
        self._waiting += 1
        try:
            if self._places.locked():
                self._hurry()
            async with asyncio.timeout(PATIENCE):
                await self._places.acquire()
        except TimeoutError:
            raise ServiceUnavailable from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._places.release()

    def _hurry(self) -> None:
        """Wait for the readers of parts under way no longer than GIVES_WAY."""
        for limit, since in self._sending.items():
            if not limit.expired():
                limit.reschedule(min(limit.when() or since, since + GIVES_WAY))

    async def _send_of_report(self, request: web.Request, response: web.StreamResponse, part: bytes) -> None:
        """Send a part while holding a place."""
        limit = asyncio.timeout(GIVES_WAY if self._waiting else STALLED)
        self._sending[limit] = asyncio.get_running_loop().time()
        try:
            await _send(request, response, part, limit)
        finally:
            del self._sending[limit]

    @staticmethod
    async def file(job: ConsoleJob, request: web.Request) -> web.StreamResponse:
        """Send a file that the crawl has written."""
        folder, name = job.folder / "reports", request.query.get("name", "")
        if name not in {file.name for file in log_files(folder)}:
            raise NotThere(f"There is no report {name[:200]!r}.")
        fd = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise NotThere(f"There is no report {name[:200]!r}.")
            response = _download(name, _TYPES.get(name.rpartition(".")[2], "application/octet-stream"))
            await response.prepare(request)
            loop, masked = asyncio.get_running_loop(), _Masked()
            while part := await loop.run_in_executor(None, _read, file):
                await _send(request, response, masked.part(part), asyncio.timeout(STALLED))
            await _send(request, response, masked.rest(), asyncio.timeout(STALLED))
        return response


class _Masked:
    """A download without the passwords of its URLs, part by part: a part ends between two words."""

    def __init__(self) -> None:
        self._held = b""

    def part(self, read: bytes) -> bytes:
        """Return what can be sent once these bytes were read; a word of some MiB is held back no longer."""
        held = self._held + read
        end = max(held.rfind(blank) for blank in (b" ", b"\n", b"<")) if len(held) < _LONGEST_WORD else len(held)
        self._held = held[end:] if end > 0 else held
        return _without_passwords(held[:end]) if end > 0 else b""

    def rest(self) -> bytes:
        """Return what is left at the end."""
        return _without_passwords(self._held)


def _without_passwords(part: bytes) -> bytes:
    return without_passwords(part.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


async def _send(request: web.Request, response: web.StreamResponse, part: bytes, limit: asyncio.Timeout) -> None:
    """Send a part that is not empty. Raises ConnectionError, and closes the connection, if it is not taken in time."""
    try:
        async with limit:
            if part:
                await response.write(part)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the download was not taken") from None


def _read(file: BinaryIO) -> bytes:
    return file.read(_CHUNK)


def _download(name: str, kind: str) -> web.StreamResponse:
    """Return a response that a browser saves, or else shows without running anything in it."""
    ascii_name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    headers = {
        "Content-Disposition": f'attachment; filename="{ascii_name}"',
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    }
    response = web.StreamResponse(headers=headers)
    response.content_type = kind
    response.charset = "utf-8"
    return response
