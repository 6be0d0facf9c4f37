"""The conditions of alerts: when each begins, and that it ends with a margin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from budgetfrontier.core.model import CrawlState, Process, Run, RunEnd, Summary
from budgetfrontier.core.units import format_time
from budgetfrontier.rules import alert_conditions
from budgetfrontier.rules.alert_conditions import (
    CrawlSample,
    Observed,
    RaisedAlert,
    TopSpender,
    TrapSuspect,
    Unanswered,
)
from budgetfrontier.rules.run_history import BUS_WORKER, CRAWL, SERVE
from budgetfrontier.rules.verdict import Standing, verdict
from budgetfrontier.settings.schema import CONDITIONS, AlertSettings

NOW = 1_000_000.0
GIB = 1 << 30
RUNNING = Process(alive=True, pid=5, program=CRAWL, began=NOW - 9000, last_call=NOW - 1, last_commit=NOW - 1)
QUIET = AlertSettings(
    finished=False, paused=False, no_process=None, no_commit=None, starved=None, hung_leases=None, disk_below=0
)


def observed(
    *,
    process: Process = RUNNING,
    free: Mapping[str, int] | None = None,
    top: TopSpender | None = None,
    first_lease: float | None = None,
    now: float = NOW,
    **totals: Any,
) -> Observed:
    zeros: dict[str, Any] = dict.fromkeys(Summary.__struct_fields__, 0) | {"pause_reason": None, "queues": {}}
    zeros |= {"full_reasons": {}, "invalid_reasons": {}, "error_answers": {}}
    counts = {"state": CrawlState.RUNNING, "scheduled": 9, "queued": 5, "succeeded": 4, **totals}
    standing = Standing(
        now=now, totals=Summary(**(zeros | counts)), process=process, first_lease=first_lease, first_url="u"
    )
    return Observed(standing, verdict(standing), free or {"/job": 100 * GIB}, top)


def held(settings: AlertSettings, seen: Observed, *samples: CrawlSample, before: tuple[str, ...] = ()) -> list[str]:
    old = {name: RaisedAlert(0.0, "warn", "") for name in before}
    return list(alert_conditions.look(settings, old, [*samples, alert_conditions.sample(seen)], seen)[0])


def stopped(end: RunEnd, ago: float) -> Process:
    run = Run(
        kernel="native",
        number=1, program=CRAWL, pid=5, host="", began=0.0, ended=NOW - ago, end=end, reason="", leased=None
    )  # fmt: skip
    return Process(alive=False, pid=None, last_stop=run, last_commit=NOW - ago)


def test_every_condition_has_a_setting_and_a_test() -> None:
    assert set(CONDITIONS) <= set(AlertSettings.__struct_fields__)
    assert held(AlertSettings(), observed()) == []


def test_a_crawl_that_is_over() -> None:
    settings = replace(QUIET, finished=True, paused=True)
    assert held(settings, observed(state=CrawlState.FINISHED, queued=0)) == ["finished"]
    assert held(settings, observed(state=CrawlState.TERMINATED)) == ["finished"]
    assert held(settings, observed(state=CrawlState.PAUSED, pause_reason="finish", queued=0)) == ["finished"]
    assert held(settings, observed(state=CrawlState.PAUSED, pause_reason="finish")) == ["paused"]
    assert held(settings, observed(state=CrawlState.PAUSED, pause_reason="operator")) == ["paused"]
    assert held(QUIET, observed(state=CrawlState.PAUSED, pause_reason="operator")) == []


@pytest.mark.parametrize(
    ("process", "found"),
    [
        (stopped(RunEnd.KILLED, 1), True),
        (stopped(RunEnd.ERROR, 1), True),
        (stopped(RunEnd.DISK_FULL, 1), True),
        (stopped(RunEnd.SIGNAL, 1), False),
        (stopped(RunEnd.SIGNAL, 601), True),
        (replace(stopped(RunEnd.SIGNAL, 601), server=9), False),
        (Process(alive=False, pid=None), True),
        (Process(alive=False, pid=None, last_commit=NOW - 1), False),
        (RUNNING, False),
    ],
)
def test_no_process(process: Process, *, found: bool) -> None:
    settings = replace(QUIET, no_process=600.0)
    assert held(settings, observed(process=process)) == ["no_process"] * found
    assert held(settings, observed(process=process, state=CrawlState.FINISHED, queued=0)) == []


@pytest.mark.parametrize(
    ("process", "succeeded", "level"),
    [
        (Process(alive=False, pid=None, last_commit=NOW - 601), 0, "warn"),
        (stopped(RunEnd.EXIT, 601), 0, "warn"),  # it asked, and had to wait
        (stopped(RunEnd.EXIT, 601), 4, "bad"),
        (stopped(RunEnd.KILLED, 601), 0, "bad"),
        (Process(alive=False, pid=None), 0, "bad"),  # a repair has lost its totals
    ],
)
def test_a_crawl_that_has_not_begun_is_a_warning(process: Process, succeeded: int, level: str) -> None:
    """As the verdict has it: nothing has come to a stop."""
    seen = observed(process=process, succeeded=succeeded)
    raised, _ = alert_conditions.look(replace(QUIET, no_process=600.0), {}, [], seen)
    assert raised["no_process"].level == level
    assert seen.verdict.level == ("warn" if process.last_stop and succeeded else level)


def test_a_process_that_does_nothing() -> None:
    settings = replace(QUIET, no_commit=300.0)
    assert held(settings, observed(process=replace(RUNNING, last_call=NOW - 299))) == []
    assert held(settings, observed(process=replace(RUNNING, last_call=NOW - 300))) == ["no_commit"]
    command = replace(RUNNING, last_call=NOW - 300, program="budgetfrontier import")
    assert held(settings, observed(process=command)) == []
    snoozed = replace(observed(queues={"SNOOZED": 1}).standing, asked=NOW - 300, next_wake=NOW + 1)
    assert held(settings, Observed(snoozed, verdict(snoozed), {})) == []  # nothing is ready: it has nothing to ask for
    for since, conditions in (NOW - 299, []), (NOW - 300, ["no_commit"]):  # it schedules, and never leases
        unasked = replace(observed(queues={"INACTIVE": 1}).standing, asked=since)
        assert held(settings, Observed(unasked, verdict(unasked), {})) == conditions
    eager = replace(QUIET, no_commit=5.0)
    assert held(eager, observed(process=replace(RUNNING, last_call=NOW - 29))) == []  # shown every ten seconds only
    seen = observed(process=replace(RUNNING, last_call=NOW - 30), queues={"SNOOZED": 1})
    [one] = alert_conditions.look(eager, {}, [alert_conditions.sample(seen)], seen)[0].values()
    assert one.text == f"The process of the crawl has not used the frontier for 30s. {seen.verdict.text}"


def at(seconds: float, *, working: bool = True, tried: int = 4, dead: int = 0, free: int = 100 * GIB) -> CrawlSample:
    return CrawlSample(NOW + seconds, working, tried, dead, {"/job": free})


def test_a_crawl_that_starves() -> None:
    settings = replace(QUIET, starved=1800.0)
    assert held(settings, observed(), at(-1800)) == ["starved"]
    assert held(settings, observed(), at(-1799)) == []
    assert held(settings, observed(), at(-1800, tried=3), at(-900)) == []
    assert held(settings, observed(queued=0), at(-1800)) == []
    # neither a pause nor a time without a process counts
    assert held(settings, observed(), at(-3000), at(-2000, working=False), at(-900)) == []
    paused = observed(state=CrawlState.PAUSED, pause_reason="operator")
    assert held(settings, paused, at(-1800)) == []
    closed = replace(observed().standing, closed_until=NOW + 60)
    assert held(settings, Observed(closed, verdict(closed), {"/job": 100 * GIB}), at(-1800)) == []


def test_a_lease_that_hangs() -> None:
    settings = replace(QUIET, hung_leases=1800.0)
    assert held(settings, observed(first_lease=NOW - 1800)) == ["hung_leases"]
    assert held(settings, observed(first_lease=NOW - 1799)) == []
    killed = stopped(RunEnd.KILLED, 60)
    assert held(settings, observed(first_lease=NOW - 1800, process=killed)) == []  # the next start takes it back
    assert killed.last_stop is not None
    for program, conditions in (SERVE, ["hung_leases"]), (BUS_WORKER, ["hung_leases"]), ("spider.py", []):
        process = replace(killed, last_stop=replace(killed.last_stop, program=program))
        assert held(settings, observed(first_lease=NOW - 1800, process=process)) == conditions


def test_a_disk_with_little_room_begins_and_ends_with_a_margin() -> None:
    settings = replace(QUIET, disk_below=5 * GIB)
    for free, raised, found in ((5, False, False), (4.9, False, True), (5.4, True, True), (5.6, True, False)):
        seen = observed(free={"/big": 99 * GIB, "/job": int(free * GIB)})
        assert held(settings, seen, before=("disk_below",) * raised) == ["disk_below"] * found


def test_a_disk_that_is_soon_full() -> None:
    settings = replace(QUIET, disk_full_within=7200.0)
    seen = observed(free={"/job": 10 * GIB})
    assert held(settings, seen, at(-3600, free=16 * GIB)) == ["disk_full_within"]  # 6 GiB an hour
    assert held(settings, seen, at(-3600, free=14 * GIB)) == []
    assert held(settings, seen, at(-3600, free=int(14.5 * GIB)), before=("disk_full_within",)) == ["disk_full_within"]
    assert held(settings, seen, at(-599, free=99 * GIB)) == []  # too short a time
    assert held(settings, seen, at(-3600, free=9 * GIB)) == []


def test_dead_letters_that_surge() -> None:
    settings = replace(QUIET, dead_letters=100)
    assert held(settings, observed(dead=300), at(-3600, dead=200)) == ["dead_letters"]
    assert held(settings, observed(dead=299), at(-3600, dead=200)) == []
    assert held(settings, observed(dead=299), at(-3600, dead=200), before=("dead_letters",)) == ["dead_letters"]
    assert held(settings, observed(dead=300), at(-9000, dead=0), at(-60, dead=290)) == []
    assert held(settings, observed(dead=300)) == []  # no earlier look: they may be old
    files = observed(dead=300, dead_prerequisites=150)
    assert held(settings, files, at(-3600, dead=51)) == [], "a robots.txt is no page"
    assert held(settings, files, at(-3600, dead=50)) == ["dead_letters"]
    assert held(settings, observed(dead=9), at(-3600, dead=0), at(-60, dead=300), before=("dead_letters",)) == []
    assert held(settings, observed(dead=110), at(-3600, dead=300), at(-60, dead=10)) == ["dead_letters"], "replayed"
    assert held(settings, observed(dead=300), at(-3601, dead=200), at(-3540, dead=250)) == [], "not within an hour"


def test_dead_letters_came_since_the_last_look_at_which_there_were_none_of_them() -> None:
    """A crawl of five minutes had none before it, whatever the hour before it."""
    seen = observed(dead=300)
    samples = [at(-3600), at(-300), at(-60, dead=200), alert_conditions.sample(seen)]
    [one] = alert_conditions.look(replace(QUIET, dead_letters=100), {}, samples, seen)[0].values()
    assert one.text == "300 URIs have become dead letters within 5m."


def test_a_queue_that_takes_the_most() -> None:
    settings = replace(QUIET, queue_share=0.5)
    assert held(settings, observed(top=TopSpender("a.test", 0.5, 1000))) == ["queue_share"]
    assert held(settings, observed(top=TopSpender("a.test", 0.49, 1000))) == []
    assert held(settings, observed(top=TopSpender("a.test", 0.41, 1000)), before=("queue_share",)) == ["queue_share"]
    assert held(settings, observed(top=TopSpender("a.test", 1.0, 999))) == []


def test_each_queue_that_looks_like_a_trap() -> None:
    settings = replace(QUIET, trap=0.8)
    suspects = [TrapSuspect("a.test", 0.9, "calendar"), TrapSuspect("b.test", 0.7, "growth")]
    seen = observed()._replace(suspects=suspects)
    assert held(settings, seen) == ["trap:a.test"]
    assert held(settings, seen, before=("trap:b.test",)) == ["trap:a.test", "trap:b.test"]
    assert held(QUIET, seen) == []


def test_each_condition_is_told_when_it_begins_and_when_it_ends() -> None:
    settings = replace(QUIET, paused=True)
    paused = observed(state=CrawlState.PAUSED, pause_reason="operator")
    raised, changes = alert_conditions.look(settings, {}, [], paused)
    assert [(one.condition, one.raised, one.time) for one in changes] == [("paused", True, NOW)]
    later = paused._replace(standing=replace(paused.standing, now=NOW + 60))
    raised, changes = alert_conditions.look(settings, raised, [], later)
    assert changes == [] and raised["paused"].since == NOW
    raised, changes = alert_conditions.look(settings, raised, [], observed())
    assert raised == {} and [(one.condition, one.raised) for one in changes] == [("paused", False)]


def test_of_partitions_that_do_not_answer_only_that_is_told() -> None:
    settings = replace(QUIET, no_process=600.0, paused=True, finished=True)
    before = {"paused": RaisedAlert(NOW, "warn", "lunch")}
    away = Unanswered(NOW + 599, NOW, "partition 3 of 4 does not answer", over=False)
    assert alert_conditions.look(settings, before, [], away) == (before, [])
    later = away._replace(now=NOW + 600)
    raised, changes = alert_conditions.look(settings, before, [], later)
    assert [(one.condition, one.raised) for one in changes] == [("no_process", True)]
    assert raised["no_process"].text == "Partition 3 of 4 does not answer." and raised["paused"].text == "lunch"
    assert alert_conditions.look(settings, raised, [], later) == (raised, [])
    assert alert_conditions.look(settings, before, [], later._replace(over=True)) == (before, [])
    assert alert_conditions.look(QUIET, {}, [], later) == ({}, [])
    raised, changes = alert_conditions.look(settings, raised, [], observed())
    assert raised == {} and [(one.condition, one.raised) for one in changes] == [
        ("paused", False), ("no_process", False),
    ]  # fmt: skip


def test_what_is_no_longer_was_so_when_its_sentence_was_said() -> None:
    """Sentences have ages: those that nobody could look at again are of the last look that could."""
    settings = replace(QUIET, no_process=0.0, paused=True)
    raised, _ = alert_conditions.look(settings, {}, [], observed(state=CrawlState.PAUSED, pause_reason="operator"))
    for later in (20, 40):
        away = Unanswered(NOW + later, NOW + 10, f"partition 3 of 4 does not answer: {later}", over=False)
        raised, _ = alert_conditions.look(settings, raised, [], away)
    _, changes = alert_conditions.look(settings, raised, [], observed())
    told = {one.condition: one.about.text for one in changes}
    assert told["paused"].startswith(f"No longer; at {format_time(NOW)}: ")
    assert told["no_process"] == f"No longer; at {format_time(NOW + 40)}: Partition 3 of 4 does not answer: 40."


@given(st.lists(st.floats(0.1, 5000.0), max_size=400))
def test_samples_are_few_in_order_and_reach_back_an_hour(steps: list[float]) -> None:
    kept: list[CrawlSample] = []
    now = NOW
    for step in steps:
        now += step
        new = CrawlSample(now, True, 0, 0, {})
        kept = alert_conditions.sampled(AlertSettings(), kept, new)
        assert [one.time for one in kept] == sorted(one.time for one in kept)
        assert len(kept) <= 140
        assert now - kept[-1].time < alert_conditions.HOUR / 120 and now - kept[0].time <= alert_conditions.HOUR * 1.1
