"""The command `alerts`: which conditions hold and who was told, a watch over a job, and a test of the sinks."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.units import format_time
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.format import clean
from budgetfrontier.tools.cli import common, exits
from budgetfrontier.tools.cli.common import Commands, add_command, add_job
from budgetfrontier.tools.cli.sentences import note, say

if TYPE_CHECKING:
    from budgetfrontier.reports.alert_state import AlertState

COLUMNS = ("condition", "level", "since", "told", "text")
DELIVERY_COLUMNS = ("time", "condition", "raised", "sink", "attempts", "delivered", "error", "text")


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "alerts",
        alerts,
        "list the alerts that are raised, watch a job, or test where alerts go",
        more="The section `alerts` of the configuration says which conditions are told, and to whom; `crawl` has a "
        "process that watches it. Another one with --watch notices also that the whole machine of a crawl was "
        "restarted, or that nobody has started it again: conditions are told once, whoever notices them first.",
    )
    add_job(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--deliveries", action="store_true", help="list what was sent to each sink, and what failed")
    what.add_argument(
        "--watch", action="store_true", help="look at the job every `alerts.every`, running or not, until Ctrl-C"
    )
    what.add_argument("--once", action="store_true", help="look at the job once, as cron may do every few minutes")
    what.add_argument(
        "--test", nargs="?", const="", metavar="SINK",
        help="send an alert to this sink, or to each, and exit with 1 if one was not delivered",
    )  # fmt: skip
    common.add_format(parser)
    parser.set_defaults(usage=parser.error)


def alerts(args: argparse.Namespace) -> int:
    """List alerts; or watch a job, or test its sinks."""
    path = common.frontier_path(args.job)
    if args.test is not None:
        return _test(args)
    if args.watch or args.once:
        from budgetfrontier.tools.alerting.watching import Watch

        watch = Watch(args.job, path, say=say)
        if args.once:
            watch.look()
            return exits.OK
        return _watch(args, watch)
    from budgetfrontier.reports.alert_state import AlertState, damage, read

    state = read(args.job)
    if args.deliveries:
        rows: Iterator[tuple[Any, ...]] = _deliveries(args, state or AlertState())
        common.write_rows(args, rows, DELIVERY_COLUMNS, drop=("text", "attempts"))
    else:
        common.write_rows(args, _raised(args, state or AlertState()), COLUMNS, drop=("told",))
    if (sentence := damage(args.job)) is not None:
        note(sentence)
    elif state is None:
        note(
            "nobody has watched this job yet: `crawl` does if its configuration has `alerts`, and `alerts JOB --watch`"
        )
    elif args.format == "text":
        note(f"as of {format_time(state.looked)}")
    return exits.OK


def _watch(args: argparse.Namespace, watch: Any) -> int:
    """Look again and again. A look that fails is printed; the next one may succeed."""
    from budgetfrontier.tools.alerting.watching import PATIENCE, unreadable

    with common.job_operator(args) as operator:
        every = operator.settings.alerts.every
    while True:
        try:
            watch.look(PATIENCE)
        except FrontierError as error:
            note(unreadable(error))
        due = watch.waits()
        time.sleep(every if due is None else min(every, due))


def _test(args: argparse.Namespace) -> int:
    """Send an alert to a sink, or to each."""
    from budgetfrontier.settings.alert_sinks import name_of
    from budgetfrontier.tools.alerting.alert_delivery import NotDelivered
    from budgetfrontier.tools.alerting.watching import send_test

    with common.job_operator(args) as operator:
        settings = operator.settings
    known = {name_of(sink): sink for sink in settings.alerts.sinks}
    if args.test and args.test not in known:
        args.usage(f"there is no sink {args.test!a}; there are {', '.join(known) or 'none'}")
    if not known:
        raise FrontierError("the configuration of this job names no sink: write some under `alerts.sinks`, and crawl")
    code = exits.OK
    for name, sink in known.items():
        if args.test in ("", name):
            try:
                send_test(sink, settings.crawl, os.fspath(args.job))
                say(f"{name}: delivered")
            except NotDelivered as failure:
                code = exits.ERROR
                say(f"{name}: not delivered: {failure}")
    return code


def _raised(args: argparse.Namespace, state: AlertState) -> Iterator[tuple[Any, ...]]:
    for name, about in state.raised.items():
        told = ", ".join(_told(one.sink, one.done, one.error) for one in state.sent(name))
        yield name, about.level, _time(args, about.since), told, clean(about.text)


def _told(sink: str, done: float | None, error: str) -> str:
    if error:
        return f"{sink}: {clean(error)}{'' if done is not None else ', tried again'}"
    return sink if done is not None else f"{sink}: not yet"


def _deliveries(args: argparse.Namespace, state: AlertState) -> Iterator[tuple[Any, ...]]:
    for one in state.deliveries:
        delivered = None if one.done is None or one.error else _time(args, one.done)
        row = (_time(args, one.time), one.condition, one.raised, one.sink, one.attempts, delivered)
        yield *row, clean(one.error), clean(one.about.text)


def _time(args: argparse.Namespace, when: float) -> float | str:
    return format_time(when) if args.format == "text" else when
