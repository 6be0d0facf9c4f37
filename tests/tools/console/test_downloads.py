"""Downloads that are not taken, and those that wait for them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.tools.console import downloads
from budgetfrontier.tools.console.app import Console
from tests.support import PATIENCE
from tests.tools.console.conftest import Client, visit

BIG = 1 << 26  # more than sockets buffer


def test_who_takes_nothing_is_cut_off(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "STALLED", 0.05)
    (job / "reports").mkdir(exist_ok=True)
    with open(job / "reports" / "frontier.txt", "wb") as file:
        file.truncate(BIG)

    async def act(client: Client, console: Console) -> None:
        url, server = client.make_url("/reports/file?name=frontier.txt"), client.server
        _, writer = await asyncio.open_connection(url.host, url.port, limit=1024)  # which reads no more than that
        writer.write(f"GET {url.path_qs} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE):
            for there in (True, False):
                while bool(server.handler.connections) is not there:
                    await asyncio.sleep(0.01)
        writer.close()

    visit(job, act)


@pytest.fixture
def long_report(tmp_path: Path) -> Path:
    """A job whose frontier report as JSON has more than sockets buffer."""
    settings = Settings.from_dict({})
    with Frontier.open(tmp_path / "long" / "frontier", settings) as frontier:
        frontier.schedule_many(f"http://h{n}.test/{'x' * 2000}" for n in range(8000))
    return tmp_path / "long"


def test_slow_readers_of_reports_give_way_to_others(long_report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("PATIENCE", PATIENCE), ("STALLED", PATIENCE), ("GIVES_WAY", 0.01)):
        monkeypatch.setattr(downloads, name, seconds)

    async def trickle(client: Client) -> None:
        """Take a byte at a time until the connection is closed."""
        url = client.make_url("/reports/frontier.json")
        reader, writer = await asyncio.open_connection(url.host, url.port, limit=1024)
        writer.write(f"GET {url.path_qs} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        try:
            while await reader.read(1):
                await asyncio.sleep(0.01)
        finally:
            writer.close()

    async def act(client: Client, console: Console) -> list[int]:
        slow = [asyncio.create_task(trickle(client)) for _ in range(downloads.AT_ONCE)]
        async with asyncio.timeout(PATIENCE):
            while len(console.downloads._sending) < downloads.AT_ONCE:
                await asyncio.sleep(0.01)
        served = (await client.get("/reports/threads.txt")).status
        for one in slow:
            one.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        return [served, (await client.get("/reports/threads.txt")).status]

    assert visit(long_report, act) == [200, 200]


def test_a_process_that_has_made_its_report_is_not_killed(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, killed = asyncio.create_subprocess_exec, list[int]()
    program = "import os, time; os.write(1, b'a report'); os.close(1); time.sleep(0.2)"

    async def lingering(*words: str, **options: Any) -> asyncio.subprocess.Process:
        return await begin(sys.executable, "-c", program, **options)

    async def act(client: Client, console: Console) -> bytes:
        return await (await client.get("/reports/frontier.json")).read()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", lingering)
    monkeypatch.setattr(asyncio.subprocess.Process, "kill", lambda process: killed.append(process.pid))
    assert visit(job, act) == b"a report" and not killed


def test_a_report_whose_turn_does_not_come_is_answered(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "PATIENCE", 0.01)

    async def act(client: Client, console: Console) -> list[int]:
        places = console.downloads._places
        for _ in range(downloads.AT_ONCE):
            await places.acquire()
        refused = (await client.get("/reports/frontier.json")).status
        for _ in range(downloads.AT_ONCE):
            places.release()
        return [refused, *[(await client.get("/reports/frontier.json")).status for _ in range(downloads.AT_ONCE + 1)]]

    assert visit(job, act) == [503, 200, 200, 200]
