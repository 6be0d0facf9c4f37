"""Calls that are under way: another thread may cancel them, and their own may not begin another."""

from __future__ import annotations

from threading import local
from typing import Any

import grpc


class ThisThread(local):
    """Whether a client is in the middle of a call in the current thread."""

    is_busy = False


class UnderWay:
    """The RPCs under way of some calls. `cancel` ends them with FutureCancelledError, and those that come later."""

    def __init__(self) -> None:
        self._begun: set[Any] = set()
        self._is_cancelled = False

    def result(self, begun: Any) -> Any:
        """Return the result of an RPC once it is there. Raises its error."""
        self._begun.add(begun)
        if self._is_cancelled:
            begun.cancel()
        try:
            return begun.result()
        finally:
            self._begun.discard(begun)

    def check(self) -> None:
        """Raise FutureCancelledError if the calls were cancelled."""
        if self._is_cancelled:
            raise grpc.FutureCancelledError

    def cancel(self) -> None:
        """End all, in any thread."""
        self._is_cancelled = True
        for begun in list(self._begun):
            begun.cancel()
