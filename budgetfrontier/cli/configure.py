"""Commands about settings: `init` and `check-config`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from budgetfrontier.cli.common import Commands, add_command, note

STARTER = """\
# A crawl within budgets. `budgetfrontier check-config FILE` finds mistakes, `budgetfrontier crawl FILE` runs it.

crawl: my-crawl                       # the name in reports and logs, and of the job's folder

seeds:
  - https://www.example.org/
  # - {url: https://www.example.net/, priority: 10}
  # - {file: seeds.txt}               # one URL a line

scope:
  accept: [seed-hosts]                # or seed-domains, all, domain:..., host:..., surt:..., regex:...
  # reject: ['regex:\\.(zip|exe|iso)$']
  max_hops: 20

frontier:
  hold_queues: true                   # new queues wait for their turn; false: all hosts at once
  balance_replenish_amount: 3000      # what a queue may spend each time it is activated
  queue_total_budget: -1              # what a queue may spend in its life; -1: no maximum
  cost_policy: unit                   # or zero, wag, anti-calendar, additive
  pause_at_finish: false              # true: pause when all is crawled that budgets allow, to look and to adjust
  politeness: {delay_factor: 5.0, min_delay: 3s, max_delay: 30s}
  retry: {max_retries: 30, delay: 15m}

# Settings for some hosts. All that match apply in order, later wins.
# overrides:
#   - match: "domain:example.com"
#     set: {queue_total_budget: 100, balance_replenish_amount: 20}

fetch:
  # Say who you are, with a page or an address for those who want you to stop.
  user_agent: "my-crawler/1.0 (+https://www.example.org/crawler)"
  concurrency: 32

# limits: {max_uris: 1000000, max_time: 12h, max_bytes: 50GiB}
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
    parser.add_argument("--print", action="store_true", help="print all settings in force, defaults included, as YAML")


def init(args: argparse.Namespace) -> None:
    """Write the starter file."""
    with open(args.file, "x", encoding="utf-8") as out:
        out.write(STARTER)
    note(f"{args.file} written; set its seeds and user_agent, then: budgetfrontier crawl {args.file}")


def check_config(args: argparse.Namespace) -> None:
    """Read a configuration with all that it names: policies, hooks and seed files."""
    from budgetfrontier import uris
    from budgetfrontier.engine.opening import load_hooks
    from budgetfrontier.errors import InvalidUrl
    from budgetfrontier.settings import Settings

    settings = Settings.from_yaml(args.file)
    load_hooks(settings.hooks)
    for url in (seed.url for seed in settings.seeds if seed.url is not None):
        try:
            uris.parse(url)
        except InvalidUrl as error:
            note(f"warning: the seed {url!a} will be refused: {error}")
    if not settings.seeds:
        note("warning: there are no seeds")
    if args.print:
        import yaml

        yaml.safe_dump(settings.to_dict(), sys.stdout, sort_keys=False, allow_unicode=True)
    note(f"{args.file} is valid: seeds {len(settings.seeds):,}, overrides {len(settings.overrides):,}")
