"""Processes that share one frontier of `budgetfrontier serve`, some of which are killed."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from budgetfrontier import Frontier, FrontierError
from budgetfrontier.errors import ConnectionLost
from budgetfrontier.leasing import LeaseQueue
from budgetfrontier.remote import RemoteFrontier
from budgetfrontier.tools.cli import main
from tests.crawler.process import forked_main
from tests.forked import ForkedProcess
from tests.remote.worker import main as work
from tests.support import PATIENCE, token_file, until

CONFIG = """
crawl: shared
frontier:
  politeness: {min_delay: 0, delay_factor: 0, per_queue_concurrency: 3}
"""


class Server:
    """A process of `budgetfrontier serve`, which can be killed and started again."""

    def __init__(self, folder: Path, *options: str, config: str = CONFIG) -> None:
        self.folder = folder
        self.address = f"unix:{folder / 's'}"
        (folder / "config.yaml").write_text(config)
        self._command = [
            "serve", str(folder / "jobs"), "--listen", self.address,
            "--config", str(folder / "config.yaml"), *options,
        ]  # fmt: skip
        self.start()

    def start(self) -> None:
        self.process = ForkedProcess(forked_main, *self._command)
        line = self.process.stderr.readline()
        assert "serving" in line, line + self.process.stderr.read()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def stop(self) -> int:
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)
        return self.process.wait()


@contextmanager
def serving(folder: Path, *options: str, config: str = CONFIG) -> Iterator[Server]:
    server = Server(folder, *options, config=config)
    try:
        yield server
        assert server.stop() == 0
    finally:
        server.kill()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as server:
        yield server


def worker(server: Server, name: str) -> ForkedProcess:
    with (server.folder / f"{name}.log").open("ab") as log:
        return ForkedProcess(work, server.address, str(server.folder / name), log=log)


def lines(server: Server, name: str) -> tuple[list[str], list[str]]:
    """The URLs that a worker has leased, and those that it has done."""
    file = server.folder / name
    words = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return [url for word, url in words if word == "leased"], [url for word, url in words if word == "done"]


URLS = [f"https://host{number % 30}.test/{number}" for number in range(600)]


def test_processes_share_a_frontier_and_one_is_killed(server: Server) -> None:
    with RemoteFrontier(server.address) as frontier:
        frontier.schedule_many(URLS)
        victim = worker(server, "victim")
        others = [worker(server, name) for name in "ab"]
        until(lambda: lines(server, "victim")[0])
        victim.kill()
        victim.wait()
        assert [process.wait(PATIENCE) for process in others] == [0, 0]
        total = frontier.summary()
    leased, done = lines(server, "victim")
    was_out = set(leased) - set(done)
    by_all = Counter(leased)
    for name in "ab":
        found, finished = lines(server, name)
        assert found == finished
        by_all.update(found)
    assert set(by_all) == set(URLS), "every URI was handed out"
    assert {url for url, count in by_all.items() if count > 1} <= was_out, "none twice but those that were out"
    assert total.succeeded == 600 and total.in_process == 0 and total.expired <= 7


def test_clients_go_on_when_the_server_is_killed_and_started_again(server: Server) -> None:
    with RemoteFrontier(server.address) as frontier:
        assert frontier.schedule_many(URLS[:300]).added == 300
        workers = [worker(server, name) for name in "ab"]
        until(lambda: lines(server, "a")[1] or lines(server, "b")[1])
        for part in range(3):
            server.kill()
            os.unlink(server.folder / "s") if (server.folder / "s").exists() else None
            server.start()
            assert frontier.schedule_many(URLS[300 + 100 * part : 400 + 100 * part]).full == 0
        assert [process.wait(PATIENCE) for process in workers] == [0, 0]
        total = frontier.summary()
        assert total.succeeded == 600 and total.expenditure == 600 and total.in_process == 0
    done = Counter(lines(server, "a")[1] + lines(server, "b")[1])
    assert set(lines(server, "a")[0] + lines(server, "b")[0]) == set(URLS) and max(done.values()) == 1


def test_what_was_acknowledged_survives_a_kill_of_the_server(server: Server) -> None:
    with RemoteFrontier(server.address) as frontier:
        frontier.schedule_many(URLS[:60])
        leases = frontier.lease(20)
        frontier.finish_many(leases[:10])
        server.kill()
        (server.folder / "s").unlink(missing_ok=True)
        server.start()
        total = frontier.summary()
        assert (total.succeeded, total.in_process, total.queued) == (10, 10, 50)
        assert frontier.finish_many(leases) == leases[:10] and frontier.summary().succeeded == 20


def test_a_server_stops_though_clients_wait_and_closes_its_frontiers(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        frontier = RemoteFrontier(server.address, retry_for=0.0)

        def wait() -> None:
            with suppress(ConnectionLost):
                frontier.lease(wait=PATIENCE)

        thread = threading.Thread(target=wait)
        thread.start()
        assert server.stop() == 0
        thread.join(PATIENCE)
        frontier.close()
        with Frontier.open(tmp_path / "jobs/DEFAULT/frontier") as local:
            assert local.summary().scheduled == 0
        server.start()


def test_a_token_is_needed_and_said(tmp_path: Path) -> None:
    with serving(tmp_path, "--token-file", str(token_file(tmp_path, "secret of 16 letters"))) as server:
        for token in (None, "wrong"):
            with pytest.raises(FrontierError, match="token"):
                RemoteFrontier(server.address, token=token)
        with LeaseQueue.connect(server.address, token="secret of 16 letters") as queue:
            assert queue.push("https://a.test/")


def test_urlfrontiers_calls_of_a_crawl_without_its_urls_are_refused_and_ours_work(server: Server) -> None:
    import grpc

    from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as messages
    from budgetfrontier.server.urlfrontier.methods import METHODS

    with RemoteFrontier(server.address) as frontier, grpc.insecure_channel(server.address) as channel:
        frontier.schedule_many(URLS[:10])
        method = METHODS["GetStats"]
        stats = channel.unary_unary(method.path, method.request.SerializeToString, method.reply.FromString)
        with pytest.raises(grpc.RpcError) as refused:
            stats(messages.QueueWithinCrawlParams(crawlID="DEFAULT"))
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION and "keep_urls" in refused.value.details()
        method = METHODS["DeleteCrawl"]
        delete = channel.unary_unary(method.path, method.request.SerializeToString, method.reply.FromString)
        assert delete(messages.DeleteCrawlMessage(value="DEFAULT")).value == 10


def test_a_wrong_token_names_the_option_of_the_command_and_leaves_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "crawl.yaml").write_text("seeds: [http://a.test/]\nfetch: {user_agent: 'x (+http://x.test/)'}\n")
    (tmp_path / "other").mkdir()
    other = token_file(tmp_path / "other", "another of 16 letters")
    with serving(tmp_path, "--token-file", str(token_file(tmp_path))) as server:
        line = ["crawl", str(tmp_path / "crawl.yaml"), "--job", str(tmp_path / "job"), "--frontier", server.address]
        for given, why in ([], "wants a token"), (["--token-file", str(other)], "has another token"):
            assert main([*line, *given]) == 1
            assert f"{why}; set --token-file to the one in the file that the server has" in capsys.readouterr().err
    assert not (tmp_path / "job").exists()
