"""Commands on a crawl in partitions: which there are, the connection to it, and partitions that do not answer."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from budgetfrontier.cluster.operators import owner_calls
from budgetfrontier.cluster.operators.cluster_operator import ClusterOperator
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.connections import shown
from budgetfrontier.core.endpoints import tokens
from budgetfrontier.errors import MissingExtra
from budgetfrontier.tools.cli.common import ClusterUrl, naming_options
from budgetfrontier.tools.cli.exits import ERROR, OK
from budgetfrontier.tools.cli.sentences import note

RETRY_FOR = 5.0
"""Seconds for which a command looks for the owner of any partition."""

COMMANDS = (
    "adjust", "alerts", "audit", "compare", "dead-letters", "delete", "explain", "forget", "import", "leases",
    "partitions", "pause", "queue", "queues", "removed", "report", "resume", "retire", "runs", "set-queue", "sheet",
    "simulate", "snooze", "statuses", "terminate", "traps", "undo", "unretire", "wake",
)  # fmt: skip
"""The commands that work on a crawl in partitions."""

_INSTEAD = {
    "crawl": "start `budgetfrontier worker` with `cluster.kafka` in the settings, and crawlers that use it",
    "backup": "its snapshots (cluster.snapshots) and its logs on Kafka are what is to be kept: copy both",
    "compact": "stop a worker and delete the folder of a partition there: it is rebuilt from its log",
    "verify": "stop the worker, and give JOB as the folder of a partition there, FOLDER/partition-NNNN",
    "export": "give JOB as the folder of a partition on a worker, FOLDER/partition-NNNN, for each of them",
    "top": "`report` and `partitions` tell the same, once",
}


def check(args: argparse.Namespace) -> None:
    """Exit for a command that does not work on a crawl in partitions."""
    if args.command not in COMMANDS:
        instead = _INSTEAD.get(args.command, f"the commands for one are {', '.join(COMMANDS)}")
        args.parser.error(f"{args.command} does not work on a crawl in partitions: {instead}")


def run(
    args: argparse.Namespace,
    command: Callable[[argparse.Namespace, ClusterOperator], int | None],
    *,
    timeout: float | None = owner_calls.SIGN_OF_LIFE,
) -> int:
    """Run a command on the crawl in partitions that `args.job` names; 1 if an owner has not answered."""
    with connected(args.job, token_file=args.token_file, tls_ca=args.tls_ca, timeout=timeout) as owners:
        operator = ClusterOperator(owners)
        code = command(args, operator) or OK
        if sentence := operator.unanswered():
            note(sentence)
            return ERROR
        if late := owners.told_late():
            note(late)
    return code


@contextmanager
def connected(
    job: ClusterUrl,
    *,
    token_file: Path | None = None,
    tls_ca: str | None = None,
    timeout: float | None = owner_calls.SIGN_OF_LIFE,
    patience: float | None = None,
) -> Iterator[CrawlOwners]:
    """Connect to a crawl in partitions; `timeout` is that of its client. Raises FrontierError and BusError."""
    try:
        from budgetfrontier.cluster.client import ClusterFrontier
        from budgetfrontier.cluster.directory import kafka
    except ModuleNotFoundError as error:
        raise MissingExtra("grpc") from error
    where = kafka.place_for_clients(str(job))
    token = (None if token_file is None else tokens.read(token_file)) or os.environ.get("BUDGETFRONTIER_TOKEN") or None
    tls: bool | str = False if tls_ca is None else tls_ca == "system" or tls_ca
    directory = kafka.KafkaDirectory(where)

    def ends(partitions: int) -> Mapping[int, int]:
        return kafka.log_ends(where, partitions)

    options: dict[str, Any] = {"token": token, "tls": tls, "retry_for": RETRY_FOR, "timeout": timeout}
    with (
        naming_options({**owner_calls.OPTIONS, "address": "--cluster"}),
        _quiet_clients(),
        ClusterFrontier(where.crawl, directory, **options) as frontier,
        closing(kafka.KafkaDirectory(where)) as table,
    ):
        yield CrawlOwners(
            frontier, job=shown(str(job)), ends=ends, summaries=table.summaries, notices=table.copies, patience=patience
        )


@contextmanager
def _quiet_clients() -> Iterator[None]:
    """Let clients log errors alone: a command says at its end which owners have not answered."""
    clients = logging.getLogger("budgetfrontier.client")
    before = clients.level
    clients.setLevel(logging.ERROR)
    try:
        yield
    finally:
        clients.setLevel(before)
