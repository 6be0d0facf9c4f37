"""Crawlers and servers that are killed: what is finished is in the outputs, and nothing is lost."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlState
from budgetfrontier.remote import RemoteFrontier
from tests.crawler.process import forked_main
from tests.crawler.shared.served import Crawler, pages_of, run, served_settings
from tests.crawler.site import Page, Site, linking
from tests.forked import ForkedProcess
from tests.remote.served import Served
from tests.support import PATIENCE, until

PAGES = 40
WEB: dict[str, Page] = {f"{'abcd'[number % 4]}.test/{number}": f"page {number}" for number in range(PAGES)}
FRONT: dict[str, Page] = {"a.test/": linking(*(f"http://{page}" for page in WEB))}
ALL = sorted(f"http://{page}" for page in FRONT | WEB)
SECTIONS: dict[str, Any] = {
    "scope": {"accept": ["all"]},
    "fetch": {"robots": "ignore", "concurrency": 4},
    "output": {"warc": True},
}


@contextmanager
def process_of(*words: object) -> Iterator[ForkedProcess]:
    """Run a command of `budgetfrontier`, which is killed at the end of the block."""
    with Path(os.devnull).open("wb") as log, ForkedProcess(forked_main, *map(str, words), log=log) as process:
        try:
            yield process
        finally:
            process.kill()


def test_what_a_killed_crawler_had_leased_goes_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Site(FRONT | WEB) as site:
        settings = site.settings("http://a.test/", **SECTIONS)
        served = Served(tmp_path / "server", served_settings(settings, lease_ttl=1, hold_queues=False), monkeypatch)
        with served:
            site.bound = 15
            (tmp_path / "crawl.yaml").write_text(json.dumps(settings.to_dict()))
            words = ["crawl", tmp_path / "crawl.yaml", "--job", tmp_path / "job", "--frontier", served.address]
            with process_of(*words) as process:
                until(lambda: site.hits.total() > site.bound, process)
                with RemoteFrontier(served.address, crawl="test") as frontier:
                    until(lambda: frontier.summary().succeeded >= 5, process)
            site.bound = math.inf
            assert run(settings, tmp_path / "b", served.address)[0] == 0
            with RemoteFrontier(served.address, crawl="test") as frontier:
                summary = frontier.summary()
    assert summary.state is CrawlState.FINISHED and summary.succeeded == len(ALL)
    assert sorted(set(pages_of(tmp_path / "job", tmp_path / "b"))) == ALL
    assert len(pages_of(tmp_path / "job")) >= 5


def test_a_server_that_is_killed_and_started_again_is_waited_for(tmp_path: Path) -> None:
    with Site(FRONT | WEB) as site:
        settings = site.settings("http://a.test/", **SECTIONS)
        (tmp_path / "serve.yaml").write_text(json.dumps(served_settings(settings).to_dict()))
        words = ["serve", tmp_path / "jobs", "--config", tmp_path / "serve.yaml", "--listen", f"unix:{tmp_path}/s"]
        with process_of(*words) as server:
            site.bound = 15
            crawler = Crawler(settings, tmp_path / "job", f"unix:{tmp_path}/s")
            until(lambda: site.hits.total() > site.bound, server)
        before = len(pages_of(tmp_path / "job"))
        site.bound = math.inf
        until(lambda: len(pages_of(tmp_path / "job")) > before)  # fetches in flight go on
        assert crawler.is_alive()
        with process_of(*words):
            crawler.join(PATIENCE)
            with RemoteFrontier(f"unix:{tmp_path}/s", crawl="test") as frontier:
                summary = frontier.summary()
    assert crawler.code == 0 and summary.succeeded == len(ALL) and summary.in_process == 0
    assert pages_of(tmp_path / "job") == ALL and set(site.hits.values()) == {1}
