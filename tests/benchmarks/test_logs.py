"""The measurement of questions about a log, at a small size."""

from __future__ import annotations

from pathlib import Path

from benchmarks import logs
from budgetfrontier.reports.crawl_log import entries


def test_the_log_is_one_that_can_be_read(tmp_path: Path) -> None:
    log = logs.Log(tmp_path / "crawl.log")
    log.grow(lines=500)
    found = list(entries(tmp_path / "crawl.log"))
    assert len(found) == log.lines >= 500
    assert found[-1].url.decode() == log.last
    assert {entry.status for entry in found} == set(logs.STATUSES)


def test_each_question_is_asked(tmp_path: Path) -> None:
    found, sizes = logs.run(tmp_path / "job", 200_000)
    assert len(found) == 4 + len(logs.KINDS) and all(cost.processor > 0 for cost in found.values())
    assert sizes["index"] >= 8 * sizes["lines"]
    rows = logs.table(found, sizes).splitlines()
    assert len(rows) == 2 + len(found) and rows[2].startswith("| explain, question 1 |")
