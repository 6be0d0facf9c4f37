"""The rules by which what partitions tell is merged."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from budgetfrontier.cluster.operators.merging import (
    CrawlFacts,
    limits_left,
    merged_adjustments,
    merged_audit,
    merged_effect,
    merged_entry,
    merged_held,
    merged_report,
    merged_runs,
)
from budgetfrontier.cluster.partitions.partition_progress import PartitionProgress as Partition
from budgetfrontier.core.model import CrawlState, Process, QueueRecord, QueueState, Run, RunEnd, Summary
from budgetfrontier.reports.operators import AdjustmentRow, AuditRow
from budgetfrontier.reports.overview import Gathered, Overview
from budgetfrontier.rules.forecasts import Held
from budgetfrontier.rules.run_history import SHARED_ANEW
from budgetfrontier.rules.undoing import NOTHING, NOTHING_KEPT
from budgetfrontier.rules.verdict import Standing, process_line
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.report import Report

NOW = 1_700_000_000.0


def part(state: CrawlState = CrawlState.RUNNING, *, counters: dict[str, int] | None = None, **told: Any) -> Report:
    """The report of a partition: some of its counters, and of its standing."""
    numbers = {name: 0 for name, kind in Summary.__annotations__.items() if kind == "int"} | (counters or {})
    queues = {each.value: 0 for each in QueueState} | told.pop("queues", {})
    named = {"state": state, "pause_reason": told.pop("pause_reason", None), "queues": queues}
    totals = msgspec.convert(numbers | named | {"full_reasons": {}, "invalid_reasons": {}}, Summary)
    process = Process(alive=True, pid=7, program="budgetfrontier worker", last_commit=NOW)
    standing = Standing(now=NOW, totals=totals, process=process, job="/a/folder", **told)
    return Report(
        crawl="test", generated=NOW, state=state, pause_reason=None, totals=totals, queues=[], standing=standing
    )


def verdict(*parts: Report, state: CrawlState | None = None) -> str:
    return merged_report(parts, CrawlFacts("kafka://b/test", 2, state=state)).verdict.text


def test_reports_are_added() -> None:
    merged = merged_report(
        [part(counters={"queued": 3, "succeeded": 1}), part(CrawlState.FINISHED, counters={"succeeded": 5})],
        CrawlFacts("kafka://b/test", workers=2),
    )
    assert (merged.totals.queued, merged.totals.succeeded, merged.state) == (3, 6, CrawlState.RUNNING)
    assert merged.standing.process.program == "2 workers"
    assert merged.standing.job == "kafka://b/test"


def test_ages_are_those_of_now_and_not_of_the_newest_summary() -> None:
    for now, ago in ((NOW + 130, "2m10s ago"), (0.0, "just now")):
        merged = merged_report([part(), part()], CrawlFacts("kafka://b/test", 0, now=now))
        assert merged.generated == max(now, NOW)
        assert process_line(merged.standing) == f"none; last commit {ago}"


@pytest.mark.parametrize("workers", [0, 1])
def test_a_crawl_without_workers_is_not_alive(workers: int) -> None:
    merged = merged_report([part(), part()], CrawlFacts("kafka://b/test", workers, unanswered="all are away"))
    assert merged.standing.process.alive is (workers > 0)
    over = merged_report([part(), part()], CrawlFacts("kafka://b/test", workers, state=CrawlState.FINISHED))
    assert over.verdict.slug == "nothing"


def test_the_state_is_unknown_while_a_partition_does_not_answer() -> None:
    for state in CrawlState:
        merged = merged_report([part(state)], CrawlFacts("kafka://b/test", 1, unanswered="partition 1 of 2 is away"))
        stays = state is CrawlState.TERMINATED
        assert merged.state is merged.totals.state is (state if stays else CrawlState.UNKNOWN)
        assert merged.verdict.slug == "missing_partitions"
        assert merged.verdict.text == "The state of the crawl is not known: partition 1 of 2 is away."


def test_the_verdict_is_on_the_whole_crawl() -> None:
    out: dict[str, Any] = {"counters": {"in_process": 2}, "queues": {"IN_PROCESS": 2}}
    assert verdict(part(rate=2.0, **out), part(rate=1.5, **out)) == "The crawl is running, 3.5 URIs/s, 4 URIs leased."
    over = part(counters={"queued": 4}, queues={"INACTIVE": 2}, over_budget=True)
    assert verdict(over, part(CrawlState.FINISHED)).startswith("All queues left are over their budget or limit")
    inactive = part(counters={"queued": 4}, queues={"INACTIVE": 2})
    assert verdict(over, inactive) == "The crawl is running."
    snoozed = [part(counters={"queued": 1}, queues={"SNOOZED": 1}, next_wake=NOW + wait) for wait in (30.0, 5.0)]
    assert verdict(*snoozed) == "All active queues are snoozed (2): the next one wakes in 5s."
    snoozed = [
        part(counters={"queued": 1}, queues={"SNOOZED": 1}, next_wake=NOW + wait, asked=NOW - asked)
        for wait, asked in ((30.0, 165.0), (-1.0, 999.0))
    ]
    due = "The next of the snoozed queues (2) is due, but no crawler has asked "
    assert verdict(*snoozed).startswith(due) and verdict(*snoozed).endswith(" for a URI for 2m45s.")
    paused = [
        part(CrawlState.PAUSED, pause_reason="why", steered_by=who, steered_at=when)
        for who, when in (("", None), ("me", NOW - 9))
    ]
    assert verdict(*paused) == "The crawl is paused by me 9s ago (why)."
    done = part(CrawlState.FINISHED, counters={"succeeded": 2})
    assert verdict(done, done).startswith("The crawl is finished: everything is crawled (4 URIs")
    assert verdict(done, done, state=CrawlState.RUNNING).startswith("Nothing is queued")  # URIs are on their way


def test_each_part_of_a_standing_is_merged() -> None:
    told: dict[str, Any] = {
        "commit_interval": 2.0, "max_queued": 3, "steered_by": "me", "steered_at": 5.0, "first_lease": 4.0,
        "first_url": "https://a.test/", "next_wake": 6.0, "for_robots": 1, "parked": 2, "group": "g", "for_retry": 3,
        "failure": "timeout", "next_due": 7.0, "held": 4, "held_future": 5, "hold": "g is over its budget",
        "retired_by_name": 6, "free": 8, "closed_until": 0.0, "closed": 7, "rate": 1.5,
        "asked": NOW - 9.0, "renewed": NOW - 8.0, "last_expiry": NOW + 9.0,
    }  # fmt: skip
    merged = merged_report([part(), part(**told)], CrawlFacts("j", 2)).standing
    assert {name: getattr(merged, name) for name in told} == told
    others = {"now", "totals", "process", "job", "over_budget", "limit", "unanswered"}
    not_of_partitions = {"start", "rests_until", "max_bandwidth"}
    assert {*told, *others, *not_of_partitions} == {*Standing.__struct_fields__}


def test_a_worker_knows_best_when_it_was_asked_last() -> None:
    parts = [part(asked=NOW - 9), part(asked=NOW - 5), part()]
    assert merged_report(parts, CrawlFacts("j", 2)).standing.asked == NOW - 5
    assert merged_report(parts, CrawlFacts("j", 2, asked=NOW - 70)).standing.asked == NOW - 70


def test_effects_are_added() -> None:
    def effect(matched: int, before: int | None, revived: list[str], ceiling: int | None, unknown: list[str]) -> Any:
        values = {"before": {"queue_total_budget": before}, "after": {"queue_total_budget": 9}}
        spend = {"uris": 1, "spend": 2, "ceiling": ceiling}
        return {
            "matched": matched, "groups": [values | {"queues": matched}] if matched else [], "ungrouped": 0, **values,
            "as_of": NOW + matched, "unknown": unknown, "by_next_uri": False, "retired": [], "revived": revived,
            "retired_count": 0, "revived_count": len(revived), "still_over": 1, "by_name": 0, "uris": 3, "spend": 4,
            "ceiling": ceiling, "others": {"queues": 1, "before": spend, "after": spend},
        }  # fmt: skip

    merged = merged_effect(
        [effect(2, 5, ["a"], 7, ["x", "y"]), effect(0, None, [], 1, ["x"]), effect(3, 5, ["b"], 2, ["x"])]
    )
    assert (merged["matched"], merged["before"]["queue_total_budget"]) == (5, 5)
    assert merged["groups"] == [{"before": {"queue_total_budget": 5}, "after": {"queue_total_budget": 9}, "queues": 5}]
    assert (merged["revived"], merged["revived_count"], merged["ceiling"], merged["unknown"]) == (
        ["a", "b"],
        2,
        10,
        ["x"],
    )
    assert merged["others"]["after"] == {"uris": 3, "spend": 6, "ceiling": 10}
    mixed = merged_effect([effect(2, 5, [], 7, []), effect(3, 6, [], None, [])])
    assert (mixed["before"], len(mixed["groups"]), mixed["ceiling"]) == ({"queue_total_budget": None}, 2, None)
    assert merged_effect([{"matched": None, "revived_count": 2}, {"matched": 3, "revived_count": 1}])["matched"] is None
    figures = [{"matched": 3, "changed": changed, "promised": {"spend": 7}} for changed in (1, 2, None)]
    assert (merged_effect(figures[:2])["changed"], merged_effect(figures)["changed"]) == (3, None)
    assert merged_effect(figures)["promised"] == {"spend": 7}  # that of the whole crawl, which all partitions were sent


def test_a_command_to_all_partitions_is_one_row_of_the_audit() -> None:
    def entry(number: int, when: float, command: str = "pause", error: str | None = None) -> AuditEntry:
        return AuditEntry(number, command, {}, "me", when, "", {}, error=error)

    rows = merged_audit(
        {
            0: [AuditRow("01", entry(2, 5.0)), AuditRow("0/1", entry(1, 1.0, "retire"))],
            3: [AuditRow("01", entry(1, 4.0, error="no"))],
            1: [AuditRow("01", entry(1, 6.0))],
        }
    )
    assert [(row.id, row.partitions, row.entry.error) for row in rows] == [
        ("0/1", "0", None), ("01", "0-1, 3", "in partition 3: no"),
    ]  # fmt: skip
    adjustments = {
        0: [AdjustmentRow("02", "*", {"a": 1}, entry(2, 5.0)), AdjustmentRow("01", "*", {"a": 2}, entry(3, 7.0))],
        1: [AdjustmentRow("02", "*", {"a": 1}, entry(4, 5.1))],
    }
    assert [one.id for one in merged_adjustments(adjustments)] == ["02", "01"]


@pytest.mark.parametrize("nothing", [NOTHING, NOTHING_KEPT])
def test_partitions_that_had_nothing_of_a_command_do_not_refuse_its_undo(nothing: str) -> None:
    """One that had no owner is given the undo of what it may have."""
    done = AuditEntry(7, "undo", {"id": "01"}, "me", 5.0, "", {"command": "delete", "returned": 3})
    none = AuditEntry(2, "undo", {"id": "01"}, "me", 4.0, "", {}, error=f"01, delete, {nothing}")
    later = replace(done, id=9, error="the disk is full")
    no = replace(none, error="queue a.test has changed")
    undone = merged_entry({0: none, 1: done, 2: done})
    assert (undone.error, undone.effect, undone.when) == (None, {"command": "delete", "returned": 6}, 4.0)
    assert merged_entry({0: none, 1: none}).error == none.error
    assert merged_entry({0: none, 1: no}).error == no.error
    refused = merged_entry({0: none, 1: no, 2: done})
    assert (refused.error, refused.effect["returned"]) == ("in partition 1: queue a.test has changed", 3)
    failed = merged_entry({0: none, 1: later, 2: done})
    assert (failed.error, failed.effect["returned"]) == ("in partition 1: the disk is full", 6)


def test_aggregates_of_parts_are_those_of_the_whole() -> None:
    chance = random.Random(7)
    queues = [
        QueueRecord(
            f"q{number}", number, chance.choice(list(QueueState)), precedence=chance.randrange(3), position=number,
            queued=chance.randrange(50), expenditure=chance.randrange(40), penalties=chance.randrange(3),
            wake_time=NOW + chance.randrange(99),
        )
        for number in range(1, 400)
    ]  # fmt: skip
    whole, merged = Overview(7).gather(queues), Overview(7)
    for start in range(3):
        gathered = msgspec.msgpack.encode(Overview(7).gather(queues[start::3]).gathered())
        merged.add(msgspec.msgpack.decode(gathered, type=Gathered))
    for one in (whole, merged):
        assert one.next_wake == min(queue.wake_time for queue in queues if queue.state is QueueState.SNOOZED)
    assert merged.inactive_by_precedence() == whole.inactive_by_precedence()
    assert [queue.queued for queue in merged.longest(7)] == [queue.queued for queue in whole.longest(7)]
    assert merged.listed(QueueState.READY) == whole.listed(QueueState.READY)
    found, expected = merged.spend(), whole.spend()
    assert (found.total, found.gini, found.top10_share, found.spenders, found.stranded, found.stranding_count) == (
        expected.total, expected.gini, expected.top10_share, expected.spenders, expected.stranded,
        expected.stranding_count,
    )  # fmt: skip


def test_runs_of_workers_are_the_times_in_which_there_was_one() -> None:
    def run(began: float, ended: float | None, reason: str = "", leased: int | None = None, pid: int = 1) -> Run:
        return Run(
            kernel="native",
            number=1, program="w", pid=pid, host="h", began=began, ended=ended, end=RunEnd.EXIT if ended else None,
            reason=reason, leased=leased,
        )  # fmt: skip

    merged = merged_runs([[run(0, 10), run(50, 60)], [run(5, 20), run(21, 30)], [run(55, None)]])
    assert [(one.began, one.ended, one.number) for one in merged] == [(0, 20, 1), (21, 30, 2), (50, None, 3)]
    assert merged[-1].end is None
    merged = merged_runs([[run(0, 10, SHARED_ANEW), run(17, 40)], [run(0, 9, SHARED_ANEW), run(18, 30)], [run(50, 60)]])
    assert [(one.began, one.ended, one.reason) for one in merged] == [(0, 40, ""), (50, 60, "")]
    first = run(0, 10, SHARED_ANEW, 0)
    assert merged_runs([[first], [run(5, 20, leased=3), run(30, 40, leased=2)]])[0].leased == 3
    assert merged_runs([[first], [run(5, None)]])[0].leased is None, "as long as the run goes on"
    assert merged_runs([[first], [run(5, 20)]])[0].leased is None, "a worker was killed"
    assert [one.pid for one in merged_runs([[run(0, 10, pid=1), run(30, 40, pid=4)], [run(1, None, pid=2)]])] == [2]
    assert [one.pid for one in merged_runs([[run(0, 30, pid=1)], [run(1, 20, pid=2)], [run(2, 40, pid=3)]])] == [3]


def test_a_worker_that_only_waited_and_was_killed_makes_one_run() -> None:
    """It has opened its partitions one after the other, and each ends with its last commit, at its begin."""

    def run(began: float, pid: int, host: str = "h", ended: float | None = None) -> Run:
        return Run(
            kernel="native", number=1, program="w", pid=pid, host=host, began=began, ended=ended or began,
            end=RunEnd.KILLED, reason="", leased=None,
        )  # fmt: skip

    def merged(*partitions: list[Run]) -> list[tuple[float, float | None]]:
        return [(one.began, one.ended) for one in merged_runs(partitions)]

    assert merged([run(10, 7)], [run(10.3, 7)]) == [(10, 10.3)]
    assert merged([run(10, 7)], [run(10.1, 7, "other")], [run(10.3, 7)]) == [(10, 10.3)], "of two workers"
    again = [run(10, 1), run(50, 1, ended=70)], [run(10.3, 1), run(50.3, 1)]
    assert merged(*again) == [(10, 10.3), (50, 70)], "the pid of each is 1, as in a container"
    assert merged([run(10, 7)], [run(30, 8)]) == [(10, 10), (30, 30)]


def test_undos_are_added_and_states_are_told_once() -> None:
    states = [{"command": "pause", "before": {"state": state}, "after": {"state": "RUNNING"}} for state in "AAB"]
    told = merged_effect(states)
    assert (told["before"]["state"], told["after"]["state"]) == ("A or B", "RUNNING")
    found = merged_effect([{"returned": 3, "queues": 1, "command": "delete"}, {"returned": 4, "queues": 2, "later": 2}])
    assert (found["returned"], found["queues"], found["later"], found["command"]) == (7, 3, 2, "delete")
    one = {"queue": "a", "before": {"state": "READY"}, "after": {"state": "RETIRED"}}
    assert merged_effect([one]) == one
    selected = [
        {"matched": 2, "states": {"READY": 2}, "queues": ["a", "b"], "paces": {"interval": {"2.0": 1, "null": 1}}},
        {"matched": 1, "states": {}, "queues": [], "paces": {"interval": {"2.0": 1}}},
        {"matched": 0, "states": {}, "queues": []},
    ]
    assert merged_effect(selected) == {
        "matched": 3,
        "states": {"READY": 2},
        "queues": ["a", "b"],
        "paces": {"interval": {"2.0": 2, "null": 1}},
    }
    tallies = [
        {"added": 2, "reasons": {}},
        {"added": 1, "reasons": {"scheme": 3}},
        {"added": 0, "reasons": {"scheme": 1}},
    ]
    assert merged_effect(tallies) == {"added": 3, "reasons": {"scheme": 4}}
    kept = [{"queues": 1, "first": ["u"] * 9, "kept": {"bytes": 5}}, {"queues": 2, "first": ["v"] * 9, "kept": None}]
    assert merged_effect(kept) == {"queues": 3, "first": ["u"] * 9 + ["v"], "kept": {"bytes": 5}}


def test_what_is_left_of_totals_is_what_may_be_granted_and_what_was() -> None:
    def standing(number: int, room: int, left: dict[str, int] | None = None) -> Partition:
        totals = part().totals
        return Partition(number, 0, 0, "w", totals, {}, {}, {"cluster.max_uris": room}, left)

    found = limits_left([standing(0, 5, {"cluster.max_uris": 90}), standing(1, -2)])
    assert found["cluster.max_uris"].left == 93
    held = merged_held([Held(5, 1, 9.0, "a"), Held(6, 0, 30.0, "b")])
    assert held == Held(11, 1, 30.0, "b")
