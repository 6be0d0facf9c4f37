"""The words for the names in the arguments and effects of commands, for people: programs have the names themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from budgetfrontier.core.units import counted, write_duration

_WORDS: Final = {
    "as_of": "as of",
    "block": "blocked until",
    "by_name": "retired by an operator",
    "changed_count": "queues changed since",
    "closed_until": "outside its crawl windows until",
    "cost": "cost of those pending",
    "delayed": "delayed until",
    "duplicate": "known already",
    "force": "whatever has changed since",
    "gone": "not there any more",
    "ids": "entries or dead letters",
    "kept": "kept for undo",
    "later": "of these scheduled for later",
    "left": "left as they are",
    "matched": "queues selected",
    "max_completed": "limit of completed URLs",
    "missing_partitions": "partitions that do not answer",
    "of_queues": "queues of these",
    "out": "being fetched",
    "paces": "paces of queues before",
    "paces_again": "paces that queues have again",
    "queue_names": "names of queues",
    "rest": "rests until",
    "still_over": "over a budget or quota still",
    "undecided": "for which the pattern took too long",
    "unknown": "not known",
    "uris": "URIs",
    "waiting": "whose URLs wait already",
}
"""The names for which their own words, without "_", would not do."""


def in_words(name: str) -> str:
    """Return the words for a name in the arguments or the effect of a command.

    >>> in_words("still_over"), in_words("wake_time"), in_words("deleted")
    ('over a budget or quota still', 'wake time', 'deleted')
    """
    return _WORDS.get(name, name.replace("_", " "))


def command_in_words(command: str) -> str:
    """Return the name of a command as it is on the command line.

    >>> command_in_words("set_queue")
    'set-queue'
    """
    return command.replace("_", "-")


def entry_in_words(name: object, command: str) -> str:
    """Return an entry of the audit as refusals name it.

    >>> entry_in_words(5, "set_queue")
    '5, set-queue'
    """
    return f"{name}, {command_in_words(command)}"


PACE = ("interval", "max_completed")
"""The names of what `set-queue` gives a queue."""


def pace_in_words(name: str, value: float | None) -> str:
    """Return the text of a value of PACE.

    >>> pace_in_words("interval", 5400), pace_in_words("interval", None)
    ('1h30m', 'of the settings')
    >>> pace_in_words("max_completed", 1500), pace_in_words("max_completed", 0)
    ('1,500', 'none')
    """
    if name == "interval":
        return "of the settings" if value is None else write_duration(value)
    return f"{value:,.0f}" if value else "none"


def paces_in_words(name: str, queues: Mapping[str, int]) -> str:
    """Return the values of PACE that queues have, from how many have each: by values as JSON, and "" for others.

    >>> paces_in_words("interval", {"null": 3})
    'of the settings'
    >>> paces_in_words("interval", {"2.0": 14, "3600.0": 1, "": 2})
    '2s for 14 queues, 1h for 1 queue and others for 2 queues'
    """
    told = {value: pace_in_words(name, json.loads(value)) if value else "others" for value in queues}
    if len(queues) == 1:
        return told.popitem()[1]
    *first, last = (f"{told[value]} for {counted(count, 'queue')}" for value, count in queues.items())
    return f"{', '.join(first)} and {last}"
