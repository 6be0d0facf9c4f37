"""The bus within one process: for tests, and for trying a worker out. Its messages are gone with the process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from budgetfrontier.bus.broker import Broker, Operation
from budgetfrontier.bus.interface import SESSION, BusAway
from budgetfrontier.bus.log import LIMIT, Log
from budgetfrontier.bus.log_client import LogBus


class MemoryBroker:
    """A broker of this process, and thread: all its buses share one log."""

    def __init__(self, *, limit: int = LIMIT, now: Callable[[], float] = time.time) -> None:
        """Begin without messages. `now` returns the time in epoch seconds: silent consumers count as dead."""
        self._broker = Broker(Log(limit=limit))
        self._now = now

    def bus(self, *, session: float = SESSION) -> LogBus:
        """Return a new connection."""
        return LogBus(lambda operation, timeout: self.perform(operation), lambda: None, session=session)

    def perform(self, operation: Operation) -> Any:
        """Return the result of an operation. Raises BusError, and BusAway if it would have to wait for room."""
        complete, result = self._broker.perform(operation, self._now())
        if not complete and result is None:
            raise BusAway(f"a partition of {operation.stream.name} is full: its consumers are behind")
        return result
