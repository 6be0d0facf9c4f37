"""The URLs that a crawl starts from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from budgetfrontier.settings.schema import Seed


def seed_urls(seed: Seed) -> Iterator[str]:
    """Yield the URLs of a seed as they are written: its own, or those of its file; OSError if that cannot be read.

    A file has one URL a line; # starts a comment line.
    """
    if seed.url:
        yield seed.url
        return
    with Path(seed.file or "").open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if (url := line.strip()) and not url.startswith("#"):
                yield url
