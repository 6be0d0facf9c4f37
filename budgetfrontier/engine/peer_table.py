"""The table `peers`: what the partitions of a crawl have sent to each other last, so that it is taken once."""

from __future__ import annotations

from budgetfrontier.storage import keys
from budgetfrontier.storage.environment import Environment

Origin = tuple[int, int]
"""Where something comes from: an offset in the log of the partition that sends it, and a part of the entry there."""
_NOTHING = (-1, 0)
"""Before anything that a partition sends."""


class PeerTable:
    """By partition: the origins of what was heard from it last, and of what was told to it last."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._table = env.db[keys.PEERS]

    def heard(self, partition: int) -> Origin:
        """Return the origin of what was heard from a partition last; (-1, 0) if there was nothing. O(log n)."""
        return self._row(partition)[0]

    def told(self, partition: int) -> Origin:
        """Return the origin of what was told to a partition last; (-1, 0) if there was nothing. O(log n)."""
        return self._row(partition)[1]

    def hear(self, partition: int, origin: Origin) -> None:
        """Note what was heard from a partition. O(log n)."""
        self._put(partition, origin, self.told(partition))

    def tell(self, partition: int, origin: Origin) -> None:
        """Note what was told to a partition. O(log n)."""
        self._put(partition, self.heard(partition), origin)

    def _row(self, partition: int) -> tuple[Origin, Origin]:
        value = self._env.txn.get(keys.u32.pack(partition), db=self._table)
        if value is None:
            return _NOTHING, _NOTHING
        heard, heard_part, told, told_part = keys.peer.unpack(value)
        return (heard, heard_part), (told, told_part)

    def _put(self, partition: int, heard: Origin, told: Origin) -> None:
        self._env.txn.put(keys.u32.pack(partition), keys.peer.pack(*heard, *told), db=self._table)
