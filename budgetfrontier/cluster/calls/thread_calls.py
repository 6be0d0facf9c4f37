"""Calls of a synchronous client to workers, each in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
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
        self._under_way: list[UnderWay] = []

    def __repr__(self) -> str:
        return f"<ThreadCalls: {len(self._under_way)} calls and looks>"

    def wait(self, wanted: Answers) -> None:
        """Begin the calls that are not begun, and wait until one of all has ended."""
        for each in wanted.of:
            if each.begun is None:
                each.begun = UnderWay()
                self._under_way.append(each.begun)
                threading.Thread(target=self._do, args=(each,), name=repr(each), daemon=True).start()
        with self._changed:
            self._changed.wait_for(lambda: any(each.ended for each in wanted.of), wanted.within)

    def give_up(self, asks: Sequence[Ask]) -> None:
        """Cancel calls; those that are sent have ended then, with an answer that has just come or an error."""
        for ask in asks:
            ask.begun.cancel()
        with self._changed:
            self._changed.wait_for(lambda: all(ask.ended for ask in asks), CANCELLED_WITHIN)

    def cancel_all(self) -> None:
        """Cancel all calls that have not ended."""
        for under_way in self._under_way:
            under_way.cancel()

    def _do(self, each: Ask | LookUp) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = self._look(each) if isinstance(each, LookUp) else self._asked(each)
        except BaseException as e:
            error = e
        with self._changed:
            each.result, each.error, each.ended = result, error, True
            self._changed.notify_all()

    def _asked(self, ask: Ask) -> Any:
        remote = self._remote(ask.address)
        try:
            ask.begun.check()
            return remote.transport.run(ask.steps, ask.begun)
        except grpc.FutureCancelledError:
            raise silent(ask.address) from None
