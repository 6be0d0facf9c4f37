"""The table of kept URLs: what becomes of a URL, whatever moves its record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Admission
from budgetfrontier.engine.commands import runner
from budgetfrontier.engine.known_urls import Known
from budgetfrontier.errors import FrontierError

START = 1_700_000_000.0
NONE = {"delay_factor": 0, "min_delay": 0, "max_delay": 0}


def kept(clock: ManualClock | None = None, path: Path | str = ":memory:", **frontier: Any) -> Frontier:
    """Return a frontier that keeps its URLs."""
    settings = {"keep_urls": True, "hold_queues": False, "politeness": NONE, **frontier}
    return Frontier.open(path, Settings.from_dict({"frontier": settings}), clock=clock or ManualClock(START))


def waits(f: Frontier, url: str) -> str:
    """Return what a URL waits for."""
    found = f.find_url(url)
    return "unknown" if found is None else "nothing" if found.due is None else f"{found.due - START:.0f}"


def test_a_url_is_kept_from_its_admission_to_its_end() -> None:
    with kept() as f:
        f.schedule("http://a.test/1")
        assert waits(f, "http://a.test/1") == "0"
        [lease] = f.lease()
        assert waits(f, "http://a.test/1") == "0"
        f.finish(lease)
        assert waits(f, "http://a.test/1") == "nothing"
        assert waits(f, "http://a.test/2") == "unknown"
        f.check()


@pytest.mark.parametrize("outcome", [Outcome.FAILURE, Outcome.DISREGARDED, Outcome.DEAD])
def test_a_url_that_ends_without_success_waits_for_nothing(outcome: Outcome) -> None:
    with kept() as f:
        f.schedule("http://a.test/1")
        f.finish(f.lease()[0], outcome)
        assert waits(f, "http://a.test/1") == "nothing"
        f.replay()
        assert waits(f, "http://a.test/1") == ("0" if outcome is Outcome.DEAD else "nothing")


def test_a_retry_keeps_its_url_waiting() -> None:
    clock = ManualClock(START)
    with kept(clock, retry={"delay": 60, "scope": "uri"}) as f:
        f.schedule("http://a.test/1")
        f.finish(f.lease()[0], Outcome.RETRY)
        assert waits(f, "http://a.test/1") == "60"
        clock.advance(60)
        [lease] = f.lease()
        f.finish(lease)
        assert waits(f, "http://a.test/1") == "nothing"


@pytest.mark.parametrize("step", [1, 500])
def test_a_deletion_and_its_undo_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(runner, "STEP", step)
    clock = ManualClock(START)
    with kept(clock, tmp_path / "frontier") as f:
        f.schedule_many(urls := [f"http://{host}.test/{number}" for host in "ab" for number in range(3)])
        f.finish(f.lease()[0])
        f.schedule(CrawlUri(urls[0], force=True, not_before=START + 500))
        clock.advance(60)
        f.commit()
        before = [f.find_url(url) for url in urls]
        f.delete(queue="?.test")
        assert [waits(f, url) for url in urls] == ["unknown"] * 6
        assert f.mark_seen([urls[1]]).duplicate and f.internals.fetched([(CrawlUri(urls[2]), None)]) == [Known.ADDED]
        clock.advance(60)
        f.undo(f.audit()[-1].id)
        assert [f.find_url(url) for url in urls] == before
        assert f.audit()[-1].effect["returned"] == 6
        f.check()


def test_a_url_that_is_deleted_is_not_completed(tmp_path: Path) -> None:
    with kept(path=tmp_path / "frontier") as f:
        f.schedule_many(["http://a.test/1", "http://a.test/2"])
        f.schedule(CrawlUri("http://a.test/3", not_before=START + 60))
        f.set_queue("a.test", max_completed=1)
        f.delete(pattern=".*/[13]")
        totals = f.internals.kept_totals("a.test")
        assert totals is not None and (totals.active, totals.completed) == (1, 0)
        assert [waits(f, f"http://a.test/{n}") for n in (1, 2, 3)] == ["unknown", "0", "unknown"]
        assert f.schedule("http://a.test/1") is Admission.DUPLICATE
        assert [lease.uri.url for lease in f.lease()] == ["http://a.test/2"]
        f.check()
        f.undo(f.audit()[-1].id, force=True)
        assert [waits(f, f"http://a.test/{n}") for n in (1, 2, 3)] == ["0", "0", "60"]
        f.check()


def test_the_numbers_are_those_of_the_rows() -> None:
    with kept() as f:
        f.schedule_many([f"http://{host}.test/{n}" for host in "abc" for n in range(3)])
        f.finish_many(f.lease(4))
        f.schedule(CrawlUri("http://d.test/", not_before=START + 9))
        totals = f.internals.kept_totals()
        assert totals is not None
        assert (totals.active, totals.completed, totals.queues, totals.active_queues) == (7, 3, 4, 4)
        assert [found.url for found in f.internals.kept_urls(limit=3)] == [
            found.url for found in f.internals.kept_urls()
        ][:3]
        assert {found.url for found in f.internals.kept_urls() if found.due is None} == {
            found.url for found in f.internals.kept_urls() if waits(f, found.url) == "nothing"
        }


def test_a_frontier_that_keeps_no_urls_says_so() -> None:
    with Frontier.open(":memory:") as f, pytest.raises(FrontierError, match="keep_urls"):
        f.find_url("http://a.test/")


URL = "https://d.test/0"


def of(url: str, how: str) -> CrawlUri:
    """Return one more URI of a URL: on a queue of its own, or for later."""
    return CrawlUri(url, force=True, queue="other", not_before=START + 90 if how == "later" else None)


@pytest.mark.parametrize("how", ["queued", "later"])
@pytest.mark.parametrize("last", ["queue", "other"])
def test_a_url_is_kept_while_any_of_its_uris_waits(how: str, last: str, tmp_path: Path) -> None:
    clock = ManualClock(START)
    with kept(clock, tmp_path / "frontier", update_priority=True) as f:
        uris = [CrawlUri(URL, force=True, queue="queue"), of(URL, how)]
        for uri in uris if last == "other" else reversed(uris):
            f.schedule(uri)
        f.mark_seen([URL])
        clock.advance(9)
        f.delete(queue=last)  # it is the one that the row is about
        f.check()
        found = f.find_url(URL)
        assert found is not None and (found.created, found.due, found.uri) == (START, START + 9, None)
        totals = f.internals.kept_totals()
        assert totals is not None and (totals.active, totals.completed) == (1, 0)
        assert f.schedule(CrawlUri(URL, priority=9)) is Admission.DUPLICATE
        assert f.internals.fetched([(CrawlUri(URL), None)]) == [Known.UNCHANGED]
        f.undo(f.audit()[-1].id)
        assert f.find_url(URL) == found, "it waits already, and comes back no second time"
        f.check()
        f.delete(queue="other" if last == "queue" else "queue")
        f.check()
        assert f.find_url(URL) is None


def test_a_url_is_completed_once_its_last_uri_is() -> None:
    clock = ManualClock(START)
    with kept(clock, retry={"delay": 60, "scope": "uri"}, politeness={**NONE, "per_queue_concurrency": 9}) as f:
        f.schedule_many([CrawlUri(URL, force=True, priority=n) for n in range(4)])
        f.schedule(CrawlUri(URL, force=True, priority=4, not_before=START + 30))
        leases = f.lease(9)
        f.finish(leases[0], Outcome.RETRY)  # set aside
        f.finish(leases[1], Outcome.DEAD)
        f.check()
        f.finish(leases[2], Outcome.SUCCESS, discovered=[CrawlUri(URL, force=True, queue="other")])
        f.check()
        f.replay()
        assert f.summary().dead == 1, "its URL waits already, and comes back no second time"
        f.internals.fetched([(CrawlUri(URL), None), (CrawlUri(URL), START + 45)])
        f.check()
        clock.advance(60)
        for left in range(4, 0, -1):
            assert waits(f, URL) != "nothing", left
            lease = leases[3] if left == 4 else f.lease(1)[0]
            f.finish(lease)
            f.check()
        assert [f.lease(9), waits(f, URL)] == [[], "nothing"]


HOSTS = ("http://a.test", "https://www.b.test", "https://u@c.test:81", "https://d.test.")
PATHS = ("/", "/x/y.html", "/q?b=2&a=1&utm_x=3", "/a%2fb", "/\u00e4", "/;jsessionid=1", "/x?", "/long" * 70)


def completed_by(kernel: bool, path: Path) -> tuple[Any, ...]:
    """Return the rows, and the totals, of URLs that are completed after an opening, by the kernel or without it."""
    clock = ManualClock(START)
    urls = [f"{host}{path}" for host in HOSTS for path in PATHS]
    concurrent = {**NONE, "per_queue_concurrency": 999}
    with kept(clock, path, politeness=concurrent) as f:
        f.schedule_many(urls)
        f.schedule_many(CrawlUri(f"{url}2", via=HOSTS[0] + "/", hops="L") for url in urls)
        f.schedule_many(CrawlUri(f"{url}3", payload=b"payload") for url in urls)
        f.schedule_many(CrawlUri(url, force=True, priority=1) for url in urls[::3])
    with kept(clock, path, politeness=concurrent) as f:
        table = f._tables.urls
        assert table is not None
        if not kernel:
            table.kernel = None
        leases = f.lease(999)
        clock.advance(7)
        f.finish_many(leases[::2])
        f.commit()
        f.finish_many([*leases[1::2], *f.lease(999)])
        f.check()
        totals = [f.internals.kept_totals(key) for key in (None, *f.internals.queue_keys())]
        return table.page(b"", None), totals


def test_the_kernel_completes_urls_as_python_does(tmp_path: Path) -> None:
    assert completed_by(True, tmp_path / "kernel") == completed_by(False, tmp_path / "python")
