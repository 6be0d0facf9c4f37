"""The broker's log against a model: lists of messages, and for each group how far it is."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from budgetfrontier.bus.broker import Append, Broker, Commit, Fetch, Lag, Leave, Seek
from budgetfrontier.bus.log import Fetched, Log
from budgetfrontier.bus.streams import Stream

STREAM = Stream("s", 2, ("a", "b"))
SESSION = 10.0
groups, names = st.sampled_from("ab"), st.sampled_from("xyz")
partitions = st.integers(0, 1)


class Groups(RuleBasedStateMachine):
    """Producers and consumers at random; consumers remember what the broker has answered, as LogConsumer does."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.broker = Broker(self.log)
        self.now = 1000.0
        self.sent: list[list[bytes]] = [[], []]
        self.done = {group: [0, 0] for group in "ab"}
        self.positions: dict[tuple[str, str], dict[int, tuple[int, int]]] = {}
        self.stale: set[tuple[str, str]] = set()
        """Consumers whose positions are from before a restart: the broker must not go by them."""
        self.sequence = 0

    @property
    def first(self) -> int:
        return int(1000.0 * 1e6)

    @rule(batch=st.lists(st.tuples(partitions, st.binary(max_size=3)), max_size=4), again=st.booleans())
    def append(self, batch: list[tuple[int, bytes]], again: bool) -> None:
        self.sequence += 1
        for _ in range(1 + again):
            self.broker.perform(Append(STREAM, "p", self.sequence, batch), self.now)
        for partition, data in batch:
            self.sent[partition].append(data)

    @rule(group=groups, name=names, count=st.integers(0, 4), lost=st.booleans())
    def fetch(self, group: str, name: str, count: int, lost: bool) -> None:
        known = self.positions.get((group, name), {})
        _, fetched = self.broker.perform(Fetch(STREAM, group, name, (), known, count, 0.0, SESSION), self.now)
        assert len(fetched.messages) <= count
        owned = dict(fetched.owned)
        for partition, offset, data, _ in fetched.messages:
            generation, position = owned[partition]
            assert offset == position, "in order, and none left out"
            assert data == self.sent[partition][offset - self.first]
            owned[partition] = generation, offset + 1
        for partition, (generation, position) in fetched.owned.items():
            if known.get(partition, (0, 0))[0] != generation or (group, name) in self.stale:
                assert position == self.first + self.done[group][partition], "a new owner begins where it was committed"
        if not lost:
            self.positions[group, name] = owned
            self.stale.discard((group, name))

    @rule(group=groups, name=names, back=st.integers(0, 2))
    def commit(self, group: str, name: str, back: int) -> None:
        offsets = {partition: offset - back for partition, (_, offset) in self.positions.get((group, name), {}).items()}
        before = self.lag(group)
        self.broker.perform(Commit(STREAM, group, name, offsets), self.now)
        for partition, after in enumerate(self.lag(group)):
            assert after <= before[partition], "no commit goes back"
            self.done[group][partition] = len(self.sent[partition]) - after

    @rule(group=groups, partition=partitions, back=st.integers(0, 5))
    def seek(self, group: str, partition: int, back: int) -> None:
        offset = self.first + len(self.sent[partition]) - back
        self.broker.perform(Seek(STREAM, group, partition, offset), self.now)
        kept = min(self.done[one][partition] for one in "ab")
        self.done[group][partition] = max(len(self.sent[partition]) - back, kept)

    @rule(group=groups, name=names)
    def leave(self, group: str, name: str) -> None:
        self.broker.perform(Leave(STREAM, group, name), self.now)

    @rule(seconds=st.sampled_from([1.0, 6.0, 20.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def restart(self) -> None:
        """A broker that was killed goes on from its journal, and knows no member; consumers still have positions."""
        log = Log()
        for change in self.log.changes():
            log.apply(change)
        self.log, self.broker = log, Broker(log)
        self.stale = set(self.positions)
        self.now += 0.001

    @invariant()
    def lag_is_what_is_not_committed(self) -> None:
        for group in "ab":
            assert self.lag(group) == [len(self.sent[at]) - self.done[group][at] for at in range(2)]

    def lag(self, group: str) -> list[int]:
        lag: list[int] = self.broker.perform(Lag(STREAM, group), self.now)[1]
        return lag


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


def fetched(log: Log, positions: dict[int, tuple[int, int]], now: float = 1001.0) -> Fetched:
    return log.fetch("s", "a", "x", bound=(), positions=positions, count=9, now=now, session=SESSION)


def restarted(log: Log) -> Log:
    again = Log()
    for change in log.changes():
        again.apply(change)
    return again


def with_two_messages() -> Log:
    log = Log()
    for change in log.declare(STREAM, 1000.0):
        log.apply(change)
    for change in log.append("s", "p", 1, [(0, b"1"), (0, b"2")]):
        log.apply(change)
    return log


def test_no_commit_goes_back() -> None:
    log = with_two_messages()
    first = fetched(log, {}).messages[0].offset
    for offset in (first + 2, first + 1):
        for change in log.commit("s", "a", "x", {0: offset}):
            log.apply(change)
    assert log.lag("s", "a") == [0, 0]


def test_positions_from_before_a_restart_count_for_nothing() -> None:
    """The consumer was not given what lies between: its broker may have been another, with other messages."""
    log = with_two_messages()
    taken = fetched(log, {})
    positions = {partition: (generation, at + 1) for partition, (generation, at) in taken.owned.items()}
    assert [message.data for message in fetched(restarted(log), positions, 1002.0).messages] == [b"1", b"2"]
