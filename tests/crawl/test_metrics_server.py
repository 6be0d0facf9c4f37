"""The metrics of a crawl that runs."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from budgetfrontier import Frontier, FrontierError
from budgetfrontier.cli import main
from budgetfrontier.crawl.metrics_server import MetricsServer


def test_a_process_that_has_the_frontier_open_answers_scrapes(tmp_path: Path) -> None:
    async def scrape() -> str:
        server = MetricsServer("127.0.0.1:0")
        port = server.socket.getsockname()[1]
        async with server.serving(tmp_path), aiohttp.ClientSession() as client:
            return await (await client.get(f"http://127.0.0.1:{port}/metrics")).text()

    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule("http://a.test/")
        frontier.commit()
        found = {s.name: s.value for family in parse(asyncio.run(scrape())) for s in family.samples}
    assert found["budgetfrontier_process_alive"] == 1
    assert found["budgetfrontier_urls_queued"] == found["budgetfrontier_urls_enqueued_total"] == 1


@pytest.mark.parametrize("listen", ["9464x", "127.0.0.1:", "127.0.0.1:70000"])
def test_an_address_that_is_none_is_refused(listen: str) -> None:
    with pytest.raises(FrontierError, match="give ADDRESS:PORT"):
        MetricsServer(listen)


def test_a_port_in_use_is_an_error_before_the_crawl_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "crawl.yaml"
    config.write_text("crawl: some\nseeds: [http://127.0.0.1:9/]\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["crawl", str(config), "--job", str(tmp_path / "job"), "--metrics", where]) == 1
    assert f"--metrics {where}: cannot listen there" in capsys.readouterr().err
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    ("host", "status"), [("evil.test", 421), ("evil.test:9464", 421), ("metrics.example:9464", 200), ("10.0.0.1", 200)]
)
def test_a_scrape_for_a_name_that_is_not_known_is_refused(tmp_path: Path, host: str, status: int) -> None:
    async def scrape() -> tuple[int, str]:
        server = MetricsServer("127.0.0.1:0", names=["metrics.example"])
        address = f"http://127.0.0.1:{server.socket.getsockname()[1]}/metrics"
        async with server.serving(tmp_path), aiohttp.request("GET", address, headers={"Host": host}) as answer:
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
    for module in ("budgetfrontier.reports.metrics", "budgetfrontier.crawl.metrics_server"):
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)  # as if it were not installed
    assert main(["crawl", str(config), "--job", str(tmp_path / "job"), "--metrics", "127.0.0.1:0"]) == 1
    assert """needs the extra "console\"""" in capsys.readouterr().err
    assert not (tmp_path / "job").exists()
