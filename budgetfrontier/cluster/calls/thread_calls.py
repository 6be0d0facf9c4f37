"""Calls of a synchronous client to workers, each in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import grpc

from budgetfrontier.cluster.calls.steps import Answers, Ask, LookUp, silent
from budgetfrontier.remote import RemoteFrontier
from budgetfrontier.remote.calls_in_progress import UnderWay

CANCELLED_WITHIN: Final = 1.0
"""Seconds for which a call that is cancelled is waited for: an answer that has just come counts."""


class ThreadCalls:
    """The calls and looks that one call of a client has begun, each in a thread of its own."""

    def __init__(self, remote: Callable[[str], RemoteFrontier], look: Callable[[LookUp], Any]) -> None:
        """`remote` returns the connection to an address, `look` the owners in the directory."""
        self._remote, self._look = remote, look
        self._changed = threading.Condition()
        self._under_way: dict[Ask, UnderWay] = {}

    def __repr__(self) -> str:
        return f"<ThreadCalls: {len(self._under_way)} calls>"

    def wait(self, wanted: Answers) -> None:
        """Begin the calls that are not begun, and wait until one of all has ended."""
        for each in wanted.of:
            if each.begun is None:
                work: Callable[[], Any]
                if isinstance(each, LookUp):
                    work = partial(self._look, each)
                else:
                    work = partial(self._ask, each, self._noted(each))
                each.begun = threading.Thread(target=self._do, args=(each, work), name=repr(each), daemon=True)
                each.begun.start()
        with self._changed:
            self._changed.wait_for(lambda: any(each.ended for each in wanted.of), wanted.within)

    def give_up(self, asks: Sequence[Ask]) -> None:
        """Cancel calls; those that are sent have ended then, with an answer that has just come or an error."""
        for ask in asks:
            self._under_way[ask].cancel()
        with self._changed:
            self._changed.wait_for(lambda: all(ask.ended for ask in asks), CANCELLED_WITHIN)

    def cancel_all(self) -> None:
        """Cancel all calls that have not ended."""
        for under_way in self._under_way.values():
            under_way.cancel()

    def _noted(self, ask: Ask) -> UnderWay:
        self._under_way[ask] = under_way = UnderWay()
        return under_way

    def _ask(self, ask: Ask, under_way: UnderWay) -> Any:
        remote = self._remote(ask.address)
        try:
            under_way.check()
            return remote.transport.run(ask.steps, under_way)
        except grpc.FutureCancelledError:
            raise silent(ask.address) from None

    def _do(self, each: Ask | LookUp, work: Callable[[], Any]) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = work()
        except BaseException as e:
            error = e
        with self._changed:
            each.result, each.error, each.ended = result, error, True
            self._changed.notify_all()
