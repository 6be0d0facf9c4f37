"""Seeds: the URLs that a crawl starts from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import msgspec

from budgetfrontier import uris
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.model import CrawlUri, Directive, Tally
from budgetfrontier.reports.format import counted
from budgetfrontier.reports.totals import reasons_of
from budgetfrontier.settings import Settings, url_lists
from budgetfrontier.settings.schema import Seed
from budgetfrontier.settings.url_lists import BadLine, Entry

MOST_TOLD = 20
"""Lines of seed files that are not understood, and named when a crawl begins."""


def each_seed(settings: Settings) -> Iterator[tuple[str, Seed]]:
    """Yield each seed URL as written, with the entry of the settings that contains it."""
    return ((url, seed) for seed in settings.seeds for url in url_lists.seed_urls(seed))


def scheduled_seeds(settings: Settings) -> Iterator[CrawlUri]:
    """Yield the seeds as URIs to schedule, with a directive that puts them before all links."""
    for seed in settings.seeds:
        uri = CrawlUri("", directive=Directive.MEDIUM, priority=seed.priority, source=seed.source, queue=seed.queue)
        for _, entry in url_lists.entries(seed):
            if isinstance(entry, Entry):
                yield msgspec.structs.replace(uri, url=entry.text, meta=entry.meta)


def refused_seeds(tally: Tally) -> Iterator[str]:
    """Yield what an operator should know of the scheduling of the seeds: how many were refused, and why."""
    full, invalid = ([f"{count} {reason}" for reason, count in reasons] for reasons in reasons_of(tally))
    if invalid:
        what = "is not an http or https URL" if tally.invalid == 1 else "are not http or https URLs"
        yield f"{counted(tally.invalid, 'seed')} {what} ({', '.join(invalid)})"
    if full:
        yield f"{counted(tally.full, 'seed')} found no room ({', '.join(full)}); raise the limit and start again"


def bad_lines(seeds: Iterable[Seed]) -> Iterator[str]:
    """Yield what is wrong in files of seeds, as `file:line:column: words`. Raises OSError."""
    for seed in seeds:
        for number, entry in url_lists.entries(seed) if seed.file else ():
            told = str(entry) if isinstance(entry, BadLine) else url_lists.objection(entry.text)
            if told is not None:
                yield f"{seed.file}:{number}:{entry.column}: {told}"


def metadata_notes(seeds: Iterable[Seed]) -> Iterator[str]:
    """Yield a sentence for each file of seeds that has metadata: what becomes of it. Raises OSError."""
    for seed in seeds:
        found = (entry.meta for _, entry in url_lists.entries(seed) if isinstance(entry, Entry)) if seed.file else ()
        if names := dict.fromkeys(name for meta in found for name in meta or ()):
            yield f"{seed.file}: {url_lists.metadata_note(names)}"


def any_valid(seeds: Iterable[Seed]) -> bool:
    """Tell whether the seeds contain a valid URL. Raises OSError if a file cannot be read."""
    for url in (url for seed in seeds for url in url_lists.seed_urls(seed)):
        with contextlib.suppress(InvalidUrl):
            return bool(uris.parse(url))
    return False
