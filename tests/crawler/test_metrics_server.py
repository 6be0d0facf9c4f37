"""The metrics of a crawl that runs."""

from __future__ import annotations

import asyncio
import math
import os
import resource
import socket
import sys
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from budgetfrontier import Frontier, FrontierError
from budgetfrontier.reports import metrics
from budgetfrontier.reports.host_allowlist import SCRAPES
from budgetfrontier.reports.metrics_server import MetricsServer
from budgetfrontier.tools.cli import main
from tests.crawler.process import end, started
from tests.crawler.site import Site, linking
from tests.support import PATIENCE, free_port, logged, until


def test_a_process_that_has_the_frontier_open_answers_scrapes(tmp_path: Path) -> None:
    async def scrape() -> str:
        server = MetricsServer("127.0.0.1:0")
        port = server.socket.getsockname()[1]
        async with server.serving(metrics.of_job(tmp_path).answer), aiohttp.ClientSession() as client:
            return await (await client.get(f"http://127.0.0.1:{port}/metrics")).text()

    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule("http://a.test/")
        frontier.commit()
        found = {s.name: s.value for family in parse(asyncio.run(scrape())) for s in family.samples}
    assert found["budgetfrontier_process_alive"] == 1
    assert found["budgetfrontier_urls_queued"] == found["budgetfrontier_urls_enqueued_total"] == 1


async def ask(port: int) -> int:
    async with aiohttp.request("GET", f"http://127.0.0.1:{port}/metrics") as answer:
        return answer.status


@pytest.mark.parametrize(
    "sent", [b"", b"GET /metrics HTTP/1.1\r\nHost: x", b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"]
)
def test_connections_that_ask_for_nothing_take_few_descriptors_and_keep_no_scrape_out(
    tmp_path: Path, sent: bytes
) -> None:
    async def flood() -> int:
        server = MetricsServer("127.0.0.1:0")
        port = server.socket.getsockname()[1]
        async with server.serving(metrics.of_job(tmp_path).answer):
            idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
            for one in idle:
                one.send(sent)
            assert await asyncio.wait_for(ask(port), PATIENCE) == 200
            taken = len(os.listdir("/proc/self/fd")) - len(idle)
            for one in idle:
                one.close()
            return taken

    Frontier.open(tmp_path / "frontier").close()
    before = len(os.listdir("/proc/self/fd"))
    assert asyncio.run(flood()) <= before + SCRAPES + 10  # and those of the event loop, the socket, and the reader


def test_a_flood_of_scrapes_harms_neither_the_crawl_nor_later_scrapes(tmp_path: Path) -> None:
    pages = {"a.test/": linking(*map(str, range(20)))} | {f"a.test/{n}": "x" for n in range(20)}
    port = free_port()

    async def send(sent: bytes) -> bytes:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(sent)
                return await reader.read()
            finally:
                writer.close()
        except ConnectionError:  # closed for a newer one
            return b""

    async def flood() -> tuple[list[bytes], int]:
        idle, asking = [], []
        for _ in range(100):
            idle += [asyncio.create_task(send(sent)) for sent in (b"", b"GET /metrics HTTP/1.1\r\n")]
            asking.append(asyncio.create_task(send(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")))
        async with asyncio.timeout(PATIENCE):
            answers = await asyncio.gather(*asking)
            status = await ask(port)
        for one in idle:
            one.cancel()
        await asyncio.gather(*idle, return_exceptions=True)
        return answers, status

    with Site(pages) as site:
        site.bound = 5
        with started(site, tmp_path, "http://a.test/", options=("--metrics", f"127.0.0.1:{port}")) as process:
            until(lambda: site.hits.total() > site.bound, process)
            answers, status = asyncio.run(flood())
            site.bound = math.inf
            code, _ = end(process)
    assert {answer[:12] for answer in answers} <= {b"HTTP/1.1 200", b""} and any(answers) and status == 200
    assert code == 0 and set(site.hits) == set(pages)


def test_a_crawl_tells_what_its_own_process_takes(tmp_path: Path) -> None:
    async def scrape() -> str:
        async with aiohttp.request("GET", f"http://127.0.0.1:{port}/metrics") as answer:
            return await answer.text()

    port = free_port()
    with Site({"a.test/": "x"}) as site:
        site.bound = 0  # it waits for the page while it is scraped
        with started(site, tmp_path, "http://a.test/", options=("--metrics", f"127.0.0.1:{port}")) as process:
            until(lambda: site.hits.total() > 0, process)
            families = {family.name: family for family in parse(asyncio.run(scrape()))}
            began = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()[19])
    gauges = ("resident_memory_bytes", "virtual_memory_bytes", "open_fds", "max_fds", "start_time_seconds")
    kinds = {"process_cpu_seconds": "counter", **{f"process_{name}": "gauge" for name in gauges}}
    assert {name: families[name].type for name in kinds} == kinds
    assert all(sample.value > 0 for name in kinds for sample in families[name].samples)
    (start,) = families["process_start_time_seconds"].samples
    booted = next(int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if line[:5] == "btime")
    assert start.value == pytest.approx(booted + began / os.sysconf("SC_CLK_TCK"), abs=1)


@pytest.mark.parametrize("sent", [b"", b"GET /metrics", b"GET /metrics HTTP/1.1\r\nHost: x\r\n"])
def test_a_connection_on_which_no_request_comes_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr("budgetfrontier.reports.metrics_server.ANSWERED_WITHIN", 0.01)

    async def wait() -> bytes:
        server = MetricsServer("127.0.0.1:0")
        async with server.serving(metrics.of_job(tmp_path).answer):
            reader, writer = await asyncio.open_connection(*server.socket.getsockname())
            writer.write(sent)
            try:
                return await asyncio.wait_for(reader.read(1), PATIENCE)
            except ConnectionError:
                return b""
            finally:
                writer.close()

    Frontier.open(tmp_path / "frontier").close()
    assert asyncio.run(wait()) == b""


def test_a_process_without_descriptors_answers_when_it_has_some_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("budgetfrontier.reports.metrics_server._NO_FILES", 0.01)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def scrape() -> int:
        server = MetricsServer("127.0.0.1:0")
        port = server.socket.getsockname()[1]
        async with server.serving(metrics.of_job(tmp_path).answer):
            await ask(port)
            one = socket.create_connection(("127.0.0.1", port))
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                await asyncio.sleep(0.1)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            one.close()
            return await asyncio.wait_for(ask(port), PATIENCE)

    Frontier.open(tmp_path / "frontier").close()
    assert asyncio.run(scrape()) == 200
    assert not logged(caplog, "budgetfrontier", "aiohttp", "asyncio")


def test_a_scrape_leaves_no_file_of_the_frontier_open(tmp_path: Path) -> None:
    Frontier.open(tmp_path / "frontier").close()
    assert b"budgetfrontier_urls_queued" in metrics.of_job(tmp_path).answer("")[0]
    descriptors = Path("/proc/self/fd").iterdir()
    assert not [path for path in map(os.path.realpath, descriptors) if str(path).startswith(str(tmp_path.resolve()))]


@pytest.mark.parametrize("path", ["/metrics", "/nowhere"])
def test_a_connection_gets_one_answer(tmp_path: Path, path: str) -> None:
    async def send() -> bytes:
        server = MetricsServer("127.0.0.1:0")
        async with server.serving(metrics.of_job(tmp_path).answer):
            reader, writer = await asyncio.open_connection(*server.socket.getsockname())
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() * 50)
            answer = await asyncio.wait_for(reader.read(99_999), PATIENCE)
            writer.close()
            return answer

    Frontier.open(tmp_path / "frontier").close()
    assert asyncio.run(send()).count(b"HTTP/1.1 ") == 1


def test_what_is_no_request_fills_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def send(garbage: bytes) -> bytes:
        server = MetricsServer("127.0.0.1:0")
        async with server.serving(metrics.of_job(tmp_path).answer):
            reader, writer = await asyncio.open_connection(*server.socket.getsockname())
            writer.write(garbage)
            answer = await asyncio.wait_for(reader.read(), PATIENCE)
            writer.close()
            return answer

    Frontier.open(tmp_path / "frontier").close()
    for garbage in (
        b"\x16\x03\x01\x00\xa5\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET /" + b"x" * 99_999 + b"\r\n\r\n",
    ):
        assert b" 400 " in asyncio.run(send(garbage))
    assert not logged(caplog, "budgetfrontier", "aiohttp", "asyncio")


@pytest.mark.parametrize("listen", ["9464x", "127.0.0.1:", "127.0.0.1:70000"])
def test_an_address_that_is_none_is_refused(listen: str) -> None:
    with pytest.raises(FrontierError, match="give HOST:PORT"):
        MetricsServer(listen)


def test_a_port_in_use_is_an_error_before_the_crawl_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "crawl.yaml"
    config.write_text("crawl: some\nseeds: [http://127.0.0.1:9/]\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["crawl", str(config), "--job", str(tmp_path / "job"), "--metrics", where]) == 1
    assert f"--metrics: {where.replace(':', ', port ')}, cannot be listened on: " in capsys.readouterr().err
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    ("host", "status"), [("evil.test", 421), ("evil.test:9464", 421), ("metrics.example:9464", 200), ("10.0.0.1", 200)]
)
def test_a_scrape_for_a_name_that_is_not_known_is_refused(tmp_path: Path, host: str, status: int) -> None:
    async def scrape() -> tuple[int, str]:
        server = MetricsServer("127.0.0.1:0", names=["metrics.example"])
        address = f"http://127.0.0.1:{server.socket.getsockname()[1]}/metrics"
        async with (
            server.serving(metrics.of_job(tmp_path).answer),
            aiohttp.request("GET", address, headers={"Host": host}) as answer,
        ):
            return answer.status, await answer.text()

    Frontier.open(tmp_path / "frontier").close()
    found, text = asyncio.run(scrape())
    assert found == status
    assert ("--allow-host" in text) is (status == 421) is ("process_alive" not in text)


def test_without_the_extra_it_is_named_before_the_crawl_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "crawl.yaml"
    config.write_text("crawl: some\nseeds: [http://127.0.0.1:9/]\nlimits: {max_time: 1s}\n", encoding="utf-8")
    monkeypatch.delattr("budgetfrontier.reports.metrics")
    for module in ("budgetfrontier.reports.metrics", "budgetfrontier.reports.metrics_server"):
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)  # as if it were not installed
    assert main(["crawl", str(config), "--job", str(tmp_path / "job"), "--metrics", "127.0.0.1:0"]) == 1
    assert """needs the extra "console\"""" in capsys.readouterr().err
    assert not (tmp_path / "job").exists()
