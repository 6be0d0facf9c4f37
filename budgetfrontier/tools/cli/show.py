"""Commands that only read a crawl, running or stopped: `report`, `queues`, `queue`, `explain`, `audit`."""

from __future__ import annotations

import argparse
import sys
import time
from itertools import islice, starmap
from pathlib import Path
from typing import IO, TYPE_CHECKING

from budgetfrontier.core.effect_words import command_in_words
from budgetfrontier.core.vocabulary import AUDITED, ROW_FIELDS, CrawlState, QueueState
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports import kinds
from budgetfrontier.tools.cli import common, name_arguments, output, report_kinds
from budgetfrontier.tools.cli.common import Commands, add_command, add_format, add_job, add_page
from budgetfrontier.tools.cli.on_crawl import on_crawl
from budgetfrontier.tools.cli.sentences import note

if TYPE_CHECKING:
    from budgetfrontier.core.model import QueueRecord
    from budgetfrontier.reports.operators import CrawlOperator
    from budgetfrontier.storage.records import AuditEntry
    from budgetfrontier.storage.report import Report


_LARGE_LOG = 256 << 20  # bytes
_OPERATIONS = tuple(map(command_in_words, AUDITED))


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
        on_crawl(report),
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
        help=f"one of Heritrix's other reports, one over time, or the settings: {', '.join(kinds.KINDS[1:])} "
        "(default: frontier; with --since: rates)",
    )  # fmt: skip
    parser.add_argument(
        "--since", type=common.duration, default=None, metavar="AGE",
        help="with a KIND that reads the crawl's log, or one over time: what happened within this time (1h, 2d); "
        "busiest: in the hours that this overlaps, after 30 days in the days",
    )  # fmt: skip


def _register_queues(commands: Commands) -> None:
    parser = add_command(commands, "queues", on_crawl(queues), "list the queues")
    add_job(parser, cluster=True)
    common.add_queue_filter(parser)
    parser.add_argument(
        "--group", metavar="NAME", help="only queues of this group (museum, domain/example.org), or of those that "
        "globs fit (domain, domain/*.org); with groups, a column `group` has the name",
    )  # fmt: skip
    parser.add_argument(
        "--over-budget", action="store_true",
        help="only queues over budget: retired for that, or waiting for a turn on which they retire (again); as with "
        "`--state RETIRED`, `raise_to` is a total budget for one more session, of which `floor` would be spent on the "
        "URIs held now, and `ceiling` once more come",
    )  # fmt: skip
    common.add_listing(parser, columns=ROW_FIELDS, sort="queued")


def _register_queue(commands: Commands) -> None:
    parser = add_command(commands, "queue", on_crawl(queue), "show one queue and its next URIs")
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
        help="list the patterns of its paths, from 3,000 URIs spread over the whole queue: where a trap is; segments "
        "in braces are repeated, or in several orders",
    )  # fmt: skip


def _register_explain(commands: Commands) -> None:
    parser = add_command(
        commands,
        "explain",
        on_crawl(explain),
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
        on_crawl(audit),
        "list who changed what, when and why",
        more="The newest entry comes last. The column `inverse` has the command that takes an entry back, if there is "
        "one, and `error` why a command was refused. With an AUDIT_ID, it says if that undo would be refused now.",
    )
    add_job(parser, cluster=True)
    parser.add_argument("entry", metavar="AUDIT_ID", nargs="?", help="only the entry with this id")
    parser.may_follow = "entry"
    parser.add_argument(
        "--queue", metavar="KEY", help="only commands that concern this queue; column `covers` tells how"
    )
    parser.add_argument("--who", metavar="NAME", help="only commands of this person or program")
    parser.add_argument(
        "--operation", action="append", type=command_in_words, choices=_OPERATIONS, metavar="NAME",
        help=f"only this command, repeatable: {', '.join(_OPERATIONS)}",
    )  # fmt: skip
    for option, what in (("--since", "from this time on"), ("--until", "before this time")):
        parser.add_argument(
            option, type=common.moment_or_age, metavar="TIME", help=f"only {what}: ISO 8601 (UTC), or an age: 2h, 3d"
        )
    parser.add_argument(
        "--outcome", action="store_true",
        help="column `outcome`: what the queues of each change of settings have fetched and spent since, beside what "
        "its dry run promised, and how many are RETIRED; a pass over all queues for each, unless it names them",
    )  # fmt: skip
    add_format(parser)
    add_page(parser, rows="newest")


def report(args: argparse.Namespace, operator: CrawlOperator) -> None:
    """Print the report of the frontier, as of its last commit, or another kind of report."""
    if args.limit == 0:
        args.limit, args.all = None, True
    if args.kind != "frontier" or args.since is not None:
        return report_kinds.run(args, operator)
    from budgetfrontier.reports import html, listings, text
    from budgetfrontier.reports.layout import layout_for
    from budgetfrontier.reports.wrong_now import wrong_now

    with listings.spooled(sys.stdout) as out:
        if args.format == "html":
            most = 100 if args.limit is None else args.limit
            head, overview, over_time = operator.overview(most, all_states=args.all, forecast=True)
            wrong = wrong_now(operator.path, head.standing, overview.spend())
            out.write(html.render(head, overview=overview, over_time=over_time, wrong=wrong))
        elif args.format == "text":
            most = 20 if args.limit is None else args.limit
            head, overview, _ = operator.overview(most, all_states=args.all)
            wrong = wrong_now(operator.path, head.standing, overview.spend())
            layout = layout_for(sys.stdout, wide=args.wide)
            out.write(text.render(head, overview=overview, layout=layout, wrong=wrong))
        else:
            head = _write_queues(args, operator, out)
    if head.state in (CrawlState.RUNNING, CrawlState.PAUSING) and (sentence := operator.stopped()):
        note(sentence)


def _write_queues(args: argparse.Namespace, operator: CrawlOperator, out: IO[str]) -> Report:
    """Write a row for each queue, as CSV or below the report as JSON; return the report."""
    from budgetfrontier.reports import listings

    with operator.scan() as (head, queues):
        rows = islice(queues, args.limit)
        if args.format == "csv":
            listings.write_csv(map(listings.queue_row, rows), ROW_FIELDS, out)
        else:
            for part in listings.json_report(head, rows, lambda: output.missing_partitions(operator)):
                out.write(part)
            out.write("\n")
        return head


def queues(args: argparse.Namespace, operator: CrawlOperator) -> None:
    """List queues."""
    from budgetfrontier.reports import listings, queue_rows
    from budgetfrontier.reports.layout import layout_for
    from budgetfrontier.reports.work_list import Raised

    raised = args.over_budget or set(args.state or ()) == {QueueState.RETIRED}
    piped = layout_for(sys.stdout, wide=False).width is None
    columns = queue_rows.WIDE if args.wide else queue_rows.PIPED if piped else queue_rows.TERMINAL
    columns, drop = queue_rows.sorted_by(columns, args.sort)
    row = queue_rows.row_of(columns, time.time()) if args.format == "text" else listings.queue_row
    fields: tuple[str, ...] = ROW_FIELDS
    selection = common.selection(args, over_budget=args.over_budget, raised=raised)
    end = None if args.limit is None else args.offset + args.limit
    found = operator.sorted_queues(selection, sort=args.sort, reverse=common.is_descending(args), end=end)
    none = common.no_match(args) if args.match or args.state or args.group else ""
    chosen = islice(name_arguments.noting_none(found, none, operator), args.offset, None)
    names = operator.group_names()
    if names is not None:
        columns, fields, drop = (*columns, "group"), (*fields, "group"), (*drop, "group")
    if raised:
        columns, fields, drop = columns + Raised._fields, fields + Raised._fields, (*drop, "wake_in", "raise_to")

    def cells(queue: QueueRecord, more: Raised | None) -> tuple[object, ...]:
        group = () if names is None else (names(queue),)
        return *row(queue), *group, *(more or ())

    rows = starmap(cells, chosen)
    if args.format == "text":
        common.write_rows(args, rows, columns, drop=drop)
    else:
        listings.write(rows, fields, sys.stdout, format=args.format)


def queue(args: argparse.Namespace, operator: CrawlOperator) -> None:
    """Print one queue and its next URIs, or ones spread over it, or the patterns of their paths."""
    from budgetfrontier.reports.queue_sample import FOR_PATTERNS

    spread = args.spread or args.patterns
    limit = FOR_PATTERNS if args.patterns else args.limit
    record, pending = name_arguments.queue_to_show(operator, args.key, limit=limit, spread=spread)
    if args.patterns:
        return output.write_patterns(args, record, pending)
    items = [(item.place + 1 if spread else place, item) for place, item in enumerate(pending, 1)]
    output.write_queue(args, record, items, operator.group_of(record), operator.quotas_of(record))


def explain(args: argparse.Namespace, operator: CrawlOperator) -> None:
    """Print why a URL or a queue is not being crawled."""
    if args.log and operator.path is None:
        args.parser.error("--log is for a job's folder: a crawl in partitions has the logs of its crawlers, if any")
    if args.log and not args.log.is_file():
        raise FrontierError(f"{args.log}: there is no such log; without --log, the one of the job is searched")
    output.write_explanation(args, operator.explain(args.target, log=args.log, progress=_indexing))


def _indexing(size: int) -> None:
    """Say that the first search of a large log takes a while."""
    from budgetfrontier.core.units import format_size

    if size > _LARGE_LOG:
        note(f"indexing {format_size(size)} of log, once; the next search reads what is new only")


def audit(args: argparse.Namespace, operator: CrawlOperator) -> None:
    """List the commands that were applied; --limit and --offset count from the newest."""
    from budgetfrontier.reports.format import clean

    people: set[str] = set()
    end = None if args.limit is None else args.limit + args.offset
    filtered = any((args.who, args.operation, args.since, args.until, args.entry))
    key = None if args.queue is None else name_arguments.queue_to_show(operator, args.queue)[0].queue
    found = operator.audit(
        key=key, where=lambda entry: _is_chosen(entry, args, people), count=None if filtered else end
    )
    chosen = found.rows if args.entry is None else [row for row in found.rows if str(row.id) == args.entry]
    if args.entry is not None and not chosen:
        raise FrontierError(f"the audit has no entry {args.entry!r} here; without an id, it lists all")
    rows = list(islice(chosen, args.offset, end))[::-1]
    if not rows and args.who is not None and args.who not in people:
        raise name_arguments.nobody(args.who, people)
    outcomes = operator.outcomes(rows) if args.outcome else None
    output.write_audit(args, rows, with_partitions=operator.path is None, outcomes=outcomes)
    for why in (operator.undo_refusals(rows) if args.entry is not None else {}).values():
        note(f"no undo of it would be taken now: {clean(why)}")
    if found.left_out:
        note(found.left_out)


def _is_chosen(entry: AuditEntry, args: argparse.Namespace, people: set[str]) -> bool:
    """Return whether an audit entry passes the filters by who, time and operation; add its author to `people`."""
    people.add(entry.who)
    return (
        args.who in (None, entry.who)
        and (not args.operation or command_in_words(entry.command) in args.operation)
        and (args.since is None or entry.when >= args.since)
        and (args.until is None or entry.when < args.until)
    )
