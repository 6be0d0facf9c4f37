"""Forwarding of a partition's messages to the logs of others, once they are in its own, until they are there."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from budgetfrontier.cluster.log import entries
from budgetfrontier.cluster.log.entries import Changes, Told
from budgetfrontier.engine.peer_table import PeerTable


class Outgoing(NamedTuple):
    """An entry for the log of a partition, which may be the one that sends it."""

    partition: int
    data: bytes


class MessageForwarding:
    """Sends the messages among the changes that an owner reads in its log, in order, also those of earlier owners.

    A place of the log is not passed before its messages are in the others' logs: the next owner sends them again, with
    the same origins, so that they are heard once.
    """

    def __init__(self, partition: int, crawl: str) -> None:
        self._partition, self._crawl = partition, crawl
        self._outgoing: list[tuple[Outgoing, int, int]] = []
        self._unconfirmed: deque[tuple[int, int, int]] = deque()
        """Entries whose messages may not be in the others' logs yet: ticket of the writer, offset, epoch before it."""
        self._told: dict[int, tuple[int, int]] = {}
        """By partition: the origin of the last message that was sent there, where it is not stored yet."""

    def __repr__(self) -> str:
        return f"<MessageForwarding: {len(self._outgoing)} to send, {len(self._unconfirmed)} entries unconfirmed>"

    def forward(self, offset: int, epoch: int, changes: Changes) -> None:
        """Let the messages among changes be sent: these are in the log at an offset, with an epoch before it."""
        for place, (partition, message) in enumerate(changes.messages):
            origin = (offset, place)
            told = Told(self._partition, origin, message)  # type: ignore[arg-type]  # encoded
            self._outgoing.append((Outgoing(partition, entries.encode(told, crawl=self._crawl)), offset, epoch))
            self._told[partition] = max(origin, self._told.get(partition, origin))

    def outgoing(self) -> list[Outgoing]:
        """Return the entries to be sent; `sent` is to be called once they are on their way."""
        return [one for one, _, _ in self._outgoing]

    def sent(self, ticket: int) -> None:
        """Take note that all of `outgoing` is on its way, with the ticket of the last one."""
        for _, offset, epoch in self._outgoing:
            if not self._unconfirmed or self._unconfirmed[-1][1] != offset:
                self._unconfirmed.append((ticket, offset, epoch))
        self._outgoing.clear()

    def confirm(self, ticket: int) -> None:
        """Take note that the messages sent up to a ticket are in the logs of the other partitions."""
        while self._unconfirmed and self._unconfirmed[0][0] <= ticket:
            self._unconfirmed.popleft()

    def first(self) -> tuple[int, int] | None:
        """Return the offset, and the epoch before it, of the first changes that may not be in the others' logs."""
        if self._unconfirmed:
            return self._unconfirmed[0][1:]
        return self._outgoing[0][1:] if self._outgoing else None

    def told(self, partition: int, peers: PeerTable) -> tuple[int, int]:
        """Return the origin of the last message that was sent to a partition; (-1, 0): none was."""
        return max(self._told.get(partition, (-1, 0)), peers.told(partition))

    def store(self, peers: PeerTable) -> None:
        """Store the origins of what was sent."""
        for partition, origin in self._told.items():
            if origin > peers.told(partition):
                peers.tell(partition, origin)
        self._told.clear()
