"""The list of commands in groups, each with the module that adds it and examples for its help."""

from __future__ import annotations

from typing import NamedTuple


class CliCommand(NamedTuple):
    """One command: `budgetfrontier.tools.cli.MODULE` adds it; the examples are the arguments after its name."""

    module: str
    examples: tuple[str, ...]


GROUPS: dict[str, dict[str, CliCommand]] = {
    "run": {
        "init": CliCommand(
            "configure", ("crawl.yaml", "crawl.yaml --sink", "--scrapy spiders", "--heritrix old-job crawl.yaml")
        ),
        "check-config": CliCommand("configure", ("crawl.yaml", "crawl.yaml --print")),
        "crawl": CliCommand("crawl", ("crawl.yaml", "crawl.yaml --job jobs/news --metrics 127.0.0.1:9100")),
        "demo": CliCommand("crawl", ("", "--job demo")),
        "completion": CliCommand("completion", ("bash", "zsh")),
    },
    "look": {
        "report": CliCommand("show", ("news", "news --kind responsecodes --since 2h --format csv")),
        "queues": CliCommand("show", ("news --state RETIRED", "news --match domain:example.org --sort expenditure")),
        "queue": CliCommand("show", ("news www.example.org", "news www.example.org --patterns")),
        "explain": CliCommand("show", ("news https://www.example.org/archive", "news www.example.org")),
        "compare": CliCommand("compare", ("news old-news", "news --runs 3 4 --by spent")),
        "statuses": CliCommand("status_listing", ("news --status 5xx", "news --by kind --match domain:example.org")),
        "traps": CliCommand("trap_holding", ("news", "news --apply shop.example.org --dry-run")),
        "audit": CliCommand("show", ("news --since 2d", "news --queue www.example.org --operation adjust")),
        "leases": CliCommand("leases", ("news", "news --older-than 10m")),
        "alerts": CliCommand("alerts", ("news", "news --test", "news --watch")),
        "runs": CliCommand("runs", ("news", "news --limit 5 --format json")),
        "dead-letters": CliCommand("transfer", ("news --by-reason", "news --replay all --reason 'the server is back'")),
        "simulate": CliCommand(
            "simulate", ("news --until 12h", "news --set queue_total_budget=500 --match domain:example.org")
        ),
        "jobs": CliCommand("job_listing", ("jobs", "news old-news --format json")),
        "top": CliCommand("top", ("news", "news --once")),
        "console": CliCommand("console", ("news", "jobs --listen 127.0.0.1:8181 --token-file token")),
        "token": CliCommand("token", ("tokens add alice --role steer", "tokens list")),
        "partitions": CliCommand("partitions", ("kafka://broker:9092/news", "kafka://broker:9092/news --format json")),
    },
    "change": {
        "adjust": CliCommand(
            "adjust",
            (
                "news --match domain:example.org --total-budget 5000 --dry-run",
                "news --set politeness.min_delay=10s --reason 'asked to slow down'",
            ),
        ),
        "sheet": CliCommand(
            "sheet",
            ("news add smallBudget --match domain:shop.example --dry-run", "news set smallBudget --set precedence=5"),
        ),
        "retire": CliCommand("steer", ("news trap.example.org", "news trap.example.org --reason 'endless calendar'")),
        "unretire": CliCommand(
            "steer", ("news trap.example.org", "news trap.example.org --reason 'rules are in place'")
        ),
        "snooze": CliCommand(
            "steer", ("news www.example.org --for 2h", "news www.example.org --until 2027-01-01T06:00Z")
        ),
        "wake": CliCommand("steer", ("news www.example.org", "news www.example.org --reason 'they are back'")),
        "set-queue": CliCommand("steer", ("news www.example.org --interval 5s", "news www.example.org --limit 1000")),
        "delete": CliCommand(
            "steer", ("news --pattern '/calendar/' --dry-run", "news --queue '*.example.org' --reason 'not wanted'")
        ),
        "undo": CliCommand("steer", ("news 17 --dry-run", "news 17 --reason 'it was the wrong host'")),
        "pause": CliCommand("steer", ("news", "news --reason 'maintenance until 18:00'")),
        "resume": CliCommand("steer", ("news", "news --reason 'maintenance is over'")),
        "terminate": CliCommand("steer", ("news", "news --reason 'replaced by news-2027'")),
        "forget": CliCommand(
            "forget",
            ("news --match domain:example.org --pattern /archive/ --dry-run", "news https://www.example.org/news"),
        ),
        "revive": CliCommand(
            "revive", ("news --status -9998 --dry-run", "news --status -5000 --since 2027-01-01T00:00Z")
        ),
        "import": CliCommand("transfer", ("news urls.txt", "news seeds.txt --seeds --dry-run")),
    },
    "care for files": {
        "verify": CliCommand("verify", ("news", "news --repair")),
        "backup": CliCommand("maintain", ("news /backup/news", "news /backup/news --max-growth 10GiB")),
        "compact": CliCommand("maintain", ("news", "jobs/news")),
        "export": CliCommand("transfer", ("news pending.jsonl.gz", "news - --format urls --match domain:example.org")),
        "removed": CliCommand("removed", ("news", "news --older-than 30d --discard")),
    },
    "share": {
        "serve": CliCommand("serve", ("jobs", "jobs --config crawl.yaml --listen 127.0.0.1:7071 --token-file token")),
        "worker": CliCommand("worker", ("--config crawl.yaml", "--config crawl.yaml --folder /data/news")),
        "bus-broker": CliCommand("bus", ("bus.journal", "bus.journal --listen tcp://127.0.0.1:5550")),
        "bus-worker": CliCommand(
            "bus_worker", ("news --role db", "--role strategy --strategy my_strategy:Strategy")
        ),
    },
}  # fmt: skip

COMMANDS: dict[str, CliCommand] = {name: command for group in GROUPS.values() for name, command in group.items()}

MODULES: tuple[str, ...] = tuple(dict.fromkeys(command.module for command in COMMANDS.values()))
"""The modules that add commands, with `register(subparsers)`. None imports a dependency before one of them runs."""
