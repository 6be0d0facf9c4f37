"""Our clients on a server with TLS and a token: what they need, and what they say if they lack it."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Admission
from budgetfrontier.errors import WrongCredentials
from budgetfrontier.leasing import LeaseQueue
from budgetfrontier.remote import AsyncRemoteFrontier, RemoteFrontier
from tests.server.urlfrontier.service_client import Process
from tests.support import PATIENCE, token_file, until

MAKE = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2")
NAMES = ("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")


def certificate(folder: Path, name: str, *names: str) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    files = folder / f"{name}.pem", folder / f"{name}.key"
    try:
        command = *MAKE, *(names or NAMES), "-out", str(files[0]), "-keyout", str(files[1])
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return files


def address_of(server: Process) -> str:
    """The address that a server has taken."""
    until(lambda: " at 127.0.0.1:" in server.errors.read_text(), server.popen)
    return server.errors.read_text().split(" at ")[1].split(";")[0]


async def schedule(*args: Any, **options: Any) -> Admission:
    """Schedule a URL by the client for asyncio."""
    async with AsyncRemoteFrontier(*args, **options) as frontier:
        return await frontier.schedule("https://async.test/")


def test_clients_over_tls_with_a_token(tmp_path: Path) -> None:
    (ours, key), (others, _) = certificate(tmp_path, "ours"), certificate(tmp_path, "others")
    token = token_file(tmp_path, "secret of 16 letters")
    options = "--tls", str(ours), str(key), "--token-file", str(token)
    with Process(tmp_path / "jobs", *options, listen="127.0.0.1:0") as server:
        address = address_of(server)
        with RemoteFrontier(address, tls=ours, token="secret of 16 letters") as frontier:
            assert frontier.schedule("https://a.test/") is Admission.ADDED
        assert asyncio.run(schedule(address, tls=str(ours), token="secret of 16 letters")) is Admission.ADDED
        with LeaseQueue.connect(address, tls=ours, token="secret of 16 letters") as queue:
            assert queue.push("https://queue.test/")
            assert queue.pop() is not None
        with pytest.raises(WrongCredentials, match="another token"):
            LeaseQueue.connect(address, tls=ours, token="wrong")
        for tls, words in ((False, "has TLS; set `tls=`"), (others, "not trusted")):
            with pytest.raises(WrongCredentials, match=words):  # at once, as no connection lost is
                RemoteFrontier(address, tls=tls, token="secret of 16 letters", retry_for=PATIENCE)
            with pytest.raises(WrongCredentials, match=words):
                asyncio.run(schedule(address, tls=tls, token="secret of 16 letters", retry_for=PATIENCE))
        assert server.stop() == 0


def test_a_certificate_for_another_name_and_a_server_without_tls(tmp_path: Path) -> None:
    named, key = certificate(tmp_path, "named", "-addext", "subjectAltName=DNS:elsewhere.test")
    for options, words in ((("--tls", str(named), str(key)), "not for the name"), ((), "has no TLS; leave `tls=`")):
        with Process(tmp_path / f"jobs{len(options)}", *options, listen="127.0.0.1:0") as server:
            with pytest.raises(WrongCredentials, match=words):
                RemoteFrontier(address_of(server), tls=named, retry_for=PATIENCE)
            assert server.stop() == 0
