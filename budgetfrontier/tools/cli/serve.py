"""The command `serve`: a frontier for crawlers in other processes and languages, by the API of URLFrontier."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from budgetfrontier.core.endpoints.addresses import ANYBODY
from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.errors import MissingExtra
from budgetfrontier.tools.cli import common, server_options
from budgetfrontier.tools.cli.common import Commands, add_command
from budgetfrontier.tools.cli.sentences import note
from budgetfrontier.tools.cli.signals import stopped_by_signals

if TYPE_CHECKING:
    from budgetfrontier.reports.metrics_server import MetricsServer
    from budgetfrontier.server.server import ServingMetrics

LISTEN = "127.0.0.1:7071"
"""The address that is served by default."""
CLOSE_AFTER = 600.0
"""Seconds after which a crawl that nobody uses is closed by default."""

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
        "--listen", type=common.address, default=LISTEN, metavar="WHERE",
        help=f"ADDRESS:PORT, or unix:PATH for a socket (default: {LISTEN})",
    )  # fmt: skip
    parser.add_argument(
        "--config", type=Path, default=None, metavar="FILE",
        help="the settings of crawls that are created (default: the profile 'served'); those that exist keep theirs. "
        "Without `frontier.keep_urls`, the RPCs of URLFrontier that put, hand out or need all URLs are refused",
    )  # fmt: skip
    server_options.add_server_access(parser)
    parser.add_argument(
        "--close-after", type=common.duration, default=CLOSE_AFTER, metavar="TIME",
        help="close a crawl that nobody has used for so long; it is opened again when it is used (default: 10m; 0: "
        "never)",
    )  # fmt: skip
    server_options.add_log_format(parser)
    server_options.add_metrics(parser)


def serve(args: argparse.Namespace) -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP."""
    return server_options.logged(_serve, args, log)


def _serve(args: argparse.Namespace) -> int:
    from budgetfrontier.settings import Settings
    from budgetfrontier.storage.start_command import note_server

    try:
        from budgetfrontier.server import frontier_service, process_limits, server
        from budgetfrontier.server.stopping import Stop
        from budgetfrontier.server.urlfrontier import service
        from budgetfrontier.server.urlfrontier.urlfrontier_pb2 import POOL
    except ModuleNotFoundError as error:
        raise MissingExtra("grpc") from error
    server_options.check_metrics(args)
    settings = Settings.from_dict({"profile": "served"}) if args.config is None else Settings.from_yaml(args.config)
    token = None if args.token_file is None else TokenFile(args.token_file)

    def started(where: str) -> None:
        note_server(args.jobs, _options(args))
        if args.log_format == common.JSON:
            fields = {"event": "started", "jobs": str(args.jobs), "address": where}
            log.info("serving %s at %s", args.jobs, where, extra=fields)
        else:
            note(f"serving {args.jobs} at {where}; Ctrl-C ends it")

    stop = Stop()
    with (
        process_limits.many_frontiers(),
        server_options.rare_collections(),
        server_options.metrics_server(args) as metrics,
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
            metrics=None if metrics is None else _serving_metrics(metrics),
            started=started,
            stop=stop,
        )
    return 0 if whole else 1


def _options(args: argparse.Namespace) -> list[str]:
    """Return the options of the command that serves again, as they were given; files by their whole paths."""
    listen: str = args.listen
    if listen.startswith("unix:"):
        listen = f"unix:{Path(listen.removeprefix('unix:')).absolute()}"
    words = [] if listen == LISTEN else ["--listen", listen]
    for option, path in (("--config", args.config), ("--token-file", args.token_file)):
        words += [] if path is None else [option, str(path.absolute())]
    words += [] if args.tls is None else ["--tls", *(str(path.absolute()) for path in args.tls)]
    words += [ANYBODY] if args.allow_anybody else []
    words += [] if args.close_after == CLOSE_AFTER else ["--close-after", f"{args.close_after:g}s"]
    words += [] if args.log_format == "text" else ["--log-format", args.log_format]
    return words + server_options.metrics_words(args)


def _serving_metrics(served: MetricsServer) -> ServingMetrics:
    from budgetfrontier.server import server_metrics

    return lambda crawls, stats: served.serving_in_thread(server_metrics.exposition(crawls, stats).answer)
