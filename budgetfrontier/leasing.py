"""An at-least-once queue of URIs with leases, in the words of kumo's Frontier: a thin interface on `Frontier`.

Synchronous, and owned by one thread as the frontier is. Consumers in other threads or processes are given URLs and
lease ids by its owner, and answer with ids.
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
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import FrontierError, LeaseExpired
from budgetfrontier.model import Admission, CrawlUri, DeadLetter, Lease, Outcome
from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import CanonicalizationSettings, FrontierSettings, PolitenessSettings
from budgetfrontier.store.reader import Reader

LONGEST_ID = 20  # digits of 64 bits
IN_FLIGHT = 8  # URIs of one queue that may be out, unless the settings say otherwise

NO_DELAYS = PolitenessSettings(delay_factor=0.0, min_delay=0.0, max_delay=0.0, per_queue_concurrency=IN_FLIGHT)

AS_WRITTEN = CanonicalizationSettings(
    strip_userinfo=False, strip_www=False, strip_session_ids=False, strip_tracking=False
)
"""Canonicalization that looks past the order of query arguments alone, as kumo's and Scrapy's fingerprints do.

Who follows redirects by adding their target must not have it taken for where it came from: e.test for www.e.test.
"""


class Reason(StrEnum):
    """Reasons of dead letters that consumers have in common; any other text will do."""

    RETRY_EXHAUSTED = "retry_exhausted"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What a LeaseQueue holds."""

    dir: Path
    queued: int
    """URIs that may be leased; those of RETIRED queues are left out."""
    delayed: int
    """URIs that wait for their time."""
    leased: int
    dead_letters: int
    seen: int
    """Canonical forms known to deduplication."""
    flush_every: int
    """Operations after which a flush comes by itself: `frontier.commit_operations`."""


def open_frontier(
    path: str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    clock: Clock | None = None,
    hooks: Sequence[object] = (),
    keep_leases: bool = False,
    canonicalization: CanonicalizationSettings = AS_WRITTEN,
) -> Frontier:
    """Open a frontier as `Frontier.open` does, but for what is not said in `settings`.

    Without any, a new one makes nobody wait: no politeness, and IN_FLIGHT URIs of a queue out at a time, for whoever
    drives it may have delays of his own. Settings that leave `canonicalization` at its default get what the frontier
    was made with, and in a new one the one given here.
    """
    opened = partial(Frontier.open, path, clock=clock, hooks=hooks, keep_leases=keep_leases)
    there = (Path(path) / "data.mdb").exists()
    if settings is None and there:
        return opened(None)
    given = settings or Settings(frontier=FrontierSettings(politeness=NO_DELAYS))
    if given.frontier.canonicalization != CanonicalizationSettings():
        return opened(given)
    if there:
        canonicalization = _made_with(path) or canonicalization
    frontier = msgspec.structs.replace(given.frontier, canonicalization=canonicalization)
    return opened(msgspec.structs.replace(given, frontier=frontier))


def _made_with(path: str | os.PathLike[str]) -> CanonicalizationSettings | None:
    """The canonicalization of the frontier in a folder, None if none can be read there: opening says what is wrong."""
    with suppress(FrontierError), Reader(path) as reader:
        return reader.settings.frontier.canonicalization
    return None


class LeaseQueue:
    """A queue of URIs, each handed out under a lease and gone only once that is acknowledged.

    Made by `LeaseQueue.open`. Leases are named by themselves or by their ids. What has ended in the meantime cannot be
    ended again: `ack_lease` and the others then change nothing and return False, so that a consumer that was too slow
    does nothing to the one that has its URI now. An id may be text, "7", as messages bring it; what is neither a Lease
    nor a whole number is a TypeError, and so is a reason that is no text. `frontier` is for all the rest: budgets,
    reports, pausing.
    """

    def __init__(self, frontier: Frontier, folder: Path) -> None:
        self.frontier = frontier
        self._dir = folder

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        settings: Settings | None = None,
        *,
        clock: Clock | None = None,
        hooks: Sequence[object] = (),
        keep_leases: bool = False,
    ) -> Self:
        """Open the queue in a folder, or create it there; ":memory:" is one that ends with the process.

        Without settings nothing waits: no politeness, eight URIs of a host out at a time. URLs are as different as they
        are written, but for the order of query arguments, unless `settings` say otherwise in `canonicalization`, or the
        queue was made otherwise. Leases that were out when
        the last owner died are given out again, unless `keep_leases`: for consumers that outlive their owner. Raises
        what `Frontier.open` raises; then nothing was loaded or changed.
        """
        frontier = open_frontier(path, settings, clock=clock, hooks=hooks, keep_leases=keep_leases)
        return cls(frontier, Path(path))

    # -- in

    def push(self, uri: str | CrawlUri) -> bool:
        """Add a URI; True if it was new. False: known, no URL, or no room. O(log n)."""
        return self.frontier.schedule(uri) is Admission.ADDED

    def push_force(self, uri: str | CrawlUri) -> bool:
        """Add a URI without deduplication, leaving no trace in it either."""
        uri = uri if isinstance(uri, CrawlUri) else CrawlUri(uri)
        return self.push(msgspec.structs.replace(uri, force=True))

    # -- out

    def pop(self) -> CrawlUri | None:
        """Take a URI out for good, None if there is none now. At most once: who dies with it has lost it.

        It is durable when this returns, so that no kill brings the URI again: each call costs a commit, which waits
        for the disk. `lease_request` and `ack_lease` do not, and hand out at least once.
        """
        lease = self.lease_request()
        if lease is None:
            return None
        self.ack_lease(lease)
        self.frontier.commit()
        return lease.uri

    def lease_request(self, ttl: float | None = None) -> Lease | None:
        """Hand out the next URI for `ttl` seconds (None: the setting, 300); None if there is none now.

        Within a host, higher priority goes first, then age. Expired leases are reclaimed first. A URI whose lease ended
        without an answer comes with a higher `delivery`; after `max_deliveries` it is a dead letter.
        """
        frontier = self.frontier
        while True:
            leases = frontier.lease(1, ttl=ttl)
            if leases:
                return leases[0]
            if frontier.next_ready_in() != 0.0:  # a call activates at most 1,000 queues
                return None

    def renew_lease(self, lease: Lease | int | str, ttl: float | None = None) -> bool:
        """Give a lease `ttl` more seconds from now; False if it has ended, and with it the right to the URI."""
        with suppress(LeaseExpired):
            self.frontier.renew(_named(lease), ttl)
            return True
        return False

    # -- the end of a lease

    def ack_lease(
        self, lease: Lease | int | str, *, fetch_seconds: float | None = None, discovered: Iterable[str | CrawlUri] = ()
    ) -> bool:
        """The URI is done: charge it and let it go. `discovered` are added in the same transaction."""
        return self._finish(lease, Outcome.SUCCESS, fetch_seconds=fetch_seconds, discovered=discovered)

    def release_lease(self, lease: Lease | int | str) -> bool:
        """Give the URI back untried, for free: it keeps its place, its priority and its attempts."""
        return self._finish(lease, Outcome.DEFERRED)

    def retry_lease(self, lease: Lease | int | str, *, delay: float | None = None, reason: str = "") -> bool:
        """Give the URI back after an attempt that failed, which counts; None waits as long as `retry.delay`.

        Its whole queue waits, or the URI alone with `retry.scope: uri`. After `retry.max_retries` it is a dead letter.
        """
        return self._finish(
            lease, Outcome.RETRY, delay=delay, reason=Reason.RETRY_EXHAUSTED if reason == "" else reason
        )

    def dead_letter(self, lease: Lease | int | str, reason: str = Reason.FAILED) -> bool:
        """Give the URI up: it is kept among the dead letters, with the reason."""
        return self._finish(lease, Outcome.DEAD, reason=reason)

    def dead_letters(self, *, limit: int | None = None) -> list[DeadLetter]:
        """The URIs that were given up, oldest first."""
        return self.frontier.dead_letters(limit=limit)

    def replay(self, letters: DeadLetter | int | Iterable[DeadLetter | int] | None = None) -> int:
        """Put these dead letters (or their ids; None: all) back into the queue; return how many there were."""
        return self.frontier.replay(letters)

    def _finish(self, lease: Lease | int | str, outcome: Outcome, **how: Any) -> bool:
        if not isinstance(reason := how.get("reason", ""), str):
            raise TypeError(f"a reason is text, not {reason!r}")
        with suppress(LeaseExpired):
            self.frontier.finish(_named(lease), outcome, **how)
            return True
        return False

    # -- all of it

    def __len__(self) -> int:
        """The URIs that are neither out nor dead, those that wait for their time among them. O(1)."""
        state = self.state()
        return state.queued + state.delayed

    def is_empty(self) -> bool:
        """Whether there is nothing to lease, now or later, as things stand. O(1)."""
        return not len(self)

    def state(self) -> State:
        """The counters, expired leases reclaimed. O(1)."""
        self.frontier.lease(0)  # hands out nothing, but sees to what has expired
        total = self.frontier.summary()
        return State(
            dir=self._dir,
            queued=max(total.queued - total.in_process, 0),
            delayed=total.future,
            leased=total.in_process,
            dead_letters=total.dead,
            seen=total.seen,
            flush_every=self.frontier.settings.frontier.commit_operations,
        )

    def flush(self) -> None:
        """Return when everything so far is on disk. It also happens by itself, every half second of use."""
        self.frontier.commit()

    def close(self) -> None:
        """Give the leases back uncounted, flush, and let the next owner in. A second close does nothing."""
        self.frontier.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.frontier.__exit__(kind, error, traceback)

    def __repr__(self) -> str:
        return f"<LeaseQueue on {self.frontier!r}>"


def _named(lease: Lease | int | str) -> Lease:
    """The lease of that id: the frontier knows all else. Raises TypeError for what names no lease."""
    if isinstance(lease, Lease):
        return lease
    if isinstance(lease, str) and len(lease) <= LONGEST_ID and lease.isascii() and lease.isdigit():
        lease = int(lease)
    if isinstance(lease, bool) or not isinstance(lease, int):
        raise TypeError(f"a lease is named by itself or by its id, a whole number, not by {lease!r}")
    return Lease(lease, "", CrawlUri(""), 0, 0.0, 0)
