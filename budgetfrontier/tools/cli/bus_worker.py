"""The command `bus-worker`: a worker at one end of a message bus."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetfrontier.errors import SettingsError, WrongAddress
from budgetfrontier.tools.cli import common, server_options
from budgetfrontier.tools.cli.common import Commands, add_command
from budgetfrontier.tools.cli.signals import stopped_by_signals

if TYPE_CHECKING:
    from budgetfrontier.bus.codecs.codec import Codec
    from budgetfrontier.bus.interface import Bus
    from budgetfrontier.bus.patience import Patience
    from budgetfrontier.bus.streams import Streams
    from budgetfrontier.bus.workers.loop import BusWorker
    from budgetfrontier.settings import Settings

BUS = "zmq+tcp://127.0.0.1:5550"
"""The one of `connect`, whose module needs packages that `--help` does without."""
DB, STRATEGY = "db", "strategy"

log = logging.getLogger("budgetfrontier.workers")


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "bus-worker",
        work,
        "run a database worker or a strategy worker at a message bus, as Frontera's",
        more="A database worker keeps a frontier in JOB/frontier, on which the other commands work, also while it "
        "runs; a strategy worker needs no JOB. Workers, spiders and the broker may be started in any order. SIGINT, "
        "SIGTERM and SIGHUP end a worker after the step in progress, or within seconds if the broker does not answer; "
        "a second one at once: nothing is lost.",
    )
    parser.add_argument(
        "job", metavar="JOB", type=Path, nargs="?", default=None, help="the folder of the job of a database worker"
    )
    parser.add_argument("--role", choices=(DB, STRATEGY), required=True, help="what the worker does")
    parser.add_argument("--bus", default=BUS, metavar="URL", help=f"the message bus (default: {BUS})")
    parser.add_argument(
        "--config", type=Path, default=None, metavar="FILE",
        help="a crawl in YAML: its section `frontier` is for the database worker, `seeds` and `scope` are for the "
        "strategy worker",
    )  # fmt: skip
    parser.add_argument(
        "--codec", default="msgpack", metavar="NAME",
        help="`msgpack`, `json`, or a module with Encoder and Decoder (default: msgpack)",
    )  # fmt: skip
    parser.add_argument(
        "--prefix", default="frontier", metavar="NAME",
        help="what the names of the streams begin with, different for each crawl on a bus (default: frontier)",
    )  # fmt: skip
    parser.add_argument(
        "--spider-log-partitions", type=_positive, default=1, metavar="N",
        help="partitions of the spider log and the scoring log: the most workers of a role (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--spider-feed-partitions", type=_positive, default=1, metavar="N",
        help="partitions of the spider feed: the most spiders (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--partition", type=common.count, action="append", default=[], metavar="N",
        help="a partition of the spider log for this worker, from 0, repeatable (default: for a database worker all, "
        "for a strategy worker a share of them)",
    )  # fmt: skip
    parser.add_argument(
        "--batch", type=_positive, default=512, metavar="N",
        help="messages of a log that are handled at a time (default: 512)",
    )  # fmt: skip
    parser.add_argument(
        "--max-next-requests", type=_positive, default=64, metavar="N",
        help="requests in a partition of the spider feed that no spider has taken, from which on a database worker "
        "sends no more to it (default: 64)",
    )  # fmt: skip
    parser.add_argument(
        "--strategy", default="budgetfrontier.bus.workers.strategies:BreadthFirst", metavar="MODULE:NAME",
        help="the strategy: a class, or an object, or a class of Frontera 0.8 (default: breadth first)",
    )  # fmt: skip
    parser.add_argument(
        "-a", "--argument", action="append", default=[], metavar="NAME=VALUE",
        help="an argument of the class of the strategy, repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--job-id", type=common.count, default=0, metavar="N",
        help="the number of the job, for a strategy worker: what belongs to lower ones is ignored from now on "
        "(default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--statistics-every", type=common.duration, default=60.0, metavar="TIME",
        help="send counters to the stream of statistics so often (default: 60s; 0: never)",
    )  # fmt: skip
    server_options.add_log_format(parser)


def _positive(text: str) -> int:
    return common.whole(text, 1)


def work(args: argparse.Namespace) -> int:
    """Run until SIGINT or SIGTERM."""
    if (args.role == DB) != (args.job is not None):
        args.parser.error("JOB is the folder of a database worker, which needs one; a strategy worker has none")
    return server_options.logged(_work, args, log)


def _work(args: argparse.Namespace) -> None:
    from budgetfrontier.bus.codecs.codec import Codec
    from budgetfrontier.bus.connect import connect, shown
    from budgetfrontier.bus.patience import Patience
    from budgetfrontier.bus.streams import streams
    from budgetfrontier.bus.workers import loop
    from budgetfrontier.settings import Settings

    if outside := [number for number in args.partition if number >= args.spider_log_partitions]:
        raise SettingsError(
            f"--partition {outside[0]}: partitions are numbered from 0, and --spider-log-partitions is "
            f"{args.spider_log_partitions}"
        )
    settings = None if args.config is None else Settings.from_yaml(args.config)
    codec = Codec(args.codec)
    names = streams(
        prefix=args.prefix,
        spider_log_partitions=args.spider_log_partitions,
        spider_feed_partitions=args.spider_feed_partitions,
    )
    patience = Patience(log.warning)
    stop = _SignalStop(patience)
    make = _database_worker if args.role == DB else _strategy_worker
    signals = stopped_by_signals(stop.ask)
    try:
        bus = connect(args.bus, patience=patience)
    except (SettingsError, WrongAddress) as error:
        args.parser.error(f"argument --bus: {error}")
    with (
        closing(bus),
        signals,
        make(args, settings, bus, names, codec) as worker,
    ):
        where = shown(args.bus)
        log.info("%s worker at %s; Ctrl-C ends it", args.role, where, extra={"event": "started", "bus": where})
        try:
            loop.run(worker, bus, names, codec, every=args.statistics_every, stopped=stop.wait)
        finally:
            worker.close()
        log.info("stopped", extra={"event": "stopped"})


@contextmanager
def _database_worker(
    args: argparse.Namespace, settings: Settings | None, bus: Bus, names: Streams, codec: Codec
) -> Iterator[BusWorker]:
    from budgetfrontier.bus.workers.database import DatabaseWorker
    from budgetfrontier.engine.frontier import Frontier
    from budgetfrontier.rules.run_history import BUS_WORKER
    from budgetfrontier.settings.seed_settings import with_seed_settings
    from budgetfrontier.storage.start_command import note_bus_worker

    _check_job(args, settings, names)
    settings = None if settings is None else with_seed_settings(settings)
    with Frontier.open(args.job / "frontier", settings, keep_leases=True, program=BUS_WORKER) as own:
        note_bus_worker(args.job, _options(args))
        yield DatabaseWorker(
            own,
            bus,
            names,
            codec,
            partitions=args.partition,
            max_next_requests=args.max_next_requests,
            batch=args.batch,
        )


def _check_job(args: argparse.Namespace, settings: Settings | None, names: Streams) -> None:
    """Raise for the frontier of another crawl or of other partitions, before opening it stores the settings there."""
    from budgetfrontier.bus.workers import note
    from budgetfrontier.crawler.resuming import check_name
    from budgetfrontier.errors import FrontierError, NotAFrontier
    from budgetfrontier.rules.run_history import CRAWL
    from budgetfrontier.storage.reader import Reader

    try:
        with Reader(args.job / "frontier") as reader:
            stored, found = reader.settings, reader.note()
            crawled = any(run.program == CRAWL for run in reader.runs())
    except NotAFrontier:  # it is made now
        return
    if crawled:
        raise FrontierError(f"{args.job} is the job of `{CRAWL}`, which goes on with it: give the worker another JOB")
    if settings is not None:
        remedy = f"give the worker another JOB, or, if it is to go on with this one, set `crawl: {stored.crawl}` there"
        check_name(stored, settings, args.job, remedy=remedy)
    note.opened(found, names.spider_log, args.partition)


def _options(args: argparse.Namespace) -> list[str]:
    """Return the options of the command that starts the worker again; a bus with passwords or properties is URL."""
    from budgetfrontier.bus.connect import shown

    given = {
        "bus": args.bus if shown(args.bus) == args.bus else "URL",
        "config": args.config and args.config.absolute(),
    }
    names = ("codec", "prefix", "spider_log_partitions", "spider_feed_partitions", "batch", "max_next_requests")
    given |= {name: getattr(args, name) for name in names}
    words = ["--role", DB]
    for name, value in given.items():
        words += [] if value == args.parser.get_default(name) else [f"--{name.replace('_', '-')}", str(value)]
    return words + [word for number in args.partition for word in ("--partition", str(number))]


@contextmanager
def _strategy_worker(
    args: argparse.Namespace, settings: Settings | None, bus: Bus, names: Streams, codec: Codec
) -> Iterator[BusWorker]:
    from budgetfrontier.bus.workers.strategy import StrategyWorker
    from budgetfrontier.bus.workers.uri_conversion import seed_request
    from budgetfrontier.crawler.seeds import each_seed
    from budgetfrontier.rules.scope import Scope

    worker = StrategyWorker(
        _strategy(args.strategy, args.argument),
        bus,
        names,
        codec,
        partitions=args.partition,
        scope=None if settings is None else Scope(settings.scope),
        job=args.job_id,
        batch=args.batch,
    )
    if settings is not None:
        worker.add_seeds(seed_request(url, seed) for url, seed in each_seed(settings))
    yield worker


def _strategy(reference: str, arguments: list[str]) -> Any:
    """Return the object that is named, or an instance of the class. Raises SettingsError."""
    from budgetfrontier.bus.workers.frontera_strategy import FronteraStrategy, is_fronteras
    from budgetfrontier.bus.workers.strategies import check
    from budgetfrontier.settings import plugins

    found = plugins.load(reference)
    options = dict(argument.partition("=")[::2] for argument in arguments)
    if not isinstance(found, type):
        if options:
            raise SettingsError(f"{reference} is no class, and takes no arguments")
        return found
    fronteras = is_fronteras(found)
    if not fronteras:
        check(found)  # before it is made: Frontera's constructors take other arguments
    try:
        return FronteraStrategy(found, options) if fronteras else found(**options)
    except Exception as error:  # the code may be the user's
        raise SettingsError(f"{reference} cannot be made: {type(error).__name__}: {error}") from error


class _SignalStop:
    """The wish to stop, of a signal; the second raises KeyboardInterrupt, which loses nothing either."""

    def __init__(self, patience: Patience) -> None:
        from budgetfrontier.server.stopping import Stop

        self._stop, self._asked, self._signals, self._patience = Stop(), False, 0, patience

    def wait(self, seconds: float) -> bool:
        """Wait for it so many seconds; return whether it is there."""
        self._asked = self._asked or self._stop.wait(seconds) is not None
        return self._asked

    def ask(self, name: str) -> None:
        """Ask for it by the name of a signal."""
        self._signals += 1
        self._patience.stop(at_once=self._signals > 1)
        if self._signals > 1:
            raise KeyboardInterrupt
        self._stop.ask(name)
