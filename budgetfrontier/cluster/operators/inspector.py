"""The process in which a worker looks at its partitions for operators, with one question after the other on stdin.

A look may read all queues. In the process of the worker it would keep the frontiers waiting; here it reads their last
commits, at a low priority. Requests and answers are frames on the standard input and output: a length, and MessagePack.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, Final

import msgspec

from budgetfrontier.core import protocol
from budgetfrontier.errors import FrontierError, SettingsError
from budgetfrontier.server.tasks import Done

IDLE: Final = 60.0
"""Seconds without a look after which the process is ended."""
_LENGTH: Final = 8


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
                answer = _exchanged(self._begun(), body)
            except (OSError, msgspec.DecodeError) as e:
                self._end()
                done(None, FrontierError(f"the look has ended before its answer ({e}); try again"))
            else:
                if answer.error:
                    done(None, _error(answer.error, _text(answer.answer)))
                else:
                    done(bytes(answer.answer), None)

    def _begun(self) -> subprocess.Popen[bytes]:
        """Return the process, begun if need be. Raises OSError."""
        with self._lock:
            if self._closed:
                raise OSError("the worker is being stopped")
            if self._process is None:
                command = [sys.executable, "-m", "budgetfrontier.cluster.operators.inspector"]
                self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            return self._process

    def _end(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def _error(name: str, text: str) -> Exception:
    kind = protocol.ERRORS.get(name, FrontierError)
    return kind(text.split("\n")) if issubclass(kind, SettingsError) else kind(text)


def _exchanged(process: subprocess.Popen[bytes], body: bytes) -> _Answer:
    assert process.stdin is not None
    assert process.stdout is not None
    _write(process.stdin, body)
    found = _read(process.stdout)
    if found is None:
        raise OSError(f"its process has ended with code {process.wait()}")
    return _answer(found)


def _write(file: IO[bytes], body: bytes) -> None:
    file.write(len(body).to_bytes(_LENGTH, "big") + body)
    file.flush()


def _read(file: IO[bytes]) -> bytes | None:
    """Return the next frame; None at the end."""
    length = file.read(_LENGTH)
    return file.read(int.from_bytes(length, "big")) if len(length) == _LENGTH else None


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


def main() -> None:
    """Answer looks until the standard input ends."""
    os.nice(10)
    while (body := _read(sys.stdin.buffer)) is not None:
        _write(sys.stdout.buffer, protocol.encode(_looked(_asked(body))))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the worker, which ends this
    main()
