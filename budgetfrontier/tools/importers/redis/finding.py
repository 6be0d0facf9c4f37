"""The queues of crawlers in a Redis database, found by the names and types of their keys."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from budgetfrontier.errors import FrontierError

SORTED, LIST, SET, HASH = "zset", "list", "set", "hash"
_TYPES = {SORTED: "a sorted set", LIST: "a list", SET: "a set", HASH: "a hash"}
LAYOUTS: dict[str, dict[str, tuple[str, ...]]] = {
    "scrapy": {"requests": (SORTED, LIST), "start_urls": (LIST, SET, SORTED), "dupefilter": (SET,)},
    "kumo": {
        "leases": (HASH,),
        "lease_deadlines": (SORTED,),
        "ready": (SORTED,),
        "delayed": (SORTED,),
        "dead_letters": (LIST,),
    },
    "qcrawl": {"queue:zset": (SORTED,), "queue:items": (HASH,), "queue:fpset": (SET,)},
}
"""For each kind: the parts of a crawl (the ends of their keys, behind its name and a colon), and their types."""
PENDING = {
    "scrapy": ("requests", "start_urls"),
    "kumo": ("leases", "ready", "delayed"),
    "qcrawl": ("queue:zset",),
}
"""The parts with pending URIs: a crawl without them is done."""
_ALONE = ("requests", "start_urls", "ready", "delayed", "dead_letters")
"""The parts that can be read without the others."""
_MOST = 10_000  # crawls in one database with their names kept
_SHOWN = 20
_SIZE = {SORTED: "zcard", LIST: "llen", SET: "scard", HASH: "hlen"}


class RedisKey(NamedTuple):
    """One key of a crawl."""

    key: str
    type: str


class RedisCrawl(NamedTuple):
    """A crawl in a database: the spider of scrapy-redis, the queue key of kumo, or the namespace of qcrawl."""

    kind: str
    name: str
    parts: dict[str, RedisKey]
    """Its keys by part; "" is a key that was named itself."""


def find(client: Any, kind: str | None, key: str | None) -> RedisCrawl:
    """Return the crawl to import. Raises FrontierError if there is none, or several and none is named."""
    if key:
        return _named(client, kind, key)
    if kind == "list":
        raise FrontierError("--key names the list, set or sorted set to import")
    found = list(islice(_scanned(client, kind), _MOST + 1))
    if len(found) > _MOST:
        raise FrontierError(f"it has more than {_MOST:,} queues; --key names the one to import")
    if len(found) == 1:
        return found[0]
    if not found:
        raise FrontierError(
            "no pending queue of scrapy-redis, kumo or qcrawl was found there; --key names one, or a list of URLs"
        )
    shown = [f"--from {crawl.kind} --key {crawl.name}{_sizes(client, crawl)}" for crawl in sorted(found)[:_SHOWN]]
    more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    raise FrontierError(f"it has {len(found):,} queues; choose one: {'; '.join(shown)}{more}")


def _scanned(client: Any, kind: str | None) -> Iterator[RedisCrawl]:
    """Yield the crawls of a database with pending requests. O(keys) time; the server is free between two steps."""
    seen = set()
    for given in client.scan_iter(count=1000):
        found = _part_of(_text(given))
        if found and (kind or found[0]) == found[0] and found[2] in PENDING[found[0]] and found[:2] not in seen:
            seen.add(found[:2])
            crawl = _crawl(client, *found[:2])
            if crawl.parts.keys() & set(PENDING[crawl.kind]):
                yield crawl


def _part_of(key: str) -> tuple[str, str, str] | None:
    """Return the kind, the name and the part of a crawl that a key may belong to."""
    for kind, parts in LAYOUTS.items():
        for part in parts:
            if key.endswith(f":{part}"):
                return kind, key.removesuffix(f":{part}"), part
    return None


def _crawl(client: Any, kind: str, name: str) -> RedisCrawl:
    """Return a crawl with the parts that exist and have a valid type."""
    found = {part: RedisKey(f"{name}:{part}", type_of(client, f"{name}:{part}")) for part in LAYOUTS[kind]}
    crawl = RedisCrawl(kind, name, {part: one for part, one in found.items() if one.type in LAYOUTS[kind][part]})
    if kind == "kumo" and (alone := type_of(client, name)) == LIST:
        crawl.parts[""] = RedisKey(name, alone)  # where kumo 0.1 had its queue; newer ones take it over step by step
    return crawl


def _named(client: Any, kind: str | None, key: str) -> RedisCrawl:
    kinds = [one for one in LAYOUTS if kind in (None, one)]
    crawls = [crawl for one in kinds if (crawl := _crawl(client, one, key)).parts.keys() & set(PENDING[one])]
    if len(crawls) > 1:
        raise FrontierError(f"{key} is the name of several queues; --from {' or '.join(c.kind for c in crawls)}")
    if crawls:
        return crawls[0]
    found = type_of(client, key)
    if found not in (SORTED, LIST, SET):
        raise FrontierError(_what_is_wrong(client, kinds, key))
    part = _part_of(key)
    if part and part[2] in _ALONE and kind in (None, part[0]):
        expected = LAYOUTS[part[0]][part[2]]
        if found not in expected:
            raise FrontierError(f"{key} is {_TYPES[found]}; expected: {_one_of(expected)}")
        return RedisCrawl(part[0], part[1], {part[2]: RedisKey(key, found)})
    if kind == "qcrawl":
        raise FrontierError(f"{key} is no namespace of qcrawl: there is no sorted set {key}:queue:zset")
    return RedisCrawl(kind or "list", key, {"": RedisKey(key, found)})


def _what_is_wrong(client: Any, kinds: list[str], key: str) -> str:
    wanted: dict[str, tuple[str, ...]] = {key: (LIST, SET, SORTED)}
    for kind in kinds:
        wanted |= {f"{key}:{part}": LAYOUTS[kind][part] for part in PENDING[kind]}
    found = {one: type_of(client, one) for one in wanted}
    wrong = [
        f"{one} is {_TYPES.get(found[one], f'a {found[one]}')}; expected: {_one_of(wanted[one])}"
        for one in wanted
        if found[one] != "none"
    ]
    return "; ".join(wrong) or f"there is no queue {key}; without --key, those that are there are named"


def _one_of(types: tuple[str, ...]) -> str:
    return " or ".join(_TYPES[one] for one in types)


def size(client: Any, part: RedisKey) -> int:
    """Return how many members a key has. O(1)."""
    return int(getattr(client, _SIZE[part.type])(part.key))


def _sizes(client: Any, crawl: RedisCrawl) -> str:
    return f" ({', '.join(f'{name or crawl.name} {size(client, part):,}' for name, part in crawl.parts.items())})"


def type_of(client: Any, key: str) -> str:
    """Return the type of a key, "none" if there is no such key."""
    return _text(client.type(key.encode("utf-8", "surrogateescape")))


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
