"""The past of a URL, from the logs of a crawl: its attempts in crawl.log, and its last page in pages.jsonl."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier.reports.crawl_log import CrawlLogLine, entry, first_time
from budgetfrontier.reports.log_index import LogIndex, Progress
from budgetfrontier.reports.url_past import MOST_ATTEMPTS, Attempt, Past

_URL = b'"url":"'
_encode = msgspec.json.encode


def past_of(url: str, log: Path, *, progress: Progress | None = None) -> Past | None:
    """Return the records of a URL in a crawl's log, and in the pages.jsonl beside it; None if there is no such log.

    The first search reads the log, about a second for a million lines, later ones only new lines.
    """
    if not log.is_file():
        return None
    index = LogIndex(log, _url_of_line)
    lines, total = deque[bytes](maxlen=MOST_ATTEMPTS), 0
    for line in index.find(url.encode(), progress):
        lines.append(line)
        total += 1
    attempts = [_attempt(found) for line in lines if (found := entry(line))]
    page = None
    pages = log.with_name("pages.jsonl")
    if any(attempt.status > 0 for attempt in attempts) and pages.is_file():
        found_pages = LogIndex(pages, _url_of_page).find(_encode(url)[1:-1], progress)
        newest = deque(filter(None, map(_page, found_pages)), maxlen=1)
        page = newest[0] if newest else None
    begins = "" if attempts else first_time(log)
    return Past(attempts, total, page, str(log), begins, index.rebuilt)


def last_statuses(log: Path, urls: Iterable[str], *, at_once: bool = False) -> dict[str, int] | None:
    """Return the last status of each URL that is in a crawl's log.

    None if that would take long, and `at_once` is set: further calls index the log part by part.
    """
    wanted = {url.encode() for url in urls}
    if not wanted or not log.is_file():
        return {}
    index = LogIndex(log, _url_of_line)
    newest = dict(index.find_all(wanted, at_once=at_once))
    if not index.complete:
        return None
    return {url.decode(): found.status for url, line in newest.items() if (found := entry(line))}


def _url_of_line(line: bytes) -> bytes:
    fields = line.split(None, 4)
    return fields[3] if len(fields) == 5 else b""


def _url_of_page(line: bytes) -> bytes:
    """Return the URL as it is in the JSON, escapes included."""
    start = line.find(_URL) + len(_URL)
    return line[start : line.find(b'"', start)] if start >= len(_URL) else b""


def _page(line: bytes) -> dict[str, Any] | None:
    try:
        page = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return page if isinstance(page, dict) else None


def _attempt(found: CrawlLogLine) -> Attempt:
    words = [field.decode("utf-8", "replace") for field in (found.time, found.mime, found.via, found.notes)]
    return Attempt(words[0], found.status, found.size, *("" if word == "-" else word for word in words[1:]))
