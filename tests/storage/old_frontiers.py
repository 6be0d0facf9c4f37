"""The stored frontiers of older schemas, made by `tests/data/make_frontier.py`."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

from budgetfrontier.storage import keys

DATA = Path(__file__).parents[1] / "data"
SCHEMAS = range(1, keys.SCHEMA)
NEWEST = SCHEMAS[-1]


@cache
def found_in(schema: int) -> dict[str, Any]:
    """What was found in the frontier of a schema by the code that made it."""
    found: dict[str, Any] = json.loads((DATA / f"frontier-v{schema}.json").read_text(encoding="ascii"))
    return found


def unpack(schema: int, folder: Path) -> Path:
    """Put the frontier of a schema into a new folder."""
    folder.mkdir()
    (folder / "data.mdb").write_bytes(lzma.decompress((DATA / f"frontier-v{schema}.mdb.xz").read_bytes()))
    for name, data in found_in(schema).get("removed", {}).items():  # what was deleted
        (folder / "removed").mkdir(exist_ok=True)
        (folder / "removed" / name).write_bytes(bytes.fromhex(data))
    return folder
