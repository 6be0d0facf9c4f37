"""A socket between client and server that loses what the server says, and cuts connections."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self


class Proxy:
    """The socket `address`, behind which is that of a server. Use it with `with`."""

    def __init__(self, folder: Path, server: str, *, delay: float = 0.0) -> None:
        """Take `delay` for the seconds after which a connection comes through."""
        self._delay = delay
        self._path = folder / "p"
        self.address = f"unix:{self._path}"
        self._server = server.removeprefix("unix:")
        self._listening = socket.socket(socket.AF_UNIX)
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self.deaf = threading.Event()
        """While this is set, nothing that the server says comes through, and nothing more on a connection that lost
        something: the frames after a gap would say what the server did not."""
        self.lost = threading.Event()
        """Set once something was lost."""

    def __enter__(self) -> Self:
        self._listening.bind(str(self._path))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # which ends `accept`
        self._listening.close()
        self.cut()

    def cut(self) -> None:
        """Close all connections."""
        with self._lock:
            connections, self._connections = self._connections, []
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                time.sleep(self._delay)
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                with self._lock:
                    self._connections += [client, server]
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=(one, other, one is server), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, from_server: bool) -> None:
        lost = False
        with suppress(OSError):
            while data := one.recv(1 << 16):
                if from_server and (lost or self.deaf.is_set()):
                    lost = True
                    self.lost.set()
                else:
                    other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)
        one.close()
