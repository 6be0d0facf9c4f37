"""The command `alerts`: the conditions that hold and their deliveries, a watch over a crawl, and a test of sinks."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.units import format_time
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.format import clean
from budgetfrontier.tools.cli import common, exits
from budgetfrontier.tools.cli.common import ClusterUrl, Commands, add_command, add_job
from budgetfrontier.tools.cli.sentences import note, say

if TYPE_CHECKING:
    from budgetfrontier.reports.alert_state import AlertFiles, AlertState
    from budgetfrontier.reports.operators import CrawlOperator
    from budgetfrontier.settings import Settings
    from budgetfrontier.tools.alerting.watching import Watch, WatchedCrawl

COLUMNS = ("condition", "level", "since", "told", "text")
DELIVERY_COLUMNS = ("time", "condition", "raised", "sink", "attempts", "delivered", "error", "text")


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "alerts",
        alerts,
        "list the alerts that are raised, watch a crawl, or test where alerts go",
        more="The section `alerts` of the configuration says which conditions are told, and to whom; `crawl` has a "
        "process that watches it. Another one with --watch notices also that the whole machine of a crawl was "
        "restarted, or that nobody has started it again: conditions are told once, by the watcher that notices them "
        "first. For a crawl in partitions, give --state and --config: no worker watches it.",
    )
    add_job(parser, cluster=True)
    common.add_config(parser, "of a crawl in partitions: the settings of its workers, with the section `alerts`")
    parser.add_argument(
        "--state", type=Path, default=None, metavar="FILE",
        help="of a crawl in partitions: where its alerts are kept; the lock and the log are beside it",
    )  # fmt: skip
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
    parser.set_defaults(cluster_only=("token_file", "tls_ca", "config", "state"))


def alerts(args: argparse.Namespace) -> int:
    """List alerts; or watch a crawl, or test its sinks."""
    if args.test is not None:
        return _test(args)
    if args.watch or args.once:
        return _watch(args)
    from budgetfrontier.reports.alert_state import AlertState, read

    files = files_of(args)
    state, problem, _ = read(files)
    if args.deliveries:
        rows: Iterator[tuple[Any, ...]] = _deliveries(args, state or AlertState())
        common.write_rows(args, rows, DELIVERY_COLUMNS, drop=("text", "attempts"))
    else:
        common.write_rows(args, _raised(args, state or AlertState()), COLUMNS, drop=("told",))
    if problem:
        note(problem)
    elif state is None and isinstance(args.job, ClusterUrl):
        note(f"nobody has watched this crawl with --state {files.state} yet: `alerts --watch` does")
    elif state is None:
        note(
            "nobody has watched this job yet: `crawl` does if its configuration has `alerts`, and `alerts JOB --watch`"
        )
    elif args.format == "text":
        note(f"as of {format_time(state.looked)}")
    return exits.OK


def files_of(args: argparse.Namespace) -> AlertFiles:
    """Return the files of the alerts of a job, or those of a crawl in partitions that --state names."""
    from budgetfrontier.reports.alert_state import AlertFiles

    if not isinstance(args.job, ClusterUrl):
        common.frontier_path(args.job)
        return AlertFiles.of_job(args.job)
    if args.state is None or not args.state.name or args.state.is_dir():
        got = "" if args.state is None else f", which {args.state} is not"
        args.parser.error(f"a crawl in partitions has no folder for its alerts: give --state a file{got}")
    return AlertFiles.beside(args.state)


def _settings(args: argparse.Namespace) -> Settings:
    """Return the settings of a job as it was last crawled, or those of a crawl in partitions in --config."""
    if not isinstance(args.job, ClusterUrl):
        with common.job_operator(args) as operator:
            return operator.settings
    return common.settings_of_workers(
        args, "alerts of a crawl in partitions are in the settings of its workers: give --config FILE"
    )


def _crawl(args: argparse.Namespace, settings: Settings) -> WatchedCrawl:
    """Return the crawl that is watched."""
    from budgetfrontier.tools.alerting.watching import WatchedCrawl, watched_job

    if not isinstance(args.job, ClusterUrl):
        return watched_job(args.job, common.frontier_path(args.job))
    from budgetfrontier.cluster.operators.cluster_operator import ClusterOperator
    from budgetfrontier.connections import shown
    from budgetfrontier.tools.cli import clusters

    @contextmanager
    def opened() -> Iterator[CrawlOperator]:
        with clusters.connected(args.job, token_file=args.token_file, tls_ca=args.tls_ca) as owners:
            yield ClusterOperator(owners)

    return WatchedCrawl(shown(str(args.job)), files_of(args), opened, settings=settings)


def _watch(args: argparse.Namespace) -> int:
    """Look once, or again and again. A look that fails is printed; the next one may succeed."""
    from budgetfrontier.tools.alerting.watching import PATIENCE, Watch, unreadable

    settings = _settings(args)
    watch: Watch = Watch(_crawl(args, settings), say=say, warn=note)
    if args.once:
        watch.look()
        return exits.OK
    if isinstance(args.job, ClusterUrl) and (settings.alerts.disk_below or settings.alerts.disk_full_within):
        note("disk_below and disk_full_within are not watched here; `partitions` tells when disks of workers are full")
    every = settings.alerts.every
    while True:
        try:
            watch.look(PATIENCE)
        except FrontierError as error:
            note(unreadable(error))
        due = watch.waits()
        time.sleep(every if due is None else min(every, due))


def _test(args: argparse.Namespace) -> int:
    """Send an alert to a sink, or to each."""
    from budgetfrontier.connections import shown
    from budgetfrontier.settings.alert_sinks import name_of
    from budgetfrontier.tools.alerting.alert_delivery import NotDelivered
    from budgetfrontier.tools.alerting.watching import send_test

    settings = _settings(args)
    known = {name_of(sink): sink for sink in settings.alerts.sinks}
    if args.test and args.test not in known:
        args.parser.error(f"there is no sink {args.test!r}; there are {', '.join(known) or 'none'}")
    if not known:
        then = "" if isinstance(args.job, ClusterUrl) else ", and crawl"
        raise FrontierError(f"the configuration of this crawl names no sink: write some under `alerts.sinks`{then}")
    code = exits.OK
    for name, sink in known.items():
        if args.test in ("", name):
            try:
                send_test(sink, settings.crawl, shown(str(args.job)))
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
        return f"not {sink}: {clean(error)}{'' if done is not None else ', tried again at the next look'}"
    return sink if done is not None else f"{sink}: not yet"


def _deliveries(args: argparse.Namespace, state: AlertState) -> Iterator[tuple[Any, ...]]:
    for one in state.deliveries:
        delivered = None if one.done is None or one.error else _time(args, one.done)
        row = (_time(args, one.time), one.condition, one.raised, one.sink, one.attempts, delivered)
        yield *row, clean(one.error), clean(one.about.text)


def _time(args: argparse.Namespace, when: float) -> float | str:
    return format_time(when) if args.format == "text" else when
