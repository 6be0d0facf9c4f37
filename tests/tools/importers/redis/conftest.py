"""An empty Redis server, and a job to import into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis

from budgetfrontier import CrawlUri, Frontier
from budgetfrontier.storage.reader import Reader
from budgetfrontier.tools.cli import main
from tests.tools.importers.redis.server import Redis, started


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """A server for all tests of this process."""
    with started(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def client(server: Redis) -> Iterator[Any]:
    """A client of the server, which is empty."""
    with redis.Redis(unix_socket_path=str(server.socket)) as client:
        client.flushall()
        yield client


@dataclass
class Job:
    """A job, and what importing into it came to."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    code: int = 0
    out: str = ""
    err: str = ""

    def import_(self, *arguments: object) -> Job:
        """Run the command, and return this job."""
        self.capsys.readouterr()
        self.code = main(["import", str(self.folder), *map(str, arguments)])
        self.out, self.err = self.capsys.readouterr()
        return self

    def pending(self) -> list[CrawlUri]:
        """The URIs of all queues, each in its order, and then those for later."""
        with Reader(self.folder / "frontier") as reader:
            queues = [item.uri for queue in reader.queues() for item in reader.each_pending(queue.queue)]
            return queues + [msgspec.structs.replace(item.uri, not_before=item.when) for item in reader.each_future()]

    def urls(self) -> list[str]:
        """Their URLs."""
        return [uri.url for uri in self.pending()]


@pytest.fixture
def job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Job:
    """An empty job."""
    Frontier.open(tmp_path / "job" / "frontier").close()
    return Job(tmp_path / "job", capsys)
