"""Processes that begin as copies of one that has imported the package, which takes up to a second each time.

Of each program that is begun in this way, one test at least starts it as users do.
"""

from __future__ import annotations

import asyncio
import atexit
import faulthandler
import gc
import importlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO, Self, TextIO

from budgetfrontier.tools.cli import main
from tests.support import PATIENCE

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "tests.engine_process",
        "budgetfrontier.tools.console.scan_process",
        "budgetfrontier.tools.console.steer_process",
        "tests.crawler.process",
        "tests.scrapy.process",
        "tests.remote.worker",
        "budgetfrontier.tools.cli.serve",
        "budgetfrontier.server.server",
        "budgetfrontier.server.urlfrontier.service",
    ]
)


class ForkedProcess:
    """A process that runs a function, with what the tests use of `subprocess.Popen` with pipes of text."""

    def __init__(self, function: Callable[..., object], *arguments: str, log: BinaryIO | None = None) -> None:
        """Begin it; with a `log`, it writes there, and the pipes are closed."""
        read, child_out = CONTEXT.Pipe(duplex=False)
        read_errors, child_errors = CONTEXT.Pipe(duplex=False)
        if log is not None:
            child_out.close()
            child_errors.close()
            child_out, child_errors = Connection(os.dup(log.fileno())), Connection(os.dup(log.fileno()))
        self._process = CONTEXT.Process(
            target=_call, args=(function, arguments, child_out, child_errors, dict(os.environ))
        )
        self._process.start()
        child_out.close()
        child_errors.close()
        self.stdout: TextIO = _file(read, "r")
        self.stderr: TextIO = _file(read_errors, "r")
        if log is not None:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for its end; the context that has begun it kills it before."""
        self._process.join()
        self.close()

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, minus the number of the signal that has ended it, or None."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code, None if it runs."""
        return self._process.exitcode

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait for its end, and return the exit code."""
        self._process.join(timeout)
        code = self._process.exitcode
        assert code is not None, "it has not ended"
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send it SIGTERM, unless it has ended."""
        self.send_signal(signal.SIGTERM)

    def communicate(self, timeout: float = PATIENCE) -> tuple[str, str]:
        """Read both pipes to their ends, close them, and wait for the end of the process."""
        said = ["", ""]
        if not self.stdout.closed:
            pipes = enumerate((self.stdout, self.stderr))
            threads = [Thread(target=_read, args=(pipe, said, place), daemon=True) for place, pipe in pipes]
            for thread in threads:
                thread.start()
            _join(threads, timeout)
            if any(thread.is_alive() for thread in threads):
                self.send_signal(signal.SIGABRT)  # `faulthandler` writes where it hangs
                _join(threads, 10.0)
                raise AssertionError(f"its output has not ended after {timeout:g} s; it: {self.poll()}; {said}")
        self.wait(timeout)
        self.close()
        return said[0], said[1]

    def close(self) -> None:
        """Close the pipes."""
        self.stdout.close()
        self.stderr.close()


def _read(pipe: TextIO, said: list[str], place: int) -> None:
    with suppress(ValueError):  # it was closed, after a hang
        said[place] = pipe.read()


def _join(threads: Sequence[Thread], timeout: float) -> None:
    """Wait for the end of threads, for so long at the most."""
    deadline = time.monotonic() + timeout
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _call(
    function: Callable[..., object],
    arguments: Sequence[str],
    stdout: Connection,
    stderr: Connection,
    environment: dict[str, str],
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(stdout.fileno(), 1)
    os.dup2(stderr.fileno(), 2)
    stdout.close()
    stderr.close()
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    faulthandler.enable(sys.stderr)
    gc.freeze()
    code: Any = 0
    try:
        function(*arguments)
    except SystemExit as ended:
        code = ended.code
    gc.collect()  # an interpreter ends with that, and with what follows; multiprocessing does neither
    atexit._run_exitfuncs()
    sys.exit(code)


class ForkedCommand:
    """The command line, as `subprocess.Popen` runs `python -m budgetfrontier` with pipes of bytes."""

    def __init__(self, command: Sequence[str], **pipes: int) -> None:
        assert command[:3] == [sys.executable, "-m", "budgetfrontier"], command
        self._process = ForkedProcess(_command_line, *command[3:])

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def communicate(self) -> tuple[bytes, bytes]:
        out, errors = self._process.communicate()
        return out.encode(), errors.encode()

    def kill(self) -> None:
        self._process.kill()


def _command_line(*arguments: str) -> None:
    sys.exit(main([*arguments]))


class ForkedProgram:
    """A program of the package, as `asyncio.create_subprocess_exec` returns one, with pipes as stdin and stdout."""

    def __init__(self, process: Any, stdin: asyncio.WriteTransport, *readers: asyncio.StreamReader) -> None:
        self._process = process
        self._readers = readers
        self.stdin = stdin
        self.stdout = readers[0]
        self.stderr = readers[-1]  # stdout, too, of a program whose errors go where those of the tests go

    @classmethod
    async def begin(
        cls,
        function: Callable[..., object],
        arguments: Sequence[str],
        files: Sequence[int],
        *,
        limit: int,
        outputs: int,
    ) -> ForkedProgram:
        """Begin a function with arguments, and with files, which are given to it as descriptors."""
        loop = asyncio.get_running_loop()
        child_in, write = CONTEXT.Pipe(duplex=False)
        pipes = [CONTEXT.Pipe(duplex=False) for _ in range(outputs)]
        ends = [child_in, *(end for _, end in pipes)]
        passed = [Connection(os.dup(fd)) for fd in files]
        process = CONTEXT.Process(target=_run, args=(function, arguments, ends, passed))
        process.start()
        for end in (*ends, *passed):
            end.close()
        stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, _file(write, "wb"))
        readers = [asyncio.StreamReader(limit) for _ in pipes]
        for reader, (read, _) in zip(readers, pipes, strict=True):
            await loop.connect_read_pipe(partial(asyncio.StreamReaderProtocol, reader), _file(read, "rb"))
        return cls(process, stdin, *readers)

    @property
    def returncode(self) -> int | None:
        code: int | None = self._process.exitcode
        return code

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> None:
        self._process.terminate()

    async def wait(self) -> int:
        await asyncio.to_thread(self._process.join)
        return int(self._process.exitcode)

    async def communicate(self) -> list[bytes]:
        said = [await reader.read() for reader in self._readers]
        await self.wait()
        return said


def _file(end: Connection, mode: str) -> Any:
    with end:
        return os.fdopen(os.dup(end.fileno()), mode, buffering=0 if "b" in mode else -1)


def _run(
    function: Callable[..., object], arguments: Sequence[str], ends: Sequence[Connection], files: Sequence[Connection]
) -> None:
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    function(*arguments, *(os.dup(file.fileno()) for file in files))


def _main_of(module: str, path: str, *files: int) -> None:
    importlib.import_module(module).main(Path(path), *files)


async def begin_forked(
    executable: str,
    option: str,
    module: str,
    *arguments: str,
    limit: int = 1 << 16,
    pass_fds: Sequence[int] = (),
    stderr: int | None = None,
    **pipes: int,
) -> ForkedProgram:
    """Begin a program of the console, or the command line, in the place of `asyncio.create_subprocess_exec`."""
    assert (executable, option) == (sys.executable, "-m")
    function: Callable[..., object] = _command_line
    if module != "budgetfrontier":
        path, *others = arguments
        assert others == [*map(str, pass_fds)]
        function, arguments = _main_of, (module, path)
    outputs = 1 if stderr is None else 2
    return await ForkedProgram.begin(function, arguments, pass_fds, limit=limit, outputs=outputs)
