"""Every command of the page "Import a crawl from another crawler" is run as printed, on files of those crawlers."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from budgetfrontier import Frontier
from budgetfrontier.tools.cli import main
from tests.docs.test_examples import ROOT, blocks
from tests.tools.importers.redis.server import needs_server, started

PAGE = ROOT / "docs/howto/migrate.md"
REDIS = "redis://queue.example.org"
LOG = "2026-11-21 00:00:00 [scrapy.core.engine] DEBUG: Crawled (200) <GET http://c.test/1> (referer: None)\n"


def commands() -> Iterator[str]:
    """The commands of the page for files, in order, but for those with a name to be filled in."""
    for block in blocks(PAGE):
        if block.language == "sh" and REDIS not in block.text:
            yield from block.text.splitlines()
    for found in re.findall(r"`(budgetfrontier [^`]+)`", PAGE.read_text(encoding="utf-8").replace("\n", " ")):
        if not re.search(r"\b[A-Z]{3,}\b", found):
            yield found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all that the page speaks of."""
    monkeypatch.chdir(tmp_path)
    for job in ("news", "other"):
        Frontier.open(tmp_path / job / "frontier").close()
    journal = tmp_path / "old-job/logs/frontier.recover.gz"
    journal.parent.mkdir(parents=True)
    journal.write_bytes(gzip.compress(b"F+ http://b.test/ L http://a.test/\nFs http://a.test/\n"))
    shutil.copy(ROOT / "tests/data/heritrix/focused/crawler-beans.cxml", tmp_path / "old-job")
    with tarfile.open(ROOT / "tests/data/peers.tar.xz") as samples:
        samples.extractall(tmp_path, filter="data")
    shutil.copytree(tmp_path / "peers/scrapy/2.19.0/PickleLifoDiskQueue", tmp_path / "crawls/news-1")
    dead = {"id": "1", "request": {"request": {"url": "http://dead.test/"}}, "reason": "failed"}
    (tmp_path / "frontier").mkdir()
    (tmp_path / "frontier/dead_letters.json").write_text(json.dumps([dead]))
    (tmp_path / "spider.log").write_text(LOG)
    (tmp_path / "fetched.txt").write_text("http://d.test/\n")
    return tmp_path


def test_every_command_works_as_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = []
    for command in commands():
        if command.startswith("budgetfrontier "):
            assert main(shlex.split(command)[1:]) == 0, (command, capsys.readouterr())
        else:
            subprocess.run(["bash", "-ec", command], check=True, cwd=folder)
        run.append(command)
    assert len(run) >= 9 and any(command.startswith("grep") for command in run)
    assert (folder / "fetched.txt").read_text() == "http://c.test/1\n"
    with Frontier.open(folder / "other/frontier") as other, Frontier.open(folder / "news/frontier") as news:
        assert 6 <= other.summary().queued < news.summary().queued  # dead letters were imported after the export


@needs_server
def test_every_command_for_redis_works_as_printed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line for block in blocks(PAGE) if REDIS in block.text for line in block.text.splitlines()]
    assert len(lines) == 4
    with started(tmp_path) as server, redis.Redis(unix_socket_path=str(server.socket)) as client:
        client.lpush("shop:requests", json.dumps({"url": "http://shop.test/", "headers": {}, "dont_filter": False}))
        client.sadd("fetched", "http://shop.test/done")
        for line in lines:
            assert main(shlex.split(line.replace(REDIS, server.url))[1:]) == 0, (line, capsys.readouterr())
    assert "marked as seen 1" in capsys.readouterr().out
