"""The forgetting of URLs that wait for nothing, in steps, so that they may be scheduled again.

A frontier that keeps its URLs is asked for those that match; any other knows fingerprints alone, so that a command
brings the URLs. What was known of them is kept in the file of the command for `undo`. `Progress.at` is the last
fingerprint, or the number of URLs that were processed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
from budgetfrontier.storage.removed import Look
from budgetfrontier.storage.uri_values import expand
from budgetfrontier.storage.url_search import recognizer
from budgetfrontier.storage.view import View

_PASSED = 10  # rows that are passed over in the time in which one is forgotten, or less


def check(args: dict[str, Any]) -> None:
    """Raise for URLs that could not be read, or a choice that could not be made."""
    if args.get("uris") is not None:
        list(map(uri_from, args["uris"]))
        return
    if args.get("match") is None:
        raise FrontierError("forget what? Give a pattern; '*' is every URL that waits for nothing")
    check_match(args, of_uris=True)
    if args["match"].startswith("label:"):
        raise FrontierError("labels are of seeds and of what waits: what is known of other URLs has none")
    check_pattern(args.get("pattern") or "", timeless=bool(args.get("timeless")))


def start(args: dict[str, Any]) -> Progress:
    """Return the progress of a command that begins."""
    return Progress([b"" if args.get("uris") is None else 0], {"forgotten": 0, "waiting": 0, "unknown": 0})


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
        look = kernel.tables.queues.look
        rows: dict[bytes, Look | None]
        rows = {fingerprint: look_after(look(row.queue), None) for fingerprint, row in found.items() if row}
        kernel.tables.removed.keep(progress.effect, [(keys.SEEN, dict.fromkeys(found)), (keys.URLS, rows)])
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

    Those that are not known, or wait as far as that is known, are only counted.
    """
    urls, at, found = kernel.tables.urls, progress.at[0], dict[bytes, UrlRow | None]()
    for given in map(uri_from, args["uris"][at : at + limit]):
        try:
            fingerprint = admitter.fingerprint(given if isinstance(given, CrawlUri) else CrawlUri(given))
        except InvalidUrl:
            progress.effect["unknown"] += 1
            continue
        row = None if urls is None else urls.find(fingerprint)
        if row is not None and row.waits:
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
        return _preview_of_named(view, map(uri_from, args["uris"]))
    chosen, names = ChosenUrls(args), dict[int, str]()
    effect = {"forgotten": 0, "waiting": 0, "unknown": 0}
    for _, value in view.items(keys.URLS):
        row = decode_url(value)
        name = names.get(row.queue) or names.setdefault(row.queue, view.queue_by_id(row.queue).queue)
        if chosen.test(expand(row.url, name), name):
            effect["waiting" if row.waits else "forgotten"] += 1
    return effect


def _preview_of_named(view: View, given: Iterable[str | CrawlUri]) -> dict[str, Any]:
    effect, recognized, found = {"forgotten": 0, "waiting": 0, "unknown": 0}, recognizer(view), set[bytes]()
    for one in given:
        try:
            fingerprint, known = recognized(one if isinstance(one, CrawlUri) else CrawlUri(one))
        except InvalidUrl:
            effect["unknown"] += 1
            continue
        row = view.txn.get(fingerprint, db=view.db[keys.URLS])
        if row is not None and decode_url(row).waits:
            effect["waiting"] += 1
        elif fingerprint not in found:
            effect["forgotten" if known else "unknown"] += 1
            found |= {fingerprint} if known else set()
    return effect
