"""The state of a partition besides its frontier: how far it has applied its log, stored as the frontier's note."""

from __future__ import annotations

from typing import Final

import msgspec

from budgetfrontier.cluster.entries import Steered
from budgetfrontier.cluster.quota_grants import QuotaGrants
from budgetfrontier.cluster.quota_slices import Slice
from budgetfrontier.engine.opening import REPLICA
from budgetfrontier.errors import CorruptFrontier

ADJUSTMENTS: Final = 10_000
"""Adjustments that are remembered, so that they can be withdrawn in all partitions."""
COMMANDS: Final = 1000
"""Commands of operators that are remembered, of either kind, so that a repeated one is not applied again."""


class PartitionState(msgspec.Struct):
    """The state of a partition after the entries before `position`."""

    crawl: str
    partition: int
    partitions: int
    position: int = 0
    """The offset of the next entry."""
    time: float = 0.0
    """The time by the owner's clock, as of its latest entry. It goes backwards at a claim alone."""
    epoch: int = -1
    """The offset of the last claim: calls of other epochs have no effect. -1: nobody has claimed it."""
    owner: str = ""
    """The worker that has claimed it last."""
    heard: dict[int, tuple[int, int]] = {}
    """By partition: the origin of what has come from there last."""
    told: dict[int, tuple[int, int]] = {}
    """By partition: the origin of what was sent there last."""
    commands: dict[bytes, int | None] = {}
    """The latest commands of operators, oldest first, with the ids of their audit entries, if they have some."""
    rejected: int = 0
    """Entries that could not be read."""
    void: int = 0
    """Calls that had no effect, because another worker had claimed the partition."""
    repeated: int = 0
    """URIs of other partitions that came again."""
    slice: Slice = Slice()
    """The slice of the crawl-wide totals that this partition has."""
    treasury: QuotaGrants | None = None
    """The totals, if this partition is the treasurer."""
    job: bytes | None = None
    """The command of an operator that is in progress."""
    waiting: list[Steered] = []
    """Commands of operators that came meanwhile, and are applied after it."""
    log: str = ""
    """The identity of the log, as the last claim has it."""
    of_queues: dict[bytes, int | None] = {}
    """As `commands`, those to one queue: however many they are, the others stay known."""

    adjusted: dict[bytes, int | None] = {}
    """As `commands`, adjustments, which are withdrawn by their command."""

    first_entry: int = 0
    """A random number, added to the offset of an entry in the ids of its leases: those of other logs differ."""

    def is_known(self, command: bytes) -> bool:
        """Return whether a command was applied, or waits."""
        return any(command in known for known in (self.commands, self.of_queues, self.adjusted))

    def is_waiting(self, command: bytes) -> bool:
        """Return whether a command is to be applied after a long one."""
        return any(steered.command == command for steered in self.waiting)

    def entry_of(self, command: bytes) -> int | None:
        """Return the id of the audit entry of a command; None if it has none, or not yet."""
        found = (known.get(command) for known in (self.commands, self.of_queues, self.adjusted))
        return next((entry for entry in found if entry is not None), None)

    def entries(self) -> dict[bytes, int | None]:
        """Return all commands that are remembered, with the ids of their audit entries."""
        return {**self.commands, **self.of_queues, **self.adjusted}

    def remember(
        self, command: bytes, entry: int | None, *, of_queue: bool = False, is_adjustment: bool = False
    ) -> None:
        """Remember a command with the id of its audit entry, and forget the oldest one if they are many."""
        commands = self.of_queues if of_queue else self.adjusted if is_adjustment else self.commands
        commands[command] = entry
        if len(commands) > (ADJUSTMENTS if is_adjustment else COMMANDS):
            del commands[next(iter(commands))]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(PartitionState).decode


def encode(state: PartitionState) -> bytes:
    """Return the note of a state."""
    return REPLICA + _encode(state)


def decode(note: bytes) -> PartitionState:
    """Return the state in a note. Raises CorruptFrontier."""
    try:
        return _decode(note.removeprefix(REPLICA))
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise CorruptFrontier(f"the position in the log cannot be read ({e}); restore a snapshot") from None
