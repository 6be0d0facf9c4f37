"""A Redis server of our own: on a Unix socket and, if asked, a free port, in a folder, ended with its block."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from socket import create_server
from typing import NamedTuple

import pytest

from tests.support import until

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


def _is_up_or_over(socket: Path, process: subprocess.Popen[bytes]) -> bool:
    return socket.exists() or process.poll() is not None


@contextmanager
def started(folder: Path, *options: str, tcp: str | None = None) -> Iterator[Redis]:
    """Start a server that keeps nothing on disk. `tcp`: "port" or "tls-port"."""
    assert PROGRAM
    socket = folder / "s"
    common = ["--port", "0", "--bind", "127.0.0.1", "--unixsocket", str(socket), "--dir", str(folder), "--save", ""]
    while True:
        with create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        listening = [f"--{tcp}", str(port)] if tcp else []
        process = subprocess.Popen([PROGRAM, *common, *listening, *options], stdout=subprocess.DEVNULL)
        until(partial(_is_up_or_over, socket, process))
        if process.poll() is None:
            break
        assert tcp, "redis-server does not start"  # with one, another process may have taken the port meanwhile
    try:
        yield Redis(socket, port, process)
    finally:
        process.kill()
        process.wait()
