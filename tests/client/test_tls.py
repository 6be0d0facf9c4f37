"""Our clients on a server with TLS and a token: what they need, and what they say if they lack it."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Admission, FrontierError
from budgetfrontier.client import AsyncRemoteFrontier, RemoteFrontier
from budgetfrontier.errors import ConnectionLost
from budgetfrontier.leasing import LeaseQueue
from tests.support import until
from tests.urlfrontier.service_client import Process

MAKE = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2")
NAMES = ("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    files = folder / f"{name}.pem", folder / f"{name}.key"
    try:
        subprocess.run((*MAKE, *NAMES, "-out", files[0], "-keyout", files[1]), check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return files


async def schedule(*args: Any, **options: Any) -> Admission:
    """Schedule a URL by the client for asyncio."""
    async with AsyncRemoteFrontier(*args, **options) as frontier:
        return await frontier.schedule("https://async.test/")


def test_clients_over_tls_with_a_token(tmp_path: Path) -> None:
    (ours, key), (others, _) = certificate(tmp_path, "ours"), certificate(tmp_path, "others")
    token = tmp_path / "token"
    token.write_text("secret\n")
    options = "--tls", str(ours), str(key), "--token-file", str(token)
    with Process(tmp_path / "jobs", *options, listen="127.0.0.1:0") as server:
        until(lambda: " at 127.0.0.1:" in server.errors.read_text(), server.popen)
        address = server.errors.read_text().split(" at ")[1].split(";")[0]
        with RemoteFrontier(address, tls=ours, token="secret") as frontier:
            assert frontier.schedule("https://a.test/") is Admission.ADDED
        assert asyncio.run(schedule(address, tls=str(ours), token="secret")) is Admission.ADDED
        with LeaseQueue.connect(address, tls=ours, token="secret") as queue:
            assert queue.push("https://queue.test/")
            assert queue.pop() is not None
        with pytest.raises(FrontierError, match="wants a token"):
            LeaseQueue.connect(address, tls=ours, token="wrong")
        for tls in (False, others):  # without TLS; with the certificate of another
            with pytest.raises(ConnectionLost, match="has not answered"):
                RemoteFrontier(address, tls=tls, token="secret", retry_for=0.1)
        assert server.stop() == 0
