"""The database worker: a frontier between the logs of spiders and strategy workers, and the spider feed.

A step reads messages, applies them, leases URIs for the room in the feed, and stores all of it in one transaction of
the frontier, with the offsets of the messages and the requests to send (`note`). Then it sends the requests, and lets
the bus forget the messages. So, whenever the worker is killed:

- before the transaction, nothing has happened: the messages are read again;
- between the transaction and the sending, the requests are in the note: they are sent when the worker is started again;
- between the sending and the next transaction, the note still has them: they are sent twice, under the same leases. A
  spider drops the second; if another spider fetches it, its result comes under a lease that has ended, and is dropped.

Leases outlive the worker. A lease lost with a spider expires, and its URI is leased again under another id; later
reports under the old id are dropped. So each attempt is charged once, even if messages are delivered twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum
from itertools import groupby

import msgspec

from budgetfrontier.bus import request_meta
from budgetfrontier.bus.codecs.codec import Codec, name_of
from budgetfrontier.bus.counters import BusCounters
from budgetfrontier.bus.dead_letters import NOT_SENT, DeadLetters
from budgetfrontier.bus.interface import Bus, BusError, Received, TooLarge
from budgetfrontier.bus.messages import BadMessage, Message, NewJobId, PageCrawled, RequestError, UpdateScore
from budgetfrontier.bus.outbox import Item
from budgetfrontier.bus.partitioning import by_host
from budgetfrontier.bus.streams import DATABASE, Streams
from budgetfrontier.bus.workers import note
from budgetfrontier.bus.workers.feed import Feed
from budgetfrontier.bus.workers.log_reader import LogReader
from budgetfrontier.bus.workers.results import LONGEST_REASON, dead, ending_of, meta_of
from budgetfrontier.bus.workers.uri_conversion import request_of, uri_of
from budgetfrontier.clock import Clock, WallClock
from budgetfrontier.core.model import CrawlUri, Finish, Outcome
from budgetfrontier.engine.bulk_finish import end_leases, is_closed
from budgetfrontier.engine.capacity import Result, admit_each
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import LeaseExpired, PolicyError
from budgetfrontier.rules.crawl_states import MORE_TO_CRAWL, goes_on_after_finish

MAX_NEXT_REQUESTS = 64
"""Requests in a partition of the feed that no spider has taken, from which on no more are sent to it."""
BATCH = 512
"""Messages of a log in one step."""
ASIDE = 5.0
"""Seconds for which a queue is set aside if its partition of the feed is full, so that others have their turn."""

log = logging.getLogger("budgetfrontier.workers")


class _ScoredRequest(msgspec.Struct):
    """A message of the scoring log, with the URI that it is about."""

    message: Message
    uri: CrawlUri | None


class _RequestKind(Enum):
    SCHEDULE, SEEN, JOB, OTHER = range(4)


def _kind(score: _ScoredRequest) -> _RequestKind:
    if isinstance(score.message, UpdateScore):
        return _RequestKind.SCHEDULE if score.message.schedule else _RequestKind.SEEN
    return _RequestKind.JOB if isinstance(score.message, NewJobId) else _RequestKind.OTHER


class DatabaseWorker:
    """A worker on a frontier, which it does not close; open it with `keep_leases`."""

    def __init__(
        self,
        frontier: Frontier,
        bus: Bus,
        streams: Streams,
        codec: Codec,
        *,
        partitions: Iterable[int] = (),
        max_next_requests: int = MAX_NEXT_REQUESTS,
        batch: int = BATCH,
        clock: Clock | None = None,
    ) -> None:
        """Take the hosts in `partitions` of the spider log (none given: all of them), always the same for a frontier.

        Raises FrontierError if the frontier has the hosts of other partitions, or the messages of another crawl.
        """
        self._note = note.opened(frontier.note, streams.spider_log, partitions)
        own = self._note.partitions
        self._frontier, self._codec, self._batch = frontier, codec, batch
        self._clock = clock or WallClock()
        self._letters = DeadLetters(bus, streams.dead_letters)
        self._spider_log = LogReader[Message](
            bus, streams.spider_log, DATABASE,
            letters=self._letters, decode=codec.decode, partitions=own, offsets=self._note.spider_log,
            log_id=self._note.spider_log_id,
        )  # fmt: skip
        self._scoring_log = LogReader[_ScoredRequest](
            bus, streams.scoring_log, DATABASE,
            letters=self._letters, decode=self._decode_score, partitions=own, offsets=self._note.scoring_log,
            log_id=self._note.scoring_log_id,
        )  # fmt: skip
        self._feed = Feed(bus, streams.spider_feed, max_next_requests, self._clock.time, too_large=self._set_apart)
        self._spider_feed = streams.spider_feed
        self._dead: list[Finish] = []
        """The ends of leases whose requests the feed does not take."""
        self._to_send: list[Item] = list(self._note.unsent)
        self._job = self._note.job
        self._room: list[int] = []
        self.counters = BusCounters("dbw", own)

    # -- a step

    def step(self, wait: float = 0.0) -> bool:
        """Read messages, waiting up to `wait` seconds for the first, and process them; return whether any came.

        Raises BusAway if the bus does not answer: call it again, nothing is lost. Other errors end the worker; a new
        one continues from the frontier on disk.
        """
        self.send()
        came = self.receive(wait)
        self.apply()
        self.send()
        self.acknowledge()
        return came

    def receive(self, wait: float) -> bool:
        """Read messages, and look how much room the feed has; return whether there are any."""
        spider_log = self._spider_log.read(self._batch, wait)
        scoring_log = self._scoring_log.read(self._batch, 0.0)
        self._room = self._feed.room()
        return bool(spider_log or scoring_log)

    def apply(self) -> None:
        """Apply the messages that were read, and lease for the feed, in one transaction. Asks nothing of the bus."""
        if not (self._spider_log.is_ahead or self._scoring_log.is_ahead or self._dead or self._may_lease()):
            if self._note.unsent:  # they were sent
                self._store_sent()
            self._frontier.commit()  # which applies commands of other processes
            if goes_on_after_finish(self._frontier.summary()):
                self._frontier.resume(reason=MORE_TO_CRAWL)
            return
        with self._frontier.atomic() as batch:
            for kind, group in groupby(self._scoring_log.messages, _kind):
                self._apply_scores(kind, list(group))
            self._end_leases(self._spider_log.messages)
            self._end(self._dead)
            unsent = self._lease() if self._may_lease() else []
            new = msgspec.structs.replace(
                self._note,
                job=self._job,
                spider_log=dict(self._spider_log.next_offsets),
                scoring_log=dict(self._scoring_log.next_offsets),
                spider_log_id=self._spider_log.next_log_id,
                scoring_log_id=self._scoring_log.next_log_id,
                unsent=unsent,
            )
            batch.note = note.encode(new)
        self._note, self._to_send, self._dead = new, unsent, []
        self._spider_log.applied()
        self._scoring_log.applied()

    def send(self) -> None:
        """Send the leased requests. Raises BusError."""
        sent, self._to_send = self._to_send, []
        self._feed.send(sent)
        self.counters["pushed_requests"] += len(sent)

    def acknowledge(self) -> None:
        """Let the bus forget the messages that were applied. Raises BusError."""
        self._spider_log.commit()
        self._scoring_log.commit()

    @property
    def is_finished(self) -> bool:
        """False: there may be more scores at any time."""
        return False

    def close(self) -> None:
        """Send waiting messages, if the bus takes them at once, and leave it. The note has the rest."""
        try:
            self._feed.close()
        except BusError as error:
            log.warning("not everything was sent, and will be when the worker is started again: %s", error)
        else:
            if self._note.unsent and not self._to_send and not is_closed(self._frontier):
                self._store_sent()
        for part in (self._spider_log, self._scoring_log, self._letters):
            with suppress(BusError):
                part.close()

    # -- scores

    def _decode_score(self, data: bytes) -> _ScoredRequest:
        message = self._codec.decode(data)
        return _ScoredRequest(message, uri_of(message) if isinstance(message, UpdateScore) else None)

    def _apply_scores(self, kind: _RequestKind, scores: list[_ScoredRequest]) -> None:
        """Apply messages of one kind."""
        if kind is _RequestKind.JOB:
            for score in scores:
                if isinstance(score.message, NewJobId) and score.message.job_id > self._job:
                    self._job = score.message.job_id
                    log.info("this is job %d from now on", self._job)
            return
        if kind is _RequestKind.OTHER:
            self.counters["dropped_of_another_kind"] += len(scores)
            return
        current = [score.uri for score in scores if score.uri is not None and self._is_current(score.message)]
        self.counters["dropped_of_a_job_before"] += len(scores) - len(current)
        if kind is _RequestKind.SCHEDULE:
            for result in admit_each(self._frontier, list(current)):
                self._count_admission(result)
        else:
            self._mark_seen(current)

    def _count_admission(self, result: Result) -> None:
        if isinstance(result, PolicyError):
            self.counters["dropped_by_policy_errors"] += 1
            log.error("not scheduled: %s", result)
        else:
            self.counters[f"consumed_{result.lower()}"] += 1

    def _is_current(self, message: Message) -> bool:
        assert isinstance(message, UpdateScore)
        job = request_meta.get(message.request.meta, request_meta.JOB, int)
        return job is None or job == self._job

    # -- results

    def _end_leases(self, messages: Iterable[Message]) -> None:
        """End the leases of results; mark URLs fetched without a lease as seen."""
        retries = self._frontier.settings.frontier.retry.max_retries > 0
        endings: list[Finish] = []
        unleased: list[CrawlUri] = []
        for message in messages:
            self.counters[f"consumed_{name_of(message)}"] += 1
            if not isinstance(message, PageCrawled | RequestError):
                continue
            meta = meta_of(message)
            leased = request_meta.lease_of(meta)
            if leased is None:
                if isinstance(message, PageCrawled):
                    unleased.append(CrawlUri(message.response.url))
            elif request_meta.job_of(meta) != self._job:
                self.counters["dropped_of_a_job_before"] += 1
            elif leased[0] != self._note.frontier:
                self.counters["dropped_late"] += 1
            else:
                endings.append(ending_of(message, leased[1], retries=retries))
        self._end(endings)
        self._mark_seen(unleased, charge=True)

    def _end(self, endings: list[Finish]) -> None:
        if not endings:
            return
        for lease, error in end_leases(self._frontier, endings, self._clock.time()):
            if isinstance(error, LeaseExpired):
                self.counters["dropped_late"] += 1
            else:
                self.counters["dropped_by_policy_errors"] += 1
                log.error("lease %d cannot be ended, and will expire: %s", lease.id, error)

    def _mark_seen(self, uris: list[CrawlUri], *, charge: bool = False) -> None:
        """Mark URIs as seen: all together, or if a policy fails, each that can be."""
        try:
            self.counters["consumed_seen"] += self._frontier.mark_seen(uris, charge=charge).added if uris else 0
        except PolicyError as error:
            if len(uris) > 1:
                for uri in uris:
                    self._mark_seen([uri], charge=charge)
                return
            self.counters["dropped_by_policy_errors"] += 1
            log.error("not marked as seen: %s", error)

    # -- the feed

    def _may_lease(self) -> bool:
        return any(self._room) and self._frontier.next_ready_in() == 0.0

    def _lease(self) -> list[Item]:
        """Lease URIs for the room in the feed; return the requests, each with its partition."""
        room, requests, ended = list(self._room), [], list[Finish]()
        try:
            leases = self._frontier.lease(sum(room))
        except PolicyError as error:
            log.error("nothing can be leased: %s", error)
            return []
        for lease in leases:
            partition = by_host(lease.uri.url, self._feed.partitions)
            if not room[partition]:
                ended.append(Finish(lease, Outcome.DEFERRED, delay=ASIDE))
                continue
            try:
                request = self._codec.encode(request_of(lease, self._note.frontier, self._job))
            except BadMessage as error:
                ended.append(Finish(lease, Outcome.DEAD, reason=str(error)[:LONGEST_REASON]))
                continue
            room[partition] -= 1
            requests.append((partition, request))
        self._end(ended)
        return requests

    def _set_apart(self, request: TooLarge) -> list[Item]:
        partition, data, reason = request
        self._letters.reject(Received(partition, NOT_SENT, data), self._spider_feed, reason)
        self.counters["dropped_too_large"] += 1
        with suppress(BadMessage):  # a lease without a message expires
            if (leased := request_meta.lease_of(self._codec.decode_request(data).meta)) is not None:
                self._dead.append(dead(leased[1], f"too large for the spider feed: {reason}"))
        return []

    # -- the note

    def _store_sent(self) -> None:
        self._note = msgspec.structs.replace(self._note, unsent=[])
        with self._frontier.atomic(note=note.encode(self._note)):
            pass
