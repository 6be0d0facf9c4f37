"""Commands on a crawl, whether it is a job or in partitions: one function, which is given its operator."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.cli.common import ClusterUrl, Command, job_operator, noting_interruption
from budgetfrontier.tools.cli.exits import ERROR, OK
from budgetfrontier.tools.cli.sentences import note, note_dry_run

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import Applied, AuditRow, CrawlOperator, OperatorCommand


def command_of(args: argparse.Namespace, op: str, details: dict[str, Any], reason: str = "") -> OperatorCommand:
    """Return a command, with the name, the `reason` (by default that of args) and the command line for the audit."""
    from budgetfrontier.engine.remote import whoami
    from budgetfrontier.reports.operators import OperatorCommand

    return OperatorCommand(op, details, args.who or whoami(), reason or args.reason, getattr(args, "line", ""))


def give(
    args: argparse.Namespace, operator: CrawlOperator, op: str, details: dict[str, Any], *, reason: str = ""
) -> tuple[Applied, int]:
    """Give a command to a crawl; return the result, and the exit code: ERROR unless it is done everywhere.

    Without a `reason`, it is given for that in `args`.
    """
    from budgetfrontier.rules.undoing import ON_CRAWL

    args.steered = op not in ON_CRAWL  # `_steer_crawl` tells what they do in a crawl that was terminated
    with noting_continued(operator) as own, noting_interruption(args):
        applied = operator.apply(command_of(args, op, details, reason))
        own += [] if applied.entry is None else [applied.entry.id]
    for sentence in filter(None, (applied.left, applied.refused)):
        note(sentence)
    return applied, ERROR if applied.left or applied.refused else OK


@contextmanager
def noting_continued(operator: CrawlOperator) -> Iterator[list[int | str]]:
    """Print what the commands of the `with` block had to go on with first, which a process that ended has left.

    The block appends the ids of its own audit entries; those before the first of them are printed. If it is refused,
    the one that was in progress is, which comes first.
    """
    begun = operator.in_progress()
    newest = next((row.id for row in operator.audit(count=1).rows), 0) if begun else 0
    own: list[int | str] = []
    try:
        yield own
    except FrontierError:
        if begun:
            _note_continued([*takewhile(lambda row: row.id != newest, operator.audit().rows)][-1:])
        raise
    if begun:
        since = [*takewhile(lambda row: row.id != newest, operator.audit().rows)][::-1]
        _note_continued(takewhile(lambda row: row.id not in own[:1], since))


def _note_continued(rows: Iterable[AuditRow]) -> None:
    from budgetfrontier.core.effect_words import entry_in_words
    from budgetfrontier.reports.audit_sentences import sentence

    for row in rows:
        back = f" `{row.inverse}` takes that back." if row.inverse else ""
        which = entry_in_words(row.id, row.entry.command)
        note(f"first went on with {which} by {row.entry.who}: {sentence(row.entry)}{back}")


def _note_terminated(operator: CrawlOperator) -> None:
    """Print of a command, or a dry run, on a crawl that was terminated that it lets nothing be fetched."""
    from budgetfrontier.rules.crawl_states import NOTHING_MORE

    if operator.is_terminated():
        note(NOTHING_MORE)


def on_crawl(run: Callable[[argparse.Namespace, CrawlOperator], int | None]) -> Command:
    """Return the command that gives `run` the operator of the crawl that `args.job` names."""

    def told(args: argparse.Namespace, operator: CrawlOperator) -> int | None:
        code, is_dry_run = run(args, operator), getattr(args, "dry_run", False)
        if is_dry_run:
            note_dry_run()
        if is_dry_run or getattr(args, "steered", False):
            _note_terminated(operator)
        return code

    def command(args: argparse.Namespace) -> int | None:
        if isinstance(args.job, ClusterUrl):
            from budgetfrontier.tools.cli import clusters  # its imports are not needed for a job

            return clusters.run(args, told)
        with job_operator(args) as operator:
            try:
                return told(args, operator)
            finally:
                if begun := operator.in_progress():
                    note(f"{begun}; what is printed here is without the rest of it")

    return command
