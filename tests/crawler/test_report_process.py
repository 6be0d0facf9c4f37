"""The process that writes the reports of a running crawl."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from budgetfrontier import Frontier
from budgetfrontier.crawler.report_process import write_reports


def test_one_that_is_cancelled_as_its_process_ends_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    communicate = Process.communicate

    async def cancelled_at_its_end(process: Process) -> None:
        await communicate(process)
        raise asyncio.CancelledError

    Frontier.open(tmp_path / "frontier").close()
    monkeypatch.setattr(Process, "communicate", cancelled_at_its_end)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(write_reports(tmp_path / "frontier", tmp_path / "reports"))
    assert list((tmp_path / "reports").iterdir())
