"""Random operations on a frontier and on the reference model: after each step both must tell the same story."""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from xxhash import xxh3_64_intdigest

from budgetfrontier import Admission, CrawlUri, Frontier, Outcome, Reader, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Directive, QueueAnswers
from budgetfrontier.core.vocabulary import AMOUNTS
from budgetfrontier.engine import disk_guard
from budgetfrontier.engine.commands import runner
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.errors import FrontierError, LeaseExpired
from budgetfrontier.reports.dry_runs import dry_run
from budgetfrontier.storage import removed, seed_list
from budgetfrontier.storage.keys import GROUPS as GROUP_TABLE
from budgetfrontier.storage.keys import PARKED, URLS, u32
from budgetfrontier.storage.keys import parked as parked_key
from budgetfrontier.storage.records import decode_group, decode_url
from budgetfrontier.storage.uri_values import expand
from budgetfrontier.testing import crash
from tests.examples import few
from tests.stateful.model import ASSOCIATIONS, OPTIONS, PLAIN, PRELOADED, UNCOUNTED, Model, Seed
from tests.stateful.model_settings import GROUPS, IN_PYTHON, settings_of
from tests.stateful.undoing import discard, kept, undo
from tests.support import kernel

HOSTS = ("a.test", "b.test", "c.a.test", "d.test")
NO_TALLY = dict.fromkeys(AMOUNTS, 0)
MATCHES = ("*", "queue:b.test", "queue:?.test", "host:*.a.test", "domain:a.test", "queue:forced", "label:one")
WITH_URIS = ("READY", "IN_PROCESS", "SNOOZED", "INACTIVE", "INELIGIBLE")
SELECTIONS = (*MATCHES, "queues:a.test,forced", "group:*", "group:each/?.test", "group:sites")
GROUP_MATCHES = (
    "group:*",
    "group:all",
    "group:each/?.test",
    "group:sites",
    "group:b*",
    "group:machine/192.0.2.1",
    "group:few",
)

SEED = {"cost": None, "directive": 3, "priority": 0, "force": False, "not_before": None, "queue": None, "source": None}
booleans = st.booleans()
hosts = st.sampled_from(HOSTS)
keys = st.sampled_from((*HOSTS, "forced", "192.0.2.1"))
addresses = st.sampled_from(("192.0.2.1", "192.0.2.1", "2001:db8::1"))
LONG = "x" * 398 + "\u00e9"
rarely = st.sampled_from((False, False, False, True))
urls = st.builds("https://{}/{}".format, hosts, st.integers(0, 12))
any_uris = st.fixed_dictionaries(
    {
        "url": urls,
        "cost": st.sampled_from((None, None, None, 0, 1, 2, 5)),
        "directive": st.sampled_from((3, 3, 3, 2, 1, 0)),
        "priority": st.sampled_from((0, 0, 0, 1, -1)),
        "force": rarely,
        "not_before": st.sampled_from((None, None, None, None, 0.0, 2.0, 40.0, 700.0)),
        "queue": st.sampled_from((None, None, None, None, None, "forced")),
        "source": st.sampled_from((None, None, None, "one", "two", f"{LONG}1", f"{LONG}2")),
        "precedence": st.sampled_from((None, None, None, None, 0, 2, 1000)),
    }
)
plain_uris = st.fixed_dictionaries(
    {"url": urls, **{name: st.just(value) for name, value in SEED.items()}, "precedence": st.none()}
)
uris = st.one_of(plain_uris, any_uris)
quotas = st.sampled_from(
    ({}, {}, {}, {"successes": 2}, {"urls": 3, "errors": 1}, {"bytes": 1400}, {"novel": 1}, {"novel_bytes": 0})
)
windows = st.sampled_from(  # the clock starts on a Monday, at 13:46:40 UTC
    (
        *((), (), (), ("daily 13:47-13:50 UTC",), ("mon 14:46-14:47 Europe/Berlin", "daily 13:52-14:30 UTC")),
        *(("tue-sun 00:00-24:00 UTC",), ("daily 23:00-15:10 Europe/Berlin", "tue 02:00-01:00 UTC")),
    )
)
preloaded = {"file": str(PRELOADED), "base": 2}
uri_precedence_policies = st.sampled_from(
    (
        *("cost", "cost", "base", {"hops": {"base": 1}}, {"hops": {"base": 126}}),
        *({"preloaded": preloaded | {"default": default}} for default in ("cost", {"hops": {"base": 1}})),
    )
)
values = st.fixed_dictionaries(
    {},
    optional={
        "queue_total_budget": st.sampled_from((-1, 0, 2, 5, 12)),
        "balance_replenish_amount": st.sampled_from((-1, 0, 1, 3, 10)),
        "precedence": st.sampled_from((1, 3, 5)),
        "uri_precedence_policy": uri_precedence_policies,
        "quotas.host": quotas,
        "quotas.queue": quotas,
        "quotas.label": quotas,
        "quotas.force_retire": booleans,
        "guards.windows": windows,
    },
).filter(bool)
of_groups = st.fixed_dictionaries(
    {
        "group": st.fixed_dictionaries(
            {},
            optional={
                "total_budget": st.sampled_from((-1, 0, 3, 9)),
                "max_in_flight": st.sampled_from((1, 4)),
                "max_bandwidth": st.sampled_from((0, 70)),
                "quotas": quotas,
            },
        ).filter(bool)
    },
    optional={"precedence": st.sampled_from((1, 5))},
)
outcomes = st.sampled_from(
    ("SUCCESS", "RETRY", "FAILURE", "SUCCESS", "DEFERRED", "SUCCESS", "DEAD", "DISREGARDED", "SUCCESS")
)
ways_to_finish = st.fixed_dictionaries(
    {
        "fetch_seconds": st.sampled_from((None, 0.1, 0.8, 10.0)),
        "crawl_delay": st.sampled_from((None, None, None, 45.0, 900.0)),
        "delay": st.sampled_from((None, 0.0, 10.0, 200.0)),
        "retire_queue": st.sampled_from((False,) * 9 + (True,)),
        "size": st.sampled_from((0, 0, 700)),
        "reason": st.sampled_from(("", "robots", "no answer", "status 503")),
        "status": st.sampled_from((0, 0, 200, 404, 500, 429, 503)),
        "address": st.one_of(st.just(""), st.just(""), addresses),
        "novel": st.sampled_from((None, True, False)),
        "digest": st.sampled_from((b"", b"", b"one", b"two", b"three")),
    }
)
option_sets = st.fixed_dictionaries(
    {
        "sheets": rarely,
        "hold_queues": booleans,
        "balance_replenish_amount": st.sampled_from((1, 3, 3, 5, 3000, 0)),
        "queue_total_budget": st.sampled_from((-1, -1, 0, 4, 8)),
        "retire_when": st.sampled_from(("exceeded", "reached")),
        "error_penalty_amount": st.sampled_from((0, 2)),
        "precedence": st.just(3),
        "precedence_floor": st.sampled_from((None, None, 4)),
        "precedence_policy": st.sampled_from(("base", "base", {"success-counts": {"tiers": [2, 1]}}, "highest-uri")),
        "uri_precedence_policy": uri_precedence_policies,
        "max_queued": st.sampled_from((0, 0, 0, 9, 30)),
        "max_queue_size": st.sampled_from((0, 0, 0, 3, 8)),
        "order": st.sampled_from(("fifo", "lifo")),
        "pause_at_finish": booleans,
        "max_deliveries": st.sampled_from((20, 2)),
        "per_queue_concurrency": st.sampled_from((1, 2, 3, 8)),
        "polite": booleans,
        "max_retries": st.sampled_from((0, 1, 30)),
        "retry_delay": st.sampled_from((0.0, 10.0, 900.0)),
        "status_delay": st.sampled_from((0.0, 20.0, 1800.0)),
        "retry_scope": st.sampled_from(("queue", "uri")),
        "backoff": booleans,
        "min_interval": st.sampled_from((0.0, 0.0, 2.0, 30.0)),
        "keep_urls": booleans,
        "update_priority": booleans,
        "max_bandwidth": st.sampled_from((0, 0, 0, 300)),
        "group": st.just({}),
        "queue_bandwidth": st.sampled_from((0, 0, 0, 50)),
        "groups": st.sampled_from(((), (), (), *GROUPS)),
        "queue_assignment_policy": st.sampled_from(("hostname", "hostname", "ip")),
        "defer_to_previous": booleans,
        "duplicates": st.sampled_from(("exact", "exact", "exact", "bloom", "noop")),
        "target_active": st.sampled_from(("auto", "auto", 1, 2, 5)),
        "expected": st.sampled_from((8, 32, 10_000)),
        "quotas.host": quotas,
        "quotas.queue": quotas,
        "quotas.label": quotas,
        "quotas.force_retire": booleans,
        "guards.windows": windows,
        "guards.min_free": st.sampled_from((0, 1000)),
    }
).map(lambda options: options | ({"duplicates": "exact"} if options["keep_urls"] else {}))
plain_option_sets = option_sets.map(lambda options: options | {name: OPTIONS[name] for name in IN_PYTHON})
"""Those under which the kernel takes turns."""
moves = st.tuples(
    st.sampled_from(
        ("lease",) * 6
        + ("RETRY",) * 5
        + ("SUCCESS",) * 3
        + ("wait",) * 4
        + ("landed", "landed", "arrive", "arrive", "DEFERRED", "DEAD", "renew", "delete", "back", "back")
        + ("overloaded", "overloaded", "received")
    ),
    st.integers(0, 9),
)
overlapping = st.lists(moves, min_size=20, max_size=60)
steering = st.lists(
    st.tuples(
        st.sampled_from(
            ("lease",) * 4
            + ("SUCCESS",) * 3
            + ("snooze",) * 4
            + ("undo",) * 5
            + ("wait", "wait", "RETRY", "RETRY", "landed", "wake", "wake", "force", "force", "retire", "unretire")
            + ("overloaded", "received", "received")
        ),
        st.integers(0, 9),
    ),
    min_size=20,
    max_size=60,
)


def crawl_uri(spec: dict[str, Any]) -> CrawlUri:
    return CrawlUri(**{**spec, "directive": Directive(spec["directive"])})


def as_given(spec: dict[str, Any]) -> str | CrawlUri:
    """The URI; every other one that is only a URL as such."""
    only_url = spec.items() >= SEED.items() and spec.get("precedence") is None
    return str(spec["url"]) if only_url and spec["url"][-1] in "02468" else crawl_uri(spec)


def ranked_again(model: Model) -> list[float]:
    """When queues that are RETIRED for their budgets by links may have more; now, if they just have got it."""
    degrees = {domain: len(linking) for domain, linking in model.linking.items()}
    if not model.links():
        return []
    if model.ring or model.waiting():
        return [model.now]
    return [max(model.epoch + 100.0, model.now)] if model.retired and degrees != model.ranked else []


def same(what: str, told: object, expected: object) -> None:
    """Assert with a message that shows only what differs."""
    if isinstance(told, dict) and isinstance(expected, dict) and told.keys() == expected.keys():
        names = [name for name in told if told[name] != expected[name]]
        told, expected = {name: told[name] for name in names}, {name: expected[name] for name in names}
    assert told == expected, f"{what}: the frontier says {told}, the model {expected}"


DISK = {"free": 10_000}
"""The bytes that the guard finds free."""


class FrontierMachine(RuleBasedStateMachine):
    """Rules are the operations of both; `agree` compares."""

    @initialize(
        options=st.one_of(option_sets, plain_option_sets),
        pages=st.sampled_from((0, 1, 2, 4, 8)),
        hosts=st.sampled_from((4, 1, 2, 1)),
    )
    def begin(self, options: dict[str, Any], pages: int, hosts: int) -> None:
        self.options = options
        self.folder = tempfile.mkdtemp()
        self.clock = ManualClock(1_000_000.0)
        self.finishes, DISK["free"] = 0, 10_000
        self.foreseen: dict[str, Any] = {}
        self.kept = False
        self.handed: list[tuple[Any, int]] = []
        self.model = Model(dict(options), self.clock.time())
        self.frontier = self.open(settings_of(options))
        self.schedule_many(
            [SEED | {"url": f"https://{host}/seed/{page}"} for page in range(pages) for host in HOSTS[:hosts]]
        )

    def open(self, settings: Settings | None, *, keep_leases: bool = False) -> Frontier:
        self.kept = keep_leases
        return Frontier.open(
            Path(self.folder) / "frontier", settings, clock=self.clock, hooks=[self], keep_leases=keep_leases
        )

    def on_pause_at_finish(self, frontier: Frontier, report: object) -> None:
        """The frontier's hook."""
        self.finishes += 1

    def dated(self, spec: dict[str, Any]) -> dict[str, Any]:
        wait = spec["not_before"]
        return {**spec, "not_before": None if wait is None else self.clock.time() + wait}

    def batch(self, specs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Which of two URIs of one URL is placed last in a batch is not said: here, none is forced twice."""
        forced = {spec["url"]: spec for spec in specs if spec["force"]}
        return [self.dated(spec) for spec in specs if spec is forced.get(spec["url"], spec)]

    # ---- a crawler's operations

    @rule(spec=uris)
    def schedule(self, spec: dict[str, Any]) -> None:
        spec = self.dated(spec)
        expected = self.model.schedule(spec)
        assert self.frontier.schedule(as_given(spec)) is Admission(next(iter(expected)))

    @rule(specs=st.lists(uris, max_size=8))
    def schedule_many(self, specs: list[dict[str, Any]]) -> None:
        specs = self.batch(specs)
        expected = self.model.schedule(*specs)
        tally = self.frontier.schedule_many(map(as_given, specs))
        assert (tally.added, tally.duplicate) == (expected["ADDED"], expected["DUPLICATE"])
        assert (tally.invalid, tally.full) == (0, expected["FULL"])
        assert sum(tally.reasons.values()) == tally.full

    @rule(specs=st.lists(uris, max_size=8))
    def schedule_each(self, specs: list[dict[str, Any]]) -> None:
        specs = self.batch(specs)
        expected = [Admission(next(iter(self.model.schedule(spec, within=True)))) for spec in specs]
        self.model.settle()
        assert self.frontier.schedule_each(map(as_given, specs)) == expected

    @rule(specs=st.lists(uris, max_size=3), charge=booleans)
    def mark_seen(self, specs: list[dict[str, Any]], charge: bool) -> None:
        expected = self.model.mark_seen(*specs, charge=charge)
        tally = self.frontier.mark_seen(map(as_given, specs), charge=charge)
        assert (tally.added, tally.duplicate, tally.full) == tuple(
            expected[result] for result in ("ADDED", "DUPLICATE", "FULL")
        )

    @rule(number=st.sampled_from((1, 1, 2, 3, 8)), ttl=st.sampled_from((15.0, 300.0, 2000.0)))
    def lease(self, number: int, ttl: float) -> None:
        expected = self.model.lease(number, ttl)
        self.handed_out(self.frontier.lease(number, ttl=ttl), expected)

    @rule(
        queues=st.sampled_from((1, 1, 2, 9)),
        per_queue=st.sampled_from((0, 1, 2, 3)),
        key=st.one_of(st.none(), st.none(), keys),
        ttl=st.sampled_from((15.0, 300.0, 2000.0)),
    )
    def lease_queues(self, queues: int, per_queue: int, key: str | None, ttl: float) -> None:
        expected = self.model.lease_queues(queues, per_queue, key, ttl)
        self.handed_out(self.frontier.internals.lease_queues(queues, per_queue, queue=key, ttl=ttl), expected)

    def handed_out(self, given: list[Any], expected: list[int]) -> None:
        same(
            "leases",
            [
                (lease.uri.url, lease.queue, lease.cost, lease.uri.precedence, lease.delivery, lease.expires)
                for lease in given
            ],
            [
                (lease.uri.url, lease.queue.key, lease.uri.cost, lease.uri.precedence, lease.delivery, lease.expires)
                for lease in map(self.model.leases.__getitem__, expected)
            ],
        )
        for lease in given:
            assert all(lease.id > older.id for older, _ in self.handed)
        self.handed += zip(given, expected, strict=True)

    @rule(workers=st.integers(1, 4), ends=st.lists(outcomes, min_size=1, max_size=8), options=ways_to_finish)
    def work(self, workers: int, ends: list[str], options: dict[str, Any]) -> None:
        """Workers that fetch until they have seen all these ends."""
        left = iter(ends)
        for _ in ends:
            before = len(self.handed)
            self.lease(workers, 300.0)
            for pair in self.handed[before:]:
                if end := next(left, None):
                    self.end(*pair, end, options, [])

    @rule(moves=st.lists(moves, min_size=4, max_size=16))
    def overlap(self, moves: list[tuple[str, int]]) -> None:
        """Fetches side by side: retried alone, landed, expired or given back while others of their host are out."""
        for what, number in moves:
            out = [pair for pair in self.handed if pair[1] in self.model.leases]
            lease, leased = out[-1 - number // 3 % len(out)] if out else (None, 0)
            if what == "lease":
                self.lease(1 + number % 3, 15.0 if number > 7 else 300.0)
            elif what == "wait":
                self.time_passes((10.0, 10.0, 3.0, 15.0, 60.0)[number % 5])
            elif what == "arrive":
                url = f"https://{HOSTS[number % 4]}/late/{len(self.model.seen)}"
                self.schedule(SEED | {"url": url, "directive": number % 3})
            elif what == "delete":
                self.delete(HOSTS[number % 4], number > 5)
            elif what in ("snooze", "wake", "retire", "unretire"):
                self.operate(HOSTS[number % 2], what, (5.0, 100.0, 20.0, 290.0, 50.0)[number % 5])
            elif what in ("undo", "force"):
                if self.model.done:
                    self.undo(number, what == "force")
            elif lease is None:
                continue
            elif what == "landed":
                self.land(lease, leased, PLAIN)
            elif what == "overloaded":
                self.end(lease, leased, "RETRY", PLAIN | {"status": 503, "delay": (None, 0.0, 40.0)[number % 3]}, [])
            elif what == "received":
                self.end(lease, leased, "SUCCESS", PLAIN | {"size": 700}, [])
            elif what == "renew":
                self.prolong(lease, leased, 300.0)
            elif what == "back":
                self.give_back_pairs(out[number % len(out) :] if number > 4 else [(lease, leased)])
            else:
                self.end(lease, leased, what, PLAIN | {"delay": (10.0, 10.0, 10.0, 40.0)[number % 4]}, [])

    def pick(self, which: int) -> tuple[Any, int]:
        """A lease: nearly always one that is out."""
        out = [pair for pair in self.handed if pair[1] in self.model.leases]
        candidates = self.handed if which == 99 else out
        return candidates[which % len(candidates)]

    @precondition(lambda self: self.model.leases)
    @rule(
        which=st.integers(0, 99),
        outcome=outcomes,
        options=ways_to_finish,
        discovered=st.one_of(st.just([]), st.lists(uris, max_size=4)),
    )
    def finish(self, which: int, outcome: str, options: dict[str, Any], discovered: list[dict[str, Any]]) -> None:
        self.end(*self.pick(which), outcome, options, self.batch(discovered))

    def end(
        self, lease: Any, number: int, outcome: str, options: dict[str, Any], discovered: list[dict[str, Any]]
    ) -> None:
        if outcome != "RETRY":
            options = {**options, "delay": None}
        if self.model.finish(number, outcome, options, discovered):
            self.frontier.finish(lease, Outcome(outcome), discovered=list(map(as_given, discovered)), **options)
        else:
            with pytest.raises(LeaseExpired):
                self.frontier.finish(lease, Outcome(outcome), discovered=list(map(as_given, discovered)), **options)

    @precondition(lambda self: self.model.leases)
    @rule(which=st.integers(0, 99), options=ways_to_finish)
    def landed(self, which: int, options: dict[str, Any]) -> None:
        self.land(*self.pick(which), options)

    def land(self, lease: Any, number: int, options: dict[str, Any]) -> None:
        told = {name: options[name] for name in ("fetch_seconds", "crawl_delay")}
        if self.model.landed(number, **told):
            self.frontier.landed(lease, **told)
        else:
            with pytest.raises(LeaseExpired):
                self.frontier.landed(lease, **told)

    @precondition(lambda self: self.model.leases)
    @rule(which=st.integers(0, 99), ttl=st.sampled_from((15.0, 300.0)))
    def renew(self, which: int, ttl: float) -> None:
        self.prolong(*self.pick(which), ttl)

    def prolong(self, lease: Any, number: int, ttl: float) -> None:
        if self.model.renew(number, ttl):
            self.frontier.renew(lease, ttl)
        else:
            with pytest.raises(LeaseExpired):
                self.frontier.renew(lease, ttl)

    @precondition(lambda self: self.model.leases)
    @rule(which=st.lists(st.integers(0, 99), min_size=1, max_size=5))
    def give_back(self, which: list[int]) -> None:
        self.give_back_pairs([self.pick(number) for number in which])

    def give_back_pairs(self, pairs: list[tuple[Any, int]]) -> None:
        ids = {number: lease.id for lease, number in pairs}
        late = self.model.give_back_many([number for _, number in pairs])
        found = self.frontier.give_back([lease for lease, _ in pairs])
        same("late", [lease.id for lease in found], [ids[number] for number in late])

    @rule(host=hosts, address=addresses, later=rarely)
    def know_address(self, host: str, address: str, later: bool) -> None:
        if later:
            self.time_passes(6 * 3600.0)
        self.model.know_address(host, address)
        self.frontier.internals.know_address(host, address)
        assert self.frontier.internals.address_of(host) == self.model.addresses[host][0]

    @rule(seconds=st.sampled_from((0.5, 3.0, 4.0, 15.0, 45.0, 300.0, 1000.0)))
    def time_passes(self, seconds: float) -> None:
        self.model.now = self.clock.advance(seconds)

    # ---- URLs that are kept

    @precondition(lambda self: self.options["keep_urls"])
    @rule(spec=uris, which=st.integers(0, 9), again=st.sampled_from((None, None, None, -5.0, 0.0, 2.0, 40.0)))
    def fetched(self, spec: dict[str, Any], which: int, again: float | None) -> None:
        """Nearly always of a URL that is known, and reported twice now and then."""
        known = list(self.model.known)
        out = [lease.uri.url for lease in self.model.leases.values()]
        if which < 8 and known:
            spec = {**spec, "url": known[which * 7 % len(known)], "queue": None}
        if which < 5 and out:
            spec = {**spec, "url": out[which % len(out)]}
        spec = {**spec, "force": False, "not_before": None}
        date = None if again is None else self.clock.time() + again
        for _ in range(2 if which % 4 == 0 else 1):
            expected = self.model.fetched(spec, date)
            (told,) = self.frontier.internals.fetched([(crawl_uri(spec), date)])
            same("report of a fetch", told.name, expected)

    @precondition(lambda self: self.options["keep_urls"])
    @rule(spec=uris, which=st.integers(0, 9))
    def put_again(self, spec: dict[str, Any], which: int) -> None:
        """What `import --force` does, mostly with a URL that is known."""
        known = list(self.model.known)
        url = known[which % len(known)] if which < 7 and known else spec["url"]
        spec = self.dated({**spec, "force": True, "url": url})
        expected = self.model.put_again(spec)
        given = {"uris": [msgspec.msgpack.encode(crawl_uri(spec))], "in_place": True}
        effect = self.frontier.internals.apply(Command("schedule", given, "me", "")).effect
        told = [name.upper() for name in ("added", "duplicate", "full", "invalid") if effect[name]]
        same("put again", told, [expected])

    @precondition(lambda self: self.options["keep_urls"])
    @rule(spec=uris, really=rarely)
    def find_and_forget(self, spec: dict[str, Any], really: bool) -> None:
        url = spec["url"]
        self.model.expire()
        self.model.settle()
        found, row = self.frontier.find_url(url), self.model.known.get(url)
        if found is None or row is None:
            assert found is None and row is None
            return
        told = (found.queue, found.created, self.passed(found.due))
        same(url, told, (row.queue, row.created, self.passed(row.due or None)))
        assert (found.uri is None) == (row.uri is None)
        if really:
            assert self.model.forget(url)
            assert self.frontier.internals.forget_urls([found.fingerprint]) == 1

    # ---- an operator's operations

    @rule(spec=uris, which=st.integers(0, 9), for_good=rarely)
    def forget(self, spec: dict[str, Any], which: int, for_good: bool) -> None:
        """Mostly a URL that was seen."""
        seen = sorted(self.model.seen | self.model.known.keys())
        url = seen[which * 7 % len(seen)] if which < 7 and seen else spec["url"]
        args = {"uris": [{"url": url, "queue": spec["queue"]}], "for_good": for_good}
        self.foresee("forget", **args)
        entry = self.frontier.internals.apply(Command("forget", args, "me", ""))
        if self.options["duplicates"] != "exact":
            assert entry.error and "refused" in self.foreseen
            self.foreseen = {}
            return
        expected = self.model.forget_by_command({**spec, "url": url})
        told = [name for name in ("forgotten", "waiting", "unknown") if entry.effect[name]]
        same("forgotten", told, [expected])
        self.model.last["for_good"] = for_good
        self.remember()

    @rule(match=st.sampled_from(MATCHES), chosen=values)
    def adjust(self, match: str, chosen: dict[str, Any]) -> None:
        self.frontier.adjust(match=match, reason="test", dry_run=True, **chosen)
        self.agree()
        number = self.frontier.adjust(match=match, reason="test", **chosen).id
        self.model.adjust(match, chosen, number)
        self.remember()

    def groups_named(self, match: str) -> list[dict[str, Any]]:
        """The definitions that `group:NAME[/VALUE]` names; none if one of them has no values and VALUE is given."""
        named, _, value = match.removeprefix("group:").partition("/")
        there = [one for one in self.model.options["groups"] if fnmatchcase(one["name"], named)]
        return [] if value and any("match" in one for one in there) else there

    @rule(
        match=st.sampled_from(("group:*", "group:all", "group:each/?.test", "group:sites", "group:b*")),
        chosen=of_groups,
    )
    def adjust_groups(self, match: str, chosen: dict[str, Any]) -> None:
        """Change limits of groups, and settings of the URIs that the definition fits; unknown groups are refused."""
        there = self.groups_named(match)
        if not there or (len(chosen) > 1 and any(one.get("by") in ("ip", "label") for one in there)):
            with pytest.raises(FrontierError):
                self.frontier.adjust(match=match, **chosen)
            return
        self.adjust(match, chosen)

    @rule(
        match=st.sampled_from((*(match for _, match in ASSOCIATIONS), "label:one", "host:d.test")),
        name=st.sampled_from(("small", "soon", "new")),
        order=st.sampled_from((0, 0, 1, 2)),
        chosen=st.one_of(st.none(), st.none(), values),
        add=booleans,
    )
    def sheet(self, match: str, name: str, order: int, chosen: dict[str, Any] | None, add: bool) -> None:
        """Change the values of a sheet, or what it is associated with."""
        sheets, associated = self.model.sheets()
        if chosen is not None:
            return self.adjust(f"sheet:{name}", chosen)
        if add and name in sheets:
            return self.adjust(match, {"sheet": name} | ({"sheet_order": order} if order else {}))
        if not add and (name, match) in associated:
            return self.adjust(match, {"without_sheet": name})
        with pytest.raises(FrontierError):
            self.frontier.adjust(match=match, **dict[str, Any]({"sheet" if add else "without_sheet": name}))

    def foresee(self, op: str, **args: Any) -> None:
        """The effect of a dry run, with which that of the command is compared once it is done."""
        view = kernel(self.frontier).tables.flushed()
        try:
            self.foreseen = dry_run(view, op, args, now=self.clock.time())
        except FrontierError as error:
            self.foreseen = {"refused": str(error)}

    def remember(self) -> None:
        """The last command of an operator may be undone; it did what its dry run said."""
        entry = self.frontier.audit(limit=1)[0]
        foreseen, self.foreseen = self.foreseen, {}
        assert "refused" not in foreseen, foreseen
        assert all(name.isidentifier() for name in foreseen), foreseen
        effect = dict(entry.effect)
        if "returned" in effect:
            del effect["queues"]  # those of pending URIs: a dry run names those of URIs for later, too
        if "then" in effect:
            effect["then"] = {name: value for name, value in effect["then"].items() if name != "retired_upto"}
        common = foreseen.keys() & effect.keys()
        told, expected = ({name: one[name] for name in common} for one in (foreseen, effect))
        assert told == expected, f"{entry.command}: its dry run said {told}, and it did {expected}"
        assert entry.id not in self.model.done
        self.model.done[entry.id] = self.model.last

    @rule(which=st.integers(0, 5))
    def withdraw(self, which: int) -> None:
        there = self.model.adjustments
        if not there or which == 5:
            with pytest.raises(FrontierError, match="not in force"):
                self.frontier.withdraw(99_999)
            return
        number = there[which % len(there)].id
        self.model.withdraw(number)
        self.frontier.withdraw(number)
        self.remember()

    @precondition(lambda self: self.model.done)
    @rule(which=st.integers(0, 9), force=booleans)
    def undo(self, which: int, force: bool) -> None:
        """Nearly always one of the last commands."""
        number = sorted(self.model.done, reverse=True)[which // 2 % len(self.model.done)]
        self.foresee("undo", id=number, force=force)
        if undo(self.model, number, force=force):
            self.frontier.undo(number, force=force)
            self.remember()
        else:
            with pytest.raises(FrontierError):
                self.frontier.undo(number, force=force)
            assert "refused" in self.foreseen, self.foreseen
            self.foreseen = {}

    @precondition(lambda self: self.model.done)
    @rule(which=st.integers(0, 9))
    def discard(self, which: int) -> None:
        number = sorted(self.model.done, reverse=True)[which // 3 % len(self.model.done)]
        if discard(self.model, number):
            self.frontier.internals.discard(number)
        else:
            with pytest.raises(FrontierError):
                self.frontier.internals.discard(number)

    @precondition(lambda self: self.model.state not in ("NEW", "TERMINATED"))
    @rule(really=rarely)
    def pause_or_resume(self, really: bool) -> None:
        if self.model.state in ("PAUSING", "PAUSED") and not (
            really and (self.model.reason == "finish" or self.model.is_paused_for_disk())
        ):
            self.model.resume()
            self.foresee("resume")
            self.frontier.resume()
            self.remember()
        elif really:
            self.model.pause()
            self.foresee("pause")
            self.frontier.pause()
            self.remember()

    @rule(free=st.sampled_from((0, 999, 1000, 1249, 1250)))
    def fill_disk(self, free: int) -> None:
        """The next commit looks at the disk."""
        DISK["free"] = free
        self.frontier.internals.look_at_disks()
        self.frontier.commit()
        self.look_at_disk()
        self.model.commit()

    def look_at_disk(self) -> None:
        if self.model.look_at_disk(DISK["free"]):
            self.remember()

    @rule(
        key=keys,
        seconds=st.sampled_from((-5.0, 5.0, 100.0, 290.0)),
        operation=st.sampled_from(("retire", "unretire", "snooze", "wake")),
    )
    def operate(self, key: str, operation: str, seconds: float) -> None:
        queue, until = self.model.queues.get(key), self.clock.time() + seconds
        if queue:
            self.foresee(operation, queue=key, **({"until": until} if operation == "snooze" else {}))
        if operation == "snooze":
            if queue:
                self.model.operate("snooze", key, until)
            done = self.frontier.snooze(key, until=until)
        else:
            if queue:
                self.model.operate(operation, key)
            done = getattr(self.frontier, operation)(key)
        assert done is bool(queue)
        if done:
            self.remember()

    @rule(
        match=st.sampled_from(SELECTIONS),
        states=st.one_of(st.none(), st.lists(st.sampled_from(WITH_URIS), min_size=1, max_size=4, unique=True)),
        seconds=st.sampled_from((5.0, 100.0, 290.0)),
        operation=st.sampled_from(("retire", "unretire", "snooze", "wake", "set_queue")),
    )
    def operate_on_many(self, match: str, states: list[str] | None, operation: str, seconds: float) -> None:
        """In steps of two queues, as all that concerns many."""
        if states is None and match.partition(":")[0] in ("host", "domain", "label"):
            states = list(WITH_URIS)
        chosen: dict[str, Any] = {"until": self.clock.time() + seconds} if operation == "snooze" else {}
        if operation == "set_queue":
            if not self.options["keep_urls"]:
                return
            chosen = {"interval": seconds, "max_completed": int(seconds) % 7}
        args = {"match": match, **({"states": states} if states else {}), **chosen}
        self.foresee(operation, **args)
        entry = self.frontier.internals.apply(Command(operation, args, "me", ""))
        if match.startswith("group:") and not self.groups_named(match):
            assert entry.error and "refused" in self.foreseen, "a name of no group is refused"
            self.foreseen = {}
            return
        expected = self.model.operate_on_many(operation, match, states, **chosen)
        same("selected", (entry.effect["matched"], entry.effect["changed"]), expected)
        self.remember()

    @precondition(lambda self: self.options["keep_urls"])
    @rule(
        key=keys,
        chosen=st.fixed_dictionaries(
            {},
            optional={
                "interval": st.sampled_from((0.0, 1.0, 10.0, 100.0)),
                "max_completed": st.sampled_from((0, 1, 3, 6, 20)),
            },
        ),
    )
    def set_queue(self, key: str, chosen: dict[str, Any]) -> None:
        if key in self.model.queues:
            self.model.set_queue(key, **chosen)
            self.foresee("set_queue", queue=key, **chosen)
        assert self.frontier.set_queue(key, **chosen) is (key in self.model.queues)
        if key in self.model.queues:
            self.remember()

    @rule(
        key=keys,
        chosen=st.fixed_dictionaries(
            {},
            optional={
                "interval": st.sampled_from((0.0, 10.0)),
                "max_completed": st.sampled_from((0, 3)),
                "total_budget": st.sampled_from((-1, 0, 2, 5, 12)),
                "blocked_until": st.sampled_from((-5.0, 5.0, 60.0)),  # from now
            },
        ),
    )
    def regulate(self, key: str, chosen: dict[str, Any]) -> None:
        if not self.options["keep_urls"]:
            chosen = {name: chosen[name] for name in ("total_budget", "blocked_until") if name in chosen}
        if key in self.model.queues:
            self.model.regulate(key, chosen)
        if "blocked_until" in chosen:
            chosen = {**chosen, "blocked_until": self.clock.time() + chosen["blocked_until"]}
        assert self.frontier.internals.regulate(key, **chosen) is (key in self.model.queues)

    @rule(key=keys, really=rarely, for_good=rarely)
    def delete(self, key: str, really: bool, for_good: bool = False) -> None:
        if really:
            expected = self.model.delete(key) if key in self.model.queues else 0
            if key in self.model.queues:
                self.foresee("delete", queue=key)
            same("deleted", self.frontier.delete(queue=key, for_good=for_good), expected)
            if key in self.model.queues:
                self.model.last["for_good"] = for_good
                self.remember()

    @rule(key=keys, really=rarely)
    def delete_through_the_mailbox(self, key: str, really: bool) -> None:
        """In steps, each of which is committed."""
        if not really:
            return
        path = Path(self.folder) / "frontier"
        mailbox = Mailbox(path)
        number = mailbox.post(Command("delete", {"queue": key}, "machine", ""))
        mailbox.close()
        for _ in range(200):
            self.frontier.commit()
            self.frontier.check()
            if any(entry.number == number for entry in self.frontier.audit(limit=1)):
                break
        expected = self.model.delete(key) if key in self.model.queues else 0
        same("deleted", self.frontier.audit(limit=1)[0].effect["deleted"], expected)
        if key in self.model.queues:
            self.remember()
        self.model.commit()
        self.frontier.commit()

    @precondition(lambda self: self.model.dead)
    @rule()
    def replay(self) -> None:
        letters = [letter.uri.url for letter in self.frontier.dead_letters()]
        same("dead letters", letters, [uri.url for uri in self.model.dead])
        expected = self.model.replay()
        self.foresee("replay")
        assert self.frontier.replay() == expected
        self.remember()

    @precondition(lambda self: self.model.dead)
    @rule(really=rarely, for_good=rarely)
    def drop(self, really: bool, for_good: bool) -> None:
        if really:
            expected = self.model.drop()
            self.foresee("drop")
            assert self.frontier.drop_dead_letters(for_good=for_good) == expected
            self.model.last["for_good"] = for_good
            self.remember()

    @precondition(lambda self: len(self.model.done) > 1)
    @rule(key=keys, really=rarely, which=st.integers(0, 3))
    def delete_and_undo(self, key: str, really: bool, which: int) -> None:
        """As operators do who were wrong; something may happen in between."""
        self.delete(key, really)
        if which == 1:
            self.lease(1, 300.0)
        elif which == 2:
            self.operate(key, "retire", 0.0)
        self.undo(2 * (which == 2), False)

    # ---- durability

    @rule(really=rarely)
    def commit(self, really: bool) -> None:
        if really:
            self.model.commit()
            self.frontier.commit()
            with Reader(Path(self.folder) / "frontier") as reader:
                stored = [(lease.uri.url, lease.expires, lease.began) for lease in reader.leases()]
            known = [(lease.uri.url, lease.expires, lease.began) for lease in self.model.leases.values()]
            same("stored leases", sorted(stored), sorted(known))
            with Reader(Path(self.folder) / "frontier") as reader:
                *ended, current = reader.runs()
            same("runs", [(run.began, run.end, run.leased) for run in ended], self.model.runs)
            same("this run", (current.began, current.end), (self.model.began, None))

    @precondition(lambda self: not self.kept)
    @rule(
        changed=st.one_of(
            st.none(),
            values,
            st.sampled_from(((), *GROUPS)).map(lambda groups: {"groups": groups}),
            st.sampled_from((0, 1000)).map(lambda least: {"guards.min_free": least}),
        ),
        really=rarely,
    )
    def close_and_reopen(self, changed: dict[str, Any] | None, really: bool) -> None:
        if not really:
            return
        self.model.close()
        self.frontier.close()
        self.open_again(changed)
        self.look_at_disk()

    def open_again(self, changed: dict[str, Any] | None) -> None:
        """Open the frontier that was closed, with other settings if some have changed, of which hooks may be told."""
        self.finishes = self.model.counts["finishes"]
        if changed and any(self.options[name] != value for name, value in changed.items()):
            self.options = self.options | changed
            self.model.options = dict(self.options)
            self.model.settings_changed()
            self.model.commit()
        self.frontier = self.open(settings_of(self.options) if changed else None)

    @rule(keep_leases=booleans, really=rarely)
    def crash_and_reopen(self, keep_leases: bool, really: bool) -> None:
        if not really:
            return
        crash(self.frontier)
        self.model.crash(keep_leases=keep_leases)
        self.frontier = self.open(None, keep_leases=keep_leases)
        self.finishes = self.model.counts["finishes"]
        self.look_at_disk()

    @rule(
        specs=st.lists(uris, max_size=4),
        ends=st.lists(outcomes, max_size=6),
        options=ways_to_finish,
        killed=booleans,
        really=rarely,
    )
    def atomic_batch(
        self, specs: list[dict[str, Any]], ends: list[str], options: dict[str, Any], killed: bool, really: bool
    ) -> None:
        """Nothing of a batch is stored before its end, and then all of it, with its note."""
        if not really:
            return
        batch = self.frontier.atomic()
        self.model.in_batch = True
        batch.__enter__()
        self.schedule_many(specs[:2])
        self.work(2, ends, options)
        self.schedule_each(specs[2:])
        self.model.in_batch = False
        batch.note = str(len(self.handed)).encode()
        if killed:
            self.crash_and_reopen(False, True)
        else:
            batch.__exit__(None, None, None)
            self.model.batch_note = batch.note
            self.model.commit()

    # ---- comparing

    @invariant()
    def agree(self) -> None:
        assert self.frontier.note == self.model.batch_note
        for key, mine in self.model.queues.items():
            record = self.frontier.queue(key)
            assert record is not None, key
            told = {
                "state": str(record.state),
                "queued": record.queued,
                "out": record.out,
                "landed": record.landed,
                "expenditure": record.expenditure,
                "charges": record.charges,
                "average_cost": record.average_cost,
                "errors": record.errors,
                "failure": (record.failure, record.failed_at),
                "wake_time": max(record.wake_time, self.model.now),
            }
            expected = {
                "state": mine.state,
                "queued": len(mine.uris),
                "out": len(mine.out),
                "landed": len([uri for uri in mine.out if uri.landed]),
                "expenditure": mine.spent,
                "charges": mine.charges,
                "average_cost": (mine.spent - mine.penalties) / mine.charges if mine.charges else 0.0,
                "errors": mine.errors,
                "failure": (mine.failure, mine.failed_at),
                "wake_time": max(mine.wake, self.model.now),
            }
            if mine.uris:
                told |= {"precedence": record.precedence, "total_budget": record.total_budget}
                expected |= {"precedence": mine.precedence, "total_budget": mine.total}
            if mine.state in ("READY", "IN_PROCESS", "SNOOZED"):
                told["balance"], expected["balance"] = record.balance, mine.balance
            same(key, told, expected)
        told = dict(self.frontier.summary())
        told["pause_reason"] = re.sub(r"^(disk: \d+) B free in .*", r"\1", str(told["pause_reason"] or "")) or None
        same("summary", told, self.model.summary())
        out = sum(lease.queue.state not in UNCOUNTED for lease in self.model.leases.values())
        assert self.frontier.waiting() == self.model.queued() - out
        view = self.frontier._guard.tables.env.view()
        known = {one.entry for one in removed.needed(view)} & self.model.done.keys()
        same("kept for undo", known, kept(self.model))
        self.agree_on_groups()
        if self.options["keep_urls"]:
            self.agree_on_urls()
        self.agree_on_seeds()
        self.agree_on_tallies()
        self.agree_on_history()
        same("hook", self.finishes, self.model.counts["finishes"])
        self.frontier.check()

    def agree_on_groups(self) -> None:
        tables, model = kernel(self.frontier).tables, self.model
        view = tables.flushed()
        names = {queue_id: tables.queues.look(queue_id).queue for queue_id in range(1, tables.counters.queue_id + 1)}
        parked: dict[int, list[str]] = {}
        for key, value in view.items(PARKED):
            parked.setdefault(parked_key.unpack(key)[0], []).append(names[u32.unpack(value)[0]])
        told = {}
        for _, value in view.items(GROUP_TABLE):
            group = decode_group(value)
            told[group.name] = (
                group.queues, group.out, group.expenditure, max(group.wake_time, model.now), parked.get(group.id, [])
            )  # fmt: skip
        expected = {
            name: (
                len(model.members(name)),
                sum(len(queue.out) for queue in model.members(name)),
                sum(queue.spent for queue in model.members(name)),
                max(group.wake, model.now),
                [queue.key for queue in group.parked],
            )
            for name, group in model.groups.items()
        }
        same("groups", told, expected)

    def passed(self, due: int | None) -> int | None:
        """A due time that has passed says no more than that: since when is that of one of a URL's records."""
        return due and max(due, int(self.clock.time()))

    def agree_on_urls(self) -> None:
        tables = kernel(self.frontier).tables
        look, c = tables.queues.look, tables.counters
        told = {}
        for _, value in tables.flushed().items(URLS):
            row = decode_url(value)
            name = look(row.queue).queue
            told[expand(row.url, name)] = (name, row.created, self.passed(row.due))
        model = self.model
        expected = {url: (row.queue, row.created, self.passed(row.due)) for url, row in model.known.items()}
        same("URLs", told, expected)
        for key in model.queues:
            record = self.frontier.queue(key)
            assert record is not None
            same(key, (record.urls, record.completed), (len(model.rows(key)), model.completed(key)))
        active = {row.queue for url, row in model.known.items() if model.waits(url)}
        same(
            "numbers of URLs",
            (c.urls, c.completed, c.url_queues, c.active_url_queues),
            (len(model.rows()), model.completed(), len({row.queue for row in model.rows()}), len(active)),
        )

    def agree_on_seeds(self) -> None:
        tables = kernel(self.frontier).tables
        told = {row.url: Seed(row.queue, str(row.fate), row.reason) for _, row in seed_list.rows(tables.flushed())}
        same("seeds", told, self.model.seeds)
        same("their order", list(told), list(self.model.seeds))
        fates = {fate: count for fate, count in tables.counters.seed_fates.items() if count}
        same("their fates", fates, Counter(seed.fate for seed in self.model.seeds.values()))

    def agree_on_tallies(self) -> None:
        tables = kernel(self.frontier).tables
        for (kind, name), mine in self.model.tallies.items():
            found = tables.tallies.get(kind, name)
            same(f"{kind} {name}", {amount: getattr(found, amount) for amount in AMOUNTS}, {**NO_TALLY, **mine})

    def agree_on_history(self) -> None:
        view = kernel(self.frontier).tables.flushed()
        for key, mine in self.model.queues.items():
            queue = self.frontier.queue(key)
            found = None if queue is None else view.history(queue.id)
            if queue is None or mine.history is None or found is None:
                assert mine.history is None and found is None
                continue
            seconds, links, new, size = mine.history.means
            counts = found.success, found.retry, found.failure, found.disregarded
            told = (*counts, found.seconds, found.links, found.new, found.bytes)
            means = (seconds, links, new / links if links else math.nan, size * 1024)
            answers = view.answers(queue.id) or QueueAnswers()
            marked = {xxh3_64_intdigest(digest) % 64 for digest in mine.answers.contents}
            same(
                f"answers of {key}",
                (answers.classes, answers.kinds, answers.added, answers.digests, answers.bitmap),
                (
                    mine.answers.classes, mine.answers.kinds, mine.answers.added, len(mine.answers.contents),
                    sum(1 << bit for bit in marked),
                ),
            )  # fmt: skip
            same(key, told, (*mine.history.counts.values(), *(None if math.isnan(mean) else mean for mean in means)))

    def teardown(self) -> None:
        if not hasattr(self, "frontier"):
            return
        self.frontier.close()
        shutil.rmtree(self.folder)

    @rule(really=rarely)
    def drain(self, really: bool) -> None:
        """Crawl to the end, so that the order of everything still waiting is compared too."""
        if not really:
            return
        self.pause_or_resume(False)
        for _ in range(300):
            for lease, number in self.handed:
                if number in self.model.leases and self.model.finish(number, "SUCCESS", PLAIN, []):
                    self.frontier.finish(lease, Outcome.SUCCESS)
            before = len(self.handed)
            self.lease(3, 300.0)
            if len(self.handed) == before:
                groups = self.model.groups.values()
                parked = [queue for group in groups for queue in group.parked]
                snoozed = [queue for queue in self.model.queues.values() if queue.state == "SNOOZED"]
                soonest = [queue.wake for queue in snoozed if queue not in parked]
                soonest += [group.due for group in groups if group.due is not None]
                soonest += ranked_again(self.model)
                later = [(due, self.model.queues[uri.queue].state) for due, uri in self.model.future]
                soonest += [due for due, _ in later]
                if self.model.crawl_rests():
                    ready = [self.clock.time()] if self.model.ring or self.model.waiting() else []
                    soonest = [max(self.model.rests_until(), min([*soonest, *ready]))] if soonest or ready else []
                if not soonest or self.model.state in ("PAUSED", "FINISHED"):
                    break
                wait = min(soonest) - self.clock.time()
                if not any(state in UNCOUNTED for _, state in later):
                    same("next_ready_in", self.frontier.next_ready_in(), pytest.approx(wait))
                    self.model.asked = True
                self.time_passes(wait)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that concern many URIs take steps: here of two URIs each. Disks are looked at when a rule says so."""
    monkeypatch.setattr(runner, "STEP", 2)
    monkeypatch.setattr(disk_guard, "LOOK_EVERY", math.inf)
    monkeypatch.setattr(disk_guard, "free_bytes", lambda folder: DISK["free"])


TestFrontierMachine = FrontierMachine.TestCase
TestFrontierMachine.settings = few(50)


@contextmanager
def begun(
    options: dict[str, Any], pages: int, hosts: int, machine: FrontierMachine | None = None
) -> Iterator[FrontierMachine]:
    """A machine that is driven by hand."""
    machine = machine or FrontierMachine()
    try:
        machine.begin(options, pages, hosts)
        yield machine
    finally:
        machine.teardown()


# Rules drawn one by one seldom have two URIs of a host out, retry the later one alone, and ask again when it is due and
# the other is still out. So here is little else.
crowded = st.fixed_dictionaries(
    {
        "per_queue_concurrency": st.sampled_from((2, 3, 8, 1)),
        "retry_scope": st.sampled_from(("uri", "uri", "queue")),
        "balance_replenish_amount": st.sampled_from((3000, 3000, 5)),
        "queue_total_budget": st.sampled_from((-1, -1, -1, 12)),
        "polite": rarely,
        "max_retries": st.sampled_from((30, 30, 1)),
    }
)


@few(50)
@given(options=option_sets, crowd=crowded, pages=st.integers(2, 8), hosts=st.sampled_from((1, 2)), steps=overlapping)
def test_fetches_that_overlap(
    options: dict[str, Any], crowd: dict[str, Any], pages: int, hosts: int, steps: list[tuple[str, int]]
) -> None:
    with begun(options | crowd, pages, hosts) as machine:
        for start in range(0, len(steps), 10):
            machine.overlap(steps[start : start + 10])
            machine.agree()


@few(50)
@given(options=option_sets, crowd=crowded, hosts=st.sampled_from((1, 2)), steps=steering)
def test_commands_on_queues_that_are_undone(
    options: dict[str, Any], crowd: dict[str, Any], hosts: int, steps: list[tuple[str, int]]
) -> None:
    """While fetches end: what they have earned their hosts stays."""
    with begun(options | crowd | {"polite": True}, 8, hosts) as machine:
        for step in steps:
            machine.overlap([step])
            machine.agree()


def test_a_wake_undone_under_a_longer_rest_has_restored_nothing() -> None:
    """Its undo brings back a delay that the rest covers, and that nobody sees: there is nothing to undo."""
    with begun(OPTIONS | {"polite": True, "balance_replenish_amount": 3000}, 8, 1) as machine:
        for step in ("lease", "RETRY", "wake", "lease", "wait", "wait", "wait", "SUCCESS", "force", "undo"):
            machine.overlap([(step, 2 if step == "wait" else 0)])
            machine.agree()


def test_what_was_deleted_and_forgotten_comes_back_and_is_known() -> None:
    uri = SEED | {"url": "https://a.test/seed/0", "precedence": None}
    for keep_urls in (False, True):
        with begun(OPTIONS | {"keep_urls": keep_urls}, 2, 1) as machine:
            machine.delete("a.test", True)
            machine.forget(uri, 9, False)
            assert machine.model.last["forgotten"] == uri["url"]
            machine.agree()
            machine.undo(2, False)
            machine.agree()
            assert machine.model.last == {"command": "return", "undid": 1}
            machine.undo(2, False)
            machine.agree()
            assert machine.model.last == {"command": "return", "undid": 2}
            machine.drain(True)
            machine.agree()


def test_settings_of_groups_are_for_no_uris_once_the_groups_are_by_label_or_address() -> None:
    """No pattern of URIs stands for all of these groups: `adjust` would be refused."""
    for groups in GROUPS[8], GROUPS[5]:
        with begun(OPTIONS | {"groups": GROUPS[3], "precedence_floor": 4}, 1, 4) as machine:
            machine.adjust_groups("group:*", {"precedence": 5})
            machine.agree()
            assert machine.frontier.summary().queues["INELIGIBLE"] == 4
            machine.close_and_reopen({"groups": groups}, True)
            machine.schedule(SEED | {"url": "https://c.a.test/0"})
            machine.agree()


def test_a_dry_run_says_where_a_queue_goes_that_was_retired_by_name_under_other_settings() -> None:
    for policy in ({"success-counts": {"tiers": [2, 1]}}, "highest-uri", "base"):
        with begun(OPTIONS | {"precedence_floor": 4, "precedence_policy": policy}, 1, 2) as machine:
            machine.adjust("*", {"precedence": 5})
            machine.operate("a.test", "retire", 0.0)
            machine.undo(2, False)
            machine.agree()
            machine.operate("a.test", "unretire", 0.0)
            machine.agree()


def test_unretire_counts_queues_over_a_quota_that_are_in_no_group_yet() -> None:
    with begun(OPTIONS | {"groups": GROUPS[8], "quotas.host": {"novel_bytes": 0}}, 2, 4) as machine:
        machine.operate("d.test", "retire", 0.0)
        machine.work(4, ["DEFERRED"], PLAIN)
        machine.agree()
        machine.operate_on_many("queue:?.test", None, "unretire", 5.0)
        machine.agree()
        assert machine.frontier.audit(limit=1)[0].effect["still_over"] == 3


def test_a_link_to_the_page_itself_is_no_seed_and_no_revisit() -> None:
    page = SEED | {"url": "https://d.test/11", "directive": 0}
    with begun(OPTIONS, 0, 1) as machine:
        machine.schedule(page | {"force": True})
        machine.lease(1, 300.0)
        machine.finish(0, "DEFERRED", PLAIN, [page | {"queue": "forced", "not_before": 40.0}])
        machine.agree()


def test_what_others_have_fetched_reserves_no_more_before_the_turn() -> None:
    """A queue that has less means by that is READY until its turn, as after `mark_seen` and an adjustment."""
    with begun(OPTIONS | {"keep_urls": True, "per_queue_concurrency": 8, "retire_when": "reached"}, 3, 1) as machine:
        machine.adjust("*", {"queue_total_budget": 2})
        machine.lease(1, 300.0)
        machine.fetched(SEED | {"url": "https://a.test/seed/2"}, 9, None)
        machine.agree()
        machine.lease(1, 300.0)
        machine.agree()
        assert machine.frontier.summary().queues["IN_PROCESS"] == 1


def test_a_budget_that_a_crawler_asks_for_gives_way_to_that_of_the_uri_that_goes_out_next() -> None:
    """The head of a queue is the first URI that is not out, for a budget as for all else."""
    of_adjustment = SEED | {"url": "https://b.test/3", "directive": 0, "source": "one"}
    with begun(OPTIONS, 1, 1) as machine:
        machine.adjust("label:one", {"queue_total_budget": 2})
        machine.schedule_many([of_adjustment, SEED | {"url": "https://b.test/5", "source": "two"}])
        machine.lease(2, 300.0)
        machine.regulate("b.test", {"total_budget": 5})
        machine.agree()
        queue = machine.frontier.queue("b.test")
        assert queue is not None and (queue.out, queue.total_budget) == (1, 5)


def test_a_duplicate_that_becomes_the_head_changes_no_settings_of_before() -> None:
    """A change of settings counts for the head that a queue had then; the next one is asked at the activation."""
    late = SEED | {"url": "https://b.test/3", "source": "one"}
    with begun(OPTIONS | {"keep_urls": True, "update_priority": True, "hold_queues": False}, 0, 1) as machine:
        machine.schedule_many([SEED | {"url": "https://b.test/7", "directive": 2, "source": "two"}, late])
        machine.adjust("label:one", {"precedence": 5})
        machine.schedule(late | {"directive": 0})
        machine.agree()
        queue = machine.frontier.queue("b.test")
        assert queue is not None and queue.precedence == 3


def test_a_wake_that_has_ended_closed_windows_alone_has_nothing_to_undo() -> None:
    with begun(OPTIONS, 2, 1) as machine:
        machine.adjust("queue:?.test", {"guards.windows": ("daily 13:47-13:50 UTC",)})
        machine.lease(1, 300.0)
        machine.agree()
        machine.operate("a.test", "wake", 0.0)
        machine.agree()
        machine.undo(0, True)
        machine.agree()


def test_a_queue_that_an_expiry_has_put_into_the_ring_leaves_it_with_a_landing_if_nothing_may_go_out() -> None:
    pages = [SEED | {"url": f"https://c.a.test/{number}", "cost": cost} for number, cost in enumerate((1, 5))]
    with begun(OPTIONS, 0, 1) as machine:
        machine.schedule(pages[0])
        machine.lease(1, 15.0)
        machine.landed(0, PLAIN)
        machine.schedule(pages[1])
        machine.lease(1, 2000.0)
        machine.time_passes(45.0)
        machine.landed(1, PLAIN)
        machine.agree()
        assert machine.frontier.summary().queues["IN_PROCESS"] == 1


def test_an_activation_that_retires_a_queue_ends_its_wait_for_crawl_windows() -> None:
    with begun(OPTIONS | {"guards.windows": ("daily 13:47-13:50 UTC",)}, 1, 1) as machine:
        machine.adjust("label:one", {"guards.windows": ()})  # so that not all windows are closed
        machine.lease(1, 15.0)
        machine.adjust("queue:a.test", {"balance_replenish_amount": -1})
        machine.delete("a.test", True)
        machine.undo(0, False)
        waits = machine.frontier.queue("a.test")
        assert waits is not None and waits.state == "INACTIVE" and waits.wake_time > machine.model.now
        machine.lease(1, 15.0)
        machine.agree()
        retired = machine.frontier.queue("a.test")
        assert retired is not None and retired.state == "RETIRED" and retired.wake_time <= machine.model.now


disks = st.lists(
    st.one_of(st.sampled_from((999, 1249, 1250)), st.sampled_from(("operator", "undo", "lease", "reopen", "crash"))),
    min_size=5,
    max_size=20,
)


@few(50)
@given(options=option_sets, steps=disks)
def test_pauses_while_a_disk_is_nearly_full(options: dict[str, Any], steps: list[int | str]) -> None:
    with begun(options | {"guards.min_free": 1000}, 4, 2) as machine:
        for number, step in enumerate(steps):
            if isinstance(step, int):
                machine.fill_disk(step)
            elif step == "operator" and machine.model.state not in ("NEW", "FINISHED"):
                machine.pause_or_resume(number % 2 == 0)
            elif step == "undo" and machine.model.done:
                machine.undo(number % 3, number % 2 == 0)
            elif step == "lease":
                machine.work(1 + number % 2, ["SUCCESS"], PLAIN)
            elif step == "reopen" and not machine.kept:
                machine.close_and_reopen(None, True)
            elif step == "crash":
                machine.crash_and_reopen(number % 2 == 0, True)
            machine.agree()
