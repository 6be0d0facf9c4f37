"""Repair of tables: what follows from the rest comes back exactly, and what cannot be read is set aside."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import FetchStats, QueueAnswers, QueueRecord, RunEnd, RunRow
from budgetfrontier.errors import (
    CorruptFrontier,
    FrontierError,
    NewerSchema,
    PolicyError,
    SettingsError,
)
from budgetfrontier.storage import keys, meta, verify
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import (
    FutureRow,
    HostRow,
    LeaseRow,
    LinksRow,
    decode_answers,
    decode_counters,
    tally_key,
)
from budgetfrontier.storage.repair.repair_steps import repair
from tests.storage.full_frontier import NOW, drain, look
from tests.storage.repair.damaging import Change, Damage, aside, assert_repaired, damaging, each
from tests.support import kernel, make_settings

# -- indexes, counts and totals: they follow from the rest


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
        queued=1, future=1, future_retired=1, queues=1, ready=1, in_process=1, snoozed=1, inactive=1, retired=1,
        retired_by_name=1, leases=1, urls=1, completed=1, url_queues=1, dead_prerequisites=1,
    ),
    "negative totals": wrong_totals(queued=-1, leases=-5, queues=-1),
    "finished, but not empty": wrong_totals(state="FINISHED"),
    "numbers given out": wrong_totals(ordinal=0, queue_id=0, audit=0, command=0, fifo_back=0, retired_back=0),
    "the ring's ends": wrong_totals(ring_front=5, ring_back=3),
    "a lease of nothing": lambda damage: damage.put(
        keys.LEASES, keys.u64.pack(1 << 40), encode(LeaseRow(1, bytes(21), 5.0, False, 0.0))
    ),
    "a lease twice": lambda damage: damage.put(
        keys.LEASES, keys.u64.pack((2 << 40) - 1), damage.items(keys.LEASES)[0][1]
    ),
    "what no lease is": lambda damage: damage.put(keys.LEASES, keys.u64.pack((1 << 40) + 999), b"\xc1"),
}  # fmt: skip


@pytest.mark.parametrize("damage", FOLLOWING)
def test_what_follows_from_the_rest_comes_back_exactly(path: Path, drained: list[Any], damage: str) -> None:
    before = look(path)
    with damaging(path) as spoilt:
        FOLLOWING[damage](spoilt)
    done = assert_repaired(path)
    after = look(path)
    assert after == before
    assert (
        done.changes or damage in ("queue_ids", "sentinels") or damage.startswith(("the ", "rows", "a wake", "a row"))
    )
    with Frontier.open(path, clock=(clock := ManualClock(NOW))) as frontier:
        assert drain(frontier, clock) == drained
        assert frontier.schedule("https://new.test/") == "ADDED"
        frontier.check()


def test_the_total_of_what_was_spent_is_that_of_the_queues_and_the_rest_is_in_no_outcome(path: Path) -> None:
    before = look(path)["summary"]
    with damaging(path) as damage:
        damage.change_totals(expenditure=1)
    assert_repaired(path)
    after = look(path)["summary"]
    names = "other_expenditure", "succeeded_expenditure"
    assert {name: after[name] for name in before if name not in names} == {
        name: before[name] for name in before if name not in names
    }
    parts = "succeeded", "failed", "retried", "given_up", "other"
    assert sum(after[f"{part}_expenditure"] for part in parts) == after["expenditure"]


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
    assert done.set_aside == 1 and f"{table}: set aside" in "\n".join(done.first_changes)
    after = found()
    assert len(after) == len(before) - 1
    assert all(item in before or what == "pending" for item in after)


def rows(path: Path, table: str) -> list[tuple[bytes, bytes]]:
    """The rows of a table as they are stored."""
    with Reader(path) as reader, reader.view() as view:
        return list(view.items(table))


@pytest.mark.parametrize(
    ("table", "key", "value", "wrong_key"),
    [
        (keys.RUNS, keys.u32.pack(70), encode(RunRow(5.0, 1, "a.test", "crawl", 6.0, RunEnd.EXIT, "why")), b"7"),
        (keys.SERIES, keys.series.pack(1, 7, 0), encode([7.0]), b"\7\7"),
        (keys.HOSTS, b"a.test", encode(HostRow("192.0.2.1", 7)), b"A.test"),
        (keys.PEERS, keys.u32.pack(7), keys.peer.pack(9, 1, -1, 0), b"seven"),
    ],
)
def test_history_is_copied_as_far_as_it_can_be_read(
    path: Path, table: str, key: bytes, value: bytes, wrong_key: bytes
) -> None:
    before = rows(path, table)
    with damaging(path) as damage:
        damage.put(table, key, value)
    assert repair(path).changes == 0
    assert rows(path, table) == sorted([*before, (key, value)])
    with damaging(path) as damage:
        damage.put(table, wrong_key, value)
    (left_out,) = aside(assert_repaired(path))
    assert (left_out["table"], left_out["key"]) == (table, wrong_key.hex())


def test_a_url_that_is_none_is_set_aside(path: Path) -> None:
    with damaging(path) as damage:
        items = damage.items(keys.PENDING)
        key, value = next((key, value) for key, value in items if b"https://fields.test/a?c" in value)
        damage.put(keys.PENDING, key, value.replace(b"https:/", b"https:?"))
    (left_out,) = aside(assert_repaired(path))
    assert left_out["key"] == key.hex() and "is not a URL" in left_out["why"]


@pytest.mark.parametrize("key", [b"", b"\0\0\0\1", b"x" * 21, bytes(20), bytes(40)])
@pytest.mark.parametrize("table", [table for table in keys.TABLES if table != keys.QUEUE_IDS])
def test_rows_that_nobody_wrote_are_left_out(path: Path, table: str, key: bytes) -> None:
    before = look(path)
    with damaging(path) as damage:
        if table in (keys.QUEUES, keys.ANSWERS) and len(key) == 4:
            key = b"\0\1\0\0"
        damage.put(table, key or b"\0\0", b"\xc1")
    repair(path)
    verify.verify(path)
    assert look(path) == before


# -- what a frontier knows of itself


def test_what_has_landed_stays_so_and_is_counted_again(path: Path) -> None:
    with (
        Frontier.open(path, clock=ManualClock(NOW), keep_leases=True) as frontier,
        Reader(path) as reader,
    ):
        lease = next(iter(reader.leases()))
        frontier.landed(lease)
    with damaging(path) as damage:
        damage.change_queue(lease.queue, landed=0)
    done = assert_repaired(path)
    assert f"queue {lease.queue}: landed 0 is 1" in done.first_changes
    with Reader(path) as reader:
        assert [other.id for other in reader.leases() if other.landed] == [lease.id]


def test_totals_that_are_lost_are_counted_again_and_the_crawl_waits_for_its_operator(
    path: Path, drained: list[Any]
) -> None:
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
    with Frontier.open(path, clock=(clock := ManualClock(NOW)), keep_leases=True) as frontier:
        old = {lease["id"] for lease in before["leases"]}
        frontier.resume()
        assert not old & {lease.id for lease in frontier.lease(5)}, "ids are never given out again"
    with Frontier.open(path, clock=clock) as frontier:
        assert len(drain(frontier, clock)) == len(drained)


@pytest.mark.parametrize("name", ["settings", "adjustments", "suffixes"])
def test_settings_that_are_lost_are_asked_for(path: Path, name: str) -> None:
    with damaging(path) as damage:
        damage.put(keys.META, name.encode(), b"\xc1")
    done = repair(path)
    assert f"meta: b'{name}' is lost; open the frontier with the settings of its crawl" in done.first_changes
    assert [item["key"] for item in aside(done)] == [name.encode().hex()]
    with Frontier.open(path, make_settings(cost_policy="wag"), clock=ManualClock(NOW)) as frontier:
        frontier.check()


def test_former_queue_assignments_are_kept_and_set_aside_if_they_cannot_be_read(path: Path) -> None:
    former = b'["surt-authority",{"hostname":{"limit":2}}]'
    with damaging(path) as damage:
        damage.put(keys.META, b"assignments", former)
    repair(path)
    with Frontier.open(path, clock=ManualClock(NOW)) as frontier:
        assert kernel(frontier).tables.former_assignments == ["surt-authority", {"hostname": {"limit": 2}}]
    with damaging(path) as damage:
        damage.put(keys.META, b"assignments", b"[1]")
    with pytest.raises(CorruptFrontier, match="the former queue assignments cannot be read"):
        verify.verify(path)
    assert "meta: former queue assignments are lost; hosts do not wait for old queues" in repair(path).first_changes
    with Frontier.open(path, clock=ManualClock(NOW)) as frontier:
        frontier.check()


def test_what_is_repaired_is_no_copy_of_a_partition_any_more(path: Path) -> None:
    owned = {name: b"of " + name for name in meta.OWNED}
    with damaging(path) as damage:
        for name, value in owned.items():
            damage.put(keys.META, name, value)
    with pytest.raises(FrontierError, match="a copy of a partition"):
        Frontier.open(path)
    assert "no worker takes this for a copy of a partition" in repair(path).first_changes[0]
    with Frontier.open(path, clock=ManualClock(NOW)) as frontier, Reader(path) as reader:
        frontier.check()
        kept = {name: reader.row(name) for name in meta.OWNED}
    assert kept == owned | {meta.PLACE: None}


@pytest.mark.parametrize("schema", [b"", b"x", b"0"])
def test_a_schema_that_cannot_be_read_is_set(path: Path, schema: bytes) -> None:
    before = look(path)
    with damaging(path) as damage:
        damage.put(keys.META, b"schema", schema)
    assert_repaired(path)
    assert look(path) == before


def test_another_schema_is_left_alone(path: Path) -> None:
    with damaging(path) as damage:
        damage.put(keys.META, b"schema", b"99")
    before = (path / "data.mdb").read_bytes()
    with pytest.raises(NewerSchema):
        verify.verify(path)
    with pytest.raises(NewerSchema):
        repair(path)
    assert (path / "data.mdb").read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == ["frontier"]


# -- what was fetched


def label(name: str) -> bytes:
    return tally_key("label", name)


LOST_TALLIES: dict[str, tuple[Change, str]] = {
    "one that cannot be read": (lambda d: d.put(keys.TALLIES, label("x"), b"\xc1"), "tallies: set aside"),
    "one of nothing": (lambda d: d.put(keys.TALLIES, b"?x", encode(FetchStats())), "is not the key of a tally"),
    "one of no queue": (
        lambda d: d.put(keys.TALLIES, tally_key("queue", "nowhere.test"), encode(FetchStats())),
        "there is no such queue",
    ),
    "more that is novel than was fetched": (
        lambda d: d.put(keys.TALLIES, label("x"), encode(FetchStats(successes=1, novel=2))),
        "more is novel than was fetched",
    ),
}


@pytest.mark.parametrize("what", LOST_TALLIES)
def test_a_tally_that_cannot_be_used_is_set_aside_and_the_others_stay(path: Path, what: str) -> None:
    change, told = LOST_TALLIES[what]
    with damaging(path) as damage:
        before = damage.items(keys.TALLIES)
        change(damage)
    repaired = repair(path)
    assert any(told in line for line in repaired.first_changes)
    with damaging(path) as damage:
        assert damage.items(keys.TALLIES) == before != []
    verify.verify(path)


def test_totals_are_no_less_than_the_tallies(path: Path) -> None:
    many = FetchStats(successes=10**6, errors=10**5, success_bytes=10**9)
    with damaging(path) as damage:
        damage.put(keys.TALLIES, tally_key("queue", "ready.test"), encode(many))
    repair(path)
    verify.verify(path)
    with Reader(path) as reader:
        totals, queue = reader.summary(), reader.queue("ready.test")
    assert queue is not None
    assert totals.succeeded >= 10**6 and totals.failed + totals.given_up >= 10**5 and queue.bytes == 10**9


# -- links to registered domains


def remembered(success: int, links: float = 0, new: float = 0) -> bytes:
    return keys.history.pack(success, 0, 0, 0, 1.0, links, new, 1.0)


LOST_HISTORY: dict[str, tuple[Change, str]] = {
    "one that cannot be read": (lambda d: d.put(keys.HISTORY, keys.u32.pack(1), b"123"), "history: set aside"),
    "one of no queue": (lambda d: d.put(keys.HISTORY, keys.u32.pack(1 << 30), remembered(1)), "no such queue"),
    "a negative mean": (lambda d: d.put(keys.HISTORY, keys.u32.pack(1), remembered(1, -1)), "a mean is negative"),
    "more new links than there are": (
        lambda d: d.put(keys.HISTORY, keys.u32.pack(1), remembered(1, 1, 2)),
        "more links are new",
    ),
}


@pytest.mark.parametrize("what", LOST_HISTORY)
def test_a_history_that_cannot_be_used_is_set_aside_and_the_others_stay(path: Path, what: str) -> None:
    change, told = LOST_HISTORY[what]
    with damaging(path) as damage:
        damage.delete(keys.HISTORY, keys.u32.pack(1))
        before = damage.items(keys.HISTORY)
        change(damage)
    repaired = repair(path)
    assert any(told in line for line in repaired.first_changes)
    with damaging(path) as damage:
        assert damage.items(keys.HISTORY) == before != []
    verify.verify(path)


def test_charges_are_no_less_than_the_history_of_their_queue(path: Path) -> None:
    with damaging(path) as damage:
        damage.put(keys.HISTORY, damage.queue("ready.test"), remembered(1000))
    assert any("charges" in line for line in repair(path).first_changes)
    verify.verify(path)
    with Reader(path) as reader:
        queue = reader.queue("ready.test")
    assert queue is not None and queue.charges == 1000


LOST_ANSWERS: dict[str, tuple[Change, str]] = {
    "some that cannot be read": (lambda d: d.put(keys.ANSWERS, keys.u32.pack(1), b"\xc1"), "answers: set aside"),
    "those of no queue": (
        lambda d: d.put(keys.ANSWERS, keys.u32.pack(1 << 30), encode(QueueAnswers())),
        "no such queue",
    ),
    "impossible ones": (lambda d: d.put(keys.ANSWERS, keys.u32.pack(1), encode(QueueAnswers([1]))), "has other counts"),
    "their total": (lambda d: d.change_totals(answers_5xx=99), "totals: answers_5xx 99 is"),
}


@pytest.mark.parametrize("what", LOST_ANSWERS)
def test_answers_that_cannot_be_used_are_set_aside_and_the_others_add_up(path: Path, what: str) -> None:
    change, told = LOST_ANSWERS[what]
    with damaging(path) as damage:
        damage.put(keys.ANSWERS, keys.u32.pack(2), encode(QueueAnswers([1, 2, 3, 4, 5], {"timeout": 5})))
        before = damage.items(keys.ANSWERS)
        change(damage)
    repaired = repair(path)
    assert any(told in line for line in repaired.first_changes)
    with damaging(path) as damage:
        found = [item for item in damage.items(keys.ANSWERS) if item[0] != keys.u32.pack(1)]
        assert found == [item for item in before if item[0] != keys.u32.pack(1)] != []
    verify.verify(path)
    with Reader(path) as reader:
        assert reader.summary().answers_4xx == sum(decode_answers(value).classes[2] for _, value in found)


LOST_LINKS: dict[str, tuple[Change, str]] = {
    "one that cannot be read": (lambda d: d.put(keys.LINKS, b"x.test", b"\xc1"), "links: set aside"),
    "one of no domain": (lambda d: d.put(keys.LINKS, b"\xff", encode(LinksRow(1, b"12345678"))), "links: set aside"),
    "another in-degree": (
        lambda d: d.put(keys.LINKS, b"x.test", encode(LinksRow(2, b"12345678"))),
        "8 bytes of linking domains",
    ),
    "a ranking that never was": (
        lambda d: d.put(keys.LINKS, b"x.test", encode(LinksRow(1, b"12345678", 0, 9))),
        "after a ranking that never was",
    ),
    "the numbers of in-degrees": (each(keys.DEGREES), "degrees: 2 rows added"),
    "another number": (
        lambda d: d.put(keys.DEGREES, keys.u32.pack(7), keys.u32.pack(7)),
        "degrees: 0 rows added, 1 dropped",
    ),
}


@pytest.mark.parametrize("what", LOST_LINKS)
def test_links_that_can_be_used_stay_and_in_degrees_are_counted_again(path: Path, what: str) -> None:
    change, told = LOST_LINKS[what]
    rows = {b"a.test": (1, b"12345678"), b"b.test": (1, b"12345678"), b"c.test": (2, b"1234567822345678")}
    with damaging(path) as damage:
        for domain, row in rows.items():
            damage.put(keys.LINKS, domain, encode(LinksRow(*row)))
        damage.put(keys.DEGREES, keys.u32.pack(1), keys.u32.pack(2))
        damage.put(keys.DEGREES, keys.u32.pack(2), keys.u32.pack(1))
    verify.verify(path)
    with damaging(path) as damage:
        change(damage)
    repaired = repair(path)
    assert any(told in line for line in repaired.first_changes), repaired.first_changes
    verify.verify(path)
    with damaging(path) as damage:
        assert {key for key, _ in damage.items(keys.LINKS)} == rows.keys()
        assert [keys.u32.unpack(value)[0] for _, value in damage.items(keys.DEGREES)] == [2, 1]
        assert decode_counters(damage.txn.get(b"counters", db=damage.db(keys.META)) or b"").unranked


# -- numbers beyond all that are given out


def lose_totals(damage: Damage) -> None:
    damage.put(keys.META, b"counters", b"\xc1")


def late_lease(damage: Damage) -> None:
    lose_totals(damage)
    key, value = damage.items(keys.LEASES)[0]
    damage.delete(keys.LEASES, key)
    damage.put(keys.LEASES, keys.u64.pack((1 << 63) + 1), value)


def far_in_the_ring(damage: Damage) -> None:
    queue = damage.queue("ready.test")
    damage.put(keys.QUEUES, queue, b"\xc1")
    for key, value in damage.items(keys.ACTIVE):
        if value == queue:
            damage.delete(keys.ACTIVE, key)
    damage.put(keys.ACTIVE, keys.u64.pack(1 << 63), queue)


BEYOND: dict[str, Change] = {
    "a lease": late_lease,
    "a position": far_in_the_ring,
    "a queue": lambda d: d.put(keys.QUEUE_IDS, b"nobody.test", b"\xff\xff\xff\xff"),
    "no queue": lambda d: d.put(keys.QUEUE_IDS, b"nobody.test", b"\0\0\0\0"),
    "a record of a queue": lambda d: d.put(
        keys.QUEUES, b"\xff\xff\xff\xff", encode(QueueRecord("nobody.test", (1 << 32) - 1))
    ),
    "a group": lambda d: d.put(keys.GROUP_IDS, b"nobody", b"\xff\xff\xff\xff"),
    "a retry": lambda d: d.put(
        keys.FUTURE, keys.due.pack(5.0, 1), encode(FutureRow(1, keys.rank.pack(3, 1 << 31, 1, 1 << 60), b""))
    ),
}


@pytest.mark.parametrize("what", BEYOND)
def test_a_number_beyond_all_that_are_given_out_ends_no_repair(path: Path, what: str) -> None:
    with damaging(path) as damage:
        BEYOND[what](damage)
    assert_repaired(path)


# -- policies of the user's


class Failing:
    """A canonicalization policy that fails while `reason` is set."""

    reason = ""

    def __call__(self, url: str) -> str:
        if Failing.reason:
            raise RuntimeError(Failing.reason)
        return url


@pytest.fixture
def own_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A frontier that keeps its URLs by a policy of the user's, which has come to fail."""
    settings = make_settings(keep_urls=True, canonicalization_policy=f"{__name__}:Failing")
    with Frontier.open(tmp_path / "frontier", settings) as frontier:
        frontier.schedule_many(f"https://a.test/{number}" for number in range(9))
    monkeypatch.setattr(Failing, "reason", "it has lost its file")
    return tmp_path / "frontier"


def test_a_policy_that_fails_is_no_damage(own_policy: Path) -> None:
    verify.verify(own_policy)


def test_a_policy_that_fails_ends_a_repair_and_costs_no_uri(own_policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with damaging(own_policy) as damage:
        each(keys.SEEN)(damage)
        damage.change_totals(queued=1)
    before = (own_policy / "data.mdb").read_bytes()
    with pytest.raises(PolicyError, match="it has lost its file"):
        repair(own_policy)
    assert (own_policy / "data.mdb").read_bytes() == before
    monkeypatch.undo()
    repair(own_policy)
    with Reader(own_policy) as reader:
        assert reader.summary().queued == 9


def test_a_policy_that_is_not_installed_here_costs_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "forms_of_mine.py").write_text("def form(url):\n    return url\n")
    path = tmp_path / "frontier"
    with monkeypatch.context() as patched:
        patched.syspath_prepend(str(tmp_path))
        with Frontier.open(path, make_settings(canonicalization_policy="forms_of_mine:form")) as frontier:
            frontier.schedule("https://a.test/")
        del sys.modules["forms_of_mine"]
    with damaging(path) as damage:
        damage.change_totals(queued=7)
    before = (path / "data.mdb").read_bytes()
    with pytest.raises(SettingsError, match=r"forms_of_mine:form cannot be imported.*PYTHONPATH"):
        repair(path)
    assert (path / "data.mdb").read_bytes() == before
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not aside(repair(path))
