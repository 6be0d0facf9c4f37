"""The reports as files, `frontier.txt` and `frontier.json`: `python -m budgetfrontier.reports.files FRONTIER FOLDER`.

A crawl runs this in a process of its own: a report of a million queues takes seconds, which would hold up its engine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TextIO

from budgetfrontier.reports import tables, text
from budgetfrontier.reports.overview import Overview
from budgetfrontier.store.modes import make_folder, opener
from budgetfrontier.store.reader import Reader
from budgetfrontier.store.report import Report


def write(frontier: Path, folder: Path) -> tuple[Report, Overview]:
    """Write both reports as of the last commit; return what they say, without the rows.

    Whoever looks finds the old ones or the new ones, whole.
    """
    make_folder(folder, like=folder.parent)
    overview = Overview(20)
    with Reader(frontier) as reader, _written(folder / "frontier.json.partial") as out:
        with reader.scan() as (head, rows):
            out.writelines(tables.json_report(head, overview.through(rows)))
        out.write("\n")
    with _written(folder / "frontier.txt.partial") as out:
        out.write(text.render(head, overview=overview))
    for name in ("frontier.txt", "frontier.json"):
        os.replace(folder / f"{name}.partial", folder / name)
    return head, overview


def _written(path: Path) -> TextIO:
    return open(path, "w", encoding="utf-8", opener=opener)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
