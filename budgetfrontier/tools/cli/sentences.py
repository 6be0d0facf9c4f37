"""Sentences for people: on stdout with the data, or on stderr. On a terminal they are wrapped at its width."""

from __future__ import annotations

import sys
from typing import Any, TextIO


def say(text: str) -> None:
    """Print a sentence to stdout. An error of its disk names it."""
    from budgetfrontier.storage.whole_files import naming_file

    with naming_file("standard output"):
        print(fitted(_escaped(text), sys.stdout))


def note(text: str) -> None:
    """Print a message to stderr; stdout is for data."""
    text = _escaped(text)
    print(fitted(text, sys.stderr) if _is_terminal(sys.stderr) else text, file=sys.stderr)


def asks() -> bool:
    """Return whether there is a person to ask: a terminal for the question and for the answer."""
    return _is_terminal(sys.stdin) and _is_terminal(sys.stdout)


def fitted(text: str, out: TextIO) -> str:
    """Return the lines of a text as they fit a stream: as they are, unless it is a terminal."""
    from budgetfrontier.reports.layout import layout_for

    layout = layout_for(out, wide=False)
    return "\n".join(part for line in text.split("\n") for part in layout.wrapped(line, "  "))


def _escaped(text: str) -> str:
    """Return the lines of a text with control characters escaped: names in it may have been given by anybody."""
    if text.isprintable():
        return text
    from budgetfrontier.reports.format import clean

    return "\n".join(map(clean, text.split("\n")))


def _is_terminal(out: TextIO) -> bool:
    try:
        return out.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def tell_end(effect: dict[str, Any]) -> None:
    """Print of a dry run whether nothing would be left to crawl.

    That nothing was changed, or that the crawl was terminated, is said once of a command, see `on_crawl`.
    """
    from budgetfrontier.rules.crawl_states import NOTHING_MORE

    if effect.get("end") not in (None, NOTHING_MORE):
        say(effect["end"])


def note_dry_run() -> None:
    """Print that a dry run has changed nothing."""
    note("dry run: nothing was changed")
