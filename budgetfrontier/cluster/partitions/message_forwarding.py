"""Forwarding of a partition's messages to the logs of others, once they are in its own, until they are there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from budgetfrontier.cluster.log import entries
from budgetfrontier.cluster.log.entries import Changes, Told
from budgetfrontier.engine.peer_table import PeerTable


class MessageForwarding:
    """Sends the messages among the changes that an owner reads in its log, in order, also those of earlier owners.

    A place of the log is not passed before its messages are in the others' logs: the next owner sends them again, with
    the same origins, so that they are heard once.
    """

    def __init__(self, partition: int, crawl: str, peers: PeerTable) -> None:
        """Forward for a partition; `peers` is its table with the origins of what was sent."""
        self._partition, self._crawl, self._peers = partition, crawl, peers
        self._outgoing = deque[tuple[int, bytes, int, int]]()
        """Messages to send: the partition, which may be the own one, the entry, and where it comes from, as below."""
        self._unconfirmed = deque[tuple[int, int, int]]()
        """Messages that may not be in the others' logs yet: ticket of the writer, offset here, epoch before that."""
        self._told: dict[int, tuple[int, int]] = {}
        """By partition: the origin of the last message that was sent there, where it is not stored yet."""

    def __repr__(self) -> str:
        return f"<MessageForwarding: {len(self._outgoing)} to send, {len(self._unconfirmed)} unconfirmed>"

    def forward(self, offset: int, epoch: int, changes: Changes) -> None:
        """Let the messages among changes be sent: these are in the log at an offset, with an epoch before it."""
        for place, (partition, message) in enumerate(changes.messages):
            origin = (offset, place)
            told = Told(self._partition, origin, message)  # type: ignore[arg-type]  # encoded
            self._outgoing.append((partition, entries.encode(told, crawl=self._crawl), offset, epoch))
            self._told[partition] = max(origin, self._told.get(partition, origin))

    def send(self, write: Callable[[int, bytes], int]) -> None:
        """Send what is to be sent. `write(partition, entry)` appends to a log; it returns a higher ticket each time."""
        while self._outgoing:
            partition, data, offset, epoch = self._outgoing.popleft()
            self._unconfirmed.append((write(partition, data), offset, epoch))

    def confirm(self, ticket: int) -> None:
        """Take note that the messages sent up to a ticket are in the logs of the other partitions."""
        while self._unconfirmed and self._unconfirmed[0][0] <= ticket:
            self._unconfirmed.popleft()

    def first(self) -> tuple[int, int] | None:
        """Return the offset, and the epoch before it, of the first changes that may not be in the others' logs."""
        if self._unconfirmed:
            return self._unconfirmed[0][1:]
        return self._outgoing[0][2:] if self._outgoing else None

    def told(self, partition: int) -> tuple[int, int]:
        """Return the origin of the last message that was sent to a partition; (-1, 0): none was."""
        return max(self._told.get(partition, (-1, 0)), self._peers.told(partition))

    def store(self) -> None:
        """Store the origins of what was sent."""
        for partition, origin in self._told.items():
            if origin > self._peers.told(partition):
                self._peers.tell(partition, origin)
        self._told.clear()
