"""The command `simulate`: what would become of a crawl, with its settings and with others."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from budgetfrontier.tools.cli import common
from budgetfrontier.tools.cli.adjust import add_settings, given_settings, validated
from budgetfrontier.tools.cli.common import ClusterUrl, Commands, add_command, add_job
from budgetfrontier.tools.cli.exits import OK
from budgetfrontier.tools.cli.maintain import size
from budgetfrontier.tools.cli.sentences import note, say
from budgetfrontier.tools.cli.signals import stopped_by_signals

if TYPE_CHECKING:
    from budgetfrontier.rules.simulation import Simulated, SimulationRequest, Step
    from budgetfrontier.tools.simulation.simulation_process import Steps

_EVERY = 5.0  # seconds between two lines of progress, where there is no terminal
_BAR, _CODES = 24, 4  # characters of the bar, and of the codes before it that are not seen
_LEAST_SHARE = 0.01  # that tells how long the rest takes


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = add_command(
        commands,
        "simulate",
        simulate,
        "simulate how a crawl goes on, with its settings and with others",
        more="The engine crawls a copy of the frontier in simulated time; nothing is fetched, and the job is not "
        "changed. Outcomes, durations, sizes and links are drawn from what the crawl has seen of each host. With "
        "--set, the crawl as it is is simulated as well, beside it.",
    )
    add_job(parser, cluster=True)
    common.add_config(
        parser, "with --cluster: the configuration of the workers, whose `cluster.snapshots` are simulated"
    )
    add_settings(parser, "a setting as in `adjust`, repeatable: queue_total_budget=500")
    parser.add_argument("--match", default="*", metavar="PATTERN", help="for which URIs, as in `adjust` (default: all)")
    parser.add_argument("--cost-policy", metavar="POLICY", help="short for --set cost_policy=POLICY")
    parser.add_argument(
        "--until", type=_until, default=None, metavar="DURATION",
        help="the time to simulate, such as 12h; `finish`: until the crawl ends (default: finish)",
    )  # fmt: skip
    parser.add_argument(
        "--fetchers", type=_positive, default=None, metavar="N", help="fetches at a time (default: fetch.concurrency)"
    )
    parser.add_argument(
        "--max-fetches", type=_positive, default=None, metavar="N",
        help="end after so many fetches at the latest (default: 5,000,000)",
    )  # fmt: skip
    parser.add_argument(
        "--draws", type=_draws, default=None, metavar="N",
        help="the number of simulations, one after the other, each with other random draws (default: 3, at most 100)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=common.count, default=0, metavar="N", help="the seed of the random draws (default: 0)"
    )
    parser.add_argument(
        "--limit-memory", type=size, default=None, metavar="SIZE",
        help="the most memory for the copies; others are made in TMPDIR (default: half of what is available)",
    )  # fmt: skip
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to print it (default: text)")
    parser.set_defaults(usage=parser.error, cluster_only=("token_file", "tls_ca", "config"))


def simulate(args: argparse.Namespace) -> int:
    """Simulate a crawl, and print what has happened."""
    from budgetfrontier.reports import simulation_results
    from budgetfrontier.rules.simulation import DRAWS, MOST_FETCHES, SimulationRequest

    asked = SimulationRequest(
        changes=_changes(args),
        seconds=args.until,
        fetchers=args.fetchers,
        most=args.max_fetches or MOST_FETCHES,
        seed=args.seed,
        draws=args.draws or DRAWS,
        memory=args.limit_memory,
    )
    with stopped_by_signals(_interrupt), _progress() as steps:
        found = _of_partitions(args, asked, steps) if isinstance(args.job, ClusterUrl) else _of_job(args, asked, steps)
    if args.format == "json":
        names = ("today", "proposed")
        json.dump({name: one.plain() for name, one in zip(names, found, strict=False)}, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return OK
    for line in _table(simulation_results.table(found)):
        say(line)
    for sentence in filter(None, (*simulation_results.rests(found), simulation_results.new_hosts(found))):
        say(sentence)
    return OK


def _of_job(args: argparse.Namespace, asked: SimulationRequest, steps: Steps) -> list[Simulated]:
    with common.job_operator(args) as operator:
        return operator.simulate(asked, say=note, steps=steps)


def _of_partitions(args: argparse.Namespace, asked: SimulationRequest, steps: Steps) -> list[Simulated]:
    from budgetfrontier.tools.simulation.partitions_simulation import simulate_partitions

    settings = common.settings_of_workers(
        args, "a crawl in partitions is simulated from its snapshots: give --config FILE, that of its workers"
    )
    return simulate_partitions(settings, asked, note, steps)


def _interrupt(name: str) -> NoReturn:
    """End the simulations on any signal to stop, so that their copies are removed."""
    raise KeyboardInterrupt(name)


def _changes(args: argparse.Namespace) -> list[tuple[str, dict[str, Any]]]:
    """Return the adjustments that are asked for."""
    settings = given_settings(args, cost_policy=args.cost_policy)
    if not settings:
        if args.match != "*":
            args.usage("--match is for --set: which URIs the settings are for")
        return []
    override = validated(args.match, settings)
    return [(override.match, override.set)]


def _until(text: str) -> float | None:
    return None if text == "finish" else common.duration(text)


def _positive(text: str) -> int:
    return common.whole(text, 1)


def _draws(text: str) -> int:
    from budgetfrontier.rules.simulation import MOST_DRAWS

    return common.whole(text, 1, MOST_DRAWS)


@contextmanager
def _progress() -> Iterator[Callable[[Sequence[Step]], None]]:
    """Return a function that shows how far simulations are: as a bar on a terminal, else in a line at intervals."""
    live, begun = sys.stderr.isatty(), time.monotonic()
    shown = begun

    def steps(done: Sequence[Step]) -> None:
        nonlocal shown
        now = time.monotonic()
        if not live and now - shown < _EVERY:
            return
        shown = now
        line = _how_far(done, now - begun)
        if live:
            share = min(step.share for step in done)
            bar = "#" * int(share * _BAR)
            sys.stderr.write(f"\r\x1b[K[{bar.ljust(_BAR)}] {line}"[: shutil.get_terminal_size().columns + _CODES])
            sys.stderr.flush()
        else:
            note(line)

    try:
        yield steps
    finally:
        if live:
            sys.stderr.write("\r\x1b[K")


def _how_far(done: Sequence[Step], taken: float) -> str:
    """Return how far simulations are that have taken so many seconds, and about how long they will take."""
    from budgetfrontier.core.units import counted, describe_duration
    from budgetfrontier.reports.format import percent

    share = min(step.share for step in done)
    left = f", about {describe_duration(taken / share - taken)} left" if share >= _LEAST_SHARE else ""
    each = (f"{counted(step.fetches, 'fetch', 'fetches')} in {describe_duration(step.seconds)}" for step in done)
    return f"{percent(share)}{left}: simulated {' | '.join(each)}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, its columns beside each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *values in rows:
        cells = "  ".join(value.rjust(width) for value, width in zip(values, widths[1:], strict=True))
        yield f"{name.ljust(widths[0])}  {cells}"
