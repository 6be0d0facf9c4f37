"""Commands that move URIs: `import`, `export`, `dead-letters`.

`tools.importers` reads the sources of an import; `importing` schedules their URIs and reports the results.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

from budgetfrontier.core.units import format_time
from budgetfrontier.core.vocabulary import SOURCE_KINDS
from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.cli import common, exits, for_good, name_arguments
from budgetfrontier.tools.cli.common import ClusterUrl, Commands, add_command, add_job, add_who
from budgetfrontier.tools.cli.on_crawl import give, on_crawl
from budgetfrontier.tools.cli.sentences import note, say

if TYPE_CHECKING:
    from budgetfrontier.cluster.operators.cluster_operator import ClusterOperator
    from budgetfrontier.core.model import CrawlUri, DeadLetter, QueueRecord
    from budgetfrontier.reports.operators import CrawlOperator, LetterId
    from budgetfrontier.storage.reader import Reader

FORMATS = ("urls", "jsonl", "heritrix")

DEAD_COLUMNS = ("id", "queue", "url", "reason", "time", "attempts", "deliveries", "cost", "via")
REASON_COLUMNS = ("reason", "letters", "queues", "url")
DEAD_SORT = "id"
DEAD_DROP = ("via", "cost", "deliveries", "queue", "attempts", "time")


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    _register_import(commands)
    _register_export(commands)
    _register_dead_letters(commands)


def _register_import(commands: Commands) -> None:
    parser = add_command(
        commands,
        "import",
        import_,
        "add URIs or seeds to a crawl, running or stopped",
        more="Reads lists (one URL a line, or JSON lines with the fields of a CrawlUri), a job folder or a "
        "frontier.recover.gz of Heritrix, a JOBDIR of Scrapy, a frontier folder of kumo and a disk queue of qcrawl; "
        "and from Redis, without changing anything there, the queues of scrapy-redis, kumo and qcrawl, and plain lists "
        "(extra `redis`; a password may be in REDISCLI_AUTH instead of the URL). "
        "The scope of the crawl does not apply to the URIs imported, but to their links. "
        "Prints how many were added, seen before (duplicate), refused for lack of room (full) or invalid, and why; the "
        "import continues after a bad record. Exits with 1 if a source has no URI, or could not be read to its end: "
        "then the part that could be read was imported. After Ctrl-C, or an error, the counts are those until then, "
        "and a message says how many URIs were sent last and are not counted.",
    )
    add_job(parser, cluster=True)
    parser.add_argument(
        "sources", metavar="SOURCE", nargs="+",
        help="files, folders, - for stdin (a list), redis:// or rediss://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE], or "
        "the URLs themselves (http://...)",
    )  # fmt: skip
    parser.add_argument(
        "--from", dest="kind", choices=SOURCE_KINDS, default=None, help="the format of the sources (default: detected)"
    )
    parser.add_argument(
        "--key", default=None,
        help="the queue in Redis: a spider (scrapy-redis), a queue key (kumo), a namespace (qcrawl), or the key of one "
        "list, set or sorted set (default: the only queue that is there)",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", action="store_true",
        help="import them as seeds: they are crawled before links, and the scope's "
        "seed-hosts and seed-domains include their hosts; in a list, label=, priority=, queue=, budget= and sheet= may "
        "follow a URL, each after a tab: budgets and sheets become adjustments of the queues of the seeds",
    )  # fmt: skip
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--force", action="store_true",
        help="schedule them even if they were seen before; with frontier.keep_urls, one that waits is replaced, and "
        "one that is leased is a duplicate",
    )  # fmt: skip
    mode.add_argument(
        "--seen", action="store_true", help="they were fetched elsewhere: mark them as seen, queue nothing"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="read all, and count what could be imported; change nothing"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="the format of the result")
    add_who(parser)


def _register_export(commands: Commands) -> None:
    parser = add_command(
        commands,
        "export",
        export,
        "write the pending URIs of all queues, and those scheduled for later, to a file",
        more="`import` reads it. Queues are written in the order of their turns, without budgets, states, seen URIs, "
        "numbers of attempts and dead letters: `backup` copies a whole frontier. FILE appears when it is complete; "
        "an export that was killed leaves FILE.*.partial, which the next export to FILE removes.",
    )
    add_job(parser)
    parser.add_argument("file", metavar="FILE", help="a new file, a gzip if its name ends in .gz; - for stdout")
    parser.add_argument(
        "--format", choices=FORMATS, default=None,
        help="jsonl: all fields, including costs and times; urls: a plain list of URLs; heritrix: a recovery "
        "journal with URLs, hops and via (default: by the name of FILE: *.jsonl, *recover*, else urls)",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists, atomically at the end")
    parser.add_argument(
        "--queue-keys", action="store_true",
        help="in jsonl, write the key of each URI's queue, which `import` then forces on it",
    )  # fmt: skip
    common.add_queue_filter(parser)


def _register_dead_letters(commands: Commands) -> None:
    parser = add_command(
        commands,
        "dead-letters",
        on_crawl(dead_letters),
        "list the dead letters, the URIs that have failed for good; replay or drop them",
        more="Replaying puts them back into their queues, with no attempts counted. Dropping is taken back by `undo`.",
    )
    add_job(parser, cluster=True)
    parser.set_defaults(usage=parser.error)
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--replay", nargs="*", type=_letter, metavar="ID",
        help="put these, `all`, or those that --match and --why choose, back into their queues",
    )  # fmt: skip
    action.add_argument(
        "--drop",
        nargs="*",
        type=_letter,
        metavar="ID",
        help="delete these, `all`, or those that --match and --why choose",
    )
    action.add_argument(
        "--by-reason", action="store_true", help="count them by reason, the most frequent first, with one URL of each"
    )
    for_good.add_for_good(parser, with_option="--drop")
    parser.add_argument("--match", metavar="PATTERN", help="only those that match, as `queues --match`")
    parser.add_argument(
        "--why", metavar="GLOB",
        help="only those whose reason matches, as it is or as --by-reason shows it: 'timeout*' (case counts)",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="with --replay or --drop: only count them")
    common.add_listing(parser, columns=DEAD_COLUMNS, sort=DEAD_SORT)
    add_who(parser)


# -- import


def import_(args: argparse.Namespace) -> int:
    """Import the sources. Into a crawl in partitions, each call is waited for: a repeated one finds duplicates."""
    from budgetfrontier.tools.cli import importing

    if not isinstance(args.job, ClusterUrl):
        return importing.run(args)
    from budgetfrontier.tools.cli import clusters, submission

    def run(args: argparse.Namespace, operator: ClusterOperator) -> int:
        frontier = operator.owners.frontier
        if not args.dry_run:
            frontier.connect()
            frontier.retry_for = submission.RETRY_FOR  # once the crawl is found
        return importing.run(args, operator)

    return clusters.run(args, run, timeout=None)


# -- export


def export(args: argparse.Namespace) -> None:
    """Write pending URIs queue by queue, each in its order, then URIs scheduled for later."""
    from msgspec.structs import replace

    from budgetfrontier.reports.format import counted
    from budgetfrontier.storage.reader import Reader
    from budgetfrontier.tools.importers import lists

    form = args.format or _format_of(args.file)
    if form == "heritrix":
        from budgetfrontier.tools.importers.heritrix import left_out, line
    else:
        line = lists.to_url if form == "urls" else lists.to_json
    supported = {"urls": {"url", "cost"}, "heritrix": {"url", "cost", "hops", "via"}}.get(form)
    if args.queue_keys and form != "jsonl":
        args.parser.error(f"--queue-keys is for jsonl; {form} has no place for the key of a queue")
    test = common.selection(args).test()
    count, omitted = 0, Counter[str]()
    with Reader(common.frontier_path(args.job)) as reader, _output_file(args.file, replace=args.force) as out:
        # Collect the keys first: no snapshot may be held while URIs are written, for the file grows as long as one is.
        chosen = [(q.queue, q.queued, q.future) for q in reader.sorted_queues(_turn, where=test)]
        for key, uri in _exported(reader, chosen):
            if args.queue_keys:
                uri = replace(uri, queue=key)
            out.write(line(uri) + "\n")
            count += 1
            if supported is not None:
                omitted.update(lists.fields(uri).keys() - supported)
            if form == "heritrix":
                omitted.update(left_out(uri))
        dead = reader.summary().dead
        if not chosen:
            note(common.no_match(args))
    note(f"{counted(count, 'URI')} exported")
    if omitted:
        what = ", ".join(f"{name} ({count:,})" for name, count in sorted(omitted.items()))
        note(f"left out, as this format has no place for it: {what}; --format jsonl has")
    if dead:
        are, them = ("is", "it") if dead == 1 else ("are", "them")
        listing = f"`budgetfrontier dead-letters` lists {them} and puts {them} back"
        note(f"{counted(dead, 'dead letter')} {are} not among them; {listing}")


def _exported(reader: Reader, chosen: Sequence[tuple[str, int, int]]) -> Iterator[tuple[str, CrawlUri]]:
    """Yield pending URIs, then those for later, with their queues, which are given by key, `queued` and `future`."""
    from msgspec.structs import replace

    for key, queued, _ in chosen:
        if queued:
            for item in reader.each_pending(key, arrived=True):
                yield key, item.uri
    later = {key for key, _, future in chosen if future}
    for item in reader.each_future() if later else ():
        if item.queue in later:
            yield item.queue, replace(item.uri, not_before=item.when)


def _turn(queue: QueueRecord) -> tuple[int, float, int]:
    """Return the sort key that puts queues in the order of their turns."""
    state = queue.state
    rank = ("IN_PROCESS", "READY", "SNOOZED", "INACTIVE", "INELIGIBLE", "RETIRED", "EXHAUSTED").index(state)
    first = queue.wake_time if state == "SNOOZED" else queue.precedence if state == "INACTIVE" else 0
    return rank, first, queue.position


def _format_of(name: str) -> str:
    """Return the format that the name of a file implies."""
    plain = Path(name.removesuffix(".gz"))
    if plain.suffix in (".jsonl", ".ndjson", ".json"):
        return "jsonl"
    return "heritrix" if "recover" in plain.name else "urls"


@contextlib.contextmanager
def _output_file(name: str, *, replace: bool) -> Iterator[TextIO]:
    """Open a file that appears complete or not at all; a pipe or device is written to directly."""
    import gzip

    from budgetfrontier.storage.whole_files import atomic_file, naming_file

    if name == "-":
        with naming_file("standard output"):
            yield sys.stdout
            sys.stdout.flush()
        return
    path = Path(name)
    if path.is_file() and not replace:
        raise FrontierError(f"{name} is there already; --force replaces it")
    exists_as_other = path.exists() and not path.is_file()
    with naming_file(path), path.open("wb") if exists_as_other else atomic_file(path) as file:
        binary = gzip.GzipFile(name, "wb", fileobj=file) if name.endswith(".gz") else file
        out = io.TextIOWrapper(cast(BinaryIO, binary), encoding="utf-8", newline="\n")
        try:
            yield out
            out.detach()  # flushes without closing: the file gets its name before it is closed
            if binary is not file:
                binary.close()
        except BaseException:
            with contextlib.suppress(OSError, ValueError):  # the disk may be full, or it was detached
                out.close()  # while its file is open: the garbage collector would print an error of its own
            raise


# -- dead letters


def dead_letters(args: argparse.Namespace, operator: CrawlOperator) -> int:
    """List, replay or drop dead letters."""
    if args.replay is None and args.drop is None:
        if args.dry_run:
            args.usage("--dry-run is for --replay and --drop")
        found = operator.dead_letters()
        _write_dead_letters(args, found.rows, operator)
        if found.left_out:
            note(found.left_out)
        return exits.OK
    from budgetfrontier.reports.audit_sentences import left_waiting
    from budgetfrontier.reports.operators import refuse_if_terminated

    ids = args.drop if args.replay is None else args.replay
    _check_letters(args, ids)
    if operator.path is not None and not all(isinstance(one, int) for one in ids if one != "all"):
        args.usage("ids with a / are those of a crawl in partitions")
    op, done = ("drop", "dropped") if args.replay is None else ("replay", "replayed")
    refuse_if_terminated(operator, op)
    named = bool(ids) and "all" not in ids
    if named:
        operator.check_letters(ids)
    details = {"ids": ids if named else None, "queue": None} | _choice(args)
    if args.dry_run:
        effect = operator.dry_run(op, details)
        _tell_letters(op, effect, effect[done])
        _note_no_letter(args, effect, done)
        return exits.OK
    if op == "drop":
        details |= for_good.details(args)
    applied, code = give(args, operator, op, details)
    if applied.entry is not None:
        say(f"{done} {applied.entry.effect[done]:,}{left_waiting(applied.entry.effect)}")
        _note_no_letter(args, applied.entry.effect, done)
        for_good.note_kept(operator, applied.entry)
    return code


def _note_no_letter(args: argparse.Namespace, effect: dict[str, Any], done: str) -> None:
    """Print that --match and --why select no dead letter, if that is so."""
    if not effect[done] and not effect.get("waiting") and (args.match, args.why) != (None, None):
        note("no dead letter is selected; `budgetfrontier dead-letters` lists them, --by-reason their reasons")


def _choice(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of --match and --why as the engine takes them."""
    from budgetfrontier.settings.matching import with_kind

    match = {} if args.match is None else {"match": with_kind(args.match)}
    return match | ({} if args.why is None else {"why": args.why})


def _tell_letters(op: str, effect: dict[str, Any], count: int) -> None:
    """Print how many dead letters a command would take, and the first of them."""
    from budgetfrontier.reports.audit_sentences import left_waiting
    from budgetfrontier.reports.format import clean, counted

    letters = counted(count, "dead letter")
    say(f"would {op} {letters} of {counted(effect['queues'], 'queue')}{left_waiting(effect)}")
    for url in effect.get("first", ()):
        say(clean(url))
    if more := count - len(effect.get("first", ())):
        say(f"...and {more:,} more")


def _write_dead_letters(
    args: argparse.Namespace, letters: Iterable[tuple[int | LetterId, DeadLetter]], operator: CrawlOperator
) -> None:
    """Print dead letters with their ids, or their reasons."""
    from budgetfrontier.reports.format import clean
    from budgetfrontier.rules.uri_outcomes import cause
    from budgetfrontier.settings.matching import glob, queue_test

    test, why = queue_test(args.match), glob(args.why or "*")
    chosen: Iterable[tuple[int | LetterId, DeadLetter]]
    chosen = (
        (name, letter)
        for name, letter in letters
        if test(letter.uri.url, letter.queue, letter.uri.source)
        and (why(letter.reason) or why(cause(letter.reason, letter.queue)))
    )
    if asked := " and ".join(filter(None, (args.match, args.why))):
        chosen = name_arguments.noting_none(chosen, f"no dead letter matches {clean(asked)}", operator)
    if args.by_reason:
        common.write_rows(args, common.page(_by_reason(letter for _, letter in chosen), args), REASON_COLUMNS)
        return
    rows: Iterable[dict[str, Any]] = (_letter_row(name, letter) for name, letter in chosen)
    rows = common.page(rows, args, key=lambda row: _letter_order(row, args.sort))
    rows = (row | {"id": row["id"] if isinstance(row["id"], int) else str(row["id"])} for row in rows)
    if args.format == "text":
        rows = (row | {"time": format_time(row["time"])} for row in rows)
    common.write_rows(args, map(itemgetter(*DEAD_COLUMNS), rows), DEAD_COLUMNS, drop=DEAD_DROP)


def _check_letters(args: argparse.Namespace, ids: Sequence[Any]) -> None:
    """Refuse options of the listing when letters are changed, and ids besides a choice; nothing chosen is not all."""
    if not ids and not (args.match or args.why):
        args.usage("give ids, `all`, or --match or --why, which is not empty")
    given = {"limit": args.limit, "offset": args.offset, "reverse": args.reverse}
    names = [f"--{name}" for name, value in given.items() if value not in (None, False, 0)]
    if names or args.sort != DEAD_SORT:
        args.usage(f"{(names or ['--sort'])[0]} is for the listing: --replay and --drop take the ids that it shows")
    if ids and "all" not in ids and (args.match or args.why):
        args.usage("give ids, or --match and --why")
    if "all" in ids and len(ids) > 1:
        args.usage("give ids, or `all` alone")


def _by_reason(letters: Iterable[DeadLetter]) -> Iterator[tuple[object, ...]]:
    """Yield each reason, how many dead letters of how many queues have it, and the URL of one of them."""
    from budgetfrontier.rules.uri_outcomes import cause

    counts, queues, examples = Counter[str](), defaultdict[str, set[str]](set), dict[str, str]()
    for letter in letters:
        reason = cause(letter.reason, letter.queue)
        counts[reason] += 1
        queues[reason].add(letter.queue)
        examples.setdefault(reason, letter.uri.url)
    for reason, count in counts.most_common():
        yield reason, count, len(queues[reason]), examples[reason]


def _letter_order(row: dict[str, Any], column: str) -> Any:
    """Return the key by which letters are sorted: ids in the order in which the letters came."""
    return (row["time"], row["id"]) if isinstance(row[column], tuple) else row[column]


def _letter_row(name: int | LetterId, letter: DeadLetter) -> dict[str, Any]:
    row = {column: getattr(letter, column) for column in DEAD_COLUMNS if column not in ("id", "url", "via")}
    return row | {"id": name, "url": letter.uri.url, "via": letter.uri.via or ""}


def _letter(text: str) -> int | str | LetterId:
    """Parse the id of a dead letter, or `all`."""
    from budgetfrontier.reports.operators import LetterId

    try:
        if "/" in text:
            return LetterId.read(text)
        return text if text == "all" else int(text)
    except ValueError:
        raise common.wrong("the id of a dead letter, as `dead-letters` lists it, or `all`", text) from None
