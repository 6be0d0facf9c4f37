"""Delays between requests to a host outside its queue's turn, such as the redirects of a robots.txt."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from budgetfrontier import uris
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.model import CrawlUri, Lease, QueueRecord
from budgetfrontier.settings.overrides import QueueSettings

LONGEST = 300.0
"""Seconds after which one who waits looks again: somebody may have woken the queue, or have asked for the same."""

_BUSY = 1.0  # seconds, when nobody knows how long
_CLOSE = 0.1  # seconds that may pass until one that was told to wait does
_LATE = 1.0  # seconds that an appointment is kept for who comes late
_MOST_WAITING = 1000  # appointments of one queue
_FEW = 1000  # places after which those are forgotten that have rested


class _Host:
    """A queue that is asked outside its turn: until when it rests, who waits, and whose turn is next."""

    __slots__ = ("kept", "last", "own_turn", "put_back", "until", "waiting")

    def __init__(self) -> None:
        self.until = 0.0  # infinite while it is being asked
        self.waiting: dict[str, float] = {}  # appointments by URL
        self.last = 0.0  # the last of these
        self.kept = 0.0  # until when the queue is kept free for the first of these
        self.own_turn = False  # as it was asked last by somebody else
        self.put_back = 0.0  # until when it waits for no other reason than this one


class HostDelays:
    """The politeness of queues that are asked outside their turn: one request at a time, and a rest after each.

    Their own rests, which the frontier keeps, count too; and while one of these lasts, what is leased from the queue
    has to wait. Who waits for a queue and what is leased from it take turns, so that neither keeps the other out. In
    memory, for the queues that were asked of late; a restart forgets it. `now` tells epoch seconds.
    """

    def __init__(self, frontier: Frontier, *, now: Callable[[], float] = time.time) -> None:
        self._frontier, self._now = frontier, now
        self._places: dict[str, _Host] = {}
        self._many = _FEW

    def queue_of(self, uri: CrawlUri) -> str:
        """Return the key of the queue whose politeness counts for a URI."""
        try:
            return self._frontier.queue_key(uri)
        except ValueError:  # such a URI could not be queued, but may be asked for
            return uris.authority(uri.url)

    def rest_left(self, key: str) -> float:
        """Return the seconds that what was leased from a queue has to wait; 0.0: it is its turn. O(1)."""
        place = self._places.get(key)
        if place is None:
            return 0.0
        now = self._now()
        wait = max(_left(place, now), 0.0 if place.own_turn else place.kept - now)
        if wait <= 0.0:
            place.own_turn, place.put_back = False, 0.0
            return 0.0
        place.put_back = now + wait + _CLOSE
        return wait

    def ask(self, key: str, url: str, settings: QueueSettings) -> float:
        """Return 0.0 if a URL of a queue may be asked for now, which `asked` then has to end; else seconds to wait.

        Those who wait for different URLs get appointments one after the other.
        """
        self._forget()
        now = self._now()
        place = self._places.setdefault(key, _Host())
        queue = self._frontier.queue(key)
        wait = max(_own_rest(queue, place, now), _left(place, now))
        if wait <= 0.0:
            place.waiting.pop(url, None)
            place.until, place.kept, place.own_turn = math.inf, 0.0, True
            return 0.0
        turns = 2 if queue is not None and queue.queued else 1  # its own URIs have theirs in between
        when = self._appointment(place, url, now + wait, turns * settings.min_delay)
        if not now < place.kept < when + _LATE:
            place.kept = when + _LATE
        return min(when - now, LONGEST)

    def _appointment(self, place: _Host, url: str, earliest: float, slot: float) -> float:
        """Return when to come back: who comes for the first time, or for another URL than all others, comes last."""
        if len(place.waiting) >= _MOST_WAITING:
            place.waiting.clear()  # many never come back, as somebody else has asked for the same
        when = place.waiting.get(url)
        when = max(earliest, place.last + slot if when is None and place.waiting else when or 0.0)
        place.waiting[url] = when
        place.last = max(place.last, when)
        return when

    def asked(self, key: str, rest: float) -> None:
        """Let a queue rest, after it was asked."""
        self._places[key].until = self._now() + rest

    def settings_for(self, lease: Lease, uri: CrawlUri, key: str) -> QueueSettings:
        """Return the settings in force for a URI on a queue."""
        return self._frontier.settings_for(Lease(lease.id, key, uri, 0, 0.0, 1))

    def _forget(self) -> None:
        if len(self._places) > self._many:
            now = self._now()
            self._places = {key: place for key, place in self._places.items() if max(place.until, place.kept) > now}
            self._many = max(2 * len(self._places), _FEW)


def _own_rest(queue: QueueRecord | None, place: _Host, now: float) -> float:
    if queue is None:
        return 0.0
    rest = queue.wake_time - now if queue.wake_time > place.put_back else 0.0
    return max(rest, _BUSY if queue.out else 0.0)


def _left(place: _Host, now: float) -> float:
    return _BUSY if place.until == math.inf else max(place.until - now, 0.0)
