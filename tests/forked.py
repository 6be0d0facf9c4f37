"""Processes that begin as copies of one that has imported the package, which takes a fifth of a second each time.

Of each program that is begun in this way, one test at least starts it as users do.
"""

from __future__ import annotations

import asyncio
import importlib
import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["tests.engine_process", "budgetfrontier.tools.console.scan_process", "budgetfrontier.tools.console.steer_process"]
)


class ForkedProgram:
    """A program of the package, as `asyncio.create_subprocess_exec` returns one, with pipes as stdin and stdout."""

    def __init__(self, process: Any, stdin: asyncio.WriteTransport, stdout: asyncio.StreamReader) -> None:
        self._process = process
        self.stdin = stdin
        self.stdout = stdout

    @classmethod
    async def begin(cls, module: str, path: str, files: Sequence[int], *, limit: int) -> ForkedProgram:
        """Begin `main` of a module with a path and files, which are given to it as descriptors."""
        loop = asyncio.get_running_loop()
        child_in, write = CONTEXT.Pipe(duplex=False)
        read, child_out = CONTEXT.Pipe(duplex=False)
        passed = [Connection(os.dup(fd)) for fd in files]
        process = CONTEXT.Process(target=_run, args=(module, path, child_in, child_out, passed))
        process.start()
        for end in (child_in, child_out, *passed):
            end.close()
        reader = asyncio.StreamReader(limit)
        stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, _file(write, "wb"))
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), _file(read, "rb"))
        return cls(process, stdin, reader)

    @property
    def returncode(self) -> int | None:
        code: int | None = self._process.exitcode
        return code

    def kill(self) -> None:
        self._process.kill()

    async def wait(self) -> int:
        await asyncio.to_thread(self._process.join)
        return int(self._process.exitcode)


def _file(end: Connection, mode: str) -> Any:
    with end:
        return os.fdopen(os.dup(end.fileno()), mode, buffering=0)


def _run(module: str, path: str, stdin: Connection, stdout: Connection, files: Sequence[Connection]) -> None:
    os.dup2(stdin.fileno(), 0)
    os.dup2(stdout.fileno(), 1)
    stdin.close()
    stdout.close()
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    importlib.import_module(module).main(Path(path), *(os.dup(file.fileno()) for file in files))


async def begin_forked(
    executable: str,
    option: str,
    module: str,
    path: str,
    *others: str,
    limit: int,
    pass_fds: Sequence[int] = (),
    **pipes: int,
) -> ForkedProgram:
    """Begin a program of the console, in the place of `asyncio.create_subprocess_exec`."""
    assert (executable, option) == (sys.executable, "-m") and [*others] == [*map(str, pass_fds)]
    return await ForkedProgram.begin(module, path, pass_fds, limit=limit)
