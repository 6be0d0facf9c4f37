"""The parts of an open frontier: its tables, each with its owner, the totals, and the settings in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from budgetfrontier.core.model import CrawlUri, QueueRecord, Summary
from budgetfrontier.engine.audit import Audit
from budgetfrontier.engine.busiest_queues import BusiestQueues
from budgetfrontier.engine.dead_letters import DeadLetterTable
from budgetfrontier.engine.future import FutureTable
from budgetfrontier.engine.group_table import GroupTable
from budgetfrontier.engine.history import History
from budgetfrontier.engine.host_table import HostTable
from budgetfrontier.engine.lease_table import Leases
from budgetfrontier.engine.link_table import LinkTable
from budgetfrontier.engine.peer_table import PeerTable
from budgetfrontier.engine.pending import PendingTable
from budgetfrontier.engine.preloaded_table import PreloadedTable
from budgetfrontier.engine.queue_cache import QueueCache
from budgetfrontier.engine.removed_table import RemovedTable
from budgetfrontier.engine.rotation import Rotation
from budgetfrontier.engine.runs import Runs
from budgetfrontier.engine.seed_table import SeedTable
from budgetfrontier.engine.seen_filter import SeenFilter
from budgetfrontier.engine.series import Series
from budgetfrontier.engine.settings_in_force import SettingsInForce
from budgetfrontier.engine.tallies import Tallies
from budgetfrontier.engine.url_table import UrlTable
from budgetfrontier.rules.crawl_states import HALTED
from budgetfrontier.rules.duplicates import BLOOM
from budgetfrontier.rules.queued_totals import is_queued
from budgetfrontier.rules.run_history import may_crawl
from budgetfrontier.settings import Settings, policy_factory
from budgetfrontier.settings.overrides import Override
from budgetfrontier.settings.schema import FrontierSettings
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.records import Counters
from budgetfrontier.storage.series import SeriesRow
from budgetfrontier.storage.view import View


class Tables:
    """The tables of one open frontier. Nothing else writes to them, but the table `seen`, which admission owns."""

    __slots__ = (
        *("counters", "queues", "groups", "rotation", "leases", "pending", "tallies", "busiest", "history", "in_force"),
        *(
            "guarded",
            "observed",
            "observes_uris",
            "reassigns",
            "paces",
            "longest_delay",
            "leases_plainly",
            "ends_plainly",
        ),
        "__dict__",
    )
    # What each URI looks up: CPython looks attributes up more slowly in a `__dict__` of more than 30.

    in_force: SettingsInForce
    series: Series

    def __init__(self, env: Environment, counters: Counters) -> None:
        self.env = env
        self.counters = counters
        self.queues = QueueCache(env, counters)
        self.groups = GroupTable(env, counters)
        self.rotation = Rotation(env, counters, self.queues, self.groups)
        self.leases = Leases(env)
        self.pending = PendingTable(env, counters)
        self.future = FutureTable(env, counters, self.queues)
        self.seeds = SeedTable(env, counters)
        self.hosts = HostTable(env)
        self.peers = PeerTable(env)
        self.links = LinkTable(env, counters)
        self.preloaded = PreloadedTable(env)
        self.dead_letters = DeadLetterTable(env, counters, self.seeds)
        self.audit = Audit(env, counters)
        self.removed = RemovedTable(env, counters)
        self.runs = Runs(env)
        self.busiest = BusiestQueues()
        self.tallies = Tallies(env, self.groups)
        self.history = History(env, counters)
        self.urls: UrlTable | None = None
        """The kept URLs; None without `frontier.keep_urls`."""
        self.suffix_list: str | None = None
        """The public suffix list that is stored in the frontier; None if nothing needs one."""
        self.former_assignments: list[Any] = []
        """The queue assignments of settings before: there may be queues by their keys, which wait for their hosts."""
        self.rekeyed: list[tuple[str, str]] = []
        """Of hosts whose URIs arrive, the key by a former queue assignment, and the one that they have now."""
        self.reassigns = False
        """Whether the key of a URI may be another one than that of its queue."""
        self.guarded = False
        """Whether `Turns.stopped_before_lease` has to be asked before each lease."""
        self.paces = False
        """Whether queues may have to wait after a lease."""
        self.observed = False
        """Whether `Finisher.observe` has to be called at each end of an attempt."""
        self.leases_plainly = self.ends_plainly = False
        """Whether a turn, or the end of an attempt, depends on nothing but budgets, waits, concurrency, groups and
        quotas: then `PlainTurns` may do it."""
        self.attentive = False
        """Whether each call of `lease` looks at the number of active queues, or for the end of an epoch, or for queues
        that wait for crawl windows which have changed."""
        self.filter: SeenFilter | None = None
        """The Bloom filter of the URIs seen; None without `duplicates: bloom`."""
        self.observes_uris = False
        """Whether it counts more than groups and bandwidth."""
        self.labelled = False
        """Whether a URI with a label has been leased."""
        self.queue_key: Callable[[CrawlUri], str] = _unassigned
        """Returns the key of the queue for a URI with a normalized URL; the owner of the policies sets it."""
        self.longest_delay = self.longest_backoff = 0.0
        """The longest wait that the settings of this run could give a queue, in seconds."""
        self.random = Random()
        """The source of jitter."""

    def start_series(self, now: float, program: str, unstored: SeriesRow | None) -> None:
        """Begin the time series of this run of a program, once the totals are those after opening.

        `unstored` is the row that the run before has not stored, as it was killed.
        """
        counters = self.counters
        self.series = Series(
            self.env, self.summary, self.busiest, counters.epoch, now,
            unstored=unstored,
            crawls=lambda: self.leases.given_out > 0 or may_crawl(program),
            halted=lambda: counters.state in HALTED,
            commit_interval=lambda: self.in_force.frontier.commit_interval,
        )  # fmt: skip

    def count_found(self, admitted: int, found: bool | None = None) -> None:
        """Count URIs that were scheduled as found, if they were; None: if a program has, that has leased one before."""
        if found or (found is None and self.leases.given_out):
            self.counters.found += admitted

    def put_in_force(self, settings: Settings, adjustments: list[Override]) -> None:
        """Put settings in force; values in queues follow, by revision."""
        self.in_force = SettingsInForce(
            settings, adjustments, random=self.random.random, preloaded=self.preloaded.value_of
        )
        self.longest_delay = max(self.longest_delay, self.in_force.longest_delay)
        self.longest_backoff = max(self.longest_backoff, self.in_force.longest_backoff)
        self.rotation.set_floor(self.in_force.frontier.precedence_floor)
        self._use_grouping()
        self.groups.use(self.in_force.grouping, reached=self.in_force.base.reached)
        self.attend()
        self.tallies.use(self.in_force.quotas)
        grouped = self.counters.groups > 0  # of settings before, until their queues have left them
        self.reassigns = self.in_force.reassigns or bool(self.former_assignments)
        self.guarded = self.in_force.guarded or grouped or self.reassigns
        self.observes_uris = bool(self.tallies.kinds) or self.labelled or self.reassigns
        self.observes_uris |= self.in_force.needs_addresses or self.in_force.ranks_queues
        self.observed = self.in_force.observed or grouped or self.observes_uris
        self._find_plain()

    def _find_plain(self) -> None:
        in_force = self.in_force
        self.paces = self.urls is not None or not in_force.trivial or in_force.base.min_interval > 0
        self.leases_plainly = not (self.reassigns or in_force.windows or in_force.frontier.max_bandwidth)
        others = self.labelled or in_force.ranks_queues or in_force.limits_bandwidth
        self.ends_plainly = not (self.reassigns or others) and in_force.standard_politeness

    def attend(self) -> None:
        """Find out whether each call of `lease` has to look at more than what is due."""
        in_force, reopens = self.in_force, self.counters.reopened_upto != b""
        self.attentive = in_force.least_active > 0 or in_force.counts_links or reopens

    def use_suffix_list(self, suffix_list: str | None) -> None:
        """Take the registered domains of groups from the public suffix list that is stored in the frontier."""
        self.suffix_list = suffix_list
        self._use_grouping()

    def _use_grouping(self) -> None:
        grouping = self.in_force.grouping
        grouping.use(self.suffix_list, self.hosts.address, self.links.budget)
        self.links.use(grouping, self.in_force.frontier.star)

    def note_label(self) -> None:
        """Note that a URI with a label is leased: its end is counted for that."""
        self.labelled = self.observes_uris = self.observed = True
        self._find_plain()

    def keep_urls(self, now: Callable[[], float]) -> None:
        """Keep the URLs of this frontier from now on: their canonical form is that of the settings in force."""
        canonical = policy_factory.canonicalization(self.in_force.frontier)
        self.urls = UrlTable(self.env, self.counters, self.queues, canonical, now)
        self.pending.urls = self.future.urls = self.urls

    def open_filter(self, frontier: FrontierSettings) -> None:
        """Read or begin the Bloom filter, if the frontier has one. Raises MissingExtra, CorruptFrontier."""
        if frontier.duplicates == BLOOM:
            self.filter = SeenFilter(self.env, frontier.bloom)

    def bury(self, queue: QueueRecord, key: bytes, value: bytes, reason: str, now: float) -> None:
        """Move a URI from its queue to the dead letters."""
        self.counters.buried += 1
        self.pending.remove(queue, key)
        self.dead_letters.add(queue, key, value, reason, now)

    def summary(self) -> Summary:
        """Return the totals as of now."""
        self._count()
        return self.env.view().summary(self.counters)

    def waiting(self) -> int:
        """Return how many URIs are queued and not leased."""
        counters, out = self.counters, self.leases.out
        if not (counters.retired or counters.ineligible):
            return counters.queued - len(out)
        by_queue = Counter(lease.queue for lease in out.values())
        found = ((self.queues.find(key), count) for key, count in by_queue.items())
        return counters.queued - sum(count for queue, count in found if queue and is_queued(queue.state))

    def _count(self) -> None:
        """Update the totals that are lengths of tables in memory."""
        self.counters.ready = len(self.rotation.ring)
        self.counters.leases = len(self.leases.out)

    def flushed(self) -> View:
        """Return a view of all as it is now."""
        self.flush()
        return self.env.view()

    def flush(self) -> None:
        """Write all that lives in memory between commits."""
        self.pending.settle()
        self.busiest.settle()
        self.queues.flush()
        self.groups.flush()
        self.links.flush()
        self.tallies.flush()
        self.history.flush()
        self.rotation.write_snoozed()
        self.rotation.ring.settle()
        if self.leases.calls:
            self.counters.last_asked = max(self.counters.last_asked, self.leases.calls[-1][1])
        self.leases.flush()
        self._count()
        self.env.txn.put(b"counters", encode(self.counters), db=self.env.db[keys.META])


def _unassigned(uri: CrawlUri) -> str:
    raise AssertionError("no queue assignment yet")
