"""Commands that change a crawl, running or stopped. Each is recorded in the audit."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.effect_words import entry_in_words
from budgetfrontier.core.vocabulary import CrawlState
from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.cli import adjustments, common, effects, for_good, name_arguments, output
from budgetfrontier.tools.cli.common import Commands, add_command, add_job, add_who
from budgetfrontier.tools.cli.exits import ERROR, OK
from budgetfrontier.tools.cli.on_crawl import command_of, noting_continued, on_crawl
from budgetfrontier.tools.cli.parser import Parser
from budgetfrontier.tools.cli.sentences import asks, note, say, tell_end

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import Applied, CrawlOperator
    from budgetfrontier.settings.overrides import Override

QUEUE_COMMANDS = {
    "retire": (
        "retire a queue by name, or those that match",
        "It keeps its URIs and hands none out until `unretire`, whatever its budgets.",
    ),
    "unretire": (
        "bring a retired queue back, or those that match",
        "It waits at the back of its FIFO; still over budget, it retires again.",
    ),
    "snooze": (
        "let nothing out of a queue, or of those that match, until a time",
        "The block survives restarts; `wake` ends it.",
    ),
    "wake": (
        "end the wait of a queue, or of those that match, now",
        "Ends its politeness delay too, and the wait of its group if it has one.",
    ),
}
CRAWL_COMMANDS = {
    "pause": (
        "hand out nothing more",
        "What is out may be finished. Scheduling and adjusting go on; `resume` ends it.",
    ),
    "resume": ("go on after a pause", "A crawl that is still empty pauses, or finishes, again."),
    "terminate": (
        "end the crawl for good",
        "What is out may still be finished; no URI is handed out ever again, and no command undoes it.",
    ),
}


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    _register_adjust(commands)
    for name, (summary, more) in QUEUE_COMMANDS.items():
        parser = add_command(commands, name, on_crawl(partial(_steer_queue, name)), summary, more=more)
        add_job(parser, cluster=True)
        _add_queues(parser)
        if name == "snooze":
            when = parser.add_mutually_exclusive_group(required=True)
            when.add_argument(
                "--for", dest="until", type=_from_now, metavar="DURATION", help="such as 90, 15m, 1h30m, 2d"
            )
            when.add_argument(
                "--until", type=_moment, metavar="TIME", help="ISO 8601 (default zone: UTC) or epoch seconds"
            )
        add_who(parser)
        parser.set_defaults(usage=parser.error)
    _register_set_queue(commands)
    _register_delete(commands)
    parser = add_command(
        commands,
        "undo",
        on_crawl(undo),
        "undo a command by its audit entry",
        more="For adjust, adjust --remove, retire, unretire, snooze, wake, set-queue, pause, resume, undo of these, "
        "delete, dead-letters --drop, forget, and the import of dead letters (bury). What was deleted returns to its "
        "place in its queue, with its attempts counted; until then it takes space in the frontier. Dead letters that "
        "were imported are dropped, their URLs are no longer known, and an undo of the undo brings them back. It is "
        "refused if something has changed since, unless with --force.",
    )
    add_job(parser, cluster=True)
    parser.add_argument("entry", metavar="AUDIT_ID", type=_audit_id, help="the id that `audit JOB` shows")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--force", action="store_true", help="also if what it changed has been changed again")
    how.add_argument(
        "--discard", action="store_true",
        help="instead of undoing the command, remove for good the records that are kept for that; see also `removed`",
    )  # fmt: skip
    parser.add_argument(
        "--list", action="store_true",
        help="all adjustments of the list that the entry is one of, as `adjust --file` gave it, or none of them",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="only print what it would do, or why it is refused")
    parser.set_defaults(usage=parser.error)
    add_who(parser)
    for name, (summary, more) in CRAWL_COMMANDS.items():
        parser = add_command(commands, name, on_crawl(partial(_steer_crawl, name)), summary, more=more)
        add_job(parser, cluster=True)
        if name == "terminate":
            parser.add_argument("--yes", action="store_true", help="do not ask on a terminal whether it is meant")
        add_who(parser)


def _add_queues(parser: Parser) -> None:
    """Add the arguments that name a queue, or select queues."""
    parser.add_argument(
        "key", metavar="KEY", nargs="?", help="the queue's key, such as example.org, unless queues are selected"
    )
    parser.may_follow = "key"
    common.add_selection(parser)
    parser.add_argument("--dry-run", action="store_true", help="only print what would change")


def _register_set_queue(commands: Commands) -> None:
    parser = add_command(
        commands,
        "set-queue",
        on_crawl(partial(_steer_queue, "set_queue")),
        "set the interval of queues, or the number of their URLs to complete",
        more="For frontiers that keep their URLs (`frontier.keep_urls`), as those of `serve` do. `adjust` sets "
        "budgets, and other settings of queues that match.",
    )
    add_job(parser, cluster=True)
    _add_queues(parser)
    parser.add_argument(
        "--interval", type=common.duration, default=None, metavar="DURATION",
        help="the least time between two leases of the queue; 0: none",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=common.whole, default=None, metavar="N",
        help="retire the queue once so many of its URLs are completed; 0: no limit",
    )  # fmt: skip
    parser.set_defaults(usage=parser.error)
    add_who(parser)


def _register_adjust(commands: Commands) -> None:
    parser = add_command(
        commands,
        "adjust",
        on_crawl(adjust),
        "change budgets and other settings, for all queues or for those that match",
        more="The change is appended to the overrides. Every retired queue is reconsidered, except those retired by "
        "name. Each adjustment has an id, that of its audit entry.",
    )
    add_job(parser, cluster=True)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--match", default="*", metavar="PATTERN",
        help="domain:, host:, queue:, queues:, label:, surt:, regex: or group:, as in overrides (default: *, all)",
    )  # fmt: skip
    chosen.add_argument(
        "--queues",
        metavar="KEY,KEY...",
        help="short for --match queues:KEY,KEY...: these queues; keys with a comma as a JSON list",
    )
    parser.add_argument(
        "--set", action="append", default=[], type=assignment, metavar="NAME=VALUE", dest="settings",
        help="any setting that overrides may set, with a YAML value, repeatable: politeness.min_delay=3s",
    )  # fmt: skip
    parser.add_argument("--total-budget", type=common.whole, metavar="N", help="short for --set queue_total_budget=N")
    parser.add_argument(
        "--replenish", type=common.whole, metavar="N", help="short for --set balance_replenish_amount=N"
    )
    other = parser.add_mutually_exclusive_group()
    other.add_argument(
        "--file", dest="adjustment_file", type=Path, metavar="FILE",
        help="apply a YAML list of {match, set, reason}, perhaps a gzip: all of them, or none if one is wrong",
    )  # fmt: skip
    other.add_argument("--list", action="store_true", help="list the adjustments in force, the first to apply first")
    other.add_argument(
        "--remove", type=_adjustment, metavar="ID",
        help="withdraw this adjustment; what it had replaced does not come back",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="only print what would change, for which queues")
    common.add_format(parser)
    add_who(parser)
    parser.set_defaults(usage=parser.error)


def _register_delete(commands: Commands) -> None:
    parser = add_command(
        commands,
        "delete",
        on_crawl(delete),
        "delete pending URIs by queue, state, pattern, or all of these",
        more="They still count as seen, and leased ones can be finished. --match is tested on each URI. They are "
        "kept in the frontier for `undo`: about the bytes of their paths, and 25 for each.",
    )
    add_job(parser, cluster=True)
    parser.add_argument("--queue", metavar="GLOB", help="only in queues whose key matches, such as *.example.org")
    parser.add_argument(
        "--pattern", metavar="REGEX", help="only URIs in which this is found (Python's re), such as /calendar/"
    )
    common.add_selection(parser, of_uris=True)
    parser.add_argument("--dry-run", action="store_true", help="only count them, and change nothing")
    for_good.add_for_good(parser)
    add_who(parser)
    parser.set_defaults(usage=parser.error)


def give(
    args: argparse.Namespace, operator: CrawlOperator, op: str, details: dict[str, Any], *, reason: str = ""
) -> tuple[Applied, int]:
    """Give a command to a crawl; return the result, and the exit code: ERROR unless it is done everywhere.

    Without a `reason`, it is given for that in `args`.
    """
    args.steered = op not in CRAWL_COMMANDS  # `_steer_crawl` tells what they do in a crawl that was terminated
    with noting_continued(operator) as own, common.noting_interruption(args):
        applied = operator.apply(command_of(args, op, details, reason))
        own += [] if applied.entry is None else [applied.entry.id]
    for sentence in filter(None, (applied.left, applied.refused)):
        note(sentence)
    return applied, ERROR if applied.left or applied.refused else OK


def delete(args: argparse.Namespace, operator: CrawlOperator) -> int:
    """Delete pending URIs; with --dry-run, only count them."""
    from budgetfrontier.settings.matching import may_select_several

    details = _details_of_deletion(args)
    if args.queue is not None and not may_select_several(args.queue):
        operator.key_of(args.queue)
    if args.dry_run:
        effect = operator.dry_run("delete", details)
        _note_no_queue(args, operator, effect)
        effects.tell_deletion_preview(effect, operator.head().totals)
        return OK
    applied, code = give(args, operator, "delete", details | for_good.details(args))
    if applied.entry is not None:
        effects.tell_deletion(applied.entry.effect)
        _note_no_queue(args, operator, applied.entry.effect)
        for_good.note_kept(operator, applied.entry)
    return code


def _details_of_deletion(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a deletion as the engine takes them."""
    given = [args.queue, args.pattern, args.match, args.queues]
    if not (any(given) or args.state) or "" in given:  # an empty variable of a script must not delete everything
        args.usage("give --queue GLOB, --pattern REGEX, --match, --queues or --state, and none of them empty")
    return {"queue": args.queue, "pattern": args.pattern} | (common.selected(args) or {})


def _note_no_queue(args: argparse.Namespace, operator: CrawlOperator, effect: dict[str, Any]) -> None:
    """Say that a glob matches no queue, if nothing was deleted for that."""
    from budgetfrontier.reports.format import clean
    from budgetfrontier.settings.matching import may_select_several, selects

    if effect["deleted"]:
        return
    if args.queue is None:
        note("no pending URI is selected")
    elif may_select_several(args.queue):
        with operator.scan() as (_, queues):
            found = any(selects(args.queue, queue.queue) for queue in queues)
        if not found and not operator.missing:
            note(f"no queue matches {clean(args.queue)}")


def adjust(args: argparse.Namespace, operator: CrawlOperator) -> int:
    """Apply an adjustment, or withdraw one; with --dry-run, print the effect that this would have."""
    override = _read_adjustment(args)
    if args.adjustment_file is not None:
        from budgetfrontier.tools.cli import adjustment_list

        return adjustment_list.apply(args, operator, give)
    if args.list:
        adjustments.write_list(args, operator.adjustments())
        return OK
    op = "withdraw" if override is None else "adjust"
    details = {"id": args.remove} if override is None else {"match": override.match, "set": override.set}
    match = override.match if override is not None else adjustments.match_of(operator, args.remove)
    adjustments.announce(operator, match)
    if args.dry_run:
        effect = operator.dry_run(op, details)
        adjustments.print_effect(args, match, details, effect | output.missing_partitions(operator))
        return OK
    applied, code = give(args, operator, op, details)
    if applied.entry is not None:
        effect = applied.entry.effect
        if op == "adjust" and effect["matched"] == 0 and code == OK:
            adjustments.note_no_match(match)
        named = {"id": applied.entry.id} if op == "adjust" else {}
        adjustments.print_effect(args, match, details, named | effect | output.missing_partitions(operator))
    elif args.format == common.JSON:
        adjustments.print_json(args, details, output.missing_partitions(operator))
    return code


def _read_adjustment(args: argparse.Namespace) -> Override | None:
    """Return the override that the arguments of `adjust` ask for; None with --file, --list and --remove."""
    from budgetfrontier.settings.overrides import validate_override

    settings = given_settings(args, queue_total_budget=args.total_budget, balance_replenish_amount=args.replenish)
    if args.list or args.remove is not None or args.adjustment_file is not None:
        if settings or args.match != "*" or args.queues is not None:
            args.usage("--file, --list and --remove are given without a pattern and settings")
        return None
    if not settings:
        args.usage("nothing to change: give --set NAME=VALUE, --total-budget N or --replenish N")
    if args.format == "csv":
        args.usage("csv is for --list")
    match = args.match if args.queues is None else f"queues:{args.queues}"
    warnings: list[str] = []  # validate here, so that errors do not have to come back from a running engine
    override = validate_override(match, settings, folder=Path(), warnings=warnings)
    common.warn(warnings)
    return override


def undo(args: argparse.Namespace, operator: CrawlOperator) -> int:
    """Undo a command; with --dry-run, print the effect that this would have.

    If any value that it has changed was changed since, in any partition, it is refused, unless with --force.
    """
    if operator.path is not None and not isinstance(args.entry, int):
        args.usage(f"{args.entry} is an id of a crawl in partitions; those of a job are numbers")
    details = {"id": args.entry, "force": args.force} | ({"list": True} if args.list else {})
    if args.discard:
        if args.list:
            args.usage("--list is for undo: an adjustment keeps nothing that could be discarded")
        return _discard(args, operator)
    if args.dry_run:
        effects.tell_undo_preview(operator.dry_run("undo", details))
        return OK
    applied, code = give(args, operator, "undo", details)
    if applied.entry is not None:
        effects.tell_undo(args.entry, applied.entry.effect)
        _note_end(operator)
        for_good.note_kept(operator, applied.entry)
    return code


def _discard(args: argparse.Namespace, operator: CrawlOperator) -> int:
    """Remove what a command has kept for its undo; with --dry-run, print how much that is."""
    if args.dry_run:
        effect = operator.dry_run("discard", {"id": args.entry})
        which = entry_in_words(args.entry, effect["command"])
        say(f"would discard {effect['bytes']:,} bytes that {which}, has kept")
        return OK
    applied, code = give(args, operator, "discard", {"id": args.entry})
    if applied.entry is not None:
        effect = applied.entry.effect
        say(f"discarded {effect['bytes']:,} bytes that {entry_in_words(args.entry, effect['command'])}, had kept")
    return code


def _steer_queue(op: str, args: argparse.Namespace, operator: CrawlOperator) -> int:
    details = _pace(args) if op == "set_queue" else {"until": args.until} if op == "snooze" else {}
    chosen = common.selected(args)
    if (args.key is None) == (chosen is None):
        args.usage("give the KEY of a queue, or select queues with --match, --queues and --state")
    if chosen is None:
        args.key = operator.key_of(args.key)
        details["queue"] = args.key
    else:
        details |= chosen
        adjustments.announce(operator, details["match"])
    if args.dry_run:
        effect = operator.dry_run(op, details)
        effects.tell_queues(op, args, details, effect)
        name_arguments.note_unknown(operator, details.get("match"))
        if op == "wake":
            _note_closed(operator, args.key)
        tell_end(effect)
        return OK
    applied, code = give(args, operator, op, details)
    if applied.entry is not None:
        effects.tell_queues(op, args, details, applied.entry.effect)
        name_arguments.note_unknown(operator, details.get("match"))
        _note_end(operator)
        if op == "wake":
            _note_closed(operator, args.key)
        for_good.note_kept(operator, applied.entry)
    return code


def _note_closed(operator: CrawlOperator, key: str | None) -> None:
    """Print that the crawl windows of a queue that was woken are closed; without a key, that all of the crawl are."""
    from budgetfrontier.rules.verdict import closed_sentence

    if key is not None:
        told = [one.text for one in operator.explain(key).reasons if one.code in ("closed", "crawl-closed")]
    else:
        standing = operator.head().standing
        told = [closed_sentence(standing)] if standing.closed_until > standing.now else []
    for text in told[:1]:
        note(text)


def _note_end(operator: CrawlOperator) -> None:
    """Print that a job is paused at its finish, as it may be by a command on its queues."""
    from budgetfrontier.rules.crawl_states import FINISH

    if operator.path is None or (head := operator.head()).pause_reason != FINISH:
        return
    if head.totals.queued or head.totals.future > head.standing.held_future:
        note("the crawl is paused at its finish: its next start, or `budgetfrontier resume`, goes on with what waits")
    else:
        note("the crawl is paused at its finish, and `crawl` ends then; `budgetfrontier report` says how to go on")


def _pace(args: argparse.Namespace) -> dict[str, Any]:
    """Return the interval and the limit that `set-queue` sets."""
    chosen = {"interval": args.interval, "max_completed": args.limit}
    details = {name: value for name, value in chosen.items() if value is not None}
    if not details:
        args.usage("give --interval, --limit, or both")
    return details


def _confirm_end(op: str, args: argparse.Namespace) -> None:
    """Ask on a terminal whether a crawl is to end for good. Raises FrontierError unless the answer is yes."""
    if op == "terminate" and not args.yes and asks():
        answer = input(f"{args.job or args.cluster}: end this crawl for good? No command undoes it. [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            raise FrontierError("nothing was changed: `pause` stops the crawl so that it can go on")


def _steer_crawl(op: str, args: argparse.Namespace, operator: CrawlOperator) -> int:
    from budgetfrontier.reports.format import counted
    from budgetfrontier.reports.operators import terminated
    from budgetfrontier.rules.crawl_states import FINISH

    _confirm_end(op, args)
    applied, code = give(args, operator, op, {"reason": args.reason or "operator"} if op == "pause" else {})
    changes = Counter((one["before"]["state"], one["after"]["state"]) for one in applied.effects)
    for (before, after), count in changes.most_common():
        say(f"{before} -> {after}" + (f": {counted(count, 'partition')}" if len(changes) > 1 else ""))
    if any(before == CrawlState.TERMINATED for before, _ in changes):
        note(terminated(operator))
        return code if op == "terminate" else ERROR
    if op == "resume" and any(one["after"]["pause_reason"] == FINISH for one in applied.effects):
        note(
            "still at its finish: no queue has a URI to hand out but those that are RETIRED or INELIGIBLE; "
            "`budgetfrontier report` says what brings these back"
        )
    if op == "resume":
        if sentence := operator.stopped() or operator.used_up():
            note(sentence)
        _note_closed(operator, None)
        for effect in applied.effects[:1]:
            effects.note_disk(effect)
    return code


def _audit_id(text: str) -> int | str:
    """Parse the id of an audit entry: a number, or as `entry_names` has them in a crawl in partitions."""
    try:
        return text if "/" in text or len(text) == 2 * 8 else int(text)
    except ValueError:
        raise common.wrong("the id of an entry, as `audit` lists it", text) from None


def _adjustment(text: str) -> int | str:
    """Parse the id of an adjustment: a number, or 16 hexadecimal digits of a crawl in partitions."""
    try:
        return text if len(text) == 2 * 8 else int(text)
    except ValueError:
        raise common.wrong("the id of an adjustment, which is that of its entry in `audit`", text) from None


def given_settings(args: argparse.Namespace, **short: Any) -> dict[str, Any]:
    """Return the settings of --set, and those of the options that are `short` for one; each is given once."""
    from budgetfrontier.settings.names import field_name, per_uri

    settings: dict[str, Any] = {}
    for name, value in [*args.settings, *((name, value) for name, value in short.items() if value is not None)]:
        if (name := field_name(name, per_uri())) in settings:
            args.usage(f"{name} is set twice: give each setting once")
        settings[name] = value
    return settings


def assignment(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE, a setting and its YAML value."""
    from budgetfrontier.settings.values import plain

    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    if value and value.isascii() and value.replace("-", "").replace(".", "").isalnum() and value[0] not in "-.":
        return name.strip(), plain(value)  # most values; avoids importing YAML
    from budgetfrontier.errors import SettingsError
    from budgetfrontier.settings.loader import parse_value

    try:
        return name.strip(), parse_value(value)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _from_now(text: str) -> float:
    from budgetfrontier.settings.values import DURATION, read_duration

    try:
        return time.time() + read_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected {DURATION.text}, got {error}") from None


def _moment(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise common.wrong("a time in ISO 8601, such as 2026-07-01T12:00Z, or epoch seconds", text) from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
