"""Batches of PutDiscovered, taken in steps if they are long, so that other calls pass and the server can stop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from budgetfrontier.errors import FrontierClosed
from budgetfrontier.server.rpc_calls import RpcCall
from budgetfrontier.server.urlfrontier import engine_calls
from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as messages

STEP = 1000
"""URLs of a batch that are scheduled in one call to a crawl."""

Put = Callable[[str, Sequence[Any]], Coroutine[Any, Any, list[int]]]
"""Schedules URLInfos of a crawl; returns the status of each."""


class DiscoveredBatches:
    """The batches in progress, and those that wait for a long one of their stream."""

    def __init__(self, put: Put) -> None:
        self._put = put
        self._lock = threading.Lock()
        self._long: dict[RpcCall, deque[Any]] = {}
        """By the stream: the long batch that is being taken, and those after it, which are answered after it."""

    async def take(self, batch: Any, call: RpcCall) -> None:
        """Take a batch, and answer it with the statuses of its URLs, which are stored then.

        Raises FrontierClosed if the call ends before: the rest of the batch is not stored.
        """
        with self._lock:
            waiting = self._long.get(call)
            if waiting is not None:
                waiting.append(batch)
                return
            if len(batch.items) > STEP:
                waiting = self._long[call] = deque((batch,))
        if waiting is None:
            call.reply([await self._answer(batch, call)])
        else:
            await self._take_all(waiting, call)

    async def _take_all(self, waiting: deque[Any], call: RpcCall) -> None:
        """Take batches in order until none is left."""
        try:
            while True:
                call.reply([await self._answer(waiting[0], call)])
                with self._lock:
                    waiting.popleft()
                    if not waiting:
                        del self._long[call]
                        return
        except BaseException:
            with self._lock:
                self._long.pop(call, None)
            raise

    async def _answer(self, batch: Any, call: RpcCall) -> bytes:
        reply = messages.BatchAck(ID=batch.ID)
        for start in range(0, len(batch.items), STEP):
            if start and call.ended:
                raise FrontierClosed("the call has ended")
            statuses = await self._statuses(batch.items[start : start + STEP])
            reply.statuses.extend(statuses)  # type: ignore[arg-type]
        return reply.SerializeToString()

    async def _statuses(self, infos: Sequence[Any]) -> list[int]:
        places: dict[str, list[int]] = {}
        for number, info in enumerate(infos):
            places.setdefault(info.crawlID, []).append(number)
        statuses = [engine_calls.FAIL] * len(infos)
        for crawl_id, numbers in places.items():
            found = await self._put(crawl_id, [infos[number] for number in numbers])
            for number, status in zip(numbers, found, strict=True):
                statuses[number] = status
        return statuses
