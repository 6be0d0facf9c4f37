"""Seeds: the URLs that a crawl starts from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri, Directive, Tally
from budgetfrontier.engine.admission.storable import MAX_RECORD
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.reports.format import counted
from budgetfrontier.reports.totals import reasons_of
from budgetfrontier.rules.queue_keys import MAX_QUEUE_KEY
from budgetfrontier.settings import Settings, url_lists
from budgetfrontier.settings.schema import Seed
from budgetfrontier.settings.url_lists import BadLine, ListedUrl

MOST_TOLD = 20
"""Lines of seed files that are left out, and named when a crawl begins."""
_REFUSED = {
    "queue": f"refused: a queue policy returned what is no text of 1 to {MAX_QUEUE_KEY} bytes",
    "too-large": f"refused: with the metadata, more than {MAX_RECORD} bytes",
}


def each_seed(settings: Settings) -> Iterator[tuple[str, Seed]]:
    """Yield each seed URL as written, with the seed: of a line of a file, with the settings of the line."""
    for seed in settings.seeds:
        for _, entry in url_lists.entries(seed):
            if isinstance(entry, ListedUrl):
                yield entry.text, url_lists.seed_of(entry, seed) if entry.given else seed


def scheduled_seeds(settings: Settings) -> Iterator[CrawlUri]:
    """Yield the seeds as URIs to schedule, with a directive that puts them before all links."""
    for seed in settings.seeds:
        uri = CrawlUri("", directive=Directive.MEDIUM)
        for _, entry in url_lists.entries(seed):
            if isinstance(entry, ListedUrl):
                own = url_lists.seed_of(entry, seed) if entry.given else seed
                yield msgspec.structs.replace(
                    uri, url=entry.text, meta=entry.meta, priority=own.priority, source=own.source, queue=own.queue
                )


def refused_seeds(tally: Tally) -> Iterator[str]:
    """Yield sentences for operators on the scheduling of the seeds: how many were refused, and why."""
    full, invalid = reasons_of(tally)
    others = [(reason, count) for reason, count in invalid if reason not in _REFUSED]
    if others:
        number = sum(count for _, count in others)
        what = "is not an http or https URL" if number == 1 else "are not http or https URLs"
        yield f"{counted(number, 'seed')} {what} ({_joined(others)})"
    for reason, count in invalid:
        if reason in _REFUSED:
            yield f"{counted(count, 'seed')} {'was' if count == 1 else 'were'} {_REFUSED[reason]}"
    if full:
        yield f"{counted(tally.full, 'seed')} found no room ({_joined(full)}); raise the limit and start again"


def _joined(reasons: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in reasons)


def left_out(seeds: Iterable[Seed]) -> Iterator[str]:
    """Yield the first lines of files of seeds that are left out, and how many there are besides. Raises OSError."""
    lines = bad_lines(seeds)
    yield from islice(lines, MOST_TOLD)
    if more := sum(1 for _ in lines):
        yield f"{counted(more, 'more line')} of files of seeds {'is' if more == 1 else 'are'} left out"


def bad_lines(seeds: Iterable[Seed]) -> Iterator[str]:
    """Yield the faults in files of seeds, as `file:line:column: words`. Raises OSError."""
    for seed in seeds:
        for number, entry in url_lists.entries(seed) if seed.file else ():
            if isinstance(entry, BadLine):
                yield f"{seed.file}:{number}:{entry.column}: {entry}"


def metadata_notes(seeds: Iterable[Seed]) -> Iterator[str]:
    """Yield a sentence on the metadata of each file of seeds that has any. Raises OSError."""
    for seed in seeds:
        found = (
            (entry.meta for _, entry in url_lists.entries(seed) if isinstance(entry, ListedUrl)) if seed.file else ()
        )
        if names := dict.fromkeys(name for meta in found for name in meta or ()):
            yield f"{seed.file}: {url_lists.metadata_note(names)}"


def any_valid(seeds: Iterable[Seed]) -> bool:
    """Return whether the seeds contain a valid URL. Raises OSError if a file cannot be read."""
    for url in (url for seed in seeds for url in url_lists.seed_urls(seed)):
        with contextlib.suppress(InvalidUrl):
            return bool(uris.parse(url))
    return False
