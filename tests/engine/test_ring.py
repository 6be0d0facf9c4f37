"""The ring of READY queues beside a plain list, and what leaving its middle costs."""

from __future__ import annotations

import tracemalloc
from collections import deque
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from budgetfrontier import Outcome
from budgetfrontier.engine import native, ring
from budgetfrontier.engine.ring import Ring
from budgetfrontier.engine.rotation import new_ring
from tests.support import kernel, memory, record, state

NAMES = ("append", "appendleft", "leave", "remove", "refill", "settle")


def leave(ring: Ring) -> int:
    """Remove and return the queue with the next turn."""
    queue_id = ring.front()
    ring.remove(queue_id)
    return queue_id


steps = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 9)))


@example(2, [("remove", 1), ("appendleft", 1), ("appendleft", 3), ("remove", 1)], 1000, 1000)
@example(3, [("remove", 1), ("appendleft", 1), ("leave", 0), ("append", 1)], 1000, 1000)
@given(st.integers(0, 9), steps, st.sampled_from((0, 2, 1000)), st.sampled_from((1, 2, 1000)))
def test_the_ring_is_a_list_without_duplicates(
    first: int, taken: list[tuple[str, int]], most: int, longest: int
) -> None:
    expected = list(range(first))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ring, "MOST_GONE", most)
        patch.setattr(ring, "LONGEST", longest)
        patch.setattr(ring, "CHUNK", 2)
        told = Ring(expected)
        for step, queue_id in taken:
            if step == "settle":
                told.settle()
            elif step == "refill":
                if not told.ids:
                    assert told.refill() == bool(told.ids)
                    assert told.ids or not expected
            elif step == "leave":
                if expected:
                    assert leave(told) == expected.pop(0)
            elif step == "remove":
                if queue_id in expected:
                    expected.remove(queue_id)
                    told.remove(queue_id)
            elif queue_id not in expected:
                getattr(told, step)(queue_id)
                expected.insert(0 if step == "appendleft" else len(expected), queue_id)
            assert (list(told), len(told), bool(told)) == (expected, len(expected), bool(expected))
        while expected:
            assert leave(told) == expected.pop(0)
        with pytest.raises(LookupError):
            told.front()
        assert not told.ids and not told.gone and not told.refill()


@pytest.mark.skipif(native.kernel is None, reason=native.described())
@given(st.integers(0, 9), steps)
def test_the_ring_of_the_kernel_is_the_same_list(first: int, taken: list[tuple[str, int]]) -> None:
    expected, ring_of_kernel = Ring(range(first)), new_ring(range(first))
    for step, queue_id in taken:
        if step == "leave":
            if expected:
                assert ring_of_kernel.front() == expected.front()
                assert leave(ring_of_kernel) == leave(expected)
        elif step == "settle":
            ring_of_kernel.settle()
        elif step == "remove" and queue_id in list(expected):
            expected.remove(queue_id)
            ring_of_kernel.remove(queue_id)
        elif step in ("append", "appendleft") and queue_id not in list(expected):
            getattr(expected, step)(queue_id)
            getattr(ring_of_kernel, step)(queue_id)
        found = list(ring_of_kernel), len(ring_of_kernel), bool(ring_of_kernel)
        assert found == (list(expected), len(expected), bool(expected))


@pytest.mark.parametrize("make", [Ring, new_ring])
def test_an_empty_ring_has_no_front(make: type[Ring]) -> None:
    empty = make([1])
    empty.remove(1)
    for look in empty.front, lambda: empty.remove(1):
        with pytest.raises(LookupError):
            look()
    empty.appendleft(2)
    assert list(empty) == [2]


@pytest.mark.parametrize("make", [Ring, new_ring])
def test_many_queues_may_leave_a_ring_and_come_back(make: type[Ring]) -> None:
    full = make(range(10_000))
    for queue_id in range(9_999, 0, -2):
        full.remove(queue_id)
    for queue_id in range(1, 5_000, 2):
        full.append(queue_id)
    assert list(full) == [*range(0, 10_000, 2), *range(1, 5_000, 2)]


@pytest.fixture
def shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rings be long that have a thousand entries."""
    monkeypatch.setattr(ring, "LONGEST", 1000)
    monkeypatch.setattr(ring, "CHUNK", 100)


@pytest.mark.usefixtures("shorter")
def test_a_long_ring_takes_little_memory_while_it_turns() -> None:
    hosts = 20 * ring.LONGEST
    tracemalloc.start()
    turning = Ring(hosts + number for number in range(hosts))
    for turn in range(hosts + 5):
        turning.append(leave(turning))
        if turn % 500 == 0:
            turning.settle()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert next(iter(turning)) == hosts + 5 and len(turning) == hosts
    assert taken < 10 * hosts  # bytes, instead of 40 for each


@pytest.mark.usefixtures("shorter")
def test_a_ring_that_grows_when_its_middle_is_used_up_takes_little_memory() -> None:
    growing = Ring(range(ring.LONGEST + 10))  # the last ten are its middle
    for _ in range(ring.LONGEST):
        leave(growing)
    assert leave(growing) == ring.LONGEST
    tracemalloc.start()
    for queue_id in range(20 * ring.LONGEST):
        growing.append(queue_id)
        if queue_id % (2 * ring.LONGEST) == ring.LONGEST:
            growing.settle()
    growing.settle()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(growing) == 20 * ring.LONGEST + 9
    assert used < 10 * 20 * ring.LONGEST
    assert list(growing)[-3:] == list(range(20 * ring.LONGEST - 3, 20 * ring.LONGEST))


@pytest.mark.usefixtures("shorter")
def test_a_ring_that_becomes_short_again_is_one_deque() -> None:
    short = Ring(range(3 * ring.LONGEST))
    assert short.back is not short.ids
    for _ in range(2 * ring.LONGEST + 1):
        leave(short)
    short.append(7)
    while short.back is not short.ids:
        before = list(short)
        leave(short)
        short.settle()
        assert list(short) == before[1:]
    assert len(short) <= ring.LONGEST


def test_what_is_gone_is_at_most_a_quarter_of_the_ring() -> None:
    full = Ring(range(10_000))
    for queue_id in range(9_999, 0, -1):
        full.remove(queue_id)
        gone = len(full.ids) - len(full)
        assert gone == sum(full.gone.values()) and gone <= max(ring.MOST_GONE, len(full.ids) / 4)
    assert (list(full), leave(full), len(full)) == ([0], 0, 0)


def test_a_queue_that_leaves_and_comes_back_for_ever_takes_no_more_room() -> None:
    full = Ring(range(10))
    for _ in range(20_000):
        full.remove(5)
        full.append(5)
    assert len(full.ids) <= 2 * ring.MOST_GONE + 2 and list(full) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 5]


class Counted(deque[Any]):
    """A deque that tells how many of its elements are touched."""

    touched = 0

    def popleft(self) -> Any:
        self.touched += 1
        return super().popleft()

    def append(self, item: Any) -> None:
        self.touched += 1
        super().append(item)

    def __getitem__(self, index: Any) -> Any:
        self.touched += 1
        return super().__getitem__(index)

    def remove(self, item: Any) -> None:
        self.touched += self.index(item)
        super().remove(item)

    def __iter__(self) -> Any:
        self.touched += len(self)
        return super().__iter__()


@pytest.mark.skipif(native.kernel is not None, reason="the ring of the kernel cannot be watched")
def test_a_finish_touches_as_much_of_a_long_ring_as_of_a_short_one() -> None:
    touched = []
    for hosts in 100, 2000:
        frontier = memory(hold_queues=False, concurrency=2, polite=True)
        frontier.schedule_many(f"https://host{host}.test/{page}" for host in range(hosts) for page in range(4))
        leases = frontier.lease(50)
        kept = kernel(frontier).tables.rotation.ring
        kept.ids = kept.back = Counted(kept.ids)
        for lease in leases:
            assert frontier.queue(lease.queue).state == "READY"  # type: ignore[union-attr]
            frontier.finish(lease)
        touched.append(kept.ids.touched)
        assert frontier.summary().queues["READY"] == hosts - 50
        frontier.check()
    assert touched[1] == touched[0] <= 4 * 50


def test_queues_that_left_the_middle_have_their_turns_where_they_came_back() -> None:
    frontier = memory(hold_queues=False, concurrency=2)
    frontier.schedule_many(f"https://{host}.test/{page}" for page in range(3) for host in "abcd")
    frontier.snooze("b.test", until=2_000_000.0)
    frontier.snooze("c.test", until=2_000_000.0)
    frontier.wake("b.test")
    frontier.retire("d.test")
    assert (state(frontier, "C"), record(frontier, "B").state) == ("SNOOZED", "READY")
    assert frontier.summary().queues["READY"] == 2
    leases = frontier.lease(9)
    assert [lease.queue[0] for lease in leases] == ["a", "b", "a", "b"]
    frontier.finish(leases[3], Outcome.SUCCESS)
    assert [lease.queue[0] for lease in frontier.lease(9)] == ["b"]
    frontier.check()
