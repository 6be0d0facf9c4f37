"""What a frontier must do, in plain lists and dicts: written from the contract, for obviousness and not for speed."""

from __future__ import annotations

import math
import pickle
import struct
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

READY, IN_PROCESS, SNOOZED = "READY", "IN_PROCESS", "SNOOZED"
INACTIVE, INELIGIBLE, RETIRED, EXHAUSTED = "INACTIVE", "INELIGIBLE", "RETIRED", "EXHAUSTED"
ANSWERS = ("answers_2xx", "answers_3xx", "answers_4xx", "answers_5xx", "unanswered")
LIMITS = ("max_queued", "max_queue_size", "bloom.expected")
STATES = (READY, IN_PROCESS, SNOOZED, INACTIVE, INELIGIBLE, RETIRED, EXHAUSTED)
UNCOUNTED = (INELIGIBLE, RETIRED)
"""Their URIs keep no crawl from finishing."""

PLAIN: dict[str, Any] = {
    "fetch_seconds": None,
    "crawl_delay": None,
    "delay": None,
    "retire_queue": False,
    "size": 0,
    "reason": "",
    "status": 0,
    "address": "",
    "novel": None,
    "digest": b"",
}
"""The options of a finish without any."""

OPTIONS: dict[str, Any] = {
    "sheets": False,
    "hold_queues": True,
    "balance_replenish_amount": 3,
    "queue_total_budget": -1,
    "retire_when": "exceeded",
    "error_penalty_amount": 0,
    "precedence": 3,
    "max_queued": 0,
    "max_queue_size": 0,
    "order": "fifo",
    "pause_at_finish": False,
    "max_deliveries": 20,
    "per_queue_concurrency": 1,
    "polite": False,
    "max_retries": 30,
    "retry_delay": 0.0,
    "status_delay": 0.0,
    "retry_scope": "queue",
    "backoff": True,
    "min_interval": 0.0,
    "groups": (),
    "max_bandwidth": 0,
    "group": {},
    "queue_bandwidth": 0,
    "keep_urls": False,
    "update_priority": False,
    "queue_assignment_policy": "hostname",
    "defer_to_previous": True,
    "duplicates": "exact",
    "expected": 10_000,
    "precedence_floor": None,
    "quotas.host": {},
    "quotas.queue": {},
    "quotas.label": {},
    "quotas.force_retire": True,
    "guards.windows": (),
    "guards.min_free": 0,
    "precedence_policy": "base",
    "uri_precedence_policy": "cost",
    "target_active": "auto",
}
"""Settings, by the names of the model, that use none of the rarer features; those not given to a model are as here."""


SHEETS: dict[str, dict[str, int]] = {
    "small": {"queue_total_budget": 4},
    "soon": {"queue_total_budget": 9, "precedence": 1},
}
ASSOCIATIONS = {("soon", "surt:(test,a,"): 0, ("small", "surt:(test,a,c,"): 0, ("small", "label:two"): 1}
"""The sheets of the settings, with `sheets`, and the order of what they are associated with."""

PRELOADED = Path(__file__).with_name("precedences.txt")
PRECEDENCES = {url: int(value) for url, value in map(str.split, PRELOADED.read_text(encoding="utf-8").splitlines())}
"""The precedences of URIs that the policy `preloaded` reads."""

FATES = {"SUCCESS": "SUCCEEDED", "FAILURE": "FAILED", "DISREGARDED": "DISREGARDED", "RETRY": "WAITING"}
"""What becomes of a seed by an outcome; DEAD ones are buried."""


REMEMBERED = ("SUCCESS", "RETRY", "FAILURE", "DISREGARDED")
"""The outcomes of which a queue has a history."""


def shows(window: str, minute: float) -> bool:
    """Whether the clock of a window's zone shows a time in it, at a minute since 1970; here all are of that year."""
    days, hours, zone = window.split()
    minute += {"UTC": 0, "Europe/Berlin": 60}[zone]
    day, of_day = int(minute // 1440 + 3) % 7, minute % 1440
    start, end = (int(time[:2]) * 60 + int(time[3:]) for time in hours.split("-"))
    on = {"daily": range(7), "mon": [0], "tue": [1], "tue-sun": range(1, 7)}[days]
    if start < end:
        return day in on and start <= of_day < end
    return (day in on and start <= of_day) or ((day - 1) % 7 in on and of_day < end)


@dataclass(eq=False)
class Uri:
    url: str
    queue: str
    cost: int
    directive: int
    priority: int
    arrival: int
    retries: int = 0
    deliveries: int = 0
    out: bool = False
    landed: bool = False
    forced: bool = False
    """Whether its key was given with it."""
    found: bool = False
    """Whether it was discovered: it is no seed then."""
    again: bool = False
    """Whether it was scheduled with `force`."""
    buried: int = 0
    postponed: int = 0
    label: str | None = None
    links: int = 0
    """Those on the path from its seed."""
    precedence: int | None = None
    """None: that of its cost."""

    @property
    def host(self) -> str:
        return self.url.split("/")[2]


@dataclass
class History:
    """How often each outcome was, and the running means: of seconds, links, new links, KiB."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REMEMBERED, 0))
    means: list[float] = field(default_factory=lambda: [math.nan] * 4)

    def take(self, which: int, value: float, attempts: int) -> None:
        """Each mean goes on by a part of the difference: one over the attempts, at the least a 64th."""
        before = self.means[which]
        value = min(value, 65504.0)
        mean = value if math.isnan(before) else before + (value - before) / min(attempts, 64)
        [self.means[which]] = struct.unpack("e", struct.pack("e", mean))

    def duration(self, seconds: float | None, more: int = 0) -> None:
        if seconds is not None:
            self.take(0, seconds, sum(self.counts.values()) - self.counts["DISREGARDED"] + more)

    def attempt(self, outcome: str, seconds: float | None, links: int, new: int, size: int) -> None:
        self.counts[outcome] += 1
        self.duration(None if outcome == "DISREGARDED" else seconds)
        if outcome == "SUCCESS":
            for which, value in enumerate((links, new, size / 1024), 1):
                self.take(which, value, self.counts["SUCCESS"])


@dataclass
class Answers:
    """The attempts by class of status, errors by kind, and the contents since the window began."""

    classes: list[int] = field(default_factory=lambda: [0] * 5)
    kinds: Counter[str] = field(default_factory=Counter)
    added: int = 0
    contents: list[bytes] = field(default_factory=list)

    def attempt(self, outcome: str, status: int, reason: str, digest: bytes) -> None:
        if status >= 200:
            self.classes[status // 100 - 2] += 1
        elif outcome != "SUCCESS" and reason.startswith("status "):
            self.classes[int(reason[7]) - 2] += 1
        elif outcome != "SUCCESS" or status:
            self.classes[4] += 1
        if outcome != "SUCCESS" or status >= 400:
            self.kinds[f"status {status}" if status >= 400 else reason or "no reason"] += 1
        elif digest and status < 300:
            self.contents = [*(self.contents if len(self.contents) < 64 else ()), digest]


@dataclass(eq=False)
class Queue:
    key: str
    id: int
    state: str = EXHAUSTED
    uris: list[Uri] = field(default_factory=list)
    precedence: int = 3
    replenish: int = 0
    total: int = -1
    balance: int = 0
    spent: int = 0
    charges: int = 0
    succeeded: int = 0
    penalties: int = 0
    errors: int = 0
    failure: str = ""
    failed_at: float = 0.0
    bytes: int = 0
    rest: float = 0.0  # until when politeness, retries and delays let it rest
    block: float = 0.0  # until when its operator does
    by_name: bool = False
    placed: int = 0
    interval: float | None = None  # between two leases, by name
    own_budget: int | None = None  # that crawlers have asked for
    limit: int = 0  # of completed URLs
    served: float = 0.0  # when it was leased from last
    paced: float = 0.0  # until when its interval lets it rest
    closed: float = 0.0  # until when its crawl windows are closed, as of its last turn
    backoff: float = 0.0  # the length of the last back-off
    overloaded: float = 0.0  # until when its host rests for a 429 or 503
    dead_prerequisite: int = 0  # which of the URIs buried was its last prerequisite
    group: str = ""
    grouped: int = 0  # by which change of settings its group was chosen
    busy: float = 0.0  # until when its bytes take as long as its bandwidth allows
    history: History | None = None  # None: no attempt has ended with details
    answers: Answers = field(default_factory=Answers)

    @property
    def wake(self) -> float:
        return max(self.host_wake, self.closed)

    @property
    def host_wake(self) -> float:
        """Until when it waits for its host: its crawl windows are its own."""
        return max(self.rest, self.block, self.paced)

    @property
    def out(self) -> list[Uri]:
        return [uri for uri in self.uris if uri.out]


@dataclass(eq=False)
class Group:
    """Queues that share a clock, a number of fetches in flight, or a budget."""

    wake: float = 0.0  # until when its clock lets it rest
    busy: float = 0.0  # until when its bytes take as long as its bandwidth allows
    parked: list[Queue] = field(default_factory=list)  # its queues that wait for it, in the order of their turns
    due: float | None = None  # when they are let go on, if nothing else does so before


@dataclass(eq=False)
class Known:
    """A URL that is kept, and the last URI that waits or is out under it; None once that is gone."""

    queue: str
    created: int
    uri: Uri | None
    due: int = 0


@dataclass
class Seed:
    """A seed of the list, and what has become of it."""

    queue: str
    fate: str
    reason: str = ""


@dataclass(eq=False)
class Adjustment:
    id: int
    match: str
    chosen: dict[str, Any]

    @property
    def sheet(self) -> str:
        """The sheet that it is about, if it is."""
        named = self.chosen.get("sheet") or self.chosen.get("without_sheet") or ""
        return self.match.removeprefix("sheet:") if self.match.startswith("sheet:") else str(named)

    @property
    def names(self) -> set[str]:
        """What it sets: settings, or whether a sheet is associated with its match."""
        if self.chosen.keys() & {"sheet", "without_sheet"}:
            return {f"the sheet {self.sheet}"}
        of_groups = {f"group.{name}" for name in self.chosen.get("group", ())}
        return {*self.chosen} - {"group"} | of_groups


@dataclass(eq=False)
class Lease:
    queue: Queue
    uri: Uri
    expires: float
    delivery: int
    began: float


class Look(NamedTuple):
    """What an operator changes of a queue."""

    state: str
    by_name: bool
    rest: float
    block: float
    interval: float | None
    limit: int


def registered(host: str) -> str:
    """The registered domain of one of the hosts here, below the domain "test", or an address."""
    return host if host[-1].isdigit() or ":" in host else ".".join(host.split(".")[-2:])


class Model:
    """The engine's operations, by the same names. Every one ends with `settle`."""

    def __init__(self, options: dict[str, Any], now: float) -> None:
        self.options, self.now = OPTIONS | options, now
        self.adjustments: list[Adjustment] = []
        self.last: dict[str, Any] = {}  # what the last command of an operator did
        self.done: dict[int, dict[str, Any]] = {}  # what those did that `undo` may be given, by their audit entries
        self.queues: dict[str, Queue] = {}
        self.ring: list[Queue] = []
        self.fifos: dict[int, list[Queue]] = {}
        self.ineligible: list[Queue] = []
        self.retired: list[Queue] = []
        self.leases: dict[int, Lease] = {}
        self.future: list[tuple[float, Uri]] = []
        self.groups: dict[str, Group] = {}  # those with queues, in the order in which they began
        self.revision = 1
        self.busy = 0.0  # until when the bytes of the crawl take as long as its bandwidth allows
        self.windows_before = self.windows()
        self.linking: dict[str, set[str]] = {}  # by registered domain: the others that link to it
        self.ranked: dict[str, int] = {}  # their numbers when the domains were ranked last
        self.epoch = 0.0  # when the epoch began
        self.dead: list[Uri] = []
        self.seen: set[str] = set()
        self.seeds: dict[str, Seed] = {}  # in the order of arrival
        self.known: dict[str, Known] = {}
        self.addresses: dict[str, tuple[str, int]] = {}  # of hosts, and since when they are known by them
        self.counts: Counter[str] = Counter()
        self.error_answers: Counter[str] = Counter()
        self.tallies: dict[tuple[str, str], Counter[str]] = {}  # of hosts, of queues, with labels
        self.arrivals = 0
        self.state, self.reason = "NEW", None  # type: str, str | None
        self.lease_ids = 0
        self.committed = b""
        """What a crash leaves: a copy of everything, pickled, because `copy.deepcopy` takes ten times as long."""
        self.in_batch = False
        self.batch_note: bytes | None = None
        self.runs: list[tuple[float, str, int | None]] = []  # beginning, end, URIs handed out
        self.begin()

    # ---- what a queue is worth, and where it stands

    def values_for(self, uri: Uri) -> tuple[dict[str, Any], bool]:
        """What is in force for a URI, and whether an adjustment has set its total budget."""
        values, adjusted = dict(self.options), False
        for number, (match, chosen) in enumerate([*self.of_sheets(), *self.plain()]):
            kind, _, what = match.partition(":")
            backwards = ",".join(reversed(uri.host.split("."))) + ","
            if (
                match == "*"
                or (kind == "surt" and backwards.startswith(what.removeprefix("(")))
                or (kind == "queue" and fnmatchcase(uri.queue, what))
                or (kind == "label" and uri.label == what)
                or (kind == "host" and fnmatchcase(uri.host, what))
                or (kind == "domain" and ("." + uri.host).endswith("." + what))
                or (kind == "group" and self.definition_fits(what, uri))
            ):
                values.update(chosen)
                adjusted |= "queue_total_budget" in chosen and number >= len(self.of_sheets())
        return values, adjusted

    def take(self, queue: Queue, uri: Uri) -> None:
        """The queue takes the values of this URI."""
        values, adjusted = self.values_for(uri)
        if queue.own_budget is not None and not adjusted:
            values["queue_total_budget"] = queue.own_budget
        queue.replenish, queue.total = values["balance_replenish_amount"], values["queue_total_budget"]
        queue.precedence = values["precedence"] + self.tiers_completed(queue) + self.of_uris(queue)

    def of_uris(self, queue: Queue) -> int:
        """With the policy highest-uri: the lowest precedence of its URIs, those that are out as well."""
        if self.options["precedence_policy"] != "highest-uri":
            return 0
        return min(map(self.among_its_like, queue.uris), default=0)

    def tiers_completed(self, queue: Queue) -> int:
        """With the policy success-counts; the last tier repeats."""
        if self.options["precedence_policy"] in ("base", "highest-uri"):
            return 0
        completed, left = 0, queue.succeeded
        tiers = list(self.options["precedence_policy"]["success-counts"]["tiers"])
        while left >= tiers[0]:
            left -= tiers[0]
            completed += 1
            tiers = tiers[1:] or tiers
        return completed

    def evaluate_again(self, queue: Queue) -> None:
        """A finish; with success-counts, one that lets its queue not wait: its precedence is that for its head now."""
        policy = self.options["precedence_policy"]
        if policy == "base" or not queue.uris or (policy != "highest-uri" and queue.wake > self.now):
            return
        before, replenish, total = queue.precedence, queue.replenish, queue.total
        self.take(queue, self.head(queue))
        queue.replenish, queue.total = replenish, total
        if queue.precedence != before:
            self.precedence_changed(queue)

    def names(self, uri: Uri, group: str | None = None) -> dict[str, str]:
        """What a URI is counted for, besides the totals: in this group, or that of its queue."""
        names = {"host": uri.host, "queue": uri.queue} | ({"label": uri.label} if uri.label else {})
        if group := self.queues[uri.queue].group if group is None else group:
            names["group"] = group
        limited = {
            kind
            for values in (self.options, *(chosen for _, chosen in (*self.of_sheets(), *self.plain())))
            for kind in ("host", "queue", "label")
            if values.get(f"quotas.{kind}")
        }
        if self.options["groups"] and any(
            values.get("quotas")
            for values in (*self.options["groups"], *(chosen.get("group", {}) for _, chosen in self.plain()))
        ):
            limited.add("group")
        return {kind: name for kind, name in names.items() if kind == "label" or kind in limited}

    def tally(self, uri: Uri, outcome: str, size: int, novel: bool | None) -> None:
        ended, is_new = outcome in ("SUCCESS", "FAILURE", "DEAD"), outcome == "SUCCESS" and novel is not False
        for of in self.names(uri).items():
            tally = self.tallies.setdefault(of, Counter())
            what = "success" if outcome == "SUCCESS" else "error"
            tally[{"success": "successes", "error": "errors"}[what]] += ended
            tally["urls"] += ended
            tally[f"{what}_bytes"] += size
            tally["bytes"] += size
            tally["novel"] += is_new
            tally["novel_bytes"] += is_new * size

    def quota(self, kind: str, name: str, values: dict[str, Any]) -> dict[str, int]:
        found: dict[str, int] = self.limits(name)["quotas"] if kind == "group" else values[f"quotas.{kind}"]
        return found

    def quota_is_used_up(self, uri: Uri, group: str | None = None) -> bool:
        values, _ = self.values_for(uri)
        return any(
            self.tallies.get((kind, name), Counter())[amount] >= limit
            for kind, name in self.names(uri, group).items()
            for amount, limit in self.quota(kind, name, values).items()
        )

    def over_quota(self, queue: Queue) -> bool:
        """The next URI of a queue is not leased, because a quota is used up."""
        uri = self.head(queue)
        values, _ = self.values_for(uri)
        if not self.quota_is_used_up(uri):
            return False
        if values["quotas.force_retire"]:
            self.move(queue, RETIRED)
            return True
        self.became(uri, "DISREGARDED", "quota")
        self.counts["DISREGARDED"] += 1
        if uri.directive == 0:
            self.counts["prerequisites"] += 1
            self.counts["prerequisites DISREGARDED"] += 1
        else:
            self.counts["quota"] += 1
        queue.uris.remove(uri)
        self.gone(uri)
        if not queue.uris:
            self.move(queue, EXHAUSTED)
        self.reconsider(queue)
        return True

    def sheets(self) -> tuple[dict[str, dict[str, int]], dict[tuple[str, str], int]]:
        """The values of the sheets, and what they are associated with, as operators have changed them."""
        there = self.options["sheets"]
        sheets = {name: dict(values) for name, values in SHEETS.items()} if there else {}
        associated = dict(ASSOCIATIONS) if there else {}
        for one in self.adjustments:
            if one.match.startswith("sheet:"):
                sheets.setdefault(one.sheet, {}).update(one.chosen)
            elif "sheet" in one.chosen:
                associated[one.sheet, one.match] = one.chosen.get("sheet_order", 0)
            elif "without_sheet" in one.chosen:
                associated.pop((one.sheet, one.match), None)
        return sheets, associated

    def plain(self) -> list[tuple[str, dict[str, Any]]]:
        """The adjustments that are about no sheet."""
        return [(one.match, one.chosen) for one in self.adjustments if not one.sheet]

    def of_sheets(self) -> list[tuple[str, dict[str, int]]]:
        """SURT prefixes, the shortest first, then the others in their order."""
        sheets, associated = self.sheets()
        found = sorted(
            (not match.startswith("surt:"), len(match) if match.startswith("surt:") else 0, order, name, match)
            for (name, match), order in associated.items()
        )
        return [(match, sheets.get(name, {})) for *_, name, match in found]

    def in_order(self, queue: Queue) -> list[Uri]:
        turn = -1 if self.options["order"] == "lifo" else 1
        return sorted(
            queue.uris,
            key=lambda uri: (uri.directive, -uri.priority, self.among_its_like(uri), turn * uri.arrival),
        )

    @staticmethod
    def among_its_like(uri: Uri) -> int:
        return uri.cost if uri.precedence is None else uri.precedence

    def uri_precedence(self, spec: dict[str, Any], uri: Uri) -> int | None:
        """What is given with a URI, or else what the policy in force for it says, is fixed when it is scheduled."""
        policy = self.values_for(uri)[0]["uri_precedence_policy"]
        given = self.by_policy(policy, uri) if spec.get("precedence") is None else int(spec["precedence"])
        return None if given is None else min(max(given, 0), 127)

    def by_policy(self, policy: Any, uri: Uri) -> int | None:
        if policy == "cost":
            return None
        if "preloaded" in policy:
            options = policy["preloaded"]
            value = PRECEDENCES.get(uri.url)
            return self.by_policy(options["default"], uri) if value is None else int(options["base"]) + value
        return 1 if policy == "base" else int(policy["hops"]["base"]) + uri.links

    def head(self, queue: Queue) -> Uri:
        waiting = [uri for uri in self.in_order(queue) if not uri.out]
        return waiting[0] if waiting else self.in_order(queue)[0]

    def over(self, queue: Queue, reserved: int = 0) -> bool:
        spent, reached = queue.spent + reserved, self.options["retire_when"] == "reached"
        return queue.total >= 0 and (spent > queue.total or (reached and spent == queue.total))

    def spent(self, queue: Queue) -> bool:
        """It is RETIRED instead of having its turn."""
        return queue.replenish <= 0 or self.over(queue) or 0 < queue.limit <= self.completed(queue.key)

    def may_hand_out(self, queue: Queue, at_most: int = 1 << 16) -> bool:
        """Section 1: leases are out, and nothing more may go out, is IN_PROCESS."""
        out = queue.out
        reserved = sum(uri.cost for uri in out)
        return not out or (
            len([uri for uri in out if not uri.landed]) < min(self.options["per_queue_concurrency"], at_most)
            and len(out) < len(queue.uris)
            and reserved < queue.balance
            and not self.over(queue, reserved)
        )

    def move(self, queue: Queue, state: str, *, surely: bool = False) -> None:
        """To the back of wherever queues of that state wait; READY only if it may hand out something, or `surely`."""
        if state == SNOOZED == queue.state:
            return
        before = queue.state
        places = (self.ring, self.ineligible, self.retired, *self.fifos.values())
        for place in (*places, *(group.parked for group in self.groups.values())):
            if queue in place:
                place.remove(queue)
        if state == READY and not surely and not self.may_hand_out(queue):
            state = IN_PROCESS
        elif state == READY and queue.wake > self.now:
            state = SNOOZED
        elif state == INACTIVE and self.below_floor(queue):
            state = INELIGIBLE
        queue.state = state
        if state == READY:
            self.ring.append(queue)
        elif state == INACTIVE:
            self.fifos.setdefault(queue.precedence, []).append(queue)
        elif state == INELIGIBLE:
            self.ineligible.append(queue)
        elif state == RETIRED:
            self.retired.append(queue)
        if queue.group and before == READY != state and not queue.out and self.groups[queue.group].parked:
            self.groups[queue.group].due = 0.0  # another may go on in its place

    # ---- groups of queues

    def limits(self, name: str) -> dict[str, Any]:
        """Those of its definition, and in their place those that an operator has set for `group:NAME[/VALUE]`."""
        found, (first, _, value) = self.definition(name), name.partition("/")
        if found["total_budget"] == "star":
            found["total_budget"] = self.star_budget(value)
        for match, chosen in self.plain() if any(one["name"] == first for one in self.options["groups"]) else ():
            kind, _, what = match.partition(":")
            named, slash, valued = what.partition("/")
            if kind == "group" and fnmatchcase(first, named) and (not slash or (value and fnmatchcase(value, valued))):
                found |= chosen.get("group", {})
        return found

    def definition_fits(self, pattern: str, uri: Uri) -> bool:
        """Whether a URI fits the definition of a group that `group:NAME[/VALUE]` names, as that group."""
        named, slash, valued = pattern.partition("/")
        for one in self.options["groups"]:
            kind, _, what = one.get("match", "").partition(":")
            if not fnmatchcase(one["name"], named) or (slash and "match" in one):
                continue
            fits = {
                "*": True,
                "queue": fnmatchcase(uri.queue, what),
                "domain": ("." + uri.host).endswith("." + what),
            }
            if "match" in one and fits[kind]:
                return True
            by_uri = one.get("by") not in (None, "ip", "label")  # no pattern of URIs stands for all labels or addresses
            if by_uri and (not slash or fnmatchcase(self.group_value(one, uri), valued)):
                return True
        return False

    @staticmethod
    def group_value(one: dict[str, Any], uri: Uri) -> str:
        if one["by"] == "registered-domain":
            return registered(uri.host)
        if one["by"] == "label":
            return (uri.label or "").encode()[:399].decode(errors="ignore")
        parts = uri.host.split(".")[::-1]
        return uri.host if one["by"] == "host" else ",".join(parts[: one["segments"]])

    def definition(self, name: str) -> dict[str, Any]:
        plain: dict[str, Any] = {"politeness": False, "max_in_flight": None, "total_budget": -1, "max_bandwidth": 0}
        plain["quotas"] = {}
        for one in self.options["groups"]:
            if one["name"] == name.partition("/")[0]:
                plain |= one
        if plain["politeness"] and plain["max_in_flight"] is None:
            plain["max_in_flight"] = 1
        return plain

    def chosen_group(self, queue: Queue, uri: Uri) -> str:
        for one in self.options["groups"]:
            kind, _, what = one.get("match", "").partition(":")
            if (
                one.get("match") == "*"
                or (kind == "queue" and fnmatchcase(queue.key, what))
                or (kind == "domain" and ("." + uri.host).endswith("." + what))
            ):
                return str(one["name"])
            if one.get("by") == "ip" and uri.host in self.addresses:
                return f"{one['name']}/{self.addresses[uri.host][0]}"
            if one.get("by") in ("host", "surt", "registered-domain") or (one.get("by") == "label" and uri.label):
                return f"{one['name']}/{self.group_value(one, uri)}"
        return ""

    def star_budget(self, domain: str) -> int:
        """Of the two domains with the most links, as the last ranking found them: from 2, to 6 for the first."""
        degrees = sorted(self.ranked.values(), reverse=True)
        lowest = degrees[2] if len(degrees) > 2 else 0
        above = self.ranked.get(domain, 0) - lowest
        return 2 + 4 * above // (degrees[0] - lowest) if above > 0 else 2

    def links(self) -> bool:
        return any(one["total_budget"] == "star" for one in self.options["groups"] if "total_budget" in one)

    def note_link(self, url: str, via: Uri | None) -> None:
        """A URI was found on a page of another registered domain."""
        domain = registered(url.split("/")[2])
        if self.links() and via is not None and registered(via.host) != domain:
            self.linking.setdefault(domain, set()).add(registered(via.host))

    def rank(self) -> None:
        """With other ranks, budgets change as by settings."""
        degrees = {domain: len(linking) for domain, linking in self.linking.items()}
        if self.links() and degrees != self.ranked:
            self.ranked = degrees
            self.settings_changed()

    def end_epoch(self) -> None:
        if self.links() and self.now >= self.epoch + 100.0:
            self.epoch = self.now
            self.rank()

    def choose_group(self, queue: Queue, uri: Uri) -> None:
        queue.grouped = self.revision
        if any(one.get("by") == "ip" for one in self.options["groups"]) and uri.host not in self.addresses:
            queue.grouped = 0
        before, queue.group = queue.group, self.chosen_group(queue, uri)
        if before and before != queue.group:
            if not self.members(before):
                del self.groups[before]
            elif self.groups[before].parked:
                self.groups[before].due = 0.0
        if queue.group:
            self.groups.setdefault(queue.group, Group())

    def members(self, name: str) -> list[Queue]:
        return [queue for queue in self.queues.values() if queue.group == name]

    def group_spent(self, name: str, *, reserved: bool = False) -> bool:
        """Whether its total budget is spent, what is out included if it is `reserved`."""
        spent = sum(queue.spent for queue in self.members(name))
        if reserved:
            spent += sum(uri.cost for queue in self.members(name) for uri in queue.out)
        total = self.limits(name)["total_budget"]
        return bool(total >= 0 and (spent > total or (self.options["retire_when"] == "reached" and spent == total)))

    def room(self, name: str) -> int:
        out = [uri for queue in self.members(name) for uri in queue.out]
        if out and self.group_spent(name, reserved=True) and not self.group_spent(name):
            return 0
        most = self.limits(name)["max_in_flight"]
        return 1000 if most is None else max(most - len([uri for uri in out if not uri.landed]), 0)

    def clock(self, name: str) -> float:
        limits, group = self.limits(name), self.groups[name]
        return max(group.wake if limits["politeness"] else 0.0, group.busy if limits["max_bandwidth"] else 0.0)

    def stopped(self, queue: Queue) -> bool:
        """Its next URI is not leased: for its windows or a quota, or its group has spent its budget, or waits."""
        if (opens := self.opens(self.values_for(self.head(queue))[0]["guards.windows"])) > self.now:
            queue.closed = opens
            self.move(queue, SNOOZED)
            return True
        if queue.grouped != self.revision:
            self.choose_group(queue, self.head(queue))
        if self.over_quota(queue):
            return True
        if not queue.group:
            return False
        if self.group_spent(queue.group):
            self.move(queue, RETIRED)
        elif self.clock(queue.group) > self.now or not self.room(queue.group):
            self.ring.remove(queue)
            queue.state = SNOOZED
            self.groups[queue.group].parked.append(queue)
            if self.clock(queue.group) > self.now:
                self.groups[queue.group].due = self.clock(queue.group)
        else:
            return False
        return True

    def let_go_on(self, name: str) -> None:
        """As many of those that wait for a group as there is room for; while its clock is ahead, none."""
        if not name or not self.groups[name].parked:
            return
        group = self.groups[name]
        if self.clock(name) > self.now:
            group.due = self.clock(name)
            return
        room = self.room(name)
        while room and group.parked:
            queue = group.parked.pop(0)
            queue.state = ""
            self.move(queue, SNOOZED if queue.wake > self.now else READY)
            room -= queue.state == READY

    def count_bytes(self, queue: Queue, uri: Uri, size: int, began: float) -> None:
        """Each byte takes its time, which is waited for afterwards."""

        def after(busy: float, rate: int) -> float:
            return max(busy, began) + size / rate if size and rate else busy

        self.busy = after(self.busy, self.options["max_bandwidth"])
        queue.busy = after(queue.busy, self.options["queue_bandwidth"])
        if size:
            queue.rest = max(queue.rest, queue.busy)
        if queue.group:
            group = self.groups[queue.group]
            group.busy = after(group.busy, self.limits(queue.group)["max_bandwidth"])

    def crawl_rests(self) -> bool:
        return self.rests_until() > self.now

    def rests_until(self) -> float:
        """Until when the crawl rests for its bandwidth, and because the windows of all URIs are closed."""
        rests = self.busy if self.options["max_bandwidth"] else 0.0
        lists = {windows for _, windows in self.windows()}
        return max(rests, min(map(self.opens, lists), default=0.0))

    def windows(self) -> list[tuple[str, tuple[str, ...]]]:
        """The crawl windows of the URIs that fit a match, from the last that all have; none if all are empty."""
        name = "guards.windows"
        found = [("*", tuple(self.options[name]))]
        for match, chosen in [*self.of_sheets(), *self.plain()]:
            if name in chosen:
                found = [*([] if match == "*" else found), (match, tuple(chosen[name]))]
        return found if any(windows for _, windows in found) else []

    def opens(self, windows: Collection[str]) -> float:
        """When the first of some windows opens, in steps of a minute; now, if one is open, or there is none."""
        when, minute = self.now, self.now // 60
        while windows and not any(shows(window, minute) for window in windows):
            minute += 1
            when = minute * 60
        return when

    def wake_groups(self) -> bool:
        due = [
            (group.due, number, name)
            for number, (name, group) in enumerate(self.groups.items())
            if group.due is not None and group.due <= self.now
        ]
        for _, _, name in sorted(due):
            self.groups[name].due = None
            self.let_go_on(name)
        return bool(due)

    def group_rest(self, queue: Queue, seconds: float) -> None:
        if queue.group and seconds:
            group = self.groups[queue.group]
            group.wake = max(group.wake, self.now + seconds)
        self.let_go_on(queue.group)

    def below_floor(self, queue: Queue) -> bool:
        """Its precedence is that of the floor, or worse."""
        return queue.precedence >= (self.options["precedence_floor"] or 1 << 16)

    def precedence_changed(self, queue: Queue) -> None:
        if queue.state == INACTIVE or (queue.state == INELIGIBLE and not self.below_floor(queue)):
            self.move(queue, INACTIVE)

    def reconsider(self, queue: Queue) -> None:
        """What may go out has changed; with less means, a queue that is READY finds that out in its turn."""
        if (queue.state == IN_PROCESS and self.may_hand_out(queue)) or (
            queue.state == READY and 0 < len(queue.out) == len(queue.uris)
        ):
            self.move(queue, READY)

    def activate_first(self) -> Queue:
        """The first of those that wait; with highest-uri, not if the URIs that it waited there for are gone."""
        queue = self.waiting()[0]
        before, replenish, total = queue.precedence, queue.replenish, queue.total
        self.take(queue, self.head(queue))
        if self.options["precedence_policy"] == "highest-uri" and queue.precedence > before:
            queue.replenish, queue.total = replenish, total
            self.move(queue, INACTIVE)
        else:
            queue.precedence = before
            self.activate(queue)
        return queue

    def activate(self, queue: Queue) -> None:
        self.take(queue, self.head(queue))
        if self.below_floor(queue):
            self.move(queue, INACTIVE)
            return
        queue.closed = 0.0 if queue.closed > self.now else queue.closed
        if self.spent(queue):
            self.move(queue, RETIRED)
        else:
            queue.balance = queue.replenish
            self.move(queue, SNOOZED if queue.wake > self.now else READY)

    def place(self, uri: Uri, *, noted: bool = True) -> None:
        """A URI arrives; if it is not `noted`, an undo brings it back."""
        if noted:
            self.note(uri)
        queue = self.queues[uri.queue]
        queue.uris.append(uri)
        queue.placed += 1
        before = queue.precedence
        self.take(queue, uri)
        if queue.state == EXHAUSTED and queue.by_name:
            self.move(queue, RETIRED)
        elif queue.state == EXHAUSTED and (self.options["hold_queues"] or queue.limit or not noted):
            self.move(queue, INACTIVE)
        elif queue.state == EXHAUSTED:
            self.activate(queue)
        elif queue.precedence != before and queue.state != IN_PROCESS:
            self.precedence_changed(queue)
        elif queue.state == IN_PROCESS:
            self.reconsider(queue)

    def waiting(self) -> list[Queue]:
        """The INACTIVE queues, in the order of activation."""
        return [queue for precedence in sorted(self.fifos) for queue in self.fifos[precedence]]

    def empty(self) -> bool:
        return not (
            self.leases
            or any(queue.uris for queue in self.queues.values() if queue.state not in UNCOUNTED)
            or any(self.queues[uri.queue].state not in UNCOUNTED for _, uri in self.future)
        )

    def settle(self) -> None:
        if self.state == "RUNNING" and self.empty():
            self.rank()
        if self.state == "PAUSING" and not self.leases:
            self.state = "PAUSED"
        elif self.state in ("NEW", "RUNNING", "FINISHED") and self.counts["scheduled"]:
            self.state = "RUNNING"
            if self.empty():
                self.state = "FINISHED"
                if self.options["pause_at_finish"]:
                    self.state, self.reason = "PAUSED", "finish"
                    self.counts["finishes"] += 1

    # ---- the operations of a crawler

    def limit_met(self, spec: dict[str, Any], key: str, via: Uri | None) -> str:
        """The limit for which a URI that is new is refused. Prerequisites and a revisit need no room."""
        queue, queued = self.queues.get(key), self.queued()
        if spec["force"] and (spec["directive"] == 0 or (via is not None and spec["url"] == via.url)):
            return ""
        if 0 < self.options["max_queued"] <= queued:
            return "max_queued"
        if queue is not None and 0 < self.options["max_queue_size"] <= len(queue.uris):
            return "max_queue_size"
        return "bloom.expected" if not spec["force"] and self.filter_is_full() else ""

    def filter_is_full(self) -> bool:
        return bool(self.options["duplicates"] == "bloom" and len(self.seen) >= self.options["expected"])

    def see(self, url: str) -> None:
        if self.options["duplicates"] != "noop":
            self.seen.add(url)

    def queued(self) -> int:
        return sum(len(queue.uris) for queue in self.queues.values() if queue.state not in UNCOUNTED)

    def schedule(
        self, *specs: dict[str, Any], within: bool = False, via: Uri | None = None, brought: bool = False
    ) -> Counter[str]:
        tally: Counter[str] = Counter()
        for spec in specs:
            url = spec["url"]
            self.note_link(url, via)
            found = via is not None and not (spec["force"] and via.url == url)  # a link, which has hops
            if not spec["force"] and url in self.seen:  # with `noop` it is empty
                tally["DUPLICATE"] += 1
                self.counts["duplicates"] += 1
                if not found:
                    self.list_seed(spec, "", "KNOWN")
                self.update_priority(spec)
                continue
            key = self.key_of(spec)
            if limit := self.limit_met(spec, key, via):
                tally["FULL"] += 1
                self.counts[limit] += 1
                continue
            if not spec["force"]:
                self.see(url)
            if not found:
                self.list_seed(spec, key, "WAITING")
            self.arrivals += 1
            cost = 1 if spec["cost"] is None else spec["cost"]
            uri = Uri(url, key, cost, spec["directive"], spec["priority"], self.arrivals, found=found)
            uri.forced, uri.again = bool(spec["queue"]), spec["force"]
            uri.label = via.label if spec.get("source") is None and via is not None else spec.get("source")
            uri.links = via.links + 1 if found and via is not None else 0
            uri.precedence = self.uri_precedence(spec, uri)
            self.queues.setdefault(key, Queue(key, len(self.queues)))
            due = spec["not_before"]
            if due is not None and (due > self.now or self.options["keep_urls"]):
                self.postpone(uri, due)
            else:
                self.place(uri)
            tally["ADDED"] += 1
            self.counts["scheduled"] += 1
            self.counts["found"] += not brought and (via is not None or self.given > 0)
        if not within:
            self.settle()
        return tally

    def key_of(self, spec: dict[str, Any]) -> str:
        """The key of the queue for a URI."""
        host: str = spec["url"].split("/")[2]
        if spec["queue"]:
            return str(spec["queue"])
        if self.options["queue_assignment_policy"] == "ip" and host in self.addresses:
            return self.addresses[host][0]
        return host

    def report_address(self, host: str, address: str) -> None:
        """A host keeps its address for six hours, whatever is reported."""
        if host not in self.addresses or self.now >= self.addresses[host][1] + 6 * 3600:
            self.addresses[host] = address, int(self.now)

    def know_address(self, host: str, address: str) -> None:
        """Where URIs of a host go may change by that; its waits go along."""
        before = self.queues.get(self.key_of({"url": f"http://{host}/", "queue": None}))
        self.report_address(host, address)
        if before is not None:
            self.pass_waits(before, self.key_of({"url": f"http://{host}/", "queue": None}))

    def pass_waits(self, queue: Queue, key: str) -> None:
        """A queue waits at least as long as another one of its host, and its next back-off is as long."""
        if key == queue.key or queue.host_wake <= self.now:
            return
        other = self.queues.setdefault(key, Queue(key, len(self.queues)))
        other.rest, other.block = max(other.rest, queue.rest), max(other.block, queue.block)
        other.paced = max(other.paced, queue.paced)
        if queue.overloaded > other.overloaded:
            other.backoff, other.overloaded = queue.backoff, queue.overloaded
        if other.state == READY:
            self.move(other, SNOOZED)

    def list_seed(self, spec: dict[str, Any], queue: str, fate: str) -> None:
        """A seed that is admitted, or known. What was listed before stays in its place."""
        if spec["directive"] > 2 or (fate == "KNOWN" and spec["url"] in self.seeds):
            return
        self.seeds[spec["url"]] = Seed(queue, fate)

    def became(self, uri: Uri, fate: str, reason: str = "") -> None:
        """A URI has ended, or waits again: if it is a seed, the list says so."""
        if uri.directive <= 2 and not uri.found and uri.url in self.seeds:
            seed = self.seeds[uri.url]
            seed.fate, seed.reason = fate, reason or seed.reason

    def update_priority(self, spec: dict[str, Any]) -> None:
        """A duplicate that is more urgent than the URI that waits."""
        row = self.known.get(spec["url"])
        if self.options["update_priority"] and row is not None and row.uri is not None and not row.uri.out:
            uri = row.uri
            if (spec["directive"], -spec["priority"]) < (uri.directive, -uri.priority):
                uri.directive, uri.priority = spec["directive"], spec["priority"]

    def mark_seen(self, *specs: dict[str, Any], charge: bool) -> Counter[str]:
        tally: Counter[str] = Counter()
        for spec in specs:
            url = spec["url"]
            if url not in self.seen and self.filter_is_full():
                tally["FULL"] += 1
                self.counts["bloom.expected"] += 1
                continue
            self.list_seed(spec, "" if url in self.seen else self.key_of(spec), "KNOWN")
            if url in self.seen:
                tally["DUPLICATE"] += 1
                continue
            self.see(url)
            tally["ADDED"] += 1
            key = self.key_of(spec)
            if self.options["keep_urls"] and url not in self.known:
                self.queues.setdefault(key, Queue(key, len(self.queues)))
                self.known[url] = Known(key, int(self.now), None)
            if charge:
                queue = self.queues.setdefault(key, Queue(key, len(self.queues)))
                cost = 1 if spec["cost"] is None else spec["cost"]
                queue.spent += cost
                self.counts["spent unseen"] += cost
                queue.charges += 1
                queue.succeeded += 1
        self.settle()
        return tally

    def lease(self, number: int, ttl: float) -> list[int]:
        self.asked = True
        self.expire()
        self.end_epoch()
        given: list[int] = []
        if self.state == "RUNNING":
            self.bring_due()
            while len(given) < number and not self.crawl_rests():
                if not self.ring and self.wake_groups():
                    continue
                if not self.ring and not self.waiting():
                    break
                if not self.ring:
                    self.activate_first()
                    continue
                queue = self.ring[0]
                if self.spent(queue):
                    self.move(queue, RETIRED)
                    continue
                if not self.may_hand_out(queue):  # its means were cut while leases are out
                    self.move(queue, IN_PROCESS)
                    continue
                if self.reassign(queue) or self.stopped(queue):
                    continue
                given.append(self.hand_out(queue, ttl))
                self.end_turn(queue)
        self.settle()
        if not given:
            self.commit()
        return given

    def reassign(self, queue: Queue) -> bool:
        """The head of a queue moves if it has another key now: nothing is charged, and it keeps its rank."""
        uri = self.head(queue)
        key = self.key_of({"url": uri.url, "queue": None})
        if uri.forced or key == queue.key:
            return False
        if self.options["defer_to_previous"]:  # it stays, but waits for the queue that its host has now
            if key in self.queues:
                self.pass_waits(self.queues[key], queue.key)
            return queue.state == SNOOZED
        queue.uris.remove(uri)
        uri.queue = key
        self.queues.setdefault(key, Queue(key, len(self.queues)))
        if uri.directive <= 2 and not uri.found and uri.url in self.seeds:
            self.seeds[uri.url].queue = key
        self.place(uri)
        if not queue.uris:
            self.move(queue, EXHAUSTED)
        else:
            self.reconsider(queue)
        return True

    def hand_out(self, queue: Queue, ttl: float) -> int:
        uri = self.head(queue)
        uri.out = True
        self.lease_ids += 1
        self.given += 1
        self.leases[self.lease_ids] = Lease(queue, uri, self.now + ttl, uri.deliveries + 1, self.now)
        return self.lease_ids

    def end_turn(self, queue: Queue) -> None:
        """It rests for its interval, if it has one."""
        self.move(queue, SNOOZED if self.note_turn(queue) else READY)

    def note_turn(self, queue: Queue) -> bool:
        queue.served = self.now
        interval = self.options["min_interval"] if queue.interval is None else queue.interval
        if interval:
            queue.paced = self.now + interval
        return bool(interval)

    def lease_queues(self, queues: int, per_queue: int, key: str | None, ttl: float) -> list[int]:
        """Each queue has one turn, in which it hands out URIs until so many of it are out."""
        self.asked = True
        self.expire()
        self.end_epoch()
        given: list[int] = []
        if self.state == "RUNNING":
            self.bring_due()
            if self.crawl_rests():
                pass
            elif key is not None:
                queue = self.queues.get(key)
                if queue is not None and queue.state == INACTIVE:
                    self.activate(queue)
                if queue is not None and queue.state == READY:
                    given += self.serve(queue, per_queue, ttl)
            else:
                served = 0
                for queue in list(self.ring):
                    if served < queues:
                        found = self.serve(queue, per_queue, ttl)
                        served += bool(found)
                        given += found
                while served < queues and self.waiting():
                    queue = self.activate_first()
                    if queue.state == READY:
                        found = self.serve(queue, per_queue, ttl)
                        served += bool(found)
                        given += found
        self.settle()
        if not given:
            self.commit()
        return given

    def serve(self, queue: Queue, per_queue: int, ttl: float) -> list[int]:
        if self.spent(queue):
            self.move(queue, RETIRED)
            return []
        given: list[int] = []
        while queue.state == READY and self.may_hand_out(queue, per_queue or 1 << 16):
            if self.reassign(queue) and queue.state != SNOOZED:
                continue
            if queue.state == SNOOZED or self.stopped(queue):
                if queue.state == READY:
                    continue
                if given:
                    self.note_turn(queue)
                return given
            given.append(self.hand_out(queue, ttl))
        if not given and queue.state != READY:
            return []
        if given:
            self.end_turn(queue)
        elif queue.state == READY:
            self.move(queue, READY)
        return given

    def bring_due(self) -> None:
        for entry in sorted(self.future, key=lambda entry: entry[0]):
            if entry[0] <= self.now:
                self.future.remove(entry)
                if not entry[1].retries:  # a RETRY keeps its place, any other arrives now
                    self.arrivals += 1
                    entry[1].arrival = self.arrivals
                self.place(entry[1])
        self.wake_groups()
        parked = [queue for group in self.groups.values() for queue in group.parked]
        for queue in sorted(self.queues.values(), key=lambda queue: (queue.wake, queue.id)):
            if queue.state == SNOOZED and queue.wake <= self.now and queue not in parked:
                self.move(queue, READY)
        least = self.options["target_active"]
        while least != "auto" and self.waiting() and self.active() < least:
            self.activate_first()

    def active(self) -> int:
        return sum(queue.state in (READY, IN_PROCESS, SNOOZED) for queue in self.queues.values())

    def expire(self) -> None:
        for number, lease in sorted(self.leases.items()):
            if lease.expires <= self.now:
                queue = lease.queue
                self.count_delivery(number)
                self.give_back(number)
                if self.depleted(queue):
                    self.move(queue, IN_PROCESS if queue.out else INACTIVE)
                elif queue.state == IN_PROCESS or (queue.state == SNOOZED and queue.wake <= self.now):
                    self.move(queue, READY, surely=True)

    def count_delivery(self, number: int) -> None:
        """One too many, and the URI is a dead letter."""
        queue, uri = self.leases[number].queue, self.leases[number].uri
        uri.deliveries += 1
        self.counts["expired"] += 1
        if uri.deliveries >= self.options["max_deliveries"]:
            queue.uris.remove(uri)
            self.gone(uri)
            self.counts["buried"] += 1
            self.bury(uri, "max deliveries")

    def give_back(self, number: int) -> None:
        lease = self.leases.pop(number)
        queue = lease.queue
        lease.uri.out = lease.uri.landed = False
        self.let_go_on(queue.group)
        if not queue.uris and queue.state != RETIRED:
            self.move(queue, EXHAUSTED)

    def postpone(self, uri: Uri, due: float) -> None:
        """Of those due at the same time, the first that was postponed comes first."""
        self.counts["postponed"] += 1
        uri.postponed = self.counts["postponed"]
        self.future.append((due, uri))
        self.note(uri, due)

    def bury(self, uri: Uri, reason: str) -> None:
        self.became(uri, "DEAD", reason)
        uri.buried = self.counts["buried"]
        if uri.directive == 0:  # a prerequisite that fails again takes the place of its last dead letter
            queue = self.queues[uri.queue]
            self.dead = [old for old in self.dead if old.buried != queue.dead_prerequisite or old.url != uri.url]
            queue.dead_prerequisite = uri.buried
        self.dead.append(uri)

    def depleted(self, queue: Queue) -> bool:
        """Its turn is over once its last lease has ended, one way or another."""
        return queue.state in (READY, IN_PROCESS, SNOOZED) and queue.balance <= 0

    def finish(self, number: int, outcome: str, options: dict[str, Any], discovered: list[dict[str, Any]]) -> bool:
        """False: the lease has expired."""
        self.expire()
        if number not in self.leases:
            self.settle()
            return False
        queue, uri, began = self.leases[number].queue, self.leases[number].uri, self.leases[number].began
        given, dead = outcome, options["reason"] or ("retries exhausted" if outcome == "RETRY" else "dead")
        if outcome == "RETRY":
            uri.retries += 1
            outcome = "DEAD" if uri.retries > self.options["max_retries"] else "RETRY"
        status, delay, of_host = options["status"], options["delay"], 0.0
        if status in (429, 503):
            of_host = self.back_off(queue, delay)
            delay = of_host or None
            self.let_rest(queue, of_host)
        of_page = status not in (0, 429, 503)
        retry_delay = self.options["status_delay" if of_page else "retry_delay"] if delay is None else delay
        alone = self.options["retry_scope"] == "uri" or of_page
        pause = 0.0 if uri.landed else self.politeness(options["fetch_seconds"], options["crawl_delay"])
        rest = pause if outcome not in ("DEFERRED", "DISREGARDED") else 0.0
        if outcome == "RETRY" and not alone:
            pause = max(pause, retry_delay)
        if outcome not in ("DEFERRED", "DISREGARDED"):
            self.let_rest(queue, pause)
        before = len(queue.uris)
        new = self.schedule(*discovered, within=True, via=uri)["ADDED"]
        again = sum(spec["force"] and spec["url"] == uri.url for spec in discovered)  # the page itself is no link
        if given != "SUCCESS" or discovered or options != PLAIN:
            new = max(new - again, 0)
            own = min(len(queue.uris) - before, new)
            self.remember(queue, uri, given, options, (len(discovered) - again, new, own))
        by_address = any(one.get("by") == "ip" for one in self.options["groups"])
        if options["address"] and (self.options["queue_assignment_policy"] == "ip" or by_address):
            self.report_address(uri.host, options["address"])
        del self.leases[number]
        uri.out = uri.landed = False
        queue.bytes += options["size"]
        self.tally(uri, outcome, options["size"], options["novel"])
        if outcome in FATES:
            self.became(uri, FATES[outcome], options["reason"])
        self.charge(queue, uri, outcome, retry_delay if alone else 0.0, options["reason"], status)
        if outcome == "DEAD":
            self.bury(uri, dead)
        self.count_bytes(queue, uri, options["size"], began)
        self.group_rest(queue, rest)
        if not uri.forced:
            self.pass_waits(queue, self.key_of({"url": uri.url, "queue": None}))
        self.evaluate_again(queue)
        if queue.state != RETIRED:
            self.after_finish(queue, options["retire_queue"])
        self.settle()
        return True

    def remember(
        self, queue: Queue, uri: Uri, given: str, options: dict[str, Any], links: tuple[int, int, int]
    ) -> None:
        """An end that says nothing is not remembered, nor one as DEFERRED; of prerequisites, only failures are."""
        outcome = "FAILURE" if given == "DEAD" else given
        if outcome != "DEFERRED" and (uri.directive > 0 or outcome in ("RETRY", "FAILURE")):
            queue.history = queue.history or History()
            seconds = None if uri.landed else options["fetch_seconds"]
            queue.history.attempt(outcome, seconds, links[0], links[1], options["size"])
            queue.answers.added += links[2]
            if outcome != "DISREGARDED":
                digest = b"" if uri.again else options["digest"]
                queue.answers.attempt(outcome, options["status"], options["reason"], digest)

    def back_off(self, queue: Queue, asked: float | None) -> float:
        """For how long the host rests: 60 s, twice as long at each incident up to a day, forgiven after 30 minutes."""
        if asked:
            queue.overloaded = max(queue.overloaded, self.now + min(asked, 86400.0))
        elif self.options["backoff"] and self.now >= queue.overloaded:
            forgiven = self.now >= queue.overloaded + 1800.0
            queue.backoff = 60.0 if forgiven or not queue.backoff else min(2 * queue.backoff, 86400.0)
            queue.overloaded = self.now + queue.backoff
        if not asked and not self.options["backoff"]:
            return 0.0
        return max(queue.overloaded - self.now, 0.0)

    def let_rest(self, queue: Queue, seconds: float) -> None:
        if seconds:
            queue.rest = max(queue.rest, self.now + seconds)

    def politeness(self, fetch: float | None, crawl_delay: float | None) -> float:
        if not self.options["polite"]:
            return min(crawl_delay or 0.0, 300.0)
        delay = 3.0 if fetch is None else min(max(5.0 * fetch, 3.0), 30.0)
        return max(delay, min(crawl_delay or 0.0, 300.0))

    def charge(self, queue: Queue, uri: Uri, outcome: str, aside: float, reason: str, status: int = 0) -> None:
        self.counts[outcome] += 1
        self.counts["robots"] += outcome == "DISREGARDED" and reason == "robots"
        self.counts["prerequisites"] += uri.directive == 0 and outcome not in ("RETRY", "DEFERRED")
        if uri.directive == 0:
            self.counts["prerequisites " + outcome] += 1
        is_error = outcome == "SUCCESS" and uri.directive > 0 and status >= 400
        self.error_answers[str(status)] += is_error
        if outcome in ("FAILURE", "RETRY", "DEAD") or is_error:
            queue.errors += 1
            queue.failure = reason or f"status {status}" if is_error else reason
            queue.failed_at = self.now
        self.counts["buried"] += outcome == "DEAD"
        if outcome not in ("DEFERRED", "DISREGARDED"):
            penalty = self.options["error_penalty_amount"] if outcome == "FAILURE" else 0
            queue.balance -= uri.cost + penalty
            queue.spent += uri.cost + penalty
            self.counts["spent " + outcome] += uri.cost + penalty
            queue.penalties += penalty
            queue.charges += 1
            queue.succeeded += outcome == "SUCCESS"
        if outcome in ("SUCCESS", "FAILURE", "DISREGARDED", "DEAD"):
            queue.uris.remove(uri)
            self.gone(uri)
        if outcome == "RETRY" and aside > 0:
            queue.uris.remove(uri)
            self.postpone(uri, self.now + aside)

    def after_finish(self, queue: Queue, retire_queue: bool) -> None:
        if self.over(queue) or retire_queue:
            self.move(queue, RETIRED)
        elif not queue.uris:
            self.move(queue, EXHAUSTED)
        elif queue.state in (INACTIVE, INELIGIBLE):
            pass
        elif queue.balance <= 0:
            self.move(queue, IN_PROCESS if queue.out else INACTIVE)
        elif self.below_floor(queue) or any(
            fifo for precedence, fifo in self.fifos.items() if precedence < queue.precedence
        ):
            queue.balance = 0
            self.move(queue, INACTIVE)
        elif queue.state != READY or queue.wake > self.now or not self.may_hand_out(queue):
            self.move(queue, SNOOZED if queue.wake > self.now else READY)  # one that is READY keeps its place

    def landed(self, number: int, fetch_seconds: float | None, crawl_delay: float | None) -> bool:
        """False: the lease has expired."""
        self.expire()
        if number in self.leases and not self.leases[number].uri.landed:
            queue = self.leases[number].queue
            self.leases[number].uri.landed = True
            if fetch_seconds is not None:
                queue.history = queue.history or History()
                queue.history.duration(fetch_seconds, 1)
            rest = self.politeness(fetch_seconds, crawl_delay)
            self.let_rest(queue, rest)
            self.group_rest(queue, rest)
            uri = self.leases[number].uri
            if not uri.forced:
                self.pass_waits(queue, self.key_of({"url": uri.url, "queue": None}))
            stays = queue.wake <= self.now and self.may_hand_out(queue)
            if queue.state == IN_PROCESS or (queue.state == READY and not stays):
                self.move(queue, READY)
        self.settle()
        return number in self.leases

    def renew(self, number: int, ttl: float) -> bool:
        self.expire()
        if number in self.leases:
            self.leases[number].expires = self.now + ttl
        self.settle()
        return number in self.leases

    # ---- URLs that are kept

    def note(self, uri: Uri, due: float = 0.0) -> None:
        """A URI waits now, in its queue or until a time; the URL's row is about the last that came."""
        if not self.options["keep_urls"]:
            return
        row = self.known.get(uri.url)
        if row is None:
            row = self.known[uri.url] = Known(uri.queue, int(self.now), None)
        row.queue, row.uri, row.due = uri.queue, uri, int(due) or min(row.due or int(self.now), int(self.now))

    def gone(self, uri: Uri) -> None:
        """A URI waits no more; its URL does while others wait, somewhere."""
        row = self.known.get(uri.url)
        if row is not None and row.uri is uri:
            row.uri, row.due = None, int(self.now)
        if row is not None and not self.waits(uri.url):
            row.due = 0

    def waits(self, url: str) -> bool:
        """Whether any URI of a URL waits, or is out."""
        return any(
            uri.url == url
            for uris in (*(queue.uris for queue in self.queues.values()), (uri for _, uri in self.future))
            for uri in uris
        )

    def rows(self, key: str | None = None) -> list[Known]:
        return [row for row in self.known.values() if key is None or row.queue == key]

    def completed(self, key: str | None = None) -> int:
        return len([url for url, row in self.known.items() if key in (None, row.queue) and not self.waits(url)])

    def lease_of(self, uri: Uri | None) -> int | None:
        return next((number for number, lease in self.leases.items() if lease.uri is uri), None)

    def fetched(self, spec: dict[str, Any], again: float | None) -> str:
        """The report that a URL was fetched, and when it is to be fetched again."""
        self.expire()
        self.settle()
        row = self.known.get(spec["url"])
        number = None if row is None else self.lease_of(row.uri)
        before = 0 if row is None else self.completed(row.queue)
        was_completed = row is not None and not row.due
        key = row.queue if row is not None and spec["queue"] is None else spec["queue"]
        revisit = {**spec, "queue": key, "force": True, "not_before": again}
        if number is not None:
            if spec["cost"] is None:
                revisit["cost"] = self.leases[number].uri.cost
            if spec.get("precedence") is None:
                revisit["precedence"] = self.leases[number].uri.precedence
            self.finish(number, "SUCCESS", PLAIN, [] if again is None else [revisit])
            told = "FINISHED"
        elif again is None and row is None:
            self.mark_seen(spec, charge=False)
            key = self.key_of(spec)
            self.queues.setdefault(key, Queue(key, len(self.queues)))
            self.known[spec["url"]] = Known(key, int(self.now), None)
            told = "ADDED"
        elif row is not None and (
            row.uri is None if again is None else row.uri is not None and (row.due, row.queue) == (int(again), key)
        ):
            return "UNCHANGED"
        else:
            if row is not None and row.uri is not None:
                self.take_out(row.uri, "SUCCEEDED", charged=True)
            told = "ADDED" if row is None else "CHANGED"
            if again is not None:
                revisit["force"] = row is not None or spec["url"] in self.seen
                via = None if row is None else Uri(spec["url"], "", 0, 0, 0, 0)
                if self.schedule(revisit, within=True, via=via, brought=True)["FULL"]:
                    told = "FULL"
        row = self.known.get(spec["url"])
        if again is not None and row is not None and row.uri is not None:
            row.due = int(again)
            if was_completed:
                self.below_limit(key, before)
        self.settle()
        return told

    def put_again(self, spec: dict[str, Any]) -> str:
        """An operator schedules a URL with `force`, which has one place."""
        self.expire()
        row, via, before = self.known.get(spec["url"]), None, 0
        if row is not None and self.lease_of(row.uri) is not None:
            self.counts["duplicates"] += 1
            self.settle()
            return "DUPLICATE"
        spec = {**spec, "force": True}
        if row is not None:
            key, before = row.queue, self.completed(row.queue)
            spec["queue"] = spec["queue"] or key
            if row.uri is not None:
                via = Uri(spec["url"], "", 0, 0, 0, 0)
                self.take_out(row.uri, "DELETED", charged=False)
        (told,) = self.schedule(spec, within=True, via=via, brought=True)
        if told == "ADDED":
            self.seen.add(spec["url"])
            self.known[spec["url"]].due = int(max(spec["not_before"] or 0, self.now))
            if row is not None:
                self.below_limit(key, before)
        self.settle()
        return told

    def take_out(self, uri: Uri, fate: str, *, charged: bool) -> None:
        """A URI that is not out waits no more. One that waits for a date is not charged."""
        self.became(uri, fate)
        queue = self.queues[uri.queue]
        if uri not in queue.uris:
            self.future = [entry for entry in self.future if entry[1] is not uri]
            self.gone(uri)
            return
        if charged:
            queue.spent += uri.cost
            self.counts["spent unseen"] += uri.cost
            queue.charges += 1
            queue.succeeded += 1
        queue.uris.remove(uri)
        self.gone(uri)
        if not queue.uris:
            self.move(queue, EXHAUSTED)
        self.reconsider(queue)

    def forget(self, url: str) -> bool:
        self.expire()
        self.settle()
        row = self.known.get(url)
        if row is None:
            return False
        number, before = self.lease_of(row.uri), self.completed(row.queue)
        if number is not None:
            self.finish(number, "DISREGARDED", PLAIN, [])
        elif row.uri is not None:
            self.take_out(row.uri, "DELETED", charged=False)
        if not self.waits(url):
            del self.known[url]
        self.seen.discard(url)
        self.below_limit(row.queue, before)
        self.settle()
        return True

    def forget_by_command(self, spec: dict[str, Any]) -> str:
        """What waits stays: known by its row where URLs are kept, else looked for in the queues it is assigned to."""
        url = spec["url"]
        row, was_seen = self.known.get(url), url in self.seen
        self.last = {"command": "forget"}
        if row is not None and self.waits(url):
            return "waiting"
        if row is not None:
            before = self.completed(row.queue)
            del self.known[url]
            self.seen.discard(url)
            self.below_limit(row.queue, before)
            self.last |= {"forgotten": url, "row": row, "was_seen": was_seen}
            return "forgotten"
        if not was_seen:
            return "unknown"
        host = url.split("/")[2]
        places = {self.key_of(spec), host, self.addresses.get(host, ("",))[0]}
        waiting = [uri for queue in self.queues.values() for uri in queue.uris] + [uri for _, uri in self.future]
        if not self.options["keep_urls"] and any(uri.url == url and uri.queue in places for uri in waiting):
            return "waiting"
        self.seen.discard(url)
        self.last |= {"forgotten": url, "row": None, "was_seen": True}
        return "forgotten"

    def below_limit(self, key: str, before: int) -> None:
        """Fewer URLs of a queue are completed: one that its limit has retired comes back."""
        queue = self.queues[key]
        if (
            0 < queue.limit <= before
            and queue.state == RETIRED
            and not queue.by_name
            and queue.limit > self.completed(key)
        ):
            self.move(queue, INACTIVE if queue.uris else EXHAUSTED)

    # ---- the operations of an operator

    def adjust(self, match: str, chosen: dict[str, Any], number: int = 0) -> None:
        self.last = {"command": "adjust", "id": number, **self.change([], [Adjustment(number, match, chosen)])}

    def withdraw(self, number: int) -> None:
        self.last = {"command": "withdraw", "id": number, **self.change([number], [])}

    def change(self, remove: list[int], add: list[Adjustment]) -> dict[str, Any]:
        """Change the adjustments. One is replaced when later ones with its match set all that it sets."""
        before = self.adjustments
        self.adjustments = self.kept([one for one in before if one.id not in remove] + add)
        self.settings_changed()
        return {
            "came": [one.id for one in self.adjustments if one not in before],
            "went": [one for one in before if one not in self.adjustments],
        }

    @staticmethod
    def kept(adjustments: list[Adjustment]) -> list[Adjustment]:
        """Those of which later ones with the same match do not set all that they set."""
        found = sorted(adjustments, key=lambda one: one.id)
        return [
            one
            for place, one in enumerate(found)
            if not one.names
            <= {name for later in found[place + 1 :] if later.match == one.match for name in later.names}
        ]

    def settings_changed(self) -> None:
        self.revision += 1
        if self.windows() != self.windows_before:
            self.windows_before = self.windows()
            for queue in self.queues.values():
                if queue.state == SNOOZED and queue.closed > self.now:
                    queue.closed = 0.0
        for name, group in self.groups.items():
            if group.due is not None and group.due > self.now:
                group.due = self.clock(name) if self.clock(name) > self.now else 0.0
        waiting = [(queue, queue.precedence) for queue in [*self.waiting(), *self.ineligible]]
        for queue in self.queues.values():
            if queue.uris:
                self.take(queue, self.head(queue))
        for queue, before in waiting:
            if queue.precedence != before:
                self.precedence_changed(queue)
        over = self.state == "FINISHED" or (self.state == "PAUSED" and self.reason == "finish")
        for queue in list(self.retired):
            if not queue.by_name and not (over and self.retires_again(queue)):
                self.move(queue, INACTIVE if queue.uris else EXHAUSTED)
        for queue in self.queues.values():
            if queue.state == IN_PROCESS:
                self.reconsider(queue)
        self.settle()

    def retires_again(self, queue: Queue) -> bool:
        """A change of settings leaves it RETIRED in a crawl that is over: its turn would only retire it again."""
        if not queue.uris or self.below_floor(queue):
            return False
        if self.spent(queue):
            return True
        uri = self.head(queue)
        group = self.chosen_group(queue, uri)
        forced = self.values_for(uri)[0]["quotas.force_retire"] and self.quota_is_used_up(uri, group)
        return forced or (group == queue.group != "" and self.group_spent(group))

    def pause(self, reason: str = "operator") -> None:
        before = (self.state, self.reason)
        if self.reason in (None, "finish") or self.is_paused_for_disk():  # what an operator has paused stays so
            self.state, self.reason = "PAUSING" if self.leases else "PAUSED", reason
        self.settle()
        self.last = {"command": "pause", "before": before, "after": (self.state, self.reason)}

    def resume(self) -> None:
        before = (self.state, self.reason)
        self.state, self.reason = "RUNNING" if self.counts["scheduled"] else "NEW", None
        self.settle()
        self.last = {"command": "resume", "before": before, "after": (self.state, self.reason)}

    def is_paused_for_disk(self) -> bool:
        return bool(self.reason and self.reason.startswith("disk: "))

    def look_at_disk(self, free: int) -> bool:
        """The guard sees so many free bytes; return whether it has paused or resumed the crawl."""
        least = self.options["guards.min_free"]
        if self.is_paused_for_disk() and free >= least + least // 4:
            self.resume()
        elif self.state == "RUNNING" and free < least:
            self.pause(f"disk: {free}")
        else:
            return False
        return True

    def look(self, key: str) -> Look:
        queue = self.queues[key]
        rest = max(queue.rest, queue.paced)
        return Look(queue.state, queue.by_name, rest, queue.block, queue.interval, queue.limit)

    def operate(self, command: str, key: str, until: float = 0.0) -> None:
        """One of the four below."""
        before = self.look(key)
        self.snooze(key, until) if command == "snooze" else getattr(self, command)(key)
        self.last = {"command": command, "key": key, "before": before, "after": self.look(key)}

    def selects(self, match: str, states: list[str] | None, queue: Queue) -> bool:
        """Whether a command selects a queue: by its state, its key, its group, or the URI at its head."""
        if queue.state not in (states or [queue.state]):
            return False
        kind, _, what = match.partition(":")
        if kind == "group":
            (named, slash, valued), (first, _, value) = what.partition("/"), queue.group.partition("/")
            return bool(queue.group and fnmatchcase(first, named) and (not slash or fnmatchcase(value, valued)))
        if match == "*" or kind in ("queue", "queues"):
            return match == "*" or any(fnmatchcase(queue.key, each) for each in what.split(","))
        head = self.head(queue)
        return {
            "host": fnmatchcase(head.host, what),
            "domain": ("." + head.host).endswith("." + what),
            "label": head.label == what,
        }[kind]

    def operate_on_many(self, command: str, match: str, states: list[str] | None, **chosen: Any) -> tuple[int, int]:
        """All that are selected, in the order of their creation; return how many, and how many were changed."""
        changed, matched = [], 0
        for key in sorted(self.queues, key=lambda key: self.queues[key].id):
            if not self.selects(match, states, self.queues[key]):
                continue
            matched, before = matched + 1, self.look(key)
            getattr(self, command)(key, **chosen)
            if self.look(key) != before:
                changed.append((key, before, self.look(key)))
        self.last = {"command": command, "changed": changed}
        self.settle()
        return matched, len(changed)

    def retire(self, key: str) -> None:
        if self.queues[key].state != RETIRED:
            self.move(self.queues[key], RETIRED)
        self.queues[key].by_name = True
        self.settle()

    def unretire(self, key: str) -> None:
        queue = self.queues[key]
        queue.by_name = False
        if queue.state == RETIRED:
            self.move(queue, INACTIVE if queue.uris else EXHAUSTED)
        self.settle()

    def snooze(self, key: str, until: float) -> None:
        queue = self.queues[key]
        if until <= self.now:
            return
        queue.block = max(until, queue.host_wake)
        if queue.state == READY:
            self.move(queue, SNOOZED)

    def wake(self, key: str) -> None:
        queue = self.queues[key]
        queue.rest, queue.block, queue.paced = min(queue.host_wake, self.now), 0.0, min(queue.paced, self.now)
        queue.closed = min(queue.closed, self.now)
        queue.busy = 0.0
        if queue.group and queue in self.groups[queue.group].parked:
            group = self.groups[queue.group]
            group.wake = group.busy = group.due = 0.0
        if queue.state == SNOOZED:
            self.move(queue, READY)

    def set_queue(self, key: str, **chosen: Any) -> None:
        before = self.look(key)
        self.set_pace(key, chosen)
        self.last = {"command": "set_queue", "key": key, "before": before, "after": self.look(key)}
        self.settle()

    def set_pace(self, key: str, chosen: dict[str, Any]) -> None:
        """What is as it was is not set again."""
        queue = self.queues[key]
        if chosen.get("interval", queue.interval) != queue.interval:
            self.set_interval(key, chosen["interval"])
        if chosen.get("max_completed", queue.limit) != queue.limit:
            self.set_limit(key, chosen["max_completed"])

    def set_interval(self, key: str, interval: float | None) -> None:
        """It counts from the last lease on."""
        queue = self.queues[key]
        queue.interval = interval
        if interval is None:
            interval = self.options["min_interval"] if queue.uris else 0.0
        until = queue.served + interval if queue.served and interval else 0.0
        if max(until, queue.paced) > self.now:
            queue.paced = max(until, self.now)
            if queue.state == READY and queue.wake > self.now:
                self.move(queue, SNOOZED)

    def regulate(self, key: str, chosen: dict[str, Any]) -> None:
        """As crawlers ask: nothing is audited. What is as it was is not set again."""
        queue = self.queues[key]
        self.set_pace(key, chosen)
        if chosen.get("total_budget", queue.own_budget) != queue.own_budget:
            queue.own_budget = chosen["total_budget"]
            if queue.uris:
                precedence, replenish = queue.precedence, queue.replenish
                self.take(queue, self.head(queue))
                queue.precedence, queue.replenish = precedence, replenish
            if queue.state == RETIRED and not queue.by_name:
                self.move(queue, INACTIVE if queue.uris else EXHAUSTED)
        if "blocked_until" in chosen:
            until = self.now + chosen["blocked_until"]
            queue.block = until if until > self.now else 0.0
            if queue.state == READY and queue.wake > self.now:
                self.move(queue, SNOOZED)
        self.settle()

    def set_limit(self, key: str, limit: int) -> None:
        queue = self.queues[key]
        queue.limit = limit
        if queue.state == RETIRED and not queue.by_name:
            self.move(queue, INACTIVE if queue.uris else EXHAUSTED)

    def delete(self, key: str) -> int:
        """What is out stays."""
        queue = self.queues[key]
        later = [entry for entry in self.future if entry[1].queue == key]
        waiting = [uri for uri in self.in_order(queue) if not uri.out]
        was_retired = queue.state == RETIRED
        deleted = [*waiting, *(uri for _, uri in later)]
        rows = {uri.url: replace(self.known[uri.url]) for uri in deleted if uri.url in self.known}
        queue.uris = queue.out
        self.future = [entry for entry in self.future if entry not in later]
        for uri in deleted:
            self.counts["deleted"] += uri.directive > 0
            self.became(uri, "DELETED")
            self.gone(uri)
            if not self.waits(uri.url):
                self.known.pop(uri.url, None)
        rows = {url: row for url, row in rows.items() if row.uri is None or row.uri in deleted}
        if waiting and not queue.uris:
            self.move(queue, EXHAUSTED)
        left = None if not waiting else "RETIRED" if queue.uris and was_retired else "" if queue.uris else "empty"
        self.last = {
            "command": "delete",
            "key": key,
            "later": later,
            "waiting": waiting,
            "rows": rows,
            "left": (queue.by_name, left, queue.placed),
        }
        self.reconsider(queue)
        self.settle()
        return len(waiting) + len(later)

    def drop(self) -> int:
        """All dead letters."""
        self.last = {"command": "drop", "letters": self.dead}
        self.counts["dropped"] += sum(uri.directive > 0 for uri in self.dead)
        self.dead = []
        return len(self.last["letters"])

    def replay(self) -> int:
        dead, self.dead = self.dead, []
        self.last = {"command": "replay"}
        for uri in dead:
            if self.options["keep_urls"] and self.waits(uri.url):
                self.dead.append(uri)
                continue
            self.arrivals += 1
            uri.arrival, uri.retries, uri.deliveries = self.arrivals, 0, 0
            self.became(uri, "WAITING")
            self.place(uri)
        self.settle()
        return len(dead) - len(self.dead)

    # ---- durability

    def summary(self) -> dict[str, Any]:
        """What the frontier's summary has to be."""
        counts, queues = self.counts, list(self.queues.values())
        return {
            "state": self.state,
            "pause_reason": self.reason,
            "queued": self.queued(),
            "in_process": len(self.leases),
            "future": len(self.future),
            "dead": len(self.dead),
            "seen": len(self.seen),
            "scheduled": counts["scheduled"],
            "found": counts["found"],
            "succeeded": counts["SUCCESS"],
            "failed": counts["FAILURE"],
            "retried": counts["RETRY"],
            "deferred": counts["DEFERRED"],
            "disregarded": counts["DISREGARDED"],
            "duplicates": counts["duplicates"],
            "expenditure": sum(queue.spent for queue in queues),
            "queues": {state: sum(queue.state == state for queue in queues) for state in STATES},
            "bytes": sum(queue.bytes for queue in queues),
            "full": sum(counts[limit] for limit in LIMITS),
            "full_reasons": {limit: counts[limit] for limit in LIMITS if counts[limit]},
            "invalid": counts["INVALID"],
            "invalid_reasons": {"not-text": counts["INVALID"]} if counts["INVALID"] else {},
            "given_up": counts["DEAD"],
            "succeeded_expenditure": counts["spent SUCCESS"],
            "failed_expenditure": counts["spent FAILURE"],
            "retried_expenditure": counts["spent RETRY"],
            "given_up_expenditure": counts["spent DEAD"],
            "other_expenditure": counts["spent unseen"],
            "penalties": sum(queue.penalties for queue in queues),
            "buried": counts["buried"],
            "deleted": counts["deleted"],
            "dropped": counts["dropped"],
            "dead_prerequisites": sum(uri.directive == 0 for uri in self.dead),
            "expired": counts["expired"],
            "robots_denials": counts["robots"],
            "quota_denials": counts["quota"],
            "prerequisites": counts["prerequisites"],
            "prerequisites_succeeded": counts["prerequisites SUCCESS"],
            "prerequisites_disregarded": counts["prerequisites DISREGARDED"],
            "error_answers": dict(+self.error_answers),
            **{name: sum(queue.answers.classes[number] for queue in queues) for number, name in enumerate(ANSWERS)},
        }

    def commit(self) -> None:
        if self.in_batch:
            return
        apart = ("committed", "in_batch", "lease_ids", "now")
        self.committed = pickle.dumps({name: value for name, value in vars(self).items() if name not in apart})

    def begin(self) -> None:
        self.began, self.given, self.asked = self.now, 0, False
        self.commit()

    def close(self) -> None:
        """The run is kept only if URIs were asked for."""
        self.drop_leases(counted=False)
        if self.given or self.asked:
            self.runs.append((self.began, "OPERATOR" if self.state == "TERMINATED" else "EXIT", self.given))
        self.begin()

    def crash(self, *, keep_leases: bool) -> None:
        vars(self).update(pickle.loads(self.committed))
        if not keep_leases:
            self.drop_leases(counted=True)
        self.runs.append((self.began, "KILLED", None))
        self.begin()

    def give_back_many(self, numbers: list[int]) -> list[int]:
        """Those that had ended, and those given twice, are returned."""
        self.expire()
        chosen = set(numbers) & self.leases.keys()
        late = [number for place, number in enumerate(numbers) if number not in chosen or number in numbers[:place]]
        self.drop_leases(chosen, counted=False)
        return late

    def drop_leases(self, numbers: Collection[int] | None = None, *, counted: bool) -> None:
        """To the front of the ring, in the order of the leases: these, or all."""
        numbers = self.leases.keys() if numbers is None else numbers
        for number in sorted(numbers) if counted else ():
            self.count_delivery(number)
        for number in sorted(numbers, reverse=True):
            queue = self.leases[number].queue
            self.give_back(number)
            if self.depleted(queue):
                self.move(queue, IN_PROCESS if queue.out else INACTIVE)
            elif queue.state in (READY, IN_PROCESS) or (queue.state == SNOOZED and queue.wake <= self.now):
                self.move(queue, READY, surely=True)
                if queue.state == READY:
                    self.ring.insert(0, self.ring.pop())
        self.settle()
