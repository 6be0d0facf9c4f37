"""Where seeds are: at the head of a queue, leased, for later, dead, only seen, or never scheduled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Outcome, Reader
from budgetfrontier.model import DeadLetter, Directive
from budgetfrontier.reports.seed_fates import SeedLog, seed_rows
from budgetfrontier.store.seed_places import Place, seed_places
from budgetfrontier.store.view import PendingUri
from tests.support import START, on_disk, one


def places(folder: Path, *urls: str, **options: Any) -> dict[str, Place]:
    with Reader(folder / "frontier") as reader, reader.view() as view:
        return seed_places(view, urls, **options)


def seed(url: str, **fields: Any) -> CrawlUri:
    return CrawlUri(url, directive=Directive.MEDIUM, **fields)


def test_each_seed_is_found_where_it_is(tmp_path: Path) -> None:
    with on_disk(tmp_path, concurrency=1) as f:
        f.schedule(seed("https://dead.test/"))
        f.finish(one(f), Outcome.DEAD, reason="poison")
        f.schedule(seed("https://done.test/"))
        f.finish(one(f))
        f.schedule(seed("https://out.test/"))
        one(f)
        f.schedule_many(f"https://wait.test/{n}" for n in range(50))
        f.schedule_many([seed("https://wait.test/seed"), seed("https://forced.test/", queue="other")])
        f.schedule(seed("https://later.test/", not_before=START + 1000))
        f.commit()
        names = ("dead", "done", "out", "later", "never")
        found = places(
            tmp_path,
            *(f"https://{name}.test/" for name in names),
            "https://wait.test/seed",
            "https://wait.test/7",
            "https://forced.test/",
            queues={"https://forced.test/": "other", "https://done.test/": ""},
        )
    dead, out, later, waiting, forced = (
        found[f"https://{name}"].record
        for name in ("dead.test/", "out.test/", "later.test/", "wait.test/seed", "forced.test/")
    )
    assert isinstance(dead, DeadLetter) and dead.reason == "poison"
    assert isinstance(out, PendingUri) and out.leased
    assert isinstance(later, PendingUri) and later.when == START + 1000
    assert isinstance(waiting, PendingUri) and (waiting.place, waiting.leased) == (0, False)
    assert isinstance(forced, PendingUri) and forced.queue == "other"
    assert found["https://done.test/"] == Place("done.test", True)
    assert found["https://never.test/"] == Place("", False, may_wait=True)
    assert found["https://wait.test/7"] == Place("", True, may_wait=True), "a link is not looked for"


@pytest.mark.parametrize("keep_urls", [False, True])
def test_a_seed_is_found_in_whatever_queue_it_is(tmp_path: Path, keep_urls: bool) -> None:
    urls = [f"https://a.test/{name}" for name in ("waits", "out", "later", "dead", "done", "link")]
    with on_disk(tmp_path, concurrency=2, keep_urls=keep_urls, retry={"delay": 60, "scope": "uri"}) as f:
        f.schedule_many(["https://a.test/", "https://b.test/"])
        f.schedule_many(seed(f"https://a.test/before{n}", queue="one", priority=9) for n in range(3))
        f.schedule_many(seed(url, queue="one") for url in (urls[0], urls[1]))
        f.schedule(seed(urls[2], queue="two", not_before=START + 1000))
        f.schedule_many(seed(url, queue="three") for url in urls[3:5])
        f.schedule_many(CrawlUri(f"https://a.test/link{n}", queue="one") for n in range(3))
        f.schedule(CrawlUri(urls[5], queue="one"))
        leases = {lease.uri.url: lease for _ in range(9) for lease in f.lease(9)}
        f.finish(leases[urls[3]], Outcome.DEAD, reason="poison")
        f.finish(leases[urls[4]])
        f.commit()
        f.check()
        found = places(tmp_path, *urls, queues={urls[4]: ""})
    records = [found[url].record for url in urls]
    waits, out, later, dead, done, link = records
    assert isinstance(waits, PendingUri) and (waits.queue, waits.place, waits.leased) == ("one", 3, False)
    assert isinstance(later, PendingUri) and (later.queue, later.when) == ("two", START + 1000)
    assert isinstance(dead, DeadLetter) and dead.queue == "three"
    assert isinstance(out, PendingUri) and out.place == 4
    assert done is None and found[urls[4]].queue == ("three" if keep_urls else "a.test") and not found[urls[4]].may_wait
    if keep_urls:
        assert isinstance(link, PendingUri) and (link.queue, link.place) == ("one", 8)
    else:
        assert found[urls[5]] == Place("", True, may_wait=True)


def test_a_seed_that_was_scheduled_twice_is_said_to_wait(tmp_path: Path) -> None:
    url = "https://a.test/"
    with on_disk(tmp_path, keep_urls=True) as f:
        f.schedule_many([seed(url), seed(url, force=True, queue="other")])
        f.delete(queue="other")
        f.commit()
    found = places(tmp_path, url)
    assert (found[url].record, found[url].waits) == (None, True)
    (row,) = seed_rows(SeedLog([url]), found, {}, logged=True)
    assert (row["status"], row["detail"]) == ("PENDING", "scheduled more than once, and not known where it waits")
