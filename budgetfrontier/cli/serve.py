"""The command `serve`: a frontier for crawlers in other processes and languages, by the API of URLFrontier."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from budgetfrontier.cli import common
from budgetfrontier.cli.common import Commands, add_command
from budgetfrontier.cli.messages import note


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "serve",
        serve,
        "share frontiers with crawlers in other processes, by the API of URLFrontier",
        more="Each crawlID is a job's folder in JOBS, with a frontier of its own: the other commands work on it, also "
        "while it is served. Needs the extra 'grpc'.",
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
    parser.add_argument(
        "--tls", type=Path, nargs=2, default=None, metavar=("CERTIFICATE", "KEY"),
        help="files with the certificate chain and its private key, in PEM",
    )  # fmt: skip
    parser.add_argument(
        "--token-file", type=Path, default=None, metavar="FILE",
        help="a file with a token, which clients then have to send as `authorization: Bearer TOKEN`",
    )  # fmt: skip
    parser.add_argument(
        "--close-after", type=common.duration, default=600.0, metavar="TIME",
        help="close a crawl that nobody has used for so long; it is opened again when it is used (default: 10m; 0: "
        "never)",
    )  # fmt: skip


def serve(args: argparse.Namespace) -> None:
    """Serve until SIGINT or SIGTERM."""
    from budgetfrontier.errors import FrontierError, MissingExtra
    from budgetfrontier.settings import Settings

    try:
        from budgetfrontier import protocol
        from budgetfrontier.service import frontier_service, process, server
        from budgetfrontier.urlfrontier import methods, service
        from budgetfrontier.urlfrontier.urlfrontier_pb2 import POOL
    except ModuleNotFoundError as error:
        raise MissingExtra("grpc") from error
    settings = Settings.from_dict({"profile": "served"}) if args.config is None else Settings.from_yaml(args.config)
    token = None if args.token_file is None else args.token_file.read_text(encoding="utf-8").strip()
    if token == "":
        raise FrontierError(f"{args.token_file} is empty; write a token into it")
    process.prepare()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    server.serve(
        args.jobs,
        settings,
        listen=args.listen,
        services=[
            server.Offered(methods.SERVICE, service.handlers),
            server.Offered(protocol.SERVICE, frontier_service.handlers),
        ],
        pool=POOL,
        tls=None if args.tls is None else server.Tls(*args.tls),
        token=token,
        close_after=args.close_after,
        started=lambda where: note(f"serving {args.jobs} at {where}; Ctrl-C ends it"),
        stop=stop,
    )
