"""The values of `pending`: URIs as they are stored, with URLs relative to their queue."""

from __future__ import annotations

import struct
from operator import attrgetter
from typing import Any

from msgspec.structs import force_setattr

from budgetfrontier.core.model import CrawlUri, Directive
from budgetfrontier.rules.uri_order import MAX_PRECEDENCE, NORMAL, PRIORITY_ZERO, priority_of
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import decoder, encode

# -- URLs relative to their queue

LONGEST_SHOWN = 1024  # characters of a URL in a queue's record: tens of thousands of records are in memory

_HTTP, _HTTPS, _WHOLE = "\1", "\2", "\0"
_SCHEMES = {_HTTP: "http://", _HTTPS: "https://"}


def shorten(url: str, queue: str) -> str:
    """Return the stored form of a URL in a queue: if its host is the queue's key, one character replaces the origin."""
    if url.startswith("https://"):
        mark, start = _HTTPS, 8
    elif url.startswith("http://"):
        mark, start = _HTTP, 7
    else:
        return _WHOLE + url if url[:1] <= _HTTPS and url else url
    end = start + len(queue)
    return mark + url[end:] if url.startswith("/", end) and url.startswith(queue, start) else url


def expand(url: str, queue: str) -> str:
    """Return the URL that `shorten` made this form from."""
    if not url or url[0] > _HTTPS:
        return url
    return url[1:] if url[0] == _WHOLE else _SCHEMES[url[0]] + queue + url[1:]


# -- the values of `pending`
#
# The plain form, for a URL without further fields, is a byte for its scheme and the URL after the host. The other form
# is attempts and deliveries (two bytes each) and a CrawlUri without the defaults at its end.

PLAIN = {b"\xfe": "http://", b"\xff": "https://"}
PLAIN_FROM = b"\xfe"
"""Values from here on are plain URLs: they were never attempted, nor delivered."""
_PLAIN_MARK = {b"\xfe": _HTTP, b"\xff": _HTTPS}
PLAIN_STARTS = [(scheme, mark[0], _PLAIN_MARK[mark]) for mark, scheme in PLAIN.items()]
"""The schemes of plain URLs, the first bytes of their values, and the starts of their short forms."""
MAX_ATTEMPTS = 0xFDFF  # so that the first byte differs from these

# Fields of a CrawlUri that are in the key of its pending record come last, so that the record leaves them out.
_STORED = ("url", "via", "hops", "source", "method", "headers", "body", "meta", "payload", "force", "queue")
_DEFAULTS = (None, "", None, "GET", None, b"", None, None, False, None)
_BEFORE_PAYLOAD = _DEFAULTS[: _STORED.index("payload") - 1]


def check_url(url: str) -> None:
    """Raise ValueError unless the text is a URL in the normalized form that frontiers store."""
    if not url.startswith(("http://", "https://")) or url.find("/", 8) < 0:
        raise ValueError(f"{url[:100]!r} is not a URL")


def plain_start(prefix: str, queue: str) -> tuple[bytes | None, str]:
    """Return the first byte of plain values of a scheme and host (None: not plain), and the start of short URLs."""
    for mark, scheme in PLAIN.items():
        if prefix == scheme + queue:
            return mark, _PLAIN_MARK[mark]
    return None, prefix


_fields = attrgetter(*_STORED[1:])
_decode_fields = decoder(CrawlUri)


def encode_url(url: str, queue: str) -> bytes:
    """Return the value of a URL without further fields."""
    short = shorten(url, queue)
    if short[0] == _HTTPS:
        return b"\xff" + short[1:].encode()
    if short[0] == _HTTP:
        return b"\xfe" + short[1:].encode()
    return keys.FRESH + encode((short,))


MAX_HOPS = 1024
"""The most characters of `hops` that are kept, the last ones, for endless chains of pages."""


def link_hops(via: CrawlUri) -> str:
    """Return the hops of a link on a page."""
    return (via.hops + "L")[-MAX_HOPS:]


def encode_found(short: str, via: str, hops: str) -> bytes:
    """Return the value of a URL found on the page `via`; both URLs are in their short form."""
    return keys.FRESH + encode((short, via, hops))


def encode_carrying(short: str, payload: bytes) -> bytes:
    """Return the value of a URL in its short form that has a payload and nothing else."""
    return keys.FRESH + encode((short, *_BEFORE_PAYLOAD, payload))


def encode_uri(uri: CrawlUri, url: str, queue: str) -> bytes:
    """Return the value of a CrawlUri under its normalized `url`."""
    fields: list[Any] = [*_fields(uri)]
    while fields and fields[-1] == _DEFAULTS[len(fields) - 1]:
        fields.pop()
    if not fields:
        return encode_url(url, queue)
    if fields[0] is not None:
        fields[0] = shorten(fields[0], queue)
    return keys.FRESH + encode((shorten(url, queue), *fields))


def decode_uri(value: bytes, queue: str) -> CrawlUri:
    """Return the CrawlUri of a value, without the fields that are in the key. Raises Damage."""
    scheme = PLAIN.get(value[:1])
    if scheme is not None:
        return CrawlUri(scheme + queue + value[1:].decode("latin-1"))  # the text is ASCII; Latin-1 never fails
    uri = _decode_fields(value[4:])
    if uri.url[:1] <= _HTTPS:
        force_setattr(uri, "url", expand(uri.url, queue))
    if uri.via:
        force_setattr(uri, "via", expand(uri.via, queue))
    return uri


def short_url(value: bytes) -> str:
    """Return the URL of a value in its short form."""
    mark = _PLAIN_MARK.get(value[:1])
    return mark + value[1:].decode("latin-1") if mark is not None else _decode_fields(value[4:]).url


def url_of(value: bytes, queue: str) -> str:
    scheme = PLAIN.get(value[:1])
    return expand(short_url(value), queue) if scheme is None else f"{scheme}{queue}{value[1:].decode('latin-1')}"


def subject_of(value: bytes, queue: str) -> tuple[str, str | None]:
    """Return the URL of a value in this queue, and its label, which settings go by."""
    scheme = PLAIN.get(value[:1])
    if scheme is not None:
        return f"{scheme}{queue}{value[1:].decode('latin-1')}", None
    fields = _decode_fields(value[4:])
    return expand(fields.url, queue), fields.source


def label_of(value: bytes) -> str | None:
    """Return the label (`source`) of a value."""
    return None if value[:1] in PLAIN else _decode_fields(value[4:]).source


def tries(value: bytes) -> tuple[int, int]:
    """Return the number of previous attempts and deliveries of a URI."""
    try:
        return (0, 0) if value >= PLAIN_FROM else keys.delivery.unpack_from(value)
    except struct.error as e:
        raise Damage(f"{value.hex()}: {e}") from None


def with_tries(value: bytes, attempts: int, deliveries: int) -> bytes:
    rest = encode((short_url(value),)) if value[:1] in PLAIN else value[4:]
    return keys.delivery.pack(min(attempts, MAX_ATTEMPTS), min(deliveries, 0xFFFF)) + rest


SCHEME_OF = {mark[0]: scheme for mark, scheme in PLAIN.items()}
LOW_COSTS = {keys.rank.pack(NORMAL, PRIORITY_ZERO, cost, 0)[:-8]: cost for cost in range(1 << 10)}
"""The cost of a URI without a rank of its own, by its key without the queue and the last eight bytes, its arrival.

Higher costs are not here, nor URIs with a precedence: without these bytes, their keys are longer."""
PLAIN_KIND = keys.rank.pack(NORMAL, PRIORITY_ZERO, 0, 0)[:5]
"""The part of these keys before the cost."""


def restore_pending(key: bytes, value: bytes, queue: str) -> CrawlUri:
    """Return the CrawlUri of a pending record, from its key and value, as it is leased. Raises Damage.

    Like `restore_uri`, in fewer steps for a plain URL without a rank of its own, as most are.
    """
    cost = LOW_COSTS.get(key[4:-8])
    if cost is not None and value >= PLAIN_FROM:
        return CrawlUri(f"{SCHEME_OF[value[0]]}{queue}{value[1:].decode('latin-1')}", cost=cost)
    return restore_uri(key[4:], value, queue)


def restore_uri(rank: bytes, value: bytes, queue: str) -> CrawlUri:
    """Return the CrawlUri of a pending record, from its rank (the key without the queue) and value."""
    uri = decode_uri(value, queue)
    directive, inverted, cost, _, *more = keys.rank.unpack(rank)
    if directive > Directive.NORMAL:
        raise Damage(f"{directive} is not a directive")
    if more:
        precedence, cost = cost, more[0]
        if precedence > MAX_PRECEDENCE:
            raise Damage(f"{precedence} is not the precedence of a URI")
        force_setattr(uri, "precedence", precedence)
    force_setattr(uri, "cost", cost)
    force_setattr(uri, "directive", Directive(directive))
    force_setattr(uri, "priority", priority_of(inverted))
    return uri
