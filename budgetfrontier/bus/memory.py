"""The bus within one process: for tests, and for trying a worker out. Its messages are gone with the process."""

from __future__ import annotations

import time
from typing import Any

from budgetfrontier.bus.broker import Broker, Operation
from budgetfrontier.bus.interface import SESSION, BusError
from budgetfrontier.bus.log import LIMIT, Log
from budgetfrontier.bus.log_client import LogBus


class MemoryBroker:
    """A broker of this process, and thread: all its buses share one log."""

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._broker = Broker(Log(limit=limit))

    def bus(self, *, session: float = SESSION) -> LogBus:
        """Return a new connection."""
        return LogBus(self._call, lambda: None, session=session)

    def _call(self, operation: Operation, timeout: float) -> Any:
        complete, result = self._broker.perform(operation, time.time())
        if not complete and result is None:
            raise BusError(f"a partition of {operation.stream.name} is full: its consumers are behind")
        return result
