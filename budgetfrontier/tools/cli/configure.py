"""Commands about settings: `init` and `check-config`."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from budgetfrontier.tools.cli.common import Commands, add_command, folder_name, read_settings, warn, warn_of_adjustments
from budgetfrontier.tools.cli.sentences import note

if TYPE_CHECKING:
    from budgetfrontier.settings import Settings

STARTER = """\
# A crawl within budgets. `budgetfrontier check-config FILE` finds mistakes, `budgetfrontier crawl FILE` runs it.
# What is not set has its default; `budgetfrontier check-config FILE --print` shows everything.
# Durations: 500ms, 3s, 15m, 12h, 2d. Sizes: 64KiB, 10MB, 50GiB.

crawl: my-crawl                       # the name in reports and logs, and of the job's folder

# Where to start.
seeds:
  - https://www.example.org/
  # - {url: https://www.example.net/, priority: 10}
  # - {file: seeds.txt}               # one URL a line

fetch:
  # Say who you are, with a page or an address for those who want you to stop:
  # user_agent: "my-crawler/1.0 (+https://www.example.org/crawler)"
  user_agent: my-crawler/1.0
  concurrency: 32                     # fetches at a time, on different hosts

# Which of the links that are found are followed, and what of other hosts belongs to the pages.
scope:
  accept: [seed-hosts, embeds]        # or seed-domains: their subdomains too; embeds: pictures and styles, on any host
  # reject: ['regex:\\.(zip|exe|iso)$']
  max_hops: 20                        # links between a seed and a page

# When to stop, whatever is left. A limit that is raised lets the crawl go on.
limits:
  max_uris: 1000                      # 0: no limit
  # max_time: 12h
  # max_bytes: 50GiB

# What pages need to be shown again, from an archive.
links:
  favicon: true                       # /favicon.ico of each host, which browsers ask for
  prefer_embeds: true                 # the pictures and styles of a page before its links

# What is kept in the job's folder besides the logs.
output:
  warc: true                          # the pages themselves, as WARC files; false: only what was found

# How often one host is asked, and what it may use up: a fetch costs 1, from its host's budget.
frontier:
  politeness: {delay_factor: 5.0, min_delay: 3s, max_delay: 30s}
  balance_replenish_amount: 3000      # what a host may spend before others have their turn
  queue_total_budget: -1              # what a host may spend in all, which ends traps; -1: no maximum
  # cost_policy: wag                  # what a fetch costs: unit (1), wag (more for query strings), zero, ...
  # pause_at_finish: true             # pause when all is crawled that budgets allow, to look and to raise some
  # retry: {max_retries: 30, delay: 15m}
  # revisit: {after: 7d}              # fetch every page again after a week

# Settings for some hosts. All that match apply in order, later wins.
# overrides:
#   - match: "domain:example.com"
#     set: {queue_total_budget: 100, politeness.min_delay: 10s}
"""


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = add_command(
        commands, "init", init, "write a commented starter configuration", more="Never overwrites a file."
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the YAML file to write")
    parser = add_command(
        commands,
        "check-config",
        check_config,
        "check a configuration without crawling",
        more="Every problem is listed as FILE:LINE:COLUMN, and the exit code is then 4.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the YAML file to check")
    parser.add_argument(
        "--job",
        metavar="DIR",
        type=Path,
        help="the job whose adjustments are compared (default: the crawl's name, here)",
    )
    parser.add_argument("--print", action="store_true", help="print all settings in force, defaults included, as YAML")


def init(args: argparse.Namespace) -> None:
    """Write the starter file."""
    from budgetfrontier.storage.whole_files import naming_file

    with naming_file(args.file), open(args.file, "x", encoding="utf-8") as out:
        try:
            out.write(STARTER)
            out.flush()
        except OSError:  # the disk is full: a partial file would make the next attempt fail
            os.unlink(args.file)
            raise
    check = shlex.join(("budgetfrontier", "check-config", str(args.file)))
    note(f"{args.file} written: set its seeds and user_agent, then check it: {check}")


def _load_crawler(settings: Settings) -> None:
    """Load the SURT files and sinks of a crawl, to find errors. Import only the modules that they need."""
    from budgetfrontier.rules.scope import Scope

    Scope(settings.scope)
    try:
        if settings.output.sinks:
            from budgetfrontier.crawler.outputs.sinks import Sinks

            Sinks(settings.output.sinks)
    except ModuleNotFoundError:  # without the extra `crawl`
        return


def _bad_seeds(settings: Settings) -> Iterator[str]:
    """Yield the invalid lines of seed files, at most a hundred, and the treatment of metadata in them."""
    from budgetfrontier.crawler.seeds import bad_lines, metadata_notes
    from budgetfrontier.settings.problems import MOST_PROBLEMS

    yield from islice(bad_lines(settings.seeds), MOST_PROBLEMS)
    yield from metadata_notes(settings.seeds)


def _print(settings: Settings) -> None:
    """Print all settings as YAML that loads as the same settings, with units."""
    import yaml

    from budgetfrontier.settings.quantities import with_units
    from budgetfrontier.settings.values import plain

    class Dumper(yaml.SafeDumper):
        """A dumper that quotes text which YAML 1.1 reads as text, but the loader here as a number, such as 1e3."""

    def text(dumper: Dumper, value: str) -> yaml.ScalarNode:
        style = None if isinstance(plain(value), str) else "'"
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    yaml.dump(with_units(settings), sys.stdout, Dumper, sort_keys=False, allow_unicode=True)


def check_config(args: argparse.Namespace) -> None:
    """Check a configuration and everything it names: policies, hooks and seed files."""
    from budgetfrontier.settings.advice import advice
    from budgetfrontier.settings.schema import ClusterSettings

    settings = read_settings(args.file)
    if settings.hooks:
        from budgetfrontier.engine.hooks import load_hooks

        load_hooks(settings.hooks)
    _load_crawler(settings)
    warn(_bad_seeds(settings))
    if not settings.seeds:
        warn(["there are no seeds"])
    warn(advice(settings))
    warn_of_adjustments(settings, args.job or Path(folder_name(settings.crawl)))
    if args.print:
        _print(settings)
    note(f"{args.file} is valid: seeds {len(settings.seeds):,}, overrides {len(settings.overrides):,}")
    if settings.cluster != ClusterSettings():
        worker = shlex.join(("budgetfrontier", "worker", "--config", str(args.file)))
        note(f"to run it in partitions, start workers: {worker} --folder FOLDER --listen ADDRESS:PORT")
        return
    start = shlex.join(("budgetfrontier", "crawl", str(args.file)))
    note(f"to run it, with the job in the folder {folder_name(settings.crawl)}: {start}")
