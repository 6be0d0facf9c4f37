"""The ring of READY queues: which has the next turn.

Queues join it at its ends and leave it anywhere: with several URIs of a host out, each finish may send the host to its
rest. To look for it among hundreds of thousands would take longer than all else that a finish does. So a queue that
leaves the middle stays in place, noted as gone, and is skipped at the front.

An id takes 4 bytes in an array, and 40 in a deque. So the middle of a long ring is kept in arrays, and only its ends
are deques; a short ring is one deque, which is both ends.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice

MOST_GONE = (
    1 << 10
)  # entries of queues that left: beyond this, they are at most a quarter of all, for each takes 60 bytes
LONGEST = 1 << 15
"""Entries of a ring that is one deque, at the most, from one `settle` to the next."""
CHUNK = 1 << 12
"""Entries of an array."""


class Ring:
    """The ids of the READY queues in the order of their turns, each once. O(1) for every change, on average.

    Of the entries of one id, those marked as gone come first, and the valid one is the last, unless the queue joined at
    the front.
    """

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self.ids: deque[int] = deque()
        """The front, including entries marked as gone. It may be empty although the ring is not."""
        self.back: deque[int] = self.ids
        """The other end: the same deque, unless the ring is long."""
        self.gone: dict[int, int] = {}
        """The number of entries marked as gone, for each id that has some."""
        self._middle: deque[array[int]] = deque()
        self._number = 0
        """The number of all entries that are marked as gone."""
        self._joined_first: set[int] = set()
        """The ids in `gone` whose first entry is the valid one."""
        self._fill(iter(ids))
        self._length = len(self.ids) + sum(map(len, self._middle))

    def _fill(self, ids: Iterator[int]) -> None:
        """Put ids into the front of an empty ring, and the excess of a long one into arrays."""
        self.ids.extend(islice(ids, LONGEST))
        while chunk := array("I", islice(ids, CHUNK)):
            self._put_between(chunk)

    def _put_between(self, chunk: array[int]) -> None:
        if self.back is self.ids:
            self.back = deque()
        self._middle.append(chunk)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        met: dict[int, int] = {}
        for queue_id in self.ids if self.back is self.ids else chain(self.ids, *self._middle, self.back):
            gone = self.gone.get(queue_id, 0)
            if gone:
                place = met[queue_id] = met.get(queue_id, 0) + 1
                if place != (1 if queue_id in self._joined_first else gone + 1):
                    continue
            yield queue_id

    def append(self, queue_id: int) -> None:
        """Join at the back."""
        self.back.append(queue_id)
        self._length += 1

    def appendleft(self, queue_id: int) -> None:
        """Join at the front."""
        self.ids.appendleft(queue_id)
        self._length += 1
        if queue_id in self.gone:
            self._joined_first.add(queue_id)

    def front(self) -> int:
        """Return the queue with the next turn; there must be one. Drops entries marked as gone before it."""
        ids = self.ids
        while (ids or self.refill()) and ids[0] in self.gone and ids[0] not in self._joined_first:
            self._drop(ids.popleft())
        return ids[0]

    def remove(self, queue_id: int) -> None:
        """Remove a queue from any place in the ring."""
        if not self.ids:
            self.refill()
        is_first = self.ids[0] == queue_id and (queue_id not in self.gone or queue_id in self._joined_first)
        self._length -= 1
        self._joined_first.discard(queue_id)
        if is_first:
            self.ids.popleft()
            return
        self.gone[queue_id] = self.gone.get(queue_id, 0) + 1
        self._number += 1
        if self._number > MOST_GONE and self._number * 3 > self._length:  # a quarter of all entries
            self._forget_gone()

    def refill(self) -> bool:
        """Move queues up to a used-up front; return whether there are any."""
        if self._middle:
            self.ids.extend(self._middle.popleft())
        elif self.back is not self.ids:
            self.ids.extend(self.back)
            self.back.clear()
        return bool(self.ids)

    def settle(self) -> None:
        """Move the back of a long ring, or a ring that became long, to the middle; end a short ring's middle."""
        if self.back is self.ids:
            if len(self.ids) > 2 * LONGEST:
                ids = list(self.ids)
                self.ids.clear()
                self._fill(iter(ids))
        elif not self._middle and len(self.ids) + len(self.back) <= LONGEST:
            self.ids.extend(self.back)
            self.back = self.ids
        else:
            while len(self.back) >= CHUNK:
                self._put_between(array("I", [self.back.popleft() for _ in range(CHUNK)]))

    def _drop(self, queue_id: int) -> None:
        self._number -= 1
        if self.gone[queue_id] == 1:
            del self.gone[queue_id]
        else:
            self.gone[queue_id] -= 1

    def _forget_gone(self) -> None:
        """Drop all entries marked as gone, once they are a quarter."""
        counting = array("I", self)
        self.ids.clear()
        self.back.clear()
        self._middle.clear()
        self._fill(iter(counting))
        self.gone.clear()
        self._joined_first.clear()
        self._number = 0
