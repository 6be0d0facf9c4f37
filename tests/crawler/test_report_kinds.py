"""The reports that Heritrix has besides that of the frontier, of a crawl over a real socket."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier.tools.cli import main
from tests.crawler.site import Page, Site, linking, redirect, run, text

Report = Callable[..., Any]

SEEDS = {
    "http://a.test/": ("CRAWLED", 200),
    "http://a.test/gone": ("CRAWLED", 404),
    "http://moved.test/": ("REDIRECTED", 301),
    "http://secret.test/private": ("DISREGARDED", -9998),
    "http://poor.test/": ("STRANDED", None),
    "http://nowhere.invalid/": ("DEAD", -61),
}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl that has ended: pages of four hosts, equal bodies, a redirect, robots.txt, a budget and a dead host."""
    folder = tmp_path_factory.mktemp("crawled") / "job"
    pages: dict[str, Page] = {
        "a.test/": linking("/1", "/2", "/3.txt"),
        "a.test/1": "the same body",
        "a.test/2": "the same body",
        "a.test/3.txt": text("plain"),
        "moved.test/": redirect("http://moved.test/new"),
        "moved.test/new": redirect("http://a.test/"),
        "secret.test/robots.txt": text("User-agent: *\nDisallow: /private\n"),
    }
    with Site(pages) as site:
        overrides = [{"match": "host:poor.test", "set": {"queue_total_budget": 0, "retire_when": "reached"}}]
        labelled = {"url": "http://a.test/", "source": "list"}
        seeds: list[Any] = [labelled if url == "http://a.test/" else url for url in SEEDS]
        settings = site.settings(*seeds, overrides=overrides)
        assert run(settings, folder)[0] == 0
    return folder


@pytest.fixture
def report(crawled: Path, capsys: pytest.CaptureFixture[str]) -> Report:
    """Run `report` on the crawl: rows of JSON as mappings."""

    def rows(kind: str, *options: str) -> Any:
        assert main(["report", str(crawled), "--kind", kind, "--format", "json", *options]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert (answer["kind"], answer["crawl"], answer["unknown"]) == (kind, "test", None)
        return answer["rows"]

    return rows


def test_the_fate_of_each_seed(report: Report) -> None:
    rows = {row["seed"]: row for row in report("seeds")}
    assert rows.pop("http://moved.test/new")["origin"] == "redirect of http://moved.test/"
    assert {seed: (row["status"], row["code"]) for seed, row in rows.items()} == SEEDS
    moved = rows["http://moved.test/"]
    assert (moved["redirect"], moved["detail"]) == ("http://a.test/", "200 OK"), "two steps on, to a page already seen"
    assert (rows["http://a.test/"]["label"], rows["http://a.test/"]["origin"]) == ("list", "scheduled")
    assert rows["http://poor.test/"]["queue"] == "poor.test"
    assert "robots" in rows["http://secret.test/private"]["detail"]


def test_hosts_have_what_was_fetched_and_what_is_left(report: Report) -> None:
    rows = {row["host"]: row for row in report("hosts")}
    assert rows["a.test"]["fetches"] == 6  # with robots.txt
    assert (rows["secret.test"]["robots_denials"], rows["secret.test"]["fetches"]) == (1, 1)
    assert (rows["poor.test"]["remaining"], rows["poor.test"]["state"]) == (1, "RETIRED")
    assert rows["nowhere.invalid"]["failures"] > 0 and rows["nowhere.invalid"]["errors"] >= 1
    assert [row["fetches"] for row in report("hosts")] == sorted((r["fetches"] for r in rows.values()), reverse=True)


def test_media_types_response_codes_and_source_tags(report: Report) -> None:
    codes = {row["code"]: row["fetches"] for row in report("responsecodes")}
    assert (codes[200], codes[301], codes[-9998]) == (5, 2, 1)
    assert {row["code"]: row["meaning"] for row in report("responsecodes")}[404] == "Not Found"
    types = {row["mimetype"]: row for row in report("mimetypes")}
    assert types["text/plain"]["fetches"] >= 2 and types["text/html"]["bytes"] > 20
    assert {(row["source"], row["host"]): row["fetches"] for row in report("sourcetags")} == {("list", "a.test"): 5}


def test_the_crawl_summary(report: Report) -> None:
    (row,) = report("crawl-summary")
    assert (row["crawl"], row["status"], row["alive"]) == ("test", "FINISHED", False)
    assert row["last_stop"] == "EXIT" and row["duration"] > 0 and row["ended"] > row["began"]
    assert (row["robots_denials"], row["repeated_bodies"], row["repeated_bytes"]) == (1, 1, len("the same body"))
    assert row["bytes"] == row["distinct_bytes"] + row["repeated_bytes"]
    assert row["fetches"] == sum(line["fetches"] for line in report("responsecodes") if line["code"] > 0)


def test_nothing_is_newer_than_the_time_to_come(report: Report, crawled: Path) -> None:
    assert report("mimetypes", "--since", "1h") == report("mimetypes")
    assert report("mimetypes", "--since", "0s") == []
    assert report("crawl-summary", "--since", "0s")[0]["fetches"] == 0
    assert all(row["fetches"] == 0 for row in report("hosts", "--since", "0s")), "queues are as of now"
    for kind in ("seeds", "threads"):
        assert main(["report", str(crawled), "--kind", kind, "--since", "1h"]) == 2


def test_text_and_csv_and_names_of_heritrix(crawled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(crawled), "--kind", "hosts-report.txt", "--limit", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["fetches", "bytes", "host"] and lines[1].split()[2] == "a.test"
    assert lines[-1] == "...and 3 more; --all prints them"
    assert main(["report", str(crawled), "--kind", "hosts", "--limit", "2", "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert main(["report", str(crawled), "--kind", "responsecode-report.txt", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == {"fetches": "5", "code": "200", "meaning": "OK"}
    assert main(["report", str(crawled), "--kind", "crawl-summary"]) == 0
    assert "robots_denials:      1\n" in capsys.readouterr().out
    assert main(["report", str(crawled), "--kind", "hosts", "--format", "html"]) == 2
