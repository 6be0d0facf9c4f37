"""The state of a broker: streams as logs in memory, consumer groups with their committed offsets. Pure rules, no I/O.

Every change is a `Change`, which a broker appends to its journal before it answers; `changes` returns the changes that
restore the state. Reading changes nothing, because consumers keep their positions themselves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping

import msgspec

from budgetfrontier.bus.interface import BusError, Received
from budgetfrontier.bus.partition_assignment import Member, assign
from budgetfrontier.bus.streams import Stream

LIMIT = 64 << 20
"""Bytes in a partition above which producers have to wait until consumers have caught up."""
MAX_PARTITIONS = 1 << 16
PRODUCERS = 10_000
"""Producers with a remembered last batch, which is thus not appended twice."""


class Declared(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A stream was declared; each of its partitions begins at `start`."""

    stream: Stream
    start: int


class Appended(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A producer has sent a batch: messages with their partitions."""

    stream: str
    producer: str
    sequence: int
    messages: list[tuple[int, bytes]]


class Committed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A group has processed a partition up to an offset, or was set back to it."""

    stream: str
    group: str
    partition: int
    offset: int


class Dropped(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The first message of a partition that is still there."""

    stream: str
    partition: int
    offset: int


Change = Declared | Appended | Committed | Dropped


class Fetched(msgspec.Struct, array_like=True):
    """The answer to a consumer: the partitions that it owns, each with a generation and a position, and messages."""

    owned: dict[int, tuple[int, int]]
    messages: list[Received]


class _LogPartition:
    """Messages in order; `start` is the offset of the first."""

    def __init__(self, start: int) -> None:
        self.start, self.size = start, 0
        self.messages: list[bytes] = []

    @property
    def end(self) -> int:
        return self.start + len(self.messages)

    def drop(self, offset: int) -> None:
        """Forget the messages before an offset."""
        if offset > self.start:
            self.size -= sum(map(len, self.messages[: offset - self.start]))
            del self.messages[: offset - self.start]
            self.start = offset


class _GroupMember(msgspec.Struct):
    place: Member
    until: float


class _ConsumerGroup:
    """Committed offsets, members, and the owners of partitions with the generation of each ownership."""

    def __init__(self, committed: list[int]) -> None:
        self.committed = committed
        self.members: dict[str, _GroupMember] = {}
        self.owners: dict[int, tuple[str, int]] = {}


class _StreamLog:
    def __init__(self, stream: Stream, start: int) -> None:
        self.stream = stream
        self.partitions = [_LogPartition(start) for _ in range(stream.partitions)]
        self.groups: dict[str, _ConsumerGroup] = {}
        for group in stream.groups:
            self.group(group)

    def group(self, name: str) -> _ConsumerGroup:
        """Return a group; a new one begins with the first message that is still there."""
        if name not in self.groups:
            self.groups[name] = _ConsumerGroup([partition.start for partition in self.partitions])
        return self.groups[name]


class Log:
    """All streams of a broker. Methods with durable effects return or take `Change`s."""

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._streams: dict[str, _StreamLog] = {}
        self._batches: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._limit = limit
        self._generation = 0

    def declare(self, stream: Stream, now: float) -> list[Change]:
        """Return the change that adds a stream, if it is new. Raises BusError if its partitions differ.

        Offsets of a new stream begin with the time in microseconds, so that they are greater than any that were given
        before a broker lost its journal.
        """
        known = self._streams.get(stream.name)
        if not 1 <= stream.partitions <= MAX_PARTITIONS:
            raise BusError(f"stream {stream.name}: expected 1 to {MAX_PARTITIONS} partitions")
        if known is None:
            return [Declared(stream, int(now * 1e6))]
        if known.stream.partitions != stream.partitions:
            raise BusError(
                f"stream {stream.name} has {known.stream.partitions} partitions at the broker, not "
                f"{stream.partitions}; use the same settings everywhere"
            )
        return []

    def append(self, stream: str, producer: str, sequence: int, messages: list[tuple[int, bytes]]) -> list[Change]:
        """Return the change that appends a batch; none if it was appended before. Raises BusError."""
        partitions = self._stream(stream).partitions
        if any(not 0 <= partition < len(partitions) for partition, _ in messages):
            raise BusError(f"stream {stream} has partitions 0 to {len(partitions) - 1}")
        if self._batches.get((stream, producer), -1) >= sequence:
            return []
        return [Appended(stream, producer, sequence, messages)]

    def is_full(self, stream: str, messages: list[tuple[int, bytes]]) -> bool:
        """Return whether a batch has to wait, because a partition that it goes to holds more than the limit."""
        log = self._stream(stream)
        return log.stream.keep is None and any(
            log.partitions[partition].size > self._limit
            for partition in {partition for partition, _ in messages}
            if 0 <= partition < len(log.partitions)
        )

    def commit(self, stream: str, group: str, member: str, offsets: Mapping[int, int]) -> list[Change]:
        """Return the changes of a commit: those for partitions that the member owns."""
        log = self._stream(stream)
        known = log.group(group)
        return [
            Committed(stream, group, partition, min(offset, log.partitions[partition].end))
            for partition, offset in offsets.items()
            if known.owners.get(partition, ("", 0))[0] == member and offset > known.committed[partition]
        ]

    def seek(self, stream: str, group: str, partition: int, offset: int) -> list[Change]:
        """Return the change that sets a group to an offset, or to the nearest that there is."""
        log = self._stream(stream)
        if not 0 <= partition < len(log.partitions):
            raise BusError(f"stream {stream} has no partition {partition}")
        there = log.partitions[partition]
        log.group(group)
        return [Committed(stream, group, partition, min(max(offset, there.start), there.end))]

    def apply(self, change: Change) -> None:
        """Make a change."""
        match change:
            case Declared(stream, start):
                self._streams[stream.name] = _StreamLog(stream, start)
            case Appended(stream=name, producer=producer, sequence=sequence, messages=messages):
                self._append(self._stream(name), messages)
                self._batches[name, producer] = sequence
                self._batches.move_to_end((name, producer))
                if len(self._batches) > PRODUCERS:
                    self._batches.popitem(last=False)
            case Committed(name, group, partition, offset):
                log = self._stream(name)
                log.group(group).committed[partition] = offset
                log.partitions[partition].drop(min(one.committed[partition] for one in log.groups.values()))
            case Dropped(name, partition, offset):
                self._stream(name).partitions[partition].drop(offset)

    def fetch(
        self,
        stream: str,
        group: str,
        member: str,
        *,
        bound: tuple[int, ...],
        positions: Mapping[int, tuple[int, int]],
        count: int,
        now: float,
        session: float,
    ) -> Fetched:
        """Return messages for a member, which counts as alive for `session` seconds from now.

        `positions` has the generation and the next offset of each partition that the member knows to be its own; in
        others it goes on where the group has committed.
        """
        log = self._stream(stream)
        known = log.group(group)
        if member in known.members:
            known.members[member].until = now + session
        else:
            known.members[member] = _GroupMember(Member(self._next_generation(now), member, bound), now + session)
        self._share(log, known, now)
        fetched = Fetched({}, [])
        mine = [partition for partition, (owner, _) in known.owners.items() if owner == member]
        turn = int(now * 1000) % (len(mine) or 1)  # so that no partition always comes first
        for partition in mine[turn:] + mine[:turn]:
            there, generation = log.partitions[partition], known.owners[partition][1]
            theirs = positions.get(partition, (0, 0))
            position = theirs[1] if theirs[0] == generation else known.committed[partition]
            position = max(position, there.start)
            first = position - there.start
            taken = there.messages[first : first + max(0, count - len(fetched.messages))]
            fetched.messages += [Received(partition, position + place, data) for place, data in enumerate(taken)]
            fetched.owned[partition] = generation, position
        return fetched

    def leave(self, stream: str, group: str, member: str, now: float) -> None:
        """Remove a member from its group."""
        log = self._stream(stream)
        log.group(group).members.pop(member, None)
        self._share(log, log.group(group), now)

    def lag(self, stream: str, group: str) -> list[int]:
        """Return the number of messages in each partition that a group has not committed."""
        log = self._stream(stream)
        committed = log.group(group).committed
        return [there.end - max(there.start, offset) for there, offset in zip(log.partitions, committed, strict=True)]

    def size(self) -> int:
        """Return the bytes of all messages."""
        return sum(partition.size for log in self._streams.values() for partition in log.partitions)

    def changes(self) -> Iterator[Change]:
        """Yield the changes that make this state of an empty log; members of groups are not part of it."""
        for name, log in self._streams.items():
            yield Declared(log.stream, 0)
            for number, partition in enumerate(log.partitions):
                yield Dropped(name, number, partition.start)
                for group, known in log.groups.items():
                    yield Committed(name, group, number, known.committed[number])
                for data in partition.messages:
                    yield Appended(name, "", 0, [(number, data)])
        for (name, producer), sequence in self._batches.items():
            yield Appended(name, producer, sequence, [])

    def _stream(self, name: str) -> _StreamLog:
        try:
            return self._streams[name]
        except KeyError:
            raise BusError(f"the broker has no stream {name!r:.100}") from None

    def _append(self, log: _StreamLog, messages: list[tuple[int, bytes]]) -> None:
        for number, data in messages:
            partition = log.partitions[number]
            partition.messages.append(data)
            partition.size += len(data)
            if log.stream.keep is not None and len(partition.messages) > log.stream.keep:
                partition.drop(partition.start + 1)

    def _next_generation(self, now: float) -> int:
        """Return a number that is greater than any before, those of a broker that was killed included."""
        self._generation = max(self._generation + 1, int(now * 1e6))
        return self._generation

    def _share(self, log: _StreamLog, group: _ConsumerGroup, now: float) -> None:
        """Forget members that are dead, and give out partitions; an owner that stays keeps its generation."""
        group.members = {name: one for name, one in group.members.items() if one.until >= now}
        owners = assign(len(log.partitions), (one.place for one in group.members.values()))
        group.owners = {
            partition: kept
            if (kept := group.owners.get(partition)) is not None and kept[0] == owner
            else (owner, self._next_generation(now))
            for partition, owner in sorted(owners.items())
        }
