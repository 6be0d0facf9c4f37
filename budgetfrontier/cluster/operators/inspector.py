"""The process in which a worker looks at its partitions for operators, with one question after the other.

A look may read all queues. In the process of the worker it would keep the frontiers waiting; here it reads their last
commits, at a low priority. Requests and answers are MessagePack, on a connection of `multiprocessing`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final

import msgspec

from budgetfrontier.core import protocol
from budgetfrontier.errors import FrontierError, SettingsError
from budgetfrontier.server.tasks import Done

IDLE: Final = 60.0
"""Seconds without a look after which the process is ended."""


class _InspectionCall(msgspec.Struct, array_like=True):
    frontier: str
    ahead: float
    """Seconds by which the clock of its broker is ahead of this machine's."""
    name: str
    named: dict[str, Any]


class _Answer(msgspec.Struct, array_like=True):
    answer: msgspec.Raw
    error: str = ""
    """The class of the error that it has raised, whose message is the answer."""


_asked: Callable[[bytes], _InspectionCall] = protocol.decoder(_InspectionCall)
_answer: Callable[[bytes], _Answer] = protocol.decoder(_Answer)
_text: Callable[[msgspec.Raw], str] = protocol.decoder(str)


class Inspector:
    """Looks at partitions in a process of its own, which runs as long as there are looks. In any thread."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[bytes, Done] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        """To the process, in the thread."""
        self._closed = False

    def __repr__(self) -> str:
        return f"<Inspector{' closed' if self._closed else ''}>"

    def ask(self, frontier: Path, now: float, name: str, named: dict[str, Any], done: Done) -> None:
        """Look at the frontier in a folder; `done` gets the encoded answer, or the error.

        `now` is the time of its broker, by which ages and waits are said, whatever the clock of this machine says.
        """
        body = protocol.encode(_InspectionCall(str(frontier), now - time.time(), name, named))
        with self._lock:
            if not self._closed:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._main, name="inspector", daemon=True)
                    self._thread.start()
                self._queue.put((body, done))
                return
        done(None, FrontierError("the worker is being stopped"))

    def close(self) -> None:
        """End the process, and the looks that are not answered yet."""
        with self._lock:
            self._closed = True
            self._queue.put(None)
            thread, process = self._thread, self._process
        if process is not None:
            process.kill()
        if thread is not None:
            thread.join()

    def _main(self) -> None:
        while True:
            try:
                asked = self._queue.get(timeout=None if self._process is None else IDLE)
            except Empty:
                self._end()
                continue
            if asked is None:
                self._end()
                return
            body, done = asked
            try:
                connection = self._begun()
                connection.send_bytes(body)
                answer = _answer(connection.recv_bytes())
            except (OSError, EOFError, msgspec.DecodeError) as e:
                self._end()
                done(
                    None,
                    FrontierError(f"the look has ended before its answer ({str(e) or 'it was killed'}); try again"),
                )
            else:
                if answer.error:
                    done(None, _error(answer.error, _text(answer.answer)))
                else:
                    done(bytes(answer.answer), None)

    def _begun(self) -> Connection:
        """Return the connection to the process, begun if need be. Raises OSError."""
        with self._lock:
            if self._closed:
                raise OSError("the worker is being stopped")
            if self._connection is None:
                self._connection, theirs = Pipe()
                with theirs:
                    command = [sys.executable, "-m", "budgetfrontier.cluster.operators.inspector", str(theirs.fileno())]
                    self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
            return self._connection

    def _end(self) -> None:
        with self._lock:
            process, self._process = self._process, None
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if process is not None:
            process.kill()
            process.wait()


def _error(name: str, text: str) -> Exception:
    kind = protocol.ERRORS.get(name, FrontierError)
    return kind(text.split("\n")) if issubclass(kind, SettingsError) else kind(text)


def _looked(asked: _InspectionCall) -> _Answer:
    from budgetfrontier.cluster.operators import inspection
    from budgetfrontier.storage.reader import Reader

    try:
        with Reader(asked.frontier, now=lambda: time.time() + asked.ahead) as reader:
            return _Answer(msgspec.Raw(protocol.encode(inspection.look(reader, asked.name, asked.named))))
    except Exception as e:  # the process outlives any failed request
        kind = next((one.__name__ for one in type(e).__mro__ if protocol.ERRORS.get(one.__name__) is one), "")
        text = str(e) if kind else f"{type(e).__name__}: {e}"
        return _Answer(msgspec.Raw(protocol.encode(text)), kind or FrontierError.__name__)


def main(connection: Connection) -> None:
    """Answer looks until the connection is closed."""
    os.nice(10)
    with suppress(EOFError, ConnectionError):
        while True:
            connection.send_bytes(protocol.encode(_looked(_asked(connection.recv_bytes()))))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the worker, which ends this
    main(Connection(int(sys.argv[1])))
