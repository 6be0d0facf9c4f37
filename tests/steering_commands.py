"""A way to give each command that changes a crawl, for tests about all of them."""

from __future__ import annotations

import argparse

from budgetfrontier.tools.cli import build_parser

STEERING: dict[str, list[str]] = {
    "adjust": ["--total-budget", "5"],
    "dead-letters": ["--drop", "all"],
    "delete": ["--queue", "*"],
    "forget": ["https://a.test/none"],
    "import": ["FILE"],
    "pause": [],
    "removed": ["--discard"],
    "resume": [],
    "retire": ["--match", "*"],
    "revive": ["--status", "404"],
    "set-queue": ["b.test", "--interval", "1h"],
    "sheet": ["set", "small", "--set", "precedence=5"],
    "snooze": ["b.test", "--for", "1h"],
    "terminate": ["--yes"],
    "traps": ["--apply", "b.test"],
    "undo": ["AUDIT_ID"],
    "unretire": ["--match", "*"],
    "wake": ["b.test"],
}
"""The arguments of each command behind that of the crawl."""


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parsers of all commands."""
    (commands,) = (one for one in build_parser()._actions if isinstance(one, argparse._SubParsersAction))
    return dict(commands.choices)


def has_option(parser: argparse.ArgumentParser, option: str) -> bool:
    return any(option in action.option_strings for action in parser._actions)
