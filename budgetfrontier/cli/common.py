"""What the commands share: the job, the listing options, who is asking."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest, nsmallest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetfrontier.errors import FrontierError, NotAFrontier
from budgetfrontier.vocabulary import CrawlState, QueueState

if TYPE_CHECKING:
    from budgetfrontier.model import QueueRecord
    from budgetfrontier.settings import Settings
    from budgetfrontier.store.reader import Reader
    from budgetfrontier.store.records import AuditEntry

Commands = Any  # what add_subparsers() returns; argparse has no public name for it
Command = Callable[[argparse.Namespace], int | None]

PATIENCE = 10.0
"""Seconds that a command waits for a running engine's answer."""
TERMINATED = (
    "this crawl was terminated: it hands out nothing ever again; begin a new one with "
    "`budgetfrontier crawl CONFIG --job DIR`, and take over what was left with `export` and `import`"
)

SMALLEST_FIRST = frozenset(("queue", "state", "precedence", "wake_time", "last_enqueued", "last_leased"))
"""Columns that sort from the smallest; by the other ones, amounts, the largest comes first."""


def add_command(
    commands: Commands, name: str, run: Command, summary: str, *, more: str = ""
) -> argparse.ArgumentParser:
    """Add one command: `summary` for the list of commands, and with `more` for its own help."""
    description = summary[0].upper() + summary[1:] + "." + (f" {more}" if more else "")
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=description)
    parser.set_defaults(run=run)
    return parser


def add_job(parser: argparse.ArgumentParser) -> None:
    """The argument that nearly every command has."""
    parser.add_argument("job", metavar="JOB", type=Path, help="the job's folder (its frontier is in JOB/frontier)")


def add_who(parser: argparse.ArgumentParser) -> None:
    """The options of commands that change something: both end in the audit."""
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, for the audit")
    parser.add_argument(
        "--who", default=None, metavar="NAME", help="who asks, for the audit (default: your login name)"
    )


def add_format(parser: argparse.ArgumentParser, *extra: str) -> None:
    """The option --format."""
    parser.add_argument(
        "--format", choices=("text", "json", "csv", *extra), default="text", help="how to print it (default: text)"
    )


def add_page(parser: argparse.ArgumentParser) -> None:
    """The options that choose a part of a listing."""
    parser.add_argument("--limit", type=count, default=None, metavar="N", help="print at most N rows (default: all)")
    parser.add_argument("--offset", type=count, default=0, metavar="N", help="skip the first N rows (default: 0)")


def add_queue_filter(parser: argparse.ArgumentParser) -> None:
    """The options that choose queues."""
    parser.add_argument(
        "--state",
        action="append",
        type=lambda text: text.upper().replace("-", "_"),
        choices=[str(state) for state in QueueState],
        metavar="STATE",
        help=f"only queues in this state, repeatable: {', '.join(QueueState)}",
    )
    parser.add_argument(
        "--match",
        metavar="PATTERN",
        help="only queues that match: a glob on the queue key (*.example.org), or as in overrides domain:, host:, "
        "queue:, surt:, regex: (tested on the URI last placed there)",
    )


def add_listing(parser: argparse.ArgumentParser, *, columns: Sequence[str], sort: str) -> None:
    """All options of a listing: --format, --sort, --reverse, --limit, --offset."""
    add_format(parser)
    parser.add_argument(
        "--sort",
        choices=columns,
        default=sort,
        metavar="COLUMN",
        help=f"order by this column, amounts from the largest (default: {sort}): {', '.join(columns)}",
    )
    parser.add_argument("--reverse", action="store_true", help="turn the order round")
    add_page(parser)


def count(text: str) -> int:
    """A whole number of at least 0, as the type of an argument."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is less than 0")
    return value


def frontier_path(job: Path) -> Path:
    """The frontier of a job: JOB/frontier, or JOB when it is one itself. NotAFrontier says that there is none."""
    for path in (job / "frontier", job):
        if (path / "data.mdb").is_file():
            return path
    if not job.is_dir():
        command = shlex.join(("budgetfrontier", "crawl", "CONFIG", "--job", str(job)))
        raise NotAFrontier(f"{job}: there is no such folder; `{command}` makes one")
    raise NotAFrontier(f"{job}: there is no frontier here; name a job's folder, the one with `frontier` in it")


def folder_name(name: str) -> str:
    """Return the name of a crawl as that of a folder.

    >>> folder_name("news 2026/11")
    'news-2026-11'
    """
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "crawl"


def steer(args: argparse.Namespace, op: str, details: dict[str, Any], *, patiently: bool = False) -> AuditEntry:
    """Do something to the job, running or stopped; `patiently` waits for the answer as long as an engine runs."""
    from budgetfrontier.engine.remote import steer as ask

    return ask(
        frontier_path(args.job), op, details, who=args.who, reason=args.reason, timeout=None if patiently else PATIENCE
    )


def refuse_if_terminated(args: argparse.Namespace) -> None:
    """Raise FrontierError for a job that hands out nothing ever again."""
    from budgetfrontier.store.reader import Reader

    with Reader(frontier_path(args.job)) as reader:
        if reader.summary().state == CrawlState.TERMINATED:
            raise FrontierError(f"{args.job}: {TERMINATED}")


def no_queue(reader: Reader, args: argparse.Namespace) -> FrontierError:
    """The error that there is no queue `args.key`, with the one that may be meant."""
    from budgetfrontier.reports.explain import nearest
    from budgetfrontier.reports.format import clean

    near = nearest(reader, args.key)
    meant = f"; did you mean {clean(near)}?" if near else ""
    listing = shlex.join(("budgetfrontier", "queues", str(args.job)))
    return FrontierError(f"there is no queue {args.key!a}{meant or ';'} `{listing}` lists them")


def matcher(pattern: str | None) -> Callable[[str, str], bool]:
    """The test of (URL, queue key) that --match asks for; without a kind, `pattern` is a glob on the queue key."""
    from budgetfrontier.settings.matching import KINDS, parse_match

    if pattern is None or pattern == "*":
        return lambda url, queue: True
    match = parse_match(pattern if pattern.partition(":")[0] in KINDS else f"queue:{pattern}")
    if match.kind == "queue":
        return lambda url, queue: match.matches("", queue)
    return lambda url, queue: bool(url) and match.matches(url, queue)


def queue_filter(args: argparse.Namespace) -> Callable[[QueueRecord], bool]:
    """The test that --state and --match ask for."""
    matches = matcher(args.match)
    states = frozenset(args.state or QueueState)
    return lambda queue: queue.state in states and matches(queue.last_enqueued, queue.queue)


def page(rows: Iterable[Any], args: argparse.Namespace, *, key: Callable[[Any], Any] | None = None) -> Iterable[Any]:
    """The rows that --limit and --offset ask for, ordered by `key` as --sort and --reverse ask.

    Memory: as many rows as are printed or skipped when there is a limit, else all of them if they are to be sorted.
    """
    end = None if args.limit is None else args.offset + args.limit
    if key is not None:
        if end is None:
            rows = sorted(rows, key=key, reverse=largest_first(args))
        else:
            rows = (nlargest if largest_first(args) else nsmallest)(end, rows, key=key)
    return islice(rows, args.offset, end)


def largest_first(args: argparse.Namespace) -> bool:
    """The direction that --sort and --reverse ask for."""
    return (args.sort not in SMALLEST_FIRST) is not args.reverse


def note_if_stopped(args: argparse.Namespace) -> None:
    """Say that no process runs the job, if none does, and which command goes on with it."""
    from budgetfrontier.reports.commands import start_command
    from budgetfrontier.store.reader import Reader

    with Reader(frontier_path(args.job)) as reader:
        if reader.lock_pid() is None:
            start = start_command(str(args.job)) or "start the program that opened it"
            note(f"no process runs this crawl; to go on: {start}")


def read_settings(path: Path) -> Settings:
    """The settings of a YAML file. Warnings go to stderr, beside the problems of a file that has some."""
    from budgetfrontier.errors import SettingsError
    from budgetfrontier.settings import Settings
    from budgetfrontier.settings.loader import load

    try:
        settings, warnings = load(path, Settings(), environment=os.environ)
    except SettingsError as error:
        warn(error.warnings)
        raise
    warn(warnings)
    return settings


def warn(warnings: Iterable[str]) -> None:
    """Print warnings for the person at the terminal."""
    for warning in warnings:
        note(f"warning: {warning}")


def note(text: str) -> None:
    """A message for the person at the terminal: never on stdout."""
    print(text, file=sys.stderr)
