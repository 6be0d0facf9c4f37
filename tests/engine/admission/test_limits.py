"""Limits and batches: which URIs of a batch are FULL, and that these leave no trace."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import Admission, CrawlUri, Directive, Outcome
from tests.support import crawl, memory, one, pages, record

ADDED, DUPLICATE, FULL = Admission.ADDED, Admission.DUPLICATE, Admission.FULL


@pytest.mark.parametrize("limit", ["max_queue_size", "max_queued"])
def test_a_limit_may_be_met_exactly_and_in_the_middle_of_a_batch(limit: str) -> None:
    frontier: dict[str, Any] = {limit: 4}
    with memory(**frontier) as f:
        assert f.schedule_each(pages("A", 4)) == [ADDED] * 4
        again = [*pages("A", 1), *pages("A", 2, first=4), *pages("A", 1)]
        assert f.schedule_each(again) == [DUPLICATE, FULL, FULL, DUPLICATE]
        tally = f.schedule_many([*again, "no url"])
        assert (tally.added, tally.duplicate, tally.full, tally.invalid) == (0, 2, 2, 1)
        assert tally.reasons == {limit: 2, "scheme": 1}
        assert (f.summary().full, f.summary().full_reasons) == (4, {limit: 4})
        assert (f.summary().seen, f.summary().scheduled, record(f, "A").queued) == (4, 4, 4)
        assert crawl(f, 2) == "AA"
        assert f.schedule_each(again) == [DUPLICATE, ADDED, ADDED, DUPLICATE]
        f.check()


def test_a_uri_that_is_full_makes_no_other_of_its_form_a_duplicate() -> None:
    with memory(max_queue_size=1) as f:
        f.schedule("https://a.test/")
        url = "https://a.test/x"
        batch: list[Any] = [url, CrawlUri(url, queue="b.test"), CrawlUri(url, queue="c.test"), url]
        assert f.schedule_each(batch) == [FULL, ADDED, DUPLICATE, DUPLICATE]
        assert f.schedule(url) is DUPLICATE
        f.check()


def test_the_limits_of_overrides_are_those_of_each_uri() -> None:
    overrides = [
        {"match": "regex:/large/", "set": {"max_queue_size": 3}},
        {"match": "regex:/endless/", "set": {"max_queue_size": 0}},
    ]
    with memory(max_queue_size=1, overrides=overrides) as f:
        paths = ["1", "2", "large/1", "endless/1", "large/2", "endless/2", "large/1"]
        results = [ADDED, FULL, ADDED, ADDED, FULL, ADDED, DUPLICATE]
        assert f.schedule_each(f"https://a.test/{path}" for path in paths) == results
        assert f.schedule_many(f"https://b.test/endless/{number}" for number in range(50)).added == 50
        f.check()


def test_what_waits_for_its_time_counts_for_no_limit_yet() -> None:
    with memory(max_queue_size=1) as f:
        later = [CrawlUri(url, not_before=2_000_000.0) for url in pages("A", 3)]
        assert f.schedule_many(later).added == 3
        assert f.schedule_each(["https://a.test/now", "https://a.test/too-much"]) == [ADDED, FULL]
        f.check()


@pytest.mark.parametrize("limit", ["max_queue_size", "max_queued"])
def test_links_are_full_as_other_uris_are(limit: str) -> None:
    frontier: dict[str, Any] = {limit: 2}
    with memory(**frontier) as f:
        f.schedule_many(pages("A", 2))
        f.finish(one(f), Outcome.SUCCESS, discovered=pages("A", 5))
        assert (f.summary().seen, f.summary().duplicates) == (2, 2)
        f.finish(one(f), Outcome.SUCCESS, discovered=pages("A", 12))
        assert (f.summary().seen, record(f, "A").queued) == (3, 1)
        f.check()


def test_a_retired_queue_is_limited_though_it_does_not_count_as_queued() -> None:
    with memory(max_queued=2, max_queue_size=3, hold_queues=False, balance_replenish_amount=0) as f:
        assert f.schedule_each(pages("A", 5)) == [ADDED] * 3 + [FULL] * 2
        assert f.schedule_each(pages("B", 2)) == [ADDED] * 2
        assert f.summary().queued == 0
        f.check()


RANKED: dict[str, Any] = {"precedence_policy": "highest-uri", "precedence_floor": 4}
BY_PATH: dict[str, Any] = {"precedence_floor": 4, "overrides": [{"match": "regex:/low/", "set": {"precedence": 9}}]}


@pytest.mark.parametrize("settings", [RANKED, BY_PATH])
@pytest.mark.parametrize("how", ["schedule_many", "schedule_each", "schedule", "finish"])
def test_what_an_ineligible_queue_holds_counts_with_the_uri_that_revives_it(how: str, settings: dict[str, Any]) -> None:
    with memory(max_queued=9, **settings) as f:
        f.schedule_many(CrawlUri(url, precedence=0) for url in pages("A", 3))
        assert f.schedule_many(CrawlUri(f"https://b.test/low/{n}", precedence=9) for n in range(5)).added == 5
        assert (f.summary().queued, record(f, "B").state) == (3, "INELIGIBLE")
        batch = [CrawlUri(url, precedence=0) for url in pages("B", 1) + pages("C", 4)]
        if how == "schedule_many":
            assert f.schedule_many(batch).reasons == {"max_queued": 4}
        elif how == "schedule_each":
            assert f.schedule_each(batch) == [ADDED] + [FULL] * 4
        elif how == "schedule":
            assert [f.schedule(uri) for uri in batch] == [ADDED] + [FULL] * 4
        else:
            f.finish(one(f), Outcome.SUCCESS, discovered=batch)
        assert (f.summary().queued, f.summary().full_reasons) == (9 - (how == "finish"), {"max_queued": 4})
        assert record(f, "B").state == "INACTIVE"
        f.check()


def test_each_uri_that_is_full_counts_for_the_limit_that_it_has_met() -> None:
    """In a batch, in a few URLs and alone; with both limits reached, for that of the frontier."""
    with memory(max_queued=4, max_queue_size=3) as f:
        assert f.schedule_many(pages("A", 5)).reasons == {"max_queue_size": 2}
        more = f.schedule_many([*pages("A", 12, first=7), *pages("B", 3)])
        assert (more.added, more.reasons) == (1, {"max_queue_size": 12, "max_queued": 2})
        assert f.schedule_many(pages("A", 2, first=90)).reasons == {"max_queued": 2}
        assert f.schedule_each(pages("C", 2)) == [FULL] * 2
        assert (f.schedule(pages("D", 1)[0]), f.schedule(CrawlUri(pages("E", 1)[0], priority=1))) == (FULL, FULL)
        totals = f.summary()
        assert (totals.full, totals.full_reasons) == (22, {"max_queue_size": 14, "max_queued": 8})
        f.check()


def test_whoever_waits_for_room_may_ask_for_it_without_being_counted() -> None:
    with memory(max_queue_size=1) as f:
        assert f.internals.has_room("https://a.test/1") and f.internals.has_room("no url")
        f.schedule("https://a.test/1")
        robots = CrawlUri("https://a.test/robots.txt", force=True, directive=Directive.HIGHEST)
        again = CrawlUri("https://a.test/1", force=True)
        asked: list[str | CrawlUri] = ["https://a.test/1", "https://a.test/2", again, robots]
        assert [f.internals.has_room(uri) for uri in asked] == [True, False, False, True]
        assert [f.schedule(uri) for uri in asked] == [DUPLICATE, FULL, FULL, ADDED]
        assert (f.summary().full, f.summary().scheduled) == (2, 2)
        f.check()
