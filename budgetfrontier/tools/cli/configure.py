"""Commands about settings: `init` and `check-config`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from budgetfrontier.tools.cli.common import (
    Commands,
    add_command,
    again,
    folder_name,
    read_settings,
    warn,
    warn_of_adjustments,
)
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
  # sinks: ["my_sinks:SqlitePages"]   # functions or classes of your own that get every page: init --sink writes one

# How often one host is asked, and what it may use up: a fetch costs 1, from its host's budget.
frontier:
  politeness: {delay_factor: 5.0, min_delay: 3s, max_delay: 30s}
  balance_replenish_amount: 3000      # what a host may spend before others have their turn
  queue_total_budget: -1              # what a host may spend in all, which ends traps; -1: no limit
  # cost_policy: wag                  # what a fetch costs: unit (1), wag (more for query strings), zero, ...
  # pause_at_finish: true             # pause when all is crawled that budgets allow, to look and to raise some
  # retry: {max_retries: 30, delay: 15m}
  # revisit: {after: 7d}              # fetch every page again after a week

# Settings for some hosts. All that match apply in order, later wins.
# overrides:
#   - match: "domain:example.com"
#     set: {queue_total_budget: 100, politeness.min_delay: 10s}
"""


SINK = "my_sinks.py"
SINK_LINE = 'sinks: ["my_sinks:SqlitePages"]'
SCRAPY_PROJECT = (
    "scrapy.cfg", "myproject/__init__.py", "myproject/settings.py", "myproject/spiders/__init__.py",
    "myproject/spiders/pages.py",
)  # fmt: skip


def register(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = add_command(
        commands,
        "init",
        init,
        "write a commented starter configuration, a sink, or a Scrapy project",
        more="Never overwrites a file.",
    )
    parser.add_argument(
        "file", metavar="FILE", type=Path, nargs="?",
        help="the YAML file to write (default: crawl.yaml); with --scrapy, the folder of the project (default: .)",
    )  # fmt: skip
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--sink", action="store_true",
        help=f"write {SINK} beside FILE, too, which stores every page in an SQLite database, and name it in FILE",
    )  # fmt: skip
    kinds.add_argument(
        "--scrapy", action="store_true",
        help="instead of FILE, write a Scrapy project whose spider has budgets and a frontier on disk",
    )  # fmt: skip
    kinds.add_argument(
        "--heritrix", metavar="JOB", type=Path,
        help="write FILE from the crawler-beans.cxml of a job of Heritrix 3; JOB is the folder of that job",
    )  # fmt: skip
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
    """Write the starter file, alone or with a sink, or a Scrapy project."""
    if str(args.file) == "-":
        args.parser.error("argument FILE: nothing is written to standard output; name a file, such as crawl.yaml")
    if args.scrapy:
        _init_scrapy(args.file or Path())
        return
    file: Path = args.file or Path("crawl.yaml")
    if file.is_dir():
        args.parser.error(f"argument FILE: {file} is a folder; name the file, such as {file / 'crawl.yaml'}")
    if args.sink and file.name == SINK:
        args.parser.error(f"argument FILE: {file} is written for the sink; name the YAML file, such as crawl.yaml")
    if args.sink:
        _init_sink(file)
        return
    if args.heritrix is not None:
        _init_from_heritrix(args.heritrix, file)
        return
    _write_new({file: STARTER})
    check = shlex.join(("budgetfrontier", "check-config", str(file)))
    note(f"{file} written: set its seeds and user_agent, then check it: {check}")


def _init_sink(file: Path) -> None:
    """Write a sink beside the YAML file, and that file with the sink in it, unless there is one."""
    from budgetfrontier.errors import FrontierError

    sink = file.with_name(SINK)
    if sink.exists():
        raise FrontierError(
            f"{sink}: there is such a file, and nothing was written; to use a sink of it, add to the section `output` "
            f'of {file}: sinks: ["my_sinks:NAME"]; for a new one, name a FILE in another folder'
        )
    check = f"PYTHONPATH={shlex.quote(str(file.parent))} {shlex.join(('budgetfrontier', 'check-config', str(file)))}"
    if file.exists():
        _write_new({sink: _template(SINK)})
        note(f"{sink} written: add to the section `output` of {file}, which is unchanged: {SINK_LINE}")
        note(f"then check it: {check}")
    else:
        _write_new({sink: _template(SINK), file: STARTER.replace(f"# {SINK_LINE}", f"{SINK_LINE}  ")})
        note(f"{sink} and {file} written: set seeds and user_agent in {file}, then check it: {check}")
    note("`budgetfrontier crawl` needs the same PYTHONPATH, to find the module of the sink")


def _init_from_heritrix(source: Path, file: Path) -> None:
    """Write the configuration of a job of Heritrix as YAML, with a line for all that is left out."""
    from budgetfrontier.reports.format import counted
    from budgetfrontier.tools.heritrix.migration import configuration, migrate

    migration = migrate(source, file.stem)
    _write_new({file: migration.text} | {file.with_name(name): text for name, text in migration.files.items()})
    for remark in migration.remarks:
        note(remark.text if remark.line.file else f"{configuration(source)}:{remark.text}")
    written = " and ".join([str(file), *(str(file.with_name(name)) for name in migration.files)])
    check = shlex.join(("budgetfrontier", "check-config", str(file)))
    remarks = counted(len(migration.remarks), "remark")
    note(f"{written} written, with {remarks}, which {file} repeats; check it: {check}")
    if source.is_dir():
        command = shlex.join(("budgetfrontier", "import", "JOB", str(source)))
        note(f"then begin the crawl with --paused, import the recovery log, and resume: {command}")


def _init_scrapy(folder: Path) -> None:
    """Write the Scrapy project."""
    from budgetfrontier.errors import FrontierError

    if (folder / "scrapy.cfg").exists():
        line = 'SCHEDULER = "budgetfrontier.scrapy.Scheduler"'
        raise FrontierError(f"{folder} has a Scrapy project already; what its settings.py needs is this line: {line}")
    _write_new({folder / name: _template(f"scrapy_project/{name}") for name in SCRAPY_PROJECT})
    note(f"{folder / 'scrapy.cfg'} and {folder / 'myproject'} written: set USER_AGENT in myproject/settings.py")
    note(f"to run the spider, in the folder {folder}: scrapy crawl pages -a url=https://www.example.org/")


def _template(name: str) -> str:
    """Return a file of the folder `templates`, whose entries are links to docs/examples."""
    from importlib.resources import files

    return (files("budgetfrontier.tools.cli") / "templates" / name).read_text(encoding="utf-8")


def _write_new(texts: Mapping[Path, str]) -> None:
    """Write files with their folders: all of them, or none if one exists already or the disk is full."""
    from budgetfrontier.storage.whole_files import naming_file

    written: list[Path] = []
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with naming_file(path), open(path, "x", encoding="utf-8") as out:
                written.append(path)
                out.write(text)
    except OSError:  # a partial file would make the next attempt fail
        for path in written:
            path.unlink()
        raise


def _load_crawler(settings: Settings) -> None:
    """Load the SURT files and sinks of a crawl, to find errors. Import only the modules that they need."""
    from budgetfrontier.errors import MissingExtra
    from budgetfrontier.rules.scope import Scope

    Scope(settings.scope)
    try:
        if settings.output.sinks:
            from budgetfrontier.crawler.outputs.sinks import Sinks

            Sinks(settings.output.sinks)
    except MissingExtra:
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
    from budgetfrontier.settings import policy_factory, precedence_lists, sheets
    from budgetfrontier.settings.advice import advice
    from budgetfrontier.settings.schema import ClusterSettings
    from budgetfrontier.settings.seed_settings import with_seed_settings

    settings = read_settings(args.file)
    if settings.hooks:
        from budgetfrontier.engine.hooks import load_hooks

        load_hooks(settings.hooks)
    with_seed_settings(settings)
    for path in policy_factory.preloaded_files(sheets.uri_precedence_policies(settings)):
        for _ in precedence_lists.read(Path(path)):  # raises for a bad line
            pass
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
        worker = again(("budgetfrontier", "worker", "--config", str(args.file)), settings)
        note(f"to run it in partitions, start workers: {worker} --folder FOLDER --listen ADDRESS:PORT")
        return
    start = again(("budgetfrontier", "crawl", str(args.file)), settings)
    note(f"to run it, with the job in the folder {folder_name(settings.crawl)}: {start}")
