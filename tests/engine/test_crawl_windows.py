"""Crawl windows: of the whole crawl, and of queues; what changes them, and what is waited for besides."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Lease, Reader, Settings, SettingsError
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.rollout import STEP
from budgetfrontier.reports import over_time
from budgetfrontier.reports.explain import explain
from budgetfrontier.reports.explanation import Explanation, Outlook
from budgetfrontier.tools.cli import main
from tests.support import kernel, make_settings, memory, on_disk, pages, record, state, whole

DAY, HOUR = 86400.0, 3600.0
MONDAY = datetime(2026, 3, 23, tzinfo=UTC).timestamp()
NIGHT = "mon-fri 22:00-06:00 Europe/Berlin"  # 21:00-05:00 UTC until 29 March


def at(hour: float, day: int = 0) -> ManualClock:
    return ManualClock(MONDAY + day * DAY + hour * HOUR)


def leased(leases: Iterable[Lease]) -> list[str]:
    return [f"{lease.queue[0]}/{lease.uri.url.rpartition('/')[2]}" for lease in leases]


def test_nothing_is_leased_outside_the_windows_of_the_crawl() -> None:
    clock = at(12)
    f = memory(clock, guards={"windows": [NIGHT]})
    f.schedule_many(pages("ab", 2))
    assert (f.lease(), f.next_ready_in()) == ([], 9 * HOUR)
    assert (state(f, "a"), state(f, "b")) == ("INACTIVE", "INACTIVE"), "no queue changes"
    clock.advance(9 * HOUR - 1)
    assert (f.lease(), f.next_ready_in()) == ([], 1.0)
    clock.advance(1)
    (lease,) = f.lease(ttl=DAY)
    clock.advance(8 * HOUR)
    assert f.lease() == []
    f.finish(lease)
    assert f.lease() == []
    assert f.next_ready_in() == 16 * HOUR
    whole(f)


@pytest.mark.parametrize(("day", "hours"), [(4, 80), (5, 56)])  # to 22:00 on Monday, 20:00 UTC
def test_a_window_is_exact_over_the_change_to_summer_time(day: int, hours: float) -> None:
    clock = at(12, day)
    f = memory(clock, guards={"windows": ["mon-thu 22:00-06:00 Europe/Berlin"]})
    f.schedule_many(pages("a", 2))
    assert (f.lease(), f.next_ready_in()) == ([], hours * HOUR)


def test_a_queue_outside_its_windows_waits_while_others_go_on() -> None:
    clock = at(12)
    f = memory(clock, overrides=[{"match": "queue:a.test", "set": {"guards.windows": [NIGHT]}}])
    f.schedule_many(pages("ab", 2))
    assert leased(f.lease(9)) == ["b/0"]
    assert (state(f, "a"), record(f, "a").wake_time) == ("SNOOZED", MONDAY + 21 * HOUR)
    clock.advance(9 * HOUR)
    assert leased(f.lease(9)) == ["b/0", "a/0"]  # the lease of b/0 has expired
    whole(f)


def test_an_override_may_open_what_is_closed_for_the_others() -> None:
    clock = at(12)
    f = memory(clock, guards={"windows": [NIGHT]}, overrides=[{"match": "queue:a.test", "set": {"guards.windows": []}}])
    f.schedule_many(pages("ba", 2))
    assert leased(f.lease(9)) == ["a/0"]
    assert record(f, "b").wake_time == MONDAY + 21 * HOUR


def test_with_all_windows_closed_the_first_that_opens_counts() -> None:
    clock = at(12)
    override = {"match": "queue:a.test", "set": {"guards.windows": ["daily 18:00-19:00 UTC"]}}
    f = memory(clock, guards={"windows": [NIGHT]}, overrides=[override])
    f.schedule_many(pages("ba", 2))
    assert (f.lease(), f.next_ready_in()) == ([], 6 * HOUR)
    assert state(f, "b") == "INACTIVE"
    clock.advance(6 * HOUR)
    assert leased(f.lease(9)) == ["a/0"]


def test_an_adjustment_that_opens_the_windows_counts_at_once_and_its_undo_too() -> None:
    clock = at(12)
    f = memory(clock, concurrency=2)
    f.schedule_many(pages("ab", 4))
    f.adjust(match="queue:a.test", guards={"windows": [NIGHT]})
    closing = f.audit()[-1].id
    assert leased(f.lease(1)) == ["b/0"]
    assert state(f, "a") == "SNOOZED"
    f.undo(closing)
    assert leased(f.lease(3)) == ["b/1", "a/0", "a/1"]
    f.undo(f.audit()[-1].id)
    assert state(f, "a") == "IN_PROCESS"
    f.adjust(match="queue:a.test", guards={"windows": ["daily 12:00-13:00 UTC"]})
    whole(f)


def test_opening_the_windows_leaves_other_waits() -> None:
    clock = at(12)
    f = memory(clock, concurrency=2, polite=True)
    f.schedule_many(pages("a", 4))
    first, second = f.lease(2)
    f.finish(first, fetch_seconds=0.1)  # rests for 3 s
    clock.advance(4)
    f.adjust(guards={"windows": [NIGHT]}, match="queue:a.test")
    assert f.lease() == []
    assert state(f, "a") == "SNOOZED"
    f.finish(second, fetch_seconds=2.0)  # rests for 10 s
    f.adjust(guards={"windows": []}, match="queue:a.test")
    assert (f.lease(), f.next_ready_in()) == ([], 10.0)
    f.snooze("a.test", until=clock.time() + 60)
    f.adjust(guards={"windows": [NIGHT]}, match="queue:a.test")
    f.adjust(guards={"windows": []}, match="queue:a.test")
    assert f.next_ready_in() == 60.0
    whole(f)


@pytest.mark.parametrize("one", [True, False])
def test_a_block_given_while_the_windows_are_closed_lasts_no_longer_than_it_says(one: bool) -> None:
    clock = at(12)
    f = memory(clock)
    f.schedule_many(pages("a", 2))
    f.adjust(guards={"windows": [NIGHT]}, match="queue:a.test")
    assert (f.lease(), state(f, "a")) == ([], "SNOOZED")
    until = clock.time() + 60
    if one:
        f.snooze("a.test", until=until)
    else:
        f.internals.apply(Command("snooze", {"match": "queue:*", "until": until}, "me", ""))
    assert record(f, "a").wake_time == MONDAY + 21 * HOUR
    f.adjust(guards={"windows": []}, match="queue:a.test")
    assert (f.lease(), f.next_ready_in()) == ([], 60.0)
    whole(f)


def test_a_queue_that_is_woken_waits_again_until_its_windows_open() -> None:
    clock = at(12)
    f = memory(
        clock,
        overrides=[
            {"match": "*", "set": {"guards.windows": [NIGHT]}},
            {"match": "queue:b.test", "set": {"guards.windows": []}},
        ],
    )
    f.schedule_many(pages("a", 2))
    assert f.lease() == []
    f.wake("a.test")
    assert f.lease() == []
    assert record(f, "a").wake_time == MONDAY + 21 * HOUR


def test_a_change_of_windows_for_many_queues_is_made_in_steps(tmp_path: Path) -> None:
    clock, count = at(12), 2 * STEP + 100
    with on_disk(tmp_path, clock, overrides=[{"match": "queue:*.test", "set": {"guards.windows": [NIGHT]}}]) as f:
        f.schedule_many(f"https://{n}.test/" for n in range(count))
        while f.next_ready_in() == 0.0:
            assert f.lease() == []
        assert f.summary().queues["SNOOZED"] == count
        f.adjust(match="queue:*.test", guards={"windows": []})
        f.commit()
    with on_disk(tmp_path, clock) as f:
        count_leased = 0
        while f.next_ready_in() == 0.0:
            count_leased += len(f.lease(1000))
        assert count_leased == count
        whole(f)


def test_a_new_opening_keeps_the_waits_and_a_change_of_the_file_ends_them(tmp_path: Path) -> None:
    clock = at(12)
    closed: dict[str, Any] = {"match": "queue:a.test", "set": {"guards.windows": [NIGHT]}}
    with on_disk(tmp_path, clock, overrides=[closed]) as f:
        f.schedule_many(pages("ab", 2))
        assert leased(f.lease(9)) == ["b/0"]
    with on_disk(tmp_path, clock) as f:
        assert record(f, "a").wake_time == MONDAY + 21 * HOUR
    with on_disk(tmp_path, clock, overrides=[closed, {"match": "queue:a.test", "set": {"guards.windows": []}}]) as f:
        assert "a/0" in leased(f.lease(9))


def test_by_queue(tmp_path: Path) -> None:
    clock = at(12)
    f = memory(clock, overrides=[{"match": "queue:a.test", "set": {"guards.windows": [NIGHT]}}])
    f.schedule_many(pages("ab", 2))
    assert leased(f.internals.lease_queues(9)) == ["b/0"]
    assert f.internals.lease_queues(1, queue="a.test") == []
    g = memory(clock, guards={"windows": [NIGHT]})
    g.schedule_many(pages("ab", 2))
    assert g.internals.lease_queues(9) == []


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("mon-fri 22:00-06:00 Europe/Berln", 'there is no time zone "Europe/Berln"; did you mean Europe/Berlin'),
        ([{"days": "mon", "from": "9:00"}], 'expected a time of day such as 06:00, got "9:00"'),
        ([{"day": "mon"}], 'unknown key "day" in a window'),
        (["mon 08:00-08:00"], "is empty"),
        (["mon 1:0-2:0"], 'expected times of day such as 22:00-06:00, got "1:0-2:0"'),
        (["9-17 Europe/Berlin"], 'expected times of day such as 22:00-06:00, got "9-17"'),
        (["mon 22:00 06:00"], 'expected times of day such as 22:00-06:00, got "22:00"'),
        (["mon-fri 22:00\N{EN DASH}06:00"], 'expected "-" for "\N{EN DASH}" in the window'),
        (["mon\N{EM DASH}fri"], 'expected "-" for "\N{EM DASH}" in the window'),
        ([{"days": "mon\N{EN DASH}fri"}], 'expected "-" for "\N{EN DASH}" in the window'),
        (["funday"], "expected a window such as"),
        ([3], "expected a window such as"),
    ],
)
def test_windows_are_checked_when_they_are_read(value: Any, problem: str) -> None:
    with pytest.raises(SettingsError, match="frontier.guards.windows.*" + problem):
        Settings.from_dict({"frontier": {"guards": {"windows": value}}})
    f = memory()
    with pytest.raises(SettingsError, match=problem):
        f.adjust(guards={"windows": value})


def test_windows_are_written_in_one_way() -> None:
    given = {"days": ["sat", "Sunday", "mon"], "from": "22:00", "to": "06:00", "zone": "Europe/Berlin"}
    settings = Settings.from_dict({"frontier": {"guards": {"windows": given}}})
    assert settings.frontier.guards.windows == ("mon,sat,sun 22:00-06:00 Europe/Berlin",)
    assert Settings.from_dict(settings.to_dict()) == settings


def test_a_group_waits_for_no_queue_that_is_outside_its_windows() -> None:
    clock = at(12)
    f: Frontier = memory(
        clock,
        groups=[{"name": "g", "match": "*", "max_in_flight": 1}],
        overrides=[{"match": "queue:a.test", "set": {"guards.windows": [NIGHT]}}],
    )
    f.schedule_many(pages("abc", 2))
    (lease,) = f.lease(9)
    assert lease.queue == "b.test"
    f.finish(lease)
    assert leased(f.lease(9)) == ["c/0"]
    whole(f)


def test_a_dry_run_says_how_many_queues_would_be_closed_now() -> None:
    clock = at(12)
    f = memory(clock, overrides=[{"match": "queue:a.test", "set": {"guards.windows": [NIGHT]}}])
    f.schedule_many(pages("abcd", 2))
    f.retire("d.test")
    plan = f.adjust(guards={"windows": [NIGHT]}, dry_run=True)
    assert (plan.closed_count, plan.still_closed, plan.opened_count) == (2, 1, 0), "d.test is retired"
    assert plan.changed == 3
    plan = f.adjust(guards={"windows": ["mon 12:00-13:00"]}, dry_run=True)
    assert (plan.closed_count, plan.still_closed, plan.opened_count) == (0, 0, 1)
    plan = f.adjust(guards={"windows": []}, dry_run=True)
    assert (plan.closed_count, plan.still_closed, plan.opened_count) == (0, 0, 1)
    plan = f.adjust(queue_total_budget=9, dry_run=True)
    assert (plan.closed_count, plan.still_closed, plan.opened_count) == (0, 0, 0), "it is not about windows"
    assert leased(f.lease(9)) == ["b/0", "c/0"]


def test_verdict_and_explain_name_the_windows(tmp_path: Path) -> None:
    clock = at(12)
    with on_disk(tmp_path, clock, guards={"windows": [NIGHT]}) as f:
        f.schedule_many(pages("ab", 2))
        assert f.lease() == []
        found, text = (
            f.verdict(),
            "All crawl windows are closed (guards.windows): the first opens in 9h, at 2026-03-23 21:00 UTC.",
        )
        assert (found.slug, found.level, found.text) == ("closed", "good", text)
        with Reader(tmp_path / "frontier") as reader:
            told = explain(reader, "a.test", job="JOB", now=clock.time())
        assert (told.verdict, told.when) == (Outlook.LATER, MONDAY + 21 * HOUR)
        assert [reason.code for reason in told.reasons if "windows" in reason.text] == ["closed", "crawl-closed"]
        f.adjust(match="queue:b.test", guards={"windows": []})
        f.adjust(match="queue:c.test", guards={"windows": []})
        assert leased(f.lease(9)) == ["b/0"]
        f.finish(next(iter(kernel(f).tables.leases.out.values())))
        f.retire("b.test")
        assert f.lease() == []
        f.commit()
        assert "1 of them waits for its crawl windows" in f.verdict().text
        with Reader(tmp_path / "frontier") as reader:
            told = explain(reader, "a.test", job="JOB", now=clock.time())
            (reason,) = [reason for reason in told.reasons if reason.code == "snoozed"]
            assert f"it is outside its crawl windows ({NIGHT})" in reason.text
            assert reason.command is None, "no command opens them but `adjust`"
            with reader.view() as view:
                rows = over_time.forecast_rows(
                    over_time.between([]), view.summary(), over_time.held(view, clock.time()),
                    over_time.limits_left(view, tmp_path / "frontier", clock.time()), now=clock.time(),
                )  # fmt: skip
        assert [row.sure for row in rows if row.bound == "windows"] == ["unknown"]
        assert next(row.seconds or 0.0 for row in rows if row.bound == "politeness") >= 9 * HOUR


def test_explain_knows_windows_that_have_closed_by_a_change(tmp_path: Path) -> None:
    """No lease has asked about them since."""
    clock = at(12)
    with on_disk(tmp_path, clock, overrides=[{"match": "queue:a.test", "set": {"guards.windows": [NIGHT]}}]) as f:
        f.schedule_many(pages("ab", 2))
        f.lease(9)
        for windows, wakes, opens in (
            (["daily 01:00-02:00"], 0, 13 * HOUR),
            (["daily 12:00-13:00"], 0, 0),
            (["daily 12:00-13:00"], 2 * HOUR, 24 * HOUR),
            (["daily 14:00-15:00"], 2 * HOUR, 0),
        ):
            f.adjust(match="queue:a.test", guards={"windows": windows})
            if wakes:
                f.snooze("a.test", until=clock.time() + wakes)
            f.commit()
            told = explain_at(tmp_path, "a.test", clock)
            closed = [reason for reason in told.reasons if reason.code == "closed"]
            assert [reason.when for reason in closed] == ([clock.time() + opens] if opens else [])
            assert all(windows[0] in reason.text for reason in closed)
            if wakes:
                f.wake("a.test")


def test_explain_of_a_paused_crawl_names_windows_that_are_closed_besides(tmp_path: Path) -> None:
    clock = at(12)
    with on_disk(tmp_path, clock, guards={"windows": [NIGHT]}) as f:
        f.schedule_many(pages("a", 2))
        f.pause()
        f.commit()
        paused = explain_at(tmp_path, "a.test", clock)
        f.resume()
    stopped = explain_at(tmp_path, "a.test", clock)
    for told, code in ((paused, "paused"), (stopped, "not-running")):
        assert [one.code for one in told.reasons][-2:] == [code, "crawl-closed"]
        assert (told.verdict, told.when) == (Outlook.BLOCKED, MONDAY + 21 * HOUR)
        assert told.text(now=clock.time()).endswith(", or others with the same effect, in 9h at the earliest.\n")


def test_commands_say_that_windows_are_closed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job, now = str(tmp_path), time.time()
    given = f'["daily {"14:00-15:00" if now % DAY < 12 * HOUR else "02:00-03:00"} UTC"]'
    override = {"match": "queue:a.test", "set": {"guards.windows": json.loads(given)}}
    with Frontier.open(tmp_path / "frontier", make_settings(overrides=[override])) as f:
        f.schedule_many(pages("ab", 2))
        f.snooze("a.test", until=now + DAY)
        f.snooze("b.test", until=now + DAY)
    for key, told in (("a.test", "In its turn it waits for its crawl windows (daily"), ("b.test", "")):
        assert main(["wake", job, key]) == 0
        err = capsys.readouterr().err
        assert told in err and ("windows" in err) is (told != "")
    for _ in range(2):
        assert main(["adjust", job, "--set", f"guards.windows={given}", "--dry-run"]) == 0
        out, told = capsys.readouterr().out, "nothing is left to lease until "
        assert "would be outside their crawl windows now: 2 queues; 1 of them as before\n" in out and told in out
    assert main(["pause", job]) == main(["adjust", job, "--set", f"guards.windows={given}"]) == 0
    assert main(["resume", job]) == 0
    assert "All crawl windows are closed (guards.windows): the first opens in " in capsys.readouterr().err
    assert main(["adjust", job, "--list"]) == 0
    assert f"guards.windows={given}" in capsys.readouterr().out
    assert main(["adjust", job, "--set", "guards.windows=[]", "--dry-run"]) == 0
    assert "would be outside their crawl windows no more: 2 queues\n" in capsys.readouterr().out


def explain_at(folder: Path, target: str, clock: ManualClock) -> Explanation:
    with Reader(folder / "frontier") as reader:
        return explain(reader, target, job="JOB", now=clock.time())
