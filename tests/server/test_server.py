"""The server itself: what it takes from anybody, whether it answers, and tokens that change while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.errors import FrontierError, WrongCredentials
from budgetfrontier.leasing import LeaseQueue
from budgetfrontier.remote import RemoteFrontier
from budgetfrontier.server import frontier_service, health, rpc_calls
from budgetfrontier.server.crawls import Crawls
from budgetfrontier.server.frontier_service import FRONTIER
from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as messages
from budgetfrontier.settings import Settings
from tests.server.urlfrontier.service_client import Client, discovered, serving
from tests.support import PATIENCE, free_port, token_file


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with serving(tmp_path / "jobs") as client:
        yield client


def test_compressed_messages_are_refused_before_they_are_expanded(client: Client, tmp_path: Path) -> None:
    item = messages.URLItem(ID="x" * (15 << 20))
    with grpc.insecure_channel(f"unix:{tmp_path / 'jobs'}.socket") as channel:
        put = channel.stream_stream("/urlfrontier.URLFrontier/PutURLs")
        sent = put(iter([item.SerializeToString()]), compression=grpc.Compression.Gzip, timeout=PATIENCE)
        with pytest.raises(grpc.RpcError) as refused:
            list(sent)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert client.put(discovered("http://a.test/")) == [0]


def test_every_one_of_thousands_of_calls_at_once_is_answered(client: Client) -> None:
    """gRPC cancels calls at random once 1,000 wait to be taken, and all at 3,000, unless it is told otherwise."""
    delay = messages.QueueDelayParams(key="k", crawlID="c", delay_requestable=3)
    client.SetDelay(key="k", crawlID="c", delay_requestable=3)
    set_delay: Any = client.rpc("SetDelay")
    sent = [set_delay.future(delay, timeout=PATIENCE) for _ in range(4000)]
    assert {each.code() for each in sent} == {grpc.StatusCode.OK}


def test_a_server_that_cannot_answer_is_never_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a release of grpcio that has renamed what only our calls use."""

    def without(*_: object) -> None:
        raise AttributeError("no attribute '_rpc_event'")

    monkeypatch.setattr(rpc_calls.RpcCall, "__init__", without)
    with (
        pytest.raises(FrontierError, match=r"cannot answer calls with grpcio .*_rpc_event.*install a release"),
        serving(tmp_path / "jobs"),
    ):
        pass
    monkeypatch.undo()
    with serving(tmp_path / "jobs") as client:  # its folder is not locked any more
        assert client.put(discovered("http://a.test/")) == [0]


def test_a_token_is_changed_without_a_restart(tmp_path: Path) -> None:
    token, address = TokenFile(token_file(tmp_path, "the first of them")), f"unix:{tmp_path / 'jobs'}.socket"
    with serving(tmp_path / "jobs", services=(FRONTIER,), token=token):
        RemoteFrontier(address, token="the first of them").close()
        token_file(tmp_path, "the second of them")
        with pytest.raises(WrongCredentials):
            RemoteFrontier(address, token="the first of them")
        RemoteFrontier(address, token="the second of them").close()


@pytest.mark.parametrize("variable", ["http_proxy", "https_proxy", "grpc_proxy"])
def test_our_clients_ask_no_proxy_for_our_servers(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    address = f"127.0.0.1:{free_port()}"
    with serving(tmp_path / "jobs", services=(FRONTIER,), listen=address):
        monkeypatch.setenv(variable, "http://127.0.0.1:9/")  # nobody listens there
        with LeaseQueue.connect(address, crawl="t") as queue:
            assert queue.push("http://a.test/") and health.serves(address)


def test_of_crawls_for_which_nobody_waits_little_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier_service, "MOST_LINES", 3)
    with (
        closing(Crawls(tmp_path, Settings.from_dict({"profile": "served"}))) as crawls,
        closing(frontier_service.FrontierService(crawls)) as service,
    ):
        waits = service._waiting_of(crawls.get("waits"))
        waits.enter(0.0).start(lambda result, error: None)
        for number in range(10):
            service._waiting_of(crawls.get(str(number)))
            service.changed(f"{number} for which nobody has waited")
        assert len(service._waiting) <= 3 and service._waiting["waits"] is waits
