"""What became of the URIs of a crawl: prerequisites are no pages, and an answer with an error is not crawled."""

from __future__ import annotations

from typing import Any

from budgetfrontier.core.model import CrawlState, Summary
from budgetfrontier.rules.crawled import crawled


def totals(**counts: Any) -> Summary:
    zeros = dict.fromkeys(Summary.__struct_fields__, 0)
    others: dict[str, Any] = {"state": CrawlState.FINISHED, "pause_reason": None, "queues": {}, "error_answers": {}}
    return Summary(**(zeros | others | counts))


def test_every_uri_is_counted_once_by_what_became_of_it() -> None:
    found = crawled(
        totals(
            succeeded=20, failed=1, dead=6, dead_prerequisites=3, disregarded=14, robots_denials=4, quota_denials=5,
            prerequisites=10, prerequisites_succeeded=5, prerequisites_disregarded=2,
            error_answers={"500": 2, "404": 7}, deleted=2,
        )
    )  # fmt: skip
    assert (found.crawled, found.failed, found.dead, found.robots_denials, found.disregarded) == (6, 1, 3, 4, 3)
    assert found.total == 6 + 9 + 1 + 3 + 4 + 5 + 3 + 2
    assert [(missed.slug, missed.number) for missed in found.missed] == [
        ("error_answers", 9), ("over_quota", 5), ("disregarded", 4), ("dead_letters", 3),
        ("disregarded", 3), ("deleted", 2), ("failed", 1)
    ]  # fmt: skip
    assert found.missed[0].text == "9 answered with an error status (404: 7, 500: 2)"


def test_dead_letters_that_were_dropped_leave_no_negative_number() -> None:
    assert crawled(totals(dead=4, dead_prerequisites=4)).total == 0


def test_the_most_frequent_statuses_are_named() -> None:
    (missed,) = crawled(totals(succeeded=9, error_answers={"404": 2, "410": 1, "500": 3, "403": 3})).missed
    assert missed.text.endswith("(403: 3, 500: 3, 404: 2, ...)")


def test_each_cause_is_told_in_words() -> None:
    one = crawled(
        totals(
            succeeded=1,
            failed=1,
            dead=1,
            disregarded=2,
            robots_denials=1,
            error_answers={"404": 1},
            deleted=1,
            dropped=1,
        )
    )
    assert [missed.text for missed in one.missed] == [
        "1 answered with an error status (404: 1)",
        "1 failed",
        "1 became a dead letter",
        "1 was disregarded because of robots.txt",
        "1 was disregarded for other reasons, such as the scope",
        "1 became a dead letter that was dropped",
        "1 was deleted",
    ]
    many = crawled(
        totals(succeeded=3000, failed=2000, dead=1500, disregarded=2800, robots_denials=1200, quota_denials=900)
    )
    assert [missed.text for missed in many.missed] == [
        "2,000 failed",
        "1,500 became dead letters",
        "1,200 were disregarded because of robots.txt",
        "900 were disregarded because a quota was used up",
        "700 were disregarded for other reasons, such as the scope",
    ]
    (three,) = crawled(totals(succeeded=6, error_answers={"404": 3000, "410": 2, "500": 1})).missed
    assert three.text == "3,003 answered with an error status (404: 3,000, 410: 2, 500: 1)"
