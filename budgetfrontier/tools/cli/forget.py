"""`forget`: let URLs that were seen, and wait for nothing, be scheduled again when they are found."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetfrontier.errors import FrontierError, InvalidUrl
from budgetfrontier.tools.cli import for_good
from budgetfrontier.tools.cli.common import Commands, add_command, add_job, add_who
from budgetfrontier.tools.cli.exits import OK
from budgetfrontier.tools.cli.on_crawl import give, on_crawl
from budgetfrontier.tools.cli.sentences import note, say

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import CrawlOperator
    from budgetfrontier.storage.records import AuditEntry
    from budgetfrontier.storage.view import View

_COUNTED = ("forgotten", "waiting", "unknown")
AT_A_TIME = 20_000
"""URLs of one command."""


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "forget",
        on_crawl(forget),
        "forget that URLs were seen, so that they are scheduled again when they are found",
        more="URLs that wait, in a queue or for a date, stay known. A frontier keeps URLs only with "
        "`frontier.keep_urls`: of any other, the URLs in crawl.log are forgotten, and those that are given; a crawl in "
        "partitions needs `keep_urls`. With `duplicates: bloom`, nothing can be forgotten.",
    )
    add_job(parser, cluster=True)
    parser.add_argument("urls", metavar="URL", nargs="*", help="these URLs, in the place of --match")
    parser.may_follow = "urls"
    parser.add_argument(
        "--match", metavar="PATTERN",
        help="all URLs that match, as in `adjust` host:, domain:, surt:, regex: or *; with keep_urls queue: and "
        "queues:, too",
    )  # fmt: skip
    parser.add_argument("--pattern", metavar="REGEX", help="with --match: only those in which this is found")
    parser.add_argument("--log", metavar="FILE", type=Path, help="the log (default: JOB/logs/crawl.log)")
    parser.add_argument("--dry-run", action="store_true", help="only count them, and change nothing")
    for_good.add_for_good(parser)
    parser.set_defaults(usage=parser.error)
    add_who(parser)


def forget(args: argparse.Namespace, operator: CrawlOperator) -> int:
    """Forget URLs; with --dry-run, only count them."""
    from budgetfrontier.reports.audit_sentences import forgotten
    from budgetfrontier.rules.duplicates import objection_to_forgetting

    if bool(args.urls) is bool(args.match):
        args.usage("give URLs, or --match PATTERN, and not both; '*' matches all")
    if why := objection_to_forgetting(operator.settings.frontier.duplicates):
        raise FrontierError(why)
    effect, code, keeps = Counter[str](), OK, operator.settings.frontier.keep_urls
    last: AuditEntry | None = None
    for details in _details(args, operator, effect):
        if args.dry_run:
            effect.update(operator.dry_run("forget", details))
            continue
        continues = {} if last is None else {"continues": last.id}
        applied, failed = give(args, operator, "forget", details | for_good.details(args) | continues)
        code = max(code, failed)
        if applied.entry is not None:
            found, before = applied.entry, last.effect if last and last.id == applied.entry.id else {}
            effect.update({name: found.effect[name] - before.get(name, 0) for name in _COUNTED})
            last = applied.entry
    if last is not None:
        for_good.note_kept(operator, last)
    if args.match and not effect.total():
        where = "that is kept" if keeps else f"in {log_of(args)}"
        note(f"{args.match} matches no URL {where}; give deleted ones by name, for they may be known all the same")
    say(f"{'would forget' if args.dry_run else 'forgot'} {forgotten(effect)}")
    return code


def _details(args: argparse.Namespace, operator: CrawlOperator, effect: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yield the arguments of the commands: one for a frontier that keeps its URLs, else one for some thousand URLs.

    Of the latter, those that wait as of the last commit are left out, and counted.
    """
    from budgetfrontier.settings.matching import with_kind

    chosen = {"match": with_kind(args.match)} if args.match else {}
    chosen |= {"pattern": args.pattern} if args.pattern else {}
    if args.urls:
        yield {"uris": args.urls}
    elif operator.settings.frontier.keep_urls:
        yield chosen
    elif operator.path is None:
        raise FrontierError("a crawl in partitions without `frontier.keep_urls` knows no URLs by a pattern: give URLs")
    else:
        urls, waiting = _logged(args, operator)
        effect["waiting"] += waiting
        found = iter(urls)
        for first in found:
            yield chosen | {"uris": [first, *islice(found, AT_A_TIME - 1)]}


def log_of(args: argparse.Namespace) -> Path:
    """Return the path of the log whose URLs are forgotten."""
    return Path(args.log or args.job / "logs" / "crawl.log")


def _logged(args: argparse.Namespace, operator: CrawlOperator) -> tuple[list[str], int]:
    """Return the URLs in the crawl's log that match, each once, by host, and the number of those that wait.

    They are in the order of their hosts, as each command searches the queues of its URLs for what waits.
    """
    from budgetfrontier.core.uris import host
    from budgetfrontier.engine.commands.selection import ChosenUrls, check_pattern
    from budgetfrontier.reports import crawl_log
    from budgetfrontier.settings.matching import parse_match
    from budgetfrontier.storage.reader import Reader

    if parse_match(args.match).kind not in ("*", "host", "domain", "surt", "regex"):
        raise FrontierError("crawl.log has URLs, and no queues or labels: give host:, domain:, surt:, regex: or *")
    check_pattern(args.pattern or "")
    log = log_of(args)
    if not log.is_file():
        there = f"{log} is no file; it would be one" if log.exists() else f"there is no {log},"
        raise FrontierError(f"{there} where `budgetfrontier crawl` writes URLs: give URLs, or --log FILE")
    chosen = ChosenUrls({"match": args.match, "pattern": args.pattern})
    lines = crawl_log.entries(log)
    urls = dict.fromkeys(line.url.decode("utf-8", "replace") for line in lines if line.hops[-1:] != b"P")
    if not urls and log.stat().st_size:
        raise FrontierError(f"{log} has no line of a fetch, as crawl.log has them: give another --log FILE")
    found = {url for url in urls if chosen.test(url, "") and _is_valid(url)}
    if not found:
        return [], 0
    with Reader(operator.path or Path()) as reader, reader.view() as view:
        waiting = found.intersection(_waiting(view))
    return sorted(found - waiting, key=host), len(waiting)


def _is_valid(url: str) -> bool:
    from budgetfrontier.core.uris import parse

    try:
        return bool(parse(url))
    except InvalidUrl:
        return False


def _waiting(view: View) -> Iterator[str]:
    """Yield the URLs that wait, in a queue or for a date."""
    from budgetfrontier.core.bounded_cache import BoundedCache
    from budgetfrontier.storage import keys
    from budgetfrontier.storage.records import decode_future
    from budgetfrontier.storage.uri_values import expand, short_url

    names: BoundedCache[int, str] = BoundedCache(10_000)
    pending = ((keys.u32.unpack(key[:4])[0], value) for key, value in view.items(keys.PENDING))
    later = ((row.queue, row.value) for row in (decode_future(value) for _, value in view.items(keys.FUTURE)))
    for queue_id, value in chain(pending, later):
        if queue_id not in names:
            names.put(queue_id, view.queue_by_id(queue_id).queue)
        yield expand(short_url(value), names[queue_id])
