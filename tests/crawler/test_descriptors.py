"""A crawl and the files that its process may open."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
from pathlib import Path

import pytest
from aiohttp import web

from budgetfrontier.crawler.fetch.descriptors import most_fetches, most_idle
from tests.crawler.process import COMMAND, end
from tests.crawler.site import Site, linking
from tests.support import child_process

HOSTS = 150


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "raised", "fetches"),
    [
        (1024, 4096, 32, 1024, 32),
        (1024, 4096, 1000, 2332, 1000),
        (1024, 4096, 10_000, 4096, 1965),
        (1024, 1024, 1000, 1024, 429),
        (256, 256, 32, 256, 32),
        (64, 64, 32, 64, 16),
        (4, 4, 10, 4, 1),
        (1024, -1, 10_000, 20_332, 10_000),
        (-1, -1, 10_000, -1, 10_000),
    ],
)
def test_as_many_fetches_as_files_allow(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, wanted: int, raised: int, fetches: int
) -> None:
    limits = soft, hard
    assert resource.RLIM_INFINITY == -1

    def raise_it(_: int, given: tuple[int, int]) -> None:
        nonlocal limits
        limits = given

    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", raise_it)
    assert most_fetches(wanted) == fetches
    assert limits == (raised, hard)
    assert most_idle(fetches) >= 1
    assert raised == -1 or raised < 100 or fetches + most_idle(fetches) <= raised - 100


def test_a_limit_that_cannot_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int, __: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, -1))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert most_fetches(1000) == 64


def test_a_crawl_that_may_open_few_files_makes_fewer_fetches_at_a_time(tmp_path: Path) -> None:
    class Slow(Site):
        most = 0
        connections: frozenset[asyncio.BaseTransport] = frozenset()

        async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
            known = {*self.connections, request.transport}
            self.connections = frozenset(each for each in known if each is not None and not each.is_closing())
            self.most = max(self.most, len(self.connections))
            return await super()._answer(request)

    hosts = [f"http://h{number}.test/" for number in range(HOSTS)]
    with Slow({"h0.test/": linking(*hosts)} | {f"{host[7:]}": "page" for host in hosts[1:]}) as site:
        config = {
            "seeds": hosts[:1],
            "scope": {"accept": ["all"]},
            "fetch": {"resolve": {"*.test": site.address}, "concurrency": 1000},
            "frontier": {"politeness": {"delay_factor": 0, "min_delay": 0, "max_delay": 0}},
            "output": {"warc": True},
        }
        (tmp_path / "crawl.yaml").write_text(json.dumps(config))
        limited = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); " + COMMAND[2]
        command = [*COMMAND[:2], limited, "crawl", str(tmp_path / "crawl.yaml"), "--job", str(tmp_path / "job")]
        with child_process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            code, said = end(process)
    assert code == 0 and "it fetches 16 pages at a time" in said
    assert set(site.hits.values()) == {1} and len(site.hits) == 2 * HOSTS
    assert 0 < site.most <= 32
    assert "Too many open files" not in (tmp_path / "job/logs/crawl.log").read_text()
