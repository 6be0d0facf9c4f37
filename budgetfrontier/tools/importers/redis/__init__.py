"""Reader of the queues that crawlers keep in Redis: of scrapy-redis, kumo and qcrawl, and plain lists of URLs.

Nothing is changed or taken out, so that a crawl may go on with the queue meanwhile. Keys are found with SCAN, and read
in pages. Needs the extra `redis`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.format import counted
from budgetfrontier.tools.importers import scrapy
from budgetfrontier.tools.importers.allowance import Allowance
from budgetfrontier.tools.importers.import_items import BadRecord, Item, SourceNote
from budgetfrontier.tools.importers.redis import bounded_reads, members
from budgetfrontier.tools.importers.redis.connection import RedisConnection, connected, explained, explanation
from budgetfrontier.tools.importers.redis.finding import (
    LIST,
    PENDING,
    SET,
    SORTED,
    RedisCrawl,
    RedisKey,
    find,
    size,
    type_of,
)

_NAMES = {
    "scrapy": "scrapy-redis, spider {}",
    "kumo": "kumo, queue key {}",
    "qcrawl": "qcrawl, namespace {}",
    "list": "list {}",
}
_Decoder = Callable[[str, bytes, Allowance], Item]


def read(url: str, kind: str | None, key: str | None, allowance: Allowance) -> Iterator[Item]:
    """Yield the URIs of a queue. `key`: its name, needed if the database has several.

    Raises FrontierError before the first item only; a connection that is lost later is a BadRecord.
    """
    if kind == "heritrix":
        raise FrontierError("Heritrix has no queue in Redis; --from list, scrapy, kumo or qcrawl")
    with connected(url) as server:
        from redis import RedisError

        with explained(server.name):
            try:
                crawl = find(server.client, kind, key)
            except FrontierError as error:
                raise FrontierError(f"{server.name}: {error}") from None
            sizes = {part.key: size(server.client, part) for part in crawl.parts.values()}
        yield SourceNote(f"{server.name}: {_NAMES[crawl.kind].format(crawl.name)}: {_shown(sizes)}")
        try:
            yield from _crawl(server, crawl, allowance)
            now = {part.key: size(server.client, part) for part in crawl.parts.values()}
        except (RedisError, OSError) as error:
            yield BadRecord(
                server.name, "read", f"{explanation(error)}; no more of it can be read; import it again", ends=True
            )
            return
    if now != sizes:
        yield SourceNote(
            f"{server.name}: it has changed meanwhile (now {_shown(now)}): a crawl goes on with it; when that has "
            "stopped, import it again for what was missed"
        )


def _shown(sizes: dict[str, int]) -> str:
    return ", ".join(f"{key} {count:,}" for key, count in sizes.items())


def _crawl(server: RedisConnection, crawl: RedisCrawl, allowance: Allowance) -> Iterator[Item]:
    """Yield the URIs of each part, and messages about those parts that cannot be imported."""
    client, parts = server.client, crawl.parts
    if crawl.kind == "qcrawl":
        for member, score, value in bounded_reads.indexed(client, parts["queue:zset"].key, f"{crawl.name}:queue:items"):
            yield members.of_qcrawl(f"{parts['queue:zset'].key}: {member.hex()}", value, score, allowance)
        yield from _left(server, parts.get("queue:items"), parts["queue:zset"])
    elif crawl.kind == "kumo":
        yield from _kumo(server, crawl, allowance)
    elif crawl.kind == "list":
        yield from _each(server, parts[""], members.listed, allowance)
    else:
        if "dupefilter" in parts and (count := size(client, parts["dupefilter"])):
            yield scrapy.fingerprints_note(parts["dupefilter"].key, count)
        for name in ("", *PENDING["scrapy"]):
            if name in parts:
                # Queues push at the head, so that the oldest is at the tail. Start URLs are taken from the head; of a
                # sorted set, the highest score first.
                backwards = parts[name].type == (SORTED if name == "start_urls" else LIST)
                yield from _each(server, parts[name], members.of_scrapy, allowance, backwards=backwards)


def _kumo(server: RedisConnection, crawl: RedisCrawl, allowance: Allowance) -> Iterator[Item]:
    """Yield the URIs of leases, in their order, then ready, delayed and dead ones."""
    parts = crawl.parts
    if "leases" in parts and "lease_deadlines" in parts:
        key = parts["leases"].key
        for member, _, value in bounded_reads.indexed(server.client, parts["lease_deadlines"].key, key):
            location = f"{key}: {member.decode('utf-8', 'replace')}"
            if value is None:
                yield BadRecord(location, "orphan", "there is a deadline, but not the lease")
            else:
                yield members.of_kumo(location, value, allowance)
    yield from _left(server, parts.get("leases"), parts.get("lease_deadlines"))
    for name in ("", "ready", "delayed"):
        if name in parts:
            yield from _each(server, parts[name], members.of_kumo, allowance)
    if "dead_letters" in parts:
        alone = len(parts) == 1  # it was named, to try them again
        yield from _each(server, parts["dead_letters"], members.of_kumo if alone else members.letter_of_kumo, allowance)
    seen = f"{crawl.name.removesuffix('queue')}seen" if crawl.name.endswith("queue") else ""
    if seen and type_of(server.client, seen) == SET and (count := server.client.scard(seen)):
        yield SourceNote(
            f"{seen}: {counted(count, 'URL')} pushed so far: when the crawl has stopped, and its pending ones are "
            f"imported, mark the others as seen with --key {seen} --seen"
        )


def _each(
    server: RedisConnection, part: RedisKey, decode: _Decoder, allowance: Allowance, *, backwards: bool = False
) -> Iterator[Item]:
    """Yield the URIs of the members of a key; `backwards`: from the tail of a list, or the highest score down."""
    if part.type == LIST:
        values = bounded_reads.linked_list(server.client, part.key, from_tail=backwards)
    elif part.type == SET:
        values = bounded_reads.plain_set(server.client, part.key)
    else:
        values = (member for member, _ in bounded_reads.sorted_set(server.client, part.key, descending=backwards))
    for number, value in enumerate(values, 1):
        yield decode(f"{part.key}: member {number:,}", value, allowance)


def _left(server: RedisConnection, values: RedisKey | None, index: RedisKey | None) -> Iterator[SourceNote]:
    """Yield a message if a hash has requests that are not in the sorted set that gives their order."""
    left = (size(server.client, values) if values else 0) - (size(server.client, index) if index else 0)
    if values and left > 0:
        yield SourceNote(
            f"{values.key}: {counted(left, 'request')} without a place in the queue: left out; a worker has them"
        )
