"""Damage of every kind, found by `verify`, and what `repair` makes of it: what follows from the rest comes back."""

from __future__ import annotations

import errno
import faulthandler
import json
import lzma
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import msgspec
import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.errors import (
    CorruptFrontier,
    FrontierError,
    FrontierLocked,
    NewerSchema,
    NotAFrontier,
    StorageFull,
)
from budgetfrontier.model import QueueState
from budgetfrontier.store import backup, keys, verify
from budgetfrontier.store.environment import UNFINISHED, open_lmdb
from budgetfrontier.store.records import LeaseRow, decode_counters, decode_queue, encode
from budgetfrontier.store.repair import run as repairing
from budgetfrontier.store.repair.pages import Salvage
from budgetfrontier.store.repair.run import Repaired, repair
from tests.crash.disks import disk_or_skip
from tests.crash.killing import killed_at_each_line
from tests.data.make_frontier_v1 import drain, look, plain
from tests.store.test_migrations import DATA, FOUND
from tests.support import PATIENCE, START, make_settings, on_disk, pages

PAGE = 4096
Change = Callable[["Damage"], object]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A frontier with a queue in every state and every kind of record, stopped with leases out."""
    path = tmp_path_factory.mktemp("everything") / "frontier"
    path.mkdir()
    (path / "data.mdb").write_bytes(lzma.decompress((DATA / "frontier-v1.mdb.xz").read_bytes()))
    Frontier.open(path, clock=ManualClock(FOUND["now"]), keep_leases=True).close()
    return path


@pytest.fixture
def path(everything: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    copy = tmp_path / "frontier"
    copy.mkdir()
    shutil.copy(everything / "data.mdb", copy)
    return copy


class Damage:
    """The tables of a frontier that nobody has open, to be spoilt with one transaction."""

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env
        self.txn = env.begin(write=True)

    def db(self, table: str) -> Any:
        return self._env.open_db(table.encode(), txn=self.txn, create=False)

    def put(self, table: str, key: bytes, value: bytes) -> None:
        self.txn.put(key, value, db=self.db(table))

    def delete(self, table: str, key: bytes) -> None:
        assert self.txn.delete(key, db=self.db(table)), key

    def items(self, table: str) -> list[tuple[bytes, bytes]]:
        return [item for item in self.txn.cursor(self.db(table)) if item[0] != keys.SENTINEL]

    def queue(self, name: str) -> bytes:
        """The key of a queue's record."""
        key = self.txn.get(name.encode(), db=self.db(keys.QUEUE_IDS))
        assert key is not None, name
        return key

    def change_queue(self, name: str, **fields: Any) -> None:
        key = self.queue(name)
        queue = decode_queue(self.txn.get(key, db=self.db(keys.QUEUES)) or b"")
        self.put(keys.QUEUES, key, encode(msgspec.structs.replace(queue, **fields)))

    def change_totals(self, **fields: Any) -> None:
        totals = decode_counters(self.txn.get(b"counters", db=self.db(keys.META)) or b"")
        self.put(keys.META, b"counters", encode(msgspec.structs.replace(totals, **fields)))


@contextmanager
def damaging(path: Path) -> Iterator[Damage]:
    env = open_lmdb(path)
    damage = Damage(env)
    yield damage
    damage.txn.commit()
    env.close()


def assert_repaired(path: Path, **options: Any) -> Repaired:
    """`verify` finds damage; after a repair it finds none, and neither does the engine."""
    with pytest.raises(CorruptFrontier):
        verify.verify(path)
    done = repair(path, **options)
    verify.verify(path)
    with Frontier.open(path, clock=ManualClock(FOUND["now"]), keep_leases=True) as frontier:
        frontier.check()
    return done


def aside(done: Repaired) -> list[dict[str, Any]]:
    """What was set aside."""
    file = done.folder / "set-aside.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


# -- what is sound


def test_a_sound_frontier_comes_through_unchanged(path: Path) -> None:
    verify.verify(path)
    before = look(path)
    done = repair(path)
    assert (done.told, done.changes, done.aside, aside(done)) == ([], 0, 0, [])
    verify.verify(path)
    assert look(path) == before
    with Frontier.open(path, clock=(clock := ManualClock(FOUND["now"]))) as frontier:
        assert drain(frontier, clock) == FOUND["drained"]


def test_a_new_frontier_comes_through_unchanged(tmp_path: Path) -> None:
    on_disk(tmp_path, hold_queues=False).close()
    before = look(tmp_path / "frontier")
    assert repair(tmp_path / "frontier").changes == 0
    assert look(tmp_path / "frontier") == before


# -- indexes, counts and totals: they follow from the rest


def each(table: str) -> Change:
    """Lose all rows of a table."""

    def change(damage: Damage) -> None:
        for key, _ in damage.items(table):
            damage.delete(table, key)

    return change


def no_sentinels(damage: Damage) -> None:
    for table in keys.TABLES:
        damage.delete(table, keys.SENTINEL)


def second_row(table: str, key: bytes) -> Change:
    """Have a row in an index that belongs to no queue, and one more of a queue that is elsewhere."""

    def change(damage: Damage) -> None:
        damage.put(table, key, keys.u32.pack(99_999))
        damage.put(table, key[:-1] + b"\xee", damage.queue("exhausted.test"))

    return change


def wrong_totals(**fields: Any) -> Change:
    return lambda damage: damage.change_totals(**fields)


def wrong_queue(name: str, **fields: Any) -> Change:
    return lambda damage: damage.change_queue(name, **fields)


FOLLOWING: dict[str, Change] = {
    "the ring": each(keys.ACTIVE),
    "the inactive": each(keys.INACTIVE),
    "the snoozed": each(keys.SNOOZED),
    "the retired": each(keys.RETIRED),
    "queue_ids": each(keys.QUEUE_IDS),
    "rows in the ring": second_row(keys.ACTIVE, keys.u64.pack((1 << 63) + 999)),
    "rows among the inactive": second_row(keys.INACTIVE, keys.fifo.pack(3, 999)),
    "rows among the retired": second_row(keys.RETIRED, keys.u64.pack(999)),
    "rows among the snoozed": lambda damage: damage.put(keys.SNOOZED, keys.timed.pack(5.0, 99_999), b""),
    "a wake time": lambda damage: damage.put(keys.SNOOZED, keys.timed.pack(5.0, 1), b""),
    "a row of queue_ids": lambda damage: damage.put(keys.QUEUE_IDS, b"nobody.test", keys.u32.pack(1)),
    "sentinels": no_sentinels,
    "counts": wrong_queue("wide.test", queued=77, out=0, reserved=5, future=3, landed=9),
    "its id": wrong_queue("wide.test", id=999),
    "in process": wrong_queue("ready.test", out=1),
    "totals": wrong_totals(
        queued=1, expenditure=1, future=1, future_retired=1, queues=1, ready=1, in_process=1, snoozed=1, inactive=1,
        retired=1, retired_by_name=1, leases=1,
    ),
    "negative totals": wrong_totals(queued=-1, leases=-5, queues=-1),
    "finished, but not empty": wrong_totals(state="FINISHED"),
    "numbers given out": wrong_totals(ordinal=0, queue_id=0, audit=0, command=0, fifo_back=0, retired_back=0),
    "the ring's ends": wrong_totals(ring_front=5, ring_back=3),
    "a lease of nothing": lambda damage: damage.put(
        keys.LEASES, keys.u64.pack(1 << 40), encode(LeaseRow(1, bytes(21), 5.0))
    ),
    "a lease twice": lambda damage: damage.put(
        keys.LEASES, keys.u64.pack((1 << 40) + 999), damage.items(keys.LEASES)[0][1]
    ),
    "what no lease is": lambda damage: damage.put(keys.LEASES, keys.u64.pack((1 << 40) + 999), b"\xc1"),
}  # fmt: skip


@pytest.mark.parametrize("damage", FOLLOWING)
def test_what_follows_from_the_rest_comes_back_exactly(path: Path, damage: str) -> None:
    before = look(path)
    with damaging(path) as spoilt:
        FOLLOWING[damage](spoilt)
    done = assert_repaired(path)
    after = look(path)
    assert after == before
    assert (
        done.changes or damage in ("queue_ids", "sentinels") or damage.startswith(("the ", "rows", "a wake", "a row"))
    )
    with Frontier.open(path, clock=(clock := ManualClock(FOUND["now"]))) as frontier:
        assert drain(frontier, clock) == FOUND["drained"]
        assert frontier.schedule("https://new.test/") == "ADDED"
        frontier.check()


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
        ("polite.test", {"wake_time": float("nan")}, "SNOOZED"),
        ("polite.test", {"wake_time": float("-inf"), "block": float("inf")}, "SNOOZED"),
    ],
)
def test_a_state_that_cannot_be_becomes_one_that_can(path: Path, name: str, fields: dict[str, Any], state: str) -> None:
    before = look(path)["pending"]
    with damaging(path) as damage:
        damage.change_queue(name, **fields)
    done = assert_repaired(path)
    assert any(line.startswith(f"queue {name}: ") for line in done.told)
    with Reader(path) as reader:
        queue = reader.queue(name)
        assert queue is not None and queue.state == state
    assert [len(queue) for queue in look(path)["pending"]] == [len(queue) for queue in before]


def test_a_field_that_cannot_be_read_takes_no_other_with_it(path: Path) -> None:
    with damaging(path) as damage:
        damage.change_queue("waiting.test", precedence=-1, position=-7, expenditure=41, balance=17, by_name=True)
    done = assert_repaired(path)
    assert "queue waiting.test: precedence, position cannot be read, and begin anew" in done.told
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


# -- records that cannot be read


@pytest.mark.parametrize(
    ("table", "what"),
    [
        (keys.PENDING, "pending"),
        (keys.FUTURE, "future"),
        (keys.DEAD, "dead_letters"),
        (keys.AUDIT, "audit"),
        (keys.LEASES, "leases"),
    ],
)
def test_a_record_that_cannot_be_read_is_set_aside_and_costs_no_other(path: Path, table: str, what: str) -> None:
    def found() -> list[Any]:
        items = look(path)[what]
        return [uri for queue in items for uri in queue] if what == "pending" else items

    before = found()
    with damaging(path) as damage:
        doomed = damage.items(table)[1][0]
        damage.put(table, doomed, b"\xc1 nobody wrote this")
    done = assert_repaired(path)
    (left_out,) = aside(done)
    assert (left_out["table"], left_out["key"]) == (table, doomed.hex())
    assert bytes.fromhex(left_out["value"]) == b"\xc1 nobody wrote this"
    assert done.aside == 1 and f"{table}: set aside" in "\n".join(done.told)
    after = found()
    assert len(after) == len(before) - 1
    assert all(item in before or what == "pending" for item in after)


def test_a_url_that_is_none_is_set_aside(path: Path) -> None:
    with damaging(path) as damage:
        key, value = next((key, value) for key, value in damage.items(keys.PENDING) if b"https://" in value)
        damage.put(keys.PENDING, key, value.replace(b"https:/", b"https:?"))
    (left_out,) = aside(assert_repaired(path))
    assert left_out["key"] == key.hex() and "is no URL" in left_out["why"]


@pytest.mark.parametrize("key", [b"", b"\0\0\0\1", b"x" * 21, bytes(20), bytes(40)])
@pytest.mark.parametrize("table", [table for table in keys.TABLES if table != keys.QUEUE_IDS])
def test_rows_that_nobody_wrote_are_left_out(path: Path, table: str, key: bytes) -> None:
    before = look(path)
    with damaging(path) as damage:
        if table == keys.QUEUES and len(key) == 4:
            key = b"\0\1\0\0"
        damage.put(table, key or b"\0\0", b"\xc1")
    repair(path)
    verify.verify(path)
    assert look(path) == before


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
    assert len(left_out) == 6 and all("its queue is not known" in item["why"] for item in left_out)


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


# -- what a frontier knows of itself


def test_what_has_landed_stays_so_and_is_counted_again(path: Path) -> None:
    with Frontier.open(path, clock=ManualClock(FOUND["now"]), keep_leases=True) as frontier, Reader(path) as reader:
        lease = next(iter(reader.leases()))
        frontier.landed(lease)
    with damaging(path) as damage:
        damage.change_queue(lease.queue, landed=0)
    done = assert_repaired(path)
    assert f"queue {lease.queue}: landed 0 is 1" in done.told
    with Reader(path) as reader:
        assert [other.id for other in reader.leases() if other.landed] == [lease.id]


def test_totals_that_are_lost_are_counted_again_and_the_crawl_waits_for_its_operator(path: Path) -> None:
    before = look(path)
    with damaging(path) as damage:
        damage.put(keys.META, b"counters", b"\xc1")
    assert_repaired(path)
    after = look(path)
    totals, lost = after["summary"], before["summary"]
    assert (totals["state"], totals["pause_reason"]) == ("PAUSED", "repair")
    for name in "queued", "in_process", "future", "dead", "seen", "expenditure", "queues":
        assert totals[name] == lost[name]
    assert (after["pending"], after["leases"]) == (before["pending"], before["leases"])
    with Frontier.open(path, clock=(clock := ManualClock(FOUND["now"])), keep_leases=True) as frontier:
        old = {lease["id"] for lease in before["leases"]}
        frontier.resume()
        assert not old & {lease.id for lease in frontier.lease(5)}, "ids are never given out again"
    with Frontier.open(path, clock=clock) as frontier:
        drained = drain(frontier, clock)
        assert len(drained) == len(FOUND["drained"])


@pytest.mark.parametrize("name", ["settings", "adjustments", "suffixes"])
def test_settings_that_are_lost_are_asked_for(path: Path, name: str) -> None:
    with damaging(path) as damage:
        damage.put(keys.META, name.encode(), b"\xc1")
    done = repair(path)
    assert f"b'{name}' in meta: lost; open the frontier with the settings of its crawl" in done.told
    assert [item["key"] for item in aside(done)] == [name.encode().hex()]
    with Frontier.open(path, make_settings(cost_policy="wag"), clock=ManualClock(FOUND["now"])) as frontier:
        frontier.check()


@pytest.mark.parametrize("schema", [b"", b"x", b"0"])
def test_a_schema_that_cannot_be_read_is_that_of_its_records(path: Path, schema: bytes) -> None:
    before = look(path)
    with damaging(path) as damage:
        damage.put(keys.META, b"schema", schema)
    assert_repaired(path)
    assert look(path) == before


def test_a_newer_schema_is_left_alone(path: Path) -> None:
    with damaging(path) as damage:
        damage.put(keys.META, b"schema", b"99")
    before = (path / "data.mdb").read_bytes()
    with pytest.raises(NewerSchema):
        verify.verify(path)
    with pytest.raises(NewerSchema):
        repair(path)
    assert (path / "data.mdb").read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == ["frontier"]


def test_a_damaged_mailbox_is_set_aside(path: Path) -> None:
    mailbox = Mailbox(path)
    mailbox.post(Command("retire", {"queue": "ready.test"}, "alice", ""))
    mailbox.close()
    verify.verify(path)
    before = look(path)
    file = path / "mailbox" / "data.mdb"
    file.write_bytes(file.read_bytes()[: 2 * PAGE] + bytes(PAGE))
    done = assert_repaired(path)
    assert any("mailbox" in line for line in done.told)
    assert (done.folder / "mailbox" / "data.mdb").read_bytes().endswith(bytes(PAGE))
    assert look(path) == before


# -- pages


def test_whatever_page_is_lost_there_is_a_frontier_again(everything: Path, tmp_path: Path) -> None:
    whole = (everything / "data.mdb").read_bytes()
    totals = plain(look(everything)["summary"])
    outcomes = {"sound": 0, "repaired": 0}
    for page in range(len(whole) // PAGE):
        path = tmp_path / str(page) / "frontier"
        path.mkdir(parents=True)
        (path / "data.mdb").write_bytes(whole[: page * PAGE] + bytes(PAGE) + whole[(page + 1) * PAGE :])
        try:
            verify.verify(path)
        except (CorruptFrontier, NotAFrontier):
            repair(path)
            outcomes["repaired"] += 1
        else:
            outcomes["sound"] += 1
        verify.verify(path)
        with Frontier.open(path, make_settings(cost_policy="wag"), clock=ManualClock(FOUND["now"])) as frontier:
            frontier.check()
            assert frontier.summary().seen >= totals["queued"] + totals["future"] or page < 2
    assert outcomes["repaired"] > 15


def test_uris_whose_print_is_lost_are_not_scheduled_twice(tmp_path: Path) -> None:
    urls = [f"https://h{host}.test/{page}" for host in range(40) for page in range(30)]
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(urls)
        f.schedule(CrawlUri("https://later.test/", not_before=START + 1e6))
        (lease,) = f.lease(1)
        f.finish(lease, Outcome.DEAD)
    path = tmp_path / "frontier"
    with Salvage(path / "data.mdb") as salvage:
        page = salvage._leaves[keys.SEEN][1]
    data = bytearray((path / "data.mdb").read_bytes())
    data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    (path / "data.mdb").write_bytes(data)
    done = assert_repaired(path)
    assert any("records are lost" in line for line in done.told)
    with Frontier.open(path, clock=ManualClock(START)) as f:
        assert f.schedule_many([*urls, "https://later.test/"]).added == 0
        assert f.schedule("https://new.test/") == "ADDED"


def test_random_damage_to_records_ends_in_a_sound_frontier(everything: Path, tmp_path: Path) -> None:
    chance = random.Random(5)
    for turn in range(60):
        path = tmp_path / str(turn) / "frontier"
        path.mkdir(parents=True)
        shutil.copy(everything / "data.mdb", path)
        with damaging(path) as damage:
            for _ in range(chance.choice([1, 3, 10])):
                table = chance.choice(keys.TABLES)
                items = [item for item in damage.items(table) if item[0] != b"schema"]  # a newer one is not touched
                if not items:
                    continue
                key, value = chance.choice(items)
                what = chance.randrange(4)
                if what == 0:
                    damage.txn.delete(key, db=damage.db(table))
                elif what == 1 and value:
                    at = chance.randrange(len(value))
                    damage.put(table, key, value[:at] + bytes([value[at] ^ 1 << chance.randrange(8)]) + value[at + 1 :])
                elif what == 2:
                    at = chance.randrange(len(key))
                    damage.put(table, key[:at] + bytes([chance.randrange(256)]) + key[at + 1 :], value)
                else:
                    damage.put(table, key, chance.randbytes(len(value)))
        repair(path)
        verify.verify(path)
        with Frontier.open(
            path, make_settings(cost_policy="wag"), clock=(clock := ManualClock(FOUND["now"]))
        ) as frontier:
            frontier.check()
            frontier.resume()
            drain(frontier, clock)
            frontier.check()


# -- files


def test_the_damaged_file_is_kept_unless_told_otherwise(path: Path) -> None:
    with damaging(path) as damage:
        damage.change_totals(queued=1)
    before = (path / "data.mdb").read_bytes()
    done = assert_repaired(path)
    assert (done.folder / "data.mdb").read_bytes() == before
    assert (done.folder / "changes.txt").read_text().splitlines() == done.told
    assert done.folder.parent == path.parent and done.folder.name.startswith("frontier-repair-")
    with pytest.raises(CorruptFrontier):
        verify.verify(done.folder)
    shutil.rmtree(done.folder)
    with damaging(path) as damage:
        damage.change_totals(queued=1)
    done = assert_repaired(path, keep_damaged=False)
    assert [item.name for item in done.folder.iterdir()] == ["changes.txt"]


def test_a_disk_without_links_gets_a_copy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no such links here")

    monkeypatch.setattr(os, "link", refuse)
    with damaging(path) as damage:
        damage.change_totals(queued=1)
    before = (path / "data.mdb").read_bytes()
    assert (assert_repaired(path).folder / "data.mdb").read_bytes() == before


def test_an_engine_is_in_the_way(path: Path) -> None:
    with Frontier.open(path, clock=ManualClock(FOUND["now"])), pytest.raises(FrontierLocked):
        repair(path)
    repair(path)


def test_what_is_no_frontier_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(NotAFrontier):
        repair(tmp_path / "nothing")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    with open_lmdb(foreign) as env, env.begin(write=True) as txn:
        txn.put(b"a", b"b", db=env.open_db(b"letters", txn=txn))
    before = (foreign / "data.mdb").read_bytes()
    with pytest.raises((NotAFrontier, CorruptFrontier)):
        repair(foreign)
    assert (foreign / "data.mdb").read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["foreign"]


def test_what_would_not_be_sound_takes_no_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(*_: object) -> None:
        raise CorruptFrontier("something")

    before = (path / "data.mdb").read_bytes()
    monkeypatch.setattr(repairing, "check", find)
    with pytest.raises(FrontierError, match=r"(?s)as it was.*something") as caught:
        repair(path)
    assert not isinstance(caught.value, CorruptFrontier)
    assert (path / "data.mdb").read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == ["frontier"]


def test_killed_at_any_line_it_was_repaired_or_was_not(path: Path) -> None:
    """And the damaged file is never lost."""
    with damaging(path) as damage:
        damage.change_totals(queued=1)
        damage.put(keys.PENDING, damage.items(keys.PENDING)[0][0], b"\xc1")
    damaged = (path / "data.mdb").read_bytes()
    job = path.parent
    outcomes = set()
    for _ in killed_at_each_line(lambda: repair(path), repairing, backup):
        kept = [file for file in job.rglob("data.mdb") if file.read_bytes() == damaged]
        assert kept
        repaired = path / "data.mdb" not in kept
        outcomes.add(repaired)
        if repaired:
            verify.verify(path)
        done = repair(path)
        verify.verify(path)
        assert not list(job.glob("*.partial")) and not (path / UNFINISHED).exists()
        if repaired:  # the folder of the one that was killed is there as well
            assert done.changes == 0 and len(list(job.glob("frontier-repair-*/set-aside.jsonl"))) == 1
        for folder in job.glob("frontier-repair-*"):
            shutil.rmtree(folder)
        (path / "data.mdb").unlink()
        (path / "data.mdb").write_bytes(damaged)
    assert outcomes == {True, False}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB."""
    with disk_or_skip(tmp_path, size=2 << 20) as disk:
        yield disk.folder


@pytest.mark.parametrize("room", [8, 20, 30])
def test_a_disk_that_fills_up_leaves_it_as_it_was(path: Path, small_disk: Path, room: int) -> None:
    with damaging(path) as damage:
        damage.change_totals(queued=1)
    shutil.copytree(path, small_disk / "frontier")
    before = (path / "data.mdb").read_bytes()
    disk = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes((disk.f_bavail - room) * disk.f_frsize))
    with pytest.raises((StorageFull, OSError)) as caught:
        repair(small_disk / "frontier")
    assert isinstance(caught.value, StorageFull) or caught.value.errno == errno.ENOSPC  # type: ignore[attr-defined]
    assert (small_disk / "frontier" / "data.mdb").read_bytes() == before
    assert sorted(item.name for item in small_disk.iterdir()) == ["filler", "frontier"]
    (small_disk / "filler").unlink()
    assert_repaired(small_disk / "frontier")


# -- verify in a process of its own


def dies_of(number: int) -> Callable[[Path], None]:
    def die(_: Path) -> None:
        faulthandler.disable()  # pytest's, which would tell of it
        os.kill(os.getpid(), number)

    return die


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT])
def test_a_crash_is_damage(path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    monkeypatch.setattr(verify, "check_pages", dies_of(number))
    with pytest.raises(CorruptFrontier, match=f"crashed .{number.name}. when it read the pages"):
        verify.verify(path)


def test_being_killed_is_no_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "check_pages", dies_of(signal.SIGKILL))
    with pytest.raises(FrontierError, match="ended early") as caught:
        verify.verify(path)
    assert not isinstance(caught.value, CorruptFrontier)


def test_a_disk_that_cannot_read_is_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(verify, "check_pages", fails)
    with pytest.raises(CorruptFrontier, match="the disk cannot read the pages"):
        verify.verify(path)


def test_a_file_that_may_not_be_read_is_no_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise PermissionError(errno.EACCES, "permission denied")

    monkeypatch.setattr(verify, "check_pages", fails)
    with pytest.raises(PermissionError):
        verify.verify(path)


def test_ctrl_c_ends_the_check_and_its_process(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent, fdopen = os.getpid(), os.fdopen
    gate, opened = os.pipe()

    def open_pipe(*arguments: Any) -> Any:
        os.write(opened, b"!")
        return fdopen(*arguments)

    def interrupt(_: Path) -> None:
        os.read(gate, 1)  # until the parent is at its end of the pipe
        os.kill(parent, signal.SIGINT)
        time.sleep(PATIENCE)

    monkeypatch.setattr(os, "fdopen", open_pipe)
    monkeypatch.setattr(verify, "check_pages", interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            verify.verify(path)
    finally:
        signal.signal(signal.SIGINT, before)
        os.close(gate)
        os.close(opened)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_what_verify_says_of_pages(path: Path) -> None:
    data = bytearray((path / "data.mdb").read_bytes())
    for page in range(2, len(data) // PAGE):
        data[page * PAGE : page * PAGE + 8] = bytes(8)  # none knows its own number
    (path / "data.mdb").write_bytes(data)
    with pytest.raises(CorruptFrontier, match=r"page \d+ stores mp_pgno 0"):
        verify.verify(path)


CRAWL = """
import itertools, sys
from budgetfrontier import Frontier
from tests.support import crawl
with Frontier.open(sys.argv[1]) as f:
    print("running", flush=True)
    for n in itertools.count():
        f.schedule_many(f"https://{host}.test/{n}/{page}" for host in "abcdefgh" for page in range(20))
        crawl(f, 100)
        f.commit()
"""


def test_a_crawl_at_work_is_sound_whenever_it_is_looked_at(tmp_path: Path) -> None:
    on_disk(tmp_path, hold_queues=False).close()
    path = tmp_path / "frontier"
    with subprocess.Popen([sys.executable, "-c", CRAWL, str(path)], stdout=subprocess.PIPE, text=True) as crawler:
        try:
            assert crawler.stdout and crawler.stdout.readline() == "running\n"
            for _ in range(5):
                verify.verify(path)
        finally:
            crawler.kill()
    verify.verify(path)
