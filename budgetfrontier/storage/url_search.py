"""The search for a URL in all tables of a frontier."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, takewhile
from typing import Any

from msgspec.structs import replace

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri, DeadLetter, KeptUrl, QueueRecord
from budgetfrontier.errors import CorruptFrontier, InvalidUrl
from budgetfrontier.rules import duplicates
from budgetfrontier.rules.queue_keys import queue_key_for
from budgetfrontier.settings import policy_factory, policy_results
from budgetfrontier.settings.schema import FrontierSettings
from budgetfrontier.storage import bloom_file, keys, meta
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.kept_places import future_key
from budgetfrontier.storage.records import UrlRow, dead_letter, decode_dead, decode_future, decode_url
from budgetfrontier.storage.uri_values import decode_uri, encode_url, expand, short_url, shorten
from budgetfrontier.storage.view import PendingUri, View, pending_uri


def find(view: View, url: str, *, anywhere: bool = False) -> dict[str, Any]:
    """Return the records of a URL, as `Reader.find` does. Raises PolicyError, MissingExtra.

    The Bloom filter of this snapshot may have been replaced by a newer one meanwhile: then there is a `doubt`.
    """
    try:
        href = uris.parse(url)
    except InvalidUrl as e:
        nothing = dict.fromkeys(("queue", "pending", "dead", "kept"))
        return {"valid": False, "reason": str(e), "seen": False, "doubt": "", **nothing}
    frontier = view.settings()[0].frontier
    canonical = _canonicalization(frontier)
    fingerprint = uris.fingerprint(canonical(href))
    seen, doubt = _is_seen(view, frontier, fingerprint)
    value = view.txn.get(fingerprint, db=view.db[keys.URLS]) if frontier.keep_urls else None
    pending = kept = None
    if value is not None:
        row = decode_url(value)
        queue = view.queue_by_id(row.queue)
        name, pending = queue.queue, at_place(view, queue, row.place, frozenset(view.leased_keys()))
        if pending is not None and pending.when is None:
            pending.place = _count_before(view, row.place)
        kept = _kept(fingerprint, row, name)
    else:
        name = _queue_of(view, frontier, href)
        assigned = (assign(CrawlUri(href)) for assign in _assignments(view, frontier))
        for key in dict.fromkeys((name, *filter(None, assigned))):
            found = view.find_queue(key)
            if found is not None:
                pending = _pending(view, found, href, canonical) or _future(view, found, href, canonical)
            if pending is not None:
                name = key
                break
        if pending is None and anywhere:
            pending = _on_any_queue(view, href)
            name = name if pending is None else pending.queue
    dead = None if pending else _dead(view, href)
    place = {"queue": name, "pending": pending, "dead": dead, "kept": kept}
    return {"valid": True, "url": href, "seen": seen, "doubt": doubt, **place}


def is_known(view: View, url: str) -> bool:
    """Return whether a URL was seen, whatever queue it was placed on. O(log n). Raises PolicyError."""
    try:
        href = uris.parse(url)
    except InvalidUrl:
        return False
    fingerprint = uris.fingerprint(_canonicalization(view.settings()[0].frontier)(href))
    return _in_tables(view, fingerprint)


def waits_in(view: View) -> Callable[[CrawlUri], bool]:
    """Return the test whether the URL of a URI that comes back waits, in a frontier that keeps URLs.

    It does, too, if the test was asked about it before, for another URI that comes back.
    """
    recognized, back = recognizer(view), set[bytes]()

    def waits(uri: CrawlUri) -> bool:
        fingerprint, _ = recognized(uri)
        value = view.txn.get(fingerprint, db=view.db[keys.URLS])
        is_waiting = fingerprint in back or (value is not None and decode_url(value).waits)
        back.add(fingerprint)
        return is_waiting

    return waits


def recognizer(view: View) -> Callable[[CrawlUri], tuple[bytes, bool]]:
    """Return the function for the fingerprint of a URI, and whether it is known. Raises CorruptFrontier.

    The function raises InvalidUrl and PolicyError. A Bloom filter is read once.
    """
    canonical, known = _canonicalization(view.settings()[0].frontier), knows(view)

    def recognized(uri: CrawlUri) -> tuple[bytes, bool]:
        fingerprint = duplicates.fingerprint_of(uri, uris.parse(uri.url), canonical)
        return fingerprint, known(fingerprint)

    return recognized


def knows(view: View) -> Callable[[bytes], bool]:
    """Return the function for whether a fingerprint is known. A Bloom filter is read once. Raises CorruptFrontier."""
    row = meta.read_filter(view.txn, view.db[keys.META])
    settings = view.settings()[0].frontier.bloom
    bloom = None if row is None or view.folder is None else bloom_file.read(view.folder, row, settings)
    return lambda fingerprint: _in_tables(view, fingerprint) or (bloom is not None and fingerprint in bloom)


def waiting_among(view: View, given: Mapping[bytes, CrawlUri]) -> set[bytes]:
    """Return those fingerprints of which a URI waits, leased or not, in a queue of its URL or for a date.

    `given` has a URI for each. A key that was forced on the URI that waits is found if it is on the one given, too.
    O(URIs of these queues). Raises PolicyError.
    """
    frontier = view.settings()[0].frontier
    canonical = _canonicalization(frontier)
    given = {fingerprint: replace(uri, url=uris.parse(uri.url)) for fingerprint, uri in given.items()}
    queues = {queue.id: queue for queue in _queues_of(view, frontier, given.values())}
    pending = ((id, value) for id in queues for _, value in view.pending_items(keys.u32.pack(id)))
    dated = view.items(keys.FUTURE) if any(queue.future for queue in queues.values()) else ()
    later = ((row.queue, row.value) for row in (decode_future(value) for _, value in dated) if row.queue in queues)
    forms, found = {canonical(uri.url) for uri in given.values()}, set[bytes]()
    for id, value in chain(pending, later):
        name = queues[id].queue
        if canonical(expand(short_url(value), name)) in forms:
            uri = decode_uri(value, name)
            found.add(duplicates.fingerprint_of(uri, uri.url, canonical))
    return found & given.keys()


def _queues_of(view: View, frontier: FrontierSettings, given: Iterable[CrawlUri]) -> list[QueueRecord]:
    assign = policy_factory.assignment(frontier, view.suffix_list(), view.address_of)
    now = partial(policy_results.queue_key, assign, frontier.queue_assignment_policy)
    assigned = list(_assignments(view, frontier))
    names = {name for uri in given for name in (queue_key_for(uri, now), *(each(uri) for each in assigned)) if name}
    return [queue for queue in map(view.find_queue, sorted(names)) if queue is not None]


def _in_tables(view: View, fingerprint: bytes) -> bool:
    return any(view.txn.get(fingerprint, db=view.db[table]) is not None for table in (keys.SEEN, keys.URLS))


def _is_seen(view: View, frontier: FrontierSettings, fingerprint: bytes) -> tuple[bool, str]:
    """Return whether a fingerprint is in `seen`, or in the Bloom filter, which is read for that; and why it may be.

    The filter may be damaged, begun anew by a repair, or there is none (`noop`): then nothing says that it is not.
    """
    if view.txn.get(fingerprint, db=view.db[keys.SEEN]) is not None:
        return True, ""
    if frontier.duplicates == duplicates.NOOP:
        return False, "with `duplicates: noop`, the frontier does not record which URLs were seen"
    row = meta.read_filter(view.txn, view.db[keys.META])
    if row is None or view.folder is None:
        return False, ""
    try:
        return fingerprint in bloom_file.read(view.folder, row, frontier.bloom), ""
    except CorruptFrontier as e:
        return False, str(e)


def _canonicalization(frontier: FrontierSettings) -> Callable[[str], str]:
    return partial(policy_results.form, policy_factory.canonicalization(frontier), frontier.canonicalization_policy)


def _kept(fingerprint: bytes, row: UrlRow, name: str) -> KeptUrl:
    return KeptUrl(
        fingerprint=fingerprint, url=expand(row.url, name), queue=name, created=row.created, due=row.due or None
    )


def at_place(view: View, queue: QueueRecord, place: bytes, out: Container[bytes]) -> PendingUri | None:
    """Return the URI at the place of a row of `urls`; None if it waits for nothing. O(log n).

    `out` has the keys of leased URIs. The caller counts the URIs before it, its `place`.
    """
    if not place:
        return None
    later = future_key(place)
    value = view.txn.get(place if later is None else later, db=view.db[keys.PENDING if later is None else keys.FUTURE])
    if value is None:
        raise Damage(f"a URL of queue {queue.queue}: what waits is not where its row says")
    if later is not None:
        return view.future_uri(later, value)
    return pending_uri(queue, place[4:], value, leased=place in out)


def queue_of(view: View, url: str) -> str:
    """Return the key of the queue that a URL belongs to, whether there is one. Raises InvalidUrl and PolicyError."""
    return _queue_of(view, view.settings()[0].frontier, uris.parse(url))


def _queue_of(view: View, frontier: FrontierSettings, href: str) -> str:
    assign = policy_factory.assignment(frontier, view.suffix_list(), view.address_of)
    return policy_results.queue_key(assign, frontier.queue_assignment_policy, CrawlUri(href))


def _assignments(view: View, frontier: FrontierSettings) -> Iterator[Callable[[CrawlUri], str | None]]:
    """Yield the assignments by this policy and those before, as addresses were not known, and as they are now.

    A URL may wait in any of these queues.
    """
    specs = [frontier.queue_assignment_policy, *meta.read_assignments(view.txn, view.db[keys.META])]
    for address_of in (uris.own_address, view.address_of):
        yield from policy_factory.former_assignments(frontier, specs, view.suffix_list(), address_of)


def _pending(view: View, queue: QueueRecord, href: str, canonical: Callable[[str], str]) -> PendingUri | None:
    """Return the first URI of a queue with this URL, otherwise the first one with the same canonical form.

    The bytes are compared first: that takes 0.3 s for a million URIs, computing their canonical forms takes seconds.
    """
    plain, short = encode_url(href, queue.queue), shorten(href, queue.queue)
    part = encode(short)
    for place, (key, value) in enumerate(view.pending_items(keys.u32.pack(queue.id))):
        if value == plain or (part in value and short_url(value) == short):
            return pending_uri(queue, key[4:], value, place=place, leased=key in view.leased_keys())
    wanted, name = canonical(href), queue.queue
    for place, (key, value) in enumerate(view.pending_items(keys.u32.pack(queue.id))):
        if canonical(expand(short_url(value), name)) == wanted:
            return pending_uri(queue, key[4:], value, place=place, leased=key in view.leased_keys())
    return None


def _on_any_queue(view: View, href: str) -> PendingUri | None:
    """Return the first URI with this very URL on a queue that has another key than its host."""
    part = href.encode()
    for key, value in view.items(keys.PENDING):
        if part in value:
            queue = view.queue_by_id(keys.u32.unpack(key[:4])[0])
            if expand(short_url(value), queue.queue) == href:
                place = _count_before(view, key)
                return pending_uri(queue, key[4:], value, place=place, leased=key in view.leased_keys())
    return next((view.future_uri(*item) for item in view.items(keys.FUTURE) if _is_of(view, item, part)), None)


def _count_before(view: View, key: bytes) -> int:
    return sum(1 for _ in takewhile(lambda item: item[0] < key, view.pending_items(key[: keys.u32.size])))


def _is_of(view: View, item: tuple[bytes, bytes], part: bytes) -> bool:
    return part in item[1] and view.future_uri(*item).uri.url.encode() == part


def _future(view: View, queue: QueueRecord, href: str, canonical: Callable[[str], str]) -> PendingUri | None:
    """Return the first URI of a queue that is scheduled for later and has the same canonical form as this URL."""
    wanted = canonical(href)
    for key, value in view.items(keys.FUTURE) if queue.future else ():
        row = decode_future(value)
        if row.queue == queue.id and canonical(expand(short_url(row.value), queue.queue)) == wanted:
            return pending_uri(queue, row.rank, row.value, when=keys.due.unpack(key)[0])
    return None


def _dead(view: View, href: str) -> DeadLetter | None:
    for key, value in view.items(keys.DEAD):
        row = decode_dead(value)
        if short_url(row.value) == shorten(href, row.name):
            return dead_letter(keys.u64.unpack(key)[0], row)
    return None
