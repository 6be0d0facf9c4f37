"""The command `bus-broker`: the broker of a message bus over ZeroMQ."""

from __future__ import annotations

import argparse
import threading
from pathlib import Path

from budgetfrontier.core.units import counted
from budgetfrontier.tools.cli.common import Commands, add_command
from budgetfrontier.tools.cli.sentences import note
from budgetfrontier.tools.cli.server_options import add_anybody
from budgetfrontier.tools.cli.signals import stopped_by_signals


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "bus-broker",
        broker,
        "run the broker of a message bus over ZeroMQ",
        more="Spiders and workers may be started before or after it. Messages are kept in memory, and in the file "
        "JOURNAL, with which a broker goes on after it was stopped or killed. It is for trials, and for crawls on one "
        "machine: one process, without replicas and tokens. Needs the extra 'zmq'.",
    )
    parser.add_argument(
        "journal", metavar="JOURNAL", type=Path, help="the file of the journal; it is created if need be"
    )
    parser.add_argument(
        "--listen", default="tcp://127.0.0.1:5550", metavar="WHERE",
        help="tcp://ADDRESS:PORT, or ipc://PATH for a socket (default: tcp://127.0.0.1:5550)",
    )  # fmt: skip
    add_anybody(parser, "an address that other machines reach may be used by anybody there, for there are no tokens")


def broker(args: argparse.Namespace) -> None:
    """Run until SIGINT, SIGTERM or SIGHUP."""
    from budgetfrontier.bus.zeromq import broker_server  # which raises MissingExtra

    stop = threading.Event()

    def started(address: str, dropped: int) -> None:
        if dropped:
            note(f"{args.journal}: the last record was cut off; {counted(dropped, 'byte')} dropped")
        note(f"message bus at zmq+{address}, journal {args.journal}; Ctrl-C ends it")

    with stopped_by_signals(lambda _: stop.set()):
        broker_server.serve(args.listen, args.journal, anybody=args.allow_anybody, started=started, stop=stop)
