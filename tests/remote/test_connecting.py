"""A client that connects before its server is there, and one of another version."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Admission, FrontierError
from budgetfrontier.core import protocol
from budgetfrontier.errors import WrongAddress, WrongCredentials
from budgetfrontier.remote import AsyncRemoteFrontier, RemoteFrontier
from budgetfrontier.remote.calls import Rpc
from tests.remote.proxy import Proxy
from tests.remote.served import Served
from tests.remote.test_synchronous import FromAsync
from tests.support import PATIENCE, make_settings, until


@pytest.mark.parametrize("kind", [RemoteFrontier, FromAsync])
def test_a_client_says_that_it_waits_and_that_the_server_is_there(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    served = Served(tmp_path, make_settings(), monkeypatch)
    found: list[Any] = []

    def connect() -> None:
        with kind(served.address, retry_for=PATIENCE) as remote:
            found.append(remote.schedule("https://a.test/"))

    with caplog.at_level(logging.INFO, "budgetfrontier.client"):
        thread = threading.Thread(target=connect)
        thread.start()
        until(lambda: f"Waiting for the server at {served.address}, {PATIENCE:.0f} s" in caplog.text)
        assert "is there" not in caplog.text
        with served:
            thread.join(PATIENCE)
    assert found == ["ADDED"] and caplog.text.count("Waiting for") == caplog.text.count("is there") == 1


def test_a_connection_over_a_slow_line_has_its_time(served: Served, tmp_path: Path) -> None:
    with (
        Proxy(tmp_path, served.address, delay=1.3) as proxy,
        RemoteFrontier(proxy.address, retry_for=PATIENCE) as remote,
    ):
        assert remote.schedule("https://a.test/") is Admission.ADDED


@pytest.mark.parametrize("kind", [RemoteFrontier, AsyncRemoteFrontier])
def test_what_is_no_token_and_no_certificate_is_refused_before_it_is_sent(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("no certificate")
    for wrong, words in (
        ({"token": " \n"}, "the token is empty; set `token=`"),
        ({"token": "tök"}, "cannot be sent"),
        ({"tls": tmp_path / "no.pem"}, "no.pem: is no file of certificates in PEM form; set `tls=`"),
        ({"tls": tmp_path}, "Is a directory"),
        ({"tls": tmp_path / "none"}, "No such file"),
    ):
        with pytest.raises(WrongCredentials, match=words):
            kind("127.0.0.1:1", **wrong)


@pytest.mark.parametrize("kind", [RemoteFrontier, AsyncRemoteFrontier])
def test_an_address_with_a_crawl_is_answered_with_the_option_for_it(kind: Any) -> None:
    with pytest.raises(WrongAddress, match=r"give '\[::1\]:1', and the crawl as `crawl='news'`"):
        kind("[::1]:1/news")


def test_another_version_of_the_protocol_is_refused(served: Served) -> None:
    def connect() -> Any:
        yield Rpc(protocol.CONNECT, protocol.encode(protocol.Connect(protocol.VERSION + 1)))

    with RemoteFrontier(served.address) as remote, pytest.raises(FrontierError, match="use the same release"):
        remote.transport.run(connect())
