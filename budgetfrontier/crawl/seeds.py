"""Seeds: the URLs that a crawl starts from."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from budgetfrontier import uris
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.model import CrawlUri, Directive, Tally
from budgetfrontier.reports.format import counted
from budgetfrontier.reports.totals import reasons_of
from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import Seed

_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)


def each_seed(settings: Settings) -> Iterator[tuple[str, Seed]]:
    """Yield each seed URL as written, with the entry of the settings that contains it."""
    return ((url, seed) for seed in settings.seeds for url in seed_urls(seed))


def scheduled_seeds(settings: Settings) -> Iterator[CrawlUri]:
    """Yield the seeds as URIs to schedule, with a directive that puts them before all links."""
    for url, seed in each_seed(settings):
        yield CrawlUri(url, directive=Directive.MEDIUM, priority=seed.priority, source=seed.source, queue=seed.queue)


def refused_seeds(tally: Tally) -> Iterator[str]:
    """Yield what an operator should know of the scheduling of the seeds: how many were refused, and why."""
    full, invalid = ([f"{count} {reason}" for reason, count in reasons] for reasons in reasons_of(tally))
    if invalid:
        what = "is not an http or https URL" if tally.invalid == 1 else "are not http or https URLs"
        yield f"{counted(tally.invalid, 'seed')} {what} ({', '.join(invalid)})"
    if full:
        yield f"{counted(tally.full, 'seed')} found no room ({', '.join(full)}); raise the limit and start again"


def seed_urls(seed: Seed) -> Iterator[str]:
    """Yield the URLs of an entry as written: its own, or those of its file. Raises OSError if that cannot be read.

    A file has one URL per line; "#" at the start of a line or after whitespace begins a comment.
    """
    if seed.url:
        yield seed.url
        return
    for _, url in numbered(Path(seed.file or "")):
        yield url


def numbered(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the URLs of a file of seeds, each with its line number, from 1."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if url := uncommented(line):
                yield number, url


def any_valid(seeds: Iterable[Seed]) -> bool:
    """Tell whether the seeds contain a valid URL. Raises OSError if a file cannot be read."""
    for url in (url for seed in seeds for url in seed_urls(seed)):
        with contextlib.suppress(InvalidUrl):
            return bool(uris.parse(url))
    return False


def uncommented(line: str) -> str:
    """Return a line of a list of URLs without its comment; a "#" within a URL does not begin one.

    >>> uncommented("http://example.org/#top # the front page")
    'http://example.org/#top'
    """
    return _COMMENT.sub("", line).strip()
