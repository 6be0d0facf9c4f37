"""Commands that change a crawl, running or stopped. Each is recorded in the audit."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.effect_words import entry_in_words
from budgetfrontier.core.vocabulary import CrawlState
from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.cli import adjustments, common, effects, for_good, name_arguments
from budgetfrontier.tools.cli.common import Commands, add_command, add_job, add_who
from budgetfrontier.tools.cli.exits import ERROR, OK
from budgetfrontier.tools.cli.on_crawl import give, on_crawl
from budgetfrontier.tools.cli.parser import Parser
from budgetfrontier.tools.cli.sentences import asks, note, say, tell_end

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import CrawlOperator

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
    parser.add_argument("entry", metavar="AUDIT_ID", type=common.entry_id, help="the id that `audit JOB` shows")
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


def _from_now(text: str) -> float:
    return time.time() + common.duration(text)


def _moment(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise common.wrong("a time in ISO 8601, such as 2026-07-01T12:00Z, or epoch seconds", text) from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
