"""The demonstration, as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from budgetfrontier import CrawlState, QueueState
from budgetfrontier.crawler.demo import web
from budgetfrontier.reports.trap_list import suspects
from budgetfrontier.storage.reader import Reader
from tests.crawler.site import reopened
from tests.support import PATIENCE

pytestmark = pytest.mark.waits

COMMAND = [sys.executable, "-c", "import sys; from budgetfrontier.tools.cli import main; sys.exit(main())", "demo"]


def test_demo(tmp_path: Path) -> None:
    job = tmp_path / "job"
    command = [*COMMAND, "--job", str(job)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    said = [line for line in ended.stdout.splitlines() if line.startswith("==> ")]
    assert [line.split()[1] for line in said] == [str(len(web.HOSTS)), "paused:", "adjusted:", "paused:", "the"]
    assert ended.stdout.count("Frontier report - ") == 2
    assert ended.stdout.splitlines()[-4:-2] == [
        f"      budgetfrontier explain {job} calendar.test",
        f"      budgetfrontier audit {job}",
    ]
    with reopened(job) as frontier:
        rows = {row.queue: row for row in frontier.report().queues}
        assert frontier.state is CrawlState.PAUSED
        assert rows.keys() == set(web.HOSTS) and len(rows) >= 40
        retired = {key for key, row in rows.items() if row.state is QueueState.RETIRED}
        assert retired == {web.CALENDAR, web.SHOP}
        assert rows[web.CALENDAR].expenditure > 100 and 40 < rows[web.SHOP].expenditure < 50
        assert all(rows[site].queued == 0 for site in web.SITES)
        assert {frontier.queue(site).failure for site in web.SITES} <= {"", "status 404"}  # type: ignore[union-attr]
        assert rows[web.PRIVATE].expenditure == 0
        assert rows[web.DOWN].errors == 4 and rows[web.BROKEN].queued == 0
        assert [(entry.command, entry.who) for entry in frontier.audit()] == [("adjust", "demo"), ("resume", "crawl")]
    with Reader(job / "frontier") as reader, reader.view() as view:
        found = suspects(view, lambda queue: True, limit=None, now=1_795_000_000.0)
    assert {one.queue: one.evidence[0].code for one in found} == {
        web.CALENDAR: "future-dates",
        web.SHOP: "session-ids",
    }
    again = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert again.returncode == 1 and "holds a crawl already" in again.stderr
