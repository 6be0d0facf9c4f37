"""The candidates for admission: each URI passed by a caller, with its fingerprint, queue and pending value.

A known authority with a plain path skips the URL parser and the canonical form: the same result, several times faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, is_
from typing import Any

import msgspec
import xxhash

from budgetfrontier.core import uris
from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.model import Admission, CrawlUri, Tally
from budgetfrontier.engine.admission.read_batch import Batch, UriCandidate
from budgetfrontier.engine.admission.storable import check_fields, check_key, encoded
from budgetfrontier.engine.settings_in_force import SettingsInForce, renamed
from budgetfrontier.engine.tables import Tables
from budgetfrontier.errors import InvalidUrl, PolicyError
from budgetfrontier.rules import duplicates, queue_keys, uri_order, uri_outcomes
from budgetfrontier.rules.duplicates import identifying_url
from budgetfrontier.rules.seeds import is_seed
from budgetfrontier.settings import policy_factory, policy_results
from budgetfrontier.settings.overrides import ByAuthority, QueueSettings
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.uri_values import (
    PLAIN_STARTS,
    encode_carrying,
    encode_found,
    encode_uri,
    encode_url,
    link_hops,
    plain_start,
    shorten,
)

AUTHORITIES = 28 << 10  # kept in memory at the most, about 300 bytes each

# Characters that the URL parser keeps in paths and queries of http and https, unless a segment starts with a dot.
_UNTOUCHED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_~./-?=&:+,!*$@;()[]|")

_LETTER, _OTHER = b"a "


class Authority(msgspec.Struct, gc=False):
    """Scheme and host as they were written in a URL that was parsed before. No tuple: the collector would walk them."""

    canonical: str
    hash: bytes
    queue: str
    mark: bytes | None
    """The first byte of the plain values of its URLs; None if its queue's key is not the host."""
    short: str
    """The beginning of its URLs in the records of its queue."""
    overriding: ByAuthority | None = None
    """The overrides of its URLs; None if nobody has asked since settings changed."""


_OTHER_FIELDS = [each for each in CrawlUri.__struct_fields__ if each not in ("url", "payload")]
_nothing_else = attrgetter(*_OTHER_FIELDS)
_NOTHING_ELSE = _nothing_else(CrawlUri(""))
_LONGEST_PAYLOAD = 1 << 16
"""Bytes of a payload that is stored with any URL: no record becomes too large."""
_READ = "via", "hops", "priority"
_DEFAULTS = [each for each in zip(_OTHER_FIELDS, _NOTHING_ELSE, strict=True) if each[0] not in _READ]
CARRIERS = CrawlUri, _DEFAULTS, _LONGEST_PAYLOAD
"""The class of URIs that the compiled kernel reads, the fields that must have their defaults, and the most bytes of the
others, which are a priority and those of a page or a payload."""


class Candidates:
    """The reader of the URIs that callers pass, by the policies in force. Raises only PolicyError; stores nothing."""

    def __init__(self, tables: Tables, suffix_list: str | None) -> None:
        frontier = tables.in_force.frontier
        self._tables = tables
        self._assign = policy_factory.assignment(frontier, suffix_list, tables.hosts.address)
        self._by_authority = bool(getattr(self._assign, "by_authority", False))
        self._keys: BoundedCache[str, tuple[str, str | None, str | None]] = BoundedCache(AUTHORITIES)
        """By authority, the keys that the policy returned; if it goes by addresses, with the host and its address."""
        self._former = policy_factory.former_assignments(
            frontier, tables.former_assignments, suffix_list, tables.hosts.address
        )
        self._rekeyed: BoundedCache[tuple[str, str], None] = BoundedCache(AUTHORITIES)
        """The changes of keys that are in `Tables.rekeyed`, or were."""
        self._canonical: Any = policy_factory.canonicalization(frontier)
        self._records_nothing = frontier.duplicates == duplicates.NOOP
        shortcuts = self._by_authority and not self._records_nothing
        self._by_parts = shortcuts and hasattr(self._canonical, "authority")
        self._known: BoundedCache[str, Authority] = BoundedCache(AUTHORITIES)
        plain = "".join(sorted(_UNTOUCHED & frozenset(getattr(self._canonical, "PLAIN", "")))).encode()
        self.plain = plain
        self._letters = bytes(_LETTER if byte in plain else _OTHER for byte in range(256))
        """A table that translates plain text to letters, and nothing else."""
        self._has_shortcut = self._by_parts and bool(plain)
        own = vars(type(self._canonical))
        self.query_rules: Any = getattr(self._canonical, "query_rules", None) if "query_rules" in own else None
        """What the compiled kernel does to queries; None if the policy is another, or a subclass that may do more."""
        self.canonical_authority: Callable[[str], str] | None = getattr(self._canonical, "authority", None)
        """Returns the canonical form of scheme and host; None if the policy goes by whole URLs."""
        assigning = vars(type(self._assign))
        self.keeps_hosts = "keeps_hosts" in assigning and bool(getattr(self._assign, "keeps_hosts", False))
        """Whether the key of each queue that is assigned is the whole host and port of its URLs."""
        by_kernel = self.keeps_hosts and not self._former and self.query_rules is not None
        self.plain_hosts = (getattr(self._canonical, "strips_www", False), PLAIN_STARTS) if by_kernel else None
        """What the compiled kernel needs to read plain hosts without a policy; None if it has to call one."""
        self._simple_in: SettingsInForce | None = None
        """The settings for which `are_simple` is true, once that is known."""
        self._overridden_in: SettingsInForce | None = None
        """The settings of which `Authority.overriding` is."""
        tables.queue_key = self.queue_key
        self.canonicalizer_id = policy_factory.canonicalizer_id(frontier)

    # -- a batch

    def read(self, batch: Sequence[Any], tally: Tally, via: CrawlUri | None, recent: set[str]) -> Batch:
        """Read a batch, except plain URLs in `recent`; count INVALID URIs."""
        found = Batch({}, [], [], [], [], [])
        candidates, forced, invalid, each, reasons, seeds = found
        if self._overridden_in is not self._tables.in_force:
            self._forget_overrides()
        for given in batch:
            url = identifying_url(given)
            if url is not None and url in recent and (type(given) is str or _is_url_and_payload(given)):
                each.append((Admission.DUPLICATE, None))
                continue
            try:
                fingerprint, candidate = self.read_plain(given, url, via) or self.prepare(given, via)
            except InvalidUrl as e:
                tally.refuse(e.reason)
                reasons.append(e.reason)
                invalid.append(given)
                each.append((Admission.INVALID, None))
                continue
            key: Any = len(candidates) if fingerprint is None else fingerprint
            if fingerprint is None:
                forced.append(key)
            candidates.setdefault(key, candidate)
            each.append((key, candidate))
            if (uri := candidate.uri) is not None and uri.directive != uri_order.NORMAL and is_seed(uri):
                seeds.append((key, candidate, uri))
        return found

    def _forget_overrides(self) -> None:
        self._overridden_in = self._tables.in_force
        for authority in self._known.values():
            authority.overriding = None

    def read_plain(self, given: Any, url: str | None, via: CrawlUri | None) -> tuple[bytes, UriCandidate] | None:
        """Return the fingerprint and the candidate of a plain URL, as `prepare` does; None for others.

        Raises PolicyError.
        """
        payload, simple = None, self.are_simple()
        if type(given) is not str:
            if not simple or via is not None or url is None or not _is_url_and_payload(given):
                return None
            payload = given.payload
        if url is None or (parts := self._plain_parts(url)) is None:
            return None
        fingerprint, authority, rest = parts
        queue, short, in_force = authority.queue, authority.short + rest, self._tables.in_force
        value = plain_value(authority, short, via, payload)
        if simple:
            cost = in_force.constant_cost or 0
            return fingerprint, UriCandidate(queue, value, short, None, cost, in_force.base, None, None)
        uri = None if via is None else CrawlUri(url, via=via.url, hops=link_hops(via))
        return fingerprint, self._candidate(url, queue, value, short, uri, self._settings_of(authority, url))

    def _settings_of(self, authority: Authority, url: str) -> QueueSettings:
        effective = self._tables.in_force.effective
        if authority.overriding is None:
            authority.overriding = effective.by_authority(url, authority.queue)
        overriding = authority.overriding
        return effective.settings_of(overriding, url) if overriding.tests else overriding.settings

    def _plain_parts(self, url: str, *, known_only: bool = False) -> tuple[bytes, Authority, str] | None:
        """Return the fingerprint, the authority and the rest of a URL that the parser leaves as it is.

        None for others. With `known_only`, only if its authority is in memory. Raises PolicyError.
        """
        slash = url.find("/", 8)
        rest = url[slash:]
        try:
            plain = rest.encode().translate(self._letters).isalpha()
        except UnicodeEncodeError:
            return None
        if not plain or slash < 0 or "/." in rest or len(url) > uris.MAX_LENGTH or not self._has_shortcut:
            return None
        authority = self._known.get(url[:slash]) or (None if known_only else self._parse_authority(url))
        if authority is None:
            return None
        path, mark, query = rest.partition("?")
        try:
            canonical = authority.canonical + (path + self._canonical.query(query) if mark else rest)
        except Exception as e:
            raise self._no_form(url, e) from e
        return authority.hash + xxhash.xxh3_128_digest(canonical.encode())[:12], authority, rest

    def known_fingerprint(self, url: str) -> bytes | None:
        """Return the fingerprint of a URL if it is plain and its authority is in memory. Raises PolicyError."""
        known = self._plain_parts(url, known_only=True)
        return None if known is None else known[0]

    def are_simple(self) -> bool:
        """Return whether all plain strings have the same cost and place, and their authority determines their queue."""
        in_force = self._tables.in_force
        if in_force is self._simple_in:
            return True
        fixed = in_force.fixed_precedence and in_force.orders_by_cost
        if self._has_shortcut and fixed and in_force.constant_cost is not None:
            self._simple_in = in_force
            return True
        return False

    # -- one URI

    def prepare(self, given: object, via: CrawlUri | None) -> tuple[bytes | None, UriCandidate]:
        """Return the fingerprint of `given` (None with `force`, or if none is recorded), and its candidate.

        Raises InvalidUrl and PolicyError.
        """
        if isinstance(given, str):
            fingerprint, candidate = self._prepare(given, None, via)
        elif isinstance(given, CrawlUri):
            fingerprint, candidate = self._prepare(given.url, given, via)
        else:
            raise InvalidUrl("type", f"{type(given).__name__} is not a URI")
        return None if self._records_nothing else fingerprint, candidate

    def _prepare(self, given: str, uri: CrawlUri | None, via: CrawlUri | None) -> tuple[bytes | None, UriCandidate]:
        if uri is not None:
            check_fields(uri)
        url, fingerprint, queue = self._address(given, uri)
        if uri is not None:
            if via is not None and not uri_outcomes.comes_again(uri, via):  # a revisit keeps its via
                uri = msgspec.structs.replace(uri, via=uri.via or via.url, hops=uri.hops or link_hops(via))
            if queue is None or uri.queue is not None:  # it is not the one of its authority
                encoded(uri, url, "")  # before a policy sees it
                queue = self.queue_key(renamed(uri, url))
                value = encode_uri(uri, url, queue)
            else:
                value = encoded(uri, url, queue)
        elif via is not None:
            uri = CrawlUri(url, via=via.url, hops=link_hops(via))
            queue = queue or self.queue_key(uri)
            value = encode_found(shorten(url, queue), shorten(via.url, queue), uri.hops)
        else:
            queue = queue or self.queue_key(CrawlUri(url))
            value = encode_url(url, queue)
        settings = self._tables.in_force.for_uri(url, queue, None if uri is None else uri.source)
        return fingerprint, self._candidate(url, queue, value, shorten(url, queue), uri, settings)

    def _candidate(
        self, url: str, queue: str, value: bytes, short: str, uri: CrawlUri | None, settings: QueueSettings
    ) -> UriCandidate:
        """Return a candidate with the cost and the precedences that policies give it. Raises PolicyError."""
        in_force, precedence = self._tables.in_force, None
        cost = in_force.cost(url, uri, settings)
        own_precedence = in_force.uri_precedence(url, uri, settings)
        if in_force.asks_precedence:
            precedence = in_force.precedence(CrawlUri(url) if uri is None else renamed(uri, url), settings)
        return UriCandidate(queue, value, short, uri, cost, settings, precedence, own_precedence)

    def _address(self, given: str, uri: CrawlUri | None) -> tuple[str, bytes | None, str | None]:
        """Return the normalized URL, its fingerprint (None with `force`), and its queue if the authority decides it."""
        if uri is not None and identifying_url(uri) is None:
            url = uris.parse(given)
            return url, duplicates.fingerprint(uri, url, self._form), None
        return self._parse(given)

    def _parse(self, given: str) -> tuple[str, bytes, str | None]:
        url = uris.parse(given)
        if not self._by_parts:
            queue = self.queue_key(CrawlUri(url)) if self._by_authority else None
            return url, uris.fingerprint(self._form(url)), queue
        prefix, path, query = uris.split(url)
        known = self._known.get(prefix) or self._cache_authority(prefix, url)
        try:
            canonical = known.canonical + self._canonical.path(path) + self._canonical.query(query)
            return url, known.hash + xxhash.xxh3_128_digest(canonical.encode())[:12], known.queue
        except Exception as e:
            raise self._no_form(url, e) from e

    def _cache_authority(self, prefix: str, url: str, *, keep: bool = True) -> Authority:
        """Return the authority of a URL that was parsed, and `keep` it if it is short."""
        key = self._assigned_key(CrawlUri(url))
        try:
            canonical = self._canonical.authority(prefix)
            digest = uris.authority_hash(canonical)
        except Exception as e:
            raise self._no_form(url, e) from e
        canonical = prefix if canonical == prefix else canonical  # one string less for most hosts
        known = Authority(canonical, digest, check_key(key), *plain_start(prefix, key))
        if keep and len(prefix) < 512:
            self._known.put(prefix, known)
        return known

    def authority(self, url: str) -> tuple[str, bytes, str, int | None, str] | None:
        """Return the authority of a plain URL for the kernel, which keeps it; see `_parse_authority`."""
        found = self._parse_authority(url, keep=False)
        if found is None:
            return None
        return found.canonical, found.hash, found.queue, None if found.mark is None else found.mark[0], found.short

    def _parse_authority(self, given: str, *, keep: bool = True) -> Authority | None:
        """Return the authority of a plain URL, if it is new.

        None unless its URL is as the parser writes it, and its queue has a key: then `prepare` finds the error.
        """
        try:
            if uris.parse(given) == given:
                return self._cache_authority(given[: given.index("/", 8)], given, keep=keep)
        except InvalidUrl:
            pass
        return None

    def fingerprint(self, uri: CrawlUri) -> bytes:
        """Return the fingerprint of a URI, forced or not. Raises InvalidUrl and PolicyError."""
        if uri.body or uri.method != "GET":
            return uris.fingerprint(self._form(uris.parse(uri.url)), uri.method, uri.body)
        if (known := self.known_fingerprint(uri.url)) is not None:
            return known
        return self._parse(uri.url)[1]

    def _form(self, url: str) -> str:
        return policy_results.form(self._canonical, self._tables.in_force.frontier.canonicalization_policy, url)

    def _no_form(self, url: str, error: Exception) -> PolicyError:
        return policy_results.raised(
            "canonicalization", self._tables.in_force.frontier.canonicalization_policy, url, error
        )

    def queue_key(self, uri: CrawlUri) -> str:
        """Return the key of the queue that a URI with a normalized URL is placed on.

        Raises InvalidUrl for text that is no key: that is the URI's fault.
        """
        url = uri.url
        known = self._keys.get(url[: url.find("/", 8)])
        if known is not None and uri.queue is None:
            key, host, address = known
            if host is None or self._tables.hosts.address(host) == address:
                return key
        key = check_key(queue_keys.queue_key_for(uri, self._assigned_key))
        prefix = url[: url.find("/", 8)]
        if uri.queue is None and len(prefix) < 512:
            if self._by_authority:
                self._keys.put(prefix, (key, None, None))
            elif self._tables.in_force.assigns_by_address:
                host = uris.host(url)
                self._keys.put(prefix, (key, host, self._tables.hosts.address(host)))
        return key

    def _assigned_key(self, uri: CrawlUri) -> str:
        key = policy_results.queue_key(self._assign, self._tables.in_force.frontier.queue_assignment_policy, uri)
        for former in self._former:
            before = former(uri)
            if before is not None and before != key and (before, key) not in self._rekeyed:
                self._rekeyed.put((before, key), None)
                self._tables.rekeyed.append((before, key))
        return key


def _is_url_and_payload(uri: CrawlUri) -> bool:
    """Return whether a URI has the default of every field but these two, and a payload that is not large, or none.

    `is`, because a caller may give anything: a value merely equal to a default takes the slow path.
    """
    payload: object = uri.payload
    return (payload is None or (payload.__class__ is bytes and len(payload) <= _LONGEST_PAYLOAD)) and all(
        map(is_, _nothing_else(uri), _NOTHING_ELSE)
    )


def plain_value(authority: Authority, short: str, via: CrawlUri | None, payload: bytes | None = None) -> bytes:
    """Return the value of a plain URL in its short form, found on the page `via` if there is one."""
    if payload is not None:
        return encode_carrying(short, payload)
    if via is not None:
        return encode_found(short, shorten(via.url, authority.queue), link_hops(via))
    return keys.FRESH + encode((short,)) if authority.mark is None else authority.mark + short[1:].encode()
