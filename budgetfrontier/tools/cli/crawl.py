"""Commands that crawl: `crawl` and `demo`. They need the extra `crawl`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from budgetfrontier.core.endpoints import tokens
from budgetfrontier.core.endpoints.addresses import ANYBODY
from budgetfrontier.tools.cli.common import (
    Commands,
    add_command,
    again,
    folder_name,
    naming_options,
    read_settings,
    warn_of_adjustments,
)
from budgetfrontier.tools.cli.server_options import (
    add_anybody,
    add_metrics,
    check_metrics,
    metrics_server,
    metrics_words,
    rare_collections,
)

if TYPE_CHECKING:
    from budgetfrontier.crawler.job import Beside
    from budgetfrontier.crawler.progress import ProgressDisplay
    from budgetfrontier.reports.metrics_server import MetricsServer
    from budgetfrontier.settings import Settings


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = add_command(
        commands,
        "crawl",
        crawl,
        "run a crawl from a YAML file, or continue it",
        more="Ctrl-C once finishes the fetches in flight and exits with 0, twice stops at once and exits with 1, as "
        "do SIGTERM and SIGHUP. The same command goes on where it stopped. If the scope has changed, and would "
        "disregard more than 100 of the URIs that wait, or more than 1 % of them, the crawl is paused and exits with "
        "7: `resume` accepts the new scope.",
    )
    parser.add_argument("config", metavar="CONFIG", type=Path, help="the YAML file")
    parser.add_argument("--job", metavar="DIR", type=Path, help="the job's folder (default: the crawl's name, here)")
    parser.add_argument(
        "--paused", action="store_true", help="fetch nothing until `budgetfrontier resume`, to inspect and adjust first"
    )
    parser.add_argument(
        "--adopt", action="store_true", help="continue in the folder of a crawl of another name, which was renamed"
    )
    add_metrics(parser, ", while the crawl runs")
    parser.add_argument(
        "--frontier", metavar="ADDRESS", default=None,
        help="crawl URIs of a crawl that `budgetfrontier serve` has open, which other processes may crawl too: "
        "HOST:PORT/CRAWL or unix:PATH#CRAWL (default of CRAWL: the crawl's name). The job has outputs only then; "
        "queues, budgets and delays are the server's. Limits count what this process does. Needs the extra 'grpc'",
    )  # fmt: skip
    add_anybody(parser, "an address of --metrics may be one that other machines reach")
    parser.add_argument(
        "--token-file", type=Path, default=None, metavar="FILE",
        help="a file with the token of the server of --frontier",
    )  # fmt: skip
    parser.add_argument(
        "--tls", default=None, metavar="FILE",
        help="use TLS to the server of --frontier; FILE has the certificates that sign the server's, and `system` "
        "stands for those that the system trusts",
    )  # fmt: skip
    parser = add_command(
        commands,
        "demo",
        demo,
        "crawl a small synthetic web on loopback, traps included, and show what budgets do",
        more="Takes under a minute and needs no network. Interrupted, it exits with 1.",
    )
    parser.add_argument(
        "--job", metavar="DIR", type=Path, help="a new folder for the job (default: a temporary one, named at the end)"
    )


def crawl(args: argparse.Namespace) -> int:
    """Run or resume a crawl."""
    settings = read_settings(args.config)
    from budgetfrontier.crawler import job

    words = ["budgetfrontier", "crawl", str(args.config), *(("--job", str(args.job)) if args.job else ())]
    if args.frontier is not None:
        return _crawl_shared(args, settings, words)
    if args.token_file or args.tls:
        args.parser.error("--token-file and --tls are for the server of --frontier, which is not given")
    check_metrics(args)
    options = metrics_words(args) + ([ANYBODY] if args.allow_anybody else [])
    folder = args.job or Path(folder_name(settings.crawl))
    warn_of_adjustments(settings, folder)
    from budgetfrontier.crawler.progress import ProgressDisplay
    from budgetfrontier.tools.cli.action_directory import ActionDirectory

    progress = ProgressDisplay()
    actions = ActionDirectory(folder, say=progress.say, warn=progress.warn)
    with metrics_server(args) as metrics, rare_collections(), _watched(settings, folder, progress) as watched:
        return job.crawl(
            settings,
            folder,
            progress=progress,
            paused=args.paused,
            adopt=args.adopt,
            command=again(words + options, settings),
            config=args.config,
            options=options,
            beside=[actions.watched(), *watched, *([] if metrics is None else [_serving(metrics, folder)])],
            awaits=actions.has_files,
        )


def _crawl_shared(args: argparse.Namespace, settings: Settings, words: list[str]) -> int:
    """Run a crawl on a frontier of a server."""
    given = {"--paused": args.paused, "--adopt": args.adopt, "--metrics": args.metrics, "--allow-host": args.allow_host}
    if refused := [option for option, value in given.items() if value]:
        args.parser.error(
            f"{' and '.join(refused)}: not with --frontier; pause, rename and watch the crawl where it is served"
        )
    from budgetfrontier.crawler.shared import shared_addresses, shared_job

    for option, value in {"--frontier": args.frontier, "--token-file": args.token_file, "--tls": args.tls}.items():
        words += [option, str(value)] if value else []
    with naming_options({"address": "--frontier", "token": "--token-file", "tls": "--tls"}), rare_collections():
        remote = shared_addresses.remote_crawl(
            args.frontier,
            crawl=settings.crawl,
            token=None if args.token_file is None else tokens.read(args.token_file),
            tls=args.tls == "system" or args.tls or False,
        )
        return shared_job.crawl(
            settings, args.job or Path(folder_name(settings.crawl)), remote, command=again(words, settings)
        )


def demo(args: argparse.Namespace) -> int:
    """Run the demonstration."""
    from budgetfrontier.crawler.demo import demo_crawl

    return demo_crawl.demo(args.job)


@contextmanager
def _watched(settings: Settings, folder: Path, progress: ProgressDisplay) -> Iterator[list[Beside]]:
    """Return the process that sends the alerts of a crawl, if it has any; at the end of the block, let it finish."""
    if not (settings.alerts.sinks or settings.alerts.log):
        yield []
        return
    from budgetfrontier.tools.alerting.watch_process import WatchProcess

    process = WatchProcess(folder, warn=progress.warn)
    try:
        yield [process.beside()]
    finally:
        process.end()


def _serving(server: MetricsServer, folder: Path) -> Beside:
    from budgetfrontier.reports import metrics

    return server.serving(metrics.of_job(folder).answer)
