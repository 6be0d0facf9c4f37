"""Report files `frontier.txt` and `frontier.json`: `python -m budgetfrontier.reports.report_files FRONTIER FOLDER`.

A crawl runs this module in a separate process: one on a million queues takes seconds, which would block the engine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from budgetfrontier.reports import listings, text
from budgetfrontier.reports.overview import Overview
from budgetfrontier.storage.modes import make_folder, opener
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.report import Report
from budgetfrontier.storage.whole_files import atomic_file


def write(frontier: Path, folder: Path) -> tuple[Report, Overview]:
    """Write both reports as of the last commit; return their contents, without the rows.

    Each file is replaced atomically: a reader finds the old report or the new one.
    """
    make_folder(folder, like=folder.parent)
    overview = Overview(20)
    with _text_file(folder / "frontier.json") as json:
        with Reader(frontier) as reader, reader.scan() as (head, rows):
            json.writelines(listings.json_report(head, overview.through(rows)))
        json.write("\n")
        with _text_file(folder / "frontier.txt") as plain:
            plain.write(text.render(head, overview=overview))
    return head, overview


def read(frontier: Path) -> tuple[Report, Overview]:
    """Return the contents of both reports, as of the last commit, without the rows."""
    overview = Overview(20)
    with Reader(frontier) as reader:
        return overview.read(reader), overview


@contextmanager
def _text_file(path: Path) -> Iterator[TextIO]:
    """Open a text file that appears complete, even if the report process of a killed crawl writes the same one."""
    with atomic_file(path, opener=opener) as file:
        out = TextIOWrapper(file, encoding="utf-8")
        yield out
        out.detach()


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
