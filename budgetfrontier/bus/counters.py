"""Counters of a worker or spider, for the stream of statistics."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from budgetfrontier.bus.interface import BusAway, BusError, Producer
from budgetfrontier.bus.messages import Stats

log = logging.getLogger(__name__)


class BusCounters(Counter[str]):
    """Counters by name, with Frontera's name for their process: `source` is "dbw", "sw" or "spider"."""

    def __init__(self, source: str = "", partitions: Iterable[int] = ()) -> None:
        super().__init__()
        self._tags: dict[str, Any] = {"source": source}
        if own := list(partitions):
            self._tags["partition_id"] = own[0] if len(own) == 1 else own

    def message(self, **more: int | float) -> Stats:
        """Return the counters, and more, as a message."""
        return Stats({**self, **more, "_timestamp": time.time(), "_tags": self._tags})


class StatisticsSender:
    """The sender of statistics, which are not worth waiting for: the next ones say as much."""

    def __init__(self, producer: Producer) -> None:
        self._producer, self._refused = producer, False

    def send(self, message: bytes) -> None:
        """Send a message, unless one was refused. Raises nothing."""
        if self._refused:
            return
        try:
            self._producer.send(message)
            self._producer.flush(1.0)
        except BusAway:
            pass
        except BusError as error:
            self._refused = True
            log.warning("no statistics from now on: %s", error)
