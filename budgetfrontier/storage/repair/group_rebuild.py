"""The rebuild of the groups of queues, with the queues: their names and clocks are kept, all else is counted again."""

from __future__ import annotations

from math import inf

from msgspec.structs import replace

from budgetfrontier.core.model import GroupRecord, QueueRecord, QueueState
from budgetfrontier.rules import group_limits
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import Counters, decode_group
from budgetfrontier.storage.repair.findings import LAST_ID
from budgetfrontier.storage.repair.record_copies import RecordCopies

LAST_POSITION = 1 << 48


class GroupRebuild:
    """The rebuild of all groups. A queue whose group is lost chooses one anew in its next turn."""

    def __init__(self, copies: RecordCopies) -> None:
        self._copies, self._tables, self._notes = copies, copies.tables, copies.notes
        self._stored: dict[int, GroupRecord] = {}
        self._made: dict[int, GroupRecord] = {}
        self._ready: set[int] = set()
        """The groups with a READY queue."""

    def read(self) -> None:
        """Read the groups: their records, or for those that are lost, their names."""
        names: set[str] = set()

        def read(key: bytes, value: bytes) -> GroupRecord:
            group = decode_group(value)
            if keys.u32.pack(group.id) != key or not 0 < group.id <= LAST_ID or not group.name or group.name in names:
                raise ValueError("its id is not its key, or another one has its name")
            return group

        for _, _, group in self._copies.readable(keys.GROUPS, read):
            names.add(group.name)
            self._stored[group.id] = group
        for key, value in self._copies.source.records(keys.GROUP_IDS):
            name, number = key.decode(errors="replace"), int.from_bytes(value, "big")
            readable = name.encode() == key and len(value) == keys.u32.size and 0 < number <= LAST_ID
            if readable and number not in self._stored and name not in names:
                self._stored[number] = GroupRecord(name, number)
                names.add(name)
                self._notes.note_change(f"group {name}: its record is lost, and was created again")
        for number, group in self._stored.items():
            made = self._made[number] = group_limits.without_queues(group)
            for name in ("wake_time", "busy_until"):
                if not 0 <= getattr(made, name) < inf:
                    setattr(made, name, 0)
            if made.row is not None and not 0 <= made.row < inf:
                made.row = None
            if made.parked_back > LAST_POSITION:
                made.parked_back = 0

    def check(self, queue: QueueRecord) -> None:
        """Correct what the record of a queue says about its group."""
        if queue.group and queue.group not in self._made:
            queue.group = queue.group_revision = 0
        if not queue.group or queue.state is not QueueState.SNOOZED or queue.parked > LAST_POSITION:
            queue.parked = 0

    def park(self, queue: QueueRecord) -> None:
        """Put a queue among those that wait for its group: at its position, or behind the others if that is taken."""
        group, value = self._made[queue.group], keys.u32.pack(queue.id)
        if not self._tables.put(keys.PARKED, keys.parked.pack(group.id, queue.parked), value):
            group.parked_back = queue.parked = max(self._stored[group.id].parked_back, group.parked_back) + 1
            self._tables.put(keys.PARKED, keys.parked.pack(group.id, queue.parked), value)
        group.parked_back = max(group.parked_back, queue.parked)

    def count(self, queue: QueueRecord) -> None:
        """Add a queue that was written to its group."""
        if queue.group:
            group = self._made[queue.group]
            group_limits.add(group, queue)
            group.parked += queue.parked > 0
            if queue.state is QueueState.READY:
                self._ready.add(group.id)

    def write(self, totals: Counters) -> None:
        """Write the groups that have queues, and count them."""
        for number, group in self._made.items():
            if not group.queues:
                continue
            if group.parked and group.row is None and not group.out and number not in self._ready:
                group.row = 0  # at the next lease
            key = keys.u32.pack(number)
            if group.row is not None:
                self._tables.put(keys.GROUP_WAKES, keys.timed.pack(group.row, number), b"")
            self._tables.put(keys.GROUPS, key, encode(group))
            self._tables.put(keys.GROUP_IDS, group.name.encode(), key)
            totals.groups += 1
            totals.parked += group.parked
            totals.group_id = max(totals.group_id, number)
            if group != self._stored[number]:
                self._notes.note_change(f"group {group.name}: {replace(group)} was {self._stored[number]}")
