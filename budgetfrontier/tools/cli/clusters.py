"""Commands on a crawl in partitions: which there are, the connection to it, and partitions that do not answer."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from budgetfrontier.cluster import owner_calls
from budgetfrontier.cluster.operator_client import Operator
from budgetfrontier.connections import shown
from budgetfrontier.core.endpoints import tokens
from budgetfrontier.errors import MissingExtra
from budgetfrontier.tools.cli import cluster_show, cluster_steer
from budgetfrontier.tools.cli.common import ClusterUrl, naming_options
from budgetfrontier.tools.cli.exits import ERROR
from budgetfrontier.tools.cli.sentences import note

RETRY_FOR = 5.0
"""Seconds for which a command looks for the owner of any partition."""
_PATIENT = ("import",)
"""Commands whose calls are those of a client: each is waited for, since whoever repeats it sees duplicates."""

_QUEUE_COMMANDS = ("retire", "unretire", "snooze", "wake", "set-queue")
_CRAWL_COMMANDS = ("pause", "resume", "terminate")

COMMANDS: dict[str, Callable[[argparse.Namespace, Operator], int | None]] = {
    "partitions": cluster_show.partitions,
    "report": cluster_show.report,
    "queues": cluster_show.queues,
    "queue": cluster_show.queue,
    "explain": cluster_show.explain,
    "audit": cluster_show.audit,
    "leases": cluster_show.leases,
    "dead-letters": cluster_steer.dead_letters,
    "delete": cluster_steer.delete,
    "undo": cluster_steer.undo,
    "import": cluster_steer.import_,
    "adjust": cluster_steer.adjust,
    **{name: partial(cluster_steer.steer_queue, name.replace("-", "_")) for name in _QUEUE_COMMANDS},
    **{name: partial(cluster_steer.steer_crawl, name) for name in _CRAWL_COMMANDS},
}
"""The commands that work on a crawl in partitions."""

_INSTEAD = {
    "crawl": "start `budgetfrontier worker` with `cluster.kafka` in the settings, and crawlers that use it",
    "backup": "its logs on Kafka are what is to be kept: back those up with Kafka's own tools",
    "compact": "stop a worker and delete the folder of a partition there: it is rebuilt from its log",
    "verify": "stop the worker, and give JOB as the folder of a partition there, FOLDER/partition-NNNN",
    "export": "give JOB as the folder of a partition on a worker, FOLDER/partition-NNNN, for each of them",
    "removed": "what is deleted there is not kept",
    "runs": "`partitions` lists who has each partition now",
    "top": "`report` and `partitions` tell the same, once",
}


def run(args: argparse.Namespace) -> int:
    """Run a command on the crawl in partitions that `args.job` names; 1 if an owner has not answered."""
    if args.command not in COMMANDS:
        known = ", ".join(sorted(COMMANDS))
        instead = _INSTEAD.get(args.command, f"the commands for one are {known}")
        args.parser.error(f"{args.command} does not work on a crawl in partitions: {instead}")
    command = COMMANDS[args.command]
    timeout = None if args.command in _PATIENT else owner_calls.SIGN_OF_LIFE
    with connected(args.job, token_file=args.token_file, tls_ca=args.tls_ca, timeout=timeout) as operator:
        code = command(args, operator) or 0
        if operator.missing:
            note(operator.without_owner(operator.missing))
            return ERROR
    return code


@contextmanager
def connected(
    job: ClusterUrl,
    *,
    token_file: Path | None = None,
    tls_ca: str | None = None,
    timeout: float | None = owner_calls.SIGN_OF_LIFE,
) -> Iterator[Operator]:
    """Connect to a crawl in partitions; `timeout` is that of its client. Raises FrontierError and BusError."""
    try:
        from budgetfrontier.cluster import kafka
        from budgetfrontier.cluster.client import ClusterFrontier
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
    ):
        yield Operator(frontier, job=shown(str(job)), ends=ends)


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
