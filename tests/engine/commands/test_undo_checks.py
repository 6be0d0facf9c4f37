"""The dry run of an undo: what it would do, and the refusals of the undo itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, FrontierError, Outcome, Reader
from budgetfrontier.engine.commands.state_preview import of_crawl
from budgetfrontier.engine.commands.undo_checks import FORCE, preview
from tests.support import START, make_settings, pages


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A frontier with an entry of the audit for each kind of command: 1 retire, 2 and 3 adjust, 4 pause, 5 delete."""
    with Frontier.open(tmp_path / "frontier", make_settings()) as f:
        f.schedule_many(pages("AB", 3))
        f.retire("a.test", reason="a trap", who="alice")
        f.adjust(match="domain:b.test", queue_total_budget=5)
        f.adjust(match="domain:b.test", queue_total_budget=6)
        f.pause()
        f.delete(queue="b.test")
    return tmp_path


def tried(job: Path, number: int, *, force: bool = False) -> dict[str, Any]:
    """The dry run of an undo."""
    with Reader(job / "frontier") as reader, reader.view() as view:
        return preview(view, {"id": number, "force": force}, START)


def test_it_tells_what_would_come_back(job: Path) -> None:
    queue = tried(job, 1)
    assert queue["undoes"] == "1, retire by alice: a trap"
    assert tried(job, 3)["undoes"].endswith(" by api")
    assert (queue["queue"], queue["before"]["state"], queue["after"]["state"]) == ("a.test", "RETIRED", "INACTIVE")
    assert (tried(job, 3)["removed"], tried(job, 3)["restored"]) == ([3], [2])
    assert tried(job, 4)["after"]["state"] == "FINISHED"  # nothing is left that is not retired
    deletion = tried(job, 5)
    assert (deletion["returned"], deletion["queues"], deletion["queue_names"]) == (3, 1, ["b.test"])


@pytest.mark.parametrize("restored", [{}, {"a.test": 2}, {"a.test": 2, "b.test": 100}, {"a.test": 20, "b.test": 3}])
def test_the_undo_of_a_budget_tells_what_retires_and_what_is_spent(tmp_path: Path, restored: dict[str, int]) -> None:
    """Also if it restores adjustments of other patterns, which the one that is undone has replaced."""
    with Frontier.open(tmp_path / "frontier", make_settings(queue_total_budget=2)) as f:
        f.schedule_many(pages("AB", 9))
        for key, budget in restored.items():
            f.adjust(match=f"queue:{key}", queue_total_budget=budget)
        number = f.adjust(match="*", queue_total_budget=200).id
        for _ in range(4):
            f.finish(f.lease()[0], Outcome.SUCCESS)
        f.commit()
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            spent = {queue.queue: queue.expenditure for queue in view.stored_queues()}
        budgets = {key: restored.get(key, 2) for key in spent}
        over = [key for key in spent if spent[key] > budgets[key]]
        within = sum(min(9, budgets[key] + 1) - spent[key] for key in spent if key not in over)
        found = tried(tmp_path, number)
        assert (found["matched"], found["retired"], found["retired_count"]) == (2, over, len(over))
        assert (found["others"]["before"]["spend"], found["others"]["after"]["spend"]) == (14, within)
        f.undo(number)
        for _ in range(within):
            f.finish(f.lease()[0], Outcome.SUCCESS)
        assert f.lease() == []


def test_it_tells_the_reason_of_a_pause_that_would_come_back(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "frontier", make_settings(pause_at_finish=True)) as f:
        f.schedule("http://a.test/")
        f.finish(f.lease()[0], Outcome.SUCCESS)
        f.commit()
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            foretold = of_crawl(view, "pause", {"reason": "night"})["after"]
        f.pause(reason="night")
        number, done = f.audit()[-1].id, f.audit()[-1].effect
    assert foretold == done["after"] == {"state": "PAUSED", "pause_reason": "night"}
    assert tried(tmp_path, number)["after"] == done["before"] == {"state": "PAUSED", "pause_reason": "finish"}


def test_it_is_refused_as_the_undo_would_be(job: Path) -> None:
    with Frontier.open(job / "frontier") as f:
        f.unretire("a.test")
        f.resume()
        f.undo(5)
        f.terminate()
    for number in (1, 2, 4, 5, 9, 99):
        with pytest.raises(FrontierError) as refused:
            tried(job, number)
        with Frontier.open(job / "frontier") as f, pytest.raises(FrontierError) as also:
            f.undo(number)
        assert str(also.value) == str(refused.value), number
    with pytest.raises(FrontierError, match=f"{FORCE}$"):
        tried(job, 1)
    assert tried(job, 1, force=True)["after"]["state"] == "INACTIVE"


def test_the_dry_run_of_a_deletion_names_queues_and_what_has_changed_of_them(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "frontier", make_settings()) as f:
        f.schedule_many([*pages("ABC", 3), *pages("D", 1)])
        f.schedule(CrawlUri("https://a.test/later", not_before=4e9))
        f.delete(queue="[abc].test")
    told = tried(tmp_path, 1)
    assert (told["returned"], told["queues"], told["queue_names"]) == (10, 3, ["a.test", "b.test", "c.test"])
    assert "changed" not in told
    with Frontier.open(tmp_path / "frontier") as f:
        f.schedule_many(pages("B", 1, first=9))
        f.retire("c.test")
        f.commit()
        with pytest.raises(FrontierError, match=r"b\.test has changed since: 1 URI has come") as refused:
            tried(tmp_path, 1)
        told = tried(tmp_path, 1, force=True)
        assert told["changed"] == ["b.test: 1 URI has come", "c.test: it was retired by its operator"]
        assert (told["queues"], told["changed_count"]) == (3, 2)
        with pytest.raises(FrontierError) as also:
            f.undo(1)
        assert str(also.value) == str(refused.value)
        f.undo(1, force=True)
        done = f.audit(limit=1)[0].effect
        assert {name: told[name] for name in done if name in told} == {
            name: done[name] for name in done if name in told
        }
        assert (done["returned"], done["queues"]) == (10, 3)


def test_the_dry_run_of_dropped_dead_letters_names_no_queue(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "frontier", make_settings()) as f:
        f.schedule_many(pages("A", 2))
        f.finish(f.lease(1)[0], Outcome.DEAD)
        f.drop_dead_letters()
    told = tried(tmp_path, 1)
    assert (told["returned"], told["queues"]) == (1, 0)


def test_a_refusal_names_what_differs(tmp_path: Path) -> None:
    """Not the state of a queue, which a crawl changes all the time and an undo does not ask for."""
    with Frontier.open(tmp_path / "frontier", make_settings()) as f:
        f.schedule_many(pages("AB", 3))
        f.snooze("a.test", until=4e9)
        f.snooze("a.test", until=4.1e9)
        f.wake("b.test")
        f.snooze("b.test", until=4e9)
        f.retire("b.test")
        f.unretire("b.test")
        f.adjust(queue_total_budget=0)
        f.lease(1)
    for number, told in ((1, "it is blocked until 20"), (5, "it is SNOOZED, and was RETIRED by an operator")):
        with pytest.raises(FrontierError, match=f"has changed since {number}: .*{told}"):
            tried(tmp_path, number)


def test_values_of_a_sheet_contend_only_with_the_same_ones() -> None:
    with Frontier.open(":memory:", make_settings()) as f:
        f.schedule_many(pages("A", 3))
        first = f.adjust(match="sheet:new", precedence=1).id
        f.adjust(match="sheet:new", queue_total_budget=9)
        f.undo(first)
        again = f.adjust(match="sheet:new", precedence=2).id
        f.adjust(match="sheet:new", precedence=3, balance_replenish_amount=5)
        with pytest.raises(FrontierError, match=r"not in force any more|sets the same settings"):
            f.undo(again)


def test_a_forced_undo_brings_back_nothing_that_later_adjustments_have_replaced() -> None:
    with Frontier.open(":memory:", make_settings()) as f:
        f.schedule_many(pages("A", 3))
        first, second, _ = (f.adjust(match="host:a.test", queue_total_budget=total).id for total in (101, 102, 103))
        for entry in first, second:
            with pytest.raises(FrontierError, match="is not in force any more"):
                f.undo(entry, force=True)
        assert [one.set for one in f.adjustments] == [{"queue_total_budget": 103}]
