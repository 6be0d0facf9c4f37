"""The state of a partition beside its frontier's tables: its place in the log, its quotas, the commands of operators.

Each is a row of the frontier's own environment, which changes with the others, and is in the same entries of the log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from budgetfrontier.cluster.log.entries import Steered
from budgetfrontier.cluster.quotas.quota_grants import QuotaGrants
from budgetfrontier.cluster.quotas.quota_slices import Slice
from budgetfrontier.errors import CorruptFrontier, FrontierError
from budgetfrontier.storage import encoding, meta
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.reader import Reader

ADJUSTMENTS: Final = 10_000
"""Adjustments that are remembered, so that they can be withdrawn in all partitions."""
COMMANDS: Final = 1000
"""Commands of operators that are remembered, of either kind, so that a repeated one is not applied again."""


class NotACopy(FrontierError):
    """The folder of a partition has a frontier without a place in a log, which may be a copy that was repaired."""


class LogPlace(msgspec.Struct, array_like=True, frozen=True):
    """The log of a partition, and the offset from which a copy reads on."""

    crawl: str
    partition: int
    partitions: int
    position: int = 0
    """The offset of the first entry that a copy needs: the changes of those before it are in its tables."""
    epoch: int = -1
    """The offset of the last claim before `position`: changes of other epochs do not count. -1: there is none."""
    log: str = ""
    """The identity of the log, if the bus has any: that of the topic."""

    @property
    def of(self) -> tuple[str, int, int]:
        """The crawl, the partition and the number of partitions, which are the same in all copies of it."""
        return self.crawl, self.partition, self.partitions


class QuotaState(msgspec.Struct, array_like=True):
    """The part of the crawl-wide totals that a partition has."""

    slice: Slice = Slice()
    treasury: QuotaGrants | None = None
    """The totals, if this partition is the treasurer."""


class KnownCommands(msgspec.Struct, array_like=True):
    """The latest commands of operators, oldest first, with the ids of their audit entries, if they have some."""

    commands: dict[bytes, int | None] = {}
    """All but the following."""
    of_queues: dict[bytes, int | None] = {}
    """Those to one queue: however many they are, the others stay known."""
    adjusted: dict[bytes, int | None] = {}
    """Adjustments, which are withdrawn by their command."""
    job: bytes | None = None
    """The command that is in progress."""
    waiting: list[Steered] = []
    """Commands that came meanwhile, and are applied after it."""

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


FRONTIER: Final = "frontier"
"""The folder with the tables, in that of a partition."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decoders: Final = {kind: encoding.decoder(kind) for kind in (LogPlace, QuotaState, KnownCommands)}
_T = TypeVar("_T", LogPlace, QuotaState, KnownCommands)


def encode(found: LogPlace | QuotaState | KnownCommands) -> bytes:
    """Return the row of a state, with a checksum: a wrong bit would skip a part of its log, or grant quota twice."""
    return encoding.with_checksum(_encode(found))


def decode(row: bytes, kind: type[_T]) -> _T:
    """Return the state in a row. Raises CorruptFrontier."""
    try:
        found: Any = _decoders[kind](encoding.without_checksum(row))
    except Damage as e:
        raise CorruptFrontier(f"the state of the partition cannot be read ({e}); restore a snapshot") from None
    return found  # type: ignore[no-any-return]


def place_in(frontier: Path) -> LogPlace | None:
    """Return the place in the log of the copy of a partition; None if there is no copy. Raises as `place_of`."""
    if not (frontier / "data.mdb").is_file():
        return None
    with Reader(frontier) as reader:
        return place_of(reader.row(meta.PLACE), frontier)


def place_of(row: bytes | None, frontier: Path) -> LogPlace:
    """Return the place in the row of a folder. Raises NotACopy if it has none, and CorruptFrontier."""
    if row is None:
        raise NotACopy(f"{frontier} {meta.NO_COPY}")
    return decode(row, LogPlace)
