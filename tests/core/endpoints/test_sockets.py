"""Sockets with a path: who can open them, and which are replaced."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from budgetfrontier.core.endpoints.addresses import HostPort
from budgetfrontier.core.endpoints.sockets import listening
from budgetfrontier.errors import FrontierError
from tests.server.urlfrontier.service_client import serving


@pytest.fixture(autouse=True)
def permissive() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_socket_is_its_owners(tmp_path: Path) -> None:
    with closing(listening(tmp_path / "s", backlog=1)):
        assert mode(tmp_path / "s") == 0o600
    (tmp_path / "file").touch()
    assert mode(tmp_path / "file") == 0o666, "the mask is what it was before"


def test_the_socket_of_a_server_is_its_owners(tmp_path: Path) -> None:
    with serving(tmp_path / "jobs"):
        assert mode(tmp_path / "jobs.socket") == 0o600


def test_what_a_dead_process_has_left_is_replaced(tmp_path: Path) -> None:
    listening(tmp_path / "s", backlog=1).close()
    with closing(listening(tmp_path / "s", backlog=1)), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "s"))
        with pytest.raises(FrontierError, match="another server listens there"):
            listening(tmp_path / "s", backlog=1)


def test_what_cannot_be_listened_on(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, why in (
        (Path("/no/such/socket"), "there is no folder /no/such"),
        (Path("/", "x" * 120), "bytes"),
        (tmp_path / "file", "is no socket"),
    ):
        with pytest.raises(FrontierError, match=why):
            listening(path, backlog=1)
    with (
        closing(listening(HostPort("127.0.0.1", 0), backlog=1)) as used,
        pytest.raises(FrontierError, match="in use"),
    ):
        listening(HostPort("127.0.0.1", used.getsockname()[1]), backlog=1)
