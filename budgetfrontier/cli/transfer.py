"""Commands that move URIs: `import`, `export`, `dead-letters`.

Two formats: a plain list with one URL a line (blank lines and those that start with # are skipped), and JSON lines with
the fields of a CrawlUri, bytes in base64. `import` tells them apart line by line: JSON starts with `{`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from budgetfrontier.cli import common
from budgetfrontier.cli.common import Commands, add_command, add_job, add_who, note

if TYPE_CHECKING:
    from budgetfrontier.model import CrawlUri, DeadLetter, Tally

CHUNK = 1000
"""URIs that are handed to a running engine at a time."""
CHUNK_SIZE = 4 << 20
"""Characters of them, about, after which there are no more in a chunk: a command has a limit."""

DEAD_COLUMNS = ("id", "queue", "url", "reason", "time", "attempts", "deliveries", "cost", "via")


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = add_command(
        commands,
        "import",
        import_,
        "add URIs or seeds to a crawl, running or stopped",
        more="A file holds one URL a line, or JSON lines with the fields of a CrawlUri. "
        "The scope is not asked: what is listed is crawled, and of its links what the crawl's scope takes. "
        "Says how many were added, were seen before (duplicate), found no room (full) or are invalid, and why.",
    )
    add_job(parser)
    parser.add_argument(
        "sources", metavar="FILE_OR_URL", nargs="+", help="files, - for stdin, or the URLs themselves (http://...)"
    )
    parser.add_argument(
        "--seeds", action="store_true",
        help="they are seeds: they go before links, and seed-hosts and seed-domains take their hosts in for what is "
        "found from them",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="schedule them even if they were seen before")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to print what became of them")
    add_who(parser)

    parser = add_command(
        commands, "export", export, "write the pending URIs of all queues to a file", more="`import` reads it back."
    )
    add_job(parser)
    parser.add_argument("file", metavar="FILE", help="the file, replaced as a whole at the end; - for stdout")
    parser.add_argument(
        "--format", choices=("urls", "jsonl"), default=None,
        help="a plain list, or JSON lines with all fields (default: jsonl if FILE ends so, else urls)",
    )  # fmt: skip
    common.add_queue_filter(parser)

    parser = add_command(
        commands,
        "dead-letters",
        dead_letters,
        "list the URIs that were given up on; replay or drop them",
        more="Replaying puts them back on their queues, as fresh as when they were scheduled.",
    )
    add_job(parser)
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--replay", nargs="+", type=_letter, metavar="ID", help="put these back on their queues, or `all`"
    )
    action.add_argument("--drop", nargs="+", type=_letter, metavar="ID", help="forget these for good, or `all`")
    parser.add_argument("--match", metavar="PATTERN", help="list only those that match, as `queues --match`")
    common.add_listing(parser, columns=DEAD_COLUMNS, sort="id")
    add_who(parser)


# -- import


def import_(args: argparse.Namespace) -> None:
    """Schedule what is given. A bad line spoils nothing: it is counted, and told with its number."""
    from budgetfrontier.model import Tally

    path, total = common.frontier_path(args.job), Tally()
    for source in args.sources:
        tally = Tally()
        is_url = source.lower().startswith(("http://", "https://"))
        with contextlib.nullcontext([os.fsencode(source)]) if is_url else _opened(source) as lines:
            _schedule(args, path, _read(lines, source, tally, force=args.force, seeds=args.seeds), tally)
        if is_url and not tally.invalid:  # that one was told of
            note(f"{source}: {'added' if tally.added else 'duplicate' if tally.duplicate else 'full'}")
        total.add(tally)
    if args.format == "json":
        print(json.dumps({name: getattr(total, name) for name in ("added", "duplicate", "invalid", "full", "reasons")}))
    else:
        why = ", ".join(f"{reason} {count:,}" for reason, count in sorted(total.reasons.items()))
        print(
            f"added {total.added:,}, duplicate {total.duplicate:,}, full {total.full:,}, invalid {total.invalid:,}"
            + (f" ({why})" if why else "")
        )
    if args.seeds and total.duplicate and not args.force:
        note("duplicates were seen before and do not become seeds; --force schedules them again, as seeds")
    if total.added:
        common.note_if_stopped(args)


def _schedule(args: argparse.Namespace, path: Path, uris: Iterator[CrawlUri], tally: Tally) -> None:
    """Into the frontier itself when nobody runs it, else through the running engine's mailbox, chunk by chunk."""
    from budgetfrontier.engine.frontier import Frontier
    from budgetfrontier.errors import FrontierLocked

    with contextlib.suppress(FrontierLocked), Frontier.open(path, keep_leases=True) as frontier:
        tally.add(frontier.schedule_many(uris))
        return
    for chunk in _chunks(map(_fields, uris)):
        effect = common.steer(args, "schedule", {"uris": chunk}).effect
        for name in ("added", "duplicate", "invalid", "full"):
            setattr(tally, name, getattr(tally, name) + effect[name])
        for reason, count in effect["reasons"].items():
            tally.reasons[reason] = tally.reasons.get(reason, 0) + count


def _chunks(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """By the thousand, and fewer where they are large."""
    chunk: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        chunk.append(row)
        size += len(repr(row))
        if len(chunk) == CHUNK or size > CHUNK_SIZE:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _read(lines: Iterable[bytes], name: str, tally: Tally, *, force: bool, seeds: bool) -> Iterator[CrawlUri]:
    """The URIs of a file; lines that are none are told on stderr and counted as invalid."""
    import msgspec

    from budgetfrontier import uris
    from budgetfrontier.errors import InvalidUrl
    from budgetfrontier.model import CrawlUri
    from budgetfrontier.reports.figures import clean

    for number, raw in enumerate(lines, 1):
        line = raw.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else raw.strip()
        if not line or line.startswith(b"#"):
            continue
        try:
            uri = _from_json(line) if line.startswith(b"{") else CrawlUri(line.decode())
            href = uris.parse(uri.url)
            if seeds:
                _make_seed(uri, href)
        except UnicodeDecodeError as error:
            reason, why = "encoding", f"not UTF-8 ({error.reason})"
        except InvalidUrl as error:
            reason, why = error.reason, f"no http or https URL ({error})"
        except (msgspec.MsgspecError, ValueError) as error:
            reason, why = "json", str(error)
        else:
            uri.force = uri.force or force
            yield uri
            continue
        tally.refuse(reason)
        note(clean(f"{name}:{number}: {why}"))


def _make_seed(uri: CrawlUri, href: str) -> None:
    """Let a URI count as a seed: the scope looks for the one it descends from in `meta`."""
    from budgetfrontier.model import Directive

    if not isinstance(uri.meta, dict | None):
        raise ValueError("the meta of a seed is an object")
    uri.meta = {**(uri.meta or {}), "seed": href}
    uri.directive = min(uri.directive, Directive.MEDIUM)
    uri.hops = ""


def _from_json(line: bytes) -> CrawlUri:
    """A CrawlUri from a JSON object of its fields; ValueError or msgspec's error for anything else."""
    import msgspec

    from budgetfrontier.model import CrawlUri, Directive

    given = msgspec.json.decode(line)
    if unknown := given.keys() - set(CrawlUri.__struct_fields__):
        raise ValueError(f"unknown field {min(unknown)!a}; known: {', '.join(CrawlUri.__struct_fields__)}")
    if "url" not in given:
        raise ValueError("no url")
    if given.get("directive") in Directive.__members__:
        given["directive"] = Directive[given["directive"]].value
    empty = CrawlUri("")
    return msgspec.convert([given.get(name, getattr(empty, name)) for name in CrawlUri.__struct_fields__], CrawlUri)


def _fields(uri: CrawlUri) -> dict[str, Any]:
    """The fields of a URI that are not at their defaults."""
    from budgetfrontier.model import CrawlUri

    empty = CrawlUri("")
    values = ((name, getattr(uri, name)) for name in CrawlUri.__struct_fields__)
    return {name: value for name, value in values if value != getattr(empty, name)}


@contextlib.contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        yield sys.stdin.buffer
    else:
        with open(name, "rb") as lines:
            yield lines


# -- export


def export(args: argparse.Namespace) -> None:
    """Write what is pending, queue by queue, each in its order."""
    from budgetfrontier.store.reader import Reader

    as_json = args.format == "jsonl" or (args.format is None and args.file.endswith((".jsonl", ".ndjson", ".json")))
    test = common.queue_filter(args)
    count = 0
    with Reader(common.frontier_path(args.job)) as reader, _replaced(args.file) as out:
        # The keys first: a snapshot is not held while URIs are written, for the file grows as long as one is.
        for key in [queue.queue for queue in reader.queues() if queue.queued and test(queue)]:
            for item in reader.each_pending(key):
                out.write((_to_json(item.uri) if as_json else item.uri.url) + "\n")
                count += 1
    note(f"{count:,} URIs exported")


def _to_json(uri: CrawlUri) -> str:
    import msgspec

    uri.cost = None  # the policy of the frontier that it comes to decides, as here
    fields = _fields(uri)
    if "directive" in fields:
        fields["directive"] = uri.directive.name
    return msgspec.json.encode(fields).decode()


@contextlib.contextmanager
def _replaced(name: str) -> Iterator[TextIO]:
    """A file that appears whole or not at all."""
    if name == "-":
        yield sys.stdout
        return
    path = Path(name)
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, "w", encoding="utf-8", newline="\n") as out:
            yield out
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


# -- dead letters


def dead_letters(args: argparse.Namespace) -> None:
    """List, replay or drop."""
    from budgetfrontier.reports import tables
    from budgetfrontier.store.reader import Reader

    if args.replay or args.drop:
        ids = args.replay or args.drop
        op = "replay" if args.replay else "drop"
        entry = common.steer(args, op, {"ids": None if "all" in ids else ids, "queue": None})
        for done, count in entry.effect.items():
            print(f"{done} {count:,}")
        return
    test = common.matcher(args.match)
    with Reader(common.frontier_path(args.job)) as reader:
        letters = reader.dead_letters()
    rows: Iterable[dict[str, Any]] = (_letter_row(letter) for letter in letters if test(letter.uri.url, letter.queue))
    rows = common.page(rows, args, key=itemgetter(args.sort))
    if args.format == "text":
        rows = (row | {"time": f"{datetime.fromtimestamp(row['time'], UTC):%Y-%m-%dT%H:%M:%SZ}"} for row in rows)
    tables.write(map(itemgetter(*DEAD_COLUMNS), rows), DEAD_COLUMNS, sys.stdout, format=args.format)


def _letter_row(letter: DeadLetter) -> dict[str, Any]:
    row = {name: getattr(letter, name) for name in DEAD_COLUMNS if name not in ("url", "via")}
    return row | {"url": letter.uri.url, "via": letter.uri.via or ""}


def _letter(text: str) -> int | str:
    return text if text == "all" else int(text)


_letter.__name__ = "id"  # argparse names the type when a value is wrong
