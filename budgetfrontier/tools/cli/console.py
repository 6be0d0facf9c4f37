"""The command `console`: pages of running and stopped jobs for a browser."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from budgetfrontier.tools.cli import common, server_options
from budgetfrontier.tools.cli.common import Commands, add_command
from budgetfrontier.tools.cli.job_listing import folders
from budgetfrontier.tools.cli.sentences import note


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "console",
        console,
        "show jobs in a browser, and steer them",
        more="Read-only unless --token-file or --tokens is given. Needs the extra 'console'.",
    )
    parser.add_argument(
        "jobs",
        metavar="JOB",
        type=common.job,
        nargs="+",
        help="a job's folder, or a folder of jobs, such as that of a server; the jobs may be running",
    )
    parser.add_argument(
        "--cluster", metavar="URL",
        help="instead of JOB, a crawl in partitions: kafka://HOST:PORT,.../CRAWL; the token of its workers is in the "
        "environment variable BUDGETFRONTIER_TOKEN",
    )  # fmt: skip
    parser.add_argument(
        "--tls-ca", default=None, metavar="FILE",
        help="with --cluster: the workers have TLS, and this file the certificates that sign theirs; `system`: those "
        "that the system trusts",
    )  # fmt: skip
    common.add_config(
        parser, "with --cluster: the configuration of its workers, whose `cluster.snapshots` are simulated, and whose "
        "`alerts` are shown with --state"
    )  # fmt: skip
    parser.add_argument(
        "--state", type=Path, default=None, metavar="FILE",
        help="with --cluster: where its alerts are kept, as `alerts --watch` has it, to show them",
    )  # fmt: skip
    parser.add_argument(
        "--listen", type=common.address, default="127.0.0.1:8089", metavar="WHERE",
        help="ADDRESS:PORT, or unix:PATH for a socket of its owner (default: 127.0.0.1:8089); other machines are "
        "answered only with --token-file or --tokens",
    )  # fmt: skip
    parser.add_argument(
        "--token-file", type=Path, default=None, metavar="FILE",
        help="a file with a token of at least 16 characters, without which nothing is shown, and with which jobs can "
        "be steered; it is read again when it has changed",
    )  # fmt: skip
    parser.add_argument(
        "--tokens", type=Path, default=None, metavar="FILE",
        help="a file of tokens with names, which the audit gets, and roles, as `budgetfrontier token` writes it; "
        "besides --token-file or instead of it",
    )  # fmt: skip
    server_options.add_anybody(parser, "an address that other machines reach needs no token")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="a name under which the console is reached, such as that of a proxy before it, repeatable",
    )  # fmt: skip


def console(args: argparse.Namespace) -> None:
    """Serve the pages until it is stopped."""
    from budgetfrontier.errors import MissingExtra

    try:
        from budgetfrontier.tools.console.console_server import serve
        from budgetfrontier.tools.console.jobs import named
    except ModuleNotFoundError as error:
        raise MissingExtra("console") from error
    options: dict[str, Any] = {
        "listen": args.listen,
        "token_file": args.token_file,
        "tokens": args.tokens,
        "anybody": args.allow_anybody,
        "hosts": args.allow_host,
        "started": lambda where: note(f"the console listens on {where}; Ctrl-C ends it"),
    }
    if any(isinstance(job, common.ClusterUrl) for job in args.jobs):
        _serve_cluster(args, options)
    elif of_partitions := [option for option in ("tls_ca", "config", "state") if getattr(args, option) is not None]:
        option = f"--{of_partitions[0].replace('_', '-')}"
        args.parser.error(f"{option} is for a crawl in partitions: give it with --cluster")
    else:
        serve(named([(job, common.frontier_path(job)) for job in folders(args.jobs)]), **options)


def _serve_cluster(args: argparse.Namespace, options: dict[str, Any]) -> None:
    from budgetfrontier.cluster.operators.owner_calls import SOON
    from budgetfrontier.tools.cli import clusters
    from budgetfrontier.tools.cli.alerts import files_of
    from budgetfrontier.tools.console.console_server import serve
    from budgetfrontier.tools.console.pages.partitioned import PAGES
    from budgetfrontier.tools.console.partitioned_job import PartitionedJob

    if len(args.jobs) > 1:
        args.parser.error("a console shows one crawl in partitions, and nothing else: start one for each")
    (args.job,) = (url,) = args.jobs
    workers = None if args.config is None else common.settings_of_workers(args, "")
    files = None if args.state is None else files_of(args)
    with (
        clusters.connected(url, tls_ca=args.tls_ca, patience=SOON) as first,
        clusters.connected(url, tls_ca=args.tls_ca) as second,
    ):
        words = ["--cluster", str(url), *(() if args.tls_ca is None else ("--tls-ca", args.tls_ca))]
        job = PartitionedJob(first.job, first, second, words, workers=workers, alert_files=files)
        serve([job], pages=PAGES, **options)
