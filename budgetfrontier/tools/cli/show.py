"""Commands that only read a job, running or stopped: `report`, `queues`, `queue`, `explain`, `audit`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from budgetfrontier.core.vocabulary import AUDITED, ROW_FIELDS, CrawlState, QueueState
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports import kinds
from budgetfrontier.tools.cli import common, name_arguments, output, report_kinds
from budgetfrontier.tools.cli.common import Commands, add_command, add_format, add_job, add_page
from budgetfrontier.tools.cli.sentences import note

if TYPE_CHECKING:
    from budgetfrontier.core.model import QueueRecord
    from budgetfrontier.storage.reader import Reader
    from budgetfrontier.storage.records import AuditEntry


_LARGE_LOG = 256 << 20  # bytes


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    _register_report(commands)
    _register_queues(commands)
    _register_queue(commands)
    _register_explain(commands)
    _register_audit(commands)


def _register_report(commands: Commands) -> None:
    parser = add_command(
        commands,
        "report",
        report,
        "print the frontier report",
        more="Text has Heritrix's sections, and when it is piped or --wide its legend, which scripts parse; csv has "
        "one row per queue. The crawl may be running.",
    )
    add_job(parser, cluster=True)
    add_format(parser, "html")
    parser.add_argument(
        "--limit", type=common.count, default=None, metavar="N",
        help="list at most N queues in each section of text (default: 20) or html (100); json and csv: N rows (all); "
        "other kinds: N rows (text: 20); 0: --all",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="list all queues of each state, and all rows of other kinds")
    parser.add_argument(
        "--kind", type=kinds.kind, choices=kinds.KINDS, default="frontier", metavar="KIND",
        help=f"one of Heritrix's other reports, or one over time: {', '.join(kinds.KINDS[1:])} "
        "(default: frontier; with --since: rates)",
    )  # fmt: skip
    parser.add_argument(
        "--since", type=common.duration, default=None, metavar="AGE",
        help="with a KIND that reads the crawl's log, or one over time: what happened within this time (1h, 2d)",
    )  # fmt: skip


def _register_queues(commands: Commands) -> None:
    parser = add_command(commands, "queues", queues, "list the queues")
    add_job(parser, cluster=True)
    common.add_queue_filter(parser)
    parser.add_argument(
        "--over-budget", action="store_true",
        help="only queues over budget: retired for that, or waiting for a turn on which they retire (again); as with "
        "`--state RETIRED`, `raise_to` is a total budget for one more session, of which `floor` would be spent on the "
        "URIs held now, and `ceiling` once more come",
    )  # fmt: skip
    common.add_listing(parser, columns=ROW_FIELDS, sort="queued")


def _register_queue(commands: Commands) -> None:
    parser = add_command(commands, "queue", queue, "show one queue and its next URIs")
    add_job(parser, cluster=True)
    parser.add_argument("key", metavar="KEY", help="the queue's key, such as example.org")
    add_format(parser)
    parser.add_argument(
        "--limit", type=common.most, default=20, metavar="N", help="show at most N of its URIs (default: 20; 0: all)"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--spread", action="store_true", help="show URIs spread over the whole queue, instead of the first ones"
    )
    which.add_argument(
        "--patterns", action="store_true",
        help="list the patterns of its paths, from 3,000 URIs spread over the whole queue: where a trap is",
    )  # fmt: skip


def _register_explain(commands: Commands) -> None:
    parser = add_command(
        commands,
        "explain",
        explain,
        "explain why a URL or a queue is not being crawled, and when it would be",
        more="If something has to be done first, the command for it is printed.",
    )
    add_job(parser, cluster=True)
    parser.add_argument("target", metavar="URL_OR_KEY", help="a URL, or the key of a queue")
    parser.add_argument(
        "--log", metavar="FILE", type=Path, default=None,
        help="search this log for a URL that is not pending, such as one that was moved (default: JOB/logs/crawl.log)",
    )  # fmt: skip
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to print it (default: text)")


def _register_audit(commands: Commands) -> None:
    parser = add_command(
        commands,
        "audit",
        audit,
        "list who changed what, when and why",
        more="The newest entry comes last. The column `inverse` has the command that takes an entry back, if there is "
        "one, and `error` why a command was refused.",
    )
    add_job(parser, cluster=True)
    parser.add_argument(
        "--queue", metavar="KEY", help="only commands that concern this queue; column `covers` tells how"
    )
    parser.add_argument("--who", metavar="NAME", help="only commands of this person or program")
    parser.add_argument(
        "--operation", action="append", choices=AUDITED, metavar="NAME",
        help=f"only this command, repeatable: {', '.join(AUDITED)}",
    )  # fmt: skip
    for option, what in (("--since", "from this time on"), ("--until", "before this time")):
        parser.add_argument(
            option, type=common.moment_or_age, metavar="TIME", help=f"only {what}: ISO 8601 (UTC), or an age: 2h, 3d"
        )
    add_format(parser)
    add_page(parser)


def report(args: argparse.Namespace) -> None:
    """Print the report of the frontier, as of its last commit, or another kind of report."""
    if args.limit == 0:
        args.limit, args.all = None, True
    if args.kind != "frontier" or args.since is not None:
        return report_kinds.run(args)
    from budgetfrontier.reports import listings, text
    from budgetfrontier.reports.layout import layout_for
    from budgetfrontier.reports.overview import Overview
    from budgetfrontier.storage.reader import Reader

    if args.format == "html":
        return _html_report(args)
    with Reader(common.frontier_path(args.job)) as reader, listings.spooled(sys.stdout) as out:
        if args.format == "text":
            overview = Overview(20 if args.limit is None else args.limit, all_states=args.all)
            head = overview.read(reader)
            out.write(text.render(head, overview=overview, layout=layout_for(sys.stdout, wide=args.wide)))
        else:
            with reader.scan() as (head, rows):
                if args.format == "json":
                    for part in listings.json_report(head, islice(rows, args.limit)):
                        out.write(part)
                    out.write("\n")
                else:
                    listings.write_csv(map(listings.queue_row, islice(rows, args.limit)), ROW_FIELDS, out)
    if head.state in (CrawlState.RUNNING, CrawlState.PAUSING):
        common.note_if_stopped(args)


def _html_report(args: argparse.Namespace) -> None:
    from budgetfrontier.reports import html, listings, over_time
    from budgetfrontier.reports.overview import Overview
    from budgetfrontier.reports.wrong_now import wrong_now
    from budgetfrontier.rules.forecasts import Holdings
    from budgetfrontier.storage.reader import Reader

    path, holdings = common.frontier_path(args.job), Holdings()
    overview = Overview(100 if args.limit is None else args.limit, all_states=args.all)
    with Reader(path) as reader, listings.spooled(sys.stdout) as out:
        head = overview.read(reader, lambda view, queues: holdings.through(queues, over_time.terms_of(view)))
        with reader.view() as view:
            found = over_time.overview(view, path, holdings.held, time.time())
        wrong = wrong_now(path, head.totals, overview.spend())
        out.write(html.render(head, overview=overview, over_time=found, wrong=wrong))
    if head.state in (CrawlState.RUNNING, CrawlState.PAUSING):
        common.note_if_stopped(args)


def queues(args: argparse.Namespace) -> None:
    """List queues."""
    from budgetfrontier.reports import listings, queue_rows
    from budgetfrontier.reports.layout import layout_for
    from budgetfrontier.reports.work_list import Raised, WorkList
    from budgetfrontier.storage.reader import Reader

    piped = layout_for(sys.stdout, wide=False).width is None
    columns = queue_rows.WIDE if args.wide else queue_rows.PIPED if piped else queue_rows.TERMINAL
    columns, drop = queue_rows.sorted_by(columns, args.sort)
    row = queue_rows.row_of(columns, time.time()) if args.format == "text" else listings.queue_row
    chosen: Iterable[QueueRecord]
    test, key = common.queue_filter(args), attrgetter(args.sort)
    states = frozenset(map(QueueState, args.state)) if args.state else None
    noted = partial(name_arguments.noting_none, told=common.no_match(args) if args.match or args.state else "")
    with Reader(common.frontier_path(args.job)) as reader, reader.view() as view:
        if args.limit is None:
            chosen = reader.sorted_queues(
                key, reverse=common.is_descending(args), where=test, states=states, over_budget=args.over_budget
            )
            chosen = islice(noted(chosen), args.offset, None)
        else:
            found = filter(test, reader.queues(states, over_budget=args.over_budget))
            chosen = common.page(noted(found), args, key=key)
        fields: tuple[str, ...] = ROW_FIELDS
        if args.over_budget or states == frozenset((QueueState.RETIRED,)):
            work_list = WorkList(view)
            rows: Iterable[tuple[object, ...]] = ((*row(queue), *work_list.raised(queue)) for queue in chosen)
            columns, fields, drop = columns + Raised._fields, fields + Raised._fields, (*drop, "wake_in", "raise_to")
        else:
            rows = map(row, chosen)
        if args.format == "text":
            common.write_rows(args, rows, columns, drop=drop)
        else:
            listings.write(rows, fields, sys.stdout, format=args.format)


def queue(args: argparse.Namespace) -> None:
    """Print one queue and its next URIs, or ones spread over it, or the patterns of their paths."""
    from budgetfrontier.reports.queue_sample import spread
    from budgetfrontier.storage.reader import Reader

    with Reader(common.frontier_path(args.job)) as reader:
        record = name_arguments.queue_to_show(reader, args.job, args.key)
        if args.patterns:
            return _patterns(args, reader, record)
        if args.spread:
            with reader.view() as view:
                items = [(item.place + 1, item) for item in spread(view, record, args.limit or record.queued)]
        else:
            items = list(enumerate(reader.pending(record.queue, args.limit), 1))
    output.write_queue(args, record, items)


def _patterns(args: argparse.Namespace, reader: Reader, record: QueueRecord) -> None:
    from budgetfrontier.reports.queue_sample import FOR_PATTERNS, spread

    with reader.view() as view:
        sample = spread(view, record, FOR_PATTERNS)
    output.write_patterns(args, record, sample)


def explain(args: argparse.Namespace) -> None:
    """Print why a URL or a queue is not being crawled."""
    from budgetfrontier.crawler.fetch.refusals import refusal
    from budgetfrontier.reports.explain import explain as explained
    from budgetfrontier.reports.log_search import past_of
    from budgetfrontier.reports.scope_check import scope_verdict
    from budgetfrontier.storage.reader import Reader

    log = args.log or report_kinds.log_path(args)
    if args.log and not args.log.is_file():
        raise FrontierError(f"{args.log}: there is no such log; without --log, the one of the job is searched")
    with Reader(common.frontier_path(args.job)) as reader:
        answer = explained(
            reader,
            args.target,
            job=str(args.job),
            scope=partial(scope_verdict, reader),
            past=partial(past_of, log=log, progress=_indexing),
            refusal=partial(refusal, reader.settings),
        )
    output.write_explanation(args, answer)


def _indexing(size: int) -> None:
    """Say that the first search of a large log takes a while."""
    from budgetfrontier.core.units import format_size

    if size > _LARGE_LOG:
        note(f"indexing {format_size(size)} of log, once; the next search reads what is new only")


def audit(args: argparse.Namespace) -> None:
    """List the commands that were applied; --limit and --offset count from the newest."""
    from budgetfrontier.reports.audit_filter import coverage
    from budgetfrontier.reports.audit_inverses import inverses
    from budgetfrontier.storage.reader import Reader

    people: set[str] = set()
    with Reader(common.frontier_path(args.job)) as reader:
        key = None if args.queue is None else name_arguments.queue_to_show(reader, args.job, args.queue).queue
        with reader.view() as view:
            covers = None if key is None else coverage(view, key)
            chosen = (pair for pair in inverses(view.newest_commands()) if is_chosen(pair[0], args, people))
            found = ((entry, inverse, covers and covers(entry)) for entry, inverse in chosen)
            found = (row for row in found if covers is None or row[2])
            end = None if args.limit is None else args.limit + args.offset
            entries = list(islice(found, args.offset, end))[::-1]
        if not entries and args.who is not None and args.who not in people:
            raise name_arguments.nobody(args.who, people)
        in_progress = reader.in_progress()
    output.write_audit(args, [(entry.id, entry, inverse, covered) for entry, inverse, covered in entries])
    if in_progress:
        from budgetfrontier.engine.remote import describe_progress

        note(describe_progress(*in_progress))


def is_chosen(entry: AuditEntry, args: argparse.Namespace, people: set[str]) -> bool:
    """Tell whether an audit entry passes the filters by who, time and operation; add who it is by to `people`."""
    people.add(entry.who)
    return (
        args.who in (None, entry.who)
        and (not args.operation or entry.command in args.operation)
        and (args.since is None or entry.when >= args.since)
        and (args.until is None or entry.when < args.until)
    )
