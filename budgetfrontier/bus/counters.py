"""Counters of a worker or spider, for the stream of statistics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from budgetfrontier.bus.messages import Stats


class Counters(Counter[str]):
    """Counters by name, with what they are about as Frontera has it: `source` is "dbw", "sw" or "spider"."""

    def __init__(self, source: str = "", partitions: Iterable[int] = ()) -> None:
        super().__init__()
        self._tags: dict[str, Any] = {"source": source}
        if own := list(partitions):
            self._tags["partition_id"] = own[0] if len(own) == 1 else own

    def message(self, **more: int | float) -> Stats:
        """Return the counters, and more, as a message."""
        return Stats({**self, **more, "_timestamp": time.time(), "_tags": self._tags})
