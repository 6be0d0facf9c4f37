"""An at-least-once queue of URIs with leases, with the method names of kumo's Frontier: a thin layer on `Frontier`.

It is synchronous and, like a frontier, belongs to one thread. That thread passes URLs and lease ids to consumers in
other threads or processes, which report back by id.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from budgetfrontier.clock import Clock
from budgetfrontier.core import protocol
from budgetfrontier.core.model import Admission, CrawlUri, DeadLetter, Finish, Lease, Outcome, RunEnd
from budgetfrontier.engine import arguments
from budgetfrontier.engine.api import SyncFrontier
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.engine.runs import this_program
from budgetfrontier.errors import FrontierError, LeaseExpired, WrongType
from budgetfrontier.settings import Settings, as_settings
from budgetfrontier.settings.schema import CanonicalizationSettings, FrontierSettings, PolitenessSettings
from budgetfrontier.storage.reader import Reader

LONGEST_ID = 20  # digits of a 64-bit number
IN_FLIGHT = 8  # URIs of one queue that may be leased at a time, unless the settings say otherwise

NO_DELAYS = PolitenessSettings(delay_factor=0.0, min_delay=0.0, max_delay=0.0, per_queue_concurrency=IN_FLIGHT)

AS_WRITTEN = CanonicalizationSettings(
    strip_userinfo=False, strip_www=False, strip_session_ids=False, strip_tracking=False
)
"""Canonicalization that ignores only the order of query arguments, as the fingerprints of kumo and Scrapy do.

A consumer that follows a redirect by adding its target needs the two URLs to differ: from www.e.test to e.test, say.
"""


class Reason(StrEnum):
    """Common reasons for dead letters; any other text is allowed, too."""

    RETRY_EXHAUSTED = "retry_exhausted"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of a LeaseQueue."""

    dir: Path
    queued: int
    """URIs that may be leased; those of RETIRED and INELIGIBLE queues are not counted."""
    delayed: int
    """URIs scheduled for later."""
    leased: int
    dead_letters: int
    seen: int
    """Canonical forms known to deduplication."""
    flush_every: int
    """Operations after which the queue flushes by itself: the setting `frontier.commit_operations`."""


def open_frontier(
    path: str | os.PathLike[str],
    settings: Settings | dict[str, Any] | None = None,
    *,
    clock: Clock | None = None,
    hooks: Sequence[object] = (),
    keep_leases: bool = False,
    canonicalization: CanonicalizationSettings = AS_WRITTEN,
    program: str | None = None,
) -> Frontier:
    """Open a frontier like `Frontier.open`, but with other defaults.

    Without settings a new frontier has no politeness delays, and leases up to IN_FLIGHT URIs of a queue at a time: the
    calling program may have delays of its own. If `canonicalization` in the settings is at its default, the one that
    the frontier was created with applies, or for a new frontier the argument `canonicalization`.
    """
    settings, folder = as_settings(settings), arguments.folder(path)
    open_with = partial(Frontier.open, path, clock=clock, hooks=hooks, keep_leases=keep_leases, program=program)
    exists = folder is not None and (folder / "data.mdb").exists()
    if settings is None and exists:
        return open_with(None)
    effective = settings or Settings(frontier=FrontierSettings(politeness=NO_DELAYS))
    if effective.frontier.canonicalization != CanonicalizationSettings():
        return open_with(effective)
    if exists:
        canonicalization = _stored_canonicalization(path) or canonicalization
    frontier = msgspec.structs.replace(effective.frontier, canonicalization=canonicalization)
    return open_with(msgspec.structs.replace(effective, frontier=frontier))


def _stored_canonicalization(path: str | os.PathLike[str]) -> CanonicalizationSettings | None:
    """Return the canonicalization of the frontier in a folder; None if it cannot be read, which opening will report."""
    with suppress(FrontierError), Reader(path) as reader:
        return reader.settings.frontier.canonicalization
    return None


class LeaseQueue:
    """A queue of URIs, each handed out under a lease and removed only when the lease is acknowledged.

    Create it with `LeaseQueue.open`. Methods take a Lease or its id. A lease that has ended cannot be ended again:
    `ack_lease` and the other methods then change nothing and return False, and `ack_many` returns it, so that a slow
    consumer does not affect the one that holds the URI now. An id may be text, such as "7" from a message; anything
    that is neither a Lease nor an integer is a TypeError, and so is a reason that is not text; a number of more than 64
    bits is a ValueError. `frontier` gives access to everything else: budgets, pausing, and reports
    unless it is shared, and no `Frontier`.
    """

    def __init__(self, frontier: SyncFrontier, folder: Path = Path(":memory:")) -> None:
        if not hasattr(frontier, "finish_many"):
            raise arguments.not_opened(frontier, "LeaseQueue")
        self.frontier = frontier
        self._dir = folder

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        settings: Settings | dict[str, Any] | None = None,
        *,
        clock: Clock | None = None,
        hooks: Sequence[object] = (),
        keep_leases: bool = False,
    ) -> Self:
        """Open the queue in a folder, or create it; ":memory:" is a queue that ends with the process.

        Without settings there are no politeness delays, and up to eight URIs of a host are leased at a time. URLs are
        deduplicated as written, except for the order of query arguments, unless `canonicalization` in `settings`, or
        the settings that the queue was created with, say otherwise. URIs that were leased when the last owner died are
        handed out again, unless `keep_leases` is set, for consumers that outlive the owner. Raises the errors of
        `Frontier.open`, with nothing loaded or changed.
        """
        program = f"{this_program()} (LeaseQueue)"
        frontier = open_frontier(path, settings, clock=clock, hooks=hooks, keep_leases=keep_leases, program=program)
        return cls(frontier, Path(path))

    @classmethod
    def connect(
        cls,
        address: str,
        *,
        crawl: str = "DEFAULT",
        token: str | None = None,
        tls: bool | str | os.PathLike[str] = False,
        retry_for: float = protocol.RETRY_FOR,
        keep_leases: bool = False,
    ) -> Self:
        """Share the queue that `budgetfrontier serve` has at `address` with other processes; it is created if need be.

        Needs the extra "grpc". With kafka://HOST:PORT/CRAWL, and the extra "kafka", it is a crawl in partitions, which
        its workers have; `replay` is refused there. Counters, dead letters and length are those of all processes;
        closing gives back the leases of this one alone, unless `keep_leases` is set. Each call is a message there and
        back, and durable when it returns: `frontier`, a `RemoteFrontier` or `ClusterFrontier`, takes many URIs and
        leases at a time. Threads may share the queue. The server's settings hold: those of the frontier, or
        `budgetfrontier serve --config` for a new one. A call is repeated for `retry_for` seconds after a lost
        connection. Raises what `RemoteFrontier` raises.
        """
        from budgetfrontier import connections

        frontier = connections.connect(
            address, crawl=crawl, token=token, tls=tls, retry_for=retry_for, keep_leases=keep_leases
        )
        return cls(frontier, frontier.folder)

    # -- adding

    def push(self, uri: str | CrawlUri) -> bool:
        """Add a URI. Return True if it was added; False for a duplicate, an invalid URL, or a full queue. O(log n)."""
        return self.frontier.schedule(uri) is Admission.ADDED

    def push_force(self, uri: str | CrawlUri) -> bool:
        """Add a URI without deduplication, and without marking it as seen."""
        arguments.uri(uri)
        uri = uri if isinstance(uri, CrawlUri) else CrawlUri(uri)
        return self.push(msgspec.structs.replace(uri, force=True))

    # -- handing out

    def pop(self) -> CrawlUri | None:
        """Remove the next URI and return it; None if there is none now. At most once: a consumer that dies loses it.

        The removal is durable when this returns, so that the URI does not come back after a kill: each call costs a
        commit, which waits for the disk. `lease_request` with `ack_lease` does not wait, and hands out at least once.
        """
        while (lease := self.lease_request()) is not None:
            if self.ack_lease(lease):  # else it has expired, and the URI comes again
                self.frontier.commit()
                return lease.uri
        return None

    def lease_request(self, ttl: float | None = None) -> Lease | None:
        """Lease the next URI for `ttl` seconds (None: the setting, 300); return None if there is none now.

        Within a host, URIs come by priority, then by age. Expired leases are reclaimed first. A URI whose lease expired
        comes again with a higher `delivery`; after `max_deliveries` it becomes a dead letter.
        """
        frontier = self.frontier
        while True:
            if leases := frontier.lease(ttl=ttl):
                return leases[0]
            if frontier.next_ready_in() != 0.0:  # a call activates at most 1,000 queues
                return None

    def renew_lease(self, lease: Lease | int | str, ttl: float | None = None) -> bool:
        """Extend a lease to `ttl` seconds from now; False if it has ended: the URI may be leased to somebody else."""
        with suppress(LeaseExpired):
            self.frontier.renew(_as_lease(lease), ttl)
            return True
        return False

    # -- ending a lease

    def ack_lease(
        self,
        lease: Lease | int | str,
        *,
        fetch_seconds: float | None = None,
        discovered: Iterable[str | CrawlUri] = (),
        size: int = 0,
        status: int = 0,
        novel: bool | None = None,
        address: str = "",
        digest: bytes = b"",
    ) -> bool:
        """End the lease of a URI that succeeded: charge its cost and remove it.

        Add `discovered` in the same transaction. The other options are about the response, as in `Frontier.finish`.
        """
        # Without `_finish` and `suppress`, which would cost a tenth of `lease_request` and this call.
        given = lease if isinstance(lease, Lease) else _as_lease(lease)
        try:
            self.frontier.finish(
                given,
                fetch_seconds=fetch_seconds,
                discovered=discovered,
                size=size,
                status=status,
                novel=novel,
                address=address,
                digest=digest,
            )
        except LeaseExpired:
            return False
        return True

    def ack_many(
        self, leases: Iterable[Lease | int | str], *, sizes: Iterable[int] | None = None
    ) -> list[Lease | int | str]:
        """End the leases of URIs that succeeded, in order, in one call of `finish_many`.

        Return those that had ended already, and those given twice, as they were given; the others end. `sizes` are
        those of the responses in bytes, one for each lease. Raises TypeError for anything else than leases and ids,
        ValueError if there are more or fewer sizes, and then has changed nothing.
        """
        if isinstance(leases, str | bytes) or not isinstance(leases, Iterable):  # of text, the characters would be ids
            raise WrongType("ack_many takes an iterable of leases or ids; one goes to ack_lease")
        given = list(leases)
        named = [_as_lease(lease) for lease in given]
        given_as = {id(lease): one for lease, one in zip(named, given, strict=True)}
        ended: list[Lease] | list[Finish] = named
        if sizes is not None:
            arguments.several(sizes, "sizes")
            of_each = list(sizes)
            if len(of_each) != len(named):
                raise ValueError(f"ack_many takes a size for each lease: {len(named)} leases, {len(of_each)} sizes")
            ended = [Finish(lease, size=size) for lease, size in zip(named, of_each, strict=True)]
        return [given_as[id(lease)] for lease in self.frontier.finish_many(ended)]

    def release_lease(self, lease: Lease | int | str) -> bool:
        """Give the URI back untried, at no cost: it keeps its position, priority and attempts."""
        return self._finish(lease, Outcome.DEFERRED)

    def retry_lease(
        self, lease: Lease | int | str, *, delay: float | None = None, reason: str = "", status: int = 0
    ) -> bool:
        """Give the URI back after a failed attempt, which counts; retry after `delay` seconds (None: `retry.delay`).

        Its whole queue waits, or with `retry.scope: uri` the URI alone. After `retry.max_retries` it becomes a dead
        letter. With the `status` of the response, a host that answered 429 or 503 rests as `frontier.backoff` says,
        unless `delay` is above 0; after any other answer its queue goes on, and None is `retry.status_delay`.
        """
        return self._finish(
            lease, Outcome.RETRY, delay=delay, reason=Reason.RETRY_EXHAUSTED if reason == "" else reason, status=status
        )

    def dead_letter(self, lease: Lease | int | str, reason: str = Reason.FAILED) -> bool:
        """Move the URI to the dead letters, with the reason."""
        return self._finish(lease, Outcome.DEAD, reason=reason)

    def dead_letters(self, *, limit: int | None = None) -> list[DeadLetter]:
        """Return the dead letters, oldest first."""
        return self.frontier.dead_letters(limit=limit)

    def replay(self, letters: DeadLetter | int | Iterable[DeadLetter | int] | None = None) -> int:
        """Put dead letters, given themselves or by id (None: all), back into the queue; return how many."""
        return self.frontier.replay(letters)

    def _finish(self, lease: Lease | int | str, outcome: Outcome, **options: Any) -> bool:
        if not isinstance(reason := options.get("reason", ""), str):
            raise WrongType(f"a reason is text, not {reason!r}")
        with suppress(LeaseExpired):
            self.frontier.finish(_as_lease(lease), outcome, **options)
            return True
        return False

    # -- the whole queue

    def __len__(self) -> int:
        """Return how many URIs are queued or scheduled for later, neither leased nor dead. Costs what `state` does."""
        state = self.state()
        return state.queued + state.delayed

    def is_empty(self) -> bool:
        """Return whether nothing is queued or scheduled for later. Costs what `state` does."""
        return not len(self)

    def state(self) -> State:
        """Reclaim expired leases and return the counters. Costs what `Frontier.waiting` does."""
        self.frontier.lease(0)  # leases nothing, but reclaims expired leases
        total = self.frontier.summary()
        return State(
            dir=self._dir,
            queued=self.frontier.waiting(),
            delayed=total.future,
            leased=total.in_process,
            dead_letters=total.dead,
            seen=total.seen,
            flush_every=self.frontier.settings.frontier.commit_operations,
        )

    def flush(self) -> None:
        """Commit, and return once everything is on disk. The queue also commits by itself, every half second of use."""
        self.frontier.commit()

    def close(self, *, end: RunEnd | str = RunEnd.EXIT, reason: str = "") -> None:
        """Give leases back without counting a delivery, flush, and release the lock. A second close does nothing.

        `end` and `reason` are stored in the history of runs.
        """
        self.frontier.close(end=end, reason=reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.frontier.__exit__(kind, error, traceback)

    def __repr__(self) -> str:
        return f"<LeaseQueue on {self.frontier!r}>"


def _as_lease(lease: Lease | int | str) -> Lease:
    """Return a lease, made from an id if necessary: the frontier needs only that. Raises TypeError, ValueError."""
    if isinstance(lease, Lease):
        return lease
    if isinstance(lease, str) and len(lease) <= LONGEST_ID and lease.isascii() and lease.isdigit():
        lease = int(lease)
    if isinstance(lease, bool) or not isinstance(lease, int):
        raise WrongType(f"a lease is named by itself or by its id, a whole number, not by {lease!r}")
    if not -(1 << 63) <= lease < 1 << 63:
        raise ValueError(f"a lease has an id of at most 64 bits, not {lease}")
    return Lease(lease, "", CrawlUri(""), 0, 0.0, 0)
