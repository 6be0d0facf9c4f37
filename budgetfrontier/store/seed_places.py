"""Where the URIs of a list are, such as all seeds: on which queue, scheduled for later, dead, or only seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from budgetfrontier import uris
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.model import CrawlUri, DeadLetter, Directive
from budgetfrontier.settings import policy_factory, policy_results
from budgetfrontier.store import keys, meta
from budgetfrontier.store.records import dead_letter, decode_dead
from budgetfrontier.store.view import PendingUri, View


class Place(NamedTuple):
    """The place of a URI: its queue, whether it was seen, and its record, if it is pending, for later, or dead."""

    queue: str
    seen: bool
    record: PendingUri | DeadLetter | None = None


def seed_places(view: View, urls: Iterable[str], *, queues: dict[str, str] | None = None) -> dict[str, Place]:
    """Return the place of each URL, normalized ones; `queues` has the queues that were forced on some.

    Seeds are at the head of their queues, before all links, and only there they are looked for: O(seeds), and once
    O(URIs for later) and O(dead letters). Raises PolicyError.
    """
    frontier = view.settings()[0].frontier
    canonical = policy_factory.canonicalization(frontier)
    assign = policy_factory.assignment(frontier, meta.read_suffixes(view.txn, view.db[keys.META]))
    places: dict[str, Place] = {}
    by_queue: defaultdict[str, set[str]] = defaultdict(set)
    for url in urls:
        try:
            form = policy_results.form(canonical, frontier.canonicalization_policy, url)
            name = (queues or {}).get(url) or policy_results.queue_key(
                assign, frontier.queue_assignment_policy, CrawlUri(url)
            )
        except InvalidUrl:
            continue
        seen = view.txn.get(uris.fingerprint(form), db=view.db[keys.SEEN]) is not None
        places[url] = Place(name, seen)
        by_queue[name].add(url)
    out = frozenset(view.leased_keys())
    for name, wanted in by_queue.items():
        queue = view.find_queue(name)
        for item in view.pending(queue, out=out) if queue is not None else ():
            if item.uri.directive > Directive.MEDIUM:
                break
            if item.uri.url in wanted:
                places[item.uri.url] = places[item.uri.url]._replace(record=item)
    for item in view.future():
        _put(places, item.uri.url, item)
    for key, value in view.items(keys.DEAD):
        letter = dead_letter(keys.u64.unpack(key)[0], decode_dead(value))
        _put(places, letter.uri.url, letter)
    return places


def _put(places: dict[str, Place], url: str, record: PendingUri | DeadLetter) -> None:
    place = places.get(url)
    if place is not None and place.record is None:
        places[url] = place._replace(record=record)
