"""URLs are forgotten, in steps, so that they may be scheduled again; those that wait stay known, and undo knows all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Directive, Frontier
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands import forgetting, runner, undo_checks
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.testing import crash
from tests.support import START, crawl, in_progress, kernel, memory, on_disk, pages, post


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STEP", 2)


def give(f: Frontier, **args: Any) -> AuditEntry:
    entry = f.internals.apply(Command("forget", args, "somebody", ""))
    f.check()
    return entry


def crawled(folder: Path, **options: Any) -> Frontier:
    """Six pages that were fetched, two that wait, and one for later."""
    f = on_disk(folder, ManualClock(START), **options)
    f.schedule_many(pages("ab", 3))
    crawl(f)
    f.schedule_many(pages("a", 2, first=8))
    f.schedule(CrawlUri("https://b.test/7", not_before=START + 1e6))
    f.commit()
    return f


def results(f: Frontier) -> str:
    """Which pages are not known."""
    urls = [*pages("ab", 3), *pages("a", 2, first=8), "https://b.test/7"]
    known = kernel(f).tables
    admitter = f._admitter
    assert known is not None
    return " ".join(url[8] + url[-1] for url in urls if not admitter.is_seen(admitter.fingerprint(CrawlUri(url))))


@pytest.mark.parametrize(
    ("args", "expected", "waiting"),
    [
        ({"match": "*"}, "a0 a1 a2 b0 b1 b2", 3),
        ({"match": "host:a.test"}, "a0 a1 a2", 2),
        ({"match": "queues:b.test", "pattern": "/[12]$"}, "b1 b2", 0),
        ({"match": "regex:/[07]$"}, "a0 b0", 1),
        ({"match": "host:none.test"}, "", 0),
    ],
)
def test_urls_that_are_kept_are_forgotten_by_pattern(
    tmp_path: Path, args: dict[str, Any], expected: str, waiting: int
) -> None:
    with crawled(tmp_path, keep_urls=True) as f:
        shown = forgetting.preview(kernel(f).tables.flushed(), args)
        entry = give(f, **args)
        effect = {name: entry.effect[name] for name in shown}
        assert effect == shown == {"forgotten": len(expected.split()), "waiting": waiting, "unknown": 0}
        assert results(f) == expected
        if expected:
            f.undo(entry.id)
            undone = f.audit(limit=1)[0].effect
            assert (undone["command"], undone["returned"]) == ("forget", len(expected.split()))
            f.check()
            assert results(f) == ""


@pytest.mark.parametrize("chosen", [{"match": "*"}, {"uris": ["https://a.test/robots.txt", "https://a.test/1"]}])
def test_urls_that_only_their_rows_make_known_are_counted_by_the_command_and_by_its_undo(
    tmp_path: Path, chosen: dict[str, Any]
) -> None:
    """What was only scheduled with `force`, such as a robots.txt, is not recorded as seen, before and after."""
    with crawled(tmp_path, keep_urls=True) as f:
        robots = CrawlUri("https://a.test/robots.txt", directive=Directive.HIGHEST, force=True)
        f.schedule(robots)
        (lease,) = f.lease(1)
        f.finish(lease)
        f.commit()
        number = 7 if "match" in chosen else 2

        def known() -> tuple[bool, int]:
            return f._admitter.is_seen(f._admitter.fingerprint(robots)), f._guard.kernel.counters.urls

        before = known()
        entry = give(f, **chosen)
        assert entry.effect["forgotten"] == number and known() == (False, before[1] - number)
        view = kernel(f).tables.flushed()
        assert undo_checks.preview(view, {"id": entry.id}, START)["returned"] == number
        f.undo(entry.id)
        assert f.audit(limit=1)[0].effect["returned"] == number
        assert known() == before == (False, before[1])
        f.check()


@pytest.mark.parametrize("keep_urls", [True, False])
def test_urls_that_are_given_are_forgotten_in_any_spelling(tmp_path: Path, keep_urls: bool) -> None:
    with crawled(tmp_path, keep_urls=keep_urls) as f:
        urls = ["HTTPS://A.test:443/1#x", "https://a.test/1", "https://b.test/2", "https://none.test/"]
        entry = give(f, uris=urls)
        found = {name: entry.effect[name] for name in ("forgotten", "waiting", "unknown")}
        assert found["forgotten"] == 2 and found["waiting"] == 0 and found["unknown"] in (1, 2)
        assert results(f) == "a1 b2"
        assert f.schedule("https://a.test/1").value == "ADDED"
        shown = undo_checks.preview(kernel(f).tables.flushed(), {"id": entry.id}, START)
        f.undo(entry.id)
        f.check()
        assert results(f) == ""
        assert f.audit(limit=1)[0].effect["returned"] == shown["returned"] == 1  # the other one is known again


@pytest.mark.parametrize("keep_urls", [True, False])
def test_what_waits_stays_known(tmp_path: Path, keep_urls: bool) -> None:
    with crawled(tmp_path, keep_urls=keep_urls) as f:
        (lease,) = f.lease(1)
        forced = CrawlUri("https://b.test/forced", queue="other")
        f.schedule_many([forced, CrawlUri("https://a.test/p", method="POST", body=b"1")])
        posted = {"url": "https://a.test/p", "method": "POST"}
        given = [
            *(lease.uri.url, "HTTPS://a.test:443/9", "https://b.test/7", "https://b.test/1"),
            *({"url": forced.url, "queue": "other"}, posted | {"body": b"1"}, posted | {"body": b"2"}),
        ]
        shown = forgetting.preview(kernel(f).tables.flushed(), {"uris": given})
        entry = give(f, uris=given)
        assert {name: entry.effect[name] for name in shown} == shown
        assert (entry.effect["forgotten"], entry.effect["waiting"], results(f)) == (1, 5, "b1")
        assert entry.effect["unknown"] == 1
        assert {f.schedule(url).value for url in ("https://a.test/9", forced, "https://b.test/7")} == {"DUPLICATE"}
        f.finish(lease)
        f.check()


@pytest.mark.parametrize("policy", ["hostname", "ip"])
def test_what_waits_in_its_own_queue_is_found_under_a_forced_key_too(policy: str) -> None:
    with memory(queue_assignment_policy=policy) as f:
        f.internals.know_address("a.test", "192.0.2.1")
        f.schedule("https://a.test/1")
        entry = give(f, uris=[{"url": "https://a.test/1", "queue": "other"}])
        assert (entry.effect["forgotten"], entry.effect["waiting"]) == (0, 1)


def test_it_goes_on_after_a_crash(tmp_path: Path) -> None:
    f = crawled(tmp_path, keep_urls=False)
    number = post(tmp_path / "frontier", "forget", uris=[*pages("ab", 3)])
    f.commit()
    assert in_progress(f)
    crash(f)
    with on_disk(tmp_path, ManualClock(START)) as f:
        while in_progress(f):
            f.check()
            f.commit()
        (entry,) = f.audit(limit=1)
        assert (entry.number, entry.effect["forgotten"]) == (number, 6)
        assert results(f) == "a0 a1 a2 b0 b1 b2"


def test_what_cannot_be_forgotten_is_refused_with_words(tmp_path: Path) -> None:
    with memory() as f:
        assert "keeps fingerprints and no URLs" in (give(f, match="*").error or "")
        assert "forget what?" in (give(f).error or "")
        assert "a group is of queues" in (give(f, match="group:x").error or "")
        assert "'no URL' is no URL" in (give(f, uris=["https://a.test/", "no URL"]).error or "")
        assert "'' is no URL" in (give(f, uris=[""]).error or "")
        assert "labels are of seeds" in (give(f, match="label:x").error or "")
        assert "regular expression" in (give(f, match="*", pattern="(").error or "")
    with memory(duplicates="noop") as f:
        assert "nothing to forget" in (give(f, uris=["https://a.test/"]).error or "")
    with on_disk(tmp_path, duplicates="bloom") as f:
        assert "a Bloom filter cannot forget" in (give(f, uris=["https://a.test/"]).error or "")
