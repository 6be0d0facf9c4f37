"""The synchronous client: `Frontier`'s methods, answered by a server."""

# Generated from remote/asynchronous.py by `make sync`: change that file.

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from budgetfrontier.core import protocol
from budgetfrontier.core.model import (
    Admission,
    CrawlState,
    CrawlUri,
    DeadLetter,
    Finish,
    Lease,
    Outcome,
    QueueRecord,
    RunEnd,
    Summary,
    Tally,
)
from budgetfrontier.engine.arguments import Letters, flag, letter_ids, several
from budgetfrontier.errors import ConnectionLost, LeaseExpired, PolicyError
from budgetfrontier.remote import calls, elsewhere, lease_calls, link
from budgetfrontier.remote.transport import Transport
from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import Override

if TYPE_CHECKING:
    from budgetfrontier.engine.commands.adjustment import Adjustment


class RemoteFrontier:
    """A frontier that `budgetfrontier serve` has open, with the everyday methods of `Frontier`.

    Their arguments, results and errors are the same. The AttributeError for another, such as `report`, names the
    command that does the same.

    The frontier, with its counters, queues and settings, is shared by all clients of its crawl; leases are this
    client's. Each call is a round trip, so that batches are much faster for each URI. When a call returns, its effect
    is on the server's disk. Threads may share one client: calls that they make at the same time share a commit of the
    server. After a fork, make a new one.
    A call by a signal handler or `__del__` in the middle of another in the same thread raises FrontierBusy.

    After a lost connection a call is repeated for `retry_for` seconds; the server applies none twice. Then, and if the
    server is not there, ConnectionLost is raised. Only a server that was restarted, or has not heard of this client for
    ten minutes, has forgotten which calls it has applied: then a lease that had been ended is returned as late, a URI
    that had been added is a DUPLICATE, one with `force` is added again, and leases whose reply was lost are handed out
    again after they expire.
    """

    def __init__(
        self,
        address: str,
        *,
        crawl: str = "DEFAULT",
        token: str | None = None,
        tls: bool | str | os.PathLike[str] = False,
        retry_for: float = protocol.RETRY_FOR,
        keep_leases: bool = False,
        timeout: float | None = None,
        quiet: bool = False,
    ) -> None:
        """Take the address of the server, HOST:PORT or unix:PATH, where `connect` opens `crawl`, or creates it.

        `tls` is True for a server whose certificate the system trusts, or a file with the certificates that sign it.
        With `keep_leases`, closing leaves the leases out. One try of a call ends after `timeout` seconds, besides those
        that it may wait for URIs (None: 60). With `quiet`, no line of the log says that the server is waited for.
        """
        self._link = link.Link(address, crawl, token, tls, retry_for=retry_for, timeout=timeout, quiet=quiet)
        self.transport = Transport(self._link)
        """The way to the server, for calls of `calls`; leases of these are not given back at `close`."""
        self._held = calls.ClientLeases()
        self._keep_leases = flag(keep_leases, "keep_leases")
        self._connected: protocol.Connected | None = None
        self.connect()

    def __repr__(self) -> str:
        closed = " closed" if self._link.is_closed else ""
        return f"<RemoteFrontier {self._link.crawl!r} at {self._link.address}{closed}>"

    if not TYPE_CHECKING:  # so that type checkers report names that are missing

        def __getattr__(self, name: str) -> NoReturn:
            raise elsewhere.missing(self, name, job="JOB", where=" on the server")

    @property
    def retry_for(self) -> float:
        """Seconds for which a call is repeated after a lost connection; calls under way notice a change."""
        return self._link.retry_for

    @retry_for.setter
    def retry_for(self, seconds: float) -> None:
        self._link.retry_for = seconds

    @property
    def timeout(self) -> float | None:
        """Seconds for one try of a call; None: the usual ones."""
        return self._link.timeout

    @timeout.setter
    def timeout(self, seconds: float | None) -> None:
        self._link.timeout = seconds

    def connect(self) -> Self:
        """Connect, and open the crawl or create it. Raises ConnectionLost, and what `Frontier.open` raises."""
        if self._connected is None:
            self.transport.open()
            try:
                self._connected = self.transport.run(calls.connect())
            except BaseException:
                self.transport.close()
                raise
        return self

    # -- URIs in

    def schedule(self, uri: str | CrawlUri) -> Admission:
        """Admit one URI. A message and a commit for each: `schedule_many` and `schedule_each` take many."""
        return self.transport.run(calls.schedule(uri))

    def schedule_many(self, uris: Iterable[str | CrawlUri], *, brought: bool = False) -> Tally:
        """Admit a batch, in order; several messages are under way at a time.

        URIs that are `brought` from outside of the crawl, such as seeds, do not count as found.
        """
        return self.transport.run(calls.schedule_many(uris, brought=brought))

    def schedule_each(self, uris: Iterable[str | CrawlUri]) -> list[Admission]:
        """Admit a batch, in order; return the result for each URI."""
        return self.transport.run(calls.schedule_each(uris))

    def mark_seen(self, uris: Iterable[str | CrawlUri], *, charge: bool = False) -> Tally:
        """Mark URIs that were fetched elsewhere as seen."""
        return self.transport.run(calls.mark_seen(uris, charge=charge))

    def admit_many(self, uris: Iterable[str | CrawlUri], *, maxsize: int) -> Tally:
        """Admit a batch while fewer than `maxsize` URIs (0: any) are queued and not leased; the others are FULL."""
        return self.transport.run(calls.admit_many(uris, maxsize))

    def admit_each(
        self, uris: Iterable[str | CrawlUri], *, maxsize: int, again: bool = False
    ) -> list[Admission | PolicyError]:
        """Admit a batch like `admit_many`; return the result for each URI, the error if a policy failed for it.

        `again` is for URIs that were FULL before: another try that is in vain is not counted as a refusal.
        """
        return self.transport.run(calls.admit_each(uris, maxsize, again))

    # -- URIs out

    def lease(self, count: int = 1, *, ttl: float | None = None, wait: float = 0.0) -> list[Lease]:
        """Lease up to `count` URIs, for `ttl` seconds each. Waits up to `wait` seconds for the first one.

        The server answers as soon as there is one; it is not kept from other work meanwhile.
        """
        leases = self.transport.run(calls.lease(count, ttl, wait))
        self._held.add(leases)
        return leases

    def interrupt(self) -> None:
        """Let calls of `lease` that wait in other threads return nothing now, and later ones not wait."""
        self.transport.interrupt()

    def finish(self, lease: Lease, outcome: Outcome = Outcome.SUCCESS, **options: Any) -> None:
        """End a lease; `options` are those of `Frontier.finish`. Raises LeaseExpired for one that has ended."""
        try:
            self.transport.run(calls.finish(lease, outcome, options))
        except LeaseExpired:
            self._held.drop([lease])
            raise
        self._held.drop([lease])

    def finish_many(self, finished: Iterable[Lease | Finish]) -> list[Lease]:
        """End many leases in order; return those that had already ended, and those given twice."""
        given = calls.endings(finished)
        late = self.transport.run(calls.finish_many(given))
        self._held.drop(given)
        return late

    def finish_and_lease(
        self, finished: Iterable[Lease | Finish], count: int = 1, *, ttl: float | None = None, wait: float = 0.0
    ) -> tuple[list[Lease], list[Lease]]:
        """End leases like `finish_many`, then lease URIs like `lease`; return what both return.

        One message and one commit instead of two. It does not wait before the leases have ended.
        """
        given = calls.endings(finished)
        late, leases = self.transport.run(calls.finish_and_lease(given, count, ttl, wait))
        self._held.drop(given)
        self._held.add(leases)
        return late, leases

    def give_back(self, leases: Iterable[Lease]) -> list[Lease]:
        """End leases as if they had never been given; return those that had already ended."""
        several(leases, "leases")
        given = list(leases)
        late = self.transport.run(lease_calls.give_back(given))
        self._held.drop(given)
        return late

    def landed(self, lease: Lease, *, fetch_seconds: float | None = None, crawl_delay: float | None = None) -> None:
        """Report that the download of a lease is over, while its outcome is not known yet. Raises LeaseExpired."""
        self.transport.run(lease_calls.landed(lease, fetch_seconds, crawl_delay))

    def landed_many(self, downloads: Iterable[tuple[Lease, float | None]]) -> list[Lease]:
        """Report that downloads are over, each a lease with the seconds that it took; return leases that had ended."""
        return self.transport.run(lease_calls.landed_many(downloads))

    def renew(self, lease: Lease, ttl: float | None = None) -> None:
        """Set the deadline of a lease to `ttl` seconds from now (None: the setting). Raises LeaseExpired."""
        self.transport.run(lease_calls.renew(lease, ttl))

    def renew_many(self, leases: Iterable[Lease], ttl: float | None = None) -> list[Lease]:
        """Set the deadlines of leases to `ttl` seconds from now; return those that had ended."""
        return self.transport.run(lease_calls.renew_many(leases, ttl))

    def next_ready_in(self) -> float | None:
        """Return the seconds until something may be leased; 0.0: now; None: never, as things stand."""
        return self.transport.run(calls.plain("next_ready_in"))

    # -- looking

    @property
    def state(self) -> CrawlState:
        """The state of the crawl."""
        return self.transport.run(calls.plain("state"))

    @property
    def settings(self) -> Settings:
        """The settings in force when this client connected, without the adjustments."""
        return link.decode_settings(self._first().settings)

    @property
    def folder(self) -> Path:
        """The folder of the frontier, on the server."""
        return Path(self._first().folder)

    def summary(self) -> Summary:
        """Return the counters of the frontier, which all clients share, as of now."""
        return self.transport.run(calls.plain("summary"))

    def waiting(self) -> int:
        """Return how many URIs are queued and not leased by any client."""
        return self.transport.run(calls.plain("waiting"))

    def standings(self) -> Any:
        """Return the standings of the partitions that a worker has, as plain data."""
        return self.transport.run(calls.plain("standings"))

    def plain(self, name: str, *positional: Any, **named: Any) -> Any:
        """Call one of `protocol.PLAIN` by its name; return plain data."""
        return self.transport.run(calls.plain(name, *positional, **named))

    def queue(self, key: str) -> QueueRecord | None:
        """Return a copy of a queue's record as of now, None if no URI was ever placed there."""
        return self.transport.run(calls.plain("queue", key))

    def queue_key(self, uri: CrawlUri) -> str:
        """Return the key of the queue that a URI would be placed on, by its `url`, a normalized href, and `queue`."""
        return self.transport.run(calls.queue_key(uri))

    def rest(
        self, uri: CrawlUri, key: str, *, fetch_seconds: float | None = None, crawl_delay: float | None = None
    ) -> float:
        """Return the politeness delay in seconds of a queue after a fetch of one of its URIs, by its `url`."""
        return self.transport.run(calls.rest(uri, key, fetch_seconds, crawl_delay))

    @property
    def adjustments(self) -> list[Override]:
        """The adjustments in force, which come after the overrides of the settings."""
        return self.transport.run(calls.adjustments())

    def dead_letters(self, *, limit: int | None = None) -> list[DeadLetter]:
        """Return the dead letters, oldest first."""
        return self.transport.run(calls.plain("dead_letters", limit=limit))

    # -- steering

    def pause(self, *, reason: str = "operator", who: str | None = None) -> CrawlState:
        """Lease nothing more, to no client: PAUSING until the leases that are out have ended, then PAUSED."""
        return self.transport.run(calls.plain("pause", reason=reason, who=who))

    def resume(self, *, reason: str = "", who: str | None = None) -> CrawlState:
        """Resume a paused crawl."""
        return self.transport.run(calls.plain("resume", reason=reason, who=who))

    def terminate(self, *, reason: str = "", who: str | None = None) -> CrawlState:
        """End the crawl permanently: nothing is leased again.

        Leases that are out may be finished, and URIs are ADDED all the same, for an `export` of what is left.
        """
        return self.transport.run(calls.plain("terminate", reason=reason, who=who))

    def adjust(
        self, *, match: str = "*", reason: str = "", who: str | None = None, dry_run: bool = False, **settings: Any
    ) -> Adjustment:
        """Change settings from now on, for URIs that `match` selects; with `dry_run`, only return the effect."""
        return self.transport.run(calls.adjust(settings, match=match, reason=reason, who=who, dry_run=dry_run))

    def retire(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """Retire a queue by name; False if there is no such queue, as for `unretire`, `snooze` and `wake`."""
        return self.transport.run(calls.plain("retire", key, reason=reason, who=who))

    def unretire(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """Bring a RETIRED queue to the back of its FIFO."""
        return self.transport.run(calls.plain("unretire", key, reason=reason, who=who))

    def snooze(self, key: str, *, until: float, reason: str = "", who: str | None = None) -> bool:
        """Block a queue until a time (epoch seconds)."""
        return self.transport.run(calls.plain("snooze", key, until=until, reason=reason, who=who))

    def wake(self, key: str, *, reason: str = "", who: str | None = None) -> bool:
        """End the snooze of a queue now."""
        return self.transport.run(calls.plain("wake", key, reason=reason, who=who))

    def regulate(self, key: str, **asked: float) -> bool:
        """Set what crawlers ask for a queue, as `Internals.regulate` does; False if there is no such queue."""
        return self.transport.run(calls.plain("regulate", key, **asked))

    def set_budgets(self, budgets: Iterable[tuple[CrawlUri, int]]) -> None:
        """Set the total budgets of the queues of URIs with normalized URLs, as `regulate` does, in one message."""
        self.transport.run(calls.set_budgets(budgets))

    def reset_queue(self, key: str) -> bool:
        """Undo `regulate`, `set_queue` and `snooze` for a queue; False if there is no such queue."""
        return self.transport.run(calls.plain("reset_queue", key))

    def replay(
        self, letters: Letters = None, *, queue: str | None = None, reason: str = "", who: str | None = None
    ) -> int:
        """Put dead letters back on queues: the given ones (or ids), those of a queue, or all; return their number."""
        given = letter_ids(letters)
        return self.transport.run(calls.plain("replay", given, queue=queue, reason=reason, who=who))

    # -- the connection

    @property
    def held(self) -> int:
        """The number of leases that this client holds."""
        return len(self._held.ids())

    def commit(self) -> None:
        """Return at once: all that was acknowledged is on disk."""
        self.transport.check()

    def close(self, *, end: RunEnd | str | None = None, reason: str = "") -> None:
        """Give this client's leases back uncounted, unless `keep_leases`, and disconnect. A second close does nothing.

        If the server does not answer, its leases expire. `end` and `reason` are ignored: the run is the server's.
        """
        try:
            if self._link.is_open:
                self.transport.check()
                self.retry_for = 0.0
                self.timeout = link.LEAVING if self.timeout is None else min(self.timeout, link.LEAVING)
                self.transport.run(calls.leave([] if self._keep_leases else self._held.ids()))
        except ConnectionLost:
            pass
        finally:
            self.disconnect()

    def disconnect(self) -> None:
        """Close the connection alone: leases stay out until they expire."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _first(self) -> protocol.Connected:
        """Return the reply to the first exchange. Raises FrontierClosed before it."""
        if self._connected is None:
            self._link.check()
        assert self._connected is not None
        return self._connected
