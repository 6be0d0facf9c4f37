"""Downloads that are not taken, and those that wait for them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from budgetfrontier.console import downloads
from budgetfrontier.console.app import Console
from tests.console.conftest import Client, visit
from tests.support import PATIENCE

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
