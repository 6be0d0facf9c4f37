"""crawl.log, read back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Directive, Lease
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.outputs.logs import crawl_line
from budgetfrontier.reports.crawl_log import entries, first_time, last_with, statuses

START = datetime(2026, 11, 22, tzinfo=UTC)


def write(path: Path, *attempts: tuple[CrawlUri, int]) -> Path:
    """A log with a line each second."""
    lines = (
        crawl_line(
            Lease(number, "q", uri, 1, 0.0, 1),
            FetchResult(status=status, reason="because", seconds=0.1 if status > 0 else None),
            now=START + timedelta(seconds=number),
            digest="",
            slot=1,
        )
        for number, (uri, status) in enumerate(attempts)
    )
    path.write_text("".join(lines))
    return path


def urls(path: Path, status: int | str, since: str = "") -> list[str]:
    return [line.uri.url for line in last_with(path, statuses(str(status)), since=since)]


@pytest.mark.parametrize(
    "status, found", [("200", "b"), ("404", "c"), ("4xx", "cd"), ("5XX", "e"), ("-2", "f"), ("-9998", ""), ("2xx", "b")]
)
def test_uris_are_found_by_any_status_and_by_classes(tmp_path: Path, status: str, found: str) -> None:
    a, b, c, d, e, f = (CrawlUri(f"http://a.test/{name}", hops="L") for name in "abcdef")
    log = write(
        tmp_path / "crawl.log",
        (a, -5000),
        (b, 503),
        (b, 200),
        (c, 404),
        (d, 410),
        (e, 404),
        (e, 503),
        (f, -2),
        (a, 301),
    )
    assert urls(log, status) == [f"http://a.test/{name}" for name in found]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "5x",
        "xxx",
        "40",
        "0xx",
        "5000",
        "6xx",
        "9XX",
        "-99999",
        "-",
        "-0",
        "--5",
        "-5xx",
        "4.4",
        "\u0664\u0660\u0664",
    ],
)
def test_what_is_no_status_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a class, 1xx to 5xx"):
        statuses(text)


def test_the_last_line_of_a_uri_counts_once(tmp_path: Path) -> None:
    a, b, c = (CrawlUri(f"http://a.test/{name}", hops="L", via="http://a.test/") for name in "abc")
    log = write(tmp_path / "crawl.log", (a, -5000), (b, -5000), (a, -5000), (b, 200), (c, -9998), (c, 404))
    assert urls(log, -5000) == [a.url] and urls(log, -9998) == []
    assert urls(log, -5000, since="2026-11-22T00:00:02.000Z") == []
    assert urls(log, -5000, since="2026-11-22T00:00:01.999Z") == [a.url]


def test_what_the_frontier_needs_is_read_back(tmp_path: Path) -> None:
    found = CrawlUri(
        "http://a.test/?q=%20", hops="LR", via="http://a.test/,x", source="mine", meta={"seed": "http://s/,"}
    )
    seed, robots = CrawlUri("http://b.test/"), CrawlUri("http://b.test/robots.txt", hops="P")
    log = write(tmp_path / "crawl.log", (found, -5000), (seed, -5000), (robots, -5000))
    with log.open("a") as file:
        file.write("2026-11-22T00:01:00.000Z -5000          - http://a.test/half L http://a")
    first, second = (line.uri for line in last_with(log, "-5000"))
    assert (first.url, first.hops, first.via, first.source, first.meta) == (
        (found.url, found.hops, found.via, found.source, found.meta)
    )
    assert (first.force, first.directive, second.hops, second.directive) == (
        True,
        Directive.NORMAL,
        "",
        Directive.MEDIUM,
    )


def a_line(second: int, url: str = "https://a.test/", status: int = 200) -> str:
    return f"2026-11-20T22:{second // 60:02d}:{second % 60:02d}.000Z {status:5d} 12 {url} - - text/html #001 - - - -\n"


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_entries_from_a_time_on_are_found_by_bisection(tmp_path: Path, count: int) -> None:
    log = tmp_path / "crawl.log"
    log.write_text("".join(a_line(2 * n, f"https://a.test/{'x' * (n % 7)}{n}") for n in range(count)))
    first = datetime(2026, 11, 20, 22, tzinfo=UTC).timestamp()
    for since in range(-1, 2 * count + 2):
        found = [entry.url for entry in entries(log, since=first + since)]
        assert len(found) == len([n for n in range(count) if 2 * n >= since]), since
    assert len(list(entries(log))) == count


def test_entries_leave_out_what_is_no_line(tmp_path: Path) -> None:
    log = tmp_path / "crawl.log"
    log.write_text("what\n" + a_line(1) + a_line(2).replace("200", "two") + a_line(3, status=-2) + a_line(4)[:-1])
    assert [(entry.status, entry.size, entry.mime) for entry in entries(log)] == [
        (200, 12, b"text/html"), (-2, 12, b"text/html"),
    ]  # fmt: skip


def test_the_time_of_a_log_is_that_of_its_first_line_that_has_one(tmp_path: Path) -> None:
    log, rest = tmp_path / "crawl.log", "   200 1 http://a.test/ L - text/html #001 - - - -\n"
    log.write_text("".join(f"{time}{rest}" for time in ("<b>", "2026-13-01T00:00:00Z", "2026-11-20T22:00:00.000Z")))
    assert first_time(log) == "2026-11-20T22:00:00.000Z"
    log.write_text(f"<b>{rest}")
    assert first_time(log) == ""
