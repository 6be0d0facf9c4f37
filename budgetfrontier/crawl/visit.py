"""What a worker does with one lease: scope, robots.txt, the fetch, and what was found there.

How a visit ends is returned, for the job to tell the frontier. Only the links of a very long page are handed on while
they are read, so that no page holds more than a few hundred of them in memory.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from budgetfrontier import plugins
from budgetfrontier.crawl import links
from budgetfrontier.crawl.fetch.fetcher import Fetcher
from budgetfrontier.crawl.fetch.response import OUT_OF_SCOPE, ROBOTS_PRECLUDED, ROBOTS_UNREACHABLE, Response
from budgetfrontier.crawl.robots import MAX_BODY, Permission, Robots, is_robots, product_token
from budgetfrontier.crawl.scope import Scope, redirected_seed
from budgetfrontier.crawl.threads import in_thread
from budgetfrontier.model import CrawlUri, Directive, Lease, Outcome
from budgetfrontier.settings import Settings
from budgetfrontier.settings.credentials import UNSENDABLE

_AT_ONCE = 500  # links of one page that are in memory
_LARGE = 256 * 1024  # bytes of a page that takes so long to read that other fetches should not wait for it

_REVISIT = "revisit"  # in the meta of a URI that was fetched before
_REDIRECTS = "redirects"  # in the meta of where a redirect leads: the URLs that led there
_MOST_REDIRECTS = 10

# What a robots verdict that forbids the fetch makes of it.
_REFUSALS = {
    Permission.DISALLOWED: (Outcome.DISREGARDED, ROBOTS_PRECLUDED, "robots"),
    Permission.LATER: (Outcome.DEFERRED, ROBOTS_UNREACHABLE, "robots.txt did not answer yet"),
    Permission.POSTPONED: (Outcome.DEFERRED, ROBOTS_UNREACHABLE, "robots.txt waits for another host"),
    Permission.STOPPED: (Outcome.DEFERRED, ROBOTS_UNREACHABLE, "stopped before robots.txt came"),
    Permission.UNREACHABLE: (Outcome.DEAD, ROBOTS_UNREACHABLE, "robots.txt unreachable"),
}

_VALIDATORS = (("If-None-Match", "ETag"), ("If-Modified-Since", "Last-Modified"))
_PARTIAL = frozenset({"timeTrunc", "connTrunc", "badEncoding", "midFetchAbort"})


class Visit(msgspec.Struct):
    """What one visit brings back.

    `uri` is what was asked, `discovered` are the URIs in scope that the frontier has not been told of yet. What the
    answer of a robots.txt means for its site, and so how the visit ends, `Prerequisites.ended` says.
    """

    uri: CrawlUri
    answer: Response
    outcome: Outcome
    discovered: list[CrawlUri] = msgspec.field(default_factory=list)
    noindex: bool = False


class Visitor:
    """Makes the visits of one run.

    `schedule` takes the children of long pages as they are found, `write_links` every link, in scope or not. `patience`
    is how long a page waits for its robots.txt, in seconds. Robots is None where robots.txt is ignored.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        fetcher: Fetcher,
        robots: Robots | None,
        scope: Scope,
        schedule: Callable[[list[CrawlUri]], object],
        write_links: Callable[[str, Iterable[tuple[str, str]]], None],
        patience: float,
    ) -> None:
        self._links = settings.links
        self._tags, self._agent = settings.fetch.robots_tags == "obey", product_token(settings.fetch.user_agent)
        self._canonical = plugins.resolve(
            "canonicalization", {"standard": msgspec.to_builtins(settings.frontier.canonicalization)}
        )
        self._fetcher, self._robots, self._scope = fetcher, robots, scope
        self._schedule, self._write_links, self._patience = schedule, write_links, patience

    def refusal(self, uri: CrawlUri) -> Visit | None:
        """Return how a visit ends without a fetch: for the scope, which may have changed, or a private address.

        None if neither objects. Prerequisites are always in scope.
        """
        objection = None if is_robots(uri) else self._scope.objection(uri)
        if objection is not None:
            return Visit(uri, Response(status=OUT_OF_SCOPE, reason=f"out of scope: {objection}"), Outcome.DISREGARDED)
        refused = self._fetcher.refusal(uri.url)
        return None if refused is None else Visit(uri, refused, refused.outcome)

    async def visit(self, lease: Lease, asked: CrawlUri) -> Visit:
        """Fetch what is `asked` for a lease: its URI, if robots.txt allows it, or a hop of a robots.txt."""
        uri, robots = lease.uri, self._robots
        if robots and is_robots(uri):
            answer = await self._fetcher.get(asked, max_body=MAX_BODY)
            return Visit(asked, answer, answer.outcome, self._sitemaps(uri, answer))
        if robots:
            verdict = await robots.verdict(uri.url, patience=self._patience)
            if verdict is not Permission.ALLOWED:
                outcome, status, reason = _REFUSALS[verdict]
                return Visit(uri, Response(status=status, reason=reason), outcome)
        answer = await self._fetcher.get(uri, accept=lambda answer: self._scope.objection_to(uri, answer))
        return await self._discover(uri, answer)

    def _sitemaps(self, uri: CrawlUri, answer: Response) -> list[CrawlUri]:
        if not self._links.sitemaps or not 200 <= answer.status < 300:
            return []
        return self._children(uri, ((url, "I") for url in islice(links.sitemaps(answer.body, uri.url), _AT_ONCE)))

    async def _discover(self, uri: CrawlUri, answer: Response) -> Visit:
        """Take what a redirect or a page leads to, as far as it is in scope."""
        large = len(answer.body) > _LARGE
        read = partial(links.discover, uri.url, answer, self._links, tags=self._tags, agent=self._agent)
        page = await in_thread(read) if large else read()
        found: list[CrawlUri] = []
        while some := await _some(page.links, large=large):
            if found:
                self._schedule(found)
                await asyncio.sleep(0)
            self._write_links(uri.url, some)
            found = self._children(uri, some)
        return Visit(uri, answer, answer.outcome, found, page.noindex)

    def _children(self, uri: CrawlUri, found: Iterable[tuple[str, str]]) -> list[CrawlUri]:
        objection = self._scope.objection
        children = (self._child(uri, href, hop) for href, hop in found)
        return [child for child in children if objection(child) is None]

    def _child(self, uri: CrawlUri, href: str, hop: str) -> CrawlUri:
        seed = uri.meta.get("seed") if isinstance(uri.meta, dict) else None
        meta = {"seed": seed} if seed else None
        child = CrawlUri(href, via=uri.url, hops=uri.hops + hop, source=uri.source, meta=meta)
        if hop == "E" and self._links.prefer_embeds:
            child.directive = Directive.MEDIUM
        elif hop == "R":
            child.directive, child.priority = uri.directive, uri.priority
            chain = [*_redirects(uri), uri.url][-_MOST_REDIRECTS:]
            length = len(child.hops) - len(child.hops.rstrip("R"))
            child.force = length <= _MOST_REDIRECTS and not _is_revisit(uri) and self._comes_back(chain, href)
            child.meta = ({"seed": href} if redirected_seed(child) else meta or {}) | {_REDIRECTS: chain}
        return child

    def _comes_back(self, chain: list[str], href: str) -> bool:
        """Tell whether deduplication would take where a chain of redirects leads for a URI of that chain.

        From e.test to www.e.test, straight or by way of another site: one URI to deduplication, so that the page would
        never be seen. A URL that was asked in this chain is not asked again.
        """
        form = self._canonical(href)
        return href not in chain and any(form == self._canonical(url) for url in chain)


async def _some(found: Iterator[tuple[str, str]], *, large: bool) -> list[tuple[str, str]]:
    """Return the next links of a page, read beside the event loop if it is large."""
    if not large:
        return list(islice(found, _AT_ONCE))
    return await in_thread(lambda: list(islice(found, _AT_ONCE)))


def _is_revisit(uri: CrawlUri) -> bool:
    return isinstance(uri.meta, dict) and _REVISIT in uri.meta


def _redirects(uri: CrawlUri) -> list[str]:
    """Return the URLs that redirected to a URI, one after the other."""
    return list(uri.meta.get(_REDIRECTS, ())) if isinstance(uri.meta, dict) else []


def comes_again(uri: CrawlUri, visit: Visit) -> bool:
    """Tell whether a page is one to revisit: it was fetched, or it is a revisit that failed or robots.txt forbade."""
    if visit.outcome is Outcome.SUCCESS:
        return not is_robots(uri)
    return _is_revisit(uri) and (visit.outcome is Outcome.FAILURE or visit.answer.status == ROBOTS_PRECLUDED)


def revisit(uri: CrawlUri, answer: Response, *, due: float) -> CrawlUri:
    """Return the URI that asks again at `due` (epoch seconds), and only for what has changed by then.

    Source: RFC 9110, section 13.1. What a 304 leaves unsaid stays as it was known, and so does all when nothing
    answered; of what came only in part, or with a validator that cannot be sent back, the whole is asked for again.
    """
    meta: dict[str, Any] = {**uri.meta} if isinstance(uri.meta, dict) else {}
    meta[_REVISIT] = True
    headers = dict(uri.headers or {})
    if answer.status > 0 and answer.status != 304:
        meta.pop("digest", None)
        if digest := answer.digest():
            meta["digest"] = f"sha1:{base64.b32encode(digest).decode()}"
        for condition, validator in _VALIDATORS:
            headers.pop(condition, None)
            if (value := answer.headers.get(validator)) and _PARTIAL.isdisjoint(answer.notes):
                headers[condition] = value
    for condition, _ in _VALIDATORS:
        if UNSENDABLE.search(headers.get(condition, "")):
            del headers[condition]
    return msgspec.structs.replace(
        uri, force=True, not_before=due, headers=headers or None, meta=meta or None, directive=Directive.NORMAL
    )
