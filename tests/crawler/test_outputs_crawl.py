"""What a crawl over a real socket leaves: WARC files, logs, statistics, and what a sink made of it."""

from __future__ import annotations

import gzip
import json
import os
import sys
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import brotlicffi
import pytest
from aiohttp import web

from budgetfrontier import Reader, Settings
from budgetfrontier.crawler.outputs.warc import recover
from budgetfrontier.errors import StorageFull
from budgetfrontier.reports.crawl_log import entries
from budgetfrontier.reports.crawl_summary import crawl_summary
from tests.crawler.conftest import FullDisk
from tests.crawler.raw import RawServer
from tests.crawler.site import Page, Site, linking, run
from tests.crawler.warcs import read

PLAIN = b"<p>hello</p>" * 99


def bytes_of(body: bytes, **headers: str) -> Page:
    return lambda: web.Response(body=body, headers={"Content-Type": "text/html", **headers})


def chunked() -> web.StreamResponse:
    answer = web.Response(body=PLAIN, content_type="text/html")
    answer.enable_chunked_encoding()
    return answer


def records_of(folder: Path) -> list[dict[str, Any]]:
    """All records of a job that has ended, the first of each file left out."""
    paths = sorted((folder / "warcs").iterdir())
    assert paths and all(path.name.endswith(".warc.gz") for path in paths)
    return [record for path in paths for record in read(path)[1:]]


def by_path(records: list[dict[str, Any]], *kinds: str) -> dict[str, dict[str, Any]]:
    wanted = (record for record in records if record["warc-type"] in kinds)
    return {record["warc-target-uri"].removeprefix("http://a.test"): record for record in wanted}


def test_a_page_with_a_broken_header_is_kept_and_its_links_are_followed(tmp_path: Path) -> None:
    page = linking("/next").encode()
    length = b"Content-Length: %d\r\n" % len(page)
    head = b"http/1.1 200 OK\r\nContent-Type: text/html\r\nX-Thing : a\r\n" + length + length
    with RawServer({"/": head + b"\r\n" + page, "/next": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"}) as server:
        fetch = {"resolve": {"*.test": server.address}, "robots": "ignore"}
        frontier = {"politeness": {"min_delay": 0.0}}
        output = {"warc": True}
        sections = {"seeds": ["http://a.test/"], "fetch": fetch, "frontier": frontier, "output": output}
        code, _ = run(Settings.from_dict(sections), tmp_path)
    assert code == 0
    line, following = (line.split() for line in (tmp_path / "logs" / "crawl.log").read_text().splitlines())
    assert line[3] == "http://a.test/" and line[11].startswith("badHeader,")
    assert following[1] == "200" and following[3:6] == ["http://a.test/next", "L", "http://a.test/"]
    assert [request.split()[1] for request in server.requests] == [b"/", b"/next"]
    kept = by_path(records_of(tmp_path), "response")
    assert sorted(kept) == ["/", "/next"] and kept["/"]["payload"].endswith(page)
    assert kept["/"]["http"] == [
        "HTTP/1.1 200 OK",
        ("Content-Type", "text/html"),
        ("X-Thing", "a"),
        ("X-Crawl-Content-Length", str(len(page))),
        ("X-Crawl-Content-Length", str(len(page))),
    ]


def test_a_crawl_is_in_its_warc_file(tmp_path: Path) -> None:
    pages: dict[str, Page] = {
        "a.test/": linking("/gzip", "/br", "/chunked", "/empty", "/same", "/noindex", "/gone", "/long"),
        "a.test/gzip": bytes_of(gzip.compress(PLAIN), **{"Content-Encoding": "gzip"}),
        "a.test/br": bytes_of(brotlicffi.compress(PLAIN), **{"Content-Encoding": "br"}),
        "a.test/chunked": chunked,
        "a.test/empty": bytes_of(b"", **{"Content-Type": "text/plain"}),
        "a.test/same": bytes_of(PLAIN),
        "a.test/noindex": bytes_of(b"<meta name=robots content=noindex>"),
        "a.test/long": bytes_of(bytes(20_000)),
    }
    with Site(pages) as site:
        settings = site.settings("http://a.test/", fetch={"max_body": 10_000}, output={"warc": True})
        assert run(settings, tmp_path)[0] == 0
    records = records_of(tmp_path)
    answers = by_path(records, "response", "revisit")
    paths = {"/", "/robots.txt", "/gzip", "/br", "/chunked", "/empty", "/same", "/noindex", "/gone", "/long"}
    assert set(answers) == paths
    assert gzip.decompress(answers["/gzip"]["payload"]) == PLAIN
    assert brotlicffi.decompress(answers["/br"]["payload"]) == PLAIN
    same = [answers["/chunked"], answers["/same"]]
    assert sorted(record["warc-type"] for record in same) == ["response", "revisit"]
    assert {record["warc-payload-digest"] for record in same} == {answers["/same"]["warc-payload-digest"]}
    assert ("X-Crawl-Transfer-Encoding", "chunked") in answers["/chunked"]["http"]
    assert answers["/gone"]["http"][0] == "HTTP/1.1 404 Not Found"
    assert answers["/long"]["payload"] == bytes(10_000) and answers["/long"]["warc-truncated"] == "length"
    assert {record["warc-ip-address"] for record in answers.values()} == {"127.0.0.1"}
    asked = by_path(records, "request")
    assert set(asked) == set(answers) == set(by_path(records, "metadata"))
    assert asked["/br"]["http"][0] == "GET /br HTTP/1.1"
    assert {"Host", "User-Agent", "Accept-Encoding"} <= {name for name, _ in asked["/br"]["http"][1:]}
    log = (tmp_path / "logs/crawl.log").read_text()
    for line in log.splitlines():
        fields = line.split()
        record = answers.get(fields[3].removeprefix("http://a.test"))
        if record and fields[9] != "-":
            assert fields[9] == record["warc-payload-digest"]


ROBOTS_TAGS: dict[str, Page] = {
    "a.test/": linking("/noindex", "/header", "/own", "/other", "/nofollow"),
    "a.test/noindex": bytes_of(b"<meta name=robots content=noindex><a href=/of-noindex>x</a>"),
    "a.test/header": bytes_of(b"plain", **{"Content-Type": "text/plain", "X-Robots-Tag": "noindex"}),
    "a.test/own": bytes_of(b"plain", **{"X-Robots-Tag": "examplebot: none"}),
    "a.test/other": bytes_of(b"plain", **{"X-Robots-Tag": "otherbot: none"}),
    "a.test/nofollow": bytes_of(b"<meta name=ExampleBot content=nofollow><a href=/of-nofollow>x</a>"),
    "a.test/of-noindex": "page",
    "a.test/of-nofollow": "page",
}
SAY_NOINDEX = {"/noindex", "/header", "/own"}
NOT_STORED = "this run: 3 pages that say noindex: in crawl.log only (`output.noindex: store` stores such pages)"
NOT_FOLLOWED = "this run: 2 pages that say nofollow: links not followed (`links.nofollow: follow` follows them)"


@pytest.mark.parametrize("noindex", ["store", "skip"])
@pytest.mark.parametrize("nofollow", ["follow", "skip"])
def test_what_robots_tags_keep_out_is_a_setting_each_and_is_said(tmp_path: Path, noindex: str, nofollow: str) -> None:
    with Site(ROBOTS_TAGS) as site:
        settings = site.settings(
            "http://a.test/",
            fetch={"user_agent": "ExampleBot/1.0"},
            links={"nofollow": nofollow},
            output={"warc": True, "noindex": noindex},
        )
        code, said = run(settings, tmp_path)
    assert code == 0
    paths = {url.removeprefix("a.test") for url in ROBOTS_TAGS} | {"/robots.txt"}
    fetched = paths - ({"/of-nofollow"} if nofollow == "skip" else set())
    assert {url.removeprefix("a.test") for url in site.hits} == fetched
    stored = fetched - (SAY_NOINDEX if noindex == "skip" else set())
    assert set(by_path(records_of(tmp_path), "response", "revisit")) == stored
    lines = [json.loads(line) for line in (tmp_path / "logs/pages.jsonl").read_text().splitlines()]
    assert {line["url"].removeprefix("http://a.test") for line in lines} == stored
    notes = {line["url"].removeprefix("http://a.test"): line["notes"] for line in lines}
    assert notes["/nofollow"] == ["nofollow"] and notes["/other"] == []
    assert notes.get("/own", ["noindex", "nofollow"]) == ["noindex", "nofollow"]
    assert (NOT_STORED in said, NOT_FOLLOWED in said) == (noindex == "skip", nofollow == "skip")
    with closing(Reader(tmp_path / "frontier")) as reader:
        figures = crawl_summary(
            "test", reader.summary(), [], entries(tmp_path / "logs/crawl.log"), told={}, alive=False, now=0.0
        )
    kept_out = 3 if noindex == "skip" else 0
    assert (figures["noindex"], figures["not_stored"], figures["nofollow"]) == (3, kept_out, 2)


@pytest.mark.parametrize("warc", [True, False])
def test_only_encodings_that_readers_decode_are_asked_for_in_an_archive(tmp_path: Path, warc: bool) -> None:
    with RawServer({"/": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}) as server:
        fetch = {"resolve": {"*.test": server.address}, "robots": "ignore"}
        sections = {"seeds": ["http://a.test/"], "fetch": fetch, "output": {"warc": warc}}
        assert run(Settings.from_dict(sections), tmp_path)[0] == 0
    offered = "gzip, deflate" if warc else "gzip, deflate, br, zstd"
    assert all(f"Accept-Encoding: {offered}\r\n".encode() in request for request in server.requests)
    assert server.requests


def test_a_page_that_did_not_change_is_a_revisit_record(tmp_path: Path) -> None:
    def page() -> web.StreamResponse:
        first = site.hits["a.test/"] == 1
        return web.Response(text="hello" if first else None, status=200 if first else 304, headers={"ETag": '"1"'})

    with Site({"a.test/": page}) as site:
        settings = site.settings(
            "http://a.test/",
            frontier={"revisit": {"after": 0.001}},
            fetch={"robots": "ignore"},
            limits={"max_uris": 2},
            output={"warc": True},
        )
        run(settings, tmp_path)
        assert site.hits["a.test/"] == 2
    records = records_of(tmp_path)
    first, again = (record for record in records if record["warc-type"] in ("response", "revisit"))
    assert again["warc-profile"].endswith("/server-not-modified")
    assert again["warc-refers-to"] == first["warc-record-id"]
    assert again["warc-payload-digest"] == first["warc-payload-digest"]
    [request] = [record for record in records if record.get("warc-concurrent-to") == again["warc-record-id"]][:1]
    assert ("If-None-Match", '"1"') in request["http"]


SINK = """
def titles(page):
    if page.status == 200 and page.mime == "text/html":
        with open("titles.txt", "a") as file:
            print(page.url, page.text().partition("<title>")[2].partition("</title>")[0], file=file)
"""


def test_a_sink_of_five_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_sink_of_a_test.py").write_text(SINK)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    title = b'<meta charset=latin-1><title>\xfc</title><a href="/b">'
    with Site({"a.test/": bytes_of(title), "a.test/b": "<title>b</title>"}) as site:
        run(site.settings("http://a.test/", output={"sinks": ["my_sink_of_a_test:titles"]}), tmp_path / "job")
    assert (tmp_path / "titles.txt").read_text() == "http://a.test/ ü\nhttp://a.test/b b\n"
    sys.modules.pop("my_sink_of_a_test", None)


def test_statistics_are_written_as_the_crawl_goes(tmp_path: Path) -> None:
    with Site({"a.test/": linking("/b")}) as site:
        run(site.settings("http://a.test/", output={"statistics": 0.001}), tmp_path)
    legend, *lines = (tmp_path / "logs/progress-statistics.log").read_text().splitlines()
    assert legend.split()[:4] == ["timestamp", "discovered", "queued", "downloaded"] and lines
    assert {len(line.split()) for line in lines} == {13}


def test_a_disk_that_fills_up_in_mid_crawl_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = Random(1).randbytes(20_000)  # which no compression makes smaller
    pages: dict[str, Page] = {f"a.test/{n}": bytes_of(b'<a href="/%d">' % (n + 1) + body) for n in range(15)}
    with Site(pages) as site:
        settings = site.settings(
            "http://a.test/0", frontier={"commit_interval": 0}, output={"warc": True, "warc_revisits": False}
        )
        with monkeypatch.context() as patch, pytest.raises(StorageFull):
            patch.setattr(os, "write", FullDisk(150_000).write)
            run(settings, tmp_path)
        with Reader(tmp_path / "frontier") as reader:
            done = reader.summary().succeeded
        recover(tmp_path / "warcs")
        kept = by_path(records_of(tmp_path), "response")
        assert 0 < done <= len(kept) < 15
        assert run(settings, tmp_path)[0] == 0
    assert set(by_path(records_of(tmp_path), "response")) == {"/robots.txt", *(f"/{n}" for n in range(16))}
    assert max(site.hits.values()) == 2 and sum(site.hits.values()) <= 17 + 2
