"""A Redis server of our own: on a Unix socket and, if asked, a free port, in a folder, ended with its block."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import free_port, until

PROGRAM = shutil.which("redis-server")
needs_server = pytest.mark.skipif(PROGRAM is None, reason="needs redis-server; .ci/system-packages installs it")


class Redis(NamedTuple):
    """A server that runs."""

    socket: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"


@contextmanager
def started(folder: Path, *options: str, tcp: str | None = None) -> Iterator[Redis]:
    """Start a server that keeps nothing on disk. `tcp`: "port" or "tls-port"."""
    assert PROGRAM
    socket = folder / "s"
    common = ["--port", "0", "--bind", "127.0.0.1", "--unixsocket", str(socket), "--dir", str(folder), "--save", ""]
    port = free_port()
    listening = [f"--{tcp}", str(port)] if tcp else []
    process = subprocess.Popen([PROGRAM, *common, *listening, *options], stdout=subprocess.DEVNULL)
    try:
        until(socket.exists, process)
        yield Redis(socket, port, process)
    finally:
        process.kill()
        process.wait()
