"""Heritrix's recovery journal, `frontier.recover.gz`: one line for all that happens to a URI.

`F+ URI HOPS VIA` was scheduled, `Fs` succeeded and `Ff` failed in the same form; `Fe` (emitted), `Fr` (tried again),
`Fd` (disregarded) and `Fi` (included, by another journal) have the URI alone; `T` is the time, every 10,000 lines. As
Heritrix does, this first takes what succeeded or was included as seen, with its cost, and then queues what was
scheduled and is not seen: what failed or was disregarded is tried again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from budgetfrontier.formats.allowance import LARGEST, Allowance
from budgetfrontier.formats.records import MAX_HOPS, TORN, Bad, Item, Note, Record, lines, opened, torn
from budgetfrontier.model import CrawlUri

_DONE = frozenset((b"Fs", b"Fi"))
_KNOWN = _DONE | {b"F+", b"Fe", b"Ff", b"Fd", b"Fr", b"T"}


def recognize(start: bytes) -> bool:
    """Whether a file is a journal, from its first bytes (decompressed)."""
    first = start.lstrip().split(b" ", 1)[0]
    return first in _KNOWN and len(start.split()) > 1


def read(path: Path, allowance: Allowance) -> Iterator[Item]:
    """The URIs of a journal, in two passes over it: memory is O(1). A gzip that breaks off is read that far."""
    yield from _pass(path, allowance, done=True)
    yield from _pass(path, allowance, done=False)


def _pass(path: Path, allowance: Allowance, *, done: bool) -> Iterator[Item]:
    """The URIs that are done (and each remark on a line), or those that were scheduled."""
    skipped = 0
    number = 0
    try:
        with opened(path, allowance) as file:
            for number, line in lines(file, allowance):
                if not line:
                    if line is None and done:
                        yield Bad(f"{path}:{number}", "too-large", f"a line of more than {LARGEST >> 20} MiB")
                    continue
                kind, _, rest = line.partition(b" ")
                if kind not in _KNOWN:
                    if done:
                        yield Bad(f"{path}:{number}", "record", f"no record of a journal: {line[:80]!a}")
                elif kind in _DONE if done else kind == b"F+":
                    uri = _uri(rest.decode("utf-8", "replace"))
                    if uri is None:
                        skipped += 1
                    else:
                        yield Record(f"{path}:{number}", uri, seen=done, charged=done)
    except TORN as error:
        if done:
            yield torn(str(path), number, error)
    if skipped and not done:
        yield Note(f"{path}: {skipped:,} URIs of DNS look-ups and prerequisites left out: a crawl makes its own")


def _uri(rest: str) -> CrawlUri | None:
    """The URI of a line; None for one that a crawl here does without."""
    url, hops, via, *_ = [*rest.split(" ", 3), "", ""]
    if url.startswith(("dns:", "whois:")) or hops.endswith("P"):
        return None
    return CrawlUri(url, hops=hops[-MAX_HOPS:], via=via or None)


def line(uri: CrawlUri) -> str:
    """The line of a URI that is pending. Without hops there is no via, for Heritrix would take it for the hops."""
    return f"F+ {uri.url} {uri.hops} {uri.via if uri.via and uri.hops else ''}".rstrip(" ")
