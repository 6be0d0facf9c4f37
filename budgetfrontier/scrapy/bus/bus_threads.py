"""The two threads of a spider at a message bus: one reads its feed ahead, the other sends its reports.

The event loop of Scrapy never waits for them. Each has a connection of its own, and waits for a bus that is away.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from functools import partial
from time import monotonic, sleep, time
from typing import NamedTuple

from budgetfrontier.bus import request_meta
from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.counters import StatisticsSender
from budgetfrontier.bus.dead_letters import NOT_SENT, DeadLetters
from budgetfrontier.bus.interface import Bus, BusAway, BusError, Consumer, Received, TooLarge
from budgetfrontier.bus.messages import Request
from budgetfrontier.bus.outbox import Item, Outbox
from budgetfrontier.bus.shortening import shortened_bytes
from budgetfrontier.bus.streams import SPIDERS, Streams
from budgetfrontier.core.bounded_cache import BoundedCache

POLL_WAIT = 0.2
"""Seconds that a poll of the feed takes at the most."""
KEEP_ALIVE = 5.0
"""Seconds after which the feed is polled though there is no room, so that this consumer is not taken for dead."""
PAUSE = 0.5
"""Seconds before a bus is asked again that did not answer."""
RECENT = 10_000
"""Leases that are remembered, so that a request that is delivered twice is fetched once."""
MOST = 1000
"""Messages sent together."""

Connect = Callable[[], Bus]

log = logging.getLogger(__name__)


class _BusThread:
    """A thread with a connection to the bus."""

    def __init__(self, name: str, connect: Connect, work: Callable[[Bus], None], wake: Callable[[], None]) -> None:
        """Prepare to do `work`; `wake` is called, in the thread, when that has failed."""
        self.changed = threading.Condition()
        self.stopping = False
        self.away: BusAway | None = None
        """The reason why the bus does not answer; None if it does."""
        self.failed: Exception | None = None
        """The error that has ended the work before it was to stop."""
        self._connect, self._work, self._wake = connect, work, wake
        self._thread = threading.Thread(target=self._run, name=f"budgetfrontier {name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, within: float) -> bool:
        """Let the work end; return whether it has within so many seconds."""
        with self.changed:
            self.stopping = True
            self.changed.notify_all()
        self._thread.join(within)
        return not self._thread.is_alive()

    def answered(self, call: Callable[[], object]) -> bool:
        """Call the bus once; return False, after a pause, if it does not answer. Raises BusError if it refuses."""
        try:
            call()
        except BusAway as error:
            if self.away is None:
                log.warning("Waiting for the message bus: %s", error)
            self.away = error
            sleep(PAUSE)
            return False
        if self.away is not None:
            log.info("The message bus answers again")
            self.away = None
        return True

    def _run(self) -> None:
        try:
            with closing(self._connect()) as bus:
                self._work(bus)
        except Exception as error:
            self.failed = error
            self._wake()


class Fed(NamedTuple):
    """A request of the feed."""

    request: Request
    lease: tuple[bytes, int]
    """The frontier, and the id that it has given the lease."""
    partition: int
    offset: int


class FeedReader:
    """The reader of the spider feed: up to `prefetch` requests wait in this process.

    Requests the spider has taken are committed; what still waits here when the process ends goes to another spider. A
    request that was taken and whose result is never reported is delivered again when its lease expires.
    """

    def __init__(
        self,
        connect: Connect,
        streams: Streams,
        codec: Codec,
        *,
        partitions: tuple[int, ...],
        prefetch: int,
        wake: Callable[[], None],
    ) -> None:
        """Begin to read. `wake` is called, in the thread, when there is something to take."""
        self._streams, self._codec, self._partitions = streams, codec, partitions
        self._prefetch, self._wake = prefetch, wake
        self._ready: deque[Fed] = deque()
        self._taken: dict[int, int] = {}
        self._known: BoundedCache[tuple[bytes, int], None] = BoundedCache(RECENT)
        self.expired = self.twice = 0
        """Requests that were dropped: their leases had expired, or they were delivered before."""
        self._thread = _BusThread("feed", connect, self._work, wake)
        self._thread.start()

    @property
    def ready(self) -> int:
        """The number of requests that wait here."""
        return len(self._ready)

    @property
    def failed(self) -> Exception | None:
        """The error that has ended the reading."""
        return self._thread.failed

    @property
    def away(self) -> bool:
        """Whether the bus does not answer."""
        return self._thread.away is not None

    def take(self) -> Fed | None:
        """Return the next request whose lease has not expired; None if there is none. Never waits."""
        with self._thread.changed:
            while self._ready:
                fed = self._ready.popleft()
                self._taken[fed.partition] = fed.offset + 1
                if len(self._ready) <= self._prefetch // 2:
                    self._thread.changed.notify_all()
                if fed.lease in self._known:
                    self.twice += 1
                elif (request_meta.get(fed.request.meta, request_meta.EXPIRES, float) or 0.0) <= time():
                    self.expired += 1
                else:
                    self._known.put(fed.lease, None)
                    return fed
        return None

    def close(self, within: float) -> bool:
        """Commit the requests taken, and leave; return whether that is done within so many seconds."""
        return self._thread.stop(within)

    def _work(self, bus: Bus) -> None:
        thread, committed = self._thread, dict[int, int]()
        letters = DeadLetters(bus, self._streams.dead_letters)
        consumer = bus.consumer(self._streams.spider_feed, SPIDERS, partitions=self._partitions)
        polled = 0.0
        while True:
            with thread.changed:
                if len(self._ready) >= self._prefetch and not thread.stopping:
                    thread.changed.wait(POLL_WAIT)
                room, taken, stopping = self._prefetch - len(self._ready), dict(self._taken), thread.stopping
            if taken != committed and thread.answered(partial(consumer.commit, taken)):
                committed = taken
            if stopping:
                break
            if room > 0 or monotonic() - polled > KEEP_ALIVE:
                polled = monotonic()
                thread.answered(partial(self._poll, consumer, letters, max(1, room)))
        with suppress(BusError):
            letters.close()
            consumer.close()

    def _poll(self, consumer: Consumer, letters: DeadLetters, room: int) -> None:
        """Fetch up to `room` requests. Raises BusError."""
        received = consumer.poll(room, POLL_WAIT)
        mine = consumer.partitions
        found = []
        for message, request in letters.decoded(received, self._streams.spider_feed, self._codec.decode_request):
            lease = request_meta.lease_of(request.meta)
            if lease is None:
                letters.reject(message, self._streams.spider_feed, "a request without a lease")
            else:
                found.append(Fed(request, lease, message.partition, message.offset))
        with self._thread.changed:
            # What waits of a partition that has gone to another spider is delivered to that one.
            kept = [fed for fed in self._ready if fed.partition in mine]
            self._ready.clear()
            self._ready.extend(kept + found)
        if found:
            self._wake()
        letters.flush()


class LogSender:
    """The sender of a spider's reports: messages in order, each until the broker has it."""

    def __init__(self, connect: Connect, streams: Streams, codec: Codec, *, wake: Callable[[], None]) -> None:
        """Begin to send."""
        self._streams, self._codec = streams, codec
        self._waiting: deque[Item] = deque()
        self._statistics: bytes | None = None
        self._sending = 0
        self._thread = _BusThread("log", connect, self._work, wake)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of messages that the broker does not have yet."""
        return len(self._waiting) + self._sending

    @property
    def away(self) -> bool:
        """Whether the bus does not answer."""
        return self._thread.away is not None

    @property
    def failed(self) -> Exception | None:
        """The error that has ended the sending."""
        return self._thread.failed

    def send(self, messages: Iterable[Item]) -> None:
        """Send messages to the spider log, each to its partition."""
        with self._thread.changed:
            self._waiting.extend(messages)
            self._thread.changed.notify_all()

    def tell(self, statistics: bytes) -> None:
        """Send a message of statistics, in place of one that could not be sent yet."""
        with self._thread.changed:
            self._statistics = statistics
            self._thread.changed.notify_all()

    def close(self, within: float) -> bool:
        """Send all reports that wait; return whether that is done within so many seconds."""
        return self._thread.stop(within) and not self.waiting

    def _work(self, bus: Bus) -> None:
        thread = self._thread
        letters = DeadLetters(bus, self._streams.dead_letters)

        def shorter(message: TooLarge) -> list[Item]:
            """Make a dead letter of a message; return what can be sent of it: a result must end its lease."""
            partition, data, reason = message
            letters.reject(Received(partition, NOT_SENT, data), self._streams.spider_log, reason)
            short = shortened_bytes(data, self._codec)
            return [] if short is None else [(partition, short)]

        outbox = Outbox(bus, self._streams.spider_log, too_large=shorter)
        statistics = StatisticsSender(bus.producer(self._streams.statistics))
        while True:
            with thread.changed:
                while not (self._waiting or self._statistics or thread.stopping):
                    thread.changed.wait()
                if thread.stopping and not self._waiting:
                    break
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST))]
                self._sending = len(batch)
                told, self._statistics = self._statistics, None
            outbox.add(batch)
            for flush in (outbox.flush, letters.flush):
                while not thread.answered(flush):
                    pass
            self._sending = 0
            if told is not None:
                statistics.send(told)
        with suppress(BusError):
            outbox.close(1.0)
            letters.close()
