"""The URLs that a crawl starts from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from budgetfrontier.settings.schema import Seed

_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)


def seed_urls(seed: Seed) -> Iterator[str]:
    """Yield the URLs of a seed as they are written: its own, or those of its file; OSError if that cannot be read.

    A file has one URL a line; # starts a comment, at the beginning of a line or after a blank.
    """
    if seed.url:
        yield seed.url
        return
    with Path(seed.file or "").open(encoding="utf-8-sig", errors="replace") as file:
        for line in file:
            if url := uncommented(line):
                yield url


def uncommented(line: str) -> str:
    """Return a line of a list of URLs without its comment: a # within a URL is none.

    >>> uncommented("http://example.org/#top # the front page")
    'http://example.org/#top'
    """
    return _COMMENT.sub("", line).strip()
