"""The visit of one lease: scope, robots.txt, the fetch, and the extraction of links.

The result is returned, and the main loop finishes the lease with it. Only the links of very long pages are scheduled
during the visit, so that at most a few hundred links of a page are in memory.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from budgetfrontier.core.model import CrawlUri, Directive, Lease, Outcome
from budgetfrontier.core.vocabulary import NO_ROBOTS, NOFOLLOW, NOINDEX
from budgetfrontier.crawler import links
from budgetfrontier.crawler.fetch.fetcher import Fetcher
from budgetfrontier.crawler.fetch.response import OUT_OF_SCOPE, ROBOTS_PRECLUDED, ROBOTS_UNREACHABLE, FetchResult
from budgetfrontier.crawler.prerequisites import is_robots
from budgetfrontier.crawler.robots import Permission, Robots
from budgetfrontier.crawler.robots_txt import MAX_BODY
from budgetfrontier.crawler.threads import in_thread
from budgetfrontier.rules.scope import Scope, redirected_seed
from budgetfrontier.settings import Settings, plugins
from budgetfrontier.settings.credentials import UNSENDABLE
from budgetfrontier.settings.robots_name import robots_name

_BATCH = 500  # links of one page that are in memory at a time, about
_LARGE = 256 * 1024  # bytes of a page from which links are extracted in a thread, so that other fetches are not delayed

_REVISIT = "revisit"  # in the meta of a URI that was fetched before
_REDIRECTS = "redirects"  # in the meta of the target of redirects: the URLs that redirected to it
_MOST_REDIRECTS = 10

# Outcome, status and reason of a visit that robots.txt does not allow.
_REFUSALS = {
    Permission.DISALLOWED: (Outcome.DISREGARDED, ROBOTS_PRECLUDED, "robots"),
    Permission.LATER: (Outcome.DEFERRED, ROBOTS_UNREACHABLE, "robots.txt did not answer yet"),
    Permission.POSTPONED: (Outcome.DEFERRED, ROBOTS_UNREACHABLE, "robots.txt waits for another host"),
    Permission.STOPPED: (Outcome.DEFERRED, ROBOTS_UNREACHABLE, "stopped before robots.txt came"),
    Permission.UNREACHABLE: (Outcome.DEAD, ROBOTS_UNREACHABLE, NO_ROBOTS),
}

_VALIDATORS = (("If-None-Match", "ETag"), ("If-Modified-Since", "Last-Modified"))
_PARTIAL = frozenset({"timeTrunc", "connTrunc", "badEncoding", "midFetchAbort"})


class Visit(msgspec.Struct):
    """The result of one visit.

    `uri` is the URI that was requested, `discovered` are the URIs found in scope that are not scheduled yet. For a
    robots.txt, `Prerequisites.record` determines the final outcome.
    """

    uri: CrawlUri
    response: FetchResult
    outcome: Outcome
    discovered: list[CrawlUri] = msgspec.field(default_factory=list)


class Visits(Protocol):
    """The methods of a visitor that the main loop calls."""

    def refusal(self, uri: CrawlUri) -> Visit | None:
        """Return the result of a visit that ends without a fetch; None if the URI may be fetched."""

    async def visit(self, lease: Lease, asked: CrawlUri) -> Visit:
        """Fetch `asked` for a lease. Raises PutBack."""


class Visitor:
    """The visitor of one run, which makes its visits.

    `schedule` is called with children of long pages during the visit, and awaited if it returns an awaitable;
    `write_links` is called with all links, in scope or not.
    `patience` is the most seconds that a page waits for its robots.txt. `robots` is None if robots.txt is ignored.
    `check` is called with the lease right before each request, which is not made if it raises PutBack.
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
        check: Callable[[Lease], None] = lambda lease: None,
    ) -> None:
        self._check = check
        self._links = settings.links
        self._agent = robots_name(settings.fetch)
        self._canonical = plugins.resolve(
            "canonicalization", {"standard": msgspec.to_builtins(settings.frontier.canonicalization)}
        )
        self._fetcher, self._robots, self._scope = fetcher, robots, scope
        self._schedule, self._write_links, self._patience = schedule, write_links, patience

    def refusal(self, uri: CrawlUri) -> Visit | None:
        """Return the result of a visit that ends without a fetch; None if the URI may be fetched.

        Reasons are the scope, which may have changed, and private addresses or blocked ports. Prerequisites pass.
        """
        objection = None if is_robots(uri) else self._scope.objection(uri)
        if objection is not None:
            return Visit(
                uri, FetchResult(status=OUT_OF_SCOPE, reason=f"out of scope: {objection}"), Outcome.DISREGARDED
            )
        refused = self._fetcher.refusal(uri.url)
        return None if refused is None else Visit(uri, refused, refused.outcome)

    async def visit(self, lease: Lease, asked: CrawlUri) -> Visit:
        """Fetch `asked` for a lease: its URI, if robots.txt allows it, or a hop of a redirected robots.txt.

        Raises PutBack.
        """
        uri, robots = lease.uri, self._robots
        if robots and is_robots(uri):
            self._check(lease)
            response = await self._fetcher.get(asked, max_body=MAX_BODY)
            return Visit(asked, response, response.outcome, self.sitemaps(uri, response))
        if robots:
            permission = await robots.permission(uri.url, patience=self._patience)
            if permission is not Permission.ALLOWED:
                outcome, status, reason = _REFUSALS[permission]
                if permission is Permission.UNREACHABLE:
                    reason = f"{reason}: {robots.failure(uri.url)}"
                return Visit(uri, FetchResult(status=status, reason=reason), outcome)
        self._check(lease)
        response = await self._fetcher.get(uri, accept=lambda response: self._scope.objection_to(uri, response))
        return await self._discover(uri, response)

    def sitemaps(self, uri: CrawlUri, response: FetchResult) -> list[CrawlUri]:
        """Write the sitemaps that a robots.txt names to the outputs, and return those in scope."""
        if not self._links.sitemaps or not 200 <= response.status < 300:
            return []
        named = [(url, "I") for url in islice(links.sitemaps(response.body, uri.url), _BATCH)]
        if named:
            self._write_links(uri.url, named)
        return self._children(uri, named)

    async def _discover(self, uri: CrawlUri, response: FetchResult) -> Visit:
        """Extract the links of a response, schedule or return those in scope, and write all."""
        large = len(response.body) > _LARGE
        declared = uri.hops.rstrip("R").endswith("I")
        extract = partial(links.discover, uri.url, response, self._links, agent=self._agent, declared=declared)
        page = await in_thread(extract) if large else extract()
        response.notes += [note for note, said in ((NOINDEX, page.noindex), (NOFOLLOW, page.nofollow)) if said]
        found: list[CrawlUri] = []
        while batch := await _next_links(page.links, large=large):
            if found:
                if isinstance(stored := self._schedule(found), Awaitable):
                    await stored
                await asyncio.sleep(0)
            self._write_links(uri.url, batch)
            found = self._children(uri, batch)
            if response.location is not None and (uri.method != "GET" or uri.body):
                found = keep_request(uri, response.status, found)
            if len(batch) < _BATCH:
                break
        return Visit(uri, response, response.outcome, found)

    def _children(self, uri: CrawlUri, found: Iterable[tuple[str, str]]) -> list[CrawlUri]:
        plain = uri.meta is None
        via, hops, source = uri.url, uri.hops + "L", uri.source
        children = []
        for href, hop in found:
            if hop == "L" and plain:  # the common case of `_child`, without a call
                child = CrawlUri(href, via=via, hops=hops, source=source)
            else:
                child = self._child(uri, href, hop)
            children.append(child)
        return self._scope.accepted(children)

    def _child(self, uri: CrawlUri, href: str, hop: str) -> CrawlUri:
        seed = uri.meta.get("seed") if isinstance(uri.meta, dict) else None
        meta = {"seed": seed} if seed else None
        directive = Directive.MEDIUM if hop == "E" and self._links.prefer_embeds else Directive.NORMAL
        child = CrawlUri(href, via=uri.url, hops=uri.hops + hop, source=uri.source, meta=meta, directive=directive)
        return self._redirected(uri, child) if hop == "R" else child

    def _redirected(self, uri: CrawlUri, target: CrawlUri) -> CrawlUri:
        """Return the target of a redirect with the fields that it takes over from the redirecting URI."""
        href, hops = target.url, target.hops
        target = replace(target, directive=uri.directive, priority=uri.priority)
        chain = [*_redirects(uri), uri.url][-_MOST_REDIRECTS:]
        length = len(hops) - len(hops.rstrip("R"))
        force = length <= _MOST_REDIRECTS and not _is_revisit(uri) and self._is_duplicate_target(chain, href)
        meta = {"seed": href} if redirected_seed(target) else target.meta or {}
        return replace(target, force=force, meta=meta | {_REDIRECTS: chain})

    def _is_duplicate_target(self, chain: list[str], href: str) -> bool:
        """Return whether deduplication would drop a redirect's target as a duplicate of a URL in its redirect chain.

        This happens from e.test to www.e.test, directly or via another site: they are one URI to deduplication, so that
        the page would never be fetched. A URL that is itself in the chain is not fetched again.
        """
        form = self._canonical(href)
        return href not in chain and any(form == self._canonical(url) for url in chain)


async def _next_links(found: Iterator[tuple[str, str]], *, large: bool) -> list[tuple[str, str]]:
    """Return the next links of a page, extracted in a thread if the page is large."""
    if not large:
        return list(islice(found, _BATCH))
    return await in_thread(lambda: list(islice(found, _BATCH)))


def _is_revisit(uri: CrawlUri) -> bool:
    return isinstance(uri.meta, dict) and _REVISIT in uri.meta


def _redirects(uri: CrawlUri) -> list[str]:
    return list(uri.meta.get(_REDIRECTS, ())) if isinstance(uri.meta, dict) else []


def keep_request(uri: CrawlUri, status: int, found: list[CrawlUri]) -> list[CrawlUri]:
    """Return the found URIs, the target of a redirect with the method, body and Content headers of the request.

    As in browsers, after 303, and after 301 and 302 of a POST, the target is requested with GET; HEAD stays HEAD. Other
    headers, such as credentials, are not passed on.

    Source: https://fetch.spec.whatwg.org/#http-redirect-fetch (RFC 9110, section 15.4)
    """
    if uri.method != "HEAD" and (status == 303 or (status in (301, 302) and uri.method == "POST")):
        return found
    content = {name: value for name, value in (uri.headers or {}).items() if name.lower().startswith("content-")}
    kept = partial(replace, method=uri.method, body=uri.body, headers=content or None)
    return [kept(child) if child.hops.endswith("R") else child for child in found]


def should_revisit(uri: CrawlUri, visit: Visit) -> bool:
    """Return whether to revisit a page: it was answered, or was a revisit that failed or that robots.txt disallowed."""
    if visit.outcome is Outcome.SUCCESS or (visit.outcome is Outcome.FAILURE and visit.response.status > 0):
        return not is_robots(uri)
    return _is_revisit(uri) and (visit.outcome is Outcome.FAILURE or visit.response.status == ROBOTS_PRECLUDED)


def revisit(uri: CrawlUri, response: FetchResult, *, due: float) -> CrawlUri:
    """Return the URI of a conditional request (RFC 9110, section 13.1) for the same page at `due` (epoch seconds).

    Validators and digest come from the response; those of the previous visit are kept after a 304 or without a
    response. The request is unconditional if the response was incomplete or its validators cannot be sent back.
    """
    meta: dict[str, Any] = {**uri.meta} if isinstance(uri.meta, dict) else {}
    meta[_REVISIT] = True
    headers = dict(uri.headers or {})
    if response.status > 0 and response.status != 304:
        meta.pop("digest", None)
        if digest := response.digest():
            meta["digest"] = f"sha1:{base64.b32encode(digest).decode()}"
        for condition, validator in _VALIDATORS:
            headers.pop(condition, None)
            if (value := response.headers.get(validator)) and _PARTIAL.isdisjoint(response.notes):
                headers[condition] = value
    for condition, _ in _VALIDATORS:
        if UNSENDABLE.search(headers.get(condition, "")):
            del headers[condition]
    return msgspec.structs.replace(
        uri, force=True, not_before=due, headers=headers or None, meta=meta or None, directive=Directive.NORMAL
    )
