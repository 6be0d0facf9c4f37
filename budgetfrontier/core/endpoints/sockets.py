"""Sockets that are listened on; those with a path are for their owner alone."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from budgetfrontier.core.endpoints.addresses import HostPort
from budgetfrontier.errors import FrontierError

LONGEST_PATH: Final = 107 if sys.platform == "linux" else 103
"""Bytes of the path of a Unix socket."""


def listening(where: HostPort | Path, *, backlog: int) -> socket.socket:
    """Return a socket that listens at an address. Raises FrontierError, with the cause, if it cannot."""
    if isinstance(where, Path):
        made = _bound(where)
        made.listen(backlog)
        return made
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    try:
        return socket.create_server(where, family=family, backlog=backlog)
    except OSError as error:
        raise _impossible(where, os.strerror(error.errno) if error.errno else str(error)) from None


def check_path(path: Path) -> None:
    """Raise FrontierError for a Unix socket's path unless a server can listen there; an unused socket is replaced."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise _impossible(path, f"the path of a socket has up to {LONGEST_PATH} bytes")
    if not path.parent.is_dir():
        raise _impossible(path, f"there is no folder {path.parent}; create it")
    if path.exists() and not path.is_socket():
        raise _impossible(path, f"{path} is no socket; give another path")
    if _is_listened_on(path):
        raise _impossible(path, "another server listens there: end it, or give another path")


@contextmanager
def owner_only() -> Iterator[None]:
    """Give files created within a `with` block, in any thread, to their owner alone."""
    mask = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(mask)


def _bound(path: Path) -> socket.socket:
    """Return a socket at a path. One left there by a dead process is replaced."""
    check_path(path)
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX)
    try:
        with owner_only():
            made.bind(str(path))
    except OSError as error:
        made.close()
        raise _impossible(path, error.strerror or str(error)) from None
    return made


def _is_listened_on(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _impossible(where: HostPort | Path, why: str) -> FrontierError:
    shown = f"unix:{where}" if isinstance(where, Path) else f"{where.host}, port {where.port},"
    return FrontierError(f"{shown} cannot be listened on: {why}")
