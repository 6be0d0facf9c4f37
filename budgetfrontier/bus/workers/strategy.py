"""The strategy worker: reads the reports of spiders, asks a crawling strategy, and sends scores to database workers.

It has no state on disk. A step handles messages, flushes the scores, and only then commits: after a kill the messages
come again, to it or to another worker, and the scores are sent twice, which changes nothing in a frontier.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import inf
from typing import Any

import msgspec
from xxhash import xxh3_128_digest

from budgetfrontier.bus import request_meta
from budgetfrontier.bus.codecs.codec import Codec, name_of
from budgetfrontier.bus.counters import BusCounters
from budgetfrontier.bus.dead_letters import NOT_SENT, DeadLetters
from budgetfrontier.bus.interface import Bus, BusError, Received, TooLarge
from budgetfrontier.bus.messages import (
    AddSeeds,
    BadMessage,
    LinksExtracted,
    Message,
    NewJobId,
    PageCrawled,
    Request,
    RequestError,
    UpdateScore,
)
from budgetfrontier.bus.outbox import Item, Outbox
from budgetfrontier.bus.partitioning import by_host
from budgetfrontier.bus.streams import STRATEGY, Streams
from budgetfrontier.bus.workers import strategies
from budgetfrontier.bus.workers.strategies import Score
from budgetfrontier.core import uris
from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.rules.scope import Scope

BATCH = 512
"""Messages in one step."""
MOST_SCORES = 500_000
"""URLs with remembered scores: about 80 MB."""
_MOST_HOPS = 255

log = logging.getLogger("budgetfrontier.workers")


class RecentScores:
    """The best scores that were sent, by URL and method; the oldest are forgotten. Sending one again does no harm."""

    def __init__(self, limit: int = MOST_SCORES) -> None:
        self._scores: BoundedCache[bytes, float] = BoundedCache(limit)

    def __len__(self) -> int:
        return len(self._scores)

    def is_news(self, update: UpdateScore) -> bool:
        """Return whether a score has to be sent, and remember it. A mere mark as seen is below all others."""
        request = update.request
        body = request_meta.get(request.meta, request_meta.BODY, bytes) or b""
        key = xxh3_128_digest(b"%b %b %b" % (request.method, request.url.encode(), body))
        score = update.score if update.schedule else -inf
        known = self._scores.get(key)
        if known is not None and known >= score:
            return False
        self._scores.put(key, score)
        return True


class StrategyWorker:
    """A worker with a strategy: any object with some of the methods of `Strategy`."""

    def __init__(
        self,
        strategy: Any,
        bus: Bus,
        streams: Streams,
        codec: Codec,
        *,
        partitions: Iterable[int] = (),
        scope: Scope | None = None,
        job: int = 0,
        batch: int = BATCH,
        remember: int = MOST_SCORES,
    ) -> None:
        """Read `partitions` of the spider log; none given: a share of the group's.

        Links out of `scope` are dropped. `job` is the number of the job: messages of other jobs are dropped, those of
        earlier jobs by the database workers, too. Raises SettingsError if methods would not be called.
        """
        strategies.check(strategy)
        self._strategy, self._codec, self._scope, self._job, self._batch = strategy, codec, scope, job, batch
        self._streams = streams
        self._letters = DeadLetters(bus, streams.dead_letters)
        own = tuple(sorted(set(partitions)))
        self._consumer = bus.consumer(streams.spider_log, STRATEGY, partitions=own)
        self._scoring_log = Outbox(bus, streams.scoring_log, too_large=self._set_apart)
        self._received: deque[Received] = deque()
        self._handled: dict[int, int] = {}
        self._scored = RecentScores(remember)
        self._failures: set[type[Exception]] = set()
        self.counters = BusCounters("sw", own)
        if job:
            message = codec.encode(NewJobId(job))
            self._scoring_log.add((partition, message) for partition in range(streams.scoring_log.partitions))

    # -- a step

    def step(self, wait: float = 0.0) -> bool:
        """Handle messages, waiting up to `wait` seconds for the first; return whether any came.

        Raises BusAway if the bus does not answer: call it again, nothing is lost.
        """
        self.send()
        came = self.receive(wait)
        self.send()
        self.acknowledge()
        return came

    def receive(self, wait: float) -> bool:
        """Read messages and ask the strategy; return whether there are any."""
        if not self._received:
            self._received.extend(self._consumer.poll(self._batch, wait))
        came = bool(self._received)
        while self._received:
            self._handle(self._received[0])
            message = self._received.popleft()
            self._handled[message.partition] = message.offset + 1
        return came

    def send(self) -> None:
        """Send the scores. Raises BusError."""
        self._scoring_log.flush()
        self._letters.flush()

    def acknowledge(self) -> None:
        """Let the bus forget the messages that were handled. Raises BusError."""
        if self._handled:
            self._consumer.commit(self._handled)
            self._handled = {}

    def add_seeds(self, seeds: Iterable[Request]) -> None:
        """Score seeds, which are sent with the next step, and extend the scope by them."""
        self._send(self._scores_of(AddSeeds(list(seeds))))

    @property
    def is_finished(self) -> bool:
        """Whether the strategy says that the goal of the crawl is reached."""
        return self._answers("finished") and bool(self._strategy.finished())

    def close(self) -> None:
        """Close the strategy, send the waiting messages if the bus takes them at once, and leave it."""
        if self._answers("close"):
            self._strategy.close()
        try:
            self._scoring_log.flush(1.0)
            self._letters.flush(1.0)
            self.acknowledge()
        except BusError as error:
            log.warning("not all scores were sent; their messages will be handled again: %s", error)
        for part in (self._consumer, self._letters):
            with suppress(BusError):
                part.close()

    # -- messages

    def _handle(self, received: Received) -> None:
        """Pass a message to the strategy; if that fails, it becomes a dead letter."""
        for _, message in self._letters.decoded([received], self._streams.spider_log, self._codec.decode):
            self.counters[f"consumed_{name_of(message)}"] += 1
            try:
                scores = list(self._scores_of(message))
            except Exception as error:  # the strategy is the user's
                if type(error) not in self._failures:  # each has a dead letter
                    self._failures.add(type(error))
                    log.exception(
                        "the strategy failed on a message %s, which is among the dead letters", name_of(message)
                    )
                reason = f"the strategy failed: {type(error).__name__}: {error}"
                self._letters.reject(received, self._streams.spider_log, reason)
            else:
                self._send(scores)

    def _send(self, scores: Iterable[UpdateScore]) -> None:
        for update in scores:
            if update.request.meta.get(request_meta.FORCE) is not True and not self._scored.is_news(update):
                continue
            partition = by_host(update.request.url, self._streams.scoring_log.partitions)
            try:
                self._scoring_log.add([(partition, self._codec.encode(update))])
            except BadMessage as error:
                log.error("a score for %.200s cannot be sent: %s", update.request.url, error)
            else:
                self.counters["pushed_scores"] += 1

    def _set_apart(self, score: TooLarge) -> list[Item]:
        partition, data, reason = score
        self._letters.reject(Received(partition, NOT_SENT, data), self._streams.scoring_log, reason)
        self.counters["dropped_too_large"] += 1
        return []

    def _scores_of(self, message: Message) -> Iterator[UpdateScore]:
        """Yield the scores of the strategy for a message. Raises the strategy's errors."""
        scores: Iterable[Score] | None = ()
        match message:
            case AddSeeds(seeds):
                if self._scope is not None:
                    self._scope.add_seeds(seed.url for seed in seeds)
                scores = self._asked("add_seeds", seeds) if self._answers("add_seeds") else map(Score, seeds)
            case LinksExtracted(request, links) if self._is_current(request):
                if found := self._links(request, links):
                    scores = self._asked("links_extracted", request, found)
            case PageCrawled(response) if response.request is not None and self._is_current(response.request):
                scores = self._asked("page_crawled", response)
            case RequestError(request, error) if self._is_current(request):
                scores = self._asked("request_error", request, error)
        for request, score, schedule in scores or ():
            meta = request_meta.without(request)
            meta[request_meta.JOB] = self._job
            yield UpdateScore(msgspec.structs.replace(request, meta=meta), score, schedule)

    def _links(self, request: Request, links: list[Request]) -> list[Request]:
        """Return the links in scope that the strategy wants, with their page, depth and source."""
        of_page: dict[Any, Any] = {
            request_meta.DEPTH: request_meta.depth_of(request.meta) + 1,
            request_meta.VIA: request.url,
        }
        if (source := request_meta.get(request.meta, request_meta.SOURCE, str)) is not None:
            of_page[request_meta.SOURCE] = source
        found = []
        for link in links:
            meta = of_page | dict(link.meta)
            if self._scope is None or _is_within(self._scope, link.url, meta):
                found.append(msgspec.structs.replace(link, meta=meta))
        self.counters["dropped_links_out_of_scope"] += len(links) - len(found)
        return list(self._strategy.filter_links(request, found)) if self._answers("filter_links") else found

    def _is_current(self, request: Request) -> bool:
        current = request_meta.job_of(request.meta) == self._job
        self.counters["dropped_of_another_job"] += not current
        return current

    def _answers(self, name: str) -> bool:
        return callable(getattr(self._strategy, name, None))

    def _asked(self, name: str, *about: object) -> Iterable[Score] | None:
        answer: Iterable[Score] | None = getattr(self._strategy, name)(*about) if self._answers(name) else None
        return answer


def _is_within(scope: Scope, url: str, meta: dict[Any, Any]) -> bool:
    try:
        uri = CrawlUri(uris.parse(url), hops="L" * min(request_meta.depth_of(meta), _MOST_HOPS))
    except InvalidUrl:
        return False
    return scope.objection(uri) is None
