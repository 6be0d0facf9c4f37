"""Kept URLs in copies: what backup, compact, export and import make of them."""

from __future__ import annotations

from pathlib import Path

from budgetfrontier import CrawlUri, Frontier, Settings
from budgetfrontier.tools.cli import main

SERVED = Settings.from_dict({"profile": "served"})


def make(job: Path) -> dict[str, tuple[str, int | None]]:
    """A job with URLs that wait, are leased, are completed, and wait for a date; what is known of them."""
    job.mkdir()
    with Frontier.open(job / "frontier", SERVED, keep_leases=True) as f:
        f.schedule_many([CrawlUri(f"http://a.test/{n}", payload=b"x%d" % n) for n in range(6)])
        f.internals.lease_queues(1, 1, ttl=3600)
        f.internals.fetched([(CrawlUri("http://a.test/1"), None), (CrawlUri("http://a.test/2"), 4_000_000_000.0)])
        f.internals.regulate("a.test", interval=7.0, max_completed=5, total_budget=100)
        return known(f)


def known(f: Frontier) -> dict[str, tuple[str, int | None]]:
    """The URLs with their queue, and when they are due."""
    return {each.url: (each.queue, each.due) for each in f.internals.kept_urls()}


def reopened(job: Path) -> Frontier:
    """The frontier of a job, as the server opens it."""
    return Frontier.open(job / "frontier", keep_leases=True)


def test_a_backup_and_a_compacted_file_have_them_all(tmp_path: Path) -> None:
    expected = make(tmp_path / "job")
    assert main(["backup", str(tmp_path / "job"), str(tmp_path / "copy")]) == 0
    assert main(["compact", str(tmp_path / "job")]) == 0
    for job in (tmp_path / "job", tmp_path / "copy"):
        assert main(["verify", str(job)]) == 0
        with reopened(job) as f:
            assert known(f) == expected
            found, queue = f.find_url("http://a.test/3"), f.queue("a.test")
            assert found is not None and found.uri is not None and found.uri.payload == b"x3"
            assert queue is not None and (queue.interval, queue.max_completed, queue.own_budget) == (7.0, 5, 100)
            assert f.summary().in_process == 1
            f.check()


def test_an_export_has_those_that_wait_and_an_import_keeps_them(tmp_path: Path) -> None:
    expected = make(tmp_path / "job")
    file = tmp_path / "uris.jsonl"
    assert main(["export", str(tmp_path / "job"), str(file)]) == 0
    other = tmp_path / "other"
    other.mkdir()
    with Frontier.open(other / "frontier", SERVED) as f:
        f.mark_seen(["http://a.test/5"])
    assert main(["import", str(other), str(file)]) == 0
    assert main(["verify", str(other)]) == 0
    with reopened(other) as f:
        there = known(f)
        assert set(there) == {url for url, (_, due) in expected.items() if due is not None} | {"http://a.test/5"}
        assert there["http://a.test/5"][1] is None  # it was seen
        assert there["http://a.test/2"] == ("a.test", 4_000_000_000)
        found = f.find_url("http://a.test/3")
        assert found is not None and found.uri is not None and found.uri.payload == b"x3"
        f.check()
