"""The logs: Heritrix's columns, JSON lines, and nothing that breaks either."""

from __future__ import annotations

import errno
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Settings
from budgetfrontier.core.model import CrawlUri, Lease, Outcome
from budgetfrontier.crawler.cache import Original
from budgetfrontier.crawler.fetch.response import CONNECT_FAILED, ROBOTS_PRECLUDED, FetchResult
from budgetfrontier.crawler.outputs import Outputs, warc
from budgetfrontier.crawler.outputs.logs import crawl_line
from budgetfrontier.errors import in_words

NOW = datetime(2026, 11, 20, 22, 0, 1, 5000, tzinfo=UTC)
STARTED = datetime(2026, 11, 20, 22, 0, 0, 250_000, tzinfo=UTC).timestamp()


def lease(*, attempt: int = 1, source: str | None = None) -> Lease:
    uri = CrawlUri("https://example.org/a", via="https://example.org/", hops="L", source=source)
    return Lease(id=1, queue="example.org", uri=uri, cost=2, expires=0.0, delivery=1, attempt=attempt)


def line(answer: FetchResult, *, of: Lease | None = None, digest: str = "") -> list[str]:
    written = crawl_line(of or lease(), answer, now=NOW, digest=digest, slot=7)
    assert written.endswith("\n") and written.count("\n") == 1
    return written.split()


def test_columns() -> None:
    headers = {"Content-Type": "text/html; charset=utf-8"}
    answer = FetchResult(status=200, headers=headers, raw=b"abc", started=STARTED, seconds=0.5, notes=["lenTrunc"])
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
    fields = line(FetchResult(status=ROBOTS_PRECLUDED, reason="robots"))
    assert fields[1:3] == ["-9998", "-"] and fields[6:] == ["-", "#007", "-", "-", "-", "robots"]


def test_no_header_adds_a_column_or_a_line() -> None:
    answer = FetchResult(status=200, headers={"Content-Type": "a b\r\n\x85\u2028c"}, reason="x y\nz")
    fields = line(answer)
    assert len(fields) == 12 and fields[6] == "-" and fields[11] == "x_y_z"


class Nothing:
    """Memory of a crawl that wrote nothing yet."""

    def original(self, digest: bytes) -> Original | None:
        return None

    def put_original(self, digest: bytes, original: Original) -> None:
        pass


def job(folder: Path, **output: Any) -> Outputs:
    return Outputs(folder, Settings.from_dict({"output": output}), cache=Nothing())


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_page_whose_warc_file_cannot_be_opened_is_in_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(path: Path) -> None:
        raise OSError(code, os.strerror(code), str(path))

    with job(tmp_path, warc=True) as outputs:
        with monkeypatch.context() as patched, pytest.raises(OSError) as failed:
            patched.setattr(warc, "GrowingFile", refuse)
            outputs.write(lease(), FetchResult(status=200, raw=b"abc"), Outcome.SUCCESS, slot=1)
        told = in_words(failed.value)
        assert f".warc.gz.open: {os.strerror(code)}; raise the limit of open files (`ulimit -n`), and try again" in told
        outputs.sync()
        assert not (tmp_path / "logs" / "crawl.log").read_bytes()


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(row) for row in path.read_text().splitlines()]


def test_files(tmp_path: Path) -> None:
    hostile = {"Content-Type": "text/\udcff", "Location": "/\udc80"}
    for _ in range(2):  # a second run appends
        with job(tmp_path, links="jsonl") as outputs:
            outputs.write(
                lease(), FetchResult(status=301, headers=hostile, body=b"xy", raw=b"x"), Outcome.SUCCESS, slot=1
            )
            outputs.write(lease(), FetchResult(status=CONNECT_FAILED), Outcome.RETRY, slot=1)
            outputs.write_links("https://example.org/a", [("https://example.org/b", "E")])
    logs = tmp_path / "logs"
    assert len((logs / "crawl.log").read_text().splitlines()) == 4
    pages = rows(logs / "pages.jsonl")
    assert len(pages) == 2
    assert pages[0]["url"] == "https://example.org/a" and pages[0]["location"] == "/\\udc80" and pages[0]["cost"] == 2
    assert pages[0]["size"] == 2 and pages[0]["digest"] == "sha1:CH3K3DWFFIUYJK5K7V6DWULFAN4FYIDS"
    assert (
        rows(logs / "links.jsonl") == [{"from": "https://example.org/a", "to": "https://example.org/b", "hop": "E"}] * 2
    )


def test_files_that_are_not_wanted_are_not_made(tmp_path: Path) -> None:
    with job(tmp_path, pages="none", statistics=0):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["logs", "crawl.log"]
