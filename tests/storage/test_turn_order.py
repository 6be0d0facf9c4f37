"""The order in which queues have their turns, as their indexes tell it."""

from __future__ import annotations

from pathlib import Path

from budgetfrontier import Frontier, Reader, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import QueueState
from budgetfrontier.storage.turn_order import INDEXED, in_turn, is_turn, turns_before
from tests.support import START, make_settings, on_disk, pages


def test_queues_of_a_state_come_in_the_order_of_their_turns(tmp_path: Path) -> None:
    with on_disk(tmp_path, overrides=[{"match": "host:c.test", "set": {"precedence": 1}}]) as f:
        f.schedule_many(pages("ABCDEFG", 2))
        f.lease(1)
        f.retire("f.test")
        f.retire("b.test")
        f.snooze("e.test", until=START + 99)
        f.commit()
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:

            def listed(state: QueueState) -> list[str]:
                return [view.queue_by_id(id_).queue[0] for _, id_ in in_turn(view, state)]

            assert {state: listed(state) for state in INDEXED if listed(state)} == {
                QueueState.IN_PROCESS: ["c"],
                QueueState.INACTIVE: ["a", "d", "e", "g"],
                QueueState.RETIRED: ["f", "b"],
            }
            rest = list(in_turn(view, QueueState.INACTIVE))
            assert list(in_turn(view, QueueState.INACTIVE, rest[2][0])) == rest[2:]
            for place, (_, id_) in enumerate(rest):
                assert turns_before(view, view.queue_by_id(id_)) == (place, 0)


def test_a_queue_with_several_leases_comes_once_and_one_that_may_have_more_is_not_in_process(tmp_path: Path) -> None:
    with on_disk(tmp_path, concurrency=2, hold_queues=False) as f:
        f.schedule_many([*pages("A", 3), *pages("B", 3)])
        f.lease(3)
        f.commit()
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            found = [view.queue_by_id(id_).queue for _, id_ in in_turn(view, QueueState.IN_PROCESS)]
            assert found == ["a.test"]
            (ready,) = (view.queue_by_id(id_) for _, id_ in in_turn(view, QueueState.READY))
            assert turns_before(view, ready) == (0, 0)


def test_snoozed_queues_that_wait_for_their_group_come_after_those_that_wait_for_a_time(tmp_path: Path) -> None:
    settings = make_settings(hold_queues=False).to_dict()
    settings["groups"] = [{"name": "one", "match": "domain:test", "max_in_flight": 1}]
    with Frontier.open(tmp_path / "frontier", Settings.from_dict(settings), clock=ManualClock(START)) as f:
        f.schedule_many(pages("ABCD", 1))
        f.snooze("b.test", until=START + 99)
        assert len(f.lease(9)) == 1
        f.commit()
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            rows = list(in_turn(view, QueueState.SNOOZED))
            assert [view.queue_by_id(id_).queue[0] for _, id_ in rows] == ["b", "c", "d"]
            for place, (key, _) in enumerate(rows):
                assert is_turn(QueueState.SNOOZED, key)
                assert list(in_turn(view, QueueState.SNOOZED, key)) == rows[place:]
