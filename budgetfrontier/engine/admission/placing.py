"""The placing of new URIs: their pending records, and the queues they arrive on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from budgetfrontier.core.model import CrawlUri, QueueRecord
from budgetfrontier.engine.admission.candidates import Plain, Special, plain_value
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.engine.url_table import New
from budgetfrontier.rules import budgets, charges, uri_order
from budgetfrontier.rules.queue_states import EXHAUSTED, IN_PROCESS, INELIGIBLE, RETIRED
from budgetfrontier.rules.uri_order import NORMAL, PRIORITY_ZERO
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.uri_values import LONGEST_SHOWN, encode_carrying, encode_found, link_hops, shorten

Group = tuple[int, QueueRecord, list[Any], list[int]]
"""The candidates for a queue: its id, itself, the candidates, and their ordinals."""
_NO_PRECEDENCE = charges.MAX_COST
EARLIEST = 1.0  # epoch seconds: keys sort only positive times


class Placer:
    """Puts new URIs on their queues, in order. All pending records of a batch are written together."""

    def __init__(self, tables: Tables, turns: Turns) -> None:
        self._tables = tables
        self._turns = turns

    def place(self, candidates: dict[Any, Any], via: CrawlUri | None, now: float) -> None:
        """Put candidates on their queues, given by fingerprint; `via` is the page on which all were found."""
        if self._tables.in_force.fixed_precedence:
            self._place_by_queue(candidates, via, now)
            return
        arrivals = self.arrivals(via, now)
        arrivals.add(candidates.values())
        arrivals.write()

    def bury(self, candidate: Plain | Special, fingerprint: bytes, reason: str, now: float) -> None:
        """Add a candidate to the dead letters of its queue, with the rank that it takes if it is replayed."""
        tables = self._tables
        special = candidate if isinstance(candidate, Special) else self.arrivals(None, now).special(candidate)
        queue = tables.queues.find_or_create(special.queue)
        tables.counters.ordinal = ordinal = tables.counters.ordinal + 1
        tables.counters.buried += 1
        tables.dead_letters.add(queue, _key(queue.id, special, ordinal), special.value, reason, now)
        if tables.urls is not None:
            tables.urls.completed(fingerprint, special.queue, special.short)

    def arrivals(self, via: CrawlUri | None, now: float) -> Arrivals:
        """Return a batch to which candidates are added in order."""
        return Arrivals(self._tables, self._turns, via, now)

    def _place_by_queue(self, candidates: dict[Any, Any], via: CrawlUri | None, now: float) -> None:
        """Put candidates on their queues, and update each queue once, in the order of the first arrivals.

        Copies `Arrivals` for equal settings and precedences, where only the first arrival may move a queue, in 15 %
        fewer instructions; tests/engine/admission/test_placing.py compares both.
        """
        tables = self._tables
        counters = tables.counters
        first = ordinal = counters.ordinal
        groups: dict[str, Group] = {}
        for candidate in candidates.values():
            if type(candidate) is tuple:
                name = candidate[0].queue
            else:
                name = candidate.queue
                if _is_for_later(tables, candidate.uri, now):
                    counters.ordinal = ordinal
                    _postpone(tables, candidate)
                    ordinal = counters.ordinal
                    continue
            ordinal += 1
            group = groups.get(name)
            if group is None:
                queue = tables.queues.find_or_create(name)
                groups[name] = queue.id, queue, [candidate], [ordinal]
            else:
                group[2].append(candidate)
                group[3].append(ordinal)
        counters.ordinal = ordinal
        fingerprints = None if tables.pending.urls is None else list(candidates)
        self._insert(sorted(groups.values()), via, first, fingerprints)
        base = tables.in_force.base
        for _, queue, arrived, _ in groups.values():
            last = arrived[-1]  # copies `_short`
            short = last[0].short + last[1] if type(last) is tuple else last.short
            self._turns.arrived(queue, len(arrived), short, base, None, now)

    def _insert(self, groups: list[Group], via: CrawlUri | None, first: int, fingerprints: list[Any] | None) -> None:
        """Write the pending records of candidates, which are given by queue.

        `fingerprints` are those of the ordinals after `first`, if URLs are kept; a candidate with `force` has none.
        """
        tables = self._tables
        start_of, pack_ordinal, fresh = keys.pending_start.pack, keys.u64.pack, keys.FRESH
        flip = uri_order.arrival(0, lifo=tables.in_force.base.lifo)  # ordinal ^ flip copies `uri_order.arrival`
        cost = tables.in_force.constant_cost or 0
        hops = "" if via is None else link_hops(via)
        records: list[tuple[bytes, bytes]] = []
        for queue_id, queue, candidates, ordinals in groups:
            start = start_of(queue_id, NORMAL, PRIORITY_ZERO, cost)
            found_on = None if via is None else shorten(via.url, queue.queue)
            for candidate, ordinal in zip(candidates, ordinals, strict=True):
                if type(candidate) is tuple:
                    authority, rest, payload = candidate
                    if payload is not None:
                        value = encode_carrying(authority.short + rest, payload)
                    elif found_on is not None:
                        value = encode_found(authority.short + rest, found_on, hops)
                    elif authority.mark is not None:
                        value = authority.mark + rest.encode()
                    else:
                        value = fresh + encode((authority.short + rest,))
                    records.append((start + pack_ordinal(ordinal ^ flip), value))
                else:
                    records.append((_key(queue_id, candidate, ordinal), candidate.value))
        admitted: list[New] | None = None
        if fingerprints is not None and int not in set(map(type, fingerprints)):
            keys_of = (key for key, _ in records)
            admitted = [
                (fingerprints[ordinal - first - 1], queue_id, _short(candidate), next(keys_of))
                for queue_id, _, candidates, ordinals in groups
                for candidate, ordinal in zip(candidates, ordinals, strict=True)
            ]
        records.sort()  # in order already, but for priorities and costs
        tables.pending.insert(records, admitted)


class Arrivals:
    """URIs put on their queues one after the other: each may change the queue for the next.

    Only their pending records wait, for `write`. O(1) each.
    """

    def __init__(self, tables: Tables, turns: Turns, via: CrawlUri | None, now: float) -> None:
        self._tables = tables
        self._turns = turns
        self._via = via
        self._now = now
        self._places: dict[str, list[Any]] = {}
        """By key: each queue, the settings of its last URI, the short form of that, and its lowest precedence."""
        self._records: list[tuple[bytes, bytes]] = []

    def add(self, candidates: Iterable[Plain | Special]) -> None:
        """Put candidates on their queues, or schedule them for later if they have a `not_before` ahead.

        A candidate that does not move its queue changes only the counts, and the budgets if it is the last: this copies
        `Turns.arrived`, and the key of a URI without a rank of its own. It saves a fifth of a batch with overrides;
        tests/engine/admission/test_twins.py compares both.
        """
        tables, places, now = self._tables, self._places, self._now
        counters, pack, append = tables.counters, keys.pending.pack, self._records.append
        ordinal, queued, ranked = counters.ordinal, 0, tables.in_force.ranks_queues
        for candidate in candidates:
            special = candidate if type(candidate) is Special else self.special(candidate)  # type: ignore[arg-type]
            uri, name, settings, asked = special.uri, special.queue, special.settings, special.precedence
            if uri is not None and _is_for_later(tables, uri, now):
                counters.ordinal = ordinal
                _postpone(tables, special)
                ordinal = counters.ordinal
                continue
            place = places.get(name)
            if place is None:
                place = places[name] = [tables.queues.find_or_create(name), None, "", _NO_PRECEDENCE]
            queue, before, _, _ = place
            place[1], place[2] = settings, special.short
            ordinal += 1
            if uri is None and not settings.lifo and special.own_precedence is None:
                key = pack(queue.id, NORMAL, PRIORITY_ZERO, special.cost, ordinal)
            else:
                key = _key(queue.id, special, ordinal)
            append((key, special.value))
            state = queue.state
            if (
                not ranked
                and (settings.precedence if asked is None else asked) == queue.precedence
                and (before is settings or (state is not EXHAUSTED and state is not IN_PROCESS))
            ):
                queue.queued += 1
                queue.enqueued += 1
                if state is not RETIRED and state is not INELIGIBLE:  # copies `queued_totals.is_queued`
                    queued += 1
            else:
                own = special.cost if special.own_precedence is None else special.own_precedence
                place[3] = lowest = min(place[3], own)
                self._turns.arrived(queue, 1, special.short, settings, asked, now, lowest=lowest)
        counters.ordinal = ordinal
        counters.queued += queued

    def special(self, plain: Plain) -> Special:
        """Return a plain URL with the settings and the cost that all URIs have."""
        in_force, (authority, rest, payload) = self._tables.in_force, plain
        short = authority.short + rest
        value = plain_value(authority, short, self._via, payload)
        return Special(authority.queue, value, short, None, in_force.constant_cost or 0, in_force.base, None, None)

    def write(self) -> None:
        """Write the pending records, and let the queues take URL and budgets of their last URIs: once, at the end."""
        revision = self._tables.counters.settings_revision
        for queue, settings, short, _ in self._places.values():
            queue.last_enqueued = short[:LONGEST_SHOWN]
            budgets.take_budgets(queue, settings, revision)
        self._records.sort()
        self._tables.pending.insert(self._records)


def _short(candidate: Any) -> str:
    if type(candidate) is not tuple:
        return candidate.short  # type: ignore[no-any-return]
    authority, rest, _ = candidate
    return authority.short + rest  # type: ignore[no-any-return]


def _key(queue_id: int, special: Special, ordinal: int) -> bytes:
    uri = special.uri
    directive, priority = (NORMAL, 0) if uri is None else (uri.directive, uri.priority)
    arrival = uri_order.arrival(ordinal, lifo=special.settings.lifo)
    rank = uri_order.rank(directive, priority, special.cost, arrival, special.own_precedence)
    return keys.pending.pack_rank(queue_id, *rank)


def _is_for_later(tables: Tables, uri: CrawlUri | None, now: float) -> bool:
    """Return whether a URI has a `not_before` ahead.

    In a frontier that keeps its URLs, a past one counts, too: URLs go to their queues in the order of their dates.
    """
    return uri is not None and uri.not_before is not None and (uri.not_before > now or tables.urls is not None)


def _postpone(tables: Tables, special: Special) -> None:
    """Schedule a candidate for later: when its `not_before` has come, it goes where its rank says."""
    uri = special.uri
    numbers = uri_order.rank(uri.directive, uri.priority, special.cost, 0, special.own_precedence)  # type: ignore[union-attr]
    rank = keys.rank.pack_rank(*numbers)
    queue = tables.queues.find_or_create(special.queue)
    due = max(EARLIEST, uri.not_before)  # type: ignore[union-attr,type-var]
    tables.future.add(queue, rank, special.value, due)  # type: ignore[arg-type]
