"""The logs: Heritrix's columns, JSON lines, and nothing that breaks either."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from budgetfrontier.crawl.fetch.answer import CONNECT_FAILED, ROBOTS_PRECLUDED, Answer
from budgetfrontier.crawl.outputs.logs import Logs, crawl_line
from budgetfrontier.model import CrawlUri, Lease, Outcome
from budgetfrontier.settings.schema import OutputSettings

NOW = datetime(2026, 11, 20, 22, 0, 1, 5000, tzinfo=UTC)
STARTED = datetime(2026, 11, 20, 22, 0, 0, 250_000, tzinfo=UTC).timestamp()


def lease(*, attempt: int = 1, source: str | None = None) -> Lease:
    uri = CrawlUri("https://example.org/a", via="https://example.org/", hops="L", source=source)
    return Lease(id=1, queue="example.org", uri=uri, cost=2, expires=0.0, delivery=1, attempt=attempt)


def line(answer: Answer, *, of: Lease | None = None, digest: str = "") -> list[str]:
    written = crawl_line(of or lease(), answer, now=NOW, digest=digest, slot=7)
    assert written.endswith("\n") and written.count("\n") == 1
    return written.split()


def test_columns() -> None:
    headers = {"Content-Type": "text/html; charset=utf-8"}
    answer = Answer(status=200, headers=headers, body=b"abc", started=STARTED, seconds=0.5, notes=["lenTrunc"])
    assert line(answer, of=lease(attempt=2, source="list one"), digest="sha1:X") == [
        "2026-11-20T22:00:01.005Z",
        "200",
        "3",
        "https://example.org/a",
        "L",
        "https://example.org/",
        "text/html",
        "#007",
        "20261120220000250+500",
        "sha1:X",
        "list_one",
        "2t,lenTrunc",
    ]


def test_what_was_not_fetched_has_dashes() -> None:
    fields = line(Answer(status=ROBOTS_PRECLUDED, reason="robots"))
    assert fields[1:3] == ["-9998", "-"] and fields[6:] == ["-", "#007", "-", "-", "-", "robots"]


def test_no_header_adds_a_column_or_a_line() -> None:
    answer = Answer(status=200, headers={"Content-Type": "a b\r\n\x85\u2028c"}, reason="x y\nz")
    fields = line(answer)
    assert len(fields) == 12 and fields[6] == "a_b_c" and fields[11] == "x_y_z"


def test_files(tmp_path: Path) -> None:
    settings = OutputSettings(links="jsonl")
    hostile = {"Content-Type": "text/\udcff", "Location": "/\udc80"}
    for _ in range(2):  # a second run appends
        with Logs(tmp_path / "logs", settings) as logs:
            logs.write(lease(), Answer(status=301, headers=hostile, body=b"x"), Outcome.SUCCESS, slot=1)
            logs.write(lease(), Answer(status=CONNECT_FAILED), Outcome.RETRY, slot=1)
            logs.write_links("https://example.org/a", [("https://example.org/b", "E")])
    assert len((tmp_path / "logs/crawl.log").read_text().splitlines()) == 4
    rows = [json.loads(row) for row in (tmp_path / "logs/pages.jsonl").read_text().splitlines()]
    assert len(rows) == 2
    assert rows[0]["url"] == "https://example.org/a" and rows[0]["location"] == "/\\udc80" and rows[0]["cost"] == 2
    assert rows[0]["digest"] == "sha1:CH3K3DWFFIUYJK5K7V6DWULFAN4FYIDS"
    links = [json.loads(row) for row in (tmp_path / "logs/links.jsonl").read_text().splitlines()]
    assert links == [{"from": "https://example.org/a", "to": "https://example.org/b", "hop": "E"}] * 2


def test_files_that_are_not_wanted_are_not_made(tmp_path: Path) -> None:
    with Logs(tmp_path, OutputSettings(pages="none")):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["crawl.log"]
