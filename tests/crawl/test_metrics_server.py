"""The metrics of a crawl that runs."""

from __future__ import annotations

import asyncio
import socket
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
