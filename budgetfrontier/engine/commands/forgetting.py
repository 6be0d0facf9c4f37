"""The forgetting of URLs that wait for nothing, in steps, so that they may be scheduled again.

A frontier that keeps its URLs is asked for those that match; any other knows fingerprints alone, so that a command
brings the URLs: its first step looks through their queues for those that wait. What is forgotten is kept for `undo`.
`Progress.at` is the last fingerprint; or the number of URLs that were processed, and the fingerprints of those that
wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.commands.deletion import look_after
from budgetfrontier.engine.commands.scheduling import uri_from
from budgetfrontier.engine.commands.selection import ChosenUrls, check_match, check_pattern
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError, InvalidUrl
from budgetfrontier.rules.duplicates import objection_to_forgetting
from budgetfrontier.settings.schema import FrontierSettings
from budgetfrontier.storage import keys
from budgetfrontier.storage.records import Progress, UrlRow, decode_url
from budgetfrontier.storage.removed import UNRECORDED
from budgetfrontier.storage.uri_values import expand
from budgetfrontier.storage.url_search import recognizer, waiting_among
from budgetfrontier.storage.view import View

_PASSED = 10  # rows that are passed over in the time in which one is forgotten, or less


def check(args: dict[str, Any]) -> None:
    """Raise for URLs that could not be read, or a choice that could not be made."""
    if args.get("uris") is not None:
        for uri in map(_uri, args["uris"]):
            try:
                uris.parse(uri.url)
            except InvalidUrl as e:
                raise FrontierError(f"{uri.url!r} is no URL that can be crawled ({e})") from None
        return
    if args.get("match") is None:
        raise FrontierError("forget what? Give a pattern; '*' is every URL that waits for nothing")
    check_match(args, of_uris=True)
    if args["match"].startswith("label:"):
        raise FrontierError("labels are of seeds and of what waits: what is known of other URLs has none")
    check_pattern(args.get("pattern") or "")


def start(args: dict[str, Any]) -> Progress:
    """Return the progress of a command that begins."""
    return Progress([b""] if args.get("uris") is None else [0, None], {"forgotten": 0, "waiting": 0, "unknown": 0})


def step(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, upto: int, limit: int, now: float
) -> bool:
    """Forget the next URLs; return whether these were the last. O(limit). Raises FrontierError and PolicyError."""
    _check_frontier(kernel.tables.in_force.frontier, args)
    kernel.tables.pending.settle()
    if args.get("uris") is not None:
        found, done = _named(kernel, admitter, args, progress, limit)
    else:
        found, done = _matching(kernel, args, progress, limit)
    if not args.get("for_good"):
        look, keep = kernel.tables.queues.look, kernel.tables.removed.keep
        seen = {each: b"" if admitter.is_seen(each) else UNRECORDED for each in found}
        keep(progress.effect, keys.SEEN, dict.fromkeys(found), instead=seen)
        rows = {each: look_after(look(row.queue), None) for each, row in found.items() if row}
        keep(progress.effect, keys.URLS, rows)
    for fingerprint, row in found.items():
        if row is not None and kernel.tables.urls is not None:
            completed = kernel.tables.queues.look(row.queue).completed
            kernel.tables.urls.forget(fingerprint)
            kernel.turns.below_limit(row.queue, completed)
        admitter.forget(fingerprint)
    progress.effect["forgotten"] += len(found)
    return done


def _check_frontier(frontier: FrontierSettings, args: dict[str, Any]) -> None:
    """Raise FrontierError for a frontier that cannot forget, or that knows no URLs by a pattern."""
    if why := objection_to_forgetting(frontier.duplicates):
        raise FrontierError(why)
    if args.get("uris") is None and not frontier.keep_urls:
        raise FrontierError(
            "this frontier keeps fingerprints and no URLs (`frontier.keep_urls`): a pattern finds none of them; "
            "`budgetfrontier forget` reads the URLs of crawl.log"
        )


def _named(
    kernel: Kernel, admitter: Admitter, args: dict[str, Any], progress: Progress, limit: int
) -> tuple[dict[bytes, UrlRow | None], bool]:
    """Return the fingerprints, with their rows, of the next URLs that a command brings, and whether they are the last.

    Those that are not known, or wait, are only counted.
    """
    if progress.at[1] is None:
        view = kernel.tables.flushed()
        progress.at[1] = sorted(_waiting(view, _recognized(view, args["uris"])))
    waiting = frozenset(progress.at[1])
    urls, at, found = kernel.tables.urls, progress.at[0], dict[bytes, UrlRow | None]()
    for given in map(_uri, args["uris"][at : at + limit]):
        fingerprint = admitter.fingerprint(given)
        row = None if urls is None else urls.find(fingerprint)
        if fingerprint in waiting or (row is not None and row.waits):
            progress.effect["waiting"] += 1
        elif fingerprint not in found:
            if admitter.is_seen(fingerprint) or row is not None:
                found[fingerprint] = row
            else:
                progress.effect["unknown"] += 1
    progress.at[0] = min(at + limit, len(args["uris"]))
    return found, progress.at[0] == len(args["uris"])


def _matching(
    kernel: Kernel, args: dict[str, Any], progress: Progress, limit: int
) -> tuple[dict[bytes, UrlRow | None], bool]:
    """Return the next fingerprints whose URLs match and wait for nothing, with rows; whether they are the last."""
    urls, chosen, found = kernel.tables.urls, ChosenUrls(args), dict[bytes, UrlRow | None]()
    assert urls is not None
    rows = urls.page(progress.at[0], limit * _PASSED)
    for fingerprint, row in rows:
        progress.at[0] = fingerprint
        name = kernel.tables.queues.look(row.queue).queue
        if not chosen.test(expand(row.url, name), name):
            continue
        if row.waits:
            progress.effect["waiting"] += 1
            continue
        found[fingerprint] = row
        if len(found) == limit:
            return found, False
    return found, len(rows) < limit * _PASSED


def preview(view: View, args: dict[str, Any]) -> dict[str, Any]:
    """Return how many URLs a command would forget, how many stay that wait, and how many are not known.

    O(URLs kept), or O(URLs given).
    """
    check(args)
    _check_frontier(view.settings()[0].frontier, args)
    if args.get("uris") is not None:
        return _preview_of_named(view, args["uris"])
    chosen, names = ChosenUrls(args), dict[int, str]()
    effect = {"forgotten": 0, "waiting": 0, "unknown": 0}
    for _, value in view.items(keys.URLS):
        row = decode_url(value)
        name = names.get(row.queue) or names.setdefault(row.queue, view.queue_by_id(row.queue).queue)
        if chosen.test(expand(row.url, name), name):
            effect["waiting" if row.waits else "forgotten"] += 1
    return effect


def _preview_of_named(view: View, given: list[Any]) -> dict[str, Any]:
    effect, found = {"forgotten": 0, "waiting": 0, "unknown": 0}, set[bytes]()
    recognized = list(_recognized(view, given))
    waiting = _waiting(view, recognized)
    for _, fingerprint, known in recognized:
        row = view.txn.get(fingerprint, db=view.db[keys.URLS])
        if fingerprint in waiting or (row is not None and decode_url(row).waits):
            effect["waiting"] += 1
        elif fingerprint not in found:
            effect["forgotten" if known else "unknown"] += 1
            found |= {fingerprint} if known else set()
    return effect


def _recognized(view: View, given: list[Any]) -> Iterator[tuple[CrawlUri, bytes, bool]]:
    """Yield the URIs that a command brings, each with its fingerprint, and whether it is known."""
    recognized = recognizer(view)
    for uri in map(_uri, given):
        yield uri, *recognized(uri)


def _waiting(view: View, recognized: Iterable[tuple[CrawlUri, bytes, bool]]) -> set[bytes]:
    """Return the fingerprints of the known URLs that wait, in a frontier whose rows of URLs do not say so."""
    if view.settings()[0].frontier.keep_urls:
        return set()
    return waiting_among(view, {fingerprint: uri for uri, fingerprint, known in recognized if known})


def _uri(item: Any) -> CrawlUri:
    given = uri_from(item)
    return given if isinstance(given, CrawlUri) else CrawlUri(given)
