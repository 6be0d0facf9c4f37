"""The client of a crawl in partitions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from budgetfrontier import Admission, CrawlState, FrontierClosed, FrontierError, LeaseExpired, Outcome, Settings
from budgetfrontier.cluster.asynchronous import AsyncClusterFrontier
from budgetfrontier.cluster.calls import partition_router
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.directory.kafka import Place, place, place_of
from budgetfrontier.cluster.directory.owners import Directory, Owner
from budgetfrontier.core import protocol
from budgetfrontier.errors import WrongAddress
from budgetfrontier.leasing import LeaseQueue
from budgetfrontier.server import frontier_calls
from budgetfrontier.tools.cli import main
from tests.cluster.memory_directory import MemoryDirectory
from tests.cluster.workers import addressed
from tests.support import until


class Hanging(grpc.GenericRpcHandler):  # type: ignore[misc]
    """A worker that answers the first exchange, and then nothing until its end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.ends = threading.Event()
        self.taken: list[str] = []

    def service(self, details: Any) -> Any:
        self.taken.append(details.method.rpartition("/")[2])
        answer = self._connect if details.method == protocol.CONNECT.path else self._hang
        return grpc.unary_unary_rpc_method_handler(answer)

    def _connect(self, body: bytes, context: Any) -> bytes:
        asked = protocol.Connect(protocol.VERSION)
        return protocol.encode(frontier_calls.connected(asked, folder="hangs", settings=self._settings))

    def _hang(self, body: bytes, context: Any) -> bytes:
        self.ends.wait()
        return b""


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Hanging]:
    worker = Hanging(Settings(crawl="test"))
    server = grpc.server(ThreadPoolExecutor(16), handlers=[worker])
    server.add_insecure_port(f"unix:{tmp_path}/hangs")
    server.start()
    yield worker
    worker.ends.set()
    server.stop(None).wait()


class Moving:
    """A directory in which a partition moves from a worker that hangs to another, once that was asked."""

    def __init__(self, hanging: Hanging, address: str, directory: MemoryDirectory) -> None:
        self._hanging, self._address, self._directory = hanging, address, directory

    def publish(self, *owners: Owner) -> None:
        raise AssertionError

    def read(self) -> Mapping[int, Owner]:
        if {*self._hanging.taken} - {"Connect"}:
            return self._directory.read()
        return {0: Owner(0, 0, "w", self._address, 0.0, 1)}

    def suffix_list(self, own: str | None = None) -> str | None:
        raise AssertionError

    def close(self) -> None:
        pass


def test_a_call_to_a_worker_that_hangs_is_made_to_the_next_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hanging: Hanging
) -> None:
    with addressed(tmp_path, monkeypatch, partitions=1, patience=0.2) as cluster:
        monkeypatch.setattr(partition_router, "LOOK_AGAIN", 0.0)

        def moving() -> Directory:
            hanging.taken.clear()
            return Moving(hanging, f"unix:{tmp_path}/hangs", cluster.directory)

        with ClusterFrontier("test", moving()) as frontier:
            assert frontier.connect().schedule_many(["https://a.test/"]).added == 1
        with ClusterFrontier("test", moving()) as frontier:
            [lease] = frontier.lease(2, wait=60.0)
            assert frontier.held == 1 and hanging.taken == ["Connect", "Lease"], "and was given up"

        async def crawl() -> None:
            async with AsyncClusterFrontier("test", moving()) as twin:
                assert (await twin.schedule_many(["https://b.test/"])).added == 1
                leases = await twin.lease(2)
                assert lease.uri.url in {each.uri.url for each in leases}, "closing has given it back"
                await twin.pause(reason="lunch")
                await twin.resume()
                assert await twin.finish_many([*leases, lease]) == [lease]

        asyncio.run(crawl())


class Slow(MemoryDirectory):
    """A directory whose broker answers when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()
        self.looks = 0
        self.most = 0
        self.closed_with = -1
        """Looks that were under way when it was closed."""

    def read(self) -> Mapping[int, Owner]:
        self.looks += 1
        self.most = max(self.most, self.looks)
        self.may_answer.wait()
        self.looks -= 1
        return super().read()

    def close(self) -> None:
        self.closed_with = self.looks


def test_one_thread_looks_at_a_directory_at_a_time_and_it_is_closed_after_that() -> None:
    """Also if the tasks for which it was read are cancelled: readers of Kafka are not for several threads."""
    directory = Slow()

    async def look() -> None:
        frontier = AsyncClusterFrontier("test", directory)
        for _ in range(2):
            tasks = [asyncio.create_task(frontier.owners()) for _ in range(3)]
            while not directory.looks:
                await asyncio.sleep(0.001)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        closing = asyncio.create_task(frontier.close())
        await asyncio.sleep(0.05)
        directory.may_answer.set()
        await closing

    asyncio.run(look())
    assert (directory.most, directory.closed_with) == (1, 0)


def test_a_terminated_crawl_keeps_what_arrives_and_hands_out_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with addressed(tmp_path, monkeypatch) as cluster, ClusterFrontier("test", cluster.directory) as frontier:
        frontier.schedule("https://a.test/1")
        frontier.terminate()
        assert frontier.schedule_many(["https://a.test/1", "https://a.test/2", "https://b.test/1"]).added == 2
        assert frontier.lease(3) == []
        until(lambda: frontier.summary().queued == 3)  # as of the last commits
        assert frontier.state is CrawlState.TERMINATED


def test_the_client_for_asyncio_has_the_methods_of_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def crawl(directory: Directory) -> None:
        frontier = AsyncClusterFrontier("test", directory)
        with pytest.raises(FrontierClosed, match="not connected"):
            _ = frontier.settings
        with pytest.raises(AttributeError, match=r"use `budgetfrontier adjust --cluster kafka://HOST:PORT/CRAWL`"):
            _ = frontier.adjust  # type: ignore[attr-defined]
        async with frontier:
            assert await frontier.schedule("https://a.test/1") is Admission.ADDED
            assert (await frontier.admit_many(["https://a.test/2", "https://b.test/1"], maxsize=2)).added == 1
            assert await frontier.admit_each(["https://b.test/1"], maxsize=2) == [Admission.FULL]
            (lease,) = await frontier.lease(1)
            await frontier.renew(lease, 60.0)
            await frontier.finish(lease, Outcome.DEAD, reason="gone")
            with pytest.raises(LeaseExpired):
                await frontier.finish(lease)
            assert [letter.reason for letter in await frontier.dead_letters()] == ["gone"]
            with pytest.raises(FrontierError, match="schedule their URIs"):
                await frontier.replay()
            assert (await frontier.partitions(), await frontier.limit(), frontier.held) == (2, None, 0)
            assert len(await frontier.owners()) == 2 and (await frontier.router()).partition("https://a.test/") < 2
            await frontier.commit()
        with pytest.raises(FrontierClosed, match="was closed"):
            await frontier.commit()

    with addressed(tmp_path, monkeypatch) as cluster:
        asyncio.run(crawl(cluster.directory))


def test_a_crawl_has_its_name_however_it_is_written() -> None:
    assert place_of("news-1.b_c", "h:1,i:2?x=y") == Place("h:1,i:2", "news-1.b_c", {"x": "y"})
    assert place("kafka://h:1,i:2/n%65ws%2D1.b_c?x=y") == place_of("news-1.b_c", "h:1,i:2?x=y")


@pytest.mark.parametrize("url", ["kafka://h:99999/c", "kafka://h:x/c", "kafka://h:0/c", "kafka://[h/c"])
def test_a_url_whose_brokers_are_none_is_refused_by_clients_and_commands(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(WrongAddress, match=r"give (kafka://)?HOST:PORT"):
        LeaseQueue.connect(url)
    assert main(["report", "--cluster", url]) == 2
    assert "give " in capsys.readouterr().err
