"""The calls of the service as functions of a frontier: the calls of the engine for each RPC, and its reply in messages.

They run in the thread of the crawl, and know nothing of gRPC.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from msgspec.structs import replace

from budgetfrontier.core import uris
from budgetfrontier.core.model import Admission, CrawlUri, KeptUrl
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.engine.known_urls import Known
from budgetfrontier.engine.regulation import MOST_BUDGET
from budgetfrontier.errors import FrontierError, InvalidUrl
from budgetfrontier.rules.queue_keys import queue_key_bytes
from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as messages
from budgetfrontier.server.urlfrontier.put_items import info_of

LONGEST_KEY = 255
"""Bytes of a key in UTF-8, as for all queue keys; an item with a longer one is SKIPPED.

One of more characters is not encoded first.
"""
LEASE_SECONDS = 30
"""The time for which URLs are handed out if GetURLs does not say."""

OK = int(messages.AckMessage.Status.OK)
SKIPPED = int(messages.AckMessage.Status.SKIPPED)
FAIL = int(messages.AckMessage.Status.FAIL)

_OF_ADMISSION = {
    Admission.ADDED: OK,
    Admission.DUPLICATE: SKIPPED,
    Admission.INVALID: SKIPPED,
    Admission.FULL: FAIL,
}
_OF_REPORT = {Known.INVALID: SKIPPED, Known.FULL: FAIL}
_DEFAULT_COST, _DEFAULT_PRIORITY, BUDGET = "bf.cost", "bf.priority", "bf.budget"
_OF_OURS, _OF_BUDGET = b"bf.", BUDGET.encode()
"""Parts of metadata as they are stored: those without have none of these."""
_HOST = re.compile(r"(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*", re.ASCII)
"""The form of a host in a URL that is its queue's key as it stands."""

log = logging.getLogger("budgetfrontier.urlfrontier")


class UrlsNotKept(FrontierError):
    """Raised for a crawl without `frontier.keep_urls`, which could not take the reports of fetches."""

    def __init__(self) -> None:
        super().__init__(
            "this crawl does not keep its URLs, so that no report of a fetch could be taken; clients of budgetfrontier "
            "can use it, and those of URLFrontier a new crawl with `frontier.keep_urls: true`"
        )


Lost = Callable[[Any], None]
"""Called with each invalid URLInfo."""


def _ignore(info: Any) -> None:
    """Ignore an invalid URLInfo."""


def _check_keeps_urls(frontier: Frontier) -> None:
    if not frontier.settings.frontier.keep_urls:
        raise UrlsNotKept


# -- URLs in


def discovered(frontier: Frontier, infos: Sequence[Any], lost: Lost = _ignore) -> list[int]:
    """Schedule URLs that were found, each a URLInfo or a FoundUrl; return the status of each. Raises UrlsNotKept."""
    _check_keeps_urls(frontier)
    keeps_key = not frontier.internals.keeps_hosts
    given = [
        uri(*info, keeps_key=keeps_key) if info.__class__ is tuple else uri_of(info, keeps_key=keeps_key)
        for info in infos
    ]
    found = iter(frontier.schedule_each([uri for uri in given if uri is not None]))
    admissions = [Admission.INVALID if uri is None else next(found) for uri in given]
    _take_budgets(
        frontier,
        [
            info
            for info, uri, admission in zip(infos, given, admissions, strict=True)
            if admission is not Admission.INVALID and _asks_budget(uri)
        ],
    )
    if Admission.INVALID in admissions:
        for info, admission in zip(infos, admissions, strict=True):
            if admission is Admission.INVALID:
                lost(info_of(info) if isinstance(info, tuple) else info)
    return [_OF_ADMISSION[admission] for admission in admissions]


def known(frontier: Frontier, items: Sequence[Any], lost: Lost = _ignore) -> list[int]:
    """Take reports of fetches (KnownURLItem); return the status of each.

    A report with an invalid queue key counts for its URL all the same, in the URL's queue.
    """
    given: list[tuple[CrawlUri, float | None] | None] = []
    keeps_key = not frontier.internals.keeps_hosts
    for item in items:
        uri = uri_of(item.info, keeps_key=keeps_key or bool(item.refetchable_from_date))
        if isinstance(uri, str):
            uri = CrawlUri(uri)
        given.append(None if uri is None else (uri, float(item.refetchable_from_date) or None))
    found = iter(frontier.internals.fetched([each for each in given if each is not None]))
    reports = [Known.INVALID if each is None else next(found) for each in given]
    _take_budgets(
        frontier,
        [
            item.info
            for item, each, report in zip(items, given, reports, strict=True)
            if each is not None and report is not Known.INVALID and _asks_budget(each[0])
        ],
    )
    for place, report in enumerate(reports):
        if report is Known.INVALID:
            reports[place] = _known_without_key(frontier, items[place])
            if reports[place] is Known.INVALID:
                lost(items[place].info)
    return [_OF_REPORT.get(report, OK) for report in reports]


def _known_without_key(frontier: Frontier, item: Any) -> Known:
    """Take the report of a known URL whose key is no valid key of a queue."""
    if not item.info.key or queue_key_bytes(item.info.key) is not None:
        return Known.INVALID
    try:
        if frontier.find_url(item.info.url) is None:
            return Known.INVALID
    except InvalidUrl:
        return Known.INVALID
    info = messages.URLInfo()
    info.CopyFrom(item.info)
    info.key = ""
    uri = uri_of(info)
    uri = CrawlUri(uri) if isinstance(uri, str) else uri
    if uri is None:
        return Known.INVALID
    return frontier.internals.fetched([(uri, float(item.refetchable_from_date) or None)])[0]


def put(frontier: Frontier, items: Sequence[Any], lost: Lost = _ignore) -> list[int]:
    """Take URLItems or FoundUrls in order; return the status of each. Raises UrlsNotKept."""
    _check_keeps_urls(frontier)
    statuses: list[int] = []
    for kind, group in groupby(items, _kind):
        run = list(group)
        if kind == "found":
            statuses += discovered(frontier, run, lost)
        elif kind == "discovered":
            statuses += discovered(frontier, [item.discovered.info for item in run], lost)
        elif kind == "known":
            statuses += known(frontier, [item.known for item in run], lost)
        else:
            statuses += [SKIPPED] * len(run)
    return statuses


def _kind(item: Any) -> str | None:
    return "found" if item.__class__ is tuple else item.WhichOneof("item")


def uri_of(info: Any, *, keeps_key: bool = False) -> str | CrawlUri | None:
    """Return what `uri` does for a URLInfo, with the cost and the priority that its metadata ask for."""
    payload = _metadata(info) if info.metadata else None
    found = uri(info.url, info.key, payload, keeps_key=keeps_key)
    if payload is None or _OF_OURS not in payload or not isinstance(found, CrawlUri):
        return found
    cost, priority = _number(info, _DEFAULT_COST), _number(info, _DEFAULT_PRIORITY)
    return replace(found, cost=cost, priority=priority or 0)


def uri(url: str, key: str, payload: bytes | None, *, keeps_key: bool = False) -> str | CrawlUri | None:
    """Return a URI, as a str if there is no more to it than its URL; None if its key is too long.

    A key that is the URL's host is left out, which is faster, unless it `keeps_key`: the URL moves to the queue of that
    key, or would be placed on another without it.
    """
    if len(key) > LONGEST_KEY:
        return None
    parts = url.split("/", 3)
    if key and not keeps_key and len(parts) > 2 and parts[2] == key and _HOST.fullmatch(key):
        key = ""
    return CrawlUri(url, queue=key or None, payload=payload) if key or payload is not None else url


def _metadata(info: Any) -> bytes:
    """Return the metadata of a URLInfo as they are stored: the bytes of a URLInfo that has nothing else."""
    kept = messages.URLInfo()
    kept.CopyFrom(info)
    kept.url = kept.key = kept.crawlID = ""
    kept.DiscardUnknownFields()
    return bytes(kept.SerializeToString())


def _number(info: Any, name: str) -> int | None:
    if name not in info.metadata or not info.metadata[name].values:
        return None
    try:
        return int(info.metadata[name].values[0])
    except ValueError:
        return None


def _asks_budget(uri: str | CrawlUri | None) -> bool:
    return isinstance(uri, CrawlUri) and uri.payload is not None and _OF_BUDGET in uri.payload


def _take_budgets(frontier: Frontier, infos: Iterable[Any]) -> None:
    """Give queues the total budgets that items ask for: the last one of each queue. Invalid ones are ignored."""
    asked: dict[str, int] = {}
    for info in infos:
        if (budget := _number(info, BUDGET)) is not None and 0 <= budget <= MOST_BUDGET:
            asked[info.key or frontier.internals.queue_key(CrawlUri(uris.parse(info.url)))] = budget
    for key, budget in asked.items():
        frontier.internals.regulate(key, total_budget=budget)


# -- URLs out


def lease(frontier: Frontier, crawl_id: str, request: Any, queues: int, limit: int) -> tuple[list[bytes], int]:
    """Lease at most `limit` URLs of `queues` queues as GetParams ask.

    Return URLInfos as they are sent, and the number of queues that they are of. Raises UrlsNotKept.
    """
    _check_keeps_urls(frontier)
    leases = frontier.internals.lease_queues(
        queues,
        request.max_urls_per_queue,
        queue=request.key or None,
        ttl=float(request.delay_requestable or LEASE_SECONDS),
        limit=limit,
    )
    found: list[bytes] = []
    info = messages.URLInfo(crawlID=crawl_id)
    for each in leases:
        info.url, info.key = each.uri.url, each.queue
        sent = info.SerializeToString()
        found.append(sent + each.uri.payload if each.uri.payload else sent)
    return found, len({each.queue for each in leases})


# -- looking


def status(frontier: Frontier, crawl_id: str, request: Any) -> Any | None:
    """Return the URLItem of a URL; None if it is not known."""
    try:
        found = frontier.find_url(request.url)
    except InvalidUrl:
        return None
    return (
        None
        if found is None or (request.key and _named(frontier, request.key) != found.queue)
        else item(found, crawl_id)
    )


def item(found: KeptUrl, crawl_id: str) -> Any:
    """Return the URLItem of a kept URL."""
    result = messages.URLItem(creation_date=found.created)
    result.known.refetchable_from_date = found.due or 0
    if found.uri is not None and found.uri.payload:
        result.known.info.ParseFromString(found.uri.payload)
    result.known.info.url, result.known.info.key, result.known.info.crawlID = found.url, found.queue, crawl_id
    return result


class UrlFilter(NamedTuple):
    """The URLs that ListURLs or CountURLs ask for."""

    key: str
    text: str
    ignores_case: bool

    def has(self, found: KeptUrl) -> bool:
        if self.key and found.queue != self.key:
            return False
        return not self.text or self.text in (found.url.lower() if self.ignores_case else found.url)


def page(frontier: Frontier, wanted: UrlFilter, after: bytes, limit: int) -> tuple[list[KeptUrl], bytes | None]:
    """Return those of the next URLs that are wanted, and where to go on, None at the end."""
    looked = frontier.internals.kept_urls(after, limit=limit)
    wanted = wanted._replace(key=_named(frontier, wanted.key))
    return [found for found in looked if wanted.has(found)], looked[-1].fingerprint if len(looked) == limit else None


def items(frontier: Frontier, crawl_id: str, found: Sequence[KeptUrl]) -> list[bytes]:
    """Return the URLItems of kept URLs, as they are sent."""
    shown = (frontier.find_url(each.url) for each in found)
    return [item(each, crawl_id).SerializeToString() for each in shown if each is not None]


def stats(frontier: Frontier | None, crawl_id: str, key: str) -> Any:
    """Return the Stats of a crawl, or of one of its queues."""
    result = messages.Stats(crawlID=crawl_id)
    totals = None if frontier is None else frontier.internals.kept_totals(key or None)
    if totals is not None:
        result.size, result.inProcess, result.numberOfQueues = totals.active, totals.leased, totals.queues
    result.counts["completed"] = 0 if totals is None else totals.completed
    result.counts["active_queues"] = 0 if totals is None else totals.active_queues
    return result


def queue_page(frontier: Frontier, after: bytes, limit: int, *, inactive: bool) -> tuple[list[str], bytes | None]:
    """Return the keys of queues that follow one, and the last that was looked at, None at the end."""
    now = time.time()
    looked = frontier.internals.queue_keys(after.decode(), limit=limit)
    found: list[str] = []
    for key in looked:
        queue = frontier.queue(key)
        if queue is None or not queue.urls:
            continue
        if inactive or (queue.urls > queue.completed and queue.block <= now):
            found.append(key)
    return found, looked[-1].encode() if len(looked) == limit else None


def queue_count(frontier: Frontier, *, inactive: bool) -> int:
    """Return the number of queues with URLs to hand out, of blocked ones too, or of all that have URLs."""
    if not frontier.settings.frontier.keep_urls:
        return 0
    totals = frontier.internals.kept_totals()
    return 0 if totals is None else totals.queues if inactive else totals.active_queues


# -- steering


def block(frontier: Frontier, key: str, until: float) -> None:
    """Block a queue until a time, 0 for not any more; a queue that is not known is ignored."""
    if _is_known(frontier, key):
        frontier.internals.regulate(key, blocked_until=until)


def set_limit(frontier: Frontier, key: str, limit: int) -> bool:
    """Limit the completed URLs of a queue, 0 for no limit; return whether it is known."""
    return _is_known(frontier, key) and frontier.internals.regulate(key, max_completed=limit)


def set_delay(frontier: Frontier, key: str, delay: float) -> None:
    """Set the least time between two serves of a queue; an unknown one is ignored."""
    if _is_known(frontier, key):
        frontier.internals.regulate(key, interval=delay)


def _is_known(frontier: Frontier, key: str) -> bool:
    """Return whether there is a queue: in URLFrontier, none without URLs."""
    queue = frontier.queue(key)
    return queue is not None and (queue.urls > 0 or not frontier.settings.frontier.keep_urls)


def _named(frontier: Frontier, key: str) -> str:
    """Return the key of a queue that a client gives in any spelling of its host."""
    queue = frontier.queue(key) if key else None
    return key if queue is None else queue.queue


def reset(frontier: Frontier, key: str) -> None:
    """Reset the values set for a queue."""
    frontier.internals.reset_queue(key)


def forget(
    frontier: Frontier, after: bytes, limit: int, key: str | None, before: int | None
) -> tuple[int, bytes | None]:
    """Forget the next URLs of a queue that were created before a time; return how many, and where to go on."""
    page = frontier.internals.kept_urls(after, limit=limit)
    key = key and _named(frontier, key)
    chosen = [
        each.fingerprint
        for each in page
        if (key is None or each.queue == key) and (before is None or each.created < before)
    ]
    count = frontier.internals.forget_urls(chosen) if chosen else 0
    return count, page[-1].fingerprint if len(page) == limit else None
