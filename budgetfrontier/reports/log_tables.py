"""Heritrix's reports of fetches: hosts, media types, response codes, source tags.

The rows come from one pass over the crawl's log, and for hosts from the queues of the frontier, too. Memory is bounded
however many hosts and media types there are. Each attempt counts, as it has a line in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from budgetfrontier.reports.spill import Item, Sums, largest_first

if TYPE_CHECKING:
    from budgetfrontier.reports.crawl_log import CrawlLogLine
    from budgetfrontier.storage.records import QueueAmounts

Rows = Iterator[tuple[Any, ...]]

FORBIDDEN = -9998
OUT_OF_SCOPE = -5000
REFUSED = -5001
"""The status of URIs with a refused address or port."""
DISREGARDED = (FORBIDDEN, OUT_OF_SCOPE)
"""The statuses of URIs that were disregarded."""
_NOT_MODIFIED = 304

MIMETYPES = ("fetches", "bytes", "mimetype")
RESPONSECODES = ("fetches", "code", "meaning")
SOURCETAGS = ("source", "host", "fetches", "bytes")
HOSTS = (
    "fetches", "bytes", "host", "robots_denials", "failures", "not_modified", "client_errors", "server_errors",
    "remaining", "expenditure", "errors", "state",
)  # fmt: skip

_MEANINGS = {
    -1: "host name not found",
    -2: "no connection",
    -3: "connection lost",
    -4: "timed out",
    -5: "no valid response",
    -61: "no robots.txt",
    OUT_OF_SCOPE: "out of scope",
    REFUSED: "private address or blocked port",
    FORBIDDEN: "forbidden by robots.txt",
}


def meaning(code: int) -> str:
    """Return the meaning of a status of crawl.log, "" if there is no name for it."""
    if code < 0:
        return _MEANINGS.get(code, "")
    from http import HTTPStatus

    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return ""


def host_of(url: bytes) -> bytes:
    """Return the host and port of a URL, as the key of its queue names them."""
    return url.split(b"/", 3)[2].rpartition(b"@")[2] if url.count(b"/") > 1 else url


def mimetypes(entries: Iterable[CrawlLogLine], *, limit: int | None) -> Rows:
    """Yield fetches and bytes by media type, the most frequent first."""
    sums = Sums(2)
    for entry in entries:
        if entry.status > 0:
            amounts = sums.of(entry.mime)
            amounts[0] += 1
            amounts[1] += entry.size
    for mime, count, size in largest_first(sums, 1, limit):
        yield count, size, _text(mime)


def responsecodes(entries: Iterable[CrawlLogLine], *, limit: int | None) -> Rows:
    """Yield fetches by status, the most frequent first."""
    sums = Sums(1)
    for entry in entries:
        sums.of(b"%d" % entry.status)[0] += 1
    for code, count in largest_first(sums, 1, limit):
        yield count, int(code), meaning(int(code))


def sourcetags(entries: Iterable[CrawlLogLine], *, limit: int | None) -> Rows:
    """Yield fetches and bytes by source tag and host, the most frequent first."""
    sums = Sums(2)
    for entry in entries:
        if entry.source != b"-" and entry.status not in DISREGARDED:
            amounts = sums.of(entry.source + b" " + host_of(entry.url))  # no field contains a space
            amounts[0] += 1
            amounts[1] += entry.size
    for key, count, size in largest_first(sums, 1, limit):
        source, _, host = key.partition(b" ")
        yield _text(source), _text(host), count, size


_STATES = ("", "READY", "IN_PROCESS", "SNOOZED", "INACTIVE", "INELIGIBLE", "RETIRED", "EXHAUSTED")
_PLACES = {state: place for place, state in enumerate(_STATES)}


def hosts(entries: Iterable[CrawlLogLine] | None, queues: Iterable[QueueAmounts], *, limit: int | None) -> Rows:
    """Yield a row for each host: fetches from the log (None: no log), remaining URIs from its queue.

    A queue with a key that is no host has a row of its own. Without a log, bytes are those given to finishes.
    """
    if entries is None:
        if limit is not None:  # before rows are made of the others
            queues = nsmallest(limit, queues, key=lambda queue: (-queue.expenditure, queue.queue))
        for row in largest_first(map(_of_queue, queues), 9, limit):
            yield _host_row(row, known=False)
        return
    sums = Sums(11)
    for entry in entries:
        amounts = sums.of(host_of(entry.url))
        if entry.status > 0:
            amounts[0] += 1
            amounts[1] += entry.size
            amounts[4] += entry.status == _NOT_MODIFIED
            amounts[5] += 400 <= entry.status < 500
            amounts[6] += entry.status >= 500
        elif entry.status == FORBIDDEN:
            amounts[2] += 1
        else:
            amounts[3] += 1
    for queue in queues:
        key, *of_queue = _of_queue(queue)
        amounts = sums.of(key)
        amounts[7:] = of_queue[7:]
    for row in largest_first(sums, 1, limit):
        yield _host_row(row, known=True)


def _of_queue(queue: QueueAmounts) -> Item:
    """Return the amounts of a queue, behind its key."""
    waiting, state = queue.queued + queue.future, _PLACES[queue.state]
    key = queue.queue.encode("utf-8", "surrogateescape")
    return key, 0, queue.bytes, 0, 0, 0, 0, 0, waiting, queue.expenditure, queue.errors, state


def _host_row(row: Item, *, known: bool) -> tuple[Any, ...]:
    host, fetches, size, *answers, remaining, spent, errors, state = row
    logged = answers if known else [None] * len(answers)
    queued = (remaining, spent, errors, _STATES[state]) if state else (None, None, None, "")
    return fetches if known else None, size if known else size or None, _text(host), *logged, *queued


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
