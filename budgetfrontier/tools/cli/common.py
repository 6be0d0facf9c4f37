"""Arguments and helpers that several commands share: the job, listings, who changes something and why."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from heapq import nlargest, nsmallest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.endpoints import addresses
from budgetfrontier.core.vocabulary import QueueState
from budgetfrontier.errors import FrontierError, NotAFrontier, WrongCredentials
from budgetfrontier.tools.cli.parser import Parser, common_options
from budgetfrontier.tools.cli.sentences import note

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import Selection
    from budgetfrontier.settings import Settings
    from budgetfrontier.storage.records import AuditEntry
    from budgetfrontier.tools.job_operator import JobOperator

Commands = Any  # what add_subparsers() returns; argparse has no public name for it
Command = Callable[[argparse.Namespace], int | None]

ANSWER_TIMEOUT = 10.0
"""Seconds that a command waits for a running engine to apply it."""

ASCENDING = frozenset(
    (
        "queue",
        "state",
        "precedence",
        "wake_time",
        "last_enqueued",
        "last_leased",
        "last_lease_time",
        "url",
        "deadline",
        "began",
    )
)
"""Columns that are sorted in ascending order; all others, amounts, in descending order."""


def add_command(commands: Commands, name: str, run: Command, summary: str, *, more: str = "") -> Parser:
    """Add a command: `summary` is for the list of commands, `summary` and `more` for its own help."""
    description = summary[0].upper() + summary[1:] + "." + (f" {more}" if more else "")
    parser: Parser = commands.add_parser(name, help=summary, description=description)
    parser.set_defaults(run=run, parser=parser)
    return parser


def job_operator(args: argparse.Namespace) -> JobOperator:
    """Return the job of a command, to be closed."""
    from budgetfrontier.tools.job_operator import JobOperator

    several = getattr(args, "adjustment_file", None) is not None  # commands, each of which is waited for
    return JobOperator(args.job, frontier_path(args.job), timeout=None if several else ANSWER_TIMEOUT)


class ClusterUrl(str):
    """A crawl in partitions in the place of a JOB: its URL, kafka://HOST:PORT/CRAWL."""

    __slots__ = ()


def add_job(parser: argparse.ArgumentParser, *, cluster: bool = False) -> None:
    """Add the argument JOB, and with `cluster` the options for a crawl in partitions, which may stand for it."""
    parser.add_argument("job", metavar="JOB", type=job, help="the job's folder (its frontier is in JOB/frontier)")
    if cluster:
        add_cluster(parser)


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the options for a crawl in partitions. The parser takes the value of --cluster for JOB."""
    group = common_options(parser)
    group.add_argument(
        "--cluster",
        metavar="URL",
        help="instead of JOB, a crawl in partitions: kafka://HOST:PORT,.../CRAWL, its brokers and its name",
    )
    group.add_argument(
        "--token-file", type=Path, default=None, metavar="FILE",
        help="a file with the token of the workers (default: the environment variable BUDGETFRONTIER_TOKEN)",
    )  # fmt: skip
    group.add_argument(
        "--tls-ca", default=None, metavar="FILE",
        help="the workers have TLS, and this file the certificates that sign theirs; `system`: those that the system "
        "trusts",
    )  # fmt: skip
    parser.set_defaults(cluster_only=("token_file", "tls_ca"))


def add_config(parser: argparse.ArgumentParser, help: str) -> None:
    """Add the option --config, for the settings of the workers of a crawl in partitions."""
    parser.add_argument("--config", type=Path, default=None, metavar="FILE", help=help)


def settings_of_workers(args: argparse.Namespace, why: str) -> Settings:
    """Return `crawl`, `cluster` and `alerts` in --config, which are of the crawl in partitions that `args.job` names.

    Other settings have to be right where the workers are: what is wrong with them here, such as a policy that is not
    installed, is a warning. `why` says in the error without the option what the settings are for. Raises FrontierError
    for another crawl.
    """
    from budgetfrontier.connections import crawl_at

    if args.config is None:
        args.parser.error(why)
    settings = read_settings(args.config, only=("crawl", "cluster", "alerts"))
    crawl_at(args.job, settings.crawl)
    return settings


JSON = "json"
"""The value of --log-format for logs that programs read."""


@contextmanager
def naming_options(options: Mapping[str, str]) -> Iterator[None]:
    """Name the options of a command, in place of a client's, in the errors of a block about token, TLS or address."""
    try:
        yield
    except WrongCredentials as error:
        raise FrontierError(error.on_command_line(options)) from None


def job(text: str) -> Path | ClusterUrl:
    """Parse the argument JOB: a folder, or the URL of a crawl in partitions."""
    return ClusterUrl(text) if text.startswith("kafka://") else Path(text)


def add_who(parser: argparse.ArgumentParser) -> None:
    """Add the options --reason and --who of commands that change something; both are stored in the audit."""
    group = common_options(parser)
    group.add_argument("--reason", default="", metavar="TEXT", help="why, for the audit")
    group.add_argument("--who", default=None, metavar="NAME", help="who asks, for the audit (default: your login name)")


def add_format(parser: argparse.ArgumentParser, *extra: str) -> None:
    """Add the options --format and --wide."""
    group = common_options(parser)
    group.add_argument(
        "--format", choices=("text", "json", "csv", *extra), default="text", help="how to print it (default: text)"
    )
    group.add_argument(
        "--wide", action="store_true",
        help="text: all columns, values in full and exact numbers, however wide the terminal is",
    )  # fmt: skip


def add_page(parser: argparse.ArgumentParser, *, rows: str = "first") -> None:
    """Add the options --limit and --offset; `rows`: which ones --offset skips."""
    group = common_options(parser)
    which = "" if rows == "first" else f"the {rows} "
    group.add_argument(
        "--limit", type=most, default=None, metavar="N", help=f"print at most {which}N rows (default, and 0: all)"
    )
    group.add_argument("--offset", type=count, default=0, metavar="N", help=f"skip the {rows} N rows (default: 0)")


def several_commands() -> list[argparse.Action]:
    """Return the options that several commands have, for the help of the program."""
    parser = Parser(add_help=False)
    for add in (add_format, add_page, add_who, add_cluster):
        add(parser)
    return common_options(parser)._group_actions


def add_queue_filter(parser: argparse.ArgumentParser) -> None:
    """Add the options --state and --match, which select queues of a listing."""
    _add_state(parser)
    add_match(parser)


def add_match(parser: argparse.ArgumentParser) -> None:
    """Add the option --match, which selects queues of a listing."""
    parser.add_argument(
        "--match",
        metavar="PATTERN",
        help="only queues that match: a glob on the queue key (*.example.org), or as in overrides domain:, host:, "
        "queue:, surt:, regex: (tested on the URI last placed there)",
    )


def _add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state",
        action="append",
        type=lambda text: text.upper().replace("-", "_"),
        choices=[str(state) for state in QueueState],
        metavar="STATE",
        help=f"only queues in this state, repeatable: {', '.join(QueueState)}",
    )


def add_selection(parser: argparse.ArgumentParser, *, of_uris: bool = False) -> None:
    """Add the options --match, --queues and --state, by which commands select queues, or URIs with `of_uris`."""
    what, tested = ("only URIs", "") if of_uris else ("all queues", ", tested on the next URI")
    parser.add_argument(
        "--match", metavar="PATTERN",
        help=f"{what} that match: a glob on the queue key (*.example.org), or as in `adjust` domain:, host:, queue:, "
        f"queues:, label:, surt:, regex:{tested} or group:",
    )  # fmt: skip
    parser.add_argument(
        "--queues",
        metavar="KEY,KEY...",
        help="short for --match queues:KEY,KEY...: these queues; keys with a comma as a JSON list",
    )
    _add_state(parser)


def selected(args: argparse.Namespace) -> dict[str, Any] | None:
    """Return the arguments by which a command selects queues; None without --match, --queues and --state."""
    from budgetfrontier.settings.matching import with_kind

    if args.match is not None and args.queues is not None:
        args.parser.error("--queues is short for --match: give one of them")
    match = args.match if args.queues is None else f"queues:{args.queues}"
    if match is None and not args.state:
        return None
    states = {"states": list(dict.fromkeys(args.state))} if args.state else {}
    return {"match": "*" if match is None else with_kind(match), **states}


def add_listing(parser: argparse.ArgumentParser, *, columns: Sequence[str], sort: str) -> None:
    """Add all options of a listing: --format, --sort, --reverse, --limit, --offset."""
    add_format(parser)
    parser.add_argument(
        "--sort",
        choices=columns,
        type=_column(columns),
        default=sort,
        metavar="COLUMN",
        help=f"order by this column, amounts from the largest (default: {sort}): {', '.join(columns)}",
    )
    parser.add_argument("--reverse", action="store_true", help="reverse the order")
    add_page(parser)


def _column(columns: Sequence[str]) -> Callable[[str], str]:
    """Return the parser of a column's name, which takes the short one in the head of a listing, too."""

    def column(text: str) -> str:
        from budgetfrontier.reports.layout import HEADS

        return next((name for name in columns if text not in columns and HEADS.get(name) == text), text)

    return column


def wrong(expected: str, text: str) -> argparse.ArgumentTypeError:
    """Return the error for an argument other than expected."""
    from budgetfrontier.settings.values import show

    return argparse.ArgumentTypeError(f"expected {expected}, got {show(text)}")


def whole(text: str, least: int | None = None, most: int | None = None) -> int:
    """Parse an argument that is a whole number, of at least `least` and at most `most`."""
    try:
        value = int(text)
    except ValueError:
        raise wrong("a whole number", text) from None
    if least is not None and value < least:
        raise argparse.ArgumentTypeError(f"{value} is less than {least}")
    if most is not None and value > most:
        raise argparse.ArgumentTypeError(f"{value} is more than {most}")
    return value


def count(text: str) -> int:
    """Parse an argument that is a whole number of at least 0, and at most that of a setting."""
    from budgetfrontier.settings.values import LARGEST

    return whole(text, 0, LARGEST)


def most(text: str) -> int | None:
    """Parse the most rows to print; None for 0, which is all, as in the API and in settings."""
    return count(text) or None


def entry_id(text: str) -> int | str:
    """Parse the id of an entry of the audit: a number, or as `entry_names` has them in a crawl in partitions."""
    try:
        return text if "/" in text or len(text) == 2 * 8 else int(text)
    except ValueError:
        raise wrong("the id of an entry, as `audit` lists it", text) from None


def duration(text: str) -> float:
    """Parse an argument that is a duration, such as 10m, to seconds."""
    from budgetfrontier.settings.values import DURATION, read_duration

    try:
        return read_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected {DURATION.text}, got {error}") from None


def address(text: str, *, any_port: bool = True) -> str:
    """Parse an argument that is an address at which to listen: with `any_port`, the port may be 0."""
    try:
        return addresses.checked(text, any_port=any_port)
    except FrontierError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def reachable_address(text: str) -> str:
    """Parse an argument that is an address at which others reach a server, of which the port is known."""
    return address(text, any_port=False)


def moment_or_age(text: str) -> float:
    """Parse an argument that is a time, in ISO 8601 (default zone: UTC), or an age such as 2h, to epoch seconds."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        from budgetfrontier.core.units import parse_duration

        try:
            return time.time() - parse_duration(text)
        except ValueError:
            raise wrong("a time in ISO 8601, such as 2026-07-01T12:00Z, or an age, such as 2h or 3d", text) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def frontier_path(job: Path) -> Path:
    """Return the folder of a job's frontier: JOB/frontier, or JOB itself. Raises NotAFrontier if there is none."""
    for path in (job / "frontier", job):
        if (path / "data.mdb").is_file():
            return path
    if not job.is_dir():
        command = shlex.join(("budgetfrontier", "crawl", "CONFIG", "--job", str(job)))
        raise NotAFrontier(f"{job}: there is no such folder; `{command}` creates one")
    raise NotAFrontier(f"{job}: there is no frontier here; name a job's folder, the one with `frontier` in it")


def again(words: Sequence[str], settings: Settings) -> str:
    """Return a command for a shell, with PYTHONPATH as it is here if the settings name modules of the user's own."""
    from budgetfrontier.settings.plugins import is_own

    line, path = shlex.join(words), os.environ.get("PYTHONPATH")
    policies = {name: getattr(settings.frontier, name) for name in settings.frontier.__struct_fields__}
    every = [policies, *(override.set for override in settings.overrides), *settings.sheets.values()]
    own = any(is_own(spec) for each in every for name, spec in each.items() if name.endswith("_policy"))
    return (
        f"PYTHONPATH={shlex.quote(path)} {line}" if path and (own or settings.hooks or settings.output.sinks) else line
    )


def folder_name(name: str) -> str:
    """Return the name of a crawl as that of a folder.

    >>> folder_name("news 2026/11")
    'news-2026-11'
    """
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "crawl"


def steer(args: argparse.Namespace, op: str, details: dict[str, Any], *, patiently: bool = False) -> AuditEntry:
    """Apply a command to the job, running or stopped. `patiently`: wait for the result as long as an engine runs."""
    from budgetfrontier.engine.remote import steer as ask

    with noting_interruption(args):
        return ask(
            frontier_path(args.job),
            op,
            details,
            who=args.who,
            reason=args.reason,
            timeout=None if patiently else ANSWER_TIMEOUT,
            line=getattr(args, "line", ""),
        )


@contextmanager
def noting_interruption(args: argparse.Namespace) -> Iterator[None]:
    """Say how far a command of several steps has come if it is interrupted, since the rest of it will follow."""
    try:
        yield
    except KeyboardInterrupt:
        if not isinstance(args.job, ClusterUrl):
            with suppress(FrontierError), job_operator(args) as operator:
                if begun := operator.in_progress():
                    audit = shlex.join(("budgetfrontier", "audit", str(args.job)))
                    note(
                        f"interrupted: {begun}. Then `{audit}` has it, with the command that takes it back, if there "
                        "is one."
                    )
        raise


def no_match(args: argparse.Namespace) -> str:
    """Return the message for --state, --match and --group that select no queue."""
    from budgetfrontier.reports.format import clean
    from budgetfrontier.settings.matching import has_brackets

    group = getattr(args, "group", None)
    chosen = (
        args.match and f"{clean(args.match)}{' (brackets are no wildcards here)' * has_brackets(args.match)}",
        group and f"the group {clean(group)}",
        args.state and f"the state {' or '.join(args.state)}",
    )
    return f"no queue matches {' and '.join(filter(None, chosen))}" if any(chosen) else "there is no queue"


def selection(args: argparse.Namespace, *, over_budget: bool = False, raised: bool = False) -> Selection:
    """Return the queues that --state, --match and --group select; a match without a kind is a glob on the queue key."""
    from budgetfrontier.reports.operators import Selection

    states = [QueueState(state) for state in args.state] if args.state else None
    return Selection(states, args.match, over_budget, raised, getattr(args, "group", None))


def page(rows: Iterable[Any], args: argparse.Namespace, *, key: Callable[[Any], Any] | None = None) -> Iterable[Any]:
    """Return the rows selected by --limit and --offset, sorted by `key` in the direction of --sort and --reverse.

    Memory: with --limit, the rows printed and skipped; without it, all rows if they are sorted.
    """
    end = None if args.limit is None else args.offset + args.limit
    if key is not None:
        if end is None:
            rows = sorted(rows, key=key, reverse=is_descending(args))
        else:
            rows = (nlargest if is_descending(args) else nsmallest)(end, rows, key=key)
    return islice(rows, args.offset, end)


def write_rows(
    args: argparse.Namespace, rows: Iterable[Sequence[object]], columns: Sequence[str], *, drop: Sequence[str] = ()
) -> None:
    """Print a listing. On a terminal, columns of `drop` that have no room are left out, the first of them first."""
    from budgetfrontier.reports import listings
    from budgetfrontier.reports.layout import layout_for

    layout = layout_for(sys.stdout, wide=args.wide)
    left_out = listings.write(rows, columns, sys.stdout, format=args.format, layout=layout, drop=drop)
    if left_out:
        sys.stdout.flush()
        note(f"left out: {', '.join(left_out)}; --wide shows all")


def is_descending(args: argparse.Namespace) -> bool:
    """Return whether --sort and --reverse ask for descending order."""
    return (args.sort not in ASCENDING) is not args.reverse


def note_if_stopped(args: argparse.Namespace) -> None:
    """Print, if no process runs the job, that it is stopped, and the command that continues it."""
    with job_operator(args) as operator:
        if sentence := operator.stopped():
            note(sentence)


def read_settings(path: Path, *, only: Collection[str] = ()) -> Settings:
    """Load the settings of a YAML file; with `only` some sections, what is wrong in others is a warning.

    Print warnings to stderr, also when the file has errors. Raises SettingsError.
    """
    from budgetfrontier.errors import SettingsError
    from budgetfrontier.settings import Settings
    from budgetfrontier.settings.loader import load

    try:
        settings, warnings = load(path, Settings(), environment=os.environ, only=only)
    except SettingsError as error:
        warn(error.warnings)
        raise
    warn(warnings)
    return settings


def warn_of_adjustments(settings: Settings, job: Path) -> None:
    """Print a warning for each value of the settings that an adjustment of the job keeps from having an effect."""
    from budgetfrontier.settings.shadowing import shadowed
    from budgetfrontier.storage.reader import Reader

    try:
        with Reader(frontier_path(job)) as reader:
            adjustments = reader.adjustments
    except FrontierError:  # there is no job yet; errors of one are reported where it is opened
        return
    warn(shadowed(settings, adjustments, str(job)))


def warn(warnings: Iterable[str]) -> None:
    """Print warnings to stderr."""
    for warning in warnings:
        note(f"warning: {warning}")
