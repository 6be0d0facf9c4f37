"""The methods of a frontier for crawlers, servers and integrations: `Frontier.internals`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri, KeptTotals, KeptUrl, Lease, Tally
from budgetfrontier.engine import arguments, known_urls, lease_by_queue, regulation
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.api_commands import Steering
from budgetfrontier.engine.batches import Batches
from budgetfrontier.engine.changelog import Changelog
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.disk_guard import DiskGuard
from budgetfrontier.engine.guard import Guard
from budgetfrontier.engine.known_urls import Known, KnownUrls
from budgetfrontier.engine.regulation import Asked
from budgetfrontier.errors import FrontierError
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.storage.seed_list import SeedHosts


class Internals:
    """The methods of a frontier for authors of crawlers, servers and integrations: `Frontier.internals`.

    The rules for calls are those of the frontier: its thread, its commits, its errors. These methods are less stable
    than the others: a release may change them, and its changelog says so.
    """

    def __init__(
        self,
        guard: Guard,
        admitter: Admitter,
        batches: Batches,
        steering: Steering,
        *,
        disk_guard: DiskGuard,
        known: KnownUrls | None,
        changelog: Changelog | None,
    ) -> None:
        self._guard = guard
        self._kernel = guard.kernel
        self._tables = guard.tables
        self._admitter = admitter
        self._batches = batches
        self._steering = steering
        self._disk_guard = disk_guard
        self._known = known
        self._changelog = changelog

    def __repr__(self) -> str:
        return f"<Internals of {self._guard!r}>"

    # -- for servers

    def ready_in(self) -> float | None:
        """Return what `Frontier.next_ready_in` does, for one that serves crawlers: by this alone nobody has asked."""
        return self._guard.read(lambda: self._kernel.next_ready_in(self._guard.now()))

    @property
    def keeps_hosts(self) -> bool:
        """Whether the queue of a URI without a key is that of its host and port, by the queue assignment in force."""
        return self._admitter.keeps_hosts

    # -- for crawlers

    def settings_for(self, lease: Lease) -> QueueSettings:
        """Return the settings in force for a leased URI: the frontier's, with its overrides and adjustments."""
        self._guard.enter()
        lease = arguments.lease(lease, "settings_for")
        return self._tables.in_force.for_uri(lease.uri.url, lease.queue, lease.uri.source)

    def queue_key(self, uri: CrawlUri) -> str:
        """Return the key of the queue that a URI would be placed on, whether there is one yet or not.

        Its `url` is a normalized href. Raises ValueError for a URI that has no key, and PolicyError.
        """
        uri = arguments.crawl_uri(uri)
        return self._guard.read(lambda: self._admitter.queue_key(uri))

    def rest(
        self, uri: CrawlUri, key: str, *, fetch_seconds: float | None = None, crawl_delay: float | None = None
    ) -> float:
        """Return the politeness delay in seconds of a queue after a fetch of one of its URIs. Changes nothing.

        Raises PolicyError.
        """
        self._guard.enter()
        uri, key = arguments.crawl_uri(uri), arguments.queue_key(key)
        fetch_seconds, crawl_delay, _ = arguments.waits(fetch_seconds, crawl_delay)
        in_force = self._tables.in_force
        return in_force.rest(uri, in_force.for_uri(uri.url, key, uri.source), fetch_seconds, crawl_delay)

    def has_room(self, uri: str | CrawlUri) -> bool:
        """Return whether `schedule` would not return FULL for a URI now. Changes and counts nothing. O(log n).

        For callers that wait for room: each refusal is counted. Raises PolicyError.
        """
        arguments.uri(uri)
        return self._guard.read(lambda: self._admitter.has_room(uri))

    @property
    def needs_addresses(self) -> bool:
        """Whether some setting goes by the addresses of hosts: then a crawler reports that of each host it fetches."""
        self._guard.enter()
        return self._tables.in_force.needs_addresses

    def lacks_address(self, lease: Lease) -> bool:
        """Return whether some setting goes by the address of the host of a leased URI, and none is known.

        Then a crawler looks it up, and finishes the lease as DEFERRED with that `address`. O(log n).
        """
        lease = arguments.lease(lease, "lacks_address")
        return self.needs_addresses and self.address_of(uris.host(lease.uri.url)) is None

    def address_of(self, host: str) -> str | None:
        """Return the IP address of a host, None if none is known. O(log n)."""
        host, hosts = arguments.host(host), self._tables.hosts
        return self._guard.operate(lambda: hosts.address(host), changes=0)

    def know_address(self, host: str, address: str) -> None:
        """Report the IP address of a host, as the `address` of a `finish` does; it is kept for six hours. O(log n)."""
        host, address, guard = arguments.host(host), arguments.address(address), self._guard
        if not address:
            raise ValueError("address is empty; give the IP address of the host")
        reassignment = self._kernel.turns.reassignment
        guard.operate(lambda: reassignment.know_address(host, address, guard.now()), changes=1)

    def admit(self, uris: Iterable[Any], *, found: bool) -> Tally:
        """Schedule URIs as `schedule_many` does, None as an INVALID one; all that are added count as `found`, or none.

        For those whose origin the caller knows: links of a page elsewhere, or an import.
        """
        return self._batches.schedule(uris, found)

    @property
    def seed_hosts(self) -> SeedHosts:
        """The hosts of imported seeds, and of the targets of their redirects, for a crawl's scope."""
        return self._tables.seeds.hosts

    def unlisted(self, seeds: Iterable[CrawlUri]) -> Iterator[CrawlUri]:
        """Yield the seeds that the list of seeds has not. O(log n) each."""
        for uri in seeds:
            if not self._guard.operate(partial(self._tables.seeds.has, uri.url), changes=0):
                yield uri

    def note_links(self, lease: Lease, links: int, *, new: int, own: int) -> None:
        """Report the links of a page that were scheduled one by one, so that its `finish`, which follows, counts them.

        `new` of them were ADDED, `own` of these to the queue of the page. A `finish` with `discovered` counts these
        URIs instead. O(1).
        """
        self._guard.enter()
        if not 0 <= own <= new <= links:
            raise ValueError(f"of {links} links, {new} cannot be new and {own} in the queue of the page")
        self._tables.history.linked(arguments.lease(lease, "note_links").id, links, new, own)

    def look_at_disks(self) -> None:
        """Pause or resume the crawl now if `guards.min_free` calls for it."""
        self._guard.operate(self._disk_guard.look, changes=0)

    def postpone_commit(self, seconds: float) -> None:
        """Let the commit interval end in so many seconds; for a caller that syncs its own files meanwhile.

        Commands in the mailbox wait as long. `commit` and a full memory commit earlier.
        """
        self._guard.enter()
        self._guard.commits.begin_interval(arguments.seconds(seconds, "seconds"))

    def leased(self, lease_id: int) -> Lease | None:
        """Return the lease that is out under an id, None if it has ended. Change nothing in it. O(1)."""
        self._guard.enter()
        return self._tables.leases.out.get(lease_id)

    def reserved(self) -> int:
        """Return the most that the URIs that are out may be charged: their costs, and a penalty each. O(leases out)."""
        in_force, out = self._tables.in_force, self._tables.leases.out
        return self._guard.read(
            lambda: sum(
                lease.cost + in_force.for_uri(lease.uri.url, lease.queue, lease.uri.source).error_penalty_amount
                for lease in out.values()
            )
        )

    # -- for servers: URIs by queue

    def lease_queues(
        self,
        queues: int,
        per_queue: int = 1,
        *,
        queue: str | None = None,
        ttl: float | None = None,
        limit: int = lease_by_queue.LIMIT,
    ) -> list[Lease]:
        """Lease URIs of up to `queues` queues, so many of each that `per_queue` of it are out (0: as many as may be).

        Each queue has one turn, in order, and then rests for its `min_interval`; `per_queue_concurrency` and budgets
        hold. With `queue`, that queue alone is served, out of its turn. No queue has its turn once there are `limit`
        URIs; without `per_queue`, a queue hands out at most as many. Otherwise as `lease`.
        """
        guard, kernel = self._guard, self._kernel
        guard.enter()
        key = None if queue is None else arguments.queue_key(queue)
        queues, per_queue = arguments.whole(queues, "queues"), arguments.whole(per_queue, "per_queue")
        limit = arguments.whole(limit, "limit")
        ttl = self._tables.in_force.lease_ttl(ttl)
        return guard.lease(
            lambda now: kernel.lease_queues(queues, per_queue, key, ttl, now, limit),
            queues,
        )

    def queue_keys(self, after: str = "", *, limit: int = 1000) -> list[str]:
        """Return the keys of the queues that follow a key, in the order of their bytes. O(limit)."""
        most, start = arguments.limit(limit), arguments.text(after, "a queue key")
        return self._guard.operate(lambda: self._tables.queues.keys_after(start, most), changes=0)

    def regulate(
        self,
        key: str,
        *,
        interval: float | None = None,
        max_completed: int | None = None,
        total_budget: int | None = None,
        blocked_until: float | None = None,
    ) -> bool:
        """Set values of a queue that a crawler may change with each response: nothing is audited, nor undone.

        `interval` and `max_completed` are those of `set_queue`. `total_budget` (-1: no limit) replaces that of the
        settings, but not that of an adjustment. `blocked_until` is a block (epoch seconds; 0: none). All of it survives
        restarts. The first two need `frontier.keep_urls`. Returns False if there is no such queue. O(1).
        """
        self._guard.enter()
        if interval is not None:
            interval = arguments.number(interval, "interval")
        if blocked_until is not None:
            blocked_until = arguments.number(blocked_until, "blocked_until")
        asked = Asked(
            interval=interval, max_completed=max_completed, total_budget=total_budget, blocked_until=blocked_until
        ).checked(self._kernel)
        key, guard = arguments.queue_key(key), self._guard
        return guard.operate(lambda: regulation.regulate(self._kernel, key, asked, guard.now()))

    def reset_queue(self, key: str) -> bool:
        """Reset the values of a queue set by `regulate`, `set_queue` and `snooze`, as if it were new; not audited.

        Its expenditure stays. Returns False if there is no such queue. O(1).
        """
        key, guard = arguments.queue_key(key), self._guard
        return guard.operate(lambda: regulation.reset(self._kernel, key, guard.now()))

    # -- for servers: URLs that are kept

    def fetched(self, uris: Iterable[tuple[CrawlUri, float | None]]) -> list[Known]:
        """Report fetches by URL: of each URI, and when it is to be fetched again (epoch seconds; None: never).

        A leased URI is finished as a SUCCESS, under any lease. One that waits in its queue is charged and removed; one
        scheduled for later is removed without a charge. An unknown URL becomes known. A repeated report changes
        nothing. Needs `frontier.keep_urls`. Raises PolicyError. O(log n) for each; all of them are one operation.
        """
        known, guard = known_urls.kept(self._known, self._guard), self._guard
        found = [
            (arguments.crawl_uri(uri), again if again is None else arguments.number(again, "a date"))
            for uri, again in guard.materialize(uris, "pairs of a CrawlUri and a date")
        ]
        now = guard.now()
        return guard.operate(lambda: known.fetched(found, now), changes=len(found))

    def kept_urls(self, after: bytes = b"", *, limit: int = 1000) -> list[KeptUrl]:
        """Return the URLs that follow a fingerprint, in the order of fingerprints, without their `uri`. O(limit).

        Needs `frontier.keep_urls`.
        """
        known = known_urls.kept(self._known, self._guard)
        most, start = arguments.limit(limit), arguments.data(after, "a fingerprint")
        return self._guard.operate(lambda: known.page(start, most), changes=0)

    def kept_totals(self, queue: str | None = None) -> KeptTotals | None:
        """Return the numbers of the URLs that are kept, or of those of a queue; None if it has none. O(1).

        Needs `frontier.keep_urls`.
        """
        known, key = known_urls.kept(self._known, self._guard), None if queue is None else arguments.queue_key(queue)
        return self._guard.operate(lambda: known.totals(key), changes=0)

    def forget_urls(self, fingerprints: Iterable[bytes]) -> int:
        """Forget URLs, given by the keys of their rows, so that they may be discovered again; return how many.

        Their leases end. If a URL was scheduled more than once, only the last one is removed, and the URL is known
        until the others have ended. Needs `frontier.keep_urls`. O(log n) for each; all of them are one operation.
        """
        known, guard = known_urls.kept(self._known, self._guard), self._guard
        found = [arguments.data(each, "a fingerprint") for each in guard.materialize(fingerprints, "fingerprints")]
        now, found = guard.now(), [each for each in found if 0 < len(each) <= arguments.LONGEST_KEY]
        return guard.operate(lambda: sum(known.forget(each, now) for each in found), changes=len(found))

    # -- for commands, and for partitions

    def apply(self, command: Command, *, number: int = 0) -> AuditEntry:
        """Apply a command that came from outside, and audit it. A command that is refused changes nothing.

        A long command is committed in steps; one in progress is completed first, except by `pause` and `terminate`.
        """
        return self._steering.apply(command, number)

    def discard(self, entry: int, *, reason: str = "", who: str | None = None) -> None:
        """Remove the records kept on disk for the `undo` of a deletion. Raises FrontierError if there are none.

        O(later audit entries).
        """
        self._steering.steer("discard", {"id": arguments.entry(entry, "discard")}, who, reason)

    @property
    def is_busy(self) -> bool:
        """Whether a command that takes several steps is in progress, for which most others have to wait."""
        self._guard.enter()
        return self._guard.commands.job is not None

    @property
    def changelog(self) -> Changelog:
        """The changes for the log of its partition. Raises FrontierError if it was opened without `partition`."""
        if self._changelog is None:
            raise FrontierError("this frontier is that of no partition: open it with `partition`")
        return self._changelog
