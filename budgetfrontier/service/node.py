"""The state of a server that holds for all its crawls, and survives it: the active flag and the default delay."""

from __future__ import annotations

from pathlib import Path

import msgspec

from budgetfrontier.errors import FrontierError
from budgetfrontier.store.whole_files import atomic_file

FILE = "node.json"


class Node(msgspec.Struct):
    """The state of a server."""

    active: bool = True
    """Whether GetURLs hands URLs out: SetActive."""
    delay: float | None = None
    """Seconds between two serves of a queue that has no delay of its own: SetDelay without a key; None: the setting."""
    delay_set: float = 0.0
    """When it was set, in epoch seconds."""


def read(folder: Path) -> Node:
    """Return the state stored in a folder, the initial one if there is none. Raises FrontierError if it is damaged."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Node)
    except FileNotFoundError:
        return Node()
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        path = folder / FILE
        raise FrontierError(f"{path} is damaged ({e}); delete it, then set the active flag and the delay again") from e


def write(folder: Path, node: Node) -> None:
    """Store the state."""
    with atomic_file(folder / FILE) as file:
        file.write(msgspec.json.encode(node))
