"""WARC files: what went over the wire is in them, two readers read it back, no crash and no header breaks a record."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

import brotlicffi
import pytest
from fastwarc.warc import ArchiveIterator as FastIterator
from fastwarc.warc import WarcRecordType
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from budgetfrontier import Settings
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.crawler.cache import Original
from budgetfrontier.crawler.outputs import warc_records
from budgetfrontier.crawler.outputs.warc import WarcFiles, is_unchanged, warcinfo
from tests.crawler.warcs import Known, answer, lease, read, settings, sha1, write
from tests.support import PATIENCE

RESPONSES = WarcRecordType.response
ROOT = Path(__file__).parents[2]
EMPTY = "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"


def test_a_page_becomes_three_records(tmp_path: Path) -> None:
    sent = answer(headers=[(b"Server", b"x"), (b"X-Crazy", b"\xfc"), (b"SERVER", b"y")])
    path = write(tmp_path, (lease(source="list\n1"), sent))
    info, response, request, metadata = read(path)
    assert info["warc-type"] == "warcinfo" and info["warc-filename"] == path.name
    assert response["warc-type"] == "response" and response["content-type"] == "application/http; msgtype=response"
    assert response["http"] == ["HTTP/1.1 200 OK", ("Server", "x"), ("X-Crazy", "ü"), ("SERVER", "y")]
    assert response["payload"] == b"<p>hello"
    assert response["warc-ip-address"] == "192.0.2.7"
    assert response["warc-payload-digest"] == "sha1:6VMT7HTE2K745SIQUUYG3CKPEJVFD5GH"
    assert request["warc-type"] == "request" and request["content-type"] == "application/http; msgtype=request"
    assert request["http"] == ["GET /a?b HTTP/1.1", ("Host", "example.org"), ("Authorization", "-")]
    assert metadata["payload"] == (
        b"via: https://example.org/\r\nhopsFromSeed: L\r\nsourceTag: list 1\r\nfetchTimeMs: 42\r\n"
    )
    for record in (response, request, metadata):
        assert record["warc-target-uri"] == "https://example.org/a?b"
        assert record["warc-date"] == "2026-11-21T22:30:00.250000Z"
        assert record["warc-warcinfo-id"] == info["warc-record-id"]
    for record in (request, metadata):
        assert record["warc-concurrent-to"] == response["warc-record-id"]
    assert len({record["warc-record-id"] for record in (info, response, request, metadata)}) == 4


@pytest.mark.parametrize(
    ("body", "raw", "headers", "more"),
    [
        (b"<p>x" * 500, gzip.compress(b"<p>x" * 500), [(b"Content-Encoding", b"gzip")], {}),
        (b"<p>x" * 500, brotlicffi.compress(b"<p>x" * 500), [(b"Content-Encoding", b"br")], {}),
        (b"<p>x", b"<p>x", [(b"Transfer-Encoding", b"chunked")], {}),
        (b"a\r\nlooks like a chunk\r\n0\r\n\r\n", None, [(b"transfer-encoding", b"chunked")], {}),
        (b"", b"", [(b"Content-Length", b"0")], {}),
        (bytes(range(256)) * 99, None, [(b"Content-Type", b"image/png")], {}),
        (b"\r\n\r\nWARC/1.1\r\nWARC-Type: response\r\n\r\n", None, [], {}),
        (b"", b"", [], {"status": 204, "phrase": ""}),
        (b"<p>", b"<p>", [], {"version": "2.7", "phrase": "\udcff\r\nX: y"}),
        (b"<p>", b"<p>", [(b"Content-Length", b"99999")], {"notes": ["lenTrunc"]}),
    ],
    ids=["gzip", "brotli", "chunked", "seems chunked", "empty", "binary", "WARC", "no phrase", "odd status", "cut"],
)
def test_the_payload_is_what_was_sent(
    tmp_path: Path, body: bytes, raw: bytes | None, headers: list[tuple[bytes, bytes]], more: dict[str, Any]
) -> None:
    raw = body if raw is None else raw
    path = write(tmp_path, (lease(), answer(raw, body=body, headers=headers, **more)))
    response = read(path)[1]
    assert response["payload"] == raw
    if not raw:
        assert response["warc-payload-digest"] == EMPTY
    with path.open("rb") as file:  # and as a player of archives would show it
        [shown] = [record.reader.read() for record in FastIterator(file, auto_decode="all", record_types=RESPONSES)]
    assert shown == body


@pytest.mark.parametrize(
    ("note", "reason"), [("lenTrunc", "length"), ("timeTrunc", "time"), ("disconnectTrunc", "disconnect"), ("x", None)]
)
def test_what_was_cut_says_so(tmp_path: Path, note: str, reason: str | None) -> None:
    known = Known()
    twice = [(lease(), answer(notes=[note]))] * 2
    written = [record for record in read(write(tmp_path, *twice, known=known)) if "warc-payload-digest" in record]
    assert [record.get("warc-truncated") for record in written] == ([reason] * 2 if reason else [None] * 2)
    assert bool(known.originals) is (reason is None)  # half a page stands for no other


def test_content_that_was_written_is_not_written_again(tmp_path: Path) -> None:
    known = Known()
    pairs = [
        (lease("https://a.org/"), answer(headers=[(b"A", b"1")])),
        (lease("https://b.org/"), answer(headers=[(b"A", b"2")])),
    ]
    first, second = (record for record in read(write(tmp_path, *pairs, known=known)) if "warc-payload-digest" in record)
    assert (first["warc-type"], second["warc-type"]) == ("response", "revisit")
    assert second["warc-profile"] == "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    assert second["warc-refers-to"] == first["warc-record-id"]
    assert second["warc-refers-to-target-uri"] == "https://a.org/"
    assert second["warc-refers-to-date"] == first["warc-date"]
    assert second["warc-payload-digest"] == first["warc-payload-digest"]
    assert second["http"] == ["HTTP/1.1 200 OK", ("A", "2")] and second["payload"] == b""


@pytest.mark.parametrize(("revisits", "said"), [(True, [True, False, None, None]), (False, [None] * 4)])
def test_whether_a_payload_is_new(tmp_path: Path, revisits: bool, said: list[bool | None]) -> None:
    files = WarcFiles(tmp_path, settings(warc_revisits=revisits), cache=Known())
    answers = [answer(), answer(), answer(b""), answer(b"half", notes=["lenTrunc"])]
    assert [files.write(lease(), given, sha1(given.raw)) for given in answers] == said
    assert files.write(lease(), answer(b"", status=304), b"") is False
    files.close()


def test_a_page_that_has_not_changed_since_its_last_visit() -> None:
    digest = sha1(b"<p>hello")
    same = CrawlUri("https://a.org/", meta={"digest": f"sha1:{base64.b32encode(digest).decode()}"})
    assert is_unchanged(same, answer(), digest)
    assert not is_unchanged(same, answer(b"new"), sha1(b"new"))
    assert not is_unchanged(CrawlUri("https://a.org/"), answer(b""), b"")


def test_revisit_records_can_be_turned_off_and_nothing_is_no_content(tmp_path: Path) -> None:
    pairs = [(lease(), answer())] * 2
    kinds = [record["warc-type"] for record in read(write(tmp_path / "off", *pairs, warc_revisits=False))]
    assert kinds.count("response") == 2
    pairs = [(lease(), answer(b""))] * 2
    kinds = [record["warc-type"] for record in read(write(tmp_path / "empty", *pairs))]
    assert kinds.count("response") == 2


@pytest.mark.parametrize(
    "meta", [{"digest": "sha1:6VMT7HTE2K745SIQUUYG3CKPEJVFD5GH"}, {"digest": "ü"}, {"digest": 1}, [2]]
)
@pytest.mark.parametrize("revisits", [True, False])
def test_a_page_that_did_not_change(tmp_path: Path, meta: Any, revisits: bool) -> None:
    known = Known()
    known.put_original(
        sha1(b"<p>hello"), Original(url="https://a.org/", date="2026-01-01T00:00:00Z", record_id="<urn:x>")
    )
    unchanged = answer(b"", status=304, phrase="Not Modified", headers=[(b"ETag", b'"1"')])
    path = write(tmp_path, (lease(meta=meta), unchanged), known=known, warc_revisits=revisits)
    revisit = read(path)[1]
    assert revisit["warc-type"] == "revisit" and revisit["http"] == ["HTTP/1.1 304 Not Modified", ("ETag", '"1"')]
    assert revisit["warc-profile"] == "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
    if isinstance(meta, dict) and str(meta["digest"]).startswith("sha1:"):
        assert revisit["warc-refers-to"] == "<urn:x>" and revisit["warc-refers-to-date"] == "2026-01-01T00:00:00Z"
        assert revisit["warc-payload-digest"] == meta["digest"]
    else:
        assert not {name for name in revisit if name.startswith("warc-refers")}


def test_the_first_record_has_the_configuration_without_passwords() -> None:
    given = Settings.from_dict(
        {
            "crawl": "c",
            "seeds": ["https://me:secret@example.org/?a=b@c"],
            "fetch": {
                "user_agent": "bot (+https://example.org/bot)",
                "robots": "ignore",
                "proxy": "http://me:secret@proxy:3128",
                "requests": [{"headers": {"X-Key": "secret"}, "cookies": {"id": "secret"}, "auth": "me:secret"}],
            },
        }
    )
    fields = dict(line.split(": ", 1) for line in warcinfo(given).decode().splitlines())
    assert fields["format"] == "WARC File Format 1.1" and re.fullmatch(r"budgetfrontier/\d+\..*", fields["software"])
    assert fields["isPartOf"] == "c" and fields["robots"] == "ignore"
    assert fields["http-header-user-agent"] == "bot (+https://example.org/bot)"
    assert "secret" not in fields["configuration"]
    configuration = json.loads(fields["configuration"])
    assert configuration["fetch"]["proxy"] == "http://-@proxy:3128"
    assert configuration["fetch"]["requests"][0]["headers"] == {"X-Key": "-"}
    assert configuration["seeds"][0]["url"] == "https://-@example.org/?a=b@c"
    assert Settings.from_dict(configuration).output == given.output


# Hostile headers


hostile = st.one_of(st.binary(max_size=40), st.sampled_from([b"", b"\r\n\r\n", b"\0", b":", b" "]))


@examples(max_examples=60, deadline=None)
@given(
    headers=st.lists(st.tuples(hostile, hostile), max_size=4),
    asked=st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=2),
    phrase=st.text(max_size=9),
    via=st.text(max_size=9),
    raw=st.binary(max_size=50),
)
def test_no_header_breaks_a_record(
    headers: list[tuple[bytes, bytes]], asked: list[tuple[str, str]], phrase: str, via: str, raw: bytes
) -> None:
    sent = answer(raw, headers=headers, request_headers=asked, phrase=phrase)
    with tempfile.TemporaryDirectory() as folder:
        rows = read(write(Path(folder), (lease(via=via), sent), (lease(), answer(b"after it"))))
    assert [row["warc-type"] for row in rows[1:]] == ["response", "request", "metadata"] * 2
    assert rows[1]["payload"] == raw and rows[4]["payload"] == b"after it"
    header = warc_records.response_header(sent)
    assert header.count(b"\r\n") == header.count(b"\n") == header.count(b"\r") == len(headers) + 2


def test_a_huge_header_breaks_no_record(tmp_path: Path) -> None:
    pages = [(lease(), answer(headers=[(b"X", b"\xff" * 200_000)])), (lease(), answer(b"after it"))]
    assert read(write(tmp_path, *pages))[4]["payload"] == b"after it"


# Files


def test_a_file_is_open_until_it_is_closed(tmp_path: Path) -> None:
    files = WarcFiles(tmp_path, settings(), cache=Known())
    assert not list(tmp_path.iterdir())  # nothing yet, and nothing at all if no page comes
    files.write(lease(), answer(), sha1(b"<p>hello"))
    [path] = tmp_path.iterdir()
    assert re.fullmatch(rf"my_crawl_1-20\d{{15}}-00000-{os.getpid()}~.+\.warc\.gz\.open", path.name)
    files.sync()
    assert len(read(path)) == 4
    files.close()
    [path] = tmp_path.iterdir()
    assert path.name.endswith(".warc.gz") and len(read(path)) == 4


def test_a_new_file_begins_when_one_has_grown_enough(tmp_path: Path) -> None:
    files = WarcFiles(tmp_path, settings(warc_size=4096, warc_prefix="p"), cache=Known())
    for number in range(12):
        raw = os.urandom(1000)
        files.write(lease(f"https://example.org/{number}"), answer(raw), sha1(raw))
        assert len(list(tmp_path.glob("*.open"))) == 1
    files.close()
    paths = sorted(tmp_path.iterdir())
    assert [path.name.split("-")[2] for path in paths] == [f"{serial:05d}" for serial in range(len(paths))]
    assert len(paths) > 2 and all(path.name.startswith("p-") for path in paths)
    urls = []
    for path in paths:
        info, *rows = read(path)
        assert info["warc-type"] == "warcinfo" and len(rows) % 3 == 0  # what belongs together is in one file
        assert path.stat().st_size < 4096 + 2500
        urls += [row["warc-target-uri"] for row in rows[::3]]
    assert urls == [f"https://example.org/{number}" for number in range(12)]


def test_without_a_size_a_run_writes_one_file(tmp_path: Path) -> None:
    files = WarcFiles(tmp_path, settings(warc_size=0), cache=Known())
    for _ in range(3):
        raw = os.urandom(1000)
        files.write(lease(), answer(raw), sha1(raw))
    files.close()
    (path,) = tmp_path.iterdir()
    assert len(read(path)) == 10


def test_warcio_check_finds_nothing(tmp_path: Path) -> None:
    packed = answer(brotlicffi.compress(b"<p>x" * 500), headers=[(b"Content-Encoding", b"br")])
    answers = [answer(), answer(), answer(b"", status=304), packed]
    path = write(tmp_path, *((lease(), given) for given in answers))
    # Without the package brotli, which fastwarc brings: warcio 1.8 does not get along with it.
    check = "import sys; sys.modules['brotli'] = None; from warcio.cli import main; main()"
    command = [sys.executable, "-c", check, "check", "-v", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0 and done.stdout.count("digest pass") == 11 and "fail" not in done.stdout


def test_the_first_record_says_who_answers_for_the_crawl_and_what_it_collects() -> None:
    said = warcinfo(settings(warc_operator="A Library\n<web@library.example>", warc_description="Sites of 2026"))
    assert b"\r\noperator: A Library <web@library.example>\r\ndescription: Sites of 2026\r\n" in said
    assert not re.search(rb"^(operator|description):", warcinfo(settings()), re.MULTILINE)


def test_the_reader_of_the_extra_checks_and_shows_every_encoding(tmp_path: Path) -> None:
    page = b"<p>x" * 500
    packed = {b"br": brotlicffi.compress(page), b"zstd": zstd.compress(page), b"gzip": gzip.compress(page)}
    answers = [answer(body, headers=[(b"Content-Encoding", name)]) for name, body in packed.items()]
    path = write(tmp_path, *((lease(), given) for given in answers))
    command = [sys.executable, "-m", "fastwarc.cli", "check", "--quiet", "--verify-payloads", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert list(documented_pages(path)) == [page] * 3


def test_the_documented_reader_reads_on_after_encodings_that_are_unknown_or_wrong(tmp_path: Path) -> None:
    page, packed = b"<p>x" * 500, gzip.compress(b"<p>x" * 500)
    bodies = {
        b"x-gzip": (packed, page),
        b"gzip": (page, page),
        b"GZIP": (packed[:-9], page),
        b"gzip, gzip": (gzip.compress(packed), page),
        b"deflate": (zlib.compress(page, wbits=-15), page),
        **dict.fromkeys((b"utf-8", b"none", b"aws-chunked", b"compress", b"br", b"zstd"), (page, page)),
    }
    answers = [answer(sent, headers=[(b"Content-Encoding", name)]) for name, (sent, _) in bodies.items()]
    long = answer(page, headers=[(b"Set-Cookie", b"x" * 40_000)])
    path = write(tmp_path, *((lease(), given) for given in [*answers, long]), warc_revisits=False)
    assert list(documented_pages(path)) == [shown for _, shown in bodies.values()] + [page]


def documented_pages(path: Path) -> Iterator[bytes]:
    """The bodies in a WARC file, as the documentation reads them."""
    python = re.search(r"```python\n(.*?)```", (ROOT / "docs/howto/warc.md").read_text(encoding="utf-8"), re.DOTALL)
    assert python
    example: dict[str, Any] = {}
    exec(python[1], example)
    yield from (shown for _, shown in example["pages"](path))
