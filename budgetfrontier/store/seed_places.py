"""Where the URIs of a list are, such as all seeds: on which queue, scheduled for later, dead, or only seen."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import NamedTuple

from budgetfrontier import uris
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.model import CrawlUri, DeadLetter, Directive
from budgetfrontier.settings import policy_factory, policy_results
from budgetfrontier.store import keys, meta
from budgetfrontier.store.records import dead_letter, decode_dead, decode_url
from budgetfrontier.store.uri_values import expand, short_url
from budgetfrontier.store.url_search import at_place
from budgetfrontier.store.view import PendingUri, View, pending_uri


class Place(NamedTuple):
    """The place of a URI: its queue, whether it was seen, and its record, if it is pending, for later, or dead."""

    queue: str
    """Its key; "" if it is not known which one the URI was placed on."""
    seen: bool
    record: PendingUri | DeadLetter | None = None
    may_wait: bool = False
    """Whether it may be pending nevertheless if there is no record: behind links, where it is not looked for."""
    waits: bool = False
    """Whether it waits even if there is no record: it was scheduled more than once, and only one place is known."""


def seed_places(view: View, urls: Iterable[str], *, queues: Mapping[str, str] | None = None) -> dict[str, Place]:
    """Return the place of each URL, normalized ones.

    `queues` has the seeds of the settings with the queues forced on them, "" for none. Any other URL was imported, on a
    queue that may have been forced on it.

    In a frontier that keeps its URLs, each is where its row says: O(URLs), and O(URIs before the last in each queue).
    In any other, seeds are at the head of their queues, before all links, and only there they are looked for: O(queues)
    and O(seeds). In addition, O(URIs for later) and O(dead letters). Raises PolicyError.
    """
    frontier, queues = view.settings()[0].frontier, queues or {}
    canonical = partial(
        policy_results.form, policy_factory.canonicalization(frontier), frontier.canonicalization_policy
    )
    assign = policy_factory.assignment(frontier, meta.read_suffixes(view.txn, view.db[keys.META]))
    out = frozenset(view.leased_keys())
    places: dict[str, Place] = {}
    waiting: dict[bytes, str] = {}
    for url in urls:
        try:
            fingerprint = uris.fingerprint(canonical(url))
            value = view.txn.get(fingerprint, db=view.db[keys.URLS]) if frontier.keep_urls else None
            if value is not None:
                row = decode_url(value)
                queue = view.queue_by_id(row.queue)
                record = at_place(view, queue, row.place, out)
                place = Place(queue.queue, True, record, waits=row.more > 0)
                waiting[row.place] = url
            else:
                name = ""
                if url in queues:
                    name = queues[url] or policy_results.queue_key(
                        assign, frontier.queue_assignment_policy, CrawlUri(url)
                    )
                seen = view.txn.get(fingerprint, db=view.db[keys.SEEN]) is not None
                place = Place(name, seen, may_wait=not frontier.keep_urls and url not in queues)
        except InvalidUrl:
            continue
        places[url] = place
    if frontier.keep_urls:
        _count_before(view, places, waiting)
    else:
        _find_at_heads(view, places, out)
    for item in view.future():
        _put(places, item.uri.url, item)
    for key, value in view.items(keys.DEAD):
        letter = dead_letter(keys.u64.unpack(key)[0], decode_dead(value))
        _put(places, letter.uri.url, letter)
    return places


def _count_before(view: View, places: dict[str, Place], waiting: Mapping[bytes, str]) -> None:
    """Note how many URIs are before each that waits in its queue; they are given by the keys of their records."""
    cursor = view.txn.cursor(view.db[keys.PENDING])
    for prefix, group in groupby(sorted(waiting), lambda key: key[: keys.u32.size]):
        before = enumerate(cursor.iternext(values=False) if cursor.set_range(prefix) else ())
        for wanted in group:
            record = places[waiting[wanted]].record
            if isinstance(record, PendingUri) and record.when is None:
                record.place = next(number for number, key in before if key == wanted)


def _find_at_heads(view: View, places: dict[str, Place], out: Container[bytes]) -> None:
    """Note those that are pending as seeds, in whatever queue: at its head. Others are skipped, queue by queue."""
    cursor = view.txn.cursor(view.db[keys.PENDING])
    more = cursor.set_range(keys.FIRST)
    known, before = b"", 0
    while more:
        key, value = cursor.item()
        queue_id, directive, *_ = keys.pending.unpack(key)
        if directive > Directive.MEDIUM:
            more = cursor.set_range(keys.u32.pack(queue_id + 1))
            continue
        if key[:4] != known:
            known, before = key[:4], 0
            queue = view.queue_by_id(queue_id)
        url = expand(short_url(value), queue.queue)
        if url in places:
            _put(places, url, pending_uri(queue, key[4:], value, place=before, leased=key in out))
        before += 1
        more = cursor.next()


def _put(places: dict[str, Place], url: str, record: PendingUri | DeadLetter) -> None:
    place = places.get(url)
    if place is not None and place.record is None:
        places[url] = place._replace(record=record, queue=record.queue)
