"""What was fetched elsewhere: seen, charged if asked, and never queued."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Admission, CrawlUri, Frontier
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.errors import FrontierError
from tests.support import crawl, memory, on_disk, one, pages, record, state


def test_what_is_marked_is_seen_and_not_queued() -> None:
    with memory() as f:
        given: list[str | CrawlUri] = [
            "https://a.test/0",
            "HTTPS://A.test:443/0#x",
            CrawlUri("https://b.test/", force=True),
        ]
        tally = f.mark_seen([*given, "b", ""])
        assert (tally.added, tally.duplicate, tally.invalid, tally.reasons) == (2, 1, 2, {"scheme": 1, "empty": 1})
        assert f.summary().seen == 2
        assert (f.summary().queued, f.summary().scheduled, f.summary().expenditure) == (0, 0, 0)
        assert f.report().queues == []
        assert f.schedule("https://a.test/0") is Admission.DUPLICATE
        assert f.schedule("https://a.test/1") is Admission.ADDED
        assert f.mark_seen(["https://a.test/1"]).duplicate == 1  # and it stays queued
        assert crawl(f) == "A"
        f.check()


def test_method_and_body_are_part_of_what_is_seen() -> None:
    with memory() as f:
        f.mark_seen([CrawlUri("https://a.test/", method="POST", body=b"1")])
        assert f.schedule(CrawlUri("https://a.test/", method="POST", body=b"1")) is Admission.DUPLICATE
        assert f.schedule("https://a.test/") is Admission.ADDED


def test_what_is_charged_counts_towards_the_total_budget() -> None:
    with memory(queue_total_budget=5, retire_when="reached", balance_replenish_amount=100) as f:
        assert f.mark_seen(pages("A", 3), charge=True).added == 3
        assert f.mark_seen(pages("A", 3), charge=True).duplicate == 3  # charged once
        assert state(f, "A") == "EXHAUSTED"
        f.schedule_many(pages("A", 9))
        assert crawl(f) == "AA"
        assert (state(f, "A"), record(f, "A").expenditure, record(f, "A").average_cost) == ("RETIRED", 5, 1.0)
        assert f.summary().expenditure == 5
        f.check()


def test_each_is_charged_its_own_cost() -> None:
    with memory(cost_policy="wag") as f:
        f.mark_seen([CrawlUri("https://a.test/?x"), CrawlUri("https://b.test/", cost=7)], charge=True)
        assert [record(f, host).expenditure for host in "AB"] == [2, 7]
        f.check()


def test_a_queue_at_work_retires_before_its_next_uri() -> None:
    with memory(queue_total_budget=3, retire_when="reached", balance_replenish_amount=100) as f:
        f.schedule_many(pages("A", 9))
        lease = one(f)
        f.mark_seen(pages("A", 5, first=9), charge=True)
        f.finish(lease)
        assert crawl(f) == ""
        assert (state(f, "A"), record(f, "A").queued) == ("RETIRED", 8)
        f.check()


def test_marks_survive(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_total_budget=10) as f:
        f.mark_seen(pages("A", 2), charge=True)
    with on_disk(tmp_path) as f:
        assert f.schedule("https://a.test/1") is Admission.DUPLICATE
        assert record(f, "A").expenditure == 2
        f.check()


def test_marks_come_through_the_mailbox(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_total_budget=10) as f:
        mailbox = Mailbox(tmp_path / "frontier")
        mailbox.post(
            Command(
                "mark_seen", {"uris": ["https://a.test/0", {"url": "https://a.test/1"}, "b"], "charge": True}, "me", ""
            )
        )
        mailbox.close()
        f.commit()
        (entry,) = f.audit()
        assert entry.args == {"uris": 3, "charge": True}
        assert entry.effect == {"added": 2, "duplicate": 0, "invalid": 1, "full": 0, "reasons": {"scheme": 1}}
        assert record(f, "A").expenditure == 2
        with pytest.raises(FrontierError):
            apply(f, {"uris": [{"nope": 1}]})
        with pytest.raises(FrontierError):
            apply(f, {"uris": ["https://c.test/"], "charge": "yes"})


def apply(f: Frontier, args: dict[str, object]) -> None:
    entry = f.internals.apply(Command("mark_seen", args, "me", ""))
    if entry.error:
        raise FrontierError(entry.error)
