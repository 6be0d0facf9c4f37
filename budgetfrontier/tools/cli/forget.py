"""`forget`: let URLs that were seen, and wait for nothing, be scheduled again when they are found."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.cli import for_good
from budgetfrontier.tools.cli.common import Commands, add_command, add_job, add_who
from budgetfrontier.tools.cli.exits import OK
from budgetfrontier.tools.cli.on_crawl import on_crawl
from budgetfrontier.tools.cli.sentences import note, say
from budgetfrontier.tools.cli.steer import give

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import CrawlOperator
    from budgetfrontier.storage.view import View

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
    effect, code = Counter[str](), OK
    for details in _details(args, operator):
        if args.dry_run:
            effect.update(operator.dry_run("forget", details))
            continue
        applied, failed = give(args, operator, "forget", details | for_good.details(args))
        code = max(code, failed)
        if applied.entry is not None:
            found = applied.entry.effect
            effect.update({name: found[name] for name in ("forgotten", "waiting", "unknown")})
            for_good.note_kept(args, applied.entry)
    say(f"{'would forget' if args.dry_run else 'forgot'} {forgotten(effect)}")
    if args.dry_run:
        note("dry run: nothing was changed")
    return code


def _details(args: argparse.Namespace, operator: CrawlOperator) -> Iterator[dict[str, Any]]:
    """Yield the arguments of the commands: one for a frontier that keeps its URLs, else one for some thousand URLs."""
    if args.urls:
        yield {"uris": args.urls}
    elif operator.settings.frontier.keep_urls:
        from budgetfrontier.settings.matching import with_kind

        yield {"match": with_kind(args.match)} | ({"pattern": args.pattern} if args.pattern else {})
    elif operator.path is None:
        raise FrontierError("a crawl in partitions without `frontier.keep_urls` knows no URLs by a pattern: give URLs")
    else:
        found = iter(_logged(args, operator))
        for first in found:
            yield {"uris": [first, *islice(found, AT_A_TIME - 1)]}


def _logged(args: argparse.Namespace, operator: CrawlOperator) -> list[str]:
    """Return the URLs in the crawl's log that match, each once, without those that wait as of the last commit."""
    from budgetfrontier.engine.commands.selection import ChosenUrls, check_pattern
    from budgetfrontier.reports import crawl_log
    from budgetfrontier.settings.matching import parse_match
    from budgetfrontier.storage.reader import Reader

    if parse_match(args.match).kind not in ("*", "host", "domain", "surt", "regex"):
        raise FrontierError("crawl.log has URLs, and no queues or labels: give host:, domain:, surt:, regex: or *")
    check_pattern(args.pattern or "", timeless=False)
    log = args.log or args.job / "logs" / "crawl.log"
    if not log.is_file():
        raise FrontierError(f"there is no {log}, where `budgetfrontier crawl` writes URLs: give URLs, or --log FILE")
    chosen = ChosenUrls({"match": args.match, "pattern": args.pattern})
    lines = crawl_log.entries(log)
    urls = dict.fromkeys(line.url.decode("utf-8", "replace") for line in lines if line.hops[-1:] != b"P")
    found = {url: None for url in urls if chosen.test(url, "")}
    if not found:
        return []
    with Reader(operator.path or Path()) as reader, reader.view() as view:
        for url in _waiting(view):
            found.pop(url, None)
    return list(found)


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
