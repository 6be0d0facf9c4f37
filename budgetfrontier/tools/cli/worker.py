"""The command `worker`: some partitions of a crawl that several workers share."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.errors import FrontierError, MissingExtra
from budgetfrontier.tools.cli import common, server_options
from budgetfrontier.tools.cli.common import Commands, add_command
from budgetfrontier.tools.cli.sentences import note
from budgetfrontier.tools.cli.signals import stopped_by_signals

log = logging.getLogger("budgetfrontier.cluster")


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "worker",
        worker,
        "take over partitions of a crawl that several workers share, and serve them",
        more="Workers of one crawl share its partitions among themselves, and take over those of a worker that ends or "
        "dies: all that changes a partition is in its log on Kafka. Crawlers find the worker that has a host by "
        "themselves. Needs the extras 'grpc' and 'kafka'.",
    )
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE",
        help="the settings of the crawl, with the section `cluster`; the same for all workers",
    )  # fmt: skip
    parser.add_argument(
        "--folder", type=Path, default=Path("worker"), metavar="FOLDER",
        help="where this worker keeps its copies of partitions (default: worker)",
    )  # fmt: skip
    parser.add_argument(
        "--listen", type=common.address, default="127.0.0.1:7171", metavar="WHERE",
        help="ADDRESS:PORT, or unix:PATH for a socket (default: 127.0.0.1:7171)",
    )  # fmt: skip
    parser.add_argument(
        "--advertise", type=common.reachable_address, default=None, metavar="ADDRESS:PORT",
        help="the address at which clients reach this worker (default: that of --listen)",
    )  # fmt: skip
    server_options.add_server_access(parser)
    server_options.add_log_format(parser)


def worker(args: argparse.Namespace) -> int:
    """Work until SIGINT, SIGTERM or SIGHUP."""
    return server_options.logged(_work, args, log)


def _work(args: argparse.Namespace) -> int:
    from msgspec.structs import replace

    from budgetfrontier.settings import Settings
    from budgetfrontier.settings.schema import ClusterSettings
    from budgetfrontier.settings.seed_settings import with_seed_settings

    try:
        from budgetfrontier.cluster.directory import kafka
        from budgetfrontier.cluster.workers import worker_process
        from budgetfrontier.server import process_limits, server
        from budgetfrontier.server.stopping import Stop
    except ModuleNotFoundError as error:
        raise MissingExtra("grpc") from error
    settings = with_seed_settings(Settings.from_yaml(args.config))
    if settings.cluster.kafka is None:
        raise FrontierError(f"{args.config}: give `cluster.kafka`, the brokers of the partitions' logs")
    if settings.seeds:
        log.warning(
            "workers schedule no seeds, but their budgets and sheets apply: give them to `budgetfrontier crawl "
            "--frontier`, too, or to `budgetfrontier import`"
        )
    where = kafka.place_of(settings.crawl, settings.cluster.kafka)
    totals = ClusterSettings(max_uris=settings.cluster.max_uris, max_spend=settings.cluster.max_spend)
    stop = Stop()
    with (
        process_limits.many_frontiers(),
        server_options.rare_collections(),
        stopped_by_signals(stop.ask),
        worker_process.own_folder(args.folder),
    ):
        whole = worker_process.work(
            where,
            replace(settings, cluster=totals),
            args.folder,
            cluster=settings.cluster,
            listen=args.listen,
            advertise=args.advertise,
            tls=None if args.tls is None else server.Tls(*args.tls),
            token=None if args.token_file is None else TokenFile(args.token_file),
            anybody=args.allow_anybody,
            started=lambda address: note(f"worker of {settings.crawl} at {address}; Ctrl-C ends it"),
            stop=stop,
        )
    return 0 if whole else 1
