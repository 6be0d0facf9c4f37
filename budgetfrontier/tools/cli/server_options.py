"""Programs that run for long: the options for who may connect, metrics and the format of the log, and their garbage."""

from __future__ import annotations

import argparse
import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from budgetfrontier.core.endpoints.addresses import ANYBODY
from budgetfrontier.errors import MissingExtra
from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.common import JSON
from budgetfrontier.tools.cli.exits import OK, exit_code

if TYPE_CHECKING:
    from budgetfrontier.reports.metrics_server import MetricsServer

_OBJECTS = 10_000  # more than there were, at which garbage is collected; Python's default is 700


def add_server_access(parser: argparse.ArgumentParser) -> None:
    """Add the options of a server that say who may connect."""
    parser.add_argument(
        "--tls", type=Path, nargs=2, default=None, metavar=("CERTIFICATE", "KEY"),
        help="files with the certificate chain and its private key, in PEM",
    )  # fmt: skip
    parser.add_argument(
        "--token-file", type=Path, default=None, metavar="FILE",
        help="a file with a token of at least 16 characters, which clients then have to send as `authorization: Bearer "
        "TOKEN`; it is read again when it has changed",
    )  # fmt: skip
    add_anybody(parser, "an address of --listen that other machines reach needs neither --token-file nor --tls")


def add_anybody(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the option that lets an address be reached by others although nothing protects it."""
    parser.add_argument(ANYBODY, action="store_true", help=f"{what}: only those who may use it can connect to it")


def add_log_format(parser: argparse.ArgumentParser) -> None:
    """Add the option of a program that runs for long, and logs what happens."""
    parser.add_argument(
        "--log-format", choices=("text", JSON), default="text",
        help="what is logged on stderr: `text`, or `json` with one object on each line (default: text)",
    )  # fmt: skip


def add_metrics(parser: argparse.ArgumentParser, when: str = "") -> None:
    """Add the options of the metrics for Prometheus, which are served `when`, or as long as the program runs."""
    parser.add_argument(
        "--metrics", type=common.address, metavar="ADDRESS:PORT", default=None,
        help=f"serve metrics for Prometheus at this address, such as 127.0.0.1:9464, on /metrics{when} (default: none "
        "are served); whoever reaches the address can read them; needs the extra 'console'",
    )  # fmt: skip
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="a name under which Prometheus asks for the metrics, if it is neither an address nor the machine's name, "
        "repeatable",
    )  # fmt: skip


def check_metrics(args: argparse.Namespace) -> None:
    """Exit for --allow-host without --metrics."""
    if args.allow_host and args.metrics is None:
        args.parser.error("--allow-host is for --metrics, which is not given")


def metrics_words(args: argparse.Namespace) -> list[str]:
    """Return the options of the metrics as they were given."""
    words = ["--metrics", args.metrics] if args.metrics else []
    return words + [word for name in args.allow_host for word in ("--allow-host", name)]


@contextmanager
def metrics_server(args: argparse.Namespace) -> Iterator[MetricsServer | None]:
    """Hold the socket of --metrics, if it is given. Raises MissingExtra."""
    if args.metrics is None:
        yield None
        return
    try:
        import prometheus_client  # noqa: F401  # for the answers of the server

        from budgetfrontier.reports.metrics_server import MetricsServer
    except ModuleNotFoundError as error:
        raise MissingExtra("console") from error
    with closing(MetricsServer(args.metrics, names=args.allow_host, anybody=args.allow_anybody)) as server:
        yield server


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely, and look at none of the modules: such a program leaves few cycles, and is alone."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def logged(run: Callable[[argparse.Namespace], int | None], args: argparse.Namespace, log: logging.Logger) -> int:
    """Run a program whose log goes to stderr; return its exit code. In a log in JSON, its error is a line, too."""
    from budgetfrontier.server import log_lines

    with log_lines.on_stderr(as_json=args.log_format == JSON):
        try:
            return run(args) or OK
        except Exception as error:
            code = exit_code(error)
            if args.log_format != JSON or code is None:
                raise
            log.critical("%s", error, extra={"event": "failed"})
            return code
