"""The records of groups, their names, and the queues that wait for them, in the order in which they began to."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from budgetfrontier.core.model import GroupRecord, QueueRecord
from budgetfrontier.engine.live_queue import set_plainly
from budgetfrontier.settings.grouping import Grouping, GroupLimits
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import decoder, encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters

AT_ONCE = 0.0
"""The wake time of a group that may go on as soon as anything is leased."""
CACHE = 8 << 10
"""Records kept in memory at the most, from one commit to the next besides those that have changed."""


class LiveGroup(GroupRecord, array_like=True, gc=False, eq=False):
    """A GroupRecord with fields that are as cheap to set as a plain object's; it is stored as the record is."""


set_plainly(LiveGroup("", 0), "id")
_decode = decoder(LiveGroup)


class GroupTable:
    """All groups, by id and by name. O(1) for one in memory, else one LMDB look-up."""

    def __init__(self, env: Environment, counters: Counters) -> None:
        self._env = env
        self._counters = counters
        self._cache: dict[int, LiveGroup] = {}
        self._dirty: set[int] = set()
        self._ids: dict[str, int] = {}
        self.live: dict[int, tuple[LiveGroup, GroupLimits]] = {}
        """What `limited` has returned since the last commit, by id: it is written at the next one."""
        self._grouping = Grouping(())
        self.reached = False
        """Whether a total budget is spent when it is reached, not only when it is exceeded."""

    def use(self, grouping: Grouping, *, reached: bool) -> None:
        """Take the limits of groups from other settings from now on."""
        self._grouping, self.reached = grouping, reached
        self.live.clear()

    def limits_of(self, name: str) -> GroupLimits:
        """Return the limits in force of a group, by its full name."""
        return self._grouping.limits_of(name)

    def limited(self, group_id: int) -> tuple[LiveGroup, GroupLimits]:
        """Return the record of an id that exists, to be changed, and its limits in force."""
        found = self.live.get(group_id)
        if found is None:
            group = self.get(group_id)
            found = self.live[group_id] = group, self._grouping.limits_of(group.name)
        return found

    def get(self, group_id: int) -> LiveGroup:
        """Return the record of an id that exists, to be changed."""
        self._dirty.add(group_id)
        return self._cache.get(group_id) or self._read(group_id)

    def _read(self, group_id: int) -> LiveGroup:
        value = self._env.txn.get(keys.u32.pack(group_id), db=self._env.db[keys.GROUPS])
        if value is None:
            raise Damage(f"group {group_id} has no record")
        group = self._cache[group_id] = _decode(value)
        if group.id != group_id or not 0 <= group.wake_time < inf:
            raise Damage(f"the record of group {group_id} is that of {group.id}, or wakes at {group.wake_time}")
        return group

    def named(self, name: str) -> LiveGroup:
        """Return the record of a name, to be changed; a new group has no queues yet."""
        return self.find(name) or self._create(name)

    def find(self, name: str) -> LiveGroup | None:
        """Return the record of a name, to be changed; None if no queue is in this group."""
        group_id = self._ids.get(name)
        if group_id is None:
            found = self._env.txn.get(name.encode(), db=self._env.db[keys.GROUP_IDS])
            if found is None:
                return None
            group_id = self._ids[name] = keys.u32.unpack(found)[0]
        return self.get(group_id)

    def _create(self, name: str) -> LiveGroup:
        counters = self._counters
        counters.groups += 1
        counters.group_id = group_id = counters.group_id + 1
        self._env.txn.put(name.encode(), keys.u32.pack(group_id), db=self._env.db[keys.GROUP_IDS])
        group = self._cache[group_id] = LiveGroup(name, group_id)
        self._ids[name] = group_id
        self._dirty.add(group_id)
        return group

    def delete(self, group: LiveGroup) -> None:
        """Delete a group without queues."""
        self.set_row(group, None)
        self._env.txn.delete(keys.u32.pack(group.id), db=self._env.db[keys.GROUPS])
        self._env.txn.delete(group.name.encode(), db=self._env.db[keys.GROUP_IDS])
        self._counters.groups -= 1
        self._ids.pop(group.name, None)
        self._cache.pop(group.id, None)
        self.live.pop(group.id, None)
        self._dirty.discard(group.id)

    # -- the queues that wait

    def park(self, queue: QueueRecord) -> None:
        """Add a queue behind those that wait for its group."""
        group = self.get(queue.group)
        group.parked_back = queue.parked = group.parked_back + 1
        group.parked += 1
        self._counters.parked += 1
        key = keys.parked.pack(group.id, queue.parked)
        self._env.txn.put(key, keys.u32.pack(queue.id), db=self._env.db[keys.PARKED])

    def unpark(self, queue: QueueRecord) -> None:
        """Take a queue out of those that wait for its group."""
        group = self.get(queue.group)
        self._env.txn.delete(keys.parked.pack(group.id, queue.parked), db=self._env.db[keys.PARKED])
        queue.parked = 0
        group.parked -= 1
        self._counters.parked -= 1

    def first_parked(self, group: LiveGroup) -> int:
        """Return the id of the queue that has waited longest for a group; some queue waits for it."""
        cursor = self._env.txn.cursor(self._env.db[keys.PARKED])
        if not cursor.set_range(keys.parked.pack(group.id, 0)) or keys.parked.unpack(cursor.key())[0] != group.id:
            raise Damage(f"group {group.name} counts {group.parked} queues that wait for it, and none is found")
        return int(keys.u32.unpack(cursor.value())[0])

    # -- the times at which they wake

    def set_row(self, group: LiveGroup, when: float | None) -> None:
        """Let a group wake at a time, None for never."""
        if group.row == when:
            return
        db = self._env.db[keys.GROUP_WAKES]
        if group.row is not None:
            self._env.txn.delete(keys.timed.pack(group.row, group.id), db=db)
        if when is not None:
            self._env.txn.put(keys.timed.pack(when, group.id), b"", db=db)
        group.row = when

    def due(self, now: float, limit: int) -> list[int]:
        """Return the groups that wake by a time, by (wake time, id)."""
        found: list[int] = []
        for when, group_id in self._rows():
            if when > now or len(found) == limit:
                break
            found.append(group_id)
        return found

    def first_wake(self) -> float:
        """Return the earliest wake time of a group, `inf` if none wakes."""
        return next(self._rows(), (inf, 0))[0] if self._counters.groups else inf

    def _rows(self) -> Iterator[tuple[float, int]]:
        cursor = self._env.txn.cursor(self._env.db[keys.GROUP_WAKES])
        if cursor.set_range(keys.FIRST):
            for key in cursor.iternext(values=False):
                yield keys.timed.unpack(key)

    def ahead(self, latest: float) -> list[int]:
        """Return the groups that wake after a time."""
        return [group_id for when, group_id in self._rows() if when > latest]

    def flush(self) -> None:
        """Write changed records, and keep memory bounded."""
        if not self._dirty:
            return
        rows = [(keys.u32.pack(group_id), encode(self._cache[group_id])) for group_id in sorted(self._dirty)]
        self._env.txn.cursor(self._env.db[keys.GROUPS]).putmulti(rows)
        self._dirty.clear()
        self.live.clear()
        if len(self._cache) > CACHE:
            self._cache.clear()
            self._ids.clear()
