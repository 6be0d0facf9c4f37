"""Bad and unusual input: no call harms another, and the server goes on."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from budgetfrontier import Settings
from budgetfrontier.server.urlfrontier import service
from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as m
from tests.server.urlfrontier.service_client import OK, SKIPPED, Client, discovered, info, known, serving
from tests.support import logged

INVALID, NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND


@pytest.fixture
def client(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Client]:
    """A client of a server on which no frontier is closed by an error, and no call fails."""
    with serving(tmp_path / "jobs") as client:
        assert client.put(discovered("http://a.test/1")) == [OK]
        yield client
        assert client.GetStats(crawlID="c").size >= 1
    assert not logged(caplog, "budgetfrontier", "grpc", "asyncio", level=logging.ERROR)


def refused(call: Callable[..., Any], *args: Any, **fields: Any) -> grpc.StatusCode:
    """The status with which a call is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        call(*args, **fields)
    return caught.value.code()


@pytest.mark.parametrize("url", ["", "nonsense", "http://", "mailto:a@b.test", "http://a.test/" + "x" * 100_000])
def test_what_is_no_url(client: Client, url: str) -> None:
    assert client.put(discovered(url, id="1"), known(url, id="2"), known(url, 5, id="3")) == [SKIPPED] * 3
    assert client.put(discovered(url, id="1", bf_budget=5), known(url, id="2", bf_budget=5)) == [SKIPPED] * 2
    assert refused(client.GetURLStatus, crawlID="c", url=url) is (NOT_FOUND if url else INVALID)
    assert client.get() == ["http://a.test/1"]  # no budget was set


@pytest.mark.parametrize("budget", ["-5", "-1", str(10**30), "1.5", "", "9" * 5000])
def test_a_budget_that_is_none_is_ignored(client: Client, budget: str) -> None:
    assert client.put(discovered("http://b.test/", bf_budget=budget)) == [OK]
    assert sorted(client.get()) == ["http://a.test/1", "http://b.test/"]


@pytest.mark.parametrize("number", ["9" * 4300, "-" + "9" * 30, "9" * 5000, "much"])
def test_a_cost_or_a_priority_out_of_range_harms_no_url(client: Client, number: str) -> None:
    assert client.put(discovered("http://b.test/", bf_cost=number, bf_priority=number)) == [OK]
    assert sorted(client.get()) == ["http://a.test/1", "http://b.test/"]


def test_a_budget_is_that_of_the_queue_of_the_normalized_url(client: Client) -> None:
    assert client.put(*[discovered(f"http://B.test/{n}", bf_budget=1, bf_cost=2) for n in range(3)]) == [OK] * 3
    assert len(client.get(key="b.test")) == 1
    assert client.put(discovered("http://b.test/4", bf_budget=100)) == [OK]


@pytest.mark.parametrize("key", ["k" * 256, "k" * 600, "ü" * 128])
def test_a_key_that_is_too_long(client: Client, key: str) -> None:
    url = "http://a.test/2"
    assert client.put(discovered(url, key=key, id="1"), known(url, key=key, id="2")) == [SKIPPED] * 2
    assert client.get(key=key) == []
    assert client.GetStats(crawlID="c", key=key).size == 0
    assert client.DeleteQueue(crawlID="c", key=key).value == 0
    client.BlockQueueUntil(crawlID="c", key=key, time=1 << 40)
    client.SetDelay(crawlID="c", key=key, delay_requestable=5)


@pytest.mark.parametrize("key", ["k" * 256, "ü" * 128, "a\0b"])
def test_a_report_whose_key_cannot_be_one_ends_the_lease_of_its_url(client: Client, key: str) -> None:
    url = "http://a.test/1"
    for date, completed in ((1 << 40, 0), (0, 1)):
        assert client.get() == [url]
        assert client.put(known(url, date, key=key)) == [OK]
        stats = client.GetStats(crawlID="c", key="a.test")
        assert (stats.size, stats.inProcess, stats.counts["completed"]) == (1 - completed, 0, completed)
        client.SetDelay(crawlID="c", key="a.test", delay_requestable=0)
        assert client.put(known(url, 1)) == [OK]


@pytest.mark.parametrize(
    ("lost", "why"),
    [
        (discovered("http://a.test/2", key="k" * 256), "more than 255 bytes"),
        (known("http://a.test/2", key="a\0b"), "a character that keys cannot have"),
        (discovered("http://a.test/2", text="x" * (1 << 21)), "too many to be stored"),
        (discovered("http://a.test/2", "x" * 1000), "is too long"),
    ],
)
def test_what_is_lost_is_logged_once_a_minute(
    client: Client, caplog: pytest.LogCaptureFixture, lost: Any, why: str
) -> None:
    for _ in range(2):
        assert client.put(lost, discovered("http://a.test/1"), discovered("mailto:a@b.test")) == [SKIPPED] * 3
    [line] = [record.getMessage() for record in caplog.records if "SKIPPED" in record.getMessage()]
    assert why in line


@pytest.mark.parametrize(
    ("url", "key", "kept"),
    [
        ("http://www.H.test/", "www.H.test", "www.h.test"),
        ("http://me:word@h.test/", "me:word@h.test", "me:word@h.test"),
        ("http://h.test:80/", "h.test:80", "h.test"),
        ("http://0x7f.1/", "0x7f.1", "127.0.0.1"),
        ("http://bücher.test/", "bücher.test", "xn--bcher-kva.test"),
        ("http://[0::1]/", "[0::1]", "[::1]"),
        ("http://h.test/", "h.test", "h.test"),
        ("http://h.test/", "Mine", "Mine"),
    ],
)
def test_a_key_that_is_given_is_kept_but_for_the_spelling_of_its_host(
    client: Client, url: str, key: str, kept: str
) -> None:
    assert client.put(discovered(url, "k", key)) == [OK]
    assert client.ListQueues(crawlID="k").values == [kept]
    assert [found.key for found in client.GetURLs(crawlID="k", key=key)] == [kept]


@pytest.mark.parametrize(
    "policy", ["hostname", {"hostname": {"limit": 2}}, "registered-domain", "single", "surt-authority"]
)
def test_a_key_that_is_given_is_kept_whatever_assigns_the_others(tmp_path: Path, policy: Any) -> None:
    frontier = {"queue_assignment_policy": policy}
    with serving(tmp_path / "jobs", settings=Settings.from_dict({"profile": "served", "frontier": frontier})) as client:
        given = discovered("http://www.h.test/1", key="www.h.test"), known("http://www.h.test/2", key="www.h.test")
        assert client.put(*given) == [OK, OK]
        assert client.ListQueues(crawlID="c").values == ["www.h.test"]
        assert client.GetURLStatus(crawlID="c", url="http://www.h.test/2").known.info.key == "www.h.test"
        assert client.get(key="www.h.test") == ["http://www.h.test/1"]


def test_a_report_with_a_date_moves_a_url_to_the_queue_of_its_host(client: Client) -> None:
    url = "http://h1.test/5"
    client.put(discovered(url, "k", "alpha"))
    assert client.put(known(url, 5, "k", "h1.test")) == [OK]
    assert client.GetURLStatus(crawlID="k", url=url).known.info.key == "h1.test"


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://WWW.h.test/", "www.h.test"),
        ("http://me:word@h.test:81/", "h.test:81"),
        ("http://[0::1]/", "[::1]"),
        ("https://[::1]:8443/a?b", "[::1]:8443"),
    ],
)
def test_a_key_that_is_derived(client: Client, url: str, key: str) -> None:
    assert client.put(discovered(url, "k"), known(url + "x", crawl="k")) == [OK, OK]
    assert client.ListQueues(crawlID="k", include_inactive=True).values == [key]
    assert client.GetURLStatus(crawlID="k", url=url + "x").known.info.key == key


def test_urls_that_are_dumped_and_put_again_come_in_the_order_of_their_dates(client: Client) -> None:
    """As by DumpURLs and PutURLs of URLFrontier's client, with a line of JSON for each URL."""
    now = int(time.time())
    past = {"third": now - 20, "first": 1, "fourth": now - 2, "second": now - 10_000}
    dates = {f"http://d.test/{name}": date for name, date in {**past, "next": now + 9000, "after": now + 9999}.items()}
    given = [known(url, date, "k") for url, date in dates.items()]
    assert client.put(*given, known("http://d.test/completed", 0, "k")) == [OK] * 7
    assert client.get("k", max_urls_per_queue=1) == ["http://d.test/first"]  # the others have come to their queue
    lines = [json_format.MessageToJson(item, indent=None) for item in client.ListURLs(crawlID="k", size=100)]
    client.DeleteCrawl(value="k")
    assert client.put(*[json_format.Parse(line, m.URLItem()) for line in lines]) == [OK] * 7
    listed = {item.known.info.url: item.known.refetchable_from_date for item in client.ListURLs(crawlID="k", size=100)}
    assert listed == {**dates, "http://d.test/completed": 0}
    ordered = [f"http://d.test/{name}" for name in ("first", "second", "third", "fourth")]
    assert client.get("k", max_urls_per_queue=9) == ordered


@pytest.mark.parametrize("date", [1 << 40, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_dates_without_end(client: Client, date: int) -> None:
    assert client.put(known("http://a.test/1", date), known("http://a.test/2", date)) == [OK, OK]
    assert client.put(known("http://a.test/1", date)) == [OK]
    assert client.GetURLStatus(crawlID="c", url="http://a.test/1").known.refetchable_from_date >= 1 << 40
    assert client.get() == []
    client.BlockQueueUntil(crawlID="c", key="a.test", time=date)
    assert client.ListQueues(crawlID="c").values == []
    client.BlockQueueUntil(crawlID="c", key="a.test", time=0)
    assert client.ListQueues(crawlID="c").values == ["a.test"]


def test_the_largest_numbers(client: Client) -> None:
    most = (1 << 32) - 1
    client.SetCrawlLimit(crawlID="c", key="a.test", limit=most)
    assert client.PurgeURLs(crawlID="c", days=most).value == 0
    assert client.get(max_urls_per_queue=most, max_queues=most, delay_requestable=most) == ["http://a.test/1"]
    assert len(client.ListURLs(crawlID="c", size=most)) == 1
    assert client.ListURLs(crawlID="c", start=most, size=most) == []
    client.SetDelay(crawlID="c", key="a.test", delay_requestable=most)


@pytest.mark.parametrize("crawl", ["../x", "", "a/b", ".", "..", " ", "\0", "a%2Fb", "%", "ü", "x" * 200])
def test_any_crawl_id(client: Client, tmp_path: Path, crawl: str) -> None:
    assert client.put(discovered("http://a.test/1", crawl)) == [OK]
    assert client.get(crawl) == ["http://a.test/1"]
    assert set(client.ListCrawls().values) == {"c", crawl or "DEFAULT"}
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["jobs"]
    assert client.DeleteCrawl(value=crawl).value == 1
    assert client.ListCrawls().values == ["c"]


def test_a_crawl_id_that_is_too_long(client: Client) -> None:
    long = "x" * 1000
    assert client.put(discovered("http://a.test/1", long), discovered("http://a.test/2")) == [SKIPPED, OK]
    [batch] = client.PutDiscovered([m.DiscoveredBatch(items=[info("http://a.test/1", long), info("http://a.test/3")])])
    assert list(batch.statuses) == [SKIPPED, OK]
    for call in (client.GetURLs, client.GetStats, client.ListURLs):
        assert refused(call, crawlID=long) is INVALID
    assert refused(client.DeleteCrawl, value=long) is INVALID


def test_malformed_messages(client: Client) -> None:
    assert refused(client.PutURLs, [b"\xff\xff\xff"]) is INVALID
    assert refused(client.GetStats, b"\x0a\x02\xff\xfe") is INVALID
    assert refused(client.GetURLs, b"\x08") is INVALID
    assert refused(client.SetLogLevel, b"\x10\x63") is INVALID
    assert [ack.status for ack in client.PutURLs([m.URLItem()])] == [SKIPPED]
    assert [list(ack.statuses) for ack in client.PutDiscovered([m.DiscoveredBatch(ID="1")])] == [[]]


@pytest.mark.parametrize("step", [1, 3, 12])
def test_lists_counts_and_deletions_take_any_number_of_pages(
    client: Client, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "STEP", step)
    urls = {f"http://{host}.test/{n}" for host in "bcde" for n in range(3)}
    client.put(*[discovered(url, "k") for url in urls])
    listed = [client.ListURLs(crawlID="k", start=start, size=5) for start in (0, 5, 10, 15)]
    assert [len(page) for page in listed] == [5, 5, 2, 0]
    assert {item.known.info.url for page in listed for item in page} == urls
    assert client.CountURLs(crawlID="k").value == 12
    queues = [client.ListQueues(crawlID="k", start=start, size=3) for start in (0, 3)]
    assert [page.values for page in queues] == [["b.test", "c.test", "d.test"], ["e.test"]]
    client.put(known("http://f.test/", crawl="k"))
    queues.append(client.ListQueues(crawlID="k", include_inactive=True))
    assert [page.total for page in queues] == [4, 4, 5]
    assert client.DeleteQueue(crawlID="k", key="b.test").value == 3
    assert client.PurgeURLs(crawlID="k", days=0).value == 10
    assert client.CountURLs(crawlID="k").value == 0
    assert client.CountURLs(crawlID="none").value == 0 and client.ListQueues(crawlID="none").values == []
