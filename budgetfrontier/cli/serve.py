"""The command `serve`: a frontier for crawlers in other processes and languages, by the API of URLFrontier."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from budgetfrontier.cli import common
from budgetfrontier.cli.common import Commands, add_command
from budgetfrontier.cli.exits import exit_code
from budgetfrontier.cli.messages import note
from budgetfrontier.cli.signals import stopped_by_signals
from budgetfrontier.endpoints.tokens import TokenFile
from budgetfrontier.errors import FrontierError, MissingExtra

if TYPE_CHECKING:
    from budgetfrontier.service.server import ServingMetrics

log = logging.getLogger("budgetfrontier.service")


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "serve",
        serve,
        "share frontiers with crawlers in other processes, by the API of URLFrontier",
        more="Each crawlID is a job's folder in JOBS, with a frontier of its own: the other commands work on it, also "
        "while it is served. Needs the extra 'grpc'. Ctrl-C, SIGTERM and SIGHUP end the calls in progress, for five "
        "seconds at most, then close all frontiers; leases stay. A second one cuts calls off, and the exit code is 1.",
    )
    parser.add_argument("jobs", metavar="JOBS", type=Path, help="the folder of the jobs; it is created if need be")
    parser.add_argument(
        "--listen", default="127.0.0.1:7071", metavar="WHERE",
        help="ADDRESS:PORT, or unix:PATH for a socket (default: 127.0.0.1:7071)",
    )  # fmt: skip
    parser.add_argument(
        "--config", type=Path, default=None, metavar="FILE",
        help="the settings of crawls that are created (default: the profile 'served'); those that exist keep theirs. "
        "Without `frontier.keep_urls`, the RPCs of URLFrontier that need all URLs are refused",
    )  # fmt: skip
    common.add_server_access(parser)
    parser.add_argument(
        "--close-after", type=common.duration, default=600.0, metavar="TIME",
        help="close a crawl that nobody has used for so long; it is opened again when it is used (default: 10m; 0: "
        "never)",
    )  # fmt: skip
    common.add_log_format(parser)
    parser.add_argument(
        "--metrics", metavar="ADDRESS:PORT", default=None,
        help="serve metrics for Prometheus at this address, such as 127.0.0.1:9464, on /metrics (default: none are "
        "served); whoever reaches the address can read them; needs the extra 'console'",
    )  # fmt: skip
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="a name under which Prometheus asks for the metrics, if it is neither an address nor the machine's name, "
        "repeatable",
    )  # fmt: skip


def serve(args: argparse.Namespace) -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP."""
    from budgetfrontier.service import log_lines

    with log_lines.on_stderr(as_json=args.log_format == common.JSON):
        try:
            return _serve(args)
        except Exception as error:
            code = exit_code(error)
            if args.log_format != common.JSON or code is None:
                raise
            log.critical("%s", error, extra={"event": "failed"})
            return code


def _serve(args: argparse.Namespace) -> int:
    from budgetfrontier.settings import Settings

    try:
        from budgetfrontier.service import frontier_service, process, server
        from budgetfrontier.service.stopping import Stop
        from budgetfrontier.urlfrontier import service
        from budgetfrontier.urlfrontier.urlfrontier_pb2 import POOL
    except ModuleNotFoundError as error:
        raise MissingExtra("grpc") from error
    settings = Settings.from_dict({"profile": "served"}) if args.config is None else Settings.from_yaml(args.config)
    token = None if args.token_file is None else TokenFile(args.token_file)

    def started(where: str) -> None:
        if args.log_format == common.JSON:
            fields = {"event": "started", "jobs": str(args.jobs), "address": where}
            log.info("serving %s at %s", args.jobs, where, extra=fields)
        else:
            note(f"serving {args.jobs} at {where}; Ctrl-C ends it")

    stop = Stop()
    with (
        process.many_frontiers(),
        _metrics(args.metrics, args.allow_host, anybody=args.allow_anybody) as metrics,
        stopped_by_signals(stop.ask),
    ):
        whole = server.serve(
            args.jobs,
            settings,
            listen=args.listen,
            services=[service.URLFRONTIER, frontier_service.FRONTIER],
            pool=POOL,
            tls=None if args.tls is None else server.Tls(*args.tls),
            token=token,
            anybody=args.allow_anybody,
            close_after=args.close_after,
            metrics=metrics,
            started=started,
            stop=stop,
        )
    return 0 if whole else 1


@contextmanager
def _metrics(listen: str | None, names: list[str], *, anybody: bool) -> Iterator[ServingMetrics | None]:
    """Hold the socket of --metrics, if it is given, before anything is opened."""
    if listen is None:
        if names:
            raise FrontierError("--allow-host is for --metrics, which is not given")
        yield None
        return
    try:
        from budgetfrontier.reports.metrics_server import MetricsServer
        from budgetfrontier.service import server_metrics
    except ModuleNotFoundError as error:
        raise MissingExtra("console") from error
    with closing(MetricsServer(listen, names=names, anybody=anybody)) as served:
        yield lambda crawls, stats: served.serving_in_thread(server_metrics.exposition(crawls, stats).answer)
