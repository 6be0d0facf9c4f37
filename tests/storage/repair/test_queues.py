"""Repair of queues: states that cannot be, fields that cannot be read, records that are lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Outcome, Reader
from budgetfrontier.core.model import QueueState
from budgetfrontier.storage import keys
from tests.storage.full_frontier import look
from tests.storage.repair.damaging import aside, assert_repaired, damaging, each
from tests.support import on_disk, pages

# -- states that cannot be


@pytest.mark.parametrize(
    ("name", "fields", "state"),
    [
        ("waiting.test", {"state": QueueState.EXHAUSTED}, "INACTIVE"),
        ("exhausted.test", {"state": QueueState.READY, "position": (1 << 63) + 50}, "EXHAUSTED"),
        ("exhausted.test", {"state": QueueState.SNOOZED}, "EXHAUSTED"),
        ("ready.test", {"state": QueueState.IN_PROCESS}, "READY"),
        ("polite.test", {"state": QueueState.IN_PROCESS, "wake_time": 1e11}, "SNOOZED"),
        ("busy.test", {"state": QueueState.RETIRED, "position": 1}, "RETIRED"),
        ("waiting.test", {"expenditure": -5, "penalties": 3, "charges": -1, "errors": -1}, "INACTIVE"),
        ("waiting.test", {"precedence": -1}, "INACTIVE"),
        ("waiting.test", {"position": 0}, "INACTIVE"),
        ("waiting.test", {"position": (1 << 64) - 1}, "INACTIVE"),
        ("waiting.test", {"state": QueueState.INELIGIBLE, "position": 1}, "INACTIVE"),
        ("polite.test", {"wake_time": float("nan")}, "SNOOZED"),
        ("polite.test", {"wake_time": float("-inf"), "block": float("inf")}, "SNOOZED"),
    ],
)
def test_a_state_that_cannot_be_becomes_one_that_can(path: Path, name: str, fields: dict[str, Any], state: str) -> None:
    before = look(path)["pending"]
    with damaging(path) as damage:
        damage.change_queue(name, **fields)
    done = assert_repaired(path)
    assert any(line.startswith(f"queue {name}: ") for line in done.first_changes)
    with Reader(path) as reader:
        queue = reader.queue(name)
        assert queue is not None and queue.state == state
    assert [len(queue) for queue in look(path)["pending"]] == [len(queue) for queue in before]


def test_a_queue_at_the_precedence_floor_is_ineligible_again(tmp_path: Path) -> None:
    with on_disk(tmp_path, precedence_floor=3) as f:
        f.schedule_many(pages("ABC", 2))
    with damaging(tmp_path / "frontier") as damage:
        damage.change_queue("a.test", state=QueueState.INACTIVE)
        damage.change_queue("b.test", position=70)
    assert_repaired(tmp_path / "frontier")
    with Reader(tmp_path / "frontier") as reader:
        summary = reader.summary()
    assert (summary.queues["INELIGIBLE"], summary.queued, summary.state) == (3, 0, "FINISHED")


def test_a_field_that_cannot_be_read_takes_no_other_with_it(path: Path) -> None:
    with damaging(path) as damage:
        damage.change_queue("waiting.test", precedence=-1, position=-7, expenditure=41, balance=17, by_name=True)
    done = assert_repaired(path)
    assert "queue waiting.test: precedence, position cannot be read, set to default" in done.first_changes
    with Reader(path) as reader:
        queue = reader.queue("waiting.test")
        assert queue is not None and (queue.expenditure, queue.balance, queue.precedence) == (41, 17, 3)


def test_queues_that_claim_one_place_keep_their_order_as_far_as_it_is_known(path: Path) -> None:
    with Reader(path) as reader:
        inactive = [queue for queue in reader.queues() if queue.state is QueueState.INACTIVE and queue.precedence == 3]
    inactive.sort(key=lambda queue: queue.position)
    first, second = inactive[0], inactive[1]
    with damaging(path) as damage:
        damage.change_queue(second.queue, position=first.position)
    assert_repaired(path)
    with Reader(path) as reader:
        after = [queue for queue in reader.queues() if queue.state is QueueState.INACTIVE and queue.precedence == 3]
    after.sort(key=lambda queue: queue.position)
    names = [queue.queue for queue in inactive]
    assert [queue.queue for queue in after] == [names[0], *names[2:], names[1]]


# -- queues whose record is lost


def test_the_record_of_a_queue_is_made_anew_with_what_it_has_spent(path: Path) -> None:
    before = look(path)
    with damaging(path) as damage:
        damage.put(keys.QUEUES, damage.queue("spent.test"), b"\xc1")
    done = assert_repaired(path)
    after = look(path)
    assert after["summary"] == before["summary"], "its state and its money included"
    assert after["pending"] == before["pending"]
    assert [item["table"] for item in aside(done)] == [keys.QUEUES]
    lost = next(queue for queue in before["queues"] if queue["queue"] == "spent.test")
    made = next(queue for queue in after["queues"] if queue["queue"] == "spent.test")
    assert made["expenditure"] == lost["expenditure"] > 0
    assert (made["state"], made["queued"], made["out"]) == (lost["state"], lost["queued"], lost["out"])


def test_the_records_of_all_queues_are_made_anew(path: Path) -> None:
    before = look(path)
    with damaging(path) as damage:
        each(keys.QUEUES)(damage)
    assert_repaired(path)
    after = look(path)
    for what in "pending", "future", "leases", "dead_letters", "audit":
        assert after[what] == before[what]
    states = {queue["queue"]: queue["state"] for queue in before["queues"]}
    assert {queue["queue"]: queue["state"] for queue in after["queues"]} == states
    wakes = {queue["queue"]: queue["wake_time"] for queue in before["queues"] if queue["state"] == "SNOOZED"}
    assert {queue["queue"]: queue["wake_time"] for queue in after["queues"] if queue["state"] == "SNOOZED"} == wakes


def test_without_records_and_names_urls_in_full_find_their_queues(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("AB", 3))
        f.schedule(CrawlUri("https://c.test/", queue="a key of its own"))
    path = tmp_path / "frontier"
    with damaging(path) as damage:
        for table in keys.QUEUES, keys.QUEUE_IDS:
            for key, _ in damage.items(table):
                damage.delete(table, key)
    done = assert_repaired(path)
    with Reader(path) as reader:
        (queue,) = reader.queues()
        assert (queue.queue, queue.queued) == ("a key of its own", 1)
    left_out = aside(done)
    assert len(left_out) == 6 and all("its queue is unknown" in item["why"] for item in left_out)


def test_two_records_of_one_queue_become_one(path: Path) -> None:
    before = look(path)
    with damaging(path) as damage:
        record = damage.txn.get(damage.queue("ready.test"), db=damage.db(keys.QUEUES)) or b""
        damage.put(keys.QUEUES, keys.u32.pack(5000), record)
        uri = damage.items(keys.PENDING)[0]
        damage.put(keys.PENDING, keys.u32.pack(5000) + uri[0][4:], b"\xff/stray")
    done = assert_repaired(path)
    assert [item["table"] for item in aside(done)] == [keys.QUEUES]
    with Reader(path) as reader:
        assert [queue.queue for queue in reader.queues()] == [queue["queue"] for queue in before["queues"]]
        assert "https://ready.test/stray" in [pending.uri.url for pending in reader.pending("ready.test")]


@pytest.mark.parametrize(
    ("spent", "parts"),
    [
        (900, {"failed": 51, "retried": 0, "given_up": 0, "succeeded": 2, "other": 847}),
        (51, {"failed": 51, "retried": 0, "given_up": 0, "succeeded": 0, "other": 0}),
        (20, {"failed": 20, "retried": 0, "given_up": 0, "succeeded": 0, "other": 0}),
    ],
)
def test_the_parts_of_what_was_spent_add_up_to_the_sum_of_the_queues(
    tmp_path: Path, spent: int, parts: dict[str, int]
) -> None:
    with on_disk(tmp_path, error_penalty_amount=50) as f:
        f.schedule_many(pages("A", 3))
        for outcome in (Outcome.FAILURE, Outcome.SUCCESS, Outcome.SUCCESS):
            f.finish(f.lease(1)[0], outcome)
    path = tmp_path / "frontier"
    with damaging(path) as damage:
        damage.change_queue("a.test", expenditure=spent, penalties=min(spent, 50))
    assert_repaired(path)
    with Reader(path) as reader:
        totals = reader.summary()
    assert totals.expenditure == spent
    assert {name: getattr(totals, f"{name}_expenditure") for name in parts} == parts
