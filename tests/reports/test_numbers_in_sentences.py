"""Numbers in sentences: nouns and verbs agree with them, whether there is none of something, one, two or many."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from budgetfrontier.core.model import CrawlState, QueueState
from budgetfrontier.crawler.scope_change import ScopeLoss
from budgetfrontier.reports import adjustment_outcomes, audit_sentences, totals
from budgetfrontier.reports.adjustment_outcomes import AdjustmentOutcome
from budgetfrontier.rules.alert_conditions import CrawlSample, Observed, look, sample
from budgetfrontier.rules.crawled import crawled
from budgetfrontier.rules.forecasts import Held, forecasts
from budgetfrontier.rules.rates import window
from budgetfrontier.rules.verdict import verdict
from budgetfrontier.settings.schema import AlertSettings
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.series import SeriesRow
from tests.rules.test_verdict import NOW, standing
from tests.rules.test_verdict import totals as summary

NOUNS = "URI|URL|queue|seed|dead letter|lease|command|run|fetch|entry"
ONE = re.compile(rf"(?<![\d,.:/-])1 (({NOUNS})e?s\b|entries|are\b|were\b|have\b|wait\b|hold\b|become\b|retire\b)")
MORE = re.compile(
    rf"(?<![,.:/-])\b(0|[2-9]|\d{{2,}}|\d+,\d{{3}}) (({NOUNS})\b(?! states)|is\b|was\b|has\b|waits\b|holds\b)"
)
"""What does not agree with one, and what only agrees with one."""


def of_forecasts(n: int) -> Iterator[str]:
    rows = [SeriesRow(0.0, begins=True), SeriesRow(3600.0, succeeded=7 * n, scheduled=6 * n + 1, expenditure=n)]
    for last in (window(rows, 0, 3600), window([], 0, 3600)):
        for holds in (None, Held(n, 0, 5.0, "a", n, n), Held(n, n, 5.0, "a", n, n)):
            yield from (one.why for one in forecasts(last, waiting=2 * n, holds=holds, limits={}))


def of_verdicts(n: int) -> Iterator[str]:
    counts: dict[str, Any] = {
        "queued": n,
        "in_process": n,
        "scheduled": 9 * n,
        "succeeded": n,
        "failed": n,
        "buried": n,
        "dead": n,
    }
    more = {"held": n, "retired_by_name": n, "for_robots": n, "for_retry": n, "closed": n, "next_wake": NOW + n}
    for state in CrawlState:
        for of in QueueState:
            for without in ((), ("queued",), ("queued", "in_process"), ("in_process",)):
                yield verdict(standing(state, {of: n}, more=more, **(counts | dict.fromkeys(without, 0)))).text


def of_totals(n: int) -> Iterator[str]:
    causes: dict[str, Any] = {
        "failed": n,
        "buried": n,
        "dead": n,
        "disregarded": 3 * n,
        "robots_denials": n,
        "deleted": n,
        "retried": n,
    }
    counts = summary(succeeded=n, scheduled=9 * n, full=n, full_reasons={"max_queued": n}, given_up=n, **causes)
    yield from (one.text for one in crawled(counts).missed)
    yield from (row.note for row in totals.by_outcome(counts))
    yield totals.refused_line(counts)
    yield str(ScopeLoss(n, n, ()))


def of_alerts(n: int) -> Iterator[str]:
    stands = standing(queues={"READY": n}, queued=n, dead=n)
    seen = Observed(stands, verdict(stands), {"/": n})
    before = CrawlSample(NOW - 600, True, 0, 0, {"/": n + 1})
    settings = AlertSettings(dead_letters=1, starved=300.0, disk_below=1 << 30)
    yield from (one.text for one in look(settings, {}, [before, sample(seen)], seen)[0].values())


SPEND = {"spend": 7, "uris": 0, "ceiling": None}


def of_audit(n: int) -> Iterator[str]:
    spend = SPEND | {"uris": n}
    promised = {
        "matched": n, "revived_count": n, "retired_count": n, "closed_count": n, "opened_count": n, "as_of": NOW,
        "others": {"queues": n, "before": spend, "after": spend},
    } | spend  # fmt: skip
    adjusted = {"matched": n, "changed": n, "reconsidered_count": n, "promised": promised, "before": {}}
    paces = {"interval": {"90.0": n}}
    many = {"matched": n, "changed": n, "uris": n, "states": {"READY": n}, "still_over": n, "still_closed": n}
    tally = {"added": n, "duplicate": n, "reasons": {"scheme": n}}
    of_queues = ("retire", "unretire", "snooze", "wake", "set_queue")
    given: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("adjust", {"match": "*", "set": {"precedence": 1}}, adjusted),
        ("withdraw", {"id": 1}, adjusted),
        *((name, {"match": "*", "until": NOW, "interval": 5.0}, many) for name in of_queues),
        ("set_queue", {"match": "*", "interval": 5.0}, many | {"paces": paces}),
        *((name, {"uris": n}, tally) for name in ("schedule", "mark_seen", "bury")),
        ("delete", {"queue": "*"}, {"deleted": n, "later": 0, "queues": n, "undecided": n}),
        ("delete", {"queue": "*"}, {"deleted": 2 * n, "later": n, "queues": n}),
        ("drop", {"ids": [1] * n}, {"dropped": n}),
        ("replay", {"why": "x"}, {"replayed": n, "waiting": n}),
        ("forget", {"match": "*"}, {"forgotten": n, "waiting": n, "unknown": n}),
        ("undo", {"id": 1}, {"command": "delete", "returned": n, "queues": n, "waiting": n}),
        ("undo", {"id": 1}, {"command": "drop", "returned": n, "waiting": n}),
        ("undo", {"id": 1}, {"command": "forget", "returned": n}),
        ("undo", {"id": 1}, {"command": "bury", "dropped": n}),
        ("undo", {"id": 1}, {"command": "snooze", "restored": n, "left": n}),
    ]
    for command, args, effect in given:
        entry = AuditEntry(id=1, command=command, args=args, who="a", reason="", when=NOW, effect=effect)
        yield audit_sentences.sentence(entry)
    outcome = AdjustmentOutcome(queues=n, fetched=n, spent=n, retired=n, retired_before=n, retired_again=n, seconds=n)
    for effect in ({}, {"promised": promised}, {"promised": promised | {"matched": 2 * n}}):
        yield adjustment_outcomes.sentence(outcome, effect)


@pytest.mark.parametrize("number", [0, 1, 2, 11, 1234])
@pytest.mark.parametrize("said", [of_forecasts, of_verdicts, of_totals, of_alerts, of_audit])
def test_nouns_and_verbs_agree_with_numbers(said: Callable[[int], Iterator[str]], number: int) -> None:
    found = {text for text in said(number) if text}
    assert found and [text for text in found if ONE.search(text) or MORE.search(text)] == []


def test_what_does_not_agree_is_found() -> None:
    for text in ("1 URIs wait", "1 wait, and", "for 1 dead letters"):
        assert ONE.search(text), text
    for text in ("2 URI wait", "0 queue", "1,234 lease", "11 waits"):
        assert MORE.search(text), text
    for text in ("1 URI waits", "21 URIs", "1,001 queues are", "0 dead letters", "at 1 is", "process 4711 was"):
        assert not ONE.search(text), text
