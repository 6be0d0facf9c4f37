"""A crawl of Scrapy's own scheduler goes on with the frontier's, in the same JOBDIR, by the same spider."""

from __future__ import annotations

import pickle
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider, version_info
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware

from budgetfrontier.tools.cli import main
from tests.scrapy.crawler import drain, scheduler


class Sample(Spider):  # type: ignore[misc]
    """The spider of tests/data/make_jobdirs.py."""

    name = "sample"

    def parse_item(self, response: Any, n: int) -> None: ...


@pytest.mark.parametrize("queue", ["1.8.3/PickleFifoDiskQueue", "2.19.0/PickleLifoDiskQueue"])
def test_requests_of_a_jobdir_come_back_with_their_callbacks(
    peers: Path, tmp_path: Path, queue: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job"
    shutil.copytree(peers / "scrapy" / queue, job)
    with scheduler(job, spider=Sample):
        pass  # it makes the frontier
    assert main(["import", str(job), str(job)]) == 0
    assert "to go on: start the program that opened it again, as before\n" in capsys.readouterr().err
    with scheduler(job, spider=Sample) as resumed:
        requests = drain(resumed)
        spider = resumed.crawler.spider
    found = {request.url: request for request in requests}
    assert sorted(found) == [f"http://a.test/{n}" for n in (1, 2, 3)] + ["http://b.test/1", "http://b.test/form"]
    item = found["http://b.test/1"]
    assert (item.callback, item.cb_kwargs, item.priority) == (spider.parse_item, {"n": 1}, -10)
    assert item.headers["Cookie"] == b"s=1"
    assert found["http://a.test/2"].meta["tags"] == ("x", 1) and found["http://a.test/2"].meta["depth"] == 2
    form = found["http://b.test/form"]
    assert (form.method, form.body, form.flags, form.dont_filter) == ("POST", b"q=x", ["f"], True)


def test_tuples_and_sets_come_back_as_they_were(tmp_path: Path) -> None:
    meta = {"pairs": [("a", 1), ("b", (2, frozenset((3,))))], "seen": {"x", ("y", 2)}, "plain": [1, [2]], "none": ()}
    given = {"url": "http://a.test/", "meta": meta, "callback": "parse_item", "cb_kwargs": {"n": (1, {2})}, "flags": []}
    queue = tmp_path / "job" / "requests.queue"
    queue.mkdir(parents=True)
    for name, protocol in ("0", 2), ("1", 4):
        value = pickle.dumps({**given, "dont_filter": True}, protocol)
        (queue / name).write_bytes(struct.pack(">L", 1) + value + struct.pack(">L", len(value)))
    job = queue.parent
    with scheduler(job, spider=Sample):
        pass  # it makes the frontier
    assert main(["import", str(job), str(job)]) == 0
    with scheduler(job, spider=Sample) as resumed:
        requests = drain(resumed)
    assert [request.meta for request in requests] == [meta, meta]
    assert [request.cb_kwargs for request in requests] == [given["cb_kwargs"]] * 2


def job_of(folder: Path, request: dict[str, Any]) -> Path:
    """A job with a frontier, and one request in Scrapy's own queue."""
    queue = folder / "job" / "requests.queue"
    queue.mkdir(parents=True)
    value = pickle.dumps(request, 4)
    (queue / "0").write_bytes(struct.pack(">L", 1) + value + struct.pack(">L", len(value)))
    with scheduler(queue.parent, spider=Sample):
        pass  # it makes the frontier
    return queue.parent


@pytest.mark.parametrize("cookies", [{"s": "1", "t": "2"}, [{"name": "s", "value": "1"}, {"name": "t", "value": "2"}]])
def test_cookies_come_back_where_scrapy_sends_them_from(tmp_path: Path, cookies: Any) -> None:
    job = job_of(tmp_path, {"url": "http://a.test/", "cookies": cookies})
    assert main(["import", str(job), str(job)]) == 0
    with scheduler(job, spider=Sample) as resumed:
        [request] = drain(resumed)
        spider = (resumed.crawler.spider,) if version_info < (2, 14) else ()
        CookiesMiddleware().process_request(request, *spider)  # drops the header for what it knows itself
    assert request.headers["Cookie"] == b"s=1; t=2"


@pytest.mark.parametrize("encoding", ["latin-1", "cp1251"])
def test_headers_come_back_in_the_encoding_of_their_request(tmp_path: Path, encoding: str) -> None:
    sent = Request("http://a.test/", headers={"X-City": "M\xfcnchen"}, encoding="latin-1").replace(encoding=encoding)
    job = job_of(tmp_path, sent.to_dict())
    assert main(["import", str(job), str(job)]) == 0
    with scheduler(job, spider=Sample) as resumed:
        [request] = drain(resumed)
    assert (request.encoding, request.headers["X-City"]) == (encoding, b"M\xfcnchen")


@pytest.mark.parametrize("encoding", ["punycode", "no-such-encoding", "zlib"])
def test_a_request_in_no_encoding_of_texts_is_told(
    tmp_path: Path, encoding: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = job_of(tmp_path, {"url": "http://a.test/", "headers": {b"X-A": [b"a"]}, "encoding": encoding})
    assert main(["import", str(job), str(job)]) == 1
    assert "no request of Scrapy (LookupError: " in capsys.readouterr().err
