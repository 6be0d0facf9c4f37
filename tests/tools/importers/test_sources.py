"""Each crawler's files as its own code wrote them, and as they are after a kill, damage or malice."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import pickle
import sqlite3
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from budgetfrontier import Frontier
from budgetfrontier.core.model import CrawlUri, Directive
from budgetfrontier.errors import FrontierError
from budgetfrontier.tools import importers as formats
from budgetfrontier.tools.importers import heritrix, import_items, lists
from budgetfrontier.tools.importers import kumo as kumo_format
from budgetfrontier.tools.importers.allowance import Allowance
from budgetfrontier.tools.importers.import_items import BadRecord, Item, Record
from tests.support import PATIENCE
from tests.tools.importers.conftest import DATA, bad, notes, read, uris

# -- Scrapy

QUEUES = [
    f"{version}/{kind}{order}DiskQueue"
    for version in ("1.8.3", "2.0.1", "2.11.2", "2.13.4", "2.19.0")
    for kind in ("Pickle", "Marshal")
    for order in ("Lifo", "Fifo")
] + [f"2.19.0/{kind}{order}SQLiteQueue" for kind in ("Pickle", "Marshal") for order in ("Lifo", "Fifo")]


def check_scrapy(folder: Path) -> None:
    """The requests of tests/data/make_jobdirs.py."""
    items = read(folder)
    assert bad(items) == []
    found = {uri.url: uri for uri in uris(items)}
    assert found == {
        "http://a.test/1": CrawlUri(
            "http://a.test/1", via="http://a.test/", hops="L", meta={"depth": 1}, headers={"Referer": "http://a.test/"}
        ),
        "http://a.test/2": CrawlUri(
            "http://a.test/2",
            hops="LL",
            meta={"depth": 2, "tags": ["x", 1], "scrapy": {"kinds": [["tuple", "meta", "tags"]]}},
            priority=5,
        ),
        "http://a.test/3": CrawlUri(
            "http://a.test/3", meta={"is_start_request": True}, headers={"Accept": "text/html, text/plain"}
        ),
        "http://b.test/1": CrawlUri(
            "http://b.test/1",
            headers={"Cookie": "s=1"},
            priority=-10,
            meta={"scrapy": {"callback": "parse_item", "cb_kwargs": {"n": 1}, "cookies": {"s": "1"}}},
        ),
        "http://b.test/form": CrawlUri(
            "http://b.test/form",
            method="POST",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            body=b"q=x",
            force=True,
            meta={"scrapy": {"flags": ["f"]}},
        ),
    }
    left = {item.uri.url: item.omitted for item in items if isinstance(item, Record)}
    assert left["http://a.test/2"] == ("a part of meta",)
    assert left["http://b.test/form"] == ("its class",)
    assert left["http://b.test/1"] == ()
    assert left["http://a.test/3"] == ()
    (note,) = notes(items)
    assert "4 fingerprints" in note and "--seen" in note


@pytest.mark.parametrize("name", QUEUES)
def test_jobdirs_of_scrapy(peers: Path, name: str) -> None:
    assert formats.kind_of(str(peers / "scrapy" / name)) == "scrapy"
    check_scrapy(peers / "scrapy" / name)


def test_jobdirs_of_the_scrapy_that_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("scrapy")
    made = tmp_path / "made"
    subprocess.run(
        [sys.executable, str(DATA / "make_jobdirs.py"), str(made)], check=True, timeout=PATIENCE, capture_output=True
    )
    folders = sorted(made.iterdir())
    assert len(folders) >= 4
    for folder in folders:
        check_scrapy(folder)


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    folder = tmp_path / "job" / "requests.queue"
    folder.mkdir(parents=True)
    return folder


def request(url: str, **fields: Any) -> dict[str, Any]:
    return {"url": url, "callback": None, "headers": {}, "meta": {}, "priority": 0, **fields}


def lifo(*values: bytes, count: int = 0) -> bytes:
    return struct.pack(">L", count) + b"".join(value + struct.pack(">L", len(value)) for value in values)


def fifo(*values: bytes) -> bytes:
    return b"".join(struct.pack(">L", len(value)) + value for value in values)


def pages(first: int, last: int) -> list[bytes]:
    return [pickle.dumps(request(f"http://a.test/{n}"), 4) for n in range(first, last)]


def test_requests_come_in_the_order_in_which_they_were_pushed(queue: Path) -> None:
    (queue / "0").write_bytes(lifo(*pages(0, 20)))
    (queue / "1").mkdir()
    (queue / "1" / "q00000").write_bytes(fifo(*pages(20, 30)))
    (queue / "1" / "q00001").write_bytes(fifo(*pages(30, 40)))
    assert [uri.url for uri in uris(read(queue.parent))] == [f"http://a.test/{n}" for n in range(40)]


def test_a_chunk_is_read_from_where_scrapy_left_off(queue: Path) -> None:
    values = pages(0, 10)
    (queue / "0").mkdir()
    (queue / "0" / "q00003").write_bytes(fifo(*values[:5]))
    (queue / "0" / "q00004").write_bytes(fifo(*values[5:]))
    info = {"chunksize": 5, "size": 7, "tail": [3, 3, len(fifo(*values[:3]))], "head": [4, 5]}
    (queue / "0" / "info.json").write_text(json.dumps(info))
    assert [uri.url for uri in uris(read(queue.parent))] == [f"http://a.test/{n}" for n in range(3, 10)]
    (queue / "0" / "info.json").write_text("{")  # a kill
    assert len(uris(read(queue.parent))) == 10


@pytest.mark.parametrize("kind", ["lifo", "fifo"])
def test_a_queue_that_breaks_off_is_read_that_far(queue: Path, kind: str) -> None:
    if kind == "lifo":
        (queue / "0").write_bytes(lifo(*pages(0, 10))[:-30])
    else:
        (queue / "0").mkdir()
        (queue / "0" / "q00000").write_bytes(fifo(*pages(0, 10))[:-30])
    items = read(queue.parent)
    assert len(uris(items)) == 9
    (told,) = bad(items)
    assert str(queue) in told.location and ": byte " in told.location


def test_bad_requests_end_nothing(queue: Path) -> None:
    given: list[Any] = [request("http://a.test/0"), 5, {}, {"url": 7}, request("http://a.test/1", body=5), {"url": {}}]
    values = [pickle.dumps(value, 4) for value in given]
    values.append(pickle.dumps(request("http://a.test/2", meta={"n": float("inf")}, headers={b"A": [b"\xff"]}), 2))
    (queue / "0").write_bytes(lifo(*values))
    items = read(queue.parent)
    assert [uri.url for uri in uris(items)] == ["http://a.test/0", "http://a.test/2"]
    assert [told.reason for told in bad(items)] == ["request"] * 5


def test_a_request_larger_than_any_is_passed_over(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from budgetfrontier.tools.importers import pickled, scrapy

    monkeypatch.setattr(pickled, "MAX_RECORD_SIZE", 10_000)
    monkeypatch.setattr(scrapy, "MAX_RECORD_SIZE", 10_000)
    values = [*pages(0, 1), pickle.dumps(request("http://a.test/x", body=b"x" * 20_000), 4), *pages(1, 2)]
    (queue / "1").mkdir()
    (queue / "1" / "q00000").write_bytes(fifo(*values))
    with sqlite3.connect(queue / "2") as database:
        database.execute("CREATE TABLE queue (id INTEGER PRIMARY KEY AUTOINCREMENT, item BLOB)")
        database.executemany("INSERT INTO queue (item) VALUES (?)", [(value,) for value in values])
    database.close()
    items = read(queue.parent)
    assert [told.reason for told in bad(items)] == ["too-large", "too-large"]
    assert len(uris(items)) == 4


def test_a_damaged_database_ends_only_its_queue(queue: Path) -> None:
    (queue / "0").write_bytes(b"SQLite format 3\0" + b"x" * 4096)
    (queue / "1").write_bytes(lifo(*pages(0, 2)))
    items = read(queue.parent)
    assert [told.reason for told in bad(items)] == ["queue"]
    assert len(uris(items)) == 2


def test_what_is_no_queue_is_passed_over(queue: Path) -> None:
    (queue / "loop").symlink_to(queue, target_is_directory=True)
    (queue / "slot" / "deep").mkdir(parents=True)
    os.mkfifo(queue / "5")
    with sqlite3.connect(queue / "6") as database:
        database.execute(
            "CREATE VIEW queue AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id FROM n) SELECT id FROM n"
        )
    database.close()
    items = read(queue.parent)
    assert uris(items) == [] and {told.detail.partition(";")[0] for told in bad(items)} == {"it has no table `queue`"}


def test_fingerprints_are_counted(tmp_path: Path) -> None:
    seen = tmp_path / "requests.seen"
    for content, count in ((b"a" * 40 + b"\n") * 3, 3), ((b"\0\x14" + b"x" * 20) * 5, 5), (b"", 0):
        seen.write_bytes(content)
        assert [f" {count} fingerprints" in note for note in notes(read(tmp_path))] == [True] * bool(count)


# -- qcrawl


def test_a_queue_of_qcrawl(peers: Path) -> None:
    assert formats.kind_of(str(peers / "qcrawl")) == "qcrawl"
    items = read(peers / "qcrawl")
    assert uris(items) == [
        CrawlUri("http://a.test/high", priority=100),
        CrawlUri("http://a.test/1", hops="LL", meta={"depth": 2, "tags": ["x"]}, headers={"Accept": "text/html"}),
        CrawlUri("http://b.test/form", method="POST", body=b"q=x", headers={"Cookie": "s=1"}),
        CrawlUri("http://a.test/2"),
        CrawlUri("http://a.test/low", priority=-10),
    ]
    left = {item.uri.url: item.omitted for item in items if isinstance(item, Record)}
    assert left["http://a.test/high"] == ("callback", "cb_kwargs", "retries")
    assert left["http://b.test/form"] == ("proxy",)
    assert left["http://a.test/1"] == ()


def test_bad_files_of_qcrawl_end_nothing(tmp_path: Path) -> None:
    encode = msgspec.msgpack.encode
    for name, content in {
        "0000000000_0000000001.req": encode({"url": "http://a.test/1"}),
        "0000000000_0000000002.req": b"\xc1",
        "0000000000_0000000003.req": encode([1]),
        "0000000000_0000000004.req": encode({"url": 5}),
        "0000000000_0000000005.req": encode({"url": "http://a.test/", "headers": [1]}),
        "0000000000_0000000006.req": encode({"url": "http://a.test/6"})[:-3],
        "0000000000_0000000010.req": encode({"url": "http://a.test/10"}),
        "0000000000.req": b"",
        "x_y.req": b"",
        "notes.txt": b"",
    }.items():
        (tmp_path / name).write_bytes(content)
    items = read(tmp_path)
    assert [uri.url for uri in uris(items)] == ["http://a.test/1", "http://a.test/10"]
    assert sorted(told.reason for told in bad(items)) == ["name"] * 2 + ["request"] * 5


# -- kumo


def stored(url: str, *, depth: int = 0, due: int | None = None, **fields: Any) -> dict[str, Any]:
    """A request as kumo writes it."""
    inner: dict[str, Any] = {
        "url": url, "method": "GET", "headers": [], "body": None, "priority": 0, "meta": {}, "dont_filter": False,
        "dedup_key": None,
    }  # fmt: skip
    return {"request": inner | fields, "depth": depth, "retry_count": 0, "scheduled_at_ms": due}


@pytest.fixture
def kumo(tmp_path: Path) -> Path:
    folder = tmp_path / "kumo"
    folder.mkdir()
    header = {"name": "accept", "value": list(b"text/html")}
    queue = [
        stored("http://a.test/1", depth=2, priority=7, meta={"source": "x"}),
        stored("http://a.test/post", method="POST", body=list(b"q=x"), headers=[header], dont_filter=True),
        stored("http://a.test/later", due=4_000_000_000_000) | {"retry_count": 2},
        stored("http://a.test/due", due=1_000),
    ]
    lease = {"id": "file-1-0", "request": stored("http://a.test/out"), "expires_at_ms": 5, "delivery_count": 1}
    dead = {
        "id": "file-1-1", "request": stored("http://a.test/dead"), "reason": "failed", "delivery_count": 1,
        "dead_lettered_at_ms": 5,
    }  # fmt: skip
    seen = [f"http://a.test/{name}" for name in ("1", "later", "due", "out", "dead", "done")]
    for name, value in {"queue": queue, "leases": [lease], "dead_letters": [dead], "seen": seen}.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    (folder / "queue.json.tmp").write_text("garbage")
    return folder


def test_a_frontier_of_kumo(kumo: Path) -> None:
    assert formats.kind_of(str(kumo)) == "kumo"
    items = read(kumo)
    pending = [item.uri for item in items if isinstance(item, Record) and not item.seen and item.dead is None]
    assert pending == [
        CrawlUri("http://a.test/out"),
        CrawlUri("http://a.test/1", hops="LL", priority=7, meta={"source": "x"}),
        CrawlUri("http://a.test/post", method="POST", body=b"q=x", headers={"accept": "text/html"}, force=True),
        CrawlUri("http://a.test/later", not_before=4e9),
        CrawlUri("http://a.test/due"),
    ]
    seen = [item.uri.url for item in items if isinstance(item, Record) and item.seen]
    assert seen == [f"http://a.test/{name}" for name in ("1", "later", "due", "out", "dead", "done")]
    assert not any(item.charged for item in items if isinstance(item, Record))
    assert [item.omitted for item in items if isinstance(item, Record) and item.omitted] == [("retry_count",)]
    assert [(item.uri.url, item.dead) for item in items if isinstance(item, Record) and item.dead is not None] == [
        ("http://a.test/dead", "failed")
    ]
    assert not notes(items)
    assert formats.kind_of(str(kumo / "dead_letters.json")) == "kumo"
    assert uris(read(kumo / "dead_letters.json")) == [CrawlUri("http://a.test/dead")]


def test_a_frontier_of_the_first_kumo(tmp_path: Path) -> None:
    (tmp_path / "queue.json").write_text('[["http://a.test/", 1, 0], ["http://a.test/2", 0, 3]]')
    assert uris(read(tmp_path)) == [CrawlUri("http://a.test/", hops="L"), CrawlUri("http://a.test/2")]


def test_bad_elements_of_kumo_end_nothing(tmp_path: Path) -> None:
    values: list[Any] = [5, None, {}, [], {"request": {"url": 5}}, {"request": 7}, {"id": 1}, stored("http://a.test/")]
    (tmp_path / "queue.json").write_text(json.dumps(values))
    (tmp_path / "seen.json").write_text('["http://a.test/x", 5, {}, "http://a.test/y"')
    items = read(tmp_path)
    assert [uri.url for uri in uris(items)] == ["http://a.test/", "http://a.test/x", "http://a.test/y"]
    assert [told.reason for told in bad(items)] == ["request"] * 9 + ["json"]
    assert bad(items)[0].location == f"{tmp_path / 'queue.json'}: element 1"
    assert "what is behind cannot be read" in bad(items)[-1].detail
    for content in ("", "{}", "7", "[" * 100_000):
        (tmp_path / "queue.json").write_text(content)
        assert [told.reason for told in bad(read(tmp_path / "queue.json", "kumo"))] == ["json"]


def test_a_large_array_is_read_in_parts(tmp_path: Path) -> None:
    source = tmp_path / "seen.json"
    source.write_text(
        "\ufeff [ " + " ,\n".join(json.dumps(f"http://a.test/{n}/{'é' * 500}") for n in range(4_000)) + " ] "
    )
    tracemalloc.start()
    count = sum(1 for _ in formats.read(str(source)))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 4_000
    assert most < (8 << 20) < source.stat().st_size


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_an_array_is_the_same_in_parts_of_any_size(kumo: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    odd = [
        {"a": 'x]}"[{\\', "b": [1, {"c": []}]},
        "}",
        "\\\\",
        12,
        -1.5e9,
        True,
        None,
        [],
        {},
        stored("http://a.test/é"),
    ]
    (kumo / "leases.json").write_text(json.dumps(odd, indent=1))
    expected = read(kumo)
    monkeypatch.setattr(kumo_format, "_CHUNK", size)
    assert read(kumo) == expected


@pytest.mark.parametrize("size", [3, 1 << 20])
def test_a_bad_element_hides_none_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(kumo_format, "_CHUNK", size)
    damaged = ['{"request" 1}', "nul", '"\x01"', "[1, 2}", "}", "9" * 5000, "[" * 300 + "]" * 300]
    source = tmp_path / "queue.json"
    for element in damaged:
        source.write_text(f'[["http://a.test/1", 0, 0], {element}, ["http://a.test/2", 0, 0]]')
        items = read(source)
        assert [uri.url for uri in uris(items)] == ["http://a.test/1", "http://a.test/2"], element
        assert [(told.reason, told.ends) for told in bad(items)] == [("json", False)], element


# -- Heritrix

JOURNAL = """
T 20261121000000
F+ http://a.test/\x20\x20
F+ dns:a.test P http://a.test/
Fs dns:a.test P http://a.test/
F+ http://a.test/robots.txt P http://a.test/
Fe http://a.test/
Fs http://a.test/\x20\x20
F+ http://a.test/1 L http://a.test/
F+ http://a.test/2 LE http://a.test/1
F+ http://a.test/3 L http://a.test/
F+ http://a.test/4 L http://a.test/
Fe http://a.test/1
Fr http://a.test/1
Ff http://a.test/3 L http://a.test/
Fd http://a.test/4
Fs http://a.test/2 LE http://a.test/1
Fi http://b.test/included
nonsense here
"""


@pytest.mark.parametrize("name", ["frontier.recover.gz", "journal"])
def test_a_journal_of_heritrix(tmp_path: Path, name: str) -> None:
    source = tmp_path / name
    source.write_bytes(gzip.compress(JOURNAL.encode()) if name.endswith(".gz") else JOURNAL.encode())
    assert formats.kind_of(str(source)) == "heritrix"
    items = read(source)
    done = [item.uri.url for item in items if isinstance(item, Record) and item.seen and item.charged]
    assert done == ["http://a.test/", "http://a.test/2", "http://b.test/included"]
    scheduled = [item.uri for item in items if isinstance(item, Record) and not item.seen]
    assert [uri.url for uri in scheduled] == ["http://a.test/", *(f"http://a.test/{n}" for n in range(1, 5))]
    assert scheduled[0] == CrawlUri("http://a.test/")
    assert scheduled[2] == CrawlUri("http://a.test/2", hops="LE", via="http://a.test/1")
    (told,) = bad(items)
    assert told.location == f"{source}:19" and "nonsense" in told.detail
    (note,) = notes(items)
    assert "2 URIs of DNS look-ups and prerequisites" in note


def test_a_journal_that_breaks_off_is_read_that_far(tmp_path: Path) -> None:
    whole = "".join(f"F+ http://a.test/{n} L http://a.test/{n * 7919}\n" for n in range(20_000))
    source = tmp_path / "frontier.recover.gz"
    source.write_bytes(gzip.compress(whole.encode())[:-5000])
    items = read(source)
    found = [uri.url for uri in uris(items)]
    assert found == [f"http://a.test/{n}" for n in range(len(found))] and 1000 < len(found) < 20_000
    (told,) = bad(items)
    assert told.ends and "breaks off after line" in told.detail
    source.write_bytes(gzip.compress(whole.encode())[:-5000] + b"\0" * 5000)  # damaged
    assert "breaks off after line" in bad(read(source))[0].detail


def test_a_line_of_a_journal_is_read_back_by_both(tmp_path: Path) -> None:
    for uri in (
        CrawlUri("http://a.test/"),
        CrawlUri("http://a.test/1", hops="LE", via="http://a.test/"),
        CrawlUri("http://a.test/2", via="http://a.test/"),
    ):
        written = heritrix.line(uri)
        fields = written.split()  # as Heritrix splits it
        assert fields[:2] == ["F+", uri.url] and len(fields) in (2, 4)
        source = tmp_path / "recover"
        source.write_text(written + "\n")
        (back,) = uris(read(source))
        assert (back.url, back.hops, back.via) == (uri.url, uri.hops, uri.via if uri.hops else None)


def test_a_journal_has_one_line_for_each_uri_whatever_that_carries(tmp_path: Path) -> None:
    via = CrawlUri("http://a.test/", hops="L", via="http://v.test/a b\r\nF+ http://evil.test/")
    assert heritrix.line(via) == "F+ http://a.test/ L http://v.test/a%20b%0D%0AF+%20http://evil.test/"
    hops = CrawlUri("http://a.test/", hops="L\nF+ http://evil.test/ L", via="http://v.test/")
    assert heritrix.line(hops) == "F+ http://a.test/"
    assert (heritrix.left_out(via), heritrix.left_out(hops)) == (set(), {"hops", "via"})
    assert heritrix.left_out(CrawlUri("http://a.test/", via="http://v.test/")) == {"via"}


# -- lists, and all


def test_lists_may_be_compressed(tmp_path: Path) -> None:
    source = tmp_path / "urls.gz"
    whole = gzip.compress(b"http://a.test/ # the first\n\n# none\nhttp://b.test/#x\n")
    source.write_bytes(whole)
    assert [uri.url for uri in uris(read(source))] == ["http://a.test/", "http://b.test/#x"]
    source.write_bytes(whole[:-4])
    assert "breaks off" in bad(read(source))[0].detail


def test_json_lines_made_to_hurt_are_only_bad(tmp_path: Path) -> None:
    source = tmp_path / "urls"
    lines = [
        '{"url": "http://a.test/", "meta": ' + "[" * 100_000,
        '{"url": "http://a.test/", "directive": {}}',
        '{"url": [1]}',
    ]
    source.write_text("\n".join(lines))
    assert [told.reason for told in bad(read(source))] == ["json"] * 3
    (tmp_path / "0000000000_0000000001.req").write_bytes(b"\x81\xa3url" + b"\x91" * 100_000 + b"\x00")
    assert [told.reason for told in bad(read(tmp_path, "qcrawl"))] == ["request"]


@pytest.mark.parametrize(
    ("field", "detail"),
    [
        ('"priority": "high"', "priority: expected int, got str"),
        ('"not_before": "soon"', "not_before: expected float | null, got str"),
        ('"headers": {"A": 5}', "headers: expected str, got int"),
        ('"body": "?"', "body: invalid base64 encoded string"),
        ('"directive": "LOW"', 'directive: expected HIGHEST, HIGH, MEDIUM, NORMAL, got "LOW"'),
        ('"directive": {}', "directive: expected HIGHEST, HIGH, MEDIUM, NORMAL, got {}"),
        ('"meta": {"$msgpack": "kpI="}', "meta.$msgpack: input data was truncated"),
    ],
)
def test_a_bad_json_line_is_reported_with_the_name_of_the_field(tmp_path: Path, field: str, detail: str) -> None:
    source = tmp_path / "urls.jsonl"
    source.write_text(f'{{"url": "http://a.test/", {field}}}\n{{"url": "http://a.test/", "directive": "HIGH"}}\n')
    items = read(source)
    assert [(told.location, told.detail) for told in bad(items)] == [(f"{source}:1", detail)]
    assert [uri.directive for uri in uris(items)] == [Directive.HIGH]


def test_a_line_without_end_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_items, "MAX_RECORD_SIZE", 1000)
    found = list(import_items.lines(io.BytesIO(b"a\n" + b"x" * 5000 + b"\nb\n" + b"y" * 1000 + b"\nc"), Allowance()))
    assert found == [(1, b"a"), (2, None), (3, b"b"), (4, None), (5, b"c")]


def test_a_disk_that_fails_in_the_middle_ends_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **options: object) -> Iterator[Item]:
        yield Record("urls:1", CrawlUri("http://a.test/"))
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(lists, "read", failing)
    source = tmp_path / "urls"
    source.write_text("")
    first, told = read(source)
    assert isinstance(first, Record) and isinstance(told, BadRecord)
    assert told.ends and told.location == str(source) and "Input/output error" in told.detail


@pytest.mark.parametrize("inside", ["", "frontier"])
def test_a_frontier_of_ones_own_is_told_to_be_exported(tmp_path: Path, inside: str) -> None:
    Frontier.open(tmp_path / inside).close()
    with pytest.raises(FrontierError, match="holds a frontier of this program: `export`"):
        formats.kind_of(str(tmp_path))


def test_what_is_no_source_is_told(tmp_path: Path) -> None:
    with pytest.raises(FrontierError, match="neither a JOBDIR of Scrapy"):
        formats.kind_of(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        formats.kind_of(str(tmp_path / "nothing"))
    for kind in ("scrapy", "qcrawl", "kumo"):
        with pytest.raises(FrontierError, match="no such folder"):
            read(tmp_path / "nothing", kind)
    with pytest.raises(FrontierError, match="stdin"):
        read("-", "heritrix")


def test_a_kind_that_is_named_is_believed(tmp_path: Path) -> None:
    source = tmp_path / "urls"
    source.write_text("F+ http://a.test/\n")
    assert uris(read(source)) == [CrawlUri("http://a.test/")]
    [refused] = read(source, "list")
    assert isinstance(refused, BadRecord) and "more than one entry on a line" in refused.detail
    assert uris(read(tmp_path, "qcrawl")) == []


# -- A job of Heritrix


def launch(job: Path, time: str, **journals: str) -> Path:
    logs = job / time / "logs"
    logs.mkdir(parents=True)
    for ending, text in journals.items():
        (logs / f"frontier.recover.gz{ending.replace('_', '.') if ending != 'live' else ''}").write_bytes(
            gzip.compress(text.encode())
        )
    return logs


def test_the_journals_of_a_job_are_read_in_order_with_those_of_checkpoints(tmp_path: Path) -> None:
    launch(tmp_path, "20260101000000", live="F+ http://old.test/\n")
    launch(
        tmp_path,
        "20260102000000",
        _cp00001="F+ http://a.test/\nF+ http://a.test/1 L http://a.test/\n",
        live="Fs http://a.test/\nF+ http://a.test/2 L http://a.test/\n",
    )
    (tmp_path / "crawler-beans.cxml").write_text("<beans/>")
    assert formats.kind_of(str(tmp_path)) == "heritrix"
    items = read(tmp_path)
    found = [(item.uri.url, item.seen) for item in items if isinstance(item, Record)]
    assert found == [
        ("http://a.test/", True), ("http://a.test/", False), ("http://a.test/1", False), ("http://a.test/2", False),
    ]  # fmt: skip
    assert "of earlier launches: " + str(tmp_path / "20260101000000") in notes(items)[1]
    assert [uri.url for uri in uris(read(tmp_path / "20260101000000"))] == ["http://old.test/"]


def test_a_job_without_a_journal_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "crawler-beans.cxml").write_text("<beans/>")
    with pytest.raises(FrontierError, match=r"there is no frontier.recover.gz; set recoveryLogEnabled"):
        read(tmp_path)
    logs = launch(tmp_path, "20260102000000")
    (logs / "frontier.recover.gz").touch()
    assert "is empty: Heritrix writes 32 KiB at a time" in notes(read(tmp_path))[1]
