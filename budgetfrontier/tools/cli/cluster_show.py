"""Commands that look at a crawl in partitions: the listings and reports of a job, from the replies of the owners."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import Any

from budgetfrontier.cluster import merging
from budgetfrontier.cluster.inspection import (
    MOST_BYTES,
    MOST_LISTED,
    MOST_ROWS,
    Audited,
    DeadLetterPage,
    FoundQueue,
    LeasePage,
    Selection,
)
from budgetfrontier.cluster.operator_client import Operator, PartitionRow
from budgetfrontier.cluster.partition_progress import PartitionProgress
from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.core.vocabulary import ROW_FIELDS
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.explanation import Explanation, ReasonStep
from budgetfrontier.reports.format import counted
from budgetfrontier.reports.queue_sample import FOR_PATTERNS
from budgetfrontier.reports.work_list import Raised
from budgetfrontier.rules.verdict import limit_sentence
from budgetfrontier.tools.cli import cluster_kinds, common, name_arguments, output, show, transfer
from budgetfrontier.tools.cli import leases as leases_
from budgetfrontier.tools.cli.sentences import note


def partitions(args: argparse.Namespace, operator: Operator) -> None:
    """List the partitions."""
    standings = operator.standings()
    common.write_rows(args, operator.rows(standings), PartitionRow._fields, drop=("address", "failed", "in_process"))
    note_limit(operator, standings)


def note_limit(operator: Operator, standings: Mapping[int, PartitionProgress] | None = None) -> None:
    """Say which total is used up, if one is: the partitions themselves are RUNNING."""
    if (setting := operator.limit(operator.standings() if standings is None else standings)) is not None:
        note(limit_sentence(setting))


def report(args: argparse.Namespace, operator: Operator) -> None:
    """Print the report of the whole crawl, or another kind of report."""
    from budgetfrontier.reports import html, text
    from budgetfrontier.reports.layout import layout_for
    from budgetfrontier.reports.overview import Overview
    from budgetfrontier.reports.wrong_now import wrong_now

    if args.limit == 0:
        args.limit, args.all = None, True
    if args.kind != "frontier" or args.since is not None:
        return cluster_kinds.run(args, operator)
    if args.format in ("json", "csv"):
        return _report_rows(args, operator)
    most = (100 if args.format == "html" else 20) if args.limit is None else args.limit
    if args.all or most > MOST_LISTED:
        head = operator.head()
        overview = Overview(most, all_states=args.all).gather(queue for queue, _ in operator.each_queue(Selection()))
    else:
        head, overview = operator.report(most)
    if args.format == "html":
        wrong = wrong_now(None, head.totals, overview.spend())
        wrong += [operator.without_owner(operator.missing)] if operator.missing else []
        sys.stdout.write(html.render(head, overview=overview, wrong=wrong))
    else:
        sys.stdout.write(text.render(head, overview=overview, layout=layout_for(sys.stdout, wide=args.wide)))


def _report_rows(args: argparse.Namespace, operator: Operator) -> None:
    from budgetfrontier.reports import listings

    head = operator.head()
    rows = (queue for queue, _ in islice(operator.each_queue(Selection()), args.limit))
    with listings.spooled(sys.stdout) as out:
        if args.format == "csv":
            listings.write_csv(map(listings.queue_row, rows), ROW_FIELDS, out)
            return
        plain = json.dumps({**head.to_dict(), "queues": []}, indent=1)
        out.write(plain.removesuffix("[]\n}"))
        for part in listings.json_array(map(listings.queue_row, rows), ROW_FIELDS):
            out.write(part)
        out.write(f',\n "missing_partitions": {json.dumps(sorted(operator.missing))}\n}}\n')


def queues(args: argparse.Namespace, operator: Operator) -> None:
    """List queues; with --limit, each owner sends only so many."""
    from budgetfrontier.reports import listings, queue_rows
    from budgetfrontier.reports.layout import layout_for

    states = [QueueState(state) for state in args.state] if args.state else None
    raised = args.over_budget or states == [QueueState.RETIRED]
    selection = Selection(states, args.match, args.over_budget, raised)
    piped = layout_for(sys.stdout, wide=False).width is None
    columns = queue_rows.WIDE if args.wide else queue_rows.PIPED if piped else queue_rows.TERMINAL
    columns, drop = queue_rows.sorted_by(columns, args.sort)
    row = queue_rows.row_of(columns, time.time()) if args.format == "text" else listings.queue_row
    fields: tuple[str, ...] = ROW_FIELDS
    found = _sorted(args, operator, selection)
    if not found and (args.match or args.state) and not operator.missing:
        note(common.no_match(args))
    rows: Iterable[tuple[object, ...]] = (
        (*row(queue), *more) if raised and more is not None else row(queue) for queue, more in found
    )
    if raised:
        columns, fields, drop = columns + Raised._fields, fields + Raised._fields, (*drop, "wake_in", "raise_to")
    if args.format == "text":
        common.write_rows(args, rows, columns, drop=drop)
    else:
        listings.write(rows, fields, sys.stdout, format=args.format)


def _sorted(
    args: argparse.Namespace, operator: Operator, selection: Selection
) -> list[tuple[QueueRecord, Raised | None]]:
    """Return the queues that are to be listed. Memory: those listed and skipped, all without --limit."""
    reverse = common.is_descending(args)
    if args.limit is not None:
        count = args.offset + args.limit
        return operator.best_queues(selection, sort=args.sort, reverse=reverse, count=count)[args.offset :]
    key = attrgetter(args.sort)
    found = sorted(operator.each_queue(selection), key=lambda row: key(row[0]), reverse=reverse)
    return found[args.offset :]


def queue(args: argparse.Namespace, operator: Operator) -> None:
    """Print one queue and its next URIs."""
    if args.patterns:
        limit, spread = FOR_PATTERNS, True
    else:
        limit, spread = args.limit, args.spread
    found = _queue(operator, args.key, limit=limit, spread=spread)
    assert found.queue is not None
    if args.patterns:
        return output.write_patterns(args, found.queue, found.pending)
    items = [(item.place + 1 if spread else place, item) for place, item in enumerate(found.pending, 1)]
    output.write_queue(args, found.queue, items)


def _queue(operator: Operator, key: str, *, limit: int | None = 1, spread: bool = False) -> FoundQueue:
    """Return a queue from its owner: that of its key, or of what a URL or a host written differently means."""
    found: FoundQueue = operator.ask_one(
        operator.partition_of_queue(key), "queue", FoundQueue, key=key, limit=limit, spread=spread
    )
    if found.queue is None:
        others = operator.ask("queue", FoundQueue, key=key, limit=1, spread=False)
        meant = next((one.meant for one in others.values() if one.is_sure), None)
        if meant is not None:
            number = operator.partition_of_queue(meant)
            found = operator.ask_one(number, "queue", FoundQueue, key=meant, limit=limit, spread=spread)
        if found.queue is None:
            raise _no_queue(operator, key, others)
    if found.queue.queue != key:
        from budgetfrontier.reports.format import clean

        note(f"{clean(key)} is in queue {clean(found.queue.queue)}")
    return found


def check_queue(operator: Operator, key: str) -> str:
    """Return the key of a queue that is given in any spelling of its host. Raises FrontierError if there is none.

    What changes a queue guesses none.
    """
    found: FoundQueue = operator.ask_one(
        operator.partition_of_queue(key), "queue", FoundQueue, key=key, limit=1, spread=False
    )
    if found.queue is None:
        raise _no_queue(operator, key, operator.ask("queue", FoundQueue, key=key, limit=1, spread=False))
    return found.queue.queue


def _no_queue(operator: Operator, key: str, others: dict[int, FoundQueue]) -> FrontierError:
    near = next((f"; did you mean {one.meant}?" for one in others.values() if one.meant), ";")
    return FrontierError(f"there is no queue {key!a}{near} `budgetfrontier queues {operator.job}` lists them")


def explain(args: argparse.Namespace, operator: Operator) -> None:
    """Print why a URL or a queue is not being crawled, as the owner of its partition explains it."""
    if args.log:
        args.parser.error("--log is for a job's folder: a crawl in partitions has the logs of its crawlers, if any")
    number = operator.partition_of_queue(args.target)
    if "://" in args.target:  # which is the key of a queue, or else a URL
        found: FoundQueue = operator.ask_one(number, "queue", FoundQueue, key=args.target, limit=1, spread=False)
        number = operator.partition_of_uri(args.target) if found.queue is None else number
    answer = _explained(operator, number, args.target)
    if answer.verdict == "never" and "://" not in args.target and answer.kind == "url":
        others = operator.ask("explain", Explanation, target=args.target, job=operator.job)
        answer = next((one for one in others.values() if one.kind == "queue"), answer)
    if any(one.code == "never-scheduled" for one in answer.reasons):
        answer = _explained_elsewhere(operator, number, args.target) or answer
        if operator.missing:
            answer.reasons[-1] = _with_doubt(answer.reasons[-1])
    output.write_explanation(args, answer)
    note_limit(operator)


def _explained(operator: Operator, number: int, target: str, **options: Any) -> Explanation:
    """Return what the owner of a partition explains, with the id that a dead letter has in a crawl in partitions."""
    answer: Explanation = operator.ask_one(number, "explain", Explanation, target=target, job=operator.job, **options)
    for place, one in enumerate(answer.reasons):
        if one.code == "dead-letter" and one.command is not None:
            command, _, letter = one.command.rpartition(" ")
            answer.reasons[place] = replace(one, command=f"{command} {transfer.LetterId(number, int(letter))}")
    return answer


def _explained_elsewhere(operator: Operator, number: int, url: str) -> Explanation | None:
    """Return what the owner of another partition than that of a URL's host explains; None if no other one knows it."""
    others = [other for other in range(operator.partitions) if other != number]
    known: dict[int, bool] = operator.ask("is_known", bool, of=others, url=url)
    found = {other: _explained(operator, other, url, anywhere=True) for other in sorted(known) if known[other]}
    if not found:
        return None
    other = min(found, key=lambda each: found[each].verdict == "never")
    found[other].reasons.insert(
        0,
        ReasonStep(
            "elsewhere",
            f"It is in partition {other}, and not in partition {number}, where its host is: it was scheduled with a "
            "`queue` of its own.",
        ),
    )
    return found[other]


def _with_doubt(reason: ReasonStep) -> ReasonStep:
    """Return a reason with the hint that partitions which do not answer may have the URL on a queue of its own."""
    return replace(reason, text=reason.text.replace("never scheduled", "never scheduled where partitions answer", 1))


def audit(args: argparse.Namespace, operator: Operator) -> None:
    """List the commands that were applied; one to all partitions is one row."""
    wanted = MOST_ROWS if args.limit is None or _filters(args) else min(args.limit + args.offset, MOST_ROWS)
    if args.queue is None:
        found = operator.ask("audit", list[Audited], count=wanted)
    else:
        key = _queue(operator, args.queue).queue
        assert key is not None
        number = operator.partition_of_queue(key.queue)
        found = {number: operator.ask_one(number, "audit", list[Audited], count=wanted, key=key.queue)}
    if any(len(entries) == MOST_ROWS for entries in found.values()):
        note(f"older entries left out: owners send the newest {MOST_ROWS:,}")
    people: set[str] = set()
    rows = [row for row in merging.merged_audit(found) if show.is_chosen(row.entry, args, people)]
    if not rows and args.who is not None and args.who not in people:
        raise name_arguments.nobody(args.who, people)
    end = len(rows) - args.offset
    rows = rows[max(0, end - (args.limit or end)) : max(0, end)]
    shown = [(row.id, row.entry, row.inverse, row.covers) for row in rows]
    output.write_audit(args, shown, partitions=[merging.numbers_as_text(row.partitions) for row in rows])


def _filters(args: argparse.Namespace) -> bool:
    return any((args.who, args.operation, args.since, args.until))


def leases(args: argparse.Namespace, operator: Operator) -> None:
    """List the leases of all partitions, or of one queue."""
    key = None
    if args.queue is None:
        found = operator.ask("leases", LeasePage)
    else:
        key = _queue(operator, args.queue).queue
        assert key is not None
        number = operator.partition_of_queue(key.queue)
        found = {number: operator.ask_one(number, "leases", LeasePage)}
    rows = [lease for number in sorted(found) for lease in found[number].rows]
    rows = rows if key is None else [lease for lease in rows if lease.queue == key.queue]
    leases_.write_leases(args, rows, is_whole=not operator.missing)
    _note_left(sum(one.left for one in found.values()), "lease")


def dead_letters(args: argparse.Namespace, operator: Operator) -> None:
    """List the dead letters of all partitions, each as PARTITION/ID."""
    found = operator.ask("dead_letters", DeadLetterPage)
    letters = [
        (transfer.LetterId(number, letter.id), letter) for number in sorted(found) for letter in found[number].rows
    ]
    transfer.write_dead_letters(args, letters, is_whole=not operator.missing)
    _note_left(sum(one.left for one in found.values()), "dead letter")


def _note_left(count: int, what: str) -> None:
    """Say that some rows were too many to be sent."""
    if count > 0:
        note(f"{counted(count, what)} left out: owners send {MOST_BYTES >> 20} MiB of them at most")
