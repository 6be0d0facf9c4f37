"""The report: a frontier as plain data, from its last commit."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from budgetfrontier import Report
from budgetfrontier.core.model import ROW_FIELDS
from budgetfrontier.storage.last_commit import LastCommit
from budgetfrontier.storage.report import report, report_head, status_line


def test_it_is_json_with_a_row_for_each_queue(path: Path) -> None:
    data = json.loads(json.dumps(Report.read(path).to_dict()))
    assert list(data) == [
        "format",
        "crawl",
        "generated",
        "state",
        "pause_reason",
        "process",
        "verdict",
        "removed_bytes",
        "bloom",
        "totals",
        "groups",
        "queues",
    ]
    assert all(list(row) == list(ROW_FIELDS) for row in data["queues"])
    assert {row["state"] for row in data["queues"]} == {
        name for name, count in data["totals"]["queues"].items() if count
    }


def test_its_head_is_the_report_without_rows(path: Path) -> None:
    with closing(LastCommit(path)) as last, last.view() as view:
        whole, head = report(view, path, generated=5.0), report_head(view, path, generated=5.0)
    assert whole.queues and not head.queues
    whole.queues.clear()
    assert head == whole


def test_the_status_line_counts_the_queues_by_state(path: Path) -> None:
    totals = Report.read(path).totals
    line = status_line(totals)
    assert line.startswith(f"{totals.state} - {sum(totals.queues.values())} URI queues: ")
    for state, count in totals.queues.items():
        assert f"{count} {state.lower().replace('_', '-')}" in line
