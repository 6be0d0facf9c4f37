"""Politeness delays for requests that a queue does not lease itself, such as redirects of a robots.txt."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.settings.overrides import QueueSettings

LONGEST = 300.0
"""The longest wait returned, in seconds: meanwhile the queue may be woken, or the URL fetched for another host."""

_BUSY = 1.0  # seconds to wait for a request in flight, with an unknown end
_CLOSE = 0.1  # seconds of tolerance until a lease that has to wait is back in its queue
_LATE = 1.0  # seconds that a reservation is kept after its time
_MOST_WAITING = 1000  # reservations of one queue
_FEW = 1000  # queues in memory before those with past delays are dropped


class _HostState:
    """The state of one queue that receives external requests. All times are epoch seconds."""

    __slots__ = ("deferred_until", "last_reserved", "own_turn", "reserved_until", "until", "waiting")

    def __init__(self) -> None:
        self.until = 0.0  # end of the delay after the last external request; infinite during one
        self.waiting: dict[str, float] = {}  # reserved times by URL
        self.last_reserved = 0.0  # the latest of these
        self.reserved_until = 0.0  # until when leases of the queue have to wait for the first of these
        self.own_turn = False  # whether the next request is the queue's own: the last one was external
        self.deferred_until = 0.0  # up to then, the queue's wake time results from `remaining_delay` alone


class HostDelays:
    """Politeness for external requests: requests to the host of a queue that were not leased from that queue.

    There is one request at a time, with a delay after each. The queue's own delays, which the frontier keeps, apply
    too; conversely, leases of the queue have to wait for the delays after external requests. Leases and external
    requests alternate, so that neither starves the other. The state is in memory, for queues with recent external
    requests, and is lost at a restart. `now` returns epoch seconds.
    """

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._states: dict[str, _HostState] = {}
        self._next_cleanup = _FEW

    def remaining_delay(self, key: str) -> float:
        """Return the seconds that a lease of a queue has to wait; 0.0 if it may be fetched now. O(1)."""
        state = self._states.get(key)
        if state is None:
            return 0.0
        now = self._now()
        wait = max(_remaining(state, now), 0.0 if state.own_turn else state.reserved_until - now)
        if wait <= 0.0:
            state.own_turn, state.deferred_until = False, 0.0
            return 0.0
        state.deferred_until = now + wait + _CLOSE
        return wait

    def begin(self, key: str, url: str, settings: QueueSettings, queue: QueueRecord | None) -> float:
        """Start an external request for a URL and return 0.0, or return the seconds to wait before trying again.

        `queue` is the record of the queue as of now, None if there is none. After 0.0, `end` has to be called at the
        end of the request. A wait reserves a time for the URL; different URLs get different times, one after the other.
        """
        self._drop_old()
        now = self._now()
        state = self._states.setdefault(key, _HostState())
        wait = max(_own_delay(queue, state, now), _remaining(state, now))
        if wait <= 0.0:
            state.waiting.pop(url, None)
            state.until, state.reserved_until, state.own_turn = math.inf, 0.0, True
            return 0.0
        turns = 2 if queue is not None and queue.queued else 1  # leases of the queue alternate with external requests
        when = self._reserve(state, url, now + wait, turns * settings.min_delay)
        if not now < state.reserved_until < when + _LATE:
            state.reserved_until = when + _LATE
        return min(when - now, LONGEST)

    def _reserve(self, state: _HostState, url: str, earliest: float, slot: float) -> float:
        """Return the reserved time of a URL, not before `earliest`; a new one is `slot` seconds after the last one."""
        if len(state.waiting) >= _MOST_WAITING:
            state.waiting.clear()  # many are stale, because the URL was fetched for another host
        when = state.waiting.get(url)
        when = max(earliest, state.last_reserved + slot if when is None and state.waiting else when or 0.0)
        state.waiting[url] = when
        state.last_reserved = max(state.last_reserved, when)
        return when

    def end(self, key: str, rest: float) -> None:
        """End an external request to a queue; the next request has to wait `rest` seconds."""
        self._states[key].until = self._now() + rest

    def _drop_old(self) -> None:
        if len(self._states) > self._next_cleanup:
            now = self._now()
            self._states = {
                key: state for key, state in self._states.items() if max(state.until, state.reserved_until) > now
            }
            self._next_cleanup = max(2 * len(self._states), _FEW)


def _own_delay(queue: QueueRecord | None, state: _HostState, now: float) -> float:
    if queue is None:
        return 0.0
    rest = queue.wake_time - now if queue.wake_time > state.deferred_until else 0.0
    return max(rest, _BUSY if queue.out else 0.0)


def _remaining(state: _HostState, now: float) -> float:
    return _BUSY if state.until == math.inf else max(state.until - now, 0.0)
