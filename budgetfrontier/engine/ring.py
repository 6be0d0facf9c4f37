"""The ring of READY queues: which has the next turn.

Queues join it at its ends and leave it anywhere: with several URIs of a host out, each finish may send the host to its
rest. To look for it among hundreds of thousands would take longer than all else that a finish does. So what leaves the
middle stays where it is, noted as gone, and is passed over once it comes to the front.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

MOST_GONE = (
    1 << 10
)  # entries of queues that left: beyond this, they are at most a quarter of all, for each takes 60 bytes


class Ring:
    """The ids of the READY queues in the order of their turns, each once. O(1) for every change, on average.

    Of the entries of one id, those marked as gone come first, and the valid one is the last, unless the queue joined at
    the front. Code that takes from `ids` directly calls `skip` first if `gone` is not empty.
    """

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self.ids = deque(ids)
        """The entries, including those marked as gone. 8 bytes each."""
        self.gone: dict[int, int] = {}
        """The number of entries marked as gone, for each id that has some."""
        self._number = 0
        self._joined_first: set[int] = set()
        """The ids in `gone` whose first entry is the valid one."""

    def __len__(self) -> int:
        return len(self.ids) - self._number

    def __iter__(self) -> Iterator[int]:
        met: dict[int, int] = {}
        for queue_id in self.ids:
            gone = self.gone.get(queue_id, 0)
            if gone:
                place = met[queue_id] = met.get(queue_id, 0) + 1
                if place != (1 if queue_id in self._joined_first else gone + 1):
                    continue
            yield queue_id

    def append(self, queue_id: int) -> None:
        """Join at the back."""
        self.ids.append(queue_id)

    def appendleft(self, queue_id: int) -> None:
        """Join at the front."""
        self.ids.appendleft(queue_id)
        if queue_id in self.gone:
            self._joined_first.add(queue_id)

    def popleft(self) -> int:
        """Take the one that has the next turn, if there is one."""
        self.skip()
        queue_id = self.ids.popleft()
        self._joined_first.discard(queue_id)
        return queue_id

    def remove(self, queue_id: int) -> None:
        """Take out one that is in the ring, wherever it is."""
        if self.ids[0] == queue_id and (queue_id not in self.gone or queue_id in self._joined_first):
            self.popleft()
            return
        self.gone[queue_id] = self.gone.get(queue_id, 0) + 1
        self._joined_first.discard(queue_id)
        self._number += 1
        if self._number > MOST_GONE and self._number * 4 > len(self.ids):
            self._forget_gone()

    def skip(self) -> None:
        """Drop entries marked as gone from the front."""
        ids, gone = self.ids, self.gone
        while gone and ids[0] in gone and ids[0] not in self._joined_first:
            self._drop(ids.popleft())

    def _drop(self, queue_id: int) -> None:
        self._number -= 1
        if self.gone[queue_id] == 1:
            del self.gone[queue_id]
        else:
            self.gone[queue_id] -= 1

    def _forget_gone(self) -> None:
        """Drop all entries marked as gone, once they are a quarter."""
        counting = list(self)
        self.ids.clear()
        self.ids.extend(counting)
        self.gone.clear()
        self._joined_first.clear()
        self._number = 0
