"""The state of a server that holds for all its crawls, and survives it: the active flag and the default delay."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from budgetfrontier.errors import FrontierError
from budgetfrontier.settings.values import LONGEST
from budgetfrontier.storage.whole_files import atomic_file

FILE = ".node.json"
"""The node's file, beside the folders of jobs, which have no names that begin with a dot."""

log = logging.getLogger("budgetfrontier.service")


class Node(msgspec.Struct):
    """The state of a server."""

    active: bool = True
    """Whether URLs are handed out, by whatever protocol: SetActive."""
    delay: float | None = None
    """Seconds between two serves of a queue that has no delay of its own: SetDelay without a key; None: the setting."""
    delay_set: float = 0.0
    """When it was set, in epoch seconds."""


_decode = msgspec.json.Decoder(Node).decode


def read(folder: Path) -> Node:
    """Return the state stored in a folder, the initial one if there is none. Raises FrontierError if it is damaged."""
    path = folder / FILE
    try:
        node = _decode(path.read_bytes())
    except FileNotFoundError:
        return Node()
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise FrontierError(f"{path} is damaged ({e}); delete it, then set the active flag and the delay again") from e
    if node.delay is not None and not 0.0 <= node.delay <= LONGEST:
        taken = delay_in_bounds(node.delay)
        log.warning("%s has a delay of %.0f seconds, which no crawl can take: it is %.0f", path, node.delay, taken)
        node.delay = taken
    return node


def delay_in_bounds(delay: float) -> float:
    """Return a delay as crawls can take it: the greatest that their settings have in place of a greater one."""
    return min(max(delay, 0.0), LONGEST)


def write(folder: Path, node: Node) -> None:
    """Store the state."""
    with atomic_file(folder / FILE) as file:
        file.write(msgspec.json.encode(node))
