"""`revive`: schedule again the URIs whose last line in the crawl.log of a crawl has some status."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.common import Commands, add_command, add_job, add_who
from budgetfrontier.tools.cli.on_crawl import noting_continued
from budgetfrontier.tools.cli.sentences import note, note_dry_run, say

if TYPE_CHECKING:
    from budgetfrontier.engine.commands.mailbox import Command
    from budgetfrontier.reports.crawl_log import Line
    from budgetfrontier.storage.reader import Reader
    from budgetfrontier.storage.records import AuditEntry, StartedCommand

CHUNK = 1000


def register(commands: Commands) -> None:
    """Add the command of this group."""
    parser = add_command(
        commands,
        "revive",
        revive,
        "schedule disregarded or failed URIs again, from crawl.log",
        more="URIs whose last line in crawl.log has the given status return to their queues, although they were seen. "
        "Remove the cause first, because they are checked again at their turn. A later call with the same status "
        "revives only URIs logged since the previous one, so that an interrupted call can be repeated. URIs that are "
        "still to be tried again, or are dead letters, may have such a line, too: the former are then fetched twice; "
        "for the latter, use `dead-letters --replay`.",
    )
    add_job(parser)
    parser.add_argument(
        "--status", metavar="STATUS", type=_status, required=True,
        help="a status as in the log, such as 404, -5000 (out of scope), -5001 (private address or blocked port) "
        "or -9998 (forbidden by robots.txt), or a class of HTTP statuses, 1xx to 5xx",
    )  # fmt: skip
    parser.add_argument(
        "--since", metavar="TIME", type=_log_time, default=None,
        help="only lines after this time, ISO 8601 as in the log (default zone: UTC), or an age, such as 2d; '' for "
        "all (default: after the last revival of this status)",
    )  # fmt: skip
    parser.add_argument("--log", metavar="FILE", type=Path, help="the log (default: JOB/logs/crawl.log)")
    parser.add_argument("--dry-run", action="store_true", help="only count them")
    add_who(parser)


def _status(text: str) -> str:
    """Return the status of an argument. Raises ArgumentTypeError."""
    from budgetfrontier.reports import crawl_log

    try:
        return crawl_log.statuses(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from None


def _log_time(text: str) -> str:
    """Return a time or an age in the format of the log, whose times are compared as text."""
    if not text:
        return ""
    moment = datetime.fromtimestamp(max(common.moment_or_age(text), 0.0), UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def revive(args: argparse.Namespace) -> None:
    """Schedule URIs in chunks; the audit entry of each stores how far in the log it came."""
    from budgetfrontier.core.converters import converter
    from budgetfrontier.core.model import Tally
    from budgetfrontier.reports import crawl_log
    from budgetfrontier.reports.format import counted
    from budgetfrontier.reports.operators import refuse_if_terminated
    from budgetfrontier.reports.totals import refused_in

    with common.job_operator(args) as operator:
        refuse_if_terminated(operator, "schedule")
    log = args.log or args.job / "logs" / "crawl.log"
    since = _last_revival(args) if args.since is None else args.since
    lines = crawl_log.last_with(log, args.status, since=since)
    if args.dry_run:
        say(f"would revive {counted(sum(1 for _ in lines), 'URI')}")
        note_dry_run()
        return
    tally, to_tally, effects = Tally(), converter(Tally), dict[int, dict[str, Any]]()
    with common.job_operator(args) as operator, noting_continued(operator) as own:
        operator.close()  # a process cannot read and write one LMDB environment at once
        for entry in _revived(args, _chunks(lines)):
            own.append(entry.id)
            effects[entry.id] = entry.effect
    for effect in effects.values():
        tally.add(to_tally(effect))
    left = [text for name, text in refused_in(tally).items() if getattr(tally, name)]
    say(", ".join([f"revived {counted(tally.added, 'URI')}", *left]))
    if not (tally.added + tally.full + tally.invalid) and since and args.since is None:
        note(f"only lines after {since} count, which was revived last; --since '' takes all")
    if tally.added:
        common.note_if_stopped(args)


def _last_revival(args: argparse.Namespace) -> str:
    """Return how far in the log the last revival of this status came, or will come; "" if there was none."""
    from budgetfrontier.storage.reader import Reader

    path = common.frontier_path(args.job)
    with Reader(path) as reader:
        for command in _not_applied(path, reader):
            if command.op == "schedule" and command.args.get("revived") == args.status:
                return str(command.args.get("upto", ""))
        with reader.view() as view:
            for entry in view.newest_commands():
                if entry.command == "schedule" and entry.args.get("revived") == args.status and not entry.error:
                    return str(entry.args.get("upto", ""))
    return ""


def _not_applied(path: Path, reader: Reader) -> Iterator[Command | StartedCommand]:
    """Yield the commands that an interrupted call left in the mailbox, newest first, then the command in progress.

    In this order, a command that an engine applies meanwhile is not missed. Without write access to the mailbox, its
    commands are left out.
    """
    from budgetfrontier.engine.commands.mailbox import Mailbox

    with reader.view() as view:
        applied = view.counters().command
    if os.access(path / "mailbox" / "data.mdb", os.W_OK):
        mailbox = Mailbox(path)
        try:
            waiting = mailbox.waiting(applied)
        finally:
            mailbox.close()
        yield from (command for _, command in reversed(waiting))
    begun = reader.in_progress()
    if begun is not None:
        yield begun[0]


def _chunks(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """Yield chunks of CHUNK lines, or some more.

    Lines of the same time are not split: the next revival starts after a time.
    """
    chunk: list[Line] = []
    for line in lines:
        if len(chunk) >= CHUNK and line.time != chunk[-1].time:
            yield chunk
            chunk = []
        chunk.append(line)
    if chunk:
        yield chunk


def _revived(args: argparse.Namespace, chunks: Iterator[list[Line]]) -> Iterator[AuditEntry]:
    """Apply each chunk as one atomic command, to the frontier directly or through a running engine's mailbox.

    Each continues the audit entry of the one before.
    """
    from budgetfrontier.engine.commands.mailbox import Command
    from budgetfrontier.engine.frontier import Frontier
    from budgetfrontier.engine.remote import whoami
    from budgetfrontier.errors import FrontierLocked
    from budgetfrontier.tools.cli.submission import continuing

    commands = (_arguments(args.status, chunk) for chunk in chunks)
    who, last = args.who or whoami(), None
    try:
        path, program = common.frontier_path(args.job), "budgetfrontier revive"
        frontier = Frontier.open(path, keep_leases=True, program=program, disks=None)
    except FrontierLocked:
        for arguments in commands:
            last = common.steer(args, "schedule", arguments | continuing(last), patiently=True)
            yield last
        return
    with frontier:
        for arguments in commands:
            last = frontier.internals.apply(Command("schedule", arguments | continuing(last), who, args.reason))
            yield last


def _arguments(status: str, chunk: list[Line]) -> dict[str, Any]:
    from budgetfrontier.tools.importers import lists

    return {"uris": [lists.fields(line.uri) for line in chunk], "revived": status, "upto": chunk[-1].time}
